import json

import jsonschema
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    precision_score,
    recall_score,
)

from daskfs import Message
from daskfs.documents import read_yaml
from daskfs.errors import (
    ConfigError,
    CorruptStoreError,
    DataError,
    RunError,
    SelectionWarning,
    SourceError,
    StoreExistsError,
)
from daskfs.metrics import auc, mse, r2
from daskfs.pipeline.config import Pipeline, load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.pipeline.schemas import json_schema
from daskfs.report.runs import write_report
from daskfs.result import SelectionResult
from daskfs.store.feature_store import open_store
from tests.refusals import refused

FILES = {
    "pipeline.yaml",
    "result.json",
    "selected.csv",
    "metrics.json",
    "model.json",
    "history.parquet",
    "scores.parquet",
    "report.html",
    "run.log",
}


class Counted:
    def __init__(self):
        self.steps = []

    def start(self, name, total):
        self.steps.append([name, total, 0])

    def advance(self, k=1):
        self.steps[-1][2] += k

    def finish(self):
        self.steps[-1].append("finished")


def left_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_run_finds_the_planted_features_and_leaves_its_files(document, write, tmp_path):
    outcome = run_pipeline(load_pipeline(write(document)))
    assert {path.name for path in outcome.folder.iterdir()} == FILES
    assert left_in(tmp_path / "runs") == ["table", "table.zarr"]
    result = outcome.results["message"]
    assert list(result.table["name"]) == ["f1", "f6"]
    np.testing.assert_allclose(result.table["coef"], [3, -2], atol=0.2)
    assert result.n_samples == 480
    record = json.loads((outcome.folder / "result.json").read_text())
    jsonschema.validate(record, json_schema("result"))
    assert json.loads((outcome.folder / "metrics.json").read_text()) == record["metrics"]
    assert pd.read_csv(outcome.folder / "selected.csv")["name"].to_list() == ["f1", "f6"]
    assert set(record["time"]) == {"ingest", "select", "evaluate"}
    assert record["communication"]["select"] > 0


@pytest.mark.slow
def test_test_errors_are_those_of_the_test_rows(document, write, tmp_path):
    document["evaluate"] = {"metrics": ["mse", "r2"]}
    result = run_pipeline(load_pipeline(write(document))).results["message"]
    store = open_store(tmp_path / "runs" / "table.zarr")
    _, test = store.split(0.2, by="random", random_state=0)
    X, y = test.read(slice(None)).astype(float), test.read_target(slice(None))
    prediction = X[:, result.table["index"]] @ result.table["coef"].to_numpy() + result.intercept
    assert result.metrics["mse"] == pytest.approx(mse(y, prediction), rel=1e-12)
    assert result.metrics["r2"] == pytest.approx(r2(y, prediction), rel=1e-12)


@pytest.fixture
def two_classes(document, tmp_path):
    """The table with a target of -1 and 1."""
    table = pd.read_csv(tmp_path / "table.csv")
    table.assign(y=np.where(table["y"] > 0, 1, -1)).to_csv(tmp_path / "table.csv", index=False)
    document["select"] = {"method": "message", "n_subsets": 2, "loss": "logistic"}
    return document


@pytest.mark.slow
def test_two_classes_are_measured_by_accuracy_and_auc(two_classes, write, tmp_path):
    result = run_pipeline(load_pipeline(write(two_classes))).results["message"]
    assert list(result.table["name"]) == ["f1", "f6"]
    store = open_store(tmp_path / "runs" / "table.zarr")
    _, test = store.split(0.2, by="random", random_state=0)
    X, y = test.read(slice(None)).astype(float), test.read_target(slice(None))
    log_odds = X[:, result.table["index"]] @ result.table["coef"].to_numpy() + result.intercept
    assert result.metrics["accuracy"] == np.mean(np.where(log_odds > 0, 1, -1) == y)
    assert result.metrics["auc"] == pytest.approx(auc(y, log_odds), rel=1e-12)


