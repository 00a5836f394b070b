"""Online substitution with more than two classes: one against the rest, by columns that the classes share."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from daskfs import FGM, OnlineSubstitution
from daskfs.errors import ConfigError, SelectionWarning
from tests.refusals import refused

LABELS = np.array(["ash", "elm", "fir", "oak"])


def planted(seed, n_samples=1200, n_features=60, n_selected=5, n_classes=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    X[:, 1::2] = 0.6 * X[:, ::2] + 0.8 * X[:, 1::2]
    selected = np.sort(rng.choice(n_features, n_selected, replace=False))
    signs = rng.permuted(np.tile(np.resize([-1.0, 1.0], n_classes)[:, None], n_selected), axis=0)
    coef = signs * rng.uniform(0.6, 1.5, (n_classes, n_selected))
    utility = X[:, selected] @ coef.T + rng.gumbel(size=(n_samples, n_classes))
    return X, LABELS[utility.argmax(axis=1)], selected


def least_loss(X, labels, columns, ridge):
    """Return the sum over the classes of the least mean loss on some columns, by SciPy."""
    Z = (X[:, columns] - X[:, columns].mean(axis=0)) / X[:, columns].std(axis=0)
    total = 0.0
    for label in np.unique(labels):
        sign = np.where(labels == label, 1.0, -1.0)

        def loss(w, sign=sign):
            margin = sign * (Z @ w[1:] + w[0])
            slope = -sign / (1.0 + np.exp(margin))
            gradient = np.concatenate([[slope.mean()], Z.T @ slope / len(Z) + ridge * w[1:]])
            return np.logaddexp(0.0, -margin).mean() + 0.5 * ridge * (w[1:] ** 2).sum(), gradient

        total += minimize(loss, np.zeros(len(columns) + 1), jac=True, method="BFGS", options={"gtol": 1e-9}).fun
    return total


@pytest.mark.parametrize("engine", ["lazy", "gram", "naive"])
@pytest.mark.parametrize("seed", range(3))
def test_planted_columns_are_selected_for_all_classes(seed, engine):
    X, labels, selected = planted(seed)
    selector = OnlineSubstitution(n_features_to_select=5, engine=engine).fit(X, labels)
    np.testing.assert_array_equal(np.sort(selector.selected_), selected)
    assert selector.coef_.shape == (4, 60)
    assert selector.intercept_.shape == (4,)
    assert (selector.coef_[:, selected] != 0.0).all()
    np.testing.assert_array_equal(selector.classes_, LABELS)
    np.testing.assert_allclose(selector.predict_proba(X).sum(axis=1), 1.0)
    assert selector.score(X, labels) > 1.5 / len(LABELS)


@pytest.mark.parametrize("seed", range(3))
def test_no_exchange_of_one_column_lowers_the_sum_of_the_losses(seed):
    X, labels, _ = planted(seed, n_samples=200, n_features=10, n_selected=6)
    ridge = 0.01
    selector = OnlineSubstitution(n_features_to_select=3, ridge=ridge, n_epochs=20).fit(X, labels)
    held = selector.selected_.tolist()
    found = least_loss(X, labels, held, ridge)
    others = [j for j in range(10) if j not in held]
    for out, candidate in product(range(3), others):
        exchanged = [*held[:out], candidate, *held[out + 1 :]]
        # decisions are those of a quadratic approximation: near ties may stay as they are
        assert least_loss(X, labels, exchanged, ridge) > found - 2e-3


def test_scores_are_what_dropping_a_column_would_cost():
    X, labels, _ = planted(3, n_samples=400, n_features=12)
    selector = OnlineSubstitution(n_features_to_select=4, ridge=0.01).fit(X, labels)
    whole = least_loss(X, labels, selector.selected_, 0.01)
    for j in selector.selected_.tolist():
        without = [column for column in selector.selected_.tolist() if column != j]
        cost = least_loss(X, labels, without, 0.01) - whole
        assert selector.scores_[j] == pytest.approx(cost, rel=0.25)  # of the quadratic approximation


def test_the_coefficients_are_those_of_each_class_against_the_rest():
    X, labels, selected = planted(1)
    several = OnlineSubstitution(n_features_to_select=5, ridge=0.01).fit(X, labels)
    for k, label in enumerate(LABELS):
        alone = OnlineSubstitution(n_features_to_select=5, ridge=0.01).fit(X[:, selected], labels == label)
        np.testing.assert_allclose(several.coef_[k][selected], alone.coef_, rtol=1e-5, atol=1e-9)
        assert several.intercept_[k] == pytest.approx(alone.intercept_, rel=1e-5)


def test_columns_that_arrive_over_time_are_those_of_a_fit():
    X, labels, selected = planted(2)
    selector = OnlineSubstitution(n_features_to_select=5)
    for start in range(0, 60, 20):
        selector.partial_fit_features(X[:, start : start + 20], y=labels if start == 0 else None)
    np.testing.assert_array_equal(np.sort(selector.selected_), selected)
    np.testing.assert_array_equal(selector.classes_, LABELS)


def test_fewer_columns_by_cross_validation_are_chosen_in_the_order_of_removal():
    X, labels, selected = planted(0)
    asked = {"cv": 3, "sizes": [2, 5, 10], "rule": "1se"}
    selector = OnlineSubstitution(n_features_to_select=asked).fit(X, labels)
    assert selector.n_features_to_select_ == 5
    np.testing.assert_array_equal(np.sort(selector.selected_), selected)


def test_a_rare_class_has_its_own_column():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((2000, 30))
    labels = np.where(X[:, 3] > 1.8, "rare", np.where(X[:, 8] + 0.5 * rng.standard_normal(2000) > 0.0, "a", "b"))
    selector = OnlineSubstitution(n_features_to_select=2).fit(X, labels)
    assert set(selector.selected_.tolist()) == {3, 8}


def test_other_rules_and_groups_are_refused_with_more_than_two_classes():
    X, labels, _ = planted(0, n_samples=200)
    with refused(ConfigError, "parameters", at="rule", naming=["paper", "4"]):
        OnlineSubstitution(n_features_to_select=3, rule="paper").fit(X, labels)
    with refused(ConfigError, "parameters", at="feature_groups", naming=["4"]):
        OnlineSubstitution(n_features_to_select=3, feature_groups=[[0, 1], [2, 3]]).fit(X, labels)


def test_whole_numbers_of_a_few_values_are_classes_with_a_warning():
    X, labels, selected = planted(0)
    with pytest.warns(SelectionWarning):
        selector = OnlineSubstitution(n_features_to_select=5).fit(X, np.searchsorted(LABELS, labels))
    np.testing.assert_array_equal(np.sort(selector.selected_), selected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_held_out_accuracy_is_that_of_fgm_or_better(seed):
    X, labels, _ = planted(seed, n_samples=1600, n_features=300, n_selected=8)
    train, test = slice(0, 600), slice(600, None)
    ours = OnlineSubstitution(n_features_to_select=8).fit(X[train], labels[train])
    other = FGM(n_features_to_select=8).fit(X[train], labels[train])
    assert ours.score(X[test], labels[test]) > other.score(X[test], labels[test]) - 0.02
