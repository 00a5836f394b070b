"""How often Python looks for circles of objects while numba is loaded and compiles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Let Python look for circles after 50,000 objects, not 700: what a compiler makes stays, and looking took a sixth.

    It takes 10 MiB more; without any collection it would be 130.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], 50_000) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
