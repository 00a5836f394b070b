"""`Auto` chooses by the records of the job `gauntlet`, and gives them as reasons."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.harness import read
from benchmarks.jobs import quality
from benchmarks.open_sets import OpenSet
from daskfs.model_selection.auto import choose

OF_KIND = {  # shape, classes and sparsity that stand for a kind of the table
    "few rows, thousands of columns; numbers to predict": (100, 5_000, 0),
    "few rows, thousands of columns; classes": (100, 5_000, 2),
    "many rows, some ten columns; numbers to predict": (100_000, 50, 0),
    "many rows of numbers; classes": (20_000, 500, 2),
    "categories as dummies": (50_000, 300, 2),
    "texts": (2_000, 5_000, 2, True),
}


def test_every_kind_of_the_table_is_asked_for():
    assert OF_KIND.keys() == quality.KINDS.keys()


@pytest.mark.parametrize("kind", OF_KIND)
def test_what_is_chosen_is_within_005_of_the_best_of_ours_by_the_measurements_and_so_is_the_reason(kind):
    known = quality.cells(read())
    sets = [one for one in quality.KINDS[kind] if all((one, method, "30") in known for method in quality.COMPARED)]
    mean = {m: np.mean([known[one, m, "30"].refit[0] for one in sets]) for m in quality.COMPARED[:4]}
    found = choose(*OF_KIND[kind])
    assert mean[found.method] > max(mean.values()) - 0.005
    told = [float(number) for number in re.findall(r" (\.\d\d)", found.why)]
    assert any(abs(number - mean[found.method]) < 0.006 for number in told)
    assert str(len(sets)) in found.why


def test_the_reason_for_many_dense_rows_is_that_of_two_sets_of_genotypes():
    mice, cohort = {}, {}
    for record in read():
        by_ours = record.get("ours") and record["status"] == "ok"
        if by_ours and record["job"] == "gauntlet" and record["case"] == {"set": "mice"}:
            method, _, n = record["contender"].rpartition(" ")
            mice |= {method: record["quality"]["refit"]} if n == "30" else {}
        is_cohort = record["job"] == "biobank" and record["case"]["n_samples"] == 10_000
        if by_ours and is_cohort:  # the last record of each method
            cohort[record["contender"]] = record["quality"]["R2 of 20"]
    found = choose(8_000, 20_000, 0)
    assert found.method == "online_substitution"
    candidates = {"fgm": "FGM", "mission": "Mission", "online_substitution": "OnlineSubstitution"}
    assert mice[found.method] > max(mice[one] for one in candidates) - 0.005
    assert cohort[candidates[found.method]] > max(cohort[one] for one in candidates.values()) - 0.005
    reasons = [float(number) for number in re.findall(r" (\.\d\d)", found.why)]
    ours = [mice[found.method], cohort["OnlineSubstitution"], mice["mission"], cohort["Mission"]]
    np.testing.assert_allclose(reasons, ours, atol=0.006)


def cell(own, refit=None, columns=10.0):
    return quality.Cell(columns, None if own is None else (own, 0.01), (own if refit is None else refit, 0.01), 1.0)


def test_every_set_has_its_training_rows_and_columns():
    assert set(quality.TRAINED) == set(quality.SETS)


def test_what_auto_loses_to_comes_first_with_the_sets_of_the_largest_losses_first():
    known = {
        ("higgs", "auto", "own"): cell(0.70),
        ("skin", "auto", "own"): cell(0.90),
        ("a9a", "auto", "own"): cell(0.8),
    }
    known |= {(name, "L2 of all", "own"): cell(0.60) for name in ("higgs", "skin", "a9a")}
    trees = {"higgs": 0.75, "skin": 0.99, "a9a": 0.795}
    known |= {(name, "HistGradientBoosting of all", "own"): cell(own) for name, own in trees.items()}
    first, second = quality.free_sizes(known).splitlines()[2:]
    assert first == "| HistGradientBoosting of all | 3 | 2 | 2 | 0 | skin, higgs |"
    assert second == "| L2 of all | 3 | 0 | 0 | 3 | - |"


def test_at_equal_size_the_best_peer_has_as_many_features():
    known = {("skin", "l1", "10"): cell(0.95), ("skin", "l1", "30"): cell(0.70), ("skin", "fgm", "10"): cell(0.90)}
    known |= {("skin", "fgm", "30"): cell(0.80)}
    rows = [line.split(" | ") for line in quality.equal_sizes(known).splitlines() if line.startswith(("| 10", "| 30"))]
    found = {(row[0].strip("| "), row[1]): row[2:5] for row in rows}
    assert found["10", "fgm"] == ["1", "1", "0"]
    assert found["30", "fgm"] == ["1", "0", "1"]


def test_the_fewest_features_within_a_standard_error_of_the_best_refit_count():
    known = {("skin", "l1", "10"): cell(0.9, columns=9.0), ("skin", "l1", "30"): cell(0.95, columns=30.0)}
    known |= {("skin", "fgm", "10"): cell(0.945, columns=10.0), ("skin", "trees", "10"): cell(0.5)}
    rows = [line.split(" | ") for line in quality.fewest_features(known).splitlines()[2:]]
    found = {row[0].strip("| "): row[1:4] for row in rows}
    assert found == {"l1": ["1", "0", "0"], "fgm": ["1", "0", "1"], "trees": ["1", "1", "0"]}


def test_a_reference_does_not_select_and_is_judged_by_its_own_predictions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)).astype(np.float32)
    data = OpenSet("made", X, X[:, 0] + 0.1 * rng.standard_normal(60), "regression")
    answer = quality.contender("L2 of all", "own").run(data)
    assert all(columns is None for columns, _ in answer)
    found = quality.judge(data, answer)
    assert found["columns"] == 5
    assert found["own"] > 0.9
    assert "refit" not in found
