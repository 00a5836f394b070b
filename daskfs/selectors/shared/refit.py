"""The refit: a fit of the loss on the selected columns of all rows, with a small ridge.

It uses Newton's method: value, gradient and Hessian of the loss are summed over blocks of rows. Only the selected
columns are read. They are kept in memory if they fit, otherwise the tasks read them again for each step.

The ridge is chosen from the data unless given (`MeanLoss.ridge`); see `daskfs.selectors.shared.ridge`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from daskfs.kernels.glm.newton import LONGEST_LAST_STEP, weak_ridge
from daskfs.kernels.linear.linalg import MIN_PIVOT, factorise, solve_cholesky
from daskfs.kernels.losses import threshold_of
from daskfs.losses import find_loss
from daskfs.matrix.blocks import as_vector
from daskfs.selectors.shared.class_blocks import ClassBlocks
from daskfs.selectors.shared.elastic_net import QuadraticApproximation, best_l1
from daskfs.selectors.shared.refit_on_block import Model
from daskfs.selectors.shared.ridge import Effort
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.selected_blocks import SelectedBlocks, Terms

MAX_STEPS, MAX_HALVINGS = 50, 30
TOLERANCE = 1e-10  # gain of a step relative to the loss without features; the remaining error is its square
LADDER = 10.0
"""Ratio of the ridges by which a fit without a finite minimum comes near the weak ridge that bounds it."""
ROUGH = (1e-2, 1e-4, 1e-4)  # tolerances during the choice of the ridge, successively smaller
JUDGED = 1e-4  # tolerance of fits that are only evaluated on held-out rows
LOOKS = 3  # number of approximations of a loss other than the squared one
# share of the curvature; without it, components with almost no variance had coefficients of 10⁵
LEAST_RIDGE_OF_MAP = 1e-5
NEGLIGIBLE = 1e-6  # share of the loss without features below which classes count as linearly separable


@dataclass(frozen=True, slots=True)
class SelectedFit:
    """A fit of some columns."""

    coef: np.ndarray
    """Shape (n_columns,), on the scale of the data; 0 for constant columns and those that depend on earlier ones."""
    intercept: float
    mean_loss: float
    """Weighted mean of the loss over the rows, without the ridge."""
    scale: np.ndarray
    """Weighted standard deviations of the columns, shape (n_columns,)."""
    n_dependent: int
    """Number of columns that depend on earlier ones; with a ridge they share the coefficient."""
    is_separable: bool
    """Whether there was no finite minimum (classes are linearly separable), so that a weak ridge bounds the fit."""
    n_steps: int
    ridge: float
    """The ridge of the fit: given, chosen, or the weak one that bounds it."""
    l1: float = 0.0
    """The l1 penalty in addition to the ridge, see `MeanLoss.has_l1`."""


@dataclass(frozen=True, slots=True)
class MeanLoss:
    """The objective: the mean loss of the rows plus ``½ ridge Σ b²``, b the coefficients of standardised columns."""

    loss: str = "squared"
    """One of "squared", "logistic", "poisson", "huber" and "squared_hinge"; for all classes together "multinomial"."""
    positive: float | None = None
    """With a loss of two classes: the target's value for the class that counts as +1."""
    threshold: float | None = None
    """Threshold of the Huber loss; by default 1.345 robust standard deviations of the target."""
    ridge: float | None = None
    """0: least squares, or the loss's own minimum. None: chosen from the data, and smaller with more rows."""
    has_l1: bool = False
    """Whether to add ``l1 Σ |b|``, chosen by the held-out loss: `daskfs.selectors.shared.elastic_net`."""
    tolerance: float = TOLERANCE
    """Tolerance: the gain of the last step relative to the loss without columns."""


def refit_selected(
    run: Run,
    columns: np.ndarray,
    mean_loss: MeanLoss = MeanLoss(),
    n_candidates: int | None = None,
    scale_of_map: np.ndarray | None = None,
    free: np.ndarray | None = None,
) -> SelectedFit:
    """Fit the target on some columns of a matrix, with an intercept.

    Parameters
    ----------
    run : Run
        Over a matrix with its target, and its weights if any. The selected columns are kept in memory up to half of a
        task's memory (at most 128 MiB), and otherwise read by the run's tasks.
    columns : ndarray of shape (n_columns,), int64
        In any order; `coef` has the same order.
    mean_loss : MeanLoss
    n_candidates : int, optional
        Number of columns from which these were selected, for the choice of the ridge. By default that of the matrix.
    scale_of_map : ndarray of shape (n_columns,), optional
        If a map makes several columns from one, their common scale. On this scale every coefficient has a small ridge,
        because a component that varies in only a few rows is otherwise not determined.
    free : ndarray of shape (n_columns,), bool, optional
        Columns that were not selected by a search; like the intercept, they have no penalty.

    Returns
    -------
    SelectedFit

    Raises
    ------
    DataError
        NaN or infinity in a selected column.
    """
    return refit_nested(run, columns, [len(columns)], mean_loss, n_candidates, scale_of_map, free)[0]


