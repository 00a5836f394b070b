"""A network that stands still: lines through here carry nothing for a while, and then all that has come meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOOK_S = 0.02
_PIECE_NBYTES = 1 << 16


class _Relay:
    """Lines between those who connect here and a server.

    Parameters
    ----------
    server : str
        tcp://host:port
    mark : Path
        The lines stand still once it exists.
    seconds : float
        For so long.
    """

    def __init__(self, server: str, mark: Path, seconds: float) -> None:
        host, _, port = server.removeprefix("tcp://").rpartition(":")
        self._server, self._mark, self._seconds = (host, int(port)), mark, seconds
        self.address, self.is_open, self._ended = "", threading.Event(), threading.Event()
        self._lines: set[asyncio.Task[None]] = set()
        self._open: set[asyncio.StreamWriter] = set()

    def run(self) -> None:
        """Carry until `close`."""
        asyncio.run(self._run())

    def close(self) -> None:
        """Break all lines."""
        self._ended.set()

    async def _run(self) -> None:
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        listening = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.address = f"tcp://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        self.is_open.set()
        has_stood = False
        while not self._ended.is_set():
            await asyncio.sleep(_LOOK_S)
            if self._mark.exists() and not has_stood:
                has_stood = True
                self._goes_on.clear()
                asyncio.get_running_loop().call_later(self._seconds, self._goes_on.set)
        listening.close()
        self._goes_on.set()
        for writer in tuple(self._open):
            writer.transport.abort()
        await asyncio.gather(*tuple(self._lines), return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None
        self._lines.add(line)
        self._open.add(writer)
        try:
            there, back = await asyncio.open_connection(*self._server)
            self._open.add(back)
            await asyncio.gather(self._pour(reader, back), self._pour(there, writer))
            self._open.discard(back)
        except OSError:  # the server is gone
            writer.close()
        finally:
            self._open.discard(writer)
            self._lines.discard(line)

    async def _pour(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await source.read(_PIECE_NBYTES):
                await self._goes_on.wait()
                target.write(piece)
                await target.drain()
        target.close()


@contextmanager
def relayed(server: str, mark: Path, seconds: float) -> Iterator[str]:
    """Yield an address whose lines lead to a server, and stand still for so long once a file is there."""
    relay = _Relay(server, mark, seconds)
    thread = threading.Thread(target=relay.run, daemon=True)
    thread.start()
    relay.is_open.wait()
    try:
        yield relay.address
    finally:
        relay.close()
        thread.join(10.0)
