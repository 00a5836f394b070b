"""Jobs, and how their contenders are measured.

A `Job` is a question: data, contenders that answer it, a judge of the answers. `measure` runs each contender in a
process of its own, in turn over the repeats (A B A B ...), and returns records: plain dictionaries, one per contender
and repeat. `keep` appends them to ``benchmarks/records/<job>.jsonl``.

What is measured is the call of the contender alone. Before it, the process imports, unpickles the data, runs the
contender once on the data of scale "smoke" so that kernels are compiled, and calls ``prepare``. Then it resets its peak
of memory. Calls shorter than `SHORT_S` are repeated, and the records have their mean. Contenders that take less than
`AGAIN_S` are called on the whole data before, too.

This module imports only the standard library and psutil: contenders of other environments run it as well.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import json
import math
import os
import pickle
import platform
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "records"
SCALES = ("smoke", "small", "full")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
LIBRARIES = (
    *("numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr", "pandas", "pyarrow", "polars", "zarrs"),
    *("abess", "adelie", "celer", "skglm", "vowpalwabbit", "knockpy"),
)
SHORT_S, MAX_CALLS = 0.1, 20
AGAIN_S = 10.0
"""Contenders that take less are measured a second time, and the second time counts."""
SAMPLING_S = 0.1
"""Between two looks at the memory of all processes."""
PATIENCE = 4
"""A contender that waits, or shares the machine with other work, may take so many times its CPU seconds."""
Case = dict[str, Any]
"""Keyword arguments of a job's `data`."""
Record = dict[str, Any]


class NotApplicable(Exception):
    """A contender cannot answer this case; the message is the reason that the table shows."""


@dataclass(frozen=True)
class Contender:
    """A way to answer a job.

    Parameters
    ----------
    run : callable
        From the data to an answer, which the job's judge understands.
    needs : tuple of str
        Modules without which it is skipped.
    prepare : callable, optional
        From the data to what `run` is given, outside the clock: a conversion that users of the library have to make.
    python : str, optional
        Environment variable that names another Python, for a library that does not install beside daskfs.
    """

    run: Callable[[Any], Any]
    needs: tuple[str, ...] = ()
    prepare: Callable[[Any], Any] | None = None
    python: str | None = None


@dataclass(frozen=True)
class Job:
    """A question that contenders answer.

    Parameters
    ----------
    name, title : str
        Name on the command line; heading of its tables.
    data : callable
        ``data(folder, seed, **case)`` makes the input, in memory or as files in `folder`. The repeat is the seed.
    run, peers : dict of str to Contender
        Ours, and those of others. The first of `run` is what all are compared with.
    judge : callable
        ``judge(data, answer)`` returns numbers that say how good an answer is. Not measured.
    scales : dict of str to list of Case
        The cases of each of `SCALES`. Contenders warm up with the most similar case of "smoke".
    about : str
        What the data are and what is measured, for the page.
    rival : str, optional
        The peer that `evidence` and the trend compare with. By default the fastest.
    evidence : str, optional
        A line of the README with fields of `tables.evidence_fields`.
    table : callable, optional
        From the records of a run to Markdown, in place of a table of all contenders.
    cold : bool
        Measure without a warm-up.
    threads : int
        Of BLAS and numba.
    repeats : int
        By default.
    timeout_s : float
        CPU seconds, for each of `threads`, after which a contender is stopped; on the clock, `PATIENCE` times as many.
    """

    name: str
    title: str
    data: Callable[..., Any]
    run: Mapping[str, Contender]
    peers: Mapping[str, Contender]
    judge: Callable[[Any, Any], dict[str, float]]
    scales: Mapping[str, list[Case]]
    about: str = ""
    rival: str | None = None
    evidence: str | None = None
    table: Callable[[list[Record]], str] | None = None
    cold: bool = False
    threads: int = 1
    repeats: int = 3
    timeout_s: float = 1800.0

    @property
    def contenders(self) -> dict[str, Contender]:
        """All contenders, ours first."""
        return {**self.run, **self.peers}


