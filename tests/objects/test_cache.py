"""A folder of this machine that keeps what was fetched: asked for once, bounded, checked, and never trusted."""

import os
import threading

import numpy as np
import pytest
from sklearn.base import clone

import daskfs
from daskfs.errors import ConfigError, CorruptStoreError, StorageError
from daskfs.objects import cache
from tests.objects.test_stores import DENSE, made, sharded
from tests.refusals import refused

ROWS = np.random.default_rng(1).permutation(3000)[:300]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "cache"))
    cache._opened.cache_clear()
    return tmp_path / "cache"


def another_process(url):
    """Return a store as a process opens it that has read nothing yet."""
    cache._opened.cache_clear()
    return daskfs.open_store(url)


def copies_in(folder):
    return sorted((path for path in folder.rglob("*") if path.is_file() and path.name != cache._TALLY), key=str)


def n_asked(server, read):
    """Return what reading gives, and how many chunks were asked for."""
    asked = []
    server.gate = lambda path: asked.append(path) if "/c/" in path else None
    found = read()
    server.gate = lambda path: None
    return found, len(asked)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "lz4", "sharded", "sparse"])
def test_what_was_fetched_once_is_not_asked_for_again(server, folder, kind):
    url = f"s3://bucket/{kind}.zarr"
    first = sharded(url) if kind == "sharded" else made(url, kind)

    def read(store):
        return store.read(ROWS, slice(3, 77)), store.target, store.read(slice(None))

    before, n_first = n_asked(server, lambda: read(first))
    after, n_again = n_asked(server, lambda: read(another_process(url)))
    of_shards = [key for key in server.objects if kind in ("sharded", "sparse") and "/X/" in key and "/c/" in key]
    assert n_again <= 2 * len(of_shards) < n_first  # where tiles lie within a shard is asked for by each process
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_http_is_kept_too_and_memory_is_not(server, folder):
    made("s3://bucket/over.zarr")
    url = f"{server.url}/bucket/over.zarr"
    daskfs.open_store(url).read(slice(None))
    assert n_asked(server, lambda: another_process(url).read(slice(None)))[1] == 0
    n_copies = len(copies_in(folder))
    made("memory://cache/x.zarr").read(slice(None))
    assert len(copies_in(folder)) == n_copies


@pytest.mark.parametrize("harm", ["flipped", "short", "empty"])
def test_a_copy_that_a_crash_has_damaged_is_fetched_again(server, folder, harm):
    store = made("s3://bucket/harmed.zarr")
    store.read(slice(None))
    copy = max(copies_in(folder), key=lambda path: path.stat().st_size)
    content = copy.read_bytes()
    copy.write_bytes(
        {"flipped": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], "short": content[:-40]}.get(harm, b"")
    )
    found, n_again = n_asked(server, lambda: another_process("s3://bucket/harmed.zarr").read(slice(None)))
    np.testing.assert_array_equal(found, DENSE[store.source_rows])
    assert n_again == 1
    assert copy.read_bytes() == content


def test_a_copy_that_is_damaged_while_it_is_used_is_an_error_that_names_it(server, folder):
    store = made("s3://bucket/used.zarr")
    store.read(slice(None))
    another_process("s3://bucket/used.zarr").read(slice(None))
    store = daskfs.open_store("s3://bucket/used.zarr")
    copy = max(copies_in(folder), key=lambda path: path.stat().st_size)
    content = copy.read_bytes()
    copy.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    from daskfs.objects.ahead import prefetch_cache

    prefetch_cache().clear()
    with pytest.raises(CorruptStoreError, match=f"fails its checksum.*{copy.name}|{copy.name}.*fails its checksum"):
        store.read(slice(None))
    copy.unlink()
    np.testing.assert_array_equal(store.read(slice(None)), DENSE[store.source_rows])


def test_copies_of_a_store_that_was_written_anew_are_not_taken(server, folder):
    made("s3://bucket/anew.zarr").read(slice(None))
    for name in [name for name in server.objects if name.startswith("bucket/anew.zarr/")]:
        del server.objects[name]
    store = made("s3://bucket/anew.zarr", random_state=7)
    np.testing.assert_array_equal(store.read(slice(None)), DENSE[store.source_rows])


