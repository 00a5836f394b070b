"""The picture of the page on Dask's dashboard in docs/: a run on two processes, opened in a headless Chromium.

    python benchmarks/dashboard_picture.py [docs/dashboard.png]

The run selects 80 of 300 columns of planted data, one at a time, and is stopped once the picture is taken.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PIPELINE = """
version: 1
name: planted-genes
store: {path: genes.zarr}
select: {method: fgm, n_features_to_select: 80, n_features_per_pass: 1}
cluster: {kind: local, n_workers: 2, memory_limit: 2GiB}
output: run
"""
SELECTED, ENOUGH = re.compile(r"(\d+)\s*selected so far"), 60
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


def make_store(path: Path, n_samples: int = 300_000, n_features: int = 300) -> None:
    """Make a store of named columns, a few of which the target depends on."""
    import daskfs

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    informative = rng.permutation(n_features)[:60]
    y = X[:, informative] @ np.linspace(2.0, 0.3, 60) + rng.standard_normal(n_samples)
    names = np.array([f"gene_{j:03d}" for j in range(n_features)])
    import pandas as pd

    daskfs.ingest(pd.DataFrame(X, columns=names).assign(y=y), path, target="y", tile_shape=(2048, 75))


def started(folder: Path) -> subprocess.Popen[bytes]:
    """Start a run."""
    (folder / "pipeline.yaml").write_text(PIPELINE)
    command = [sys.executable, "-m", "daskfs", "run", "pipeline.yaml", "--force"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def dashboard_of(folder: Path, run: subprocess.Popen[bytes], n_selected: int = 1) -> str:
    """Return the address that the run's status file tells, once it has selected so many features."""
    while run.poll() is None:
        with suppress(OSError, ValueError):
            state = json.loads((folder / "run.unfinished" / "status.json").read_text())["state"]
            if state["dashboard"] and (state["n_selected"] or 0) >= n_selected:
                return str(state["dashboard"])
        time.sleep(0.2)
    raise RuntimeError(f"the run ended with {run.returncode} before it was seen")


async def seen_well(tab: Tab) -> bytes:
    """Return a picture, once enough is selected to be looked at."""
    while not (found := SELECTED.search(await tab.text())) or int(found[1]) < ENOUGH:
        await asyncio.sleep(0.5)
    return await tab.picture()


def main() -> None:
    """Take the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, nargs="?", default=Path(__file__).parents[1] / "docs" / "dashboard.png")
    options = parser.parse_args()
    if browser() is None:
        raise SystemExit("expected a browser, found none of chromium, chromium-browser, google-chrome")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        make_store(folder / "genes.zarr")
        run = started(folder)
        try:
            options.picture.write_bytes(opened(dashboard_of(folder, run), seen_well))
        finally:
            run.send_signal(signal.SIGINT)
            run.wait()
    print(f"{options.picture}: {options.picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
