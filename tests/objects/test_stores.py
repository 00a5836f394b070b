import os
import pickle
import time
from contextlib import suppress

import numpy as np
import psutil
import pytest
import scipy.sparse

import daskfs
from daskfs.errors import CorruptStoreError, StorageError, StoreError, StoreExistsError, StoreFormatError
from daskfs.objects import requests
from daskfs.objects.ahead import ahead_nbytes
from daskfs.store.feature_store import verify_store
from daskfs.store.writer import StoreWriter
from tests.refusals import refused

N, P = 5000, 90
rng = np.random.default_rng(0)
DENSE = rng.normal(size=(N, P)).astype(np.float32)
SPARSE = scipy.sparse.random(20_000, 400, 0.02, format="csr", random_state=0)
Y = DENSE[:, :3].sum(axis=1) + rng.normal(size=N)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(requests, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(requests, "LONGEST_PAUSE_S", 0.01)


def made(path, kind="dense", **options):
    if kind == "sparse":
        return daskfs.ingest(SPARSE, path, y=np.sin(np.arange(20_000)), **options)
    more = {"tile_shape": (512, 32)} | ({"codec": "lz4"} if kind == "lz4" else {})
    return daskfs.ingest(DENSE, path, y=Y, **more, **options)


def sharded(path):
    writer = StoreWriter(
        path, P, target_names=["y"], source={"digest": "1"}, tile_shape=(64, 30), max_files=8, shard_nbytes=200_000
    )
    from daskfs.matrix.blocks import RowBlock

    with writer:
        writer.write(RowBlock(0, N, DENSE, y=Y))
    return daskfs.open_store(path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "lz4", "sharded", "sparse"])
def test_a_store_of_objects_is_the_local_one_bit_for_bit(server, tmp_path, kind):
    make = (lambda path: sharded(path)) if kind == "sharded" else (lambda path: made(path, kind))
    local, remote = make(tmp_path / "x.zarr"), make("s3://bucket/data/x.zarr")
    assert (kind == "sharded") == (local.header.shard_shape is not None)
    over_http = daskfs.open_store(f"{server.url}/bucket/data/x.zarr")
    rows = np.random.default_rng(1).permutation(local.shape[0])[:300]
    for store in (remote, over_http, pickle.loads(pickle.dumps(remote))):
        assert store.digest == local.digest
        np.testing.assert_array_equal(store.read(rows, slice(3, 77)), local.read(rows, slice(3, 77)))
        np.testing.assert_array_equal(store.read(slice(600, 3000)), local.read(slice(600, 3000)))
        np.testing.assert_array_equal(store.target, local.target)
        assert [*store.names.array()] == [*local.names.array()]
        assert store.verify() == []
        assert store.info()["disk_nbytes"] == local.info()["disk_nbytes"]
        if kind == "sparse":
            for found, expected in (
                (store.sparse_rows(slice(100, 9000)), local.sparse_rows(slice(100, 9000))),
                (store.sparse_columns(rows % 400), local.sparse_columns(rows % 400)),
            ):
                for part in ("indptr", "indices", "data"):
                    np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
    files = {name: (tmp_path / "x.zarr" / name).read_bytes() for name in remote.path.all_objects()}
    for name, content in files.items():
        if "/c/" in name:
            assert server.objects[f"bucket/data/x.zarr/{name}"][0] == content


