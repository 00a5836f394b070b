"""What a user sees of a fit of MISSION: attributes, table, history, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs.result import SelectionResult
from daskfs.selectors.mission.fit import MissionFit, on_scale_of_data
from daskfs.selectors.mission.model import norms
from daskfs.selectors.mission.run import HISTORY
from daskfs.selectors.shared.run import Run

if TYPE_CHECKING:
    from daskfs.selectors.mission.selector import Mission


def set_results(selector: Mission, run: Run, fit: MissionFit) -> None:
    """Set the attributes of a fitted selector.

    Parameters
    ----------
    selector : Mission
    run : Run
    fit : MissionFit
    """
    n_features, n_outputs = int(run.matrix.shape[1]), fit.shape.model.n_outputs
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
    selector.result_ = _result(selector, run, fit, order)


def _result(selector: Mission, run: Run, fit: MissionFit, order: np.ndarray) -> SelectionResult:
    model = fit.shape.model
    coef, columns = _table(fit, order)
    history = np.array(fit.history, dtype=np.float64).reshape(-1, len(HISTORY))
    lines: dict[str, Any] = {name: history[:, i] for i, name in enumerate(HISTORY)}
    for name in ("pass", "rows_seen", "n_active"):
        lines[name] = lines[name].astype(np.int64)
    run.nbytes.update(models=fit.n_returned)
    return selector._result_of(
        run,
        notes=[*fit.notes, *_own_notes(selector, fit)],
        history=lines,
        chosen={
            "n_features_to_select": model.n_selected,
            "n_buckets": model.n_buckets,
            "learning_rate": fit.learning.rate,
            "refit": fit.shape.refit if fit.coef is not None else None,
        },
        coef=coef,
        columns=columns,
        memory={"held_nbytes": {"model": model.nbytes}},
        n_samples=fit.n_samples,
    )


def _table(fit: MissionFit, order: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the coefficients of the selected features, and what else speaks for them."""
    weights = on_scale_of_data(fit, fit.arrays["weights"], fit.arrays["intercept"])[0][order]
    rows = np.arange(len(order))
    leading = np.argmax(np.abs(weights), axis=1)  # the class that a feature says most of
    coef = (weights if fit.coef is None else fit.coef[order])[rows, leading]
    deviation = np.full(len(order), np.nan) if fit.deviation is None else fit.deviation[order]
    columns = {
        "weight": weights[rows, leading],
        "touches": fit.arrays["touches"][order],
        "deviation": deviation,
        "weight_x_deviation": np.abs(weights[rows, leading]) * deviation,
    }
    if weights.shape[1] > 1:
        columns["class"] = leading
    return coef, columns


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
