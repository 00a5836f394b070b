"""The cost model: measured on this machine, fitted, checked on larger runs, and applied to 10^9 rows x 10^6 columns.

    python -m benchmarks.scale measure --seconds 100    measure what is missing; repeat until nothing is
    python -m benchmarks.scale page                     write docs/scale.md from the records
    python -m benchmarks.scale machine FILE             write constants for `daskfs plan --on 100x16 --machine FILE`

The records are lines of ``benchmarks/records/scale.jsonl``, by kind:

run
    A fit of one process: CPU seconds, the least of two that agree to 5 %, or of four; what its plan counts, once with
    the passes that were made and once as planned. Runs of role "fit" are fitted to. Those of role "larger" have three
    times the rows, columns, selected features or subsets of the largest of these.
cluster
    Seconds of the scheduler and client for a task, of a pass of one task, and the number of concurrent requests.
asy-os
    Seconds of a message and of a column's products by size; and a real run of one and of two workers.
simulated
    Recall and objective of Asy-OS with 1 to 64 simulated workers.
constants
    Seconds of each operation, fitted to all runs, and fits to bootstrap samples of them.
plan
    What the plans of daskfs count for data that do not exist.

To measure on another machine, give another file with ``--records``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from scipy.optimize import nnls

import daskfs
from benchmarks import harness
from daskfs.cluster.open import open_cluster
from daskfs.methods import METHODS, load
from daskfs.pipeline.cost import MEASURED, SHARED
from daskfs.pipeline.limits import ProcessLimits
from daskfs.selectors.shared.work import added
from daskfs.sources.synthetic import SyntheticSource
from daskfs.store.layout import choose_layout

RECORDS = harness.RECORDS / "scale.jsonl"
Record: TypeAlias = dict[str, Any]

DENSE = ((120_000, 200), (200_000, 30), (60_000, 400), (20_000, 1200), (20_000, 400))
LARGER = ((360_000, 200), (600_000, 30), (60_000, 1200))
SPARSE = ((100_000, 20_000), (300_000, 5_000), (50_000, 20_000))
LARGER_SPARSE = ((300_000, 20_000), (900_000, 5_000))
PAIRED = ((20_000, 5_000), (40_000, 5_000), (30_000, 20_000))
LARGER_PAIRED = ((120_000, 5_000),)
Shapes: TypeAlias = tuple[tuple[int, int], ...]
WIDE = (120_000, 200)
"""Of the runs that select three times as many features, or have three times as many subsets."""
PER_ROW = 30  # entries of a sparse row
PASSES = {"fgm": "n_passes_", "online_substitution": "n_epochs_"}
"""Of methods whose passes depend on the data, the attribute that says how many were made."""


@dataclass(frozen=True)
class Job:
    """A method with settings to fit to, and one with three times as much of something."""

    method: str
    settings: tuple[dict[str, Any], ...]
    wide: dict[str, Any] | None = None
    loss: str = "squared"
    is_sparse: bool = False
    shapes: tuple[Shapes, Shapes] | None = None
    """To fit to, and larger ones, where not those of all."""


def of_features(numbers: Sequence[int], **others: Any) -> tuple[dict[str, Any], ...]:
    """Return settings that select so many features."""
    return tuple({"n_features_to_select": k, **others} for k in numbers)


FGM: dict[str, Any] = {"n_features_per_pass": 5}
TURNS: dict[str, Any] = {"schedule": "synchronous", "n_epochs": 1}
JOBS = {
    "FGM": Job("fgm", of_features((5, 10, 20), **FGM), {"n_features_to_select": 60, **FGM}),
    "FGM, logistic": Job("fgm", of_features((10, 20), **FGM), None, "logistic"),
    "FGM, sparse": Job("fgm", of_features((10, 20), **FGM), None, "squared", True),
    "FGM, sparse, pairs": Job(
        "fgm", of_features((10,), feature_map="pairs", **FGM), None, "squared", True, (PAIRED, LARGER_PAIRED)
    ),
    "online substitution": Job(
        "online_substitution",
        of_features((10, 20), n_epochs=1) + of_features((10,), n_epochs=3),
        {"n_features_to_select": 60, "n_epochs": 1},
    ),
    "online substitution, logistic": Job("online_substitution", of_features((10, 20), n_epochs=1), None, "logistic"),
    "Asy-OS, logistic": Job("async_online_substitution", of_features((10, 20), **TURNS), None, "logistic"),
    "online substitution, screened": Job(
        "online_substitution",
        of_features((10, 20), n_epochs=1, schedule="screen"),
        {"n_features_to_select": 60, "n_epochs": 1, "schedule": "screen"},
    ),
    "Asy-OS": Job("async_online_substitution", of_features((10, 20), **TURNS), {"n_features_to_select": 60, **TURNS}),
    "MISSION": Job(
        "mission",
        of_features((20,), n_epochs=1) + of_features((20,), n_epochs=3),
        {"n_features_to_select": 60, "n_epochs": 1},
    ),
    "MISSION, logistic": Job("mission", of_features((20,), n_epochs=1), None, "logistic"),
    "MISSION, sparse": Job("mission", of_features((20,), n_epochs=1), None, "squared", True),
    "MESSAGE": Job("message", ({"subset_size": 4000}, {"subset_size": 8000}), {"subset_size": 1333}),
    "MESSAGE, logistic": Job("message", ({"subset_size": 4000},), {"subset_size": 1333}, "logistic"),
}


def made_store(folder: Path, shape: tuple[int, int], loss: str, is_sparse: bool) -> Any:
    """Return a store of Gaussian columns, or of few entries in a row, of which ten explain the target."""
    name = f"{shape[0]}x{shape[1]}{'-binary' * (loss == 'logistic')}{'-sparse' * is_sparse}.zarr"
    if not (folder / name).exists():
        rng = np.random.default_rng(0)
        chosen = np.sort(rng.choice(shape[1], 10, replace=False))
        if is_sparse:
            columns = rng.integers(0, shape[1], size=(shape[0], PER_ROW))
            columns[:, :3] = chosen[rng.integers(0, 10, size=(shape[0], 3))]
            values = rng.standard_normal(columns.size, dtype=np.float32)
            starts = np.arange(0, columns.size + 1, PER_ROW)
            X: Any = scipy.sparse.csr_matrix((values, columns.ravel(), starts), shape=shape)
            X.sum_duplicates()
            signal = np.asarray(X[:, chosen].sum(axis=1)).ravel().astype(float)
        else:
            X = rng.standard_normal(shape, dtype=np.float32)
            signal = X[:, chosen].astype(float).sum(axis=1)
        y = signal + rng.standard_normal(shape[0])
        daskfs.ingest(X, folder / name, y=(y > 0.0).astype(float) if loss == "logistic" else y)
    return daskfs.open_store(folder / name)


def least_of(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the least CPU seconds of two runs that agree to 5 %, or of four; and what the last one returned."""
    tried: list[float] = []
    while len(tried) < 4 and (len(tried) < 2 or sorted(tried)[1] > 1.05 * min(tried)):
        started = time.process_time()
        found = run()
        tried.append(time.process_time() - started)
    return min(tried), found


