"""Interrupts (Ctrl-C, a job queue's "time is up") cut short neither kernels nor what must be whole, and are never lost.

Python runs the handler of a signal between any two of its instructions, also of those by which numba makes Python
objects of what a kernel returns: a KeyboardInterrupt there ends the interpreter or becomes a SystemError. And while a
kernel runs, no handler does. So while a `guard` is open (every fit and every command opens one), signals come here:

- In a kernel a signal waits until it has returned, and is raised in place of the result. Kernels that may take long
  ask in their outer loops whether to return at once (`STOP`, see `daskfs.kernels.jit.is_stopped`): a thread
  hears of signals while kernels run.
- In `held`, a signal waits until what must be done whole is done: a folder gets its name, a cluster starts, a lock that
  other threads take is left again. The locks of `threading`, `queue` and `concurrent.futures` are Python code: what is
  raised there leaves a lock taken for ever. So the main thread touches these in `held` alone, at most `_POLL_S` at a
  time (`is_done`, `result_of`, `Pool`), or lets another thread wait for them (`call_aside`).
- Anywhere else it is raised at once, as ever. Where that is swallowed (a library in C that calls Python, a destructor)
  or becomes another error (an import that was cut short), it is raised again by `check` and at the guard's end.

Signals reach the main thread alone; in all others nothing of this has an effect. Handlers of the user's own are called
at the same places, and are back in place when the guard ends.
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
"""The thread whose kernels are to return at once, or 0; kernels read it where it lies."""

GRACE_S = 10.0
"""For how long after an interrupt a command, which puts things in order, ignores others."""

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2")
_MARK = 0
_POLL_S = 0.1

T = TypeVar("T")
Handler = Callable[[int, FrameType | None], Any]


class _State:
    """What the main thread does, and what has come meanwhile; this is replaced where a guard begins and ends."""

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
    """A thread that hears of signals while the main thread is in a kernel."""

    def __init__(self) -> None:
        self._heard, self.ear = os.pipe()
        os.set_blocking(self.ear, False)
        self._marks: SimpleQueue[None] = SimpleQueue()
        self.next_ear = -1  # of an event loop, for example
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
        """Wait until what came was heard: a signal must not stop a kernel that is called after it was raised."""
        with suppress(OSError, Empty):  # a full pipe: signals come faster than they are read
            os.write(self.ear, bytes([_MARK]))
            self._marks.get(timeout=1.0)


_thread = threading.main_thread().ident
_state = _State()
_handlers: dict[int, Any] = {}
"""Those that stood where `_arrived` does."""
_watcher: _Watcher | None = None


def is_reached() -> bool:
    """Return whether signals reach this thread."""
    return threading.get_ident() == _thread


@contextmanager
def guard(*, command: bool = False) -> Iterator[None]:
    """Have signals handled as the module says.

    Parameters
    ----------
    command : bool
        A command, which ends when it is interrupted: SIGTERM is an interrupt as well, and others that come within
        `GRACE_S` are ignored, while things are put in order.

    Raises
    ------
    KeyboardInterrupt
        It was swallowed inside, or became another error.
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
    """Have signals wait until what is inside is done."""
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
    """Raise an interrupt again that was swallowed.

    Raises
    ------
    KeyboardInterrupt
    """
    if _state.interrupted_at is not None and not _state.is_concluded and is_reached():
        raise KeyboardInterrupt


@contextmanager
def concluding() -> Iterator[None]:
    """Say that a command has done what it is for as soon as `conclude` is called inside."""
    _state.is_concluding = _state.is_command
    try:
        yield
    finally:
        _state.is_concluding = False


def conclude() -> None:
    """Say that a store or a run stands; a command that is `concluding` can be interrupted no longer."""
    _state.is_concluded = _state.is_concluding and is_reached()


