from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from daskfs.cluster.open import open_cluster
from daskfs.errors import CorruptStoreError, StoreFormatError
from daskfs.store.feature_store import open_store, verify_store
from daskfs.store.foreign import open_foreign_array
from daskfs.store.header import parse_metadata, read_metadata
from daskfs.store.tile_reader import TileReader
from tests.refusals import refused

LAYOUTS = {
    "raw": {"codec": "raw", "tile_shape": (64, 32)},
    "lz4": {"codec": "lz4", "tile_shape": (64, 32)},
    "sharded": {"codec": "raw", "tile_shape": (32, 16), "max_files": 2, "shard_nbytes": 4 * 32 * 16 * 4},
}


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-5])


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"\0")


def empty(path):
    path.write_bytes(b"")


DAMAGES = {"flip": flip, "truncate": truncate, "lengthen": lengthen, "empty": empty, "delete": Path.unlink}


@pytest.fixture
def store(request, make_store, matrix):
    return make_store(
        np.round(matrix),
        matrix[:, 0].astype(float),
        np.ones(300),
        labels={"fold": np.array(["a"] * 300)},
        **LAYOUTS[request.param],
    )


@pytest.mark.parametrize("store", LAYOUTS, indirect=True)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_chunk_is_named_by_verify_and_by_reading(store, damage):
    _ = store.read(slice(None))
    path = store.path / "X" / "c" / "1" / "0"
    DAMAGES[damage](path)
    found = store.verify()
    assert found
    assert all(str(path) in line and "X chunk (" in line for line in found)
    for reader in (store, open_store(store.path)):
        with pytest.raises(CorruptStoreError, match=r"X chunk \(\d+, \d+\).*daskfs verify.*lists all damage") as caught:
            reader.read(slice(None))
        assert str(path) == caught.value.where
    first_band = store.read(slice(0, 32))
    assert first_band.shape == (32, 70)


@pytest.mark.parametrize("store", ["raw", "lz4"], indirect=True)
@pytest.mark.parametrize("place", [100, -1], ids=["content", "checksum"])
def test_a_tile_is_held_against_the_checksum_at_its_own_end(store, place):
    """Where no manifest says what belongs there, and where the manifest's checksum is that of the content."""
    path = store.path / "X" / "c" / "1" / "0"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    alone = TileReader(store.path / "X", parse_metadata(read_metadata(store.path / "X", "X")[0]), "X")
    readers = {"alone": alone} | ({"of the store": store.tiles} if place == -1 else {})
    for reader in readers.values():
        with refused(CorruptStoreError, "damaged-stores", naming=["1", "0"]):
            reader.read(slice(64, 128))
        with refused(CorruptStoreError, "damaged-stores", naming=["1", "0"]):
            reader.check_tile(1, 0)


@pytest.mark.parametrize("store", ["raw", "lz4"], indirect=True)
def test_the_chunk_is_named_by_its_number(store):
    (store.path / "X" / "c" / "2" / "1").unlink()
    with refused(CorruptStoreError, "damaged-stores", naming=["2", "1"]):
        store.read(slice(None))
    with refused(CorruptStoreError, "damaged-stores", naming=["2", "1"]):
        store.tiles.check_tile(2, 1)
    assert len(store.verify()) == 1


@pytest.mark.parametrize("store", ["raw"], indirect=True)
@pytest.mark.parametrize("damage", ["flip", "truncate", "delete"])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("obs/y0", lambda store: store.target),
        ("obs/weight", lambda store: store.weight),
        ("obs/sample", lambda store: store.source_rows),
        ("var/std", lambda store: store.std),
        ("var/feature", lambda store: store.feature_names),
        ("obs/fold", lambda store: store.labels("fold")),
    ],
)
def test_damage_beside_the_matrix_is_named_too(store, damage, name, read):
    chunk = next(path for path in sorted((store.path / name).rglob("*")) if path.is_file() and path.name != "zarr.json")
    DAMAGES[damage](chunk)
    (line,) = store.verify()
    assert name in line
    with pytest.raises(CorruptStoreError, match=name):
        read(open_store(store.path))


@pytest.mark.parametrize("store", ["raw"], indirect=True)
@pytest.mark.parametrize("name", ["zarr.json", "X/zarr.json", "obs/y0/zarr.json", "obs/zarr.json"])
def test_a_changed_description_is_found(store, name):
    path = store.path / name
    path.write_text(path.read_text().replace("300", "299").replace("group", "groups"))
    assert any(name in line for line in store.verify())
    path.unlink()
    assert any(name in line for line in store.verify())


