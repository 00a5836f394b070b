"""One fit of MISSION: what is known before the first row, the passes over the rows, the refit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from daskfs.cluster.workers import Round
from daskfs.errors import DataError
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, packed
from daskfs.selectors.base import SEPARATED
from daskfs.selectors.mission.choice import choose
from daskfs.selectors.mission.entries import MOST_IDS
from daskfs.selectors.mission.model import MissionModel, ModelShape, ModelState, merged, norms, settled
from daskfs.selectors.mission.plan import MissionShape, Settings, n_refit_epochs, n_surveyed, plan_mission
from daskfs.selectors.mission.reading import Cuts, Scaling
from daskfs.selectors.mission.rounds import Unit
from daskfs.selectors.mission.tasks import (
    RowRange,
    SgdSettings,
    Survey,
    TargetEncoding,
    mean_squared_norm,
    survey_rows,
    train_on_rows,
)
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import class_weights

PERIOD = 0.2
"""Of the falling learning rate, in epochs."""

REFIT_SHARE = 0.1
"""Of the rate of one pass, that of a refit by descent: it is to arrive, not to find."""

PAPER_RATE = 0.5
"""Constant, of the paper's experiments (section 6.2), which have losses of classes; it does not say that of the squared
loss, and there steps with this rate grow where rows are longer than 2."""

LEG_TASKS, CHAIN_TASKS = 64, 256
"""Tasks after which the client gets a model at the latest, and after which it waits for it."""


class Line(NamedTuple):
    """A line of the history."""

    number: float
    """Of the pass."""
    rows_seen: float
    mean_loss: float
    """Of the rows since the last line, before they were learnt from."""
    threshold: float
    n_active: float
    tail_norm: float


HISTORY = ("pass", *Line._fields[1:])


@dataclass(frozen=True, slots=True)
class MissionFit:
    """A model, how it learns, and what is known of the rows; a stream of rows goes on from it."""

    shape: MissionShape
    sgd: SgdSettings
    survey: Survey
    state: ModelState
    n_samples: int
    history: list[Line] = field(default_factory=list)
    progressive: dict[int, float] = field(default_factory=dict)
    """After so many rows of a stream the mean loss of all of them, each before it was learnt from."""
    seconds: dict[str, float] = field(default_factory=dict)
    nbytes: dict[str, int] = field(default_factory=dict)

    @property
    def is_always(self) -> np.ndarray:
        """Whether an active feature is always included, shape (n_active,)."""
        return np.isin(self.state.keys, np.array(self.shape.model.always, dtype=np.uint64))

    @property
    def by_rank(self) -> np.ndarray:
        """The active features' places, most important first: those always included, then by the size of the weight."""
        sizes = norms(self.state.weights).astype(np.float64)
        return np.lexsort((self.state.keys, -sizes, ~self.is_always))

    @property
    def are_ids(self) -> bool:
        """Whether features are ids, of which nobody has a list."""
        return self.shape.data.n_features >= MOST_IDS

    def selected(self) -> MissionFit:
        """Return the fit with what is selected as active: of hashed columns all, each with the weight of its cell.

        Hashed ids are not known one by one: none of them is active, and rows are predicted by their cells.
        """
        if self.shape.model.variant != "hashing" or self.are_ids:
            return self
        n_features = self.shape.data.n_features
        keys = np.arange(n_features, dtype=np.uint64)
        weights = self.shape.model.sketch(self.state.cells, self.state.scale).estimate(keys).reshape(n_features, -1)
        touches = np.zeros(n_features, dtype=np.int64)
        return replace(self, state=replace(self.state, keys=keys, weights=weights, touches=touches))

    def going_on(self, settings: Settings, n_samples: int) -> MissionFit:
        """Return the fit with which so many more rows are learnt from; this one stays as it is."""
        seen = self.n_samples + n_samples
        return replace(
            self,
            shape=replace(self.shape, settings=settings),
            sgd=replace(self.sgd, half_life=settings.half_life(seen)),
            state=replace(self.state, cells=self.state.cells.copy()),
            n_samples=seen,
        )


