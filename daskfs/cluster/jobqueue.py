"""Clusters whose workers are jobs of a batch system (SLURM, PBS, LSF, SGE, OAR), through dask-jobqueue.

A job is one or several worker processes on one node. Options that are not given come from the user's ``jobqueue.yaml``,
as usual in dask-jobqueue. The needs of daskfs are added: one thread for BLAS and numba in each worker thread, an
allocator that keeps memory, and an end before the walltime. Scheduler and workers use TLS with a certificate made for
this cluster, because anyone who can connect to a scheduler can run code as its owner.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from daskfs import errors, interrupts
from daskfs.cluster.certificates import new_certificates, security_of
from daskfs.cluster.job_watch import JobWatch
from daskfs.cluster.local import LOOPBACK, scheduler_below, worker_environment
from daskfs.cluster.settings import as_environment

ConfigError = errors.ConfigError.about("clusters")
RunError = errors.RunError.about("clusters")

JOB_QUEUES = {"slurm": "SLURM", "pbs": "PBS", "lsf": "LSF", "sge": "SGE", "oar": "OAR"}
"""Kinds of clusters whose workers are jobs, and their names in dask-jobqueue."""
INSTALL = "pip install 'daskfs[hpc]'"
DEFAULT_MEMORY_LIMIT = 4 * 2**30
BESIDE_WORKERS_NBYTES = 256 * 2**20
"""Memory that a job requests in addition to that of its workers, for the process that starts and watches them."""

_IDLE_S = 60
"""Number of Dask's checks (one per second) without work before a job is released, so that pauses between steps pass."""

_LEAST_MARGIN_S, _MARGIN_RATIO = 20.0, 0.1
"""A worker ends this number of seconds, or this share of the walltime if longer, before its job's walltime."""


