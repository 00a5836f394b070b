"""New rows get the predictions of the run, wherever they come from, and errors say why rows cannot be applied."""

import json

import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from typer.testing import CliRunner

import daskfs
from daskfs.applied.apply import apply
from daskfs.applied.model import Model
from daskfs.cli import app
from daskfs.cluster.workers import Here
from daskfs.errors import DataError, RunError, SchemaError, SelectionWarning, SourceError
from daskfs.pipeline.config import build_pipeline
from daskfs.pipeline.predicting import linear_predictor
from daskfs.pipeline.run import run_pipeline
from daskfs.pipeline.schemas import json_schema
from daskfs.selectors.shared.run import Run
from daskfs.sources.sparse.libsvm import LibsvmSource
from daskfs.store.whole_writer import WholeWriter
from tests.refusals import refused
from tests.sources.test_plink import MISSING, random_dosages, write_set
from tests.tolerances import assert_close

N = 400
COLUMNS = {
    "id": {"role": "id", "dtype": "string"},
    "a": {"encoding": "standardised"},
    "b": {"missing": "mean", "missing_indicator": True},
    "gone": {"missing": "drop"},
    "share": {"dtype": "percent"},
    "city": {"dtype": "string", "min_count": 30, "missing": "category", "unseen": "other"},
    "code": {"dtype": "string", "drop_first": True},
    "when": {"dtype": "date", "format": "%d/%m/%Y", "encoding": {"date_parts": ["year", "month"]}},
    "y": {"role": "target"},
}


