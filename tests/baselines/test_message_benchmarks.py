"""The benchmarks of the paper's figures and of outliers, small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def run():
    def run(name, *arguments):
        command = [sys.executable, str(BENCHMARKS / name), *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=BENCHMARKS.parent, timeout=500)

    return run


def test_the_figures_are_drawn(run, tmp_path):
    small = ["--cases", "1", "--correlations", "0", "--sizes", "2000", "--n-features", "100", "--replicates", "2"]
    done = run("message_figures.py", *small, "--n-bootstraps", "4", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "case 1, correlation 0: figure 1, 2 data sets" in done.stdout
    assert (tmp_path / "figure_1.png").stat().st_size > 10_000
    results = pd.read_csv(tmp_path / "figures.csv").set_index(["method", "seed"])
    assert len(results) == 12
    assert results.loc["message", "found"].all()
    assert (results.loc["averaging", "mse"] > results.loc["message", "mse"]).all()
    assert (results.loc["message", "mse"] < 1.5 * results.loc["oracle", "mse"]).all()


def test_the_table_of_outliers_is_printed(run):
    done = run("message_heavy_tails.py", "--n-samples", "2000", "--n-features", "50", "--replicates", "2")
    assert done.returncode in (0, 1), done.stderr
    for word in ("ten rows", "leverage", "message, huber", "with ten corrupted rows MESSAGE finds"):
        assert word in done.stdout
