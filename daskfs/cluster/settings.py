"""What is asked of Dask's workers, however they were started: to stay within what a plan promises."""

from __future__ import annotations

from typing import Any

PROFILE_CYCLE_S = 60
"""How often a worker begins a new record of where its time goes, of which it keeps 3,600. With Dask's default, each
second, a worker grows by megabytes a minute, for an hour."""

OF_WORKERS: dict[str, Any] = {
    # The plan keeps workers within their limit; Dask would otherwise spill and pause long before it.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 1.0,
    "distributed.worker.http.routes": [],  # tasks and logs, for everybody
    # What a process does while it waits: of 42 ms of CPU in a second 14 are left, of a scheduler and two workers.
    "distributed.worker.profile.interval": "100ms",
    "distributed.worker.profile.cycle": f"{PROFILE_CYCLE_S}s",
}
"""Dask's configuration of workers that we start."""


def as_environment() -> dict[str, str]:
    """Return the same as variables, from which Dask reads its configuration too.

    Examples
    --------
    >>> as_environment()["DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE"]
    '1.0'
    """
    return {f"DASK_{name.replace('.', '__').replace('-', '_').upper()}": str(is_) for name, is_ in OF_WORKERS.items()}
