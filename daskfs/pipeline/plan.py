"""Plan of a pipeline: bytes read, passes, tasks, bytes on disk and peak memory per process, from sizes alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from daskfs import errors
from daskfs.cluster.jobqueue import JOB_QUEUES, job_script
from daskfs.cluster.open import parse_bytes
from daskfs.errors import PlanError
from daskfs.objects.address import redacted
from daskfs.objects.path import ObjectPath
from daskfs.pipeline.checks import check_losses
from daskfs.pipeline.config import Cluster, Pipeline
from daskfs.pipeline.facts import DataFacts
from daskfs.pipeline.limits import (
    MIB,
    PlannedStep,
    ProcessLimits,
    available_for_model,
    in_mib,
    largest_terms,
    limits_of,
    shown_nbytes,
)
from daskfs.pipeline.rereading import (
    ENOUGH,
    MAX_MEMORY_FACTOR,
    REPORTED_FROM,
    REPORTED_NBYTES,
    Rereading,
    least_memory,
    other_tiles,
    times_decoded,
)
from daskfs.pipeline.selections import key_of_n_features
from daskfs.pipeline.steps import evaluate, ingest, refit, select
from daskfs.pipeline.stream_checks import check_stream
from daskfs.selectors.shared.work import Grid

MOST_MIB = 2**30
"""Largest memory limit that is tried: one pebibyte."""
REFIT_COLUMNS = 1000
"""Planned maximum number of refitted columns if the method chooses the number of features."""
REHEARSAL_NBYTES = 1024 * MIB
"""The two processes together that compile the kernels, see `daskfs.pipeline.compile_ahead`; measured: 450 MiB each."""


@dataclass(frozen=True)
class Plan:
    """The plan of a run.

    Parameters
    ----------
    data : DataFacts
    steps : list of PlannedStep
    limits : ProcessLimits
    available_nbytes : int
        Bytes for one task: the `memory_limit` of each selector.
    is_fetched_anew : bool
        Whether each pass fetches the store over the network again, because there is no local cache.
    rereadings : tuple of Rereading
    groups_cut : tuple of str
    """

    data: DataFacts
    steps: list[PlannedStep]
    limits: ProcessLimits
    available_nbytes: int
    is_fetched_anew: bool = False
    rereadings: tuple[Rereading, ...] = ()
    """Steps that decode much of the store repeatedly."""
    groups_cut: tuple[str, ...] = ()
    """Messages about parts that do not keep the split's groups of rows together."""

    @property
    def promised_nbytes(self) -> dict[str, int]:
        """Peak resident bytes of the client process and, on a cluster, of each worker."""
        promised = {"client": max(step.client_nbytes for step in self.steps)}
        if self.limits.worker is not None:
            promised["worker"] = max(step.worker.nbytes for step in self.steps)
        return promised

    def to_document(self) -> dict[str, Any]:
        """Return the plan as a JSON-serialisable mapping."""
        data = self.data
        facts = asdict(replace(data, names=None, table_columns=None))
        del facts["names"], facts["table_columns"]
        return {
            "data": facts | {"tile_shape": list(data.tile_shape), "target": data.target._asdict()},
            "steps": [step.to_document() for step in self.steps],
            "cluster_kind": self.limits.kind,
            "n_workers": self.limits.n_workers,
            "limits_nbytes": self.limits.by_process,
            "promised_nbytes": self.promised_nbytes,
            "rereadings": [one._asdict() for one in self.rereadings],
            "groups_cut": [*self.groups_cut],
        }

    def to_text(self) -> str:
        """Return the plan as text."""
        data, limits = self.data, self.limits
        about = "about " if data.is_estimate else ""
        state = "exists already" if data.store_exists else "will be made"
        least = "at least " if data.growing_columns else ""
        lines = [
            f"data     {about}{data.n_samples:,} samples x {least}{data.n_features:,} features, {data.dtype}, "
            f"tiles {data.tile_shape[0]:,} x {data.tile_shape[1]:,}; {data.n_train:,} samples to train on",
            f"store    none: {shown_nbytes(data.store_nbytes)} are read directly from the source's files"
            if data.is_in_place
            else f"store    {state}: {shown_nbytes(data.store_nbytes)} on disk before compression",
        ]
        if data.growing_columns:
            some = ", ".join(map(repr, data.growing_columns[:5])) + ", ..." * (len(data.growing_columns) > 5)
            columns = _counted(len(data.growing_columns), "column", "columns")
            lines.append(f"levels   {columns}, from the first rows only: {some}; each further level adds a feature")
        lines += [f"filter   {words}" for words in data.filters]
        for step in self.steps:
            passes, tasks = _counted(step.n_passes, "pass", "passes"), _counted(step.n_tasks, "task", "tasks")
            read = f"{step.name:<8} reads {shown_nbytes(step.read_nbytes)} in {passes}, {tasks}"
            lines.append("; ".join(part for part in (read, step.text) if part))
        n_passes = sum(step.n_passes for step in self.steps if step.name not in ("ingest", "evaluate"))
        if self.is_fetched_anew and n_passes > 1:
            keeps = "DASKFS_CACHE=FOLDER keeps it on the local disk"
            lines.append(f"network  fetches the store {n_passes:,} times; {keeps}")
        lines += [f"again    {one.to_text()}" for one in self.rereadings]
        lines += [f"groups   {words}" for words in self.groups_cut]
        where = {"none": "in this process", "threads": f"on {limits.n_workers} threads"}
        runs = where.get(limits.kind, f"on {limits.n_workers} workers ({limits.kind})")
        peaks = ", ".join(
            f"{process} {shown_nbytes(nbytes)} (limit {shown_nbytes(limits.by_process[process])})"
            for process, nbytes in self.promised_nbytes.items()
        )
        if limits.worker is not None:
            own = [f"{step.name}: {step.in_client}" for step in self.steps if step.in_client]
            lines.append(f"client   does itself: {'; '.join(own) or 'nothing'}")
        lines.append(f"memory   {runs}, at most: {peaks}")
        lines += [f"         {line}" for line in self._terms()]
        apart = f"in two separate processes, up to {shown_nbytes(REHEARSAL_NBYTES)} together"
        lines.append(f"compile  kernels not yet compiled on this machine, before the work, {apart}")
        return "\n".join(lines)

    def _terms(self) -> list[str]:
        """Return the terms of the peak memory of each process, the largest first."""
        lines = []
        for process in self.promised_nbytes:
            step = max(self.steps, key=lambda step: getattr(step, process).nbytes)
            terms = sorted(getattr(step, process).terms.items(), key=lambda term: -term[1])
            shown = ", ".join(f"{name} {shown_nbytes(nbytes)}" for name, nbytes in terms if nbytes)
            lines.append(f"{process} in {step.name}: {shown}")
        return lines


