"""The benchmarks of online substitution and its competitors, small."""

from __future__ import annotations

import pandas as pd
import pytest

pytestmark = pytest.mark.nightly

COMPETITORS = ["omp", "proj-gd", "proj-gd half", "l1 batch", "grafting", "l1 descent", "l0 descent", "alpha-investing"]
SMALL = ["--n-informative", "6", "--repeats", "2"]


@pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")
def test_the_figures_of_the_paper_are_drawn_and_go_on_where_they_stood(load, tmp_path, capsys):
    arguments = ["--sizes", "150", *SMALL, "--output", str(tmp_path), "--methods", *COMPETITORS]
    assert load("online_substitution_figures").main(arguments) == 0
    assert "figure 2, standard columns, methods" in capsys.readouterr().out
    for name in ("figure_1_unit", "figure_1_standard", "figure_2_standard"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    results = pd.read_csv(tmp_path / "results.csv")
    assert len(results) == 3 * 2 * len(COMPETITORS)
    assert results["recall"].between(0, 1).all()
    by_reading = results[(results["figure"] == 1) & (results["method"] == "omp")].groupby("columns")["recall"].mean()
    assert by_reading["standard"] > by_reading["unit"]
    before = (tmp_path / "results.csv").read_bytes()
    load("online_substitution_figures").main(arguments)
    assert (tmp_path / "results.csv").read_bytes() == before


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
