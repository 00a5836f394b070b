"""Where the work runs: the same results here, in threads and in processes; lost workers; one thread each."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
import psutil
import pytest

from daskfs import AsyncOnlineSubstitution, Message, ingest
from daskfs.cluster.dask_workers import OnDask, Rounds
from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.cluster.open import check_scheduler, open_cluster, parse_bytes, workers_of
from daskfs.cluster.workers import Here, Round, Workers
from daskfs.errors import ConfigError, DataError, RunError
from tests.faults.losses import patient
from tests.integration.workshop import ENVIRONMENT
from tests.refusals import refused

KINDS = ["none", "threads", "local"]


@pytest.fixture(scope="module", params=KINDS)
def workers(request):
    with open_cluster(request.param, n_workers=2, dashboard_address=None) as opened:
        yield opened


def add_to(shared: np.ndarray, item: int) -> np.ndarray:
    return shared + item


def third_of(item: int) -> float:
    return 1.0 / (3.0 + item)


def add(a: float, b: float) -> float:
    return a + b


def fail_on_three(item: int) -> int:
    if item == 3:
        raise DataError("expected a number, found NaN", "column 'age'", "drop the row")
    return item


def environment(_: int) -> dict[str, str]:
    return dict(os.environ)


class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, k: int) -> int:
        self.count += k
        return self.count


def test_map_blocks_returns_every_result_with_its_number(workers):
    shared = np.arange(100_000.0)  # large enough to be scattered
    results = dict(workers.map_blocks(add_to, list(range(20)), name="add", shared=(shared,)))
    assert sorted(results) == list(range(20))
    assert all(np.array_equal(result, shared + k) for k, result in results.items())


def its_task(_: int) -> str:
    return str(distributed.get_worker().get_current_task())


def long_text(_: int) -> tuple[str, str]:
    return its_task(0), "x" * 2**22


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "seconds", "are_together"),
    [(its_task, 1e9, True), (its_task, 0.0, False), (long_text, 1e9, False)],
    ids=["small blocks", "long ones", "much comes back"],
)
def test_small_blocks_are_taken_several_to_a_task(monkeypatch, function, seconds, are_together):
    monkeypatch.setattr("daskfs.cluster.dask_workers._TOGETHER_S", seconds)
    with open_cluster("threads", n_workers=2, dashboard_address=None) as workers:
        found = dict(workers.map_blocks(function, range(100), name="task"))
    assert sorted(found) == list(range(100))
    assert (len(set(found.values())) < 50) == are_together


def rows_taken(rows: np.ndarray) -> tuple[int, int]:
    return its_task(0), len(rows)


def test_tasks_that_are_sent_much_are_sent_in_several_messages_without_a_warning(monkeypatch):
    monkeypatch.setattr("daskfs.cluster.dask_workers._TOGETHER_S", 1e9)
    sent: list[int] = []
    with open_cluster("threads", n_workers=2, dashboard_address=None) as workers:
        submit = workers.client.map
        monkeypatch.setattr(workers.client, "map", lambda *a, **k: sent.append(len(k["key"])) or submit(*a, **k))
        for n_rows, n_items in ((2**18, 12), (2**21, 2)):  # of 2 and of 16 MiB, more than Dask sends without a word
            found = dict(workers.map_blocks(rows_taken, [np.arange(n_rows) for _ in range(n_items)], name="task"))
            assert [n for _, n in found.values()] == [n_rows] * n_items
            assert len({task for task, _ in found.values()}) == n_items
    assert max(sent) <= 2


def test_rounds_of_few_small_blocks_begin_with_tasks_as_large_as_the_last_round_ended(monkeypatch):
    monkeypatch.setattr("daskfs.cluster.dask_workers._TOGETHER_S", 1e9)
    with open_cluster("threads", n_workers=2, dashboard_address=None) as workers:
        for _ in range(2):
            found = dict(workers.map_blocks(its_task, range(8), name="task"))
    assert len(set(found.values())) <= 4


def where(large: np.ndarray, item: int) -> tuple[int, float]:
    return os.getpid(), float(large[item])


@pytest.mark.nightly
def test_rounds_are_done_where_they_take_less_time(processes, monkeypatch):
    large, expected = np.arange(100_000.0), [0.0, 1.0, 2.0]
    shared = (processes.keep(large),)

    def places(name: str, here_s: float, there_s: float) -> list[bool]:
        found, took = [], Rounds.took
        with monkeypatch.context() as patched:

            def told(rounds: Rounds, _: float) -> None:
                took(rounds, here_s if rounds._last else there_s)

            patched.setattr(Rounds, "took", told)
            for _ in range(8):
                pids, values = zip(*processes.map_round(where, range(3), name=name, shared=shared), strict=True)
                assert [*values] == expected
                found.append(set(pids) == {os.getpid()})
                assert found[-1] or os.getpid() not in pids
        return found

    assert places("quick", here_s=0.01, there_s=0.02) == [False] * 2 + [True] * 6
    assert places("even", here_s=0.03, there_s=0.02) == [False] * 2 + [True] * 2 + [False] * 4
    assert places("long", here_s=0.01, there_s=0.5) == [False] * 8
    processes.let_go(shared[0])


def test_the_slower_place_is_tried_again_now_and_then():
    rounds, n_there = Rounds(), 0
    for _ in range(200):
        n_there += not rounds.is_here()
        rounds.took(0.01 if rounds._last else 0.02)
    assert 4 < n_there < 12


def test_map_blocks_of_nothing_is_nothing(workers):
    assert list(workers.map_blocks(third_of, [], name="third")) == []


def number_of(block):
    return f"{block[0]:g}"


def in_brackets(one, other):
    return f"({one} {other})"


@pytest.mark.parametrize("n_items", [1, 2, 3, 5, 6, 7, 13])
def test_the_tree_of_a_reduction_depends_on_the_number_of_blocks_only(workers, n_items):
    level = [third_of(k) for k in range(n_items)]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [sum(pair[1:], start=pair[0]) for pair in pairs]
    assert workers.reduce_blocks(third_of, range(n_items), add, name="sum") == level[0]


@pytest.mark.parametrize("n_items", [1, 7, 8, 9, 33, 70])
def test_large_blocks_of_a_reduction_are_sent_some_at_a_time(workers, monkeypatch, n_items):
    if workers.client is None:
        pytest.skip("nothing is sent")
    monkeypatch.setattr("daskfs.cluster.dask_workers._MESSAGE_NBYTES", 8 * 1000)
    sent, most_ahead, there = 0, 0, 0
    submitted, gathered = OnDask._submitter, OnDask._gathered

    def submitter(self, function, name, shared):
        submit = submitted(self, function, name, shared)

        def counted(tasks):
            nonlocal sent, most_ahead
            sent += len(tasks) if name == "long" else 0
            most_ahead = max(most_ahead, sent - there)
            return submit(tasks)

        return counted

    def counted_again(self, futures):
        nonlocal there
        found = gathered(self, futures)
        there = min(there + 4, sent)
        return found

    monkeypatch.setattr(OnDask, "_submitter", submitter)
    monkeypatch.setattr(OnDask, "_gathered", counted_again)
    items = [np.full(120, float(k)) for k in range(n_items)]
    found = workers.reduce_blocks(number_of, items, in_brackets, name="long")
    assert found == Here().reduce_blocks(number_of, items, in_brackets, name="long")
    assert sent == n_items
    assert most_ahead <= 2 * 4


def test_a_reduction_needs_a_block(workers):
    with pytest.raises(ValueError, match="at least one block"):
        workers.reduce_blocks(third_of, [], add, name="sum")


def walked(size: int, state: float, item: int) -> float:
    return state / 3.0 + size + item


def halved(total: float) -> float:
    return total if total < 100.0 else total / 2.0


LEGS = [[[1], [2, 3], [4, 5, 6]], [[7, 8, 9, 10, 11]], [[12, 13], [14], [15, 16], [17, 18, 19]]]


def states_of(legs: list[list[list[int]]], state: float) -> list[float]:
    """What a chain is: each round the sum, neighbours first, of what its tasks make of the state before."""
    found = []
    for leg in legs:
        for items in leg:
            level = [walked(100, state, item) for item in items]
            while len(level) > 1:
                level = [sum(level[i + 1 : i + 2], start=level[i]) for i in range(0, len(level), 2)]
            state = halved(level[0])
        found.append(state)
    return found


def test_a_chain_leaves_the_same_states_wherever_it_runs(workers):
    found = list(workers.chain_blocks(Round(walked, add, halved), LEGS, 0.1, name="walk", shared=(100,)))
    assert found == states_of(LEGS, 0.1)


def test_a_chain_of_a_large_state_sends_it_from_task_to_task(workers):
    state = np.arange(100_000.0)
    (found,) = workers.chain_blocks(Round(add_to_all, add, np.sqrt), [LEGS[0]], state, name="walk", shared=(1.0,))
    for items in LEGS[0]:
        state = np.sqrt(sum((state + 1.0 + item for item in items[1:]), start=state + 1.0 + items[0]))
    np.testing.assert_array_equal(found, state)


def add_to_all(shift: float, state: np.ndarray, item: int) -> np.ndarray:
    return state + shift + item


def test_a_chain_that_is_left_early_leaves_nothing_behind(workers):
    chain = workers.chain_blocks(Round(walked, add, halved), LEGS, 0.1, name="walk", shared=(100,))
    assert next(chain) == states_of(LEGS, 0.1)[0]
    chain.close()
    assert list(workers.chain_blocks(Round(walked, add, halved), LEGS[:1], 0.5, name="walk", shared=(100,))) == (
        states_of(LEGS[:1], 0.5)
    )
    if workers.client is not None:
        assert until(lambda: not tasks_on(workers.client, "walk"))


def slow(state: float, item: int) -> float:
    time.sleep(0.2)
    return state + item


def test_a_chain_is_interrupted_while_it_is_waited_for(processes):
    legs = [[[k, k] for k in range(50)]] * 3
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        list(processes.chain_blocks(Round(slow, add, halved), legs, 0.0, name="slow", shared=()))
    timer.join()
    assert until(lambda: not tasks_on(processes.client, "slow"))


def tasks_on(client: distributed.Client, name: str) -> list[str]:
    found = client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks])
    return [key for key in found if name in key]


def until(is_so: Callable[[], bool], timeout_s: float = 60.0) -> bool:
    end = time.monotonic() + timeout_s
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)
    return is_so()


def test_an_error_in_a_chain_arrives_whole_and_leaves_nothing_behind(workers):
    legs = [[[1, 2], [2, 3]], [[4, 5]]]
    with refused(DataError, "values", at="column 'age'", naming=["number"]):
        list(workers.chain_blocks(Round(fail_on_three_of, add, halved), legs, 0.0, name="fail", shared=()))
    if workers.client is not None:
        assert until(lambda: not tasks_on(workers.client, "fail"))


def fail_on_three_of(state: float, item: int) -> float:
    return state + fail_on_three(item)


def test_an_error_of_a_task_arrives_whole(workers):
    with pytest.raises(DataError) as caught:
        list(workers.map_blocks(fail_on_three, range(6), name="fail"))
    assert str(caught.value) == "column 'age': expected a number, found NaN; drop the row"


def test_a_reader_that_stops_early_leaves_nothing_running(workers):
    results = workers.map_blocks(third_of, list(range(50)), name="third")
    next(results)
    results.close()
    assert dict(workers.map_blocks(third_of, [7], name="third")) == {0: third_of(7)}


def test_a_central_node_keeps_its_state(workers):
    node = workers.actors.place(Counter, 5)
    assert node.add(2).result() == 7
    assert node.add(3).result() == 10


def test_peak_memory_names_every_process(workers):
    peaks = workers.peak_memory()
    assert peaks["client"] == pytest.approx(peak_memory_nbytes(), rel=0.2)
    n_processes = 3 if workers.client is not None and len(workers.client.nthreads()) == 2 else 1
    assert len(peaks) == n_processes
    assert all(nbytes > 10 * 2**20 for nbytes in peaks.values())


@pytest.mark.slow
@pytest.mark.parametrize("left_behind", [None, "65536"], ids=["alone", "behind another cluster"])
def test_workers_have_one_thread_for_blas_and_numba_and_keep_their_pages(monkeypatch, left_behind):
    if left_behind is not None:
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", left_behind)
    before = dict(os.environ)
    with open_cluster("local", n_workers=1, memory_limit=512 * 2**20, dashboard_address=None) as workers:
        assert dict(os.environ) == before
        ((_, found),) = workers.map_blocks(environment, [0], name="environment")
        at_start = dict(
            entry.split("=", 1)
            for entry in workers.client.submit(_environment_at_start).result().split("\0")
            if "=" in entry
        )
    assert dict(os.environ) == before
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        assert found[name] == "1"
    assert at_start["MALLOC_TRIM_THRESHOLD_"] == str(32 * 2**20)  # glibc reads it before Python starts


def _environment_at_start() -> str:
    return Path("/proc/self/environ").read_text()


def kill_once(marker: str, item: int) -> int:
    path = Path(marker)
    if item == 2 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.nightly
def test_a_lost_worker_costs_nothing_but_time(tmp_path):
    with open_cluster("local", n_workers=2, dashboard_address=None) as workers:
        results = dict(workers.map_blocks(kill_once, range(8), name="kill", shared=(str(tmp_path / "killed"),)))
    assert results == {k: k * k for k in range(8)}
    assert (tmp_path / "killed").exists()


def walked_but_killed_once(marker: str, state: float, item: int) -> float:
    path = Path(marker)
    if item == 13 and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return walked(100, state, item)


@pytest.mark.nightly
def test_a_worker_that_is_lost_in_the_middle_of_a_chain_costs_nothing_but_time(tmp_path):
    rounds, marker = Round(walked_but_killed_once, add, halved), tmp_path / "killed"
    with open_cluster("local", n_workers=2, dashboard_address=None) as workers:
        found = list(workers.chain_blocks(rounds, LEGS, 0.1, name="kill", shared=(str(marker),)))
    assert found == states_of(LEGS, 0.1)
    assert marker.exists()


def killed_at_first(marker: str) -> None:
    path = Path(marker)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def added_but_killed_once(large: np.ndarray, marker: str, item: int) -> float:
    if item == 3:
        killed_at_first(marker)
    return float(large[item]) / 3.0


def grown_but_killed_once(large: np.ndarray, marker: str, state: np.ndarray, item: int) -> np.ndarray:
    if item == 13:
        killed_at_first(marker)
    return state / 3.0 + large[item]


def the_same(state: np.ndarray) -> np.ndarray:
    return state


def results_of(workers: Workers, shared: Any, markers: list[Path]) -> dict[str, Any]:
    """What comes of each way in which large arguments reach tasks."""
    rounds, (one, two, three) = Round(grown_but_killed_once, np.add, the_same), map(str, markers)
    states = workers.chain_blocks(rounds, LEGS, np.ones(100_000), name="chain", shared=(shared, three))
    return {
        "map": dict(workers.map_blocks(added_but_killed_once, range(9), name="map", shared=(shared, one))),
        "sum": workers.reduce_blocks(added_but_killed_once, range(9), add, name="sum", shared=(shared, two)),
        "chain": [state.tobytes() for state in states],
    }


@pytest.mark.nightly
@pytest.mark.parametrize("message_nbytes", [4 << 20, 1])
def test_what_was_sent_to_workers_is_sent_again_where_all_that_had_it_die(tmp_path, monkeypatch, message_nbytes):
    monkeypatch.setattr("daskfs.cluster.dask_workers._MESSAGE_NBYTES", message_nbytes)
    large, markers = np.arange(100_000.0), [tmp_path / name for name in ("map", "sum", "chain", "lasting")]
    for marker in markers:
        marker.touch()  # nobody dies
    expected = results_of(workers_of(None), large, markers[:3])
    for marker in markers:
        marker.unlink()
    with open_cluster("local", n_workers=1, dashboard_address=None) as workers:
        kept = workers.keep(large)
        assert results_of(workers, kept, markers[:3]) == expected
        shared, lasted = (kept, str(markers[3])), {}
        tasks = workers.actors.keep_running(added_but_killed_once, range(9), name="last", shared=shared)
        while tasks.n_running:
            lasted |= dict(tasks.finished(1.0))
        assert lasted == expected["map"]
    assert all(marker.exists() for marker in markers)


def there_in_the_end(path: str) -> bool:
    while not Path(path).exists():
        time.sleep(0.02)
    return True


@pytest.mark.slow
def test_tasks_whose_workers_all_leave_at_once_go_on_with_those_that_come(tmp_path):
    with open_cluster("local", n_workers=2, dashboard_address=None) as workers:
        items, results = [str(tmp_path / "over")] * 2, list[tuple[int, bool]]()
        tasks = workers.actors.keep_running(there_in_the_end, items, name="lasting")
        while sum(map(len, workers.client.processing().values())) < 2:
            time.sleep(0.02)
        for pid in workers.client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)
        (tmp_path / "over").touch()
        with patient():
            while tasks.n_running:
                results += tasks.finished(0.2)
    assert sorted(results) == [(0, True), (1, True)]


def cycle_of_profile(dask_worker):
    return dask_worker.periodic_callbacks["profile-cycle"].callback_time


def test_workers_note_seldom_where_their_time_goes():
    profiled = {"distributed.worker.profile.enabled": True}
    with dask.config.set(profiled), open_cluster("threads", n_workers=2, dashboard_address=None) as workers:
        assert set(workers.client.run(cycle_of_profile).values()) == {60_000.0}
    with (
        dask.config.set(profiled | {"distributed.worker.profile.cycle": "1000ms"}),
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        before = client.run(cycle_of_profile)
        with open_cluster("address", address=cluster.scheduler_address) as workers:
            assert set(workers.client.run(cycle_of_profile).values()) == {60_000.0}
            cluster.scale(2)
            client.wait_for_workers(2)
            with open_cluster("address", address=cluster.scheduler_address):
                pass
            assert list(workers.client.run(cycle_of_profile).values()) == [60_000.0] * 2
        after = client.run(cycle_of_profile)
    assert len(after) == 2
    assert set(after.values()) == set(before.values()) == {1000.0}


@pytest.mark.slow
def test_workers_without_daskfs_are_named():
    lacking = "import sys; sys.modules['daskfs'] = None"
    with (
        distributed.LocalCluster(n_workers=1, preload=[lacking], dashboard_address=None) as cluster,
        refused(RunError, "clusters", naming=["install daskfs"]),
        open_cluster("address", address=cluster.scheduler_address),
    ):
        pass


UNGUARDED = """
from daskfs.cluster.open import open_cluster
with open_cluster("local", n_workers=1, dashboard_address=None):
    pass
