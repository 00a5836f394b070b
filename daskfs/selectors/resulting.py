"""The result of a fit, its warnings, and the refit that replaces the coefficients.

A refit uses only the selected features, with ordinary least squares, a ridge or an elastic net.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from daskfs.errors import Caution, SelectionWarning, Suspicion, warn
from daskfs.feature_maps.base import MadeMatrix
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.matrix.base import Matrix
from daskfs.matrix.buffers import DEFAULT_BLOCK_NBYTES
from daskfs.result import SelectionResult, annotated, coefficient_norm, selection_table
from daskfs.selectors.inputs import columns_of
from daskfs.selectors.predicting import Predicts
from daskfs.selectors.shared.budget import Budget, DataShape, Limits
from daskfs.selectors.shared.refit import ClassFits, fit_each_class
from daskfs.selectors.shared.remarks import remarks_on
from daskfs.selectors.shared.run import Run

SILENT: Any = None
"""Stands in for the result when a fit is one of many."""
NORMS = "coefficients in the table are norms over the classes; coef_ has those of each class"

INCLUDED = "always_include"
PENALTIES: dict[str, dict[str, Any]] = {
    "ols": {"ridge": 0.0},
    "ridge": {"ridge": None},
    "elastic": {"ridge": None, "has_l1": True},
}
"""Penalty of each refit, for `fit_each_class`: none, a ridge chosen from the data, or this and an l1 penalty."""


class Results(Predicts):
    """Makes the result of a fit, and runs the requested refit."""

    refit: Any

    is_silent: ClassVar[bool] = False
    """Whether this fit is one of many, and so makes no result and no warnings."""

    def _result_of(
        self,
        run: Run,
        *,
        notes: Sequence[str],
        history: Mapping[str, np.ndarray] | None = None,
        chosen: Mapping[str, Any] | None = None,
        coef: np.ndarray | None = None,
        columns: Mapping[str, Any] | None = None,
        memory: Mapping[str, Mapping[str, int]] | None = None,
        n_samples: int | None = None,
        scores: np.ndarray | None = None,
        names: Any = None,
        history_kind: str = "",
    ) -> SelectionResult:
        """Return the result of a fit whose attributes are set, and emit its warnings.

        Parameters
        ----------
        run : Run
            With the matrix that was selected on, and the costs.
        notes : sequence of str
            Those that are a `Caution` become warnings. A note is added if too few features were selected.
        history : mapping of str to ndarray, optional
            Columns of the history.
        chosen : mapping, optional
            Values of parameters that the method chose.
        coef : ndarray of shape (n_selected,), optional
            Coefficients in the table; by default `coef_`, or with several classes the norms.
        columns : mapping of str to ndarray or Series of shape (n_selected,), optional
            Further columns of the table.
        memory : mapping, optional
            ``promised_nbytes`` and ``held_nbytes``, see `SelectionResult`.
        n_samples : int, optional
            Number of rows, if there were more than those of the matrix.
        scores : ndarray of shape (n_selected,), optional
            Scores in the table; by default those of `scores_`.
        names : object, optional
            Item j is the name of feature j, if names differ from the matrix's.
        history_kind : str
            Kind of the history, if it differs from the method's.

        Raises
        ------
        StoreError
            The store was replaced by another one during the fit.
        """
        run.matrix.verify_unchanged()
        if self.is_silent:
            return SILENT
        from pandas import DataFrame

        of_columns, intercept = run.matrix.names, self.intercept_
        if coef is None:
            coef = self.coef_ if self.made_ is not None else self.coef_[..., self.selected_]
            if coef.ndim > 1:
                coef = coefficient_norm(coef)
                notes = [*notes, NORMS]
        if self.groups_are_cut_by and run.matrix.rows_together is not None:
            suspicion = Suspicion(f"{self.groups_are_cut_by} do not keep the split's groups of rows together")
            notes = [*(note for note in notes if note != suspicion), suspicion]
        has_all_rows = n_samples in (
            None,
            run.matrix.shape[0],
        )  # what is constant in some rows may vary in earlier ones
        notes = [
            *self._shortfall(),
            *self._table_notes,
            *notes,
            *(remarks_on(run.matrix, self.selected_) if self.made_ is None and has_all_rows else ()),
            *filter(None, [self._loss_note]),
        ]
        for note in notes:
            if isinstance(note, Caution):
                warn(f"{type(self).__name__}: {note}", SelectionWarning)
        if scores is None:
            scores = self.scores_ if self.made_ is not None else self.scores_[self.selected_]
        table = selection_table(self.selected_, coef, scores, run.matrix.names if names is None else names)
        for name, column in (columns or {}).items():
            table[name] = column
        if self.made_ is None:
            table = annotated(table, run.matrix.annotations(np.asarray(self.selected_, dtype=np.int64)))
        parameters = {**self.resolved_parameters(), **(chosen or {})}
        limit = {} if run.task_limit is None else {"limit_nbytes": {"task": run.task_limit}}
        return SelectionResult(
            method=self.method,
            score_kind=self.score_kind,
            history_kind=history_kind or self.history_kind,
            table=table,
            intercept=intercept if np.ndim(intercept) == 0 else math.nan,
            parameters=parameters,
            n_samples=int(run.matrix.shape[0]) if n_samples is None else n_samples,
            n_features=int(run.matrix.shape[1]),
            history=DataFrame(history or {}),
            scores=self.scores_ if self.made_ is None and len(self.scores_) == run.matrix.shape[1] else None,
            feature_names=of_columns.given if of_columns.given is not None or not of_columns.are_given else of_columns,
            store_digest=run.matrix.identity,
            memory={**limit, **(memory or {})},
            communication=run.nbytes,
            time=run.seconds,
            notes=list(notes),
        )

    def resolved_parameters(self) -> dict[str, Any]:
        """Return the parameters for a result: with the loss of the fit, without settings for where it runs."""
        found = {name: getattr(self, name) for name in sorted(self._parameter_owners)}
        if "loss" in found:
            found["loss"] = self.loss_
        return {name: value for name, value in found.items() if name not in ("client", "verbose", "schema")}

    @property
    def _n_asked(self) -> int | None:
        """Requested number of features; None if the method decides."""
        asked = getattr(self, "n_features_to_select", None)
        return asked if isinstance(asked, int) else None

    def _shortfall(self) -> list[str]:
        n_selected, asked = len(self.selected_), self._n_asked
        if not n_selected:
            return [Caution("no feature was selected")]
        if isinstance(asked, int) and n_selected < asked:
            return [Caution(f"{n_selected:,} of the {asked:,} features asked for were selected")]
        return []

    @property
    def n_included(self) -> int:
        """Number of columns that are given as always included."""
        asked = getattr(self, INCLUDED) if INCLUDED in self._parameter_owners else None
        return 0 if asked is None else int(np.asarray(asked, dtype=object).size)

    def included_columns(self, matrix: Matrix) -> np.ndarray:
        """Return the columns that are always included, with their groups; no refit penalises them."""
        if not self.n_included:
            return np.empty(0, np.int64)
        columns = columns_of(getattr(self, INCLUDED), matrix.shape[1], matrix.names, INCLUDED)
        groups = self._groups_of(matrix)
        if groups is None:
            return columns
        held = [groups[g] for g in range(groups.n_groups) if np.isin(groups[g], columns).any()]
        return np.unique(np.concatenate(held))

    def _groups_of(self, matrix: Matrix) -> FeatureGroups | None:
        """Return the groups of a matrix's columns; None without groups."""
        return None

    @property
    def _refits(self) -> bool:
        """Whether one of the refits that all selectors support was requested."""
        return self.refit in PENALTIES

    def with_refit(self, run: Run, by: str, ridge: float | None = None) -> tuple[Self, ClassFits]:
        """Return this fitted selector with a refit of its selected features, and that fit.

        Parameters
        ----------
        run : Run
            Over the rows of the fit.
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
        """Replace the coefficients by those of the requested refit; the result keeps the method's own as well."""
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
            result.notes.append(f"{', '.join(errors)}: for the method's own coefficients (own_coef)")


