"""A folder to work in, the commands as a user gives them, and what they must never do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import daskfs
from daskfs.cli import app
from daskfs.documents import dump_yaml
from tests.processes import Process

COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
from daskfs.__main__ import main
main()
"""
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(daskfs.__file__).parents[1])}  # where it is not installed
PROGRESS = re.compile(r".*: ([\d,.]+( million)? \w+ in )?\d+ (s|min|h)( \d+ \w+)?|.*, \d+ \w+( \d+ \w+)? (left|so far)")
"""A line of a step that took a second, and one of what goes on for a minute."""


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    output: str
    errors: str

    @property
    def complaints(self) -> list[str]:
        """The lines on stderr, without those of steps that are done, and the one that names a topic."""
        lines = [line for line in self.errors.splitlines() if not PROGRESS.fullmatch(line)]
        return [line for line in lines if not line.startswith("more: daskfs explain ")]


class Workshop:
    """A folder, and the command `daskfs` given in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | bytes | dict[str, Any]) -> Path:
        """Write text, bytes or a mapping (as YAML) to a file."""
        if isinstance(content, dict):
            content = dump_yaml(content)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def pipeline(self, file: str = "pipeline.yaml", **sections: Any) -> Path:
        """Write a pipeline: over table.csv unless told otherwise."""
        document = {
            "version": 1,
            "name": "trial",
            "source": {"kind": "csv", "path": "table.csv", "target": "y"},
            "store": {"path": "trial.zarr"},
            "select": {"method": "message", "n_subsets": 3},
            "output": "trial",
        }
        given = document | sections
        return self.write(file, {key: value for key, value in given.items() if value is not None})

    def daskfs(self, *arguments: object) -> Ended:
        """Give a command in this process; what is no exit of its own is raised."""
        done = CliRunner().invoke(app, list(map(str, arguments)), prog_name="daskfs")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    def start(self, *arguments: object, **options: Any) -> Process:
        """Start a command in a process of its own, which ends with the block that uses it."""
        command = [sys.executable, "-W", "ignore", "-c", COMMAND, *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return Process(command, cwd=self.folder, env=ENVIRONMENT, **pipes, **options)

    def finish(self, process: Process) -> Ended:
        """Wait for a command that was started."""
        output, errors = process.communicate()
        return Ended(process.returncode, output, errors)

    def contents(self) -> dict[str, int]:
        """Every file with its size, and every folder, that can be found here."""
        paths = sorted(path for path in self.folder.rglob("*") if path.name != "numba")
        return {str(p.relative_to(self.folder)): p.stat().st_size if p.is_file() else -1 for p in paths}


def refused(ended: Ended, *expected: str, places: int = 1) -> None:
    """Check that a command ended with exit code 2 and one line per place that says all that is expected."""
    __tracebackhide__ = True
    assert ended.code == 2, str(ended)
    assert "Traceback" not in ended.errors, ended.errors
    assert len(ended.complaints) == places, str(ended)
    for words in expected:
        assert words in ended.errors, f"{words!r} not in {ended.errors!r}"


def table(n_rows: int = 60, *, change: Callable[[list[list[str]]], None] | None = None) -> str:
    """Return the text of a table with the columns a, b, c and y, which is 2 a - b + noise; line i + 1 is rows[i]."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, 3)).round(6)
    y = (2 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n_rows)).round(6)
    rows = [["a", "b", "c", "y"], *([*map(str, x), str(t)] for x, t in zip(X.tolist(), y.tolist(), strict=True))]
    if change is not None:
        change(rows)
    return "".join(",".join(row) + "\n" for row in rows)
