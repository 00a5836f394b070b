"""What the processes of a run take at most, and what its plan promised: by method, shape of the data, kind of cluster.

    python benchmarks/process_memory.py                          every method over 442 rows: the constants `BASE_*`
    python benchmarks/process_memory.py --rows --method          bytes of a row: the constants `*_ROW_NBYTES`
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
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
FEW_LIMIT = 2048 * MIB
IDLE_MIB = 100.0
"""A worker that has had no task yet takes 62 to 87."""
PROC = Path("/proc")


def dense(n_samples: int, n_features: int, dtype: str) -> tuple[Any, np.ndarray]:
    """Return columns of noise, of which three tell of the target."""
    rng = np.random.default_rng(SEED)
    if dtype == "int8":
        X: np.ndarray = rng.integers(0, 3, (n_samples, n_features), dtype=np.int8)
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

    text: str
    make: Any
    options: Mapping[str, Any] = MappingProxyType({})
    of_store: Mapping[str, Any] = MappingProxyType({})
    methods: Sequence[str] = tuple(METHODS)


INT8 = {"dtype": "int8"}


def classes(n_samples: int, n_features: int, n_classes: int) -> tuple[Any, np.ndarray]:
    """Return columns of noise, of which some tell of one class each."""
    X, _ = dense(n_samples, n_features, "float32")
    return X, (X[:, :n_classes] + np.random.default_rng(SEED).gumbel(size=(n_samples, n_classes))).argmax(axis=1)


SHAPES = {
    "few": Shape("442 rows of 10 columns: what processes take whatever they do.", None),
    "wide": Shape("200 rows of 200,000 columns, float32.", lambda: dense(200, 200_000, "float32")),
    "wide int8": Shape("500 rows of 200,000 columns, int8.", lambda: dense(500, 200_000, "int8"), of_store=INT8),
    "very wide": Shape("100 rows of 10^7 columns, int8.", lambda: dense(100, 10_000_000, "int8"), of_store=INT8),
    "tall": Shape("2,000,000 rows of 16 columns, float32.", lambda: dense(2_000_000, 16, "float32")),
    "very tall": Shape("10^7 rows of 8 columns, int8.", lambda: dense(10_000_000, 8, "int8"), of_store=INT8),
    "sparse wide": Shape("60,000 rows of 10^7 columns, 30 entries in a row.", lambda: sparse(60_000, 10_000_000, 30)),
    "sparse tall": Shape("2,000,000 rows of 2,000 columns, 8 entries in a row.", lambda: sparse(2_000_000, 2000, 8)),
    "pairs": Shape(
        "3,000 rows of 4,500 columns, float32, and the 10^7 products of two.",
        lambda: dense(3000, 4500, "float32"),
        {"feature_map": {"map": "pairs"}},
        methods=("fgm",),
    ),
    "classes": Shape(
        "400,000 rows of 60 columns, float32, five classes.",
        lambda: classes(400_000, 60, 5),
        methods=("message", "mission"),
    ),
}
_NAMES = " ".join(f"'{one}'" if " " in one else one for one in SHAPES)
COMMAND = f"""python benchmarks/process_memory.py --shape {_NAMES} \\
        --rows --folder STORES --kept ROWS --write benchmarks/process_memory.md"""


def make_store(folder: Path, shape: str) -> None:
    """Ingest the data of a shape, where they are not in the folder."""
    from daskfs.sources.ingest import ingest

    store = folder / f"{shape}.zarr"
    if SHAPES[shape].make is not None and not store.exists():
        X, y = SHAPES[shape].make()
        ingest(X, store, y=y, **SHAPES[shape].of_store)


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
        for part in reversed(parts):
            part.terminate()
        for part in parts:
            try:
                part.wait(30)
            except subprocess.TimeoutExpired:  # a worker may wait for a client that was ended
                part.kill()
                part.wait()


def write_pipeline(folder: Path, shape: str, method: str, cluster: dict[str, Any]) -> Path:
    """Write a pipeline over the store of a shape."""
    document = {
        "version": 1,
        "name": "few",
        "store": {"path": f"{shape}.zarr", **SHAPES[shape].of_store},
        "select": {**METHODS[method], **SHAPES[shape].options},
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
    from daskfs.pipeline.facts import facts_of
    from daskfs.pipeline.limits import limits_of
    from daskfs.pipeline.plan import plan_pipeline

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
        in_client = limits.base_of_client(facts.n_samples, facts.held_nbytes)
        base = limits.base_of_worker(facts) if has_workers else in_client
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
    from daskfs.pipeline.facts import facts_of
    from daskfs.pipeline.plan import plan_pipeline

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


class Row(NamedTuple):
    """What one process of a run took at most; sizes in MiB. Where nothing ran, `why` not."""

    shape: str
    method: str
    cluster: str
    process: str = ""
    limit: float = 0.0
    promised: float = 0.0
    peak: float = 0.0
    seconds: float = 0.0
    has_ended: bool = True
    why: str = ""

    @property
    def margin(self) -> float:
        return self.promised - self.peak

    @property
    def share(self) -> float:
        """Of the promise, that was not taken."""
        return self.margin / self.promised

    @property
    def run(self) -> tuple[str, str, str]:
        return self.shape, self.method, self.cluster

    def begun(self) -> Row:
        """Return the row, or why it says nothing: it is of a worker whose run was ended before a task had begun."""
        if self.has_ended or self.process != "worker" or self.peak > IDLE_MIB:
            return self
        return Row(*self.run, why=f"ended after {self.seconds:.0f} s, before a worker had begun")

    def cells(self) -> list[str]:
        if self.why:
            return [*self.run, self.why, *[""] * (len(HEAD) - 4)]
        sizes = [f"{size:.1f}" for size in (self.limit, self.promised, self.peak, self.margin)]
        return [
            *self.run,
            self.process,
            *sizes,
            f"{self.share:.0%}",
            f"{self.seconds:.0f}{'' if self.has_ended else '+'}",
        ]


HEAD = ["shape", "method", "cluster", "process", "limit", "promised", "peak", "margin", "%", "s"]


def measure(folder: Path, shape: str, method: str, kind: str, n_repeats: int, longest_s: float) -> list[Row]:
    """Return the largest peak of each kind of process over some runs, or why there was none."""
    what, cluster = (shape, method, kind), CLUSTERS[kind]
    limits: Any = {"memory_limit": FEW_LIMIT} if shape == "few" else limits_for(folder, shape, method, cluster)
    if isinstance(limits, str):
        return [Row(*what, why=limits)]
    n_workers = 2 if "client_memory_limit" in limits else 0
    taken = limits.get("client_memory_limit", 0) + limits["memory_limit"] * max(1, n_workers)
    there = memory_of_machine()
    if shape != "few" and taken > there:
        return [Row(*what, why=f"not run: it may take {taken / 2**30:.1f} GiB, the machine has {there / 2**30:.1f}")]
    most: dict[str, Row] = {}
    for _ in range(n_repeats):
        own: Any = nullcontext(("", []))
        if kind == "address":
            own = running_cluster(folder, limits["memory_limit"])
        with own as (address, others):
            where = cluster | limits | ({"address": address} if address else {})
            found = peaks(folder, shape, method, where, others, longest_s)
        if "error" in found:
            return [Row(*what, why=f"failed with {limits}: {found['error']}")]
        for name, nbytes in found["measured_nbytes"].items():
            role = "client" if name == "client" else "worker"
            limit, promised_mib = (found[key][role] / MIB for key in ("limit_nbytes", "promised_nbytes"))
            row = Row(*what, role, limit, promised_mib, nbytes / MIB, found["seconds"], found.get("has_ended", True))
            most[role] = max(most.get(role, row), row, key=lambda one: one.peak)
    return [row.begun() for row in most.values()]


def memory_of_machine() -> int:
    """Return the bytes of memory that processes can get."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def read_all(matrix: Any, n_rows: int) -> None:
    """Read a column of a matrix, as a task."""
    matrix.read(slice(n_rows), slice(0, 1))


