"""Fits of losses by Newton's method: against scipy, and on data without a finite or unique fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, log_expit

from daskfs.kernels.glm.fit import glm_fit, glm_fit_nbytes, newton_terms
from daskfs.kernels.losses import default_threshold

LOSSES = ("squared", "logistic", "poisson", "huber")


def make_block(loss, n_samples, seed, n_features=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    X[:, 1] += 0.7 * X[:, 0]
    z = 0.5 + X[:, :3] @ [1.0, -0.8, 0.4]
    if loss == "logistic":
        y = np.where(rng.random(n_samples) < expit(z), 1.0, -1.0)
    elif loss == "poisson":
        y = rng.poisson(np.exp(z)).astype(float)
    else:
        y = z + rng.standard_t(2, n_samples)
    return X, y, rng.uniform(0.5, 2.0, n_samples)


def losses(loss, z, y, threshold):
    if loss == "logistic":
        return -log_expit(y * z)
    if loss == "poisson":
        return np.exp(z) - y * z
    size = abs(z - y)
    return np.where(size <= threshold, 0.5 * size**2, threshold * (size - 0.5 * threshold))


def derivative(loss, z, y, threshold):
    if loss == "logistic":
        return -y * expit(-y * z)
    return np.exp(z) - y if loss == "poisson" else np.clip(z - y, -threshold, threshold)


def threshold_of(loss, y, weight):
    return default_threshold(y, weight) if loss == "huber" else np.inf


def fit_by_scipy(loss, X, y, weight):
    design, threshold = np.column_stack([np.ones(len(y)), X]), threshold_of(loss, y, weight)

    def value(b):
        z = design @ b
        return weight @ losses(loss, z, y, threshold), design.T @ (weight * derivative(loss, z, y, threshold))

    return minimize(value, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # scipy's line search tries large steps
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", LOSSES)
def test_a_fit_is_that_of_scipy(loss, seed):
    X, y, weight = make_block(loss, 200, seed)
    fit = glm_fit(X, y, weight, loss=loss)
    expected = fit_by_scipy(loss, X, y, weight)
    np.testing.assert_allclose(fit.coef, expected[1:], atol=1e-7)
    np.testing.assert_allclose(fit.intercept, expected[0], atol=1e-7)
    assert not fit.is_singular
    assert not fit.is_separable


@pytest.mark.parametrize("loss", LOSSES)
def test_scale_and_offset_of_columns_change_nothing(loss):
    X, y, weight = make_block(loss, 200, 1)
    plain = glm_fit(X, y, weight, loss=loss)
    factor, offset = np.array([1e-3, 1.0, 1e3, 1.0, 1.0]), np.array([0.0, 1e6, -5.0, 0.0, 0.0])
    odd = glm_fit(X * factor + offset, y, weight, loss=loss)
    np.testing.assert_allclose(odd.coef * factor, plain.coef, rtol=1e-7)
    np.testing.assert_allclose(odd.intercept + odd.coef @ offset, plain.intercept, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repeated_rows_and_rows_of_weight_zero_are_not_looked_at(loss):
    X, y, _ = make_block(loss, 120, 2)
    weight = np.random.default_rng(0).integers(0, 4, 120)
    threshold = 1.5
    repeated = glm_fit(
        np.repeat(X, weight, axis=0), np.repeat(y, weight), np.ones(weight.sum()), loss=loss, threshold=threshold
    )
    X[weight == 0] = np.nan
    fit = glm_fit(X, y, weight.astype(float), loss=loss, threshold=threshold)
    np.testing.assert_allclose(fit.coef, repeated.coef, rtol=1e-8)
    np.testing.assert_allclose(fit.deviance, repeated.deviance, rtol=1e-10)


@pytest.mark.slow
def test_the_deviance_of_counts_is_counted_from_the_saturated_model():
    X, y, weight = make_block("poisson", 100, 3)
    fit = glm_fit(X, y, weight, loss="poisson")
    z = X @ fit.coef + fit.intercept
    positive = y > 0
    expected = 2 * weight @ (np.exp(z) - y) + 2 * (weight * y)[positive] @ (np.log(y[positive]) - z[positive])
    np.testing.assert_allclose(fit.deviance, expected)


@pytest.mark.parametrize("loss", LOSSES)
def test_combinations_of_columns_get_the_shortest_solution_and_constant_ones_none(loss):
    X, y, weight = make_block(loss, 150, 4)
    plain = glm_fit(X, y, weight, loss=loss)
    doubled = glm_fit(np.column_stack([X[:, 0], X, np.full(150, 3.0)]), y, weight, loss=loss)
    assert doubled.is_singular
    assert not doubled.is_separable
    np.testing.assert_allclose(doubled.coef[:2], plain.coef[0] / 2, rtol=1e-6)
    np.testing.assert_allclose(doubled.coef[2:6], plain.coef[1:], rtol=1e-6)
    assert np.isnan(doubled.coef[6])
    np.testing.assert_allclose(doubled.intercept, plain.intercept, atol=1e-7)


def test_classes_that_can_be_told_apart_get_finite_coefficients_and_are_told():
    X, _, weight = make_block("logistic", 80, 5)
    y = np.where(X[:, 0] > 0.3, 1.0, -1.0)
    fit = glm_fit(X, y, weight, loss="logistic")
    assert fit.is_separable
    assert abs(fit.coef).max() < 40
    assert (y * (X @ fit.coef + fit.intercept) > 0).mean() > 0.95


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_a_category_of_one_class_or_without_counts_is_separable_too(loss):
    X, y, weight = make_block(loss, 150, 6)
    plain = glm_fit(X[30:], y[30:], weight[30:], loss=loss)
    X = np.column_stack([X, np.arange(150) < 30])
    y[:30] = 1.0 if loss == "logistic" else 0.0
    fit = glm_fit(X, y, weight, loss=loss)
    assert fit.is_separable
    assert not fit.is_singular
    assert 3 < abs(fit.coef[5]) < 40
    np.testing.assert_allclose(fit.coef[:5], plain.coef, atol=0.2)


@pytest.mark.parametrize("seed", range(20))
def test_strong_but_finite_signals_are_not_called_separable(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 3))
    y = np.where(rng.random(300) < expit(6 * X[:, 0]), 1.0, -1.0)
    fit = glm_fit(X, y, np.ones(300), loss="logistic")
    assert not fit.is_separable
    np.testing.assert_allclose(X.T @ (y * expit(-y * (X @ fit.coef + fit.intercept))), 0.0, atol=1e-6)


def test_one_class_alone_or_no_counts_at_all():
    X, _, weight = make_block("logistic", 40, 7)
    for loss, value, sign in (("logistic", 1.0, 1), ("logistic", -1.0, -1), ("poisson", 0.0, -1)):
        fit = glm_fit(X, np.full(40, value), weight, loss=loss)
        assert fit.is_separable
        assert not fit.coef.any()
        assert 2 < sign * fit.intercept < 10


@pytest.mark.parametrize("loss", LOSSES)
def test_without_columns_the_intercept_is_fitted(loss):
    X, y, weight = make_block(loss, 100, 8)
    fit = glm_fit(X[:, :0].copy(), y, weight, loss=loss)
    z = np.full(100, fit.intercept)
    assert abs(weight @ derivative(loss, z, y, threshold_of(loss, y, weight))) < 1e-6
    constant = glm_fit(np.ones((100, 1)), y, weight, loss=loss)
    np.testing.assert_allclose(constant.intercept, fit.intercept)


def test_fits_to_a_constant_number():
    X, _, weight = make_block("squared", 40, 7)
    for loss in ("squared", "huber"):
        fit = glm_fit(X, np.full(40, 3.5), weight, loss=loss)
        np.testing.assert_allclose(fit.coef, 0.0, atol=1e-12)
        np.testing.assert_allclose(fit.intercept, 3.5)


@pytest.mark.parametrize("loss", LOSSES)
def test_newton_terms_are_derivatives_add_up_over_blocks_and_vanish_at_the_fit(loss):
    X, y, weight = make_block(loss, 150, 9)
    X[:, 3] += 1e3
    centre, scale = X.mean(axis=0), X.std(axis=0)
    threshold = threshold_of(loss, y, weight)
    point = np.array([0.3, 0.5, -0.2, 0.1, 0.0, 0.2])

    def terms(b, rows=slice(None)):
        return newton_terms(
            X[rows], y[rows], weight[rows], loss=loss, intercept=b[0], coef=b[1:], centre=centre, scale=scale,
            threshold=threshold if loss == "huber" else 0.0,
        )  # fmt: skip

    at = terms(point)
    np.testing.assert_allclose(at.gradient, approx_fprime(point, lambda b: terms(b).value, 1e-7), rtol=1e-4, atol=1e-3)
    slopes = np.array([approx_fprime(point, lambda b, q=q: terms(b).gradient[q], 1e-7) for q in range(6)])
    np.testing.assert_allclose(at.hessian, slopes, rtol=1e-4, atol=1e-2)
    parts = [terms(point, slice(0, 60)), terms(point, slice(60, 150))]
    np.testing.assert_allclose(parts[0].gradient + parts[1].gradient, at.gradient)
    np.testing.assert_allclose(parts[0].hessian + parts[1].hessian, at.hessian, atol=1e-10)
    fit = glm_fit(X, y, weight, loss=loss)
    best = np.concatenate([[fit.intercept + fit.coef @ centre], fit.coef * scale])
    np.testing.assert_allclose(terms(best).gradient, 0.0, atol=1e-6)


def test_newton_terms_of_columns_that_take_no_part_are_zero():
    X, y, weight = make_block("logistic", 50, 10)
    scale = np.array([1.0, 0.0, 1.0, 1.0, 1.0])
    terms = newton_terms(X, y, weight, loss="logistic", intercept=0.0, coef=np.ones(5), centre=np.zeros(5), scale=scale)
    assert terms.gradient[2] == 0.0
    assert not terms.hessian[2].any()
    assert not terms.hessian[:, 2].any()
    assert terms.gradient[1] != 0.0


def test_float32_blocks_are_summed_in_float64():
    X, y, weight = make_block("logistic", 200, 11)
    single = X.astype(np.float32)
    np.testing.assert_allclose(
        glm_fit(single, y, weight, loss="logistic").coef,
        glm_fit(single.astype(float), y, weight, loss="logistic").coef,
        rtol=1e-9,
    )


def test_the_memory_of_a_fit_is_a_number_of_its_sizes():
    assert glm_fit_nbytes(10_000, 20) < 4 << 20
