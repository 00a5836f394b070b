"""The central node of asynchronous online substitution: a state machine without I/O.

    1. u_C = 0
    2. repeat
    3.   if Δu(t) is received from a worker t:
    4.     u_C = u_C + Δu(t)
    6. until the workers stop pushing

Algorithm 2 of Yang, Fujimaki, Kusumura and Liu (KDD 2016; see `daskfs.selectors.asy_os.selector`), with details that
the paper leaves open: columns are leased, the staleness is bounded, and a push that raises the objective is refused.
The node has u_C and y, so this check, inequality (15) with c = 0, needs no message.

The following invariants hold after every call, whatever calls came before, were repeated, were lost or came late:

* u_C is the intercept plus the sum of the workers' contributions, Σ_t X_S(t) w_S(t). With several classes this holds
  for each class, and the objective is the sum over classes.
* A column is held by at most one worker, and a worker holds at most as many columns as its capacity.
* A version number is used once: it counts the changes of u_C.
* No push is accepted that was computed from a u_C more than `tau_max` versions old.
* A step counts once: (worker, sequence number) identifies it.

A worker registers and receives a sequence number. A worker that still uses an earlier number is superseded: it is told
to register again, and then learns what it holds. At the end of an epoch each contribution is recomputed on request, and
u_C becomes their sum, so that rounding errors do not accumulate; the contribution of a lost worker is computed by
another.

The node is placed where Dask runs (as an actor), so it has only methods, and never changes anything that it has
returned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from daskfs.selectors.asy_os.leases import ColumnLeases, Lease, LeasesState
from daskfs.selectors.online_substitution.objective import Objective
from daskfs.selectors.shared.record import Record

TICKET = 1 << 32
"""Sequence numbers per registration."""
ROUNDING = 1e-12
"""Rises of the objective below this share of its value without features count as rounding."""
FINAL_STATE_COPIES = 3
"""Number of workers that always receive the final state."""
TRACE_LINES = 8192
TRACE = ("seconds", "version", "worker", "epoch", "staleness", "accepted", "n_members", "objective")
NO_COLUMNS = np.zeros(0, np.int64)


# Messages between the central node and its workers


@dataclass(frozen=True, slots=True)
class Share(Record):
    """The columns that one worker holds, and their coefficients, standardised as the workers see columns."""

    worker: int
    columns: np.ndarray
    coef: np.ndarray
    """Shape (n_columns,), with more than two classes (n_columns, n_classes)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A worker's answer for the columns of its lease."""

    share: Share
    """What it would hold afterwards."""
    delta: np.ndarray | None
    """Change of its contribution; None: no change, and the lease is done.

    Shape (n_samples,), with more than two classes (n_classes, n_samples).
    """
    version: int
    """Version of the u_C that it was computed from."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """X_S(t) w_S(t) of a share, recomputed from its columns."""

    worker: int
    """The worker of the share."""
    epoch: int
    prediction: np.ndarray


@dataclass(frozen=True, slots=True)
class Reply:
    """The node's answer to a worker."""

    verdict: str
    """One of "accepted", "refused" and "superseded"."""
    orders: str
    """One of "work" (on the first lease), "wait", "contribute", "register" and "finished"."""
    version: int
    prediction: np.ndarray | None
    """u_C of this version, with orders to work; None if the answered step was computed from this version."""
    leases: tuple[Lease, ...] = ()
    held: np.ndarray = field(default_factory=lambda: NO_COLUMNS)
    """Columns of the leases that other workers hold."""
    share: Share | None = None
    """The share whose contribution is requested."""
    epoch: int = 0

    def after(self, before: Reply) -> Reply:
        """Return the reply with the u_C that the worker already has, if it was not sent again."""
        if self.prediction is None and self.version == before.version and self.leases:
            return replace(self, prediction=before.prediction)
        return self


@dataclass(frozen=True, slots=True)
class Registration:
    """The node's answer to a worker that registers."""

    sequence: int
    """Number of its last step; the next step has the following number."""
    share: Share
    capacity: int
    reply: Reply


# The state of the node


