"""How long a planned run takes on a cluster that is not there, and what it costs: bytes, work, messages, requests.

Of each step the plan knows what is read, in how many passes and tasks, and counts what is computed: `Work`, in units of
the method's own. On c cores it takes

    max(Σ count * seconds / k,  requests * latency / ahead / k,  tasks * seconds of a task)
    + Σ count in the client * seconds + passes * round trip,    k = min(c, tasks of a pass)

The first two are shared by the cores; tasks are one process's, the scheduler with the client beside it. The constants
are fitted by ``benchmarks/cluster_cost.py --fit``, which also predicts runs three times larger than any it was fitted
to; they are of one core of the machine that it was run on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from daskfs.errors import ConfigError
from daskfs.pipeline.planning import Plan, shown_nbytes
from daskfs.selectors.shared.budget import Work

TILE_NBYTES = 4 * 2**20


@dataclass(frozen=True)
class Machine:
    """What one core does, and what the network and the scheduler take.

    Parameters
    ----------
    read_nbytes : float
        Bytes that a core decodes in a second, checksums included.
    work_s : dict of float
        Seconds of a core for one operation, by method and unit of its `Work`, reading included: "fgm: values". Of what
        counts no work, for each value beside reading it; "other" where nobody has measured it.
    task_s : float
        Seconds of the scheduler and the client for each task.
    latency_s : float
        Seconds until the store answers a request; 0 for a local disk.
    n_ahead : float
        Requests for which a core waits at the same time.
    round_trip_s : float
        Seconds from the last result of a pass to the first task of the next.
    """

    read_nbytes: float
    work_s: Mapping[str, float]
    task_s: float
    latency_s: float = 0.0
    n_ahead: float = 1.0
    round_trip_s: float = 0.02

    def seconds(self, name: str, counts: Mapping[str, float]) -> float:
        """Return what one core takes for some operations of a method."""
        return sum(self.work_s[f"{name}: {unit}"] * count for unit, count in counts.items())


MEASURED = Machine(
    read_nbytes=5.6e9,
    work_s={
        "message: values": 2.8e-9,
        "message: correlations": 0.0,  # nothing that was seen beside the values
        "message: values, likelihood": 2.6e-9,
        "message: rows, likelihood": 1.3e-6,
        "fgm: values": 6.9e-10,
        "fgm: values selected": 2.1e-8,
        "fgm: values selected beyond the cache": 2.2e-8,
        "fgm: entries paired": 2.56e-7,  # benchmarks/fgm_pairs.py
        "online_substitution: values": 2.7e-9,
        "online_substitution: products with selected columns": 1.3e-11,
        "online_substitution: products with selected columns beyond the cache": 1.3e-10,
        "online_substitution: values, screened": 4.8e-9,
        "online_substitution: products with selected columns, screened": 1.4e-10,
        "online_substitution: products with selected columns beyond the cache, screened": 7.1e-11,
        "online_substitution: values exchanged": 1.3e-10,  # as a product with a selected column
        "async_online_substitution: values": 2.7e-9,
        "async_online_substitution: products with selected columns": 1.7e-10,
        "async_online_substitution: products with selected columns beyond the cache": 1.7e-10,
        "async_online_substitution: values passed by": 6e-10,
        "mission: values": 7.0e-9,
        "mission: rows": 4.3e-8,
        "mission: values surveyed": 4.6e-9,
        "mission: products of candidates": 5e-11,  # of the kernel alone
        "ingest": 1.4e-8,  # of arrays and Parquet; text takes three times that
        "evaluate": 2.0e-10,
        "other": 3.0e-9,
    },
    task_s=1.8e-3,
    n_ahead=8.0,
)
"""By ``benchmarks/cluster_cost.py --fit``, see `benchmarks/README.md`; of the squared loss, unless units say more."""


@dataclass(frozen=True)
class Nodes:
    """Machines of so many cores: "100x16"."""

    n_nodes: int
    n_cores: int

    @classmethod
    def parse(cls, text: str) -> Nodes:
        """Return what "100x16" says.

        Raises
        ------
        ConfigError
            It says something else.
        """
        found = re.fullmatch(r"(\d+)x(\d+)", text.strip().lower())
        if found is None or not int(found[1]) * int(found[2]):
            raise ConfigError(f"expected machines x cores, found {text!r}", "--on", "for example 100x16")
        return cls(int(found[1]), int(found[2]))

    @property
    def total(self) -> int:
        """All cores."""
        return self.n_nodes * self.n_cores


@dataclass(frozen=True)
class StepCost:
    """What a step takes."""

    name: str
    core_s: float
    """Of all cores together."""
    seconds: float
    bound: str
    """What it waits for: "cores", "tasks" (too few for the cores), "requests", "scheduler" or "client"."""


def cost_of_step(
    name: str,
    read_nbytes: float,
    n_passes: int,
    n_tasks: int,
    n_cores: int,
    machine: Machine = MEASURED,
    *,
    work: Work | None = None,
    itemsize: int = 4,
) -> StepCost:
    """Return what a step takes on so many cores.

    Parameters
    ----------
    name : str
        Of a method, or "ingest", "evaluate", "refit".
    read_nbytes : float
        In all passes.
    n_passes, n_tasks : int
        Tasks of all passes together.
    n_cores : int
    machine : Machine
    work : Work, optional
        Else the values that are read are counted, of which each has `itemsize` bytes.

    Examples
    --------
    >>> work = Work({"values": 1e13})
    >>> one, many = (cost_of_step("fgm", 4e13, 10, 60_000, n, work=work).seconds for n in (1, 10))
    >>> 9 < one / many <= 10
    True
    """
    passes = max(1, n_passes)
    if work is None:
        shared_s = read_nbytes / itemsize * machine.work_s.get(name, machine.work_s["other"])
        shared_s += read_nbytes / machine.read_nbytes
        alone_s, at_once = 0.0, n_cores
    else:
        whose = work.method or name
        shared_s, alone_s = machine.seconds(whose, work.by_tasks), machine.seconds(whose, work.in_client)
        at_once = int(min(n_cores, work.n_at_once)) if work.by_tasks else 1
    waiting_s = read_nbytes / TILE_NBYTES * machine.latency_s / machine.n_ahead
    at_once = min(at_once, max(1, n_tasks // passes))
    seconds = {
        "requests": waiting_s / at_once,
        "cores" if at_once == n_cores else "tasks": shared_s / at_once,
        "scheduler": n_tasks * machine.task_s,
    }
    bound = max(seconds, key=seconds.__getitem__)
    total = seconds[bound] + alone_s + passes * machine.round_trip_s
    return StepCost(name, shared_s + alone_s, total, "client" if 2.0 * alone_s > total else bound)


def costs_of(plan: Plan, methods: dict[str, str], nodes: Nodes, machine: Machine = MEASURED) -> list[StepCost]:
    """Return what each step of a plan takes; `methods` says which method a label is of."""
    itemsize = np.dtype(plan.data.dtype).itemsize
    found = []
    for step in plan.steps:
        # Where all is done by the client its cores are one; what a part of a method does there its work says.
        in_client = bool(step.in_client) and (step.work is None or not step.work.by_tasks)
        n_cores = 1 if in_client else nodes.total
        # A pass is planned in as many tasks as the pipeline's own cluster asks for; here in 64 MiB and more each.
        n_tasks = max(step.n_tasks, min(step.read_nbytes // 2**26, 4 * n_cores * max(1, step.n_passes)))
        planned = (methods.get(step.name, step.name), step.read_nbytes, step.n_passes, n_tasks, n_cores, machine)
        cost = cost_of_step(*planned, work=step.work, itemsize=itemsize)
        found.append(replace(cost, name=step.name, bound="client" if in_client else cost.bound))
    return found


def text_of_costs(plan: Plan, costs: list[StepCost], nodes: Nodes, price: float | None) -> str:
    """Return the costs for a reader; `price` is of an hour of a core."""
    seconds = sum(one.seconds for one in costs)
    lines = [f"on {nodes.n_nodes} machines of {nodes.n_cores} cores: {shown_s(seconds)}"]
    if price is not None:
        lines[0] += f", {nodes.total * seconds / 3600.0 * price:,.2f} at {price:g} for an hour of a core"
    for step, one in zip(plan.steps, costs, strict=True):
        waits = {"client": "bound by what one process does", "tasks": "too few tasks for the cores"}.get(
            one.bound, f"bound by {one.bound}"
        )
        read = f"{shown_nbytes(step.read_nbytes)} read"
        lines.append(f"  {one.name:<8} {shown_s(one.seconds)}: {shown_s(one.core_s)} of cores, {read}, {waits}")
    return "\n".join(lines)


def shown_s(seconds: float) -> str:
    """Return a time for a reader.

    Examples
    --------
    >>> shown_s(0.04), shown_s(75), shown_s(10_000), shown_s(1e6)
    ('0.040 s', '75 s', '2.8 h', '11.6 days')
    """
    if seconds < 10:
        return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.1f} s"
    for limit, unit, per in ((600, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / per:.0f} {unit}" if per < 3600 else f"{seconds / per:.1f} {unit}"
    return f"{seconds / 86_400:.1f} days"
