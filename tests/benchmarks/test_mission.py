"""The benchmarks of MISSION run, small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        ("mission_speed.py", ["--small", "--rounds", "1"], "times as fast as the paper's, with heap"),
        ("mission_quality.py", ["--small"], "Memory against quality"),
        ("mission_merge.py", ["--small"], "recall"),
        ("mission_dna.py", ["--small"], "| MISSION, 2,000 |"),
    ],
)
def test_a_benchmark_of_mission_runs_small(script, arguments, expected):
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *arguments],
        cwd=BENCHMARKS.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert expected in done.stdout


def test_the_text_like_rows_have_their_law(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from mission_data import text_like

    data = text_like(n_train=500, n_test=50, n_ids=1 << 14, n_relevant=100)
    assert data.X.shape == (500, 1 << 14)
    assert abs((data.X**2).sum(axis=1) - 1.0).max() < 1e-3
    assert len(set(data.relevant.tolist())) == 100
    assert 0.35 < (data.y > 0).mean() < 0.65
