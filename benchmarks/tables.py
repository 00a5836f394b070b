"""Pages from records: docs/measurements.md, and the marked sections of README.md and docs/.

A table shows the newest run of a job and scale: medians over the repeats with their range in brackets. "Times" is the
contender's CPU time divided by that of the first contender in the same repeat, again a median.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import median
from types import SimpleNamespace
from typing import Any

from benchmarks.harness import ROOT, SCALES, Job, Record, of_case
from benchmarks.jobs import JOBS
from benchmarks.jobs.quality import auto_evidence, judged, which_selector

PAGE = ROOT / "docs" / "measurements.md"
SECTIONED = (ROOT / "README.md", ROOT / "docs" / "which_selector.md", ROOT / "docs" / "object_stores.md")
SECTION = re.compile(r"(<!-- made by python -m benchmarks tables: (\w+) -->).*?(<!-- end -->)", re.DOTALL)
WORSE = 1.25
"""A ratio to a rival that grew by more than this is flagged."""

HEAD = """\
# What was measured

This page is made from the records in `benchmarks/records/` by `python -m benchmarks tables`. `benchmarks/README.md`
says how to run a job and how to add one. Each contender runs in a process of its own, in turn over the repeats,
with one thread unless the text says otherwise. Times are CPU seconds of the process tree and wall seconds of the
call alone, without imports, compilation and reading the input. Memory is the peak of the process tree, and what of
it came on top of the process with its data. All are medians over the repeats, with the range in brackets. "Times"
compares CPU seconds with the first line, repeat by repeat. Trust it more than the seconds, since machines are
shared."""


def runs(records: Sequence[Record]) -> dict[tuple[str, str], list[list[Record]]]:
    """Return the runs of each job and scale, the oldest first."""
    found: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in records:
        found.setdefault((record["job"], record["scale"]), {}).setdefault(record["run"], []).append(record)
    return {key: [by_run[run] for run in sorted(by_run)] for key, by_run in found.items()}


def by_case(run: Sequence[Record]) -> list[tuple[dict[str, Any], dict[str, list[Record]]]]:
    """Return the records of each case by contender, in the order in which they were made."""
    found: dict[str, tuple[dict[str, Any], dict[str, list[Record]]]] = {}
    for record in run:
        _, by_contender = found.setdefault(of_case(record["case"]), (record["case"], {}))
        by_contender.setdefault(record["contender"], []).append(record)
    return list(found.values())


def ratios(records: Sequence[Record], to: Sequence[Record], what: str = "cpu_s") -> list[float]:
    """Return a quantity divided by that of another contender, for each repeat that both ended."""
    base = {one["repeat"]: one[what] for one in to if one.get(what)}
    return [one[what] / base[one["repeat"]] for one in records if one.get(what) and one["repeat"] in base]


def number(value: float) -> str:
    """Return three digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.1e}"


def spread(values: Sequence[float | None], scale: float = 1.0) -> str:
    """Return a median and the range."""
    known = [scale * value for value in values if value is not None]
    if not known:
        return "-"
    low, middle, high = (number(value) for value in (min(known), median(known), max(known)))
    return middle if low == high else f"{middle} ({low} to {high})"


