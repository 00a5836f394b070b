"""Steps 3 and 4 of MESSAGE: the vote on the features, and a second vote on those that most subsets missed.

On its path a subset chooses only among the models of the Lasso. Among correlated features it may miss one that it would
keep if it were tested directly: a weak feature that enters after several noise features. More subsets do not help then.

    Input: the votes, the majority M
    1. The contenders C: features with more votes than noise gets. With v votes, the expected number of noise features
       with as many votes is below 0.1: p P(B >= v) < 0.1, where B is binomial, with the number of subsets and the mean
       frequency of the features below the majority.
    2. Fit M ∪ C on every subset i: z_ij = b_ij / se(b_ij).
    3. Subset i votes for contender j if j lowers its criterion: z_ij² > λ_i. Keep the contenders for which more than
       half of all subsets vote with the same sign.

A subset answers the same question as in the first vote, with the same λ. Fewer than half of the subsets cannot admit a
feature, however wild their rows and whatever the number of subsets, because only votes count. (A statistic over all
rows would find weaker features, but a few subsets could sway it; the median of z, scaled by √m, is swayed by any share
of the subsets once they are many.) The second vote is not in the paper; ``Message(second_look=False)`` omits it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from daskfs.errors import Caution
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.lasso.criteria import binomial_tail
from daskfs.kernels.linear.linalg import extend_cholesky, forward_substitution
from daskfs.selectors.message.choices import Choices, NormalEquations
from daskfs.selectors.message.subset import Gain

FALSE_CONTENDERS = 0.1  # expected number of noise features among the contenders, at most


class Units(NamedTuple):
    """What subsets vote on: columns, or groups of columns that are selected together or not at all."""

    unit_of: np.ndarray
    """The unit of each column, shape (n_features,), int64."""
    n_units: int
    kind: str = "feature"
    groups: FeatureGroups | None = None
    of_path: ColumnGroups | None = None
    """Groups that a path keeps together."""


class Vote(NamedTuple):
    """Result of step 3."""

    is_selected: np.ndarray
    """Shape (n_features,), bool."""
    frequency: np.ndarray
    """Shape (n_features,): share of the subsets that chose a feature, among those where it is not constant, else NaN.
    """
    is_contender: np.ndarray
    """Shape (n_features,), bool: not selected, but with more votes than noise gets."""

    def with_always(self, is_always: np.ndarray) -> Vote:
        """Return the vote with some features in every model, without a vote on them."""
        frequency = np.where(is_always, 1.0, self.frequency)
        return Vote(self.is_selected | is_always, frequency, self.is_contender & ~is_always)


def count_votes(choices: Choices, n_features: int, tie: str) -> Vote:
    """Count the votes: a feature is selected if more than half of the subsets vote for it.

    A subset whose target is constant has no vote; a subset where a column is constant has not voted for it. With
    several classes each class has its own vote: a feature is selected if it is selected for one class, and its
    frequency is the highest over the classes.

    Parameters
    ----------
    choices : Choices
        With one ballot for each class.
    n_features : int
    tie : {"drop", "keep"}
        Whether exactly half of the votes is enough.
    """
    votes = [_vote(choices, of_class, n_features, tie) for of_class in np.unique(choices.ballots.of_class)]
    is_selected = np.logical_or.reduce([vote.is_selected for vote in votes])
    is_contender = np.logical_or.reduce([vote.is_contender for vote in votes])
    return Vote(is_selected, np.fmax.reduce([vote.frequency for vote in votes]), is_contender & ~is_selected)


def _vote(choices: Choices, of_class: int, n_features: int, tie: str) -> Vote:
    ballots, is_cast = choices.ballots, choices.ballots.of_class == of_class
    n_voting = int((is_cast & ~ballots.abstains).sum())
    votes = np.bincount(ballots.selected[np.repeat(is_cast, ballots.n_selected)], minlength=n_features)
    has_vote = np.bincount(choices.of_subset, is_cast & ~ballots.abstains, minlength=len(choices)) > 0.0
    not_voting_on = np.bincount(choices.constant[np.repeat(has_vote, choices.n_constant)], minlength=n_features)
    voters = n_voting - not_voting_on
    is_selected = 2 * votes > n_voting if tie == "drop" else (2 * votes >= n_voting) & (votes > 0)
    frequency = np.divide(votes, voters, out=np.full(n_features, np.nan), where=voters > 0)
    others = ~is_selected & (voters > 0)
    enough = least_votes(int(votes[others].sum()), int(voters[others].sum()), n_voting, n_features)
    return Vote(is_selected, frequency, others & (2 * voters > n_voting) & (votes >= enough))


def least_votes(n_votes: int, n_ballots: int, n_subsets: int, n_features: int) -> int:
    """Return the number of votes with which a feature is unlikely to be noise.

    Parameters
    ----------
    n_votes, n_ballots : int
        Votes for the features below the majority, and the largest number of votes they could have had.
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
    """Return least-squares coefficients divided by their standard errors, for every subset; NaN where there is none.

    Parameters
    ----------
    equations : NormalEquations
    coef : ndarray of shape (n_subsets, n_columns)
        On the scale of the data.
    """
    found: np.ndarray = coef * equations.scale / errors_of_least_squares(equations, coef)
    return found


