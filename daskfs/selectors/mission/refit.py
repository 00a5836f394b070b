"""Exact statistics after the passes: the choice among the candidates, and the refit on the selected features.

A weight of stochastic descent says how much of the prediction a feature carries in addition to all other active
features. Redundant features share it, and several features of a bundle may come before the only feature of another. The
second moments of some hundreds of features fit in memory and are sums over rows. On them, forward selection adds the
feature that lowers the squared loss most (for classes, the loss of their indicators together).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from daskfs.kernels.linear.forward_selection import forward_selection
from daskfs.losses import find_loss
from daskfs.selectors.base import SEPARATED
from daskfs.selectors.mission.configuration import PERIOD, n_refit_epochs
from daskfs.selectors.mission.fit import History, MissionFit, factors_of, first_rows
from daskfs.selectors.mission.passes import learn
from daskfs.selectors.mission.plan import exact_refit_of
from daskfs.selectors.mission.training import mean_squared_norm
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.refit_of_classes import refit_classes
from daskfs.selectors.shared.refit_on_block import Model
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.selected_blocks import SelectedBlocks

RIDGE_OF_STANDARDISED, RIDGE_OF_RAW = 3.0, 10.0
"""Ridges, as multiples of the mean square of a column times s² or s, where s = min(1, k log p / n).

