"""One-hot encoded tables as entries: categories with any number of levels, which are not listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskfs import errors
from daskfs.kernels.text import hashes, ngrams
from daskfs.kernels.text.one_hot import gather_entries
from daskfs.sources.encoded_block import FilledBlock
from daskfs.sources.encoders.base import MISSING, OTHER, BadValue, Encoder, refuse_missing
from daskfs.sources.encoders.category import CategoryEncoder
from daskfs.sources.encoders.number import checked_numbers, fill_of
from daskfs.sources.levels import bytes_of, distinct_texts, ids_of, seed_of
from daskfs.sources.log_bins import bins
from daskfs.sources.sparse.base import NamedIds, SparseBlock
from daskfs.sources.sparse.lines import joined
from daskfs.sources.sparse.over import OverSource
from daskfs.sources.survey import is_open
from daskfs.sources.table import TableSource
from daskfs.sources.table_schema import ColumnSchema

SchemaError = errors.SchemaError.about("sparse-rows")

_HEAD_ROWS, _HEAD_ENTRIES = 64, 2**16


class Features(Protocol):
    """Features of a column."""

    width: int
    """Maximum number of entries per row."""
    namespaces: list[str]

    def write(self, values: pa.Array, ids: np.ndarray, data: np.ndarray) -> NamedIds:
        """Write entries of shape (n_rows, width), with `hashes.NO_ID` for no entry; return the names of these ids."""


class Levels:
    """A category whose levels are identified by their ids.

    Parameters
    ----------
    name : str
        Name of the column.
    missing : {"error", "drop", "zero", "category"}
    kept : ndarray of uint64, optional
        Ids of the levels that are features, ascending; others are pooled as "other". By default all are features.
    """

    width = 1

    def __init__(self, name: str, missing: str, kept: np.ndarray | None) -> None:
        self._name, self._missing, self._kept = name, missing, kept
        self.namespaces = [name]
        self._seed, self._prefix = seed_of(name), np.frombuffer(f"{name}=".encode(), np.uint8)
        self._reserved = [OTHER] * (kept is not None) + [MISSING] * (missing == "category")
        self._own_ids = dict(zip(self._reserved, ids_of(*joined(self._reserved), self._seed), strict=True))

    def write(self, values: pa.Array, ids: np.ndarray, data: np.ndarray) -> NamedIds:
        """Write one entry per row."""
        texts, rows = distinct_texts(values)
        self._refuse(texts, rows)
        text, offsets = bytes_of(texts)
        found = of_levels = ids_of(text, offsets, self._seed)
        if self._kept is not None:
            places = np.minimum(np.searchsorted(self._kept, found), max(0, len(self._kept) - 1))
            is_kept = self._kept[places] == found if len(self._kept) else np.zeros(len(found), bool)
            of_levels = np.where(is_kept, found, self._own_ids[OTHER])
        of_levels = np.append(of_levels, self._own_ids.get(MISSING, hashes.NO_ID))
        ids[:, 0], data[:, 0] = of_levels[rows], 1.0  # -1 is the last
        reserved, more_offsets = joined(self._reserved)
        return _named(
            np.append(found, np.array(list(self._own_ids.values()), np.uint64)),
            np.concatenate([text[: offsets[-1]], reserved]),
            np.append(offsets, offsets[-1] + more_offsets[1:]),
            self._prefix,
        )

    def _refuse(self, texts: pa.Array, rows: np.ndarray) -> None:
        """Refuse missing values if not allowed, and levels with reserved names."""
        refuse_missing(self._name, self._missing, rows)
        for reserved in self._reserved:
            level = pc.index(texts, pa.scalar(reserved, texts.type)).as_py()
            if level >= 0:
                row = int(np.flatnonzero(rows == level)[0])
                raise BadValue(self._name, row, f"a category has the reserved name {reserved!r}", "rename it")


class Coder(Protocol):
    """Encodes a column with listed levels as codes."""

    name: str
    levels: list[str]
    drop_first: bool

    def codes(self, values: pa.Array) -> np.ndarray:
        """Return the level of each row, -1 if there is none."""


class Bins:
    """Bins of a number; see `daskfs.sources.log_bins.bins`.

    Parameters
    ----------
    name : str
    fill : float, optional
        Replaces a missing number.
    has_missing : bool
        Whether missing numbers have a separate level.
    """

    drop_first = False

    def __init__(self, name: str, fill: float | None, *, has_missing: bool) -> None:
        self.name, self._fill, self._has_missing = name, fill, has_missing
        self.levels = [*bins()[1], *([MISSING] if has_missing else [])]

    def codes(self, values: pa.Array) -> np.ndarray:
        """Return the bin of each row."""
        edges, _ = bins()
        fill = 0.0 if self._has_missing else self._fill
        codes = np.searchsorted(edges, checked_numbers(self.name, values, fill=fill), "right")
        if self._has_missing and values.null_count:
            codes[pc.is_null(values).to_numpy(zero_copy_only=False)] = len(self.levels) - 1
        return codes


class Listed:
    """A category with listed levels, or the bins of a number."""

    width = 1

    def __init__(self, coder: Coder) -> None:
        self._coder, self.namespaces = coder, [coder.name]
        self._text, self._offsets = joined(coder.levels)
        self._ids = np.append(ids_of(self._text, self._offsets, seed_of(coder.name)), hashes.NO_ID)
        if coder.drop_first:
            self._ids[0] = hashes.NO_ID
        self._prefix = np.frombuffer(f"{coder.name}=".encode(), np.uint8)

    def write(self, values: pa.Array, ids: np.ndarray, data: np.ndarray) -> NamedIds:
        """Write one entry per row."""
        codes = self._coder.codes(values)
        ids[:, 0], data[:, 0] = self._ids[codes], 1.0  # -1 is the last: no entry
        found = np.unique(codes[self._ids[codes] != hashes.NO_ID])
        starts, stops = self._offsets[found], self._offsets[found + 1]
        return NamedIds(self._ids[found], *_copied(self._text, starts, stops, self._prefix))


class Numbers:
    """Numbers and parts of dates: the output of a dense encoder, without the zeros."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, names = encoder, encoder.feature_names
        self.width = len(names)
        fields = [name.rpartition("=")[0] if hasattr(encoder, "parts") else "" for name in names]
        self.namespaces = list(dict.fromkeys(fields))
        seeds = {field: seed_of(field) if field else np.uint64(0) for field in self.namespaces}
        values = [name.removeprefix(f"{field}=") for name, field in zip(names, fields, strict=True)]
        ids = [ids_of(*joined([value]), seeds[field])[0] for value, field in zip(values, fields, strict=True)]
        text, offsets = joined(names)
        self._named = NamedIds(np.array(ids, np.uint64), text[: offsets[-1]], offsets)

    def write(self, values: pa.Array, ids: np.ndarray, data: np.ndarray) -> NamedIds:
        """Write one entry for each feature."""
        ids[:] = self._named.ids
        self._encoder.encode(values, data)
        return self._named