def errors_of_least_squares(equations: NormalEquations, coef: np.ndarray) -> np.ndarray:
    """Return the standard errors of standardised least-squares coefficients, for every subset; NaN where none exists.

    Parameters are those of `z_of_least_squares`.
    """
    error, scale = np.full(coef.shape, np.nan), equations.scale
    patterns, pattern = np.unique(scale > 0.0, axis=0, return_inverse=True)
    for k, varies in enumerate(patterns):  # usually one: all columns vary in all subsets
        at = np.ix_(pattern.ravel() == k, varies)
        b, total = coef[at] * scale[at], equations.total[at[0][:, 0]]
        explained = (b[:, None] @ equations.cross[at][:, :, None])[:, 0, 0]
        left = equations.y_variance[at[0][:, 0]] - explained  # variance of the residuals
        dispersion = left * total / np.maximum(total - b.shape[1] - 1.0, 1.0)
        gram = equations.gram[at[0][:, :, None], at[1][:, :, None], at[1][None]]
        error[at] = np.sqrt(_variances(total[:, None, None] * gram, dispersion))
    return error


def gain_of_least_squares(equations: NormalEquations, coef: np.ndarray, groups: ColumnGroups) -> Gain:
    """Return how much least squares gains by each of some groups on every subset, relative to the noise.

    Parameters
    ----------
    equations : NormalEquations
    coef : ndarray of shape (n_subsets, n_columns)
        The fits, for their signs.
    groups : ColumnGroups
        Groups of some of the columns.
    """
    n_subsets = len(equations.scale)
    size, df = np.empty((n_subsets, len(groups.bounds) - 1)), np.empty((n_subsets, len(groups.bounds) - 1))
    for i in range(n_subsets):
        varies = equations.scale[i] > 0.0
        explained, rank = _explained(equations, i, varies)
        total = equations.total[i]
        dispersion = (equations.y_variance[i] - explained) * total / max(total - rank - 1.0, 1.0)
        for k, (start, stop) in enumerate(pairwise(groups.bounds.tolist())):
            own = groups.members[start:stop]
            others = varies.copy()
            others[own] = False
            without, rank_without = _explained(equations, i, others)
            size[i, k] = total * (explained - without) / dispersion if dispersion > 0.0 else np.nan
            is_negative = len(own) == 1 and coef[i, own[0]] < 0.0
            df[i, k] = (rank_without - rank) if is_negative else rank - rank_without
    return Gain(size, df)


def _explained(equations: NormalEquations, i: int, takes_part: np.ndarray) -> tuple[float, int]:
    """Return the part of the target's variance that some columns explain on a subset, and their rank."""
    members = np.flatnonzero(takes_part)
    factor = np.zeros((len(members), len(members)))
    rank = extend_cholesky(equations.gram[i], members, len(members), 0, factor)
    right = equations.cross[i, members]
    return float(forward_substitution(factor, len(members), right, np.empty(len(members)))), int(rank)


def _variances(hessian: np.ndarray, dispersion: np.ndarray) -> np.ndarray:
    """Return the diagonals of the inverses; infinite where there is no inverse."""
    try:
        variance = np.diagonal(np.linalg.inv(hessian), axis1=1, axis2=2) * dispersion[:, None]
    except np.linalg.LinAlgError:
        if len(hessian) > 1:
            each = (slice(i, i + 1) for i in range(len(hessian)))
            return np.concatenate([_variances(hessian[one], dispersion[one]) for one in each])
        return np.full(hessian.shape[:2], np.inf)
    return np.where(variance > 0.0, variance, np.inf)


def second_vote(z: np.ndarray, penalty: np.ndarray, n_subsets: int) -> np.ndarray:
    """Return the columns that more than half of the subsets vote for with the same sign, for one class at least.

    Parameters
    ----------
    z : ndarray of shape (n_known, n_columns) or (n_known, n_classes, n_columns)
        NaN where a subset has no estimate: no vote.
    penalty : ndarray of shape (n_known,)
        The subsets' λ.
    n_subsets : int
        Number of all subsets, including those about which nothing is known any more.

    Returns
    -------
    ndarray of shape (n_columns,), bool

    Examples
    --------
    >>> z = np.array([[3.0, -3.0, 9.0], [3.0, 3.0, 0.0], [0.0, 3.0, np.nan]])
    >>> second_vote(z, penalty=np.full(3, 6.0), n_subsets=3)
    array([ True,  True, False])
    """
    bar = np.sqrt(penalty).reshape(-1, *[1] * (z.ndim - 1))
    votes = np.maximum((z > bar).sum(axis=0), (z < -bar).sum(axis=0))
    is_kept: np.ndarray = (2 * votes > n_subsets).reshape(-1, z.shape[-1]).any(axis=0)
    return is_kept


def notes_on_choices(choices: Choices) -> list[str]:
    """Return the notes on subsets without a vote, and on paths that are not exact everywhere."""
    notes, m = [], len(choices)
    if n_silent := int(choices.ballots.abstains.sum()):
        notes.append(f"the target is constant on {n_silent} of {m} subsets: they have no vote")
    if n_unsolved := int((choices.n_unsolved > 0).sum()):
        notes.append(
            Caution(
                f"not converged on {n_unsolved} of {m} subsets: the path ended at its limit of iterations, because "
                "columns are nearly linearly dependent or nearly separate the classes"
            )
        )
    if n_separable := int((choices.n_separable > 0).sum()):
        notes.append(
            f"on the paths of {n_separable} of {m} subsets, some models separate rows perfectly (separation): they "
            "have no finite optimum, and the criterion uses the limit of their deviance (or approximates it, where "
            "columns are not decoded)"
        )
    return notes


def notes_on_votes(frequency: np.ndarray, names: Sequence[str] | np.ndarray | None, kind: str = "column") -> list[str]:
    """Return the notes on columns, or groups, that are constant in all subsets."""
    constant = np.flatnonzero(np.isnan(frequency))
    if not len(constant):
        return []
    shown = ", ".join(f"x{j}" if names is None else str(names[j]) for j in constant[:5])
    more = ", ..." if len(constant) > 5 else ""
    return [f"{len(constant)} {kind}(s) are constant and cannot be selected: {shown}{more}"]
