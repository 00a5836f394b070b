"""The multinomial fit against scikit-learn, its terms against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from daskfs.kernels.glm.newton import PRIOR_DEVIATION
from daskfs.kernels.glm.softmax import centred, softmax_fit, softmax_terms


def make_block(n_samples, n_features, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    z = X @ (rng.standard_normal((n_features, n_classes)) / 2) + 0.5 * rng.standard_normal(n_classes)
    cumulated = np.cumsum(np.exp(z), axis=1)
    y = (rng.random((n_samples, 1)) * cumulated[:, -1:] > cumulated).sum(axis=1).astype(float)
    return 3 * X + 1e3, y, rng.integers(0, 3, n_samples).astype(float)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_fit_is_that_of_scikit_learn(n_classes, dtype):
    X, y, weight = make_block(600, 4, n_classes)
    X = X.astype(dtype)
    fit = softmax_fit(X, y, weight, n_classes)
    Z = (X - fit.moments.mean) / fit.moments.scale
    peer = LogisticRegression(C=1e12, tol=1e-10, solver="newton-cg", max_iter=1000).fit(Z, y, sample_weight=weight)
    np.testing.assert_allclose(fit.coef * fit.moments.scale, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(fit.centred_intercepts, peer.intercept_ - peer.intercept_.mean(), atol=1e-6)
    assert (fit.is_singular, fit.is_separable) == (False, False)


def test_the_gradient_is_the_slope_of_the_value_and_the_hessian_that_of_the_gradient():
    X, y, weight = make_block(80, 3, 4, seed=1)
    coef = np.random.default_rng(2).standard_normal((3, 4))
    centre, scale = X.mean(axis=0), np.array([2.0, 0.0, 3.0])

    def terms(coef):
        return softmax_terms(X, y, weight, coef, centre, scale)

    h, found = 1e-5, terms(coef)
    for k in range(coef.size):
        step = np.zeros(coef.size)
        step[k] = h
        above, below = terms(coef + step.reshape(3, 4)), terms(coef - step.reshape(3, 4))
        np.testing.assert_allclose((above.value - below.value) / (2 * h), found.gradient[k], atol=1e-5)
        np.testing.assert_allclose((above.gradient - below.gradient) / (2 * h), found.hessian[k], atol=1e-5)
    assert not found.gradient[2::4].any()  # the column of scale 0


def test_classes_told_apart_or_missing_have_a_bounded_fit_and_are_told():
    X, y, _ = make_block(60, 2, 3)
    X[:, 0] += 100 * y
    for target, n_classes in ((y, 3), (np.minimum(y, 1.0), 3)):
        fit = softmax_fit(X, target, np.ones(60), n_classes)
        assert fit.is_separable
        assert np.isfinite(fit.coef).all()


def test_constant_and_dependent_columns():
    X, y, weight = make_block(300, 4, 3)
    X[:, 1] = 5.0
    X[:, 3] = X[:, 0] + X[:, 2]
    fit = softmax_fit(X, y, weight, 3)
    assert fit.is_singular
    assert np.isnan(fit.coef[:, 1]).all()
    alone = softmax_fit(np.ascontiguousarray(X[:, [0, 2]]), y, weight, 3)
    predicted = np.nan_to_num(fit.coef) @ (X - fit.moments.mean).T
    np.testing.assert_allclose(predicted, alone.coef @ (X[:, [0, 2]] - alone.moments.mean).T, atol=1e-6)


def test_coefficients_of_all_classes_have_sum_zero():
    np.testing.assert_allclose(centred(np.array([[3.0, 0.0], [0.0, 3.0]])), [[2, -1], [-1, 2], [-1, -1]])


@pytest.mark.slow
@pytest.mark.parametrize("density", [1.0, 0.08])
def test_a_fit_of_many_unknowns_is_that_of_few(density, monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((900, 12)) * (rng.random((900, 12)) < density)
    y = np.argmax(X @ rng.standard_normal((12, 4)) + rng.gumbel(size=(900, 4)), axis=1).astype(float)
    weight = rng.integers(0, 3, 900).astype(float)
    X[:, 3] = 1.0
    expected = softmax_fit(X, y, weight, 4)
    monkeypatch.setattr("daskfs.kernels.glm.softmax.MANY_UNKNOWNS", 0)
    found = softmax_fit(X, y, weight, 4)
    assert (found.is_separable, found.is_singular) == (expected.is_separable, expected.is_singular) == (False, False)
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.centred_intercepts, expected.centred_intercepts, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("has_hessian", [True, False])
def test_a_word_that_a_class_lacks_bounds_the_fit_of_many_unknowns_as_that_of_few(has_hessian, monkeypatch):
    rng = np.random.default_rng(4)
    X = np.abs(rng.standard_normal((600, 8))) * (rng.random((600, 8)) < 0.2)
    y = np.argmax(X @ rng.standard_normal((8, 3)) + rng.gumbel(size=(600, 3)), axis=1).astype(float)
    X[y == 1, 5] = 0.0
    X[:, 7] = X[:, 6]
    expected = softmax_fit(X, y, np.ones(600), 3)
    monkeypatch.setattr("daskfs.kernels.glm.softmax.MANY_UNKNOWNS", 0)
    monkeypatch.setattr("daskfs.kernels.glm.softmax.MOST_UNKNOWNS", 1000 if has_hessian else 0)
    found = softmax_fit(X, y, np.ones(600), 3)
    assert found.is_separable
    assert expected.is_separable
    z, z_expected = (X @ fit.coef.T for fit in (found, expected))
    np.testing.assert_allclose(z, z_expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_dummies_that_tell_classes_apart_end_where_the_gradient_vanishes_however_rare_the_class(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n, n_classes = 3000, 9
    y = rng.choice(n_classes, n, p=[0.5, 0.3, 0.15, 0.04, 0.005, 0.003, 0.0015, 0.0005, 0.0])
    X = np.zeros((n, 9))
    for c in range(5):
        X[:, c] = (y == c) & (rng.random(n) < 0.8)  # dummies of one class alone
    X[:, 5:8] = rng.random((n, 3)) < 0.3 + 0.4 * (y[:, None] % 2)
    X[:, 8] = 100.0 + rng.standard_normal(n) + y
    weight = rng.integers(1, 4, n).astype(float)
    monkeypatch.setattr("daskfs.kernels.glm.softmax.MANY_UNKNOWNS", 0)
    fit = softmax_fit(X, y.astype(float), weight, n_classes)
    assert fit.is_separable
    m = fit.moments
    Z = (X - m.mean) / m.scale
    z = fit.centred_intercepts + Z @ (fit.coef * m.scale).T
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    residual = weight[:, None] * (p - np.eye(n_classes)[y])
    free = (fit.coef - fit.coef[-1])[:-1] * m.scale
    gradient = (residual.T @ Z)[:-1] + free / PRIOR_DEVIATION**2
    assert np.abs(gradient).max() < 1e-3  # standard deviations of a coefficient are of the order of 1
    assert np.abs(residual.sum(axis=0)).max() < 1e-3
