"""Record which functions of daskfs each test calls: in its own process, in those that it starts, within kernels too.

Python loads this file at its start where this folder is on PYTHONPATH (see ../mutants.py). It does nothing unless
TRACE_TO names a folder; there each process writes lines of "test, tab, file:function". Python 3.12 or newer.
"""

import os
import sys
from pathlib import Path

FOLDER = os.environ.get("TRACE_TO", "")
PACKAGE = f"{os.sep}daskfs{os.sep}"
MONITOR = 3
_seen = set()
_within = {}


def name_of(code):
    """Return ``room/file.py:Class.function``."""
    return f"{code.co_filename.rpartition(PACKAGE)[2]}:{code.co_qualname}"


def functions_within(kernel):
    """Return the names of a kernel and of all that is compiled into it: there nothing can be monitored."""
    if kernel not in _within:
        _within[kernel] = set()
        function = vars(kernel).get("py_func") or vars(kernel)["_choose"]
        found, names = {name_of(function.__code__)}, list(function.__code__.co_names)
        names += [name for inner in function.__code__.co_consts for name in getattr(inner, "co_names", ())]
        for value in map(function.__globals__.get, names):
            if type(value).__name__ in ("Kernel", "Choice"):
                found |= functions_within(value)
            elif PACKAGE in getattr(getattr(value, "__code__", None), "co_filename", ""):
                found.add(name_of(value.__code__))
        _within[kernel] = found
    return _within[kernel]


def on_start(code, _offset):
    """Write which function a test has called, the first time that it does."""
    if PACKAGE not in code.co_filename:
        return sys.monitoring.DISABLE
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if not test:
        return None
    is_kernel = code.co_qualname == "Kernel.__call__"
    called = functions_within(sys._getframe(1).f_locals["self"]) if is_kernel else {name_of(code)}
    new = [(test, name) for name in called if (test, name) not in _seen]
    if new:
        _seen.update(new)
        with (Path(FOLDER) / f"{os.getpid()}.txt").open("a") as out:
            out.writelines(f"{test}\t{name}\n" for test, name in new)
    return None if is_kernel else sys.monitoring.DISABLE


def next_test():
    """Have functions tell again that they are called."""
    _seen.clear()
    sys.monitoring.restart_events()


if FOLDER:
    Path(FOLDER).mkdir(parents=True, exist_ok=True)
    sys.monitoring.use_tool_id(MONITOR, "tests of daskfs")
    sys.monitoring.register_callback(MONITOR, sys.monitoring.events.PY_START, on_start)
    sys.monitoring.set_events(MONITOR, sys.monitoring.events.PY_START)
