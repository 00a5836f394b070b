"""MISSION's model during training: exact weights of active features, a count-sketch of all others, an intercept.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise, starmap

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.sketch.by_class import count_features, empty_entries, entries_by_class, fill_entries, train_by_class
from daskfs.kernels.sketch.classes import train_classes
from daskfs.kernels.sketch.hashed_rows import train_hashed_rows
from daskfs.kernels.sketch.heap import FORGETS, FRESH, STALE, empty_heaps, fill_heap, train_rows_with_heaps
from daskfs.kernels.sketch.rows import (
    EMPTY,
    SCALARS,
    LabelledRows,
    Sketch,
    StepRule,
    Table,
    Work,
    place_keys,
    train_rows,
)
from daskfs.matrix.blocks import SparseRows
from daskfs.selectors.mission.count_sketch import CountSketch
from daskfs.selectors.shared.record import Record

SLACK = 4096
"""Features that a row may make active beyond the number that triggers a selection; the others wait in the sketch."""

POLICIES = {"paper": FRESH, "heap": STALE, "iht": FORGETS}
"""Variants that keep the k largest features of each class in a heap."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a model's arrays, and what it learns."""

    n_selected: int
    """K, the number of active features after a selection; with a heap, of each class."""
    n_buckets: int
    n_hashes: int
    seed: int
    n_outputs: int = 1
    loss: str = "squared"
    variant: str = "active"
    """The algorithm: "active" or "paper", as in `daskfs.Mission`, or one of the following.

    "heap" is the authors' program; "iht" and "batch_iht" are hard thresholding without a sketch; "hashing" has no
    active features.
    """
    n_gathered: int = 0
    """With "batch_iht": features between two selections."""
    per_class: bool = False
    """With "active" and several outputs: whether each has its own K active features."""
    always: tuple[int, ...] = ()
    """Features that are active from the first row on and stay so; included in K. Only for "active"."""

    @property
    def is_in_sketch(self) -> bool:
        """Whether all weights are in the sketch, including those of the active features."""
        return self.variant in ("paper", "heap")

    @property
    def has_heap(self) -> bool:
        """Whether heaps, one for each output, hold the K largest features after every row."""
        return self.variant in POLICIES

    @property
    def most_selected(self) -> int:
        """Largest number of active features at the end."""
        return self.n_selected * (self.n_outputs if self.is_by_class else 1)

    @property
    def is_by_class(self) -> bool:
        """Whether each output has its own K largest; a weight is 0 if the feature is not active for the class."""
        return self.has_heap or self.per_class

    @property
    def forgets(self) -> bool:
        """Whether there is no sketch, so that weights of inactive features are lost."""
        return self.variant in ("iht", "batch_iht")

    @property
    def full(self) -> int:
        """Number of active features, or entries of the classes, that triggers a selection."""
        if self.per_class:
            return self.most_selected + max(self.most_selected // 4, 1024)
        return self.n_selected + max(self.n_selected, 1024, self.n_gathered)

    @property
    def n_chains(self) -> int:
        """Rows of the sketch that index the active features by cell, for variants that query them again."""
        return self.n_hashes if self.variant == "paper" else 0

    @property
    def n_slots(self) -> int:
        """Slots of a table: a power of two, half of which is used."""
        most = self.n_selected + 1 if self.has_heap else self.full + SLACK
        return 1 << (2 * most - 1).bit_length()

    @property
    def sketch_nbytes(self) -> int:
        """Bytes of the cells."""
        return max(self.n_hashes, 1) * self.n_buckets * self.n_outputs * 4

    @property
    def nbytes(self) -> int:
        """Bytes of one model in memory."""
        if self.has_heap:
            slot_nbytes, place_nbytes = 8 + 8 + 4 * self.n_chains, 8 + 4 + 4 + 8 + 8 + 8 + 8 * self.n_chains
            heap_nbytes = self.n_slots * slot_nbytes + self.n_selected * place_nbytes + 8
            return self.sketch_nbytes + self.n_outputs * heap_nbytes
        if self.per_class:  # a table of entries during training, rows of all classes afterwards
            table_nbytes, rows_nbytes = self.n_slots * 20, self.most_selected * (16 + 4 * self.n_outputs)
            return self.sketch_nbytes + max(table_nbytes, rows_nbytes)
        return self.sketch_nbytes + self.n_slots * (8 + 8 + 4 * self.n_outputs)

    def sketch(self, cells: np.ndarray | None = None, scale: float = 1.0) -> CountSketch:
        """Return the sketch, empty or with these cells."""
        return CountSketch(self.n_buckets, self.n_hashes, self.seed, self.n_outputs, cells, scale)


@dataclass(frozen=True, slots=True)
class ModelState(Record):
    """A model between two tasks."""

    keys: np.ndarray
    """Ids of the active features, ascending."""
    weights: np.ndarray
    """Weights of the active features, shape (n_active, n_outputs); with heaps 0 if not active for the class."""
    touches: np.ndarray
    """Number of rows that had the feature while it was active."""
    cells: np.ndarray
    """Cells of the sketch."""
    scale: float
    """Factor of all cells."""
    intercept: np.ndarray
    """Shape (n_outputs,)."""
    threshold: float = 0.0
    """Weight from which a feature becomes active."""
    rows_seen: float = 0.0
    loss_sum: float = 0.0
    """Summed loss of the rows so far, each before the update with it."""
    weight_sum: float = 0.0
    n_merged: int = 1
    """Number of models of which this is the mean."""
    sums: np.ndarray | None = None
    """Weighted sums of 1, x and x² over the active features' columns, if requested, (n_active, 3)."""


class NotFiniteRow(Exception):
    """A row has NaN or infinity; holds its position among the given rows."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class MissionModel:
    """Weights, threshold and intercept; see the module.

    Parameters
    ----------
    shape : ModelShape
    intercept : ndarray of shape (n_outputs,), optional
        Initial intercepts.
    sketch : CountSketch, optional
        Initial sketch; by default an empty one.
    """

    def __init__(
        self, shape: ModelShape, intercept: np.ndarray | None = None, sketch: CountSketch | None = None
    ) -> None:
        self.shape = shape
        self.sketch = shape.sketch() if sketch is None else sketch
        if shape.has_heap:
            self.heaps = empty_heaps(shape.n_outputs, shape.n_selected, shape.n_slots, shape.n_chains)
        elif shape.per_class:
            self.entries = empty_entries(shape.n_outputs, shape.n_slots)
        else:
            self.keys = np.full(shape.n_slots, EMPTY, dtype=np.uint64)
            self.weights = np.zeros((shape.n_slots, shape.n_outputs), dtype=np.float32)
            self.touches = np.zeros(shape.n_slots, dtype=np.int64)
            self.n_active = np.zeros(1, dtype=np.int64)
        self.intercept = np.zeros(shape.n_outputs) if intercept is None else np.array(intercept, dtype=np.float64)
        self.scalars = np.zeros(1, SCALARS)

    def train(
        self, rows: SparseRows, y: np.ndarray, row_weight: np.ndarray, rule: StepRule, frozen: bool = False
    ) -> None:
        """Learn from rows in order, with a selection whenever the table is full.

        Parameters
        ----------
        rows : SparseRows
            `indices` uint32 or uint64, `data` float32.
        y : ndarray of shape (n_rows,), float64
            -1 and 1 for two classes, the class's number for several.
        row_weight : ndarray of shape (n_rows,), float64
        rule : StepRule
        frozen : bool
            Whether only the active features' weights and the intercept learn.

        Raises
        ------
        NotFiniteRow
        """
        longest = int(np.diff(rows.indptr).max(initial=0))
        work = Work(*(np.empty(longest, np.uint64) for _ in range(3)))
        given = LabelledRows(rows.indptr, rows.indices, rows.data, y, row_weight)
        first, n_rows = 0, len(y)
        while first < n_rows:
            first, is_finite = self._take(given, first, n_rows, rule, frozen, work)
            if not is_finite:
                raise NotFiniteRow(first)
            if first < n_rows:
                self.select()

    def _take(
        self, rows: LabelledRows, first: int, last: int, rule: StepRule, frozen: bool, work: Work
    ) -> tuple[int, bool]:
        self.scalars["tail_scale"] = self.sketch.scale
        state, cells = (self.scalars, self.intercept), self.sketch.cells
        if self.shape.variant == "hashing":
            n_buckets, _, seed = self.sketch.hashing
            return train_hashed_rows(rows, first, last, rule, cells, n_buckets, seed, *state, work.words)
        if self.shape.has_heap:
            sketch, policy = Sketch(cells, *self.sketch.hashing), POLICIES[self.shape.variant]
            return train_rows_with_heaps(rows, first, last, rule, sketch, self.heaps, *state, policy, work)
        if self.shape.per_class:
            sketch, full = Sketch(cells, *self.sketch.hashing), self.shape.full
            return train_by_class(rows, first, last, rule, sketch, self.entries, full, *state, work.words)
        is_single = self.shape.n_outputs == 1
        sketch = Sketch(cells.reshape(-1) if is_single else cells, *self.sketch.hashing)
        weights = self.weights.reshape(-1) if is_single else self.weights
        table = Table(self.keys, weights, self.touches, self.n_active, self.shape.full)
        kernel = train_rows if is_single else train_classes
        return kernel(rows, first, last, rule, sketch, table, *state, frozen, work)

    def hold(self) -> None:
        """Activate the features that are always active, before the first row."""
        n = len(self.shape.always)
        if not n:
            return
        keys = np.array(self.shape.always, dtype=np.uint64)
        self._fill(keys, np.zeros((n, self.shape.n_outputs), np.float32), np.zeros(n, np.int64))

    def select(self) -> None:
        """Keep the K active features with the largest weights; the weights of the others return to the sketch."""
        if self.shape.per_class:
            self._select_of_each_class()
            return
        keys, weights, touches = self.active()
        if not self.shape.has_heap:
            self._fill(*self._selected(keys, weights, touches))
            return
        self._check_finite(weights)  # heaps hold the K largest at all times
        sizes, is_full = np.abs(weights[weights != 0.0]), (self.heaps.n_active == self.shape.n_selected).all()
        if self.shape.is_in_sketch:
            self.scalars["threshold"] = sizes.min() if is_full and len(sizes) else 0.0

    def _selected(
        self, keys: np.ndarray, weights: np.ndarray, touches: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the K largest features, those always active first; add the weights of the others to the sketch."""
        self._check_finite(weights)
        sizes = norms(weights)
        if len(keys) <= self.shape.n_selected:
            return keys, weights, touches
        compete = ~np.isin(keys, np.array(self.shape.always, dtype=np.uint64))
        keep = largest(np.where(compete, sizes, np.inf), keys, self.shape.n_selected)
        if self.shape.forgets:
            return keys[keep], weights[keep], touches[keep]
        is_dropped = np.ones(len(keys), dtype=bool)
        is_dropped[keep] = False
        dropped = np.flatnonzero(is_dropped)
        order = dropped[np.argsort(keys[dropped])]  # independent of the table's layout
        self.sketch.add(keys[order], weights[order])
        kept = sizes[keep][compete[keep]]  # empty if as many are always active as are selected
        self.scalars["threshold"] = kept.min() if len(kept) else sizes[dropped].max()
        return keys[keep], weights[keep], touches[keep]

    def _select_of_each_class(self) -> None:
        """Keep the K largest entries of each class; the weights of the others return to the sketch."""
        stops = np.cumsum(self.entries.n_active)
        keys, weights, touches = entries_by_class(self.entries)
        self._check_finite(weights)
        is_kept = np.ones(len(keys), dtype=bool)
        for c, own in enumerate(starmap(slice, pairwise([0, *stops.tolist()]))):
            keep = largest(np.abs(weights[own]), keys[own], self.shape.n_selected)
            if len(keep) < own.stop - own.start:
                is_kept[own] = False
                is_kept[own.start + keep] = True
                dropped = own.start + np.flatnonzero(~is_kept[own])
                order = dropped[np.argsort(keys[dropped])]  # independent of the table's layout
                self.sketch.add_to(c, keys[order], weights[order])
        classes = np.repeat(np.arange(len(stops), dtype=np.int32), self.entries.n_active)
        self._fill_entries(keys[is_kept], classes[is_kept], weights[is_kept], touches[is_kept])

    def _fill_entries(self, keys: np.ndarray, classes: np.ndarray, weights: np.ndarray, touches: np.ndarray) -> None:
        """Set the active features of the classes; the smallest weight of a full class becomes its threshold."""
        fill_entries(keys, classes, weights, touches, self.shape.n_selected, self.entries)
        self.scalars["threshold"] = self.entries.thresholds.min()

    def _selected_by_class(self, keys: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the weights, set to 0 if not among the K largest of their class."""
        if self.shape.is_in_sketch:  # which has the only estimate of them
            weights = self.sketch.estimate(keys).reshape(weights.shape)
        self._check_finite(weights)
        selected = np.zeros_like(weights)
        for c in range(self.shape.n_outputs):
            keep = largest(np.abs(weights[:, c]), keys, self.shape.n_selected)
            selected[keep, c] = weights[keep, c]
        if self.shape.per_class:
            self.sketch.add(keys, weights - selected)
        return selected

    def _check_finite(self, weights: np.ndarray) -> None:
        if not np.isfinite(weights).all() or not np.isfinite(self.intercept).all():
            raise DataError(
                "expected finite weights, found weights that diverged",
                "learning_rate",
                "lower it, or scale the columns",
            )

    def end_block(self, n_rows: float, half_life: float) -> None:
        """Select, and decay the tail by the factor for `n_rows` rows of its half-life (in rows; infinite for never)."""
        self.select()
        factor = 2.0 ** -(n_rows / half_life)
        if factor == 1.0:
            return
        self.sketch.decay(factor)
        if self.shape.is_in_sketch:  # active features do not decay: add the lost part again, since the sketch is linear
            keys, weights, touches = self.active()
            order = np.argsort(keys)
            self.sketch.add(keys[order], (1.0 - factor) * weights[order])
            self._fill(keys, self._selected_by_class(keys, weights), touches)

    def active(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ids, weights of shape (n_active, n_outputs) and touches of the active features, in any order.

        With heaps a weight is 0 if the feature is not active for the class.
        """
        if self.shape.has_heap:
            return self._active_of_heaps()
        if self.shape.per_class:
            return self._active_of_classes()
        occupied = np.flatnonzero(self.keys != EMPTY)
        return self.keys[occupied], self.weights[occupied], self.touches[occupied]

    def active_ids(self) -> np.ndarray:
        """Return the ids of the active features, in any order."""
        return self.active()[0]

    def n_features(self) -> int:
        """Return the number of active features."""
        return count_features(self.entries.keys) if self.shape.per_class else len(self.active()[0])

    def _active_of_heaps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        heaps = self.heaps
        active = [ids[:n] for ids, n in zip(heaps.ids, heaps.n_active, strict=True)]
        keys = np.unique(np.concatenate(active))
        weights, touches = np.zeros((len(keys), len(active)), np.float32), np.zeros(len(keys), np.int64)
        for c, ids in enumerate(active):
            at = np.searchsorted(keys, ids)
            weights[at, c] = heaps.weights[c, : len(ids)]
            np.maximum.at(touches, at, heaps.touches[c, : len(ids)])
        return keys, weights, touches

    def _active_of_classes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        of_entries, of_weights, of_touches = entries_by_class(self.entries)
        classes = np.repeat(np.arange(self.shape.n_outputs), self.entries.n_active)
        keys, at = np.unique(of_entries, return_inverse=True)
        weights, touches = np.zeros((len(keys), self.shape.n_outputs), np.float32), np.zeros(len(keys), np.int64)
        weights[at, classes] = of_weights
        order = np.argsort(of_touches)  # the largest over the classes
        touches[at[order]] = of_touches[order]
        return keys, weights, touches

    def _fill(self, keys: np.ndarray, weights: np.ndarray, touches: np.ndarray) -> None:
        if self.shape.per_class:
            at, classes = np.nonzero(weights)
            entries = keys[at], classes.astype(np.int32), weights[at, classes], touches[at].astype(np.uint32)
            self._fill_entries(*entries)
            return
        if self.shape.has_heap:
            *of_classes, n_active, heads, nexts, buckets = self.heaps
            n_buckets, _, seed = self.sketch.hashing
            for c in range(self.shape.n_outputs):
                heap = (*(array[c] for array in of_classes), n_active[c : c + 1], heads[c], nexts[c], buckets[c])
                fill_heap(keys, np.ascontiguousarray(weights[:, c]), touches, n_buckets, seed, *heap)
            return
        slots = place_keys(keys, self.keys)
        self.weights[slots], self.touches[slots] = weights, touches
        self.n_active[0] = len(keys)

    def state(self, sums: np.ndarray | None = None) -> ModelState:
        """Return the model as it is sent between processes: ids ascend, and the cells are not copied."""
        keys, weights, touches = self.active()
        order = np.argsort(keys)
        threshold, _, rows_seen, loss_sum, weight_sum = self.scalars[0].item()
        return ModelState(
            keys[order], weights[order], touches[order], self.sketch.cells, self.sketch.scale, self.intercept,
            threshold, rows_seen, loss_sum, weight_sum, sums=sums,
        )  # fmt: skip

    @classmethod
    def of(cls, shape: ModelShape, state: ModelState, *, copy: bool = True) -> MissionModel:
        """Return the model of a state; if that is a mean of models, after a selection.

        Without a copy, the model uses the cells of the state.
        """
        model = cls(shape, state.intercept, shape.sketch(state.cells.copy() if copy else state.cells, state.scale))
        model.scalars[0] = (state.threshold, state.scale, state.rows_seen, state.loss_sum, state.weight_sum)
        keys, weights, touches = state.keys, state.weights, state.touches
        if state.n_merged > 1 and shape.is_by_class:
            weights = model._selected_by_class(keys, weights)
        elif state.n_merged > 1:
            keys, weights, touches = model._selected(keys, weights, touches)
        model._fill(keys, weights, touches)
        return model


def settled(shape: ModelShape, state: ModelState) -> ModelState:
    """Return a model; if it is a mean of models, select K of the features that are active in some model."""
    if state.n_merged == 1:
        return state
    return replace(MissionModel.of(shape, state, copy=False).state(), sums=state.sums)


def norms(weights: np.ndarray) -> np.ndarray:
    """Return the norm of each feature's weights, of shape (n_active, n_outputs); features are compared by it."""
    if weights.shape[1] == 1:
        return np.abs(weights[:, 0])
    return np.sqrt(np.square(weights, dtype=np.float64).sum(axis=1)).astype(np.float32)


def largest(sizes: np.ndarray, keys: np.ndarray, n_kept: int) -> np.ndarray:
    """Return the positions of the `n_kept` largest sizes, ascending; ties go to the smallest ids.

    Examples
    --------
    >>> largest(np.array([1.0, 3.0, 1.0]), np.array([9, 5, 2], np.uint64), 2)
    array([1, 2])
    """
    n = len(sizes)
    if n <= n_kept:
        return np.arange(n)
    least = np.partition(sizes, n - n_kept)[n - n_kept]
    is_kept = sizes > least
    equal = np.flatnonzero(sizes == least)
    n_missing = n_kept - int(is_kept.sum())
    is_kept[equal[np.argsort(keys[equal])[:n_missing]]] = True
    return np.flatnonzero(is_kept)


def _entries_of(keys: np.ndarray, *states: ModelState) -> np.ndarray:
    """Return for which classes a feature is active in any of some models, bool of shape (n_keys, n_outputs)."""
    is_active = np.zeros((len(keys), states[0].weights.shape[1]), dtype=bool)
    for state in states:
        is_active[np.searchsorted(keys, state.keys)] |= state.weights != 0.0
    return is_active


def merged(shape: ModelShape, first: ModelState, second: ModelState) -> ModelState:
    """Return the mean of two models, or of means of models.

    A feature that is active in only one of them leaves the other's sketch with its estimate there, so that the mean's
    sketch holds only the tail. Features that are active in either stay active; a selection follows when all are merged.
    """
    n_merged = first.n_merged + second.n_merged
    share = second.n_merged / n_merged
    keys = np.union1d(first.keys, second.keys)
    is_active = _entries_of(keys, first, second) if shape.per_class else None
    sketches, weights, touches = [], [], np.zeros(len(keys), dtype=np.int64)
    for part in (first, second):
        sketch = shape.sketch(part.cells.copy(), part.scale)
        is_there = np.isin(keys, part.keys, assume_unique=True)
        table = np.zeros((len(keys), shape.n_outputs), dtype=np.float32)
        table[is_there] = part.weights
        if is_active is not None:  # estimates of entries that are active only in the other model
            missing = is_active & (table == 0.0)
            table[missing] = sketch.estimate(keys).reshape(table.shape)[missing]
            sketch.add(keys, np.where(missing, -table, 0.0))
        else:
            table[~is_there] = sketch.estimate(keys[~is_there]).reshape(-1, shape.n_outputs)
            if not shape.is_in_sketch:  # otherwise the sketch holds all weights
                sketch.add(keys[~is_there], -table[~is_there])
        touches[is_there] += part.touches
        sketches.append(sketch)
        weights.append(table)
    sketches[0].merge(sketches[1], share, 1.0 - share)
    return ModelState(
        keys,
        weights=((1.0 - share) * weights[0] + share * weights[1]).astype(np.float32),
        touches=touches,
        cells=sketches[0].cells,
        scale=sketches[0].scale,
        intercept=(1.0 - share) * first.intercept + share * second.intercept,
        threshold=(1.0 - share) * first.threshold + share * second.threshold,
        rows_seen=first.rows_seen + second.rows_seen,
        loss_sum=first.loss_sum + second.loss_sum,
        weight_sum=first.weight_sum + second.weight_sum,
        n_merged=n_merged,
        sums=None if first.sums is None else first.sums + second.sums,  # the ids are then the same
    )
