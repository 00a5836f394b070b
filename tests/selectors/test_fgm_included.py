"""FGM with columns that are always included: covariates without a penalty, which what is selected adds to."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from daskfs import OnlineSubstitution
from daskfs.errors import ConfigError, DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.model_selection import SelectionCV
from daskfs.pipeline.checkpoint import Checkpoint
from daskfs.selectors.fgm.restricted_problem import RestrictedProblem
from daskfs.selectors.fgm.selector import FGM
from tests.refusals import refused

COVARIATES = [2, 5, 30]
LOSSES = ["squared", "logistic", "squared_hinge"]
SOLVERS = ["apg", "exact", "simple_mkl"]


def cohort(loss, n_samples=300, n_features=40, seed=0):
    """Columns of which some lean on the covariates, and a target of both; with weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    X[:, 10:20] += 2.0 * X[:, [2]]  # as variants lean on components of ancestry
    X[:, 5] = 50.0 + 12.0 * X[:, 5] + 6.0 * X[:, 7]
    z = 2.0 * X[:, 2] + 0.1 * (X[:, 5] - 50.0) + X[:, 7] - X[:, 12] + 0.8 * X[:, 21]
    weight = rng.integers(1, 3, n_samples).astype(float)
    if loss == "squared":
        return X, z + rng.standard_normal(n_samples), weight
    return X, np.where(z + rng.logistic(size=n_samples) > 0.0, "case", "control"), weight


