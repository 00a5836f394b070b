"""The rows that a selector uses, and their order: those of positive weight, in random order as far as known."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.errors import DataError, warn
from daskfs.matrix.base import Matrix
from daskfs.selectors.inputs import seed_of


def weighted_rows(matrix: Matrix) -> Matrix:
    """Return the rows of positive weight.

    Raises
    ------
    DataError
        There are fewer than two.
    """
    weight = matrix.read_weight(slice(None))
    if weight is None or weight.all():
        return matrix
    matrix = matrix.take(weight > 0)
    if matrix.shape[0] < 2:
        raise DataError("expected at least two rows of positive weight", "weight", "check the weights")
    return matrix


def in_random_order(matrix: Matrix, random_state: Any, notes: list[str], remedy: str = "") -> Matrix:
    """Return a matrix whose consecutive rows are random subsets, as far as known.

    Rows of a shuffled store, and independently drawn rows, keep their order. Arrays in memory are permuted as ingest
    permutes the rows of a store. Other rows are in the order of their source and keep it, with a warning and a note.
    The warning says to shuffle a store, and what else a method can do: `remedy`.
    """
    if matrix.rows_are_random:
        return matrix
    if matrix.is_resident:
        return matrix.take(ingest_order(matrix.shape[0], random_state))
    note = "the rows are in the order of their source: subsets of consecutive rows may not be random"
    warn(f"{note}; ingest with shuffle=True{remedy}")
    notes.append(note)
    return matrix


def ingest_order(n_samples: int, random_state: Any) -> np.ndarray:
    """Return the order in which ingest would store the rows."""
    return np.argsort(np.random.default_rng(seed_of(random_state)).random(n_samples), kind="stable")
