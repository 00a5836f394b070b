import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from daskfs.errors import ConfigError, PlanError
from daskfs.pipeline.checks import check_pipeline
from daskfs.pipeline.config import Cluster, load_pipeline
from daskfs.pipeline.facts import DataFacts, facts_of, facts_of_store
from daskfs.pipeline.limits import (
    BASE_CLIENT_NBYTES,
    BASE_SCHEDULER_NBYTES,
    BASE_WORKER_NBYTES,
    HELD_NBYTES,
    MIB,
    ProcessLimits,
    limits_of,
)
from daskfs.pipeline.plan import make_plan, plan_pipeline
from daskfs.selectors.shared.budget import Budget, SelectorPlan
from daskfs.sources.ingest import ingest
from tests.contract.cases import CASES
from tests.refusals import refused

GIB = 1024 * MIB
DATA = DataFacts(
    n_samples=1_000_000,
    n_features=1000,
    dtype="float32",
    tile_shape=(2048, 512),
    n_train=800_000,
    is_estimate=False,
    store_exists=False,
    store_nbytes=4_000_000_000,
)
SELECT = {
    "message": SelectorPlan(30, 1, 3_200_000_000, Budget({"rows": 200 * MIB}), Budget({"votes": 20 * MIB}), "in words")
}


def synthetic(write, **changes):
    document = {
        "version": 1,
        "name": "big",
        "source": {"kind": "synthetic", "n_samples": 10_000_000, "n_features": 750},
        "select": {"method": "message"},
        "cluster": {"kind": "local", "n_workers": 2, "memory_limit": "2GiB"},
    }
    return load_pipeline(write(document), [f"{key}={value}" for key, value in changes.items()])


def test_each_kind_of_cluster_says_where_the_memory_goes():
    here = make_plan(DATA, SELECT, ProcessLimits("none", 1, 4 * GIB)).promised_nbytes
    threads = make_plan(DATA, SELECT, ProcessLimits("threads", 4, 4 * GIB)).promised_nbytes
    local = make_plan(DATA, SELECT, ProcessLimits("local", 4, 4 * GIB, 4 * GIB)).promised_nbytes
    assert set(here) == set(threads) == {"client"}
    assert set(local) == {"client", "worker"}
    assert local["worker"] == BASE_WORKER_NBYTES + HELD_NBYTES["worker"] + 200 * MIB
    stands = DATA.__class__(**{**DATA.__dict__, "store_exists": True})
    one = make_plan(stands, SELECT, ProcessLimits("none", 1, 4 * GIB)).promised_nbytes["client"]
    four = make_plan(stands, SELECT, ProcessLimits("threads", 4, 4 * GIB)).promised_nbytes
    assert four["client"] - one == 3 * 200 * MIB + BASE_SCHEDULER_NBYTES
    assert 30 * MIB < BASE_SCHEDULER_NBYTES < 50 * MIB


def test_the_threads_of_a_process_share_what_it_may_use():
    one, four = (ProcessLimits("threads", n, 4 * GIB).available_nbytes(DATA) for n in (1, 4))
    assert one == pytest.approx(4 * four, abs=4)
    assert ProcessLimits("local", 1, 4 * GIB, 4 * GIB, n_threads=2).available_nbytes(DATA) < 2 * GIB


def test_workers_have_room_for_the_numbers_of_the_rows_to_train_on():
    limits = ProcessLimits("address", 4, 4 * GIB, 4 * GIB)
    some, all_rows = (make_plan(replace(DATA, are_some_rows=are), SELECT, limits) for are in (True, False))
    held = some.promised_nbytes["worker"] - all_rows.promised_nbytes["worker"]
    assert held == 3 * 8 * DATA.n_train


@pytest.mark.parametrize("limit", ["600MiB", "1GiB", "3GiB", "64GiB"])
def test_ingest_keeps_within_any_limit_that_the_process_itself_allows(limit):
    plan = make_plan(DATA, {}, limits_of(Cluster(kind="local", memory_limit=limit)))
    assert BASE_CLIENT_NBYTES < plan.promised_nbytes["client"] <= plan.limits.client


def test_workers_are_planned_to_ingest_where_they_have_room_for_it():
    parts = replace(DATA, has_parts=True, store_exists=False)
    for limit, is_planned in (("260MiB", False), ("1GiB", True), ("64GiB", True)):
        limits = limits_of(Cluster(kind="local", n_workers=3, memory_limit=limit, client_memory_limit="2GiB"))
        (step,) = [step for step in make_plan(parts, {}, limits).steps if step.name == "ingest"]
        assert limits.ingests_on_workers(parts) == is_planned
        assert (step.n_tasks, step.worker.nbytes > BASE_WORKER_NBYTES) == ((3, True) if is_planned else (1, False))
        assert step.worker.nbytes <= limits.worker
        assert not limits.ingests_on_workers(replace(parts, has_parts=False))
        assert not limits.ingests_on_workers(replace(parts, store_nbytes=2**20))


