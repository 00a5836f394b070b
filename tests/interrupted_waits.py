"""Waits that are interrupted at each of their bytecodes in turn; run by a process of its own, which a hang ends.

    python -m tests.interrupted_waits prefetched

says how many bytecodes were tried. A trial traces the main thread's bytecodes, in our code and in Python's library, and
presses Ctrl-C before the one whose turn it is. The interrupt must be raised, once, and no thread may be left waiting.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from daskfs import interrupts
from daskfs.cluster.job_watch import JobWatch
from daskfs.cluster.presence import Presence
from daskfs.matrix.of_blocks import _PrefetchCache
from daskfs.matrix.streaming import prefetched
from daskfs.objects import requests
from daskfs.objects.ahead import MemoryBudget, Part, PrefetchCache
from daskfs.objects.stream import PIECE_NBYTES, ObjectStream
from daskfs.watching.reads import READ
from daskfs.watching.watch import Watch

WORK_S = 0.001
"""What is waited for: longer than it takes to begin to wait."""
PATIENCE_S = 20.0
"""After which a trial hangs."""
LASTING = ("MainThread", "daskfs-interrupts", "loop")


def work(_: Any = None) -> int:
    time.sleep(WORK_S)
    return 1


class Client:
    """An event loop that outlives the waits, as Dask's does."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="loop", daemon=True).start()
        self.loop.asyncio_loop = self.loop

    def check(self) -> None:
        """Have the loop answer."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(PATIENCE_S / 4)


def wait_without_a_guard() -> None:
    with interrupts.Pool(1) as pool:
        assert interrupts.result_of(pool.submit(work)) == 1


def wait_aside() -> None:
    assert interrupts.call_aside(work) == 1


def read_ahead() -> None:
    assert [*prefetched(work, range(2))] == [1, 1]


def leave_off_reading_ahead() -> None:
    results = prefetched(work, range(3))
    next(results)
    results.close()


def ask_for_many() -> None:
    assert requests.all_of(work, range(2)) == [1, 1]


class Stream(ObjectStream):
    def _fetched(self, start: int, stop: int) -> memoryview:
        time.sleep(WORK_S)
        return memoryview(bytes(stop - start))


def read_a_stream() -> None:
    with Stream(None, "key", "an object", 2 * PIECE_NBYTES, "") as stream:
        assert len(stream.read(PIECE_NBYTES)) == PIECE_NBYTES


class Object:
    root, key = "memory://", "key"

    def fetch(self, start: int, nbytes: int) -> memoryview:
        time.sleep(WORK_S)
        return memoryview(bytes(nbytes))


OBJECT: Any = Object()


def take_parts() -> None:
    cache, parts = PrefetchCache(MemoryBudget()), [Part(OBJECT, start, 8, 8) for start in (0, 8)]
    cache.expect(parts)
    assert len(cache.take(parts[0])) == 8


def read_blocks() -> None:
    def block() -> np.ndarray:
        time.sleep(WORK_S)
        return np.zeros((2, 2))

    cache = _PrefetchCache([block] * 3, "rows", 1)
    try:
        assert cache[0].shape == (2, 2)
    finally:
        cache.close()


def ask_the_scheduler(presence: Presence) -> None:
    presence.awaited(asyncio.sleep(WORK_S))


def watch_a_run() -> None:
    with Watch().beating():
        READ.add(1)


def watch_jobs() -> None:
    watch: Any = JobWatch("slurm", Path(), 1, lambda text: None)
    watch._look = work
    with watch.watching(None, None):
        pass


class Trial:
    """Presses Ctrl-C before the first bytecode that was not tried yet.

    Bytecodes are told apart by the call that leads to them; those of loops count once.
    """

    def __init__(self, tried: set[tuple[int, int]]) -> None:
        self.tried, self.is_pressed, self.is_swallowed, self.where = tried, False, False, ""

    def trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        caller = frame.f_back
        way = hash((frame.f_code, caller and (caller.f_code, caller.f_lasti)))
        frame.f_trace_opcodes = True

        def within(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            place = (way, frame.f_lasti)
            if event == "opcode" and place not in self.tried and not self.is_pressed:
                self.tried.add(place)
                self.is_pressed = True
                self.where = f"{frame.f_code.co_qualname}, line {frame.f_lineno}"
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
            return within

        return within

    def swallow(self, unraisable: Any) -> None:
        """Note an interrupt that was raised in a destructor, where Python lets none out."""
        self.is_swallowed |= unraisable.exc_type is KeyboardInterrupt

    def is_raised_in(self, wait: Callable[[], None], guard: Callable[[], Any]) -> bool:
        sys.unraisablehook = self.swallow
        try:
            with guard():
                try:
                    sys.settrace(self.trace)
                    wait()
                finally:
                    sys.settrace(None)
        except KeyboardInterrupt:
            return True
        finally:
            sys.unraisablehook = sys.__unraisablehook__
        return False


def n_tried(wait: Callable[[], None], guard: Callable[[], Any], check: Callable[[], None]) -> int:
    """Interrupt a wait everywhere, and check after each time; return the number of places."""
    tried: set[tuple[int, int]] = set()
    while True:
        faulthandler.dump_traceback_later(PATIENCE_S, exit=True)
        trial = Trial(tried)
        # In a generator: where Python itself is left in the midst of an exception, that goes with it.
        is_raised = next(trial.is_raised_in(wait, guard) for _ in range(1))
        assert is_raised or trial.is_swallowed or not trial.is_pressed, f"the interrupt of {trial.where} was lost"
        with interrupts.guard():
            interrupts.check()  # and is not raised again
        check()
        if requests._pool.cache_info().currsize:
            requests._pool().shutdown()
            requests._pool.cache_clear()
        ends = time.monotonic() + PATIENCE_S / 2
        while left := [one.name for one in threading.enumerate() if one.name not in LASTING]:
            assert time.monotonic() < ends, f"after that of {trial.where} these hang: {left}"
            time.sleep(WORK_S / 10)
            if time.monotonic() > ends - PATIENCE_S / 2 + 0.1:
                gc.collect()  # the traceback may be part of a cycle, and it refers to the pool
        faulthandler.cancel_dump_traceback_later()
        if not trial.is_pressed:
            return len(tried)


def main(name: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.filterwarnings("ignore", "coroutine 'sleep' was never awaited")
    client: Any = Client()
    waits = {"ask_the_scheduler": partial(ask_the_scheduler, Presence(client, print))}
    guard = nullcontext if name == "wait_without_a_guard" else interrupts.guard
    print(n_tried(waits.get(name, globals()[name]), guard, client.check), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
