"""Knockoffs are exchangeable with their columns as far as two moments say it, and the same however they are read."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import kstest, norm

from daskfs.errors import DataError
from daskfs.kernels.linear.gram_tiles import BAND_ROWS
from daskfs.kernels.linear.knockoffs import minimum_variance, noise, normal_quantile, smallest_eigenvalue
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.blocks import RowBlock
from daskfs.model_selection.knockoff_columns import KnockoffMatrix, column_blocks
from daskfs.model_selection.second_order import law_of
from daskfs.store.feature_store import open_store
from daskfs.store.writer import StoreWriter
from tests.refusals import refused
from tests.tolerances import assert_close

N, P = 6000, 12


def ar1(p, rho):
    return rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))


def normal_rows(n=N, correlation=None, seed=0):
    correlation = ar1(P, 0.6) if correlation is None else correlation
    X = np.random.default_rng(seed).standard_normal((n, len(correlation)))
    return X @ np.linalg.cholesky(correlation).T * np.linspace(0.5, 3.0, len(correlation)) + 1.0


def alone(p):
    return [np.array([j]) for j in range(p)]


def knockoffs(matrix, groups=None, width=P, distance="mvr", seed=5, piece_rows=1000):
    blocks = column_blocks(alone(matrix.shape[1]) if groups is None else groups, width)
    return KnockoffMatrix(matrix, blocks, [law_of(matrix, distance, piece_rows, block) for block in blocks], seed)


def test_quantiles_are_those_of_the_normal_distribution():
    for u in (1e-300, 1e-20, 1e-9, 0.01, 0.07, 0.0751, 0.3, 0.5, 0.8, 0.93, 0.999999):
        assert normal_quantile(u) == pytest.approx(norm.ppf(u), rel=1e-14, abs=1e-15)


@pytest.mark.slow
def test_noise_is_normal_and_of_rows_columns_and_draws_that_do_not_go_together():
    def table(key, rows, columns):
        return np.array([[noise(np.uint64(key), np.uint64(i), np.uint64(j)) for j in columns] for i in rows])

    one = table(0, range(400), range(10))
    assert kstest(one.ravel(), "norm").pvalue > 1e-3
    for other in (
        table(1, range(400), range(10)),
        table(0, range(1, 401), range(10)),
        table(0, range(400), range(1, 11)),
    ):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(4000)
    assert np.abs(np.corrcoef(one.T) - np.eye(10)).max() < 5 / np.sqrt(400)


@pytest.mark.parametrize("distance", ["mvr", "equicorrelated"])
@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_a_column_may_change_places_with_its_knockoff(distance, rho):
    truth = ar1(P, rho)
    X = normal_rows(correlation=truth)
    made = knockoffs(ArrayMatrix(X), distance=distance)
    columns, copies = made.parted(made.read(slice(None)))
    np.testing.assert_array_equal(columns, X)
    G, noise_level = np.corrcoef(np.c_[columns, copies].T), 5 / np.sqrt(N)
    np.testing.assert_allclose(G[P:, P:], truth, atol=noise_level)
    others = ~np.eye(P, dtype=bool)
    np.testing.assert_allclose(G[:P, P:][others], truth[others], atol=noise_level)
    assert np.abs(np.diag(G[:P, P:])).max() < 0.9  # and yet it is another column
    np.testing.assert_allclose(copies.mean(axis=0), X.mean(axis=0), atol=5 * 3 / np.sqrt(N))
    np.testing.assert_allclose(copies.std(axis=0), X.std(axis=0), rtol=0.06)


def test_a_group_may_change_places_with_its_knockoffs():
    groups = [np.array([0, 7, 3]), np.array([1]), np.array([2, 5, 6, 4]), np.array([8, 9, 10, 11])]
    C = np.full((P, P), 0.3)
    for group in groups:
        C[np.ix_(group, group)] = 0.9
    np.fill_diagonal(C, 1.0)
    X = normal_rows(correlation=C)
    made = knockoffs(ArrayMatrix(X), groups)
    columns, copies = made.parted(made.read(slice(None)))
    np.testing.assert_array_equal(columns, X)
    G, label = np.corrcoef(np.c_[columns, copies].T), np.empty(P, int)
    for g, group in enumerate(groups):
        label[group] = g
        assert len(np.unique(made.is_swapped[group])) == 1
    others = label[:, None] != label
    np.testing.assert_allclose(G[P:, P:], G[:P, :P], atol=5 / np.sqrt(N))
    np.testing.assert_allclose(G[:P, P:][others], G[:P, :P][others], atol=5 / np.sqrt(N))
    apart = knockoffs(ArrayMatrix(X), alone(P), distance="equicorrelated")
    one, other = apart.parted(apart.read(slice(None)))
    as_columns = [abs(np.corrcoef(one[:, j], other[:, j])[0, 1]) for j in range(P)]
    as_groups = [abs(G[j, P + j]) for j in range(P)]
    assert np.mean(as_groups) < np.mean(as_columns) - 0.1  # further apart, for members may change together only


def test_the_distance_minimises_what_its_paper_says():
    C = ar1(P, 0.8)
    s = minimum_variance(C, 1e-10, 200)

    def loss(s):
        return np.trace(np.linalg.inv(2 * C - np.diag(s))) + (1 / s).sum()

    rng = np.random.default_rng(0)
    for _ in range(100):
        assert loss(s * (1 + 1e-2 * rng.normal(size=P))) >= loss(s) - 1e-9
    assert np.linalg.eigvalsh(2 * C - np.diag(s))[0] > 0
    equal = np.full((P, P), 0.5) + 0.5 * np.eye(P)  # here others allow s = 1, of which 2C - S is singular
    assert minimum_variance(equal, 1e-10, 200) == pytest.approx(np.full(P, minimum_variance(equal, 1e-10, 200)[0]))


def test_the_smallest_eigenvalue_is_found_from_above():
    C, within = ar1(P, 0.8), np.kron(np.eye(P // 2), [[1.0, 0.8], [0.8, 1.0]])
    truth = np.linalg.eigvalsh(C)[0]
    assert truth <= smallest_eigenvalue(C, np.eye(P), 200) <= 1.01 * truth
    of_groups = np.linalg.eigvals(np.linalg.solve(within, C)).real.min()
    assert smallest_eigenvalue(C, within, 200) == pytest.approx(of_groups, rel=0.01)


def test_knockoffs_are_the_same_however_rows_are_read_for_the_law():
    matrix = ArrayMatrix(normal_rows(1500))
    whole = knockoffs(matrix, piece_rows=10**6).read(slice(None))
    for piece_rows in (1, BAND_ROWS, 1000):
        assert_close(knockoffs(matrix, piece_rows=piece_rows).read(slice(None)), whole)


def test_knockoffs_are_those_of_the_rows_as_arrays_and_belong_to_a_draw(tmp_path):
    X = normal_rows(300)
    options = {"shuffle": True, "tile_shape": (64, 5), "source": {"digest": "1"}}
    with StoreWriter(tmp_path / "s.zarr", P, "float64", **options) as writer:
        writer.write(RowBlock(0, 300, X, None, None), {})
    store = open_store(tmp_path / "s.zarr")
    assert store.source_rows is not None
    made, other = knockoffs(ArrayMatrix(X[store.source_rows])), knockoffs(store, seed=6)
    assert_close(knockoffs(store).read(slice(None)), made.read(slice(None)))
    first, second = (one.parted(one.read(slice(None)))[1] for one in (made, other))
    assert np.abs(first - second).min() > 0.0


def test_a_block_knows_nothing_of_others():
    X = normal_rows(2000)
    made = knockoffs(ArrayMatrix(X), width=5)
    assert made.tile_shape[1] == 10
    changed = X.copy()
    changed[:, 7] += 1.0
    again = knockoffs(ArrayMatrix(changed), width=5)
    np.testing.assert_array_equal(made.read(slice(None), slice(0, 10)), again.read(slice(None), slice(0, 10)))


def test_constant_and_duplicate_columns_and_few_rows_have_knockoffs_too():
    X = normal_rows(400)
    X[:, 2], X[:, 5] = 4.0, X[:, 4]
    made = knockoffs(ArrayMatrix(X.astype(np.float32)))
    copies = made.parted(made.read(slice(None)))[1]
    assert made.dtype == np.float32
    assert np.isfinite(copies).all()
    assert (copies[:, 2] == 4.0).all()
    few = knockoffs(ArrayMatrix(normal_rows(8)))
    assert np.isfinite(few.read(slice(None))).all()
    whole = knockoffs(ArrayMatrix(np.random.default_rng(0).integers(0, 3, (300, P)).astype(np.int8)))
    assert whole.dtype == np.float32
    assert len(np.unique(whole.parted(whole.read(slice(None)))[1])) > 1000


def test_weights_count_rows():
    X = normal_rows(600)
    weight = np.random.default_rng(1).integers(0, 3, 600).astype(float)
    repeated = np.repeat(X, weight.astype(int), axis=0)
    block = column_blocks(alone(P), P)[0]
    one = law_of(ArrayMatrix(X, weight=weight), "mvr", 10**6, block)
    other = law_of(ArrayMatrix(repeated), "mvr", 10**6, block)
    np.testing.assert_allclose(one.transform, other.transform, atol=1e-6)


def test_a_bad_value_is_named_by_its_column_and_row():
    X = normal_rows(50)
    matrix = ArrayMatrix(X, feature_names=[f"g{j}" for j in range(P)])
    matrix._X = X.copy()
    matrix._X[17, 3] = np.nan
    with refused(DataError, "values", at="column 'g3', row 17", naming=["NaN"]):
        knockoffs(matrix, width=5)


def test_names_say_which_is_a_knockoff():
    matrix = knockoffs(ArrayMatrix(normal_rows(50), feature_names=[f"g{j}" for j in range(P)]))
    columns, copies = matrix.parted(matrix.names.array())
    assert columns.tolist() == [f"g{j}" for j in range(P)]
    assert copies.tolist() == [f"g{j} (knockoff)" for j in range(P)]
    assert 0 < matrix.is_swapped.sum() < P


def test_it_travels_as_what_makes_it():
    matrix = knockoffs(ArrayMatrix(normal_rows(200)))
    again = pickle.loads(pickle.dumps(matrix))
    np.testing.assert_array_equal(
        again.read(slice(3, 70), np.array([9, 2])), matrix.read(slice(3, 70), np.array([9, 2]))
    )
