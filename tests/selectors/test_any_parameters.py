"""Small and odd data with random parameters: a fit is refused in our words, or its predictions are finite numbers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import daskfs
from daskfs.errors import DaskfsError

LOSSES = {
    "numbers": ["auto", "squared", "huber", "epsilon_insensitive"],
    "counts": ["auto", "poisson", "squared"],
    "two classes": ["auto", "logistic", "squared_hinge", "multinomial"],
    "three classes": ["auto", "multinomial", "logistic"],
}
PAIRS = "of two columns each"  # feature_groups
OF_ALL: dict[str, list[Any]] = {
    "always_include": [None, [0], [1, 3]],
    "refit": ["none", "ridge", "elastic", "ols"],
    "n_features_to_select": [None, 1, 3],
}
VALUES: dict[type, dict[str, list[Any]]] = {
    daskfs.Message: {
        "approx": [None, "lsa"],
        "average": ["one_step", "mean", "median"],
        "criterion": ["vote", "bic", "ric", "ebic"],
        "feature_groups": [None, PAIRS],
        "gic_rss": ["refit", "lasso"],
        "goal": ["inference", "selection", "prediction"],
        "max_features": [None, 1, 5],
        "n_lambdas": [1, 10],
        "n_subsets": [None, 1, 2, 5],
        "patience": [None, 0, 3],
        "second_look": [True, False],
        "sigma2": [None, 1.0],
        "std_errors": ["information", "sandwich", None],
    },
    daskfs.OnlineSubstitution: {
        "block_columns": [None, 1, 3],
        "feature_groups": [None, PAIRS],
        "fit_intercept": [True, False],
        "n_epochs": [1, 3],
        "order": ["fixed", "random"],
        "ridge": [None, 0.0, 1.0],
        "rule": ["exchange", "paper"],
        "schedule": ["auto", "screen", "stream"],
        "standardize": [True, False],
    },
    daskfs.AsyncOnlineSubstitution: {
        "n_epochs": [1, 2],
        "n_workers": [None, 1, 2],
        "ridge": [None, 1.0],
        "schedule": ["asynchronous", "synchronous"],
    },
    daskfs.FGM: {
        "C": [None, 1.0, "validation"],
        "center": [True, False],
        "debias": [True, False],
        "feature_groups": [None, PAIRS],
        "feature_map": [None, "pairs", "splines", "additive_chi2"],
        "fit_intercept": [True, False],
        "n_features_per_pass": [None, 1, 2],
        "n_features_to_select": [None, 1, 3, "cv"],
        "normalize": ["auto", True, False],
        "solver": ["apg", "mkl", "simple_mkl"],
    },
    daskfs.Mission: {
        "block_rows": [1, 7, 4096],
        "class_weight": [None, "balanced"],
        "n_buckets": [None, 16],
        "n_epochs": [None, 1, 2],
        "n_replicas": [1, 2],
        "per_class": [False, True],
        "standardize": [None, True, False],
        "tail": ["sketch", "dense"],
        "variant": ["active", "paper"],
    },
}


def drawn_data(rng: np.random.Generator, kind: str) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return 2 to 150 rows of 1 to 30 columns, some copied, constant, far from 0 or sparse, and perhaps weights."""
    n, p = int(rng.choice([2, 3, 5, 12, 40, 150])), int(rng.choice([1, 2, 4, 9, 30]))
    X = rng.standard_normal((n, p)) if rng.random() < 0.6 else rng.integers(0, 3, (n, p)).astype(float)
    z = X[:, 0] + 0.3 * rng.standard_normal(n)
    y = {"numbers": z, "counts": rng.poisson(np.exp(z)), "two classes": (z > 0.0).astype(int)}.get(kind)
    y = np.array(list("abc"))[np.digitize(z, [-0.3, 0.6])] if y is None else y
    if p > 1 and rng.random() < 0.3:
        X[:, -1] = X[:, 0]
    if rng.random() < 0.2:
        X[:, p // 2] = 1.0
    if rng.random() < 0.1:
        X = X * 1e6 + 1e8
    weights = [None, None, rng.integers(0, 3, n).astype(float), 0.5 + rng.random(n)]
    is_sparse = rng.random() < 0.3
    return scipy.sparse.csr_array(X * (np.abs(X) > 0.8)) if is_sparse else X, y, weights[rng.integers(4)]


def drawn_parameters(rng: np.random.Generator, kind: type, n_features: int) -> dict[str, Any]:
    """Return a quarter of the parameters of a selector."""
    values = {name: given for name, given in OF_ALL.items() if name in kind().get_params()} | VALUES[kind]
    drawn = {name: given[rng.integers(len(given))] for name, given in values.items() if rng.random() < 0.25}
    if drawn.get("feature_groups") == PAIRS:
        drawn["feature_groups"] = [j // 2 for j in range(n_features)]
    return drawn


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_a_fit_is_refused_or_predicts(kind, seed):
    n_fitted = 0
    for number in range(30):
        rng = np.random.default_rng([seed, number])
        target = str(rng.choice(list(LOSSES)))
        X, y, weight = drawn_data(rng, target)
        given = {"loss": str(rng.choice(LOSSES[target]))} | drawn_parameters(rng, kind, X.shape[1])
        asked = f"{kind.__name__}({given}) of {X.shape}, {target}, seed {seed}, {number}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                selector = kind(random_state=0, **given).fit(X, y, weight)
        except DaskfsError:
            continue
        except Exception as fault:
            raise AssertionError(f"{asked}: {fault!r}") from fault
        n_fitted += 1
        predicted = selector.predict(X)
        assert predicted.shape == y.shape, asked
        assert np.isfinite(selector.coef_).all(), asked
        if hasattr(selector, "predict_proba"):
            np.testing.assert_allclose(selector.predict_proba(X).sum(axis=1), 1.0, err_msg=asked)
        else:
            assert predicted.dtype.kind != "f" or np.isfinite(predicted).all(), asked
    assert n_fitted > 3
