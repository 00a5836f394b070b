"""What a report says of a result but for its features: its summary in words, and tables of data, quality and cost."""

from __future__ import annotations

import math
from collections.abc import Callable

from daskfs.cells import digits
from daskfs.evidence import QualityRecord
from daskfs.report.tables import Cell, Table, between, brief, shown
from daskfs.result import SelectionResult

N_NAMED, N_CLASSES = 3, 20
METRICS = {"rmse": "typical error (RMSE)", "mae": "mean absolute error (MAE)", "r2": "R², variance explained"}


def found(result: SelectionResult) -> str:
    """Return a sentence on the selection."""
    names = _first_columns(result)
    rows = f"from {result.n_samples:,} rows" + (f" to predict {_target(result)}" if _target(result) else "")
    if not names:
        what = "from hash buckets shared by features" if result.method == "feature_hashing" else "a constant"
        return f"None of {result.n_features:,} features was selected {rows}: the prediction is {what}."
    n_selected = len(result.table)
    are = "; the most important are" if n_selected > len(names) > 1 else ":"
    selected = f"{n_selected:,} of {result.n_features:,} features {'was' if n_selected == 1 else 'were'} selected"
    return f"{selected} {rows}{are} {_listed(names)}."


def _first_columns(result: SelectionResult) -> list[str]:
    """Return the table's columns from which the most important features were encoded."""
    names = [str(name) for name in result.table["name"].head(50)] if len(result.table) else []
    if result.evidence is not None and result.evidence.features:
        names = [one.column or name for one, name in zip(result.evidence.features, names, strict=False)]
    return list(dict.fromkeys(names))[:N_NAMED]


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def how_good(result: SelectionResult) -> str:
    """Return a sentence on the quality of the predictions."""
    metrics = {name: value for name, value in result.metrics.items() if math.isfinite(value)}
    if not metrics:
        return "Their prediction error on new rows was not measured."
    test = None if result.evidence is None else result.evidence.test
    new = "held-out rows" if test is None else f"{test.n_rows:,} held-out rows"
    intervals: dict[str, list[float]] = {} if test is None else test.intervals
    baselines: dict[str, float | None] = {} if test is None else test.baseline_metrics
    if test is not None and test.errors:
        of = f" {_target(result)}" if _target(result) else ""
        error = f"{digits(test.errors['rmse'])}{_between(intervals.get('rmse'))}"
        constant = baselines.get("rmse")
        always = "" if constant is None else f", compared with {digits(constant)} for the mean"
        share = ""
        if metrics.get("r2", 0.0) < 0.0:
            share = f"; that is worse than a constant: R² is {digits(metrics['r2'])}{_between(intervals.get('r2'))}"
        elif "r2" in metrics:
            share = f"; they explain {metrics['r2']:.1%} of its variance{_between(intervals.get('r2'), _percent)}"
        return f"On {new} they predict{of} with a typical error (RMSE) of {error}{always}{share}."
    name = next((name for name in ("accuracy", "auc") if name in metrics), next(iter(metrics)))
    value, baseline = metrics[name], baselines.get(name)
    if name == "accuracy":
        always = "" if baseline is None else f", compared with {baseline:.1%} for the most frequent class"
        return (
            f"They predict the class of {new} correctly in {value:.1%} of cases"
            f"{_between(intervals.get(name), _percent)}{always}."
        )
    always = "" if baseline is None or name == "r2" else f", compared with {digits(baseline)} for a constant prediction"
    return f"On {new}, the {name.replace('_', ' ')} is {digits(value)}{_between(intervals.get(name))}{always}."


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _between(interval: list[float] | None, say: Callable[[float], str] = digits) -> str:
    return "" if not interval else f" (95 % interval {say(interval[0])} to {say(interval[1])})"


def _target(result: SelectionResult) -> str:
    """Return the name of the target; empty if it has none."""
    return "" if result.evidence is None else result.evidence.data.target


def asked(result: SelectionResult) -> Table:
    """Show the data and the settings."""
    rows, evidence = [["method", result.method]], result.evidence
    features = f"{result.n_features:,}"
    if evidence is None:
        rows += [["training rows", f"{result.n_samples:,}"], ["features", features]]
    else:
        data, test = evidence.data, evidence.test
        rows += [["target", data.target or "none"], ["source", data.source]]
        if data.classes:
            rows.append(["classes", ", ".join(data.classes[:N_CLASSES]) + ", ..." * (len(data.classes) > N_CLASSES)])
        rows.append(["training rows", f"{result.n_samples:,}"])
        if test is not None:
            rows.append(["test rows", f"{test.n_rows:,}" + f": {data.split}" * bool(data.split)])
        columns = "" if data.n_columns is None else f", from {data.n_columns:,} columns of the table"
        rows.append(["features", features + columns])
        if data.n_missing is not None and not data.missing:
            encoded = "" if data.n_columns is None else " after encoding"
            rows.append(["missing values", f"{data.n_missing:,}{encoded}"])
        if data.n_constant:
            rows.append(["constant features", f"{data.n_constant:,}"])
    rows += [
        ["selected", f"{len(result.table):,} features"],
        *([["intercept", shown(result.intercept)]] if math.isfinite(result.intercept) else []),
        *([["refit", _refit(result)]] if result.refit is not None else []),
    ]
    return Table("Data and settings", [], rows)


