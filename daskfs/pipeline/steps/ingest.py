"""The first step: the source becomes a store, or its files are read directly."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from daskfs.errors import StoreError
from daskfs.pipeline.config import Pipeline
from daskfs.pipeline.facts import DataFacts
from daskfs.pipeline.limits import INGEST_SHARE, READER_NBYTES, PlannedStep, ProcessLimits
from daskfs.pipeline.steps.cluster import open_workers
from daskfs.pipeline.steps.context import Context
from daskfs.selectors.shared.budget import Budget
from daskfs.sources.base import Source
from daskfs.sources.ingest import ingest
from daskfs.store.feature_store import FeatureStore, open_store
from daskfs.watching.base import Progress

if TYPE_CHECKING:
    from distributed import Client

    from daskfs.cluster.workers import Workers
    from daskfs.sources.genotype_matrix import GenotypeMatrix


def cost(data: DataFacts, limits: ProcessLimits) -> PlannedStep:
    """Return the planned step."""
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


def run(context: Context, data: DataFacts, limits: ProcessLimits, workers: Workers | None) -> FeatureStore:
    """Make or open the store.

    Parameters
    ----------
    context : Context
    data : DataFacts
    limits : ProcessLimits
    workers : Workers, optional
        Workers that make the store, if planned. Without them, local processes are started if the plan uses workers.
    """
    since, limit = time.perf_counter(), limits.ingest_nbytes(data)
    pipeline, source, watch = context.pipeline, context.source, context.watch
    if workers is None and limits.ingests_on_workers(data):
        with open_workers(context, "local") as own:
            store = make_store(pipeline, source, limit, watch, own.client)
            context.ingest_memory = own.peak_memory()
    else:
        store = make_store(pipeline, source, limit, watch, None if workers is None else workers.client)
    context.ingest_seconds = time.perf_counter() - since
    return store


def run_in_place(context: Context) -> GenotypeMatrix:
    """Return the source's files as a matrix, after counting their missing values."""
    assert context.source is not None
    since, watch = time.perf_counter(), context.watch
    watch.start("survey", 1)
    matrix: GenotypeMatrix = context.source.as_matrix()
    watch.advance()
    watch.finish()
    context.ingest_seconds = time.perf_counter() - since
    return matrix


def make_store(
    pipeline: Pipeline,
    source: Source | None,
    memory_limit: int,
    progress: Progress,
    client: Client | None = None,
) -> FeatureStore:
    """Ingest the source, or open the existing store that was made from it."""
    path = pipeline.store_path
    if source is None:
        return open_store(path)
    wanted = pipeline.stored
    try:
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        problem = f"cannot create the store's folder: {fault.strerror}"
        raise StoreError(problem, str(path), "choose another store.path") from None
    return ingest(
        source,
        path,
        dtype=wanted.dtype,
        shuffle=wanted.shuffle,
        random_state=wanted.random_state,
        codec=wanted.codec,
        tile_shape=None if wanted.tile_shape is None else (wanted.tile_shape[0], wanted.tile_shape[1]),
        memory_limit=memory_limit,
        progress=progress,
        client=client,
        storage_options=pipeline.storage_options,
    )
