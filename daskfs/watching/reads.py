"""Counter of decoded bytes that this process has read from stores."""

from __future__ import annotations

import threading

from daskfs import interrupts


class Counter:
    """Thread-safe sum of read bytes."""

    def __init__(self) -> None:
        self._lock, self.nbytes = threading.Lock(), 0

    def add(self, nbytes: int) -> None:
        """Add a number of bytes."""
        with interrupts.held(), self._lock:
            self.nbytes += nbytes


READ = Counter()
