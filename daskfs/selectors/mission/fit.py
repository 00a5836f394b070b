"""One fit of MISSION: the survey of the first rows, the passes over the rows, the refit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from daskfs import errors
from daskfs.cluster.workers import Round
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows, packed
from daskfs.selectors.base import SEPARATED
from daskfs.selectors.mission.choice import choose
from daskfs.selectors.mission.entries import MOST_IDS
from daskfs.selectors.mission.model import Entries, ModelShape, ModelState, norms
from daskfs.selectors.mission.plan import (
    MissionShape,
    Settings,
    n_outputs_of,
    n_refit_epochs,
    n_surveyed,
    plan_mission,
)
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
from daskfs.selectors.mission.variants import merged, model_of, settled
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import class_weights

DataError = errors.DataError.about("target")

PERIOD = 0.2
"""Period of the falling learning rate, in epochs."""

REFIT_SHARE = 0.1
"""Learning rate of a refit by descent, as a share of that of one pass: the start is near the optimum."""

PAPER_RATE = 0.5
"""Constant rate of the paper's experiments (section 6.2), for classification.

The paper gives none for the squared loss; there, steps with this rate diverge if rows are longer than 2.
"""

LEG_TASKS, CHAIN_TASKS = 64, 256
"""Largest number of tasks before the client receives a model, and before it waits for one."""


class Line(NamedTuple):
    """A line of the history."""

    number: float
    """Number of the pass."""
    rows_seen: float
    mean_loss: float
    """Mean loss of the rows since the last line, each before the update with it."""
    threshold: float
    n_active: float
    tail_norm: float


HISTORY = ("pass", *Line._fields[1:])


@dataclass(frozen=True, slots=True)
class MissionFit:
    """A model, its training settings, and the facts about the rows. A stream of rows continues from it."""

    shape: MissionShape
    sgd: SgdSettings
    survey: Survey
    state: ModelState
    n_samples: int
    history: list[Line] = field(default_factory=list)
    progressive: dict[int, float] = field(default_factory=dict)
    """Progressive loss of a stream by number of rows: their mean loss, each before the update with it."""
    seconds: dict[str, float] = field(default_factory=dict)
    nbytes: dict[str, int] = field(default_factory=dict)

    @property
    def is_always(self) -> np.ndarray:
        """Whether an active feature is always included, shape (n_active,)."""
        return np.isin(self.state.keys, np.array(self.shape.model.always, dtype=np.uint64))

    @property
    def by_rank(self) -> np.ndarray:
        """Positions of the active features, most important first: those always included, then by absolute weight."""
        sizes = norms(self.state.weights).astype(np.float64)
        return np.lexsort((self.state.keys, -sizes, ~self.is_always))

    @property
    def are_ids(self) -> bool:
        """Whether features are ids, so that there is no list of them."""
        return self.shape.data.n_features >= MOST_IDS

    def selected(self) -> MissionFit:
        """Return the fit with an entry for each selected feature (all columns with feature hashing).

        Hashed ids cannot be listed: none of them is active, and rows are predicted from their cells.
        """
        if self.shape.model.variant != "hashing" or self.are_ids:
            return replace(self, state=self.state.by_feature())
        n_features = self.shape.data.n_features
        keys, none = np.arange(n_features, dtype=np.uint64), np.zeros(n_features, np.int64)
        weights = self.shape.model.sketch(self.state.cells, self.state.scale).estimate(keys).reshape(n_features, -1)
        return replace(self, state=self.state.with_entries(Entries(keys, none, weights, none)))

    def going_on(self, settings: Settings, n_samples: int) -> MissionFit:
        """Return a copy of the fit that is ready to learn from `n_samples` more rows."""
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
    """Return the encoding of the target, and the intercepts of the model without features.

    Parameters
    ----------
    settings : Settings
    matrix : Matrix
    n_classes : int, optional
        Number of classes, if they are numbered and some may be missing in these rows.
    names : ndarray of shape (n_classes,), optional
        Labels of the classes in the user's class weights.

    Raises
    ------
    DataError
        There is only one class.
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
    """Return the intercepts of the model without features, for classes with these shares of the weight."""
    if find_loss(loss).has_classes and len(shares) > 2:
        return np.asarray(np.log(shares))
    positive = shares[1:] if len(shares) == 2 else shares
    locations = np.clip(2.0 * positive - 1.0, -1.0 + 1e-12, 1.0 - 1e-12)
    return np.array([find_loss(loss).null_intercept(float(location)) for location in locations])