def refit_nested(
    run: Run,
    columns: np.ndarray,
    sizes: Sequence[int],
    mean_loss: MeanLoss = MeanLoss(),
    n_candidates: int | None = None,
    scale_of_map: np.ndarray | None = None,
    free: np.ndarray | None = None,
) -> list[SelectedFit]:
    """Fit the target on the first k of some columns, for each of several sizes k: see `refit_selected`.

    With the squared loss, the sums over the rows are computed once for all columns.
    """
    with run.timed("refit"):
        blocks = SelectedBlocks(run, np.asarray(columns, dtype=np.int64), free)
        n_candidates = run.matrix.shape[1] if n_candidates is None else n_candidates
        return refit_on_blocks(blocks, sizes, mean_loss, n_candidates, scale_of_map)


class Begun(NamedTuple):
    """A fit of some columns near the fit of these, or of more of them; a warm start."""

    coef: np.ndarray
    """Shape (n_columns,), on the scale of the data."""
    intercept: float
    ridge: float | None = None
    """Ridge of the fit, if known."""


def refit_on_blocks(
    blocks: SelectedBlocks,
    sizes: Sequence[int],
    mean_loss: MeanLoss,
    n_candidates: int,
    scale_of_map: np.ndarray | None = None,
    begun: Begun | None = None,
) -> list[SelectedFit]:
    """Fit the target on the first k columns of blocks, for each of several sizes k: see `refit_nested`.

    Parameters
    ----------
    blocks : SelectedBlocks
    sizes, mean_loss, n_candidates, scale_of_map : see `refit_nested`
    begun : Begun, optional
        Warm start; by default the model without columns. Has no effect with the squared loss.
    """
    loss = find_loss(mean_loss.loss)
    total, location, centre, scale = blocks.moments(mean_loss.positive)
    start = np.zeros(len(scale) + 1)
    start[0] = _finite(loss.null_intercept(location), total)
    model = Model(loss.name, mean_loss.positive, threshold_on(blocks.run, mean_loss), start, centre, scale)
    if scale_of_map is not None:
        curvature = min(loss.curvature_bound, 1.0)
        share = np.divide(scale_of_map, scale, out=np.zeros(len(scale)), where=scale > 0.0)
        blocks.penalty[1:] = LEAST_RIDGE_OF_MAP * curvature * share**2
    if not loss.is_quadratic:
        blocks.lay_out(centre, scale)
    known = None if loss.is_quadratic else begun
    null = blocks.terms(model, total) if known is None else blocks.first(0).terms(_first(model, 0), total)
    fits = []
    for k in sizes:
        some, at = blocks.first(k), _first(model, k)
        if known is None:
            begin = _Start(at, null.first(k))
        else:
            at = _moved(at, known)
            begin = _Start(at, some.terms(at, total), True, known.ridge)
        effort = Effort(total, k - some.n_free, n_candidates, n_free=some.n_free)
        fit = _refit_at(some, begin, null, effort, mean_loss)
        fits.append(fit)
        if not loss.is_quadratic:  # nearer than the model without columns
            known = None if fit.is_separable else Begun(fit.coef, fit.intercept, fit.ridge)
    return fits


def _first(model: Model, k: int) -> Model:
    """Return the model of the first k columns."""
    return replace(model, solution=model.solution[: k + 1], centre=model.centre[:k], scale=model.scale[:k])


def _moved(model: Model, begun: Begun) -> Model:
    """Return the model with the coefficients of a known fit, and 0 for columns that it does not have."""
    k, solution = len(begun.coef), np.zeros(len(model.solution))
    solution[0] = begun.intercept + float((begun.coef * model.centre[:k]).sum())
    solution[1 : k + 1] = begun.coef * model.scale[:k]
    return replace(model, solution=solution)


class _Start(NamedTuple):
    """A point, and the terms there."""

    model: Model
    terms: Terms
    is_near: bool = False
    """Whether the point is near a known fit."""
    ridge: float | None = None
    """Ridge of that fit."""


