"""The pictures of docs/ that a browser takes: a report, and the page on Dask's dashboard.

    python -m benchmarks.pictures report dashboard

The report is that of pipelines/quickstart.yaml. The page is that of a run which selects 80 of 300 columns, one at a
time, and is stopped once 60 are selected. The browser is that of the tests.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from tests.browser import Tab, browser, opened

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 1100, 1500
READY = "document.readyState == 'complete' && document.querySelectorAll('.dt-search input').length > 0"
PIPELINE = """
version: 1
name: planted-genes
store: {path: genes.zarr}
select: {method: fgm, n_features_to_select: 80, n_features_per_pass: 1}
cluster: {kind: local, n_workers: 2, memory_limit: 2GiB}
output: run
"""
SELECTED, ENOUGH = re.compile(r"(\d+)\s*selected so far"), 60


def report(folder: Path) -> bytes:
    """Return a picture of a report."""
    from daskfs.pipeline.config import load_pipeline
    from daskfs.pipeline.run import run_pipeline

    given = [f"store.path={folder / 'x.zarr'}", f"output={folder / 'quickstart'}"]
    outcome = run_pipeline(load_pipeline(ROOT / "pipelines" / "quickstart.yaml", given))
    return bytes(opened(outcome.report.as_uri(), first_screen, WIDTH, HEIGHT))


async def first_screen(tab: Tab) -> bytes:
    """Return what the first screen shows, once the tables can be sorted."""
    while not await tab.value(READY):
        await asyncio.sleep(0.1)
    await tab.value("document.documentElement.style.overflow = 'hidden'")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}
    return base64.b64decode((await tab.ask("Page.captureScreenshot", format="png", clip=clip))["data"])


def make_store(path: Path, n_samples: int = 300_000, n_features: int = 300) -> None:
    """Make a store of named columns, some of which explain the target."""
    import pandas as pd

    import daskfs

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    informative = rng.permutation(n_features)[:60]
    y = X[:, informative] @ np.linspace(2.0, 0.3, 60) + rng.standard_normal(n_samples)
    names = np.array([f"gene_{j:03d}" for j in range(n_features)])
    daskfs.ingest(pd.DataFrame(X, columns=names).assign(y=y), path, target="y", tile_shape=(2048, 75))


def started(folder: Path) -> subprocess.Popen[bytes]:
    """Start a run."""
    (folder / "pipeline.yaml").write_text(PIPELINE)
    command = [sys.executable, "-m", "daskfs", "run", "pipeline.yaml", "--force"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def dashboard_of(folder: Path, run: subprocess.Popen[bytes]) -> str:
    """Return the address in the run's status file, once a feature is selected."""
    while run.poll() is None:
        with suppress(OSError, ValueError):
            state = json.loads((folder / "run.unfinished" / "status.json").read_text())["state"]
            if state["dashboard"] and state["n_selected"]:
                return str(state["dashboard"])
        time.sleep(0.2)
    raise RuntimeError(f"the run ended with {run.returncode} before it was seen")


def dashboard(folder: Path) -> bytes:
    """Return a picture of the page on Dask's dashboard."""
    make_store(folder / "genes.zarr")
    run = started(folder)
    try:
        return bytes(opened(dashboard_of(folder, run), seen_well))
    finally:
        run.send_signal(signal.SIGINT)
        run.wait()


async def seen_well(tab: Tab) -> bytes:
    """Return a picture, once enough is selected to be looked at."""
    while not (found := SELECTED.search(await tab.text())) or int(found[1]) < ENOUGH:
        await asyncio.sleep(0.5)
    return await tab.picture()


if __name__ == "__main__":
    if browser() is None:
        raise SystemExit("expected a browser, found none of chromium, chromium-browser, google-chrome")
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
            (ROOT / "docs" / f"{name}.png").write_bytes({"report": report, "dashboard": dashboard}[name](Path(made)))
