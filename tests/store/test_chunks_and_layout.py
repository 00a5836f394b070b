from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.store.layout import choose_layout, cuts, n_files, normalise, store_nbytes


@pytest.mark.slow
@given(st.lists(st.integers(0, 49), max_size=80), st.integers(1, 60))
def test_cuts_put_every_number_where_it_belongs(numbers, tile):
    selection = normalise(np.array(numbers, dtype=np.int64), 50)
    values = np.arange(50)
    found = np.full(len(numbers), -1)
    for cut in cuts(selection, tile):
        found[cut.outside] = values[cut.tile * tile : (cut.tile + 1) * tile][cut.inside]
    assert found.tolist() == numbers


def test_each_tile_is_visited_once():
    tiles = [cut.tile for cut in cuts(np.array([9, 0, 5, 9, 1, 4]), 4)]
    assert tiles == [0, 1, 2]


def test_numbers_in_order_are_cut_for_one_more_of_each():
    """Rows to train on are in order: a worker holds their numbers, and the places in the tiles."""
    numbers = np.flatnonzero(np.random.default_rng(0).random(1_000_000) < 0.8)
    tracemalloc.start()
    try:
        found = cuts(numbers, 10_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(found) == 100
    assert peak <= 8 * len(numbers) + 2 * len(numbers)


@pytest.mark.parametrize("numbers", [[-1], [50], [0, 50], [-3, 2]])
def test_numbers_outside_are_refused(numbers):
    with pytest.raises(IndexError, match=r"expected numbers in \[0, 50\)"):
        normalise(np.array(numbers), 50)


def test_masks_of_another_length_and_text_are_refused():
    with pytest.raises(IndexError, match="mask of length 5"):
        normalise(np.ones(4, bool), 5)
    with pytest.raises(TypeError, match="expected integers"):
        normalise(np.array([0.5]), 5)
    with pytest.raises(IndexError, match="2 dimensions"):
        normalise(np.zeros((1, 1), int), 5)


@pytest.mark.parametrize(
    ("dtype", "tile"), [("float32", (2048, 512)), ("float64", (1024, 512)), ("int8", (2048, 2048))]
)
def test_tiles_of_a_large_matrix_take_four_mebibytes(dtype, tile):
    assert choose_layout(2**20, 2**12, dtype).tile_shape == tile


@given(st.integers(0, 10**7), st.integers(0, 10**6), st.sampled_from(["int8", "float32", "float64"]))
def test_a_layout_keeps_its_promises(n_samples, n_features, dtype):
    layout = choose_layout(n_samples, n_features, dtype)
    itemsize = np.dtype(dtype).itemsize
    rows, columns = layout.tile_shape
    assert 1 <= rows <= max(1, n_samples)
    assert 1 <= columns <= max(1, n_features)
    assert rows * columns * itemsize <= 2 * 4 * 2**20
    assert layout.file_shape[0] * n_features * itemsize <= 256 * 2**20
    if layout.shard_shape is not None:
        assert layout.shard_shape[0] % rows == 0
        assert layout.shard_shape[1] % columns == 0
        assert layout.shard_shape[0] * layout.shard_shape[1] * itemsize <= 256 * 2**20
    matrix_nbytes = n_samples * n_features * itemsize
    assert store_nbytes(n_samples, n_features, dtype, layout) >= matrix_nbytes


def test_shards_keep_the_number_of_files_down():
    layout = choose_layout(1_000_000, 100_000, "float32")
    assert layout.shard_shape is not None
    assert n_files(1_000_000, 100_000, layout) <= 10_000
    nbytes = layout.shard_shape[0] * layout.shard_shape[1] * 4
    assert 64 * 2**20 <= nbytes <= 256 * 2**20
