"""What was written by a released format stays readable: same values, same names, same digest.

store_v1.zarr was written once, by

    frame = pandas.DataFrame({"a": [1.5, -2.0, 3.25, 0.0], "größe": [0, 1, 2, 1], "y": [1.0, 2.0, 3.0, 4.0]})
    ingest(frame, "tests/golden/store_v1.zarr", target="y", random_state=3, tile_shape=(2, 1))

and is never written again; a new format gets a store of its own beside it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from daskfs.store.feature_store import open_store

STORE = Path(__file__).parent / "store_v1.zarr"


def test_a_store_of_format_1_stays_readable():
    store = open_store(STORE)
    assert store.header.format_version == 1
    assert list(store.feature_names) == ["a", "größe"]
    assert store.target_names == ("y",)
    order = np.argsort(np.random.default_rng(3).random(4), kind="stable")
    assert np.array_equal(store.source_rows, order)
    X = np.array([[1.5, 0], [-2.0, 1], [3.25, 2], [0.0, 1]], dtype=np.float32)
    assert np.array_equal(store.read(slice(None)), X[order])
    assert np.array_equal(store.target, np.arange(1.0, 5.0)[order])
    assert np.allclose(store.mean, X.mean(axis=0))
    assert store.verify() == []
