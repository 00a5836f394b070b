"""Safe handling of interrupts (Ctrl-C, signals of a job queue): none is lost, none breaks a kernel or critical section.

Python runs signal handlers between any two of its instructions, including those with which numba converts the results
of a kernel to Python objects. A KeyboardInterrupt there crashes the interpreter or becomes a SystemError. While a
kernel runs, no handler runs. Therefore this module handles signals while a `guard` is open (every fit and every command
opens one):

- In a kernel, a signal waits until the kernel returns, and is raised instead of the result. Long kernels check in their
  outer loops whether to return early (`STOP`, see `daskfs.kernels.jit.is_stopped`); a thread receives the signals that
  come while kernels run.
- In `held`, a signal waits until a critical section is done, such as renaming a folder, starting a cluster or holding a
  lock that other threads use. The locks of `threading`, `queue` and `concurrent.futures` are Python code, and an
  exception raised there leaves a lock locked for ever. The main thread therefore uses them only within `held`, for at
  most `_POLL_S` at a time (`is_done`, `result_of`, `Pool`), or lets another thread wait for them (`call_aside`).
- Anywhere else it is raised at once, as usual. If it is swallowed (by a C library that calls Python, or a destructor)
  or converted to another error (by an interrupted import), `check` and the end of the guard raise it again.

Only the main thread receives signals; in other threads these functions have no effect. The user's own handlers are
called at the same points, and are restored when the guard ends.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar

STOP = ctypes.c_size_t(0)
"""Id of the thread whose kernels must return early, or 0; kernels read it at its address."""

GRACE_S = 10.0
"""Seconds after an interrupt during which a command, while it cleans up, ignores further interrupts."""

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2")
_MARK = 0
_POLL_S = 0.1

T = TypeVar("T")


class _State:
    """State of the main thread and its pending signals. It is replaced when a guard begins and ends."""

    def __init__(self, *, is_open: bool = False, is_command: bool = False) -> None:
        self.is_open, self.is_command = is_open, is_command
        self.n_held = 0
        self.in_kernel = False
        self.is_concluding = False
        self.is_concluded = False
        self.raising: set[int] = set()  # signals that become a KeyboardInterrupt
        self.waiting: list[tuple[int, FrameType | None]] = []
        self.interrupted_at: float | None = None


class _Watcher:
    """Thread that receives signals while the main thread is in a kernel."""

    def __init__(self) -> None:
        self._heard, self.ear = os.pipe()
        os.set_blocking(self.ear, False)
        self._marks: SimpleQueue[None] = SimpleQueue()
        self.next_ear = -1  # previous wakeup file descriptor, for example of an event loop
        threading.Thread(target=self._watch, name="daskfs-interrupts", daemon=True).start()

    def _watch(self) -> None:
        while True:
            for number in os.read(self._heard, 512):
                if number == _MARK:
                    self._marks.put(None)
                    continue
                if number in _state.raising and _state.in_kernel and not _state.n_held:
                    STOP.value = _thread or 0
                with suppress(OSError):
                    os.write(self.next_ear, bytes([number]))

    def catch_up(self) -> None:
        """Wait until all signals so far are processed: a signal must not stop a kernel called after it was raised."""
        with suppress(OSError, Empty):  # a full pipe: signals come faster than they are read
            os.write(self.ear, bytes([_MARK]))
            self._marks.get(timeout=1.0)


_thread = threading.main_thread().ident
_state = _State()
_handlers: dict[int, Any] = {}
"""Previous handlers, replaced by `_arrived`."""
_watcher: _Watcher | None = None


def is_reached() -> bool:
    """Return whether this thread receives signals."""
    return threading.get_ident() == _thread


@contextmanager
def guard(*, command: bool = False) -> Iterator[None]:
    """Handle signals as described in the module's docstring.

    Parameters
    ----------
    command : bool
        Whether this is a command, which ends when interrupted. Then SIGTERM is also an interrupt, and further
        interrupts within `GRACE_S` are ignored while the command cleans up.

    Raises
    ------
    KeyboardInterrupt
        An interrupt was swallowed inside or became another error.
    """
    if not is_reached():
        yield
        return
    with nullcontext() if _state.is_open else _opened(command):
        try:
            yield
            check()
        except Exception as fault:
            if _state.interrupted_at is None or _state.is_concluded:
                raise
            raise KeyboardInterrupt from fault


@contextmanager
def held() -> Iterator[None]:
    """Delay signals until the end of the block."""
    if not is_reached():
        yield
        return
    with nullcontext() if _state.is_open else _opened():
        _state.n_held += 1
        try:
            yield
        finally:
            _state.n_held -= 1
            _raise_waiting()


def check() -> None:
    """Raise a swallowed interrupt again.

    Raises
    ------
    KeyboardInterrupt
    """
    if _state.interrupted_at is not None and not _state.is_concluded and is_reached():
        raise KeyboardInterrupt


@contextmanager
def concluding() -> Iterator[None]:
    """Let `conclude`, if called inside, mark the command as done."""
    _state.is_concluding = _state.is_command
    try:
        yield
    finally:
        _state.is_concluding = False


def conclude() -> None:
    """Mark a store or run as complete. A command within `concluding` can then no longer be interrupted."""
    _state.is_concluded = _state.is_concluding and is_reached()


def ignore() -> None:
    """Ignore interrupts from now on, because the process is ending with its exit code."""
    if is_reached():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def call_aside(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Return ``function(*arguments, **options)``, called in a thread that is abandoned on an interrupt.

    This is for long-running third-party code that releases the GIL and cannot be stopped, or that waits for Python's
    locks. The calling thread waits in one C call, which a signal cannot leave in an inconsistent state.
    """
    if not is_reached():
        return function(*arguments, **options)
    ended: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
    context = copy_context()  # Dask finds the current client there

    def call() -> None:
        try:
            ended.put((True, context.run(function, *arguments, **options)))
        except BaseException as fault:
            ended.put((False, fault))

    with held():
        threading.Thread(target=call, name="daskfs-aside", daemon=True).start()
    while True:
        with suppress(Empty):  # a signal delivered to another thread does not end the wait
            is_result, found = ended.get(timeout=_POLL_S)
            break
    if is_result:
        return found  # type: ignore[no-any-return]
    raise found


