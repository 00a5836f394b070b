"""Checks of the target for a loss, and the model without features."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix

ConfigError = errors.ConfigError.about("target")
DataError = errors.DataError.about("target")

LARGEST_TARGET = 1e60
"""Largest absolute value of a numeric target; its inverse is the smallest spread. Fourth powers of both are finite."""


def checked_target(matrix: Matrix, loss: str, largest: float = LARGEST_TARGET) -> np.ndarray:
    """Return the target of a matrix.

    Parameters
    ----------
    matrix : Matrix
    loss : str
    largest : float
        Largest absolute value; values must differ by at least its inverse.

    Raises
    ------
    DataError
        There are no rows or no target, or values do not match the loss.
    """
    if matrix.shape[0] < 2 or matrix.shape[1] < 1:
        raise DataError(f"expected at least 2 rows and 1 column, found shape {tuple(matrix.shape)}", "X")
    y = matrix.read_target(slice(None))
    if y is None:
        raise DataError("expected a target, found none", "y", "ingest with target=..., or pass y")
    if not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise matrix.bad_value(row, "target", y[row])
    if find_loss(loss).target == "count" and (y < 0).any():
        row = int(np.flatnonzero(y < 0)[0])
        remedy = 'use another loss, such as loss="squared"'
        raise DataError(f"expected counts of at least 0, found {y[row]}", f"target, row {row}", remedy)
    if find_loss(loss).is_classifier:
        return y
    low, high = float(y.min()), float(y.max())
    if low == high:
        raise DataError(
            f"expected at least two different values, found a constant, {y[0]:g}", "target", "check the target column"
        )
    size, spread = max(abs(low), abs(high)), high - low  # their squares neither overflow nor underflow
    if size > largest:
        row = int(np.argmax(np.abs(y)))
        place = f"target, row {matrix.source_row(row)}"
        raise DataError(f"{y[row]:g} is too large to compute with", place, f"divide the target by {size:.0e}")
    if spread < 1.0 / largest:
        problem = f"its values differ by at most {spread:.1e}, too little to compute with"
        raise DataError(problem, "target", f"multiply the target by {1.0 / max(spread, 1e-300):.0e}")
    return y


def classes_of(y: np.ndarray, known: np.ndarray | None, many: bool = False) -> np.ndarray:
    """Return the values of a classification target, ascending.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
    known : ndarray of shape (n_classes,), optional
        Classes that are already known.
    many : bool
        Whether more than two are allowed.

    Raises
    ------
    DataError
        The number of classes is wrong, or a class is unknown.
    """
    found = np.unique(y)
    if known is not None:
        unknown = found[~np.isin(found, known)]
        if len(unknown):
            raise DataError(f"expected the classes {known.tolist()}, found {unknown[0]!r}", "y", "pass classes=")
        found = known
    if len(found) > 2 and not many:
        raise DataError(
            f"Only binary classification is supported. The type of the target is multiclass: {len(found)} classes",
            "y",
            'use message with loss="multinomial", or online_substitution, async_online_substitution, mission or fgm',
        )  # the words that scikit-learn's estimator checks look for
    if len(found) < 2:
        raise DataError(f"expected two classes, found one class ({found[0]:g})", "y", "check the target")
    return found


def signs_of(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return +1 for the rows of a class and -1 for the others: for each class, of two classes only for the second.

    Examples
    --------
    >>> signs_of(np.array([0.0, 2.0, 1.0]), np.array([0.0, 1.0, 2.0]))
    array([[ 1., -1., -1.],
           [-1., -1.,  1.],
           [-1.,  1., -1.]])
    """
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(y == positive[:, None], 1.0, -1.0)


def null_intercepts(shares: np.ndarray) -> np.ndarray:
    """Return the intercepts, of sum 0, of a multinomial model without features, from the shares of the classes."""
    logarithms = np.log(shares)
    return logarithms - logarithms.mean()


def class_weights(given: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray | None:
    """Return one factor for each class.

    Parameters
    ----------
    given : None, "balanced" or mapping of a class to its weight
        Balanced: n / (n_classes n_c). A class that a mapping does not contain has weight 1.
    classes : ndarray of shape (n_classes,)
        The user's labels.
    counts : ndarray of shape (n_classes,)
        Total weight of the rows of each class.

    Raises
    ------
    ConfigError
        A class does not exist, or a weight is not a number of at least 0.
    """
    if given is None:
        return None
    if isinstance(given, str):
        return np.asarray(counts.sum() / (len(counts) * counts))
    weights = np.ones(len(classes))
    known = {label.item() if hasattr(label, "item") else label: k for k, label in enumerate(classes)}
    for label, weight in given.items():
        if label not in known:
            raise ConfigError(f"there is no class {label!r}; the classes are {list(known)}", "class_weight")
        if not (isinstance(weight, Real) and 0.0 <= float(weight) < math.inf):
            raise ConfigError(f"expected a number of at least 0, found {weight!r}", f"class_weight[{label!r}]")
        weights[known[label]] = float(weight)
    return weights
