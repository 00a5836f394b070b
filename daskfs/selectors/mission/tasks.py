"""The tasks of MISSION: survey the first rows; train a model on a range of rows.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.linear.column_sums import add_column_sums, add_moments, row_norms
from daskfs.kernels.sketch.rows import StepRule
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import PackedRows, Rows, SparseRows, unpacked
from daskfs.matrix.passing import Passing
from daskfs.matrix.spans import Spans
from daskfs.matrix.streaming import prefetched
from daskfs.selectors.mission.model import MissionModel, ModelShape, ModelState, NotFiniteRow
from daskfs.selectors.mission.reading import Cuts, Piece, RowReader, Scaling, pieces_of, read_entries
from daskfs.selectors.mission.variants import restored
from daskfs.selectors.shared.record import Record

if TYPE_CHECKING:
    from daskfs.selectors.mission.feature_names import FeatureNames

SPARSE_PIECE = 256  # sparse rows that are surveyed together
SURVEY_VALUES = 1 << 20  # entries that are enough for the survey


@dataclass(frozen=True, slots=True)
class TargetEncoding:
    """The encoding of targets and weights for the kernels."""

    classes: np.ndarray | None = None
    """The target's values, ascending; None for regression."""
    class_weight: np.ndarray | None = None
    """One factor for each class."""
    mean_weight: float = 1.0
    """Divisor of the weights."""

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
class SgdSettings:
    """Settings of stochastic gradient descent; the same for all tasks of a run."""

    shape: ModelShape
    target: TargetEncoding
    rate: float
    """Learning rate of the first row."""
    period: float
    """Row t has learning rate ``rate / sqrt(1 + t / period)``; infinite for a constant rate."""
    step_limit: float
    intercept_ratio: float
    half_life: float
    """Number of rows in which the tail halves; infinite for never."""
    piece_rows: int
    """Rows that are entries at one time; does not affect the result."""
    scaling: Scaling | None = None
    spans: Spans | None = None
    """Rows that are decoded at once, if there are tiles; does not affect the result either."""
    growing_half_life: float | None = None
    """The half-life in passes over the rows so far, in place of `half_life`, if it is not known how many will come."""

    def half_life_after(self, n_rows: int) -> float:
        """Return the number of rows in which the tail halves, after so many rows."""
        return self.half_life if self.growing_half_life is None else self.growing_half_life * n_rows

    @property
    def cuts(self) -> Cuts:
        """How rows are cut."""
        return Cuts(self.piece_rows, self.spans)

    def rule(self, n_replicas: int) -> StepRule:
        """Return the step sizes for the kernels, for one of `n_replicas` models that are averaged afterwards.

        If the derivative of the loss is bounded, steps may be `n_replicas` times as long. Otherwise they may not, or
        each model would diverge before the average.
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
class RowRange:
    """Blocks of rows that one model learns from in order, while other models use other blocks."""

    blocks: tuple[Rows | PackedRows, ...]
    """Rows of the base matrix, with a selection after each block. Packed, since Dask keeps them for the whole chain."""
    rows_seen: float
    """Rows used by all models before these."""
    n_replicas: int = 1
    """Number of models that learn in parallel."""
    number: int = 0
    """Number of this model."""
    frozen: bool = False
    """Whether the set of active features stays the same."""
    in_place: bool = False
    """Whether the model's cells may be changed: only if nobody else uses them and no task runs twice."""
    with_sums: bool = False
    """Whether sums over the active features' columns are returned too."""


