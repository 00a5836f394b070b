"""MESSAGE votes for whole groups of columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import daskfs
from daskfs.errors import ConfigError, PlanError, SelectionWarning
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.selectors.message.choices import NormalEquations, SelectionSettings
from daskfs.selectors.message.fits import solve_subsets
from daskfs.selectors.message.subset import refit
from daskfs.selectors.message.votes import gain_of_least_squares
from tests.refusals import refused
from tests.tolerances import assert_same_answer

LOSSES = ("squared", "logistic", "poisson", "huber", "multinomial")


def target_of(loss, z, rng):
    n = len(z)
    return {
        "squared": lambda: z + rng.standard_normal(n),
        "huber": lambda: z + rng.standard_t(3, n),
        "logistic": lambda: np.where(z + rng.logistic(size=n) > 0.0, "yes", "no"),
        "poisson": lambda: rng.poisson(np.exp(0.5 * z)).astype(float),
        "multinomial": lambda: np.digitize(z + rng.logistic(size=n), [-1.0, 1.0]),
    }[loss]()


def planted(seed, n=2000, n_groups=30, size=5, n_true=3, height=0.35):
    """Correlated groups of Gaussian columns, of which the first few matter."""
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.standard_normal((n, n_groups)), size, axis=1)
    X = 0.8 * rng.standard_normal((n, n_groups * size)) + 0.6 * common
    coef = np.zeros(X.shape[1])
    coef[: n_true * size] = height * rng.choice([-1.0, 1.0], n_true * size)
    return X, X @ coef, np.repeat(np.arange(n_groups), size), rng


def dummies(seed, n=1500, levels=(4, 7, 2, 12, 5, 9)):
    """All dummies of categories, of which the second and the fifth matter."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, k, n) for k in levels]
    X = np.hstack([np.eye(k)[code] for k, code in zip(levels, codes, strict=True)])
    z = 0.8 * rng.standard_normal(7)[codes[1]] + 0.8 * rng.standard_normal(5)[codes[4]]
    return X, z, np.repeat([f"category {k}" for k in range(len(levels))], levels), rng


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("loss", LOSSES)
def test_groups_of_one_column_each_have_the_answer_of_columns(loss, kind):
    X, z, _, rng = planted(0, n=900, n_groups=12, size=2, height=0.8)
    if kind == "sparse":
        X = np.where(rng.random(X.shape) < 0.09, X, 0.0)
        z = 3.0 * X[:, :6].sum(axis=1)
    y = target_of(loss, z, rng)
    given = scipy.sparse.csr_array(X) if kind == "sparse" else X
    order = rng.permutation(24)
    columns, groups = (
        daskfs.Message(n_subsets=3, loss=loss, feature_groups=labels).fit(given, y) for labels in (None, order)
    )
    assert_same_answer(groups, columns)
    assert groups.group_names_.tolist() == [str(order[j]) for j in columns.selected_]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_group_is_selected_whole_or_not_at_all(loss):
    X, z, labels, rng = planted(1)
    selector = daskfs.Message(n_subsets=3, loss=loss, feature_groups=labels).fit(X, target_of(loss, z, rng))
    np.testing.assert_array_equal(selector.support_, np.isin(labels, selector.groups_))
    assert set(selector.groups_) <= {0, 1, 2}
    assert len(selector.groups_) >= 2
    assert set(selector.selected_) == set(np.flatnonzero(selector.support_))
    np.testing.assert_array_equal(selector.scores_[selector.selected_], np.repeat(selector.group_scores_, 5))
    assert (np.atleast_2d(selector.coef_)[:, selector.support_] != 0.0).all()
    assert (np.diff(selector.group_scores_) <= 0.0).all()
    assert selector.result_.table["group"].tolist() == [str(labels[j]) for j in selector.selected_]
    assert "groups" in selector.result_.history
    assert (selector.n_selected_per_subset_ <= 8).all()  # of groups


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_category_brings_all_of_its_dummies(loss, kind):
    X, z, labels, rng = dummies(0)
    y = target_of(loss, z, rng)
    given = scipy.sparse.csr_array(X) if kind == "sparse" else X
    selector = daskfs.Message(n_subsets=3, loss=loss, feature_groups=labels).fit(given, y)
    assert set(selector.group_names_) == {"category 1", "category 4"}
    assert selector.support_.sum() == 7 + 5
    assert selector.score(given, y) > daskfs.Message(n_subsets=3, loss=loss).fit(given, y).score(given, y) - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 4, 20])
