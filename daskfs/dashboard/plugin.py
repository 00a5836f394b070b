"""Scheduler plugin for runs on Dask's dashboard: their states from the client, read bytes and memory from workers.

The client logs the state of a run as an event once per second; workers report read bytes with their heartbeats. A
scheduler plugin keeps both for the page (`daskfs.dashboard.page`) and for ``daskfs.json`` beside it. No actors or tasks
are needed.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
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
    """Bytes read by all workers, at a time in seconds since the epoch."""

    at: float
    read_nbytes: int


class ReadsOfWorkers(WorkerPlugin):
    """Adds the bytes read from stores to a worker's heartbeat."""

    name = "daskfs-reads"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Add the metric to the worker."""
        worker.metrics["daskfs_reads"] = lambda _: [os.getpid(), READ.nbytes]


class RunsOnDashboard(SchedulerPlugin):
    """Keeps and serves the states of runs.

    Attributes
    ----------
    runs : dict of dict
        Documents of `State.to_document` by id of the run; the latest run is the last.
    samples : deque of Sample
    page : str
        Path of the page; empty without a dashboard.
    """

    name = NAME
    idempotent = True

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)
        self.page = ""
        self._callback: Any = None

    async def start(self, scheduler: Any) -> None:
        """Start to record and to serve."""
        from tornado.ioloop import PeriodicCallback

        self.scheduler = scheduler
        scheduler.handlers["daskfs_measured"] = self.measured
        self._callback = PeriodicCallback(self._sample, SAMPLE_EVERY_MS)
        self._callback.start()
        try:
            self._serve(scheduler)
        except Exception:  # a run must not fail because of the page
            logging.getLogger("daskfs.dashboard").warning("the dashboard page of daskfs failed", exc_info=True)

    async def close(self) -> None:
        """Stop."""
        if self._callback is not None:
            self._callback.stop()

    def log_event(self, topic: str, msg: Any) -> None:
        """Record the state of a run."""
        if topic == TOPIC and isinstance(msg, dict) and "run" in msg:
            self.runs[str(msg["run"])] = msg
            while len(self.runs) > MOST_RUNS:
                self.runs.pop(next(iter(self.runs)))

    def measured(self) -> dict[str, Any]:
        """Return name, resident bytes and read bytes of workers by host and process id."""
        found = {}
        for worker in self.scheduler.workers.values():
            pid, read = worker.metrics.get("daskfs_reads") or (0, 0)
            found[f"{worker.host}:{pid or worker.address}"] = [str(worker.name), worker.metrics.get("memory", 0), read]
        return found

    @property
    def rates(self) -> tuple[list[float], list[float]]:
        """Times relative to now in seconds, and bytes read per second."""
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
    """Fill a page; has the signature of Dask's page functions."""
    show(plugin, doc)
