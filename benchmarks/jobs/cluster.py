"""One fit in this process, on threads and on worker processes: time, memory, and the same bits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Job


@dataclass
class Store:
    """A store, and the method that reads it."""

    path: Path
    method: str


def store(folder: Path, seed: int, method: str, n_samples: int, n_features: int) -> Store:
    """Write normal columns, ten of which explain the target."""
    import daskfs

    X = np.random.default_rng(seed).standard_normal((n_samples, n_features), dtype=np.float32)
    daskfs.ingest(X, folder / "store.zarr", y=X[:, :10].sum(axis=1) + X[:, 10])
    return Store(folder / "store.zarr", method)


def fitted(data: Store, kind: str, n_workers: int = 1) -> Any:
    """Open the cluster, fit, and close it: what a user waits for."""
    import daskfs

    options: dict[str, Any] = {} if data.method == "Message" else {"n_features_to_select": 10}
    with daskfs.open_cluster(kind, n_workers) as cluster:
        selector = getattr(daskfs, data.method)(**options, client=cluster.client)
        return selector.fit(daskfs.open_store(data.path)).coef_


def judge(data: Store, coef: np.ndarray) -> dict[str, float]:
    """Say how many columns are selected, and a number that is the same only for the same bits."""
    digest = hashlib.sha256(np.ascontiguousarray(coef).tobytes()).digest()
    return {"columns": int(np.count_nonzero(coef)), "bits": int.from_bytes(digest[:2])}


def cases(n_samples: int, n_features: int, *methods: str) -> list[dict[str, Any]]:
    """Return methods on data of one shape."""
    return [{"method": method, "n_samples": n_samples, "n_features": n_features} for method in methods]


JOBS = [
    Job(
        "cluster",
        "One process, threads, workers",
        store,
        {
            "one process": Contender(lambda data: fitted(data, "none")),
            "1 thread": Contender(lambda data: fitted(data, "threads", 1)),
            "2 threads": Contender(lambda data: fitted(data, "threads", 2)),
            "1 worker": Contender(lambda data: fitted(data, "local", 1)),
            "2 workers": Contender(lambda data: fitted(data, "local", 2)),
        },
        {},
        judge,
        {
            "smoke": cases(2000, 100, "Message"),
            "small": cases(200_000, 200, "Message", "FGM", "OnlineSubstitution"),
            "full": cases(2_000_000, 400, "Message", "FGM", "OnlineSubstitution", "Mission"),
        },
        about=(
            "A fit from a store, with opening and closing the cluster. Memory is that of all processes together. "
            "Equal numbers under bits are equal coefficients in every bit."
        ),
    )
]