def encode_target(
    settings: Settings, matrix: Matrix, n_classes: int | None, names: np.ndarray | None
) -> tuple[TargetEncoding, np.ndarray]:
    """Return how targets are read, and the intercepts of the model without features.

    Parameters
    ----------
    settings : Settings
    matrix : Matrix
    n_classes : int, optional
        Of numbered classes, where these rows need not have them all.
    names : ndarray of shape (n_classes,), optional
        By which the user's weights know the classes.

    Raises
    ------
    DataError
        One class only.
    """
    y, weight = np.asarray(matrix.read_target()), matrix.read_weight()
    weight = np.ones(len(y)) if weight is None else weight
    if not find_loss(settings.loss).is_classifier:
        return TargetEncoding(mean_weight=float(weight.mean())), np.array([np.average(y, weights=weight)])
    codes = np.unique(y) if n_classes is None else np.arange(float(n_classes))
    if len(codes) < 2:
        raise DataError(f"expected at least two classes, found one class ({codes[0]:g})", "y", "check the target")
    counts = np.bincount(np.searchsorted(codes, y), weights=weight, minlength=len(codes))
    factors = class_weights(settings.class_weight, codes if names is None else names, np.maximum(counts, 1e-300))
    counts = counts if factors is None else counts * factors
    encoding = TargetEncoding(codes, factors, float(counts.sum() / len(y)))
    return encoding, _null_intercepts(settings.loss, np.maximum(counts / counts.sum(), 0.5 / len(y)))


def _null_intercepts(loss: str, shares: np.ndarray) -> np.ndarray:
    """Return the intercepts of the model without features, of classes with these shares of the weight."""
    if find_loss(loss).has_classes and len(shares) > 2:
        return np.asarray(np.log(shares))
    positive = shares[1:] if len(shares) == 2 else shares
    locations = np.clip(2.0 * positive - 1.0, -1.0 + 1e-12, 1.0 - 1e-12)
    return np.array([find_loss(loss).null_intercept(float(location)) for location in locations])


def begin(run: Run, settings: Settings, target: TargetEncoding, intercept: np.ndarray, n_epochs: int) -> MissionFit:
    """Look at the first rows, and return an empty model that is ready to learn from all.

    Parameters
    ----------
    run : Run
        Over the rows in the order of the first pass.
    settings, target, intercept
        The latter two from `encode_target`.
    n_epochs : int
        Passes to come.

    Raises
    ------
    PlanError, DataError
    """
    is_sparse = run.matrix.sparse_rows(slice(0, 1)) is not None
    n_classes = 0 if target.classes is None else len(target.classes)
    shape = MissionShape.of(run.shape, settings, n_classes if n_classes > 2 else 1).with_always(run.matrix.names)
    if not is_sparse:
        plan_mission(shape, run.task_limit)
    survey = _survey(run, shape, target, is_sparse)
    shape = replace(shape, nnz_per_row=survey.nnz_per_row if is_sparse else None)
    plan_mission(shape, run.task_limit)
    n_rows, is_constant = run.shape.n_samples, n_epochs == 1 or shape.model.is_in_sketch
    rate, step_limit = _rate(settings, shape.model, survey.squared_norm, is_constant)
    cuts = shape.cuts(run.task_limit)
    if shape.model.is_in_sketch and not settings.intercept_rate:
        intercept = np.zeros_like(intercept)
    sgd = SgdSettings(
        shape=shape.model,
        target=target,
        rate=rate,
        period=math.inf if is_constant else PERIOD * n_rows,
        step_limit=step_limit,
        intercept_ratio=float(settings.intercept_rate),
        half_life=settings.half_life(n_rows),
        piece_rows=cuts.piece_rows,
        scaling=survey.scaling,
        stretches=cuts.stretches,
    )
    model = MissionModel(shape.model, intercept)
    model.hold()
    return MissionFit(shape, sgd, survey, model.state(), n_rows)


def _rate(settings: Settings, model: ModelShape, squared_norm: float, is_constant: bool) -> tuple[float, float]:
    """Return the learning rate of the first row, and the longest step that it may lead to."""
    loss = find_loss(settings.loss)
    if settings.learning_rate is not None:
        return float(settings.learning_rate), math.inf
    if model.is_in_sketch and loss.has_bounded_derivative:
        return PAPER_RATE, math.inf
    return loss.learning_rate * (1.0 if is_constant else 2.0) / (squared_norm or 1.0), loss.longest_step


