"""Compiles the kernels of online substitution for the types that it meets."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.losses import LOGISTIC, SPAN, derivatives, values
from daskfs.kernels.substitution.exchange import exchange_scan, invert, multiply, removal_costs
from daskfs.kernels.substitution.products import NO_WEIGHT, combine, cross_products, row_products, standardise
from daskfs.kernels.substitution.steps import OS, steps_scan


def compile_substitution(generalised: bool = True) -> None:
    """Call every kernel once for columns of float32, float64 and int8.

    Parameters
    ----------
    generalised : bool
        Those of the losses other than squared too.
    """
    vector, weight = np.array([1.0, -1.0, 1.0]), np.ones(3)
    for dtype in (np.float32, np.float64, np.int8):
        rows = np.array([[1, 2, 4], [3, 1, 0]], dtype)
        standardise(rows, NO_WEIGHT, True, True, dtype != np.int8, np.zeros(2), np.zeros(2), np.zeros(2))
        cross_products(rows, rows)
        row_products(rows, rows[0], weight)
        row_products(rows, vector, NO_WEIGHT)
        combine(rows, np.ones(2), 0.0, np.zeros(3))
    row_products(np.ones((2, 1)), np.ones(1), NO_WEIGHT)
    matrix, coef, counts, change = np.eye(1), np.ones(1), np.zeros(2, np.int64), np.zeros(1)
    invert(matrix, matrix.copy())
    multiply(matrix, coef)
    removal_costs(matrix, coef, 1)
    block = (np.zeros((1, 1)), np.zeros(1), np.ones(1), np.ones(1, bool), 0)
    exchange_scan(*block, matrix, coef, 1, 0, 1e-3, counts, change)
    of_members, numbers = (matrix, coef, coef.copy(), coef.copy(), 1, 0), (0.0, 1.0, 0.5, 0.0)
    steps_scan(*block, *of_members, OS, *numbers, True, np.ones(1), np.zeros(5), counts)
    if generalised:
        bits = np.empty(SPAN, np.int64)
        values(LOGISTIC, 0.0, vector, vector, np.zeros(3), bits)
        derivatives(LOGISTIC, 0.0, vector, vector, np.zeros(3), np.zeros(3), bits)
