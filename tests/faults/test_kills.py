"""Runs that are killed or terminated at a chosen moment are resumed to the same bits, and say how."""

from __future__ import annotations

import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import daskfs
from tests.faults.kills import METHODS, command, end_of, ends_the_same, prepare, run

TABLE = "a,b,c,y\n" + "".join(f"{i % 17},{i * 7 % 13},{'uvw'[i % 3]},{i % 5}\n" for i in range(2000))
"""Of its texts Arrow loads pandas."""


@pytest.fixture(scope="module")
def of_message(tmp_path_factory):
    folder = tmp_path_factory.mktemp("message")
    prepare(folder, "message")
    return folder


def continued(folder):
    return f"interrupted\ncontinue with `daskfs run --resume {folder / 'trial'}`\n"


@pytest.mark.slow
def test_a_killed_run_is_resumed_to_the_same_bits(of_message):
    done = run(of_message, at=2, how=signal.SIGKILL)
    assert end_of(of_message, done, signal.SIGKILL) == "identical", done.stderr


@pytest.mark.nightly
def test_a_run_terminated_in_a_kernel_is_resumed_to_the_same_bits(of_message):
    done = run(of_message, moment="kernel after a save", at=1, how=signal.SIGTERM)
    assert done.stderr.endswith(continued(of_message)), done.stderr
    assert end_of(of_message, done, signal.SIGTERM) == "identical"


@pytest.mark.nightly
def test_a_second_ctrl_c_while_things_are_put_in_order_changes_nothing(of_message):
    """It ended the process without a word."""
    done = run(of_message, at=2, twice=True)
    assert (done.returncode, done.stderr.endswith(continued(of_message))) == (130, True), done.stderr
    assert end_of(of_message, done, signal.SIGINT) == "identical"


@pytest.mark.nightly
def test_an_interrupt_while_matplotlib_is_imported_leaves_a_run_to_be_resumed(of_message):
    """It ended with the traceback of a RuntimeError."""
    done = run(of_message, moment="matplotlib", at=1)
    assert (done.returncode, done.stderr.endswith(continued(of_message))) == (130, True), done.stderr
    assert end_of(of_message, done, signal.SIGINT) == "identical"


@pytest.mark.nightly
def test_a_run_that_is_whole_is_not_said_to_be_interrupted(of_message):
    done = run(of_message, moment="rename", at=1)
    assert (done.returncode, "interrupted" in done.stderr) == (0, False), done.stderr
    assert ends_the_same(of_message)


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("moment", ["pandas", pytest.param("write", marks=pytest.mark.nightly)])
def test_an_ingest_that_is_stopped_leaves_nothing(tmp_path, moment, how):
    """Arrow swallowed what came while it imported pandas: the ingest ended with 0."""
    (tmp_path / "table.csv").write_text(TABLE)
    done = command(tmp_path, "ingest", "table.csv", "s.zarr", "--target", "y", moment=moment, at=1, how=how)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "at", "how"),
    [
        ("part", 2, signal.SIGINT),
        pytest.param("part", 4, signal.SIGTERM, marks=pytest.mark.nightly),
        pytest.param("first tiles", 1, signal.SIGINT, marks=pytest.mark.nightly),
        pytest.param("other tiles", 2, signal.SIGINT, marks=pytest.mark.nightly),
        pytest.param("other tiles", 3, signal.SIGTERM, marks=pytest.mark.nightly),
    ],
)
def test_an_ingest_by_workers_that_is_stopped_leaves_finished_parts_or_nothing(tmp_path, moment, at, how):
    """Tasks that run on make no folder anew: they are waited for before it ends."""
    columns = np.random.default_rng(0).normal(size=(9, 5000))
    pq.write_table(pa.table([*columns], [*"abcdefghy"]), tmp_path / "table.parquet", row_group_size=300)
    order = ("ingest", "table.parquet", "s.zarr", "--target", "y", "--workers", "2")
    done = command(tmp_path, *order, moment=moment, at=at, how=how, group=how == signal.SIGINT)
    unfinished = tmp_path / "s.zarr.unfinished"
    kept = [f"the finished parts are kept in {unfinished}; the same ingest or run continues from them"]
    told = ["interrupted", *(kept if unfinished.exists() else [])]
    assert (done.returncode, done.stderr.splitlines()[-len(told) :]) == (130, told)
    assert "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"table.parquet", "s.zarr.unfinished"}
    for name in ("s.zarr", "whole.zarr"):  # one continues, the other begins
        assert command(tmp_path, "ingest", "table.parquet", name, *order[3:]).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"table.parquet", "s.zarr", "whole.zarr"}
    assert daskfs.open_store(tmp_path / "s.zarr").digest == daskfs.open_store(tmp_path / "whole.zarr").digest


@pytest.mark.slow
def test_a_store_that_is_whole_is_not_said_to_be_interrupted(tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    done = command(tmp_path, "ingest", "table.csv", "s.zarr", "--target", "y", moment="rename", at=1)
    assert (done.returncode, "interrupted" in done.stderr) == (0, False), done.stderr
    assert command(tmp_path, "verify", "s.zarr").returncode == 0


@pytest.mark.nightly
def test_a_terminal_s_ctrl_c_ends_a_cluster_of_processes_in_order(of_message):
    """The workers do not hear it; the client ends them, and the run is resumed without them."""
    local = ("cluster.kind=local", "cluster.n_workers=2", "cluster.memory_limit=1GiB", "cluster.dashboard_address=null")
    options = [word for setting in local for word in ("--set", setting)]
    done = run(of_message, *options, moment="save", at=2, group=True)
    assert (done.returncode, done.stderr.endswith(continued(of_message))) == (130, True), done.stderr
    assert end_of(of_message, done, signal.SIGINT) == "identical"


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "message"])
def test_every_method_is_resumed_to_the_same_bits(tmp_path, method, how):
    prepare(tmp_path, method)
    for moment, at in (("save", 2), ("kernel", 5), ("kernel", 30)):
        done = run(tmp_path, moment=moment, at=at, how=how)
        end = end_of(tmp_path, done, how)
        assert end in ("identical", "was whole", "nothing was computed"), (moment, at, end, done.stderr)
