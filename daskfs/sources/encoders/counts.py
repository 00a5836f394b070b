"""Categories as the number of rows of their level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from daskfs.sources.encoders.base import ColumnFacts, Encoder, levels_of, refuse_missing
from daskfs.sources.encoders.sql import as_text_if_numbers, quoted, text_of
from daskfs.sources.table_schema import ColumnSchema


@dataclass
class CountEncoder(Encoder):
    """A category as its level's number of rows in the fit, whatever the number of levels; ignores the target.

    Attributes
    ----------
    counts : dict of str to int
        Rows of each level; unknown levels count 0.
    n_missing : int
        Rows without a value, if missing values form a level.
    missing : {"error", "zero", "category", "drop"}
    """

    counts: dict[str, int]
    n_missing: int = 0
    missing: str = "error"

    kind: ClassVar[str] = "counts"
    missing_as_zero: ClassVar[Mapping[str, Any]] = {"missing": "zero"}

    @classmethod
    def learnt(cls, name: str, column: ColumnSchema, facts: ColumnFacts, notes: list[str]) -> Self:
        """Return the encoder of a column."""
        policy = column.missing if isinstance(column.missing, str) else "error"
        return cls(name, dict(facts.counts), facts.n_missing if policy == "category" else 0, policy)

    @property
    def feature_names(self) -> list[str]:
        """name.count."""
        return [f"{self.name}.count"]

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write the number of rows."""
        texts, level_of_row = levels_of(values)
        refuse_missing(self.name, self.missing, level_of_row)
        levels = texts.to_pylist()
        found = [self.counts.get(text, 0) for text in levels]
        if unseen := {k: text for k, text in enumerate(levels) if text is not None and text not in self.counts}:
            rows = np.bincount(level_of_row[level_of_row >= 0], minlength=len(levels))
            counted = {text: int(rows[k]) for k, text in unseen.items() if rows[k]}
            self.count_unseen(sum(counted.values()), counted)
        out[:, 0] = np.array([*found, self.n_missing], dtype=np.float64)[level_of_row]  # -1 is the last

    @property
    def _of_missing(self) -> int | None:
        return self.n_missing if self.missing in ("zero", "category") else None

    def sql(self, place: int, dialect: str) -> str:
        """Return the number of training rows with a row's level."""
        column = quoted(self.name)
        text = as_text_if_numbers(column, self.counts)
        missing = f"WHEN {column} IS NULL THEN {'NULL' if self._of_missing is None else self._of_missing} "
        known = " ".join(f"WHEN {text} = {text_of(level)} THEN {count}" for level, count in self.counts.items())
        return f"CASE {missing}{known} ELSE 0 END"

    def python(self, place: int) -> str:
        """Return the number of training rows with a row's level."""
        missing = "np.nan" if self._of_missing is None else repr(self._of_missing)
        return f"counts(text(frame[{self.name!r}]), {self.counts!r}, {missing})"
