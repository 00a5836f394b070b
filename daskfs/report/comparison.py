"""Comparison of several results: metrics, differences, overlaps, metrics by number of features, ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from daskfs.figures import Figure, metric_by_size
from daskfs.metrics import METRICS_OF_ERRORS, jaccard
from daskfs.report.size_curves import lines_by_size
from daskfs.report.tables import Table, between, shown
from daskfs.result import SelectionResult

MOST_RANKED = 20_000
"""Maximum number of features of a result that are compared with others."""
N_ROWS = 500


def side_by_side(results: Mapping[str, SelectionResult]) -> Table:
    """Show metrics and time of each result."""
    metrics = list(dict.fromkeys(name for result in results.values() for name in result.metrics))
    steps = list(dict.fromkeys(name for result in results.values() for name in result.time))
    head = ["run", "method", "samples", "features", "selected", *metrics, *(f"{step} s" for step in steps)]
    rows = []
    for label, result in results.items():
        cells: list[Any] = [label, result.method, f"{result.n_samples:,}", f"{result.n_features:,}", len(result.table)]
        cells += [_metric(result, name) for name in metrics]
        cells += [shown(float(result.time[step])) if step in result.time else "" for step in steps]
        rows.append(cells)
    seconds = range(len(head) - len(steps), len(head))
    return Table("Side by side", head, rows, range(2, len(head)), is_sorted=True, less=seconds)


def caption(results: Mapping[str, SelectionResult]) -> str:
    """Return what must be known to compare the metrics."""
    has_intervals = any(_interval(result, metric) for result in results.values() for metric in result.metrics)
    said = "In brackets: the 95 % interval. " if has_intervals else ""
    if len({result.store_digest for result in results.values()}) > 1:
        said += "These runs are on different data, so their metrics are not comparable."
    return said


def _interval(result: SelectionResult, metric: str) -> list[float] | None:
    test = None if result.evidence is None else result.evidence.test
    return None if test is None else test.intervals.get(metric)


def _metric(result: SelectionResult, name: str) -> str:
    if name not in result.metrics:
        return ""
    interval = _interval(result, name)
    return shown(result.metrics[name]) + (f" ({between(interval)})" if interval else "")


@dataclass(frozen=True)
class Difference:
    """Difference of a result from the best one on the same test rows, in a metric."""

    metric: str
    label: str
    best: str
    """Label of the best result."""
    difference: float
    """The metric minus that of the best result."""
    low: float
    high: float
    """Interval of the difference, 95 % for all pairs of results simultaneously."""

    @property
    def is_noise(self) -> bool:
        """Whether the interval contains zero."""
        return self.low <= 0.0 <= self.high


def differences(results: Mapping[str, SelectionResult]) -> list[Difference]:
    """Return the differences of results from the best one by each metric, with intervals.

    Intervals are from the paired bootstrap over the test rows: both results use the same bootstrap samples. They are
    normal intervals with Bonferroni's correction for all pairs, which accounts for choosing the best result. Results on
    other test rows than the first are left out.
    """
    tests = {label: result.evidence.test for label, result in results.items() if result.evidence is not None}
    known = {label: test for label, test in tests.items() if test is not None and test.rows and test.drawn}
    rows = next((test.rows for test in known.values()), "")
    same = {label: test for label, test in known.items() if test.rows == rows}
    found = []
    for metric in dict.fromkeys(name for test in same.values() for name in test.drawn):
        drawn = {label: _numbers(test.drawn[metric]) for label, test in same.items() if metric in test.drawn}
        if len(drawn) < 2:
            continue
        sign = -1.0 if metric.removeprefix("refit_") in METRICS_OF_ERRORS else 1.0
        best = max(drawn, key=lambda label: sign * results[label].metrics[metric])
        n_pairs = len(drawn) * (len(drawn) - 1) // 2
        reach = NormalDist().inv_cdf(1.0 - 0.025 / n_pairs)
        for label in (label for label in drawn if label != best):
            differs = drawn[label] - drawn[best]
            differs = differs[np.isfinite(differs)]
            difference = results[label].metrics[metric] - results[best].metrics[metric]
            half = reach * float(differs.std(ddof=1)) if len(differs) > 1 else math.inf
            found.append(Difference(metric, label, best, difference, difference - half, difference + half))
    return found


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([math.nan if value is None else value for value in values])


def sentences(found: Sequence[Difference]) -> list[str]:
    """Return a sentence for each metric, on which results differ significantly from the best."""
    said = []
    for metric in dict.fromkeys(one.metric for one in found):
        lines = [one for one in found if one.metric == metric]
        best, name = lines[0].best, metric.replace("_", " ")
        as_good = ", ".join(one.label for one in lines if one.is_noise)
        worse = ", ".join(f"{one.label} (by {abs(one.difference):.3g})" for one in lines if not one.is_noise)
        level = f" not significantly different on these rows: {as_good}" if as_good else ""
        behind = f" significantly worse: {worse}" if worse else ""
        said.append(f"{name}: {best} is best;{';'.join(filter(None, (level, behind)))}")
    return said


def table_of(found: Sequence[Difference]) -> Table:
    """Show the differences."""
    rows = [
        [one.metric, one.label, one.best, f"{one.difference:+.3g}", f"{one.low:+.3g} to {one.high:+.3g}",
         "no" if one.is_noise else "yes"]
        for one in found
    ]  # fmt: skip
    head = ["metric", "run", "the best", "difference", "interval", "significant"]
    return Table("Differences", head, rows, (3, 4), is_sorted=True)


def overlaps(results: Mapping[str, SelectionResult]) -> dict[str, dict[str, float]]:
    """Return the Jaccard index of the names of selected features for each pair of results."""
    names = {label: {str(name) for name in result.table["name"][:MOST_RANKED]} for label, result in results.items()}
    return {one: {other: jaccard(names[one], names[other]) for other in names} for one in names}


def overlap(results: Mapping[str, SelectionResult]) -> Table:
    """Show the overlap of each pair of results."""
    found = overlaps(results)
    rows = [[label, *(f"{value:.2f}" for value in row.values())] for label, row in found.items()]
    return Table("Overlap of the selections", ["run", *found], rows, range(1, len(found) + 1))


def by_size(results: Mapping[str, SelectionResult]) -> list[tuple[Figure, Table]]:
    """Show each metric against the number of features, if a method was run for several numbers."""
    lines = lines_by_size(results)
    metrics = dict.fromkeys(name for line in lines.values() for result in line for name in result.metrics)
    parts = []
    for metric in metrics:
        drawn = {
            name: {len(result.table): result.metrics[metric] for result in line if _is_known(result, metric)}
            for name, line in lines.items()
        }
        drawn = {name: found for name, found in drawn.items() if found}
        sizes = sorted({size for found in drawn.values() for size in found})
        if not sizes:
            continue
        rows = [[name, *(shown(found.get(size, "")) for size in sizes)] for name, found in drawn.items()]
        lines_of = metric_by_size({name: (list(f), list(f.values())) for name, f in drawn.items()}, metric)
        head = ["selected features", *(str(size) for size in sizes)]
        parts.append((lines_of, Table(lines_of.title, head, rows, range(1, len(sizes) + 1))))
    return parts


def _is_known(result: SelectionResult, metric: str) -> bool:
    value = result.metrics.get(metric)
    return value is not None and math.isfinite(value)


def ranks(results: Mapping[str, SelectionResult]) -> Table:
    """Show the rank of each feature in each result."""
    found = {
        label: dict(zip(r.table["name"][:MOST_RANKED], r.table["rank"], strict=False)) for label, r in results.items()
    }
    names = list(dict.fromkeys(name for column in found.values() for name in column))
    names.sort(key=lambda name: (-sum(name in column for column in found.values()), _mean_rank(name, found)))
    rows = [[name, *(column.get(name, "") for column in found.values())] for name in names[:N_ROWS]]
    head = ["feature", *found]
    return Table("Rank of each feature", head, rows, range(1, len(head)), is_sorted=True)


def _mean_rank(name: str, ranks: Mapping[str, Mapping[str, int]]) -> float:
    found = [column[name] for column in ranks.values() if name in column]
    return sum(found) / len(found)
