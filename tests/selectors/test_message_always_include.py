"""Columns that MESSAGE always includes: in every model, without a penalty or a vote."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression

from daskfs import SelectionCV
from daskfs.errors import ConfigError, DataError
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.selectors.message.selector import Message
from tests.refusals import refused
from tests.tolerances import assert_same_answer

N, P, COVARIATES, TRUE = 2000, 60, [0, 1], [40, 50]


def confounded(seed, loss="squared", n_samples=N):
    """Draw covariates that drive the target and thirty features, which say nothing beside them; two others do."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, P))
    X[:, 5:35] += 1.5 * X[:, rng.integers(0, 2, 30)]
    z = 1.5 * X[:, 0] - 1.5 * X[:, 1] + X[:, 40] - 0.8 * X[:, 50]
    if loss == "logistic":
        return X, np.where(rng.random(n_samples) < 1 / (1 + np.exp(-z)), "case", "control")
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.3 * z)).astype(float)
    if loss == "multinomial":
        return X, np.digitize(z + rng.logistic(size=n_samples), [-1.5, 1.5])
    return X, z + rng.standard_normal(n_samples)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "huber", "multinomial"])
def test_covariates_keep_out_what_only_stands_in_for_them(loss):
    n_seeds = 10 if loss == "squared" else 4
    n_false_without, n_exact = 0, 0
    for seed in range(n_seeds):
        X, y = confounded(seed, loss)
        without = Message(n_subsets=3, loss=loss).fit(X[:, 2:], y)
        n_false_without += len(set(without.selected_ + 2) - set(TRUE)) > 0
        found = Message(n_subsets=3, loss=loss, always_include=COVARIATES).fit(X, y)
        assert set(found.selected_[:2]) == set(COVARIATES)
        n_exact += set(found.selected_[2:]) == set(TRUE)
    assert n_false_without == n_seeds
    assert n_exact >= n_seeds - 1


def test_they_are_in_the_model_though_they_say_nothing():
    X, y = confounded(0)
    found = Message(n_subsets=5, always_include=[59, 58, 0]).fit(X, y)
    assert found.selected_[:3].tolist() == [0, 59, 58] or found.selected_[:3].tolist() == [0, 58, 59]
    assert (found.scores_[[0, 58, 59]] == 1.0).all()
    expected = LinearRegression().fit(X[:, found.selected_], y)
    np.testing.assert_allclose(found.coef_[found.selected_], expected.coef_, rtol=1e-8)
    np.testing.assert_allclose(found.predict(X), expected.predict(X[:, found.selected_]), rtol=1e-8)
    assert np.isfinite(found.std_errors_[found.selected_]).all()
    assert "3 feature(s) were always included, without a penalty or a vote" in found.result_.notes
    assert not any("narrowly" in note and "x58" in note for note in found.result_.notes)
    assert (found.n_selected_per_subset_ >= 3).all()
    assert found.result_.history["df"][0] == 3
    alone = Message(n_subsets=5).fit(X, y)
    assert not set(alone.selected_) & {58, 59}


def test_they_come_first_in_models_of_every_size():
    X, y = confounded(1)
    selector = Message(n_subsets=5, always_include=[58]).fit(X, y)
    nested = SelectionCV(selector, sizes=[1, 2, 4], cv=3).fit(X, y)
    assert 58 in nested.selected_
    assert selector.selected_[0] == 58


@pytest.mark.parametrize(
    "options", [{"average": "median"}, {"average": "mean"}, {"gic_rss": "lasso"}, {"goal": "prediction"}]
)
def test_they_are_averaged_as_the_others_are(options):
    X, y = confounded(2)
    found = Message(always_include=COVARIATES, **options).fit(X, y)
    assert set(found.selected_) >= {*COVARIATES, *TRUE}
    np.testing.assert_allclose(found.coef_[[*COVARIATES, *TRUE]], [1.5, -1.5, 1.0, -0.8], atol=0.15)


