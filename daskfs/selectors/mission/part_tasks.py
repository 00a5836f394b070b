"""The tasks that read parts of a sparse source: models learn in parallel, and are averaged.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from daskfs.errors import DataError
from daskfs.selectors.mission.entries import BLOCK_NNZ, BLOCK_ROWS, PassingEntries
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.model import ModelShape, ModelState, NotFiniteRow
from daskfs.selectors.mission.reading import read_entries
from daskfs.selectors.mission.tasks import SgdSettings, not_finite
from daskfs.selectors.mission.variants import merged, restored
from daskfs.sources.sparse.base import SparseBlock


@dataclass(frozen=True, slots=True)
class PartToLearn:
    """A part of a source that one of several models learns from."""

    part: Any
    n_replicas: int
    number: int
    """Number of this model."""


class HowToLearn(NamedTuple):
    """Settings that are the same for all parts of a round."""

    sgd: SgdSettings
    labels: np.ndarray | None
    """Values of the target for the classes."""
    block_rows: int
    half_life: float | None
    """In passes over the rows so far; None: the tail never decays."""
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
    if item.number:  # so that earlier counts are counted once when models are averaged
        state = replace(state, touches=np.zeros_like(state.touches), loss_sum=0.0, weight_sum=0.0)
    model, rule, n_seen = restored(how.sgd.shape, state), how.sgd.rule(item.n_replicas), 0
    names = replace(names, names=dict(names.names), collisions=dict(names.collisions))
    blocks = _coded(source.sparse_part_blocks(item.part, BLOCK_ROWS, BLOCK_NNZ), how.labels)
    rows = PassingEntries(blocks, source)
    while True:
        block_end = (n_seen // how.block_rows + 1) * how.block_rows
        stop = rows.reach(min(n_seen + how.sgd.piece_rows, block_end))
        if stop > n_seen:
            piece = slice(n_seen, stop)
            entries = read_entries(rows, piece, None)
            try:
                model.train(entries, *how.sgd.target.read(rows, piece), rule)
            except NotFiniteRow as fault:
                raise not_finite(rows, piece, entries, fault.row) from None
            names.note_rows(rows, piece, model.active_ids)
        is_end = stop == n_seen
        if (is_end and n_seen % how.block_rows) or (not is_end and stop == block_end):
            n_rows = (n_seen if is_end else stop) - (block_end - how.block_rows)
            n_taught = how.n_before + item.n_replicas * max(stop, 1)
            model.end_block(n_rows * item.n_replicas, np.inf if how.half_life is None else how.half_life * n_taught)
        if is_end:
            return LearntPart(model.state(), names, n_seen)
        n_seen = stop


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