def slopes_and_values(loss, z, y):
    """Return derivative and value of the loss of every row, by its definition."""
    if loss == "squared":
        return z - y, 0.5 * (z - y) ** 2
    if loss == "logistic":
        return -y * scipy.special.expit(-y * z), np.logaddexp(0.0, -y * z)
    slack = np.maximum(0.0, 1.0 - y * z)
    return -y * slack, 0.5 * slack**2


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(3))
def test_least_squares_is_that_of_what_the_covariates_leave_over(seed, solver):
    X, y, _ = cohort("squared", seed=seed)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    free = np.column_stack([np.ones(len(X)), X[:, COVARIATES]])
    onto = free @ np.linalg.pinv(free)
    others = np.setdiff1d(np.arange(X.shape[1]), COVARIATES)
    options = {"n_features_per_pass": 2, "C": 0.05, "normalize": False, "debias": False, "certify": True}
    options |= {"solver": solver, "inner_tol": 1e-13, "max_inner": 5000, "loss": "squared"}
    left = FGM(6, **options).fit((X - onto @ X)[:, others], y - onto @ y)
    found = FGM(9, always_include=COVARIATES, **options).fit(X, y)
    np.testing.assert_array_equal(np.sort(found.selected_[3:]), np.sort(others[left.selected_]))
    np.testing.assert_allclose(found.coef_[others], left.coef_, rtol=1e-4, atol=1e-6)
    for name in ("objective", "loss", "largest_score"):
        np.testing.assert_allclose(found.result_.history[name], left.result_.history[name], rtol=1e-5)
    assert found.dual_gap_ == pytest.approx(left.dual_gap_, abs=1e-5)
    of_covariates = np.linalg.lstsq(free, y - X[:, others] @ found.coef_[others], rcond=None)[0]
    np.testing.assert_allclose([found.intercept_, *found.coef_[COVARIATES]], of_covariates, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_of_one_pass_it_is_the_ridge_fit_without_a_penalty_on_the_covariates(loss, solver, fit_intercept):
    X, y, weight = cohort(loss)
    if not fit_intercept:
        X[:, 5] -= 50.0
    options = {"inner_tol": 1e-14, "max_inner": 5000, "debias": False, "C": 0.02, "normalize": False}
    selector = FGM(7, n_features_per_pass=4, always_include=COVARIATES, loss=loss, solver=solver, **options)
    selector.fit_intercept = fit_intercept
    selector.fit(X, y, sample_weight=weight)
    columns, group = np.sort(selector.selected_), np.sort(selector.selected_[3:])
    signs = y if loss == "squared" else np.where(y == selector.classes_[1], 1.0, -1.0)
    has_penalty = np.isin(columns, group)

    def objective(b):
        slope, value = slopes_and_values(loss, X[:, columns] @ b[1:] + b[0] * fit_intercept, signs)
        slope = 0.02 * weight * slope
        penalty = 0.5 * (b[1:][has_penalty] ** 2).sum() + 0.02 * (weight @ value)
        return penalty, np.array([slope.sum() * fit_intercept, *(slope @ X[:, columns] + has_penalty * b[1:])])

    least = scipy.optimize.minimize(
        objective, np.zeros(8), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    )
    assert selector.result_.history["objective"].iloc[-1] == pytest.approx(least.fun, rel=1e-7)
    np.testing.assert_allclose(selector.coef_[columns], least.x[1:], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("wanted", [4, 11, None])
def test_nothing_is_left_to_gain_by_the_covariates(loss, wanted):
    X, y, weight = cohort(loss)
    selector = FGM(wanted, always_include=COVARIATES, loss=loss, n_features_per_pass=3, debias=False)
    selector.fit(X, y, sample_weight=weight)
    signs = y if loss == "squared" else np.where(y == selector.classes_[1], 1.0, -1.0)
    slope = weight * slopes_and_values(loss, X @ selector.coef_ + selector.intercept_, signs)[0]
    free = np.column_stack([np.ones(len(X)), (X[:, COVARIATES] - X[:, COVARIATES].mean(axis=0))])
    assert (np.abs(slope @ free) <= 1e-8 * (np.abs(slope) @ np.abs(free))).all()
    assert selector.coef_[COVARIATES].all()


def test_with_several_classes_each_has_coefficients_of_the_covariates():
    X, _, weight = cohort("squared")
    y = np.digitize(X[:, 2] + X[:, 7] + 0.3 * X[:, 12], [-1.0, 1.0])
    selector = FGM(6, always_include=COVARIATES, loss="logistic", debias=False).fit(X, y, sample_weight=weight)
    signs = np.where(y == np.arange(3)[:, None], 1.0, -1.0)
    z = selector.coef_ @ X.T + selector.intercept_[:, None]
    slope = weight * slopes_and_values("logistic", z, signs)[0]
    free = np.column_stack([np.ones(len(X)), X[:, COVARIATES] - X[:, COVARIATES].mean(axis=0)])
    assert (np.abs(slope @ free) <= 1e-8 * (np.abs(slope) @ np.abs(free))).all()
    assert selector.coef_[:, COVARIATES].all()
    assert set(selector.selected_[:3]) == set(COVARIATES)
    np.testing.assert_array_equal(selector.predict(X), z.argmax(axis=0))


@pytest.mark.parametrize("seed", range(5))
def test_what_only_repeats_a_covariate_is_not_selected(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 30))
    X[:, 1:6] = X[:, [0]] + 0.5 * X[:, 1:6]
    y = 3.0 * X[:, 0] + 0.7 * X[:, 20] + rng.standard_normal(400)
    assert FGM(1).fit(X[:, 1:], y).selected_[0] < 5
    selector = FGM(2, always_include=[0]).fit(X, y)
    assert selector.selected_.tolist() == [0, 20]
    assert "always included" in " ".join(selector.result_.notes)


def test_they_count_among_the_features_and_come_first_by_number_or_name():
    import pandas as pd

    X, y, _ = cohort("squared")
    selector = FGM(7, always_include=[30, 2]).fit(X, y)
    assert len(selector.selected_) == 7 == selector.support_.sum()
    assert set(selector.selected_[:2]) == {2, 30}
    for part in (slice(0, 2), slice(2, 7)):
        assert (np.diff(selector.scores_[selector.selected_[part]]) <= 0.0).all()
    assert selector.result_.history["features"].iloc[-1] == 7
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(40)])
    named = FGM(7, always_include=["g30", "g2"]).fit(frame, y)
    np.testing.assert_array_equal(named.selected_, selector.selected_)
    assert set(named.result_.table["name"][:2]) == {"g2", "g30"}
    np.testing.assert_allclose(named.predict(frame), X @ selector.coef_ + selector.intercept_)


