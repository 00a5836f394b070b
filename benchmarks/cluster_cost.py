"""What a cluster costs: requests in flight, tasks and passes. `benchmarks.scale` measures these for the cost model."""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask
import distributed
import numpy as np

import daskfs
from daskfs.cluster import dask_workers
from daskfs.cluster.dask_workers import OnDask
from daskfs.cluster.open import open_cluster
from daskfs.pipeline.cost import TILE_NBYTES


def same(item: int) -> int:
    """Do nothing."""
    return item


def of_latency() -> float:
    """Return how many requests a reader has in flight, from reads of stores that answer after 50 to 200 ms."""
    from benchmarks.jobs.object_store import start_server

    shape, waits, took = (40_000, 1000), (0.05, 0.1, 0.2), []
    with tempfile.TemporaryDirectory() as folder:
        X = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        Path(folder, "bench").mkdir()
        daskfs.ingest(X, Path(folder, "bench", "x.zarr"))
        for latency_s in waits:
            command = [sys.executable, "-c", "from benchmarks.cluster_cost import read; read()"]
            environment = {**os.environ, **start_server(Path(folder, "bench"), latency_s)}
            read = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            took.append(min(json.loads(read.stdout)))
    n_requests = 4.0 * shape[0] * shape[1] / TILE_NBYTES
    return float(n_requests / np.polyfit(waits, took, 1)[0])


def read() -> None:
    """Print the wall seconds of four reads of a store; more is asked for ahead from pass to pass."""
    store, took = daskfs.open_store("s3://bench/x.zarr"), []
    for _ in range(4):
        started = time.perf_counter()
        for block in store.row_blocks():
            del block
        took.append(time.perf_counter() - started)
    print(json.dumps(took))


QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "10s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.worker.memory.monitor-interval": "10s",
}
"""What each of 50 workers of one process would do a hundred times a second."""


def many_workers(address: str, n_workers: int, security: Any) -> None:
    """Be so many workers, in one event loop."""

    async def run() -> None:
        options = {"nthreads": 1, "memory_limit": 0, "dashboard": False, "security": security}
        workers = [distributed.Worker(address, name=k, **options) for k in range(n_workers)]
        for worker in workers:
            await worker
        await workers[0].finished()

    dask_workers._TOGETHER_S = 0.0  # each block is a task
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set(QUIET):
        asyncio.run(run())


def of_scheduler(n_workers: int = 50, n_tasks: int = 1000) -> float:
    """Return the CPU seconds of scheduler and client for a task that does nothing, over TLS."""
    security = distributed.Security.temporary()
    cluster = distributed.LocalCluster(
        n_workers=0, protocol="tls://", security=security, dashboard_address=None, host="127.0.0.1"
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        arguments = (cluster.scheduler_address, n_workers, security)
        process = multiprocessing.get_context("spawn").Process(target=many_workers, args=arguments, daemon=True)
        process.start()
        client.wait_for_workers(n_workers, timeout=300)
        started = time.process_time()
        for _ in OnDask(client).map_blocks(same, range(n_tasks), name="nothing"):
            pass
        took = time.process_time() - started
        process.terminate()
        process.join()
    return took / n_tasks


def of_round_trips(n_tried: int = 30) -> float:
    """Return the wall seconds of a pass of one task that does nothing, the least of some."""
    with open_cluster("local", n_workers=2) as workers:
        took = []
        for _ in range(n_tried):
            started = time.perf_counter()
            for _ in workers.map_blocks(same, range(1), name="nothing"):
                pass
            took.append(time.perf_counter() - started)
    return min(took)
