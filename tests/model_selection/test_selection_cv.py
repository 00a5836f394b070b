"""How many features: paths of sizes, folds, the curve and what is chosen on it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.utils.estimator_checks import parametrize_with_checks

import daskfs
from daskfs import FGM, Message, Mission, OnlineSubstitution, SelectionCV
from daskfs.baselines import AlphaInvesting, LassoCut, OrthogonalMatchingPursuit
from daskfs.errors import ConfigError, DataError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.shared.cross_validation import SizeCurve, default_sizes, folds_of
from daskfs.selectors.shared.run import Run
from tests.refusals import refused

SIZES = [1, 3, 6, 10]
TRUE = [3, 7, 11, 30]


def data(n=300, p=40, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 0.5 * rng.standard_normal((n, 1))
    return X, X[:, TRUE] @ [2.0, -1.0, 1.0, 1.5] + noise * rng.standard_normal(n)


def path_of(selector, X, y, sizes=SIZES):
    matrix = ArrayMatrix(X, y)
    selector.loss_ = selector.loss
    return selector.fit_path(Run(matrix, selector.method), sizes)


NESTED = [
    FGM(loss="squared"),
    FGM(loss="logistic"),
    OnlineSubstitution(loss="squared"),
    OnlineSubstitution(loss="logistic"),
    Mission(loss="squared"),
    OrthogonalMatchingPursuit(loss="squared"),
    OrthogonalMatchingPursuit(loss="logistic"),
    AlphaInvesting(loss="squared", wealth=1.0, payout=1.0),
    Message(loss="squared", criterion="bic"),
]


@pytest.mark.parametrize("selector", NESTED, ids=repr)
def test_a_nested_path_grows_and_ends_with_the_fit(selector):
    X, y = data()
    y = np.sign(y - np.median(y)) if selector.loss == "logistic" else y
    path = path_of(selector, X, y)
    for smaller, larger in pairwise(path):
        assert set(smaller.selected_.tolist()) <= set(larger.selected_.tolist())
    if not isinstance(selector, Message):
        assert [len(one.selected_) for one in path] == SIZES
        fit = type(selector)(**{**selector.get_params(), "n_features_to_select": SIZES[-1]}).fit(X, y)
        np.testing.assert_array_equal(path[-1].coef_, fit.coef_)
        np.testing.assert_array_equal(path[-1].selected_, fit.selected_)
    for one, size in zip(path, SIZES, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(one.coef_), np.flatnonzero(one.support_))
        assert len(one.selected_) <= size


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("make", [OrthogonalMatchingPursuit, LassoCut, AlphaInvesting])
def test_a_path_of_a_method_whose_columns_join_for_good_has_the_fit_of_each_size(make, loss):
    X, y = data()
    y = np.sign(y - np.median(y)) if loss == "logistic" else y
    more = {"wealth": 1.0, "payout": 1.0} if make is AlphaInvesting else {}
    for one, size in zip(path_of(make(loss=loss, **more), X, y), SIZES, strict=True):
        fit = make(size, loss=loss, **more).fit(X, y)
        assert set(one.selected_.tolist()) == set(fit.selected_.tolist())
        np.testing.assert_allclose(one.coef_, fit.coef_, rtol=1e-6, atol=1e-9)


def test_what_leaves_a_path_last_costs_least():
    """Each time the column without which least squares, of the others refitted, loses least: exhaustively."""
    X, y = data(noise=0.3)
    path = path_of(OnlineSubstitution(loss="squared", ridge=0.0), X, y, [3, 4, 5, 6, 7, 8])
    for smaller, larger in pairwise(path):
        columns = np.sort(larger.selected_)
        losses = []
        for gone in columns:
            left = columns[columns != gone]
            model = LinearRegression().fit(X[:, left], y)
            losses.append(((y - model.predict(X[:, left])) ** 2).sum())
        assert set(columns) - set(smaller.selected_) == {columns[np.argmin(losses)]}


def test_the_curve_is_that_of_the_path_fitted_and_judged_by_hand():
    X, y = data()
    folds = KFold(4)
    chosen = SelectionCV(OrthogonalMatchingPursuit(), sizes=SIZES, cv=folds).fit(X, y)
    by_hand = np.empty((4, len(SIZES)))
    for k, (train, test) in enumerate(folds.split(X)):
        for q, size in enumerate(SIZES):
            fit = OrthogonalMatchingPursuit(size).fit(X[train], y[train])
            by_hand[k, q] = ((y[test] - fit.predict(X[test])) ** 2).mean()
    found = chosen.cv_results_
    np.testing.assert_allclose([found[f"split{k}_test_score"] for k in range(4)], by_hand, rtol=1e-6)
    np.testing.assert_allclose(found["mean_test_score"], by_hand.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(found["standard_error"], by_hand.std(axis=0, ddof=1) / 2.0, rtol=1e-6)
    best = SIZES[int(by_hand.mean(axis=0).argmin())]
    assert chosen.n_features_to_select_ == best
    np.testing.assert_array_equal(
        np.sort(chosen.selected_), np.sort(OrthogonalMatchingPursuit(best).fit(X, y).selected_)
    )


def test_a_rule_takes_the_best_or_the_smallest_within_a_standard_error():
    by_fold = np.array([[3.5, 3.0, 2.5, 2.0], [3.5, 2.0, 2.2, 2.1]])
    curve = SizeCurve(np.array([1, 2, 4, 8]), "mse", by_fold, np.ones(2))
    assert (curve.chosen("best"), curve.chosen("1se")) == (3, 3)
    apart = np.array([[0.0, 0.0, 0.0, 0.9], [0.0, 0.0, 0.0, -0.9]])
    noisier = SizeCurve(curve.sizes, "mse", by_fold + apart, np.ones(2))
    np.testing.assert_allclose(noisier.mean, [3.5, 2.5, 2.35, 2.05])
    np.testing.assert_allclose(noisier.standard_error[3], 0.85)  # 2.5 is within one of the best, 3.5 within two
    assert (noisier.chosen("best"), noisier.chosen("1se")) == (3, 1)
    assert SizeCurve(curve.sizes, "r2", -by_fold, np.ones(2)).chosen("best") == 3


def test_rows_of_a_group_lie_in_one_fold_and_show_what_random_folds_hide():
    """Where a group's rows are copies with a label of their own, random folds know every row before they are asked."""
    rng = np.random.default_rng(1)
    people, group = rng.standard_normal((40, 60)), np.repeat(np.arange(40), 6)
    X, y = people[group] + 0.01 * rng.standard_normal((240, 60)), rng.standard_normal(40)[group]
    of = {"sizes": [1, 30], "metric": "r2"}
    together = SelectionCV(FGM(), groups=group, **of).fit(X, y)
    apart = SelectionCV(FGM(), **of).fit(X, y)
    assert apart.cv_results_["mean_test_score"][1] > 0.5
    assert together.cv_results_["mean_test_score"].max() < 0.3
    assert (together.n_features_to_select_, apart.n_features_to_select_) == (1, 30)
    folds = folds_of(ArrayMatrix(X, y), False, 5, group, "random", 0)
    for fold in folds:
        assert not set(group[fold.train]) & set(group[fold.test])


