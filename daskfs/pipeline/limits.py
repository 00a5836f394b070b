"""Memory limits of the processes of a run, what they take before any data, and a step planned within them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from daskfs.cluster.jobqueue import JOB_QUEUES
from daskfs.errors import PlanError
from daskfs.pipeline.config import Cluster
from daskfs.pipeline.facts import DataFacts
from daskfs.selectors.shared.budget import Budget
from daskfs.selectors.shared.work import Work

MIB = 2**20
BASE_CLIENT_NBYTES = 384 * MIB
"""The client process before any data: Python with NumPy, SciPy, numba, pandas, PyArrow, Zarr, scikit-learn, Dask and
Matplotlib. Measured: 367 to 393 MiB at the end of runs on 442 rows. All constants here are measured by
``benchmarks/process_memory.py``, which writes a page with the measurements."""
BASE_SCHEDULER_NBYTES = 40 * MIB
"""Dask's scheduler and dashboard in the client process, if we start the cluster; measured: 34 to 43 MiB."""
BASE_WORKER_NBYTES = 184 * MIB
"""A worker process before any data: Dask (62 MiB), numba (55), the compiled kernels (45), this library; measured: 178
to 187 MiB."""
BASE_EXTERNAL_NBYTES = 40 * MIB
"""Additional memory of a worker that we did not start locally: its own dashboard; measured: 37 to 39 MiB."""
HELD_NBYTES = {"client": 16 * MIB, "worker": 12 * MIB}
"""Margin for memory that Python, the allocator and Dask hold between tasks. It varies between runs, more on a busy
machine; measured: at most 9 MiB above the other terms."""
WORKER_ROW_NBYTES = 3 * 8
"""Per training row in a worker, if these are a subset of the store's rows: the row numbers (int64), and while a column
is read their positions in the tiles and allocator overhead; measured: 8 and 16 bytes
(``benchmarks/process_memory.py --rows``)."""
CLIENT_ROW_NBYTES = 64
"""Per row, in the client process: target, weight, order of the source, the split and its sorting (int64 each)."""
EVALUATE_NBYTES = 32 * MIB
"""Blocks of test rows, selected columns only, and their copies in double precision."""
READER_NBYTES = 64 * MIB
"""Text or columns that a source has read but not yet encoded."""
BASE_READER_NBYTES = 96 * MIB
"""Memory of workers that have read a source: Arrow (measured: 49 MiB), pandas if Arrow imports it (29), and buffers."""
WORTH_WORKERS_NBYTES = 512 * MIB
"""Minimum size of a store for which starting local processes, which must load Arrow, speeds up ingest."""
N_SHOWN_TERMS = 3
"""Number of the largest terms that a refused plan names."""
INGEST_SHARE = 2
"""Ingest holds the rows being cut into tiles and a permuted copy of them, but never more than its limit."""
SPARSE_INGEST_NBYTES = 1024 * MIB
"""Ingest of sparse entries uses all memory allowed, to sort more entries at once; this is enough for small stores."""