@pytest.mark.parametrize("options", [{}, {"certify": True}, {"validation": 0.2}, {"C": "validation"}])
def test_where_no_more_are_wanted_the_model_is_that_of_the_covariates(options):
    X, y, _ = cohort("squared")
    refitted = FGM(3, always_include=COVARIATES, **options).fit(X, y)
    assert sorted(refitted.selected_) == COVARIATES
    selector = FGM(3, always_include=COVARIATES, debias=False, **options).fit(X, y)
    assert sorted(selector.selected_) == COVARIATES
    free = np.column_stack([np.ones(len(X)), X[:, COVARIATES]])
    expected = np.linalg.lstsq(free, y, rcond=None)[0]
    np.testing.assert_allclose(selector.coef_[COVARIATES], expected[1:], rtol=1e-8)
    assert len(selector.result_.history) == 0


def test_other_options_take_them_too():
    X, y, weight = cohort("logistic")
    for options in ({"C": "validation"}, {"validation": 0.25, "C": 0.1}, {"tol": 0.05}):
        selector = FGM(always_include=COVARIATES, n_features_per_pass=2, **options).fit(X, y, sample_weight=weight)
        assert set(selector.selected_[:3]) == set(COVARIATES)
        assert 7 in selector.selected_


@pytest.mark.parametrize("kind", [FGM, OnlineSubstitution])
def test_a_path_begins_with_them_alone(kind):
    X, y, _ = cohort("squared")
    for search in (
        kind("cv", always_include=COVARIATES).fit(X, y),
        SelectionCV(kind(always_include=COVARIATES), cv=3).fit(X, y),
        SelectionCV(kind(always_include=COVARIATES), cv=3, sizes=[3, 6, 9]).fit(X, y),
    ):
        assert set(COVARIATES) <= set(search.selected_)
        assert len(search.selected_) == search.n_features_to_select_ > 3
        assert search.cv_results_["n_features_to_select"][0] == 3
    assert search.cv_results_["n_features_to_select"].tolist() == [3, 6, 9]


