"""Categories as dummies of the hashes of their levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from daskfs.sources.encoders.base import MISSING, ColumnFacts, Encoder, levels_of, refuse_missing, write_dummies
from daskfs.sources.table_schema import ColumnSchema, HashedEncoding


@dataclass
class HashedEncoder(Encoder):
    """A category as dummies shared by levels with the same hash; works for any number of levels, stores none of them.

    Attributes
    ----------
    n_columns : int
    missing : {"error", "zero", "category", "drop"}
        With "category", missing values form the level "missing".
    """

    n_columns: int
    missing: str = "error"

    kind: ClassVar[str] = "hashed"
    missing_as_zero: ClassVar[Mapping[str, Any]] = {"missing": "zero"}

    @classmethod
    def learnt(cls, name: str, column: ColumnSchema, facts: ColumnFacts, notes: list[str]) -> Self:
        """Return the encoder of a column."""
        assert isinstance(column.encoding, HashedEncoding)
        return cls(name, column.encoding.hashed, column.missing if isinstance(column.missing, str) else "error")

    @property
    def feature_names(self) -> list[str]:
        """name#0, name#1, ..."""
        return [f"{self.name}#{k}" for k in range(self.n_columns)]

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write one column per hash: ``xxh64(level, seed=xxh64(column, seed=0)) % 2**63 % n_columns``."""
        from daskfs.sources.levels import bytes_of, ids_of, seed_of  # loads numba, which the other encoders do not need

        texts, level_of_row = levels_of(values)
        refuse_missing(self.name, self.missing, level_of_row)
        known = pa.array([*texts.to_pylist(), MISSING], pa.large_string())
        hashes = (ids_of(*bytes_of(known), seed_of(self.name)) % np.uint64(self.n_columns)).astype(np.int64)
        if self.missing != "category":
            hashes[-1] = -1
        write_dummies(hashes[level_of_row], out, False)

    def sql(self, place: int, dialect: str) -> None:
        """Return None: databases have no such hash."""

    def python(self, place: int) -> None:
        """Return None: the hash is that of daskfs."""
