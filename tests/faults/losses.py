"""Parts of a cluster that are lost while it works: what becomes of fits and ingests, and how soon.

A part is lost at its n-th moment: a worker as a task changes its state, opens a tile or calls a kernel, the scheduler
as a task is done, the driver as it opens a tile, calls a kernel or saves a checkpoint. Numbers are drawn with a seed
out of those of an undisturbed run, so nothing depends on how fast anything is. What happens (`LOSSES`):

worker      one worker is killed with SIGKILL; its nanny starts another
all         every worker is killed, each at its own moment
churn       every worker leaves after one to four tasks and another comes, again and again, as under walltime
gone        so do both workers, and nobody comes: an error says so, and the job goes on, on another cluster
node        the worker with the central node of Asy-OS is killed
pause       a worker stands still for a while (SIGSTOP), as behind a network that does
scheduler   the scheduler is killed; another one is started, and the fit goes on from its checkpoint
still       the scheduler stands still, longer than the client waits before it asks whether it is there
link        the network between a worker and the scheduler stands still for a while, and then goes on
line        so does that between the client process and the scheduler
cut         so does that, for longer than the client waits: an error says so, and the job goes on from its checkpoint
driver      the process that fits is killed; another one goes on from its checkpoint
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster, Scheduler, Worker
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

import daskfs
from daskfs import interrupts
from daskfs.cluster.dask_workers import OnDask
from daskfs.cluster.open import open_cluster
from daskfs.cluster.presence import presence_of
from daskfs.cluster.workers import Here
from daskfs.errors import RunError
from daskfs.methods import SELECTORS
from daskfs.pipeline.checkpoint import Checkpoint
from daskfs.selectors.online_substitution.columns import ColumnSettings, read_columns
from daskfs.store.tile_reader import TileReader
from tests.faults.relay import relayed
from tests.faults.storms import PATIENCE_S

N_WORKERS = 3
PAUSE_S, STILL_S, CUT_S = 2.0, 8.0, 20.0
N_ASYNC = 10
"""Features that Asy-OS selects, all those that the target was made of."""
BACK_S = 10.0
"""How long a worker that was killed is waited for before the next trial, which does with those there are."""
MOST_RESUMED = 5
"""How often a job is resumed that gets no further."""
LEAVE_S = 5.0
"""How long a worker that leaves has to hand over what it holds, before its job ends."""
GONE_S = 1.0
"""How long a cluster without any worker is waited for."""
LOSSES = ("worker", "scheduler", "driver", "all", "churn", "gone", "node", "pause", "still", "link", "line", "cut")
FEW_LOSSES = ("worker", "scheduler", "driver")
"""Those of which there are as many as are asked for; of the others a quarter."""
_SAID_OF = {"gone": "no worker is left", "cut": "the scheduler has not answered"}
_OF_NETWORK = ("link", "line", "cut")
_OF_SCHEDULER = ("scheduler", "still", "churn", "gone", *_OF_NETWORK)
"""Those whose scheduler is a process of its own."""
GOOD_ENDS = ("same bits", "within its guarantees", "was over before")


class ObservedAsync(daskfs.AsyncOnlineSubstitution):
    """Keeps its run."""

    def _notes(self, workers: Any, *rest: Any) -> list[str]:
        self.run = workers
        return super()._notes(workers, *rest)


FITS: dict[str, Callable[..., Any]] = {
    "message": lambda **how: daskfs.Message(n_subsets=24, **how),
    "online_substitution": lambda **how: daskfs.OnlineSubstitution(8, schedule="screen", block_columns=8, **how),
    "async_online_substitution": lambda **how: ObservedAsync(
        N_ASYNC, n_workers=2, block_columns=16, timeout_s=5.0, **how
    ),
    "fgm": lambda **how: daskfs.FGM(12, n_features_per_pass=3, loss="squared", **how),
    "mission": lambda **how: daskfs.Mission(8, n_epochs=3, block_rows=128, n_replicas=2, **how),
}
JOBS = (*FITS, "ingest")
MIN_PART_NBYTES = 1 << 13
PRELOADED = ["tests.faults.losses", "numba", *(SELECTORS[name].partition(":")[0] for name in FITS)]
"""What processes have imported when they are forked: to start them is most of what a trial costs."""


class Moments:
    """Counts moments, and does something at the n-th."""

    def __init__(self, at: int, deed: Callable[[], None], mark: Path | None = None) -> None:
        self.at, self.deed, self.mark, self.n = at, deed, mark, 0
        self._lock = threading.Lock()

    def count(self) -> None:
        """Count one; do it at the n-th, where no other process was first."""
        with self._lock:
            self.n += 1
            is_now = self.n == self.at
        if is_now and (self.mark is None or _is_first(self.mark)):
            self.deed()


def _is_first(mark: Path) -> bool:
    try:
        mark.open("x").close()
    except FileExistsError:
        return False
    return True


@contextmanager
def counting(moments: Moments) -> Iterator[None]:
    """Count kernels that are called and tiles that are opened in this process."""
    called, located = interrupts.call_kernel, TileReader._locate

    def call(*arguments: Any) -> Any:
        moments.count()
        return called(*arguments)

    def locate(*arguments: Any) -> Any:
        moments.count()
        return located(*arguments)

    interrupts.call_kernel, TileReader._locate = call, locate  # type: ignore[method-assign]
    try:
        yield
    finally:
        interrupts.call_kernel, TileReader._locate = called, located  # type: ignore[method-assign]


def kill() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def pause(seconds: float) -> None:
    """Have this process stand still for a while."""
    subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)


class Mortal(WorkerPlugin):
    """A worker whose n-th moment is its last one, or that stands still there.

    Parameters
    ----------
    loss : str
        Of `LOSSES`; "" only counts.
    at : int
        0: never.
    marks : Path
        A folder that all workers see.
    """

    name = "mortal"

    def __init__(self, loss: str, at: int, marks: Path) -> None:
        self.loss, self.at, self.marks = loss, at, marks

    def setup(self, worker: Any) -> None:
        """Begin to count."""
        deed = (lambda: pause(PAUSE_S)) if self.loss == "pause" else kill
        self.moments = Moments(self.at, deed, self.marks / (f"{worker.name}" if self.loss == "all" else "lost"))
        self.stack = ExitStack()
        self.stack.enter_context(counting(self.moments))

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Count what becomes of tasks."""
        self.moments.count()

    def teardown(self, worker: Any) -> None:
        """Stop counting."""
        self.stack.close()