@contextmanager
def beside(
    function: Callable[[Callable[[float], bool]], None], name: str, at_most_s: float | None = None
) -> Iterator[None]:
    """Run a function in a thread until the end of the block.

    Parameters
    ----------
    function : callable
        Takes a function that waits for the given number of seconds and returns whether the block has ended.
    name : str
        Name of the thread.
    at_most_s : float, optional
        Maximum number of seconds to wait for the function at the end.
    """
    ends: SimpleQueue[None] = SimpleQueue()

    def is_over(within_s: float) -> bool:
        with suppress(Empty):
            ends.get(timeout=within_s)
            return True
        return False

    thread = threading.Thread(target=function, args=(is_over,), name=name, daemon=True)
    try:
        with held():
            thread.start()
        yield
        ends.put(None)  # early, before a signal can be raised; on an exception, `finally` does the same
    finally:
        ends.put(None)
        if thread.ident is not None:
            call_aside(thread.join, at_most_s)


def is_done(future: Future[Any], within_s: float = math.inf) -> bool:
    """Wait for a future of a thread pool or event loop, and return whether it is done."""
    ends = time.monotonic() + within_s
    while True:
        with held():
            left = max(0.0, ends - time.monotonic())
            if future.done() or wait((future,), timeout=min(_POLL_S, left)).done:
                return True
        if left <= _POLL_S:
            return False


def result_of(future: Future[T]) -> T:
    """Return the result of a future of a thread pool or event loop."""
    if not is_reached():
        return future.result()
    if not _state.is_open:
        with guard():
            return result_of(future)
    is_done(future)
    with held():
        return future.result()