def missing(result: SelectionResult) -> Table | None:
    """List the missing values by column, and their replacements."""
    found = [] if result.evidence is None else result.evidence.data.missing
    rows = []
    for one in sorted(found, key=lambda one: -one.n_missing):
        value = "" if one.value is None else digits(one.value)
        by = {
            "mean": f"the mean, {value}",
            "zero": "zero",
            "number": value,
            "category": "its own category",
            "drop": "nothing: the rows were dropped",
        }.get(one.by, one.by)
        said = "; an indicator feature marks them" if one.has_indicator else ""
        rows.append([one.column, Cell(f"{one.n_missing:,}", one.n_missing), f"{by}{said}"])
    head = ["column", "missing", "replaced by"]
    return Table("Missing values", head, rows, (1,), is_sorted=True) if rows else None


def _refit(result: SelectionResult) -> str:
    assert result.refit is not None
    ridges, intercepts = (", ".join(map(shown, values)) for values in (result.refit.ridge, result.refit.intercept))
    return f"{result.refit.loss} loss, ridge {ridges}, intercept {intercepts}"


def metrics(result: SelectionResult) -> Table:
    """List errors in units of the target first, then the requested metrics."""
    test = None if result.evidence is None else result.evidence.test
    rows = []
    for name, value in {**({} if test is None else test.errors), **result.metrics}.items():
        interval = test.intervals.get(name) if test else None
        baseline = test.baseline_metrics.get(name) if test and not name.endswith("r2") else None
        of = f", in {_target(result)}" if name in ("rmse", "mae") and _target(result) else ""
        rows.append([METRICS.get(name, name.replace("_", " ")) + of, shown(value), between(interval), brief(baseline)])
    head = ["on the test rows", "value", "95 % interval", "baseline"]
    n_shown = 2 if test is None else 4
    return Table("Metrics", head[:n_shown], [row[:n_shown] for row in rows], range(1, n_shown))


def confusion(test: QualityRecord) -> Table:
    """Count the test rows by true and predicted class."""
    rows = []
    for k, (label, counts) in enumerate(zip(test.labels, test.confusion, strict=True)):
        total = max(1, sum(counts))
        cells = [Cell(f"{count:,}", share=count / total) for count in counts]
        rows.append([label, *cells, f"{counts[k] / total:.1%}" if sum(counts) else ""])
    head = ["true class ↓ predicted →", *test.labels, "recall"]
    return Table("Confusion matrix", head, rows, range(1, len(head)))


def seconds(result: SelectionResult) -> Table:
    """List the time of each step."""
    return Table("Time", ["step", "seconds"], [[name, digits(value)] for name, value in result.time.items()], (1,))


def sent(result: SelectionResult) -> Table:
    """List the bytes that tasks returned."""
    rows = [[name, f"{nbytes:,}"] for name, nbytes in result.communication.items()]
    return Table("Bytes", ["step", "bytes"], rows, (1,))


def memory(result: SelectionResult) -> Table | None:
    """List the memory of each process."""
    known = result.memory
    promised, measured = known.get("promised_nbytes", {}), known.get("measured_nbytes", {})
    rows = []
    for process in [*measured, *(name for name in promised if name not in measured and name != "worker")]:
        kind = "client" if process == "client" else "worker"
        limit = known.get("limit_nbytes", {}).get(kind)
        rows.append([process, _mib(promised.get(kind)), _mib(measured.get(process)), _mib(limit)])
    rows += [[name, "", _mib(nbytes), ""] for name, nbytes in known.get("held_nbytes", {}).items()]
    head = ["process", "planned MiB", "measured MiB", "limit MiB"]
    return Table("Memory", head, rows, (1, 2, 3)) if rows else None


def _mib(nbytes: int | None) -> str:
    return "" if nbytes is None else f"{nbytes / 2**20:,.0f}"


def parameters(result: SelectionResult) -> Table | None:
    """List the parameters of the method."""
    rows = [[name, shown(value)] for name, value in result.to_record(0).parameters.items()]
    return Table("Parameters", ["parameter", "value"], rows) if rows else None


def identity(result: SelectionResult) -> Table:
    """List the digests of the data."""
    rows = [["data", result.store_digest or "none: the data were not stored"]]
    if result.evidence is not None and result.evidence.test is not None and result.evidence.test.rows:
        rows.append(["targets of the test rows", result.evidence.test.rows])
    return Table("Identity", [], rows)