def counted(dask_worker: Any) -> int:
    """Return the moments of a worker so far."""
    return dask_worker.plugins["mortal"].moments.n


class Counting(SchedulerPlugin):
    """A scheduler whose n-th task that is done is its last one."""

    def __init__(self, moments: Moments, note: Path) -> None:
        self.moments, self.note = moments, note

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Count tasks that are done."""
        if finish == "memory":
            self.note.write_text(str(self.moments.n + 1))
            self.moments.count()


def scheduler(folder: Path, loss: str, at: int) -> None:
    """Run a scheduler; its address stands in a file when it listens."""
    deed: Callable[[], None] = kill if loss == "scheduler" else lambda: pause(STILL_S)
    if loss in _OF_NETWORK:
        deed = (folder / "stand still").touch

    async def run() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0") as served:
            served.add_plugin(Counting(Moments(at, deed), folder / "moments"))
            (folder / "address.part").write_text(served.address)
            (folder / "address.part").rename(folder / "address")
            await served.finished()

    asyncio.run(run())


class Leaving(WorkerPlugin):
    """A worker that leaves in order after so many tasks, as one does whose job ends."""

    name = "leaving"

    def __init__(self, at: int, note: Path) -> None:
        self.at, self.note = at, note

    def setup(self, worker: Any) -> None:
        """Begin to count."""

        async def leave() -> None:
            with self.note.open("a") as note:
                note.write("x")
            await asyncio.wait([asyncio.ensure_future(worker.close_gracefully())], timeout=LEAVE_S)
            os._exit(0)

        self.moments = Moments(self.at, lambda: worker.loop.add_callback(leave))

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Count tasks that are done."""
        if finish == "memory" and start == "executing":
            self.moments.count()


