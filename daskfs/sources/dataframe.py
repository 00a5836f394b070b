"""Data frames: pandas in slices, Dask one partition at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from daskfs.cluster.promises import Promise, promises, token_of
from daskfs.errors import DataError, SourceError
from daskfs.sources.roles import Names
from daskfs.sources.table import TableBatch, TableSource
from daskfs.sources.table_schema import ColumnSchema, TableFormat
from daskfs.sources.typed_batches import as_declared, layout_of

_BATCH_ROWS = 65536
_HEAD_ROWS = 1000


class _AnyFrame(TableSource):
    """A data frame, and perhaps a target beside it."""

    def __init__(
        self,
        frame: Any,
        schema: Any = None,
        target: Names = None,
        weight: str | None = None,
        missing: Any = "error",
        y: Any = None,
    ) -> None:
        if y is not None:
            target = target or target_name(y, [str(name) for name in frame.columns])
        super().__init__(schema, target, weight, missing)
        self._frame, self._y = frame, y


class FrameSource(_AnyFrame):
    """A pandas DataFrame; a Series is one column.

    Parameters
    ----------
    frame : pandas.DataFrame
    schema, target, weight, missing
        See `daskfs.sources.table.TableSource`. NaN and None count as missing.
    y : array-like of shape (n_samples,), optional
        The target, where it is no column of the frame.
    """

    kind = "dataframe"

    @property
    def place(self) -> str:
        """The data frame."""
        return "DataFrame"

    @cached_property
    def _with_target(self) -> pd.DataFrame:
        return _with_column(self._frame.rename(columns=str), self._y, self._target)

    def describe(self) -> dict[str, Any]:
        """Return kind and shape."""
        return {"kind": self.kind, "description": "pandas DataFrame", "shape": list(self._with_target.shape)}

    def digest(self) -> str:
        """Return the SHA-256 of names, types and values; the index does not enter."""
        frame = self._with_target
        sha256 = hashlib.sha256(f"{list(frame.columns)} {[str(dtype) for dtype in frame.dtypes]}".encode())
        for start in range(0, len(frame), _BATCH_ROWS):
            piece = frame.iloc[start : start + _BATCH_ROWS]
            sha256.update(pd.util.hash_pandas_object(piece, index=False).to_numpy().tobytes())
        return sha256.hexdigest()

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Rows, where none can be dropped."""
        if any(column.missing == "drop" for column in self.columns.values()):
            return super().n_samples
        return len(self._frame)

    def estimate_n_samples(self) -> int | None:
        """Return the number of rows."""
        return len(self._frame)

    def header(self) -> Mapping[str, pa.DataType | None]:
        """Return names and Arrow types."""
        frame = self._with_target
        return _types(frame if _hides_types(frame) else frame.head(_HEAD_ROWS), self.place)

    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield slices of the frame."""
        frame = self._with_target
        for start in range(0, len(frame), _BATCH_ROWS):
            batch = _as_arrow(frame.iloc[start : start + _BATCH_ROWS], columns, self.place, layout_of(self.schema))
            yield TableBatch(batch, self.place, start)


class DaskFrameSource(_AnyFrame):
    """A dask DataFrame, computed one partition at a time, in order.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    schema, target, weight, missing
        See `daskfs.sources.table.TableSource`.
    y : dask Series, dask array or array-like of shape (n_samples,), optional
        The target, where it is no column of the frame; a lazy one must have the frame's partitions.
    """

    kind = "dask-dataframe"

    @property
    def place(self) -> str:
        """The data frame."""
        return "dask DataFrame"

    def describe(self) -> dict[str, Any]:
        """Return kind, columns and partitions."""
        columns, n_partitions, _ = self._identity
        return {"kind": self.kind, "description": self.place, "columns": columns, "n_partitions": n_partitions}

    def digest(self) -> str:
        """Return the digest of the graph: Dask's token, which is equal for equal graphs over equal inputs."""
        return self._identity[2]

    @cached_property
    def _identity(self) -> tuple[list[str], int, str]:
        token = token_of(self._frame, self._y)
        return [str(name) for name in self._frame.columns], self._frame.npartitions, token

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent: not the frame, of which parts are sent."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_frame", "_y")}

    def header(self) -> Mapping[str, pa.DataType | None]:
        """Return names and types; the first partition is computed where object columns hide them."""
        meta = self._frame._meta
        if _hides_types(meta) or self._y is not None:
            meta = next(self._partitions())
        return _types(meta.rename(columns=str), self.place)

    def _partitions(self) -> Iterator[pd.DataFrame]:
        lazy_targets = _lazy_parts(self._y, self._frame.npartitions)
        done = 0
        for k, delayed in enumerate(self._frame.to_delayed()):
            frame = delayed.compute().rename(columns=str)
            y = self._y
            if lazy_targets is not None:
                y = lazy_targets[k].compute()
            elif y is not None:
                y = np.asarray(y)[done : done + len(frame)]
            done += len(frame)
            yield _with_column(frame, y, self._target)

    @property
    def has_parts(self) -> bool:
        """Whether each partition has its targets."""
        return self._y is None or hasattr(self._y, "to_delayed")

    def parts(self) -> Sequence[Promise]:
        """Return the partitions, which are computed where they are read."""
        if not self.has_parts:
            return ()
        _ = self._identity, self.columns  # found before the source is sent
        n_partitions = self._frame.npartitions
        lazy_targets = _lazy_parts(self._y, n_partitions)
        return promises(self._frame.to_delayed(), *([] if lazy_targets is None else [lazy_targets]))

    def part_batches(self, part: Promise) -> Iterator[TableBatch]:
        """Yield a partition in slices."""
        frame, *y = part.kept()
        yield from self._slices(
            _with_column(frame.rename(columns=str), y[0] if y else None, self._target), 0, self.columns
        )

    def _slices(self, frame: pd.DataFrame, first_row: int, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        for start in range(0, len(frame), _BATCH_ROWS):
            batch = _as_arrow(frame.iloc[start : start + _BATCH_ROWS], columns, self.place, layout_of(self.schema))
            yield TableBatch(batch, self.place, first_row + start)

    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield each partition in slices."""
        done = 0
        for frame in self._partitions():
            yield from self._slices(frame, done, columns)
            done += len(frame)
        if self._y is not None and _lazy_parts(self._y, self._frame.npartitions) is None and len(self._y) != done:
            raise DataError(f"expected {done} targets as the rows of X, found {len(self._y)}", "y")


def target_name(y: Any, taken: list[str]) -> str:
    """Return a name for a target that is no column: its own, or target."""
    name = getattr(y, "name", None)
    name = name if isinstance(name, str) and hasattr(y, "index") else "target"
    while name in taken:
        name += "_"
    return name


def _with_column(frame: pd.DataFrame, y: Any, target: Names) -> pd.DataFrame:
    if y is None:
        return frame
    values = np.asarray(y)
    if values.shape != (len(frame),):
        raise DataError(f"expected {len(frame)} targets as the rows of X, found shape {values.shape}", "y")
    name = target if isinstance(target, str) else next(iter(target or ()), "target")
    return frame.assign(**{name: values})


def _hides_types(frame: pd.DataFrame) -> bool:
    """Whether a column of Python objects may hold anything."""
    return any(dtype.kind == "O" and dtype == np.dtype(object) for dtype in frame.dtypes)


def _lazy_parts(y: Any, n_partitions: int) -> list[Any] | None:
    if y is None or not hasattr(y, "to_delayed"):
        return None
    parts = list(np.ravel(np.asarray(y.to_delayed(), dtype=object)))
    if len(parts) != n_partitions:
        raise DataError(
            f"expected the {n_partitions} partitions of X, found {len(parts)}", "y", "repartition y as X is"
        )
    return parts


def _types(frame: pd.DataFrame, place: str) -> dict[str, pa.DataType]:
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise DataError(f"two columns are called {twice[0]!r}", place, "rename one of them")
    return {name: _column_as_arrow(frame[name], place).type for name in frame.columns}


def _as_arrow(
    frame: pd.DataFrame, columns: Mapping[str, ColumnSchema], place: str, layout: TableFormat | None
) -> pa.RecordBatch:
    arrays = [_spelt(_column_as_arrow(frame[name], place), column) for name, column in columns.items()]
    return as_declared(pa.RecordBatch.from_arrays(arrays, names=list(columns)), columns, layout)


def _spelt(values: pa.Array, column: ColumnSchema) -> pa.Array:
    """Return truth as pandas writes it to a file, where it is a level."""
    if pa.types.is_boolean(values.type) and column.of_levels and column.categories is None:
        return pc.if_else(values, "True", "False")
    return values


def _column_as_arrow(values: pd.Series, place: str) -> pa.Array:
    try:
        array = pa.Array.from_pandas(values)
    except (pa.ArrowException, TypeError, ValueError) as fault:
        raise SourceError(
            f"the column mixes types ({fault})",
            f"{place}, column '{values.name}'",
            "give it one type, for example .astype(str)",
        ) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
