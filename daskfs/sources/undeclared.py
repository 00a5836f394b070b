"""Tables in memory without a schema: it is inferred as for files, and missing values are refused.

Missing values are always refused, unless the user has chosen their treatment. ``schema="judge"`` chooses it for all
columns, like the schema that `daskfs init` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.errors import DataError, SchemaError, SelectionWarning, warn
from daskfs.sources.in_memory import INFER
from daskfs.sources.looking import head_of_table, read_typed
from daskfs.sources.schema_inference import InferredSchema, infer_schema
from daskfs.sources.sniffing import refuse_numbers_as_classes
from daskfs.sources.table_schema import MissingPolicy, TableSchema, by_text, load_table_schema
from daskfs.sources.typed_batches import is_text

if TYPE_CHECKING:
    from daskfs.sources.table import TableSource

_NUMBER_TYPES = ("number", "percent", "currency")
_NAMED = 8


def schema_of(
    source: TableSource, target: str, schema: str | None = None, missing: MissingPolicy | None = None
) -> tuple[TableSchema, InferredSchema]:
    """Infer a schema from the first rows of a table in memory, as for a file.

    Parameters
    ----------
    source : TableSource
        A source with typed columns.
    target : str
        The target column.
    schema : {"judge"}, optional
        Replace missing values: numbers by their mean, with an indicator feature; a missing category is a level.
    missing : {"error", "drop", "mean", "zero", "category"} or float, optional
        Treatment of missing values otherwise; by default they are refused.

    Returns
    -------
    schema : TableSchema
        Levels that do not occur in the fit are encoded as zeros in all dummies.
    inferred : InferredSchema
        The decisions, with reasons.

    Raises
    ------
    DataError
        Values are missing, and their treatment was not chosen.
    SchemaError
        Nothing can be predicted or selected.
    """
    layout, columns = read_typed(head_of_table(source), [])
    is_refused = schema != INFER and missing is None
    if is_refused and any(len(_missing_rows(values, [])) for values in columns.values()):
        # in numbers, missing ones are seen at once; inference says which texts mean them
        lacking = {name for name, one in columns.items() if is_text(one.type) or len(_missing_rows(one, []))}
        some = {name: one for name, one in columns.items() if name in lacking or name == target}
        with suppress(SchemaError):  # of other columns, perhaps
            _refuse_missing(some, infer_schema(some, layout, target), source.place)
    inferred = infer_schema(columns, layout, target)
    layout = layout.model_copy(update={"missing": [*layout.missing, *inferred.missing_texts]})
    if schema != INFER:
        if is_refused:
            _refuse_missing(columns, inferred, source.place)
        _keep_classes(inferred, columns[target], source.place)
    entries = {one.name: _entry(one.entry, schema == INFER, missing) for one in inferred.columns}
    return load_table_schema({"format": layout.model_dump(), "columns": entries}), inferred


def _keep_classes(inferred: InferredSchema, values: pa.Array, place: str) -> None:
    """Treat texts of the target as names of classes, even if they are digits, as a fit does; refuse amounts."""
    if not is_text(values.type):
        return
    texts = [str(text) for text in pc.drop_null(pc.unique(values)).to_pylist()]
    refuse_numbers_as_classes(texts, len(values), f"{place}, column '{inferred.target}'")
    (column,) = [one for one in inferred.columns if one.name == inferred.target]
    column.entry, column.suspicions = {"role": "target", "dtype": "string"}, []


def _refuse_missing(columns: Mapping[str, pa.Array], inferred: InferredSchema, place: str) -> None:
    used = [one.name for one in inferred.columns if one.entry.get("role", "feature") in ("feature", "target")]
    texts = inferred.missing_texts
    found = {name: rows for name in used if len(rows := _missing_rows(columns[name], texts))}
    if not found:
        return
    (name, rows), *others = found.items()
    more = f", in {len(rows):,} rows" if len(rows) > 1 else ""
    if others:
        more += f"; also in {', '.join(repr(other) for other, _ in others[:_NAMED])}"
        more += f" and {len(others) - _NAMED} more columns" if len(others) > _NAMED else ""
    raise DataError(
        f"expected a value, found a missing value{more}",
        f"{place}, row {rows[0]}, column '{name}'",
        "drop these rows or fill in the values; schema='judge' replaces them by the mean and adds indicator features",
    )


def _missing_rows(values: pa.Array, texts: list[str]) -> np.ndarray:
    """Return the rows without a value: null, NaN, or a text among numbers that means a missing value."""
    is_missing = pc.is_null(values, nan_is_null=True)
    if texts and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        is_missing = pc.or_(is_missing, pc.is_in(values, pa.array(texts, values.type)))
    return np.flatnonzero(is_missing.to_numpy(zero_copy_only=False))


def _entry(entry: Mapping[str, Any], is_inferred: bool, missing: MissingPolicy | None) -> dict[str, Any]:
    """Return a column's entry with the treatment of missing values, in these rows and in later ones."""
    if entry.get("role", "feature") != "feature":
        return dict(entry)
    is_number = entry.get("dtype", "number") in _NUMBER_TYPES
    unseen = {} if is_number else {"unseen": "zero"}
    if is_inferred:
        return {"missing": "mean" if is_number else "zero", **unseen, **entry}
    kept = {key: value for key, value in entry.items() if key not in ("missing", "missing_indicator")}
    known = missing is not None and (
        missing in ("error", "drop", "zero") or ((missing != "category") if is_number else missing == "category")
    )
    return unseen | kept | ({"missing": missing} if known else {})


def said(inferred: InferredSchema, who: str) -> list[str]:
    """Return a note on how columns were inferred; warn about suspicious ones."""
    kinds: dict[str, list[str]] = {}
    for one in inferred.columns:
        role, entry = one.entry.get("role", "feature"), one.entry
        kind = (
            "ignored"
            if role in ("ignore", "id")
            else {"string": "category"}.get(dtype := entry.get("dtype", ""), dtype)
        )
        if role != "target" and kind:
            kinds.setdefault(kind, []).append(one.name)
    listed = [f"{kind}: {_some(names)}" for kind, names in sorted(kinds.items())]
    doubts: dict[str, dict[str, list[str]]] = {"left out": {}, "check": {}}
    for one in inferred.columns:
        doubts["left out" if one.entry.get("role") in ("ignore", "id") else "check"][one.name] = one.suspicions
    doubtful = {word: by_text(suspicions) for word, suspicions in doubts.items()}
    if any(doubtful.values()):
        what = ". ".join(f"{word} {_some(texts, '; ')}" for word, texts in doubtful.items() if texts)
        warn(f"{who}: {what}. To change how a column is read, describe it in a schema (schema=)", SelectionWarning)
    return [f"column types were inferred ({'; '.join(listed)})"] if listed else []


def _some(names: list[str], separator: str = ", ") -> str:
    return separator.join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
