"""Checks of a pipeline without a store, before anything is computed."""

from __future__ import annotations

from daskfs import errors
from daskfs.metrics import SELECTION_METRICS
from daskfs.pipeline.config import Pipeline
from daskfs.pipeline.facts import open_source
from daskfs.sources.sparse.base import SparseSource

ConfigError = errors.ConfigError.about("streams")


def check_stream(pipeline: Pipeline) -> SparseSource:
    """Check a pipeline without a store; return its source with a checked header.

    Raises
    ------
    ConfigError
        The pipeline needs a store.
    """
    check_selections(pipeline)
    source = open_source(pipeline)
    if source is None:
        raise ConfigError("expected a source because there is no store, found none", "source", "add it")
    if not isinstance(source, SparseSource):
        problem = f"a {source.kind} source needs a store"
        raise ConfigError(problem, "store", "remove `store: none`, or use a sparse source (libsvm, vw)")
    split = pipeline.split
    if split is not None and split.by != "random" and split.by not in source.label_names:
        problem = f"rows of a stream cannot be split by {split.by!r}"
        raise ConfigError(problem, "split.by", "split by random, by a label column, or write `split: null`")
    if split is not None and split.groups is not None:
        problem = "rows of a stream are split one at a time, so groups cannot be kept together"
        raise ConfigError(problem, "split.groups", "leave it out, or remove `store: none`")
    return source


def check_selections(pipeline: Pipeline) -> None:
    """Refuse methods, refits and clusters that need a store."""
    for label, selection in pipeline.selections.items():
        if not hasattr(selection.selector, "fit_source"):
            problem = f"{selection.method} reads rows more than once and needs a store"
            raise ConfigError(problem, f"select ({label})", "use method: mission, or remove `store: none`")
        n_replicas = getattr(selection, "n_replicas", 1)
        if n_replicas > 1 and pipeline.split is not None:
            problem = "n_replicas above 1 trains on all rows of the source and does not support a split"
            raise ConfigError(problem, "split", "write `split: null`, or n_replicas: 1")
        if n_replicas == 1 and pipeline.cluster.kind != "none":
            problem = f"n_replicas: 1 trains in this process and cannot use a cluster of kind {pipeline.cluster.kind!r}"
            raise ConfigError(problem, "cluster.kind", "write kind: none, or n_replicas: 2 and `split: null`")
    if pipeline.refit.by != "method":
        raise ConfigError("a refit needs a store", "refit.by", "leave it out")
    if set(pipeline.evaluate.metrics or ()) & {*SELECTION_METRICS}:
        problem = "selection_recall and selection_precision need a source with known true features"
        raise ConfigError(problem, "evaluate.metrics", "remove them")