def test_folds_in_time_are_judged_on_later_rows_alone_in_the_order_of_the_source(tmp_path):
    X, y = data()
    store = daskfs.ingest(X, tmp_path / "shuffled.zarr", y=y, random_state=3)
    assert store.source_rows is not None
    for fold in folds_of(store, False, 4, None, "time", 0):
        assert store.source_rows[fold.train].max() < store.source_rows[fold.test].min()
    of = {"sizes": SIZES, "cv": 4}
    in_time = SelectionCV(FGM(), order="time", **of).fit(store)
    split = SelectionCV(FGM(), sizes=SIZES, cv=TimeSeriesSplit(4)).fit(X, y)
    for name in ("mean_test_score", "standard_error"):
        np.testing.assert_allclose(in_time.cv_results_[name], split.cv_results_[name], rtol=1e-6)


def test_folds_of_classes_have_as_many_rows_of_each(tmp_path):
    X, y = data()
    rare = np.where(y > np.quantile(y, 0.95), "rare", "common")
    matrix = ArrayMatrix(X, (rare == "rare").astype(float))
    for fold in folds_of(matrix, True, 5, None, "random", 0):
        assert (rare[fold.test] == "rare").sum() == 3
    assert len(folds_of(matrix, True, 50, None, "random", 0)) == 15  # as many as there are of the rare class
    groups = pd.Series(np.repeat(np.arange(30), 10))
    chosen = SelectionCV(FGM(), sizes=[2, 4], groups=groups, metric="auc").fit(X, rare)
    assert chosen.cv_results_["metric"] == "auc"


