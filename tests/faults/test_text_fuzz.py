"""Whatever bytes a text table has, our own kernel reads of it what Arrow reads, and nothing that is not its own."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.text_fuzz import GOOD, campaign


def examine(outcomes, n):
    assert [outcome for outcome in outcomes if outcome.verdict not in GOOD] == []
    counts = Counter(outcome.verdict for outcome in outcomes)
    assert min(counts[verdict] for verdict in GOOD) > n / 4
    assert sum(outcome.n_read > 0 for outcome in outcomes) > n / 3


@pytest.mark.slow
def test_some_odd_texts_are_read_as_by_arrow():
    examine(campaign(seed=0, n=500), 500)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 4))
def test_thousands_of_odd_texts_are_read_as_by_arrow(seed):
    examine(campaign(seed=seed, n=7000), 7000)
