"""What can be known of a pipeline's data without reading them: headers, metadata, the head of a text file."""

from __future__ import annotations

import math
from typing import Any

from daskfs.errors import ConfigError, PlanError, did_you_mean
from daskfs.methods import find_method
from daskfs.pipeline.config import Pipeline, Split
from daskfs.pipeline.plan import DataFacts, Plan, available_nbytes, make_plan, over_limit
from daskfs.selectors.base import BaseSelector
from daskfs.sources.base import Source
from daskfs.sources.registry import find_source, make_source
from daskfs.store.feature_store import FeatureStore, open_store
from daskfs.store.layout import choose_layout, store_nbytes


def open_source(pipeline: Pipeline) -> Source | None:
    """Return the pipeline's source, its header checked; None where it has none.

    Raises
    ------
    SourceError, SchemaError
    """
    if pipeline.source is None:
        return None
    source = make_source(**pipeline.source.model_dump(by_alias=True))
    source.check()
    return source


def check_pipeline(pipeline: Pipeline) -> Source | None:
    """Check what can be checked without computing: the source's or store's header against the pipeline.

    Raises
    ------
    DaskfsError
        With place and remedy.
    """
    wanted = set(pipeline.evaluate.metrics or ())
    knows_truth = pipeline.source is not None and find_source(pipeline.source.kind).knows_true_features
    if wanted & {"recall", "precision"} and not knows_truth:
        remedy = "use a synthetic source, or drop them"
        raise ConfigError("recall and precision need a source that knows its true features", "evaluate.metrics", remedy)
    source = open_source(pipeline)
    if pipeline.store_path.exists():
        store = open_store(pipeline.store_path)
        _check_target(store.target_names, str(pipeline.store_path))
        _check_split(pipeline.split, store.label_names, str(pipeline.store_path))
        check_sizes(pipeline, store.shape[1])
    elif source is not None:
        _check_target(source.target_names, "source")
        _check_split(pipeline.split, source.label_names, "source")
        check_sizes(pipeline, source.estimate_shape()[1])
    return source


def check_sizes(pipeline: Pipeline, n_features: int) -> None:
    """Refuse to select more features than there are."""
    for label, selection in pipeline.selections.items():
        for key in ("max_features", "n_features_to_select"):
            asked = getattr(selection, key, None)
            if asked is not None and asked > n_features:
                up_to = "up to " if key == "max_features" else ""
                raise ConfigError(
                    f"asks for {up_to}{asked:,} features, but there are {n_features:,}",
                    f"select.{key} ({label})",
                    f"ask for at most {n_features:,}",
                )


def plan_pipeline(pipeline: Pipeline, source: Source | None = None) -> Plan:
    """Plan a pipeline before anything is read.

    Parameters
    ----------
    pipeline : Pipeline
    source : Source, optional
        Where it is open already.

    Raises
    ------
    PlanError
        It would exceed the memory limit.
    DaskfsError
        The source or the store cannot be used.
    """
    if pipeline.store_path.exists():
        return plan_store(pipeline, open_store(pipeline.store_path))
    source = source or open_source(pipeline)
    if source is None:
        raise ConfigError("expected a source or a store, found neither", "source", "add one")
    return plan_data(pipeline, _facts_of_source(pipeline, source))


def plan_store(pipeline: Pipeline, store: FeatureStore) -> Plan:
    """Plan the selection over a store that stands."""
    n_samples, n_features = store.shape
    layout = choose_layout(n_samples, n_features, store.dtype, tile_shape=store.tile_shape)
    facts = DataFacts(
        n_samples=n_samples,
        n_features=n_features,
        dtype=str(store.dtype),
        tile_shape=store.tile_shape,
        n_train=_n_train(pipeline.split, n_samples),
        is_estimate=False,
        store_stands=True,
        store_nbytes=store_nbytes(n_samples, n_features, store.dtype, layout),
    )
    return plan_data(pipeline, facts)


def plan_data(pipeline: Pipeline, facts: DataFacts, n_workers: int | None = None) -> Plan:
    """Plan with every size known."""
    cluster = pipeline.cluster
    n_workers = n_workers or cluster.n_workers
    available = available_nbytes(cluster, facts, n_workers)
    n_threads = 1 if cluster.kind == "none" else n_workers
    plans = {}
    for label, selection in pipeline.selections.items():
        selector = make_selector(selection, available)
        size = (facts.n_train, facts.n_features, facts.dtype, available)
        try:
            plans[label] = selector.plan(*size, n_threads=n_threads, tile_shape=facts.tile_shape)
        except PlanError as fault:
            raise over_limit(fault, cluster, available, n_workers) from None
    return make_plan(facts, plans, cluster, n_workers)


def make_selector(selection: Any, memory_limit: int) -> BaseSelector:
    """Make the selector of one entry of `select`."""
    options = selection.model_dump(exclude={"method", "label"})
    selector: BaseSelector = find_method(selection.method)(**options, memory_limit=memory_limit)
    return selector


def _facts_of_source(pipeline: Pipeline, source: Source) -> DataFacts:
    n_samples, n_features = source.estimate_shape()
    if n_samples is None:
        raise ConfigError("the number of rows cannot be told without reading", "source", "ingest it first")
    wanted = pipeline.store
    tile_shape = None if wanted.tile_shape is None else (wanted.tile_shape[0], wanted.tile_shape[1])
    layout = choose_layout(n_samples, n_features, wanted.dtype, wanted.codec, tile_shape=tile_shape)
    return DataFacts(
        n_samples=n_samples,
        n_features=n_features,
        dtype=wanted.dtype,
        tile_shape=layout.tile_shape,
        n_train=_n_train(pipeline.split, n_samples),
        is_estimate=source.n_samples is None,
        store_stands=False,
        store_nbytes=store_nbytes(n_samples, n_features, wanted.dtype, layout),
    )


def _n_train(split: Split | None, n_samples: int) -> int:
    if split is None or split.by not in ("random", "order"):
        return n_samples
    return n_samples - math.ceil(float(split.test) * n_samples)  # type: ignore[arg-type]  # a share: see Split


def _check_split(split: Split | None, label_names: Any, where: str) -> None:
    if split is None or split.by in ("random", "order") or split.by in label_names:
        return
    raise ConfigError(
        f"split.by: no column {split.by!r} with role split or id"
        f"{did_you_mean(split.by, [*label_names, 'random', 'order'])}; there are: {', '.join(label_names) or 'none'}",
        where,
        "give it such a role in the table schema, or split by random or order",
    )


def _check_target(target_names: Any, where: str) -> None:
    if len(target_names) == 0:
        raise ConfigError("expected a target, found none", where, "name the target in the schema or as source.target")
    if len(target_names) > 1:
        names = ", ".join(str(name) for name in target_names)
        raise ConfigError(f"expected one target, found {names}", where, "name one as source.target")
