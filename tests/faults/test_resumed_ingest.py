"""Ingests that are killed, interrupted or lose their cluster go on with what was done, to the same store; full disks
and rivals are told of."""

from __future__ import annotations

import errno
import importlib
import math
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

import daskfs
from daskfs.errors import DataError, RunError, StorageError, StoreError, StoreExistsError
from daskfs.files import LockOwner
from daskfs.sources import parts as ingest_parts
from daskfs.store.manifest import LOCK
from daskfs.store.sparse import writer
from daskfs.store.sparse.entry_runs import EntryFiles
from daskfs.store.unfinished import KeptSteps
from tests.faults.kills import command
from tests.faults.storms import environment
from tests.refusals import refused

LINE = "{0} '{1} |words w{2}:{3} w{4} |other o{2} p{5}:0.5\n"
TEXT = "".join(LINE.format(1 if k % 3 else -1, k, k % 17, k % 5 + 1, k % 29 + 20, k % 11 + 3) for k in range(1500))
CSV = "a,b,c,y\n" + "".join(f"{k},{k % 7}.5,{'uvw'[k % 3]},{k % 11}\n" for k in range(9000))
MOMENTS = {"step": 24, "sparse rows": 18, "sparse chunk": 30, "sparse name": 2}
"""How often each comes, about."""


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 4096)
    (tmp_path / "a.vw").write_text(TEXT)
    return tmp_path / "a.vw"


@pytest.fixture(params=["sparse", "dense"])
def either(request, tmp_path, monkeypatch):
    """A source and the options of its ingest."""
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 4096)
    monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)
    name, text = {"sparse": ("a.vw", TEXT), "dense": ("a.csv", CSV)}[request.param]
    (tmp_path / name).write_text(text)
    return tmp_path / name, {} if request.param == "sparse" else {"target": "y"}


def contents(path):
    """Return the bytes of every file of a store."""
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def same(path, expected, but):
    """Whether two stores have the same files, but for some that tell of them."""
    one, two = contents(path), contents(expected)
    return one.keys() == two.keys() and all(one[name] == two[name] for name in one.keys() - but)


def points(seed, n):
    rng = random.Random(seed)
    return [(moment, rng.randint(1, MOMENTS[moment])) for moment in rng.choices(list(MOMENTS), k=n)]


def steps_of(folder):
    return {path.name for path in (folder / "rows").glob("ingest-encode-*.json")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "at"),
    [
        ("step", 6),
        ("sparse chunk", 9),
        *(pytest.param(*point, marks=pytest.mark.nightly) for point in points(16, 20)),
    ],
)
def test_an_ingest_that_is_killed_goes_on_to_the_same_store(either, tmp_path, monkeypatch, moment, at):
    source, options = either
    whole = daskfs.ingest(source, tmp_path / "whole.zarr", **options)
    named = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = command(tmp_path, "ingest", source, "s.zarr", *named, moment=moment, at=at, how=signal.SIGKILL)
    unfinished = tmp_path / "s.zarr.unfinished"
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    if done.returncode == 0 or (tmp_path / "s.zarr").exists():
        assert contents(tmp_path / "s.zarr") == contents(whole.path)
        return
    kept = steps_of(unfinished) if "ingest-encode-0.json" in steps_of(unfinished) else set()
    unfinished_at_all, encoded = unfinished.exists(), encodes(monkeypatch)
    store = daskfs.ingest(source, tmp_path / "s.zarr", **options)
    told = {"zarr.json", "manifest.json"} if any("left by process" in note for note in store.notes) else set()
    assert bool(told) == (unfinished_at_all and not kept)  # nothing could be gone on from, and it says so
    assert same(store.path, whole.path, but=told)
    assert len(kept) + len(encoded) == len(parts_of(source)) + 1
    assert not store.verify()
    seen = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert seen == {source.name, "s.zarr", "whole.zarr"}  # of a folder that had no name yet only its lock is left


def parts_of(source):
    from daskfs.sources.registry import as_source

    target = "y" if source.suffix == ".csv" else None
    return as_source(source, target=target, schema=None, weight=None, names=None, y=None, options={}).parts()


def left_behind(source, path, monkeypatch, at=5, **options):
    """Begin an ingest, and leave what it has after so many parts, as if its process were dead."""
    encode, n_left = ingest_parts.encode_part, [at]

    def dies(*args):
        n_left[0] -= 1
        if n_left[0] < 0:
            raise Dead
        return encode(*args)

    with monkeypatch.context() as patch:
        patch.setattr(ingest_parts, "encode_part", dies)
        patch.setattr("daskfs.store.unfinished.UnfinishedStore.remove", lambda site: None)
        with pytest.raises(Dead):
            daskfs.ingest(source, path, **options)
    unfinished = path.with_name(path.name + ".unfinished")
    owner = LockOwner.this_process()
    (unfinished / LOCK).write_text(owner._replace(pid=2**22 + 1).to_text())
    return unfinished


