"""The scripts of the gallery are short, use documented names, and run at night without a warning."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.rglob("plot_*.py"))
MOST_LINES = 60
DOCUMENTED = {
    "daskfs": None,
    "daskfs.pipeline.config": {"build_pipeline"},
    "daskfs.pipeline.run": {"run_pipeline"},
    "daskfs.sources.plink": {"PlinkSource"},
    "daskfs.sources.sparse.text": {"TextSource"},
}
"""What scripts may import of daskfs: pages of the documentation name it."""


def test_there_are_twenty_scripts_in_folders_with_a_heading():
    assert len(SCRIPTS) >= 20
    for folder in {GALLERY, *(script.parent for script in SCRIPTS)}:
        assert (folder / "GALLERY_HEADER.rst").exists(), folder


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_is_short_and_has_a_title_and_a_picture(script):
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) < MOST_LINES
    title, line, _ = ast.get_docstring(ast.parse(text)).split("\n", 2)
    assert line == "=" * len(title)
    assert "plt.show()" in text


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_imports_what_the_documentation_names(script):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        for name in [alias.name for alias in node.names] if isinstance(node, ast.Import) else []:
            assert name.partition(".")[0] != "daskfs" or name == "daskfs"
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "daskfs":
            assert {alias.name for alias in node.names} <= DOCUMENTED[node.module]


@pytest.mark.nightly
@pytest.mark.every_case
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs_without_a_warning(script, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    quiet = ["-W", "error", "-W", "ignore:FigureCanvasAgg is non-interactive:UserWarning"]
    quiet += ["-W", "ignore:Creating scratch directories is taking:UserWarning"]  # of Dask, on a busy disk
    command = [sys.executable, *quiet, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert not list(tmp_path.iterdir())
