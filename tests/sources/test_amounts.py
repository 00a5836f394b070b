"""Amounts of money as people write them, in files that are looked at, ingested by what was found, and read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from daskfs.errors import SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.looking import look_at
from tests.refusals import refused

N = 60
AMOUNTS = np.round(np.random.default_rng(0).normal(0, 3000, N), 2)


def _us(amount: float) -> str:
    return f"{amount:,.2f}"


def _eu(amount: float, thousands: str = ".") -> str:
    return _us(amount).replace(",", "?").replace(".", ",").replace("?", thousands)


FORMS: dict[str, Callable[[float], str]] = {
    "$1,234.50": lambda v: f"{'-' if v < 0 else ''}${_us(abs(v))}",
    "1.234,50 \u20ac": lambda v: f"{_eu(v)} \u20ac",
    "CHF 1,234.50": lambda v: f"CHF {_us(v)}",
    "CHF 1\u2019234.50": lambda v: "CHF " + _us(v).replace(",", "\u2019"),
    "1,234.50 USD": lambda v: f"{_us(v)} USD",
    "\u00a3 1,234.50": lambda v: f"\u00a3 {_us(v)}",
    "narrow spaces": lambda v: f"{_eu(v, chr(0x202F))}\u00a0\u20ac",
    "no-break spaces": lambda v: _eu(v, "\u00a0"),
    "(1,234.50)": lambda v: f"({_us(-v)})" if v < 0 else _us(v),
    "($1,234.50)": lambda v: f"(${_us(-v)})" if v < 0 else f"${_us(v)}",
    "1,234.50 %": lambda v: f"{_us(v)} %",
    "minus sign": lambda v: f"{chr(0x2212) if v < 0 else ''}\u20ac{_us(abs(v))}",
}


def _written(path: Path, form: Callable[[float], str], column: str, delimiter: str) -> Path:
    plain = {"x": np.arange(N) % 7 + 0.5, "y": AMOUNTS[::-1] / 7}
    pd.DataFrame({**plain, column: [form(amount) for amount in AMOUNTS]}).to_csv(path, sep=delimiter, index=False)
    return path


def _as_judged(path: Path, store: Path):
    look = look_at(path, "y")
    columns = {one.name: one.entry for one in look.inferred.columns}
    schema = {"format": look.layout.model_dump(), "columns": columns}
    return ingest(path, store, schema=schema, dtype="float64", shuffle=False)


@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("column", ["x", "y"])
@pytest.mark.parametrize("form", list(FORMS))
def test_amounts_are_read_as_they_are_written(form: str, column: str, delimiter: str, tmp_path: Path) -> None:
    store = _as_judged(_written(tmp_path / "a.csv", FORMS[form], column, delimiter), tmp_path / "a.zarr")
    rows = np.arange(N)
    found = store.read(rows, np.arange(1)) if column == "x" else store.read_target(rows)
    np.testing.assert_array_equal(np.ravel(found), AMOUNTS)


def test_what_is_no_amount_is_named(tmp_path: Path) -> None:
    path = _written(tmp_path / "a.csv", FORMS["$1,234.50"], "x", ";")
    text = path.read_text().splitlines()
    path.write_text("\n".join([*text[:18], "on request;1.5", *text[19:], ""]))
    columns = {"x": {"dtype": "currency", "thousands": ","}, "y": {"role": "target"}}
    with refused(SourceError, "text-tables", at="a.csv:19", naming=["on request"]):
        ingest(path, tmp_path / "a.zarr", schema={"format": {"delimiter": ";"}, "columns": columns})
