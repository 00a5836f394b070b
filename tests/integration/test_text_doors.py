"""Sparse texts at every door: what is wrong with a file, an option or the disk is one line, and its remedy works."""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse

from tests.integration.test_interruptions import until
from tests.integration.workshop import refused

TEXTS = {
    "libsvm": ("rows.svm", ["1 1:0.5 3:2", "-1 2:1", "1 1:1 2:3", "-1 3:1"]),
    "vw": ("rows.vw", ["1 |f a:0.5 b", "-1 |f c", "1 |f a |g x:2", "-1 |f c"]),
    "clicks": ("log.tsv", ["1\t7\tx", "0\t9\ty", "1\t8\tx", "0\t9\tz"]),
    "text": ("docs.jsonl", ['{"text": "good film", "y": 1}', '{"text": "bad film", "y": 0}'] * 2),
}
OPTIONS = {"clicks": ["--kind", "clicks", "--target", "click"], "text": ["--target", "y"]}
BROKEN = {"libsvm": "1 2:x", "vw": "1 |f a:x", "clicks": "1\t2", "text": '{"text": 7, "y": 1}'}


def content_of(kind, lines):
    return "\n".join([*(["click\tn\tsite"] if kind == "clicks" else []), *lines, ""])


def ingest(workshop, kind, name=None, *more):
    return workshop.daskfs("ingest", name or TEXTS[kind][0], "s.zarr", *OPTIONS.get(kind, []), *more)


@pytest.fixture(params=TEXTS)
def kind(request):
    return request.param


@pytest.fixture
def file(workshop, kind):
    """A file of the kind, which is whole."""
    name, lines = TEXTS[kind]
    return workshop.write(name, content_of(kind, lines))


def test_a_broken_line_is_named_and_once_it_is_fixed_the_file_is_read(workshop, kind, file):
    name, lines = TEXTS[kind]
    file.write_text(content_of(kind, [*lines, BROKEN[kind], *lines]))
    before = workshop.contents()
    refused(ingest(workshop, kind), f"{name}:{len(lines) + 1 + (kind == 'clicks')}")
    assert workshop.contents() == before
    file.write_text(content_of(kind, lines * 2))
    assert ingest(workshop, kind).code == 0


@pytest.mark.parametrize("other", [*TEXTS, "csv", "binary", "npz"])
def test_a_file_of_another_kind_is_refused_at_its_first_line(workshop, kind, other):
    if other in TEXTS:
        name, content = TEXTS[other][0], content_of(other, TEXTS[other][1]).encode()
    elif other == "npz":
        scipy.sparse.save_npz(workshop.folder / "X.npz", scipy.sparse.eye(3, format="csr"))
        name, content = "X.npz", (workshop.folder / "X.npz").read_bytes()
    else:
        name = f"table.{other}"
        content = b"a,b\n1,2\n3,4\n" if other == "csv" else np.random.default_rng(0).bytes(4000)
    if kind == "text" and name.split(".")[1] not in ("jsonl", "csv", "tsv"):
        return  # any file is a document
    if kind == other:
        return
    workshop.write(name, content)
    before = workshop.contents()
    options = {"clicks": ["--target", "click"], "text": ["--target", "y"]}.get(kind, [])
    refused(workshop.daskfs("ingest", name, "s.zarr", "--kind", kind, *options), name)
    assert workshop.contents() == before
    if other in TEXTS:  # the remedy: its own kind
        assert ingest(workshop, other).code == 0


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


def _loop(path):
    path.unlink()
    path.symlink_to(path.name)


def _folder(path):
    path.unlink()
    path.mkdir()


NO_FILES = {
    "missing": (lambda path: path.unlink(), ["no such file", "check the path"]),
    "empty": (lambda path: path.write_bytes(b""), ["expected data, found an empty file"]),
    "a pipe": (_pipe, ["expected a file, found a pipe or a device", "write its output to a file"]),
    "a link to itself": (_loop, ["expected a file, found a broken link", "fix or remove the link"]),
    "a folder": (_folder, ["no file", "name the files"]),
    "blank": (lambda path: path.write_bytes(b"\n\n"), ["found none"]),
}


