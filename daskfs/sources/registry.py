"""The registry of sources: a source from its name (pipeline files) or from an object (Python)."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Literal

import numpy as np
from pydantic import create_model

from daskfs import errors
from daskfs.errors import DaskfsError, SourceError, did_you_mean
from daskfs.files import Location, location
from daskfs.methods import load
from daskfs.objects.path import ObjectPath
from daskfs.sources.base import Source
from daskfs.sources.files import COMPRESSED, files_below, is_path
from daskfs.sources.options import SourceOptions
from daskfs.sources.other_formats import refuse_other_formats

ConfigError = errors.ConfigError.about("formats")

SOURCES = {
    "csv": "daskfs.sources.csv:CsvSource",
    "parquet": "daskfs.sources.parquet:ParquetSource",
    "sklearn": "daskfs.sources.sklearn_sets:SklearnSource",
    "zarr": "daskfs.sources.zarr_array:ZarrSource",
    "feather": "daskfs.sources.arrow_files:FeatherSource",
    "npz": "daskfs.sources.sparse.matrices:MatrixSource",
    "npy": "daskfs.sources.npy:NpySource",
    "synthetic": "daskfs.sources.synthetic:SyntheticSource",
    "libsvm": "daskfs.sources.sparse.libsvm:LibsvmSource",
    "vw": "daskfs.sources.sparse.vw:VwSource",
    "clicks": "daskfs.sources.sparse.clicks:ClicksSource",
    "text": "daskfs.sources.sparse.text:TextSource",
    "plink": "daskfs.sources.plink:PlinkSource",
    "pgen": "daskfs.sources.pgen:PgenSource",
    "bgen": "daskfs.sources.bgen:BgenSource",
    "vcf_zarr": "daskfs.sources.vcf_zarr:VcfZarrSource",
    "anndata": "daskfs.sources.sparse.anndata:AnnDataSource",
    "fasta": "daskfs.sources.sparse.fasta:FastaSource",
    "fragments": "daskfs.sources.sparse.fragments:FragmentsSource",
}
"""The kinds of source: name in a pipeline file -> ``"module:Class"``, loaded on first use."""

MOST_ATTRIBUTES_NBYTES = 1 << 26
"""Longest description of a Zarr group that is read to learn its kind."""

ENDINGS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".zarr": "zarr",
    ".vcz": "vcf_zarr",
    **dict.fromkeys((".feather", ".arrow", ".ipc", ".orc"), "feather"),
    ".npz": "npz",
    ".npy": "npy",
    ".bed": "plink",
    ".pgen": "pgen",
    ".bgen": "bgen",
    ".h5ad": "anndata",
    **dict.fromkeys((".svm", ".libsvm", ".svmlight"), "libsvm"),
    ".vw": "vw",
    **dict.fromkeys((".jsonl", ".ndjson"), "text"),
    **dict.fromkeys((".fa", ".fasta", ".fna", ".fq", ".fastq"), "fasta"),
}
"""File name ending -> kind of source, ignoring a compression suffix; other endings are text tables."""


OF_TABLES = ("missing", "one_hot", "interactions")
"""Options that tables in memory have in common with files."""

PLACES = (
    *("path", "y", "weight", "phenotypes", "covariates", "label_table", "schema"),
    *("keep", "remove", "extract", "exclude", "sample", "relatives"),
)
"""Options that are paths of the rows and of what accompanies the features."""


def find_source(kind: str) -> type[Source]:
    """Return the class of a kind of source.

    Raises
    ------
    ConfigError
        An unknown kind.
    """
    if kind not in SOURCES:
        problem = f"unknown kind of source {kind!r}{did_you_mean(str(kind), SOURCES)}"
        raise ConfigError(problem, "source.kind", f"one of {', '.join(SOURCES)}")
    found: type[Source] = load(SOURCES[kind])
    return found


@cache
def section_of(kind: str) -> type[SourceOptions]:
    """Return the model of a pipeline file's source section: the options that its class declares."""
    cls = find_source(kind)
    word: Any = Literal[kind]  # type: ignore[valid-type]
    return create_model(cls.__name__, __base__=cls.options, __doc__=cls.options.__doc__, kind=(word, ...))


def options_of(kind: str) -> list[str]:
    """Return the options that a kind of source takes in Python: those of its constructor and of pipeline files.

    Raises
    ------
    ConfigError
        An unknown kind.
    """
    own = [parameter.name for parameter in _parameters_of(kind)]
    declared = [field.alias or name for name, field in find_source(kind).options.model_fields.items()]
    return [*own, *(name for name in declared if name not in own and name != "kind")]


def _parameters_of(kind: str) -> list[inspect.Parameter]:
    parameters = inspect.signature(find_source(kind)).parameters.values()
    return [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]


