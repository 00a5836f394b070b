"""A headless Chromium, spoken to as its developers' tools do: what pages show, what they can be asked, what goes wrong.

`benchmarks/pictures.py` takes the pictures in docs/ by it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TEXT = """
(() => { const texts = []
  const visit = node => { if (node.nodeType === 3) texts.push(node.textContent)
    if (node.shadowRoot) visit(node.shadowRoot)
    if (node.tagName !== 'STYLE' && node.tagName !== 'SCRIPT') node.childNodes.forEach(visit) }
  visit(document.body); return texts.join(' ') })()
"""
"""All that can be read on a page, shadow roots included."""


def browser() -> str | None:
    """Return the path of a browser, None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Tab:
    """A tab of a headless browser, spoken to as its developers' tools do."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._number = socket, 0
        self.errors: list[str] = []

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return what a method of the protocol answers."""
        self._number += 1
        await self._socket.write_message(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            heard = json.loads(await self._socket.read_message())
            if heard.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(heard["params"]["exceptionDetails"].get("exception", {}).get("description")))
            if heard.get("method") == "Log.entryAdded" and heard["params"]["entry"]["level"] == "error":
                self.errors.append(str(heard["params"]["entry"]["text"]))
            if heard.get("id") == self._number:
                return dict(heard.get("result", {}))

    async def value(self, expression: str) -> Any:
        """Return what a piece of JavaScript evaluates to."""
        found = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return found.get("result", {}).get("value")

    async def text(self) -> str:
        """Return what can be read."""
        return str(await self.value(TEXT) or "")

    async def picture(self, **parameters: Any) -> bytes:
        """Return what can be seen, as PNG."""
        return base64.b64decode((await self.ask("Page.captureScreenshot", format="png", **parameters))["data"])


def opened(address: str, look: Callable[[Tab], Any], width: int = 1240, height: int = 730) -> Any:
    """Open a page and return ``await look(tab)``."""
    executable = browser()
    assert executable is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"]
        command = [executable, *flags, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                return asyncio.run(_look(Path(profile), address, look, width, height))
            finally:
                process.terminate()


async def _look(profile: Path, address: str, look: Callable[[Tab], Any], width: int, height: int) -> Any:
    from tornado.websocket import websocket_connect

    port = profile / "DevToolsActivePort"
    while not (port.exists() and len(port.read_text().splitlines()) > 1):
        await asyncio.sleep(0.1)
    listing = f"http://127.0.0.1:{port.read_text().splitlines()[0]}/json"
    pages: list[dict[str, Any]] = []
    while not pages:
        with suppress(OSError), urllib.request.urlopen(listing) as answer:
            pages = [one for one in json.load(answer) if one["type"] == "page"]
        await asyncio.sleep(0.1)
    socket = await websocket_connect(pages[0]["webSocketDebuggerUrl"], max_message_size=1 << 26)
    tab = Tab(socket)
    await tab.ask("Runtime.enable")
    await tab.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    await tab.ask("Page.navigate", url=address)
    try:
        return await look(tab)
    finally:
        socket.close()
        while await socket.read_message() is not None:  # until the browser has closed it, too
            pass
