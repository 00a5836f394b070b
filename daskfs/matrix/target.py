"""Whether a target is numeric or categorical; the same rule for arrays, frames, stores and Dask collections.

Texts and categories are classes. For numbers the values decide, because a store keeps no other type: two distinct whole
values are classes, and so are up to `MOST_GUESSED` of them with at least `ROWS_FOR_EACH` rows each on average. Iris and
digits are recognised as classes, but so are ratings and small counts. A warning says what was assumed and which `loss`
to set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.base import Matrix

DataError = errors.DataError.about("target")

MOST_GUESSED = 20
"""Largest number of distinct whole values taken as classes."""
MOST_NAMED = 5
"""Largest number of targets that a message names."""
LARGEST_LABEL = 2.0**53
"""Beyond, every number that a float64 holds is whole, so it says nothing about what the number stands for."""
MOST_DOUBTED = 100
"""Above this number of distinct whole values, a target is taken as numeric without a warning."""
ROWS_FOR_EACH = 5
"""Smallest average number of rows for each value of a class."""
_PIECE = 1 << 16


def are_texts(y: Any) -> bool:
    """Whether a target consists of texts or categories, not of numbers."""
    dtype = getattr(y, "dtype", None)
    if type(dtype).__name__ == "CategoricalDtype":
        return True
    if not isinstance(dtype, np.dtype):
        y = np.asarray(y)
        dtype = y.dtype
    return dtype.kind in "US" or (dtype.kind == "O" and any(isinstance(value, str) for value in np.ravel(y)))


def plain(y: Any) -> Any:
    """Return the booleans or numbers of a nullable column or of objects as an array of their type; others unchanged."""
    if isinstance(getattr(y, "dtype", None), np.dtype) and y.dtype.kind != "O":
        return y
    values = np.asarray(y)
    typed = np.array(values.tolist()) if values.dtype.kind == "O" else values
    return typed if typed.dtype.kind in "biuf" and typed.shape == values.shape else y


class WholeValues:
    """The distinct whole numbers of a target, collected as rows arrive. Other or too many values stop it."""

    def __init__(self) -> None:
        self._found: np.ndarray | None = np.empty(0)
        self.are_fractions = False
        """Whether a value that is not whole stopped it."""

    def update(self, y: np.ndarray) -> None:
        """Examine further rows."""
        for start in range(0, len(y), _PIECE):
            if self._found is None:
                return
            found = np.union1d(self._found, y[start : start + _PIECE])
            is_whole = (np.abs(found) < LARGEST_LABEL) & (found == np.floor(found))
            self._found = found if is_whole.all() and len(found) <= MOST_DOUBTED else None
            self.are_fractions = bool((np.isfinite(found) & (found != np.floor(found))).any())

    @property
    def count(self) -> int:
        """Number of distinct values; 0 if the collection was stopped."""
        return 0 if self._found is None else len(self._found)


def kind_of_values(n_whole: int, n_samples: int) -> TargetKind:
    """Return the kind of a numeric target with `n_whole` distinct whole values in `n_samples` rows.

    Parameters
    ----------
    n_whole : int
        `WholeValues.count`.
    n_samples : int

    Examples
    --------
    >>> kind_of_values(2, 3).n_classes, kind_of_values(3, 5).n_classes, kind_of_values(0, 5).n_classes
    (2, 0, 0)
    >>> kind_of_values(3, 30).n_classes, kind_of_values(30, 1000).n_classes, kind_of_values(30, 1000).n_whole
    (3, 0, 30)
    """
    if n_whole == 2:
        return TargetKind(2)
    if n_whole < 2 or n_samples < ROWS_FOR_EACH * n_whole:
        return PLAIN_NUMBERS
    return TargetKind(n_whole if n_whole <= MOST_GUESSED else 0, n_whole=n_whole)


def kind_of(y: np.ndarray) -> TargetKind:
    """Return the kind of a numeric target of shape (n_samples,)."""
    values = WholeValues()
    values.update(y)
    return kind_of_values(values.count, len(y))._replace(is_continuous=values.are_fractions)


def kind_of_target(matrix: Matrix) -> TargetKind:
    """Return the kind of a matrix's target: as declared, or inferred from its values.

    Raises
    ------
    DataError
        There are several targets.
    """
    y = matrix.read_target(slice(None))
    if y is None:
        return PLAIN_NUMBERS
    if y.ndim != 1:
        names = ", ".join([*matrix.target_names[:MOST_NAMED], *["..."] * (y.shape[1] > MOST_NAMED)])
        raise DataError(
            f"expected one target, found {y.shape[1]:,}: {names}", "y", "ingest with one column as target= or y="
        )
    if matrix.target_classes is None:
        return kind_of(y)
    return TargetKind(len(np.unique(y)), is_declared=True)


def doubt(kind: TargetKind, loss: str, others: Sequence[str]) -> str:
    """Return the warning for a target whose numbers could be classes, or the reverse.

    Parameters
    ----------
    kind : TargetKind
    loss : str
        The loss that was chosen.
    others : sequence of str
        The losses to set if the choice is wrong.
    """
    taken, other = ("classes", "numbers") if kind.n_classes else ("numbers", "classes")
    return (
        f"the target takes {kind.n_whole} whole values, which were taken for {taken} (loss={loss!r}); "
        f"set that loss if this is right, or {' or '.join(map(repr, others))} if they are {other}"
    )
