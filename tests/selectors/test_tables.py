"""Tables whose columns are not all numbers: judged and encoded as files are, and later ones as those of the fit."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path

import dask.array
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from daskfs import FGM, Message, Mission, OnlineSubstitution, ingest
from daskfs.errors import DataError, SchemaError, SelectionWarning, SourceError
from daskfs.pipeline.drafting import source_of_file
from daskfs.selectors.tables import encoded
from daskfs.sources.registry import make_source
from tests.refusals import refused
from tests.tolerances import assert_close, assert_same_answer

N = 400


def table(n=N, seed=0):
    """A frame of all sorts of columns, and a target that four of its features explain."""
    rng = np.random.default_rng(seed)
    city, flag, number = rng.choice(["rome", "oslo", "lima"], n), rng.random(n) < 0.5, rng.standard_normal(n)
    percent = 100 * rng.random(n)
    frame = pd.DataFrame(
        {
            "city": pd.Categorical(city),
            "number": number,
            "flag": flag,
            "day": pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
            "share": [f"{value:.1f} %" for value in percent],
            "gaps": np.where(rng.random(n) < 0.1, np.nan, rng.standard_normal(n)),
            "holes": np.where(rng.random(n) < 0.1, None, rng.choice(["a", "b", "c", "d"], n)),
        }
    )
    y = 2.0 * (city == "oslo") + number - 1.5 * flag + 0.02 * percent + 0.01 * rng.standard_normal(n)
    return frame, pd.Series(y, name="price")


@pytest.fixture(scope="module")
def problem():
    return table()


def test_a_data_frame_is_selected_from_as_the_file_that_it_is_written_to(problem, tmp_path):
    frame, y = problem
    frame.assign(price=y).to_csv(tmp_path / "table.csv", index=False)
    _, source, _ = source_of_file(tmp_path / "table.csv", "price", tmp_path)
    store = ingest(make_source(**source), tmp_path / "store.zarr", dtype="float64")
    of_file, of_frame = FGM(4, loss="squared").fit(store), FGM(4, loss="squared", schema="judge").fit(frame, y)
    assert of_frame.encoder_.feature_names == list(store.names.array())
    assert of_frame.encoder_.target == "price"  # the name of the series
    assert list(of_frame.get_feature_names_out()) == list(of_file.get_feature_names_out())
    assert_same_answer(of_frame, of_file)
    assert set(of_frame.get_feature_names_out()) == {"city=oslo", "number", "flag=True", "share"}
    assert list(of_frame.feature_names_in_) == list(frame.columns)
    assert of_frame.n_features_in_ == frame.shape[1]
    assert "column types were inferred (category: city, flag, holes; date: day; percent: share)" in (
        of_frame.result_.notes
    )


def test_polars_arrow_and_dask_are_taken_as_pandas_is(problem):
    frame, y = problem
    expected = FGM(4, loss="squared", schema="judge").fit(frame, y)
    arrow = pa.Table.from_pandas(frame.assign(flag=frame["flag"].astype(str)))
    lazy = dd.from_pandas(frame, npartitions=3)
    for given, target in ((arrow, y.to_numpy()), (lazy, dd.from_pandas(y, npartitions=3))):
        found = FGM(4, loss="squared", schema="judge").fit(given, target)
        np.testing.assert_array_equal(found.selected_, expected.selected_)
        np.testing.assert_array_equal(found.feature_names_in_, frame.columns)
        np.testing.assert_array_equal(found.get_feature_names_out(), expected.get_feature_names_out())
        np.testing.assert_allclose(np.asarray(found.predict(given)), expected.predict(frame), rtol=1e-4)
        assert found.score(given, y) > 0.999
    chosen = found.transform(lazy)
    assert isinstance(chosen, dd.DataFrame)
    pd.testing.assert_frame_equal(
        chosen.compute(), expected.set_output(transform="pandas").transform(frame), check_dtype=False
    )


def test_polars_gives_and_takes_frames(problem):
    polars = pytest.importorskip("polars")
    frame, y = problem
    selector = FGM(4, loss="squared", schema="judge").set_output(transform="polars").fit(polars.from_pandas(frame), y)
    out = selector.transform(polars.from_pandas(frame))
    assert isinstance(out, polars.DataFrame)
    assert set(out.columns) == {"city=oslo", "number", "flag=true", "share"}  # as polars writes truth to a file


def test_a_classifier_learns_names_from_a_table(problem):
    frame, y = problem
    label = np.where(y > y.median(), "high", "low")
    selector = FGM(4, loss="logistic", schema="judge").fit(frame, label)
    assert selector.score(frame, label) > 0.95
    assert list(selector.classes_) == ["high", "low"]
    assert selector.predict_proba(frame).shape == (N, 2)


def test_a_selector_of_a_store_takes_tables_as_the_stores_was(problem, tmp_path):
    frame, y = problem
    frame.assign(price=y).to_csv(tmp_path / "table.csv", index=False)
    _, source, _ = source_of_file(tmp_path / "table.csv", "price", tmp_path)
    store = ingest(make_source(**source), tmp_path / "t.zarr", dtype="float64")
    selector = FGM(4, loss="squared").fit(store)
    expected = selector.predict(store)[np.argsort(store.source_rows)]
    for given in (frame, frame.assign(more=1)[["more", *frame.columns[::-1]]], pa.Table.from_pandas(frame)):
        assert_close(selector.predict(given), expected)
        assert selector.transform(given).shape == (N, 4)
    lazy = dd.from_pandas(frame, npartitions=2)
    assert_close(selector.predict(lazy).compute(), expected)
    assert_close(pickle.loads(pickle.dumps(selector)).predict(frame), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = selector.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == list(selector.get_feature_names_out())
    features = pd.DataFrame(store.read(slice(0, 9)), columns=store.names.array())
    assert_close(selector.predict(features), selector.predict(store)[:9])
    with refused(SchemaError, "new-rows", at="DataFrame", naming=["'city'"]):
        selector.predict(frame.drop(columns="city"))


def test_verbose_says_what_columns_were_taken_for(problem, capsys):
    frame, y = problem
    FGM(4, loss="squared", schema="judge", verbose=True).fit(frame, y)
    said = capsys.readouterr().err
    assert re.search(rf"FGM: {N} samples x \d+ features, loss squared", said)
    assert "column types were inferred (category: city" in said


def test_later_rows_may_have_what_nobody_saw_and_it_is_said(problem):
    frame, y = problem
    selector = FGM(4, loss="squared", schema="judge").fit(frame, y)
    later = frame.iloc[:20].copy()
    expected = selector.predict(later)
    later["city"] = later["city"].astype(object)
    later.loc[later.index[0], "city"] = "paris"
    with pytest.warns(SelectionWarning, match="column 'city': 1 row of unseen categories encoded as zeros"):
        found = selector.predict(later)
    oslo = selector.coef_[selector.encoder_.feature_names.index("city=oslo")]
    np.testing.assert_allclose(found[0], expected[0] - oslo * (frame["city"][0] == "oslo"))
    assert_close(found[1:], expected[1:])
    later = frame.iloc[:5].assign(number=np.nan)
    np.testing.assert_allclose(
        selector.predict(later), selector.predict(frame.iloc[:5].assign(number=frame.number.mean()))
    )


def test_columns_of_later_tables_are_found_by_their_names_and_only_those_that_are_needed(problem):
    frame, y = problem
    selector = FGM(4, loss="squared", schema="judge").fit(frame, y)
    needed = frame[["share", "flag", "number", "city"]].assign(other=1.0)
    assert_close(selector.predict(needed), selector.predict(frame))
    assert_close(selector.predict(frame.to_numpy(dtype=object)), selector.predict(frame))
    with refused(SchemaError, "new-rows", at="DataFrame", naming=["'city'"]):
        selector.predict(frame.drop(columns="city"))
    with refused(DataError, "frames", naming=["7"]):
        selector.predict(np.zeros((3, 2)))


def test_what_columns_are_can_be_declared_as_in_yaml(problem):
    frame, y = problem
    schema = {
        "columns": {
            "city": {"dtype": "string", "encoding": "counts"},
            "number": {},
            "flag": {},
            "holes": {"dtype": "string", "encoding": {"hashed": 3}, "missing": "category"},
            "day": {"dtype": "date", "encoding": {"date_parts": ["year"]}},
        },
        "other_columns": "ignore",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selector = FGM(3, loss="squared", schema=schema).fit(frame, y)
    assert selector.encoder_.feature_names == [
        "city.count", "number", "flag", "day.year=2021", "day.year=2022", "holes#0", "holes#1", "holes#2"
    ]  # fmt: skip
    np.testing.assert_array_equal(clone(selector).fit(frame, y).coef_, selector.coef_)
    names = selector.encoder_.feature_names
    counts = pd.DataFrame(encoded(selector.encoder_, frame, np.arange(len(names))), columns=names)
    np.testing.assert_array_equal(counts["city.count"], frame["city"].map(frame["city"].value_counts()).astype(float))
    hashed = counts[["holes#0", "holes#1", "holes#2"]]
    assert (hashed.sum(axis=1) == 1.0).all()
    assert hashed.groupby(frame["holes"].fillna("missing")).nunique().to_numpy().max() == 1
    with refused(SourceError, "frames", at="DataFrame, row 0, column 'day'", naming=["2021", "2022", "2030", "unseen"]):
        encoded(selector.encoder_, frame.assign(day=pd.Timestamp("2030-05-05")), np.arange(len(names)))


def test_rows_that_a_schema_drops_are_dropped_with_target_and_weight(problem):
    frame, y = problem
    schema = {"columns": {"gaps": {"missing": "drop"}, "number": {}}, "other_columns": "ignore"}
    weight = np.random.default_rng(0).random(N)
    found = FGM(2, loss="squared", schema=schema).fit(frame, y, sample_weight=weight)
    kept = frame["gaps"].notna().to_numpy()
    expected = FGM(2, loss="squared").fit(frame.loc[kept, ["number", "gaps"]], y[kept], sample_weight=weight[kept])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-12)


def test_what_should_be_looked_at_is_a_warning_and_what_is_left_out_a_note(problem):
    frame, y = problem
    suspicious = frame.assign(row_id=np.arange(N), again=frame["number"], same=y)
    with pytest.warns(SelectionWarning, match="'row_id': is an identifier") as caught:
        selector = FGM(3, loss="squared", schema="judge").fit(suspicious, y)
    said = str(caught[0].message)
    assert "'again': is a copy of 'number'" in said
    assert "'same': its correlation with the target is 1.0000" in said
    assert any("ignored: row_id, again" in note for note in selector.result_.notes)


def test_a_table_of_numbers_is_taken_as_it_is(problem):
    frame, y = problem
    numbers = frame[["number", "flag"]].assign(row_id=np.arange(N), mixed=pd.Series([1, 2.5] * (N // 2), dtype=object))
    selector = FGM(2, loss="squared").fit(numbers, y)
    assert selector.encoder_ is None
    assert list(selector.get_feature_names_out()) == ["number", "flag"]
    assert_same_answer(selector, FGM(2, loss="squared").fit(numbers.to_numpy(dtype=float), y))
    with refused(DataError, "values", at="column 'gaps', row 0", naming=["NaN"]):
        FGM(2, loss="squared").fit(frame[["number", "gaps"]], y)
    judged = FGM(2, loss="squared", schema="judge").fit(frame[["number", "gaps"]], y)
    assert judged.encoder_.feature_names == ["number", "gaps", "gaps=missing"]
    assert judged.fit(numbers.to_numpy(dtype=float), y).encoder_ is None


def test_a_fit_to_an_array_forgets_the_table_before(problem):
    frame, y = problem
    selector = (
        FGM(2, loss="squared", schema="judge").fit(frame, y).fit(frame[["number", "flag"]].to_numpy(dtype=float), y)
    )
    assert selector.encoder_ is None
    assert not hasattr(selector, "feature_names_in_")
    assert not any("judged" in note for note in selector.result_.notes)
    assert selector.n_features_in_ == len(selector.coef_) == 2


def test_columns_of_a_table_can_be_selected_whole(problem):
    frame, y = problem
    selector = FGM(3, loss="squared", schema="judge", feature_groups="schema").fit(frame, y)
    assert set(selector.group_names_) == {"city", "number", "flag=True"}
    dummies = {"city=lima", "city=oslo", "city=rome"}
    assert set(selector.get_feature_names_out()) == {*dummies, "number", "flag=True"}


@pytest.mark.parametrize(
    "selector", [Message(n_subsets=1, schema="judge"), Mission(4, loss="squared", schema="judge", random_state=0)]
)
def test_rows_that_come_later_are_encoded_as_the_first(problem, selector):
    frame, y = problem
    selector = clone(selector).partial_fit(frame.iloc[: N // 2], y[: N // 2])
    later = frame.iloc[N // 2 :].assign(city="oslo")
    selector.partial_fit(later, y[N // 2 :])
    assert selector.predict(later).shape == (N // 2,)
    assert "city=rome" in selector.encoder_.feature_names


def test_a_selector_of_tables_stands_in_scikit_learns_searches(problem):
    frame, y = problem
    search = GridSearchCV(FGM(loss="squared", schema="judge"), {"n_features_to_select": [1, 4]}, cv=3).fit(frame, y)
    assert search.best_params_ == {"n_features_to_select": 4}
    assert cross_val_score(OnlineSubstitution(4, loss="squared", schema="judge"), frame, y, cv=3).min() > 0.99
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(frame), search.predict(frame))


def test_feature_names_go_through_a_pipeline_with_encoders(problem):
    frame, y = problem
    encoders = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["city", "flag"]),
        (StandardScaler(), ["number"]),
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(encoders, FGM(3, loss="squared")).fit(frame, y)
    names = pipeline.get_feature_names_out()
    assert {"number", "city_oslo"} < set(names)
    assert {name.rpartition("_")[0] for name in names} == {"", "city", "flag"}
    after = make_pipeline(FGM(4, loss="squared", schema="judge"), StandardScaler()).fit(frame, y)
    assert set(after.get_feature_names_out()) == {"city=oslo", "number", "flag=True", "share"}


def test_names_of_a_table_are_checked(problem):
    frame, y = problem
    selector = FGM(4, loss="squared", schema="judge").fit(frame, y)
    np.testing.assert_array_equal(selector.get_feature_names_out(frame.columns), selector.get_feature_names_out())
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        selector.get_feature_names_out(["a"] * 7)


@pytest.mark.parametrize("path", ["table.zarr", Path("table.csv")])
def test_a_path_is_no_data(path):
    with refused(DataError, "shapes", at="X", naming=["open_store", str(path)]):
        OnlineSubstitution(1).fit(path, [0.0, 1.0])


@pytest.mark.parametrize("make", [lambda x: x, lambda x: dd.from_pandas(x, npartitions=2)], ids=["pandas", "dask"])
@pytest.mark.parametrize("values", [np.arange(9.0), list("abcdefghi")], ids=["numbers", "texts"])
def test_one_column_is_not_a_table(make, values, tmp_path):
    column, y = make(pd.Series(values, name="a")), np.arange(9.0)
    with pytest.raises(ValueError, match=r"2-dimensional|could not convert|data frame"):  # scikit-learn's or ours
        FGM(1).fit(column, y)
    with pytest.raises(DataError) as fault:
        ingest(column, tmp_path / "x.zarr", y=y)
    assert fault.value.where == "X"


@pytest.mark.parametrize(
    "data",
    [
        pa.array([1.0, 2.0, 3.0]),
        pa.chunked_array([[1.0, 2.0], [3.0]]),
        xarray.Dataset({"a": ("row", np.arange(3.0))}),
        {"a": [1.0, 2.0, 3.0]},
        iter(np.eye(3)),
    ],
    ids=lambda data: type(data).__name__,
)
def test_what_is_neither_a_matrix_nor_a_table_is_refused(data):
    with refused(DataError, "shapes", at="X"):
        Message().fit(data, [0.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("data", "y", "place"),
    [
        (np.ma.masked_greater(np.eye(3), 0.5), [0.0, 1.0, 2.0], "X"),
        (np.eye(3), np.ma.masked_equal([0.0, 1.0, 2.0], 1.0), "y"),
        (np.eye(3), pd.date_range("2021", periods=3), "y"),
        (np.eye(3), np.array(["a", None, "b"], dtype=object), "target, row 1"),
        (np.eye(3), pd.Series(["a", "b", pd.NA], dtype="string"), "target, row 2"),
    ],
    ids=["X", "y", "dates", "None", "NA"],
)
def test_masked_and_missing_values_and_dates_as_target_are_refused(data, y, place):
    topic = "values" if np.ma.is_masked(data) or np.ma.is_masked(y) else "target"
    with refused(DataError, topic, at=place):
        FGM(1).fit(data, y)


def test_a_column_of_values_that_have_no_encoding_is_left_out(problem):
    frame, y = problem
    odd = frame[["number"]].assign(
        lists=[[1.0, 2.0]] * N, took=pd.to_timedelta(np.arange(N), unit="s"), month=pd.period_range("2021", periods=N)
    )
    with pytest.warns(SelectionWarning, match="left out") as caught:
        fitted = Message().fit(odd, y)
    assert fitted.get_feature_names_out().tolist() == ["number"]
    assert all(name in str(caught[0].message) for name in ("lists", "took", "month", "duration"))
    mixed = frame[["number"]].assign(mixed=[1, "a"] * (N // 2))
    with refused(SourceError, "frames", at="column 'mixed'"):
        Message().fit(mixed, y)


@pytest.mark.parametrize(
    "inside", [np.asarray, lambda x: dask.array.from_array(x, chunks=(20, 3))], ids=["numpy", "dask"]
)
def test_an_array_of_xarray_is_fitted_as_what_it_holds(inside, tmp_path):
    X = np.random.default_rng(0).standard_normal((60, 3))
    y, data = X[:, 1] - X[:, 2], xarray.DataArray(inside(X), dims=("row", "column"))
    expected, found = Message().fit(X, y), Message().fit(data, y)
    assert np.flatnonzero(found.support_).tolist() == np.flatnonzero(expected.support_).tolist() == [1, 2]
    assert_close(np.asarray(found.predict(data)), expected.predict(X))
    np.testing.assert_array_equal(np.asarray(found.transform(data)), X[:, 1:])
    np.testing.assert_array_equal(
        ingest(data, tmp_path / "x.zarr", y=y, shuffle=False, dtype="float64").read(slice(None)), X
    )


def test_a_stream_of_record_batches_is_fitted_as_its_table():
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.standard_normal(60) for name in "abc"})
    found = OnlineSubstitution(1, loss="squared").fit(table.to_reader(), table["b"].to_numpy())
    assert list(found.get_feature_names_out()) == ["b"]


@pytest.mark.parametrize("make", [pd.DataFrame, pa.Table.from_pandas, lambda frame: dd.from_pandas(frame, 2)])
@pytest.mark.parametrize("has_texts", [False, True])
def test_two_columns_of_one_name_are_refused(make, has_texts):
    frame = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20.0) ** 2, "c": ["x", "y"] * 10 if has_texts else 1.0})
    if make == pa.Table.from_pandas:
        table = pa.Table.from_pandas(frame).rename_columns(["a", "a", "c"])
    else:
        table = make(frame.set_axis(["a", "a", "c"], axis=1))
    with pytest.raises((DataError, SourceError)) as caught:
        Message().fit(
            table, dd.from_pandas(pd.Series(np.arange(20.0)), 2) if hasattr(table, "dask") else np.arange(20.0)
        )
    assert "'a'" in str(caught.value)


def test_a_table_without_a_target_or_with_one_of_another_length_is_refused(problem):
    frame, y = problem
    with refused(DataError, "shapes", at="fit", naming=["passed"]):
        FGM(loss="squared").fit(frame)
    with refused(DataError, "frames", naming=["400"]):
        FGM(loss="squared").fit(frame, y[:10])


def test_a_selection_of_nothing_predicts_the_mean_of_arrays_and_tables(problem):
    frame, _ = problem
    noise = np.random.default_rng(5).standard_normal(N)
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        selector = Message(n_subsets=1, schema="judge", gamma=1.0, loss="squared").fit(frame, noise)
    np.testing.assert_allclose(selector.predict(frame), noise.mean())
