"""A feature store: a matrix with names, target, weights and statistics on disk, read block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from operator import call
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.cells import card
from daskfs.cluster.workers import Workers
from daskfs.errors import CorruptStoreError, StoreError, StoreFormatError, did_you_mean
from daskfs.files import Location, location
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import ColumnStatistics, Crowding, Rows, SparseColumns, SparseRows, Strip
from daskfs.matrix.names import Names, columns_of_table
from daskfs.objects.address import is_url
from daskfs.objects.ahead import ahead_nbytes, prefetch_cache
from daskfs.objects.path import ObjectPath
from daskfs.objects.requests import all_of
from daskfs.store.header import SparseHeader, StoreHeader, read_metadata
from daskfs.store.manifest import (
    ENCODER_DIGEST,
    LOCK,
    MANIFEST,
    Manifest,
    identity_of,
    is_finished,
    read_checksums,
    read_encoder,
    read_manifest,
)
from daskfs.store.names import DenseNames
from daskfs.store.sparse.names import SparseNames
from daskfs.store.sparse.reader import SparseReader
from daskfs.store.stored_arrays import (
    StoredArray,
    checked_array,
    described_arrays,
    expected_arrays,
    header_document,
    read_header,
    seal,
    tables_of,
)
from daskfs.store.tables import CLASSES, STATISTICS, Tables
from daskfs.store.tile_reader import TileReader
from daskfs.store.unfinished import SUFFIX
from daskfs.store.verify import damaged_parts
from daskfs.watching.base import Progress
from daskfs.watching.terminal import heard_by

ConfigError = errors.ConfigError.about("pipeline-files")

_opened: dict[tuple[str | ObjectPath, str], tuple[tuple[int, int], FeatureStore]] = {}
"""Stores unpickled in this process, by path and manifest digest, with the manifest's inode and modification time."""


def open_store(
    path: str | os.PathLike[str] | ObjectPath, *, storage_options: Mapping[str, Any] | None = None
) -> FeatureStore:
    """Open a feature store; reads only its header and the descriptions of its arrays.

    Parameters
    ----------
    path : path-like or URL
        The store's folder or URL: ``s3://``, ``gs://``, ``az://``, ``https://`` (see docs/object_stores.md).
    storage_options : mapping, optional
        Options for a URL, named as in obstore: endpoint, region, access_key_id ... They are sent to workers; by default
        each process uses its own environment.

    Returns
    -------
    FeatureStore

    Raises
    ------
    StoreFormatError
        There is no store, it is unfinished, or its format is newer than this daskfs.
    CorruptStoreError
        The header, the manifest or the description of an array is damaged, or they are inconsistent.
    StorageError
        An object store does not respond, or refuses access.

    Examples
    --------
    >>> import tempfile
    >>> import daskfs
    >>> path = tempfile.mkdtemp() + "/wine.zarr"
    >>> store = daskfs.ingest("sklearn:wine", path)
    >>> daskfs.open_store(path)
    <FeatureStore wine.zarr: 178 samples x 13 features, float32>
    """
    folder, manifest = _existing(location(path, storage_options))
    read: list[Callable[[], Any]] = [partial(read_header, folder, manifest), partial(read_checksums, folder, manifest)]
    names = described_arrays(manifest)
    read += [partial(read_metadata, folder / name, name) for name in names]
    header, checksums, *found = all_of(call, read) if isinstance(folder, ObjectPath) else map(call, read)
    descriptions = dict(zip(names, found, strict=True))
    arrays = {
        name: checked_array(folder, name, header, manifest, checksums, expected, descriptions[name])
        for name, expected in expected_arrays(header).items()
    }
    return FeatureStore(folder, header, manifest, arrays)


