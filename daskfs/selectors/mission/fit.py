"""One fit of MISSION: its configuration, the model so far, and its history. A stream of rows continues from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from daskfs import errors
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.selectors.inputs import columns_of
from daskfs.selectors.mission.configuration import ONE_PASS_PERIOD, PERIOD, Configuration
from daskfs.selectors.mission.entries import MOST_IDS
from daskfs.selectors.mission.model import Entries, ModelState, Standing, norms
from daskfs.selectors.mission.plan import cuts_within, n_surveyed, plan_mission
from daskfs.selectors.mission.reading import Cuts, Scaling
from daskfs.selectors.mission.survey import Survey, TargetEncoding, survey_rows
from daskfs.selectors.mission.variants import model_of
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import class_weights

ConfigError = errors.ConfigError
DataError = errors.DataError.about("target")


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


@dataclass(frozen=True)
class History:
    """The history of a fit, and where its next line begins."""

    counted: tuple[float, float] = (0.0, 0.0)
    """Sums of losses and weights at the last line."""
    lines: list[Line] = field(default_factory=list)
    progressive: dict[int, float] = field(default_factory=dict)
    """Progressive loss of a stream by number of rows: their mean loss, each before the update with it."""

    def after(self, number: int, n_rows: float, now: Standing, is_stream: bool) -> History:
        """Return the history with a line for the present model, which has seen `n_rows` rows."""
        loss, weight = now.loss_sum - self.counted[0], now.weight_sum - self.counted[1]
        mean_loss = loss / weight if weight else np.nan
        line = Line(number, n_rows, mean_loss, now.threshold, now.n_active, now.tail_norm)
        progressive = self.progressive
        if is_stream:
            so_far = now.loss_sum / now.weight_sum if now.weight_sum else np.nan
            progressive = progressive | {int(n_rows): so_far}
        return History((now.loss_sum, now.weight_sum), [*self.lines, line], progressive)


@dataclass(frozen=True, slots=True)
class MissionFit:
    """A model, the configuration of its fit, and what happened so far."""

    config: Configuration
    state: ModelState
    n_samples: int
    history: History = History()
    seconds: dict[str, float] = field(default_factory=dict)
    nbytes: dict[str, int] = field(default_factory=dict)

    @property
    def are_ids(self) -> bool:
        """Whether features are ids, so that there is no list of them."""
        return self.config.data.n_features >= MOST_IDS

    def by_rank(self) -> np.ndarray:
        """Return the positions of the active features: those always included, then by absolute weight."""
        sizes = norms(self.state.weights).astype(np.float64)
        return np.lexsort((self.state.keys, -sizes, ~np.isin(self.state.keys, self.config.always)))

    def selected(self) -> MissionFit:
        """Return the fit with an entry for each selected feature (all columns with feature hashing).

        Hashed ids cannot be listed: none of them is active, and rows are predicted from their cells.
        """
        model, n_features = self.config.model, self.config.data.n_features
        if model.variant != "hashing" or self.are_ids:
            return replace(self, state=self.state.by_feature())
        keys, none = np.arange(n_features, dtype=np.uint64), np.zeros(n_features, np.int64)
        weights = model.sketch(self.state.cells, self.state.scale).estimate(keys).reshape(n_features, -1)
        return replace(self, state=self.state.with_entries(Entries(keys, none, weights, none)))

    def on_scale_of_data(self) -> tuple[np.ndarray, np.ndarray]:
        """Return weights (n_active, n_outputs) and intercepts for the original columns."""
        state, scaling = self.state, self.config.survey.scaling
        coef = state.weights.astype(np.float64) * factors_of(scaling, state.keys)[:, None]
        if scaling is None:
            return coef, np.array(state.intercept)
        centre = scaling.centre[state.keys.astype(np.int64)]
        return coef, state.intercept - (centre[:, None] * coef).sum(axis=0)


def factors_of(scaling: Scaling | None, keys: np.ndarray) -> np.ndarray:
    """Return the factors by which the active features were multiplied before training, (n_active,)."""
    if scaling is None:
        return np.ones(len(keys))
    factors: np.ndarray = scaling.factor[keys.astype(np.int64)]
    return factors


def encode_target(
    loss: str, class_weight: Any, matrix: Matrix, n_classes: int | None, names: np.ndarray | None
) -> tuple[TargetEncoding, np.ndarray]:
    """Return the encoding of the target, and the intercepts of the model without features.

    Parameters
    ----------
    loss : str
    class_weight : "balanced" or mapping, optional
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
    if not find_loss(loss).is_classifier:
        return TargetEncoding(mean_weight=float(weight.mean())), np.array([np.average(y, weights=weight)])
    codes = np.unique(y) if n_classes is None else np.arange(float(n_classes))
    if len(codes) < 2:
        raise DataError(f"expected at least two classes, found one class ({codes[0]:g})", "y", "check the target")
    counts = np.bincount(np.searchsorted(codes, y), weights=weight, minlength=len(codes))
    factors = class_weights(class_weight, codes if names is None else names, np.maximum(counts, 1e-300))
    counts = counts if factors is None else counts * factors
    shares = np.maximum(counts / counts.sum(), 0.5 / len(y))
    if find_loss(loss).has_classes and len(shares) > 2:
        intercept = np.asarray(np.log(shares))
    else:
        locations = np.clip(2.0 * (shares[1:] if len(shares) == 2 else shares) - 1.0, -1.0 + 1e-12, 1.0 - 1e-12)
        intercept = np.array([find_loss(loss).null_intercept(float(location)) for location in locations])
    return TargetEncoding(codes, factors, float(counts.sum() / len(y))), intercept


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