Standardised columns need a ridge if there are few rows; with many rows, a ridge admits substitutes of chosen columns.
For unscaled columns it restrains those that are nonzero in few rows. Both were measured on public data sets, against
values from 1 to 100 and other powers of s.
"""

REFIT_SHARE = 0.1
"""Learning rate of a refit by descent, as a share of that of one pass: the start is near the optimum."""


def choose(run: Run, fit: MissionFit) -> MissionFit:
    """Return the fit with those of its candidates that explain the target together; constant columns are left out.

    Standardised columns are compared as if their standard deviations were 1; otherwise the ridge restrains columns that
    are nonzero in few rows. Columns that are always included stay, and the others are compared after regression on
    them, as is the target.
    """
    config, fit = fit.config, replace(fit, state=fit.state.by_feature())
    if not config.has_choice or not len(fit.state.keys):
        return fit
    run, columns, positives = _for_exact(run, fit), fit.state.keys.astype(np.int64), config.target.positives
    n_keep, standardize = config.n_selected, config.survey.scaling is not None
    with run.timed("choice"):
        blocks = SelectedBlocks(run, columns)
        total, _, centre, scale = blocks.moments(positives[0])
        varies = np.flatnonzero(scale > 0.0)
        if len(varies) > n_keep:
            unit = scale if standardize else (scale > 0.0).astype(np.float64)
            model = Model("squared", positives[0], 0.0, np.zeros(len(columns) + 1), centre, unit)
            terms = [blocks.terms(replace(model, positive=positive), total) for positive in positives]
            gram = np.ascontiguousarray(terms[0].hessian[1:, 1:][np.ix_(varies, varies)])
            cross = np.array([-one.gradient[1:][varies] for one in terms])
            share = min(1.0, n_keep * math.log(run.matrix.shape[1]) / total)
            ridge = RIDGE_OF_STANDARDISED * share**2 if standardize else RIDGE_OF_RAW * share
            is_held = np.isin(columns[varies], config.always.astype(np.int64))
            varies = varies[_forward(gram, cross, ridge * float(np.diag(gram).mean()), n_keep, is_held)]
    return replace(fit, state=fit.state.with_entries(fit.state.entries.at(varies)))


def _forward(gram: np.ndarray, cross: np.ndarray, ridge: float, n_keep: int, is_held: np.ndarray) -> np.ndarray:
    """Return the positions of the columns that forward selection adds to those that are held, ascending."""
    if not is_held.any():
        return np.sort(forward_selection(gram, cross, ridge, n_keep))
    by_held = np.linalg.pinv(gram[np.ix_(is_held, is_held)], hermitian=True) @ gram[is_held]
    cross = cross - cross[:, is_held] @ by_held  # the Frisch-Waugh-Lovell theorem: these have no ridge
    gram = gram - gram[:, is_held] @ by_held
    held, others = np.flatnonzero(is_held), np.flatnonzero(~is_held)
    left = np.ascontiguousarray(gram[np.ix_(~is_held, ~is_held)]), np.ascontiguousarray(cross[:, ~is_held])
    return np.sort(np.concatenate([held, others[forward_selection(*left, ridge, n_keep - len(held))]]))


@dataclass(frozen=True, slots=True)
class Refit:
    """The refit on the selected columns, in the order of their ids."""

    coef: np.ndarray
    """Shape (n_selected, n_outputs)."""
    intercept: np.ndarray
    deviation: np.ndarray
    """Standard deviations of the columns, shape (n_selected,)."""
    history: History
    """The history of the fit, with the passes of a refit by descent."""
    notes: list[str] = field(default_factory=list)


def refit(run: Run, fit: MissionFit) -> Refit | None:
    """Refit on the selected columns, exactly or by further passes; None if `refit` is None."""
    kind = fit.config.refit
    if kind is None or not len(fit.state.keys):
        return None
    return _refit_exactly(run, fit) if kind == "exact" else _refit_by_descent(run, fit)


def _refit_exactly(run: Run, fit: MissionFit) -> Refit:
    """Return the minimum of the loss; unless it has several classes itself, of each of several against the rest."""
    run, columns = _for_exact(run, fit), fit.state.keys.astype(np.int64)
    free = np.isin(columns, fit.config.always.astype(np.int64))
    loss, positives = fit.config.model.loss, fit.config.target.positives
    if find_loss(loss).has_classes:
        (fits,) = refit_classes(run, columns, [len(columns)], MeanLoss(loss), np.array(positives), free)
    else:
        fits = [refit_selected(run, columns, MeanLoss(loss, positive), free=free) for positive in positives]
    notes = [SEPARATED] if any(one.is_separable for one in fits) else []
    if n_dependent := fits[0].n_dependent:
        notes.append(f"{n_dependent} selected column(s) are linear combinations of others: their coefficient is 0")
    coef, intercept = np.column_stack([one.coef for one in fits]), np.array([one.intercept for one in fits])
    return Refit(coef, intercept, fits[0].scale, fit.history, notes)


def _refit_by_descent(run: Run, fit: MissionFit) -> Refit:
    """Refit by stochastic descent on the weights of the selected features."""
    # The rate follows from the norms of the selected columns, since all other weights are fixed.
    config, n_samples, n_epochs = fit.config, run.shape.n_samples, fit.config.n_epochs
    if n_epochs == 1 or config.model.is_in_sketch:  # the rate falls as that of several passes from here on
        config = replace(config, period=PERIOD * n_samples)
    norm = run.map("survey", mean_squared_norm, [first_rows(run, config.is_sparse)], fit.state.keys, run.keep(config))[
        0
    ]
    if config.model.is_by_class:  # from here on each selected feature has an exact weight for every class
        model = replace(config.model, variant="active", per_class=False, n_selected=len(fit.state.keys))
        config = replace(config, model=model)
    rate, step_limit = config.rate_of(float(norm), is_constant=True)
    share = REFIT_SHARE if config.learning_rate is None else 1.0
    config = replace(config, rate=share * rate, step_limit=step_limit)
    n_passes = n_refit_epochs(n_epochs, n_samples)
    fit = learn(run, replace(fit, config=config), "refit", n_epochs, n_passes, frozen=True)
    state = fit.state
    assert state.sums is not None  # the first of these passes computed them
    _, total, squares = state.sums.T / n_samples
    deviation = np.sqrt(np.maximum(squares - total**2, 0.0)) / factors_of(config.survey.scaling, state.keys)
    return Refit(*fit.on_scale_of_data(), deviation, fit.history)


def _for_exact(run: Run, fit: MissionFit) -> Run:
    """Return the run over the matrix with class weights included, with memory for exact statistics."""
    matrix, target, limit = run.matrix, fit.config.target, run.task_limit
    weighted = matrix
    if target.class_weight is not None:
        weighted = matrix.weighted(target.read(matrix, slice(None))[1] * target.mean_weight)
    room = exact_refit_of(fit.config).nbytes
    return run.over(weighted, task_limit=room if limit is None else min(limit, room))
