import json
import os
import socket
import sys

import numpy as np
import psutil
import pytest

from daskfs.errors import RunError
from daskfs.files import LockOwner, remove_lock, take_lock
from daskfs.pipeline.folder import RunFolder, check_output
from tests.processes import Process
from tests.refusals import refused


@pytest.fixture
def output(tmp_path):
    return tmp_path / "runs" / "power"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def finished(output, text="1"):
    output.mkdir(parents=True)
    (output / "result.json").write_text(text)


def test_a_run_gets_its_name_when_it_is_whole(output):
    folder = RunFolder.start(output)
    assert names(output.parent) == ["power.unfinished"]
    (folder.path / "result.json").write_text("{}")
    folder.checkpoint.save("task", {"x": np.ones(1)})
    folder.finish()
    assert names(output.parent) == ["power"]
    assert names(output) == ["result.json"]


def test_a_finished_run_is_replaced_only_by_force_and_only_by_a_whole_one(output):
    finished(output, "old")
    with refused(RunError, "run-folders", naming=["--force"]):
        RunFolder.start(output)
    folder = RunFolder.start(output, force=True)
    assert (output / "result.json").read_text() == "old"
    (folder.path / "result.json").write_text("new")
    folder.finish()
    assert (output / "result.json").read_text() == "new"
    assert names(output.parent) == ["power"]


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_run_is_never_replaced(output, force):
    output.mkdir(parents=True)
    (output / "thesis.tex").write_text("x")
    with refused(RunError, "run-folders", naming=["path"]):
        RunFolder.start(output, force=force)
    assert names(output) == ["thesis.tex"]


def test_an_empty_folder_is_nothing(output):
    output.mkdir(parents=True)
    folder = RunFolder.start(output)
    (folder.path / "result.json").write_text("{}")
    folder.finish()
    assert names(output) == ["result.json"]


def test_a_run_that_computed_nothing_leaves_nothing(output):
    folder = RunFolder.start(output)
    assert folder.let_go(keep=True) is False
    assert names(output.parent) == []


def test_an_interrupted_run_is_resumed_or_started_again(output):
    folder = RunFolder.start(output)
    folder.checkpoint.save("task", {"x": np.ones(1)})
    assert folder.let_go(keep=True) is True
    with refused(RunError, "run-folders", naming=["--resume", str(output), "--force"]):
        RunFolder.start(output)
    resumed = RunFolder.resume(output)
    assert resumed.checkpoint.load("task") is not None
    assert resumed.let_go(keep=False) is True, "what was kept is not lost to a later error"
    again = RunFolder.start(output, force=True)
    assert again.checkpoint.load("task") is None


def test_there_must_be_something_to_resume(output):
    with refused(RunError, "run-folders", naming=["interrupted"]):
        RunFolder.resume(output)
    finished(output)
    with refused(RunError, "run-folders", naming=["finished"]):
        RunFolder.resume(output)


def lock(output, **changes):
    unfinished = output.with_name("power.unfinished")
    unfinished.mkdir(parents=True)
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "started": psutil.Process().create_time()} | changes
    (unfinished / "running.json").write_text(json.dumps(owner))


@pytest.mark.parametrize("force", [False, True])
def test_a_live_process_is_not_disturbed(output, force):
    parent = psutil.Process(os.getppid())
    lock(output, pid=parent.pid, started=parent.create_time())
    with refused(RunError, "run-folders", naming=[f"process {parent.pid}"]):
        RunFolder.start(output, force=force)
    with refused(RunError, "run-folders", naming=[f"process {parent.pid}"]):
        RunFolder.resume(output)


def test_a_process_on_another_host_may_be_alive(output):
    lock(output, host="elsewhere")
    with refused(RunError, "run-folders", naming=["elsewhere"]):
        RunFolder.start(output, force=True)


def test_the_lock_of_a_dead_process_does_not_bind(output):
    with Process([sys.executable, "-c", ""]) as child:
        started = psutil.Process(child.pid).create_time()
    lock(output, pid=child.pid, started=started)
    RunFolder.resume(output).let_go(keep=True)


def test_a_number_that_was_given_to_another_process_does_not_bind(output):
    parent = psutil.Process(os.getppid())
    lock(output, pid=parent.pid, started=parent.create_time() - 1000)
    RunFolder.resume(output).let_go(keep=True)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"pid": 1e400, "host": "h", "started": 0}', '{"pid": -1, "host": "", "started": 0}', "9" * 9999],
)
def test_a_lock_that_cannot_be_read_is_named(output, text):
    """It was removed, and a lock is empty between the moments when it is made and written."""
    lock(output)
    path = output.with_name("power.unfinished") / "running.json"
    path.write_text(text)
    for begin in (RunFolder.start, RunFolder.resume):
        with refused(RunError, "run-folders", at="running.json", naming=["if no process runs"]):
            begin(output)
    assert path.read_text() == text


def test_a_lock_is_whole_from_its_first_moment(output, monkeypatch):
    seen = []

    def link(draft, place):
        seen.append((LockOwner.of(draft), os.path.lexists(place)))
        before(draft, place)

    before = os.link
    monkeypatch.setattr("os.link", link)
    folder = RunFolder.start(output)
    assert seen == [(LockOwner.this_process(), False)]
    assert names(folder.path) == ["running.json"]


def test_of_two_who_find_a_dead_lock_one_is_refused(output, monkeypatch):
    """The second has read the dead one's lock, and would remove the first one's."""
    lock(output, pid=2**31 - 1)
    path = output.with_name("power.unfinished") / "running.json"
    dead = LockOwner.of(path)
    path.unlink()
    take_lock(path)
    assert remove_lock(path, dead) is False
    assert LockOwner.of(path) == LockOwner.this_process()
    assert names(path.parent) == ["running.json"]
    assert remove_lock(path, LockOwner.this_process()) is True
    assert names(path.parent) == []
    assert remove_lock(path, dead) is True


def test_two_runs_of_one_process_do_not_share_a_folder(output):
    RunFolder.start(output)
    with pytest.raises(RunError):
        RunFolder.start(output)


def test_looking_changes_nothing(output):
    finished(output)
    check_output(output, force=True)
    assert names(output.parent) == ["power"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with refused(RunError, "run-folders", naming=["output"]):
        RunFolder.start(tmp_path / "file" / "run")
