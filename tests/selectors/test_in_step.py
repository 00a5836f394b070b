"""Paths that are followed in step are those of each alone, and take the passes of the longest."""

from __future__ import annotations

import re
import tracemalloc
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from daskfs import Message, SelectionCV
from daskfs.errors import PlanError
from daskfs.losses import TargetKind
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.choices import NormalEquations
from daskfs.selectors.message.in_step import Products, Weights, in_step
from daskfs.selectors.message.plan import Subsets
from daskfs.selectors.shared.run import Run
from tests.genotype_files import N, cohort, counted_passes
from tests.tolerances import FLOAT64, assert_close, assert_same_answer

SMALL = NormalEquations(*np.zeros((7, 1)))
COVARIATES = ["age", "PC1"]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    return cohort(tmp_path_factory.mktemp("cohort"))


@pytest.fixture
def passes(monkeypatch):
    return counted_passes(monkeypatch)


def test_each_computation_gets_its_own_answers(matrix, passes):
    rng = np.random.default_rng(0)
    X = matrix.read(slice(None)).astype(np.float64)
    some, again = np.sort(rng.permutation(N)[:150]), rng.integers(0, N, 90)

    def asks(rows, n):
        vector, answers = rng.standard_normal(len(rows)), []
        for _ in range(n):
            answers.append((yield Products(matrix.take(rows), vector)))
        moments = yield Weights(matrix.take(rows), np.ones(len(rows)))
        return vector, answers, moments

    wanted = [(some, 2), (again, 5), (np.arange(N), 1)]
    for (rows, n), (vector, answers, moments) in zip(wanted, in_step([asks(*one) for one in wanted]), strict=True):
        assert len(answers) == n
        for answer in answers:
            np.testing.assert_allclose(answer, vector @ X[rows], atol=1e-10)
        np.testing.assert_allclose(moments.mean, X[rows].mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(moments.std, X[rows].std(axis=0), atol=1e-12)
    assert passes == [3, 2, 1, 1, 1]


def test_what_was_computed_ahead_is_not_used_for_other_columns(matrix):
    run = Run(matrix, "example")
    run.put("select-0-0", SMALL)
    assert run.over(matrix.take(np.arange(5))).load("select-0-0", NormalEquations) is SMALL
    wider = ArrayMatrix(np.zeros((N, 3)), np.zeros(N))
    assert run.over(wider).load("select-0-0", NormalEquations) is None


def test_an_error_of_one_ends_all(matrix):
    def fails():
        yield Products(matrix, np.zeros(N))
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        in_step([fails(), fails()])


def screen(self, limits):
    """Stand in for `Subsets.screened`: several subsets are screened though they would fit."""
    return replace(self, settings=replace(self.settings, most_near=200))._in_step(limits)


@pytest.mark.parametrize("n_subsets", [1, 3])
def test_folds_and_the_fit_on_all_rows_share_passes(matrix, passes, monkeypatch, n_subsets):
    monkeypatch.setattr(Subsets, "screened", screen)
    inside = Message(n_subsets=n_subsets, always_include=COVARIATES, max_features=30, partition="strided")
    together = SelectionCV(inside, sizes=[2, 5, 8], cv=3, random_state=0).fit_matrix(matrix)
    n_vectors, longest = sum(passes), len(passes)
    assert max(passes) == 4 * n_subsets, "three folds, and all rows"
    passes.clear()
    monkeypatch.setattr(Message, "ahead", lambda self, run: [])
    alone = SelectionCV(inside, sizes=[2, 5, 8], cv=3, random_state=0).fit_matrix(matrix)
    assert sum(passes) == n_vectors
    assert longest < 0.4 * len(passes)
    assert_close(together.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"], FLOAT64)
    assert_same_answer(together, alone, FLOAT64)


@pytest.mark.slow_cases("multinomial")
@pytest.mark.parametrize("loss", ["squared", "multinomial"])
def test_subsets_and_classes_share_passes_as_far_as_memory_allows(tmp_path, passes, monkeypatch, loss):
    monkeypatch.setattr(Subsets, "screened", screen)
    matrix = cohort(tmp_path, n_classes=0 if loss == "squared" else 3)
    selector = Message(n_subsets=4, always_include=COVARIATES, max_features=20, partition="strided", loss=loss)
    shape = {"dtype": matrix.dtype, "tile_shape": matrix.tile_shape, "names": matrix.names, "has_products": True}
    shape |= {} if loss == "squared" else {"target": TargetKind(3)}
    of_all = selector.plan(*matrix.shape, memory_limit="1GiB", **shape)
    n_paths, answers = 4 if loss == "squared" else 12, []
    for n_in_step in (1, n_paths // 2, n_paths):
        narrow = limited(selector, of_all.task_nbytes, n_in_step, matrix.shape, shape)
        plan = narrow.plan(*matrix.shape, memory_limit=narrow.memory_limit, **shape)
        passes.clear()
        answers.append(clone(narrow).fit_matrix(matrix))  # compiles, too
        assert max(passes) == n_in_step
        tracemalloc.start()
        clone(narrow).fit_matrix(matrix)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= plan.task_nbytes + plan.client_nbytes
        assert_same_answer(answers[-1], answers[0], FLOAT64)


def limited(selector, most, n_in_step, size, shape):
    """Return the selector with the smallest memory limit, of a few, in which so many paths are in step."""
    for limit in np.linspace(0.1 * most, most, 200).astype(int).tolist():
        with suppress(PlanError):
            text = selector.plan(*size, memory_limit=limit, **shape).text
            found = re.search(r"which (\d+) paths share", text)
            if (1 if found is None else int(found[1])) == n_in_step:
                return clone(selector).set_params(memory_limit=limit)
    raise AssertionError