def measure(
    job: Job,
    scale: str,
    repeats: int | None = None,
    only: str = "",
    say: Callable[[str], None] = print,
    done: Sequence[Record] = (),
) -> Iterator[Record]:
    """Yield a record per case, repeat and contender, as soon as each is known.

    `done` are the records of a run that was stopped: what they measured is not measured again, and the run's date is
    theirs.
    """
    if scale not in job.scales:
        say(f"{job.name}: no scale {scale!r}")
        return
    run = done[0]["run"] if done else now()
    common = {"job": job.name, "scale": scale, "run": run, **commit(), "machine": machine()}
    known = [(record["case"], record["repeat"], record["contender"]) for record in done]
    with tempfile.TemporaryDirectory(prefix=f"benchmark-{job.name}-") as made:
        folder = Path(made)
        for k, case in enumerate(job.scales[scale]):
            warm_up = None if job.cold else make_data(job, warm_up_case(job, case), 0, folder / f"warm-up-{k}")
            for repeat in range(repeats or (1 if scale == "smoke" else job.repeats)):
                place = folder / f"case-{k}-{repeat}"
                left = [name for name in job.contenders if only in name and (dict(case), repeat, name) not in known]
                if not left:
                    continue
                data: Path | str
                try:
                    data = make_data(job, case, repeat, place)
                except RuntimeError as error:
                    data = f"no data: {error}"[:300]
                for name in left:
                    record = {**common, "case": dict(case), "contender": name, "ours": name in job.run}
                    record |= {"repeat": repeat, "seed": repeat, "date": now()}
                    if isinstance(data, str):
                        record |= {"status": "skipped", "reason": data}
                    else:
                        record |= in_own_process(job, name, job.contenders[name], data, warm_up)
                    say(f"{job.name} {of_case(case)} {name}: {in_short(record)}")
                    yield record
                for file in sorted(place.rglob("*"), reverse=True):  # the next data may need the room
                    file.rmdir() if file.is_dir() else file.unlink()


def warm_up_case(job: Job, case: Case) -> Case:
    """Return the case of scale "smoke" that has most arguments of a case, so that the same kernels are compiled."""
    return max(job.scales["smoke"], key=lambda one: sum(one.get(name) == value for name, value in case.items()))


def make_data(job: Job, case: Case, seed: int, folder: Path) -> Path:
    """Make the data of a case in a process of their own; return the file that contenders unpickle."""
    folder.mkdir()
    run_child(job, {"make": {"case": dict(case), "seed": seed}, "data": str(folder / "data.pickle")}, sys.executable)
    return folder / "data.pickle"


def in_own_process(job: Job, name: str, contender: Contender, data: Path, warm_up: Path | None) -> Record:
    """Measure a contender once; an error and a library that is missing are results too."""
    python = sys.executable
    if contender.python is not None:
        python = os.environ.get(contender.python, "")
        if not python:
            return {"status": "skipped", "reason": f"{contender.python} is not set: see benchmarks/environments.py"}
    else:
        missing = [module for module in contender.needs if find_spec(module) is None]
        if missing:
            return {"status": "skipped", "reason": f"not installed: {', '.join(missing)}"}
    request = {"contender": name, "data": str(data), "warm_up": None if warm_up is None else str(warm_up)}
    try:
        return run_child(job, request, python)
    except subprocess.TimeoutExpired:
        limit = f"{job.timeout_s:g} s of CPU time, or {PATIENCE * job.timeout_s:g} s on the clock"
        return {"status": "failed", "reason": f"not done after {limit}"}
    except RuntimeError as error:
        return {"status": "failed", "reason": str(error)[-300:]}


