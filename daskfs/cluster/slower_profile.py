"""Reduce the profiling of workers that others have started, for as long as we use them."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from distributed import WorkerPlugin

from daskfs.cluster.settings import PROFILE_CYCLE_S


class _Used(NamedTuple):
    """Number of runs that use a worker, and the previous interval of its profile records."""

    n_runs: int
    before_ms: float


_USED: WeakKeyDictionary[Any, _Used] = WeakKeyDictionary()


class SlowerProfile(WorkerPlugin):
    """Make workers record profiles as rarely as our own workers: see `PROFILE_CYCLE_S`.

    Each run has its own plugin. When the last one is removed from a worker, the previous interval is restored.
    """

    def __init__(self) -> None:
        self.name = f"daskfs-slower-profile-{uuid.uuid4().hex}"

    def setup(self, worker: Any) -> None:
        """Set the interval of a worker."""
        cycle = worker.periodic_callbacks.get("profile-cycle")
        if cycle is not None:
            used = _USED.get(worker, _Used(0, cycle.callback_time))
            _USED[worker] = used._replace(n_runs=used.n_runs + 1)
            cycle.callback_time = max(used.before_ms, 1000.0 * PROFILE_CYCLE_S)

    def teardown(self, worker: Any) -> None:
        """Restore the interval of a worker after its last run."""
        used = _USED.pop(worker, None)
        if used is None:
            return
        if used.n_runs > 1:
            _USED[worker] = used._replace(n_runs=used.n_runs - 1)
        else:
            worker.periodic_callbacks["profile-cycle"].callback_time = used.before_ms
