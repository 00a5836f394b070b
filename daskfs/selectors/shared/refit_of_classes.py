"""The refit of a target of any kind: a loss with one predictor once, classes together or each against the rest.

Several classes have one model, with the multinomial loss. Their coefficients are determined up to a constant, so they
are sums of C - 1 orthonormal contrasts of the C classes. The ridge on the coefficients of the contrasts is then that on
the coefficients of the classes, which treats all classes alike, and the steps and the choice of the ridge are those of
a refit of one predictor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from daskfs.losses import find_loss
from daskfs.matrix.blocks import as_vector
from daskfs.selectors.shared.class_blocks import ClassBlocks, is_affordable
from daskfs.selectors.shared.refit import TOLERANCE, MeanLoss, SelectedFit, minimum_of, refit_nested
from daskfs.selectors.shared.refit_on_block import Model
from daskfs.selectors.shared.ridge import Effort
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.selected_blocks import SelectedBlocks
from daskfs.selectors.shared.targets import classes_of

FITTED_INSTEAD = {"multinomial": "logistic", "hinge": "squared_hinge", "epsilon_insensitive": "squared"}
"""Replacements for losses without a minimum of their own over all rows, and for many classes or columns.

Each of several classes is then fitted against the rest.
"""


class ClassFits(NamedTuple):
    """The fit of some columns; with several classes one for each, of all together or against the rest."""

    loss: str
    """The fitted loss: "multinomial" if it is one model of several classes; see `FITTED_INSTEAD`."""
    fits: list[SelectedFit]
    classes: np.ndarray | None
    """The values of a classification target, ascending."""

    @property
    def coef(self) -> np.ndarray:
        """Shape (n_columns,), with more than two classes (n_classes, n_columns)."""
        return self.fits[0].coef if len(self.fits) == 1 else np.array([fit.coef for fit in self.fits])

    @property
    def intercept(self) -> float | np.ndarray:
        """A number, with more than two classes one for each."""
        intercept = [fit.intercept for fit in self.fits]
        return intercept[0] if len(intercept) == 1 else np.array(intercept)

    @property
    def is_separable(self) -> bool:
        """Whether any of the fits has no finite minimum without a ridge."""
        return any(fit.is_separable for fit in self.fits)


def fit_each_class(
    run: Run,
    columns: np.ndarray,
    loss: str,
    ridge: float | None = None,
    classes: np.ndarray | None = None,
    has_l1: bool = False,
    free: np.ndarray | None = None,
) -> ClassFits:
    """Fit a loss, including those for classes, on some columns: see `fit_each_size`."""
    return fit_each_size(run, columns, [len(columns)], loss, ridge, classes, has_l1, free=free)[0]


def fit_each_size(
    run: Run,
    columns: np.ndarray,
    sizes: Sequence[int],
    loss: str,
    ridge: float | None = None,
    classes: np.ndarray | None = None,
    has_l1: bool = False,
    tolerance: float = TOLERANCE,
    free: np.ndarray | None = None,
) -> list[ClassFits]:
    """Fit a loss, including those for classes, on the first k of some columns, for several k: see `refit_nested`.

    Parameters
    ----------
    run : Run
    columns : ndarray of shape (n_columns,), int64
    sizes : sequence of int
    loss : str
        Any loss; see `FITTED_INSTEAD`. The multinomial loss is fitted if that is affordable.
    ridge : float, optional
        By default chosen from the data.
    classes : ndarray of shape (n_classes,), optional
        Values of the target, if known.
    has_l1, tolerance : bool, float
        See `MeanLoss`.
    free : ndarray of int64, optional
        Those of the columns that have no penalty: see `refit_selected`.
    """
    is_free = None if free is None or not len(free) else np.isin(columns, free)
    if not find_loss(loss).is_classifier:
        classes = None
    elif classes is None:
        y, weight = run.matrix.read_target(slice(None)), run.matrix.read_weight(slice(None))
        y = as_vector(y)
        classes = classes_of(y if weight is None else y[weight > 0.0], None, many=True)
    several = 0 if classes is None or has_l1 or not find_loss(loss).has_classes else len(classes)
    if classes is not None and several > 2 and is_affordable(run.matrix.shape[0], max(sizes), several):
        asked = MeanLoss(loss, ridge=ridge, tolerance=tolerance)
        return [ClassFits(loss, one, classes) for one in refit_classes(run, columns, sizes, asked, classes, is_free)]
    loss, positives, of_classes = FITTED_INSTEAD.get(loss, loss), list[float | None]([None]), []
    if classes is not None:
        positives = [float(label) for label in (classes[1:] if len(classes) == 2 else classes)]
    with run.reported("refit", len(positives)) as advance:
        for positive in positives:
            asked = MeanLoss(loss, positive, ridge=ridge, has_l1=has_l1, tolerance=tolerance)
            of_classes.append(refit_nested(run, columns, sizes, asked, free=is_free))
            advance()
    return [ClassFits(loss, list(fits), classes) for fits in zip(*of_classes, strict=True)]


def refit_classes(
    run: Run,
    columns: np.ndarray,
    sizes: Sequence[int],
    mean_loss: MeanLoss,
    classes: np.ndarray,
    free: np.ndarray | None = None,
) -> list[list[SelectedFit]]:
    """Fit all classes together on the first k of some columns, for each of several sizes k.

    Parameters
    ----------
    run, columns, sizes, free : see `daskfs.selectors.shared.refit.refit_nested`
    mean_loss : MeanLoss
        Its loss is "multinomial", without an l1 penalty.
    classes : ndarray of shape (n_classes,)
        Values of the target, ascending.

    Returns
    -------
    list of list of SelectedFit
        For each size the fits of the classes, whose coefficients have sum 0. They have the ridge in common, and each
        has the mean loss of all.
    """
    with run.timed("refit"):
        blocks = SelectedBlocks(run, np.asarray(columns, dtype=np.int64), free)
        return [_of_size(blocks.first(k), mean_loss, classes, run.matrix.shape[1]) for k in sizes]


def _of_size(blocks: SelectedBlocks, mean_loss: MeanLoss, classes: np.ndarray, n_candidates: int) -> list[SelectedFit]:
    """Return the fit of all columns of the blocks."""
    total, _, centre, scale = blocks.moments(None)
    together, n, width = ClassBlocks(blocks, classes), len(classes) - 1, len(scale) + 1
    model = Model(mean_loss.loss, None, 0.0, np.zeros(n * width), centre, scale)
    model = replace(model, solution=together.without_columns(model, total))
    null = together.terms(model, total)
    curvature = float(np.diag(null.hessian)[::width].mean())
    n_columns = width - 1 - blocks.n_free
    effort = Effort(total, n_columns, n_candidates, n_free=n - 1 + n * blocks.n_free)
    found = minimum_of(together, model, null, null.value, curvature, effort, mean_loss)
    coef = together.contrasts @ found.descent.model.solution.reshape(n, width)
    slopes = np.divide(coef[:, 1:], scale, out=np.zeros((len(classes), len(scale))), where=scale > 0.0)
    intercepts = coef[:, 0] - slopes @ centre
    n_dependent = int((scale > 0.0).sum()) + 1 - found.rank // n
    common = found.descent.mean, scale, n_dependent, found.is_separable, found.descent.n_steps, found.ridge
    return [
        SelectedFit(slope, float(intercept), *common)
        for slope, intercept in zip(slopes, intercepts - intercepts.mean(), strict=True)
    ]
