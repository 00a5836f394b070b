"""The command ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from benchmarks import harness
from benchmarks.jobs import JOBS


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["papers"]:  # these two have options of their own
        from benchmarks.papers.__main__ import main as papers

        return papers(given[1:])
    if given[:1] == ["scale"]:
        from benchmarks.scale import main as scale

        return scale(given[1:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure daskfs beside other libraries.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="name all jobs and their contenders")
    run = commands.add_parser("run", help="measure jobs; small and full runs are kept in benchmarks/records")
    run.add_argument("names", nargs="*", metavar="NAME", help="jobs; all by default")
    run.add_argument("--scale", choices=harness.SCALES, default="smoke", help="smoke tests the code and keeps nothing")
    run.add_argument("--repeats", type=int, help="of each contender; the job's own number by default")
    run.add_argument(
        "--only", default="", metavar="CONTENDER", help="part of a contender's name; kept only in --records"
    )
    run.add_argument("--records", type=Path, default=harness.RECORDS, metavar="FOLDER")
    commands.add_parser("tables", help="write docs/measurements.md and the marked sections of other pages")
    commands.add_parser("trend", help="name jobs whose ratio to a rival became worse; exit code 1 if there are any")
    commands.add_parser("papers", help="figures and tables of the papers beside ours")
    commands.add_parser("scale", help="fit the cost model and write docs/scale.md")
    options = parser.parse_args(given)
    if options.command == "list":
        for name, job in JOBS.items():
            print(f"{name}: {job.title}\n    ours:  {', '.join(job.run)}\n    peers: {', '.join(job.peers) or 'none'}")
        return 0
    if options.command == "run":
        unknown = [name for name in options.names if name not in JOBS]
        if unknown:
            parser.error(f"no job {', '.join(unknown)}; there are {', '.join(JOBS)}")
        return run_jobs(options)
    from benchmarks import tables

    records = harness.read()
    if options.command == "tables":
        tables.write(records)
        return 0
    flagged = tables.trend(records)
    print("\n".join(flagged) or "no ratio became worse")
    return 1 if flagged else 0


def run_jobs(options: argparse.Namespace) -> int:
    """Measure jobs; 1 if a contender of ours failed."""
    is_whole = not options.only or options.records != harness.RECORDS
    n_failed, say, keeps = 0, partial(print, flush=True), options.scale != "smoke" and is_whole
    for name in options.names or JOBS:
        stopped, records = options.records / f"{name}-{options.scale}.stopped", list[harness.Record]()
        if keeps and stopped.exists():
            records = [json.loads(line) for line in stopped.read_text("utf-8").splitlines()]
            say(f"{name}: goes on after {len(records)} records of {stopped}; delete it to begin again")
        for record in harness.measure(JOBS[name], options.scale, options.repeats, options.only, say, records[:]):
            records.append(record)
            n_failed += record["ours"] and record["status"] == "failed"
            if keeps:
                harness.write_lines(records, stopped)
        if keeps and records:
            harness.keep(records, name, options.records)
            stopped.unlink()
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