def test_planted_groups_are_found_and_groups_of_noise_left_out(size):
    found, false = [], []
    for seed in range(20):
        X, z, labels, rng = planted(seed, n=1500, n_groups=30, size=size, height=0.6 / np.sqrt(size))
        selector = daskfs.Message(n_subsets=5, loss="squared", feature_groups=labels).fit(
            X, z + rng.standard_normal(1500)
        )
        found.append(np.isin([0, 1, 2], selector.groups_).mean())
        false.append((selector.groups_ > 2).sum())
    assert np.mean(found) > 0.85
    assert np.sum(false) <= 3


@pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")  # of some seeds no group is selected
def test_a_group_that_most_paths_miss_is_kept_by_a_second_vote():
    n_more = 0
    for seed in range(6):
        X, z, labels, rng = planted(seed, n=1500, n_groups=40, size=4, n_true=8, height=0.09)
        y = z + rng.standard_normal(1500)
        once, twice = (
            daskfs.Message(n_subsets=9, loss="squared", feature_groups=labels, second_look=look).fit(X, y)
            for look in (False, True)
        )
        assert set(once.groups_) <= set(twice.groups_)
        assert set(twice.groups_) - set(once.groups_) <= set(range(8))
        n_more += len(twice.groups_) - len(once.groups_)
    assert n_more > 0


def equations_of(X, y):
    settings = SelectionSettings(loss="squared")
    return refit(X, y, np.ones(len(y)), settings)


def test_what_least_squares_gains_by_a_group_is_its_f_statistic():
    rng = np.random.default_rng(0)
    X = np.hstack([np.eye(3)[rng.integers(0, 3, 200)], rng.standard_normal((200, 4))])
    y = X @ rng.standard_normal(7) + rng.standard_normal(200)
    equations = equations_of(X, y)
    assert isinstance(equations, NormalEquations)
    groups = ColumnGroups(np.array([0, 1, 2, 4, 5, 6]), np.array([0, 3, 5, 6]))
    gain = gain_of_least_squares(equations, solve_subsets(equations)[0], groups)

    def rss(columns):
        A = np.column_stack([np.ones(200), X[:, columns]])
        return np.sum((y - A @ np.linalg.lstsq(A, y, rcond=None)[0]) ** 2)

    dispersion = rss(range(7)) / (200 - 6 - 1)
    for k, (own, rank) in enumerate((([0, 1, 2], 2), ([4, 5], 2), ([6], 1))):
        expected = (rss([j for j in range(7) if j not in own]) - rss(range(7))) / dispersion
        assert gain.size[0, k] == pytest.approx(expected, rel=1e-8)
        assert abs(gain.df[0, k]) == rank
    assert np.sign(gain.df[0, 2]) == np.sign(solve_subsets(equations)[0][0, 6])


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_what_a_likelihood_gains_by_a_group_is_near_the_difference_of_deviances(loss):
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = np.hstack([np.eye(3)[rng.integers(0, 3, 4000)], rng.standard_normal((4000, 4))])
    z = X @ np.array([0.3, 0.0, -0.2, 0.3, 0.2, 0.15, 0.1])
    y = np.digitize(z + rng.logistic(size=4000), [-0.5, 0.5] if loss == "multinomial" else [0.0]).astype(float)
    classes = (0.0, 1.0, 2.0) if loss == "multinomial" else ()
    coded = y if classes else 2.0 * y - 1.0
    groups = ColumnGroups(np.array([0, 1, 2, 4, 5, 6]), np.array([0, 3, 5, 6]))
    fit = refit(X, coded, np.ones(4000), SelectionSettings(loss=loss, classes=classes), with_errors=True, asked=groups)

    def deviance(columns):
        model = LogisticRegression(C=1e6, tol=1e-10, max_iter=1000).fit(X[:, columns], y)
        return -2.0 * np.log(model.predict_proba(X[:, columns])[np.arange(4000), y.astype(int)]).sum()

    for k, (own, rank) in enumerate((([0, 1, 2], 2), ([4, 5], 2), ([6], 1))):
        expected = deviance([j for j in range(7) if j not in own]) - deviance(range(7))
        assert fit.gain[0, k] == pytest.approx(expected, rel=0.05)
        assert abs(fit.gain_df[0, k]) == rank * max(len(classes) - 1, 1)


