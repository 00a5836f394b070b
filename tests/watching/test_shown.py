"""A run on a pseudo terminal, in a pipe and in a notebook."""

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import daskfs
from daskfs.kernels import jit
from daskfs.watching import terminal
from daskfs.watching.base import Found
from daskfs.watching.notebook import Cell, page_of
from daskfs.watching.terminal import heard_by, rewritten, shown
from daskfs.watching.watch import Watch
from tests.processes import Process
from tests.refusals import refused

FIT = """
import numpy as np, daskfs
X = np.random.default_rng(0).standard_normal((3000, 40))
daskfs.FGM(6, n_features_per_pass=1, verbose=True).fit(X, X[:, 0] - X[:, 1])
"""
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(daskfs.__file__).parents[1]), "TERM": "xterm", "COLUMNS": "100"}


def on_a_terminal(code):
    """Return what a process writes to a terminal."""
    pty = pytest.importorskip("pty", reason="there are no pseudo terminals here")
    ours, theirs = pty.openpty()
    written = []
    with Process([sys.executable, "-c", code], stderr=theirs, stdout=theirs, env=ENVIRONMENT):
        os.close(theirs)
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # how Linux says that nobody writes any more
                break
            if not piece:
                break
            written.append(piece)
    os.close(ours)
    return b"".join(written).decode()


@pytest.mark.slow
def test_a_terminal_has_a_bar_that_leaves_nothing_behind():
    text = on_a_terminal(FIT)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "fgm, pass 1 of 12" in plain
    assert "Traceback" not in plain
    assert "━" in plain
    assert text.rstrip().endswith(("\x1b[2K", "\x1b[?25h")), "the bar is removed, the cursor is back"


@pytest.mark.slow
def test_a_pipe_has_no_bar():
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert done.stdout == ""
    assert "\x1b" not in done.stderr
    first, *others = done.stderr.splitlines()
    assert re.fullmatch(r"FGM: [\d,]+ samples x [\d,]+ features, loss squared", first)
    assert all(re.fullmatch(r".*: .*\d+ (s|min.*)|.*(left|so far)", line) for line in others)


class Terminal(StringIO):
    def isatty(self):
        return True


def test_somebody_who_waits_for_kernels_is_told_once(monkeypatch):
    told = []
    for stream in (StringIO(), Terminal()):
        monkeypatch.setattr(terminal, "_has_said", False)
        monkeypatch.setattr(sys, "stderr", stream)
        terminal.say_compiling()
        terminal.say_compiling()
        told.append(stream.getvalue())
    assert told == ["", f"{terminal.COMPILING}\n"], "logs and pipes are told nothing"


def test_a_fit_says_that_it_compiles_unless_it_shows_its_progress(monkeypatch):
    X = np.random.default_rng(0).standard_normal((300, 20))
    fit = daskfs.FGM._fit
    monkeypatch.setattr(daskfs.FGM, "_fit", lambda self, run: (jit._announce(), fit(self, run)))
    for verbose, n_lines in ((False, 1), (True, 0)):
        monkeypatch.setattr(terminal, "_has_said", False)
        monkeypatch.setattr(sys, "stderr", stream := Terminal())
        daskfs.FGM(4, verbose=verbose).fit(X, X[:, 0] + X[:, 3])
        assert stream.getvalue().count(terminal.COMPILING) == n_lines


def test_verbose_changes_no_bit_and_is_no_part_of_the_result(capsys):
    X = np.random.default_rng(0).standard_normal((300, 20))
    quiet, loud = (daskfs.FGM(4, verbose=verbose).fit(X, X[:, 0] + X[:, 3]) for verbose in (False, True))
    np.testing.assert_array_equal(quiet.coef_, loud.coef_)
    assert quiet.result_.parameters == loud.result_.parameters
    with refused(daskfs.errors.ConfigError, "parameters", at="verbose"):
        daskfs.FGM(4, verbose="yes").fit(X, X[:, 0])


def test_an_ingest_shows_its_progress_where_it_is_asked_to(tmp_path, capsys):
    store = daskfs.ingest("sklearn:diabetes", tmp_path / "d.zarr", progress=True)
    assert store.verify(progress=True) == []
    with heard_by(None) as silent:
        silent.start("ingest", 3)
    assert "Traceback" not in capsys.readouterr().err


def test_what_is_written_again_and_again_is_written_to_a_log_when_more_than_numbers_change():
    stream, now = StringIO(), [0.0]
    with rewritten(stream, clock=lambda: now[0]) as write:
        for text in ("pass 1, 3 %", "pass 1, 4 %", "evaluating", "evaluating"):
            write(text)
        now[0] = 61.0
        write("evaluating")
    assert stream.getvalue() == "pass 1, 3 %\nevaluating\nevaluating\n"


def test_an_output_of_a_notebook_escapes_what_names_hold():
    watch = Watch(name="genes")
    watch.start("message-select", 10)
    watch.advance(5)
    watch.learn(lambda: Found(1.0, "pass", 1.0, 12, ("<script>alert(1)</script>", "b")))
    page = page_of(watch.state, ["dashboard: here"])
    assert "<script>" not in page
    assert 'value="0.500"' in page
    assert 'aria-label="message, selecting, 50 %' in page
    assert "12 selected so far: " in page
    assert page.startswith("<div>dashboard: here</div>")


def test_an_output_of_a_notebook_ends_with_the_duration_if_anything_was_shown(monkeypatch):
    pages = []
    output = SimpleNamespace(update=pages.append)
    ipython = SimpleNamespace(HTML=str, display=lambda page, display_id: pages.append(page) or output)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    for cell, n_pages in ((Cell(), 0), (Cell(), 2)):
        cell.message("dashboard: here")
        if n_pages:
            cell.began(Watch(name="genes").state)
        cell.close()
        assert len(pages) == n_pages
    assert pages[-1].startswith("<div>dashboard: here</div><div>done in ")


def test_a_stream_that_is_no_terminal_gets_lines():
    stream = StringIO()
    with shown(stream) as watch:
        watch.tell("dashboard: here")
    assert stream.getvalue() == "dashboard: here\n"


@pytest.mark.slow
def test_a_notebook_shows_a_fit_in_one_output_without_widgets():
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(FIT)])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    shown_ones = [output for output in outputs if output.output_type == "display_data"]
    assert len(shown_ones) == 1
    assert "done in" in shown_ones[0]["data"]["text/html"]
