"""Runs that are stopped in the middle, as users and schedulers stop them, and continued."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daskfs.documents import dump_yaml
from daskfs.errors import RunError
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.folder import pipeline_of
from daskfs.pipeline.run import run_pipeline
from daskfs.sources.ingest import ingest
from daskfs.sources.synthetic import SyntheticSource
from tests.processes import Process
from tests.refusals import refused

N_SELECTIONS = 5
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
from daskfs.__main__ import main
main()
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a pipeline of several selections, each with its checkpoint, and its run that nobody stopped."""
    folder = tmp_path_factory.mktemp("stopped")
    ingest(SyntheticSource(8000, 400, random_state=1), folder / "store.zarr")
    selections = [{"method": "message", "n_subsets": 3 + 2 * k, "label": f"m{k}"} for k in range(N_SELECTIONS)]
    document = {"version": 1, "name": "stopped", "store": {"path": "store.zarr"}, "select": selections}
    (folder / "pipeline.yaml").write_text(dump_yaml({**document, "output": "whole"}))
    with start("run", folder / "pipeline.yaml") as process:
        assert process.communicate()
    assert process.returncode == 0
    return folder


@pytest.fixture
def pipeline(whole, tmp_path):
    """The same pipeline, to be stopped."""
    text = (whole / "pipeline.yaml").read_text()
    path = tmp_path / "pipeline.yaml"
    path.write_text(text.replace("store.zarr", str(whole / "store.zarr")).replace("whole", "runs/stopped"))
    return path


def start(*arguments):
    return Process(
        [sys.executable, "-W", "ignore", "-c", COMMAND, *map(str, arguments)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def stop_in_the_middle(pipeline, how):
    """Start the run, send a signal when the first selection stands in the checkpoint; return exit code and stderr."""
    checkpoint = pipeline.parent / "runs" / "stopped.unfinished" / "checkpoint"
    with start("run", pipeline) as process:
        while process.poll() is None and not list(checkpoint.glob("m0/*.npz")):
            time.sleep(0.002)
        process.send_signal(how)
        _, errors = process.communicate()
    return process.returncode, errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 130, marks=pytest.mark.nightly),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.nightly),
    ],
)
def test_a_stopped_run_is_resumed_to_the_same_bits(whole, pipeline, how, code):
    runs = pipeline.parent / "runs"
    returncode, errors = stop_in_the_middle(pipeline, how)
    assert returncode == code
    assert "Traceback" not in errors
    assert [path.name for path in runs.iterdir()] == ["stopped.unfinished"]
    kept = sorted(path.parent.name for path in runs.rglob("*-select-*.npz"))
    assert kept
    assert len(kept) < N_SELECTIONS
    if code == 130:
        assert f"interrupted\ncontinue with `daskfs run --resume {runs / 'stopped'}`\n" in errors

    with refused(RunError, "run-folders", naming=["interrupted"]) as refusal:
        run_pipeline(load_pipeline(pipeline))
    with refused(RunError, "run-folders"):
        run_pipeline(load_pipeline(pipeline, ["select.0.n_subsets=9"]), resume=True)

    pipeline.unlink()  # the run has its own
    _, *command = shlex.split(refusal.value.remedy.split("`")[1])
    with start(*command) as resumed:
        output, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    assert f"report: {runs / 'stopped' / 'report.html'}" in output
    assert [path.name for path in runs.iterdir()] == ["stopped"]
    assert not list(runs.rglob("checkpoint"))

    for path in (whole / "whole").rglob("*"):
        if path.name in ("selected.csv", "history.parquet", "scores.parquet", "metrics.json"):
            assert (runs / "stopped" / path.relative_to(whole / "whole")).read_bytes() == path.read_bytes()
    results = [json.loads((folder / "result.json").read_text()) for folder in (runs / "stopped", whole / "whole")]
    assert results[0]["intercept"] == results[1]["intercept"]


def test_the_pipeline_of_an_interrupted_run_is_found_from_inside_its_folder(tmp_path, monkeypatch):
    unfinished = tmp_path / "my run.unfinished"
    unfinished.mkdir()
    (unfinished / "pipeline.yaml").touch()
    monkeypatch.chdir(unfinished)
    for resume in (Path(), unfinished, tmp_path / "my run"):
        assert pipeline_of(resume) == unfinished / "pipeline.yaml"
    with refused(RunError, "run-folders", naming=["no interrupted run"]):
        pipeline_of(tmp_path)
    (unfinished / "pipeline.yaml").write_text("source: {path: 's3://***@bucket/a.csv'}\n")
    with refused(RunError, "run-folders", at="pipeline.yaml", naming=["PIPELINE.yaml", "--resume"]):
        pipeline_of(unfinished)


def test_a_run_interrupted_before_anything_was_computed_leaves_nothing(document, write, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("daskfs.pipeline.steps.ingest.ingest", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        run_pipeline(load_pipeline(write(document)))
    assert not getattr(caught.value, "__notes__", [])
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.slow
def test_a_run_whose_report_fails_can_be_resumed(document, write, tmp_path, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("no ink")

    with monkeypatch.context() as patched:
        patched.setattr("daskfs.pipeline.steps.report.render_report", broken)
        with pytest.raises(RuntimeError, match="no ink"):
            run_pipeline(load_pipeline(write(document)))
    log = (tmp_path / "runs" / "table.unfinished" / "run.log").read_text()
    assert log.rstrip().endswith("stopped: no ink")
    outcome = run_pipeline(load_pipeline(write(document)), resume=True)
    assert "resumed: times are of the last part of the run only" in outcome.results["message"].notes
    assert list(outcome.results["message"].table["name"]) == ["f1", "f6"]
