"""What a user sees of a fit of MISSION: attributes, table, history, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs.matrix.base import Matrix
from daskfs.result import SelectionResult, selection_table
from daskfs.selectors.mission.fit import MissionFit, on_scale_of_data
from daskfs.selectors.mission.model import norms
from daskfs.selectors.mission.run import HISTORY

if TYPE_CHECKING:
    from daskfs.selectors.mission.selector import Mission


def set_results(selector: Mission, matrix: Matrix, fit: MissionFit) -> None:
    """Set the attributes of a fitted selector.

    Parameters
    ----------
    selector : Mission
    matrix : Matrix
        That names the columns.
    fit : MissionFit
    """
    n_features, n_outputs = int(matrix.shape[1]), fit.shape.model.n_outputs
    keys, weights = fit.arrays["keys"].astype(np.int64), fit.arrays["weights"]
    sizes = norms(weights).astype(np.float64)
    order = np.lexsort((keys, -sizes))
    coef, intercept = on_scale_of_data(fit, weights, fit.arrays["intercept"])
    if fit.coef is not None and fit.intercept is not None:
        coef, intercept = fit.coef, fit.intercept
    selector.selected_ = keys[order]
    selector.support_ = np.zeros(n_features, dtype=bool)
    selector.support_[keys] = True
    selector.scores_ = np.zeros(n_features)
    selector.scores_[keys] = sizes
    if n_outputs == 1:
        selector.coef_ = np.zeros(n_features)
        selector.coef_[keys] = coef[:, 0]
        selector.intercept_ = float(intercept[0])
    else:
        selector.coef_ = np.zeros((n_outputs, n_features))
        selector.coef_[:, keys] = coef.T
        selector.intercept_ = np.array(intercept, dtype=np.float64)
    selector.result_ = _result(selector, matrix, fit, order)


def _result(selector: Mission, matrix: Matrix, fit: MissionFit, order: np.ndarray) -> SelectionResult:
    names, model = matrix.names.given, fit.shape.model
    table = _table(selector, fit, names, order)
    parameters = selector.get_params(deep=False)
    del parameters["client"]
    parameters |= {
        "n_features_to_select": model.n_selected,
        "n_buckets": model.n_buckets,
        "learning_rate": fit.learning.rate,
        "refit": fit.shape.refit if fit.coef is not None else None,
    }
    history = np.array(fit.history, dtype=np.float64).reshape(-1, len(HISTORY))
    columns: dict[str, Any] = {name: history[:, i] for i, name in enumerate(HISTORY)}
    for name in ("pass", "rows_seen", "n_active"):
        columns[name] = columns[name].astype(np.int64)
    limit = {} if selector.memory_limit is None else {"limit_nbytes": {"task": str(selector.memory_limit)}}
    return SelectionResult(
        method=selector.method,
        score_kind=selector.score_kind,
        history_kind=selector.history_kind,
        table=table,
        intercept=selector.intercept_ if model.n_outputs == 1 else float("nan"),
        parameters=parameters,
        n_samples=fit.n_samples,
        n_features=int(matrix.shape[1]),
        history=type(table).from_dict(columns),
        scores=selector.scores_,
        feature_names=names,
        store_digest=matrix.identity,
        memory={**limit, "model_nbytes": model.nbytes},
        communication={"models": fit.n_returned},
        time=fit.seconds,
        notes=[*fit.notes, *_own_notes(selector, fit)],
    )


def _table(selector: Mission, fit: MissionFit, names: np.ndarray | None, order: np.ndarray) -> Any:
    """Return the selected features with what speaks for them."""
    weights = on_scale_of_data(fit, fit.arrays["weights"], fit.arrays["intercept"])[0][order]
    rows = np.arange(len(order))
    leading = np.argmax(np.abs(weights), axis=1)  # the class that a feature says most of
    coef = (weights if fit.coef is None else fit.coef[order])[rows, leading]
    table = selection_table(selector.selected_, coef, selector.scores_[selector.selected_], names)
    table["weight"] = weights[rows, leading]
    table["touches"] = fit.arrays["touches"][order]
    deviation = np.full(len(order), np.nan) if fit.deviation is None else fit.deviation[order]
    table["deviation"] = deviation
    table["weight_x_deviation"] = np.abs(table["weight"]) * deviation
    if weights.shape[1] > 1:
        table["class"] = leading
    return table


def _own_notes(selector: Mission, fit: MissionFit) -> list[str]:
    chosen = "weight" if fit.shape.model.n_outputs == 1 else "norm of the weights over the classes"
    notes = [
        f"selected: the {len(fit.arrays['keys']):,} features of largest {chosen} after {fit.shape.n_epochs} pass(es)"
    ]
    if fit.shape.model.n_outputs > 1:
        notes.append("coef of a feature is that of the class of which it says most (column 'class' of selected.csv)")
    if selector.n_replicas > 1:
        notes.append(f"{selector.n_replicas} models were averaged every {selector.sync_every:,} rows")
    return notes
