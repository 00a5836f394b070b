"""Which process holds a folder: what a lock file says, and whether its writer still runs."""

from __future__ import annotations

import os
import socket

import psutil


def this_process() -> dict[str, int | float | str]:
    """Return what a lock file of this process holds: pid, host and start time (seconds since the epoch)."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": psutil.Process().create_time()}


def is_alive(pid: int, started: float) -> bool:
    """Tell whether the process of this host that wrote a lock still runs, and its number was not given to another."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - started) < 2.0
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
