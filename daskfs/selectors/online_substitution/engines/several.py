"""The exchange of columns that several problems share: gains and removal costs are summed over the problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daskfs.kernels.substitution.exchange import MIN_GAIN
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.online_substitution.engines.point import Quadratic
from daskfs.selectors.online_substitution.members import Members


@dataclass
class SeveralProblems:
    """Candidates and the approximations of all problems, which change as candidates enter."""

    members: Members
    rule: Rule
    quadratics: Sequence[Quadratic]
    cross: np.ndarray
    """M between candidates and members, of shape (n_problems, B, capacity)."""
    linear: np.ndarray
    """c_j, of shape (n_problems, B)."""
    diagonal: np.ndarray
    """M_jj, of shape (n_problems, B)."""
    usable: np.ndarray
    """Which candidates may enter, bool of shape (B,)."""
    counts: np.ndarray
    """Of shape (1,), `COUNTS`: candidates presented and refused."""

    def scan(self, start: int) -> tuple[int, int]:
        """Let the first candidate from `start` on enter that pays; return its position and slot (below 0: none)."""
        members, k = self.members, self.members.n_members
        inverse = np.array([one.inverse[:k, :k] for one in self.quadratics])
        coef = np.array([one.optimum[:k] for one in self.quadratics])
        squares = np.array([one.squares[:k] for one in self.quadratics])
        h, diagonal = np.ascontiguousarray(self.cross[:, start:, :k]), self.diagonal[:, start:]
        a = h @ inverse
        pivot = diagonal - (a * h).sum(axis=2)
        is_copy = np.zeros(pivot.shape[1], bool)
        if self.rule.ridge > 0.0:  # a copy would share the coefficients of a member
            like = h**2 > (1.0 - self.rule.tolerance) * (diagonal - self.rule.ridge)[:, :, None] * squares[:, None]
            is_copy = like.all(axis=0).any(axis=1)
        is_refused = is_copy | ~(pivot >= self.rule.tolerance * diagonal).all(axis=0)
        gradient = self.linear[:, start:] - (h @ coef[:, :, None])[:, :, 0]
        step = gradient / np.where(is_refused, 1.0, pivot)  # the candidate's coefficient if it entered
        gain = 0.5 * (gradient * step).sum(axis=0)
        may_enter = self.usable[start:] & ~is_refused
        slots = np.full(len(gain), k)
        if members.is_full:
            moved = coef[:, None] - a * step[:, :, None]
            own = np.diagonal(inverse, axis1=1, axis2=2)[:, None] + a**2 / np.where(is_refused, 1.0, pivot)[:, :, None]
            costs = 0.5 * (moved**2 / own).sum(axis=0)[:, members.n_fixed :]
            slots = members.n_fixed + costs.argmin(axis=1) if costs.shape[1] else slots
            may_enter &= costs.min(axis=1, initial=np.inf) < gain * (1.0 - MIN_GAIN) - self.rule.price
        places = np.flatnonzero(may_enter)
        looked_at = slice(start, len(self.usable) if not len(places) else start + int(places[0]) + 1)
        self.counts[0]["n_presented"] += int(self.usable[looked_at].sum())
        self.counts[0]["n_refused"] += int((self.usable[looked_at] & is_refused[: looked_at.stop - start]).sum())
        if not len(places):
            return len(self.usable), -1
        b = int(places[0])
        for c, one in enumerate(self.quadratics):
            _let_in(one, k, int(slots[b]), a[c, b], float(pivot[c, b]), float(step[c, b]))
        return start + b, int(slots[b])


def _let_in(quadratic: Quadratic, k: int, slot: int, a: np.ndarray, pivot: float, step: float) -> None:
    """Update inverse and optimum for a candidate in a slot: a new one after the k members, or that of a member."""
    inverse, coef = np.empty((k + 1, k + 1)), np.append(quadratic.optimum[:k] - a * step, step)
    inverse[:k, :k] = quadratic.inverse[:k, :k] + np.outer(a, a / pivot)
    inverse[k, :k] = inverse[:k, k] = -a / pivot
    inverse[k, k] = 1.0 / pivot
    stay = np.arange(k + 1)
    if slot < k:
        row, own = inverse[slot].copy(), inverse[slot, slot]
        coef -= row * (coef[slot] / own)
        inverse -= np.outer(row, row / own)
        stay = stay[:k]
        stay[slot] = k
    n = len(stay)
    quadratic.inverse[:n, :n], quadratic.optimum[:n] = inverse[np.ix_(stay, stay)], coef[stay]
