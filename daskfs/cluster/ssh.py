"""Clusters of worker processes on other machines, started with ``ssh``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from daskfs import errors, interrupts
from daskfs.cluster.local import NANNIES_STAY, worker_environment
from daskfs.cluster.settings import OF_WORKERS

ConfigError = errors.ConfigError.about("clusters")
RunError = errors.RunError.about("clusters")


@contextmanager
def ssh_cluster(
    hosts: Sequence[str],
    memory_limit: int | None,
    local_directory: str | None,
    security: Any = None,
    *,
    cores: int | None = None,
    processes: int | None = None,
    python: str | None = None,
    interface: str | None = None,
) -> Iterator[Any]:
    """Start a scheduler on the first host and workers on the others, using the user's ssh configuration.

    Yields
    ------
    distributed.SpecCluster

    Raises
    ------
    ConfigError
        Fewer than two hosts.
    RunError
        A host cannot be reached, or Dask does not start there.
    """
    if len(hosts) < 2:
        problem = f"expected at least two hosts (the scheduler's, then the workers'), found {len(hosts)}"
        raise ConfigError(problem, "cluster.hosts", "list a host twice to use it for both")
    import dask
    import distributed

    n_processes = processes or cores or 1
    environment = worker_environment(memory_limit)
    worker: dict[str, Any] = {"nthreads": max(1, (cores or 1) // n_processes), "n_workers": n_processes}
    worker |= {"memory_limit": memory_limit or 0, "local_directory": local_directory, "interface": interface}
    worker |= {"dashboard": False, "env": environment}
    scheduler: dict[str, Any] = {"dashboard": False, "interface": interface}
    if security is not None:  # its files are read on every host
        scheduler["protocol"] = worker["protocol"] = "tls://"
    settings = {
        "distributed.nanny.pre-spawn-environ": environment,
        **OF_WORKERS,
        **NANNIES_STAY,
    }
    if security is not None:
        settings |= {"distributed.comm.require-encryption": True, "distributed.comm.tls.ca-file": security.tls_ca_file}
        for role in ("client", "worker", "scheduler"):
            settings[f"distributed.comm.tls.{role}.cert"] = getattr(security, f"tls_{role}_cert")
            settings[f"distributed.comm.tls.{role}.key"] = getattr(security, f"tls_{role}_key")
    with ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))  # SSHCluster passes them to the processes that it starts
        try:
            with interrupts.held():
                cluster = distributed.SSHCluster(
                    list(hosts),
                    worker_options={name: value for name, value in worker.items() if value is not None},
                    scheduler_options={name: value for name, value in scheduler.items() if value is not None},
                    remote_python=python,
                    security=security,
                    silence_logs=logging.CRITICAL,
                )
        except Exception as fault:
            remedy = "check that `ssh HOST python -c 'import daskfs'` works for each host, and cluster.python"
            raise RunError(
                f"the cluster does not start ({fault or type(fault).__name__})", "cluster.hosts", remedy
            ) from fault
        yield stack.enter_context(cluster)
