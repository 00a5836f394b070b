"""The bounds of stability selection are those that R's stabs prints (its tests/regtest-inference.Rout.save)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from daskfs.errors import ConfigError
from daskfs.model_selection.error_bounds import (
    error_control,
    expected_false_selections,
    largest_n_selected,
    largest_tail,
    smallest_threshold,
)
from tests.refusals import refused

STABS = {  # cutoff 0.6, p = 100, B = 50, q = 1, ..., 10
    "r-concave": [0.00697, 0.0334, 0.0869, 0.164, 0.261, 0.382, 0.53, 0.704, 0.908, 1.14],
    "unimodal": [0.0263, 0.105, 0.237, 0.421, 0.658, 0.947, 1.29, 1.68, 2.13, 2.63],
    "none": [0.05, 0.2, 0.45, 0.8, 1.25, 1.8, 2.45, 3.2, 4.05, 5.0],
}


@pytest.mark.slow_cases("r-concave")
@pytest.mark.parametrize("assumption", STABS)
def test_bounds_are_those_of_stabs(assumption):
    found = [expected_false_selections(0.6, q, 100, 50, assumption) for q in range(1, 11)]
    np.testing.assert_allclose(found, STABS[assumption], rtol=6e-3)  # it prints three digits


@pytest.mark.parametrize(
    ("threshold", "q", "p", "bound"),
    [(0.6, 6, 200, 0.174), (0.6, 7, 200, 0.248), (0.62, 7, 200, 0.196), (0.61, 7, 200, 0.219),
     (0.37, 10, 100, 4.99), (0.62, 10, 100, 0.897), (0.61, 10, 100, 1.01),
     (0.6, 30, 100, 16.2), (0.2, 10, 100, 100)],
)  # fmt: skip
def test_r_concave_bounds_are_those_of_stabs(threshold, q, p, bound):
    assert expected_false_selections(threshold, q, p, 50) == pytest.approx(bound, rel=6e-3)


def test_a_threshold_of_one_has_the_bound_of_the_law_that_attains_it():
    """At an end of the interval that is searched, where stabs' optimiser stops short: it prints 0.00518."""
    i = np.arange(51)
    p = (0.4027095405103213 + i) ** -2.0  # (-1/2)-concave
    p /= p.sum()
    assert p @ i == pytest.approx(50 * 0.1**2)
    assert expected_false_selections(1.0, 10, 100, 50) == pytest.approx(100 * p[-1])


def test_the_body_fat_example_of_stabs_has_its_bounds():
    assert expected_false_selections(0.75, 2, 9, 50, "unimodal") == pytest.approx(0.454, rel=2e-3)
    assert expected_false_selections(0.96, 3, 10, 50, "unimodal") == pytest.approx(0.176, rel=3e-3)


@pytest.mark.slow
def test_any_two_give_the_third_as_in_stabs():
    assert largest_n_selected(0.6, 0.2, 200) == 6
    assert largest_n_selected(0.6, 0.2, 200, assumption="unimodal") == 3
    assert smallest_threshold(7, 0.2, 200) == 0.62
    assert smallest_threshold(7, 0.2, 200, assumption="unimodal") == 0.81
    assert error_control(100, threshold=0.6, pfer=1.0).n_selected == 9
    assert error_control(100, n_selected=10, pfer=1.0).threshold == 0.62
    assert error_control(100, threshold=0.6, n_selected=10).pfer == pytest.approx(1.14, rel=6e-3)


def test_what_cannot_be_had_is_refused():
    with refused(ConfigError, "parameters", at="pfer", naming=["10"]):
        largest_n_selected(0.6, 1e-4, 10)
    with refused(ConfigError, "parameters", at="pfer", naming=["0.001", "1"]):
        smallest_threshold(10, 0.001, 100)
    with refused(ConfigError, "parameters", at="threshold, n_selected, pfer"):
        error_control(100, threshold=0.6)


@pytest.mark.slow
def test_bounds_fall_with_what_is_supposed_and_with_the_threshold_and_rise_with_q():
    for q, p, n_pairs in itertools.product((1, 2.5, 8), (60, 1000), (25, 50)):
        thresholds = np.arange(n_pairs + 3, 2 * n_pairs + 1, 7) / (2 * n_pairs)
        by = {a: [expected_false_selections(t, q, p, n_pairs, a) for t in thresholds] for a in STABS}
        assert all(np.all(np.diff(bounds) <= 1e-9) for bounds in by.values())
        assert np.all(np.less_equal(by["unimodal"], by["none"]))
        assert np.all(np.less_equal(by["r-concave"], np.add(by["unimodal"], 1e-6)))
        more = [expected_false_selections(t, q + 1, p, n_pairs) for t in thresholds]
        assert np.all(np.greater_equal(more, by["r-concave"]))


def test_no_r_concave_distribution_has_a_larger_tail():
    """Random r-concave ones: a convex function to the power of 1 / r."""
    rng = np.random.default_rng(0)
    n, t, r = 12, 8, -0.5
    i, reached = np.arange(n + 1), 0.0
    bound = largest_tail(0.15, t, n, r)
    for _ in range(4000):
        knots, slopes = rng.uniform(0, n, 3), rng.exponential(1.0, 3) * (rng.random(3) < 0.6)
        convex = np.exp(rng.normal(-2, 3)) + rng.exponential() * i + np.maximum(i[:, None] - knots, 0.0) @ slopes
        p = convex ** (1.0 / r)
        p[int(rng.integers(t, n + 1)) + 1 :] = 0.0  # support may end anywhere
        p /= p.sum()
        if p @ i <= 0.15 * n:
            assert p[t:].sum() <= bound + 1e-12
            reached = max(reached, p[t:].sum())
    assert reached > 0.7 * bound


def test_the_worst_case_is_that_of_a_linear_programme():
    """Of a feature selected with q / p, the share of pairs that select it twice has at most the square as its mean."""
    n_pairs, share, n_needed = 10, 0.1, 16
    pairs = [(both, one) for both in range(n_pairs + 1) for one in range(n_pairs + 1 - both)]
    reaches = np.array([2.0 * both + one >= n_needed for both, one in pairs])
    twice = np.array([both / n_pairs for both, _ in pairs])
    found = linprog(-1.0 * reaches, A_ub=[twice], b_ub=[share**2], A_eq=[np.ones(len(pairs))], b_eq=[1.0])
    assert -found.fun <= expected_false_selections(n_needed / 20, share, 1, n_pairs, "none") + 1e-9
    assert -found.fun == pytest.approx(share**2 / (2 * n_needed / 20 - 1), rel=1e-6)