def begin(
    run: Run, config: Configuration, target: TargetEncoding, intercept: np.ndarray, always_include: Any = None
) -> MissionFit:
    """Survey the first rows, and return an empty model that is ready to train.

    Parameters
    ----------
    run : Run
        Over the rows in the order of the first pass.
    config : Configuration
    target, intercept
        From `encode_target`.
    always_include : array of int or str, optional
        As in `daskfs.Mission`.

    Raises
    ------
    PlanError, DataError
    """
    is_sparse = run.matrix.sparse_rows(slice(0, 1)) is not None
    if always_include is not None:
        config = replace(config, model=replace(config.model, always=_always(always_include, run.matrix, config)))
    if not is_sparse:
        plan_mission(config, run.task_limit)
    rows, cuts = first_rows(run, is_sparse), Cuts(1) if is_sparse else cuts_within(config, run.task_limit)
    survey: Survey = run.map("survey", survey_rows, [rows], target, config.standardize and not is_sparse, cuts)[0]
    if is_sparse:
        config = replace(config, nnz_per_row=survey.nnz_per_row)
        plan_mission(config, run.task_limit)
    is_once, period = config.n_epochs == 1, math.inf  # a stream is one pass
    if not is_once and not config.model.is_in_sketch:
        period = PERIOD * run.shape.n_samples
    elif config.learning_rate is None and not config.model.is_in_sketch:
        period = ONE_PASS_PERIOD * survey.rows_per_occurrence or math.inf  # no feature occurs
    rate, step_limit = config.rate_of(survey.squared_norm, is_constant=is_once or config.model.is_in_sketch)
    config = replace(
        config,
        survey=survey,
        target=target,
        rate=rate,
        period=period,
        step_limit=step_limit,
        half_life=config.half_life_of(run.shape.n_samples),
        cuts=cuts_within(config, run.task_limit),
    )
    if config.model.is_in_sketch and not config.intercept_rate:
        intercept = np.zeros_like(intercept)
    model = model_of(config.model, intercept)
    model.hold()
    return MissionFit(config, model.state(), run.shape.n_samples)


def first_rows(run: Run, is_sparse: bool) -> Rows:
    """Return enough rows for a survey."""
    return run.rows(0, min(n_surveyed(run.shape.n_features, is_sparse), run.shape.n_samples))


def _always(asked: Any, matrix: Matrix, config: Configuration) -> tuple[int, ...]:
    """Return the numbers of the columns that are always included.

    Raises
    ------
    ConfigError, DataError
        Features are ids without names, a column does not exist, or there are more columns than are selected.
    """
    n_features = config.data.n_features
    if n_features >= MOST_IDS:
        problem = "has no effect with 64-bit ids as features, which are not known in advance"
        raise ConfigError(problem, "always_include", "leave it out, or create a store from the source")
    always = np.sort(columns_of(asked, n_features, matrix.names, "always_include"))
    if len(always) > config.n_selected:
        problem = f"expected at most {config.n_selected} columns, found {len(always)}"
        raise ConfigError(problem, "always_include", "raise n_features_to_select")
    return tuple(always.tolist())
