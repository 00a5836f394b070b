"""The run of asynchronous online substitution: in turn in this process, or on a cluster with the node as an actor.

On a cluster the node may be lost with the worker process that it lives in. Workers notice at their next call and return
what they hold; another node is made from the last checkpoint and these, and the workers begin again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from daskfs.cluster.actors import LastingTasks, NodeAddress, keep_running
from daskfs.cluster.workers import Here, Workers
from daskfs.errors import RunError
from daskfs.matrix.base import Matrix, Progress
from daskfs.selectors.asy_os.leases import Lease
from daskfs.selectors.asy_os.messages import Share
from daskfs.selectors.asy_os.session import Spent, WorkerSession, work_in_turn
from daskfs.selectors.asy_os.task import (
    AsyncSettings,
    Outcome,
    PlacedNode,
    compile_kernels,
    contribution_of,
    work_until_finished,
)
from daskfs.selectors.online_substitution.columns import Columns, read_columns
from daskfs.selectors.shared.run import Checkpoint

STEP = "async-substitution"
READ_COLUMNS = 512
"""Read at once in this process, where workers take turns at neighbouring columns."""
SEEN_BY_ONE = 0.05
"""Part of the columns that may have met one worker only."""
POLL_S, CHECKPOINT_S, PATIENCE_S = 0.1, 1.0, 60.0
MOST_NODES = 30
"""Nodes that are made, one after the other, before a run is given up."""


class AsyncRun:
    """A run over the columns of a matrix, and what it leaves.

    Parameters
    ----------
    matrix : Matrix
    settings : AsyncSettings
    workers : Workers
    progress : Progress, optional
    checkpoint : Checkpoint, optional
    """

    def __init__(
        self,
        matrix: Matrix,
        settings: AsyncSettings,
        workers: Workers,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.matrix, self.settings, self.workers = matrix, settings, workers
        self.progress, self.checkpoint = progress, checkpoint
        self.shares: list[Share] = []
        self.counts: dict[str, float] = {}
        self.trace = np.zeros((0, 0))
        self.seen_by_one = np.zeros(1, bool)
        """Units of columns that one worker had in both of the last epochs."""
        self.prediction = np.zeros(0)
        self.intercept = 0.0
        self.spent: list[Spent] = []
        self.n_nodes_lost = self._n_shown = 0
        self.seconds = 0.0

    def in_turn(self, is_synchronous: bool) -> None:
        """Run with all workers in this thread: deterministic."""
        started = time.perf_counter()
        arrays = None if self.checkpoint is None else self.checkpoint.load(STEP)
        node = Here().place(PlacedNode, self.matrix, self.settings)
        if arrays is not None:
            node.restore(arrays, self._contributions(arrays, Here()))
        self._start(node)
        told, dtype = self.settings.worker(self.matrix), np.dtype(self.settings.dtype)
        sessions = [WorkerSession(node, t, self.matrix, told, dtype) for t in range(self.settings.n_workers)]
        epoch = [node.progress().result()["epoch"]]

        def advance() -> None:
            self._show(node)
            found = node.progress().result()["epoch"]
            if found > epoch[0]:  # between epochs nobody is at work: what is held says all, as if the run resumed here
                epoch[0] = found
                arrays = node.checkpoint().result()
                if self.checkpoint is not None:
                    self.checkpoint.save(STEP, arrays)
                node.restore(arrays, self._contributions(arrays, Here()))
                for session in sessions:
                    session.begin(self.settings.widest)

        read = _Chapters(self.matrix, self.settings, told.objective.weight)
        work_in_turn(sessions, read, is_synchronous, self.settings.widest, advance)
        self.spent = [session.spent for session in sessions]
        self._conclude(node, started)

    def on_cluster(self) -> None:
        """Run with the node as an actor and each worker as a task that lasts."""
        started = time.perf_counter()
        arrays = None if self.checkpoint is None else self.checkpoint.load(STEP)
        compile_kernels(self.settings)
        for _ in range(MOST_NODES):
            try:
                node = self.workers.place(PlacedNode, self.matrix, self.settings, 2, time.time)
                if arrays is not None:
                    node.restore(arrays, self._contributions(arrays, self.workers)).result()
                self._start(node)
                tasks = self._tasks(node)
            except (OSError, RuntimeError):  # lost already
                self.n_nodes_lost += 1
                continue
            try:
                outcomes, kept, is_lost = self._watch(node, tasks)
                self.spent += [outcome.spent for outcome in outcomes]
                if not is_lost and self._is_concluded(node, started):
                    return
            finally:
                self.workers.release(node)
            self.n_nodes_lost += 1
            arrays = _with_outcomes(kept or arrays, outcomes, self.settings)
        raise RunError(
            f"the central node was lost {MOST_NODES} times", STEP, "look at the workers' memory, and resume the run"
        )

    @property
    def is_lopsided(self) -> bool:
        """Whether many columns met one worker only, since others were killed, late, or not started at all."""
        is_meant = self.settings.exchanges and self.settings.n_workers > 1
        return bool(is_meant and self.seen_by_one.mean() > SEEN_BY_ONE)

    def present_again(self, kept: np.ndarray, n_wanted: int) -> np.ndarray:
        """Return columns to select: those that are kept, or better ones, as many as are wanted where that is possible.

        Where workers have left places empty, a single worker takes over what is kept, and all columns are presented to
        it once more; or those that met one worker only, where they are many.
        """
        held = len(kept)
        if self.settings.n_workers == 1 or (held >= n_wanted and not self.is_lopsided):
            return kept
        columns = np.concatenate([share.columns for share in self.shares])
        coef = np.concatenate([share.coef for share in self.shares])
        stay = np.isin(columns, kept)
        unit = self.settings.unit
        numbers = {"n_workers": 1, "capacity": n_wanted, "n_epochs": 1, "exchanges": False}
        told = replace(self.settings, narrowest=unit, widest=unit, **numbers)  # type: ignore[arg-type]
        node = Here().place(PlacedNode, self.matrix, told)
        arrays = node.checkpoint().result() | {"n_held": np.array([held])}
        arrays |= {"columns": columns[stay], "coef": coef[stay]}
        if held >= n_wanted:
            arrays["leases-is_done"] = ~self.seen_by_one
        arrays["numbers"] = np.array([0.0, 0.0, 0.0, self.intercept])
        node.restore(arrays, self._contributions(arrays, self.workers))
        session = WorkerSession(node, 0, self.matrix, told.worker(self.matrix), np.dtype(told.dtype))
        read = _Chapters(self.matrix, told, session.settings.objective.weight)
        while session.lease is not None and (self.is_lopsided or session.worker.members.n_members < n_wanted):
            session.push(session.propose(read(session.lease)), unit)
        found: np.ndarray = node.shares().result()[0].columns
        return found

    def _tasks(self, node: Any) -> LastingTasks:
        shared = (self.matrix, NodeAddress(node), self.settings)
        return keep_running(self.workers, work_until_finished, range(self.settings.n_workers), name=STEP, shared=shared)

    def _watch(self, node: Any, tasks: LastingTasks) -> tuple[list[Outcome], dict[str, np.ndarray] | None, bool]:
        """Wait for the tasks' end; meanwhile show progress and keep checkpoints."""
        outcomes: list[Outcome] = []
        kept: dict[str, np.ndarray] | None = None
        is_lost, kept_at = False, 0.0
        patient_until = np.inf
        try:
            while tasks.n_running:
                outcomes += [outcome for _, outcome in tasks.finished(POLL_S)]
                if is_lost:
                    patient_until = min(patient_until, time.monotonic() + PATIENCE_S)
                    if time.monotonic() > patient_until:
                        break  # tasks that hang end with their workers
                    continue
                try:
                    self._show(node)
                    if time.monotonic() - kept_at > CHECKPOINT_S:
                        kept = node.checkpoint().result()
                        kept_at = time.monotonic()
                        if self.checkpoint is not None:
                            self.checkpoint.save(STEP, kept)
                except (OSError, RuntimeError):  # lost, or too busy to answer
                    is_lost = not self.workers.holds(node)
        except BaseException:  # an error of the data's, Ctrl-C: nobody is left at work
            with suppress(OSError, RuntimeError):
                node.stop().result(timeout=PATIENCE_S)
            raise
        finally:
            tasks.close()
        return outcomes, kept, is_lost or not self.workers.holds(node)

    def _start(self, node: Any) -> None:
        counts = node.progress().result()
        if self.progress is not None and self.n_nodes_lost == 0:
            self.progress.start(STEP, int(counts["n_units"] * counts["n_epochs"]))
        self._show(node)

    def _show(self, node: Any) -> None:
        counts = node.progress().result()
        if self.progress is not None and counts["n_done"] > self._n_shown:
            self.progress.advance(int(counts["n_done"]) - self._n_shown)
            self._n_shown = int(counts["n_done"])
        if counts["version"] > self.counts.get("version", -1.0):
            self.workers.announce(f"daskfs-{STEP}", counts)
        self.counts = counts

    def _is_concluded(self, node: Any, started: float) -> bool:
        try:
            self._conclude(node, started)
        except (OSError, RuntimeError):  # lost at the last moment
            return False
        return bool(self.counts["is_finished"])

    def _conclude(self, node: Any, started: float) -> None:
        """Take what the node knows."""
        self.counts = node.progress().result()
        self.trace = node.trace().result()
        self.seen_by_one = node.seen_by_one().result()
        _, _, self.intercept, self.prediction = node.state().result()
        self.shares = node.shares().result()
        if self.progress is not None:
            self.progress.finish()
        self.seconds = time.perf_counter() - started

    def _contributions(self, arrays: dict[str, np.ndarray], workers: Workers) -> np.ndarray:
        """Return the sum of what the shares of a checkpoint contribute, computed where the workers are."""
        total = np.zeros(self.matrix.shape[0])
        shares = [share for share in shares_of(arrays) if len(share.columns)]
        found: dict[int, np.ndarray] = {}
        shared = (self.matrix, self.settings)
        for k, contribution in workers.map_blocks(contribution_of, shares, name=f"{STEP}-contribution", shared=shared):
            found[k] = contribution
        for k in range(len(shares)):
            total = total + found[k]
        return total


