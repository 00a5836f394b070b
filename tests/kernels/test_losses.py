"""Losses: calculus, formulas by numpy, and predictions far out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_expit, xlogy

from daskfs.errors import ConfigError
from daskfs.kernels.losses import (
    SPAN,
    default_threshold,
    derivatives,
    one_sided_intercept,
    recession_direction,
    saturated_values,
    values,
)
from daskfs.losses import AT_ONCE, find_loss, losses_with
from tests.refusals import refused

THRESHOLD = 1.345


def evaluate(loss, z, y):
    z, y = np.broadcast_arrays(np.atleast_1d(np.asarray(z, float)), np.asarray(y, float))
    z, y = z.copy(), y.copy()
    value, derivative, curvature = np.empty((3, len(z)))
    bits = np.empty(SPAN, np.int64)
    values(find_loss(loss).code, THRESHOLD, z, y, value, bits)
    derivatives(find_loss(loss).code, THRESHOLD, z, y, derivative, curvature, bits)
    return value, derivative, curvature


def targets(loss, rng, n):
    if loss in ("logistic", "squared_hinge"):
        return rng.choice([-1.0, 1.0], n)
    return rng.poisson(3.0, n).astype(float) if loss == "poisson" else rng.standard_normal(n) * 3


FORMULAS = {
    "squared": lambda z, y: 0.5 * (z - y) ** 2,
    "logistic": lambda z, y: -log_expit(y * z),
    "poisson": lambda z, y: np.exp(z) - y * z,
    "squared_hinge": lambda z, y: 0.5 * np.maximum(0.0, 1.0 - y * z) ** 2,
    "epsilon_insensitive": lambda z, y: 0.5 * np.maximum(0.0, abs(z - y) - THRESHOLD) ** 2,
    "huber": lambda z, y: np.where(
        abs(z - y) <= THRESHOLD, 0.5 * (z - y) ** 2, THRESHOLD * abs(z - y) - 0.5 * THRESHOLD**2
    ),
}


@pytest.mark.parametrize("loss", losses_with([AT_ONCE]))
def test_values_are_those_of_the_formula(loss):
    rng = np.random.default_rng(0)
    z, y = rng.uniform(-40, 40, 3000), targets(loss, rng, 3000)
    atol = 1e-13 if loss == "poisson" else 1e-300  # the difference of two terms, up to 40 * 10
    np.testing.assert_allclose(evaluate(loss, z, y)[0], FORMULAS[loss](z, y), rtol=4e-15, atol=atol)


@pytest.mark.parametrize("loss", losses_with([AT_ONCE]))
@given(z=st.floats(-30, 30), seed=st.integers(0, 1000))
def test_the_derivative_is_the_slope_of_the_value_and_the_curvature_that_of_the_derivative(loss, z, seed):
    y = targets(loss, np.random.default_rng(seed), 1)[0]
    h = 1e-5
    value, derivative, curvature = evaluate(loss, [z - h, z, z + h], y)
    size = max(1.0, abs(value[1]), abs(derivative[1]))
    at_kink = 0.25 * h * (curvature.max() - curvature.min())  # what a difference across a kink may err
    assert abs((value[2] - value[0]) / (2 * h) - derivative[1]) < 1e-8 * size + 1.01 * at_kink
    slope = (derivative[2] - derivative[0]) / (2 * h)
    assert curvature.min() - 1e-8 * size <= slope <= curvature.max() + 1e-8 * size


@pytest.mark.parametrize("loss", losses_with([AT_ONCE]))
@given(z=st.floats(-50, 50), step=st.floats(-5, 5), seed=st.integers(0, 1000))
def test_the_largest_curvature_between_bounds_the_value_from_above_and_convexity_from_below(loss, z, step, seed):
    y = targets(loss, np.random.default_rng(seed), 1)[0]
    value, derivative, curvature = evaluate(loss, np.linspace(z, z + step, 101), y)
    tangent = value[0] + derivative[0] * step
    rounding = 1e-12 * (1 + abs(value).max())
    assert value[-1] >= tangent - rounding
    at_most = {"squared": 1.0, "logistic": 0.25, "huber": 1.0}.get(loss, curvature.max())
    assert curvature.max() <= at_most * (1 + 1e-14)
    assert value[-1] <= tangent + 0.5 * at_most * step**2 + rounding


@pytest.mark.parametrize("loss", losses_with([AT_ONCE]))
@pytest.mark.parametrize("z", [-1e4, -701.0, -100.0, 0.0, 99.999, 100.001, 710.0, 1e4])
def test_predictions_far_out_stay_finite(loss, z):
    for y in (-1.0, 1.0) if loss == "logistic" else (0.0, 1.0, 5.0):
        value, derivative, curvature = evaluate(loss, z, y)
        assert np.isfinite([value, derivative, curvature]).all()
        assert curvature[0] >= 0.0


def test_probabilities_of_the_unlikely_keep_their_digits():
    _, derivative, curvature = evaluate("logistic", 40.0, 1.0)
    np.testing.assert_allclose(-derivative, np.exp(-40.0), rtol=1e-14)
    np.testing.assert_allclose(curvature, np.exp(-40.0), rtol=1e-14)


def test_the_saturated_poisson_loss_is_its_minimum():
    y = np.array([0.0, 1.0, 2.5, 100.0])
    np.testing.assert_allclose(saturated_values(find_loss("poisson").code, y), y - xlogy(y, y))
    assert not saturated_values(find_loss("logistic").code, np.array([-1.0, 1.0])).any()


def test_the_default_threshold_does_not_feel_outliers_and_weights_are_repeated_rows():
    rng = np.random.default_rng(2)
    y = rng.standard_normal(20_001) * 3 + 50
    clean = default_threshold(y, np.ones(len(y)))
    y[:100] = 1e9
    assert abs(clean / (1.345 * 3) - 1) < 0.03
    assert abs(default_threshold(y, np.ones(len(y))) / clean - 1) < 0.03
    few, weight = rng.standard_normal(31), rng.integers(0, 4, 31)
    assert default_threshold(few, weight.astype(float)) == default_threshold(
        np.repeat(few, weight), np.ones(weight.sum())
    )
    assert default_threshold(np.array([0.0, 0, 0, 0, 1]), np.ones(5)) > 0


def test_an_unknown_loss_gets_its_nearest_name():
    with refused(ConfigError, "losses", at="loss", naming=["did you mean", "'logistic'"]):
        find_loss("logistics")


@pytest.mark.parametrize("name", losses_with([AT_ONCE]))
def test_what_is_said_of_a_loss_is_true_of_its_formula(name):
    loss, rng = find_loss(name), np.random.default_rng(3)
    y, far = targets(name, rng, 400).round(1), np.linspace(-60.0, 60.0, 2401)  # on the grid
    if name == "poisson":
        y[:20] = 0.0
    curves = np.array([evaluate(name, far, one)[0] for one in y])
    curvature = np.array([evaluate(name, far, one)[2] for one in y])
    assert loss.is_quadratic == (np.ptp(curvature) == 0.0)
    falls_on = (np.diff(curves[:, :200]) >= -1e-12).all(axis=1) | (np.diff(curves[:, -200:]) <= 1e-12).all(axis=1)
    assert loss.can_separate == falls_on.any()
    assert loss.least_is_zero == (np.abs(curves.min(axis=1)) < 1e-6).all()
    assert loss.least_is_zero == (not saturated_values(loss.code, y).any())
    assert (loss.hessian_floor > 1e-10) <= (curvature == 0.0).any()
    if loss.is_likelihood and not loss.threshold:
        best = loss.null_intercept(float(y.mean()))
        assert abs(evaluate(name, best, y)[1].mean()) < 1e-12


@pytest.mark.parametrize("name", ["squared", "logistic", "poisson", "huber"])
def test_a_row_whose_loss_decreases_for_ever_says_in_which_direction(name):
    loss, y = find_loss(name), targets(name, np.random.default_rng(0), 50)
    y[:5] = -1.0 if name == "logistic" else 0.0
    directions = [recession_direction(loss.code, one) for one in y]
    slopes = np.array([evaluate(name, np.array([-40.0, 40.0]), one)[1] for one in y])
    assert directions == [-1.0 if left >= 0.0 else 1.0 if right <= 0.0 else 0.0 for left, right in slopes.round(12)]


@pytest.mark.parametrize("name", ["squared", "logistic", "poisson", "huber"])
def test_an_intercept_of_rows_on_one_side_is_as_if_half_a_row_said_the_contrary(name):
    y = np.full(30, 1.0 if name == "logistic" else 0.0)
    found = one_sided_intercept(find_loss(name).code, y, 30.0)
    with_half = np.append(y, -1.0 if name == "logistic" else 1.0)
    weight = np.append(np.ones(30), 0.5)
    if find_loss(name).can_separate:
        derivative = evaluate(name, found, with_half)[1]
        scale = 30.0 if name == "logistic" else 30.5
        assert abs(weight @ derivative) < 2.0 / scale
    else:
        assert found is None
    assert one_sided_intercept(find_loss(name).code, with_half, 30.0) is None
