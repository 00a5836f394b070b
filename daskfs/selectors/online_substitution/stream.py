"""The stream of columns through an engine: epochs over a matrix, and columns that arrive over time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.kernels.substitution.entries import OPEN, UNUSABLE, verdicts
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, as_slice
from daskfs.matrix.buffers import BufferPool
from daskfs.matrix.names import Names
from daskfs.matrix.streaming import prefetched
from daskfs.selectors.inputs import refuse_left_out, refuse_too_many
from daskfs.selectors.online_substitution.columns import (
    Columns,
    ColumnSettings,
    epoch_order,
    joined,
    read_columns,
)
from daskfs.selectors.online_substitution.engines.base import Engine
from daskfs.selectors.online_substitution.plan import HISTORY, MOST_LINES, ROUND_BATCHES, ReadPlan, batches_of_task
from daskfs.selectors.online_substitution.screen import BatchesToScreen, screen_batches
from daskfs.selectors.online_substitution.target import Target
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.run import Run

DataError = errors.DataError.about("columns-that-arrive")

SAVES_PER_EPOCH = 20
MARGIN, MARGIN_SINGLE = 1e-7, 1e-3
"""Margins for rounding when sums are taken in another order, in float64 and in float32."""


@dataclass(frozen=True, slots=True)
class Position(Record):
    """Position of a stream, as saved in a checkpoint."""

    epoch: int = 0
    """The current epoch, or the one that begins."""
    position: int = 0
    """Columns of this epoch that were presented."""
    n_entered_before: int = 0
    """Candidates that had entered before this epoch."""
    n_epochs: int = 0
    """Epochs begun."""
    history: np.ndarray = field(default_factory=lambda: np.zeros((0, len(HISTORY))))


class SubstitutionStream:
    """Epochs over the columns of a matrix.

    If whole groups are exchanged, columns arrive group by group, in the order of the groups' first columns. If the
    columns of each group are neighbours, this is the order of the columns.

    Parameters
    ----------
    run : Run
    engine : Engine
    settings : ColumnSettings
    plan : ReadPlan
    weight : ndarray of shape (n_samples,), or `NO_WEIGHT`
    screens : bool
        Whether the run's tasks screen the columns; otherwise this process reads every column.
    """

    def __init__(
        self,
        run: Run,
        engine: Engine,
        settings: ColumnSettings,
        plan: ReadPlan,
        weight: np.ndarray = NO_WEIGHT,
        screens: bool = False,
    ) -> None:
        self.run, self.matrix = run.over(run.matrix, by="columns"), run.matrix
        self.engine, self.settings = engine, settings
        self.plan, self.weight, self.screens = plan, weight, screens
        self.members, self.groups = engine.members, engine.members.groups
        can_judge = plan.n_judged > 0 and not screens and self.groups is None
        self._has_entries = can_judge and run.matrix.sparse_columns(slice(0, 0)) is not None
        self._history = array("d")
        self.n_epochs = 0
        """Epochs begun."""

    @property
    def history(self) -> np.ndarray:
        """The history so far, shape (n_lines, 7)."""
        return np.array(self._history).reshape(-1, len(HISTORY))

    def include(self, columns: np.ndarray) -> None:
        """Select columns, with their groups, that are never dropped.

        Raises
        ------
        DataError
            A column is constant, or a linear combination of those before it.
        """
        if self.groups is None:
            refuse_too_many(columns, self.members.capacity)
        else:
            columns = self.groups.to_include(columns)
        for piece in self.members.pieces(columns, self.plan.batch):
            self.engine.take(self._read(columns[piece]))
            self.engine.keep_members()
        self.check_included(columns)

    def check_included(self, columns: np.ndarray) -> None:
        """Never drop the present members, and raise if they are not these columns, or their groups."""
        self.engine.keep_members()
        if self.groups is None:
            refuse_left_out(columns, self.members.ids, self.matrix.names)
        else:
            self.groups.refuse_left_out(columns, self.members.columns.ids)

    def present(self, columns: Columns) -> None:
        """Present columns that were not read from the matrix."""
        self.n_epochs = 1
        self.engine.take(columns)
        self._record(0)

    def passing(self, reach: Callable[[int], int], n_expected: int) -> None:
        """Present all columns once; their number is not known in advance.

        Parameters
        ----------
        reach : callable
            Waits until the matrix has this many columns, or until there are no more; returns how many of them it has.
        n_expected : int
            For the progress report.
        """

        def read(start: int) -> Columns | None:
            ids = np.arange(start, reach(start + self.plan.width), dtype=np.int64)
            return self._read(ids, buffers) if len(ids) else None

        self.n_epochs, buffers = 1, BufferPool()
        blocks = prefetched(read, count(0, self.plan.width), self.plan.prefetch)
        with self.run.reported("epoch-1", max(1, n_expected // self.plan.batch)) as advance, self.run.timed("select"):
            for _ in self._presented(iter(blocks.__next__, None)):
                self._record(0)
                advance(1)

    def epochs(self, n_epochs: int, order: Any, seed: int | None, start: Position) -> None:
        """Present all columns up to `n_epochs` times; stop early if no candidate enters and the ridge stays.

        Parameters
        ----------
        n_epochs : int
        order : {"fixed", "shuffled"} or int64 array
        seed : int or None
        start : Position
            Where to continue.
        """
        n_candidates = self.matrix.shape[1] if isinstance(order, str) else len(order)
        for epoch in range(start.epoch, n_epochs):
            if epoch > 0 and start.position == 0:
                has_changed = self.engine.counters.n_entered > start.n_entered_before
                if not self.engine.relax(n_candidates) and not has_changed:
                    break
            self.n_epochs = epoch + 1
            columns = self._order(order, seed, epoch)
            if start.position == 0:
                start = replace(start, n_entered_before=self.engine.counters.n_entered)
            n_batches, n_done = self._n_batches(columns), self._n_batches(columns[: start.position])
            with self.run.reported(f"epoch-{epoch + 1}", n_batches, n_done) as advance:
                self._epoch(epoch, columns, start, advance)
            start = replace(start, position=0)

    def _order(self, order: Any, seed: int | None, epoch: int) -> np.ndarray:
        """Return the columns in the order of an epoch."""
        if self.groups is None:
            return epoch_order(self.matrix.shape[1], order, seed, epoch)
        if isinstance(order, str):
            shuffled = epoch_order(self.groups.groups.n_groups, order, seed, epoch)
            return self.groups.in_order(self.groups.by_first_column[shuffled])
        return self.groups.in_order(self.groups.of_columns(order, "order", self.matrix.names))

    def _n_batches(self, columns: np.ndarray) -> int:
        return sum(1 for _ in self.members.pieces(columns, self.plan.batch))

    def _epoch(self, epoch: int, columns: np.ndarray, start: Position, advance: Callable[[int], None]) -> None:
        batch, position = self.plan.batch, start.position
        save_every = max(1, len(columns) // batch // SAVES_PER_EPOCH) * batch
        width = max(1, -(-len(columns) // MOST_LINES))  # columns per line of the history
        for n_taken in self._taken(columns[position:]):
            if position // width < (position + n_taken) // width or position + n_taken == len(columns):
                self._record(epoch)
            advance(self._n_batches(columns[position : position + n_taken]))
            position += n_taken
            if position == len(columns):
                self._save(replace(start, epoch=epoch + 1, position=0))
            elif position % save_every < n_taken:
                self._save(replace(start, epoch=epoch, position=position))

    def _taken(self, columns: np.ndarray) -> Iterator[int]:
        """Present columns; after each part yield the number of columns presented."""
        n_taken = 0
        if not self.screens or not self.members.is_full:
            with self.run.timed("select"):
                if self._has_entries:
                    yield from self._by_entries(columns)
                    return
                for length in self._presented(self._blocks(columns)):
                    n_taken += length
                    yield length
                    if self.screens and self.members.is_full:
                        break
        batches = self.members.pieces(columns[n_taken:], self.plan.batch)
        while parts := [columns[n_taken:][piece] for piece in islice(batches, ROUND_BATCHES)]:
            yield self._round(parts)

    def _by_entries(self, columns: np.ndarray) -> Iterator[int]:
        """Present sparse columns; skip batches whose entries show that none of the columns can enter.

        The number of columns tested at once doubles while none enters. The result is the same as with dense columns.
        """
        batch, engine = self.plan.batch, self.engine
        start, n_ahead = 0, 1
        while start < len(columns):
            ids = columns[start : start + n_ahead * batch]
            verdict = self._verdicts(ids)
            n_entered = engine.counters.n_entered
            for first in range(0, len(ids), batch):
                some = ids[first : first + batch]
                if verdict is None or (verdict[first : first + batch] == OPEN).any():
                    engine.take(self._read(some))
                else:
                    engine.pass_over(verdict[first : first + batch])
                start += len(some)
                yield len(some)
                if engine.counters.n_entered > n_entered:
                    break
            entered = engine.counters.n_entered > n_entered
            n_ahead = 1 if entered or verdict is None else min(2 * n_ahead, max(1, self.plan.n_judged // batch))

    def _verdicts(self, ids: np.ndarray) -> np.ndarray | None:
        """Return the verdicts on columns from their entries, int8; None if each column must be read."""
        state, members, rule = self.engine.entry_state(), self.members, self.engine.rule
        is_judged = state is not None and self.matrix.column_weights is None
        entries = self.matrix.sparse_columns(as_slice(ids)) if is_judged else None
        if state is None or entries is None or entries.taken is not None:
            return None
        verdict = np.empty(len(ids), np.int8)
        margin = MARGIN if members.rows.dtype == np.float64 else MARGIN_SINGLE
        numbers = (
            self.settings.centres, self.settings.scales, rule.ridge, rule.tolerance, members.n_fixed, margin,
        )  # fmt: skip
        verdicts(entries.indptr, entries.indices, entries.data, state, numbers, verdict)
        verdict[np.isin(ids, members.ids)] = UNUSABLE
        return verdict

    def _round(self, parts: list[np.ndarray]) -> int:
        """Screen columns in tasks, all against the present members; exchange with the candidates that are returned.

        Each task reads neighbouring columns, which lie in the same tiles.
        """
        shared = (self.settings, self.run.keep(self.weight), self.engine.screen(max(1, self.plan.batch // 2)))
        n, labels, tasks = batches_of_task(self.run.workers.n_threads), None, []
        if self.groups is not None:
            n, labels = 1, [self.members.labels(part) for part in parts]
        for k in range(0, len(parts), n):
            tasks.append(BatchesToScreen(parts[k : k + n], self.plan.n_together, labels and labels[k : k + n]))
        found = self.run.round("screen", screen_batches, tasks, *shared)
        with self.run.timed("select"):
            screened = [one for several in found for one in several]
            self.engine.counters.n_presented += sum(one.n_usable - one.n_found for one in screened)
            for together in self._together([one.columns for one in screened]):
                self.engine.take(together)
        return sum(len(part) for part in parts)

    def _together(self, several: list[Columns]) -> Iterator[Columns]:
        """Yield candidates, up to a batch of them together: products with all members cost as much for a few."""
        while several:
            n = 1
            while n < len(several) and sum(map(len, several[: n + 1])) <= self.plan.batch:
                n += 1
            yield several[0] if n == 1 else joined(several[:n])
            several = several[n:]

    def _read(self, ids: np.ndarray, buffers: BufferPool | None = None) -> Columns:
        return read_columns(self.matrix, ids, self.settings, self.weight, buffers)

    def _blocks(self, columns: np.ndarray) -> Iterator[Columns]:
        """Yield columns as they are read; the next block is read while the present one is used. Buffers are reused."""
        buffers, reads = BufferPool(), [columns[piece] for piece in self._reads(columns)]
        return prefetched(lambda ids: self._read(ids, buffers), reads, self.plan.prefetch)

    def _reads(self, columns: np.ndarray) -> Iterator[slice]:
        """Yield slices of columns that are read at once: whole batches."""
        start = stop = 0
        for batch in self.members.pieces(columns, self.plan.batch):
            if batch.stop - start > self.plan.width and stop > start:
                yield slice(start, stop)
                start = stop
            stop = batch.stop
        if stop > start:
            yield slice(start, stop)

    def _presented(self, blocks: Iterable[Columns]) -> Iterator[int]:
        """Present blocks batch by batch; yield the number of columns of each batch."""
        for block in blocks:
            for piece in self.members.pieces(block.ids, self.plan.batch):
                batch = block.take(piece)
                self.engine.take(batch)
                length = len(batch)
                del batch  # otherwise its buffer counts as in use while the next one is read
                yield length
            del block  # otherwise its buffer counts as in use while the next one is taken

    def _record(self, epoch: int) -> None:
        counters = self.engine.counters
        done = (counters.n_exchanged, counters.n_refused, counters.n_reverted)
        numbers = (epoch + 1, counters.n_presented, self.members.n_members, *done, self.engine.value)
        self._history.extend(float(number) for number in numbers)
        at = counters.n_presented / max(1, self.matrix.shape[1])
        self.run.learn("epoch", at, self.engine.value, self._selected)

    def _selected(self) -> np.ndarray:
        """Return the numbers of the columns that are selected now."""
        return self.members.columns.ids.copy()

    def _save(self, position: Position) -> None:
        def state() -> dict[str, np.ndarray]:
            now = replace(position, n_epochs=self.n_epochs, history=self.history)
            return {**self.engine.arrays(), **now.pack()}

        self.run.save_so_far("select", state)

    def resume(self) -> Position:
        """Restore a checkpoint; return where to continue."""
        saved = self.run.load("select", dict)
        if saved is None:
            return Position()
        for start in range(0, len(saved["ids"]), self.plan.batch):
            self.members.add(self._read(saved["ids"][start : start + self.plan.batch]))
        self.engine.restore(saved)
        position = Position.unpack(saved)
        self.n_epochs, self._history = position.n_epochs, array("d", position.history.ravel())
        return position


class ArrivedColumns(Matrix):
    """The shape and names of columns that are no longer available."""

    def __init__(self, n_samples: int, dtype: np.dtype) -> None:
        self.shape, self.dtype = (n_samples, 0), dtype
        self._names = Names(0)

    @property
    def names(self) -> Names:
        """Names of the columns so far."""
        return self._names

    def add(self, n_columns: int, names: Names) -> None:
        """Record that columns arrived; `names` has the names of all columns."""
        self.shape, self._names = (self.shape[0], self.shape[1] + n_columns), names

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Raise: the columns are not kept."""
        problem = "columns passed to partial_fit_features are not kept and cannot be read again"
        raise DataError(problem, "partial_fit_features", "fit(X)")


