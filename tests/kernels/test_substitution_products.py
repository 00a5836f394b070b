"""Products of columns: those of numpy, exact for int8, the same bits in blocks of any size."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.substitution.products import NO_WEIGHT, combine, cross_products, row_products, standardise


def columns(n_columns, n_samples, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == np.int8:
        return rng.integers(-128, 128, (n_columns, n_samples)).astype(np.int8)
    return rng.standard_normal((n_columns, n_samples)).astype(dtype)


@pytest.mark.parametrize("n_samples", [1, 519, 520, 1741])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-3), (np.int8, 0.0)])
def test_cross_products_are_those_of_numpy(n_samples, dtype, tolerance):
    left, right = columns(7, n_samples, dtype), columns(6, n_samples, dtype, seed=1)
    expected = left.astype(float) @ right.astype(float).T
    np.testing.assert_allclose(cross_products(left, right), expected, rtol=0, atol=tolerance)
    weight = np.random.default_rng(2).uniform(0, 2, n_samples)
    expected = (left.astype(float) * weight) @ right.astype(float).T
    size = np.abs(expected).max()
    np.testing.assert_allclose(cross_products(left, right, weight), expected, atol=size * max(tolerance, 1e-6))


def test_products_of_int8_are_exact_at_their_largest():
    rows = np.full((3, 5200), -128, np.int8)
    np.testing.assert_array_equal(cross_products(rows, rows), np.full((3, 3), 128.0**2 * 5200))


@pytest.mark.parametrize("n_samples", [1, 63, 4095, 4096, 4100, 9000])
def test_products_of_int8_are_those_of_whole_numbers(n_samples):
    left, right = columns(7, n_samples, np.int8), columns(10, n_samples, np.int8, seed=1)
    expected = left.astype(np.int64) @ right.astype(np.int64).T
    np.testing.assert_array_equal(cross_products(left, right), expected)
    which = np.array([9, 0, 3])
    np.testing.assert_array_equal(cross_products(left, right, NO_WEIGHT, which), expected[:, which])
    np.testing.assert_array_equal(cross_products(left, left), left.astype(np.int64) @ left.astype(np.int64).T)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_product_has_the_same_bits_in_any_company(dtype):
    left, right = columns(9, 1300, dtype), columns(11, 1300, dtype, seed=1)
    whole = cross_products(left, right)
    for rows in (slice(2, 7), slice(8, 9)):
        for others in (slice(0, 1), slice(3, 11)):
            np.testing.assert_array_equal(cross_products(left[rows], right[others]), whole[rows, others])


def test_products_with_itself_are_those_with_a_copy():
    rows = columns(10, 700, np.float64)
    np.testing.assert_array_equal(cross_products(rows, rows), cross_products(rows, rows.copy()))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
def test_combinations_and_products_with_a_vector_are_those_of_numpy(dtype):
    rows = columns(7, 4099, dtype)
    rng = np.random.default_rng(3)
    coef, vector, weight, out = (
        rng.standard_normal(6),
        rng.standard_normal(4099),
        rng.uniform(0, 2, 4099),
        np.empty(4099),
    )
    combine(rows, coef, 0.5, out)
    np.testing.assert_allclose(out, 0.5 + coef @ rows[:6].astype(float), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(row_products(rows, vector, NO_WEIGHT), rows.astype(float) @ vector, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(row_products(rows, vector, weight), rows.astype(float) @ (vector * weight), atol=1e-8)


@pytest.mark.parametrize("weight", [NO_WEIGHT, np.arange(1.0, 301.0)])
@pytest.mark.parametrize("centres", [True, False])
def test_standardised_columns_have_mean_0_and_mean_square_1(weight, centres):
    rows = columns(3, 300, np.float64) * 1e-3 + 1e4
    rows[1] = 5.0
    before = rows.copy()
    mean, scale, square = np.zeros((3, 3))
    standardise(rows, weight, centres, True, True, mean, scale, square)
    w = weight if len(weight) else None
    expected = np.average(before, axis=1, weights=w) if centres else np.zeros(3)
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    assert (scale[1] == 0.0) == centres
    for b in (0, 2):
        assert np.average(rows[b] ** 2, weights=w) == pytest.approx(1.0, rel=1e-6)
        np.testing.assert_allclose(rows[b] * scale[b] + mean[b], before[b], rtol=1e-12)


def test_integer_columns_are_measured_and_left_alone():
    rows = columns(4, 900, np.int8)
    before = rows.copy()
    mean, scale, square = np.zeros((3, 4))
    standardise(rows, NO_WEIGHT, True, True, False, mean, scale, square)
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_allclose(mean, before.mean(axis=1))
    np.testing.assert_allclose(scale, before.std(axis=1))


def test_a_column_with_nan_has_no_scale():
    rows = columns(2, 50, np.float64)
    rows[1, 7] = np.nan
    mean, scale, square = np.zeros((3, 2))
    standardise(rows, NO_WEIGHT, True, True, True, mean, scale, square)
    assert np.isnan(scale[1])
    assert not np.isnan(scale[0])
