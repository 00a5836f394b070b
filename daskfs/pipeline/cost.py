"""How long a planned run takes on a cluster that is not there, and what it costs: bytes, work, messages, requests.

Of each step the plan knows what is read, in how many passes and tasks. On c cores a pass takes

    max( (read / speed + values * work + requests * latency) / min(c, tasks),  tasks * per_task )  +  round trip

where what is left of the comma is shared by the cores, and what is right of it is done by one process, the scheduler
with the client beside it. The constants are fitted by ``benchmarks/cluster_cost.py --fit``, which also predicts runs
three times larger than any it was fitted to; they are of one core of the machine that it was run on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from daskfs.errors import ConfigError
from daskfs.pipeline.planning import Plan, shown_nbytes

TILE_NBYTES = 4 * 2**20


@dataclass(frozen=True)
class Machine:
    """What one core does, and what the network and the scheduler take.

    Parameters
    ----------
    read_nbytes : float
        Bytes that a core decodes in a second, checksums included.
    work_s : dict of float
        Seconds of a core for each value that is read, by method; "other" of those not measured.
    task_s : float
        Seconds of the scheduler and the client for each task.
    request_s : float
        Seconds that a core waits for a tile, beside what it decodes; 0 for a local disk.
    round_trip_s : float
        Seconds from the last result of a pass to the first task of the next.
    """

    read_nbytes: float
    work_s: dict[str, float]
    task_s: float
    request_s: float = 0.0
    round_trip_s: float = 0.02


MEASURED = Machine(
    read_nbytes=9.3e9,
    work_s={
        "message": 1.3e-9,
        "fgm": 2.0e-10,
        "online_substitution": 2.8e-9,  # of 20 selected features; it grows with them
        "mission": 1.7e-8,
        "ingest": 1.4e-8,  # of arrays and Parquet; text takes three times that
        "evaluate": 2.0e-10,
        "other": 3.0e-9,
    },
    task_s=1.7e-3,
)
"""By ``benchmarks/cluster_cost.py --fit``, see `benchmarks/README.md`."""


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
    """What it waits for: "cores", "tasks" (too few for the cores) or "scheduler"."""


def cost_of_step(
    name: str, read_nbytes: float, itemsize: int, n_passes: int, n_tasks: int, n_cores: int, machine: Machine = MEASURED
) -> StepCost:
    """Return what a step takes on so many cores.

    Parameters
    ----------
    name : str
        Of a method, or "ingest", "evaluate", "refit".
    read_nbytes : float
        In all passes.
    itemsize : int
    n_passes, n_tasks : int
        Tasks of all passes together.
    n_cores : int
    machine : Machine

    Examples
    --------
    >>> one, many = (cost_of_step("fgm", 4e13, 4, 10, 60_000, n).seconds for n in (1, 10))
    >>> 9 < one / many <= 10
    True
    """
    values, passes = read_nbytes / itemsize, max(1, n_passes)
    work_s = machine.work_s.get(name, machine.work_s["other"])
    core_s = read_nbytes / machine.read_nbytes + values * work_s + read_nbytes / TILE_NBYTES * machine.request_s
    at_once = min(n_cores, max(1, n_tasks // passes))
    shared, one = core_s / at_once, n_tasks * machine.task_s
    bound = "scheduler" if one > shared else "cores" if at_once == n_cores else "tasks"
    return StepCost(name, core_s, max(shared, one) + passes * machine.round_trip_s, bound)


def costs_of(plan: Plan, methods: dict[str, str], nodes: Nodes, machine: Machine = MEASURED) -> list[StepCost]:
    """Return what each step of a plan takes; `methods` says which method a label is of."""
    itemsize = np.dtype(plan.data.dtype).itemsize
    found = []
    for step in plan.steps:
        n_cores = nodes.total if not step.in_client else 1
        kind = methods.get(step.name, step.name)
        # A pass is planned in as many tasks as the pipeline's own cluster asks for; here in 64 MiB and more each.
        n_tasks = max(step.n_tasks, min(step.read_nbytes // 2**26, 4 * n_cores * max(1, step.n_passes)))
        cost = cost_of_step(kind, step.read_nbytes, itemsize, step.n_passes, n_tasks, n_cores, machine)
        found.append(StepCost(step.name, cost.core_s, cost.seconds, "client" if step.in_client else cost.bound))
    return found


def text_of_costs(plan: Plan, costs: list[StepCost], nodes: Nodes, price: float | None) -> str:
    """Return the costs for a reader; `price` is of an hour of a core."""
    seconds = sum(one.seconds for one in costs)
    lines = [f"on {nodes.n_nodes} machines of {nodes.n_cores} cores: {shown_s(seconds)}"]
    if price is not None:
        lines[0] += f", {nodes.total * seconds / 3600.0 * price:,.2f} at {price:g} for an hour of a core"
    for step, one in zip(plan.steps, costs, strict=True):
        waits = {"client": "in the client", "tasks": "too few tasks for the cores"}.get(
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
