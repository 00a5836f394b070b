"""The benchmarks of online substitution and its competitors, small."""

from __future__ import annotations

import pandas as pd
import pytest

pytestmark = pytest.mark.nightly

SMALL = ["--n-informative", "6", "--repeats", "2"]


def test_the_correlated_designs_are_compared(load, tmp_path, capsys):
    arguments = ["--n-features", "150", *SMALL, "--output", str(tmp_path), "--methods", "omp", "l1 batch"]
    assert load("online_substitution_correlated").main(arguments) == 0
    printed = capsys.readouterr().out
    for word in ("common_factor", "autoregressive", "factors", "near_duplicates"):
        assert word in printed


def test_the_peers_are_measured_each_in_a_process(load, tmp_path, capsys):
    arguments = ["--sizes", "200", "--n-informative", "6", "--repeats", "1", "--output", str(tmp_path)]
    assert load("online_substitution_peers").main([*arguments, "--methods", "daskfs omp", "sklearn omp"]) == 0
    assert "sklearn omp" in capsys.readouterr().out
    results = pd.read_csv(tmp_path / "results.csv").set_index("method")
    assert results.loc["daskfs omp", "recall"] == results.loc["sklearn omp", "recall"] > 0.4
    assert (results["seconds"] > 0).all()


def test_without_real_data_nothing_is_done(load, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("DASKFS_DATA", raising=False)
    assert load("online_substitution_real").main(["--output", str(tmp_path)]) == 0
    assert "names no folder of real data" in capsys.readouterr().out
