"""Work whose cluster is gone, or comes late: it says so, and ends with an error, or goes on."""

from __future__ import annotations

import asyncio
import operator
import os
import signal
import threading
import time
from contextlib import suppress
from functools import partial

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster

from daskfs.cluster import presence
from daskfs.cluster.client import cluster_errors, kept_on, released
from daskfs.cluster.dask_workers import OnDask
from daskfs.cluster.open import open_cluster
from daskfs.cluster.presence import presence_of
from daskfs.cluster.workers import Round
from daskfs.errors import RunError
from tests.refusals import refused

LARGE = np.arange(100_000.0)


def doubled(item: float) -> float:
    return 2.0 * item


def moved(state: float, item: float) -> float:
    return state + item


def total(values: np.ndarray, item: float) -> float:
    return float(values.sum()) + item


WAYS = {
    "map": lambda workers: sorted(workers.map_blocks(doubled, [1.0, 2.0], name="double")),
    "reduce": lambda workers: workers.reduce_blocks(doubled, [1.0, 2.0], operator.add, name="double"),
    "chain": lambda workers: list(
        workers.chain_blocks(Round(moved, operator.add, abs), [[[1.0]], [[2.0]]], 0.0, name="move")
    ),
    "keep": lambda workers: sorted(workers.map_blocks(total, [1.0], name="total", shared=(LARGE,))),
    "actor": lambda workers: workers.actors.place(list, (1.0,)).__len__().result(),
}


@pytest.fixture
def lonely(monkeypatch):
    """A cluster whose workers have left, and the lines that were told."""
    monkeypatch.setattr(presence, "SILENCE_S", 0.1)
    how = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**how) as cluster, Client(cluster, set_as_default=False) as client:
        client.sync(client.scheduler.retire_workers, names=[0], close_workers=True, remove=True)
        while client.nthreads():
            pass
        yield client, cluster


@pytest.mark.slow_cases("reduce", "chain", "keep")
@pytest.mark.parametrize("way", WAYS)
def test_work_without_a_worker_is_told_and_ends_with_an_error_that_says_how_to_go_on(lonely, way):
    client, _ = lonely
    told = []
    presence_of(client, tell=told.append, lost_timeout_s=0.5, known=lambda: "jobs 12, 13 pending (Priority)")
    with pytest.raises(RunError) as found:
        WAYS[way](OnDask(client))
    assert told == ["no worker is left; waiting for a new one for at most 0.5 s (jobs 12, 13 pending (Priority))"]
    assert "no worker is left, and none has started within 0.5 s (jobs 12, 13 pending (Priority))" in str(found.value)
    assert "resume the run" in str(found.value)
    assert "cluster.lost_timeout_s" in str(found.value)


@pytest.mark.parametrize("way", WAYS)
def test_work_goes_on_when_a_worker_comes(lonely, way):
    client, cluster = lonely
    told = []

    def tell(line):
        told.append(line)
        if len(told) == 1:
            cluster.scale(2)

    presence_of(client, tell=tell, lost_timeout_s=None)
    found = WAYS[way](OnDask(client))
    assert told[0] == "no worker is left; waiting for a new one"
    with open_cluster("none") as here:
        assert found == WAYS[way](here)


def test_a_worker_is_waited_for(lonely):
    client, cluster = lonely
    here = presence_of(client, tell=lambda line: cluster.scale(2), lost_timeout_s=None)
    assert not here.n_threads()
    here.wait_for_a_worker()
    assert here.n_threads()


@pytest.mark.slow
def test_a_pipeline_says_how_long_a_worker_is_waited_for(tmp_path):
    with open_cluster("local", lost_timeout_s=17.0, dashboard_address=None) as workers:
        assert presence_of(workers.client)._lost_timeout_s == 17.0


@pytest.mark.slow
def test_what_is_kept_is_sent_though_the_scheduler_does_not_know_yet_that_a_worker_died(monkeypatch):
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        open_cluster("local", n_workers=2, dashboard_address=None) as workers,
    ):
        scheduler = workers.client.cluster.scheduler

        async def not_noticed(*_, **__):
            return "OK"

        with monkeypatch.context() as unaware:
            unaware.setattr(scheduler, "remove_worker", not_noticed)
            os.kill(workers.client.cluster.workers[0].process.pid, signal.SIGKILL)
            kept = workers.keep(LARGE)
        assert np.array_equal(kept.result(), LARGE)