def plan_pipeline(pipeline: Pipeline, facts: DataFacts, n_workers: int | None = None) -> Plan:
    """Plan every step of a pipeline.

    Parameters
    ----------
    pipeline : Pipeline
    facts : DataFacts
    n_workers : int, optional
        Number of workers of a running cluster; default: `cluster.n_workers`.

    Raises
    ------
    PlanError
        A process would exceed its memory limit. The message names sufficient limits, which were found by planning.
    """
    check_losses(pipeline, facts.target)
    try:
        plan = _planned(pipeline, facts, limits_of(pipeline.cluster, n_workers))
        again, cut = tuple(_rereadings(pipeline, plan, n_workers)), tuple(_groups_cut(pipeline, plan))
        return replace(plan, rereadings=again, groups_cut=cut)
    except PlanError as fault:
        sizes = _least_limits(pipeline, facts, n_workers, fault)
        if not sizes:
            raise
        first = next(iter(sizes.values()))
        enough = first if len(sizes) == 1 else " and ".join(f"{key} {size}" for key, size in sizes.items())
        remedy = f"allow at least {enough}" + (f", or {fault.alternative}" if fault.alternative else "")
        needed = parse_bytes(first)
        raise PlanError(
            fault.problem, fault.where, remedy, needed_nbytes=needed, alternative=fault.alternative
        ) from None


