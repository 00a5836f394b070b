"""Reports as a browser shows them: nothing goes wrong and nothing is fetched, tables sort and search, phones show them.

With AXE_CORE, the path of axe.min.js (npm package axe-core), pages are also examined for who cannot see or point.
"""

import asyncio
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from daskfs.documents import dump_yaml
from daskfs.evidence import CalibrationBin, DataRecord, EvidenceRecord, FeatureRecord, NearMiss, QualityRecord
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.report.html import render_report
from daskfs.report.runs import write_report
from daskfs.result import SelectionResult
from daskfs.selected_table import selection_table
from tests.browser import browser, opened

if browser() is None:
    pytest.skip("no chromium is installed", allow_module_level=True)

AXE = os.environ.get("AXE_CORE")
EVIL = "<script>alert(1)</script>"
ALERTS = "window.alerts = []; window.alert = text => alerts.push(text);"
READY = "document.readyState == 'complete' && document.querySelectorAll('.dt-search input').length > 0"
LINES = "[...document.querySelector('table.sorted').tBodies[0].rows].map(row => row.cells[1].innerText)"


def evil_result(n_features=30):
    names = np.array([EVIL, "=cmd()", *(f"colour=<b>{k}</b>" for k in range(n_features - 2))], dtype=object)
    bins = [CalibrationBin(x, x + 0.1, x - 0.2, x + 0.3, 20) for x in (0.0, 1.0, 2.0)]
    quality = QualityRecord(
        60, f"the mean, {EVIL}", {"r2": 0.0}, {"r2": [0.4, 0.6]}, bins, [-1.0, 0.0, 1.0], [30, 30], ["no", EVIL],
        [[20, 10], [5, 25]], "r2", [1, 2, 3], [0.1, 0.3, 0.5],
    )  # fmt: skip
    of = [EVIL, "=cmd()", *["colour"] * (n_features - 2)]
    return SelectionResult(
        "fgm",
        selection_table(range(n_features), np.linspace(3, -3, n_features), np.linspace(1, 0, n_features), names),
        0.5,
        {"loss": EVIL},
        n_samples=50,
        n_features=100,
        history=pd.DataFrame({"pass": [1, 2], "features": [10, 20], "objective": [5.0, 3.0], "gap": [0.9, 0.5]}),
        history_kind="passes",
        metrics={"r2": 0.5},
        notes=[EVIL],
        score_kind="standardised coefficient",
        evidence=EvidenceRecord(
            DataRecord(EVIL, EVIL, ["no", EVIL], "20%", 5_000, 3, 0, 1),
            [FeatureRecord(name, 0.5, 0.0, 1.0) for name in of],
            [NearMiss("=near", 0.1, EVIL, 0.9), NearMiss("other", 0.05, None, None)],
            [f"possible leak: {EVIL}"],
            quality,
            "daskfs run pipeline.yaml",
            {"daskfs": "0"},
        ),
    )


def examined(page, look=None, width=1280):
    """Open a page, and return what `look` finds; nothing has gone wrong, run or been fetched."""

    async def seen(tab):
        await tab.ask("Page.enable")
        await tab.ask("Page.addScriptToEvaluateOnNewDocument", source=ALERTS)
        await tab.ask("Page.reload")
        while not await tab.value(READY):
            await asyncio.sleep(0.1)
        found = None if look is None else await look(tab)
        await tab.ask("Log.enable")  # tells what was logged before, too
        fetched = await tab.value("performance.getEntriesByType('resource').map(one => one.name)")
        assert (tab.errors, fetched, await tab.value("window.alerts")) == ([], [], [])
        overflow = await tab.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, "what is too wide scrolls in itself"
        if AXE:
            await tab.value(Path(AXE).read_text() + "; 1")
            told = await tab.value(
                "axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes[0].html])))"
            )
            assert json.loads(told) == []
        return found

    return opened(page.as_uri(), seen, width=width)


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render_report(EVIL, {EVIL: evil_result()}), encoding="utf-8")
    return path


def test_tables_sort_and_search_by_mouse_and_by_keyboard(page):
    async def look(tab):
        found = [await tab.value(LINES)]
        await tab.value("document.querySelector('table.sorted').tHead.rows[0].cells[2].click()")
        found.append(await changed(tab, found[-1]))
        await tab.value("document.querySelector('table.sorted').querySelector('[tabindex=\"0\"]').focus()")
        for kind in ("keyDown", "keyUp"):
            key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
            await tab.ask("Input.dispatchKeyEvent", type=kind, **key)
        found.append(await changed(tab, found[-1]))
        await tab.value("document.querySelector('.dt-search input').focus()")
        await tab.ask("Input.insertText", text="cmd")
        found.append(await changed(tab, found[-1]))
        return found

    async def changed(tab, before):
        for _ in range(200):
            now = await tab.value(LINES)
            if now != before:
                return now
            await asyncio.sleep(0.05)
        raise AssertionError(f"still {before}")

    as_ranked, by_effect, by_rank, searched = examined(page, look)
    group = "colour (28 features)"
    assert as_ranked == [EVIL, "=cmd()", group]
    assert by_effect == [group, "=cmd()", EVIL], "by the largest of the group, which is negative"
    assert by_rank == as_ranked
    assert searched == ["=cmd()"]


