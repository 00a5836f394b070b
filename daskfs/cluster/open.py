"""The door to Dask: where the work runs.

Here (no client, plain Python, for debugging and small data), threads, processes of this machine, or the workers of a
scheduler's address. What runs there is in `daskfs.cluster.workers`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from daskfs.cluster.local import local_cluster, worker_environment
from daskfs.cluster.workers import Here, OnDask, Workers
from daskfs.errors import ConfigError, RunError

if TYPE_CHECKING:
    from distributed import Client

KINDS = ("none", "threads", "local", "address")


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

    What is started here serves its owner alone: see `daskfs.cluster.local`. A running cluster is as safe as it was
    started: give ``tls://`` addresses, and Dask's configuration the credentials, where others reach it.

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
        Address of Dask's dashboard; by default a free port on loopback, None for no dashboard. It answers at
        ``client.dashboard_link`` alone, whose path nobody else can guess.
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
        The scheduler does not answer for as long as Dask's ``distributed.comm.timeouts.connect`` says; or a process
        cluster is started while a worker process imports the main script (the ``__main__`` guard is missing).
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
                local_cluster(kind, n_workers, memory_limit, dashboard_address, local_directory)
            )
            from distributed import Client

            if kind == "threads":
                stack.callback(_close_clients_of_workers, cluster)
            client = stack.enter_context(Client(cluster, set_as_default=False, direct_to_workers=True))
        yield OnDask(client)


def _close_clients_of_workers(cluster: Any) -> None:
    """Close the clients that actors had their workers open.

    Dask leaves them, as this process's default, as long as workers of another cluster live here: what is computed then
    is sent to a scheduler that is no more.
    """
    for worker in cluster.workers.values():
        client = getattr(worker, "_client", None)
        if client is not None:
            cluster.sync(client._close)


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


@contextmanager
def _connect(address: str | None) -> Iterator[Client]:
    from distributed import Client

    if not address:
        raise ConfigError(
            "expected the scheduler's address, found none", "cluster.address", "for example tcp://host:8786"
        )
    try:
        client = Client(address, set_as_default=False)
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


_SIZE = re.compile(r"(.*?)([a-z]*)", re.DOTALL)
_UNITS = {"": 1} | {
    f"{letter}{i}": (1024 if i else 1000) ** k for k, letter in enumerate("kmgtp", 1) for i in ("", "i")
}


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
    number, unit = _SIZE.fullmatch(str(text).replace(" ", "").lower()).groups()  # type: ignore[union-attr]
    try:
        nbytes = int(float(number) * _UNITS[unit.removesuffix("b")])
    except (ValueError, KeyError, OverflowError):
        nbytes = 0
    if nbytes <= 0:
        raise ConfigError(f"expected a size, found {text!r}", "memory_limit", "for example 4GiB")
    return nbytes
