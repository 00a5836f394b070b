"""One worker's exchange with the central node: registration, then one call for each block of columns.

Calls may be repeated and answers lost: a step has a sequence number and is sent again unchanged. A worker that is
superseded registers again, and takes the state that the node has for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from daskfs.matrix.base import Matrix
from daskfs.selectors.asy_os.leases import Lease
from daskfs.selectors.asy_os.node import Contribution, Proposal, Registration, Reply, Share
from daskfs.selectors.asy_os.worker import SubstitutionWorker, WorkerSettings, contribution_of
from daskfs.selectors.online_substitution.columns import Columns


@dataclass
class Spent:
    """A worker's time by purpose, in seconds, and the amount of its work."""

    calls_s: float = 0.0
    computing_s: float = 0.0
    reading_s: float = 0.0
    n_calls: int = 0
    n_columns: int = 0
    sent_nbytes: int = 0
    recent: list[float] = field(default_factory=list)
    """Seconds of the last calls."""


class WorkerSession:
    """A worker, and the last reply of the central node.

    Parameters
    ----------
    node : object
        The placed `CentralNode`: methods return objects with ``result()``.
    number : int
        Number of the worker.
    matrix : Matrix
    settings : WorkerSettings
    """

    def __init__(self, node: Any, number: int, matrix: Matrix, settings: WorkerSettings) -> None:
        self.node, self.number, self.matrix, self.settings = node, number, matrix, settings
        self.spent = Spent()
        self._worker: SubstitutionWorker | None = None
        self._is_open, self._sequence = False, 0
        self.reply: Reply
        self.begin(1)

    def begin(self, wanted: int) -> None:
        """Register, and take the state that the node has for this worker."""
        registration: Registration = self._call("register", self.number, wanted)
        if self._worker is None or self._worker.capacity != registration.capacity:
            self._worker = SubstitutionWorker(self.settings, registration.capacity)
        self._worker.take_back(self.matrix, registration.share)
        self._is_open = False
        self._sequence, self.reply = registration.sequence, registration.reply

    @property
    def worker(self) -> SubstitutionWorker:
        """The worker, once it is registered."""
        if self._worker is None:
            raise ValueError("expected a registered worker, found none")
        return self._worker

    @property
    def lease(self) -> Lease | None:
        """The lease to work on now."""
        return self.reply.leases[0] if self.reply.leases else None

    def propose(self, columns: Columns) -> Proposal:
        """Let columns of the lease enter that pay, given the last u_C received."""
        started = time.perf_counter()
        self._is_open = True
        proposal = self.worker.present(columns, self.reply)
        self.spent.computing_s += time.perf_counter() - started
        self.spent.n_columns += len(columns)
        return proposal

    def push(self, proposal: Proposal, wanted: int = 1, following: Columns | None = None) -> None:
        """Send a proposal to the node; if refused, send it again for the new u_C; if refused again, give it up.

        The columns of the following lease are multiplied with the members while the node computes.
        """
        reply = self._step(proposal, wanted, following)
        if reply.verdict == "refused" and reply.prediction is not None:
            self.reply = reply
            started = time.perf_counter()
            proposal = self.worker.reconsider(reply)
            self.spent.computing_s += time.perf_counter() - started
            reply = self._step(proposal, wanted)
        if reply.verdict == "superseded":
            self.begin(wanted)
            return
        self.worker.settle(reply.verdict == "accepted" and proposal.delta is not None)
        self._is_open = False
        self.reply = reply
        if reply.verdict == "refused":
            self.reply = self._step(replace(proposal, delta=None), wanted)
            if self.reply.verdict == "superseded":
                self.begin(wanted)

    def contribute(self) -> None:
        """Compute the contribution that the node requests: the worker's own, or that of a lost worker."""
        share = self.reply.share
        if share is None:
            raise ValueError("expected a share with the orders to contribute, found none")
        if share.worker == self.number:
            contribution = self.worker.contribution()
        else:
            contribution = contribution_of(self.matrix, self.settings, share)
        answer = Contribution(share.worker, self.reply.epoch, contribution)
        self._take(self._call("contribute", self.number, self._sequence, answer), 1)

    def wait(self, waited_s: float, wanted: int = 1) -> None:
        """Ask for work."""
        self._take(self._call("wait", self.number, self._sequence, waited_s, wanted), wanted)

    def undo(self) -> None:
        """Restore what the node accepted last, after the node was lost."""
        if self._is_open:
            self.worker.settle(False)
            self._is_open = False

    @property
    def n_held(self) -> int:
        """Number of columns that the worker holds, including a proposal that it has not pushed."""
        return self.worker.members.n_members

    def holds(self) -> tuple[int, Share]:
        """Return the number of the last step, and what the worker holds."""
        return self._sequence, self.worker.holds()

    def _take(self, reply: Reply, wanted: int) -> None:
        if reply.verdict == "superseded":
            self.begin(wanted)
        else:
            self.reply = reply

    def _step(self, proposal: Proposal, wanted: int, following: Columns | None = None) -> Reply:
        self._sequence += 1
        self.spent.sent_nbytes += 0 if proposal.delta is None else proposal.delta.nbytes
        reply: Reply = self._call("step", self._sequence, proposal, wanted, following=following)
        return reply.after(self.reply)

    def _call(self, method: str, *arguments: Any, following: Columns | None = None) -> Any:
        started = time.perf_counter()
        answer, computing_s = getattr(self.node, method)(*arguments), 0.0
        if following is not None:
            computing_s = -time.perf_counter()
            self.worker.foresee(following)
            computing_s += time.perf_counter()
            self.spent.computing_s += computing_s
        answer = answer.result()
        seconds = time.perf_counter() - started - computing_s
        self.spent.calls_s += seconds
        self.spent.n_calls += 1
        self.spent.recent = [*self.spent.recent[-15:], seconds]
        return answer


def work_in_turn(
    sessions: list[WorkerSession],
    read: Callable[[Lease], Columns],
    is_synchronous: bool,
    wanted: int,
    advance: Callable[[], None],
) -> None:
    """Let workers take turns in this thread until the node is finished.

    Parameters
    ----------
    sessions : list of WorkerSession
    read : callable
        Returns the columns of a lease.
    is_synchronous : bool
        Whether all read u_C, then all work, then all push. Otherwise each works with the u_C returned by its own last
        push: with q workers this is the u_C of q - 1 updates ago, its own push included.
    wanted : int
        Columns of a block.
    advance : callable
        Called after each round of turns.
    """
    while any(session.reply.orders != "finished" for session in sessions):
        proposals: list[tuple[WorkerSession, Proposal]] = []
        for session in sessions:
            if is_synchronous or session.reply.orders in ("wait", "finished"):
                session.wait(0.0, wanted)
        for session in sessions:
            orders, lease = session.reply.orders, session.lease
            if orders == "contribute":
                session.contribute()
            elif lease is not None:
                proposal = session.propose(read(lease))
                if is_synchronous:
                    proposals.append((session, proposal))
                else:
                    session.push(proposal, wanted)
        for session, proposal in proposals:
            session.push(proposal, wanted)
        advance()
