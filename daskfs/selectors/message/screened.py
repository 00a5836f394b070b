"""The Lasso path of a subset of which only some columns are in memory: those that come near the path.

    Input: the subset's rows in a matrix that has products of columns with vectors, such as genotype files
    1. One pass: moments of all columns, and their derivatives g at the fit of the columns without a penalty. The path
       begins at λ = max |g|.
    2. The near columns: those of the path so far, and those with |g| >= 2 λ' - λ, where λ' is the next λ (the strong
       rule). Follow the path over the near columns alone, from Gram rows, down to λ'.
    3. One pass: the derivatives g' of all columns at the end of the path. Columns that may exceed some λ on the way
       join the near columns; follow the path again. If its end is another, compute g' again.
    4. λ = λ', g = g'; to 2, unless the criterion has ended the path.

BASIL of J. Qian et al., "A fast and scalable framework for large-scale and ultrahigh-dimensional sparse regression with
application to the UK Biobank", PLOS Genetics 16 (2020), with strong rules of R. Tibshirani et al. (2012).

Differs from the paper
----------------------
* The path is followed from knot to knot, not on a grid, and is that of all columns at every λ, not only at the λ of the
  passes. Between two passes, at the share t of the way from λ to λ', the residual is r = (1 - t) r_λ + t r_λ' + d.
  Coefficients give the length of d, and |g_j| is at most (1 - t) |g_j| + t |g'_j| + |d| (Cauchy-Schwarz). Columns for
  which this exceeds λ at a knot join the near columns. Derivatives are linear between knots, so knots suffice.
* The criterion of MESSAGE ends the path, without validation rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.lasso.from_gram import lasso_path_from_gram
from daskfs.kernels.lasso.homotopy import CERTAIN
from daskfs.kernels.lasso.path import default_max_features, lambda_range
from daskfs.kernels.lasso.result import STOPS, LassoPath
from daskfs.kernels.lasso.steps import GRID_ENDED, TOO_MANY_GRAM_ROWS
from daskfs.kernels.linear.moments import Moments, first_moments, weighed
from daskfs.kernels.substitution.products import combine, cross_products
from daskfs.matrix.base import Matrix
from daskfs.selectors.message.in_step import Products, Steps, Weights

STEP = 0.85
"""Ratio of λ between two passes."""
SLOPE = 1.0
"""Assumed change of a derivative per change of λ, at most: that of the strong rule."""
SMALLEST_STEP = 0.999
"""The path ends if memory allows only shorter steps."""
NEW_ROWS = 32
"""Gram rows that are computed together."""
PIECE_COLUMNS = 64
"""Columns that are decoded together."""


class StandardisedColumns:
    """Standardised columns of a matrix: their moments, products with vectors and with each other."""

    moments: Moments

    def __init__(
        self, matrix: Matrix, y: np.ndarray, weight: np.ndarray, column_weight: np.ndarray | None = None
    ) -> None:
        self._matrix, self._weight, self.column_weight = matrix, weight, column_weight
        self._total, self._y_mean, self._y_variance = first_moments(y, weight, np.flatnonzero(weight > 0.0))
        self._share = weight / self._total
        self._target = self._share * (y - self._y_mean)

    def standardise(self, unit: np.ndarray | None = None) -> Steps[None]:
        """Set the moments, and the products of the columns with the target, in two passes."""
        found = yield Weights(self._matrix, self._weight)
        bad = np.flatnonzero(~np.isfinite(found.std))
        if len(bad):
            raise self._matrix.bad_column(int(bad[0]))
        self.moments = Moments(self._total, self._y_mean, self._y_variance, found.mean, found.std, found.std)
        if unit is not None:
            length = np.divide(found.std, unit, out=np.zeros(len(unit)), where=unit > 0.0)
            self.column_weight = np.where(length > 0.0, length / length.max(initial=0.0), 1.0)
        cross = yield from self._products(self._target)
        self.moments = weighed(self.moments._replace(cross=cross), self.column_weight)

    def _products(self, vector: np.ndarray) -> Steps[np.ndarray]:
        """Return the products of all standardised columns with a vector, 0 for constant columns."""
        products = yield Products(self._matrix, vector)
        centred, scale = products - vector.sum() * self.moments.mean, self.moments.scale
        return np.divide(centred, scale, out=np.zeros(len(scale)), where=scale > 0.0)

    def derivatives(self, columns: np.ndarray, coef: np.ndarray) -> Steps[np.ndarray]:
        """Return the products of all columns with the residual, in one pass."""
        residual, fit = self._target.copy(), np.empty(len(self._target))
        for start in range(0, len(columns), PIECE_COLUMNS):
            piece = slice(start, start + PIECE_COLUMNS)
            combine(self._read(columns[piece]), coef[piece], 0.0, fit)
            residual -= self._share * fit
        return (yield from self._products(residual))

    def gram(self, features: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the correlations of features with columns, float64 of shape (n_features, n_columns)."""
        found = np.empty((len(features), len(columns)))
        for top in range(0, len(features), NEW_ROWS):
            rows = self._read(features[top : top + NEW_ROWS])
            for start in range(0, len(columns), PIECE_COLUMNS):
                piece = self._read(columns[start : start + PIECE_COLUMNS])
                products = cross_products(rows, piece, self._share)
                found[top : top + NEW_ROWS, start : start + PIECE_COLUMNS] = products
        return found

    def _read(self, columns: np.ndarray) -> np.ndarray:
        """Return standardised columns, float64 of shape (n_columns, n_samples)."""
        block = np.empty((len(columns), self._matrix.shape[0]), self._matrix.dtype)
        self._matrix.read(slice(None), columns, block.T)
        mean, scale = self.moments.mean[columns, None], self.moments.scale[columns, None]
        found = block.astype(np.float64)
        found -= mean
        found /= scale
        return found


