"""The result of a fit, and what its user must be told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from daskfs.errors import Caution, SelectionWarning, Suspicion, warn
from daskfs.result import SelectionResult, annotated, coefficient_norm, selection_table
from daskfs.selectors.settling import SettlesLoss
from daskfs.selectors.shared.remarks import remarks_on
from daskfs.selectors.shared.run import Run

SILENT: Any = None
"""In the place of the result of one of many fits."""
NORMS = "the table's coefficients are their norms over the classes; coef_ has those of each class"


class Results(SettlesLoss):
    """Makes the result of a fit."""

    is_silent: ClassVar[bool] = False
    """Whether this is one of many fits, which make no result and warn of nothing."""

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
        """Return the result of a fit whose attributes are set, and warn of what its user must see.

        Parameters
        ----------
        run : Run
            With the matrix that was selected on, and what it took.
        notes : sequence of str
            Those that are a `Caution` become warnings; that too little was selected is added here.
        history : mapping of str to ndarray, optional
            Its columns.
        chosen : mapping, optional
            Parameters that the method chose.
        coef : ndarray of shape (n_selected,), optional
            Coefficients in the table; by default `coef_`, for several classes the norms.
        columns : mapping of str to ndarray or Series of shape (n_selected,), optional
            Further columns of the table.
        memory : mapping, optional
            ``promised_nbytes`` and ``held_nbytes``, see `SelectionResult`.
        n_samples : int, optional
            Where there were more rows than those of the matrix.
        scores : ndarray of shape (n_selected,), optional
            Scores in the table; by default those of `scores_`.
        names : object, optional
            Whose item j is the name of feature j, where they are not the matrix's.
        history_kind : str
            Where it is another than the method's.

        Raises
        ------
        StoreError
            Another store has taken the place of the one that was read.
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
            told = Suspicion(f"{self.groups_are_cut_by} do not keep the split's groups of rows whole")
            notes = [*(note for note in notes if note != told), told]
        notes = [
            *self._shortfall(),
            *self._table_notes,
            *notes,
            *(remarks_on(run.matrix, self.selected_) if self.made_ is None else ()),
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
        """Return the parameters as a result has them: with the loss of the fit, without where it runs."""
        found = {name: getattr(self, name) for name in sorted(self._parameter_owners)}
        if "loss" in found:
            found["loss"] = self.loss_
        return {name: value for name, value in found.items() if name not in ("client", "verbose", "schema")}

    @property
    def _n_asked(self) -> int | None:
        """How many features were asked for; None where the method decides."""
        asked = getattr(self, "n_features_to_select", None)
        return asked if isinstance(asked, int) else None

    def _shortfall(self) -> list[str]:
        n_selected, asked = len(self.selected_), self._n_asked
        if not n_selected:
            return [Caution("no feature was selected")]
        if isinstance(asked, int) and n_selected < asked:
            return [Caution(f"{n_selected:,} of the {asked:,} features asked for were selected")]
        return []
