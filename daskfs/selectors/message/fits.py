"""Steps 5 to 7 of MESSAGE: the subsets' fits on the selected features, their average, one Newton step.

A subset's path caches the moments and correlations of the features that it visited. If all selected features are among
them, least squares needs no further read; otherwise the subset's rows of the selected columns are read. The normal
equations of the subsets, a few kilobytes each, add up to those of all rows.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from daskfs import errors
from daskfs.errors import DaskfsError
from daskfs.kernels.glm.softmax import centred, is_large
from daskfs.kernels.group_lasso.groups import ColumnGroups
from daskfs.kernels.linear.linalg import minimum_norm, solve_each
from daskfs.matrix.base import Matrix
from daskfs.selectors.message.choices import PAIRS, Choices, NormalEquations, SelectionSettings
from daskfs.selectors.message.errors import of_mean, of_median
from daskfs.selectors.message.plan import Subsets
from daskfs.selectors.message.subset import Derivatives, Gain, MaximumLikelihood, Point, of_one, standard_errors
from daskfs.selectors.message.tasks import SubsetPasses
from daskfs.selectors.message.votes import errors_of_least_squares, gain_of_least_squares, z_of_least_squares
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import null_intercepts

DataError = errors.DataError.about("shapes")

LONG_STEP = 0.05  # in the mean loss per row: if a step promises more, its start is outside the range of the quadratic
SHORT_STEP = 1.0  # in the linear predictor: within this range no loss changes its curvature much
STEPS_NOT_TAKEN = {
    "lost rows": "the Newton step after the average was not taken: the rows of some subsets were not kept",
    "many unknowns": "the Newton step after the average was not taken: all classes together have too many coefficients",
    "long step": "the Newton step after the average was not taken: it was too long for the quadratic approximation",
}

RecordT = TypeVar("RecordT", bound=Record)


@dataclass(frozen=True)
class Part:
    """Rows that arrived together: where they can be read again, and what their subsets chose."""

    matrix: Matrix | None
    """None if the rows are not kept."""
    subsets: Subsets
    choices: Choices

    def __getstate__(self) -> dict[str, Any]:
        """Leave arrays in memory out: a pickled selector is small."""
        kept = self.without_arrays().matrix
        return {**vars(self), "matrix": None if kept is None else pickle.dumps(kept)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the rows again where they still are: a pickled selector also predicts where its store is not."""
        matrix = None
        if state["matrix"] is not None:
            with suppress(DaskfsError):
                matrix = pickle.loads(state["matrix"])
        vars(self).update({**state, "matrix": matrix})

    def without_arrays(self) -> Part:
        """Return the part without its matrix, if that holds arrays in memory."""
        return replace(self, matrix=None) if self.matrix is not None and self.matrix.is_resident else self

    def passes(self, run: Run) -> SubsetPasses | None:
        """Return the passes over these rows, within a run over other rows; None if the rows are gone."""
        if self.matrix is None or not self.matrix.exists():
            return None
        return SubsetPasses(run.over(self.matrix), self.subsets)


class Average(NamedTuple):
    """A model of the chosen columns; with the multinomial loss, arrays have a leading axis of classes."""

    coef: np.ndarray
    """Shape (n_columns,) or (n_classes, n_columns), on the scale of the data."""
    intercept: Any
    mean: np.ndarray
    scale: np.ndarray
    """Scale of the columns over all rows, as `mean`; shape (n_columns,)."""

    @property
    def centred_intercept(self) -> Any:
        """The linear predictor where every column has its mean."""
        return self.intercept + (self.mean * self.coef).sum(axis=-1)


def intercept_alone(choices: Choices, settings: SelectionSettings) -> Average:
    """Return the model without features."""
    nothing = np.empty(0)
    location = np.average(choices.y_mean, weights=choices.total, axis=0)
    if settings.classes:
        return Average(np.empty((len(settings.classes), 0)), null_intercepts(location), nothing, nothing)
    return Average(nothing, settings.record.null_intercept(float(location)), nothing, nothing)


