"""Kernels are compiled by a rehearsal in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from daskfs.pipeline import rehearsal
from daskfs.pipeline.config import load_pipeline

ROOT = Path(__file__).parents[2]
COUNTED = """
import daskfs.pipeline.run as run
from pathlib import Path

original = run.rehearse

def counted(*arguments):
    original(*arguments)
    print("compiled", len([*Path("cache").rglob("*.nbc")]))

run.rehearse = counted
if __name__ == "__main__":
    from daskfs.cli import app
    app(["run", "pipeline.yaml"], standalone_mode=False)
"""


def selections(*changes):
    return load_pipeline(ROOT / "pipelines" / "quickstart.yaml", list(changes)).selections.values()


@pytest.fixture
def calls(tmp_path, monkeypatch):
    found = []

    def run(command, **options):
        found.append((command[-1], options["env"]["NUMBA_CACHE_DIR"]))
        return subprocess.CompletedProcess(command, run.code)

    run.code = 0
    found_of = type("Calls", (), {"found": found, "run": run})
    monkeypatch.setattr(rehearsal, "CACHE_DIRECTORY", tmp_path / "daskfs-kernels")
    monkeypatch.setattr(rehearsal.subprocess, "run", run)
    return found_of


def test_a_kind_of_selection_is_rehearsed_once(calls, tmp_path):
    for n_subsets in (2, 40):
        rehearsal.rehearse(selections(f"select.n_subsets={n_subsets}"), "float32")
    assert len(calls.found) == 1
    assert calls.found[0][1] == str(tmp_path)


@pytest.mark.parametrize("change", ["select.criterion=ric", "select.criterion=bic"])
def test_another_kind_is_rehearsed_too(calls, change):
    rehearsal.rehearse(selections(), "float32")
    rehearsal.rehearse(selections(change), "float32")
    rehearsal.rehearse(selections(), "float64")
    assert len(calls.found) == 3


def test_a_failed_rehearsal_is_tried_again(calls):
    calls.run.code = 1
    for _ in range(2):
        rehearsal.rehearse(selections(), "float32")
    assert len(calls.found) == 2


def test_a_fit_that_fails_does_not_keep_the_others_from_being_rehearsed(capfd):
    selections = [{"method": "message", "n_subsets": -1}, {"method": "message", "n_subsets": 2}]
    rehearsal.perform(json.dumps(selections), "float32")
    assert capfd.readouterr().err == ""


def test_named_columns_are_left_out_for_noise_has_none_of_that_name():
    """And a long list of them would be too long for a command line."""
    options = {"method": "online_substitution", "always_include": ["Höhe", "with space"], "n_features_to_select": 90}
    assert rehearsal._small(options) == {"method": "online_substitution", "n_features_to_select": 4}


def test_a_cache_that_cannot_be_written_is_no_error(calls, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(rehearsal, "CACHE_DIRECTORY", tmp_path / "file" / "daskfs-kernels")
    rehearsal.rehearse(selections(), "float32")
    assert len(calls.found) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["quickstart", "fgm", "mission", "online_substitution", "message", "async_online_substitution"]
)
def test_after_the_rehearsal_a_run_compiles_little(name, tmp_path, monkeypatch):
    """Of the machine code that a run needs, all but what reading and scoring take was made by the rehearsal."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "pipeline.yaml").write_text((ROOT / "pipelines" / f"{name}.yaml").read_text())
    (tmp_path / "script.py").write_text(COUNTED)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before = int(done.stdout.partition("compiled ")[2].split()[0])
    after = len([*(tmp_path / "cache").rglob("*.nbc")])
    assert before > 10
    assert after - before <= 0.1 * before, (before, after)
