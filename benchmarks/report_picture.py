"""The picture of a report in docs/: departures of Houston, of which FGM selects ten features, opened in a Chromium.

    DASKFS_DATA=... python benchmarks/report_picture.py [docs/report.png]

Without DASKFS_DATA, of the diabetes set that scikit-learn ships.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import sys
import tempfile
from pathlib import Path

if __package__ is None or __package__ == "":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.dashboard_picture import Tab, browser, opened
from daskfs.documents import dump_yaml
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 1100, 1500
READY = "document.readyState == 'complete' && document.querySelectorAll('.dt-search input').length > 0"


async def picture(tab: Tab) -> bytes:
    """Return what the first page shows, once the tables can be sorted."""
    while not await tab.value(READY):
        await asyncio.sleep(0.1)
    await tab.value("document.querySelector('details')?.setAttribute('open', '')")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}
    return base64.b64decode((await tab.ask("Page.captureScreenshot", format="png", clip=clip))["data"])


def main() -> None:
    """Run, open, take the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, nargs="?", default=ROOT / "docs" / "report.png")
    options = parser.parse_args()
    if browser() is None:
        raise SystemExit("expected a browser, found none of chromium, chromium-browser, google-chrome")
    folder_of_data = os.environ.get("DASKFS_DATA")
    pipeline = "flights_houston.yaml" if folder_of_data else "quickstart.yaml"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        given = [f"store.path={folder / 'x.zarr'}", f"output={folder / pipeline.removesuffix('.yaml')}"]
        if folder_of_data:
            given.append(f"select={dump_yaml({'method': 'fgm', 'n_features_to_select': 10}).strip()}")
        outcome = run_pipeline(load_pipeline(ROOT / "pipelines" / pipeline, given))
        options.picture.write_bytes(opened(outcome.report.as_uri(), picture, WIDTH, HEIGHT))
    print(f"{options.picture}: {options.picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
