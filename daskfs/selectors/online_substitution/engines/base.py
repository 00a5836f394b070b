"""What every engine of online substitution offers: decide on the columns of a stream, holding the selected ones.

An engine owns the members (the columns selected so far), their coefficients and the objective there. Whoever drives it,
a stream of columns or an examination, knows these methods alone:

    take(columns)                present a batch: candidates may replace selected features
    keep_members()               never drop those of now
    coef, intercept, value       where the selection stands
    counters                     what happened so far
    expect_again(n_columns)      columns will come more than once
    look_ahead(columns)          these will be taken next
    relax(n_candidates)          lower the ridge to what the members ask for
    entry_state()                what sparse columns are judged against
    screen(most)                 what a column must show before it is worth a closer look
    finish()                     the last coefficients, and what dropping each feature would cost
    arrays(), restore(arrays)    what a checkpoint keeps beside the columns themselves

A new engine defines `_take_batch`, `coef`, `value`, `finish`, what its state is (`_state`, `_restore`), and for a ridge
that falls `_terms` and `_take_ridge`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from daskfs.kernels.substitution.entries import COLLINEAR, UNUSABLE, State
from daskfs.kernels.substitution.exchange import removal_costs
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.plan import LARGEST_BATCH, SMALLEST_BATCH
from daskfs.selectors.online_substitution.screen import Screen
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.ridge import WHILE_SELECTING, Effort

PAID_PRODUCTS = 12
"""Entrances from which on all products of a batch with itself cost less than those of each candidate that enters."""


@dataclass(frozen=True)
class Rule:
    """What decides on a candidate; see `daskfs.selectors.online_substitution.selector.OnlineSubstitution`."""

    name: str = "exchange"
    ridge: float = 0.0
    tolerance: float = 1e-3
    checks: bool = True
    eta: float = 0.0
    m: float = 1.0
    c: float = 0.5
    lipschitz: float = 0.0
    least: float | None = None
    """`ridge` falls after each epoch to what the members ask for, but not below; None: it stays."""
    stretch: float | None = None
    """ρ of Theorem 2, where a prediction is shared: eta < 0.5 / L_F (1 + ρ), unless given; None: nobody shares."""


@dataclass(slots=True)
class Counters(Record):
    """What happened so far."""

    n_presented: int = 0
    n_exchanged: int = 0
    n_entered: int = 0
    n_refused: int = 0
    """Collinear candidates, or those that the check refused."""
    n_reverted: int = 0
    """Batches undone because the loss rose."""


@dataclass
class BatchWidth:
    """How many columns are decided on at once: twice as many while nobody enters, half as many when somebody does."""

    narrowest: int = SMALLEST_BATCH
    widest: int = LARGEST_BATCH
    width: int = 0

    def __post_init__(self) -> None:
        self.width = self.width or self.narrowest

    def after(self, n_entered: int) -> None:
        """Go on after a batch: an entrance costs one product with the rest of it."""
        self.width = max(self.narrowest, self.width // 2) if n_entered else min(self.widest, self.width * 2)


class Finished(NamedTuple):
    """What an engine ends with."""

    coef: np.ndarray
    """Of the columns as they are held, of shape (capacity,); of several classes (n_classes, capacity)."""
    intercept: float | np.ndarray
    costs: np.ndarray
    """What the objective would rise by if a member were dropped, of shape (n_members,)."""
    groups: np.ndarray = np.empty(0, np.int64)
    """Numbers of the members' groups, where these are selected whole."""
    group_costs: np.ndarray = np.empty(0)
    """What the objective would rise by if a group were dropped, of shape (n_groups,)."""


class Entrance(NamedTuple):
    """A candidate that is let in."""

    candidate: int
    """Its place in the batch."""
    slot: int
    replaces: bool
    """Whether it replaces a selected feature; else there was room."""


