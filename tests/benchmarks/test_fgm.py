"""The benchmarks of FGM at their smallest."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.nightly


def test_the_synthetic_comparison_runs_and_fgm_recovers_what_is_there(load):
    linear = load("fgm_linear")
    for method in ("fgm", "gomp", "l1-lr"):
        row = linear.measure(method, (300, 200), 12, 0)
        assert row["recovered"] >= row["selected"] - 2 >= 4
        assert row["accuracy"] > 0.75


def test_the_shift_is_worth_a_tenth_of_the_accuracy_with_as_many_features_as_are_relevant(load, capsys, monkeypatch):
    linear = load("fgm_linear")
    monkeypatch.setattr(linear, "SHIFT_COUNTS", (320,))
    linear.compare_shift(300, 0, n_seeds=2)
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| 320")]
    with_shift, without = (float(row[3].split("±")[0]) for row in rows)
    assert with_shift >= without + 0.10
    assert float(rows[0][6].split("±")[0]) == pytest.approx(with_shift - without, abs=2e-3)


def test_every_density_gives_the_selection_of_the_dense_copy(load, capsys):
    load("fgm_linear").compare_densities(300, 0)
    lines = capsys.readouterr().out.splitlines()[3:]
    assert [line.split("|")[2].strip() for line in lines] == ["True"] * 5


def test_an_l1_path_is_asked_by_the_number_of_features(load):
    real = load("fgm_real")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 50))
    y = np.where(X[:, :5].sum(axis=1) + rng.standard_normal(200) > 0.0, 1.0, -1.0)
    chosen, _, _ = real.Path1("l1-SVM", X, y).nearest(10)
    assert abs(len(chosen) - 10) <= 2
