"""The model of one subset: which features it chooses, its fit on features given, the slope of its loss.

Imported by workers, hence light: numpy and the kernels; scikit-learn only where a user brings an estimator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daskfs.kernels.blocks.any_block import block_moments
from daskfs.kernels.blocks.column_entries import ColumnEntries, dense_block
from daskfs.kernels.glm.fit import glm_fit, newton_terms
from daskfs.kernels.glm.lsa import lsa_path
from daskfs.kernels.glm.path import GlmPath, glm_path
from daskfs.kernels.glm.softmax import softmax_fit, softmax_terms
from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.kernels.lasso.path import LassoPath, lasso_path
from daskfs.kernels.linear.moments import Moments, gram_rows, moments


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """How a subset selects; see `daskfs.selectors.message.selector.Message`."""

    criterion: str
    gamma: float
    refit: bool
    n_lambdas: int
    patience: int | None
    max_features: int | None
    with_coefficients: bool = False
    """Whether the coefficients of the chosen model, shrunk as the path leaves them, are wanted too."""
    penalty: float | None = None
    """Of one feature, instead of the criterion's."""
    sigma2: float | None = None
    loss: str = "squared"
    positive: float | None = None
    """The target's value for the class whose odds are modelled."""
    threshold: float = 0.0
    """Of the Huber loss."""
    estimator: Any = None
    """A scikit-learn estimator that selects instead of the Lasso path."""
    approximate: bool = False
    """Whether the path of a loss is that of its parabola at the fit of all columns."""
    n_subsets: int = 1
    """That vote together."""
    classes: tuple[float, ...] = ()
    """The target's values with the multinomial loss, which are numbered in this order."""

    def feature_penalty(self, n_samples: float, n_features: int) -> float:
        """Return what one more feature costs on a subset."""
        if self.penalty is not None:
            return self.penalty
        return feature_penalty(self.criterion, n_samples, n_features, self.gamma, self.n_subsets)


@dataclass(frozen=True, slots=True)
class Point:
    """Where the slope of the loss is wanted: a model of the chosen columns, centred and scaled the same everywhere."""

    coef: np.ndarray
    """Shape (n_selected,) or (n_classes, n_selected), of the columns ``(x - centre) / scale``."""
    intercept: Any
    """The prediction where every column is at its centre."""
    centre: np.ndarray
    scale: np.ndarray


def choose(
    X: np.ndarray | ColumnEntries, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings, is_first: bool
) -> dict[str, np.ndarray] | None:
    """Return what one subset chooses (see `message_on_block.select_on_block`); None where X is not finite."""
    if isinstance(X, ColumnEntries) and settings.approximate:
        X = dense_block(X)
    if settings.estimator is not None:
        m = block_moments(X, y, weight)
        if np.isnan(m.scale).any():
            return None
        selected, coef, intercept = _choice_of_estimator(X, y, weight, settings)
        choice = _columns_and_target(m, m.y_mean) | {"n_unsolved": np.array([0])}
        if settings.classes:  # its votes are for all classes: counted for the first
            n_classes = len(settings.classes)
            shares = np.bincount(y.astype(np.int64), weight, n_classes) / m.total
            abstains = np.arange(n_classes)[None] > 0
            choice |= {"y_mean": shares[None], "selected": selected, "n_selected": np.array([len(selected)])}
            return choice | {"abstains": abstains | _abstains(y, weight)}
    elif settings.loss == "multinomial":
        return choose_by_class(X, y, weight, settings, is_first)
    else:
        follow = _lasso_path if settings.loss == "squared" else _path
        path = follow(X, y, weight, settings)
        if np.isnan(path.moments.scale).any():
            return None
        selected = path.selected()
        coef, intercept = np.empty(0), 0.0
        if path.best >= 0:
            coef, intercept = path.coefficients(path.best)[selected], path.intercept(path.best)
        choice = _columns_and_target(path.moments, _location(path, y, weight))
        choice["n_unsolved"] = np.array([path.n_unsolved])
        choice |= _flattened(path) if isinstance(path, LassoPath) else {}
        choice |= _history(path) if is_first else {}
    choice |= {"selected": selected, "n_selected": np.array([len(selected)]), "abstains": _abstains(y, weight)}
    if settings.with_coefficients:
        choice |= {"coef": coef, "intercept": np.array([intercept if len(coef) else choice["y_mean"][0]])}
    return choice


