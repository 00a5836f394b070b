"""What a fit selected, and the result that is made of it; the record of a refit that replaces the coefficients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from daskfs.errors import Caution
from daskfs.feature_maps.base import MadeFeatures
from daskfs.matrix.buffers import DEFAULT_BLOCK_NBYTES
from daskfs.result import SelectionResult
from daskfs.selected_table import annotated, coefficient_norm, selection_table
from daskfs.selectors.shared.budget import Budget, DataShape, Limits
from daskfs.selectors.shared.class_blocks import order_of_hessian
from daskfs.selectors.shared.refit_of_classes import ClassFits
from daskfs.selectors.shared.run import Run

NORMS = "coefficients in the table are norms over the classes; coef_ has those of each class"
PENALTIES: dict[str, dict[str, Any]] = {
    "ols": {"ridge": 0.0},
    "ridge": {"ridge": None},
    "elastic": {"ridge": None, "has_l1": True},
}
"""Penalty of each refit, for `fit_each_class`: none, a ridge chosen from the data, or this and an l1 penalty."""


class Selection(NamedTuple):
    """The attributes of a selector that say what its fit selected, with the names that they have there."""

    selected_: np.ndarray
    """Columns of X, by score; or with `made_` the numbers of these features."""
    support_: np.ndarray
    """Which columns are selected, or are parents of selected features; bool."""
    coef_: np.ndarray
    """Coefficients of all columns, or with `made_` of the selected features; with several classes a row for each."""
    intercept_: Any
    scores_: np.ndarray
    """Scores of all columns, or with `made_` of the selected features."""
    made_: MadeFeatures | None
    """The selected features, by number, if a map makes them."""

    @classmethod
    def of(
        cls, n_columns: int, columns: np.ndarray, scores: np.ndarray, coef: np.ndarray, intercept: Any, others: float
    ) -> Self:
        """Return the selection of some of `n_columns` columns; see `BaseSelector._set_selection`."""
        support, all_scores = np.zeros(n_columns, dtype=bool), np.full(n_columns, others)
        all_coef = np.zeros((*coef.shape[:-1], n_columns))
        support[columns], all_scores[columns], all_coef[..., columns] = True, scores, coef
        selected = columns[np.lexsort((columns, -scores))]
        intercept = intercept if np.ndim(intercept) else float(intercept)
        return cls(selected, support, all_coef, intercept, all_scores, None)

    @classmethod
    def of_made(cls, n_columns: int, made: MadeFeatures, scores: np.ndarray, coef: np.ndarray, intercept: Any) -> Self:
        """Return the selection of features of a map of `n_columns` columns, ascending in `made`."""
        order, support = np.lexsort((made.columns, -scores)), np.zeros(n_columns, dtype=bool)
        support[made.parents] = True
        intercept = intercept if np.ndim(intercept) else float(intercept)
        return cls(made.columns[order], support, coef[..., order], intercept, scores[order], made)


def result_of(
    run: Run,
    selection: Selection,
    parameters: Mapping[str, Any],
    *,
    method: str,
    score_kind: str,
    history_kind: str,
    notes: Sequence[str],
    history: Mapping[str, np.ndarray] | None = None,
    chosen: Mapping[str, Any] | None = None,
    coef: np.ndarray | None = None,
    columns: Mapping[str, Any] | None = None,
    memory: Mapping[str, Mapping[str, int]] | None = None,
    n_samples: int | None = None,
    scores: np.ndarray | None = None,
    names: Any = None,
) -> SelectionResult:
    """Return the result of a fit.

    Parameters
    ----------
    run : Run
        With the matrix that was selected on, and the costs.
    selection : Selection
    parameters, method, score_kind, history_kind, notes : as in `SelectionResult`
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
    """
    from pandas import DataFrame

    matrix, intercept, made = run.matrix, selection.intercept_, selection.made_
    of_selected: Any = slice(None) if made is not None else selection.selected_
    if coef is None:
        coef = selection.coef_[..., of_selected]
        coef = coefficient_norm(coef) if coef.ndim > 1 else coef
    scores = selection.scores_[of_selected] if scores is None else scores
    table = selection_table(selection.selected_, coef, scores, matrix.names if names is None else names)
    for name, column in (columns or {}).items():
        table[name] = column
    if made is None:
        table = annotated(table, matrix.annotations(np.asarray(selection.selected_, dtype=np.int64)))
    limit = {} if run.task_limit is None else {"limit_nbytes": {"task": run.task_limit}}
    of_columns = matrix.names
    return SelectionResult(
        method=method,
        score_kind=score_kind,
        history_kind=history_kind,
        table=table,
        intercept=intercept if np.ndim(intercept) == 0 else math.nan,
        parameters={**parameters, **(chosen or {})},
        n_samples=int(matrix.shape[0]) if n_samples is None else n_samples,
        n_features=int(matrix.shape[1]),
        history=DataFrame(history or {}),
        scores=selection.scores_ if made is None and len(selection.scores_) == matrix.shape[1] else None,
        feature_names=of_columns.given if of_columns.given is not None or not of_columns.are_given else of_columns,
        store_digest=matrix.identity,
        memory={**limit, **(memory or {})},
        communication=run.nbytes,
        time=run.seconds,
        notes=list(notes),
    )


def note_refit(result: SelectionResult, by: str, found: ClassFits, seconds: float) -> list[str]:
    """Replace the coefficients of a result by those of a refit, and keep the method's own; return the refit's notes."""
    table = result.table
    table["own_coef"] = table["coef"]
    table["coef"] = coefficient_norm(found.coef) if found.coef.ndim > 1 else found.coef
    result.intercept = float(found.intercept) if np.ndim(found.intercept) == 0 else math.nan
    result.time["refit"] = result.time.get("refit", 0.0) + seconds
    result.notes += (notes := refit_notes(by, found))
    result.parameters["refit"] = by
    errors = [name for name in ("std_error", "lower", "upper") if name in table]
    if errors:
        result.notes.append(f"{', '.join(errors)}: for the method's own coefficients (own_coef)")
    return notes


def refit_budget(n_columns: int, shape: DataShape, limits: Limits) -> Budget:
    """Return the client's memory for a refit of this many features."""
    n_columns = min(n_columns, shape.n_features)
    room = DEFAULT_BLOCK_NBYTES if limits.task_nbytes is None else limits.task_nbytes // 2
    kept = min(shape.n_samples * n_columns * shape.itemsize, room, DEFAULT_BLOCK_NBYTES)
    return Budget(
        {
            "selected columns": kept,
            "products of selected columns": 5 * 8 * order_of_hessian(n_columns, shape.n_classes) ** 2,
        }
    )


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
