"""How often MESSAGE decodes the tiles of a store: counted in the reader, and held against the plan."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.selectors.message.choices import SelectionSettings
from daskfs.selectors.message.plan import Spread, Subsets, cut_into_tasks, decoded_nbytes
from daskfs.selectors.message.selector import Message
from daskfs.selectors.shared.budget import DataShape, Limits
from daskfs.sources.ingest import ingest
from tests.tolerances import FLOAT32, assert_same_answer

N, P = 1200, 20


def limit_of(n, tile_shape, subset_size, n_subsets):
    """Return the limit with which a task takes so many subsets."""
    shape = DataShape(n, P, np.dtype("float32"), tile_shape)
    subsets = Subsets(shape, SelectionSettings(n_subsets=n // subset_size))
    return subsets.select_nbytes(n_subsets) + 8  # a little more than is needed


@pytest.mark.parametrize("per_task", [1, 3, 100])
@pytest.mark.parametrize("subset_size", [50, 100, 150, 170, 400])
@pytest.mark.parametrize("tile_shape", [(200, 7), (100, 20), (64, 20), (1200, 6), (300, 3)])
@pytest.mark.parametrize("part", ["all", "split"])
def test_the_plan_tells_what_is_decoded(tmp_path, problem, decoded, tile_shape, subset_size, per_task, part):
    X, y = problem
    store = ingest(X.astype(np.float32), tmp_path / "m.zarr", y=y, tile_shape=tile_shape)
    matrix = store if part == "all" else store.split(0.3)[0]
    n = matrix.shape[0]
    selector = Message(subset_size=subset_size, memory_limit=limit_of(n, tile_shape, subset_size, per_task))
    plan = selector.plan(n, P, "float32", selector.memory_limit, tile_shape=tile_shape, n_stored=N)
    decoded.clear()
    found = selector.fit(matrix)
    assert found.n_cached_ == found.n_subsets_, "nothing but the first pass"
    nbytes = len(decoded) * tile_shape[0] * tile_shape[1] * 4
    if part == "all":
        assert nbytes == plan.read_nbytes
    else:  # where the rows lie is not known before
        assert nbytes == pytest.approx(plan.read_nbytes, abs=plan.n_tasks * tile_shape[0] * P * 4)
    n_tiles = store.tiles.grid_shape[0] * store.tiles.grid_shape[1]
    assert len(decoded) <= n_tiles + (plan.n_tasks - 1) * store.tiles.grid_shape[1]
    if per_task == 100:
        assert len(decoded) == n_tiles
    assert_same_answer(found, Message(subset_size=subset_size).fit(matrix), FLOAT32)


def test_subsets_of_half_a_tile_are_read_once():
    subsets = Subsets(DataShape(8192, 8192, np.dtype("float32"), (2048, 512)), SelectionSettings(n_subsets=8))
    limits = Limits(subsets.select_nbytes(3))
    assert cut_into_tasks(subsets, slice(0, 8192), np.arange(8), subsets.select_nbytes, limits) == [
        (0, 2),
        (2, 4),
        (4, 6),
        (6, 8),
    ]


def test_subsets_wanted_are_cut_where_others_stand_between():
    subsets = Subsets(DataShape(1000, 5, np.dtype("float32"), (200, 5)), SelectionSettings(n_subsets=10))
    wanted = np.array([0, 1, 2, 5, 6, 9])
    limits = Limits(subsets.select_nbytes(2))
    tasks = cut_into_tasks(subsets, slice(0, 1000), wanted, subsets.select_nbytes, limits)
    assert tasks == [(0, 2), (2, 3), (5, 7), (9, 10)]


def test_many_subsets_are_as_many_tasks_as_keep_workers_busy_to_the_end():
    subsets = Subsets(
        DataShape(4_000_000, 100, np.dtype("float32"), (10_048, 100)), SelectionSettings(n_subsets=10_000)
    )
    for n_threads in (1, 2, 4):
        tasks = cut_into_tasks(
            subsets, slice(0, 4_000_000), np.arange(10_000), subsets.select_nbytes, Limits(None, n_threads)
        )
        assert max(last - first for first, last in tasks) * 160_000 <= 128 << 20
        assert 12 <= len(tasks) <= 20


@pytest.mark.parametrize("seed", range(20))
def test_what_rows_spread_over_a_store_make_tasks_decode_is_counted_without_them(seed):
    rng = np.random.default_rng(seed)
    n_samples = int(rng.integers(50, 3000))
    n_stored = n_samples + int(rng.integers(0, 2 * n_samples))
    shape = DataShape(n_samples, 17, np.dtype("float32"), (int(rng.integers(4, 300)), 5))
    subsets = Subsets(shape, SelectionSettings(n_subsets=int(rng.integers(1, 12))))
    starts, tasks = subsets.starts, [(k, k + 1) for k in range(subsets.n_subsets)]
    rows = np.arange(n_samples) * n_stored // n_samples
    n_tiles = sum(len(np.unique(rows[starts[a] : starts[b]] // subsets.tile_rows)) for a, b in tasks)
    expected = n_tiles * subsets.tile_rows * 4 * 5 * 4  # four tiles hold 17 columns
    assert decoded_nbytes(subsets, Spread(n_samples, n_stored), tasks) == expected