def _refit_at(blocks: SelectedBlocks, start: _Start, null: Terms, effort: Effort, asked: MeanLoss) -> SelectedFit:
    """Return the minimum; `null` has the terms without columns."""
    scale, centre, near, l1 = start.model.scale, start.model.centre, start.ridge, 0.0
    if asked.ridge is None and start.is_near and near is None:
        most = effort.largest_ridge(float(null.hessian[0, 0]))
        near = effort.best_ridge(*start.terms, start.model.solution, most, start.model.loss, blocks.is_free)
    found = minimum_of(blocks, start.model, start.terms, null.value, float(null.hessian[0, 0]), effort, asked, near)
    fit = found.descent
    if asked.has_l1 and not found.is_separable:
        fit, l1 = _with_l1(blocks, fit, effort.total, found.ridge)
    solution = fit.model.solution
    n_dependent = int((scale > 0.0).sum()) + 1 - found.rank
    coef = np.divide(solution[1:], scale, out=np.zeros(len(scale)), where=scale > 0.0)
    intercept = float(solution[0] - (coef * centre).sum())
    mean = fit.mean + blocks.least_loss(asked.loss)
    return SelectedFit(coef, intercept, mean, scale, n_dependent, found.is_separable, fit.n_steps, found.ridge, l1)


class Minimum(NamedTuple):
    """The minimum of the loss, with a ridge that is given, chosen, or bounds the fit."""

    descent: _Descent
    ridge: float
    is_separable: bool
    """Whether there is no finite minimum without the ridge."""
    rank: int
    """Rank of the Hessian at the start."""


def minimum_of(
    blocks: SelectedBlocks | ClassBlocks,
    model: Model,
    terms: Terms,
    null: float,
    curvature: float,
    effort: Effort,
    asked: MeanLoss,
    near: float | None = None,
) -> Minimum:
    """Return the minimum of the loss from a start.

    Parameters
    ----------
    blocks : SelectedBlocks or ClassBlocks
    model, terms : Model, Terms
        The start, and the terms there.
    null : float
        The loss without columns.
    curvature : float
        That of the loss without columns, in an intercept.
    effort : Effort
    asked : MeanLoss
        Its ridge and its tolerance.
    near : float, optional
        The ridge of a fit that the start is near to.
    """
    is_chosen, ridge, total = asked.ridge is None, asked.ridge or 0.0, effort.total
    if is_chosen:
        most = effort.largest_ridge(curvature)
        begun = most if near is None else min(near, most)
        model, terms, ridge = _with_ridge(blocks, model, terms, effort, begun, most, null)
    least_gain = asked.tolerance * null
    is_bounded = is_chosen and ridge > 0.0 and not blocks.n_free
    fit = _descend(blocks, model, terms, total, ridge, is_bounded, null, least_gain)
    is_separable = fit is None
    if fit is None:  # no finite minimum
        ridge, blocks = max(ridge, weak_ridge(total)), blocks.bounded(weak_ridge(total))
        terms = blocks.terms(model, total) if blocks.n_free else terms
        larger = effort.largest_ridge(curvature)
        while larger > LADDER * ridge:  # from far away, Newton's steps hardly come near the minimum
            rough = _descend(blocks, model, terms, total, larger, True, null, ROUGH[0] * null)
            assert rough is not None
            model, terms, larger = rough.before, rough.terms, larger / LADDER
        fit = _descend(blocks, model, terms, total, ridge, True, null, least_gain)
    assert fit is not None
    return Minimum(fit, ridge, is_separable, int(np.count_nonzero(np.diag(_factor_of(terms.hessian)))))


def _with_l1(blocks: SelectedBlocks, fit: _Descent, total: float, ridge: float) -> tuple[_Descent, float]:
    """Return the fit with the ridge and the l1 penalty that predicts held-out rows best, and that penalty."""
    model, terms = fit.before, fit.terms
    l1 = best_l1(blocks.terms_of_folds(model), model.solution, ridge, blocks.is_free)
    for _ in range(LOOKS if l1 else 0):
        quadratic = QuadraticApproximation.at(model.solution, terms.gradient, terms.hessian, blocks.is_free)
        solution = quadratic.minimum(ridge, l1, fit.model.solution[~blocks.is_free])
        step = solution - model.solution
        mean = terms.value + float(terms.gradient @ step + 0.5 * step @ terms.hessian @ step)
        model = replace(model, solution=solution)
        fit = fit._replace(model=model, mean=max(mean, 0.0), n_steps=fit.n_steps + 1)
        if find_loss(model.loss).is_quadratic:
            break
        terms = blocks.terms(model, total)
    return fit, l1


def threshold_on(run: Run, mean_loss: MeanLoss) -> float:
    """Return the threshold of the Huber loss, by default for the target of a run; 0 for other losses."""
    loss = find_loss(mean_loss.loss)
    if mean_loss.threshold is not None or not loss.threshold:
        return float(mean_loss.threshold or 0.0)
    y, weight = as_vector(run.matrix.read_target(slice(None))), run.matrix.read_weight(slice(None))
    return threshold_of(loss, None, y, None if weight is None else as_vector(weight))


