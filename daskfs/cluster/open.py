"""The door to Dask: where the work runs.

Here (no client, plain Python, for debugging and small data), threads, processes of this machine, or the workers of a
scheduler's address. What runs there is in `daskfs.cluster.workers`.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from daskfs import interrupts
from daskfs.cluster.workers import Here, OnDask, Workers
from daskfs.errors import ConfigError, RunError

if TYPE_CHECKING:
    from distributed import Client

KINDS = ("none", "threads", "local", "address")
CONNECT_TIMEOUT = "5s"  # for which an address may stay without an answer


@contextmanager
def open_cluster(
    kind: str = "none",
    n_workers: int = 1,
    memory_limit: int | None = None,
    address: str | None = None,
    dashboard_address: str | None = "127.0.0.1:0",
    local_directory: str | None = None,
) -> Iterator[Workers]:
    """Open the place where the work runs, and close it afterwards.

    Parameters
    ----------
    kind : {"none", "threads", "local", "address"}
        This thread, threads of this process, processes on this machine, or a running scheduler.
    n_workers : int
        Threads or processes; each process has one thread.
    memory_limit : int, optional
        Memory limit of each process in bytes; a process that exceeds it is restarted. Only
        for processes of this machine.
    address : str, optional
        Address of the scheduler: ``tcp://host:8786``.
    dashboard_address : str or None
        Address of Dask's dashboard; by default a free port on loopback, None for no dashboard.
    local_directory : str, optional
        Scratch folder of the workers.

    Yields
    ------
    Workers

    Raises
    ------
    ConfigError
        Unknown kind, or an address missing.
    RunError
        The scheduler does not answer; or a process cluster is started while a worker process imports the main
        script (the ``__main__`` guard is missing).
    """
    if kind not in KINDS:
        raise ConfigError(f"expected one of {', '.join(KINDS)}, found {kind!r}", "cluster.kind")
    if kind == "none":
        yield Here()
        return
    with ExitStack() as stack:
        stack.enter_context(_untouched())
        if kind == "address":
            client = stack.enter_context(_connect(address))
        else:
            cluster = stack.enter_context(
                _local_cluster(kind, n_workers, memory_limit, dashboard_address, local_directory)
            )
            from distributed import Client

            client = stack.enter_context(Client(cluster, set_as_default=False))
        yield OnDask(client)


@contextmanager
def _untouched() -> Iterator[None]:
    """Leave the process as it was: Dask's choice of a scheduler and the variables that worker processes start with.

    A task in a thread of this process that asks for its client makes it everybody's scheduler; a nanny that is stopped
    while it starts a process leaves the process's environment behind.
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
    """Return where the work runs for a selector's ``client=``: here for None, else on the client's workers."""
    return Here() if client is None else OnDask(client)


