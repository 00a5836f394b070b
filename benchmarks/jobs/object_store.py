"""Fits from a store on a server that answers late, against the local disk; with a cache, and without."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, Contender, Job

LATENCY_S = 0.05
SELECTORS: dict[str, dict[str, Any]] = {
    "FGM": {"n_features_to_select": 40, "n_features_per_pass": 1},
    "Message": {"n_subsets": 12},
    "OnlineSubstitution": {"n_features_to_select": 20},
    "Mission": {"n_features_to_select": 20},
}


@dataclass
class Bucket:
    """A folder with a store, and how a server of it is reached."""

    folder: Path
    method: str
    support: np.ndarray
    environment: dict[str, str] = field(default_factory=dict)
    """Empty: the store is read from the local disk."""


def bucket(folder: Path, seed: int, method: str, n_samples: int, n_features: int) -> Bucket:
    """Write a store of normal columns, of which ten explain the target."""
    import daskfs

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    support = np.arange(10) * (n_features // 10)
    y = X[:, support] @ np.linspace(1.0, 0.3, 10) + rng.standard_normal(n_samples)
    (folder / "bench").mkdir()
    daskfs.ingest(X, folder / "bench" / "x.zarr", y=y, memory_limit="2GiB", shuffle=False)
    return Bucket(folder / "bench", method, support)


def start_server(folder: Path, latency_s: float) -> dict[str, str]:
    """Start a server of a folder; return what reaches it. It ends with this process, and is not one of its children."""
    command = [sys.executable, "-c", "from benchmarks.jobs.object_store import serve; serve()", str(folder)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen([*command, str(latency_s)], env=environment, **pipes)
    assert server.stdout is not None
    reached: dict[str, str] = json.loads(server.stdout.readline())
    server.wait()  # of the process that forked the server
    _PIPES.append(server.stdin)
    return reached


_PIPES: list[Any] = []
"""Servers end when these are closed."""


def serve() -> None:
    """Serve the folder on the command line as the bucket "bench" until the input ends."""
    from tests.objects.server import ObjectServer

    if os.fork():
        os._exit(0)
    folder = Path(sys.argv[1])
    with ObjectServer(latency_s=float(sys.argv[2])) as server:
        for path in folder.rglob("*"):
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file:
                    content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                server.objects[f"bench/{path.relative_to(folder).as_posix()}"] = content, f"{len(content)}", time.time()
        print(json.dumps(server.environment), flush=True)
        sys.stdin.read()


def served(data: Bucket) -> Bucket:
    """Start the server."""
    return replace(data, environment=start_server(data.folder, LATENCY_S) | {"DASKFS_CACHE": "none"})


def served_and_kept(data: Bucket) -> Bucket:
    """Start the server, and fill a cache."""
    data = served(data)
    data.environment["DASKFS_CACHE"] = tempfile.mkdtemp()
    fitted(data)
    return data


def fitted(data: Bucket) -> np.ndarray:
    """Open the store and select."""
    import daskfs

    os.environ |= data.environment
    store = daskfs.open_store("s3://bench/x.zarr" if data.environment else data.folder / "x.zarr")
    made = getattr(daskfs, data.method)(**SELECTORS[data.method], memory_limit=2**30)
    return np.asarray(made.fit(store).selected_)


def fitted_and_kept(data: Bucket) -> np.ndarray:
    """Open the store and select, with a cache that is empty."""
    with tempfile.TemporaryDirectory() as cache:
        data.environment["DASKFS_CACHE"] = cache
        return fitted(data)


def judge(data: Bucket, columns: np.ndarray) -> dict[str, float]:
    """Say which share of the true columns is selected."""
    return {"recall": len(np.intersect1d(columns, data.support)) / len(data.support)}


def cases(n_samples: int, n_features: int) -> list[dict[str, Any]]:
    """Return all methods on data of one shape."""
    return [{"method": method, "n_samples": n_samples, "n_features": n_features} for method in SELECTORS]


JOBS = [
    Job(
        "object_store",
        "A store 50 ms away",
        bucket,
        {
            "local disk": Contender(fitted),
            "no cache": Contender(fitted, ("obstore",), served),
            "first fit with a cache": Contender(fitted_and_kept, ("obstore",), served),
            "later fits": Contender(fitted, ("obstore",), served_and_kept),
        },
        {},
        judge,
        {"smoke": cases(2000, 200), "small": cases(40_000, 2000), "full": cases(200_000, 5000)},
        about=(
            "The server answers each request after 50 ms. It is a process of its own, and its time and memory are not "
            "counted. Compare wall seconds: waiting takes no CPU time."
        ),
        repeats=2,
    )
]
