import io
import json
import os
import shutil
import zipfile

import numpy as np
import pytest

from daskfs.errors import RunError
from daskfs.pipeline.checkpoint import Checkpoint, Room
from tests.refusals import refused

SETTINGS = {"store": {"digest": "a"}, "select": [{"n_subsets": 3, "gamma": 0.5}]}


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path / "run.unfinished" / "checkpoint")


def test_arrays_come_back_to_the_last_bit(checkpoint):
    arrays = {"coef": np.array([0.1, np.nan, -0.0]), "index": np.array([], dtype=np.int64), "flag": np.array(True)}
    assert checkpoint.load("task-0") is None
    checkpoint.save("task-0", arrays)
    again = checkpoint.load("task-0")
    assert again.keys() == arrays.keys()
    for name in arrays:
        assert again[name].dtype == arrays[name].dtype
        assert again[name].tobytes() == arrays[name].tobytes()


def test_parts_do_not_share_names(checkpoint):
    checkpoint.part("a").save("task", {"x": np.ones(1)})
    assert checkpoint.part("b").load("task") is None
    assert not checkpoint.is_empty
    assert checkpoint.part("b").is_empty


@pytest.mark.parametrize("n_bytes", [0, 10, 200])
def test_a_damaged_piece_counts_as_not_done(checkpoint, n_bytes):
    checkpoint.save("task", {"x": np.arange(100.0)})
    path = checkpoint.folder / "task.npz"
    path.write_bytes(path.read_bytes()[:n_bytes])
    assert checkpoint.load("task") is None


def test_a_flipped_bit_counts_as_not_done(checkpoint):
    checkpoint.save("task", {"x": np.arange(100.0)})
    path = checkpoint.folder / "task.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert checkpoint.load("task") is None


def test_nothing_but_whole_files_is_left(checkpoint):
    checkpoint.save("task", {"x": np.ones(3)})
    assert [path.name for path in checkpoint.folder.iterdir()] == ["task.npz"]


def test_the_same_settings_go_on(checkpoint):
    checkpoint.claim(SETTINGS)
    checkpoint.claim({**SETTINGS})
    assert checkpoint.is_empty


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({**SETTINGS, "store": {"digest": "b"}}, "store.digest = 'a', now it is 'b'"),
        ({**SETTINGS, "select": []}, "had select ="),
        ({**SETTINGS, "split": None, "more": 1}, "had more = None, now it is 1"),
    ],
)
def test_other_settings_are_refused_and_named(checkpoint, settings, message):
    checkpoint.claim(SETTINGS)
    with refused(RunError, "run-folders", naming=["settings"]) as caught:
        checkpoint.claim(settings)
    assert message in str(caught.value)


def test_a_full_disk_says_how_to_go_on(checkpoint, monkeypatch):
    def full(file, **arrays):
        file.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.savez", full)
    with refused(RunError, "run-folders", naming=["device"]):
        checkpoint.save("task", {"x": np.ones(3)})
    assert list(checkpoint.folder.iterdir()) == []


def rewritten(path, change):
    """Rewrite an entry as a whole, loadable .npz of other content, its digest kept where it stands."""
    with np.load(path) as arrays:
        content = change({key: arrays[key] for key in arrays.files})
    with zipfile.ZipFile(path) as file:
        digest = file.comment
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    with zipfile.ZipFile(buffer, "a") as file:
        file.comment = digest
    path.write_bytes(buffer.getvalue())


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: {"x": arrays["x"] + 1.0},
        lambda arrays: {"x": np.full(100, np.nan)},
        lambda arrays: {"x": arrays["x"][:-1]},
        lambda arrays: {"x": arrays["x"].reshape(10, 10)},
        lambda arrays: {"x": arrays["x"].astype(np.float32)},
        lambda arrays: {"y": arrays["x"]},
        lambda arrays: {},
    ],
)
def test_other_contents_are_never_used(checkpoint, change):
    checkpoint.claim(SETTINGS)
    checkpoint.save("task", {"x": np.arange(100.0)})
    assert checkpoint.load("task") is not None
    rewritten(checkpoint.folder / "task.npz", change)
    assert checkpoint.load("task") is None
    with zipfile.ZipFile(checkpoint.folder / "task.npz", "a") as file:
        file.comment = b""
    assert checkpoint.load("task") is None