def test_a_group_may_be_a_column_of_the_store(tmp_path):
    X, y = data()
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(40)]).assign(y=y, person=np.repeat(np.arange(30), 10))
    frame.to_csv(tmp_path / "table.csv", index=False)
    features = {f"x{j}": {"dtype": "number"} for j in range(40)}
    columns = {**features, "person": {"role": "id"}, "y": {"role": "target"}}
    store = daskfs.ingest(tmp_path / "table.csv", tmp_path / "table.zarr", schema={"version": 1, "columns": columns})
    by_name = SelectionCV(FGM(), sizes=SIZES, groups="person").fit(store)
    by_rows = SelectionCV(FGM(), sizes=SIZES, groups=frame["person"].to_numpy()).fit(store)
    np.testing.assert_array_equal(by_name.cv_results_["mean_test_score"], by_rows.cv_results_["mean_test_score"])
    with refused(DataError, "shapes", at="groups", naming=["300"]):
        SelectionCV(FGM(), groups=[1, 2]).fit(store)


@pytest.mark.parametrize(
    "selector", [FGM("cv"), OnlineSubstitution("cv"), Mission("cv"), OrthogonalMatchingPursuit("cv")], ids=repr
)
def test_cv_in_the_place_of_a_number_is_selection_cv_with_its_defaults(selector):
    X, y = data()
    found = selector.fit(X, y)
    expected = SelectionCV(type(selector)()).fit(X, y)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.n_features_to_select_ == expected.n_features_to_select_ >= 4
    assert set(TRUE) <= set(found.selected_.tolist())
    assert found.result_.parameters["n_features_to_select"] == found.n_features_to_select_
    assert "were chosen by cross-validation, the best of 8 sizes" in found.result_.notes[0]
    assert (found.result_.history_kind, found.get_params()["n_features_to_select"]) == ("cross-validation", "cv")


GROUPS = np.repeat(np.arange(30), 10)


@pytest.mark.parametrize(
    "search",
    [
        {"sizes": SIZES, "rule": "1se", "cv": 3, "metric": "r2"},
        {"sizes": SIZES, "groups": GROUPS},
        {"order": "time", "cv": 4},
        {"cv": KFold(3)},
    ],
    ids=["rule", "groups", "time", "splitter"],
)
@pytest.mark.parametrize("selector", [FGM(), OnlineSubstitution()], ids=repr)
def test_a_mapping_in_the_place_of_a_number_is_selection_cv_with_its_options(selector, search):
    X, y = data()
    found = type(selector)(search).fit(X, y)
    expected = SelectionCV(type(selector)(), **search).fit(X, y)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert found.n_features_to_select_ == expected.n_features_to_select_
    assert found.result_.notes[0] == expected.result_.notes[0]
    pd.testing.assert_frame_equal(found.result_.history, expected.result_.history)
    for name in ("n_features_to_select", "metric", "rule", "cv", "order"):
        assert found.result_.parameters[name] == expected.result_.parameters[name]
    plans = [
        one.plan(300, 40, "float64", None).text for one in (type(selector)(search), SelectionCV(selector, **search))
    ]
    assert plans[0] == plans[1]
    assert ("folds of whole groups" in plans[0]) == ("groups" in search)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"size": [1]}, "n_features_to_select: expected .* a mapping of cv, sizes, rule, metric, groups, order"),
        ({"rule": "2se"}, "n_features_to_select: expected"),
        ({"groups": GROUPS, "order": "time"}, "groups: has no effect with order='time'"),
        ({"metric": "auc"}, "metric: expected one of"),
        ({"groups": GROUPS[:7]}, "groups: expected a label for each of 300 rows"),
    ],
)
def test_a_mapping_that_says_nothing_of_sizes_is_refused(search, message):
    X, y = data()
    with pytest.raises((ConfigError, DataError), match=message):
        FGM(search).fit(X, y)


