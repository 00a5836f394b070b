"""What the parameters of MISSION may be, and what they are where nobody said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs.errors import ConfigError, did_you_mean
from daskfs.kernels.row_losses import ROW_LOSSES
from daskfs.kernels.sketch.count_sketch import MAX_BUCKETS, N_HASHES
from daskfs.selectors.message.plan import is_whole

if TYPE_CHECKING:
    from daskfs.selectors.mission.selector import Mission

MISSION_LOSSES = (*ROW_LOSSES, "multinomial")
DEFAULT_N_SELECTED = 1000
DEFAULT_BUCKETS = 1 << 18
FEWEST_BUCKETS = 1 << 10

PERIOD = 0.2
"""Of the falling learning rate, in epochs."""

ONE_PASS = {"squared": 0.5, "logistic": 4.0, "hinge": 2.0, "squared_hinge": 1.0, "multinomial": 4.0}
SEVERAL = {"squared": 1.0, "logistic": 8.0, "hinge": 4.0, "squared_hinge": 2.0, "multinomial": 8.0}
"""Learning rate times the mean squared norm of a row: constant in one pass, that of the first row in several."""

STEP_LIMITS = {"squared": 1.0, "logistic": 8.0, "hinge": 8.0, "squared_hinge": 2.0, "multinomial": 8.0}
"""Largest learning rate times the squared norm of the row itself: a step beyond would grow, not fall."""


def check_parameters(selector: Mission) -> None:
    """Refuse what a parameter of MISSION cannot be.

    Raises
    ------
    ConfigError
        Naming the parameter.
    """
    choices: dict[str, tuple[Any, ...]] = {
        "loss": MISSION_LOSSES,
        "variant": ("active", "paper"),
        "tail": ("sketch", "identity"),
        "n_hashes": N_HASHES,
        "refit": ("auto", "exact", "sgd", None),
        "standardize": (True, False),
        "heap": (False, True),
    }
    for name, known in choices.items():
        value = getattr(selector, name)
        if value not in known:
            hint = did_you_mean(str(value), map(str, known))
            raise ConfigError(f"expected one of {', '.join(map(str, known))}, found {value!r}{hint}", name)
    for name, least in (("n_features_to_select", 1), ("n_epochs", 1), ("block_rows", 1), ("n_replicas", 1)):
        value = getattr(selector, name)
        if not (is_whole(value, least) or (value is None and name == "n_features_to_select")):
            raise ConfigError(f"expected a whole number of at least {least}, found {value!r}", name)
    if not is_whole(selector.sync_every, 1):
        raise ConfigError(f"expected a whole number of at least 1, found {selector.sync_every!r}", "sync_every")
    buckets = selector.n_buckets
    if buckets is not None and not (is_whole(buckets, 1) and buckets <= MAX_BUCKETS and buckets & (buckets - 1) == 0):
        raise ConfigError(f"expected a power of two of at most 2**31, found {buckets!r}", "n_buckets")
    for name in ("learning_rate", "tail_half_life"):
        value = getattr(selector, name)
        if value is not None and not (isinstance(value, Real) and 0.0 < float(value) < math.inf):
            raise ConfigError(f"expected a positive number, found {value!r}", name)
    ratio = selector.intercept_rate
    if not (isinstance(ratio, Real) and 0.0 <= float(ratio) <= 1.0):
        raise ConfigError(f"expected a number from 0 to 1, found {ratio!r}", "intercept_rate")
    _check_combinations(selector)


def _check_combinations(selector: Mission) -> None:
    if selector.refit == "exact" and selector.loss in ("hinge", "multinomial"):
        raise ConfigError(f"there is no exact refit of the {selector.loss} loss", "refit", 'refit="sgd"')
    if selector.heap and selector.variant != "paper":
        raise ConfigError("only the paper's variant has a heap", "heap", 'variant="paper"')
    given = selector.class_weight
    if given is not None and given != "balanced" and not isinstance(given, Mapping):
        raise ConfigError(f'expected "balanced" or a mapping of classes to weights, found {given!r}', "class_weight")
    if given is not None and selector.loss == "squared":
        raise ConfigError("the squared loss has no classes", "class_weight", "leave it out, or pass sample weights")


def n_to_select(asked: int | None, n_features: int) -> int:
    """Return K.

    Raises
    ------
    ConfigError
        More features asked for than there are.
    """
    if asked is None:
        return min(DEFAULT_N_SELECTED, n_features)
    if asked > n_features:
        raise ConfigError(
            f"asks for {asked:,} features, but there are {n_features:,}",
            "n_features_to_select",
            f"ask for at most {n_features:,}",
        )
    return int(asked)


def buckets_of(asked: int | None, n_features: int) -> int:
    """Return the cells of a row of the sketch: 2¹⁸, or as many as twice the features where there are fewer.

    Examples
    --------
    >>> buckets_of(None, 10**6), buckets_of(None, 5000), buckets_of(64, 5000)
    (262144, 16384, 64)
    """
    if asked is not None:
        return int(asked)
    return min(DEFAULT_BUCKETS, max(FEWEST_BUCKETS, 1 << (2 * n_features - 1).bit_length()))


def class_weights(given: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray | None:
    """Return one factor for each class.

    Parameters
    ----------
    given : None, "balanced" or mapping of a class to its weight
        Balanced: n / (n_classes n_c). A class that a mapping leaves out has weight 1.
    classes : ndarray of shape (n_classes,)
        As the user names them.
    counts : ndarray of shape (n_classes,)
        Weighted rows of each.

    Raises
    ------
    ConfigError
        A class that is not there, or a weight that is not a number of at least 0.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return np.asarray(counts.sum() / (len(counts) * counts))
    weights = np.ones(len(classes))
    known = {label.item() if hasattr(label, "item") else label: k for k, label in enumerate(classes)}
    for label, weight in given.items():
        if label not in known:
            raise ConfigError(f"there is no class {label!r}; there are {list(known)}", "class_weight")
        if not (isinstance(weight, Real) and 0.0 <= float(weight) < math.inf):
            raise ConfigError(f"expected a number of at least 0, found {weight!r}", f"class_weight[{label!r}]")
        weights[known[label]] = float(weight)
    return weights
