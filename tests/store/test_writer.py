from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from daskfs.errors import DataError, PlanError, StoreError, StoreExistsError, StoreFormatError
from daskfs.matrix.blocks import RowBlock
from daskfs.store.band_writer import BandWriter
from daskfs.store.dense_runs import DenseFiles
from daskfs.store.feature_store import open_store
from daskfs.store.row_sorter import RowSorter
from daskfs.store.writer import StoreWriter
from tests.processes import Process
from tests.refusals import refused

KIBI = 1024


def write_rows(writer, X):
    for start in range(0, len(X), 100):
        writer.write(RowBlock(start, min(start + 100, len(X)), X[start : start + 100]))


@pytest.fixture
def spilled(monkeypatch):
    """Names of the runs that were written."""
    found = []
    write = DenseFiles.write

    def recorded(self, name, *rows):
        found.append(name)
        write(self, name, *rows)

    monkeypatch.setattr(DenseFiles, "write", recorded)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 37, 300])
@pytest.mark.parametrize("memory_limit", [16 * KIBI, 40 * KIBI, 2**30])
@pytest.mark.parametrize("n_samples", [None, 300])
def test_the_row_order_depends_on_the_seed_alone(make_store, matrix, batch, memory_limit, n_samples, spilled):
    store = make_store(
        matrix, matrix[:, 0], batch=batch, memory_limit=memory_limit, n_samples=n_samples, random_state=5
    )
    expected = np.argsort(np.random.default_rng(5).random(300), kind="stable")
    assert bool(spilled) == (memory_limit < 2**30)
    np.testing.assert_array_equal(store.source_rows, expected)
    np.testing.assert_array_equal(store.read(slice(None)), matrix[expected])
    np.testing.assert_array_equal(store.target, matrix[expected, 0])
    assert not (store.path / "rows").exists()


@pytest.mark.parametrize("memory_limit", [16 * KIBI, 2**30])
@pytest.mark.parametrize("n_samples", [None, 300])
def test_rows_keep_their_order_unless_shuffled(make_store, matrix, memory_limit, n_samples):
    store = make_store(matrix, memory_limit=memory_limit, n_samples=n_samples, shuffle=False)
    assert not store.shuffled
    assert store.source_rows is None
    np.testing.assert_array_equal(store.read(slice(None)), matrix)


def test_a_drawn_seed_is_kept(make_store, matrix):
    store = make_store(matrix, random_state=None)
    seed = store.header.random_state
    np.testing.assert_array_equal(store.source_rows, np.argsort(np.random.default_rng(seed).random(300)))


def test_a_buffer_may_be_used_again(make_store, tmp_path, matrix):
    buffer, target = np.empty((100, 70), np.float32), np.empty(100)
    with StoreWriter(tmp_path / "s.zarr", 70, shuffle=False, target_names=["y"], source={}) as writer:
        for start in range(0, 300, 100):
            buffer[:] = matrix[start : start + 100]
            target[:] = start
            writer.write(RowBlock(start, start + 100, buffer, target))
    store = open_store(tmp_path / "s.zarr")
    np.testing.assert_array_equal(store.read(slice(None)), matrix)
    np.testing.assert_array_equal(store.target, np.repeat([0.0, 100.0, 200.0], 100))


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (np.nan, "float32", "column 'x3', row 205: expected a number, found NaN"),
        (np.inf, "float32", "column 'x3', row 205: expected a finite number, found inf"),
        (1e300, "float32", "column 'x3', row 205: 1e\\+300 is too large for float32; choose dtype float64"),
        (0.5, "int8", "column 'x3', row 205: expected a whole number from -128 to 127 for int8, found 0.5"),
        (128.0, "int8", "row 205: expected a whole number from -128 to 127 for int8, found 128.0"),
        (-129.0, "int8", "found -129.0"),
        (np.nan, "int8", "found NaN"),
    ],
)
def test_values_that_do_not_fit_are_named_and_nothing_is_left(make_store, tmp_path, value, dtype, message):
    X = np.zeros((300, 5))
    X[205, 3] = value
    with pytest.raises(DataError, match=message):
        make_store(X, dtype=dtype)
    assert list(tmp_path.iterdir()) == []


def test_integers_out_of_range_are_refused_and_in_range_kept(make_store):
    X = np.array([[-128, 127], [0, 1]])
    np.testing.assert_array_equal(make_store(X, dtype="int8", shuffle=False).read(slice(None)), X)
    with refused(DataError, "values", at="column 'x1', row 0", naming=["128"]):
        make_store(X + 1, dtype="int8")
    with refused(DataError, "values", at="column 'x0', row 0"):
        make_store(np.array([[2.0**63]]), dtype="int64")
    with refused(DataError, "values", at="column 'x0', row 0", naming=["1"]):
        make_store(np.array([[-1]]), dtype="uint8")


