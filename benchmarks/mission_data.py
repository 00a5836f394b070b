"""Sparse rows of the law of text: what MISSION's benchmarks learn from.

120,000 rows of log-normal length, words of Zipf-Mandelbrot popularity among 2²⁰, tf-idf values, norm 1; 2,000 relevant
words of rank 20 to 8,000 decide the class by a logistic model whose log-odds have standard deviation 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

N_TRAIN, N_TEST, N_IDS, N_RELEVANT = 100_000, 20_000, 1 << 20, 2000


@dataclass
class TextLike:
    X: scipy.sparse.csr_array
    y: np.ndarray
    X_test: scipy.sparse.csr_array
    y_test: np.ndarray
    relevant: np.ndarray
    z_test: np.ndarray
    """The true log-odds of the test rows."""


def text_like(
    seed: int = 7, n_train: int = N_TRAIN, n_test: int = N_TEST, n_ids: int = N_IDS, n_relevant: int = N_RELEVANT
) -> TextLike:
    """Draw the rows; classes are -1 and 1."""
    rng = np.random.default_rng(seed)
    n = n_train + n_test
    popularity = (np.arange(n_ids) + 12.0) ** -1.08
    cumulated = np.cumsum(popularity / popularity.sum())
    id_of_rank = rng.permutation(n_ids)
    lengths = np.clip(rng.lognormal(np.log(86.0), 0.45, n), 12, 600).astype(np.int64)
    ranks = np.minimum(np.searchsorted(cumulated, rng.random(lengths.sum())), n_ids - 1)
    entries, counts = np.unique(np.repeat(np.arange(n), lengths) * n_ids + ranks, return_counts=True)
    rows, ranks = entries // n_ids, entries % n_ids
    frequency = np.bincount(ranks[rows < n_train], minlength=n_ids)
    weight = np.log((n_train + 1.0) / (frequency + 1.0)) + 1.0
    X = scipy.sparse.csr_array(((1 + np.log(counts)) * weight[ranks], (rows, id_of_rank[ranks])), shape=(n, n_ids))
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    X = (scipy.sparse.diags_array(1.0 / norms) @ X).tocsr()
    X.data = X.data.astype(np.float32).round(5)
    X.sort_indices()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    relevant_ranks = rng.choice(np.arange(20, min(8000, n_ids)), n_relevant, replace=False)
    coef = np.zeros(n_ids)
    relevant = id_of_rank[relevant_ranks]
    coef[relevant] = rng.choice([-1, 1], n_relevant) * rng.uniform(0.5, 1.5, n_relevant)
    z = X @ coef
    z = (z - np.median(z[:n_train])) * 6.0 / z[:n_train].std()
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-z)), 1.0, -1.0)
    return TextLike(X[:n_train], y[:n_train], X[n_train:], y[n_train:], np.sort(relevant), z[n_train:])
