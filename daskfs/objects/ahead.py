"""Parts of objects that are asked for before they are needed, so that nobody waits for one request after the other.

How many are asked for at once follows from what waiting shows: it doubles whenever a part is waited for, up to what
memory allows, and falls by one where none was for long.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import NamedTuple

from daskfs import interrupts
from daskfs.objects.path import ObjectPath
from daskfs.objects.requests import MOST_AT_ONCE, Transient, answered, begun

THREAD_NBYTES = 24 << 20
"""Of parts that have been asked for, and that are kept, for each thread that reads: six tiles of 4 MiB."""
AHEAD_NBYTES = 2 * THREAD_NBYTES
"""What a task may hold: one thread works while another reads ahead."""
_CALM = 64
"""Parts that were there when they were wanted, one after the other, before fewer are asked for at once."""


_TRIES_WHOLE = 4
"""Of parts that fail their checksum: damaged on their way, or where they lie."""

Check = Callable[[memoryview], bool]


class Part(NamedTuple):
    """Consecutive bytes of an object."""

    path: ObjectPath
    start: int = 0
    nbytes: int | None = None
    """None: all of it."""
    most_nbytes: int = 0
    """How many these may be."""
    version: str = ""
    """Of what it is a part: objects of one address may be written again."""


class Shelf:
    """What one thread has asked for, and what it has lately used.

    Parameters
    ----------
    most_nbytes : int
        Of all parts together, but for one that is larger than that by itself.
    """

    def __init__(self, most_nbytes: int = THREAD_NBYTES) -> None:
        self.most_nbytes, self.held_nbytes = most_nbytes, 0
        self._parts: OrderedDict[Part, Future[tuple[memoryview, bool]]] = OrderedDict()
        self._untaken: set[Part] = set()
        self._wanted: deque[Part] = deque()
        self._check: Check | None = None
        self._n_ahead, self._n_calm = 4, 0
        self._taken: Part | None = None

    def expect(self, parts: Iterable[Part], check: Check | None = None) -> None:
        """Say which parts are wanted next, in order; replaces what was said before.

        Parameters
        ----------
        parts : iterable of Part
        check : callable, optional
            Tells whether what came is whole; else it is asked for again, and after some tries returned as it is.
        """
        self._wanted, self._check = deque(parts), check
        self._untaken &= set(self._wanted)
        self._ask()

    def knows(self, parts: Iterable[Part]) -> bool:
        """Return whether all these parts are here, on their way or wanted."""
        return all(part in self._parts or part in self._wanted for part in parts)

    def take(self, part: Part, check: Check | None = None) -> memoryview:
        """Return a part.

        Raises
        ------
        FileNotFoundError
        StorageError
        """
        self._untaken.discard(part)
        self._taken = part
        if self._wanted and self._wanted[0] == part:
            self._wanted.popleft()
        future = self._parts.get(part)
        if future is None:
            self._make_room(part.most_nbytes, by_force=True)
            future = self._begin(part, check)
        elif not future.done():
            self._n_ahead, self._n_calm = min(MOST_AT_ONCE, 2 * self._n_ahead), 0
        elif (calm := self._n_calm + 1) < _CALM:
            self._n_calm = calm
        else:
            self._n_ahead, self._n_calm = max(2, self._n_ahead - 1), 0
        self._parts.move_to_end(part)
        self._ask()
        is_whole = False
        try:
            found, is_whole = interrupts.result_of(future)
        finally:
            if not is_whole:
                self._drop(part)
        return found

    def _begin(self, part: Part, check: Check | None) -> Future[tuple[memoryview, bool]]:
        self.held_nbytes += part.most_nbytes
        future = self._parts[part] = begun(_fetched, part, check)
        return future

    def _ask(self) -> None:
        """Ask for what is wanted next, as far as there is room."""
        while self._wanted and len(self._untaken) < self._n_ahead:
            part = self._wanted[0]
            if part not in self._parts:
                if not self._make_room(part.most_nbytes):
                    return
                self._begin(part, self._check)
            self._untaken.add(part)
            self._wanted.popleft()

    def _make_room(self, nbytes: int, *, by_force: bool = False) -> bool:
        """Let go of what was used longest ago, by force of what was asked for too; return whether there is room."""
        for spared in (self._untaken, set()) if by_force else (self._untaken,):
            for part in [part for part in self._parts if part not in spared and part != self._taken]:
                if self.held_nbytes + nbytes <= self.most_nbytes:
                    return True
                self._drop(part)
        return self.held_nbytes + nbytes <= self.most_nbytes

    def _drop(self, part: Part) -> None:
        future = self._parts.pop(part, None)
        if future is not None:
            future.cancel()
            self.held_nbytes -= part.most_nbytes
        self._untaken.discard(part)


_shelves = threading.local()


def shelf() -> Shelf:
    """Return this thread's."""
    found: Shelf | None = getattr(_shelves, "shelf", None)
    if found is None:
        found = _shelves.shelf = Shelf()
    return found


def _fetched(part: Part, check: Check | None) -> tuple[memoryview, bool]:
    """Return a part, and whether it is whole."""
    n_left = _TRIES_WHOLE

    def once() -> tuple[memoryview, bool]:
        nonlocal n_left
        found, n_left = part.path.fetch(part.start, part.nbytes), n_left - 1
        is_whole = check is None or check(found)
        if n_left and not is_whole:
            raise Transient("what came is not what was written")
        return found, is_whole

    return answered(once, str(part.path))
