"""The same bits wherever the work runs and however the data is stored; scikit-learn's examination; resumed fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from daskfs.baselines.lasso.averaging import Averaging
from daskfs.baselines.lasso.bolasso import Bolasso
from daskfs.baselines.lasso.full_data import FullData
from daskfs.baselines.lasso.median import Median
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.sources.ingest import ingest

BASELINES = [FullData(), Averaging(n_subsets=5), Median(n_subsets=5), Bolasso(n_bootstraps=3)]
NAMES = ["full_data", "averaging", "median", "bolasso"]


@pytest.fixture(scope="module")
def store(problem, tmp_path_factory):
    X, y = problem
    return ingest(X, tmp_path_factory.mktemp("baselines") / "p.zarr", y=y, dtype="float64", tile_shape=(256, 8))


def assert_same_bits(found, expected):
    np.testing.assert_array_equal(found.selected_, expected.selected_)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.scores_, expected.scores_)
    assert found.intercept_ == expected.intercept_
    pd.testing.assert_frame_equal(found.result_.history, expected.result_.history, check_exact=True)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("daskfs.baselines.lasso.paths.block_rows", lambda n_features: 150)


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
class TestEveryBaseline:
    def test_threads_and_processes_give_the_bits_of_this_thread(self, baseline, store, problem, workers, small_blocks):
        expected = clone(baseline).fit(store)
        assert_same_bits(clone(baseline).fit_matrix(store, workers=workers), expected)
        view = store.take(np.arange(0, 1200, 2))
        assert_same_bits(clone(baseline).fit_matrix(view, workers=workers), clone(baseline).fit(view))

    def test_tiles_of_any_shape_give_the_same_bits(self, baseline, problem, store, tmp_path):
        X, y = problem
        expected = clone(baseline).fit(store)
        for tile_shape in [(64, 20), (1200, 3)]:
            path = tmp_path / f"{tile_shape[0]}.zarr"
            other = ingest(X, path, y=y, dtype="float64", tile_shape=tile_shape)
            assert_same_bits(clone(baseline).fit(other), expected)

    def test_a_resumed_fit_ends_with_the_same_answer(self, baseline, problem):
        matrix, checkpoint = ArrayMatrix(*problem), Kept()
        whole = clone(baseline).fit_matrix(matrix, checkpoint=checkpoint)
        assert len(checkpoint) > 0
        del checkpoint[list(checkpoint)[-1]]
        assert_same_bits(clone(baseline).fit_matrix(matrix, checkpoint=checkpoint), whole)

    def test_float32_and_int8_stores_are_taken(self, baseline, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.integers(-100, 100, (600, 12)).astype(np.int8)
        y = X[:, [1, 4]] @ [0.02, -0.01] + 0.3 * rng.standard_normal(600)
        stored = ingest(X, tmp_path / "int8.zarr", y=y, dtype="int8")
        assert {1, 4} <= set(clone(baseline).fit(stored).selected_)


class Kept(dict):
    """A checkpoint in memory."""

    def load(self, name):
        return self.get(name)

    def save(self, name, arrays):
        self[name] = {key: np.array(value) for key, value in arrays.items()}