def begin(run: Run, settings: Settings, target: TargetEncoding, intercept: np.ndarray, n_epochs: int) -> MissionFit:
    """Survey the first rows, and return an empty model that is ready to train.

    Parameters
    ----------
    run : Run
        Over the rows in the order of the first pass.
    settings, target, intercept
        The last two from `encode_target`.
    n_epochs : int
        Number of passes that follow.

    Raises
    ------
    PlanError, DataError
    """
    is_sparse = run.matrix.sparse_rows(slice(0, 1)) is not None
    n_classes = 0 if target.classes is None else len(target.classes)
    n_outputs = n_outputs_of(settings.loss, n_classes)
    shape = MissionShape.of(run.shape, settings, n_outputs).with_always(run.matrix.names)
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
        spans=cuts.spans,
    )
    model = model_of(shape.model, intercept)
    model.hold()
    return MissionFit(shape, sgd, survey, model.state(), n_rows)


def _rate(settings: Settings, model: ModelShape, squared_norm: float, is_constant: bool) -> tuple[float, float]:
    """Return the learning rate of the first row, and the longest step allowed."""
    loss = find_loss(settings.loss)
    if settings.learning_rate is not None:
        return float(settings.learning_rate), math.inf
    if model.is_in_sketch and loss.has_bounded_derivative:
        return PAPER_RATE, math.inf
    return loss.learning_rate * (1.0 if is_constant else 2.0) / (squared_norm or 1.0), loss.longest_step


def _survey(run: Run, shape: MissionShape, target: TargetEncoding, is_sparse: bool) -> Survey:
    """Survey the first rows."""
    cuts = Cuts(1) if is_sparse else shape.cuts(run.task_limit)
    standardize = shape.settings.standardize and not is_sparse
    rows = _first_rows(run, is_sparse)
    survey: Survey = run.map("survey", survey_rows, [rows], target, standardize, cuts)[0]
    return survey


def _first_rows(run: Run, is_sparse: bool) -> Rows:
    """Return enough rows for the survey."""
    return run.rows(0, min(n_surveyed(run.shape.n_features, is_sparse), run.shape.n_samples))


