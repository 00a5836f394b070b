"""Moments and Gram rows against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.linear.moments import PANEL_COLUMNS, gram_rows, moments


def make_block(n_samples, n_features, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features)).astype(dtype)
    return X, rng.standard_normal(n_samples), rng.integers(0, 3, n_samples).astype(float)


def expected_moments(X, y, weight):
    X = X.astype(float)
    mean = np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))
    return (
        mean,
        scale,
        np.average((X - mean) / scale * (y - np.average(y, weights=weight))[:, None], axis=0, weights=weight),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_are_numpys(dtype):
    X, y, weight = make_block(101, 7, dtype)
    m = moments(X, y, weight)
    mean, scale, cross = expected_moments(X, y, weight)
    assert m.total == weight.sum()
    np.testing.assert_allclose(m.mean, mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(m.scale, scale, rtol=1e-12)
    np.testing.assert_allclose(m.cross, cross, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(m.y_variance, np.average((y - m.y_mean) ** 2, weights=weight), rtol=1e-12)


def test_an_offset_of_a_million_costs_no_digits():
    X, y, weight = make_block(200, 3)
    near, far = moments(X, y, weight), moments(X + 1e6, y + 1e6, weight)
    np.testing.assert_allclose(far.scale, near.scale, rtol=1e-9)
    np.testing.assert_allclose(far.cross, near.cross, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, 7.25, 1e6, 0.1])
def test_a_constant_column_has_scale_zero(value):
    X, y, weight = make_block(50, 3)
    X[:, 1] = value
    m = moments(X, y, weight)
    assert (m.scale[1], m.cross[1]) == (0.0, 0.0)
    assert m.scale[0] > 0


def test_a_constant_column_in_rounding_has_scale_zero():
    X, y, weight = make_block(50, 3)
    X[:, 1] = 0.1 + np.resize([0.0, 1e-17, -1e-17], 50) + np.resize([0.0, 2e-16], 50)
    assert moments(X, y, weight).scale[1] == 0.0


def test_a_small_unit_is_no_constant():
    X, y, weight = make_block(50, 2)
    X[:, 1] *= 1e-12
    m = moments(X, y, weight)
    np.testing.assert_allclose(m.scale[1], expected_moments(X, y, weight)[1][1], rtol=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_marks_its_column(value):
    X, y, weight = make_block(50, 4)
    weight[:] = 1.0
    X[17, 2] = value
    np.testing.assert_array_equal(np.isnan(moments(X, y, weight).scale), [False, False, True, False])


def test_a_row_of_weight_zero_is_not_looked_at():
    X, y, weight = make_block(51, 4)
    kept = weight > 0
    expected = moments(X[kept], y[kept], weight[kept])
    X[~kept] = np.nan
    found = moments(X, y, weight)
    np.testing.assert_array_equal(found.scale, expected.scale)
    np.testing.assert_array_equal(found.cross, expected.cross)
    features = np.array([2], dtype=np.int64)
    row, expected_row = np.empty((1, 4)), np.empty((1, 4))
    gram_rows(X, weight, found, features, row)
    gram_rows(X[kept], weight[kept], expected, features, expected_row)
    np.testing.assert_allclose(row, expected_row, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_samples", [4, 7, 50])
def test_gram_rows_are_weighted_correlations(n_samples, dtype):
    n_features = PANEL_COLUMNS + 5
    X, y, weight = make_block(n_samples, n_features, dtype)
    weight += 0.5
    X[:, 3] = 2.0
    m = moments(X, y, weight)
    features = np.array([0, n_features - 1], dtype=np.int64)
    out = np.full((2, n_features), np.nan)
    gram_rows(X, weight, m, features, out)
    Z = np.where(m.scale > 0, (X - m.mean) / np.where(m.scale > 0, m.scale, 1.0), 0.0)
    np.testing.assert_allclose(out, (Z * (weight / weight.sum())[:, None]).T[features] @ Z, atol=1e-12)
    assert (out[:, 3] == 0).all()


def test_a_column_gets_the_same_bits_wherever_it_stands():
    X, y, weight = make_block(60, 40)
    X[:, 39] = X[:, 2]
    m = moments(X, y, weight)
    out = np.empty((1, 40))
    gram_rows(X, weight, m, np.array([5], dtype=np.int64), out)
    assert m.cross[39] == m.cross[2]
    assert out[0, 39] == out[0, 2]