def messy(seed=0):
    """A table of everything that a schema can say, and its rows as people would write them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": [f"r{k}" for k in range(N)], "a": rng.normal(5, 3, N), "b": rng.normal(size=N)})
    frame["gone"] = np.where(rng.random(N) < 0.05, np.nan, rng.normal(size=N))
    frame["share"] = rng.integers(0, 1000, N) / 10
    frame["city"] = rng.choice(["Rome", "Oslo", "Bern", "Nuuk", None], N, p=[0.4, 0.3, 0.2, 0.03, 0.07])
    frame["code"] = rng.integers(1, 4, N)
    frame["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, N), "D")
    frame.loc[rng.random(N) < 0.1, "b"] = np.nan
    noise = rng.normal(size=N)
    y = frame.a - 3 * (frame.city == "Oslo") + frame.share / 20 + 2 * (frame.code == 2) + frame.gone.fillna(0) + noise
    return frame.assign(y=y)


def write_messy(frame, path):
    text = frame.assign(share=frame.share.map("{:.1f} %".format), when=frame.when.dt.strftime("%d/%m/%Y"))
    text.to_csv(path, index=False, sep=";")


def run_of(folder, source, select, force=False, **more):
    document = {"version": 1, "name": "one", "source": source, "select": select, "split": None, "output": "run", **more}
    return run_pipeline(
        build_pipeline(document | {"store": {"path": "one.zarr"}} | more, "test", folder), force=force
    ).folder


def in_the_run(folder, model):
    """The linear predictor of the rows of the run's store, in the order of the source."""
    store = daskfs.open_store(folder / "one.zarr")
    found = linear_predictor(model.predictor, Run(store, "evaluate", Here()))
    return found if store.source_rows is None else found[np.argsort(store.source_rows)]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A messy table with a run over it."""
    folder = tmp_path_factory.mktemp("table")
    frame = messy()
    write_messy(frame, folder / "t.csv")
    schema = {"version": 1, "format": {"delimiter": ";"}, "columns": COLUMNS}
    (folder / "schema.yaml").write_text(json.dumps(schema))
    source = {"kind": "csv", "path": "t.csv", "schema": "schema.yaml"}
    select = {"method": "orthogonal_matching_pursuit", "n_features_to_select": 18}
    run_of(folder, source, select, refit={"by": "ridge"})
    return folder, frame


def test_a_file_a_frame_and_single_rows_get_the_predictions_of_the_run(table):
    folder, frame = table
    model = daskfs.load(folder / "run")
    jsonschema.validate(model.document, json_schema("model"))
    is_kept = frame.gone.notna().to_numpy()
    expected = in_the_run(folder, model)
    for data in (folder / "t.csv", frame, frame.drop(columns="y").iloc[:, ::-1], pa.Table.from_pandas(frame)):
        found = model.predict(data)
        assert_close(found[is_kept], expected)
        assert np.isnan(found[~is_kept]).all()
    some = frame[is_kept].iloc[7:20]
    assert_close([model.predict(some.iloc[k : k + 1])[0] for k in range(13)], expected[7:20])
    other = daskfs.load(folder / "run", refit=True)
    assert_close(other.predict(frame)[is_kept], in_the_run(folder, other))
    assert (other.predict(some) != model.predict(some)).any()


def test_other_types_of_the_same_values_are_the_same(table):
    folder, frame = table
    model = daskfs.load(folder / "run")
    others = frame.assign(
        a=frame.a.map(repr),
        share=frame.share.map("{:.1f}%".format),
        city=frame.city.astype("category"),
        code=frame.code.astype(float),
        when=frame.when.dt.strftime("%d/%m/%Y"),
    )
    assert_close(model.predict(others), model.predict(frame))
    frame.to_parquet(folder / "t.parquet")
    assert_close(model.predict(folder / "t.parquet"), model.predict(frame))


def test_booleans_may_be_spelled_in_another_way(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"is_new": rng.random(60) < 0.5, "city": rng.choice(["Bonn", "Kiel"], 60)})
    y = 2.0 * frame.is_new + 0.1 * rng.standard_normal(60)
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    run_of(tmp_path, {"kind": "csv", "path": "t.csv", "target": "y"}, {"method": "message"})
    model, selector = daskfs.load(tmp_path / "run"), daskfs.Message().fit(frame, y)
    for found in (model, selector):
        expected = found.predict(frame)
        assert expected.max() - expected.min() > 1.0
        for kind in ("int64", "float64", "boolean", "category"):
            assert_close(found.predict(frame.assign(is_new=frame.is_new.astype(kind))), expected)
        assert_close(found.predict(frame.assign(is_new=np.where(frame.is_new, "TRUE", "FALSE"))), expected)
    with pytest.warns(SelectionWarning, match=r"'is_new': 1 row of unseen categories encoded as zeros: '2'"):
        selector.predict(frame.assign(is_new=[2, *[0] * 59]))


def test_features_come_as_the_data_came(table):
    folder, frame = table
    model = daskfs.load(folder / "run")
    found = model.transform(frame)
    assert list(found.columns) == model.features
    assert found.index.equals(frame.index)
    assert set(model.ranking) == set(model.features)
    assert model.transform(pa.Table.from_pandas(frame)).column_names == model.features


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_row_is_written_for_each_row_with_its_id_and_the_metrics_are_those_of_the_targets(table, suffix, tmp_path):
    folder, frame = table
    model = daskfs.load(folder / "run")
    out = tmp_path / f"out{suffix}"
    applied = apply(model, folder / "t.csv", out, features=True, kept=["code"])
    found = pd.read_csv(out) if suffix == ".csv" else pd.read_parquet(out)
    assert list(found.columns[:3]) == ["id", "code", "prediction"]
    assert list(found["id"]) == list(frame["id"])
    assert_close(found["prediction"], model.predict(frame))
    n_void = int(frame.gone.isna().sum())
    assert (applied.n_rows, applied.n_void) == (N, n_void)
    errors = (found.prediction - frame.y).dropna()
    assert applied.metrics["mse"] == pytest.approx((errors**2).mean())
    assert f"in {out}" in applied.to_text()
    assert f"{n_void} rows have no prediction" in applied.to_text()
    assert f"mse {applied.metrics['mse']:.6g}" in applied.to_text()
    with refused(RunError, "new-rows", naming=["--force"]):
        apply(model, folder / "t.csv", out)


def test_ids_of_a_table_in_chunks_come_in_the_order_of_its_rows(table, tmp_path):
    folder, frame = table
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    apply(daskfs.load(folder / "run"), pa.concat_tables([rows[:7], rows[7:]]), tmp_path / "out.csv", kept=["code"])
    found = pd.read_csv(tmp_path / "out.csv")
    assert found[["id", "code"]].values.tolist() == frame[["id", "code"]].values.tolist()


def test_what_a_file_lacks_has_more_of_or_nobody_has_seen_is_named(table, tmp_path):
    folder, frame = table
    model = daskfs.load(folder / "run")
    with refused(SchemaError, "new-rows", at="DataFrame", naming=["'a'", "'code'"]):
        model.predict(frame.drop(columns=["code", "a"]))
    other = frame.assign(extra=1)
    other.loc[3, "city"] = "Paris"
    applied = apply(model, other, tmp_path / "o.csv")
    assert "ignored columns that the training data did not have: 'extra'" in applied.notes
    assert "column 'city': 1 row of unseen categories encoded as 'city=other': 'Paris' (1 row)" in applied.notes
    with pytest.warns(SelectionWarning, match="'Paris'"):
        model.predict(other)
    other.loc[5, "code"] = 9
    with refused(SourceError, "frames", at="DataFrame, row 5, column 'code'", naming=["3"]):
        apply(model, other, tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()
    applied = apply(model, other, tmp_path / "p.csv", unseen="zero")
    assert "column 'code': 1 row of unseen categories encoded as zeros: '9' (1 row)" in applied.notes
    other.loc[8, "a"] = np.inf
    with refused(SourceError, "frames", at="DataFrame, row 8, column 'a'", naming=["finite"]):
        model.predict(other)


def test_levels_that_the_fit_did_not_have_are_named_where_levels_are_counted(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(["Rome", "Oslo", "Bern"], 300, p=[0.6, 0.3, 0.1])})
    frame["y"] = frame.city.map({"Rome": 3.0, "Oslo": 1.0, "Bern": 0.0}) + 0.1 * rng.normal(size=300)
    frame.to_csv(tmp_path / "t.csv", index=False)
    schema = {"version": 1, "columns": {"city": {"encoding": "counts"}, "y": {"role": "target"}}}
    (tmp_path / "schema.yaml").write_text(json.dumps(schema))
    select = {"method": "online_substitution", "n_features_to_select": 1}
    run_of(tmp_path, {"kind": "csv", "path": "t.csv", "schema": "schema.yaml"}, select)
    new = pd.DataFrame({"city": ["Rome", "Paris", "Nuuk", "Paris"]})
    applied = apply(daskfs.load(tmp_path / "run"), new, tmp_path / "o.csv")
    assert applied.notes == [
        "column 'city': 3 rows of unseen categories encoded as zeros: 'Paris' (2 rows), 'Nuuk' (1 row)"
    ]


def test_columns_that_no_selected_feature_is_made_of_need_not_be_there(tmp_path):
    frame = messy()[["a", "share", "code", "y"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    select = {"method": "orthogonal_matching_pursuit", "n_features_to_select": 1}
    run_of(tmp_path, {"kind": "csv", "path": "t.csv", "target": "y"}, select)
    model = daskfs.load(tmp_path / "run")
    assert model.features == ["a"]
    assert_close(model.predict(frame[["a"]]), model.predict(frame))


def test_labels_that_are_texts_and_their_probabilities(tmp_path):
    frame = messy().assign(y=lambda t: np.where(t.y > t.y.median(), "high", "-low"))[["a", "share", "y"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    run_of(tmp_path, {"kind": "csv", "path": "t.csv", "target": "y"}, {"method": "fgm", "n_features_to_select": 2})
    model = daskfs.load(tmp_path / "run")
    assert list(model.classes) == ["-low", "high"]
    p = model.predict_proba(frame)
    assert (model.predict(frame) == np.where(p[:, 1] > 0.5, "high", "-low")).all()
    applied = apply(model, frame, tmp_path / "o.csv")
    assert {"accuracy", "auc"} <= set(applied.metrics)
    assert applied.metrics["accuracy"] == np.mean(model.predict(frame) == frame.y)
    assert list(pd.read_csv(tmp_path / "o.csv").columns) == [
        "row",
        "prediction",
        "probability_-low",
        "probability_high",
    ]
    only = apply(model, frame.assign(y="high"), tmp_path / "p.csv")
    assert any("expected two labels" in note for note in only.notes)


def lines_of(X, y):
    return "\n".join(
        f"{target:.6g} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(row) if v)
        for target, row in zip(y, X, strict=True)
    )


@pytest.fixture
def sparse(tmp_path):
    rng = np.random.default_rng(3)
    X = (rng.random((300, 30)) < 0.2) * rng.integers(1, 5, (300, 30))
    y = X[:, 3] - 2 * X[:, 7] + rng.normal(size=300)
    (tmp_path / "t.svm").write_text(lines_of(X, y) + "\n")
    return tmp_path, X


@pytest.mark.parametrize("more", [{}, {"interactions": "all"}, {"feature_ids": True}])
def test_lines_of_entries_get_the_predictions_of_the_run(sparse, more):
    folder, X = sparse
    select = {"method": "online_substitution", "n_features_to_select": 5, "loss": "squared"}
    run_of(folder, {"kind": "libsvm", "path": "t.svm", **more}, select)
    model = daskfs.load(folder / "run")
    expected = in_the_run(folder, model)
    assert_close(model.predict(folder / "t.svm"), expected)
    (folder / "one.svm").write_text((folder / "t.svm").read_text().splitlines()[11] + " 77:1\n")
    assert_close(model.predict(folder / "one.svm"), expected[11:12])
    if not more:
        assert_close(model.predict(scipy.sparse.csr_array(X)), expected)
        assert_close(model.predict(X.astype(float)), expected)


@pytest.mark.slow_cases("0", "3")
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_what_mission_learnt_from_a_stream_is_applied(sparse, n_classes):
    folder, X = sparse
    y = X[:, 3] - 2 * X[:, 7] + 0.1 * np.arange(300) / 300
    classes = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1])) if n_classes else y
    (folder / "t.svm").write_text(lines_of(X, classes) + "\n")
    loss = {0: "squared", 2: "logistic", 3: "multinomial"}[n_classes]
    select = {"method": "mission", "n_features_to_select": 5, "loss": loss}
    source = {"kind": "libsvm", "path": "t.svm", "feature_ids": True}
    run_of(folder, source, select, store="none", split=None)
    model, learnt = daskfs.load(folder / "run"), daskfs.Mission.load(folder / "run" / "model.npz")
    lines = LibsvmSource(folder / "t.svm", feature_ids=True)
    assert_close(model.predict(folder / "t.svm"), learnt.predict(lines))
    if n_classes:
        assert_close(model.predict_proba(folder / "t.svm"), learnt.predict_proba(lines))


def test_tables_of_entries_and_pairs_of_them_get_the_predictions_of_the_run(tmp_path):
    frame = messy()[["a", "city", "code", "y"]]
    frame = frame.assign(code=frame.code.map("k{}".format), city=frame.city.fillna("none"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = {"kind": "csv", "path": "t.csv", "target": "y", "one_hot": "sparse", "interactions": [["city", "code"]]}
    run_of(tmp_path, source, {"method": "online_substitution", "n_features_to_select": 6, "loss": "squared"})
    model = daskfs.load(tmp_path / "run")
    assert any("*" in name for name in model.features)
    assert_close(model.predict(frame.iloc[:, ::-1]), in_the_run(tmp_path, model))


def test_products_of_columns_that_fgm_selected_get_the_predictions_of_the_run(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 6))
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(y=X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=300))
    frame.to_csv(tmp_path / "t.csv", index=False)
    select = {"method": "fgm", "n_features_to_select": 2, "loss": "squared"}
    run_of(tmp_path, {"kind": "csv", "path": "t.csv", "target": "y"}, select, features={"map": "pairs"})
    model = daskfs.load(tmp_path / "run")
    assert "a * b" in model.features
    assert_close(model.predict(frame), in_the_run(tmp_path, model))
    assert_close(model.predict(frame[["b", "a", "c", "d", "e", "f"]]), model.predict(frame))


def test_texts_get_the_predictions_of_the_run(tmp_path):
    rng = np.random.default_rng(0)
    words = ["good", "bad", "film", "the", "slow", "bright"]
    rows = [{"text": " ".join(rng.choice(words, 6)), "label": float(rng.integers(0, 2))} for _ in range(200)]
    rows = [row | {"label": float("good" in row["text"])} for row in rows]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    source = {"kind": "text", "path": "t.jsonl", "text": "text", "target": "label"}
    run_of(tmp_path, source, {"method": "online_substitution", "n_features_to_select": 3, "loss": "logistic"})
    model = daskfs.load(tmp_path / "run")
    labels = (in_the_run(tmp_path, model) > 0).astype(int)
    assert_close(model.predict(tmp_path / "t.jsonl"), labels)


def test_a_store_is_applied_to_in_its_own_order_with_the_rows_of_the_source(table, tmp_path):
    folder, frame = table
    model, store = daskfs.load(folder / "run"), daskfs.open_store(folder / "one.zarr")
    frame = frame[frame.gone.notna()]  # the others were dropped
    expected = model.predict(frame)[store.source_rows]
    assert_close(model.predict(store), expected)
    applied = apply(model, folder / "one.zarr", tmp_path / "o.parquet")
    found = pd.read_parquet(tmp_path / "o.parquet")
    assert list(found.columns) == ["id", "row", "prediction"]
    np.testing.assert_array_equal(found.row, store.source_rows)
    assert_close(found.prediction, expected)
    assert list(found.id) == list(frame.id.to_numpy()[store.source_rows])
    assert applied.metrics == pytest.approx(apply(model, frame, tmp_path / "p.csv").metrics)
    assert applied.notes == []
    other = daskfs.ingest(frame.drop(columns="city"), tmp_path / "other.zarr", target="y", schema=without("city"))
    with refused(SchemaError, "new-rows", naming=["data"]):
        model.predict(other)
    later = daskfs.ingest(frame.iloc[:250], tmp_path / "later.zarr", schema=without())
    assert "encoded independently" in apply(model, later, tmp_path / "q.csv").notes[0]


def without(*names):
    return {"version": 1, "columns": {name: one for name, one in COLUMNS.items() if name not in names}}


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"feature_ids": True}])
def test_sparse_stores_are_applied_to_by_number_or_by_id(sparse, more):
    folder, _ = sparse
    select = {"method": "online_substitution", "n_features_to_select": 5, "loss": "squared"}
    run_of(folder, {"kind": "libsvm", "path": "t.svm", **more}, select)
    model, store = daskfs.load(folder / "run"), daskfs.open_store(folder / "one.zarr")
    assert_close(model.predict(store), model.predict(folder / "t.svm")[store.source_rows])


def test_classes_of_a_store_are_found_by_their_names(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200)})
    frame["y"] = np.where(frame.a > 0, "yes", "no")
    frame.to_csv(tmp_path / "t.csv", index=False)
    run_of(tmp_path, {"kind": "csv", "path": "t.csv", "target": "y"}, {"method": "fgm", "n_features_to_select": 1})
    model = daskfs.load(tmp_path / "run")
    new = daskfs.ingest(frame.assign(y=np.where(frame.a > 0, "yes", "maybe")), tmp_path / "new.zarr", target="y")
    applied = apply(model, new, tmp_path / "o.csv")
    assert applied.metrics["accuracy"] == 1.0, "the rows of 'yes' alone: nobody knows of 'maybe'"


def test_genotypes_get_the_predictions_of_the_run_with_variants_found_by_name(tmp_path):
    dosages = random_dosages(120, 30)
    y = dosages[:, 4] - 2.0 * dosages[:, 17] + 0.01 * np.random.default_rng(0).normal(size=120)
    bed = write_set(tmp_path, dosages, phenotypes=y.round(6).tolist())
    run_of(tmp_path, {"kind": "plink", "path": str(bed)}, {"method": "fgm", "n_features_to_select": 3})
    model = daskfs.load(tmp_path / "run")
    expected = in_the_run(tmp_path, model)
    assert_close(model.predict(bed), expected)
    order = np.random.default_rng(1).permutation(30)
    (tmp_path / "new").mkdir()
    other = write_set(tmp_path / "new", dosages[:50, order], ids=[f"rs{j}" for j in order], phenotypes=y[:50].tolist())
    assert_close(model.predict(other), expected[:50])
    apply(model, other, tmp_path / "o.csv")
    assert "prediction" in pd.read_csv(tmp_path / "o.csv").columns
    lacking = dosages.copy()
    lacking[7, 17] = MISSING
    with refused(DataError, "new-rows", at="column 'rs17', row 7"):
        model.predict(write_set(tmp_path / "new", lacking, name="lacking", phenotypes=y.tolist()))


@pytest.mark.slow
def test_a_run_of_an_old_store_makes_it_anew_by_force_and_leaves_a_model(tmp_path, monkeypatch):
    messy()[["a", "share", "y"]].to_csv(tmp_path / "t.csv", index=False)
    source, select = {"kind": "csv", "path": "t.csv", "target": "y"}, {"method": "fgm", "n_features_to_select": 1}
    with monkeypatch.context() as before:
        header = WholeWriter._common_header
        older = lambda self: header(self) | {"source": {**self.source, "encoder": None}}  # noqa: E731
        before.setattr(WholeWriter, "_common_header", older)
        run_of(tmp_path, source, select)
    with refused(RunError, "new-rows", naming=["--force"]):
        daskfs.load(tmp_path / "run")
    run_of(tmp_path, source, select, force=True)
    assert daskfs.load(tmp_path / "run").features == ["a"]


def test_arrays_are_taken_by_place_and_frames_by_name(tmp_path):
    run_of(tmp_path, {"kind": "sklearn", "name": "diabetes"}, {"method": "message", "n_subsets": 3})
    model = daskfs.load(tmp_path / "run")
    from sklearn.datasets import load_diabetes

    X, _ = load_diabetes(return_X_y=True, as_frame=True)
    expected = in_the_run(tmp_path, model)
    assert_close(model.predict(X.iloc[:, ::-1]), expected)
    assert_close(model.predict(X.to_numpy()), expected)
    with refused(DataError, "new-rows", naming=["10", "4"]):
        model.predict(X.to_numpy()[:, :4])
    wrong = X.to_numpy().copy()
    wrong[3] = np.nan
    with refused(DataError, "new-rows", at="column 'bmi', row 3", naming=["column"]):
        model.predict(wrong)


def test_folders_without_a_model_damaged_and_newer_ones_are_refused(table, tmp_path):
    folder, _ = table
    text = (folder / "run" / "model.json").read_text()
    document = json.loads(text)
    with refused(RunError, "new-rows", naming=["finished"]):
        daskfs.load(tmp_path)
    (tmp_path / "result.json").write_text("{}")
    with refused(RunError, "new-rows", naming=["--force"]):
        daskfs.load(tmp_path)
    changed = document | {"fit": document["fit"] | {"intercept": 1.0}}
    for content, problem in (
        (text[:-20], "cannot be read"),
        (json.dumps(changed), "its checksum does not match"),
        (json.dumps(document | {"format_version": 2}), "upgrade daskfs"),
        ("[]", "is not a model"),
    ):
        (tmp_path / "model.json").write_text(content)
        with pytest.raises(RunError, match=problem):
            daskfs.load(tmp_path)
    (tmp_path / "model.json").write_text(text)
    with refused(RunError, "new-rows", at="refit"):
        Model(document | {"refit": None}, refit=True)


def test_the_command_reads_files_and_standard_input(table, tmp_path, monkeypatch):
    folder, _ = table
    monkeypatch.chdir(tmp_path)
    run = str(folder / "run")
    done = CliRunner().invoke(app, ["apply", run, str(folder / "t.csv"), "-o", "o.csv", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n_rows"] == N
    done = CliRunner().invoke(app, ["apply", run, "-", "-o", "p.csv"], input=(folder / "t.csv").read_bytes())
    assert done.exit_code == 0, done.output
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "o.csv").read_bytes()
    assert "next:" not in done.output
    for arguments, message in (
        ([run, "nope.csv"], "no such file"),
        ([run, str(folder / "t.csv"), "-o", "x.txt"], "ends in .csv or .parquet"),
        ([str(tmp_path), str(folder / "t.csv")], "pass the folder of a finished run"),
    ):
        done = CliRunner().invoke(app, ["apply", *arguments])
        assert done.exit_code == 2
        assert message in done.stderr


def test_a_store_that_was_made_before_is_read_and_its_runs_leave_no_model(table, tmp_path):
    store = daskfs.ingest(table[1][["a", "share", "y"]], tmp_path / "one.zarr", target="y")
    assert store.encoder["kind"] == "table"
    header = json.loads((tmp_path / "one.zarr" / "zarr.json").read_text())
    assert header["attributes"]["daskfs"]["source"]["encoder_sha256"]
    content = (tmp_path / "one.zarr" / "encoder.json").read_text()
    (tmp_path / "one.zarr" / "encoder.json").write_text(content.replace("a", "b", 1))
    assert any("encoder.json" in line for line in daskfs.open_store(tmp_path / "one.zarr").verify())
