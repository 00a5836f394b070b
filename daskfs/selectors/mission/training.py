"""How MISSION learns: one loop over pieces of rows, for the rows of a store, of a stream, and of a part of a source.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daskfs import interrupts
from daskfs.kernels.linear.column_sums import add_column_sums
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import PackedRows, Rows, SparseRows, unpacked
from daskfs.matrix.passing import Passing
from daskfs.matrix.streaming import prefetched
from daskfs.selectors.mission.configuration import Configuration
from daskfs.selectors.mission.model import MissionModel, ModelState, NotFiniteRow
from daskfs.selectors.mission.reading import Piece, RowReader, pieces_of, read_entries
from daskfs.selectors.mission.survey import not_finite
from daskfs.selectors.mission.variants import restored

if TYPE_CHECKING:
    from daskfs.selectors.mission.feature_names import FeatureNames


class LearntRows(NamedTuple):
    """Rows that are in memory at one time, ready to learn from."""

    rows: Rows
    entries: SparseRows
    y: np.ndarray
    weight: np.ndarray
    ends_block: bool


class Training:
    """A model that learns from rows, and how many it has learnt from.

    Parameters
    ----------
    config : Configuration
    model : MissionModel
    n_replicas : int
        Number of models that learn in parallel.
    frozen : bool
        Whether the set of active features stays the same.
    n_rows : int
        Number of rows that all models have learnt from before.
    n_in_block : int
        Number of these that belong to the present block.
    """

    def __init__(
        self,
        config: Configuration,
        model: MissionModel,
        n_replicas: int = 1,
        *,
        frozen: bool = False,
        n_rows: int = 0,
        n_in_block: int = 0,
    ) -> None:
        self.config, self.model, self.n_replicas, self.frozen = config, model, n_replicas, frozen
        self.n_rows, self._n_in_block = n_rows, n_in_block

    def learn(
        self,
        matrix: Matrix,
        pieces: Iterable[LearntRows],
        then: Callable[[LearntRows], None] | None = None,
        *,
        names: FeatureNames | None = None,
        is_passing: bool = False,
    ) -> ModelState:
        """Learn from all pieces. After each block of rows the model selects, and its tail decays.

        Parameters
        ----------
        matrix : Matrix
            The rows, for the place of an error.
        pieces : iterable of LearntRows
        then : callable, optional
            Called after each piece.
        names : FeatureNames, optional
            Receives the names of features that become active.
        is_passing : bool
            Whether the rows do not come again: an interrupt then waits for the end of a piece and of `then`.

        Returns
        -------
        ModelState
            The model afterwards.

        Raises
        ------
        DataError
            NaN or infinity, with the column's name.
        """
        rule = self.config.rule(self.n_replicas)
        for piece in pieces:
            with interrupts.held() if is_passing else nullcontext():
                try:
                    self.model.train(piece.entries, piece.y, piece.weight, rule, self.frozen)
                except NotFiniteRow as fault:
                    raise not_finite(matrix, piece.rows, piece.entries, fault.row) from None
                if names is not None:
                    names.note_rows(matrix, piece.rows, self.model.active_ids)  # type: ignore[arg-type]
                self.n_rows += len(piece.y) * self.n_replicas
                self._n_in_block += len(piece.y) * self.n_replicas
                if piece.ends_block:
                    self._end_block()
                if then is not None:
                    then(piece)
        self._end_block()
        return self.model.state()

    def _end_block(self) -> None:
        """End the present block, if it has rows."""
        if self._n_in_block and not self.frozen:
            half_life = self.config.half_life_of(self.n_rows) if self.config.is_growing else self.config.half_life
            self.model.end_block(self._n_in_block, half_life)
        self._n_in_block = 0


def started(config: Configuration, state: ModelState, number: int, *, in_place: bool = False) -> MissionModel:
    """Return model `number` of several that learn in parallel: only the first keeps counts, or they would add up."""
    if number:
        state = replace(state, touches=np.zeros_like(state.touches), loss_sum=0.0, weight_sum=0.0)
    return restored(config.model, state, copy=not in_place)


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


def train_on_rows(matrix: Matrix, config: Configuration, state: ModelState, part: RowRange) -> ModelState:
    """Train a model on a range of rows: a task.

    Parameters
    ----------
    matrix : Matrix
    config : Configuration
    state : ModelState
        The model before; its cells are changed if `part` says so.
    part : RowRange

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    state = replace(state, rows_seen=part.rows_seen)
    model = started(config, state, part.number, in_place=part.in_place)
    training = Training(config, model, part.n_replicas, frozen=part.frozen, n_rows=int(part.rows_seen))
    sums = np.zeros((len(state.keys), 3)) if part.with_sums else None

    def add_sums(piece: LearntRows) -> None:
        entries = piece.entries
        add_column_sums(entries.indptr, entries.indices, entries.data, piece.weight, state.keys, sums)

    pieces = read_ahead(matrix, config, [unpacked(rows) for rows in part.blocks])
    return replace(training.learn(matrix, pieces, None if sums is None else add_sums), sums=sums)


def read_ahead(matrix: Matrix, config: Configuration, blocks: list[Rows]) -> Iterator[LearntRows]:
    """Yield blocks of rows piece by piece; one piece is read ahead."""
    reader = RowReader(matrix)

    def read(piece: Piece) -> LearntRows:
        entries = reader.entries(piece, config.survey.scaling)
        return LearntRows(piece.rows, entries, *config.target.read(matrix, piece.rows), piece.ends_block)

    return prefetched(read, pieces_of(blocks, config.cuts), 0 if matrix.is_resident else 1)


def passing_rows(rows: Passing, config: Configuration, n_seen: int = 0) -> Iterator[LearntRows]:
    """Yield rows as they arrive, after the first `n_seen`. A piece ends at a power of two at the latest."""
    while True:
        block_end = (n_seen // config.block_rows + 1) * config.block_rows
        stop = rows.reach(min(n_seen + config.cuts.piece_rows, block_end, 1 << n_seen.bit_length()))
        if stop == n_seen:
            return
        interrupts.check()
        piece = slice(n_seen, stop)
        entries, target = read_entries(rows, piece, config.survey.scaling), config.target.read(rows, piece)
        yield LearntRows(piece, entries, *target, stop == block_end)
        n_seen = stop


def mean_squared_norm(matrix: Matrix, keys: np.ndarray, config: Configuration, rows: Rows) -> np.ndarray:
    """Return the mean squared norm of rows, float64, over these features only: a task."""
    sums, n_rows, reader = np.zeros((len(keys), 3)), 0, RowReader(matrix)
    for piece in pieces_of([rows], config.cuts):
        entries = reader.entries(piece, config.survey.scaling)
        weight = np.ones(len(entries.indptr) - 1)
        add_column_sums(entries.indptr, entries.indices, entries.data, weight, keys, sums)
        n_rows += len(weight)
    return np.asarray(sums[:, 2].sum() / n_rows)
