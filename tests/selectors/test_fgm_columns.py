"""Scores and moments of columns, dense and sparse, however they are cut; and scikit-learn's examination of FGM."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

from daskfs.matrix.arrays import ArrayMatrix
from daskfs.pipeline.checkpoint import Checkpoint
from daskfs.selectors.fgm.plan import Units, cut_columns
from daskfs.selectors.fgm.selector import FGM
from daskfs.selectors.fgm.tasks import ColumnRange, best_of_block, sums_of_block
from daskfs.selectors.shared.budget import DataShape, Limits
from daskfs.sources.ingest import ingest
from daskfs.store.feature_store import FeatureStore
from tests.contract.lab import assert_same_bits
from tests.tolerances import assert_same_answer, tolerance_of

OPTIONS = {"n_features_to_select": 9, "n_features_per_pass": 2, "C": 0.02, "certify": True}


def make(n_samples=900, n_features=70, dtype=np.float32):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features)).astype(dtype)
    y = X[:, [2, 5, 11, 60]].astype(float) @ [1.5, -1.0, 0.7, 1.0] + 0.5 + rng.standard_normal(n_samples) > 0.0
    return X, y.astype(float)


@pytest.fixture(scope="module")
def data():
    return make()


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    X, y = data
    return ingest(X, tmp_path_factory.mktemp("fgm") / "p.zarr", y=y, tile_shape=(256, 16))


@pytest.mark.slow
@pytest.mark.parametrize("density", [0.001, 0.01, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_sparse_columns_give_the_answer_of_dense_ones_where_most_scores_are_tied(density, dtype, loss):
    """Columns with one value that is not 0 are all alike when standardised: rounding must not choose among them."""
    rng = np.random.default_rng(0)
    X = (10.0 * rng.standard_normal((1500, 400)) * (rng.random((1500, 400)) < density)).astype(dtype)
    y = X[:, :60] @ rng.random(60) > 0.0
    weight = rng.random(1500) * (rng.random(1500) < 0.9)
    for sample_weight in (None, weight):
        dense = FGM(40, C=10.0, loss=loss).fit(X, y, sample_weight=sample_weight)
        for kind in (scipy.sparse.csr_array, scipy.sparse.csc_array):
            sparse = FGM(40, C=10.0, loss=loss).fit(kind(X), y, sample_weight=sample_weight)
            assert_same_answer(sparse, dense, tolerance_of("fgm", dtype))
    rows = np.flatnonzero(rng.random(1500) < 0.7)
    views = [ArrayMatrix(kind(X), y.astype(float)).take(rows) for kind in (np.asarray, scipy.sparse.csr_array)]
    assert_same_answer(*(FGM(40, loss=loss).fit(view) for view in views), tolerance_of("fgm", dtype))


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_means_and_deviations_are_exact_where_columns_are_constant(kind):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((700, 7)) < 0.5, rng.standard_normal((700, 7)), 0.0)
    X[:, 0], X[:, 1], X[:, 2] = 0.0, 0.1, 1e6 + X[:, 2]
    weight = rng.random(700) * (rng.random(700) < 0.9)
    moments = sums_of_block(ArrayMatrix(kind(X)), weight, ColumnRange(0, 7, 256))
    mean, std = moments.mean, moments.deviation
    expected = np.average(X, axis=0, weights=weight)
    np.testing.assert_allclose(mean, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(std, np.sqrt(np.average((X - expected) ** 2, axis=0, weights=weight)), atol=1e-9)
    assert std[0] == std[1] == 0.0
    assert mean[1] == 0.1
    np.testing.assert_array_equal(moments.minimum, X[weight > 0.0].min(axis=0))


@pytest.mark.parametrize("cuts", [[0, 70], [0, 1, 30, 70], [0, 17, 34, 51, 68, 70], list(range(71))])
def test_every_cut_of_the_columns_gives_the_same_scores_and_keeps_what_is_likely(data, store, cuts):
    X, likely = data[0], np.array([0, 15, 16, 31, 69])
    v = np.random.default_rng(1).standard_normal((2, len(X)))
    centre, inverse = store.mean, 1.0 / store.std
    parts = {}
    for start, stop in pairwise(cuts):
        for piece_rows in (256, 512, 1024):
            block = ColumnRange(start, stop, piece_rows, centre[start:stop], inverse[start:stop])
            columns, scores, kept, values = best_of_block(store, v, 70, likely, block)
            assert kept.tolist() == [column for column in likely.tolist() if start <= column < stop]
            np.testing.assert_array_equal(values, store.read(slice(None), kept).T)
            for column, score in zip(columns.tolist(), scores.tolist(), strict=True):
                assert parts.setdefault(column, score) == score
    whole, scores = best_of_block(store, v, 70, likely, ColumnRange(0, 70, 256, centre, inverse))[:2]
    assert parts == dict(zip(whole.tolist(), scores.tolist(), strict=True))


@pytest.fixture
def reads(monkeypatch):
    """The columns that each task asks a store for by their numbers."""
    asked, read = [], FeatureStore.read

    def counted(self, rows, columns=slice(None), out=None):
        if isinstance(columns, np.ndarray):
            asked.append(columns)
        return read(self, rows, columns, out)

    monkeypatch.setattr(FeatureStore, "read", counted)
    return asked


@pytest.mark.parametrize("n_features_per_pass", [4, 10, 20])
@pytest.mark.parametrize("rows", ["all", "of a split"])
def test_a_task_reads_no_more_columns_of_a_store_than_planned(tmp_path, reads, n_features_per_pass, rows):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 60), dtype=np.float32)
    y = (X[:, ::3] @ rng.standard_normal(20) > 0.0).astype(float)
    stored = ingest(X, tmp_path / "m.zarr", y=y, tile_shape=(500, 5))
    stored = stored if rows == "all" else stored.split(0.25)[0]
    limit = 9314 << 10  # for two columns at a time, or four of fewer rows
    options = {"n_features_to_select": 40, "n_features_per_pass": n_features_per_pass, "memory_limit": limit}
    shape = DataShape(stored.shape[0], 60, np.dtype(np.float32), (500, 5))
    n_read = cut_columns(shape, FGM(**options)._sizes(Units(60)), Limits(limit)).n_read
    assert 1 < n_read < 5  # or the tile alone says how many
    expected = FGM(**options).fit(stored)

    def as_planned():
        in_one_tile = all(len(set((columns // 5).tolist())) == 1 for columns in reads)
        return bool(reads) and in_one_tile and max(map(len, reads)) <= n_read

    assert as_planned()
    assert set(np.concatenate(reads)) <= set(expected.selected_)
    checkpoint = Checkpoint(tmp_path / "kept")
    FGM(**options).fit_matrix(stored, checkpoint=checkpoint)
    reads.clear()
    resumed = FGM(**options).fit_matrix(stored, checkpoint=checkpoint)
    assert as_planned()
    assert sorted(np.concatenate(reads)) == sorted(expected.selected_)
    assert_same_bits(resumed, expected)
