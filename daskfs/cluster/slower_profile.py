"""What a worker that others have started notes of itself, as long as we use it: as little as one of ours."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from distributed import WorkerPlugin

from daskfs.cluster.settings import PROFILE_CYCLE_S


class _Used(NamedTuple):
    """By how many runs a worker is used, and how often it began a new record before."""

    n_runs: int
    before_ms: float


_USED: WeakKeyDictionary[Any, _Used] = WeakKeyDictionary()


class SlowerProfile(WorkerPlugin):
    """Has workers begin a new record of where their time goes as seldom as ours do: see `PROFILE_CYCLE_S`.

    Each run has one of its own, and the last to leave a worker leaves it as it was.
    """

    def __init__(self) -> None:
        self.name = f"daskfs-slower-profile-{uuid.uuid4().hex}"

    def setup(self, worker: Any) -> None:
        """Begin."""
        cycle = worker.periodic_callbacks.get("profile-cycle")
        if cycle is not None:
            used = _USED.get(worker, _Used(0, cycle.callback_time))
            _USED[worker] = used._replace(n_runs=used.n_runs + 1)
            cycle.callback_time = max(used.before_ms, 1000.0 * PROFILE_CYCLE_S)

    def teardown(self, worker: Any) -> None:
        """Leave."""
        used = _USED.pop(worker, None)
        if used is None:
            return
        if used.n_runs > 1:
            _USED[worker] = used._replace(n_runs=used.n_runs - 1)
        else:
            worker.periodic_callbacks["profile-cycle"].callback_time = used.before_ms
