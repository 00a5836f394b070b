"""The page on Dask's dashboard as a browser shows it, of the run of which the picture in docs/ is taken."""

from __future__ import annotations

import asyncio
import signal

import pytest

from benchmarks import pictures
from tests.browser import browser, opened


@pytest.mark.nightly
def test_a_browser_finds_live_numbers_on_the_page_of_a_real_run(tmp_path):
    if browser() is None:
        pytest.skip("no chromium is installed")
    pictures.make_store(tmp_path / "genes.zarr", 60_000, 300)
    run = pictures.started(tmp_path)
    try:
        first, later, errors = opened(pictures.dashboard_of(tmp_path, run), two_looks)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait()
    assert "planted-genes" in first
    assert "Selected so far" in first
    assert "gene_" in first
    assert "fgm, pass" in first
    assert first != later, "the numbers live"
    assert not errors


async def two_looks(tab):
    first = ""
    while "gene_" not in first:
        await asyncio.sleep(0.5)
        first = await tab.text()
    later = first
    while later == first:
        await asyncio.sleep(0.5)
        later = await tab.text()
    return first, later, tab.errors