def one_worker(address: str, at: int, note: Path) -> None:
    """Run a worker in this process, for so many tasks."""

    async def run() -> None:
        async with Worker(address, nthreads=1, dashboard=False) as worker:
            await worker.plugin_add(plugin=Leaving(at, note), name="leaving")
            await worker.finished()

    asyncio.run(run())


def make_data(folder: Path) -> None:
    """Write the stores and the table that all jobs read, and what they are compared with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(3)
    X = rng.standard_normal((3000, 60)).astype(np.float32)
    y = X[:, :8].astype(float) @ np.linspace(2.0, 0.5, 8) + rng.standard_normal(len(X))
    daskfs.ingest(X, folder / "tall.zarr", y=y, tile_shape=(128, 16))
    wide = rng.standard_normal((400, 1600))
    target = wide[:, :10] @ np.linspace(3.0, 1.0, 10) + 0.5 * rng.standard_normal(400)
    daskfs.ingest(wide, folder / "wide.zarr", y=target, dtype="float64", tile_shape=(400, 16), shuffle=False)
    table = pa.table([*np.asarray(X.T, dtype=float), y], [*(f"x{j}" for j in range(60)), "y"])
    pq.write_table(table, folder / "table.parquet", row_group_size=150)


def run_job(name: str, folder: Path, trial: Path, workers: Any, progress: Any = None) -> dict[str, Any]:
    """Fit or ingest; return what must be the same, or be good enough."""
    if name == "ingest":
        from daskfs.sources import base

        base.MIN_PART_NBYTES = MIN_PART_NBYTES
        order = {"target": "y", "tile_shape": (128, 16), "client": workers.client}
        daskfs.ingest(folder / "table.parquet", trial / "s.zarr", **order)
        return {
            str(path.relative_to(trial)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((trial / "s.zarr").rglob("*"))
            if path.is_file() and path.name not in ("zarr.json", "manifest.json")  # a note on the killed process
        }
    is_wide = name.startswith("async")
    store = daskfs.open_store(folder / ("wide.zarr" if is_wide else "tall.zarr"))
    checkpoint = Checkpoint(trial / "checkpoint")
    checkpoint.claim({"job": name})
    selector = FITS[name]()
    selector.fit_matrix(store, workers=workers, checkpoint=checkpoint, progress=progress)
    if is_wide:
        return {"selected": selector.selected_.tolist(), "gap": gap_of(selector.run, store)}
    return {
        "selected": selector.selected_.tolist(),
        "coef": np.asarray(selector.coef_).tobytes(),
        "scores": np.asarray(selector.scores_).tobytes(),
    }


def gap_of(run: Any, store: Any) -> float:
    """Return the relative difference of the central node's prediction from that of all shares."""
    total = np.zeros(store.shape[0])
    for share in run.shares:
        total += share.coef @ read_columns(store, share.columns, ColumnSettings(True, True, False)).rows
    return float(np.abs(total - run.prediction).max() / np.abs(total).max())