def test_a_store_in_memory_is_of_this_process():
    store = made("memory://tests/x.zarr")
    np.testing.assert_array_equal(
        daskfs.open_store("memory://tests/x.zarr").read(slice(0, 50)), store.read(slice(0, 50))
    )
    with refused(StoreFormatError, "store-format", naming=["store"]):
        daskfs.open_store("memory://tests/y.zarr")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(
    "selector",
    [
        daskfs.FGM(n_features_to_select=3),
        daskfs.OnlineSubstitution(n_features_to_select=3),
        daskfs.Mission(n_features_to_select=3),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_selection_from_objects_is_that_from_files(server, tmp_path, kind, selector):
    from sklearn.base import clone

    local = clone(selector).fit(made(tmp_path / "x.zarr", kind))
    server.latency_s = 0.002
    remote = clone(selector).fit(made("s3://bucket/x.zarr", kind))
    np.testing.assert_array_equal(remote.selected_, local.selected_)
    np.testing.assert_array_equal(remote.coef_, local.coef_)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["dense", "lz4", "sparse"])
def test_a_server_that_fails_now_and_then_changes_no_bit(server, kind, seed, monkeypatch):
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "20")
    store = made("s3://bucket/x.zarr", kind)
    expected = store.read(slice(None))
    server._draws.seed(seed)
    server.faults = dict.fromkeys(("500", "503", "truncated", "reset", "slow"), 0.06)
    server.slow_s = 0.02
    found = daskfs.open_store("s3://bucket/x.zarr")
    np.testing.assert_array_equal(found.read(slice(None)), expected)
    assert found.verify() == []
    assert sum(server.met.values()) > 3


@pytest.mark.parametrize("seed", range(4))
def test_what_is_flipped_on_its_way_is_asked_for_again_or_is_an_error(server, seed):
    store = made(f"s3://bucket/flipped{seed}.zarr")
    expected = DENSE[store.source_rows]
    server._draws.seed(seed)
    server.faults = {"flipped": 0.1}
    np.testing.assert_array_equal(store.read(slice(None)), expected)  # four tries: 1e-4 a tile
    with suppress(StoreError):  # of what is small, and read once
        found = daskfs.open_store(f"s3://bucket/flipped{seed}.zarr")
        np.testing.assert_array_equal(found.target, Y[store.source_rows])
    assert server.met["flipped"]


def test_an_ingest_through_a_server_that_fails_now_and_then_is_whole_or_nothing(server, tmp_path, monkeypatch):
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "20")
    local = made(tmp_path / "x.zarr")
    server.faults = dict.fromkeys(("500", "503", "truncated", "reset"), 0.08)
    remote = made("s3://bucket/x.zarr")
    server.faults = {}
    assert remote.verify() == []
    assert remote.digest == local.digest
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "2")
    server.faults = {"500": 0.9}
    with refused(StorageError, "object-stores", naming=["answered"]):
        made("s3://bucket/y.zarr")
    assert "bucket/y.zarr/manifest.json" not in server.objects
    assert not [*(tmp_path / "staging").iterdir()]


def _tile_of(server):
    return next(name for name in sorted(server.objects) if "/X/c/1/" in name)


def test_damage_is_told_as_of_files(server):
    store = made("s3://bucket/damaged.zarr")
    name = _tile_of(server)
    content = server.objects[name][0]
    server.put(name, content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    with refused(CorruptStoreError, "damaged-stores", naming=["1"]):
        store.read(slice(None))
    assert len(store.verify()) == 1
    server.put(name, content[:-40])
    with refused(CorruptStoreError, "damaged-stores", naming=["wrong"]):
        daskfs.open_store("s3://bucket/damaged.zarr").read(slice(None))
    del server.objects[name]
    with refused(CorruptStoreError, "damaged-stores", naming=["1"]):
        daskfs.open_store("s3://bucket/damaged.zarr").read(slice(None))
    assert "missing" in verify_store("s3://bucket/damaged.zarr")[0]


def test_a_tile_of_another_store_is_told(server):
    store = made("s3://bucket/exchanged.zarr")
    names = [name for name in sorted(server.objects) if "/X/c/" in name]
    server.put(names[0], server.objects[names[1]][0])
    with refused(CorruptStoreError, "damaged-stores"):
        store.read(slice(None))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_an_upload_that_failed_begins_again_without_the_rest(server, tmp_path, monkeypatch, kind):
    from daskfs.sources import parts

    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 4096)
    monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "1")
    rows = range(4000)
    text = {
        "dense": "a,b,y\n" + "".join(f"{k % 7}.5,{k % 11},{k % 5}\n" for k in rows),
        "sparse": "".join(f"{k % 3} 1:{k % 7} 2:{k % 11}\n" for k in rows),
    }[kind]
    source, options = tmp_path / ("a.csv" if kind == "dense" else "a.svm"), {"target": "y"} if kind == "dense" else {}
    source.write_text(text)
    expected = daskfs.ingest(source, tmp_path / "x.zarr", **options)
    with monkeypatch.context() as patch:
        patch.setattr("daskfs.store.published._batches", lambda sizes: server.faults.update({"500": 1.0}) or [[*sizes]])
        with refused(StorageError, "object-stores"):
            daskfs.ingest(source, "s3://bucket/x.zarr", **options)
    server.faults = {}
    monkeypatch.setattr(parts, "encode_part", lambda *_: pytest.fail("encoded again"))
    found = daskfs.ingest(source, "s3://bucket/x.zarr", **options)
    assert found.digest == expected.digest
    assert found.verify() == []
    assert not [*(tmp_path / "staging").iterdir()]