def test_missing_values_may_stay_when_asked(make_store, matrix):
    matrix[7, 3] = np.nan
    store = make_store(matrix, shuffle=False, allow_missing=True)
    np.testing.assert_array_equal(store.read(slice(None)), matrix)
    assert store.n_missing.tolist() == [int(j == 3) for j in range(70)]
    assert store.info()["n_missing"] == 1
    matrix[7, 3] = np.inf
    with refused(DataError, "values", at="column 'x3', row 7", naming=["inf"]):
        make_store(matrix, allow_missing=True)


def test_targets_and_weights_are_checked(make_store, matrix):
    y = np.zeros(300)
    y[250] = np.nan
    with refused(DataError, "values", at="target 'price', row 250", naming=["nan"]):
        make_store(matrix, y, target_names=["price"])
    weight = np.ones(300)
    weight[10] = -1
    with refused(DataError, "values", at="weight, row 10", naming=["0", "1"]):
        make_store(matrix, weight=weight)
    with refused(DataError, "shapes", naming=["targets"]):
        make_store(matrix, target_names=["y"])
    with refused(DataError, "shapes", at="target 'y'", naming=["columns"]):
        make_store(matrix, np.zeros((300, 2)), target_names=["y"])
    with refused(DataError, "shapes", at="labels 's'", naming=["100"]):
        make_store(matrix, labels={"s": np.array(["a"] * 299)})


def test_names_must_be_unique_and_as_many_as_columns(make_store, matrix):
    with refused(DataError, "values", at="feature_names", naming=["'a'", "70"]):
        make_store(matrix, feature_names=["a"] * 70)
    with refused(DataError, "values", at="feature_names", naming=["70", "1"]):
        make_store(matrix, feature_names=["a"])


def test_blocks_must_come_in_order_and_be_as_many_as_said(make_store, tmp_path, matrix):
    with (
        refused(DataError, "shapes", naming=["0", "5"]),
        StoreWriter(tmp_path / "s.zarr", 70, source={}) as writer,
    ):
        writer.write(RowBlock(5, 10, matrix[5:10]))
    with refused(DataError, "shapes", naming=["301", "300"]):
        make_store(matrix, n_samples=301)
    with refused(DataError, "shapes", naming=["299", "300"]):
        make_store(matrix, n_samples=299, shuffle=False)
    with (
        refused(DataError, "shapes", naming=["70"]),
        StoreWriter(tmp_path / "s.zarr", 70, source={}) as writer,
    ):
        writer.write(RowBlock(0, 5, matrix[:5, :3]))
    assert list(tmp_path.iterdir()) == []


def test_a_refused_block_cannot_be_ignored(tmp_path, matrix):
    with (
        refused(StoreError, "stores", naming=["refused"]),
        StoreWriter(tmp_path / "s.zarr", 70, source={}) as writer,
        pytest.raises(DataError),
    ):
        writer.write(RowBlock(0, 300, matrix * np.nan))
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_for_rows_is_refused(make_store, matrix):
    with refused(PlanError, "memory-limit", at="memory_limit", naming=["2,240"]):
        make_store(matrix, memory_limit=1000)


def test_nothing_is_overwritten(make_store, matrix, tmp_path):
    store = make_store(matrix)
    for path in (store.path, tmp_path / "file.zarr", tmp_path / "folder.zarr"):
        if path.name == "file.zarr":
            path.write_text("precious")
        if path.name == "folder.zarr":
            path.mkdir()
        with (
            refused(StoreExistsError, "store-exists", naming=["exists"]),
            StoreWriter(path, 70, source={}),
        ):
            pass
    assert store.verify() == []
    assert (tmp_path / "file.zarr").read_text() == "precious"


def test_a_missing_parent_folder_is_said(tmp_path):
    with (
        refused(StoreError, "stores", naming=["create"]),
        StoreWriter(tmp_path / "no" / "s.zarr", 70, source={}),
    ):
        pass


@pytest.mark.parametrize("fault", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("memory_limit", [16 * KIBI, 2**30])
def test_a_failure_in_the_middle_leaves_nothing(tmp_path, matrix, fault, memory_limit):
    def interrupt(writer):
        write_rows(writer, matrix[:200])
        raise fault

    with pytest.raises(fault), StoreWriter(tmp_path / "s.zarr", 70, source={}, memory_limit=memory_limit) as writer:
        interrupt(writer)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["rows", "tiles"])
def test_a_full_disk_is_said_and_leaves_nothing(make_store, matrix, tmp_path, monkeypatch, place):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    owner, name = (RowSorter, "end_run") if place == "rows" else (BandWriter, "end_band")
    monkeypatch.setattr(owner, name, full)
    with pytest.raises(StoreError, match=r"the disk is full .*; [\d,]+ bytes are needed.*free disk space"):
        make_store(matrix, memory_limit=16 * KIBI)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_too_small_is_refused_before_reading(make_store, matrix, tmp_path, monkeypatch):
    usage = type("usage", (), {"free": 1000})
    monkeypatch.setattr("daskfs.store.writer.shutil.disk_usage", lambda _: usage)
    with refused(StoreError, "stores", naming=["1,000"]):
        make_store(matrix, memory_limit=16 * KIBI, n_samples=300)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