@dataclass(slots=True)
class NodeCounters(Record):
    """Counts of the results of steps."""

    accepted: int = 0
    unchanged: int = 0
    stale: int = 0
    rising: int = 0
    improper: int = 0
    repeated: int = 0
    worst_staleness: int = 0
    """Largest staleness of accepted steps."""


@dataclass(frozen=True, slots=True)
class NodeState(Record):
    """The state for a checkpoint. Another node continues from it and the contributions of the shares."""

    shares: tuple[Share, ...]
    sequence: np.ndarray
    leases: LeasesState
    version: int
    has_changed: bool
    is_finished: bool
    intercept: np.ndarray
    """Shape (1,), with more than two classes (n_classes, 1)."""
    counters: NodeCounters
    trace: np.ndarray
    trace_every: int
    n_steps: int


class Standing(NamedTuple):
    """The present point of the selection."""

    version: int
    value: float
    intercept: np.ndarray
    prediction: np.ndarray
    """u_C."""


class FinalState(NamedTuple):
    """The final state of the node."""

    counts: dict[str, float]
    trace: np.ndarray
    seen_by_one: np.ndarray
    n_at_work: int
    standing: Standing
    shares: tuple[Share, ...]


class CentralNode:
    """u_C, and the rights of the workers.

    Parameters
    ----------
    objective : Objective
    leases : ColumnLeases
    n_workers : int
        The paper's q.
    capacity : int
        Largest number of columns that each worker may hold.
    tau_max : int
        Largest number of versions by which u_C may have changed since a worker read it.
    checks : bool
        Whether a push that raises the objective is refused.
    n_ahead : int
        Number of leases that a worker has at once: with two it reads one while it works on the other.
    timeout_s : float
        Seconds that a worker waits for another one's columns before these are taken away from that one.
    clock : callable, optional
        Returns seconds, for the trace.
    always : tuple of int
        Columns that their worker never drops.
    """

    def __init__(
        self,
        objective: Objective,
        leases: ColumnLeases,
        n_workers: int,
        capacity: int,
        tau_max: int,
        checks: bool = True,
        n_ahead: int = 1,
        timeout_s: float = 30.0,
        clock: Callable[[], float] | None = None,
        always: tuple[int, ...] = (),
    ) -> None:
        self._objective, self._leases = objective, leases
        self._n_workers, self._capacity, self._tau_max, self._checks = n_workers, capacity, tau_max, checks
        self._n_ahead, self._timeout_s, self._clock = n_ahead, timeout_s, clock
        self._start_s = clock() if clock else 0.0
        self._prediction, self._value = objective.without_features()
        self._null_value = self._value
        self._version = 0
        self._shares = {t: Share(t, NO_COLUMNS, objective.no_coef) for t in range(n_workers)}
        self._penalty = dict.fromkeys(range(n_workers), 0.0)
        self._always = frozenset(always)
        self._owner: dict[int, int] = {}
        """The worker that holds each column."""
        self._sequence = dict.fromkeys(range(n_workers), 0)
        self._verdict = dict.fromkeys(range(n_workers), "accepted")
        self._held_leases: dict[int, list[Lease]] = {t: [] for t in range(n_workers)}
        self._absent: set[int] = set(range(n_workers))
        self._has_changed = self._is_finished = self._has_reported = False
        self._awaited: set[int] = set()
        self._sum: np.ndarray | None = None
        self._trace: list[tuple[float, ...]] = []
        self._trace_every = 1
        self._n_steps = 0
        self._counters, self._drift = NodeCounters(), 0.0

    def register(self, worker: int, wanted: int = 1) -> Registration:
        """Register a worker, possibly again: its leases become free, and its columns remain its own."""
        self._supersede(worker)
        self._absent.discard(worker)
        self._lease(worker, wanted)
        share = self._shares[worker]
        return Registration(self._sequence[worker], share, self._capacity, self._reply(worker, "accepted"))

    def step(self, sequence: int, proposal: Proposal, wanted: int = 1) -> Reply:
        """Process a worker's answer for the columns of its first lease; one call per block.

        Parameters
        ----------
        sequence : int
            One more than in the worker's last step; a repetition has the same number.
        proposal : Proposal
        wanted : int
            Number of columns of the next lease.

        Returns
        -------
        Reply
            If refused, the worker's contribution is unchanged and the lease is still its own; it may try again with the
            new u_C.
        """
        worker = proposal.share.worker
        if sequence == self._sequence[worker] and sequence % TICKET:  # a repetition
            self._counters.repeated += 1
            return self._reply(worker, self._verdict[worker], proposal.version)
        held = self._held_leases[worker]
        if sequence != self._sequence[worker] + 1 or not held:
            return Reply("superseded", "register", self._version, None)
        is_changed = proposal.delta is not None
        staleness = self._version - proposal.version if is_changed else 0
        fault = self._fault(proposal, staleness, held[0])
        self._sequence[worker] = sequence
        self._verdict[worker] = "refused" if fault else "accepted"
        name = fault or ("accepted" if is_changed else "unchanged")
        setattr(self._counters, name, getattr(self._counters, name) + 1)
        if not fault:
            self._leases.finish(worker, held.pop(0))
            self._lease(worker, wanted)
            self._end_epoch()
        self._remember(worker, staleness, 0.0 if fault else 1.0)
        return self._reply(worker, self._verdict[worker], proposal.version)

    def wait(self, worker: int, sequence: int, waited_s: float, wanted: int = 1) -> Reply:
        """Ask again for work.

        Parameters
        ----------
        waited_s : float
            How long the worker has waited so far; after `timeout_s` it receives what others had leased.
        """
        if sequence != self._sequence[worker]:
            return Reply("superseded", "register", self._version, None)
        self._lease(worker, wanted)
        if not self._held_leases[worker] and waited_s > self._timeout_s:
            late = self._awaited or {t for t, leases in self._held_leases.items() if leases}
            for other in late - {worker}:
                self._supersede(other)
                self._absent.add(other)
            self._lease(worker, wanted)
        return self._reply(worker, "accepted")

    def contribute(self, worker: int, sequence: int, contribution: Contribution) -> Reply:
        """Take a recomputed contribution, for the new sum u_C at the end of an epoch."""
        if sequence != self._sequence[worker]:
            return Reply("superseded", "register", self._version, None)
        prediction, is_of_now = contribution.prediction, contribution.epoch == self._leases.epoch
        if is_of_now and contribution.worker in self._awaited and np.isfinite(prediction).all():
            self._awaited.discard(contribution.worker)
            self._sum = prediction.copy() if self._sum is None else self._sum + prediction
            if not self._awaited:
                self._rebuild()
        self._lease(worker, 1)
        return self._reply(worker, "accepted")

    def stop(self) -> None:
        """Finish the run for all workers, whatever is left."""
        for worker in range(self._n_workers):
            self._supersede(worker)
        self._is_finished = True
        self._awaited = set()

    def progress(self) -> dict[str, float]:
        """Return the progress (units of columns done, of how many), the objective, and the counters."""
        leases = self._leases
        numbers = {"n_done": leases.n_done, "n_units": len(leases.is_done), "n_epochs": leases.n_epochs}
        numbers |= {"epoch": leases.epoch, "version": self._version, "is_finished": self._is_finished}
        numbers |= {name: getattr(self._counters, name) for name in NodeCounters.__dataclass_fields__}
        measured = {"drift": self._drift, "objective": self._value}
        return {name: float(value) for name, value in (numbers | measured).items()}

    def checkpoint(self) -> NodeState:
        """Return a small record from which another node can continue, given the contributions of the shares."""
        return NodeState(
            shares=tuple(self.shares()),
            sequence=np.array([self._sequence[t] for t in range(self._n_workers)]),
            leases=self._leases.state(),
            version=self._version,
            has_changed=self._has_changed,
            is_finished=self._is_finished,
            intercept=self._objective.intercept,
            counters=replace(self._counters),
            trace=self.trace(),
            trace_every=self._trace_every,
            n_steps=self._n_steps,
        )

    def restore(self, state: NodeState, contribution: np.ndarray) -> None:
        """Restore a checkpoint.

        Parameters
        ----------
        state : NodeState
        contribution : ndarray of the shape of u_C
            Sum of the contributions of its shares.
        """
        for t in range(self._n_workers):  # otherwise a column that another worker holds now would be lost
            self._give(Share(t, NO_COLUMNS, self._objective.no_coef))
        self._leases.restore(state.leases)
        for t, (share, sequence) in enumerate(zip(state.shares, state.sequence.tolist(), strict=True)):
            self._give(Share(t, share.columns.copy(), share.coef.copy()))
            self._sequence[t] = sequence
            self._supersede(t)
        self._version, self._has_changed, self._is_finished = state.version + 1, state.has_changed, state.is_finished
        self._objective.intercept = state.intercept
        self._counters = replace(state.counters)
        self._trace = [tuple(line) for line in state.trace.tolist()]
        self._trace_every, self._n_steps = state.trace_every, state.n_steps
        self._absent = set(range(self._n_workers))
        self._prediction = contribution + self._objective.intercept
        self._value = self._objective.value(self._prediction, sum(self._penalty.values()))
        self._end_epoch()

    def shares(self) -> list[Share]:
        """Return the shares of all workers."""
        return [self._shares[t] for t in range(self._n_workers)]

    def state(self) -> Standing:
        """Return version, objective, intercept and u_C."""
        return Standing(self._version, self._value, self._objective.intercept, self._prediction)

    def final_state(self) -> FinalState:
        """Return the final state for the client."""
        seen, n_at_work = self.seen_by_one(), self.n_at_work()
        return FinalState(self.progress(), self.trace(), seen, n_at_work, self.state(), tuple(self.shares()))

    def final_state_for(self, worker: int) -> FinalState | None:
        """Return the final state to a worker if the run is finished: to the first that asks, and to a few more.

        The worker on which the node lives may leave before anyone else asks.
        """
        if not self._is_finished or (worker >= FINAL_STATE_COPIES and self._has_reported):
            return None
        self._has_reported = True
        return self.final_state()

    def seen_by_one(self) -> np.ndarray:
        """Return which units the same worker had in both of the last two epochs, bool of shape (n_units,)."""
        owner: np.ndarray = self._leases.owner
        return (owner >= 0) & (owner == self._leases.before)

    def n_at_work(self) -> int:
        """Return the number of workers that had columns in the last two epochs."""
        given = np.union1d(self._leases.owner, self._leases.before)
        return int((given >= 0).sum())

    def trace(self) -> np.ndarray:
        """Return the trace, with columns `TRACE`: one line per step (in a long run per 2nd, 4th, ... step)."""
        return np.array(self._trace).reshape(-1, len(TRACE))

    def _fault(self, proposal: Proposal, staleness: int, lease: Lease) -> str | None:
        """Apply a proposal; return None, or the reason why it was refused."""
        delta, share = proposal.delta, proposal.share
        if delta is None:
            return None
        if not self._is_proper(share, lease) or not np.isfinite(delta).all():
            return "improper"
        if not 0 <= staleness <= self._tau_max:
            return "stale"
        penalty = self._objective.penalty(share.coef)
        trial = self._prediction + delta  # never in place: a reply may still be on its way
        others = sum(self._penalty[t] for t in self._penalty if t != share.worker)
        value, trial, intercept = self._objective.with_best_intercept(trial, others + penalty)
        if self._checks and not value <= self._value + ROUNDING * self._null_value:
            return "rising"
        self._counters.worst_staleness = max(self._counters.worst_staleness, staleness)
        self._objective.intercept = intercept
        self._prediction, self._value = trial, value
        self._version += 1
        self._give(Share(share.worker, np.array(share.columns, np.int64), np.array(share.coef, np.float64)))
        return None

    def _is_proper(self, share: Share, lease: Lease) -> bool:
        """Return whether a share is allowed: within capacity, no duplicates, new columns only from the lease."""
        wanted = share.columns.tolist()
        if len(wanted) > self._capacity or len(set(wanted)) < len(wanted):
            return False
        if not (self._always & set(self._shares[share.worker].columns.tolist())) <= set(wanted):
            return False
        if share.coef.shape != (len(wanted), *self._objective.no_coef.shape[1:]):
            return False
        owners = [self._owner.get(j) for j in wanted]
        is_new = [owner is None for owner in owners]
        if any(new and not lease.start <= j < lease.stop for j, new in zip(wanted, is_new, strict=True)):
            return False
        return all(owner in (None, share.worker) for owner in owners) and bool(np.isfinite(share.coef).all())

    def _give(self, share: Share) -> None:
        """Set the share of a worker."""
        before, now = set(self._shares[share.worker].columns.tolist()), set(share.columns.tolist())
        for j in before - now:
            del self._owner[j]
        self._owner.update(dict.fromkeys(now, share.worker))
        self._has_changed = self._has_changed or before != now
        self._shares[share.worker] = share
        self._penalty[share.worker] = self._objective.penalty(share.coef)

    def _held_in(self, worker: int, leases: tuple[Lease, ...]) -> np.ndarray:
        """Return the columns of leases that other workers hold."""
        found: list[int] = []
        for lease in leases:
            if lease.stop - lease.start < len(self._owner):
                found += [j for j in range(lease.start, lease.stop) if self._owner.get(j, worker) != worker]
            else:
                found += [j for j, t in self._owner.items() if t != worker and lease.start <= j < lease.stop]
        return np.array(found, np.int64) if found else NO_COLUMNS

    def _supersede(self, worker: int) -> None:
        """Start a new range of sequence numbers for the worker's next registration, and free its leases."""
        self._sequence[worker] = (self._sequence[worker] // TICKET + 1) * TICKET
        self._leases.give_back(worker)
        self._held_leases[worker] = []

    def _lease(self, worker: int, wanted: int) -> None:
        held = self._held_leases[worker]
        while not self._is_finished and not self._awaited and len(held) < self._n_ahead:
            lease = self._leases.take(worker, wanted)
            if lease is None:
                return
            held.append(lease)

    def _end_epoch(self) -> None:
        """If every column was presented, request all contributions."""
        if self._leases.epoch_is_over and not self._is_finished and not self._awaited:
            self._awaited = {t for t, share in self._shares.items() if len(share.columns)}
            self._sum = None
            if not self._awaited:
                self._rebuild()

    def _rebuild(self) -> None:
        """Set u_C = Σ_t X_S(t) w_S(t), and begin the next epoch."""
        total = np.zeros_like(self._prediction) if self._sum is None else self._sum
        trial = total + self._objective.intercept
        self._drift = max(self._drift, float(np.abs(trial - self._prediction).max()))
        self._prediction, self._sum = trial, None
        self._value = self._objective.value(trial, sum(self._penalty.values()))
        self._version += 1
        if self._leases.epoch + 1 < self._leases.n_epochs and self._has_changed:
            self._leases.next_epoch()
            self._has_changed = False
        else:
            self._is_finished = True

    def _reply(self, worker: int, verdict: str, known: int | None = None) -> Reply:
        """Return the next orders for a worker; `known` is the version of the u_C that it has."""
        leases, share = tuple(self._held_leases[worker]), None
        if leases:
            orders = "work"
        elif self._is_finished:
            orders = "finished"
        elif self._awaited:
            gone = sorted(self._awaited & self._absent)
            of = worker if worker in self._awaited else (gone[0] if gone else None)
            orders, share = ("wait", None) if of is None else ("contribute", self._shares[of])
        else:
            orders = "wait"
        held = self._held_in(worker, leases)
        prediction = self._prediction if leases and self._version != known else None
        return Reply(verdict, orders, self._version, prediction, leases, held, share, self._leases.epoch)

    def _remember(self, worker: int, staleness: int, accepted: float) -> None:
        self._n_steps += 1
        if self._n_steps % self._trace_every:
            return
        seconds = self._clock() - self._start_s if self._clock else 0.0
        n_members = len(self._owner)
        numbers = (self._version, worker, self._leases.epoch, staleness, accepted, n_members, self._value)
        self._trace.append((seconds, *(float(number) for number in numbers)))
        if len(self._trace) >= TRACE_LINES:
            self._trace = self._trace[1::2]
            self._trace_every *= 2
