"""Plan of a pipeline: bytes read, passes, tasks, bytes on disk and peak memory per process, without reading data.

First `DataFacts` are collected from headers, metadata and the head of text files, and the pipeline is checked against
them. Then the plan is made from sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from daskfs.cluster.jobqueue import JOB_QUEUES, job_script
from daskfs.cluster.open import parse_bytes
from daskfs.errors import ConfigError, DataError, PlanError, did_you_mean
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.losses import LOSSES, PLAIN_NUMBERS, TargetKind
from daskfs.matrix.blocks import Crowding
from daskfs.matrix.buffers import DEFAULT_BLOCK_NBYTES
from daskfs.matrix.names import NAME_NBYTES, Names, columns_of_table
from daskfs.matrix.target import kind_of_target, kind_of_values
from daskfs.metrics import SELECTION_METRICS
from daskfs.objects.address import redacted
from daskfs.objects.ahead import ahead_nbytes
from daskfs.objects.path import ObjectPath
from daskfs.pipeline.config import Cluster, Pipeline, Split
from daskfs.pipeline.rereading import (
    ENOUGH,
    MAX_MEMORY_FACTOR,
    REPORTED_FROM,
    REPORTED_NBYTES,
    Rereading,
    least_memory,
    other_tiles,
    times_decoded,
)
from daskfs.pipeline.selections import key_of_n_features
from daskfs.selectors.inputs import columns_of
from daskfs.selectors.shared.budget import Budget
from daskfs.selectors.shared.refit import BLOCK_VALUES
from daskfs.selectors.shared.work import Grid, Work
from daskfs.sources.base import Source
from daskfs.sources.files import located
from daskfs.sources.registry import find_source, make_source
from daskfs.sources.sparse.base import SparseSource
from daskfs.store.feature_store import FeatureStore, open_store
from daskfs.store.layout import choose_layout, store_nbytes
from daskfs.store.sparse.layout import BLOCK_ROWS

MIB = 2**20
MOST_MIB = 2**30
"""Largest memory limit that is tried: one pebibyte."""

REHEARSAL_NBYTES = 1024 * MIB
"""The two processes together that compile the kernels, see `daskfs.pipeline.compile_ahead`; measured: 450 MiB each."""
BASE_CLIENT_NBYTES = 384 * MIB
"""The client process before any data: Python with NumPy, SciPy, numba, pandas, PyArrow, Zarr, scikit-learn, Dask and
Matplotlib. Measured: 367 to 393 MiB at the end of runs on 442 rows. All constants here are measured by
``benchmarks/process_memory.py``, which writes a page with the measurements."""
BASE_SCHEDULER_NBYTES = 40 * MIB
"""Dask's scheduler and dashboard in the client process, if we start the cluster; measured: 34 to 43 MiB."""
BASE_WORKER_NBYTES = 184 * MIB
"""A worker process before any data: Dask (62 MiB), numba (55), the compiled kernels (45), this library; measured: 178
to 187 MiB."""
BASE_EXTERNAL_NBYTES = 40 * MIB
"""Additional memory of a worker that we did not start locally: its own dashboard; measured: 37 to 39 MiB."""
HELD_NBYTES = {"client": 16 * MIB, "worker": 12 * MIB}
"""Margin for memory that Python, the allocator and Dask hold between tasks. It varies between runs, more on a busy
machine; measured: at most 9 MiB above the other terms."""
WORKER_ROW_NBYTES = 3 * 8
"""Per training row in a worker, if these are a subset of the store's rows: the row numbers (int64), and while a column
is read their positions in the tiles and allocator overhead; measured: 8 and 16 bytes
(``benchmarks/process_memory.py --rows``)."""
CLIENT_ROW_NBYTES = 64
"""Per row, in the client process: target, weight, order of the source, the split and its sorting (int64 each)."""
EVALUATE_NBYTES = 32 * MIB
"""Blocks of test rows, selected columns only, and their copies in double precision."""
REFIT_NBYTES = 3 * 8 * BLOCK_VALUES
"""Blocks of training rows, selected columns only, and their copies in double precision."""
REFIT_COLUMNS = 1000
"""Planned maximum number of refitted columns if the method chooses the number of features."""
READER_NBYTES = 64 * MIB
"""Text or columns that a source has read but not yet encoded."""
BASE_READER_NBYTES = 96 * MIB
"""Memory of workers that have read a source: Arrow (measured: 49 MiB), pandas if Arrow imports it (29), and buffers."""
WORTH_WORKERS_NBYTES = 512 * MIB
"""Minimum size of a store for which starting local processes, which must load Arrow, speeds up ingest."""
N_SHOWN_TERMS = 3
"""Number of the largest terms that a refused plan names."""
INGEST_SHARE = 2
"""Ingest holds the rows being cut into tiles and a permuted copy of them, but never more than its limit."""
SPARSE_INGEST_NBYTES = 1024 * MIB
"""Ingest of sparse entries uses all memory allowed, to sort more entries at once; this is enough for small stores."""


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