def _survey(run: Run, shape: MissionShape, target: TargetEncoding, is_sparse: bool) -> Survey:
    """Look at the first rows."""
    cuts = Cuts(1) if is_sparse else shape.cuts(run.task_limit)
    standardize = shape.settings.standardize and not is_sparse
    rows = _first_rows(run, is_sparse)
    survey: Survey = run.map("survey", survey_rows, [rows], target, standardize, cuts)[0]
    return survey


def _first_rows(run: Run, is_sparse: bool) -> Rows:
    """Return the rows that say enough of all."""
    return run.rows(0, min(n_surveyed(run.shape.n_features, is_sparse), run.shape.n_samples))


def refuse_new_classes(matrix: Matrix, target: TargetEncoding) -> None:
    """Refuse rows of a stream with a class that it was not told of.

    Raises
    ------
    DataError
    """
    if target.classes is None:
        return
    y = np.asarray(matrix.read_target())
    unknown = np.flatnonzero(~np.isin(y, target.classes))
    if len(unknown):
        row = int(unknown[0])
        known = target.classes.tolist()
        raise DataError(f"expected one of {known}, found {y[row]:g}", f"y, row {row}", "pass classes=")


@dataclass(frozen=True, slots=True)
class TrainingRound:
    """What is learnt between two averages."""

    number: int
    """Of the pass."""
    units: list[Unit]
    """One for each model."""
    is_report: bool
    """Whether a line of the history follows, and a checkpoint."""
    frozen: bool
    with_sums: bool
    """Both as of `RowRange`."""

    @property
    def n_rows(self) -> int:
        """Of all models."""
        return sum(stop - start for blocks in self.units for start, stop in blocks)


@dataclass(frozen=True, slots=True)
class KeptPasses(Record):
    """What a checkpoint knows of the passes so far."""

    state: ModelState
    history: np.ndarray
    """Shape (n_lines, len(HISTORY))."""
    n_done: int


@dataclass(frozen=True, slots=True)
class Refit:
    """The fit of the selected columns alone, in the order of their ids."""

    coef: np.ndarray
    """Shape (n_selected, n_outputs)."""
    intercept: np.ndarray
    deviation: np.ndarray
    """Standard deviations of the columns, shape (n_selected,)."""
    notes: list[str] = field(default_factory=list)


