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


STRIP = 4096
"""Bytes of each row that `add_integer_tile` multiplies: 4096 x 255 x 128 is far below 2³¹."""


def add_integer_tile(left, right, b, sums, a):  # type: ignore[no-untyped-def]
    """Add the dot products of the rows of `left` with rows b to b + 3 of `right` to ``sums[a : a + 4, b : b + 4]``.

    numba learns it in `daskfs.kernels.substitution.integer_tiles`, which is to be imported before.

    Parameters
    ----------
    left : ndarray of shape (4, STRIP), uint8
    right : ndarray of shape (>= b + 4, STRIP), int8
    b, a : int
    sums : ndarray of shape (>= a + 4, >= b + 4), float64
        Exact as long as they are below 2⁵³.
    """


def fold(data, begun, out):  # type: ignore[no-untyped-def]
    """Write to `out` fewer bytes than `data` has, with the same remainder; see `daskfs.kernels.checksum.folds`."""


def from_planes(planes, plane_nbytes, at, numbers, first):  # type: ignore[no-untyped-def]
    """Put 512 of `numbers` together, from `first` on, of bytes `at` to ``at + 63`` of planes of so many bytes.

    numba learns it in `daskfs.kernels.blocks.bit_planes`.
    """