def _copied(
    text: np.ndarray, starts: np.ndarray, stops: np.ndarray, prefix: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.empty(len(starts) + 1, np.int64)
    out = np.empty(int((stops - starts).sum()) + len(prefix) * len(starts), np.uint8)
    ngrams.copy_names(text, starts, stops, prefix, offsets, out)
    return out, offsets


def _named(ids: np.ndarray, text: np.ndarray, offsets: np.ndarray, prefix: np.ndarray) -> NamedIds:
    return NamedIds(ids, *_copied(text, offsets[:-1], offsets[1:], prefix))


def _together(blocks: Sequence[NamedIds]) -> NamedIds:
    """Return the names of several sets, each id once."""
    ids, text = np.concatenate([names.ids for names in blocks]), np.concatenate([names.text for names in blocks])
    firsts = np.cumsum([0, *(len(names.text) for names in blocks)])
    starts, stops = (
        np.concatenate(
            [names.offsets[k : len(names.ids) + k] + first for names, first in zip(blocks, firsts, strict=False)]
        )
        for k in (0, 1)
    )
    places, slots = np.empty(len(ids), np.int64), np.empty(2 << len(ids).bit_length(), np.uint64)
    where = places[: ngrams.find_first(ids, slots, places)]
    return NamedIds(ids[where], *_copied(text, starts[where], stops[where], np.empty(0, np.uint8)))


class Layout(NamedTuple):
    """Positions of each column's entries in a row."""

    columns: dict[str, Features]
    width: int


class OneHotBlock(FilledBlock[SparseBlock]):
    """A block of entries that is being filled."""

    def __init__(self, start: int, length: int, layout: Layout, table: TableSource) -> None:
        super().__init__(start, length, table)
        self._layout = layout
        self._ids = np.empty((length, layout.width), np.uint64)
        self._data = np.empty((length, layout.width), np.float32)
        self._names: list[NamedIds] = []

    def _encode(self, rows: slice, table: pa.RecordBatch) -> None:
        first = 0
        for name, features in self._layout.columns.items():
            behind = first + features.width
            names = features.write(table[name], self._ids[rows, first:behind], self._data[rows, first:behind])
            self._names.append(names)
            first = behind

    def finished(self) -> SparseBlock:
        """Return the block."""
        ids, values = self._ids[: self.n_rows], self._data[: self.n_rows]
        indptr = np.empty(self.n_rows + 1, np.int64)
        features, data = np.empty(ids.size, np.uint64), np.empty(ids.size, np.float32)
        gather_entries(ids, values, indptr, features, data)
        features, data = features[: indptr[-1]], data[: indptr[-1]]
        are_ones = bool(np.all(data == 1.0))
        names = _together(self._names)
        return SparseBlock(self.start, indptr, features, None if are_ones else data, *self._beside(), names)


class OneHotSource(OverSource[TableSource]):
    """Rows of a table as entries: one for the level of each category, and one for each nonzero number.

    Parameters
    ----------
    source : TableSource
        CSV or Parquet files, data frames of pandas, Dask or polars, or Arrow tables, with their schema.

    Raises
    ------
    SchemaError
        `drop_first` for a category whose levels are not listed.

    Notes
    -----
    The id of a level is ``xxh64(level, seed=xxh64(column, seed=0)) % 2**63`` and its name ``column=level``, as in click
    logs. The id of a number is ``xxh64(column, seed=0) % 2**63``. Levels are not listed: memory holds one block of
    entries and the names in it. With `min_count` or `max_categories`, levels are first counted by id, which takes 16 to
    48 bytes per level.

    The schema is followed: listed categories and `unseen` for others, `missing` (with ``category`` as a separate level
    ``column=missing``), rare levels pooled as ``column=other``, standardised numbers, parts of dates. A level that
    first appears in later files is a new feature, for which no model has a weight; with `min_count` or `max_categories`
    it is ``column=other``.
    """

    namespace_mark = "="

    def __init__(self, source: TableSource) -> None:
        super().__init__(source.by_ids())

    def check(self) -> None:
        """Check the header against the schema."""
        super().check()
        for name, column in self.source.columns.items():
            if is_open(column) and column.drop_first:
                problem = f"drop_first: the first level of '{name}' is unknown before all rows are read"
                raise SchemaError(problem, self.source.place, "list its categories, or omit drop_first")

    @property
    def namespaces(self) -> list[str]:  # type: ignore[override]
        """Columns of the categories; "" is the namespace of numbers."""
        return list(dict.fromkeys(space for one in self._layout().columns.values() for space in one.namespaces))

    @property
    def encoding(self) -> dict[str, Any]:
        """Encoding of the table, and the hash function."""
        return {"table": self.source.encoding, "one_hot": "sparse", "hash": hashes.HASH_NAME, "bins": "log squared"}

    @property
    def encoder(self) -> dict[str, Any]:
        """Encoder of the table, for entries."""
        return {"kind": "one_hot", "of": self.source.encoder}

    @property
    def notes(self) -> list[str]:  # type: ignore[override]
        """Notes on the table, and on pooled levels."""
        return [*self.source.notes, *self._pooled]

    @property
    def _pooled(self) -> list[str]:
        found = []
        for name, counts in self.source.survey.level_counts.items():
            column = self.source.columns[name]
            _, n_rare, n_rows = counts.frequent(column.min_count, column.max_categories)
            if n_rare:
                found.append(
                    f"column '{name}': {n_rare:,} rare categories ({n_rows:,} rows) are pooled: '{name}=other'"
                )
        return found

    def _layout(self) -> Layout:
        columns = {name: self._features(name, self.source.columns[name]) for name in self.source.named("feature")}
        return Layout(columns, sum(features.width for features in columns.values()))

    def _features(self, name: str, column: ColumnSchema) -> Features:
        survey = self.source.survey
        if is_open(column):
            counts = survey.level_counts.get(name)
            kept = None if counts is None else counts.frequent(column.min_count, column.max_categories)[0]
            return Levels(name, str(column.missing), kept)
        if column.encoding == "log_bins":
            mean = survey.moments[name].mean if name in survey.moments else 0.0
            return Listed(Bins(name, fill_of(column, mean), has_missing=column.missing == "category"))
        encoder = self.source.encoders[name]
        return Listed(encoder) if isinstance(encoder, CategoryEncoder) else Numbers(encoder)

    def _new_block(self, block_rows: int, block_nnz: int) -> tuple[int, Callable[[int], OneHotBlock]]:
        layout = self._layout()
        n_rows = max(1, min(block_rows, block_nnz // max(1, layout.width)))
        return n_rows, lambda start: OneHotBlock(start, n_rows, layout, self.source)

    def sparse_blocks(self, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows in order."""
        return self.source.filled(*self._new_block(block_rows, block_nnz))

    def parts(self) -> Sequence[Any]:
        """Return the parts of the table."""
        _ = self.source.encoders  # facts about all rows are found before the source is sent
        return super().parts()

    def sparse_part_blocks(self, part: Any, block_rows: int, block_nnz: int) -> Iterator[SparseBlock]:
        """Yield the rows of a part, numbered within it."""
        self.source.begin_part()
        return self.source.filled(*self._new_block(block_rows, block_nnz), part)

    def estimate_shape(self) -> tuple[int | None, int]:
        """Return the number of rows, if known, and the number of features in the first rows."""
        head = next(self.sparse_blocks(_HEAD_ROWS, _HEAD_ENTRIES), None)
        n_samples = self.source.n_samples or self.source.estimate_n_samples()
        return n_samples, 0 if head is None else len(np.unique(head.features))

    def estimate_entries(self) -> int:
        """Return the number of entries, estimated from the first rows."""
        head = next(self.sparse_blocks(_HEAD_ROWS, _HEAD_ENTRIES), None)
        n_rows = self.source.n_samples or self.source.estimate_n_samples() or 0
        return 0 if head is None else round(n_rows * len(head.features) / head.n_rows)