def check_pipeline(pipeline: Pipeline) -> Source | None:
    """Check the pipeline against the header of its source or store, without computing.

    Raises
    ------
    DaskfsError
        The pipeline does not fit the data.
    """
    wanted = set(pipeline.evaluate.metrics or ())
    knows_truth = pipeline.source is not None and find_source(pipeline.source.kind).knows_true_features
    if wanted & {*SELECTION_METRICS} and not knows_truth:
        problem = "selection_recall and selection_precision need a source with known true features"
        raise ConfigError(problem, "evaluate.metrics", "use a synthetic source, or remove them")
    for selection in pipeline.selections.values():
        selection.make_selector(1 << 62).check_parameters()
    source = open_source(pipeline)
    if pipeline.has_stored:
        store = open_store(pipeline.store_path)
        _check_target(store.target_names, str(pipeline.store_path))
        _check_split(pipeline.split, store.label_names, str(pipeline.store_path))
        _check_groups(pipeline, store.label_names)
        check_sizes(pipeline, store.shape[1])
        _check_included(pipeline, store.names)
    elif source is not None:
        _check_target(source.target_names, "source")
        _check_split(pipeline.split, source.label_names, "source")
        _check_groups(pipeline, source.label_names)
        check_sizes(pipeline, source.estimate_shape()[1])
    if source is not None:
        _check_included_of(pipeline, source)
    return source


def check_sizes(pipeline: Pipeline, n_features: int) -> None:
    """Refuse to select more features than there are."""
    for label, selection in pipeline.selections.items():
        for key in ("max_features", "n_features_to_select"):
            asked = getattr(selection, key, None)
            if getattr(selection, "feature_map", None) is not None:
                continue  # there are more features than columns
            if isinstance(asked, int) and asked > n_features:
                up_to = "up to " if key == "max_features" else ""
                raise ConfigError(
                    f"requests {up_to}{asked:,} features, but there are {n_features:,}",
                    f"select.{key} ({label})",
                    f"request at most {n_features:,}",
                )


def _check_included(pipeline: Pipeline, names: Names, may_come: Callable[[int | str], bool] = lambda _: False) -> None:
    """Refuse unknown columns in `always_include`, except those for which `may_come` is true."""
    for label, selection in pipeline.selections.items():
        asked = [one for one in getattr(selection, "always_include", None) or () if not may_come(one)]
        columns_of(asked, len(names), names, f"select.always_include ({label})")


def _check_included_of(pipeline: Pipeline, source: Source) -> None:
    """Refuse columns in `always_include` that the source does not have, as far as its columns are known."""
    if all(getattr(one, "always_include", None) is None for one in pipeline.selections.values()):
        return
    estimated = source.estimate_columns()
    names = source.feature_names if estimated is None else estimated[0]
    if names:  # sparse sources have no names before they are read
        known = Names(len(names), np.array(names, dtype=object))
        _check_included(pipeline, known, lambda one: estimated is not None and source.may_have(one))


def _check_split(split: Split | None, label_names: Any, where: str) -> None:
    if split is None or split.by in ("random", "order") or split.by in label_names:
        return
    raise ConfigError(
        f"split.by: no column {split.by!r} with role split or id"
        f"{did_you_mean(split.by, [*label_names, 'random', 'order'])}; there are: {', '.join(label_names) or 'none'}",
        where,
        "set this role in the table schema, or split by random or order",
    )


def _check_groups(pipeline: Pipeline, label_names: Any) -> None:
    """Refuse groups of rows by columns that do not exist."""
    about = {"stability": pipeline.stability, "split_inference": pipeline.split_inference, "split": pipeline.split}
    asked = {f"{section}.groups": getattr(found, "groups", None) for section, found in about.items()}
    for label, selection in pipeline.selections.items():
        size = getattr(selection, "n_features_to_select", None)
        found = size.get("groups") if isinstance(size, Mapping) else getattr(size, "groups", None)
        asked[f"select.n_features_to_select.groups ({label})"] = found
    for where, name in asked.items():
        if name is not None and name not in label_names:
            raise ConfigError(
                f"no column {name!r} with role split or id{did_you_mean(name, label_names)}; "
                f"there are: {', '.join(label_names) or 'none'}",
                where,
                "set this role in the table schema, or leave groups out",
            )


