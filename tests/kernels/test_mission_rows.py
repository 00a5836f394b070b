"""MISSION's step against a plain account of it in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.blocks.sparse_rows import entries_of, standardised_entries
from daskfs.kernels.linear.column_sums import add_column_sums
from daskfs.kernels.sketch.rows import EMPTY, StepRule, slot_of, step_of
from daskfs.losses import find_loss
from daskfs.matrix.blocks import SparseRows
from daskfs.selectors.mission.model import ModelShape
from daskfs.selectors.mission.variants import model_of


def rule_of(rate=0.1, period=np.inf, step_limit=np.inf, ratio=0.5):
    return StepRule(find_loss("squared").code, rate, 1.0 / period, step_limit, ratio, 1.0)


def dense_descent(X, y, rate, period, ratio, weight):
    """Stochastic gradient descent on half squares, without any sketch."""
    coef, intercept = np.zeros(X.shape[1]), 0.0
    for t, (x, target) in enumerate(zip(X, y, strict=True)):
        step = rate / np.sqrt(1 + t / period) * weight[t] * (target - x @ coef - intercept)
        coef, intercept = coef + step * x, intercept + ratio * step
    return coef, intercept


def learnt(X, y, weight=None, *, n_selected=8, is_paper=False, rule=None, n_hashes=0):
    shape = ModelShape(
        n_selected, X.shape[1] if n_hashes == 0 else 64, n_hashes, 0, variant="paper" if is_paper else "active"
    )
    model = model_of(shape)
    rows = SparseRows(*entries_of(np.ascontiguousarray(X)))
    model.train(rows, y, np.ones(len(y)) if weight is None else weight, rule_of() if rule is None else rule)
    return model


def weights_of(model, n_features):
    active = model.active()
    coef = np.zeros(n_features)
    coef[active.keys.astype(int)] = active.weights[:, 0]
    return coef


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 8)) * (rng.random((40, 8)) < 0.6)
    return X, X @ rng.standard_normal(8), rng.random(40) + 0.5


@pytest.mark.slow
@pytest.mark.parametrize("is_paper", [False, True])
def test_with_room_for_all_it_is_stochastic_gradient_descent(rows, is_paper):
    X, y, weight = rows
    model = learnt(X, y, weight, is_paper=is_paper, rule=rule_of(0.1, 10.0))
    model.select()
    coef, intercept = dense_descent(X, y, 0.1, 10.0, 0.5, weight)
    np.testing.assert_allclose(weights_of(model, 8), coef, atol=1e-5)  # float32 weights
    assert model.intercept[0] == pytest.approx(intercept, abs=1e-5)


@pytest.mark.slow
def test_what_is_not_active_learns_in_the_tail_without_being_heard(rows):
    X, y, _ = rows
    model = learnt(X[:20], y[:20], n_selected=2)
    model.end_block(20, np.inf)
    kept, before = model.active()[0].astype(int), model.sketch.estimate(np.arange(8, dtype=np.uint64))
    coef = weights_of(model, 8)
    x = X[20]
    step = 0.1 * (y[20] - x[kept] @ coef[kept] - model.intercept[0])
    model.thresholds[:] = 1e9  # nobody becomes active
    model.train(SparseRows(*entries_of(X[20:21])), y[20:21], np.ones(1), rule_of())
    others = np.setdiff1d(np.arange(8), kept)
    after = model.sketch.estimate(np.arange(8, dtype=np.uint64))
    np.testing.assert_allclose((after - before)[others], step * x[others], atol=1e-5)
    np.testing.assert_allclose(weights_of(model, 8)[kept], coef[kept] + step * x[kept], atol=1e-5)


def test_a_feature_over_the_threshold_becomes_active_and_leaves_the_sketch():
    model = model_of(ModelShape(2, 64, 3, 0))
    model.thresholds[:] = 0.5
    one = SparseRows(np.array([0, 2]), np.array([7, 9], np.uint32), np.array([10.0, 1.0], np.float32))
    model.train(one, np.array([1.0]), np.ones(1), rule_of(ratio=0.0))
    assert [array.tolist() for array in model.active()] == [[7], [0], [[1.0]], [1]]
    np.testing.assert_allclose(model.sketch.estimate(np.array([7, 9], np.uint64)), [0.0, 0.1], atol=1e-7)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_an_id_may_stand_several_times_in_a_row(n_outputs):
    loss = "multinomial" if n_outputs > 1 else "squared"
    models = [model_of(ModelShape(2, 64, 3, 0, n_outputs, loss)) for _ in range(2)]
    twice = SparseRows(np.array([0, 3]), np.array([7, 9, 7], np.uint32), np.array([1.0, 1.0, 2.0], np.float32))
    once = SparseRows(np.array([0, 2]), np.array([7, 9], np.uint32), np.array([3.0, 1.0], np.float32))
    rule = rule_of()
    for _ in range(3):
        for model, row in zip(models, (twice, once), strict=True):
            model.train(row, np.array([1.0]), np.ones(1), rule)
    found, expected = (model.state() for model in models)
    np.testing.assert_array_equal(found.keys, [7, 9])
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-5)


def test_a_row_longer_than_the_table_is_taken():
    n = 50_000
    X = np.ones((3, n), np.float32)
    model = model_of(ModelShape(5, 1 << 16, 3, 0))
    model.train(SparseRows(*entries_of(X)), np.ones(3), np.ones(3), rule_of(1e-6))
    model.select()
    assert len(model.active()[0]) == 5


def test_the_table_finds_what_it_holds_and_free_slots_for_the_rest():
    keys = np.full(16, EMPTY, np.uint64)
    for key in range(12):
        keys[slot_of(keys, np.uint64(key * 16))] = key * 16
    assert sorted(keys[keys != EMPTY].tolist()) == [16 * k for k in range(12)]
    assert all(keys[slot_of(keys, np.uint64(16 * k))] == 16 * k for k in range(12))
    assert keys[slot_of(keys, np.uint64(5))] == EMPTY


def test_a_step_is_cut_where_it_would_overshoot():
    rule = rule_of(1.0, step_limit=2.0)
    assert step_of(rule, 0.0, 1.0, 1.0) == 1.0
    assert step_of(rule, 0.0, 1.0, 100.0) == pytest.approx(0.02)
    assert rule.row_count == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entries_are_what_is_not_zero(dtype):
    X = np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, np.nan]], dtype=dtype)
    indptr, indices, data = entries_of(X)
    assert (indptr.tolist(), indices.tolist()) == ([0, 1, 1, 3], [1, 0, 2])
    np.testing.assert_array_equal(data, np.array([2.0, 1.0, np.nan], np.float32))


def test_standardised_entries_are_centred_and_scaled():
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    indptr, indices, data = standardised_entries(X, np.array([2.0, 2.0]), np.array([1.0, 0.5]))
    assert (indptr.tolist(), indices.tolist(), data.tolist()) == ([0, 2, 4], [0, 1, 0, 1], [-1.0, 0.0, 1.0, 1.0])


def test_column_sums_are_those_of_the_columns():
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((30, 6)) * (rng.random((30, 6)) < 0.5), rng.random(30)
    sums = np.zeros((3, 3))
    add_column_sums(*entries_of(X), weight, np.array([1, 4, 9], np.uint64), sums)
    chosen = X[:, [1, 4]].astype(np.float32)
    np.testing.assert_array_equal(sums[:2, 0], (chosen != 0).sum(axis=0))
    np.testing.assert_allclose(sums[:2, 1], weight @ chosen, rtol=1e-6)
    np.testing.assert_allclose(sums[:2, 2], weight @ chosen**2, rtol=1e-6)
    assert not sums[2].any()