def test_a_plan_over_the_limit_says_what_would_do():
    with refused(PlanError, "memory-limit", at="cluster.memory_limit", naming=["would"]) as caught:
        make_plan(
            DATA,
            {"message": SelectorPlan(1, 1, 1, Budget({"rows": 4 * 2**30}), Budget({"votes": 1}), "")},
            ProcessLimits("local", 1, 4 * GIB, 4 * GIB),
        )
    assert "allow at least 4292MiB" in str(caught.value)


def test_a_pipeline_over_data_larger_than_memory_is_planned_from_its_sizes_alone(write, tmp_path):
    pipeline = synthetic(write)
    plan = plan_pipeline(pipeline, facts_of(pipeline, check_pipeline(pipeline)))
    assert plan.data.store_nbytes > 30_000_000_000
    assert max(plan.promised_nbytes.values()) <= plan.limits.client == 2 * 2**30
    assert [step.name for step in plan.steps] == ["ingest", "message", "evaluate"]
    assert sum(step.read_nbytes for step in plan.steps if step.name != "ingest") >= 30_000_000_000
    assert "10,000,000 samples x 750 features" in plan.to_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipeline.yaml"]


def test_a_limit_below_the_process_itself_is_refused(write):
    pipeline = synthetic(write, **{"cluster.memory_limit": "100MiB"})
    with refused(PlanError, "memory-limit", at="cluster.memory_limit", naming=["block"]):
        plan_pipeline(pipeline, facts_of(pipeline))


def test_a_subset_over_the_limit_gets_the_sizes_that_would_fit(write):
    pipeline = synthetic(write, **{"select.n_subsets": 3})
    with refused(PlanError, "memory-limit", at="cluster.memory_limit", naming=["2,666,667", "n_subsets"]):
        plan_pipeline(pipeline, facts_of(pipeline))


def test_the_rows_of_a_text_table_are_an_estimate_until_it_is_a_store(document, write):
    pipeline = load_pipeline(write(document))
    plan = plan_pipeline(pipeline, facts_of(pipeline))
    assert plan.data.is_estimate
    assert 540 <= plan.data.n_samples <= 660
    assert plan.data.n_features == 8
    pipeline.store_path.parent.mkdir()
    source = pipeline.source
    store = ingest(source.path, pipeline.store_path, schema=source.table_schema)
    again = plan_pipeline(pipeline, facts_of(pipeline))
    assert again.data == facts_of_store(pipeline, store)
    assert (again.data.n_samples, again.data.n_train, again.data.is_estimate) == (600, 480, False)
    assert [step.name for step in again.steps] == ["message", "evaluate"]
    made = plan_pipeline(pipeline, facts_of_store(pipeline, store, is_new=True))
    assert [step.name for step in made.steps] == ["ingest", "message", "evaluate"]


def test_more_features_than_exist_are_refused_before_anything_is_read(document, write, tmp_path):
    document["select"]["max_features"] = 9
    with refused(ConfigError, "pipeline-files", at="select.max_features (message)", naming=["9", "8"]):
        check_pipeline(load_pipeline(write(document)))
    assert not (tmp_path / "runs").exists()


def test_recall_needs_a_source_that_knows_the_truth(document, write):
    document["evaluate"] = {"metrics": ["selection_recall"]}
    with refused(ConfigError, "pipeline-files", at="evaluate.metrics", naming=["selection_precision"]):
        check_pipeline(load_pipeline(write(document)))


def test_a_source_without_a_target_is_refused(document, write):
    del document["source"]["schema"]
    with pytest.raises(ValueError, match="target"):
        check_pipeline(load_pipeline(write(document)))


def test_one_target_of_several_must_be_named(write):
    document = {
        "version": 1,
        "name": "gym",
        "source": {"kind": "sklearn", "name": "linnerud"},
        "select": {"method": "message", "n_subsets": 1},
    }
    with refused(ConfigError, "pipeline-files", at="source", naming=["Weight"]):
        check_pipeline(load_pipeline(write(document)))
    check_pipeline(load_pipeline(write(document), ["source.target=Waist"]))


def test_the_client_of_small_workers_has_a_limit_of_its_own():
    small = {"client": 2**30, "worker": 200 * MIB}
    assert Cluster(kind="local", memory_limit="200MiB").limits_nbytes == small
    asked = Cluster(kind="local", memory_limit="200MiB", client_memory_limit="512MiB")
    assert asked.limits_nbytes == small | {"client": 512 * MIB}
    with refused(PlanError, "memory-limit", at="cluster.client_memory_limit", naming=["would"]):
        make_plan(DATA, SELECT, ProcessLimits("local", 1, 300 * MIB, 4 * GIB))
    with pytest.raises(ValueError, match="has no effect with kind: none"):
        Cluster(client_memory_limit="1GiB")


