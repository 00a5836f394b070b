"""A score is a quadratic form of the kernel that a map stands for, (45) of Tan, Tsang and Wang (2014)."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from daskfs import FGM
from daskfs.feature_maps.additive import AdditiveChi2, AdditiveGaussian, AdditiveJensenShannon, HistogramIntersection
from daskfs.feature_maps.base import Given
from daskfs.feature_maps.polynomial import Polynomial
from daskfs.losses import TargetKind
from daskfs.matrix.arrays import ArrayMatrix


def known(X):
    return Given(
        X.mean(axis=0), X.std(axis=0), X.min(axis=0), X.max(axis=0), np.ones(len(X)), center=False, normalize=False
    )


def scores_of(implicit, v):
    found = np.zeros(implicit.n_units)
    for parts in implicit.rounds(1, np.empty(0, np.int64)):
        for part in parts:
            units, scores = implicit.score_columns(v[None], implicit.n_units, 0.0, part)
            found[units] = scores
    return found


@given(
    seed=st.integers(0, 10**6),
    gamma=st.floats(0.1, 4.0),
    r=st.floats(0.1, 4.0),
    is_sparse=st.booleans(),
    is_signed=st.booleans(),
)
def test_all_scores_of_degree_2_are_that_of_its_kernel(seed, gamma, r, is_sparse, is_signed):
    """Σ_u s_u = vᵀ K v with k(x, z) = (γ xᵀz + r)², but for r², which a sum of v of 0 takes away."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 9)) * (rng.random((80, 9)) < (0.4 if is_sparse else 1.0))
    X = X if is_signed else np.abs(X)
    v = rng.standard_normal(80)
    v -= v.mean()
    matrix = ArrayMatrix(scipy.sparse.csr_array(X) if is_sparse else X)
    implicit = Polynomial(gamma=gamma, r=r, center=False).over(matrix, known(X))
    kernel = (gamma * (X @ X.T) + r) ** 2
    np.testing.assert_allclose(scores_of(implicit, v).sum(), v @ kernel @ v, rtol=1e-9)


@pytest.mark.parametrize(
    ("feature_map", "error"),
    [
        (HistogramIntersection(20), 4e-3),
        (AdditiveGaussian(2.4, 5), 1e-3),
        (AdditiveChi2(), 2e-3),
        (AdditiveJensenShannon(), 1e-3),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_score_of_a_column_is_that_of_its_kernel(feature_map, error, is_sparse):
    """s_j = vᵀ K_j v, v >= 0: the error of the map's products is that of the scores."""
    rng = np.random.default_rng(2)
    X = rng.random((300, 6)) * (rng.random((300, 6)) < 0.7)
    X[0], X[1] = 0.0, 1.0  # so that a value is its place between the least and the largest
    v = rng.random(300)
    implicit = feature_map.over(ArrayMatrix(scipy.sparse.csr_array(X) if is_sparse else X), known(X))
    if isinstance(feature_map, HistogramIntersection):
        kernels = [np.minimum(x[:, None], x[None]) for x in X.T]
    elif isinstance(feature_map, AdditiveGaussian):
        kernels = [np.exp(-0.5 * ((x[:, None] - x[None]) / (feature_map.bandwidth * x.std())) ** 2) for x in X.T]
    else:
        kernel_of = feature_map.table().kernel
        kernels = [kernel_of(np.repeat(x, 300), np.tile(x, 300)).reshape(300, 300) for x in X.T]
    np.testing.assert_allclose(scores_of(implicit, v), [v @ kernel @ v for kernel in kernels], rtol=3.0 * error)


@pytest.mark.slow
@pytest.mark.parametrize("feature_map", ["histogram_intersection", "additive_chi2", "splines", "pairs"])
@pytest.mark.parametrize("n_samples", [2_000, 8_000])
def test_the_columns_of_a_map_that_are_kept_take_what_was_promised(feature_map, n_samples):
    rng = np.random.default_rng(0)
    X = rng.random((n_samples, 40), dtype=np.float32)
    y = X[:, 3] * X[:, 7] + 0.1 * rng.standard_normal(n_samples) > 0.3
    selector = FGM(20, feature_map=feature_map)
    selector.fit(X[:200], y[:200])  # compiles
    plan = selector.plan(n_samples, 40, "float32", None, target=TargetKind(2))
    tracemalloc.start()
    try:
        selector.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= plan.client_nbytes + plan.task_nbytes + X.nbytes + (1 << 20)


@pytest.mark.parametrize("feature_map", ["additive_gaussian", "splines", "additive_chi2"])
def test_values_that_few_rows_have_are_not_predicted_far_from_all_others(feature_map):
    """Most values of a column are small and a few are large: components that hardly vary say little of other rows."""
    worst = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.exp(2.5 * rng.standard_normal((4000, 4)))
        X[:, 2:] = (rng.random((4000, 2)) < 0.03) * X[:, 2:]
        y = np.log1p(X[:, 0]) - 0.5 * np.log1p(X[:, 1]) + rng.standard_normal(4000)
        selector = FGM(4, feature_map=feature_map).fit(X[:1000], y[:1000])
        worst.append(np.abs(selector.predict(X[1000:]) - y.mean()).max() / np.abs(y - y.mean()).max())
    assert max(worst) < 3.0
