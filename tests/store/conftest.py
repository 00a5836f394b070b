from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskfs.matrix.blocks import RowBlock
from daskfs.store.feature_store import FeatureStore, open_store
from daskfs.store.writer import StoreWriter


def write_rows(
    writer: StoreWriter, X: Any, y: Any = None, weight: Any = None, *, batch: int = 100, **labels: Any
) -> None:
    for start in range(0, X.shape[0], batch):
        part = slice(start, start + batch)
        block = RowBlock(
            start,
            min(start + batch, X.shape[0]),
            X[part],
            None if y is None else y[part],
            None if weight is None else weight[part],
        )
        writer.write(block, {name: values[part] for name, values in labels.items()})


@pytest.fixture
def make_store(tmp_path: Path) -> Callable[..., FeatureStore]:
    """Write a matrix as a store: make_store(X, y, dtype=..., batch=..., options of the writer)."""
    count = iter(range(1000))

    def make(
        X: Any,
        y: Any = None,
        weight: Any = None,
        *,
        batch: int = 100,
        labels: dict[str, Any] | None = None,
        **options: Any,
    ) -> FeatureStore:
        path = tmp_path / f"store{next(count)}.zarr"
        options.setdefault("dtype", X.dtype)
        options.setdefault("source", {"digest": "abc"})
        labels = labels or {}
        if y is not None:
            n_targets = 1 if y.ndim == 1 else y.shape[1]
            options.setdefault("target_names", [f"y{k}" for k in range(n_targets)])
        with StoreWriter(
            path, X.shape[1], has_weight=weight is not None, label_names=list(labels), **options
        ) as writer:
            write_rows(writer, X, y, weight, batch=batch, **labels)
        return open_store(path)

    return make


@pytest.fixture
def matrix() -> np.ndarray:
    """300 x 70, float32."""
    return np.random.default_rng(0).standard_normal((300, 70)).astype(np.float32)
