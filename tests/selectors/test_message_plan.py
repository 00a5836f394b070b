"""Subsets and tasks: integers in, integers out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.errors import PlanError
from daskfs.selectors.message.choices import SelectionSettings
from daskfs.selectors.message.plan import Subsets, choose_n_subsets, plan_message, subset_starts, subsets_per_task
from daskfs.selectors.message.selector import Message
from daskfs.selectors.shared.budget import DataShape, Limits


def subsets_of(n_samples: int, n_features: int, itemsize: int, n_subsets: int) -> Subsets:
    dtype = np.dtype({1: "int8", 4: "float32", 8: "float64"}[itemsize])
    return Subsets(DataShape(n_samples, n_features, dtype), SelectionSettings(n_subsets=n_subsets))


@pytest.mark.parametrize(
    ("n_samples", "n_features", "expected"),
    [
        (100, 10, 1),
        (800, 10, 1),
        (1200, 10, 3),
        (10_000, 1000, 5),
        (2_000_000, 74, 19),
        (50_000, 10_000, 25),
        (7_500_000, 1000, 895),
    ],
)
def test_the_default_number_of_subsets_is_odd(n_samples, n_features, expected):
    assert choose_n_subsets(n_samples, n_features, None, None) == expected


def test_a_subset_size_gives_the_number_of_subsets():
    assert choose_n_subsets(1000, 10, None, 300) == 3
    assert choose_n_subsets(200, 10, None, 300) == 1


@pytest.mark.slow
@given(st.integers(2, 10**7), st.integers(1, 500))
def test_subsets_partition_the_rows_evenly(n_samples, n_subsets):
    n_subsets = min(n_subsets, n_samples // 2)
    starts = subset_starts(n_samples, n_subsets).tolist()
    sizes = {stop - start for start, stop in pairwise(starts)}
    assert (starts[0], starts[-1]) == (0, n_samples)
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) == subsets_of(n_samples, 5, 4, n_subsets).n_rows


@pytest.mark.slow
@given(
    st.integers(2, 10**6),
    st.integers(1, 3000),
    st.sampled_from([1, 4, 8]),
    st.integers(1, 300),
    st.integers(2**20, 2**31),
    st.integers(1, 8),
)
def test_a_plan_keeps_its_promise_or_is_refused(n_samples, n_features, itemsize, n_subsets, memory_limit, n_threads):
    subsets = subsets_of(n_samples, n_features, itemsize, min(n_subsets, n_samples // 2))
    try:
        plan = plan_message(subsets, Limits(memory_limit, n_threads))
    except PlanError:
        assert subsets.select_nbytes(1) > memory_limit
        return
    assert plan.task_nbytes <= memory_limit
    assert 1 <= plan.n_tasks <= subsets.n_subsets


def test_all_threads_get_work_when_there_are_subsets_for_them():
    subsets = subsets_of(4000, 100, 4, 10)
    assert subsets_per_task(10, subsets.select_nbytes, Limits(None, 1)) == 10
    assert subsets_per_task(10, subsets.select_nbytes, Limits(None, 4)) == 3
    assert subsets_per_task(10, subsets.select_nbytes, Limits(None, 40)) == 1


def test_tasks_of_a_large_matrix_read_about_128_mib():
    subsets = subsets_of(1_000_000, 1000, 4, 199)
    per_task = subsets_per_task(199, subsets.select_nbytes, Limits(None, 2))
    assert 64 << 20 < per_task * subsets.n_rows * 1000 * 4 <= 128 << 20


def test_the_selectors_plan_is_that_of_its_subsets():
    plan = Message(n_subsets=20).plan(100_000, 500, "float32", 2**30, tile_shape=(2048, 512))
    assert plan.n_passes == 1
    assert plan.read_nbytes >= 100_000 * 500 * 4
    assert "20 subsets of 5,000 rows" in plan.text


def test_one_subset_of_a_biobank_is_planned_within_2_gib_if_products_come_from_codes():
    selector = Message(goal="prediction", max_features=1020, always_include=np.arange(10))
    shape = {"n_samples": 80_077, "n_features": 200_010, "dtype": "float32", "memory_limit": "2GiB"}
    with pytest.raises(PlanError):
        selector.plan(**shape, tile_shape=(80_077, 64))
    planned = selector.plan(**shape, tile_shape=(80_077, 64), has_products=True)
    assert planned.task_nbytes < 2**30
    by_default = Message(goal="prediction").plan(**shape, tile_shape=(80_077, 64), has_products=True)
    assert by_default.task_nbytes == pytest.approx(planned.task_nbytes, rel=0.1), "models are about as large"


@pytest.mark.parametrize("mib", [600, 1024])
def test_models_of_other_losses_over_codes_are_small_enough_to_be_refitted(mib):
    shape = DataShape(80_077, 200_010, np.dtype("float32"), (80_077, 64), has_products=True)
    subsets = Subsets(shape, SelectionSettings(loss="logistic")).screened(Limits(mib << 20))
    most = subsets.most_features(is_screened=True)
    assert 64 < most < 1024
    assert max(subsets.select_nbytes(1), subsets.refit_nbytes(1, most)) <= mib << 20