def run_child(job: Job, request: dict[str, Any], python: str) -> Record:
    """Run `child` in a new process, and watch the memory of its tree while it measures."""
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=os.environ.get("TMPDIR")) as scratch:
        marker, result, log = (Path(scratch, name) for name in ("measuring", "result.json", "log"))
        request = {**request, "job": job.name, "marker": str(marker), "result": str(result)}
        environment = {**os.environ, **dict.fromkeys(THREADS, str(job.threads)), "TMPDIR": scratch}
        environment |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
        says = "from benchmarks.harness import child; from benchmarks.jobs import JOBS; child(JOBS)"
        command = [python, "-c", says, json.dumps(request)]
        peak, deadline = 0, time.monotonic() + PATIENCE * job.timeout_s
        with log.open("wb") as out, subprocess.Popen(command, env=environment, cwd=ROOT, stdout=out, stderr=out) as run:
            while run.poll() is None:
                if marker.exists():
                    peak = max(peak, tree_nbytes(run.pid))
                if time.monotonic() > deadline or cpu_s_of(tree(run.pid)) > job.threads * job.timeout_s:
                    end_tree(run.pid)
                    raise subprocess.TimeoutExpired(command, job.timeout_s)
                time.sleep(SAMPLING_S)
        if not result.exists():
            raise RuntimeError(f"exit code {run.returncode}: {log.read_text(errors='replace').strip()[-300:]}")
        record: Record = json.loads(result.read_text())
        if "peak_nbytes" in record:
            record["peak_nbytes"] = max(record["peak_nbytes"], peak)
        return record


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and all below it, without forks of it that have not started their program."""
    try:
        root = psutil.Process(pid)
        below = root.children(recursive=True)
        command = root.cmdline()
    except psutil.Error:
        return []
    found = [root]
    for process in below:
        with suppress(psutil.Error):
            if process.cmdline() != command:  # such a fork shows its parent's pages as its own
                found.append(process)
    return found


def tree_nbytes(pid: int) -> int:
    """Return the resident memory of a tree of processes."""
    total = 0
    for process in tree(pid):
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def tree_cpu_s() -> float:
    """Return the CPU seconds of this process, of what it started and of what these started."""
    own = os.times()
    return time.process_time() + own.children_user + own.children_system + cpu_s_of(tree(os.getpid())[1:])


def cpu_s_of(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds of processes, and of what they started that has ended."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def end_tree(pid: int) -> None:
    """End a process and all that it started."""
    for process in reversed(tree(pid)):
        with suppress(psutil.Error):
            process.kill()


def child(jobs: Mapping[str, Job]) -> None:
    """Answer the request on the command line: what a child process does."""
    request = json.loads(sys.argv[1])
    Path(request["result"]).write_text(json.dumps(answered(request, jobs)))


def answered(request: dict[str, Any], jobs: Mapping[str, Job]) -> Record:
    """Make data, or measure one contender, in this process."""
    warnings.simplefilter("ignore")  # of convergence, at the default tolerances of each library
    job, path = jobs[request["job"]], Path(request["data"])
    if "make" in request:
        made = job.data(path.parent, request["make"]["seed"], **request["make"]["case"])
        with path.open("wb") as file:
            pickle.dump(made, file, protocol=pickle.HIGHEST_PROTOCOL)
        return {"status": "ok"}
    contender = job.contenders[request["contender"]]
    try:
        if request["warm_up"] is not None:
            with suppress(NotApplicable):  # the small data of the warm-up may have fewer columns than are asked for
                contender.run(loaded(Path(request["warm_up"]), contender))
        data = loaded(path, contender)
        answer, measured = timed(contender, data, Path(request["marker"]), is_cold=job.cold)
        if not job.cold and measured["cpu_s"] < AGAIN_S:  # large data may need kernels that small ones do not
            answer, measured = timed(contender, data, Path(request["marker"]), is_cold=False)
    except NotApplicable as reason:
        return {"status": "skipped", "reason": str(reason)}
    except ModuleNotFoundError as error:
        if error.name not in contender.needs:
            raise
        return {"status": "skipped", "reason": f"not installed: {error.name}"}
    except Exception as error:  # a result of the comparison
        traceback.print_exc()
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"[:300]}
    quality = job.judge(unpickled(path), answer)
    return {"status": "ok", **measured, "quality": {k: rounded(v) for k, v in quality.items()}, "versions": versions()}


def loaded(path: Path, contender: Contender) -> Any:
    """Return the data as the contender wants them."""
    data = unpickled(path)
    return data if contender.prepare is None else contender.prepare(data)


def unpickled(path: Path) -> Any:
    """Return what `make_data` made, with NumPy 1 as well."""
    with path.open("rb") as file:
        return Unpickler(file).load()


class Unpickler(pickle.Unpickler):
    """Finds NumPy's modules by their names in version 1."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class or function."""
        try:
            return super().find_class(module, name)
        except ModuleNotFoundError:
            return super().find_class(module.replace("numpy._core", "numpy.core"), name)


