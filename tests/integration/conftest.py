from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    folder = tmp_path / "work"
    scratch = tmp_path / "scratch"
    for path in (folder, scratch):
        path.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    yield Workshop(folder)
    assert [path.name for path in scratch.iterdir()] == []
