"""The picture of the page on Dask's dashboard in docs/: a run on two processes, opened in a headless Chromium.

    python benchmarks/dashboard_picture.py [docs/dashboard.png]

The run selects 80 of 300 columns of planted data, one at a time, and is stopped once the picture is taken. The browser
is that of the tests, `tests/browser.py` of this checkout.
"""

from __future__ import annotations

import argparse
import asyncio
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

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser import Tab, browser, opened  # noqa: E402

PIPELINE = """
version: 1
name: planted-genes
store: {path: genes.zarr}
select: {method: fgm, n_features_to_select: 80, n_features_per_pass: 1}
cluster: {kind: local, n_workers: 2, memory_limit: 2GiB}
output: run
"""
SELECTED, ENOUGH = re.compile(r"(\d+)\s*selected so far"), 60


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
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
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
    parser.add_argument("picture", type=Path, nargs="?", default=ROOT / "docs" / "dashboard.png")
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
