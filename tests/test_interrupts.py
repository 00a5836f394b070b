"""Interrupts wait for kernels and for what must be whole; they are raised once, and never lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import daskfs
from daskfs import interrupts
from daskfs.kernels.linear.moments import moments

ROOT = str(Path(daskfs.__file__).parents[1])

WAITS = [
    *("wait_without_a_guard", "wait_aside", "read_ahead", "leave_off_reading_ahead", "ask_for_many", "read_a_stream"),
    *("take_parts", "read_blocks", "ask_the_scheduler", "watch_a_run", "watch_jobs"),
]

STORM = """
import faulthandler, random, signal
import numpy as np
faulthandler.enable()
signal.signal(signal.SIGINT, signal.default_int_handler)
from daskfs.kernels.linear.moments import moments
X, y, weight = np.zeros((3, 2)), np.zeros(3), np.ones(3)
moments(X, y, weight)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
rng, survived = random.Random(0), 0
while survived < 300:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.001 * rng.random())
        while True:
            moments(X, y, weight)
    except KeyboardInterrupt:
        survived += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(survived)
"""


@pytest.fixture(autouse=True)
def _interrupted_as_ever():
    """Whoever started the tests may ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    assert interrupts.STOP.value == 0


def press():
    """Press Ctrl-C."""
    signal.raise_signal(signal.SIGINT)


def swallow():
    """Press Ctrl-C where nothing can be raised, as while Arrow imports pandas."""
    with suppress(KeyboardInterrupt):
        press()


def interrupted(work, **options):
    """Check that some work under a guard is interrupted; return how it ended."""
    with pytest.raises(KeyboardInterrupt) as caught, interrupts.guard(**options):
        work()
    return caught.value


def run(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ROOT}, **options
    )


@pytest.mark.slow
def test_a_kernel_that_returns_a_record_survives_a_storm():
    """On 795344b the interpreter dies of SIGSEGV."""
    done = run(STORM)
    assert (done.returncode, done.stdout) == (0, "300\n"), done.stderr


def test_an_interrupt_in_a_kernel_is_raised_in_place_of_its_result():
    returned = []

    def kernel(x):
        press()
        returned.append(x)
        return x

    with pytest.raises(KeyboardInterrupt), interrupts.guard():
        returned.append(interrupts.call_kernel(kernel, (1,)) + 1)
    assert returned == [1]


def test_a_kernel_learns_of_an_interrupt_while_it_runs():
    asked = []

    def kernel():
        press()
        while not interrupts.STOP.value:  # as compiled code does, without the GIL
            asked.append(threading.get_ident())
        assert interrupts.STOP.value == threading.get_ident()

    with pytest.raises(KeyboardInterrupt), interrupts.guard():
        interrupts.call_kernel(kernel, ())


def test_kernels_of_other_threads_go_on():
    found = []

    def elsewhere():
        found.append(interrupts.call_kernel(moments, (np.eye(2), np.ones(2), np.ones(2))))
        with interrupts.guard(), interrupts.held():
            interrupts.check()
        found.append(interrupts.is_reached())

    thread = threading.Thread(target=elsewhere)

    def kernel():
        press()
        while not interrupts.STOP.value:
            pass
        thread.start()
        thread.join()

    with pytest.raises(KeyboardInterrupt), interrupts.guard():
        interrupts.call_kernel(kernel, ())
    assert len(found) == 2
    assert not found[1]


def test_what_is_held_is_done_whole():
    done = []

    def work():
        with interrupts.held():
            press()
            with interrupts.held():
                done.append("inner")
            interrupts.call_kernel(done.append, ("kernel",))
            assert interrupts.STOP.value == 0  # a kernel in there is not stopped either
            done.append("outer")
        done.append("afterwards")

    interrupted(work)
    assert done == ["inner", "kernel", "outer"]


