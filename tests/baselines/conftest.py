"""A small linear problem with a known answer."""

from __future__ import annotations

import numpy as np
import pytest

TRUE_FEATURES = [2, 5, 11]


def _make_problem(n_samples=1200, n_features=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    y = 3.0 + X[:, TRUE_FEATURES] @ [1.5, -1.0, 0.5] + rng.standard_normal(n_samples)
    return X, y


@pytest.fixture(scope="session")
def make_problem():
    return _make_problem


@pytest.fixture(scope="session")
def problem():
    return _make_problem()
