"""Whatever bytes a sparse text has, it is read as a slow reader in plain Python does, or refused at its line."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.sparse_fuzz import FORMATS, GOOD, campaign


def examine(outcomes, n):
    assert [outcome for outcome in outcomes if outcome.verdict not in GOOD] == []
    counts = Counter(outcome.verdict for outcome in outcomes)
    assert counts["read"] > n / 5
    assert counts["refused"] > n / 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_some_odd_texts_are_read_right_or_refused_at_their_line(kind):
    examine(campaign(kind, seed=0, n=1000), 1000)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("seed", range(1, 4))
def test_many_odd_texts_are_read_right_or_refused_at_their_line(kind, seed):
    examine(campaign(kind, seed, 15_000), 15_000)