def tasks_of_runs(folder: Path) -> Iterator[tuple[str, Callable[[], Record]]]:
    """Yield a key of each run, and a function that measures it."""
    for name, job in sorted(JOBS.items(), key=lambda item: item[1].loss == "logistic"):  # the page needs squared losses
        fitted, larger = job.shapes or ((SPARSE, LARGER_SPARSE) if job.is_sparse else (DENSE, LARGER))
        todo = [("fit", shape, one) for shape in fitted for one in job.settings]
        todo += [("larger", shape, job.settings[-1]) for shape in larger]
        todo += [("wide", WIDE, job.wide)] if job.wide else []
        for role, shape, settings in todo:
            key = f"{name}; {shape[0]} x {shape[1]}; {json.dumps(settings)}"
            yield key, partial(measured_run, folder, name, role, shape, settings)
    for shape in DENSE + LARGER:
        yield f"ingest; {shape[0]} x {shape[1]}", partial(measured_ingest, folder, shape)


IS_WARM: set[str] = set()
"""Jobs whose kernels are compiled in this process."""


def measured_run(folder: Path, name: str, role: str, shape: tuple[int, int], settings: dict[str, Any]) -> Record:
    """Measure a fit."""
    job = JOBS[name]
    store = made_store(folder, shape, job.loss, job.is_sparse)

    def run() -> Any:
        return load(METHODS[job.method])(**settings, loss=job.loss).fit(store)

    if name not in IS_WARM:
        smallest = min(job.shapes[0] if job.shapes else SPARSE if job.is_sparse else DENSE, key=np.prod)
        load(METHODS[job.method])(**job.settings[0], loss=job.loss).fit(
            made_store(folder, smallest, job.loss, job.is_sparse)
        )  # compiles
        IS_WARM.add(name)
    took, selector = least_of(run)
    entries = int(store.entry_counts(slice(None)).sum()) if job.is_sparse else None
    n_passes = int(getattr(selector, PASSES[job.method])) if job.method in PASSES else None
    facts = {"tile_shape": store.tile_shape, "n_entries": entries, "has_statistics": True}
    counts = [counts_of(job, settings, shape, facts, passes) for passes in (n_passes, None)]
    return {
        "kind": "run", "job": name, "role": role, "shape": shape, "settings": settings, "seconds": took,
        "counts": counts[0], "planned_counts": counts[1],
    }  # fmt: skip


