"""Groups of the columns of a block, orthonormalised so that a group's penalty does not depend on the choice of columns.

Z_g are the standardised columns of a group, with ⟨u, v⟩ = Σ_i w_i u_i v_i / W and Gram matrix L Lᵀ. The columns of Q_g
= Z_g L⁻ᵀ are orthonormal. A column that depends on earlier ones (the last dummy of a category) has a pivot of 0 and no
part in Q_g: a group has as many degrees of freedom as its rank, not its size.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.blocks.any_block import standardised_columns
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import add_row
from daskfs.kernels.linear.linalg import factorise, forward_substitution
from daskfs.kernels.linear.moments import Moments
from daskfs.kernels.linear.weighted_gram import extend_hessian


class ColumnGroups(NamedTuple):
    """A partition of all columns: group g has ``members[bounds[g]:bounds[g + 1]]``."""

    members: np.ndarray
    bounds: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Number of columns of each group."""
        return np.diff(self.bounds)

    @property
    def are_columns(self) -> bool:
        """Whether each column is a group of its own."""
        return len(self.bounds) == len(self.members) + 1


class Orthonormal(NamedTuple):
    """Groups and the Cholesky factors of the correlations of their columns."""

    members: np.ndarray
    bounds: np.ndarray
    begins: np.ndarray  # (n_groups + 1,) the factor of g, row by row, is factors[begins[g]:begins[g + 1]]
    factors: np.ndarray
    rank: np.ndarray  # (n_groups,) 0 for a group that cannot enter: constant, or too large
    price: np.ndarray  # (n_groups,) factor of λ: the root of the rank

    def factor(self, group: int) -> np.ndarray:
        """Return the factor L of a group."""
        size = int(self.bounds[group + 1] - self.bounds[group])
        return self.factors[self.begins[group] : self.begins[group + 1]].reshape(size, size)


def made_orthonormal(
    groups: ColumnGroups, m: Moments, X: Any, share: np.ndarray, gram: np.ndarray | None, most: int
) -> Orthonormal:
    """Return the groups of a block with their factors.

    Parameters
    ----------
    groups : ColumnGroups
    m : Moments
    X : DenseBlock or ColumnEntries
    share : ndarray of shape (n_samples,)
        Weights divided by their sum.
    gram : ndarray of shape (n_features, n_features), optional
        Correlations of all columns, if known.
    most : int
        A group of higher rank cannot enter. A group with more than twice as many columns is not examined.
    """
    sizes = np.where(groups.sizes > 2 * most, 0, groups.sizes)
    begins = np.concatenate([[0], np.cumsum(sizes * sizes)])
    factors, rank = np.zeros(begins[-1]), np.zeros(len(sizes), dtype=np.int64)
    if gram is None:
        _factor_columns(X, share, m.mean, m.scale, groups.members, groups.bounds, begins, factors, rank)
    else:
        _factor_gram(gram, m.scale, groups.members, groups.bounds, begins, factors, rank)
    rank[rank > most] = 0
    return Orthonormal(groups.members, groups.bounds, begins, factors, rank, np.sqrt(rank))


@kernel
def _factor_columns(X, share, mean, scale, members, bounds, begins, factors, rank):  # type: ignore[no-untyped-def]
    """Write the factor and rank of every group, from copies of its columns."""
    largest = 1
    for g in range(rank.shape[0]):
        if begins[g + 1] > begins[g]:
            largest = max(largest, bounds[g + 1] - bounds[g])
    copies, work, all_of_them = np.empty((largest, share.shape[0])), np.empty(share.shape[0]), np.arange(largest)
    gram, varying, place = (
        np.empty((largest + 1, largest + 1)),
        np.empty(largest, np.int64),
        np.empty(largest, np.int64),
    )
    for g in range(rank.shape[0]):
        if is_stopped():
            break
        if begins[g + 1] == begins[g]:
            continue
        size, n = bounds[g + 1] - bounds[g], 0
        for a in range(size):
            if scale[members[bounds[g] + a]] > 0.0:
                varying[n], place[n] = members[bounds[g] + a], a
                n += 1
        factor = factors[begins[g] : begins[g + 1]].reshape(size, size)
        if n == 1:
            factor[place[0], place[0]] = 1.0
            rank[g] = 1
            continue
        standardised_columns(X, mean, scale, varying[:n], copies[:n])
        extend_hessian(copies, all_of_them, n, 0, share, gram, work)
        rank[g] = _factor_group(gram[1:, 1:], place, n, factor)


