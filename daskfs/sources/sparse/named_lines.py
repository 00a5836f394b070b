"""Line formats whose features have names: buffers with a hash table of the names in a block."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np

from daskfs.kernels.text.hashes import NO_ID
from daskfs.kernels.text.names import enter_all
from daskfs.sources.sparse.base import NamedIds
from daskfs.sources.sparse.lines import LineFormat

FIRST_NAMES, FIRST_TEXT_NBYTES = 2**10, 2**14
"""Capacity of the buffers of the first block, which grow."""


class NamedRoom(Protocol):
    """Arrays of names; the last arrays of the buffers."""

    @property
    def ids(self) -> np.ndarray:
        """uint64"""

    @property
    def name_offsets(self) -> np.ndarray:
        """int64, of length n_names + 1"""

    @property
    def names(self) -> np.ndarray:
        """uint8"""

    @property
    def slots(self) -> np.ndarray:
        """uint64: a hash table of the ids, at least twice as long."""


RoomT = TypeVar("RoomT", bound=Any)


class NamedLineFormat(LineFormat[RoomT]):
    """How lines become rows with named features; the last two counts are numbers of names and of bytes of names."""

    tells_names: bool

    @staticmethod
    def room_for_names() -> tuple[np.ndarray, ...]:
        """Return new arrays of a `NamedRoom`."""
        return (
            np.empty(FIRST_NAMES, np.uint64),
            np.empty(FIRST_NAMES + 1, np.int64),
            np.empty(FIRST_TEXT_NBYTES, np.uint8),
            np.full(2 << FIRST_NAMES.bit_length(), NO_ID),
        )

    def emptied(self, room: RoomT) -> RoomT:
        """Return new buffers of the same size, with an empty hash table."""
        empty = super().emptied(room)
        empty.slots.fill(NO_ID)
        return empty

    def grown(self, room: RoomT, counts: tuple[int, ...], short: int) -> RoomT:
        """Return larger buffers, with the names entered into a larger hash table."""
        room = super().grown(room, counts, short)
        enter_all(room.ids, counts[-2], room.slots)
        return room

    def names_of(self, room: NamedRoom, counts: tuple[int, ...]) -> NamedIds | None:
        """Return the names in a block."""
        n_names, n_text = counts[-2:]
        if not self.tells_names:
            return None
        return NamedIds(room.ids[:n_names], room.names[:n_text], room.name_offsets[: n_names + 1])
