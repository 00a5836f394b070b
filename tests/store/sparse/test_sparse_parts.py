"""Parts of a sparse source that processes encode: the store of one process, byte for byte."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from distributed import Client

import daskfs
from daskfs.cluster.workers import Here
from daskfs.sources import parts
from tests.refusals import refused
from tests.store.sparse.lab import files_of

LINE = "{0} '{1} |words w{2}:{3} w{4} |other o{2} p{5}:0.5\n"
TEXT = "".join(LINE.format(1 if k % 3 else -1, k, k % 17, k % 5 + 1, k % 29 + 20, k % 11 + 3) for k in range(4000))


@pytest.mark.slow
@pytest.mark.parametrize("shuffle", [True, False])
def test_parts_give_the_bytes_of_the_whole(tmp_path, monkeypatch, shuffle):
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 20_000)
    (tmp_path / "a.vw").write_text(TEXT)
    whole = daskfs.ingest(tmp_path / "a.vw", tmp_path / "whole.zarr", shuffle=shuffle)
    monkeypatch.setattr("daskfs.sources.ingest.workers_of", lambda client: Here())
    n_parts = []
    encode = parts.encode_part
    monkeypatch.setattr(parts, "encode_part", lambda *args: n_parts.append(args[-1]) or encode(*args))
    parted = daskfs.ingest(
        tmp_path / "a.vw", tmp_path / "parted.zarr", shuffle=shuffle, client=SimpleNamespace(scheduler_info=dict)
    )
    assert len(n_parts) > 3
    assert parted.digest == whole.digest
    assert parted.notes == whole.notes
    assert files_of(parted) == files_of(whole)
    np.testing.assert_array_equal(parted.target, whole.target)


@pytest.mark.slow
def test_workers_write_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 20_000)
    (tmp_path / "a.vw").write_text(TEXT)
    whole = daskfs.ingest(tmp_path / "a.vw", tmp_path / "whole.zarr")
    with Client(processes=True, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        parted = daskfs.ingest(tmp_path / "a.vw", tmp_path / "parted.zarr", client=client)
    assert files_of(parted) == files_of(whole)


def test_a_fault_in_a_part_has_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 20_000)
    monkeypatch.setattr("daskfs.sources.ingest.workers_of", lambda client: Here())
    (tmp_path / "a.vw").write_text(TEXT + "1 |words w:nan\n")
    with refused(daskfs.DaskfsError, "sparse-rows", at="a.vw:4001"):
        daskfs.ingest(tmp_path / "a.vw", tmp_path / "s.zarr", client=SimpleNamespace(scheduler_info=dict))
    assert [path.name for path in tmp_path.iterdir()] == ["a.vw"]
