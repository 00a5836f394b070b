"""The names of active features, kept beside their ids while rows pass by; collisions of names are noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from daskfs.errors import Caution
from daskfs.kernels.sketch.names import enter, pick_out
from daskfs.kernels.sketch.rows import EMPTY
from daskfs.matrix.passing import Passing
from daskfs.sources.sparse.base import ToldNames

MOST_SHOWN, MOST_COLLISIONS = 3, 1000
"""Collisions that are told by name; that are remembered."""
COMPARED_ROWS, COMPARED_EVERY = 256, 1 << 14
"""Rows whose names are compared with those that are known, and how often."""
FEWEST = 1024
"""Names of features that are not active any more, and may be again."""


@dataclass
class FeatureNames:
    """Names of the features that are active, as many as these.

    A feature becomes active in a row that has it, and the block of this row tells its name: nobody has to remember the
    names of all that ever occurred, and no second pass looks for them. Names that are known are compared with those of
    some rows in every `COMPARED_EVERY`: what has two names often has both there.

    Attributes
    ----------
    names : dict of int to str
        By id.
    collisions : dict of int to (str, str)
        Two names that an id had, of as many ids as are remembered.
    """

    are_ids: bool = True
    """Else numbers of columns."""
    names: dict[int, str] = field(default_factory=dict)
    collisions: dict[int, tuple[str, str]] = field(default_factory=dict)
    _digests: dict[int, int] = field(default_factory=dict)

    def note_rows(self, rows: Passing, piece: slice, find_active: Callable[[], np.ndarray]) -> None:
        """Keep the names of features that are active after these rows, as far as the rows tell them."""
        found = list(rows.told(piece))
        if not found:
            return
        active = find_active()
        for told in found:
            self.note(told, active)
        first = -(-piece.start // COMPARED_EVERY) * COMPARED_EVERY
        if first < piece.stop:
            for told in rows.told(slice(first, min(first + COMPARED_ROWS, piece.stop))):
                self.compare(told, active)

    def note(self, told: ToldNames, active: np.ndarray) -> None:
        """Keep the names of active features that have none among those that a block tells, and those of few others.

        Parameters
        ----------
        told : ToldNames
        active : ndarray of shape (n_active,), uint64
        """
        nameless = np.array([j for j in active.tolist() if j not in self.names], np.uint64)
        if len(nameless):
            self.compare(told, nameless)
        if len(self.names) > 2 * len(active) + FEWEST:
            self._keep(set(active.tolist()))

    def compare(self, told: ToldNames, active: np.ndarray) -> None:
        """Compare the names of active features with those that a block tells; keep what had none."""
        told = told.among(active)
        n_slots = 1 << max(4, (4 * len(active)).bit_length())
        keys, digest_of = np.full(n_slots, EMPTY, np.uint64), np.zeros(n_slots, np.uint64)
        known = [self._digests.get(j, 0) for j in active.tolist()]
        enter(np.ascontiguousarray(active), np.array(known, np.uint64), keys, digest_of)
        found, digests = np.empty(len(told.ids), np.int64), np.empty(len(told.ids), np.uint64)
        n_found = pick_out(told.ids, told.text, told.offsets, keys, digest_of, found, digests)
        for k, digest in zip(found[:n_found].tolist(), digests[:n_found].tolist(), strict=True):
            text = told.text[told.offsets[k] : told.offsets[k + 1]].tobytes()
            self._take(int(told.ids[k]), text.decode("utf-8", "backslashreplace"), digest)

    def _take(self, j: int, name: str, digest: int) -> None:
        if j not in self.names:
            self.names[j], self._digests[j] = name, digest
        elif len(self.collisions) < MOST_COLLISIONS:
            self.collisions.setdefault(j, (self.names[j], name))

    def _keep(self, active: set[int]) -> None:
        self.names = {j: name for j, name in self.names.items() if j in active}
        self._digests = {j: digest for j, digest in self._digests.items() if j in active}

    def include(self, other: FeatureNames) -> None:
        """Take the names that another model met, beside which this one learnt."""
        for j, name in other.names.items():
            self._take_other(j, name, other)
        self.collisions = dict(list({**other.collisions, **self.collisions}.items())[:MOST_COLLISIONS])

    def _take_other(self, j: int, name: str, other: FeatureNames) -> None:
        if self.names.get(j, name) != name or j not in self.names:
            self._take(j, name, other._digests[j])

    def notes(self, selected: np.ndarray) -> list[str]:
        """Return what a reader must know of the names of what was selected."""
        notes: list[str] = []
        collided = [j for j in selected.tolist() if j in self.collisions]
        if collided:
            pairs = [f"{self.collisions[j][0]!r} and {self.collisions[j][1]!r}" for j in collided[:MOST_SHOWN]]
            more = f" and {len(collided) - MOST_SHOWN:,} more" if len(collided) > MOST_SHOWN else ""
            notes.append(Caution(f"different features with one id, told apart by nothing: {', '.join(pairs)}{more}"))
        elif self.collisions:
            notes.append(f"{len(self.collisions):,} ids had two names each; none of them was selected")
        n_nameless = sum(j not in self.names for j in selected.tolist()) if self.names else 0
        if n_nameless:
            notes.append(f"{n_nameless:,} selected features were never named; they are called by their ids")
        return notes

    def __getitem__(self, ids: np.ndarray) -> list[str]:
        """Return the names of ids; the number itself where one has none (x and the number of a column)."""
        prefix = "" if self.are_ids else "x"
        return [self.names.get(j, f"{prefix}{j}") for j in ids.tolist()]
