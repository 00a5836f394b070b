"""Minima with many ridges against those from NumPy's eigendecomposition."""

import numpy as np
import pytest

from daskfs.kernels.linear.tridiagonal import along_ridges

RIDGES = np.append(10.0 ** -np.arange(-1.0, 8.0, 0.5), 0.0)


def by_eigenvalues(matrix, vector):
    values, axes = np.linalg.eigh(matrix)
    is_kept = values > 1e-12 * values.max(initial=0.0)
    values, parts = values[is_kept], axes.T[is_kept] @ vector
    with_ridge = values + RIDGES[:, None]
    return ((parts - 0.5 * values * parts / with_ridge) * parts / with_ridge).sum(1), (values / with_ridge).sum(1)


def matrix_of(n, rank, seed):
    factor = np.random.default_rng(seed).standard_normal((rank, n))
    return factor.T @ factor / n


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [1, 2, 3, 8, 40])
def test_falls_and_degrees_of_freedom_are_those_of_eigenvalues(n, seed):
    matrix = matrix_of(n, n + 10, seed)
    vector = np.random.default_rng(seed + 10).standard_normal(n)
    falls, freedom = along_ridges(matrix, vector, RIDGES)
    expected, expected_freedom = by_eigenvalues(matrix, vector)
    np.testing.assert_allclose(falls, expected, rtol=1e-10)
    np.testing.assert_allclose(freedom, expected_freedom, rtol=1e-10)


@pytest.mark.parametrize("rank", [1, 5, 9])
def test_dependent_columns_take_no_degree_of_freedom(rank):
    matrix = matrix_of(10, rank, 0)
    vector = matrix @ np.arange(10.0)
    falls, freedom = along_ridges(matrix, vector, RIDGES)
    expected, expected_freedom = by_eigenvalues(matrix, vector)
    np.testing.assert_allclose(falls, expected, rtol=1e-8)
    np.testing.assert_allclose(freedom, expected_freedom, rtol=1e-3)


def test_blocks_without_an_effect_on_each_other_and_zeros():
    matrix = np.diag([4.0, 0.0, 1.0, 2.0, 0.0])
    falls, freedom = along_ridges(matrix, np.array([1.0, 0.0, 0.0, 2.0, 0.0]), RIDGES)
    expected, expected_freedom = by_eigenvalues(matrix, np.array([1.0, 0.0, 0.0, 2.0, 0.0]))
    np.testing.assert_allclose(falls, expected, rtol=1e-10)
    np.testing.assert_allclose(freedom, expected_freedom, rtol=1e-6)
    for nothing in (np.zeros((0, 0)), np.zeros((3, 3))):
        found = along_ridges(nothing, np.zeros(len(nothing)), RIDGES)
        np.testing.assert_allclose(found, 0.0, atol=1e-12)
    assert np.isfinite(along_ridges(np.full((4, 4), 1e-160), np.full(4, 1e-160), RIDGES)).all()


def test_what_is_given_stays():
    matrix, vector = matrix_of(6, 6, 1), np.arange(6.0)
    before = matrix.copy()
    along_ridges(matrix, vector, RIDGES)
    np.testing.assert_array_equal(matrix, before)
    np.testing.assert_array_equal(vector, np.arange(6.0))