def table_of(by_contender: dict[str, list[Record]]) -> str:
    """Return the Markdown table of a case."""
    everything = [record for records in by_contender.values() for record in records]
    qualities = list(dict.fromkeys(name for record in everything for name in record.get("quality", ())))
    heads = [*qualities, "CPU s", "times", "wall s", "peak MiB", "on top of data MiB"]
    lines = [f"| contender | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    reference = next(iter(by_contender.values()))
    for name, records in by_contender.items():
        good = [record for record in records if record["status"] == "ok"]
        shown = f"**{name}**" if records[0]["ours"] else name
        if not good:
            lines.append(
                f"| {shown} | {records[0]['status']}: {one_line(records[0]['reason'])} |" + " |" * len(qualities)
            )
            lines[-1] += " |" * (len(heads) - len(qualities) - 1)
            continue
        cells = [spread([record["quality"].get(quality) for record in good]) for quality in qualities]
        cells += [spread([record["cpu_s"] for record in good]), spread(ratios(good, reference))]
        cells.append(spread([record["wall_s"] for record in good]))
        cells.append(spread([record["peak_nbytes"] for record in good], 2**-20))
        cells.append(spread([on_top(record) for record in good], 2**-20))
        if len(good) < len(records):
            shown += f" ({len(records) - len(good)} of {len(records)} failed)"
        lines.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def one_line(text: str) -> str:
    """Return a text for a cell."""
    return " ".join(text.split()).replace("|", "/")[:160]


def provenance(run: Sequence[Record]) -> str:
    """Return when, at which commit and on what a run was made."""
    first = run[0]
    most = [1 + max(one["repeat"] for records in of.values() for one in records) for _, of in by_case(run)]
    n_repeats = " or ".join(str(number) for number in sorted({*most}))
    if "transcribed" in first:
        newer = [record for record in run if "transcribed" not in record]
        commits = ", ".join(dict.fromkeys(record["commit"] for record in newer))
        of_newer = f"; {len(newer)} cells anew at {commits}, {newer[0]['date'][:10]}" if newer else ""
        return f"*Transcribed from {first['transcribed']}{of_newer}.*"
    versions: dict[str, str] = {}
    for record in run:
        versions |= record.get("versions", {})
    machine = first["machine"]
    return (
        f"*{n_repeats} repeat{'s' * (max(most) > 1)}, {first['run'][:10]}, commit {first['commit']}"
        f"{' with changes' * first['dirty']}, {machine['cores']} cores, {machine['cpu']}, {machine['memory_gib']} GiB; "
        f"{', '.join(f'{name} {version}' for name, version in sorted(versions.items()))}.*"
    )


def page(records: Sequence[Record]) -> str:
    """Return docs/measurements.md."""
    text, found = [HEAD], runs(records)
    for name, job in JOBS.items():
        scales = [scale for scale in SCALES if (name, scale) in found]
        text.append(
            f"## {job.title}\n\n{job.about}\n\n`python -m benchmarks run {name} --scale {(scales or ['small'])[-1]}`"
        )
        if not scales:
            text.append("*Not measured since the harness exists.*")
        for scale in scales:
            run = found[name, scale][-1]
            if job.table is not None:
                text.append(job.table(run))
            else:
                text += [f"**{of_case(case) or scale}** ({scale})\n\n{table_of(them)}" for case, them in by_case(run)]
            text.append(provenance(run))
    return "\n\n".join(text) + "\n"


def standing(job: Job, run: Sequence[Record]) -> SimpleNamespace | None:
    """Return medians of our first contender and its rival in the job's last case of a run; None if ours did not end."""
    order = [of_case(case) for case in job.scales[run[0]["scale"]]]
    found = sorted(by_case(run), key=lambda one: order.index(of_case(one[0])) if of_case(one[0]) in order else -1)
    case, by_contender = found[-1]
    medians = {}
    for name, records in by_contender.items():
        good = [record for record in records if record["status"] == "ok"]
        if good:
            values = {key: median_of(record[key] for record in good) for key in ("cpu_s", "wall_s", "peak_nbytes")}
            top = median_of(on_top(record) for record in good)
            values["top_mib"] = None if top is None else top / 2**20
            values["peak_mib"] = None if values["peak_nbytes"] is None else values["peak_nbytes"] / 2**20
            for key in good[0]["quality"]:
                values[key.replace(" ", "_")] = median_of(record["quality"].get(key) for record in good)
            medians[name] = SimpleNamespace(name=name, **values)
    ours = medians.get(next(iter(job.run)))
    peers = [medians[name] for name in job.peers if name in medians]
    if ours is None:
        return None
    rival = medians.get(job.rival) if job.rival else min(peers, key=lambda one: one.cpu_s, default=None)
    standing = SimpleNamespace(ours=ours, rival=rival, case=SimpleNamespace(**case), times=None, memory_times=None)
    if rival is not None:
        standing.times = median(ratios(by_contender[rival.name], by_contender[ours.name]))
        standing.memory_times = rival.peak_nbytes / ours.peak_nbytes
    return standing


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median, or None if a value is not known."""
    known = list(values)
    return None if None in known else median(known)  # type: ignore[type-var]


def on_top(record: Record) -> float | None:
    """Return the bytes that the call took beside the process with its data."""
    return record["peak_nbytes"] - record["base_nbytes"] if record.get("base_nbytes") else None


def evidence(records: Sequence[Record]) -> str:
    """Return the lines of README's evidence, each from the newest run of the largest scale of a job."""
    lines, found = [], runs(records)
    for name, job in JOBS.items():
        scales = [scale for scale in SCALES if (name, scale) in found]
        if job.evidence is None or not scales:
            continue
        run = found[name, scales[-1]][-1]
        fields = standing(job, run)
        if fields is not None:
            older = " (Measured by an earlier version.)" if "transcribed" in run[0] else ""
            lines.append("- " + job.evidence.format(**vars(fields)) + older)
    return "\n".join(line for line in (*lines, auto_evidence(records)) if line)


COSTS = ("message_store", "online_substitution", "wide_genotypes", "fgm", "fgm_pairs", "fgm_groups", "mission")
COSTS += ("out_of_core",)
"""Jobs that show what each selector costs."""


def costs(records: Sequence[Record]) -> str:
    """Return the table of docs/which_selector.md on what each selector costs: our first contender of each job."""
    lines = ["| job | data | CPU s | wall s | peak MiB | on top of data MiB |", "|---|---|---|---|---|---|"]
    found = runs(records)
    for name in COSTS:
        scales = [scale for scale in SCALES if (name, scale) in found]
        at = standing(JOBS[name], found[name, scales[-1]][-1]) if scales else None
        if at is not None:
            values = (at.ours.cpu_s, at.ours.wall_s, at.ours.peak_mib, at.ours.top_mib)
            cells = " | ".join("-" if value is None else number(value) for value in values)
            lines.append(f"| {JOBS[name].title} (`{name}`) | {of_case(vars(at.case))} | {cells} |")
    return "\n".join(lines)


def distant(records: Sequence[Record]) -> str:
    """Return the table of docs/object_stores.md: seconds from a local disk, and multiples of them from a distance."""
    others = [name for name in JOBS["object_store"].contenders if name != "local disk"]
    lines = ["| | seconds, local disk | " + " | ".join(others) + " |", "|---" * (len(others) + 2) + "|"]
    found = runs(records)
    scale = next(scale for scale in reversed(SCALES) if ("object_store", scale) in found)
    for case, by_contender in by_case(found["object_store", scale][-1]):
        seconds = {name: median(one["wall_s"] for one in measured) for name, measured in by_contender.items()}
        times = [number(seconds[name] / seconds["local disk"]) for name in others]
        lines.append(f"| {case['method']} | {number(seconds['local disk'])} | {' | '.join(times)} |")
    return "\n".join(lines)


def sections(records: Sequence[Record]) -> dict[str, str]:
    """Return the texts of marked sections by their names."""
    made = (evidence, costs, which_selector, judged, distant)
    return {function.__name__: function(records) for function in made}


def filled(text: str, records: Sequence[Record]) -> str:
    """Return a page with its marked sections made anew."""
    made = sections(records)
    return SECTION.sub(lambda match: f"{match[1]}\n\n{made[match[2]]}\n\n{match[3]}", text)


def write(records: Sequence[Record]) -> None:
    """Write all pages."""
    PAGE.write_text(page(records), encoding="utf-8")
    for path in SECTIONED:
        path.write_text(filled(path.read_text("utf-8"), records), encoding="utf-8")


def trend(records: Sequence[Record]) -> list[str]:
    """Return the jobs whose ratio to a rival is worse than in an earlier run on the same kind of machine.

    CPU time or memory of our first contender divided by that of the rival. Ratios are compared, not seconds, since
    machines are shared.
    """
    flagged = []
    for (name, scale), all_runs in runs(records).items():
        job, latest = JOBS.get(name), all_runs[-1]
        if job is None or "transcribed" in latest[0]:
            continue
        earlier = [run for run in all_runs[:-1] if run[0].get("machine") == latest[0]["machine"]]
        for case, new in shares(job, latest).items():
            for what, share in new.items():
                known = [(shares(job, run).get(case, {}).get(what), run[0]) for run in earlier]
                best = min(((old, at) for old, at in known if old is not None), key=lambda one: one[0], default=None)
                if best is not None and share > WORSE * best[0]:
                    flagged.append(
                        f"{name} ({scale}), {case}: {what} {share:.3g} of the rival's, "
                        f"{best[0]:.3g} at {best[1]['commit']} ({best[1]['run'][:10]})"
                    )
    return flagged


def shares(job: Job, run: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Return CPU time and peak memory of ours, as shares of the rival's, by case."""
    found: dict[str, dict[str, float]] = {}
    for case, _ in by_case(run):
        at = standing(job, [record for record in run if record["case"] == case])
        if at is not None and at.rival is not None:
            found[of_case(case)] = {"CPU time": 1.0 / at.times, "peak memory": 1.0 / at.memory_times}
    return found
