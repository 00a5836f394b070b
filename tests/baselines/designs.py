"""Data whose true columns are known."""

from __future__ import annotations

import numpy as np


def two_true(seed=0, n=200, p=40, is_sparse=False):
    """Return columns of which 3 and 7 are true, and a target of numbers."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * rng.uniform(0.5, 3.0, p) + rng.uniform(-1.0, 1.0, p)
    if is_sparse:
        X[rng.random((n, p)) < 0.8] = 0.0
    return X, X[:, 3] - X[:, 7] + 0.5 * rng.standard_normal(n)


def levels_and_classes(seed, n, n_classes, n_rare):
    """Return dummies, of which few are common, and heavy tails, and classes that the first dummies all but tell."""
    rng = np.random.default_rng(seed)
    level = rng.integers(0, n_classes, n) ** 2 // n_classes
    rare, heavy = rng.random((n, n_rare)) < 0.02, np.exp(2.0 * rng.standard_normal((n, 15)))
    X = np.concatenate([level[:, None] == np.unique(level), rare, heavy], axis=1)
    return X, np.where(rng.random(n) < 0.02, rng.integers(0, n_classes, n), level)