import numpy as np
from daskfs.matrix.blocks import RowBlock
from daskfs.store.writer import StoreWriter
with StoreWriter(sys.argv[1], 70, source={}, memory_limit=16 * 1024) as writer:
    writer.write(RowBlock(0, 200, np.ones((200, 70))))
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    print("ready", flush=True)
    sys.stdin.read()
"""


def run_writer(path, what):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return Process(
        [sys.executable, "-c", KILLED, str(path), what],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_after_a_kill_the_rest_is_refused_and_cleaned_up(tmp_path, matrix):
    path = tmp_path / "s.zarr"
    with run_writer(path, "kill") as process:
        assert process.wait() == -signal.SIGKILL
    unfinished = tmp_path / "s.zarr.unfinished"
    assert unfinished.is_dir()
    for place in (path, unfinished):
        with refused(StoreFormatError, "store-format", naming=["unfinished"]):
            open_store(place)
    with StoreWriter(path, 70, source={}) as writer:
        write_rows(writer, matrix)
    store = open_store(path)
    assert list(tmp_path.iterdir()) == [path]
    assert f"left by process {process.pid}" in store.notes[0]
    assert store.verify() == []


@pytest.mark.slow
def test_two_writers_do_not_meet(tmp_path):
    path = tmp_path / "s.zarr"
    with run_writer(path, "wait") as process:
        assert process.stdout.readline() == "ready\n"
        with (
            refused(StoreExistsError, "store-exists", naming=[str(process.pid)]),
            StoreWriter(path, 70, source={}),
        ):
            pass
        process.stdin.close()
        assert process.wait() == 0
    assert open_store(path).shape == (200, 70)


def test_the_rest_of_another_host_is_not_touched(tmp_path):
    unfinished = tmp_path / "s.zarr.unfinished"
    unfinished.mkdir()
    lock = unfinished / "writer.lock"
    lock.write_text(json.dumps({"pid": 1, "host": socket.gethostname() + "-2", "started": 1.7e9}))
    with (
        refused(StoreExistsError, "store-exists", naming=["host"]),
        StoreWriter(tmp_path / "s.zarr", 70, source={}),
    ):
        pass
    lock.write_text("not json")
    with refused(StoreExistsError, "store-exists", naming=["hand"]), StoreWriter(tmp_path / "s.zarr", 70, source={}):
        pass
    assert lock.exists()


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(errno.ENOSPC, "no space left on device")])
def test_what_zarrs_threads_write_after_a_failed_write_is_removed_too(tmp_path, fault):
    """Zarr makes the folders of its files, and a chunk that fails does not stop those that are being written."""
    path, chunk = tmp_path / "s.zarr", tmp_path / "s.zarr.unfinished" / "X" / "c" / "0"

    def write_late():
        for _ in range(3000):
            if not chunk.parents[2].exists():
                break
            time.sleep(0.001)
        chunk.parent.mkdir(parents=True)
        chunk.write_bytes(b"late")

    def fail():
        with StoreWriter(path, 70, source={}):
            late.start()
            raise fault

    late = threading.Thread(target=write_late)
    with pytest.raises((KeyboardInterrupt, StoreError)):
        fail()
    late.join()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_threads", [0, 2, 100])
def test_all_files_are_on_disk_before_the_store_has_its_name(tmp_path, matrix, monkeypatch, n_threads):
    path, flushed, left, start = tmp_path / "s.zarr", set(), [n_threads], threading.Thread.start

    def start_some(thread):
        if thread.name.startswith("daskfs-sync"):
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("can't start new thread")
        start(thread)

    def flush(descriptor):
        if not path.exists():
            flushed.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr("os.fsync", flush)
    monkeypatch.setattr("threading.Thread.start", start_some)
    with StoreWriter(path, 70, source={}) as writer:
        write_rows(writer, matrix)
    assert {written.stat().st_ino for written in path.rglob("*")} <= flushed


def test_a_file_that_cannot_be_flushed_leaves_no_store(tmp_path, matrix, monkeypatch):
    path, count = tmp_path / "s.zarr", iter(range(100))

    def flush(_):
        if next(count) == 3:
            raise OSError(errno.EIO, "Input/output error")

    def fails():
        with StoreWriter(path, 70, source={}) as writer:
            write_rows(writer, matrix)
            monkeypatch.setattr("os.fsync", flush)

    with pytest.raises(OSError, match="Input/output"):
        fails()
    assert list(tmp_path.iterdir()) == []
