"""Every kind of source gives the same store here, on workers, and after a process was killed while it wrote it."""

import os
import socket

import pytest

import daskfs
from daskfs.files import LockOwner
from daskfs.store.manifest import LOCK, MANIFEST
from daskfs.store.unfinished import SUFFIX, UnfinishedStore
from daskfs.watching.base import Silent
from tests.sources.every_source import SOURCES, contents, settle

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 2**14)
    monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)


class KilledError(Exception):
    """Stands for the end of a process."""


class Kills(Silent):
    """Ends an ingest after some of its steps."""

    def __init__(self, n_left):
        self.n_left = n_left

    def advance(self, *args, **options):
        self.n_left -= 1
        if self.n_left < 0:
            raise KilledError


IN_STEPS = {"csv_small_memory", "csv_sparse", "parquet_sparse", "dask_array"}
IN_STEPS |= {"libsvm", "vw", "vw_bag", "clicks", "text", "fasta"}
"""Sources whose ingest has several steps; of others the first ends it."""


def kill(path, source, options, n_steps, monkeypatch):
    """Leave a store as a process does that is killed after some steps."""
    with monkeypatch.context() as patch:
        patch.setattr(UnfinishedStore, "remove", lambda self: None)
        with pytest.raises(KilledError):
            daskfs.ingest(source, path, progress=Kills(n_steps), **options)
    dead = LockOwner(os.getpid(), socket.gethostname(), 0.0)
    (path.with_name(path.name + SUFFIX) / LOCK).write_text(dead.to_text())


@pytest.mark.parametrize("name", SOURCES)
def test_the_store_is_the_same_wherever_and_however_often_it_is_begun(tmp_path, threads, monkeypatch, name):
    source, options = SOURCES[name](tmp_path)
    settle(tmp_path)
    daskfs.ingest(source, tmp_path / "here", **options)
    daskfs.ingest(source, tmp_path / "workers", client=threads.client, **options)
    whole = contents(tmp_path / "here")
    assert contents(tmp_path / "workers") == whole
    kill(tmp_path / "again", source, options, 2 if name in IN_STEPS else 0, monkeypatch)
    assert (tmp_path / f"again{SUFFIX}").is_dir()
    daskfs.ingest(source, tmp_path / "again", **options)
    noted = ("zarr.json", MANIFEST)  # which say that an unfinished store was removed
    assert {k: v for k, v in contents(tmp_path / "again").items() if k not in noted} == {
        k: v for k, v in whole.items() if k not in noted
    }
