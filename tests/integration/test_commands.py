"""What a newcomer does: the README's commands, every pipeline that stands in pipelines/, real data."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LassoCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from daskfs.documents import check_document, parse_yaml
from daskfs.pipeline.config import Pipeline, load_pipeline
from daskfs.sources.table_schema import load_table_schema
from daskfs.store.feature_store import open_store

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OF_FILES_TO_BE_WRITTEN = ("genotypes_plink", "genotypes_vcf_zarr")
"""Run by `tests/benchmarks/test_genotypes_real.py`, which writes their files."""
PIPELINES = [path for path in sorted((ROOT / "pipelines").glob("*.yaml")) if path.stem not in OF_FILES_TO_BE_WRITTEN]
SMALLER_ELSEWHERE = ("mission_dna", "mission_splice")
"""Run by `test_sequences_of_papers.py`, the first with fewer species: as it stands it takes minutes."""
PAPERS = [path for path in sorted((ROOT / "pipelines" / "papers").glob("*.yaml")) if path.stem not in SMALLER_ELSEWHERE]
LASSO_CV_RATIO = 1.02

needs_data = pytest.mark.skipif(
    "DASKFS_DATA" not in os.environ, reason="DASKFS_DATA, the folder of the real files, is not set"
)


def daskfs(*arguments: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "daskfs", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def run_elsewhere(pipeline: Path, folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    """Run a pipeline of the project with its store, where it has one, and its output in another folder."""
    has_store = "\nstore: none\n" not in pipeline.read_text(encoding="utf-8")
    places = [f"store.path={folder}/store.zarr"] * has_store + [f"output={folder}/run", *overrides]
    return daskfs("run", pipeline, *(word for override in places for word in ("--set", override)))


def keeps_its_memory(run: Path) -> None:
    memory = json.loads((run / "result.json").read_text())["memory"]
    for process, nbytes in memory["measured_nbytes"].items():
        assert nbytes <= memory["promised_nbytes"]["client" if process == "client" else "worker"], process


def commands_after(marker: str) -> list[str]:
    block = re.search(rf"<!-- {marker} -->\n```bash\n(.*?)```", README, re.DOTALL)
    assert block is not None, f"README.md has no {marker}"
    return block.group(1).splitlines()


def test_the_readme_has_two_commands_that_set_up_and_go():
    setup, install, run = commands_after("quickstart command")
    assert (setup, install) == ("python3 -m venv .venv", ".venv/bin/pip install --quiet --editable .")
    assert run == ".venv/bin/daskfs run pipelines/quickstart.yaml --force"
    setup, install, test = commands_after("test command")
    assert install == '.venv-test/bin/pip install --quiet --editable ".[test]"'
    assert test == ".venv-test/bin/python -m pytest -n 2"


@pytest.mark.slow
def test_the_quickstart_ends_with_the_path_of_its_report(tmp_path):
    done = run_elsewhere(ROOT / "pipelines" / "quickstart.yaml", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"report: {tmp_path}/run/report.html"
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "bmi" in report
    assert not re.findall(r"""(?:src|href)=["']https?://""", report), "the report must open offline"
    keeps_its_memory(tmp_path / "run")


def test_every_command_of_the_readme_exists():
    listed = set(re.findall(r"`daskfs (\w+)", README))
    helped = daskfs("--help").stdout
    commands = set(re.findall(r"^  ([a-z]+) ", helped.partition("Commands:")[2], re.MULTILINE))
    assert {"run", "plan", "init", "ingest", "select", "watch", "report"} <= commands
    assert listed == commands


def yaml_of(document: Path) -> dict:
    block = re.search(r"```yaml\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return parse_yaml(block.group(1), document.name)


def test_the_pipeline_and_the_table_schema_of_the_documentation_are_valid():
    check_document(Pipeline, yaml_of(ROOT / "docs" / "pipelines.md"), "pipelines.md")
    schema = load_table_schema(yaml_of(ROOT / "data_schemas" / "README.md"))
    assert schema.columns["Carrier"].min_count == 100


@pytest.mark.nightly
@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda path: path.stem)
def test_every_pipeline_runs_as_it_stands(pipeline, tmp_path):
    if "${DASKFS_DATA}" in pipeline.read_text(encoding="utf-8") and "DASKFS_DATA" not in os.environ:
        pytest.skip("DASKFS_DATA, the folder of the real files, is not set")
    done = run_elsewhere(pipeline, tmp_path)
    assert done.returncode == 0, done.stderr
    keeps_its_memory(tmp_path / "run")


@pytest.mark.nightly
@pytest.mark.parametrize("pipeline", PAPERS, ids=lambda path: path.stem)
def test_every_pipeline_of_the_papers_runs_as_it_stands(pipeline, tmp_path):
    """Case 3 with correlated features holds a bootstrap sample on which the logistic path once never ended."""
    if "${DASKFS_DATA}" in pipeline.read_text(encoding="utf-8") and "DASKFS_DATA" not in os.environ:
        pytest.skip("DASKFS_DATA, the folder of the real files, is not set")
    done = run_elsewhere(pipeline, tmp_path)
    assert done.returncode == 0, done.stderr


SPLITS = [  # of flights_houston one is enough
    *[(name, seed) for name in ("household_power", "household_power_minute", "adult") for seed in (0, 4)],
    ("flights_houston", 0),
]


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(
    ("name", "seed"), [SPLITS[0], *(pytest.param(*split, marks=pytest.mark.nightly) for split in SPLITS[1:])]
)
def test_the_test_error_on_real_data_is_no_worse_than_lassocv_by_more_than_two_percent(name, seed, tmp_path):
    path = ROOT / "pipelines" / f"{name}.yaml"
    done = run_elsewhere(path, tmp_path, f"split.random_state={seed}", "cluster={kind: none, memory_limit: 2GiB}")
    assert done.returncode == 0, done.stderr
    ours = json.loads((tmp_path / "run" / "result.json").read_text())["metrics"]["mse"]
    split = load_pipeline(path, [f"split.random_state={seed}"]).split
    train, test = open_store(tmp_path / "store.zarr").split(split.test, by=split.by, random_state=seed)
    rows = slice(None)
    model = make_pipeline(StandardScaler(), LassoCV(cv=5, random_state=0))
    model.fit(train.read(rows).astype(np.float64), train.read_target())
    theirs = np.mean((model.predict(test.read(rows).astype(np.float64)) - test.read_target()) ** 2)
    assert ours <= LASSO_CV_RATIO * theirs


@pytest.mark.nightly
@needs_data
def test_one_schema_reads_the_household_power_by_the_minute_too(tmp_path):
    minutes = Path(os.environ["DASKFS_DATA"], "power_minute", "household_power_consumption.csv.gz")
    pipeline = ROOT / "pipelines" / "household_power.yaml"
    done = run_elsewhere(pipeline, tmp_path, f"source.path={minutes}")
    assert done.returncode == 0, done.stderr
    assert open_store(tmp_path / "store.zarr").shape == (47955, 74)
