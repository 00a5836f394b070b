"""Stores that are no good, a full disk, places that cannot be written: each is named, nothing half-made is left."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.workshop import refused, table


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store as it should be."""
    from daskfs.sources.ingest import ingest

    folder = tmp_path_factory.mktemp("whole")
    (folder / "table.csv").write_text(table(120))
    return ingest(folder / "table.csv", folder / "s.zarr", target="y").path


def chunk(store, array="X"):
    """The file of an array's first chunk."""
    return next(path for path in sorted((store / array).rglob("*")) if path.is_file() and path.name != "zarr.json")


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


def change_header(store, **values):
    header = json.loads((store / "zarr.json").read_text())
    header["attributes"]["daskfs"].update(values)
    (store / "zarr.json").write_text(json.dumps(header))


def replace_by_file(store):
    shutil.rmtree(store)
    store.write_text("x")


def empty_folder(store):
    shutil.rmtree(store)
    store.mkdir()


NO_STORES = {
    "missing": (shutil.rmtree, ["s.zarr: ", "no such store", "check the path"]),
    "a file": (replace_by_file, ["s.zarr: not a feature store of daskfs", "ingest the source first"]),
    "an empty folder": (empty_folder, ["s.zarr: not a feature store of daskfs", "ingest the source first"]),
    "unfinished": (
        lambda s: s.rename(f"{s}.unfinished"),
        ["s.zarr: there is only an unfinished store", "ingest again"],
    ),
    "of a newer format": (lambda s: change_header(s, format_version=99), ["s.zarr: ", "format 99", "upgrade daskfs"]),
    "header broken": (lambda s: cut(s / "zarr.json"), ["s.zarr/zarr.json: ", "remove the store and ingest"]),
    "header changed": (
        lambda s: change_header(s, shape=[99, 3]),
        ["s.zarr/zarr.json: ", "remove the store and ingest"],
    ),
    "manifest lost": (
        lambda s: (s / "manifest.json").unlink(),
        ["s.zarr: manifest.json is missing", "remove the store"],
    ),
    "manifest broken": (lambda s: cut(s / "manifest.json"), ["s.zarr/manifest.json: ", "remove the store and ingest"]),
}
DAMAGES = {
    "chunk missing": ("X", Path.unlink, ["X/c/0/0: X chunk (0, 0) is missing", "remove the store and ingest"]),
    "chunk truncated": ("X", cut, ["X/c/0/0: X chunk (0, 0) has the wrong length", "remove the store and ingest"]),
    "bit flipped": ("X", flip, ["X/c/0/0: X chunk (0, 0) fails its checksum", "remove the store and ingest"]),
    "target missing": ("obs/y", Path.unlink, ["obs/y/c/0: obs/y chunk (0) is missing", "remove the store"]),
    "target flipped": ("obs/y", flip, ["obs/y/c/0: obs/y chunk (0) fails its checksum", "remove the store"]),
    "names flipped": ("var/feature", flip, ["var/feature chunk (0) fails its checksum", "remove the store"]),
    "order flipped": ("obs/sample", flip, ["obs/sample chunk (0) fails its checksum", "remove the store"]),
}


@pytest.fixture
def store(workshop, whole):
    """A copy of the store, and a pipeline over it."""
    workshop.pipeline(source=None, store={"path": "s.zarr"})
    return shutil.copytree(whole, workshop.folder / "s.zarr")


@pytest.mark.parametrize("case", NO_STORES)
def test_what_is_no_store_is_refused_by_every_command(workshop, store, case):
    make, expected = NO_STORES[case]
    make(store)
    before = workshop.contents()
    refused(workshop.daskfs("info", "s.zarr"), *expected)
    refused(workshop.daskfs("verify", "s.zarr"), *expected)
    refused(workshop.daskfs("select", "s.zarr"), *expected)
    if case not in ("missing", "unfinished"):  # a pipeline says that its source lacks as well
        for command in ("validate", "plan", "run"):
            refused(workshop.daskfs(command, "pipeline.yaml"), *expected)
    assert workshop.contents() == before


@pytest.mark.parametrize("case", DAMAGES)
def test_damage_is_named_by_verify_and_by_all_that_read_it(workshop, store, case):
    array, damage, expected = DAMAGES[case]
    damage(chunk(store, array))
    before = workshop.contents()
    refused(workshop.daskfs("verify", "s.zarr"), *expected, "1 damaged part;", places=2)
    refused(workshop.daskfs("select", "s.zarr", "--output", "selected"), *expected)
    refused(workshop.daskfs("run", "pipeline.yaml"), *expected)
    assert workshop.contents() == before


