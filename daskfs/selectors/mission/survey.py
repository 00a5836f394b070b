"""The survey of the first rows, before training: norms, means, scales, and the encoding of the target.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.linear.column_sums import add_moments, row_norms
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, SparseRows
from daskfs.selectors.mission.reading import Cuts, Piece, RowReader, Scaling, pieces_of
from daskfs.selectors.shared.record import Record

SPARSE_PIECE = 256  # sparse rows that are surveyed together
SURVEY_ENTRIES = 1 << 20  # entries that are enough for the survey


@dataclass(frozen=True, slots=True)
class TargetEncoding:
    """The encoding of targets and weights for the kernels."""

    classes: np.ndarray | None = None
    """The target's values, ascending; None for regression."""
    class_weight: np.ndarray | None = None
    """One factor for each class."""
    mean_weight: float = 1.0
    """Divisor of the weights."""

    @property
    def positives(self) -> list[Any]:
        """The classes that are each fitted against the rest (of two only the second); [None] for regression."""
        if self.classes is None:
            return [None]
        return list(self.classes[1:] if len(self.classes) == 2 else self.classes)

    def read(self, matrix: Matrix, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return target (-1 and 1 for two classes, class numbers for several) and weights of rows, float64."""
        y = np.require(matrix.read_target(rows), dtype=np.float64, requirements=["C", "W"])
        found = matrix.read_weight(rows)
        weight = np.ones(len(y)) if found is None else np.array(found, dtype=np.float64)
        if self.classes is not None:
            codes = np.searchsorted(self.classes, y)
            if self.class_weight is not None:
                weight *= self.class_weight[codes]
            y = codes.astype(np.float64) if len(self.classes) > 2 else 2.0 * codes - 1.0
        return y, weight / self.mean_weight


@dataclass(frozen=True, slots=True)
class Survey(Record):
    """Facts about the rows before training; for sparse rows, from those with the first 2²⁰ entries."""

    squared_norm: float
    """The weighted mean of ‖x‖²."""
    nnz: int
    n_rows: int
    n_ids: int
    """Number of different features seen; for dense rows all."""
    scaling: Scaling | None = None
    """If columns are to be standardised."""

    @property
    def nnz_per_row(self) -> float:
        """Mean number of entries per row."""
        return self.nnz / self.n_rows

    @property
    def rows_per_occurrence(self) -> float:
        """Mean number of rows until a feature occurs again."""
        return self.n_ids * self.n_rows / max(1, self.nnz)


def survey_rows(matrix: Matrix, target: TargetEncoding, standardize: bool, cuts: Cuts, rows: Rows) -> Survey:
    """Survey rows before training. They are read in pieces, which do not affect the result."""
    is_dense = matrix.sparse_rows(slice(0, 1)) is None
    cuts, reader = cuts if is_dense else Cuts(SPARSE_PIECE), RowReader(matrix)
    pieces = list(pieces_of([rows], cuts))
    scaling = _scaling(reader, target, pieces) if standardize else None
    norms, weights, ids, nnz = [], [], [], 0
    for piece in pieces:
        entries = reader.entries(piece, scaling)
        norms.append(np.empty(len(entries.indptr) - 1))
        row_norms(entries.indptr, entries.data, norms[-1])
        if not np.isfinite(norms[-1]).all():
            raise not_finite(matrix, piece.rows, entries, int(np.flatnonzero(~np.isfinite(norms[-1]))[0]))
        weights.append(target.read(matrix, piece.rows)[1])
        nnz += len(entries.data)
        if not is_dense:
            ids.append(entries.indices)
            if nnz >= SURVEY_ENTRIES:
                break
    squared_norms = np.concatenate(norms)
    mean = float(np.average(squared_norms, weights=np.concatenate(weights)))
    n_ids = int(matrix.shape[1])
    if not is_dense:  # sorting takes a fraction of the time of np.unique
        found = np.sort(np.concatenate(ids))
        n_ids = int(np.count_nonzero(np.diff(found))) + (len(found) > 0)
    return Survey(mean, nnz, len(squared_norms), n_ids, scaling)


def _scaling(reader: RowReader, target: TargetEncoding, pieces: Sequence[Piece]) -> Scaling:
    """Return weighted means, and one over the standard deviations, of dense columns."""
    shift, total = np.empty(0), 0.0
    with np.errstate(invalid="ignore", over="ignore"):  # a later check of the rows reports the place
        for piece in pieces:
            X, weight = reader.dense(piece), target.read(reader.matrix, piece.rows)[1]
            if not len(shift):
                shift = X[0].astype(np.float64)  # differences from it do not cancel
                shift[~np.isfinite(shift)] = 0.0
                sums, squares = np.zeros(len(shift)), np.zeros(len(shift))
            add_moments(X, shift, weight, sums, squares)
            for one in weight.tolist():  # one at a time, so that pieces do not matter
                total += one
        mean = sums / total
        centre, spread = shift + mean, np.sqrt(np.maximum(squares / total - mean**2, 0.0))
    # otherwise the column stays unscaled, and only its bad values are reported
    is_finite = np.isfinite(centre) & np.isfinite(spread)
    is_constant = ~(is_finite & (spread > 1e-7 * np.abs(centre)))
    return Scaling(np.where(is_finite, centre, 0.0), 1.0 / np.where(is_constant, 1.0, spread))


def not_finite(matrix: Matrix, rows: Rows, entries: SparseRows, row: int) -> DataError:
    """Return the error for a row with NaN or infinity, with the column's name and the row of the source."""
    here = slice(int(entries.indptr[row]), int(entries.indptr[row + 1]))
    bad = np.flatnonzero(~np.isfinite(entries.data[here]))
    stored = rows.start + row if isinstance(rows, slice) else int(rows[row])
    if len(bad):
        return matrix.bad_value(stored, int(entries.indices[here][bad[0]]), entries.data[here][bad[0]], "single")
    place = f"row {matrix.source_row(stored)}"
    return DataError("its values are too large to be squared in single precision", place, "scale the columns")
