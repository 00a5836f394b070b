"""What a cluster of processes costs: its start, a task that does nothing, arrays on their way; with and without TLS.

    python benchmarks/cluster_cost.py            a table of these
    python benchmarks/cluster_cost.py --fit      the constants of `daskfs.pipeline.cost`, and runs three times larger
    python benchmarks/cluster_cost.py --latency  requests on their way at once, of stores that answer late
    python benchmarks/cluster_cost.py --tasks    the scheduler with 2 to 200 workers that do nothing
    python benchmarks/cluster_cost.py --table    what the model says of 10^9 rows x 10^6 columns and 10^14 features

`--fit` counts CPU seconds of one process, the least of two, of all that a plan counts, over shapes and settings.
`--tasks` counts those of the scheduler with the client, the workers being in a process of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np
from scipy.optimize import nnls

import daskfs
from daskfs.cluster import workers as cluster_workers
from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import OnDask, Workers
from daskfs.pipeline.cost import MEASURED, TILE_NBYTES, cost_of_step, shown_s
from daskfs.selectors.shared.budget import Work

N_TASKS, N_ARRAYS, ARRAY_NBYTES = 500, 4, 64 * 2**20


def same(item: int) -> int:
    """Do nothing."""
    return item


def ones(nbytes: int) -> np.ndarray:
    """Return an array that has to travel."""
    return np.ones(nbytes, dtype=np.uint8)


@contextmanager
def without_tls() -> Iterator[Workers]:
    """Start the cluster that Dask starts."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield OnDask(client)


def spent(client: Any) -> float:
    """Return the CPU seconds of this process and its workers."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    workers = sum(client.run(time.process_time).values()) if client is not None else 0.0
    return own.ru_utime + own.ru_stime + workers


FIT_SHAPES = ((120_000, 200), (800_000, 30), (60_000, 400), (20_000, 1200), (20_000, 400))
LARGER_SHAPES = ((360_000, 200), (2_400_000, 30), (60_000, 1200))
FITS: dict[str, tuple[Callable[[], Any], ...]] = {
    "fgm": (
        lambda: daskfs.FGM(10, n_features_per_pass=5, loss="squared"),
        lambda: daskfs.FGM(20, n_features_per_pass=5, loss="squared"),
    ),
    "online_substitution": (
        lambda: daskfs.OnlineSubstitution(10, n_epochs=1),
        lambda: daskfs.OnlineSubstitution(20, n_epochs=1),
    ),
    "online_substitution, screened": (
        lambda: daskfs.OnlineSubstitution(10, n_epochs=1, schedule="screen"),
        lambda: daskfs.OnlineSubstitution(20, n_epochs=1, schedule="screen"),
    ),
    "async_online_substitution": (
        lambda: daskfs.AsyncOnlineSubstitution(10, schedule="synchronous", n_epochs=1),
        lambda: daskfs.AsyncOnlineSubstitution(20, schedule="synchronous", n_epochs=1),
    ),
    "mission": (lambda: daskfs.Mission(20, n_epochs=1), lambda: daskfs.Mission(20, n_epochs=3)),
    "message": (lambda: daskfs.Message(subset_size=4000),),
    "message, logistic": (lambda: daskfs.Message(subset_size=4000, loss="logistic"),),
}


def made_store(folder: str, shape: tuple[int, int], is_binary: bool = False) -> Any:
    """Return a store of Gaussian columns, of which ten explain the target."""
    path = Path(folder, f"{shape[0]}x{shape[1]}{'-binary' * is_binary}.zarr")
    if not path.exists():
        rng = np.random.default_rng(0)
        X = rng.standard_normal(shape, dtype=np.float32)
        y = X[:, :10].astype(float).sum(axis=1) + rng.standard_normal(len(X))
        daskfs.ingest(X, path, y=(y > 0.0).astype(float) if is_binary else y)
    return daskfs.open_store(path)


def cpu_of(work: Callable[[], Any], n_tried: int = 2) -> float:
    """Return the least CPU seconds of this process that some work takes; what is compiled is compiled before."""
    tried = []
    for _ in range(n_tried):
        started = time.process_time()
        work()
        tried.append(time.process_time() - started)
    return min(tried)


def read_whole(store: Any) -> None:
    """Read all rows once."""
    for block in store.row_blocks():
        del block


def fit_costs(folder: str | None = None, only: Sequence[str] = ()) -> None:
    """Print what reading and each operation take, fitted to some shapes, and runs three times larger than those."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return fit_costs(made, only)
    shapes, n_fitted = FIT_SHAPES + LARGER_SHAPES, len(FIT_SHAPES)
    stores = [made_store(folder, shape) for shape in shapes]
    reads = np.array([cpu_of(partial(read_whole, store)) for store in stores])
    nbytes = np.array([4.0 * n * p for n, p in shapes])
    per_byte = float(nnls(nbytes[:n_fitted, None] / reads[:n_fitted, None], np.ones(n_fitted))[0][0])
    print(
        "| | seconds of a core for each | fitted runs off by | three times larger | off by |\n|---|---|---|---|---|",
        flush=True,
    )
    off = per_byte * nbytes / reads - 1.0
    print(told("read", [f"{1e-9 / per_byte:.2f} GB/s"], off, [off[n_fitted:]], n_fitted), flush=True)
    for name, makes in ((name, FITS[name]) for name in only or FITS):
        its_stores = [made_store(folder, shape, True) for shape in shapes] if "logistic" in name else stores
        makes[0]().fit(its_stores[0])
        rows, took = [], []
        for shape, store in zip(shapes, its_stores, strict=True):
            for make in makes:
                plan = make().plan(*shape, "float32", None, tile_shape=store.tile_shape)
                rows.append({**plan.work.by_tasks, **plan.work.in_client})
                took.append(cpu_of(partial(lambda make, store: make().fit(store), make, store)))
        units, n_rows = [*dict.fromkeys(unit for row in rows for unit in row)], n_fitted * len(makes)
        counts, seconds = np.array([[row.get(unit, 0.0) for unit in units] for row in rows]), np.array(took)
        constants = nnls(counts[:n_rows] / seconds[:n_rows, None], np.ones(n_rows))[0]
        off = counts @ constants / seconds - 1.0
        larger = off[n_rows:].reshape(-1, len(makes)).T
        said = [f"{unit} {constant:.3g}" for unit, constant in zip(units, constants, strict=True)]
        print(told(name, said, off, larger, n_rows), flush=True)
    return None


