"""Bounds, kept between epochs, on how much the members explain of each column: most columns then cannot enter.

For each tested column the exchange knows e = hᵀ M⁻¹ h, the part explained by the members, ridge included
(`daskfs.kernels.substitution.exchange`). With w² = v_i² / (M⁻¹)_ii, twice the cost of dropping member i, and u² = a_i²
/ (M⁻¹)_ii <= e, the column replaces i where

    g² + 2 |g| |w| |u| > σ w²,   σ = d - e,   so only where   g² + 2 |g| w √e > (d - e) w²   for the least w.

Since then the members A have entered, and others have left, which lowers e. With W the present inverse,

    e <= e_then + (√(h_Aᵀ W_AA h_A) + ν √e_then)²,   ν² = the largest eigenvalue of W_AA M_AA - 1.

So the products with A alone, and one with the residual, show which columns need no further test. If the ridge falls
from ρ to ρ', e grows at most by the factor 1 + (ρ - ρ') λmax(W). The bounds do not change the decisions of the
exchange.
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
"""Margins for rounding, with float64 columns and with others."""
ROUND_UP = np.float32(1.0 + 1e-6)
MOST_NEW = 0.4
"""Largest share of new members; with more, computing all products costs little more."""
MOST_OPEN = 0.25
"""Largest share of the columns, and at most a batch, that may need the full test, with copies and products."""
PAUSE = 1024
"""Number of columns that are tested in full after more than that share needed it."""


class Explained:
    """Bounds on how much a model's members explain of columns; infinite for columns never tested.

    Parameters
    ----------
    model : ExchangeModel
    n_features : int
    """

    def __init__(self, model: ExchangeModel, n_features: int) -> None:
        self.model = model
        self._most = np.full(n_features, np.inf, np.float32)
        self._seen = np.zeros(n_features, np.int32)
        """Number of candidates that had entered when a column was tested."""
        self._turn_of = np.zeros(n_features, np.int32)
        """The turn in which a column was found not to enter; minus the turn if that was not found."""
        self._n_relaxed = self._pause = 0
        self._among: tuple[bytes, int] = (b"", -1)
        self._found: Bound
        """Bound for the present members, and the new members and turn it was computed for."""

    @property
    def _turn(self) -> int:
        """Number of the model's present state; it changes with each entrance and each fall of the ridge."""
        return self.model.members.n_entered + self._n_relaxed

    def note(self, columns: Columns, n_entered: int) -> None:
        """Store what the model found for columns; at least `n_entered` candidates had entered before."""
        self._most[columns.ids], self._seen[columns.ids] = self.model.explained * ROUND_UP, n_entered

    def relax(self, fall: float) -> None:
        """Update the bounds after the ridge has fallen by `fall`."""
        self._n_relaxed += 1
        k = self.model.members.n_members
        self._most *= (
            np.float32(1.0 + fall * float(np.linalg.eigvalsh(self.model.state.inverse[:k, :k])[-1])) * ROUND_UP
        )

    def none_enters(self, columns: Columns, usable: np.ndarray) -> bool:
        """Return whether it is known for the present members that none of the usable columns enters."""
        return bool((self._turn_of[columns.ids][usable] == self._turn).all())

    def look_ahead(
        self, columns: Columns, target: np.ndarray, residual: Callable[[], np.ndarray], spread: float
    ) -> None:
        """Determine which columns cannot enter while the members stay the same, if that is cheap.

        Parameters
        ----------
        columns : Columns
        target : ndarray of shape (n_samples,)
        residual : callable
            Returns the residual of the members, of shape (n_samples,).
        spread : float
            Root mean square of the target.
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
