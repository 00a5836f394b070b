"""Whether this process is compiling a kernel now, for whoever waits for it."""

from __future__ import annotations

import sys


def is_compiling() -> bool:
    """Return whether another thread has numba's compiler; what is not loaded compiles nothing."""
    module = sys.modules.get("numba.core.compiler_lock")
    if module is None:
        return False
    lock = module.global_compiler_lock._lock
    if lock.acquire(blocking=False):
        lock.release()
        return False
    return True
