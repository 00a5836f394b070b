"""What the parameters of MISSION may be, and what they are where nobody said."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from daskfs.errors import ConfigError

DEFAULT_N_SELECTED = 1000
DEFAULT_BUCKETS = 1 << 18
FEWEST_BUCKETS = 1 << 10

PERIOD = 0.2
"""Of the falling learning rate, in epochs."""


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
