"""What every sparse source offers: its rows as entries, features by number or by 64-bit id."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from daskfs.errors import SourceError
from daskfs.sources.base import Source, SourceBlock

MOST_COLUMNS = 2**31
"""Of features that are numbers of columns; there may be more that are ids."""
GUESSED_ENTRIES = 100
"""Of a row, where a source does not say."""


class ToldNames(Protocol):
    """Names that a block tells: as those of `NamedIds`, which may be made when they are asked for."""

    @property
    def ids(self) -> np.ndarray:
        """Of all that are told."""

    @property
    def text(self) -> np.ndarray:
        """Their names, one after the other."""

    @property
    def offsets(self) -> np.ndarray:
        """Where each begins, and the last ends."""

    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return those names whose ids are wanted, each id once, and maybe others."""

    def of_rows(self, first: int, stop: int) -> ToldNames:
        """Return the names of some rows of the block, and maybe others."""


@dataclass(frozen=True, slots=True)
class NamedIds:
    """Texts of feature ids, without a Python object each.

    Attributes
    ----------
    ids : uint64 array of shape (n_names,)
        Each at most once in a block; in several blocks where a source does not remember what it has told.
    text : uint8 array
        The names in UTF-8, one after the other.
    offsets : int64 array of shape (n_names + 1,)
        Name k is ``text[offsets[k]:offsets[k + 1]]``.
    """

    ids: np.ndarray
    text: np.ndarray
    offsets: np.ndarray

    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return all, which are there anyway."""
        return self

    def of_rows(self, first: int, stop: int) -> NamedIds:
        """Return all, too."""
        return self

    @classmethod
    def of_columns(cls, names: Sequence[str] | np.ndarray) -> NamedIds:
        """Return the names of columns 0, 1, ..."""
        texts = [name.encode() for name in names]
        text = np.frombuffer(b"".join(texts), np.uint8)
        return cls(np.arange(len(texts), dtype=np.uint64), text, np.cumsum([0, *map(len, texts)]))


def numbered(ids: np.ndarray, first: int = 0) -> NamedIds:
    """Return ids with their numbers as names, which begin with `first`."""
    texts = [str(j + first).encode() for j in ids.tolist()]
    return NamedIds(ids, np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)]))


class NamesOnDemand(ABC):
    """Names that are put together for whoever asks for them."""

    @abstractmethod
    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return those names whose ids are wanted, each id once, and maybe others."""

    @abstractmethod
    def of_rows(self, first: int, stop: int) -> ToldNames:
        """Return the names of some rows of the block, and maybe others."""

    @abstractmethod
    def _every(self) -> NamedIds:
        """Return the names of all features of the block."""

    @cached_property
    def _all(self) -> NamedIds:
        return self._every()

    @property
    def ids(self) -> np.ndarray:
        """Of all features of the block, each once."""
        return self._all.ids

    @property
    def text(self) -> np.ndarray:
        """Their names, one after the other."""
        return self._all.text

    @property
    def offsets(self) -> np.ndarray:
        """Where each begins, and the last ends."""
        return self._all.offsets


@dataclass(slots=True)
class SparseBlock:
    """Consecutive rows of a sparse source as their entries, in the source's order, after rows were dropped.

    Attributes
    ----------
    start : int
        Number of the first row among the rows that are kept (of the source, or of the part that is read).
    indptr : int64 array of shape (n_rows + 1,)
        Row i has the entries ``indptr[i]`` to ``indptr[i + 1]``.
    features : uint64 array of shape (nnz,)
        Ids of features, or numbers of columns from 0 on: ascending in each row, each once.
    data : float32 array of shape (nnz,), or None
        None: every entry is one. Zeros may be among them.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets), or None
        Targets, float64.
    weight : ndarray of shape (n_rows,), or None
        Sample weights, float64.
    labels : dict of str to ndarray of shape (n_rows,)
        Tags, query ids and split columns, as text.
    names : ToldNames, or None
        Names of features of this block; all that were not told in a block before, or more.
    """

    start: int
    indptr: np.ndarray
    features: np.ndarray
    data: np.ndarray | None
    y: np.ndarray | None = None
    weight: np.ndarray | None = None
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    names: ToldNames | None = None

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.indptr) - 1


class SparseSource(Source):
    """Rows that are read as their entries; what is not there is zero.

    Attributes
    ----------
    features_are_ids : bool
        True where features are 64-bit ids (hashes of names, numbers beyond all columns), of which a store lists those
        that occur; False where they are numbers of columns.
    n_features : int or None
        Number of columns, or None while it is not known: of ids, and before a file without a header was read.
    first_number : int or None
        By which the first column is called, and the others by the next; None where they are called otherwise.
    namespace_mark : str or None
        Stands between namespace and feature in a name: "^" or "="; None where there are no namespaces.
    namespaces : sequence of str or None
        Their names, where they are known before reading.
    ids_say_names : bool
        Ids are read as names, so that `names_of` tells those of any; what learns from rows need not ask each block.
    """

    is_sparse: ClassVar[bool] = True
    features_are_ids: bool = False
    n_features: int | None = None
    first_number: int | None = None
    namespace_mark: str | None = None
    namespaces: Sequence[str] | None = None
    ids_say_names: bool = False

    @property
    def column_names(self) -> Sequence[str] | None:
        """Names of all columns, where they are known beforehand; None where there are none."""
        return None

    def names_of(self, ids: np.ndarray) -> NamedIds:
        """Return the names of ids, each once, where `ids_say_names`."""
        raise NotImplementedError

    def estimate_entries(self) -> int:
        """Return how many entries all rows have, or a guess of it, without reading the whole source."""
        n_samples, n_features = self.estimate_shape()
        return (n_samples or 0) * min(n_features, GUESSED_ENTRIES)

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return (n_samples, n_features) as far as they are known."""
        return self.n_samples, self.n_features or 0

    @abstractmethod
    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows in order, in blocks of at most so many rows and entries (one row may have more).

        Raises
        ------
        SourceError, SchemaError, DataError
            Each with the place (file, line, column, value) and the remedy.
        """

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield rows of all columns, which are numbers: zeros where there are no entries.

        Raises
        ------
        SourceError
            Features are ids, of which there are no dense rows.
        """
        n_features = self.n_features
        if n_features is None:
            raise SourceError(
                "features are 64-bit ids, of which there are no dense rows", self.kind, "read them as they are"
            )
        for block in self.sparse_blocks(block_rows, np.iinfo(np.int64).max):
            X = np.zeros((block.n_rows, n_features), dtype)
            rows = np.repeat(np.arange(block.n_rows), np.diff(block.indptr))
            X[rows, block.features] = 1.0 if block.data is None else block.data
            yield SourceBlock(block.start, X, block.y, block.weight, block.labels)

    def as_it_stands(self) -> SparseSource:
        """Return the source whose rows need not ascend, for who takes entries in any order, a feature maybe twice.

        This one, where that would be no faster.
        """
        return self

    def sparse_part_blocks(self, part: Any, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows of one of `parts()` as `sparse_blocks` does, numbered within the part.

        Raises
        ------
        DaskfsError
            The source is to be read as a whole.
        """
        raise NotImplementedError
