"""The exchange step of online substitution: add a column exactly, drop the member whose loss costs least.

On a quadratic model of the loss, ½ vᵀ M v - cᵀ v with the ridge in M, the members S have the inverse M_S⁻¹ and the
optimal coefficients v = M_S⁻¹ c. A newcomer j with h = M_Sj, d = M_jj and c_j has

    g = c_j - hᵀ v,   a = M_S⁻¹ h,   σ = d - hᵀ a,   gain = g² / 2σ;
    with it v'_i = v_i - a_i g / σ and (M⁻¹)'_ii = (M⁻¹)_ii + a_i² / σ, so dropping i costs ½ v'_i² / (M⁻¹)'_ii.

It takes the place of the cheapest member where that costs less than the gain: the model never rises. Where σ is below a
share of d, the newcomer is a combination of the members, and is refused; with a ridge, σ is never so small, and a
newcomer is refused whose product with a single member says so.

The linear term may be of any point: where others hold a part of the prediction (asynchronous substitution), with r the
negative derivative of the loss at the common prediction, c_S = X_Sᵀ r + M_S v and c_j = x_jᵀ r + hᵀ v, M_S without the
ridge. So a worker's v moves against what the others predict.

All vectors have the capacity's length; the first `n_members` entries count, the first `n_fixed` of these are never
dropped.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import dot_of_first

MIN_GAIN = 1e-9
"""Part of its gain by which a newcomer must win: less is rounding."""

COLLINEAR = -2
NO_ONE = -1

COUNTS = np.dtype([(name, np.int64) for name in ("n_presented", "n_refused")])
"""Candidates of a walk. Kernels take an array of one such record and add to it."""


class Candidates(NamedTuple):
    """A block of columns that may enter."""

    cross: np.ndarray  # (B, capacity) M between the candidates and the present members
    linear: np.ndarray  # (B,) c_j
    diagonal: np.ndarray  # (B,) M_jj
    usable: np.ndarray  # (B,) bool; False: constant columns, and members


@kernel
def exchange_scan(  # type: ignore[no-untyped-def]
    candidates, start, inverse, coef, squares, ridge, n_members, n_fixed, tolerance, counts, change, explained, is_trial
):
    """Walk through a block until a newcomer is accepted.

    Parameters
    ----------
    candidates : Candidates
    start : int
        First newcomer to look at.
    inverse : ndarray of shape (capacity, capacity), float64
        M_S⁻¹; updated.
    coef : ndarray of shape (capacity,), float64
        v; updated.
    squares : ndarray of shape (capacity,), float64
        Diagonal of M without the ridge; asked for where there is a ridge.
    ridge : float
    n_members, n_fixed : int
    tolerance : float
        Least σ / d.
    counts : ndarray of shape (1,), COUNTS
        Refused are the collinear ones.
    change : ndarray of shape (1,), float64
        What the model's value changed by; added to.
    explained : ndarray of shape (B,), float64
        Written of those looked at: hᵀ M_S⁻¹ h.
    is_trial : bool
        Whether the model stays as it is and all are looked at; `usable` becomes False of those who do not pay.

    Returns
    -------
    newcomer, slot : int
        Who was accepted and where; slot = n_members where there was room. The block's size and -1 where nobody was.
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
            cross[b], linear[b], diagonal[b], inverse, coef, n_members, n_fixed, tolerance, shift, change,
            explained[b : b + 1], is_trial,
        )  # fmt: skip
        if slot == COLLINEAR:
            counts[0]["n_refused"] += 1
        elif is_trial:
            usable[b] = slot >= 0
        elif slot >= 0:
            return b, slot
    return cross.shape[0], NO_ONE


@kernel
def is_copy(h, square, squares, n_members, tolerance):  # type: ignore[no-untyped-def]
    """Return whether one member alone explains the newcomer: a ridge would share a coefficient between the two."""
    is_copy = False
    for i in range(n_members):
        is_copy |= h[i] * h[i] > (1.0 - tolerance) * square * squares[i]
    return is_copy


