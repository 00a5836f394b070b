"""The benchmarks of Asy-OS at their smallest: they start clusters of processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "async_online_substitution.py"
SMALL = ["--n-features", "1024", "--n-informative", "8"]


def run(folder, *arguments):
    command = [sys.executable, str(BENCHMARK), *arguments, "--scratch", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_time_of_workers_is_taken(tmp_path):
    said = run(tmp_path, "speed", "--n-samples", "400", *SMALL, "--repeats", "1", "--one-core-each")
    assert "speed-up of 2 workers over 1" in said


def test_processes_are_killed_and_the_runs_end(tmp_path):
    said = run(tmp_path, "faults", "--n-samples", "400", "--kills", "1", "--n-features", "3000", *SMALL[2:])
    assert "nodes lost" in said.splitlines()[-4]


def test_calls_are_measured_in_both_precisions(tmp_path):
    said = run(tmp_path, "calls")
    assert [line.split(":")[0].split("=")[-1].strip() for line in said.splitlines()] == [
        "nothing",
        "1,000",
        "10,000",
        "100,000",
        "1,000,000",
    ]
