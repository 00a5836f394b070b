"""Run the commands of docs/tutorial.md in an empty folder, and put their output into the page.

python docs/make_tutorial.py                    # the simulated table only; other transcripts stay as they are
DASKFS_DATA=... python docs/make_tutorial.py    # those of the real tables, too
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

PAGE = Path(__file__).parent / "tutorial.md"
WIDTH = 110


class Session(NamedTuple):
    """Commands that run in a new folder, with their data."""

    name: str
    data: str | None
    commands: tuple[str, ...]


SESSIONS = {
    one.name: one
    for one in (
        Session(
            "messy",
            None,
            (
                "daskfs init sales.csv --target revenue",
                "daskfs plan sales.yaml",
                "daskfs run sales.yaml",
                "daskfs select sales.csv --target revenue --method fgm --n-features 6",
                "daskfs report runs/sales runs/sales-fgm --output compared.html",
            ),
        ),
        Session(
            "flights",
            "flights_houston/flights_houston.csv.xz",
            ("daskfs init flights_houston.csv.xz --target ArrDelay", "daskfs run flights_houston.yaml"),
        ),
        Session("adult", "adult/adult.txt.gz", ("daskfs init adult.txt.gz", "daskfs run adult.yaml")),
        Session(
            "kddcup99",
            "kddcup99/kddcup.data_10_percent.gz",
            ("daskfs init kddcup.data_10_percent.gz", "daskfs run kddcup-data_10_percent.yaml"),
        ),
        Session(
            "power",
            "power_hourly/clean_household_power_consumption.csv.gz",
            (
                "daskfs init clean_household_power_consumption.csv.gz --target Global_active_power",
                "daskfs run clean_household_power_con.yaml",
            ),
        ),
    )
}


def messy_table(path: Path, n_rows: int = 6_000) -> None:
    """Write a table as spreadsheets export it."""
    rng = np.random.default_rng(19)
    visits = rng.gamma(2.0, 300.0, n_rows)
    discount = rng.uniform(0, 40, n_rows)
    area = rng.normal(250.0, 60.0, n_rows)
    temperature = rng.normal(11.0, 8.0, n_rows)
    day = np.datetime64("2023-01-01") + rng.integers(0, 730, n_rows)
    weekday = (day.astype("datetime64[D]").view("int64") - 4) % 7  # 1970-01-05 was a Monday
    town = rng.choice(900, n_rows, p=(weights := 1 / np.arange(1, 901)) / weights.sum())
    town[:900] = rng.permutation(900)  # each at least once
    kind = rng.choice(["market", "branch", "kiosk"], n_rows, p=[0.2, 0.5, 0.3])
    revenue = (
        400 + 1.8 * visits - 14.0 * discount + 2.5 * area + 260 * (kind == "market") + 190 * (weekday == 5)
        + 140 * (town < 3) + rng.normal(0, 60.0, n_rows)
    )  # fmt: skip
    words = np.array(
        ["delivery", "late", "shelf", "empty", "customer", "happy", "goods", "till", "broken", "good", "ordered"]
    )
    columns = {
        "number": [str(100_001 + i) for i in range(n_rows)],
        "date": [f"{d:%m/%d/%Y}" for d in day.tolist()],
        "town": [f"town {number:03d}" for number in town],
        "kind": kind.tolist(),
        "visits": [f"{value:,.1f}" for value in visits],
        "discount": [f"{value:.1f}%" for value in discount],
        "area": [f"{value:.1f}" for value in area],
        "temperature": [f"{value:.1f}" for value in temperature],
        "remark": [" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(n_rows)],
        "revenue": [f"${value:,.2f}" for value in revenue],
    }
    for name in ("visits", "discount", "area", "temperature", "kind"):
        for i in np.flatnonzero(rng.uniform(size=n_rows) < 0.05):
            columns[name][i] = ""
    columns["area (copy)"] = columns["area"]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([list(columns), *zip(*columns.values(), strict=True)])


def prepare(session: Session, folder: Path) -> None:
    """Put the table of a session into a folder."""
    if session.data is None:
        messy_table(folder / "sales.csv")
    else:
        source = Path(os.environ["DASKFS_DATA"]) / session.data
        (folder / source.name).symlink_to(source)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of daskfs; standard output and errors are one text."""
    words = [sys.executable, "-m", *shlex.split(command)]
    return subprocess.run(
        words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=580
    )


def transcript(session: Session) -> str:
    """Return the commands of a session, each with its output."""
    text = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(session, folder)
        for command in session.commands:
            done = run(command, folder)
            if done.returncode:
                raise SystemExit(f"{command}\n{done.stdout}")
            text.append(f"$ {command}\n{_shown(done.stdout, folder)}".rstrip())
    return "\n\n".join(text)


def _shown(text: str, folder: Path) -> str:
    """Return output as the page shows it: without the folder, long lines cut."""
    text = text.replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
    return "\n".join(line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..." for line in text.splitlines())


def with_transcripts(page: str, transcripts: dict[str, str]) -> str:
    """Return the page with its transcripts replaced."""
    for name, text in transcripts.items():
        pattern = re.compile(rf"(<!-- transcript: {name} -->\n\n```text\n).*?(\n```)", re.DOTALL)
        page, n_places = pattern.subn(lambda match, text=text: match[1] + text + match[2], page)
        if n_places != 1:
            raise SystemExit(f"{PAGE} has {n_places} places for the transcript of {name}")
    return page


def main() -> None:
    """Run all sessions whose data exists, and write the page."""
    chosen = [one for one in SESSIONS.values() if one.data is None or "DASKFS_DATA" in os.environ]
    if sys.argv[1:]:
        chosen = [one for one in chosen if one.name in sys.argv[1:]]
    for one in chosen:
        text = transcript(one)
        PAGE.write_text(with_transcripts(PAGE.read_text(encoding="utf-8"), {one.name: text}), encoding="utf-8")
        print(one.name)


if __name__ == "__main__":
    main()
