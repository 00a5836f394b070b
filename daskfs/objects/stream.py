"""An object as a stream of bytes, fetched in pieces, with prefetching when it is read sequentially."""

from __future__ import annotations

import io
import threading
from concurrent.futures import Future
from typing import Any

from daskfs import errors, interrupts
from daskfs.objects.requests import Transient, answered, begun

SourceError = errors.SourceError.about("object-stores")

PIECE_NBYTES = 1 << 20
MOST_AHEAD = 8
"""Maximum number of prefetched pieces; it starts at one and doubles whenever the reader has to wait."""


class ObjectStream(io.RawIOBase):
    """The bytes of one version of an object.

    Parameters
    ----------
    client : obstore's client
    key : str
    shown : str
        Address of the object, for messages.
    nbytes : int
    e_tag : str
        ETag of the version; "" if the server gives none.

    Raises
    ------
    FileNotFoundError
    SourceError
        The object has changed; raised while reading.
    """

    def __init__(self, client: Any, key: str, shown: str, nbytes: int, e_tag: str) -> None:
        self._client, self._key, self._shown, self._size, self._e_tag = client, key, shown, nbytes, e_tag
        self._position, self._n_ahead, self._last = 0, 1, -1
        self._pieces: dict[int, Future[memoryview]] = {}
        self._over = threading.Event()
        self.mode, self.name = "rb", shown

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to another position."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError(22, "the position is before the beginning")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; fewer bytes are read only at the end."""
        room, filled = memoryview(buffer).cast("B"), 0
        while filled < len(room) and self._position < self._size:
            k, inside = divmod(self._position, PIECE_NBYTES)
            part = self._piece(k)[inside : inside + len(room) - filled]
            room[filled : filled + len(part)] = part
            filled += len(part)
            self._position += len(part)
        return filled

    def close(self) -> None:
        """Cancel the outstanding requests."""
        if not self.closed:
            with interrupts.held():
                self._over.set()
            self._keep(range(0))
        super().close()

    def _piece(self, k: int) -> memoryview:
        if k != self._last:
            is_next = k == self._last + 1
            n_pieces = -(-self._size // PIECE_NBYTES)
            ahead = range(k, min(n_pieces, k + 1 + (self._n_ahead if is_next else 0)))
            with interrupts.held():
                self._keep(ahead)
                if is_next and k in self._pieces and not self._pieces[k].done():
                    self._n_ahead = min(MOST_AHEAD, 2 * self._n_ahead)
                for one in ahead:
                    if one not in self._pieces:
                        self._pieces[one] = begun(self._asked, one)
                self._last = k
        return interrupts.result_of(self._pieces[k])

    def _keep(self, wanted: range) -> None:
        with interrupts.held():
            for k in [k for k in self._pieces if k not in wanted]:
                self._pieces.pop(k).cancel()

    def _asked(self, k: int) -> memoryview:
        start = k * PIECE_NBYTES
        stop = min(self._size, start + PIECE_NBYTES)
        try:
            return answered(lambda: self._fetched(start, stop), self._shown, self._over)
        except FileExistsError:  # the ETag differs
            problem = "the object changed while it was read"
            raise SourceError(problem, self._shown, "ingest it again when it is complete") from None

    def _fetched(self, start: int, stop: int) -> memoryview:
        import obstore

        options: Any = {"range": (start, stop)}
        if self._e_tag and not self._e_tag.startswith("W/"):
            options["if_match"] = self._e_tag
        found = memoryview(obstore.get(self._client, self._key, options=options).bytes())
        if len(found) != stop - start:
            raise Transient(f"expected {stop - start} bytes, found {len(found)}")
        return found
