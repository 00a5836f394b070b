"""The tests that a change can touch: ``pytest --changed`` since the last commit, ``--changed REV`` since another.

A test is touched if its file, or a file that this one imports, directly or through others, was changed. Methods are
loaded by name, not by imports: a test reaches those that its parameters or its file name. Of other files than Python
(pages, pipelines, results) those tests are touched whose files name them or their folder.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import daskfs
from daskfs.methods import METHODS, MODEL_SELECTION
from tests.imports import PATH_OF, ROOT, imports_of

METHODS_AND_SELECTORS = METHODS | MODEL_SELECTION
CLASSES = {place.partition(":")[2]: place for place in METHODS_AND_SELECTORS.values()} | daskfs._PLACE_OF
PLACES = METHODS_AND_SELECTORS | CLASSES | {"-m daskfs": "daskfs.cli"}
"""What is loaded by name -> its module, or ``module:name``."""
EVERYTHING = {ROOT / "pyproject.toml", ROOT / "tests" / "conftest.py"}


@cache
def changed_since(revision: str) -> set[Path]:
    """Return the files that differ from a commit, or that git does not know yet."""
    found: set[Path] = set()
    for command in (["diff", "--name-only", revision], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(
                f"expected a commit that git knows for --changed, found {revision!r}: {done.stderr.strip()}"
            )
        found |= {ROOT / line for line in done.stdout.splitlines()}
    return found


def may_be_touched(test_file: Path, changed: set[Path]) -> bool:
    """Return whether a test of a file can be touched; a file that names `METHODS` or `CASES` may mean any method."""
    text = test_file.read_text(encoding="utf-8")
    return re.search(r"\b(METHODS|CASES|find_method)\b", text) is not None or is_touched(test_file, (), changed)


def is_touched(test_file: Path, parameters: Iterable[Any], changed: set[Path]) -> bool:
    """Return whether a change of files can change the outcome of a test."""
    if changed & (_reached(test_file) | EVERYTHING | {folder / "conftest.py" for folder in test_file.parents}):
        return True
    named = {name for value in parameters for name in _named_by(value)} or _named_in(test_file)
    if any(changed & _reached(_file_of(PLACES[name])) for name in named):
        return True
    return any(path.suffix != ".py" and _names(test_file, path) for path in changed)


def _named_by(value: Any) -> set[str]:
    """Return what a parameter stands for: the name of a method, a case of one, an estimator."""
    return {value if isinstance(value, str) else "", getattr(value, "method", ""), type(value).__name__} & PLACES.keys()


@cache
def _named_in(test_file: Path) -> set[str]:
    """Return what a test's file names, of what is loaded by name."""
    text = test_file.read_text(encoding="utf-8")
    command = {"-m daskfs"} if '"-m", "daskfs"' in text else set()
    texts = set(re.findall(r"[\"'/](\w+)", text))  # a method's name is a text, "message" else a word like others
    return command | (set(re.findall(r"\w+", text)) & CLASSES.keys()) | (texts & PLACES.keys())


def _names(test_file: Path, path: Path) -> bool:
    text = test_file.read_text(encoding="utf-8")
    return path.name in text or f'"{path.parent.name}"' in text


@cache
def _reached(start: Path) -> set[Path]:
    """Return a file and all that it imports, directly or through others."""
    found, new = {start}, [start]
    while new:
        for _, module in imports_of(new.pop()):
            path = _file_of(module)
            if path is not None and path not in found:
                found.add(path)
                new.append(path)
    return found


def _file_of(module: str) -> Path | None:
    """Return the file of a module of ours, of ``module:Class`` too."""
    room, _, name = module.partition(":")[0].partition(".")
    if room == "daskfs":
        return PATH_OF.get(name)
    path = ROOT / room / Path(*name.split(".")).with_suffix(".py") if room == "tests" and name else None
    return path if path is not None and path.is_file() else None
