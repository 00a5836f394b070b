"""The refit that is asked for: of the selected features alone, by ordinary least squares, a ridge or an elastic net."""

from __future__ import annotations

import math
from copy import copy
from typing import Any, Self

import numpy as np

from daskfs.errors import Caution, ConfigError, SelectionWarning, warn
from daskfs.feature_maps.base import MadeMatrix
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.matrix.base import Matrix
from daskfs.matrix.buffers import DEFAULT_BLOCK_NBYTES
from daskfs.result import coefficient_norm
from daskfs.selectors.inputs import columns_of
from daskfs.selectors.resulting import Results
from daskfs.selectors.shared.budget import Budget, DataShape, Limits
from daskfs.selectors.shared.refit import ClassFits, fit_each_class
from daskfs.selectors.shared.run import Run

INCLUDED = "always_include"
PENALTIES: dict[str, dict[str, Any]] = {
    "ols": {"ridge": 0.0},
    "ridge": {"ridge": None},
    "elastic": {"ridge": None, "has_l1": True},
}
"""How the penalty of a refit is chosen, for `fit_each_class`: none, from the data, or beside it one of the sizes."""


class Refits(Results):
    """Takes the coefficients of a refit, where one is asked for, in the place of the method's own."""

    refit: Any

    @property
    def n_included(self) -> int:
        """How many columns are named that are always included."""
        asked = getattr(self, INCLUDED) if INCLUDED in self._parameter_owners else None
        return 0 if asked is None else int(np.asarray(asked, dtype=object).size)

    def included_columns(self, matrix: Matrix) -> np.ndarray:
        """Return the columns of a matrix that are always included, with their groups: no refit penalizes them."""
        if not self.n_included:
            return np.empty(0, np.int64)
        columns = columns_of(getattr(self, INCLUDED), matrix.shape[1], matrix.names, INCLUDED)
        groups = self._groups_of(matrix)
        if groups is None:
            return columns
        held = [groups[g] for g in range(groups.n_groups) if np.isin(groups[g], columns).any()]
        return np.unique(np.concatenate(held))

    def _groups_of(self, matrix: Matrix) -> FeatureGroups | None:
        """Return the groups of a matrix's columns; None where each column is selected alone."""
        return None

    @property
    def _refits(self) -> bool:
        """Whether the coefficients are to be those of a refit that all selectors have."""
        return self.refit in PENALTIES

    def _refuse_refit(self, where: str) -> None:
        """Refuse a refit where rows or columns come once."""
        if self._refits:
            problem = f"{self.refit!r} reads the selected columns of all rows again, {where} once"
            raise ConfigError(problem, "refit", "leave it out, or use fit")

    def with_refit(self, run: Run, by: str, ridge: float | None = None) -> tuple[Self, ClassFits]:
        """Return this fitted selector with another fit of its selected features, and that fit.

        Parameters
        ----------
        run : Run
            Over the rows that it was fitted to.
        by : {"ols", "ridge", "elastic"}
        ridge : float, optional
            By default as `by` says.
        """
        fitted, columns, made = copy(self), self.selected_, self.made_
        if made is not None:
            run, columns = run.over(MadeMatrix(run.matrix, made)), np.argsort(np.argsort(columns))
        penalty = PENALTIES[by] if ridge is None else PENALTIES[by] | {"ridge": ridge}
        if made is None:
            penalty = penalty | {"free": self.included_columns(run.matrix)}
        found = fit_each_class(run, columns, self.loss_, classes=getattr(self, "classes_", None), **penalty)
        coef = found.coef
        if made is None:
            coef = np.zeros((*found.coef.shape[:-1], self._n_columns))
            coef[..., columns] = found.coef
        fitted.loss_, fitted.coef_, fitted.intercept_ = found.loss, coef, found.intercept
        return fitted, found

    def _take_refit(self, run: Run) -> None:
        """Take the coefficients of the refit, if one is asked for; the result keeps the method's own beside them."""
        if not self._refits or not len(self.selected_):
            return
        fitted, found = self.with_refit(run, self.refit)
        self.loss_, self.coef_, self.intercept_ = fitted.loss_, fitted.coef_, fitted.intercept_
        if self.is_silent:
            return
        table, result = self.result_.table, self.result_
        table["own_coef"] = table["coef"]
        table["coef"] = coefficient_norm(found.coef) if found.coef.ndim > 1 else found.coef
        result.intercept = float(found.intercept) if np.ndim(found.intercept) == 0 else math.nan
        result.time["refit"] = result.time.get("refit", 0.0) + run.seconds.get("refit", 0.0)
        for note in (notes := refit_notes(self.refit, found)):
            if isinstance(note, Caution):
                warn(f"{type(self).__name__}: {note}", SelectionWarning)
        result.notes += notes
        result.parameters["refit"] = self.refit
        errors = [name for name in ("std_error", "lower", "upper") if name in table]
        if errors:
            result.notes.append(f"{', '.join(errors)}: of the method's own coefficients, own_coef")

    def _budget_of_refit(self, n_columns: int, shape: DataShape, limits: Limits) -> Budget:
        """Return what the client holds of a refit of so many features."""
        n_columns = min(n_columns, shape.n_features)
        room = DEFAULT_BLOCK_NBYTES if limits.task_nbytes is None else limits.task_nbytes // 2
        kept = min(shape.n_samples * n_columns * shape.itemsize, room, DEFAULT_BLOCK_NBYTES)
        return Budget({"selected columns": kept, "products of selected columns": 5 * 8 * n_columns**2})


def refit_notes(by: str, found: ClassFits, column: str = "coef") -> list[str]:
    """Return in words what the refit in a column of the table was, and what is wrong with it."""
    ridges = ", ".join(f"{fit.ridge:.3g}" for fit in found.fits)
    said = {"ols": "without a penalty", "ridge": f"with a ridge of {ridges}"}
    if by == "elastic":
        sizes = ", ".join(f"{fit.l1:.3g}" for fit in found.fits)
        n_zero = int((np.atleast_2d(found.coef) == 0.0).all(axis=0).sum())
        said[by] = f"with a ridge of {ridges} and an l1 penalty, of least loss on rows held out, of "
        said[by] += f"{sizes}; {n_zero:,} of {found.coef.shape[-1]:,} coefficients are 0"
    notes = [f"refit ({by}): {column} is of the {found.loss} loss on the selected features alone, {said[by]}"]
    if found.is_separable:
        notes.append(Caution("refit: the classes are linearly separable; a weak ridge bounds the coefficients"))
    n_dependent = max(fit.n_dependent for fit in found.fits)
    if n_dependent:
        notes.append(f"refit: {n_dependent:,} selected column(s) depend on others")
    return notes
