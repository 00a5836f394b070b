"""Runs of rows of entries: a few files each. See `daskfs.store.row_sorter`.

The entries of a run refer to its own sorted list of ids; merging the lists of all runs gives their columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.blocks.feature_ids import IdTable
from daskfs.kernels.blocks.row_blocks import taken_rows
from daskfs.store.plain_files import write_array
from daskfs.store.row_checks import convert_entries
from daskfs.store.row_sorter import Band, SortedRuns
from daskfs.store.unfinished import files_of

NO_VALUES = np.empty(0, np.int8)
SORTED = "sorted-"


class EntryRun(NamedTuple):
    """Consecutive rows of the source, in files."""

    name: str
    n_rows: int
    n_entries: int
    number_type: str
    """The dtype of the features of its entries: column numbers, or indices into its ids."""
    n_ids: int
    n_features: int
    """One more than the largest column number; 0 if features are ids."""
    are_ones: bool
    are_int8: bool
    """Whether all values are 1; whether all fit into int8."""
    order: str = ""
    """Prefix of the files of its sorted rows: "sorted-"."""


@dataclass(frozen=True)
class EntryFiles:
    """Where sorted runs are written, and their dtype.

    Parameters
    ----------
    folder : Path
        An existing folder.
    dtype : dtype
        The dtype of the values.
    has_ids : bool
        Whether features are ids instead of column numbers.
    n_features : int or None
        Number of columns, if known.
    run_nbytes : int
        Memory for a run, including that needed to sort it.
    """

    folder: Path
    dtype: np.dtype
    has_ids: bool
    n_features: int | None
    run_nbytes: int

    def buffer(self) -> EntryBuffer:
        """Return a buffer for a run."""
        return EntryBuffer(self)

    def run_of(self, facts: Sequence[Any]) -> EntryRun:
        """Return a run from the list of its fields."""
        return EntryRun(*facts)

    def path(self, name: str, what: str) -> Path:
        """Return the path of a file of a sorted run."""
        return self.folder / f"{name}.{what}"

    def lengths_of(self, run: EntryRun) -> np.ndarray:
        """Return the number of entries in each row of a run, in the source's order."""
        return np.fromfile(self.path(run.name, "lengths"), np.int32)

    def write(self, name: str, rows: Rows, order: np.ndarray | None) -> None:
        """Write the entries of rows, in this order if one is given."""
        prefix, rows = ("", rows) if order is None else (SORTED, rows.taken(order))
        for what, values in zip(("lengths", "features", "values"), rows, strict=True):
            write_array(self.path(name, f"{prefix}{what}"), values)


