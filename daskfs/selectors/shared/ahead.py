"""Steps that are computed before the fits that need them, together with those of other fits: they share passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from daskfs.matrix.base import Matrix
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.run import Run

Together = Callable[[Matrix, Sequence[tuple[Matrix | None, Any]]], Sequence[Record]]
"""``function(matrix, parts)``: the results of parts, each with its own matrix if that is not the first argument."""


@dataclass(frozen=True)
class Ahead:
    """A part of a step of a run that can be computed before the run."""

    run: Run
    name: str
    """Name of the result in the run's checkpoint."""
    part: Any
    function: Together
    """Importable by name."""
    n_paths: int
    """Size of the part."""
    most: int
    """Largest size of what is computed at once, for its memory."""


def compute_ahead(run: Run, waiting: Sequence[Ahead]) -> None:
    """Compute the parts on the workers of a run, as many together as memory and busy workers allow, and keep them."""
    if len(waiting) < 2:
        return
    base = run.matrix.base
    n_all = sum(one.n_paths for one in waiting)
    most = max(1, min(min(one.most for one in waiting), -(-n_all // run.limits.n_threads)))
    even = -(-n_all // -(-n_all // most))
    groups: list[list[Ahead]] = []
    room = 0
    for one in waiting:
        if one.n_paths > room:
            groups.append([])
            room = even
        groups[-1].append(one)
        room -= one.n_paths
    parts = [
        [(None if one.run.matrix.base is base else one.run.matrix.base, one.part) for one in group] for group in groups
    ]
    rows = run.over(run.matrix, by="rows")
    for group, found in zip(groups, rows.map("ahead", _together, parts, waiting[0].function), strict=True):
        for one, result in zip(group, found, strict=True):
            one.run.put(one.name, result)


def _together(matrix: Matrix, function: Together, parts: Sequence[tuple[Matrix | None, Any]]) -> Sequence[Record]:
    return function(matrix, parts)
