"""Which selector for which data: the means of `quality.md` by kind of data, as docs/which_selector.md has them.

python benchmarks/which_selector.py          # prints the table
python benchmarks/which_selector.py --write  # and replaces it there
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "which_selector.md"
BETWEEN = re.compile(r"(<!-- made by benchmarks/which_selector\.py -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)

KINDS = {
    "few rows, thousands of columns; numbers to predict": ("riboflavin", "mice", "maize"),
    "few rows, thousands of columns; classes": (
        *("golub", "alon", "singh", "gravier", "arcene", "epsilon", "khan", "breast tcga"),
    ),
    "many rows, some ten columns; numbers to predict": ("power hourly", "power minute"),
    "many rows of numbers; classes": (
        *("madelon", "gisette-like", "mnist 3v8", "mnist 4v9", "higgs", "higgs h2o", "magic", "skin"),
    ),
    "categories as dummies": ("adult", "a9a", "w8a", "flights", "criteo", "splice", "promoters", "kddcup99"),
    "texts": ("basehock", "pcmac", "relathe", "rcv1", "20news pc v mac", "aclimdb", "rtpolarity", "smsspam", "news20"),
}
METHODS = ("message", "online_substitution", "fgm", "mission")
PEERS = ("l1", "trees")


def cells() -> dict[tuple[str, str, str], tuple[float, float, float]]:
    """Return (number selected, quality of a refit, CPU seconds) by set, method and number asked for."""
    found = {}
    for line in (ROOT / "benchmarks" / "quality.md").read_text(encoding="utf-8").splitlines():
        parts = [part.strip() for part in line.strip("| ").split("|")]
        if len(parts) == 9 and parts[2].isdigit() and "±" in parts[5]:
            found[parts[0], parts[1], parts[2]] = (float(parts[3]), float(parts[5].split()[0]), float(parts[6]))
    return found


def table(asked: str) -> list[str]:
    """Return the lines of the table for a number of features."""
    known, lines = cells(), []
    for kind, names in KINDS.items():
        sets = [one for one in names if all((one, method, asked) in known for method in (*METHODS, *PEERS))]
        if not sets:
            continue
        mean = {method: fmean(known[one, method, asked][1] for one in sets) for method in (*METHODS, *PEERS)}
        best = max(mean[method] for method in METHODS)
        shown = [f"**{mean[m]:.3f}**" if mean[m] > best - 0.005 else f"{mean[m]:.3f}" for m in METHODS]
        kept = fmean(known[one, "message", asked][0] for one in sets)
        shown[0] += f" ({kept:.0f})"
        lines.append(f"| {kind} | {len(sets)} | {' | '.join(shown)} | {mean['l1']:.3f} | {mean['trees']:.3f} |")
    return lines


def whole() -> str:
    """Return the tables for 10 and 30 features."""
    text = []
    for asked in ("10", "30"):
        heads = " | ".join(f"`{method}`" for method in METHODS)
        text += [
            f"| {asked} features: data | sets | {heads} | the Lasso | trees |",
            "|---|---|---|---|---|---|---|---|",
            *table(asked),
            "",
        ]
    return "\n".join(text).rstrip()


def main() -> None:
    """Print the tables, and write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the table in docs/which_selector.md")
    text = whole()
    print(text)
    if parser.parse_args().write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(BETWEEN.sub(lambda match: match[1] + text + match[2], page), encoding="utf-8")


if __name__ == "__main__":
    main()
