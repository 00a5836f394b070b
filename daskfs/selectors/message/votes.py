"""Steps 3 and 4 of MESSAGE: the subsets' votes on the features, and a second look at those that most subsets miss.

A subset sees a weak feature with some chance, 0.4 say. More subsets of the same size do not find it by a vote: they
make its loss certain, though all rows together show it plainly.

    Input: the votes, the majority M
    1. The contenders C: features with more votes than noise gets, the expected number of features of noise with as many
       votes v being below 0.1: p P(B >= v) < 0.1, B binomial of the subsets and the mean frequency below the majority.
    2. Fit M ∪ C on every subset i: z_ij = b_ij / se(b_ij), that of any other feature being near 0.
    3. T_j = sqrt(2 m / π) median_i z_ij, standard normal over many subsets where feature j has no influence.
    4. Keep the contenders with T_j² > log n + 2 gamma log p, the criterion of all rows.

The median keeps what MESSAGE is for: subsets with outliers, as long as they are fewer than half, decide nothing.
The second look is not in the paper; ``Message(second_look=False)`` leaves it out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from daskfs.errors import Caution
from daskfs.kernels.lasso.criteria import binomial_tail, feature_penalty
from daskfs.selectors.message.subset import Ballot, NormalEquations, SubsetChoice

FALSE_CONTENDERS = 0.1  # features of noise that may be expected to be looked at again
NO_VOTE = Ballot(np.empty(0, dtype=np.int64), np.empty(0), 0.0, abstains=True)


class Vote(NamedTuple):
    """Step 3."""

    is_selected: np.ndarray
    """Shape (n_features,), bool."""
    frequency: np.ndarray
    """Shape (n_features,): the share of the subsets that chose a feature, among those where it is not constant; NaN
    where it is constant in all."""
    is_contender: np.ndarray
    """Shape (n_features,), bool: not selected, but with more votes than noise gets."""


def count_votes(choices: Sequence[SubsetChoice], n_features: int, tie: str) -> Vote:
    """Count the votes: strictly more than half of the subsets where a column varies, which are more than half of all.

    A subset whose target is constant has no vote. Of several classes each is voted on by itself: a feature is selected
    for all classes where it is for one, and its frequency is its highest.

    Parameters
    ----------
    choices : sequence of SubsetChoice
    n_features : int
    tie : {"drop", "keep"}
        Whether exactly half is enough.
    """
    constants = [choice.constant for choice in choices]
    by_class = zip_longest(*(choice.ballots for choice in choices), fillvalue=NO_VOTE)
    votes = [_vote(ballots, constants, n_features, tie) for ballots in by_class]
    is_selected = np.logical_or.reduce([vote.is_selected for vote in votes])
    is_contender = np.logical_or.reduce([vote.is_contender for vote in votes])
    return Vote(is_selected, np.fmax.reduce([vote.frequency for vote in votes]), is_contender & ~is_selected)


def _vote(ballots: Sequence[Ballot], constants: Sequence[np.ndarray], n_features: int, tie: str) -> Vote:
    n_voting = sum(not ballot.abstains for ballot in ballots)
    votes, not_voting_on = (np.zeros(n_features, dtype=np.int64) for _ in range(2))
    for ballot, constant in zip(ballots, constants, strict=True):
        votes[ballot.selected] += 1
        if not ballot.abstains:
            not_voting_on[constant] += 1
    voters = n_voting - not_voting_on
    majority = 2 * votes > voters if tie == "drop" else (2 * votes >= voters) & (votes > 0)
    frequency = np.divide(votes, voters, out=np.full(n_features, np.nan), where=voters > 0)
    can_be_selected = 2 * voters > n_voting
    is_selected = majority & can_be_selected
    others = ~is_selected & (voters > 0)
    enough = least_votes(int(votes[others].sum()), int(voters[others].sum()), n_voting, n_features)
    return Vote(is_selected, frequency, others & can_be_selected & (votes >= enough))


def least_votes(n_votes: int, n_ballots: int, n_subsets: int, n_features: int) -> int:
    """Return with how many votes a feature is unlikely to be noise.

    Parameters
    ----------
    n_votes, n_ballots : int
        Of the features below the majority: how often one was chosen by a subset, of how many times it could have been.
    n_subsets, n_features : int

    Examples
    --------
    >>> least_votes(n_votes=100, n_ballots=25 * 1000, n_subsets=25, n_features=1000)
    4
    >>> least_votes(n_votes=20, n_ballots=5 * 1000, n_subsets=5, n_features=1000)
    3
    """
    share = n_votes / max(n_ballots, 1)
    v = 1
    while v <= n_subsets and n_features * binomial_tail(n_subsets, share, v) >= FALSE_CONTENDERS:
        v += 1
    return v


def z_of_least_squares(equations: NormalEquations, coef: np.ndarray) -> np.ndarray:
    """Return coefficients over their standard errors, of least squares on every subset; NaN where there is none.

    Parameters
    ----------
    equations : NormalEquations
    coef : ndarray of shape (n_subsets, n_columns)
        On the scale of the data.
    """
    z = np.full(coef.shape, np.nan)
    for i, total in enumerate(equations.total):
        varies = np.flatnonzero(equations.scale[i] > 0.0)
        b = coef[i, varies] * equations.scale[i, varies]
        left = float(equations.y_variance[i] - b @ equations.cross[i, varies])  # the residuals' variance
        dispersion = left * total / max(total - len(varies) - 1.0, 1.0)
        gram = equations.gram[i][np.ix_(varies, varies)]
        z[i, varies] = b / _standard_errors(total * gram, dispersion)
    return z


def z_of_likelihood(
    coef: np.ndarray, dispersion: np.ndarray, hessian: np.ndarray, scale: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return coefficients over their standard errors, of maximum likelihood on every subset; NaN where there is none.

    Parameters
    ----------
    coef : ndarray of shape (n_subsets, n_columns) or (n_subsets, n_classes, n_columns)
        On the scale of the data; NaN where a subset does not know.
    dispersion : ndarray of shape (n_subsets,)
        Noise of the score over its derivative, 1 for a likelihood.
    hessian : ndarray of shape (n_subsets, k, k)
        As `Derivatives` have it.
    scale : ndarray of shape (n_columns,)
        Of the columns in which `hessian` is.
    n_classes : int
        0 where there is one coefficient for each column.
    """
    z = np.full(coef.shape, np.nan)
    n_columns = coef.shape[-1]
    for i, matrix in enumerate(hessian):
        varies = np.flatnonzero(~np.isnan(coef[i]).reshape(-1, n_columns).any(axis=0))
        kept = np.concatenate([[0], 1 + varies])
        if not n_classes:
            errors = _standard_errors(matrix[np.ix_(kept, kept)], dispersion[i])
            z[i, varies] = coef[i, varies] * scale[varies] / errors[1:]
            continue
        width = 1 + n_columns
        places = (np.arange(n_classes - 1)[:, None] * width + kept).ravel()
        errors = _errors_of_classes(matrix[np.ix_(places, places)], n_classes)
        z[i][:, varies] = coef[i][:, varies] * scale[varies] / errors[:, 1:]
    return z


