"""What the processes of a run take at most, and what its plan promised: by method, shape of the data, kind of cluster.

    python benchmarks/process_memory.py                          every method over 442 rows: the constants `BASE_*`
    python benchmarks/process_memory.py --shape wide tall ...    near the least limit that the plan takes

Each run is a process of its own, as a user starts it, on a store that was made before, with the least limit that its
plan accepts and an eighth of what that leaves to the data; workers are new for each run, and so is a scheduler that
they were started for. Peaks are the system's own count for each process (VmHWM). A margin below nought is an excess,
and the script ends with 1. A run that has no end within ``--longest`` seconds is ended; its row has the peaks up to
then, and a + behind its seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import yaml

MIB = 2**20
ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
METHODS: dict[str, dict[str, Any]] = {
    "message": {"method": "message", "n_subsets": 4},
    "substitution": {"method": "online_substitution", "n_features_to_select": 5},
    "screen": {"method": "online_substitution", "n_features_to_select": 5, "schedule": "screen"},
    "fgm": {"method": "fgm", "n_features_to_select": 4, "loss": "squared"},
    "mission": {"method": "mission", "n_features_to_select": 4},
    "asynchronous": {"method": "async_online_substitution", "n_features_to_select": 5, "n_workers": 2},
}
CLUSTERS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "threads": {"kind": "threads", "n_workers": 2},
    "local": {"kind": "local", "n_workers": 2},
    "address": {"kind": "address", "n_workers": 2, "start_with": 2, "wait_timeout_s": 60},
}
SEED = 0
PROC = Path("/proc")


def dense(n_samples: int, n_features: int, dtype: str) -> tuple[Any, np.ndarray]:
    """Return columns of noise, of which three tell of the target."""
    rng = np.random.default_rng(SEED)
    if dtype == "int8":
        X = rng.integers(0, 3, (n_samples, n_features), dtype=np.int8)
    else:
        X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    telling = X[:, [0, n_features // 2, n_features - 1]].astype(float)
    return X, telling @ [2.0, -1.0, 1.0] + rng.standard_normal(n_samples)


def sparse(n_samples: int, n_features: int, n_entries_of_row: int) -> tuple[Any, np.ndarray]:
    """Return rows of so many entries anywhere; three more columns have one in a third of the rows and tell."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(SEED)
    places = rng.integers(0, n_features, (n_samples, n_entries_of_row))
    telling = np.where(rng.random((n_samples, 3)) < 1 / 3, [[5, n_features // 2, n_features - 1]], places[:, :3])
    places[:, :3] = telling
    places.sort(axis=1)
    starts = np.arange(0, places.size + 1, n_entries_of_row)
    X = csr_matrix((np.ones(places.size, dtype=np.float32), places.ravel(), starts), shape=(n_samples, n_features))
    X.sum_duplicates()
    y = X[:, [5, n_features // 2, n_features - 1]].toarray() @ [2.0, -1.0, 1.0] + rng.standard_normal(n_samples)
    return X, y


class Shape(NamedTuple):
    """A kind of data: how it is made, and what is written into every selection."""

    make: Any
    options: Mapping[str, Any] = MappingProxyType({})
    of_store: Mapping[str, Any] = MappingProxyType({})
    methods: Sequence[str] = tuple(METHODS)


def classes(n_samples: int, n_features: int, n_classes: int) -> tuple[Any, np.ndarray]:
    """Return columns of noise, of which some tell of one class each."""
    X, _ = dense(n_samples, n_features, "float32")
    return X, (X[:, :n_classes] + np.random.default_rng(SEED).gumbel(size=(n_samples, n_classes))).argmax(axis=1)


SHAPES = {
    "few": Shape(None),
    "wide": Shape(lambda: dense(200, 200_000, "float32")),
    "wide int8": Shape(lambda: dense(500, 200_000, "int8"), of_store={"dtype": "int8"}),
    "tall": Shape(lambda: dense(2_000_000, 16, "float32")),
    "very tall": Shape(lambda: dense(10_000_000, 8, "int8"), of_store={"dtype": "int8"}),
    "sparse wide": Shape(lambda: sparse(60_000, 10_000_000, 30)),
    "sparse tall": Shape(lambda: sparse(2_000_000, 2000, 8)),
    "pairs": Shape(lambda: dense(3000, 4500, "float32"), {"feature_map": {"map": "pairs"}}, methods=("fgm",)),
    "classes": Shape(lambda: classes(400_000, 60, 5), methods=("message", "mission")),
}


@contextmanager
def running_cluster(folder: Path, memory_limit: int) -> Iterator[tuple[str, list[int]]]:
    """Start a scheduler and two workers as Dask's documentation has it; yield the address, and what was started."""
    dask, found = [sys.executable, "-m", "distributed.cli.dask_scheduler"], folder / "scheduler.json"
    found.unlink(missing_ok=True)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    quiet["env"] = ENVIRONMENT | {"DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False"}
    quiet["env"] |= {f"DASK_DISTRIBUTED__WORKER__MEMORY__{key}": "False" for key in ("TARGET", "SPILL", "TERMINATE")}
    parts = [
        subprocess.Popen([*dask, "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(found)], **quiet),
    ]
    address = ""
    while not address:  # the file is there before it is written
        time.sleep(0.1)
        with suppress(OSError, ValueError, KeyError):
            address = json.loads(found.read_text())["address"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    worker += ["--memory-limit", str(memory_limit)]
    parts += [subprocess.Popen(worker, **quiet) for _ in range(2)]
    try:
        yield address, [part.pid for part in parts[1:]]
    finally:
        for part in parts:
            part.terminate()
        for part in parts:
            part.wait()


def write_pipeline(folder: Path, shape: str, method: str, cluster: dict[str, Any]) -> Path:
    """Write a pipeline over the store of a shape."""
    document = {
        "version": 1,
        "name": "few",
        "store": {"path": f"{shape}.zarr", **SHAPES[shape].of_store},
        "select": METHODS[method] | SHAPES[shape].options,
        "cluster": cluster,
        "output": "run",
    }
    if shape == "few":
        document["source"] = {"kind": "sklearn", "name": "diabetes"}
    path = folder / "few.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def limits_for(folder: Path, shape: str, method: str, cluster: dict[str, Any]) -> dict[str, int] | str:
    """Return the limits to run with, or why the plan refuses."""
    from daskfs.cluster.open import parse_bytes
    from daskfs.errors import DaskfsError
    from daskfs.pipeline.config import load_pipeline
    from daskfs.pipeline.planning import facts_of, limits_of, plan_pipeline

    has_workers = cluster["kind"] in ("local", "address")
    planned = cluster | ({"address": "tcp://none:1"} if cluster["kind"] == "address" else {})
    found = {"memory_limit": MIB} | ({"client_memory_limit": MIB} if has_workers else {})
    has_more = False
    while True:
        pipeline = load_pipeline(write_pipeline(folder, shape, method, planned | found))
        facts = facts_of(pipeline)
        try:
            plan_pipeline(pipeline, facts)
        except DaskfsError as fault:
            allow = (fault.remedy or "").partition("allow at least ")[2].partition(",")[0]
            if not allow:
                return str(fault)
            for one in allow.split(" and "):  # "480MiB", or "memory_limit 480MiB"
                key, _, size = one.rpartition(" ")
                found[key or fault.where.rpartition(".")[2]] = parse_bytes(size)
            continue
        if has_more:
            return found
        limits, has_more = limits_of(pipeline.cluster), True
        base = limits.base_of_worker(facts) if has_workers else limits.base_of_client(facts.n_samples)
        found["memory_limit"] += (found["memory_limit"] - base.nbytes) // 8


def peaks_until_now(client: int, others: Sequence[int]) -> dict[str, int]:
    """Return the peaks of a client process and of the workers that it has started, or that others have."""
    parents = {}
    for stat in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {"client": _peak_of(client)}
    for pid, parent in parents.items():
        if parent in (client, *others) and b"spawn_main" in (PROC / f"{pid}/cmdline").read_bytes():
            found[f"worker-{pid}"] = _peak_of(pid)
    return found


def _peak_of(pid: int) -> int:
    lines = (PROC / f"{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def promised(folder: Path, shape: str, method: str, cluster: dict[str, Any]) -> dict[str, Any]:
    """Return limits and promises of a pipeline, as its result has them."""
    from daskfs.pipeline.config import load_pipeline
    from daskfs.pipeline.planning import facts_of, plan_pipeline

    pipeline = load_pipeline(write_pipeline(folder, shape, method, cluster))
    plan = plan_pipeline(pipeline, facts_of(pipeline))
    return {"limit_nbytes": plan.limits.by_process, "promised_nbytes": plan.promised_nbytes}


def peaks(
    folder: Path, shape: str, method: str, cluster: dict[str, Any], others: Sequence[int], longest_s: float
) -> dict[str, Any]:
    """Run a pipeline; return the measured and promised bytes of each process, and the seconds it took."""
    path = write_pipeline(folder, shape, method, cluster)
    command = [sys.executable, "-W", "ignore", "-m", "daskfs", "run", str(path), "--force"]
    since = time.perf_counter()
    with (
        open(folder / "stderr", "w+") as told,  # noqa: PTH123
        subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=told) as run,
    ):
        try:
            run.wait(longest_s)
        except subprocess.TimeoutExpired:
            until_now = peaks_until_now(run.pid, others)
            run.terminate()
            run.wait()
            found = promised(folder, shape, method, cluster)
            return found | {"measured_nbytes": until_now, "seconds": longest_s, "has_ended": False}
        told.seek(0)
        lines = [line for line in told.read().splitlines() if line.strip()]
    if run.returncode:
        return {"error": " ".join(lines[-3:])}
    memory = json.loads((folder / "run/result.json").read_text())["memory"]
    return memory | {"seconds": time.perf_counter() - since}


def tell(row: list[Any]) -> None:
    print("| " + " | ".join(map(str, row)) + " |", flush=True)


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cluster", nargs="*", choices=CLUSTERS, default=list(CLUSTERS))
    parser.add_argument("--method", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=["few"])
    parser.add_argument("--longest", type=float, default=300.0, help="seconds of a run, after which it is ended")
    parser.add_argument("--folder", type=Path, help="where stores are kept from one call to the next")
    parser.add_argument("--plan", action="store_true", help="tell the limits and refusals, and run nothing")
    options = parser.parse_args()
    from daskfs.sources.ingest import ingest

    tell(["shape", "method", "cluster", "process", "limit", "promised", "peak", "margin", "s"])
    tell(["---"] * 9)
    worst = math.inf
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as text:
        folder = Path(text).resolve()
        for shape in options.shape:
            store = folder / f"{shape}.zarr"
            if shape != "few" and not store.exists():
                X, y = SHAPES[shape].make()
                ingest(X, store, y=y, **SHAPES[shape].of_store)
                del X, y
            for method in (one for one in options.method if one in SHAPES[shape].methods):
                for kind in options.cluster:
                    limits: Any = {"memory_limit": 2048 * MIB}
                    if shape != "few":
                        limits = limits_for(folder, shape, method, CLUSTERS[kind])
                    if options.plan or isinstance(limits, str):
                        tell([shape, method, kind, limits])
                        continue
                    most: dict[str, list[float]] = {}
                    mark = ""
                    for _ in range(options.repeats):
                        own: Any = nullcontext(("", []))
                        if kind == "address":
                            own = running_cluster(folder, limits["memory_limit"])
                        with own as (address, others):
                            where = CLUSTERS[kind] | limits | ({"address": address} if address else {})
                            found = peaks(folder, shape, method, where, others, options.longest)
                        if "error" in found:
                            worst = -math.inf
                            tell([shape, method, kind, limits, found["error"]])
                            continue
                        mark = mark if found.get("has_ended", True) else "+"
                        for name, nbytes in found["measured_nbytes"].items():
                            role = "client" if name == "client" else "worker"
                            sizes = [found[key][role] / MIB for key in ("limit_nbytes", "promised_nbytes")]
                            before = most.get(role, [0, 0, 0, 0])
                            most[role] = [*sizes, max(before[2], nbytes / MIB), max(before[3], found["seconds"])]
                    for role, (limit, allowed, peak, seconds) in most.items():
                        worst = min(worst, allowed - peak)
                        sizes = [f"{size:.1f}" for size in (limit, allowed, peak, allowed - peak)]
                        tell([shape, method, kind, role, *sizes, f"{seconds:.0f}{mark}"])
    return 1 if worst < 0 else 0


if __name__ == "__main__":
    sys.exit(main())
