"""What one task of MESSAGE returns."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.kernels.lasso.path import lasso_path
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.choices import SelectionSettings
from daskfs.selectors.message.tasks import Choices, SubsetGroup, select_on_block

SETTINGS = SelectionSettings(criterion="ebic")
GROUP = SubsetGroup(0, 1, (0, 400, 800), slice(100, 900))


def test_shrunk_coefficients_are_those_of_each_subsets_path(problem):
    X, y = problem
    choices = select_on_block(ArrayMatrix(X, y), SETTINGS, GROUP).first()
    ends, models = np.cumsum(choices.ballots.n_selected), choices.ballots
    for i, rows in enumerate((slice(100, 500), slice(500, 900))):
        path = lasso_path(X[rows], y[rows], np.ones(400), penalty=feature_penalty("ebic", 400, 20))
        own = slice(ends[i] - models.n_selected[i], ends[i])
        coef = path.coefficients(path.best)
        np.testing.assert_array_equal(models.selected[own], path.selected())
        np.testing.assert_array_equal(models.coef[own], coef[models.selected[own]])
        residual = y[rows] - X[rows] @ coef - models.intercept[i]
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
    assert (choices.first().n_ballots == (3 if loss == "multinomial" else 1)).all()
    assert len(choices) == 2
    assert len(choices.paths) == 1
