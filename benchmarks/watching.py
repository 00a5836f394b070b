"""What it costs that somebody watches: a MESSAGE job of many small subsets, a task for each, watched and not.

    python benchmarks/watching.py [--blocks 1000] [--rounds 7] [--before FOLDER]

"Watched" has all who look in a pipeline's run: the bar of a terminal, the log, the status file, on a cluster the page
of the dashboard. CPU seconds of this process (and of the workers), by turns, the median of ratios of neighbours. With
--before, the folder of an earlier daskfs, the same job by that in a process of its own, unwatched.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import daskfs
from daskfs.cluster.open import open_cluster
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.shared.run import Run

ROWS, COLUMNS, PASSES = 400, 100, 5

BEFORE = """
import sys, time
sys.path.insert(0, {here!r})
from watching import job, matrix
X, workers = matrix({blocks}), None
from daskfs.cluster.workers import Here
job(X, Here(), None)
for _ in range({rounds}):
    started = time.process_time()
    job(X, Here(), None)
    print(time.process_time() - started)
"""


class Terminal(StringIO):
    """What takes a bar for nobody."""

    def isatty(self) -> bool:
        return True


def matrix(n_blocks: int) -> ArrayMatrix:
    """Return a matrix of many small blocks."""
    X = np.random.default_rng(0).standard_normal((ROWS * n_blocks, COLUMNS), dtype=np.float32)
    return ArrayMatrix(X, X[:, 0].astype(float))


def products(matrix: Any, rows: Any) -> float:
    """Do as little as a kernel may: half a millisecond."""
    X = matrix.read(rows)
    return float(sum(np.square(X).sum() for _ in range(20)))


def job(X: ArrayMatrix, workers: Any, progress: Any) -> None:
    """Pass over all blocks, a few times."""
    run = Run(X, "fgm", workers, progress)
    parts = [run.rows(k, k + ROWS) for k in range(0, X.shape[0], ROWS)]
    with run, run.reported("", PASSES) as advance:
        for k in range(PASSES):
            run.map("scores", products, parts)
            if progress is not None:
                run.learn("pass", k, 1.0, lambda: np.arange(20))
            advance()


def cpu_seconds(client: Any) -> float:
    """Return the CPU seconds of this process and of all workers."""
    found = {} if client is None else client.run(_process_and_cpu)
    return time.process_time() + sum(seconds for pid, seconds in found.values() if pid != os.getpid())


def _process_and_cpu() -> tuple[int, float]:
    return os.getpid(), time.process_time()


def watched(workers: Any, folder: Path) -> Any:
    """Return a context in which a run is watched by everybody."""
    from daskfs.dashboard.shown import on_dashboard
    from daskfs.pipeline.progress import watched as by_log_and_file
    from daskfs.watching.terminal import Bar
    from daskfs.watching.watch import Watch

    stack = ExitStack()
    watch = Watch(name="watching")
    stack.enter_context(watch.seen_by(Bar(Terminal())))
    stack.enter_context(by_log_and_file(folder, "watching", watch))
    stack.enter_context(on_dashboard(workers, watch))
    return stack, watch


def ratio(X: ArrayMatrix, workers: Any, folder: Path, n_rounds: int) -> tuple[float, float, float]:
    """Return seconds unwatched and watched, and the median of their ratios."""
    pairs = []
    for k in range(n_rounds + 1):
        seconds = {}
        for is_watched in (k % 2 == 0, k % 2 == 1):
            stack, watch = watched(workers, folder) if is_watched else (ExitStack(), None)
            with stack:
                before = cpu_seconds(workers.client)
                job(X, workers, watch)
                seconds[is_watched] = cpu_seconds(workers.client) - before
        pairs.append((seconds[False], seconds[True]))
    found = np.array(pairs[1:])
    return (*np.median(found, axis=0), float(np.median(found[:, 1] / found[:, 0])))


def cost_of_looking(folder: Path) -> tuple[float, float]:
    """Return the CPU seconds that all who look take in a second, and those of one part that is done."""
    from daskfs.pipeline.progress import RunLog, StatusFile
    from daskfs.watching.base import Found
    from daskfs.watching.terminal import Bar
    from daskfs.watching.watch import BEAT_S, Watch

    now = [0.0]
    watch = Watch(name="watching", clock=lambda: now[0])
    files = folder / "run.log", folder / "status.json"
    with files[0].open("w") as log, watch.seen_by(Bar(Terminal()), RunLog(log), StatusFile(files[1])):
        watch.start("fgm", 1000)
        watch.begin_part("fgm-scores", 100)
        watch.learn(lambda: Found(1.0, "pass", 1.0, 20, tuple(f"column {j}" for j in range(20))))
        watch.beat()
        started = time.thread_time()
        for _ in range(400):
            now[0] += BEAT_S
            watch.beat()
        looking = (time.thread_time() - started) / (400 * BEAT_S)
        started = time.thread_time()
        for _ in range(100_000):
            watch.advance()
        return looking, (time.thread_time() - started) / 100_000


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--before", type=Path)
    options = parser.parse_args()
    X = matrix(options.blocks)
    with tempfile.TemporaryDirectory() as name:
        looking, part = cost_of_looking(Path(name))
        print(f"looking: {1e3 * looking:.1f} ms of CPU a second; a part that is done: {1e6 * part:.1f} µs\n")
        print(f"{PASSES * options.blocks:,} tasks here, a fifth of them on processes")
        print("| where | unwatched, CPU s | watched | ratio |\n|---|---|---|---|")
        for where, kind in {"here": ("none", 1), "2 processes": ("local", 2)}.items():
            with open_cluster(*kind) as workers:
                part = X if kind[0] == "none" else matrix(options.blocks // 5)
                plain, seen, times = ratio(part, workers, Path(name), options.rounds)
            print(f"| {where} | {plain:.2f} | {seen:.2f} | {times:.3f} |", flush=True)
    if options.before is not None:
        code = BEFORE.format(here=str(Path(__file__).parent), blocks=options.blocks, rounds=options.rounds)
        for label, folder in {"before": options.before, "now": Path(daskfs.__file__).parents[1]}.items():
            command, environment = [sys.executable, "-c", code], os.environ | {"PYTHONPATH": str(folder)}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            print(f"{label}, unwatched, here: {np.median([float(line) for line in done.stdout.split()]):.2f} CPU s")


if __name__ == "__main__":
    main()
