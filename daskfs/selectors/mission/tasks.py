"""What MISSION does where the data is: a model learns from a stretch of rows; rows are surveyed.

Imported by workers, hence light: numpy and the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.blocks.sparse_rows import entries_of, standardised_entries
from daskfs.kernels.linear.column_sums import add_column_sums, add_moments, row_norms
from daskfs.kernels.sketch.rows import LOSS_SUM, WEIGHT_SUM, StepRule
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, SparseRows
from daskfs.matrix.streaming import prefetched
from daskfs.selectors.mission.model import MissionModel, ModelShape, NotFiniteRow

SPARSE_PIECE = 256  # sparse rows that are looked at together before anything is learnt
SURVEY_VALUES = 1 << 20  # entries of them that suffice


@dataclass(frozen=True, slots=True)
class Target:
    """How the target and the weights of rows become what the kernels take."""

    classes: np.ndarray | None = None
    """The target's values, ascending; None where it is a number."""
    class_weight: np.ndarray | None = None
    """One factor for each class."""
    mean_weight: float = 1.0
    """By which weights are divided."""

    def read(self, matrix: Matrix, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return target (-1 and 1 for two classes, numbers of several) and weights of rows, float64."""
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
class Standard:
    """What dense columns are brought to before they are learnt from: (x - centre) * factor."""

    centre: np.ndarray
    factor: np.ndarray
    """One over the standard deviation; 1 of a constant column."""


@dataclass(frozen=True, slots=True)
class Learning:
    """How a model learns; the same for all tasks of a run."""

    shape: ModelShape
    target: Target
    rate: float
    """Of the first row."""
    period: float
    """Row t has rate / sqrt(1 + t / period); infinite for a constant rate."""
    step_limit: float
    intercept_ratio: float
    half_life: float
    """Rows in which the tail loses half; infinite for never."""
    piece_rows: int
    """Rows in memory at once; of no influence on the result."""
    standard: Standard | None = None

    def rule(self, n_replicas: int) -> StepRule:
        """Return what kernels take; of one of several models that are averaged afterwards.

        Of the losses whose derivative is bounded, steps may be as much longer as there are models. Of the others they
        must not: each model would run away before it is averaged.
        """
        loss = find_loss(self.shape.loss)
        return StepRule(
            loss.code,
            rate=self.rate * n_replicas,
            inverse_period=1.0 / self.period,
            step_limit=self.step_limit * (n_replicas if loss.has_bounded_derivative else 1),
            intercept_ratio=self.intercept_ratio,
            row_count=float(n_replicas),
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """Blocks of rows that one model takes in their order, while others take others."""

    blocks: tuple[Rows, ...]
    """Rows of the base matrix; after each block comes a selection."""
    n_replicas: int = 1
    """Models that learn at the same time."""
    number: int = 0
    """Of this model among them."""
    frozen: bool = False
    """Whether the active features stay as they are."""
    in_place: bool = False
    """Whether the model's cells may be written to: where nobody else has them, and nothing runs twice."""
    with_sums: bool = False
    """Whether sums over the active features' columns come back too."""


def train_stretch(
    matrix: Matrix, learning: Learning, arrays: dict[str, np.ndarray], stretch: Stretch
) -> dict[str, np.ndarray]:
    """Let a model learn from a stretch of rows.

    Parameters
    ----------
    matrix : Matrix
    learning : Learning
    arrays : dict of ndarray
        The model, from `MissionModel.to_arrays`; its cells are changed where the stretch says so.
    stretch : Stretch

    Returns
    -------
    dict of ndarray
        The model afterwards; ``sums`` of shape (n_active, 3), in the order of its ids, where they were asked for.

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    model = MissionModel.from_arrays(learning.shape, arrays, copy=not stretch.in_place)
    if stretch.number:  # counted once, where models are averaged
        model.touches[:] = 0
        model.numbers[:] = _without_counts(model.numbers)
    rule = learning.rule(stretch.n_replicas)
    sums = np.zeros((len(arrays["keys"]), 3))
    seen = 0
    for rows, entries, y, weight, ends_block in _pieces(matrix, learning, stretch.blocks):
        try:
            model.train(entries, y, weight, rule, stretch.frozen)
        except NotFiniteRow as fault:
            raise not_finite(matrix, rows, entries, fault.row) from None
        seen += len(y) * stretch.n_replicas
        if stretch.with_sums:
            add_column_sums(entries.indptr, entries.indices, entries.data, weight, arrays["keys"], sums)
        if ends_block and not stretch.frozen:
            model.end_block(seen, learning.half_life)
            seen = 0
    trained = model.to_arrays()
    return {**trained, "sums": sums} if stretch.with_sums else trained


def _without_counts(numbers: np.ndarray) -> np.ndarray:
    numbers = numbers.copy()
    numbers[[LOSS_SUM, WEIGHT_SUM]] = 0.0
    return numbers


def _pieces(
    matrix: Matrix, learning: Learning, blocks: tuple[Rows, ...]
) -> Iterator[tuple[Rows, SparseRows, np.ndarray, np.ndarray, bool]]:
    """Yield rows, entries, target, weights and whether a block ends, read ahead by one."""
    pieces = [piece for block in blocks for piece in _cut(block, learning.piece_rows)]

    def read(piece: tuple[Rows, bool]) -> tuple[Rows, SparseRows, np.ndarray, np.ndarray, bool]:
        return (
            piece[0],
            read_entries(matrix, piece[0], learning.standard),
            *learning.target.read(matrix, piece[0]),
            piece[1],
        )

    return prefetched(read, pieces, 0 if matrix.is_resident else 1)


def read_entries(matrix: Matrix, rows: Rows, standard: Standard | None = None) -> SparseRows:
    """Return rows as the kernels take them: ids unsigned, values float32, as they stand or from a dense block."""
    found = matrix.sparse_rows(rows)
    if found is None:
        X = _dense(matrix, rows)
        if standard is None:
            return SparseRows(*entries_of(X))
        return SparseRows(*standardised_entries(X, standard.centre, standard.factor))
    indices = found.indices
    if indices.dtype.itemsize not in (4, 8) or indices.dtype.kind not in "iu":
        indices = indices.astype(np.uint64)
    with np.errstate(over="ignore"):
        data = found.data.astype(np.float32, copy=False)
    unsigned = indices.view(np.uint32 if indices.dtype.itemsize == 4 else np.uint64)
    return SparseRows(_writable(found.indptr), _writable(unsigned), _writable(data))


def _dense(matrix: Matrix, rows: Rows) -> np.ndarray:
    X = matrix.read(rows)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float32)
    return np.require(X, dtype=dtype, requirements=["C", "W"])


def _writable(values: np.ndarray) -> np.ndarray:
    """Contiguous and writable: for numba, read-only arrays are another type, compiled again."""
    return np.require(values, requirements=["C", "W"])


def survey_rows(
    matrix: Matrix, target: Target, standardise: bool, piece_rows: int, rows: Rows
) -> dict[str, np.ndarray]:
    """Return what is to be known of rows before learning; they are read in pieces, which is of no consequence.

    Returns
    -------
    dict of ndarray
        ``squared_norm``: the weighted mean of ‖x‖²; ``nnz``, ``n_rows`` and ``n_ids``, the different ids met. Where
        columns are to be standardised, their ``centre`` and ``factor``. Of sparse rows, those of the first 2²⁰ entries.
    """
    is_dense = matrix.sparse_rows(slice(0, 1)) is None
    pieces = _cut(rows, piece_rows if is_dense else SPARSE_PIECE)
    standard = _standard(matrix, target, [piece for piece, _ in pieces]) if standardise else None
    norms, weights, ids, nnz = [], [], [], 0
    for piece, _ in pieces:
        entries = read_entries(matrix, piece, standard)
        norms.append(np.empty(len(entries.indptr) - 1))
        row_norms(entries.indptr, entries.data, norms[-1])
        if not np.isfinite(norms[-1]).all():
            raise not_finite(matrix, piece, entries, int(np.flatnonzero(~np.isfinite(norms[-1]))[0]))
        weights.append(target.read(matrix, piece)[1])
        nnz += len(entries.data)
        if not is_dense:
            ids.append(entries.indices)
            if nnz >= SURVEY_VALUES:
                break
    found = {
        "squared_norm": np.array(np.average(np.concatenate(norms), weights=np.concatenate(weights))),
        "nnz": np.array(nnz),
        "n_rows": np.array(sum(len(part) for part in norms)),
        "n_ids": np.array(matrix.shape[1] if is_dense else _n_different(np.concatenate(ids))),
    }
    return found if standard is None else {**found, "centre": standard.centre, "factor": standard.factor}


def _cut(rows: Rows, length: int) -> list[tuple[Rows, bool]]:
    """Return pieces of rows of at most so many, each with whether it is the last."""
    n_rows = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
    pieces: list[tuple[Rows, bool]] = []
    for start in range(0, n_rows, length):
        stop = min(start + length, n_rows)
        piece = slice(rows.start + start, rows.start + stop) if isinstance(rows, slice) else rows[start:stop]
        pieces.append((piece, stop == n_rows))
    return pieces


def _standard(matrix: Matrix, target: Target, pieces: list[Rows]) -> Standard:
    """Return weighted means, and one over the standard deviations, of dense columns."""
    with np.errstate(invalid="ignore", over="ignore"):  # the rows' own check says where
        shift = _dense(matrix, _cut(pieces[0], 1)[0][0])[0].astype(np.float64)  # differences from it do not cancel
        shift[~np.isfinite(shift)] = 0.0
        total, sums, squares = 0.0, np.zeros(len(shift)), np.zeros(len(shift))
        for piece in pieces:
            weight = target.read(matrix, piece)[1]
            add_moments(_dense(matrix, piece), shift, weight, sums, squares)
            for one in weight.tolist():  # one after the other, whatever the pieces
                total += one
        mean = sums / total
        centre, spread = shift + mean, np.sqrt(np.maximum(squares / total - mean**2, 0.0))
    is_constant = ~(spread > 1e-7 * np.abs(centre))  # or not finite
    return Standard(np.where(np.isfinite(centre), centre, 0.0), 1.0 / np.where(is_constant, 1.0, spread))


def _n_different(ids: np.ndarray) -> int:
    """Return how many different ids there are: by sorting, which is several times as fast as ``np.unique``."""
    return int(np.count_nonzero(np.diff(np.sort(ids)))) + (len(ids) > 0)


def not_finite(matrix: Matrix, rows: Rows, entries: SparseRows, row: int) -> DataError:
    """Return the error of a row that holds NaN or infinity, with the column's name and the source's row."""
    here = slice(int(entries.indptr[row]), int(entries.indptr[row + 1]))
    bad = np.flatnonzero(~np.isfinite(entries.data[here]))
    stored = rows.start + row if isinstance(rows, slice) else int(rows[row])
    if len(bad):
        return matrix.bad_value(stored, int(entries.indices[here][bad[0]]), entries.data[here][bad[0]], "single")
    place = f"row {matrix.source_row(stored)}"
    return DataError("its values are too large to be squared in single precision", place, "scale the columns")
