"""Runs as gauges for Prometheus, among those that Dask's scheduler offers at ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from daskfs.watching.state import State


class Gauges:
    """Offers what is known of the runs whenever it is asked for."""

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin
        REGISTRY.register(self)

    def close(self) -> None:
        """Offer nothing more."""
        REGISTRY.unregister(self)

    def collect(self) -> Iterator[Metric]:
        """Yield a family for each number of the runs, and one for what workers have read."""
        families = {
            "step_share": GaugeMetricFamily("daskfs_step_share", "Share of the step that is done.", labels=["run"]),
            "seconds_left": GaugeMetricFamily("daskfs_step_seconds_left", "Seconds left of the step.", labels=["run"]),
            "objective": GaugeMetricFamily("daskfs_objective", "Objective so far.", labels=["run"]),
            "n_selected": GaugeMetricFamily("daskfs_features_selected", "Features selected so far.", labels=["run"]),
        }
        for run, document in [*self._plugin.runs.items()]:
            state = State.from_document(document)
            known = {"step_share": state.step.share if state.step else None, "seconds_left": state.seconds_left}
            known |= {"objective": state.objective[-1][1] if state.objective else None, "n_selected": state.n_selected}
            for name, value in known.items():
                if value is not None:
                    families[name].add_metric([run], value)
        yield from families.values()
        read = CounterMetricFamily("daskfs_read_bytes", "Bytes of stores that a worker has read.", labels=["worker"])
        for name, _, nbytes in self._plugin.measured().values():
            read.add_metric([name], nbytes)
        yield read
