import json

import numpy as np
import pytest
from typer.testing import CliRunner

import daskfs
from daskfs.cli import app
from daskfs.documents import dump_yaml
from daskfs.errors import StorageError
from daskfs.pipeline.checkpoint import Checkpoint
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.facts import facts_of
from daskfs.pipeline.plan import plan_pipeline
from daskfs.pipeline.run import run_pipeline

rng = np.random.default_rng(0)
TABLE = rng.normal(size=(800, 12))
TEXT = "\n".join([",".join(f"c{j}" for j in range(12)), *(",".join(f"{x:.4f}" for x in row) for row in TABLE)])


def document(**more):
    base = {
        "version": 1,
        "name": "remote",
        "source": {"kind": "csv", "path": "s3://bucket/in/x.csv", "target": "c0"},
        "store": {"path": "s3://bucket/out/x.zarr"},
        "select": {"method": "fgm", "n_features_to_select": 3},
    }
    return base | more


@pytest.fixture
def write(tmp_path, server):
    server.put("bucket/in/x.csv", TEXT.encode())

    def written(found, name="pipeline.yaml"):
        (tmp_path / name).write_text(dump_yaml(found), encoding="utf-8")
        return tmp_path / name

    return written


def everything_in(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_a_pipeline_from_objects_to_objects(write, tmp_path, server):
    pipeline = load_pipeline(write(document()))
    outcome = run_pipeline(pipeline)
    (tmp_path / "x.csv").write_text(TEXT)
    local = document(source={"kind": "csv", "path": "x.csv", "target": "c0"}, store={}, name="local")
    expected = run_pipeline(load_pipeline(write(local, "local.yaml")))
    (found,), (other,) = outcome.results.values(), expected.results.values()
    assert found.store_digest == other.store_digest
    np.testing.assert_array_equal(found.table, other.table)
    assert "s3://bucket/out/x.zarr" in (outcome.folder / "pipeline.yaml").read_text()
    planned = plan_pipeline(pipeline, facts_of(pipeline))
    assert "requests in flight" in str([step.to_document() for step in planned.steps])
    again = load_pipeline(outcome.folder / "pipeline.yaml", ["output=again"])
    assert again.store_path == pipeline.store_path


def test_a_plan_names_the_cache_where_several_passes_fetch_a_store(write, tmp_path, server, monkeypatch):
    several = {"method": "fgm", "n_features_to_select": 2, "n_features_per_pass": 1}
    pipeline = load_pipeline(write(document(select=several)))
    monkeypatch.delenv("DASKFS_CACHE", raising=False)
    (told,) = [line for line in plan_pipeline(pipeline, facts_of(pipeline)).to_text().splitlines() if "network" in line]
    assert told == "network  fetches the store 3 times; DASKFS_CACHE=FOLDER keeps it on the local disk"
    monkeypatch.setenv("DASKFS_CACHE", str(tmp_path / "cache"))  # the remedy
    assert "network" not in plan_pipeline(pipeline, facts_of(pipeline)).to_text()
    monkeypatch.delenv("DASKFS_CACHE")
    local = load_pipeline(write(document(select=several, store={}), "local.yaml"))
    assert "network" not in plan_pipeline(local, facts_of(local)).to_text()


@pytest.mark.slow
def test_a_run_whose_object_store_no_longer_answers_is_resumed(write, server, monkeypatch):
    selections = [{"method": "fgm", "n_features_to_select": k, "label": f"k{k}"} for k in (3, 4)]
    pipeline = load_pipeline(write(document(select=selections, cluster={"kind": "none"})))
    expected = run_pipeline(load_pipeline(write(document(select=selections, name="whole"), "whole.yaml")))
    save = Checkpoint.save

    def then_fail(*arguments):
        save(*arguments)
        server.faults = {"500": 1.0}

    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "1")
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", then_fail)
        with pytest.raises(StorageError) as caught:
            run_pipeline(pipeline)
    assert "continue with `daskfs run --resume" in caught.value.__notes__[-1]
    server.faults = {}
    resumed = run_pipeline(pipeline, resume=True)
    for label, result in expected.results.items():
        np.testing.assert_array_equal(result.table, resumed.results[label].table)


@pytest.mark.slow
def test_variables_stay_as_they_were_written_in_a_run_s_folder(write, tmp_path, server, monkeypatch):
    monkeypatch.setenv("WHERE", f"{server.url}/bucket/in/x.csv?X-Amz-Signature=kept-dark1")
    monkeypatch.setenv("SECRET", "kept-dark2")
    monkeypatch.setenv("FOLDER", "data")
    options = {"secret_access_key": "${SECRET}", "region": "us-east-1"}
    source = {"kind": "csv", "path": "${WHERE}", "target": "c0"}
    found = document(source=source, store={"path": "${FOLDER}/x.zarr"}, storage_options=options)
    outcome = run_pipeline(load_pipeline(write(found)))
    text = everything_in(outcome.folder)
    assert b"kept-dark" not in text
    assert b"${WHERE}" in text
    assert b"${SECRET}" in text
    again = load_pipeline(outcome.folder / "pipeline.yaml")
    assert again.store_path == tmp_path / "data" / "x.zarr"
    assert again.storage_options["secret_access_key"] == "kept-dark2"
    assert b"kept-dark" not in everything_in(tmp_path / "data")


@pytest.mark.slow
def test_what_is_secret_and_written_in_clear_is_kept_out_too(write, server):
    url = f"{server.url.replace('http://', 'http://me:kept-dark@')}/bucket/in/x.csv?sig=kept-dark"
    source = {"kind": "csv", "path": url, "target": "c0"}
    found = document(source=source, store={"path": "x.zarr"}, storage_options={"secret_access_key": "kept-dark"})
    pipeline = load_pipeline(write(found))
    outcome = run_pipeline(pipeline)
    assert b"kept-dark" not in everything_in(outcome.folder)
    assert b"kept-dark" not in everything_in(pipeline.store_path)


def test_a_setting_that_came_from_a_variable_is_compared_when_a_run_is_resumed(write, monkeypatch):
    from daskfs.pipeline.run import _settings

    monkeypatch.setenv("LOSS", "squared")
    path = write(document(select={"method": "fgm", "n_features_to_select": 3, "loss": "${LOSS}"}))

    class Store:
        digest = "1"

    before = _settings(load_pipeline(path), Store())
    assert before == _settings(load_pipeline(path), Store())
    monkeypatch.setenv("LOSS", "squared_hinge")
    assert before != _settings(load_pipeline(path), Store())


def test_errors_show_no_secret(write, server, monkeypatch):
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "1")
    source = {"kind": "csv", "path": f"{server.url}/bucket/nothing.csv?sig=kept-dark", "target": "c0"}
    pipeline = load_pipeline(write(document(source=source)))
    with pytest.raises(daskfs.DaskfsError) as caught:
        run_pipeline(pipeline)
    assert "kept-dark" not in f"{caught.value!r} {caught.value}"


@pytest.mark.slow
def test_commands_take_urls(write, server, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    store = "s3://bucket/out/x.zarr"

    def said(*words):
        found = CliRunner().invoke(app, [*words])
        assert found.exit_code == 0, found.output
        return found.stdout

    assert store in said("ingest", "s3://bucket/in/x.csv", store, "--target", "c0")
    assert json.loads(said("info", store, "--json"))["path"] == store
    assert "whole" in said("verify", store)
    assert "whole" in said("verify", f"{server.url}/bucket/out/x.zarr")
    said("select", store, "--method", "fgm", "--n-features", "2")
    assert (tmp_path / "runs" / "x-fgm" / "result.json").exists()
