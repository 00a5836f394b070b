"""Beginning and end of a report: summary, warnings, data and settings; time and memory, how to reproduce the run."""

from __future__ import annotations

import math
from collections.abc import Callable

from daskfs.cells import digits
from daskfs.report.markup import Cell, Html, html_of, items, paragraph, section, shown, table
from daskfs.result import SelectionResult

N_NAMED, N_CLASSES = 3, 20


def lead(result: SelectionResult) -> Html:
    """Summarise the selection and its quality in two sentences."""
    return paragraph(f"{_found(result)} {_how_good(result)}", "lead")


def _found(result: SelectionResult) -> str:
    names = _first_columns(result)
    of = f"{result.n_features:,} features of {result.n_samples:,} rows"
    target = f" to predict {target_of(result)}" if target_of(result) else ""
    if not names:
        what = "from hash buckets shared by features" if result.method == "feature_hashing" else "a constant"
        return f"Of {of}, none is listed{target}: the prediction is {what}."
    n_selected = len(result.table)
    return (
        f"Of {of}, {n_selected:,} {'was' if n_selected == 1 else 'were'} selected{target}: {_listed(names)} "
        f"{'comes' if len(names) == 1 else 'come'} first."
    )


def _first_columns(result: SelectionResult) -> list[str]:
    """Return the table's columns from which the most important features were encoded."""
    names = [str(name) for name in result.table["name"].head(50)] if len(result.table) else []
    if result.evidence is not None and result.evidence.features:
        names = [one.column or name for one, name in zip(result.evidence.features, names, strict=False)]
    return list(dict.fromkeys(names))[:N_NAMED]


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _how_good(result: SelectionResult) -> str:
    metrics = {name: value for name, value in result.metrics.items() if math.isfinite(value)}
    if not metrics:
        return "Their prediction error on new rows was not measured."
    test = None if result.evidence is None else result.evidence.test
    new = "held-out rows" if test is None else f"{test.n_rows:,} held-out rows"
    intervals: dict[str, list[float]] = {} if test is None else test.intervals
    baselines: dict[str, float | None] = {} if test is None else test.baseline_metrics
    if test is not None and test.errors:
        of = f" {target_of(result)}" if target_of(result) else ""
        error = f"{digits(test.errors['rmse'])}{_between(intervals.get('rmse'))}"
        constant = baselines.get("rmse")
        always = "" if constant is None else f" ({digits(constant)} when always predicting the mean)"
        share = ""
        if metrics.get("r2", 0.0) < 0.0:
            share = f"; that is worse than a constant: R² is {digits(metrics['r2'])}{_between(intervals.get('r2'))}"
        elif "r2" in metrics:
            share = f"; they explain {metrics['r2']:.1%} of its variance{_between(intervals.get('r2'), percent)}"
        return f"On {new} they predict{of} with a typical error (RMSE) of {error}{always}{share}."
    name = next((name for name in ("accuracy", "auc") if name in metrics), next(iter(metrics)))
    value, baseline = metrics[name], baselines.get(name)
    if name == "accuracy":
        always = "" if baseline is None else f"; always predicting the most frequent class is correct in {baseline:.1%}"
        return (
            f"They predict the class of {new} correctly in {value:.1%} of cases"
            f"{_between(intervals.get(name), percent)}{always}."
        )
    always = "" if baseline is None or name == "r2" else f"; that of a constant prediction is {digits(baseline)}"
    return f"On {new}, the {name.replace('_', ' ')} is {digits(value)}{_between(intervals.get(name))}{always}."


def percent(share: float) -> str:
    """Format a proportion as a percentage."""
    return f"{share:.1%}"


def _between(interval: list[float] | None, say: Callable[[float], str] = digits) -> str:
    return "" if not interval else f" (95 % interval {say(interval[0])} to {say(interval[1])})"


def target_of(result: SelectionResult) -> str:
    """Return the name of the target; empty if it has none."""
    return "" if result.evidence is None else result.evidence.data.target


def warnings(result: SelectionResult) -> Html:
    """List the warnings."""
    if result.evidence is None:
        return Html("")
    found = result.evidence.warnings
    if not found:
        sought = "leaks, identifiers, copies, constants, single rows that dominate the error"
        return paragraph(f"No problems found. Checked for: {sought}.", "muted")
    return Html(f'<div class="warnings">{section("Look at this first", items(found))}</div>')


def asked(result: SelectionResult) -> Html:
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
    return section("Data and settings", table([], rows, name="Data and settings"))


def missing(result: SelectionResult) -> Html:
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
    if not rows:
        return Html("")
    listed = table(["column", "missing", "replaced by"], rows, (1,), name="Missing values", is_sorted=True)
    return section("Missing values", paragraph("In all rows, training and test.", "muted"), listed)


def _refit(result: SelectionResult) -> str:
    assert result.refit is not None
    ridges, intercepts = (", ".join(map(shown, values)) for values in (result.refit.ridge, result.refit.intercept))
    return f"{result.refit.loss} loss, ridge {ridges}, intercept {intercepts}"


def cost(result: SelectionResult) -> Html:
    """Show the time, the memory and the bytes that tasks returned."""
    seconds = [[name, digits(value)] for name, value in result.time.items()]
    sent = [[name, f"{nbytes:,}"] for name, nbytes in result.communication.items()]
    return section(
        "Time and memory",
        section("Time", table(["step", "seconds"], seconds, (1,), name="Time"), level=3) if seconds else "",
        section("Memory", _memory(result), level=3),
        section(
            "Bytes that tasks returned", table(["step", "bytes"], sent, (1,), name="Bytes") if sent else "", level=3
        ),
    )


def _memory(result: SelectionResult) -> Html:
    memory = result.memory
    promised, measured = memory.get("promised_nbytes", {}), memory.get("measured_nbytes", {})
    rows = []
    for process in [*measured, *(name for name in promised if name not in measured and name != "worker")]:
        kind = "client" if process == "client" else "worker"
        limit = memory.get("limit_nbytes", {}).get(kind)
        rows.append([process, _mib(promised.get(kind)), _mib(measured.get(process)), _mib(limit)])
    rows += [[name, "", _mib(nbytes), ""] for name, nbytes in memory.get("held_nbytes", {}).items()]
    if not rows:
        return paragraph("Not measured.", "muted")
    return table(["process", "planned MiB", "measured MiB", "limit MiB"], rows, (1, 2, 3), name="Memory")


def _mib(nbytes: int | None) -> str:
    return "" if nbytes is None else f"{nbytes / 2**20:,.0f}"


def again(result: SelectionResult) -> Html:
    """Show how to reproduce the run: command, versions, parameters."""
    evidence, record = result.evidence, result.to_record(0)
    said = Html("")
    if evidence is not None and evidence.command:
        versions = ", ".join(f"{name} {version}" for name, version in evidence.versions.items())
        command = f"<code>{html_of(evidence.command)}</code>"
        said = Html(f"<p>In the run folder: {command}. This run used {html_of(versions)}.</p>")
    parameters = [[name, shown(value)] for name, value in record.parameters.items()]
    listed = table(["parameter", "value"], parameters, name="Parameters") if parameters else ""
    identity = [["data", result.store_digest or "none: the data were not stored"]]
    if evidence is not None and evidence.test is not None and evidence.test.rows:
        identity.append(["targets of the test rows", evidence.test.rows])
    digests = section("Identity (SHA-256)", table([], identity, name="Identity"), level=3)
    return section("Reproduce this run", said, listed, digests)