def test_what_was_sent_to_all_leaves_all_when_it_is_released(processes):
    """The scheduler releases what it knows of: workers that fetched from each other have told it."""
    client = processes.client
    for _ in range(3):
        client.amm.stop()  # every two seconds it drops copies that no task waits for
        try:
            kept = kept_on(client, np.zeros(100_000))
            held = client.run(_holds, kept.key)
        finally:
            client.amm.start()
        assert len(held) == 2
        assert all(held.values())
        key = kept.key
        released(kept)
        for _ in range(1200):  # the machine may be busy; a copy that nobody releases stays for ever
            if not any(client.run(_holds, key).values()):
                break
            time.sleep(0.05)
        else:
            pytest.fail(f"workers still hold what was released: {client.run(_holds, key)}, {client.who_has()}")


def _holds(key, dask_worker):
    return key in dask_worker.data


def test_what_is_lost_is_told_from_a_scheduler_that_is_gone():
    how = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    soon = {"distributed.comm.timeouts.connect": "1s"}  # a cluster that is closed asks the scheduler, which is gone
    with dask.config.set(soon), LocalCluster(**how) as cluster, Client(cluster, set_as_default=False) as client:
        given = client.scatter(LARGE)
        for address in client.nthreads():
            cluster.sync(cluster.scheduler.remove_worker, address, stimulus_id="killed")
        with (
            refused(RunError, "clusters", at="blocks", naming=["intermediate results"]) as found,
            cluster_errors("blocks"),
        ):
            client.submit(total, given, 1.0).result()
        assert "scheduler" not in str(found.value)
        waiting = client.submit(total, 1.0, 2.0)
        cluster.sync(cluster.scheduler.close)
        with refused(RunError, "clusters", at="blocks", naming=["lost"]), cluster_errors("blocks"):
            waiting.result()


@pytest.fixture
def standing_still(monkeypatch):
    """A cluster whose scheduler answers no questions until the event is set."""
    monkeypatch.setattr(presence, "LATE_S", 0.1)
    how = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**how) as cluster, Client(cluster, set_as_default=False) as client:
        answers, again = cluster.scheduler.handlers["ncores"], threading.Event()

        async def stand_still(*_, **given):
            while not again.is_set():
                await asyncio.sleep(0.01)
            return answers(**given)

        monkeypatch.setitem(cluster.scheduler.handlers, "ncores", stand_still)
        try:
            yield client, again
        finally:
            again.set()


def test_a_scheduler_that_stands_still_is_told_and_work_goes_on_when_it_does(standing_still):
    client, again = standing_still
    told = []

    def tell(line):
        told.append(line)
        again.set()

    presence_of(client, tell=tell, lost_timeout_s=None)
    assert WAYS["map"](OnDask(client)) == [(0, 2.0), (1, 4.0)]
    assert told == ["the scheduler does not answer; waiting", "the scheduler answers again: continuing"]


def test_a_scheduler_that_stands_still_too_long_is_an_error_that_says_how_to_go_on(standing_still):
    client, _ = standing_still
    told = []
    presence_of(client, tell=told.append, lost_timeout_s=0.3)
    with refused(RunError, "clusters", at="cluster", naming=["0.3", "resume the run"]):
        WAYS["map"](OnDask(client))
    assert told == ["the scheduler does not answer; waiting at most 0.3 s"]


def slow_and_doubled(item: float, running: str) -> float:
    """Say once which process is at work, and stay in it until it is stopped."""
    with suppress(FileExistsError), open(running, "x") as mine:  # noqa: PTH123
        mine.write(str(os.getpid()))
        mine.flush()
        time.sleep(3600.0)
    return 2.0 * item


@pytest.mark.slow
def test_a_worker_that_stands_still_is_replaced_and_its_work_done_again(tmp_path):
    pid = tmp_path / "pid"
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": "2s", "distributed.comm.timeouts.connect": "2s"}),
        open_cluster("local", n_workers=2, dashboard_address=None) as workers,
    ):

        def stop() -> None:
            while not (pid.exists() and pid.read_text()):
                time.sleep(0.01)
            os.kill(int(pid.read_text()), signal.SIGSTOP)

        stopper = threading.Thread(target=stop)
        stopper.start()
        found = sorted(workers.map_blocks(partial(slow_and_doubled, running=str(pid)), range(20), name="stop"))
        stopper.join()
        assert found == [(k, 2.0 * k) for k in range(20)]