class Engine(ABC):
    """Decides which columns of a stream are selected.

    Parameters
    ----------
    members : Members
    rule : Rule
    mode : {"gram", "lazy", "naive"}
        How products are come by: of a batch at once, of those columns alone whose gradient could pay, or of one column
        after the other.
    width : BatchWidth
    """

    loss = "squared"
    """Its name."""

    def __init__(self, members: Members, rule: Rule, mode: str, width: BatchWidth) -> None:
        self.members, self.rule, self.mode, self.width = members, rule, mode, width
        self.counters = Counters()

    @property
    @abstractmethod
    def coef(self) -> np.ndarray:
        """Coefficients of the columns as they are held, of shape (capacity,)."""

    @property
    def intercept(self) -> float | np.ndarray:
        """What is added to the prediction, of each class; 0 where columns and target are centred."""
        return 0.0

    @property
    @abstractmethod
    def value(self) -> float:
        """The objective: the mean loss, and half the ridge times the sum of squared coefficients."""

    def take(self, columns: Columns) -> None:
        """Present columns, in their order; they are left as they are."""
        start = 0
        while start < len(columns):
            batch = columns.take(slice(start, start + self.width.width))
            start += len(batch)
            self.width.after(self._take_batch(batch))

    @abstractmethod
    def _take_batch(self, columns: Columns) -> int:
        """Present columns that are decided on together; return how many entered."""

    def keep_members(self) -> None:
        """Never drop the members of now."""
        self.members.n_fixed = self.members.n_members

    def expect_again(self, n_columns: int) -> None:  # noqa: B027
        """Be ready to meet columns, of so many, more than once: what is found of them may be remembered."""

    def look_ahead(self, columns: Columns) -> None:  # noqa: B027
        """See columns before they are taken, batch by batch: what can be found of many at once may be."""

    def relax(self, n_candidates: int) -> bool:
        """Lower the ridge to what the members, out of so many columns, ask for; return whether it fell."""
        members, rule = self.members, self.rule
        if rule.least is None or not members.n_members:
            return False
        effort = Effort(members.total, members.n_members, n_candidates, WHILE_SELECTING)
        ridge = max(rule.least, effort.shared_ridge(self._terms(), rule.ridge, self.loss))
        if ridge < rule.ridge:
            self._take_ridge(ridge)
        return ridge < rule.ridge

    def _terms(self) -> list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
        """Return of each prediction the mean loss at a point without its ridge, gradient, Hessian, and the point.

        Of the intercept and the members' coefficients, as `Effort.shared_ridge` takes them.
        """
        raise NotImplementedError

    def _take_ridge(self, ridge: float) -> None:
        """Go on with another ridge."""
        self.rule = replace(self.rule, ridge=ridge)

    def screen(self, most: int) -> Screen:
        """Return what columns are screened against, at most `most` of a block being of interest.

        Raises
        ------
        TypeError
            Every column moves this engine: none may be left out.
        """
        raise TypeError(f"{type(self).__name__} looks at every column: it has no screen")

    def _candidates(self, columns: Columns) -> Columns:
        """Return the columns of a full engine's batch that could pay; the others count as presented."""
        places = self.screen(len(columns)).candidates(columns)
        self.counters.n_presented += self.members.n_usable(columns) - len(places)
        return columns.take(places)

    def entry_state(self) -> State | None:
        """Return what columns are judged against by their entries alone; None where each must be looked at."""
        return None

    def pass_over(self, verdict: np.ndarray) -> None:
        """Go on after columns of a full engine that were judged not to enter, as if they had been taken."""
        start = 0
        while start < len(verdict):
            start += self.width.width
            self.width.after(0)
        self.counters.n_presented += int((verdict > UNUSABLE).sum())
        self.counters.n_refused += int((verdict == COLLINEAR).sum())

    @abstractmethod
    def finish(self) -> Finished:
        """Find the best coefficients of the members, and what dropping each would cost; the engine stays as it is."""

    def _finished(self, coef: np.ndarray, intercept: float, inverse: np.ndarray) -> Finished:
        """Return the end at a minimum, M⁻¹ of the members being known there."""
        return Finished(coef, intercept, removal_costs(inverse, coef, self.members.n_members))

    @abstractmethod
    def _state(self) -> Record:
        """Return what `_restore` needs beside the members."""

    @abstractmethod
    def _restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from the arrays of what `_state` returned, which become the engine's own."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state, but for the columns of the members, which are read again."""
        members = self.members
        where = _Where(members.ids[: members.n_members], members.n_fixed, self.width.width, self.rule.ridge)
        records = (where, self.counters, self._state())
        return {name: array.copy() for record in records for name, array in record.pack().items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on from what `arrays` returned; the members are in place already."""
        arrays = {name: np.array(array) for name, array in arrays.items()}
        where = _Where.unpack(arrays)
        self.members.n_fixed, self.width.width = where.n_fixed, where.width
        self.counters, self.rule = Counters.unpack(arrays), replace(self.rule, ridge=where.ridge)
        self._restore(arrays)


@dataclass(frozen=True, slots=True)
class _Where(Record):
    """Who is selected, and how wide batches are."""

    ids: np.ndarray
    n_fixed: int
    width: int
    ridge: float


def entrances(
    members: Members,
    columns: Columns,
    cross: np.ndarray,
    usable: np.ndarray,
    scan: Callable[[int], tuple[int, int]],
    within: Callable[[], np.ndarray],
    after: Callable[[int], np.ndarray],
) -> Iterator[Entrance]:
    """Let candidates in one after the other, and name each once it is described in its slot.

    Parameters
    ----------
    members : Members
    columns : Columns
    cross : ndarray of shape (B, capacity), float64
        Products of the candidates with the members; those with a candidate that enters are written.
    usable : ndarray of shape (B,), bool
        Which columns may enter; a column that is dropped may come back later.
    scan : callable
        Returns the first candidate to enter from a place on, and its slot; a slot below 0: nobody.
    within : callable
        Returns the products of the batch with itself, of shape (B, B).
    after : callable
        Returns the products of the columns behind a candidate with it.
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
