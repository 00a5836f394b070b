"""What a pipeline will cost, from sizes alone: bytes read, passes, tasks, bytes on disk, peak memory per process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from daskfs.errors import PlanError
from daskfs.pipeline.config import Cluster
from daskfs.selectors.shared.budget import Budget

MIB = 2**20

REHEARSAL_NBYTES = 1024 * MIB
"""The two processes that compile the kernels together, see `daskfs.pipeline.compile_ahead`; 450 MiB each measured."""
BASE_CLIENT_NBYTES = 384 * MIB
"""The process that leads a run, before any data: Python with NumPy, SciPy, numba, pandas, PyArrow, Zarr, scikit-learn,
Dask and Matplotlib; 345 to 365 MiB measured at the end of runs over 442 rows."""
BASE_WORKER_NBYTES = 184 * MIB
"""A worker process before any data: Dask (62 MiB), numba (55), the compiled kernels (45), this library; 174 to 178 MiB
measured."""
CLIENT_ROW_NBYTES = 64
"""Per row, in the leading process: target, weight, order of the source, the split and its sorting (int64 each)."""
EVALUATE_NBYTES = 32 * MIB
"""Blocks of test rows, selected columns only, and their copies in double precision."""
READER_NBYTES = 64 * MIB
"""Text or columns that a source has read and not yet encoded."""
INGEST_SHARE = 2
"""Ingest holds the rows it is cutting into tiles and the permuted copy of them, never more than its limit."""


@dataclass(frozen=True)
class DataFacts:
    """What is known of the data before they are read.

    Parameters
    ----------
    n_samples, n_features : int
    dtype : str
        Of the store.
    tile_shape : tuple of int
    n_train : int
        Rows to train on, where the split tells without labels; else all.
    is_estimate : bool
        Whether the shape was guessed from the head of a text table.
    store_stands : bool
        Whether the store is there already.
    store_nbytes : int
        On disk, before compression.
    """

    n_samples: int
    n_features: int
    dtype: str
    tile_shape: tuple[int, int]
    n_train: int
    is_estimate: bool
    store_stands: bool
    store_nbytes: int

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row in memory."""
        return self.n_features * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class PlannedStep:
    """One step of a run: bytes read, how often the training rows are passed over, tasks, and what the peaks are of."""

    name: str
    read_nbytes: int
    n_passes: int
    n_tasks: int
    disk_nbytes: int
    client: Budget
    worker: Budget
    text: str

    @property
    def client_nbytes(self) -> int:
        """Peak of the client process."""
        return self.client.nbytes

    @property
    def worker_nbytes(self) -> int:
        """Peak of a worker process; 0 where there is none."""
        return self.worker.nbytes

    def to_document(self) -> dict[str, Any]:
        """Return the step as JSON can hold it."""
        document = asdict(self)
        for process in ("client", "worker"):
            budget = document.pop(process)
            document[f"{process}_nbytes"], document[f"{process}_terms"] = getattr(self, process).nbytes, budget["terms"]
        return document