def _standard_errors(hessian: np.ndarray, dispersion: float) -> np.ndarray:
    """Return the square roots of the inverse's diagonal; infinite where there is no inverse."""
    variance = np.diag(_inverse(hessian)) * dispersion
    return np.sqrt(np.where(variance > 0.0, variance, np.inf))


def _errors_of_classes(hessian: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the standard errors of the coefficients of all classes, of sum 0, from the Hessian of all but the last."""
    n_free = n_classes - 1
    covariance = _inverse(hessian).reshape(n_free, len(hessian) // n_free, n_free, -1)
    centring = np.eye(n_classes, n_free) - 1.0 / n_classes
    variance = np.einsum("ca,aqbq,cb->cq", centring, covariance, centring)
    return np.sqrt(np.where(variance > 0.0, variance, np.inf))


def _inverse(hessian: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(hessian)
    except np.linalg.LinAlgError:
        return np.full_like(hessian, np.inf)


def common_z(z: np.ndarray) -> np.ndarray:
    """Return T of each column: the median of the subsets' z on the scale of all rows; the class' whose T is largest.

    Parameters
    ----------
    z : ndarray of shape (n_subsets, n_columns) or (n_subsets, n_classes, n_columns)
        NaN where a subset does not know.

    Returns
    -------
    ndarray of shape (n_columns,)
        0 where no subset knows.
    """
    known = ~np.isnan(z)
    n_known = known.sum(axis=0)
    middle = np.nanmedian(np.where(known.any(axis=0), z, 0.0), axis=0)
    common = np.sqrt(2.0 * n_known / math.pi) * np.abs(middle)
    return common.max(axis=0) if common.ndim > 1 else common


def confirmed(
    z: np.ndarray | None, columns: np.ndarray, is_contender: np.ndarray, n_samples: float, gamma: float
) -> np.ndarray:
    """Return which features are contenders that all subsets together confirm; none where rows that it takes are gone.

    Parameters
    ----------
    z : ndarray of shape (n_subsets, n_columns) or (n_subsets, n_classes, n_columns), or None
        Of the majority's features and the contenders.
    columns : ndarray of shape (n_columns,)
        Which these are, ascending.
    is_contender : ndarray of shape (n_features,), bool
    n_samples : float
        Of all subsets.
    gamma : float
        EBIC's γ.
    """
    is_kept = np.zeros(len(is_contender), dtype=bool)
    if z is not None:
        is_kept[columns] = is_beyond(common_z(z), n_samples, len(is_contender), gamma)
    return is_kept & is_contender


def is_beyond(common: np.ndarray, n_samples: float, n_features: int, gamma: float) -> np.ndarray:
    """Return which columns the criterion of all rows keeps."""
    kept: np.ndarray = common**2 > feature_penalty("ebic", n_samples, n_features, gamma)
    return kept


def notes_on_choices(choices: Sequence[SubsetChoice]) -> list[str]:
    """Return the notes on subsets that had no vote, and on paths that are not exact everywhere."""
    notes, m = [], len(choices)
    if n_silent := sum(ballot.abstains for choice in choices for ballot in choice.ballots):
        notes.append(f"the target is constant on {n_silent} of {m} subsets: they have no vote")
    if n_unsolved := sum(choice.n_unsolved > 0 for choice in choices):
        notes.append(
            Caution(
                f"not converged on {n_unsolved} of {m} subsets: columns nearly depend on each other, and descent along "
                "the path stopped before it was exact"
            )
        )
    return notes


def notes_on_votes(frequency: np.ndarray, names: np.ndarray | None) -> list[str]:
    """Return the notes on columns that nobody could vote on."""
    constant = np.flatnonzero(np.isnan(frequency))
    if not len(constant):
        return []
    shown = ", ".join(f"x{j}" if names is None else str(names[j]) for j in constant[:5])
    more = ", ..." if len(constant) > 5 else ""
    return [f"{len(constant)} column(s) are constant and cannot be selected: {shown}{more}"]
