"""Losses of one row at a time, as stochastic gradient descent meets them: value and derivative in the prediction z.

==============  ======================  =================
squared         ½ (z - y)²              y any number
logistic        log(1 + exp(-y z))      y is -1 or +1
hinge           max(0, 1 - y z)         y is -1 or +1
squared_hinge   ½ max(0, 1 - y z)²      y is -1 or +1
==============  ======================  =================

The same formulas as in `daskfs.kernels.losses`, which takes many predictions at once and writes arrays; a test holds
the two together. All are finite for z up to ±1e30: log(1 + exp(-y z)) never overflows, exp is of minus |z|.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.numba_cache import kernel

ROW_LOSSES = ("squared", "logistic", "hinge", "squared_hinge")
SQUARED, LOGISTIC, HINGE, SQUARED_HINGE = range(4)


@kernel
def row_derivative(loss, z, y):  # type: ignore[no-untyped-def]
    """Return the derivative of one loss in z; `loss` is a position in `ROW_LOSSES`."""
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
    """Return one loss; `loss` is a position in `ROW_LOSSES`."""
    if loss == LOGISTIC:
        return math.log1p(math.exp(-abs(z))) + max(-y * z, 0.0)
    if loss == SQUARED:
        return 0.5 * (z - y) * (z - y)
    slack = max(1.0 - y * z, 0.0)
    return slack if loss == HINGE else 0.5 * slack * slack