def refit_budget(n_columns: int, shape: DataShape, limits: Limits) -> Budget:
    """Return the client's memory for a refit of this many features."""
    n_columns = min(n_columns, shape.n_features)
    room = DEFAULT_BLOCK_NBYTES if limits.task_nbytes is None else limits.task_nbytes // 2
    kept = min(shape.n_samples * n_columns * shape.itemsize, room, DEFAULT_BLOCK_NBYTES)
    return Budget({"selected columns": kept, "products of selected columns": 5 * 8 * n_columns**2})


def refit_notes(by: str, found: ClassFits, column: str = "coef") -> list[str]:
    """Return notes that describe the refit in a column of the table, and its problems."""
    ridges = ", ".join(f"{fit.ridge:.3g}" for fit in found.fits)
    said = {"ols": "without a penalty", "ridge": f"with a ridge of {ridges}"}
    if by == "elastic":
        sizes = ", ".join(f"{fit.l1:.3g}" for fit in found.fits)
        n_zero = int((np.atleast_2d(found.coef) == 0.0).all(axis=0).sum())
        said[by] = f"with a ridge of {ridges} and an l1 penalty of {sizes}, chosen by the held-out loss; "
        said[by] += f"{n_zero:,} of {found.coef.shape[-1]:,} coefficients are 0"
    notes = [f"refit ({by}): {column} is a fit of the {found.loss} loss on the selected features only, {said[by]}"]
    if found.is_separable:
        notes.append(Caution("refit: the classes are linearly separable; a weak ridge bounds the coefficients"))
    n_dependent = max(fit.n_dependent for fit in found.fits)
    if n_dependent:
        notes.append(f"refit: {n_dependent:,} selected column(s) are linear combinations of others")
    return notes