def fit_subsets(
    parts: Sequence[tuple[Part, SubsetPasses | None]],
    columns: np.ndarray,
    with_errors: bool = False,
    asked: ColumnGroups | None = None,
) -> SubsetFits:
    """Step 5: fit the columns on every subset.

    Parameters
    ----------
    parts : sequence of Part, each with the passes over its rows; None where they are gone
    columns : ndarray of shape (n_columns,), int64, ascending
    with_errors : bool
        Whether `SubsetFits.z` is needed.
    asked : ColumnGroups, optional
        Groups of the columns for which `SubsetFits.gain` is needed.

    Raises
    ------
    DataError
        The rows of all subsets are gone.
    """
    found, n_cached, n_read = [], 0, 0
    for part, passes in parts:
        cached, is_known = part.choices.normal_equations(columns)
        known, missing = np.flatnonzero(is_known), np.flatnonzero(~is_known)
        pieces: list[Any] = [] if cached is None else [cached]
        n_cached += len(known)
        if len(missing) and passes is not None:
            pieces.append(passes.refit(columns, missing, with_errors, asked))
            n_read += len(missing)
            found.append(_taken(type(pieces[0]).joined(pieces), np.argsort(np.concatenate([known, missing]))))
        elif pieces:
            found.append(cached)
    if not found:
        raise DataError("the rows of all subsets are gone", "partial_fit", "keep the stores, or fit again")
    statistics = type(found[0]).joined(found)
    n_lost = sum(part.subsets.n_subsets for part, _ in parts) - n_cached - n_read
    counts = Counts(n_cached, n_read, n_lost)
    if isinstance(statistics, NormalEquations):
        return LeastSquaresFits(columns, counts, statistics, asked)
    return LikelihoodFits(columns, counts, statistics, [passes for _, passes in parts if passes is not None])


def _taken(record: RecordT, order: np.ndarray) -> RecordT:
    """Return a record of arrays with their first axis reordered."""
    values = (getattr(record, field.name) for field in fields(record))  # type: ignore[arg-type]
    return type(record)(*(None if value is None else value[order] for value in values))


class Counts(NamedTuple):
    """How the subsets were refitted."""

    n_cached: int
    """Subsets refitted from cached moments."""
    n_read: int
    """Subsets refitted from their rows of the chosen columns."""
    n_lost: int
    """Subsets that had to be read but are gone: left out of the average."""


class SubsetFits(ABC):
    """The chosen columns fitted on every subset. Quantities derived from the fits are computed on demand.

    Parameters
    ----------
    columns : ndarray of shape (n_columns,), int64, ascending
    counts : Counts
    total : ndarray of shape (n_known,)
        The sum of the weights of every subset that could be fitted.
    n_singular : int
        Number of subsets where the columns are linearly dependent.
    problems : sequence of str
        Further notes on the fits.
    """

    def __init__(
        self, columns: np.ndarray, counts: Counts, total: np.ndarray, n_singular: int, problems: Sequence[str] = ()
    ) -> None:
        self.columns, self.counts, self.total = columns, counts, total
        whose = f"in {n_singular} of {sum(counts)} subsets the selected columns are linearly dependent"
        self._notes = [*([f"{whose}; the minimum-norm solution was used"] if n_singular else []), *problems]

    @abstractmethod
    def z(self) -> np.ndarray:
        """Return the coefficients of these subsets divided by their standard errors; NaN where there is none."""

    @abstractmethod
    def gain(self) -> Gain:
        """Return what these subsets gain by each of the groups given as `asked`."""

    @abstractmethod
    def averaged(self, average: str) -> tuple[Average, str]:
        """Steps 6 and 7: return the average of the fits; with ``one_step`` after a Newton step on all rows.

        The second value says what was done, or why the step was not taken: a key of `STEPS_NOT_TAKEN`.
        """

    @property
    @abstractmethod
    def estimates(self) -> np.ndarray:
        """The coefficients of the subsets whose fits count, in the shape of `coef`; NaN where there is none."""

    @abstractmethod
    def errors(self, step: str) -> np.ndarray:
        """Return the standard errors of what `averaged` returned, from the subsets' information; NaN where none exists.

        Parameters
        ----------
        step : str
            The second value of `averaged`.
        """

    def scatter(self, errors: np.ndarray, step: str) -> tuple[float, int]:
        """Return the variance between the subsets divided by that of the standard errors, and its df.

        On n_i rows (XᵀX)⁻¹ is on average 1 / (n_i - s - 2), not 1 / n_i, times that of many rows.
        """
        coef = self.estimates
        if step in ("mean", "median"):
            errors = self.errors_of_subsets()
        else:
            n_rows = self.total.sum() / max(len(self.total), 1)
            share = self.total.sum() / max(n_rows - len(self.columns) - 2.0, 1.0)
            errors = np.broadcast_to(errors * np.sqrt(share), coef.shape)
        known = ~np.isnan(coef) & np.isfinite(errors)
        n_known = known.sum(axis=0)
        mean = np.where(known, coef, 0.0).sum(axis=0) / np.maximum(n_known, 1)
        ratios = np.divide(coef - mean, errors, out=np.zeros(coef.shape), where=known & (errors > 0.0)) ** 2
        df = int(np.maximum(n_known - 1, 0).sum())
        return float(ratios.sum()) / max(df, 1), df

    @abstractmethod
    def errors_of_subsets(self) -> np.ndarray:
        """Return the standard errors of `estimates`."""

    def notes(self, step: str) -> list[str]:
        """Return the notes on the fits."""
        n_cached, n_read, n_lost = self.counts
        notes, n_subsets = [*self._notes], sum(self.counts)
        if n_cached and n_read:
            notes.append(f"{n_read} of {n_subsets} subsets had to read the selected columns again for the refit")
        if n_lost:
            notes.append(
                f"{n_lost} of {n_subsets} subsets are left out of the average: their paths did not visit all selected "
                "features, and their rows were not kept"
            )
        return [*notes, STEPS_NOT_TAKEN[step]] if step in STEPS_NOT_TAKEN else notes