def swap_statistics(store):
    a, b = (store / "var" / name / "c/0" for name in ("mean", "std"))
    content = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(content)


def put_instead(name, make):
    def replace(store):
        (store / name).unlink()
        make(store / name)

    return replace


INTRUDERS = {
    "statistics swapped": (
        swap_statistics,
        "var/mean/c/0: var/mean chunk (0) is complete, but not the one",
    ),
    "a pipe": (put_instead("X/c/0/0", os.mkfifo), "X/c/0/0: X chunk (0, 0) is not a regular file"),
    "a folder": (put_instead("X/c/0/0", Path.mkdir), "X/c/0/0: X chunk (0, 0) is not a regular file"),
    "a device": (put_instead("X/c/0/0", lambda path: path.symlink_to("/dev/zero")), "X chunk (0, 0) is not a regular"),
    "a pipe for the manifest": (put_instead("manifest.json", os.mkfifo), "manifest.json is not a regular file"),
    "a pipe for the header": (put_instead("zarr.json", os.mkfifo), "zarr.json is missing or damaged"),
    "a pipe for a description": (
        put_instead("X/zarr.json", os.mkfifo),
        "X/zarr.json: X/zarr.json is not a regular file",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", INTRUDERS)
def test_what_does_not_belong_there_is_named_by_verify_and_by_a_fit(workshop, store, case):
    damage, expected = INTRUDERS[case]
    damage(store)
    ended = workshop.daskfs("verify", "s.zarr")
    assert ended.code == 2
    assert expected in ended.errors
    fit = ("select", "s.zarr", "--method", "fgm", "--set", "loss=squared", "--test", 0)
    refused(workshop.daskfs(*fit), "remove the store and ingest")


@pytest.mark.slow
def test_links_to_the_same_bytes_are_followed(workshop, store):
    for path in [path for path in store.rglob("*") if path.is_file()]:
        elsewhere = workshop.folder / "annex" / path.relative_to(store)
        elsewhere.parent.mkdir(parents=True, exist_ok=True)
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
    assert workshop.daskfs("verify", "s.zarr").output == "s.zarr: whole\n"
    assert workshop.daskfs("select", "s.zarr", "--output", "selected").code == 0


def test_a_store_that_is_replaced_after_the_last_read_ends_a_run(workshop, store, monkeypatch):
    from daskfs.pipeline.steps import evaluate
    from daskfs.sources.ingest import ingest

    def predict_and_replace(*arguments):
        prediction = predict(*arguments)
        shutil.rmtree(store)
        ingest(workshop.write("other.csv", table(90)), store, target="y")
        return prediction

    predict = evaluate.linear_predictor
    monkeypatch.setattr(evaluate, "linear_predictor", predict_and_replace)
    workshop.pipeline(source=None, store={"path": "s.zarr"}, split={"test": 0.2})
    ended = workshop.daskfs("run", "pipeline.yaml")
    assert ended.code == 2
    assert "s.zarr: the store is no longer the one that was opened" in ended.errors
    assert not (workshop.folder / "trial").exists()


def test_another_store_is_not_overwritten(workshop, store):
    workshop.write("table.csv", table(50))
    before = workshop.contents()
    refused(
        workshop.daskfs("ingest", "table.csv", "s.zarr", "--target", "y"),
        "s.zarr: a store made from another source",
        "choose another name, or replace it (--force",
    )
    assert workshop.contents() == before


def test_more_features_than_there_are_cannot_be_asked_for(workshop, store):
    before = workshop.contents()
    refused(workshop.daskfs("select", "s.zarr", "--n-features", 4), "there are 3", "request at most 3")
    refused(workshop.daskfs("select", "s.zarr", "--n-subsets", 99), "n_subsets: ", "set n_subsets to at most 48")
    refused(workshop.daskfs("select", "s.zarr", "--method", "mesage"), "did you mean 'message'?")
    assert workshop.contents() == before


def test_a_file_in_the_way_is_named(workshop, store):
    workshop.write("table.csv", table())
    workshop.pipeline("inside.yaml", store={"path": "table.csv/t.zarr"})
    before = workshop.contents()
    refused(workshop.daskfs("run", "inside.yaml"), "table.csv/t.zarr: cannot create", "choose another store.path")
    refused(workshop.daskfs("select", "s.zarr", "--output", "table.csv/x"), "table.csv/x", "choose another output")
    refused(
        workshop.daskfs("select", "s.zarr", "--output", "table.csv"), "table.csv: expected a run folder", "move it away"
    )
    for place in ("table.csv/t.zarr", "no/folder/t.zarr"):
        ended = workshop.daskfs("ingest", "table.csv", place, "--target", "y")
        refused(ended, f"{place}: cannot create the store", "choose another folder")
    refused(workshop.daskfs("report", "table.csv"), "table.csv: no such folder", "a finished run")
    assert workshop.contents() == before


def test_a_folder_that_cannot_be_written_is_named(workshop, store, monkeypatch):
    workshop.write("table.csv", table())
    locked = workshop.folder / "locked"
    locked.mkdir()
    mkdir = os.mkdir

    def refuse(path, *arguments, **options):
        if str(path).startswith(str(locked)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(os, "mkdir", refuse)  # the tests may run as root, who may write anywhere
    before = workshop.contents()
    ended = workshop.daskfs("ingest", "table.csv", "locked/t.zarr", "--target", "y")
    refused(ended, "locked/t.zarr: cannot create the store: Permission denied", "choose another folder")
    ended = workshop.daskfs("select", "s.zarr", "--output", "locked/run")
    refused(ended, "locked/run.unfinished: cannot create the run folder: Permission denied", "choose another output")
    assert workshop.contents() == before


@pytest.fixture
def small_disk(workshop):
    """A folder on a disk of one mebibyte."""
    folder = workshop.folder / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no command mount here")
    if done.returncode:
        pytest.skip(f"only root can mount a small disk: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_ends_ingest_in_one_line_and_leaves_nothing(workshop, small_disk):
    workshop.write(
        "table.csv", "\n".join(["a,b,c,y", *(f"{i},{i * 7 % 13},{i * i % 17},{i % 5}" for i in range(60000))])
    )
    workshop.pipeline(store={"path": "disk/s.zarr"})
    before = workshop.contents()
    for command in (["ingest", "table.csv", "disk/s.zarr", "--target", "y"], ["run", "pipeline.yaml"]):
        refused(workshop.daskfs(*command), "disk/s.zarr: the disk is full", "; 7", "free disk space, or choose")
        assert workshop.contents() == before


def test_a_full_disk_ends_a_run_in_one_line(workshop, store, small_disk):
    filling = small_disk / "filling"
    filling.write_bytes(bytes(2**20 - 4 * 4096))
    before = workshop.contents()
    ended = workshop.daskfs("run", "pipeline.yaml", "--set", "output=disk/run")
    assert ended.code == 2, str(ended)
    assert "Traceback" not in ended.errors
    assert "no space left on device" in ended.errors.lower()
    if "--resume" in ended.errors:
        filling.unlink()
        assert workshop.daskfs("run", "pipeline.yaml", "--resume", "disk/run").code == 0
    else:
        assert workshop.contents() == before


@pytest.mark.slow
@pytest.mark.parametrize("file", ["selected.csv", "metrics.json", "history.parquet", "report.html", "pipeline.yaml"])
def test_a_disk_that_fills_up_late_leaves_a_run_that_can_be_resumed(workshop, store, monkeypatch, file):
    write_text, replace = Path.write_text, Path.replace

    def full(path):
        if file in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def refuse_text(path, *arguments, **options):
        full(path)
        return write_text(path, *arguments, **options)

    def refuse_name(path, target):
        full(path)
        return replace(path, target)

    before = workshop.contents()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", refuse_text)
        patched.setattr(Path, "replace", refuse_name)
        ended = workshop.daskfs("run", "pipeline.yaml")
    assert ended.code == 2, str(ended)
    assert "no space left on device" in ended.errors.lower()
    if file == "pipeline.yaml":  # nothing was computed
        refused(ended)
        assert workshop.contents() == before
        return
    refused(ended, "continue with `daskfs run --resume", places=2)
    assert workshop.daskfs("run", "pipeline.yaml", "--resume", "trial").code == 0
    assert not list(workshop.folder.glob("*.unfinished"))