def choose_by_class(
    X: np.ndarray | ColumnEntries, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings, is_first: bool
) -> dict[str, np.ndarray] | None:
    """Return what one subset chooses for each class against the others: class c its column j as ``c * p + j``."""
    n_classes, n_features = len(settings.classes), X.shape[1]
    two = replace(settings, loss="logistic", classes=())
    choices = []
    for c in range(n_classes):
        choice = choose(X, np.where(y == c, 1.0, -1.0), weight, two, is_first and c == 0)
        if choice is None:
            return None
        choices.append(choice)
    selected = np.concatenate([c * n_features + choice["selected"] for c, choice in enumerate(choices)])
    shares = np.array([choice["y_mean"][0] for choice in choices])
    return choices[0] | {
        "selected": selected,
        "n_selected": np.array([len(np.unique(selected % n_features))]),
        "abstains": np.array([choice["abstains"] for choice in choices]).T,
        "n_unsolved": np.sum([choice["n_unsolved"] for choice in choices], axis=0),
        "y_mean": 0.5 * (1.0 + shares[None]),
    }


def _lasso_path(
    X: np.ndarray | ColumnEntries, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings
) -> LassoPath:
    return lasso_path(
        X,
        y,
        weight,
        penalty=settings.feature_penalty(float(weight.sum()), X.shape[1]),
        n_lambdas=settings.n_lambdas,
        refit=settings.refit,
        patience=settings.patience,
        max_features=settings.max_features,
        noise_variance=settings.sigma2,
    )


def _path(X: np.ndarray | ColumnEntries, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings) -> GlmPath:
    follow: Any = lsa_path if settings.approximate else glm_path
    path: GlmPath = follow(
        X,
        y,
        weight,
        loss=settings.loss,
        penalty=settings.feature_penalty(float(weight.sum()), X.shape[1]),
        threshold=settings.threshold,
        dispersion=settings.sigma2,
        n_lambdas=settings.n_lambdas,
        refit=settings.refit,
        patience=settings.patience,
        max_features=settings.max_features,
    )
    return path


