"""How many attempts a text table takes until it is read, by somebody who corrects everything that each error names.

    python benchmarks/attempts.py [flights_houston.csv.xz]

A made table with twelve faults of six kinds; and, where a path is given, a real one whose columns are all said to be
numbers without missing values: a column that is named as having such is dropped where missing, one of texts is ignored.
"""

from __future__ import annotations

import csv
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from daskfs.errors import DaskfsError
from daskfs.sources.csv import CsvSource
from daskfs.sources.files import open_bytes

MADE: dict[str, Any] = {
    "when": {"dtype": "date", "encoding": {"date_parts": ["month"]}},
    "city": {"dtype": "string", "categories": ["A", "B"]},
    "delay": {},
    "late": {"role": "target"},
}
WRONG = {
    5: "2007-01-01,A,NAN?,1",
    12: "31/2/2007,A,1,1",
    40: "2007-01-01,A,1,1,x",
    60: "2007-01-01,C,1,1",
    70: "2007-01-01,B,,1",
    80: "2007-01-01,B,inf,1",
    90: "2007-01-01,B,1,",
    91: '2007-01-01,B,"1,5",1',
    92: "2007-13-01,B,1,1",
    93: "2007-01-01,D,1,1",
    94: "2007-01-01,B,1",
    95: "2007-01-01,A,1,?",
}
"""By their place among the rows."""


def refusal(path: Path, columns: dict[str, Any]) -> str:
    """Return what is said of a table; "" where it is read."""
    try:
        for _ in CsvSource(path, schema={"version": 1, "columns": columns}).row_blocks(10_000):
            pass
    except DaskfsError as fault:
        return str(fault)
    return ""


def made(folder: Path) -> int:
    """Return the attempts that the made table takes: each line that is named is corrected."""
    lines = [f"2007-01-{k % 27 + 1:02},A,{k},{k % 2}" for k in range(300)]
    for row, line in WRONG.items():
        lines[row] = line
    path = folder / "made.csv"
    for attempt in range(1, 100):
        path.write_text("\n".join([",".join(MADE), *lines]) + "\n", encoding="utf-8")
        said = refusal(path, MADE)
        if not said:
            return attempt
        for number in re.findall(r"made\.csv:(\d+)", said):
            lines[int(number) - 2] = "2007-01-01,A,1,1"
    raise AssertionError(said)


def real(path: Path) -> int:
    """Return the attempts that a real table takes: the schema of each column that is named is corrected."""
    with open_bytes(path) as stream:
        names = next(csv.reader([stream.readline().decode()]))
    columns: dict[str, Any] = {name: {} for name in names}
    columns[names[-1]] = {"role": "target"}
    for attempt in range(1, 100):
        said = refusal(path, columns)
        if not said:
            return attempt
        for line in said.splitlines():
            for name in re.findall(r"column '([^']*)'", line)[:1]:
                is_missing = "missing value" in line or "finite" in line
                columns[name] = columns[name] | ({"missing": "drop"} if is_missing else {"role": "ignore"})
    raise AssertionError(said)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(f"made: {made(Path(folder))} attempts")
    for given in sys.argv[1:]:
        print(f"{Path(given).name}: {real(Path(given))} attempts")
