"""The choice of the engine for a rule and a loss."""

from __future__ import annotations

import numpy as np

from daskfs.selectors.online_substitution.engines.base import BatchWidth, Engine, Rule
from daskfs.selectors.online_substitution.engines.classes import ClassesEngine
from daskfs.selectors.online_substitution.engines.glm import GlmEngine
from daskfs.selectors.online_substitution.engines.gradient import GradientEngine
from daskfs.selectors.online_substitution.engines.grouped_glm import GroupGlmEngine
from daskfs.selectors.online_substitution.engines.grouped_gradient import GroupGradientEngine
from daskfs.selectors.online_substitution.engines.grouped_squared import GroupSquaredEngine
from daskfs.selectors.online_substitution.engines.point import LossSettings
from daskfs.selectors.online_substitution.engines.squared import SquaredEngine
from daskfs.selectors.online_substitution.group_members import GroupMembers
from daskfs.selectors.online_substitution.members import Members


def make_engine(
    members: Members, y: np.ndarray, rule: Rule, mode: str, loss: LossSettings, block_columns: int | None = None
) -> Engine:
    """Return the engine of a rule for a loss.

    Parameters
    ----------
    members : Members or GroupMembers
        With groups, the rules "os" and "paper" support only the modes "lazy" and "naive".
    y : ndarray of shape (n_samples,), float64
        Classes are -1 and +1; with the squared loss and an intercept, y is centred. With several classes the shape is
        (n_classes, n_samples), and the rule must be "exchange".
    rule : Rule
    mode : {"gram", "lazy", "naive"}
    loss : LossSettings
    block_columns : int, optional
        Number of columns decided on at once; by default it adapts to the number of entrances.
    """
    width = BatchWidth() if block_columns is None else BatchWidth(block_columns, block_columns)
    if mode == "naive" and rule.name == "exchange" and not loss.loss.is_quadratic and block_columns is None:
        width = BatchWidth(1, 1)
    if y.ndim == 2:
        return ClassesEngine(members, rule, mode, width, y, loss)
    if isinstance(members, GroupMembers):
        if rule.name != "exchange":
            return GroupGradientEngine(members, rule, mode, width, y, loss)
        if loss.loss.is_quadratic:
            return GroupSquaredEngine(members, rule, mode, width, y)
        return GroupGlmEngine(members, rule, mode, width, y, loss)
    if loss.loss.is_quadratic and (rule.name == "exchange" or mode == "gram"):
        return SquaredEngine(members, rule, mode, width, y)
    if rule.name == "exchange":
        return GlmEngine(members, rule, mode, width, y, loss)
    return GradientEngine(members, rule, mode, width, y, loss)
