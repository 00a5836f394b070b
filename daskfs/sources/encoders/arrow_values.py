"""Values of a column as Arrow has them: numbers, which can be written side by side, and levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PLAIN = {
    getattr(pa, name)(): np.dtype(name)
    for name in ("float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
}
_PIECE_NBYTES = 1 << 17
"""Columns are transposed in pieces of this size, which stay in the processor's cache."""


def plain_numbers(values: pa.Array) -> np.ndarray | None:
    """Return a view of a numeric Arrow array, without loading pandas as Arrow does; None if a value is missing."""
    dtype = _PLAIN.get(values.type)
    if dtype is None or values.null_count:
        return None
    if not len(values):
        return np.empty(0, dtype)
    return np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * dtype.itemsize)


def write_numbers(columns: Sequence[np.ndarray], out: np.ndarray) -> bool:
    """Write numeric columns side by side; return whether all are finite, both before and after the cast.

    Parameters
    ----------
    columns : sequence of ndarray of shape (n_rows,)
    out : float32 or float64 array of shape (n_rows, n_columns)
    """
    bound = np.finfo(out.dtype).max
    step = max(1, _PIECE_NBYTES // (8 * len(columns)))
    room = np.empty((len(columns), step))
    for start in range(0, len(out), step):
        piece = room[:, : len(out) - start]
        for values, row in zip(columns, piece, strict=True):
            row[:] = values[start : start + step]
        if not (piece.min() >= -bound and piece.max() <= bound):
            return False
        out[start : start + step] = piece.T
    return True


def numbers_of(values: pa.Array) -> np.ndarray:
    """Return a numeric Arrow array as float64, with NaN for missing values."""
    if (plain := plain_numbers(values)) is not None:
        return np.asarray(plain, dtype=np.float64)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        values = pc.cast(values, pa.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def levels_of(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct texts of a column, and the index of each row's text, int64; -1 if missing."""
    values = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    texts, rows = pc.cast(values.dictionary, pa.string()), or_minus_one(values.indices)
    if texts.null_count:
        rows[(rows >= 0) & pc.is_null(texts).to_numpy(zero_copy_only=False)[rows]] = -1
    return texts, rows


def or_minus_one(indices: pa.Array) -> np.ndarray:
    """Return indices as int64, -1 where they are missing."""
    filled = pc.fill_null(pc.cast(indices, pa.int64()), -1)  # polars uses unsigned indices
    return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
