"""The losses of one row: derivative and value belong together, and to the losses of many predictions."""

import math

import numpy as np
import pytest

from daskfs.kernels import losses
from daskfs.kernels.losses import loss_and_derivatives, row_derivative, row_value
from daskfs.losses import HINGE, LOSSES, MULTINOMIAL, ONE_PREDICTION, ROW_BY_ROW, losses_with

OF_A_ROW = losses_with([ROW_BY_ROW, ONE_PREDICTION])

POINTS = [-30.0, -2.3, -1.0001, -0.4, 0.3, 0.7, 1.2, 25.0]


@pytest.mark.parametrize("loss", [LOSSES[name].code for name in OF_A_ROW], ids=OF_A_ROW)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_the_derivative_is_the_slope_of_the_value(loss, y):
    for z in POINTS:
        slope = (row_value(loss, z + 1e-6, y) - row_value(loss, z - 1e-6, y)) / 2e-6
        assert row_derivative(loss, z, y) == pytest.approx(slope, abs=2e-6 * max(1.0, abs(z)))


@pytest.mark.parametrize("name", [name for name in OF_A_ROW if LOSSES[name].has_formula_of_many_rows])
def test_they_are_the_losses_of_the_other_kernels(name):
    code = LOSSES[name].code
    z, y = np.array(POINTS), np.array([-1.0, 1.0] * 4)
    bits = np.empty(losses.SPAN, np.int64)
    value, derivative, curvature = np.empty(8), np.empty(8), np.empty(8)
    losses.values(code, 0.0, z, y, value, bits)
    losses.derivatives(code, 0.0, z, y, derivative, curvature, bits)
    np.testing.assert_allclose([row_value(code, *pair) for pair in zip(z, y, strict=True)], value, rtol=1e-12)
    np.testing.assert_allclose([row_derivative(code, *pair) for pair in zip(z, y, strict=True)], derivative, rtol=1e-12)


@pytest.mark.parametrize("loss", [LOSSES[name].code for name in OF_A_ROW], ids=OF_A_ROW)
def test_they_stay_finite_far_out(loss):
    for z in (-1e30, -1e4, 1e4, 1e30):
        assert math.isfinite(row_value(loss, z, 1.0))
        assert math.isfinite(row_derivative(loss, z, 1.0))


def test_cross_entropy_has_the_derivatives_of_its_value():
    z, derivatives, other = np.array([0.3, -1.0, 2.0]), np.empty(3), np.empty(3)
    value = loss_and_derivatives(MULTINOMIAL, z, 1.0, derivatives)
    assert value == pytest.approx(-np.log(np.exp(-1.0) / np.exp(z).sum()))
    for c in range(3):
        step = 1e-6 * (np.arange(3) == c)
        slope = (
            loss_and_derivatives(MULTINOMIAL, z + step, 1.0, other)
            - loss_and_derivatives(MULTINOMIAL, z - step, 1.0, other)
        ) / 2e-6
        assert derivatives[c] == pytest.approx(slope, abs=1e-8)
    assert math.isfinite(loss_and_derivatives(MULTINOMIAL, 1e4 * z, 1.0, derivatives))


def test_one_against_the_rest_adds_the_classes_up():
    z, derivatives = np.array([0.3, -1.0, 2.0]), np.empty(3)
    value = loss_and_derivatives(HINGE, z, 2.0, derivatives)
    assert value == pytest.approx(1.3 + 0.0 + 0.0)
    np.testing.assert_array_equal(derivatives, [1.0, 0.0, 0.0])
