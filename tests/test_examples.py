"""The examples in docstrings say what happens."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from daskfs.errors import DaskfsError

ROOT = Path(__file__).parents[1]
FILES = sorted(path for path in (ROOT / "daskfs").rglob("*.py") if ">>>" in path.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_example_gives_what_it_says(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        DaskfsError, "add_note", lambda fault, note: None
    )  # doctest takes the last line for the message
    module = import_module(".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
