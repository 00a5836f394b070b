"""MESSAGE on genotype files decodes only columns near its path: the same path, the same answer, within the memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from daskfs import Message
from daskfs.errors import PlanError
from daskfs.kernels.lasso.from_gram import lasso_path_from_gram
from daskfs.kernels.lasso.path import lasso_path
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Moments
from daskfs.selectors.message import screened
from daskfs.selectors.message.in_step import in_step
from daskfs.selectors.message.screened import Near, Point, StandardisedColumns, _may_enter, screened_path
from daskfs.sources.genotype_matrix import GenotypeMatrix
from tests.genotype_files import N, P, cohort, counted_passes
from tests.refusals import refused
from tests.tolerances import FLOAT32, FLOAT64, assert_close, assert_same_answer


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    return cohort(tmp_path_factory.mktemp("cohort"))


def in_memory(matrix):
    return ArrayMatrix(matrix.read(slice(None)), matrix.target, feature_names=list(matrix.names))


def alone(computation):
    return in_step([computation])[0]


def both_paths(matrix, y=None, weight=None, free=(0, 1), column_weight=None, most_near=P, **options):
    """Return the path over near columns, and that of the block of all columns."""
    y = np.asarray(matrix.read_target() if y is None else y)
    weight = np.ones(len(y)) if weight is None else weight
    options = {"penalty": float(np.log(len(y))), "free": np.array(free, np.int64), "patience": 20} | options
    options |= {"max_features": 60, "column_weight": column_weight}
    expected = lasso_path(matrix.read(slice(None)), y, weight, **options)
    return alone(screened_path(matrix, y, weight, most_near=most_near, **options)), expected


def assert_same_path(found, expected):
    assert (found.stop, found.solver, found.best) == (expected.stop, expected.solver, expected.best)
    np.testing.assert_array_equal(found.df, expected.df)
    np.testing.assert_array_equal(found.is_active, expected.is_active)
    np.testing.assert_array_equal(found.entered, expected.entered)
    assert_close(found.lambdas, expected.lambdas, FLOAT64)
    assert_close(found.gic, expected.gic, FLOAT64)
    if expected.best >= 0:
        assert_close(found.coefficients(found.best), expected.coefficients(expected.best), FLOAT64)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"free": ()},
        {"patience": None},
        {"gic_rss": "lasso", "sigma2": 1.0},
        {"weight": np.random.default_rng(1).integers(0, 3, N).astype(np.float64)},
        {"column_weight": np.random.default_rng(2).uniform(0.5, 1.0, P + 2)},
        {"n_lambdas": 3, "y": np.zeros(N)},
    ],
    ids=["default", "nothing free", "to the end", "lasso fit", "weights", "column weights", "constant target"],
)
def test_the_path_over_near_columns_is_that_of_all_columns(matrix, options):
    assert_same_path(*both_paths(matrix, **options))


@pytest.mark.parametrize("step", [0.6, 0.97])
def test_columns_that_come_near_between_two_passes_join(matrix, step, monkeypatch):
    monkeypatch.setattr(screened, "STEP", step)
    monkeypatch.setattr(screened, "SLOPE", -0.9)  # near are only columns that are about to enter
    assert_same_path(*both_paths(matrix))


def test_a_column_joins_that_exceeds_the_penalty_only_between_two_passes():
    """Its derivative is below λ at both ends, since it loses to two columns that it resembles and fits y badly."""
    rng = np.random.default_rng(0)
    z = np.linalg.qr(np.column_stack([np.ones(200), rng.standard_normal((200, 4))]))[0][:, 1:] * np.sqrt(
        200.0
    )  # centred, orthogonal, variance 1
    tempting = 0.65 * (z[:, 1] + z[:, 2]) + np.sqrt(1.0 - 2.0 * 0.65**2) * z[:, 3]
    X, y = np.column_stack([z[:, :3], tempting]), z[:, :4] @ [1.5, 1.0, 1.0, -0.5]
    every = StandardisedColumns(WithProducts(X, y), y, np.ones(200))
    alone(every.standardise())
    m, three = every.moments, np.arange(3)
    near = Near(three, three, every.gram(three, three))
    of_near = m._replace(mean=m.mean[three], scale=m.scale[three], cross=m.cross[three])
    path, _ = lasso_path_from_gram(of_near, near.features, near.gram, penalty=0.0, patience=None, lowest=0.5)
    nothing = np.empty(0)
    start = Point(1.5, nothing.astype(np.int64), nothing, m.cross)
    derivatives = alone(every.derivatives(path.entered, path.coef[-1]))
    end = Point(path.lambdas[-1], path.entered, path.coef[-1], derivatives)
    assert abs(start.derivatives[3]) < start.lam
    assert abs(end.derivatives[3]) < end.lam
    assert end.lam == pytest.approx(0.5)
    assert list(np.flatnonzero(_may_enter(path, near, start, end, np.ones(4, dtype=bool)))) == [3]


class WithProducts(ArrayMatrix):
    """An array with the products of genotype files."""

    def column_products(self, columns, vectors):
        return vectors @ self.read(slice(None), columns)

    def column_moments(self, columns, weight):
        X = self.read(slice(None), columns)
        every = X.mean(axis=0), X.std(axis=0), X.min(axis=0), X.max(axis=0)
        return Moments(*(np.broadcast_to(part, (len(weight), len(part))) for part in every))


def test_a_path_with_too_many_knots_follows_the_grid(matrix, monkeypatch):
    monkeypatch.setattr("daskfs.kernels.lasso.path.knot_capacity", lambda max_features: 5)
    found, expected = both_paths(matrix, n_lambdas=30)
    assert (found.given_up, expected.given_up) == ("too many knots", "too many knots")
    assert_same_path(found, expected)


def test_only_columns_near_the_path_are_decoded_and_passes_are_few(matrix, monkeypatch):
    asked, passes, read = set(), counted_passes(monkeypatch), GenotypeMatrix.read

    def counted(self, rows, columns=slice(None), out=None):
        asked.update(np.arange(self.shape[1])[columns].tolist())
        return read(self, rows, columns, out)

    monkeypatch.setattr(GenotypeMatrix, "read", counted)
    options = {"free": np.arange(2), "most_near": P, "penalty": 6.0, "patience": 10}
    path = alone(screened_path(matrix, matrix.target, np.ones(N), **options))
    assert len(path.entered) <= len(asked) < P // 2
    assert sum(passes) < 25


def test_a_path_that_needs_more_columns_than_fit_ends_early_and_is_right_until_then(matrix):
    found, expected = both_paths(matrix, most_near=25, patience=None)
    n = len(found.lambdas)
    assert found.stop == "memory"
    assert 3 < n < len(expected.lambdas)
    assert_close(found.lambdas[:-1], expected.lambdas[: n - 1], FLOAT64)  # it may end between two knots
    np.testing.assert_array_equal(found.df[:-1], expected.df[: n - 1])


@pytest.mark.parametrize("options", [{"n_subsets": 1}, {"goal": "prediction"}], ids=["one subset", "prediction"])
def test_the_answer_is_that_of_decoded_columns(matrix, options):
    options |= {"always_include": ["age", "PC1"], "random_state": 0}
    found, expected = Message(**options).fit(matrix), Message(**options).fit(in_memory(matrix))
    assert len(found.selected_) > 4
    assert_same_answer(found, expected, FLOAT32)


def test_subsets_that_do_not_fit_are_screened_and_stay_within_the_plan(matrix):
    options = {"n_subsets": 3, "always_include": ["age", "PC1"], "max_features": 60, "partition": "strided"}
    shape = {"dtype": matrix.dtype, "tile_shape": matrix.tile_shape, "names": matrix.names}
    with refused(PlanError, "memory-limit", at="memory_limit") as caught:
        Message(**options).plan(*matrix.shape, memory_limit="1MiB", **shape)
    limit = caught.value.needed_nbytes - 1
    plan = Message(**options).plan(*matrix.shape, memory_limit=limit, has_products=True, **shape)
    assert plan.n_passes > 1
    found = Message(**options, memory_limit=limit).fit(matrix)  # compiles, too
    assert_same_answer(found, Message(**options).fit(in_memory(matrix)), FLOAT32)
    tracemalloc.start()
    Message(**options, memory_limit=limit).fit(matrix)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= plan.task_nbytes + plan.client_nbytes


def test_groups_need_all_columns_and_say_so(matrix):
    groups = np.arange(P + 2) // 2
    with refused(PlanError, "memory-limit", at="memory_limit", naming=["feature_groups"]):
        Message(n_subsets=1, memory_limit="5MiB", feature_groups=groups).fit(matrix)