def measured_ingest(folder: Path, shape: tuple[int, int]) -> Record:
    """Measure the ingest of an array."""
    X = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)

    def run() -> Any:
        return daskfs.ingest(X, folder / "again.zarr", y=X[:, 0], on_exists="replace")

    run()
    counts = {"ingest": float(np.prod(shape)), "values read": float(np.prod(shape))}
    return {
        "kind": "run", "job": "ingest", "role": "larger" if shape in LARGER else "fit", "shape": shape, "settings": {},
        "seconds": least_of(run)[0], "counts": counts, "planned_counts": counts,
    }  # fmt: skip


def counts_of(
    job: Job, settings: dict[str, Any], shape: tuple[int, int], facts: dict[str, Any], n_passes: int | None
) -> dict[str, float]:
    """Return what the plan of a run counts, with the passes that were made if they are given."""
    if n_passes is not None and job.method == "online_substitution":
        settings = {**settings, "n_epochs": n_passes}
    plan = load(METHODS[job.method])(**settings, loss=job.loss).plan(*shape, "float32", None, **facts)
    work = plan.work
    times = n_passes / plan.n_passes if n_passes is not None and job.method == "fgm" else 1.0  # its passes are alike
    by_tasks = {unit: count * (1.0 if "groups" in unit else times) for unit, count in work.by_tasks.items()}
    in_client = {unit: count * (times if "problems" in unit else 1.0) for unit, count in work.in_client.items()}
    return {
        unit if unit in SHARED else f"{job.method}: {unit}": float(count)
        for unit, count in added(by_tasks, in_client).items()
    }


def fitted(runs: Sequence[Record]) -> dict[str, float]:
    """Return the nonnegative seconds of each operation that minimise the sum of squared relative errors."""
    seconds = np.array([run["seconds"] for run in runs])
    units = sorted({unit for run in runs for unit in run["counts"]})
    table = np.array([[run["counts"].get(unit, 0.0) for unit in units] for run in runs]) / seconds[:, None]
    size = np.maximum(table.max(axis=0), 1e-300)  # columns of similar size, for the solver
    constants = nnls(table / size, np.ones(len(runs)), maxiter=100 * len(units))[0] / size
    return {unit: float(f"{value:.3g}") for unit, value in zip(units, constants.tolist(), strict=True)}


def measured_constants(records: Sequence[Record]) -> Record:
    """Fit the constants to the runs, and to bootstrap samples of the runs of each job."""
    runs = [one for one in records if one["kind"] == "run"]
    jobs = list(dict.fromkeys(run["job"] for run in runs))
    rng, resampled = np.random.default_rng(0), []
    for _ in range(N_BOOTSTRAP):
        chosen = []
        for job in jobs:
            of_job = [run for run in runs if run["job"] == job]
            chosen += [of_job[k] for k in rng.integers(0, len(of_job), len(of_job))]
        resampled.append(fitted(chosen))
    to_small = fitted([run for run in runs if run["role"] == "fit"])
    return {"kind": "constants", "of_role_fit": to_small, "work_s": fitted(runs), "bootstrap": resampled}


N_BOOTSTRAP = 40


def measured_cluster() -> Record:
    """Measure what tasks, passes and requests take."""
    from benchmarks import cluster_cost

    n_ahead, task_s = cluster_cost.of_latency(), cluster_cost.of_scheduler()
    return {"kind": "cluster", "n_ahead": n_ahead, "task_s": task_s, "round_trip_s": cluster_cost.of_round_trips()}


