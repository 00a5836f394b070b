"""Losses of one prediction: value, derivative and curvature in the linear predictor z, selected by an integer code.

===================  ============================  ===================================================
squared              ½ (z - y)²                    y any number
logistic             log(1 + exp(-y z))            y is -1 or +1
poisson              exp(z) - y z                  y a count, or any number of at least 0; the mean is exp(z)
huber                ½ (z - y)², beyond the        y any number
                     threshold t: t |z - y| - ½ t²
squared_hinge        ½ max(0, 1 - y z)²            y is -1 or +1
epsilon_insensitive  ½ max(0, |z - y| - t)²        y any number; errors within the threshold t cost nothing
===================  ============================  ===================================================

All stay finite for z up to ±1e4 and beyond: above z = 100 the exponential of the Poisson loss is replaced by its
quadratic approximation. `row_value` and `row_derivative` take one row at a time, for stochastic gradient descent, and
are finite for z up to ±1e30: squared, logistic, squared_hinge and

hinge                max(0, 1 - y z)               y is -1 or +1

A test checks that both implementations agree.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import elementwise, kernel
from daskfs.losses import EPSILON_INSENSITIVE, HINGE, LOGISTIC, MULTINOMIAL, POISSON, SQUARED, SQUARED_HINGE, Loss

HUBER_EFFICIENCY = 1.345  # threshold in standard deviations of the noise: 95 % efficient under normal noise
SPAN = 512  # predictions processed at once: all arrays of a span stay in the L1 cache
_LOWEST, _HIGHEST = -700.0, 100.0  # range of the exponential's argument
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6


def default_threshold(y: np.ndarray, weight: np.ndarray) -> float:
    """Return Huber's threshold: 1.345 standard deviations, estimated by the weighted median absolute deviation of y.

    If more than half of y is the same number, the mean absolute deviation is used.
    """
    centre = weighted_median(y, weight)
    deviation = np.abs(y - centre)
    scale = weighted_median(deviation, weight) / 0.6744897501960817
    if scale <= 0.0:
        scale = float(np.average(deviation, weights=weight)) * math.sqrt(math.pi / 2.0)
    return HUBER_EFFICIENCY * scale


def threshold_of(loss: Loss, threshold: float | None, y: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the given threshold, or Huber's default; 0 for losses without one."""
    if threshold is None:
        weight = np.ones(len(y)) if weight is None else weight
        return default_threshold(y, weight) if loss.threshold == "noise" else 0.0
    return float(threshold)


def weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    """Return the smallest value with at least half of the weight at or below it."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(cumulated, 0.5 * cumulated[-1])]])


def saturated_values(loss: int, y: np.ndarray) -> np.ndarray:
    """Return the minimum of the loss over z for each y. The deviance is measured from it."""
    if loss != POISSON:
        return np.zeros(len(y))
    return np.where(y > 0.0, y - y * np.log(np.where(y > 0.0, y, 1.0)), 0.0)


def initial_intercept(loss: int, y: np.ndarray, share: np.ndarray) -> tuple[float, float]:
    """Return a start for the intercept of the null model, near its minimum, and the unit of the noise."""
    mean = float(share @ y)
    if loss == LOGISTIC:
        return 0.0, 1.0
    if loss == POISSON:
        return (math.log(mean), math.sqrt(mean)) if mean > 0.0 else (0.0, 1.0)
    deviation = math.sqrt(float(share @ (y - mean) ** 2))
    return (mean if loss == SQUARED else weighted_median(y, share)), deviation


def one_sided_intercept(loss: int, y: np.ndarray, total: float) -> float | None:
    """Return None if the intercept has a finite fit: both classes occur, or some count is positive.

    Otherwise return the intercept with half a row of the opposite kind added. `total` is the sum of the rows' weights.
    """
    if loss == LOGISTIC and abs(y.sum()) == len(y):
        return math.log(2.0 * total + 1.0) * float(y[0])
    return -math.log(2.0 * total) if loss == POISSON and not y.any() else None


@kernel
def recession_direction(loss, y):  # type: ignore[no-untyped-def]
    """Return the direction in z, -1 or 1, in which the loss of a row always decreases; 0 if it has a minimum."""
    if loss == LOGISTIC:
        return y
    return -1.0 if loss == POISSON and y == 0.0 else 0.0


@kernel
def is_separated(loss, y, share, z):  # type: ignore[no-untyped-def]
    """Return whether every weighted row is on its correct side, which proves that no finite logistic fit exists."""
    if loss != LOGISTIC:
        return False
    n_right = 0
    for i in range(z.shape[0]):
        n_right += y[i] * z[i] > 0.0 or share[i] == 0.0
    return n_right == z.shape[0]


@kernel
def values(loss, threshold, z, y, value, bits):  # type: ignore[no-untyped-def]
    """Write the loss of every prediction.

    Parameters
    ----------
    loss : int
        A code of `daskfs.losses`.
    threshold : float
        Threshold of the Huber and the epsilon-insensitive loss.
    z, y : ndarray of shape (n_samples,), float64
    value : ndarray of shape (n_samples,), float64
        Output.
    bits : ndarray of shape (SPAN,), int64
        Work array.
    """
    for start in range(0, z.shape[0], SPAN):
        stop = min(start + SPAN, z.shape[0])
        at, target, out = z[start:stop], y[start:stop], value[start:stop]
        if loss == LOGISTIC:
            _logistic_values(at, target, out, bits)
        elif loss == POISSON:
            _poisson_values(at, target, out, bits)
        elif loss == SQUARED_HINGE:
            _squared_hinge_values(at, target, out)
        elif loss == EPSILON_INSENSITIVE:
            _insensitive_values(at, target, out, threshold)
        else:
            _huber_values(at, target, out, math.inf if loss == SQUARED else threshold)


@kernel
def derivatives(loss, threshold, z, y, derivative, curvature, bits):  # type: ignore[no-untyped-def]
    """Write the first and second derivative in z of every loss. The arguments are those of `values`."""
    for start in range(0, z.shape[0], SPAN):
        stop = min(start + SPAN, z.shape[0])
        at, target, first, second = z[start:stop], y[start:stop], derivative[start:stop], curvature[start:stop]
        if loss == LOGISTIC:
            _logistic_derivatives(at, target, first, second, bits)
        elif loss == POISSON:
            _poisson_derivatives(at, target, first, second, bits)
        elif loss == SQUARED_HINGE:
            _squared_hinge_derivatives(at, target, first, second)
        elif loss == EPSILON_INSENSITIVE:
            _insensitive_derivatives(at, target, first, second, threshold)
        else:
            _huber_derivatives(at, target, first, second, math.inf if loss == SQUARED else threshold)


@elementwise
def _exponentials(argument, bits):  # type: ignore[no-untyped-def]
    """Replace each argument, between -700 and 100, by its exponential, to 1e-15: 2^k exp(r) with |r| <= ½ log 2."""
    powers = bits.view(np.float64)[: argument.shape[0]]
    for i in range(argument.shape[0]):
        t = argument[i]
        k = math.floor(t * _LOG2_E + 0.5)
        r = (t - k * _LN2_HIGH) - k * _LN2_LOW
        series = 1.0 / 6227020800.0
        series = series * r + 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        argument[i] = series * r + 1.0
        bits[i] = (np.int64(k) + 1023) << 52  # type: ignore[operator]
    for i in range(argument.shape[0]):
        argument[i] *= powers[i]


@elementwise
def _log1p(e):  # type: ignore[no-untyped-def]
    """Return log(1 + e) for e in [0, 1], as 2 artanh(e / (2 + e)), in a form that vectorises."""
    s = np.divide(e, 2.0 + e)  # like a slash: error_model="numpy" tests no divisor for 0
    q = s * s
    series = 1.0 / 31.0
    series = series * q + 1.0 / 29.0
    series = series * q + 1.0 / 27.0
    series = series * q + 1.0 / 25.0
    series = series * q + 1.0 / 23.0
    series = series * q + 1.0 / 21.0
    series = series * q + 1.0 / 19.0
    series = series * q + 1.0 / 17.0
    series = series * q + 1.0 / 15.0
    series = series * q + 1.0 / 13.0
    series = series * q + 1.0 / 11.0
    series = series * q + 1.0 / 9.0
    series = series * q + 1.0 / 7.0
    series = series * q + 1.0 / 5.0
    series = series * q + 1.0 / 3.0
    series = series * q + 1.0
    return 2.0 * s * series


@elementwise
def _logistic_values(z, y, value, bits):  # type: ignore[no-untyped-def]
    for i in range(z.shape[0]):
        value[i] = max(-abs(z[i]), _LOWEST)
    _exponentials(value, bits)
    for i in range(z.shape[0]):
        value[i] = _log1p(value[i]) + max(-y[i] * z[i], 0.0)


@elementwise
def _logistic_derivatives(z, y, derivative, curvature, bits):  # type: ignore[no-untyped-def]
    """Write with e = exp(-|z|): σ(-y z) is 1 / (1 + e) on the wrong side of 0 and e / (1 + e) on the right side."""
    for i in range(z.shape[0]):
        curvature[i] = max(-abs(z[i]), _LOWEST)
    _exponentials(curvature, bits)
    for i in range(z.shape[0]):
        e = curvature[i]
        share = np.divide(1.0, 1.0 + e)
        small = e * share
        derivative[i] = -y[i] * (small if y[i] * z[i] >= 0.0 else share)
        curvature[i] = small * share


@elementwise
def _poisson_values(z, y, value, bits):  # type: ignore[no-untyped-def]
    for i in range(z.shape[0]):
        value[i] = min(max(z[i], _LOWEST), _HIGHEST)
    _exponentials(value, bits)
    for i in range(z.shape[0]):
        above = max(z[i] - _HIGHEST, 0.0)
        value[i] = value[i] * (1.0 + above * (1.0 + 0.5 * above)) - y[i] * z[i]


@elementwise
def _poisson_derivatives(z, y, derivative, curvature, bits):  # type: ignore[no-untyped-def]
    for i in range(z.shape[0]):
        curvature[i] = min(max(z[i], _LOWEST), _HIGHEST)
    _exponentials(curvature, bits)
    for i in range(z.shape[0]):
        derivative[i] = curvature[i] * (1.0 + max(z[i] - _HIGHEST, 0.0)) - y[i]


@kernel
def _huber_values(z, y, value, threshold):  # type: ignore[no-untyped-def]
    for i in range(z.shape[0]):
        size = abs(z[i] - y[i])
        inner = min(size, threshold)
        value[i] = inner * (size - 0.5 * inner)


@kernel
def _huber_derivatives(z, y, derivative, curvature, threshold):  # type: ignore[no-untyped-def]
    for i in range(z.shape[0]):
        difference = z[i] - y[i]
        derivative[i] = min(max(difference, -threshold), threshold)
        curvature[i] = 1.0 if abs(difference) <= threshold else 0.0


@kernel
def _squared_hinge_values(z, y, value):  # type: ignore[no-untyped-def]
    for i in range(z.shape[0]):
        short = max(1.0 - y[i] * z[i], 0.0)
        value[i] = 0.5 * short * short


@kernel
def _squared_hinge_derivatives(z, y, derivative, curvature):  # type: ignore[no-untyped-def]
    for i in range(z.shape[0]):
        short = max(1.0 - y[i] * z[i], 0.0)
        derivative[i] = -y[i] * short
        curvature[i] = 1.0 if short > 0.0 else 0.0


@kernel
def _insensitive_values(z, y, value, threshold):  # type: ignore[no-untyped-def]
    for i in range(z.shape[0]):
        beyond = max(abs(z[i] - y[i]) - threshold, 0.0)
        value[i] = 0.5 * beyond * beyond


@kernel
def _insensitive_derivatives(z, y, derivative, curvature, threshold):  # type: ignore[no-untyped-def]
    for i in range(z.shape[0]):
        difference = z[i] - y[i]
        derivative[i] = difference - min(max(difference, -threshold), threshold)
        curvature[i] = 1.0 if abs(difference) > threshold else 0.0


@kernel
def row_derivative(loss, z, y):  # type: ignore[no-untyped-def]
    """Return the derivative in z of the loss of one row, for stochastic gradient descent: squared to hinge."""
    if loss == LOGISTIC:
        e = math.exp(-abs(z))
        share = np.divide(1.0, 1.0 + e)
        return -y * (e * share if y * z >= 0.0 else share)
    if loss == SQUARED:
        return z - y
    slack = 1.0 - y * z
    if slack <= 0.0:
        return 0.0
    return -y if loss == HINGE else -y * slack


@kernel
def row_value(loss, z, y):  # type: ignore[no-untyped-def]
    """Return the loss of one row: the formulas of `values` for single rows, and the hinge."""
    if loss == LOGISTIC:
        return math.log1p(math.exp(-abs(z))) + max(-y * z, 0.0)
    if loss == SQUARED:
        return 0.5 * (z - y) * (z - y)
    slack = max(1.0 - y * z, 0.0)
    return slack if loss == HINGE else 0.5 * slack * slack


@kernel
def loss_and_derivatives(loss, z, label, derivatives):  # type: ignore[no-untyped-def]
    """Return the loss of one row of several classes, and write its derivatives in z.

    Parameters
    ----------
    loss : int
        MULTINOMIAL, or the code of a single-row loss that is summed over the classes, one against the rest.
    z, derivatives : ndarray of shape (n_classes,), float64
    label : float
        Class number.
    """
    right = int(label)
    if loss != MULTINOMIAL:
        value = 0.0
        for c in range(z.shape[0]):
            sign = 1.0 if c == right else -1.0
            value += row_value(loss, z[c], sign)
            derivatives[c] = row_derivative(loss, z[c], sign)
        return value
    top = z.max()
    total = 0.0
    for c in range(z.shape[0]):
        derivatives[c] = math.exp(z[c] - top)
        total += derivatives[c]
    for c in range(z.shape[0]):
        derivatives[c] = np.divide(derivatives[c], total)
    derivatives[right] -= 1.0
    return math.log(total) + top - z[right]
