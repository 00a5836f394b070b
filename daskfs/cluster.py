"""The one door to Dask: where the work runs, how blocks are mapped over it and how their results are combined.

Here (no client, plain Python, for debugging and small data), threads, processes of this machine, or the workers of a
scheduler's address. The same calls give the same bits in each: results are combined in the order of the blocks.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from daskfs.errors import ConfigError, RunError
from daskfs.memory import peak_memory_nbytes

if TYPE_CHECKING:
    from distributed import Client

KINDS = ("none", "threads", "local", "address")

_INLINE_NBYTES = 64 * 2**10
"""Shared arguments up to this size travel with each task: an address survives any worker's death."""

_TASKS_PER_THREAD = 2
"""Tasks in flight per thread: enough to keep it busy, few enough for results to leave as they come."""


class Workers(ABC):
    """Where the work runs."""

    client: Client | None

    @property
    @abstractmethod
    def n_threads(self) -> int:
        """Tasks that run at once."""

    @abstractmethod
    def map_blocks(
        self, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield ``(k, function(*shared, items[k]))`` in order of completion.

        Parameters
        ----------
        function : callable
            Importable by name, free of side effects: a lost worker's tasks run again.
        items : sequence
            One small item for each task: block numbers, rows.
        name : str
            What runs, as the dashboard shows it: ``message-select`` gives ``message-select-0007``.
        shared : sequence
            Arguments common to all tasks, sent once.

        Raises
        ------
        RunError
            The workers were lost more often than can be repaired.
        """

    @abstractmethod
    def reduce_blocks(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        combine: Callable[[Any, Any], Any],
        *,
        name: str,
        shared: Sequence[Any] = (),
    ) -> Any:
        """Combine all ``function(*shared, item)`` in a binary tree that depends on the number of items only."""

    @abstractmethod
    def place(self, cls: type, *args: Any) -> Any:
        """Make ``cls(*args)`` a central node; its methods return an object with ``result()``."""

    @abstractmethod
    def peak_memory(self) -> dict[str, int]:
        """Return the peak resident bytes of every process so far; the present one is called 'client'."""

    @abstractmethod
    def performance_report(self, path: str | os.PathLike[str]) -> Any:
        """Return a context in which Dask's performance report is recorded, where there is a cluster."""


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
        Here in this thread, threads of this process, processes of this machine, or a running scheduler.
    n_workers : int
        Threads or processes; each process has one thread.
    memory_limit : int, optional
        Bytes of each process; a process that exceeds it is restarted. Not with an address or with threads.
    address : str, optional
        Of the scheduler: ``tcp://host:8786``.
    dashboard_address : str or None
        Where Dask's dashboard listens: a free port on loopback unless told otherwise; None for no dashboard.
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
        if kind == "address":
            client = stack.enter_context(_connect(address))
        else:
            cluster = stack.enter_context(
                _local_cluster(kind, n_workers, memory_limit, dashboard_address, local_directory)
            )
            from distributed import Client

            client = stack.enter_context(Client(cluster, set_as_default=False))
        yield OnDask(client)


def workers_of(client: Client | None) -> Workers:
    """Return where the work runs for a selector's ``client=``: here for None, else on the client's workers."""
    return Here() if client is None else OnDask(client)


class Here(Workers):
    """This thread: plain Python, for debugging and for data that needs no cluster."""

    client = None

    @property
    def n_threads(self) -> int:
        """One."""
        return 1

    def map_blocks(
        self, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield ``(k, function(*shared, items[k]))`` in order."""
        for k, item in enumerate(items):
            yield k, function(*shared, item)

    def reduce_blocks(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        combine: Callable[[Any, Any], Any],
        *,
        name: str,
        shared: Sequence[Any] = (),
    ) -> Any:
        """Combine as the tree of `OnDask` does, holding one result per level."""
        levels: list[tuple[int, Any]] = []  # (height of the subtree, its result), highest first
        for item in items:
            height, result = 0, function(*shared, item)
            while levels and levels[-1][0] == height:
                result = combine(levels.pop()[1], result)
                height += 1
            levels.append((height, result))
        if not levels:
            raise ValueError("expected at least one block to combine, found none")
        result = levels.pop()[1]
        while levels:
            result = combine(levels.pop()[1], result)
        return result

    def place(self, cls: type, *args: Any) -> Any:
        """Make the object here."""
        return _Placed(cls(*args))

    def peak_memory(self) -> dict[str, int]:
        """Return this process's peak."""
        return {"client": peak_memory_nbytes()}

    def performance_report(self, path: str | os.PathLike[str]) -> Any:
        """Record nothing."""
        return nullcontext()


class OnDask(Workers):
    """The workers of a `distributed.Client`."""

    client: Client

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def n_threads(self) -> int:
        """Threads of all workers at present, at least one."""
        return max(1, sum(self.client.nthreads().values()))

    def map_blocks(
        self, function: Callable[..., Any], items: Sequence[Any], *, name: str, shared: Sequence[Any] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield results as they come; each leaves its worker at once and is released."""
        from distributed import as_completed

        submit = self._submitter(function, name, shared)
        waiting = iter(enumerate(items))
        number_of: dict[str, int] = {}
        completed = as_completed(with_results=True, loop=self.client.loop)

        def submit_next() -> None:
            for k, item in waiting:
                future = submit(k, item)
                number_of[future.key] = k
                completed.add(future)
                return

        with _cluster_errors(name):
            for _ in range(_TASKS_PER_THREAD * self.n_threads):
                submit_next()
            try:
                for future, result in completed:
                    future.release()
                    submit_next()
                    yield number_of.pop(future.key), result
                    del result
            finally:
                completed.clear()  # lets go of what is still in flight when the reader stops early

    def reduce_blocks(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        combine: Callable[[Any, Any], Any],
        *,
        name: str,
        shared: Sequence[Any] = (),
    ) -> Any:
        """Combine on the workers, neighbours first."""
        if not len(items):
            raise ValueError("expected at least one block to combine, found none")
        with _cluster_errors(name):
            submit = self._submitter(function, name, shared)
            level = [submit(k, item) for k, item in enumerate(items)]
            join = self._submitter(combine, f"{name}-combine", ())
            n_joined = 0
            while len(level) > 1:
                pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
                level = [join(n_joined + i, *pair) if len(pair) == 2 else pair[0] for i, pair in enumerate(pairs)]
                n_joined += len(pairs)
            return level[0].result()

    def _submitter(self, function: Callable[..., Any], name: str, shared: Sequence[Any]) -> Callable[..., Any]:
        arguments = [self._send_once(argument) for argument in shared]
        run = uuid.uuid4().hex[:8]

        def submit(k: int, *items: Any) -> Any:
            key = (f"{name}-{k:04d}", run)
            return self.client.submit(function, *arguments, *items, key=key, pure=False)

        return submit

    def _send_once(self, argument: Any) -> Any:
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(argument, protocol=5, buffer_callback=buffers.append)
        nbytes = len(head) + sum(buffer.raw().nbytes for buffer in buffers)
        if nbytes <= _INLINE_NBYTES:
            return argument
        return self.client.scatter(argument, broadcast=True, hash=False)

    def place(self, cls: type, *args: Any) -> Any:
        """Make the object a Dask actor on one of the workers."""
        with _cluster_errors(cls.__name__), self.client.as_current():
            return self.client.submit(cls, *args, actor=True, key=f"{cls.__name__}-{uuid.uuid4().hex}").result()

    def peak_memory(self) -> dict[str, int]:
        """Return the peaks of the client and of every worker that answers."""
        names = {address: worker["name"] for address, worker in self.client.scheduler_info(-1)["workers"].items()}
        peaks = self.client.run(_process_and_peak, on_error="ignore")
        memory = {"client": peak_memory_nbytes()}
        for address, (pid, nbytes) in peaks.items():
            if pid != os.getpid():  # a worker that is a thread of this process
                memory[f"worker-{names.get(address, address)}"] = nbytes
        return memory

    def performance_report(self, path: str | os.PathLike[str]) -> Any:
        """Record Dask's performance report as one HTML file."""
        from distributed import performance_report

        @contextmanager
        def report() -> Iterator[None]:
            with self.client.as_current(), performance_report(filename=str(path), mode="inline"):
                yield

        return report()


class _Placed:
    """An object that answers as a Dask actor does."""

    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def __getattr__(self, name: str) -> Callable[..., _Done]:
        method = getattr(self._instance, name)
        return lambda *args, **kwargs: _Done(method(*args, **kwargs))


class _Done:
    """A result that is there already."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self, timeout: float | None = None) -> Any:
        return self._value


def worker_environment(memory_limit: int | None = None) -> dict[str, str]:
    """Return the environment of a worker process: one thread for BLAS and numba, an allocator that keeps its pages.

    Dask sets MALLOC_TRIM_THRESHOLD_ to 64 KiB, which costs reads 40 to 50 % of their speed: each freed buffer goes
    back to the kernel and is faulted in again. Here a sixteenth of the memory limit may be kept, at most 256 MiB.
    """
    kept = 256 * 2**20 if memory_limit is None else max(2**20, min(256 * 2**20, memory_limit // 16))
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = dict.fromkeys(threads, "1")
    environment["MALLOC_TRIM_THRESHOLD_"] = str(kept)
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
    options["silence_logs"] = 40  # errors only
    options["scheduler_kwargs"] = {"dashboard": dashboard_address is not None}
    if kind == "local":
        options |= {"n_workers": n_workers, "threads_per_worker": 1, "processes": True, "host": "127.0.0.1"}
        options |= {"memory_limit": memory_limit or 0, "env": environment}
    else:
        options |= {"n_workers": 1, "threads_per_worker": n_workers, "processes": False, "memory_limit": 0}
    if local_directory is not None:
        options["local_directory"] = local_directory
    before = dict(os.environ)
    with dask.config.set(settings), distributed.LocalCluster(**options) as cluster:
        _restore_environment(before)  # starting workers leaks their variables into this process
        yield cluster


def _restore_environment(before: dict[str, str]) -> None:
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


@contextmanager
def _connect(address: str | None) -> Iterator[Client]:
    from distributed import Client

    if not address:
        raise ConfigError("expected the scheduler's address, found none", "cluster.address", "tcp://host:8786, say")
    try:
        client = Client(address, set_as_default=False, timeout="5s")
    except (OSError, ValueError) as fault:
        raise RunError(
            f"no scheduler answers ({fault or type(fault).__name__})",
            address,
            "start one with  dask scheduler  and workers with  dask worker ADDRESS",
        ) from None
    with client:
        if not client.nthreads():
            raise RunError("the scheduler has no workers", address, f"start one with  dask worker {address}")
        yield client


@contextmanager
def _cluster_errors(name: str) -> Iterator[None]:
    """Say in one line what a lost cluster means."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    remedy = "start the workers again, with more memory if they were killed for it, and resume the run"
    try:
        yield
    except KilledWorker as fault:
        raise RunError(
            f"the workers died {fault.allowed_failures + 1} times on the task {_shown(fault.task)}", name, remedy
        ) from fault
    except (CancelledError, CommClosedError, TimeoutError) as fault:
        raise RunError(f"the scheduler was lost ({type(fault).__name__})", name, remedy) from fault


def _shown(key: Any) -> str:
    return str(key[0] if isinstance(key, tuple) else key)


def _process_and_peak() -> tuple[int, int]:
    return os.getpid(), peak_memory_nbytes()


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
    except (ValueError, TypeError, AttributeError):
        nbytes = 0
    if nbytes <= 0:
        raise ConfigError(f"expected a size, found {text!r}", "memory_limit", "4GiB, say")
    return nbytes
