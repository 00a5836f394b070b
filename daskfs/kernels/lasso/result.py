"""The result of following a Lasso path, of any loss, over columns or groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.lasso.gram_cache import GramCache
from daskfs.kernels.linear.moments import Moments

STOPS = ("end of the path", "patience", "max_features", "memory")


class LassoPath(NamedTuple):
    """A path as far as it was followed, at its knots or at the λ of a grid: `n_lambdas` points in total."""

    moments: Moments
    """Moments of the columns. Their y is the target, or for other losses than the squared one minus the null model's
    derivative, so that `cross` is the gradient there.
    """
    lambdas: np.ndarray
    """Shape (n_lambdas,), decreasing, like the next three arrays. For the squared loss in units of sd(y) per
    standardised column.
    """
    df: np.ndarray
    """Degrees of freedom of the model: its number of columns, unless groups are shrunk."""
    fit: np.ndarray
    """Mean squared residual, or deviance (twice the weighted sum of losses minus its minimum), of the refit or of the
    shrunk fit.
    """
    gic: np.ndarray
    entered: np.ndarray
    """Shape (n_entered,): features, or groups, in their order of entry."""
    coef: np.ndarray
    """Shape (n_lambdas, n_positions): shrunk coefficients of the standardised columns that have entered; with groups,
    of the orthonormal columns.
    """
    centred_intercepts: np.ndarray
    """Shape (n_lambdas,): predictions for columns at their means."""
    is_active: np.ndarray
    """Shape (n_lambdas, n_entered): the models. At a knot it is the model just above it, so that a feature that leaves
    there is in it, with coefficient 0.
    """
    best: int
    """Index of the λ with the smallest criterion, the largest λ among ties; -1 without a path."""
    stop: str
    """Why the path ended, one of `STOPS`."""
    loss: str = "squared"
    threshold: float = 0.0
    """Threshold of the Huber loss, in units of y; 0 for the others."""
    fit_is: str = "rss"
    """What `fit` is: ``rss`` or ``deviance``."""
    groups: Any = None
    """The groups that entered instead of columns, a `daskfs.kernels.group_lasso.groups.Orthonormal`."""
    gram: GramCache | None = None
    """With the squared loss, what a refit needs of the features that the path examined."""
    solver: str = "descent"
    """``homotopy`` or ``descent``."""
    given_up: str = ""
    """Why the homotopy gave up; empty if it did not or was not tried."""
    dispersion: float = 1.0
    n_separable: int = 0
    """Number of refits on the path without a finite minimum. Their deviance is the infimum."""
    n_passes: int = 0
    """Number of passes over the block after that of the moments."""
    n_steps: int = 0
    n_unsolved: int = 0
    """Number of descents that did not converge, because columns nearly depend on each other: not exactly optimal."""

    @property
    def n_units(self) -> np.ndarray:
        """Number of features, or groups, of each model, shape (n_lambdas,)."""
        return self.is_active.sum(axis=1)

    def selected_units(self, step: int | None = None) -> np.ndarray:
        """Return the features, or groups, of the model at one step, ascending; by default of the chosen step."""
        step = self.best if step is None else step
        if step < 0:
            return np.empty(0, dtype=np.int64)
        return np.sort(self.entered[self.is_active[step]])

    def selected(self, step: int | None = None) -> np.ndarray:
        """Return the columns of the model at one step, ascending; by default of the chosen step."""
        units, groups = self.selected_units(step), self.groups
        if groups is None:
            return units
        parts = [groups.members[groups.bounds[g] : groups.bounds[g + 1]] for g in units.tolist()]
        return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts]))

    def coefficients(self, step: int) -> np.ndarray:
        """Return the shrunk coefficients of all columns, on the scale of the data, shape (n_features,)."""
        coef, scale, groups = np.zeros(len(self.moments.scale)), self.moments.scale, self.groups
        if groups is None:
            coef[self.entered] = self.coef[step] / scale[self.entered]
            return coef
        ends = np.cumsum(groups.rank[self.entered])
        for g, end, is_active in zip(self.entered.tolist(), ends.tolist(), self.is_active[step], strict=True):
            if is_active:
                columns, factor = groups.members[groups.bounds[g] : groups.bounds[g + 1]], groups.factor(g)
                own = np.flatnonzero(np.diag(factor))  # the coefficients of dependent columns are 0
                coef[columns[own]] = np.linalg.solve(
                    factor[np.ix_(own, own)].T, self.coef[step, end - groups.rank[g] : end]
                )
        return np.divide(coef, scale, out=coef, where=scale > 0.0)

    def intercept(self, step: int) -> float:
        """Return the intercept for `coefficients`."""
        mean, entered = self.moments.mean, self.entered
        if self.groups is None:
            shift = self.coef[step] * (mean[entered] / self.moments.scale[entered])
        else:
            shift = mean * self.coefficients(step)
        return float(self.centred_intercepts[step] - shift.sum())
