"""Figures 7 and 8 of Wang, Peng and Dunson (2014): test error against time on large data; and what a run costs.

    python benchmarks/message_large.py power higgs                      (2,075,259 x 74 in 200 subsets and
                                                                         11,000,000 x 27 in 1,000; 2 GB of disk)
    DASKFS_DATA=... python benchmarks/message_large.py power_hourly power_minute higgs_h2o higgs_lightgbm
    DASKFS_DATA=... python benchmarks/message_large.py kddcup99
    python benchmarks/message_large.py power --scale 0.01               (what the test suite runs)

power and higgs are drawn: a household's power by the minute (measurements, and dummies of year, month, day and hour, 74
columns) and two classes of collisions (27 columns, correlated, some skewed). The others are real samples; of kddcup99,
all rows in memory with dummies, MESSAGE alone is shown, with the error on the rows it was fitted on. Rows of the
test set are drawn apart, or a random fifth. Each method reads the store; "one read" is the time to read all of it once,
block by block, and do nothing with it, when its files are in the page cache ("cpu", "wall") and when they have been
dropped from it ("disk"). CPU seconds of this process, and wall clock; "per machine" is the wall time
divided by the number of subsets, for methods that work on subsets: the paper's count. Writes large.csv, row by row, and
large_<name>.png with the error against time.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from daskfs.baselines.lasso.full_data import FullData
from daskfs.baselines.lasso.subset_estimates import Averaging, Median
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.planning import open_source
from daskfs.pipeline.run import make_store
from daskfs.selectors.message.selector import Message
from daskfs.sources.base import Source, SourceBlock
from daskfs.sources.ingest import ingest
from daskfs.watching.base import Silent

PIPELINES = {"power_hourly": "household_power.yaml", "power_minute": "household_power_minute.yaml"}
CHUNK_ROWS = 8192
DRAWN = {"power": (2_075_259, 74, 200), "higgs": (11_000_000, 27, 1000)}
N_TEST = 100_000


class Task(NamedTuple):
    """Rows to learn from and rows to be tested on."""

    train: Any
    X_test: np.ndarray
    y_test: np.ndarray
    loss: str
    subsets: dict[str, Any]
    """How MESSAGE and its baselines are told their subsets."""


def draw_power(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw 6 measurements and dummies of 5 years, 12 months, 31 days and 24 hours."""
    numbers = rng.standard_normal((n, 6), np.float32) + np.float32(0.7) * rng.standard_normal((n, 1), np.float32)
    X = np.zeros((n, 74), np.float32)
    X[:, :6] = numbers
    y = numbers @ np.array([1.0, 0.5, -0.5, 0.3, 0.1, 0.0]) + rng.standard_normal(n)
    left = 6
    for size, spread in ((5, 0.2), (12, 0.5), (31, 0.05), (24, 1.0)):
        code = rng.integers(0, size, n)
        hot = np.flatnonzero(code)
        X[hot, left + code[hot] - 1] = 1.0
        y += spread * np.sin(2 * np.pi * code / size)
        left += size - 1
    return X, y


