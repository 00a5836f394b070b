"""How a table's rows became features, as a document that lets other rows be encoded in the same way.

    TableSource ──read once──> encoders ──TableEncoder.of──> JSON (a store's encoder.json, a run's model.json)
    other rows ──AppliedTable──> the same features

An encoder contains what the fit has learnt about a column: levels, means, scales, years. Nothing is learnt from the
other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from daskfs.errors import SchemaError
from daskfs.sources.encoders.base import ColumnFacts, Encoder
from daskfs.sources.encoders.category import CategoryEncoder
from daskfs.sources.encoders.counts import CountEncoder
from daskfs.sources.encoders.date import DateEncoder
from daskfs.sources.encoders.hashed import HashedEncoder
from daskfs.sources.encoders.number import NumberEncoder
from daskfs.sources.table_schema import ColumnSchema, TableFormat, TableSchema


@dataclass
class TableEncoder:
    """Encodes rows of a table as in the fit.

    Parameters
    ----------
    columns : dict of str to ColumnSchema
        Used columns, features and others, in the table's order.
    encoders : dict of str to Encoder
        Encoders of features and of categorical targets.
    layout : TableFormat
        Text format: delimiter, decimal sign, missing values.
    names : list of str
        All columns of the table, in order.
    levels : dict of str to list of int
        Ids of the levels with their own feature, for categories that are encoded by ids.
    means : dict of str to float
        Means of numbers that are binned.
    """

    columns: dict[str, ColumnSchema]
    encoders: dict[str, Encoder]
    layout: TableFormat
    names: list[str]
    levels: dict[str, list[int]] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Any) -> TableEncoder:
        """Return the encoder of a table; reads the table once if necessary.

        Parameters
        ----------
        source : TableSource
        """
        survey, columns = source.survey, dict(source.columns)
        levels = {
            name: counts.frequent(columns[name].min_count, columns[name].max_categories)[0].tolist()
            for name, counts in survey.level_counts.items()
        }
        binned = (name for name, column in columns.items() if column.encoding == "log_bins")
        filled = (name for name in binned if columns[name].role == "feature" and columns[name].missing == "mean")
        means = {name: survey.moments[name].mean for name in filled}
        layout: TableFormat = getattr(source, "layout", None) or TableFormat.model_validate({})
        return cls(columns, dict(source.encoders), layout, source.header_names, levels, means)

    @property
    def spans(self) -> dict[str, tuple[int, int]]:
        """Span (first, end) of the features of each feature column."""
        found, stop = {}, 0
        for name in self.feature_columns:
            start, stop = stop, stop + (len(self.encoders[name].feature_names) if name in self.encoders else 0)
            found[name] = (start, stop)
        return found

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, except those of levels that are known only by ids."""
        known = [self.encoders[name].feature_names for name in self.feature_columns if name in self.encoders]
        return [feature for names in known for feature in names]

    @property
    def feature_columns(self) -> list[str]:
        """The columns that became features."""
        return [name for name, column in self.columns.items() if column.role == "feature"]

    @property
    def target(self) -> str | None:
        """The target column, if there is exactly one."""
        found = [name for name, column in self.columns.items() if column.role == "target"]
        return found[0] if len(found) == 1 else None

    def to_document(self) -> dict[str, Any]:
        """Return the encoder as a JSON-compatible document; columns with equal encodings share an entry."""
        place = {name: k for k, name in enumerate(self.names)}
        groups: dict[str, dict[str, Any]] = {}
        for name, column in self.columns.items():
            schema = column.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"look_at"})
            encoder = self.encoders.get(name)
            entry = {"schema": schema, "encoder": None if encoder is None else encoder.to_document()}
            groups.setdefault(repr(entry), entry | {"columns": []})["columns"].append(place[name])
        return {
            "names": self.names,
            "columns": [group | {"columns": _ranges(group["columns"])} for group in groups.values()],
            "format": self.layout.model_dump(mode="json"),
            "levels": self.levels,
            "means": self.means,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> TableEncoder:
        """Return the encoder from the document written by `to_document`."""
        names = document["names"]
        columns: dict[int, ColumnSchema] = {}
        encoders: dict[str, Encoder] = {}
        for group in document["columns"]:
            column = ColumnSchema.model_validate(group["schema"])
            for k in (k for start, stop in group["columns"] for k in range(start, stop)):
                columns[k] = column
                if group["encoder"] is not None:
                    encoders[names[k]] = encoder_of(names[k], group["encoder"])
        return cls(
            {names[k]: columns[k] for k in sorted(columns)},
            encoders,
            TableFormat.model_validate(document["format"]),
            list(names),
            dict(document["levels"]),
            dict(document["means"]),
        )

    def schema(self) -> TableSchema:
        """Return a table schema for reading new rows; it requires no column."""
        columns = {}
        for name in self.names:
            known = self.columns.get(name)
            role = {"role": "ignore"} if known is None else {}
            document = {} if known is None else known.model_dump(exclude_unset=True, by_alias=True)
            columns[name] = ColumnSchema.model_validate({**document, **role, "required": False})
        return TableSchema.model_validate(
            {"format": self.layout.model_dump(), "columns": columns, "other_columns": "ignore"}
        )


def _ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Return sorted numbers as ranges.

    Examples
    --------
    >>> _ranges([0, 1, 2, 5])
    [[0, 3], [5, 6]]
    """
    found: list[list[int]] = []
    for k in numbers:
        if found and found[-1][1] == k:
            found[-1][1] = k + 1
        else:
            found.append([k, k + 1])
    return found


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
