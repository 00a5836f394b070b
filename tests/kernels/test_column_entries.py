"""Blocks of entries against the same blocks as arrays: sums, copies, and whole paths."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from daskfs.kernels.blocks.any_block import (
    block_moments,
    make_gram_rows,
    multiply_columns,
    rows_of_weight,
    standardised_columns,
)
from daskfs.kernels.blocks.any_columns import (
    add_columns,
    column_product,
    column_products,
    enter_columns,
    extend_hessian_of,
    new_columns,
    take_column,
    weigh_column,
)
from daskfs.kernels.blocks.column_entries import column_entries, dense_block
from daskfs.kernels.blocks.dense_block import as_block
from daskfs.kernels.glm.fit import glm_fit
from daskfs.kernels.glm.path import glm_path
from daskfs.kernels.lasso.path import lasso_path

pytestmark = pytest.mark.usefixtures("interpreted_by_default")


def block(n_samples=300, n_features=200, density=0.05, dtype=np.float64, seed=0):
    """Draw a matrix with an empty column, one without a zero and far from it, and two that are the same."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)) * (rng.random((n_samples, n_features)) < density)
    X[:, 3] = 0.0
    X[:, 5] = 1e5 + rng.standard_normal(n_samples)
    X[:, 8] = X[:, 7]
    X[:, 9] = 2.5
    X = X.astype(dtype)
    return X, entries(X)


def entries(X):
    rows = sp.csr_matrix(X)
    return column_entries(rows.indptr, rows.indices, rows.data, X.shape[1])


def targets(X, loss, seed=1):
    rng = np.random.default_rng(seed)
    z = 2 * X[:, 0] - 2 * X[:, 1] + 1.5 * X[:, 7] + 0.3 * rng.standard_normal(len(X))
    if loss == "logistic":
        return np.where(rng.random(len(X)) < 1 / (1 + np.exp(-3 * z)), 1.0, -1.0)
    return rng.poisson(np.exp(np.clip(z, -5, 2))).astype(float) if loss == "poisson" else z


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_block_survives_the_way_through_its_entries(dtype):
    X, found = block(dtype=dtype)
    np.testing.assert_array_equal(dense_block(found), X)
    assert found.shape == X.shape
    assert dense_block(found).dtype == dtype


def test_places_named_twice_hold_the_sum_and_rows_may_begin_anywhere():
    indptr, indices, data = np.array([2, 5, 5, 6]), np.array([9, 9, 2, 0, 2, 1]), np.arange(1.0, 7.0)
    expected = [[4, 0, 8], [0, 0, 0], [0, 6, 0]]
    np.testing.assert_array_equal(dense_block(column_entries(indptr, indices, data, 3)), expected)
    whole = column_entries(np.array([0, 3]), np.array([1, 0, 1]), np.array([1, 2, 3], dtype=np.int8), 2)
    np.testing.assert_array_equal(dense_block(whole), [[2, 4]])


