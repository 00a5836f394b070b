"""From the subsets to one answer: their votes on the features, the average of their fits, one Newton step from it.

The statistics of a subset's least-squares problem are its total weight, the means, standard deviations and standardised
Gram matrix of the selected columns, and their products with the target: a few kilobytes that add up to those of
all rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.glm.softmax import centred
from daskfs.kernels.linear.linalg import extend_cholesky, minimum_norm, solve_cholesky
from daskfs.selectors.message.second_look import least_votes

LONG_STEP = 0.05  # in the mean loss of a row: a step that promises more starts where the quadratic says nothing


class Vote(NamedTuple):
    """Step 3."""

    is_selected: np.ndarray
    """Shape (n_features,), bool."""
    frequency: np.ndarray
    """Shape (n_features,): the share of the subsets that chose a feature, among those where it is not constant; NaN
    where it is constant in all."""
    is_contender: np.ndarray
    """Shape (n_features,), bool: not selected, but with more votes than noise gets (`message_second_look`)."""


def count_votes(chosen: dict[str, np.ndarray], n_features: int, n_classes: int, tie: str) -> Vote:
    """Count the votes, for each class where there are classes."""
    return vote_by_class(chosen, n_features, n_classes, tie) if n_classes else vote(chosen, n_features, tie)


def vote(chosen: dict[str, np.ndarray], n_features: int, tie: str) -> Vote:
    """Count the votes: strictly more than half of the subsets where a column varies, which are more than half of all.

    Parameters
    ----------
    chosen : dict of ndarray
        ``selected`` and ``constant``, column numbers of all subsets in a row, and ``n_constant`` and ``abstains`` of
        each: a subset whose target is constant has no vote.
    n_features : int
    tie : {"drop", "keep"}
        Whether exactly half is enough.
    """
    votes = np.bincount(chosen["selected"], minlength=n_features)
    has_voted = ~chosen["abstains"]
    constant = chosen["constant"][np.repeat(has_voted, chosen["n_constant"])]
    n_voting = int(has_voted.sum())
    voters = n_voting - np.bincount(constant, minlength=n_features)
    majority = 2 * votes > voters if tie == "drop" else (2 * votes >= voters) & (votes > 0)
    frequency = np.divide(votes, voters, out=np.full(n_features, np.nan), where=voters > 0)
    can_be_selected = 2 * voters > n_voting
    is_selected = majority & can_be_selected
    others = ~is_selected & (voters > 0)
    enough = least_votes(int(votes[others].sum()), int(voters[others].sum()), n_voting, n_features)
    return Vote(is_selected, frequency, others & can_be_selected & (votes >= enough))


def vote_by_class(chosen: dict[str, np.ndarray], n_features: int, n_classes: int, tie: str) -> Vote:
    """Count the votes for each class; a feature is selected for all where it is for one, its frequency is its highest.

    Parameters
    ----------
    chosen : dict of ndarray
        As of `vote`, but ``selected`` holds ``c * n_features + j`` for the column j of class c, and ``abstains`` has
        shape (n_subsets, n_classes).
    n_features, n_classes : int
    tie : {"drop", "keep"}
    """
    of_class, column = np.divmod(chosen["selected"], n_features)
    votes = [
        vote(chosen | {"selected": column[of_class == c], "abstains": chosen["abstains"][:, c]}, n_features, tie)
        for c in range(n_classes)
    ]
    frequency = np.fmax.reduce([one.frequency for one in votes])
    is_selected = np.logical_or.reduce([one.is_selected for one in votes])
    is_contender = np.logical_or.reduce([one.is_contender for one in votes])
    return Vote(is_selected, frequency, is_contender & ~is_selected)


def coefficient_norm(coef: np.ndarray) -> np.ndarray:
    """Return the size of each column's coefficients, shape (n_columns,): their norm over the classes."""
    return np.sqrt((np.atleast_2d(coef) ** 2).sum(axis=0))


class Average(NamedTuple):
    """Of the subsets' fits; of the multinomial loss with an axis of classes first."""

    coef: np.ndarray
    """Shape (n_selected,) or (n_classes, n_selected), on the scale of the data."""
    intercept: Any
    mean: np.ndarray
    scale: np.ndarray
    """Of the selected columns, over all rows; shape (n_selected,)."""

    @property
    def centred_intercept(self) -> Any:
        """The prediction where every column has its mean."""
        return self.intercept + (self.mean * self.coef).sum(axis=-1)


def solve(gram: np.ndarray, cross: np.ndarray) -> tuple[np.ndarray, bool]:
    """Solve ``gram b = cross`` for a gram of unit diagonal; the shortest solution, and True, where it is singular."""
    n = len(cross)
    factor = np.zeros((n, n))
    rank = extend_cholesky(gram, np.arange(n), n, 0, factor)
    if rank < n:
        return minimum_norm(gram, cross), True
    solution = np.empty(n)
    solve_cholesky(factor, n, cross, solution)
    return solution, False