@pytest.mark.nightly
@pytest.mark.parametrize("bounds", [[0.0], [-2.0, 2.0]], ids=["two classes", "three"])
def test_labels_are_measured_as_scikit_learn_measures_them(document, write, tmp_path, bounds):
    table = pd.read_csv(tmp_path / "table.csv")
    table.assign(y=np.digitize(table["y"], bounds)).to_csv(tmp_path / "table.csv", index=False)
    asked = ["f1", "precision", "recall", "balanced_accuracy", "log_loss", "average_precision"]
    selects = {"method": "message", "n_subsets": 1, "loss": "logistic" if len(bounds) == 1 else "multinomial"}
    run = run_pipeline(load_pipeline(write(document | {"select": selects, "evaluate": {"metrics": asked}})))
    train, test = open_store(tmp_path / "runs" / "table.zarr").split(0.2, by="random", random_state=0)
    selector = Message(n_subsets=1, loss=selects["loss"]).fit(train)
    y, label, p = test.read_target(), selector.predict(test), selector.predict_proba(test)
    average = {} if len(bounds) == 1 else {"average": "macro"}
    expected = {
        "f1": f1_score(y, label, **average),
        "precision": precision_score(y, label, **average),
        "recall": recall_score(y, label, **average),
        "balanced_accuracy": balanced_accuracy_score(y, label),
        "log_loss": log_loss(y, p),
    }
    if len(bounds) == 1:
        expected["average_precision"] = average_precision_score(y, p[:, 1])
    assert run.results["message"].metrics == pytest.approx(expected, rel=1e-9)


def test_the_former_names_of_metrics_of_selections_are_read_with_a_warning(document, write):
    synthetic = {"kind": "synthetic", "n_samples": 200, "n_features": 8, "n_informative": 2}
    document |= {"source": synthetic, "evaluate": {"metrics": ["r2", "recall"]}}
    with pytest.warns(FutureWarning, match="recall of the selected features is now called selection_recall"):
        pipeline = load_pipeline(write(document))
    assert pipeline.evaluate.metrics == ["r2", "selection_recall"]


@pytest.mark.slow
def test_each_selection_is_measured_by_what_suits_its_loss(two_classes, write):
    squared = {"method": "message", "n_subsets": 2, "label": "squared", "loss": "squared"}
    two_classes["select"] = [squared, squared | {"loss": "logistic", "label": "logistic"}]
    two_classes["evaluate"] = {"metrics": ["mse", "accuracy"]}
    results = run_pipeline(load_pipeline(write(two_classes))).results
    assert results["squared"].metrics.keys() == {"mse"}
    assert results["logistic"].metrics.keys() == {"accuracy"}
    two_classes["evaluate"] = {"metrics": ["mse"]}
    with pytest.raises(ConfigError, match=r"none applies to logistic .*add accuracy or auc"):
        load_pipeline(write(two_classes))


@pytest.mark.slow
def test_the_peak_is_measured_and_stands_beside_the_promise(document, write):
    memory = run_pipeline(load_pipeline(write(document))).results["message"].memory
    assert memory["limit_nbytes"]["client"] == 4 * 2**30
    assert memory["promised_nbytes"].keys() == memory["measured_nbytes"].keys() == {"client"}
    assert memory["measured_nbytes"]["client"] > 50 * 2**20


@pytest.mark.slow
def test_the_resolved_pipeline_of_a_run_runs_again(document, write, tmp_path):
    first = run_pipeline(load_pipeline(write(document)))
    resolved = read_yaml(first.folder / "pipeline.yaml")
    assert Pipeline.model_validate(resolved)
    again = run_pipeline(load_pipeline(first.folder / "pipeline.yaml", [f"output={tmp_path / 'again'}"]))
    for name in ("selected.csv", "metrics.json", "history.parquet"):
        assert (again.folder / name).read_bytes() == (first.folder / name).read_bytes()


@pytest.mark.slow
def test_every_long_step_tells_its_progress_to_the_end(document, write):
    progress = Counted()
    run_pipeline(load_pipeline(write(document)), progress=progress)
    names = [step[0] for step in progress.steps]
    assert names[0] == "ingest"
    assert names[-2:] == ["evaluate", "report"]
    assert "message-select" in names
    for step in progress.steps:
        assert step[-1] == "finished", step


@pytest.mark.slow
def test_several_selections_are_compared_in_the_order_of_the_pipeline(document, write):
    document["select"] = [
        {"method": "message", "label": "three", "n_subsets": 3},
        {"method": "message", "label": "one", "n_subsets": 1, "criterion": "bic"},
    ]
    outcome = run_pipeline(load_pipeline(write(document)))
    assert list(outcome.results) == ["three", "one"]
    assert {path.name for path in outcome.folder.iterdir()} == FILES | {"three", "one"}
    assert SelectionResult.load(outcome.folder).parameters["n_subsets"] == 3
    metrics = json.loads((outcome.folder / "metrics.json").read_text())
    assert list(metrics) == ["three", "one"]
    page = (outcome.folder / "report.html").read_text()
    assert "Side by side" in page
    assert page.index("<h1>three</h1>") < page.index("<h1>one</h1>")