def test_a_line_of_many_levels_opens(page):
    async def look(tab):
        height = "document.querySelector('details').offsetHeight"
        closed = await tab.value(height)
        await tab.value("document.querySelector('summary').click()")
        return closed, await tab.value(height)

    closed, opened_height = examined(page, look)
    assert opened_height > 10 * closed


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_too_light_and_dark(page, scheme):
    async def look(tab):
        await tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        return await tab.value("getComputedStyle(document.body).backgroundColor")

    assert examined(page, look, width=400) == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 27)"}[scheme]


@pytest.mark.slow
def test_paper_shows_whole_tables_with_every_line_open(page):
    async def look(tab):
        await tab.ask("Emulation.setEmulatedMedia", media="print")
        return await tab.value("document.querySelector('details table').getBoundingClientRect().height > 100")

    assert examined(page, look, width=700), "A4 between its margins"


@pytest.mark.nightly
def test_ten_thousand_features_scroll_to_the_last(tmp_path):
    path = tmp_path / "long.html"
    n = 10_000
    result = evil_result(n)
    result.evidence.features[:] = [FeatureRecord(f"{k}", 1.0, -1.0, 1.0) for k in range(n)]
    path.write_text(render_report("long", {"fgm": result}), encoding="utf-8")

    async def look(tab):
        last = "document.querySelector('table.sorted').tBodies[0].lastElementChild"
        await tab.value(f"{last}.scrollIntoView()")
        return await tab.value(f"[{last}.cells[0].innerText, {last}.getBoundingClientRect().top < innerHeight]")

    assert examined(path, look) == ["10000", True]


def report_of(folder, name, table, select, **more):
    """Run a pipeline over a table with the target y, and return its report."""
    table.to_csv(folder / "table.csv", index=False)
    columns = {"y": {"role": "target"}, "colour": {"dtype": "string"}}
    schema = {"version": 1, "name": "table", "columns": columns, "other_columns": "feature"}
    (folder / "schema.yaml").write_text(dump_yaml(schema))
    document = {
        "version": 1,
        "name": name,
        "source": {"kind": "csv", "path": "table.csv", "schema": "schema.yaml"},
        "store": {"path": "table.zarr"},
        "split": {"test": 0.25},
        "select": select,
        "output": name,
        **more,
    }
    (folder / "pipeline.yaml").write_text(dump_yaml(document))
    return run_pipeline(load_pipeline(folder / "pipeline.yaml")).report


def evil_table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(400, 12)), columns=[EVIL, "=cmd()", *(f"x{k}" for k in range(10))])
    table["colour"] = rng.choice(["red", "<b>blue</b>", "green"], 400)
    table["y"] = table[EVIL] * 3 - table["=cmd()"] * 2 + 4 * (table["colour"] == "red") + rng.normal(size=400)
    return table


@pytest.mark.nightly
def test_the_report_of_each_selector_is_well_and_so_is_their_comparison(tmp_path):
    methods = ("message", "fgm", "online_substitution", "async_online_substitution", "mission")
    asked = [{"method": name} | ({} if name == "message" else {"n_features_to_select": 5}) for name in methods]
    for name, select in [*zip(methods, asked, strict=True), ("all", asked)]:
        examined(report_of(tmp_path, name, evil_table(), select))
        cells = pd.read_csv(tmp_path / name / "selected.csv")["name"]
        assert not cells.str.match(r"[=+@-]").any(), "which a spreadsheet would run"
    examined(write_report([tmp_path / "message", tmp_path / "fgm"]))


HOW_SURE = {
    "cv": ({"method": "fgm", "n_features_to_select": "cv"}, {}, "Cross-validation of the number of features"),
    "auto": ({"method": "auto"}, {}, "Cross-validation of the number of features"),
    "intervals": ({"method": "message"}, {}, "interval"),
    "stability": ({"method": "fgm", "n_features_to_select": 4}, {"stability": {"n_pairs": 5}}, "tability"),
    "knockoffs": ({"method": "fgm", "n_features_to_select": 6}, {"knockoffs": {"fdr": 0.5}}, "nockoff"),
    "split": ({"method": "fgm", "n_features_to_select": 4}, {"split_inference": {}}, "valid after the selection"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", HOW_SURE)
def test_what_says_how_sure_a_selection_is_is_well_too(tmp_path, name, width):
    select, more, word = HOW_SURE[name]

    async def look(tab):
        return await tab.value("document.body.innerText")

    text = examined(report_of(tmp_path, name, evil_table(), select, **more), look, width=width)
    assert word in text
