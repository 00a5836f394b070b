"""The comparison of answers fails where answers differ, and only there."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_regression

from daskfs import FGM, OnlineSubstitution
from tests.tolerances import FLOAT32, FLOAT64, NEAR_TIE, answer_of, assert_same_answer, tolerance_of


@pytest.fixture(scope="module")
def data():
    return make_regression(200, 12, n_informative=5, noise=10.0, random_state=0)


@pytest.fixture
def answer(data):
    return answer_of(OnlineSubstitution(5, loss="squared").fit(*data))


def changed(answer, name, place, value):
    copy = answer | {name: answer[name].copy()}
    copy[name][place] = value
    return copy


def swapped(answer, first, second):
    """Return an answer in which two lines of the table have changed places."""
    copy = dict(answer)
    for name in ("selected", "table.index", "table.coef", "table.score"):
        copy[name] = copy[name].copy()
        copy[name][[first, second]] = copy[name][[second, first]]
    return copy


def test_an_answer_is_the_same_as_itself(answer):
    assert_same_answer(answer, answer)


@pytest.mark.parametrize("name", ["coef", "scores", "table.coef", "table.score"])
def test_numbers_are_compared_to_the_tolerance_given(answer, name):
    largest = np.nanmax(np.abs(answer[name]))
    place = 0 if name.startswith("table.") else answer["selected"][0]
    for rtol in (FLOAT64, FLOAT32):
        assert_same_answer(changed(answer, name, place, answer[name][place] + 0.9 * rtol * largest), answer, rtol)
        with pytest.raises(AssertionError, match=name):
            assert_same_answer(changed(answer, name, place, answer[name][place] + 1.1 * rtol * largest), answer, rtol)


def test_a_coefficient_that_differs_by_a_millionth_is_found(answer):
    j = answer["selected"][0]
    with pytest.raises(AssertionError, match="coef"):
        assert_same_answer(changed(answer, "coef", j, answer["coef"][j] * (1 + 1e-6)), answer)


def test_another_intercept_is_found(answer):
    with pytest.raises(AssertionError, match="intercept"):
        assert_same_answer(answer | {"intercept": answer["intercept"] + 1e-6}, answer)


def test_missing_scores_are_not_numbers(answer):
    j = np.flatnonzero(np.isnan(answer["scores"]))[0]
    with pytest.raises(AssertionError, match="scores"):
        assert_same_answer(changed(answer, "scores", j, 0.0), answer)


def test_features_change_places_only_where_their_scores_are_nearly_tied(answer):
    with pytest.raises(AssertionError, match="selected"):
        assert_same_answer(swapped(answer, 0, 1), answer)
    first = answer["table.score"][0]
    tied = changed(answer, "table.score", 1, first * (1 - 0.5 * NEAR_TIE))
    assert_same_answer(swapped(tied, 0, 1), tied)
    apart = changed(answer, "table.score", 1, first * (1 - 2.0 * NEAR_TIE))
    with pytest.raises(AssertionError, match="selected"):
        assert_same_answer(swapped(apart, 0, 1), apart)


def test_another_feature_is_found_unless_it_scores_as_much(answer):
    last, other = answer["selected"][-1], np.setdiff1d(np.arange(12), answer["selected"])[0]
    exchanged = changed(changed(answer, "selected", -1, other), "table.index", -1, other)
    with pytest.raises(AssertionError, match="selected"):
        assert_same_answer(exchanged, answer)
    assert_same_answer(exchanged, changed(answer, "scores", other, answer["scores"][last]))


def test_one_feature_less_is_found(answer):
    shorter = answer | {name: answer[name][:-1] for name in ("selected", "table.index", "table.coef", "table.score")}
    with pytest.raises(AssertionError, match="selected"):
        assert_same_answer(shorter, answer)


def test_another_stopping_reason_is_found(data):
    X, y = data
    selector = FGM(3, loss="squared").fit(X, y)
    answer = answer_of(selector)
    assert answer["stopped"] == "the requested number of features is reached"
    assert_same_answer(selector, answer)
    with pytest.raises(AssertionError, match="stopped"):
        assert_same_answer(selector, answer | {"stopped": "the optimum over all columns is reached"})


def test_other_classes_are_found(answer):
    with pytest.raises(AssertionError, match="classes"):
        assert_same_answer(answer | {"classes": np.array(["no", "yes"])}, answer | {"classes": np.array(["n", "y"])})


def test_single_precision_has_a_tolerance_of_its_own():
    assert tolerance_of("fgm") == tolerance_of("fgm", "int8") == FLOAT64
    assert tolerance_of("fgm", "float32") == tolerance_of("mission") == FLOAT32
