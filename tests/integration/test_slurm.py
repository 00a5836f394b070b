"""Workers that a real SLURM starts: the bits of a run here; jobs that are cancelled, expire or cannot start.

What takes long installs SLURM where it may (`tests.integration.batch_system`); the rest is left out without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daskfs
from daskfs.cluster.workers import Workers
from daskfs.errors import RunError
from daskfs.watching.base import Silent
from tests.integration import batch_system
from tests.integration.workshop import ENVIRONMENT, Workshop, table
from tests.processes import Process

pytestmark = pytest.mark.skipif(
    find_spec("dask_jobqueue") is None, reason="dask-jobqueue is not installed: pip install 'daskfs[hpc]'"
)

METHODS: dict[str, dict[str, Any]] = {
    "message": {"n_subsets": 6},
    "online_substitution": {"n_features_to_select": 4, "schedule": "screen"},
    "async_online_substitution": {"n_features_to_select": 4, "n_workers": 2, "schedule": "simulated"},
    "fgm": {"n_features_to_select": 6, "n_features_per_pass": 2, "loss": "squared"},
    "mission": {"n_features_to_select": 4, "n_epochs": 2, "block_rows": 200},
}
SELECTORS: dict[str, Callable[..., Any]] = {
    "message": daskfs.Message,
    "online_substitution": daskfs.OnlineSubstitution,
    "async_online_substitution": daskfs.AsyncOnlineSubstitution,
    "fgm": daskfs.FGM,
    "mission": daskfs.Mission,
}
MIB = 2**20
OPTIONS: dict[str, Any] = {"memory_limit": 600 * MIB, "walltime": "00:10:00", "interface": "lo", "queue": "debug"}
IN_YAML: dict[str, Any] = OPTIONS | {"kind": "slurm", "n_workers": 2, "memory_limit": "600MiB"}


@pytest.fixture(scope="session")
def running() -> Iterator[Callable[[], Path]]:
    """SLURM, started by the first test that calls for it."""
    with ExitStack() as stack:
        started: list[Path] = []

        def start() -> Path:
            if not started:
                before = os.environ.get("PYTHONPATH")
                os.environ["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]  # which sbatch hands to its jobs
                stack.callback(lambda: os.environ.update({} if before is None else {"PYTHONPATH": before}))
                started.append(stack.enter_context(batch_system.slurm()))
            return started[0]

        yield start


@pytest.fixture
def slurm(running, request) -> Path:
    if request.node.get_closest_marker("nightly") is not None:
        batch_system.install()
    elif batch_system.missing():
        pytest.skip(f"SLURM is not installed (no {batch_system.missing()[0]})")
    return running()


class Told(list):
    """Lines that were told, which are waited for."""

    def has(self, *words: str, timeout_s: float = 60.0) -> bool:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if any(all(word in line for word in words) for line in list(self)):
                return True
            time.sleep(0.05)
        return False

    @property
    def n_ended(self) -> int:
        """Jobs that have expired so far."""
        return sum("is over (COMPLETED" in line or "is ending" in line for line in list(self))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def opened(slurm, tmp_path, told) -> Iterator[Callable[..., Workers]]:
    with ExitStack() as stack:

        def open_workers(**options: Any) -> Workers:
            given = OPTIONS | {"log_directory": str(tmp_path / "jobs"), "tell": told.append} | options
            return stack.enter_context(daskfs.open_cluster("slurm", **given))

        yield open_workers
    assert jobs() == []


def jobs(state: str = "PENDING,RUNNING") -> list[str]:
    listed = subprocess.run(
        ["squeue", "--noheader", "--format=%A", f"--states={state}"], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


def cancel(*which: str) -> None:
    subprocess.run(["scancel", *which], check=True)


def square(pause_s: float, item: int) -> int:
    time.sleep(pause_s)
    return item * item


SQUARES = {k: k * k for k in range(40)}


def run_of(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("selected.csv", "metrics.json")}


def test_a_pipeline_through_sbatch_gives_the_bits_of_one_here(slurm, workshop):
    workshop.write("table.csv", table(400))
    here = workshop.daskfs("run", workshop.pipeline(output="here"))
    there = workshop.daskfs("run", workshop.pipeline(output="there", cluster=IN_YAML))
    assert (here.code, there.code) == (0, 0), there.errors
    assert run_of(workshop.folder / "there") == run_of(workshop.folder / "here")
    assert "workers are available" in there.errors
    assert jobs() == []


def test_a_job_that_dies_at_its_start_ends_the_run_with_its_state_and_the_last_lines_of_its_log(slurm, workshop):
    workshop.write("table.csv", table())
    bad = IN_YAML | {"prologue": ["echo 'no such module: nothing' >&2", "exit 3"]}
    ended = workshop.daskfs("run", workshop.pipeline(cluster=bad))
    assert ended.code == 2
    said = ended.errors.splitlines()
    assert any("ended before its worker started (FAILED, exit code 3)" in line for line in said)
    assert any("cluster.prologue" in line and "daskfs plan" in line for line in said)
    assert ended.complaints[-1] == "  no such module: nothing"
    assert "Traceback" not in ended.errors
    assert jobs() == []


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_every_selector_gives_the_bits_of_a_run_here(slurm, workshop, method):
    workshop.write("table.csv", many_columns())
    select = {"method": method, **METHODS[method]}
    here = workshop.daskfs("run", workshop.pipeline(select=select, output="here", store={"path": "here.zarr"}))
    assert here.code == 0, here.errors
    several = IN_YAML | {"cores": 2, "n_workers": 4}  # two jobs of two processes each
    there = workshop.daskfs("run", workshop.pipeline(select=select, output="there", cluster=several))
    assert there.code == 0, there.errors
    assert run_of(workshop.folder / "there") == run_of(workshop.folder / "here")
    digests = [daskfs.open_store(workshop.folder / name).digest for name in ("here.zarr", "trial.zarr")]
    assert digests[0] == digests[1]


def many_columns(n_rows: int = 1500, n_columns: int = 30) -> str:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n_rows, n_columns)).round(5)
    y = (X[:, :4] @ [3.0, -2.0, 1.5, 1.0] + 0.3 * rng.normal(size=n_rows)).round(5)
    names = [*(f"x{j}" for j in range(n_columns)), "y"]
    return "\n".join([",".join(names), *(",".join(map(str, [*x, t])) for x, t in zip(X, y, strict=True))]) + "\n"


@pytest.mark.nightly
def test_an_ingest_on_the_workers_of_slurm_writes_the_bytes_of_one_here(opened, tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 4096)
    (tmp_path / "table.csv").write_text(many_columns())
    here = daskfs.ingest(tmp_path / "table.csv", tmp_path / "here.zarr", target="y")
    workers = opened(n_workers=2)
    there = daskfs.ingest(tmp_path / "table.csv", tmp_path / "there.zarr", target="y", client=workers.client)
    assert there.digest == here.digest
    files = [bytes_below(tmp_path / name / "X") for name in ("here.zarr", "there.zarr")]
    assert files[0] == files[1]


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


class CancelsAJob(Silent):
    """Cancels one job, then all, while a selector works."""

    def __init__(self) -> None:
        self.n_steps, self.cancelled = 0, 0

    def advance(self, k: int = 1) -> None:
        self.n_steps += 1
        if self.n_steps in (2, 4):
            running = jobs("RUNNING")[: 1 if self.n_steps == 2 else None]
            if running:
                cancel(*running)
                self.cancelled += len(running)


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_a_selector_whose_jobs_are_cancelled_ends_with_the_same_bits(opened, tmp_path, method):
    (tmp_path / "table.csv").write_text(many_columns())
    store = daskfs.ingest(tmp_path / "table.csv", tmp_path / "table.zarr", target="y")
    here, there = (SELECTORS[method](**METHODS[method]) for _ in range(2))
    here.fit_matrix(store)
    progress = CancelsAJob()
    there.fit_matrix(store, workers=opened(n_workers=2), progress=progress)
    assert progress.cancelled > 0
    np.testing.assert_array_equal(there.selected_, here.selected_)
    np.testing.assert_array_equal(there.coef_, here.coef_)


@pytest.mark.nightly
def test_cancelled_jobs_are_asked_for_again_and_a_run_that_lost_all_goes_on(opened, told):
    workers = opened(n_workers=2)
    first = jobs()
    thread = threading.Timer(1.0, cancel, first)
    thread.start()
    assert dict(workers.map_blocks(square, range(40), name="square", shared=(0.2,))) == SQUARES
    thread.join()
    ends = "is over (CANCELLED", "is ending"  # while SLURM waits for its processes
    assert any(told.has(f"job {first[0]} {end}", timeout_s=10.0) for end in ends), [*told]
    assert told.has("submitting another", timeout_s=10.0), [*told]
    assert len(jobs()) == 2
    assert not set(jobs()) & set(first)


@pytest.fixture
def lifetime_s(opened) -> float:
    """Four seconds or, on a busy machine, twice what a worker takes to start and to answer."""
    began = time.monotonic()
    workers = opened(n_workers=1)
    assert dict(workers.map_blocks(square, [3], name="first", shared=(0.0,))) == {0: 9}
    return max(4.0, 2.0 * (time.monotonic() - began))


@pytest.mark.nightly
def test_jobs_that_expire_one_after_another_under_adapt_cost_time_alone(opened, lifetime_s, told):
    """The work takes five lifetimes of a worker: results leave workers at once."""
    workers = opened(n_workers=3, adapt=(0, 3), lifetime_s=lifetime_s)
    assert dict(workers.map_blocks(square, range(40), name="square", shared=(lifetime_s / 8.0,))) == SQUARES
    assert told.n_ended >= 3


class Slowly(Silent):
    """Waits at every step until another job has ended, so that a fit outlives several."""

    def __init__(self, told: Told, n_ends: int) -> None:
        self.told, self.n_ends = told, n_ends

    def advance(self, k: int = 1) -> None:
        before, end = self.told.n_ended, time.monotonic() + 60.0
        while before < self.n_ends and self.told.n_ended == before and time.monotonic() < end:
            time.sleep(0.1)


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_a_selector_whose_jobs_expire_one_after_another_ends_with_the_same_bits(
    opened, lifetime_s, tmp_path, told, method
):
    (tmp_path / "table.csv").write_text(many_columns())
    store = daskfs.ingest(tmp_path / "table.csv", tmp_path / "table.zarr", target="y")
    here, there = (SELECTORS[method](**METHODS[method]) for _ in range(2))
    here.fit_matrix(store)
    progress = Slowly(told, n_ends=3)
    there.fit_matrix(store, workers=opened(n_workers=3, adapt=(1, 3), lifetime_s=lifetime_s), progress=progress)
    assert told.n_ended >= 1
    np.testing.assert_array_equal(there.selected_, here.selected_)
    np.testing.assert_array_equal(there.coef_, here.coef_)


@pytest.mark.nightly
def test_a_run_that_has_lost_its_jobs_waits_for_others_no_longer_than_asked(opened, told):
    workers = opened(n_workers=1, lost_timeout_s=8.0)
    try:
        subprocess.run(["scontrol", "update", "partitionname=debug", "state=down"], check=True)
        cancel(*jobs())
        with pytest.raises(
            RunError, match=r"no worker is left, and none has started within 8 s \(job \d+ pending \(Part"
        ):
            dict(workers.map_blocks(square, range(400), name="square", shared=(0.2,)))
    finally:
        subprocess.run(["scontrol", "update", "partitionname=debug", "state=up"], check=True)
    assert told.has("submitting another")
    assert told.has("no worker is left; waiting for a new one for at most 8 s")


@pytest.mark.nightly
def test_jobs_that_cannot_start_any_more_end_a_run_that_waits_for_them(opened, tmp_path):
    workers = opened(n_workers=2, prologue=[f"test ! -e {tmp_path}/broken || exit 4"])
    (tmp_path / "broken").touch()
    threading.Timer(0.5, cancel, jobs()).start()
    began = time.monotonic()
    with pytest.raises(RunError, match="scheduler was lost"):  # which is said when it is closed
        dict(workers.map_blocks(square, range(400), name="square", shared=(0.2,)))
    assert time.monotonic() - began < 120.0


@pytest.mark.nightly
def test_the_error_of_such_a_run_is_that_of_its_jobs(slurm, tmp_path, told):
    given = OPTIONS | {"log_directory": str(tmp_path / "jobs"), "tell": told.append, "n_workers": 1}
    prologue = [f"test ! -e {tmp_path}/broken || (echo broken; exit 4) || exit 4"]

    def run() -> None:
        with daskfs.open_cluster("slurm", prologue=prologue, **given) as workers:
            (tmp_path / "broken").touch()
            cancel(*jobs())
            dict(workers.map_blocks(square, range(400), name="square", shared=(0.2,)))

    with pytest.raises(RunError, match=r"job \d+ ended before its worker started \(FAILED, exit code 4\)(.|\n)*broken"):
        run()


@pytest.mark.nightly
def test_a_queue_that_makes_wait_is_told_and_waited_for_no_longer_than_asked(opened, told):
    with pytest.raises(RunError, match=r"no worker after 6 s \(waiting for workers: 0 of 1, job \d+ pending"):
        opened(n_workers=1, directives=["--begin=now+1hour"], wait_timeout_s=6.0)
    assert told.has("waiting for workers: 0 of 1", "pending (BeginTime)")


@pytest.mark.nightly
def test_work_begins_with_the_workers_there_are(opened, told):
    workers = opened(n_workers=40, start_with=2)  # the nodes have sixteen cores
    assert workers.n_threads >= 2
    assert dict(workers.map_blocks(square, range(40), name="square", shared=(0.0,))) == SQUARES
    assert told.has("of 40", "pending (Resources)") or told.has("of 40", "pending (Priority)")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": "nowhere"}, "the batch system refused a job: .*invalid partition.*cluster.queue"),
        ({"python": "/no/python"}, "FAILED, exit code 127(.|\n)*/no/python: No such file"),
        ({"interface": "lo", "log_directory": "/proc/nowhere"}, "cluster.log_directory /proc/nowhere"),
    ],
)
def test_what_jobs_cannot_have_is_named(opened, options, message):
    with pytest.raises(RunError, match=f"(?i){message}"):
        opened(n_workers=2, **options)


@pytest.mark.nightly
def test_a_client_that_is_killed_leaves_no_job_behind(slurm, workshop):
    workshop.write("table.csv", many_columns())
    program = (
        "import sys, time, daskfs\n"
        "if __name__ == '__main__':\n"
        f"    with daskfs.open_cluster('slurm', n_workers=1, log_directory='jobs', **{OPTIONS!r}):\n"
        "        print('open', flush=True)\n"
        "        time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program]
    with Process(command, cwd=workshop.folder, env=os.environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "open\n"
        assert len(jobs()) == 1
    end = time.monotonic() + 120.0
    while jobs() and time.monotonic() < end:
        time.sleep(0.5)
    assert jobs() == []


@pytest.mark.nightly
def test_a_pipeline_within_one_allocation_gives_the_bits_of_one_here(slurm, workshop: Workshop):
    workshop.write("table.csv", table(400))
    here = workshop.daskfs("run", workshop.pipeline(output="here", store={"path": "here.zarr"}))
    assert here.code == 0, here.errors
    pipeline = workshop.pipeline(cluster=IN_YAML)
    command = [sys.executable, "-W", "ignore", "-m", "daskfs", "run", str(pipeline), "--runner", "slurm"]
    done = subprocess.run(
        ["srun", "--ntasks=5", "--mem-per-cpu=800", *command],
        cwd=workshop.folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "report: " in done.stdout
    assert "Traceback" not in done.stderr
    assert run_of(workshop.folder / "trial") == run_of(workshop.folder / "here")
    assert list((workshop.folder / "trial.jobs").glob("daskfs-*")) == []  # where the tasks met


@pytest.fixture
def pbs(slurm) -> dict[str, Any]:
    """The commands of PBS in front of SLURM, Debian's slurm-wlm-torque."""
    if shutil.which("qsub") is None or shutil.which("qstat") is None:
        pytest.skip("slurm-wlm-torque, with qsub and qstat, is not installed")
    return IN_YAML | {"kind": "pbs", "prologue": [f"export PYTHONPATH={ENVIRONMENT['PYTHONPATH']}"]}


@pytest.mark.nightly
def test_a_pipeline_through_qsub_gives_the_bits_of_one_here(pbs, workshop):
    workshop.write("table.csv", table(400))
    here = workshop.daskfs("run", workshop.pipeline(output="here"))
    there = workshop.daskfs("run", workshop.pipeline(output="there", cluster=pbs))
    assert (here.code, there.code) == (0, 0), there.errors
    assert run_of(workshop.folder / "there") == run_of(workshop.folder / "here")
    assert "2 workers are available" in there.errors
    assert jobs() == []


@pytest.mark.nightly
def test_a_job_of_pbs_that_dies_at_its_start_shows_its_log(pbs, workshop):
    workshop.write("table.csv", table())
    bad = pbs | {"prologue": ["echo 'no such module: nothing' >&2", "exit 3"]}
    ended = workshop.daskfs("run", workshop.pipeline(cluster=bad))
    assert ended.code == 2
    assert "ended before its worker started (complete)" in ended.errors
    assert ended.complaints[-1] == "  no such module: nothing"
    assert jobs() == []