@kernel
def _factor_gram(gram, scale, members, bounds, begins, factors, rank):  # type: ignore[no-untyped-def]
    """Write the factor and rank of every group, from the correlations of all columns."""
    for g in range(rank.shape[0]):
        if is_stopped():
            break
        if begins[g + 1] == begins[g]:
            continue
        size, n = bounds[g + 1] - bounds[g], 0
        own, place = np.empty((size, size)), np.empty(size, np.int64)
        for a in range(size):
            if scale[members[bounds[g] + a]] > 0.0:
                place[n] = a
                n += 1
        for a in range(n):
            for b in range(n):
                own[a, b] = gram[members[bounds[g] + place[a]], members[bounds[g] + place[b]]]
        rank[g] = _factor_group(own, place, n, factors[begins[g] : begins[g + 1]].reshape(size, size))


@kernel
def _factor_group(gram, place, n, factor):  # type: ignore[no-untyped-def]
    """Write the factor of the columns that vary, with zeros in the rows and columns of the others. Return the rank."""
    of_varying = np.zeros((n, n))
    for a in range(n):
        gram[a, a] = 1.0
    rank = factorise(gram, n, 0.0, of_varying)
    for a in range(n):
        for b in range(a + 1):
            factor[place[a], place[b]] = of_varying[a, b]
    return rank


@kernel
def gradient_size(groups, g, gradient, right, out):  # type: ignore[no-untyped-def]
    """Return ‖Q_gᵀ r‖ from the products ``gradient`` = Zᵀ r of all columns. `right` and `out` are work arrays."""
    first = groups.bounds[g]
    size = groups.bounds[g + 1] - first
    for a in range(size):
        right[a] = gradient[groups.members[first + a]]
    factor = groups.factors[groups.begins[g] : groups.begins[g + 1]].reshape(size, size)
    return math.sqrt(forward_substitution(factor, size, right, out))


@kernel
def copy_group(X, mean, scale, groups, g, columns, first):  # type: ignore[no-untyped-def]
    """Write Q_g into the rows of `columns`, starting at `first`."""
    rank, begin, at = groups.rank[g], groups.bounds[g], groups.begins[g]
    size = groups.bounds[g + 1] - begin
    features, place = np.empty(rank, np.int64), np.empty(rank, np.int64)
    n = 0
    for a in range(size):
        if groups.factors[at + a * size + a] > 0.0:
            features[n], place[n] = groups.members[begin + a], a
            n += 1
    standardised_columns(X, mean, scale, features, columns[first : first + n])
    for a in range(n):
        if is_stopped():
            break
        row = at + place[a] * size
        for b in range(a):
            add_row(columns, first + b, -groups.factors[row + place[b]], columns[first + a])
        pivot = groups.factors[row + place[a]]
        for i in range(columns.shape[1]):
            columns[first + a, i] /= pivot


@kernel
def orthonormal_gram(gram, cross, groups, entered, n_entered, out, right):  # type: ignore[no-untyped-def]
    """Write QᵀQ and Qᵀy of some groups, from position 1 on, using the correlations of all columns."""
    n_features = gram.shape[0]
    half = np.zeros((out.shape[0], n_features))  # Qᵀ Z
    q, of_group, solved = 1, np.empty(n_features), np.empty(n_features)
    for e in range(n_entered):
        if is_stopped():
            break
        g = entered[e]
        begin, size = groups.bounds[g], groups.bounds[g + 1] - groups.bounds[g]
        factor = groups.factors[groups.begins[g] : groups.begins[g + 1]].reshape(size, size)
        for j in range(n_features + 1):
            for a in range(size):
                k = groups.members[begin + a]
                of_group[a] = gram[k, j] if j < n_features else cross[k]
            forward_substitution(factor, size, of_group, solved)
            n = q
            for a in range(size):
                if factor[a, a] > 0.0:
                    if j < n_features:
                        half[n, j] = solved[a]
                    else:
                        right[n] = solved[a]
                    n += 1
        q += groups.rank[g]
    for row in range(1, q):
        n = 1
        for e in range(n_entered):
            g = entered[e]
            begin, size = groups.bounds[g], groups.bounds[g + 1] - groups.bounds[g]
            factor = groups.factors[groups.begins[g] : groups.begins[g + 1]].reshape(size, size)
            for a in range(size):
                of_group[a] = half[row, groups.members[begin + a]]
            forward_substitution(factor, size, of_group, solved)
            for a in range(size):
                if factor[a, a] > 0.0:
                    out[row, n] = solved[a]
                    n += 1
    for a in range(1, q):
        for b in range(a):
            out[b, a] = out[a, b]
