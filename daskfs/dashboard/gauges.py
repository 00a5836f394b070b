"""Runs as Prometheus gauges, in addition to those that Dask's scheduler serves at ``/metrics``.

The registry is per process: if several schedulers share a process, each serves the runs of all of them.
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
    """The collector registered for the process, which refuses a second one of the same name, and its plugins."""

    def __init__(self) -> None:
        self.plugins: list[Any] = []
        self.changing = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Yield a metric family for each number of the runs, and one for the bytes read by workers."""
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
    """Registers the runs of a plugin for as long as it is open."""

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin
        with _REGISTERED.changing:
            if not _REGISTERED.plugins:
                REGISTRY.register(_REGISTERED)
            _REGISTERED.plugins.append(plugin)

    def close(self) -> None:
        """Unregister the runs."""
        with _REGISTERED.changing:
            if self._plugin in _REGISTERED.plugins:
                _REGISTERED.plugins.remove(self._plugin)
                if not _REGISTERED.plugins:
                    REGISTRY.unregister(_REGISTERED)
