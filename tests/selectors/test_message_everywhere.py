"""The same answer wherever the work runs, however the data is stored, whatever it comes as; lazy stays lazy."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from daskfs.errors import DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.selector import Message
from daskfs.sources.ingest import ingest
from daskfs.sources.synthetic import SyntheticSource
from daskfs.store.feature_store import open_store


@pytest.fixture(scope="module")
def store(problem, tmp_path_factory):
    X, y = problem
    return ingest(X, tmp_path_factory.mktemp("message") / "p.zarr", y=y, dtype="float64", tile_shape=(256, 8))


def assert_same_bits(found, expected):
    np.testing.assert_array_equal(found.selected_, expected.selected_)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.scores_, expected.scores_)
    assert found.intercept_ == expected.intercept_
    pd.testing.assert_frame_equal(found.result_.history, expected.result_.history, check_exact=True)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_threads_and_processes_give_the_bits_of_this_thread(store, problem, workers, loss):
    expected = Message(n_subsets=5, loss=loss).fit(store)
    assert_same_bits(Message(n_subsets=5, loss=loss).fit_matrix(store, workers=workers), expected)
    assert_same_bits(Message(n_subsets=5, loss=loss).fit_matrix(ArrayMatrix(*problem), workers=workers), expected)


def test_a_client_is_where_the_work_runs(store, workers):
    assert_same_bits(Message(n_subsets=5, client=workers.client).fit(store), Message(n_subsets=5).fit(store))


@pytest.mark.parametrize("tile_shape", [(64, 20), (1200, 3), (500, 7)])
def test_tiles_of_any_shape_give_the_same_bits(problem, store, tmp_path, tile_shape):
    X, y = problem
    other = ingest(X, tmp_path / "other.zarr", y=y, dtype="float64", tile_shape=tile_shape)
    assert_same_bits(Message(n_subsets=5).fit(other), Message(n_subsets=5).fit(store))


def test_arrays_and_their_store_give_the_same_bits(problem, store):
    assert_same_bits(Message(n_subsets=5).fit(*problem), Message(n_subsets=5).fit(store))


def test_the_training_rows_of_a_split_are_read_from_the_store(problem, store):
    train, test = store.split(0.2, random_state=0)
    selector = Message(n_subsets=3).fit(train)
    X = train.read(slice(None))
    in_memory = ArrayMatrix(X, train.read_target(), shuffled=True)
    np.testing.assert_array_equal(selector.coef_, Message(n_subsets=3).fit(in_memory).coef_)
    assert selector.score(test) == pytest.approx(selector.score(test.read(slice(None)), test.read_target()))
    assert selector.score(test) > 0.7


def test_a_store_gives_its_names_and_digest_to_the_result(store):
    result = Message(n_subsets=3).fit(store).result_
    assert result.store_digest == store.digest
    assert list(result.table["name"]) == ["x2", "x5", "x11"]


def test_predictions_and_columns_of_a_store_are_those_of_the_array(problem, store):
    X, _ = problem
    selector = Message(n_subsets=3).fit(store)
    np.testing.assert_allclose(selector.predict(store), selector.predict(X[store.source_rows]), rtol=1e-12)
    np.testing.assert_array_equal(selector.transform(store), X[store.source_rows][:, [2, 5, 11]])


def test_a_store_in_source_order_is_used_with_a_warning(problem, tmp_path):
    X, y = problem
    ingest(X, tmp_path / "ordered.zarr", y=y, shuffle=False)
    with pytest.warns(UserWarning, match="in the order of their source"):
        selector = Message(n_subsets=3).fit(open_store(tmp_path / "ordered.zarr"))
    assert "in the order of their source" in selector.result_.notes[0]
    np.testing.assert_array_equal(selector.selected_, [2, 5, 11])


def test_rows_drawn_independently_need_no_shuffling(tmp_path):
    drawn = ingest(SyntheticSource(2000, 50, random_state=3), tmp_path / "drawn.zarr")
    selector = Message(n_subsets=5).fit(drawn)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), drawn.source["support"])


def test_int8_columns_are_held_exactly(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(-100, 100, (600, 12)).astype(np.int8)
    y = X[:, [1, 4]] @ [0.02, -0.01] + 0.3 * rng.standard_normal(600)
    stored = ingest(X, tmp_path / "int8.zarr", y=y, dtype="int8")
    selector = Message(n_subsets=3).fit(stored)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [1, 4])
    np.testing.assert_array_equal(selector.coef_, Message(n_subsets=3).fit(X.astype(np.float32), y).coef_)


def lazy_inputs(X, y):
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    array = da.from_array(X, chunks=(500, 7))
    return {
        "array": (array, da.from_array(y, chunks=500)),
        "array with y in memory": (array, y),
        "frame": (dd.from_pandas(frame, npartitions=3), dd.from_pandas(pd.Series(y, name="y"), npartitions=3)),
        "frame with y in memory": (dd.from_pandas(frame, npartitions=3), y),
    }


@pytest.mark.parametrize("kind", ["array", "array with y in memory", "frame", "frame with y in memory"])
def test_dask_collections_give_the_answer_of_arrays(problem, kind):
    X, y = lazy_inputs(*problem)[kind]
    assert_same_bits(Message(n_subsets=5).fit(X, y), Message(n_subsets=5).fit(*problem))


def test_names_are_those_of_the_collection(problem):
    X, y = problem
    array, frame = (lazy_inputs(X, y)[kind][0] for kind in ("array", "frame"))
    assert not hasattr(Message(n_subsets=3).fit(array, y), "feature_names_in_")
    assert list(Message(n_subsets=3).fit(frame, y).feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_what_is_lazy_stays_lazy(problem, output):
    X, y = problem
    selector = Message(n_subsets=3).set_output(transform=output).fit(X, y)
    array, frame = (lazy_inputs(X, y)[kind][0] for kind in ("array", "frame"))
    chosen_array, chosen_frame = selector.transform(array), selector.transform(frame)
    assert isinstance(chosen_array, da.Array)
    assert isinstance(chosen_frame, dd.DataFrame)
    np.testing.assert_array_equal(chosen_array.compute(), X[:, [2, 5, 11]])
    assert list(chosen_frame.columns) == ["x2", "x5", "x11"]
    for lazy in (array, frame):
        prediction = selector.predict(lazy)
        assert hasattr(prediction, "__dask_graph__")
        np.testing.assert_allclose(np.asarray(prediction), selector.predict(X), rtol=1e-10)
        assert selector.score(lazy, y) == pytest.approx(selector.score(X, y))


def test_lazy_columns_are_found_by_name(problem):
    X, y = problem
    frame = lazy_inputs(X, y)["frame"][0]
    selector = Message(n_subsets=3).fit(frame.compute(), y)
    turned = frame[list(frame.columns)[::-1]]
    np.testing.assert_allclose(np.asarray(selector.predict(turned)), selector.predict(frame.compute()))
    with pytest.raises(DataError, match="expected the column 'x5'"):
        selector.transform(frame.drop(columns="x5"))


def test_lazy_input_of_another_width_is_refused(problem):
    selector = Message(n_subsets=3).fit(*problem)
    with pytest.raises(DataError, match="X has 19 features, but 20"):
        selector.predict(da.zeros((10, 19)))


def test_lazy_input_that_cannot_be_fitted_is_refused(problem):
    X, y = problem
    frame = lazy_inputs(X, y)["frame"][0]
    with pytest.raises(DataError, match="requires y"):
        Message().fit(frame)
    with pytest.raises(DataError, match=r"column 'x0'.*ingest it"):
        Message().fit(frame.assign(x0="a"), y)
    with pytest.raises(DataError, match="weights of a Dask collection"):
        Message().fit(frame, y, np.ones(len(y)))
