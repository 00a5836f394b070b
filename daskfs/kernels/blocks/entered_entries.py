"""Columns that a path over a block of entries has entered: positions of their entries instead of standardised copies.

A standardised column is a constant, ``-mean / scale``, plus a term at its entries. In a column without zeros, which may
be far from 0, the entries are centred and the constant is 0. The conventions are those of
`daskfs.kernels.linear.weighted_gram`: position 0 of matrices and vectors is the intercept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import sum_of
from daskfs.kernels.losses import recession_direction


class EnteredEntries(NamedTuple):
    """Column q is column ``feature[q]`` of the block: ``constant[q]`` everywhere, plus ``(x - centre[q]) * inverse[q]``
    at entries x.
    """

    block: ColumnEntries
    feature: np.ndarray
    """Shape (capacity,), int64. The next three have the same shape, float64."""
    constant: np.ndarray
    centre: np.ndarray
    inverse: np.ndarray
    members: np.ndarray
    """The columns whose entries by row follow, terminated by -1."""
    starts: np.ndarray
    """Shape (n_samples + 2,), int64."""
    places: np.ndarray
    """Positions of the entries in a Hessian, uint32."""
    parts: np.ndarray
    """Values of the entries, to be added to the constants."""


def new_entered_entries(block: ColumnEntries, capacity: int, makes_hessians: bool = True) -> EnteredEntries:
    """Return room for `capacity` columns, and for their entries by row if Hessians will be needed."""
    constant, centre, inverse = np.zeros((3, capacity))
    n_entries = min(len(block.rows), capacity * block.n_samples) if makes_hessians else 0
    return EnteredEntries(
        block, np.zeros(capacity, dtype=np.int64), constant, centre, inverse, np.full(capacity + 1, -1),
        np.zeros(block.n_samples + 2, dtype=np.int64), np.empty(n_entries, dtype=np.uint32), np.empty(n_entries),
    )  # fmt: skip


def entered_entries_nbytes(n_samples: int, capacity: int, n_entries: int) -> int:
    """Return the memory in bytes of `new_entered_entries`."""
    return 40 * capacity + 8 * n_samples + 12 * min(n_entries, capacity * n_samples)


@kernel
def enter_entries(columns, X, mean, scale, features, first):  # type: ignore[no-untyped-def]
    """Enter features as the columns from `first` on."""
    starts = columns.block.starts
    for f in range(features.shape[0]):
        q, j = first + f, features[f]
        is_full = starts[j + 1] - starts[j] == columns.block.n_samples
        columns.feature[q] = j
        columns.inverse[q] = 1.0 / scale[j]
        columns.centre[q] = mean[j] if is_full else 0.0
        columns.constant[q] = 0.0 if is_full else -mean[j] / scale[j]


@kernel
def take_entered(columns, q, others, r):  # type: ignore[no-untyped-def]
    """Copy column r of `others` to column q."""
    columns.feature[q] = others.feature[r]
    columns.inverse[q] = others.inverse[r]
    columns.centre[q] = others.centre[r]
    columns.constant[q] = others.constant[r]


@kernel
def add_entered(columns, members, n_members, step, factor, z):  # type: ignore[no-untyped-def]
    """Add ``factor * step`` times the members to z; see `daskfs.kernels.glm.newton.advance`."""
    constant = 0.0
    starts, rows, values = columns.block.starts, columns.block.rows, columns.block.values
    for k in range(n_members):
        if k % 16 == 0 and is_stopped():
            break
        if step[k + 1] != 0.0:
            q = members[k]
            constant += factor * step[k + 1] * columns.constant[q]
            j = columns.feature[q]
            _scatter(
                rows, values, np.uintp(starts[j]), np.uintp(starts[j + 1]), columns.centre[q],
                factor * step[k + 1] * columns.inverse[q], z,
            )  # fmt: skip
    for i in range(z.shape[0]):
        z[i] += constant


@inner_loop
def _scatter(rows, values, first, last, centre, factor, out):  # type: ignore[no-untyped-def]
    """Add entries `first` to `last`. A view would be reference-counted, which costs as much as a few entries."""
    for e in range(first, last):
        out[rows[e]] += factor * (values[e] - centre)


@inner_loop
def _gather(rows, values, first, last, centre, vector):  # type: ignore[no-untyped-def]
    total = 0.0
    for e in range(first, last):
        total += vector[rows[e]] * (values[e] - centre)
    return total


@kernel
def entered_products(columns, members, n_members, vector, out):  # type: ignore[no-untyped-def]
    """Write the products of the members with a vector; see `daskfs.kernels.linear.weighted_gram.member_products`."""
    whole = sum_of(vector)
    starts, rows, values = columns.block.starts, columns.block.rows, columns.block.values
    for k in range(n_members):
        if k % 16 == 0 and is_stopped():
            break
        q = members[k]
        j = columns.feature[q]
        product = _gather(rows, values, np.uintp(starts[j]), np.uintp(starts[j + 1]), columns.centre[q], vector)
        out[k + 1] = product * columns.inverse[q] + columns.constant[q] * whole


@kernel
def entered_product(columns, q, vector):  # type: ignore[no-untyped-def]
    """Return the product of column q with a vector."""
    out = np.empty(2)
    entered_products(columns, np.array([q]), 1, vector, out)
    return out[1]


@kernel
def weigh_entered(columns, q, weight, out):  # type: ignore[no-untyped-def]
    """Write weight times column q."""
    j = columns.feature[q]
    for i in range(out.shape[0]):
        out[i] = weight[i] * columns.constant[q]
    for e in range(columns.block.starts[j], columns.block.starts[j + 1]):
        i = columns.block.rows[e]
        out[i] += weight[i] * (columns.block.values[e] - columns.centre[q]) * columns.inverse[q]


@kernel
def staleness_of_entries(columns):  # type: ignore[no-untyped-def]
    """Return the largest ratio of consecutive squared steps at which a factor is kept.

    It is larger than with copies: a gradient costs a fiftieth of theirs, but a Hessian and its factor do not.
    """
    return 0.3


@kernel
def extend_entered_hessian(columns, members, n_members, first, weight, hessian, work):  # type: ignore[no-untyped-def]
    """Write rows of the weighted Gram matrix; see `daskfs.kernels.linear.weighted_gram.extend_hessian`."""
    if first == 0:
        _entered_hessian(columns, members, n_members, weight, hessian)
        return
    for a in range(first, n_members + 1):
        if is_stopped():
            break
        weigh_entered(columns, members[a - 1], weight, work)
        hessian[a, 0] = sum_of(work)
        entered_products(columns, members, a, work, hessian[a])
        for b in range(a):
            hessian[b, a] = hessian[a, b]


@kernel
def _entered_hessian(columns, members, n_members, weight, hessian):  # type: ignore[no-untyped-def]
    """Write the whole matrix: each row of the block adds the products of its few entries.

    First the entries alone; the constants then contribute a matrix of rank one.
    """
    _sort_by_row(columns, members, n_members)
    starts, places, parts = columns.starts, columns.places, columns.parts
    hessian[: n_members + 1, : n_members + 1] = 0.0
    for i in range(weight.shape[0]):
        if i % 1024 == 0 and is_stopped():
            break
        if weight[i] > 0.0:
            _add_products(places, parts, np.uintp(starts[i]), np.uintp(starts[i + 1]), weight[i], hessian)
    whole, sums = sum_of(weight), hessian[: n_members + 1, 0].copy()
    hessian[0, 0] = whole
    for a in range(1, n_members + 1):
        here = columns.constant[members[a - 1]]
        for b in range(1, a + 1):
            there = columns.constant[members[b - 1]]
            hessian[a, b] += here * sums[b] + there * sums[a] + here * there * whole
            hessian[b, a] = hessian[a, b]
        hessian[a, 0] = hessian[0, a] = sums[a] + here * whole


@inner_loop
def _add_products(places, parts, first, last, weight, hessian):  # type: ignore[no-untyped-def]
    """Add the products of one row's entries to the lower triangle, two entries at a time, and sums to column 0."""
    one = np.uintp(1)
    p = first
    while p + one < last:
        a, b = places[p], places[p + one]
        at_a, at_b = weight * parts[p], weight * parts[p + one]
        hessian[a, 0] += at_a
        hessian[b, 0] += at_b
        for r in range(first, p + one):
            c, x = places[r], parts[r]
            hessian[a, c] += at_a * x
            hessian[b, c] += at_b * x
        hessian[b, b] += at_b * parts[p + one]
        p += one + one
    if p < last:
        a = places[p]
        at_a = weight * parts[p]
        hessian[a, 0] += at_a
        for r in range(first, last):
            hessian[a, places[r]] += at_a * parts[r]


