"""Paths of float32 and of float64 run the same machine code."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.glm import steps as glm_steps
from daskfs.kernels.glm.path import glm_path
from daskfs.kernels.group_lasso import steps as group_steps
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.group_lasso.path import group_path
from daskfs.kernels.lasso import homotopy, steps
from daskfs.kernels.lasso.path import lasso_path
from tests.tolerances import assert_close

GROUPS = ColumnGroups(np.arange(150), np.arange(0, 151, 3))
PATHS = {
    "homotopy": (homotopy.follow_knots, lambda *block: lasso_path(*block, penalty=5.0)),
    "descent": (steps.follow, lambda *block: lasso_path(*block, penalty=5.0, solver="descent")),
    "losses": (glm_steps.follow, lambda *block: glm_path(*block, penalty=5.0, loss="logistic")),
    "groups": (group_steps.follow, lambda *block: group_path(*block, GROUPS, per_column=5.0, loss="logistic")),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_compiled_once_for_float32_and_float64(path):
    kernel, follow = PATHS[path]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 150)).astype(np.float32)
    y, weight = np.where(X[:, 3] - X[:, 70] + rng.standard_normal(120) > 0, 1.0, -1.0), np.ones(120)
    of_doubles = follow(X.astype(np.float64), y, weight)
    compiled = len(kernel.signatures)
    of_singles = follow(X, y, weight)
    assert len(kernel.signatures) == compiled
    assert len(of_doubles.selected()) >= 2
    np.testing.assert_array_equal(of_singles.selected(), of_doubles.selected())
    assert_close(of_singles.coef, of_doubles.coef)