def row_nbytes(folder: Path) -> dict[str, float]:
    """Return what a row more takes: of 8 million rows of a store with 10 million, against one million."""
    import daskfs
    from daskfs.cluster.dask_workers import OnDask
    from daskfs.cluster.open import open_cluster

    make_store(folder, "very tall")
    store = daskfs.open_store(folder / "very tall.zarr")
    found = {}
    for what, n_read in (("numbers", 1000), ("read", store.shape[0])):
        peak = []
        for n_rows in (1_000_000, 8_000_000):
            taken = np.sort(np.random.default_rng(SEED).permutation(store.shape[0])[:n_rows])
            with open_cluster("local", n_workers=1, memory_limit=4 * 2**30) as cluster:
                client: Any = cluster.client
                workers = OnDask(client)
                sent = workers.keep(store.take(taken))
                list(workers.map_blocks(read_all, [n_read] * 2, name="read", shared=(sent,)))
                peak += [max(nbytes for name, nbytes in workers.peak_memory().items() if name != "client")]
                workers.let_go(sent)
        found[what] = (peak[1] - peak[0]) / 7e6
    split = "import sys, daskfs; from daskfs.cluster.memory import peak_memory_nbytes as peak\n"
    split += "store = daskfs.open_store(sys.argv[1]); before = peak(); train, test = store.split(0.2)\n"
    split += "train.read_target(); print((peak() - before) / store.shape[0])"
    command = [sys.executable, "-c", split, str(folder / "very tall.zarr")]
    found["split"] = float(subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=True).stdout)
    return found


