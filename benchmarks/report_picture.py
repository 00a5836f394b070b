"""The picture of a report in docs/: departures of Houston, of which FGM selects ten features, opened in a Chromium.

    DASKFS_DATA=... python benchmarks/report_picture.py [docs/report.png]

Without DASKFS_DATA, of the diabetes set that scikit-learn ships. The browser is that of the tests, `tests/browser.py`
of this checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

if __package__ is None or __package__ == "":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from daskfs.metrics import bootstrap_interval
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.report.html import render_report
from daskfs.result import SelectionResult, selection_table
from tests.browser import Tab, browser, opened

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 1100, 1500
READY = "document.readyState == 'complete' && document.querySelectorAll('.dt-search input').length > 0"


async def picture(tab: Tab) -> bytes:
    """Return what the first page shows, once the tables can be sorted."""
    while not await tab.value(READY):
        await asyncio.sleep(0.1)
    await tab.value("document.documentElement.style.overflow = 'hidden'")
    await tab.value("document.querySelector('details')?.setAttribute('open', '')")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}
    return base64.b64decode((await tab.ask("Page.captureScreenshot", format="png", clip=clip))["data"])


def print_cost() -> None:
    """Print what intervals of 100,000 test rows, and pages of few and many features, take."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=100_000)
    since = time.process_time()
    bootstrap_interval("r2", y, y + rng.normal(size=len(y)))
    print(f"interval of r2 on 100,000 rows: {time.process_time() - since:.2f} CPU seconds")
    render_report("warm", {"fgm": SelectionResult("fgm", selection_table([0], [1.0], [1.0]), 0.0, {}, 10, 10)})
    for n in (10, 1_000, 10_000):
        result = SelectionResult("fgm", selection_table(range(n), np.ones(n), np.ones(n)), 0.0, {}, 100, n)
        since = time.process_time()
        page = render_report(f"{n} features", {"fgm": result})
        print(f"page of {n:,} features: {time.process_time() - since:.2f} CPU seconds, {len(page) / 1e6:.2f} MB")


def main() -> None:
    """Run, open, take the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, nargs="?", default=ROOT / "docs" / "report.png")
    parser.add_argument("--cost", action="store_true", help="print what pages take instead")
    options = parser.parse_args()
    if options.cost:
        return print_cost()
    if browser() is None:
        raise SystemExit("expected a browser, found none of chromium, chromium-browser, google-chrome")
    folder_of_data = os.environ.get("DASKFS_DATA")
    pipeline = "flights_houston.yaml" if folder_of_data else "quickstart.yaml"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        given = [f"store.path={folder / 'x.zarr'}", f"output={folder / pipeline.removesuffix('.yaml')}"]
        if folder_of_data:
            given += ["select={method: fgm, n_features_to_select: 10}", "cluster={kind: none}"]
        outcome = run_pipeline(load_pipeline(ROOT / "pipelines" / pipeline, given))
        options.picture.write_bytes(opened(outcome.report.as_uri(), picture, WIDTH, HEIGHT))
    print(f"{options.picture}: {options.picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
