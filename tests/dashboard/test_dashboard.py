"""A run on Dask's dashboard: what the scheduler knows of it, spans, and a page."""

import json
import threading
import time
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.models.widgets import Div

import daskfs
from daskfs.cluster.open import open_cluster
from daskfs.dashboard.page import show
from daskfs.dashboard.plugin import NAME, RunsOnDashboard
from daskfs.dashboard.shown import on_dashboard
from daskfs.watching.watch import Viewer, Watch


class Kept(Viewer):
    """Keeps what is said."""

    def __init__(self):
        self.now, self.later = [], []

    def message(self, text):
        self.now.append(text)

    def noted(self, text):
        self.later.append(text)


@pytest.fixture(scope="module")
def workers():
    with open_cluster("local", 1) as opened:
        yield opened


def seen_on(workers, kept=None):
    watch = Watch(*([kept] if kept else []), name="genes")
    watch.promised = {"client": 10 << 30, "worker": 1 << 30}
    return watch


def page(address):
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


def until(found, seconds=60.0):
    """Wait for what another process does; returns what `found` does in the end."""
    end = time.monotonic() + seconds
    while not (value := found()) and time.monotonic() < end:
        time.sleep(0.05)
    return value


def test_the_address_is_told_to_who_looks_and_the_log_says_the_port_alone(workers):
    kept = Kept()
    with on_dashboard(workers, watch := seen_on(workers, kept)):
        address = watch.dashboard
        assert address.endswith("/daskfs")
        assert kept.now == [f"dashboard: {address}"]
        secret = address.split("/")[3]
        assert len(secret) > 20
        assert secret not in "".join(kept.later)
        assert address.split("/")[2] in kept.later[0]
        assert "<title>" in page(address)
        with pytest.raises(urllib.error.HTTPError):
            page(address.replace(secret, "guessed"))
    assert watch.dashboard is None


def test_the_scheduler_hears_of_the_run_and_workers_say_what_they_read_and_hold(workers, tmp_path):
    X = np.random.default_rng(0).standard_normal((2000, 60)).astype(np.float32)
    store = daskfs.ingest(X, tmp_path / "x.zarr", y=X[:, 0] - X[:, 1])
    with on_dashboard(workers, watch := seen_on(workers)):
        daskfs.FGM(5, n_features_per_pass=1).fit_matrix(store, workers=workers, progress=watch)
        watch.start("fgm", 5)
        for viewer in watch.viewers:
            viewer.beat(watch.state)
        heard = json.loads(page(f"{watch.dashboard}.json"))
        assert heard["runs"][-1]["name"] == "genes"
        assert heard["runs"][-1]["n_selected"] == 5
        assert heard["runs"][-1]["selected"][0] == "x0"
        assert heard["runs"][-1]["dashboard"] is None, "who reads the page knows it; others need not"

        def measured():
            found = watch.measure()
            return found if found.read_nbytes >= 5 * X.nbytes else None

        found = until(measured)
        assert set(found.memory) == {"client", "worker-0"}
        assert all(nbytes > 20 << 20 for nbytes in found.memory.values())
        spans = workers.client.run_on_scheduler(names_of_spans)
        assert ("daskfs", "genes", "fgm-scores") in spans
        assert spans.count(("daskfs", "genes", "fgm-scores")) == 1, "all passes in one"


def names_of_spans(dask_scheduler=None):
    return [span.name for span in dask_scheduler.extensions["spans"].spans.values()]


def test_a_run_in_this_thread_has_no_dashboard_and_loads_no_distributed():
    import subprocess
    import sys

    code = """
import sys
from daskfs.cluster.workers import Here
from daskfs.dashboard.shown import on_dashboard
from daskfs.watching.watch import Watch
with on_dashboard(Here(), Watch()):
    pass
assert "distributed" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_scheduler_that_takes_no_plugins_keeps_nobody_from_working():
    def refuse(*_):
        raise ValueError("plugins are not allowed")

    from daskfs.cluster.dask_workers import OnDask

    client = SimpleNamespace(register_plugin=refuse, dashboard_link="http://node:8787/status")
    kept = Kept()
    with on_dashboard(OnDask(client), watch := seen_on(None, kept)):
        assert watch.dashboard == "http://node:8787/status"
    assert kept.now == ["dashboard: http://node:8787/status"]


def test_a_cluster_without_a_dashboard_tells_no_address():
    kept = Kept()
    with open_cluster("threads", 1, dashboard_address=None) as workers, on_dashboard(workers, seen_on(workers, kept)):
        assert workers.client.submit(sum, [1, 2]).result() == 3
    assert kept.now == kept.later == []


def test_the_plugin_keeps_the_latest_runs_and_nothing_that_is_no_run():
    plugin = RunsOnDashboard()
    for k in range(20):
        plugin.log_event("daskfs", {"run": f"run-{k}"})
    plugin.log_event("daskfs", "nothing")
    plugin.log_event("other", {"run": "other"})
    assert list(plugin.runs) == [f"run-{k}" for k in range(12, 20)]
    assert plugin.name == NAME


def test_the_page_shows_the_latest_run_and_how_much_of_its_step_is_done():
    plugin = SimpleNamespace(runs={}, rates=([], []), measured=dict)
    show(plugin, document := Document())

    def texts():
        for callback in document.session_callbacks:
            callback.callback()
        return "".join(div.text for div in document.select({"type": Div}))

    assert "No run yet." in texts()
    for name, n_done in (("before", 1), ("genes", 3), ("waits", 0)):
        watch = Watch(name=name)
        if n_done:
            watch.start("message-select", 10)
            watch.advance(n_done)
        plugin.runs[name] = watch.state.to_document()
        assert f"<h1>{name}</h1>" in texts()
        assert (f"width: {n_done / 10:.1%}" in texts()) == (n_done > 0), "a run without a step has no bar"
        assert texts().count("<h1>") == 1


@pytest.mark.slow
def test_no_thread_of_a_watch_is_left():
    assert not any(thread.name == "daskfs-watch" for thread in threading.enumerate())
