"""What a cluster of processes costs: its start, a task that does nothing, arrays on their way; with and without TLS.

    python benchmarks/cluster_cost.py            a table of these
    python benchmarks/cluster_cost.py --fit      the constants of `daskfs.pipeline.cost`, and runs three times larger
    python benchmarks/cluster_cost.py --tasks    the scheduler with 2 to 200 workers that do nothing
    python benchmarks/cluster_cost.py --table    what the model says of 10^9 rows x 10^6 columns and 10^14 features

`--fit` counts CPU seconds of one process: of reading a store, and of fits of growing stores, to which a line is fitted.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import distributed
import numpy as np

import daskfs
from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import OnDask, Workers
from daskfs.pipeline.cost import MEASURED, cost_of_step, shown_s

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


def fit_costs() -> None:
    """Print what reading and each value take, fitted to three sizes, and a run three times larger than those."""
    sizes, columns = (40_000, 80_000, 120_000, 360_000), 200
    methods: dict[str, Callable[[], Any]] = {
        "message": lambda: daskfs.Message(subset_size=4000),
        "fgm": lambda: daskfs.FGM(20, n_features_per_pass=5, loss="squared"),
        "online_substitution": lambda: daskfs.OnlineSubstitution(20, n_epochs=1),
        "mission": lambda: daskfs.Mission(20, n_epochs=1),
    }
    rng = np.random.default_rng(0)
    spent_s: dict[str, list[float]] = {name: [] for name in ("read", *methods)}
    values: dict[str, list[float]] = {name: [] for name in spent_s}
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            X = rng.standard_normal((n, columns), dtype=np.float32)
            y = X[:, :10].astype(float).sum(axis=1) + rng.standard_normal(n)
            store = daskfs.ingest(X, f"{folder}/{n}.zarr", y=y)
            for name in spent_s:
                tried = []
                for _ in range(3):
                    store = daskfs.open_store(store.path)
                    started = time.process_time()
                    if name == "read":
                        for block in store.row_blocks():
                            del block
                    else:
                        methods[name]().fit(store)
                    tried.append(time.process_time() - started)
                spent_s[name].append(min(tried))
                plan = (
                    None
                    if name == "read"
                    else methods[name]().plan(n, columns, "float32", None, tile_shape=store.tile_shape)
                )
                values[name].append(X.size if plan is None else plan.read_nbytes / 4)
    print("| | seconds of a core for a value that is read | predicted, CPU s | measured, CPU s | off by |")
    print("|---|---|---|---|---|")
    for name in spent_s:
        slope, start = np.polyfit(values[name][:3], spent_s[name][:3], 1)
        predicted, measured = start + slope * values[name][3], spent_s[name][3]
        print(f"| {name} | {slope:.3g} | {predicted:.3f} | {measured:.3f} | {predicted / measured - 1.0:+.0%} |")


def of_scheduler() -> None:
    """Print what a task that does nothing takes with 2 to 200 workers, all in this process."""
    print("| workers | tasks | CPU ms for a task, scheduler, client and workers |\n|---|---|---|")
    for n_workers in (2, 20, 200):
        how = {"n_workers": n_workers, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
        with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster, set_as_default=False) as client:
            started, n_tasks = time.process_time(), 1000
            for _ in OnDask(client).map_blocks(same, range(n_tasks), name="nothing"):
                pass
            print(f"| {n_workers} | {n_tasks} | {1e3 * (time.process_time() - started) / n_tasks:.2f} |", flush=True)


def model_table() -> None:
    """Print what the model says of data that are not there."""
    rows, columns, pairs_passes = 10**9, 10**6, 7
    entries = 29.0 * rows * pairs_passes
    jobs = {
        "ingest of 10^9 x 10^6 float32": ("ingest", 4.0 * rows * columns, 1, 4),
        "MESSAGE, one pass": ("message", 4.0 * rows * columns, 1, 4),
        "FGM, 10 passes": ("fgm", 40.0 * rows * columns, 10, 4),
        "Mission, one pass": ("mission", 4.0 * rows * columns, 1, 4),
        "FGM, 10^14 products, 10^9 rows of 29 entries, 7 passes": ("pairs", 6 * entries, pairs_passes, 6),
    }
    # 1.01e14 products of 14.2 million dummies over a million rows took 52 CPU seconds: benchmarks/fgm_pairs.py
    machine = replace(MEASURED, work_s=MEASURED.work_s | {"pairs": 52.0 / (29e6 * pairs_passes)})
    print("| job | 1 worker | 10 | 100 | 1,000 | bound at 1,000 by |\n|---|---|---|---|---|---|")
    for name, (method, nbytes, n_passes, itemsize) in jobs.items():
        n_tasks = int(min(nbytes // 2**26, 64_000 * n_passes))
        costs = [cost_of_step(method, nbytes, itemsize, n_passes, n_tasks, n, machine) for n in (1, 10, 100, 1000)]
        print(f"| {name} | {' | '.join(shown_s(one.seconds) for one in costs)} | {costs[-1].bound} |")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    for name, function in (("fit", fit_costs), ("tasks", of_scheduler), ("table", model_table)):
        what.add_argument(f"--{name}", dest="what", action="store_const", const=function, default=clusters)
    parser.parse_args().what()


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