def constants(rows: Sequence[Row], of_rows: Mapping[str, float]) -> str:
    """Return the constants of plans and the most that was measured of each."""
    from daskfs.pipeline import limits

    few = {(row.method, row.cluster, row.process): row.peak for row in rows if row.shape == "few"}

    def between(values: Sequence[float]) -> str:
        return f"{min(values):.1f} to {max(values):.1f} MiB" if values else "-"

    def of(process: str, *kinds: str) -> str:
        return between([peak for key, peak in few.items() if key[1] in kinds and key[2] == process])

    def more(process: str, *pairs: tuple[str, str]) -> str:
        both = [((method, a, process), (method, b, process)) for method in METHODS for a, b in pairs]
        return between([few[a] - few[b] for a, b in both if a in few and b in few])

    measured = {
        "BASE_CLIENT_NBYTES": of("client", "none", "address"),
        "BASE_SCHEDULER_NBYTES": more("client", ("threads", "none"), ("local", "address")),
        "BASE_WORKER_NBYTES": of("worker", "local"),
        "BASE_EXTERNAL_NBYTES": more("worker", ("address", "local")),
    }
    lines = [[name, f"{getattr(limits, name) / MIB:.0f} MiB", text] for name, text in measured.items()]
    lines += [["HELD_NBYTES", f"{n / MIB:.0f} MiB", f"added for a {one}"] for one, n in limits.HELD_NBYTES.items()]
    if of_rows:
        text = f"{of_rows['numbers']:.1f} bytes their numbers, {of_rows['read']:.1f} while a column of all is read"
        lines += [["WORKER_ROW_NBYTES", f"{limits.WORKER_ROW_NBYTES} bytes", text]]
        text = f"{of_rows['split']:.1f} bytes: order of the source, numbers, the split, target; weights are 8 more"
        lines += [["CLIENT_ROW_NBYTES", f"{limits.CLIENT_ROW_NBYTES} bytes", text]]
    return table(["constant of `daskfs/pipeline/limits.py`", "planned", "measured"], lines)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows))


def margins(rows: Sequence[Row]) -> str:
    """Return the least margins by kind of process, and the promises furthest above their peaks."""
    lines = []
    for kind in dict.fromkeys((row.cluster, row.process) for row in rows if row.process):
        those = [row for row in rows if (row.cluster, row.process) == kind]
        least, share = min(those, key=lambda row: row.margin), min(those, key=lambda row: row.share)
        larger = [row for row in those if row.has_ended and row.shape != "few"] or those
        loosest = max(larger, key=lambda row: row.promised / row.peak)
        n_over = sum(row.promised > 1.5 * row.peak for row in larger)
        lines.append(
            [
                *kind,
                str(len(those)),
                f"{least.margin:.1f} ({least.shape}, {least.method})",
                f"{share.share:.1%} ({share.shape}, {share.method})",
                f"{loosest.promised / loosest.peak:.2f} ({loosest.shape}, {loosest.method})",
                f"{n_over} of {len(larger)}",
            ]
        )
    head = ["cluster", "process", "runs", "least margin, MiB", "least, of the promise", "promise / peak at most"]
    return table([*head, "of which above 1.5"], lines)


