"""MISSION on streams: row blocks that can be read only once, sparse sources without a store, more files later."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from daskfs import errors, interrupts
from daskfs.cluster.open import parse_bytes
from daskfs.cluster.workers import Here
from daskfs.matrix.arrays import as_column
from daskfs.matrix.incoming import Block, read_ahead, weights_of
from daskfs.matrix.passing import Passing, PassingBlocks
from daskfs.matrix.streaming import prefetched
from daskfs.selectors.inputs import refuse_non_finite_target
from daskfs.selectors.mission.configuration import n_outputs_of
from daskfs.selectors.mission.entries import BLOCK_NNZ, BLOCK_ROWS, MOST_IDS, PassingEntries, behind, rows_of
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import MissionFit
from daskfs.selectors.mission.keeping import Done, KeepsModels
from daskfs.selectors.mission.part_tasks import HowToLearn, LearntPart, PartToLearn, averaged, learn_part
from daskfs.selectors.mission.plan import n_surveyed, plan_mission, with_blocks_of_source
from daskfs.selectors.mission.stream import Learner, Passage, Tell, reporter
from daskfs.selectors.mission.variants import restored
from daskfs.selectors.opening import coded
from daskfs.selectors.shared.budget import Budget, DataShape, SelectorPlan
from daskfs.selectors.shared.run import Checkpoint, Run
from daskfs.selectors.shared.targets import checked_target
from daskfs.sources.sparse.base import SparseBlock, SparseSource

ConfigError = errors.ConfigError.about("streams")
DataError = errors.DataError.about("streams")

LARGEST_TARGET = 1e25  # of regression targets: weights and the sketch have single precision
HEAD_ROWS = 128
"""Rows of a source from which a fit is planned."""


class LearnsFromStreams(KeepsModels):
    """The part of `daskfs.Mission` that learns from streams of rows."""

    _passes_once = True

    def fit_blocks(self, blocks: Any, **more: Any) -> Any:
        """Select features from row blocks, given one after the other, each with its target.

        See `daskfs.selectors.from_blocks.TakesRowBlocks.fit_blocks`. It also accepts a sparse source, whose features
        may be 64-bit ids, and which needs no store.
        """
        self._forget_stream()
        if isinstance(blocks, SparseSource):
            return self.fit_source(blocks, **more)
        return super().fit_blocks(blocks, **more)

    def fit_source(
        self,
        source: SparseSource,
        *,
        classes: Any = None,
        n_samples: int | None = None,
        keep: Callable[[SparseBlock], np.ndarray] | None = None,
        tell: Tell | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Any:
        """Learn from the rows of a sparse source while they are read, in one pass, without a store.

        Parameters
        ----------
        source : SparseSource
            Files of clicks, words, or k-mers; features are 64-bit ids or column numbers.
        classes : array-like of shape (n_classes,), optional
            All class labels, if some may be missing in the first rows.
        n_samples : int, optional
            Number of rows, if known: the tail's half-life is then `tail_half_life` times this number. Otherwise it
            grows with the number of rows so far.
        keep : callable, optional
            Returns the rows of a block to learn from, bool of shape (n_rows,); the others are left for testing.
        tell : callable, optional
            Called with a line of text with the mean loss so far, after 1, 2, 4, 8, ... rows. The loss of each row is
            computed before the update with it.
        checkpoint : Checkpoint, optional
            Stores the model every 30 seconds and at an interrupt, with the number of rows (or parts of the source)
            done. Called again with it, the fit skips those and continues, with the same result. This does not work with
            ``heap=True``, whose order is not stored: that fit starts again.

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            The selector then has the model so far: `save` stores it, `partial_fit` continues.

        Notes
        -----
        If features are ids, there are no arrays over all features: ``selected_`` has the ids, most important first, and
        ``coef_``, ``scores_`` and ``support_`` cover only these, in this order. The result has the features' names if
        the source has them. `partial_fit` with another source continues the training.
        """
        self.check_parameters()
        self._refuse_second_look("a source is read")
        self._forget_stream()
        labels = None if classes is None else np.unique(classes)
        self._learn_from_source(source, labels, n_samples, keep, tell, checkpoint)
        return self

    def plan_source(self, source: SparseSource) -> SelectorPlan:
        """Return the memory for learning from a sparse source, estimated from its first rows.

        Raises
        ------
        PlanError
            The memory limit is too small. The error names sizes that would fit.
        """
        self._settle_loss(source.estimate_target(), is_plan=True)
        head = next(source.sparse_blocks(HEAD_ROWS, BLOCK_NNZ))
        n_rows, n_features = source.estimate_shape()[0] or head.n_rows, source.n_features
        data = DataShape(n_rows, MOST_IDS if source.features_are_ids else n_features or MOST_IDS, np.dtype(np.float32))
        n_outputs, nnz_per_row = (
            n_outputs_of(self.loss_, source.estimate_target().n_classes),
            len(head.features) / head.n_rows,
        )
        config = self._configuration(data, n_outputs, is_stream=True, nnz_per_row=nnz_per_row)
        limit = None if self.memory_limit is None else parse_bytes(self.memory_limit)
        k, model = config.n_selected, config.model
        text = f"mission: {k:,} features, a sketch of {max(model.n_hashes, 1)} x {model.n_buckets:,} cells; one pass"
        task = with_blocks_of_source(Budget(), config, BLOCK_ROWS, BLOCK_NNZ)
        if limit is not None:
            task.refuse_over(limit, "blocks of the source take")
            limit -= task.nbytes
        plan = plan_mission(config, limit)
        client = Budget().add("the result", 1000 * k).add("models", 2 * model.nbytes)
        return replace(plan, text=text, task=plan.task + task, client=client)

    def _learn_from_source(
        self,
        source: SparseSource,
        labels: np.ndarray | None,
        n_samples: int | None = None,
        keep: Callable[[SparseBlock], np.ndarray] | None = None,
        tell: Tell | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        source = source.as_it_stands()
        if self.heap:  # whose order is not stored
            checkpoint = None
        done = None if checkpoint is None else self._resumed(checkpoint)
        if self.n_replicas > 1:
            if keep is not None or n_samples is not None:
                problem = "several models learn from all rows of a source: no rows can be held out, or their number set"
                raise ConfigError(problem, "n_replicas", "leave it 1, or pass neither keep nor n_samples")
            with interrupts.guard():
                self._learn_from_parts(source, labels, tell, checkpoint, done)
            return
        blocks = source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ)
        if keep is not None:
            blocks = (part for block in blocks if (part := rows_of(block, keep(block))).n_rows)
        passage = Passage(n_samples, tell, None if checkpoint is None else partial(self._save_learner, checkpoint))
        if done is not None:
            passage = replace(passage, n_seen=done.n_seen)
            blocks = behind(blocks, done.n_seen)
        ahead = prefetched(_next_of(blocks), _endless(), 1, source.leave_off)
        n_features = None if source.features_are_ids else source.n_features
        if self._names_of_features is None:
            self._names_of_features = FeatureNames(are_ids=n_features is None)

        def rows_from(coded: Generator[SparseBlock, None, None]) -> PassingEntries:
            return PassingEntries(coded, source, passage.n_seen)

        try:
            with interrupts.guard():
                self._learn_rows(iter(ahead.__next__, None), rows_from, _n_surveyed_of_source, labels, passage)
        except BaseException:
            source.leave_off()
            raise

    def _learn_from_parts(
        self,
        source: SparseSource,
        labels: np.ndarray | None,
        tell: Tell | None,
        checkpoint: Checkpoint | None,
        done: Done | None,
    ) -> None:
        """Train several models on parts of a source, in tasks, and average them after each round."""
        parts, before = source.parts(), self._stream
        if not parts:
            raise ConfigError(f"a {source.kind} source has no parts", "n_replicas", "leave it 1")
        n_features = None if source.features_are_ids else source.n_features
        if before is None:
            head = source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ)
            first = self._first_of(head, _n_surveyed_of_source)
            _, labels = self._coded(np.concatenate([block.y for block in first]), labels)
            rows = PassingEntries((self._with_codes(block, labels) for block in first), source)
            rows.holds = True
            fit = self._surveyed(rows, labels)
            head.close()  # type: ignore[attr-defined]
            fit = replace(fit, n_samples=0)
        else:
            rows, labels = PassingEntries((block for block in list[SparseBlock]()), source), self._stream_labels
            fit = self._going_on(before, 0)
        names = self._names_of_features or FeatureNames(are_ids=n_features is None)
        config, say = replace(fit.config, is_growing=True), reporter(tell, int(fit.state.rows_seen))
        with self._run(rows) as run, run.timed("train"):
            kept = run.keep(source)
            for k in range(0 if done is None else done.n_seen, len(parts), self.n_replicas):
                some = parts[k : k + self.n_replicas]
                items = [PartToLearn(part, len(some), i) for i, part in enumerate(some)]
                shared = (kept, HowToLearn(config, labels, fit.n_samples), fit.state, names)
                combine = partial(averaged, config.model)
                found: LearntPart = run.workers.reduce_blocks(
                    learn_part, items, combine, name="mission-train", shared=shared
                )
                n_rows, names = fit.n_samples + found.n_rows, found.names
                # keeps K of all features that are active in some model
                state = replace(restored(config.model, found.state, copy=False).state(), rows_seen=float(n_rows))
                history = fit.history.after(1, n_rows, state.standing(config.model), is_stream=True)
                say(history)
                fit = replace(fit, state=state, history=history, n_samples=n_rows)
                with interrupts.held():
                    self._stream, self._names_of_features, self._stream_labels = fit, names, labels
                    if checkpoint is not None:
                        self._save_so_far(checkpoint, fit, Done(k + len(some), history.counted))
        names.note_all(rows, fit.state.keys)
        self._stream = replace(fit, seconds=run.seconds, nbytes=run.nbytes)
        self._take_names(rows)
        self._take(run, self._stream)
        if labels is not None:
            self.classes_ = labels

    def _fit_rows_passing(
        self,
        passing: Iterator[Any],
        names: Sequence[str] | None,
        labels: np.ndarray | None,
        n_samples: int | None,
        prefetch: int,
    ) -> None:
        def rows_from(coded: Generator[Block, None, None]) -> PassingBlocks:
            return PassingBlocks(coded, "rows", names=names)

        def n_wanted_of(block: Block) -> int:
            return n_surveyed(block.X.shape[1], block.is_sparse)

        self._learn_rows(read_ahead(passing, "rows", prefetch), rows_from, n_wanted_of, labels, Passage(n_samples))

    def _learn_rows(
        self,
        blocks: Iterator[Any],
        rows_from: Callable[[Generator[Any, None, None]], Passing],
        n_wanted_of: Callable[[Any], int],
        labels: np.ndarray | None,
        passage: Passage,
    ) -> None:
        """Learn from blocks; the first ones determine the coding of the target."""
        before = self._stream
        if before is None:
            first = self._first_of(blocks, n_wanted_of)
            y = np.concatenate([np.asarray(block.y) for block in first])
            refuse_non_finite_target(y)
            _, labels = self._coded(y[: n_wanted_of(first[0])], labels)
            blocks = chain(first, blocks)
            del first
        else:
            labels = self._stream_labels
        rows = rows_from(self._with_codes(block, labels) for block in blocks)
        try:
            if before is None:
                self._begin_stream(rows, labels, passage)
            else:
                self._go_on(rows, before, passage)
        finally:
            rows.close()
        if labels is not None:
            self.classes_ = labels

    def _first_of(self, blocks: Iterator[Any], n_wanted_of: Callable[[Any], int]) -> list[Any]:
        """Return the first blocks, with enough rows for the survey."""
        first: list[Any] = []
        n_rows, n_wanted = 0, 1
        while n_rows < n_wanted and (block := next(blocks, None)) is not None:
            if block.y is None:
                raise DataError("expected the target of its rows, found none", f"block {len(first)}", "pass (X, y)")
            first.append(block)
            n_rows += len(np.asarray(block.y))
            n_wanted = n_wanted_of(block)
        if not first:
            raise DataError("expected rows, found none", "fit", "check the source")
        return first

    def _with_codes(self, block: Any, labels: np.ndarray | None) -> Any:
        """Return a block with a numeric target and checked weights."""
        n_rows = block.n_rows
        y, _ = coded(block.y, self._loss, labels)
        return replace(block, y=as_column(y, n_rows, "y"), weight=weights_of(block.weight, n_rows))

    def _begin_stream(self, rows: Passing, labels: np.ndarray | None, passage: Passage) -> None:
        if self.n_replicas > 1:
            problem = "blocks that can be read only once train one model"
            raise ConfigError(problem, "n_replicas", "leave it 1, or pass blocks that can be read again")
        rows.holds = True
        fit = self._surveyed(rows, labels)
        if passage.n_expected is not None:
            fit = replace(fit, config=replace(fit.config, half_life=fit.config.half_life_of(passage.n_expected)))
        rows.holds = False
        self._stream_labels = labels
        with self._run(rows, Here()) as run:
            self._learn(run, rows, fit, passage)

    def _surveyed(self, rows: Passing, labels: np.ndarray | None) -> MissionFit:
        """Survey the first rows, which are kept, and return an empty model that is ready to train."""
        is_sparse = rows.sparse_rows(slice(0, 0)) is not None
        rows.reach(1)
        first = rows.take(np.arange(rows.reach(n_surveyed(rows.shape[1], is_sparse))))
        self._labels = labels
        checked_target(first, self.loss_, LARGEST_TARGET)
        if rows.shape[1] >= MOST_IDS and self.tail == "identity":
            problem = "cannot be 'identity' with 64-bit ids as features: there are too many for a cell each"
            raise ConfigError(problem, "tail", 'use tail="sketch", or create a store from the source')
        with self._run(first, Here()) as run:
            return self._begun(run, None if labels is None else len(labels), is_stream=True)

    def _go_on(self, rows: Passing, before: MissionFit, passage: Passage) -> None:
        rows.reach(passage.n_seen + 1)
        n_features = before.config.data.n_features
        if rows.shape[1] != n_features:
            found, expected = (_features(n) for n in (rows.shape[1], n_features))
            raise DataError(f"expected rows of {expected}, as before, found {found}", "partial_fit", "fit again")
        with self._run(rows, Here()) as run:
            run.seconds.update(before.seconds)
            self._learn(run, rows, before if passage.n_seen else self._going_on(before, 0), passage)

    def _learn(self, run: Run, rows: Passing, fit: MissionFit, passage: Passage) -> None:
        learner = Learner(fit, passage, self._names_of_features)
        try:
            with run.timed("train"):
                learnt = learner.learn(rows)
        except KeyboardInterrupt:
            if learner.n_seen:
                with interrupts.held():
                    self._stream = learner.so_far()
                    if passage.save is not None:
                        passage.save(learner)
            raise
        self._stream = replace(learnt, seconds=run.seconds, nbytes=run.nbytes)
        self._take_names(rows)
        self._take(run.over(rows), self._stream)


def _features(n: int) -> str:
    return "64-bit ids" if n >= MOST_IDS else f"{n:,} columns"


def _n_surveyed_of_source(block: SparseBlock) -> int:
    return n_surveyed(MOST_IDS, is_sparse=True)


def _next_of(blocks: Iterator[SparseBlock]) -> Callable[[None], SparseBlock | None]:
    return lambda _: next(blocks, None)


def _endless() -> Iterator[None]:
    while True:
        yield None
