"""Nogueira's index: the formulas on a binary matrix, its chance level, its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from daskfs.errors import ConfigError
from daskfs.model_selection.stability_index import stability_index
from tests.refusals import refused


def literal(Z):
    """Definition 4 and theorem 7 of the paper, as they stand."""
    m, d = Z.shape
    p, k = Z.mean(axis=0), Z.sum(axis=1)
    k_mean = k.mean()
    chance = k_mean / d * (1 - k_mean / d)
    index = 1 - np.mean(m / (m - 1) * p * (1 - p)) / chance
    phi = [
        (np.mean(Z[i] * p) - k[i] * k_mean / d**2
         + index / 2 * (2 * k_mean * k[i] / d**2 - k[i] / d - k_mean / d + 1)) / chance
        for i in range(m)
    ]  # fmt: skip
    return index, 4 / m**2 * np.sum((phi - np.mean(phi)) ** 2)


def test_index_and_variance_are_those_of_the_paper():
    rng = np.random.default_rng(0)
    for share in (0.05, 0.5):
        Z = (rng.random((40, 30)) < share + 0.4 * (np.arange(30) < 4)).astype(float)
        found = stability_index([np.flatnonzero(row) for row in Z], 30)
        index, variance = literal(Z)
        assert found.value == pytest.approx(index, rel=1e-12)
        assert found.standard_error == pytest.approx(math.sqrt(variance), rel=1e-9)
        assert found.high - found.value == pytest.approx(1.959964 * found.standard_error, rel=1e-6)


def test_equal_selections_have_one_and_random_ones_zero():
    assert stability_index([[1, 4]] * 5, 10)[:2] == (1.0, 0.0)
    rng = np.random.default_rng(1)
    found = [stability_index([rng.choice(50, 10, replace=False) for _ in range(10)], 50).value for _ in range(200)]
    assert abs(np.mean(found)) < 4 * np.std(found) / math.sqrt(200)


def test_sizes_and_order_of_the_features_do_not_matter():
    sets = [[0, 3], [3, 1, 5], [], [3, 0]]
    rename = np.random.default_rng(2).permutation(7)
    assert stability_index(sets, 7) == pytest.approx(stability_index([rename[one] for one in sets], 7))


@pytest.mark.slow
def test_the_interval_covers_the_index_of_the_population():
    """Each feature selected by itself with a probability of its own: sets are independent, 100 of them."""
    rng, p = np.random.default_rng(3), np.r_[np.full(5, 0.8), np.full(25, 0.1)]
    mean = p.mean()
    truth = 1 - np.mean(p * (1 - p)) / (mean * (1 - mean))
    covered = 0
    for _ in range(300):
        found = stability_index([np.flatnonzero(rng.random(30) < p) for _ in range(100)], 30)
        covered += found.low <= truth <= found.high
    assert covered / 300 > 0.91  # 0.95 - 3 standard errors


def test_what_says_nothing_is_nan_and_one_selection_is_refused():
    assert math.isnan(stability_index([[], []], 4).value)
    with refused(ConfigError, "parameters", at="selections", naming=["1"]):
        stability_index([[1]], 4)
