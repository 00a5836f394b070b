"""A cluster within one allocation: each task of one ``srun`` or ``mpirun`` has a role.

The first task is the scheduler, the second the client, which runs the pipeline, and the others are workers. They meet
in a shared folder that only their owner can read: the scheduler writes its address and the certificates there.
dask-jobqueue's SLURMRunner has the same roles, but its workers have no nanny to enforce the memory limit, and it takes
over the signals of the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from daskfs import errors, interrupts
from daskfs.cluster.certificates import FILES, new_certificates, security_of
from daskfs.cluster.local import worker_environment
from daskfs.cluster.open import said_in_one_line
from daskfs.cluster.settings import OF_WORKERS

ConfigError = errors.ConfigError.about("clusters")
RunError = errors.RunError.about("clusters")

_NUMBERS = {  # environment variables with the number of the task and the number of tasks
    "slurm": [("SLURM_PROCID", "SLURM_NTASKS")],
    "mpi": [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "PMIX_SIZE"), ("PMI_RANK", "PMI_SIZE")],
}
_JOBS = (
    "SLURM_JOB_ID PBS_JOBID LSB_JOBID JOB_ID OAR_JOB_ID PMIX_NAMESPACE OMPI_MCA_ess_base_jobid SLURM_STEP_ID "
    "SLURM_RESTART_COUNT"
)
_CLIENT_GONE_S = 15.0
"""Seconds after which a scheduler without a client ends."""
_DEATH_TIMEOUT_S = 60.0
"""Seconds after which a worker without a scheduler ends."""


class Allocated(NamedTuple):
    """One task of an allocation."""

    number: int
    n_tasks: int
    name: str
    """Name of the allocation: the same in all its tasks, and unique among running allocations."""

    @classmethod
    def of(cls, runner: str, environment: Mapping[str, str] = os.environ) -> Allocated:
        """Return which task this process is.

        Raises
        ------
        ConfigError
            This process is not a task of an allocation, or there are too few tasks.
        """
        for number, n_tasks in _NUMBERS[runner]:
            if number in environment and n_tasks in environment:
                break
        else:
            starter = "srun" if runner == "slurm" else "mpirun"
            problem = f"expected a task started by {starter}, found no {_NUMBERS[runner][0][0]}"
            raise ConfigError(problem, "--runner", f"use `{starter} -n 6 daskfs run PIPELINE.yaml --runner {runner}`")
        job = "-".join(environment[name] for name in _JOBS.split() if environment.get(name))
        task = cls(int(environment[number]), int(environment[n_tasks]), f"daskfs-{job or 'tasks'}".replace("/", "_"))
        if task.n_tasks < 3:
            problem = f"expected at least three tasks (scheduler, client, workers), found {task.n_tasks}"
            raise ConfigError(problem, "--runner", "request more, for example -n 6")
        return task

    @property
    def is_client(self) -> bool:
        """Whether this task runs the pipeline."""
        return self.number == 1

    @property
    def n_workers(self) -> int:
        """Number of tasks that are workers."""
        return self.n_tasks - 2


def serve(
    task: Allocated,
    folder: Path,
    memory_limit: int,
    interface: str | None = None,
    local_directory: str | None = None,
    timeout_s: float = 300.0,
) -> None:
    """Run the scheduler or a worker until the client ends the cluster. Signals, which all tasks receive, are ignored.

    Parameters
    ----------
    task : Allocated
    folder : Path
        Folder in which the tasks meet, on a file system shared by all nodes.
    memory_limit : int
        Memory limit of a worker process in bytes.
    interface, local_directory : str, optional
        As in `daskfs.cluster.open.open_cluster`.
    timeout_s : float
        Maximum seconds that the tasks wait for the scheduler, and the scheduler for a client.
    """
    import dask

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    settings = {
        "distributed.scheduler.http.routes": [],  # everybody could read them
        **OF_WORKERS,
        "distributed.nanny.pre-spawn-environ": worker_environment(memory_limit),
    }
    meeting = folder / task.name
    with dask.config.set(settings), said_in_one_line():
        if task.number == 0:
            asyncio.run(_schedule(meeting, interface, timeout_s))
        else:
            cluster = _met(meeting, timeout_s)
            asyncio.run(_work(task, cluster, memory_limit, interface, local_directory))


@contextmanager
def led(task: Allocated, folder: Path, timeout_s: float = 300.0) -> Iterator[dict[str, Any]]:
    """Connect to the scheduler, and shut down the cluster afterwards in any case.

    Yields
    ------
    dict
        Keys of a `cluster` section: ``kind``, ``scheduler_file``, ``tls``, ``start_with``.
    """
    from distributed import Client

    cluster = _met(folder / task.name, timeout_s)
    client = Client(
        scheduler_file=cluster["scheduler_file"], security=security_of(cluster["tls"]), set_as_default=False
    )
    try:
        yield {"kind": "address", "start_with": task.n_workers, **cluster}
    finally:
        with interrupts.held():
            client.shutdown()
            client.close()


def _met(meeting: Path, timeout_s: float) -> dict[str, Any]:
    """Wait for the files of the scheduler, and return their paths. The scheduler file is written last."""
    end = time.monotonic() + timeout_s
    while not (meeting / "scheduler.json").is_file():
        if time.monotonic() > end:
            problem = f"the first task has not started a scheduler within {timeout_s:g} s"
            remedy = "check that all nodes share this folder (cluster.log_directory), and the output of that task"
            raise RunError(problem, str(meeting), remedy)
        time.sleep(0.05)
    return {
        "scheduler_file": str(meeting / "scheduler.json"),
        "tls": {name: str(meeting / f"{name}.pem") for name in FILES},
    }


async def _schedule(meeting: Path, interface: str | None, timeout_s: float) -> None:
    from distributed import Scheduler

    shutil.rmtree(meeting, ignore_errors=True)
    meeting.mkdir(parents=True, mode=0o700)
    security = security_of(new_certificates(meeting))
    written = meeting / "scheduler.json.unfinished"
    options = {"protocol": "tls://", "security": security, "interface": interface, "port": 0, "dashboard": False}
    try:
        async with Scheduler(**options, dashboard_address=":0", scheduler_file=str(written)) as scheduler:
            written.rename(meeting / "scheduler.json")
            finished = asyncio.ensure_future(scheduler.finished())
            gone_at = time.monotonic() + timeout_s
            while not finished.done() and time.monotonic() < gone_at:
                if any(name.startswith("Client-") and "worker" not in name for name in scheduler.clients):
                    gone_at = time.monotonic() + _CLIENT_GONE_S
                await asyncio.wait([finished], timeout=0.2)
    finally:
        shutil.rmtree(meeting, ignore_errors=True)


async def _work(
    task: Allocated, cluster: dict[str, Any], memory_limit: int, interface: str | None, local_directory: str | None
) -> None:
    from distributed import Nanny

    async with Nanny(
        scheduler_file=cluster["scheduler_file"],
        security=security_of(cluster["tls"]),
        protocol="tls://",
        nthreads=int(os.environ.get("SLURM_CPUS_PER_TASK", "1")),
        memory_limit=memory_limit,
        name=f"task-{task.number}",
        interface=interface,
        local_directory=local_directory,
        env=worker_environment(memory_limit),
        silence_logs=logging.CRITICAL,
        dashboard=False,
        dashboard_address=":0",
        death_timeout=_DEATH_TIMEOUT_S,
    ) as nanny:
        await nanny.finished()
