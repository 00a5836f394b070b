"""Dask settings of workers, however they are started, so that they stay within the planned memory."""

from __future__ import annotations

from typing import Any

PROFILE_CYCLE_S = 60
"""Seconds between new profile records of a worker, which keeps 3,600 of them. With Dask's default of one second, a
worker grows by megabytes per minute for an hour."""

OF_WORKERS: dict[str, Any] = {
    # The plan keeps workers within their limit; Dask would otherwise spill and pause long before it.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 1.0,
    "distributed.worker.http.routes": [],  # they would show tasks and logs to everybody
    # Reduces the CPU time of an idle scheduler with two workers from 42 to 14 ms per second.
    "distributed.worker.profile.interval": "100ms",
    "distributed.worker.profile.cycle": f"{PROFILE_CYCLE_S}s",
}
"""Dask's configuration of workers that we start."""


def as_environment() -> dict[str, str]:
    """Return the settings as environment variables, which Dask also reads.

    Examples
    --------
    >>> as_environment()["DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE"]
    '1.0'
    """
    return {f"DASK_{name.replace('.', '__').replace('-', '_').upper()}": str(is_) for name, is_ in OF_WORKERS.items()}
