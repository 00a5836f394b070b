"""The base class of the engines of online substitution, which decide on the columns of a stream.

An engine owns the members (the columns selected so far), their coefficients and the objective. Its callers, such as a
stream of columns or a test, use only these methods:

    take(columns)                present a batch: candidates may replace selected features
    keep_members()               never drop the present members
    keep(), revert()             save the state, restore it
    coef, intercept, value       the present model and objective
    counters                     what happened so far
    relax(n_candidates)          lower the ridge to the value suited to the members
    meet(others)                 what others contribute to the prediction, if it is shared
    begin(coef), minimise()      start from coefficients of the members; move to the minimum over them
    contribution()               the members' own contribution
    foresee(columns)             compute now what is possible for columns that will probably be taken next
    entry_state()                the state that sparse columns are tested against
    screen(most)                 the state that columns are screened against
    finish()                     the final coefficients, and the removal costs
    arrays(), restore(arrays)    the state for a checkpoint, except the columns themselves

A new engine defines `_take_batch`, `coef`, `value`, `finish` and its state (`_state`, `_restore`); to support a falling
ridge, also `_terms` and `_take_ridge`; to share a prediction (`daskfs.selectors.asy_os`), also `meet`, `begin` and
`minimise`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.entries import COLLINEAR, UNUSABLE, State
from daskfs.kernels.substitution.exchange import removal_costs
from daskfs.kernels.substitution.group_exchange import group_costs
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.plan import LARGEST_BATCH, SMALLEST_BATCH
from daskfs.selectors.online_substitution.screen import Screen
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.ridge import WHILE_SELECTING, Effort

LEAST_PIVOT = 1e-5
"""Share of a column's mean square that the columns before it must leave unexplained: the precision of float32."""
PAID_PRODUCTS = 12
"""Number of entrances after which all products within a batch cost less than those of each entering candidate."""


@dataclass(frozen=True)
class Rule:
    """The rule that decides on candidates; see `daskfs.selectors.online_substitution.selector.OnlineSubstitution`."""

    name: str = "exchange"
    ridge: float = 0.0
    price: float = 0.0
    """How much an exchange must lower the objective; set after an epoch, see `Effort.exchange_price`."""
    tolerance: float = 1e-3
    checks: bool = True
    eta: float = 0.0
    m: float = 1.0
    c: float = 0.5
    lipschitz: float = 0.0
    least: float | None = None
    """Lower bound to which `ridge` may fall after an epoch; None: it does not change."""
    rho: float | None = None
    """ρ of Theorem 2 if the prediction is shared: eta < 0.5 / L_F (1 + ρ), unless given; None: no shared prediction."""


@dataclass(slots=True)
class Counters(Record):
    """What happened so far."""

    n_presented: int = 0
    n_exchanged: int = 0
    n_entered: int = 0
    n_refused: int = 0
    """Collinear candidates, or those refused by the check."""
    n_reverted: int = 0
    """Batches undone because the loss rose."""


