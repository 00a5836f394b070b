"""Parts of objects that are asked for before they are needed, so that nobody waits for one request after the other.

How many are asked for at once follows from what waiting shows: it doubles whenever a part is waited for, up to what
memory allows, and falls by one where none was for long.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

from daskfs import interrupts
from daskfs.objects.cache import Cache
from daskfs.objects.path import ObjectPath
from daskfs.objects.requests import MOST_AT_ONCE, Transient, answered, begun, whole_setting

ROOM_MIB = 44
"""Of parts that have been asked for, and that are kept, by all threads of a process: ten tiles of 4 MiB and a rest."""
TAKEN_FOR_ROOM = 96 / 44
"""What a process takes for each byte of that: buffers of connections, what the allocator keeps; measured."""
KEPT_NBYTES = 16 << 20
"""Of parts that were used and may be used again, of each thread."""
_CALM = 64
"""Parts that were there when they were wanted, one after the other, before fewer are asked for at once."""


_IDLE = 4
"""Parts that each thread has taken, on average, since one that is idle has taken any."""
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
    cache: Cache | None = None
    """Where it is kept once it has been fetched."""

    @property
    def kept_as(self) -> str:
        """Its name in the cache."""
        return hashlib.sha256(f"{self.path.root}/{self.path.key}:{self.start}".encode()).hexdigest()[:40]

    @property
    def is_kept(self) -> bool:
        """Whether it lies on this machine."""
        return self.cache is not None and self.cache.holds(self.kept_as)


class Room:
    """Bytes that the shelves of a process share, and the lock under which these are looked at and changed."""

    def __init__(self, most_nbytes: int = ROOM_MIB << 20) -> None:
        self.most_nbytes, self.held_nbytes = most_nbytes, 0
        self.lock = threading.RLock()  # a shelf may be collected, and give back, while another one takes
        self.shelves: weakref.WeakSet[Shelf] = weakref.WeakSet()
        self.n_taken = 0
        """Parts, by all threads."""

    def has(self, nbytes: int) -> bool:
        """Return whether there is room for so many more."""
        return self.held_nbytes + nbytes <= self.most_nbytes

    def first_of(self, parts: list[Part]) -> list[Part]:
        """Return the parts that are held on to: all, or of too many the first, and others come and go beside them."""
        nbytes = [*accumulate(part.most_nbytes for part in parts)]
        if not parts or nbytes[-1] <= self.most_nbytes:
            return parts
        return parts[: bisect_right(nbytes, 3 * self.most_nbytes // 4)]

    def take(self, held: list[int], nbytes: int) -> None:
        """Count bytes, less where they are given back; `held` is the count of a shelf."""
        with interrupts.held(), self.lock:
            self.held_nbytes += nbytes
            held[0] += nbytes

    def give_back(self, held: list[int]) -> None:
        """Forget a shelf whose thread has ended."""
        self.take(held, -held[0])

    def idle(self) -> list[Shelf]:
        """Return the shelves from which nothing was taken for long, the longest first."""
        since = self.n_taken - _IDLE * len(self.shelves)
        return sorted((one for one in self.shelves if one.last_taken < since), key=lambda one: one.last_taken)


@cache
def _room_of_process() -> Room:
    return Room(whole_setting("DASKFS_AHEAD_MIB", ROOM_MIB) << 20)


def ahead_nbytes() -> int:
    """Return what a process that reads object stores takes for requests that are on their way.

    Raises
    ------
    ConfigError
        DASKFS_AHEAD_MIB is no whole number.
    """
    return int(TAKEN_FOR_ROOM * _room_of_process().most_nbytes)


class Shelf:
    """What one thread has asked for, and what it has lately used.

    Parameters
    ----------
    room : Room, optional
        Shared with other threads; by default that of the process. It is exceeded by what is waited for alone.
    """

    def __init__(self, room: Room | None = None) -> None:
        self._held = [0]
        self._room = room or _room_of_process()
        weakref.finalize(self, self._room.give_back, self._held).atexit = False
        self._room.shelves.add(self)
        self.last_taken = self._room.n_taken
        self._parts: OrderedDict[Part, Future[tuple[memoryview, bool]]] = OrderedDict()
        self._untaken: set[Part] = set()
        self._present: frozenset[Part] = frozenset()
        self._wanted: deque[Part] = deque()
        self._check: Check | None = None
        self._n_ahead, self._n_calm = 4, 0
        self._taken: Part | None = None
        self._awaited: Part | None = None
        self.passed: dict[Any, Any] = {}
        """What was read last, by whoever asks ahead."""

    def expect(self, parts: Iterable[Part], check: Check | None = None, present: Iterable[Part] = ()) -> None:
        """Say which parts are wanted next, in order; replaces what was said before.

        Parameters
        ----------
        parts : iterable of Part
        present : iterable of Part
            Those of them that are read now and again at once, for a few rows more: they are not let go of for what
            comes later, or not all of them where there is no room.
        check : callable, optional
            Tells whether what came is whole; else it is asked for again, and after some tries returned as it is.
        """
        with interrupts.held(), self._room.lock:
            self._wanted = deque(part for part in parts if part in self._parts or not part.is_kept)
            self._check, self._present = check, frozenset(self._room.first_of([*present]))
            self._untaken &= set(self._wanted)
            self._ask()

    def knows(self, parts: Iterable[Part]) -> bool:
        """Return whether all these parts are here, on their way, wanted, or kept on this machine."""
        with interrupts.held(), self._room.lock:
            return all(part in self._parts or part in self._wanted or part.is_kept for part in parts)

    def has(self, part: Part) -> bool:
        """Return whether a part is here or on its way."""
        with interrupts.held(), self._room.lock:
            return part in self._parts

    def take(self, part: Part, check: Check | None = None) -> memoryview:
        """Return a part.

        Raises
        ------
        FileNotFoundError
        StorageError
        """
        with interrupts.held(), self._room.lock:
            future = self._asked_for(part, check)
        is_whole = False
        try:
            found, is_whole = interrupts.result_of(future)
        finally:
            with interrupts.held(), self._room.lock:
                self._awaited = None
                if not is_whole:
                    self._drop(part)
        return found

    def _asked_for(self, part: Part, check: Check | None) -> Future[tuple[memoryview, bool]]:
        """Return a part that is here or on its way, and ask for those behind it."""
        self._room.n_taken += 1
        self.last_taken = self._room.n_taken
        self._untaken.discard(part)
        self._taken = self._awaited = part
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
        return future

    def _begin(self, part: Part, check: Check | None) -> Future[tuple[memoryview, bool]]:
        self._room.take(self._held, part.most_nbytes)
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
        for other in self._room.idle() if not self._room.has(nbytes) else ():
            if other is not self:
                other.clear()
        kept = self._untaken | self._present | {self._taken}
        used = [part for part in self._parts if part not in kept]
        kept_nbytes = sum(part.most_nbytes for part in used)
        for part in used:
            if self._room.has(nbytes) and kept_nbytes <= KEPT_NBYTES:
                break
            kept_nbytes -= part.most_nbytes
            self._drop(part)
        for part in [*self._untaken, *(self._present & self._parts.keys())] if by_force else ():
            if self._room.has(nbytes):
                break
            self._drop(part)
        return self._room.has(nbytes)

    def clear(self) -> None:
        """Let go of everything, for others; what was wanted is asked for again when somebody takes it."""
        for part in list(self._parts):
            if part != self._awaited:
                self._drop(part)

    def _drop(self, part: Part) -> None:
        future = self._parts.pop(part, None)
        if future is not None:
            future.cancel()
            self._room.take(self._held, -part.most_nbytes)
        self._untaken.discard(part)


_shelves = threading.local()


_left: list[Shelf] = []
"""Those of threads that have ended: tasks read in threads of their own, and the next goes on where the last one was."""


class _Holder:
    """What goes when a thread ends."""

    def __init__(self) -> None:
        try:
            self.shelf = _left.pop()
        except IndexError:
            self.shelf = Shelf()
        weakref.finalize(self, _left.append, self.shelf).atexit = False


def shelf() -> Shelf:
    """Return this thread's."""
    found: _Holder | None = getattr(_shelves, "holder", None)
    if found is None:
        found = _shelves.holder = _Holder()
    return found.shelf


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

    found, is_whole = answered(once, str(part.path))
    if part.cache is not None and is_whole:
        part.cache.keep(part.kept_as, found)
    return found, is_whole