@pytest.mark.slow
def test_the_page_written_by_the_run_is_the_page_written_again_from_its_folder(document, write, tmp_path):
    document["select"] = [{"method": "message", "n_subsets": 3}, {"method": "mission", "n_features_to_select": 2}]
    outcome = run_pipeline(load_pipeline(write(document)))
    again = write_report([outcome.folder], tmp_path / "again.html", title="table")
    assert again.read_text() == outcome.report.read_text()


@pytest.mark.slow
def test_a_split_by_column_tests_on_its_rows(document, write):
    document["split"] = {"by": "part", "test": "late"}
    result = run_pipeline(load_pipeline(write(document))).results["message"]
    assert result.n_samples == 480


@pytest.mark.slow
def test_without_a_split_every_row_trains(document, write):
    document["split"] = None
    result = run_pipeline(load_pipeline(write(document))).results["message"]
    assert result.n_samples == 600
    assert result.metrics == {}


def test_a_store_that_stands_is_used_again_and_needs_no_source(document, write, tmp_path):
    run_pipeline(load_pipeline(write(document)))
    stamp = (tmp_path / "runs" / "table.zarr" / "manifest.json").stat().st_mtime_ns
    second = run_pipeline(load_pipeline(write(document), ["output=runs/second"]))
    del document["source"]
    (tmp_path / "table.csv").unlink()
    third = run_pipeline(load_pipeline(write(document), ["output=runs/third"]))
    assert (tmp_path / "runs" / "table.zarr" / "manifest.json").stat().st_mtime_ns == stamp
    assert (second.folder / "selected.csv").read_bytes() == (third.folder / "selected.csv").read_bytes()


@pytest.mark.slow_cases("local")
@pytest.mark.parametrize("kind", ["threads", "local"])
def test_the_same_bits_come_from_here_threads_and_processes(document, write, kind):
    here = run_pipeline(load_pipeline(write(document)))
    there = run_pipeline(load_pipeline(write(document), [f"output=runs/{kind}", f"cluster.kind={kind}"]))
    for name in ("selected.csv", "metrics.json", "history.parquet", "scores.parquet"):
        assert (there.folder / name).read_bytes() == (here.folder / name).read_bytes()
    assert (there.folder / "dask.html").stat().st_size > 10_000
    memory = there.results["message"].memory
    processes = {"client", "worker-0"} if kind == "local" else {"client"}
    assert set(memory["measured_nbytes"]) == processes


@pytest.mark.slow
def test_processes_of_their_own_make_the_store_where_it_is_large(document, write, tmp_path, monkeypatch):
    pd.read_csv(tmp_path / "table.csv").to_parquet(tmp_path / "table.parquet", row_group_size=50)
    document["source"] |= {"kind": "parquet", "path": "table.parquet"}
    here = run_pipeline(load_pipeline(write(document)))
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 4096)
    monkeypatch.setattr("daskfs.pipeline.limits.WORTH_WORKERS_NBYTES", 0)
    local = ["cluster.kind=local", "cluster.n_workers=2", "cluster.memory_limit=1GiB"]
    for kind, settings in {"threads": ["cluster.kind=threads"], "local": local}.items():
        changed = [f"output=runs/{kind}", f"store.path=runs/{kind}.zarr", *settings]
        there = run_pipeline(load_pipeline(write(document), changed))
        log = (there.folder / "run.log").read_text()
        assert ("tiles written by separate processes" in log) == (kind == "local")
        files = [
            {path.relative_to(store): path.read_bytes() for path in store.rglob("*") if path.is_file()}
            for store in (tmp_path / "runs" / "table.zarr", tmp_path / "runs" / f"{kind}.zarr")
        ]
        assert files[0] == files[1]
        assert (there.folder / "selected.csv").read_bytes() == (here.folder / "selected.csv").read_bytes()
    memory = there.results["message"].memory
    workers = [nbytes for process, nbytes in memory["measured_nbytes"].items() if process.startswith("worker")]
    assert len(workers) == 2  # the client is this process: its peak is of all tests before
    assert max(workers) <= memory["promised_nbytes"]["worker"]


