"""Sparse columns are judged by their entries, and the answer is that of columns laid down."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from daskfs.selectors.online_substitution import stream
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from tests.tolerances import assert_same_answer, tolerance_of


def words(seed, dtype=np.float64, n=300, p=3000):
    """Return counts, most of one entry, columns that are constant, empty or copies among them, and a target."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, p, 0.01, "csc", dtype=np.float64, random_state=seed)
    X.data = rng.integers(1, 5, X.nnz).astype(dtype)
    X = sp.hstack([X.astype(dtype), X[:, :50].astype(dtype), np.ones((n, 2), dtype)], "csc")
    z = np.asarray(X[:, :20].sum(axis=1), dtype=float).ravel() + 0.3 * rng.standard_normal(n)
    return X, z, rng.integers(0, 3, n).astype(float)


OPTIONS = [
    {},
    {"standardize": False},
    {"fit_intercept": False},
    {"ridge": 0.0},
    {"order": "shuffled", "random_state": 3},
    {"always_include": [5, 70]},
    {"rule": "os"},
    {"engine": "lazy"},
]


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize(
    ("options", "dtype"),
    [*((options, np.float64) for options in OPTIONS), ({}, np.float32), ({}, np.int8)],
    ids=str,
)
def test_columns_judged_by_their_entries_give_the_answer_of_columns_laid_down(loss, dtype, options):
    X, z, weight = words(0, dtype)
    y = z if loss == "squared" else (z > np.median(z)).astype(int)
    for weights in (None, weight):
        laid_down = OnlineSubstitution(12, loss=loss, **options).fit(X.toarray(), y, weights)
        judged = OnlineSubstitution(12, loss=loss, **options).fit(X, y, weights)
        assert_same_answer(judged, laid_down, tolerance_of("online_substitution", dtype))


def test_most_columns_are_never_laid_down(monkeypatch):
    X, z, _ = words(1, p=20_000)
    read, laid_down = stream.read_columns, []

    def counted(matrix, ids, *rest):
        laid_down.append(len(ids))
        return read(matrix, ids, *rest)

    monkeypatch.setattr(stream, "read_columns", counted)
    presented = OnlineSubstitution(12).fit(X, z).result_.history["n_presented"].iloc[-1]
    assert sum(laid_down) < 0.25 * presented
