"""Estimated time and price of a planned run on a cluster, from bytes, operations, tasks and requests.

For each step the plan knows the bytes read, passes and tasks, and the operations (`Work`), counted in units of the
method, of reading and of the refit. On c cores a step takes

    max(Σ count * seconds / k,  requests * latency / ahead / k,  tasks * seconds of a task)
    + Σ count in the client * seconds + passes * round trip,    k = min(c, tasks of a pass)

The first two terms are divided among the cores; one process, the scheduler (with the client), handles all tasks.
``python -m benchmarks.scale`` measures the constants of a machine; docs/scale.md checks them on runs that are three
times larger. `MEASURED` is the bundled file, for one core of the machine that it describes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

import numpy as np

from daskfs import errors
from daskfs.pipeline.limits import shown_nbytes
from daskfs.pipeline.plan import Plan
from daskfs.selectors.shared.work import Work

ConfigError = errors.ConfigError.about("pipeline-files")

TILE_NBYTES = 4 * 2**20
SHARED = frozenset(
    {
        "values read",
        "entries read",
        "values refitted",
        "products refitted",
        "values refitted, likelihood",
        "products refitted, likelihood",
    }
)
"""Operations that take the same time in every method."""


@dataclass(frozen=True)
class Machine:
    """Speed of one core, of the network and of the scheduler.

    Parameters
    ----------
    work_s : dict of float
        Seconds of one core for one operation, by method and unit of its `Work`, such as "fgm: values"; for all methods
        "values read". Steps without `Work` take "ingest" or "other" for each value, in addition to reading.
    task_s : float
        Seconds of the scheduler and the client for each task.
    latency_s : float
        Seconds until the store answers a request; 0 for a local disk.
    n_ahead : float
        Number of concurrent requests of a core.
    round_trip_s : float
        Seconds from the last result of a pass to the first task of the next.
    description : str
        The machine, and the date of the measurement.
    """

    work_s: Mapping[str, float]
    task_s: float
    latency_s: float = 0.0
    n_ahead: float = 1.0
    round_trip_s: float = 0.0
    description: str = ""

    def seconds(self, name: str, counts: Mapping[str, float]) -> float:
        """Return the seconds of one core for some operations of a method."""
        return sum(self.work_s[unit if unit in SHARED else f"{name}: {unit}"] * n for unit, n in counts.items())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the constants of a machine from a file.

        Raises
        ------
        ConfigError
            The file is missing, or was not written by ``python -m benchmarks.scale machine FILE``.
        """
        remedy = f"write one with python -m benchmarks.scale measure, then machine {path}"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as fault:
            raise ConfigError(f"cannot read the constants of a machine: {fault}", str(path), remedy) from None
        known = {one.name for one in fields(cls)}
        if not isinstance(found, dict) or not known >= found.keys() >= {"work_s", "task_s"}:
            raise ConfigError(f"expected an object with {', '.join(sorted(known))}", str(path), remedy)
        numbers = [*found["work_s"].values(), *(found[key] for key in found.keys() - {"work_s", "description"})]
        if not all(isinstance(one, int | float) and 0 <= one < math.inf for one in numbers):
            raise ConfigError("expected numbers of at least 0", str(path), remedy)
        missing = next(iter(MEASURED.work_s.keys() - found["work_s"].keys()), None) if "MEASURED" in globals() else None
        if missing is not None:
            raise ConfigError(f"the time of {missing!r} is missing", str(path), remedy)
        return cls(**found)


MEASURED = Machine.read(Path(__file__).with_name("machine.json"))
"""The bundled constants of the machine in `description`."""


@dataclass(frozen=True)
class Nodes:
    """A number of machines with a number of cores each: "100x16"."""

    n_nodes: int
    n_cores: int

    @classmethod
    def parse(cls, text: str) -> Nodes:
        """Parse a text such as "100x16".

        Raises
        ------
        ConfigError
            The text has another form.
        """
        found = re.fullmatch(r"(\d+)x(\d+)", text.strip().lower())
        if found is None or not int(found[1]) * int(found[2]):
            raise ConfigError(f"expected machines x cores, found {text!r}", "--on", "for example 100x16")
        return cls(int(found[1]), int(found[2]))

    @property
    def total(self) -> int:
        """Total number of cores."""
        return self.n_nodes * self.n_cores


@dataclass(frozen=True)
class StepCost:
    """Estimated cost of a step."""

    name: str
    core_s: float
    """Total seconds of all cores."""
    seconds: float
    bound: str
    """The bottleneck: "cores", "tasks" (too few for the cores), "requests", "scheduler" or "client"."""


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
    """Return the estimated cost of a step on a number of cores.

    Parameters
    ----------
    name : str
        Name of a method, or "ingest", "evaluate", "refit".
    read_nbytes : float
        Bytes read in all passes.
    n_passes, n_tasks : int
        Passes, and tasks of all passes together.
    n_cores : int
    machine : Machine
    work : Work, optional
        Without it, the operations are the values read, of `itemsize` bytes each.

    Examples
    --------
    >>> work = Work({"values read": 1e13})
    >>> one, many = (cost_of_step("fgm", 4e13, 10, 60_000, n, work=work).seconds for n in (1, 10))
    >>> 9 < one / many <= 10
    True
    """
    passes = max(1, n_passes)
    if work is None:
        n_values = read_nbytes / itemsize
        beside = 0.0 if name == "evaluate" else machine.work_s.get(name, machine.work_s["other"])
        shared_s, alone_s = n_values * (machine.work_s["values read"] + beside), 0.0
        at_once = n_cores
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
    """Return the estimated cost of each step of a plan; `methods` maps labels to methods."""
    itemsize = np.dtype(plan.data.dtype).itemsize
    found = []
    for step in plan.steps:
        # A step that runs only in the client has one core. If only a part does, `Work` counts that part.
        in_client = bool(step.in_client) and (step.work is None or not step.work.by_tasks)
        n_cores = 1 if in_client else nodes.total
        # The plan has enough tasks for the pipeline's own cluster; here tasks of at least 64 MiB are assumed.
        n_tasks = max(step.n_tasks, min(step.read_nbytes // 2**26, 4 * n_cores * max(1, step.n_passes)))
        planned = (methods.get(step.name, step.name), step.read_nbytes, step.n_passes, n_tasks, n_cores, machine)
        cost = cost_of_step(*planned, work=step.work, itemsize=itemsize)
        found.append(replace(cost, name=step.name, bound="client" if in_client else cost.bound))
    return found


def text_of_costs(plan: Plan, costs: list[StepCost], nodes: Nodes, price: float | None) -> str:
    """Return the costs as text; `price` is per core-hour."""
    seconds = sum(one.seconds for one in costs)
    lines = [f"on {nodes.n_nodes} machines of {nodes.n_cores} cores: {shown_s(seconds)}"]
    if price is not None:
        lines[0] += f", {nodes.total * seconds / 3600.0 * price:,.2f} at {price:g} per core-hour"
    for step, one in zip(plan.steps, costs, strict=True):
        waits = {"client": "bound by the client process", "tasks": "too few tasks for the cores"}.get(
            one.bound, f"bound by {one.bound}"
        )
        read = f"{shown_nbytes(step.read_nbytes)} read"
        lines.append(f"  {one.name:<8} {shown_s(one.seconds)}: {shown_s(one.core_s)} of cores, {read}, {waits}")
    return "\n".join(lines)


def shown_s(seconds: float) -> str:
    """Format a time.

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
