"""Step 1 of MESSAGE: the rows in an order whose consecutive parts are the subsets."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from daskfs.errors import DataError
from daskfs.matrix.base import Matrix
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.message.on_block import is_sparse
from daskfs.selectors.message.plan import Shape, subset_start


def weighted_rows(matrix: Matrix) -> Matrix:
    """Return the rows of positive weight.

    Raises
    ------
    DataError
        Less than two of them.
    """
    weight = matrix.read_weight(slice(None))
    if weight is None or weight.all():
        return matrix
    matrix = matrix.take(weight > 0)
    if matrix.shape[0] < 2:
        raise DataError("expected at least two rows of positive weight", "weight", "check the weights")
    return matrix


def n_entries_of(matrix: Matrix) -> int | None:
    """Return how many entries the rows have, None where they are dense."""
    counts = _entries_per_row(matrix)
    return None if counts is None else int(counts.sum())


def _entries_per_row(matrix: Matrix) -> np.ndarray | None:
    found = matrix.base.sparse_rows(slice(None))
    return None if found is None else np.diff(found.indptr)[matrix.at(0, matrix.shape[0])]


def most_entries(in_order: Matrix, shape: Shape) -> int | None:
    """Return the entries of the largest subset; None where subsets, or some of them, are read as dense blocks."""
    counts = _entries_per_row(in_order)
    if counts is None or shape.is_approximate:
        return None
    starts = [subset_start(i, shape.n_samples, shape.n_subsets) for i in range(shape.n_subsets)]
    most = int(np.add.reduceat(counts, starts).max())
    return most if is_sparse(shape.n_samples // shape.n_subsets, shape.n_features, most) else None


def in_partition(matrix: Matrix, shape: Shape, random_state: Any, notes: list[str]) -> Matrix:
    """Return a matrix whose consecutive rows are the subsets: random, or every m-th of the rows as they stand."""
    return strided(matrix, shape.n_subsets) if shape.is_strided else in_random_order(matrix, random_state, notes)


def in_random_order(matrix: Matrix, random_state: Any, notes: list[str]) -> Matrix:
    """Return a matrix whose consecutive rows are random subsets, as far as that is known.

    Rows of a shuffled store, and those drawn independently of each other, are taken as they stand. Arrays in memory are
    permuted as ingest permutes the rows of a store. A store in the order of its source is taken as it stands too, with
    a warning and a note.
    """
    if matrix.rows_are_random:
        return matrix
    if matrix.is_resident:
        return matrix.take(_permutation(matrix.shape[0], random_state))
    note = "the store's rows are in the order of their source: subsets of consecutive rows may not be random"
    warnings.warn(f'{note}; ingest with shuffle=True, or take partition="strided"', UserWarning, stacklevel=6)
    notes.append(note)
    return matrix


def strided(matrix: Matrix, n_subsets: int) -> Matrix:
    """Return a matrix of which subset i has rows i, i + m, i + 2 m, ... as they stand: each subset spans all rows.

    The last n mod m rows go, one each, to the subsets that are one larger.
    """
    n_samples = matrix.shape[0]
    starts = np.array([subset_start(i, n_samples, n_subsets) for i in range(n_subsets + 1)])
    n_each = n_samples // n_subsets
    is_larger = np.diff(starts) > n_each
    order = np.empty(n_samples, dtype=np.int64)
    for i in range(n_subsets):
        order[starts[i] : starts[i] + n_each] = np.arange(n_each) * n_subsets + i
    order[starts[1:][is_larger] - 1] = np.arange(n_each * n_subsets, n_samples)
    return matrix.take(order)


def _permutation(n_samples: int, random_state: Any) -> np.ndarray:
    """Return the order in which ingest would store the rows."""
    return np.argsort(np.random.default_rng(seed_of(random_state)).random(n_samples), kind="stable")
