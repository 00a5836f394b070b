"""Show a run on its cluster's dashboard: report the address, send the state of the run, and measure its workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from daskfs.cluster.dask_workers import OnDask
from daskfs.cluster.workers import Workers
from daskfs.watching.state import State
from daskfs.watching.watch import Measured, Viewer, Watch, measured_here

if TYPE_CHECKING:
    from distributed import Client

ANSWER_S = 5.0
"""Time limit for an answer of the scheduler."""


class OnDashboard(Viewer):
    """Sends the state of a run to the scheduler."""

    every_s = 1.0

    def __init__(self, client: Client, run: str) -> None:
        self._client, self._run = client, run

    def beat(self, state: State) -> None:
        """Log the state as an event."""
        from daskfs.dashboard.plugin import TOPIC

        with suppress(Exception):  # a lost scheduler is reported where tasks are awaited
            document = state.to_document() | {"run": self._run, "dashboard": None}
            _asked(self._client, "log_event", topic=TOPIC, msg=document)


@contextmanager
def on_dashboard(workers: Workers, watch: Watch) -> Iterator[None]:
    """Show a run on its cluster's dashboard, if that allows plugins, and measure its workers.

    Viewers receive the full address. Logs, which others may read, contain only its host and port.
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
        host = watch.dashboard.split("/")[2]
        watch.say(f"dashboard: on {host}; `daskfs watch RUN_DIR` shows its owner the address")
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
    """Return the path of our page, empty without a dashboard; None if the scheduler does not allow plugins."""
    from daskfs.dashboard.plugin import ReadsOfWorkers, RunsOnDashboard

    try:
        client.register_plugin(RunsOnDashboard())
        client.register_plugin(ReadsOfWorkers())
        page: str = client.run_on_scheduler(_page)
        return page
    except Exception:  # daskfs is missing there, or plugins are not allowed; the run does not need them
        return None


def _page(dask_scheduler: Any = None) -> str:
    from daskfs.dashboard.plugin import NAME

    found: str = dask_scheduler.plugins[NAME].page
    return found


def _address(link: str, page: str | None) -> str:
    return link if not page else "/".join(link.split("/")[:3]) + page


def _measured(client: Client) -> Measured:
    """Return memory and read bytes of this process and of the workers, each process once."""
    own = measured_here()
    found = _asked(client, "daskfs_measured")
    others = {place: one for place, one in found.items() if not place.endswith(f":{os.getpid()}")}
    memory = {f"worker-{name}": int(rss) for name, rss, _ in others.values()}
    return Measured({**own.memory, **memory}, own.read_nbytes + sum(int(read) for _, _, read in others.values()))


def _asked(client: Client, what: str, **arguments: Any) -> Any:
    """Return the answer of the scheduler, within a time limit."""
    return client.sync(getattr(client.scheduler, what), callback_timeout=ANSWER_S, **arguments)
