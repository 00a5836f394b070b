"""Tiles larger than the usual 4 MiB are in the promise, decoded and encoded."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

import daskfs
from daskfs.selectors.shared.budget import BLOCK_NBYTES
from daskfs.store import tile_reader

SHAPE = (24_576, 256)  # one tile of 24 MiB

METHODS = [
    daskfs.FGM(4, debias=False, loss="squared"),
    daskfs.Message(n_subsets=24, loss="squared"),
    daskfs.OnlineSubstitution(4, n_epochs=1, loss="squared", engine="gram"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    path = tmp_path_factory.mktemp("large") / "s.zarr"
    return daskfs.ingest(X, path, y=X[:, :4].sum(axis=1), codec="lz4", tile_shape=SHAPE)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda one: one.method)
def test_large_tiles_are_in_the_promise(store, method, monkeypatch):
    method.fit(store.take(np.arange(2000)))  # compiles
    monkeypatch.setattr(tile_reader, "_buffers", threading.local())
    plan = method.plan(*SHAPE, "float32", None, tile_shape=SHAPE, n_stored=SHAPE[0], has_statistics=True)
    tracemalloc.start()
    try:
        method.fit(store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    terms = {**plan.client.terms, **plan.task.terms}  # online substitution reads in the client
    assert terms["tiles"] == 2 * 4 * SHAPE[0] * SHAPE[1] + BLOCK_NBYTES
    assert peak <= plan.task_nbytes + plan.client_nbytes
