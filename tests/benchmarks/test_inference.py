"""How often, in the simulation of the job `intervals`, intervals of MESSAGE and of `SplitInference` hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.jobs import confidence
from daskfs import FGM, Message


def test_narrow_selections_are_covered_too():
    _, ratio, covered, of_all = confidence.simulated(confidence.intervals_of_split(Message(n_subsets=5)), "squared", 12)
    assert 0.85 < of_all <= 1.0
    assert confidence.draw("squared", 0).coef[-1] > 0.0
    assert abs(np.nanmean(ratio[1:]) - 1.0) < 0.1
    assert np.nanmin(covered[1:]) > 0.6


@pytest.mark.nightly
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_intervals_cover_as_promised_whatever_the_strength(loss):
    _, _, covered, of_all = confidence.simulated(confidence.intervals_of_split(FGM(5)), loss, 100)
    assert of_all > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 450)
    assert np.nanmin(covered) > 0.95 - 3.5 * np.sqrt(0.95 * 0.05 / 60)


@pytest.mark.nightly
@pytest.mark.parametrize("average", ["one_step", "median"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson", "huber"])
def test_intervals_of_strong_signals_cover_as_promised(loss, average):
    _, ratio, covered, _ = confidence.simulated(confidence.intervals_of_message(average=average), loss, 100)
    strong = confidence.STRENGTHS >= 1.3
    np.testing.assert_allclose(ratio[strong], 1.0, atol=0.06)
    assert covered[strong].mean() > 0.95 - 3 * math.sqrt(0.95 * 0.05 / (100 * strong.sum()))
