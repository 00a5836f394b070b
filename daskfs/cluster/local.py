"""A cluster on this machine that only its owner can use.

Anyone who can connect to a Dask scheduler can run code as its owner, and every user of a machine can connect to its
loopback interface. Therefore processes use TLS, with a certificate made for this cluster that stays in their memory.
Threads communicate within their process. The dashboard uses plain HTTP, below a path that cannot be guessed.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import secrets
import signal
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from daskfs import errors, interrupts
from daskfs.cluster.settings import OF_WORKERS

RunError = errors.RunError.about("clusters")

LOOPBACK = "127.0.0.1"
NANNIES_STAY = {"distributed.deploy.lost-worker-timeout": "10 days"}
"""Dask removes a nanny whose worker was lost this long ago and is missing now, for example after a second loss or
during a slow start on a busy machine. It is not replaced, so a run without workers would wait for ever."""


def _unreadable_script() -> str:
    """Return the name of a main script that is not a file, such as ``<stdin>``; otherwise an empty text."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    return "" if script is None or Path(script).exists() else str(script)


def _is_importing_main() -> bool:
    """Return whether this is a new process that still imports the main script: it has a name, but no parent yet."""
    return multiprocessing.current_process().name != "MainProcess" and multiprocessing.parent_process() is None


def _guard_missing(problem: str) -> errors.RunError:
    script = str(getattr(sys.modules["__main__"], "__file__", "the main script"))
    remedy = "put the code that starts the cluster below  if __name__ == '__main__':  or, if it is, use kind: threads"
    return RunError(problem, script, remedy)


@contextmanager
def local_cluster(
    kind: str,
    n_workers: int,
    memory_limit: int | None,
    dashboard_address: str | None,
    local_directory: str | None,
) -> Iterator[Any]:
    """Start threads of this process or processes of this machine: see `daskfs.cluster.open.open_cluster`.

    Yields
    ------
    distributed.SpecCluster
    """
    if kind == "local" and _is_importing_main():
        raise _guard_missing("a cluster of processes was started while a worker process imported the main script")
    if kind == "local" and (script := _unreadable_script()):
        raise RunError(
            "processes of a cluster import the main script, and this one cannot be read again",
            script,
            "save the script to a file and run that, or use threads (kind: threads), which import nothing",
        )
    import dask
    import distributed

    environment, secret = worker_environment(memory_limit), secrets.token_urlsafe(16)
    listen = dashboard_address or f"{LOOPBACK}:0"
    host = listen.rpartition(":")[0] or "{host}"  # else the link would name a host on which it does not listen
    settings: dict[str, Any] = {
        "distributed.nanny.pre-spawn-environ": environment,
        **OF_WORKERS,
        **NANNIES_STAY,
        "distributed.admin.tick.interval": "200ms",
        "distributed.dashboard.link": f"http://{host}:{{port}}/{secret}/status",
    }
    common: dict[str, Any] = {"protocol": "inproc://"}
    worker_class: type = distributed.Worker
    each: dict[str, Any] = {"nthreads": n_workers, "memory_limit": 0}
    if kind == "local":
        common = {"protocol": "tls://", "host": LOOPBACK, "security": distributed.Security.temporary()}
        worker_class, each = _nanny(), {"nthreads": 1, "memory_limit": memory_limit or 0, "env": environment}
    # bokeh would take 18 MiB of each worker's memory; the scheduler's dashboard shows the workers.
    each |= {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
    each |= {"local_directory": _own_folder(local_directory), "silence_logs": logging.CRITICAL}
    served = {"dashboard": dashboard_address is not None, "dashboard_address": listen, "http_prefix": f"/{secret}"}
    with ExitStack() as stack:
        stack.enter_context(dask.config.set({**settings, "temporary-directory": each["local_directory"]}))
        # An interrupt would leave a half-started cluster behind.
        with interrupts.held(), _slow_disk_is_no_error(), _process_environment(environment if kind == "local" else {}):
            try:
                started = distributed.SpecCluster(
                    scheduler={"cls": scheduler_below(f"/{secret}"), "options": common | served},
                    workers={
                        k: {"cls": worker_class, "options": common | each}
                        for k in range(n_workers if kind == "local" else 1)
                    },
                    security=common.get("security"),
                    silence_logs=logging.CRITICAL,  # the client receives errors of tasks; closing workers log noise
                )
            except RuntimeError as error:
                if kind != "local":
                    raise
                raise _guard_missing("the worker processes of a cluster failed to start") from error
            cluster = stack.enter_context(started)
        yield cluster


def worker_environment(memory_limit: int | None = None) -> dict[str, str]:
    """Return the environment of a worker process: one thread for BLAS and numba, an allocator that keeps pages.

    Dask sets MALLOC_TRIM_THRESHOLD_ to 64 KiB, which slows reads by 40 to 50 %, because each freed buffer is returned
    to the operating system and faulted in again. Here 1/16 of the memory limit may be kept, at most 256 MiB.
    """
    kept = 256 * 2**20 if memory_limit is None else max(2**20, min(256 * 2**20, memory_limit // 16))
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = dict.fromkeys(threads, "1")
    environment["MALLOC_TRIM_THRESHOLD_"] = str(kept)
    return environment


def scheduler_below(prefix: str) -> type:
    """Return a scheduler class whose pages answer only below a prefix. In Dask, the root page reveals the prefix."""
    from distributed import Scheduler
    from tornado.routing import PathMatches, Rule, RuleRouter

    class OwnersScheduler(Scheduler):
        def start_http_server(self, routes: Any, *args: Any, **options: Any) -> None:
            super().start_http_server(routes, *args, **options)
            pages = Rule(PathMatches(f"{re.escape(prefix)}/.*"), self.http_application)
            self.http_server.request_callback = RuleRouter([pages])

    return OwnersScheduler


def _own_folder(parent: str | None) -> str:
    """Return a folder for workers' files that only the owner can write to, because workers import files from it."""
    import dask

    chosen = parent or dask.config.get("temporary-directory", None) or tempfile.gettempdir()
    folder = Path(chosen) / f"daskfs-{os.getuid()}"  # shared by all clusters: Dask cleans up after killed workers there
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        return str(folder)
    return tempfile.mkdtemp(prefix="daskfs-", dir=chosen)


@contextmanager
def _slow_disk_is_no_error() -> Iterator[None]:
    """Suppress Dask's warning that creating a folder took more than a second on a busy disk."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Creating scratch directories is taking", UserWarning)
        yield


def _nanny() -> type:
    """Return a nanny class whose worker ignores Ctrl-C.

    A terminal sends it to every process, but the client must end its workers in an orderly way.
    """
    from distributed import Nanny

    class DeafNanny(Nanny):
        async def instantiate(self) -> Any:
            resource_tracker.ensure_running()  # it would unblock signals later
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # of this thread; new processes inherit it
            return await super().instantiate()

    return DeafNanny


@contextmanager
def _process_environment(environment: dict[str, str]) -> Iterator[None]:
    """Set environment variables of this process while workers start, and restore them afterwards.

    If a variable is already set in this process, Dask uses that value instead of the given one. It may be from another
    cluster, since starting workers leaks their variables into the process.
    """
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)