def worker_environment(memory_limit: int | None = None) -> dict[str, str]:
    """Return the environment of a worker process: one thread for BLAS and numba, an allocator that keeps its pages.

    Dask sets MALLOC_TRIM_THRESHOLD_ to 64 KiB, which costs reads 40 to 50 % of their speed: each freed buffer goes
    back to the kernel and is faulted in again. Here a sixteenth of the memory limit may be kept, at most 256 MiB.
    """
    kept = 256 * 2**20 if memory_limit is None else max(2**20, min(256 * 2**20, memory_limit // 16))
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = dict.fromkeys(threads, "1")
    environment["MALLOC_TRIM_THRESHOLD_"] = str(kept)
    environment["DASKFS_OWN_WORKER"] = "1"  # see daskfs.kernels.numba_cache
    return environment


@contextmanager
def _local_cluster(
    kind: str,
    n_workers: int,
    memory_limit: int | None,
    dashboard_address: str | None,
    local_directory: str | None,
) -> Iterator[Any]:
    if multiprocessing.parent_process() is not None:
        raise RunError(
            "a cluster of processes was started while a worker imported the main script",
            str(getattr(sys.modules["__main__"], "__file__", "the main script")),
            "put the code that starts it under  if __name__ == '__main__':",
        )
    import dask
    import distributed

    environment = worker_environment(memory_limit)
    settings: dict[str, Any] = {
        "distributed.nanny.pre-spawn-environ": environment,
        # The plan keeps workers within their limit; Dask would otherwise spill and pause long before it.
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": 1.0,
    }
    listen = dashboard_address or "127.0.0.1:0"
    if host := listen.rpartition(":")[0]:  # or the link names a host that the dashboard does not listen on
        settings["distributed.dashboard.link"] = f"http://{host}:{{port}}/status"
    options: dict[str, Any] = {"dashboard_address": listen, "worker_dashboard_address": "127.0.0.1:0"}
    options["silence_logs"] = logging.CRITICAL  # errors of tasks reach the client; workers closing down complain
    options["scheduler_kwargs"] = {"dashboard": dashboard_address is not None}
    if kind == "local":
        options |= {"n_workers": n_workers, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1"}
        options |= {"memory_limit": memory_limit or 0, "env": environment, "worker_class": _nanny()}
    else:
        options |= {"n_workers": 1, "threads_per_worker": n_workers, "processes": False, "memory_limit": 0}
    if local_directory is not None:
        options["local_directory"] = local_directory
    before = dict(os.environ)
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        with interrupts.held():  # what is half started would stay
            cluster = stack.enter_context(distributed.LocalCluster(**options))
        _restore_environment(before)  # starting workers leaks their variables into this process
        yield cluster


def _nanny() -> type:
    """Return a nanny whose worker has no dashboard of its own, and is deaf to Ctrl-C.

    Bokeh would take 18 MiB of each worker's memory; workers answer for their health on loopback all the same, and the
    scheduler's dashboard shows them. A terminal sends Ctrl-C to every process: the client ends its workers in order.
    """
    from distributed import Nanny

    class QuietNanny(Nanny):
        def __init__(self, *args: Any, dashboard: bool = False, **kwargs: Any) -> None:
            super().__init__(*args, dashboard=False, **kwargs)

        async def instantiate(self) -> Any:
            resource_tracker.ensure_running()  # which leaves signals unblocked behind it
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # of this thread: a new process has what it has
            return await super().instantiate()

    return QuietNanny


def _restore_environment(before: dict[str, str]) -> None:
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


@contextmanager
def _connect(address: str | None) -> Iterator[Client]:
    from distributed import Client

    if not address:
        raise ConfigError(
            "expected the scheduler's address, found none", "cluster.address", "for example tcp://host:8786"
        )
    try:
        client = Client(address, set_as_default=False, timeout=CONNECT_TIMEOUT)
    except (OSError, ValueError) as fault:
        raise RunError(
            f"no scheduler answers ({fault or type(fault).__name__})",
            address,
            "start one with  dask scheduler  and workers with  dask worker ADDRESS",
        ) from None
    with _said_in_one_line(), client:
        if not client.nthreads():
            raise RunError("the scheduler has no workers", address, f"start one with  dask worker {address}")
        yield client


@contextmanager
def _said_in_one_line() -> Iterator[None]:
    """Keep Dask's log from printing tracebacks about a lost scheduler: the error that is raised says it."""
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


def parse_bytes(text: str | int) -> int:
    """Return the bytes that ``"4GiB"``, ``"200 MB"`` or a number mean.

    Raises
    ------
    ConfigError
        Not a size, or not positive.

    Examples
    --------
    >>> parse_bytes("2GiB")
    2147483648
    """
    from dask.utils import parse_bytes as parse

    try:
        nbytes = int(parse(text)) if any(letter.isdigit() for letter in str(text)) else 0
    except (ValueError, TypeError, AttributeError, OverflowError):
        nbytes = 0
    if nbytes <= 0:
        raise ConfigError(f"expected a size, found {text!r}", "memory_limit", "for example 4GiB")
    return nbytes
