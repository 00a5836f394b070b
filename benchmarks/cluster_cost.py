"""What a cluster of processes costs: its start, a task that does nothing, arrays on their way; with and without TLS."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import distributed
import numpy as np

from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import OnDask, Workers

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


def main() -> None:
    """Print a table."""
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
