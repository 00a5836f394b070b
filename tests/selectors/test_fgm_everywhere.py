"""FGM gives the same bits wherever the work runs and however the data is stored, and keeps to its memory."""

from __future__ import annotations

from itertools import pairwise

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from daskfs.cluster.open import open_cluster
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.pipeline.checkpoint import Checkpoint
from daskfs.pipeline.plan import BASE_WORKER_NBYTES
from daskfs.selectors.fgm.plan import cut_columns
from daskfs.selectors.fgm.selector import FGM
from daskfs.selectors.fgm.tasks import ColumnRange, best_of_block, sums_of_block
from daskfs.sources.ingest import ingest
from daskfs.store.feature_store import FeatureStore

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


def assert_same_bits(found, expected):
    np.testing.assert_array_equal(found.selected_, expected.selected_)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.scores_, expected.scores_)
    assert found.intercept_ == expected.intercept_
    assert found.dual_gap_ == expected.dual_gap_
    pd.testing.assert_frame_equal(found.result_.history, expected.result_.history, check_exact=True)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "squared"])
def test_threads_and_processes_give_the_bits_of_this_thread(store, workers, loss):
    expected = FGM(**OPTIONS, loss=loss).fit(store)
    assert_same_bits(FGM(**OPTIONS, loss=loss).fit_matrix(store, workers=workers), expected)
    assert_same_bits(FGM(**OPTIONS, loss=loss, client=workers.client).fit(store), expected)


def test_arrays_and_training_rows_give_the_same_bits_on_workers(data, store, workers):
    X, y = data
    matrices = [ArrayMatrix(X, y), ArrayMatrix(scipy.sparse.csr_array(X), y), store.split(0.3)[0]]
    for matrix in matrices:
        assert_same_bits(FGM(**OPTIONS).fit_matrix(matrix, workers=workers), FGM(**OPTIONS).fit_matrix(matrix))