def test_rows_of_weight_zero_leave():
    X, found = block()
    weight = (np.arange(len(X)) % 3 > 0).astype(float)
    kept, y, left = rows_of_weight(found, X[:, 0], weight)
    np.testing.assert_array_equal(dense_block(kept), X[weight > 0])
    np.testing.assert_array_equal(y, X[weight > 0, 0])
    assert left.all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_gram_rows_products_and_copies_are_those_of_the_array(dtype):
    X, found = block(dtype=dtype)
    rng = np.random.default_rng(2)
    y, weight, vector = rng.standard_normal(300) + 3, rng.uniform(0.5, 2, 300), rng.standard_normal(300)
    expected, m = block_moments(X, y, weight), block_moments(found, y, weight)
    for name, value in expected._asdict().items():
        np.testing.assert_allclose(getattr(m, name), value, rtol=1e-9, atol=1e-12, err_msg=name)
    assert m.scale[3] == m.scale[9] == 0.0
    features = np.array([0, 5, 7, 150])
    of_array, of_entries = np.empty((2, 4, 200))
    make_gram_rows(as_block(X), weight, expected, features, of_array)
    make_gram_rows(found, weight, m, features, of_entries)
    np.testing.assert_allclose(of_entries, of_array, atol=1e-9)
    np.testing.assert_array_equal(of_entries[:, 7], of_entries[:, 8])
    products, more = np.empty((2, 200))
    multiply_columns(as_block(X), m.mean, m.scale, vector, products)
    multiply_columns(found, m.mean, m.scale, vector, more)
    np.testing.assert_allclose(more, products, rtol=1e-8, atol=1e-8)
    copies, others = np.empty((2, 4, 300))
    standardised_columns(as_block(X), m.mean, m.scale, features, copies)
    standardised_columns(found, m.mean, m.scale, features, others)
    np.testing.assert_allclose(others, copies, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("solver", ["homotopy", pytest.param("descent", marks=pytest.mark.nightly)])
def test_the_lasso_path_is_that_of_the_array(seed, solver):
    X, found = block(seed=seed)
    y, weight = targets(X, "squared", seed), np.random.default_rng(seed).uniform(0.5, 2, len(X))
    options = {"penalty": 8.0, "solver": solver}
    expected, path = lasso_path(X, y, weight, **options), lasso_path(found, y, weight, **options)
    assert len(path.selected()) >= 3
    np.testing.assert_array_equal(path.selected(), expected.selected())
    np.testing.assert_allclose(path.lambdas, expected.lambdas, rtol=1e-7)
    np.testing.assert_allclose(path.coefficients(path.best), expected.coefficients(expected.best), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(path.intercept(path.best), expected.intercept(expected.best), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber"])
def test_the_path_of_a_loss_is_that_of_the_array(loss):
    X, found = block()
    X, found = X[:, :160], entries(X[:, :160])
    y, weight = targets(X, loss), np.random.default_rng(3).integers(0, 3, len(X)).astype(float)
    expected, path = (glm_path(A, y, weight, loss=loss, penalty=8.0) for A in (X, found))
    assert len(path.selected()) >= 3
    np.testing.assert_array_equal(path.selected(), expected.selected())
    np.testing.assert_allclose(path.coefficients(path.best), expected.coefficients(expected.best), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("density", [0.05, 0.3])
def test_entered_columns_are_where_their_entries_are(density):
    X, found = block(density=density)
    features, members = np.array([0, 5, 7, 11, 40]), np.array([4, 1, 3])
    m = block_moments(X, np.zeros(len(X)), np.ones(len(X)))
    rng = np.random.default_rng(2)
    weight, step, z = rng.uniform(0, 1, len(X)), rng.standard_normal(4), rng.standard_normal(len(X))
    results = []
    for A in (as_block(X), found):
        columns, at, products = new_columns(A, 8), z.copy(), np.zeros(4)
        hessian, longer, work, product = np.full((6, 6), 7.0), np.zeros((4, 4)), np.empty(len(X)), np.empty(len(X))
        enter_columns(columns, A, m.mean, m.scale, features[:2], 0)
        enter_columns(columns, A, m.mean, m.scale, features[2:], 2)
        take_column(columns, 5, columns, 3)
        add_columns(columns, members, 3, step, 0.5, at)
        column_products(columns, members, 3, z, products)
        extend_hessian_of(columns, members, 3, 0, weight, hessian, work)
        weigh_column(columns, 2, weight, product)
        others = np.array([0, 5, 2])  # another model, and one that grows
        extend_hessian_of(columns, others, 2, 0, weight, longer, work)
        extend_hessian_of(columns, others, 3, 3, weight, longer, work)
        results.append((at, products, hessian[:4, :4], longer, product, column_product(columns, 5, z)))
    for expected, value in zip(*results, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_the_refit_takes_what_the_deviance_falls_to_where_words_tell_rows_without_error(loss):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((800, 60)) * (rng.random((800, 60)) < 0.08)
    y = np.where(X[:, 0] + rng.logistic(size=800) > 0, 1.0, -1.0)
    sure, nothing = (-1.0, 0.0) if loss == "logistic" else (0.0, 0.0)
    if loss == "poisson":
        y = rng.poisson(np.exp(0.5 + 0.3 * X[:, 0])).astype(float)
    told = rng.random(800) < 0.15
    X[:, 1], y[told] = 2.0 * told, sure
    X[:, 2] = np.where(y == sure, told + (rng.random(800) < 0.05), nothing)  # sure of the rest once those are gone
    X[np.flatnonzero(told)[:3], 2] = -1.0
    path = glm_path(entries(X), y, np.ones(800), loss=loss, penalty=4.0, lambdas=np.geomspace(0.2, 0.02, 8))
    step = path.best
    rows = ~told & (X[:, 2] == 0.0)
    others = np.setdiff1d(path.selected(step), [1, 2])
    assert {1, 2} <= set(path.selected(step))
    expected = glm_fit(np.ascontiguousarray(X[np.ix_(rows, others)]), y[rows], np.ones(rows.sum()), loss=loss)
    assert path.n_separable > 0
    np.testing.assert_allclose(path.fit[step], expected.deviance, rtol=1e-6)
    of_array = glm_path(X, y, np.ones(800), loss=loss, penalty=4.0, lambdas=path.lambdas)
    np.testing.assert_allclose(path.fit, of_array.fit, rtol=1e-4)
    np.testing.assert_array_equal(path.selected(), of_array.selected())