class Near(NamedTuple):
    """The near columns, and the Gram rows known of them."""

    columns: np.ndarray
    """Ascending."""
    features: np.ndarray
    """Columns with a Gram row."""
    gram: np.ndarray
    """Shape (n_features, n_columns)."""

    def among(self, every: StandardisedColumns, columns: np.ndarray) -> Near:
        """Return other near columns, with the Gram rows of those that stay."""
        stays, was_near = np.isin(self.features, columns), np.isin(columns, self.columns)
        features, gram = self.features[stays], np.empty((np.count_nonzero(stays), len(columns)))
        gram[:, was_near] = self.gram[stays][:, np.searchsorted(self.columns, columns[was_near])]
        gram[:, ~was_near] = every.gram(features, columns[~was_near])
        return Near(columns, features, gram)

    def with_rows(self, every: StandardisedColumns, features: np.ndarray) -> Near:
        """Return the same columns with further Gram rows."""
        gram = np.concatenate([self.gram, every.gram(features, self.columns)])
        return Near(self.columns, np.concatenate([self.features, features]), gram)


class Point(NamedTuple):
    """A point of the path, and the derivatives of all columns there."""

    lam: float
    columns: np.ndarray
    """Columns with coefficients."""
    coef: np.ndarray
    derivatives: np.ndarray

    def coef_of(self, features: np.ndarray) -> np.ndarray:
        """Return the coefficients of features."""
        places = {int(column): place for place, column in enumerate(self.columns)}
        found = [places.get(int(feature), -1) for feature in features]
        return np.append(self.coef, 0.0)[found]


Follow = Callable[[Near, float], tuple[LassoPath, Near]]
"""From near columns and the lowest λ to the path, and the near columns with the Gram rows that it needed."""


