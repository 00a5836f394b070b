"""Open the cluster on which the work runs.

It is this thread (no client, plain Python, for debugging and small data), threads, processes of this machine, jobs of a
batch system, processes started with ssh, or the workers of a running scheduler. `daskfs.cluster.workers` runs tasks on
it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskfs import errors, interrupts
from daskfs.cluster.certificates import security_of
from daskfs.cluster.client import cluster_errors
from daskfs.cluster.dask_workers import OnDask
from daskfs.cluster.jobqueue import JOB_QUEUES, JobOptions, job_cluster
from daskfs.cluster.local import local_cluster, worker_environment
from daskfs.cluster.presence import LOST_TIMEOUT_S, presence_of, print_to_stderr
from daskfs.cluster.ssh import ssh_cluster
from daskfs.cluster.workers import Here, Workers
from daskfs.version import __version__

if TYPE_CHECKING:
    from distributed import Client

ConfigError = errors.ConfigError.about("clusters")
RunError = errors.RunError.about("clusters")

SSH_TIMEOUT_S = 60.0
"""Default number of seconds to wait for workers started with ssh."""
KINDS = ("none", "threads", "local", *JOB_QUEUES, "ssh", "address")


@contextmanager
def open_cluster(
    kind: str = "none",
    n_workers: int = 1,
    memory_limit: int | None = None,
    address: str | None = None,
    dashboard_address: str | None = "127.0.0.1:0",
    local_directory: str | None = None,
    *,
    scheduler_file: str | None = None,
    tls: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
    connect_timeout_s: float | None = None,
    wait_timeout_s: float | None = None,
    start_with: int | None = None,
    lost_timeout_s: float | None = None,
    tell: Callable[[str], None] = print_to_stderr,
    **jobs: Any,
) -> Iterator[Workers]:
    """Open a cluster, and close it afterwards.

    Processes that are started here can be used only by their owner: see `daskfs.cluster.local`. A running cluster is as
    secure as it was started: use ``tls://`` addresses and `tls` if others can connect to it.

    Parameters
    ----------
    kind : {"none", "threads", "local", "slurm", "pbs", "lsf", "sge", "oar", "ssh", "address"}
        This thread, threads of this process, processes on this machine, jobs of a batch system, processes on other
        machines started with ``ssh``, or a running scheduler.
    n_workers : int
        Number of threads or processes. Each process has one thread, or as given by `cores` and `processes`.
    memory_limit : int, optional
        Memory limit of each process in bytes; a process that exceeds it is restarted. Only for processes that are
        started here. Default for jobs: the memory of a job divided by its number of processes.
    address : str, optional
        Address of the scheduler: ``tcp://host:8786``.
    dashboard_address : str or None
        Address of Dask's dashboard; default: a free port on loopback; None: no dashboard. It answers only at
        ``client.dashboard_link``, whose path cannot be guessed.
    local_directory : str, optional
        Scratch folder of the workers.
    scheduler_file : str, optional
        Instead of an address, the file written by ``dask scheduler --scheduler-file``.
    tls : mapping, optional
        Paths of ``ca_file``, ``cert`` and ``key`` for a scheduler with TLS.
    hosts : sequence of str
        With kind ssh: the host of the scheduler, then the hosts of the workers.
    connect_timeout_s : float, optional
        Seconds within which a running scheduler must answer; default: Dask's ``distributed.comm.timeouts.connect``.
    wait_timeout_s : float, optional
        Seconds to wait for workers before the work begins with those available. Default: no limit for a batch system;
        a running scheduler must already have a worker.
    start_with : int, optional
        Number of workers to wait for; default: all, the minimum of `adapt`, or one for a running scheduler.
    lost_timeout_s : float, optional
        Seconds to wait for a worker after all are lost, before a `RunError` is raised. Default: 300 s, and no limit for
        a batch system, to which new jobs are submitted.
    tell : callable
        Receives messages about waiting; default: print to stderr.
    **jobs
        For batch systems, the fields of `daskfs.cluster.jobqueue.JobOptions`. Missing options are taken from
        dask-jobqueue's ``jobqueue.yaml``.

        ``adapt=(minimum, maximum)``: range of the number of workers that Dask adapts, instead of `n_workers`;
        ``cores``: threads per job; ``processes``: worker processes per job, by default one per core;
        ``memory``: bytes requested per job, by default the limits of its workers plus 256 MiB;
        ``walltime``: in the format of the batch system; ``lifetime_s``: seconds after which a worker hands over its
        data and ends, by default slightly less than the walltime; ``queue``; ``account``, which is the project for
        lsf, sge and oar; ``resource_spec`` (pbs, sge, oar); ``prologue``: lines of the script before the worker
        starts; ``directives``: further options of the batch system, ``["--constraint=ib"]``; ``python``: interpreter
        on the nodes; ``interface``: network interface of scheduler and workers, ``ib0``; ``log_directory``: folder of
        job logs on a shared file system; ``config_name``: section of ``jobqueue.yaml``.

    Yields
    ------
    Workers
        Pass its ``client`` to selectors.

    Raises
    ------
    ConfigError
        The kind is unknown, an address is missing, or dask-jobqueue is not installed.
    RunError
        The scheduler does not answer in time; jobs are refused, or end before their workers start (with the last lines
        of their logs); or a process cluster is started while a worker process imports the main script (the
        ``__main__`` guard is missing).

    Examples
    --------
    >>> from daskfs import Message, open_cluster
    >>> with open_cluster("threads", n_workers=2) as cluster:  # "slurm", n_workers=64, cores=8, walltime="02:00:00"
    ...     selector = Message(n_subsets=20, client=cluster.client)
    """
    if kind not in KINDS:
        raise ConfigError(f"expected one of {', '.join(KINDS)}, found {kind!r}", "cluster.kind")
    unknown = sorted(set(jobs) - {field.name for field in fields(JobOptions)})
    if unknown:
        raise TypeError(f"open_cluster() got an unexpected keyword argument {unknown[0]!r}")
    if kind == "none":
        yield Here()
        return
    security = None if tls is None else security_of(tls)
    known: Callable[[], str] = str
    with ExitStack() as stack:
        stack.enter_context(_untouched())
        if kind == "address":
            client = stack.enter_context(_connect(address, scheduler_file, security, connect_timeout_s))
            _wait(client, start_with or 1, wait_timeout_s or 0.0, address or str(scheduler_file), tell)
            stack.enter_context(_with_slower_profile(client))
        elif kind in JOB_QUEUES:
            options = JobOptions(kind, n_workers, memory_limit=memory_limit, local_directory=local_directory, **jobs)
            cluster, watch = stack.enter_context(job_cluster(options, dashboard_address, tell))
            watch.wait(options.n_to_start_with if start_with is None else start_with, wait_timeout_s)
            client, known = stack.enter_context(_client_of(cluster)), watch.known
        elif kind == "ssh":
            ssh = {name: jobs.get(name) for name in ("cores", "processes", "python", "interface")}
            cluster = stack.enter_context(ssh_cluster(hosts, memory_limit, local_directory, security, **ssh))
            client = stack.enter_context(_client_of(cluster))
            n_workers = len(cluster.workers) * (jobs.get("processes") or jobs.get("cores") or 1)
            _wait(client, n_workers, wait_timeout_s or SSH_TIMEOUT_S, "cluster.hosts", tell)
        else:
            cluster = stack.enter_context(
                local_cluster(kind, n_workers, memory_limit, dashboard_address, local_directory)
            )
            if kind == "threads":
                stack.callback(_close_default_client, cluster)
            client = stack.enter_context(_client_of(cluster))
        if lost_timeout_s is None and kind not in JOB_QUEUES:
            lost_timeout_s = LOST_TIMEOUT_S
        presence_of(client, tell=tell, lost_timeout_s=lost_timeout_s, known=known)
        yield OnDask(client)


def _client_of(cluster: Any) -> Client:
    from distributed import Client

    return Client(cluster, set_as_default=False, direct_to_workers=True)


def _close_default_client(cluster: Any) -> None:
    """Close a client that a worker opened for actors, if it has become the default of this process.

    Dask keeps it while workers of another cluster live here. Later computations would then be sent to a scheduler that
    no longer exists.
    """
    from distributed import default_client

    with suppress(ValueError):  # there is no default
        client = default_client()
        if client.scheduler is not None and client.scheduler.address == cluster.scheduler_address:
            client.close()


@contextmanager
def _untouched() -> Iterator[None]:
    """Restore Dask's default scheduler and the environment variables of worker processes afterwards.

    A task in a thread of this process that asks for its client changes the default scheduler. A nanny that is stopped
    while it starts a process leaves the environment of that process behind.
    """
    import dask

    before = {name: os.environ.get(name) for name in worker_environment()}
    try:
        with dask.config.set(scheduler=dask.config.get("scheduler", None)):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def workers_of(client: Client | None) -> Workers:
    """Return the place where the work runs for a selector's ``client=``: this thread for None, else the workers."""
    if client is None:
        return Here()
    check_client(client)
    return OnDask(client)


