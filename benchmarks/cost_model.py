"""The cost model: fitted to runs of this machine, held against runs three times larger, and asked of what is larger.

    python benchmarks/cost_model.py              measure, fit, and print how far the model is off
    python benchmarks/cost_model.py --into FILE  and write the constants, for `daskfs plan --on 100x16 --machine FILE`
    python benchmarks/cost_model.py --table      what it says of 10^9 rows x 10^6 columns and 10^14 features
    python benchmarks/cost_model.py --memory     what plans say that the client and each worker hold of these

CPU seconds of one process, the least of two runs or more, of all that a plan counts (`SelectorPlan.work`), over shapes
and settings; one regression gives the seconds of each operation, which is of the same weight for each run. The runs
that it is held against have three times the rows, the columns, the features selected, or the subsets, of the largest
that it was fitted to. `--runs FILE` keeps what was measured, and measures only what is not there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from scipy.optimize import nnls

import daskfs
from daskfs.methods import METHODS, load
from daskfs.pipeline.cost import MEASURED, SHARED, cost_of_step, shown_s
from daskfs.pipeline.planning import ProcessLimits
from daskfs.selectors.shared.work import Work, added
from daskfs.store.layout import choose_layout

DENSE = ((120_000, 200), (800_000, 30), (60_000, 400), (20_000, 1200), (20_000, 400))
LARGER = ((360_000, 200), (2_400_000, 30), (60_000, 1200))
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


def measured(folder: Path, known: dict[str, Any], keep: Callable[[], None]) -> None:
    """Measure what is not known, into it."""
    for name, job in JOBS.items():
        fitted, larger = job.shapes or ((SPARSE, LARGER_SPARSE) if job.is_sparse else (DENSE, LARGER))
        todo = [("fit", shape, one) for shape in fitted for one in job.settings]
        todo += [("larger", shape, job.settings[-1]) for shape in larger]
        todo += [("wide", WIDE, job.wide)] if job.wide else []
        is_warm = False
        for role, shape, settings in todo:
            key = f"{name}; {shape[0]} x {shape[1]}; {json.dumps(settings)}"
            if key in known:
                continue
            store = made_store(folder, shape, job.loss, job.is_sparse)
            run = lambda: load(METHODS[job.method])(**settings, loss=job.loss).fit(store)  # noqa: B023, E731
            if not is_warm:
                run()  # compiles
                is_warm = True
            took, selector = least_of(run)
            entries = store.entry_counts(slice(None)) if job.is_sparse else None
            known[key] = {
                "job": name, "role": role, "shape": shape, "settings": settings, "seconds": took,
                "tile_shape": store.tile_shape, "n_entries": None if entries is None else int(entries.sum()),
                "n_passes": int(getattr(selector, PASSES[job.method])) if job.method in PASSES else None,
            }  # fmt: skip
            keep()
    for shape in DENSE + LARGER:
        key = f"ingest; {shape[0]} x {shape[1]}"
        if key not in known:
            X = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
            run = lambda: daskfs.ingest(X, folder / "again.zarr", y=X[:, 0], on_exists="replace")  # noqa: B023, E731
            run()
            role = "larger" if shape in LARGER else "fit"
            known[key] = {"job": "ingest", "role": role, "shape": shape, "settings": {}, "n_passes": None}
            known[key]["seconds"] = least_of(run)[0]
            keep()


def counts_of(run: dict[str, Any], with_passes: bool) -> dict[str, float]:
    """Return what the plan of a run counts, by the names of a machine's constants; with the passes that were made."""
    if run["job"] == "ingest":
        return {"ingest": float(np.prod(run["shape"])), "values read": float(np.prod(run["shape"]))}
    job, settings = JOBS[run["job"]], dict(run["settings"])
    if with_passes and job.method == "online_substitution":
        settings["n_epochs"] = run["n_passes"]
    selector = load(METHODS[job.method])(**settings, loss=job.loss)
    told = {"tile_shape": tuple(run["tile_shape"]), "n_entries": run["n_entries"], "has_statistics": True}
    plan = selector.plan(*run["shape"], "float32", None, **told)
    work, times = plan.work, 1.0
    if with_passes and job.method == "fgm":  # whose passes are alike
        times = run["n_passes"] / plan.n_passes
    by_tasks = {unit: count * (1.0 if "groups" in unit else times) for unit, count in work.by_tasks.items()}
    in_client = {unit: count * (times if "problems" in unit else 1.0) for unit, count in work.in_client.items()}
    return {
        unit if unit in SHARED else f"{job.method}: {unit}": count for unit, count in added(by_tasks, in_client).items()
    }


