"""Notes on selected columns: constants, identifiers, exact copies.

Only cheap checks are made: by the columns' statistics, from a store or from small arrays in memory. Columns that these
point out are read and compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from daskfs.errors import Caution, Suspicion
from daskfs.matrix.base import Matrix

MOST_FEATURES = 1 << 17
"""Largest number of columns whose statistics are checked: 4 MiB."""
MOST_VALUES = 1 << 23
"""Largest number of values of arrays in memory."""
MOST_READ = 32
"""Largest number of columns that are read and compared."""
PIECE_ROWS = 1 << 18
_NAMED = 5


class _Statistics(NamedTuple):
    total: np.ndarray
    """Or means: equal columns have equal ones."""
    minimum: np.ndarray
    maximum: np.ndarray


def remarks_on(matrix: Matrix, selected: np.ndarray) -> list[str]:
    """Return notes on selected columns; usually there are none.

    Parameters
    ----------
    matrix : Matrix
        The matrix of the selection.
    selected : int64 array of shape (n_selected,)
    """
    found = _statistics(matrix)
    if found is None:
        return []
    notes: list[str] = []
    if (found.minimum == found.maximum).all():
        return [Caution(f"all columns are constant: {_listed(matrix, range(matrix.shape[1]))}")]
    constant = selected[found.minimum[selected] == found.maximum[selected]]
    if len(constant):
        notes.append(Caution(f"selected although constant: {_listed(matrix, constant)}"))
    low, high = (extreme[selected].astype(np.float64) for extreme in (found.minimum, found.maximum))
    is_likely = (low == np.floor(low)) & (high == np.floor(high)) & (high - low >= matrix.shape[0] - 1)
    likely = selected[is_likely] if matrix.shape[0] > 2 else selected[:0]
    identifiers = [j for j in likely[:MOST_READ].tolist() if _identifies(matrix, j)]
    if identifiers:
        which = _listed(matrix, identifiers)
        notes.append(Suspicion(f"each row has a different whole number: {which}; leave out identifiers"))
    copies = _copies(matrix, selected, found)
    if copies:
        pairs = [f"{_listed(matrix, [other])} of {_listed(matrix, [j])}" for j, other in copies[:_NAMED]]
        more = f" and {len(copies) - _NAMED} more" if len(copies) > _NAMED else ""
        copied = f"{', '.join(pairs)}{more}"
        found_copies = f"exact copies of selected columns, which could have been selected instead: {copied}"
        notes.append(Suspicion(found_copies))
    return notes


def _statistics(matrix: Matrix) -> _Statistics | None:
    n_samples, n_features = matrix.shape
    if n_features > MOST_FEATURES:
        return None
    known = matrix.base.column_statistics()  # of all rows, even if only some were used: good enough for a first check
    if known is not None:
        return _Statistics(known.mean, known.minimum, known.maximum)
    X = matrix.column_view(slice(None)) if n_samples * n_features <= MOST_VALUES else None
    return None if X is None else _Statistics(X.sum(axis=0, dtype=np.float64), X.min(axis=0), X.max(axis=0))


def _identifies(matrix: Matrix, column: int) -> bool:
    """Return whether a column has a different whole number in each row: consecutive, or ascending in source order."""
    values = matrix.read(slice(None), np.array([column]))[:, 0].astype(np.float64)
    ordered = np.sort(values)
    if not (values == np.floor(values)).all() or not (np.diff(ordered) > 0).all():
        return False
    source_rows = matrix.source_rows
    in_order = values if source_rows is None else values[np.argsort(source_rows)]
    return ordered[-1] - ordered[0] == len(values) - 1 or bool((np.diff(in_order) > 0).all())


def _copies(matrix: Matrix, selected: np.ndarray, found: _Statistics) -> list[tuple[int, int]]:
    """Return pairs of a selected column and another column that is equal in every row."""
    alike: dict[tuple[float, ...], list[int]] = {}
    of_column = list(zip(*(column.tolist() for column in found), strict=True))
    for j in np.flatnonzero(np.isin(found.total, found.total[selected]) & (found.minimum < found.maximum)).tolist():
        alike.setdefault(of_column[j], []).append(j)
    pairs, n_read, taken = list[tuple[int, int]](), 0, set[int]()
    for j in selected.tolist():
        for other in alike.get(of_column[j], []):
            if other == j or other in taken:
                continue
            if n_read == MOST_READ:
                return pairs
            n_read += 1
            if _are_equal(matrix, j, other):
                pairs.append((j, other))
                taken |= {j, other}
    return pairs


def _are_equal(matrix: Matrix, j: int, other: int) -> bool:
    start, length = 0, matrix.tile_shape[0]  # most columns that differ do so in the first tile
    while start < matrix.shape[0]:
        block = matrix.read(slice(start, start + length), np.array(sorted((j, other))))
        if (block[:, 0] != block[:, 1]).any():
            return False
        start, length = start + length, min(2 * length, max(length, PIECE_ROWS))
    return True


def _listed(matrix: Matrix, columns: Iterable[int]) -> str:
    names = [repr(str(matrix.names[int(j)])) for j in columns]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