class Passes:
    """The passes of a model over the rows: which rows in which order, who takes them, what was finished before.

    Parameters
    ----------
    run : Run
        Over the rows in the order of the first pass.
    fit : MissionFit
        The model to start with.
    """

    def __init__(self, run: Run, fit: MissionFit) -> None:
        self.run, self.fit, self.sgd, self.settings = run, fit, fit.sgd, fit.shape.settings
        self.state, self.history, self.progressive = fit.state, list(fit.history), dict(fit.progressive)
        self._counted = (fit.state.loss_sum, fit.state.weight_sum)  # at the last line of the history

    def take(self, step: str, first: int, n_passes: int, *, frozen: bool = False) -> None:
        """Take all rows `n_passes` times.

        Parameters
        ----------
        step : str
        first : int
            Number of the first pass: that of number 0 is in the order of the rows.
        n_passes : int
        frozen : bool
            Whether the active features stay as they are; the first such pass brings back their columns' sums.
        """
        order = self.settings.order(self.run.shape.n_samples)
        rounds = [
            TrainingRound(number, units, is_report, frozen, with_sums=frozen and number == first)
            for number in range(first, first + n_passes)
            for units, is_report in order.rounds(number)
        ]
        n_done = min(self._resume(step), len(rounds))
        with self.run.reported(step, len(rounds), n_done) as advance, self.run.timed(step):
            for legs in _chains(rounds[n_done:]):
                for leg in self._chain(step, legs):
                    n_done += len(leg)
                    if leg[-1].is_report:
                        self._report(leg[-1].number)
                        self.run.save(step, KeptPasses(self.state, np.array(self.history), n_done))
                    advance(len(leg))

    def learnt(self) -> MissionFit:
        """Return the fit with the model as it is now."""
        so_far = {"history": list(self.history), "progressive": dict(self.progressive)}
        return replace(self.fit, state=self.state, seconds=self.run.seconds, nbytes=self.run.nbytes, **so_far)  # type: ignore[arg-type]

    def _chain(self, step: str, legs: list[list[TrainingRound]]) -> Iterator[list[TrainingRound]]:
        """Let each model take its rows of every round, and average them after it; yield every leg when it is done."""
        run, shape, seen = self.run, self.sgd.shape, self.state.rows_seen
        starts = iter(accumulate((one.n_rows for leg in legs for one in leg), initial=seen))
        parts = [[self._parts(one, next(starts)) for one in leg] for leg in legs]
        rounds = Round(train_on_rows, partial(merged, shape), partial(settled, shape))
        sent = replace(self.state, sums=None)
        for leg, state in zip(legs, run.chain(step, rounds, parts, sent, run.keep(self.sgd)), strict=True):
            seen += sum(one.n_rows for one in leg)
            known = [sums for sums in (self.state.sums, state.sums) if sums is not None]
            self.state = replace(state, rows_seen=seen, sums=sum(known[1:], known[0]) if known else None)
            yield leg

    def _parts(self, one: TrainingRound, rows_seen: float) -> list[RowRange]:
        """Return what each model is to take in a round."""
        n_models = len(one.units)
        in_place = n_models == 1 and self.run.workers.client is None
        return [
            RowRange(
                tuple(packed(self.run.rows(*block)) for block in blocks),
                rows_seen,
                n_models,
                i,
                one.frozen,
                in_place,
                one.with_sums,
            )
            for i, blocks in enumerate(one.units)
        ]

    def _report(self, number: int) -> None:
        """Add a line to the history."""
        state, counted = self.state, (self.state.loss_sum, self.state.weight_sum)
        loss, weight = (now - before for now, before in zip(counted, self._counted, strict=True))
        self._counted = counted
        norm = self.sgd.shape.sketch(state.cells, state.scale).norm()
        mean_loss = loss / weight if weight else np.nan
        self.history.append(Line(number + 1, state.rows_seen, mean_loss, state.threshold, len(state.keys), norm))
        self.run.learn("pass", state.rows_seen / max(1, self.run.shape.n_samples), mean_loss, self._largest)
        if self.progressive:  # a stream goes on
            self.progressive[int(state.rows_seen)] = counted[0] / counted[1] if counted[1] else np.nan

    def _largest(self) -> np.ndarray:
        """Return the active features, those with the largest weights first; feature hashing has none."""
        keys, weights = self.state.keys, self.state.weights
        if not len(keys):
            return keys
        return keys[np.argsort(-np.abs(weights).reshape(len(keys), -1).max(axis=1, initial=0.0), kind="stable")]

    def _resume(self, step: str) -> int:
        """Take up what an interrupted run had finished; return how many rounds."""
        kept = self.run.load(step, KeptPasses)
        if kept is None:
            return 0
        self.state, self.history = kept.state, [Line(*line) for line in kept.history.tolist()]
        self._counted = (kept.state.loss_sum, kept.state.weight_sum)
        return kept.n_done

    def choose(self) -> None:
        """Of the candidates keep those that explain the target together, where there is a choice."""
        shape, keys = self.fit.shape, self.state.keys
        if not shape.has_choice or not len(keys):
            return
        run, columns = self._with_class_weights(), keys.astype(np.int64)
        standardize = self.sgd.scaling is not None
        always = self.sgd.shape.always
        keep = choose(run, columns, shape.n_selected, self._positives, standardize=standardize, always=always)
        weights, touches = self.state.weights[keep], self.state.touches[keep]
        self.state = replace(self.state, keys=keys[keep], weights=weights, touches=touches)

    @property
    def _positives(self) -> list[Any]:
        """The classes that are each told from the rest, of two the second; [None] for a target of numbers."""
        classes = self.sgd.target.classes
        return [None] if classes is None else list(classes[1:] if len(classes) == 2 else classes)

    def _with_class_weights(self) -> Run:
        """Return the run over the matrix whose weights are those of the classes too, with room for exact statistics."""
        matrix, target, limit = self.run.matrix, self.sgd.target, self.run.task_limit
        weighted = matrix
        if target.class_weight is not None:
            weighted = matrix.weighted(target.read(matrix, slice(None))[1] * target.mean_weight)
        room = self.fit.shape.exact_refit().nbytes
        return self.run.over(weighted, task_limit=room if limit is None else min(limit, room))

    def refit(self) -> Refit | None:
        """Fit the selected columns alone, exactly or by further passes; None where neither is asked for."""
        kind = self.fit.shape.refit
        if kind is None or not len(self.state.keys):
            return None
        return self._refit_exactly() if kind == "exact" else self._refit_by_descent()

    def _refit_exactly(self) -> Refit:
        """Return the minimum of the loss; with several classes, of each against the rest."""
        run, columns = self._with_class_weights(), self.state.keys.astype(np.int64)
        free = np.isin(columns, np.array(self.sgd.shape.always, dtype=np.int64))
        losses = [MeanLoss(self.sgd.shape.loss, positive) for positive in self._positives]
        fits = [refit_selected(run, columns, one, free=free) for one in losses]
        notes = []
        if any(fit.is_separable for fit in fits):
            notes.append(SEPARATED)
        if fits[0].n_dependent:
            notes.append(f"{fits[0].n_dependent} selected column(s) depend on others: their coefficient is 0")
        coef, intercept = np.column_stack([fit.coef for fit in fits]), np.array([fit.intercept for fit in fits])
        return Refit(coef, intercept, fits[0].scale, notes)

    def _refit_by_descent(self) -> Refit:
        """Let the weights of the selected features learn alone."""
        # The rate follows from the norms of the selected columns alone: all others stay as they are.
        n_samples, n_epochs, shape = self.run.shape.n_samples, self.settings.n_epochs, self.sgd.shape
        if n_epochs == 1 or shape.is_in_sketch:  # the constant rate falls from here on
            self.sgd = replace(self.sgd, period=PERIOD * n_samples)
        if shape.is_by_class:  # which is for selecting: what is selected has exact weights of all from here on
            shape = replace(shape, variant="active", per_class=False, n_selected=len(self.state.keys))
        rows = _first_rows(self.run, self.fit.shape.nnz_per_row is not None)
        norm = self.run.map("survey", mean_squared_norm, [rows], self.state.keys, self.run.keep(self.sgd))[0]
        rate, step_limit = _rate(self.settings, shape, float(norm), is_constant=True)
        share = REFIT_SHARE if self.settings.learning_rate is None else 1.0
        self.sgd = replace(self.sgd, shape=shape, rate=share * rate, step_limit=step_limit)
        self.take("refit", n_epochs, n_refit_epochs(n_epochs, n_samples), frozen=True)
        state, scaling = self.state, self.sgd.scaling
        assert state.sums is not None  # the first of these passes added them up
        _, total, squares = state.sums.T / n_samples
        spread = np.sqrt(np.maximum(squares - total**2, 0.0))
        return Refit(*on_scale_of_data(scaling, state), spread / _factors(scaling, state.keys))


