"""Leases of runs of columns to workers, epoch by epoch. Integers only.

The columns are cut into units. In each epoch a unit is free, leased to one worker, or done; a lease is a run of
neighbouring units. An epoch begins when all units of the previous one are done. A worker gets units that another worker
had in the previous epoch, while there are any: a feature for which one worker had no place may suit another. If units
are parts of what is read at once, a worker first gets units of what it has already read, then units of what no other
worker has read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.matrix.spans import Spans
from daskfs.selectors.shared.record import Record

NOBODY = -1
UNIT_NBYTES = 64
"""Bytes per unit: its state (21 bytes), work arrays of the search for the next one, and a copy of the state."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Columns ``[start, stop)``, to be presented once in an epoch."""

    epoch: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class LeasesState(Record):
    """The state for a checkpoint, without leases."""

    epoch: int
    is_done: np.ndarray
    owner: np.ndarray
    before: np.ndarray


class ColumnLeases:
    """The units of `n_features` columns, over `n_epochs`.

    Parameters
    ----------
    n_features : int
    unit : int
        Columns of a unit.
    n_epochs : int
    exchanges : bool
        Whether units go to a different worker than in the previous epoch; otherwise to the same one if it asks for
        them.
    spans : Spans, optional
        Groups of whole units that are read at once; None: a lease is read at once.
    """

    def __init__(
        self, n_features: int, unit: int, n_epochs: int, exchanges: bool = True, spans: Spans | None = None
    ) -> None:
        n_units = -(-n_features // unit)
        self.n_features, self.unit, self.n_epochs, self.exchanges = n_features, unit, n_epochs, exchanges
        self.epoch = 0
        self.is_done = np.zeros(n_units, bool)
        self.holder = np.full(n_units, NOBODY, np.int32)
        """The worker that has leased the unit."""
        self.owner = np.full(n_units, NOBODY, np.int32)
        """The worker that finished the unit last; in this epoch if it is done."""
        self.before = np.full(n_units, NOBODY, np.int32)
        """The worker that finished the unit in the previous epoch."""
        self._span = np.arange(n_units) if spans is None else spans.numbers(np.arange(n_units) * unit)
        self._is_cut = spans is not None
        self._last: dict[int, int] = {}
        """The last span of each worker."""

    @property
    def epoch_is_over(self) -> bool:
        """Whether every unit of the epoch is done."""
        return bool(self.is_done.all())

    @property
    def n_done(self) -> int:
        """Number of units done, over all epochs."""
        return self.epoch * len(self.is_done) + int(self.is_done.sum())

    def take(self, worker: int, n_columns: int) -> Lease | None:
        """Lease about `n_columns` columns to a worker; return None if no unit is free."""
        free = ~self.is_done & (self.holder == NOBODY)
        if not free.any():
            return None
        others = self.before != worker if self.exchanges else (self.before == worker) | (self.before == NOBODY)
        preferred = free & others
        eligible = preferred if preferred.any() else free
        if self._is_cut:
            eligible = self._near(worker, eligible)
        first = int(np.argmax(eligible))
        last = first + 1
        most = first + max(1, n_columns // self.unit)
        while last < min(most, len(eligible)) and eligible[last]:
            last += 1
        self.holder[first:last] = worker
        self._last[worker] = int(self._span[first])
        return Lease(self.epoch, first * self.unit, min(last * self.unit, self.n_features))

    def _near(self, worker: int, eligible: np.ndarray) -> np.ndarray:
        """Return the eligible units of the worker's span, or else of a span without another worker."""
        own = np.flatnonzero(eligible & (self._span == self._last.get(worker, -1)))
        if not len(own):
            taken = [span for t, span in self._last.items() if t != worker]
            untouched = eligible & ~np.isin(self._span, taken)
            first = np.argmax(untouched if untouched.any() else eligible)
            own = np.flatnonzero(eligible & (self._span == self._span[first]))
        near = np.zeros_like(eligible)
        near[own] = True
        return near

    def finish(self, worker: int, lease: Lease) -> None:
        """Record that a worker has presented the columns of its lease."""
        units = self._units(lease)
        self.is_done[units], self.owner[units], self.holder[units] = True, worker, NOBODY

    def give_back(self, worker: int) -> None:
        """Free all leases of a worker."""
        self.holder[self.holder == worker] = NOBODY

    def next_epoch(self) -> None:
        """Begin the next epoch: all units are free."""
        self.epoch += 1
        self.before, self.owner = self.owner, np.full_like(self.owner, NOBODY)
        self.is_done[:] = False
        self.holder[:] = NOBODY
        self._last.clear()

    def _units(self, lease: Lease) -> slice:
        return slice(lease.start // self.unit, -(-lease.stop // self.unit))

    def state(self) -> LeasesState:
        """Return which units are done, and by which workers."""
        return LeasesState(self.epoch, self.is_done.copy(), self.owner.copy(), self.before.copy())

    def restore(self, state: LeasesState) -> None:
        """Restore a state; leased units become free."""
        self.epoch = state.epoch
        self.is_done[:], self.owner[:], self.before[:] = state.is_done, state.owner, state.before
        self.holder[:] = NOBODY
