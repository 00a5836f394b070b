"""What a store says of itself is checked field by field, and its files before they are opened."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from daskfs.errors import CorruptStoreError, StoreError, StoreFormatError
from daskfs.store.feature_store import open_store
from daskfs.store.plain_files import open_plain, read_document, read_plain
from tests.faults.damage import write_manifest
from tests.refusals import refused


def changed(store, name, change):
    """Change a description, and have the manifest agree."""
    path = store.path / name
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    manifest = json.loads((store.path / "manifest.json").read_text())
    manifest["sha256"][name] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest["files"][name] = path.stat().st_size
    write_manifest(store.path / "manifest.json", manifest)


def header(**values):
    return lambda document: document["attributes"]["daskfs"].update(values)


FIELDS = {
    "shape": [None, 3, [1], [1, -1], [1.0, 2], ["1", "2"], [True, 1]],
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
        (b"[" * 10**6, "damaged"),
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
