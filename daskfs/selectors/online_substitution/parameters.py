"""What the parameters of online substitution may be, and what stands for those that were not given."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs.errors import ConfigError, DataError, did_you_mean
from daskfs.kernels.losses import EPSILON_INSENSITIVE, LOGISTIC, SQUARED, SQUARED_HINGE
from daskfs.selectors.message.plan import is_whole
from daskfs.selectors.online_substitution.engines.base import Rule

if TYPE_CHECKING:
    from daskfs.selectors.online_substitution.selector import OnlineSubstitution

RULES = ("exchange", "os", "paper")
CURVATURE = {SQUARED: 1.0, LOGISTIC: 0.25, SQUARED_HINGE: 1.0, EPSILON_INSENSITIVE: 1.0}
"""κ: the most that a loss curves, by its code."""
LOSSES = {
    "squared": SQUARED,
    "squared_hinge": SQUARED_HINGE,
    "logistic": LOGISTIC,
    "epsilon_insensitive": EPSILON_INSENSITIVE,
}
DEFAULT_RIDGE = {SQUARED: 0.0, LOGISTIC: 0.03, SQUARED_HINGE: 0.03, EPSILON_INSENSITIVE: 0.001}
"""In parts of κ: where classes are told apart, or errors cost nothing, slopes and curvatures would vanish."""
EPSILON_SHARE = 0.1  # of the target's standard deviation
MAX_DEFAULT_FEATURES = 100
TOLERANCE = 1e-3  # 1 - R² of a newcomer on the members, below which it is their combination
SMALLEST_CHAPTER, LARGEST_CHAPTER = 32, 128


def check_parameters(selector: OnlineSubstitution) -> None:
    """Refuse what a parameter cannot be.

    Raises
    ------
    ConfigError
        Naming the parameter.
    """
    choices: dict[str, Any] = {
        "rule": RULES,
        "loss": tuple(LOSSES),
        "engine": ("auto", "gram", "lazy", "naive"),
        "schedule": ("sequential", "screen"),
    }
    if isinstance(selector.order, str):
        choices["order"] = ("fixed", "shuffled")
    for name, known in choices.items():
        value = getattr(selector, name)
        if value not in known:
            hint = did_you_mean(str(value), known)
            raise ConfigError(f"expected one of {', '.join(known)}, found {value!r}{hint}", name)
    for name in ("n_features_to_select", "block_columns"):
        value = getattr(selector, name)
        if value is not None and not is_whole(value, 1):
            raise ConfigError(f"expected a whole number of at least 1, found {value!r}", name)
    if not is_whole(selector.n_epochs, 1):
        raise ConfigError(f"expected a whole number of at least 1, found {selector.n_epochs!r}", "n_epochs")
    for name, least, most in (
        ("ridge", 0.0, np.inf), ("epsilon", 0.0, np.inf), ("eta", 1e-300, np.inf), ("m", 1.0, np.inf),
        ("c", 0.0, 1.0), ("lipschitz", 1e-300, np.inf), ("tolerance", 0.0, 1.0),
    ):  # fmt: skip
        value = getattr(selector, name)
        if value is not None and not (isinstance(value, Real) and least <= float(value) <= most and value < np.inf):
            span = f"from {least:g} to {most:g}" if most < np.inf else f"of at least {least:g}"
            raise ConfigError(f"expected a number {span}, found {value!r}", name)
    _check_combination(selector)


def _check_combination(selector: OnlineSubstitution) -> None:
    engine, loss, rule = selector.engine, selector.loss, selector.rule
    if engine == "gram" and loss != "squared" and rule != "exchange":
        raise ConfigError(
            f"the rule {rule!r} with the loss {loss!r} has no products that would stay valid", "engine", "use 'auto'"
        )
    if engine == "lazy" and rule == "paper":
        raise ConfigError("the paper's rule moves the members at every column: it cannot wait", "engine", "use 'auto'")
    if selector.schedule == "screen" and rule != "exchange":
        raise ConfigError(f"expected the rule 'exchange', found {rule!r}", "schedule", "leave it 'sequential'")


def rule_of(selector: OnlineSubstitution) -> Rule:
    """Return the rule with its numbers."""
    ridge = selector.ridge
    if ridge is None:
        code = LOSSES[selector.loss]
        ridge = 0.0 if selector.rule == "paper" else DEFAULT_RIDGE[code] * CURVATURE[code]
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
    if asked is None:
        return max(1, min(n_features // 2, MAX_DEFAULT_FEATURES))
    if int(asked) > n_features:
        raise ConfigError(
            f"asks for {int(asked):,} features, but there are {n_features:,}",
            "n_features_to_select",
            f"ask for at most {n_features:,}",
        )
    return int(asked)


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
