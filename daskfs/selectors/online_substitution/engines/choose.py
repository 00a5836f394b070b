"""Which engine serves a rule and a loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.kernels.losses import EPSILON_INSENSITIVE, SQUARED
from daskfs.losses import loss_of_code
from daskfs.selectors.online_substitution.engines.exchange import Rule, SquaredExchange, SquaredSteps
from daskfs.selectors.online_substitution.engines.glm import GlmExchange
from daskfs.selectors.online_substitution.engines.gradient import Descent
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.parameters import EPSILON_SHARE


def make_engine(
    members: Members,
    y: np.ndarray,
    rule: Rule,
    engine: str,
    loss: int = SQUARED,
    epsilon: float | None = None,
    fits_intercept: bool = True,
) -> Any:
    """Return the engine of a rule for a loss.

    Parameters
    ----------
    members : Members
    y : ndarray of shape (n_samples,), float64
        Classes are -1 and +1; with the squared loss centred, where an intercept is fitted.
    rule : Rule
    engine : {"gram", "lazy", "naive"}
    loss : int
        A code.
    epsilon : float, optional
        Of the epsilon-insensitive loss.
    fits_intercept : bool
    """
    if loss == SQUARED and rule.name == "exchange":
        return SquaredExchange(members, y, rule, engine)
    if loss == SQUARED and engine == "gram":
        return SquaredSteps(members, y, rule, engine)
    threshold = 0.0
    if loss == EPSILON_INSENSITIVE:
        weight = members.weight if len(members.weight) else None
        mean = np.average(y, weights=weight)
        threshold = EPSILON_SHARE * float(np.sqrt(np.average((y - mean) ** 2, weights=weight)))
        threshold = threshold if epsilon is None else float(epsilon)
    fits = fits_intercept and loss != SQUARED  # of the squared loss, columns and target are centred
    if rule.name == "exchange":
        return GlmExchange(members, y, rule, engine, loss, threshold, fits)
    return Descent(members, y, rule, engine, loss, threshold, fits, loss_of_code(loss).curvature_bound)