def test_an_interrupt_that_was_swallowed_is_raised_again():
    steps = []

    def work():
        swallow()
        steps.append("swallowed")
        interrupts.check()
        steps.append("not reached")

    interrupted(work)
    assert steps == ["swallowed"]
    interrupted(swallow)  # at the latest where the guard ends
    with interrupts.guard():
        interrupts.check()  # over


def test_an_interrupt_that_became_another_error_is_one():
    def work():
        swallow()
        raise RuntimeError("half imported")

    assert str(interrupted(work).__cause__) == "half imported"
    with pytest.raises(RuntimeError, match="of its own"), interrupts.guard():
        raise RuntimeError("of its own")


def test_a_handler_of_the_users_waits_for_kernels_and_is_back_afterwards():
    heard = []

    def handler(number, frame):
        heard.append(len(heard))

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with interrupts.guard():
            signal.raise_signal(signal.SIGUSR1)
            interrupts.call_kernel(lambda: (signal.raise_signal(signal.SIGUSR1), heard.append("kernel")), ())
        assert heard == [0, "kernel", 2]
        assert signal.getsignal(signal.SIGUSR1) is handler
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_event_loop_still_hears_of_signals():
    heard, ear = os.pipe()
    os.set_blocking(ear, False)
    signal.set_wakeup_fd(ear)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.guard():
            press()
        assert os.read(heard, 1) == bytes([signal.SIGINT])
        assert signal.set_wakeup_fd(-1) == ear
    finally:
        signal.set_wakeup_fd(-1)
        os.close(heard)
        os.close(ear)


def test_a_command_is_interrupted_once_and_not_after_it_is_done():
    steps = []

    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            press()
            press()
            steps.append("put in order")

    interrupted(work, command=True)
    assert steps == ["put in order"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with interrupts.guard(command=True):
        interrupts.conclude()  # a store is only a step here
        with interrupts.concluding(), interrupts.held():
            press()
            interrupts.conclude()
        press()
        steps.append("done")
    assert steps[-1] == "done"


def test_an_interrupt_leaves_behind_what_cannot_be_stopped():
    may_end, ended = threading.Event(), threading.Event()

    def endless():
        press()
        may_end.wait()
        ended.set()

    with pytest.raises(KeyboardInterrupt), interrupts.guard():
        interrupts.call_aside(endless)
    assert not ended.is_set()
    may_end.set()
    ended.wait()
    assert interrupts.call_aside(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        interrupts.call_aside(divmod, 7, 0)


def test_a_forked_process_begins_anew():
    code = """
import os, signal
from daskfs import interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
with interrupts.guard():
    child = os.fork()
    if not child:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.set_wakeup_fd(-1) == -1
        try:
            with interrupts.guard():
                interrupts.call_kernel(signal.raise_signal, (signal.SIGINT,))
        except KeyboardInterrupt:
            os._exit(7)
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(code).stdout == "7\n"


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_command_ends_with_130_while_it_is_still_imported(number):
    code = f"""
import builtins, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
before = builtins.__import__
def imported(name, *rest):
    if name == "typer":
        signal.raise_signal(signal.{number})
    return before(name, *rest)
builtins.__import__ = imported
sys.argv = ["daskfs", "--version"]
from daskfs.__main__ import main
main()
"""
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_signal_that_another_thread_was_given_ends_a_wait():
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ended.wait)
        (thread,) = pool._threads
        signalled = threading.Timer(0.3, signal.pthread_kill, (thread.ident, signal.SIGINT))
        signalled.start()
        try:
            with pytest.raises(KeyboardInterrupt), interrupts.guard():
                interrupts.result_of(waiting)
        finally:
            ended.set()
            signalled.join()
    assert waiting.result() is True


@pytest.mark.nightly
@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_is_interrupted_at_any_bytecode_and_leaves_no_thread_behind(wait):
    done = run(f"from tests.interrupted_waits import main; main({wait!r})", timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400  # bytecodes
