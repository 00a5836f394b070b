"""Scores of all pairs of sparse columns that occur together, and bounds that exclude most of them in advance.

Columns are renumbered, the longest first. For a column a, each of its rows is scanned for entries in columns b <= a,
which are the first part of the row: frequent columns have low numbers, so the sums of all b stay in the cache. Given
the smallest score θ that still matters, an upper bound that decreases with b tells where the scan of a row may end, or
that column a has no relevant pair at all.

The bounds follow from the Cauchy-Schwarz inequality. For standardised products |Σ v z|² <= V_ab Σ w z², where V_ab = Σ
v²/w over the rows that have both columns is at most the lesser of V_a and V_b, and the variance is at least Σ w z² (1 -
n_a / n) / n. For unstandardised products |Σ v z|² <= q_a q_b, q_a = Σ |v| x². If no value is negative, the rows with v
> 0 and those with v < 0 contribute with opposite signs, and the larger of their two bounds applies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daskfs.kernels.fgm.pairs import is_wanted, number_in, offer, spread_of
from daskfs.kernels.jit import is_stopped, kernel, prefetch

LESSER, PRODUCT, SIGNED = range(3)
"""Kind of bound: for standardised products, for unstandardised ones, for those of columns with negative values."""
MARGIN = 1.0 - 1e-9
"""Safety factor: bounds are exact, but sums are rounded."""
AHEAD = 8
"""Number of entries of a column whose rows are prefetched: they are scattered over memory."""


class Entries(NamedTuple):
    """Entries of columns by row, or of rows by column."""

    starts: np.ndarray
    """int64."""
    places: np.ndarray
    """int32 rows or columns, ascending."""
    values: np.ndarray
    """float32, float64 or int8."""


class Bounds(NamedTuple):
    """Bounds of columns; see the module."""

    plus: np.ndarray
    """For the rows with v > 0, or for all rows."""
    minus: np.ndarray
    factor: np.ndarray
    """Factor of the bound for column a of a pair; infinite if there is no bound."""


@kernel
def counted(starts, rows, values, weight):  # type: ignore[no-untyped-def]
    """Return Σ x² of each column over the rows of positive weight, and the number of its entries there."""
    squares, counts = np.zeros(starts.shape[0] - 1), np.zeros(starts.shape[0] - 1, np.int64)
    for j in range(squares.shape[0]):
        if j % 64 == 0 and is_stopped():
            break
        for k in range(starts[j], starts[j + 1]):
            x = np.float64(values[k])
            if weight[rows[k]] > 0.0 and x != 0.0:
                squares[j] += x * x
                counts[j] += 1
    return squares, counts


@kernel
def reordered(starts, rows, values, weight, order, counts):  # type: ignore[no-untyped-def]
    """Return columns in another order, without the entries that are ignored, as Entries."""
    begins = np.zeros(order.shape[0] + 1, np.int64)
    for a in range(order.shape[0]):
        begins[a + 1] = begins[a] + counts[order[a]]
    kept_rows, kept_values = np.empty(begins[-1], np.int32), np.empty(begins[-1], values.dtype)
    for a in range(order.shape[0]):
        if a % 64 == 0 and is_stopped():
            break
        q = begins[a]
        for k in range(starts[order[a]], starts[order[a] + 1]):
            if weight[rows[k]] > 0.0 and values[k] != 0:
                kept_rows[q], kept_values[q] = rows[k], values[k]
                q += 1
    return Entries(begins, kept_rows, kept_values)


@kernel
def by_rows(columns, n_rows):  # type: ignore[no-untyped-def]
    """Return columns as rows, each with ascending columns."""
    starts = np.zeros(n_rows + 1, np.int64)
    for k in range(columns.places.shape[0]):
        starts[columns.places[k] + 1] += 1
    for i in range(n_rows):
        starts[i + 1] += starts[i]
    ends = starts[:-1].copy()
    places, values = np.empty(columns.places.shape[0], np.int32), np.empty_like(columns.values)
    for a in range(columns.starts.shape[0] - 1):
        if a % 1024 == 0 and is_stopped():
            break
        for k in range(columns.starts[a], columns.starts[a + 1]):
            i = columns.places[k]
            places[ends[i]], values[ends[i]] = a, columns.values[k]
            ends[i] += 1
    return Entries(starts, places, values)


@kernel
def bounds_of(columns, weight, v, kind, by_sign, weighing):  # type: ignore[no-untyped-def]
    """Return the Bounds of columns.

    Parameters
    ----------
    columns : Entries
    weight : ndarray of shape (n_rows,), float64
    v : ndarray of shape (n_rows, n_classes), float64
    kind : int
        LESSER, PRODUCT or SIGNED.
    by_sign : bool
        Whether rows with v > 0 and with v < 0 are bounded separately; only with one class.
    weighing : Weighing
    """
    n_columns, n_classes = columns.starts.shape[0] - 1, v.shape[1]
    plus, minus, factor = np.zeros(n_columns), np.zeros(n_columns), np.ones(n_columns)
    of_class = np.zeros(n_classes)
    for a in range(n_columns):
        if a % 64 == 0 and is_stopped():
            break
        n_rows = 0.0
        of_class[:] = 0.0
        for k in range(columns.starts[a], columns.starts[a + 1]):
            i, x = columns.places[k], np.float64(columns.values[k])
            n_rows += weight[i]
            for c in range(n_classes):
                share = v[i, c] * v[i, c] / weight[i] if kind == LESSER else abs(v[i, c]) * x * x
                if by_sign and v[i, c] < 0.0:
                    minus[a] += share
                else:
                    of_class[c] += share
        for c in range(n_classes):
            plus[a] += of_class[c] if kind == LESSER else of_class[c] * of_class[c]
        if kind == LESSER:
            left = 1.0 - n_rows / weighing.total if weighing.is_centred else 1.0
            factor[a] = weighing.total / left if left > 0.0 else np.inf
        else:
            plus[a] = np.sqrt(plus[a])
        factor[a] *= max(weighing.pair, weighing.square) / MARGIN
    return Bounds(plus, minus, factor)


@kernel
def _bound(kind, plus, minus, other_plus, other_minus):  # type: ignore[no-untyped-def]
    """Return the bound of |Σ v z|² for two columns, without the factor of the first one."""
    if kind == LESSER:
        return max(min(plus, other_plus), min(minus, other_minus))
    if kind == PRODUCT:
        return max(plus * other_plus, minus * other_minus)
    return (np.sqrt(plus * other_plus) + np.sqrt(minus * other_minus)) ** 2


@kernel
def from_end(numbers):  # type: ignore[no-untyped-def]
    """Return the maximum of each element and all later ones."""
    out = numbers.copy()
    for b in range(numbers.shape[0] - 2, -1, -1):
        out[b] = max(out[b], out[b + 1])
    return out


@kernel
def offer_sparse_pairs(  # type: ignore[no-untyped-def]
    columns, ids, rows, other_ids, is_same, start, stop, step, weight, v, kind, bounds, other_plus, other_minus,
    weighing, wanted, floor, largest, counts,
):  # fmt: skip
    """Score the products of some columns with others, and insert the largest.

    Parameters
    ----------
    columns : Entries
        The columns a, with their rows.
    ids : ndarray of shape (n_columns,), int64
        Numbers of the columns a as parents.
    rows : Entries
        The rows, with their columns b.
    other_ids : ndarray of shape (n_others,), int64
        Numbers of the columns b as parents.
    is_same : bool
        Whether b are the same columns in the same order: then only pairs b <= a are wanted.
    start, stop, step : int
        Range of the columns a.
    weight : ndarray of shape (n_rows,), float64
    v : ndarray of shape (n_rows, n_classes), float64
    kind : int
    bounds : Bounds
        Bounds of the columns a.
    other_plus, other_minus : ndarray of shape (n_others,)
        Bounds of the columns b, after `from_end`.
    weighing : Weighing
    wanted : Wanted
        If pairs need one selected column, all columns a are selected. A pair of two of them occurs twice, and is scored
        once.
    floor : float
        Lower scores may be left out. With minus infinity, no pair is excluded by a bound.
    largest : Largest
    counts : ndarray of shape (2,), int64
        Number of products, and of columns excluded; incremented.
    """
    n_others, n_classes, n_parents = other_ids.shape[0], v.shape[1], wanted.left.shape[0]
    sums, met = np.zeros((n_others, n_classes + 3)), np.empty(n_others, np.int32)
    products, n_skipped = 0, 0
    for a in range(start, stop, step):
        if is_stopped():
            break
        i = ids[a]
        end = a + 1 if is_same else n_others
        least = max(floor, largest.scores[0])
        if least > 0.0 and bounds.factor[a] < np.inf:
            low = 0  # b from `end` on are excluded
            while low < end:
                middle = (low + end) // 2
                other = _bound(kind, bounds.plus[a], bounds.minus[a], other_plus[middle], other_minus[middle])
                if bounds.factor[a] * other < least:
                    end = middle
                else:
                    low = middle + 1
        if end == 0 or int(wanted.is_selected[i]) + 1 < wanted.n_selected or (wanted.left[i] | wanted.right[i]) == 0:
            n_skipped += 1
            continue
        n_met = 0
        last = columns.starts[a + 1] - 1
        for e in range(columns.starts[a], last + 1):
            prefetch(rows.starts, columns.places[min(e + 2 * AHEAD, last)])
            coming = rows.starts[columns.places[min(e + AHEAD, last)]]
            prefetch(rows.places, coming)
            prefetch(rows.values, coming)
            row, x = columns.places[e], np.float64(columns.values[e])
            w = weight[row]
            for k in range(rows.starts[row], rows.starts[row + 1]):
                b = rows.places[k]
                if b >= end:
                    break
                z = x * np.float64(rows.values[k])
                of = sums[b]
                if of[0] == 0.0:
                    met[n_met] = b
                    n_met += 1
                of[0] += 1.0
                of[1] += w * z
                of[2] += w * z * z
                for c in range(n_classes):
                    of[3 + c] += v[row, c] * z
                products += 1
        for q in range(n_met):
            of, j = sums[met[q]], other_ids[met[q]]
            low, high = min(i, j), max(i, j)  # the same bits whichever is a
            spread = spread_of(weighing, low, high, of[1], of[2])
            is_met_again = wanted.n_selected == 1 and j < i and wanted.is_selected[j]
            if spread > 0.0 and not is_met_again and is_wanted(wanted, low, high):
                score = 0.0
                for c in range(n_classes):
                    score += of[3 + c] * of[3 + c]
                score *= (weighing.square if i == j else weighing.pair) / spread
                if score >= floor:
                    offer(largest, score, number_in(low, high, n_parents))
            of[:] = 0.0
    counts[0] += products
    counts[1] += n_skipped
