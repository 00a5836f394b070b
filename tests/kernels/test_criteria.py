"""The penalties of the criteria, against the numbers worked out for the paper's sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from daskfs.errors import ConfigError
from daskfs.kernels.lasso.criteria import FALSE_FEATURES, binomial_tail, feature_penalty, vote_penalty
from tests.refusals import refused


@pytest.mark.parametrize(
    ("criterion", "gamma", "expected"),
    [("bic", 0.5, 5.99), ("ric", 0.5, 17.68), ("ebic", 1.0, 19.81), ("ebic", 0.5, 12.90), ("ebic", 0.0, 5.99)],
)
def test_penalties_at_the_papers_subset_size(criterion, gamma, expected):
    assert feature_penalty(criterion, 400, 1000, gamma) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("criterion", ["vote", "bic", "ric", "ebic"])
@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_penalties_of_few_features_are_finite(criterion, n_features):
    assert 0 <= feature_penalty(criterion, 10, n_features) < math.inf


def test_an_unknown_criterion_gets_the_nearest_right_one():
    with refused(ConfigError, "parameters", at="criterion", naming=["did you mean", "'ebic'"]):
        feature_penalty("ebicc", 10, 10)


def test_the_penalty_of_the_vote_lies_between_bic_and_ebic_and_falls_with_the_subsets():
    found = [feature_penalty("vote", 400, 1000, n_subsets=m) for m in (1, 3, 5, 25)]
    assert found[0] == feature_penalty("ebic", 400, 1000)
    assert found == sorted(found, reverse=True)
    assert found[-1] == feature_penalty("bic", 400, 1000)


@pytest.mark.parametrize("n_subsets", [3, 5, 8])
def test_the_vote_lets_in_as_little_noise_as_promised(n_subsets):
    penalty = vote_penalty(n_subsets, 50)
    chosen = np.random.default_rng(0).chisquare(1.0, (n_subsets, 400_000)) > penalty
    expected = 50 * (2 * chosen.sum(axis=0) >= n_subsets).mean()
    assert 0.5 * FALSE_FEATURES < expected < 1.5 * FALSE_FEATURES


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.01, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 5, 25, 400])
def test_the_tail_of_a_binomial_is_scipys(n, share):
    for k in range(0, n + 1, max(1, n // 7)):
        np.testing.assert_allclose(binomial_tail(n, share, k), binom.sf(k - 1, n, share), rtol=1e-10, atol=1e-300)
