"""Where the examination is made: one set of data, its stores, one pair of clusters; and what it observes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from distributed import Client

import daskfs
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.blocks import RowBlock
from daskfs.store.writer import StoreWriter

N_SAMPLES, N_FEATURES = 480, 30
TILES = (128, 8)
OTHER_TILES = ((64, N_FEATURES), (N_SAMPLES, 3), (500, 7))


class Lab:
    """Data of each kind of target, written as stores when first asked for; a client of threads, one of processes."""

    def __init__(self, folder: Path, client: Callable[[str], Client]) -> None:
        self.folder, self.client = folder, client
        rng = np.random.default_rng(11)
        common = rng.standard_normal((N_SAMPLES, 3))
        X = rng.standard_normal((N_SAMPLES, N_FEATURES)) + 0.5 * common @ rng.standard_normal((3, N_FEATURES))
        self.X = np.where(rng.random(X.shape) < 0.6, X, 0.0) * rng.uniform(0.5, 2.0, N_FEATURES)
        self.int8 = rng.integers(-100, 100, (N_SAMPLES, N_FEATURES)).astype(np.int8)
        self.names = [f"gene{j}" for j in range(N_FEATURES)]
        self._noise = rng.standard_normal(N_SAMPLES)
        self._uniform = rng.random(N_SAMPLES)
        self.store = cache(self._store)

    def y(self, case: Any, X: np.ndarray | None = None) -> np.ndarray:
        """Return the target that a case is to be examined with: it follows six columns, with noise."""
        X = self.X if X is None else X
        z = (X[:, [2, 5, 11, 16, 20, 23]] / X.std()) @ [1.0, -0.8, 0.6, 0.5, -0.3, 0.2] + 0.4
        noise, uniform = np.resize(self._noise, len(X)), np.resize(self._uniform, len(X))
        if case.target == "classes":
            return (z + np.log(uniform / (1.0 - uniform)) > 0.4).astype(float)
        if case.target == "counts":
            return np.floor(np.exp(0.4 * z) + uniform)
        return np.digitize(z + noise, [-0.5, 1.2]).astype(float) if case.target == "three classes" else z + noise

    def _store(self, case_target: str, tile_shape: tuple[int, int] = TILES, kind: str = "float64") -> Any:
        case = _Target(case_target)
        X = self.X if kind == "float64" else self.int8.astype(float)
        path = self.folder / f"{case_target}-{tile_shape[0]}-{tile_shape[1]}-{kind}.zarr".replace(" ", "-")
        options = {"dtype": kind.split()[-1], "tile_shape": tile_shape, "random_state": 0, "names": self.names}
        return daskfs.ingest(X, path, y=self.y(case, X), **options)

    def sparse_store(self, target: str) -> Any:
        """Return the rows of `store` as entries."""
        path = self.folder / f"{target.replace(' ', '-')}-sparse.zarr"
        if path.exists():
            return daskfs.open_store(path)
        options = {"dtype": "float64", "random_state": 0, "names": self.names}
        return daskfs.ingest(scipy.sparse.csr_array(self.X), path, y=self.y(_Target(target)), **options)

    def store_with_a_hole(self, case: Any) -> tuple[Any, str, int]:
        """Return a store in which one value is missing, the name of its column and its row in the source."""
        X, column, row = self.X.copy(), 7, 123
        X[row, column] = np.nan
        path = self.folder / f"{case.target.replace(' ', '-')}-with-a-hole.zarr"
        if path.exists():
            return daskfs.open_store(path), self.names[column], row
        with StoreWriter(
            path, N_FEATURES, "float64", feature_names=self.names, target_names=["y"], allow_missing=True,
            tile_shape=TILES, source={"kind": "test"},
        ) as writer:  # fmt: skip
            writer.write(RowBlock(0, N_SAMPLES, X, self.y(case)))
        return daskfs.open_store(path), self.names[column], row

    def tall_store(self, case: Any) -> Any:
        """Return a store of 20 MB, of which a task is to take a part."""
        path = self.folder / f"{case.target.replace(' ', '-')}-tall.zarr"
        if path.exists():
            return daskfs.open_store(path)
        X = np.random.default_rng(5).standard_normal((80_000, 64), dtype=np.float32)
        return daskfs.ingest(X, path, y=self.y(case, X), tile_shape=(4096, 8))


class _Target:
    def __init__(self, target: str) -> None:
        self.target = target


def as_arrays(matrix: Any) -> ArrayMatrix:
    """Return a matrix, read into memory, with its rows as they stand there."""
    return ArrayMatrix(
        matrix.read(slice(None)), matrix.read_target(slice(None)), matrix.read_weight(slice(None)), shuffled=True
    )


def fit_while(selector: Any, matrix: Any, **observers: Any) -> Any:
    """Fit a matrix with somebody who hears of progress, or keeps what an interrupted fit is resumed from."""
    return selector.fit_matrix(matrix, **observers)


def assert_same_bits(found: Any, expected: Any) -> None:
    """Compare all numbers of two fitted selectors."""
    for name in ("selected_", "support_", "coef_", "intercept_", "scores_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    pd.testing.assert_frame_equal(found.result_.history, expected.result_.history, check_exact=True)
    if hasattr(expected, "classes_"):
        np.testing.assert_array_equal(found.classes_, expected.classes_)


class Interrupted(Exception):
    """The process was killed, so to speak."""


class Kept:
    """A checkpoint in memory; after so many saves the process is killed."""

    def __init__(self, killed_after: int | None = None) -> None:
        self.arrays: dict[str, dict[str, np.ndarray]] = {}
        self.n_saved, self.killed_after = 0, killed_after

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """Return copies of what was saved under a name."""
        found = self.arrays.get(name)
        return None if found is None else {key: value.copy() for key, value in found.items()}

    def save(self, name: str, arrays: dict[str, Any]) -> None:
        """Save copies under a name."""
        self.arrays[name] = {key: np.array(value) for key, value in arrays.items()}
        self.n_saved += 1
        if self.n_saved == self.killed_after:
            raise Interrupted


class Heard(list[list[Any]]):
    """Progress that is written down: name, total and what was done, of each step."""

    def start(self, name: str, total: int) -> None:
        """Begin a step."""
        self.append([name, total, 0])

    def advance(self, k: int = 1) -> None:
        """Count."""
        self[-1][2] += k

    def finish(self) -> None:
        """End a step."""