class Rows(NamedTuple):
    """Rows as entries."""

    lengths: np.ndarray
    features: np.ndarray
    values: np.ndarray
    """Empty if all values are 1."""

    @property
    def indptr(self) -> np.ndarray:
        """Offsets of the rows in `features` and `values`."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    def taken(self, order: np.ndarray) -> Rows:
        """Return the rows in another order."""
        found = Rows(self.lengths[order], np.empty_like(self.features), np.empty_like(self.values))
        taken_rows(self.indptr, self.features, self.values, order, found.features, found.values)
        return found


class EntryBuffer:
    """The rows of a run in memory.

    Parameters
    ----------
    files : EntryFiles
    """

    def __init__(self, files: EntryFiles) -> None:
        self._files = files
        self._clear()

    def _clear(self) -> None:
        self._lengths: list[np.ndarray] = []
        self._features: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._table = IdTable() if self._files.has_ids else None
        self.n_rows = self._n_entries = 0
        self._are_ones = self._are_int8 = True
        self._most = -1

    @property
    def is_full(self) -> bool:
        """Whether the rows, and sorting them, take the memory of a run."""
        per_entry = 2 * (4 if self._table is not None else 8) + 2 * self._files.dtype.itemsize
        of_ids = 0 if self._table is None else 2 * self._table.nbytes
        return 8 * self.n_rows + per_entry * self._n_entries + of_ids > self._files.run_nbytes

    def add(self, block: Any, start: int, first_row: int) -> int:
        """Append all rows of a `SparseBlock`; `first_row` is the first one's number in the source. Data are copied.

        Raises
        ------
        DataError
            A value that does not fit the dtype, or features that do not ascend within a row or exceed the columns.
        """
        features, values, lengths = block.features, block.data, np.diff(block.indptr)
        if values is not None:
            converted = np.empty(len(values), self._files.dtype)
            convert_entries(values, converted, lambda k: _place(block, k, first_row))
            values = converted
            is_entry = values != 0
            if not is_entry.all():
                lengths = np.diff(np.concatenate([[0], np.cumsum(is_entry)])[block.indptr])
                features, values = features[is_entry], values[is_entry]
        self._check(block, features, lengths, first_row)
        if values is not None and self._are_ones and not (values == 1).all():
            self._are_ones, values_before = False, self._n_entries
            self._values = [np.ones(values_before, self._files.dtype)]
        if not self._are_ones:
            values = np.ones(len(features), self._files.dtype) if values is None else values
            self._are_int8 = self._are_int8 and _fit_int8(values)
            self._values.append(values)
        self._lengths.append(lengths.astype(np.int32))
        self._most = max(self._most, int(features.max(initial=0)) if len(features) and self._table is None else -1)
        self._features.append(
            self._table.numbers_of(np.ascontiguousarray(features, np.uint64))
            if self._table is not None
            else features.astype(np.uint32 if self._most < 2**32 else np.uint64)
        )
        self.n_rows += len(lengths)
        self._n_entries += len(features)
        return len(lengths)

    def _check(self, block: Any, features: np.ndarray, lengths: np.ndarray, first_row: int) -> None:
        """Refuse rows whose features do not ascend, or are not columns."""
        ends = np.cumsum(lengths)
        does_rise = features[1:] > features[:-1]
        does_rise[ends[(ends > 0) & (ends < len(features))] - 1] = True  # between rows
        n_features = self._files.n_features
        if not does_rise.all():
            entry = int(np.argmin(does_rise)) + 1
            row = first_row + int(np.searchsorted(ends, entry, "right"))
            problem = (
                f"expected distinct features in ascending order, found {features[entry]} after {features[entry - 1]}"
            )
            raise DataError(problem, f"row {row}", "sort the features of each row, and sum duplicates")
        if n_features is not None and not self._files.has_ids and int(features.max(initial=0)) >= max(1, n_features):
            entry = int(np.argmax(features >= n_features))
            row = first_row + int(np.searchsorted(ends, entry, "right"))
            raise DataError(f"expected columns below {n_features}, found {features[entry]}", f"row {row}", "fix it")

    def write(self, name: str, order: np.ndarray | None) -> EntryRun:
        """Write the rows to files, in this order if one is given, and remove them."""
        lengths = np.concatenate([np.empty(0, np.int32), *self._lengths])
        rows = Rows(
            lengths,
            np.concatenate([np.empty(0, np.uint32 if self._table is None else np.int32), *self._features]),
            np.concatenate([np.empty(0, self._files.dtype), *self._values]) if not self._are_ones else NO_VALUES,
        )
        self._lengths, self._features, self._values = [], [], []
        ids = np.empty(0, np.uint64)
        if self._table is not None:
            by_id = np.argsort(self._table.ids)
            ids, place = self._table.ids[by_id], np.empty(len(by_id), np.uint32)
            place[by_id] = np.arange(len(by_id), dtype=np.uint32)
            rows = rows._replace(features=place[rows.features])
            write_array(self._files.path(name, "ids"), ids)
        if order is not None:
            write_array(self._files.path(name, "lengths"), lengths)
        self._files.write(name, rows, order)
        run = EntryRun(
            name, self.n_rows, self._n_entries, rows.features.dtype.name, len(ids), self._most + 1,
            self._are_ones, self._are_int8, "" if order is None else SORTED,
        )  # fmt: skip
        self._clear()
        return run


def _place(block: Any, entry: int, first_row: int) -> str:
    """Return the place of an entry in a block, for a message."""
    row = int(np.searchsorted(block.indptr, entry, "right")) - 1
    number = int(block.features[entry])
    named = block.names
    at = np.flatnonzero(named.ids == number) if named is not None else np.empty(0, int)
    if len(at):
        name = bytes(named.text[named.offsets[at[0]] : named.offsets[at[0] + 1]]).decode(errors="replace")
        return f"column {name!r}, row {first_row + row}"
    return f"feature {number}, row {first_row + row}"


def _fit_int8(values: np.ndarray) -> bool:
    return values.dtype == np.int8 or bool(((values >= -128) & (values <= 127) & (values == np.rint(values))).all())


class EntryRuns(SortedRuns):
    """All rows of entries of a source, in its order."""

    @property
    def are_ones(self) -> bool:
        """Whether all values are 1."""
        return all(run.are_ones for run in self.runs)

    @property
    def values(self) -> str:
        """How the values are stored; see `SparseHeader`."""
        if self.are_ones:
            return "ones"
        return "int8" if all(run.are_int8 for run in self.runs) else self.files.dtype.name

    def read(self, k: int, n_rows: int, first_row: int, first_entry: int = 0) -> Rows:
        """Return consecutive rows of a run, in the order of its files, with columns as features."""
        run, files = self.runs[k], self.files
        lengths = np.fromfile(files.path(run.name, f"{run.order}lengths"), np.int32, n_rows, offset=4 * first_row)
        n_entries = int(lengths.sum(dtype=np.int64))
        number = np.dtype(run.number_type)
        path = files.path(run.name, f"{run.order}features")
        features = np.fromfile(path, number, n_entries, offset=number.itemsize * first_entry)
        if files.has_ids and n_entries:
            columns = np.memmap(files.path(run.name, "columns"), np.int64, "r", shape=(run.n_ids,))
            features = columns[features]
        if self.are_ones:
            return Rows(lengths, features, NO_VALUES)
        if run.are_ones:
            return Rows(lengths, features, np.ones(n_entries, files.dtype))
        path = files.path(run.name, f"{run.order}values")
        values = np.fromfile(path, files.dtype, n_entries, offset=files.dtype.itemsize * first_entry)
        return Rows(lengths, features, values)

    def gathered_rows(self, band: Band) -> Rows:
        """Return the rows of a band, in the stored order."""
        places, parts = zip(*self.gathered(band), strict=True)
        rows, place = Rows(*map(np.concatenate, zip(*parts, strict=True))), np.concatenate(places)
        if (np.diff(place) == 1).all():
            return rows
        order = np.empty(len(place), np.int64)
        order[place] = np.arange(len(place))
        return rows.taken(order)


def sort_entry_run(sorted_runs: EntryRuns, seed: int, k: int) -> dict[str, Any]:
    """Sort the rows of a run; the result goes to other files, since a task of a lost worker is repeated.

    This is a saved step, with the sorted run as ``"run"``.
    """
    run, files = sorted_runs.runs[k], sorted_runs.files
    features = np.fromfile(files.path(run.name, "features"), run.number_type)
    values = NO_VALUES if run.are_ones else np.fromfile(files.path(run.name, "values"), files.dtype)
    files.write(run.name, Rows(files.lengths_of(run), features, values), sorted_runs.order_of(k, seed))
    return {"run": run._replace(order=SORTED), "files": files_of(files.folder, f"{run.name}.{SORTED}")}
