"""The smallest cases of the benchmarks of online substitution."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(script, *arguments):
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS.parent)}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def test_genotypes_on_disk_are_selected_in_a_process_of_their_own(tmp_path):
    sizes = ["--n-samples", 3000, "--n-features", 1500, "--n-selected", 20, "--memory-limit", "60MB"]
    said = run("online_substitution_wide.py", *sizes, "--folder", tmp_path)
    assert "columns in 2 epochs" in said
    assert "p = 2,000,000" in said
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_speeds_has_a_line_for_each_case():
    said = run("online_substitution.py", "--n", 400, "--s", 8, 16, "--megabytes", 1)
    lines = [line for line in said.splitlines() if line.startswith("| 400 ")]
    assert len(lines) == 8
    assert all(float(line.split("|")[7].replace(",", "")) > 0 for line in lines)


def test_whole_groups_are_found_oftener_than_by_columns():
    said = run("online_substitution_groups.py", "--planted", "--kinds", "dummies", "--seeds", 2)
    recall = {line.split("|")[2].strip(): float(line.split("|")[3]) for line in said.splitlines() if "|" in line}
    assert recall["groups"] >= recall["matching pursuit"] - 0.5
    assert recall["groups"] > recall["columns"]
