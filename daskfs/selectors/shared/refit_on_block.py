"""Computations of the refit on a block of rows. Workers import this file, so it is light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daskfs.kernels.glm.fit import newton_terms, terms_of_columns
from daskfs.kernels.glm.softmax import softmax_terms
from daskfs.kernels.linear.columns import copy_columns
from daskfs.kernels.linear.moments import moments
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, as_kernels_take_it, as_vector
from daskfs.selectors.shared.record import Record


@dataclass(frozen=True, slots=True)
class Model:
    """A linear predictor of columns that are centred and scaled the same on every block."""

    loss: str
    positive: float | None
    """The target's value for the class that counts as +1; None for regression."""
    threshold: float
    """Threshold of the Huber loss."""
    solution: np.ndarray
    """The intercept, then the coefficients of ``(x - centre) / scale``."""
    centre: np.ndarray
    scale: np.ndarray
    """0 for a column that takes no part."""


@dataclass(frozen=True, slots=True)
class RowMoments(Record):
    """Weight, means and standard deviations of some rows."""

    total: float
    """The sum of the weights. If it is 0, the other fields are 0 too."""
    y_mean: float
    mean: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True, slots=True)
class RowTerms(Record):
    """The summed loss of some rows: its value, gradient and Hessian in the intercept and the coefficients."""

    weight: float
    value: float
    gradient: np.ndarray
    hessian: np.ndarray


def moments_on_rows(matrix: Matrix, columns: Rows, positive: float | None, rows: Rows) -> RowMoments:
    """Return weight, means and standard deviations of the columns on some rows."""
    X, y, weight = read_rows(matrix, columns, positive, rows)
    if not weight.any():
        nothing = np.zeros(X.shape[1])
        return RowMoments(0.0, 0.0, nothing, nothing)
    m = moments(X, y, weight)
    return RowMoments(m.total, m.y_mean, m.mean, m.scale)


def terms_on_rows(matrix: Matrix, columns: Rows, model: Model, rows: Rows) -> RowTerms:
    """Return value, gradient and Hessian of the summed loss of some rows."""
    X, y, weight = read_rows(matrix, columns, model.positive, rows)
    n = len(model.solution)
    if not weight.any():
        return RowTerms(0.0, 0.0, np.zeros(n), np.zeros((n, n)))
    terms = newton_terms(
        X,
        y,
        weight,
        loss=model.loss,
        coef=model.solution[1:],
        intercept=model.solution[0],
        centre=model.centre,
        scale=model.scale,
        threshold=model.threshold,
    )
    return RowTerms(float(weight.sum()), float(terms.value), terms.gradient, terms.hessian)


def class_terms_on_rows(
    matrix: Matrix,
    columns: Rows,
    classes: np.ndarray,
    coef: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    rows: Rows,
) -> RowTerms:
    """Return value, gradient and Hessian of the summed multinomial loss of some rows.

    Parameters
    ----------
    matrix, columns, rows : as for the other functions
    classes : ndarray of shape (n_classes,)
        Values of the target, ascending.
    coef : ndarray of shape (n_classes - 1, n_columns + 1)
        Of all classes but the last, whose coefficients are 0; intercepts first.
    centre, scale : ndarray of shape (n_columns,)
    """
    X, y, weight = read_rows(matrix, columns, None, rows)
    if not weight.any():
        return RowTerms(0.0, 0.0, np.zeros(coef.size), np.zeros((coef.size, coef.size)))
    terms = softmax_terms(X, np.searchsorted(classes, y).astype(np.float64), weight, coef, centre, scale)
    return RowTerms(float(weight.sum()), terms.value, terms.gradient, terms.hessian)


class LaidOut(NamedTuple):
    """Standardised columns of some rows, without rows of weight 0, in the form of the kernels."""

    columns: np.ndarray
    """Shape (n_varying, n_rows), float64."""
    places: np.ndarray
    """Positions of the columns that vary."""
    y: np.ndarray
    weight: np.ndarray


def laid_out(matrix: Matrix, columns: Rows, centre: np.ndarray, scale: np.ndarray, rows: Rows) -> LaidOut:
    """Return standardised columns of some rows, for terms at several points."""
    X, y, weight = read_rows(matrix, columns, None, rows)
    if not weight.all():
        X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    places = np.flatnonzero(scale > 0.0)
    standardised = np.empty((len(places), len(y)))
    copy_columns(X, centre, scale, places, standardised)
    return LaidOut(standardised, places, y, weight)


def terms_of_laid(laid: LaidOut, model: Model) -> RowTerms:
    """Return value, gradient and Hessian of the summed loss, for a model of the first columns."""
    n = len(model.solution)
    gradient, hessian = np.zeros(n), np.zeros((n, n))
    if not len(laid.y):
        return RowTerms(0.0, 0.0, gradient, hessian)
    y = laid.y if model.positive is None else np.where(laid.y == model.positive, 1.0, -1.0)
    k = int(np.searchsorted(laid.places, n - 1))
    places = np.concatenate([[0], laid.places[:k] + 1])
    terms = terms_of_columns(laid.columns[:k], y, laid.weight, model.solution[places], model.loss, model.threshold)
    gradient[places] = terms.gradient
    hessian[np.ix_(places, places)] = terms.hessian
    return RowTerms(float(laid.weight.sum()), terms.value, gradient, hessian)


def read_rows(
    matrix: Matrix, columns: Rows, positive: float | None, rows: Rows
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and weight of some rows in the form of the kernels, with classes as -1 and +1."""
    X = as_kernels_take_it(matrix.read(rows, columns))
    y = as_vector(matrix.read_target(rows))
    if positive is not None:
        y = np.where(y == positive, 1.0, -1.0)
    found = matrix.read_weight(rows)
    return X, y, np.ones(len(y)) if found is None else as_vector(found)