class LeastSquaresFits(SubsetFits):
    """Fits of the squared loss, from normal equations alone."""

    def __init__(
        self, columns: np.ndarray, counts: Counts, equations: NormalEquations, asked: ColumnGroups | None = None
    ) -> None:
        self.equations, self.asked = equations, asked
        self.coef, self.is_singular = solve_subsets(equations)
        super().__init__(columns, counts, equations.total, int(self.is_singular.sum()))

    def z(self) -> np.ndarray:
        """Return the coefficients of these subsets divided by their standard errors."""
        return z_of_least_squares(self.equations, self.coef)

    def gain(self) -> Gain:
        """Return what these subsets gain by each of the groups given as `asked`."""
        assert self.asked is not None  # callers of `gain` passed `asked`
        return gain_of_least_squares(self.equations, self.coef, self.asked)

    def averaged(self, average: str) -> tuple[Average, str]:
        """Return the average. A Newton step from any point ends at least squares on all rows."""
        if average == "one_step":
            every, (coef,), _ = self._all_rows
            (mean,), (scale,), (y_mean,) = every.mean, every.scale, every.y_mean
            return Average(coef, float(y_mean) - float((mean * coef).sum()), mean, scale), average
        return (median_of_fits if average == "median" else mean_of_fits)(self.coef, self.equations), average

    @property
    def estimates(self) -> np.ndarray:
        """The coefficients of the subsets; NaN if the columns are linearly dependent."""
        return np.where(self.is_singular[:, None], np.nan, self.coef)

    def errors_of_subsets(self) -> np.ndarray:
        """Return the standard errors of `estimates`."""
        scale = np.where(self.equations.scale > 0.0, self.equations.scale, np.nan)
        found: np.ndarray = errors_of_least_squares(self.equations, self.coef) / scale
        return np.where(self.is_singular[:, None], np.nan, found)

    def errors(self, step: str) -> np.ndarray:
        """Return the standard errors of the average."""
        if step != "one_step":
            return (of_median if step == "median" else of_mean)(self.errors_of_subsets())
        every, coef, is_singular = self._all_rows
        error: np.ndarray = errors_of_least_squares(every, coef)[0] / every.scale[0]
        return np.where(is_singular[0] | ~np.isfinite(error), np.nan, error)

    @cached_property
    def _all_rows(self) -> tuple[NormalEquations, np.ndarray, np.ndarray]:
        """Normal equations of all rows, and their solution, in the form of one subset; see `solve_subsets`."""
        every = of_all_rows(self.equations)
        return every, *solve_subsets(every)


