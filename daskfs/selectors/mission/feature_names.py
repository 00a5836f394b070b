"""The names of active features, stored with their ids while rows are read; collisions of names are detected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from daskfs.errors import Caution
from daskfs.kernels.sketch.names import enter, pick_out
from daskfs.kernels.sketch.rows import EMPTY
from daskfs.matrix.passing import Passing
from daskfs.sources.sparse.base import BlockNames

MOST_SHOWN, MOST_COLLISIONS = 3, 1000
"""Number of collisions that are reported by name, and that are remembered."""
COMPARED_ROWS, COMPARED_EVERY = 256, 1 << 14
"""Number of rows whose names are compared with known names, and the interval in rows."""
FEWEST = 1024
"""Number of names kept of features that are no longer active and may become so again."""


@dataclass
class FeatureNames:
    """Names of the active features.

    A feature becomes active in a row that contains it, and the block of this row has its name. So neither all names
    that ever occurred nor a second pass are needed. In some rows of every `COMPARED_EVERY`, known names are compared
    with those of the block: an id with two names often has both there.

    Attributes
    ----------
    names : dict of int to str
        By id.
    collisions : dict of int to (str, str)
        Two names of the same id, for as many ids as are remembered.
    """

    are_ids: bool = True
    """Otherwise they are column numbers."""
    names: dict[int, str] = field(default_factory=dict)
    collisions: dict[int, tuple[str, str]] = field(default_factory=dict)
    _digests: dict[int, int] = field(default_factory=dict)

    def note_rows(self, rows: Passing, piece: slice, find_active: Callable[[], np.ndarray]) -> None:
        """Store the names of features that are active after these rows, if the rows have them."""
        found = list(rows.names_in(piece))
        if not found:
            return
        active = find_active()
        for names in found:
            self.note(names, active)
        first = -(-piece.start // COMPARED_EVERY) * COMPARED_EVERY
        if first < piece.stop:
            for names in rows.names_in(slice(first, min(first + COMPARED_ROWS, piece.stop))):
                self.compare(names, active)

    def note_all(self, rows: Passing, keys: np.ndarray) -> None:
        """Store the names of all active features, if ids encode their names."""
        active = np.unique(keys)
        if (names := rows.names_of(active)) is not None:
            self.note(names, active)

    def note(self, names: BlockNames, active: np.ndarray) -> None:
        """Store the missing names of active features from a block, and drop names that are no longer needed.

        Parameters
        ----------
        names : BlockNames
        active : ndarray of shape (n_active,), uint64
        """
        nameless = np.array([j for j in active.tolist() if j not in self.names], np.uint64)
        if len(nameless):
            self.compare(names, nameless)
        if len(self.names) > 2 * len(active) + FEWEST:
            self._keep(set(active.tolist()))

    def compare(self, names: BlockNames, active: np.ndarray) -> None:
        """Compare the names of active features with those of a block; store missing ones."""
        names = names.among(active)
        n_slots = 1 << max(4, (4 * len(active)).bit_length())
        keys, digest_of = np.full(n_slots, EMPTY, np.uint64), np.zeros(n_slots, np.uint64)
        known = [self._digests.get(j, 0) for j in active.tolist()]
        enter(np.ascontiguousarray(active), np.array(known, np.uint64), keys, digest_of)
        found, digests = np.empty(len(names.ids), np.int64), np.empty(len(names.ids), np.uint64)
        n_found = pick_out(names.ids, names.text, names.offsets, keys, digest_of, found, digests)
        for k, digest in zip(found[:n_found].tolist(), digests[:n_found].tolist(), strict=True):
            text = names.text[names.offsets[k] : names.offsets[k + 1]].tobytes()
            self._take(int(names.ids[k]), text.decode("utf-8", "backslashreplace"), digest)

    def _take(self, j: int, name: str, digest: int) -> None:
        if j not in self.names:
            self.names[j], self._digests[j] = name, digest
        elif len(self.collisions) < MOST_COLLISIONS:
            self.collisions.setdefault(j, (self.names[j], name))

    def _keep(self, active: set[int]) -> None:
        self.names = {j: name for j, name in self.names.items() if j in active}
        self._digests = {j: digest for j, digest in self._digests.items() if j in active}

    def include(self, other: FeatureNames) -> None:
        """Add the names of another model that was trained in parallel."""
        for j, name in other.names.items():
            if self.names.get(j, name) != name or j not in self.names:
                self._take(j, name, other._digests[j])
        self.collisions = dict(list({**other.collisions, **self.collisions}.items())[:MOST_COLLISIONS])

    def notes(self, selected: np.ndarray) -> list[str]:
        """Return the notes on the names of selected features."""
        notes: list[str] = []
        collided = [j for j in selected.tolist() if j in self.collisions]
        if collided:
            pairs = [f"{self.collisions[j][0]!r} and {self.collisions[j][1]!r}" for j in collided[:MOST_SHOWN]]
            more = f" and {len(collided) - MOST_SHOWN:,} more" if len(collided) > MOST_SHOWN else ""
            shown = f"{', '.join(pairs)}{more}"
            notes.append(Caution(f"different features with the same id, which cannot be distinguished: {shown}"))
        elif self.collisions:
            notes.append(f"{len(self.collisions):,} ids had two names each; none of them was selected")
        n_nameless = sum(j not in self.names for j in selected.tolist()) if self.names else 0
        if n_nameless:
            notes.append(f"{n_nameless:,} selected features have no name in the data; their ids are shown instead")
        return notes

    def __getitem__(self, ids: np.ndarray) -> list[str]:
        """Return the names of ids; the number itself if there is none (for a column, x and its number)."""
        prefix = "" if self.are_ids else "x"
        return [self.names.get(j, f"{prefix}{j}") for j in ids.tolist()]