@dataclass(frozen=True)
class JobOptions:
    """Options of jobs; None: the value of ``jobqueue.yaml``. See `daskfs.cluster.open.open_cluster`."""

    kind: str
    n_workers: int = 1
    adapt: tuple[int, int] | None = None
    memory_limit: int | None = None
    cores: int | None = None
    processes: int | None = None
    memory: int | None = None
    walltime: str | None = None
    lifetime_s: float | None = None
    queue: str | None = None
    account: str | None = None
    resource_spec: str | None = None
    prologue: Sequence[str] | None = None
    directives: Sequence[str] | None = None
    python: str | None = None
    interface: str | None = None
    local_directory: str | None = None
    log_directory: str | None = None
    config_name: str | None = None

    def of_file(self, key: str, default: Any = None) -> Any:
        """Return an option from the user's ``jobqueue.yaml`` for this batch system."""
        import dask

        found = dask.config.get(f"jobqueue.{self.config_name or self.kind}.{key}", None)
        return default if found is None else found

    @property
    def cores_of_job(self) -> int:
        """Number of threads of a job."""
        return int(self.cores or self.of_file("cores") or self.processes or 1)

    @property
    def processes_of_job(self) -> int:
        """Number of worker processes of a job; default: one per core.

        Raises
        ------
        ConfigError
            There are more processes than cores.
        """
        n_cores = self.cores_of_job
        processes = int(self.processes or self.of_file("processes") or n_cores)
        if processes > n_cores:
            problem = f"expected at most one process for each of the {n_cores} cores of a job, found {processes}"
            raise ConfigError(problem, "cluster.processes", "raise cluster.cores, or lower it")
        return processes

    @property
    def threads_of_worker(self) -> int:
        """Number of threads of a worker process."""
        return self.cores_of_job // self.processes_of_job

    @property
    def memory_limit_of_worker(self) -> int:
        """Memory limit of a worker process in bytes."""
        if self.memory_limit is not None:
            return self.memory_limit
        from dask.utils import parse_bytes

        memory = self.memory if self.memory is not None else self.of_file("memory")
        if memory is None:
            return DEFAULT_MEMORY_LIMIT
        of_job = int(parse_bytes(memory))
        return max(of_job - BESIDE_WORKERS_NBYTES, of_job // 2) // self.processes_of_job

    @property
    def memory_of_job(self) -> int:
        """Memory requested by a job in bytes.

        Raises
        ------
        ConfigError
            The limits of its workers add up to more.
        """
        workers = self.processes_of_job * self.memory_limit_of_worker
        if self.memory is None:
            return workers + BESIDE_WORKERS_NBYTES
        if self.memory < workers:
            problem = (
                f"a job has {self.memory // 2**20:,} MiB, but its {self.processes_of_job} workers may use "
                f"{self.memory_limit_of_worker // 2**20:,} MiB each"
            )
            raise ConfigError(problem, "cluster.memory", "raise it, or lower cluster.memory_limit")
        return self.memory

    @property
    def n_jobs(self) -> int:
        """Number of jobs to request."""
        return math.ceil(self.n_workers / self.processes_of_job)

    @property
    def n_to_start_with(self) -> int:
        """Number of workers to wait for before the work begins: all, or the minimum of an adaptive cluster."""
        return self.n_workers if self.adapt is None else self.adapt[0]

    @property
    def logs(self) -> Path:
        """Folder of the job logs, on a file system shared by all nodes."""
        return Path(self.log_directory or self.of_file("log-directory") or "daskfs-jobs").expanduser().absolute()

    @property
    def lifetime(self) -> tuple[float, float] | None:
        """Seconds after which a worker hands over its data and ends, and their random spread; None: never.

        It is slightly less than the walltime. The spread prevents all workers from ending at once, since the data of
        one move to another.
        """
        walltime = self.walltime or self.of_file("walltime")
        if "--lifetime" in self.of_file("worker-extra-args", []):
            return None
        ends_s = math.inf if walltime is None else seconds_of_walltime(str(walltime), self.kind)
        margin_s = max(_LEAST_MARGIN_S, _MARGIN_RATIO * ends_s)
        lives_s = ends_s - margin_s if self.lifetime_s is None else self.lifetime_s
        if not math.isfinite(lives_s):
            return None
        if not 0 < lives_s < ends_s:
            problem = f"expected a lifetime of workers below the walltime ({walltime}), found {lives_s:g} s"
            raise ConfigError(problem, "cluster.walltime", f"request more than {2 * _LEAST_MARGIN_S:g} s")
        return lives_s, min(lives_s / 4, (ends_s - lives_s) / 2)


def seconds_of_walltime(walltime: str, kind: str = "slurm") -> float:
    """Return a walltime in seconds, parsed like the batch system does.

    Raises
    ------
    ConfigError
        The text is not a walltime.

    Examples
    --------
    >>> seconds_of_walltime("01:30:00"), seconds_of_walltime("1-00:00:00"), seconds_of_walltime("02:30", "lsf")
    (5400.0, 86400.0, 9000.0)
    """
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", walltime.strip())
    if found is None:
        raise ConfigError(f"expected a time, found {walltime!r}", "cluster.walltime", "for example 01:30:00")
    days, *clock = (None if part is None else int(part) for part in found.groups())
    parts = [part for part in clock if part is not None]
    if days is not None or len(parts) == 3:
        units = [3600, 60, 1]  # 1-12, 1-12:30, 12:30:00
    elif len(parts) == 2:
        units = [60, 1] if kind in ("slurm", "pbs", "sge") else [3600, 60]
    else:
        units = [60] if kind in ("slurm", "lsf") else [3600] if kind == "oar" else [1]
    return 86400.0 * (days or 0) + sum(part * unit for part, unit in zip(parts, units, strict=False))


def _cluster_class(kind: str) -> Any:
    """Return dask-jobqueue's class for a kind of cluster.

    Raises
    ------
    ConfigError
        dask-jobqueue is not installed.
    """
    try:
        with _same_handler():
            import dask_jobqueue
    except ImportError:
        problem = f"kind {kind} needs dask-jobqueue, which is not installed"
        raise ConfigError(problem, "cluster.kind", INSTALL) from None
    return getattr(dask_jobqueue, f"{JOB_QUEUES[kind]}Cluster")


@contextmanager
def _same_handler() -> Iterator[None]:
    """Restore the handler of SIGINT, which dask-jobqueue replaces when it is imported."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def job_script(options: JobOptions) -> str:
    """Return the script of a job, with placeholders for the scheduler's address and the worker's name.

    Raises
    ------
    ConfigError
        dask-jobqueue is not installed, or options contradict each other.
    """
    job_cls = _cluster_class(options.kind).job_cls
    return str(job_cls("tls://SCHEDULER:PORT", name="NAME", **_job_arguments(options)).job_script())


def _job_arguments(options: JobOptions) -> dict[str, Any]:
    """Return the arguments for dask-jobqueue, which reads missing ones from ``jobqueue.yaml`` itself."""
    kind, limit, memory = options.kind, options.memory_limit_of_worker, options.memory_of_job
    environment = worker_environment(limit) | as_environment()
    own = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    prologue = options.of_file("job-script-prologue", []) if options.prologue is None else options.prologue
    worker_arguments = [*options.of_file("worker-extra-args", []), "--no-dashboard"]  # 18 MiB of each worker's memory
    if options.lifetime is not None:
        seconds, spread = options.lifetime
        worker_arguments += ["--lifetime", f"{seconds:g}s", "--lifetime-stagger", f"{spread:g}s"]
    name = options.of_file("name")
    arguments: dict[str, Any] = {
        "cores": options.cores_of_job,
        "processes": options.processes_of_job,
        "memory": options.processes_of_job * limit,  # dask-jobqueue divides it among the workers
        "job_script_prologue": [*own, *prologue],
        "worker_extra_args": worker_arguments,
        "log_directory": str(options.logs),
        "job_name": "daskfs" if name in (None, "dask-worker") else name,
    }
    resource_spec = options.resource_spec or options.of_file("resource-spec")
    if kind == "slurm":
        arguments["job_mem"] = None if options.of_file("job-mem") else f"{-(-memory // 2**20)}M"
    elif kind == "lsf":
        arguments["mem"] = options.of_file("mem") or memory
    elif kind == "pbs":
        asked = f"select=1:ncpus={options.cores_of_job}:mem={-(-memory // 2**20)}MB"
        arguments["resource_spec"] = resource_spec or asked
    else:
        arguments["resource_spec"] = resource_spec
    if kind == "oar":
        arguments["memory_per_core_property_name"] = options.of_file("memory-per-core-property-name", "not_applicable")
    given = {
        "walltime": options.walltime,
        "queue": options.queue,
        "account" if kind in ("slurm", "pbs") else "project": options.account,
        "job_extra_directives": None if options.directives is None else list(options.directives),
        "python": options.python,
        "interface": options.interface,
        "local_directory": options.local_directory,
        "config_name": options.config_name,
    }
    return arguments | {key: value for key, value in given.items() if value is not None}


@contextmanager
def job_cluster(
    options: JobOptions, dashboard_address: str | None, tell: Callable[[str], None]
) -> Iterator[tuple[Any, JobWatch]]:
    """Start a scheduler in this process, and submit jobs with its workers to the batch system.

    Yields
    ------
    cluster : dask_jobqueue.core.JobQueueCluster
    watch : JobWatch
        Watch over the jobs. If they cannot start, its error ends any wait for workers.
    """
    cluster_cls = _cluster_class(options.kind)
    import dask

    arguments = _job_arguments(options)
    try:
        options.logs.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        problem = f"cannot create the folder of the job logs ({fault.strerror})"
        remedy = "choose another folder that all nodes share"
        raise RunError(problem, f"cluster.log_directory {options.logs}", remedy) from None
    watch = JobWatch(options.kind, options.logs, options.n_workers, tell)
    secret = secrets.token_urlsafe(16)
    listen = dashboard_address or f"{LOOPBACK}:0"
    scheduler = {"dashboard": dashboard_address is not None, "dashboard_address": listen, "http_prefix": f"/{secret}"}
    settings = {
        "distributed.dashboard.link": f"http://{listen.rpartition(':')[0] or '{host}'}:{{port}}/{secret}/status",
        # The watch replaces jobs that end. Dask would cancel a job whose worker is being restarted.
        "distributed.deploy.lost-worker-timeout": "10 days",
    }
    with ExitStack() as stack:
        settings["temporary-directory"] = stack.enter_context(TemporaryDirectory(prefix="daskfs-"))  # the scheduler's
        stack.enter_context(dask.config.set(settings))
        shared = Path(options.of_file("shared-temp-directory", options.logs)).expanduser()
        secret_folder = stack.enter_context(TemporaryDirectory(prefix=".daskfs-tls-", dir=shared))
        with interrupts.held():
            cluster = _named_anew(cluster_cls)(
                **arguments,
                job_cls=watch.watched(cluster_cls.job_cls),
                scheduler_cls=scheduler_below(f"/{secret}"),
                scheduler_options=options.of_file("scheduler-options", {}) | scheduler,
                security=security_of(new_certificates(Path(secret_folder))),
                silence_logs=logging.CRITICAL,
            )
            stack.callback(_close, cluster)
        n_jobs = None if options.adapt is not None else options.n_jobs
        if options.adapt is not None:
            least, most = (math.ceil(n / options.processes_of_job) for n in options.adapt)
            cluster.adapt(
                _adaptive(options.threads_of_worker), minimum_jobs=least, maximum_jobs=most, wait_count=_IDLE_S
            )
        stack.enter_context(watch.watching(cluster, n_jobs))
        yield cluster, watch


def _adaptive(threads_of_worker: int) -> Any:
    """Return the rule that adapts the number of workers: one thread for each waiting or running task.

    Dask's own rule uses the expected duration of its tasks, but we submit only a few tasks per existing thread.
    """
    from distributed import Adaptive

    class OneThreadForEachTask(Adaptive):
        async def target(self) -> int:
            scheduler: Any = self.cluster.scheduler  # type: ignore[attr-defined]
            processing = sum(len(worker.processing) for worker in scheduler.workers.values())
            return math.ceil((len(scheduler.unrunnable) + len(scheduler.queued) + processing) / threads_of_worker)

    return OneThreadForEachTask


def _named_anew(cluster_cls: Any) -> Any:
    """Return a class of clusters with unique worker names, which distinguish a lost job from its replacement."""
    numbers = count()

    class AnewNamedCluster(cluster_cls):  # type: ignore[misc]
        def _new_worker_name(self, worker_number: int) -> str:
            return f"{self._name}-{next(numbers)}"

    return AnewNamedCluster


def _close(cluster: Any) -> None:
    """Cancel the jobs and stop the scheduler, protected from interrupts."""
    with interrupts.held():
        cluster.close()
