"""Checks of a pipeline against the header of its source or store, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.errors import did_you_mean
from daskfs.losses import LOSSES, TargetKind
from daskfs.matrix.names import Names
from daskfs.metrics import SELECTION_METRICS
from daskfs.pipeline.config import Pipeline, Split
from daskfs.pipeline.facts import open_source
from daskfs.selectors.inputs import columns_of
from daskfs.sources.base import Source
from daskfs.sources.registry import find_source
from daskfs.store.feature_store import open_store

ConfigError = errors.ConfigError.about("pipeline-files")


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
        except errors.ConfigError as fault:
            raise ConfigError(fault.problem, f"select.loss ({label})", fault.remedy) from None
        loss = LOSSES.get(losses[label])
        if loss is not None and not pipeline.evaluate.metrics_of(loss):
            problem = f"none applies to {label} (loss {loss.name}, determined by the target)"
            raise ConfigError(problem, "evaluate.metrics", f"add {' or '.join(loss.default_metrics)}")
    return losses


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