def _planned(pipeline: Pipeline, facts: DataFacts, limits: ProcessLimits) -> Plan:
    """Plan with these limits. Tasks get the memory of their process that the client's part of a selection leaves."""
    n_threads = 1 if limits.kind == "none" else limits.n_workers * limits.n_threads
    more = {"n_threads": n_threads, "tile_shape": facts.tile_shape, "target": facts.target}
    more |= {"n_stored": facts.n_stored, "has_statistics": facts.has_statistics, "n_entries": facts.n_trained}
    more |= {"ahead_nbytes": facts.ahead_nbytes, "has_products": facts.is_in_place}
    more |= {"crowding": facts.crowding, "names": facts.names, "table_columns": facts.table_columns}
    available = limits.available_nbytes(facts)
    while True:
        plans = {}
        for label in pipeline.selections:
            try:
                selector = pipeline.make_selector(label, available)
                plans[label] = selector.plan(facts.n_train, facts.n_features, facts.dtype, available, **more)
            except PlanError as fault:
                if fault.needed_nbytes is None:
                    raise
                problem = f"{fault.problem}, the part of {shown_nbytes(limits.for_tasks)} that is left for a task"
                raise PlanError(problem, "cluster.memory_limit", alternative=fault.alternative) from None
        n_targets = pipeline.n_targets
        steps = [select.cost(label, plan, facts, limits, n_targets) for label, plan in plans.items()]
        excess = max(getattr(step, limits.of_tasks).nbytes for step in steps) - limits.for_tasks
        if excess <= 0 or excess >= available:
            whole = make_plan(facts, plans, limits, available, _n_refitted(pipeline, facts), n_targets)
            store = pipeline.store_path
            return replace(whole, is_fetched_anew=isinstance(store, ObjectPath) and store.cache_for("any") is None)
        available -= -(-excess // limits.n_tasks_in_process)


def _groups_cut(pipeline: Pipeline, plan: Plan) -> Iterator[str]:
    """Yield messages about selections that do not keep the split's groups of rows together."""
    if pipeline.split is None or pipeline.split.groups is None:
        return
    for label, selection in pipeline.selections.items():
        words = selection.make_selector(plan.available_nbytes).groups_are_cut_by
        if words:
            yield f"{label}: {words} do not keep groups of {pipeline.split.groups!r} together"


def _rereadings(pipeline: Pipeline, plan: Plan, n_workers: int | None) -> Iterator[Rereading]:
    """Yield the steps that decode much data repeatedly, with settings that avoid it."""
    facts = plan.data
    if facts.n_entries is not None or facts.is_in_place:
        return

    def times(step: PlannedStep, facts: DataFacts) -> float:
        grid = Grid(facts.n_train, facts.n_features, *facts.tile_shape, n_stored=facts.n_stored)
        return times_decoded(step.work, step.n_passes, grid)

    def planned_again(name: str, facts: DataFacts, cluster: Cluster) -> float:
        try:
            steps = _planned(pipeline, facts, limits_of(cluster, n_workers)).steps
        except PlanError:
            return math.inf
        return times(next(step for step in steps if step.name == name), facts)

    for step in plan.steps:
        found, limit = times(step, facts), plan.limits.for_tasks // MIB
        if (found - 1.0) * step.n_passes * facts.n_train * facts.row_nbytes < REPORTED_NBYTES:
            continue

        def with_memory(n_mib: int, name: str = step.name) -> float:
            return planned_again(name, facts, pipeline.cluster.model_copy(update={"memory_limit": f"{n_mib}MiB"}))

        tiles = other_tiles(facts.tile_shape, facts.n_samples, facts.n_features)
        others = {one: planned_again(step.name, replace(facts, tile_shape=one), pipeline.cluster) for one in tiles}
        least = min(with_memory(MAX_MEMORY_FACTOR * limit), *others.values())
        if found < REPORTED_FROM * least:
            continue
        n_mib = least_memory(limit, lambda n: with_memory(n) < ENOUGH * least)  # noqa: B023
        shape = next((one for one, again in others.items() if again < ENOUGH * least), None)
        remedies = [] if n_mib is None else [f"cluster.memory_limit: {n_mib}MiB"]
        remedies += [] if shape is None else [f"store.tile_shape: {[*shape]}"]
        yield Rereading(step.name, found, least, remedies)


def _least_limits(
    pipeline: Pipeline, facts: DataFacts, n_workers: int | None, fault: PlanError | None
) -> dict[str, str]:
    """Return sufficient limits by key, each at most 1 MiB above the smallest."""
    found: dict[str, str] = {}
    cluster = pipeline.cluster

    def refused_at(key: str, n_mib: int) -> PlanError | None:
        try:
            _planned(pipeline, facts, limits_of(cluster.model_copy(update={key: f"{n_mib}MiB"}), n_workers))
        except PlanError as refusal:
            return refusal
        return None

    while fault is not None:
        key = fault.where.rpartition(".")[2]
        if key in found or key not in ("memory_limit", "client_memory_limit"):
            return {}
        refused, accepted = 0, 256
        while (fault := refused_at(key, accepted)) is not None and fault.where.endswith(f".{key}"):
            refused, accepted = accepted, 2 * accepted
            if accepted > MOST_MIB:
                return {}
        while accepted - refused > 1:
            middle = (accepted + refused) // 2
            again = refused_at(key, middle)
            if again is not None and again.where.endswith(f".{key}"):
                refused = middle
            else:
                accepted, fault = middle, again
        found[key] = f"{accepted}MiB"
        cluster = cluster.model_copy(update={key: found[key]})
    return found


def _n_refitted(pipeline: Pipeline, facts: DataFacts) -> int:
    """Return the number of columns of the pipeline's common refit; 0 without a refit."""
    if pipeline.refit.by == "method":
        return 0
    asked = (getattr(one, key_of_n_features(one.method), None) for one in pipeline.selections.values())
    return min(max(n if isinstance(n, int) else REFIT_COLUMNS for n in asked), facts.n_features)


def make_plan(
    data: DataFacts,
    selector_plans: Mapping[str, Any],
    limits: ProcessLimits,
    available: int | None = None,
    n_refitted: int = 0,
    n_targets: int = 1,
) -> Plan:
    """Combine the costs of all steps and compare them with the limits.

    Parameters
    ----------
    data : DataFacts
    selector_plans : mapping of str to SelectorPlan
        One for each selection, by label.
    limits : ProcessLimits
    available : int, optional
        Bytes per task with which the selections were planned; default: all that the base of the process leaves.
    n_refitted : int
        Number of columns of the pipeline's common refit; 0 without a refit.
    n_targets : int
        Number of runs with other targets that share the selections' passes, this one included.

    Raises
    ------
    PlanError
        A process would exceed its limit. The message says how much memory it needs.
    """
    steps = [] if data.store_exists else [ingest.cost(data, limits)]
    steps += [select.cost(label, plan, data, limits, n_targets) for label, plan in selector_plans.items()]
    if n_refitted:
        steps.append(refit.cost(n_refitted, len(selector_plans), data, limits))
    steps.append(evaluate.cost(data, limits))
    available = limits.available_nbytes(data) if available is None else available
    whole = Plan(data, steps, limits, available)
    for process, nbytes in whole.promised_nbytes.items():
        limit = limits.by_process[process]
        if nbytes > limit:
            key = "client_memory_limit" if process == "client" and limits.worker is not None else "memory_limit"
            step = max(steps, key=lambda step: getattr(step, process).nbytes)
            terms = largest_terms(getattr(step, process))
            fewer = "select fewer features, or train on fewer rows" if step.name in selector_plans else ""
            raise PlanError(
                f"the {process} would need {shown_nbytes(nbytes)} in {step.name} ({terms}), but the memory "
                f"limit is {shown_nbytes(limit)}",
                f"cluster.{key}",
                f"allow at least {in_mib(nbytes)}" + (f", or {fewer}" if fewer else ""),
                alternative=fewer,
            )
    return whole


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def plan_of_stream(pipeline: Pipeline) -> str:
    """Return the memory plan of a run without a store as text."""
    source = check_stream(pipeline)
    n_samples, _ = source.estimate_shape()
    limits = limits_of(pipeline.cluster)
    available, base = available_for_model(limits), limits.base_of_client(0)
    lines = [f"no store: one pass over about {n_samples or 0:,} rows as they are read"]
    for selection in pipeline.selections.values():
        planned = selection.make_selector(available).plan_source(source)
        n_models = getattr(selection, "n_replicas", 1) if pipeline.cluster.kind == "none" else 1
        whole = base + planned.client + planned.task.times(n_models)
        terms = sorted(whole.terms.items(), key=lambda term: -term[1])
        shown = ", ".join(f"{name} {shown_nbytes(nbytes)}" for name, nbytes in terms if nbytes)
        lines += [planned.text, f"memory of this process {shown_nbytes(whole.nbytes)}: {shown}"]
    return "\n".join(lines)


def jobs_of(pipeline: Pipeline, *, to_run: bool = False) -> dict[str, Any]:
    """Return the number of jobs that a pipeline submits to a batch system, and their script; empty without jobs.

    The script is the one submitted, but with ``${NAME}`` as written and without secrets, because it is logged.

    Raises
    ------
    ConfigError
        dask-jobqueue is not installed, and `to_run` is true.
    """
    if pipeline.cluster.kind not in JOB_QUEUES:
        return {}
    jobs = pipeline.cluster_jobs
    try:
        return {"n_jobs": jobs.n_jobs, "job_script": redacted(job_script(jobs))}
    except errors.ConfigError as fault:
        if to_run or fault.where != "cluster.kind":
            raise
        return {"n_jobs": jobs.n_jobs, "job_script": None, "problem": f"{fault.problem}: {fault.remedy}"}


def text_of_jobs(jobs: Mapping[str, Any]) -> str:
    """Return the outcome of `jobs_of` as text."""
    if not jobs:
        return ""
    script = jobs["job_script"]
    return f"jobs     {jobs['n_jobs']} of this script:\n\n{script}" if script else f"jobs     {jobs['problem']}"
