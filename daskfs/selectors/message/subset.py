"""Computations on one subset: select features, fit given features, evaluate derivatives of the loss.

Workers import this file, so it is light: numpy and the kernels, and scikit-learn only if a user passes an estimator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from daskfs.kernels.blocks.any_block import block_moments
from daskfs.kernels.blocks.column_entries import ColumnEntries, dense_block
from daskfs.kernels.blocks.distinct_rows import merge_rows
from daskfs.kernels.glm.fit import glm_fit, newton_terms
from daskfs.kernels.glm.lsa import lsa_path
from daskfs.kernels.glm.path import GlmPath, glm_path
from daskfs.kernels.glm.softmax import softmax_fit, softmax_terms
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.group_lasso.path import GroupPath, group_path
from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.kernels.lasso.path import LassoPath, lasso_path
from daskfs.kernels.linear.linalg import MIN_PIVOT
from daskfs.kernels.linear.moments import Moments, gram_rows, moments
from daskfs.losses import Loss, find_loss
from daskfs.selectors.shared.record import Record

AnyPath: TypeAlias = LassoPath | GlmPath | GroupPath


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSettings:
    """How a subset selects: the parameters of `Message` under their own names, and the coding of the target."""

    criterion: str = "vote"
    gamma: float = 0.5
    gic_penalty: float | None = None
    sigma2: float | None = None
    gic_rss: str = "refit"
    approx: str | None = None
    estimator: Any = None
    n_lambdas: int = 100
    patience: int | None = 10
    max_features: int | None = None
    loss: str = "squared"
    n_subsets: int = 1
    """Number of subsets that vote together."""
    positive: float | None = None
    """With two classes: the target's value for the class whose odds are modelled."""
    classes: tuple[float, ...] = ()
    """With the multinomial loss: the target's values in the order of the classes."""
    threshold: float = 0.0
    """Threshold of the Huber loss."""
    tol: float = 1e-6
    """Tolerance of a path's coefficients for other losses than squared; smaller if the path is not refitted."""
    groups: ColumnGroups | None = None
    """Columns that enter a model together. If given, the groups are the candidates instead of the columns."""
    always: tuple[int, ...] = ()
    """Columns, or groups if `groups` is given, that are in every model and are not candidates; ascending."""

    @property
    def record(self) -> Loss:
        """The declared properties of the loss."""
        return find_loss(self.loss)

    def n_candidates(self, n_features: int) -> int:
        """Return the number of features, or groups, to choose from."""
        return n_features if self.groups is None else len(self.groups.bounds) - 1

    def penalty(self, total: float, n_features: int) -> float:
        """Return λ of the criterion on rows of this total weight; `n_features` counts those always included too."""
        if self.gic_penalty is not None:
            return self.gic_penalty
        n_candidates = n_features - len(self.always)
        return feature_penalty(self.criterion, total, n_candidates, self.gamma, self.n_subsets)

    def least_penalty(self, total: float, n_features: int) -> float:
        """Return the smallest λ if any number of subsets may still join the vote."""
        if self.gic_penalty is not None or self.criterion != "vote":
            return self.penalty(total, n_features)
        return feature_penalty("bic", total, n_features)

    def per_column(self, total: float) -> float:
        """Return the cost of each further degree of freedom of a group; `penalty` is the cost of the first.

        With bic and ebic it is that of a column with bic. With vote and ric it is 2, as in AIC, so that a noise group
        is chosen about as seldom as a noise column: P(χ²_r > λ + 2 (r - 1)) is about P(χ²_1 > λ).
        """
        if self.gic_penalty is not None:
            return self.gic_penalty
        return 2.0 if self.criterion in ("vote", "ric") else feature_penalty("bic", total, 1)

    def of_path(self, total: float, n_features: int) -> dict[str, Any]:
        """Return the options of every path on rows of this total weight: λ of the criterion, and when to stop."""
        names = ("sigma2", "gic_rss", "n_lambdas", "patience", "max_features")
        return {"penalty": self.penalty(total, n_features)} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Ballot(Record):
    """The model that a subset chooses; with several classes, that for one class against the others."""

    selected: np.ndarray
    """Columns, ascending, int64."""
    coef: np.ndarray
    """Coefficients of these columns on the scale of the data, as shrunk by the path."""
    intercept: float
    abstains: bool
    """Whether the target is constant on the subset (one class, for example), so that there is nothing to learn."""
    least_penalty: float = 0.0
    """The smallest λ for which the subset chooses this model."""
    of_class: int = 0


