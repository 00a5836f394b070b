"""Least squares from the correlations of a block against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.lasso.from_gram import least_squares_from_gram
from daskfs.kernels.linear.correlations import correlations
from daskfs.kernels.linear.linalg import minimum_norm
from daskfs.kernels.linear.moments import moments


def make_block(n_samples=60, n_features=5):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n_samples, n_features))
    return X, 1 + X @ np.arange(1.0, n_features + 1) + rng.standard_normal(n_samples), rng.uniform(0.5, 2, n_samples)


def least_squares(X, y, weight):
    m = moments(X, y, weight)
    varying = np.flatnonzero(m.scale > 0.0)
    return least_squares_from_gram(m, varying, correlations(X, weight, m)[np.ix_(varying, varying)])


def numpy_fit(X, y, weight):
    root = np.sqrt(weight)[:, None]
    return np.linalg.lstsq(root * np.column_stack([X, np.ones(len(y))]), root[:, 0] * y, rcond=None)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coefficients_are_numpys(dtype):
    X, y, weight = make_block()
    fit = least_squares(X.astype(dtype), y, weight)
    np.testing.assert_allclose(fit.coef, numpy_fit(X.astype(dtype).astype(float), y, weight)[:-1], rtol=1e-10)
    assert not fit.is_singular


def test_a_constant_column_is_left_out():
    X, y, weight = make_block()
    X[:, 1] = 3.0
    fit = least_squares(X, y, weight)
    np.testing.assert_array_equal(np.isnan(fit.coef), [False, True, False, False, False])
    np.testing.assert_allclose(fit.coef[[0, 2, 3, 4]], numpy_fit(X[:, [0, 2, 3, 4]], y, weight)[:-1], rtol=1e-10)


def test_duplicates_share_their_coefficient():
    X, y, weight = make_block()
    alone = least_squares(np.ascontiguousarray(X[:, :4]), y, weight)
    X[:, 4] = X[:, 0]
    fit = least_squares(X, y, weight)
    assert fit.is_singular
    np.testing.assert_allclose(fit.coef[[0, 4]], alone.coef[0] / 2, rtol=1e-8)
    np.testing.assert_allclose(fit.coef[1:4], alone.coef[1:], rtol=1e-8)


def test_more_columns_than_rows_fit_exactly():
    X, y, weight = make_block(n_samples=6, n_features=9)
    fit = least_squares(X, y, weight)
    assert fit.is_singular
    mean = np.average(X, axis=0, weights=weight)
    np.testing.assert_allclose((X - mean) @ fit.coef + np.average(y, weights=weight), y, rtol=1e-7)


def test_the_shortest_solution_is_the_pseudoinverses():
    A = np.random.default_rng(3).standard_normal((4, 7))
    gram, right = A.T @ A, A.T @ np.ones(4)
    np.testing.assert_allclose(minimum_norm(gram, right), np.linalg.pinv(gram, rcond=1e-10) @ right, atol=1e-9)