def check_client(client: Any) -> None:
    """Refuse a ``client=`` that is not a Dask client.

    Raises
    ------
    ConfigError
        It is something else, such as an address.
    """
    if client is None or hasattr(client, "scheduler_info"):
        return
    address = client if isinstance(client, str) else "tcp://host:8786"
    found = repr(client) if isinstance(client, str) else type(client).__name__
    raise ConfigError(
        f"expected a Dask client, found {found}", "client", f"pass client=distributed.Client({address!r})"
    )


def check_scheduler(
    address: str | None = None,
    scheduler_file: str | None = None,
    tls: Mapping[str, str] | None = None,
    connect_timeout_s: float | None = None,
    **_: Any,
) -> None:
    """Wait until a running scheduler answers, before any work that it will need.

    Raises
    ------
    ConfigError, RunError
        As for `open_cluster`.
    """
    _answering(address, scheduler_file, None if tls is None else security_of(tls), connect_timeout_s)


@contextmanager
def _connect(
    address: str | None, scheduler_file: str | None, security: Any, timeout_s: float | None
) -> Iterator[Client]:
    from distributed import Client

    options = {} if security is None else {"security": security}
    found = _answering(address, scheduler_file, security, timeout_s)
    try:
        client = Client(found, set_as_default=False, **options)
    except (OSError, ValueError, TypeError) as fault:
        raise _no_answer(fault, found) from None
    with said_in_one_line(), client:
        yield client