def test_a_store_without_a_manifest_is_unfinished_by_name(server):
    store = made("s3://bucket/x.zarr")
    manifest = server.objects.pop("bucket/x.zarr/manifest.json")
    assert not store.exists()
    with refused(StoreFormatError, "store-format", naming=["manifest.json"]):
        daskfs.open_store("s3://bucket/x.zarr")
    server.put("bucket/x.zarr/writer.lock", b"{}")
    with refused(StoreFormatError, "store-format", naming=["unfinished"]):
        daskfs.open_store("s3://bucket/x.zarr")
    server.objects["bucket/x.zarr/manifest.json"] = manifest
    assert store.exists()
    daskfs.open_store("s3://bucket/x.zarr")


def test_a_store_is_never_overwritten_and_reused_where_it_is_the_same(server):
    store = made("s3://bucket/x.zarr")
    n_put = server.seen["PUT"]
    assert made("s3://bucket/x.zarr").digest == store.digest
    assert server.seen["PUT"] == n_put
    with refused(StoreExistsError, "store-exists", naming=["exists"]):
        made("s3://bucket/x.zarr", random_state=1)
    server.put("bucket/y.zarr/something", b"1")
    with refused(StoreExistsError, "store-exists", naming=["exists"]):
        made("s3://bucket/y.zarr")


def test_who_writes_is_told_and_a_dead_writer_is_taken_over(server, tmp_path):
    from daskfs.files import LockOwner

    parent = psutil.Process(os.getppid())
    living = LockOwner.this_process()._replace(pid=parent.pid, started=parent.create_time())
    server.put("bucket/x.zarr/writer.lock", living.to_text().encode())
    with refused(StoreExistsError, "store-exists", naming=[str(living.pid)]):
        made("s3://bucket/x.zarr")
    server.put("bucket/x.zarr/writer.lock", living._replace(host="elsewhere").to_text().encode())
    with refused(StoreExistsError, "store-exists", naming=["elsewhere"]):
        made("s3://bucket/x.zarr")
    server.put("bucket/x.zarr/writer.lock", living._replace(started=1.0).to_text().encode())
    server.put("bucket/x.zarr/X/c/9/9", b"of the dead")
    store = made("s3://bucket/x.zarr")
    assert any("took over" in note for note in store.notes)
    assert store.verify() == []
    assert not {"bucket/x.zarr/writer.lock", "bucket/x.zarr/X/c/9/9"} & server.objects.keys()
    assert not [*(tmp_path / "staging").iterdir()]


def test_of_two_writers_one_publishes(server, monkeypatch):
    from daskfs.store import published

    publish = published.PublishedStore._refuse_stolen

    def meanwhile(self):
        publish(self)
        server.put("bucket/x.zarr/manifest.json", b"of another")

    monkeypatch.setattr(published.PublishedStore, "_refuse_stolen", meanwhile)
    with refused(StoreExistsError, "store-exists", naming=["overwritten"]):
        made("s3://bucket/x.zarr")
    assert server.objects["bucket/x.zarr/manifest.json"][0] == b"of another"


