"""Steps 3 and 4 of MESSAGE: the subsets' votes on the features, and a second vote on those that most subsets miss.

On its path a subset chooses among models that the Lasso makes. Of correlated features it may miss one that it would
keep if it were asked: a weak feature that enters after several of noise. More subsets do not find it by a vote.

    Input: the votes, the majority M
    1. The contenders C: features with more votes than noise gets, the expected number of features of noise with as many
       votes v being below 0.1: p P(B >= v) < 0.1, B binomial of the subsets and the mean frequency below the majority.
    2. Fit M ∪ C on every subset i: z_ij = b_ij / se(b_ij).
    3. Subset i votes for contender j where its criterion gains by j: z_ij² > λ_i. Keep those for which more than half
       of all subsets vote with the same sign.

A subset says the same yes or no as in the first vote, at the same price λ. What fewer than half of the subsets say,
however wild their rows, admits no feature, whatever the number of subsets: no number enters but the votes. (A statistic
of all rows would find weaker features and be moved by a few subsets; the median of z, scaled by √m, is moved by any
share of them once they are many.) The second vote is not in the paper; ``Message(second_look=False)`` leaves it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from daskfs.errors import Caution
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.lasso.criteria import binomial_tail
from daskfs.kernels.linear.linalg import extend_cholesky, forward_substitution
from daskfs.selectors.message.choices import Choices
from daskfs.selectors.message.subset import Gain, NormalEquations

FALSE_CONTENDERS = 0.1  # features of noise that may be expected to be looked at again


class Vote(NamedTuple):
    """Step 3."""

    is_selected: np.ndarray
    """Shape (n_features,), bool."""
    frequency: np.ndarray
    """Shape (n_features,): the share of the subsets that chose a feature, among those where it is not constant; NaN
    where it is constant in all."""
    is_contender: np.ndarray
    """Shape (n_features,), bool: not selected, but with more votes than noise gets."""

    def with_always(self, is_always: np.ndarray) -> Vote:
        """Return the vote with some features in every model, which nobody votes on."""
        frequency = np.where(is_always, 1.0, self.frequency)
        return Vote(self.is_selected | is_always, frequency, self.is_contender & ~is_always)


def count_votes(choices: Choices, n_features: int, tie: str) -> Vote:
    """Count the votes: a feature is selected for which more than half of the subsets vote.

    A subset whose target is constant has no vote; one where a column is constant has not voted for it. Of several
    classes each is voted on by itself: a feature is selected for all classes where it is for one, and its frequency is
    its highest.

    Parameters
    ----------
    choices : Choices
        With one ballot for each class.
    n_features : int
    tie : {"drop", "keep"}
        Whether exactly half is enough.
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
    found: np.ndarray = coef * equations.scale / errors_of_least_squares(equations, coef)
    return found


def errors_of_least_squares(equations: NormalEquations, coef: np.ndarray) -> np.ndarray:
    """Return the standard errors of standardised coefficients, of least squares on every subset; NaN where none is.

    Parameters are those of `z_of_least_squares`.
    """
    error, scale = np.full(coef.shape, np.nan), equations.scale
    patterns, pattern = np.unique(scale > 0.0, axis=0, return_inverse=True)
    for k, varies in enumerate(patterns):  # most often one: all columns vary in all subsets
        at = np.ix_(pattern.ravel() == k, varies)
        b, total = coef[at] * scale[at], equations.total[at[0][:, 0]]
        explained = (b[:, None] @ equations.cross[at][:, :, None])[:, 0, 0]
        left = equations.y_variance[at[0][:, 0]] - explained  # the residuals' variance
        dispersion = left * total / np.maximum(total - b.shape[1] - 1.0, 1.0)
        gram = equations.gram[at[0][:, :, None], at[1][:, :, None], at[1][None]]
        error[at] = np.sqrt(_variances(total[:, None, None] * gram, dispersion))
    return error


def gain_of_least_squares(equations: NormalEquations, coef: np.ndarray, groups: ColumnGroups) -> Gain:
    """Return by how much least squares on every subset gains by each of some groups, over the noise.

    Parameters
    ----------
    equations : NormalEquations
    coef : ndarray of shape (n_subsets, n_columns)
        The fits, for their signs.
    groups : ColumnGroups
        Of the columns, some of them.
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
    """Return the part of the target's variance on a subset that some columns explain, and their rank."""
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
    """Return for which columns more than half of the subsets vote, of several classes for one, with the same sign.

    Parameters
    ----------
    z : ndarray of shape (n_known, n_columns) or (n_known, n_classes, n_columns)
        NaN where a subset does not know: no vote.
    penalty : ndarray of shape (n_known,)
        The subsets' λ.
    n_subsets : int
        All of them, those of which nothing is known any more too.

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
    """Return the notes on subsets that had no vote, and on paths that are not exact everywhere."""
    notes, m = [], len(choices)
    if n_silent := int(choices.ballots.abstains.sum()):
        notes.append(f"the target is constant on {n_silent} of {m} subsets: they have no vote")
    if n_unsolved := int((choices.n_unsolved > 0).sum()):
        notes.append(
            Caution(
                f"not converged on {n_unsolved} of {m} subsets: columns nearly depend on each other, and descent along "
                "the path stopped before it was exact"
            )
        )
    if n_separable := int((choices.n_separable > 0).sum()):
        notes.append(
            f"on the paths of {n_separable} of {m} subsets are models whose features tell rows without error "
            "(separation): no coefficients are best, and the criterion takes the deviance that they fall to"
        )
    return notes


def notes_on_votes(frequency: np.ndarray, names: Sequence[str] | np.ndarray | None, kind: str = "column") -> list[str]:
    """Return the notes on columns, or groups of them, that nobody could vote on."""
    constant = np.flatnonzero(np.isnan(frequency))
    if not len(constant):
        return []
    shown = ", ".join(f"x{j}" if names is None else str(names[j]) for j in constant[:5])
    more = ", ..." if len(constant) > 5 else ""
    return [f"{len(constant)} {kind}(s) are constant and cannot be selected: {shown}{more}"]
