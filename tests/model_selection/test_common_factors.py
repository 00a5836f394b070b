"""What columns of all blocks have in common: factors, their draws, and knockoffs that correlate across blocks."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.baselines import OrthogonalMatchingPursuit
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.model_selection import Knockoffs
from daskfs.model_selection.common_factors import factors_given_columns, principal_components
from daskfs.model_selection.knockoff_columns import KnockoffMatrix, column_blocks
from daskfs.model_selection.second_order import law_beside, law_of
from daskfs.selectors.shared.run import Run

N, P, WIDTH = 4000, 24, 6


def rows_of_factors(n_factors, n=N, seed=0):
    """Return rows, of which blocks of six correlate through factors, and within through their neighbours."""
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(0.4, 0.7, (P, n_factors)) * rng.choice([-1.0, 1.0], (P, n_factors))
    within = np.kron(np.eye(P // 2), [[1.0, 0.4], [0.4, 1.0]])
    covariance = loadings @ loadings.T + within
    X = rng.standard_normal((n, P)) @ np.linalg.cholesky(covariance).T * np.linspace(0.5, 2.0, P) + 3.0
    return X, covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))


def laws_of(matrix, most=4):
    run = Run(matrix, "test").over(matrix, by="columns")
    blocks = column_blocks(list(np.arange(P)[:, None]), WIDTH)
    laws = run.map("correlations", law_of, blocks, "mvr", 1056)
    components = principal_components(run, blocks, laws, most)
    if not components.shape[1]:
        return blocks, laws, components, None
    laws = run.map("loadings", law_beside, blocks, "mvr", 1056, components)
    return blocks, laws, components, factors_given_columns(run, blocks, laws)


@pytest.mark.parametrize("n_factors", [0, 1, 2])
def test_there_are_as_many_factors_as_columns_have_in_common(n_factors):
    X, _ = rows_of_factors(n_factors) if n_factors else (np.random.default_rng(0).standard_normal((N, P)), None)
    _, _, components, _ = laws_of(ArrayMatrix(X))
    assert components.shape[1] == n_factors
    np.testing.assert_allclose(components.T @ components / N, np.eye(n_factors), atol=1e-9)
    np.testing.assert_allclose(components.mean(axis=0), 0.0, atol=1e-9)


def test_a_column_may_change_places_with_its_knockoff_across_blocks():
    X, truth = rows_of_factors(2)
    blocks, laws, _, factors = laws_of(ArrayMatrix(X))
    made = KnockoffMatrix(ArrayMatrix(X), blocks, laws, 5, factors=factors.drawn(5, None))
    columns, copies = made.parted(made.read(slice(None)))
    np.testing.assert_array_equal(columns, X)
    G, others = np.corrcoef(np.c_[columns, copies].T), ~np.eye(P, dtype=bool)
    level = 5 / np.sqrt(N) + 0.03  # of noise, and of two factors for what neighbours have beside them
    np.testing.assert_allclose(G[P:, P:], truth, atol=level)
    np.testing.assert_allclose(G[:P, P:][others], truth[others], atol=level)
    assert np.abs(np.diag(G[:P, P:])).max() < 0.95
    np.testing.assert_allclose(copies.mean(axis=0), X.mean(axis=0), atol=0.15)
    apart = KnockoffMatrix(ArrayMatrix(X), blocks, [law_of(ArrayMatrix(X), "mvr", 1056, b) for b in blocks], 5)
    one, other = apart.parted(apart.read(slice(None)))
    across = np.corrcoef(np.c_[one, other].T)[:WIDTH, P + WIDTH :]
    assert np.abs(across - truth[:WIDTH, WIDTH:]).max() > 0.1  # which blocks alone do not see


def test_any_rows_and_columns_are_those_of_all():
    X, _ = rows_of_factors(1, 300)
    blocks, laws, _, factors = laws_of(ArrayMatrix(X))
    made = KnockoffMatrix(ArrayMatrix(X), blocks, laws, 5, factors=factors.drawn(5, None))
    whole = made.read(slice(None))
    rows, columns = np.array([200, 3, 17]), np.array([0, 13, 14, 40])
    np.testing.assert_allclose(made.read(rows, columns), whole[np.ix_(rows, columns)], rtol=1e-12)
    order = np.random.default_rng(0).permutation(300)
    moved = factors.drawn(5, order) - factors.drawn(5, None)
    np.testing.assert_allclose(moved, factors.mean[order] - factors.mean, atol=1e-12)


def test_rows_of_weight_zero_are_not_looked_at():
    X, _ = rows_of_factors(1, 600)
    weight = np.r_[np.ones(400), np.zeros(200)]
    X[400:] *= 100.0
    with_weight, without = laws_of(ArrayMatrix(X, weight=weight)), laws_of(ArrayMatrix(X[:400]))
    np.testing.assert_allclose(np.abs(with_weight[2][:400]), np.abs(without[2]), atol=1e-6)
    for one, other in zip(with_weight[1], without[1], strict=True):
        np.testing.assert_allclose(one.transform, other.transform, atol=1e-6)


def test_the_report_says_what_was_taken_for_correlations_between_blocks():
    X, _ = rows_of_factors(1, 400)

    def note(**options):
        y = X[:, :12] @ np.resize([1.0, -1.0], 12) + np.random.default_rng(1).standard_normal(400)
        return (
            Knockoffs(OrthogonalMatchingPursuit(), fdr=0.2, block_columns=WIDTH, **options).fit(X, y).result_.notes[0]
        )

    assert "correlations between blocks are from 1 common factor" in note()
    assert note(max_factors=0).endswith("correlations between blocks were assumed to be 0")
    X[:] = np.random.default_rng(2).standard_normal(X.shape)
    assert "no principal component stands out" in note()
