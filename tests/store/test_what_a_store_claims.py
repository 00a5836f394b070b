"""What a store says of itself is held against its files before anything is allocated for it."""

from __future__ import annotations

import json
import os
import tracemalloc

import numpy as np
import pytest

from daskfs.errors import CorruptStoreError, StoreError, StoreFormatError
from daskfs.store.feature_store import open_store
from daskfs.store.plain_files import open_plain, read_document, read_plain
from tests.faults.damage import agree
from tests.refusals import refused


def changed(store, name, change):
    """Change a description, and have the manifest agree."""
    path = store.path / name
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    agree(store.path)


def header(**values):
    return lambda document: document["attributes"]["daskfs"].update(values)


def array(**values):
    return lambda document: document.update(values)


def grid(*shape):
    return {"name": "regular", "configuration": {"chunk_shape": list(shape)}}


HUGE = 2**40
CLAIMS = {
    "rows": [("zarr.json", header(shape=[HUGE, 70])), ("X/zarr.json", array(shape=[HUGE, 70]))],
    "columns": [("zarr.json", header(shape=[300, HUGE])), ("X/zarr.json", array(shape=[300, HUGE]))],
    "one tile of all": [
        ("zarr.json", header(shape=[HUGE, HUGE], tile_shape=[HUGE, HUGE])),
        ("X/zarr.json", array(shape=[HUGE, HUGE], chunk_grid=grid(HUGE, HUGE))),
    ],
    "larger tiles": [
        ("zarr.json", header(tile_shape=[HUGE // 8, 32])),
        ("X/zarr.json", array(chunk_grid=grid(HUGE // 8, 32))),
    ],
    "the target": [("obs/y0/zarr.json", array(shape=[HUGE], chunk_grid=grid(HUGE)))],
    "the chunks of the target": [("obs/y0/zarr.json", array(chunk_grid=grid(HUGE)))],
    "the names": [("var/feature/zarr.json", array(shape=[HUGE], chunk_grid=grid(HUGE)))],
    "the chunks of the names": [("var/feature/zarr.json", array(chunk_grid=grid(HUGE)))],
}


def everything_of(path):
    store = open_store(path)
    return store.read(slice(None)), store.target, store.feature_names


@pytest.mark.parametrize("codec", ["raw", "lz4"])
@pytest.mark.parametrize("case", CLAIMS)
def test_a_huge_shape_allocates_nothing(make_store, matrix, codec, case):
    store = make_store(np.round(matrix), matrix[:, 0].astype(float), codec=codec, tile_shape=(64, 32))
    for name, change in CLAIMS[case]:
        changed(store, name, change)
    tracemalloc.start()
    with pytest.raises((CorruptStoreError, StoreFormatError), match=r"contradict|expected"):
        everything_of(store.path)
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()


FIELDS = {
    "shape": [None, 3, [1], [1, -1], [1.0, 2], ["1", "2"], [2**63, 1], [True, 1]],
    "dtype": [None, 3, "object", "float33", ["f4"]],
    "tile_shape": [None, [0, 1], [64]],
    "shard_shape": [3, [64, 0], "x"],
    "codec": [None, "zip"],
    "shuffled": [None, 1, "yes"],
    "random_state": ["0", 1.5, []],
    "target_names": [None, "y", [1], {"y": 1}],
    "label_names": [None, "fold"],
    "has_weight": [0, None],
    "source": [None, [], "x", {"digest": 1}, {"kind": []}, {"target_classes": 2}, {"target_classes": [0, 1]}],
    "digest": [None, 1],
    "notes": [None, "x", [None]],
    "created_with": [None, []],
    "format_version": [None, True, 0, "1", 1.0],
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_another_kind_is_named(make_store, matrix, field):
    store = make_store(matrix)
    for value in FIELDS[field]:
        changed(store, "zarr.json", header(**{field: value}))
        with pytest.raises(StoreFormatError, match="format version" if field == "format_version" else f"as {field} in"):
            open_store(store.path)


def test_documents_are_bounded(tmp_path):
    path = tmp_path / "a.json"
    for content, problem in (
        (b"[" * 10**6, "nested too deep"),
        (b'{"a": ' + b"[" * 20 + b"]" * 20 + b"}", "nested too deep"),
        (b'{"a": "\\ud800"}', "surrogates not allowed"),
        (b"\xff", "damaged"),
        (b"[]", "expected an object"),
        (b'{"a": ' + b"9" * 5000 + b"}", "damaged"),
        (b"{}" + b" " * 10**7, "wrong length"),
    ):
        path.write_bytes(content)
        with pytest.raises(CorruptStoreError, match=problem):
            read_document(path, "it", 1 << 20)
    path.write_text(json.dumps({"a": "\U0001f600 größe"}))
    assert read_document(path, "it", 1 << 20)[0] == {"a": "\U0001f600 größe"}


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    for name in ("pipe", "device", "."):
        with refused(CorruptStoreError, "damaged-stores", naming=["regular"]):
            open_plain(tmp_path / name, "it")
    with refused(StoreError, "stores", naming=["opened"]):
        open_plain(tmp_path / "loop", "it")
    for name in ("none", "file/none"):
        with refused(CorruptStoreError, "damaged-stores", naming=["missing"]):
            open_plain(tmp_path / name, "it")
    assert read_plain(tmp_path / "link", "it", 3) == b"abc"
    with refused(CorruptStoreError, "damaged-stores", naming=["2", "3"]):
        read_plain(tmp_path / "link", "it", 2)


def test_the_manifest_lists_the_arrays_of_the_header(make_store, matrix):
    store = make_store(matrix, matrix[:, 0].astype(float))
    changed(store, "zarr.json", header(target_names=[]))
    with refused(CorruptStoreError, "damaged-stores", naming=["manifest"]):
        open_store(store.path)
