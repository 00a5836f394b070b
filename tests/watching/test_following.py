"""A run that goes on elsewhere: what its folder tells, with a clock that the test holds."""

import json
import os
import socket
import sys

import pytest

from daskfs.errors import RunError
from daskfs.files import LockOwner
from daskfs.pipeline.folder import STATUS
from daskfs.pipeline.following import follow, json_line, look, runs_in
from daskfs.pipeline.progress import StatusFile, watched
from daskfs.watching.base import Found
from daskfs.watching.watch import Measured, Watch
from tests.processes import Process
from tests.refusals import refused

NOW = 1_000_000.0


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run.unfinished").mkdir()
    return tmp_path / "run"


def running_state():
    watch = Watch(name="genes", measure=lambda: Measured({"client": 100 << 20, "worker-0": 7 << 20}, 0))
    watch.promised = {"client": 300 << 20, "worker": 9 << 20}
    watch.dashboard = "http://127.0.0.1:1/secret/daskfs"
    watch.start("fgm", 12)
    watch.advance(2)
    watch.begin_part("fgm-scores", 100)
    watch.advance_part(41)
    watch.learn(lambda: Found(2.0, "pass", 12.5, 30, tuple(f"gene{j}" for j in range(20))))
    watch._measured = watch.measure()
    return watch.state


def told(folder, **changes):
    """Have a run's status file say what a test wants."""
    path = folder.with_name("run.unfinished") / STATUS
    StatusFile(path, now=lambda: NOW).beat(running_state())
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def test_a_run_that_goes_on_is_told_in_a_few_lines(folder):
    told(folder)
    seen = look(folder, NOW + 2.0)
    lines = seen.to_text().splitlines()
    assert lines[0] == f"{folder}: running for 2 s on {socket.gethostname()}, process {os.getpid()}"
    assert lines[1].startswith("  fgm, pass 3 of 12: scoring columns, 41 %, ")
    assert lines[2] == "  objective 12.5 at pass 2, 12.5 at first"
    assert lines[3] == f"  30 selected so far: {', '.join(f'gene{j}' for j in range(8))}, ..."
    assert lines[4] == "  memory: client 100 of 300 MiB, worker-0 7 of 9 MiB"
    assert lines[5] == "  dashboard: http://127.0.0.1:1/secret/daskfs"
    assert look(folder.with_name("run.unfinished"), NOW) == look(folder, NOW)
    assert json.loads(json_line([seen]))["status"]["state"]["n_selected"] == 30


def test_its_owner_alone_reads_where_the_dashboard_is(folder):
    assert told(folder).stat().st_mode & 0o077 == 0


def test_a_process_that_is_gone_is_told_of_at_once_with_how_to_go_on(folder):
    with Process([sys.executable, "-c", ""]) as process:
        process.wait()
    told(folder, pid=process.pid)
    seen = look(folder, NOW + 3.0)
    assert (seen.kind, seen.exit_code) == ("gone", 1)
    where = f"on {socket.gethostname()}, process {process.pid}, which has ended"
    assert seen.message == f"no heartbeat for 3 s: {where}; continue it with `daskfs run --resume {folder}`"
    *_, last = follow([folder], now=lambda: NOW, sleep=lambda s: pytest.fail("there is nothing to wait for"))
    assert last[0].kind == "gone"


def test_a_run_that_says_nothing_for_five_minutes_is_told_of(folder):
    told(folder)
    assert look(folder, NOW + 299.0).kind == "running"
    seen = look(folder, NOW + 301.0)
    assert (seen.kind, seen.exit_code) == ("silent", None)
    assert seen.message.startswith("no heartbeat for 5 min 1 s: ")
    assert "exists but does not respond" in seen.message
    told(folder, host="node17")
    seen = look(folder, NOW + 301.0)
    assert "on node17, process" in seen.message
    assert (
        f"check there whether it still runs, and if not continue it with `daskfs run --resume {folder}`" in seen.message
    )


def test_a_run_is_followed_to_its_end_and_ends_as_it_did(folder):
    told(folder)
    ends = iter(["running", "renamed"])

    def sleep(seconds):
        if next(ends) == "renamed":
            (folder.with_name("run.unfinished") / STATUS).unlink()
            folder.with_name("run.unfinished").rename(folder)
            (folder / "result.json").write_text("{}")

    kinds = [seen[0].kind for seen in follow([folder], now=lambda: NOW, sleep=sleep)]
    assert kinds == ["running", "running", "finished"]
    assert look(folder, NOW).exit_code == 0


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (RunError("the workers died", "fgm-scores"), RunError.exit_code, "the workers died"),
        (ZeroDivisionError("1 / 0"), 1, "ZeroDivisionError: 1 / 0"),
    ],
)
def test_what_ends_a_run_early_is_told_with_its_exit_code(folder, fault, code, message):
    unfinished = folder.with_name("run.unfinished")

    def run():
        with watched(unfinished, "genes", None) as watch:
            watch.start("fgm", 3)
            raise fault

    with pytest.raises(type(fault)):
        run()
    seen = look(folder, NOW)
    assert (seen.kind, seen.exit_code) == ("stopped", code)
    assert message in seen.message
    assert f"--resume {folder}" in seen.message
    assert "stopped: " in (unfinished / "run.log").read_text().splitlines()[-1]


def test_a_run_that_leaves_nothing_has_ended_once_it_is_seen_nowhere_for_a_while(folder):
    path, time = told(folder), [NOW]

    def sleep(seconds):
        time[0] += seconds
        if path.exists():
            path.unlink()
            path.parent.rmdir()

    *_, last = follow([folder], now=lambda: time[0], sleep=sleep)
    assert (last[0].exit_code, time[0] - NOW > 10.0) == (1, True)
    assert "without leaving files" in last[0].message


def test_several_runs_of_a_folder_are_followed_together(folder, tmp_path):
    told(folder)
    (tmp_path / "other.unfinished").mkdir()
    StatusFile(tmp_path / "other.unfinished" / STATUS).beat(running_state())
    assert runs_in(tmp_path) == [tmp_path / "other", tmp_path / "run"]
    assert runs_in(folder) == [folder]
    with refused(RunError, "run-folders", naming=["runs"]):
        runs_in(tmp_path / "nothing")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": 1}', '{"state": {}}', json.dumps({"pid": -3, "host": "a", "heartbeat": 1e999})]
)
def test_a_status_that_is_damaged_is_none(folder, content):
    (folder.with_name("run.unfinished") / STATUS).write_text(content)
    assert look(folder, NOW).kind == "nowhere"


def test_a_disk_that_is_full_keeps_a_status_from_nobodys_run(folder):
    status = StatusFile(folder / "no such folder" / STATUS)
    status.beat(running_state())
    assert LockOwner.this_process().pid == os.getpid()
