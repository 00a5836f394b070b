"""Notebooks from scripts: ``python notebooks/make.py [NAME ...]`` runs them (with DASKFS_DATA) and keeps what they show.

A script is Python that runs by itself; ``# %%`` begins a cell, ``# %% [markdown]`` one of text. Change the script, not the
notebook.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbclient
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

HERE = Path(__file__).parent
SCRIPTS = sorted(path for path in HERE.glob("*.py") if path.stem != "make")
MOST_BYTES = 200_000
"""Of a notebook with what it shows."""


def notebook_of(script: Path) -> NotebookNode:
    """Return the notebook of a script, without what it shows."""
    cells = []
    for number, part in enumerate(re.split(r"^# %%", script.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]):
        head, _, text = part.partition("\n")
        if "[markdown]" in head:
            cell = new_markdown_cell(re.sub(r"^# ?", "", text, flags=re.MULTILINE).strip())
        else:
            cell = new_code_cell(text.strip())
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    return new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})


def executed(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Return a notebook with what its cells show in an empty folder, without times and warnings of the kernel."""
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell["outputs"] = [one for one in cell["outputs"] if one.get("name") != "stderr"]
    notebook.metadata.pop("language_info", None)
    return notebook


def main() -> None:
    """Write the notebooks asked for, or all."""
    import tempfile

    for script in SCRIPTS:
        if sys.argv[1:] and script.stem not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            notebook = executed(notebook_of(script), Path(folder))
        text = nbformat.writes(notebook) + "\n"
        if len(text) > MOST_BYTES:
            raise SystemExit(f"{script.stem}: {len(text):,} bytes, more than {MOST_BYTES:,}: show less")
        script.with_suffix(".ipynb").write_text(text, encoding="utf-8")
        print(f"{script.stem}: {len(text):,} bytes")


if __name__ == "__main__":
    main()
