"""Asynchronous online substitution from a pipeline file and from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from daskfs.cli import app
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.facts import facts_of
from daskfs.pipeline.plan import plan_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.result import SelectionResult

PIPELINE = Path(__file__).parents[2] / "pipelines" / "async_online_substitution.yaml"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """The pipeline that ships, with fewer rows, and threads in the place of processes."""
    folder = tmp_path_factory.mktemp("async")
    overrides = [
        f"store.path={folder / 'store.zarr'}",
        f"output={folder / 'run'}",
        "source.n_samples=600",
        "source.n_features=400",
        "store.tile_shape=[600, 16]",
        "cluster.kind=threads",
        "select.0.n_features_to_select=10",
    ]
    return folder, run_pipeline(load_pipeline(PIPELINE, overrides))


@pytest.mark.slow
def test_the_pipeline_that_ships_finds_the_true_features(outcome):
    folder, found = outcome
    result = found.results["asy-os"]
    assert len(result.table) == 10
    assert result.metrics["selection_recall"] == 1.0
    assert result.parameters["n_workers"] == 2
    assert set(result.history["worker"]) <= {0.0, 1.0}
    loaded = SelectionResult.load(folder / "run" / "asy-os")
    assert list(loaded.history["objective"]) == list(result.history["objective"])
    assert loaded.communication["n_calls"] > 0


@pytest.mark.slow
def test_the_report_shows_the_trace(outcome):
    page = (outcome[0] / "run" / "report.html").read_text(encoding="utf-8")
    assert page.count("Objective and staleness of every push") == 1
    assert "versions behind" in page


def test_the_plan_says_how_many_workers_hold_what():
    def text_of(*overrides):
        pipeline = load_pipeline(PIPELINE, overrides)
        return plan_pipeline(pipeline, facts_of(pipeline)).to_text()

    text = text_of("cluster.n_workers=4")
    assert "4 workers with a central node, 8 columns each" in text
    assert "5 tasks" in text
    assert "1 worker" not in text_of("select.0.n_workers=3")


@pytest.mark.slow
def test_the_command_line_takes_every_parameter(outcome):
    folder, _ = outcome
    parameters = ["--n-features", "5", "--set", "n_workers=3", "--set", "schedule=simulated", "--set", "slots=2.0"]
    command = ["select", str(folder / "store.zarr"), "--method", "async_online_substitution", *parameters]
    done = CliRunner().invoke(app, [*command, "--output", str(folder / "selected")])
    assert done.exit_code == 0, done.output
    result = SelectionResult.load(folder / "selected")
    assert len(result.table) == 5
    assert result.parameters["slots"] == 2.0
    assert "3 workers held" in " ".join(result.notes)
