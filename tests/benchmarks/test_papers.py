"""The page of the papers' figures is that of its records, and its statements can fail."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from benchmarks.papers import figures, page
from benchmarks.papers.__main__ import FIGURES, main


@pytest.mark.slow
def test_the_page_and_its_pictures_are_those_of_the_records():
    text, pictures = page.page(FIGURES, figures.read_records())
    remedy = "run  python -m benchmarks.papers --page"
    assert page.PAGE.read_text(encoding="utf-8") == text, remedy
    assert {path.name: path.read_text(encoding="utf-8") for path in page.PICTURES.glob("*.svg")} == pictures, remedy


def test_every_figure_was_run_and_its_records_say_where():
    records = figures.read_records()
    assert {one["figure"] for one in records} == {figure.name for figure in FIGURES}
    for one in records:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one["date"])
        assert re.fullmatch(r"[0-9a-f]{10}", one["commit"])
        assert one["machine"]["cores"] >= 1
        assert {"python", "numpy", "numba"} <= set(one["versions"])


def test_each_figure_has_a_name_and_all_scales():
    assert len({one.name for one in FIGURES}) == len(FIGURES)
    for figure in FIGURES:
        assert set(figure.scales) == set(figures.SCALES)
        assert all("seeds" in size for size in figure.scales.values())


def test_a_statement_about_curves_fails_at_one_point():
    low, high = pd.Series({1: 0.1, 2: 0.3}), pd.Series({1: 0.2, 2: 0.2})
    checks = figures.Checks()
    checks.below("", low, high)
    checks.below("", low, high, factor=2.0)
    checks.below("", low, pd.Series({3: 1.0}))
    checks.true("", low[1] > low[2], "")
    assert [check.agrees for check in checks] == [False, True, False, False]
    assert "at 1 of 2 points" in checks[0].found
    assert checks[2].found == "not measured"


def test_the_page_shows_the_largest_scale_that_was_run():
    records = [{"figure": "a", "scale": scale} for scale in ("smoke", "small", "smoke")] + [
        {"figure": "b", "scale": "paper"}
    ]
    assert [one["scale"] for one in page.shown_records(records, "a")] == ["small"]


def test_an_unknown_name_is_refused(capsys):
    assert main(["--only", "message-9"]) == 1
    assert "message-9" in capsys.readouterr().err
    assert main(["--list", "--only", "fgm-1"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["message-1", "os-1", "fgm-2", "fgm-15", "mission-table-1"])
def test_a_figure_is_measured_and_its_records_replace_the_old_ones(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "RECORDS", tmp_path / "records" / "papers.jsonl")
    monkeypatch.setattr(page, "PAGE", tmp_path / "papers.md")
    monkeypatch.setattr(page, "PICTURES", tmp_path / "papers")
    for _ in range(2):
        assert main(["--only", name, "--seeds", "1"]) == 0
    assert "agrees" in capsys.readouterr().out
    records = [json.loads(line) for line in figures.RECORDS.read_text().splitlines()]
    assert [(one["figure"], one["scale"], one["seed"]) for one in records] == [(name, "smoke", 0)]
    assert "- **Agrees**: " in page.PAGE.read_text()
