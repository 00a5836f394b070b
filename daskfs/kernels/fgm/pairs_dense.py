"""Sums of products of all pairs of dense columns: X'diag(v)X by bands of rows, a tile of sixteen pairs in registers.

Everything is float64, one band of rows at a time. Bands are formed from the rows that take part, starting at the first,
so the bits depend neither on how rows are read nor on which columns are multiplied together.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.fgm.pairs import is_wanted, number_in, offer, spread_of
from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.gram_tiles import BAND_ROWS, TILE, add_tiles, padded


def tiled(n_columns: int) -> int:
    """Return the number of columns rounded up to whole tiles."""
    return -(-n_columns // TILE) * TILE


@kernel
def add_duals(first, second, centre, other_centre, v, is_same, sums):  # type: ignore[no-untyped-def]
    """Add Σ_i v_ci u_ij u_ik for the centred columns of two blocks of the same rows to ``sums[c, j, k]``.

    Parameters
    ----------
    first, second : ndarray of shapes (n_rows, n_first) and (n_rows, n_second), float32, float64 or int8
        Whole bands of rows, except at the end.
    centre, other_centre : ndarray of shapes (n_first,) and (n_second,), float64
        Subtracted from the columns.
    v : ndarray of shape (n_classes, n_rows), float64
    is_same : bool
        Whether both blocks are the same columns. Then only pairs j <= k are valid in the output.
    sums : ndarray of shape (n_classes, tiled n_first, tiled n_second), float64
    """
    left, right = np.zeros((padded(first.shape[1]), BAND_ROWS)), np.zeros((padded(second.shape[1]), BAND_ROWS))
    weighed = np.zeros_like(left)
    for start in range(0, first.shape[0], BAND_ROWS):
        if is_stopped():
            break
        _fill(first, start, centre, left)
        _fill(second, start, other_centre, right)
        for c in range(v.shape[0]):
            _weigh(left, v[c, start : start + BAND_ROWS], weighed)
            _add_products(weighed, right, is_same, sums[c])


@kernel
def add_moments(first, second, centre, other_centre, weight, is_same, sums):  # type: ignore[no-untyped-def]
    """Add Σ_i w_i u_ij u_ik to ``sums[0, j, k]`` and Σ_i w_i (u_ij u_ik)² to ``sums[1, j, k]``, see `add_duals`."""
    left, right = np.zeros((padded(first.shape[1]), BAND_ROWS)), np.zeros((padded(second.shape[1]), BAND_ROWS))
    weighed = np.zeros_like(left)
    for start in range(0, first.shape[0], BAND_ROWS):
        if is_stopped():
            break
        _fill(first, start, centre, left)
        _fill(second, start, other_centre, right)
        for power in range(2):
            _weigh(left, weight[start : start + BAND_ROWS], weighed)
            _add_products(weighed, right, is_same, sums[power])
            _square(left)
            _square(right)


@kernel
def _fill(X, start, centre, out):  # type: ignore[no-untyped-def]
    """Write the centred columns of a band, one per row of `out`; 0 beyond the last row."""
    stop = min(start + BAND_ROWS, X.shape[0])
    for i in range(start, stop):
        row = X[i]
        for j in range(row.shape[0]):
            out[j, i - start] = row[j] - centre[j]
    out[:, stop - start :] = 0.0


@kernel
def _weigh(columns, factors, out):  # type: ignore[no-untyped-def]
    n_rows = factors.shape[0]
    for j in range(columns.shape[0]):
        for q in range(n_rows):
            out[j, q] = columns[j, q] * factors[q]
        out[j, n_rows:] = 0.0


@kernel
def _square(columns):  # type: ignore[no-untyped-def]
    for j in range(columns.shape[0]):
        for q in range(columns.shape[1]):
            columns[j, q] *= columns[j, q]


@kernel
def _add_products(left, right, is_same, sums):  # type: ignore[no-untyped-def]
    for a in range(0, left.shape[0], TILE):
        add_tiles(left, a, right, a if is_same else 0, right.shape[0], 0.0, sums)


@kernel
def spreads_of(moments, first, second, is_same, weighing, wanted, out):  # type: ignore[no-untyped-def]
    """Write `spread_of` for the products of columns ``first[a]`` and ``second[b]``."""
    for a in range(out.shape[0]):
        if a % 64 == 0 and is_stopped():
            break
        for b in range(a if is_same else 0, out.shape[1]):
            out[a, b] = spread_of(weighing, first[a], second[b], moments[0, a, b], moments[1, a, b])


@kernel
def offer_pairs(duals, spread, first, second, is_same, weighing, wanted, floor, largest):  # type: ignore[no-untyped-def]
    """Score the products of columns ``first[a]`` and ``second[b]``, and insert those of at least `floor`.

    If `first` lists selected columns, a product of two of them occurs twice and is scored once.
    """
    n_parents = wanted.left.shape[0]
    for a in range(spread.shape[0]):
        if a % 64 == 0 and is_stopped():
            break
        for b in range(a if is_same else 0, spread.shape[1]):
            i, j = first[a], second[b]
            if spread[a, b] == 0.0 or not is_wanted(wanted, i, j) or (j < i and wanted.is_selected[j]):
                continue
            score = 0.0
            for c in range(duals.shape[0]):
                score += duals[c, a, b] * duals[c, a, b]
            score *= (weighing.square if i == j else weighing.pair) / spread[a, b]
            if score >= floor:
                offer(largest, score, number_in(min(i, j), max(i, j), n_parents))
