"""A run of asynchronous online substitution: in turn in this process, or on a cluster with the node as an actor.

On a cluster the node can be lost with the worker process that it lives in. Workers notice this at their next call and
return what they hold. A new node is created from the last checkpoint and these, and the workers start again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.cluster.actors import Actors, ActorsHere, LastingTasks
from daskfs.matrix.base import Matrix
from daskfs.selectors.asy_os.leases import Lease
from daskfs.selectors.asy_os.node import NO_COLUMNS, FinalState, NodeState, Reply, Share
from daskfs.selectors.asy_os.plan import read_columns_in_turn
from daskfs.selectors.asy_os.session import Spent, WorkerSession, work_in_turn
from daskfs.selectors.asy_os.task import (
    AsyncSettings,
    Outcome,
    PlacedNode,
    contribution_where_it_is_read,
    work_until_finished,
)
from daskfs.selectors.asy_os.worker import SubstitutionWorker, contribution_of
from daskfs.selectors.inputs import refuse_left_out
from daskfs.selectors.online_substitution.columns import Columns, read_columns
from daskfs.selectors.shared.run import Run

RunError = errors.RunError.about("lost-nodes")

STEP = "select"
"""Name of the step in the progress report and the checkpoint."""
SEEN_BY_ONE = 0.05
"""Share of the columns that may have been seen by only one worker."""
POLL_S, CHECKPOINT_S, PATIENCE_S = 0.1, 1.0, 60.0
ALWAYS_STEPS = 3
"""Number of fits of the columns that are always included, each to the prediction left by the one before."""
MOST_NODES = 30
"""Number of nodes created in turn before a run fails."""


class AsyncRun:
    """A selection with a central node, and its results."""

    def __init__(self, run: Run, settings: AsyncSettings) -> None:
        self.run, self.matrix, self.settings = run.over(run.matrix, by="columns"), run.matrix, settings
        self.actors: Actors = run.workers.actors
        self.shares: list[Share] = []
        self.counts: dict[str, float] = {}
        self.trace = np.zeros((0, 0))
        self.seen_by_one = np.zeros(1, bool)
        """Units of columns that the same worker had in both of the last two epochs."""
        self.n_at_work = 0
        """Number of workers that had columns in these epochs."""
        self.prediction = np.zeros(0)
        self.intercept = np.zeros(1)
        self.spent: list[Spent] = []
        self.n_nodes_lost = self._n_shown = 0
        self.is_finished = False
        self._advance: Callable[..., None]

    def in_turn(self, is_synchronous: bool) -> None:
        """Run with all workers in this thread, which is deterministic."""
        with self._reported():
            state = self.run.load(STEP, NodeState) or self._with_always()
            node, settings = ActorsHere().place(PlacedNode, self.matrix, self.settings), self.settings
            worker = settings.worker(self.matrix)
            if state is not None:
                node.restore(state, self._contribution_here(state.shares))
            self._show(node)
            sessions = [WorkerSession(node, t, self.matrix, worker) for t in range(settings.n_workers)]
            epoch = [self.counts["epoch"]]

            def advance() -> None:
                self._show(node)
                found = self.counts["epoch"]
                # between epochs no worker is busy, so the shares are the whole state, as after a resume
                if found > epoch[0]:
                    epoch[0] = found
                    state = node.checkpoint().result()
                    self.run.save(STEP, state)
                    node.restore(state, self._contribution_here(state.shares))
                    for session in sessions:
                        session.begin(settings.widest)

            read = _ColumnsOfLeases(self.matrix, settings, worker.objective.weight)
            work_in_turn(sessions, read, is_synchronous, settings.widest, advance)
            self.spent = [session.spent for session in sessions]
            self._take_final_state(node)

    def on_cluster(self) -> None:
        """Run with the node as an actor and each worker as a long-running task."""
        with self._reported():
            state = self.run.load(STEP, NodeState) or self._with_always()
            for _ in range(MOST_NODES):
                try:
                    found = None if state is None else self._contribution_on_workers(state.shares)
                    placed = self.actors.place(PlacedNode, self.matrix, self.settings, 2, time.time)
                    node = self.actors.address(placed)
                    if state is not None:
                        node.restore(state, found).result()
                    self._show(node)
                    shared = (self.matrix, node, self.settings)
                    name, numbers = f"{self.run.name}-worker", range(self.settings.n_workers)
                    tasks = self.actors.keep_running(work_until_finished, numbers, name=name, shared=shared)
                except (OSError, RuntimeError):  # lost already
                    self.n_nodes_lost += 1
                    continue
                try:
                    outcomes, kept, is_lost = self._watch(node, placed, tasks)
                    self.spent += [outcome.spent for outcome in outcomes]
                    if (not is_lost and self._has_final_state(node)) or self.is_finished:
                        return
                finally:
                    self.actors.release(placed)
                self.n_nodes_lost += 1
                state = with_outcomes(kept or state, outcomes)
        raise RunError(
            f"the central node was lost {MOST_NODES} times", STEP, "check the workers' memory, and resume the run"
        )

    def _with_always(self) -> NodeState | None:
        """Return the initial state with the columns that are always included: fitted, and spread over the workers.

        Raises
        ------
        DataError
            A column is constant, or a linear combination of those before it.
        """
        settings, always = self.settings, np.array(self.settings.always, dtype=np.int64)
        if not len(always):
            return None
        for_workers = settings.worker(self.matrix)
        worker = SubstitutionWorker(replace(for_workers, rule=replace(for_workers.rule, name="exchange")), len(always))
        objective = for_workers.objective
        prediction, _ = objective.without_features()
        share = Share(0, NO_COLUMNS, objective.no_coef)
        worker.take_back(self.matrix, share)
        columns = read_columns(self.matrix, always, settings.columns, objective.weight)
        for version in range(ALWAYS_STEPS):
            proposal = worker.present(columns, Reply("accepted", "work", version, prediction))
            share = proposal.share
            if proposal.delta is None:
                break
            penalty = objective.penalty(share.coef)
            _, prediction, objective.intercept = objective.with_best_intercept(prediction + proposal.delta, penalty)
            worker.settle(True)
        refuse_left_out(always, share.columns, self.matrix.names)
        state: NodeState = ActorsHere().place(PlacedNode, self.matrix, settings).checkpoint().result()
        held = [(slice(one.worker, None, len(state.shares)), one.worker) for one in state.shares]
        shares = tuple(Share(t, share.columns[some], np.ascontiguousarray(share.coef[some])) for some, t in held)
        return replace(state, shares=shares, intercept=objective.intercept)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        n_units = len(self.settings.leases(self.matrix.shape[1]).is_done)
        with self.run.reported(STEP, n_units * self.settings.n_epochs) as self._advance, self.run.timed(STEP):
            try:
                yield
            finally:
                self.actors.close()
        for part in ("calls", "computing", "reading"):  # summed over the workers
            self.run.seconds[f"workers-{part}"] = sum(getattr(spent, f"{part}_s") for spent in self.spent)
        self.run.nbytes["pushed"] = sum(spent.sent_nbytes for spent in self.spent)
        self.run.nbytes["n_calls"] = sum(spent.n_calls for spent in self.spent)

    @property
    def is_lopsided(self) -> bool:
        """Whether many columns were seen by only one worker, because others were lost, late, or not started at all."""
        is_meant = self.settings.exchanges and self.settings.n_workers > 1
        return bool(is_meant and self.seen_by_one.mean() > SEEN_BY_ONE)

    def is_short_of_places(self, n_wanted: int) -> bool:
        """Return whether late or missing workers left more than half of the spare places missing."""
        places = self.settings.capacity * np.array([self.n_at_work, self.settings.n_workers])
        found, meant = places - n_wanted
        return bool(found < meant / 2)

    def present_again(self, kept: np.ndarray, n_wanted: int) -> tuple[np.ndarray, str]:
        """Return the columns to select: those that are kept, or better ones; and why, if there are new ones.
        If places were left empty or were too few, a single worker takes over what is kept, and all columns are
        presented to it once more; if many columns were seen by only one worker, only those are.
        """
        held, unit = len(kept), self.settings.unit
        is_short = held < n_wanted or self.is_short_of_places(n_wanted)
        if self.settings.n_workers == 1 or not (is_short or self.is_lopsided):
            return kept, ""
        columns = np.concatenate([share.columns for share in self.shares])
        coef = np.concatenate([share.coef for share in self.shares])
        stay = np.isin(columns, kept)
        numbers = {"n_workers": 1, "capacity": n_wanted, "n_epochs": 1, "narrowest": unit, "widest": unit, "part": unit}
        settings = replace(self.settings, exchanges=False, in_turn=True, **numbers)  # type: ignore[arg-type]
        worker = settings.worker(self.matrix)
        node = ActorsHere().place(PlacedNode, self.matrix, settings)
        state: NodeState = node.checkpoint().result()
        leases = state.leases if is_short else replace(state.leases, is_done=~self.seen_by_one)
        order = np.argsort(~np.isin(columns[stay], self.settings.always), kind="stable")
        share = Share(0, columns[stay][order], coef[stay][order])
        state = replace(state, shares=(share,), leases=leases, intercept=self.intercept)
        node.restore(state, self._contribution_here(state.shares))
        session = WorkerSession(node, 0, self.matrix, worker)
        read = _ColumnsOfLeases(self.matrix, settings, worker.objective.weight)
        is_for_all = self.is_lopsided or self.is_short_of_places(n_wanted)
        while session.lease is not None and (is_for_all or session.n_held < n_wanted):
            session.push(session.propose(read(session.lease)), unit)
        if self.is_lopsided:
            why = "many columns had been seen by only one worker"
        elif is_for_all:
            why = f"only {self.n_at_work} of {self.settings.n_workers} workers took part"
        else:
            why = "workers had empty places"
        return node.shares().result()[0].columns, why

    def _watch(self, node: Any, placed: Any, tasks: LastingTasks) -> tuple[list[Outcome], NodeState | None, bool]:
        """Wait for the tasks to end; meanwhile show progress and save checkpoints."""
        outcomes: list[Outcome] = []
        kept: NodeState | None = None
        is_lost, kept_at = False, 0.0
        patient_until = np.inf
        try:
            while tasks.n_running:
                ended = [outcome for _, outcome in tasks.finished(POLL_S)]
                outcomes += ended
                for outcome in ended:
                    if outcome.final_state is not None:  # the node may be gone: its worker had nothing left to do
                        self._take(outcome.final_state)
                        self.is_finished = True
                if is_lost and self.is_finished:
                    break
                if is_lost:
                    patient_until = min(patient_until, time.monotonic() + PATIENCE_S)
                    if time.monotonic() > patient_until:
                        break  # hanging tasks end with their workers
                    continue
                try:
                    self._show(node)
                    if (
                        self.counts["is_finished"] and not self.is_finished
                    ):  # when all is done workers may leave, also the one with the node
                        self._take_final_state(node)
                        self.is_finished = True
                    if time.monotonic() - kept_at > CHECKPOINT_S:
                        kept = node.checkpoint().result()
                        kept_at = time.monotonic()
                        self.run.save(STEP, kept)
                except (OSError, RuntimeError):  # lost, or too busy to answer
                    is_lost = not self.actors.holds(placed)
        except BaseException:  # an error in the data, or Ctrl-C: leave no worker running
            with suppress(OSError, RuntimeError):
                node.stop().result(timeout=PATIENCE_S)
            raise
        finally:
            tasks.close()
        return outcomes, kept, is_lost or not self.actors.holds(placed)

    def _show(self, node: Any) -> None:
        counts = node.progress().result()
        if counts["n_done"] > self._n_shown:
            self._advance(int(counts["n_done"]) - self._n_shown)
            self._n_shown = int(counts["n_done"])
        if counts["version"] > self.counts.get("version", -1.0):
            self.actors.announce(f"daskfs-{self.run.name}", counts)
            at = counts["n_done"] / max(1.0, counts["n_units"])
            self.run.learn("epoch", at, counts["objective"], lambda: _columns_of(node.shares().result()))
        self.counts = counts

    def _has_final_state(self, node: Any) -> bool:
        try:
            self._take_final_state(node)
        except (OSError, RuntimeError):  # lost at the last moment
            return False
        return bool(self.counts["is_finished"])

    def _take_final_state(self, node: Any) -> None:
        """Take the final state from the node."""
        self._take(node.final_state().result())

    def _take(self, found: FinalState) -> None:
        self.counts, self.trace, self.shares = found.counts, found.trace, list(found.shares)
        self.seen_by_one, self.n_at_work = found.seen_by_one, found.n_at_work
        _, _, self.intercept, self.prediction = found.standing

    def _contribution_here(self, shares: Sequence[Share]) -> np.ndarray:
        """Return the sum of the contributions of shares."""
        worker = self.settings.worker(self.matrix)
        return self._sum(contribution_of(self.matrix, worker, share) for share in shares if len(share.columns))

    def _contribution_on_workers(self, shares: Sequence[Share]) -> np.ndarray:
        """Return the sum of the contributions of shares, computed on the workers."""
        given = [share for share in shares if len(share.columns)]
        return self._sum(self.run.map("contribution", contribution_where_it_is_read, given, self.settings))

    def _sum(self, contributions: Iterable[np.ndarray]) -> np.ndarray:
        total = np.zeros(self.matrix.shape[0])  # for each prediction
        for contribution in contributions:
            total = total + contribution
        return total


def _columns_of(shares: Sequence[Share]) -> np.ndarray:
    """Return the columns that all workers together hold."""
    return np.concatenate([share.columns for share in shares])


class _ColumnsOfLeases:
    """Reads columns in this process, many at a time, and keeps them while workers take turns."""

    def __init__(self, matrix: Matrix, settings: AsyncSettings, weight: np.ndarray) -> None:
        self._matrix, self._settings, self._weight = matrix, settings, weight
        column_nbytes = matrix.shape[0] * np.dtype(settings.dtype).itemsize
        self._width = read_columns_in_turn(settings.widest, column_nbytes, settings.part)
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


def with_outcomes(state: NodeState | None, outcomes: Sequence[Outcome]) -> NodeState | None:
    """Update a checkpoint with what workers returned, if newer; a column stays with the worker heard of last.

    Without a checkpoint the run starts again.
    """
    if state is None:
        return None
    shares, sequence = list(state.shares), state.sequence.copy()
    is_heard = np.zeros(len(shares), bool)
    for outcome in outcomes:
        t = outcome.share.worker
        if outcome.sequence >= sequence[t]:
            shares[t], sequence[t], is_heard[t] = outcome.share, outcome.sequence, True
    taken: set[int] = set()
    for t in np.argsort(~is_heard, kind="stable").tolist():
        free = np.array([j not in taken for j in shares[t].columns.tolist()], dtype=bool)
        shares[t] = Share(t, shares[t].columns[free], shares[t].coef[free])
        taken.update(shares[t].columns.tolist())
    return replace(state, shares=tuple(shares), sequence=sequence)