@dataclass
class Arrivals:
    """The columns that were passed to `partial_fit_features` so far, and their stream."""

    stream: SubstitutionStream
    matrix: ArrivedColumns
    target: Target
    names: list[str] = field(default_factory=list)
    are_named: bool = False
    """Whether the user named any columns."""

    def take(self, X: Any, names: Sequence[str] | None, always: np.ndarray) -> None:
        """Present the columns of a block.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
        names : sequence of str, optional
        always : ndarray, int64
            Positions in this block of columns that are never dropped.

        Raises
        ------
        DataError
            A different number of rows, duplicate names, or values that are not finite.
        """
        block = ArrayMatrix(X, feature_names=names)
        n_samples = self.target.n_samples
        if block.shape[0] != n_samples:
            raise DataError(
                f"expected {n_samples} rows as in the first block, found {block.shape[0]}",
                "partial_fit_features",
                "pass the same rows in the same order: partial_fit_features adds columns, not rows",
            )
        first = len(self.names)
        self._name(block, names)
        self._present(block, always, first)
        if len(always):
            self.stream.check_included(always + first)
        self._present(block, np.setdiff1d(np.arange(block.shape[1], dtype=np.int64), always), first)

    def _name(self, block: ArrayMatrix, names: Sequence[str] | None) -> None:
        first = len(self.names)
        new = [f"x{first + j}" for j in range(block.shape[1])] if names is None else [str(name) for name in names]
        seen = set(self.names)
        for name in new:
            if name in seen:
                raise DataError(f"duplicate column {name!r}", "names", "give each column its own name")
            seen.add(name)
        self.are_named |= names is not None
        self.names += new
        given = np.array(self.names, dtype=object) if self.are_named else None
        self.matrix.add(len(new), Names(len(self.names), given))

    def _present(self, block: ArrayMatrix, places: np.ndarray, first: int) -> None:
        stream, batch = self.stream, self.stream.plan.batch
        for start in range(0, len(places), batch):
            columns = read_columns(block, places[start : start + batch], stream.settings, stream.weight)
            stream.present(replace(columns, ids=columns.ids + first))
