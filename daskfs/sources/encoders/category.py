"""Categories as dummies."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.errors import SchemaError
from daskfs.sources.encoders.base import (
    MISSING,
    OTHER,
    BadValue,
    ColumnFacts,
    Encoder,
    levels_of,
    or_minus_one,
    refuse_missing,
    shown,
    write_dummies,
)
from daskfs.sources.encoders.sql import as_text_if_numbers, listed, quoted, text_of
from daskfs.sources.table_schema import ColumnSchema

MAX_CATEGORIES = 1000
"""Maximum number of dummies of a column, unless the schema sets another."""
BOOLEANS = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("1", "0"))
"""Spellings of true and false, as programs write them."""
_NAMED_IN_A_NOTE = 10


def name_beside(word: str, categories: Sequence[str]) -> str:
    """Return a name for an added level that differs from the existing categories.

    Examples
    --------
    >>> name_beside("other", ["a", "b"]), name_beside("other", ["a", "other"])
    ('other', '(other)')
    """
    while word in categories:
        word = f"({word})"
    return word


@dataclass
class CategoryEncoder(Encoder):
    """A category as dummies.

    Attributes
    ----------
    categories : sequence of str
        Those with their own dummy.
    pooled : frozenset of str
        Rare categories, which share the dummy "other", or "(other)" if a category is called "other".
    unseen : {"error", "zero", "other"}
        Encoding of any other text.
    missing : {"error", "zero", "category", "drop"}
    drop_first : bool
    """

    categories: Sequence[str]
    pooled: Collection[str] = frozenset()
    unseen: str = "error"
    missing: str = "error"
    drop_first: bool = False

    kind: ClassVar[str] = "category"
    missing_as_zero: ClassVar[Mapping[str, Any]] = {"missing": "zero"}

    @classmethod
    def learnt(cls, name: str, column: ColumnSchema, facts: ColumnFacts, notes: list[str]) -> Self:
        """Return the encoder of a column: the schema's categories, or those found that are frequent enough."""
        if column.categories is not None:
            categories, pooled = list(column.categories), frozenset[str]()
        else:
            categories, pooled = _choose_categories(name, column, facts.counts, notes)
        missing = column.missing if isinstance(column.missing, str) else "error"
        return cls(name, categories, pooled, column.unseen, missing, column.drop_first)

    @classmethod
    def fault_of(cls, value: str, column: ColumnSchema) -> tuple[str, str] | None:
        """Return the problem and the remedy of a category that is not listed, if others are an error."""
        is_known = column.categories is None or column.unseen != "error" or value in column.categories
        return None if is_known or column.categories is None else _unknown(value, column.categories)

    def __post_init__(self) -> None:
        self.pooled = frozenset(self.pooled)
        self.levels = list(self.categories)
        self._other = self._missing = -1
        if self.pooled or self.unseen == "other":
            self._other = len(self.levels)
            self.levels.append(name_beside(OTHER, self.categories))
        if self.missing == "category":
            self._missing = len(self.levels)
            self.levels.append(name_beside(MISSING, self.categories))
        self._value_set = pa.array(self.categories, pa.string())
        self._pooled_set = pa.array(sorted(self.pooled), pa.string())

    @property
    def feature_names(self) -> list[str]:
        """name=category for every dummy."""
        return [f"{self.name}={level}" for level in self.levels[self.drop_first :]]

    def codes(self, values: pa.Array) -> np.ndarray:
        """Return the level of each row, int64; -1 if all dummies are zero."""
        texts, indices = levels_of(values)
        level_of_text = or_minus_one(pc.index_in(texts, value_set=self._value_set))
        if self.pooled:
            pooled = pc.is_in(texts, value_set=self._pooled_set).to_numpy(zero_copy_only=False)
            level_of_text[pooled & (level_of_text < 0)] = self._other
        null = indices < 0
        codes = np.full(len(values), -1, dtype=np.int64)
        codes[~null] = level_of_text[indices[~null]]
        self._settle_unseen(codes, ~null & (codes < 0), texts, indices)
        refuse_missing(self.name, self.missing, np.where(null, -1, 0))
        codes[null] = self._missing
        return codes

    def _settle_unseen(self, codes: np.ndarray, unseen: np.ndarray, texts: pa.Array, indices: np.ndarray) -> None:
        n_unseen = int(unseen.sum())
        if n_unseen and self.unseen == "error":
            row = int(np.flatnonzero(unseen)[0])
            raise BadValue(self.name, row, *_unknown(texts[int(indices[row])].as_py(), self.categories))
        codes[unseen] = self._other if self.unseen == "other" else -1
        if n_unseen:
            places, counts = np.unique(indices[unseen], return_counts=True)
            rows = zip(texts.take(pa.array(places)).to_pylist(), counts.tolist(), strict=True)
            self.count_unseen(n_unseen, dict(rows))

    def encode(self, values: pa.Array, out: np.ndarray) -> None:
        """Write one column per dummy."""
        write_dummies(self.codes(values), out, self.drop_first)

    @property
    def classes(self) -> list[str]:
        """The levels, by code."""
        return list(self.levels)

    def booleans_as_text(self, values: pa.Array) -> pa.Array:
        """Return booleans as the categories spell them; where there are no other categories, also 0, 1 and texts."""
        truth, falsehood = next((pair for pair in BOOLEANS if {*pair} & {*self.categories}), BOOLEANS[0])
        if pa.types.is_boolean(values.type):
            return pc.if_else(values, truth, falsehood)
        if {*self.categories, *self.pooled} != {truth, falsehood}:
            return values
        texts = pc.cast(values.dictionary_decode() if pa.types.is_dictionary(values.type) else values, pa.string())
        is_true, is_false = (pc.is_in(texts, value_set=pa.array(some)) for some in zip(*BOOLEANS, strict=True))
        return pc.if_else(is_true, truth, pc.if_else(is_false, falsehood, texts))

    def for_new_rows(self, *, missing_to_zero: bool, unseen: str | None = None) -> Self:
        """Return a copy that counts anew and may encode levels that the fit would refuse."""
        changed = super().for_new_rows(missing_to_zero=missing_to_zero)
        if unseen is None or changed.unseen != "error":
            return changed
        has_other = bool(changed.pooled)  # else there is no feature of this name
        return dataclasses.replace(changed, unseen="other" if has_other and unseen == "other" else "zero")

    def _unseen_as(self) -> str:
        other = f"'{self.name}={name_beside(OTHER, self.categories)}'"
        return f"categories encoded as {other if self.unseen == 'other' else 'zeros'}"

    def sql(self, place: int, dialect: str) -> str:
        """Return the indicator of a level; NULL for a missing value that the encoder refuses or drops."""
        column, level = quoted(self.name), self.levels[self.drop_first :][place]
        text = as_text_if_numbers(column, self.categories)
        missing = "" if self.missing in ("zero", "category") else f"WHEN {column} IS NULL THEN NULL "
        if level == MISSING and MISSING not in self.categories:
            return f"CASE WHEN {column} IS NULL THEN 1 ELSE 0 END"
        condition = f"{text} = {text_of(level)}"
        if level == OTHER and OTHER not in self.categories:
            condition = f"{text} IN ({listed(sorted(self.pooled))})"
            if self.unseen == "other":
                condition = f"{column} IS NOT NULL AND {text} NOT IN ({listed(self.categories)})"
        return f"CASE {missing}WHEN {condition} THEN 1 ELSE 0 END"

    def python(self, place: int) -> str:
        """Return the indicator of a level."""
        column, level = f"frame[{self.name!r}]", self.levels[self.drop_first :][place]
        if level == MISSING and MISSING not in self.categories:
            return f"{column}.isna()"
        if level == OTHER and OTHER not in self.categories:
            if self.unseen == "other":
                return f"{column}.notna() & ~np.isin(text({column}), {list(self.categories)!r})"
            return f"np.isin(text({column}), {sorted(self.pooled)!r})"
        return f"text({column}) == {level!r}"


