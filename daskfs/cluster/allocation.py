"""A cluster within one allocation: of the tasks that one ``srun`` or ``mpirun`` starts, each has a part.

The first is the scheduler, the second the client, which runs the pipeline, and the others are workers. They meet in a
folder that all see and only their owner reads: the first leaves its address and the certificates of this cluster there.
dask-jobqueue's SLURMRunner divides the tasks likewise; its workers have no nanny, which keeps them within their memory,
and it takes over the process's signals.
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

from daskfs import interrupts
from daskfs.cluster.certificates import FILES, new_certificates, security_of
from daskfs.cluster.local import worker_environment
from daskfs.cluster.open import said_in_one_line
from daskfs.cluster.settings import OF_WORKERS
from daskfs.errors import ConfigError, RunError

RUNNERS = ("slurm", "mpi")
_NUMBERS = {  # of a task and of all, as each starter of tasks names them
    "slurm": [("SLURM_PROCID", "SLURM_NTASKS")],
    "mpi": [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", "PMIX_SIZE"), ("PMI_RANK", "PMI_SIZE")],
}
_JOBS = (
    "SLURM_JOB_ID PBS_JOBID LSB_JOBID JOB_ID OAR_JOB_ID PMIX_NAMESPACE OMPI_MCA_ess_base_jobid SLURM_STEP_ID "
    "SLURM_RESTART_COUNT"
)
_CLIENT_GONE_S = 15.0
"""After which a scheduler whose client is gone ends."""
_DEATH_TIMEOUT_S = 60.0
"""After which a worker without a scheduler ends."""


class Allocated(NamedTuple):
    """One task among those of an allocation."""

    number: int
    n_tasks: int
    name: str
    """Of the allocation: the same in all its tasks, and in no other at the time."""

    @classmethod
    def of(cls, runner: str, environment: Mapping[str, str] = os.environ) -> Allocated:
        """Return which task this process is.

        Raises
        ------
        ConfigError
            None of an allocation, or too few.
        """
        for number, n_tasks in _NUMBERS[runner]:
            if number in environment and n_tasks in environment:
                break
        else:
            starter = "srun" if runner == "slurm" else "mpirun"
            problem = f"expected a task that {starter} has started, found no {_NUMBERS[runner][0][0]}"
            raise ConfigError(problem, "--runner", f"`{starter} -n 6 daskfs run PIPELINE.yaml --runner {runner}`")
        job = "-".join(environment[name] for name in _JOBS.split() if environment.get(name))
        task = cls(int(environment[number]), int(environment[n_tasks]), f"daskfs-{job or 'tasks'}".replace("/", "_"))
        if task.n_tasks < 3:
            problem = f"expected three tasks or more (scheduler, client, workers), found {task.n_tasks}"
            raise ConfigError(problem, "--runner", "ask for more: -n 6")
        return task

    @property
    def is_client(self) -> bool:
        """Whether this task runs the pipeline."""
        return self.number == 1

    @property
    def n_workers(self) -> int:
        """Tasks that are workers."""
        return self.n_tasks - 2


def serve(
    task: Allocated,
    folder: Path,
    memory_limit: int,
    interface: str | None = None,
    local_directory: str | None = None,
    timeout_s: float = 300.0,
) -> None:
    """Be the scheduler or a worker until the client ends the cluster; deaf to signals, which all tasks get.

    Parameters
    ----------
    task : Allocated
    folder : Path
        Where the tasks meet: on a file system that all nodes see.
    memory_limit : int
        Bytes that a worker process may take.
    interface, local_directory : str, optional
        As `daskfs.cluster.open.open_cluster` takes them.
    timeout_s : float
        How long the tasks wait for the scheduler, and that for a client.
    """
    import dask

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    settings = {
        "distributed.scheduler.http.routes": [],  # for everybody
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
    """Meet the scheduler, and end the cluster afterwards, whatever happens.

    Yields
    ------
    dict
        Of a `cluster` section: ``kind``, ``scheduler_file``, ``tls``, ``start_with``.
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
    """Wait for what the scheduler leaves behind; its own file is written last."""
    end = time.monotonic() + timeout_s
    while not (meeting / "scheduler.json").is_file():
        if time.monotonic() > end:
            problem = f"the first task has started no scheduler in {timeout_s:g} s"
            remedy = "see that all nodes see this folder (cluster.log_directory), and the output of that task"
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
