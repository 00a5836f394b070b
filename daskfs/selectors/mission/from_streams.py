"""MISSION of what passes by once: row blocks, sparse sources without a store, more files later; their predictions."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Self

import numpy as np

from daskfs import interrupts
from daskfs.cluster.open import parse_bytes
from daskfs.cluster.workers import Here
from daskfs.errors import ConfigError, DataError, RunError
from daskfs.losses import find_loss
from daskfs.matrix.arrays import as_column, as_names
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.matrix.incoming import Block, read_ahead, weights_of
from daskfs.matrix.names import Names
from daskfs.matrix.of_blocks import Passing, PassingBlocks
from daskfs.matrix.streaming import prefetched
from daskfs.metrics import accuracy, r2
from daskfs.selectors.from_blocks import TakesRowBlocks
from daskfs.selectors.inputs import refuse_non_finite_target
from daskfs.selectors.mission.count_sketch import load_arrays, save_arrays
from daskfs.selectors.mission.entries import BLOCK_NNZ, BLOCK_ROWS, MOST_IDS, PassingEntries, linear_predictor
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import Line, MissionFit, Refit, begin, n_surveyed
from daskfs.selectors.mission.model import MissionModel
from daskfs.selectors.mission.part_tasks import HowToLearn, LearntPart, PartToLearn, averaged, learn_part
from daskfs.selectors.mission.plan import MissionShape, Settings, plan_mission
from daskfs.selectors.mission.saved import arrays_of, fit_of, names_of, notes_of
from daskfs.selectors.mission.stream import Learner, Tell
from daskfs.selectors.mission.tasks import TargetEncoding
from daskfs.selectors.shared.budget import DataShape, SelectorPlan
from daskfs.selectors.shared.responses import Response
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target
from daskfs.sources.sparse.base import SparseBlock, SparseSource

LARGEST_TARGET = 1e25  # of numbers: weights and the sketch are of single precision
NO_REFIT = "rows are learnt from once and not kept: the coefficients are those of stochastic descent"
HEAD_ROWS = 128
"""Of a source, by which a fit is planned."""


class _Streamed:
    """What a selector has while it learns from streams."""

    n_replicas: Any
    class_weight: Any
    _labels: np.ndarray | None
    _stream: MissionFit | None
    _stream_labels: np.ndarray | None
    _names_of_features: FeatureNames | None = None
    """Of features that are ids, or of columns that blocks name."""


class LearnsFromStreams(_Streamed, TakesRowBlocks):
    """The part of `daskfs.Mission` that learns from rows as they pass by."""

    _passes_once = True

    @abstractmethod
    def _settings(self) -> Settings:
        """Return what is asked of a fit."""

    @abstractmethod
    def _encoded(self, settings: Settings, matrix: Matrix, n_classes: int | None) -> tuple[TargetEncoding, np.ndarray]:
        """Return how the target is read, with the intercepts of the model without features; set `classes_`."""

    @abstractmethod
    def _take(self, run: Run, fit: MissionFit, refit: Refit | None, history: list[Line], notes: list[str]) -> None:
        """Set what was selected, and the result."""

    @abstractmethod
    def _notes_on_stream(self, fit: MissionFit) -> list[str]:
        """Return in words what was known before the first row, and whether the sketch was large enough."""

    def _forget_stream(self) -> None:
        self._stream, self._names_of_features = None, None

    def _notes_on_names(self) -> list[str]:
        return [] if self._names_of_features is None else self._names_of_features.notes(self.selected_)

    def fit_blocks(self, blocks: Any, **more: Any) -> Any:
        """Select features of row blocks, given one after the other, each with its target.

        See `daskfs.selectors.from_blocks.TakesRowBlocks.fit_blocks`; beside it a sparse source is taken, whose features
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
    ) -> Any:
        """Learn from the rows of a sparse source as they are read, once, without a store.

        Parameters
        ----------
        source : SparseSource
            Files of clicks, words, k-mers; features by 64-bit ids, or by numbers of columns.
        classes : array-like of shape (n_classes,), optional
            All labels, where the first rows need not have them all.
        n_samples : int, optional
            How many rows there are, where somebody knows: the tail's half-life is `tail_half_life` times this number.
            Otherwise it grows with the rows that came.
        keep : callable, optional
            Tells which rows of a block are learnt from, bool of shape (n_rows,); others are left for testing.
        tell : callable, optional
            Is told the mean loss of the rows so far, each before it was learnt from, after 1, 2, 4, 8, ... rows.

        Returns
        -------
        self

        Notes
        -----
        Where features are ids, there are no arrays of all features: ``selected_`` are the ids, most important first,
        and ``coef_``, ``scores_`` and ``support_`` are of these alone, in this order. The names that the source tells
        of its features come back in the result. `partial_fit` with another source goes on.
        """
        self.check_parameters()
        self._forget_stream()
        self._learn_from_source(source, None if classes is None else np.unique(classes), n_samples, keep, tell)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learnt from streams to a file, with which `load` goes on.

        Raises
        ------
        RunError
            It cannot be written, or there is nothing that could go on: a `fit` of known rows is done.
        """
        fit: MissionFit | None = getattr(self, "_stream", None)
        if fit is None:
            remedy = "fit_source, partial_fit, or fit_blocks with an iterator"
            raise RunError("only what learns from streams can go on, and be saved for that", str(path), remedy)
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name != "client"}
        parameters["random_state"] = fit.shape.settings.seed
        if isinstance(self.class_weight, Mapping):
            parameters["class_weight"] = list(self.class_weight.items())
        names = [str(name) for name in self.feature_names_in_] if hasattr(self, "feature_names_in_") else None
        more = {"parameters": parameters, "loss": self.loss_, "feature_names": names}
        save_arrays(path, arrays_of(fit, self._names_of_features, self._stream_labels, more))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return a selector that was saved; it predicts, and `partial_fit` goes on.

        Raises
        ------
        RunError
            No such file, a damaged one, one of a newer format.
        """
        arrays = load_arrays(path)
        notes = notes_of(arrays, str(path))
        parameters = notes["parameters"]
        if isinstance(parameters.get("class_weight"), list):
            parameters["class_weight"] = dict(parameters["class_weight"])
        selector = cls(**parameters)
        selector.loss_ = notes["loss"]
        fit = fit_of(arrays, notes, selector._settings_of_streams())
        selector._stream, selector._names_of_features = fit, names_of(notes)
        selector._stream_labels = selector._labels = arrays.get("labels")
        known = _Gone(fit.shape.data.n_samples, fit.shape.data.n_features, fit.shape.data.dtype, notes["feature_names"])
        selector._take_names(known)
        if fit.sgd.target.classes is not None:
            selector.classes_ = fit.sgd.target.classes
        with selector._run(known, Here()) as run:
            selector._take(run, fit.selected(), None, fit.history, [*selector._notes_on_stream(fit), NO_REFIT])
        if selector._stream_labels is not None:
            selector.classes_ = selector._stream_labels
        return selector

    def _settings_of_streams(self) -> Settings:
        return replace(self._settings(), is_stream=True, refit=None, n_epochs=1)

    def plan_source(self, source: SparseSource) -> SelectorPlan:
        """Return what learning from a sparse source will hold, as far as its first rows tell.

        Raises
        ------
        PlanError
            The memory limit is too small; with the sizes that would fit.
        """
        self._settle_loss(source.estimate_target(), is_plan=True)
        head = next(source.sparse_blocks(HEAD_ROWS, BLOCK_NNZ))
        n_rows, n_features = source.estimate_shape()[0] or head.n_rows, source.n_features
        n_classes = source.estimate_target().n_classes if find_loss(self.loss_).is_classifier else 0
        data = DataShape(n_rows, MOST_IDS if source.features_are_ids else n_features or MOST_IDS, np.dtype(np.float32))
        settings, n_outputs = self._settings_of_streams(), n_classes if n_classes > 2 else 1
        shape = MissionShape.of(data, settings, n_outputs, len(head.features) / head.n_rows)
        limit = None if self.memory_limit is None else parse_bytes(self.memory_limit)
        k, model = shape.n_selected, shape.model
        text = f"mission: {k:,} features, a sketch of {max(model.n_hashes, 1)} x {model.n_buckets:,} cells; one pass"
        return replace(plan_mission(shape, limit), text=text)

    def _learn_from_source(
        self,
        source: SparseSource,
        labels: np.ndarray | None,
        n_samples: int | None = None,
        keep: Callable[[SparseBlock], np.ndarray] | None = None,
        tell: Tell | None = None,
    ) -> None:
        if self.n_replicas > 1:
            if keep is not None or n_samples is not None:
                problem = "models that learn side by side from parts of a source take all of its rows"
                raise ConfigError(problem, "n_replicas", "leave it 1, or split nothing off")
            with interrupts.guard():
                self._learn_from_parts(source, labels, tell)
            return
        blocks = source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ)
        if keep is not None:
            blocks = (part for block in blocks if (part := rows_of(block, keep(block))).n_rows)
        ahead = prefetched(_next_of(blocks), _endless(), 1)
        n_features = None if source.features_are_ids else source.n_features
        if self._names_of_features is None:
            self._names_of_features = FeatureNames(are_ids=n_features is None)

        def rows_from(coded: Iterator[SparseBlock]) -> PassingEntries:
            return PassingEntries(coded, source)

        with interrupts.guard():
            self._learn_rows(iter(ahead.__next__, None), rows_from, labels, n_samples, tell)

    def _learn_from_parts(self, source: SparseSource, labels: np.ndarray | None, tell: Tell | None) -> None:
        """Let several models learn from parts of a source, where the work runs, and average them after each round."""
        parts, before, started = source.parts(), getattr(self, "_stream", None), time.perf_counter()
        if not parts:
            raise ConfigError(f"a {source.kind} source has no parts", "n_replicas", "leave it 1")
        n_features = None if source.features_are_ids else source.n_features
        if before is None:
            head = source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ)
            first = self._first_of(head)
            _, labels = self._coded(np.concatenate([block.y for block in first]), labels, is_first=True)
            rows = PassingEntries((self._with_codes(block, labels) for block in first), source)
            rows.holds = True
            fit, n_before = self._begun(rows, labels), 0
            head.close()  # type: ignore[attr-defined]
        else:
            rows, labels = PassingEntries(iter(()), source), self._stream_labels
            fit, n_before = before.going_on(self._settings_of_streams(), 0), before.n_samples
        names = self._names_of_features or FeatureNames(are_ids=n_features is None)
        settings, shape, lines, state = fit.shape.settings, fit.sgd.shape, Learner(fit, None, tell), fit.state
        with self._run(rows) as run, run.timed("train"):
            kept = run.keep(source)
            for k in range(0, len(parts), self.n_replicas):
                some = parts[k : k + self.n_replicas]
                items = [PartToLearn(part, len(some), i) for i, part in enumerate(some)]
                how = HowToLearn(fit.sgd, labels, settings.block_rows, settings.tail_half_life, n_before)
                combine, shared = partial(averaged, shape), (kept, how, state, names)
                found: LearntPart = run.workers.reduce_blocks(
                    learn_part, items, combine, name="mission-train", shared=shared
                )
                n_before, names = n_before + found.n_rows, found.names
                model = MissionModel.of(shape, found.state, copy=False)  # of all that were active somewhere, K stay
                state = replace(model.state(), rows_seen=float(n_before))
                lines.add(model, n_before, time.perf_counter() - started)
        if (told := rows.names_of(state.keys)) is not None:
            names.note(told, state.keys)
        so_far = {"history": lines.history, "progressive": lines.progressive, "n_samples": n_before}
        learnt = replace(fit, state=state, seconds=run.seconds, nbytes=run.nbytes, **so_far)  # type: ignore[arg-type]
        self._stream, self._names_of_features, self._stream_labels = learnt, names, labels
        self._take_names(rows)
        self._take(run, learnt.selected(), None, learnt.history, [*self._notes_on_stream(learnt), NO_REFIT])
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
        def rows_from(coded: Iterator[Block]) -> PassingBlocks:
            return PassingBlocks(coded, "rows", names=names)

        self._learn_rows(read_ahead(passing, "rows", prefetch), rows_from, labels, n_samples)

    def _learn_rows(
        self,
        blocks: Iterator[Any],
        rows_from: Callable[[Iterator[Any]], Passing],
        labels: np.ndarray | None,
        n_samples: int | None,
        tell: Tell | None = None,
    ) -> None:
        """Learn from blocks, of which the first say what the target is."""
        before = getattr(self, "_stream", None)
        if before is None:
            first = self._first_of(blocks)
            y = np.concatenate([np.asarray(block.y) for block in first])
            refuse_non_finite_target(y)
            _, labels = self._coded(y[: n_surveyed(*_breadth(first[0]))], labels, is_first=True)
            blocks = chain(first, blocks)
            del first
        else:
            labels = self._stream_labels
        rows = rows_from(self._with_codes(block, labels) for block in blocks)
        try:
            if before is None:
                self._begin_stream(rows, labels, n_samples, tell)
            else:
                self._go_on(rows, before, tell)
        finally:
            rows.close()
        if labels is not None:
            self.classes_ = labels

    def _first_of(self, blocks: Iterator[Any]) -> list[Any]:
        """Return the first blocks, as many as are looked at before anything is learnt."""
        first: list[Any] = []
        n_rows, n_wanted = 0, 1
        while n_rows < n_wanted and (block := next(blocks, None)) is not None:
            if block.y is None:
                raise DataError("expected the target of its rows, found none", f"block {len(first)}", "pass (X, y)")
            first.append(block)
            n_rows += len(np.asarray(block.y))
            n_wanted = n_surveyed(*_breadth(block))
        if not first:
            raise DataError("expected rows, found none", "fit", "check the source")
        return first

    def _with_codes(self, block: Any, labels: np.ndarray | None) -> Any:
        """Return a block with its target as numbers, and its weights."""
        n_rows = block.n_rows
        y, _ = self._coded(block.y, labels, is_first=False)
        return replace(block, y=as_column(y, n_rows, "y"), weight=weights_of(block.weight, n_rows))

    def _begin_stream(
        self, rows: Passing, labels: np.ndarray | None, n_expected: int | None, tell: Tell | None
    ) -> None:
        if self.n_replicas > 1:
            problem = "rows that pass by once are learnt from by one model"
            raise ConfigError(problem, "n_replicas", "leave it 1, or pass promises of blocks")
        rows.holds = True
        fit = self._begun(rows, labels)
        if n_expected is not None:
            fit = replace(fit, sgd=replace(fit.sgd, half_life=fit.shape.settings.half_life(n_expected)))
        rows.holds = False
        self._stream_labels = labels
        with self._run(rows, Here()) as run:
            self._learn(run, rows, fit, n_expected, tell)

    def _begun(self, rows: Passing, labels: np.ndarray | None) -> MissionFit:
        """Look at the first rows, which are held, and return an empty model that is ready to learn."""
        is_sparse = rows.sparse_rows(slice(0, 0)) is not None
        rows.reach(1)
        first = rows.take(np.arange(rows.reach(n_surveyed(rows.shape[1], is_sparse))))
        self._labels = labels
        checked_target(first, self.loss_, LARGEST_TARGET)
        settings = self._settings_of_streams()
        if rows.shape[1] >= MOST_IDS and settings.n_hashes == 0:
            problem = "features that are 64-bit ids cannot have a cell each"
            raise ConfigError(problem, "tail", 'tail="sketch", or make a store of the source')
        with self._run(first, Here()) as run:
            target = self._encoded(settings, first, None if labels is None else len(labels))
            return begin(run, settings, *target, n_epochs=1)

    def _go_on(self, rows: Passing, before: MissionFit, tell: Tell | None) -> None:
        rows.reach(1)
        if rows.shape[1] != before.shape.data.n_features:
            found, expected = (_features(n) for n in (rows.shape[1], before.shape.data.n_features))
            raise DataError(f"expected rows of {expected}, as before, found {found}", "partial_fit", "fit anew")
        settings = self._settings_of_streams()
        with self._run(rows, Here()) as run:
            run.seconds.update(before.seconds)
            self._learn(run, rows, before.going_on(settings, 0), None, tell)

    def _learn(self, run: Run, rows: Passing, fit: MissionFit, n_expected: int | None, tell: Tell | None) -> None:
        with run.timed("train"):
            learnt = Learner(fit, n_expected, tell, self._names_of_features).learn(rows)
        self._stream = replace(learnt, seconds=run.seconds, nbytes=run.nbytes)
        self._take_names(rows)
        run = run.over(rows)
        self._take(run, self._stream.selected(), None, self._stream.history, [*self._notes_on_stream(learnt), NO_REFIT])

    def _respond(self, X: Any, response: Response) -> Any:
        if isinstance(X, SparseSource):
            parts = [response(self._predictor(block)) for block in X.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ)]
            return np.concatenate(parts)
        if getattr(self, "n_features_in_", 0) >= MOST_IDS - 1:
            raise DataError("expected a sparse source, as in the fit: features are ids", "X", "pass a source")
        return super()._respond(X, response)

    def _predictor(self, block: SparseBlock) -> np.ndarray:
        """Return the linear predictor of a block's rows."""
        coef = self.coef_ if len(self.selected_) == self.coef_.shape[-1] else self.coef_[..., self.selected_]
        return linear_predictor(block, self.selected_.astype(np.uint64), coef, self.intercept_)

    def predictors_of(
        self, source: SparseSource, keep: Callable[[SparseBlock], np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return targets, weights and linear predictors of the rows of a source, or of those that `keep` tells."""
        found = []
        for block in source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ):
            some = block if keep is None else rows_of(block, keep(block))
            of_rows = np.ones(some.n_rows) if some.weight is None else some.weight
            found.append((some.y, of_rows, self._predictor(some)))
        y, weight, predictor = (np.concatenate(part) for part in zip(*found, strict=True))
        return y, weight, predictor

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R², or of a classifier the share of labels that are right; see `BaseSelector.score`.

        Of a sparse source the rows' own targets and weights.
        """
        if not isinstance(X, SparseSource):
            return super().score(X, y, sample_weight)
        y, weight, predictor = self.predictors_of(X)
        prediction = self.response(predictor)
        return (accuracy if find_loss(self.loss_).is_classifier else r2)(y, prediction, weight)


class _Gone(Matrix):
    """Stands for rows that are gone: their shape and names."""

    def __init__(self, n_samples: int, n_features: int, dtype: np.dtype, names: Sequence[str] | None) -> None:
        self.shape, self.dtype = (n_samples, n_features), dtype
        self._names = Names(min(n_features, MOST_IDS - 1), None if names is None else as_names(names, n_features))

    @property
    def names(self) -> Names:
        """Names of the columns."""
        return self._names

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Refuse: the rows are gone."""
        raise DataError("the rows of a stream are not kept: they cannot be read again", "fit", "read the source anew")


def _features(n: int) -> str:
    return "64-bit ids" if n >= MOST_IDS else f"{n:,} columns"


def _breadth(block: Any) -> tuple[int, bool]:
    """Return how many columns a block's rows have, and whether they are entries."""
    if isinstance(block, SparseBlock):
        return MOST_IDS, True
    return block.X.shape[1], hasattr(block.X, "tocsr")


def _next_of(blocks: Iterator[SparseBlock]) -> Callable[[None], SparseBlock | None]:
    return lambda _: next(blocks, None)


def _endless() -> Iterator[None]:
    while True:
        yield None


def rows_of(block: SparseBlock, is_kept: np.ndarray) -> SparseBlock:
    """Return some rows of a block."""
    if is_kept.all():
        return block
    lengths = np.diff(block.indptr)
    entries = np.repeat(is_kept, lengths)
    return SparseBlock(
        block.start,
        np.concatenate([[0], np.cumsum(lengths[is_kept])]),
        block.features[entries],
        None if block.data is None else block.data[entries],
        None if block.y is None else block.y[is_kept],
        None if block.weight is None else block.weight[is_kept],
        {name: texts[is_kept] for name, texts in block.labels.items()},
        block.names,
    )
