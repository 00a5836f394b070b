"""Columns for online substitution: read, stored contiguously, centred and scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daskfs.kernels.substitution.products import NO_WEIGHT, standardise
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import as_slice
from daskfs.matrix.buffers import BufferPool
from daskfs.selectors.shared.record import Record

SHUFFLED_TOGETHER = 1024
"""Number of neighbouring columns that stay together when the order is shuffled, so that each tile is read only once."""


@dataclass(frozen=True, slots=True)
class ColumnSettings:
    """How columns are prepared."""

    centres: bool
    """Whether means are subtracted."""
    scales: bool
    """Whether columns are divided by their standard deviation (if not centred, by their root mean square)."""
    keeps_int8: bool
    """Whether int8 columns stay int8; otherwise they become float32."""

    def dtype_of(self, dtype: Any) -> np.dtype:
        """Return the dtype in memory for columns of a store's dtype."""
        dtype = np.dtype(dtype)
        if dtype == np.int8 and self.keeps_int8:
            return dtype
        return np.dtype(np.float32 if dtype == np.float32 or dtype.itemsize <= 2 else np.float64)


@dataclass(frozen=True, slots=True)
class Columns(Record):
    """Some columns: `rows` has shape (B, n_samples), one row per column; the other arrays have shape (B,).

    The standardised column is z = (row - offset) · factor. For floating point it is the row itself.
    """

    ids: np.ndarray
    """Column numbers, int64."""
    rows: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    """0 for a constant column."""
    square: np.ndarray
    """Weighted mean square of z."""

    @property
    def is_int8(self) -> bool:
        """Whether the rows are stored as int8, not yet standardised."""
        return bool(self.rows.dtype == np.int8)

    @property
    def offset(self) -> np.ndarray:
        """What is still to be subtracted."""
        return self.mean if self.is_int8 else np.zeros(len(self.ids))

    @property
    def factor(self) -> np.ndarray:
        """Factor by which rows are still to be multiplied."""
        if not self.is_int8:
            return np.ones(len(self.ids))
        return 1.0 / np.where(self.scale > 0.0, self.scale, 1.0)

    def take(self, which: Any) -> Columns:
        """Return some of the columns; a slice shares memory."""
        parts = (self.ids, self.rows, self.mean, self.scale, self.square)
        return Columns(*(part[which] for part in parts))

    def weighed(self, column_weight: np.ndarray) -> Columns:
        """Return the columns multiplied by their weights; floating-point rows are changed in place."""
        if not self.is_int8:
            self.rows[...] *= column_weight[:, None]
        return replace(self, scale=self.scale / column_weight, square=self.square * column_weight**2)

    def __len__(self) -> int:
        return len(self.ids)


def joined(several: Sequence[Columns]) -> Columns:
    """Return the columns of several blocks as one."""
    parts = zip(*((one.ids, one.rows, one.mean, one.scale, one.square) for one in several), strict=True)
    return Columns(*(np.concatenate(part) for part in parts))


def prepared(
    ids: np.ndarray,
    rows: np.ndarray,
    settings: ColumnSettings,
    weight: np.ndarray = NO_WEIGHT,
) -> Columns:
    """Centre and scale columns in place. The scale of a column with NaN or infinity is NaN.

    Parameters
    ----------
    ids : ndarray of shape (B,), int64
    rows : ndarray of shape (B, n_samples)
        Of `settings.dtype_of(...)`; floating point is overwritten.
    settings : ColumnSettings
    weight : ndarray of shape (n_samples,), or `NO_WEIGHT`
    """
    mean, scale, square = (np.zeros(len(ids)) for _ in range(3))
    standardise(rows, weight, settings.centres, settings.scales, rows.dtype.kind == "f", mean, scale, square)
    return Columns(ids, rows, mean, scale, square)


def read_columns(
    matrix: Matrix,
    ids: np.ndarray,
    settings: ColumnSettings,
    weight: np.ndarray = NO_WEIGHT,
    buffers: BufferPool | None = None,
) -> Columns:
    """Read all rows of some columns of a matrix, and standardise them.

    Parameters
    ----------
    matrix : Matrix
    ids : ndarray of shape (B,), int64
    settings : ColumnSettings
    weight : ndarray of shape (n_samples,), or `NO_WEIGHT`
    buffers : BufferPool, optional
        Memory to reuse for the columns.

    Raises
    ------
    DataError
        A value is not finite. The error names the column and the row.
    """
    buffers = BufferPool() if buffers is None else buffers
    shape = (len(ids), matrix.shape[0])
    held, stored = settings.dtype_of(matrix.dtype), np.dtype(matrix.dtype)
    rows = buffers.take(shape, held)
    if held == stored:
        matrix.read(slice(None), as_slice(ids), rows.T)  # written column by column, strip by strip
    else:
        rows[...] = matrix.read(slice(None), as_slice(ids)).T
    columns = prepared(ids, rows, settings, weight)
    column_weight = matrix.weights_of_columns(ids)
    if column_weight is not None:
        columns = columns.weighed(column_weight)
    bad = np.flatnonzero(np.isnan(columns.scale))
    if len(bad):
        raise matrix.bad_column(int(ids[bad[0]]))
    return columns


def epoch_order(n_features: int, order: Any, seed: Any, epoch: int) -> np.ndarray:
    """Return the columns in the order of an epoch, int64 of shape (n_features,).

    Parameters
    ----------
    n_features : int
    order : {"fixed", "shuffled"} or int64 array
        Shuffled: groups of 1,024 neighbours in random order, and random order within each group.
    seed : int or None
    epoch : int
    """
    if not isinstance(order, str):
        return np.asarray(order, dtype=np.int64)
    columns = np.arange(n_features, dtype=np.int64)
    if order == "fixed":
        return columns
    rng = np.random.default_rng(None if seed is None else [seed, epoch])
    groups = [columns[start : start + SHUFFLED_TOGETHER] for start in range(0, n_features, SHUFFLED_TOGETHER)]
    return np.concatenate([rng.permutation(groups[k]) for k in rng.permutation(len(groups))])
