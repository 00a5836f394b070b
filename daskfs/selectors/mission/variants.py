"""The models of MISSION's variants, how they are sent between tasks, and how they are averaged.

Workers import this file, so it is light: numpy and the kernels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daskfs.kernels.sketch.hashed_rows import train_hashed_rows
from daskfs.kernels.sketch.heap import FORGETS, FRESH, STALE, empty_heaps, fill_heap, train_rows_with_heaps
from daskfs.kernels.sketch.rows import LabelledRows, Sketch, StepRule, Work
from daskfs.selectors.mission.count_sketch import CountSketch
from daskfs.selectors.mission.model import Entries, MissionModel, ModelShape, ModelState, largest

POLICIES = {"paper": FRESH, "heap": STALE, "iht": FORGETS}


class HeapModel(MissionModel):
    """The paper's algorithm: the K largest weights of each output are in a heap, and all weights in the sketch.

    Also the authors' program for it, and iterative hard thresholding, which has no sketch.
    """

    def allocate(self) -> None:
        """Make the heaps."""
        shape = self.shape
        self.heaps = empty_heaps(shape.n_outputs, shape.n_selected, shape.n_slots, shape.n_chains)

    def train_until_full(
        self, rows: LabelledRows, first: int, rule: StepRule, frozen: bool, work: Work
    ) -> tuple[int, bool]:
        """Learn from all rows: heaps need no selection."""
        sketch = Sketch(self.sketch.cells.reshape(-1), *self.sketch.hashing)
        state, policy = (self.heaps, self.scalars, self.intercept), POLICIES[self.shape.variant]
        return train_rows_with_heaps(rows, first, len(rows.y), rule, sketch, *state, policy, work)

    def select(self) -> None:
        """Note the smallest weight, if all heaps are full: they hold the K largest at all times."""
        sizes = np.abs(self.active().weights)
        self.check_finite(sizes)
        is_full = self.shape.is_in_sketch and (self.heaps.n_active == self.shape.n_selected).all()
        self.thresholds[:] = sizes.min(initial=np.inf) if is_full and len(sizes) else 0.0

    def selected(self, entries: Entries) -> Entries:
        """Return the K largest entries of each output. The sketch has the estimates of their features' weights."""
        if self.shape.is_in_sketch:
            by_feature = entries.by_feature(self.shape.n_outputs)
            estimates = self.sketch.estimate(by_feature.keys).reshape(len(by_feature.keys), -1)
            entries = by_feature._replace(weights=estimates).by_class()
        self.check_finite(entries.weights)
        sizes, kept = np.abs(entries.weights[:, 0]), [np.empty(0, np.int64)]
        for own in entries.of_classes(self.shape.n_outputs):
            kept.append(own[largest(sizes[own], entries.keys[own], self.shape.n_selected)])
        return entries.at(np.concatenate(kept))

    def decay(self, factor: float) -> None:
        """Multiply the weights of inactive features: active ones get back what they lost, since sketches are linear."""
        super().decay(factor)
        if self.shape.is_in_sketch:
            entries = self.active().sorted()
            self.sketch.add(entries.keys, (1.0 - factor) * entries.weights, entries.classes)
            self.fill(self.selected(entries))

    def active(self) -> Entries:
        """Return the active features of each class."""
        counts = self.heaps.n_active
        classes = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        places = np.concatenate([of_class[:n] for of_class, n in zip(self.heaps.places, counts, strict=True)])
        return Entries(places["id"], classes, places["weight"][:, None], places["touches"])

    def fill(self, entries: Entries) -> None:
        """Set the active features of each class."""
        places, heap, keys, place_of, n_active, *chains = self.heaps
        n_buckets, _, seed = self.sketch.hashing
        for c, own in enumerate(entries.of_classes(self.shape.n_outputs)):
            new = entries.keys[own], np.ascontiguousarray(entries.weights[own, 0]), entries.touches[own]
            of_class = places[c], heap[c], keys[c], place_of[c], n_active[c : c + 1]
            fill_heap(*new, n_buckets, seed, *of_class, *(chain[c] for chain in chains))


