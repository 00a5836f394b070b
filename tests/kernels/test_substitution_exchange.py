"""The exchange step against least squares solved afresh."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.kernels.linear.linalg import invert
from daskfs.kernels.substitution.exchange import COLLINEAR, NO_ONE, exchange, removal_costs

TOLERANCE = 1e-3


def problem(seed, n_columns, ridge=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, n_columns)) + 0.5 * rng.standard_normal((60, 1))
    y = X @ rng.standard_normal(n_columns) + rng.standard_normal(60)
    return X.T @ X / 60 + ridge * np.eye(n_columns), X.T @ y / 60


def value(matrix, linear, members):
    """The least of the parabola over some columns."""
    part = np.ix_(members, members)
    return -0.5 * linear[members] @ np.linalg.solve(matrix[part], linear[members])


def state(matrix, linear, members, capacity):
    k = len(members)
    inverse, coef = np.zeros((capacity, capacity)), np.zeros(capacity)
    inverse[:k, :k] = np.linalg.inv(matrix[np.ix_(members, members)])
    coef[:k] = inverse[:k, :k] @ linear[members]
    return inverse, coef


def present(matrix, linear, j, members, inverse, coef, n_fixed=0, tolerance=TOLERANCE, price=0.0):
    h, change = np.zeros(len(coef)), np.zeros(1)
    h[: len(members)] = matrix[j, members]
    work = np.zeros(len(coef))
    slot = exchange(h, linear[j], matrix[j, j], inverse, coef, price, len(members), n_fixed, tolerance, work, change)
    return slot, change[0]


@given(seed=st.integers(0, 10**6), s=st.integers(1, 12), ridge=st.sampled_from([0.0, 0.03]), n_fixed=st.integers(0, 3))
def test_the_newcomer_takes_the_place_that_leaves_the_least_loss(seed, s, ridge, n_fixed):
    matrix, linear = problem(seed, s + 1, ridge)
    members, n_fixed = list(range(s)), min(n_fixed, s)
    inverse, coef = state(matrix, linear, members, s)
    before = value(matrix, linear, members)
    slot, change = present(matrix, linear, s, members, inverse, coef, n_fixed)
    after = {i: value(matrix, linear, [j for j in members if j != i] + [s]) for i in range(n_fixed, s)}
    best = min(after, key=after.get) if after else None
    if slot == NO_ONE:
        assert best is None or after[best] >= before - 1e-8 * abs(before)
        assert change == 0.0
        return
    assert after[slot] == pytest.approx(after[best], rel=1e-9)
    assert after[slot] < before
    assert change == pytest.approx(after[slot] - before, rel=1e-6, abs=1e-9)
    members[slot] = s
    expected_inverse, expected_coef = state(matrix, linear, members, s)
    np.testing.assert_allclose(inverse, expected_inverse, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(coef, expected_coef, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_an_exchange_has_to_lower_the_loss_by_its_price(seed):
    matrix, linear = problem(seed, 7)
    members, gains = [0, 1, 2], {}
    for new in range(3, 7):
        after = min(value(matrix, linear, [j for j in members if j != i] + [new]) for i in members)
        gains[new] = value(matrix, linear, members) - after
    newcomer = max(gains, key=gains.get)
    assert gains[newcomer] > 0.0
    for share, enters in ((0.999, True), (1.001, False)):
        inverse, coef = state(matrix, linear, members, 3)
        slot, change = present(matrix, linear, newcomer, members, inverse, coef, price=share * gains[newcomer])
        assert (slot != NO_ONE) == enters
        assert change == pytest.approx(-gains[newcomer] if enters else 0.0, rel=1e-9)


@given(seed=st.integers(0, 10**6), s=st.integers(1, 10))
def test_where_there_is_room_the_newcomer_is_added_exactly(seed, s):
    matrix, linear = problem(seed, s + 1)
    inverse, coef = state(matrix, linear, list(range(s)), s + 1)
    slot, change = present(matrix, linear, s, list(range(s)), inverse, coef)
    assert slot == s
    expected_inverse, expected_coef = state(matrix, linear, list(range(s + 1)), s + 1)
    np.testing.assert_allclose(inverse, expected_inverse, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(coef, expected_coef, rtol=1e-7, atol=1e-9)
    difference = value(matrix, linear, list(range(s + 1))) - value(matrix, linear, list(range(s)))
    assert change == pytest.approx(difference, rel=1e-7, abs=1e-10)


def test_a_combination_of_the_members_is_refused_and_nothing_changes():
    matrix, linear = problem(0, 3)
    mix = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, -2, 1]])
    matrix, linear = mix @ matrix @ mix.T, mix @ linear
    inverse, coef = state(matrix, linear, [0, 1, 2], 3)
    kept = inverse.copy(), coef.copy()
    assert present(matrix, linear, 3, [0, 1, 2], inverse, coef)[0] == COLLINEAR
    np.testing.assert_array_equal(inverse, kept[0])
    np.testing.assert_array_equal(coef, kept[1])


def test_removal_costs_are_what_the_others_cannot_make_good():
    matrix, linear = problem(4, 6)
    members = list(range(6))
    inverse, coef = state(matrix, linear, members, 6)
    expected = [value(matrix, linear, [j for j in members if j != i]) - value(matrix, linear, members) for i in members]
    np.testing.assert_allclose(removal_costs(inverse, coef, 6), expected, rtol=1e-9)


def test_the_inverse_is_that_of_lapack_and_a_singular_matrix_has_none():
    matrix, _ = problem(5, 40)
    inverse = np.zeros((40, 40))
    assert invert(matrix, inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-8, atol=1e-10)
    assert not invert(np.zeros((3, 3)), np.zeros((3, 3)))
