"""Computations on one subset: choose features, fit given features, evaluate derivatives of the loss.

Workers import this file, so it is light: numpy and the kernels, and scikit-learn only if a user passes an estimator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.blocks.distinct_rows import merge_rows
from daskfs.kernels.glm.fit import glm_fit, newton_terms
from daskfs.kernels.glm.lsa import lsa_path
from daskfs.kernels.glm.path import glm_path
from daskfs.kernels.glm.softmax import softmax_fit, softmax_terms
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.group_lasso.path import group_path
from daskfs.kernels.lasso.path import lasso_path
from daskfs.kernels.lasso.result import LassoPath
from daskfs.kernels.linear.correlations import correlations
from daskfs.kernels.linear.linalg import MIN_PIVOT
from daskfs.kernels.linear.moments import Moments, moments
from daskfs.losses import find_loss
from daskfs.selectors.message.choices import (
    Ballots,
    Choices,
    NormalEquations,
    PathTable,
    SelectionSettings,
    VisitedMoments,
    is_constant,
    of_one_subset,
)
from daskfs.selectors.message.estimator import chosen_by_estimator
from daskfs.selectors.shared.record import Record


def choose(
    X: np.ndarray | ColumnEntries,
    y: np.ndarray,
    weight: np.ndarray,
    settings: SelectionSettings,
    is_first: bool,
    column_weight: np.ndarray | None = None,
) -> Choices | None:
    """Return the choice of one subset, with its path if it is the first; None if X is not finite.

    The target is coded as the loss needs it: -1 and 1 for two classes, 0, 1, ... for several. Columns have weights if
    the selector's `weighs_columns` is true.
    """
    if settings.estimator is not None:
        return chosen_by_estimator(X, y, weight, settings)
    if not settings.record.is_quadratic:
        X, y, weight = merge_rows(X, y, weight)
    least = settings.least_penalty(float(weight.sum()), settings.n_candidates(X.shape[1]))
    choices = []
    for c, (its_y, its_settings) in enumerate(by_class(y, settings)):
        # the longest path that any number of subsets needs
        path = _path(X, its_y, weight, its_settings, least, column_weight)
        if np.isnan(path.moments.scale).any():
            return None
        choices.append(choice_on_path(path, its_y, weight, its_settings, is_first and c == 0))
    return joined_classes(choices, settings)


def choice_on_path(
    path: LassoPath, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings, is_first: bool
) -> Choices:
    """Return what a subset chooses on its path, which was computed with the least penalty."""
    m = path.moments
    total, n_candidates = float(weight.sum()), settings.n_candidates(len(m.scale))
    penalty, least = settings.penalty(total, n_candidates), settings.least_penalty(total, n_candidates)
    location = m.y_mean if path.fit_is == "rss" else float((weight * y).sum() / weight.sum())
    if find_loss(path.loss).threshold and len(path.lambdas):  # of the Huber loss
        location = float(path.centred_intercepts[0])
    size = path.df if path.groups is None else path.n_units
    steps = best_steps(size, path.gic, penalty, least) if penalty > least else [(least, path.best)]
    null = settings.record.null_intercept(location)
    models = [(path.selected(step), step) for _, step in steps]
    return of_one_subset(
        m,
        location,
        Ballots(
            of_class=np.zeros(len(steps), dtype=np.int64),
            abstains=np.full(len(steps), is_constant(y, weight)),
            least_penalty=np.array([low for low, _ in steps]),
            intercept=np.array([path.intercept(step) if len(selected) else null for selected, step in models]),
            n_selected=np.array([len(selected) for selected, _ in models]),
            selected=np.concatenate([selected for selected, _ in models]),
            coef=np.concatenate(
                [path.coefficients(step)[selected] if len(selected) else np.empty(0) for selected, step in models]
            ),
        ),
        n_unsolved=path.n_unsolved,
        n_separable=0 if settings.approx is not None else path.n_separable,
        visited=None if path.gram is None else VisitedMoments.of(path),
        paths=(PathTable.of(path, penalty - least),) if is_first else (),
    )


def best_steps(df: np.ndarray, gic: np.ndarray, penalty: float, least: float) -> list[tuple[float, int]]:
    """Return the steps of a path that are best for some penalty from `penalty` down to `least`.

    `gic` was computed with `least`. Each step comes with the smallest penalty for which it is best. The steps are the
    vertices of the lower convex hull of the fit as a function of the number of features.

    Examples
    --------
    >>> df, fit = np.array([0, 1, 2, 3]), np.array([100.0, 40.0, 30.0, 29.0])
    >>> best_steps(df, fit + 5.0 * df, penalty=20.0, least=5.0)
    [(10.0, 1), (5.0, 2)]
    """
    if not len(gic):
        return [(least, -1)]
    fit = gic - least * df
    found: list[tuple[float, int]] = []
    step = int(np.argmin(fit + penalty * df))
    while True:
        larger = np.flatnonzero(df > df[step])
        # the penalty at which a larger model is equally good
        equal = (fit[step] - fit[larger]) / (df[larger] - df[step])
        if not len(larger) or not equal.max() > least:
            return [*found, (least, step)]
        found.append((float(equal.max()), step))
        step = int(larger[np.argmax(equal)])


def _path(
    X: Any,
    y: np.ndarray,
    weight: np.ndarray,
    settings: SelectionSettings,
    penalty: float,
    column_weight: np.ndarray | None,
) -> LassoPath:
    total = float(weight.sum())
    free = np.array(settings.always, dtype=np.int64)
    options = {**settings.of_path(total, X.shape[1]), "penalty": penalty, "free": free}
    if settings.groups is not None:
        del options["penalty"]
        of_column, max_columns = settings.per_column(total), options.pop("max_features")
        how = {"loss": settings.loss, "threshold": settings.threshold, "tol": settings.tol, "max_columns": max_columns}
        how |= {"max_cached": settings.max_cached}
        of_group = penalty - of_column
        return group_path(X, y, weight, settings.groups, per_column=of_column, per_group=of_group, **how, **options)
    if settings.record.is_quadratic:
        return lasso_path(X, y, weight, column_weight=column_weight, max_cached=settings.max_cached, **options)
    options |= {"loss": settings.loss, "threshold": settings.threshold}
    if settings.approx == "lsa":
        return lsa_path(X, y, weight, **options)  # type: ignore[arg-type]
    return glm_path(X, y, weight, tol=settings.tol, column_weight=column_weight, **options)


def by_class(y: np.ndarray, settings: SelectionSettings) -> list[tuple[np.ndarray, SelectionSettings]]:
    """Return target and settings of the choices of one subset; with several classes, each against all others."""
    if not settings.record.has_classes:
        return [(y, settings)]
    two = replace(settings, loss="logistic", classes=())
    return [(np.where(y == c, 1.0, -1.0), two) for c in range(len(settings.classes))]


def joined_classes(choices: list[Choices], settings: SelectionSettings) -> Choices:
    """Return the choices of one subset, for each class against all others, as one."""
    if not settings.record.has_classes:
        return choices[0]
    choices = [
        replace(choice, ballots=replace(choice.ballots, of_class=np.full(choice.n_ballots, c)))
        for c, choice in enumerate(choices)
    ]
    every = Choices.joined(choices)
    return replace(
        choices[0],
        ballots=every.ballots,
        n_ballots=every.n_ballots.sum(keepdims=True),
        y_mean=0.5 * (1.0 + every.y_mean[None]),
        n_unsolved=every.n_unsolved.sum(keepdims=True),
        n_separable=every.n_separable.sum(keepdims=True),
    )


@dataclass(frozen=True, slots=True)
class MaximumLikelihood(Record):
    """Fits of another loss to some columns, for several subsets."""

    total: np.ndarray
    """Sum of the weights, shape (n_subsets,)."""
    y_mean: np.ndarray
    """The linear predictor where all columns have their means, shape (n_subsets,) or (n_subsets, n_classes)."""
    mean: np.ndarray
    """Means of the columns, shape (n_subsets, n_columns)."""
    scale: np.ndarray
    coef: np.ndarray
    """Shape (n_subsets, n_columns) or (n_subsets, n_classes, n_columns); NaN for constant columns."""
    is_singular: np.ndarray
    """Whether the columns are linearly dependent, shape (n_subsets,)."""
    is_separable: np.ndarray
    """Whether the likelihood has no maximum, so that a weak ridge bounds the fit.

    The classes, or some of their rows (quasi-complete separation), are then linearly separable.
    """
    is_right: np.ndarray
    """Whether the fit classifies every row correctly, of two classes or more: they are certainly separable."""
    error: np.ndarray | None = None
    """Standard errors of `coef` if they were requested; infinite where there are none."""
    gain: np.ndarray | None = None
    """Wald statistics of groups of the columns, shape (n_subsets, n_groups), if groups were requested."""
    gain_df: np.ndarray | None = None
    """Their degrees of freedom, with the sign of a single coefficient: see `Gain`."""
    dispersion: np.ndarray | None = None
    """Dispersion of the noise, shape (n_subsets,), if the loss does not fix it."""


class Gain(NamedTuple):
    """How much the fits of several subsets gain by each of some groups; both of shape (n_subsets, n_groups)."""

    size: np.ndarray
    """Gain divided by the dispersion, so that noise has a χ² distribution; NaN where a subset has no estimate."""
    df: np.ndarray
    """Degrees of freedom; -1 for a single negative coefficient."""


def refit(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    settings: SelectionSettings,
    with_errors: bool = False,
    asked: ColumnGroups | None = None,
) -> NormalEquations | MaximumLikelihood:
    """Fit the chosen columns on the rows of one subset.

    `with_errors` adds standard errors where they do not follow from the result; `asked` adds the gain of groups of
    columns.
    """
    if settings.record.is_quadratic:
        m = moments(X, y, weight)
        gram = correlations(X, weight, m)
        return NormalEquations(*of_one(m.total, m.y_mean, m.y_variance, m.mean, m.scale, m.cross, gram))
    X, y, weight = merge_rows(X, y, weight)
    fit: Any
    if settings.record.has_classes:
        fit = softmax_fit(X, y, weight, len(settings.classes))
        y_mean, dispersion = fit.centred_intercepts, 1.0
    else:
        fit = glm_fit(X, y, weight, loss=settings.loss, threshold=settings.threshold)
        at_mean = fit.coef * fit.moments.mean
        y_mean, dispersion = fit.intercept + float(np.where(np.isnan(at_mean), 0.0, at_mean).sum()), fit.dispersion
    m = fit.moments
    gain, error = None, None
    if with_errors:
        at = Point(np.where(m.scale > 0.0, fit.coef, 0.0) * m.scale, y_mean, m.mean, m.scale)
        hessian = derivatives(X, y, weight, settings, at).hessian[0]
        gain = None if asked is None else gain_of_groups(hessian, at.coef, asked, dispersion)
        error = standard_errors(hessian, m.scale, dispersion, len(settings.classes))
    is_right = settings.record.is_classifier and fit.is_separable and _is_right(X, y, weight, fit.coef, y_mean, m)
    values = of_one(m.total, y_mean, m.mean, m.scale, fit.coef, fit.is_singular, fit.is_separable, is_right)
    found = MaximumLikelihood(*values)
    if settings.record.threshold:
        found = replace(found, dispersion=np.array([dispersion]))
    if gain is not None:
        found = replace(found, gain=gain.size[None], gain_df=gain.df[None])
    return found if error is None else replace(found, error=error[None])


def _is_right(X: np.ndarray, y: np.ndarray, weight: np.ndarray, coef: np.ndarray, at_mean: Any, m: Moments) -> bool:
    """Return whether a fit to two or more classes classifies every row correctly."""
    predictor = (X - m.mean) @ np.nan_to_num(coef).T + at_mean
    right = np.argmax(predictor, axis=1) == y if predictor.ndim > 1 else predictor * y > 0.0
    return bool(right[weight > 0.0].all()) and not is_constant(y, weight)


def standard_errors(hessian: np.ndarray, scale: np.ndarray, dispersion: float, n_classes: int) -> np.ndarray:
    """Return the standard errors of coefficients, on the scale of the data, from the Hessian of the summed loss.

    Parameters
    ----------
    hessian : ndarray of shape (k, k)
        Laid out as in `Derivatives`.
    scale : ndarray of shape (n_columns,)
        Scale of the columns in which `hessian` is taken; 0 for a column that takes no part.
    dispersion : float
        Variance of the score divided by its derivative; 1 for a likelihood.
    n_classes : int
        0 if each column has one coefficient.

    Returns
    -------
    ndarray of shape (n_columns,), or (n_classes, n_columns) of coefficients of sum 0
        Infinite where there is none.
    """
    varies = np.flatnonzero(scale > 0.0)
    kept, n_free = np.concatenate([[0], 1 + varies]), max(n_classes - 1, 1)
    places = (np.arange(n_free)[:, None] * (1 + len(scale)) + kept).ravel()
    try:
        covariance = np.linalg.inv(hessian[np.ix_(places, places)]).reshape(n_free, len(kept), n_free, len(kept))
    except np.linalg.LinAlgError:
        covariance = np.full((n_free, len(kept), n_free, len(kept)), np.nan)
    centring = np.eye(n_classes, n_free) - 1.0 / n_classes if n_classes else np.ones((1, 1))
    variance = dispersion * np.einsum("ca,aqbq,cb->cq", centring, covariance, centring)[:, 1:]
    error = np.full((len(centring), len(scale)), np.inf)
    error[:, varies] = np.sqrt(np.where(variance > 0.0, variance, np.inf)) / scale[varies]
    return error if n_classes else error[0]


def gain_of_groups(hessian: np.ndarray, coef: np.ndarray, groups: ColumnGroups, dispersion: float) -> Gain:
    """Return the Wald statistics of groups of columns on one subset.

    Parameters
    ----------
    hessian : ndarray
        Laid out as in `Derivatives`.
    coef : ndarray of shape (n_columns,) or (n_classes, n_columns)
        Standardised.
    groups : ColumnGroups
        Groups of some of the columns.
    dispersion : float
    """
    free = coef[None] if coef.ndim == 1 else coef[:-1] - coef[-1]
    n_free, n = free.shape[0], free.shape[1] + 1
    size, df = np.empty(len(groups.bounds) - 1), np.empty(len(groups.bounds) - 1)
    for k, (start, stop) in enumerate(pairwise(groups.bounds.tolist())):
        own = groups.members[start:stop]
        places = (np.arange(n_free)[:, None] * n + 1 + own).ravel()
        others = np.setdiff1d(np.arange(n_free * n), places)
        across = hessian[np.ix_(places, others)]
        left = (
            hessian[np.ix_(places, places)]
            - across @ np.linalg.pinv(hessian[np.ix_(others, others)], rcond=MIN_PIVOT, hermitian=True) @ across.T
        )
        b = free[:, own].ravel()
        size[k] = b @ left @ b / dispersion
        largest = float(np.diagonal(hessian)[places].max(initial=0.0))
        df[k] = int((np.linalg.eigvalsh(0.5 * (left + left.T)) > MIN_PIVOT * largest).sum())
        if len(b) == 1 and b[0] < 0.0:
            df[k] = -df[k]
    return Gain(size, df)


def of_one(*values: Any) -> list[np.ndarray]:
    """Return the values of one subset as arrays with a leading axis of length 1."""
    return [np.asarray(value)[None] for value in values]


@dataclass(frozen=True, slots=True)
class Point:
    """The point of the derivatives: a model of columns centred and scaled the same on every subset."""

    coef: np.ndarray
    """Shape (n_columns,) or (n_classes, n_columns), for the columns ``(x - centre) / scale``."""
    intercept: Any
    """The linear predictor where every column is at its centre."""
    centre: np.ndarray
    scale: np.ndarray


@dataclass(frozen=True, slots=True)
class Derivatives(Record):
    """Derivatives of the summed loss of several subsets, in the intercept and the coefficients of standardised columns.

    With the multinomial loss, in those of all classes but the last, one class after the other.
    """

    gradient: np.ndarray
    """Shape (n_subsets, 1 + n_columns)."""
    hessian: np.ndarray
    """Shape (n_subsets, 1 + n_columns, 1 + n_columns)."""


def derivatives(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings, point: Point
) -> Derivatives:
    """Return gradient and Hessian of the summed loss of one subset at a point."""
    if settings.record.has_classes:
        at = np.column_stack([point.intercept, point.coef])
        softmax = softmax_terms(X, y, weight, at[:-1] - at[-1], point.centre, point.scale)
        return Derivatives(softmax.gradient[None], softmax.hessian[None])
    terms = newton_terms(
        X,
        y,
        weight,
        loss=settings.loss,
        coef=point.coef,
        intercept=point.intercept,
        centre=point.centre,
        scale=point.scale,
        threshold=settings.threshold,
    )
    return Derivatives(terms.gradient[None], terms.hessian[None])
