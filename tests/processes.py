"""Processes that tests start, which end with the block that uses them."""

from __future__ import annotations

import subprocess


class Process(subprocess.Popen):
    """A process that is killed on leaving, where `subprocess.Popen` waits: for ever, once a test has failed."""

    def __exit__(self, *fault: object) -> None:
        self.kill()
        super().__exit__(*fault)
