"""A store on an S3 server 50 ms away against the same store on the local disk: wall time, memory, requests.

    python benchmarks/object_store.py [--rows 60000] [--latency 0.05] [--rounds 2] [METHOD ...]

The server is a process of its own, that of the tests, and waits so long before each answer. Rounds are interleaved,
each fit is a process of its own with its kernels compiled, and of each place the best wall time is told.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - behind the path of the tests

SELECTORS: dict[str, dict[str, Any]] = {
    "fgm": {"n_features_to_select": 40, "n_features_per_pass": 4},
    "message": {"n_subsets": 12},
    "online_substitution": {"n_features_to_select": 20},
    "mission": {"n_features_to_select": 20},
}
LIMIT = 512 * 2**20
"""Bytes of a task."""


def make_store(path: Path, n_samples: int, n_features: int) -> None:
    """Write a store of Gaussian columns, of which ten explain the target."""
    import daskfs

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    y = X[:, :: n_features // 10][:, :10] @ np.linspace(1.0, 0.3, 10) + rng.standard_normal(n_samples)
    daskfs.ingest(X, path, y=y, memory_limit="2GiB")


def serve(folder: Path, latency_s: float) -> None:
    """Serve a folder as the bucket "bench" until the input ends; say where and, at the end, what was asked."""
    from tests.objects.server import ObjectServer

    with ObjectServer(latency_s=latency_s) as server:
        for file in folder.rglob("*"):
            if file.is_file():
                server.put(f"bench/{file.relative_to(folder).as_posix()}", file.read_bytes())
        print(json.dumps(server.environment), flush=True)
        sys.stdin.readline()
        print(json.dumps({"requests": sum(server.seen.values()), "at_once": server.most_at_once}), flush=True)


def fit(method: str, address: str) -> None:
    """Fit once to compile, on a few rows in memory, then to the store; print what it took."""
    import daskfs
    from daskfs.cluster.memory import peak_memory_nbytes
    from daskfs.methods import METHODS, load

    selector = load(METHODS[method])(**SELECTORS[method], memory_limit=LIMIT)
    store = daskfs.open_store(address)
    few = store.take(np.arange(min(3000, store.shape[0])))
    load(METHODS[method])(**SELECTORS[method], memory_limit=LIMIT).fit(few)
    before, begun, cpu = peak_memory_nbytes(), time.perf_counter(), time.process_time()
    selector.fit(store)
    took = {"wall_s": time.perf_counter() - begun, "cpu_s": time.process_time() - cpu}
    n_samples, n_features = store.shape
    plan = selector.plan(
        n_samples, n_features, store.dtype, LIMIT, tile_shape=store.tile_shape, ahead_nbytes=store.ahead_nbytes
    )
    grown = max(0, peak_memory_nbytes() - before)
    promised = plan.task_nbytes + plan.client_nbytes
    print(json.dumps({**took, "grown": grown, "promised": promised, "selected": selector.selected_.tolist()}))


def measured(method: str, address: str, environment: dict[str, str]) -> dict[str, Any]:
    """Return what a fit in a process of its own took."""
    command = [sys.executable, __file__, "--fit", method, address]
    alone = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, env={**os.environ, **alone, **environment}, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--columns", type=int, default=2000)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--fit", nargs=2)
    parser.add_argument("--serve", type=Path)
    given = parser.parse_args()
    if given.fit:
        return fit(*given.fit)
    if given.serve:
        return serve(given.serve, given.latency)
    with tempfile.TemporaryDirectory(prefix="daskfs-objects-") as scratch:
        make_store(Path(scratch, "x.zarr"), given.rows, given.columns)
        command = [sys.executable, __file__, "--serve", scratch, "--latency", str(given.latency)]
        print(f"{given.rows:,} rows x {given.columns:,} columns, {1000 * given.latency:.0f} ms a request\n")
        print("| method | disk, s | S3, s | ratio | CPU s more | memory of promise, disk | S3 | requests | at once |")
        print("|---|---|---|---|---|---|---|---|---|")
        for method in given.methods or SELECTORS:
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
                assert server.stdin is not None
                assert server.stdout is not None
                environment = json.loads(server.stdout.readline())
                disk, remote = [], []
                for _ in range(given.rounds):
                    disk.append(measured(method, f"{scratch}/x.zarr", {}))
                    remote.append(measured(method, "s3://bench/x.zarr", environment))
                print(file=server.stdin, flush=True)
                seen = json.loads(server.stdout.readline())
            assert all(one["selected"] == disk[0]["selected"] for one in disk + remote)
            one, other = (min(each, key=lambda found: found["wall_s"]) for each in (disk, remote))
            ratios = [f"{found['grown'] / 2**20:.0f} of {found['promised'] / 2**20:.0f} MiB" for found in (one, other)]
            print(
                f"| {method} | {one['wall_s']:.1f} | {other['wall_s']:.1f} | {other['wall_s'] / one['wall_s']:.2f} "
                f"| {other['cpu_s'] - one['cpu_s']:+.1f} | {ratios[0]} | {ratios[1]} "
                f"| {seen['requests'] // given.rounds} | {seen['at_once']} |",
                flush=True,
            )
    return None


if __name__ == "__main__":
    main()