@dataclass
class BatchWidth:
    """The number of columns decided on at once; a batch without an entrance doubles it, others halve it."""

    narrowest: int = SMALLEST_BATCH
    widest: int = LARGEST_BATCH
    width: int = 0

    def __post_init__(self) -> None:
        self.width = self.width or self.narrowest

    def after(self, n_entered: int) -> None:
        """Update the width after a batch. An entrance costs one product with the rest of the batch."""
        self.width = max(self.narrowest, self.width // 2) if n_entered else min(self.widest, self.width * 2)


class Finished(NamedTuple):
    """The final state of an engine."""

    coef: np.ndarray
    """Coefficients of the columns as they are stored, of shape (capacity,); with several classes (n_classes, capacity).
    """
    intercept: float | np.ndarray
    costs: np.ndarray
    """Rise of the objective if a member were dropped, of shape (n_members,)."""
    groups: np.ndarray = np.empty(0, np.int64)
    """Numbers of the members' groups, if groups are selected."""
    group_costs: np.ndarray = np.empty(0)
    """Rise of the objective if a group were dropped, of shape (n_groups,)."""


class Entrance(NamedTuple):
    """A candidate that enters."""

    candidate: int
    """Position in the batch."""
    slot: int
    replaces: bool
    """Whether it replaces a selected feature; otherwise there was room."""


class Engine(ABC):
    """Decides which columns of a stream are selected.

    Parameters
    ----------
    members : Members
    rule : Rule
    mode : {"gram", "lazy", "naive"}
        How products are computed: for a batch at once, only for columns whose gradient is large enough, or for one
        column at a time.
    width : BatchWidth
    """

    loss = "squared"
    """Name of the loss."""

    def __init__(self, members: Members, rule: Rule, mode: str, width: BatchWidth) -> None:
        self.members, self.rule, self.mode, self.width = members, rule, mode, width
        self.counters = Counters()

    @property
    @abstractmethod
    def coef(self) -> np.ndarray:
        """Coefficients of the columns as they are stored, of shape (capacity,)."""

    @property
    def intercept(self) -> float | np.ndarray:
        """The intercept, with several classes of each; 0 if columns and target are centred."""
        return 0.0

    @property
    @abstractmethod
    def value(self) -> float:
        """The objective: the mean loss plus half the ridge times the sum of squared coefficients."""

    def take(self, columns: Columns) -> None:
        """Present columns, or whole groups of columns, in their order. They are not changed."""
        for batch in self._batches(columns):
            self.width.after(self._take_batch(batch) if len(batch) else 0)

    def _batches(self, columns: Columns) -> Iterator[Columns]:
        """Yield columns that are decided on together; the width may change meanwhile."""
        start, members = 0, self.members
        while start < len(columns):
            stop = start + next(members.pieces(columns.ids[start:], self.width.width)).stop
            batch, start = columns.take(slice(start, stop)), stop
            if members.groups is not None and not batch.scale.all():
                batch = batch.take(batch.scale > 0.0)  # constant columns belong to their group, but explain nothing
            yield batch

    @abstractmethod
    def _take_batch(self, columns: Columns) -> int:
        """Present columns that are decided on together; return how many entered."""

    def keep_members(self) -> None:
        """Never drop the present members."""
        self.members.n_fixed = self.members.n_members

    def keep(self) -> None:
        """Save the members and the state for `revert`."""
        self.members.keep()
        self._kept = {name: array.copy() for name, array in self._state().pack().items()}

    def revert(self) -> None:
        """Restore what `keep` saved; it stays saved."""
        self.members.revert()
        self._restore({name: array.copy() for name, array in self._kept.items()})

    def meet(self, others: np.ndarray) -> None:
        """Set what others contribute to the prediction (or predictions, with several classes), with the intercept.

        The next columns that are taken, and the present members, respond to it.
        """
        raise NotImplementedError

    def foresee(self, columns: Columns) -> None:  # noqa: B027
        """Compute now what is possible for columns that will probably be taken next."""

    def begin(self, coef: np.ndarray) -> None:
        """Start from these coefficients of the members, (n_members,) or (n_classes, n_members); call `meet` next."""
        raise NotImplementedError

    def minimise(self) -> None:
        """Move to the minimum over the members, given what others contribute."""
        raise NotImplementedError

    def contribution(self) -> np.ndarray:
        """Return what the members contribute to each prediction, without the intercept."""
        coef = np.atleast_2d(self.coef)
        found = np.array([self.members.predict(one, 0.0, np.empty(self.members.rows.shape[1])) for one in coef])
        return found.reshape((*self.coef.shape[:-1], -1))

    def relax(self, n_candidates: int) -> bool:
        """Lower the ridge to the value suited to the members out of so many columns; return whether it fell.

        From then on, exchanges have a price.
        """
        members, rule = self.members, self.rule
        if rule.least is None or not members.n_members:
            return False
        effort = Effort(members.total, members.n_members, n_candidates, WHILE_SELECTING)
        terms = self._terms()
        ridge = max(rule.least, effort.shared_ridge(terms, rule.ridge, self.loss))
        if rule.name == "exchange":
            self.rule = replace(rule, price=effort.exchange_price(terms, rule.ridge, self.loss))
        if ridge < rule.ridge:
            self._take_ridge(ridge)
        return ridge < rule.ridge

    def _terms(self) -> list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
        """Return for each prediction the mean loss without the ridge, its gradient and Hessian, and the point.

        The variables are the intercept and the members' coefficients, as for `Effort.shared_ridge`.
        """
        raise NotImplementedError

    def _take_ridge(self, ridge: float) -> None:
        """Continue with another ridge."""
        self.rule = replace(self.rule, ridge=ridge)

    def screen(self, most: int) -> Screen:
        """Return the state that columns are screened against; `most` limits the candidates per block.

        Raises
        ------
        TypeError
            This engine changes with every column, so none may be skipped.
        """
        raise TypeError(f"{type(self).__name__} looks at every column: it has no screen")

    def _candidates(self, columns: Columns) -> Columns:
        """Return the promising columns of a batch, for a full engine; the others count as presented."""
        screen = self.screen(len(columns))
        if self.members.groups is None:
            places = screen.candidates(columns)
            self.counters.n_presented += self.members.n_usable(columns) - len(places)
        else:
            labels = self.members.labels(columns.ids)
            places, n_usable = screen.groups(columns, labels)
            self.counters.n_presented += n_usable - len(np.unique(labels[places]))
        return columns.take(places)

    @property
    def _least_pivot(self) -> float:
        return max(self.rule.tolerance, LEAST_PIVOT)

    def _screen(self, descent: np.ndarray, curvature: np.ndarray, costs: np.ndarray, most: int) -> Screen:
        """Return the state for screening; `costs` are those of `_costs`."""
        members = self.members
        n_fixed = members.n_fixed if members.groups is None else members.layout().n_fixed
        least, present = float(costs[n_fixed:].min(initial=np.inf)), members.columns.ids.copy()
        given = (members.total, least, self.rule.ridge, present, most, members.weight, self._least_pivot)
        return Screen(descent, curvature, *given)

    def _costs(self, inverse: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return the rise of the objective when each member, or group, is dropped and the others are refitted."""
        if self.members.groups is None:
            found: np.ndarray = removal_costs(inverse, coef, self.members.n_members)
            return found
        layout = self.members.layout()
        found = group_costs(inverse, coef, layout.slots, layout.bounds)
        return found

    def entry_state(self) -> State | None:
        """Return the state for tests of columns by their entries alone; None if each column must be read."""
        return None

    def pass_over(self, verdict: np.ndarray) -> None:
        """Update the engine as if columns had been taken that cannot enter; for a full engine."""
        start = 0
        while start < len(verdict):
            start += self.width.width
            self.width.after(0)
        self.counters.n_presented += int((verdict > UNUSABLE).sum())
        self.counters.n_refused += int((verdict == COLLINEAR).sum())

    @abstractmethod
    def finish(self) -> Finished:
        """Compute the best coefficients of the members and their removal costs; the engine does not change."""

    def _finished(self, coef: np.ndarray, intercept: float, inverse: np.ndarray) -> Finished:
        """Return the final state at a minimum; `inverse` is M⁻¹ of the members there."""
        finished = Finished(coef, intercept, removal_costs(inverse, coef, self.members.n_members))
        if self.members.groups is None:
            return finished
        return finished._replace(groups=self.members.layout().groups, group_costs=self._costs(inverse, coef))

    @abstractmethod
    def _state(self) -> Record:
        """Return the state that `_restore` needs in addition to the members."""

    @abstractmethod
    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore the state from the arrays of `_state`, which become the engine's own."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state without the columns of the members, which are read again."""
        members = self.members
        where = _Where(
            members.ids[: members.n_members], members.n_fixed, self.width.width, self.rule.ridge, self.rule.price
        )
        records = (where, self.counters, self._state())
        return {name: array.copy() for record in records for name, array in record.pack().items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore the state from `arrays`; the members are already in place."""
        arrays = {name: np.array(array) for name, array in arrays.items()}
        where = _Where.unpack(arrays)
        self.members.n_fixed, self.width.width = where.n_fixed, where.width
        self.counters, self.rule = Counters.unpack(arrays), replace(self.rule, ridge=where.ridge, price=where.price)
        self._restore(arrays)


@dataclass(frozen=True, slots=True)
class _Where(Record):
    """The selection and the width of batches."""

    ids: np.ndarray
    n_fixed: int
    width: int
    ridge: float
    price: float


def entrances(
    members: Members,
    columns: Columns,
    cross: np.ndarray,
    usable: np.ndarray,
    scan: Callable[[int], tuple[int, int]],
    within: Callable[[], np.ndarray],
    after: Callable[[int], np.ndarray],
) -> Iterator[Entrance]:
    """Let candidates enter one after the other; yield each one once it is described in its slot.

    Parameters
    ----------
    members : Members
    columns : Columns
    cross : ndarray of shape (B, capacity), float64
        Products of the candidates with the members; updated after each entrance.
    usable : ndarray of shape (B,), bool
        Which columns may enter; a column that is dropped may come back later.
    scan : callable
        Returns the first candidate to enter from a position on, and its slot; a slot below 0 means none.
    within : callable
        Returns the products of the batch with itself, of shape (B, B).
    after : callable
        Returns the products of a candidate with the columns after it.
    """
    products = within() if members.n_members < members.capacity and len(columns) > 1 else None
    n_entered = b = 0
    while True:
        b, slot = scan(b)
        if slot < 0:
            return
        n_entered += 1
        replaces = slot < members.n_members
        if replaces:
            usable[(columns.ids == members.ids[slot]) & (columns.scale > 0.0)] = True
        members.describe(slot, columns, b)
        yield Entrance(b, slot, replaces)
        if b + 1 < len(columns):
            if products is None and n_entered > PAID_PRODUCTS:
                products = within()
            cross[b + 1 :, slot] = after(b) if products is None else products[b + 1 :, b]
        b += 1
