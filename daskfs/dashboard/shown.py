"""A run on the dashboard of the cluster it runs on: its address is told, its state sent there, its workers measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from daskfs.cluster.workers import OnDask, Workers
from daskfs.watching.state import State
from daskfs.watching.watch import Measured, Viewer, Watch, measured_here

if TYPE_CHECKING:
    from distributed import Client

ANSWER_S = 5.0
"""How long the scheduler may take to answer."""


class OnDashboard(Viewer):
    """Tells the scheduler of a run."""

    every_s = 1.0

    def __init__(self, client: Client, run: str) -> None:
        self._client, self._run = client, run

    def beat(self, state: State) -> None:
        """Log the state as an event."""
        from daskfs.dashboard.plugin import TOPIC

        with suppress(Exception):  # a scheduler that is gone is told of where tasks are waited for
            document = state.to_document() | {"run": self._run, "dashboard": None}
            _asked(self._client, "log_event", topic=TOPIC, msg=document)


@contextmanager
def on_dashboard(workers: Workers, watch: Watch) -> Iterator[None]:
    """Show a run on the dashboard of the cluster it runs on, where that takes plugins; measure its workers.

    The dashboard's address is told to whoever watches; logs, which others may read, hear of its host and port alone.
    """
    client = workers.client
    if client is None or not isinstance(workers, OnDask):
        yield
        return
    workers.run_name = watch.name
    page = _installed(client)
    if client.dashboard_link and page != "":  # else there is no dashboard
        watch.dashboard = _address(client.dashboard_link, page)
        watch.tell(f"dashboard: {watch.dashboard}")
        watch.say(f"dashboard: on {watch.dashboard.split('/')[2]}; `daskfs watch RUN_DIR` tells its owner the address")
    with ExitStack() as stack:
        if page is not None:
            stack.enter_context(
                watch.seen_by(OnDashboard(client, f"{watch.name or 'run'}-{os.getpid()}-{id(watch):x}"))
            )
            stack.enter_context(watch.measured_by(partial(_measured, client)))
        try:
            yield
        finally:
            watch.dashboard = None


def _installed(client: Client) -> str | None:
    """Return the path of our page, empty where the scheduler has no dashboard; None where it takes no plugins."""
    from daskfs.dashboard.plugin import ReadsOfWorkers, RunsOnDashboard

    try:
        client.register_plugin(RunsOnDashboard())
        client.register_plugin(ReadsOfWorkers())
        page: str = client.run_on_scheduler(_page)
        return page
    except Exception:  # no daskfs there, or plugins are not allowed: the work is none the worse for it
        return None


def _page(dask_scheduler: Any = None) -> str:
    from daskfs.dashboard.plugin import NAME

    found: str = dask_scheduler.plugins[NAME].page
    return found


def _address(link: str, page: str | None) -> str:
    return link if not page else "/".join(link.split("/")[:3]) + page


def _measured(client: Client) -> Measured:
    """Return what this process and the workers, each process once, hold and have read."""
    own = measured_here()
    found = _asked(client, "daskfs_measured")
    others = {place: one for place, one in found.items() if not place.endswith(f":{os.getpid()}")}
    memory = {f"worker-{name}": int(rss) for name, rss, _ in others.values()}
    return Measured({**own.memory, **memory}, own.read_nbytes + sum(int(read) for _, _, read in others.values()))


def _asked(client: Client, what: str, **arguments: Any) -> Any:
    """Return what the scheduler answers, if it does so soon."""
    return client.sync(getattr(client.scheduler, what), callback_timeout=ANSWER_S, **arguments)
