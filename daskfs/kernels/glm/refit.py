"""The unpenalised fit of a path's model for the criterion, started at the last such fit with the path's Hessians."""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.blocks.any_columns import make_hessian_of, without_separated
from daskfs.kernels.glm.curvatures import LEFT, combine_weights
from daskfs.kernels.glm.newton import SEPARABLE, Problem, advance, hessian_weights, newton_from
from daskfs.kernels.glm.state import COMBINED, ENTERED, SEPARABLE_REFITS
from daskfs.kernels.jit import kernel
from daskfs.kernels.linear.columns import largest_size, sum_of
from daskfs.kernels.linear.linalg import factorise

FAR = 10.0  # log-odds (or log-means) per standard deviation of a column
REFIT_TOLERANCE = 1e-2  # of the refit's deviance, before the last step is added to second order


@kernel
def refit_value(problem, n_active, unit, total, state):  # type: ignore[no-untyped-def]
    """Return the mean loss of the unpenalised fit of the active features, or its infimum.

    It starts at the last such fit, unless that one went far: perfectly classified rows have no curvature left there.
    """
    share, weight = np.empty(problem.share.shape[0]), state.work
    members, n_members = without_separated(state.columns, state.members, n_active, problem, share)
    of_rows_left = Problem(problem.loss, problem.threshold, problem.y, share)
    coef, gradient, step = np.empty(n_members + 1), np.zeros(n_members + 1), np.zeros(n_members + 1)
    base, refitted = state.refit_base, state.refitted
    is_near = largest_size(refitted) <= FAR or not problem.loss.can_separate
    coef[0] = base[0] if is_near else state.coef[0]
    for q in range(n_members):
        last = refitted[members[q]]
        coef[q + 1] = last if last != 0.0 and is_near else state.coef[members[q] + 1]
    _leave_others(problem, members, n_members, state)
    for q in range(n_members + 1):
        step[q] = coef[q] - base[members[q - 1] + 1 if q > 0 else 0]
    advance(of_rows_left, state.columns, members, n_members, step, 1.0, state.refit_at, gradient)
    hessian, factor = np.empty((n_members + 1, n_members + 1)), np.zeros((n_members + 1, n_members + 1))
    hessian_weights(of_rows_left, state.refit_at, weight)
    _take_hessian(members, n_members, weight, hessian, state)
    is_singular = factorise(hessian, n_members + 1, 0.0, factor) < n_members + 1
    tol = REFIT_TOLERANCE * unit / math.sqrt(total)
    value, status, _ = newton_from(
        of_rows_left, state.columns, members, n_members, 0.0, tol, math.inf, coef, state.refit_at, gradient, step,
        weight, hessian, factor, is_singular,
    )  # fmt: skip
    if status == SEPARABLE or n_members < n_active:
        state.counts[SEPARABLE_REFITS] += 1
    refitted[:] = 0.0
    base[0] = coef[0] - step[0]
    for q in range(n_members):
        refitted[members[q]] = coef[q + 1]
        base[members[q] + 1] = coef[q + 1] - step[q + 1]
    return value


@kernel
def _leave_others(problem, members, n_members, state):  # type: ignore[no-untyped-def]
    """Remove the features outside the model from the predictions."""
    base, n_entered = state.refit_base, state.counts[ENTERED]
    step, is_member = np.zeros(n_entered + 1), np.zeros(n_entered, np.bool_)
    for q in range(n_members):
        is_member[members[q]] = True
    n_others = 0
    others = np.empty(n_entered, np.int64)
    for q in range(n_entered):
        if not is_member[q] and base[q + 1] != 0.0:
            others[n_others] = q
            step[n_others + 1] = -base[q + 1]
            base[q + 1] = 0.0
            n_others += 1
    if n_others > 0:
        advance(problem, state.columns, others, n_others, step, 1.0, state.refit_at, np.empty(n_others + 1))


@kernel
def _take_hessian(members, n_members, weight, hessian, state):  # type: ignore[no-untyped-def]
    """Combine the model's part of the path's Hessians for given weights, or compute it."""
    mix = np.empty(COMBINED)
    if combine_weights(weight, mix, state) > 2.0 * LEFT * sum_of(weight):
        make_hessian_of(state.columns, members, n_members, 0, weight, hessian, np.empty(weight.shape[0]))
        return
    hessians = state.hessians
    for a in range(n_members + 1):
        row = members[a - 1] + 1 if a > 0 else 0
        for b in range(a + 1):
            column = members[b - 1] + 1 if b > 0 else 0
            entry = 0.0
            for m in range(COMBINED):
                if mix[m] != 0.0:
                    entry += mix[m] * hessians[m, row, column]
            hessian[a, b] = hessian[b, a] = entry
