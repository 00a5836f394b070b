"""How subsets select, and what all of them choose.

Choices are stored by column, so that a thousand small subsets take as few arrays as one. A task returns the choices of
its subsets. They are joined in the order of the subsets; votes and the refit query them. Where a subset has several
items (ballots, constant columns, visited features), they are stored one after the other, with a count per subset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.kernels.lasso.result import LassoPath
from daskfs.kernels.linear.gram_matrix import WHOLE_GRAM_COLUMNS
from daskfs.kernels.linear.moments import Moments
from daskfs.losses import Loss, find_loss
from daskfs.selectors.shared.record import Record

PAIRS = 1 << 16
"""Pairs of columns, over all subsets processed together."""
MOST_CACHED = WHOLE_GRAM_COLUMNS
"""Features whose correlations a subset keeps for the refit: all, if its path begins with all."""
CACHE_NBYTES = 256 << 20
"""Memory for these correlations of all subsets."""


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
    most_near: int = 0
    """If not 0: only the columns that come near a subset's path are decoded, at most this many."""
    n_in_step: int = 1
    """How many of these paths share passes over the codes, at most."""

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

    @property
    def max_cached(self) -> int:
        """Largest number of features whose correlations a subset keeps for the refit."""
        return min(MOST_CACHED, math.isqrt(CACHE_NBYTES // (4 * self.n_subsets)))

    def cached_nbytes(self, n_features: int) -> int:
        """Return the bytes of what a squared-loss path leaves for the refit."""
        n = min(self.max_cached, n_features)
        return 8 * (n * (n - 1) // 2 + 6 * n)

    def of_path(self, total: float, n_features: int) -> dict[str, Any]:
        """Return the options of every path on rows of this total weight: λ of the criterion, and when to stop."""
        names = ("sigma2", "gic_rss", "n_lambdas", "patience", "max_features")
        return {"penalty": self.penalty(total, n_features)} | {name: getattr(self, name) for name in names}


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
    def of(cls, path: LassoPath, more: float = 0.0) -> PathTable:
        """Return the table of a path."""
        n_groups = None if path.groups is None else path.n_units
        return cls(path.lambdas, path.df, path.fit, path.fit_is, path.gic, more, n_groups)

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of a result's history."""
        gic = self.gic + self.more * (self.df if self.n_groups is None else self.n_groups)
        chosen = np.arange(len(gic)) == (np.argmin(gic) if len(gic) else -1)
        n_groups = {} if self.n_groups is None else {"groups": self.n_groups}
        table = {"lambda": self.lambdas, "df": self.df, **n_groups, self.fit_is: self.fit}
        return {**table, "gic": gic, "chosen": chosen}


@dataclass(frozen=True, slots=True)
class Ballots(Record):
    """The models that subsets choose, one after the other; with several classes, for one class against the others."""

    of_class: np.ndarray
    """Shape (n_ballots,), like the next four."""
    abstains: np.ndarray
    """Whether the target is constant on the subset (one class, for example), so that there is nothing to learn."""
    least_penalty: np.ndarray
    """The smallest λ for which the subset chooses this model."""
    intercept: np.ndarray
    n_selected: np.ndarray
    selected: np.ndarray
    """Columns, ascending within a ballot, shape (sum of n_selected,)."""
    coef: np.ndarray
    """Coefficients of these columns on the scale of the data, as shrunk by the path."""


@dataclass(frozen=True, slots=True)
class VisitedMoments(Record):
    """Moments and correlations of the features that squared-loss paths visited, for the refit."""

    y_variance: np.ndarray
    n_features: np.ndarray
    """Shape (n_subsets,); `y_variance` has the same."""
    features: np.ndarray
    """Shape (sum of n_features,); the next three have the same."""
    mean: np.ndarray
    scale: np.ndarray
    cross: np.ndarray
    """Products of the standardised features with the target."""
    gram_below: np.ndarray
    """Correlations below the diagonal, row by row, one subset after the other."""

    @classmethod
    def of(cls, path: LassoPath) -> VisitedMoments:
        """Return the moments that the path of one subset cached."""
        cache = path.gram
        assert cache is not None  # the squared loss always has a cache
        n = len(cache.features)
        numbers = np.array([path.moments.y_variance]), np.array([n])
        return cls(*numbers, cache.features, cache.mean, cache.scale, cache.cross, cache.gram[_below_diagonal(n)])


@lru_cache
def _below_diagonal(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.tril_indices(n, -1)


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
class Choices(Record):
    """The choices of subsets, in their order."""

    total: np.ndarray
    """Sum of the weights, shape (n_subsets,), like the next five."""
    y_mean: np.ndarray
    """Mean of the target; with the Huber loss its location; with several classes their shares, for each class."""
    n_unsolved: np.ndarray
    """Number of solves along the path in which coordinate descent did not converge."""
    n_separable: np.ndarray
    """Number of models along the path that separate rows perfectly, so that there is no finite optimum."""
    n_ballots: np.ndarray
    n_constant: np.ndarray
    ballots: Ballots
    """Within a subset sorted by class; within a class by falling penalty: more subsets may still join the vote."""
    constant: np.ndarray
    """Columns that are constant on a subset, shape (sum of n_constant,). It does not vote on them."""
    constant_value: np.ndarray
    visited: VisitedMoments | None = None
    paths: tuple[PathTable, ...] = ()
    """The path of the first subset, if it is among these."""

    def __len__(self) -> int:
        return len(self.total)

    @property
    def path(self) -> PathTable | None:
        """The path of the first subset, if it is here."""
        return self.paths[0] if self.paths else None

    @property
    def of_subset(self) -> np.ndarray:
        """The subset of every ballot, shape (n_ballots,)."""
        return np.repeat(np.arange(len(self)), self.n_ballots)

    @property
    def _begins(self) -> np.ndarray:
        """Which ballots are the first of their subset and class."""
        of_subset, of_class = self.of_subset, self.ballots.of_class
        begins = np.ones(len(of_subset), dtype=bool)
        begins[1:] = (of_subset[1:] != of_subset[:-1]) | (of_class[1:] != of_class[:-1])
        return begins

    def first(self) -> Choices:
        """Return the choices with the penalty of the pass: one ballot per class."""
        return self._cast(self._begins)

    def among(self, settings: SelectionSettings, n_features: int) -> Choices:
        """Return the choices with other settings (more subsets vote): one ballot per class."""
        totals, place = np.unique(self.total, return_inverse=True)
        penalty = np.array([settings.penalty(total, n_features) for total in totals])[place]
        starts, n_all = np.flatnonzero(self._begins), len(self.ballots.n_selected)
        is_cheap = self.ballots.least_penalty <= penalty[self.of_subset]
        chosen = np.minimum.reduceat(np.where(is_cheap, np.arange(n_all), n_all), starts)
        is_cast = np.zeros(n_all, dtype=bool)
        is_cast[np.minimum(chosen, np.append(starts[1:], n_all) - 1)] = True
        more = float(penalty[0]) - settings.least_penalty(float(self.total[0]), n_features)
        return replace(self._cast(is_cast), paths=tuple(replace(path, more=more) for path in self.paths))

    def _cast(self, is_cast: np.ndarray) -> Choices:
        """Return the same choices with only some of the ballots."""
        of_feature = np.repeat(is_cast, self.ballots.n_selected)
        of_each = ((one.name, of_feature if one.name in ("selected", "coef") else is_cast) for one in fields(Ballots))
        ballots = Ballots(**{name: getattr(self.ballots, name)[is_taken] for name, is_taken in of_each})
        return replace(self, ballots=ballots, n_ballots=np.bincount(self.of_subset[is_cast], minlength=len(self)))

    @property
    def n_selected(self) -> np.ndarray:
        """Number of features that each subset chose for any class, shape (n_subsets,)."""
        if (self.n_ballots == 1).all():
            return self.ballots.n_selected
        of_feature = np.repeat(self.of_subset, self.ballots.n_selected)
        pairs = np.unique(np.stack([of_feature, self.ballots.selected]), axis=1)
        return np.bincount(pairs[0], minlength=len(self))

    def normal_equations(self, columns: np.ndarray) -> tuple[NormalEquations | None, np.ndarray]:
        """Return the normal equations of the subsets whose paths visited all columns, as `refit` in `subset` would.

        Parameters
        ----------
        columns : ndarray of shape (n_columns,), int64, ascending

        Returns
        -------
        NormalEquations or None
            Of these subsets, in their order.
        ndarray of shape (n_subsets,), bool
            Mask of these subsets.
        """
        visited = self.visited
        if visited is None:
            return None, np.zeros(len(self), dtype=bool)
        of_visited, of_constant = (np.repeat(np.arange(len(self)), n) for n in (visited.n_features, self.n_constant))
        is_visited, place = _places(visited.features, columns)
        is_constant, constant_place = _places(self.constant, columns)
        n_found = np.bincount(of_visited[is_visited], minlength=len(self))
        is_known = n_found + np.bincount(of_constant[is_constant], minlength=len(self)) == len(columns)
        if not is_known.any():
            return None, is_known
        ends = np.cumsum(visited.n_features)
        within = np.arange(len(of_visited)) - np.repeat(ends - visited.n_features, visited.n_features)
        shape = len(self), len(columns)
        number, (mean, scale, cross) = np.full(shape, -1), (np.zeros(shape) for _ in range(3))
        at = of_visited[is_visited], place
        number[at], mean[at] = within[is_visited], visited.mean[is_visited]
        scale[at], cross[at] = visited.scale[is_visited], visited.cross[is_visited]
        mean[of_constant[is_constant], constant_place] = self.constant_value[is_constant]
        n_pairs = visited.n_features * (visited.n_features - 1) // 2
        gram = _correlations(number[is_known], (np.cumsum(n_pairs) - n_pairs)[is_known], visited.gram_below)
        of_subset = (self.total, self.y_mean, visited.y_variance, mean, scale, cross)
        return NormalEquations(*(*(one[is_known] for one in of_subset), gram)), is_known


def _places(known: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of the entries of `known` that are in `columns` (ascending), and their positions there."""
    places = np.searchsorted(columns, known)
    is_there = columns[np.minimum(places, len(columns) - 1)] == known
    return is_there, places[is_there]


def _correlations(number: np.ndarray, start: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return the correlations of columns in every subset; 0 between a column and a constant one.

    Parameters
    ----------
    number : ndarray of shape (n_subsets, n_columns)
        Index of each column among those that the subset's path visited; -1 if it is constant.
    start : ndarray of shape (n_subsets,)
        Where the correlations of a subset begin in `below`: those below the diagonal, row by row.
    """
    n_subsets, n = number.shape
    gram = np.empty((n_subsets, n, n))
    step = max(1, PAIRS // (n * n))
    for some in (slice(i, i + step) for i in range(0, n_subsets, step)):
        row, column = number[some, :, None], number[some, None, :]
        high, low = np.maximum(row, column), np.minimum(row, column)
        place = start[some, None, None] + high * (high - 1) // 2 + low
        is_pair = (low >= 0) & (high > low)
        gram[some] = np.where(is_pair, below[np.where(is_pair, place, 0)] if len(below) else 0.0, 0.0)
    gram[:, np.arange(n), np.arange(n)] = 1.0
    return gram


def of_one_subset(
    m: Moments,
    y_mean: Any,
    ballots: Ballots,
    n_unsolved: int = 0,
    n_separable: int = 0,
    visited: VisitedMoments | None = None,
    paths: tuple[PathTable, ...] = (),
) -> Choices:
    """Return the choices of one subset; `m` are the moments of all columns."""
    constant = np.flatnonzero(m.scale == 0.0)
    return Choices(
        total=np.array([m.total]),
        y_mean=np.array([y_mean]),
        n_unsolved=np.array([n_unsolved]),
        n_separable=np.array([n_separable]),
        n_ballots=np.array([len(ballots.intercept)]),
        n_constant=np.array([len(constant)]),
        ballots=ballots,
        constant=constant,
        constant_value=m.mean[constant],
        visited=visited,
        paths=paths,
    )


def is_constant(y: np.ndarray, weight: np.ndarray) -> bool:
    """Return whether a target is the same in all rows of positive weight."""
    seen = y[weight > 0.0]
    return bool(seen.min() == seen.max())
