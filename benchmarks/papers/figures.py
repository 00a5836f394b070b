"""What a figure of a paper is, how it is measured, and the records of it.

A `Figure` says what the paper shows and how to measure the same. `measure` runs it, a data set (a seed) at a time, and
writes a record of each to ``benchmarks/records/papers.jsonl``: figure, scale, seed, date, commit, machine, versions and
rows of numbers. The page (`page.py`) and the statements about agreement are computed from these records alone.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.harness import ROOT, commit, machine, now, versions

RECORDS = ROOT / "benchmarks" / "records" / "papers.jsonl"
SCALES = ("smoke", "small", "paper")
Row = dict[str, Any]


class Panel(NamedTuple):
    """One plot of a figure: the means of `y` by `x`, a line for each value of the column `by`.

    The page has the numbers of the first panel of a figure, and of those with `is_tabled`.
    """

    title: str
    x: str
    y: str
    where: Mapping[str, Any] = {}
    by: str = "method"
    log_x: bool = False
    log_y: bool = False
    is_tabled: bool = False


class Check(NamedTuple):
    """A statement of the paper, whether our numbers agree with it, and these numbers."""

    statement: str
    agrees: bool
    found: str


class Checks(list[Check]):
    """The statements of a figure."""

    def true(self, statement: str, agrees: Any, found: str) -> None:
        """Add a statement that agrees if a condition is true."""
        self.append(Check(statement, bool(agrees), found))

    def below(self, statement: str, low: pd.Series, high: pd.Series, factor: float = 1.0, plus: float = 0.0) -> None:
        """Add a statement that agrees if ``low <= factor * high + plus`` at every point that both curves have."""
        both = pd.concat([low, high], axis=1, keys=["low", "high"], join="inner")
        holds = both["low"] <= factor * both["high"] + plus
        found = f"{span(both['low'])} against {span(both['high'])}; at {int(holds.sum())} of {len(both)} points"
        self.append(Check(statement, len(both) > 0 and bool(holds.all()), found if len(both) else "not measured"))


class Results:
    """The rows of all data sets of one figure at one scale."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = pd.DataFrame(rows)

    def of(self, **where: Any) -> pd.DataFrame:
        """Return the rows with these values."""
        kept = np.ones(len(self.rows), dtype=bool)
        for name, value in where.items():
            kept &= (self.rows[name] == value).to_numpy()
        return self.rows[kept]

    def mean(self, value: str, **where: Any) -> float:
        """Return the mean of a column over the rows with these values."""
        return float(self.of(**where)[value].mean())

    def by(self, x: str, **where: Any) -> Callable[..., pd.Series]:
        """Return the function from a method and a column to its curve by `x`."""
        return lambda method, value="accuracy", **more: self.curve(value, x, method=method, **where, **more)

    def curve(self, value: str, x: str, **where: Any) -> pd.Series:
        """Return the means of a column by another, over the rows with these values."""
        found = self.of(**where)[[x, value]].dropna()
        return found.groupby(x, sort=found[x].dtype.kind in "if")[value].mean()


@dataclass(frozen=True)
class Figure:
    """A figure or a table of a paper.

    Parameters
    ----------
    name, paper, label, title : str
        ``message-1``, ``MESSAGE``, ``Figure 1``, and what it is about.
    shows : str
        What the paper shows.
    data : str
        What is measured here, and where that differs from the paper.
    scales : dict
        For each of `SCALES` the arguments of `run`, and ``seeds``, the number of data sets.
    run : callable
        ``run(seed, **size)`` returns rows of numbers.
    panels : sequence of Panel
    agrees : callable
        From `Results` to the statements of the paper with the verdicts.
    beside : callable, optional
        From `Results` to a table (header, rows) with the paper's numbers.
    needs_data : bool
        Whether it needs the folder of real data that ``DASKFS_DATA`` names.
    """

    name: str
    paper: str
    label: str
    title: str
    shows: str
    data: str
    scales: Mapping[str, Mapping[str, Any]]
    run: Callable[..., list[Row]]
    panels: Sequence[Panel]
    agrees: Callable[[Results], Checks]
    beside: Callable[[Results], tuple[list[str], list[list[str]]]] | None = None
    needs_data: bool = False


def number(value: float) -> str:
    """Return three significant digits."""
    if not np.isfinite(value):
        return "–"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        digits = 0 if value == 0 else max(0, 2 - int(np.floor(np.log10(abs(value)))))
        return f"{value:,.{digits}f}"
    return f"{value:.1e}"


def span(values: pd.Series | Sequence[float]) -> str:
    """Return the range of some numbers."""
    low, high = float(np.min(values)), float(np.max(values))
    return number(low) if number(low) == number(high) else f"{number(low)} to {number(high)}"


def cpu_seconds(action: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return what a call returns, and the CPU seconds that it took."""
    started = time.process_time()
    result = action(*arguments)
    return result, time.process_time() - started


def measure(figure: Figure, scale: str, n_seeds: int | None = None) -> list[Row]:
    """Run a figure at a scale, and replace its records of that scale."""
    size = dict(figure.scales[scale])
    seeds = range(n_seeds or size["seeds"])
    del size["seeds"]
    made_by = {**commit("docs/papers.md", "docs/papers"), "machine": machine(), "versions": versions()}
    records = []
    for seed in seeds:
        wall, cpu = time.perf_counter(), time.process_time()
        with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
            warnings.simplefilter("ignore")
            rows = figure.run(seed, **size)
        place = {"figure": figure.name, "scale": scale, "seed": seed, "size": size}
        took = {"wall_s": round(time.perf_counter() - wall, 2), "cpu_s": round(time.process_time() - cpu, 2)}
        records.append({**place, "date": now(), **made_by, **took, "rows": [_rounded(row) for row in rows]})
    kept = [one for one in read_records() if (one["figure"], one["scale"]) != (figure.name, scale)]
    RECORDS.parent.mkdir(exist_ok=True)
    kept = sorted([*kept, *records], key=lambda one: (one["figure"], SCALES.index(one["scale"]), one["seed"]))
    RECORDS.write_text("".join(json.dumps(one) + "\n" for one in kept), encoding="utf-8")
    return records


def _rounded(row: Row) -> Row:
    """Return a row with numbers of Python, of five significant digits."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
    return {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in plain.items()}


def read_records() -> list[Row]:
    """Return all records."""
    return [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()] if RECORDS.exists() else []


def results_of(records: Sequence[Row]) -> Results:
    """Return the rows of some records, each with its seed."""
    return Results({**row, "seed": one["seed"]} for one in records for row in one["rows"])
