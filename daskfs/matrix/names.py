"""Column names without a list of them: read on demand, or generated from the column's number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.errors import did_you_mean

DataError = errors.DataError.about("shapes")

NAME_NBYTES = 80
"""Bytes of a name in memory: a str of about ten letters, and the pointer to it."""


def columns_of_table(names: np.ndarray, several: Mapping[str, tuple[int, int]]) -> np.ndarray:
    """Return the table column of each feature. `several` lists columns with more than one feature: first and end."""
    found = names.copy()
    for name, (first, stop) in several.items():
        found[first:stop] = name
    return found


class Names(Sequence[str]):
    """Names of n columns: given, or by default x0, x1, ...

    Parameters
    ----------
    n_features : int
    given : ndarray of shape (n_features,), or a function that reads one, optional

    Notes
    -----
    Names compare, index and convert like an object array of str: ``names[3]`` is a str, ``names[[1, 3]]`` and
    ``np.asarray(names)`` are arrays. Default names are generated only for the columns that are requested.

    Examples
    --------
    >>> names = Names(10**9)
    >>> names[123_456_789], names.index("x17"), len(names)
    ('x123456789', 17, 1000000000)
    >>> Names(2, np.array(["age", "income"])) == ["age", "height"]
    array([ True, False])
    """

    def __init__(self, n_features: int, given: np.ndarray | Callable[[], np.ndarray] | None = None) -> None:
        self._n_features = n_features
        self._read = given if callable(given) else None
        self._array = None if given is None or callable(given) else given

    @property
    def are_given(self) -> bool:
        """Whether names were given. Reads nothing."""
        return self._read is not None or self._array is not None

    @property
    def given(self) -> np.ndarray | None:
        """The given names, of shape (n_features,); None for default names."""
        if self._array is None and self._read is not None:
            self._array = self._read()
        return self._array

    @property
    def held_nbytes(self) -> int:
        """Bytes that the names take in memory once they are read."""
        return NAME_NBYTES * self._n_features if self.are_given else 0

    @property
    def are_default(self) -> bool:
        """Whether they are x0, x1, ..., which count as no names even if they were given."""
        given = self.given
        return given is None or all(str(name) == f"x{j}" for j, name in enumerate(given))

    def array(self) -> np.ndarray:
        """Return all names, an object array of str of shape (n_features,)."""
        given = self.given
        return self._default(np.arange(self._n_features)) if given is None else given

    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the first column with this name, from `start` and before `stop`.

        Raises
        ------
        DataError
            No column has this name.
        """
        stop = self._n_features if stop is None else min(stop, self._n_features)
        given, name = self.given, str(name)
        if given is not None:
            found = np.flatnonzero(given[start:stop] == name)
            if len(found):
                return start + int(found[0])
        elif name[:1] == "x" and name[1:].isdecimal() and name == f"x{int(name[1:])}" and start <= int(name[1:]) < stop:
            return int(name[1:])
        near = "" if given is None else did_you_mean(name, given.tolist())
        raise DataError(f"expected the name of a column, found {name!r}{near}", "names", "use one of the names")

    def places(self, wanted: Set[str]) -> dict[str, int]:
        """Return the first column of each wanted name that exists. All names are scanned once.

        Examples
        --------
        >>> Names(4, np.array(["a", "b", "a", "c"])).places({"a", "c", "d"})
        {'a': 0, 'c': 3}
        """
        found: dict[str, int] = {}
        for column, name in enumerate(self) if wanted else ():
            if name in wanted:
                found.setdefault(str(name), column)
        return found

    def describe(self, column: int) -> str:
        """Return a column's name, or its number if it has no name, for error messages."""
        return f"column {str(self[column])!r}" if self.are_given else f"column {column}"

    def __len__(self) -> int:
        return self._n_features

    def __getitem__(self, key: Any) -> Any:
        given = self.given
        if given is not None:
            return given[key]
        if isinstance(key, (int, np.integer)):
            return f"x{range(self._n_features)[key]}"
        if isinstance(key, slice):
            return self._default(np.arange(*key.indices(self._n_features)))
        chosen = np.asarray(key)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        return self._default(np.array([range(self._n_features)[j] for j in chosen.tolist()], dtype=np.int64))

    def __iter__(self) -> Iterator[str]:
        given = self.given
        return (f"x{j}" for j in range(self._n_features)) if given is None else iter(given)

    def __contains__(self, name: object) -> bool:
        try:
            self.index(name)
        except errors.DataError:
            return False
        return True

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.array()
        return np.array(array, dtype=dtype) if copy else np.asarray(array, dtype=dtype)

    def __eq__(self, other: object) -> Any:
        return self.array() == (other.array() if isinstance(other, Names) else other)

    def __ne__(self, other: object) -> Any:
        return self.array() != (other.array() if isinstance(other, Names) else other)

    __hash__ = None  # type: ignore[assignment]  # compared element by element, as arrays are

    def tolist(self) -> list[str]:
        """Return all names as a list of str."""
        return list(self)

    def __repr__(self) -> str:
        shown = ", ".join(repr(str(self[j])) for j in range(min(3, len(self))))
        return f"<Names: {shown}{', ...' if len(self) > 3 else ''} ({len(self):,})>"

    @staticmethod
    def _default(columns: np.ndarray) -> np.ndarray:
        names = np.empty(len(columns), dtype=object)
        names[:] = [f"x{j}" for j in columns.tolist()]
        return names


def distinct(names: list[str]) -> list[str]:
    """Return distinct names: repeated ones are numbered.

    Examples
    --------
    >>> distinct(["rs1", "rs2", "rs1", "rs1"])
    ['rs1', 'rs2', 'rs1#2', 'rs1#3']
    """
    given = set(names)
    if len(given) == len(names):
        return names
    counts: dict[str, int] = {}
    found = []
    for name in names:
        count = counts.get(name, 0) + 1
        while count > 1 and f"{name}#{count}" in given:
            count += 1
        counts[name] = count
        found.append(name if count == 1 else f"{name}#{count}")
    return found
