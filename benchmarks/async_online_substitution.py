"""Asy-OS on a cluster of processes: time to error by workers, killed workers and nodes, messages.

    python benchmarks/async_online_substitution.py speed --n-samples 1000 10000 100000 --repeats 3
    python benchmarks/async_online_substitution.py faults --kills 20
    python benchmarks/async_online_substitution.py calls
    python benchmarks/async_online_substitution.py faults --kills 1 --n-features 1500 --n-informative 20    (small)

speed: figure 3 of Yang, Fujimaki, Kusumura and Liu (2016). n x 8,192 (2,048 at n = 100,000), 64 true features, float32,
one thread per process, the central node in a process of its own. Seconds until the objective is within 1.25 times that
of the sequential selector after its last epoch, which is timed in the same run, and until all is done. With more worker
processes than cores the figures say what that costs, not what more cores would give. A worker reads the next block
while it works on one, so that one worker keeps nearly two cores busy where it finds them; with --one-core-each a worker
has one core, reading included, as on a cluster that gives each task one. At n = 100,000 columns are not of unit length
but of unit variance, or the noise would hide what is looked for.

faults: in each run one process is killed with SIGKILL, at a place in the run that the seed decides: a worker's, or the
one that the central node lives in. Every run must end, u_C must be X_S w_S, recall must be that of undisturbed runs.

calls: the round trip of n numbers that are answered with as many, by n and type: what a call would save that sent u_C
and its changes in single precision. Round trips are the least of many: on a machine that others use, the others pay for
the rest. `benchmarks.scale` simulates many workers with them.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import AsyncOnlineSubstitution, OnlineSubstitution, ingest
from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import OnDask
from daskfs.selectors.asy_os import run as async_run
from daskfs.selectors.asy_os.run import STEP
from daskfs.selectors.online_substitution.columns import ColumnSettings, read_columns
from daskfs.sources.synthetic import SyntheticSource
from daskfs.store.feature_store import FeatureStore, open_store

TILE_COLUMNS = 64
TARGET = 1.25
RIDGE = 0.0  # by default the sequential selector's falls while it selects, and then the two have not one objective
LEAST_SPEED_UP = {10_000: 1.8, 100_000: 2.0}
BEHIND, ALIKE = 0.03, 1e-10


class Observed(AsyncOnlineSubstitution):
    """Keeps its run."""

    def _notes(self, workers: Any, *rest: Any) -> list[str]:
        self.run = workers
        return super()._notes(workers, *rest)


def make_store(
    folder: Path, n_samples: int, n_features: int, s: int, seed: int, dtype: str = "float32"
) -> FeatureStore:
    """Ingest a drawn data set: noise 0.1, tiles of few columns."""
    path = folder / f"{n_samples}x{n_features}-{s}-{seed}.zarr"
    if path.exists():
        return open_store(path)
    columns = "unit" if n_samples < 100_000 else "standard"
    source = SyntheticSource(
        n_samples, n_features, "online_substitution", s, columns=columns, noise="normal", random_state=seed
    )
    return ingest(source, path, dtype=dtype, tile_shape=(min(n_samples, 16384), TILE_COLUMNS), codec="raw")


def recall_of(selector: Any, store: FeatureStore) -> float:
    """Return the share of the true features that were found."""
    truth = store.source["support"]
    return len(np.intersect1d(selector.selected_, truth)) / len(truth)


def objective_path(selector: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds since the start, and the objective, of every push that was accepted."""
    history = selector.result_.history
    taken = history["accepted"].to_numpy() > 0
    return history["seconds"].to_numpy()[taken], history["objective"].to_numpy()[taken]


def time_to(selector: Any, target: float) -> float:
    """Return the seconds after which the objective is at the target; NaN where it never is."""
    seconds, objective = objective_path(selector)
    below = np.flatnonzero(objective <= target)
    return float(seconds[below[0]]) if len(below) else float("nan")


def sequential(store: FeatureStore, s: int) -> tuple[Any, float, float]:
    """Fit the sequential selector; return it, its objective, and seconds until that is within the target."""
    from daskfs.selectors.online_substitution import stream as online_substitution_run

    stamps: list[tuple[float, float]] = []
    record = online_substitution_run.SubstitutionStream._record
    started = time.perf_counter()

    def stamped(self: Any, epoch: int) -> None:
        record(self, epoch)
        stamps.append((time.perf_counter() - started, float(self.engine.value)))

    online_substitution_run.SubstitutionStream._record = stamped  # type: ignore[method-assign]
    try:
        selector = OnlineSubstitution(s, ridge=RIDGE).fit(store)
    finally:
        online_substitution_run.SubstitutionStream._record = record  # type: ignore[method-assign]
    last = stamps[-1][1]
    return selector, last, next(seconds for seconds, value in stamps if value <= TARGET * last)


