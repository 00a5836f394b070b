"""Thresholds and e-values of knockoff statistics: their definitions, and their rates on signs drawn at random."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.model_selection.knockoff_filter import derandomised, e_selection, e_values, knockoff_threshold


@given(st.lists(st.integers(-6, 9), min_size=1, max_size=25), st.sampled_from([0.1, 0.2, 0.5]), st.integers(0, 1))
def test_the_threshold_is_the_smallest_that_its_definition_allows(numbers, fdr, offset):
    W = np.array(numbers, dtype=float)

    def is_allowed(t):
        return (offset + np.sum(-t >= W)) / max(1, np.sum(t <= W)) <= fdr

    found = knockoff_threshold(W, fdr, offset)
    allowed = [t for t in sorted({abs(w) for w in W if w}) if is_allowed(t)]
    assert found == (allowed[0] if allowed else math.inf)


def drawn(rng, n_true, n_noise):
    """Statistics whose noise has a random sign, and of several draws the same noise as in the papers' model."""
    return np.r_[rng.normal(3.0, 1.0, n_true), rng.normal(0.0, 1.2, n_noise)]


@pytest.mark.parametrize("fdr", [0.1, 0.3])
def test_the_false_discovery_rate_is_bounded(fdr):
    rng, single, several = np.random.default_rng(0), [], []
    for _ in range(600):
        draws = [drawn(rng, 30, 150) for _ in range(5)]
        for found, selected in (
            (single, draws[0] >= knockoff_threshold(draws[0], fdr)),
            (several, derandomised(draws, fdr)[1]),
        ):
            found.append(selected[30:].sum() / max(1, selected.sum()))
    for rates in (single, several):
        assert np.mean(rates) <= fdr + 3 * np.std(rates) / math.sqrt(600)
    assert np.mean(single) > 0.6 * fdr  # it is not bounded by selecting nothing


def test_e_values_of_noise_sum_to_their_number_at_most():
    rng = np.random.default_rng(1)
    sums = [e_values(drawn(rng, 30, 150), 0.1)[30:].sum() for _ in range(2000)]
    assert np.mean(sums) <= 180 + 3 * np.std(sums) / math.sqrt(2000)


def test_where_nothing_stands_out_nothing_is_selected():
    assert knockoff_threshold(np.zeros(5), 0.1) == math.inf
    assert not e_values(-np.ones(5), 0.1).any()
    assert not e_selection(np.zeros(5), 0.1).any()
    assert not derandomised([np.zeros(5), np.ones(5)], 0.1)[1].any()


def test_several_draws_that_agree_select_what_one_selects():
    W = np.r_[np.arange(1, 41) + 10.0, -np.ones(10)]
    e, selected = derandomised([W] * 3, 0.1)
    assert selected.tolist() == (knockoff_threshold(W, 0.05) <= W).tolist()
    assert e[0] == 50.0