def _check_target(target_names: Any, where: str) -> None:
    if len(target_names) == 0:
        raise ConfigError("expected a target, found none", where, "set the target in the schema or as source.target")
    if len(target_names) > 1:
        names = ", ".join(str(name) for name in target_names)
        raise ConfigError(f"expected one target, found {names}", where, "choose one with source.target")


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
    """Return the kind of a store's target, from its header or, for stores of older versions, from its values."""
    if store.target_classes is not None:
        return TargetKind(len(store.target_classes), is_declared=True)
    n_values = store.source.get("n_target_values")
    return kind_of_target(store) if n_values is None else kind_of_values(int(n_values), store.shape[0])


def check_losses(pipeline: Pipeline, target: TargetKind) -> dict[str, str]:
    """Return the loss of each selection for a kind of target, by label.

    Raises
    ------
    ConfigError
        A method does not support the target, or no metric applies to it.
    """
    losses = {}
    for label, selection in pipeline.selections.items():
        try:
            losses[label] = selection.loss_for(target)
        except ConfigError as fault:
            raise ConfigError(fault.problem, f"select.loss ({label})", fault.remedy) from None
        loss = LOSSES.get(losses[label])
        if loss is not None and not pipeline.evaluate.metrics_of(loss):
            problem = f"none applies to {label} (loss {loss.name}, determined by the target)"
            raise ConfigError(problem, "evaluate.metrics", f"add {' or '.join(loss.default_metrics)}")
    return losses


def _n_train(split: Split | None, n_samples: int) -> int:
    if split is None or split.by not in ("random", "order"):
        return n_samples
    return n_samples - math.ceil(float(split.test) * n_samples)  # type: ignore[arg-type]  # a proportion: see Split


def _n_stored(split: Split | None, n_samples: int, is_shuffled: bool) -> int:
    """Return the number of rows in tiles with training rows: all rows, unless training rows are the store's first."""
    is_first = split is not None and split.by == "order" and not is_shuffled
    return _n_train(split, n_samples) if is_first else n_samples


