"""The gauntlet: `Auto(goal="prediction")` beside the best of all peers, set by set, losses first.

    python benchmarks/quality.py --keep rows.jsonl                 # measures, 38 open sets
    python benchmarks/quality.py --show --keep rows.jsonl --cells  # puts what was measured into quality.md
    python benchmarks/quality.py --page                            # writes gauntlet.md

Judged twice. "own": a method by its own predictions where it has any (l1, LassoCV, l1-cv, enet-cv, OMP, all of ours),
and by a ridge or logistic refit of its columns where it only ranks (f-test, trees, forest, boosting). "refit": all by
that refit. The best peer of a set is the best of all peers and all numbers of features, known in hindsight; ours is one
model, made without a number. A set is held where ours is not below the best peer's mean by more than its standard error
over the folds. The rank is among the peers, each at its best number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

HERE = Path(__file__).parent
CELLS, PAGE = HERE / "quality.md", HERE / "gauntlet.md"
TITLE = "## Cells with memory and stability"
HEAD = (
    "| set | method | asked | selected | own | refit | CPU s | MiB | stability |\n|---|---|---|---|---|---|---|---|---|"
)
PEERS = ("l1", "LassoCV", "l1-cv", "enet-cv", "OMP", "f-test", "trees", "forest", "boosting")
OURS = ("auto", "message", "prediction", "online_substitution", "fgm", "mission")
DEFAULT = "auto"
ROUNDING = 5e-4
"""Of the cells, which have three digits."""

Key: TypeAlias = tuple[str, str, str]


class Cell(NamedTuple):
    """A method on a set."""

    n_selected: float
    own: tuple[float, float] | None
    """Mean and standard error."""
    refit: tuple[float, float] | None
    cpu_s: float
    mib: str = "-"
    stability: str = "-"

    def judged(self, how: str) -> tuple[float, float] | None:
        """Return mean and standard error by its own predictions where it has any, or as "refit" says, refitted."""
        return self.own if how == "own" and self.own is not None else self.refit


def read_cells(path: Path = CELLS) -> dict[Key, Cell]:
    """Return all cells by set, method and number of features asked for."""
    found: dict[Key, Cell] = {}
    has_memory = False
    for line in path.read_text(encoding="utf-8").splitlines():
        has_memory = has_memory or line.startswith(TITLE)
        parts = [part.strip() for part in line.strip("| ").split("|")]
        if len(parts) != 9 or "±" not in parts[5]:
            continue
        more = parts[7:9] if has_memory else ["-", "-"]
        found[parts[0], parts[1], parts[2]] = Cell(
            float(parts[3]), _number(parts[4]), _number(parts[5]), float(parts[6]), *more
        )
    return found


def _number(text: str) -> tuple[float, float] | None:
    found = re.match(r"(\S+) ± (\S+)", text)
    return (float(found[1]), float(found[2])) if found else None


def put_cells(measured: Mapping[tuple[str, str, Any], Mapping[str, Any]], path: Path = CELLS) -> None:
    """Put cells, as `quality.summary` has them, into the last table of `path`, in place of those of the same name."""
    text = path.read_text(encoding="utf-8")
    begun, _, last = text.partition(TITLE)
    lines = {}
    for line in last.splitlines():
        parts = [part.strip() for part in line.strip("| ").split("|")]
        if len(parts) == 9 and "±" in parts[5]:
            lines[parts[0], parts[1], parts[2]] = line
    for (name, method, size), cell in measured.items():
        own, refit = (f"{cell[how][0]:.3f} ± {cell[how][1]:.3f}" if how in cell else "-" for how in ("own", "refit"))
        more = [f"{cell['mib']:.0f}" if "mib" in cell else "-"]
        more += [f"{cell['stability']:.2f}" if cell.get("stability", float("nan")) == cell.get("stability") else "-"]
        values = [name, method, size, f"{cell['n_selected']:.0f}", own, refit, f"{cell['cpu_s']:.2f}", *more]
        lines[name, method, str(size)] = f"| {' | '.join(map(str, values))} |"
    whole = "\n".join([HEAD, *lines.values()])
    path.write_text(f"{begun.rstrip()}\n\n{TITLE}\n\n{whole}\n", encoding="utf-8")


class Standing(NamedTuple):
    """How one of ours stands on a set."""

    name: str
    ours: Cell
    mean: float
    peer: str
    best: tuple[float, float]
    rank: int
    n_ranked: int

    @property
    def gap(self) -> float:
        """In standard errors of the best peer; below -1 the set is lost."""
        return (self.mean - self.best[0]) / max(self.best[1], ROUNDING)

    @property
    def is_held(self) -> bool:
        """Whether ours is within a standard error of the best peer."""
        return self.mean >= self.best[0] - self.best[1] - ROUNDING / 5


def standings(cells: Mapping[Key, Cell], method: str, size: str, how: str) -> list[Standing]:
    """Return how a method stands on every set on which it was measured, the worst first."""
    found = []
    for name in dict.fromkeys(key[0] for key in cells):
        ours = cells.get((name, method, size))
        if ours is None or (judged := ours.judged(how)) is None:
            continue
        by_peer: dict[str, tuple[tuple[float, float], str]] = {}
        for (of, peer, _), cell in cells.items():
            value = cell.judged(how)
            if of != name or peer not in PEERS or value is None:
                continue
            if peer not in by_peer or value > by_peer[peer][0]:
                by_peer[peer] = value, f"{peer} ({cell.n_selected:.0f})"
        if by_peer:
            best, peer = max(by_peer.values())
            rank = 1 + sum(value[0] > judged[0] for value, _ in by_peer.values())
            found.append(Standing(name, ours, judged[0], peer, best, rank, 1 + len(by_peer)))
    return sorted(found, key=lambda one: (one.is_held, one.gap))


def totals(found: Iterable[Standing]) -> str:
    """Return in cells of a table: sets, held, best, mean rank."""
    found = list(found)
    held, first = sum(one.is_held for one in found), sum(one.rank == 1 for one in found)
    return f"{len(found)} | {held} | {first} | {fmean(one.rank for one in found):.2f}"


def page(cells: Mapping[Key, Cell]) -> str:
    """Return the page."""
    doc = (__doc__ or "").split("\n\n")
    text = ["# The gauntlet", doc[1], doc[2].replace("\n", " ")]
    lines = ["| method | asked | judged by | sets | within 1 SE | best | mean rank |", "|---|---|---|---|---|---|---|"]
    for method in OURS:
        for size in ("own", "cv", "10", "30", "100"):
            for how in ("own", "refit"):
                found = standings(cells, method, size, how)
                if found:
                    asked = "no number" if size == "own" else size
                    lines.append(f"| `{method}` | {asked} | {how} | {totals(found)} |")
    text += ["## All of ours", "\n".join(lines)]
    counts = [f"{peer} {len({of for of, method, _ in cells if method == peer})}" for peer in PEERS]
    text.append(
        f"Sets on which a peer was measured: {', '.join(counts)}. Where one is missing the best of the others counts."
    )
    for how, told in (("own", "its own predictions"), ("refit", "the common refit")):
        found = standings(cells, DEFAULT, "own", how)
        if not found:
            continue
        sets, held, first, rank = totals(found).split(" | ")
        text += [
            f"## `Auto`, judged by {told}",
            f"Within one standard error of the best peer on {held} of {sets} sets, best on {first}; mean rank {rank}.",
        ]
        lines = [
            "| set | ours | features | best peer (its features) | there | held | in SE | rank | CPU s | MiB | stable |"
        ]
        lines.append("|---|---|---|---|---|---|---|---|---|---|---|")
        lines += [_line(one, how) for one in found]
        text.append("\n".join(lines))
    return "\n\n".join(text) + "\n"


def _line(one: Standing, how: str) -> str:
    mean, error = one.ours.judged(how) or (one.mean, 0.0)
    values = [
        one.name,
        f"{mean:.3f} ± {error:.3f}",
        f"{one.ours.n_selected:.0f}",
        one.peer,
        f"{one.best[0]:.3f} ± {one.best[1]:.3f}",
        "yes" if one.is_held else "**no**",
        f"{one.gap:+.1f}",
        f"{one.rank} of {one.n_ranked}",
        f"{one.ours.cpu_s:.1f}",
        one.ours.mib,
        one.ours.stability,
    ]
    return f"| {' | '.join(values)} |"


def write_page() -> None:
    """Write the page from the cells of quality.md."""
    PAGE.write_text(page(read_cells()), encoding="utf-8")