def _answering(address: str | None, scheduler_file: str | None, security: Any, timeout_s: float | None) -> str:
    """Return the address of a scheduler that answers."""
    import dask

    if not address and not scheduler_file:
        raise ConfigError(
            "expected the scheduler's address, found none", "cluster.address", "for example tcp://host:8786"
        )
    where = address or _written(str(scheduler_file), timeout_s)
    try:
        found: str = address or json.loads(Path(where).read_text(encoding="utf-8"))["address"]
    except (OSError, ValueError, TypeError, KeyError) as fault:
        raise _no_answer(fault, where) from None
    has_certificates = security is not None or dask.config.get("distributed.comm.tls.ca-file", None)
    if found.startswith("tls://") and not has_certificates:
        problem = f"expected certificates for {found}, found none"
        remedy = "set ca_file, cert and key to the files with which the scheduler was started"
        raise ConfigError(problem, "cluster.tls", remedy)
    try:
        interrupts.call_aside(asyncio.run, _answer(found, security, timeout_s))
    except (OSError, ValueError, TypeError) as fault:
        raise _no_answer(fault, where) from None
    return found


def _no_answer(fault: Exception, where: str) -> errors.RunError:
    return RunError(
        f"no scheduler answers ({fault or type(fault).__name__})",
        where,
        "start one with `dask scheduler` and workers with `dask worker ADDRESS`, set its certificates in cluster.tls, "
        "or wait longer (cluster.connect_timeout_s)",
    )


