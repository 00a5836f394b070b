"""The B largest scores and their columns. Ties go to the smaller number, so the division of columns does not matter."""

from __future__ import annotations

import numpy as np


def largest(scores: np.ndarray, first: int, n_wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns with the largest positive scores.

    Parameters
    ----------
    scores : ndarray of shape (n_columns,), float64
        Non-negative.
    first : int
        Number of the first column.
    n_wanted : int

    Returns
    -------
    columns : ndarray of shape (<= n_wanted,), int64
        By decreasing score, ties by number.
    scores : ndarray
        Their scores.

    Examples
    --------
    >>> largest(np.array([1.0, 3.0, 0.0, 3.0]), 10, 3)
    (array([11, 13, 10]), array([3., 3., 1.]))
    """
    candidates = np.flatnonzero(scores > 0.0)
    if len(candidates) > n_wanted:
        least = np.partition(scores[candidates], len(candidates) - n_wanted)[len(candidates) - n_wanted]
        candidates = candidates[scores[candidates] >= least]
    order = np.lexsort((candidates, -scores[candidates]))[:n_wanted]
    chosen = candidates[order]
    return chosen.astype(np.int64) + first, scores[chosen]


def merged(
    one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray], n_wanted: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest of two sets of columns and scores, as `largest` would for their union.

    Examples
    --------
    >>> merged((np.array([1]), np.array([2.0])), (np.array([0]), np.array([2.0])), 1)
    (array([0]), array([2.]))
    """
    columns, scores = np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])
    order = np.lexsort((columns, -scores))[:n_wanted]
    return columns[order], scores[order]