def _chains(rounds: Sequence[TrainingRound]) -> Iterator[list[list[TrainingRound]]]:
    """Yield rounds as chains of legs, each in its order: the client has the state after a leg, and waits for a chain.

    A leg ends where there is a report, or are sums to be added. Legs and chains have an end, for the scheduler keeps
    the tasks of a chain until it is done, and a worker that is lost costs them all.
    """
    legs: list[list[TrainingRound]] = [[]]
    for one in rounds:
        legs[-1].append(one)
        if one.is_report or one.with_sums or _n_tasks(legs[-1:]) >= LEG_TASKS:
            if _n_tasks(legs) >= CHAIN_TASKS:
                yield legs
                legs = []
            legs.append([])
    if legs[0]:
        yield [leg for leg in legs if leg]


def _n_tasks(legs: list[list[TrainingRound]]) -> int:
    return sum(len(one.units) for leg in legs for one in leg)


def on_scale_of_data(scaling: Scaling | None, state: ModelState) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (n_active, n_outputs) and intercepts as they apply to the columns as they came."""
    coef = state.weights.astype(np.float64) * _factors(scaling, state.keys)[:, None]
    if scaling is None:
        return coef, np.array(state.intercept)
    centre = scaling.centre[state.keys.astype(np.int64)]
    return coef, state.intercept - (centre[:, None] * coef).sum(axis=0)


def _factors(scaling: Scaling | None, keys: np.ndarray) -> np.ndarray:
    """Return by what the active features were multiplied before they were learnt from, (n_active,)."""
    if scaling is None:
        return np.ones(len(keys))
    factors: np.ndarray = scaling.factor[keys.astype(np.int64)]
    return factors
