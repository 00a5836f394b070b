"""One fit of MISSION: what is known before, the passes, the refit; and the same for a stream of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.sketch.rows import THRESHOLD
from daskfs.losses import find_loss
from daskfs.matrix.base import Matrix
from daskfs.parameters import n_to_select
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.mission.capacity import check_capacity, check_noise
from daskfs.selectors.mission.count_sketch import CountSketch
from daskfs.selectors.mission.model import MissionModel
from daskfs.selectors.mission.plan import DEFAULT_N_SELECTED, MissionShape, n_refit_epochs, plan_mission
from daskfs.selectors.mission.run import MissionRun
from daskfs.selectors.mission.tasks import Learning, Standard, Target, survey_rows
from daskfs.selectors.shared.refit import MeanLoss, SelectedFit, refit_selected
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, class_weights, null_intercept

if TYPE_CHECKING:
    from daskfs.selectors.mission.selector import Mission

SURVEY_ROWS = 4096
SURVEY_VALUES = 1 << 22  # of a dense matrix, looked at before anything is learnt
LEAST_SURVEYED = 256  # rows of it: standard deviations within 5 %

PERIOD = 0.2
"""Of the falling learning rate, in epochs."""


@dataclass
class MissionFit:
    """What a fit leaves behind; of a stream, what it goes on with."""

    shape: MissionShape
    learning: Learning
    arrays: dict[str, np.ndarray]
    """The model, as `MissionModel.to_arrays` gives it."""
    survey: dict[str, np.ndarray]
    n_samples: int
    history: list[tuple[float, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    train_s: float = 0.0
    """Seconds of all passes of a stream."""
    n_returned: int = 0
    coef: np.ndarray | None = None
    """Of the refit, (n_selected, n_outputs) in the order of the ids; None where there was none."""
    intercept: np.ndarray | None = None
    deviation: np.ndarray | None = None
    """Standard deviations of the selected columns, where they were looked at."""


def fit_mission(selector: Mission, run: Run) -> MissionFit:
    """Learn from all rows of a matrix, in their order first, and refit.

    Raises
    ------
    PlanError, DataError
    """
    matrix = run.matrix
    with run.timed("survey"):
        weight = matrix.read_weight(slice(None))
        target, intercept = _target_of(selector, np.asarray(matrix.read_target()), weight, None)
        survey = _survey(run, target, selector)
        shape, learning = _learning(selector, matrix, target, survey, run.task_limit, selector.n_epochs)
    fit = MissionFit(shape, learning, MissionModel(shape.model, intercept).to_arrays(), survey, matrix.shape[0])
    _note_before(fit, selector, matrix)
    passes = _passes(selector, run, fit)
    passes.passes("train", 0, selector.n_epochs)
    fit.arrays = passes.arrays
    if shape.model.variant == "hashing":
        _all_active(fit, matrix.shape[1])
    _note_after(fit, passes.history)
    _refit(fit, passes)
    fit.history, fit.n_returned = passes.history, passes.n_returned
    return fit


def learn_more(selector: Mission, run: Run, before: MissionFit | None, labels: np.ndarray | None) -> MissionFit:
    """Take more rows of a stream, once, in their order; return a fit that goes on from the one before."""
    matrix = run.matrix
    if before is None:
        target, intercept = _target_of(selector, checked_target(matrix, selector.loss), matrix.read_weight(), labels)
        with run.timed("survey"):
            survey = _survey(run, target, selector)
        shape, learning = _learning(selector, matrix, target, survey, run.task_limit, 1)
        before = MissionFit(shape, learning, MissionModel(shape.model, intercept).to_arrays(), survey, 0)
        _note_before(before, selector, matrix)
        before.notes.append("rows are learnt from once and not kept: the coefficients are those of stochastic descent")
    _refuse_new_classes(matrix, before.learning.target)
    seen = before.n_samples + matrix.shape[0]
    half_life = math.inf if selector.tail_half_life is None else selector.tail_half_life * seen
    arrays = {name: array.copy() for name, array in before.arrays.items()}  # a call that fails changes nothing
    fit = replace(before, learning=replace(before.learning, half_life=half_life), arrays=arrays, n_samples=seen)
    passes = _passes(selector, run, fit)
    passes.history = list(before.history)
    passes.passes("train", 0, 1)
    fit.train_s = run.seconds["train"] = before.train_s + run.seconds["train"]
    fit.arrays, fit.history, fit.n_returned = passes.arrays, passes.history, before.n_returned + passes.n_returned
    return fit


def _passes(selector: Mission, run: Run, fit: MissionFit) -> MissionRun:
    sizes = (selector.block_rows, selector.n_replicas, selector.sync_every)
    seed = seed_of(selector.random_state)
    return MissionRun(run, fit.learning, fit.arrays, *sizes, seed)


def _target_of(
    selector: Mission, y: np.ndarray, weight: np.ndarray | None, labels: np.ndarray | None
) -> tuple[Target, np.ndarray]:
    """Return how targets are read, and the intercepts of the model without features."""
    weight = np.ones(len(y)) if weight is None else weight
    if not find_loss(selector.loss).is_classifier:
        mean_weight = float(weight.mean())
        return Target(mean_weight=mean_weight), np.array([np.average(y, weights=weight)])
    codes = np.unique(y) if labels is None else np.arange(float(len(labels)))
    if len(codes) < 2:
        raise DataError(f"expected at least two classes, found one class ({codes[0]:g})", "y", "check the target")
    selector.classes_ = codes
    counts = np.bincount(np.searchsorted(codes, y), weights=weight, minlength=len(codes))
    named = labels if labels is not None else getattr(selector, "_labels", None)
    factors = class_weights(selector.class_weight, codes if named is None else named, np.maximum(counts, 1e-300))
    counts = counts if factors is None else counts * factors
    target = Target(codes, factors, float(counts.sum() / len(y)))
    return target, _null_intercepts(selector.loss, np.maximum(counts / counts.sum(), 0.5 / len(y)))


def _null_intercepts(loss: str, shares: np.ndarray) -> np.ndarray:
    """Return the intercepts of the model without features, of classes with these shares of the weight."""
    if loss == "multinomial" and len(shares) > 2:
        return np.asarray(np.log(shares))
    positive = shares[1:] if len(shares) == 2 else shares
    locations = np.clip(2.0 * positive - 1.0, -1.0 + 1e-12, 1.0 - 1e-12)
    if loss in ("logistic", "multinomial"):
        return np.array([null_intercept("logistic", float(location)) for location in locations])
    return locations  # least squares; of the hinge loss a step towards the likelier class


def _survey(run: Run, target: Target, selector: Mission) -> dict[str, np.ndarray]:
    """Look at the first rows."""
    matrix = run.matrix
    n_rows = min(SURVEY_ROWS, matrix.shape[0])
    is_dense = matrix.sparse_rows(slice(0, 1)) is None
    if is_dense:
        n_rows = min(n_rows, max(LEAST_SURVEYED, SURVEY_VALUES // matrix.shape[1]))
    piece_rows = 1
    if is_dense:
        shape = selector._shape(matrix.shape[0], matrix.shape[1], np.dtype(matrix.dtype), _n_outputs(target))
        plan_mission(shape, run.task_limit)
        piece_rows = shape.piece_rows(run.task_limit)
    told = (target, is_dense and selector.standardize, piece_rows)
    found: list[dict[str, np.ndarray]] = run.map("survey", survey_rows, [run.rows(0, n_rows)], *told)
    return found[0]


def _learning(
    selector: Mission,
    matrix: Matrix,
    target: Target,
    survey: dict[str, np.ndarray],
    memory_limit: int | None,
    n_epochs: int,
) -> tuple[MissionShape, Learning]:
    n_samples, n_features = matrix.shape
    is_sparse = matrix.sparse_rows(slice(0, 1)) is not None
    nnz_per_row = float(survey["nnz"]) / float(survey["n_rows"]) if is_sparse else None
    n_outputs = _n_outputs(target)
    shape = selector._shape(n_samples, n_features, np.dtype(matrix.dtype), n_outputs, nnz_per_row)
    if selector.loss == "multinomial" and n_outputs == 1:
        shape = replace(shape, model=replace(shape.model, loss="logistic"))
    if n_outputs > 1 and shape.model.has_heap:
        raise DataError(f"expected numbers or two classes, found {n_outputs}", "y", "the heap orders single weights")
    plan_mission(shape, memory_limit)
    norm = float(survey["squared_norm"])
    loss = find_loss(selector.loss)
    constant = loss.learning_rate * (1.0 if n_epochs == 1 else 2.0)
    rate = selector.learning_rate
    half_life = math.inf if selector.tail_half_life is None else selector.tail_half_life * n_samples
    learning = Learning(
        shape=shape.model,
        target=target,
        rate=float(rate) if rate is not None else constant / (norm or 1.0),
        period=math.inf if n_epochs == 1 else PERIOD * n_samples,
        step_limit=loss.longest_step if rate is None else math.inf,
        intercept_ratio=float(selector.intercept_rate),
        half_life=half_life,
        piece_rows=shape.piece_rows(memory_limit),
        standard=Standard(survey["centre"], survey["factor"]) if "centre" in survey else None,
    )
    return shape, learning


def _n_outputs(target: Target) -> int:
    n_classes = 0 if target.classes is None else len(target.classes)
    return n_classes if n_classes > 2 else 1


def _refuse_new_classes(matrix: Matrix, target: Target) -> None:
    if target.classes is None:
        return
    y = np.asarray(matrix.read_target())
    unknown = np.flatnonzero(~np.isin(y, target.classes))
    if len(unknown):
        row = int(unknown[0])
        raise DataError(
            f"expected one of {target.classes.tolist()}, found {y[row]:g}", f"y, row {row}", "pass classes="
        )


def _all_active(fit: MissionFit, n_features: int) -> None:
    """Give every feature the weight of its cell."""
    keys = np.arange(n_features, dtype=np.uint64)
    weights = CountSketch.from_arrays(fit.arrays, copy=False).estimate(keys).reshape(n_features, -1)
    fit.arrays |= {"keys": keys, "weights": weights, "touches": np.zeros(n_features, dtype=np.int64)}


def _note_before(fit: MissionFit, selector: Mission, matrix: Matrix) -> None:
    model, survey = fit.shape.model, fit.survey
    if model.n_hashes and not model.forgets and model.variant != "hashing":
        n_ids, nnz = int(survey["n_ids"]), float(survey["nnz"]) / float(survey["n_rows"])
        capacity = check_capacity(model.n_selected, n_ids, model.n_buckets, model.n_hashes, model.variant, nnz)
        fit.notes.append(capacity.text)
    if selector.learning_rate is None:
        fit.notes.append(
            f"learning rate {fit.learning.rate:.4g}, from a mean ‖x‖² of {float(survey['squared_norm']):.4g}"
        )
    if n_to_select(selector.n_features_to_select, matrix.shape[1], DEFAULT_N_SELECTED) == matrix.shape[1]:
        fit.notes.append("as many features are asked for as there are: nothing is left out")
    if selector.tail_half_life is None and selector.n_epochs > 1:
        fit.notes.append("several passes without tail_half_life: features that were not selected gather weight")


def _note_after(fit: MissionFit, history: list[tuple[float, ...]]) -> None:
    threshold, norm = float(fit.arrays["numbers"][THRESHOLD]), history[-1][-1]
    model = fit.shape.model
    if threshold > 0.0 and model.n_hashes and model.variant == "active":
        n_ids = int(fit.survey["n_ids"])
        fit.notes.append(check_noise(norm, threshold, n_ids, model.n_buckets, model.n_hashes).text)


def _refit(fit: MissionFit, passes: MissionRun) -> None:
    """Fit the selected columns alone, exactly or by further passes."""
    run, matrix = passes.run, passes.matrix
    columns = fit.arrays["keys"].astype(np.int64)
    kind = fit.shape.refit if len(columns) else None
    target, model = fit.learning.target, fit.shape.model
    if kind == "exact":
        weighted = matrix if target.class_weight is None else matrix.weighted(target.read(matrix, slice(None))[1])
        of_weighted = run.over(weighted)
        limit = fit.shape.refit_nbytes
        of_weighted.task_limit = limit if run.task_limit is None else min(run.task_limit, limit)

        def refitted(positive: float | None) -> SelectedFit:
            return refit_selected(of_weighted, columns, MeanLoss(model.loss, positive))

        classes = [None] if target.classes is None else target.classes[1:] if model.n_outputs == 1 else target.classes
        fits = [refitted(one) for one in classes]
        fit.coef, fit.deviation = np.column_stack([one.coef for one in fits]), fits[0].scale
        fit.intercept = np.array([one.intercept for one in fits])
        if any(one.is_separable for one in fits):
            fit.notes.append("the selected features tell classes apart without error; a weak ridge bounds the refit")
        if fits[0].n_dependent:
            fit.notes.append(f"{fits[0].n_dependent} selected column(s) depend on others: their coefficient is 0")
    elif kind == "sgd":
        n_epochs = fit.shape.n_epochs
        if n_epochs == 1:  # the constant rate falls from here on
            period = PERIOD * fit.n_samples
            passes.learning = replace(fit.learning, period=period)
        passes.passes("refit", n_epochs, n_refit_epochs(n_epochs), frozen=True)
        fit.coef, fit.intercept = on_scale_of_data(fit, passes.arrays["weights"], passes.arrays["intercept"])
        _, total, squares = passes.arrays["sums"].T / fit.n_samples
        fit.deviation = np.sqrt(np.maximum(squares - total**2, 0.0)) / factors_of(fit)


def factors_of(fit: MissionFit) -> np.ndarray:
    """Return by what the active features were multiplied before they were learnt from, (n_active,)."""
    standard = fit.learning.standard
    if standard is None:
        return np.ones(len(fit.arrays["keys"]))
    factors: np.ndarray = standard.factor[fit.arrays["keys"].astype(np.int64)]
    return factors


def on_scale_of_data(fit: MissionFit, weights: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (n_active, n_outputs) and intercepts as they apply to the columns as they came."""
    coef = weights.astype(np.float64) * factors_of(fit)[:, None]
    if fit.learning.standard is None:
        return coef, np.array(intercept)
    centre = fit.learning.standard.centre[fit.arrays["keys"].astype(np.int64)]
    return coef, intercept - (centre[:, None] * coef).sum(axis=0)
