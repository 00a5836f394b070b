"""`refit`: coefficients of the selected features without a penalty, with a ridge, with an elastic net."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, LinearRegression, LogisticRegression

import daskfs
from daskfs import FGM, Message, Mission, OnlineSubstitution, ingest
from daskfs.errors import ConfigError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.shared import selected_blocks
from daskfs.selectors.shared.elastic_net import N_FOLDS, SHARES
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run
from tests.refusals import refused
from tests.tolerances import assert_close


def data(n=240, p=20, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.linspace(0.5, 3.0, p) + rng.standard_normal(p)
    y = X[:, 2] - 0.6 * X[:, 5] + 0.3 * X[:, 9] + noise * rng.standard_normal(n)
    return X, y, rng.integers(0, 3, n).astype(float)


COLUMNS = np.array([9, 2, 5, 0, 14, 11, 7, 17])


def elastic(X, y, weight=None, loss="squared", positive=None, random=True, ridge=None):
    matrix = ArrayMatrix(X, y, weight, None, random)
    return refit_selected(Run(matrix, "test"), COLUMNS, MeanLoss(loss, positive, ridge=ridge, has_l1=True))


def minimum(X, y, weight, ridge, l1, mean, scale):
    """What scikit-learn finds with the same penalties, on the scale of standardised columns."""
    Z, share = (X[:, COLUMNS] - mean) / scale, l1 / (l1 + ridge)
    return ElasticNet(l1 + ridge, l1_ratio=share, tol=1e-12, max_iter=100_000).fit(Z, y, sample_weight=weight)


@pytest.mark.parametrize("is_weighted", [False, True])
def test_both_penalties_are_those_of_scikit_learns_elastic_net_and_the_folds(is_weighted):
    X, y, drawn = data(n=100, noise=3.0)
    weight = drawn if is_weighted else np.ones(len(y))
    fit = elastic(X, y, weight, ridge=0.01)
    mean = np.average(X[:, COLUMNS], axis=0, weights=weight)
    scale = np.sqrt(np.average((X[:, COLUMNS] - mean) ** 2, axis=0, weights=weight))
    assert fit.l1 > 0.0
    known = minimum(X, y, weight, fit.ridge, fit.l1, mean, scale)
    np.testing.assert_allclose(fit.coef * scale, known.coef_, atol=1e-6)
    largest = np.abs(((X[:, COLUMNS] - mean) / scale).T @ (weight * (y - np.average(y, weights=weight)))).max()
    held_out = np.zeros(len(SHARES))
    ends = np.linspace(0, len(y), N_FOLDS + 1).astype(int)
    for start, stop in pairwise(ends):
        left = np.r_[0:start, stop : len(y)]
        for k, l1 in enumerate(largest / weight.sum() * SHARES):
            model = minimum(X[left], y[left], weight[left], fit.ridge, l1, mean, scale)
            predicted = model.predict((X[start:stop, COLUMNS] - mean) / scale)
            held_out[k] += (weight[start:stop] * (y[start:stop] - predicted) ** 2).sum()
    assert fit.l1 == pytest.approx(largest / weight.sum() * SHARES[np.argmin(held_out)])


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_of_other_losses_it_is_near_the_minimum_with_both_penalties(loss):
    X, y, _ = data(n=600)
    rng = np.random.default_rng(1)
    y = rng.poisson(np.exp(0.3 * y / y.std())) if loss == "poisson" else np.where(y > 0.0, 1.0, -1.0)
    fit = elastic(X, y.astype(float), None, loss, 1.0 if loss == "logistic" else None, ridge=0.01)
    assert fit.l1 > 0.0
    scale = X[:, COLUMNS].std(axis=0)
    z = X[:, COLUMNS] @ fit.coef + fit.intercept
    slope = np.exp(z) - y if loss == "poisson" else -y / (1.0 + np.exp(y * z))
    gradient = (X[:, COLUMNS] / scale).T @ slope / len(y) + 0.01 * fit.coef * scale
    taken = fit.coef != 0.0
    tolerance = 1e-3 * fit.l1 + 1e-6
    np.testing.assert_allclose(gradient[taken], -fit.l1 * np.sign(fit.coef[taken]), atol=tolerance)
    assert (np.abs(gradient[~taken]) <= fit.l1 + tolerance).all()


def test_what_is_not_kept_gives_the_same_elastic_net(tmp_path, monkeypatch):
    X, y, weight = data(n=100, noise=3.0)
    store = ingest(X, tmp_path / "x.zarr", y=y, weight=weight, dtype="float64", tile_shape=(40, 5))
    kept = refit_selected(Run(store, "test"), COLUMNS, MeanLoss(ridge=0.01, has_l1=True))
    monkeypatch.setattr(selected_blocks, "DEFAULT_BLOCK_NBYTES", 0)
    read = refit_selected(Run(store, "test"), COLUMNS, MeanLoss(ridge=0.01, has_l1=True))
    assert kept.l1 > 0.0
    assert_close(kept.l1, read.l1)
    assert_close(kept.coef, read.coef)


SELECTORS = [FGM(6), OnlineSubstitution(6), Mission(6), Message(loss="squared"), OnlineSubstitution("cv")]


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_ols_is_least_squares_on_what_the_selector_selected(selector):
    X, y, weight = data()
    own = type(selector)(**selector.get_params()).fit(X, y, weight)
    found = type(selector)(**selector.get_params() | {"refit": "ols"}).fit(X, y, weight)
    columns = found.selected_
    if selector.get_params().get("n_features_to_select") != "cv":
        assert columns.tolist() == own.selected_.tolist()
        assert "refit (ols)" in " ".join(found.result_.notes)
        np.testing.assert_array_equal(found.result_.table["own_coef"], own.result_.table["coef"])
    model = LinearRegression().fit(X[:, columns], y, weight)
    np.testing.assert_allclose(found.coef_[columns], model.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.result_.table["coef"], model.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.predict(X), model.predict(X[:, columns]), rtol=1e-6)
    assert found.result_.parameters["refit"] == "ols"


def several_classes():
    X, y, weight = data(n=400)
    return X, np.array(["high", "low", "middle"])[np.digitize(y, np.quantile(y, [0.3, 0.6]))], weight


def test_each_of_several_classes_is_told_from_the_rest():
    X, labels, weight = several_classes()
    selector = FGM(4, refit="ols").fit(X, labels, weight)
    columns = selector.selected_
    for k, label in enumerate(selector.classes_):
        model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000)
        model.fit(X[:, columns], labels == label, weight)
        np.testing.assert_allclose(selector.coef_[k, columns], model.coef_[0], rtol=1e-2, atol=1e-3)
    assert selector.predict_proba(X).shape == (400, 3)
    assert selector.score(X, labels) > 0.5


def test_the_multinomial_loss_has_one_model_of_all_classes():
    X, labels, weight = several_classes()
    selector = Message(refit="ols", loss="multinomial", n_subsets=2).fit(X, labels, weight)
    columns = selector.selected_
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000).fit(X[:, columns], labels, weight)
    centred = model.coef_ - model.coef_.mean(axis=0)
    np.testing.assert_allclose(selector.coef_[:, columns], centred, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(selector.predict_proba(X), model.predict_proba(X[:, columns]), atol=1e-3)


def test_made_features_are_refitted():
    X, y, _ = data()
    selector = FGM(3, feature_map="splines", refit="ols").fit(X, y)
    made = selector.transform(X)
    model = LinearRegression().fit(made, y)
    np.testing.assert_allclose(selector.predict(X), model.predict(made), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("refit", ["ols", "ridge", "elastic"])
def test_rows_and_columns_that_come_once_are_not_refitted(refit):
    X, y, _ = data()
    with refused(ConfigError, "parameters", at="refit", naming=["selected"]):
        Mission(3, refit=refit).partial_fit(X, y)
    with refused(ConfigError, "parameters", at="refit"):
        OnlineSubstitution(3, refit=refit).fit_blocks(iter([X[:, :10], X[:, 10:]]), y)
    with refused(ConfigError, "parameters", at="refit"):
        Message(refit=refit).partial_fit(X, y)
    Mission(3).partial_fit(X, y)


def test_the_plan_says_it_and_counts_its_columns():
    plans = [FGM(50, refit=by).plan(1000, 2000, "float64", None) for by in ("none", "elastic")]
    assert "then a refit (elastic)" in plans[1].text
    assert plans[1].client.nbytes - plans[0].client.nbytes >= 8 * 1000 * 50
    for size in ("cv", {"sizes": [1, 50]}):
        plans = [OnlineSubstitution(size, refit=by).plan(1000, 2000, "float64", None) for by in ("none", "elastic")]
        assert plans[1].client.nbytes - plans[0].client.nbytes >= 8 * 1000 * 50


def test_a_selector_about_a_selector_has_the_refit_of_the_one_inside():
    X, y, _ = data()
    found = daskfs.SelectionCV(FGM(refit="ols"), sizes=[1, 3], cv=3).fit(X, y)
    model = LinearRegression().fit(X[:, found.selected_], y)
    np.testing.assert_allclose(found.coef_[found.selected_], model.coef_, rtol=1e-6)
    assert "refit" not in found.get_params(deep=False)


@pytest.mark.slow
def test_penalties_lose_less_to_noise_than_least_squares():
    """On 60 data sets of 40 rows, of which 20 columns of noise are fitted beside one of signal."""
    errors = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, T = rng.standard_normal((40, 21)), rng.standard_normal((400, 21))
        y = X[:, 0] + rng.standard_normal(40)
        selector = FGM(21, refit="none").fit(X, y)
        run = Run(ArrayMatrix(X, y), "test")
        fits = [selector.with_refit(run, by)[0] for by in ("ols", "ridge", "elastic")]
        errors.append([((one.predict(T) - T[:, 0]) ** 2).mean() for one in fits])
    ols, ridge, elastic = np.mean(errors, axis=0)
    assert ridge < 0.6 * ols
    assert elastic < 0.9 * ridge