class LikelihoodFits(SubsetFits):
    """Fits of the other losses. The Newton step reads the chosen columns once more."""

    def __init__(
        self, columns: np.ndarray, counts: Counts, fitted: MaximumLikelihood, passes: list[SubsetPasses]
    ) -> None:
        n_singular = int((fitted.is_singular & ~fitted.is_separable).sum())
        super().__init__(columns, counts, fitted.total, n_singular, notes_on_separation(fitted, sum(counts)))
        self.fitted, self.passes = fitted, passes

    @property
    def _is_trusted(self) -> np.ndarray:
        """Which fits count: that of a separable subset depends on the ridge."""
        is_separable = self.fitted.is_separable
        return is_separable if is_separable.all() else ~is_separable

    @cached_property
    def _mean(self) -> Average:
        return mean_of_fits(self.fitted.coef, self.fitted, self._is_trusted)

    def _derivatives_at(self, fit: Average, which: str = "") -> Derivatives:
        """Return the derivatives of every subset at a fit."""
        point = Point(fit.coef * fit.scale, fit.centred_intercept, fit.mean, fit.scale)
        return Derivatives.joined([one.derivatives(self.columns, point, which) for one in self.passes])

    @cached_property
    def _derivatives(self) -> Derivatives:
        """Derivatives of every subset at the average."""
        return self._derivatives_at(self._mean)

    def _ends_well(self, step: NewtonStep) -> bool:
        """Return whether a step ends where the quadratic approximation holds: always if short, else the end is checked.

        If most rows are separated, their curvature is 0, and a step can lead far beyond the optimum. There the loss
        rises more steeply along the step than it fell at the start.
        """
        if step.length <= SHORT_STEP:
            return True
        rise = float((self._derivatives_at(step.end, "-end").gradient.sum(axis=0) * step.step).sum())
        return rise <= abs(step.rise)

    def z(self) -> np.ndarray:
        """Return the coefficients of these subsets divided by their standard errors; NaN for a separable subset."""
        assert self.fitted.error is not None  # callers of `z` passed with_errors
        z = self.fitted.coef / self.fitted.error
        z[self.fitted.is_separable] = np.nan
        return z

    def gain(self) -> Gain:
        """Return what these subsets gain by each of the groups given as `asked`; NaN for a separable subset."""
        assert self.fitted.gain is not None  # callers of `gain` passed `asked`
        assert self.fitted.gain_df is not None
        return Gain(np.where(self.fitted.is_separable[:, None], np.nan, self.fitted.gain), self.fitted.gain_df)

    def averaged(self, average: str) -> tuple[Average, str]:
        """Return the average, after a Newton step if it is requested and can be trusted."""
        if average == "median":
            return median_of_fits(self.fitted.coef, self.fitted, self._is_trusted), average
        if average == "mean":
            return self._mean, average
        if self.counts.n_lost:
            return self._mean, "lost rows"
        if self.fitted.coef.ndim > 2 and is_large(len(self.columns), self.fitted.coef.shape[1]):
            return self._mean, "many unknowns"
        step = newton_step(self._mean, self._derivatives, float(self.fitted.total.sum()))
        return (self._mean, "long step") if step is None or not self._ends_well(step) else (step.end, average)

    @property
    def estimates(self) -> np.ndarray:
        """The coefficients of the subsets whose likelihood has a maximum."""
        counts = ~self.fitted.is_separable & ~self.fitted.is_singular
        return np.where(counts.reshape(-1, *[1] * (self.fitted.coef.ndim - 1)), self.fitted.coef, np.nan)

    def errors_of_subsets(self) -> np.ndarray:
        """Return the standard errors of `estimates`; NaN if they were not requested."""
        estimates = self.estimates
        if self.fitted.error is None:
            return np.full(estimates.shape, np.nan)
        return np.where(np.isnan(estimates) | np.isinf(self.fitted.error), np.nan, self.fitted.error)

    def errors(self, step: str) -> np.ndarray:
        """Return the standard errors of the average; NaN if all subsets are separable."""
        is_separable, start = self.fitted.is_separable, self._mean
        if is_separable.all():
            return np.full(start.coef.shape, np.nan)
        if step not in ("one_step", "long step"):
            return (of_median if step == "median" else of_mean)(self.errors_of_subsets())
        dispersion, n_classes = 1.0, len(start.coef) if start.coef.ndim > 1 else 0
        if self.fitted.dispersion is not None:
            dispersion = float(np.average(self.fitted.dispersion[~is_separable], weights=self.total[~is_separable]))
        error = standard_errors(self._derivatives.hessian.sum(axis=0), start.scale, dispersion, n_classes)
        return np.where(np.isinf(error), np.nan, error)


