"""Paths over the near columns of a sparse block: certified for all columns, and those of the whole block."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from daskfs.kernels.blocks.any_block import block_moments, make_gram_rows
from daskfs.kernels.blocks.column_entries import column_entries
from daskfs.kernels.blocks.dense_block import as_block
from daskfs.kernels.blocks.near_entries import gram_rows_of_near, near_entries
from daskfs.kernels.lasso.near_columns import _moments_of
from daskfs.kernels.lasso.path import lasso_path, path_nbytes


def entries(X):
    rows = sp.csr_matrix(X)
    return column_entries(rows.indptr, rows.indices, rows.data, X.shape[1])


def texts(seed, n_samples=250, n_features=1500, kind="words"):
    """Words as frequent as one over their rank, of which late ones enter as early ones turn the gradients round."""
    rng = np.random.default_rng(seed)
    share = np.minimum(0.5, 30.0 / (10.0 + np.arange(n_features)))
    X = (rng.random((n_samples, n_features)) < share) * rng.uniform(0.5, 2, (n_samples, n_features))
    if kind == "counts":
        X = np.ceil(X)
    if kind == "topics":
        X *= 1.0 + 2.0 * (rng.integers(0, 4, (n_samples, 1)) == np.arange(n_features) % 4)
    X[:, 3], X[:, 11] = 0.0, 4.0
    X[:, 5] = 1e4 + rng.standard_normal(n_samples)
    X[:, -1], X[:, -2] = X[:, 40], 3.0 * X[:, 41]
    signs = np.where(rng.random(30) < 0.5, -1.0, 1.0)
    y = 3 + X[:, 20:50] @ signs + 0.3 * (X[:, 5] - 1e4) + rng.standard_normal(n_samples)
    return X, y, rng.integers(0, 3, n_samples).astype(float)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["words", "counts", "topics"])
def test_no_column_of_the_block_wants_in_anywhere_on_the_path(kind, seed):
    X, y, weight = texts(seed, kind=kind)
    path = lasso_path(entries(X), y, weight, penalty=1.0, patience=None, max_features=80)
    assert path.solver == "homotopy"
    assert len(path.lambdas) > 40
    share = weight / weight.sum()
    centred = X - share @ X
    scale = np.sqrt(share @ centred**2)
    varies = scale > 1e-9
    Z = centred[:, varies] / scale[varies]
    coef = np.zeros((len(path.lambdas), X.shape[1]))
    coef[:, path.entered] = path.coef
    between = 0.5 * (coef[1:] + coef[:-1])
    lambdas = np.concatenate([path.lambdas, 0.5 * (path.lambdas[1:] + path.lambdas[:-1])])
    coef = np.vstack([coef, between])[:, varies]
    gradient = ((y - share @ y - coef @ Z.T) * share) @ Z
    bound = lambdas[:, None] * (1 + 1e-7)
    assert (np.abs(gradient) <= bound).all()
    assert (np.where(np.abs(coef) > 1e-9, np.sign(coef) * gradient, np.inf) >= 2 * lambdas[:, None] - bound).all()


@pytest.mark.parametrize("is_weighed", [False, True])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["words", "topics"])
def test_the_path_is_that_of_the_whole_block(kind, seed, is_weighed):
    X, y, weight = texts(seed, kind=kind)
    column_weight = np.random.default_rng(seed).uniform(0.3, 1.0, X.shape[1]) if is_weighed else None
    options = {"penalty": 5.0, "max_features": 80, "column_weight": column_weight}
    path, expected = lasso_path(entries(X), y, weight, **options), lasso_path(X, y, weight, **options)
    np.testing.assert_array_equal(path.entered, expected.entered)  # of two that are the same, the first
    np.testing.assert_allclose(path.lambdas, expected.lambdas, rtol=1e-7)
    np.testing.assert_allclose(path.coef, expected.coef, atol=1e-7)
    assert path.best == expected.best
    assert path.n_passes < len(path.lambdas) / 2
    np.testing.assert_array_equal(path.gram.features[: len(path.entered)], path.entered[: len(path.gram.features)])
    np.testing.assert_allclose(path.gram.gram, np.corrcoef(repeat(X, weight)[:, path.gram.features].T), atol=1e-8)


def repeat(X, weight):
    return np.repeat(X, weight.astype(int), axis=0)


def test_correlations_are_made_of_what_two_columns_have_in_common():
    X, y, weight = texts(0)
    whole = entries(X)
    m = block_moments(whole, y, weight)
    near = np.flatnonzero(m.scale > 0.0)[::7]
    of_near = _moments_of(m, near)
    places, values = np.empty(X.size, np.int32), np.empty(X.size)
    columns = near_entries(whole, of_near, near, places, values)
    expected, found = np.empty((3, X.shape[1])), np.empty((3, len(near)))
    features = np.array([0, 1, 20])
    gram_rows_of_near(columns, weight, of_near, features, found)
    make_gram_rows(as_block(X), weight, block_moments(X, y, weight), near[features], expected)
    np.testing.assert_allclose(found, expected[:, near], atol=1e-9)


@pytest.mark.slow
def test_a_path_that_is_given_up_descends_over_the_whole_block(monkeypatch):
    X, y, weight = texts(1, n_features=400)
    monkeypatch.setattr("daskfs.kernels.lasso.path.knot_capacity", lambda max_features: 5)
    path = lasso_path(entries(X), y, weight, penalty=5.0)
    assert (path.solver, path.given_up) == ("descent", "too many knots")
    expected = lasso_path(X, y, weight, penalty=5.0)
    np.testing.assert_array_equal(path.selected(), expected.selected())


def test_entries_by_rows_are_promised_too():
    assert path_nbytes(400, 1000, 100, 28, 20_000) == path_nbytes(400, 1000, 100, 28) + 12 * 20_000 + 8 * 401
