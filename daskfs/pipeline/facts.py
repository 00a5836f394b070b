"""Facts about the data of a pipeline, from headers, metadata and the head of text files, before they are read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from daskfs import errors
from daskfs.errors import DataError
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.losses import PLAIN_NUMBERS, TargetKind
from daskfs.matrix.blocks import Crowding
from daskfs.matrix.names import NAME_NBYTES, Names, columns_of_table
from daskfs.matrix.target import kind_of, kind_of_target, kind_of_values
from daskfs.objects.ahead import ahead_nbytes
from daskfs.objects.path import ObjectPath
from daskfs.pipeline.config import Pipeline, Split
from daskfs.selectors.shared.budget import Budget
from daskfs.sources.base import Source
from daskfs.sources.files import located
from daskfs.sources.registry import make_source
from daskfs.sources.sparse.base import SparseSource
from daskfs.store.feature_store import FeatureStore, open_store
from daskfs.store.layout import choose_layout, store_nbytes
from daskfs.store.sparse.layout import BLOCK_ROWS

ConfigError = errors.ConfigError.about("pipeline-files")

_FIRST_ROWS = 1 << 16


@dataclass(frozen=True)
class DataFacts:
    """Facts about the data before they are read.

    Parameters
    ----------
    n_samples, n_features : int
    dtype : str
        dtype of the store.
    tile_shape : tuple of int
    n_train : int
        Number of training rows if the split determines it without labels; else the number of all rows.
    is_estimate : bool
        Whether the shape is estimated from the head of a text table.
    store_exists : bool
        Whether the store already exists, so that nothing is ingested.
    store_nbytes : int
        Bytes on disk, before compression.
    target : TargetKind
        Numbers or classes; for a table that is not read yet, inferred from its first rows.
    """

    n_samples: int
    n_features: int
    dtype: str
    tile_shape: tuple[int, int]
    n_train: int
    is_estimate: bool
    store_exists: bool
    store_nbytes: int
    target: TargetKind = PLAIN_NUMBERS
    n_stored: int | None = None
    """Number of rows in the tiles that contain the training rows, if larger than `n_train`."""
    has_statistics: bool = False
    """Whether the store has column statistics over exactly the training rows, with equal weights."""
    has_parts: bool = False
    """Whether several processes can read parts of the source."""

    n_entries: int | None = None
    """Number of entries (or an estimate) of all rows of a sparse store; None for a dense store."""
    held_nbytes: int = 0
    """Memory of names and similar in the client process, of the source during ingest and of the store afterwards."""
    is_in_place: bool = False
    """Whether the files of the source are read directly, without a store."""
    growing_columns: tuple[str, ...] = ()
    """Columns of a table whose further levels or years are not counted in `n_features`, as they are not read yet."""
    filters: tuple[str, ...] = ()
    """What leaves out rows and features of the source."""
    crowding: Crowding | None = None
    """How unevenly the entries of an existing store are distributed."""

    names: Names | None = field(default=None, compare=False)
    """Names of the columns of an existing store."""
    table_columns: np.ndarray | None = field(default=None, compare=False)
    """The table's column from which each column was encoded, if an existing store has them."""

    are_some_rows: bool = False
    """Whether the training rows are a subset of the rows, so that their numbers are sent to the workers."""

    ahead_nbytes: int = 0
    """Memory for requests in flight of each reader or writer of a store in an object store."""

    @property
    def ahead(self) -> Budget:
        """Budget of the requests in flight; empty if there are none."""
        return Budget({"requests in flight": self.ahead_nbytes} if self.ahead_nbytes else {})

    @property
    def n_trained(self) -> int | None:
        """Number of entries of the training rows."""
        return None if self.n_entries is None else -(-self.n_entries * self.n_train // max(1, self.n_samples))

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row in memory."""
        if self.n_entries is not None:
            return 16 * -(-self.n_entries // max(1, self.n_samples))
        return self.n_features * np.dtype(self.dtype).itemsize


def open_source(pipeline: Pipeline) -> Source | None:
    """Return the pipeline's source with a checked header; None if it has no source.

    Raises
    ------
    SourceError, SchemaError
    """
    if pipeline.source is None:
        return None
    options = pipeline.source.model_dump(by_alias=True)
    if pipeline.storage_options:
        options = {name: located(value, pipeline.storage_options) for name, value in options.items()}
    source = make_source(**options)
    source.check()
    return source


def facts_of(pipeline: Pipeline, source: Source | None = None) -> DataFacts:
    """Return the facts about a pipeline's data before they are read.

    Parameters
    ----------
    pipeline : Pipeline
    source : Source, optional
        The pipeline's source, if it is already open.

    Raises
    ------
    DaskfsError
        The source or the store cannot be used.
    """
    if pipeline.has_stored:
        return facts_of_store(pipeline, open_store(pipeline.store_path))
    source = source or open_source(pipeline)
    if source is None:
        raise ConfigError("expected a source or a store, found neither", "source", "add one")
    n_samples, n_features = source.estimate_shape()
    if n_samples is None:
        problem = "the number of rows cannot be determined without reading the data"
        raise ConfigError(problem, "source", "ingest the source first")
    wanted = pipeline.stored
    if pipeline.is_in_place:
        return facts_in_place(pipeline, source, (n_samples, n_features))
    if isinstance(source, SparseSource):
        n_entries = source.estimate_entries()
        return DataFacts(
            n_samples=n_samples,
            n_features=n_features,
            dtype=wanted.dtype,
            tile_shape=(BLOCK_ROWS, max(1, min(n_features, 128))),
            n_train=_n_train(pipeline.split, n_samples),
            are_some_rows=pipeline.split is not None,
            is_estimate=source.n_samples is None or source.n_features is None,
            store_exists=False,
            store_nbytes=_sparse_nbytes(n_samples, n_features, n_entries, wanted.dtype),
            target=source.estimate_target(),
            ahead_nbytes=_ahead_nbytes(pipeline),
            n_stored=_n_stored(pipeline.split, n_samples, wanted.shuffle),
            has_parts=source.has_parts,
            n_entries=n_entries,
        )
    tile_shape = None if wanted.tile_shape is None else (wanted.tile_shape[0], wanted.tile_shape[1])
    layout = choose_layout(n_samples, n_features, wanted.dtype, wanted.codec, tile_shape=tile_shape)
    names, table_columns = _columns_for_groups(pipeline, source)
    return DataFacts(
        n_samples=n_samples,
        n_features=n_features,
        dtype=wanted.dtype,
        tile_shape=layout.tile_shape,
        n_train=_n_train(pipeline.split, n_samples),
        are_some_rows=pipeline.split is not None,
        is_estimate=source.n_samples is None,
        store_exists=False,
        store_nbytes=store_nbytes(n_samples, n_features, wanted.dtype, layout),
        target=source.estimate_target(),
        ahead_nbytes=_ahead_nbytes(pipeline),
        n_stored=_n_stored(pipeline.split, n_samples, wanted.shuffle),
        has_parts=source.has_parts,
        held_nbytes=max(source.held_nbytes, NAME_NBYTES * n_features),
        growing_columns=source.growing_columns,
        filters=tuple(source.filters),
        names=names,
        table_columns=table_columns,
    )


def _columns_for_groups(pipeline: Pipeline, source: Source) -> tuple[Names | None, np.ndarray | None]:
    """Return the names and table columns of the features, if the first rows of the table show the requested groups."""
    groups = [getattr(one, "feature_groups", None) for one in pipeline.selections.values()]
    groups = [one for one in groups if one is not None]
    found = source.estimate_columns() if groups else None
    if found is None:
        return None, None
    names, several = np.array(found[0], dtype=object), found[1]
    columns = Names(len(names), names), columns_of_table(names, several)
    try:
        for one in groups:
            FeatureGroups.given(one, len(names), *columns)
    except DataError:  # the groups may name a category that occurs later in the table
        return None, None
    return columns


def facts_in_place(pipeline: Pipeline, source: Source, shape: tuple[int, int]) -> DataFacts:
    """Return the facts about a source whose files are read directly, without a store."""
    how = source.in_place
    assert how is not None
    return DataFacts(
        n_samples=shape[0],
        n_features=shape[1],
        dtype=how.dtype.name,
        tile_shape=(shape[0], min(shape[1], how.tile_columns)),
        n_train=_n_train(pipeline.split, shape[0]),
        are_some_rows=pipeline.split is not None,
        is_estimate=source.n_samples is None,
        store_exists=True,
        store_nbytes=how.nbytes,
        target=source.estimate_target(),
        held_nbytes=source.held_nbytes,
        is_in_place=True,
        filters=tuple(source.filters),
    )


def facts_of_store(pipeline: Pipeline, store: FeatureStore, *, is_new: bool = False) -> DataFacts:
    """Return the facts about a store. With `is_new` this run has made it, so that the plan includes the ingest."""
    n_samples, n_features = store.shape
    layout = choose_layout(n_samples, n_features, store.dtype, tile_shape=store.tile_shape)
    has_groups = any(getattr(one, "feature_groups", None) is not None for one in pipeline.selections.values())
    return DataFacts(
        n_samples=n_samples,
        n_features=n_features,
        dtype=str(store.dtype),
        tile_shape=store.tile_shape,
        n_train=_n_train(pipeline.split, n_samples),
        are_some_rows=pipeline.split is not None,
        is_estimate=False,
        store_exists=not is_new,
        store_nbytes=(
            _sparse_nbytes(n_samples, n_features, store.n_entries, str(store.dtype))
            if store.is_sparse
            else store_nbytes(n_samples, n_features, store.dtype, layout)
        ),
        n_entries=store.n_entries if store.is_sparse else None,
        crowding=store.crowding(),
        target=kind_of_stored(store),
        ahead_nbytes=store.ahead_nbytes,
        n_stored=_n_stored(pipeline.split, n_samples, store.shuffled),
        has_statistics=pipeline.split is None and not store.header.has_weight,
        held_nbytes=store.names.held_nbytes,
        names=store.names,
        table_columns=store.table_columns if has_groups else None,
    )


def _ahead_nbytes(pipeline: Pipeline) -> int:
    return ahead_nbytes() if isinstance(pipeline.store_path, ObjectPath) else 0


def _sparse_nbytes(n_samples: int, n_features: int, n_entries: int, dtype: str) -> int:
    """Return the bytes of a sparse store before compression: entries, statistics and row data."""
    return n_entries * (2 + np.dtype(dtype).itemsize) + 32 * n_features + 20 * n_samples


def kind_of_stored(store: FeatureStore) -> TargetKind:
    """Return the kind of a store's target, from its header and first rows; for stores of older versions, from all."""
    if store.target_classes is not None:
        return TargetKind(len(store.target_classes), is_declared=True)
    n_values = store.source.get("n_target_values")
    if n_values is None:
        return kind_of_target(store)
    if n_values == 0 and (first := store.read_target(slice(0, _FIRST_ROWS))) is not None and first.ndim == 1:
        return TargetKind(is_continuous=kind_of(first).is_continuous)
    return kind_of_values(int(n_values), store.shape[0])


def _n_train(split: Split | None, n_samples: int) -> int:
    if split is None or split.by not in ("random", "order"):
        return n_samples
    return n_samples - math.ceil(float(split.test) * n_samples)  # type: ignore[arg-type]  # a proportion: see Split


def _n_stored(split: Split | None, n_samples: int, is_shuffled: bool) -> int:
    """Return the number of rows in tiles with training rows: all rows, unless training rows are the store's first."""
    is_first = split is not None and split.by == "order" and not is_shuffled
    return _n_train(split, n_samples) if is_first else n_samples
