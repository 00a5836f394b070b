from __future__ import annotations

import numpy as np
import pytest

from daskfs.store.column_statistics import RunningStatistics, statistics_of
from daskfs.store.row_sorter import stored_order


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_statistics_are_numpys(make_store, dtype):
    X = (np.random.default_rng(0).standard_normal((5000, 30)) * 20).clip(-120, 120).astype(dtype)
    store = make_store(X, batch=777)
    exact = X.astype(np.float64)
    np.testing.assert_allclose(store.mean, exact.mean(axis=0), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(store.std, exact.std(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(store.minimum, X.min(axis=0))
    np.testing.assert_array_equal(store.maximum, X.max(axis=0))
    assert not store.n_missing.any()


def test_a_huge_offset_does_no_harm(make_store):
    X = (1e6 + np.random.default_rng(0).standard_normal((20_000, 8))).astype(np.float32)
    store = make_store(X, batch=3000)
    np.testing.assert_allclose(store.std, X.astype(np.float64).std(axis=0), rtol=1e-9)


@pytest.mark.slow
def test_statistics_do_not_depend_on_how_rows_arrive(make_store):
    X = np.random.default_rng(0).standard_normal((20_000, 8)).astype(np.float32)
    stores = [make_store(X, batch=batch, tile_shape=tile) for batch, tile in ((999, None), (9_000, (64, 8)), (1, None))]
    for name in ("mean", "std"):
        assert len({getattr(store, name).tobytes() for store in stores}) == 1


def test_missing_values_are_left_out():
    X = np.random.default_rng(0).standard_normal((1000, 4)) + 50
    X[::3, 1] = np.nan
    X[:, 2] = np.nan
    statistics = RunningStatistics(4)
    for start in range(0, 1000, 130):
        statistics.update(X[start : start + 130])
    kept = [0, 1, 3]
    np.testing.assert_allclose(statistics.mean[kept], np.nanmean(X[:, kept], axis=0), rtol=1e-13)
    np.testing.assert_allclose(statistics.std[kept], np.nanstd(X[:, kept], axis=0), rtol=1e-12)
    assert statistics.n_missing.tolist() == [0, 334, 1000, 0]
    assert np.isnan([statistics.mean[2], statistics.std[2], statistics.minimum[2]]).all()


def test_a_constant_column_has_exactly_no_deviation(make_store):
    X = np.full((3000, 2), 0.1, dtype=np.float32)
    store = make_store(X, batch=700)
    assert store.std.tolist() == [0.0, 0.0]
    assert store.mean.tolist() == [float(np.float32(0.1))] * 2


KINDS = {
    "normal": lambda rng, shape: rng.normal(3.0, 100.0, shape),
    "zeros of both signs": lambda rng, shape: np.copysign(0.0, rng.normal(size=shape)),
    "zeros among others": lambda rng, shape: np.round(rng.normal(size=shape)),
    "missing values": lambda rng, shape: np.where(rng.random(shape) < 0.1, np.nan, rng.normal(size=shape)),
    "one value": lambda rng, shape: np.full(shape, -1.25),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_sweeps_give_the_bits_of_numpy(kind, dtype):
    rng = np.random.default_rng(0)
    for shape in ((1, 7), (2, 1), (2, 2), (513, 1), (513, 3), (700, 50), (300, 129)):
        block = KINDS[kind](rng, shape).astype(dtype)
        for slow, fast in zip(statistics_of(block), statistics_of(block, is_fast=True), strict=True):
            np.testing.assert_array_equal(slow.view(np.int64), fast.view(np.int64))


@pytest.mark.parametrize("n_values", [1, 2, 40, 10**4, 10**9])
def test_the_stored_order_is_that_of_a_stable_sort(n_values):
    keys = np.floor(np.random.default_rng(0).random(3000) * n_values) / n_values
    np.testing.assert_array_equal(stored_order(keys), np.argsort(keys, kind="stable"))
