"""Data frames: pandas in slices, Dask one partition at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from daskfs import errors
from daskfs.cluster.promises import Promise, promises, token_of
from daskfs.sources.base import NotInPartsError
from daskfs.sources.roles import Names
from daskfs.sources.table import TableBatch, TableSource
from daskfs.sources.table_schema import ColumnSchema, TableFormat
from daskfs.sources.typed_batches import as_declared, layout_of

DataError = errors.DataError.about("frames")
SourceError = errors.SourceError.about("frames")

_BATCH_ROWS = 65536
_HEAD_ROWS = 1000


class _AnyFrame(TableSource):
    """A data frame, optionally with a separate target and weights."""

    def __init__(
        self,
        frame: Any,
        schema: Any = None,
        target: Names = None,
        weight: Any = None,
        missing: Any = "error",
        y: Any = None,
    ) -> None:
        taken = [str(name) for name in frame.columns]
        beside: dict[str, Any] = {}
        if y is not None:
            target = target or target_name(y, taken)
            beside[target if isinstance(target, str) else next(iter(target), "target")] = y
        if weight is not None and not isinstance(weight, str):
            weight, values = free_name("weight", [*taken, *beside]), weight
            beside[weight] = values
        super().__init__(schema, target, weight, missing)
        self._frame, self._beside, self._names_beside = frame, beside, list(beside)


class FrameSource(_AnyFrame):
    """A pandas DataFrame; a Series is treated as one column.

    Parameters
    ----------
    frame : pandas.DataFrame
    schema, target, weight, missing
        See `daskfs.sources.table.TableSource`. NaN and None count as missing.
    y : array-like of shape (n_samples,), optional
        The target, if it is not a column of the frame. `weight` may be an array too.
    """

    kind = "dataframe"

    @property
    def place(self) -> str:
        """Name of the frame, for messages."""
        return "DataFrame"

    @cached_property
    def _with_target(self) -> pd.DataFrame:
        return _with_columns(self._frame.rename(columns=str), self._beside)

    def describe(self) -> dict[str, Any]:
        """Return kind and shape."""
        return {"kind": self.kind, "description": "pandas DataFrame", "shape": list(self._with_target.shape)}

    def digest(self) -> str:
        """Return the SHA-256 of names, types and values; the index is ignored."""
        frame = self._with_target
        sha256 = hashlib.sha256(f"{list(frame.columns)} {[str(dtype) for dtype in frame.dtypes]}".encode())
        for start in range(0, len(frame), _BATCH_ROWS):
            piece = frame.iloc[start : start + _BATCH_ROWS]
            try:
                hashes = pd.util.hash_pandas_object(piece, index=False)
            except TypeError:  # lists, for example, have no hash
                objects = [name for name, dtype in piece.dtypes.items() if dtype.kind == "O"]
                hashes = pd.util.hash_pandas_object(piece.astype(dict.fromkeys(objects, str)), index=False)
            sha256.update(hashes.to_numpy().tobytes())
        return sha256.hexdigest()

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Number of rows; unknown if rows may be dropped."""
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
        The target, if it is not a column of the frame; a lazy one must have the frame's partitions. `weight` may be an
        array too.
    """

    kind = "dask-dataframe"

    @property
    def place(self) -> str:
        """Name of the frame, for messages."""
        return "dask DataFrame"

    def describe(self) -> dict[str, Any]:
        """Return kind, columns and partitions."""
        columns, n_partitions, _ = self._identity
        return {"kind": self.kind, "description": self.place, "columns": columns, "n_partitions": n_partitions}

    def digest(self) -> str:
        """Return Dask's token of the graph; equal graphs over equal inputs have equal tokens."""
        return self._identity[2]

    @cached_property
    def _identity(self) -> tuple[list[str], int, str]:
        token = token_of(self._frame, *(self._beside.values() or [None]))
        return [str(name) for name in self._frame.columns], self._frame.npartitions, token

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the frame, whose partitions are sent instead."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_frame", "_beside")}

    def header(self) -> Mapping[str, pa.DataType | None]:
        """Return names and types; the first partition is computed if object columns hide types."""
        meta = pd.DataFrame(columns=self._frame.columns).astype(self._frame.dtypes)
        if _hides_types(meta) or self._beside:
            meta = next(self._partitions())
        return _types(meta.rename(columns=str), self.place)

    def _partitions(self) -> Iterator[pd.DataFrame]:
        lazy = {name: _lazy_parts(values, self._frame.npartitions, name) for name, values in self._beside.items()}
        done = 0
        for k, delayed in enumerate(self._frame.to_delayed()):
            frame = delayed.compute().rename(columns=str)
            rows = slice(done, done + len(frame))
            done += len(frame)
            beside = {
                name: np.asarray(values)[rows] if (parts := lazy[name]) is None else parts[k].compute()
                for name, values in self._beside.items()
            }
            yield _with_columns(frame, beside)

    @property
    def has_parts(self) -> bool:
        """Whether target and weights are partitioned like the frame."""
        return all(hasattr(values, "to_delayed") for values in self._beside.values())

    def parts(self) -> Sequence[tuple[int, Promise]]:
        """Return the partitions, each computed where it is read."""
        if not self.has_parts:
            return ()
        _ = self._identity, self.columns  # computed before the source is sent
        n_partitions = self._frame.npartitions
        beside = [_lazy_parts(values, n_partitions, name) or [] for name, values in self._beside.items()]
        return list(enumerate(promises(self._frame.to_delayed(), *beside)))

    def part_batches(self, part: tuple[int, Promise], columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield a partition in slices."""
        number, promise = part
        try:
            frame, *beside = promise.kept()
        except errors.SourceError as fault:
            raise NotInPartsError(*fault.args) from fault
        whole = _with_columns(frame.rename(columns=str), dict(zip(self._names_beside, beside, strict=True)))
        yield from self._slices(whole, number, columns)

    def _slices(self, frame: pd.DataFrame, number: int, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        place = f"{self.place}, partition {number}"
        for start in range(0, len(frame), _BATCH_ROWS):
            batch = _as_arrow(frame.iloc[start : start + _BATCH_ROWS], columns, place, layout_of(self.schema))
            yield TableBatch(batch, place, start)

    def batches(self, columns: Mapping[str, ColumnSchema]) -> Iterator[TableBatch]:
        """Yield each partition in slices."""
        done = 0
        for number, frame in enumerate(self._partitions()):
            yield from self._slices(frame, number, columns)
            done += len(frame)
        for name, values in self._beside.items():
            if not hasattr(values, "to_delayed") and len(values) != done:
                raise _of_another_length(name, done, len(values))


def target_name(y: Any, taken: list[str]) -> str:
    """Return a name for a target that is not a column: its own name or "target"."""
    name = getattr(y, "name", None)
    return free_name(name if isinstance(name, str) and hasattr(y, "index") else "target", taken)


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name with underscores appended until it is not taken."""
    while name in taken:
        name += "_"
    return name


def _with_columns(frame: pd.DataFrame, beside: Mapping[str, Any]) -> pd.DataFrame:
    for name, values in beside.items():
        if np.shape(values) != (len(frame),):
            raise _of_another_length(name, len(frame), np.shape(values))
    return frame.assign(**{name: np.asarray(values) for name, values in beside.items()}) if beside else frame


def _of_another_length(name: str, expected: int, found: Any) -> errors.DataError:
    is_weight = name.rstrip("_") == "weight"
    found = f"shape {found}" if isinstance(found, tuple) else found
    problem = f"expected {expected} {'weights' if is_weight else 'targets'}, one per row of X, found {found}"
    return DataError(problem, "weight" if is_weight else "y")


def _hides_types(frame: pd.DataFrame) -> bool:
    """Return whether a column has Python objects, whose type is unknown."""
    return any(dtype.kind == "O" and dtype == np.dtype(object) for dtype in frame.dtypes)


def _lazy_parts(y: Any, n_partitions: int, name: str) -> list[Any] | None:
    if y is None or not hasattr(y, "to_delayed"):
        return None
    parts = list(np.ravel(np.asarray(y.to_delayed(), dtype=object)))
    if len(parts) != n_partitions:
        raise DataError(
            f"expected the {n_partitions} partitions of X, found {len(parts)}", name, "repartition it like X"
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
    """Return booleans as pandas writes them to a file, if the column is categorical."""
    if pa.types.is_boolean(values.type) and column.of_levels and column.categories is None:
        return pc.if_else(values, "True", "False")
    return values


def _column_as_arrow(values: pd.Series, place: str) -> pa.Array:
    try:
        array = pa.Array.from_pandas(values)
    except (pa.ArrowException, TypeError, ValueError) as fault:
        raise SourceError(
            f"the column has mixed types ({fault})",
            f"{place}, column '{values.name}'",
            "give it one type, for example .astype(str)",
        ) from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
