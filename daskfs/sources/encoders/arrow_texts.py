"""Levels of a column as Arrow has them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def levels_of(values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct texts of a column, and the index of each row's text, int64; -1 if missing."""
    values = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    texts, rows = pc.cast(values.dictionary, pa.string()), or_minus_one(values.indices)
    if texts.null_count:
        rows[(rows >= 0) & pc.is_null(texts).to_numpy(zero_copy_only=False)[rows]] = -1
    return texts, rows


def or_minus_one(indices: pa.Array) -> np.ndarray:
    """Return indices as int64, -1 where they are missing."""
    filled = pc.fill_null(pc.cast(indices, pa.int64()), -1)  # polars uses unsigned indices
    return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.int64)
