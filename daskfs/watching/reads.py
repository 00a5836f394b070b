"""Bytes that this process has read of stores, as they are decoded: counted where they are read."""

from __future__ import annotations

import threading

from daskfs import interrupts


class Counter:
    """Adds up what several threads have read."""

    def __init__(self) -> None:
        self._lock, self.nbytes = threading.Lock(), 0

    def add(self, nbytes: int) -> None:
        """Count so many more."""
        with interrupts.held(), self._lock:
            self.nbytes += nbytes


READ = Counter()
