"""Ctrl-C, lost workers, lost schedulers, two at once: whatever happens, the result is the same to the last bit."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import dask
import distributed  # noqa: F401  before its configuration is changed
import psutil
import pytest

from tests.integration.workshop import ENVIRONMENT, Workshop, refused
from tests.processes import Process

N_SELECTIONS = 4
SELECTIONS = [{"method": "message", "n_subsets": 3 + 2 * k, "label": f"m{k}"} for k in range(N_SELECTIONS)]
LOCAL = {"kind": "local", "n_workers": 2, "memory_limit": "1GiB", "dashboard_address": None}
SCHEDULER = "from distributed.cli.dask_scheduler import main; main()"
WORKER = "from distributed.cli.dask_worker import main; main()"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store, a pipeline of several selections, and its run that nothing befell."""
    workshop = Workshop(tmp_path_factory.mktemp("whole"))
    source = {"kind": "synthetic", "n_samples": 6000, "n_features": 300, "random_state": 1}
    workshop.pipeline(source=source, select=SELECTIONS)
    ended = workshop.finish(workshop.start("run", "pipeline.yaml"))
    assert ended.code == 0, str(ended)
    return workshop.folder


@pytest.fixture
def at_work(workshop, whole):
    """The same pipeline in the workshop, its store ready."""
    shutil.copytree(whole / "trial.zarr", workshop.folder / "trial.zarr")
    workshop.pipeline(source=None, select=SELECTIONS)
    return workshop


def same_bits(workshop, whole, name="trial"):
    """Check a finished run against the one that nothing befell."""
    run = workshop.folder / name
    assert not (workshop.folder / f"{name}.unfinished").exists()
    for k in range(N_SELECTIONS):
        for file in ("selected.csv", "history.parquet"):
            assert (run / f"m{k}" / file).read_bytes() == (whole / "trial" / f"m{k}" / file).read_bytes()
    assert (run / "metrics.json").read_bytes() == (whole / "trial" / "metrics.json").read_bytes()


def until(condition, process=None):
    """Wait for a condition, as long as the process lasts."""
    while not condition() and (process is None or process.poll() is None):
        time.sleep(0.005)


def in_the_middle(workshop, process, name="trial"):
    """Wait until the first selection stands in the checkpoint."""
    checkpoint = workshop.folder / f"{name}.unfinished" / "checkpoint" / "m0"
    until(lambda: list(checkpoint.glob("*.npz")), process)
    assert process.poll() is None, process.communicate()