@pytest.mark.parametrize("given", [np.arange(40) // 2, {"ages": [5, 6, 7], "low": [0, 1, 2]}])
@pytest.mark.parametrize("score", ["excess", "sum", "mean"])
def test_columns_bring_their_groups(given, score):
    X, y, _ = cohort("squared")
    selector = FGM(4, feature_groups=given, group_score=score, always_include=[5, 2], debias=False).fit(X, y)
    groups = [[4, 5], [2, 3]] if isinstance(given, np.ndarray) else [[5, 6, 7], [0, 1, 2]]
    brought = sorted(groups[0] + groups[1])
    assert sorted(selector.selected_[: len(brought)]) == brought
    assert len(selector.groups_) == 4
    slope = X @ selector.coef_ + selector.intercept_ - y
    free = X[:, brought] - X[:, brought].mean(axis=0)
    assert (np.abs(slope @ free) <= 1e-8 * (np.abs(slope) @ np.abs(free))).all()
    in_columns = FGM(8, feature_groups=given, group_score=score, counts="features", always_include=[5]).fit(X, y)
    assert len(in_columns.selected_) == 8
    assert set(groups[0]) <= set(in_columns.selected_)


def test_of_a_group_that_is_dependent_in_itself_one_column_has_no_coefficient():
    rng = np.random.default_rng(0)
    level, X = rng.integers(0, 3, 300), rng.standard_normal((300, 20))
    X[:, :3] = level[:, None] == np.arange(3)
    y = np.array([0.0, 2.0, 5.0])[level] + X[:, 10] + 0.1 * rng.standard_normal(300)
    selector = FGM(2, feature_groups={"level": [0, 1, 2]}, always_include=[1], debias=False).fit(X, y)
    assert selector.selected_.tolist()[-1] == 10
    np.testing.assert_array_equal(selector.coef_[:3] == 0.0, [False, False, True])
    residual = X @ selector.coef_ + selector.intercept_ - y
    np.testing.assert_allclose([residual[level == k].mean() for k in range(3)], 0.0, atol=1e-9)


@pytest.mark.parametrize("after", [1, 3])
def test_an_interrupted_run_ends_with_the_same_result(tmp_path, monkeypatch, after):
    X, y, _ = cohort("logistic")
    matrix = ArrayMatrix(X, (y == "case").astype(float))
    options = {"n_features_to_select": 12, "n_features_per_pass": 2, "always_include": COVARIATES}
    expected = FGM(**options).fit_matrix(matrix)
    solve, calls = RestrictedProblem.solve, []

    def interrupted(self):
        if len(calls) == after:
            raise KeyboardInterrupt
        calls.append(1)
        return solve(self)

    monkeypatch.setattr(RestrictedProblem, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        FGM(**options).fit_matrix(matrix, checkpoint=Checkpoint(tmp_path))
    monkeypatch.setattr(RestrictedProblem, "solve", solve)
    resumed = FGM(**options).fit_matrix(matrix, checkpoint=Checkpoint(tmp_path))
    np.testing.assert_array_equal(resumed.coef_, expected.coef_)
    assert resumed.result_.history.equals(expected.result_.history)
    assert resumed.n_passes_ == expected.n_passes_ - after


def test_a_plan_counts_them_as_selected_and_once_more_without_a_penalty():
    size = 100_000, 500, "float32", None
    without, of_ten = FGM(50).plan(*size), FGM(60, always_include=[f"PC{k}" for k in range(10)]).plan(*size)
    more = {name: of_ten.client.terms[name] - without.client.terms.get(name, 0) for name in of_ten.client.terms}
    assert more["selected columns"] == 10 * 4 * 100_000
    assert more["columns always included, and a copy"] == 10 * 16 * 100_000
    assert of_ten.read_nbytes > without.read_nbytes
    in_groups = {"feature_groups": np.arange(500) // 5}
    of_groups = FGM(12, always_include=[0, 1, 7], **in_groups).plan(*size), FGM(12, **in_groups).plan(*size)
    of_groups = [plan.client.terms["selected columns"] for plan in of_groups]
    assert of_groups[0] == of_groups[1]  # two groups of them are always included


@pytest.mark.parametrize(
    ("options", "kind", "topic", "at", "naming"),
    [
        ({"always_include": [1, 2, 3, 4, 6]}, ConfigError, "parameters", "always_include", ["4", "5"]),
        ({"always_include": ["x99"]}, DataError, "shapes", "always_include", ["'x99'"]),
        ({"always_include": [40]}, DataError, "shapes", "always_include", ["40"]),
        ({"always_include": [3, 3]}, DataError, "shapes", "always_include", ["3"]),
        ({"always_include": [0, 8]}, DataError, "values", "column 'x8'", ["constant"]),
        ({"always_include": [0, 1, 9]}, DataError, "values", "column 'x9'", ["combination"]),
        ({"always_include": [8], "feature_groups": {"a": [1, 2]}}, DataError, "values", "group 'x8'", ["constant"]),
        ({"always_include": [1], "feature_groups": [[1, 2], [2, 3]]}, ConfigError, "parameters", "always", ["overlap"]),
        ({"always_include": [1], "feature_map": "pairs"}, ConfigError, "parameters", "always_include", ["feature_map"]),
    ],
)
def test_what_cannot_be_included_is_refused(options, kind, topic, at, naming):
    X, y, _ = cohort("squared")
    X[:, 8], X[:, 9] = 0.1, X[:, 0] - 2.0 * X[:, 1]
    with refused(kind, topic, at=at, naming=naming):
        FGM(4, **options).fit(X, y)
