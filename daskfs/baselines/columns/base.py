"""What the competitors of online substitution share: s columns out of a matrix, chosen their way, refitted one way.

All see the columns centred and of unit variance, with an intercept that no constraint touches, and refit the columns
they selected on all rows: least squares with the squared loss, the minimum of the loss with the others.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from daskfs.baselines.columns.standard_columns import CACHE_NBYTES, StandardColumns, blocks_nbytes
from daskfs.kernels.glm.newton import Predictions, Problem, advance, new_predictions
from daskfs.kernels.glm.null_model import fit_null_model
from daskfs.losses import AT_ONCE, BOUNDED_CURVATURE, find_loss
from daskfs.parameters import Count, LossOf, n_to_select
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Checkpoint, Run
from daskfs.selectors.shared.targets import checked_target, classes_of

MOST_BY_DEFAULT = 100
RIDGE_SHARE = 0.03  # of the bound of the curvature: labels that a hundred columns can tell apart leave no gradient
TOLERANCE = 1e-9
REFIT_NBYTES = 128 << 20  # of selected columns that the refit keeps
REFIT_BLOCKS_NBYTES = 24 << 20
KEPT_COLUMNS = "standardised columns, kept"


class Selection(NamedTuple):
    """What a method chose."""

    features: np.ndarray
    """Column numbers, int64."""
    history: dict[str, np.ndarray]
    """Arrays of one length: what the method did on its way."""


class ColumnBaseline(BaseSelector):
    """Base of the competitors that select a number of columns; each defines `_select` and what it holds.

    Parameters
    ----------
    n_features_to_select : int, optional
        The paper's s; by default half of the features and at most 100.
    loss : {"squared", "logistic", "squared_hinge"}
        Of numbers, or of two classes.
    random_state : int, RandomState or None
        Nothing is drawn; for the common face of all selectors.
    memory_limit : int or str, optional
        What the fit may take beside the process, "1GiB" for example; refused where it does not suffice.
    client : distributed.Client, optional
        For the common face of all selectors: the method is sequential and runs here.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, by the size of their standardised coefficients in the refit.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,)
        Of the refit, on the scale of the data.
    intercept_ : float
    scores_ : ndarray of shape (n_features,)
        Size of the standardised coefficient.
    result_ : SelectionResult
    """

    keeps_columns: ClassVar[bool] = False
    """Whether the standardised columns stay in memory between passes, where they fit."""

    score_kind = "standardised coefficient"

    n_features_to_select: Count | None = None
    loss: Annotated[str, LossOf(BOUNDED_CURVATURE, AT_ONCE, among=("squared", "logistic", "squared_hinge"))] = "squared"

    @abstractmethod
    def _select(
        self, columns: StandardColumns, problem: Problem, total: float, n_select: int, notes: list[str]
    ) -> Selection:
        """Choose up to `n_select` columns; `total` is the sum of the weights."""

    @abstractmethod
    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        """Return the memory in bytes of what the method holds beside the blocks."""

    @abstractmethod
    def _planned_passes(self, n_features: int, n_select: int) -> tuple[int, str]:
        """Return how often all columns are read at most, and what there is to say of it."""

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """All of it is held by the client process: these methods are sequential."""
        n_samples, n_features = shape.n_samples, shape.n_features
        n_select = min(self._n_select(n_features), n_features)
        client = self._client(shape, n_select)
        what = f"{self.method} of {n_select:,} out of {n_features:,} columns of {n_samples:,} rows holds"
        client.refuse_over(limits.task_nbytes, what, "select fewer features")
        kept = self._kept_nbytes(n_samples, n_features, client.nbytes, limits.task_nbytes)
        if kept:
            client.add(KEPT_COLUMNS, kept)
        n_passes, text = self._planned_passes(n_features, n_select)
        where = "columns stay in memory after the first" if kept else "columns in blocks"
        return SelectorPlan(
            n_tasks=1,
            n_passes=n_passes,
            read_nbytes=(1 if kept else n_passes) * shape.nbytes,
            task=Budget(),
            client=client,
            text=f"{self.method}: {text}, {where}, in this process",
        )

    def _client(self, shape: DataShape, n_select: int) -> Budget:
        n_samples, n_features, itemsize = shape.n_samples, shape.n_features, shape.itemsize
        kept = 2 * min(REFIT_NBYTES, itemsize * n_samples * n_select)
        return (
            Budget()
            .add("blocks of columns", blocks_nbytes(n_samples, n_features, itemsize))
            .add("what the method holds", self._held_nbytes(n_samples, n_features, n_select))
            .add("refit", kept + 48 * (n_select + 1) ** 2 + REFIT_BLOCKS_NBYTES)
            .add("vectors over the rows", 160 * n_samples)
            .add("vectors over the columns", 80 * n_features)
        )

    def _kept_nbytes(self, n_samples: int, n_features: int, needed: int, memory_limit: int | None) -> int:
        """Return the bytes of the columns that stay in memory: all or none."""
        every = 8 * n_samples * n_features
        room = CACHE_NBYTES if memory_limit is None else min(CACHE_NBYTES, memory_limit - needed)
        return every if self.keeps_columns and every <= room else 0

    def _n_select(self, n_features: int) -> int:
        """Return how many columns to select."""
        if self.n_features_to_select is None:
            return max(1, min(MOST_BY_DEFAULT, n_features // 2))
        return self.n_features_to_select

    def _fit(self, run: Run) -> None:
        matrix, limit, checkpoint = run.matrix, run.task_limit, run.checkpoint
        n_features = int(matrix.shape[1])
        n_select = n_to_select(self._n_select(n_features), n_features, MOST_BY_DEFAULT)
        y = checked_target(matrix, self.loss)
        rows = weighted_rows(matrix)
        keeps = KEPT_COLUMNS in self._plan(DataShape.of(rows), Limits(limit)).client.terms
        problem, total, weight = self._problem(rows, y)
        columns = StandardColumns(rows, problem.y, weight, keep=keeps, progress=run.progress)
        notes: list[str] = []
        with run.timed("select"):
            chosen = self._chosen_before(columns, checkpoint, notes)
            if chosen is None:
                chosen = self._select(columns, problem, total, n_select, notes)
                notes.append(self._why())
                if checkpoint is not None:
                    checkpoint.save(self.method, _to_arrays(chosen, columns, notes))
        if len(chosen.features) < n_select:
            notes.append(f"{len(chosen.features)} of the {n_select} features asked for were found")
        notes += self._refit(run.over(rows), columns, chosen.features)
        notes.append(f"{columns.n_passes} passes over all columns")
        n_wanted = self._n_select(n_features)
        self.result_ = self._result_of(
            run, notes=notes, history=chosen.history, chosen={"n_features_to_select": n_wanted}
        )

    def _problem(self, rows: Any, y: np.ndarray) -> tuple[Problem, float, np.ndarray]:
        """Return what is minimised, the sum of the weights, and the weights."""
        y = np.require(rows.read_target(slice(None)), dtype=np.float64, requirements=["C", "W"])
        weight = rows.read_weight(slice(None))
        weight = np.ones(len(y)) if weight is None else np.require(weight, np.float64, ["C", "W"])
        if find_loss(self.loss).is_classifier:
            self.classes_ = classes_of(y, None)
            y = np.where(y == self.classes_[1], 1.0, -1.0)
        total = float(weight.sum())
        return Problem(find_loss(self.loss).code, 0.0, y, weight / total), total, weight

    def _chosen_before(
        self, columns: StandardColumns, checkpoint: Checkpoint | None, notes: list[str]
    ) -> Selection | None:
        """Return what an interrupted run had chosen already."""
        saved = None if checkpoint is None else checkpoint.load(self.method)
        if saved is None:
            return None
        columns.mean, columns.scale, columns.n_passes = saved["mean"], saved["scale"], int(saved["n_passes"])
        history = {name.removeprefix("history-"): saved[name] for name in saved if name.startswith("history-")}
        notes += bytes(saved["notes"]).decode().split("\n")
        return Selection(saved["features"], history)

    def _refit(self, run: Run, columns: StandardColumns, features: np.ndarray) -> list[str]:
        """Fit the selected columns on all rows; importance is the size of their standardised coefficients."""
        members = np.sort(features)
        positive = float(self.classes_[1]) if find_loss(self.loss).is_classifier else None
        fit = refit_selected(run, members, MeanLoss(self.loss, positive))
        self.coef_, self.scores_ = np.zeros((2, columns.n_features))
        self.support_ = np.zeros(columns.n_features, dtype=bool)
        self.support_[members] = True
        self.coef_[members] = fit.coef
        self.scores_[members] = np.abs(fit.coef) * fit.scale
        self.intercept_ = fit.intercept
        self.selected_ = members[np.lexsort((members, -self.scores_[members]))]
        notes = []
        if fit.n_dependent:
            notes.append(f"{fit.n_dependent} selected columns are combinations of others and have no coefficient")
        if fit.is_separable:
            notes.append("the selected columns separate the classes: their coefficients are held by a small ridge")
        return notes

    @abstractmethod
    def _why(self) -> str:
        """Return by what the selected columns were chosen, for a reader."""


def null_model(problem: Problem) -> tuple[float, Predictions]:
    """Return the intercept of the model without columns, and its predictions with their residuals."""
    at, coef = new_predictions(len(problem.y)), np.zeros(1)
    fit_null_model(problem, coef, at)
    at.z[:] = coef[0]
    none = np.empty((0, len(problem.y)))
    advance(problem, none, np.empty(0, dtype=np.int64), 0, np.zeros(1), 0.0, at, np.zeros(1))
    return float(coef[0]), at


def largest(size: np.ndarray, n_select: int) -> np.ndarray:
    """Return the places of the `n_select` largest positive numbers, the largest first, ties in order."""
    order = np.argsort(-size, kind="stable")[:n_select]
    return order[size[order] > 0.0]


def _to_arrays(chosen: Selection, columns: StandardColumns, notes: list[str]) -> dict[str, np.ndarray]:
    return {
        "features": chosen.features,
        "mean": columns.mean,
        "scale": columns.scale,
        "n_passes": np.array(columns.n_passes),
        "notes": np.frombuffer("\n".join(notes).encode(), dtype=np.uint8),
        **{f"history-{name}": array for name, array in chosen.history.items()},
    }
