"""Runs as gauges for Prometheus, among those that Dask's scheduler offers at ``/metrics``.

What is offered is that of a process: where several schedulers live in one, each of them shows the runs of all.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from daskfs.watching.state import State


class _Registered:
    """What the registry of the process asks, and whom that asks: a second collector of a name is refused there."""

    def __init__(self) -> None:
        self.plugins: list[Any] = []
        self.changing = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each number of the runs, and one for what workers have read."""
        families = {
            "step_share": GaugeMetricFamily("daskfs_step_share", "Share of the step that is done.", labels=["run"]),
            "seconds_left": GaugeMetricFamily("daskfs_step_seconds_left", "Seconds left of the step.", labels=["run"]),
            "objective": GaugeMetricFamily("daskfs_objective", "Objective so far.", labels=["run"]),
            "n_selected": GaugeMetricFamily("daskfs_features_selected", "Features selected so far.", labels=["run"]),
        }
        plugins = [*self.plugins]
        runs = {run: document for plugin in plugins for run, document in [*plugin.runs.items()]}
        for run, document in runs.items():
            state = State.from_document(document)
            known = {"step_share": state.step.share if state.step else None, "seconds_left": state.seconds_left}
            known |= {"objective": state.objective[-1][1] if state.objective else None, "n_selected": state.n_selected}
            for name, value in known.items():
                if value is not None:
                    families[name].add_metric([run], value)
        yield from families.values()
        read = CounterMetricFamily("daskfs_read_bytes", "Bytes of stores that a worker has read.", labels=["worker"])
        n_read: Counter[str] = Counter()  # the first worker of each cluster has the same name
        for name, _, nbytes in (one for plugin in plugins for one in plugin.measured().values()):
            n_read[name] += nbytes
        for name, nbytes in n_read.items():
            read.add_metric([name], nbytes)
        yield read


_REGISTERED = _Registered()


class Gauges:
    """Offers what is known of the runs whenever it is asked for."""

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin
        with _REGISTERED.changing:
            if not _REGISTERED.plugins:
                REGISTRY.register(_REGISTERED)
            _REGISTERED.plugins.append(plugin)

    def close(self) -> None:
        """Offer nothing more."""
        with _REGISTERED.changing:
            if self._plugin in _REGISTERED.plugins:
                _REGISTERED.plugins.remove(self._plugin)
                if not _REGISTERED.plugins:
                    REGISTRY.unregister(_REGISTERED)