class HashedModel(MissionModel):
    """Feature hashing: there are no active features, and rows are predicted from all their cells."""

    def train_until_full(
        self, rows: LabelledRows, first: int, rule: StepRule, frozen: bool, work: Work
    ) -> tuple[int, bool]:
        """Learn from all rows."""
        n_buckets, _, seed = self.sketch.hashing
        state = self.sketch.cells, n_buckets, seed, self.scalars, self.intercept
        return train_hashed_rows(rows, first, len(rows.y), rule, *state, work)


def model_of(shape: ModelShape, intercept: np.ndarray | None = None, sketch: CountSketch | None = None) -> MissionModel:
    """Return an empty model of a variant."""
    kind = HeapModel if shape.has_heap else HashedModel if shape.variant == "hashing" else MissionModel
    return kind(shape, intercept, sketch)


def restored(shape: ModelShape, state: ModelState, *, copy: bool = True) -> MissionModel:
    """Return the model of a state; if that is a mean of models, after a selection.

    Without a copy, the model uses the cells of the state.
    """
    cells = state.cells.copy() if copy else state.cells
    return model_of(shape, state.intercept, shape.sketch(cells, state.scale)).restore(state)


def settled(shape: ModelShape, state: ModelState) -> ModelState:
    """Return a model; if it is a mean of models, select K of the features that are active in some model."""
    if state.n_merged == 1:
        return state
    return replace(restored(shape, state, copy=False).state(), sums=state.sums)


def merged(shape: ModelShape, first: ModelState, second: ModelState) -> ModelState:
    """Return the mean of two models, or of means of models.

    An entry that is active in only one of them leaves the other's sketch with its estimate there, so that the mean's
    sketch holds only the tail. Entries that are active in either stay active; a selection follows when all are merged.
    """
    n_merged = first.n_merged + second.n_merged
    share = second.n_merged / n_merged
    keys, classes = (np.concatenate([getattr(one, name) for one in (first, second)]) for name in ("keys", "classes"))
    order = np.lexsort((classes, keys))
    is_new = np.ones(len(keys), dtype=bool)
    is_new[1:] = (np.diff(keys[order]) != 0) | (np.diff(classes[order]) != 0)
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = np.cumsum(is_new) - 1
    keys, classes = keys[order][is_new], classes[order][is_new]
    sketches, weights, touches = [], [], np.zeros(len(keys), dtype=np.int64)
    for part, there in ((first, place[: len(first.keys)]), (second, place[len(first.keys) :])):
        sketch, table = shape.sketch(part.cells.copy(), part.scale), np.zeros((len(keys), shape.n_weights), np.float32)
        is_missing = np.ones(len(keys), dtype=bool)
        is_missing[there] = False
        missing = keys[is_missing], classes[is_missing] if shape.is_by_class else None
        table[there] = part.weights
        table[is_missing] = sketch.estimate(*missing).reshape(-1, shape.n_weights)
        if not shape.is_in_sketch:  # otherwise the sketch holds all weights
            sketch.add(missing[0], -table[is_missing], missing[1])
        touches[there] += part.touches
        sketches.append(sketch)
        weights.append(table)
    sketches[0].merge(sketches[1], share, 1.0 - share)
    return ModelState(
        keys,
        classes,
        weights=((1.0 - share) * weights[0] + share * weights[1]).astype(np.float32),
        touches=touches,
        cells=sketches[0].cells,
        scale=sketches[0].scale,
        intercept=(1.0 - share) * first.intercept + share * second.intercept,
        thresholds=(1.0 - share) * first.thresholds + share * second.thresholds,
        rows_seen=first.rows_seen + second.rows_seen,
        loss_sum=first.loss_sum + second.loss_sum,
        weight_sum=first.weight_sum + second.weight_sum,
        n_merged=n_merged,
        sums=None if first.sums is None else first.sums + second.sums,  # the ids are then the same
    )
