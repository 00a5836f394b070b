"""Blocks of rows for a model of all classes: the multinomial loss in orthonormal contrasts of the classes."""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np

from daskfs.kernels.glm.softmax import is_large
from daskfs.selectors.shared.refit_on_block import Model, class_terms_on_rows
from daskfs.selectors.shared.selected_blocks import SelectedBlocks, Terms

MOST_PRODUCTS = 2e9
"""Multiplications of a Newton step up to which several classes have one model."""


def is_affordable(n_samples: int, n_columns: int, n_classes: int) -> bool:
    """Return whether the Hessian of all classes is small enough, and its sum over the rows cheap enough.

    Examples
    --------
    >>> is_affordable(150, 4, 3), is_affordable(3000, 50, 20), is_affordable(10**7, 50, 3)
    (True, False, False)
    """
    n_products = 0.5 * n_samples * ((n_classes - 1) * (n_columns + 1)) ** 2
    return not is_large(n_columns, n_classes) and n_products <= MOST_PRODUCTS


def order_of_hessian(n_columns: int, n_classes: int) -> int:
    """Return the largest possible order of the Hessian of a refit, to plan its memory.

    Examples
    --------
    >>> order_of_hessian(10, 0), order_of_hessian(10, 3), order_of_hessian(1000, 3)
    (11, 22, 1001)
    """
    return (n_columns + 1) * (1 if is_large(n_columns, n_classes) else max(1, n_classes - 1))


def contrasts(n_classes: int) -> np.ndarray:
    """Return Helmert's contrasts, of shape (n_classes, n_classes - 1): orthonormal, each with sum 0.

    Examples
    --------
    >>> (contrasts(3).round(3) + 0.0).tolist()
    [[0.707, 0.408], [-0.707, 0.408], [0.0, -0.816]]
    """
    found = np.triu(np.ones((n_classes, n_classes - 1)))
    found[range(1, n_classes), range(n_classes - 1)] = -np.arange(1, n_classes)
    return found / np.sqrt((found**2).sum(axis=0))


class ClassBlocks:
    """Blocks of rows for a model of all classes, with the interface of `SelectedBlocks`.

    A solution has the intercept and the coefficients of the first contrast, then those of the second, and so on.
    """

    def __init__(self, blocks: SelectedBlocks, classes: np.ndarray) -> None:
        self.blocks, self.classes = blocks, classes
        self.contrasts = contrasts(len(classes))
        self.is_free = np.tile(blocks.is_free, len(classes) - 1)
        self.penalty = np.zeros(len(self.is_free))

    @property
    def n_free(self) -> int:
        """Number of columns without a ridge."""
        return self.blocks.n_free

    def penalties(self, ridge: float) -> np.ndarray:
        """Return the ridge on half the square of intercepts and coefficients."""
        return np.where(self.is_free, 0.0, ridge)

    def bounded(self, ridge: float) -> Self:
        """Return the blocks with a ridge on columns that otherwise have none."""
        found = copy(self)
        found.penalty = np.where(self.is_free, ridge, 0.0)
        found.penalty.reshape(len(self.classes) - 1, -1)[:, 0] = 0.0
        return found

    def terms(self, model: Model, total: float) -> Terms:
        """Return value, gradient and Hessian of the mean loss."""
        to_last = self.contrasts[:-1] - self.contrasts[-1]  # predictors of the other classes minus that of the last
        coef = to_last @ model.solution.reshape(len(to_last), -1)
        value, gradient, hessian = self.blocks.sum_of(
            class_terms_on_rows, self.classes, coef, model.centre, model.scale
        )
        n, width = len(to_last), coef.shape[1]
        gradient = (to_last.T @ gradient.reshape(n, width)).ravel()
        hessian = hessian.reshape(n, width, n, width)
        hessian = np.einsum("ca,cudv,db->aubv", to_last, hessian, to_last, optimize=True).reshape(n * width, -1)
        terms = Terms(value / total, gradient / total, hessian / total)
        return terms.with_penalty(model.solution, self.penalty) if self.penalty.any() else terms

    def without_columns(self, model: Model, total: float) -> np.ndarray:
        """Return the solution without columns, from the shares of the classes."""
        # where all predictors are 0, the gradient is that of 1 / C minus the shares
        gradient = self.terms(model, total).gradient.reshape(len(self.classes) - 1, -1)[:, 0]
        shares = np.maximum(1.0 / len(self.classes) - self.contrasts @ gradient, 0.5 / total)
        solution = np.zeros((len(gradient), len(model.scale) + 1))
        solution[:, 0] = self.contrasts.T @ np.log(shares)
        return solution.ravel()
