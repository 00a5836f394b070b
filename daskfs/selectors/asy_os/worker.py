"""The worker of asynchronous online substitution, which processes blocks of columns.

Workers import this file, so it is light.
    3. receive features x_j from the pool
    4. read u_C from the central node
    5. u(t) = X_S(t) w_S(t)
    6. w_S(t) = w_S(t) - (eta / m) X_S(t)ᵀ ∂L/∂u_C
    7. w_j = -eta x_jᵀ ∂L/∂u_C
    8. S(t) = S(t) ∪ {j}
    9. where |S(t)| > s / q: drop the smallest weight
    13. push Δu(t) = X_S(t) w_S(t) - u(t)

Algorithm 3 of Yang, Fujimaki, Kusumura and Liu (KDD 2016), one block of features at a time. An engine of
`daskfs.selectors.online_substitution.engines` decides on the candidates, given what the other workers contribute to
u_C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from daskfs.matrix.base import Matrix
from daskfs.selectors.asy_os.node import Proposal, Reply, Share
from daskfs.selectors.online_substitution.columns import Columns, ColumnSettings, read_columns
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.online_substitution.engines.choose import make_engine
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.objective import Objective


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of all workers, without the data."""

    objective: Objective
    rule: Rule
    columns: ColumnSettings
    dtype: np.dtype
    """Dtype of columns in memory."""
    always: tuple[int, ...] = ()
    """Columns that are never dropped; they come first in a share."""


class SubstitutionWorker:
    """The columns of one worker, S(t), and their coefficients."""

    def __init__(self, settings: WorkerSettings, capacity: int) -> None:
        objective = settings.objective
        self.settings, self.capacity, self._number = settings, capacity, 0
        self.members = Members(capacity, objective.y.shape[-1], settings.dtype, objective.weight)
        self.engine = make_engine(self.members, objective.y, settings.rule, "gram", objective.settings)
        self._contribution = self._after = np.zeros(objective.y.shape)

    def take_back(self, matrix: Matrix, share: Share) -> None:
        """Take over a share: its columns are read again."""
        settings = self.settings
        self.members.n_members, self._number = 0, share.worker
        if len(share.columns):
            self.members.add(read_columns(matrix, share.columns, settings.columns, settings.objective.weight))
        self.members.n_fixed = int(np.isin(share.columns, settings.always).sum())
        self.engine.begin(share.coef.T)
        self._contribution = self.engine.contribution()

    def contribution(self) -> np.ndarray:
        """Return X_S(t) w_S(t), recomputed."""
        self._contribution = self.engine.contribution()
        return self._contribution

    def present(self, columns: Columns, reply: Reply) -> Proposal:
        """Let columns enter that pay, given the u_C of the reply, which includes this worker's contribution."""
        self.engine.keep()
        self._meet(reply)
        if len(reply.held):  # others hold them
            columns = replace(columns, scale=np.where(np.isin(columns.ids, reply.held), 0.0, columns.scale))
        self.engine.take(columns)
        return self._proposal(reply)

    def foresee(self, columns: Columns) -> None:
        """Compute now what is possible for columns that will probably be presented next."""
        self.engine.foresee(columns)

    def reconsider(self, reply: Reply) -> Proposal:
        """Fit the columns chosen last to a new u_C, which contains this worker's former contribution."""
        self._meet(reply)
        self.engine.minimise()
        return self._proposal(reply)

    def settle(self, is_accepted: bool) -> None:
        """Continue from the proposal, or from the state before it."""
        if is_accepted:
            self._contribution = self._after
        else:
            self.engine.revert()

    def holds(self) -> Share:
        """Return the columns held, and their coefficients."""
        k = self.members.n_members
        return Share(self._number, self.members.ids[:k].copy(), np.ascontiguousarray(self.engine.coef[..., :k].T))

    def _meet(self, reply: Reply) -> None:
        if reply.prediction is None:
            raise ValueError("expected u_C with the orders to work, found none")
        self.engine.meet(reply.prediction - self._contribution)

    def _proposal(self, reply: Reply) -> Proposal:
        self._after = self.engine.contribution()
        delta = self._after - self._contribution
        return Proposal(self.holds(), delta if delta.any() else None, reply.version)


def contribution_of(matrix: Matrix, settings: WorkerSettings, share: Share) -> np.ndarray:
    """Return the contribution of a share to u_C; its columns are read."""
    worker = SubstitutionWorker(settings, max(1, len(share.columns)))
    worker.take_back(matrix, share)
    return worker.contribution()
