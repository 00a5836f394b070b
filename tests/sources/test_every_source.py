"""Every kind of source gives the same store here, on workers, and after a process was killed while it wrote it."""

import os
import socket

import pytest

import daskfs
from daskfs.cluster.open import open_cluster
from daskfs.files import LockOwner
from daskfs.store.manifest import LOCK, MANIFEST
from daskfs.store.unfinished import SUFFIX, UnfinishedStore
from daskfs.watching.base import Silent
from tests.sources.every_source import SOURCES, contents, settle

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client():
    with open_cluster("threads", 2) as workers:
        yield workers.client


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 2**14)
    monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)


class KilledError(Exception):
    """Stands for the end of a process."""


class Kills(Silent):
    """Ends an ingest after some of its steps."""

    n_left = 2

    def advance(self, *args, **options):
        self.n_left -= 1
        if self.n_left < 0:
            raise KilledError


def killed(path, source, options, monkeypatch):
    """Leave a store as a process does that is killed after some steps; return whether it was killed in time."""
    with monkeypatch.context() as patch:
        patch.setattr(UnfinishedStore, "remove", lambda self: None)
        try:
            daskfs.ingest(source, path, progress=Kills(), **options)
        except KilledError:
            dead = LockOwner(os.getpid(), socket.gethostname(), 0.0)
            (path.with_name(path.name + SUFFIX) / LOCK).write_text(dead.to_text())
            return True
    return False


@pytest.mark.parametrize("name", SOURCES)
def test_the_store_is_the_same_wherever_and_however_often_it_is_begun(tmp_path, client, monkeypatch, name):
    source, options = SOURCES[name](tmp_path)
    settle(tmp_path)
    daskfs.ingest(source, tmp_path / "here", **options)
    daskfs.ingest(source, tmp_path / "workers", client=client, **options)
    whole = contents(tmp_path / "here")
    assert contents(tmp_path / "workers") == whole
    if killed(tmp_path / "again", source, options, monkeypatch):
        assert (tmp_path / f"again{SUFFIX}").is_dir()
        daskfs.ingest(source, tmp_path / "again", **options)
        noted = ("zarr.json", MANIFEST)  # which say that an unfinished store was removed
        assert {k: v for k, v in contents(tmp_path / "again").items() if k not in noted} == {
            k: v for k, v in whole.items() if k not in noted
        }
