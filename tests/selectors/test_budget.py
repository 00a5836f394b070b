"""Plans: named terms, and limits that are kept to by plan and fit, for every method."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfs.errors import PlanError
from daskfs.methods import METHODS, find_method
from daskfs.selectors.shared.budget import Budget
from tests.refusals import refused


def test_a_budget_adds_up_and_names_its_largest_term():
    budget = Budget().add("rows", 30).add("votes", 5).add("rows", 10)
    budget.add_largest(a_step=7, another_step=9)
    assert budget.terms == {"rows": 40, "votes": 5, "another step": 9}
    assert budget.nbytes == 54
    assert budget.largest == ("rows", 40)
    assert (budget.times(2) + Budget({"tiles": 1})).nbytes == 109
    assert budget.nbytes == 54


def test_a_refusal_says_what_takes_most_and_what_would_do_and_travels_with_it():
    budget = Budget().add("rows", 3000).add("votes", 5)
    budget.refuse_over(3005, "it takes")
    with refused(PlanError, "memory-limit", at="memory_limit", naming=["3,005", "10", "3,000"]) as caught:
        budget.refuse_over(10, "it takes", "ask less")
    fault = pickle.loads(pickle.dumps(caught.value))
    assert (fault.needed_nbytes, fault.alternative, str(fault)) == (3005, "ask less", str(caught.value))


@pytest.mark.parametrize("method", sorted(METHODS))
@settings(max_examples=settings.default.max_examples // 4)  # there are many methods
@given(
    n_samples=st.integers(100, 300_000),
    n_features=st.integers(250, 5_000),
    limits=st.lists(st.integers(10_000, 2**33), min_size=2, max_size=6),
)
def test_a_larger_limit_never_refuses_what_a_smaller_one_takes_and_the_limit_a_refusal_names_is_taken(
    method, n_samples, n_features, limits
):
    shape, is_taken = (n_samples, n_features), False
    for limit in sorted(limits):
        needed = needed_at(method, shape, limit)
        assert not (is_taken and needed), f"{limit:,} bytes are refused, and less was taken"
        is_taken = not needed
        assert needed is None or (needed > limit and needed_at(method, shape, needed) is None)


def test_a_plan_takes_a_limit_as_a_fit_does():
    plan = find_method("fgm")(5).plan(10_000, 500, "float32", "64MiB")
    assert plan.task_nbytes == find_method("fgm")(5).plan(10_000, 500, "float32", 64 << 20).task_nbytes


def needed_at(method, shape, limit):
    """What a refusal says is needed; None where the limit is taken, and kept to."""
    try:
        selector = find_method(method)()
        plan = selector.plan(*shape, "float32", limit, n_threads=shape[0] % 3 + 1, tile_shape=(512, 64))
    except PlanError as fault:
        return fault.needed_nbytes
    assert plan.task_nbytes <= limit
    return None
