"""What MESSAGE makes of the order of rows, of int8 columns, and of lazy input that cannot be used."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from daskfs.errors import DataError
from daskfs.selectors.message.selector import Message
from daskfs.sources.ingest import ingest
from daskfs.sources.synthetic import SyntheticSource
from daskfs.store.feature_store import open_store
from tests.refusals import refused
from tests.tolerances import FLOAT32, assert_close


@pytest.fixture(scope="module")
def store(problem, tmp_path_factory):
    X, y = problem
    return ingest(X, tmp_path_factory.mktemp("message") / "p.zarr", y=y, dtype="float64", tile_shape=(256, 8))


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
    assert_close(selector.coef_, Message(n_subsets=3).fit(X.astype(np.float32), y).coef_, FLOAT32)


def lazy_inputs(X, y):
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    array = da.from_array(X, chunks=(500, 7))
    return {
        "array": (array, da.from_array(y, chunks=500)),
        "array with y in memory": (array, y),
        "frame": (dd.from_pandas(frame, npartitions=3), dd.from_pandas(pd.Series(y, name="y"), npartitions=3)),
        "frame with y in memory": (dd.from_pandas(frame, npartitions=3), y),
    }


def test_lazy_columns_are_found_by_name(problem):
    X, y = problem
    frame = lazy_inputs(X, y)["frame"][0]
    selector = Message(n_subsets=3).fit(frame.compute(), y)
    turned = frame[list(frame.columns)[::-1]]
    np.testing.assert_allclose(np.asarray(selector.predict(turned)), selector.predict(frame.compute()))
    with refused(DataError, "shapes", naming=["'x5'"]):
        selector.transform(frame.drop(columns="x5"))


def test_lazy_input_of_another_width_is_refused(problem):
    selector = Message(n_subsets=3).fit(*problem)
    with refused(DataError, "shapes", naming=["19", "20"]):
        selector.predict(da.zeros((10, 19)))
    with refused(DataError, "shapes", naming=["two dimensions", "1"]):
        selector.predict(da.zeros(20))
    assert selector.predict(da.zeros(20).reshape(1, -1)).compute().shape == (1,)


def test_lazy_input_that_cannot_be_fitted_is_refused(problem):
    X, y = problem
    frame = lazy_inputs(X, y)["frame"][0]
    with refused(DataError, "shapes", at="fit"):
        Message().fit(frame)


def test_weights_in_memory_and_lazy_ones_weigh_the_rows_of_lazy_input_alike(problem):
    X, y = problem
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    lazy = da.from_array(X, chunks=(500, 7))
    given = (weight, da.from_array(weight, chunks=500), None)
    in_memory, of_dask, none = (Message(n_subsets=3).fit(lazy, y, one).coef_ for one in given)
    np.testing.assert_array_equal(in_memory, of_dask)
    assert (in_memory != none).any()


def test_a_lazy_target_may_have_other_chunks_one_column_or_objects(problem):
    X, y = problem
    lazy, frame = da.from_array(X, chunks=(400, -1)), dd.from_pandas(pd.DataFrame(X), npartitions=3)
    expected = Message(n_subsets=3, random_state=0).fit(lazy, y)
    column = pd.DataFrame({"y": y})
    for rows, target in (
        (lazy, da.from_array(y, chunks=350)),
        (lazy, da.from_array(y[:, None], chunks=(350, 1))),
        (lazy, da.from_array(y.astype(object), chunks=400)),
        (lazy, column),
        (frame, dd.from_pandas(column, npartitions=3)),
    ):
        found = Message(n_subsets=3, random_state=0).fit(rows, target)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        assert found.score(rows, target) == expected.score(X, y)
    for labels in (y > 0.0, np.where(y > 0.0, "yes", "no")):
        found = Message(n_subsets=3).fit(lazy, da.from_array(labels.astype(object), chunks=350))
        np.testing.assert_array_equal(found.classes_, np.unique(labels))
    with refused(DataError, "arrays", at="y", naming=[str(len(y)), str(len(y) - 1)]):
        Message().fit(lazy, da.from_array(y[1:], chunks=350))
