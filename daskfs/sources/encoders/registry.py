"""The encodings of a table's columns by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from daskfs.errors import SchemaError
from daskfs.sources.encoders.base import ColumnFacts, Encoder
from daskfs.sources.encoders.category import CategoryEncoder
from daskfs.sources.encoders.counts import CountEncoder
from daskfs.sources.encoders.date import DateEncoder
from daskfs.sources.encoders.hashed import HashedEncoder
from daskfs.sources.encoders.number import NumberEncoder
from daskfs.sources.table_schema import ColumnSchema

ENCODERS: dict[str, type[Encoder]] = {
    "number": NumberEncoder,
    "standardised": NumberEncoder,
    "category": CategoryEncoder,
    "counts": CountEncoder,
    "hashed": HashedEncoder,
    "date": DateEncoder,
}
"""Encoders by `ColumnSchema.resolved_encoding`. Logarithmic bins exist as sparse entries only."""


def make_encoder(name: str, column: ColumnSchema, facts: ColumnFacts, notes: list[str]) -> Encoder:
    """Return the encoder of a column; decisions made for it are appended to `notes`.

    Raises
    ------
    SchemaError
        More categories than allowed, or an encoding for sparse rows only.
    """
    if column.resolved_encoding not in ENCODERS:
        raise SchemaError("bins need sparse rows", f"column '{name}'", "set one_hot: sparse in the source")
    return ENCODERS[column.resolved_encoding].learnt(name, column, facts, notes)


def encoder_of(name: str, document: Mapping[str, Any]) -> Encoder:
    """Return the encoder of a column from the document written by `Encoder.to_document`."""
    fields = {key: value for key, value in document.items() if key != "kind"}
    return ENCODERS[document["kind"]](name=name, **fields)