def known_options(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a kind of source that are not None.

    Raises
    ------
    ConfigError
        An unknown kind or option.
    """
    known = options_of(kind)
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            raise ConfigError(
                f"a {kind} source has no option {name!r}{did_you_mean(name, known)}",
                f"source.{name}",
                f"its options are {', '.join(known)}",
            )
    return given


def make_source(kind: str, **options: Any) -> Source:
    """Return the source that a pipeline file describes.

    Parameters
    ----------
    kind : str
        One of `SOURCES`.
    **options
        Options of this kind of source; those that are None are ignored.

    Raises
    ------
    ConfigError
        An unknown kind or option, or a missing required one.
    """
    given = known_options(kind, options)
    for parameter in _parameters_of(kind):
        if parameter.default is parameter.empty and parameter.name not in given:
            raise ConfigError(f"a {kind} source needs {parameter.name!r}", "source", f"add {parameter.name}: ...")
    one_hot, interactions = given.pop("one_hot", None), given.pop("interactions", None)
    source: Source = find_source(kind)(**given)
    source.made_with = {name: value for name, value in given.items() if name not in PLACES and _is_plain(value)}
    return with_entries(source, one_hot, interactions)


def with_entries(source: Any, one_hot: str | None, interactions: Any) -> Source:
    """Return a table as sparse rows if requested, and a sparse source with interactions if requested.

    Parameters
    ----------
    source : Source
    one_hot : {"dense", "sparse"}, optional
        For a table.
    interactions : see `daskfs.sources.sparse.pairs.PairsSource`, optional

    Raises
    ------
    ConfigError
    """
    if one_hot not in (None, "dense", "sparse"):
        raise ConfigError(f"expected dense or sparse, found {one_hot!r}", "source.one_hot")
    if one_hot == "sparse":
        tables: Any = import_module("daskfs.sources.sparse.one_hot")
        source = tables.OneHotSource(source)
    if interactions is None:
        return source  # type: ignore[no-any-return]
    if not source.is_sparse:
        raise ConfigError("interactions need sparse rows", "source.interactions", "set one_hot: sparse")
    pairs: Any = import_module("daskfs.sources.sparse.pairs")
    return pairs.PairsSource(source, interactions)  # type: ignore[no-any-return]


def as_source(
    source: Any,
    *,
    target: Any = None,
    schema: Any = None,
    weight: Any = None,
    names: Any = None,
    y: Any = None,
    options: Mapping[str, Any] | None = None,
) -> Source:
    """Return the source for anything that `daskfs.ingest` takes.

    Parameters
    ----------
    source : Source, path, list of paths, "sklearn:NAME", DataFrame (pandas, Dask), array (numpy, scipy.sparse, Dask)
    target : str or list of str, optional
        Column of a table, or the name of `y`.
    schema : path, mapping or TableSchema, optional
        Schema of a table.
    weight : str or array-like, optional
        Column of a table, or the weights of an array's rows.
    names : sequence of str, optional
        Feature names of an array.
    y : array-like, optional
        Targets of an array, or of a frame without a target column.
    options : mapping, optional
        Further options of a file format, such as delimiter.

    Raises
    ------
    SourceError
        Not something that can be read.
    """
    options = {name: value for name, value in (options or {}).items() if value is not None}
    if isinstance(source, Source):
        return source
    if target is not None and np.ndim(target) > 0 and not _are_names(target):
        if y is not None:
            raise ConfigError("expected the targets as y or as target, found both", "ingest", "pass only one")
        target, y = None, target
    if is_path(source) or (isinstance(source, (list, tuple)) and source and all(map(is_path, source))):
        return _file_source(source, target, schema, weight, names, y, options)
    if _is_bag(source):
        if schema is not None or y is not None or names is not None or weight is not None:
            raise ConfigError("a bag's lines contain targets and weights", "ingest", "pass only target and kind")
        bags: Any = import_module("daskfs.sources.sparse.bags")
        kind = options.pop("kind", "none")
        of_kind = known_options(kind, options | {"target": target}) if kind in bags.KINDS else {}
        interactions = of_kind.pop("interactions", None)
        return with_entries(bags.BagSource(source, kind, **of_kind), None, interactions)
    module = type(source).__module__.partition(".")[0]
    is_table = hasattr(source, "columns") or hasattr(source, "__arrow_c_stream__")
    if given := [name for name in options if not (is_table and name in OF_TABLES)]:
        raise ConfigError(
            f"the options {', '.join(given)} are only for files", "ingest", "omit them for data in memory"
        )
    one_hot, interactions = options.pop("one_hot", None), options.pop("interactions", None)
    if module == "polars" and hasattr(source, "collect"):
        raise SourceError("expected a frame in memory, found a lazy frame", "source", "pass frame.collect()")
    if module not in ("pandas", "dask") and hasattr(source, "__arrow_c_stream__"):
        tables: Any = import_module("daskfs.sources.arrow_table")
        table = tables.ArrowSource(source, schema=schema, target=target, weight=weight, y=y, **options)
        return with_entries(table, one_hot, interactions)
    if module in ("pandas", "dask") and hasattr(source, "columns"):
        frames: Any = import_module("daskfs.sources.dataframe")
        frame_class = frames.FrameSource if module == "pandas" else frames.DaskFrameSource
        frame = frame_class(source, schema=schema, target=target, weight=weight, y=y, **options)
        return with_entries(frame, one_hot, interactions)
    if schema is not None:
        raise ConfigError("a table schema is for tables, not for arrays", "schema", "pass names and y, or a DataFrame")
    if target is not None and y is None:
        problem = f"the columns of an array have no names: {target!r} cannot be its target"
        raise ConfigError(problem, "target", "pass the targets as y=, or a DataFrame")
    targets = [target] if isinstance(target, str) else target
    if module == "dask":
        from daskfs.sources.dask_array import DaskArraySource

        return DaskArraySource(source, y, names, targets, weight)
    if hasattr(source, "tocsr"):
        matrices: Any = import_module("daskfs.sources.sparse.matrices")
        return matrices.MatrixSource(source, y, weight, names, targets if y is not None else None)
    if source is None or isinstance(source, (dict, set, int, float)):
        raise SourceError(f"expected a path, a table or an array, found {type(source).__name__}", "source")
    from daskfs.sources.arrays import ArraySource

    return ArraySource(source, y, weight, names, targets if y is not None else None)


def _is_plain(value: Any) -> bool:
    """Return whether a value can be written as JSON."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _are_names(target: Any) -> bool:
    """Return whether a target is given by name rather than by values."""
    return isinstance(target, str) or (
        isinstance(target, (list, tuple)) and len(target) > 0 and all(isinstance(name, str) for name in target)
    )


def _is_bag(source: Any) -> bool:
    """Return whether a source is a Dask bag or a list of delayed objects."""
    if isinstance(source, (list, tuple)):
        return bool(source) and all(type(item).__module__ == "dask.delayed" for item in source)
    return type(source).__module__ == "dask.bag.core"


def _file_source(
    source: Any, target: Any, schema: Any, weight: Any, names: Any, y: Any, options: dict[str, Any]
) -> Source:
    one = source if is_path(source) else source[0]
    first = str(one)
    if first.startswith("sklearn:"):
        return make_source("sklearn", name=first.removeprefix("sklearn:"), target=target, **options)
    kind = options.pop("kind", None) or kind_of(one)
    if kind == "zarr":
        return make_source(kind, path=source, y=y, names=names, target=target, schema=schema, weight=weight, **options)
    if kind in ("npz", "npy"):
        beside = {"y": y, "weight": weight, "names": names, "target": target, "schema": schema}
        return make_source(kind, path=source, **beside, **options)
    if kind in ("plink", "pgen", "bgen", "vcf_zarr", "anndata") and names is None and schema is None and weight is None:
        return make_source(kind, path=source, y=y, target=target, **options)
    if y is not None or names is not None:
        raise ConfigError(
            "y and names are for arrays; columns of a file have names", "ingest", "pass target='name of the column'"
        )
    return make_source(kind, path=source, schema=schema, target=target, weight=weight, **options)


def kind_of(path: str | os.PathLike[str] | ObjectPath) -> str:
    """Return the kind of a file or folder, from its ending or content; "csv" if nothing else is known.

    Raises
    ------
    SourceError
        A format that is not read; the remedy names a command that converts it.
    """
    folder = location(path)
    refuse_other_formats(folder)
    name = folder.with_suffix("") if folder.suffix in COMPRESSED else folder
    if isinstance(folder, ObjectPath) and name.suffix:
        return _kind_of_zarr(folder) if name.suffix == ".zarr" else ENDINGS.get(name.suffix, "csv")
    if folder.is_dir():
        if any((folder / name).exists() for name in ("zarr.json", ".zarray", ".zgroup")):
            return _kind_of_zarr(folder)
        is_partitioned = any("=" in file.name for file in folder.iterdir())
        files: Iterable[Location] = files_below(folder) if is_partitioned else folder.iterdir()
        kinds = {ENDINGS.get(file.suffix) for file in files}
        return next((kind for kind in ("parquet", "feather") if kind in kinds), "csv")
    return ENDINGS.get(name.suffix, "csv")


def _kind_of_zarr(folder: Location) -> str:
    """Return which kind of Zarr group this is, from its attributes. A pipe in place of a file is not waited for."""
    from daskfs.store.plain_files import read_document

    for name in ("zarr.json", ".zattrs"):
        with suppress(DaskfsError, OSError, AttributeError):
            document, _ = read_document(folder / name, name, MOST_ATTRIBUTES_NBYTES)
            attributes = document.get("attributes", {}) if name == "zarr.json" else document
            if attributes.get("encoding-type") == "anndata":
                return "anndata"
            if "vcf_zarr_version" in attributes:
                return "vcf_zarr"
    return "zarr"
