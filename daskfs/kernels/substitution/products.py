"""Products of columns for online substitution. Columns are contiguous: a block has shape (B, n_samples).

Floating-point columns are centred and scaled in place when they arrive. int8 columns stay unchanged, and their products
are centred and scaled afterwards (`centred`). Sums over a band of int8 products are integers below 2²⁴, which float32
represents exactly.

Sixteen dot products are accumulated at a time in registers, in the precision of the blocks within a band of 520 rows,
and in float64 over the bands. The order of summation of a product depends neither on its neighbours nor on the size of
the block.
"""

from __future__ import annotations

import math
import threading

import numpy as np
from numpy.typing import DTypeLike

from daskfs.kernels.jit import inner_loop, is_stopped, kernel
from daskfs.kernels.linear.columns import sum_of
from daskfs.kernels.linear.gram_tiles import TILE, add_tiles
from daskfs.kernels.linear.moments import CONSTANT_RATIO

BAND_ROWS = 520  # for about a hundred columns in the L2 cache; 520 x 128² < 2²⁴
LANES = 16  # of float32
LINE = 64  # bytes
SPAN = 2048  # rows of a combination summed at once: they stay in the L1 cache
NO_WEIGHT = np.empty(0)
"""Represents weights that are all 1."""


def cross_products(
    left: np.ndarray, right: np.ndarray, weight: np.ndarray = NO_WEIGHT, which: np.ndarray | None = None
) -> np.ndarray:
    """Return Σ_i weight_i left_ai right_bi.

    Parameters
    ----------
    left : ndarray of shape (A, n_samples), float64, float32 or int8
    right : ndarray of shape (B, n_samples), of the same dtype
        If it is `left` itself, half of the products are copied.
    weight : ndarray of shape (n_samples,), optional
    which : ndarray of int, optional
        Rows of `right` to use; all by default.

    Returns
    -------
    ndarray of shape (A, B), float64
    """
    is_symmetric = left is right and which is None
    which = np.arange(len(right)) if which is None else which
    shape = (-(-len(left) // TILE) * TILE, -(-len(which) // TILE) * TILE)
    sums = np.zeros(shape)
    packed = np.float64 if left.dtype == np.float64 else np.float32
    panels = again("strip", (TILE, BAND_ROWS), packed), again("panel", (shape[1], BAND_ROWS), packed)
    _add_bands(left, right, which, weight, *panels, sums, is_symmetric)
    products = sums[: len(left), : len(which)]
    if is_symmetric:
        lower = np.tril_indices(len(left), -1)
        products[lower] = products.T[lower]
    return products


class _Room(threading.local):
    """Buffers that each thread reuses: fresh memory pages cost as much as the products of a small block."""

    def __init__(self) -> None:
        self.named: dict[str, np.ndarray] = {}


_ROOM = _Room()


def again(name: str, shape: tuple[int, int], dtype: DTypeLike) -> np.ndarray:
    """Return the array with this name. The next caller reuses it, and its content is undefined.

    It starts at a cache line.
    """
    nbytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
    room = _ROOM.named.get(name)
    if room is None or len(room) < nbytes:
        room = np.empty(nbytes + LINE, np.uint8)
        room = _ROOM.named[name] = room[-room.ctypes.data % LINE :]
    return room[:nbytes].view(dtype).reshape(shape)


@kernel
def _add_bands(left, right, which, weight, strip, panel, sums, is_symmetric):  # type: ignore[no-untyped-def]
    """Add the products one band of rows at a time: four columns of `left` with all of `right`."""
    n_samples = left.shape[1]
    zero = np.zeros(1, strip.dtype)[0]  # in the precision of the panels, which is that of a band's sums
    n_columns = panel.shape[0]
    for start in range(0, n_samples, BAND_ROWS):
        if is_stopped():
            break
        stop = min(start + BAND_ROWS, n_samples)
        if stop - start < BAND_ROWS or start == 0:
            width = min(BAND_ROWS, (stop - start + LANES - 1) // LANES * LANES)
            strip, panel = strip.reshape(-1)[: TILE * width], panel.reshape(-1)[: n_columns * width]
            strip, panel = strip.reshape((TILE, width)), panel.reshape((n_columns, width))
            strip[:] = 0
            panel[:] = 0
        for b in range(which.shape[0]):
            row = right[which[b], start:stop]
            if weight.shape[0] > 0:
                _weigh(row, weight[start:stop], panel[b])
            else:
                _copy(row, panel[b])
        for a in range(0, left.shape[0], TILE):
            if is_stopped():
                break
            for q in range(min(TILE, left.shape[0] - a)):
                _copy(left[a + q, start:stop], strip[q])
            add_tiles(strip, 0, panel, a if is_symmetric else 0, n_columns, zero, sums[a : a + TILE])


@inner_loop
def _copy(row, out):  # type: ignore[no-untyped-def]
    for i in range(row.shape[0]):
        out[i] = row[i]


@inner_loop
def _weigh(row, weight, out):  # type: ignore[no-untyped-def]
    for i in range(row.shape[0]):
        out[i] = row[i] * weight[i]


@kernel
def row_products(rows, vector, weight):  # type: ignore[no-untyped-def]
    """Return Σ_i weight_i rows_bi vector_i for every column b.

    Parameters
    ----------
    rows : ndarray of shape (B, n_samples)
    vector : ndarray of shape (n_samples,)
    weight : ndarray of shape (n_samples,), or `NO_WEIGHT`

    Returns
    -------
    ndarray of shape (B,), float64
    """
    products = np.zeros(rows.shape[0])
    if weight.shape[0] == 0:
        for b in range(rows.shape[0]):
            if is_stopped():
                break
            products[b] = _dot(rows[b], vector)
        return products
    weighted = np.empty(vector.shape[0])
    for i in range(vector.shape[0]):
        weighted[i] = weight[i] * vector[i]
    for b in range(rows.shape[0]):
        if is_stopped():
            break
        products[b] = _dot(rows[b], weighted)
    return products


@inner_loop
def _dot(row, vector):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(row.shape[0]):
        total += np.float64(row[i]) * np.float64(vector[i])
    return total


@kernel
def combine(rows, coef, offset, out):  # type: ignore[no-untyped-def]
    """Write ``offset + Σ_k coef_k rows_k`` into `out`, float64 of shape (n_samples,).

    Parameters
    ----------
    rows : ndarray of shape (>= K, n_samples)
    coef : ndarray of shape (K,), float64
    offset : float
    """
    n_samples = out.shape[0]
    for start in range(0, n_samples, SPAN):
        if is_stopped():
            break
        stop = min(start + SPAN, n_samples)
        out[start:stop] = offset
        k = 0
        while k + 4 <= coef.shape[0]:
            _add_four(
                rows[k, start:stop], rows[k + 1, start:stop], rows[k + 2, start:stop], rows[k + 3, start:stop],
                coef[k], coef[k + 1], coef[k + 2], coef[k + 3], out[start:stop],
            )  # fmt: skip
            k += 4
        while k < coef.shape[0]:
            _add_one(rows[k, start:stop], coef[k], out[start:stop])
            k += 1


@inner_loop
def _add_four(row0, row1, row2, row3, c0, c1, c2, c3, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] += c0 * row0[i] + c1 * row1[i] + c2 * row2[i] + c3 * row3[i]


@inner_loop
def _add_one(row, c, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        out[i] += c * row[i]


@kernel
def are_usable(ids, scale, members):  # type: ignore[no-untyped-def]
    """Return which columns may enter: those that are neither constant nor members; bool of shape (B,)."""
    usable = scale > 0.0
    for b in range(ids.shape[0]):
        for k in range(members.shape[0]):
            usable[b] &= ids[b] != members[k]
    return usable


@kernel
def standardise(rows, weight, centres, scales, in_place, mean, scale, square):  # type: ignore[no-untyped-def]
    """Compute the moments of columns, and centre and scale them in place.

    Parameters
    ----------
    rows : ndarray of shape (B, n_samples), float64, float32 or int8
    weight : ndarray of shape (n_samples,), or `NO_WEIGHT`
    centres, scales : bool
        Whether to centre and to scale.
    in_place : bool
        Whether `rows` are replaced by (x - mean) / scale; not for int8.
    mean, scale, square : ndarray of shape (B,), float64
        Output: the weighted mean (0 without centring), the root of the weighted mean square about it (1 without
        scaling; 0 for a constant column; NaN for a column that is not finite), and the mean square of the resulting
        column.
    """
    for b in range(rows.shape[0]):
        if is_stopped():
            break
        _measure(rows[b], weight, centres, scales, mean[b : b + 1], scale[b : b + 1], square[b : b + 1])
        if in_place and scale[b] > 0.0:
            _transform(rows[b], mean[b], 1.0 / scale[b])


@kernel
def _measure(row, weight, centres, scales, mean, scale, square):  # type: ignore[no-untyped-def]
    origin = float(row[0]) if centres else 0.0
    total, sums, squares = _sums(row, weight, origin)
    shift = sums / total if centres else 0.0
    variance = squares / total - shift * shift
    mean[0] = origin + shift
    if not math.isfinite(variance):
        scale[0] = math.nan
        square[0] = 0.0
        return
    if variance <= (CONSTANT_RATIO * mean[0]) ** 2 or variance < 1e-280:
        scale[0] = 0.0
        square[0] = 0.0
        return
    deviation = math.sqrt(variance)
    scale[0] = deviation if scales else 1.0
    square[0] = 1.0 if scales else variance


@kernel
def _sums(row, weight, origin):  # type: ignore[no-untyped-def]
    """Return Σ w, Σ w d and Σ w d² for d = x - origin; without weights w is 1.

    Each is summed in four explicit lanes of a quarter of the row. A compiler free to choose lanes may also move the
    origin out of a sum, and not in the same way in every kernel that inlines this function.
    """
    q = row.shape[0] // 4
    row0, row1, row2, row3 = row[:q], row[q : 2 * q], row[2 * q : 3 * q], row[3 * q : 4 * q]
    sums0 = sums1 = sums2 = sums3 = squares0 = squares1 = squares2 = squares3 = 0.0
    if weight.shape[0] == 0:
        for i in range(q):
            d0, d1 = np.float64(row0[i]) - origin, np.float64(row1[i]) - origin
            d2, d3 = np.float64(row2[i]) - origin, np.float64(row3[i]) - origin
            sums0, sums1, sums2, sums3 = sums0 + d0, sums1 + d1, sums2 + d2, sums3 + d3
            squares0, squares1 = squares0 + d0 * d0, squares1 + d1 * d1
            squares2, squares3 = squares2 + d2 * d2, squares3 + d3 * d3
        total = float(row.shape[0])
    else:
        weight0, weight1, weight2, weight3 = weight[:q], weight[q : 2 * q], weight[2 * q : 3 * q], weight[3 * q : 4 * q]
        for i in range(q):
            d0, d1 = np.float64(row0[i]) - origin, np.float64(row1[i]) - origin
            d2, d3 = np.float64(row2[i]) - origin, np.float64(row3[i]) - origin
            of_d0, of_d1, of_d2, of_d3 = weight0[i] * d0, weight1[i] * d1, weight2[i] * d2, weight3[i] * d3
            sums0, sums1, sums2, sums3 = sums0 + of_d0, sums1 + of_d1, sums2 + of_d2, sums3 + of_d3
            squares0, squares1 = squares0 + of_d0 * d0, squares1 + of_d1 * d1
            squares2, squares3 = squares2 + of_d2 * d2, squares3 + of_d3 * d3
        total = sum_of(weight)
    sums, squares = (sums0 + sums1) + (sums2 + sums3), (squares0 + squares1) + (squares2 + squares3)
    for i in range(4 * q, row.shape[0]):
        d = np.float64(row[i]) - origin
        of_d = d if weight.shape[0] == 0 else weight[i] * d
        sums, squares = sums + of_d, squares + of_d * d
    return total, sums, squares


@inner_loop
def _transform(row, mean, factor):  # type: ignore[no-untyped-def]
    for i in range(row.shape[0]):
        row[i] = (row[i] - mean) * factor


def centred(
    products: np.ndarray,
    total: float,
    left_offset: np.ndarray,
    right_offset: np.ndarray,
    left_factor: np.ndarray,
    right_factor: np.ndarray,
) -> np.ndarray:
    """Return ⟨z_a, z_b⟩ for z = (x - offset) · factor from Σ_i w_i x_ai x_bi, in place.

    Parameters
    ----------
    products : ndarray of shape (A, B), float64
        From `cross_products`; overwritten.
    total : float
        W, the sum of the weights.
    left_offset, right_offset : ndarray of shapes (A,) and (B,)
        Means of the columns with these weights (0 for centred columns).
    left_factor, right_factor : ndarray of shapes (A,) and (B,)
        1 / scale (1 for scaled columns).
    """
    products /= total
    products -= left_offset[:, None] * right_offset
    products *= left_factor[:, None]
    products *= right_factor
    return products