def told(name: str, constants: list[str], off: np.ndarray, larger: Any, n_fitted: int) -> str:
    """Return a row of the table of fits."""
    shapes = ", ".join(f"{n:,} x {p}" for n, p in LARGER_SHAPES)
    each = "; ".join(", ".join(f"{one:+.0%}" for one in of_setting) for of_setting in larger)
    within = f"{off[:n_fitted].min():+.0%} to {off[:n_fitted].max():+.0%}"
    return f"| {name} | {', '.join(constants)} | {within} | {shapes} | {each} |"


def of_latency() -> None:
    """Print how many requests a reader has on their way, from stores that answer after up to 200 ms."""
    shape, waits = (40_000, 1000), (0.0, 0.05, 0.1, 0.2)
    took = []
    with tempfile.TemporaryDirectory() as folder:
        store = made_store(folder, shape)
        Path(folder, "bench").mkdir()
        Path(store.path).rename(Path(folder, "bench", "x.zarr"))
        for latency_s in waits:
            serve = [sys.executable, str(Path(__file__).with_name("object_store.py")), "--serve"]
            command = [*serve, str(Path(folder, "bench")), "--latency", str(latency_s)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
                read = subprocess.run(
                    [sys.executable, __file__, "--read", (server.stdout or sys.stdin).readline()],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                server.communicate("\n")
                took.append(min(map(float, read.stdout.split())))
    n_requests = 4.0 * shape[0] * shape[1] / TILE_NBYTES
    slope = np.polyfit(waits[1:], took[1:], 1)[0]
    print(f"| {n_requests:.0f} tiles of 4 MiB | " + " | ".join(f"{1e3 * wait:.0f} ms" for wait in waits))
    print("|---" * (1 + len(waits)) + "|")
    print("| wall seconds to read all once | " + " | ".join(f"{one:.2f}" for one in took) + " |")
    print(f"\nrequests on their way at once: {n_requests / slope:.1f}")


def read_from(environment: str) -> None:
    """Print the wall seconds that reading a store takes, whose server says how it is reached."""
    os.environ |= json.loads(environment)
    store = daskfs.open_store("s3://bench/x.zarr")
    for _ in range(4):  # more are asked for ahead from pass to pass
        started = time.perf_counter()
        read_whole(store)
        print(time.perf_counter() - started)


QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.memory.monitor-interval": "10s",
}
"""What each of 200 workers of one process would do a hundred times a second."""


def many_workers(address: str, n_workers: int, security: Any) -> None:
    """Be so many workers, in one event loop."""

    async def run() -> None:
        options = {"nthreads": 1, "memory_limit": 0, "dashboard": False, "security": security}
        workers = [distributed.Worker(address, name=k, **options) for k in range(n_workers)]
        for worker in workers:
            await worker
        await workers[0].finished()

    cluster_workers._TOGETHER_S = 0.0  # each block is a task
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set(QUIET):
        asyncio.run(run())


def of_scheduler() -> None:
    """Print what a task that does nothing takes of the scheduler and the client with 2 to 200 workers, over TLS."""
    print("| workers | up after, s | waiting, CPU ms a second | tasks | CPU ms for a task | tasks a second at most |")
    print("|---|---|---|---|---|---|")
    security = distributed.Security.temporary()
    for n_workers in (2, 20, 50, 100, 200):
        cluster = distributed.LocalCluster(
            n_workers=0, protocol="tls://", security=security, dashboard_address=None, host="127.0.0.1"
        )
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            started, context = time.perf_counter(), multiprocessing.get_context("spawn")
            process = context.Process(
                target=many_workers, args=(cluster.scheduler_address, n_workers, security), daemon=True
            )
            process.start()
            client.wait_for_workers(n_workers, timeout=300)
            up_s, workers, n_tasks = time.perf_counter() - started, OnDask(client), max(1000, 10 * n_workers)
            marks = [time.process_time()]
            time.sleep(3.0)
            marks.append(time.process_time())
            for _ in workers.map_blocks(same, range(n_tasks), name="nothing"):
                pass
            waiting, busy = np.diff([*marks, time.process_time()])
            row = f"| {n_workers} | {up_s:.1f} | {1e3 * waiting / 3.0:.0f} | {n_tasks:,}"
            print(f"{row} | {1e3 * busy / n_tasks:.2f} | {n_tasks / busy:,.0f} |", flush=True)
            process.terminate()
            process.join()


def model_table() -> None:
    """Print what the model says of data that are not there: on so many workers of a core each."""
    rows, columns, selected = 1e9, 1e6, 20
    values, entries = rows * columns, 29.0 * rows
    held = rows * sum(5 * (k + 1) for k in range(4))
    jobs: dict[str, tuple[str, float, int, Work | None]] = {
        "ingest of 10^9 x 10^6 float32": ("ingest", 4.0 * values, 1, None),
        "MESSAGE, 100,001 subsets": ("message", 4.0 * values, 1, Work({"values": values})),
        "FGM, 20 features in 4 passes": (
            "fgm",
            20.0 * values,
            5,
            Work({"values": 5 * values}, {"values selected beyond the cache": held}),
        ),
        "Mission, one pass, 1,000 replicas": (
            "mission",
            4.0 * values,
            1,
            Work(
                {"values": values, "rows": rows, "values surveyed": values, "products of candidates": 4e9},
                n_at_once=1000,
            ),
        ),
        "online substitution, screened, 20 columns": (
            "online_substitution",
            4.0 * values,
            1,
            Work(
                {
                    "values, screened": values,
                    "products with selected columns beyond the cache, screened": selected * values,
                },
                {"values exchanged": rows * selected * selected * (1.0 + np.log(columns / selected))},
            ),
        ),
        "FGM, 10^14 products, 10^9 rows of 29 entries, 7 passes": (
            "fgm",
            6.0 * entries * 7,
            7,
            Work({"entries paired": 7 * entries}),
        ),
    }
    workers = (1, 10, 100, 1000)
    print(
        f"| job | {' | '.join(f'{n:,} worker{chr(115) * (n > 1)}' for n in workers)} | bound at 1,000 by | scheduler |"
    )
    print("|---" * (3 + len(workers)) + "|")
    for name, (method, nbytes, n_passes, work) in jobs.items():
        n_tasks = int(min(nbytes // 2**26, 64_000 * n_passes))
        costs = [cost_of_step(method, nbytes, n_passes, n_tasks, n, MEASURED, work=work) for n in workers]
        load = n_tasks * MEASURED.task_s / costs[-1].seconds
        said = f"{n_tasks / costs[-1].seconds:,.0f} tasks a second, {load:.0%} of it"
        print(f"| {name} | {' | '.join(shown_s(one.seconds) for one in costs)} | {costs[-1].bound} | {said} |")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    choices = {"fit": fit_costs, "latency": of_latency, "tasks": of_scheduler, "table": model_table}
    for name, function in choices.items():
        what.add_argument(f"--{name}", dest="what", action="store_const", const=function, default=clusters)
    what.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help="with --fit: where stores are kept")
    parser.add_argument("--only", nargs="+", choices=FITS, default=(), help="with --fit: these methods")
    options = parser.parse_args()
    if options.read:
        read_from(options.read)
    elif options.what is fit_costs:
        fit_costs(options.folder, options.only)
    else:
        options.what()


def clusters() -> None:
    """Print what starting, a task and arrays take."""
    print("| | start, CPU s | task, CPU ms | to the client, MB per CPU s | to two workers, MB per CPU s |")
    print("|---|---|---|---|---|")
    for name, opened in (("TLS", partial(open_cluster, "local", n_workers=2)), ("without", without_tls)):
        before = spent(None)
        with opened() as workers:
            at = [before, spent(workers.client)]
            for _ in workers.map_blocks(same, range(N_TASKS), name="nothing"):
                pass
            at.append(spent(workers.client))
            for _ in workers.map_blocks(ones, [ARRAY_NBYTES] * N_ARRAYS, name="arrays"):
                pass
            at.append(spent(workers.client))
            workers.client.scatter(ones(ARRAY_NBYTES), broadcast=True, hash=False)
            at.append(spent(workers.client))
        start, tasks, down, up = np.diff(at)
        speeds = f"{N_ARRAYS * ARRAY_NBYTES / 1e6 / down:.0f} | {2 * ARRAY_NBYTES / 1e6 / up:.0f}"
        print(f"| {name} | {start:.2f} | {1e3 * tasks / N_TASKS:.2f} | {speeds} |", flush=True)


if __name__ == "__main__":
    main()
