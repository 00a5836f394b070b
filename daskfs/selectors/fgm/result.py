"""From the last subproblem of FGM to coefficients on the scale of the data, a refit where asked, and a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daskfs.matrix.base import Matrix
from daskfs.result import SelectionResult, selection_table
from daskfs.selectors.fgm.passes import HISTORY, FgmPasses
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.responses import CLASSIFIERS

if TYPE_CHECKING:
    from daskfs.selectors.fgm.selector import FGM


def finish(selector: FGM, matrix: Matrix, passes: FgmPasses, y: np.ndarray, weight: np.ndarray) -> None:
    """Set the fitted attributes of a selector.

    Parameters
    ----------
    selector : FGM
    matrix : Matrix
    passes : FgmPasses
        Done.
    y : ndarray of shape (n_samples,)
        Classes as -1 and +1.
    weight : ndarray of shape (n_samples,)
    """
    model, n_features = passes.model, int(matrix.shape[1])
    features, standardised = passes.selected()
    selector.support_ = np.zeros(n_features, dtype=bool)
    selector.support_[features] = True
    selector.scores_ = np.zeros(n_features)
    selector.scores_[features] = np.abs(standardised)
    selector.coef_ = np.zeros(n_features)
    selector.coef_[features] = standardised * passes.inverse[features]
    selector.intercept_ = float(model.shift - (passes.centre[features] * selector.coef_[features]).sum())
    selector.selected_ = features[np.lexsort((features, -selector.scores_[features]))]
    selector.n_passes_ = passes.columns.n_passes
    selector.dual_gap_ = passes.gap
    notes = _notes(selector, passes, len(features))
    if selector.debias and len(features):
        notes.append(_debias(selector, matrix, passes, features, y, weight))
    names = matrix.names.given
    table = selection_table(selector.selected_, selector.coef_[selector.selected_],
                            selector.scores_[selector.selected_], names)  # fmt: skip
    parameters = {**selector.get_params(deep=False), "C": selector.C_}
    parameters["n_features_per_pass"] = passes.stopping.n_per_pass
    del parameters["client"]
    history = np.array(passes.history).reshape(-1, len(HISTORY))
    columns = {name: history[:, k] for k, name in enumerate(HISTORY)}
    for name in ("pass", "features", "new", "iterations"):
        columns[name] = columns[name].astype(np.int64)
    if passes.stopping.held_out is None:
        del columns["held_out_loss"]
    selector.result_ = SelectionResult(
        method=selector.method,
        score_kind=selector.score_kind,
        history_kind=selector.history_kind,
        table=table,
        intercept=selector.intercept_,
        parameters=parameters,
        n_samples=int(matrix.shape[0]),
        n_features=n_features,
        history=type(table).from_dict(columns),
        scores=selector.scores_,
        feature_names=names,
        store_digest=matrix.identity,
        memory={} if selector.memory_limit is None else {"task_limit": str(selector.memory_limit)},
        communication=passes.columns.run.nbytes,
        time=passes.columns.run.seconds,
        notes=notes,
    )


def _notes(selector: FGM, passes: FgmPasses, n_selected: int) -> list[str]:
    """Return in words what was selected, why it ended there, and how far the optimum is."""
    notes = [f"{n_selected} features in {len(passes.history)} passes: {passes.reason}"]
    wanted = selector.n_features_to_select
    if wanted is not None and n_selected < wanted and selector.validation is None:
        notes.append(f"{wanted} features were asked for, but no more than {n_selected} have a score above 0")
    n_zero = n_selected - int(np.count_nonzero(selector.coef_))
    if n_zero:
        notes.append(f"{n_zero} of the selected features have no coefficient: C = {selector.C_:.3g} is too small")
    if selector.C is None:
        notes.append(f"C = {selector.C_:.3g} was chosen from the number of rows and the variance of the columns")
    if selector.C == "validation":
        notes.append(f"C = {selector.C_:.3g} was chosen by rows held out, of {len(selector.C_losses_)} values")
    when = "of the final model" if selector.certify else "before the last pass"
    gap = passes.gap if selector.certify else (passes.history[-1][5] if passes.history else 0.0)
    notes.append(
        f"duality gap {when}: the optimum over all columns, which need not be sparse, is at least "
        f"{100 * (1.0 - gap):.3g} % of the objective"
    )
    constant = int((passes.inverse == 0.0).sum())
    if constant:
        notes.append(f"{constant} column(s) are constant and cannot be selected")
    return notes + passes.notes


def _debias(
    selector: FGM, matrix: Matrix, passes: FgmPasses, features: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> str:
    """Refit on the selected features alone; return both accuracies in words."""
    z = passes.model.predictions() + passes.model.shift
    positive = float(selector.classes_[1]) if selector.loss in CLASSIFIERS else None
    ridge = 1.0 / (selector.C_ * float(weight.sum()))
    fit = refit_selected(passes.columns.run, features, MeanLoss(selector.loss, positive, ridge=ridge))
    selector.coef_[features] = fit.coef
    selector.intercept_ = fit.intercept
    columns = passes.model.columns_of(features)
    refitted = columns.T.astype(np.float64) @ fit.coef + fit.intercept
    if selector.loss in CLASSIFIERS:
        before, after = (float(np.average((p > 0.0) == (y > 0.0), weights=weight)) for p in (z, refitted))
        return f"accuracy on the training rows: {before:.4f} as fitted, {after:.4f} after the refit, which coef_ holds"
    before, after = (float(np.average((p - y) ** 2, weights=weight)) for p in (z, refitted))
    return f"mean squared error on the training rows: {before:.6g} as fitted, {after:.6g} after the refit (in coef_)"