def test_what_fails_leaves_nothing_behind(server, tmp_path):
    bad = DENSE.copy()
    bad[N - 1, 5] = np.nan
    with refused(daskfs.DaskfsError, "values", at="column 'x5', row 4999", naming=["x5"]):
        daskfs.ingest(bad, "s3://bucket/x.zarr", y=Y)
    assert not server.objects
    assert not [*(tmp_path / "staging").iterdir()]


def test_nothing_is_ingested_over_http(server):
    with refused(StoreError, "stores", naming=["HTTP"]):
        made(f"{server.url}/bucket/x.zarr")


def test_what_is_on_its_way_is_a_term_of_the_plan(server, tmp_path):
    store, local = made("s3://bucket/x.zarr"), made(tmp_path / "x.zarr")
    assert (store.ahead_nbytes, local.ahead_nbytes) == (ahead_nbytes(), 0)
    selector = daskfs.FGM(n_features_to_select=3)
    plan = selector.plan(N, P, "float32", 2**30, tile_shape=store.tile_shape, ahead_nbytes=store.ahead_nbytes)
    assert plan.task.terms["requests in flight"] == ahead_nbytes()
    with refused(daskfs.DaskfsError, "memory-limit", at="memory_limit", naming=["requests"]):
        selector.plan(N, P, "float32", ahead_nbytes() + 1000, tile_shape=store.tile_shape, ahead_nbytes=ahead_nbytes())


def test_rows_that_are_read_few_at_a_time_are_asked_for_once_and_ahead(server):
    store = made("s3://bucket/few.zarr")
    server.latency_s, before = 0.01, server.seen["GET"]
    n_down, n_across = store.tiles.grid_shape
    for start in range(0, N, 128):
        np.testing.assert_array_equal(
            store.read(slice(start, start + 128)), DENSE[store.source_rows[start : start + 128]]
        )
        if start == 5 * 128:  # the rows of tiles 0, 1 and, ahead, 2
            end = time.monotonic() + 60.0
            while server.seen["GET"] - before < 3 * n_across and time.monotonic() < end:
                time.sleep(0.001)
            assert server.seen["GET"] - before >= 3 * n_across
    assert server.seen["GET"] - before == n_down * n_across + 1  # and source_rows


def test_storage_options_travel_and_the_environment_does_not(server, monkeypatch):
    options = {"endpoint": server.url, "access_key_id": "tests", "secret_access_key": "hidden", "region": "us-east-1"}
    made("s3://bucket/x.zarr")
    for name in server.environment:
        monkeypatch.delenv(name)
    store = daskfs.open_store("s3://bucket/x.zarr", storage_options=options)
    sent = pickle.dumps(store)
    assert b"hidden" in sent
    assert pickle.loads(sent).digest == store.digest
    assert "hidden" not in f"{store!r} {store.path} {store.info()} {store._repr_html_()}"
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    assert b"not-so-secret" not in pickle.dumps(daskfs.open_store("s3://bucket/x.zarr"))


def test_what_is_read_next_is_what_came_after_such_a_step_the_last_time(server):
    files, columns = made("s3://bucket/steps.zarr").tiles._files, [0, 1, 2]

    def foreseen(*rows):
        found = files._next([*rows], columns)[0]
        return [*found]

    assert [foreseen(0), foreseen(0, 1), foreseen(1), foreseen(2)] == [[], [2, 3], [2, 3], [3]]  # on and on
    for first in (6, 4, 0):  # two and two, in any order, in reads that are not as high as a tile
        before = [foreseen(first), foreseen(first, first + 1), foreseen(first + 1)]
    assert before == [[1], [], []]
    assert foreseen(8) == [9]


def test_a_few_rows_of_more_tiles_than_there_is_room_for_hold_on_to_most_of_them():
    from daskfs.objects.ahead import MemoryBudget, Part
    from daskfs.objects.path import ObjectPath

    def parts(n):
        return [Part(ObjectPath.of(f"memory://a/{k}"), most_nbytes=4) for k in range(n)]

    assert MemoryBudget(40).first_of(parts(10)) == parts(10)
    assert MemoryBudget(40).first_of(parts(11)) == parts(11)[:7]
    assert MemoryBudget(40).first_of([]) == []
