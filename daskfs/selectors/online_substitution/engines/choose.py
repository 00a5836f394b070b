"""The choice of the engine for a rule and a loss."""

from __future__ import annotations

import numpy as np

from daskfs.selectors.online_substitution.engines.base import BatchWidth, Engine, Rule
from daskfs.selectors.online_substitution.engines.curved import CurvedEngine
from daskfs.selectors.online_substitution.engines.squared import SquaredEngine
from daskfs.selectors.online_substitution.engines.steps import StepsEngine
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.objective import LossSettings


def make_engine(
    members: Members, y: np.ndarray, rule: Rule, mode: str, loss: LossSettings, block_columns: int | None = None
) -> Engine:
    """Return the engine of a rule for a loss.

    Parameters
    ----------
    members : Members
    y : ndarray of shape (n_samples,), float64
        Classes are -1 and +1; with the squared loss and an intercept, y is centred. With several classes the shape is
        (n_classes, n_samples), and the rule must be "exchange".
    rule : Rule
    mode : {"gram", "lazy", "naive"}
        The rules "os" and "paper" take "gram" as "naive".
    loss : LossSettings
    block_columns : int, optional
        Number of columns decided on at once; by default it adapts to the number of entrances.
    """
    width = BatchWidth() if block_columns is None else BatchWidth(block_columns, block_columns)
    if rule.name != "exchange":
        return StepsEngine(members, rule, mode, width, y, loss)
    if mode == "naive":
        width = BatchWidth(1, 1)
    if loss.loss.is_quadratic:
        return SquaredEngine(members, rule, mode, width, y)
    return CurvedEngine(members, rule, mode, width, y, loss)