@pytest.fixture
def scheduler(tmp_path):
    """A Dask scheduler with two workers, as somebody else has started them."""
    file = tmp_path / "scheduler.json"
    environment = ENVIRONMENT | {"DASK_LOGGING__DISTRIBUTED": "critical"}

    def start(code, *arguments):
        command = [sys.executable, "-W", "ignore", "-c", code, *arguments, "--no-dashboard"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
        return started.enter_context(Process(command, env=environment, **quiet))

    with ExitStack() as started:
        process = start(SCHEDULER, "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        until(lambda: file.exists() and file.read_text().rstrip().endswith("}"), process)
        address = json.loads(file.read_text())["address"]
        for _ in range(2):
            start(WORKER, address, "--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path / "workers"))
        from distributed import Client

        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2)
        yield process, address


@pytest.mark.slow
@pytest.mark.parametrize("rows", [20_000, 200_000])
def test_ctrl_c_during_ingest_leaves_nothing_but_finished_parts(workshop, rows):
    lines = [f"{i % 17},{i * 7 % 13},{i * i % 11},{i % 5}" for i in range(rows)]
    workshop.write("table.csv", "\n".join(["a,b,c,y", *lines, ""]))
    before = workshop.contents()
    unfinished = workshop.folder / "store.zarr.unfinished"
    with workshop.start("ingest", "table.csv", "store.zarr", "--target", "y") as process:
        until(unfinished.exists, process)
        process.send_signal(signal.SIGINT)
        ended = workshop.finish(process)
    if ended.code == 0:  # it was done before the signal came
        assert workshop.daskfs("verify", "store.zarr").code == 0
        return
    assert ended.code == 130
    if unfinished.exists():
        kept = f"the finished parts are kept in {unfinished}; the same ingest or run continues from them"
        assert ended.complaints == ["interrupted", kept]
        assert workshop.daskfs("ingest", "table.csv", "store.zarr", "--target", "y").code == 0
        assert workshop.daskfs("verify", "store.zarr").code == 0
        shutil.rmtree(workshop.folder / "store.zarr")
    else:
        assert ended.complaints == ["interrupted"]
    assert workshop.contents() == before


@pytest.mark.slow
def test_a_killed_ingest_is_cleared_away_by_the_next(workshop):
    lines = [f"{i % 17},{i * 7 % 13},{i * i % 11},{i % 5}" for i in range(200_000)]
    workshop.write("table.csv", "\n".join(["a,b,c,y", *lines, ""]))
    with workshop.start("ingest", "table.csv", "store.zarr", "--target", "y") as process:
        until((workshop.folder / "store.zarr.unfinished").exists, process)
    refused(workshop.daskfs("select", "store.zarr"), "there is only an unfinished store", "ingest again")
    assert workshop.daskfs("ingest", "table.csv", "store.zarr", "--target", "y").code == 0
    assert workshop.daskfs("verify", "store.zarr").code == 0
    assert sorted(path.name for path in workshop.folder.iterdir()) == ["store.zarr", "table.csv"]


@pytest.mark.slow
def test_ctrl_c_during_select_keeps_the_checkpoint(workshop, whole):
    shutil.copytree(whole / "trial.zarr", workshop.folder / "s.zarr")
    options = ("s.zarr", "--n-subsets", 800, "--memory-limit", "480MiB", "--output")
    assert workshop.daskfs("select", *options, "straight").code == 0
    checkpoint = workshop.folder / "stopped.unfinished" / "checkpoint"
    with workshop.start("select", *options, "stopped") as process:
        until(lambda: list(checkpoint.rglob("*.npz")), process)
        process.send_signal(signal.SIGINT)
        ended = workshop.finish(process)
    assert ended.code == 130, str(ended)
    assert ended.complaints == ["interrupted", f"continue with `daskfs run --resume {workshop.folder / 'stopped'}`"]
    assert not (workshop.folder / "stopped").exists()
    assert workshop.daskfs("select", *options[:-1], "--resume", "stopped").code == 0
    selected = [(workshop.folder / name / "selected.csv").read_bytes() for name in ("straight", "stopped")]
    assert selected[0] == selected[1]


@pytest.mark.nightly
def test_a_killed_worker_is_replaced(at_work, whole):
    at_work.pipeline(source=None, select=SELECTIONS, cluster=LOCAL)
    with at_work.start("run", "pipeline.yaml") as process:
        in_the_middle(at_work, process)
        family = psutil.Process(process.pid).children(recursive=True)
        workers = [child for child in family if "--multiprocessing-fork" in child.cmdline()]
        assert len(workers) == 2
        workers[0].kill()
        ended = at_work.finish(process)
    assert ended.code == 0, str(ended)
    assert ended.complaints == []
    same_bits(at_work, whole)


@pytest.mark.nightly
def test_a_scheduler_started_elsewhere_gives_the_same_bits(at_work, whole, scheduler):
    _, address = scheduler
    ended = at_work.daskfs("run", "pipeline.yaml", "--scheduler", address)
    assert ended.code == 0, str(ended)
    same_bits(at_work, whole)
    assert (at_work.folder / "trial" / "dask.html").stat().st_size > 0


@pytest.mark.nightly
def test_a_run_that_lost_its_scheduler_is_resumed_here(at_work, whole, scheduler):
    central, address = scheduler
    with at_work.start("run", "pipeline.yaml", "--scheduler", address) as process:
        in_the_middle(at_work, process)
        central.kill()
        central.wait()
        ended = at_work.finish(process)
    refused(
        ended, "the scheduler was lost", f"continue with `daskfs run --resume {at_work.folder / 'trial'}`", places=2
    )
    assert at_work.daskfs("run", "pipeline.yaml", "--resume", "trial").code == 0
    same_bits(at_work, whole)


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1:1"])
def test_an_address_where_nobody_answers_is_named(workshop, address):
    workshop.pipeline(source={"kind": "synthetic", "n_samples": 60, "n_features": 5}, select=SELECTIONS)
    before = workshop.contents()
    with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
        ended = workshop.daskfs("run", "pipeline.yaml", "--scheduler", address)
    refused(ended, f"{address}: no scheduler answers", "start one with `dask scheduler`")
    assert workshop.contents() == before


@pytest.mark.nightly
def test_of_two_runs_into_one_folder_one_is_refused(at_work, whole):
    with at_work.start("run", "pipeline.yaml") as one, at_work.start("run", "pipeline.yaml") as other:
        ended = sorted(map(at_work.finish, (one, other)), key=lambda run: run.code)
    assert ended[0].code == 0, str(ended)
    refused(ended[1], "trial")
    assert any(words in ended[1].errors for words in ("is running in this folder", "already exists"))
    same_bits(at_work, whole)
