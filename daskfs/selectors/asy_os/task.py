"""The worker of asynchronous online substitution as a long-running task, with the central node as an actor.

Workers import this file, so it is light. Only an address of the data and small settings are sent: target and weights
are read where they are needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from daskfs.cluster.actors import ActorAddress, ActorLost
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.matrix.base import Matrix
from daskfs.matrix.buffers import BufferPool
from daskfs.matrix.spans import Spans
from daskfs.selectors.asy_os.leases import ColumnLeases, Lease
from daskfs.selectors.asy_os.node import NO_COLUMNS, CentralNode, FinalState, Share
from daskfs.selectors.asy_os.session import Spent, WorkerSession
from daskfs.selectors.asy_os.worker import WorkerSettings, contribution_of
from daskfs.selectors.online_substitution.columns import Columns, ColumnSettings, read_columns
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.online_substitution.objective import Objective
from daskfs.selectors.shared.targets import signs_of

CALLS_SHARE = 0.1
"""Largest share of a worker's time for calls; the width of blocks is chosen accordingly."""
WAIT_S = 0.01
FIRST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class AsyncSettings:
    """All settings of a run of asynchronous online substitution, without the data."""

    loss: str
    classes: tuple[float, ...] | None
    """The class labels, ascending: two are coded as -1 and +1; None for regression."""
    location: float
    """Mean that was subtracted from the target."""
    threshold: float
    fits_intercept: bool
    rule: Rule
    columns: ColumnSettings
    dtype: str
    """Dtype of columns in memory."""
    n_workers: int
    capacity: int
    tau_max: int
    n_epochs: int
    unit: int
    """Smallest number of columns that are leased together."""
    narrowest: int
    widest: int
    """Limits of the columns of a block; if equal, the width is fixed."""
    tile: int
    part: int
    """Columns of a tile, and how many of them are read at once, both in whole units."""
    in_turn: bool
    """Whether all workers are in one process and share what is read."""
    exchanges: bool
    timeout_s: float = 30.0
    always: tuple[int, ...] = ()
    """Columns that are always selected: their worker never drops them."""

    def objective(self, matrix: Matrix) -> Objective:
        """Return the objective, with target and weights read from the matrix."""
        y = np.array(matrix.read_target(slice(None)), dtype=np.float64)
        if self.classes is None:
            y = y - self.location
        else:
            y = signs_of(y, np.array(self.classes))
            y = y[0] if len(y) == 1 else y
        found = matrix.read_weight(slice(None))
        weight = NO_WEIGHT if found is None else np.array(found, dtype=np.float64)
        return Objective(self.loss, y, weight, self.rule.ridge, self.threshold, self.fits_intercept)

    def worker(self, matrix: Matrix) -> WorkerSettings:
        """Return the settings of a worker."""
        return WorkerSettings(self.objective(matrix), self.rule, self.columns, np.dtype(self.dtype), self.always)

    def leases(self, n_features: int) -> ColumnLeases:
        """Return the initial leases of a run."""
        return ColumnLeases(n_features, self.unit, self.n_epochs, self.exchanges, self.spans)

    @property
    def spans(self) -> Spans | None:
        """What a worker reads at once, if that is more than a unit."""
        return None if self.in_turn or self.part <= self.unit else Spans(self.tile, self.part)


class PlacedNode(CentralNode):
    """The central node, created where it is placed.

    Parameters
    ----------
    matrix : Matrix
        Its target and weights are read.
    settings : AsyncSettings
    n_ahead : int
    clock : callable, optional
    """

    def __init__(
        self, matrix: Matrix, settings: AsyncSettings, n_ahead: int = 1, clock: Callable[[], float] | None = None
    ) -> None:
        objective, leases = settings.objective(matrix), settings.leases(matrix.shape[1])
        numbers = (settings.n_workers, settings.capacity, settings.tau_max, settings.rule.checks)
        super().__init__(objective, leases, *numbers, n_ahead, settings.timeout_s, clock, settings.always)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a worker's task."""

    is_lost: bool
    """Whether the central node stopped answering."""
    sequence: int
    share: Share
    spent: Spent
    final_state: FinalState | None = None
    """Final state of the central node, if all is done and this worker is to report it."""