def refuse_new_classes(matrix: Matrix, target: TargetEncoding) -> None:
    """Refuse rows of a stream with an unknown class.

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
    """The training between two averages of the models."""

    number: int
    """Number of the pass."""
    units: list[Unit]
    """One unit for each model."""
    is_report: bool
    """Whether a line of the history and a checkpoint follow."""
    frozen: bool
    with_sums: bool
    """`frozen` and `with_sums` are as in `RowRange`."""

    @property
    def n_rows(self) -> int:
        """Number of rows for all models."""
        return sum(stop - start for blocks in self.units for start, stop in blocks)


@dataclass(frozen=True, slots=True)
class KeptPasses(Record):
    """The state of the passes in a checkpoint."""

    state: ModelState
    history: np.ndarray
    """Shape (n_lines, len(HISTORY))."""
    n_done: int


@dataclass(frozen=True, slots=True)
class Refit:
    """The refit on the selected columns, in the order of their ids."""

    coef: np.ndarray
    """Shape (n_selected, n_outputs)."""
    intercept: np.ndarray
    deviation: np.ndarray
    """Standard deviations of the columns, shape (n_selected,)."""
    notes: list[str] = field(default_factory=list)


class Passes:
    """The passes of a model over the rows: the order of rows, the tasks, and checkpoints.

    Parameters
    ----------
    run : Run
        Over the rows in the order of the first pass.
    fit : MissionFit
        The model to start from.
    """

    def __init__(self, run: Run, fit: MissionFit) -> None:
        self.run, self.fit, self.sgd, self.settings = run, fit, fit.sgd, fit.shape.settings
        self.state, self.history, self.progressive = fit.state, list(fit.history), dict(fit.progressive)
        self._counted = (fit.state.loss_sum, fit.state.weight_sum)  # at the last line of the history

    def take(self, step: str, first: int, n_passes: int, *, frozen: bool = False) -> None:
        """Make `n_passes` passes over all rows.

        Parameters
        ----------
        step : str
        first : int
            Number of the first pass; pass 0 is in the order of the rows.
        n_passes : int
        frozen : bool
            Whether the set of active features stays the same; the first such pass returns sums over their columns.
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
        """Return the fit with the present model."""
        so_far = {"history": list(self.history), "progressive": dict(self.progressive)}
        return replace(self.fit, state=self.state, seconds=self.run.seconds, nbytes=self.run.nbytes, **so_far)  # type: ignore[arg-type]

    def _chain(self, step: str, legs: list[list[TrainingRound]]) -> Iterator[list[TrainingRound]]:
        """Train each model on its rows, and average them after every round; yield each leg when it is done."""
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
        """Return the rows of each model in a round."""
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
        threshold = float(state.thresholds.min())
        self.history.append(Line(number + 1, state.rows_seen, mean_loss, threshold, state.n_features, norm))
        self.run.learn("pass", state.rows_seen / max(1, self.run.shape.n_samples), mean_loss, self._largest)
        if self.progressive:  # a stream is continued
            self.progressive[int(state.rows_seen)] = counted[0] / counted[1] if counted[1] else np.nan

    def _largest(self) -> np.ndarray:
        """Return the active features, largest weights first; there are none with feature hashing."""
        entries = self.state.by_feature().entries
        return entries.keys[np.argsort(-np.abs(entries.weights).max(axis=1, initial=0.0), kind="stable")]

    def _resume(self, step: str) -> int:
        """Restore an interrupted run from a checkpoint; return the number of finished rounds."""
        kept = self.run.load(step, KeptPasses)
        if kept is None:
            return 0
        self.state, self.history = kept.state, [Line(*line) for line in kept.history.tolist()]
        self._counted = (kept.state.loss_sum, kept.state.weight_sum)
        return kept.n_done

    def choose(self) -> None:
        """Keep the candidates that explain the target together, if there are more than to select."""
        self.state = self.state.by_feature()
        shape, keys = self.fit.shape, self.state.keys
        if not shape.has_choice or not len(keys):
            return
        run, columns = self._with_class_weights(), keys.astype(np.int64)
        standardize = self.sgd.scaling is not None
        always = self.sgd.shape.always
        keep = choose(run, columns, shape.n_selected, self._positives, standardize=standardize, always=always)
        self.state = self.state.with_entries(self.state.entries.at(keep))

    @property
    def _positives(self) -> list[Any]:
        """The classes that are each fitted against the rest (of two only the second); [None] for regression."""
        classes = self.sgd.target.classes
        return [None] if classes is None else list(classes[1:] if len(classes) == 2 else classes)

    def _with_class_weights(self) -> Run:
        """Return the run over the matrix with class weights included, with memory for exact statistics."""
        matrix, target, limit = self.run.matrix, self.sgd.target, self.run.task_limit
        weighted = matrix
        if target.class_weight is not None:
            weighted = matrix.weighted(target.read(matrix, slice(None))[1] * target.mean_weight)
        room = self.fit.shape.exact_refit().nbytes
        return self.run.over(weighted, task_limit=room if limit is None else min(limit, room))

    def refit(self) -> Refit | None:
        """Refit on the selected columns, exactly or by further passes; None if `refit` is None."""
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
            n_dependent = fits[0].n_dependent
            notes.append(f"{n_dependent} selected column(s) are linear combinations of others: their coefficient is 0")
        coef, intercept = np.column_stack([fit.coef for fit in fits]), np.array([fit.intercept for fit in fits])
        return Refit(coef, intercept, fits[0].scale, notes)

    def _refit_by_descent(self) -> Refit:
        """Refit by stochastic descent on the weights of the selected features."""
        # The rate follows from the norms of the selected columns, since all other weights are fixed.
        n_samples, n_epochs, shape = self.run.shape.n_samples, self.settings.n_epochs, self.sgd.shape
        if n_epochs == 1 or shape.is_in_sketch:  # the rate was constant and falls from here on
            self.sgd = replace(self.sgd, period=PERIOD * n_samples)
        # per-class selection is over: from here on each selected feature has an exact weight for every class
        if shape.is_by_class:
            shape = replace(shape, variant="active", per_class=False, n_selected=len(self.state.keys))
        rows = _first_rows(self.run, self.fit.shape.nnz_per_row is not None)
        norm = self.run.map("survey", mean_squared_norm, [rows], self.state.keys, self.run.keep(self.sgd))[0]
        rate, step_limit = _rate(self.settings, shape, float(norm), is_constant=True)
        share = REFIT_SHARE if self.settings.learning_rate is None else 1.0
        self.sgd = replace(self.sgd, shape=shape, rate=share * rate, step_limit=step_limit)
        self.take("refit", n_epochs, n_refit_epochs(n_epochs, n_samples), frozen=True)
        state, scaling = self.state, self.sgd.scaling
        assert state.sums is not None  # the first of these passes computed them
        _, total, squares = state.sums.T / n_samples
        spread = np.sqrt(np.maximum(squares - total**2, 0.0))
        return Refit(*on_scale_of_data(scaling, state), spread / _factors(scaling, state.keys))


def _chains(rounds: Sequence[TrainingRound]) -> Iterator[list[list[TrainingRound]]]:
    """Yield rounds as chains of legs, in order: the client receives the state after a leg, and waits after a chain.

    A leg ends with a report, or when sums must be added. Legs and chains have limited length, because the scheduler
    keeps the tasks of a chain until it is done, and a lost worker loses all of them.
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
    """Return weights (n_active, n_outputs) and intercepts for the original columns."""
    coef = state.weights.astype(np.float64) * _factors(scaling, state.keys)[:, None]
    if scaling is None:
        return coef, np.array(state.intercept)
    centre = scaling.centre[state.keys.astype(np.int64)]
    return coef, state.intercept - (centre[:, None] * coef).sum(axis=0)


def _factors(scaling: Scaling | None, keys: np.ndarray) -> np.ndarray:
    """Return the factors by which the active features were multiplied before training, (n_active,)."""
    if scaling is None:
        return np.ones(len(keys))
    factors: np.ndarray = scaling.factor[keys.astype(np.int64)]
    return factors