@contextmanager
def _with_slower_profile(client: Client) -> Iterator[None]:
    """Reduce the profiling of all workers, also of later ones, so that they keep the planned memory; undo it after."""
    from daskfs.cluster.slower_profile import SlowerProfile

    plugin = SlowerProfile()
    try:
        try:
            with cluster_errors("workers"):
                client.register_plugin(plugin)
        except errors.RunError:
            raise
        except Exception as fault:  # Dask passes an error of a worker on as text
            raise RunError(
                f"the workers cannot load daskfs ({fault})",
                str(client.scheduler_info()["address"]),
                f"install daskfs {__version__}, the version of this process, where workers run, and restart them",
            ) from None
        yield
    finally:
        with suppress(Exception):  # the scheduler is gone
            client.unregister_worker_plugin(plugin.name)


async def _answer(address: str, security: Any, timeout_s: float | None) -> None:
    """Wait for a scheduler to answer. Dask's client is not used, since it would not be closed after a timeout."""
    import distributed

    credentials = {} if security is None else security.get_connection_args("client")
    (await distributed.connect(address, timeout=timeout_s, **credentials)).abort()


def _written(scheduler_file: str, timeout_s: float | None) -> str:
    """Wait for the file of a scheduler that is just being started."""
    import dask
    from dask.utils import parse_timedelta

    if timeout_s is None:
        timeout_s = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))
    end = time.monotonic() + timeout_s
    while not Path(scheduler_file).is_file():
        if time.monotonic() > end:
            problem = f"no scheduler has written this file within {timeout_s:g} s"
            remedy = "start one: `dask scheduler --scheduler-file FILE`; or wait longer (cluster.connect_timeout_s)"
            raise RunError(problem, scheduler_file, remedy)
        time.sleep(0.05)
    return scheduler_file


def _wait(client: Client, n_workers: int, timeout_s: float, address: str, tell: Callable[[str], None]) -> None:
    """Wait for workers of a running scheduler; after the timeout continue with those available."""
    end, n_shown = time.monotonic() + timeout_s, -1
    while (n_up := len(interrupts.call_aside(client.nthreads))) < n_workers and time.monotonic() < end:
        if n_up != n_shown:
            n_shown = n_up
            tell(f"waiting for workers: {n_up} of {n_workers}")
        time.sleep(0.1)
    if not n_up:
        after = f" after {timeout_s:g} s" if timeout_s else ""
        remedy = f"start one with `dask worker {address}`, or wait longer (cluster.wait_timeout_s)"
        raise RunError(f"the scheduler has no workers{after}", address, remedy)


@contextmanager
def said_in_one_line() -> Iterator[None]:
    """Suppress tracebacks about a lost scheduler in Dask's log, since the error that is raised reports it."""
    import distributed  # noqa: F401  (creates its loggers)

    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    loggers = [logging.getLogger(name) for name in (*names, "tornado.application")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


_SIZE = re.compile(r"(.*?)([a-z]*)", re.DOTALL)
_UNITS = {"": 1} | {
    f"{letter}{i}": (1024 if i else 1000) ** k for k, letter in enumerate("kmgtp", 1) for i in ("", "i")
}


def parse_bytes(text: str | int) -> int:
    """Convert a size such as ``"4GiB"``, ``"200 MB"`` or a number to bytes.

    Raises
    ------
    ConfigError
        The text is not a size, or the size is not positive.

    Examples
    --------
    >>> parse_bytes("2GiB")
    2147483648
    """
    number, unit = _SIZE.fullmatch(str(text).replace(" ", "").lower()).groups()  # type: ignore[union-attr]
    try:
        nbytes = int(float(number) * _UNITS[unit.removesuffix("b")])
    except (ValueError, KeyError, OverflowError):
        nbytes = 0
    if nbytes <= 0:
        raise ConfigError(f"expected a size, found {text!r}", "memory_limit", "for example 4GiB")
    return nbytes
