"""A chunk that is whole and lies where another belongs is an error wherever it is read, and its file is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from daskfs import FGM, Message, OnlineSubstitution
from daskfs.cli import app
from daskfs.errors import CorruptStoreError, StoreError
from daskfs.store.feature_store import open_store
from tests.refusals import refused

GOLDEN = Path(__file__).parents[1] / "golden" / "store_v1.zarr"
LAYOUTS = {
    "raw": {"codec": "raw", "tile_shape": (64, 32)},
    "lz4": {"codec": "lz4", "tile_shape": (64, 32)},
    "sharded": {"codec": "raw", "tile_shape": (32, 16), "max_files": 2, "shard_nbytes": 4 * 32 * 16 * 4},
}
MESSAGE = "is complete, but not the one that was written there; remove the store and ingest the source again"


@pytest.fixture
def make(make_store):
    def make(layout, seed=0, n_samples=260, p=64):
        rng = np.random.default_rng(seed)
        X = rng.integers(-9, 10, (n_samples, p)).astype(np.float32)
        y = (X[:, 0] - X[:, 40] + 0.1 * rng.standard_normal(n_samples) > 0).astype(float)
        weight = rng.random(n_samples) + 0.5
        labels = {"fold": rng.permutation(n_samples).astype(str), "id": rng.permutation(n_samples).astype(str)}
        names = [f"gene{j}" for j in rng.permutation(p)]
        return make_store(X, y, weight, labels=labels, feature_names=names, **LAYOUTS[layout])

    return make


def swap(a, b):
    a.rename(a.with_name("swap"))
    b.rename(a)
    a.with_name("swap").rename(b)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_chunks_of_x_that_changed_places_are_named(make, layout):
    store = make(layout)
    a, b = store.path / "X/c/0/0", store.path / "X/c/1/0"
    swap(a, b)
    found = store.verify()
    assert all(MESSAGE in line for line in found)
    assert {line.partition(": ")[0] for line in found} == {str(a), str(b)}
    for opened in (store, open_store(store.path)):
        for read in (
            lambda store: store.read(slice(0, 3)),
            lambda store: store.read(np.array([130, 2]), slice(1, 3)),
            lambda store: store.tiles.check_tile(0, 0),
        ):
            with pytest.raises(CorruptStoreError, match=MESSAGE) as caught:
                read(opened)
            assert caught.value.where in (str(a), str(b))


@pytest.mark.parametrize("method", [Message(n_subsets=2), FGM(n_features_to_select=3), OnlineSubstitution(3)])
def test_no_selector_takes_a_chunk_for_another(make, method):
    store = make("raw")
    swap(store.path / "X/c/0/0", store.path / "X/c/1/0")
    with pytest.raises(CorruptStoreError, match=MESSAGE):
        method.fit(store)


VECTORS = {
    "statistics": ("var/mean", "var/std", lambda store: store.column_statistics()),
    "extremes": ("var/minimum", "var/maximum", lambda store: store.minimum),
    "target and weight": ("obs/y0", "obs/weight", lambda store: store.read_target(slice(3, 5))),
    "order and target": ("obs/sample", "obs/y0", lambda store: store.source_rows),
    "labels": ("obs/fold", "obs/id", lambda store: store.labels("fold")),
}


@pytest.mark.parametrize("case", VECTORS)
def test_vectors_that_changed_places_are_named(make, case):
    first, second, read = VECTORS[case]
    store = make("raw")
    swap(store.path / first / "c/0", store.path / second / "c/0")
    assert {line.partition(": ")[0] for line in store.verify()} == {f"{store.path}/{n}/c/0" for n in (first, second)}
    with pytest.raises(CorruptStoreError, match=MESSAGE):
        read(open_store(store.path))


def test_names_of_another_store_are_not_read(make):
    store, other = make("raw"), make("raw", seed=1)
    shutil.copy(other.path / "var/feature/c/0", store.path / "var/feature/c/0")
    with refused(CorruptStoreError, "damaged-stores", naming=["var/feature"]):
        _ = store.feature_names


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_chunk_of_another_store_that_comes_while_one_reads_is_named(make, layout):
    store, other = make(layout), make(layout, seed=1)
    _ = store.read(slice(None))
    shutil.copy(other.path / "X/c/1/0", store.path / "X/c/1/0")
    with pytest.raises(CorruptStoreError, match=r"X chunk \(\d, 0\)"):
        store.read(slice(None))


@pytest.mark.slow
@pytest.mark.parametrize("when", ["first read", "last read"])
def test_a_store_that_is_replaced_while_a_run_reads_ends_it(make, monkeypatch, when):
    store, other = make("raw"), make("raw", seed=1)
    read, reads, replace_at = type(store).read, [], 0

    def replaced(self, *arguments, **options):
        block = read(self, *arguments, **options)
        reads.append(1)
        if len(reads) == replace_at:
            shutil.rmtree(store.path)
            shutil.copytree(other.path, store.path)
        return block

    method = Message(n_subsets=2, second_look=False)
    with monkeypatch.context() as patched:
        patched.setattr(type(store), "read", replaced)
        method.fit(store)
        replace_at, reads[:] = 1 if when == "first read" else len(reads), []
        with pytest.raises(StoreError, match=r"not the one that was written there|no longer the one"):
            method.fit(store)


def test_a_store_sent_to_a_task_is_the_one_that_is_read_there(make):
    import pickle

    store, other = make("raw"), make("raw", seed=1)
    sent = pickle.dumps(store)
    np.testing.assert_array_equal(pickle.loads(sent).read(slice(None)), store.read(slice(None)))
    shutil.rmtree(store.path)
    shutil.copytree(other.path, store.path)
    with refused(StoreError, "stores", naming=["opened"]):
        pickle.loads(sent)


@pytest.mark.parametrize("name", ["X", "obs/y0", "var/mean", "var/feature"])
def test_the_description_of_an_array_is_that_of_the_manifest(make, name):
    store = make("raw")
    path = store.path / name / "zarr.json"
    path.write_text(path.read_text() + "\n")
    assert [line.partition(": ")[0] for line in store.verify()] == [str(path)]
    with refused(CorruptStoreError, "damaged-stores", naming=[name]):
        open_store(store.path)


def test_damaged_checksums_are_named(make):
    store = make("raw")
    path = store.path / "checksums.bin"
    content = path.read_bytes()
    for damaged in (content[:-1], content + b"0", b"\1" + content[1:], b""):
        path.write_bytes(damaged)
        assert any(str(path) in line for line in store.verify())
        with refused(CorruptStoreError, "damaged-stores", at="checksums.bin"):
            open_store(store.path)
    path.unlink()
    with refused(CorruptStoreError, "damaged-stores", naming=["checksums.bin"]):
        open_store(store.path)


def test_a_store_of_before_opens_says_what_it_lacks_and_can_be_sealed(tmp_path):
    path = tmp_path / "s.zarr"
    shutil.copytree(GOLDEN, path)
    before = open_store(path)
    assert not before.is_sealed
    assert before.info()["sealed"] is False
    ended = CliRunner().invoke(app, ["verify", str(path)])
    assert (ended.exit_code, "--seal" in ended.output) == (0, True)
    ended = CliRunner().invoke(app, ["verify", "--seal", str(path)])
    assert (ended.exit_code, "--seal" in ended.output) == (0, False)
    store = open_store(path)
    assert store.is_sealed
    assert store.digest == before.digest
    assert store.verify() == []
    np.testing.assert_array_equal(store.read(slice(None)), open_store(GOLDEN).read(slice(None)))
    swap(path / "X/c/0/0", path / "X/c/1/1")
    with pytest.raises(CorruptStoreError, match=MESSAGE):
        store.read(slice(None))


def test_a_damaged_store_is_not_sealed(tmp_path):
    path = tmp_path / "s.zarr"
    shutil.copytree(GOLDEN, path)
    (path / "target/c/0").write_bytes(b"")
    ended = CliRunner().invoke(app, ["verify", "--seal", str(path)])
    assert ended.exit_code != 0
    assert not open_store(path).is_sealed


def test_tiles_without_a_checksum_of_their_own_are_held_against_the_manifest(tmp_path):
    import zarr
    from crc32c import crc32c

    from daskfs.store.header import parse_metadata, read_metadata
    from daskfs.store.tile_reader import TileReader

    X = np.arange(64, dtype=np.float32).reshape(16, 4)
    zarr.create_array(tmp_path / "X", shape=X.shape, chunks=(8, 4), dtype="f4", compressors=None)[:] = X
    metadata = parse_metadata(read_metadata(tmp_path / "X", "X")[0])
    assert not metadata.has_checksum
    expected = np.array([[crc32c(X[:8].tobytes())], [crc32c(X[8:].tobytes())]], np.uint32)
    reader = TileReader(tmp_path / "X", metadata, "X", expected)
    np.testing.assert_array_equal(reader.read(), X)
    swap(tmp_path / "X/c/0/0", tmp_path / "X/c/1/0")
    with pytest.raises(CorruptStoreError, match=MESSAGE):
        reader.read()
