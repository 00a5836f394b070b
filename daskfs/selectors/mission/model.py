"""MISSION's model during training: exact weights of active features, a count-sketch of all others, an intercept.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.sketch.rows import (
    EMPTY,
    SCALARS,
    LabelledRows,
    Sketch,
    StepRule,
    Table,
    Work,
    place_keys,
    train_by_class,
    train_rows,
    work_arrays,
)
from daskfs.matrix.blocks import SparseRows
from daskfs.selectors.mission.count_sketch import CountSketch
from daskfs.selectors.shared.record import Record

SLACK = 4096
"""Features that a row may make active beyond the number that triggers a selection; the others wait in the sketch."""

HEAP_VARIANTS = ("paper", "heap", "iht")
"""Variants that keep the K largest features of each output in a heap."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a model's arrays, and what it learns."""

    n_selected: int
    """K, the number of active features after a selection; by class, of each class."""
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

    # what follows from these
    is_in_sketch: bool = field(init=False)
    """Whether all weights are in the sketch, including those of the active features."""
    has_heap: bool = field(init=False)
    """Whether heaps, one for each output, hold the K largest features after every row."""
    is_by_class: bool = field(init=False)
    """Whether each output has its own K largest."""
    forgets: bool = field(init=False)
    """Whether there is no sketch, so that weights of inactive features are lost."""
    n_weights: int = field(init=False)
    """Number of weights of an entry: by class one, otherwise one for each output."""
    most_selected: int = field(init=False)
    """Largest number of active entries at the end."""
    full: int = field(init=False)
    """Number of entries that triggers a selection."""
    n_chains: int = field(init=False)
    """Rows of the sketch that index the active features by cell, for variants that query them again."""
    n_slots: int = field(init=False)
    """Slots of a table: a power of two, half of which is used."""
    sketch_nbytes: int = field(init=False)
    """Bytes of the cells."""
    nbytes: int = field(init=False)
    """Bytes of one model in memory: a table of entries during training, weights by feature afterwards."""

    def __post_init__(self) -> None:
        k, has_heap = self.n_selected, self.variant in HEAP_VARIANTS
        is_by_class = has_heap or self.per_class
        n_weights, most_selected = (1, k * self.n_outputs) if is_by_class else (self.n_outputs, k)
        further = max(most_selected // 4, 1024) if self.per_class else max(k, 1024, self.n_gathered)
        full = (most_selected if self.per_class else k) + further
        n_chains = self.n_hashes if self.variant == "paper" else 0
        n_slots = 1 << (2 * (k + 1 if has_heap else full + SLACK) - 1).bit_length()
        sketch_nbytes = max(self.n_hashes, 1) * self.n_buckets * self.n_outputs * 4
        heap_nbytes = n_slots * (8 + 8 + 4 * n_chains) + k * (8 + 32 + 8 * n_chains) + 8
        table_nbytes = n_slots * (16 + 4 * n_weights + 4 * self.per_class)
        active_nbytes = max(table_nbytes, most_selected * (16 + 4 * self.n_outputs))
        found = {
            "is_in_sketch": self.variant in ("paper", "heap"),
            "has_heap": has_heap,
            "is_by_class": is_by_class,
            "forgets": self.variant in ("iht", "batch_iht"),
            "n_weights": n_weights,
            "most_selected": most_selected,
            "full": full,
            "n_chains": n_chains,
            "n_slots": n_slots,
            "sketch_nbytes": sketch_nbytes,
            "nbytes": sketch_nbytes + (self.n_outputs * heap_nbytes if has_heap else active_nbytes),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def sketch(self, cells: np.ndarray | None = None, scale: float = 1.0) -> CountSketch:
        """Return the sketch, empty or with these cells."""
        return CountSketch(self.n_buckets, self.n_hashes, self.seed, self.n_outputs, cells, scale)


class Entries(NamedTuple):
    """Active features: one entry for each, or by class one for each pair of a feature and a class."""

    keys: np.ndarray
    """Ids, shape (n_entries,), uint64."""
    classes: np.ndarray
    """The entry's class, int32; 0 if a feature is active for all."""
    weights: np.ndarray
    """Shape (n_entries, n_weights), float32."""
    touches: np.ndarray
    """Number of rows that had the feature while it was active, int64."""

    def at(self, chosen: np.ndarray) -> Entries:
        """Return some of the entries."""
        return Entries(*(array[chosen] for array in self))

    def sorted(self) -> Entries:
        """Return the entries by id, then class: independent of the layout of a table."""
        return self.at(np.lexsort((self.classes, self.keys)) if self.classes.any() else np.argsort(self.keys))

    def of_classes(self, n_classes: int) -> Iterator[np.ndarray]:
        """Yield the positions of each class's entries."""
        order = np.argsort(self.classes.astype(np.min_scalar_type(n_classes)), kind="stable")
        yield from np.split(order, np.cumsum(np.bincount(self.classes, minlength=n_classes))[:-1])

    def by_feature(self, n_outputs: int) -> Entries:
        """Return one entry for each feature, with its weights for all outputs: 0 if not active for the class."""
        if self.weights.shape[1] == n_outputs:
            return self
        keys, at = np.unique(self.keys, return_inverse=True)
        weights, touches = np.zeros((len(keys), n_outputs), np.float32), np.zeros(len(keys), np.int64)
        weights[at, self.classes] = self.weights[:, 0]
        np.maximum.at(touches, at, self.touches)
        return Entries(keys, np.zeros(len(keys), np.int32), weights, touches)

    def by_class(self) -> Entries:
        """Return one entry for each nonzero weight of entries with a weight for each class."""
        at, classes = np.nonzero(self.weights)
        return Entries(self.keys[at], classes.astype(np.int32), self.weights[at, classes][:, None], self.touches[at])


@dataclass(frozen=True, slots=True)
class ModelState(Record):
    """A model between two tasks."""

    keys: np.ndarray
    classes: np.ndarray
    weights: np.ndarray
    touches: np.ndarray
    """These four are the `Entries`, sorted."""
    cells: np.ndarray
    """Cells of the sketch."""
    scale: float
    """Factor of all cells."""
    intercept: np.ndarray
    """Shape (n_outputs,)."""
    thresholds: np.ndarray
    """Size from which an entry becomes active, for each class or for all."""
    rows_seen: float = 0.0
    loss_sum: float = 0.0
    """Summed loss of the rows so far, each before the update with it."""
    weight_sum: float = 0.0
    n_merged: int = 1
    """Number of models of which this is the mean."""
    sums: np.ndarray | None = None
    """Weighted sums of 1, x and x² over the active features' columns, if requested, (n_active, 3)."""

    def standing(self, shape: ModelShape) -> Standing:
        """Return facts about the model for the history of its fit."""
        n_active = int(np.count_nonzero(np.diff(self.keys))) + (len(self.keys) > 0)
        tail_norm = shape.sketch(self.cells, self.scale).norm()
        return Standing(self.loss_sum, self.weight_sum, float(self.thresholds.min()), n_active, tail_norm)

    @property
    def entries(self) -> Entries:
        """The active features."""
        return Entries(self.keys, self.classes, self.weights, self.touches)

    def with_entries(self, entries: Entries) -> ModelState:
        """Return the state with other active features."""
        return replace(self, **entries._asdict())

    def by_feature(self) -> ModelState:
        """Return the state with one entry for each feature."""
        state = self.with_entries(self.entries.by_feature(len(self.intercept)))
        return replace(state, thresholds=self.thresholds.min(keepdims=True))


class Standing(NamedTuple):
    """Facts about a model for the history of its fit."""

    loss_sum: float
    weight_sum: float
    threshold: float
    n_active: int
    """Number of active features."""
    tail_norm: float


class NotFiniteRow(Exception):
    """A row has NaN or infinity; holds its position among the given rows."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class MissionModel:
    """Weights, thresholds and intercept; see the module. `daskfs.selectors.mission.variants.model_of` makes one.

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
        self.intercept = np.zeros(shape.n_outputs) if intercept is None else np.array(intercept, dtype=np.float64)
        self.scalars = np.zeros(1, SCALARS)
        self.thresholds = np.zeros(shape.n_outputs if shape.is_by_class else 1)
        self.allocate()

    def allocate(self) -> None:
        """Make the arrays of the active features."""
        n_slots = self.shape.n_slots
        self.table = Table(
            keys=np.full(n_slots, EMPTY),
            classes=np.zeros(n_slots * self.shape.per_class, np.int32),
            weights=np.zeros(n_slots * self.shape.n_weights, np.float32),
            touches=np.zeros(n_slots, np.int64),
            thresholds=self.thresholds,
            n_active=np.zeros(1, np.int64),
            full=self.shape.full,
        )

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
        work = work_arrays(int(np.diff(rows.indptr).max(initial=0)), self.shape.n_outputs)
        given = LabelledRows(rows.indptr, rows.indices, rows.data, y, row_weight)
        first, n_rows = 0, len(y)
        while first < n_rows:
            self.scalars["tail_scale"] = self.sketch.scale
            first, is_finite = self.train_until_full(given, first, rule, frozen, work)
            if not is_finite:
                raise NotFiniteRow(first)
            if first < n_rows:
                self.select()

    def train_until_full(
        self, rows: LabelledRows, first: int, rule: StepRule, frozen: bool, work: Work
    ) -> tuple[int, bool]:
        """Learn from rows until the table needs a selection or a row is not finite; see `train_rows`."""
        sketch = Sketch(self.sketch.cells.reshape(-1), *self.sketch.hashing)
        given = rows, first, len(rows.y), rule, sketch, self.table, self.scalars, self.intercept
        if self.shape.per_class:
            return train_by_class(*given, work)
        return train_rows(*given, (0,) * (self.shape.n_outputs == 1), frozen, work)

    def hold(self) -> None:
        """Activate the features that are always active, before the first row."""
        n = len(self.shape.always)
        weights = np.zeros((n, self.shape.n_weights), np.float32)
        self.fill(
            Entries(np.array(self.shape.always, np.uint64), np.zeros(n, np.int32), weights, np.zeros(n, np.int64))
        )

    def select(self) -> None:
        """Keep the K active features with the largest weights; the weights of the others return to the sketch."""
        self.fill(self.selected(self.active()))

    def selected(self, entries: Entries) -> Entries:
        """Return the K largest entries, or those of each class; add the weights of the others to the sketch."""
        self.check_finite(entries.weights)
        sizes, is_kept = norms(entries.weights), np.ones(len(entries.keys), dtype=bool)
        competes = ~np.isin(entries.keys, np.array(self.shape.always, dtype=np.uint64))
        ranks = np.where(competes, sizes, np.inf)
        for c, own in enumerate(entries.of_classes(len(self.thresholds))):
            if len(own) < self.shape.n_selected + (not self.shape.per_class):
                continue
            keep = own[largest(ranks[own], entries.keys[own], self.shape.n_selected)]
            is_kept[own] = False
            is_kept[keep] = True
            if self.shape.forgets:
                continue
            kept = sizes[keep[competes[keep]]]  # none if as many are always active as are selected
            self.thresholds[c] = kept.min() if len(kept) else sizes[own[~is_kept[own]]].max()
        dropped = entries.at(~is_kept).sorted()
        if not self.shape.forgets:
            self.sketch.add(dropped.keys, dropped.weights, dropped.classes if self.shape.is_by_class else None)
        return entries.at(is_kept)

    def check_finite(self, weights: np.ndarray) -> None:
        """Refuse weights that diverged.

        Raises
        ------
        DataError
        """
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
        if factor != 1.0:
            self.decay(factor)

    def decay(self, factor: float) -> None:
        """Multiply the weights outside the active set by a factor."""
        self.sketch.decay(factor)

    def active(self) -> Entries:
        """Return the active features, in any order."""
        occupied = np.flatnonzero(self.table.keys != EMPTY)
        classes = self.table.classes[occupied] if self.shape.per_class else np.zeros(len(occupied), np.int32)
        weights = self.table.weights.reshape(self.shape.n_slots, -1)[occupied]
        return Entries(self.table.keys[occupied], classes, weights, self.table.touches[occupied])

    def active_ids(self) -> np.ndarray:
        """Return the ids of the active features, in any order."""
        keys = self.active().keys
        return np.unique(keys) if self.shape.is_by_class else keys

    def standing(self) -> Standing:
        """Return facts about the model for the history of its fit, without sorting its features."""
        _, _, loss_sum, weight_sum = self.scalars[0].item()
        return Standing(loss_sum, weight_sum, float(self.thresholds.min()), len(self.active_ids()), self.sketch.norm())

    def fill(self, entries: Entries) -> None:
        """Set the active features."""
        slots = place_keys(entries.keys, self.table.keys)
        if self.shape.per_class:
            self.table.classes[slots] = entries.classes
        self.table.weights.reshape(self.shape.n_slots, -1)[slots] = entries.weights
        self.table.touches[slots] = entries.touches
        self.table.n_active[0] = len(entries.keys)

    def restore(self, state: ModelState) -> Self:
        """Set the active features and scalars of a state; if that is a mean of models, after a selection."""
        self.scalars[0] = (state.scale, state.rows_seen, state.loss_sum, state.weight_sum)
        self.thresholds[:] = state.thresholds
        self.fill(state.entries if state.n_merged == 1 else self.selected(state.entries))
        return self

    def state(self) -> ModelState:
        """Return the model as it is sent between processes. The cells are not copied."""
        _, rows_seen, loss_sum, weight_sum = self.scalars[0].item()
        return ModelState(
            *self.active().sorted(), self.sketch.cells, self.sketch.scale, self.intercept,
            self.thresholds.copy(), rows_seen, loss_sum, weight_sum,
        )  # fmt: skip


def norms(weights: np.ndarray) -> np.ndarray:
    """Return the norm of each entry's weights, of shape (n_entries, n_weights); entries are compared by it."""
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