def timed(contender: Contender, data: Any, marker: Path, is_cold: bool) -> tuple[Any, Record]:
    """Call a contender until `SHORT_S` have passed; return its answer, and the means of the calls."""
    gc.collect()
    base = resident_nbytes(reset_peak=True)
    marker.touch()
    cpu, wall, n_calls = tree_cpu_s(), time.perf_counter(), 0
    while n_calls == 0 or (not is_cold and n_calls < MAX_CALLS and time.perf_counter() - wall < SHORT_S):
        answer = contender.run(data)
        n_calls += 1
    wall = (time.perf_counter() - wall) / n_calls
    cpu = (tree_cpu_s() - cpu) / n_calls
    marker.unlink()
    found = {"cpu_s": rounded(cpu), "wall_s": rounded(wall), "n_calls": n_calls}
    return answer, found | {"peak_nbytes": resident_nbytes(), "base_nbytes": base}


def resident_nbytes(reset_peak: bool = False) -> int:
    """Return the peak resident memory of this process, or reset it and return the memory now. Linux; 0 elsewhere."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    if reset_peak:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # freed memory that is used again would not show
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    name = "VmRSS" if reset_peak else "VmHWM"
    line = next(line for line in status.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def rounded(value: float) -> float | None:
    """Return a number of four digits; None for what is not a number, which JSON has no word for."""
    value = float(value)
    return float(f"{value:.4g}") if math.isfinite(value) else None


def now() -> str:
    """Return the time in UTC to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def commit(*made: str) -> dict[str, Any]:
    """Return the commit, and whether files differ from it, records and other files that are made of them aside."""
    git = ["git", "-C", str(ROOT)]
    try:
        name = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True)
        command = [*git, "status", "--porcelain", "--", ".", *(f":!{path}" for path in ("benchmarks/records", *made))]
        changed = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return {"commit": "unknown", "dirty": True}
    return {"commit": name.stdout.strip(), "dirty": bool(changed.stdout.strip())}


def machine() -> dict[str, Any]:
    """Return the processor and how many cores it has: what makes times comparable."""
    cpu = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": round(psutil.virtual_memory().total / 2**30)}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that this process has imported."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        if {"scikit-learn": "sklearn"}.get(name, name) in sys.modules:
            with suppress(importlib.metadata.PackageNotFoundError):
                found[name] = importlib.metadata.version(name)
    return found


def of_case(case: Case) -> str:
    """Return a case in words."""
    return ", ".join(f"{name.replace('_', ' ')} {shown(value)}" for name, value in case.items())


def shown(value: Any) -> str:
    """Return a value with separators of thousands."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def in_short(record: Record) -> str:
    """Return a record in a line."""
    if record["status"] != "ok":
        return f"{record['status']}: {record['reason']}"
    quality = "".join(f", {name} {value}" for name, value in record["quality"].items())
    return f"{record['cpu_s']:g} s of CPU, {record['wall_s']:g} s, {record['peak_nbytes'] / 2**20:,.0f} MiB{quality}"


def read(folder: Path = RECORDS) -> list[Record]:
    """Return all records, in the order in which they were made."""
    lines = (line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines())
    records = [record for record in map(json.loads, lines) if "run" in record]  # those of papers and scale differ
    return sorted(records, key=lambda record: (record["run"], record["date"]))


def keep(records: Iterable[Record], job: str, folder: Path = RECORDS) -> None:
    """Append records to the file of a job."""
    path = folder / f"{job}.jsonl"
    write_lines(records, path, path.read_text("utf-8") if path.exists() else "")


def write_lines(records: Iterable[Record], path: Path, before: str = "") -> None:
    """Write records, one per line, to a file that is replaced as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(before + "".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    unfinished.replace(path)
