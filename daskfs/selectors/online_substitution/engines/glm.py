"""The rule ``exchange`` with other losses than the squared one: exchanges on a block's parabola, the truth after it.

At the point before a block the loss is replaced by its parabola, with the curvature D of each sample: the products of
columns are weighted by D, and centred by their D-weighted means, which is the intercept's best answer. The exchanges of
`daskfs.kernels.substitution.exchange` happen on it; then one Newton step with a line search follows on the true loss,
and the block is undone where the true loss has risen.
"""

from __future__ import annotations

import numpy as np

from daskfs.kernels.substitution.exchange import exchange_scan, removal_costs
from daskfs.kernels.substitution.products import NO_WEIGHT, row_products
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.engines.exchange import (
    LARGEST_BLOCK,
    PAID_PRODUCTS,
    SMALLEST_BLOCK,
    Rule,
    Tally,
)
from daskfs.selectors.online_substitution.engines.point import Parabola, Point
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.screen import Screen

NEWTON_STEPS = 1  # after each block with an exchange
MORE_STEPS = 4  # where the loss is still above that of before
MAX_HALVINGS = 10
MAX_LAST_STEPS = 20
ROUNDING = 1e-12


class GlmExchange:
    """Engine of online substitution for any loss; see `SquaredEngine`.

    Parameters
    ----------
    members : Members
        Of floating point.
    y : ndarray of shape (n_samples,), float64
    rule : Rule
    engine : {"gram", "lazy", "naive"}
        "naive" decides on one column at a time.
    loss : int
    threshold : float
    fits_intercept : bool
    """

    def __init__(
        self,
        members: Members,
        y: np.ndarray,
        rule: Rule,
        engine: str,
        loss: int,
        threshold: float,
        fits_intercept: bool,
    ) -> None:
        self.members, self.rule, self.engine, self.threshold = members, rule, engine, threshold
        self.point = Point(members, y, loss, threshold, rule.ridge, fits_intercept)
        self._entered = (0, 0)
        self.tally = Tally()
        self.narrowest, self.widest = (1, 1) if engine == "naive" else (SMALLEST_BLOCK, LARGEST_BLOCK)
        self.width = self.narrowest
        self._parabola: Parabola | None = None

    @property
    def value(self) -> float:
        """The objective."""
        return self.point.value

    @property
    def coef(self) -> np.ndarray:
        """Weights of the standardised columns."""
        return self.point.coef

    def take(self, columns: Columns) -> None:
        """Present a chapter of columns, in their order."""
        start = 0
        while start < len(columns):
            width = min(self.width, len(columns) - start)
            n_accepted = self._take_block(columns.take(slice(start, start + width)))
            start += width
            self.width = max(self.narrowest, self.width // 2) if n_accepted else min(self.widest, self.width * 2)

    def _take_block(self, columns: Columns) -> int:
        parabola = self._present_parabola()
        if parabola.total <= 0.0:  # no sample's loss curves: nothing is to be gained
            self.tally.n_presented += int(self.members.usable(columns).sum())
            return 0
        point, usable = self.point, self.members.usable(columns)
        if self.engine == "lazy" and self.members.n_members == self.members.capacity:
            chosen = self.screen(len(columns)).candidates(columns)
            self.tally.n_presented += int(usable.sum()) - len(chosen)
            if not len(chosen):
                return 0
            columns, usable = columns.take(chosen), np.ones(len(chosen), bool)
        gradient = point.gradient(columns, parabola.derivative)
        diagonal, sums = self._diagonal(columns, parabola.total)
        k = self.members.n_members
        cross = np.zeros((len(columns), self.members.capacity))
        cross[:, :k] = point.weighted(columns.rows, self.members.rows[:k], sums, parabola.sums[:k], parabola.total)
        linear = row_products(cross, point.coef, NO_WEIGHT) - gradient
        return self.walk(columns, cross, linear, diagonal, sums, usable, parabola)

    def _diagonal(self, columns: Columns, total: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the parabola's curvature in each column, ridge included, and the weighted sums of the columns."""
        rows, curvature = columns.rows, self.point.curvature
        sums = row_products(rows, curvature, NO_WEIGHT)
        squares = np.array([row_products(row[None], row, curvature)[0] for row in rows])
        if self.point.fits_intercept:
            squares -= sums**2 / total
        return np.maximum(squares, 0.0) / self.members.total + self.rule.ridge, sums

    def screen(self, most: int) -> Screen:
        """Return what columns are screened against: the loss's slope, and the cost of the cheapest member."""
        members, parabola = self.members, self._present_parabola()
        costs = removal_costs(parabola.inverse, parabola.optimum, members.n_members)[members.n_fixed :]
        least = float(costs.min()) if len(costs) and parabola.total > 0.0 else np.inf
        present = members.ids[: members.n_members].copy()
        curvature = self.point.curvature.copy()
        return Screen(-parabola.derivative, curvature, members.total, least, self.rule.ridge, present, most)

    def _present_parabola(self) -> Parabola:
        if self._parabola is None:
            self._parabola = self.point.parabola()
        return self._parabola

    def walk(
        self,
        columns: Columns,
        cross: np.ndarray,
        linear: np.ndarray,
        diagonal: np.ndarray,
        sums: np.ndarray,
        usable: np.ndarray,
        parabola: Parabola,
    ) -> int:
        """Exchange on the parabola, then look at the true loss; return how many entered."""
        members, point = self.members, self.point
        n_before, described = members.n_members, members.described()
        coef, intercept, value = point.coef.copy(), point.intercept, point.value
        changed = parabola.copy()
        placed = self._exchange(columns, cross, linear, diagonal, sums, usable & (diagonal > 0.0), changed)
        if not placed:
            return 0
        n_entered, n_exchanged = self._entered
        members.swap(columns, placed)
        if point.fits_intercept:  # its best answer to the members' change, on the parabola
            drift = float((changed.sums * changed.optimum).sum() - (parabola.sums * coef).sum())
            point.intercept -= (drift + float(point.derivative.sum())) / parabola.total
        point.coef[:] = changed.optimum
        point.predict()
        for step in range(NEWTON_STEPS + MORE_STEPS):
            if step >= NEWTON_STEPS and point.value <= value:
                break
            self._newton_step()
        if not point.value <= value + ROUNDING * abs(value):
            members.swap(columns, placed)
            members.describe_again(n_before, described)
            point.coef[:], point.intercept = coef, intercept
            point.predict()
            self.tally.n_reverted += 1
            return 0
        self._parabola = None
        self.tally.n_exchanged += n_exchanged
        self.tally.n_entered += n_entered
        return n_entered

    def _exchange(
        self,
        columns: Columns,
        cross: np.ndarray,
        linear: np.ndarray,
        diagonal: np.ndarray,
        sums: np.ndarray,
        usable: np.ndarray,
        parabola: Parabola,
    ) -> dict[int, int]:
        """Let newcomers in one after the other; return who is in which slot in the end."""
        members, total = self.members, parabola.total
        counts, change = np.zeros(2, np.int64), np.zeros(1)
        within = None
        if members.n_members < members.capacity and len(columns) > 1:
            within = self.point.weighted(columns.rows, columns.rows, sums, sums, total)
        placed: dict[int, int] = {}
        n_entered = n_exchanged = b = 0
        while True:
            b, slot = exchange_scan(
                cross, linear, diagonal, usable, b, parabola.inverse, parabola.optimum,
                members.n_members, members.n_fixed, self.rule.tolerance, counts, change,
            )  # fmt: skip
            if slot < 0:
                break
            n_entered += 1
            if slot < members.n_members:
                n_exchanged += 1
                usable[(columns.ids == members.ids[slot]) & (columns.scale > 0.0)] = True
            members.describe(slot, columns, b)
            placed[slot] = b
            parabola.sums[slot] = sums[b]
            rest = slice(b + 1, len(columns))
            if within is None and n_entered > PAID_PRODUCTS:
                within = self.point.weighted(columns.rows, columns.rows, sums, sums, total)
            if within is not None:
                cross[rest, slot] = within[rest, b]
            elif b + 1 < len(columns):
                one = slice(b, b + 1)
                products = self.point.weighted(columns.rows[rest], columns.rows[one], sums[rest], sums[one], total)
                cross[rest, slot] = products[:, 0]
            b += 1
        self.tally.n_presented += int(counts[0])
        self.tally.n_refused += int(counts[1])
        self._entered = (n_entered, n_exchanged)
        return placed

    def _newton_step(self) -> None:
        """Go to the minimum of the parabola, or as far on the way as the loss does not rise."""
        point = self.point
        start, intercept, value = point.coef.copy(), point.intercept, point.value
        parabola = point.parabola()
        if parabola.total <= 0.0:
            return
        direction, drift = parabola.optimum - start, 0.0
        if point.fits_intercept:
            drift = -(float((parabola.sums * direction).sum()) + float(point.derivative.sum())) / parabola.total
        length = 1.0
        for _ in range(MAX_HALVINGS):
            point.coef[:] = start + length * direction
            point.intercept = intercept + length * drift
            point.predict()
            if point.value <= value:
                return
            length *= 0.5
        point.coef[:], point.intercept = start, intercept
        point.predict()

    def finish(self) -> None:
        """Find the loss's minimum over the members by Newton steps, and what dropping each would cost; stay here."""
        point, coef, intercept = self.point, self.point.coef.copy(), self.point.intercept
        for _ in range(MAX_LAST_STEPS):
            before = self.point.value
            self._newton_step()
            if before - self.point.value <= 1e-10 * abs(before):
                break
        parabola = self.point.parabola()
        self.final, self.intercept = point.coef.copy(), point.intercept
        self.costs = removal_costs(parabola.inverse, self.final, self.members.n_members)
        point.coef[:], point.intercept = coef, intercept
        point.predict()

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state, but for the columns of the members, which are read again."""
        tally = self.tally
        counts = [tally.n_presented, tally.n_exchanged, tally.n_entered, tally.n_refused, tally.n_reverted]
        return {
            "ids": self.members.ids[: self.members.n_members].copy(),
            "coef": self.point.coef.copy(),
            "numbers": np.array([self.point.intercept, float(self.width)]),
            "counts": np.array(counts, dtype=np.int64),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `arrays` returned; the members are in place already."""
        self.point.coef[:] = arrays["coef"]
        self.point.intercept, self.width = float(arrays["numbers"][0]), int(arrays["numbers"][1])
        self.point.predict()
        self._parabola = None
        self.tally = Tally(*(int(count) for count in arrays["counts"]))
