"""A marker in every place of a pipeline that may hold a secret: it is in no file that a run leaves, no name of a task,
no word that anybody hears."""

import json

import distributed
import numpy as np
import pytest
from typer.testing import CliRunner

from daskfs.cli import app
from daskfs.documents import dump_yaml
from daskfs.objects.address import redacted

MARKER = "s3cr3tM4rker"


@pytest.fixture
def heard(monkeypatch):
    """Everything that schedulers of this process knew when they closed: keys of tasks, spans, events, logs."""
    known, close = [], distributed.Scheduler.close

    async def noted(scheduler, *args, **options):
        spans = scheduler.extensions["spans"].spans.values()
        known.extend(repr(line) for line in scheduler.transition_log)
        known.extend(repr((span.name, sorted(span.groups, key=str))) for span in spans)
        known.append(repr(scheduler.get_events()))
        known.append(repr(scheduler.get_logs()))
        await close(scheduler, *args, **options)

    monkeypatch.setattr(distributed.Scheduler, "close", noted)
    return known


@pytest.fixture
def pipeline(tmp_path, server, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(900, 8))
    text = "\n".join([",".join(f"c{j}" for j in range(8)), *(",".join(f"{x:.4f}" for x in row) for row in rows)])
    server.put("bucket/in/x.csv", text.encode())
    monkeypatch.setenv(
        "WHERE", server.url.replace("http://", f"http://me:{MARKER}@") + f"/bucket/in/x.csv?sig={MARKER}"
    )
    monkeypatch.setenv("SECRET", MARKER)
    monkeypatch.setattr("daskfs.sources.base.MIN_PART_NBYTES", 4096)  # workers make the store
    monkeypatch.setattr("daskfs.pipeline.limits.WORTH_WORKERS_NBYTES", 0)

    def written(**more):
        document = {
            "version": 1,
            "name": "remote",
            "source": {"kind": "csv", "path": "${WHERE}", "target": "c0"},
            "store": {"path": "s3://bucket/out/x.zarr"},
            "storage_options": {
                "access_key_id": "${SECRET}",
                "secret_access_key": "${SECRET}",
                "session_token": MARKER,
                "endpoint": server.url,
                "region": "us-east-1",
            },
            "select": {"method": "fgm", "n_features_to_select": 3},
        } | more
        path = tmp_path / "pipeline.yaml"
        path.write_text(dump_yaml(document))
        return str(path)

    return written


def said(*words):
    found = CliRunner().invoke(app, [*words])
    return found.output + ("" if isinstance(found.exception, SystemExit | None) else repr(found.exception))


def left_in(folder):
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    del found["pipeline.yaml"]
    return [name for name, content in found.items() if MARKER.encode() in content or MARKER in name]


@pytest.mark.slow
def test_a_run_leaves_no_secret_behind(pipeline, tmp_path, heard, capfd, server):
    path = pipeline(cluster={"kind": "local", "n_workers": 1, "memory_limit": "1GiB"})
    output = said("plan", path) + said("plan", path, "--json") + said("run", path)
    assert (tmp_path / "runs" / "remote" / "result.json").exists(), output
    assert left_in(tmp_path) == []
    assert not any(MARKER.encode() in content or MARKER in key for key, (content, *_) in server.objects.items())
    assert any("fgm" in line for line in heard)
    captured = capfd.readouterr()
    assert MARKER not in "".join([*heard, output, captured.out, captured.err])


def test_a_run_that_fails_tells_no_secret(pipeline, tmp_path, heard, capfd, server, monkeypatch):
    monkeypatch.setenv("DASKFS_REQUEST_TRIES", "1")
    path = pipeline(cluster={"kind": "local", "n_workers": 1, "memory_limit": "1GiB"})
    lines = server.objects["bucket/in/x.csv"][0].splitlines()
    server.put("bucket/in/x.csv", b"\n".join([*lines[:700], b"bad" + lines[700], *lines[701:]]))
    output = said("run", path)
    assert "in/x.csv" in output
    captured = capfd.readouterr()
    assert MARKER not in "".join([*heard, output, captured.out, captured.err])
    assert left_in(tmp_path) == []


def test_the_script_of_jobs_is_shown_without_what_came_from_variables(pipeline, tmp_path):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'daskfs[hpc]'")
    lines = ["export HF_HOME=${SECRET}", f"export API_TOKEN={MARKER}", "module load gcc"]
    named = {"prologue": lines, "directives": ["--comment=${SECRET}"], "account": "${SECRET}", "queue": "${SECRET}"}
    path = pipeline(cluster={"kind": "slurm", "n_workers": 1, "walltime": "01:00:00", **named})
    text, document = said("plan", path), said("plan", path, "--json")
    assert "module load gcc" in text
    assert "export HF_HOME=${SECRET}" in text
    assert "#SBATCH --comment=${SECRET}" in json.loads(document)["job_script"]
    assert MARKER not in text + document
    from daskfs.pipeline.config import load_pipeline

    loaded = load_pipeline(path)
    assert MARKER not in dump_yaml(loaded.to_document())
    assert loaded.cluster_arguments["prologue"][0] == f"export HF_HOME={MARKER}"  # what is submitted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"AWS_SECRET_ACCESS_KEY={MARKER} run", "AWS_SECRET_ACCESS_KEY=*** run"),
        (f"export GITHUB_TOKEN='{MARKER} x'; ls", "export GITHUB_TOKEN=***; ls"),
        ("export GITHUB_TOKEN=$(cat token)", "export GITHUB_TOKEN=$(cat token)"),
        ("n_tokens = 5, key=3", "n_tokens = 5, key=3"),
    ],
)
def test_a_line_of_a_shell_is_shown_without_the_secret_it_sets(text, shown):
    assert redacted(text) == shown
