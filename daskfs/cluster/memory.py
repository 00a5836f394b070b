"""Peak memory of a process."""

from __future__ import annotations

import sys
from pathlib import Path


def peak_memory_nbytes() -> int:
    """Return the peak resident memory of this process in bytes.

    This is Linux's VmHWM, which counts from the start of the program, and ``getrusage`` elsewhere.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
