"""What could take a selected feature's place, exactly; how much lies beyond a selection, over seeds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from daskfs import FGM, Message, OnlineSubstitution, ingest
from daskfs.errors import ConfigError
from daskfs.selectors.diagnostics import signal_beyond as beyond
from tests.refusals import refused


def data(n=400, p=609, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, 5] = X[:, 0] + 0.2 * rng.standard_normal(n)
    X[:, p - 9] = X[:, 1] + 0.1 * rng.standard_normal(n)
    return X, X[:, 0] - 2.0 * X[:, 1] + 0.7 * X[:, 2] + rng.standard_normal(n)


def mean_loss(X, y, columns, weight=None):
    fit = LinearRegression().fit(X[:, columns], y, weight)
    return 0.5 * np.average((y - fit.predict(X[:, columns])) ** 2, weights=weight)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_loss_of_a_swap_is_that_of_a_fit_with_the_stand_in(is_weighted):
    X, y = data()
    weight = np.where(np.arange(len(y)) % 4 == 0, 3.0, 1.0) if is_weighted else None
    selector = OnlineSubstitution(3).fit(X, y, weight)
    chosen = selector.selected_.tolist()
    table = selector.stand_ins(X, y, weight, n_stand_ins=2)
    before = mean_loss(X, y, chosen, weight)
    for row in table.itertuples():
        rest = [k for k in chosen if k != int(row.feature[1:])]
        swapped = mean_loss(X, y, [*rest, table.loc[row.Index, "index"]], weight) - before
        assert row.loss_increase == pytest.approx(swapped, rel=1e-8)
        assert row.share_lost == pytest.approx(swapped / (mean_loss(X, y, rest, weight) - before), rel=1e-8)
    first = table.groupby("feature").first()
    assert set(first["index"]) >= {5, 600} or set(chosen) & {5, 600}
    assert table["feature"].drop_duplicates().tolist() == [f"x{j}" for j in selector.selected_]


def test_the_loss_of_a_swap_of_classes_is_nearly_that_of_a_fit(tmp_path):
    X, y = data(2_000, 30)
    labels = np.where(y + np.random.default_rng(1).logistic(size=2_000) > 0, "high", "low")
    selector = FGM(2, loss="logistic").fit(X, labels)
    best = selector.stand_ins(X, labels, n_stand_ins=1).set_index("feature").loc["x1"]

    def loss(columns):
        told = LogisticRegression(C=np.inf).fit(X[:, columns], labels).predict_proba(X[:, columns])
        return -np.mean(np.log(np.where(labels == "low", told[:, 1], told[:, 0])))

    chosen = selector.selected_.tolist()
    swapped = loss([21, *(k for k in chosen if k != 1)]) - loss(chosen)
    assert best["stand_in"] == "x21"
    assert best["loss_increase"] == pytest.approx(swapped, rel=0.5)
    store = ingest(X, tmp_path / "s.zarr", y=(labels == "high").astype(float), shuffle=False, dtype="float64")
    of_store = FGM(2, loss="logistic").fit(store).stand_ins(store, n_stand_ins=1).set_index("feature").loc["x1"]
    assert of_store["loss_increase"] == pytest.approx(best["loss_increase"], rel=1e-6)


def test_several_classes_have_stand_ins_and_two_processes_find_the_same(threads):
    X, y = data(500)
    classes = np.digitize(y, [-1.0, 1.0])
    here = FGM(3, loss="logistic").fit(X, classes).stand_ins(X, classes)
    there = FGM(3, loss="logistic", client=threads.client).fit(X, classes).stand_ins(X, classes)
    assert here.equals(there)


def test_features_that_are_alike_are_one_bundle():
    X, y = data()
    X[:, 7] = X[:, 1] + 0.15 * np.random.default_rng(3).standard_normal(len(y))
    selector = OnlineSubstitution(4).fit(X, y + X[:, 7])
    table = selector.stand_ins(X, y + X[:, 7])
    of_feature = table.groupby("feature")["bundle"].first()
    assert {"x1", "x7"} & set(of_feature.index)
    like_x1 = [name for name in ("x1", "x7", "x600") if name in of_feature.index]
    assert of_feature[like_x1].nunique() == 1
    assert of_feature["x2"] not in set(of_feature[like_x1])


def test_features_of_a_map_have_none():
    X, y = data(200, 10)
    selector = FGM(2, feature_map="pairs").fit(X[:, :8], y)
    with refused(ConfigError, "parameters", at="stand_ins", naming=["map"]):
        selector.stand_ins(X[:, :8], y)
    with refused(ConfigError, "parameters", at="signal_beyond", naming=["map"]):
        selector.signal_beyond(X[:, :8], y)


def many_weak(seed, n=600, p=500, size=0.06):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 0] + X @ np.full(p, size) * rng.choice([-1, 1]) + rng.standard_normal(n)


@pytest.mark.nightly
def test_many_weak_features_are_told_and_nothing_is_told_where_there_are_none():
    told, false_alarms = 0, 0
    for seed in range(6):
        X, y = many_weak(seed)
        told += OnlineSubstitution(1).fit(X, y).signal_beyond(X, y).is_polygenic
        y = 0.7 * X[:, 0] + np.random.default_rng(seed).standard_normal(len(y))
        false_alarms += OnlineSubstitution(1).fit(X, y).signal_beyond(X, y).is_polygenic
    assert (told, false_alarms) == (6, 0)


@pytest.mark.slow
def test_what_lies_beyond_is_at_most_what_the_weak_features_carry():
    X, y = many_weak(3)
    found = Message(n_subsets=1).fit(X, y).signal_beyond(X, y)
    signal = (y - X[:, 0]).var() / y.var()
    assert 0.05 < found.low < found.beyond < found.high < signal
    assert "many weak features carry signal. n_features_to_select='cv'" in str(found)


@pytest.mark.slow
def test_a_projection_of_many_columns_says_nearly_what_all_say(monkeypatch):
    X, y = many_weak(5, n=300, p=600)
    exact = OnlineSubstitution(1).fit(X, y).signal_beyond(X, y)
    monkeypatch.setattr(beyond, "N_BUCKETS", 512)
    near = OnlineSubstitution(1).fit(X, y).signal_beyond(X, y)
    assert near.beyond != exact.beyond
    assert near.beyond == pytest.approx(exact.beyond, abs=2 * exact.std_error)


@pytest.mark.nightly
def test_labels_and_classes_have_a_share_too():
    X, y = many_weak(2)
    for labels in (np.where(y > 0, "b", "a"), np.digitize(y, [-1.0, 1.0])):
        found = FGM(1, loss="logistic").fit(X, labels).signal_beyond(X, labels)
        assert found.n_rows == 600
        assert 0.0 < found.beyond < 0.6


def test_what_is_explained_of_classes_does_not_depend_on_their_order():
    X, y = data(150, 40)
    classes = np.digitize(y, [-1.0, 1.0])
    first, second = (
        FGM(2, loss="logistic").fit(X, labels).signal_beyond(X, labels) for labels in (classes, 2 - classes)
    )
    assert second.selected == pytest.approx(first.selected, rel=1e-9)
    assert second.beyond == pytest.approx(first.beyond, rel=1e-9)