class Dead(BaseException):
    pass


def encodes(monkeypatch):
    encoded, encode = [], ingest_parts.encode_part
    monkeypatch.setattr(ingest_parts, "encode_part", lambda *args: encoded.append(args[-1]) or encode(*args))
    return encoded


def test_parts_that_are_done_are_not_encoded_again(either, tmp_path, monkeypatch):
    source, options = either
    whole = daskfs.ingest(source, tmp_path / "whole.zarr", **options)
    left_behind(source, tmp_path / "s.zarr", monkeypatch, **options)
    encoded = encodes(monkeypatch)
    store = daskfs.ingest(source, tmp_path / "s.zarr", **options)
    assert len(encoded) == len(parts_of(source)) + 1 - 5
    assert contents(store.path) == contents(whole.path)


@pytest.mark.parametrize(
    "fault", [RunError("the workers died 4 times"), KeyboardInterrupt(), StorageError("it did not answer"), OSError(5)]
)
def test_an_ingest_that_lost_its_cluster_or_was_interrupted_goes_on(either, tmp_path, monkeypatch, fault):
    source, options = either
    whole = daskfs.ingest(source, tmp_path / "whole.zarr", **options)
    with monkeypatch.context() as patch:
        counted("sources.parts.encode_part", patch, 5, fault)
        with pytest.raises(type(fault)) as caught:
            daskfs.ingest(source, tmp_path / "s.zarr", **options)
    unfinished = tmp_path / "s.zarr.unfinished"
    assert f"kept in {unfinished}; the same ingest or run continues" in caught.value.__notes__[-1]
    owner = LockOwner.of(unfinished / LOCK)
    (unfinished / LOCK).write_text(owner._replace(host="another", pid=1).to_text())  # whose disk this is, too
    encoded = encodes(monkeypatch)
    store = daskfs.ingest(source, tmp_path / "s.zarr", **options)
    assert len(encoded) == len(parts_of(source)) + 1 - 5
    assert contents(store.path) == contents(whole.path)
    assert not unfinished.exists()


STEPS = {
    "sparse": [
        "sources.parts.encode_part",
        *(f"store.sparse.writer.{name}" for name in ("sort_entry_run", "encode_group", "sum_columns")),
    ],
    "dense": ["sources.parts.encode_part", "store.writer.sort_dense_run", "store.writer.store_bands"],
}


def counted(name, monkeypatch, most=math.inf, fault=None):
    """Count calls of a step; it fails after so many."""
    module, _, attribute = f"daskfs.{name}".rpartition(".")
    step, done = getattr(importlib.import_module(module), attribute), []

    def counting(*args):
        if len(done) >= most:
            raise fault or RunError("the workers died 4 times")
        done.append(str(args[-1]))
        return step(*args)

    monkeypatch.setattr(f"{module}.{attribute}", counting)
    return done


@pytest.mark.parametrize(
    ("kind", "stage", "most"),
    [("sparse", 1, 3), ("sparse", 2, 0), ("sparse", 3, 0), ("raw", 1, 3), ("raw", 2, 2), ("lz4", 2, 2)],
)
def test_no_step_of_any_stage_is_done_again(tmp_path, monkeypatch, kind, stage, most):
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 4096)
    monkeypatch.setattr("daskfs.sources.csv_records.WORTH_COMPILING_NBYTES", 0)
    is_sparse = kind == "sparse"
    source, steps = tmp_path / ("a.vw" if is_sparse else "a.csv"), STEPS["sparse" if is_sparse else "dense"]
    source.write_text(TEXT if is_sparse else CSV)
    options = {} if is_sparse else {"target": "y", "tile_shape": (1000, 2), "codec": kind}
    whole = daskfs.ingest(source, tmp_path / "whole.zarr", **options)
    (tmp_path / "here").mkdir()
    with monkeypatch.context() as patch:
        done = counted(steps[stage], patch, most)
        with pytest.raises(RunError):
            daskfs.ingest(source, tmp_path / "here" / "s.zarr", **options)
    (tmp_path / "here").rename(tmp_path / "there")  # as another machine may see it
    again = [counted(step, monkeypatch) for step in steps]
    store = daskfs.ingest(source, tmp_path / "there" / "s.zarr", **options)
    assert not any(again[:stage])
    assert again[stage]
    assert not {*again[stage]} & {*done}
    assert contents(store.path) == contents(whole.path)
    assert not store.verify()


