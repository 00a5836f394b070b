"""Columns and products of two columns: their numbers, which pairs are wanted, their scores, and the largest of them.

For m columns, the parents, the implicit columns are numbered as in scikit-learn's `PolynomialFeatures(2,
include_bias=False)`: the m parents, then the products x_i x_j, i <= j, row by row of the upper triangle.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel

MOST_PARENTS = 2**31 - 1
"""Largest number of parents whose pairs have numbers below 2⁶³."""
PRIOR_ROWS = 30.0
"""Number of extra rows in the standardisation of dummies, counts, tf-idf and their products: see `prior_variance`."""


def n_implicit(n_parents: int) -> int:
    """Return the number of columns, squares and pairs.

    Examples
    --------
    >>> n_implicit(3), n_implicit(4_590_000)
    (9, 10534056885000)
    """
    return n_parents + n_parents * (n_parents + 1) // 2


def number_of(i: int, j: int, n_parents: int) -> int:
    """Return the number of the product of columns i and j.

    Examples
    --------
    >>> [number_of(i, j, 3) for i in range(3) for j in range(i, 3)]
    [3, 4, 5, 6, 7, 8]
    """
    i, j = min(i, j), max(i, j)
    return n_parents + i * n_parents - i * (i - 1) // 2 + j - i


def parents_of(numbers: np.ndarray, n_parents: int) -> np.ndarray:
    """Return the parents i <= j of implicit columns, int64 of shape (n_numbers, 2); j is -1 for a column itself.

    Examples
    --------
    >>> parents_of(np.array([2, 3, 7, 8]), 3).tolist()
    [[2, -1], [0, 0], [1, 2], [2, 2]]
    """
    found = np.empty((len(numbers), 2), np.int64)
    last = n_implicit(n_parents) - 1
    for k, number in enumerate(np.asarray(numbers).tolist()):
        if number < n_parents:
            found[k] = number, -1
            continue
        from_end = last - number  # the reversed triangle has rows of 1, 2, 3, ... numbers
        row = (math.isqrt(8 * from_end + 1) - 1) // 2
        found[k] = n_parents - 1 - row, n_parents - 1 - (from_end - row * (row + 1) // 2)
    return found


class Wanted(NamedTuple):
    """Which products are scored; all arrays of shape (n_parents,)."""

    left: np.ndarray
    """int64, one bit per set of columns."""
    right: np.ndarray
    """A product is wanted if `left` of one column and `right` of the other have a common set."""
    is_selected: np.ndarray
    """bool: columns selected so far."""
    n_selected: int
    """Number of parents of a pair that must be selected: 0, 1 (weak hierarchy) or 2 (strong)."""
    has_square: np.ndarray
    """bool: the column has more than two values, so its square does not repeat it."""


class Weighing(NamedTuple):
    """The data needed to score a product z = u_i u_j from its sums; arrays of shape (n_parents,)."""

    total: float
    """Σ_i w_i over the rows."""
    is_centred: bool
    """Whether products are centred. The v of each class then add up to 0, and scores need no means."""
    is_normalised: bool
    """Whether products are divided by their standard deviations, or without centring by their root mean squares."""
    size: np.ndarray
    """Typical square of a nonzero value."""
    is_mostly_zero: np.ndarray
    """bool: dummies, counts, tf-idf."""
    pair: float
    """Squared weight of a product."""
    square: float
    """Squared weight of a square."""
    least_ratio: float
    """Share of the mean square below which a variance is a rounding error: the product is constant."""


class Largest(NamedTuple):
    """The largest scores so far as a heap, smallest on top; ties have the larger number on top."""

    scores: np.ndarray
    """Shape (n_wanted,), float64; 0 in free places."""
    numbers: np.ndarray
    """int64, -1 in free places."""


def new_largest(n_wanted: int) -> Largest:
    """Return an empty heap."""
    return Largest(np.zeros(n_wanted), np.full(n_wanted, -1, np.int64))


def in_order(largest: Largest) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers and scores, by decreasing score, ties by number."""
    numbers, scores = largest.numbers[largest.numbers >= 0], largest.scores[largest.numbers >= 0]
    order = np.lexsort((numbers, -scores))
    return numbers[order], scores[order]


@kernel
def is_wanted(wanted, i, j):  # type: ignore[no-untyped-def]
    """Return whether the product of columns i and j is scored."""
    if i == j and not wanted.has_square[i]:
        return False
    if int(wanted.is_selected[i]) + int(wanted.is_selected[j]) < wanted.n_selected:
        return False
    return (wanted.left[i] & wanted.right[j]) | (wanted.left[j] & wanted.right[i]) != 0


@kernel
def spread_of(weighing, i, j, one, two):  # type: ignore[no-untyped-def]
    """Return the square of the divisor of the product of columns i and j, from Σ w z and Σ w z²; 0 if constant."""
    mean, square = one / weighing.total, two / weighing.total
    variance = square - mean * mean if weighing.is_centred else square
    if not variance > weighing.least_ratio * square:
        return 0.0
    if not weighing.is_normalised:
        return 1.0
    if weighing.is_mostly_zero[i] or weighing.is_mostly_zero[j]:
        variance += PRIOR_ROWS / weighing.total * weighing.size[i] * weighing.size[j]
    return variance


@kernel
def number_in(i, j, n_parents):  # type: ignore[no-untyped-def]
    """Return `number_of`, for i <= j."""
    return n_parents + i * n_parents - i * (i - 1) // 2 + j - i


@kernel
def offer(largest, score, number):  # type: ignore[no-untyped-def]
    """Insert a score if it is among the largest."""
    scores, numbers = largest
    least = scores[0]
    if score < least or score <= 0.0 or (score == least and number > numbers[0]):
        return
    p, n = 0, scores.shape[0]
    while True:  # sift down from the top
        q = 2 * p + 1
        if q >= n:
            break
        if q + 1 < n and _goes_first(scores, numbers, q + 1, q):
            q += 1
        if scores[q] > score or (scores[q] == score and numbers[q] < number):
            break
        scores[p], numbers[p] = scores[q], numbers[q]
        p = q
    scores[p], numbers[p] = score, number


@kernel
def _goes_first(scores, numbers, p, q):  # type: ignore[no-untyped-def]
    """Return whether the score at p is dropped before that at q. Free places have number -1 and go first."""
    if scores[p] != scores[q]:
        return scores[p] < scores[q]
    return numbers[p] > numbers[q]


@kernel
def offer_all(largest, scores, numbers):  # type: ignore[no-untyped-def]
    """Insert several scores."""
    for k in range(scores.shape[0]):
        if k % 4096 == 0 and is_stopped():
            break
        offer(largest, scores[k], numbers[k])
