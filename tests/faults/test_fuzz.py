"""Whatever is written into a pipeline, a schema, a table or a command line is read, or refused in words."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.fuzz import BAD, KINDS, campaign


def bad(outcomes):
    return [outcome for outcome in outcomes if outcome.verdict in BAD]


@pytest.mark.nightly
def test_some_mutations_of_each_kind_are_read_or_refused_in_words():
    outcomes = campaign(seed=0, n=120)
    assert bad(outcomes) == []
    assert {outcome.kind for outcome in outcomes} == set(KINDS)
    assert Counter(outcome.verdict for outcome in outcomes)["named"] > 30


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 5))
def test_thousands_of_mutations_are_read_or_refused_in_words(seed):
    outcomes = campaign(seed=seed, n=2000)
    assert bad(outcomes) == []
    counts = Counter((outcome.kind, outcome.verdict) for outcome in outcomes)
    for kind in KINDS:
        assert counts[kind, "named"] > 20