@kernel
def _sort_by_row(columns, members, n_members):  # type: ignore[no-untyped-def]
    """Sort the members' entries by row, unless they already are: a fit needs many Hessians of the same members."""
    is_same = columns.members[n_members] == -1
    for k in range(n_members):
        is_same = is_same and columns.members[k] == members[k]
    if is_same:
        return
    block, starts = columns.block, columns.starts
    starts[:] = 0
    for k in range(n_members):
        j = columns.feature[members[k]]
        for e in range(block.starts[j], block.starts[j + 1]):
            starts[block.rows[e] + 2] += 1
    for i in range(2, starts.shape[0]):
        starts[i] += starts[i - 1]
    for k in range(n_members):
        if k % 16 == 0 and is_stopped():
            break
        q = members[k]
        j = columns.feature[q]
        for e in range(block.starts[j], block.starts[j + 1]):
            place = starts[block.rows[e] + 1]
            columns.places[place] = k + 1
            columns.parts[place] = (block.values[e] - columns.centre[q]) * columns.inverse[q]
            starts[block.rows[e] + 1] = place + 1
        columns.members[k] = q
    columns.members[n_members] = -1


@kernel
def without_runaways(columns, members, n_members, problem, share):  # type: ignore[no-untyped-def]
    """Return the members whose coefficients stay finite, and their number. Exclude the rows of the others.

    A word that occurs only in texts of one class identifies their class: the larger its coefficient, the smaller their
    loss, and no other row is affected (the intercept compensates the centring). The infimum of the loss is that of the
    other members on the other rows, where further words may behave the same way. Newton's method would diverge by about
    1 per step.

    Parameters
    ----------
    columns : EnteredEntries
    members : ndarray of shape (>= n_members,), int64
    n_members : int
    problem : Problem
    share : ndarray of shape (n_samples,), float64
        Output: the problem's shares, 0 in rows whose loss vanishes.

    Returns
    -------
    members : ndarray of shape (n_members,), int64
    n_left : int
    """
    for i in range(share.shape[0]):
        share[i] = problem.share[i]
    left = members[:n_members].copy()
    n_left = n_members
    n_before = n_members + 1 if problem.loss.can_separate else n_members
    while n_left < n_before and not is_stopped():
        n_before, n_left = n_left, 0
        for k in range(n_before):
            if _runs_away(problem.loss.code, problem.y, share, columns, left[k]):
                j = columns.feature[left[k]]
                for e in range(columns.block.starts[j], columns.block.starts[j + 1]):
                    if columns.block.values[e] != 0.0:
                        share[columns.block.rows[e]] = 0.0
            else:
                left[n_left] = left[k]
                n_left += 1
    return left, n_left


@kernel
def _runs_away(loss, y, share, columns, q):  # type: ignore[no-untyped-def]
    """Return whether a one-sided move of column q's coefficient never increases the loss of the remaining rows."""
    j = columns.feature[q]
    way = 0.0
    for e in range(columns.block.starts[j], columns.block.starts[j + 1]):
        i, x = columns.block.rows[e], np.float64(columns.block.values[e])
        if share[i] == 0.0 or x == 0.0:
            continue
        here = x * recession_direction(loss, y[i])
        if here == 0.0 or way * here < 0.0:
            return False
        way = 1.0 if here > 0.0 else -1.0
    return True