class Pool(ThreadPoolExecutor):
    """Thread pool that stays consistent on an interrupt, and cancels pending calls when it is shut down."""

    def submit(self, function: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        """Schedule ``function(*arguments, **options)``."""
        with held():
            return super().submit(function, *arguments, **options)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Stop the threads. An interrupt does not wait for running calls; their threads end later."""
        with held():
            super().shutdown(wait=False, cancel_futures=cancel_futures)
        if wait:
            call_aside(super().shutdown)


def call_kernel(kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return ``kernel(*arguments)``; signals wait until it returns."""
    if not is_reached():
        return kernel(*arguments)
    if not _state.is_open:
        with guard():
            return call_kernel(kernel, arguments)
    _state.in_kernel = True
    try:
        return kernel(*arguments)
    finally:
        _state.in_kernel = False
        _raise_waiting()


def raise_waiting() -> None:
    """Raise pending signals while a kernel is being compiled.

    Call this between the compilation of two functions. An exception within one would corrupt numba's internal state.
    """
    if is_reached():
        _raise_waiting()


def _arrived(number: int, frame: FrameType | None) -> None:
    """Handle a signal."""
    if _watcher is not None:
        _watcher.catch_up()
    if _state.in_kernel or _state.n_held:
        _state.waiting.append((number, frame))
    else:
        _raise(number, frame)


def _raise_waiting() -> None:
    """Raise signals that came in a kernel or in `held`, unless an outer `held` is still active."""
    while _state.waiting and not _state.n_held:
        _raise(*_state.waiting.pop(0))


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise an interrupt, or call the signal's previous handler."""
    STOP.value = 0
    if number not in _state.raising:
        before = _handlers[number]
        (before if callable(before) else signal.default_int_handler)(number, frame)
        return
    last, now = _state.interrupted_at, time.monotonic()
    if _state.is_concluded or (_state.is_command and last is not None and now - last < GRACE_S):
        return
    _state.interrupted_at = now
    _state.waiting = [other for other in _state.waiting if other[0] not in _state.raising]
    raise KeyboardInterrupt


@contextmanager
def _opened(command: bool = False) -> Iterator[None]:
    """Install the handlers until the end of the block.

    A signal may come between any two of these lines. Without an open guard, `_arrived` behaves like the previous
    handler, and both states are prepared first, so that every intermediate state is consistent.
    """
    global _state
    opened, closed = _State(is_open=True, is_command=command), _State()
    opened.n_held = 1  # until the watcher's thread has started
    _install(opened)
    _state = opened
    try:
        _listen()
        opened.n_held -= 1
        _raise_waiting()
        yield
        _state = closed  # early, before a signal can be raised; on an exception, `finally` does the same
    finally:
        _state = closed
        _uninstall()


def _install(state: _State) -> None:
    """Install the handlers. Signals that are ignored, or end the process without Python, stay unchanged."""
    for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
        before = signal.getsignal(number)
        if before != _arrived:  # else an interrupt prevented its removal
            _handlers[number] = before
        is_end = state.is_command and number == signal.SIGTERM and _handlers[number] is signal.SIG_DFL
        if is_end or _handlers[number] is signal.default_int_handler:
            state.raising.add(number)
        if is_end or callable(_handlers[number]):
            signal.signal(number, _arrived)


def _listen() -> None:
    """Direct signals to the watcher thread."""
    global _watcher
    _watcher = _watcher or _Watcher()
    ear = signal.set_wakeup_fd(_watcher.ear, warn_on_full_buffer=False)
    if ear != _watcher.ear:
        _watcher.next_ear = ear


def _uninstall() -> None:
    """Restore the previous handlers and the previous wakeup file descriptor."""
    STOP.value = 0
    if _watcher is not None:
        with suppress(OSError, ValueError):  # the event loop of the previous descriptor may be closed
            signal.set_wakeup_fd(_watcher.next_ear)
    for number, before in _handlers.items():
        if signal.getsignal(number) == _arrived:
            signal.signal(number, before)


def _forget() -> None:
    """Reset the state in a forked process, which has no watcher thread and is in no guard."""
    global _watcher, _state, _thread
    is_open, _state, _thread = _state.is_open, _State(), threading.get_ident()
    if is_open:
        _uninstall()
        signal.set_wakeup_fd(-1)
    _watcher = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
