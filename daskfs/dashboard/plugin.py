"""Runs on Dask's dashboard: what the client tells of them, and what the workers read and hold, beside each other.

The client logs the state of a run as an event, once a second; workers say with their heartbeats what they have read. A
plugin of the scheduler keeps both for the page (`daskfs.dashboard.page`), for ``daskfs.json`` beside it and, where
prometheus_client is installed, as gauges among Dask's own metrics. No actor and no task takes part.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from distributed import SchedulerPlugin, WorkerPlugin

from daskfs.watching.reads import READ

TOPIC = "daskfs"
NAME = "daskfs-dashboard"
SAMPLES, SAMPLE_EVERY_MS = 600, 1000
MOST_RUNS = 8


class Sample(NamedTuple):
    """What all workers together have read, at a time in seconds since the epoch."""

    at: float
    read_nbytes: int


class ReadsOfWorkers(WorkerPlugin):
    """Has a worker's heartbeat say what its process has read of stores."""

    name = "daskfs-reads"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Add to what it measures."""
        worker.metrics["daskfs_reads"] = lambda _: [os.getpid(), READ.nbytes]


class RunsOnDashboard(SchedulerPlugin):
    """Keeps what is told of runs, and serves it.

    Attributes
    ----------
    runs : dict of dict
        States of the runs by their number, as `State.to_document` has them; the latest is the last.
    samples : deque of Sample
    page : str
        Path of the page, empty where there is no dashboard.
    """

    name = NAME
    idempotent = True

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)
        self.page = ""
        self._callback: Any = None
        self._gauges: Any = None

    async def start(self, scheduler: Any) -> None:
        """Begin to listen, and to serve."""
        from tornado.ioloop import PeriodicCallback

        self.scheduler = scheduler
        scheduler.handlers["daskfs_measured"] = self.measured
        self._callback = PeriodicCallback(self._sample, SAMPLE_EVERY_MS)
        self._callback.start()
        try:
            self._serve(scheduler)
        except Exception:  # whatever stands in the way of a page is no reason not to run
            logging.getLogger("daskfs.dashboard").warning("there is no page of daskfs", exc_info=True)
        with suppress(ImportError):
            from daskfs.dashboard.gauges import Gauges

            self._gauges = Gauges(self)

    async def close(self) -> None:
        """Stop."""
        if self._callback is not None:
            self._callback.stop()
        if self._gauges is not None:
            self._gauges.close()

    def log_event(self, topic: str, msg: Any) -> None:
        """Take the state of a run."""
        if topic == TOPIC and isinstance(msg, dict) and "run" in msg:
            self.runs[str(msg["run"])] = msg
            while len(self.runs) > MOST_RUNS:
                self.runs.pop(next(iter(self.runs)))

    def measured(self) -> dict[str, Any]:
        """Return resident and read bytes by the number of a process, and the worker's name."""
        found = {}
        for worker in self.scheduler.workers.values():
            pid, read = worker.metrics.get("daskfs_reads") or (0, 0)
            found[f"{worker.host}:{pid or worker.address}"] = [str(worker.name), worker.metrics.get("memory", 0), read]
        return found

    @property
    def rates(self) -> tuple[list[float], list[float]]:
        """Seconds before now, and bytes read a second."""
        samples, now = [*self.samples], time.time()
        pairs = [(a, b) for a, b in pairwise(samples) if b.at > a.at]
        rates = [max(0, b.read_nbytes - a.read_nbytes) / (b.at - a.at) for a, b in pairs]
        return [b.at - now for _, b in pairs], rates

    def _sample(self) -> None:
        self.samples.append(Sample(time.time(), sum(read for _, _, read in self.measured().values())))

    def _serve(self, scheduler: Any) -> None:
        from tornado.ioloop import IOLoop
        from tornado.web import RequestHandler

        prefix = next((app.prefix for app in scheduler.http_application.applications if hasattr(app, "prefix")), None)
        if prefix is None:
            return  # there is no dashboard

        class AsJson(RequestHandler):
            plugin = self

            def get(self) -> None:
                self.write({"runs": [*self.plugin.runs.values()], "workers": self.plugin.measured()})

        from distributed.dashboard.core import BokehApplication

        from daskfs.dashboard.page import show

        app = BokehApplication({"/daskfs": partial(_shown, self, show)}, scheduler, prefix=prefix)
        scheduler.http_application.add_application(app)
        app.initialize(IOLoop.current())
        app.start()
        scheduler.http_application.add_handlers(".*$", [(rf"{prefix}/daskfs\.json", AsJson)])
        self.page = f"{prefix}/daskfs"


def _shown(plugin: RunsOnDashboard, show: Any, scheduler: Any, extra: dict[str, Any], doc: Any) -> None:
    """Fill a page, as Dask has its pages filled."""
    show(plugin, doc)
