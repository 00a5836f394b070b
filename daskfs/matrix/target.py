"""Whether a target is of numbers or of classes: the same for arrays, frames, stores and what Dask holds.

Texts and categories are classes. Numbers are told by their values alone, for a store keeps no other type: two whole
values are classes, and so are up to `MOST_GUESSED` of them with `ROWS_FOR_EACH` rows or more on average. Iris and
digits are such, and so are ratings and small counts: which it was taken for is said, with the `loss` to set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.base import Matrix

MOST_GUESSED = 20
"""Whole values that are taken for classes, at most."""
MOST_DOUBTED = 100
"""Whole values that are taken for numbers without a word: more than these."""
ROWS_FOR_EACH = 5
"""Rows for each value, on average, at least."""
_PIECE = 1 << 16


def are_texts(y: Any) -> bool:
    """Whether a target is of texts or categories, not of numbers."""
    dtype = getattr(y, "dtype", None)
    if type(dtype).__name__ == "CategoricalDtype":
        return True
    if not isinstance(dtype, np.dtype):
        y = np.asarray(y)
        dtype = y.dtype
    return dtype.kind in "US" or (dtype.kind == "O" and any(isinstance(value, str) for value in np.ravel(y)))


class WholeValues:
    """The whole numbers that a target takes, as its rows come in; given up where there are others, or too many."""

    def __init__(self) -> None:
        self._found: np.ndarray | None = np.empty(0)

    def update(self, y: np.ndarray) -> None:
        """Look at some more rows."""
        for start in range(0, len(y), _PIECE):
            if self._found is None:
                return
            found = np.union1d(self._found, y[start : start + _PIECE])
            is_whole = np.isfinite(found) & (found == np.floor(found))
            self._found = found if is_whole.all() and len(found) <= MOST_DOUBTED else None

    @property
    def count(self) -> int:
        """How many there are; 0 where they were given up."""
        return 0 if self._found is None else len(self._found)


def kind_of_values(n_whole: int, n_samples: int) -> TargetKind:
    """Return what a target of numbers is taken for that takes so many whole values in so many rows.

    Parameters
    ----------
    n_whole : int
        `WholeValues.count`.
    n_samples : int

    Examples
    --------
    >>> kind_of_values(2, 3).n_classes, kind_of_values(3, 5).n_classes, kind_of_values(0, 5).n_classes
    (2, 0, 0)
    >>> kind_of_values(3, 30), kind_of_values(30, 1000)
    (TargetKind(n_classes=3, is_declared=False, n_whole=3), TargetKind(n_classes=0, is_declared=False, n_whole=30))
    """
    if n_whole == 2:
        return TargetKind(2)
    if n_whole < 2 or n_samples < ROWS_FOR_EACH * n_whole:
        return PLAIN_NUMBERS
    return TargetKind(n_whole if n_whole <= MOST_GUESSED else 0, n_whole=n_whole)


def kind_of(y: np.ndarray) -> TargetKind:
    """Return what a target of numbers, of shape (n_samples,), is taken for."""
    values = WholeValues()
    values.update(y)
    return kind_of_values(values.count, len(y))


def kind_of_target(matrix: Matrix) -> TargetKind:
    """Return what the target of a matrix is: as it was declared, or as its values say."""
    y = matrix.read_target(slice(None))
    if y is None or y.ndim != 1:
        return PLAIN_NUMBERS
    if matrix.target_classes is None:
        return kind_of(y)
    return TargetKind(len(np.unique(y)), is_declared=True)


def doubt(kind: TargetKind, loss: str, others: Sequence[str]) -> str:
    """Return what is to be said where numbers could be classes, or the other way round.

    Parameters
    ----------
    kind : TargetKind
    loss : str
        The loss that was taken.
    others : sequence of str
        What to set where it was meant the other way.
    """
    taken, other = ("classes", "numbers") if kind.n_classes else ("numbers", "classes")
    return (
        f"the target takes {kind.n_whole} whole values, which were taken for {taken} (loss={loss!r}); "
        f"set that loss where it is right, {' or '.join(map(repr, others))} where they are {other}"
    )
