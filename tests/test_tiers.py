"""What is left out by default."""

from __future__ import annotations

from itertools import product

from tests.tiers import without_news


def kept(**parameters):
    cases = [dict(zip(parameters, values, strict=True)) for values in product(*parameters.values())]
    return [tuple(case.values()) for case, is_old in zip(cases, without_news(cases), strict=True) if not is_old]


def test_each_value_is_tried_once_and_not_each_combination():
    assert kept(loss=["squared", "huber"], sparse=[False, True]) == [
        ("squared", False),
        ("squared", True),
        ("huber", False),
    ]


def test_of_draws_three_are_tried_and_of_other_numbers_all():
    assert kept(seed=range(20)) == [(0,), (1,), (2,)]
    assert len(kept(n_rows=[0, 1, 5, 10, 20])) == 5


def test_true_is_not_one():
    assert len(kept(whole=[True, 1, 0, False])) == 4


def test_objects_are_told_apart():
    assert len(kept(data=[object(), object(), [], []])) == 4


def test_a_test_without_parameters_is_kept():
    assert without_news([{}]) == [False]