@dataclass(frozen=True)
class Plan:
    """What a run costs.

    Parameters
    ----------
    data : DataFacts
    steps : list of PlannedStep
    cluster_kind : str
    n_workers : int
    limits_nbytes : dict of int
        By process, as `promised_nbytes`.
    """

    data: DataFacts
    steps: list[PlannedStep]
    cluster_kind: str
    n_workers: int
    limits_nbytes: dict[str, int]

    def after(self, before: Plan) -> Plan:
        """Return this plan with the ingest that another one, made before the store stood, began with."""
        ingest = [step for step in before.steps if step.name == "ingest"]
        return replace(self, steps=[*ingest, *self.steps])

    @property
    def promised_nbytes(self) -> dict[str, int]:
        """Peak resident bytes of the leading process and, on a cluster, of each worker."""
        promised = {"client": max(step.client_nbytes for step in self.steps)}
        if "worker" in self.limits_nbytes:
            promised["worker"] = max(step.worker_nbytes for step in self.steps)
        return promised

    def to_document(self) -> dict[str, Any]:
        """Return the plan as JSON can hold it."""
        document = asdict(self)
        document["data"]["tile_shape"] = list(self.data.tile_shape)
        steps = [step.to_document() for step in self.steps]
        return document | {"steps": steps, "promised_nbytes": self.promised_nbytes}

    def to_text(self) -> str:
        """Return the plan for a reader."""
        data, promised = self.data, self.promised_nbytes
        about = "about " if data.is_estimate else ""
        state = "stands already" if data.store_stands else "will be made"
        lines = [
            f"data     {about}{data.n_samples:,} samples x {data.n_features:,} features, {data.dtype}, "
            f"tiles {data.tile_shape[0]:,} x {data.tile_shape[1]:,}; {data.n_train:,} samples to train on",
            f"store    {state}: {shown_nbytes(data.store_nbytes)} on disk before compression",
        ]
        for step in self.steps:
            passes, tasks = _counted(step.n_passes, "pass", "passes"), _counted(step.n_tasks, "task", "tasks")
            read = f"{step.name:<8} reads {shown_nbytes(step.read_nbytes)} in {passes}, {tasks}"
            lines.append("; ".join(part for part in (read, step.text) if part))
        where = {"none": "in this process", "threads": f"on {self.n_workers} threads"}
        runs = where.get(self.cluster_kind, f"on {self.n_workers} workers ({self.cluster_kind})")
        peaks = ", ".join(
            f"{process} {shown_nbytes(nbytes)} (limit {shown_nbytes(self.limits_nbytes[process])})"
            for process, nbytes in promised.items()
        )
        lines.append(f"memory   {runs}, at most: {peaks}")
        lines += [f"         {line}" for line in self._terms()]
        apart = f"in two processes of their own, of up to {shown_nbytes(REHEARSAL_NBYTES)}"
        lines.append(f"compile  before the work, where this machine has not run the like of it yet, {apart}")
        return "\n".join(lines)

    def _terms(self) -> list[str]:
        """Return what the peaks are made of, by process, the largest first."""
        lines = []
        for process in self.promised_nbytes:
            step = max(self.steps, key=lambda step: getattr(step, process).nbytes)
            terms = sorted(getattr(step, process).terms.items(), key=lambda term: -term[1])
            shown = ", ".join(f"{name} {shown_nbytes(nbytes)}" for name, nbytes in terms if nbytes)
            lines.append(f"{process} in {step.name}: {shown}")
        return lines


def available_nbytes(cluster: Cluster, data: DataFacts, n_workers: int) -> int:
    """Return the bytes one task may take, besides the process it runs in.

    Raises
    ------
    PlanError
        The limit is below what the process itself takes.
    """
    if cluster.has_workers:
        process, base, n_shares = "worker", BASE_WORKER_NBYTES, 1
    else:
        process, base = "client", BASE_CLIENT_NBYTES + CLIENT_ROW_NBYTES * data.n_samples
        n_shares = n_workers if cluster.kind == "threads" else 1
    limit = cluster.limits_nbytes[process]
    available = (limit - base) // n_shares
    if available < data.row_nbytes:
        raise PlanError(
            f"a process takes {shown_nbytes(base)} before its first block, "
            f"but the memory limit is {shown_nbytes(limit)}",
            "cluster.memory_limit",
            f"allow at least {_enough(base + n_shares * max(16 * MIB, 8 * data.row_nbytes))}",
        )
    return available


def over_limit(fault: PlanError, cluster: Cluster, available: int, n_workers: int) -> PlanError:
    """Return a task's excess as what the user can set: the limit of the whole process."""
    if fault.needed_nbytes is None:
        return fault
    limit = cluster.limits_nbytes["worker" if cluster.has_workers else "client"]
    more = (fault.needed_nbytes - available) * (n_workers if cluster.kind == "threads" else 1)
    problem = f"{fault.problem}, which is what {shown_nbytes(limit)} leave to a task"
    remedy = f"allow at least {_enough(limit + more)}" + (f", or {fault.alternative}" if fault.alternative else "")
    return PlanError(problem, "cluster.memory_limit", remedy, needed_nbytes=limit + more, alternative=fault.alternative)


