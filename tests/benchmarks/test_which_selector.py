"""`Auto` chooses by the records of the job `gauntlet`, and gives them as reasons."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.harness import read
from benchmarks.jobs import quality
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