def test_what_was_written_elsewhere_is_never_used(checkpoint, tmp_path):
    """Under another name, in another part, by a run with other settings."""
    checkpoint.claim(SETTINGS)
    part, other = checkpoint.part("a"), Checkpoint(tmp_path / "other")
    other.claim({**SETTINGS, "split": 1})
    for place in (checkpoint, part, other):
        place.save("task", {"x": np.ones(1)})
    shutil.copy(checkpoint.folder / "task.npz", checkpoint.folder / "renamed.npz")
    assert checkpoint.load("renamed") is None
    for origin in (checkpoint, other):
        shutil.copy(origin.folder / "task.npz", part.folder / "task.npz")
        assert part.load("task") is None
    (checkpoint.folder / "settings.json").unlink()
    again = Checkpoint(checkpoint.folder)
    again.claim({**SETTINGS, "split": 1})
    assert again.load("task") is None, "its settings were taken away, and it is not what it was taken for"


def test_what_is_no_file_is_not_waited_for(checkpoint):
    checkpoint.save("task", {"x": np.ones(1)})
    (checkpoint.folder / "task.npz").unlink()
    os.mkfifo(checkpoint.folder / "task.npz")
    assert checkpoint.load("task") is None
    (checkpoint.folder / "folder.npz").mkdir()
    assert checkpoint.load("folder") is None
    os.mkfifo(checkpoint.folder / "settings.json")
    with refused(RunError, "run-folders", naming=["--force"]):
        checkpoint.claim(SETTINGS)


@pytest.mark.parametrize("change", [{"version": "0.0.1"}, {"sources": "0"}, None, 17])
def test_the_run_of_another_version_is_not_resumed(checkpoint, change):
    checkpoint.claim(SETTINGS)
    path = checkpoint.folder / "settings.json"
    settings = json.loads(path.read_text())
    settings["daskfs"] = settings["daskfs"] | change if isinstance(change, dict) else change
    path.write_text(json.dumps(settings))
    with refused(RunError, "run-folders", naming=["version of daskfs"]):
        checkpoint.claim(SETTINGS)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"' + "x" * 2**25 + '"', "[" * 200_000])
def test_damaged_settings_are_named(checkpoint, text):
    checkpoint.claim(SETTINGS)
    (checkpoint.folder / "settings.json").write_text(text)
    with refused(RunError, "run-folders", at="settings.json", naming=["--force"]) as caught:
        checkpoint.claim(SETTINGS)
    assert len(str(caught.value)) < 500


def test_what_differs_is_named_at_no_length(checkpoint):
    checkpoint.claim({"select": ["message"] * 1000})
    with refused(RunError, "run-folders", naming=["'message'"]) as caught:
        checkpoint.claim({"select": []})
    assert len(str(caught.value)) < 600


def test_a_checkpoint_that_is_full_keeps_nothing_more_and_what_it_has(tmp_path):
    """What comes after a gap does not belong to what is before it."""
    kept = tmp_path / "kept"
    checkpoint = Checkpoint(kept, room=Room(kept, 10_000))
    checkpoint.part("a").save("state", {"x": np.zeros(500)})
    checkpoint.part("a").save("state", {"x": np.ones(600)})  # in place of the first
    assert not checkpoint.room.is_full
    checkpoint.part("b").save("state", {"x": np.ones(900)})
    checkpoint.part("b").save("small", {"x": np.ones(1)})
    assert checkpoint.room.is_full
    assert checkpoint.part("b").is_empty
    np.testing.assert_array_equal(checkpoint.part("a").load("state")["x"], np.ones(600))
    again = Room(kept, 10_000)
    assert again.takes(kept / "a" / "more.npz", 4000)
    assert not again.takes(kept / "a" / "yet.npz", 4000)
