"""Products of two columns are scored as if they were made: dense, sparse, cut in any way, with and without bounds."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given as drawn
from hypothesis import strategies as st
from sklearn.preprocessing import PolynomialFeatures

from daskfs import FGM
from daskfs.errors import ConfigError, DataError, PlanError
from daskfs.feature_maps.base import Given
from daskfs.feature_maps.polynomial import Polynomial, _n_products
from daskfs.feature_maps.products import cut
from daskfs.kernels.fgm.pairs import n_implicit, number_of, parents_of
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.names import Names
from daskfs.sources.ingest import ingest
from tests.refusals import refused
from tests.tolerances import assert_close

NONE = np.empty(0, np.int64)


def moments_of(X, weight, **further):
    X = X.toarray() if scipy.sparse.issparse(X) else X
    X, counts = X.astype(np.float64), weight > 0.0
    mean = weight @ X / weight.sum()
    deviation = np.sqrt(weight @ (X - mean) ** 2 / weight.sum()) * (np.ptp(X[counts], axis=0) > 0)
    return Given(mean, deviation, X[counts].min(axis=0), X[counts].max(axis=0), weight, **further)


def largest(products, v, n_wanted, n_tasks=1, selected=NONE, told=True):
    """Go through a pass as FGM does: each round knows what those before it found."""
    found: list[tuple[float, int]] = []
    for parts in products.rounds(n_tasks, selected):
        floor = -found[n_wanted - 1][0] if told and len(found) >= n_wanted else 0.0
        for part in parts:
            units, scores = products.score_columns(v, n_wanted, floor, part)
            found += zip((-scores).tolist(), units.tolist(), strict=True)
        found.sort()
    return [(number, -score) for score, number in found[:n_wanted]]


def scores_of_made(products, v):
    """Make every column, standardise it and multiply it with v."""
    Z = products.read(slice(None), slice(None)).astype(np.float64)
    centre, inverse = products.scaling_of(np.arange(products.shape[1]), Z.T)
    m = products.matrix.shape[1]
    scores = ((((Z - centre) * inverse).T @ v.T) ** 2).sum(axis=1)
    scores[[number_of(j, j, m) for j in np.flatnonzero(~products.scaling.has_square)]] = 0.0
    return scores


def make(seed, n_classes=1, signed=True, share=1.0, n_samples=600, n_features=19, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)) * (rng.random((n_samples, n_features)) < share)
    X = (X if signed else np.abs(X)).astype(dtype)
    X[:, 3] = X[:, 3] > 0.4
    weight = rng.integers(0, 3, n_samples).astype(float)
    takes_part = (weight > 0) & (rng.random(n_samples) < 0.8)
    v = rng.standard_normal((n_classes, n_samples)) * takes_part
    return X, weight, v - takes_part * (v.sum(axis=1) / takes_part.sum())[:, None]


@pytest.mark.slow
@drawn(
    seed=st.integers(0, 10**6),
    is_sparse=st.booleans(),
    signed=st.booleans(),
    n_classes=st.sampled_from([1, 3]),
    normalize=st.sampled_from(["auto", True, False]),
    center=st.booleans(),
    n_wanted=st.sampled_from([1, 5, 60]),
    n_tasks=st.sampled_from([1, 2, 5]),
    limit=st.sampled_from([None, 60_000, 10_000]),
)
def test_the_largest_scores_are_those_of_the_columns_as_if_they_were_made(
    seed, is_sparse, signed, n_classes, normalize, center, n_wanted, n_tasks, limit
):
    X, weight, v = make(seed, n_classes, signed, share=0.3 if is_sparse or seed % 2 else 1.0)
    known = moments_of(X, weight, normalize=normalize, center=center, n_classes=n_classes, task_nbytes=limit)
    matrix = ArrayMatrix(scipy.sparse.csr_matrix(X) if is_sparse else X)
    products = Polynomial(gamma=1.5).over(matrix, known)
    truth = scores_of_made(products, v)
    found = largest(products, v, n_wanted, n_tasks)
    best = np.lexsort((np.arange(len(truth)), -truth))[:n_wanted]
    np.testing.assert_allclose([score for _, score in found], truth[best], rtol=1e-9)
    assert {number for number, _ in found} == {*best.tolist()}

    # Without a bound, cut in another way, and where the variances are known already.
    whole = Polynomial(gamma=1.5).over(matrix, known._replace(task_nbytes=None))
    everything = largest(whole, v, products.shape[1], told=False)
    for again in (everything[: len(found)], largest(whole, v, n_wanted, 3)):
        assert [number for _, number in again] == [number for _, number in found]
        assert_close([score for score, _ in again], [score for score, _ in found])


def extreme_pair(kind):
    """Sparse columns 0 and 1, rows and a v for which the bound of their product is its score."""
    n, first, second = 400, np.zeros(400), np.zeros(400)
    first[:200], second[:100] = 1.0, 1.0  # the rows of one are among those of the other
    v = np.where(second > 0.0, 3.0, -1.0)  # the same in all rows that have both, and none is of the other sign
    if kind == "not standardized":  # then all rows of the one count, not only those that the other has
        first = second.copy()
    if kind == "signed":  # rows with v > 0 and rows with v < 0 pull the same way
        first = second.copy()
        second[:50] = -1.0
        v = np.where(first > 0.0, second, 0.0)
    weight = np.full(n, 100.0)  # so many that the prior of the variance hardly counts
    rng = np.random.default_rng(0)
    others = rng.random((n, 6)) * (rng.random((n, 6)) < 0.1)
    return np.column_stack([first, second, others]), weight, (weight * v)[None]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["standardized", "not standardized", "signed"])
def test_a_pair_whose_score_is_its_bound_is_found_with_a_floor_just_below(kind):
    X, weight, v = extreme_pair(kind)
    known = moments_of(X, weight, normalize=kind == "standardized", center=True)
    products = Polynomial().over(ArrayMatrix(scipy.sparse.csr_matrix(X)), known)
    number = number_of(0, 1, X.shape[1])
    score = scores_of_made(products, v)[number]
    for parts in products.rounds(1, NONE):
        found = [products.score_columns(v, products.shape[1], 0.999 * score, part) for part in parts]
    assert number in np.concatenate([numbers for numbers, _ in found])


def test_rows_that_are_taken_twice_and_rows_of_a_store_give_what_their_copies_give(tmp_path):
    X, weight, v = make(5, share=0.3, signed=False)
    rows = np.random.default_rng(0).integers(0, len(X), 400)
    weight, v = np.ones(400), v[:, rows] - v[:, rows].mean()
    sparse = scipy.sparse.csr_matrix(X)
    copied = largest(Polynomial(center=False).over(ArrayMatrix(X[rows]), moments_of(X[rows], weight)), v, 25)
    for base in (ArrayMatrix(sparse), ingest(sparse, tmp_path / "s.zarr", y=np.arange(len(X)) % 2, dtype="float64")):
        # A store may have the rows in another order.
        at = rows if base.source_rows is None else np.argsort(base.source_rows)[rows]
        products = Polynomial(center=False).over(base.take(at), moments_of(X[rows], weight))
        found = largest(products, v, 25)
        assert [number for number, _ in found] == [number for number, _ in copied]
        np.testing.assert_allclose([score for _, score in found], [score for _, score in copied], rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_a_dense_store_gives_what_its_values_give(dtype, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (700, 40)).astype(dtype)
    y = (rng.random(700) < 0.5).astype(float)
    store = ingest(X, tmp_path / "d.zarr", y=y, tile_shape=(256, 16), dtype=np.dtype(dtype).name)
    rows = slice(None) if store.source_rows is None else store.source_rows
    v = (y - y.mean())[rows][None]
    known = moments_of(X, np.ones(700), task_nbytes=400_000)
    assert largest(Polynomial().over(store, known), v, 30) == largest(
        Polynomial().over(ArrayMatrix(X[rows]), known._replace(task_nbytes=None)), v, 30
    )


@drawn(st.integers(1, 2**31 - 1), st.data())
def test_every_number_has_its_parents(n_parents, data):
    i = data.draw(st.integers(0, n_parents - 1))
    j = data.draw(st.integers(i, n_parents - 1))
    number = number_of(i, j, n_parents)
    assert n_parents <= number < n_implicit(n_parents) < 2**63
    assert parents_of(np.array([number, j]), n_parents).tolist() == [[i, j], [j, -1]]


def test_numbers_and_names_are_those_of_scikit_learn():
    X = np.random.default_rng(0).integers(-3, 4, (30, 5)).astype(float)
    oracle = PolynomialFeatures(2, include_bias=False).fit(X)
    products = Polynomial(center=False).over(ArrayMatrix(X), moments_of(X, np.ones(30)))
    np.testing.assert_array_equal(products.read(slice(None)), oracle.transform(X))
    names = oracle.get_feature_names_out([f"x{j}" for j in range(5)])
    assert products.names.tolist() == [name.replace(" ", " * ") for name in names]


def wanted_numbers(products, v, selected=NONE):
    m = products.matrix.shape[1]
    found = largest(products, v, products.shape[1], selected=selected)
    return {tuple(pair) for pair in parents_of(np.array([number for number, _ in found]), m).tolist() if pair[1] >= 0}


@pytest.mark.parametrize("is_sparse", [False, True])
def test_products_are_those_of_the_sets(is_sparse):
    X, weight, v = make(3, share=0.5, n_features=8)
    names = [f"{letter}{k}" for letter in "ab" for k in range(4)]
    matrix = ArrayMatrix(scipy.sparse.csr_matrix(X) if is_sparse else X, feature_names=names)
    known = moments_of(X, weight)
    every = {(i, j) for i in range(8) for j in range(i, 8)} - {(3, 3)}
    assert wanted_numbers(Polynomial().over(matrix, known), v) == every
    assert wanted_numbers(Polynomial(squares=False).over(matrix, known), v) == {p for p in every if p[0] != p[1]}
    between = Polynomial(between=["b*", ["a1", 2]]).over(matrix, known)
    assert wanted_numbers(between, v) == {(i, j) for i in (1, 2) for j in range(4, 8)}
    within = Polynomial(within=[["a*"], ["a0", "b0", "b3"]]).over(matrix, known)
    own = {p for p in every if p[1] < 4} | {p for p in every if {*p} <= {0, 4, 7}}
    assert wanted_numbers(within, v) == own
    assert wanted_numbers(Polynomial(within=["a*"]).over(matrix, known), v) == {p for p in every if p[1] < 4}


@drawn(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=12))
def test_products_of_sets_are_counted_as_they_are_wanted(bits):
    count = sum(bool((one & right) | (other & left)) for k, (one, other) in enumerate(bits) for left, right in bits[k:])
    assert _n_products(*np.array(bits, np.int64).T) == count


def test_patterns_mean_names_that_are_made_on_demand_too(monkeypatch):
    monkeypatch.setattr("daskfs.feature_maps.polynomial.NAMES_TOGETHER", 7)
    shape = (100, 120, 4)
    cost = Polynomial(within=["x1?", "x7", 3]).cost(*shape, names=Names(120))
    assert cost.text.startswith("78 squares and products of 120 columns")  # of 12 columns
    assert cost.n_units == 78 + 120
    strange = Names(3, np.array(["a[1]", "a1", "b"], dtype=object))
    assert Polynomial(within=["a[1]"]).cost(100, 3, 4, names=strange).n_units == 1 + 3  # a name goes before a pattern


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("limit", [None, 15_000])
def test_products_follow_their_columns_where_a_hierarchy_is_asked_for(is_sparse, limit):
    X, weight, v = make(4, share=0.5, n_features=9)
    matrix = ArrayMatrix(scipy.sparse.csr_matrix(X) if is_sparse else X)
    known, selected = moments_of(X, weight, task_nbytes=limit), np.array([2, 5, number_of(0, 1, 9)])
    every = {(i, j) for i in range(9) for j in range(i, 9)} - {(3, 3)}
    for hierarchy, least in (("weak", 1), ("strong", 2)):
        products = Polynomial(hierarchy=hierarchy).over(matrix, known)
        assert wanted_numbers(products, v) == set()
        expected = {p for p in every if (p[0] in (2, 5)) + (p[1] in (2, 5)) >= least}
        assert wanted_numbers(products, v, selected) == expected
        whole = dict(largest(Polynomial().over(matrix, known), v, products.shape[1]))
        for number, score in largest(products, v, products.shape[1], selected=selected):
            assert score == pytest.approx(whole[number], rel=1e-9)


def test_the_square_of_a_column_of_two_values_is_left_out():
    X = np.random.default_rng(0).standard_normal((200, 3))
    X[:, 1] = np.where(X[:, 1] > 0.3, 7.0, -2.0)
    known = moments_of(X, np.ones(200))
    assert Polynomial().over(ArrayMatrix(X), known).scaling.has_square.tolist() == [True, False, True]
    without = known._replace(center=False)  # without an intercept 49 and 4 are no multiple of 7 and -2
    assert Polynomial().over(ArrayMatrix(X), without).scaling.has_square.all()


def test_dense_columns_are_centred_before_they_are_multiplied_and_sparse_ones_are_not():
    X = np.abs(make(0, share=0.5)[0])
    known = moments_of(X, np.ones(len(X)))
    np.testing.assert_allclose(Polynomial().over(ArrayMatrix(X), known).scaling.centre, X.mean(axis=0))
    assert not Polynomial(center=False).over(ArrayMatrix(X), known).scaling.centre.any()
    sparse = ArrayMatrix(scipy.sparse.csr_matrix(X))
    assert not Polynomial().over(sparse, known).scaling.centre.any()
    with refused(DataError, "feature-maps", at="center", naming=["centred"]):
        Polynomial(center=True).over(sparse, known)


def test_what_a_process_has_made_stays_there():
    X, weight, v = make(1, share=0.3)
    products = Polynomial().over(ArrayMatrix(scipy.sparse.csr_matrix(X)), moments_of(X, weight))
    found = largest(products, v, 9)
    assert products._every is not None
    again = pickle.loads(pickle.dumps(products))
    assert again._every is None
    assert largest(again, v, 9) == found


@pytest.mark.parametrize("n_classes", [1, 3])
def test_a_task_on_dense_products_takes_the_memory_of_its_plan(n_classes):
    X, weight, v = make(0, n_classes, n_samples=40, n_features=200)
    products = Polynomial().over(ArrayMatrix(X), moments_of(X, weight, n_classes=n_classes))
    largest(products, v, 9)  # loads and compiles
    products = pickle.loads(pickle.dumps(products))
    tracemalloc.start()
    try:
        largest(products, v, 9)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= sum(products.sizes.terms.values()) <= 1.4 * peak


@pytest.mark.parametrize("n_entries", [None, 3 * 10**6])
def test_a_smaller_limit_takes_narrower_ranges_until_none_fits(n_entries):
    shape = 100_000, 5_000, 4, n_entries
    costs = [Polynomial().cost(*shape, task_nbytes=limit) for limit in (None, 40 << 20, 5 << 20)]
    taken = [sum(cost.task.values()) for cost in costs]
    assert taken[0] > 40 << 20 >= taken[1] > 5 << 20 >= taken[2]
    assert costs[0].n_tasks < costs[1].n_tasks < costs[2].n_tasks
    assert costs[0].read_nbytes == (12 * 4 * 100_000 * 5_000 if n_entries is None else 2 * 8 * n_entries)
    assert costs[0].read_nbytes < costs[1].read_nbytes < costs[2].read_nbytes
    assert "12,502,500 squares and products of 5,000 columns" in costs[0].text
    least = Polynomial().cost(*shape, task_nbytes=300_000)  # which FGM's plan refuses
    assert 300_000 < sum(least.task.values()) < taken[2]
    plan = FGM(9, feature_map="pairs").plan
    with pytest.raises(PlanError) as refused:
        plan(*shape[:2], "float32", 1 << 20, n_entries=n_entries)
    plan(*shape[:2], "float32", refused.value.needed_nbytes, n_entries=n_entries)


@drawn(
    n_samples=st.integers(1, 10**6),
    n_features=st.integers(1, 5_000),
    itemsize=st.sampled_from([1, 4, 8]),
    n_classes=st.sampled_from([1, 3]),
    is_sparse=st.booleans(),
    times=st.floats(1.0, 100.0),
)
def test_every_limit_above_the_least_is_kept(n_samples, n_features, itemsize, n_classes, is_sparse, times):
    shape = n_samples, n_features, itemsize, n_samples * n_features // 3 if is_sparse else None, n_classes
    least = sum(cut(*shape, 1).terms.values())
    assert sum(cut(*shape, int(least * times)).terms.values()) <= int(least * times)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"between": ["a0"]}, "a list of two"),
        ({"within": "a*"}, "a list of columns"),
        ({"within": ["b0"], "between": ["a0", "b0"]}, "give one of them"),
        ({"within": ["a9"]}, "there is no column 'a9'"),
        ({"within": [99]}, "from 0 to 7"),
        ({"hierarchy": "strong", "r": 0.0}, "set r above 0"),
        ({"gamma": -1.0}, "gamma"),
        ({"degree": 3}, "degree"),
    ],
)
def test_what_cannot_be_meant_is_refused(parameters, message):
    X, weight, _ = make(3, n_features=8)
    matrix: Matrix = ArrayMatrix(X, feature_names=[f"{n}{k}" for n in "ab" for k in range(4)])
    with pytest.raises(ConfigError, match=message):
        Polynomial(**parameters).over(matrix, moments_of(X, weight))