def ignore() -> None:
    """Ignore interrupts from here on: the process ends, and what it has said stands."""
    if is_reached():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def call_aside(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Return ``function(*arguments, **options)``, called in a thread that an interrupt leaves behind.

    For code of others that runs for long, releases the GIL and cannot be stopped, or that waits in Python's locks. This
    thread waits in one call of C, which nothing leaves half-way.
    """
    if not is_reached():
        return function(*arguments, **options)
    ended: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
    context = copy_context()  # Dask finds the client there that is the current one

    def call() -> None:
        try:
            ended.put((True, context.run(function, *arguments, **options)))
        except BaseException as fault:
            ended.put((False, fault))

    with held():
        threading.Thread(target=call, name="daskfs-aside", daemon=True).start()
    while True:
        with suppress(Empty):  # a signal that another thread was given does not end the wait
            is_result, found = ended.get(timeout=_POLL_S)
            break
    if is_result:
        return found  # type: ignore[no-any-return]
    raise found


@contextmanager
def beside(
    function: Callable[[Callable[[float], bool]], None], name: str, at_most_s: float | None = None
) -> Iterator[None]:
    """Have a function called in a thread until the end of the block.

    Parameters
    ----------
    function : callable
        It takes another one, which waits for so many seconds and returns whether the end has come.
    name : str
        Of the thread.
    at_most_s : float, optional
        For how long the end waits for the function.
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
        ends.put(None)  # already here: what is raised before this line, the next one sets right
    finally:
        ends.put(None)
        if thread.ident is not None:
            call_aside(thread.join, at_most_s)


def is_done(future: Future[Any], within_s: float = math.inf) -> bool:
    """Wait for a future of a thread pool or an event loop; return whether it is done."""
    ends = time.monotonic() + within_s
    while True:
        with held():
            left = max(0.0, ends - time.monotonic())
            if future.done() or wait((future,), timeout=min(_POLL_S, left)).done:
                return True
        if left <= _POLL_S:
            return False


def result_of(future: Future[T]) -> T:
    """Return the result of a future of a thread pool or an event loop."""
    if not is_reached():
        return future.result()
    if not _state.is_open:
        with guard():
            return result_of(future)
    is_done(future)
    with held():
        return future.result()


class Pool(ThreadPoolExecutor):
    """A thread pool that an interrupt leaves whole; when it is shut down, it leaves off what was not begun."""

    def submit(self, function: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        """Begin ``function(*arguments, **options)``."""
        with held():
            return super().submit(function, *arguments, **options)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End the threads; an interrupt does not wait for what they do, and they end after it."""
        with held():
            super().shutdown(wait=False, cancel_futures=cancel_futures)
        if wait:
            call_aside(super().shutdown)


def call_kernel(kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return ``kernel(*arguments)``; signals wait for it."""
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
    """Raise what waits for a kernel that is not running yet, but being compiled.

    numba can be left between two functions: in the midst of one, what it knows of its own would be lost in part.
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
    """Raise what came in a kernel or in `held`, unless that is part of what is held itself."""
    while _state.waiting and not _state.n_held:
        _raise(*_state.waiting.pop(0))


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise an interrupt, or call the handler that the signal had before."""
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
    """Have the handlers in place.

    A signal may come between any two of these lines. `_arrived` does as the handler before it did wherever no guard is
    open, and both states are at hand: whichever handlers stand, nothing is half open.
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
        _state = closed  # already here: what is raised before this line, the next one sets right
    finally:
        _state = closed
        _uninstall()


def _install(state: _State) -> None:
    """Put the handlers in place; what is ignored, or ends the process without Python's doing, stays so."""
    for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
        before = signal.getsignal(number)
        if before != _arrived:  # else it was not taken away, for a signal came
            _handlers[number] = before
        is_end = state.is_command and number == signal.SIGTERM and _handlers[number] is signal.SIG_DFL
        if is_end or _handlers[number] is signal.default_int_handler:
            state.raising.add(number)
        if is_end or callable(_handlers[number]):
            signal.signal(number, _arrived)


def _listen() -> None:
    """Have the watcher hear of signals."""
    global _watcher
    _watcher = _watcher or _Watcher()
    ear = signal.set_wakeup_fd(_watcher.ear, warn_on_full_buffer=False)
    if ear != _watcher.ear:
        _watcher.next_ear = ear


def _uninstall() -> None:
    """Put things back as they were."""
    STOP.value = 0
    if _watcher is not None:
        with suppress(OSError, ValueError):  # the loop that heard of signals before has gone
            signal.set_wakeup_fd(_watcher.next_ear)
    for number, before in _handlers.items():
        if signal.getsignal(number) == _arrived:
            signal.signal(number, before)


def _forget() -> None:
    """Begin anew in a process that was forked, which has no watcher and is in no guard."""
    global _watcher, _state, _thread
    is_open, _state, _thread = _state.is_open, _State(), threading.get_ident()
    if is_open:
        _uninstall()
        signal.set_wakeup_fd(-1)
    _watcher = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
