"""Merge duplicate rows of a block into one row with their total weight: connections, dummies, questionnaires."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.kernels.blocks.column_entries import ColumnEntries
from daskfs.kernels.jit import is_stopped, kernel

LARGEST_SHARE = 0.5  # largest share of distinct rows: the copy then costs no more than fits of fewer rows save
FEWEST_ROWS = 2048  # fits of fewer rows take no time
MOST_COLUMNS = 128  # wider rows are rarely equal, and the copy costs more than fits save


def merge_rows(X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return a block, its target and weights with each distinct row once, in the order of first occurrence.

    The input is returned if it has few rows, or if more than `LARGEST_SHARE` of them are distinct. A row of weight 2
    counts twice, so fits differ only by rounding.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, or ColumnEntries, which is returned unchanged
    y, weight : ndarray of shape (n_samples,), float64
    """
    if isinstance(X, ColumnEntries) or len(y) < FEWEST_ROWS or X.shape[1] > MOST_COLUMNS:
        return X, y, weight
    bits = X.view(np.uint32 if X.dtype == np.float32 else np.uint64)
    keys = np.empty(len(y), dtype=np.uint64)
    _write_keys(bits, y.view(np.uint64), keys)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) > LARGEST_SHARE * len(y) or not _are_alike(bits, y, first[group]):
        return X, y, weight
    order = np.argsort(first)
    kept = first[order]
    return X[kept], y[kept], np.bincount(group, weight)[order]


@kernel
def _write_keys(bits, y_bits, out):  # type: ignore[no-untyped-def]
    """Hash each row to 64 bits (FNV-1a, one word at a time, with the high bits folded down)."""
    for i in range(bits.shape[0]):
        if i % 4096 == 0 and is_stopped():
            break
        key = np.uint64(14695981039346656037) ^ y_bits[i]
        for j in range(bits.shape[1]):
            key = (key ^ (key >> np.uint64(32)) ^ np.uint64(bits[i, j])) * np.uint64(1099511628211)
        out[i] = key


@kernel
def _are_alike(bits, y, of_row):  # type: ignore[no-untyped-def]
    """Return whether every row equals the one that represents it: hashes may collide."""
    for i in range(bits.shape[0]):
        other = of_row[i]
        if i % 4096 == 0 and is_stopped():
            break
        if y[i] != y[other]:
            return False
        for j in range(bits.shape[1]):
            if bits[i, j] != bits[other, j]:
                return False
    return True
