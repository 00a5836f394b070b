"""What the members explain of each column, remembered from one epoch to the next: most columns cannot enter then.

Of a column that was looked at, the exchange knows e = hᵀ M⁻¹ h, what the members explain of it, ridge included
(`daskfs.kernels.substitution.exchange`). With w² = v_i² / (M⁻¹)_ii, twice the cost of dropping member i, and
u² = a_i² / (M⁻¹)_ii <= e, it takes the place of i where

    g² + 2 |g| |w| |u| > σ w²,   σ = d - e,   so only where   g² + 2 |g| w √e > (d - e) w²   for the least w.

Since then members A have come and others have gone, which lowers e. W is the inverse of now:

    e <= e_then + (√(h_Aᵀ W_AA h_A) + ν √e_then)²,   ν² = the largest eigenvalue of W_AA M_AA - 1.

So the products with A alone, and one with the residual, say who need not be looked at closer. A ridge that falls from ρ
to ρ' raises e by the factor 1 + (ρ - ρ') λmax(W) at most. What the exchange decides does not depend on any of this.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from daskfs.kernels.substitution.exchange import Bound, cannot_enter
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.exchange import ExchangeModel
from daskfs.selectors.online_substitution.plan import batch_of

MARGIN, MARGIN_SINGLE = 1e-6, 1e-3
"""For rounding, with columns of float64 and of others."""
ROUND_UP = np.float32(1.0 + 1e-6)
MOST_NEW = 0.4
"""Part of the members that may be new: with more, all products cost little more."""
MOST_OPEN = 0.25
"""Part of the columns, and no more than a batch, that may have to be looked at closer, copied and multiplied."""
PAUSE = 1024
"""Columns that are looked at whole after some of which more had to be."""


class Explained:
    """Bounds of what a model's members explain of columns; infinite of those never looked at.

    Parameters
    ----------
    model : ExchangeModel
    n_features : int
    """

    def __init__(self, model: ExchangeModel, n_features: int) -> None:
        self.model = model
        self._most = np.full(n_features, np.inf, np.float32)
        self._seen = np.zeros(n_features, np.int32)
        """How many candidates had entered when a column was looked at."""
        self._turn_of = np.zeros(n_features, np.int32)
        """The turn in which a column was found to stay out; minus the turn in which that was not found."""
        self._n_relaxed = self._pause = 0
        self._among: tuple[bytes, int] = (b"", -1)
        self._found: Bound
        """What is known of the members, and when and of which new ones that was."""

    @property
    def _turn(self) -> int:
        """A number of the state that the model is in: another one after each entrance and each fall of the ridge."""
        return self.model.members.n_entered + self._n_relaxed

    def note(self, columns: Columns, n_entered: int) -> None:
        """Remember what the model has found of columns, before which at least so many had entered."""
        self._most[columns.ids], self._seen[columns.ids] = self.model.explained * ROUND_UP, n_entered

    def relax(self, fall: float) -> None:
        """Take in that the ridge has fallen by so much."""
        self._n_relaxed += 1
        k = self.model.members.n_members
        self._most *= (
            np.float32(1.0 + fall * float(np.linalg.eigvalsh(self.model.state.inverse[:k, :k])[-1])) * ROUND_UP
        )

    def none_enters(self, columns: Columns, usable: np.ndarray) -> bool:
        """Return whether it was found, with the members of now, that none of the usable columns enters."""
        return bool((self._turn_of[columns.ids][usable] == self._turn).all())

    def look_ahead(
        self, columns: Columns, target: np.ndarray, residual: Callable[[], np.ndarray], spread: float
    ) -> None:
        """Find out which columns do not enter as long as the members stay, where that is cheap.

        Parameters
        ----------
        columns : Columns
        target : ndarray of shape (n_samples,)
        residual : callable
            Returns that of the members, of shape (n_samples,).
        spread : float
            Root of the target's mean square.
        """
        model, members = self.model, self.model.members
        self._pause = max(0, self._pause - len(columns))
        usable, most = members.usable(columns), self._most[columns.ids]
        is_new = usable & (np.abs(self._turn_of[columns.ids]) != self._turn)
        passed = is_new & np.isfinite(most)
        if self._pause or not passed.any():
            return
        new = np.flatnonzero(members.entered > self._seen[columns.ids][passed].min())
        if len(new) > MOST_NEW * members.capacity:
            return
        cross = members.cross_with(columns, new) if len(new) else np.zeros((len(columns), 0))
        gradient = members.against_target(columns, residual())
        cannot_enter(cross, gradient, columns.square, most, self._bound(new, columns.rows.dtype, spread), passed)
        places = np.flatnonzero(is_new & ~passed)
        if len(places) > min(MOST_OPEN * len(columns), batch_of(None, members.capacity)):
            self._pause = PAUSE
        elif len(places):
            some = columns.take(places)
            passed[places] = ~model.try_out(some, members.cross(some), members.against_target(some, target))
            self.note(some, members.n_entered)
        self._turn_of[columns.ids[is_new]] = np.where(passed, self._turn, -self._turn)[is_new]

    def _bound(self, new: np.ndarray, dtype: np.dtype, spread: float) -> Bound:
        model, rule, k = self.model, self.model.rule, self.model.members.n_members
        among = (new.tobytes(), self._turn)
        if among != self._among:
            inverse, matrix = (part[np.ix_(new, new)].copy() for part in (model.state.inverse, model.state.matrix))
            drift = inverse @ matrix - np.eye(len(new))
            drift_bound = math.sqrt(math.sqrt(float(np.linalg.norm(drift @ drift))))
            worth = 2.0 * float(model.removal_costs()[model.members.n_fixed :].min())
            least = float(np.diagonal(model.state.matrix)[:k].min())
            margin = MARGIN if dtype == np.float64 else MARGIN_SINGLE
            self._among = among
            self._found = Bound(inverse, drift_bound, worth, least, rule.ridge, rule.tolerance, margin, spread)
        return self._found
