"""Planted data of the jobs: what is true is known. Real data sets are in `open_sets`.

Functions take the folder for files, the seed, and the case's own arguments.
"""

from __future__ import annotations

import importlib.util
import math
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Planted:
    """A table, what is true of it, and rows to test on."""

    X: Any
    y: np.ndarray
    """Numbers, or classes -1 and 1."""
    support: np.ndarray
    """The true columns."""
    n_wanted: int
    """How many columns contenders are asked for."""
    X_test: Any = None
    y_test: Any = None
    is_class: bool = False
    told: Any = None
    """What `prepare` of a contender found outside the clock, such as the penalty that selects `n_wanted` columns."""


def recall(data: Planted, columns: np.ndarray) -> float:
    """Return the share of the true columns among the selected ones."""
    return len(np.intersect1d(columns, data.support)) / len(data.support)


@cache
def real_data() -> Any:
    """Return the module that reads the data sets of DASKFS_DATA."""
    if "DASKFS_DATA" not in os.environ:
        raise SystemExit("set DASKFS_DATA to the folder that holds the data sets")
    spec = importlib.util.spec_from_file_location("load_all", Path(os.environ["DASKFS_DATA"]) / "load_all.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compound(n_samples: int, n_features: int, seed: int, is_class: bool = False, rho: float = 0.0) -> Planted:
    """Draw the design of Wang, Peng and Dunson (2014), section 4.1: three true features of thousands."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    X = math.sqrt(1 - rho) * X + math.sqrt(rho) * rng.standard_normal((n_samples, 1))
    n_true = 3 if n_features >= 100 else 12
    signs = (-1.0) ** (rng.random(n_true) < 0.4)
    coef = signs * (8 * math.log(n_samples) / math.sqrt(n_samples) + np.abs(rng.standard_normal(n_true)))
    eta = X[:, :n_true] @ coef
    if is_class:
        y = np.where(rng.random(n_samples) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)
    else:
        y = eta + 2 * rng.standard_normal(n_samples)
    return Planted(X, y, np.arange(n_true), n_true, is_class=is_class)


def household(n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a household's power: 6 measurements and dummies of year, month, day and hour, 74 columns in float32."""
    rng = np.random.default_rng([seed, 4])
    numbers = rng.standard_normal((n_samples, 6)) + 0.7 * rng.standard_normal((n_samples, 1))
    parts, effect = [numbers], numbers @ [1.0, 0.5, -0.5, 0.3, 0.1, 0.0]
    for size, spread in ((5, 0.2), (12, 0.5), (31, 0.05), (24, 1.0)):
        code = rng.integers(0, size, n_samples)
        parts.append((code[:, None] == np.arange(1, size)).astype(float))
        effect = effect + spread * np.sin(2 * np.pi * code / size)
    return np.column_stack(parts).astype(np.float32), effect + rng.standard_normal(n_samples)


def substitution(folder: Path, seed: int, n_features: int, n_informative: int) -> Planted:
    """Draw figure 1 of Yang et al. (2016): n = 1.2 s log2 p rows, unit columns; X in columns, as most peers want it."""
    from daskfs.sources.synthetic import SyntheticSource

    options: dict[str, Any] = {"n_informative": n_informative, "random_state": seed, "noise": "normal"}
    source = SyntheticSource(None, n_features, design="online_substitution", columns="unit", **options)
    block = next(source.row_blocks(source.n_samples))
    scale = np.sqrt(source.n_samples)  # variance 1: thresholds of some peers are for numbers of this size
    X = np.asfortranarray(block.X, dtype=np.float64) * scale
    return Planted(X, np.ravel(block.y) * scale, source.support, n_informative)


def sign(folder: Path, seed: int, n_samples: int, n_features: int, n_informative: int, n_wanted: int) -> Planted:
    """Draw Tan, Tsang and Wang (2014), section 8.2: normal columns in float32, y the sign of a sum of some of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    X_test = rng.standard_normal((4096, n_features), dtype=np.float32)
    support = np.sort(rng.choice(n_features, n_informative, replace=False))
    coef = rng.random(n_informative)
    y, y_test = (np.where(part[:, support] @ coef > 0.0, 1.0, -1.0) for part in (X, X_test))
    return Planted(X, y, support, n_wanted, X_test, y_test, is_class=True)


def text_like(
    folder: Path, seed: int, n_samples: int, n_ids: int, n_relevant: int, n_wanted: int | None = None
) -> Planted:
    """Draw sparse rows of the law of text.

    Rows have log-normal lengths, words of Zipf-Mandelbrot popularity, tf-idf values and norm 1. Relevant words of rank
    20 to 8,000 decide the class by a logistic model whose log-odds have standard deviation 6. A sixth is for testing.
    """
    import scipy.sparse

    rng = np.random.default_rng([seed, 7])
    n = n_samples + n_samples // 5
    popularity = (np.arange(n_ids) + 12.0) ** -1.08
    cumulated = np.cumsum(popularity / popularity.sum())
    id_of_rank = rng.permutation(n_ids)
    lengths = np.clip(rng.lognormal(np.log(86.0), 0.45, n), 12, 600).astype(np.int64)
    ranks = np.minimum(np.searchsorted(cumulated, rng.random(lengths.sum())), n_ids - 1)
    entries, counts = np.unique(np.repeat(np.arange(n), lengths) * n_ids + ranks, return_counts=True)
    rows, ranks = entries // n_ids, entries % n_ids
    frequency = np.bincount(ranks[rows < n_samples], minlength=n_ids)
    weight = np.log((n_samples + 1.0) / (frequency + 1.0)) + 1.0
    X = scipy.sparse.csr_array(((1 + np.log(counts)) * weight[ranks], (rows, id_of_rank[ranks])), shape=(n, n_ids))
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    X = (scipy.sparse.diags_array(1.0 / norms) @ X).tocsr()
    X.data = X.data.astype(np.float32).round(5)
    X.sort_indices()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    relevant = id_of_rank[rng.choice(np.arange(20, min(8000, n_ids)), n_relevant, replace=False)]
    coef = np.zeros(n_ids)
    coef[relevant] = rng.choice([-1, 1], n_relevant) * rng.uniform(0.5, 1.5, n_relevant)
    z = X @ coef
    z = (z - np.median(z[:n_samples])) * 6.0 / z[:n_samples].std()
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
    parts = slice(None, n_samples), slice(n_samples, None)
    n_wanted = n_relevant if n_wanted is None else n_wanted
    return Planted(X[parts[0]], y[parts[0]], np.sort(relevant), n_wanted, X[parts[1]], y[parts[1]], is_class=True)
