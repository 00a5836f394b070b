"""The benchmarks that hold the memory of processes against what was promised: on small workers, and of few data."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly
def test_a_gigabyte_on_workers_of_216_mib_keeps_every_promise(tmp_path):
    script = ROOT / "benchmarks" / "out_of_core.py"
    small = ["--size", "1GB", "--n-features", "1000", "--subset-size", "500", "--memory-limit", "216MiB"]
    done = subprocess.run(
        [sys.executable, str(script), *small, "--folder", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "every promise is kept"


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["threads", "local", "address"])
def test_processes_take_no_more_than_promised_where_there_are_few_data(load, kind, tmp_path):
    """The promise is that of processes alone, ours and those that others have started as Dask's documentation says."""
    process_memory = load("process_memory")
    limit = 2048 * process_memory.MIB
    running = process_memory.running_cluster(tmp_path, limit) if kind == "address" else nullcontext(("", []))
    with running as (address, others):
        options = process_memory.CLUSTERS[kind] | {"memory_limit": limit} | ({"address": address} if address else {})
        for method in ("screen", "message"):
            found = process_memory.peaks(tmp_path, "few", method, options, others, longest_s=300)
            assert "error" not in found, found
            for process, measured in found["measured_nbytes"].items():
                promised = found["promised_nbytes"]["client" if process == "client" else "worker"]
                assert measured <= promised, (method, process)
