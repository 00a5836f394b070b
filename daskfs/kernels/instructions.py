"""What kernels may say that is not Python: numba learns it in `daskfs.kernels.machine_code`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CHOICES: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
"""Of `chosen_by_type`: functions, and what chooses for them, until numba knows."""


def chosen_by_type(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have kernels call, in place of a function, what another chooses for the types of its arguments."""

    def keep(choose: Callable[..., Any]) -> Callable[..., Any]:
        CHOICES.append((function, choose))
        return choose

    return keep


def prefetch(array, index):  # type: ignore[no-untyped-def]
    """Ask the processor to bring ``array[index]`` near, without waiting for it; `index` must be within the array."""


def is_stopped() -> bool:
    """Return whether the kernel is to return at once: what it returns will not be seen, see `daskfs.interrupts`.

    To be asked in loops whose steps take microseconds or more, such that no second goes by without.
    """
    return False