def notes_on_separation(fitted: MaximumLikelihood, n_subsets: int) -> list[str]:
    """Return the notes on subsets where the likelihood has no maximum."""
    is_all = fitted.is_separable.all()
    fate = "their fits are bounded by a weak ridge" if is_all else "their fits are left out of the average"
    notes = []
    if n := int((fitted.is_separable & fitted.is_right).sum()):
        notes.append(f"{n} of {n_subsets} subsets are linearly separable by the selected features; {fate}")
    if n := int((fitted.is_separable & ~fitted.is_right).sum()):
        notes.append(
            f"on {n} of {n_subsets} subsets the likelihood has no maximum: they have one class, or the selected "
            f"features separate some of their rows (quasi-complete separation, or complete with no margin); {fate}"
        )
    return notes


def solve_subsets(equations: NormalEquations) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients of every subset and whether its columns are linearly dependent.

    Returns
    -------
    coef : ndarray of shape (n_subsets, n_columns)
        On the scale of the data; NaN where a column is constant in a subset.
    is_singular : ndarray of shape (n_subsets,), bool
    """
    scale, solution = equations.scale, np.full(equations.scale.shape, np.nan)
    is_singular = solve_each(equations.gram, scale > 0.0, equations.cross, solution)
    for i in np.flatnonzero(is_singular):
        varies = np.flatnonzero(scale[i] > 0.0)
        gram = np.ascontiguousarray(equations.gram[i][np.ix_(varies, varies)])
        solution[i, varies] = minimum_norm(gram, equations.cross[i, varies])
    return np.divide(solution, scale, out=solution, where=scale > 0.0), is_singular


def mean_of_fits(
    coef: np.ndarray, fitted: NormalEquations | MaximumLikelihood, is_trusted: np.ndarray | None = None
) -> Average:
    """Average the subsets' coefficients, each over the subsets that estimate it; the intercept follows from the means.

    Parameters
    ----------
    coef : ndarray of shape (n_subsets, n_columns) or (n_subsets, n_classes, n_columns)
        NaN where a subset has no estimate.
    fitted : NormalEquations or MaximumLikelihood
    is_trusted : ndarray of shape (n_subsets,), bool, optional
        Which fits count.
    """
    mean, scale = _mean_and_scale(fitted)
    share = fitted.total / fitted.total.sum()
    if is_trusted is not None:
        coef = np.where(is_trusted.reshape(-1, *[1] * (coef.ndim - 1)), coef, np.nan)
        share = np.where(is_trusted, share, 0.0) / share[is_trusted].sum()
    known = ~np.isnan(coef)
    averaged = np.where(known, coef, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    y_mean = (share * fitted.y_mean.T).sum(axis=-1)
    return Average(averaged, y_mean - (mean * averaged).sum(axis=-1), mean, scale)


def median_of_fits(
    coef: np.ndarray, fitted: NormalEquations | MaximumLikelihood, is_trusted: np.ndarray | None = None
) -> Average:
    """Return the coordinate-wise median of the subsets' coefficients, and the median of their intercepts given these.

    Parameters are those of `mean_of_fits`. The columns' means and scales are medians too, so each number stays within
    the range of the other subsets' values, whatever fewer than half of the subsets say.
    """
    trusted = slice(None) if is_trusted is None else is_trusted
    coef, mean, y_mean = coef[trusted], fitted.mean[trusted], fitted.y_mean[trusted]
    middle = np.nan_to_num(np.nanmedian(np.where(np.isnan(coef).all(axis=0), 0.0, coef), axis=0))
    if middle.ndim > 1:
        middle -= middle.mean(axis=0)
    intercept = np.median(y_mean - mean @ middle.T, axis=0)
    if middle.ndim > 1:
        intercept -= intercept.mean()
    return Average(middle, intercept, np.median(mean, axis=0), np.median(fitted.scale[trusted], axis=0))


def of_all_rows(equations: NormalEquations) -> NormalEquations:
    """Return the normal equations of all rows, in the form of one subset."""
    mean, scale = _mean_and_scale(equations)
    share = equations.total / equations.total.sum()
    y_mean = float((share * equations.y_mean).sum())
    gram, cross = np.zeros((len(mean), len(mean))), np.zeros(len(mean))
    step = max(1, PAIRS // len(mean) ** 2)
    for some in (slice(i, i + step) for i in range(0, len(share), step)):
        within, between = equations.scale[some] / scale, (equations.mean[some] - mean) / scale
        pairs = within[:, :, None] * within[:, None] * equations.gram[some] + between[:, :, None] * between[:, None]
        sums = within * equations.cross[some] + between * (equations.y_mean[some] - y_mean)[:, None]
        for part, of_pairs, of_columns in zip(share[some], pairs, sums, strict=True):  # in the order of the subsets
            gram += part * of_pairs
            cross += part * of_columns
    np.fill_diagonal(gram, 1.0)
    y_variance = float((share * (equations.y_variance + (equations.y_mean - y_mean) ** 2)).sum())
    return NormalEquations(*of_one(equations.total.sum(), y_mean, y_variance, mean, scale, cross, gram))


def _mean_and_scale(fitted: NormalEquations | MaximumLikelihood) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations over all rows."""
    share = (fitted.total / fitted.total.sum())[:, None]
    mean = (share * fitted.mean).sum(axis=0)
    variance = (share * (fitted.scale**2 + (fitted.mean - mean) ** 2)).sum(axis=0)
    return mean, np.sqrt(variance)


