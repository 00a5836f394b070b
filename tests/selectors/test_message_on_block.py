"""What one task of MESSAGE returns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.kernels.lasso.path import lasso_path
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.on_block import SelectionSettings, SubsetGroup, select_on_block

SETTINGS = SelectionSettings("ebic", 0.5, True, 100, 10, None)
GROUP = SubsetGroup(0, (0, 400, 800), slice(100, 900))


def test_shrunk_coefficients_are_those_of_each_subsets_path(problem):
    X, y = problem
    chosen = select_on_block(ArrayMatrix(X, y), replace(SETTINGS, with_coefficients=True), GROUP)
    ends = np.cumsum(chosen["n_selected"])
    for k, rows in enumerate((slice(100, 500), slice(500, 900))):
        path = lasso_path(X[rows], y[rows], np.ones(400), penalty=feature_penalty("ebic", 400, 20))
        part = slice(ends[k] - chosen["n_selected"][k], ends[k])
        coef = path.coefficients(path.best)
        np.testing.assert_array_equal(chosen["coef"][part], coef[chosen["selected"][part]])
        residual = y[rows] - X[rows] @ coef - chosen["intercept"][k]
        assert residual.mean() == pytest.approx(0.0, abs=1e-12)
        assert residual.std() < y[rows].std()


def test_coefficients_are_left_out_where_nobody_asks(problem):
    chosen = select_on_block(ArrayMatrix(*problem), SETTINGS, GROUP)
    assert "coef" not in chosen