@contextmanager
def one_core_each() -> Iterator[None]:
    """Let the workers of a run keep to one core each, in turn; the process of the central node goes where it can."""
    watch = async_run.AsyncRun._watch

    def kept(self: Any, *rest: Any) -> Any:
        client, n_cores = self.run.workers.client, os.cpu_count() or 1
        for number, address in enumerate(self.actors.addresses()):
            is_worker = number < self.settings.n_workers
            client.run(_keep_to, {number % n_cores} if is_worker else set(range(n_cores)), workers=[address])
        return watch(self, *rest)

    async_run.AsyncRun._watch = kept  # type: ignore[method-assign]
    try:
        yield
    finally:
        async_run.AsyncRun._watch = watch  # type: ignore[method-assign]


def _keep_to(cores: set[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def speed(arguments: argparse.Namespace) -> int:
    """Time to error with 1, 2, ... workers, and of the sequential selector in this process."""
    failed = 0
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        for n_samples in arguments.n_samples:
            p = arguments.n_features or (2048 if n_samples >= 100_000 else 8192)
            s = arguments.n_informative
            store = make_store(Path(folder), n_samples, p, s, 0)
            found: dict[int, list[tuple[float, float, float, float]]] = {q: [] for q in arguments.n_workers}
            alone: list[tuple[float, float, float]] = []
            sequential(store, s)  # compiles, and warms the file cache
            with open_cluster("local", n_workers=1 + max(arguments.n_workers), dashboard_address=None) as workers:
                for repeat in range(-1, arguments.repeats):
                    selector, last, seconds = sequential(store, s)
                    if repeat >= 0:
                        alone.append((seconds, selector.result_.time["select"], recall_of(selector, store)))
                    for q in arguments.n_workers:
                        told = {"n_workers": q, "block_columns": arguments.block_columns, "ridge": RIDGE}
                        asynchronous = AsyncOnlineSubstitution(s, **told)
                        with one_core_each() if arguments.one_core_each else nullcontext():
                            asynchronous.fit_matrix(store, workers=workers)
                        if repeat >= 0:
                            seconds = time_to(asynchronous, TARGET * last)
                            times = asynchronous.result_.time
                            share = times["workers-calls"] / max(sum(times.values()) - times["select"], 1e-9)
                            whole = objective_path(asynchronous)[0][-1]
                            found[q].append((seconds, whole, recall_of(asynchronous, store), share))
            failed += _print_speed(n_samples, p, s, alone, found)
    return 1 if failed else 0


def _print_speed(n_samples: int, p: int, s: int, alone: Any, found: Any) -> int:
    median = np.median(np.array(alone), axis=0)
    print(f"\nn = {n_samples:,}, p = {p:,}, s = {s}: seconds to {TARGET} f / in all / recall / share of calls")
    print(f"sequential, this process   {median[0]:8.3f} / {median[1]:8.3f} / {median[2]:.3f}")
    to_error = {}
    for q, rows in found.items():
        to, whole, recall, share = np.median(np.array(rows), axis=0)
        to_error[q] = to
        print(
            f"{q} worker{'s' if q > 1 else ' '}                  {to:8.3f} / {whole:8.3f} / {recall:.3f} / {share:.2f}"
        )
    if not {1, 2} <= set(to_error):
        return 0
    ratio = to_error[1] / to_error[2]
    print(f"speed-up of 2 workers over 1: {ratio:.2f}; of 2 workers over the sequential: {median[0] / to_error[2]:.2f}")
    return int(n_samples in LEAST_SPEED_UP and not ratio >= LEAST_SPEED_UP[n_samples])


class Killer:
    """A progress bar that kills a process once a share of the columns is done."""

    def __init__(self, workers: OnDask, victim: str, share: float) -> None:
        self.workers, self.victim, self.share = workers, victim, share
        self.total = self.done = 0
        self.name = ""
        self.is_done = victim == "nobody"

    def start(self, name: str, total: int) -> None:
        """Begin a step."""
        self.name, self.total, self.done = name, total, 0

    def advance(self, k: int = 1) -> None:
        """Count, and kill when it is time."""
        self.done += k
        if self.name.endswith(STEP) and not self.is_done and self.done >= self.share * self.total:
            self.is_done = True
            os.kill(self._pid(), signal.SIGKILL)

    def finish(self) -> None:
        """End the step."""

    def _pid(self) -> int:
        home = self.workers.actors.addresses()[-1]
        pids = self.workers.client.run(os.getpid)
        wanted = [pid for address, pid in pids.items() if (address == home) == (self.victim == "node")]
        return int(wanted[0])


def difference(selector: Any, store: FeatureStore) -> float:
    """Return |u_C - X_S w_S| in parts of |u_C|, the columns being read again."""
    run, total = selector.run, np.zeros(store.shape[0])
    for share in run.shares:
        if len(share.columns):
            block = read_columns(store, share.columns, ColumnSettings(True, True, False))
            total += share.coef @ block.rows.astype(np.float64)
    u = run.prediction - run.intercept
    return float(np.abs(u - total).max() / np.abs(u).max())


def wait_for(workers: Any, n_workers: int, timeout_s: float = 60.0) -> None:
    """Wait until a killed process is there again; not for ever, for a run can do with fewer."""
    until = time.monotonic() + timeout_s
    while len(workers.client.nthreads()) < n_workers and time.monotonic() < until:
        time.sleep(0.05)


def faults(arguments: argparse.Namespace) -> int:
    """Kill, and look at what comes out."""
    n_samples, p, s = arguments.n_samples[0], arguments.n_features or 4000, arguments.n_informative
    rows: dict[str, list[tuple[float, float, float, float]]] = {"nobody": [], "worker": [], "node": []}
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        store = make_store(Path(folder), n_samples, p, s, 0, "float64")
        for seed in range(arguments.kills):
            with open_cluster("local", n_workers=3, dashboard_address=None) as workers:
                share = float(np.random.default_rng(seed).uniform(0.05, 0.9))
                for victim in rows:
                    wait_for(workers, 3)
                    killer = Killer(workers, victim, share)  # type: ignore[arg-type]
                    selector = Observed(s, n_workers=2, timeout_s=5.0, block_columns=arguments.block_columns or 16)
                    started = time.perf_counter()
                    selector.fit_matrix(store, workers=workers, progress=killer)
                    seconds = time.perf_counter() - started
                    if not killer.is_done:
                        raise SystemExit(f"seed {seed}: the run was over before the {victim} was killed")
                    lost = float(selector.run.n_nodes_lost)
                    rows[victim].append((recall_of(selector, store), difference(selector, store), seconds, lost))
                    print(
                        f"seed {seed} at {share:.2f} {victim:<7} " + " ".join(f"{x:.3g}" for x in rows[victim][-1]),
                        flush=True,
                    )
    print("\nkilled     runs ended   worst |u_C - X_S w_S| / |u_C|   recall, mean (least)   seconds   nodes lost")
    undisturbed = float(np.mean([row[0] for row in rows["nobody"]]))
    failed = 0
    for victim, found in rows.items():
        recall, apart, seconds, lost = np.array(found).T
        print(
            f"{victim:<10} {len(found):>2} of {arguments.kills:<2}   {apart.max():>24.1e}   {recall.mean():>15.3f} "
            f"({recall.min():.3f})   {np.median(seconds):>8.2f}   {int(lost.sum()):>4}"
        )
        failed += bool(apart.max() > ALIKE or recall.mean() < undisturbed - BEHIND)
    return 1 if failed else 0


def round_trip(node: Any, n_samples: int, repeats: int, dtype: str = "float64") -> float:
    """Return the least seconds of a message of n numbers that is answered with as many; run in a task."""
    numbers = np.zeros(n_samples, dtype)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        node.echo(numbers).result()
        seconds.append(time.perf_counter() - started)
    return float(np.min(seconds))


class Echo:
    """Answers with what it is told."""

    def echo(self, numbers: np.ndarray) -> np.ndarray:
        """Return a new array of the same numbers."""
        return numbers + numbers.dtype.type(0.0)


@contextmanager
def echo() -> Iterator[Callable[..., float]]:
    """Yield a `round_trip` between two processes."""
    with open_cluster("local", n_workers=2, dashboard_address=None) as workers:
        client = workers.client
        if client is None:
            raise SystemExit("no cluster")
        home, other = sorted(client.scheduler_info()["workers"])
        placed = client.submit(Echo, actor=True, workers=[home])  # kept, or Dask lets go of the node
        node = placed.result()
        yield lambda *told: client.submit(round_trip, node, *told, workers=[other], pure=False).result()


def calls(arguments: argparse.Namespace) -> int:
    """Measure messages of both types."""
    with echo() as trip:
        print(f"nothing: {1e3 * trip(0, 200):.2f} ms")
        for n_samples in (1000, 10_000, 100_000, 1_000_000):
            double, single = (1e3 * trip(n_samples, 100, dtype) for dtype in ("float64", "float32"))
            print(f"n = {n_samples:>9,}: float64 {double:.2f} ms, float32 {single:.2f} ms", flush=True)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run one of the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("speed", "faults", "calls"))
    parser.add_argument("--n-samples", nargs="+", type=int)
    parser.add_argument("--n-features", type=int)
    parser.add_argument("--n-informative", type=int, default=64)
    parser.add_argument("--n-workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--block-columns", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--one-core-each", action="store_true", help="speed: workers keep to one core")
    parser.add_argument("--scratch", help="folder for stores")
    arguments = parser.parse_args(argv)
    arguments.n_samples = arguments.n_samples or {"speed": [1000, 10_000, 100_000]}.get(arguments.what, [1200])
    return {"speed": speed, "faults": faults, "calls": calls}[arguments.what](arguments)


if __name__ == "__main__":
    sys.exit(main())