def ingest_limit(cluster: Cluster, n_samples: int) -> int:
    """Return the bytes that ingest may take, in the leading process, besides what that takes anyway."""
    taken = BASE_CLIENT_NBYTES + READER_NBYTES + CLIENT_ROW_NBYTES * n_samples
    return max(cluster.limits_nbytes["client"] - taken, 16 * MIB)


def make_plan(
    data: DataFacts, selector_plans: Mapping[str, Any], cluster: Cluster, n_workers: int | None = None
) -> Plan:
    """Put the costs of all steps together and hold them against the limit.

    Parameters
    ----------
    data : DataFacts
    selector_plans : mapping of str to SelectorPlan
        One for each selection, by label.
    cluster : Cluster
    n_workers : int, optional
        Of a cluster that runs already; `cluster.n_workers` by default.

    Raises
    ------
    PlanError
        A process would exceed the limit; with the limit that would do.
    """
    n_workers = n_workers or cluster.n_workers
    steps = [] if data.store_stands else [_ingest_step(data, cluster)]
    for label, plan in selector_plans.items():
        steps.append(_select_step(label, plan, data, cluster, n_workers))
    steps.append(_evaluate_step(data))
    whole = Plan(data, steps, cluster.kind, n_workers, cluster.limits_nbytes)
    for process, nbytes in whole.promised_nbytes.items():
        limit = whole.limits_nbytes[process]
        if nbytes > limit:
            key = "client_memory_limit" if process == "client" and cluster.has_workers else "memory_limit"
            raise PlanError(
                f"the {process} would take {shown_nbytes(nbytes)}, but the memory limit is {shown_nbytes(limit)}",
                f"cluster.{key}",
                f"allow at least {_enough(nbytes)}",
            )
    return whole


def _ingest_step(data: DataFacts, cluster: Cluster) -> PlannedStep:
    client = _client(data).add("text or columns not yet encoded", READER_NBYTES)
    client.add("rows being permuted", min(INGEST_SHARE * data.store_nbytes, ingest_limit(cluster, data.n_samples)))
    text = "rows permuted, tiles written"
    return PlannedStep("ingest", data.store_nbytes, 1, 1, data.store_nbytes, client, Budget(), text)


def _client(data: DataFacts) -> Budget:
    """Return what the client process takes whatever it does."""
    base = Budget().add("the process", BASE_CLIENT_NBYTES)
    return base.add("target, weights and order of the rows", CLIENT_ROW_NBYTES * data.n_samples)


def _select_step(label: str, plan: Any, data: DataFacts, cluster: Cluster, n_workers: int) -> PlannedStep:
    client, worker = _client(data) + plan.client, Budget()
    if cluster.has_workers:
        worker = Budget().add("the process", BASE_WORKER_NBYTES) + plan.task
    else:
        client.include(plan.task.times(n_workers if cluster.kind == "threads" else 1))
    return PlannedStep(label, plan.read_nbytes, plan.n_passes, plan.n_tasks, 0, client, worker, plan.text)


def _evaluate_step(data: DataFacts) -> PlannedStep:
    n_test = data.n_samples - data.n_train
    client = _client(data).add("blocks of test rows", EVALUATE_NBYTES)
    return PlannedStep("evaluate", n_test * data.row_nbytes, 1, 1, 0, client, Budget(), "selected columns only")


def shown_nbytes(nbytes: int) -> str:
    """Return a size for a reader.

    Examples
    --------
    >>> shown_nbytes(1536), shown_nbytes(5 * 2**30)
    ('1.5 KiB', '5.0 GiB')
    """
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"


def _enough(nbytes: int) -> str:
    """Return a size that is not below `nbytes`, as a pipeline takes it."""
    return f"{-(-nbytes // MIB)}MiB"


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"