@pytest.mark.nightly
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "multinomial"])
def test_sparse_rows_give_what_dense_rows_give(loss):
    rng = np.random.default_rng(3)
    X = sp.random_array((1500, 400), density=0.04, rng=rng, format="csr")
    z = 4 * X[:, [3]].toarray()[:, 0] - 4 * X[:, [7]].toarray()[:, 0]
    y = {
        "squared": lambda: z + 0.3 * rng.standard_normal(1500),
        "logistic": lambda: rng.random(1500) < 1 / (1 + np.exp(-z)),
        "poisson": lambda: rng.poisson(np.exp(z)).astype(float),
        "multinomial": lambda: np.digitize(z + rng.logistic(size=1500), [-1, 1]),
    }[loss]()
    options = {"n_subsets": 3, "loss": loss, "always_include": [3, 200]}
    found, expected = Message(**options).fit(X, y), Message(**options).fit(X.toarray(), y)
    assert set(found.selected_[:2]) == {3, 200}
    assert_same_answer(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic", "multinomial"])
def test_columns_bring_their_groups(loss):
    X, y = confounded(4, loss)
    labels = np.arange(P) // 2
    found = Message(n_subsets=3, loss=loss, feature_groups=labels, always_include=[59]).fit(X, y)
    assert found.groups_[0] == 29
    assert set(found.selected_[:2]) == {58, 59}
    assert found.group_scores_[0] == 1.0
    assert {0, 20, 25} <= set(found.groups_)
    assert "1 group(s) were always included, without a penalty or a vote" in found.result_.notes
    of_one = Message(n_subsets=3, loss=loss, feature_groups=[[j] for j in range(P)][::-1], always_include=[59]).fit(
        X, y
    )
    plain = Message(n_subsets=3, loss=loss, always_include=[59]).fit(X, y)
    assert of_one.selected_[0] == plain.selected_[0] == 59
    assert set(of_one.selected_) == set(plain.selected_)


def test_rows_that_come_later_have_them_too():
    X, y = confounded(5)
    parts = Message(n_subsets=3, always_include=["a0", "a1"])
    names = [f"a{j}" for j in range(P)]
    for rows in (slice(0, 1000), slice(1000, N)):
        parts.partial_fit(pd.DataFrame(X[rows], columns=names), y[rows])
    assert set(parts.selected_[:2]) == set(COVARIATES)
    assert set(parts.selected_[2:]) == set(TRUE)


def test_a_covariate_that_varies_in_some_subsets_only_counts_there():
    X, y = confounded(6)
    X[:1500, 0] = 0.0
    found = Message(n_subsets=4, partition="strided", always_include=[0, 1]).fit(X, y)
    order = np.argsort(np.arange(N) % 4, kind="stable")  # a subset has rows that stand together
    together = np.empty_like(order)
    together[np.arange(N)] = order
    here = Message(n_subsets=4, partition="strided", always_include=[0, 1]).fit(
        X[np.argsort(together)], y[np.argsort(together)]
    )
    for one in (found, here):
        assert set(one.selected_[:2]) == {0, 1}
        assert one.scores_[0] == 1.0


def test_more_covariates_than_a_path_leaves_for_the_refit():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((3000, 100))
    y = X @ np.linspace(0.0, 1.0, 100) + rng.standard_normal(3000)
    found = Message(n_subsets=3, always_include=np.arange(20, 95)).fit(X, y)
    assert set(range(20, 95)) <= set(found.selected_)
    np.testing.assert_allclose(
        found.coef_[found.selected_], LinearRegression().fit(X[:, found.selected_], y).coef_, rtol=1e-8
    )


@pytest.mark.parametrize(
    ("options", "error", "topic", "at", "naming"),
    [
        ({"always_include": [60]}, DataError, "shapes", "always_include", ["0", "59", "60"]),
        ({"always_include": ["age"]}, DataError, "shapes", "always_include", ["'age'"]),
        ({"always_include": [3]}, DataError, "values", "always_include, column 'x3'", ["constant"]),
        ({"always_include": [0, 1], "max_features": 1}, ConfigError, "parameters", "always_include", ["1", "2"]),
        ({"always_include": [0], "estimator": LinearRegression()}, ConfigError, "parameters", "always_include", []),
    ],
)
def test_what_cannot_be_included_is_refused(options, error, topic, at, naming):
    X, y = confounded(0)
    X[:, 3] = 1.0
    with refused(error, topic, at=at, naming=naming):
        Message(n_subsets=3, **options).fit(X, y)


def test_a_plan_counts_them():
    few, many = (
        Message(n_subsets=5, always_include=asked).plan(100_000, 20_000, np.float32, None)
        for asked in (None, np.arange(500))
    )
    assert many.task.terms["its path"] > few.task.terms["its path"]
    named = Message(n_subsets=5, always_include=[f"PC{k}" for k in range(500)])
    assert named.plan(100_000, 20_000, np.float32, None).task.nbytes == many.task.nbytes


def test_a_pipeline_names_them(tmp_path):
    X, y = confounded(8, n_samples=1200)
    names = ["age", "sex", *(f"f{j}" for j in range(2, P))]
    pd.DataFrame(X, columns=names).assign(y=y).to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "pipeline.yaml").write_text(
        "version: 1\nname: covariates\nsource: {kind: csv, path: table.csv, target: y}\nstore: {path: table.zarr}\n"
        "select: {method: message, n_subsets: 3, always_include: [age, sex]}\nsplit: {test: 0.2}\noutput: run\n"
    )
    result = run_pipeline(load_pipeline(tmp_path / "pipeline.yaml")).results["message"]
    assert set(result.table["name"].head(2)) == {"age", "sex"}
    assert set(result.table["name"]) == {"age", "sex", "f40", "f50"}