class _Chapters:
    """Columns in this process: read many at a time, kept while workers take turns at them."""

    def __init__(self, matrix: Matrix, settings: AsyncSettings, weight: np.ndarray) -> None:
        self._matrix, self._settings, self._weight = matrix, settings, weight
        self._width = max(settings.widest, READ_COLUMNS - READ_COLUMNS % settings.widest)
        column_nbytes = matrix.shape[0] * np.dtype(settings.dtype).itemsize
        most = max(1, (16 << 20) // column_nbytes // settings.widest)
        self._width = min(self._width, most * settings.widest)
        self._kept: dict[int, Columns] = {}

    def __call__(self, lease: Lease) -> Columns:
        first = lease.start // self._width
        if first not in self._kept:
            if len(self._kept) > 1:
                self._kept.pop(next(iter(self._kept)))
            start = first * self._width
            ids = np.arange(start, min(start + self._width, self._matrix.shape[1]), dtype=np.int64)
            self._kept[first] = read_columns(self._matrix, ids, self._settings.columns, self._weight)
        offset = first * self._width
        return self._kept[first].take(slice(lease.start - offset, lease.stop - offset))


def shares_of(arrays: dict[str, np.ndarray]) -> list[Share]:
    """Return what each worker holds by a checkpoint."""
    ends = np.cumsum(arrays["n_held"])
    return [
        Share(t, arrays["columns"][stop - n_held : stop], arrays["coef"][stop - n_held : stop])
        for t, (stop, n_held) in enumerate(zip(ends.tolist(), arrays["n_held"].tolist(), strict=True))
    ]


def _with_outcomes(
    arrays: dict[str, np.ndarray] | None, outcomes: Sequence[Outcome], settings: AsyncSettings
) -> dict[str, np.ndarray] | None:
    """Put what workers returned into a checkpoint, where it is newer; a column stays with whoever was heard of last.

    Without a checkpoint the run begins anew.
    """
    if arrays is None:
        return None
    shares, sequence = shares_of(arrays), arrays["sequence"].copy()
    is_heard = np.zeros(settings.n_workers, bool)
    for outcome in outcomes:
        t = outcome.share.worker
        if outcome.sequence >= sequence[t]:
            shares[t], sequence[t], is_heard[t] = outcome.share, outcome.sequence, True
    taken: set[int] = set()
    for t in np.argsort(~is_heard, kind="stable").tolist():
        free = np.array([j not in taken for j in shares[t].columns.tolist()], dtype=bool)
        shares[t] = Share(t, shares[t].columns[free], shares[t].coef[free])
        taken.update(shares[t].columns.tolist())
    return arrays | {
        "columns": np.concatenate([share.columns for share in shares]),
        "coef": np.concatenate([share.coef for share in shares]),
        "n_held": np.array([len(share.columns) for share in shares]),
        "sequence": sequence,
    }
