"""What becomes of damaged stores, of runs that are killed, of interrupted fits and of documents that are wrong.

    python benchmarks/faults.py --seed 1 --write benchmarks/faults.md
    python benchmarks/faults.py --damage 20 --kills 1 --storms 2 --fuzz 100                (some minutes)

The campaigns are those of `tests/faults/`, seeded, each under a limit of memory; this counts how they ended:

damage  every file of a store flipped, cut, grown, zeroed, swapped, replaced, its metadata mutated; read by `verify`,
        `info` and fits of four selectors, and chunks replaced while a fit reads
kills   `daskfs run` of four selectors gets SIGKILL, SIGTERM, SIGINT or two of them at moments drawn at random, and is
        resumed; the result is compared bit for bit with that of an undisturbed run
losses  workers, scheduler, driver, the worker with the central node are killed, leave, or stand still, at moments drawn
        at random, under each of the five selectors and ingest; with the seconds it takes to make it good
storms  fits of every kind in one process, interrupted again and again; then the bits of a fit that is left alone
fuzz    pipeline files, schemas, tables and command lines, mutated

Ends with 1 where anything was silently wrong, answered with a traceback, lost, or hung.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)

from tests.faults import damage, fuzz, kills, losses, storms  # noqa: E402

GOOD_ENDS = ("identical", "was whole", "nothing was computed")
"""Of a run that got a signal: resumed to the same bits, whole already, or stopped before there was anything to keep."""


def of_damage(seed: int, n: int | None) -> tuple[str, int]:
    """Return the table of damaged stores, and how many ended as they must not."""
    outcomes = damage.campaign(seed, n)
    return damage.as_table(outcomes), sum(outcome.verdict in damage.BAD for outcome in outcomes)


def of_kills(seed: int, n: int, methods: tuple[str, ...] = tuple(kills.METHODS)) -> tuple[str, int]:
    """Return the table of runs that got a signal, and how many ended as they must not."""
    with tempfile.TemporaryDirectory(prefix="daskfs-kills-") as folder:
        rows = list[dict[str, object]]()
        for row in kills.campaign(Path(folder), seed, n, methods):
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    ends = list(dict.fromkeys([*GOOD_ENDS, *(key for row in rows for key in row if key not in _NOT_ENDS)]))
    lines = [_row(["method", "signal", "runs", *ends]), _rule(3 + len(ends))]
    lines += [_row([row["method"], row["signal"], row["runs"], *(row.get(end, 0) for end in ends)]) for row in rows]
    bad = sum(int(str(row.get(end, 0))) for row in rows for end in ends if end not in GOOD_ENDS)
    return "\n".join(lines), bad


_NOT_ENDS = ("method", "signal", "runs")


def of_losses(
    seed: int,
    n: int,
    file: Path | None = None,
    lost: tuple[str, ...] = losses.LOSSES,
    jobs: tuple[str, ...] = losses.JOBS,
) -> tuple[str, int]:
    """Return the table of jobs that lost these parts of their cluster, and how many ended as they must not.

    Trials are kept in a file, and those that it has are not tried again.
    """
    logging.disable(logging.CRITICAL)  # Dask tells of each
    trials = [] if file is None else losses.kept(file)
    parts = [(job, (loss,)) for loss in lost for job in jobs]
    with tempfile.TemporaryDirectory(prefix="daskfs-losses-") as folder:
        campaign = losses.Campaign(Path(folder), seed + len(trials))
        for job, loss in parts:
            for trial in campaign.run((job,), loss, n, tuple(trials)):
                trials.append(trial)
                if file is not None:
                    losses.keep(trial, file)
    logging.disable(logging.NOTSET)
    return f"{_OF_LOSSES}\n\n{losses.as_table(trials)}", sum(trial.end not in losses.GOOD_ENDS for trial in trials)


_OF_LOSSES = """\
`python benchmarks/faults.py --only losses`: a part of a cluster of two or three workers is lost at a moment that is
drawn (`tests/faults/losses.py` says what each loss is). "Within its guarantees": the prediction of the central node of
Asy-OS is the sum of what its workers hold, to 1e-10, it holds no more features than asked for, and they are those that
the target was made of. "Was over before": the job ended before the moment came. Seconds are those that the trial took
more than the same job undisturbed, with the start of what takes the place of what was killed: of `scheduler` and `gone`
another cluster, of `driver` another process, which go on from the checkpoint."""


def of_storms(seed: int, n: int) -> tuple[str, int]:
    """Return the table of fits that are interrupted n times in one process, and how many ended as they must not."""
    head = ["fit", "interrupts", "raised", "process", "bits afterwards", "signal to error, CPU s at most"]
    lines, bad = [_row(head), _rule(len(head))], 0
    for name in storms.FITS:
        found = storms.storm(name, seed, n)
        is_right = found.end == "whole" and found.same_bits
        bad += not is_right
        longest = f"{max(found.latencies_s):.2f}" if found.latencies_s else "-"
        bits = "same" if found.same_bits else "other"
        lines.append(_row([name, n, len(found.latencies_s), found.end, bits, longest]))
    return "\n".join(lines), bad


def of_fuzz(seed: int, n: int) -> tuple[str, int]:
    """Return the table of mutated documents, and how many ended as they must not."""
    outcomes = fuzz.campaign(seed, n)
    verdicts = sorted({outcome.verdict for outcome in outcomes})
    lines = [_row(["document", "tried", *verdicts]), _rule(2 + len(verdicts))]
    for kind in dict.fromkeys(outcome.kind for outcome in outcomes):
        count = Counter(outcome.verdict for outcome in outcomes if outcome.kind == kind)
        lines.append(_row([kind, sum(count.values()), *(count[verdict] for verdict in verdicts)]))
    return "\n".join(lines), sum(outcome.verdict in fuzz.BAD for outcome in outcomes)


def _row(cells: list[object] | list[str]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _rule(n_columns: int) -> str:
    return "|---" * n_columns + "|"


def main() -> int:
    """Run the campaigns, print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--damage", type=int, help="cases; by default all, about 2,000, each read by six commands")
    parser.add_argument("--kills", type=int, default=4, help="runs for each method and signal")
    parser.add_argument("--methods", nargs="*", default=kills.METHODS, choices=kills.METHODS, help="which are killed")
    parser.add_argument("--losses", type=int, default=20, help="for each job and part; of rare ones a quarter")
    parser.add_argument("--lost", nargs="*", default=losses.LOSSES, choices=losses.LOSSES, help="which losses")
    parser.add_argument("--jobs", nargs="*", default=losses.JOBS, choices=losses.JOBS, help="which suffer losses")
    parser.add_argument("--storms", type=int, default=20, help="interrupts of each kind of fit")
    parser.add_argument("--fuzz", type=int, default=3000, help="documents")
    parser.add_argument("--only", nargs="*", default=["damage", "kills", "losses", "storms", "fuzz"])
    parser.add_argument("--write", type=Path, help="a page for the tables")
    parser.add_argument("--kept", type=Path, help="a file of the trials of losses, which then go on where they stood")
    options = parser.parse_args()
    campaigns = {"damage": of_damage, "kills": of_kills, "losses": of_losses, "storms": of_storms, "fuzz": of_fuzz}
    failed = 0
    for name in options.only:
        more = {
            "kills": {"methods": tuple(options.methods)},
            "losses": {"file": options.kept, "lost": tuple(options.lost), "jobs": tuple(options.jobs)},
        }.get(name, {})
        table, bad = campaigns[name](options.seed, getattr(options, name), **more)
        section = f"## {name.capitalize()}\n\n{table}\n\n{bad} ended as they must not.\n"
        failed += bad
        print(section, flush=True)
        if options.write:
            options.write.write_text(_with_section(options.write, section, options.seed))
    return int(failed > 0)


def _with_section(page: Path, section: str, seed: int) -> str:
    """Return a page with a section in place of the one of this name, or at its end."""
    head = f"# What becomes of faults\n\n`python benchmarks/faults.py --seed {seed}`, see there.\n"
    sections = (page.read_text() if page.exists() else head).split("\n## ")
    new = section.removeprefix("## ")
    names = [one.partition("\n")[0] for one in sections]
    name = new.partition("\n")[0]
    at = names.index(name) if name in names[1:] else len(sections)
    sections[at : at + 1] = [new]
    return "\n## ".join(one.rstrip("\n") + "\n" for one in sections)


if __name__ == "__main__":
    sys.exit(main())