def fitted(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds of each operation, none below 0: the squared relative error of runs is the least."""
    counts, seconds = [counts_of(run, True) for run in runs], np.array([run["seconds"] for run in runs])
    units = sorted({unit for one in counts for unit in one})
    table = np.array([[one.get(unit, 0.0) for unit in units] for one in counts]) / seconds[:, None]
    size = np.maximum(table.max(axis=0), 1e-300)  # as large a share of any run as can be
    constants = nnls(table / size, np.ones(len(runs)), maxiter=100 * len(units))[0] / size
    return dict(zip(units, constants.tolist(), strict=True))


def off_by(run: dict[str, Any], constants: dict[str, float], with_passes: bool) -> float:
    """Return the relative error of a prediction."""
    said = sum(constants.get(unit, 0.0) * count for unit, count in counts_of(run, with_passes).items())
    return float(said / run["seconds"] - 1.0)


def print_fit(runs: Sequence[dict[str, Any]], constants: dict[str, float]) -> None:
    """Print how far the model is off, of runs that it was fitted to and of others."""
    print("| | runs fitted to | off by | three times larger | off by, passes known | as planned |")
    print("|---|---|---|---|---|---|")
    for name in dict.fromkeys(run["job"] for run in runs):
        its = [run for run in runs if run["job"] == name]
        fit = [100 * off_by(run, constants, True) for run in its if run["role"] == "fit"]
        for k, run in enumerate([run for run in its if run["role"] != "fit"]):
            what = f"{run['shape'][0]:,} x {run['shape'][1]:,}"
            if run["role"] == "wide":
                what += f", {', '.join(f'{key} {value}' for key, value in run['settings'].items())}"
            known, planned = (100 * off_by(run, constants, with_passes) for with_passes in (True, False))
            first = f"{name} | {len(fit)} | {min(fit):+.0f} to {max(fit):+.0f} %" if not k else " | | "
            print(f"| {first} | {what} | {known:+.0f} % | {planned:+.0f} % |", flush=True)


def as_file(constants: dict[str, float], parts: dict[str, float]) -> str:
    """Return a machine's constants as a file has them, to three digits; what nobody has measured is as the dearest."""
    work_s = {unit: float(f"{seconds:.3g}") for unit, seconds in sorted(constants.items())}
    work_s["other"] = max(seconds for unit, seconds in work_s.items() if unit.endswith((": values", ": entries")))
    cores = f"{os.cpu_count()} x {platform.processor() or platform.machine()}, {_model_name()}"
    description = f"{cores}, {platform.system()}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}"
    machine = replace(MEASURED, work_s=work_s, latency_s=0.0, description=description, **parts)
    return json.dumps(asdict(machine), indent=2) + "\n"


def _model_name() -> str:
    """Return what the system says of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "processor unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "processor unknown")


def of_cluster() -> dict[str, float]:
    """Return what requests, tasks and passes take."""
    import cluster_cost

    n_ahead, task_s = cluster_cost.of_latency(), cluster_cost.of_scheduler((50,))
    return {"n_ahead": n_ahead, "task_s": task_s, "round_trip_s": cluster_cost.of_round_trips()}


ROWS, COLUMNS = 10**9, 10**6
TOLD: dict[str, Any] = {"has_statistics": True, "tile_shape": choose_layout(ROWS, COLUMNS, "float32").tile_shape}
IN_COLUMNS: dict[str, Any] = TOLD | {"tile_shape": (1 << 15, 32)}
"""Of a store that was made for methods that read columns: `store.tile_shape`."""
TWENTY: dict[str, Any] = {"n_features_to_select": 20, "loss": "squared"}
SCREENED: dict[str, Any] = {"n_epochs": 1, "schedule": "screen", **TWENTY}
ASYNC: dict[str, Any] = {"n_features_to_select": 1000, "n_workers": 1000, "n_epochs": 1, "loss": "squared"}
ASKED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "MESSAGE, 100,001 subsets": ("message", {"n_subsets": 100_001, "loss": "squared"}, TOLD),
    "FGM, 20 features in 4 passes": ("fgm", {"n_features_per_pass": 5, **TWENTY}, TOLD),
    "MISSION, one pass and one of the refit, 1,000 replicas": (
        "mission",
        {"n_epochs": 1, "n_replicas": 1000, **TWENTY},
        TOLD,
    ),
    "MISSION, one pass, 1,000 replicas, 100 entries a row": (
        "mission",
        {"n_epochs": 1, "n_replicas": 1000, **TWENTY},
        TOLD | {"n_entries": 100 * ROWS, "tile_shape": (8192, COLUMNS)},
    ),
    "online substitution, screened, one pass, 20 columns": ("online_substitution", SCREENED, TOLD),
    "the same, tiles of 32,768 x 32": ("online_substitution", SCREENED, IN_COLUMNS),
    "Asy-OS, 1,000 workers, one pass, 1,000 columns": ("async_online_substitution", ASYNC, TOLD),
    "the same, tiles of 32,768 x 32: Asy-OS": ("async_online_substitution", ASYNC, IN_COLUMNS),
}


def plan_of(method: str, settings: dict[str, Any], told: dict[str, Any]) -> Any:
    """Return the plan of a selection of 10^9 rows x 10^6 columns on 1,000 workers."""
    return load(METHODS[method])(**settings).plan(ROWS, COLUMNS, "float32", None, n_threads=1000, **told)


def memory_table() -> None:
    """Print what plans say that the client and each worker hold, with what `daskfs plan` adds of the processes."""
    limits = ProcessLimits("address", 1000, 0, 0)
    bases = limits.base_of_client(ROWS), limits.base_of_worker()
    print("| job | client, GB | most of it | each worker, GB | most of it |")
    print("|---|---|---|---|---|")
    for name, (method, settings, told) in ASKED.items():
        plan, cells = plan_of(method, settings, told), []
        for budget in (bases[0] + plan.client, bases[1] + plan.task):
            what, nbytes = budget.largest
            cells += [f"{budget.nbytes / 1e9:,.1f}", f"{what}, {nbytes / 1e9:,.1f}"]
        print(f"| {name} | {' | '.join(cells)} |")


def model_table() -> None:
    """Print what the model says of data that are not there: on so many workers of a core each."""
    rows, columns, n_entries = ROWS, COLUMNS, 29 * ROWS
    costs: dict[str, tuple[str, float, int, int, Work | None]] = {
        f"ingest of {rows:.0e} x {columns:.0e} float32": ("ingest", 4.0 * rows * columns, 1, 64_000, None)
    }
    for name, (method, settings, told) in ASKED.items():
        plan = plan_of(method, settings, told)
        costs[name] = method, plan.read_nbytes, plan.n_passes, plan.n_tasks, plan.work
    # 14 million columns have 10^14 products of two; 29 entries of a row have 29 of those of PER_ROW / 29 pairs each.
    entries, n_passes = n_entries * 29 / PER_ROW, 7
    work = Work({"entries paired": n_passes * entries})
    costs["FGM, 10^14 products, rows of 29 entries, 7 passes"] = ("fgm", 6.0 * entries * n_passes, n_passes, 0, work)
    workers = (1, 10, 100, 1000)
    heads = " | ".join(f"{n:,} worker{'s' * (n > 1)}" for n in workers)
    print(f"| job | {heads} | bound at 1,000 by | scheduler |")
    print("|---" * (3 + len(workers)) + "|")
    for name, (method, nbytes, n_passes, n_tasks, work_of_job) in costs.items():
        n_given = int(max(n_tasks, min(nbytes // 2**26, 64_000 * n_passes)))
        found = [cost_of_step(method, nbytes, n_passes, n_given, n, MEASURED, work=work_of_job) for n in workers]
        load_of = n_given * MEASURED.task_s / found[-1].seconds
        said = f"{n_given / found[-1].seconds:,.0f} tasks a second, {load_of:.0%} of it"
        print(f"| {name} | {' | '.join(shown_s(one.seconds) for one in found)} | {found[-1].bound} | {said} |")


def main() -> None:
    """Measure, fit and print; or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="what the model says of what is larger")
    parser.add_argument("--into", type=Path, help="file to write the machine's constants to")
    parser.add_argument("--runs", type=Path, help="file with what was measured, which is gone on from")
    parser.add_argument("--folder", type=Path, help="where stores are kept")
    parser.add_argument("--memory", action="store_true", help="what the plans of these say of memory")
    options = parser.parse_args()
    if options.table or options.memory:
        (model_table if options.table else memory_table)()
        return
    known = json.loads(options.runs.read_text()) if options.runs and options.runs.exists() else {}

    def keep() -> None:
        if options.runs:
            options.runs.write_text(json.dumps(known))

    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        measured(folder, known, keep)
    runs = list(known.values())
    constants = fitted([run for run in runs if run["role"] == "fit"])
    print_fit(runs, constants)
    if options.into:
        options.into.write_text(as_file(constants, of_cluster()))


if __name__ == "__main__":
    main()