IN_PIPELINES = [case for case in CASES if "runs_in_a_pipeline" not in case.unfit]


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_PIPELINES, ids=lambda case: case.name)
def test_the_limit_that_a_refusal_names_is_accepted(case, write):
    """And not refused again for what the client holds beside the tasks, which took all that was left to them."""
    document = {
        "version": 1,
        "name": "any",
        "source": {"kind": "synthetic", "n_samples": 442, "n_features": 24},
        "select": {"method": case.method, **case.options},
    }
    for cluster in ({"kind": "none"}, {"kind": "local", "n_workers": 2}, {"kind": "local", "client_memory_limit": 1}):
        path = write(document | {"cluster": cluster})
        wide = 10_000 if "feature_groups" in case.options else 200_000  # each plan lists the columns in no group
        for n_samples, n_features in ((442, 24), (200_000, 300), (200, wide)):
            data = replace(DATA, n_samples=n_samples, n_train=n_samples, n_features=n_features)
            for limit in ("10MiB", "410MiB"):
                overrides = {"cluster.memory_limit": limit}
                refusal = _refusal(path, overrides, data)
                if refusal is not None:
                    own_key = refusal.where.rpartition(".")[2]
                    overrides |= {f"cluster.{key or own_key}": size for key, size in _sizes(str(refusal))}
                    assert _refusal(path, overrides, data) is None, (str(refusal), overrides)


def _refusal(path, overrides, data):
    try:
        plan_pipeline(load_pipeline(path, [f"{key}={value}" for key, value in overrides.items()]), data)
    except PlanError as refusal:
        return refusal
    return None


def _sizes(text):
    remedy = re.search(r"allow at least (?:(\w+) )?(\w+)(?: and (\w+) (\w+))?", text)
    assert remedy, text
    return [pair for pair in (remedy.groups()[:2], remedy.groups()[2:]) if pair[1]]


def test_groups_by_the_tables_columns_are_counted_before_there_is_a_store(write, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.random(400), "job": rng.choice(list("abcdefgh"), 400), "y": rng.random(400)})
    frame.to_csv(tmp_path / "table.csv", index=False)
    document = {
        "version": 1,
        "name": "groups",
        "source": {"kind": "csv", "path": str(tmp_path / "table.csv"), "target": "y"},
        "store": {"path": str(tmp_path / "table.zarr")},
        "select": {"method": "fgm", "n_features_to_select": 1},
        "cluster": {"kind": "none"},
    }
    told = []
    for by in ("schema", {"job": ["job=a", "job=b"]}, {"job": ["job=a", "job=of later rows"]}):
        pipeline = load_pipeline(write(document | {"features": {"map": "groups", "by": by}}))
        told.append(str(plan_pipeline(pipeline, facts_of(pipeline)).steps))
    assert "2 groups of 1 to 8 columns" in told[0]
    assert "8 groups of 1 to 2 columns" in told[1]
    assert "groups of" not in told[2]  # known once there is a store


def test_the_statistics_of_a_store_are_those_of_its_training_rows_only_without_a_split_and_weights(write, tmp_path):
    rng = np.random.default_rng(0)
    X, y, told = rng.random((400, 9)), rng.random(400), {}
    for is_weighted in (False, True):
        path = tmp_path / f"weighted-{is_weighted}.zarr"
        ingest(X, path, y=y, weight=y if is_weighted else None)
        for split in (None, {"test": 0.2}):
            select = {"method": "fgm", "n_features_to_select": 2}
            document = {"version": 1, "name": "statistics", "store": {"path": str(path)}, "select": select}
            pipeline = load_pipeline(write(document | {"split": split, "cluster": {"kind": "none"}}))
            told[is_weighted, split is None] = str(plan_pipeline(pipeline, facts_of(pipeline)).steps)
    assert {case for case, text in told.items() if "statistics" not in text} == {(False, True)}


def test_levels_that_no_row_has_shown_yet_are_not_counted_and_the_plan_says_so(write, tmp_path, monkeypatch):
    years = pd.date_range("2001-03-01", periods=400, freq="100D")
    table = {"job": list("abcdefgh") * 50, "age": range(400), "town": ["Oslo"] * 200 + ["Rome"] * 200, "y": range(400)}
    pd.DataFrame(table | {"day": years.strftime("%Y-%m-%d")}).to_parquet(tmp_path / "table.parquet")
    document = {
        "version": 1,
        "name": "levels",
        "source": {"kind": "parquet", "path": str(tmp_path / "table.parquet"), "target": "y"},
        "store": {"path": str(tmp_path / "table.zarr")},
        "select": {"method": "fgm", "n_features_to_select": 1},
    }
    pipeline = load_pipeline(write(document))
    whole = facts_of(pipeline)
    assert whole.growing_columns == (), "the first batch has all rows"
    assert "at least" not in plan_pipeline(pipeline, whole).to_text()
    monkeypatch.setattr("daskfs.sources.parquet._BATCH_NBYTES", 1)
    facts = facts_of(pipeline)
    assert set(facts.growing_columns) == {"job", "town", "day"}
    assert facts.n_features < whole.n_features
    text = plan_pipeline(pipeline, facts).to_text()
    assert f"400 samples x at least {facts.n_features} features" in text
    assert all(f"'{name}'" in text for name in facts.growing_columns)
    assert plan_pipeline(pipeline, facts).to_document()["data"]["growing_columns"] == facts.growing_columns
