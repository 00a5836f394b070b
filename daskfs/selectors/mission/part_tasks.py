"""The tasks that read parts of a sparse source: models learn in parallel, and are averaged.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from daskfs import errors
from daskfs.selectors.mission.configuration import Configuration
from daskfs.selectors.mission.entries import BLOCK_NNZ, BLOCK_ROWS, PassingEntries
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.model import ModelShape, ModelState
from daskfs.selectors.mission.training import Training, passing_rows, started
from daskfs.selectors.mission.variants import merged
from daskfs.sources.sparse.base import SparseBlock

DataError = errors.DataError.about("streams")


@dataclass(frozen=True, slots=True)
class PartToLearn:
    """A part of a source that one of several models learns from."""

    part: Any
    n_replicas: int
    number: int
    """Number of this model."""


class HowToLearn(NamedTuple):
    """Settings that are the same for all parts of a round."""

    config: Configuration
    labels: np.ndarray | None
    """Values of the target for the classes."""
    n_before: int
    """Number of rows that were learnt from before this round."""


class LearntPart(NamedTuple):
    """A model that has learnt from a part, or a mean of such models."""

    state: ModelState
    names: FeatureNames
    n_rows: int


def learn_part(source: Any, how: HowToLearn, state: ModelState, names: FeatureNames, item: PartToLearn) -> LearntPart:
    """Train a model on a part of a source, in its own blocks.

    Raises
    ------
    DataError
        NaN or infinity, or an unknown class.
    """
    model = started(how.config, state, item.number)
    names = replace(names, names=dict(names.names), collisions=dict(names.collisions))
    rows = PassingEntries(_coded(source.sparse_part_blocks(item.part, BLOCK_ROWS, BLOCK_NNZ), how.labels), source)
    training = Training(how.config, model, item.n_replicas, n_rows=how.n_before)
    found = training.learn(rows, passing_rows(rows, how.config), names=names)
    return LearntPart(found, names, (training.n_rows - how.n_before) // item.n_replicas)


def averaged(shape: ModelShape, first: LearntPart, second: LearntPart) -> LearntPart:
    """Return the mean of two models, with the names of both."""
    first.names.include(second.names)
    return LearntPart(merged(shape, first.state, second.state), first.names, first.n_rows + second.n_rows)


def _coded(blocks: Iterator[SparseBlock], labels: np.ndarray | None) -> Generator[SparseBlock, None, None]:
    """Yield blocks with class numbers as the target."""
    for block in blocks:
        if labels is None:
            yield block
            continue
        y = np.asarray(block.y)
        codes = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
        unknown = np.flatnonzero(labels[codes] != y)
        if len(unknown):
            problem = f"expected one of {labels.tolist()}, found {y[unknown[0]]!r}"
            raise DataError(problem, "y", "pass classes= with the first rows")
        yield replace(block, y=codes.astype(np.float64))
