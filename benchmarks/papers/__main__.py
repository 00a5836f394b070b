"""Measure figures of the papers, and write docs/papers.md.

    python -m benchmarks.papers                            all figures at scale "smoke": under ten minutes
    python -m benchmarks.papers --only message os-1 --scale small
    python -m benchmarks.papers --only fgm-2 --scale paper --seeds 3
    python -m benchmarks.papers --page                     only write the page from the records
    python -m benchmarks.papers --list

Figures of real data need the folder that DASKFS_DATA names; without it they are left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from benchmarks.papers import fgm, message, mission, online_substitution
from benchmarks.papers.figures import SCALES, Figure, measure, results_of
from benchmarks.papers.page import write_page

FIGURES: list[Figure] = [*message.FIGURES, *online_substitution.FIGURES, *fgm.FIGURES, *mission.FIGURES]


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for; return 1 if a name is unknown."""
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks.papers", description=__doc__, formatter_class=kind)
    parser.add_argument("--scale", choices=SCALES, default="smoke")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="a figure, or the start of its name")
    parser.add_argument("--seeds", type=int, help="number of data sets, instead of the scale's")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--list", action="store_true", help="list the names")
    asked = parser.parse_args(argv)
    names = tuple(f"{name}-" for name in asked.only) or ("",)
    wanted = [one for one in FIGURES if f"{one.name}-".startswith(names)]
    if not wanted:
        print(f"no figure is called {' or '.join(asked.only)}; see --list", file=sys.stderr)
        return 1
    if asked.list:
        print("\n".join(f"{one.name:<18}{one.paper}, {one.label}: {one.title}" for one in wanted))
        return 0
    for figure in [] if asked.page else wanted:
        if figure.needs_data and "DASKFS_DATA" not in os.environ:
            print(f"{figure.name}: left out, DASKFS_DATA names no folder of real data")
            continue
        started = time.perf_counter()
        records = measure(figure, asked.scale, asked.seeds)
        print(f"{figure.name} ({time.perf_counter() - started:.1f} s): {figure.title}", flush=True)
        for check in figure.agrees(results_of(records)):
            print(f"    {'agrees  ' if check.agrees else 'DIFFERS '} {check.statement} ({check.found})", flush=True)
    write_page(FIGURES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
