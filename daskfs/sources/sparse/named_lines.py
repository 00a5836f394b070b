"""Lines of features that have names: rooms with a table of those that a block has told."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np

from daskfs.kernels.text.hashes import NO_ID
from daskfs.kernels.text.names import enter_all
from daskfs.sources.sparse.base import NamedIds
from daskfs.sources.sparse.lines import LineFormat

FIRST_NAMES, FIRST_TEXT_NBYTES = 2**10, 2**14
"""Room of a first block, which grows."""


class NamedRoom(Protocol):
    """Arrays of names, the last of a room."""

    @property
    def ids(self) -> np.ndarray:
        """uint64"""

    @property
    def name_offsets(self) -> np.ndarray:
        """int64, one more."""

    @property
    def names(self) -> np.ndarray:
        """uint8"""

    @property
    def slots(self) -> np.ndarray:
        """uint64: a table of the ids, twice as many at least."""


RoomT = TypeVar("RoomT", bound=Any)


class NamedLineFormat(LineFormat[RoomT]):
    """How lines become rows whose features have names; the last two counts are of names, and of bytes of names."""

    tells_names: bool

    @staticmethod
    def room_for_names() -> tuple[np.ndarray, ...]:
        """Return the arrays of a `NamedRoom`."""
        return (
            np.empty(FIRST_NAMES, np.uint64),
            np.empty(FIRST_NAMES + 1, np.int64),
            np.empty(FIRST_TEXT_NBYTES, np.uint8),
            np.full(2 << FIRST_NAMES.bit_length(), NO_ID),
        )

    def emptied(self, room: RoomT) -> RoomT:
        """Return as much room, and a table without names."""
        empty = super().emptied(room)
        empty.slots.fill(NO_ID)
        return empty

    def grown(self, room: RoomT, counts: tuple[int, ...], short: int) -> RoomT:
        """Return more room, and the names in a table of it."""
        room = super().grown(room, counts, short)
        enter_all(room.ids, counts[-2], room.slots)
        return room

    def told(self, room: NamedRoom, counts: tuple[int, ...]) -> NamedIds | None:
        """Return the names of a block."""
        n_names, n_text = counts[-2:]
        if not self.tells_names:
            return None
        return NamedIds(room.ids[:n_names], room.names[:n_text], room.name_offsets[: n_names + 1])