class ProcessLimits(NamedTuple):
    """Kind of cluster, and the limit of the peak resident memory of each process."""

    kind: str
    """`cluster.kind` of a pipeline."""
    n_workers: int
    client: int
    worker: int | None = None
    """None if there are no worker processes."""
    n_threads: int = 1
    """Number of threads of each worker process."""

    @property
    def by_process(self) -> dict[str, int]:
        """The limits by process: client and, if there are workers, worker."""
        return {"client": self.client} | ({} if self.worker is None else {"worker": self.worker})

    @property
    def n_tasks_in_process(self) -> int:
        """Number of tasks that share the memory of a process, one per thread."""
        return self.n_workers if self.kind == "threads" else self.n_threads

    @property
    def of_tasks(self) -> Literal["client", "worker"]:
        """The process in which the tasks run."""
        return "client" if self.worker is None else "worker"

    @property
    def for_tasks(self) -> int:
        """The limit of that process."""
        return self.by_process[self.of_tasks]

    def available_nbytes(self, data: DataFacts) -> int:
        """Return the bytes that one task may use, in addition to the base of its process.

        Raises
        ------
        PlanError
            The limit is below the base of the process.
        """
        client = self.base_of_client(data.n_samples, data.held_nbytes)
        taken = client if self.worker is None else self.base_of_worker(data)
        base = taken.nbytes
        available = (self.for_tasks - base) // self.n_tasks_in_process
        if available < data.row_nbytes:
            raise PlanError(
                f"a process takes {shown_nbytes(base)} before its first block ({largest_terms(taken)}), "
                f"but the memory limit is {shown_nbytes(self.for_tasks)}",
                "cluster.memory_limit",
                f"allow at least {in_mib(base + self.n_tasks_in_process * max(32 * MIB, 8 * data.row_nbytes))}",
            )
        return available

    def predicts_on_workers(self, data: DataFacts) -> bool:
        """Return whether workers have memory for blocks of test rows; else the client process predicts them."""
        if self.worker is None:
            return False
        task_nbytes = self.n_tasks_in_process * predicting(data).nbytes
        return self.base_of_worker(data).nbytes + task_nbytes <= self.worker

    def ingests_on_workers(self, data: DataFacts) -> bool:
        """Return whether worker processes make the store by reading parts of the source, each within its limit."""
        return not data.store_exists and self.worker is not None and not self.why_in_client(data)

    def why_in_client(self, data: DataFacts) -> str:
        """Return the reason why the client process makes the store itself; "" if workers make it."""
        if self.worker is None:
            return "there are no worker processes"
        if not data.has_parts:
            return "the source cannot be read in parts"
        if self.ends_after_ingest and data.store_nbytes < WORTH_WORKERS_NBYTES:
            return f"starting processes takes longer for a store below {shown_nbytes(WORTH_WORKERS_NBYTES)}"
        if not self._left_to_ingest(self.base_of_worker(), self.worker):
            return "the workers' memory limit is too small for it"
        return ""

    @property
    def ends_after_ingest(self) -> bool:
        """Whether the processes that make the store end afterwards, so that selections do not share their memory."""
        return self.kind == "local"

    def ingest_nbytes(self, data: DataFacts) -> int:
        """Return the bytes that ingest may use in a process, in addition to the base of the process."""
        left = self._left_to_ingest(self.base_of_client(data.n_samples, data.held_nbytes), self.client)
        if self.ingests_on_workers(data):  # the client reads parts that workers cannot read
            left = min(left, self._left_to_ingest(self.base_of_worker(), self.worker or 0) // self.n_threads)
        if data.n_entries is not None:
            left = min(left, max(SPARSE_INGEST_NBYTES, INGEST_SHARE * data.store_nbytes))
        return max(left, 16 * MIB)

    def _left_to_ingest(self, base: Budget, limit: int) -> int:
        return limit - base.nbytes - READER_NBYTES if limit - base.nbytes - READER_NBYTES >= 16 * MIB else 0

    def base_of_client(self, n_samples: int, held_nbytes: int = 0) -> Budget:
        """Return the base memory of the client process."""
        base = Budget().add("the process", BASE_CLIENT_NBYTES).add("held between tasks", HELD_NBYTES["client"])
        if self.kind in ("threads", "local", *JOB_QUEUES):
            base.add("scheduler and dashboard", BASE_SCHEDULER_NBYTES)
        if held_nbytes:
            base.add("names", held_nbytes)
        return base.add("target, weights and order of the rows", CLIENT_ROW_NBYTES * n_samples)

    def base_of_worker(self, data: DataFacts | None = None) -> Budget:
        """Return the base memory of a worker process; with `data`, after it may have read parts of the source."""
        base = Budget().add("the process", BASE_WORKER_NBYTES).add("held between tasks", HELD_NBYTES["worker"])
        if self.kind != "local":
            base.add("its dashboard", BASE_EXTERNAL_NBYTES)
        if data is not None and self.ingests_on_workers(data) and not self.ends_after_ingest:
            base.add("libraries that read the source", BASE_READER_NBYTES)
        if data is not None and data.are_some_rows:
            base.add("row numbers", WORKER_ROW_NBYTES * data.n_train)
        return base


def limits_of(cluster: Cluster, n_workers: int | None = None) -> ProcessLimits:
    """Return the limits that a pipeline sets; `n_workers` is that of a running cluster, if known."""
    return ProcessLimits(
        cluster.kind, n_workers or cluster.n_workers, **cluster.limits_nbytes, n_threads=cluster.threads_of_worker
    )


def available_for_model(limits: ProcessLimits) -> int:
    """Return the bytes that this process has available for a model, in a run without a store."""
    return max(limits.client - limits.base_of_client(0).nbytes, 1)


@dataclass(frozen=True)
class PlannedStep:
    """A planned step: bytes read, passes over the training rows, tasks, and the peak memory of each process."""

    name: str
    read_nbytes: int
    n_passes: int
    n_tasks: int
    disk_nbytes: int
    client: Budget
    worker: Budget
    text: str
    in_client: str = ""
    """The part that the client process does itself although there are workers, and the reason."""
    work: Work | None = None

    @property
    def client_nbytes(self) -> int:
        """Peak memory of the client process."""
        return self.client.nbytes

    def to_document(self) -> dict[str, Any]:
        """Return the step as a JSON-serialisable mapping."""
        document = asdict(self)
        del document["work"]
        for process in ("client", "worker"):
            budget = document.pop(process)
            document[f"{process}_nbytes"], document[f"{process}_terms"] = getattr(self, process).nbytes, budget["terms"]
        return document


def predicting(data: DataFacts) -> Budget:
    """Return the memory of a task that predicts test rows."""
    task = Budget().add("blocks of test rows", EVALUATE_NBYTES).include(data.ahead)
    return task if data.n_entries is None else task.add("index of selected columns", 4 * data.n_features)


def largest_terms(budget: Budget) -> str:
    """Return the largest terms of a budget as text."""
    terms = sorted(budget.terms.items(), key=lambda term: -term[1])[:N_SHOWN_TERMS]
    return ", ".join(f"{name} {shown_nbytes(size)}" for name, size in terms if size)


def shown_nbytes(nbytes: int) -> str:
    """Format a size in bytes.

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


def in_mib(nbytes: int) -> str:
    """Return the size in a pipeline's notation, rounded up to MiB."""
    return f"{-(-nbytes // MIB)}MiB"
