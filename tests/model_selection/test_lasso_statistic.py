"""The Lasso that compares columns with knockoffs: its minimum, penalty and responses, and columns beyond its room."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LassoCV

from daskfs import Knockoffs, OnlineSubstitution
from daskfs.errors import PlanError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.model_selection import lasso_statistic
from daskfs.model_selection.knockoff_columns import KnockoffMatrix, column_blocks
from daskfs.model_selection.lasso_statistic import Fold, FoldSums, LassoSizes, responses_of
from daskfs.model_selection.second_order import law_of
from daskfs.selectors.shared.budget import DataShape, Limits
from daskfs.selectors.shared.run import Run
from tests.refusals import refused


def columns_and_knockoffs(n=200, p=30, n_true=8, seed=0, weight=None, width=30):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * rng.uniform(0.5, 3.0, p) + 2.0
    y = ((X - 2.0) / X.std(axis=0))[:, :n_true] @ np.resize([0.5, -0.5], n_true) + rng.standard_normal(n)
    matrix = ArrayMatrix(X, y=y, weight=weight, shuffled=True)
    blocks = column_blocks(list(np.arange(p)[:, None]), width)
    return KnockoffMatrix(matrix, blocks, [law_of(matrix, "mvr", 10**6, block) for block in blocks], seed)


def sizes_of(matrix, loss="squared"):
    found = LassoSizes()
    found.loss_ = loss
    return found.fit_run(Run(matrix, "test")).sizes_


@pytest.mark.slow
def test_it_is_the_lasso_at_a_penalty_as_good_as_that_of_scikit_learn():
    matrix = columns_and_knockoffs()
    sizes = sizes_of(matrix)
    Z = (matrix.read(slice(None)) - np.repeat(matrix.means, 2)) / np.repeat(matrix.deviations, 2)
    y = matrix.read_target(slice(None))
    y = (y - y.mean()) / y.std()
    gradient = np.abs((Z - Z.mean(axis=0)).T @ (y - Lasso(alpha=0.05).fit(Z, y).predict(Z)))
    assert gradient.max() > 0.0
    theirs = LassoCV(cv=5, alphas=100).fit(Z, y)
    alphas = np.geomspace(theirs.alpha_ / 3, theirs.alpha_ * 3, 400)
    nearest = min((np.abs(np.abs(Lasso(alpha=a, tol=1e-9).fit(Z, y).coef_) - sizes).max(), a) for a in alphas)
    assert nearest[0] < 2e-3  # between two penalties of the grid
    assert 0.4 < nearest[1] / theirs.alpha_ < 2.5


def test_rows_of_a_weight_are_rows_that_are_there_so_often():
    weight = np.random.default_rng(1).integers(0, 3, 200).astype(float)
    matrix = columns_and_knockoffs(weight=weight)
    every = np.arange(60)
    moments = (every, np.repeat(matrix.means, 2), np.repeat(matrix.deviations, 2))
    responses = responses_of(matrix.read_target(slice(None)), weight, "squared")
    assert np.average(responses, weights=weight, axis=0) == pytest.approx(0.0, abs=1e-12)
    rows = Fold("0", np.array([0, 150]), np.array([80, 200]))
    found = lasso_statistic.sums_on_fold(matrix, lasso_statistic.Columns(*moments), responses, rows)
    Z = np.column_stack([(matrix.read(rows.rows) - moments[1]) / moments[2], responses[rows.rows], np.ones(130)])
    assert found.total == weight[rows.rows].sum()
    np.testing.assert_allclose(found.products, (Z * weight[rows.rows, None]).T @ Z, atol=1e-9)


def test_columns_beyond_the_room_join_where_the_lasso_would_let_them_in(monkeypatch):
    whole = sizes_of(columns_and_knockoffs(400, 120, 12, width=40))
    monkeypatch.setattr(lasso_statistic, "MOST_COLUMNS", 120)
    some = sizes_of(columns_and_knockoffs(400, 120, 12, width=40))
    assert np.corrcoef(whole, some)[0, 1] > 0.95  # the penalty is another: folds see columns that all rows have chosen
    assert (np.argsort(-some)[:12, None] == np.argsort(-whole)[:14]).any(axis=1).all()


def test_every_kind_of_target_has_responses():
    y = np.array([0.0, 1.0, 2.0, 2.0, 1.0])
    assert responses_of(y, None, "logistic").shape == (5, 3)
    assert responses_of((y > 0).astype(float), None, "squared_hinge").shape == (5, 1)
    clipped = responses_of(np.r_[y, 1e6], None, "huber").ravel()
    assert clipped[-1] < 3.0
    for loss in ("squared", "poisson", "huber", "multinomial"):
        found = responses_of(y, None, loss)
        np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(found.std(axis=0), 1.0)


def test_a_target_that_hangs_on_nothing_has_no_sizes_of_constants():
    matrix = columns_and_knockoffs(40, 5, 0)
    matrix._matrix._X[:, 2] = 1.0
    blocks = column_blocks(list(np.arange(5)[:, None]), 5)
    again = KnockoffMatrix(matrix._matrix, blocks, [law_of(matrix._matrix, "mvr", 10**6, blocks[0])], 0)
    of_columns, of_knockoffs = again.parted(sizes_of(again))
    assert of_columns[2] == of_knockoffs[2] == 0.0


def test_sums_say_means_and_covariances():
    Z = np.random.default_rng(0).standard_normal((50, 3))
    parts = (Z, np.ones(50)), (Z[:20], np.ones(20))
    whole, fold = (FoldSums(len(rows), np.c_[rows, one].T @ np.c_[rows, one]) for rows, one in parts)
    before = whole.products.copy()
    for left_out, rest in ((None, Z), (fold, Z[20:])):
        mean, covariance = whole.without(left_out)
        np.testing.assert_allclose(mean, rest.mean(axis=0))
        np.testing.assert_allclose(covariance, np.cov(rest.T, bias=True))
    np.testing.assert_array_equal(whole.products, before)


def test_a_limit_that_is_too_small_is_refused_and_another_statistic_is_not():
    selector = Knockoffs(OnlineSubstitution(10), statistic="lasso")
    needed = selector.plan(2000, 600, "float32", None).task.terms["products of a fold"]
    assert needed >= 3 * 8 * 1200**2  # the sums, what is kept of them, and what is sent
    with refused(PlanError, "memory-limit", at="memory_limit", naming=["1,200", '"coefficient"']):
        selector.plan(2000, 600, "float32", 80_000_000)
    plan = Knockoffs(OnlineSubstitution(10), statistic="coefficient").plan(2000, 600, "float32", 80_000_000)
    assert plan.task_nbytes <= 80_000_000


def test_columns_that_have_room_are_read_as_often_as_planned(monkeypatch):
    matrix, read, n_read = columns_and_knockoffs(60, 5, 2), KnockoffMatrix.read, []

    def counted(self, *given):
        n_read.append(len((found := read(self, *given)).ravel()))
        return found

    monkeypatch.setattr(KnockoffMatrix, "read", counted)
    sizes_of(matrix)
    plan = LassoSizes()._planned(DataShape.of(matrix), Limits())
    assert sum(n_read) == plan.n_passes * np.prod(matrix.shape)