def _abstains(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return whether the target is the same on all rows, of one class say: nothing is learnt from them."""
    seen = y[weight > 0.0]
    return np.array([seen.min() == seen.max()])


def _columns_and_target(m: Moments, location: float) -> dict[str, np.ndarray]:
    constant = np.flatnonzero(m.scale == 0.0)
    return {
        "constant": constant,
        "n_constant": np.array([len(constant)]),
        "constant_value": m.mean[constant],
        "total": np.array([m.total]),
        "y_mean": np.array([location]),
    }


def _location(path: LassoPath | GlmPath, y: np.ndarray, weight: np.ndarray) -> float:
    """Return the target's mean, or for the Huber loss the fit of an intercept alone: where the path begins."""
    if isinstance(path, GlmPath) and path.loss == "huber" and len(path.lambdas):
        return float(path.centred_intercepts[0])
    return path.moments.y_mean if isinstance(path, LassoPath) else float((weight * y).sum() / weight.sum())


def _history(path: LassoPath | GlmPath) -> dict[str, np.ndarray]:
    fit = {"rss": path.rss} if isinstance(path, LassoPath) else {"deviance": path.deviance}
    return {"lambda": path.lambdas, "df": path.df, **fit, "gic": path.gic, "best": np.array([path.best])}


def _flattened(path: LassoPath) -> dict[str, np.ndarray]:
    """Return what a path leaves for the refit, one array after the other; of the matrix the part below the diagonal."""
    cache = path.gram
    below = np.tril_indices(len(cache.features), -1)
    return {
        "n_cached": np.array([len(cache.features)]),
        "cached": cache.features,
        "cached_mean": cache.mean,
        "cached_scale": cache.scale,
        "cached_cross": cache.cross,
        "cached_gram": cache.gram[below],
        "y_variance": np.array([path.moments.y_variance]),
    }


def _choice_of_estimator(
    X: np.ndarray | ColumnEntries, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings
) -> tuple[np.ndarray, np.ndarray, float]:
    """Fit a clone of the user's estimator; return its nonzero columns, their coefficients and its intercept."""
    from sklearn.base import clone

    if y.min() == y.max():
        return np.empty(0, dtype=np.int64), np.empty(0), float(y[0])
    estimator = clone(settings.estimator)
    weights = {} if (weight == 1.0).all() else {"sample_weight": weight}
    coef = np.asarray(estimator.fit(_as_estimators_take_it(X), y, **weights).coef_, dtype=np.float64)
    coef = coef.reshape(-1, X.shape[1])
    selected = np.flatnonzero((coef != 0.0).any(axis=0))
    intercept = np.ravel(getattr(estimator, "intercept_", 0.0))
    return selected, coef[0, selected], float(intercept[0])


def _as_estimators_take_it(X: np.ndarray | ColumnEntries) -> Any:
    if not isinstance(X, ColumnEntries):
        return X
    from scipy.sparse import csc_matrix

    return csc_matrix((X.values, X.rows, X.starts), shape=X.shape)


def refit(X: np.ndarray, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings) -> dict[str, np.ndarray]:
    """Fit a subset's rows of the chosen columns.

    Returns
    -------
    dict of ndarray
        All with one leading axis of length 1: ``total``, ``mean`` and ``scale`` of the columns, ``y_mean``. With the
        squared loss ``y_variance``, the columns' ``cross`` products with the target and ``gram`` matrix, standardised,
        from which the coefficients follow. With another one ``coef`` (NaN at constant columns), ``is_singular``,
        ``is_separable``, ``dispersion`` (the noise of the score over its slope);
        ``y_mean`` is then the prediction where all columns have their means. Of the multinomial loss ``coef`` and
        ``y_mean`` have an axis of classes before that of the columns.
    """
    if settings.loss == "multinomial":
        fitted = softmax_fit(X, y, weight, len(settings.classes))
        m = fitted.moments
        own = {"y_mean": fitted.centred_intercepts[None], "coef": fitted.coef[None]}
        own |= {"is_singular": np.array([fitted.is_singular]), "is_separable": np.array([fitted.is_separable])}
        own |= {"dispersion": np.ones(1)}
    elif settings.loss == "squared":
        m = moments(X, y, weight)
        own = {"y_mean": np.array([m.y_mean]), "cross": m.cross[None], "gram": _gram(X, weight, m)[None]}
        own |= {"y_variance": np.array([m.y_variance])}
    else:
        fit = glm_fit(X, y, weight, loss=settings.loss, threshold=settings.threshold)
        m = fit.moments
        centred = fit.intercept + float(np.nansum(fit.coef * m.mean))
        own = {"y_mean": np.array([centred]), "coef": fit.coef[None]}
        own |= {"is_singular": np.array([fit.is_singular]), "is_separable": np.array([fit.is_separable])}
        own |= {"dispersion": np.array([fit.dispersion])}
    return {"total": np.array([m.total]), "mean": m.mean[None], "scale": m.scale[None], **own}


def _gram(X: np.ndarray, weight: np.ndarray, m: Moments) -> np.ndarray:
    """Return the correlations of all columns; those of constant ones are 0."""
    varies = np.flatnonzero(m.scale > 0.0)
    rows = np.empty((len(varies), X.shape[1]))
    gram_rows(X, weight, m, varies, rows)
    gram = np.zeros((X.shape[1], X.shape[1]))
    gram[varies] = rows
    gram = 0.5 * (gram + gram.T)
    np.fill_diagonal(gram, 1.0)
    return gram


def slope(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, settings: SelectionSettings, point: Point
) -> dict[str, np.ndarray]:
    """Return gradient and Hessian of a subset's summed loss; see `message_on_block.slope_on_block`."""
    if settings.loss == "multinomial":
        at = np.column_stack([point.intercept, point.coef])
        softmax = softmax_terms(X, y, weight, at[:-1] - at[-1], point.centre, point.scale)
        return {"gradient": softmax.gradient[None], "hessian": softmax.hessian[None]}
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
    return {"gradient": terms.gradient[None], "hessian": terms.hessian[None]}
