"""A store on an S3 server 50 ms away against the same store on the local disk: wall time, memory, requests.

    python benchmarks/object_store.py [--rows 200000 --columns 5000] [--latency 0.05] [--rounds 1] [METHOD ...]
    python benchmarks/object_store.py --rows 40000 --columns 2000 --places disk,far,filling,kept --rounds 2
    python benchmarks/object_store.py --workers 2 --rows 40000 --columns 2000 --rounds 2 fgm message

Places: the local disk; the server alone (far); the server with a cache on the local disk that is empty (filling), and
that the fit before has filled (kept). The server is a process of its own, that of the tests, and waits so long before
each answer; what it serves it reads from the same files. Rounds are interleaved, each fit is a process of its own with
its kernels compiled, and of each place the best wall time, with opening the store, is told. The first command takes a
machine of two cores about six minutes, 5 GB of memory and 9 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - behind the path of the tests

PLACES = ("disk", "far", "filling", "kept")
SELECTORS: dict[str, dict[str, Any]] = {
    "fgm": {"n_features_to_select": 40, "n_features_per_pass": 1},
    "message": {"n_subsets": 12},
    "online_substitution": {"n_features_to_select": 20},
    "mission": {"n_features_to_select": 20},
}
LIMIT = 2**30
"""Bytes of a task."""


def make_store(path: Path, n_samples: int, n_features: int) -> None:
    """Write a store of Gaussian columns, of which ten explain the target."""
    import daskfs

    rng = np.random.default_rng(0)
    X = np.empty((n_samples, n_features), np.float32)
    for start in range(0, n_samples, 20_000):
        rng.standard_normal(out=X[start : start + 20_000], dtype=np.float32)
    y = X[:, :: n_features // 10][:, :10] @ np.linspace(1.0, 0.3, 10) + rng.standard_normal(n_samples)
    daskfs.ingest(X, path, y=y, memory_limit="2GiB", shuffle=False)


def serve(folder: Path, latency_s: float) -> None:
    """Serve a folder as the bucket "bench" until the input ends; say where and, at the end, what was asked."""
    from tests.objects.server import ObjectServer

    with ObjectServer(latency_s=latency_s) as server:
        for path in folder.rglob("*"):
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file:
                    content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                server.objects[f"bench/{path.relative_to(folder).as_posix()}"] = content, f"{len(content)}", time.time()
        print(json.dumps(server.environment), flush=True)
        while sys.stdin.readline():
            print(json.dumps({"requests": sum(server.seen.values()), "at_once": server.most_at_once}), flush=True)
            server.seen.clear()
            server.most_at_once = 0


def fit(method: str, address: str, n_workers: int) -> None:
    """Fit once to a few rows, which compiles and connects, then to the store; print what it took."""
    import daskfs
    from daskfs.cluster.memory import peak_memory_nbytes
    from daskfs.methods import METHODS, load

    make, few = load(METHODS[method]), daskfs.open_store(address.replace("x.zarr", "few.zarr"))
    make(**SELECTORS[method], memory_limit=LIMIT).fit(few)
    with ExitStack() as stack:
        client = None
        if n_workers:
            client = stack.enter_context(daskfs.open_cluster("local", n_workers=n_workers)).client
            make(**SELECTORS[method], memory_limit=LIMIT, client=client).fit(few)
        selector = make(**SELECTORS[method], memory_limit=LIMIT, client=client)
        before, begun, cpu = peak_memory_nbytes(), time.perf_counter(), time.process_time()
        store = daskfs.open_store(address)
        selector.fit(store)
        took = {"wall_s": time.perf_counter() - begun, "cpu_s": time.process_time() - cpu}
    n_samples, n_features = store.shape
    plan = selector.plan(
        n_samples, n_features, store.dtype, LIMIT, tile_shape=store.tile_shape, ahead_nbytes=store.ahead_nbytes
    )
    grown = max(0, peak_memory_nbytes() - before)
    promised = plan.task_nbytes + plan.client_nbytes
    print(json.dumps({**took, "grown": grown, "promised": promised, "selected": selector.selected_.tolist()}))


def measured(method: str, address: str, environment: dict[str, str], n_workers: int) -> dict[str, Any]:
    """Return what a fit in a process of its own took."""
    command = [sys.executable, __file__, "--fit", method, address, "--workers", str(n_workers)]
    alone = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, env={**os.environ, **alone, **environment}, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def compare(method: str, scratch: Path, places: list[str], latency_s: float, n_rounds: int, n_workers: int) -> None:
    """Print the lines of one method."""
    command = [sys.executable, __file__, "--serve", str(scratch), "--latency", str(latency_s)]
    found: dict[str, list[dict[str, Any]]] = {place: [] for place in places}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        environment = json.loads(server.stdout.readline())
        cache = scratch.with_name(f"{scratch.name}-cache")
        for _ in range(n_rounds):
            shutil.rmtree(cache, ignore_errors=True)
            for place in places:
                more = {"DASKFS_CACHE": str(cache) if place in ("filling", "kept") else "none"}
                where = (f"{scratch}/x.zarr", {}) if place == "disk" else ("s3://bench/x.zarr", environment | more)
                took = measured(method, *where, n_workers)
                print(file=server.stdin, flush=True)
                found[place].append(took | json.loads(server.stdout.readline()))
        shutil.rmtree(cache, ignore_errors=True)
        server.stdin.close()
    first = found[places[0]]
    assert all(one["selected"] == first[0]["selected"] for several in found.values() for one in several)
    best = {place: min(several, key=lambda one: one["wall_s"]) for place, several in found.items()}
    for place, one in best.items():
        memory = "" if n_workers else f"{one['grown'] / 2**20:.0f} of {one['promised'] / 2**20:.0f} MiB"
        print(
            f"| {method} | {place} | {one['wall_s']:.1f} | {one['wall_s'] / best[places[0]]['wall_s']:.2f} "
            f"| {one['cpu_s']:.1f} | {memory} | {one['requests']} | {one['at_once']} |",
            flush=True,
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=5000)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--places", default="disk,filling,kept", help="of " + ",".join(PLACES))
    parser.add_argument("--workers", type=int, default=0, help="processes beside the client")
    parser.add_argument("--store", type=Path, help="a folder that holds x.zarr and few.zarr; made anew by default")
    parser.add_argument("--fit", nargs=2)
    parser.add_argument("--serve", type=Path)
    given = parser.parse_args()
    if given.fit:
        return fit(*given.fit, given.workers)
    if given.serve:
        return serve(given.serve, given.latency)
    places = given.places.split(",")
    with tempfile.TemporaryDirectory(prefix="daskfs-objects-") as made:
        scratch = Path(given.store or made)
        if given.store is None:
            make_store(scratch / "x.zarr", given.rows, given.columns)
            make_store(scratch / "few.zarr", 3000, given.columns)
        print(f"{given.rows:,} rows x {given.columns:,} columns, {1000 * given.latency:.0f} ms a request\n")
        print("| method | store | s | ratio | CPU s | memory of promise | requests | at once |")
        print("|---|---|---|---|---|---|---|---|")
        for method in given.methods or SELECTORS:
            compare(method, scratch, places, given.latency, given.rounds, given.workers)
    return None


if __name__ == "__main__":
    main()
