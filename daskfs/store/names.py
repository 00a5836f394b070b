"""Names of a store's columns; if there are many, only those requested are in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.matrix.names import NAME_NBYTES, Names

DataError = errors.DataError.about("shapes")

MOST_LISTED = 1 << 20
"""Maximum number of columns whose names are kept as a list."""
AT_ONCE = 1 << 16
"""Number of names read at a time when all are needed."""


class StoredNames(Names):
    """Names of a store's columns, read on demand.

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)

    @abstractmethod
    def of(self, columns: np.ndarray) -> np.ndarray:
        """Return the names of columns, an object array of str."""

    @property
    def given(self) -> np.ndarray | None:
        """All names, unless there are too many."""
        return self._listed if self.are_given and len(self) <= MOST_LISTED else None

    @property
    def held_nbytes(self) -> int:
        """Memory for names once they were requested, in bytes; if there are many, for those read at a time."""
        return super().held_nbytes if len(self) <= MOST_LISTED else NAME_NBYTES * 2 * AT_ONCE

    @cached_property
    def _listed(self) -> np.ndarray:
        return self.array()

    def array(self) -> np.ndarray:
        """Return all names, an object array of str of shape (n_features,)."""
        return self.of(np.arange(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, np.integer)):
            return self.of(np.array([range(len(self))[key]]))[0]
        if isinstance(key, slice):
            return self.of(np.arange(*key.indices(len(self))))
        chosen = np.asarray(key)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        return self.of(np.array([range(len(self))[j] for j in chosen.tolist()], dtype=np.int64))

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), AT_ONCE):
            yield from self[start : start + AT_ONCE]


class DenseNames(StoredNames):
    """Names of the columns of a dense store, in which every column has one.

    Parameters
    ----------
    n_features : int
    open_texts : callable
        Opens the array of the names, a `StringReader`.
    """

    def __init__(self, n_features: int, open_texts: Callable[[], Any]) -> None:
        super().__init__(n_features)
        self._open = open_texts

    @cached_property
    def _texts(self) -> Any:
        return self._open()

    @property
    def are_given(self) -> bool:
        """Whether columns have names: True."""
        return True

    @cached_property
    def are_default(self) -> bool:  # type: ignore[override]
        """Whether they are x0, x1, ..., which counts as having no names."""
        return all(name == f"x{j}" for j, name in enumerate(self))

    def array(self) -> np.ndarray:
        """Return all names, an object array of str of shape (n_features,)."""
        return self._texts.read()

    def of(self, columns: np.ndarray) -> np.ndarray:
        """Return the names of columns, an object array of str."""
        if len(self) <= MOST_LISTED:
            return self._listed[columns]
        return self._texts.read_at(columns)

    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the first column with this name in the range from `start` to before `stop`.

        Raises
        ------
        DataError
            No column has this name.
        """
        if len(self) <= MOST_LISTED:
            return super().index(name, start, stop)
        name, stop = str(name), len(self) if stop is None else min(stop, len(self))
        for first in range(start, stop, AT_ONCE):
            found = np.flatnonzero(self[first : min(first + AT_ONCE, stop)] == name)
            if len(found):
                return first + int(found[0])
        raise DataError(f"expected the name of a column, found {name!r}", "names", "use one of the names")
