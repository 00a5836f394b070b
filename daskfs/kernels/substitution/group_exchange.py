"""The exchange step for groups of columns: a group is added exactly, and the cheapest groups are dropped to make room.

This is `daskfs.kernels.substitution.exchange` with a group G of q columns instead of one. With H = M_SG and D = M_GG,

    g = c_G - Hᵀ v,   σ = D - Hᵀ M_S⁻¹ H = L Lᵀ,   y = L⁻¹ g,   gain = ½ |y|²,   Z = L⁻¹ (M_S⁻¹ H)ᵀ

describe the group's columns orthonormalised against the members and each other in the inner product of M. With them v'
= v - Zᵀ y and (M⁻¹)' = M⁻¹ + Zᵀ Z, so dropping a member group K, with block B = (M⁻¹)'_KK, costs ½ v'_Kᵀ B⁻¹ v'_K.

A column that is explained by the members and earlier columns of its group has no pivot. A load on the diagonal of M
gives it one, the tolerance's share of its d. M is then positive definite. Dummies that add up to one, and columns in
two groups, share what they explain, and if one is dropped the other takes it over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import dot_of_first
from daskfs.kernels.substitution.exchange import MIN_GAIN, NO_ONE, is_copy


class GroupCandidates(NamedTuple):
    """Columns of candidate groups, concatenated by group."""

    cross: np.ndarray  # (B, >= n_members) M between the candidates and the current members
    linear: np.ndarray  # (B,) c
    products: np.ndarray  # (B, widest) M between a column and the columns of its group
    bounds: np.ndarray  # (n_candidates + 1,) group g has the columns from bounds[g] to bounds[g + 1]
    sizes: np.ndarray  # (n_candidates,) size of each group
    usable: np.ndarray  # (n_candidates,) bool; False for members


class GroupedModel(NamedTuple):
    """The members by group. Those that are never dropped come first."""

    inverse: np.ndarray  # (>= n_members, >= n_members) M⁻¹
    coef: np.ndarray  # (>= n_members,) v
    squares: np.ndarray  # (n_members,) diagonal of M without the ridge
    slots: np.ndarray  # (n_members,) slots of the members, concatenated by group
    bounds: np.ndarray  # (n_groups + 1,)
    sizes: np.ndarray  # (n_groups,) size of each group
    n_fixed: int  # number of groups
    room: int  # total size of the groups that may be added before one must be dropped


@kernel
def group_scan(candidates, start, model, ridge, price, tolerance, least_pivot, counts, gone):  # type: ignore[no-untyped-def]
    """Scan groups until one is accepted.

    Parameters
    ----------
    candidates : GroupCandidates
    start : int
        First group to examine.
    model : GroupedModel
        Not modified.
    ridge : float
    price : float
        How much an exchange must lower the objective.
    tolerance : float
        Smallest share of a column's variance that the members must leave unexplained.
    least_pivot : float
        Pivot of a column below that, as a share of its d.
    counts : ndarray of shape (1,), COUNTS
        Refused groups are those whose columns are all explained by the members.
    gone : ndarray of shape (n_groups,), bool
        Set if a group is accepted: the members that it replaces.

    Returns
    -------
    int
        Number of the accepted group; the number of candidates if none was accepted.
    """
    n_candidates, n = candidates.usable.shape[0], model.slots.shape[0]
    widest, room = candidates.products.shape[1], model.room
    most = widest
    for m in range(model.sizes.shape[0]):
        most = max(most, model.bounds[m + 1] - model.bounds[m])
    z, factor, load, y = np.zeros((widest, n)), np.zeros((widest, widest)), np.zeros(widest), np.zeros(widest)
    block = np.zeros((most + 1, most))
    for g in range(start, n_candidates):
        if is_stopped():
            break
        if not candidates.usable[g]:
            continue
        counts[0]["n_presented"] += 1
        first, q = candidates.bounds[g], candidates.bounds[g + 1] - candidates.bounds[g]
        h, within = candidates.cross[first : first + q], candidates.products[first : first + q]
        linear = candidates.linear[first : first + q]
        n_own = orthonormalise(
            h, linear, within, model.inverse, model.coef, n, tolerance, least_pivot, z, factor, y, load
        )
        if is_stopped():
            break
        if ridge > 0.0:
            for a in range(q):
                n_own -= load[a] == 0.0 and is_copy(h[a], within[a, a] - ridge, model.squares, n, tolerance)
        if n_own == 0:
            counts[0]["n_refused"] += 1
            continue
        gone[:] = False
        gain = 0.5 * dot_of_first(y, y, q)
        needed = candidates.sizes[g] - room
        worth = gain * (1.0 - MIN_GAIN) - price
        if needed <= 0 or _make_room(model, z[:q], factor, y, needed, worth, gone, block):
            return g
    return n_candidates


@kernel
def orthonormalise(  # type: ignore[no-untyped-def]
    h, linear, within, inverse, coef, n_members, tolerance, least_pivot, z, factor, y, load
):
    """Write Z, L, y and the loads of a group. Return the number of its columns that are not explained."""
    n_own = 0
    for a in range(h.shape[0]):
        if is_stopped():
            break
        shift = z[a]
        for i in range(n_members):
            shift[i] = dot_of_first(inverse[i], h[a], n_members)
        for b in range(a):
            entry = within[a, b] - dot_of_first(h[b], shift, n_members)
            factor[a, b] = (entry - dot_of_first(factor[a], factor[b], b)) / factor[b, b]
        pivot = within[a, a] - dot_of_first(h[a], shift, n_members) - dot_of_first(factor[a], factor[a], a)
        load[a] = 0.0
        if pivot >= tolerance * within[a, a]:
            n_own += 1
        least = least_pivot * within[a, a] if within[a, a] > 0.0 else 1.0
        if not pivot >= least:
            load[a] = least - pivot
            pivot = least
        root = math.sqrt(pivot)
        factor[a, a] = root
        y[a] = linear[a] - dot_of_first(h[a], coef, n_members)
        for b in range(a):
            y[a] -= factor[a, b] * y[b]
            for i in range(n_members):
                shift[i] -= factor[a, b] * z[b, i]
        y[a] /= root
        for i in range(n_members):
            shift[i] /= root
    return n_own


@kernel
def _make_room(model, z, factor, y, needed, gain, gone, block):  # type: ignore[no-untyped-def]
    """Mark the groups to drop for a candidate. Return whether they cost less than its gain.

    The group with the lowest cost for the size needed goes first; usually it suffices.
    """
    inverse, coef, slots, bounds = model.inverse, model.coef, model.slots, model.bounds
    while True:
        cheapest, least, cost = NO_ONE, np.inf, np.inf
        for m in range(model.n_fixed, model.sizes.shape[0]):
            if is_stopped():
                return False
            if gone[m]:
                continue
            found = _cost(inverse, coef, z, y, slots[bounds[m] : bounds[m + 1]], block)
            price = found / min(needed, model.sizes[m])
            if price < least:
                cheapest, least, cost = m, price, found
        gain -= cost
        if cheapest == NO_ONE or not gain > 0.0:
            return False
        gone[cheapest] = True
        needed -= model.sizes[cheapest]
        if needed <= 0:
            return True
        if z.shape[0] > 0:
            inverse, coef = enlarge(inverse, coef, slots.shape[0], z, factor, y)
            z, y = z[:0], y[:0]
        drop(inverse, coef, slots[bounds[cheapest] : bounds[cheapest + 1]])


@kernel
def _cost(inverse, coef, z, y, slots, block):  # type: ignore[no-untyped-def]
    """Return the cost of dropping a group once Z, y are in: ½ |F⁻¹ v|² with B = F Fᵀ. `block` is for F and F⁻¹ v."""
    q, n = z.shape[0], slots.shape[0]
    solved = block[block.shape[0] - 1]
    cost = 0.0
    for i in range(n):
        row, value = slots[i], coef[slots[i]]
        for a in range(q):
            value -= z[a, row] * y[a]
        for j in range(i + 1):
            entry = inverse[row, slots[j]]
            for a in range(q):
                entry += z[a, row] * z[a, slots[j]]
            entry -= dot_of_first(block[i], block[j], j)
            if j < i:
                block[i, j] = entry / block[j, j]
            elif not entry > 0.0:
                return np.inf
            else:
                block[i, i] = math.sqrt(entry)
        solved[i] = (value - dot_of_first(block[i], solved, i)) / block[i, i]
        cost += 0.5 * solved[i] * solved[i]
    return cost


@kernel
def enlarge(inverse, coef, n_members, z, factor, y):  # type: ignore[no-untyped-def]
    """Return M⁻¹ and v with a group appended to the members: arrays of n_members + q rows."""
    q, n = z.shape[0], n_members
    more, values = np.zeros((n + q, n + q)), np.zeros(n + q)
    for i in range(n):
        values[i] = coef[i]
        for j in range(n):
            more[i, j] = inverse[i, j]
    for a in range(q):
        if is_stopped():
            break
        for i in range(n):
            values[i] -= z[a, i] * y[a]
            for j in range(n):
                more[i, j] += z[a, i] * z[a, j]
    back = np.zeros((q, q))  # L⁻¹
    for a in range(q):
        back[a, a] = 1.0 / factor[a, a]
        for b in range(a):
            for c in range(b, a):
                back[a, b] -= factor[a, c] * back[c, b]
            back[a, b] /= factor[a, a]
    for a in range(q):
        for c in range(a, q):
            values[n + a] += back[c, a] * y[c]
            for i in range(n):
                more[i, n + a] -= z[c, i] * back[c, a]
            for b in range(a + 1):
                more[n + a, n + b] += back[c, a] * back[c, b]
        for i in range(n):
            more[n + a, i] = more[i, n + a]
        for b in range(a):
            more[n + b, n + a] = more[n + a, n + b]
    return more, values


@kernel
def drop(inverse, coef, slots):  # type: ignore[no-untyped-def]
    """Remove members from M⁻¹ and v, in place: their rows and columns become zero."""
    n = coef.shape[0]
    for s in range(slots.shape[0]):
        if is_stopped():
            break
        p = slots[s]
        row = inverse[p].copy()
        value, d = coef[p], row[p]
        for i in range(n):
            factor = row[i] / d
            coef[i] -= factor * value
            for j in range(n):
                inverse[i, j] -= factor * row[j]
        inverse[p, :] = 0.0
        inverse[:, p] = 0.0
        coef[p] = 0.0


@kernel
def group_costs(inverse, coef, slots, bounds):  # type: ignore[no-untyped-def]
    """Return the increase of the approximation when each group is dropped and the rest refitted, shape (n_groups,)."""
    n_groups, most = bounds.shape[0] - 1, 1
    for m in range(n_groups):
        most = max(most, bounds[m + 1] - bounds[m])
    costs, block = np.zeros(n_groups), np.zeros((most + 1, most))
    z, y = np.zeros((0, coef.shape[0])), np.zeros(0)
    for m in range(n_groups):
        if is_stopped():
            break
        found = _cost(inverse, coef, z, y, slots[bounds[m] : bounds[m + 1]], block)
        if found < np.inf:  # otherwise the loss of every row is 0, and there is no inverse
            costs[m] = found
    return costs


@kernel
def group_gains(gradient, products, bounds, least_pivot):  # type: ignore[no-untyped-def]
    """Return ½ gᵀ D⁻¹ g for each group: its gain if it were orthogonal to the members."""
    widest = products.shape[1]
    gains, none, no_inverse = np.zeros(bounds.shape[0] - 1), np.zeros((widest, 0)), np.zeros((0, 0))
    factor, load, y = np.zeros((widest, widest)), np.zeros(widest), np.zeros(widest)
    for g in range(gains.shape[0]):
        if is_stopped():
            break
        first, q = bounds[g], bounds[g + 1] - bounds[g]
        orthonormalise(
            none[:q], gradient[first : first + q], products[first : first + q], no_inverse, gradient, 0, 0.0,
            least_pivot, none, factor, y, load,
        )  # fmt: skip
        gains[g] = 0.5 * dot_of_first(y, y, q)
    return gains


@kernel
def loads_of(matrix, least_pivot):  # type: ignore[no-untyped-def]
    """Return the loads that give each column of a positive semidefinite matrix a pivot, shape (n,)."""
    n = matrix.shape[0]
    factor, load = np.zeros((n, n)), np.zeros(n)
    for i in range(n):
        if is_stopped():
            break
        for j in range(i):
            factor[i, j] = (matrix[i, j] - dot_of_first(factor[i], factor[j], j)) / factor[j, j]
        pivot = matrix[i, i] - dot_of_first(factor[i], factor[i], i)
        least = least_pivot * matrix[i, i] if matrix[i, i] > 0.0 else 1.0
        if not pivot >= least:
            load[i] = least - pivot
            pivot = least
        factor[i, i] = math.sqrt(pivot)
    return load