def draw_higgs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw 27 correlated columns, a third of them skewed, and the classes that twelve of them make likely."""
    X = rng.standard_normal((n, 27), np.float32) + np.float32(0.6) * rng.standard_normal((n, 1), np.float32)
    X[:, ::3] = np.exp(np.float32(0.5) * X[:, ::3])
    z = X[:, :12].astype(np.float64) @ (0.3 * (-1.0) ** np.arange(12) / np.sqrt(np.arange(1, 13))) - 0.1
    return X, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.float64)


class Drawn(Source):
    """Rows drawn chunk by chunk, the same whatever the blocks."""

    kind = "drawn"
    exchangeable = True

    def __init__(self, draw: Callable, n_samples: int, n_features: int) -> None:
        self.draw, self.shape, self.notes = draw, (n_samples, n_features), []

    @property
    def n_samples(self) -> int:
        return self.shape[0]

    @property
    def feature_names(self) -> list[str]:
        return [f"x{j}" for j in range(self.shape[1])]

    @property
    def target_names(self) -> list[str]:
        return ["y"]

    def check(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "description": self.draw.__name__, "shape": list(self.shape), "exchangeable": True}

    def digest(self) -> str:
        return hashlib.sha256(repr(self.describe()).encode()).hexdigest()

    def row_blocks(self, block_rows: int, dtype: Any = np.float64) -> Iterator[SourceBlock]:
        X, y = np.empty((0, self.shape[1]), np.float32), np.empty(0)
        start, chunk = 0, 0
        while start < self.shape[0]:
            wanted = min(block_rows, self.shape[0] - start)
            parts, targets, n = [X], [y], len(X)
            while n < wanted:
                more, more_y = self.draw(np.random.default_rng([1, chunk]), CHUNK_ROWS)
                parts.append(more)
                targets.append(more_y)
                n, chunk = n + CHUNK_ROWS, chunk + 1
            X, y = np.concatenate(parts), np.concatenate(targets)
            yield SourceBlock(start, X[:wanted], y[:wanted])
            X, y, start = X[wanted:], y[wanted:], start + wanted


def drawn_task(name: str, scale: float, folder: Path) -> Task:
    n, p, m = DRAWN[name]
    draw = draw_power if name == "power" else draw_higgs
    n = max(20_000, int(scale * n))
    store = ingest(Drawn(draw, n, p), folder / f"{name}.zarr", codec="raw")
    X_test, y_test = draw(np.random.default_rng(0), min(N_TEST, n))
    loss = "squared" if name == "power" else "logistic"
    return Task(store, X_test, y_test, loss, {"n_subsets": max(5, int(scale * m))})


def real_task(name: str, folder: Path) -> Task:
    if name in PIPELINES:
        overrides = [f"store.path={folder / name}.zarr", f"output={folder / name}"]
        pipeline = load_pipeline(Path(__file__).parents[1] / "pipelines" / PIPELINES[name], overrides)
        store, loss = make_store(pipeline, open_source(pipeline), 1 << 30, Silent()), "squared"
    else:
        X, y = _higgs(name)
        store, loss = ingest(X, folder / f"{name}.zarr", y=y), "logistic"
    train, test = store.split(0.2, by="random", random_state=0)
    return Task(train, test.read(slice(None)), test.read_target(slice(None)), loss, {})


def _higgs(name: str) -> tuple[np.ndarray, np.ndarray]:
    folder = Path(os.environ["DASKFS_DATA"]) / name
    if name == "higgs_h2o":
        with gzip.open(folder / "higgs_test_5k.csv.gz", "rt") as lines:
            rows = pd.read_csv(lines, header=None).to_numpy()
    else:
        parts = [pd.read_csv(path, sep="\t", header=None) for path in sorted(folder.glob("binary.*"))]
        rows = pd.concat(parts).to_numpy()
    return rows[:, 1:], rows[:, 0]


def kddcup99() -> None:
    """Fit 23 classes of connections, 7 in 10 of them copies of others, and show what it takes."""
    from open_sets import dummies, loader

    table, y, _ = loader().load("kddcup99")
    X = np.asarray(dummies(table.reset_index(drop=True), [1, 2, 3]), np.float32)
    label = np.unique(np.asarray(y).astype(str), return_inverse=True)[1].astype(float)
    Message(loss="multinomial", n_subsets=3).fit(X[:3000], label[:3000] % 2 + (X[:3000, 0] > 0.0))  # compiles
    fitted, cpu, wall = timed(lambda: Message(loss="multinomial", random_state=0).fit(X, label))
    wrong = float(np.mean(fitted.predict(X) != label))
    print(
        f"kddcup99: {X.shape[0]:,} x {X.shape[1]}, {len(np.unique(label))} classes: {cpu:.1f} s of CPU, {wall:.1f} s, "
        f"{len(fitted.selected_)} columns selected, {100 * wrong:.3f} % of the rows wrong"
    )


def read_once(matrix: Any) -> None:
    """Read every tile, block by block."""
    for block in matrix.row_blocks():
        block.X[:: len(block.X) or 1].sum()


def drop_from_cache(folder: Path) -> None:
    """Ask the system to forget the contents of the files of a folder, so that they are read from the disk again."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def from_disk(train: Any, action: Callable[[], Any], repeats: int) -> float:
    """Return the wall clock of an action on a store that is not in the page cache, the shortest of some."""
    found = []
    for _ in range(repeats):
        drop_from_cache(Path(getattr(train, "base", train).path))
        found.append(timed(action)[2])
    return min(found)