@kernel
def exchange(  # type: ignore[no-untyped-def]
    h, linear, diagonal, inverse, coef, n_members, n_fixed, tolerance, shift, change, explained, is_trial
):
    """Let one newcomer in where it wins; return its slot, `NO_ONE` or `COLLINEAR`."""
    gradient = linear - dot_of_first(h, coef, n_members)
    for i in range(n_members):
        shift[i] = dot_of_first(inverse[i], h, n_members)
    explained[0] = dot_of_first(h, shift, n_members)
    pivot = diagonal - explained[0]
    if not pivot >= tolerance * diagonal:
        return COLLINEAR
    newcomer = gradient / pivot
    gain = 0.5 * gradient * newcomer
    if n_members < coef.shape[0]:
        if not is_trial:
            _grow(inverse, coef, n_members, shift, pivot, newcomer)
            change[0] -= gain
        return n_members
    cheapest = NO_ONE
    cost = gain * (1.0 - MIN_GAIN)
    for i in range(n_fixed, n_members):
        value = coef[i] - shift[i] * newcomer
        found = 0.5 * value * value / (inverse[i, i] + shift[i] * shift[i] / pivot)
        if found < cost:
            cost = found
            cheapest = i
    if cheapest != NO_ONE and not is_trial:
        _swap(inverse, coef, cheapest, shift, pivot, newcomer)
        change[0] += cost - gain
    return cheapest


@kernel
def _grow(inverse, coef, n_members, shift, pivot, newcomer):  # type: ignore[no-untyped-def]
    """Border the inverse with a newcomer behind the members."""
    for i in range(n_members):
        coef[i] -= shift[i] * newcomer
        _add_multiple(inverse[i], shift[i] / pivot, shift, n_members)
        inverse[i, n_members] = -shift[i] / pivot
        inverse[n_members, i] = inverse[i, n_members]
    inverse[n_members, n_members] = 1.0 / pivot
    coef[n_members] = newcomer


@kernel
def _swap(inverse, coef, slot, shift, pivot, newcomer):  # type: ignore[no-untyped-def]
    """Border the inverse with a newcomer, take the member in `slot` out, give the newcomer its place."""
    n = coef.shape[0]
    for i in range(n):
        coef[i] -= shift[i] * newcomer
        _add_multiple(inverse[i], shift[i] / pivot, shift, n)
    row = inverse[slot].copy()
    last = -shift[slot] / pivot  # of the row, in the newcomer's column
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


class Bound(NamedTuple):
    """What is known of the members when candidates are judged that were looked at before; see `cannot_enter`."""

    inverse: np.ndarray  # (A, A) of M⁻¹, of the members that are new since
    drift: float  # ν
    worth: float  # w²: twice the cost of the cheapest removal
    least: float  # of the diagonal of M
    ridge: float
    tolerance: float
    margin: float  # for rounding
    spread: float  # root of the target's mean square


@kernel
def cannot_enter(cross, gradient, square, most, bound, passed):  # type: ignore[no-untyped-def]
    """Say of candidates whether bounds of what the members explain of them keep them out.

    Parameters
    ----------
    cross : ndarray of shape (B, A), float64
        Products with the members that are new.
    gradient, square : ndarray of shape (B,), float64
        g, and the mean square of each column.
    most : ndarray of shape (B,), float32
        Bounds of e as it was.
    bound : Bound
    passed : ndarray of shape (B,), bool
        Becomes False where a candidate may enter.
    """
    inverse, drift, worth, least, ridge, tolerance, margin, spread = bound
    n_new = inverse.shape[0]
    for b in range(passed.shape[0]):
        if is_stopped():
            break
        if not passed[b]:
            continue
        of_new = 0.0
        for i in range(n_new):
            of_new += cross[b, i] * dot_of_first(inverse[i], cross[b], n_new)
        e = float(most[b])
        root = math.sqrt(max(of_new, 0.0)) + drift * math.sqrt(e)
        diagonal = square[b] + ridge
        e += root * root
        e += margin * (e + diagonal)
        left = diagonal - e
        size = abs(gradient[b]) + margin * spread * math.sqrt(square[b])
        passed[b] = size * (size + 2.0 * math.sqrt(worth * e)) <= (1.0 - margin) * left * worth
        passed[b] &= left > 2.0 * tolerance * diagonal
        if ridge > 0.0:  # nor is it the copy of a member
            passed[b] &= e * least <= (1.0 - 2.0 * tolerance) * square[b] * (least - ridge)


@kernel
def removal_costs(inverse, coef, n_members):  # type: ignore[no-untyped-def]
    """Return what the model rises by when each member is dropped and the others are refitted, shape (n_members,)."""
    costs = np.zeros(n_members)
    for i in range(n_members):
        if inverse[i, i] > 0.0:  # not where the loss is 0 of every row, and no inverse is known
            costs[i] = 0.5 * coef[i] * coef[i] / inverse[i, i]
    return costs
