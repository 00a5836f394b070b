"""What a cluster of processes costs: its start, a task that does nothing, arrays on their way; with and without TLS.

    python benchmarks/cluster_cost.py            a table of these
    python benchmarks/cluster_cost.py --latency  requests on their way at once, of stores that answer late
    python benchmarks/cluster_cost.py --tasks    the scheduler with 2 to 200 workers that do nothing

`--tasks` counts CPU seconds of the scheduler with the client, the workers being in a process of their own. What these
say is part of the cost model: `benchmarks.scale`.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np

import daskfs
from daskfs.cluster import workers as cluster_workers
from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import OnDask, Workers
from daskfs.pipeline.cost import TILE_NBYTES

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


def read_whole(store: Any) -> None:
    """Read all rows once."""
    for block in store.row_blocks():
        del block


def of_latency() -> float:
    """Print and return how many requests a reader has on their way, from stores that answer after up to 200 ms."""
    shape, waits = (40_000, 1000), (0.0, 0.05, 0.1, 0.2)
    took = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bench").mkdir()
        X = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        daskfs.ingest(X, Path(folder, "bench", "x.zarr"))
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
    return float(n_requests / slope)


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


def of_scheduler(numbers: Sequence[int] = (2, 20, 50, 100, 200)) -> float:
    """Print what a task that does nothing takes of the scheduler and the client, over TLS; return the last seconds."""
    print("| workers | up after, s | waiting, CPU ms a second | tasks | CPU ms for a task | tasks a second at most |")
    print("|---|---|---|---|---|---|")
    security = distributed.Security.temporary()
    for n_workers in numbers:
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
    return float(busy / n_tasks)


def of_round_trips(n_tried: int = 30) -> float:
    """Return the wall seconds of a pass of one task that does nothing, the least of some."""
    with open_cluster("local", n_workers=2) as workers:
        took = []
        for _ in range(n_tried):
            started = time.perf_counter()
            for _ in workers.map_blocks(same, range(1), name="nothing"):
                pass
            took.append(time.perf_counter() - started)
    print(f"a pass of one task that does nothing: {1e3 * min(took):.1f} ms")
    return min(took)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    choices = {"latency": of_latency, "tasks": of_scheduler}
    for name, function in choices.items():
        what.add_argument(f"--{name}", dest="what", action="store_const", const=function, default=clusters)
    what.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read_from(options.read)
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
