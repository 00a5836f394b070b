"""What the parameters of online substitution may be, and what stands for those that were not given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np

from daskfs import parameters
from daskfs.errors import DataError, did_you_mean
from daskfs.losses import BOUNDED_CURVATURE, ONE_PREDICTION, find_loss
from daskfs.parameters import LossOf
from daskfs.selectors.message.plan import is_whole
from daskfs.selectors.online_substitution.engines.base import Rule

if TYPE_CHECKING:
    from daskfs.selectors.online_substitution.selector import OnlineSubstitution

SmoothLoss: TypeAlias = Annotated[
    str,
    LossOf(BOUNDED_CURVATURE, ONE_PREDICTION, among=("squared", "logistic", "squared_hinge", "epsilon_insensitive")),
]
MAX_DEFAULT_FEATURES = 100
TOLERANCE = 1e-3  # 1 - R² of a newcomer on the members, below which it is their combination
SMALLEST_CHAPTER, LARGEST_CHAPTER = 32, 128


def rule_of(selector: OnlineSubstitution) -> Rule:
    """Return the rule with its numbers."""
    ridge = selector.ridge
    if ridge is None:
        loss = find_loss(selector.loss)
        ridge = 0.0 if selector.rule == "paper" else loss.ridge * loss.curvature_bound
    return Rule(
        name=selector.rule,
        ridge=float(ridge),
        tolerance=TOLERANCE if selector.tolerance is None else float(selector.tolerance),
        checks=bool(selector.check),
        eta=0.0 if selector.eta is None else float(selector.eta),
        m=float(selector.m),
        c=float(selector.c),
        lipschitz=0.0 if selector.lipschitz is None else float(selector.lipschitz),
    )


def engine_of(selector: OnlineSubstitution) -> str:
    """Return the engine that stands for "auto"."""
    if selector.engine != "auto":
        return str(selector.engine)
    if selector.loss == "squared" or selector.rule == "exchange":
        return "gram"
    return "lazy" if selector.rule == "os" else "naive"


def n_to_select(asked: Any, n_features: int) -> int:
    """Return how many features to select: half of them and at most 100, where nobody said.

    Raises
    ------
    ConfigError
        More than there are.
    """
    return parameters.n_to_select(asked, n_features, max(1, min(n_features // 2, MAX_DEFAULT_FEATURES)))


def chapter_of(block_columns: Any, n_selected: int) -> int:
    """Return how many columns are decided on with one set of products: no more than members, so that these dominate.

    It depends on neither memory nor tiles, for with losses other than the squared one the answer depends on it.

    Examples
    --------
    >>> chapter_of(None, 10), chapter_of(None, 100), chapter_of(None, 500), chapter_of(17, 500)
    (32, 64, 128, 17)
    """
    if block_columns is not None:
        return int(block_columns)
    chapter = SMALLEST_CHAPTER
    while chapter < LARGEST_CHAPTER and 2 * chapter <= n_selected:
        chapter *= 2
    return chapter


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
        elif not is_whole(value, 0) or int(value) >= n_features:
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
