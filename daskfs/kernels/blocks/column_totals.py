"""Sums over the entries of columns, block by block, from which mean, deviation and extremes follow.

The entries of a column are added one at a time, relative to the first and with rounding at each step, so the bits equal
those of a sum over the whole column (`daskfs.kernels.fgm.scores.sparse_column_sums`).
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel


@kernel
def add_to_totals(columns, counts, values, totals):  # type: ignore[no-untyped-def]
    """Add the runs of a block.

    Parameters
    ----------
    columns, counts : ndarray of shape (n_runs,)
    values : ndarray of shape (nnz,), or (0,) if every entry is one
        Nonzero.
    totals : ndarray of shape (n_features, 6), float64
        First value, number of entries, sum and squares of their differences from the first, minimum and maximum;
        initially 0.
    """
    e, is_one = 0, values.shape[0] == 0
    for r in range(columns.shape[0]):
        if r % 1024 == 0 and is_stopped():
            break
        one = totals[columns[r]]
        for _ in range(counts[r]):
            x = 1.0 if is_one else np.float64(values[e])
            e += 1
            if one[1] == 0.0:
                one[0], one[4], one[5] = x, x, x
            deviation = x - one[0]
            one[1] += 1.0
            one[2] += deviation
            one[3] += deviation * deviation
            one[4] = min(one[4], x)
            one[5] = max(one[5], x)


def mean_and_deviation(
    first: np.ndarray, total: np.ndarray, sums: np.ndarray, squares: np.ndarray, whole: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of columns from sums over their entries and the weight of the zeros.

    Parameters
    ----------
    first : ndarray of shape (n_features,)
        The first entry.
    total : ndarray of shape (n_features,)
        Total weight of the entries.
    sums, squares : ndarray of shape (n_features,)
        Sums of the entries' differences from the first, and of their squares.
    whole : float
        Total weight of all rows.

    Notes
    -----
    Source: Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance", The American Statistician
    37(3), (2.1), applied to the nonzero values and the zeros.
    """
    share = total / whole
    divisor = np.where(total > 0.0, total, 1.0)
    mean = first + sums / divisor
    variance = (squares - sums * sums / divisor) / whole + mean * mean * share * ((whole - total) / whole)
    return mean * share, np.sqrt(np.maximum(variance, 0.0))
