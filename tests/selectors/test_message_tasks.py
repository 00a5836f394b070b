"""What one task of MESSAGE returns."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.kernels.lasso.path import lasso_path
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.subset import SelectionSettings
from daskfs.selectors.message.tasks import Choices, SubsetGroup, select_on_block

SETTINGS = SelectionSettings(criterion="ebic")
GROUP = SubsetGroup(0, (0, 400, 800), slice(100, 900))


def test_shrunk_coefficients_are_those_of_each_subsets_path(problem):
    X, y = problem
    choices = select_on_block(ArrayMatrix(X, y), SETTINGS, GROUP).subsets
    for choice, rows in zip(choices, (slice(100, 500), slice(500, 900)), strict=True):
        path = lasso_path(X[rows], y[rows], np.ones(400), penalty=feature_penalty("ebic", 400, 20))
        (model,) = choice.ballots
        coef = path.coefficients(path.best)
        np.testing.assert_array_equal(model.coef, coef[model.selected])
        residual = y[rows] - X[rows] @ coef - model.intercept
        assert residual.mean() == pytest.approx(0.0, abs=1e-12)
        assert residual.std() < y[rows].std()


@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
def test_what_a_task_returns_is_the_same_after_packing(problem, loss):
    X, y = problem
    classes = {"logistic": {"positive": 1.0}, "multinomial": {"classes": (-1.0, 0.0, 1.0)}}.get(loss, {})
    y = y if loss == "squared" else np.sign(y - y % 3)
    choices = select_on_block(ArrayMatrix(X, y), SelectionSettings(loss=loss, **classes), GROUP)
    packed = choices.pack()
    again = Choices.unpack(packed).pack()
    assert list(again) == list(packed)
    for name, array in packed.items():
        np.testing.assert_array_equal(again[name], array)
        assert again[name].dtype == array.dtype
    assert len(choices.subsets[0].ballots) == (3 if loss == "multinomial" else 1)
    assert [choice.path is None for choice in choices.subsets] == [False, True]