@pytest.mark.parametrize("store", ["raw"], indirect=True)
def test_a_damaged_header_or_manifest_is_found_on_opening(store):
    manifest = store.path / "manifest.json"
    good = manifest.read_text()
    manifest.write_text(good.replace('"files"', '"filed"'))
    with refused(CorruptStoreError, "damaged-stores", naming=["manifest.json"]):
        open_store(store.path)
    assert store.verify()
    manifest.write_text(good[:-10])
    with refused(CorruptStoreError, "damaged-stores", naming=["manifest.json"]):
        open_store(store.path)
    manifest.write_text(good)
    header = store.path / "zarr.json"
    header.write_text(header.read_text().replace("float32", "float64"))
    with refused(CorruptStoreError, "damaged-stores"):
        open_store(store.path)
    header.write_text("{")
    with refused(CorruptStoreError, "damaged-stores", naming=["zarr.json"]):
        open_store(store.path)
    manifest.unlink()
    with refused(StoreFormatError, "store-format", naming=["feature"]):
        open_store(store.path)


@pytest.mark.parametrize("store", ["raw"], indirect=True)
def test_a_newer_format_and_a_lost_manifest_are_refused(store):
    header = store.path / "zarr.json"
    document = json.loads(header.read_text())
    document["attributes"]["daskfs"]["format_version"] = 99
    header.write_text(json.dumps(document))
    with refused(StoreFormatError, "store-format", naming=["99", "daskfs reads", "4"]):
        open_store(store.path)
    document["attributes"]["daskfs"]["format_version"] = 1
    header.write_text(json.dumps(document))
    (store.path / "manifest.json").unlink()
    with refused(StoreFormatError, "store-format", naming=["finished"]):
        open_store(store.path)


def test_what_is_no_store_is_refused(tmp_path):
    with refused(StoreFormatError, "store-format", naming=["store"]):
        open_store(tmp_path / "none.zarr")
    (tmp_path / "file.zarr").write_text("")
    zarr.create_array(tmp_path / "array.zarr", data=np.zeros(3))
    zarr.create_group(tmp_path / "group.zarr")
    for name in ("file.zarr", "array.zarr", "group.zarr", "."):
        with refused(StoreFormatError, "store-format", naming=["feature"]):
            open_store(tmp_path / name)


@pytest.mark.parametrize("store", ["lz4"], indirect=True)
def test_a_shorter_chunk_with_a_right_checksum_is_found(store):
    from crc32c import crc32c

    path = store.path / "X" / "c" / "0" / "0"
    for content in (path.read_bytes()[:-40], b"", b"\0" * 20):
        path.write_bytes(content + crc32c(content).to_bytes(4, "little"))
        with pytest.raises(CorruptStoreError, match=r"wrong length|decodes to"):
            store.read(slice(None))


def make_array(path, X, **options):
    array = zarr.create_array(path, shape=X.shape, dtype=X.dtype, chunks=(64, 32), **options)
    array[:] = X
    return array


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_foreign_arrays_are_opened(tmp_path, matrix, zarr_format):
    make_array(tmp_path / "X", matrix, zarr_format=zarr_format)
    array = open_foreign_array(tmp_path / "X")
    assert (array.shape, array.dtype, array.chunks) == ((300, 70), np.float32, (64, 32))
    np.testing.assert_array_equal(array[10:20], matrix[10:20])


def test_foreign_nonsense_is_refused(tmp_path):
    from daskfs.errors import SourceError

    with refused(SourceError, "arrays", naming=["Zarr"]):
        open_foreign_array(tmp_path / "none")
    (tmp_path / "folder").mkdir()
    with refused(SourceError, "arrays", naming=["Zarr"]):
        open_foreign_array(tmp_path / "folder")
    zarr.create_group(tmp_path / "group").create_array("a", shape=(3,), dtype="f4")
    with refused(SourceError, "arrays", naming=["arrays"]):
        open_foreign_array(tmp_path / "group")


@pytest.mark.parametrize("store", ["raw"], indirect=True)
def test_verify_tells_how_far_it_is(store):
    class Progress:
        total = done = 0

        def start(self, name, total):
            self.total = total

        def advance(self, k=1):
            self.done += k

        def finish(self):
            self.finished = True

    progress = Progress()
    assert store.verify(progress) == []
    assert progress.done == progress.total > 0
    assert progress.finished
    shutil.rmtree(store.path / "X" / "c")
    assert len(store.verify()) == 15


@pytest.mark.parametrize("store", LAYOUTS, indirect=True)
def test_workers_find_the_damage_that_this_thread_finds(store, monkeypatch):
    monkeypatch.setattr("daskfs.store.verify.PART_NBYTES", 1)
    for path in sorted((store.path / "X" / "c").rglob("*"))[-3:]:
        if path.is_file():
            flip(path)
    with open_cluster("threads", 2, dashboard_address=None) as workers:
        found = verify_store(store.path, workers=workers)
    assert found == store.verify()
    assert found
