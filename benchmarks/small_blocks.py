"""Jobs of many small blocks: what is neither reading nor kernels, and what two processes gain.

    python benchmarks/small_blocks.py [--blocks 1000 10000] [--loss squared] [--rounds 5] [--methods] [--times 4]

MESSAGE on subsets of 400 x 100 float32 from a store; with `--times` of so many times the rows. Reading alone (all rows
once, in blocks of 128 MiB) and kernels alone (the time that calls of them take) are CPU seconds in this process, jobs
those of all processes, wall seconds beside them; everything by turns, the median of the rounds, after one round that is
not counted. "Overhead" is the part of a job's CPU seconds that is neither. The last two columns are of wall seconds: on
a machine that does nothing else.

`--methods` prints a second table: of every way in which selectors give blocks to workers, the CPU seconds on two
processes beside those in this process; a plan's number of tasks, which many small blocks share where they are quick.
What does not grow with `--times` is the cost of a job and of its tasks, whatever is in them.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import daskfs
from daskfs import interrupts
from daskfs.cluster.open import open_cluster, workers_of

ROWS, COLUMNS = 400, 100


def make_table(path: Path, n_rows: int, n_columns: int, loss: str) -> Any:
    """Make a store, where there is none, with ten features on which the target depends."""
    if not path.exists():
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
        y = X[:, :10].astype(float) @ np.repeat([1.0, -1.0, 0.5, 0.5, 0.3], 2) + rng.standard_normal(len(X))
        daskfs.ingest(X, path, y=y if loss == "squared" else (y > 0.0).astype(float))
    return daskfs.open_store(path)


@contextmanager
def counted_kernels() -> Iterator[list[float]]:
    """Add up the CPU seconds of this thread in kernels."""
    called, spent = interrupts.call_kernel, [0.0]

    def call(kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        started = time.thread_time()
        try:
            return called(kernel, arguments)
        finally:
            spent[0] += time.thread_time() - started

    interrupts.call_kernel = call
    try:
        yield spent
    finally:
        interrupts.call_kernel = called


def cpu_seconds(client: Any) -> float:
    """Return the CPU seconds of this process and of all workers."""
    own = time.process_time()
    workers = {} if client is None else client.run(_process_and_cpu)
    return own + sum(seconds for pid, seconds in workers.values() if pid != os.getpid())


def _process_and_cpu() -> tuple[int, float]:
    return os.getpid(), time.process_time()


def one_round(store: Any, how: dict[str, Any], clusters: dict[str, Any]) -> tuple[dict[str, float], Any]:
    """Run everything once; return seconds, and which columns were selected."""
    found: dict[str, float] = {}
    started = time.process_time()
    for block in store.row_blocks():
        del block
    found["read"] = time.process_time() - started
    with counted_kernels() as spent:
        selected = daskfs.Message(**how).fit(store).selected_
    found["kernels"] = spent[0]
    for name, workers in clusters.items():
        before, started = cpu_seconds(workers.client), time.perf_counter()
        again = daskfs.Message(**how, client=workers.client).fit(store).selected_
        found[f"{name} wall"] = time.perf_counter() - started
        found[f"{name} cpu"] = cpu_seconds(workers.client) - before
        assert np.array_equal(selected, again), f"{name} selects others"
    return found, selected


TASKS: dict[str, tuple[tuple[int, int], Callable[..., Any]]] = {
    "a map over subsets: MESSAGE": (
        (400_000, 100),
        lambda times, **how: daskfs.Message(subset_size=400 * times, **how),
    ),
    "a map over columns: the screen": (
        (1000, 32_000),
        lambda times, **how: daskfs.OnlineSubstitution(20, n_epochs=1, schedule="screen", **how),
    ),
    "a tree over columns: FGM": (
        (1000, 32_000),
        lambda times, **how: daskfs.FGM(20, n_features_per_pass=5, loss="squared", **how),
    ),
    "a chain over rows: Mission": (
        (400_000, 100),
        lambda times, **how: daskfs.Mission(
            20, n_epochs=1, n_replicas=2, block_rows=4000 * times, sync_every=4000 * times, **how
        ),
    ),
    "blocks of 1 ms that do nothing else": ((0, 0), lambda times, **how: Spinning(times, **how)),
}


class Spinning:
    """Take some milliseconds of CPU time for each of 1,000 blocks."""

    def __init__(self, milliseconds: int, client: Any = None) -> None:
        self.milliseconds = milliseconds
        self.workers = workers_of(client)
        self.selected_ = np.empty(0, dtype=np.int64)

    def fit(self, store: Any) -> Spinning:
        """Map over the blocks."""
        del store
        for _ in self.workers.map_blocks(spin, [self.milliseconds] * 1000, name="spin"):
            pass
        return self


def spin(milliseconds: int) -> int:
    """Take so many milliseconds."""
    end = time.thread_time() + 1e-3 * milliseconds
    while time.thread_time() < end:
        pass
    return milliseconds


def table_of_methods(folder: Path, workers: Any, n_rounds: int, times: int) -> None:
    """Print what two processes cost beside this one, by the way in which blocks are given to them."""
    print("\n| what is given to workers | tasks planned | CPU here | on two processes | of that not here |")
    print("|---|---|---|---|---|")
    for name, ((n_rows, n_columns), make) in TASKS.items():
        shape = (n_rows * times, n_columns)
        store = make_table(folder / f"squared-{shape[0]}x{shape[1]}.zarr", *shape, "squared") if shape[0] else None
        how = {} if store is None else {"tile_shape": store.tile_shape}
        n_tasks = 1000 if store is None else make(times).plan(*shape, "float32", None, **how).n_tasks
        rounds = []
        for _ in range(n_rounds + 1):
            started = cpu_seconds(workers.client)
            selected = make(times).fit(store).selected_
            between = cpu_seconds(workers.client)
            again = make(times, client=workers.client).fit(store).selected_
            rounds.append((between - started, cpu_seconds(workers.client) - between))
            assert np.array_equal(selected, again), f"{name}: two processes select others"
        here, there = np.median(rounds[1:], axis=0)
        print(f"| {name} | {n_tasks:,} | {here:.2f} | {there:.2f} | {1.0 - here / there:.0%} |", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, nargs="+", default=[1000])
    parser.add_argument("--loss", nargs="+", default=["squared", "logistic"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where stores are kept; by default in a temporary folder")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--times", type=int, default=1, help="rows of a block, as a multiple")
    parser.add_argument("--methods", action="store_true", help="the second table too")
    options = parser.parse_args()
    results, rows = {}, ROWS * options.times
    kinds = {"here": ("none", 1), "1 process": ("local", 1), "2 processes": ("local", 2)}
    title = "| loss, blocks | read | kernels | " + " | ".join(f"{name}, CPU (wall)" for name in kinds)
    print(f"{title} | overhead here | 2 processes | 2 over here | 2 over 1 |\n|{'---|' * 10}")
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        opened = {name: stack.enter_context(open_cluster(*kind)) for name, kind in kinds.items()}
        for loss in options.loss:
            for n_blocks in options.blocks:
                store = make_table(folder / f"{loss}-{n_blocks}-{rows}.zarr", rows * n_blocks, COLUMNS, loss)
                how = {"subset_size": rows, "loss": loss}
                one_round(store, how, opened)
                rounds = [one_round(store, how, opened)[0] for _ in range(options.rounds)]
                found = {name: float(np.median([one[name] for one in rounds])) for name in rounds[0]}
                results[f"{loss}, {n_blocks}"] = found
                useful = found["read"] + found["kernels"]
                jobs = " | ".join(f"{found[f'{name} cpu']:.2f} ({found[f'{name} wall']:.2f})" for name in kinds)
                over = " | ".join(f"{1.0 - useful / found[f'{name} cpu']:.0%}" for name in ("here", "2 processes"))
                gain = " | ".join(
                    f"{found[f'{n} wall'] / found['2 processes wall']:.2f}" for n in ("here", "1 process")
                )
                row = f"| {loss}, {n_blocks:,} | {found['read']:.3f} | {found['kernels']:.3f} | {jobs}"
                print(f"{row} | {over} | {gain} |", flush=True)
        if options.methods:
            table_of_methods(folder, opened["2 processes"], options.rounds, options.times)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
