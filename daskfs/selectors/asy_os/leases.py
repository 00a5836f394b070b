"""Who may look at which columns: leases of runs of columns, epoch by epoch. Integers only.

The columns are cut into units. A unit is free, or leased to one worker, or done in this epoch; a lease is a run of
neighbouring units. An epoch begins when all units of the one before are done. A worker gets units that another one had
in the epoch before, as long as there are any: a feature that one worker could not place may suit another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daskfs.selectors.shared.record import Record

NOBODY = -1


@dataclass(frozen=True, slots=True)
class Lease:
    """Columns ``[start, stop)``, to be presented once in an epoch."""

    epoch: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class LeasesState(Record):
    """What a checkpoint keeps; leases are not among it."""

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
        Whether an epoch gives units to another worker than the one before; else to the same one, as far as it comes
        for them.
    """

    def __init__(self, n_features: int, unit: int, n_epochs: int, exchanges: bool = True) -> None:
        n_units = -(-n_features // unit)
        self.n_features, self.unit, self.n_epochs, self.exchanges = n_features, unit, n_epochs, exchanges
        self.epoch = 0
        self.is_done = np.zeros(n_units, bool)
        self.holder = np.full(n_units, NOBODY, np.int64)
        """Who has the unit leased."""
        self.owner = np.full(n_units, NOBODY, np.int64)
        """Who did the unit last, in this epoch where it is done."""
        self.before = np.full(n_units, NOBODY, np.int64)
        """Who did the unit in the epoch before."""

    @property
    def epoch_is_over(self) -> bool:
        """Whether every unit of the epoch is done."""
        return bool(self.is_done.all())

    @property
    def n_done(self) -> int:
        """Units done, over all epochs."""
        return self.epoch * len(self.is_done) + int(self.is_done.sum())

    def take(self, worker: int, n_columns: int) -> Lease | None:
        """Lease about `n_columns` columns to a worker; None where no unit is free."""
        free = ~self.is_done & (self.holder == NOBODY)
        if not free.any():
            return None
        others = self.before != worker if self.exchanges else (self.before == worker) | (self.before == NOBODY)
        preferred = free & others
        eligible = preferred if preferred.any() else free
        first = int(np.argmax(eligible))
        last = first + 1
        most = first + max(1, n_columns // self.unit)
        while last < min(most, len(eligible)) and eligible[last]:
            last += 1
        self.holder[first:last] = worker
        return Lease(self.epoch, first * self.unit, min(last * self.unit, self.n_features))

    def finish(self, worker: int, lease: Lease) -> None:
        """Say that a worker has presented the columns of its lease."""
        units = self._units(lease)
        self.is_done[units], self.owner[units], self.holder[units] = True, worker, NOBODY

    def give_back(self, worker: int) -> None:
        """Take all leases from a worker: they are free again."""
        self.holder[self.holder == worker] = NOBODY

    def next_epoch(self) -> None:
        """Begin the next epoch: all units are free."""
        self.epoch += 1
        self.before, self.owner = self.owner, np.full_like(self.owner, NOBODY)
        self.is_done[:] = False
        self.holder[:] = NOBODY

    def _units(self, lease: Lease) -> slice:
        return slice(lease.start // self.unit, -(-lease.stop // self.unit))

    def state(self) -> LeasesState:
        """Return which units are done, and by whom."""
        return LeasesState(self.epoch, self.is_done.copy(), self.owner.copy(), self.before.copy())

    def restore(self, state: LeasesState) -> None:
        """Go on from what `state` returned: what was leased is free."""
        self.epoch = state.epoch
        self.is_done[:], self.owner[:], self.before[:] = state.is_done, state.owner, state.before
        self.holder[:] = NOBODY