def work_until_finished(matrix: Matrix, address: ActorAddress, settings: AsyncSettings, number: int) -> Outcome:
    """Run a worker until the central node is finished, or stops answering.

    Parameters
    ----------
    matrix : Matrix
        Read here.
    address : ActorAddress
        Address of the placed `CentralNode`.
    settings : AsyncSettings
    number : int
        Number of the worker.
    """
    try:
        session = WorkerSession(address, number, matrix, settings.worker(matrix))
    except ActorLost:
        return Outcome(True, -1, Share(number, NO_COLUMNS, np.zeros(0)), Spent())
    is_lost, final_state = False, None
    with ThreadPoolExecutor(1, thread_name_prefix="daskfs-read") as pool:
        try:
            _work(session, settings, _ReadAhead(matrix, settings, session.settings.objective.weight, pool))
            final_state = address.final_state_for(number).result()
        except ActorLost:
            is_lost = True
            session.undo()
    return Outcome(is_lost, *session.holds(), session.spent, final_state)


def _work(session: WorkerSession, settings: AsyncSettings, ahead: _ReadAhead) -> None:
    waited_since = 0.0
    while session.reply.orders != "finished":
        lease, orders = session.lease, session.reply.orders
        if lease is None and orders == "wait":
            waited_since = waited_since or time.monotonic()
            time.sleep(WAIT_S)
            session.wait(time.monotonic() - waited_since, block_width(session.spent, settings))
            continue
        waited_since = 0.0
        if lease is None:
            session.contribute()
            continue
        started = time.perf_counter()
        columns = ahead.get(lease, session.reply.leases[1:])
        session.spent.reading_s += time.perf_counter() - started
        proposal = session.propose(columns)
        del columns  # otherwise its buffer counts as in use
        session.push(proposal, block_width(session.spent, settings), ahead.read(session.reply.leases[1:]))


def block_width(spent: Spent, settings: AsyncSettings) -> int:
    """Return the number of columns of the next lease, from the time of calls and of computing so far.

    Examples
    --------
    If a call takes 2 ms and a column 0.1 ms, 200 columns keep calls under a tenth of the time.
    """
    if settings.narrowest == settings.widest or not spent.n_columns:
        return min(max(FIRST_COLUMNS, settings.narrowest), settings.widest)
    call_s = float(np.median(spent.recent))
    column_s = max(spent.computing_s / spent.n_columns, 1e-9)
    wanted = int(call_s / column_s / CALLS_SHARE)
    return min(max(wanted, settings.narrowest), settings.widest)


def contribution_where_it_is_read(matrix: Matrix, settings: AsyncSettings, share: Share) -> np.ndarray:
    """Return the contribution of a share to u_C, as a task."""
    return contribution_of(matrix, settings.worker(matrix), share)


class _ReadAhead:
    """Reads the columns of the next lease while the present one is used, together with what is read at once."""

    def __init__(self, matrix: Matrix, settings: AsyncSettings, weight: np.ndarray, pool: ThreadPoolExecutor) -> None:
        self._matrix, self._settings, self._weight, self._pool = matrix, settings.columns, weight, pool
        self._spans = settings.spans
        self._buffers = BufferPool()
        self._reads: dict[tuple[int, int], Future[Columns]] = {}

    def get(self, lease: Lease, following: tuple[Lease, ...]) -> Columns:
        """Return the columns of a lease, and start to read those of the following leases."""
        wanted = dict.fromkeys(self._read_with(one) for one in (lease, *following))
        before, self._reads = self._reads, {}
        kept = {span: before[span] for span in wanted if span in before}
        before.clear()  # otherwise the buffers of dropped reads count as in use
        self._reads = {span: kept.get(span) or self._pool.submit(self._read, *span) for span in wanted}
        return self._part(lease)

    def read(self, leases: tuple[Lease, ...]) -> Columns | None:
        """Return the columns of the first of these leases if they have been read already."""
        coming = self._reads.get(self._read_with(leases[0])) if leases else None
        return self._part(leases[0]) if coming is not None and coming.done() else None

    def _read_with(self, lease: Lease) -> tuple[int, int]:
        return (lease.start, lease.stop) if self._spans is None else self._spans.of(lease.start)

    def _part(self, lease: Lease) -> Columns:
        span = self._read_with(lease)
        return self._reads[span].result().take(slice(lease.start - span[0], lease.stop - span[0]))

    def _read(self, start: int, stop: int) -> Columns:
        ids = np.arange(start, min(stop, self._matrix.shape[1]), dtype=np.int64)
        return read_columns(self._matrix, ids, self._settings, self._weight, self._buffers)