def verify_store(
    path: str | os.PathLike[str] | ObjectPath, progress: Progress | None = None, workers: Workers | None = None
) -> list[str]:
    """Return one line per damaged part of a store, also if it cannot be opened any more; see `FeatureStore.verify`.

    Raises
    ------
    StoreError
        There is no store, or its manifest or header is damaged, so that its expected content is unknown.
    """
    folder, manifest = _existing(location(path))
    read_header(folder, manifest)
    return damaged_parts(folder, progress, workers)


def _existing(folder: Location) -> tuple[Location, Manifest]:
    """Return the folder of a finished store, and its manifest."""
    folder = folder.absolute()
    if isinstance(folder, ObjectPath):
        return _existing_objects(folder)
    where = str(folder)
    if folder.name.endswith(SUFFIX):
        raise StoreFormatError(
            "the store is unfinished: it is still being written, or writing was interrupted", where, "ingest again"
        )
    if not folder.exists():
        if folder.with_name(folder.name + SUFFIX).exists():
            raise StoreFormatError(
                "there is only an unfinished store: it is still being written, or writing was interrupted",
                where,
                "wait, or ingest again",
            )
        raise StoreFormatError("no such store", where, "check the path, or ingest a source to it")
    if not os.path.lexists(folder / MANIFEST):
        try:
            header_document(folder)
        except StoreError:
            raise StoreFormatError("not a feature store of daskfs", where, "ingest the source first") from None
    return folder, read_manifest(folder)


def _existing_objects(folder: ObjectPath) -> tuple[Location, Manifest]:
    """Return the address of a finished store in an object store, and its manifest, which is written last."""
    where = str(folder)
    try:
        return folder, read_manifest(folder)
    except CorruptStoreError:
        if (folder / MANIFEST).is_file():
            raise
    if (folder / LOCK).is_file():
        problem = "there is only an unfinished store: it is still being written, or writing was interrupted"
        raise StoreFormatError(problem, where, "wait, or ingest again")
    if folder.is_dir():
        raise StoreFormatError(
            f"not a feature store of daskfs: there is no {MANIFEST}", where, "ingest the source first"
        )
    raise StoreFormatError("no such store", where, "check the address, or ingest a source to it")


