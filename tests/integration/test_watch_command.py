"""``daskfs watch`` beside runs of other processes: to their end, and where they were killed."""

import json
import time

import numpy as np
import pytest

from tests.integration.workshop import Workshop


@pytest.fixture
def workshop(tmp_path):
    workshop = Workshop(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 6))
    rows = "\n".join(",".join(f"{x:.4f}" for x in (*row, row[0] - row[1])) for row in X)
    workshop.write("table.csv", "a,b,c,d,e,f,y\n" + rows + "\n")
    return workshop


def until_it_runs(workshop):
    """Wait until a run has told of itself."""
    status = workshop.folder / "trial.unfinished" / "status.json"
    end = time.monotonic() + 120.0
    while not status.exists() and time.monotonic() < end:
        time.sleep(0.02)


@pytest.mark.slow
def test_a_run_elsewhere_is_watched_to_its_end(workshop):
    with workshop.start("run", workshop.pipeline()) as run:
        until_it_runs(workshop)
        seen = workshop.daskfs("watch", workshop.folder / "trial")
        assert workshop.finish(run).code == 0
    assert (seen.code, seen.errors) == (0, "")
    assert seen.output.splitlines()[-1].endswith(f"finished; {workshop.folder / 'trial' / 'report.html'}")
    assert not (workshop.folder / "trial" / "status.json").exists()
    once = workshop.daskfs("watch", "--once", "--json", workshop.folder / "trial")
    assert json.loads(once.output)["kind"] == "finished"


@pytest.mark.slow
def test_a_run_that_was_killed_is_told_with_how_to_go_on(workshop):
    with workshop.start("run", workshop.pipeline()) as run:
        until_it_runs(workshop)
    seen = workshop.daskfs("watch", workshop.folder / "trial")
    assert seen.code == 1
    assert (
        f"process {run.pid}, which has ended; continue it with `daskfs run --resume {workshop.folder / 'trial'}`"
        in seen.output
    )


def test_where_nothing_runs_there_is_nothing_to_watch(workshop):
    seen = workshop.daskfs("watch", workshop.folder / "nothing")
    assert seen.code == 2
    assert "expected a run folder, or a folder with unfinished runs, found neither" in seen.errors
