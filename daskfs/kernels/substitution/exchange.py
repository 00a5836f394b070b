"""The exchange step of online substitution: add a column exactly, and drop the member whose removal costs least.

On a quadratic approximation of the loss, ½ vᵀ M v - cᵀ v with the ridge in M, the members S have the inverse M_S⁻¹ and
the optimal coefficients v = M_S⁻¹ c. A candidate j with h = M_Sj, d = M_jj and c_j has

    g = c_j - hᵀ v,   a = M_S⁻¹ h,   σ = d - hᵀ a,   gain = g² / 2σ;
    with it v'_i = v_i - a_i g / σ and (M⁻¹)'_ii = (M⁻¹)_ii + a_i² / σ, so dropping i costs ½ v'_i² / (M⁻¹)'_ii.

The candidate replaces the cheapest member if that costs less than the gain by more than the price of an exchange, so
the approximation never increases. If σ is below a share of d, the candidate is a linear combination of the members and
is refused. With a ridge, σ is never that small; then a candidate is refused if its product with a single member shows
that it is a copy.

The linear term may belong to any point. If others hold a part of the prediction (asynchronous substitution), with r the
negative derivative of the loss at the common prediction, c_S = X_Sᵀ r + M_S v and c_j = x_jᵀ r + hᵀ v, with M_S without
the ridge. A worker's v then responds to the predictions of the others.

All vectors have the length of the capacity. Only the first `n_members` elements count, and the first `n_fixed` of these
are never dropped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import dot_of_first

MIN_GAIN = 1e-9
"""Share of its gain by which a candidate must win. A smaller advantage is rounding."""

COLLINEAR = -2
NO_ONE = -1

COUNTS = np.dtype([(name, np.int64) for name in ("n_presented", "n_refused")])
"""Numbers of candidates in a scan. Kernels take an array with one such record and increment it."""


class Candidates(NamedTuple):
    """A block of candidate columns."""

    cross: np.ndarray  # (B, capacity) M between the candidates and the current members
    linear: np.ndarray  # (B,) c_j
    diagonal: np.ndarray  # (B,) M_jj
    usable: np.ndarray  # (B,) bool; False: constant columns, and members


@kernel
def exchange_scan(  # type: ignore[no-untyped-def]
    candidates, start, inverse, coef, squares, ridge, price, n_members, n_fixed, tolerance, counts, change
):
    """Scan a block until a candidate is accepted.

    Parameters
    ----------
    candidates : Candidates
    start : int
        First candidate to examine.
    inverse : ndarray of shape (capacity, capacity), float64
        M_S⁻¹; updated.
    coef : ndarray of shape (capacity,), float64
        v; updated.
    squares : ndarray of shape (capacity,), float64
        Diagonal of M without the ridge; used only with a ridge.
    ridge : float
    price : float
        How much an exchange must lower the approximation's value.
    n_members, n_fixed : int
    tolerance : float
        Smallest σ / d.
    counts : ndarray of shape (1,), COUNTS
        Refused candidates are the collinear ones.
    change : ndarray of shape (1,), float64
        Change of the approximation's value; incremented.

    Returns
    -------
    candidate, slot : int
        Number of the accepted candidate and its slot; slot = n_members if there was room. The block's size and -1 if
        none was accepted.
    """
    cross, linear, diagonal, usable = candidates
    shift = np.zeros(coef.shape[0])
    for b in range(start, cross.shape[0]):
        if is_stopped():
            break
        if not usable[b]:
            continue
        counts[0]["n_presented"] += 1
        if ridge > 0.0 and is_copy(cross[b], diagonal[b] - ridge, squares, n_members, tolerance):
            counts[0]["n_refused"] += 1
            continue
        slot = exchange(
            cross[b], linear[b], diagonal[b], inverse, coef, price, n_members, n_fixed, tolerance, shift, change
        )
        if slot == COLLINEAR:
            counts[0]["n_refused"] += 1
        elif slot >= 0:
            return b, slot
    return cross.shape[0], NO_ONE


@kernel
def is_copy(h, square, squares, n_members, tolerance):  # type: ignore[no-untyped-def]
    """Return whether a single member explains the candidate: with a ridge, the two would share a coefficient."""
    is_copy = False
    for i in range(n_members):
        is_copy |= h[i] * h[i] > (1.0 - tolerance) * square * squares[i]
    return is_copy


@kernel
def exchange(  # type: ignore[no-untyped-def]
    h, linear, diagonal, inverse, coef, price, n_members, n_fixed, tolerance, shift, change
):
    """Accept one candidate if it wins. Return its slot, `NO_ONE` or `COLLINEAR`."""
    gradient = linear - dot_of_first(h, coef, n_members)
    for i in range(n_members):
        shift[i] = dot_of_first(inverse[i], h, n_members)
    pivot = diagonal - dot_of_first(h, shift, n_members)
    if not pivot >= tolerance * diagonal:
        return COLLINEAR
    newcomer = gradient / pivot
    gain = 0.5 * gradient * newcomer
    if n_members < coef.shape[0]:
        _grow(inverse, coef, n_members, shift, pivot, newcomer)
        change[0] -= gain
        return n_members
    cheapest = NO_ONE
    cost = gain * (1.0 - MIN_GAIN) - price
    for i in range(n_fixed, n_members):
        value = coef[i] - shift[i] * newcomer
        found = 0.5 * value * value / (inverse[i, i] + shift[i] * shift[i] / pivot)
        if found < cost:
            cost = found
            cheapest = i
    if cheapest != NO_ONE:
        _swap(inverse, coef, cheapest, shift, pivot, newcomer)
        change[0] += cost - gain
    return cheapest


@kernel
def _grow(inverse, coef, n_members, shift, pivot, newcomer):  # type: ignore[no-untyped-def]
    """Extend the inverse by a candidate behind the members."""
    for i in range(n_members):
        coef[i] -= shift[i] * newcomer
        _add_multiple(inverse[i], shift[i] / pivot, shift, n_members)
        inverse[i, n_members] = -shift[i] / pivot
        inverse[n_members, i] = inverse[i, n_members]
    inverse[n_members, n_members] = 1.0 / pivot
    coef[n_members] = newcomer


@kernel
def _swap(inverse, coef, slot, shift, pivot, newcomer):  # type: ignore[no-untyped-def]
    """Extend the inverse by a candidate, remove the member in `slot`, and move the candidate there."""
    n = coef.shape[0]
    for i in range(n):
        coef[i] -= shift[i] * newcomer
        _add_multiple(inverse[i], shift[i] / pivot, shift, n)
    row = inverse[slot].copy()
    last = -shift[slot] / pivot  # of the row, in the candidate's column
    value = coef[slot]
    d = row[slot]
    for i in range(n):
        if i != slot:
            coef[i] -= row[i] * value / d
            _add_multiple(inverse[i], -row[i] / d, row, n)
    for i in range(n):
        if i != slot:
            inverse[i, slot] = -shift[i] / pivot - row[i] * last / d
            inverse[slot, i] = inverse[i, slot]
    inverse[slot, slot] = 1.0 / pivot - last * last / d
    coef[slot] = newcomer - last * value / d


@inner_loop
def _add_multiple(row, factor, other, length):  # type: ignore[no-untyped-def]
    for i in range(length):
        row[i] += factor * other[i]


@kernel
def removal_costs(inverse, coef, n_members):  # type: ignore[no-untyped-def]
    """Return the increase of the approximation when each member is dropped and the rest refitted."""
    costs = np.zeros(n_members)
    for i in range(n_members):
        if inverse[i, i] > 0.0:  # not if the loss of every row is 0 and there is no inverse
            costs[i] = 0.5 * coef[i] * coef[i] / inverse[i, i]
    return costs
