"""Online substitution from a pipeline file and from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from daskfs.cli import app
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.result import SelectionResult

PIPELINE = Path(__file__).parents[2] / "pipelines" / "online_substitution.yaml"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("substitution")
    overrides = [
        f"store.path={folder / 'store.zarr'}",
        f"output={folder / 'run'}",
        "source.n_samples=600",
        "source.n_features=400",
        "store.tile_shape=[600, 64]",
    ]
    return folder, run_pipeline(load_pipeline(PIPELINE, overrides))


@pytest.mark.slow
def test_the_pipeline_that_ships_finds_the_true_features_by_every_rule(outcome):
    folder, found = outcome
    for label in ("exchange", "os", "paper", "svm"):
        result = found.results[label]
        assert len(result.table) == 20
        assert result.metrics["selection_recall"] == 1.0
        assert "columns were presented in" in " ".join(result.notes)
        loaded = SelectionResult.load(folder / "run" / label)
        assert list(loaded.history["objective"]) == list(result.history["objective"])


@pytest.mark.slow
def test_the_report_shows_how_the_objective_fell(outcome):
    page = (outcome[0] / "run" / "report.html").read_text(encoding="utf-8")
    assert page.count("Objective as columns were presented") == 4
    assert "subsets whose model" not in page
    assert page.count(">Scores</h2>") == 4


@pytest.mark.slow
def test_the_command_line_takes_every_parameter(outcome):
    folder, _ = outcome
    parameters = ["--n-features", "20", "--set", "rule=os", "--set", "always_include=[7, x3]", "--test", "0.2"]
    command = ["select", str(folder / "store.zarr"), "--method", "online_substitution", *parameters]
    done = CliRunner().invoke(app, [*command, "--output", str(folder / "selected")])
    assert done.exit_code == 0, done.output
    result = SelectionResult.load(folder / "selected")
    assert set(result.table["index"].head(2)) == {3, 7}
    assert "2 of them were always included" in result.notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("select.0.rul=os", "unknown key (did you mean 'rule'?)"),
        ("select.0.n_features_to_select=3000", "requests 3,000 features, but there are 400"),
        ("cluster.memory_limit=200MiB", "the memory limit is"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(outcome, override, message):
    folder, _ = outcome
    store = ["--set", f"store.path={folder / 'store.zarr'}", "--set", f"output={folder / 'other'}"]
    done = CliRunner().invoke(app, ["plan", str(PIPELINE), *store, "--set", override])
    assert done.exit_code == 2
    assert message in done.output.replace("\n", " ")
