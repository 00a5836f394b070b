"""Mission on worker processes: what two models side by side gain on one, from a store.

    python benchmarks/mission_workers.py [--rows 50000] [--columns 1000] [--rounds 3]

Dense float32 rows, logistic loss, one pass without a refit. One model learns in this process; two are averaged every
so many rows, in this process and on two processes, with the same result. Wall seconds, and CPU seconds of all
processes in brackets; by turns, the medians after a round that is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from small_blocks import cpu_seconds, make_table

import daskfs
from daskfs.cluster.open import open_cluster

SYNC_EVERY = (1000, 5000, 25_000)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    title = "| averaged every | one model | two, here | two, on two processes | one model / two processes |"
    print(f"{title}\n|{'---|' * 5}")
    with ExitStack() as stack:
        store = make_table(
            Path(stack.enter_context(tempfile.TemporaryDirectory())) / "rows.zarr",
            options.rows,
            options.columns,
            "logistic",
        )
        processes = stack.enter_context(open_cluster("local", 2)).client
        for every in SYNC_EVERY:
            jobs = {"one": (1, None), "here": (2, None), "processes": (2, processes)}
            seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in jobs}
            for _ in range(options.rounds + 1):
                for name, (n_replicas, client) in jobs.items():
                    given = {"n_replicas": n_replicas, "sync_every": every, "n_epochs": 1, "refit": None}
                    selector = daskfs.Mission(20, "logistic", client=client, **given)
                    before, started = cpu_seconds(client), time.perf_counter()
                    selector.fit(store)
                    seconds[name].append((time.perf_counter() - started, cpu_seconds(client) - before))
            wall, cpu = np.transpose([np.median(found[1:], axis=0) for found in seconds.values()])
            cells = " | ".join(f"{w:.2f} ({c:.2f})" for w, c in zip(wall, cpu, strict=True))
            print(f"| {every:,} rows | {cells} | {wall[0] / wall[2]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