@pytest.mark.parametrize("case", NO_FILES)
def test_what_is_no_file_is_refused(workshop, kind, file, case):
    make, expected = NO_FILES[case]
    make(file)
    if kind == "clicks" and case == "blank":
        file.write_text("click\tn\tsite\n\n")
    refused(ingest(workshop, kind), file.name.partition(".")[0] if case != "a folder" else "", *expected)
    assert not list(workshop.folder.glob("s.zarr*"))


def test_a_file_that_may_not_be_read_is_refused(workshop, kind, file):
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    refused(ingest(workshop, kind), file.name, "no permission to read", "chmod u+r")


def test_a_folder_with_a_file_and_its_packed_copy_is_refused(workshop, kind, file):
    folder = workshop.folder / "rows"
    folder.mkdir()
    shutil.move(file, folder / file.name)
    (folder / f"{file.name}.gz").write_bytes(gzip.compress((folder / file.name).read_bytes()))
    command = [*OPTIONS.get(kind, []), *([] if kind == "clicks" else ["--kind", kind])]
    refused(workshop.daskfs("ingest", "rows", "s.zarr", *command), "rows", f"{file.name} and {file.name}.gz")
    (folder / file.name).unlink()
    assert workshop.daskfs("ingest", "rows", "s.zarr", *command).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_a_packed_file_that_was_cut_is_refused(workshop, kind, file, ending):
    from tests.faults.sparse_fuzz import PACKERS

    content = PACKERS[ending][0](file.read_bytes())
    name = f"{file.name}{ending}"
    workshop.write(name, content[:-9])
    refused(ingest(workshop, kind, name), name, f"expected a complete {ending} file", "copy or download the file again")
    workshop.write(name, content)
    assert ingest(workshop, kind, name).code == 0


CHANGES = {
    "grows": lambda path: path.write_bytes(path.read_bytes() * 2),
    "shrinks": lambda path: os.truncate(path, 0),
    "is touched": lambda path: os.utime(path, (1, 1)),
    "vanishes": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_while_it_is_read_is_refused(workshop, kind, file, change, monkeypatch):
    from daskfs.store.written_part import PartWriter

    write, n_written = PartWriter.write, []

    def write_and_change(self, *block):
        if not n_written:
            CHANGES[change](file)
        n_written.append(1)
        return write(self, *block)

    with monkeypatch.context() as patched:
        patched.setattr(PartWriter, "write", write_and_change)
        expected = "no longer there" if change == "vanishes" else "the file changed while it was read"
        refused(ingest(workshop, kind), file.name, expected)
    assert not list(workshop.folder.glob("s.zarr*"))


@pytest.fixture
def large(workshop, kind):
    """A file that takes a while."""
    name, lines = TEXTS[kind]
    return workshop.write(name, content_of(kind, lines * 10_000))


@pytest.mark.slow
def test_ctrl_c_while_a_text_is_read_leaves_nothing_but_finished_parts(workshop, kind, large):
    before = workshop.contents()
    with workshop.start("ingest", large.name, "s.zarr", *OPTIONS.get(kind, [])) as process:
        until((workshop.folder / "s.zarr.unfinished").exists, process)
        process.send_signal(signal.SIGINT)
        ended = workshop.finish(process)
    if ended.code == 0:  # it was done before the signal came
        assert workshop.daskfs("verify", "s.zarr").code == 0
        return
    unfinished = workshop.folder / "s.zarr.unfinished"
    kept = [f"the finished parts are kept in {unfinished}; the same ingest or run continues from them"]
    assert (ended.code, ended.complaints) == (130, ["interrupted", *(kept if unfinished.exists() else [])])
    shutil.rmtree(unfinished, ignore_errors=True)
    assert workshop.contents() == before


@pytest.mark.slow
def test_of_two_that_write_one_store_one_does_and_the_other_is_refused(workshop, kind, large):
    command = ("ingest", large.name, "s.zarr", *OPTIONS.get(kind, []))
    with workshop.start(*command) as one, workshop.start(*command) as other:
        ended = sorted(map(workshop.finish, (one, other)), key=lambda ended: ended.code)
    assert ended[0].code == 0, str(ended[0])
    assert workshop.daskfs("verify", "s.zarr").code == 0
    if ended[1].code:  # else it came when the store stood, and took it
        refused(ended[1], "s.zarr")
    assert not list(workshop.folder.glob("*.unfinished"))


@pytest.mark.slow
def test_a_full_disk_is_named_and_nothing_is_left(workshop, kind, large):
    """As a limit of files' sizes, which every write hears of."""
    if kind == "text":
        large.write_text(content_of(kind, TEXTS[kind][1] * 2000))
    before = workshop.contents()
    code = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 13, {resource.getrlimit(resource.RLIMIT_FSIZE)[1]}))
