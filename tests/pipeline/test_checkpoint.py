import numpy as np
import pytest

from daskfs.errors import RunError
from daskfs.pipeline.folder import Checkpoint

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
    with pytest.raises(RunError, match=r"resume with the settings it was started with") as caught:
        checkpoint.claim(settings)
    assert message in str(caught.value)


def test_a_full_disk_says_how_to_go_on(checkpoint, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match="No space left on device; free disk space, fix the permissions"):
        checkpoint.save("task", {"x": np.ones(3)})
    assert list(checkpoint.folder.iterdir()) == []
