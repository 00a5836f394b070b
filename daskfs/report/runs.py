"""Reports of finished runs, read from disk: the page of one run, or a comparison of several."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from daskfs.errors import RunError
from daskfs.files import written_whole
from daskfs.report.comparison import differences, overlaps
from daskfs.report.html import render_report
from daskfs.result import SelectionResult


def load_run(folder: str | os.PathLike[str]) -> dict[str, SelectionResult]:
    """Return the results of a run by label: one result, or those of the sub-folders of several selections.

    Raises
    ------
    RunError
        There is no finished run.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError("no such folder", str(folder), "pass the folder of a finished run")
    result = SelectionResult.load(folder)
    labels = [path.parent.name for path in folder.glob("*/result.json")]
    if not labels:
        return {result.method: result}
    order = _order_of_selections(folder)
    return {label: SelectionResult.load(folder / label) for label in sorted(labels, key=lambda x: (order.get(x, 0), x))}


def _order_of_selections(folder: Path) -> dict[str, int]:
    """Return the position of each label in the pipeline, which is its order in metrics.json."""
    try:
        return {label: k for k, label in enumerate(json.loads((folder / "metrics.json").read_text(encoding="utf-8")))}
    except (OSError, ValueError):
        return {}


def write_report(
    folders: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str] | None = None,
    *,
    title: str | None = None,
) -> Path:
    """Write the HTML report of one run, or a comparison of several.

    Parameters
    ----------
    folders : sequence of path-like
        Folders of finished runs.
    path : path-like, optional
        Path of the page; default: ``report.html`` in the folder of one run, ``comparison.html`` beside the first of
        several.
    title : str, optional
        Title of the page; default: the names of the folders.

    Returns
    -------
    Path
        Path of the page.

    Raises
    ------
    RunError
        A folder holds no finished run, or the page cannot be written.
    """
    runs, results = _results_of(folders)
    if path is None:
        path = runs[0] / "report.html" if len(runs) == 1 else runs[0].parent / "comparison.html"
    return write_page(Path(path), render_report(title or " and ".join(run.name for run in runs), results))


def _results_of(folders: Sequence[str | os.PathLike[str]]) -> tuple[list[Path], dict[str, SelectionResult]]:
    """Return the absolute paths of the folders, and all their results by label."""
    runs = [Path(os.path.normpath(Path(folder).absolute())) for folder in folders]
    results: dict[str, SelectionResult] = {}
    for run in runs:
        loaded = load_run(run)
        for label, result in loaded.items():
            name = label if len(runs) == 1 else run.name if len(loaded) == 1 else f"{run.name}/{label}"
            results[name if name not in results else f"{run}/{label}"] = result
    return runs, results


def report_as_json(folders: Sequence[str | os.PathLike[str]]) -> dict[str, Any]:
    """Return the contents of the report as a JSON-serialisable mapping: records, overlaps and differences of results.

    Parameters
    ----------
    folders : sequence of path-like
        Folders of finished runs.
    """
    _, results = _results_of(folders)
    records = {label: asdict(result.to_record()) for label, result in results.items()}
    compared = [asdict(one) | {"is_noise": one.is_noise} for one in differences(results)]
    return {"results": records, "jaccard": overlaps(results), "differences": compared}


def write_page(path: Path, page: str) -> Path:
    """Write a page atomically."""
    try:
        with written_whole(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
    except OSError as fault:
        raise RunError(f"cannot write the report: {fault.strerror}", str(path), "choose another path") from None
    return path
