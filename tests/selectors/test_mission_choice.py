"""MISSION's choice among candidates: one of each bundle, few rows, constant columns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import RidgeCV

from daskfs.errors import SelectionWarning
from daskfs.kernels.linear.forward_selection import forward_selection
from daskfs.selectors.mission.selector import Mission


def bundles(seed, n_samples=600, n_bundles=60, per_bundle=5, n_true=10, share=0.9):
    """Ten of sixty bundles of correlated columns matter, by one column each; their sizes differ."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n_samples, n_bundles))
    noise = rng.standard_normal((n_samples, n_bundles, per_bundle))
    X = (np.sqrt(share) * common[:, :, None] + np.sqrt(1.0 - share) * noise).reshape(n_samples, -1)
    true = rng.choice(n_bundles, n_true, replace=False)
    y = X[:, true * per_bundle] @ (rng.choice([-1, 1], n_true) * np.linspace(0.4, 1.5, n_true))
    return X, y + 0.5 * rng.standard_normal(n_samples), true


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_of_a_bundle_of_correlated_columns_one_is_selected(loss):
    found = []
    for seed in range(8):
        X, y, true = bundles(seed)
        selector = Mission(10, loss).fit(X, y if loss == "squared" else y > 0)
        found.append(len(set((selector.selected_ // 5).tolist()) & set(true.tolist())))
    assert np.mean(found) >= (9.5 if loss == "squared" else 8.5)  # by weight 8.4 of numbers


def test_forward_selection_takes_what_lowers_the_loss_most():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 12)) @ rng.standard_normal((12, 12))
    Y = rng.standard_normal((200, 2)) + X[:, [3, 7]]
    gram, cross, ridge = X.T @ X / 200, Y.T @ X / 200, 0.1
    chosen: list[int] = []
    for _ in range(6):
        losses = {}
        for j in sorted(set(range(12)) - set(chosen)):
            S = [*chosen, j]
            losses[j] = -np.trace(
                cross[:, S] @ np.linalg.inv(gram[np.ix_(S, S)] + ridge * np.eye(len(S))) @ cross[:, S].T
            )
        chosen.append(min(losses, key=losses.__getitem__))
    np.testing.assert_array_equal(forward_selection(gram, cross.copy(), ridge, 6), chosen)


def test_forward_selection_ends_where_columns_depend_on_the_chosen_ones():
    gram = np.ones((3, 3))
    assert forward_selection(gram, np.ones((1, 3)), 0.0, 3).tolist() == [0]


def test_constant_columns_are_not_selected():
    rng = np.random.default_rng(0)
    for make in (np.asarray, scipy.sparse.csr_array):
        X = np.ones((200, 6))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert not len(Mission(3).fit(make(X), rng.standard_normal(200)).selected_)
        assert any("no feature was selected" in str(one.message) for one in said)
        X[:, 4] = rng.standard_normal(200)
        with pytest.warns(SelectionWarning, match="1 of the 3 features asked for"):
            assert Mission(3).fit(make(X), X[:, 4]).selected_.tolist() == [4]


@pytest.mark.slow
@pytest.mark.parametrize("n_features_to_select", [10, 30, None])
def test_in_short_data_its_own_predictions_are_those_of_a_ridge(n_features_to_select):
    """Columns of ten factors, many times more than rows."""
    lost = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        factors = rng.standard_normal((90, 10))
        X = factors @ rng.standard_normal((10, 1500)) + 0.3 * rng.standard_normal((90, 1500))
        y = factors[:, :3].sum(axis=1) + rng.standard_normal(90)
        selector = Mission(n_features_to_select).fit(X[:60], y[:60])
        columns = selector.selected_
        peer = RidgeCV(np.logspace(-2, 4, 13)).fit(X[:60][:, columns], y[:60])
        variance = y[60:].var()
        own, other = (
            np.mean((y[60:] - z) ** 2) / variance for z in (selector.predict(X[60:]), peer.predict(X[60:][:, columns]))
        )
        lost.append(own - other)
    assert np.mean(lost) <= np.std(lost, ddof=1) / np.sqrt(len(lost)) + 0.02


def test_the_default_number_of_features_follows_the_rows_and_is_said():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 1500))
    selector = Mission().fit(X, X[:, 0] + 0.1 * rng.standard_normal(60))
    assert len(selector.selected_) == 30
    assert any("30 features by default: half the number of rows" in note for note in selector.result_.notes)
    with pytest.warns(SelectionWarning, match="100 features for 60 rows"):
        assert len(Mission(100).fit(X, X[:, 0]).selected_) == 100


def test_the_history_of_a_stream_is_that_of_each_call():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 20))
    y = X[:, 3] + 0.1 * rng.standard_normal(4000)
    stream = Mission(3)
    for start in range(0, 4000, 1000):
        stream.partial_fit(X[start : start + 1000], y[start : start + 1000])
    losses = stream.result_.history["mean_loss"].to_numpy()
    assert losses[0] > 0.015  # it learns from these
    assert (losses[1:] < 0.0075).all()  # 0.005 is the noise; the mean since the beginning was .008 and more
