"""The pipelines that ship: each is valid, and those that need no file run."""

from pathlib import Path

import jsonschema
import pytest

from daskfs.documents import read_yaml
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.pipeline.schemas import json_schema

FOLDER = Path(__file__).parents[2] / "pipelines"
# A run leaves a copy of its pipeline in pipelines/runs.
PIPELINES = sorted(path for path in FOLDER.rglob("*.yaml") if "runs" not in path.relative_to(FOLDER).parts)


@pytest.mark.slow
@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_every_pipeline_is_valid(path, monkeypatch):
    monkeypatch.setenv("DASKFS_DATA", "/data")
    jsonschema.validate(read_yaml(path), json_schema("pipeline"))
    pipeline = load_pipeline(path)
    assert pipeline.output_path == FOLDER / "runs" / path.stem.replace("_", "-")
    schema = getattr(pipeline.source, "table_schema", None)
    assert schema is None or Path(schema).exists()


def test_the_first_thing_to_run_finds_the_body_mass_index(tmp_path):
    overrides = [f"store.path={tmp_path / 'store.zarr'}", f"output={tmp_path / 'run'}"]
    outcome = run_pipeline(load_pipeline(FOLDER / "quickstart.yaml", overrides))
    assert "bmi" in list(outcome.results["message"].table["name"])
    assert outcome.results["message"].metrics["r2"] > 0.3


@pytest.mark.slow
def test_mission_runs_as_it_stands(tmp_path):
    overrides = [f"store.path={tmp_path / 'store.zarr'}", f"output={tmp_path / 'run'}"]
    outcome = run_pipeline(load_pipeline(FOLDER / "mission.yaml", overrides))
    result = outcome.results["mission"]
    assert len(result.table) == 10
    assert result.metrics["accuracy"] > 0.9
    assert "mean_loss" in result.history