def end_of(name: str, found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Return in words how what was found compares with what an undisturbed run found."""
    if not name.startswith("async"):
        return "same bits" if found == expected else "other bits"
    if found["gap"] > 1e-10:
        return "a prediction that is not that of the shares"
    has_them = set(found["selected"]) == set(expected["selected"]) == set(range(N_ASYNC))
    return "within its guarantees" if has_them else "other features"


@dataclass
class Trial:
    """How a job ended that lost something."""

    job: str
    loss: str
    at: int
    end: str
    seconds: float
    """More than an undisturbed run takes."""


def kept(file: Path) -> list[Trial]:
    """Return the trials that a file has, one on a line."""
    return [Trial(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def keep(trial: Trial, file: Path) -> None:
    """Add a trial to a file."""
    with file.open("a") as lines:
        lines.write(json.dumps(asdict(trial)) + "\n")


class Hung(Exception):
    """Nothing has come for as long as anybody waits."""


@contextmanager
def patient() -> Iterator[None]:
    """Give up after a while."""

    def give_up(*_: Any) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(PATIENCE_S))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class _AtShare:
    """A progress that does something once a share of the columns is done."""

    def __init__(self, share: float, deed: Callable[[], None]) -> None:
        self.share, self.deed, self.is_done = share, deed, False

    def start(self, name: str, total: int) -> None:
        self.name, self.total, self.n = name, total, 0

    def advance(self, k: int = 1) -> None:
        self.n += k
        if self.name.endswith("-select") and not self.is_done and self.n >= self.share * self.total:
            self.is_done = True
            self.deed()

    def finish(self) -> None:
        return


class Campaign:
    """Jobs that lose parts of their cluster, one after the other.

    Parameters
    ----------
    folder : Path
        Exists, empty.
    seed : int
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        make_data(folder)
        self._n_trials = 0
        self._fork = multiprocessing.get_context("forkserver")
        self._fork.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()

    def trial_folder(self) -> Path:
        """Return a new folder."""
        self._n_trials += 1
        trial = self.folder / f"trial-{self._n_trials}"
        trial.mkdir()
        return trial

    def _undisturbed(self, name: str, run: Callable[[Path], tuple[dict[str, Any], int]]) -> tuple[Any, int, float]:
        """Return what is found, the moments that there are, and the seconds it takes, the second time."""
        for _ in range(2):
            trial = self.trial_folder()
            started = time.perf_counter()
            found, n_moments = run(trial)
            seconds = time.perf_counter() - started
            shutil.rmtree(trial)
        return found, n_moments, seconds

    def _tried(self, name: str, loss: str, n: int, run: Callable[[Path, int], tuple[Any, int]]) -> Iterator[Trial]:
        """Yield so many trials; `run` takes a folder and the number of the moment, 0 for none."""
        expected, n_moments, seconds = self._undisturbed(name, lambda trial: run(trial, 0))
        for _ in range(n):
            trial, at, started = self.trial_folder(), 1 + self.rng.randrange(max(1, n_moments)), time.perf_counter()
            try:
                with patient():
                    found, n_lost = run(trial, at)
                end = end_of(name, found, expected)
                if not n_lost and end in GOOD_ENDS:
                    end = "was over before"
            except Hung:
                end = "hung"
            except Exception as fault:
                end = f"lost ({type(fault).__name__}: {str(fault)[:200]})"
            yield Trial(name, loss, at, end, time.perf_counter() - started - seconds)
            shutil.rmtree(trial, ignore_errors=True)

    def of_workers(self, name: str, losses: dict[str, int]) -> Iterator[Trial]:
        """Lose workers of a cluster of processes: so many times each."""
        forked = {"distributed.worker.multiprocessing-method": "forkserver"}  # which has imported what they need
        with dask.config.set(forked), open_cluster("local", N_WORKERS, dashboard_address=None) as workers:
            client = workers.client
            for loss, n in losses.items():

                def run(trial: Path, at: int, loss: str = loss) -> tuple[Any, int]:
                    with suppress(TimeoutError):  # a nanny that was killed half-way is no matter of ours
                        client.wait_for_workers(N_WORKERS, timeout=BACK_S)
                    if loss == "node":
                        return self._without_node(name, trial, workers, at)
                    marks = trial / "marks"
                    marks.mkdir()
                    _register(client, Mortal(loss, at, marks))
                    try:
                        found = self._resumed(name, trial, workers)
                        n_moments = max(client.run(counted, on_error="ignore").values(), default=1)
                    finally:
                        client.unregister_worker_plugin("mortal")
                    return found, len(list(marks.iterdir())) if at else n_moments

                yield from self._tried(name, loss, n, run)

    def _resumed(self, name: str, trial: Path, workers: Any) -> dict[str, Any]:
        """Run a job, and again where its workers were lost more often than Dask allows, as --resume does, while it gets
        further."""
        n_left, n_saved = MOST_RESUMED, 0
        while True:
            try:
                return run_job(name, self.folder, trial, workers)
            except RunError:
                n_before, n_saved = n_saved, len([*trial.rglob("*.npz"), *trial.rglob("ingest-*.json")])
                n_left = MOST_RESUMED if n_saved > n_before else n_left - 1
                if not n_left:
                    raise

    def _without_node(self, name: str, trial: Path, workers: Any, at: int) -> tuple[Any, int]:
        """Kill the worker with the central node when a share of the columns is done."""
        pids = workers.client.run(os.getpid)
        home = pids[workers.actors.addresses()[-1]]
        bar = _AtShare(0.9 * at / 100 if at else 2.0, lambda: os.kill(home, signal.SIGKILL))
        return run_job(name, self.folder, trial, workers, bar), int(bar.is_done) if at else 100

    def of_scheduler(self, name: str, losses: dict[str, int]) -> Iterator[Trial]:
        """Lose the scheduler: so many times each."""
        for loss, n in losses.items():

            def run(trial: Path, at: int, loss: str = loss) -> tuple[Any, int]:
                try:
                    with self._cluster(trial, loss, at) as workers:
                        job = self._resumed if loss == "churn" else partial(run_job, folder=self.folder)
                        found = job(name, trial=trial, workers=workers)
                    has_left = loss == "churn" and (trial / "left").exists()
                    n_lost = loss == "still" or has_left or (trial / "stand still").exists()
                except RunError as fault:
                    if loss != "scheduler" and _SAID_OF.get(loss, "another") not in str(fault):
                        raise
                    with self._cluster(trial, "scheduler", 0) as workers:
                        found = run_job(name, self.folder, trial, workers)
                    n_lost = 1
                return found, n_lost if at else int((trial / "moments").read_text())

            yield from self._tried(name, loss, n, run)

    @contextmanager
    def _cluster(self, trial: Path, loss: str, at: int) -> Iterator[Any]:
        (trial / "address").unlink(missing_ok=True)
        left = 1 + at % 4 if loss in ("churn", "gone") and at else 0
        parts = [self._fork.Process(target=scheduler, args=(trial, loss, 0 if left else at))]
        parts[0].start()
        is_over = threading.Event()
        while not (trial / "address").exists():
            time.sleep(0.02)
        address = (trial / "address").read_text()
        mark, lines = trial / "stand still", ExitStack()
        seconds = CUT_S if loss == "cut" else STILL_S
        through = lines.enter_context(relayed(address, mark, seconds)) if loss in _OF_NETWORK else address
        ways = {"client": address if loss == "link" else through, 0: through if loss == "link" else address, 1: address}

        def one_after_the_other(address: str) -> None:
            for _ in range(1) if loss == "gone" else iter(int, 1):
                if is_over.is_set():
                    return
                part = self._fork.Process(target=one_worker, args=(address, left, trial / "left"), daemon=True)
                part.start()
                parts.append(part)
                part.join()
                is_over.wait(0.1)

        for number in range(2):
            threading.Thread(target=one_after_the_other, args=(ways[number],), daemon=True).start()
        try:
            with Client(ways["client"], set_as_default=False) as client:
                client.wait_for_workers(2)
                presence_of(client, tell=_not_told, lost_timeout_s=GONE_S if loss in ("gone", "cut") else None)
                yield OnDask(client)
        finally:
            is_over.set()
            for part in parts:
                part.kill()
            lines.close()

    def of_driver(self, name: str, n: int) -> Iterator[Trial]:
        """Lose the process that fits: so many times."""

        def run(trial: Path, at: int) -> tuple[Any, int]:
            n_lost = 0
            for moment in (at, 0):
                child = self._fork.Process(target=drive, args=(name, self.folder, trial, moment))
                child.start()
                child.join()
                if (trial / "found").exists():
                    break
                n_lost += 1
            found, n_moments = pickle.loads((trial / "found").read_bytes())
            return found, n_lost if at else n_moments

        yield from self._tried(name, "driver", n, run)

    def run(
        self, jobs: tuple[str, ...], losses: tuple[str, ...], n: int, before: Sequence[Trial] = ()
    ) -> Iterator[Trial]:
        """Yield all trials: n of each job and loss, of some losses a quarter; less those that there were before."""
        had = Counter((one.job, one.loss) for one in before)
        for name in jobs:
            wanted = {loss: (n if loss in FEW_LOSSES else -(-n // 4)) - had[name, loss] for loss in losses}
            how_many = {loss: count for loss, count in wanted.items() if count > 0}
            if not name.startswith("async"):
                how_many.pop("node", None)
            of_scheduler = {loss: how_many.pop(loss) for loss in _OF_SCHEDULER if loss in how_many}
            of_driver = how_many.pop("driver", 0)
            if how_many:
                yield from self.of_workers(name, how_many)
            if of_scheduler:
                yield from self.of_scheduler(name, of_scheduler)
            if of_driver:
                yield from self.of_driver(name, of_driver)


def _not_told(line: str) -> None:
    """Leave it: the end of the job tells."""


def _register(client: Client, plugin: Mortal) -> None:
    """Have the workers count; one that has just been killed may still be listed."""
    for _ in range(20):
        with suppress(OSError):
            client.register_plugin(plugin)
            return
        time.sleep(0.5)
    raise TimeoutError


def drive(name: str, folder: Path, trial: Path, at: int) -> None:
    """Run a job in this process, which is killed at a moment."""
    moments, saved = Moments(at, kill), Checkpoint.save

    def save(*arguments: Any) -> None:
        moments.count()
        saved(*arguments)
        moments.count()

    Checkpoint.save = save  # type: ignore[method-assign, assignment]
    with _threads(name) as workers, counting(moments):
        if name == "ingest":
            from daskfs.store.written_part import PartWriter

            written = PartWriter.write
            PartWriter.write = lambda *a: (moments.count(), written(*a))[1]  # type: ignore[method-assign]
        found = run_job(name, folder, trial, workers)
        (trial / "found.part").write_bytes(pickle.dumps((found, moments.n)))
        (trial / "found.part").rename(trial / "found")


@contextmanager
def _threads(name: str) -> Iterator[Any]:
    """Two threads of this process, or for Asy-OS none, where its workers take turns."""
    if name.startswith("async"):
        yield Here()
        return
    how: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    how |= {"dashboard_address": ":0", "scheduler_kwargs": {"dashboard": False}}
    with LocalCluster(**how) as cluster, Client(cluster, set_as_default=False) as client:
        yield OnDask(client)


def as_table(trials: list[Trial]) -> str:
    """Return a row for each job and loss: how trials ended, and seconds more than without: the median and the most."""
    ends = [*GOOD_ENDS, *dict.fromkeys(one.end for one in trials if one.end not in GOOD_ENDS)]
    head = ["job", "lost", "trials", *ends, "seconds to recover, median", "most"]
    lines = [head, ["---"] * len(head)]
    for job, loss in dict.fromkeys((one.job, one.loss) for one in trials):
        own = [one for one in trials if (one.job, one.loss) == (job, loss)]
        hit = [one.seconds for one in own if one.end != "was over before"] or [0.0]
        counts = [str(sum(one.end == end for one in own)) for end in ends]
        lines.append([job, loss, str(len(own)), *counts, f"{statistics.median(hit):.1f}", f"{max(hit):.1f}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
