"""Maps of single variables: their kernels, and scores that are the sums of squares of columns that are never made."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from daskfs.errors import ConfigError, DataError
from daskfs.feature_maps.additive import (
    AdditiveChi2,
    AdditiveGaussian,
    AdditiveJensenShannon,
    AdditiveMap,
    HistogramIntersection,
    OwnMap,
    Splines,
)
from daskfs.feature_maps.additive_matrix import AdditiveMatrix, Range
from daskfs.feature_maps.base import Given
from daskfs.matrix.arrays import ArrayMatrix
from tests.refusals import refused
from tests.tolerances import assert_close


def _name(value: object) -> str:
    """Return a name that is the same in every process, which that of a function is not."""
    return "own" if isinstance(value, OwnMap) else str(value)


MAPS: list[AdditiveMap] = [
    HistogramIntersection(7),
    AdditiveGaussian(),
    AdditiveChi2(),
    AdditiveJensenShannon(5, "sampled"),
    Splines(),
    Splines(4, 1),
    OwnMap(lambda place: np.stack([place, np.sin(9.0 * place)], axis=1)),
]


def _matrix(X: np.ndarray | scipy.sparse.spmatrix) -> ArrayMatrix:
    return ArrayMatrix(X, np.zeros(X.shape[0]))


def _given(X: np.ndarray, weight: np.ndarray | None = None, **options: object) -> Given:
    weight = np.ones(len(X)) if weight is None else weight
    X = X.astype(float)
    mean = weight @ X / weight.sum()
    deviation = np.sqrt(weight @ (X - mean) ** 2 / weight.sum())
    deviation[np.ptp(X[weight > 0.0], axis=0) == 0.0] = 0.0
    kept = X[weight > 0.0]
    return Given(mean, deviation, kept.min(axis=0), kept.max(axis=0), weight, **options)  # type: ignore[arg-type]


def _counts(n: int, p: int, seed: int, dtype: type = np.float32) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, p)) < 0.4, rng.gamma(2.0, 2.0, (n, p)), 0.0)
    return np.rint(X).astype(dtype) if dtype == np.int8 else X.astype(dtype)


def _scores(implicit: AdditiveMatrix, v: np.ndarray, parts: list[Range] | None = None) -> np.ndarray:
    found = np.zeros(implicit.n_units)
    for part in parts or [part for parts in implicit.rounds(1, np.empty(0, np.int64)) for part in parts]:
        units, scores = implicit.score_columns(v, implicit.n_units, 0.0, part)
        found[units] = scores
    return found


@pytest.mark.parametrize(
    ("feature_map", "error"),
    [
        (AdditiveGaussian(1.3), 0.04),
        (AdditiveGaussian(2.4, 5), 1e-3),
        (AdditiveGaussian(2.4, 5, "sampled"), 8e-3),
        (AdditiveChi2(), 2e-3),
        (AdditiveChi2(3, "sampled"), 0.079),
        (AdditiveChi2(5, "sampled"), 0.014),
        (AdditiveChi2(7, "sampled"), 0.011),
        (AdditiveJensenShannon(), 1e-3),
        (AdditiveJensenShannon(5, "sampled"), 0.01),
        (OwnMap(lambda a, b: a * b, is_kernel=True, n_components=1), 1e-6),
    ],
    ids=_name,
)
def test_products_of_a_map_are_its_kernel(feature_map: AdditiveMap, error: float) -> None:
    table = feature_map.table()
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 4000))
    assert table.kernel is not None
    found, exact = (table.at(a) * table.at(b)).sum(axis=1), table.kernel(a, b)
    assert np.sqrt(((found - exact) ** 2).mean() / (exact**2).mean()) < error


@pytest.mark.slow
@pytest.mark.parametrize("levels", [5, 20, 100])
def test_the_unary_code_errs_within_a_level_alone(levels: int) -> None:
    a, b = np.random.default_rng(1).random((2, 200_000))
    table = HistogramIntersection(levels).table()
    found = (table.at(a) * table.at(b)).sum(axis=1)
    np.testing.assert_allclose(
        np.sqrt(((found - np.minimum(a, b)) ** 2).mean()), np.sqrt(1 / 90) * levels**-1.5, rtol=0.05
    )


@pytest.mark.parametrize("feature_map", MAPS, ids=_name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("normalize", [True, False, "auto"])
def test_a_score_is_the_sum_of_squares_of_its_columns(
    feature_map: AdditiveMap, dtype: type, normalize: bool | str
) -> None:
    X = _counts(300, 6, 0, dtype)
    X[:, 3] = 2
    rng = np.random.default_rng(2)
    weight = rng.integers(0, 3, 300).astype(float)
    v = rng.standard_normal((2, 300)) * (weight > 0)
    v[:, weight > 0] -= v[:, weight > 0].mean(axis=1, keepdims=True)
    implicit = feature_map.over(_matrix(X), _given(X, weight, normalize=normalize))
    columns, bounds = implicit.columns_of(np.arange(6))
    values = implicit.read(slice(None), columns).T
    centre, inverse = implicit.scaling_of(columns, values)
    products = ((values - centre[:, None]) * inverse[:, None]) @ v.T
    expected = np.add.reduceat((products**2).sum(axis=1), bounds[:-1])
    found = _scores(implicit, v)
    assert found[3] == 0.0
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4 * expected.max())
    if normalize is True:
        of_unit = (weight @ ((values - centre[:, None]) * inverse[:, None]).T ** 2 / weight.sum()).reshape(6, -1)
        np.testing.assert_allclose(np.delete(of_unit.sum(axis=1), 3), 1.0, rtol=1e-5)


@pytest.mark.slow
@given(
    which=st.sampled_from(range(len(MAPS))),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(1, 11), max_size=4),
    dtype=st.sampled_from([np.float32, np.float64, np.int8]),
)
def test_scores_are_the_same_however_the_columns_are_cut_and_stored(
    which: int, seed: int, cuts: list[int], dtype: type
) -> None:
    X = _counts(80, 12, seed, dtype)
    v = np.random.default_rng(seed).standard_normal((1, 80))
    known = _given(X)
    whole = _scores(MAPS[which].over(_matrix(X), known), v)
    edges = [0, *sorted(set(cuts)), 12]
    parts = [Range(a, b) for a, b in itertools.pairwise(edges)]
    in_parts = MAPS[which].over(_matrix(scipy.sparse.csc_matrix(X)), known)
    assert_close(_scores(in_parts, v, parts), whole)
    by_columns = MAPS[which].over(_matrix(np.asfortranarray(X)), known)
    assert_close(_scores(by_columns, v), whole)


def test_rows_that_stand_twice_count_twice_in_dense_and_sparse_views() -> None:
    X = _counts(60, 5, 3)
    taken = np.random.default_rng(4).integers(0, 60, 90)
    v = np.random.default_rng(5).standard_normal((1, 90))
    known = _given(X[taken])
    expected = _scores(HistogramIntersection().over(_matrix(X[taken]), known), v)
    for given_as in (X, scipy.sparse.csc_matrix(X)):
        found = _scores(HistogramIntersection().over(_matrix(given_as).take(taken), known), v)
        assert_close(found, expected)


def test_the_largest_are_found_with_ties_by_number() -> None:
    X = np.repeat(_counts(50, 1, 6), 4, axis=1)
    v = np.random.default_rng(7).standard_normal((1, 50))
    units, scores = AdditiveGaussian().over(_matrix(X), _given(X)).score_columns(v, 2, 0.0, Range(0, 4))
    assert units.tolist() == [0, 1]
    assert scores[0] == scores[1]


def test_the_matrix_travels_and_makes_the_same_of_new_rows() -> None:
    X = _counts(50, 3, 8)
    implicit = AdditiveGaussian().over(_matrix(X), _given(X))
    made = pickle.loads(pickle.dumps(implicit)).made(np.array([8, 0, 9]))
    assert made.parents.tolist() == [0, 1]
    np.testing.assert_array_equal(made.of(X[:, [0, 1]]), implicit.read(slice(None), np.array([8, 0, 9])))
    assert made.names(["age", "weight"]) == [
        "weight (additive_gaussian 2)", "age (additive_gaussian 1)", "weight (additive_gaussian 3)",
    ]  # fmt: skip
    assert [one.tolist() for one in made.parents_of()] == [[1], [0], [1]]


def test_values_beyond_the_range_are_those_at_its_end() -> None:
    X = np.linspace(0.0, 1.0, 30)[:, None]
    made = HistogramIntersection(4).over(_matrix(X), _given(X)).made(np.arange(4))
    np.testing.assert_allclose(made.of(np.array([[-5.0], [9.0], [0.5]])), [[0] * 4, [0.5] * 4, [0.5, 0.5, 0, 0]])


def test_one_large_value_does_not_make_all_others_one() -> None:
    X = np.random.default_rng(9).standard_normal((500, 1))
    X[7] = 1e6
    made = HistogramIntersection(20).over(_matrix(X), _given(X)).made(np.arange(20))
    assert made.high[0] < 1e6


@pytest.mark.parametrize("feature_map", [AdditiveChi2(), AdditiveJensenShannon()])
def test_values_below_zero_are_named_where_a_kernel_takes_none(feature_map: AdditiveMap) -> None:
    X = np.array([[1.0, 2.0], [0.0, -3.0], [1.0, 1.0]])
    with refused(DataError, "feature-maps", at="column 1", naming=["0", "3", "additive_gaussian"]):
        feature_map.over(_matrix(X), _given(X))
    AdditiveGaussian().over(_matrix(X), _given(X))


def test_parameters_that_cannot_be_are_named() -> None:
    X = _counts(10, 2, 0)
    with refused(ConfigError, "parameters", at="levels", naming=["1", "4096", "0"]):
        HistogramIntersection(0).over(_matrix(X), _given(X))
    with refused(ConfigError, "feature-maps", at="n_components", naming=["4", "5"]):
        AdditiveChi2(4, "sampled").table()
    with refused(ConfigError, "feature-maps", at="function", naming=["129"]):
        OwnMap(lambda place: place[:5]).table()


def test_a_function_is_named_in_a_pipeline_file() -> None:
    np.testing.assert_allclose(OwnMap("numpy:sqrt").table().at(np.array([0.25]))[0], [0.5], atol=1e-12)


def test_what_a_pass_costs_is_known_before() -> None:
    cost = HistogramIntersection(20).cost(10_000, 784, 4)
    assert (cost.n_units, cost.n_columns, cost.columns_per_unit) == (784, 15_680, 20)
    assert "15,680 columns, 20 of each of 784 variables" in cost.text


def test_what_a_kernel_of_the_users_made_travels_without_the_kernel() -> None:
    X = _counts(50, 3, 8)
    feature_map = OwnMap(lambda a, b: a * b, is_kernel=True, n_components=1)
    implicit = feature_map.over(_matrix(X), _given(X))
    made = pickle.loads(pickle.dumps(implicit.made(np.array([0, 2]))))
    np.testing.assert_array_equal(made.of(X[:, [0, 2]]), implicit.read(slice(None), np.array([0, 2])))
    assert "<lambda>" in repr(feature_map)
    assert " at 0x" not in repr(feature_map)
