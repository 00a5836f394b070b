"""From a source to a feature store, which is reused if source and encoding are unchanged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from daskfs import errors, interrupts
from daskfs.cluster.open import check_client, parse_bytes, workers_of
from daskfs.errors import CorruptStoreError, StoreExistsError, StoreFormatError, did_you_mean
from daskfs.files import Location, location
from daskfs.objects.path import ObjectPath
from daskfs.sources.base import MOST_PARTS, NotInPartsError, Source
from daskfs.sources.files import located
from daskfs.sources.in_memory import INFER, is_table, read_once
from daskfs.sources.parts import described, is_begun_by, write_in_parts, write_whole
from daskfs.sources.registry import as_source
from daskfs.sources.sparse.base import SparseSource
from daskfs.store.feature_store import FeatureStore, open_store
from daskfs.store.manifest import MANIFEST
from daskfs.store.published import sees_staging
from daskfs.store.sparse.writer import SparseStoreWriter
from daskfs.store.unfinished import set_aside
from daskfs.store.whole_writer import WholeWriter
from daskfs.store.writer import StoreWriter
from daskfs.version import __version__
from daskfs.watching.base import Progress
from daskfs.watching.terminal import heard_by

if TYPE_CHECKING:
    from distributed import Client

ConfigError = errors.ConfigError.about("formats")

DTYPES = ("float32", "float64", "int8")
ON_EXISTS = ("reuse", "error", "replace")
_OTHERWISE = "remove it or choose another name"


def ingest(
    source: Any,
    path: str | os.PathLike[str] | ObjectPath,
    *,
    target: str | Sequence[str] | None = None,
    schema: Any = None,
    y: Any = None,
    weight: Any = None,
    names: Sequence[str] | None = None,
    dtype: Any = "float32",
    shuffle: bool = True,
    random_state: int | None = 0,
    codec: Literal["raw", "lz4"] | None = None,
    tile_shape: tuple[int, int] | None = None,
    memory_limit: int | str = "1GiB",
    on_exists: Literal["reuse", "error", "replace"] = "reuse",
    progress: Progress | bool | None = None,
    missing: Any = None,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **layout: Any,
) -> FeatureStore:
    """Write a feature store from a source, in bounded memory.

    Parameters
    ----------
    source : path, list of paths, DataFrame, array or Source
        CSV (also .gz, .bz2, .xz, .zst) and Parquet files, patterns and folders, Zarr arrays, ``"sklearn:diabetes"``;
        PLINK's .bed files with .bim and .fam; LIBSVM and Vowpal Wabbit files, click logs and texts, which become sparse
        stores; with ``one_hot="sparse"`` also tables with categories of any number of levels; pandas, dask and polars
        DataFrames, Arrow tables; numpy and dask arrays; scipy.sparse matrices and .npz files of them, which become
        sparse stores; Dask bags of lines (``kind="vw"``, "libsvm", "clicks", "text") or of records with texts, and
        lists of delayed objects that are such lists or the paths of files.
    path : path-like or URL
        Path of the store. A store in an object store (``s3://``, ``gs://``, ``az://``) is written to a local folder
        and then uploaded, its manifest last: see docs/object_stores.md. Files of the source may be URLs, too.
    target : str or list of str, optional
        Column to predict, if the schema does not name it; for arrays the name of `y`, or the targets themselves.
    schema : path, mapping, TableSchema or "judge", optional
        Names, types and roles of the columns of a table. Without one, the schema of a frame or an Arrow table is
        inferred as by `fit`, and missing values are an error; with "judge" they are replaced by the mean, and indicator
        features are added. For files, numbers are read as numbers and texts as categories: `daskfs init` infers more.
    y : array-like of shape (n_samples,), optional
        Targets of an array, or of a frame without a target column.
    weight : str or array-like of shape (n_samples,), optional
        Column of a table, or the weights themselves for an array.
    names : sequence of str, optional
        Feature names of an array.
    dtype : {"float32", "float64", "int8"}
        dtype of the stored matrix.
    shuffle : bool
        Store the rows in random order, as MESSAGE's subsets require; sources whose rows are drawn independently keep
        their order.
    random_state : int or None
        Seed of the random order.
    codec : {"raw", "lz4"}, optional
        By default chosen from the data.
    tile_shape : tuple of int, optional
        Rows and columns of a tile; about 4 MiB by default.
    memory_limit : int or str
        Memory for all buffers together, in each process, in bytes.
    on_exists : {"reuse", "error", "replace"}
        What to do if a store exists at `path`: return it if it has the same content; refuse it; or replace it, whatever
        its content. The replaced store is kept as ``<name>.replaced`` until the new one is complete.
    progress : Progress or True, optional
        True: a bar in a terminal, an output in a notebook, elsewhere one line per minute.
    missing : {"error", "drop", "mean", "zero"} or float, optional
        Treatment of missing values in columns that the schema does not name, and of missing dosages of genotypes.
    client : distributed.Client, optional
        Client of a cluster whose workers see the files and the store's folder: they encode, sort and tile ranges of
        uncompressed text files (also sparse ones), row groups of Parquet files and partitions of Dask frames and bags.
        The store is the same, byte for byte.
    storage_options : mapping, optional
        Options for the URLs of the source and the store, named as in obstore; by default each process uses its own
        environment.
    **layout
        Options of the kind of source; ``kind`` itself is needed if the file name does not show it ("clicks").
        For tables: ``one_hot="sparse"``, optionally with interactions, for categories of any number of levels.
        For CSV files: delimiter, quote, header, encoding, decimal, thousands, comment, skip_initial_space.

    Returns
    -------
    FeatureStore

    Raises
    ------
    SourceError, SchemaError, DataError
        The source cannot be used; nothing is left behind.
    StoreExistsError
        Another store exists at `path`; the message says whether its source or its settings differ.
    PlanError
        `memory_limit` is too small for even a few rows.

    Examples
    --------
    >>> import tempfile
    >>> ingest("sklearn:diabetes", tempfile.mkdtemp() + "/diabetes.zarr").shape
    (442, 10)
    """
    if on_exists not in ON_EXISTS:
        hint = did_you_mean(str(on_exists), ON_EXISTS)
        raise ConfigError(f"expected one of {', '.join(ON_EXISTS)}, found {on_exists!r}{hint}", "on_exists")
    if isinstance(target, (int, float)):
        raise ConfigError(
            f"expected the name of a column, found {target!r}", "target", "give its name, or values as y="
        )
    limit = parse_bytes(memory_limit)
    check_client(client)
    options = {"missing": missing, **layout}
    if storage_options:
        source = located(source, storage_options)
    source = read_once(source)
    schema, notes = _declared(source, target, schema, y, weight, missing, layout)
    rows = as_source(source, target=target, schema=schema, weight=weight, names=names, y=y, options=options)
    rows.tell(notes)
    rows.check()
    dtype = _checked_dtype(dtype)
    if codec not in (None, "raw", "lz4"):
        raise ConfigError(f"expected raw or lz4, found {codec!r}", "codec", "leave it out to choose it automatically")
    if rows.is_sparse and (codec is not None or tile_shape is not None):
        where = "codec" if codec is not None else "tile_shape"
        raise ConfigError("codec and tile_shape have no effect with a sparse store", where, "leave it out")
    shuffle = shuffle and not rows.exchangeable
    encoding = encoding_digest(rows, dtype, shuffle, random_state, codec, tile_shape)
    path = location(path, storage_options)
    aside: AbstractContextManager[None] = nullcontext()
    if (path / MANIFEST).is_file() if isinstance(path, ObjectPath) else os.path.lexists(path):
        if on_exists != "replace":
            return _existing(path, rows, encoding, on_exists)
        aside = set_aside(replaceable(path))
    if isinstance(path, ObjectPath) and client is not None and not sees_staging(client):
        client = None

    facts = {"dtype": dtype, "shuffle": shuffle, "random_state": random_state, "encoding_digest": encoding}
    facts |= {"target_names": rows.target_names, "has_weight": rows.has_weight, "label_names": rows.label_names}

    def writer(source: dict[str, Any], goes_on_from: Callable[[Path], bool] | None = None) -> WholeWriter:
        common: dict[str, Any] = {"memory_limit": 3 * limit // 4, "progress": heard, "goes_on_from": goes_on_from}
        common |= {"source": source, **facts}
        if isinstance(rows, SparseSource):
            has_ids, first = rows.features_are_ids, rows.first_number
            return SparseStoreWriter(path, rows.n_features, has_ids=has_ids, first_number=first, **common)
        return StoreWriter(
            path,
            len(rows.feature_names),
            feature_names=rows.feature_names,
            codec=codec,
            n_samples=rows.n_samples,
            n_expected=None if rows.n_samples is not None else rows.estimate_shape()[0],
            tile_shape=tile_shape,
            resident=rows.resident,
            **common,
        )

    with interrupts.guard(), aside, heard_by(progress) as heard:
        workers = workers_of(client)
        rows.learn(workers)
        parts = rows.parts()
        can_resume = bool(rows.stamps()) and len(parts) > 1  # otherwise dense rows need not be written twice
        if parts and (client is not None or ((rows.is_sparse or can_resume) and len(parts) <= MOST_PARTS)):
            identity = {
                "version": __version__,
                "encoding": encoding,
                "memory_limit": limit,
                "layout": str((tile_shape, codec)),
                "parts": [str(part) for part in parts] if rows.stamps() else len(parts),
            }
            begun = is_begun_by(rows, identity, random_state if shuffle else None)
            with suppress(NotInPartsError):
                write_in_parts(rows, parts, writer({}, begun), identity, limit, workers)
                return open_store(path)
        write_whole(rows, writer(described(rows)), limit, workers)
    return open_store(path)


def _declared(
    source: Any, target: Any, schema: Any, y: Any, weight: Any, missing: Any, layout: Mapping[str, Any]
) -> tuple[Any, list[str]]:
    """Return the schema of the columns and notes on its inference, equal to those of a fit of the same table."""
    is_inferred = isinstance(schema, str) and schema == INFER
    if is_inferred and not is_table(source):
        problem = "schema='judge' works only for tables in memory"
        raise ConfigError(problem, "schema='judge'", "use `daskfs init FILE` to write a schema for a file")
    if not is_inferred and (schema is not None or layout.get("one_hot") or not is_table(source)):
        return schema, []
    from daskfs.sources.dataframe import target_name
    from daskfs.sources.roles import is_number
    from daskfs.sources.undeclared import said, schema_of

    header: Mapping[str, Any] = as_source(source).header()  # type: ignore[attr-defined]
    named = [target] if isinstance(target, str) else [] if target is None else list(target)
    if named and not isinstance(named[0], str):  # the targets themselves
        named, y = [], target
    if y is not None and not named:
        named = [target_name(y, list(header))]
    apart = [*named, weight] if isinstance(weight, str) else named
    are_numbers = all(kind is None or is_number(kind) for name, kind in header.items() if name not in apart)
    if not named or (y is None and named[0] not in header) or (are_numbers and not is_inferred):
        return None, []  # a missing target column is refused when the source is created
    (name, *_) = named
    found, inferred = schema_of(as_source(source, target=name, y=y), name, schema, missing)  # type: ignore[arg-type]
    if layout.get("one_hot") == "sparse":  # the first level is not known before all rows are read
        columns = {key: one.model_copy(update={"drop_first": False}) for key, one in found.columns.items()}
        found = found.model_copy(update={"columns": columns})
    return found, said(inferred, "ingest")


def _checked_dtype(dtype: Any) -> np.dtype:
    try:
        checked = np.dtype(dtype)
    except TypeError:
        checked = None
    if checked is None or checked.name not in DTYPES:
        raise ConfigError(f"expected one of {', '.join(DTYPES)}, found {dtype!r}", "dtype", "float32 is the default")
    return checked


def encoding_digest(
    source: Source,
    dtype: np.dtype,
    shuffle: bool,
    random_state: int | None,
    codec: str | None = None,
    tile_shape: Sequence[int] | None = None,
) -> str:
    """Return the digest of all settings that determine a store, besides the content."""
    document = {
        "encoding": source.encoding,
        "dtype": dtype.name,
        "random_state": random_state if shuffle else "source order",
        "codec": codec,
        "tile_shape": None if tile_shape is None else [int(length) for length in tile_shape],
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def replaceable(path: Location) -> Path:
    """Return the path of a store if it may be replaced.

    Raises
    ------
    StoreExistsError
        The path holds something other than a daskfs store, or is in an object store.
    """
    if isinstance(path, ObjectPath):
        raise StoreExistsError("stores in an object store cannot be replaced", str(path), _OTHERWISE)
    try:
        open_store(path)
    except CorruptStoreError:
        pass
    except StoreFormatError as fault:
        raise _something_else(path, fault) from None
    return path


def _something_else(path: Location, fault: StoreFormatError) -> StoreExistsError:
    return StoreExistsError(f"something else already exists at this path ({fault.problem})", str(path), _OTHERWISE)


def _existing(path: Location, source: Source, encoding: str, on_exists: str) -> FeatureStore:
    """Return the store at `path` if it holds this source with these settings."""
    remedy = "choose another name, or replace it (--force; in Python on_exists='replace')"
    if on_exists == "error":
        raise StoreExistsError("something already exists at this path", str(path), remedy)
    try:
        store = open_store(path)
    except StoreFormatError as fault:
        raise _something_else(path, fault) from None
    differing = []
    if not source.is_unchanged(store.source, str(store.source.get("digest", ""))):
        differing.append("another source")
    if store.encoding_digest != encoding:
        differing.append("other settings (schema, target, dtype, row order, codec or tiles)")
    if differing:
        raise StoreExistsError(
            f"a store made from {' and '.join(differing)} already exists at this path", str(path), remedy
        )
    return store
