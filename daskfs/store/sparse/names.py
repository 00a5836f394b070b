"""Names of the columns of a sparse store: for all, some or none of the columns; read on demand.

    names/text     (names_nbytes,) uint8   in UTF-8, concatenated, by ascending column
    names/ends     (n_names,) int64        end of each name
    names/columns  (n_names,) int64        columns with a name; absent if all have one

A column without a name is named by its id, or by its number: as in the file, if the header has the first number,
otherwise x0, x1, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.store.header import SparseHeader
from daskfs.store.names import AT_ONCE, StoredNames

DataError = errors.DataError.about("shapes")


class SparseNames(StoredNames):
    """Names of the columns of a sparse store, read on demand.

    Parameters
    ----------
    header : SparseHeader
    open_array : callable
        Returns the reader of an array, given its name.
    """

    def __init__(self, header: SparseHeader, open_array: Callable[[str], Any]) -> None:
        super().__init__(header.shape[1])
        self._header, self._open = header, open_array

        self._prefix, self._first = ("x", 0) if header.first_number is None else ("", header.first_number)

    @cached_property
    def _ids(self) -> Any:
        return self._open("ids") if self._header.has_ids else None

    @cached_property
    def _ends(self) -> Any:
        return self._open("names/ends")

    @cached_property
    def _text(self) -> Any:
        return self._open("names/text")

    @cached_property
    def _named(self) -> Any:
        """Reader of the columns with a name; None if all columns have one, or none has."""
        return self._open("names/columns") if 0 < self._header.n_names < len(self) else None

    @property
    def are_given(self) -> bool:
        """Whether columns have names, ids or their own numbers."""
        return self._header.has_ids or self._header.n_names > 0 or self._header.first_number is not None

    @property
    def given(self) -> np.ndarray | None:
        """All names, unless there are too many; None if names are numbers, which are generated on demand."""
        return None if self._are_numbers else super().given

    @property
    def held_nbytes(self) -> int:
        """Memory for names once they were requested, in bytes."""
        return 0 if self._are_numbers else super().held_nbytes

    @property
    def _are_numbers(self) -> bool:
        return not self._header.has_ids and not self._header.n_names

    @property
    def are_default(self) -> bool:
        """Whether columns have neither names nor ids."""
        return not self.are_given

    def describe(self, column: int) -> str:
        """Return a column's name, or its id or number if it has none, for an error message."""
        if self._positions(np.array([column]))[0] >= 0:
            return f"column {str(self[column])!r}"
        if self._header.first_number is not None:
            return f"column {str(self[column])!r}"
        return f"column of id {self[column]}" if self._header.has_ids else f"column {column}"

    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the column with this name or id.

        Raises
        ------
        DataError
            There is no such column.
        """
        stop, text = len(self) if stop is None else min(stop, len(self)), str(name)
        for column in (*self._columns_named(text.encode()), *self._column_of_id(text)):
            if start <= column < stop:
                return column
        number = text.removeprefix(self._prefix)
        if not self._header.has_ids and number.isdecimal() and text == f"{self._prefix}{int(number)}":
            column = int(number) - self._first
            if start <= column < stop and self._positions(np.array([column]))[0] < 0:
                return column
        raise DataError(f"expected the name of a column, found {text!r}", "names", "use one of the names")

    def of(self, columns: np.ndarray) -> np.ndarray:
        """Return the names of columns, an object array of str."""
        found = np.empty(len(columns), dtype=object)
        positions = self._positions(columns)
        is_bare = positions < 0
        bare = columns[is_bare]
        if self._ids is not None:
            found[is_bare] = [str(number) for number in self._ids.read(bare).tolist()]
        else:
            found[is_bare] = [f"{self._prefix}{j}" for j in (bare + self._first).tolist()]
        if not is_bare.all():
            found[~is_bare] = self._texts(positions[~is_bare])
        return found

    def _texts(self, positions: np.ndarray) -> list[str]:
        """Return names by their positions among the names."""
        stops = self._ends.read(positions)
        starts = np.where(positions > 0, self._ends.read(np.maximum(positions - 1, 0)), 0)
        order, texts = np.argsort(starts), [""] * len(positions)
        far = np.flatnonzero(np.diff(starts[order]) > AT_ONCE) + 1  # nearby names are read together
        for near in np.split(order, far):
            first, last = int(starts[near[0]]), int(stops[near].max())
            text = self._text.read(slice(first, last)).tobytes()
            for k, start, stop in zip(near.tolist(), starts[near].tolist(), stops[near].tolist(), strict=True):
                texts[k] = text[start - first : stop - first].decode(errors="replace")
        return texts

    def _positions(self, columns: np.ndarray) -> np.ndarray:
        """Return the positions of columns among the named ones, -1 for those without a name."""
        n_names = self._header.n_names
        if not n_names or self._named is None:
            return columns if n_names else np.full(len(columns), -1)
        low, high = np.zeros(len(columns), np.int64), np.full(len(columns), n_names)
        while (low < high).any():  # bisection for all columns at once reads few of the many chunks
            middle = (low + high) // 2
            is_less = self._named.read(np.minimum(middle, n_names - 1)) < columns
            low, high = np.where(is_less & (low < high), middle + 1, low), np.where(is_less, high, middle)
        at = np.minimum(low, n_names - 1)
        return np.where(self._named.read(at) == columns, at, -1)

    def _columns_named(self, name: bytes) -> Iterator[int]:
        """Yield the columns with this name; searches all names, a batch at a time."""
        begin = 0
        for start in range(0, self._header.n_names, AT_ONCE):
            ends = self._ends.read(slice(start, start + AT_ONCE))
            starts = np.concatenate([[begin], ends[:-1]])
            text = self._text.read(slice(begin, int(ends[-1]))).tobytes()
            for k in np.flatnonzero(ends - starts == len(name)).tolist():
                if text[starts[k] - begin : ends[k] - begin] == name:
                    yield (
                        start + k if self._named is None else int(self._named.read(slice(start + k, start + k + 1))[0])
                    )
            begin = int(ends[-1])

    def _column_of_id(self, text: str) -> Iterator[int]:
        """Yield the column with this id, if it has no name."""
        if self._ids is None or not text.isdecimal() or int(text) >= 2**64:
            return
        wanted, low, high = int(text), 0, len(self)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._id_of(middle) < wanted else (low, middle)
        if low < len(self) and self._id_of(low) == wanted and self._positions(np.array([low]))[0] < 0:
            yield low

    def _id_of(self, column: int) -> int:
        return int(self._ids.read(slice(column, column + 1))[0])
