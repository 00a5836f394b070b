"""The gradient step of online substitution (Algorithm 1) for a quadratic loss, in terms of the members' products.

The model is f(v) = ½ vᵀ M v - cᵀ v + constant. For a candidate j, h = M_Sj and d = M_jj:

    v_S ← v_S - step_S (M v - c)_S,   v_j = -step_j (hᵀ v - c_j)        with the previous v_S
    drop k* = argmin |v_k| over S and j; if that is a member, the candidate replaces it if the check passes.

Two rules use these lines. ``paper``: step_j = eta, step_S = eta / m, and the check is the later text's line 12, f(next)
- f(before) <= c (L/2 - 1/2 eta) |next - before|². ``os``: step_j = 1 / d, step_S = 1 / λmax(M_S), and f must not
increase. In both, the members' step is kept if the check refuses the candidate (lines 15 and 16).

As in `daskfs.kernels.substitution.exchange`, the linear term may come from a prediction that others share.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from daskfs.kernels.jit import is_stopped, kernel
from daskfs.kernels.linear.columns import dot_of_first
from daskfs.kernels.substitution.exchange import NO_ONE

OS, PAPER = 0, 1
MARGIN = 1.02  # on the power iteration's estimate of the largest eigenvalue
COLD, WARM = 20, 3  # power iterations, initially and after an exchange

STATE = np.dtype(
    [*((name, np.float64) for name in ("largest", "value", "excess", "moved")), ("is_changed", np.bool_)], align=True
)
"""The estimate of λ; f; the largest excess of f(next) over the bound of inequality (11); Σ |next - before|²; whether
the members have changed since λ was estimated. Kernels take an array with one such record and update it.
"""


class Model(NamedTuple):
    """The quadratic approximation for the members; all but the first of shape (capacity,)."""

    matrix: np.ndarray  # (capacity, capacity) M, ridge included
    linear: np.ndarray  # c
    coef: np.ndarray  # v
    product: np.ndarray  # M v; must be recomputed after an acceptance
    power: np.ndarray  # the power iteration's vector


class StepRule(NamedTuple):
    """Step sizes, and the check of candidates."""

    name: int  # OS or PAPER; the numbers below are for PAPER
    eta: float  # 0: 0.5 / L
    m: float
    c: float
    lipschitz: float  # 0: an upper bound of λmax over the members and the candidate
    checks: bool


@kernel
def steps_scan(candidates, start, model, n_members, n_fixed, rule, state, counts):  # type: ignore[no-untyped-def]
    """Scan a block until a candidate is accepted.

    Parameters
    ----------
    candidates : Candidates
    start : int
        See `exchange_scan`.
    model : Model
        `coef`, `product` and `power` are updated.
    n_members, n_fixed : int
    rule : StepRule
    state : ndarray of shape (1,), STATE
    counts : ndarray of shape (1,), COUNTS
        Refused candidates are those that failed the check.

    Returns
    -------
    candidate, slot : int
        See `exchange_scan`.
    """
    cross, linear, diagonal, usable = candidates
    matrix, members_linear, coef, product, power = model
    n = n_members
    gradient = np.zeros(coef.shape[0])
    curved = np.zeros(coef.shape[0])
    step = np.zeros(coef.shape[0])
    for b in range(start, cross.shape[0]):
        if is_stopped():
            break
        if not usable[b]:
            continue
        counts[0]["n_presented"] += 1
        h, d = cross[b], diagonal[b]
        if state[0]["is_changed"] and n > 0:
            state[0]["largest"] = MARGIN * largest_eigenvalue(
                matrix, n, power, COLD if state[0]["largest"] == 0.0 else WARM
            )
            state[0]["is_changed"] = False
        bound = _bound(state[0]["largest"], d, h, n) if rule.lipschitz == 0.0 else rule.lipschitz
        if rule.name == PAPER:
            step_j = 0.5 / bound if rule.eta == 0.0 else rule.eta
            step_s = step_j / rule.m
        else:
            step_j = 1.0 / d
            step_s = 1.0 / max(state[0]["largest"], d) if n > 0 else 0.0
        newcomer = step_j * (linear[b] - dot_of_first(h, coef, n))
        for i in range(n):
            gradient[i] = product[i] - members_linear[i]
        for i in range(n):
            curved[i] = dot_of_first(matrix[i], gradient, n)
        length, bend = dot_of_first(gradient, gradient, n), dot_of_first(gradient, curved, n)
        if rule.name == OS and step_s * bend > 2.0 * length:  # the estimate was too low: f would increase
            state[0]["largest"] = MARGIN * bend / length
            step_s = 1.0 / state[0]["largest"]
        before = state[0]["value"]
        state[0]["value"] += step_s * (0.5 * step_s * bend - length)
        for i in range(n):
            step[i] = coef[i] - step_s * gradient[i]
            product[i] -= step_s * curved[i]
        moved = step_s * step_s * length
        slot = NO_ONE
        if n < coef.shape[0]:
            slot = n
            after = (
                state[0]["value"] + newcomer * (dot_of_first(h, step, n) - linear[b]) + 0.5 * d * newcomer * newcomer
            )
            moved += newcomer * newcomer
        else:
            smallest = abs(newcomer)
            for i in range(n_fixed, n):
                if abs(step[i]) < smallest:
                    smallest, slot = abs(step[i]), i
            after = state[0]["value"]
            if slot >= 0:
                old = step[slot]
                after -= old * (product[slot] - members_linear[slot]) - 0.5 * old * old * matrix[slot, slot]
                after += (
                    newcomer * (dot_of_first(h, step, n) - h[slot] * old - linear[b]) + 0.5 * d * newcomer * newcomer
                )
                dropped = moved - (step[slot] - coef[slot]) ** 2 + coef[slot] ** 2 + newcomer * newcomer
                allowed = rule.c * (0.5 * bound - 0.5 / step_j) * dropped if rule.name == PAPER else 0.0
                if rule.checks and after - before > allowed:
                    counts[0]["n_refused"] += 1
                    slot = NO_ONE
                    after = state[0]["value"]
                else:
                    moved = dropped
        for i in range(n):
            coef[i] = step[i]
        state[0]["value"] = after
        if rule.name == PAPER:
            state[0]["excess"] = max(state[0]["excess"], after - before - rule.c * (0.5 * bound - 0.5 / step_j) * moved)
        state[0]["moved"] += moved
        if slot >= 0:
            coef[slot] = newcomer
            state[0]["is_changed"] = True
            return b, slot
    return cross.shape[0], NO_ONE


@kernel
def _bound(largest, d, h, n):  # type: ignore[no-untyped-def]
    """Return an upper bound of λmax over the members and a candidate: that of the 2 x 2 matrix of λ, d and |h|."""
    if n == 0:
        return d
    return 0.5 * (largest + d + math.sqrt((largest - d) ** 2 + 4.0 * dot_of_first(h, h, n)))


@kernel
def largest_eigenvalue(matrix, n, vector, n_iterations):  # type: ignore[no-untyped-def]
    """Return the power iteration's estimate of λmax. `vector` is its start, overwritten by its end."""
    value = 0.0
    image = np.zeros(n)
    for _ in range(n_iterations):
        size = math.sqrt(dot_of_first(vector, vector, n))
        if size == 0.0:
            vector[:n] = 1.0
            size = math.sqrt(n)
        for i in range(n):
            vector[i] /= size
        for i in range(n):
            image[i] = dot_of_first(matrix[i], vector, n)
        value = math.sqrt(dot_of_first(image, image, n))
        for i in range(n):
            vector[i] = image[i]
    return value