@pytest.mark.parametrize("n_done", [1, 5])
def test_nothing_is_left_of_an_ingest_that_was_refused_or_had_just_begun(either, tmp_path, monkeypatch, n_done):
    source, options = either
    fault = RunError("the workers died") if n_done == 1 else DataError("NaN", "row 7")
    counted("sources.parts.encode_part", monkeypatch, n_done, fault)
    with pytest.raises(type(fault)):
        daskfs.ingest(source, tmp_path / "s.zarr", **options)
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def test_parts_are_not_kept_without_the_description_that_another_process_needs(tmp_path):
    steps = KeptSteps(tmp_path)
    steps.begin({})
    for number, has_some in ((1, False), (2, False), (0, True)):
        (tmp_path / f"ingest-encode-{number}.json").touch()
        assert steps.has_some == has_some


def test_an_ingest_of_a_lost_host_goes_on_as_the_error_says(either, tmp_path, monkeypatch):
    source, options = either
    lock = left_behind(source, tmp_path / "s.zarr", monkeypatch, **options) / LOCK
    lock.write_text(LockOwner.of(lock)._replace(host="another").to_text())
    with refused(StoreExistsError, "store-exists", naming=["another", f"remove {lock.name} from it to continue"]):
        daskfs.ingest(source, tmp_path / "s.zarr", **options)
    lock.unlink()
    encoded = encodes(monkeypatch)
    store = daskfs.ingest(source, tmp_path / "s.zarr", **options)
    assert len(encoded) == len(parts_of(source)) + 1 - 5
    assert not store.verify()


@pytest.mark.parametrize("change", ["source", "settings", "damage", "memory"])
def test_what_another_ingest_has_begun_is_not_gone_on_from(either, tmp_path, monkeypatch, change):
    source, options = either
    unfinished = left_behind(source, tmp_path / "s.zarr", monkeypatch, **options)
    if change == "source":
        source.write_text(source.read_text().replace("w3", "v3").replace("3.5,", "9.5,"))
    elif change == "settings":
        options["random_state"] = 5
    elif change == "memory":
        options["memory_limit"] = "900MiB"
    else:
        damaged = sorted((unfinished / "rows").glob("0-1-*.features" if source.suffix == ".vw" else "0-1-0"))[0]
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x7f")
    encoded = encodes(monkeypatch)
    store = daskfs.ingest(source, tmp_path / "s.zarr", **options)
    n_parts = len(parts_of(source)) + 1
    assert len(encoded) == (n_parts - 4 if change == "damage" else n_parts)
    whole = daskfs.ingest(source, tmp_path / "whole.zarr", **options)
    assert contents(store.path / "X") == contents(whole.path / "X")


def test_a_full_disk_is_told_and_leaves_nothing(source, tmp_path, monkeypatch):
    write, n_left = EntryFiles.write, [3]

    def full(*args):
        n_left[0] -= 1
        if n_left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(*args)

    monkeypatch.setattr(EntryFiles, "write", full)
    with refused(StoreError, "stores", at="s.zarr", naming=["full"]):
        daskfs.ingest(source, tmp_path / "s.zarr")
    monkeypatch.setattr(EntryFiles, "write", write)
    monkeypatch.setattr(writer, "write_files", lambda *args: full())
    with refused(StoreError, "stores", at="s.zarr", naming=["full"]):
        daskfs.ingest(source, tmp_path / "s.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["a.vw"]


def test_two_ingests_to_one_path_do_not_meet(source, tmp_path, monkeypatch):
    encode, told = ingest_parts.encode_part, []

    def rival(*args):
        with monkeypatch.context() as patch:
            patch.setattr(ingest_parts, "encode_part", encode)
            with refused(StoreExistsError, "store-exists", naming=["writing"]) as caught:
                daskfs.ingest(source, tmp_path / "s.zarr")
        told.append(caught)
        return encode(*args)

    monkeypatch.setattr(ingest_parts, "encode_part", rival)
    store = daskfs.ingest(source, tmp_path / "s.zarr")
    assert len(told) > 3
    assert not store.verify()
    np.testing.assert_array_equal(store.target.shape, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("most", [2_000, 20_000])
def test_files_that_may_not_grow_are_told_as_a_full_disk(source, tmp_path, most):
    limit = f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); n = {most}"
    code = f"{limit}; resource.setrlimit(resource.RLIMIT_FSIZE, (n, n)); from daskfs.__main__ import main; main()"
    order = [sys.executable, "-W", "ignore", "-c", code, "ingest", str(source), "s.zarr"]
    done = subprocess.run(order, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, "the disk is full" in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*s.zarr*"))
