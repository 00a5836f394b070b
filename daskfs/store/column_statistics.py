"""Mean, standard deviation, extremes and number of missing values of each column, merged block by block."""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np

WORTH_COMPILING_NBYTES = 1 << 29
"""Size of a matrix for which loading numba takes as long as computing the statistics with numpy; see `by_kernel`."""
_BLOCK_NBYTES = 4 << 20
_MAX_BLOCK_ROWS = 8192


def statistics_rows(n_features: int, itemsize: int) -> int:
    """Return the number of rows to merge at a time; it depends only on the matrix's width, so that the bits do not
    depend on how the rows arrive.

    Examples
    --------
    >>> statistics_rows(1024, 4)
    1024
    """
    return max(1, min(_MAX_BLOCK_ROWS, _BLOCK_NBYTES // max(1, n_features * itemsize)))


def by_kernel(nbytes: int) -> bool:
    """Return whether a kernel computes the statistics of `nbytes` bytes sooner; its results are bit-identical."""
    return nbytes >= (WORTH_COMPILING_NBYTES // 8 if "numba" in sys.modules else WORTH_COMPILING_NBYTES)


class BlockStatistics(NamedTuple):
    """Statistics of a block's columns: rows that count, mean, sum of squares about it, rows with NaN, extremes."""

    counts: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    n_missing: np.ndarray
    minimum: np.ndarray
    maximum: np.ndarray


class RunningStatistics:
    """Statistics of columns over rows that arrive block by block.

    Parameters
    ----------
    n_features : int
    nbytes : int
        Approximate size of all rows; see `by_kernel`.

    Attributes
    ----------
    n_samples, n_missing, minimum, maximum : ndarray of shape (n_features,)
        Numbers of rows without and with NaN, int64; extremes, float64 (NaN if all rows are NaN).

    Notes
    -----
    Blocks are merged with the formula of Chan, Golub and LeVeque (1983), "Algorithms for computing the sample
    variance", The American Statistician 37(3): sums of squares are taken about each block's mean, so that a large
    offset is harmless. Memory is about 24 bytes per value of a block.
    """

    def __init__(self, n_features: int, nbytes: int = 0) -> None:
        self._nbytes = nbytes
        self.n_samples = np.zeros(n_features, np.int64)
        self.n_missing = np.zeros(n_features, np.int64)
        self.minimum = np.full(n_features, np.nan)
        self.maximum = np.full(n_features, np.nan)
        self._mean = np.zeros(n_features)
        self._squares = np.zeros(n_features)  # sum of squared deviations from the mean

    def update(self, block: np.ndarray) -> None:
        """Merge the rows of a block of shape (n_rows, n_features); NaN is counted and ignored."""
        if block.size:
            self.merge(statistics_of(block, by_kernel(self._nbytes)))

    def merge(self, block: BlockStatistics) -> None:
        """Merge the statistics of a block."""
        total = self.n_samples + block.counts
        share = block.counts / np.maximum(total, 1)
        shift = block.mean - self._mean
        self._mean += shift * share
        self._squares += block.squares + shift**2 * self.n_samples * share
        self.n_samples = total
        self.n_missing += block.n_missing
        self.minimum = np.fmin(self.minimum, block.minimum)
        self.maximum = np.fmax(self.maximum, block.maximum)

    @property
    def mean(self) -> np.ndarray:
        """Mean of each column, float64; NaN if all rows are NaN."""
        mean = np.where(self.n_samples > 0, self._mean, np.nan)
        return np.where(self.minimum == self.maximum, self.minimum, mean)

    @property
    def std(self) -> np.ndarray:
        """Population standard deviation of each column, float64; exactly 0 for a constant column."""
        with np.errstate(invalid="ignore"):
            std = np.sqrt(self._squares / np.where(self.n_samples > 0, self.n_samples, np.nan))
        return np.where(self.minimum == self.maximum, 0.0, std)


def statistics_of(block: np.ndarray, is_fast: bool = False) -> BlockStatistics:
    """Return the statistics of a block of shape (n_rows, n_features)."""
    if block.dtype == np.int8:
        return _statistics_of_integers(block)
    if is_fast and block.dtype.kind == "f" and block.shape[1] > 1:  # numpy sums a single column in another order
        found = _statistics_in_two_sweeps(block)
        if np.isfinite(found.mean).all():
            return found
    is_missing = np.isnan(block) if block.dtype.kind == "f" else None
    if is_missing is not None and is_missing.any():
        counts = len(block) - is_missing.sum(axis=0)
        values = np.where(is_missing, 0.0, block.astype(np.float64))
    else:
        is_missing = None
        counts = np.full(block.shape[1], len(block))
        values = block.astype(np.float64)
    mean = values.sum(axis=0) / np.maximum(counts, 1)
    values -= mean
    if is_missing is not None:
        values[is_missing] = 0.0
    squares = np.einsum("ij,ij->j", values, values)
    return BlockStatistics(counts, mean, squares, len(block) - counts, *_extremes(block))


def _statistics_in_two_sweeps(block: np.ndarray) -> BlockStatistics:
    """Do the same as `statistics_of` for blocks without missing values, several times as fast."""
    from daskfs.kernels.linear.column_moments import squares_about, sums_and_extremes

    block = np.ascontiguousarray(block)
    mean, squares = np.zeros(block.shape[1]), np.zeros(block.shape[1])
    least, most = block[0].copy(), block[0].copy()
    sums_and_extremes(block, mean, least, most)
    mean /= len(block)
    squares_about(block, mean, squares)
    if not (least.all() and most.all()) and _has_negative_zeros(block):
        least, most = _extremes(block)  # reproduces numpy's signs of zeros
    counts = np.full(block.shape[1], len(block))
    return BlockStatistics(counts, mean, squares, len(block) - counts, least.astype(float), most.astype(float))


def _has_negative_zeros(block: np.ndarray) -> bool:
    whole = np.dtype(f"i{block.itemsize}")
    return bool(block.view(whole).min() == np.iinfo(whole).min)


def _statistics_of_integers(block: np.ndarray) -> BlockStatistics:
    """Do the same as `statistics_of`, several times as fast: sums of integers are exact."""
    from daskfs.kernels.linear.integer_sums import integer_sums

    n_features = block.shape[1]
    sums, squares = np.zeros(n_features, np.int32), np.zeros(n_features, np.int32)
    least, most = np.full(n_features, 127, np.int8), np.full(n_features, -128, np.int8)
    integer_sums(block, sums, squares, least, most)
    count = len(block)
    mean = sums / count
    about_mean = np.maximum(squares - sums * mean, 0.0)
    counts = np.full(n_features, count)
    return BlockStatistics(counts, mean, about_mean, count - counts, least.astype(float), most.astype(float))


def _extremes(block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and maximum of each column, ignoring NaN, float64."""
    return np.fmin.reduce(block, axis=0).astype(float), np.fmax.reduce(block, axis=0).astype(float)
