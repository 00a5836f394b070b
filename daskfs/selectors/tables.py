"""Tables with other than numeric columns: schema inference, encoding, and the same encoding for later tables.

`begun` makes the matrix of a fit. What it learns about the columns is a `TableEncoder`, with which `encoded` (for Dask
`lazily_encoded`) makes features of the tables that are passed to `transform` and `predict`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs import errors
from daskfs.errors import SelectionWarning, warn
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.sources.in_memory import INFER, is_table

if TYPE_CHECKING:
    from daskfs.sources.table import TableSource
    from daskfs.sources.table_encoder import TableEncoder
    from daskfs.sources.table_schema import TableSchema

DataError = errors.DataError.about("frames")

_BLOCK_NBYTES = 2**23


def sources_of(
    X: Any, y: Any, schema: Any, coded: Any, method: str, weight: Any = None
) -> tuple[TableSource, list[str]]:
    """Return a table as a source with its target, and notes on the inferred schema.

    Parameters
    ----------
    X : data frame or Arrow table
    y : array-like of shape (n_samples,)
        The target as given, for schema inference.
    schema : path, mapping, TableSchema, "judge" or None
        With "judge" or None the schema is inferred.
    coded : array-like of shape (n_samples,)
        The target as numbers.
    method : str
        Name of the selector, for the warning on columns that need attention.
    weight : array-like of shape (n_samples,), optional
    """
    from daskfs.sources.dataframe import target_name
    from daskfs.sources.registry import as_source
    from daskfs.sources.table_schema import load_table_schema
    from daskfs.sources.undeclared import said, schema_of

    header = _names_of(X)
    target, notes = target_name(y, header), []
    if schema is None or schema == INFER:
        found, inferred = schema_of(as_source(X, y=y, target=target), target, schema)  # type: ignore[arg-type]
        notes = said(inferred, method)
    else:
        found = load_table_schema(schema)
    declared = _of_features(found, header, target)
    return as_source(X, y=coded, target=target, weight=weight, schema=declared), notes  # type: ignore[return-value]


def _names_of(X: Any) -> list[str]:
    return [str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]


def _of_features(schema: TableSchema, header: Iterable[str], target: str) -> TableSchema:
    """Return a schema in which targets and weights need not be among the columns."""
    known = {*header}
    columns = {
        name: column if name in known else column.model_copy(update={"required": False})
        for name, column in schema.columns.items()
        if name != target or name in known
    }
    return schema.model_copy(update={"columns": columns})


def begun(
    X: Any, y: Any, sample_weight: Any, schema: Any, coded: np.ndarray, method: str
) -> tuple[ArrayMatrix, list[str]]:
    """Return a table in memory as the matrix of a fit, with its encoder, and notes on the inferred schema.

    Parameters
    ----------
    As of `sources_of`, and sample_weight : array-like of shape (n_samples,), optional

    Raises
    ------
    SchemaError, SourceError, DataError
        A column cannot be used, or values cannot be encoded (with their row).
    """
    from daskfs.sources.table_encoder import TableEncoder

    n_samples = len(coded)
    # The source has row numbers as its target, because rows with missing values may be dropped.
    source, notes = sources_of(X, y, schema, np.arange(n_samples), method)
    if len(np.asarray(coded)) != (found := source.estimate_n_samples()):
        raise DataError(f"expected {found} targets, one per row of X, found {n_samples}", "y")
    names = source.feature_names
    values, rows = np.empty((n_samples, len(names))), []
    for block in source.row_blocks(max(64, _BLOCK_NBYTES // (8 * len(names))), np.float64):
        values[block.start : block.start + len(block.X)] = block.X
        rows.append(np.asarray(block.y, dtype=np.int64))
    kept = np.concatenate(rows)
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    matrix = ArrayMatrix(
        values[: len(kept)], coded[kept], None if weight is None else weight[kept], names, table_columns=_tables(source)
    )
    matrix.of_table = TableEncoder.of(source)
    return matrix, [*notes, *source.notes]


def ingested_table(
    X: Any, coded: Any, sample_weight: Any, schema: Any, y: Any, method: str, path: Path, seed: int | None
) -> tuple[Matrix, list[str]]:
    """Return a Dask data frame as a store at a path, with its encoder, and notes; see `sources_of`."""
    from daskfs.sources.ingest import ingest
    from daskfs.sources.table_encoder import TableEncoder

    source, notes = sources_of(X, y, schema, coded, method, sample_weight)
    store: Matrix = ingest(source, path, random_state=seed)
    store.of_table = TableEncoder.of(source)
    return store, [*notes, *source.notes]


def raw_encoder(document: Mapping[str, Any], X: Any) -> TableEncoder | None:
    """Return the encoder of a store's rows for a table; None if the store had no table, or X has its features.

    Parameters
    ----------
    document : mapping
        Encoding of a store: `Matrix.encoder`.
    X : data frame or Arrow table
    """
    if document.get("kind") != "table":
        return None
    from daskfs.sources.table_encoder import TableEncoder

    encoder = TableEncoder.from_document(document["table"])
    features, columns = encoder.feature_names, _names_of(X)
    is_found_by_name = hasattr(X, "__dask_graph__") or columns == features or features != encoder.feature_columns
    return None if is_found_by_name and {*features} <= {*columns} else encoder


def _tables(source: TableSource) -> np.ndarray:
    """Return the table's column of each feature."""
    columns = np.array(source.feature_names, dtype=object)
    for name, (first, stop) in source.table_columns.items():
        columns[first:stop] = name
    return columns.astype(str)


def encoded(encoder: TableEncoder, X: Any, features: np.ndarray, names: Any = None) -> np.ndarray:
    """Return features of a table's rows, encoded as in the fit.

    Parameters
    ----------
    encoder : TableEncoder
    X : data frame or Arrow table, or an array that has its columns
    features : ndarray of int64
        Numbers of the requested features.
    names : sequence of str, optional
        Names of the columns, if X is an array.

    Raises
    ------
    SchemaError
        A required column is missing.
    SourceError
        A value cannot be encoded; the error names its row.
    """
    from daskfs.sources.applied_table import AppliedTable
    from daskfs.sources.registry import as_source

    if not is_table(X):
        X = _as_frame(X, names)
    out = np.empty((int(X.num_rows if hasattr(X, "num_rows") else len(X)), len(features)))
    if not out.size:
        return out
    table = AppliedTable(encoder, as_source(X), features)  # type: ignore[arg-type]
    for block in table.row_blocks(max(64, _BLOCK_NBYTES // (8 * len(encoder.columns))), np.float64):
        out[block.start : block.start + len(block.X)] = block.X
    for note in table.notes:
        warn(note, SelectionWarning)
    return out


def _as_frame(X: Any, names: Any) -> Any:
    import pandas as pd

    values = np.asarray(X, dtype=object)
    if values.ndim != 2 or values.shape[1] != len(names):
        expected = f"expected a table with the {len(names)} columns of the fit"
        raise DataError(f"{expected}, found shape {values.shape}", "X", "pass a data frame")
    return pd.DataFrame(values, columns=list(names)).infer_objects()


def lazily_encoded(encoder: TableEncoder, X: Any, features: np.ndarray, names: np.ndarray) -> Any:
    """Return features of a Dask data frame, without computing them, as columns with these names."""
    import pandas as pd

    meta = pd.DataFrame(np.empty((0, len(names))), columns=names)
    return X.map_partitions(_encoded_frame, encoder, features, names, meta=meta)


def _encoded_frame(frame: Any, encoder: TableEncoder, features: np.ndarray, names: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(encoded(encoder, frame, features), index=frame.index, columns=names)
