"""Kernels are compiled by a rehearsal in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import daskfs
from daskfs.kernels.text import records, svmlight, vowpal
from daskfs.pipeline import compile_ahead
from daskfs.pipeline.compile_ahead import TALL, TEXTS, WIDE
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.steps import refit

ROOT = Path(__file__).parents[2]
COUNTED = """
import daskfs.pipeline.run as run
from pathlib import Path

original = run.compile_ahead

def counted(*arguments):
    original(*arguments)
    print("compiled", len([*Path("cache").rglob("*.nbc")]))

run.compile_ahead = counted
if __name__ == "__main__":
    from daskfs.cli import app
    app(["run", "pipeline.yaml"], standalone_mode=False)
"""


def selections(*changes):
    pipeline = load_pipeline(ROOT / "pipelines" / "quickstart.yaml", list(changes))
    return [one.model_dump(mode="json") for one in pipeline.selections.values()]


def write_nothing_that_tells(path, n_samples, n_features, dtype, n_classes):
    X, y = np.random.default_rng(0).standard_normal((n_samples, n_features)), np.arange(n_samples) % 2.5
    daskfs.ingest(X.astype(dtype), path, target=y)


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """The jobs of each process that is started, none of which does anything."""
    found = []

    class Process:
        code, stdout = 0, None

        def __init__(self, command, **options):
            assert options["env"].get("NUMBA_CACHE_DIR") == os.environ.get("NUMBA_CACHE_DIR"), "numba looks elsewhere"
            found.append(json.loads(command[-1].split("rehearse('", 1)[1].rsplit("', '", 1)[0]))

        def wait(self):
            return self.code

        def terminate(self):
            pass

    monkeypatch.setattr(compile_ahead, "CACHE_DIRECTORY", tmp_path / "daskfs-kernels")
    monkeypatch.setattr(compile_ahead.subprocess, "Popen", Process)
    return type("Calls", (), {"found": found, "process": Process})


def test_a_kind_of_selection_is_rehearsed_once(calls):
    for n_subsets in (2, 40):
        compile_ahead.compile_ahead(selections(f"select.n_subsets={n_subsets}"), "float32")
    assert len(calls.found) == 2


def test_one_method_shares_two_processes_by_shape_and_several_by_method(calls):
    compile_ahead.compile_ahead([{"method": "message"}], "float32")
    assert calls.found == [[[{"method": "message"}, [list(shape)]]] for shape in (TALL, WIDE)]
    calls.found.clear()
    compile_ahead.compile_ahead([{"method": name} for name in ("mission", "fgm", "message")], "float32")
    assert [[job[0]["method"] for job in jobs] for jobs in calls.found] == [["mission"], ["fgm"]]


@pytest.mark.parametrize("change", ["select.criterion=ric", "select.criterion=bic"])
def test_another_kind_is_rehearsed_too(calls, change):
    compile_ahead.compile_ahead(selections(), "float32")
    compile_ahead.compile_ahead(selections(change), "float32")
    compile_ahead.compile_ahead(selections(), "float64")
    assert len(calls.found) == 6


def test_a_failed_rehearsal_is_tried_again(calls):
    calls.process.code = 1
    for _ in range(2):
        compile_ahead.compile_ahead(selections(), "float32")
    assert len(calls.found) == 4


def test_a_fit_that_fails_does_not_keep_the_others_from_being_rehearsed(capfd):
    jobs = [({"method": "message", "n_subsets": -1}, [TALL]), ({"method": "message", "n_subsets": 2}, [TALL])]
    compile_ahead.rehearse(json.dumps(jobs), "float32")
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_text_is_read_by_the_kernels_that_read_large_files(monkeypatch):
    """Small tables are Arrow's: what a warmup reads must not be."""
    read = []

    def counted(module, name):
        kernel = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *arguments: (read.append(name), kernel(*arguments))[1])

    names = ((records, "read_records"), (records, "copy_texts"), (svmlight, "read_rows"), (vowpal, "read_rows"))
    for module, name in names:
        counted(module, name)
    compile_ahead.rehearse(json.dumps([({"text": text}, [TALL, WIDE]) for text in TEXTS]), "float32")
    assert read.count("read_rows") >= 2
    assert {"read_records", "copy_texts"} <= {*read}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mission", "message"])
@pytest.mark.parametrize("then_refit", [True, False])
def test_the_refit_of_a_pipeline_is_rehearsed_where_it_follows(then_refit, method, monkeypatch):
    """Of something: for nothing selected nothing would be compiled."""
    refitted = []
    monkeypatch.setattr(refit, "run", lambda selector, run, by: refitted.append(len(selector.selected_)))
    options = {"method": method, "loss": "squared", "then_refit": then_refit}
    compile_ahead.rehearse(json.dumps([(options, [TALL, WIDE])]), "float32")
    assert len(refitted) == 2 * then_refit
    assert all(refitted)
    assert compile_ahead._mark(options, "float32") != compile_ahead._mark(options | {"then_refit": None}, "float32")


