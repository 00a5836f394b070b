"""A small linear problem with a known answer."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.store.tile_reader import TileReader

TRUE_FEATURES = [2, 5, 11]


def make_problem(n_samples=1200, n_features=20, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)).astype(dtype)
    y = 3.0 + X[:, TRUE_FEATURES].astype(float) @ [1.5, -1.0, 0.5] + rng.standard_normal(n_samples)
    return X, y


@pytest.fixture(scope="session")
def problem():
    return make_problem()


@pytest.fixture
def decoded(monkeypatch):
    """The tiles of X that a reader decodes."""
    tiles, strips = [], TileReader._strips

    def counted(self, i, j, tile):
        if self.name == "X":
            tiles.append((i, j))
        return strips(self, i, j, tile)

    monkeypatch.setattr(TileReader, "_strips", counted)
    return tiles
