"""Runs without a store: a sparse source is learnt from as it is read; lines that come through a pipe."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from daskfs.errors import ConfigError, PlanError, RunError
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.plan import plan_of_stream
from daskfs.pipeline.run import run_pipeline
from daskfs.pipeline.steps.learn import Holdout
from daskfs.pipeline.stream_checks import check_stream
from daskfs.selectors.mission.fit import History
from daskfs.selectors.mission.model import MissionModel
from daskfs.selectors.mission.selector import Mission
from daskfs.sources.sparse.streams import LineStream
from daskfs.sources.sparse.vw import VwSource
from tests.contract.lab import assert_same_bits
from tests.processes import Process
from tests.refusals import refused

N_ROWS = 3000


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = np.random.default_rng(0)
    lines = []
    for k in range(N_ROWS):
        words = np.unique(rng.integers(0, 400, 12))
        y = 1 if (7 in words) != (rng.random() < 0.02) else -1
        lines.append(f"{y} '{'even' if k % 2 else 'odd'}|text " + " ".join(f"w{j}" for j in words))
    path = tmp_path_factory.mktemp("text") / "a.vw"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def pipeline(text, tmp_path):
    path = tmp_path / "text.yaml"
    path.write_text(
        f"version: 1\nname: text\nsource: {{kind: vw, path: {text}}}\nstore: none\n"
        "select: {method: mission, n_features_to_select: 3}\noutput: run\n"
    )
    return path


def test_a_pipeline_without_a_store_learns_from_its_source(pipeline, text, tmp_path):
    outcome = run_pipeline(load_pipeline(pipeline))
    folder = tmp_path / "run"
    assert {path.name for path in folder.iterdir()} >= {
        "pipeline.yaml", "result.json", "selected.csv", "history.parquet", "metrics.json", "report.html", "model.npz",
    }  # fmt: skip
    assert not list(tmp_path.glob("**/*.zarr"))
    result = outcome.results["mission"]
    assert result.table["name"].iloc[0] == "text^w7"
    assert pd.read_csv(folder / "selected.csv")["name"].iloc[0] == "text^w7"
    assert json.loads((folder / "metrics.json").read_text())["accuracy"] > 0.9
    assert "progressive_loss" in pd.read_parquet(folder / "history.parquet")
    assert "rows/s" in (folder / "run.log").read_text()
    assert 0.7 * N_ROWS < result.n_samples < 0.9 * N_ROWS
    document = json.loads((folder / "result.json").read_text())
    assert document["selected"][0]["index"] == result.table["index"].iloc[0]
    again = load_pipeline(folder / "pipeline.yaml", ["output=again"])
    assert again.is_stream


@pytest.mark.slow
def test_the_model_of_a_run_goes_on(pipeline, text, tmp_path):
    run_pipeline(load_pipeline(pipeline, ["split=null"]))
    found = Mission.load(tmp_path / "run" / "model.npz").partial_fit(VwSource(text))
    expected = Mission(3).fit_source(VwSource(text)).partial_fit(VwSource(text))
    assert_same_bits(found, expected)
    assert found.result_.n_samples == 2 * N_ROWS


def test_parts_of_a_source_are_learnt_from_side_by_side(pipeline, text, tmp_path):
    half = tmp_path / "half.vw"
    half.write_text("".join(text.read_text().splitlines(keepends=True)[:1000]))
    changes = [f"source.path=[{text}, {half}, {half}]", "split=null", "select.n_replicas=2"]
    here = run_pipeline(load_pipeline(pipeline, changes)).results["mission"]
    there = run_pipeline(load_pipeline(pipeline, [*changes, "cluster={kind: threads, n_workers: 2}", "output=there"]))
    assert here.table.equals(there.results["mission"].table)
    assert here.n_samples == N_ROWS + 2000
    assert here.table["name"].iloc[0] == "text^w7"
    assert here.history["rows_seen"].tolist() == [N_ROWS + 1000, N_ROWS + 2000]
    assert "2 models were averaged after each part of the source" in here.notes
    found = Mission.load(tmp_path / "run" / "model.npz").partial_fit(VwSource([text, half]))
    expected = Mission(3, n_replicas=2).fit_source(VwSource([text, half, half])).partial_fit(VwSource([text, half]))
    assert_same_bits(found, expected)


@pytest.mark.slow
def test_rows_for_testing_are_the_same_in_blocks_of_any_length(pipeline, text):
    split = load_pipeline(pipeline).split
    parts = [
        np.concatenate([Holdout(split).is_test(block) for block in VwSource(text).sparse_blocks(n, 10**6)])
        for n in (7, 1000)
    ]
    np.testing.assert_array_equal(*parts)
    assert abs(parts[0].mean() - 0.2) < 0.03
    by_tag = load_pipeline(pipeline, ["split={by: tag, test: even}"])
    is_test = np.concatenate([Holdout(by_tag.split).is_test(b) for b in VwSource(text).sparse_blocks(7, 10**6)])
    assert is_test.tolist() == [bool(k % 2) for k in range(N_ROWS)]
    assert run_pipeline(by_tag).results["mission"].n_samples == N_ROWS // 2


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        (["select={method: message}"], "needs a store"),
        (["source=null"], "expected a source because there is no store"),
        (["split.by=order"], "cannot be split by 'order'"),
        (["cluster.kind=local"], "in this process"),
        (["select.n_replicas=2"], "trains on all rows"),
        (["refit.by=ridge"], "a refit needs a store"),
        (["evaluate.metrics=[selection_recall, accuracy]"], "true features"),
        (["source={kind: csv, path: a.csv, target: y}"], "needs a store|no such file|No such"),
    ],
)
def test_what_needs_a_store_is_refused(pipeline, tmp_path, changes, where):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    with pytest.raises(ConfigError, match=where):
        check_stream(load_pipeline(pipeline, changes))
    with pytest.raises(ConfigError, match=where):
        run_pipeline(load_pipeline(pipeline, changes))
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_store_is_planned(pipeline):
    text = plan_of_stream(load_pipeline(pipeline))
    assert "no store: one pass over about" in text
    assert "3 features, a sketch of 3 x 262,144 cells" in text
    assert all(term in text for term in ("parsed blocks of the source", "names of active features", "models"))
    with refused(PlanError, "memory-limit", at="memory_limit", naming=["blocks"]):
        Mission(3, memory_limit="20MiB").plan_source(VwSource(load_pipeline(pipeline).source.path))
    with refused(RunError, "run-folders", naming=["resume"]):
        run_pipeline(load_pipeline(pipeline), resume=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_replicas", "owner", "name", "at"), [(1, MissionModel, "train", 15), (2, History, "after", 2)]
)
def test_an_interrupted_run_of_files_goes_on_where_it_stood(pipeline, text, tmp_path, n_replicas, owner, name, at):
    other = tmp_path / "other.vw"
    other.write_bytes(text.read_bytes())
    os.utime(other, ns=(10**18, 10**18))
    changes = [f"source.path=[{text}, {text}, {other}]", f"select.n_replicas={n_replicas}", "split=null"]
    expected = run_pipeline(load_pipeline(pipeline, [*changes, "output=whole"])).results["mission"]
    calls, original = [], getattr(owner, name)

    def interrupted(*args, **more):
        calls.append(args)
        if len(calls) == at:
            raise KeyboardInterrupt
        return original(*args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            run_pipeline(load_pipeline(pipeline, changes))
    assert "--resume" in caught.value.__notes__[0]
    os.utime(other, ns=(10**18, 2 * 10**18))
    with refused(RunError, "run-folders", naming=["files"]):
        run_pipeline(load_pipeline(pipeline, changes), resume=True)
    os.utime(other, ns=(10**18, 10**18))
    calls.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, lambda *args, **more: (calls.append(args), original(*args, **more))[1])
        found = run_pipeline(load_pipeline(pipeline, changes), resume=True).results["mission"]
    assert 0 < len(calls) < at
    assert found.table.equals(expected.table)
    assert found.history.equals(expected.history)


@pytest.mark.slow
def test_lines_of_a_pipe_are_learnt_from_as_a_file_is(text, tmp_path):
    command = [sys.executable, "-m", "daskfs", "select", "-", "--method", "mission", "--format", "vw"]
    with text.open("rb") as lines:
        done = subprocess.run(
            [*command, "--n-features", "3"], stdin=lines, capture_output=True, text=True, cwd=tmp_path, check=True
        )
    assert "3 features selected from 3,000 samples" in done.stdout
    assert "text^w7" in done.stdout
    told = [line.split()[0] for line in done.stderr.splitlines() if "rows/s" in line]
    assert told == ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1,024", "2,048", "3,000"]
    found = Mission.load(tmp_path / "runs" / "stream-mission" / "model.npz")
    expected = Mission(3).fit_source(VwSource(text))
    assert_same_bits(found, expected)
    for more in (["--method", "mission"], ["--method", "message", "--format", "vw"], ["--format", "csv"]):
        failed = subprocess.run(
            [*command[:4], *more], input=b"1 |a b\n", capture_output=True, cwd=tmp_path, check=False
        )
        assert failed.returncode == 2
        assert b"Traceback" not in failed.stderr


SELECT = [sys.executable, "-m", "daskfs", "select", "-", "--method", "mission", "--format", "vw"]


@pytest.mark.slow
def test_an_interrupted_pipe_leaves_a_model_that_takes_more_lines(text, tmp_path):
    lines = 2 * text.read_bytes().splitlines(keepends=True)
    command = [*SELECT, "--n-features", "3", "--output", "run"]
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path}
    with Process(command, **pipe) as process:
        process.stdin.write(b"".join(lines[:4500]))
        process.stdin.flush()
        while b" 4,096 rows  loss" not in process.stderr.readline():  # not 14,096 rows/s
            assert process.poll() is None
        process.send_signal(signal.SIGINT)  # while it waits for more, with the pipe open
        shown = process.stderr.read().decode()
        assert process.wait() == 130
    model = tmp_path / "run.unfinished" / "checkpoint" / "model.npz"
    assert "the model so far is in" in shown
    assert "--resume" not in shown
    n_before = Mission.load(model).result_.n_samples
    assert 4096 <= n_before <= 4500
    rest = {"input": b"".join(lines[n_before:]), "capture_output": True, "cwd": tmp_path, "check": False}
    done = subprocess.run([*SELECT, "--resume", "run"], **rest)
    assert done.returncode == 2
    assert b"on standard input cannot be resumed" in done.stderr
    done = subprocess.run([*SELECT, "--n-features", "4", "--model", str(model)], **rest)
    assert done.returncode == 2
    assert b"keeps its own parameters" in done.stderr
    done = subprocess.run([*SELECT, "--output", "run", "--model", str(model), "--force"], **rest)
    assert done.returncode == 0, done.stderr
    found, expected = Mission.load(tmp_path / "run" / "model.npz"), Mission(3).fit_source(VwSource([text, text]))
    assert found.result_.n_samples == expected.result_.n_samples
    assert found.result_.table["name"].iloc[0] == "text^w7"


@pytest.mark.slow
def test_a_pipe_may_be_empty_or_without_end_and_its_features_have_pairs(text, tmp_path):
    run = {"capture_output": True, "cwd": tmp_path, "check": False}
    empty = subprocess.run(SELECT, input=b"", **run)
    assert (empty.returncode, b"expected rows, found none" in empty.stderr) == (2, True)
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())
    command = [*SELECT, "--max-rows", "700", "--interactions", "all", "--n-features", "5"]
    with Process(["yes", "1 |a b c\n-1 |a d e"], stdout=subprocess.PIPE) as endless:
        done = subprocess.run(command, stdin=endless.stdout, **run)
    assert done.returncode == 0, done.stderr
    assert b"features selected from 700 samples" in done.stdout
    assert b"a^b * a^c" in done.stdout


class Dribble(io.RawIOBase):
    """Gives a few bytes at a time."""

    def __init__(self, data, step):
        self.data, self.step = data, step

    def readable(self):
        return True

    def readinto(self, room):
        n = min(self.step, len(room), len(self.data))
        room[:n], self.data = self.data[:n], self.data[n:]
        return n


@pytest.mark.parametrize("step", [1, 3, 4, 1000])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_pipe_may_give_any_number_of_bytes(step, mark):
    data = mark + b"1 2:0.5 9223372036854775807:1\n-1 3:1"
    (block,) = LineStream(Dribble(data, max(step, 3)), "libsvm").sparse_blocks(100, 100)
    assert block.features.tolist() == [2, 2**63 - 1, 3]
    assert block.y.tolist() == [1.0, -1.0]
