"""What is remembered of columns from one epoch to the next spares products, and changes no bit."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.online_substitution.engines.explained import Explained
from daskfs.selectors.online_substitution.engines.squared import SquaredEngine
from daskfs.selectors.online_substitution.selector import OnlineSubstitution

KINDS = ("plain", "correlated", "copies", "neighbours", "tall")


def design(seed, kind, dtype):
    rng = np.random.default_rng(seed)
    n, p = (900, 300) if kind == "tall" else (160, 700)
    X = rng.standard_normal((n, p))
    if kind == "correlated":
        X += rng.standard_normal((n, 1))
    if kind == "copies":
        X[:, 1::5] = X[:, ::5] + 0.01 * rng.standard_normal((n, len(range(1, p, 5))))
    if kind == "neighbours":
        for j in range(1, p):
            X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    y = X[:, rng.choice(p, 20, replace=False)] @ rng.standard_normal(20) + rng.standard_normal(n)
    if dtype == np.int8:
        X = np.clip(np.rint(20 * X), -128, 127)
    return X.astype(dtype), y, rng.integers(0, 3, n).astype(float) if seed % 2 else None


def told(selector):
    history = selector.result_.history.to_numpy(), selector.result_.notes
    return selector.selected_.tobytes(), selector.coef_.tobytes(), history[0].tobytes(), history[1]


@pytest.mark.parametrize("ridge", [None, 0.0, 0.3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_a_column_is_left_out_only_where_it_would_not_enter(seed, kind, dtype, ridge, monkeypatch):
    X, y, weight = design(seed, kind, dtype)
    selector = OnlineSubstitution(20, n_epochs=6, ridge=ridge, order=("fixed", "shuffled")[seed // 2], random_state=0)
    remembering = told(selector.fit(X, y, sample_weight=weight))
    monkeypatch.setattr(SquaredEngine, "expect_again", lambda *_: None)
    assert told(selector.fit(X, y, sample_weight=weight)) == remembering


def test_most_columns_are_left_out_of_later_epochs(monkeypatch):
    X, y, _ = design(0, "tall", np.float64)
    found, ask = [], Explained.none_enters
    monkeypatch.setattr(Explained, "none_enters", lambda *of: found.append(ask(*of)) or found[-1])
    selector = OnlineSubstitution(20, n_epochs=6).fit_matrix(ArrayMatrix(X, y))
    assert selector.n_epochs_ > 2
    assert np.mean(found) > 0.3