@dataclass(frozen=True, slots=True)
class PathTable(Record):
    """The points of a path, one row for each λ."""

    lambdas: np.ndarray
    df: np.ndarray
    fit: np.ndarray
    fit_is: str
    """``rss`` or ``deviance``."""
    gic: np.ndarray
    """With the penalty the path was computed with."""
    more: float
    """How much larger the penalty per feature, or group, is than the one the path was computed with."""
    n_groups: np.ndarray | None = None

    @classmethod
    def of(cls, path: AnyPath, more: float = 0.0) -> PathTable:
        """Return the table of a path."""
        if isinstance(path, GroupPath):
            fit_is = "rss" if find_loss(path.loss).is_quadratic else "deviance"
            return cls(path.lambdas, path.df, path.fit, fit_is, path.gic, more, path.n_groups)
        fit, fit_is = (path.rss, "rss") if isinstance(path, LassoPath) else (path.deviance, "deviance")
        return cls(path.lambdas, path.df, fit, fit_is, path.gic, more)

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of a result's history."""
        gic = self.gic + self.more * (self.df if self.n_groups is None else self.n_groups)
        chosen = np.arange(len(gic)) == (np.argmin(gic) if len(gic) else -1)
        n_groups = {} if self.n_groups is None else {"groups": self.n_groups}
        table = {"lambda": self.lambdas, "df": self.df, **n_groups, self.fit_is: self.fit}
        return {**table, "gic": gic, "chosen": chosen}


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


@dataclass(frozen=True, slots=True)
class PathMoments(Record):
    """Moments and correlations of the features that a squared-loss path visited, for the refit."""

    features: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    cross: np.ndarray
    """Products of the standardised features with the target."""
    gram_below: np.ndarray
    """Correlations below the diagonal, row by row."""
    y_variance: float

    @classmethod
    def of(cls, path: LassoPath | GroupPath) -> PathMoments:
        """Return the moments that a path cached."""
        cache = path.gram
        assert cache is not None  # the squared loss always has a cache
        below = cache.gram[_below_diagonal(len(cache.features))]
        return cls(cache.features, cache.mean, cache.scale, cache.cross, below, path.moments.y_variance)

    def gram(self) -> np.ndarray:
        """Return the correlations as a matrix."""
        gram = np.eye(len(self.features))
        q, r = _below_diagonal(len(self.features))
        gram[q, r] = gram[r, q] = self.gram_below
        return gram


