"""Functions of the linear predictor: a mean, a label, probabilities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from daskfs.losses import find_loss

Response = Callable[[Any], Any]
"""A function of the linear predictor of a block of rows."""


def mean_or_label(loss: str, classes: np.ndarray | None = None) -> Response:
    """Return the function that `predict` applies to the linear predictor: the mean of the target, or the label."""
    target = find_loss(loss).target
    if target == "count":
        return np.exp
    is_pair = classes is None or len(classes) == 2
    if target == "two classes" and is_pair:
        return partial(_label, classes=classes)
    if target in ("two classes", "classes"):
        return partial(_likeliest, classes=classes)
    return np.asarray


def probabilities(loss: str, n_classes: int = 2) -> Response:
    """Return the function that `predict_proba` applies to the linear predictor: one column for each class."""
    if find_loss(loss).target == "classes":
        return _softmax
    return _two_columns if n_classes == 2 else one_against_rest


def log_odds(predictor: Any) -> np.ndarray:
    """Return the log-odds of the second of two classes, each of which has its own predictor."""
    values: np.ndarray = np.asarray(predictor)
    return values[..., 1] - values[..., 0]


def one_against_rest(predictor: Any) -> np.ndarray:
    """Return the probabilities of several classes, each from its odds against the rest, scaled to sum to one."""
    values = sigmoid(predictor)
    result: np.ndarray = values / values.sum(axis=1, keepdims=True)
    return result


def sigmoid(predictor: Any) -> np.ndarray:
    """Return 1 / (1 + exp(-predictor)) without overflow.

    Examples
    --------
    >>> sigmoid(np.array([-1e4, 0.0, 1e4]))
    array([0. , 0.5, 1. ])
    """
    values = np.asarray(predictor, dtype=np.float64)
    small = np.exp(-np.abs(values))
    result: np.ndarray = np.where(values >= 0, 1.0, small) / (1.0 + small)
    return result


def _label(predictor: Any, classes: Any) -> np.ndarray:
    labels: np.ndarray = classes[(np.asarray(predictor) > 0).astype(np.intp)]
    return labels


def _likeliest(predictor: Any, classes: Any) -> np.ndarray:
    labels: np.ndarray = classes[np.argmax(predictor, axis=1)]
    return labels


def _two_columns(predictor: Any) -> np.ndarray:
    positive = sigmoid(predictor)
    return np.column_stack([1.0 - positive, positive])


def _softmax(predictor: Any) -> np.ndarray:
    values = np.exp(predictor - np.max(predictor, axis=1, keepdims=True))
    result: np.ndarray = values / values.sum(axis=1, keepdims=True)
    return result
