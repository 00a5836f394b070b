"""The competitors of MESSAGE: what each of them is, held against scikit-learn and against its definition."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from daskfs.baselines.lasso.bolasso import Bolasso
from daskfs.baselines.lasso.full_data import FullData
from daskfs.baselines.lasso.subset_estimates import Averaging, Median
from daskfs.baselines.lasso.tasks import Weighting, block_rows
from daskfs.errors import ConfigError, DataError, PlanError, SelectionWarning
from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.kernels.lasso.path import lasso_path
from daskfs.matrix.arrays import ArrayMatrix
from tests.refusals import refused
from tests.tolerances import assert_same_answer

TRUE_FEATURES = [2, 5, 11]
BASELINES = [FullData(), Averaging(n_subsets=3), Median(n_subsets=3), Bolasso(n_bootstraps=4)]
NAMES = ["full_data", "averaging", "median", "bolasso"]


def path_of(X, y, weight=None, criterion="ebic", gic_rss="refit"):
    weight = np.ones(len(y)) if weight is None else weight
    penalty = feature_penalty(criterion, weight.sum(), X.shape[1])
    return lasso_path(np.ascontiguousarray(X), y, weight, penalty=penalty, gic_rss=gic_rss)


def subsets_of(n_samples, n_subsets, seed):
    order = np.argsort(np.random.default_rng(seed).random(n_samples), kind="stable")
    return [order[i * n_samples // n_subsets : (i + 1) * n_samples // n_subsets] for i in range(n_subsets)]


@pytest.mark.parametrize("options", [{}, {"criterion": "bic", "gic_rss": "lasso"}, {"criterion": "ric"}])
@pytest.mark.parametrize("n_features", [20, 300])
def test_full_data_is_the_lasso_on_all_rows(make_problem, options, n_features):
    X, y = make_problem(n_features=n_features)
    selector = FullData(**options).fit(X, y)
    path = path_of(X, y, criterion=options.get("criterion", "ebic"), gic_rss=options.get("gic_rss", "refit"))
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), path.selected())
    np.testing.assert_allclose(selector.coef_, path.coefficients(path.best), atol=1e-12)
    np.testing.assert_allclose(
        selector.result_.history["gic"][: len(path.gic)], path.gic[: len(selector.result_.history)]
    )
    assert selector.intercept_ == pytest.approx(y.mean() - X.mean(axis=0) @ selector.coef_, abs=1e-12)


def test_full_data_over_several_blocks_is_that_over_one(make_problem, monkeypatch):
    X, y = make_problem(n_features=40)
    X[:400, 7] = 3.0  # constant in the first blocks
    X[400:, 7] = np.random.default_rng(1).standard_normal(800)
    whole = FullData().fit(X, y)
    monkeypatch.setattr("daskfs.baselines.lasso.paths.block_rows", lambda n_features: 101)
    parts = FullData().fit(X, y)
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-13)
    np.testing.assert_allclose(parts.scores_, whole.scores_, atol=1e-13)


def test_full_data_with_more_features_than_rows(make_problem):
    X, y = make_problem(n_samples=150, n_features=900)
    selector = FullData().fit(X, y)
    path = path_of(X, y)
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), path.selected())
    np.testing.assert_allclose(selector.coef_, path.coefficients(path.best), atol=1e-12)


def test_a_path_of_many_features_gets_its_gram_rows_in_several_passes(make_problem):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 300))
    y = X[:, :60] @ rng.uniform(0.5, 1.5, 60) + rng.standard_normal(600)
    selector = FullData(criterion="bic").fit(X, y)
    path = path_of(X, y, criterion="bic")
    assert len(path.selected()) > 50
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), path.selected())
    np.testing.assert_allclose(selector.coef_, path.coefficients(path.best), atol=1e-10)


@pytest.mark.parametrize(("baseline", "combine"), [(Averaging, np.mean), (Median, np.median)])
@pytest.mark.parametrize("n_subsets", [3, 4])
def test_averaging_and_median_combine_the_lasso_estimates_of_random_subsets(make_problem, baseline, combine, n_subsets):
    X, y = make_problem()
    selector = baseline(n_subsets=n_subsets, criterion="bic", gic_rss="lasso", random_state=7).fit(X, y)
    subsets = subsets_of(len(y), n_subsets, 7)
    paths = [path_of(X[rows], y[rows], criterion="bic", gic_rss="lasso") for rows in subsets]
    coef = np.array([path.coefficients(path.best) for path in paths])
    intercept = [y[rows].mean() - X[rows].mean(axis=0) @ coef[i] for i, rows in enumerate(subsets)]
    np.testing.assert_allclose(selector.coef_, combine(coef, axis=0), atol=1e-14)
    assert selector.intercept_ == pytest.approx(combine(intercept), abs=1e-12)
    np.testing.assert_array_equal(selector.support_, selector.coef_ != 0)
    np.testing.assert_array_equal(selector.scores_, np.mean(coef != 0, axis=0))


def test_averaging_keeps_the_union_and_the_median_does_not(make_problem):
    X, y = make_problem(n_features=200)
    options = {"n_subsets": 5, "criterion": "bic", "gic_rss": "lasso"}
    union, majority = Averaging(**options).fit(X, y), Median(**options).fit(X, y)
    assert set(TRUE_FEATURES) <= set(majority.selected_) < set(union.selected_)
    np.testing.assert_array_equal(np.flatnonzero(union.support_), np.flatnonzero(union.scores_ > 0))


@pytest.mark.parametrize("baseline", [Averaging, Median])
def test_a_subset_where_a_column_is_constant_does_not_count(baseline):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 5))
    y = X[:, 0] + 2.0 * X[:, 1] + 0.1 * rng.standard_normal(600)
    X[:200, 1] = 4.0
    y[:200] = X[:200, 0] + 0.1 * rng.standard_normal(200)
    selector = baseline(n_subsets=3).fit_matrix(ArrayMatrix(X, y, shuffled=True))
    assert selector.scores_[1] == 1.0
    assert selector.coef_[1] == pytest.approx(2.0, abs=0.1)


def weights_of_samples(n_samples, n_features, n_bootstraps, seed):
    sizes = np.diff([*range(0, n_samples, block_rows(n_features)), n_samples])
    assert len(sizes) == 1
    for b in range(n_bootstraps):
        yield Weighting.bootstrap((seed, b), sizes), np.ones(n_samples)


def test_bolasso_intersects_the_bootstrap_samples_and_refits_on_all_rows(make_problem):
    from daskfs.baselines.lasso.tasks import RowPart

    X, y = make_problem()
    selector = Bolasso(n_bootstraps=6, criterion="bic", random_state=3).fit(X, y)
    part = RowPart(0, slice(0, len(y)))
    samples = [weighting.of(part, ones) for weighting, ones in weights_of_samples(*X.shape, 6, 3)]
    assert all(weight.sum() == len(y) for weight in samples)
    chosen = [set(path_of(X, y, weight, criterion="bic").selected()) for weight in samples]
    assert len(set.union(*chosen)) > len(set.intersection(*chosen))
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), sorted(set.intersection(*chosen)))
    columns = np.flatnonzero(selector.support_)
    refit = LinearRegression().fit(X[:, columns], y)
    np.testing.assert_allclose(selector.coef_[columns], refit.coef_, rtol=1e-11)
    assert selector.intercept_ == pytest.approx(refit.intercept_, rel=1e-11)
    assert selector.scores_[2] == 1.0


def test_the_soft_bolasso_keeps_what_a_share_of_the_samples_selects(make_problem):
    X, y = make_problem()
    scores = Bolasso(n_bootstraps=8, criterion="bic").fit(X, y).scores_
    for threshold in (0.25, 0.5, 0.75, 1.0):
        soft = Bolasso(n_bootstraps=8, criterion="bic", threshold=threshold).fit(X, y)
        np.testing.assert_array_equal(soft.support_, scores >= threshold)


def test_bolasso_draws_each_row_about_once_and_blocks_as_their_size(make_problem):
    sizes = np.array([1000, 1000, 500])
    drawn = np.array([Weighting.bootstrap((0, b), sizes).n_drawn for b in range(2000)])
    assert (drawn.sum(axis=1) == 2500).all()
    np.testing.assert_allclose(drawn.mean(axis=0), sizes, rtol=0.01)  # the standard error is 0.05 %
    np.testing.assert_allclose(drawn.var(axis=0), [600, 600, 400], rtol=0.15)  # its standard error is 3 %


def test_memory_cuts_the_samples_into_groups_and_keeps_the_answer(make_problem):
    X, y = make_problem(n_features=300)
    expected = Bolasso(n_bootstraps=5).fit(X, y)
    small = Bolasso(n_bootstraps=5, memory_limit="24MiB")
    assert "for 4 of 5 bootstrap samples" in small.plan(*X.shape, X.dtype, 24 << 20).text
    small.fit(X, y)
    assert_same_answer(small, expected)


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
class TestEveryBaseline:
    def test_finds_the_planted_features(self, baseline, problem):
        selector = clone(baseline).fit(*problem)
        assert set(TRUE_FEATURES) <= set(selector.selected_)
        assert selector.score(*problem) > 0.7
        assert list(selector.selected_[:1]) == [2]

    def test_says_what_it_is(self, baseline, problem):
        result = clone(baseline).fit(*problem).result_
        assert result.method in NAMES
        assert list(result.history.columns) == ["lambda", "df", "rss", "gic", "chosen"]
        assert result.history["chosen"].sum() == 1
        assert "client" not in result.parameters
        assert list(result.table["name"][:1]) == ["x2"]

    def test_weight_zero_is_a_removed_row(self, baseline, problem):
        X, y = problem
        weight = np.random.default_rng(4).integers(0, 3, len(y)).astype(float)
        kept = weight > 0
        weighted = clone(baseline).fit(X, y, weight)
        removed = clone(baseline).fit(X[kept], y[kept], weight[kept])
        assert_same_answer(weighted, removed)

    def test_of_noise_nothing_remains(self, baseline):
        rng = np.random.default_rng(3)
        X, y = rng.standard_normal((900, 30)), rng.standard_normal(900)
        with pytest.warns(SelectionWarning, match="no feature was selected"):
            selector = clone(baseline).set_params(gamma=1.0).fit(X, y)
        assert len(selector.selected_) == 0
        assert selector.intercept_ == pytest.approx(y.mean(), abs=0.05)

    def test_constant_duplicated_and_collinear_columns_give_finite_answers(self, baseline, problem):
        X, y = problem
        X = np.column_stack([X, X[:, 2], X[:, 5] + X[:, 11], np.full(len(y), 3.0), 1e6 + 1e-3 * X[:, 0]])
        selector = clone(baseline).fit(X, y)
        assert np.isfinite(selector.coef_).all()
        assert selector.coef_[22] == 0.0
        assert selector.score(X, y) > 0.6  # of the median: where subsets choose either of two columns, it takes neither

    def test_can_be_pickled(self, baseline, problem):
        X, y = problem
        selector = clone(baseline).fit(X, y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(selector)).predict(X), selector.predict(X))

    def test_names_a_wrong_parameter(self, baseline, problem):
        for wrong in ({"criterion": "ebik"}, {"gic_rss": "ols"}, {"gamma": 2.0}, {"patience": 0}, {"loss": "cubic"}):
            with pytest.raises(ConfigError, match=next(iter(wrong))):
                clone(baseline).set_params(**wrong).fit(*problem)

    def test_refuses_a_limit_that_is_too_small_and_says_what_would_do(self, baseline, problem):
        with refused(PlanError, "memory-limit", at="memory_limit"):
            clone(baseline).set_params(memory_limit="1MiB").fit(*problem)

    def test_refuses_a_constant_target(self, baseline, problem):
        with refused(DataError, "target", at="target", naming=["constant"]):
            clone(baseline).fit(problem[0], np.ones(len(problem[1])))


@pytest.mark.parametrize("wrong", [{"n_bootstraps": 0}, {"threshold": 0.0}, {"threshold": 1.5}])
def test_a_wrong_parameter_of_bolasso_is_named(problem, wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Bolasso(**wrong).fit(*problem)


def test_a_value_that_is_not_finite_in_a_store_is_named(problem):
    class Stored(ArrayMatrix):
        source_rows = np.arange(1200)[::-1].copy()

    matrix = Stored(*problem, feature_names=[f"gene{j}" for j in range(20)])
    matrix._X = matrix._X.copy()
    matrix._X[100, 2] = np.nan
    for baseline in (FullData(), Bolasso(n_bootstraps=2)):
        with refused(DataError, "values", at="column 'gene2', row 1099", naming=["NaN"]):
            baseline.fit_matrix(matrix)