# Asy-OS


N_LONG = 10_000, 100_000, 1_000_000


class Echo:
    """An actor that answers with as many numbers as it is sent."""

    def echo(self, numbers: np.ndarray) -> np.ndarray:
        """Return a new array of the same numbers."""
        return numbers + 0.0


def round_trip(node: Any, n_samples: int) -> float:
    """Return the least seconds of 60 messages of n numbers with their answers; runs in a task."""
    numbers, took = np.zeros(n_samples), []
    for _ in range(60):
        started = time.perf_counter()
        node.echo(numbers).result()
        took.append(time.perf_counter() - started)
    return min(took)


def measured_messages() -> Record:
    """Measure a message of n numbers that is answered with as many, and what the central node computes for one."""
    with open_cluster("local", n_workers=2, dashboard_address=None) as cluster:
        client: Any = cluster.client
        home, other = sorted(client.scheduler_info()["workers"])
        placed = client.submit(Echo, actor=True, workers=[home])  # kept, or Dask lets go of the actor
        node = placed.result()
        trips = {n: client.submit(round_trip, node, n, workers=[other], pure=False).result() for n in N_LONG}
    node = {}
    for n in N_LONG:
        u, change, y = (np.random.default_rng(0).standard_normal(n) for _ in range(3))
        took = []
        for _ in range(30):
            started = time.perf_counter()
            new = u + change
            residual = y - new
            residual @ residual
            took.append(time.perf_counter() - started)
        node[n] = min(took)
    return {"kind": "asy-os", "what": "messages", "trip_s": trips, "node_s": node}


def measured_columns(s: int = 64) -> Record:
    """Measure the products of a block of columns with the columns held, by their number."""
    from daskfs.kernels.substitution.products import NO_WEIGHT, cross_products, row_products

    rng, n_samples, width = np.random.default_rng(0), 20_000, 64
    block = rng.standard_normal((width, n_samples)).astype(np.float32)
    pull = rng.standard_normal(n_samples)
    seconds = {}
    for k in (8, s):
        held = rng.standard_normal((k, n_samples)).astype(np.float32)

        def run(held: np.ndarray = held) -> None:
            for _ in range(5):
                cross_products(block, held)
                row_products(block, pull, NO_WEIGHT)

        run()
        seconds[k] = least_of(run)[0] / (5 * width * n_samples)
    slope = (seconds[s] - seconds[8]) / (s - 8)
    fixed = max(seconds[8] - 8 * slope, 0.0)
    return {"kind": "asy-os", "what": "columns", "of_each_held_s": slope, "of_a_column_s": fixed}


REAL = {"n_samples": 20_000, "n_features": 4_096, "s": 64}


def measured_workers(folder: Path) -> Record:
    """Measure the wall seconds of two epochs with one and with two workers; the load of the machine is kept."""
    source = SyntheticSource(
        REAL["n_samples"], REAL["n_features"], "online_substitution", REAL["s"], columns="unit", noise="normal"
    )
    store = daskfs.ingest(source, folder / "asy-os.zarr", tile_shape=(16_384, 64), codec="raw", on_exists="replace")
    found: dict[int, list[float]] = {1: [], 2: []}
    with open_cluster("local", n_workers=3, dashboard_address=None) as workers:
        for _ in range(4):
            for q, seconds in found.items():
                selector = daskfs.AsyncOnlineSubstitution(REAL["s"], n_workers=q, n_epochs=2)
                selector.fit_matrix(store, workers=workers)
                seconds.append(float(selector.result_.history["seconds"].max()))
    least = {q: min(seconds[1:]) for q, seconds in found.items()}
    return {"kind": "asy-os", "what": "workers", **REAL, "seconds": least}


DESIGNS = "independent", "correlated 0.7"
SIMULATED = 1, 2, 4, 8, 16, 32, 64
N_SIMULATED, P_SIMULATED, S_SIMULATED, N_SEEDS = 1000, 1000, 64, 3