def test_cv_is_refused_where_rows_or_columns_come_once():
    X, y = data()
    with refused(ConfigError, "parameters", at="n_features_to_select", naming=["'cv'"]):
        OnlineSubstitution("cv").partial_fit_features(X, y=y)
    with refused(ConfigError, "parameters", at="n_features_to_select", naming=["'cv'", "feature_groups"]):
        FGM("cv", feature_groups=[[0, 1], [2, 3]]).fit(X, y)


@pytest.mark.parametrize("selector", [daskfs.Auto(), FGM("cv"), SelectionCV(FGM())])
def test_two_rows_cannot_be_cross_validated_and_the_remedy_works(selector):
    X, y = data(n=2)
    with refused(DataError, "values", at="X", naming=["2", "number of features"]):
        selector.fit(X, y)
    FGM(1).fit(X, y)


def test_what_a_curve_cannot_be_is_refused():
    X, y = data()
    with refused(ConfigError, "parameters", at="metric", naming=["r2", "'auc'", "mse", "rmse", "mae"]):
        SelectionCV(FGM(), metric="auc").fit(X, y)
    with refused(ConfigError, "parameters", at="metric", naming=["accuracy", "3 classes", "'auc'"]):
        SelectionCV(FGM(), metric="auc").fit(X, np.array(["a", "b", "c"])[np.digitize(y, [-1.0, 1.0])])
    with refused(ConfigError, "parameters", at="sizes", naming=["1"]):
        SelectionCV(FGM(), sizes=[0, 2]).fit(X, y)
    with refused(ConfigError, "parameters", at="cv", naming=["2"]):
        SelectionCV(FGM(), cv=1).fit(X, y)


def differs(estimator):
    reason = "a row of weight 2 lies in one fold, two rows may lie in two"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([SelectionCV(FGM(), sizes=[1, 2], cv=3)], expected_failed_checks=differs)
def test_scikit_learns_examination(estimator, check):
    check(estimator)


def test_plans_say_how_often_a_path_is_fitted():
    nested = SelectionCV(FGM(), sizes=SIZES, cv=4).plan(1000, 200, "float32", None)
    assert "one path of 4 sizes in each of 4 folds and on all rows" in nested.text
    each = SelectionCV(LassoCut(), sizes=SIZES, cv=4).plan(1000, 200, "float32", None)
    assert "a fit for each of 4 sizes in each of 4 folds, and one on all rows" in each.text
    assert default_sizes(71, 4088) == [1, 2, 4, 7, 10, 15, 25, 35]


def test_features_that_a_map_makes_are_counted_and_named():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6))
    y = 2.0 * X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(300)
    squares = daskfs.feature_maps.Polynomial(degree=2)
    found = SelectionCV(daskfs.FGM(3, feature_map=squares), sizes=[1, 2, 4]).fit(X, y)
    assert {"x2", "x0 * x1"} <= set(found.get_feature_names_out()) == set(found.result_.table["name"])
    assert found.transform(X).shape == (300, found.n_features_to_select_)
    assert found.score(X, y) > 0.95


def test_of_too_many_equal_votes_the_strongest_columns_are_on_the_path(monkeypatch):
    monkeypatch.setattr("daskfs.selectors.message.selector.MOST_ON_A_PATH", 3)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 20))
    y = X @ np.repeat([0.3, 0.0, 3.0], [3, 14, 3]) + rng.standard_normal(500)
    chosen = SelectionCV(Message(n_subsets=1, loss="squared"), sizes=[3]).fit(X, y)
    assert sorted(chosen.selected_.tolist()) == [17, 18, 19]