def least_squares_fits(statistics: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of every subset and whether its columns are linearly dependent.

    Parameters
    ----------
    statistics : dict of ndarray
        ``scale`` and ``cross`` of shape (n_subsets, n_selected), ``gram`` of (n_subsets, n_selected, n_selected).

    Returns
    -------
    coef : ndarray of shape (n_subsets, n_selected)
        On the scale of the data; NaN where a column is constant in a subset.
    is_singular : ndarray of shape (n_subsets,), bool
    """
    scale = statistics["scale"]
    coef, is_singular = np.full(scale.shape, np.nan), np.zeros(len(scale), dtype=bool)
    for i in range(len(scale)):
        varies = np.flatnonzero(scale[i] > 0.0)
        gram = np.ascontiguousarray(statistics["gram"][i][np.ix_(varies, varies)])
        solution, is_singular[i] = solve(gram, statistics["cross"][i, varies])
        coef[i, varies] = solution / scale[i, varies]
    return coef, is_singular


def mean_of_fits(coef: np.ndarray, statistics: dict[str, np.ndarray], trusted: np.ndarray | None = None) -> Average:
    """Average the subsets' coefficients, each over the subsets that know it; the intercept follows from the means.

    Parameters
    ----------
    coef : ndarray of shape (n_subsets, n_selected) or (n_subsets, n_classes, n_selected)
        NaN where a subset does not know.
    statistics : dict of ndarray
        ``total`` and ``y_mean`` of shape (n_subsets,) or (n_subsets, n_classes), ``mean`` and
        ``scale`` of (n_subsets, n_selected).
    trusted : ndarray of shape (n_subsets,), bool, optional
        Whose fits count.
    """
    mean, scale = _mean_and_scale(statistics)
    share = _shares(statistics)
    if trusted is not None:
        coef = np.where(trusted.reshape(-1, *[1] * (coef.ndim - 1)), coef, np.nan)
        share = np.where(trusted, share, 0.0) / share[trusted].sum()
    known = ~np.isnan(coef)
    averaged = np.where(known, coef, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    y_mean = (share * statistics["y_mean"].T).sum(axis=-1)
    return Average(averaged, y_mean - (mean * averaged).sum(axis=-1), mean, scale)


def all_rows_fit(statistics: dict[str, np.ndarray]) -> Average:
    """Return the least-squares fit of all rows: one Newton step from anywhere ends there.

    Parameters
    ----------
    statistics : dict of ndarray
        ``total`` and ``y_mean`` of shape (n_subsets,), ``mean``, ``scale``, ``cross`` of (n_subsets, n_selected),
        ``gram`` of (n_subsets, n_selected, n_selected).
    """
    mean, scale = _mean_and_scale(statistics)
    share = _shares(statistics)
    y_mean = float((share * statistics["y_mean"]).sum())
    gram, cross = np.zeros((len(mean), len(mean))), np.zeros(len(mean))
    for i in range(len(share)):  # in the order of the subsets: the same bits everywhere
        within, between = statistics["scale"][i] / scale, (statistics["mean"][i] - mean) / scale
        gram += share[i] * (np.outer(within, within) * statistics["gram"][i] + np.outer(between, between))
        cross += share[i] * (within * statistics["cross"][i] + between * (statistics["y_mean"][i] - y_mean))
    np.fill_diagonal(gram, 1.0)
    coef = solve(gram, cross)[0] / scale
    return Average(coef, y_mean - float((mean * coef).sum()), mean, scale)


def newton_step(start: Average, slopes: dict[str, np.ndarray], total: float) -> Average | None:
    """Take one Newton step on all rows; None where it would be too long to be trusted.

    Parameters
    ----------
    start : Average
    slopes : dict of ndarray
        ``gradient`` of shape (n_subsets, 1 + n_selected) and ``hessian`` of (n_subsets, 1 + n_selected, 1 + n_selected)
        of the summed loss, in the intercept and the coefficients of the columns centred and scaled as `start` says; of
        the multinomial loss those of all classes but the last, one class after the other.
    total : float
        Sum of the weights.
    """
    gradient, hessian = slopes["gradient"].sum(axis=0), slopes["hessian"].sum(axis=0)
    size = np.sqrt(np.diag(hessian))
    if not (size > 0.0).all():
        return None
    scaled = hessian / size / size[:, None]
    np.fill_diagonal(scaled, 1.0)
    step = solve(scaled, -gradient / size)[0] / size
    if not np.isfinite(step).all() or 0.5 * abs(float((gradient * step).sum())) > LONG_STEP * total:
        return None
    if start.coef.ndim > 1:
        step = centred(step.reshape(len(start.coef) - 1, -1))
    coef = start.coef + step[..., 1:] / start.scale
    intercept = start.centred_intercept + step[..., 0] - (start.mean * coef).sum(axis=-1)
    return Average(coef, intercept, start.mean, start.scale)


def _shares(statistics: dict[str, np.ndarray]) -> np.ndarray:
    share: np.ndarray = statistics["total"] / statistics["total"].sum()
    return share


def _mean_and_scale(statistics: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations over all rows."""
    share = _shares(statistics)[:, None]
    mean = (share * statistics["mean"]).sum(axis=0)
    variance = (share * (statistics["scale"] ** 2 + (statistics["mean"] - mean) ** 2)).sum(axis=0)
    return mean, np.sqrt(variance)