class NewtonStep(NamedTuple):
    """A step of Newton's method.

    Attributes
    ----------
    end : Average
    step : ndarray
        Step in the intercept and in the coefficients of standardised columns, per class; laid out like the gradient.
    rise : float
        Derivative of the summed loss along the step, at its start; below 0.
    length : float
        Largest change of a row's linear predictor if each column is one standard deviation from its mean.
    """

    end: Average
    step: np.ndarray
    rise: float
    length: float


def newton_step(start: Average, of_subsets: Derivatives, total: float) -> NewtonStep | None:
    """Take one Newton step on all rows; return None if it is too long to be trusted.

    Parameters
    ----------
    start : Average
    of_subsets : Derivatives
        At `start`, in columns centred and scaled by its `mean` and `scale`.
    total : float
        Sum of the weights.
    """
    gradient, hessian = of_subsets.gradient.sum(axis=0), of_subsets.hessian.sum(axis=0)
    size = np.sqrt(np.diag(hessian))
    if not (size > 0.0).all():
        return None
    scaled = hessian / size / size[:, None]
    np.fill_diagonal(scaled, 1.0)
    solution = np.empty((1, len(size)))
    if solve_each(scaled[None], np.ones(solution.shape, dtype=bool), -(gradient / size)[None], solution)[0]:
        solution[0] = minimum_norm(scaled, -gradient / size)
    step = solution[0] / size
    rise = float((gradient * step).sum())
    if not np.isfinite(step).all() or 0.5 * abs(rise) > LONG_STEP * total:
        return None
    found = step
    if start.coef.ndim > 1:
        step = centred(step.reshape(len(start.coef) - 1, -1))
    coef = start.coef + step[..., 1:] / start.scale
    intercept = start.centred_intercept + step[..., 0] - (start.mean * coef).sum(axis=-1)
    end = Average(coef, intercept, start.mean, start.scale)
    return NewtonStep(end, found, rise, float(np.abs(step).sum(axis=-1).max()))
