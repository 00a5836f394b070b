"""Fits that are interrupted at random moments, in processes of their own; what becomes of each, and how soon.

`storm` interrupts one process again and again, as a notebook is: after each KeyboardInterrupt it fits anew, and at the
end a fit that nobody interrupts must have the bits of the first. `campaign` gives the rows of ``benchmarks/faults.md``.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import daskfs
from tests.processes import Process

MEMORY_NBYTES = 6 << 30
"""Address space of a process: mostly libraries."""

PATIENCE_S = 300.0
"""After which a process that has not answered counts as hung; far from what any needs on a busy machine."""

DATA = """
rng = np.random.default_rng(0)
def data(n, p, n_classes=0, dtype=float, rho=0.5):
    X = rng.standard_normal((n, p))
    X += rho / (1 - rho) * rng.standard_normal((n, 1))
    z = X[:, :10] @ rng.standard_normal((10, max(n_classes, 1))) + rng.standard_normal((n, max(n_classes, 1)))
    y = z[:, 0] if not n_classes else z.argmax(axis=1) if n_classes > 2 else np.where(z[:, 0] > 0, 1, 0)
    return X.astype(dtype), y
"""

FITS = {  # a selector, the data, and those of small fits for quick tests
    "message squared": ("Message(n_subsets=2)", "(3000, 20000)", "(300, 200)"),
    "message logistic": ("Message(loss='logistic', n_subsets=2)", "(20000, 2000, 2)", "(300, 60, 2)"),
    "message multinomial": (
        "Message(loss='multinomial', n_subsets=2, max_features=60)",
        "(4000, 300, 8)",
        "(300, 30, 3)",
    ),
    "online_substitution": ("OnlineSubstitution(n_features_to_select=100)", "(4000, 20000)", "(200, 300)"),
    "online_substitution logistic": (
        "OnlineSubstitution(n_features_to_select=40, loss='logistic')",
        "(20000, 4000, 2)",
        "(200, 100, 2)",
    ),
    "fgm": ("FGM(n_features_to_select=200, loss='logistic')", "(8000, 8000, 2)", "(200, 300, 2)"),
    "fgm mkl": (
        "FGM(n_features_to_select=40, solver='simple_mkl', loss='logistic')",
        "(4000, 4000, 2)",
        "(200, 60, 2)",
    ),
    "mission": ("Mission(n_features_to_select=100)", "(8000, 4000)", "(300, 200)"),
    "l1_liblinear": ("L1Liblinear(n_features_to_select=50)", "(4000, 4000, 2)", "(200, 60, 2)"),
    "bolasso": ("Bolasso(n_bootstraps=8)", "(3000, 8000)", "(200, 60)"),
}

CHILD = """
import faulthandler, hashlib, resource, signal, sys, time, warnings
faulthandler.enable()
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import daskfs.baselines
from daskfs import FGM, Message, Mission, OnlineSubstitution
from daskfs.baselines import *
{data}
X, y = data{shape}
def fit():
    return {selector}.fit(X, y)
def bits(fitted):
    return hashlib.sha256(fitted.selected_.tobytes() + fitted.coef_.tobytes()).hexdigest()
def tell(*words):
    print(*words, flush=True)
before = bits(fit()) if {compares} else ""
tell("ready")
n_left = {n}
while n_left:
    try:
        while True:
            fit()
    except KeyboardInterrupt:
        tell("interrupted", time.process_time())
        n_left -= 1
tell("bits", "same" if not {compares} or bits(fit()) == before else "other")
"""


@dataclass
class Storm:
    """What became of one process."""

    name: str
    latencies_s: list[float] = field(default_factory=list)
    """From the signal to the KeyboardInterrupt, of the process's own time: the machine may be busy."""
    same_bits: bool = False
    end: str = ""
    """whole, died of SIGSEGV, traceback, hung."""
    errors: str = ""


def environment() -> dict[str, str]:
    """Return that of a process which finds the daskfs that is tested."""
    return os.environ | {"PYTHONPATH": str(Path(daskfs.__file__).parents[1])}


def storm(name: str, seed: int, n: int, *, is_small: bool = True, longest_s: float = 0.2) -> Storm:
    """Interrupt the fits of one process n times, each a random time after it began."""
    selector, large, small = FITS[name]
    code = CHILD.format(
        data=DATA, selector=selector, shape=small if is_small else large, n=n, memory=MEMORY_NBYTES, compares=is_small
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Process([sys.executable, "-c", code], env=environment(), **pipes) as process:
        found, rng = Storm(name), random.Random(f"{name} {seed}")
        answers = _answers(process)
        try:
            if next(answers) == ["ready"]:
                for _ in range(n):
                    time.sleep(longest_s * rng.random())
                    sent = sum(psutil.Process(process.pid).cpu_times()[:2])
                    process.send_signal(signal.SIGINT)
                    word, when = next(answers)
                    assert word == "interrupted"
                    found.latencies_s.append(float(when) - sent)
                found.same_bits = next(answers) == ["bits", "same"]
            found.end = "whole"
        except (StopIteration, ValueError):
            found.end = "ended early"
        except TimeoutError:
            process.kill()
            found.end = "hung"
        _, found.errors = process.communicate()
    if process.returncode < 0 and found.end != "hung":
        found.end = f"died of {signal.Signals(-process.returncode).name}"
    elif process.returncode > 0:
        found.end = "traceback"
    return found


def _answers(process):
    """Yield the words of each line that a process prints; a TimeoutError where it is silent for too long."""
    import select

    while True:
        if not select.select([process.stdout], [], [], PATIENCE_S)[0]:
            raise TimeoutError
        line = process.stdout.readline()
        if not line:
            return
        yield line.split()


def campaign(seed: int, n: int) -> list[dict[str, object]]:
    """Return a row for each kind of fit: large ones, interrupted n times."""
    rows = []
    for name in FITS:
        found = storm(name, seed, n, is_small=False, longest_s=20.0)
        latencies = found.latencies_s or [float("nan")]
        rows.append(
            {
                "fit": name,
                "interrupts": n,
                "raised": len(found.latencies_s),
                "end": found.end,
                "median s": statistics.median(latencies),
                "longest s": max(latencies),
            }
        )
    return rows


if __name__ == "__main__":
    for row in campaign(int(sys.argv[1]), int(sys.argv[2])):
        print(row, flush=True)