from daskfs.__main__ import main
main()
"""
    command = [sys.executable, "-c", code, "ingest", large.name, "s.zarr", *OPTIONS.get(kind, [])]
    done = subprocess.run(command, cwd=workshop.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert workshop.contents() == before


STREAMS = {
    "libsvm": b"1 1:1\n-1 2:1\n" * 20,
    "vw": b"1 |f a\n-1 |f b\n" * 20,
}


@pytest.mark.nightly
@pytest.mark.parametrize("lines", STREAMS)
def test_a_pipe_that_gives_what_it_should_not_is_refused_in_a_line(workshop, lines):
    command = ["select", "-", "--method", "mission", "--n-features", "1", "--format", lines]
    other = STREAMS["vw" if lines == "libsvm" else "libsvm"]
    for content, expected in (
        (b"", "expected rows, found none"),
        (other, "-:1, character "),
        (STREAMS[lines] + other, "-:41, character "),
        (b"\0\xff" * 500, "-:1, character 1"),
        (gzip.compress(STREAMS[lines]), "-:1, character 1"),
    ):
        refused(piped(workshop, command, content), expected)
    assert not list(workshop.folder.glob("runs/*"))
    for content in (STREAMS[lines], b"\xef\xbb\xbf" + STREAMS[lines], STREAMS[lines].replace(b"\n", b"\r\n")[:-2]):
        shutil.rmtree(workshop.folder / "runs", ignore_errors=True)
        assert piped(workshop, command, content).code == 0


def piped(workshop, command, content):
    """Give a command whose standard input comes byte by byte at first."""
    with workshop.start(*command, stdin=subprocess.PIPE) as process:

        def feed():
            with process.stdin.buffer as stream:
                for k in range(4):
                    stream.write(content[k : k + 1])
                    stream.flush()
                    time.sleep(0.01)
                stream.write(content[4:])

        feeder = threading.Thread(target=feed)
        feeder.start()
        feeder.join()
        process.stdin = None
        return workshop.finish(process)


MISSPELT = {
    "libsvm": ({"zero_base": True}, "zero_based"),
    "vw": ({"unlabeled": "drop"}, "unlabelled"),
    "clicks": ({"target": "click", "count": ["n"]}, "counts"),
    "text": ({"ngram_rang": [1, 2]}, "ngram_range"),
}


@pytest.mark.slow
def test_a_stream_without_a_store_names_options_files_and_lines(workshop, kind, file):
    options = {"clicks": {"target": "click"}, "text": {"target": "y"}}.get(kind, {})

    def pipeline(**more):
        source = {"kind": kind, "path": file.name, **options, **more}
        select = {"method": "mission", "n_features_to_select": 1}
        workshop.pipeline(source=source, store="none", select=select, split=None)

    wrong, right = MISSPELT[kind]
    pipeline(**wrong)
    for command in ("validate", "plan", "run"):
        refused(workshop.daskfs(command, "pipeline.yaml"), "pipeline.yaml", f"did you mean '{right}'?")
    pipeline()
    name, lines = TEXTS[kind]
    file.write_text(content_of(kind, [*lines, BROKEN[kind]]))
    refused(workshop.daskfs("run", "pipeline.yaml"), f"{name}:{len(lines) + 1 + (kind == 'clicks')}")
    file.write_text(content_of(kind, lines * 20))
    assert workshop.daskfs("run", "pipeline.yaml").code == 0
