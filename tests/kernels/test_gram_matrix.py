"""All correlations of a block against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.linear.gram_matrix import WHOLE_GRAM_COLUMNS, moments_and_gram, wants_whole_gram
from daskfs.kernels.linear.gram_of_zeros import mostly_zero
from daskfs.kernels.linear.gram_tiles import BAND_ROWS
from daskfs.kernels.linear.moments import moments


def correlations(X, weight):
    covariances = np.atleast_2d(np.cov(X.astype(float), rowvar=False, aweights=weight))
    deviations = np.sqrt(np.diag(covariances))
    return covariances / np.outer(deviations, deviations)


@pytest.mark.slow_cases("float32")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [1, 4, 7, 74])
@pytest.mark.parametrize("n_samples", [5, 8, BAND_ROWS, BAND_ROWS + 1, 3 * BAND_ROWS - 3])
def test_correlations_are_numpys(n_samples, n_features, dtype):
    rng = np.random.default_rng(n_samples + n_features)
    X = (rng.standard_normal((n_samples, n_features)) + 3.0).astype(dtype)
    weight = rng.uniform(0.5, 2.0, n_samples)
    y = rng.standard_normal(n_samples) + 7.0
    m, found = moments_and_gram(X, y, weight)
    for name, value in moments(X, y, weight)._asdict().items():
        np.testing.assert_allclose(getattr(m, name), value, rtol=1e-12, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(found, correlations(X, weight), atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


def test_rows_of_weight_zero_are_not_looked_at():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 9)), rng.standard_normal(600)
    weight = rng.integers(0, 3, 600).astype(float)
    kept = weight > 0
    expected_moments, expected = moments_and_gram(X[kept], y[kept], weight[kept])
    X[~kept] = np.nan
    m, found = moments_and_gram(X, y, weight)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(m.cross, expected_moments.cross)


def test_constant_columns_and_those_not_finite_have_no_correlation():
    rng = np.random.default_rng(1)
    X, y, weight = rng.standard_normal((50, 6)), rng.standard_normal(50), np.ones(50)
    X[:, 2] = 4.0
    X[7, 4] = np.inf
    m, found = moments_and_gram(X, y, weight)
    np.testing.assert_array_equal(m.scale[2], 0.0)
    assert np.isnan(m.scale[4])
    assert not found[[2, 4]].any()
    assert not found[:, [2, 4]].any()
    varying = np.array([0, 1, 3, 5])
    np.testing.assert_allclose(found[np.ix_(varying, varying)], correlations(X[:, varying], weight), atol=1e-12)


def test_a_column_gets_the_same_bits_wherever_it_stands():
    rng = np.random.default_rng(2)
    X, y, weight = rng.standard_normal((500, 30)), rng.standard_normal(500), np.ones(500)
    X[:, 29] = X[:, 2]
    _, found = moments_and_gram(X, y, weight)
    np.testing.assert_array_equal(found[29, 3:29], found[2, 3:29])


def test_only_narrow_blocks_of_many_rows_begin_with_all_correlations():
    assert wants_whole_gram(10_000, 74)
    assert not wants_whole_gram(60, 74)
    assert not wants_whole_gram(10_000, WHOLE_GRAM_COLUMNS + 1)


def dummies(n_samples, rng, sizes=(5, 12, 31, 24), n_dense=6):
    """Some dense columns, and dummies of all categories but the first."""
    parts = [rng.standard_normal((n_samples, n_dense)) + 3.0]
    parts += [rng.integers(0, size, n_samples)[:, None] == np.arange(1, size) for size in sizes]
    return np.column_stack(parts).astype(float)


@pytest.mark.slow_cases("float32")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_dense", [0, 1, 6])
@pytest.mark.parametrize("n_samples", [BAND_ROWS - 1, BAND_ROWS + 1, 3 * BAND_ROWS - 3])
def test_correlations_of_dummies_are_numpys(n_samples, n_dense, dtype):
    rng = np.random.default_rng(n_samples + n_dense)
    X = dummies(n_samples, rng, n_dense=n_dense).astype(dtype)
    X = np.ascontiguousarray(X[:, rng.permutation(X.shape[1])])
    assert mostly_zero(X, np.arange(BAND_ROWS - 1)).sum() == X.shape[1] - n_dense
    weight, y = rng.uniform(0.5, 2.0, n_samples), rng.standard_normal(n_samples) + 7.0
    m, found = moments_and_gram(X, y, weight)
    expected = moments(X, y, weight)
    for name, value in expected._asdict().items():
        np.testing.assert_allclose(getattr(m, name), value, rtol=1e-12, atol=1e-12, err_msg=name)
    varying = np.flatnonzero(expected.scale > 0.0)
    np.testing.assert_allclose(found[np.ix_(varying, varying)], correlations(X[:, varying], weight), atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


def test_columns_that_are_zero_at_first_may_be_anything_later():
    """Dense from the second band on, far from zero, not finite, constant."""
    rng = np.random.default_rng(3)
    X = dummies(5 * BAND_ROWS, rng)
    X[BAND_ROWS:, 6:50] = rng.standard_normal((4 * BAND_ROWS, 44)) + 1.0
    X[BAND_ROWS:, 20] += 1e5
    X[700, 21], X[701, 22] = np.inf, np.nan
    X[:, 23] = 0.0
    weight, y = rng.uniform(0.5, 2.0, len(X)), rng.standard_normal(len(X))
    m, found = moments_and_gram(X, y, weight)
    bad = [21, 22, 23]
    assert np.isnan(m.scale[[21, 22]]).all()
    assert m.scale[23] == 0.0
    assert not found[bad].any()
    assert not found[:, bad].any()
    good = np.delete(np.arange(X.shape[1]), bad)
    np.testing.assert_allclose(found[np.ix_(good, good)], correlations(X[:, good], weight), atol=1e-11)


def test_dummies_of_rows_of_weight_zero_are_not_looked_at():
    rng = np.random.default_rng(4)
    X, y = dummies(900, rng), rng.standard_normal(900)
    weight = rng.integers(0, 3, 900).astype(float)
    kept = weight > 0
    _, expected = moments_and_gram(X[kept], y[kept], weight[kept])
    X[~kept] = np.nan
    _, found = moments_and_gram(X, y, weight)
    np.testing.assert_array_equal(found, expected)


def test_dense_columns_are_not_taken_as_sparse():
    rng = np.random.default_rng(5)
    assert not mostly_zero(rng.standard_normal((300, 74)), np.arange(264)).any()
    few = rng.standard_normal((300, 8)) * (rng.random((300, 8)) < 0.3)
    assert not mostly_zero(few, np.arange(264)).any()