@pytest.mark.parametrize("density", [0.001, 0.01, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_sparse_columns_give_the_bits_of_dense_ones_where_most_scores_are_tied(density, dtype, loss):
    """Columns with one value that is not 0 are all alike when standardised: rounding must not choose among them."""
    rng = np.random.default_rng(0)
    X = (10.0 * rng.standard_normal((1500, 400)) * (rng.random((1500, 400)) < density)).astype(dtype)
    y = X[:, :60] @ rng.random(60) > 0.0
    weight = rng.random(1500) * (rng.random(1500) < 0.9)
    for sample_weight in (None, weight):
        dense = FGM(40, C=10.0, loss=loss).fit(X, y, sample_weight=sample_weight)
        for kind in (scipy.sparse.csr_array, scipy.sparse.csc_array):
            assert_same_bits(FGM(40, C=10.0, loss=loss).fit(kind(X), y, sample_weight=sample_weight), dense)
    rows = np.flatnonzero(rng.random(1500) < 0.7)
    views = [ArrayMatrix(kind(X), y.astype(float)).take(rows) for kind in (np.asarray, scipy.sparse.csr_array)]
    assert_same_bits(*(FGM(40, loss=loss).fit(view) for view in views))


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_means_and_deviations_are_exact_where_columns_are_constant(kind):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((700, 7)) < 0.5, rng.standard_normal((700, 7)), 0.0)
    X[:, 0], X[:, 1], X[:, 2] = 0.0, 0.1, 1e6 + X[:, 2]
    weight = rng.random(700) * (rng.random(700) < 0.9)
    mean, std = sums_of_block(ArrayMatrix(kind(X)), weight, ColumnRange(0, 7, 256, np.zeros(7), np.ones(7)))
    expected = np.average(X, axis=0, weights=weight)
    np.testing.assert_allclose(mean, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(std, np.sqrt(np.average((X - expected) ** 2, axis=0, weights=weight)), atol=1e-9)
    assert std[0] == std[1] == 0.0
    assert mean[1] == 0.1


@pytest.mark.parametrize("tile_shape", [(64, 70), (900, 3), (500, 7), (256, 16)])
@pytest.mark.parametrize("memory_limit", [None, "9MiB"])
def test_tiles_and_memory_do_not_change_a_bit(data, store, tmp_path, tile_shape, memory_limit):
    X, y = data
    other = ingest(X, tmp_path / "other.zarr", y=y, tile_shape=tile_shape)
    assert_same_bits(FGM(**OPTIONS, memory_limit=memory_limit).fit(other), FGM(**OPTIONS).fit(store))


@pytest.mark.parametrize("cuts", [[0, 70], [0, 1, 30, 70], [0, 17, 34, 51, 68, 70], list(range(71))])
def test_every_cut_of_the_columns_gives_the_same_scores(data, store, cuts):
    X, _ = data
    v = np.random.default_rng(1).standard_normal(len(X))
    centre, inverse = store.mean, 1.0 / store.std
    parts = {}
    for start, stop in pairwise(cuts):
        for piece_rows in (256, 512, 1024):
            block = ColumnRange(start, stop, piece_rows, centre[start:stop], inverse[start:stop])
            columns, scores = best_of_block(store, v, 70, block)
            for column, score in zip(columns.tolist(), scores.tolist(), strict=True):
                assert parts.setdefault(column, score) == score
    whole, scores = best_of_block(store, v, 70, ColumnRange(0, 70, 256, centre, inverse))
    assert parts == dict(zip(whole.tolist(), scores.tolist(), strict=True))


def test_the_answer_of_an_array_is_that_of_its_store(data, store):
    X, y = data
    array, stored = FGM(**OPTIONS).fit(X, y), FGM(**OPTIONS).fit(store)
    np.testing.assert_array_equal(array.selected_, stored.selected_)
    np.testing.assert_allclose(array.coef_, stored.coef_, rtol=1e-4, atol=1e-7)
    fortran = FGM(**OPTIONS).fit(np.asfortranarray(X), y)
    assert_same_bits(fortran, array)


def test_training_rows_bring_their_own_statistics(data, store):
    train, test = store.split(0.3)
    selector = FGM(**OPTIONS).fit(train)
    alone = FGM(**OPTIONS).fit_matrix(ArrayMatrix(train.read(slice(None)), train.read_target()))
    np.testing.assert_array_equal(selector.coef_, alone.coef_)
    assert selector.score(test) > 0.7


def test_a_dask_array_gives_the_answer_of_the_array(data):
    X, y = data
    lazy = FGM(**OPTIONS).fit(da.from_array(X, chunks=(300, 20)), y)
    np.testing.assert_array_equal(lazy.selected_, FGM(**OPTIONS).fit(X, y).selected_)


def test_int8_columns_are_scored_as_the_same_numbers_in_float32(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(-100, 100, (700, 40)).astype(np.int8)
    y = (X[:, [1, 4]] @ [1.0, -0.5] + 10 * rng.standard_normal(700) > 0).astype(float)
    stored = ingest(X, tmp_path / "int8.zarr", y=y, dtype="int8", shuffle=False)
    small, wide = FGM(5).fit(stored), FGM(5).fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(small.selected_, wide.selected_)
    np.testing.assert_allclose(small.coef_, wide.coef_, rtol=1e-9)


def test_the_memory_of_a_worker_is_kept(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 600), dtype=np.float32)  # 46 MiB, of which a task may hold 20
    y = (X[:, 3] > 0.0).astype(float)
    stored = ingest(X, tmp_path / "m.zarr", y=y)
    limit = 20 << 20
    selector = FGM(10, memory_limit=limit)
    plan = selector.plan(20_000, 600, "float32", limit, n_threads=2, tile_shape=stored.tile_shape)
    assert plan.task_nbytes <= limit
    with open_cluster("local", n_workers=2, dashboard_address=None) as workers:
        selector.fit_matrix(stored, workers=workers)
        peaks = [nbytes for name, nbytes in workers.peak_memory().items() if name != "client"]
    assert 0 < max(peaks) <= BASE_WORKER_NBYTES + plan.task_nbytes


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
    limit = 8300 << 10  # for two columns at a time, or three of fewer rows
    options = {"n_features_to_select": 40, "n_features_per_pass": n_features_per_pass, "memory_limit": limit}
    shape = FGM(**options)._shape(stored.shape[0], 60, 4)
    n_read = cut_columns(shape, limit, 1, (500, 5)).n_read
    assert 1 < n_read < 5  # or the tile alone says how many
    expected = FGM(**options).fit(stored)

    def as_planned():
        in_one_tile = all(len(set((columns // 5).tolist())) == 1 for columns in reads)
        return bool(reads) and in_one_tile and max(map(len, reads)) <= n_read

    assert as_planned()
    assert sorted(np.concatenate(reads)) == sorted(expected.selected_)
    checkpoint = Checkpoint(tmp_path / "kept")
    FGM(**options).fit_matrix(stored, checkpoint=checkpoint)
    reads.clear()
    resumed = FGM(**options).fit_matrix(stored, checkpoint=checkpoint)
    assert as_planned()
    assert_same_bits(resumed, expected)