def _unknown(text: str, categories: Sequence[str]) -> tuple[str, str]:
    some = ", ".join(repr(category) for category in categories[:5])
    problem = f"expected one of {len(categories)} categories ({some} ...), found {shown(text)}"
    return problem, "add it to categories, or set unseen: zero or other"


def _choose_categories(
    name: str, column: ColumnSchema, counts: Mapping[str, int], notes: list[str]
) -> tuple[list[str], frozenset[str]]:
    by_frequency = sorted(counts, key=lambda text: (-counts[text], text))
    kept = [text for text in by_frequency if counts[text] >= column.min_count]
    if column.max_categories is not None:
        kept = kept[: column.max_categories]
    elif len(kept) > MAX_CATEGORIES:
        raise SchemaError(
            f"{len(kept):,} different values, more than the maximum of {MAX_CATEGORIES:,} dummies",
            f"column '{name}'",
            "set one_hot: sparse in the source, role: ignore, or min_count or max_categories in the table schema",
        )
    pooled = frozenset(counts) - frozenset(kept)
    if pooled:
        n_rows = sum(counts[text] for text in pooled)
        listed = [repr(text) for text in by_frequency if text in pooled]
        more = f" and {len(listed) - _NAMED_IN_A_NOTE} more" if len(listed) > _NAMED_IN_A_NOTE else ""
        notes.append(
            f"column '{name}': {len(pooled)} rare categories ({n_rows:,} rows) are pooled into "
            f"'{name}={name_beside(OTHER, kept)}': "
            f"{', '.join(listed[:_NAMED_IN_A_NOTE])}{more}"
        )
    return _in_order(kept), pooled


def _in_order(texts: list[str]) -> list[str]:
    """Sort numerically if all texts are numbers, otherwise alphabetically."""
    try:
        return sorted(texts, key=lambda text: (float(text), text))
    except ValueError:
        return sorted(texts)