def timed(action: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return what an action returns, its CPU seconds and its wall clock."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = action()
    return result, time.process_time() - cpu, time.perf_counter() - wall


def measure(name: str, task: Task, repeats: int) -> list[dict[str, Any]]:
    """Return one row for each method, the fastest of some repeats; the first is one read of the store."""
    options = {"loss": task.loss}
    makers = {
        "message": lambda: Message(**task.subsets, **options),
        "averaging": lambda: Averaging(**task.subsets, **options),
        "median": lambda: Median(**task.subsets, **options),
        "full data": lambda: FullData(**options),
    }
    if task.loss == "logistic":
        makers["message, lsa"] = lambda: Message(**task.subsets, **options, approx="lsa")
    read = min(timed(lambda: read_once(task.train))[1:] for _ in range(max(2, repeats)))
    disk = from_disk(task.train, lambda: read_once(task.train), max(2, repeats))
    rows = [{"data": name, "method": "one read", "cpu_s": read[0], "wall_s": read[1], "disk_s": disk}]
    for method, make in makers.items():
        runs = [timed(lambda make=make: make().fit(task.train)) for _ in range(repeats)]
        fitted, cpu, wall = min(runs, key=lambda run: run[1])
        disk_s = from_disk(task.train, lambda make=make: make().fit(task.train), repeats)
        prediction = fitted.predict(task.X_test)
        wrong = prediction != task.y_test if task.loss == "logistic" else (prediction - task.y_test) ** 2
        m = getattr(fitted, "n_subsets_", 1)
        rows.append(
            {
                "data": name, "method": method, "cpu_s": cpu, "wall_s": wall, "per_machine_s": wall / m,
                "test_error": float(np.mean(wrong)), "n_selected": len(fitted.selected_), "n_subsets": m,
                "cpu_reads": cpu / read[0], "wall_reads": wall / read[1], "disk_s": disk_s, "disk_reads": disk_s / disk,
            }
        )  # fmt: skip
    return rows


def show(name: str, task: Task, rows: list[dict[str, Any]], path: Path) -> None:
    kind = "errors of classification" if task.loss == "logistic" else "mean squared error"
    n, p = task.train.shape
    print(f"\n{name}: {n:,} x {p}, {kind} on {len(task.y_test):,} other rows")
    print(pd.DataFrame(rows).drop(columns="data").to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    for row in rows[1:]:
        axes.plot(row["per_machine_s"], row["test_error"], "o", label=row["method"])
    axes.set(xscale="log", xlabel="seconds, a machine for every subset", ylabel=kind, title=name)
    axes.legend(frameon=False)
    figure.savefig(path / f"large_{name}.png", dpi=120)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=[*DRAWN, *PIPELINES, "higgs_h2o", "higgs_lightgbm", "kddcup99"])
    parser.add_argument("--scale", type=float, default=1.0, help="part of the rows and subsets of what is drawn")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/message_large"))
    parser.add_argument("--keep-stores", action="store_true")
    arguments = parser.parse_args(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    table = arguments.output / "large.csv"
    slow = []
    warnings.filterwarnings("ignore", message="X does not have valid feature names")  # test rows are arrays
    for loss in ("squared", "logistic"):  # compiles the kernels
        X = np.random.default_rng(0).standard_normal((400, 5)).astype(np.float32)
        for method in (Message, Averaging, FullData):
            method(loss=loss).fit(X, (X[:, 0] > 0.5) * 1.0)
    for name in arguments.names:
        if name == "kddcup99":
            kddcup99()
            continue
        folder = arguments.output / "stores"
        folder.mkdir(exist_ok=True)
        task = drawn_task(name, arguments.scale, folder) if name in DRAWN else real_task(name, folder)
        rows = measure(name, task, arguments.repeats)
        pd.DataFrame(rows).to_csv(table, mode="a", header=not table.exists(), index=False)
        show(name, task, rows, arguments.output)
        message = rows[1]
        print(
            f"MESSAGE takes {message['disk_reads']:.2f} times one read of the store from the disk, and "
            f"{message['cpu_reads']:.2f} times the CPU seconds of one read from the page cache"
        )
        slow += [name] if message["disk_reads"] > 2.0 else []
        if not arguments.keep_stores:
            shutil.rmtree(folder)
    print("more than two reads from the disk: " + (", ".join(slow) or "none"))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