"""


@pytest.mark.slow
def test_a_script_whose_workers_would_start_workers_is_told_of_the_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 1
    assert done.stderr.count("below  if __name__ == '__main__':") == 2  # by the worker, and by the client
    assert f"RunError: {script}" in done.stderr
    guarded = UNGUARDED.replace("\nwith", "\nif __name__ == '__main__':\n  with").replace("    pass", "      pass")
    script.write_text(guarded)
    subprocess.run([sys.executable, script], check=True, env=ENVIRONMENT)


def killed_with_all(large: np.ndarray, item: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.nightly
def test_a_task_that_kills_every_worker_with_what_was_sent_is_named():
    with (
        open_cluster("local", n_workers=1, dashboard_address=None) as workers,
        pytest.raises(RunError, match=r"die: the workers died .*resume the run"),
    ):
        list(workers.map_blocks(killed_with_all, [0], name="die", shared=(np.arange(100_000.0),)))


@pytest.mark.slow
def test_a_worker_that_takes_long_to_come_back_comes_back():
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}), open_cluster("local") as workers:
        before = set(workers.client.nthreads())
        os.kill(workers.client.cluster.workers[0].process.pid, signal.SIGKILL)
        while set(workers.client.nthreads()) <= before:
            assert workers.client.cluster.workers, "its nanny was sent away"
            time.sleep(0.01)


@pytest.mark.nightly
def test_a_task_that_kills_every_worker_is_named():
    with (
        open_cluster("local", n_workers=1, dashboard_address=None) as workers,
        pytest.raises(RunError, match=r"die-0000.*resume the run"),
    ):
        list(workers.map_blocks(die, [0], name="die"))


def test_an_address_without_a_scheduler_is_an_error_with_a_remedy():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "100ms"}),
        refused(RunError, "clusters", at="127.0.0.1:9", naming=["answers"]),
        open_cluster("address", address="tcp://127.0.0.1:9"),
    ):
        pass


def test_a_scheduler_has_as_long_to_answer_as_dask_is_told(monkeypatch):
    """On a busy machine five seconds, as it once was, are not enough."""
    found = []

    async def nobody(*_: object, timeout: object, **options: object) -> None:
        found.append(timeout or dask.config.get("distributed.comm.timeouts.connect"))
        raise OSError("nobody there")

    monkeypatch.setattr(distributed, "connect", nobody)
    with dask.config.set({"distributed.comm.timeouts.connect": "77s"}), pytest.raises(RunError):
        open_cluster("address", address="tcp://127.0.0.1:9").__enter__()
    with pytest.raises(RunError):
        open_cluster("address", address="tcp://127.0.0.1:9", connect_timeout_s=88.0).__enter__()
    assert found == ["77s", 88.0]


def test_a_running_scheduler_is_used_through_its_address():
    with (
        open_cluster("threads", n_workers=2, dashboard_address="127.0.0.1:0") as local,
        distributed.LocalCluster(n_workers=1, dashboard_address="127.0.0.1:0", processes=False, protocol="tcp") as own,
    ):
        assert workers_of(local.client).n_threads == 2
        with open_cluster("address", address=own.scheduler_address) as remote:
            assert isinstance(remote, OnDask)
            assert dict(remote.map_blocks(third_of, [1], name="third")) == {0: 0.25}


def listening() -> list[tuple[str, int]]:
    """Return host and port of whatever this process and its children listen on."""
    us = psutil.Process()
    connections = [found for process in (us, *us.children(recursive=True)) for found in process.net_connections("inet")]
    return [tuple(found.laddr) for found in connections if found.status == psutil.CONN_LISTEN]


@pytest.mark.slow_cases("local")
@pytest.mark.parametrize("kind", ["threads", "local"])
@pytest.mark.parametrize("dashboard_address", [None, "127.0.0.1:0"])
def test_scheduler_workers_and_dashboard_answer_their_owner_only(kind, dashboard_address):
    """Whoever reaches a scheduler runs code as its owner, and every user of a machine reaches its loopback."""
    others = listening()  # of the clusters of other tests
    with open_cluster(kind, n_workers=1, dashboard_address=dashboard_address) as workers:
        ours = [found for found in listening() if found not in others]
        assert ours
        assert {host for host, _ in ours} == {"127.0.0.1"}
        pages = [found for found in ours if _speaks_http(*found)]
        assert len(ours) - len(pages) == (3 if kind == "local" else 0)  # scheduler, nanny, worker
        for host, port in set(ours) - set(pages):
            _assert_asks_for_a_certificate(host, port)
        for host, port in pages:
            for page in ("", "status", "info/main/workers.html", "metrics", "health", "json/counts.json"):
                assert _answer(f"http://{host}:{port}/{page}")[0] == 404
            status, body = _answer(f"http://{host}:{port}/sitemap.json")
            assert status == 404 or json.loads(body) == {"paths": ["/sitemap.json"]}  # a worker's, who has no pages
        if dashboard_address is not None:
            status, body = _answer(workers.client.dashboard_link)
            assert (status, b"Dask" in body) == (200, True)


def _answer(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url) as found:
            return found.status, found.read()
    except urllib.error.HTTPError as fault:
        with fault:
            return fault.code, b""


def _speaks_http(host: str, port: int) -> bool:
    with socket.create_connection((host, port)) as plain:
        plain.sendall(b"GET /nothing HTTP/1.0\r\n\r\n")
        try:
            return plain.recv(5) == b"HTTP/"
        except ConnectionResetError:
            return False


def _assert_asks_for_a_certificate(host: str, port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        context.wrap_socket(socket.create_connection((host, port))) as found,
        pytest.raises(ssl.SSLError, match="certificate required"),
    ):
        found.recv(1)


@pytest.mark.parametrize("client", ["tcp://host:8786", 3])
def test_what_is_no_client_is_refused_in_words(client, tmp_path):
    X = np.random.default_rng(0).standard_normal((20, 3))
    for use in (
        lambda: Message(n_subsets=1, client=client).fit(X, X[:, 0]),
        lambda: ingest(X, tmp_path / "s.zarr", y=X[:, 0], client=client),
    ):
        with refused(ConfigError, "clusters", at="client", naming=["distributed.Client"]):
            use()


def test_certificates_that_lack_or_are_none_are_named(tmp_path):
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca_file", "cert", "key")}
    with refused(ConfigError, "clusters", at="cluster.tls", naming=["tls://127.0.0.1:9", "ca_file"]):
        check_scheduler("tls://127.0.0.1:9")
    with refused(ConfigError, "clusters", at="cluster.tls.ca_file"):
        check_scheduler("tls://127.0.0.1:9", tls=files)
    for path in files.values():
        Path(path).write_text("nothing")
    with refused(ConfigError, "clusters", at="cluster.tls.ca_file", naming=["PEM"]):
        check_scheduler("tls://127.0.0.1:9", tls=files)


@pytest.mark.slow
def test_a_client_with_other_credentials_is_refused():
    with open_cluster("local", n_workers=1, dashboard_address=None) as workers:
        address = workers.client.scheduler.address
        for protocol, security in (("tls", distributed.Security.temporary()), ("tcp", None)):
            with pytest.raises(OSError):  # reset, timed out, or told so
                distributed.Client(
                    f"{protocol}://{address.partition('//')[2]}", security=security, timeout="2s", set_as_default=False
                )
        assert dict(workers.map_blocks(third_of, [1], name="third")) == {0: 0.25}


def test_what_is_lazy_is_computed_after_actors_of_another_cluster_have_ended():
    """Their workers' client stayed the default, and waited half a minute for its scheduler."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 20))
    with open_cluster("threads", n_workers=1, dashboard_address=None):
        with open_cluster("threads", n_workers=2, dashboard_address=None) as workers:
            AsyncOnlineSubstitution(2, client=workers.client).fit(X, X[:, 3] - X[:, 7])
        assert da.ones(3, chunks=2).sum().compute() == 3.0


