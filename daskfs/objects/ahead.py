"""Prefetches parts of objects, so that readers do not wait for one request after the other.

The number of simultaneous requests is adapted: it doubles whenever a reader has to wait, up to what memory allows, and
decreases by one after a long time without waiting.
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

BUDGET_MIB = 44
"""Memory for requested and cached parts, for all threads of a process: ten tiles of 4 MiB, and some more."""
MEMORY_PER_BYTE = 96 / 44
"""Measured memory of a process per byte of these: buffers of connections, overhead of the allocator."""
KEPT_NBYTES = 16 << 20
"""Memory, per thread, for parts that have been used and may be used again."""
_CALM = 64
"""Number of parts read without waiting before the number of requests is reduced."""


_IDLE = 4
"""A cache is idle if each thread has taken this many parts, on average, since the last one was taken from it."""
_TRIES_WHOLE = 4
"""Number of tries for a part that fails its checksum, damaged in transit or in the object store."""

Check = Callable[[memoryview], bool]


class Part(NamedTuple):
    """A range of bytes of an object."""

    path: ObjectPath
    start: int = 0
    nbytes: int | None = None
    """None: to the end."""
    most_nbytes: int = 0
    """Upper bound for `nbytes`."""
    version: str = ""
    """Version of the store: an address may be overwritten."""
    cache: Cache | None = None
    """Cache on disk for fetched parts."""

    @property
    def kept_as(self) -> str:
        """Name in the cache on disk."""
        return hashlib.sha256(f"{self.path.root}/{self.path.key}:{self.start}".encode()).hexdigest()[:40]

    @property
    def is_kept(self) -> bool:
        """Whether it is in the cache on disk."""
        return self.cache is not None and self.cache.holds(self.kept_as)


class MemoryBudget:
    """The memory shared by the prefetch caches of a process, with the lock that protects them."""

    def __init__(self, most_nbytes: int = BUDGET_MIB << 20) -> None:
        self.most_nbytes, self.held_nbytes = most_nbytes, 0
        self.lock = threading.RLock()  # a cache may be garbage-collected, and release memory, while another one takes
        self.caches: weakref.WeakSet[PrefetchCache] = weakref.WeakSet()
        self.n_taken = 0
        """Number of parts taken by all threads."""

    def has(self, nbytes: int) -> bool:
        """Return whether `nbytes` more bytes are available."""
        return self.held_nbytes + nbytes <= self.most_nbytes

    def first_of(self, parts: list[Part]) -> list[Part]:
        """Return the parts to hold on to: all, or, if they are too many, the first ones, leaving memory for others."""
        nbytes = [*accumulate(part.most_nbytes for part in parts)]
        if not parts or nbytes[-1] <= self.most_nbytes:
            return parts
        return parts[: bisect_right(nbytes, 3 * self.most_nbytes // 4)]

    def take(self, held: list[int], nbytes: int) -> None:
        """Add to the used bytes (negative: release); `held` is the count of a cache."""
        with interrupts.held(), self.lock:
            self.held_nbytes += nbytes
            held[0] += nbytes

    def give_back(self, held: list[int]) -> None:
        """Release the memory of a cache whose thread has ended."""
        self.take(held, -held[0])

    def idle(self) -> list[PrefetchCache]:
        """Return the idle caches, the longest idle first."""
        since = self.n_taken - _IDLE * len(self.caches)
        return sorted((one for one in self.caches if one.last_taken < since), key=lambda one: one.last_taken)


@cache
def _budget_of_process() -> MemoryBudget:
    return MemoryBudget(whole_setting("DASKFS_AHEAD_MIB", BUDGET_MIB) << 20)


def ahead_nbytes() -> int:
    """Return the memory of a process for prefetched objects, in bytes.

    Raises
    ------
    ConfigError
        DASKFS_AHEAD_MIB is not an integer.
    """
    return int(MEMORY_PER_BYTE * _budget_of_process().most_nbytes)


class PrefetchCache:
    """The parts that one thread has requested or recently used.

    Parameters
    ----------
    budget : MemoryBudget, optional
        Memory shared with other threads; by default that of the process. Only a part being waited for may exceed it.
    """

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self._held = [0]
        self._budget = budget or _budget_of_process()
        weakref.finalize(self, self._budget.give_back, self._held).atexit = False
        self._budget.caches.add(self)
        self.last_taken = self._budget.n_taken
        self._parts: OrderedDict[Part, Future[tuple[memoryview, bool]]] = OrderedDict()
        self._untaken: set[Part] = set()
        self._present: frozenset[Part] = frozenset()
        self._wanted: deque[Part] = deque()
        self._check: Check | None = None
        self._n_ahead, self._n_calm = 4, 0
        self._taken: Part | None = None
        self._awaited: Part | None = None
        self.passed: dict[Any, Any] = {}
        """The last read for each array, recorded by the code that prefetches."""

    def expect(self, parts: Iterable[Part], check: Check | None = None, present: Iterable[Part] = ()) -> None:
        """Set the parts that will be needed next, in order; replaces the previous ones.

        Parameters
        ----------
        parts : iterable of Part
        present : iterable of Part
            Those of the parts that are read now and again at once, for a few more rows: they are not discarded for
            later parts, unless memory is too small for all.
        check : callable, optional
            Returns whether a part is intact; otherwise it is requested again, and after some tries returned as it is.
        """
        with interrupts.held(), self._budget.lock:
            self._wanted = deque(part for part in parts if part in self._parts or not part.is_kept)
            self._check, self._present = check, frozenset(self._budget.first_of([*present]))
            self._untaken &= set(self._wanted)
            self._ask()

    def knows(self, parts: Iterable[Part]) -> bool:
        """Return whether each of these parts is available, requested, expected, or in the cache on disk."""
        with interrupts.held(), self._budget.lock:
            return all(part in self._parts or part in self._wanted or part.is_kept for part in parts)

    def has(self, part: Part) -> bool:
        """Return whether a part is available or requested."""
        with interrupts.held(), self._budget.lock:
            return part in self._parts

    def take(self, part: Part, check: Check | None = None) -> memoryview:
        """Return a part.

        Raises
        ------
        FileNotFoundError
        StorageError
        """
        with interrupts.held(), self._budget.lock:
            future = self._asked_for(part, check)
        is_whole = False
        try:
            found, is_whole = interrupts.result_of(future)
        finally:
            with interrupts.held(), self._budget.lock:
                self._awaited = None
                if not is_whole:
                    self._drop(part)
        return found

    def _asked_for(self, part: Part, check: Check | None) -> Future[tuple[memoryview, bool]]:
        """Return the future of a part, and request the parts after it."""
        self._budget.n_taken += 1
        self.last_taken = self._budget.n_taken
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
        self._budget.take(self._held, part.most_nbytes)
        future = self._parts[part] = begun(_fetched, part, check)
        return future

    def _ask(self) -> None:
        """Request the expected parts, as far as memory allows."""
        while self._wanted and len(self._untaken) < self._n_ahead:
            part = self._wanted[0]
            if part not in self._parts:
                if not self._make_room(part.most_nbytes):
                    return
                self._begin(part, self._check)
            self._untaken.add(part)
            self._wanted.popleft()

    def _make_room(self, nbytes: int, *, by_force: bool = False) -> bool:
        """Discard the least recently used parts, by force also requested ones; return whether memory suffices."""
        for other in self._budget.idle() if not self._budget.has(nbytes) else ():
            if other is not self:
                other.clear()
        kept = self._untaken | self._present | {self._taken}
        used = [part for part in self._parts if part not in kept]
        kept_nbytes = sum(part.most_nbytes for part in used)
        for part in used:
            if self._budget.has(nbytes) and kept_nbytes <= KEPT_NBYTES:
                break
            kept_nbytes -= part.most_nbytes
            self._drop(part)
        for part in [*self._untaken, *(self._present & self._parts.keys())] if by_force else ():
            if self._budget.has(nbytes):
                break
            self._drop(part)
        return self._budget.has(nbytes)

    def clear(self) -> None:
        """Discard everything for the benefit of other threads; expected parts are requested again when taken."""
        for part in list(self._parts):
            if part != self._awaited:
                self._drop(part)

    def _drop(self, part: Part) -> None:
        future = self._parts.pop(part, None)
        if future is not None:
            future.cancel()
            self._budget.take(self._held, -part.most_nbytes)
        self._untaken.discard(part)


_caches = threading.local()


_left: list[PrefetchCache] = []
"""Caches of threads that have ended: tasks run in new threads, and the next one continues where the last one was."""


class _Holder:
    """Returns the cache to `_left` when its thread ends."""

    def __init__(self) -> None:
        try:
            self.cache = _left.pop()
        except IndexError:
            self.cache = PrefetchCache()
        weakref.finalize(self, _left.append, self.cache).atexit = False


def prefetch_cache() -> PrefetchCache:
    """Return the cache of this thread."""
    found: _Holder | None = getattr(_caches, "holder", None)
    if found is None:
        found = _caches.holder = _Holder()
    return found.cache


def _fetched(part: Part, check: Check | None) -> tuple[memoryview, bool]:
    """Return a part, and whether it is intact."""
    n_left = _TRIES_WHOLE

    def once() -> tuple[memoryview, bool]:
        nonlocal n_left
        found, n_left = part.path.fetch(part.start, part.nbytes), n_left - 1
        is_whole = check is None or check(found)
        if n_left and not is_whole:
            raise Transient("the received data fail their checksum")
        return found, is_whole

    found, is_whole = answered(once, str(part.path))
    if part.cache is not None and is_whole:
        part.cache.keep(part.kept_as, found)
    return found, is_whole
