"""Interface of all sparse sources: rows as entries, with features given by number or 64-bit id."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from daskfs import errors
from daskfs.sources.base import Source, SourceBlock

SourceError = errors.SourceError.about("sparse-rows")

MOST_COLUMNS = 2**31
"""Maximum number of columns; ids may be more numerous."""
GUESSED_ENTRIES = 100
"""Assumed number of entries per row, if the source gives none."""


class BlockNames(Protocol):
    """Names passed on by a block, as in `NamedIds`, possibly created on demand."""

    @property
    def ids(self) -> np.ndarray:
        """Ids of all names."""

    @property
    def text(self) -> np.ndarray:
        """The names in UTF-8, concatenated."""

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the names in `text`, and its end."""

    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return at least the names of the wanted ids, each id once."""

    def of_rows(self, first: int, stop: int) -> BlockNames:
        """Return at least the names that occur in some rows of the block."""


@dataclass(frozen=True, slots=True)
class NamedIds:
    """Names of feature ids, without a Python object for each.

    Attributes
    ----------
    ids : uint64 array of shape (n_names,)
        Distinct within a block; they may occur again in other blocks if the source does not track them.
    text : uint8 array
        The names in UTF-8, concatenated.
    offsets : int64 array of shape (n_names + 1,)
        Name k is ``text[offsets[k]:offsets[k + 1]]``.
    """

    ids: np.ndarray
    text: np.ndarray
    offsets: np.ndarray

    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return all names: they exist already."""
        return self

    def of_rows(self, first: int, stop: int) -> NamedIds:
        """Return all names."""
        return self

    @classmethod
    def of_columns(cls, names: Sequence[str] | np.ndarray) -> NamedIds:
        """Return the names of columns 0, 1, ..."""
        texts = [name.encode() for name in names]
        text = np.frombuffer(b"".join(texts), np.uint8)
        return cls(np.arange(len(texts), dtype=np.uint64), text, np.cumsum([0, *map(len, texts)]))


def numbered(ids: np.ndarray, first: int = 0) -> NamedIds:
    """Return names for ids: their numbers, plus `first`."""
    texts = [str(j + first).encode() for j in ids.tolist()]
    return NamedIds(ids, np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)]))


class NamesOnDemand(ABC):
    """Names that are created only when requested."""

    @abstractmethod
    def among(self, wanted: np.ndarray) -> NamedIds:
        """Return at least the names of the wanted ids, each id once."""

    @abstractmethod
    def of_rows(self, first: int, stop: int) -> BlockNames:
        """Return at least the names that occur in some rows of the block."""

    @abstractmethod
    def _every(self) -> NamedIds:
        """Return the names of all features in the block."""

    @cached_property
    def _all(self) -> NamedIds:
        return self._every()

    @property
    def ids(self) -> np.ndarray:
        """Distinct ids of all features in the block."""
        return self._all.ids

    @property
    def text(self) -> np.ndarray:
        """The names in UTF-8, concatenated."""
        return self._all.text

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the names in `text`, and its end."""
        return self._all.offsets


@dataclass(slots=True)
class SparseBlock:
    """Consecutive rows of a sparse source as entries, in the source's order, without dropped rows.

    Attributes
    ----------
    start : int
        Number of the first row, not counting dropped rows (in the source, or in the part that is read).
    indptr : int64 array of shape (n_rows + 1,)
        Row i has the entries ``indptr[i]`` to ``indptr[i + 1]``.
    features : uint64 array of shape (nnz,)
        Ids of features, or column numbers from 0: ascending and distinct within each row.
    data : float32 array of shape (nnz,), or None
        None if all entries are 1. Explicit zeros are allowed.
    y : ndarray of shape (n_rows,) or (n_rows, n_targets), or None
        Targets, float64.
    weight : ndarray of shape (n_rows,), or None
        Sample weights, float64.
    labels : dict of str to ndarray of shape (n_rows,)
        Tags, query ids and split columns, as text.
    names : BlockNames, or None
        Names of features in this block; includes all that no earlier block had.
    """

    start: int
    indptr: np.ndarray
    features: np.ndarray
    data: np.ndarray | None
    y: np.ndarray | None = None
    weight: np.ndarray | None = None
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    names: BlockNames | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1


class SparseSource(Source):
    """Rows that are read as entries; features without an entry are zero.

    Attributes
    ----------
    features_are_ids : bool
        True if features are 64-bit ids (hashes of names, or numbers too large for columns), of which a store lists
        those that occur; False if they are column numbers.
    n_features : int or None
        Number of columns; None for ids, and before a file without a header has been read.
    first_number : int or None
        The number in the first column's name, from which the others count up; None if names are not numbers.
    namespace_mark : str or None
        Separator of namespace and feature in a name: "^" or "="; None if there are no namespaces.
    namespaces : sequence of str or None
        Names of the namespaces, if known before reading.
    ids_say_names : bool
        Whether `names_of` can name any id, so that blocks need not be asked for names.
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
        """Names of all columns, if known before reading; otherwise None."""
        return None

    def names_of(self, ids: np.ndarray) -> NamedIds:
        """Return the names of ids, each once; requires `ids_say_names`."""
        raise NotImplementedError

    def estimate_entries(self) -> int:
        """Return the number of entries, or an estimate of it, without reading the whole source."""
        n_samples, n_features = self.estimate_shape()
        return (n_samples or 0) * min(n_features, GUESSED_ENTRIES)

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return (n_samples, n_features) as far as they are known."""
        return self.n_samples, self.n_features or 0

    @abstractmethod
    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows in order, in blocks of at most `block_rows` rows and `block_nnz` entries, or one row.

        Raises
        ------
        SourceError, SchemaError, DataError
            With the place (file, line, column, value) and the remedy.
        """

    def row_blocks(self, block_rows: int, dtype: np.dtype | type = np.float64) -> Iterator[SourceBlock]:
        """Yield dense rows of all columns, with zeros for missing entries; features must be column numbers.

        Raises
        ------
        SourceError
            Features are ids, for which there are no dense rows.
        """
        n_features = self.n_features
        if n_features is None:
            raise SourceError(
                "features are 64-bit ids, which have no dense rows", self.kind, "read them as sparse rows"
            )
        for block in self.sparse_blocks(block_rows, np.iinfo(np.int64).max):
            X = np.zeros((block.n_rows, n_features), dtype)
            rows = np.repeat(np.arange(block.n_rows), np.diff(block.indptr))
            X[rows, block.features] = 1.0 if block.data is None else block.data
            yield SourceBlock(block.start, X, block.y, block.weight, block.labels)

    def as_it_stands(self) -> SparseSource:
        """Return a source for readers that accept unsorted rows with duplicate features, if that is faster.

        By default the source itself.
        """
        return self

    def sparse_part_blocks(self, part: Any, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows of one of `parts()` as `sparse_blocks` does, numbered within the part.

        Raises
        ------
        NotInPartsError
            The source must be read as a whole.
        SourceError, SchemaError, DataError
            As by `sparse_blocks`, if no part before this one has a fault.
        """
        raise NotImplementedError