def model_of(blocks: SelectedBlocks, mean_loss: MeanLoss, fit: SelectedFit) -> tuple[Model, float]:
    """Return a fit as the model of the blocks that it was made on, and the sum of their weights."""
    total, _, centre, scale = blocks.moments(mean_loss.positive)
    solution = np.concatenate([[fit.intercept + float((fit.coef * centre).sum())], fit.coef * scale])
    threshold = threshold_on(blocks.run, mean_loss)
    return Model(mean_loss.loss, mean_loss.positive, threshold, solution, centre, scale), total


def _with_ridge(
    blocks: SelectedBlocks | ClassBlocks,
    model: Model,
    terms: Terms,
    effort: Effort,
    begun: float,
    most: float,
    null: float,
) -> tuple[Model, Terms, float]:
    """Return the ridge chosen from the data, at most `most`, and a point near its minimum with the terms there."""
    if find_loss(model.loss).is_quadratic:  # its terms at one point are sufficient
        return model, terms, effort.best_ridge(*terms, model.solution, most, model.loss, blocks.is_free)
    ridge = begun
    for near in ROUGH:  # the nearer the point, the better the approximation
        end = _descend(blocks, model, terms, effort.total, ridge, True, null, near * null)
        assert end is not None  # a bounded objective has a minimum
        model, terms = end.before, end.terms
        before, ridge = ridge, effort.best_ridge(*terms, model.solution, most, model.loss, blocks.is_free)
        if ridge == before and near == ROUGH[-1]:
            break
    return model, terms, ridge


class _Descent(NamedTuple):
    """The end of Newton's method."""

    model: Model
    before: Model
    """The point before the last step."""
    terms: Terms
    """Terms at that point."""
    mean: float
    """Mean loss, without the ridge."""
    n_steps: int


def _descend(
    blocks: SelectedBlocks | ClassBlocks,
    model: Model,
    plain: Terms,
    total: float,
    ridge: float,
    is_bounded: bool,
    null: float,
    least_gain: float,
) -> _Descent | None:
    """Return the minimum; None if there is no finite one. `null` is the loss without columns.

    The last step is the one that gains at most `least_gain`.

    This is separate from `daskfs.kernels.glm.newton.newton`, where rows are in memory: here each evaluation is a pass
    over all rows that gives value, gradient and Hessian together. So no factor is reused, and a step is halved by its
    value.
    """
    terms, loss = plain.with_penalty(model.solution, blocks.penalties(ridge)), find_loss(model.loss)
    step = np.zeros(len(terms.gradient))
    value, end, n_steps, may_be_infinite = terms.value, model, 0, loss.can_separate and not is_bounded
    while n_steps < MAX_STEPS:
        n_steps += 1
        factor = _factor_of(terms.hessian)
        gain = solve_cholesky(factor, len(factor), -terms.gradient, step)
        is_short, is_long = gain <= least_gain, np.abs(step).max() > LONGEST_LAST_STEP
        if may_be_infinite and ((is_short and is_long) or value < NEGLIGIBLE * null):
            return None
        if is_short or loss.is_quadratic:
            value -= 0.5 * gain
            end = replace(model, solution=model.solution + step)
            break
        moved = _shortened(blocks, model, step, terms.value, total, ridge)
        if moved is None:  # rounding hides what the step gains, or the Hessian is that of separated classes
            if may_be_infinite and is_long:
                return None
            break
        model, plain, terms = moved
        value, end = terms.value, model
    else:
        if may_be_infinite:
            return None
    penalty = 0.5 * float(((blocks.penalties(ridge) + blocks.penalty)[1:] * end.solution[1:] ** 2).sum())
    return _Descent(end, model, plain, max(value - penalty, 0.0), n_steps)


def _factor_of(hessian: np.ndarray) -> np.ndarray:
    """Return LAPACK's Cholesky factor; if columns depend on others, the one of `factorise`, which leaves them out."""
    with suppress(np.linalg.LinAlgError):
        factor = np.linalg.cholesky(hessian)
        if (np.diag(factor) ** 2 > MIN_PIVOT * np.diag(hessian)).all():
            return factor
    factor = np.zeros_like(hessian)
    factorise(hessian, len(factor), 0.0, factor)
    return factor


def _shortened(
    blocks: SelectedBlocks | ClassBlocks, model: Model, step: np.ndarray, value: float, total: float, ridge: float
) -> tuple[Model, Terms, Terms] | None:
    """Take the step, or halve it until the objective does not rise; None if it always does."""
    length = 1.0
    for _ in range(MAX_HALVINGS):
        moved = replace(model, solution=model.solution + length * step)
        plain = blocks.terms(moved, total)
        terms = plain.with_penalty(moved.solution, blocks.penalties(ridge))
        if terms.value <= value:
            return moved, plain, terms
        length *= 0.5
    return None


def _finite(intercept: float, total: float) -> float:
    """Return the intercept; if there is only one class or no count, that with half a row of the contrary added."""
    return intercept if math.isfinite(intercept) else math.copysign(math.log(2.0 * total + 1.0), intercept)