def measured_simulation(design: str, seed: int) -> Record:
    """Fit with 1 to 64 simulated workers, and with the sequential selector."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_SIMULATED, P_SIMULATED))
    if design != "independent":  # each column has correlation 0.7 with the one before it
        for j in range(1, P_SIMULATED):
            X[:, j] = 0.7 * X[:, j - 1] + np.sqrt(1 - 0.49) * X[:, j]
    true = rng.choice(P_SIMULATED, S_SIMULATED, replace=False)
    signal = X[:, true] @ rng.choice([-1.0, 1.0], S_SIMULATED)
    y = signal + 0.5 * signal.std() * rng.standard_normal(N_SIMULATED)
    recall, ends = {}, {}
    for q in (0, *SIMULATED):
        if q:
            selector: Any = daskfs.AsyncOnlineSubstitution(S_SIMULATED, n_workers=q, schedule="simulated", n_epochs=2)
        else:
            selector = daskfs.OnlineSubstitution(S_SIMULATED, n_epochs=2)
        selector.fit(X, y)
        recall[q] = float(np.isin(selector.selected_, true).mean())
        ends[q] = float(np.mean((y - selector.predict(X)) ** 2) / np.var(y))
    return {"kind": "simulated", "design": design, "seed": seed, "recall": recall, "residual": ends}


ROWS, COLUMNS = 10**9, 10**6
FACTS: dict[str, Any] = {"has_statistics": True, "tile_shape": choose_layout(ROWS, COLUMNS, "float32").tile_shape}
IN_COLUMNS: dict[str, Any] = FACTS | {"tile_shape": (1 << 15, 32)}
"""Of a store that was made for methods that read columns: `store.tile_shape`."""
TWENTY: dict[str, Any] = {"n_features_to_select": 20, "loss": "squared"}
SCREENED: dict[str, Any] = {"n_epochs": 1, "schedule": "screen", **TWENTY}
ASYNC: dict[str, Any] = {"n_features_to_select": 1000, "n_workers": 1000, "n_epochs": 1, "loss": "squared"}
ASKED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "MESSAGE, 100,001 subsets": ("message", {"n_subsets": 100_001, "loss": "squared"}, FACTS),
    "FGM, 20 features in 4 passes": ("fgm", {"n_features_per_pass": 5, **TWENTY}, FACTS),
    "MISSION, one pass and one of the refit, 1,000 replicas": (
        "mission",
        {"n_epochs": 1, "n_replicas": 1000, **TWENTY},
        FACTS,
    ),
    "MISSION, one pass, 1,000 replicas, 100 entries a row": (
        "mission",
        {"n_epochs": 1, "n_replicas": 1000, **TWENTY},
        FACTS | {"n_entries": 100 * ROWS, "tile_shape": (8192, COLUMNS)},
    ),
    "online substitution, screened, one pass, 20 columns": ("online_substitution", SCREENED, FACTS),
    "the same, tiles of 32,768 x 32": ("online_substitution", SCREENED, IN_COLUMNS),
    "Asy-OS, 1,000 workers, one pass, 1,000 columns": ("async_online_substitution", ASYNC, FACTS),
    "the same, tiles of 32,768 x 32: Asy-OS": ("async_online_substitution", ASYNC, IN_COLUMNS),
}


PAIRS, PAIRED_ENTRIES, PAIRED_PASSES = "FGM, 10^14 products, 29 entries a row, 7 passes", 29, 7
"""14 million columns have 10^14 products of two. A row has 29 entries, and 7 passes are made."""


def planned(name: str) -> Record:
    """Return what a plan counts for data that do not exist."""
    nothing: Record = {"by_tasks": None, "in_client": {}, "n_at_once": None, "client": None, "worker": None}
    if name == "ingest":
        counts: Record = {"method": "ingest", "read_nbytes": 4.0 * ROWS * COLUMNS, "n_passes": 1, "n_tasks": 64_000}
        return {"kind": "plan", "name": name, **nothing, **counts}
    if name == PAIRS:
        # A row of 29 entries has 29 / PER_ROW as many pairs per entry as the rows that the constants were fitted to.
        pairs = PAIRED_PASSES * ROWS * PAIRED_ENTRIES * PAIRED_ENTRIES / PER_ROW
        counts = {"method": "fgm", "read_nbytes": 6.0 * pairs, "n_passes": PAIRED_PASSES, "n_tasks": 0}
        return {"kind": "plan", "name": name, **nothing, **counts, "by_tasks": {"entries paired": pairs}}
    method, settings, facts = ASKED[name]
    plan = load(METHODS[method])(**settings).plan(ROWS, COLUMNS, "float32", None, n_threads=1000, **facts)
    limits = ProcessLimits("address", 1000, 0, 0)
    client, worker = limits.base_of_client(ROWS) + plan.client, limits.base_of_worker() + plan.task
    return {
        "kind": "plan", "name": name, "method": method, "read_nbytes": float(plan.read_nbytes),
        "n_passes": plan.n_passes, "n_tasks": int(plan.n_tasks), "by_tasks": dict(plan.work.by_tasks),
        "in_client": dict(plan.work.in_client),
        "n_at_once": plan.work.n_at_once if np.isfinite(plan.work.n_at_once) else None,
        "client": [client.nbytes, *client.largest], "worker": [worker.nbytes, *worker.largest],
    }  # fmt: skip


# Records


def read(path: Path = RECORDS) -> list[Record]:
    """Return all records of a file; none if it does not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def provenance() -> Record:
    """Return commit, date, machine, versions and load."""
    made_at, of = harness.commit(), harness.machine()
    return {
        "commit": made_at["commit"] + "-changed" * made_at["dirty"], "date": harness.now()[:10],
        "machine": f"{of['cores']} x {of['cpu']}, {platform.system()}",
        "versions": harness.versions(), "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def measure(path: Path, folder: Path, seconds: float) -> bool:
    """Measure what is missing for so long, and fit the constants; return whether everything is measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    known, until = {one["key"] for one in read(path)}, time.monotonic() + seconds
    tasks: list[tuple[str, Callable[[], Record]]] = [("cluster", measured_cluster), ("messages", measured_messages)]
    tasks += [("columns", measured_columns), ("workers", partial(measured_workers, folder))]
    tasks += [(f"{name}; {k}", partial(measured_simulation, name, k)) for name in DESIGNS for k in range(N_SEEDS)]
    tasks += [(f"plan; {name}", partial(planned, name)) for name in ("ingest", *ASKED, PAIRS)]
    tasks += [*tasks_of_runs(folder)]
    is_whole = True
    for key, task in tasks:
        if key in known:
            continue
        if time.monotonic() > until:
            is_whole = False
            break
        append(path, {"key": key, **task(), **provenance()})
    others = [one for one in read(path) if one["kind"] != "constants"]
    path.write_text("".join(json.dumps(one) + "\n" for one in others), encoding="utf-8")
    append(path, {"key": "constants", **measured_constants(others), **provenance()})
    return is_whole


def append(path: Path, record: Record) -> None:
    """Append a record to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def write_machine(records: Sequence[Record], path: Path) -> None:
    """Write the constants of a machine; operations that were not measured are as expensive as the most expensive."""
    found = next(one for one in records if one["kind"] == "constants")
    cluster = next(one for one in records if one["kind"] == "cluster")
    work_s = dict(sorted(found["work_s"].items()))
    work_s["other"] = max(seconds for unit, seconds in work_s.items() if unit.endswith((": values", ": entries")))
    description = f"{found['machine']}, Python {found['versions']['python']}, {found['date']}"
    parts = {name: cluster[name] for name in ("n_ahead", "task_s", "round_trip_s")}
    machine = replace(MEASURED, work_s=work_s, latency_s=0.0, description=description, **parts)
    path.write_text(json.dumps(asdict(machine), indent=2) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write the page, or write the constants."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="measure what is missing in the records")
    measuring.add_argument("--seconds", type=float, default=3600.0, help="begin nothing after so long")
    measuring.add_argument("--folder", type=Path, help="folder that keeps the stores between calls")
    commands.add_parser("page", help="write docs/scale.md from the records")
    machine = commands.add_parser("machine", help="write constants for `daskfs plan --on 100x16 --machine FILE`")
    machine.add_argument("file", type=Path)
    for command in commands.choices.values():
        command.add_argument("--records", type=Path, default=RECORDS)
    options = parser.parse_args(argv)
    if options.command == "measure":
        with tempfile.TemporaryDirectory() as made:
            is_whole = measure(options.records, options.folder or Path(made), options.seconds)
        print("everything is measured" if is_whole else "call this again for the rest")
    elif options.command == "page":
        from benchmarks import scale_page

        scale_page.PAGE.write_text(scale_page.page(read(options.records)), encoding="utf-8")
    else:
        write_machine(read(options.records), options.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