@pytest.mark.slow
def test_nobody_else_writes_where_workers_import_from(tmp_path):
    shared = tmp_path / f"daskfs-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)  # somebody was here first
    before = set(sys.path)
    with open_cluster("local", n_workers=1, dashboard_address=None, local_directory=str(tmp_path)) as workers:
        ((_, found),) = workers.map_blocks(_import_path, [0], name="path")
        added = {path for path in {*found, *sys.path} - before if "dask-scratch-space" in path}
    assert added
    for path in map(Path, added):
        home = path.parents[[parent.name for parent in path.parents].index(tmp_path.name) - 1]
        assert home != shared
        assert not home.stat().st_mode & 0o022


def _import_path(_: int) -> list[str]:
    return sys.path


def test_a_slow_disk_is_no_error_where_warnings_are(monkeypatch):
    @contextmanager
    def warn(duration: str, message: str) -> Iterator[None]:
        warnings.warn(message.format(duration=1.2), UserWarning, stacklevel=2)
        yield

    monkeypatch.setattr(distributed.core, "warn_on_duration", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open_cluster("threads", n_workers=1, dashboard_address=None) as workers:
            assert dict(workers.map_blocks(third_of, [1], name="third")) == {0: 0.25}


@pytest.mark.parametrize(("kind", "match"), [("slurmm", "expected one of none"), ("address", "address, found none")])
def test_a_wrong_kind_is_refused(kind, match):
    with pytest.raises(ConfigError, match=match), open_cluster(kind):
        pass


@pytest.mark.parametrize("text", ["four", "", "-3", 0, None])
def test_a_wrong_size_is_refused(text):
    with refused(ConfigError, "clusters", at="memory_limit", naming=["size"]):
        parse_bytes(text)


SCRIPT = """
import daskfs
from daskfs.errors import RunError
try:
    with daskfs.open_cluster("local", 1):
        print("started")
except RunError as fault:
    print(fault)
with daskfs.open_cluster("threads", 1) as workers:
    print(workers.n_threads)
"""


@pytest.mark.slow
def test_a_script_from_standard_input_starts_no_processes_and_is_told_what_does(tmp_path):
    command, how = (
        [sys.executable, "-W", "ignore"],
        {"capture_output": True, "text": True, "check": True, "cwd": tmp_path},
    )
    ended = subprocess.run([*command, "-"], input=SCRIPT, **how)
    told, n_threads = ended.stdout.splitlines()[0], ended.stdout.split()[-1]
    assert "<stdin>" in told
    assert "save the script to a file and run that, or use threads" in told
    assert n_threads == "1"
    assert "Traceback" not in ended.stderr
    script = tmp_path / "script.py"
    script.write_text(f"if __name__ == '__main__':\n{textwrap.indent(SCRIPT, '    ')}")
    assert subprocess.run([*command, str(script)], **how).stdout.split() == ["started", "1"]
