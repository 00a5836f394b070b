"""Questions about a table in memory that do not read it; importing this is cheap."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs import errors

DataError = errors.DataError.about("shapes")

INFER = "judge"
"""The value of `schema` that requests inference for numeric columns too, and replaces missing values."""
_NUMBERS = "buifc"


def is_table(X: Any) -> bool:
    """Return whether X is a data frame of pandas, polars or Dask, or an Arrow table; a single column is not."""
    is_column = len(getattr(X, "shape", (0, 0))) == 1  # a series, or an array
    return not is_column and (hasattr(X, "__arrow_c_stream__") or (hasattr(X, "columns") and hasattr(X, "dtypes")))


def read_once(X: Any) -> Any:
    """Return X, or the content of an Arrow stream as a table, as it can be read only once; of xarray, the array itself.

    Raises
    ------
    DataError
        X is a Dask series, a column of Arrow or a dataset of xarray; others are refused when they are checked.
    """
    library = type(X).__module__.partition(".")[0]
    if library == "xarray":
        if not hasattr(X, "data"):
            raise DataError(f"expected one array, found xarray's {type(X).__name__}", "X", 'choose one: X["name"]')
        return X.data
    if len(getattr(X, "shape", (0, 0))) == 1 and hasattr(X, "columns"):
        raise DataError("expected a data frame, found one column", "X", "X.to_frame()")
    if library == "pyarrow" and hasattr(X, "type"):  # Array and ChunkedArray
        raise DataError("expected a table, found one column", "X", 'pyarrow.table({"name": X})')
    if library != "pyarrow" and (not is_table(X) or hasattr(X, "columns")):
        return X
    import pyarrow as pa

    from daskfs.sources.typed_batches import typed_columns

    table = X if isinstance(X, pa.Table) else pa.RecordBatchReader.from_stream(X).read_all()
    index = set(table.column_names) - typed_columns(table.schema).keys()
    return table.drop_columns(list(index)) if index else table


def has_more_than_numbers(X: Any) -> bool:
    """Return whether a table has a column that is neither numeric nor boolean."""
    if hasattr(X, "dtypes") and hasattr(X, "columns") and not hasattr(X, "get_columns"):  # pandas, Dask
        return any(_is_no_number(dtype, X, j) for j, dtype in enumerate(X.dtypes))
    from daskfs.sources.arrow_table import has_numbers_alone

    return not has_numbers_alone(X)


def _is_no_number(dtype: Any, X: Any, j: int) -> bool:
    if getattr(dtype, "kind", "O") != "O" or dtype != np.dtype(object):
        return getattr(dtype, "kind", "O") not in _NUMBERS
    if not hasattr(X, "iloc") or hasattr(X, "__dask_graph__"):
        return True
    from pandas.api.types import infer_dtype

    kind = infer_dtype(X.iloc[:, j], skipna=True)
    return kind not in ("integer", "floating", "mixed-integer-float", "boolean", "decimal", "complex", "empty")