class ProcessLimits(NamedTuple):
    """Kind of cluster, and the limit of the peak resident memory of each process."""

    kind: str
    """`cluster.kind` of a pipeline."""
    n_workers: int
    client: int
    worker: int | None = None
    """None if there are no worker processes."""
    n_threads: int = 1
    """Number of threads of each worker process."""

    @property
    def by_process(self) -> dict[str, int]:
        """The limits by process: client and, if there are workers, worker."""
        return {"client": self.client} | ({} if self.worker is None else {"worker": self.worker})

    @property
    def n_tasks_in_process(self) -> int:
        """Number of tasks that share the memory of a process, one per thread."""
        return self.n_workers if self.kind == "threads" else self.n_threads

    @property
    def of_tasks(self) -> Literal["client", "worker"]:
        """The process in which the tasks run."""
        return "client" if self.worker is None else "worker"

    @property
    def for_tasks(self) -> int:
        """The limit of that process."""
        return self.by_process[self.of_tasks]

    def available_nbytes(self, data: DataFacts) -> int:
        """Return the bytes that one task may use, in addition to the base of its process.

        Raises
        ------
        PlanError
            The limit is below the base of the process.
        """
        client = self.base_of_client(data.n_samples, data.held_nbytes)
        taken = client if self.worker is None else self.base_of_worker(data)
        base = taken.nbytes
        available = (self.for_tasks - base) // self.n_tasks_in_process
        if available < data.row_nbytes:
            raise PlanError(
                f"a process takes {shown_nbytes(base)} before its first block ({_largest(taken)}), "
                f"but the memory limit is {shown_nbytes(self.for_tasks)}",
                "cluster.memory_limit",
                f"allow at least {_enough(base + self.n_tasks_in_process * max(32 * MIB, 8 * data.row_nbytes))}",
            )
        return available

    def predicts_on_workers(self, data: DataFacts) -> bool:
        """Return whether workers have memory for blocks of test rows; else the client process predicts them."""
        if self.worker is None:
            return False
        task_nbytes = self.n_tasks_in_process * _predicting(data).nbytes
        return self.base_of_worker(data).nbytes + task_nbytes <= self.worker

    def ingests_on_workers(self, data: DataFacts) -> bool:
        """Return whether worker processes make the store by reading parts of the source, each within its limit."""
        return not data.store_exists and self.worker is not None and not self.why_in_client(data)

    def why_in_client(self, data: DataFacts) -> str:
        """Return the reason why the client process makes the store itself; "" if workers make it."""
        if self.worker is None:
            return "there are no worker processes"
        if not data.has_parts:
            return "the source cannot be read in parts"
        if self.ends_after_ingest and data.store_nbytes < WORTH_WORKERS_NBYTES:
            return f"starting processes takes longer for a store below {shown_nbytes(WORTH_WORKERS_NBYTES)}"
        if not self._left_to_ingest(self.base_of_worker(), self.worker):
            return "the workers' memory limit is too small for it"
        return ""

    @property
    def ends_after_ingest(self) -> bool:
        """Whether the processes that make the store end afterwards, so that selections do not share their memory."""
        return self.kind == "local"

    def ingest_nbytes(self, data: DataFacts) -> int:
        """Return the bytes that ingest may use in a process, in addition to the base of the process."""
        left = self._left_to_ingest(self.base_of_client(data.n_samples, data.held_nbytes), self.client)
        if self.ingests_on_workers(data):  # the client reads parts that workers cannot read
            left = min(left, self._left_to_ingest(self.base_of_worker(), self.worker or 0) // self.n_threads)
        if data.n_entries is not None:
            left = min(left, max(SPARSE_INGEST_NBYTES, INGEST_SHARE * data.store_nbytes))
        return max(left, 16 * MIB)

    def _left_to_ingest(self, base: Budget, limit: int) -> int:
        return limit - base.nbytes - READER_NBYTES if limit - base.nbytes - READER_NBYTES >= 16 * MIB else 0

    def base_of_client(self, n_samples: int, held_nbytes: int = 0) -> Budget:
        """Return the base memory of the client process."""
        base = Budget().add("the process", BASE_CLIENT_NBYTES).add("held between tasks", HELD_NBYTES["client"])
        if self.kind in ("threads", "local", *JOB_QUEUES):
            base.add("scheduler and dashboard", BASE_SCHEDULER_NBYTES)
        if held_nbytes:
            base.add("names", held_nbytes)
        return base.add("target, weights and order of the rows", CLIENT_ROW_NBYTES * n_samples)

    def base_of_worker(self, data: DataFacts | None = None) -> Budget:
        """Return the base memory of a worker process; with `data`, after it may have read parts of the source."""
        base = Budget().add("the process", BASE_WORKER_NBYTES).add("held between tasks", HELD_NBYTES["worker"])
        if self.kind != "local":
            base.add("its dashboard", BASE_EXTERNAL_NBYTES)
        if data is not None and self.ingests_on_workers(data) and not self.ends_after_ingest:
            base.add("libraries that read the source", BASE_READER_NBYTES)
        if data is not None and data.are_some_rows:
            base.add("row numbers", WORKER_ROW_NBYTES * data.n_train)
        return base


def limits_of(cluster: Cluster, n_workers: int | None = None) -> ProcessLimits:
    """Return the limits that a pipeline sets; `n_workers` is that of a running cluster, if known."""
    return ProcessLimits(
        cluster.kind, n_workers or cluster.n_workers, **cluster.limits_nbytes, n_threads=cluster.threads_of_worker
    )


@dataclass(frozen=True)
class PlannedStep:
    """A planned step: bytes read, passes over the training rows, tasks, and the peak memory of each process."""

    name: str
    read_nbytes: int
    n_passes: int
    n_tasks: int
    disk_nbytes: int
    client: Budget
    worker: Budget
    text: str
    in_client: str = ""
    """The part that the client process does itself although there are workers, and the reason."""
    work: Work | None = None

    @property
    def client_nbytes(self) -> int:
        """Peak memory of the client process."""
        return self.client.nbytes

    @property
    def worker_nbytes(self) -> int:
        """Peak memory of a worker process; 0 without workers."""
        return self.worker.nbytes

    def to_document(self) -> dict[str, Any]:
        """Return the step as a JSON-serialisable mapping."""
        document = asdict(self)
        del document["work"]
        for process in ("client", "worker"):
            budget = document.pop(process)
            document[f"{process}_nbytes"], document[f"{process}_terms"] = getattr(self, process).nbytes, budget["terms"]
        return document


@dataclass(frozen=True)
class Plan:
    """The plan of a run.

    Parameters
    ----------
    data : DataFacts
    steps : list of PlannedStep
    limits : ProcessLimits
    available_nbytes : int
        Bytes for one task: the `memory_limit` of each selector.
    is_fetched_anew : bool
        Whether each pass fetches the store over the network again, because there is no local cache.
    rereadings : tuple of Rereading
    groups_cut : tuple of str
    """

    data: DataFacts
    steps: list[PlannedStep]
    limits: ProcessLimits
    available_nbytes: int
    is_fetched_anew: bool = False
    rereadings: tuple[Rereading, ...] = ()
    """Steps that decode much of the store repeatedly."""
    groups_cut: tuple[str, ...] = ()
    """Messages about parts that do not keep the split's groups of rows together."""

    @property
    def promised_nbytes(self) -> dict[str, int]:
        """Peak resident bytes of the client process and, on a cluster, of each worker."""
        promised = {"client": max(step.client_nbytes for step in self.steps)}
        if self.limits.worker is not None:
            promised["worker"] = max(step.worker_nbytes for step in self.steps)
        return promised

    def to_document(self) -> dict[str, Any]:
        """Return the plan as a JSON-serialisable mapping."""
        data = self.data
        facts = asdict(replace(data, names=None, table_columns=None))
        del facts["names"], facts["table_columns"]
        return {
            "data": facts | {"tile_shape": list(data.tile_shape), "target": data.target._asdict()},
            "steps": [step.to_document() for step in self.steps],
            "cluster_kind": self.limits.kind,
            "n_workers": self.limits.n_workers,
            "limits_nbytes": self.limits.by_process,
            "promised_nbytes": self.promised_nbytes,
            "rereadings": [one._asdict() for one in self.rereadings],
            "groups_cut": [*self.groups_cut],
        }

    def to_text(self) -> str:
        """Return the plan as text."""
        data, limits = self.data, self.limits
        about = "about " if data.is_estimate else ""
        state = "exists already" if data.store_exists else "will be made"
        lines = [
            f"data     {about}{data.n_samples:,} samples x {data.n_features:,} features, {data.dtype}, "
            f"tiles {data.tile_shape[0]:,} x {data.tile_shape[1]:,}; {data.n_train:,} samples to train on",
            f"store    none: {shown_nbytes(data.store_nbytes)} are read directly from the source's files"
            if data.is_in_place
            else f"store    {state}: {shown_nbytes(data.store_nbytes)} on disk before compression",
        ]
        lines += [f"filter   {words}" for words in data.filters]
        for step in self.steps:
            passes, tasks = _counted(step.n_passes, "pass", "passes"), _counted(step.n_tasks, "task", "tasks")
            read = f"{step.name:<8} reads {shown_nbytes(step.read_nbytes)} in {passes}, {tasks}"
            lines.append("; ".join(part for part in (read, step.text) if part))
        n_passes = sum(step.n_passes for step in self.steps if step.name not in ("ingest", "evaluate"))
        if self.is_fetched_anew and n_passes > 1:
            keeps = "DASKFS_CACHE=FOLDER keeps it on the local disk"
            lines.append(f"network  fetches the store {n_passes:,} times; {keeps}")
        lines += [f"again    {one.to_text()}" for one in self.rereadings]
        lines += [f"groups   {words}" for words in self.groups_cut]
        where = {"none": "in this process", "threads": f"on {limits.n_workers} threads"}
        runs = where.get(limits.kind, f"on {limits.n_workers} workers ({limits.kind})")
        peaks = ", ".join(
            f"{process} {shown_nbytes(nbytes)} (limit {shown_nbytes(limits.by_process[process])})"
            for process, nbytes in self.promised_nbytes.items()
        )
        if limits.worker is not None:
            own = [f"{step.name}: {step.in_client}" for step in self.steps if step.in_client]
            lines.append(f"client   does itself: {'; '.join(own) or 'nothing'}")
        lines.append(f"memory   {runs}, at most: {peaks}")
        lines += [f"         {line}" for line in self._terms()]
        apart = f"in two separate processes, up to {shown_nbytes(REHEARSAL_NBYTES)} together"
        lines.append(f"compile  kernels not yet compiled on this machine, before the work, {apart}")
        return "\n".join(lines)

    def _terms(self) -> list[str]:
        """Return the terms of the peak memory of each process, the largest first."""
        lines = []
        for process in self.promised_nbytes:
            step = max(self.steps, key=lambda step: getattr(step, process).nbytes)
            terms = sorted(getattr(step, process).terms.items(), key=lambda term: -term[1])
            shown = ", ".join(f"{name} {shown_nbytes(nbytes)}" for name, nbytes in terms if nbytes)
            lines.append(f"{process} in {step.name}: {shown}")
        return lines


def jobs_of(pipeline: Pipeline, *, to_run: bool = False) -> dict[str, Any]:
    """Return the number of jobs that a pipeline submits to a batch system, and their script; empty without jobs.

    The script is the one submitted, but with ``${NAME}`` as written and without secrets, because it is logged.

    Raises
    ------
    ConfigError
        dask-jobqueue is not installed, and `to_run` is true.
    """
    if pipeline.cluster.kind not in JOB_QUEUES:
        return {}
    jobs = pipeline.cluster_jobs
    try:
        return {"n_jobs": jobs.n_jobs, "job_script": redacted(job_script(jobs))}
    except ConfigError as fault:
        if to_run or fault.where != "cluster.kind":
            raise
        return {"n_jobs": jobs.n_jobs, "job_script": None, "problem": f"{fault.problem}: {fault.remedy}"}


def text_of_jobs(jobs: Mapping[str, Any]) -> str:
    """Return the outcome of `jobs_of` as text."""
    if not jobs:
        return ""
    script = jobs["job_script"]
    return f"jobs     {jobs['n_jobs']} of this script:\n\n{script}" if script else f"jobs     {jobs['problem']}"


def plan_pipeline(pipeline: Pipeline, facts: DataFacts, n_workers: int | None = None) -> Plan:
    """Plan every step of a pipeline.

    Parameters
    ----------
    pipeline : Pipeline
    facts : DataFacts
    n_workers : int, optional
        Number of workers of a running cluster; default: `cluster.n_workers`.

    Raises
    ------
    PlanError
        A process would exceed its memory limit. The message names sufficient limits, which were found by planning.
    """
    check_losses(pipeline, facts.target)
    try:
        plan = _planned(pipeline, facts, limits_of(pipeline.cluster, n_workers))
        again, cut = tuple(_rereadings(pipeline, plan, n_workers)), tuple(_groups_cut(pipeline, plan))
        return replace(plan, rereadings=again, groups_cut=cut)
    except PlanError as fault:
        sizes = _least_limits(pipeline, facts, n_workers, fault)
        if not sizes:
            raise
        first = next(iter(sizes.values()))
        enough = first if len(sizes) == 1 else " and ".join(f"{key} {size}" for key, size in sizes.items())
        remedy = f"allow at least {enough}" + (f", or {fault.alternative}" if fault.alternative else "")
        needed = parse_bytes(first)
        raise PlanError(
            fault.problem, fault.where, remedy, needed_nbytes=needed, alternative=fault.alternative
        ) from None


def _planned(pipeline: Pipeline, facts: DataFacts, limits: ProcessLimits) -> Plan:
    """Plan with these limits. Tasks get the memory of their process that the client's part of a selection leaves."""
    n_threads = 1 if limits.kind == "none" else limits.n_workers * limits.n_threads
    more = {"n_threads": n_threads, "tile_shape": facts.tile_shape, "target": facts.target}
    more |= {"n_stored": facts.n_stored, "has_statistics": facts.has_statistics, "n_entries": facts.n_trained}
    more |= {"ahead_nbytes": facts.ahead_nbytes}
    more |= {"crowding": facts.crowding, "names": facts.names, "table_columns": facts.table_columns}
    available = limits.available_nbytes(facts)
    while True:
        plans = {}
        for label, selection in pipeline.selections.items():
            try:
                selector = selection.make_selector(available)
                plans[label] = selector.plan(facts.n_train, facts.n_features, facts.dtype, available, **more)
            except PlanError as fault:
                if fault.needed_nbytes is None:
                    raise
                problem = f"{fault.problem}, the part of {shown_nbytes(limits.for_tasks)} that is left for a task"
                raise PlanError(problem, "cluster.memory_limit", alternative=fault.alternative) from None
        steps = [_select_step(label, plan, facts, limits) for label, plan in plans.items()]
        excess = max(getattr(step, limits.of_tasks).nbytes for step in steps) - limits.for_tasks
        if excess <= 0 or excess >= available:
            whole = make_plan(facts, plans, limits, available, _n_refitted(pipeline, facts))
            store = pipeline.store_path
            return replace(whole, is_fetched_anew=isinstance(store, ObjectPath) and not store.has_cache)
        available -= -(-excess // limits.n_tasks_in_process)


def _groups_cut(pipeline: Pipeline, plan: Plan) -> Iterator[str]:
    """Yield messages about selections that do not keep the split's groups of rows together."""
    if pipeline.split is None or pipeline.split.groups is None:
        return
    for label, selection in pipeline.selections.items():
        words = selection.make_selector(plan.available_nbytes).groups_are_cut_by
        if words:
            yield f"{label}: {words} do not keep groups of {pipeline.split.groups!r} together"


def _rereadings(pipeline: Pipeline, plan: Plan, n_workers: int | None) -> Iterator[Rereading]:
    """Yield the steps that decode much data repeatedly, with settings that avoid it."""
    facts = plan.data
    if facts.n_entries is not None or facts.is_in_place:
        return

    def times(step: PlannedStep, facts: DataFacts) -> float:
        grid = Grid(facts.n_train, facts.n_features, *facts.tile_shape, n_stored=facts.n_stored)
        return times_decoded(step.work, step.n_passes, grid)

    def planned_again(name: str, facts: DataFacts, cluster: Cluster) -> float:
        try:
            steps = _planned(pipeline, facts, limits_of(cluster, n_workers)).steps
        except PlanError:
            return math.inf
        return times(next(step for step in steps if step.name == name), facts)

    for step in plan.steps:
        found, limit = times(step, facts), plan.limits.for_tasks // MIB
        if (found - 1.0) * step.n_passes * facts.n_train * facts.row_nbytes < REPORTED_NBYTES:
            continue

        def with_memory(n_mib: int, name: str = step.name) -> float:
            return planned_again(name, facts, pipeline.cluster.model_copy(update={"memory_limit": f"{n_mib}MiB"}))

        tiles = other_tiles(facts.tile_shape, facts.n_samples, facts.n_features)
        others = {one: planned_again(step.name, replace(facts, tile_shape=one), pipeline.cluster) for one in tiles}
        least = min(with_memory(MAX_MEMORY_FACTOR * limit), *others.values())
        if found < REPORTED_FROM * least:
            continue
        n_mib = least_memory(limit, lambda n: with_memory(n) < ENOUGH * least)  # noqa: B023
        shape = next((one for one, again in others.items() if again < ENOUGH * least), None)
        remedies = [] if n_mib is None else [f"cluster.memory_limit: {n_mib}MiB"]
        remedies += [] if shape is None else [f"store.tile_shape: {[*shape]}"]
        yield Rereading(step.name, found, least, remedies)


def _least_limits(
    pipeline: Pipeline, facts: DataFacts, n_workers: int | None, fault: PlanError | None
) -> dict[str, str]:
    """Return sufficient limits by key, each at most 1 MiB above the smallest."""
    found: dict[str, str] = {}
    cluster = pipeline.cluster

    def refused_at(key: str, n_mib: int) -> PlanError | None:
        try:
            _planned(pipeline, facts, limits_of(cluster.model_copy(update={key: f"{n_mib}MiB"}), n_workers))
        except PlanError as refusal:
            return refusal
        return None

    while fault is not None:
        key = fault.where.rpartition(".")[2]
        if key in found or key not in ("memory_limit", "client_memory_limit"):
            return {}
        refused, accepted = 0, 256
        while (fault := refused_at(key, accepted)) is not None and fault.where.endswith(f".{key}"):
            refused, accepted = accepted, 2 * accepted
            if accepted > MOST_MIB:
                return {}
        while accepted - refused > 1:
            middle = (accepted + refused) // 2
            again = refused_at(key, middle)
            if again is not None and again.where.endswith(f".{key}"):
                refused = middle
            else:
                accepted, fault = middle, again
        found[key] = f"{accepted}MiB"
        cluster = cluster.model_copy(update={key: found[key]})
    return found


def _n_refitted(pipeline: Pipeline, facts: DataFacts) -> int:
    """Return the number of columns of the pipeline's common refit; 0 without a refit."""
    if pipeline.refit.by == "method":
        return 0
    asked = (getattr(one, key_of_n_features(one.method), None) for one in pipeline.selections.values())
    return min(max(n if isinstance(n, int) else REFIT_COLUMNS for n in asked), facts.n_features)


def make_plan(
    data: DataFacts,
    selector_plans: Mapping[str, Any],
    limits: ProcessLimits,
    available: int | None = None,
    n_refitted: int = 0,
) -> Plan:
    """Combine the costs of all steps and compare them with the limits.

    Parameters
    ----------
    data : DataFacts
    selector_plans : mapping of str to SelectorPlan
        One for each selection, by label.
    limits : ProcessLimits
    available : int, optional
        Bytes per task with which the selections were planned; default: all that the base of the process leaves.
    n_refitted : int
        Number of columns of the pipeline's common refit; 0 without a refit.

    Raises
    ------
    PlanError
        A process would exceed its limit. The message says how much memory it needs.
    """
    steps = [] if data.store_exists else [_ingest_step(data, limits)]
    steps += [_select_step(label, plan, data, limits) for label, plan in selector_plans.items()]
    if n_refitted:
        steps.append(_refit_step(n_refitted, len(selector_plans), data, limits))
    steps.append(_evaluate_step(data, limits))
    available = limits.available_nbytes(data) if available is None else available
    whole = Plan(data, steps, limits, available)
    for process, nbytes in whole.promised_nbytes.items():
        limit = limits.by_process[process]
        if nbytes > limit:
            key = "client_memory_limit" if process == "client" and limits.worker is not None else "memory_limit"
            step = max(steps, key=lambda step: getattr(step, process).nbytes)
            terms = _largest(getattr(step, process))
            fewer = "select fewer features, or train on fewer rows" if step.name in selector_plans else ""
            raise PlanError(
                f"the {process} would need {shown_nbytes(nbytes)} in {step.name} ({terms}), but the memory "
                f"limit is {shown_nbytes(limit)}",
                f"cluster.{key}",
                f"allow at least {_enough(nbytes)}" + (f", or {fewer}" if fewer else ""),
                alternative=fewer,
            )
    return whole


def _ingest_step(data: DataFacts, limits: ProcessLimits) -> PlannedStep:
    rows = limits.ingest_nbytes(data)
    if data.n_entries is None:
        rows = min(INGEST_SHARE * data.store_nbytes, rows)
    taken = Budget().add("text or columns not yet encoded", READER_NBYTES).add("rows being permuted", rows)
    taken.include(data.ahead)
    client, worker = limits.base_of_client(data.n_samples, data.held_nbytes) + taken, Budget()
    text, n_tasks = "rows permuted, tiles written", 1
    in_client = limits.why_in_client(data)
    if limits.ingests_on_workers(data):
        worker, n_tasks = limits.base_of_worker() + taken, limits.n_workers
        whose = "separate processes" if limits.ends_after_ingest else "the workers"
        text, in_client = f"parts read, rows permuted, tiles written by {whose}", ""
    return PlannedStep("ingest", data.store_nbytes, 1, n_tasks, data.store_nbytes, client, worker, text, in_client)


def _select_step(label: str, plan: Any, data: DataFacts, limits: ProcessLimits) -> PlannedStep:
    client, worker = limits.base_of_client(data.n_samples, data.held_nbytes) + plan.client, Budget()
    if limits.worker is None:
        client.include(plan.task.times(limits.n_tasks_in_process))
    else:
        worker = limits.base_of_worker(data) + plan.task
    numbers = (plan.read_nbytes, plan.n_passes, plan.n_tasks)
    return PlannedStep(label, *numbers, 0, client, worker, plan.text, plan.in_client, plan.work)


def _refit_step(n_columns: int, n_selections: int, data: DataFacts, limits: ProcessLimits) -> PlannedStep:
    """Plan the refit: columns stay in memory up to half of a task's memory, else tasks read them at each step."""
    nbytes = data.n_train * n_columns * np.dtype(data.dtype).itemsize
    kept = min(nbytes, limits.available_nbytes(data) // 2, DEFAULT_BLOCK_NBYTES)
    client = (
        limits.base_of_client(data.n_samples, data.held_nbytes)
        .add("selected columns", kept)
        .add("products of selected columns", 5 * 8 * n_columns**2)
    )
    task, worker = Budget().add("blocks of selected columns", REFIT_NBYTES).include(data.ahead), Budget()
    if limits.worker is None or kept == nbytes:
        client.include(task.times(limits.n_tasks_in_process))
    else:
        worker = limits.base_of_worker(data) + task
    text = f"selected columns only, at most {n_columns:,} of them"
    in_client = "" if kept < nbytes else "the fit on the selected columns, which fit in its memory"
    return PlannedStep("refit", n_selections * nbytes, n_selections, n_selections, 0, client, worker, text, in_client)


def _evaluate_step(data: DataFacts, limits: ProcessLimits) -> PlannedStep:
    n_test = data.n_samples - data.n_train
    task = _predicting(data)
    client, worker = limits.base_of_client(data.n_samples, data.held_nbytes), Budget()
    client.add("predictions of test rows", 2 * 8 * n_test * max(1, data.target.n_classes - 1))
    in_client = ""
    if limits.predicts_on_workers(data):
        worker = limits.base_of_worker(data) + task
    elif limits.worker is None:
        client.include(task.times(limits.n_tasks_in_process))
    else:
        client.include(task)
        in_client = "the prediction of test rows, for which the workers' memory limit is too small"
    read_nbytes = n_test * data.row_nbytes
    return PlannedStep("evaluate", read_nbytes, 1, 1, 0, client, worker, "selected columns only", in_client=in_client)


def _predicting(data: DataFacts) -> Budget:
    """Return the memory of a task that predicts test rows."""
    task = Budget().add("blocks of test rows", EVALUATE_NBYTES).include(data.ahead)
    return task if data.n_entries is None else task.add("index of selected columns", 4 * data.n_features)


def _largest(budget: Budget) -> str:
    """Return the largest terms of a budget as text."""
    terms = sorted(budget.terms.items(), key=lambda term: -term[1])[:N_SHOWN_TERMS]
    return ", ".join(f"{name} {shown_nbytes(size)}" for name, size in terms if size)


def shown_nbytes(nbytes: int) -> str:
    """Format a size in bytes.

    Examples
    --------
    >>> shown_nbytes(1536), shown_nbytes(5 * 2**30)
    ('1.5 KiB', '5.0 GiB')
    """
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def _enough(nbytes: int) -> str:
    """Return the size in a pipeline's notation, rounded up to MiB."""
    return f"{-(-nbytes // MIB)}MiB"


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
