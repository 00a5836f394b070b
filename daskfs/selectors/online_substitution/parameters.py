"""What the parameters of online substitution may be, and what stands for those that were not given."""

from __future__ import annotations

from numbers import Integral
from typing import Annotated, Any, TypeAlias

import numpy as np

from daskfs import parameters
from daskfs.errors import DataError, did_you_mean
from daskfs.losses import BOUNDED_CURVATURE, ONE_PREDICTION, find_loss
from daskfs.parameters import LossOf
from daskfs.selectors.online_substitution.engines.base import Rule

SmoothLoss: TypeAlias = Annotated[
    str,
    LossOf(BOUNDED_CURVATURE, ONE_PREDICTION, among=("squared", "logistic", "squared_hinge", "epsilon_insensitive")),
]
MAX_DEFAULT_FEATURES = 100
TOLERANCE = 1e-3  # 1 - R² of a candidate on the selected features, below which it is their combination


def make_rule(
    name: str,
    loss: str,
    *,
    ridge: float | None,
    tolerance: float | None,
    check: bool,
    eta: float | None,
    m: float,
    c: float,
    lipschitz: float | None,
    stretch: float | None = None,
) -> Rule:
    """Return a rule with its numbers; those that are None are the rule's and the loss's own."""
    if ridge is None:
        known = find_loss(loss)
        ridge = 0.0 if name == "paper" else known.ridge * known.curvature_bound
    return Rule(
        name=name,
        ridge=float(ridge),
        tolerance=TOLERANCE if tolerance is None else float(tolerance),
        checks=bool(check),
        eta=0.0 if eta is None else float(eta),
        m=float(m),
        c=float(c),
        lipschitz=0.0 if lipschitz is None else float(lipschitz),
        stretch=stretch,
    )


def n_to_select(asked: Any, n_features: int) -> int:
    """Return how many features to select: half of them and at most 100, where nobody said.

    Raises
    ------
    ConfigError
        More than there are.
    """
    return parameters.n_to_select(asked, n_features, max(1, min(n_features // 2, MAX_DEFAULT_FEATURES)))


def columns_of(asked: Any, n_features: int, names: np.ndarray | None, parameter: str) -> np.ndarray:
    """Return columns that a parameter names, by their numbers or names, as int64.

    Raises
    ------
    DataError
        There is no such column, or one is named twice.
    """
    values = [] if asked is None else list(np.asarray(asked, dtype=object).ravel())
    numbers = []
    known = None if names is None else {str(name): j for j, name in reversed(list(enumerate(names)))}
    for value in values:
        if isinstance(value, str):
            if known is None or value not in known:
                hint = "" if known is None else did_you_mean(value, known)
                raise DataError(f"there is no column {value!r}{hint}", parameter, "give names or numbers of columns")
            numbers.append(known[value])
        elif not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= int(value) < n_features:
            raise DataError(
                f"expected numbers of columns from 0 to {n_features - 1}, found {value!r}", parameter, "correct it"
            )
        else:
            numbers.append(int(value))
    columns = np.array(numbers, dtype=np.int64)
    if len(np.unique(columns)) < len(columns):
        values_, counts = np.unique(columns, return_counts=True)
        raise DataError(f"column {int(values_[counts > 1][0])} stands twice", parameter, "name each column once")
    return columns
