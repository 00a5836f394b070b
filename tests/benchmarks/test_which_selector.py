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
