"""What MISSION makes of a model that has learnt: selection, coefficients, table and notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from daskfs.errors import Caution
from daskfs.selectors.mission.capacity import check_capacity, check_noise
from daskfs.selectors.mission.configuration import DEFAULT_N_SELECTED
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import HISTORY, MissionFit
from daskfs.selectors.mission.model import norms
from daskfs.selectors.mission.refit import Refit
from daskfs.selectors.resulting import Selection

NO_REFIT = "rows are used once and not kept: the coefficients are those of stochastic descent, without a refit"


def results_of(
    fit: MissionFit, refit: Refit | None, names: FeatureNames | None, notes: Sequence[str]
) -> tuple[Selection, dict[str, Any]]:
    """Return the selection, with coefficients on the scale of the data, and the arguments of `resulting.result_of`.

    Parameters
    ----------
    fit : MissionFit
    refit : Refit or None
    names : FeatureNames or None
        Names of features that the matrix does not have.
    notes : sequence of str
        Earlier notes.
    """
    notes = [*notes, *_notes_on_survey(fit), *_notes_on_noise(fit), *([NO_REFIT] if fit.config.is_stream else [])]
    fit, config = fit.selected(), fit.config
    keys, sizes, order = fit.state.keys, norms(fit.state.weights).astype(np.float64), fit.by_rank()
    coef, intercept = fit.on_scale_of_data() if refit is None else (refit.coef, refit.intercept)
    is_one = coef.shape[1] == 1
    coef, intercept = (coef[:, 0], intercept[0]) if is_one else (coef.T, np.array(intercept, dtype=np.float64))
    if fit.are_ids:  # only for selected ids, in this order
        selection = Selection.of(len(keys), np.argsort(order), sizes, coef, intercept, 0.0)
    else:
        selection = Selection.of(config.data.n_features, keys.astype(np.int64), sizes, coef, intercept, 0.0)
    selected = keys[order] if fit.are_ids else keys[order].astype(np.int64)

    history = fit.history if refit is None else refit.history
    lines = dict(zip(HISTORY, np.array(history.lines, dtype=np.float64).reshape(-1, len(HISTORY)).T, strict=True))
    lines |= {name: lines[name].astype(np.int64) for name in ("pass", "rows_seen", "n_active")}
    if history.progressive:
        so_far = [history.progressive.get(n_rows, np.nan) for n_rows in lines["rows_seen"].tolist()]
        lines["progressive_loss"] = np.array(so_far)
    table_coef, more_columns = _table(fit, refit)
    on_names = [] if names is None else names.notes(selected)
    return selection._replace(selected_=selected), {
        "notes": [*notes, *(refit.notes if refit else []), *_notes_on_selection(fit), *on_names],
        "history": lines,
        "chosen": {
            "n_features_to_select": config.n_selected,
            "n_candidates": config.model.n_selected if config.has_choice else None,
            "n_buckets": config.model.n_buckets,
            "learning_rate": config.rate,
            "refit": None if refit is None else config.refit,
        },
        "coef": table_coef,
        "columns": more_columns,
        "scores": sizes[order],
        "names": names,
        "memory": {"held_nbytes": {"model": config.model.nbytes}},
        "n_samples": fit.n_samples,
    }


def _table(fit: MissionFit, refit: Refit | None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the coefficients of the selected features, most important first, and further columns of the table."""
    model = fit.state
    order = fit.by_rank()
    weights = fit.on_scale_of_data()[0][order]
    leading = np.argmax(np.abs(weights), axis=1)  # the class with the largest weight
    place = (np.arange(len(order)), leading)
    deviation = np.full(len(order), np.nan) if refit is None else refit.deviation[order]
    columns = {
        "weight": weights[place],
        "touches": model.touches[order],
        "deviation": deviation,
        "weight_x_deviation": np.abs(weights[place]) * deviation,
    }
    if weights.shape[1] > 1:
        columns["class"] = leading
    return (weights if refit is None else refit.coef[order])[place], columns


def _notes_on_survey(fit: MissionFit) -> list[str]:
    """Return notes on the survey of the first rows."""
    config, model, survey, notes = fit.config, fit.config.model, fit.config.survey, list[str]()
    if model.n_hashes and not model.forgets and model.variant != "hashing":
        sizes = (model.n_selected, survey.n_ids, model.n_buckets, model.n_hashes)
        notes.append(check_capacity(*sizes, model.variant, survey.nnz_per_row).text)
    if config.learning_rate is None and model.is_in_sketch and math.isinf(config.step_limit):
        notes.append(f"learning rate {config.rate:.4g} (constant), as in the paper")
    elif config.learning_rate is None:
        notes.append(f"learning rate {config.rate:.4g}, from a mean ‖x‖² of {survey.squared_norm:.4g}")
    n_selected, data = config.n_selected, config.data
    if n_selected == data.n_features:
        notes.append("as many features are requested as there are: nothing is left out")
    elif config.n_features_to_select is None and not config.is_stream and n_selected < DEFAULT_N_SELECTED:
        notes.append(f"{n_selected:,} features by default: half the number of rows")
    elif n_selected >= data.n_samples and not config.is_stream:
        notes.append(
            Caution(f"{n_selected:,} features for {data.n_samples:,} rows: any of them fit the target by chance")
        )
    if config.tail_half_life is None and config.n_epochs > 1:
        notes.append("several passes without tail_half_life: features that are not selected accumulate weight")
    return notes


def _notes_on_noise(fit: MissionFit) -> list[str]:
    """Return a note on whether the sketch was large enough."""
    model, threshold = fit.config.model, float(fit.state.thresholds.min())
    if not (threshold > 0.0 and model.n_hashes and model.variant == "active"):
        return []
    tail_norm, n_ids = fit.history.lines[-1].tail_norm, fit.config.survey.n_ids
    return [check_noise(tail_norm, threshold, n_ids, model.n_buckets, model.n_hashes).text]


def _notes_on_selection(fit: MissionFit) -> list[str]:
    """Return notes on how features were selected."""
    config, model, n_selected = fit.config, fit.config.model, len(fit.state.keys)
    if model.variant == "hashing" and not n_selected:
        return ["features are 64-bit ids, which are not listed: rows are predicted from their shared cells"]
    chosen = "weight" if model.n_outputs == 1 else "norm of the weights over the classes"
    if model.n_outputs > 1 and model.is_by_class:
        chosen = f"weight for a class, up to {model.n_selected:,} for each,"
    notes = [f"selected: the {n_selected:,} features of largest {chosen} after {config.n_epochs} pass(es)"]
    if config.has_choice and model.n_selected > config.n_selected:
        how = "by forward selection on their second moments"
        notes = [
            f"selected: {n_selected:,} features {how}, out of {model.n_selected:,} of largest {chosen} after "
            f"{config.n_epochs} pass(es)"
        ]
    if model.always:
        notes.append(f"{len(model.always)} of them were always included")
    if model.n_outputs > 1:
        notes.append("coef of a feature is that of the class with its largest weight (column 'class' of selected.csv)")
    if config.n_replicas > 1:
        when = "after each part of the source" if fit.history.progressive else f"every {config.sync_every:,} rows"
        notes.append(f"{config.n_replicas} models were averaged {when}")
    return notes
