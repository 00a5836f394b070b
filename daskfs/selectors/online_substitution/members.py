"""The members of online substitution: the columns that are selected at present, each a group of one or in groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from daskfs.kernels.substitution.products import (
    NO_WEIGHT,
    are_usable,
    combine,
    cross_products,
    row_products,
)
from daskfs.selectors.online_substitution.columns import Columns
from daskfs.selectors.online_substitution.groups import StreamedGroups


def products_within(columns: Columns, weight: np.ndarray, total: float) -> np.ndarray:
    """Return ⟨z_a, z_b⟩ of columns with each other, of shape (B, B); `total` is the sum of the weights."""
    products = cross_products(columns.rows, columns.rows, weight)
    return _centred(products, columns, columns.offset, columns.factor, total)


def _centred(
    products: np.ndarray, columns: Columns, offset: np.ndarray, factor: np.ndarray, total: float
) -> np.ndarray:
    products /= total
    if columns.is_int8:
        products -= columns.offset[:, None] * offset
        products *= columns.factor[:, None] * factor
    return products


class Layout(NamedTuple):
    """The positions of the selected groups."""

    groups: np.ndarray
    """Numbers of the groups, shape (n_groups,); those that are never dropped first."""
    slots: np.ndarray
    """Slots of the members, group after group, shape (n_members,)."""
    bounds: np.ndarray
    """Group m has ``slots[bounds[m]:bounds[m + 1]]``."""
    n_fixed: int
    """Number of groups that are never dropped."""

    def slots_of(self, which: np.ndarray) -> np.ndarray:
        """Return the slots of some of the groups, ascending."""
        return np.sort(self.slots[np.repeat(which, np.diff(self.bounds))])


class _Kept(NamedTuple):
    """The selection when `Members.keep` was called."""

    n_members: int
    descriptions: tuple[np.ndarray, ...]
    rows: dict[int, np.ndarray]
    """Columns that have been overwritten since, by slot."""


class Members:
    """Up to `capacity` columns of `n_samples` values, in slots; the first `n_fixed` are never dropped.

    Parameters
    ----------
    capacity, n_samples : int
    dtype : dtype
        Of the columns.
    weight : ndarray of shape (n_samples,), or `NO_WEIGHT`
        Of the samples.
    groups : StreamedGroups, optional
        Groups that enter and leave as a whole; None: each column is a group of its own.
    """

    def __init__(
        self,
        capacity: int,
        n_samples: int,
        dtype: np.dtype,
        weight: np.ndarray = NO_WEIGHT,
        groups: StreamedGroups | None = None,
    ) -> None:
        self.capacity, self.n_members, self.n_fixed = capacity, 0, 0
        self.weight, self.groups = weight, groups
        self.total = float(weight.sum()) if len(weight) else float(n_samples)
        self.rows = np.zeros((capacity, n_samples), dtype)
        self.ids = np.full(capacity, -1, np.int64)
        self.mean, self.scale, self.square = np.zeros(capacity), np.ones(capacity), np.ones(capacity)
        self.offset, self.factor = np.zeros(capacity), np.ones(capacity)
        self._kept = _Kept(0, (), {})

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return int(self.rows.nbytes)

    @property
    def held(self) -> np.ndarray:
        """The values of the members, of shape (n_members, n_samples), sharing memory."""
        return self.rows[: self.n_members]

    @property
    def columns(self) -> Columns:
        """The members, sharing memory."""
        k = self.n_members
        return Columns(self.ids[:k], self.rows[:k], self.mean[:k], self.scale[:k], self.square[:k])

    def describe(self, slot: int, columns: Columns, b: int) -> None:
        """Give a slot to a candidate. Its values follow with `copy_in`."""
        self.ids[slot] = columns.ids[b]
        self.mean[slot], self.scale[slot], self.square[slot] = columns.mean[b], columns.scale[b], columns.square[b]
        self.offset[slot], self.factor[slot] = columns.offset[b], columns.factor[b]
        self.n_members = max(self.n_members, slot + 1)

    def copy_in(self, columns: Columns, placed: dict[int, int]) -> None:
        """Copy the values of candidates that entered: ``placed[slot]`` is the candidate's position in the batch."""
        for slot, b in placed.items():
            self._write(slot, columns.rows[b])

    def _write(self, slot: int, row: np.ndarray) -> None:
        if slot < self._kept.n_members and slot not in self._kept.rows:
            self._kept.rows[slot] = self.rows[slot].copy()
        self.rows[slot] = row

    def add(self, columns: Columns) -> None:
        """Add columns in the next slots."""
        first = self.n_members
        for b in range(len(columns)):
            self.describe(first + b, columns, b)
        self.copy_in(columns, {first + b: b for b in range(len(columns))})

    def keep(self) -> None:
        """Save the selection for `revert`; columns that are overwritten from now on are kept."""
        self._kept = _Kept(self.n_members, tuple(part.copy() for part in self._descriptions()), {})

    def revert(self) -> None:
        """Restore what `keep` saved; it stays saved."""
        self.n_members = self._kept.n_members
        for part, before in zip(self._descriptions(), self._kept.descriptions, strict=True):
            part[...] = before
        for slot, row in self._kept.rows.items():
            self.rows[slot] = row

    def forget(self) -> None:
        """Delete what `keep` saved."""
        self._kept = _Kept(0, (), {})

    def _descriptions(self) -> tuple[np.ndarray, ...]:
        return self.ids, self.mean, self.scale, self.square, self.offset, self.factor

    def layout(self) -> Layout:
        """Return the present positions of the groups."""
        labels = self.labels(self.ids[: self.n_members])
        present, first, place = np.unique(labels, return_index=True, return_inverse=True)
        slots = np.argsort(first[place], kind="stable")
        order = np.argsort(first)
        bounds = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(present))[order])])
        return Layout(present[order], slots, bounds, int((first < self.n_fixed).sum()))

    def labels(self, ids: np.ndarray) -> np.ndarray:
        """Return the groups of columns."""
        return ids if self.groups is None else self.groups.group_of[ids]

    def counted(self, groups: np.ndarray) -> np.ndarray:
        """Return what groups count: 1, or their numbers of columns."""
        return np.ones(len(groups), np.int64) if self.groups is None else self.groups.counted[groups]

    def pieces(self, ids: np.ndarray, most: int) -> Iterator[slice]:
        """Yield slices of columns: whole groups of at most `most` columns, or one larger group."""
        if self.groups is not None:
            return self.groups.pieces(ids, most)
        return (slice(start, start + most) for start in range(0, len(ids), most))

    def room(self, layout: Layout) -> int:
        """Return how much can still be added, as it is counted, before a group must be dropped."""
        limit = self.capacity if self.groups is None else self.groups.limit
        return int(limit - self.counted(layout.groups).sum())

    @property
    def is_full(self) -> bool:
        """Whether a candidate must replace selected features, even if it counts only 1."""
        return self.n_members == self.capacity if self.groups is None else self.room(self.layout()) <= 0

    def n_usable(self, columns: Columns) -> int:
        """Return the number of candidates, columns or groups, among the columns."""
        if self.groups is None:
            return int(self.usable(columns).sum())
        found = np.unique(self.labels(columns.ids))
        return int((~np.isin(found, self.layout().groups)).sum())

    def exchange(self, dropped: np.ndarray, columns: Columns) -> np.ndarray:
        """Put columns into the slots of dropped ones, then into new slots; fill gaps with the last members.

        Parameters
        ----------
        dropped : ndarray of int
            Slots, ascending.
        columns : Columns

        Returns
        -------
        ndarray of shape (n_members,)
            The former slot of the content of each slot; numbers from the former number of members on stand for the new
            columns.
        """
        k, q = self.n_members, len(columns)
        size = k - len(dropped) + q
        slots = np.concatenate([dropped, np.arange(k, k + q)])[:q]
        source = np.arange(max(k, size))
        source[slots] = k + np.arange(q)
        holes = dropped[q:][dropped[q:] < size]
        source[holes] = np.setdiff1d(np.arange(size, k), dropped)
        for slot in holes.tolist():
            self._write(slot, self.rows[source[slot]])
            for part in self._descriptions():
                part[slot] = part[source[slot]]
        for b, slot in enumerate(slots.tolist()):
            self.describe(slot, columns, b)
            self._write(slot, columns.rows[b])
        self.n_members, self.ids[size:] = size, -1
        return source[:size]

    def usable(self, columns: Columns) -> np.ndarray:
        """Return which columns may enter: not constant, not members; bool of shape (B,)."""
        found: np.ndarray = are_usable(columns.ids, columns.scale, self.ids[: self.n_members])
        return found

    def cross(self, columns: Columns) -> np.ndarray:
        """Return ⟨z_b, z_k⟩ of a block with the members, of shape (B, n_members)."""
        k = self.n_members
        products = cross_products(columns.rows, self.held, self.weight)
        return self._centred(products, columns, self.offset[:k], self.factor[:k])

    def cross_with(self, columns: Columns, slots: np.ndarray) -> np.ndarray:
        """Return ⟨z_b, z_k⟩ of a block with the members in some slots, of shape (B, n_slots)."""
        products = cross_products(columns.rows, self.rows, self.weight, slots)
        return self._centred(products, columns, self.offset[slots], self.factor[slots])

    def within(self, columns: Columns) -> np.ndarray:
        """Return ⟨z_a, z_b⟩ of a block with itself, of shape (B, B)."""
        return products_within(columns, self.weight, self.total)

    def against(self, columns: Columns, one: Columns) -> np.ndarray:
        """Return ⟨z_b, z⟩ of a block with one column, of shape (B,)."""
        if columns.is_int8 and not len(self.weight):
            products = cross_products(columns.rows, one.rows)  # integers, so the same result as with the other kernel
        else:
            products = row_products(columns.rows, one.rows[0], self.weight)[:, None]
        return self._centred(products, columns, one.offset, one.factor)[:, 0]

    def _centred(self, products: np.ndarray, columns: Columns, offset: np.ndarray, factor: np.ndarray) -> np.ndarray:
        return _centred(products, columns, offset, factor, self.total)

    def against_target(self, columns: Columns, target: np.ndarray) -> np.ndarray:
        """Return ⟨z_b, target⟩ of a block, of shape (B,). If columns are centred, the target must be too."""
        products: np.ndarray = row_products(columns.rows, target, self.weight) * (columns.factor / self.total)
        return products

    def predict(self, coef: np.ndarray, intercept: float, out: np.ndarray) -> np.ndarray:
        """Write ``intercept + Σ_k coef_k z_k`` into `out`, float64 of shape (n_samples,)."""
        raw = coef[: self.n_members] * self.factor[: self.n_members]
        combine(self.rows, raw, intercept - float(raw @ self.offset[: self.n_members]), out)
        return out

    def coefficients(self, coef: np.ndarray) -> tuple[np.ndarray, Any]:
        """Return the coefficients of the unstandardised columns, and their contribution to the intercept.

        With several classes, `coef` has shape (n_classes, capacity), and each class has a row and a number.
        """
        k = self.n_members
        raw = coef[..., :k] / self.scale[:k]
        return raw, -(raw @ self.mean[:k])
