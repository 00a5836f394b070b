"""What a pipeline has the workers of a running cluster do, and what it says that the client does itself."""

from __future__ import annotations

import distributed
import pytest

from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.facts import facts_of
from daskfs.pipeline.plan import plan_pipeline
from daskfs.pipeline.run import run_pipeline

LIMITS = ["cluster.memory_limit=1GiB", "cluster.client_memory_limit=4GiB"]


@pytest.fixture
def running():
    """A cluster that somebody else has started."""
    with distributed.LocalCluster(n_workers=2, processes=False, protocol="tcp", dashboard_address=":0") as cluster:
        yield cluster


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
def test_a_running_cluster_makes_the_store_and_predicts_the_rows_for_testing(document, write, running, monkeypatch):
    """The same store byte for byte, the same numbers bit for bit."""
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 1 << 14)
    monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)
    monkeypatch.setattr("daskfs.pipeline.predicting.BLOCK_NBYTES", 512)
    path = write(document)
    here = load_pipeline(path, ["store.path=here.zarr", "output=here"])
    on = ["cluster.kind=address", f"cluster.address={running.scheduler_address}", *LIMITS]
    there = load_pipeline(path, [*on, "store.path=there.zarr", "output=there"])
    expected, found = run_pipeline(here).results["message"], run_pipeline(there).results["message"]
    assert files_of(here.store_path) == files_of(there.store_path)
    assert found.metrics == expected.metrics
    ran = {name: prefix.state_counts["forgotten"] for name, prefix in running.scheduler.task_prefixes.items()}
    assert ran["ingest-encode"] > 3
    assert ran["evaluate"] > 3


def planned(path, *overrides):
    pipeline = load_pipeline(path, [*LIMITS, *overrides])
    return plan_pipeline(pipeline, facts_of(pipeline))


def test_a_plan_names_what_the_client_does_itself_and_why(document, write, monkeypatch):
    monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)
    path, address = write(document), ("cluster.kind=address", "cluster.address=tcp://a:1")
    assert "client   does itself: nothing\n" in planned(path, *address).to_text()
    local = planned(path, "cluster.kind=local")
    said = {step["name"]: step["in_client"] for step in local.to_document()["steps"]}
    assert said["ingest"] == "starting processes takes longer for a store below 512.0 MiB"
    assert not said["message"] + said["evaluate"]
    assert f"client   does itself: ingest: {said['ingest']}\n" in local.to_text()
    selection = "select={method: online_substitution, n_features_to_select: 2}"
    (step,) = [step for step in planned(path, *address, selection).steps if step.name == "online_substitution"]
    assert "schedule: screen" in step.in_client
    assert any("column" in term for term in step.client.terms)
    assert "client   does itself" not in load_plan_here(path)


def load_plan_here(path):
    pipeline = load_pipeline(path)
    return plan_pipeline(pipeline, facts_of(pipeline)).to_text()
