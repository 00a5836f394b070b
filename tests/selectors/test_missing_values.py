"""Missing values mean the same everywhere: they are refused, whatever else a table holds, unless somebody says more."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

from daskfs import OnlineSubstitution, ingest
from daskfs.errors import DaskfsError, DataError, SelectionWarning
from daskfs.sources import undeclared
from tests.refusals import refused

N, ROW = 200, 17
rng = np.random.default_rng(0)
NUMBERS = pd.DataFrame(rng.standard_normal((N, 3)), columns=["a", "b", "c"])
TARGET = 2.0 * NUMBERS["a"] - NUMBERS["b"] + 0.1 * rng.standard_normal(N)
TARGET.name = "price"
HOLES = NUMBERS.copy()
HOLES.loc[ROW, "b"] = np.nan
MIXED = {
    "categories": HOLES.assign(city=rng.choice(["rome", "oslo"], N)),
    "texts": HOLES.assign(city=rng.choice(["rome", "oslo", "lima"], N).astype(object)),
    "dates": HOLES.assign(day=pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, N), unit="D")),
}
FRAMES = {
    "numbers": HOLES,
    "truths": HOLES.assign(flag=NUMBERS["a"] > 0),
    "nullable": HOLES.astype("Float64"),
    "objects": HOLES.astype(object).where(HOLES.notna(), None),
    **MIXED,
}


def selector(**options):
    return OnlineSubstitution(2, loss="squared", **options)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("form", ["pandas", "arrow", "dask"])
def test_frames_with_missing_values_are_refused_whatever_else_they_hold(kind, form, tmp_path):
    frame = FRAMES[kind]
    make = {"pandas": lambda f: f, "arrow": pa.Table.from_pandas, "dask": lambda f: dd.from_pandas(f, npartitions=2)}
    with pytest.raises(DaskfsError) as of_fit:
        selector().fit(make[form](frame), TARGET.to_numpy() if form == "dask" else TARGET)
    with pytest.raises(DaskfsError) as of_ingest:
        ingest(make[form](frame.assign(price=TARGET)), tmp_path / "s.zarr", target="price")
    for refusal in (of_fit.value, of_ingest.value):
        assert "column 'b'" in refusal.where
        assert f"row {ROW}" in refusal.where
        assert "schema='judge'" in refusal.remedy or "missing: drop, mean" in refusal.remedy
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.parametrize("kind", FRAMES)
def test_what_the_error_advises_treats_a_frame_alike_in_a_fit_and_in_a_store(kind, tmp_path):
    frame = FRAMES[kind]
    of_frame = selector(schema="judge").fit(frame, TARGET)
    table = frame.assign(price=TARGET)
    store = ingest(table, tmp_path / "s.zarr", target="price", schema="judge", dtype="float64")
    assert list(store.feature_names) == of_frame.encoder_.feature_names
    assert {"b", "b=missing"} < set(store.feature_names)
    rows = np.argsort(store.source_rows)
    b = store.read(rows, np.array([list(store.feature_names).index("b")]))[:, 0]
    np.testing.assert_allclose(b, HOLES["b"].fillna(HOLES["b"].mean()))
    np.testing.assert_array_equal(selector().fit(store).get_feature_names_out(), of_frame.get_feature_names_out())


@pytest.mark.parametrize("kind", MIXED)
def test_a_frame_without_missing_values_has_the_same_features_in_a_fit_and_in_a_store(kind, tmp_path):
    frame = MIXED[kind].fillna({"b": 0.0})
    store = ingest(frame.assign(price=TARGET), tmp_path / "s.zarr", target="price")
    apart = ingest(frame, tmp_path / "t.zarr", y=TARGET)
    features = selector().fit(frame, TARGET).encoder_.feature_names
    assert list(store.feature_names) == list(apart.feature_names) == features


def test_arrays_and_stores_refuse_them_too_and_an_imputer_before_takes_them(tmp_path):
    X = HOLES.to_numpy()
    for given in (X, X.tolist(), da.from_array(X, chunks=50)):
        with refused(DataError, "values", naming=["NaN"]) as refusal:
            selector().fit(given, TARGET.to_numpy())
        assert f"row {ROW}" in refusal.value.where
    with refused(DataError, "values", at=f"column 'x1', row {ROW}", naming=["NaN"]):
        ingest(X, tmp_path / "s.zarr", y=TARGET.to_numpy())
    pipeline = make_pipeline(SimpleImputer(add_indicator=True), selector()).fit(X, TARGET)
    assert set(pipeline[-1].selected_) == {0, 1}


def test_several_columns_and_texts_that_mean_no_value_are_named(tmp_path):
    frame = MIXED["texts"].assign(amount=["3.5"] * (N - 2) + ["?", "4"])
    frame.loc[[3, 5], "city"] = None
    with refused(DataError, "values", at=f"row {ROW}, column 'b'", naming=["'city'", "'amount'"]):
        selector().fit(frame, TARGET)


def test_columns_that_lack_no_value_are_not_examined_before_a_refusal(monkeypatch):
    examined = []
    infer = undeclared.infer_schema
    monkeypatch.setattr(
        undeclared, "infer_schema", lambda columns, *more: examined.append([*columns]) or infer(columns, *more)
    )
    with refused(DataError, "values", at=f"row {ROW}, column 'b'"):
        selector().fit(MIXED["texts"], TARGET)
    assert examined == [["b", "city", "price"]]
    examined.clear()
    empty = NUMBERS.assign(nothing=np.full(N, np.nan))
    with pytest.warns(SelectionWarning, match="nothing"):
        fitted = selector().fit(empty.assign(city=MIXED["texts"]["city"]), TARGET)
    assert set(fitted.get_feature_names_out()) == {"a", "b"}
    assert examined[-1] == ["a", "b", "c", "nothing", "city", "price"], "what is left out may lack all values"


def test_missing_says_what_takes_their_place_in_columns_of_numbers(tmp_path):
    store = ingest(MIXED["texts"].assign(price=TARGET), tmp_path / "s.zarr", target="price", missing="zero")
    assert list(store.feature_names) == ["a", "b", "c", "city=lima", "city=oslo", "city=rome"]
    b = store.read(np.argsort(store.source_rows), np.array([1]))[:, 0]
    assert b[ROW] == 0.0


def test_a_file_is_described_by_a_schema_and_not_judged_while_it_is_read(tmp_path):
    HOLES.assign(price=TARGET).to_csv(tmp_path / "t.csv", index=False)
    with refused(DaskfsError, "formats", naming=["daskfs init"]):
        ingest(tmp_path / "t.csv", tmp_path / "s.zarr", target="price", schema="judge")