@pytest.mark.slow
def test_a_finished_run_is_replaced_only_when_forced(document, write):
    first = run_pipeline(load_pipeline(write(document)))
    before = (first.folder / "selected.csv").stat().st_ino
    with refused(RunError, "run-folders", naming=["finished"]):
        run_pipeline(load_pipeline(write(document)))
    assert (first.folder / "selected.csv").stat().st_ino == before
    run_pipeline(load_pipeline(write(document), ["select.n_subsets=1"]), force=True)
    assert SelectionResult.load(first.folder).parameters["n_subsets"] == 1


def test_a_failed_run_leaves_the_finished_one_that_it_should_replace(document, write, tmp_path):
    first = run_pipeline(load_pipeline(write(document)))
    before = (first.folder / "result.json").read_bytes()
    with pytest.raises(ConfigError):
        run_pipeline(load_pipeline(write(document), ["select.n_subsets=400"]), force=True)
    assert (first.folder / "result.json").read_bytes() == before
    assert left_in(tmp_path / "runs") == ["table", "table.zarr"]


@pytest.mark.parametrize(
    ("override", "error", "message"),
    [
        ("source.path=nowhere.csv", SourceError, "nowhere.csv"),
        ("source.schema=nowhere.yaml", ValueError, "nowhere.yaml"),
        ("select.n_subsets=400", ConfigError, "n_subsets"),
        ("split.by=colour", ConfigError, "colour"),
        ("cluster.memory_limit=10MiB", ValueError, "memory_limit"),
    ],
)
def test_an_error_leaves_no_half_made_run_or_store(document, write, tmp_path, override, error, message):
    with pytest.raises(error, match=message):
        run_pipeline(load_pipeline(write(document), [override]))
    assert set(left_in(tmp_path / "runs")) <= {"table.zarr"}
    if left_in(tmp_path / "runs"):
        assert open_store(tmp_path / "runs" / "table.zarr").verify() == []


def test_a_bad_value_in_the_table_leaves_nothing(document, write, table, tmp_path):
    lines = table.read_text().splitlines()
    lines[300] = lines[300].replace(lines[300].split(",")[2], "much", 1)
    table.write_text("\n".join(lines) + "\n")
    with pytest.raises((SourceError, DataError), match="much"):
        run_pipeline(load_pipeline(write(document)))
    assert left_in(tmp_path / "runs") == []


def test_a_store_of_another_source_is_not_taken(document, write, table):
    run_pipeline(load_pipeline(write(document)))
    table.write_text(table.read_text().replace("late", "Late"))
    with refused(StoreExistsError, "store-exists", naming=["source"]):
        run_pipeline(load_pipeline(write(document), ["output=runs/other"]))


@pytest.mark.slow
def test_a_damaged_chunk_ends_the_run_and_leaves_nothing_half_made(document, write, tmp_path):
    run_pipeline(load_pipeline(write(document)))
    chunk = next(path for path in (tmp_path / "runs" / "table.zarr" / "X" / "c").rglob("*") if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[len(content) // 3] ^= 1
    chunk.write_bytes(content)
    with refused(CorruptStoreError, "damaged-stores", naming=["chunk"]):
        run_pipeline(load_pipeline(write(document), ["output=runs/other"]))
    assert left_in(tmp_path / "runs") == ["table", "table.zarr"]


def test_a_selection_of_nothing_predicts_the_mean(document, write, table):
    frame = pd.read_csv(table)
    frame["y"] = np.random.default_rng(0).normal(size=len(frame))
    frame.to_csv(table, index=False)
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        outcome = run_pipeline(load_pipeline(write(document), ["select.gamma=1.0"]))
    result = outcome.results["message"]
    assert len(result.table) == 0
    assert result.metrics["r2"] < 0.01
    assert "No feature was selected" in outcome.report.read_text()


@pytest.mark.slow
def test_a_target_of_classes_is_classified_where_no_loss_is_named(two_classes, write):
    results = run_pipeline(load_pipeline(write(two_classes | {"select": {"method": "fgm", "max_passes": 2}}))).results
    assert results["fgm"].metrics.keys() == {"accuracy", "auc"}
    assert results["fgm"].parameters["loss"] == "logistic"


def test_metrics_that_say_nothing_of_the_target_are_refused_before_the_selection(two_classes, write):
    two_classes |= {"select": {"method": "message", "n_subsets": 2}, "evaluate": {"metrics": ["mse"]}}
    with refused(ConfigError, "pipeline-files", at="evaluate.metrics", naming=["message", "accuracy", "auc"]):
        run_pipeline(load_pipeline(write(two_classes)))