def page(rows: Sequence[Row], of_rows: Mapping[str, float]) -> str:
    """Return the page of all rows."""
    from importlib.metadata import version

    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "dask", "zarr", "pyarrow"))
    machine = f"Python {sys.version.split()[0]}, {versions}; {memory_of_machine() / 2**30:.0f} GiB"
    ran, others = [row for row in rows if not row.why], [row for row in rows if row.why]
    parts = [
        "# What the processes of a run take, and what its plan promised",
        f"    {COMMAND}\n\n{_ABOUT}\n\n{machine}.",
        f"## Margins\n\n{_OF_MARGINS}\n\n{margins(ran)}",
        f"## Constants\n\n{_OF_CONSTANTS}\n\n{constants(ran, of_rows)}",
    ]
    for shape in dict.fromkeys(row.shape for row in ran):
        those = sorted((row for row in ran if row.shape == shape), key=lambda row: list(METHODS).index(row.method))
        parts.append(f"## {shape.capitalize()}\n\n{SHAPES[shape].text}\n\n")
        parts[-1] += table(HEAD[1:], (row.cells()[1:] for row in those))
    if others:
        parts.append("## Not run\n\n" + table([*HEAD[:3], "why"], (row.cells()[:4] for row in others)))
    return "\n\n".join(parts) + "\n"


_ABOUT = """\
Written by the script. MiB; the largest of two workers of one thread, which are new for each run. Limits are the least
that the plan takes and an eighth of what they leave to the data, but for *few* rows (2 GiB, and promised is what the
plan says of them). A + behind the seconds: the run was ended then, and its peaks are those until then."""
_OF_MARGINS = """\
What was promised and not taken. Runs that were ended count here, but not in the last two columns."""


_OF_CONSTANTS = """\
Of *few* rows, from the least to the largest of the methods; of the scheduler and of what others have started the
differences of two runs of one method: `threads` beside `none` and `local` beside `address`, `address` beside `local`.
What is above a constant is what `HELD_NBYTES` is for. Bytes of a row: `--rows`."""


def main() -> int:
    """Measure, print rows as they come, and write a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--cluster", nargs="*", choices=CLUSTERS, default=list(CLUSTERS))
    parser.add_argument("--method", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=["few"])
    parser.add_argument("--longest", type=float, default=300.0, help="seconds of a run, after which it is ended")
    parser.add_argument("--folder", type=Path, help="where stores are kept from one call to the next")
    parser.add_argument("--plan", action="store_true", help="tell the limits and refusals, and run nothing")
    parser.add_argument("--rows", action="store_true", help="measure what a row more takes: `*_ROW_NBYTES`")
    parser.add_argument("--kept", type=Path, help="a file of rows: runs that it has are not made again")
    parser.add_argument("--write", type=Path, help="a page for all rows")
    options = parser.parse_args()
    rows: list[Row] = []
    if options.kept and options.kept.exists():
        rows = [Row(**json.loads(line)) for line in options.kept.read_text().splitlines()]
    print(table(HEAD, (row.cells() for row in rows)), flush=True)
    with nullcontext(options.folder) if options.folder else tempfile.TemporaryDirectory() as text:
        folder = Path(text).resolve()
        for shape in options.shape:
            make_store(folder, shape)
            for method in (one for one in options.method if one in SHAPES[shape].methods):
                for kind in options.cluster:
                    if options.plan:
                        print(shape, method, kind, limits_for(folder, shape, method, CLUSTERS[kind]), flush=True)
                        continue
                    if (shape, method, kind) in {row.run for row in rows}:
                        continue
                    for row in measure(folder, shape, method, kind, options.repeats, options.longest):
                        print("| " + " | ".join(row.cells()) + " |", flush=True)
                        rows.append(row)
                        if options.kept:
                            with options.kept.open("a") as file:
                                file.write(json.dumps(row._asdict()) + "\n")
        of_rows = row_nbytes(folder) if options.rows else {}
        print(*(f"{name}: {nbytes:.1f} bytes a row" for name, nbytes in of_rows.items()), sep="\n")
    if options.write:
        options.write.write_text(page(rows, of_rows))
    return int(any(row.margin < 0 or row.why.startswith("failed") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
