"""Which columns of a table are used, and in which role: combines header, schema and the caller's arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from daskfs import errors
from daskfs.errors import SchemaError, did_you_mean
from daskfs.sources.table_schema import ColumnSchema, MissingPolicy, TableSchema

SourceError = errors.SourceError.about("table-schemas")

Names: TypeAlias = str | Sequence[str] | None
NEVER_IMPUTED = ("error", "drop")
"""Allowed treatments of missing values in targets and weights."""


def resolve_columns(
    header: Mapping[str, pa.DataType | None],
    schema: TableSchema | None,
    place: str,
    target: Names,
    weight: str | None,
    missing: MissingPolicy,
    notes: list[str],
) -> dict[str, ColumnSchema]:
    """Return the schema of each used column, in the order of the header.

    Parameters
    ----------
    header : mapping of str to Arrow type or None
    schema : TableSchema, optional
    place : str
        Name of the table, for messages.
    target, weight : names, optional
        Override the schema's roles.
    missing : treatment of missing values in columns that the schema does not name
    notes : list of str
        Decisions are appended.

    Raises
    ------
    SchemaError
        The header lacks a column or has an unknown one, there is no target, or a type has no default encoding.
    """
    named = {} if schema is None else schema.columns
    targets = [target] if isinstance(target, str) else list(target or ())
    _check_names(header, named, targets, weight, place, notes)
    rule = "feature" if schema is None else schema.other_columns
    columns: dict[str, ColumnSchema] = {}
    guessed: dict[str, list[str]] = {}
    for name, arrow_type in header.items():
        wanted = name in targets or name == weight
        if name in named:
            column = _with_role(named[name], name, targets, weight, notes)
        elif wanted or rule == "feature":
            column = _guess(name, arrow_type, place, missing, name in targets, name == weight)
            guessed.setdefault(column.resolved_encoding, []).append(name)
        elif rule == "ignore":
            continue
        else:
            unnamed = [other for other in header if other not in named and other not in targets and other != weight]
            what = f"columns {some(unnamed)}" if len(unnamed) > 1 else f"a column {name!r}"
            raise SchemaError(
                f"the table has {what} that the schema does not name{did_you_mean(name, named)}",
                place,
                "add it (with role: ignore to leave it out), or set other_columns: ignore or feature",
            )
        if column.role != "ignore":
            columns[name] = column
    if guessed.get("category"):
        notes.append(f"not in a schema, so treated as categories: {some(guessed['category'])}")
    roles = {column.role for column in columns.values()}
    if "target" not in roles:
        raise SchemaError("no target was given", place, "set target=..., or role: target in the table schema")
    if "feature" not in roles:
        raise SourceError("no column can be used as a feature", place, "check the roles in the schema")
    return columns


def _check_names(
    header: Mapping[str, pa.DataType | None],
    named: Mapping[str, ColumnSchema],
    targets: Iterable[str],
    weight: str | None,
    place: str,
    notes: list[str],
) -> None:
    asked = [("target", name) for name in targets]
    if weight is not None:
        asked.append(("weight", weight))
    for role, name in asked:
        if name not in header:
            problem = f"the {role} {name!r} is not a column of the table{did_you_mean(name, header)}"
            raise SchemaError(problem, place, _some_columns(header))
    absent = {name: column for name, column in named.items() if name not in header and column.role != "ignore"}
    lacking = [name for name, column in absent.items() if column.required]
    if lacking:
        raise SchemaError(
            f"the header lacks the schema's {some(lacking)}{did_you_mean(lacking[0], set(header) - set(named))}",
            place,
            _some_columns(header),
        )
    if absent:
        notes.append(f"the table has no column {some(list(absent))}, which the schema does not require")


def _with_role(
    column: ColumnSchema, name: str, targets: Sequence[str], weight: str | None, notes: list[str]
) -> ColumnSchema:
    role = column.role
    if name in targets:
        role = "target"
    elif name == weight:
        role = "weight"
    elif targets and role == "target":
        role = "ignore"
        notes.append(f"column '{name}', the schema's target, is ignored: another target was given")
    elif weight is not None and role == "weight":
        role = "ignore"
        notes.append(f"column '{name}', the schema's weight, is ignored: another weight was given")
    if role == column.role:
        return column
    kept = column.model_dump(exclude_unset=True, by_alias=True) | {"role": role}
    if role == "target":
        if kept.get("encoding") == "standardised":
            kept.pop("encoding")
        kept.pop("drop_first", None)
    if role in ("target", "weight") and kept.get("missing") not in NEVER_IMPUTED:
        kept.pop("missing", None)
        kept.pop("missing_indicator", None)
    return ColumnSchema.model_validate(kept)


def _guess(
    name: str, arrow_type: pa.DataType | None, place: str, missing: MissingPolicy, is_target: bool, is_weight: bool
) -> ColumnSchema:
    role = "target" if is_target else "weight" if is_weight else "feature"
    if arrow_type is None or is_number(arrow_type):
        is_known = missing in NEVER_IMPUTED or (role == "feature" and missing != "category")
        policy = missing if is_known else "error"
        return ColumnSchema.model_validate({"role": role, "missing": policy})
    if _is_text(arrow_type) and role != "weight":
        known = ("error", "drop", "zero", "category") if role == "feature" else NEVER_IMPUTED
        policy = missing if missing in known else "error"
        return ColumnSchema.model_validate({"role": role, "dtype": "string", "missing": policy})
    if role == "weight":
        raise SchemaError(f"expected numbers, found {arrow_type}", f"{place}, column '{name}'", "choose another weight")
    kind = "dates" if pa.types.is_temporal(arrow_type) else str(arrow_type)
    raise SchemaError(
        f"the column contains {kind}, which have no default encoding",
        f"{place}, column '{name}'",
        "write a table schema (date_parts, or role: ignore) and pass it as schema",
    )


def is_number(arrow_type: pa.DataType) -> bool:
    """Return whether a column of this type is treated as numeric if no schema names it."""
    if pa.types.is_dictionary(arrow_type):
        return False
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(test(arrow_type) for test in tests)


def _is_text(arrow_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(arrow_type):
        return _is_text(arrow_type.value_type) or is_number(arrow_type.value_type)
    return pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type)


def some(names: Sequence[str], limit: int = 8) -> str:
    """Return the first of several names as text, for a message."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(repr(name) for name in names[:limit]) + more


def _some_columns(header: Mapping[str, object]) -> str:
    return f"the columns are {some(list(header))}"
