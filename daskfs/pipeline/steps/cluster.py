"""The workers of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import Workers
from daskfs.dashboard.shown import on_dashboard
from daskfs.pipeline.steps.context import Context


@contextmanager
def open_workers(context: Context, kind: str) -> Iterator[Workers]:
    """Open the pipeline's cluster, of a kind, and show the run on its dashboard."""
    opened = open_cluster(**context.pipeline.cluster_arguments | {"kind": kind}, tell=context.tell)
    with opened as workers, on_dashboard(workers, context.watch):
        yield workers
