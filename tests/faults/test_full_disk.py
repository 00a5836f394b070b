"""A disk that is full in the middle of a run or an ingest: a named error, nothing half done, and then the same bits.

The disk is real (tmpfs), and its size the moment at which it is full: shares of what the undisturbed command writes.
"""

from __future__ import annotations

import hashlib
import subprocess

import pytest

from daskfs.pipeline.checkpoint import Checkpoint
from tests.faults.kills import KEPT
from tests.integration.workshop import Workshop

METHODS = {
    "message": {"n_subsets": 12},
    "online_substitution": {"n_features_to_select": 8},
    "async_online_substitution": {"n_features_to_select": 8},
    "fgm": {"n_features_to_select": 12, "n_features_per_pass": 3, "loss": "squared"},
    "mission": {"n_features_to_select": 8, "n_epochs": 3, "block_rows": 500},
}
ROOM = "64m"


def mounted(size, *options):
    command = ["mount", "-t", "tmpfs", "-o", ",".join([*options, f"size={size}"]), "tmpfs", "disk"]
    return lambda folder: subprocess.run(command, cwd=folder, capture_output=True, text=True)


class Disk:
    """A small disk in a workshop's folder."""

    def __init__(self, workshop):
        self.workshop = workshop
        self.folder = workshop.folder / "disk"

    def of(self, nbytes):
        """Put an empty disk of this size there, in place of the one before."""
        self.remove()
        self.folder.mkdir(exist_ok=True)
        done = mounted(nbytes)(self.workshop.folder)
        if done.returncode:
            pytest.skip(f"only root can mount a small disk: {done.stderr.strip()}")

    def grow(self):
        """Make room."""
        assert mounted(ROOM, "remount")(self.workshop.folder).returncode == 0

    def remove(self):
        subprocess.run(["umount", "disk"], cwd=self.workshop.folder, capture_output=True, check=False)


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop = Workshop(tmp_path)
    shop.write("table.csv", "a,b,c,y\n" + "".join(f"{i},{i * 7 % 13},{i * i % 17},{i % 5}\n" for i in range(20_000)))
    return shop


@pytest.fixture
def disk(workshop):
    try:
        subprocess.run(["mount", "--version"], capture_output=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no command mount here")
    small = Disk(workshop)
    yield small
    small.remove()


def contents(folder, names=None):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (names is None or path.name in names)
    }


def nbytes_in(folder):
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in folder.rglob("*"))


def ended_with_a_named_error(done):
    assert done.code == 2, str(done)
    assert "Traceback" not in done.errors
    assert "no space left on device" in done.errors.lower() or "the disk is full" in done.errors
    return True


def runs_that_fill_the_disk(workshop, disk, method, shares, monkeypatch):
    """Return how many runs found the disk full, and how many of them were resumed."""
    source = {"kind": "synthetic", "n_samples": 3000, "n_features": 60, "random_state": 1}
    select = [{"method": method, **METHODS[method], "random_state": k, "label": f"m{k}"} for k in range(2)]
    workshop.pipeline(
        source=source, store={"path": "store.zarr"}, split={"test": 0.2}, select=select, output="disk/run"
    )
    disk.of(ROOM)
    taken, remove = [], Checkpoint.remove
    with monkeypatch.context() as measured:
        measured.setattr(Checkpoint, "remove", lambda one: (taken.append(nbytes_in(disk.folder)), remove(one)))
        assert workshop.daskfs("run", "pipeline.yaml").code == 0
    whole, most = contents(disk.folder / "run", KEPT), max(taken)
    n_full = n_resumed = 0
    for share in shares:
        disk.of(max(4096, int(share * most)))
        done = workshop.daskfs("run", "pipeline.yaml")
        if done.code:
            n_full += ended_with_a_named_error(done)
            assert not (disk.folder / "run").exists()
            disk.grow()
            is_resumed = (disk.folder / "run.unfinished").exists()
            assert is_resumed == ("--resume" in done.errors)
            n_resumed += is_resumed
            how = ["--resume", "disk/run"] if is_resumed else []
            assert workshop.daskfs("run", "pipeline.yaml", *how).code == 0
        assert contents(disk.folder / "run", KEPT) == whole
    return n_full, n_resumed


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["message"])
def test_a_run_whose_disk_is_full_goes_on_to_the_same_bits_when_there_is_room(workshop, disk, method, monkeypatch):
    n_full, n_resumed = runs_that_fill_the_disk(workshop, disk, method, [0.02, 0.7], monkeypatch)
    assert n_full == 2
    assert n_resumed == 1


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_so_does_every_run_however_small_its_disk(workshop, disk, method, monkeypatch):
    n_full, _ = runs_that_fill_the_disk(workshop, disk, method, [k / 8 for k in range(7)], monkeypatch)
    assert n_full >= 5


def ingests_that_fill_the_disk(workshop, disk, shares):
    command = ["ingest", "table.csv", "disk/s.zarr", "--target", "y"]
    disk.of(ROOM)
    assert workshop.daskfs(*command).code == 0
    whole, most = contents(disk.folder), nbytes_in(disk.folder)
    n_full = 0
    for share in shares:
        disk.of(max(4096, int(share * most)))
        done = workshop.daskfs(*command)
        if done.code:
            n_full += ended_with_a_named_error(done)
            assert not (disk.folder / "s.zarr").exists()
            disk.grow()
            assert workshop.daskfs(*command).code == 0
        assert contents(disk.folder) == whole
    return n_full


@pytest.mark.slow
def test_an_ingest_whose_disk_is_full_writes_the_same_bytes_when_there_is_room(workshop, disk):
    assert ingests_that_fill_the_disk(workshop, disk, [0.0, 0.02, 0.6]) == 3


@pytest.mark.nightly
def test_so_does_every_ingest_however_small_its_disk(workshop, disk):
    assert ingests_that_fill_the_disk(workshop, disk, [k / 21 for k in range(20)]) >= 15
