from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.matrix.blocks import RowBlock
from daskfs.store.feature_store import open_store
from daskfs.store.tile_reader import TileReader
from daskfs.store.writer import StoreWriter

N_SAMPLES, N_FEATURES = 61, 37

LAYOUTS = {
    "raw": {"codec": "raw", "tile_shape": (16, 8)},
    "lz4": {"codec": "lz4", "tile_shape": (16, 8)},
    "sharded": {"codec": "raw", "tile_shape": (8, 8), "max_files": 2, "shard_nbytes": 2048},
    "one tile": {"codec": "raw"},
    "row tiles": {"codec": "lz4", "tile_shape": (5, 37)},
}


def selections(length):
    bound = st.one_of(st.none(), st.integers(-length - 3, length + 3))
    slices = st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, 3, -1]))
    numbers = st.lists(st.integers(0, length - 1), max_size=2 * length).map(lambda found: np.array(found, np.int64))
    masks = st.lists(st.booleans(), min_size=length, max_size=length).map(np.array)
    return st.one_of(slices, numbers, numbers.map(np.sort), masks)


@pytest.fixture(scope="module", params=LAYOUTS)
def stored(request, tmp_path_factory):
    X = np.random.default_rng(0).integers(-50, 50, (N_SAMPLES, N_FEATURES)).astype(np.float32)
    path = tmp_path_factory.mktemp("property") / "store.zarr"
    with StoreWriter(path, N_FEATURES, "float32", shuffle=False, source={}, **LAYOUTS[request.param]) as writer:
        writer.write(RowBlock(0, N_SAMPLES, X))
    return X, open_store(path)


@given(rows=selections(N_SAMPLES), columns=selections(N_FEATURES), into=st.booleans())
def test_reading_is_indexing(monkeypatch, stored, rows, columns, into):
    monkeypatch.setattr("daskfs.store.tile_reader.STRIP_NBYTES", 100)  # several strips in these small tiles
    X, store = stored
    expected = X[rows][:, columns]
    out = np.full((expected.shape[1], expected.shape[0]), np.nan, np.float32).T if into else None  # Fortran order
    found = store.read(rows, columns, out)
    np.testing.assert_array_equal(found, expected)
    assert found is out if into else found.flags.c_contiguous


@pytest.mark.slow
@given(rows=selections(N_SAMPLES), columns=st.tuples(st.integers(0, N_FEATURES), st.integers(0, N_FEATURES)))
def test_strips_are_the_block_each_tile_decoded_once(monkeypatch, stored, rows, columns):
    monkeypatch.setattr("daskfs.store.tile_reader.STRIP_NBYTES", 100)
    decoded, strips = [], TileReader._strips
    monkeypatch.setattr(TileReader, "_strips", lambda *tile: decoded.append(tile[1:3]) or strips(*tile))
    X, store = stored
    part = slice(min(columns), max(columns))
    expected = X[rows][:, part]
    passing = store.strips(rows, part)
    numbers = np.arange(N_SAMPLES)[rows]
    assert (passing is None) == bool((np.diff(numbers) < 0).any())
    if passing is None:
        return
    found = np.full(expected.shape, np.nan, np.float32)
    for strip in passing:
        values = strip.values if strip.lines is None else strip.values[strip.lines]
        found[strip.first : strip.first + strip.n_rows, strip.columns] = values
    np.testing.assert_array_equal(found, expected)
    tiles = (
        np.unique(k // size).tolist() for k, size in zip((numbers, np.arange(37)[part]), store.tile_shape, strict=True)
    )
    assert sorted(decoded) == list(itertools.product(*tiles))


@pytest.mark.parametrize("order", [[0, 0, 0], [2, 1, 0], [0, 2, 2]])
def test_as_many_columns_as_a_tile_has_may_come_in_any_order(tmp_path, order):
    """They are not the tile: it was once copied whole where they fill as many places."""
    X = np.arange(5 * 7, dtype=np.float32).reshape(5, 7)
    with StoreWriter(tmp_path / "a.zarr", 7, "float32", shuffle=False, source={}, tile_shape=(5, 3)) as writer:
        writer.write(RowBlock(0, 5, X))
    store = open_store(tmp_path / "a.zarr")
    np.testing.assert_array_equal(store.read(slice(None), np.array(order)), X[:, order])
    np.testing.assert_array_equal(store.read(np.array([4, 3, 2, 1, 0]), slice(0, 3)), X[::-1, :3])