@lru_cache
def _below_diagonal(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.tril_indices(n, -1)


@dataclass(frozen=True, slots=True)
class SubsetChoice(Record):
    """What one subset chooses, and the moments that it caches for the refit."""

    ballots: tuple[Ballot, ...]
    """One ballot, or one for each class."""
    with_less: tuple[Ballot, ...]
    """The ballots for smaller penalties, by falling λ: more subsets may still join the vote."""
    total: float
    """Sum of the weights."""
    y_mean: np.ndarray
    """Mean of the target, shape (); with the Huber loss its location; with several classes their shares."""
    constant: np.ndarray
    """Columns that are constant on the subset. It does not vote on them."""
    constant_value: np.ndarray
    n_unsolved: int
    """Number of solves along the path in which coordinate descent did not converge."""
    n_separable: int = 0
    """Number of models along the path that separate rows perfectly, so that there is no finite optimum."""
    visited: PathMoments | None = None
    path: PathTable | None = None
    """Only for the first subset."""

    def among(self, settings: SelectionSettings, n_features: int) -> SubsetChoice:
        """Return what the subset chooses with other settings, when more subsets vote."""
        penalty, least = settings.penalty(self.total, n_features), settings.least_penalty(self.total, n_features)
        by_class: dict[int, Ballot] = {}
        for ballot in (*self.ballots, *self.with_less):
            if ballot.of_class not in by_class or by_class[ballot.of_class].least_penalty > penalty:
                by_class[ballot.of_class] = ballot
        path = None if self.path is None else replace(self.path, more=penalty - least)
        return replace(self, ballots=tuple(by_class.values()), with_less=(), path=path)

    @property
    def n_selected(self) -> int:
        """Number of features chosen for any class."""
        return len(np.unique(np.concatenate([ballot.selected for ballot in self.ballots])))


def choose(
    X: np.ndarray | ColumnEntries,
    y: np.ndarray,
    weight: np.ndarray,
    settings: SelectionSettings,
    is_first: bool,
    column_weight: np.ndarray | None = None,
) -> SubsetChoice | None:
    """Return what one subset chooses, with its path if it is the first; None if X is not finite.

    The target is coded as the loss needs it: -1 and 1 for two classes, 0, 1, ... for several. Columns have weights if
    the selector's `weighs_columns` is true.
    """
    if isinstance(X, ColumnEntries) and settings.approx == "lsa":
        X = dense_block(X)
    if settings.estimator is not None:
        return _choice_of_estimator(X, y, weight, settings)
    if not settings.record.is_quadratic:
        X, y, weight = merge_rows(X, y, weight)
    if settings.record.has_classes:
        return _choice_by_class(X, y, weight, settings, is_first, column_weight)
    return _choice_of_path(X, y, weight, settings, is_first, column_weight)


def _choice_of_path(
    X: np.ndarray | ColumnEntries,
    y: np.ndarray,
    weight: np.ndarray,
    settings: SelectionSettings,
    is_first: bool,
    column_weight: np.ndarray | None,
) -> SubsetChoice | None:
    total, n_candidates = float(weight.sum()), settings.n_candidates(X.shape[1])
    penalty, least = settings.penalty(total, n_candidates), settings.least_penalty(total, n_candidates)
    path = _path(X, y, weight, settings, least, column_weight)  # the longest path that any number of subsets needs
    m = path.moments
    if np.isnan(m.scale).any():
        return None
    location, abstains = _location(path, y, weight), _is_constant(y, weight)
    size = path.n_groups if isinstance(path, GroupPath) else path.df
    steps = best_steps(size, path.gic, penalty, least) if penalty > least else [(least, path.best)]
    ballots = [_ballot_at(path, step, settings.record.null_intercept(location), abstains, low) for low, step in steps]
    return SubsetChoice(
        (ballots[0],),
        tuple(ballots[1:]),
        **_columns_of(m),
        y_mean=np.array(location),
        n_unsolved=path.n_unsolved,
        n_separable=0 if isinstance(path, LassoPath) or settings.approx is not None else path.n_separable,
        visited=PathMoments.of(path) if settings.record.is_quadratic and not isinstance(path, GlmPath) else None,
        path=PathTable.of(path, penalty - least) if is_first else None,
    )


def _ballot_at(path: AnyPath, step: int, null: float, abstains: bool, least_penalty: float) -> Ballot:
    """Return the ballot of the model at one step of a path; `null` is the intercept of the model without features."""
    selected = path.selected(step)
    if not len(selected):
        return Ballot(selected, np.empty(0), null, abstains, least_penalty)
    return Ballot(selected, path.coefficients(step)[selected], path.intercept(step), abstains, least_penalty)


def _path(
    X: Any,
    y: np.ndarray,
    weight: np.ndarray,
    settings: SelectionSettings,
    penalty: float,
    column_weight: np.ndarray | None,
) -> AnyPath:
    total = float(weight.sum())
    free = np.array(settings.always, dtype=np.int64)
    options = {**settings.of_path(total, X.shape[1]), "penalty": penalty, "free": free}
    if settings.groups is not None:
        del options["penalty"]
        of_column, max_columns = settings.per_column(total), options.pop("max_features")
        how = {"loss": settings.loss, "threshold": settings.threshold, "tol": settings.tol, "max_columns": max_columns}
        of_group = penalty - of_column
        return group_path(X, y, weight, settings.groups, per_column=of_column, per_group=of_group, **how, **options)
    if settings.record.is_quadratic:
        return lasso_path(X, y, weight, column_weight=column_weight, **options)
    options |= {"loss": settings.loss, "threshold": settings.threshold}
    if settings.approx == "lsa":
        return lsa_path(X, y, weight, **options)  # type: ignore[arg-type]
    return glm_path(X, y, weight, tol=settings.tol, column_weight=column_weight, **options)


def _choice_of_estimator(
    X: np.ndarray | ColumnEntries, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings
) -> SubsetChoice | None:
    """Select with a clone of the user's estimator: the columns with a nonzero coefficient, for all classes together."""
    m = block_moments(X, y, weight)
    if np.isnan(m.scale).any():
        return None
    y_mean = np.array(m.y_mean)
    if settings.classes:
        y_mean = np.bincount(y.astype(np.int64), weight, len(settings.classes)) / m.total
    selected, coef, intercept = np.empty(0, dtype=np.int64), np.empty(0), float(y[0])
    if y.min() < y.max():
        selected, coef, intercept = _fit_estimator(X, y, weight, settings.estimator)
    ballot = Ballot(selected, coef, intercept, _is_constant(y, weight))
    return SubsetChoice((ballot,), (), **_columns_of(m), y_mean=y_mean, n_unsolved=0)


def _fit_estimator(
    X: np.ndarray | ColumnEntries, y: np.ndarray, weight: np.ndarray, estimator: Any
) -> tuple[np.ndarray, np.ndarray, float]:
    from sklearn.base import clone

    given: Any = X
    if isinstance(X, ColumnEntries):
        from scipy.sparse import csc_matrix

        given = csc_matrix((X.values, X.rows, X.starts), shape=X.shape)
    weights = {} if (weight == 1.0).all() else {"sample_weight": weight}
    fitted = clone(estimator).fit(given, y, **weights)
    coef = np.asarray(fitted.coef_, dtype=np.float64).reshape(-1, X.shape[1])
    selected = np.flatnonzero((coef != 0.0).any(axis=0))
    return selected, coef[0, selected], float(np.ravel(getattr(fitted, "intercept_", 0.0))[0])


def _choice_by_class(
    X: np.ndarray | ColumnEntries,
    y: np.ndarray,
    weight: np.ndarray,
    settings: SelectionSettings,
    is_first: bool,
    column_weight: np.ndarray | None,
) -> SubsetChoice | None:
    """Choose for each class against all others."""
    two = replace(settings, loss="logistic", classes=())
    choices = []
    for c in range(len(settings.classes)):
        choice = _choice_of_path(X, np.where(y == c, 1.0, -1.0), weight, two, is_first and c == 0, column_weight)
        if choice is None:
            return None
        choices.append(choice)
    return replace(
        choices[0],
        ballots=tuple(replace(ballot, of_class=c) for c, choice in enumerate(choices) for ballot in choice.ballots),
        with_less=tuple(replace(ballot, of_class=c) for c, choice in enumerate(choices) for ballot in choice.with_less),
        y_mean=0.5 * (1.0 + np.array([float(choice.y_mean) for choice in choices])),
        n_unsolved=sum(choice.n_unsolved for choice in choices),
        n_separable=sum(choice.n_separable for choice in choices),
    )


def _columns_of(m: Moments) -> dict[str, Any]:
    constant = np.flatnonzero(m.scale == 0.0)
    return {"total": m.total, "constant": constant, "constant_value": m.mean[constant]}


def _is_constant(y: np.ndarray, weight: np.ndarray) -> bool:
    seen = y[weight > 0.0]
    return bool(seen.min() == seen.max())


def _location(path: AnyPath, y: np.ndarray, weight: np.ndarray) -> float:
    """Return the target's mean; for the Huber loss, the intercept of the model without features."""
    if isinstance(path, GlmPath | GroupPath) and find_loss(path.loss).threshold and len(path.lambdas):
        return float(path.centred_intercepts[0])
    return path.moments.y_mean if isinstance(path, LassoPath) else float((weight * y).sum() / weight.sum())


@dataclass(frozen=True, slots=True)
class NormalEquations(Record):
    """Normal equations of some columns for several subsets. They add up to those of all rows."""

    total: np.ndarray
    """Sum of the weights, shape (n_subsets,)."""
    y_mean: np.ndarray
    y_variance: np.ndarray
    mean: np.ndarray
    """Means of the columns, shape (n_subsets, n_columns)."""
    scale: np.ndarray
    cross: np.ndarray
    """Products of the standardised columns with the target, shape (n_subsets, n_columns)."""
    gram: np.ndarray
    """Correlations (0 for constant columns), shape (n_subsets, n_columns, n_columns)."""


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
        gram = _gram(X, weight, m)
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
    return bool(right[weight > 0.0].all()) and not _is_constant(y, weight)


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


def _gram(X: np.ndarray, weight: np.ndarray, m: Moments) -> np.ndarray:
    """Return the correlations of all columns; 0 for constant ones."""
    varies = np.flatnonzero(m.scale > 0.0)
    rows = np.empty((len(varies), X.shape[1]))
    gram_rows(X, weight, m, varies, rows)
    gram = np.zeros((X.shape[1], X.shape[1]))
    gram[varies] = rows
    gram = 0.5 * (gram + gram.T)
    np.fill_diagonal(gram, 1.0)
    return gram


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