def test_what_lies_in_the_object_store_is_verified_and_not_its_copy(server, folder):
    store = made("s3://bucket/both.zarr")
    store.read(slice(None))
    name = next(name for name in sorted(server.objects) if "both.zarr/X/c/1/" in name)
    content = server.objects[name][0]
    server.put(name, content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    n_copies = len(copies_in(folder))
    assert len(store.verify()) == 1
    assert len(copies_in(folder)) == n_copies


@pytest.mark.slow
def test_the_bound_holds_and_what_is_idle_makes_room(server, folder, monkeypatch):
    nbytes = DENSE.nbytes // 2
    monkeypatch.setenv(cache.SIZE, str(nbytes / 2**30))

    def kept():
        return sum(path.stat().st_size for path in copies_in(folder))

    first = made("s3://bucket/first.zarr")
    threads = [threading.Thread(target=lambda: first.read(slice(None))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(first.read(slice(None)), DENSE[first.source_rows])
    before = copies_in(folder)
    assert 0.7 * nbytes < kept() <= nbytes
    second = made("s3://bucket/second.zarr", random_state=5)
    second.read(slice(None))
    assert copies_in(folder) == before  # the first one is not idle
    for one in folder.iterdir():
        os.utime(one, (1.0, 1.0))
    np.testing.assert_array_equal(
        another_process("s3://bucket/second.zarr").read(slice(None)), DENSE[second.source_rows]
    )
    assert 0.7 * nbytes < kept() <= nbytes
    assert not {*before} & {*copies_in(folder)}


def test_a_part_that_gets_its_name_while_it_is_counted_counts(tmp_path, monkeypatch):
    """Once in many runs the cache was larger than its bound by such a part."""
    (tmp_path / "0a1b").write_bytes(b"12345")
    (tmp_path / "0a2c").write_bytes(b"123")
    (tmp_path / ".0a3d.17.29").write_bytes(b"1")
    listed = [tmp_path / ".0a1b.17.28", tmp_path / "0a2c", tmp_path / ".0a3d.17.29", tmp_path / ".gone.1.2", tmp_path]
    monkeypatch.setattr(type(tmp_path), "rglob", lambda *_: iter(listed))
    assert cache._nbytes_in(tmp_path) == 5 + 3 + 1


def test_a_full_disk_ends_keeping_and_nothing_else(server, folder, monkeypatch):
    from pathlib import Path

    store = made("s3://bucket/full.zarr")

    def no_room(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", no_room)
    np.testing.assert_array_equal(store.read(slice(None)), DENSE[store.source_rows])
    assert not copies_in(folder)


def test_a_cache_is_declared_by_storage_options_and_travels(server, tmp_path):
    import pickle

    made("s3://bucket/option.zarr")
    options = {"cache": str(tmp_path / "here"), "cache_gib": 1}
    store = daskfs.open_store("s3://bucket/option.zarr", storage_options=options)
    pickle.loads(pickle.dumps(store)).read(slice(None))
    assert copies_in(tmp_path / "here")
    with refused(ConfigError, "object-stores", at="cache_gib or DASKFS_CACHE_GIB", naming=["GiB"]):
        daskfs.open_store("s3://bucket/option.zarr", storage_options={**options, "cache_gib": "much"}).target  # noqa: B018
    (tmp_path / "file").write_text("")
    with refused(StorageError, "object-stores", naming=["cannot"]):
        daskfs.open_store("s3://bucket/option.zarr", storage_options={"cache": str(tmp_path / "file")}).target  # noqa: B018


def test_a_store_is_opened_in_two_rounds_of_requests(server):
    made("s3://bucket/rounds.zarr")
    asked = []
    server.gate = asked.append
    daskfs.open_store("s3://bucket/rounds.zarr")
    assert asked[0].endswith("/manifest.json")
    assert len({*asked}) == len(asked)
    together = threading.Barrier(len(asked) - 1, timeout=20)
    server.gate = lambda path: None if path.endswith("/manifest.json") else together.wait()
    daskfs.open_store("s3://bucket/rounds.zarr")
    assert not together.broken


def test_statistics_are_asked_for_together(server):
    store = made("s3://bucket/statistics.zarr")
    together = threading.Barrier(5, timeout=20)
    server.gate = lambda path: together.wait() if "/var/" in path else None
    np.testing.assert_allclose(store.column_statistics().mean, DENSE.mean(axis=0), atol=1e-5)
    assert not together.broken


@pytest.mark.nightly
@pytest.mark.parametrize("with_cache", [False, True])
def test_worker_processes_select_from_objects_what_one_process_selects_from_files(
    server, tmp_path, monkeypatch, with_cache
):
    selectors = [
        daskfs.FGM(n_features_to_select=4, n_features_per_pass=1),
        daskfs.OnlineSubstitution(n_features_to_select=3, random_state=0),
        daskfs.Mission(n_features_to_select=3, random_state=0),
    ]
    local = [clone(one).fit(made(tmp_path / "x.zarr")) for one in selectors]
    store = made("s3://bucket/workers.zarr")
    server.latency_s = 0.002
    options = {"cache": str(tmp_path / "cache")} if with_cache else {}
    tiles = [name for name in server.objects if "/X/c/" in name]
    with daskfs.open_cluster("local", n_workers=2) as cluster:
        store = daskfs.open_store("s3://bucket/workers.zarr", storage_options=options)
        asked = []
        server.gate = lambda path: asked.append(path) if "/X/c/" in path else None
        for one, expected in zip(selectors, local, strict=True):
            found = clone(one).set_params(client=cluster.client).fit(store)
            np.testing.assert_array_equal(found.selected_, expected.selected_)
            np.testing.assert_array_equal(found.coef_, expected.coef_)
    if with_cache:
        assert len(tiles) <= len(asked) <= 3 * len(tiles)  # the client and two workers, at the same moment at worst
        assert len([path for path in copies_in(tmp_path / "cache") if path.stat().st_size > 10_000]) >= len(tiles)