class FeatureStore(Matrix):
    """A matrix on disk with names, target, weights and column statistics; see `open_store`.

    Attributes
    ----------
    path : Path or ObjectPath
    shape : tuple of int
        (n_samples, n_features).
    dtype : dtype
    shuffled : bool
        Whether the rows are in random order.
    target_names, label_names : tuple of str
        Names of the targets, and of the text columns kept beside X.
    digest : str
        Identity of the content: source, encoding, row order and format.
    source : dict
        Origin of the rows: kind, description, digest, files ...
    encoding_digest : str
        Identity of the encoding of the source as numbers.
    notes : list of str
        Notes from the ingest: rows dropped, rare categories pooled.
    header : StoreHeader
    is_sealed : bool
        Whether the manifest has the checksums of all chunks, so that a misplaced chunk is found. In older stores, each
        chunk has only its own checksum; `daskfs verify --seal` adds the others.

    Notes
    -----
    A pickled store consists of its path and its manifest's digest: tasks carry it and read it where they run. Reading
    needs neither Zarr nor a data frame library.

    Examples
    --------
    >>> import tempfile
    >>> import daskfs
    >>> path = tempfile.mkdtemp() + "/wine.zarr"
    >>> store = daskfs.ingest("sklearn:wine", path)
    >>> store.shape, store.names[0], store.read(slice(0, 10), slice(0, 3)).shape
    ((178, 13), 'alcohol', (10, 3))
    >>> daskfs.FGM(3, loss="logistic").fit(store).selected_.shape
    (3,)
    """

    def __init__(
        self, path: Location, header: StoreHeader, manifest: Manifest, arrays: Mapping[str, StoredArray]
    ) -> None:
        self.path, self.header, self._arrays = path, header, arrays
        tables = tables_of(header)
        self._paths = {} if tables is None else tables.paths()
        self.is_sealed, self._manifest_identity = manifest.is_sealed, manifest.identity
        self.shape = header.shape
        self.dtype = np.dtype(header.dtype)
        self.shuffled = header.shuffled
        self.target_names, self.label_names = header.target_names, header.label_names
        self.digest, self.source, self.encoding_digest = header.digest, header.source, header.encoding_digest
        self.notes = list(header.notes)

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return the dense block X[rows][:, columns].

        Parameters
        ----------
        rows, columns : slice, int64 array (any order) or boolean mask
        out : ndarray of shape (n_rows, n_columns), optional
            Filled and returned.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            C-ordered.

        Raises
        ------
        CorruptStoreError
            A chunk that the block touches is missing, truncated, misplaced, or fails its checksum.
        """
        return (self.entries if self.is_sparse else self.tiles).read(rows, columns, out)

    def strips(self, rows: Rows, columns: slice) -> Iterator[Strip] | None:
        """Return an iterator over X[rows][:, columns] in the order of the tiles; see `TileReader.strips`."""
        found: Iterator[Strip] | None = None if self.is_sparse else self.tiles.strips(rows, columns)
        return found

    def read_target(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return y[rows], float64 of shape (n_rows,), or (n_rows, n_targets) for several; None if there are none."""
        return self._read_vector("target", rows) if self.target_names else None

    def read_weight(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the sample weights of these rows, float64 of shape (n_rows,), or None."""
        return self._read_vector("weight", rows) if self.header.has_weight else None

    def _read_vector(self, name: str, rows: Rows) -> np.ndarray:
        """Read the requested elements; a worker needs a few rows at a time and does not cache the vector."""
        whole = self.__dict__.get(name)
        if whole is None and isinstance(rows, slice) and rows == slice(None):
            whole = getattr(self, name)
        return np.asarray(self._open(name).read(rows), np.float64) if whole is None else whole[rows]

    def sparse_rows(self, rows: Rows) -> SparseRows | None:
        """Return the entries of X[rows]; None if the store is dense. See `SparseReader`."""
        return self.entries.sparse_rows(rows) if self.is_sparse else None

    def sparse_columns(self, columns: Rows) -> SparseColumns | None:
        """Return the entries of X[:, columns]; None if the store is dense. See `SparseReader`."""
        return self.entries.sparse_columns(columns) if self.is_sparse else None

    def entry_counts(self, rows: Rows = slice(None)) -> np.ndarray | None:
        """Return the number of entries in each row of X[rows], int64; None if the store is dense."""
        return self._open("X/lengths").read(rows).astype(np.int64) if self.is_sparse else None

    def crowding(self) -> Crowding | None:
        """Return how unevenly entries are distributed; None if the store is dense or does not record it."""
        return self.header.crowding if isinstance(self.header, SparseHeader) else None

    @property
    def ahead_nbytes(self) -> int:
        """Memory of a task for prefetched objects, in bytes; 0 if the store is in a folder."""
        return ahead_nbytes() if isinstance(self.path, ObjectPath) else 0

    @property
    def is_sparse(self) -> bool:
        """Whether only the entries are stored."""
        return isinstance(self.header, SparseHeader)

    @property
    def n_entries(self) -> int:
        """Number of stored values: in a sparse store, the nonzero ones."""
        return self.header.n_entries if isinstance(self.header, SparseHeader) else self.shape[0] * self.shape[1]

    @cached_property
    def tiles(self) -> TileReader:
        """Reader of X in a dense store."""
        return self._open("X")

    @cached_property
    def entries(self) -> SparseReader:
        """Reader of X in a sparse store."""
        assert isinstance(self.header, SparseHeader)
        return SparseReader(self.header, self._open, str(self.path))

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Rows and columns of a tile, the unit of reading."""
        return self.header.tile_shape

    @cached_property
    def names(self) -> Names:  # type: ignore[override]
        """Names of the columns, read when first accessed."""
        if isinstance(self.header, SparseHeader):
            return SparseNames(self.header, self._open)
        return DenseNames(self.shape[1], partial(self._open, "feature_names"))

    @cached_property
    def feature_names(self) -> np.ndarray:
        """Names of shape (n_features,), an object array of str."""
        return self.names.array()

    @property
    def rows_are_random(self) -> bool:
        """Whether the rows were shuffled, or drawn independently of each other."""
        return self.shuffled or bool(self.source.get("exchangeable", False))

    @property
    def identity(self) -> str:
        """Digest of the content."""
        return self.digest

    @property
    def target_classes(self) -> tuple[str, ...] | None:
        """Texts that the target's codes 0, 1, ... stand for; None if it is numeric."""
        found = self.source.get("target_classes")
        return None if found is None else tuple(found)

    @property
    def table_columns(self) -> np.ndarray | None:
        """The table column that each feature was encoded from; None if the source was not a table."""
        several = self.source.get("table_columns")
        return None if several is None else columns_of_table(self.names.array(), several)

    def ids(self, columns: np.ndarray) -> np.ndarray | None:
        """Return the ids of some columns, uint64; None if columns are numbers."""
        has_ids = isinstance(self.header, SparseHeader) and self.header.has_ids
        return self._open("ids").read(columns) if has_ids else None

    def annotations(self, columns: np.ndarray) -> dict[str, np.ndarray]:
        """Return further facts about some columns; see `Matrix.annotations`."""
        arrays = {name: self._open(f"annotations/{k}") for k, name in enumerate(self.header.annotations)}
        return {
            name: array.read_at(columns) if self.header.annotations[name] == "text" else array.read(columns)
            for name, array in arrays.items()
        }

    @property
    def encoder(self) -> dict[str, Any] | None:
        """How to encode other rows in the same way; None for stores made before it was kept.

        Raises
        ------
        CorruptStoreError
        """
        digest = self.source.get(ENCODER_DIGEST)
        return None if digest is None else read_encoder(self.path, digest)

    def exists(self) -> bool:
        """Return whether the store's folder is still there."""
        return is_finished(self.path)

    def verify_unchanged(self) -> None:
        """Raise an error if the store is no longer the one that was opened.

        Raises
        ------
        StoreError
            It was removed, or replaced by another.
        """
        _compare(self.path, identity_of(self.path), self._manifest_identity)

    def column_statistics(self) -> ColumnStatistics:
        """Return the statistics of all columns, over all rows."""
        return ColumnStatistics(self.mean, self.std, self.minimum, self.maximum, self.n_missing)

    @cached_property
    def target(self) -> np.ndarray | None:
        """All of y in the stored order, float64 of shape (n_samples,), or (n_samples, n_targets) for several."""
        return np.asarray(self._open("target").read(), np.float64) if self.target_names else None

    @cached_property
    def weight(self) -> np.ndarray | None:
        """All sample weights in the stored order, float64 of shape (n_samples,), or None."""
        return self._open("weight").read() if self.header.has_weight else None

    @cached_property
    def source_rows(self) -> np.ndarray | None:  # type: ignore[override]
        """Source row of each stored row, int64 of shape (n_samples,); None if the order is the same."""
        return self._open("source_rows").read() if self.shuffled else None

    def labels(self, name: str) -> np.ndarray:
        """Return a text column in the stored order, an object array of shape (n_samples,).

        Raises
        ------
        ConfigError
            There is no such column.
        """
        if name not in self.label_names:
            raise ConfigError(
                f"no column {name!r} with role 'split' or 'id'{did_you_mean(name, self.label_names)}; "
                f"there are: {', '.join(self.label_names) or 'none'}",
                str(self.path),
                "give a column such a role in the table schema",
            )
        return self._open(f"labels/{self.label_names.index(name)}").read()

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean of each column, float64 of shape (n_features,); NaN where all values are missing."""
        return self._statistic("mean")

    @cached_property
    def std(self) -> np.ndarray:
        """Population standard deviation of each column, float64 of shape (n_features,)."""
        return self._statistic("std")

    @cached_property
    def n_missing(self) -> np.ndarray:
        """Number of missing values in each column, int64 of shape (n_features,)."""
        return np.zeros(self.shape[1], np.int64) if self.is_sparse else self._statistic("n_missing")

    @cached_property
    def minimum(self) -> np.ndarray:
        """Smallest value in each column, float64 of shape (n_features,)."""
        return self._statistic("minimum")

    @cached_property
    def maximum(self) -> np.ndarray:
        """Largest value in each column, float64 of shape (n_features,)."""
        return self._statistic("maximum")

    def verify(self, progress: Progress | bool | None = None) -> list[str]:
        """Read every chunk and check all lengths and checksums.

        Parameters
        ----------
        progress : Progress or True, optional
            Reports the number of checked files; True shows it here.

        Returns
        -------
        list of str
            One line per damaged part, with the array, the chunk, the file and the fault; empty if there is no damage.
        """
        with heard_by(progress) as heard:
            return damaged_parts(self.path, heard)

    def sealed(self) -> FeatureStore:
        """Record the current checksums of all chunks in the manifest; return the store, opened again.

        Run `verify` first, since earlier damage cannot be found later. Runs that read the store meanwhile end with an
        error.

        Raises
        ------
        StoreError
            The folder is not writable.
        """
        if isinstance(self.path, ObjectPath):
            raise StoreError("only a store in a folder can be sealed", str(self.path), "copy, seal and upload it")
        try:
            seal(self.path)
        except OSError as fault:
            remedy = "seal it where the folder is writable"
            raise StoreError(f"cannot be sealed: {fault.strerror}", str(self.path), remedy) from None
        return open_store(self.path)

    def export(self, path: str | os.PathLike[str], progress: Progress | None = None) -> None:
        """Write the store as an AnnData store in a Zarr folder.

        A sparse matrix is written as compressed rows (CSR), in blocks of rows. A dense store is an AnnData store
        already, unless it was made before format 4.

        Parameters
        ----------
        path : path-like
            Path of the new folder; nothing may exist there.
        progress : Progress, optional
            Reports the number of rows written.

        Raises
        ------
        ConfigError
            The path is a URL.
        StoreExistsError
            Something exists at the path.
        StoreError
            The disk is full, or the folder cannot be created.
        CorruptStoreError
            A chunk is damaged.

        Notes
        -----
        Names and statistics of all columns are in memory.
        """
        from daskfs.store.anndata_export import export_matrix

        if is_url(path):
            raise ConfigError("expected a local folder, found a URL", str(path), "export to a folder, and upload it")
        order, classes, notes = self.source_rows, self.target_classes, list(self.header.annotations)
        tables = Tables(self.target_names, self.header.has_weight, self.label_names, notes, classes)
        arrays: dict[str, Any] = {"source_rows": np.arange(self.shape[0]) if order is None else order}
        arrays |= {"target": self.target, "weight": self.weight, "feature_names": self.feature_names}
        arrays |= {f"labels/{number}": self.labels(name) for number, name in enumerate(self.label_names)}
        arrays |= {f"statistics/{name}": getattr(self, name) for name in STATISTICS}
        annotations = self.annotations(np.arange(self.shape[1]))
        arrays |= {f"annotations/{number}": values for number, values in enumerate(annotations.values())}
        arrays[CLASSES] = np.array(classes, dtype=object) if tables.has_classes else None
        given = {name: values for name, values in arrays.items() if values is not None}
        n_entries = self.n_entries if self.is_sparse else None
        with heard_by(progress) as heard:
            export_matrix(self, n_entries, tables, given, self.tile_shape, Path(path).absolute(), heard)

    def info(self) -> dict[str, Any]:
        """Return the facts about the store, JSON-compatible; sizes in bytes."""
        files = read_manifest(self.path).files
        n_samples, n_features = self.shape
        return {
            "path": str(self.path),
            "n_samples": n_samples,
            "n_features": n_features,
            "matrix_nbytes": n_samples * n_features * self.dtype.itemsize,
            "disk_nbytes": sum(files.values()),
            "n_files": len(files),
            "n_missing": 0 if self.is_sparse else int(self.n_missing.sum()),
            "sealed": self.is_sealed,
            **self._of_entries(),
            **self.header.to_dict(),
        }

    def _of_entries(self) -> dict[str, Any]:
        """Return the facts that only a sparse store has."""
        header, (n_samples, n_features) = self.header, self.shape
        if not isinstance(header, SparseHeader):
            return {}
        crowding = header.crowding
        return {
            "density": header.n_entries / max(1, n_samples * n_features),
            "entries_per_row": header.n_entries / max(1, n_samples),
            "most_in_a_row": None if crowding is None else crowding.rows.of(1),
            "most_in_a_column": None if crowding is None else crowding.columns.of(1),
            "features_by": "64-bit id" if header.has_ids else "number",
            "named_features": {0: "none", n_features: "all"}.get(header.n_names, "some"),
        }

    def _open(self, name: str) -> Any:
        """Return the reader of an array, by its name in stores of format 1."""
        return self._arrays[self._paths.get(name, name)].open()

    def _statistic(self, name: str) -> np.ndarray:
        """Return a statistic, and prefetch the others, which are read next."""
        if isinstance(self.path, ObjectPath) and self.__dict__.keys().isdisjoint(STATISTICS):
            readers = [
                self._open(f"statistics/{each}") for each in STATISTICS if each != "n_missing" or not self.is_sparse
            ]
            prefetch_cache().expect(part for reader in readers for part in reader.parts(slice(None)))
        found: np.ndarray = self._open(f"statistics/{name}").read()
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (str(self.path) if isinstance(self.path, Path) else self.path, self._manifest_identity)

    def __repr__(self) -> str:
        return f"<FeatureStore {self.path.name}: {self.shape[0]:,} samples x {self.shape[1]:,} features, {self.dtype}>"

    def _repr_html_(self) -> str:
        header, (n_samples, n_features) = self.header, self.shape
        sizes = {
            "Size": f"{n_samples * n_features * self.dtype.itemsize / 2**20:,.1f} MiB",
            "Tiles": f"{header.tile_shape[0]:,} × {header.tile_shape[1]:,}, {header.codec}",
        }
        if isinstance(header, SparseHeader):
            share = header.n_entries / max(1, n_samples * n_features)
            sizes = {"Entries": f"{header.n_entries:,} ({share:.3g} of all values), stored as {header.values}"}
        rows = {
            "Matrix": f"{n_samples:,} samples × {n_features:,} features, {self.dtype}",
            **sizes,
            "Target": ", ".join(self.target_names) or "none",
            "Rows": f"in random order (seed {header.random_state})" if self.shuffled else "in the source's order",
            "Source": str(self.source.get("description", self.source.get("kind", ""))),
            "Notes": "; ".join(self.notes),
        }
        return card(f"feature store {self.path}", rows)


def _reopen(path: str | ObjectPath, identity: str) -> FeatureStore:
    """Open an unpickled store; once per process, as long as it is unchanged.

    In an object store, changes are not looked for in each task: the checksums of all chunks are known.
    """
    stamp = (0, 0)
    if not isinstance(path, ObjectPath):
        with suppress(OSError):
            status = (Path(path) / MANIFEST).stat()
            stamp = (status.st_ino, status.st_mtime_ns)
    known = _opened.get((path, identity))
    if known is not None and known[0] == stamp:
        return known[1]
    store = open_store(path)
    _compare(store.path, store._manifest_identity, identity)
    _opened[path, identity] = (stamp, store)
    return store


def _compare(path: Location, found: str, expected: str) -> None:
    if found != expected:
        raise StoreError("the store is no longer the one that was opened", str(path), "open it and run again")