def screened_path(
    matrix: Matrix,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    free: np.ndarray,
    most_near: int,
    column_weight: np.ndarray | None = None,
    unit: np.ndarray | None = None,
    max_features: int | None = None,
    max_cached: int | None = 0,
    **options: Any,
) -> Steps[LassoPath]:
    """Follow the Lasso path of all columns of a matrix, of which few are decoded, in step with others.

    Parameters
    ----------
    matrix : Matrix
        With `column_products` and `column_moments`.
    y, weight : ndarray of shape (n_samples,), float64
    most_near : int
        Largest number of near columns; the path ends where it would need more.
    unit : ndarray of shape (n_features,), float64, optional
        Instead of `column_weight`: the penalty is that of the columns divided by these. The scales of the result are a
        multiple of them, such that no column has a length above 1.
    free, column_weight, max_features, max_cached, **options
        See `daskfs.kernels.lasso.path.lasso_path`, whose path this is.
    """
    every = StandardisedColumns(matrix, y, weight, column_weight)
    yield from every.standardise(unit)
    m, column_weight, n_features = every.moments, every.column_weight, matrix.shape[1]
    if max_features is None:
        max_features = min(default_max_features(m.total, n_features, screened=True) + len(free), n_features)
    options |= {"max_features": max_features, "n_features": n_features, "max_cached": max_cached}
    free = free[m.scale[free] > 0.0]
    none = np.empty(0, dtype=np.int64)

    def follow(near: Near, lowest: float) -> tuple[LassoPath, Near]:
        """Follow the path over the near columns, and compute the Gram rows that it needs."""
        while True:
            columns = near.columns
            path, wanted = lasso_path_from_gram(
                m._replace(mean=m.mean[columns], scale=m.scale[columns], cross=m.cross[columns]),
                np.searchsorted(columns, near.features),
                near.gram,
                free=np.searchsorted(columns, free),
                lowest=lowest,
                batch=NEW_ROWS,
                column_weight=None if column_weight is None else column_weight[columns],
                **options,
            )
            if len(wanted):
                near = near.with_rows(every, columns[wanted])
                continue
            entered = columns[path.entered]
            if path.stop == STOPS[TOO_MANY_GRAM_ROWS] and len(near.features) > len(entered) + len(free):
                kept = np.isin(near.features, np.concatenate([entered, free]))  # rows of wrong guesses go
                near = near._replace(features=near.features[kept], gram=near.gram[kept])
                continue
            cache = path.gram
            if cache is not None:
                cache = cache._replace(features=columns[cache.features])
            return path._replace(moments=m, entered=entered, gram=cache), near

    strongest = np.flatnonzero(m.scale > 0.0)
    strongest = strongest[np.argsort(-np.abs(m.cross[strongest]), kind="stable")[:1]]
    near = Near(none, none, np.empty((0, 0))).among(every, np.union1d(free, strongest)).with_rows(every, free)
    path, near = follow(near, np.inf)  # the columns without a penalty
    if not len(path.lambdas):
        return path
    derivatives = (yield from every.derivatives(path.entered, path.coef[-1])) if len(free) else m.cross
    is_open = m.scale > 0.0
    is_open[free] = False
    size = np.where(is_open, np.abs(derivatives), 0.0)
    lam, smallest = lambda_range(m._replace(cross=size), n_features, None)
    if lam == 0.0:
        return path
    at, target = Point(lam, path.entered, path.coef[-1], derivatives), STEP * lam
    while True:
        size = np.where(is_open, np.abs(at.derivatives), 0.0)
        size[path.entered] = 0.0
        room = most_near - len(np.union1d(free, path.entered))
        limit = max(target - SLOPE * (at.lam - target), 0.0)
        if np.count_nonzero(size > limit) > room:
            limit = np.partition(size, -room - 1)[-room - 1] if room > 0 else np.inf
            target = max(target, (limit + SLOPE * at.lam) / (1.0 + SLOPE))
        if target > SMALLEST_STEP * at.lam:
            path, near = follow(near, at.lam)
            return path._replace(stop=STOPS[TOO_MANY_GRAM_ROWS])
        kept = np.concatenate([free, path.entered, np.flatnonzero(size > limit)])
        near = near.among(every, np.unique(kept))
        path, near, end = yield from _certain(every, follow, near, at, target, is_open, most_near)
        if end is None:
            target = 0.5 * (target + at.lam)
            path, near = follow(near, at.lam)
            continue
        if target <= smallest or (path.stop != STOPS[GRID_ENDED] and end.lam > target):  # not where it was cut
            return path
        at, target = end, STEP * min(target, end.lam)


def _certain(
    every: StandardisedColumns,
    follow: Follow,
    near: Near,
    at: Point,
    lowest: float,
    is_open: np.ndarray,
    most_near: int,
) -> Steps[tuple[LassoPath, Near, Point | None]]:
    """Follow the path from a point on until it is certain; return its end too, or None if too many columns are near."""
    end = at
    while True:
        path, near = follow(near, lowest)
        lam, coef = float(path.lambdas[-1]), path.coef[-1]
        if lam >= at.lam:
            return path, near, at
        if end.lam != lam or not np.array_equal(end.columns, path.entered) or not np.array_equal(end.coef, coef):
            derivatives = yield from every.derivatives(path.entered, coef)
            end = Point(lam, path.entered, coef, derivatives)
        joined = np.flatnonzero(_may_enter(path, near, at, end, is_open))
        if not len(joined):
            return path, near, end
        if len(near.columns) + len(joined) > most_near:
            return path, near, None
        near = near.among(every, np.union1d(near.columns, joined))


def _may_enter(path: LassoPath, near: Near, at: Point, end: Point, is_open: np.ndarray) -> np.ndarray:
    """Return which columns, not near, may have a derivative above λ between two points of the path."""
    may_enter = np.zeros(len(is_open), dtype=bool)
    place_of = {int(feature): place for place, feature in enumerate(near.features)}
    entered = np.array([place_of[int(feature)] for feature in path.entered], dtype=np.int64)
    gram = near.gram[:, np.searchsorted(near.columns, near.features)]
    first, last = at.coef_of(near.features), end.coef_of(near.features)
    before, after = np.abs(at.derivatives), np.abs(end.derivatives)
    for lam, coef in zip(path.lambdas, path.coef, strict=True):
        if lam >= at.lam:
            continue
        t = (at.lam - lam) / (at.lam - end.lam)
        change = -(1.0 - t) * first - t * last
        change[entered] += coef
        length = np.sqrt(max(change @ gram @ change, 0.0))
        may_enter |= (1.0 - t) * before + t * after + length > CERTAIN * lam
    may_enter &= is_open
    may_enter[near.columns] = False
    return may_enter