def test_a_warning_does_not_end_a_rehearsal_though_warnings_are_errors(monkeypatch):
    """As pytest makes them and PYTHONWARNINGS may: MESSAGE that selects nothing never reached the refit."""
    refitted = []
    monkeypatch.setattr(refit, "run", lambda selector, run, by: refitted.append(len(selector.selected_)))
    monkeypatch.setattr(compile_ahead, "_write_noise", write_nothing_that_tells)
    options = {"method": "message", "loss": "squared", "then_refit": True}
    compile_ahead.rehearse(json.dumps([(options, [TALL])]), "float32")
    assert refitted == [0]


def test_classes_are_rehearsed_two_and_several_where_each_is_told_from_the_rest(monkeypatch):
    kinds = compile_ahead.kinds_of("fgm")
    assert [(one["loss"], one["n_classes"]) for one in kinds] == [("squared", 0), ("logistic", 2), ("logistic", 3)]
    assert len({compile_ahead._mark(one, "float32") for one in kinds}) == 3
    assert [one["n_classes"] for one in compile_ahead.kinds_of("fgm", "logistic")] == [2, 3]
    assert [one["n_classes"] for one in compile_ahead.kinds_of("message", "multinomial")] == [3]
    seen = []
    monkeypatch.setattr(compile_ahead, "_write_noise", lambda path, *sizes: seen.append(sizes[-1]))
    compile_ahead.rehearse(json.dumps([(one, [TALL]) for one in kinds]), "float32")
    assert seen == [0, 2, 3]


def test_for_named_columns_one_of_the_noise_is_included_which_has_none_of_that_name():
    """And a long list of them would be too long for a command line."""
    options = {"method": "online_substitution", "always_include": ["Höhe", "with space"], "n_features_to_select": 90}
    small = {"method": "online_substitution", "always_include": [0], "n_features_to_select": 4}
    assert compile_ahead._small(options) == small
    assert compile_ahead._mark(small, "float32") != compile_ahead._mark(small | {"always_include": None}, "float32")


@pytest.mark.slow
@pytest.mark.slow_cases("message", "fgm")
@pytest.mark.parametrize("method", ["fgm", "message", "mission", "online_substitution", "async_online_substitution"])
def test_a_fit_that_always_includes_columns_is_rehearsed_to_its_end(method, monkeypatch):
    included = []
    monkeypatch.setattr(refit, "run", lambda selector, run, by: included.append(0 in selector.selected_.tolist()))
    pipeline = {
        "method": method,
        "loss": "squared",
        "always_include": ["age", "sex"],
        "n_features_to_select": {"cv": 2},
    }
    if method == "message":
        del pipeline["n_features_to_select"]
    options = compile_ahead._small(pipeline | {"then_refit": True})
    compile_ahead.rehearse(json.dumps([(options, [TALL])]), "float32")
    assert included == [True]


def test_a_cache_that_cannot_be_written_is_no_error(calls, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(compile_ahead, "CACHE_DIRECTORY", tmp_path / "file" / "daskfs-kernels")
    monkeypatch.setattr(
        compile_ahead, "_start", lambda jobs, dtype: calls.found.append(jobs) or calls.process.__new__(calls.process)
    )
    compile_ahead.compile_ahead(selections(), "float32")
    assert len(calls.found) == 2


class Steps:
    def __init__(self):
        self.total = self.done = 0
        self.is_finished = False

    def start(self, name, total):
        self.total = total

    def advance(self, k=1):
        self.done += k

    def finish(self):
        self.is_finished = True


@pytest.mark.slow
def test_each_fit_that_was_rehearsed_is_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(compile_ahead, "CACHE_DIRECTORY", tmp_path / "daskfs-kernels")
    steps = Steps()
    compile_ahead.compile_ahead([{"text": "vw"}, {"text": "svm"}], "float32", steps)
    assert steps.done == steps.total == 2
    assert steps.is_finished


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["quickstart", "fgm", "mission", "online_substitution", "message", "async_online_substitution"]
)
def test_after_the_rehearsal_a_run_compiles_little(name, tmp_path, monkeypatch):
    """Of the kernels that a run needs, all but one or a tenth were made by the rehearsal."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "pipeline.yaml").write_text((ROOT / "pipelines" / f"{name}.yaml").read_text())
    (tmp_path / "script.py").write_text(COUNTED)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before = int(done.stdout.partition("compiled ")[2].split()[0])
    after = len([*(tmp_path / "cache").rglob("*.nbc")])
    assert before >= 5
    assert after - before <= max(1, 0.1 * before), (before, after)
