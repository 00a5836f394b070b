"""The steps of MESSAGE one by one: partition, choice by criterion or estimator, refit, average, what travels."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge

from daskfs.errors import SelectionWarning
from daskfs.kernels.linear.gram_matrix import WHOLE_GRAM_COLUMNS
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.choices import CACHE_NBYTES, SelectionSettings
from daskfs.selectors.message.errors import SELECTED_ON_THE_SAME_ROWS
from daskfs.selectors.message.fits import Average, Part, fit_subsets, newton_step
from daskfs.selectors.message.plan import Subsets, strided, subset_starts, why_n_subsets
from daskfs.selectors.message.selector import GOALS, Message
from daskfs.selectors.message.subset import Derivatives
from daskfs.selectors.message.tasks import SubsetPasses
from daskfs.selectors.shared.budget import DataShape
from daskfs.selectors.shared.run import Run
from daskfs.sources.ingest import ingest
from tests.tolerances import assert_close

TRUE_FEATURES = [2, 5, 11]


@pytest.mark.parametrize(("n_samples", "n_subsets"), [(12, 3), (13, 3), (14, 4), (15, 4), (101, 7)])
def test_strided_subsets_span_all_rows(n_samples, n_subsets):
    X = np.arange(n_samples, dtype=float)[:, None]
    order = strided(ArrayMatrix(X), n_subsets).rows
    np.testing.assert_array_equal(np.sort(order), np.arange(n_samples))
    starts = subset_starts(n_samples, n_subsets)
    for i in range(n_subsets):
        rows = order[starts[i] : starts[i + 1]]
        whole = n_samples // n_subsets
        np.testing.assert_array_equal(rows[:whole], i + n_subsets * np.arange(whole))


def test_strided_subsets_know_what_only_a_part_of_the_rows_tells(problem, tmp_path):
    """A column that varies in the last year alone is constant in most subsets of consecutive rows."""
    X, y = problem[0].copy(), problem[1].copy()
    X[:900, 7] = 0.0
    y += 2 * X[:, 7]
    store = ingest(X, tmp_path / "ordered.zarr", y=y, shuffle=False)
    strided_subsets = Message(n_subsets=5, partition="strided").fit(store)
    np.testing.assert_array_equal(np.flatnonzero(strided_subsets.support_), [2, 5, 7, 11])
    with pytest.warns(UserWarning, match="strided"):
        consecutive = Message(n_subsets=5).fit(store)
    assert not consecutive.support_[7]
    assert Message(n_subsets=1).fit(store).support_[7]  # all rows in any order: no warning


def test_a_strided_plan_reads_all_tiles_in_every_task():
    whole = 49 * 2048 * 512 * 4
    plans = {
        partition: Message(n_subsets=20, partition=partition).plan(100_000, 500, "float32", 2**26, 1, (2048, 512))
        for partition in ("random", "strided")
    }
    assert plans["random"].n_tasks > 1
    assert plans["random"].read_nbytes < 2 * whole
    assert plans["strided"].read_nbytes == plans["strided"].n_tasks * whole


@pytest.mark.parametrize(
    ("n_samples", "n_features", "reason"),
    [
        (
            1000,
            10,
            "one subset of all 1,000 rows was chosen: a subset needs at least 400 rows to choose among 10 features",
        ),
        (1200, 10, "3 subsets of 400 rows were chosen: a subset needs at least 400 rows to choose among 10 features"),
        (10_000, 1000, "5 subsets of 2,000 rows were chosen: enough for a vote"),
        (2_000_000, 74, "19 subsets of 105,264 rows were chosen: subsets of at most 8,388,608 values"),
        (50_000, 10_000, "25 subsets of 2,000 rows were chosen: a subset needs at least 2,000 rows to choose"),
    ],
)
def test_the_reason_for_the_number_of_subsets_is_said(n_samples, n_features, reason):
    assert why_n_subsets(n_samples, n_features).startswith(reason)


def test_the_result_says_how_many_subsets_were_chosen_only_where_nobody_asked(problem):
    assert "3 subsets of 400 rows were chosen" in Message().fit(*problem).result_.notes[0]
    assert Message(n_subsets=3).fit(*problem).result_.notes == [SELECTED_ON_THE_SAME_ROWS, GOALS["inference"]]


def test_a_penalty_of_the_users_takes_the_place_of_the_criterion(problem):
    bic = Message(n_subsets=3, criterion="bic").fit(*problem)
    own = Message(n_subsets=3, gic_penalty=float(np.log(400))).fit(*problem)
    np.testing.assert_array_equal(own.result_.history["gic"], bic.result_.history["gic"])
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        assert not Message(n_subsets=3, gic_penalty=1e6).fit(*problem).support_.any()


def test_the_noise_variance_may_be_known(problem):
    history = Message(n_subsets=3, sigma2=1.3, criterion="ebic").fit(*problem).result_.history
    penalty = np.log(400) + np.log(20)
    np.testing.assert_allclose(history["gic"], 400 * history["rss"] / 1.3 + penalty * history["df"], rtol=1e-12)


def test_any_estimator_with_coefficients_may_select(problem):
    X, y = problem
    lasso = Message(n_subsets=3, estimator=Lasso(alpha=0.2)).fit(X, y)
    np.testing.assert_array_equal(np.flatnonzero(lasso.support_), TRUE_FEATURES)
    order = np.argsort(np.random.default_rng(0).random(len(y)), kind="stable")
    chosen = [np.flatnonzero(Lasso(alpha=0.2).fit(X[rows], y[rows]).coef_) for rows in np.split(order, 3)]
    np.testing.assert_array_equal(lasso.n_selected_per_subset_, [len(columns) for columns in chosen])
    np.testing.assert_allclose(lasso.scores_, np.bincount(np.concatenate(chosen), minlength=20) / 3)
    assert lasso.result_.history.empty
    ridge = Message(n_subsets=3, estimator=Ridge()).fit(X, y)
    assert ridge.support_.all()  # chooses every feature
    np.testing.assert_allclose(ridge.coef_, LinearRegression().fit(X, y).coef_, rtol=1e-9)


def test_an_estimator_may_select_for_two_classes(problem):
    X, y = problem
    label = np.where(y > 3, "high", "low")
    estimator = LogisticRegression(C=0.03, l1_ratio=1.0, solver="liblinear")
    selector = Message(n_subsets=3, loss="logistic", estimator=estimator).fit(X, label)
    assert set(TRUE_FEATURES) <= set(selector.selected_.tolist())
    assert selector.score(X, label) > 0.8


def test_the_newton_step_of_the_squared_loss_ends_at_least_squares_on_all_rows(problem):
    X, y = problem
    selector = Message(n_subsets=3).fit(X, y)
    expected = LinearRegression().fit(X[:, TRUE_FEATURES], y)
    np.testing.assert_allclose(selector.coef_[TRUE_FEATURES], expected.coef_, rtol=1e-12)
    assert selector.intercept_ == pytest.approx(expected.intercept_, rel=1e-12)


def test_the_newton_step_brings_the_logistic_average_nearer_to_maximum_likelihood():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((1500, 12))
    y = X[:, [1, 2, 3]] @ [2.0, -2.0, 1.0] + rng.logistic(size=1500) > 0
    best = LogisticRegression(C=np.inf, tol=1e-10).fit(X[:, [1, 2, 3]], y).coef_[0]
    distance = {}
    for average in ("mean", "one_step"):
        selector = Message(n_subsets=10, loss="logistic", average=average).fit(X, y)
        np.testing.assert_array_equal(np.flatnonzero(selector.support_), [1, 2, 3])
        distance[average] = abs(selector.coef_[[1, 2, 3]] - best).max()
    assert distance["one_step"] < 0.2 * distance["mean"]


def test_a_newton_step_too_long_to_be_trusted_is_not_taken():
    start = Average(np.array([0.0]), 0.0, np.array([0.0]), np.array([1.0]))
    hessian = np.array([[[1.0, 0.0], [0.0, 1e-6]]])
    assert newton_step(start, Derivatives(np.array([[0.0, 0.1]]), hessian), 100.0) is None
    short = newton_step(start, Derivatives(np.array([[0.5, 0.0]]), hessian), 100.0)
    assert short is not None
    assert (short.end.intercept, short.length, short.rise) == (-0.5, 0.5, -0.25)


def test_a_newton_step_from_where_rows_are_all_told_does_not_turn_the_signs():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 30))
    z = X @ np.where(np.arange(30) < 6, 2.0 - np.arange(30) / 4, 0.0)
    y = z + 0.005 * rng.standard_normal(len(z)) > 0  # nearly separable: coefficients of thousands
    selector = Message(n_subsets=3, loss="logistic").fit(X, y)
    assert (selector.coef_[selector.selected_] > 0).all()
    assert selector.score(X, y) > 0.99


def offsets_and_scales(problem):
    X, y = problem
    return X * 10.0 ** np.arange(-10, 10) + 1e3 * np.arange(20), y


@pytest.mark.parametrize("average", ["mean", "one_step"])
def test_the_refit_from_what_the_path_left_behind_is_the_refit_of_the_rows(problem, average):
    X, y = offsets_and_scales(problem)
    X[:400, 11] = 1.0
    matrix = ArrayMatrix(X, y, shuffled=True)
    run, subsets = Run(matrix, "message"), Subsets(DataShape.of(matrix), SelectionSettings(n_subsets=3))
    passes = SubsetPasses(run, subsets)
    choices = passes.select()
    forgotten = replace(choices, visited=None)
    columns = np.array(TRUE_FEATURES)
    cached, read = (fit_subsets([(Part(matrix, subsets, some), passes)], columns) for some in (choices, forgotten))
    assert cached.counts == (3, 0, 0)
    assert read.counts == (0, 3, 0)
    known, found = (fits.averaged(average)[0] for fits in (cached, read))
    np.testing.assert_allclose(known.coef, found.coef, rtol=1e-11)
    assert known.intercept == pytest.approx(found.intercept, rel=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("is_permuted", [False, True])
def test_subsets_far_apart_are_read_by_few_tasks_with_the_numbers_of_one_each(problem, loss, is_permuted, monkeypatch):
    X, y = problem
    matrix = ArrayMatrix(X, y if loss == "squared" else np.sign(y - y.mean()), shuffled=True)
    rows = matrix.take(np.random.default_rng(0).permutation(1200)) if is_permuted else matrix
    columns, numbers = np.array(TRUE_FEATURES), [0, 2, 3, 7, 9, 11]
    settings = SelectionSettings(n_subsets=30, loss=loss, **({} if loss == "squared" else {"positive": 1.0}))
    passes = SubsetPasses(Run(matrix, "message").over(rows), Subsets(DataShape.of(rows), settings))
    groups = []
    monkeypatch.setattr(
        Run,
        "map",
        lambda run, step, function, parts, *shared, **how: (
            groups.append(parts) or [function(run.matrix.base, *shared, part) for part in parts]
        ),
    )
    together = passes.refit(columns, numbers, with_errors=True)
    (group,) = groups[0]
    assert group.name == "0-11"
    alone = [passes.refit(columns, [number], with_errors=True) for number in numbers]
    for field in fields(together):
        each = [getattr(one, field.name) for one in alone]
        if getattr(together, field.name) is None:  # what was not asked for
            assert each == [None] * len(numbers)
            continue
        assert_close(getattr(together, field.name), np.concatenate(each))


def test_standard_errors_are_made_where_they_are_asked_for(problem):
    X, y = problem
    matrix = ArrayMatrix(X, np.sign(y - y.mean()), shuffled=True)
    passes = SubsetPasses(
        Run(matrix, "message"), Subsets(DataShape.of(matrix), SelectionSettings(loss="logistic", positive=1.0))
    )
    with_errors, without = (passes.refit(np.array(TRUE_FEATURES), [0], asked) for asked in (True, False))
    assert without.error is None
    assert (with_errors.error > 0.0).all()
    np.testing.assert_array_equal(without.coef, with_errors.coef)


def test_a_subset_of_few_columns_is_never_read_again():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((3000, WHOLE_GRAM_COLUMNS))
    y = X[:, 0] + 0.1 * rng.standard_normal(3000)
    y[:2000] += X[:2000, 1] + X[:2000, 40]
    selector = Message(n_subsets=3, patience=1).fit(ArrayMatrix(X, y, shuffled=True))
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [0, 1, 40])
    assert selector.n_cached_ == 3


def test_correlations_of_very_many_subsets_take_no_more_memory_than_is_allowed():
    few, many = SelectionSettings(n_subsets=10), SelectionSettings(n_subsets=100_000)
    assert few.max_cached == WHOLE_GRAM_COLUMNS
    assert 0 < many.max_cached < 64
    assert 100_000 * many.cached_nbytes(10_000) < 1.5 * CACHE_NBYTES  # means and scales besides


def test_a_subset_whose_path_has_not_met_a_selected_feature_is_read_again():
    rng = np.random.default_rng(9)
    X = rng.standard_normal((1200, 300))
    y = 2 * X[:, 0] + 0.1 * rng.standard_normal(1200)
    y[:800] += X[:800, 1]  # in the last third it is one of 299 without influence
    matrix = ArrayMatrix(X, y, shuffled=True)
    selector = Message(n_subsets=3, patience=1).fit(matrix)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), [0, 1])
    assert selector.n_cached_ == 2
    first, *on_errors = selector.result_.notes
    assert first == "1 of 3 subsets had to read the selected columns again for the refit"
    assert on_errors[0] == SELECTED_ON_THE_SAME_ROWS
    assert "times as much as std_error says" in on_errors[1], "the third subset is another than the others"
    expected = LinearRegression().fit(X[:, :2], y)
    np.testing.assert_allclose(selector.coef_[:2], expected.coef_, rtol=1e-12)


def test_what_leaves_the_data_is_counted_and_small():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((2000, 1000), dtype=np.float32)
    result = Message(n_subsets=5).fit(X, X[:, 7] + rng.standard_normal(2000)).result_
    assert set(result.communication) == {"select"}
    assert 0 < result.communication["select"] < 5 * (64 * 64 * 8 // 2 + 5_000)
    again = Message(n_subsets=5, estimator=Lasso(0.3)).fit(X, X[:, 7] + rng.standard_normal(2000)).result_
    assert again.communication["refit"] == 5 * 8 * (3 + 3 + 1)  # total and target, one column's moments, 1 x 1 Gram
