"""Tiles whose bits are put together here are those that Blosc puts together."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.kernels.blocks import bit_planes
from daskfs.matrix.blocks import RowBlock
from daskfs.store import tile_reader
from daskfs.store.feature_store import open_store
from daskfs.store.writer import StoreWriter


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
@pytest.mark.parametrize("shape", [(1024, 512), (1000, 300), (2048, 1024), (777, 121)])
def test_tiles_are_the_same_however_they_are_put_together(tmp_path, monkeypatch, dtype, shape):
    X = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    options = {"shuffle": False, "source": {}, "codec": "lz4", "tile_shape": shape}
    with StoreWriter(tmp_path / "a.zarr", shape[1], dtype, **options) as writer:
        writer.write(RowBlock(0, shape[0], X))
    calls, put_together = [], bit_planes.put_together
    monkeypatch.setattr(bit_planes, "put_together", lambda *those: calls.append(those[2]) or put_together(*those))
    store = open_store(tmp_path / "a.zarr")
    np.testing.assert_array_equal(store.read(slice(None)), X)
    in_eights = np.prod(shape) % 8 == 0
    assert bool(calls) == (bit_planes.CAN_TURN and in_eights)
    calls.clear()
    monkeypatch.setattr(tile_reader, "LEAST_IN_PLANES", 2**40)
    np.testing.assert_array_equal(store.read(slice(None)), X)
    assert not calls