@pytest.mark.parametrize("groups", [{"a": [0, 1], "b": [1, 2]}, {"all": {"a": [0, 1], "b": [2, 3]}}])
def test_groups_that_overlap_and_trees_are_refused_with_the_selector_that_takes_them(groups):
    X, z, _, rng = planted(0)
    with pytest.raises(
        ConfigError, match=r"do not overlap, found column [01] in .*FGM supports overlapping groups, and trees"
    ):
        daskfs.Message(loss="squared", feature_groups=groups).fit(X, z + rng.standard_normal(2000))


def test_the_approximate_path_is_refused_with_groups():
    with refused(ConfigError, "parameters", at="approx", naming=["feature_groups"]):
        daskfs.Message(loss="logistic", feature_groups=[0, 0], approx="lsa").check_parameters()


@pytest.mark.slow
def test_the_schema_of_an_ingested_table_says_what_belongs_together(tmp_path):
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(list("abcde"), 1500), "age": rng.standard_normal(1500)})
    frame["sort"] = rng.choice(list("xyz"), 1500)
    frame["y"] = frame["city"].map(dict(zip("abcde", (0.0, 1.0, -1.0, 0.5, 0.2), strict=True))) + frame["age"]
    frame["y"] += rng.standard_normal(1500)
    frame.to_csv(tmp_path / "table.csv", index=False)
    store = daskfs.ingest(tmp_path / "table.csv", tmp_path / "table.zarr", target="y")
    selector = daskfs.Message(n_subsets=3, loss="squared", feature_groups="schema").fit(store)
    assert set(selector.group_names_) == {"city", "age"}
    assert selector.support_.sum() == (store.table_columns != "sort").sum()


def test_a_constant_column_of_a_group_goes_with_it_and_a_constant_group_nowhere():
    X, z, labels, rng = planted(2)
    X[:, 1], X[:, 140:145] = 3.0, 1.0
    with pytest.warns(SelectionWarning, match="selected although constant: 'x1'"):
        selector = daskfs.Message(n_subsets=3, loss="squared", feature_groups=labels).fit(
            X, z + rng.standard_normal(2000)
        )
    assert 0 in selector.groups_
    assert selector.support_[1]
    assert selector.coef_[1] == 0.0
    assert np.isnan(selector.scores_[140:145]).all()
    assert np.isfinite(selector.coef_).all()
    assert any("1 group(s) are constant and cannot be selected: 28" in note for note in selector.result_.notes)


def test_groups_larger_than_the_largest_model_are_told_of():
    X, z, _, rng = planted(3, n=900, n_true=1)
    labels = np.repeat([0, 1, 2, 3], [5, 5, 100, 40])
    with pytest.warns(SelectionWarning, match=r"1 group\(s\) have more columns than a subset's largest model .50."):
        daskfs.Message(n_subsets=3, loss="squared", feature_groups=labels, max_features=50).fit(
            X, z + rng.standard_normal(900)
        )


def test_an_estimator_votes_for_the_groups_of_its_columns():
    from sklearn.linear_model import Lasso

    X, z, labels, rng = planted(4)
    selector = daskfs.Message(n_subsets=3, loss="squared", feature_groups=labels, estimator=Lasso(alpha=0.2))
    selector.fit(X, z + rng.standard_normal(2000))
    np.testing.assert_array_equal(selector.support_, np.isin(labels, selector.groups_))
    assert len(selector.groups_)


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_that_come_later_vote_with_those_before(loss):
    X, z, labels, rng = planted(5)
    y, parts = target_of(loss, z, rng), (slice(0, 800), slice(800, 2000))
    selector = daskfs.Message(subset_size=400, loss=loss, feature_groups=labels)
    classes = np.unique(y) if loss in ("logistic", "multinomial") else None
    for rows in parts:
        selector.partial_fit(X[rows], y[rows], classes=classes)
    assert selector.n_subsets_ == 5
    np.testing.assert_array_equal(selector.support_, np.isin(labels, selector.groups_))
    assert {*selector.groups_} <= {0, 1, 2}
    assert len(selector.groups_) >= 2


def test_a_plan_promises_what_large_groups_take():
    small, large = (
        daskfs.Message(loss="squared", feature_groups=np.arange(4000) // size).plan(20_000, 4000, "float32", None)
        for size in (2, 100)
    )
    assert large.task.nbytes > small.task.nbytes + 4000 * 90 * 8
    with refused(PlanError, "memory-limit", at="memory_limit", naming=["subset"]):
        daskfs.Message(loss="squared", feature_groups=np.arange(4000) // 100).plan(20_000, 4000, "float32", 30 << 20)