def train_on_rows(matrix: Matrix, settings: SgdSettings, state: ModelState, part: RowRange) -> ModelState:
    """Train a model on a range of rows.

    Parameters
    ----------
    matrix : Matrix
    settings : SgdSettings
    state : ModelState
        The model before; its cells are changed if `part` says so.
    part : RowRange

    Returns
    -------
    ModelState
        The model afterwards.

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    state = begun(replace(state, rows_seen=part.rows_seen), part.number)
    model = restored(settings.shape, state, copy=not part.in_place)
    training = Training(settings, model, part.n_replicas, frozen=part.frozen, n_rows=int(part.rows_seen))
    sums = np.zeros((len(state.keys), 3)) if part.with_sums else None
    for piece in _read_ahead(matrix, settings, [unpacked(rows) for rows in part.blocks]):
        training.learn(matrix, piece)
        if sums is not None:
            entries = piece.entries
            add_column_sums(entries.indptr, entries.indices, entries.data, piece.weight, state.keys, sums)
    return model.state(sums)


def begun(state: ModelState, number: int) -> ModelState:
    """Return the state from which model `number` starts: only the first keeps counts, or they would be added twice."""
    return replace(state, touches=np.zeros_like(state.touches), loss_sum=0.0, weight_sum=0.0) if number else state


class LearntRows(NamedTuple):
    """Rows that are in memory at one time, ready to learn from."""

    rows: Rows
    entries: SparseRows
    y: np.ndarray
    weight: np.ndarray
    ends_block: bool


class Training:
    """A model that learns from rows piece by piece. After each block it selects, and the tail decays.

    Parameters
    ----------
    sgd : SgdSettings
    model : MissionModel
    n_replicas : int
        Number of models that learn in parallel.
    frozen : bool
        Whether the set of active features stays the same.
    n_rows : int
        Number of rows that all models have learnt from before.
    n_in_block : int
        Number of these that belong to the present block.
    names : FeatureNames, optional
        Receives the names of features that become active.
    """

    def __init__(
        self,
        sgd: SgdSettings,
        model: MissionModel,
        n_replicas: int = 1,
        *,
        frozen: bool = False,
        n_rows: int = 0,
        n_in_block: int = 0,
        names: FeatureNames | None = None,
    ) -> None:
        self.sgd, self.model, self.n_replicas, self.frozen, self.names = sgd, model, n_replicas, frozen, names
        self.n_rows, self._n_in_block, self._rule = n_rows, n_in_block, sgd.rule(n_replicas)

    def learn(self, matrix: Matrix, piece: LearntRows) -> None:
        """Learn from the next rows.

        Raises
        ------
        DataError
            NaN or infinity, with the column's name.
        """
        try:
            self.model.train(piece.entries, piece.y, piece.weight, self._rule, self.frozen)
        except NotFiniteRow as fault:
            raise not_finite(matrix, piece.rows, piece.entries, fault.row) from None
        if self.names is not None:
            self.names.note_rows(matrix, piece.rows, self.model.active_ids)  # type: ignore[arg-type]
        self.n_rows += len(piece.y) * self.n_replicas
        self._n_in_block += len(piece.y) * self.n_replicas
        if piece.ends_block:
            self.end_block()

    def end_block(self) -> None:
        """End the present block, if it has rows."""
        if self._n_in_block and not self.frozen:
            self.model.end_block(self._n_in_block, self.sgd.half_life_after(self.n_rows))
        self._n_in_block = 0


def passing_rows(rows: Passing, sgd: SgdSettings, block_rows: int, n_seen: int = 0) -> Iterator[LearntRows]:
    """Yield rows as they arrive, after the first `n_seen`. A piece ends at a power of two at the latest."""
    while True:
        block_end = (n_seen // block_rows + 1) * block_rows
        stop = rows.reach(min(n_seen + sgd.piece_rows, block_end, 1 << n_seen.bit_length()))
        if stop == n_seen:
            return
        piece = slice(n_seen, stop)
        yield LearntRows(
            piece, read_entries(rows, piece, sgd.scaling), *sgd.target.read(rows, piece), stop == block_end
        )
        n_seen = stop


def _read_ahead(matrix: Matrix, settings: SgdSettings, blocks: Sequence[Rows]) -> Iterator[LearntRows]:
    """Yield blocks of rows piece by piece; one piece is read ahead."""
    reader = RowReader(matrix)

    def read(piece: Piece) -> LearntRows:
        entries = reader.entries(piece, settings.scaling)
        return LearntRows(piece.rows, entries, *settings.target.read(matrix, piece.rows), piece.ends_block)

    return prefetched(read, pieces_of(blocks, settings.cuts), 0 if matrix.is_resident else 1)


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


def survey_rows(matrix: Matrix, target: TargetEncoding, standardize: bool, cuts: Cuts, rows: Rows) -> Survey:
    """Survey rows before training. They are read in pieces, which do not affect the result."""
    is_dense = matrix.sparse_rows(slice(0, 1)) is None
    cuts, reader = cuts if is_dense else Cuts(SPARSE_PIECE), RowReader(matrix)
    scaling = _scaling(reader, target, cuts, rows) if standardize else None
    norms, weights, ids, nnz = [], [], [], 0
    for piece in pieces_of([rows], cuts):
        entries = reader.entries(piece, scaling)
        norms.append(np.empty(len(entries.indptr) - 1))
        row_norms(entries.indptr, entries.data, norms[-1])
        if not np.isfinite(norms[-1]).all():
            raise not_finite(matrix, piece.rows, entries, int(np.flatnonzero(~np.isfinite(norms[-1]))[0]))
        weights.append(target.read(matrix, piece.rows)[1])
        nnz += len(entries.data)
        if not is_dense:
            ids.append(entries.indices)
            if nnz >= SURVEY_VALUES:
                break
    squared_norms = np.concatenate(norms)
    mean = float(np.average(squared_norms, weights=np.concatenate(weights)))
    n_ids = int(matrix.shape[1]) if is_dense else _n_different(np.concatenate(ids))
    return Survey(mean, nnz, len(squared_norms), n_ids, scaling)


def mean_squared_norm(matrix: Matrix, keys: np.ndarray, settings: SgdSettings, rows: Rows) -> np.ndarray:
    """Return the mean squared norm of rows, float64, over these features only."""
    sums, n_rows, reader = np.zeros((len(keys), 3)), 0, RowReader(matrix)
    for piece in pieces_of([rows], settings.cuts):
        entries = reader.entries(piece, settings.scaling)
        weight = np.ones(len(entries.indptr) - 1)
        add_column_sums(entries.indptr, entries.indices, entries.data, weight, keys, sums)
        n_rows += len(weight)
    return np.asarray(sums[:, 2].sum() / n_rows)


def _scaling(reader: RowReader, target: TargetEncoding, cuts: Cuts, rows: Rows) -> Scaling:
    """Return weighted means, and one over the standard deviations, of dense columns."""
    shift, total = np.empty(0), 0.0
    with np.errstate(invalid="ignore", over="ignore"):  # a later check of the rows reports the place
        for piece in pieces_of([rows], cuts):
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


def _n_different(ids: np.ndarray) -> int:
    """Return the number of different ids, by sorting, which is several times as fast as ``np.unique``."""
    return int(np.count_nonzero(np.diff(np.sort(ids)))) + (len(ids) > 0)


def not_finite(matrix: Matrix, rows: Rows, entries: SparseRows, row: int) -> DataError:
    """Return the error for a row with NaN or infinity, with the column's name and the row of the source."""
    here = slice(int(entries.indptr[row]), int(entries.indptr[row + 1]))
    bad = np.flatnonzero(~np.isfinite(entries.data[here]))
    stored = rows.start + row if isinstance(rows, slice) else int(rows[row])
    if len(bad):
        return matrix.bad_value(stored, int(entries.indices[here][bad[0]]), entries.data[here][bad[0]], "single")
    place = f"row {matrix.source_row(stored)}"
    return DataError("its values are too large to be squared in single precision", place, "scale the columns")
