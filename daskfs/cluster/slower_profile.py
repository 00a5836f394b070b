"""What a worker that others have started notes of itself, as long as we use it: as little as one of ours."""

from __future__ import annotations

from typing import Any

from distributed import WorkerPlugin

from daskfs.cluster.settings import PROFILE_CYCLE_S


class SlowerProfile(WorkerPlugin):
    """Has workers begin a new record of where their time goes as seldom as ours do: see `PROFILE_CYCLE_S`."""

    name = "daskfs-slower-profile"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Begin."""
        self._cycle = worker.periodic_callbacks.get("profile-cycle")
        if self._cycle is not None:
            self._before_ms = self._cycle.callback_time
            self._cycle.callback_time = max(self._before_ms, 1000.0 * PROFILE_CYCLE_S)

    def teardown(self, worker: Any) -> None:
        """Leave the worker as it was."""
        if self._cycle is not None:
            self._cycle.callback_time = self._before_ms
