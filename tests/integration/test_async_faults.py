"""Asy-OS on processes: killed workers, a killed central node, errors, interruptions; nobody is left at work."""

from __future__ import annotations

import gc
import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest

from daskfs.cluster.actors import ASK_S, ActorAddress, ActorLost, ActorsOnDask, LastingTasks
from daskfs.cluster.open import open_cluster
from daskfs.cluster.workers import Here
from daskfs.errors import DataError, RunError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.asy_os.run import STEP as SELECT
from daskfs.selectors.asy_os.selector import AsyncOnlineSubstitution
from daskfs.selectors.online_substitution.columns import ColumnSettings, read_columns
from daskfs.sources.ingest import ingest
from daskfs.store.feature_store import FeatureStore, open_store
from tests.refusals import refused

STEP = f"async_online_substitution-{SELECT}"
N_SAMPLES, N_FEATURES, N_SELECTED = 500, 1600, 12


@pytest.fixture(scope="module")
def workers():
    with open_cluster("local", n_workers=3, dashboard_address=None) as opened:
        yield opened


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_SAMPLES, N_FEATURES))
    support = rng.choice(N_FEATURES, N_SELECTED, replace=False)
    y = X[:, support] @ rng.choice([-1.0, 1.0], N_SELECTED) * 2.0 + 0.5 * rng.standard_normal(N_SAMPLES)
    path = tmp_path_factory.mktemp("async") / "s.zarr"
    stored = ingest(X, path, y=y, dtype="float64", tile_shape=(N_SAMPLES, 16), shuffle=False)
    return stored, np.sort(support)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Three classes that the same kind of columns tell from each other."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N_SAMPLES, N_FEATURES))
    support = rng.choice(N_FEATURES, N_SELECTED, replace=False)
    coef = rng.permuted(np.tile([[-2.0], [0.0], [2.0]], N_SELECTED), axis=0)
    labels = (X[:, support] @ coef.T + rng.gumbel(size=(N_SAMPLES, 3))).argmax(axis=1).astype(float)
    path = tmp_path_factory.mktemp("async") / "classes.zarr"
    stored = ingest(X, path, y=labels, dtype="float64", tile_shape=(N_SAMPLES, 16), shuffle=False)
    return stored, np.sort(support)


@pytest.fixture(params=["numbers", "three classes"])
def problem(request):
    return request.getfixturevalue("store" if request.param == "numbers" else "classes")


class Observed(AsyncOnlineSubstitution):
    """Keeps its run."""

    def _notes(self, workers, *rest):
        self.run = workers
        return super()._notes(workers, *rest)


class AtWork:
    """A progress bar that does something once a share of the columns is done."""

    def __init__(self, deed=None, share=0.3):
        self.deed, self.share, self.name = deed, share, ""
        self.total = self.done = 0

    def start(self, name, total):
        self.name, self.total, self.done = name, total, 0

    def advance(self, k=1):
        self.done += k
        if self.name == STEP and self.deed is not None and self.done >= self.share * self.total:
            deed, self.deed = self.deed, None
            deed()

    def finish(self):
        pass


class Gated(FeatureStore):
    """A store whose last column no other process reads while the gate, a file, is there: no run ends before it goes."""

    @classmethod
    def open(cls, path, gate, here):
        store = open_store(path)
        store.__class__, store.gate, store.here = cls, gate, here
        return store

    def __reduce__(self):
        return Gated.open, (self.path, self.gate, self.here)

    def read(self, rows, columns=slice(None), out=None):
        if os.getpid() != self.here and self.shape[1] - 1 in np.arange(self.shape[1])[columns]:
            until(lambda: not self.gate.exists())
        return super().read(rows, columns, out)


def until(condition):
    while not condition():
        time.sleep(0.05)


class LostWhenDone:
    """A central node that is lost once it has told all that it found."""

    is_lost = is_done = False

    def __init__(self, address):
        self.address = address

    def __reduce__(self):
        return self.address.__reduce__()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*arguments):
            if self.is_lost:
                raise ActorLost(name)
            answer = getattr(self.address, name)(*arguments).result()
            if name == "progress":
                LostWhenDone.is_done = bool(answer["is_finished"])
            if name == "final_state" and self.is_done:
                LostWhenDone.is_lost = True
            return SimpleNamespace(result=lambda timeout=None: answer)

        return call


@pytest.mark.slow
def test_a_central_node_that_is_lost_when_all_is_done_costs_nothing(workers, store, monkeypatch):
    stored, support = store
    address, finished = ActorsOnDask.address, LastingTasks.finished
    monkeypatch.setattr(ActorsOnDask, "address", lambda self, actor: LostWhenDone(address(self, actor)))
    monkeypatch.setattr(ActorsOnDask, "holds", lambda self, actor: not LostWhenDone.is_lost)
    # as if the workers' tasks were still under way
    monkeypatch.setattr(LastingTasks, "finished", lambda *how: finished(*how) if LostWhenDone.is_lost else [])
    selector = Observed(N_SELECTED, n_workers=2, block_columns=16).fit_matrix(stored, workers=workers)
    assert LostWhenDone.is_lost
    assert selector.run.n_nodes_lost == 0
    np.testing.assert_array_equal(np.sort(selector.selected_), support)


def homes(workers):
    """Return the address of the central node's worker, and those of the others."""
    *others, home = workers.actors.addresses()
    return home, set(others)


def kill(workers, victim):
    home, others = homes(workers)
    pids = workers.client.run(os.getpid)
    busy = [address for address, keys in workers.client.processing().items() if address in others and keys]
    os.kill(pids[home] if victim == "node" else pids[busy[0]], signal.SIGKILL)


def loss_of(store):
    """The classes are numbered, which would be taken for classes with a warning."""
    return {"loss": "logistic"} if len(np.unique(store.read_target(slice(None)))) == 3 else {}


def fit(store, workers, progress=None, **options):
    until(lambda: len(workers.client.nthreads()) == 3)  # a killed process is started again
    told = {"n_workers": 2, "block_columns": 16, "timeout_s": 5.0, **loss_of(store), **options}
    return Observed(N_SELECTED, **told).fit_matrix(store, workers=workers, progress=progress)


def check(selector, store, support):
    """The truth was found, and u_C is what the workers hold."""
    assert len(np.intersect1d(selector.selected_, support)) >= N_SELECTED - 1
    total = np.zeros_like(selector.run.prediction) + selector.run.intercept
    for share in selector.run.shares:
        block = read_columns(store, share.columns, ColumnSettings(True, True, False))
        total += share.coef.T @ block.rows
    np.testing.assert_allclose(selector.run.prediction, total, rtol=0, atol=1e-10 * np.abs(total).max())


@pytest.mark.slow_cases("three classes")
def test_workers_beside_a_central_node_find_the_features(problem, workers):
    stored, support = problem
    selector = fit(stored, workers)
    check(selector, stored, support)
    history = selector.result_.history
    assert set(history["worker"]) <= {0.0, 1.0}  # on a busy machine the second may come too late
    assert (np.diff(history["seconds"]) >= 0).all()
    assert history["staleness"][history["accepted"] > 0].max() <= 2 * 2
    assert selector.result_.communication["n_calls"] >= len(history)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["worker", "node"])
def test_a_killed_process_costs_nothing_but_time(problem, workers, victim, tmp_path):
    stored, support = problem
    gate = tmp_path / "gate"
    gate.touch()

    def deed():
        kill(workers, victim)
        gate.unlink()

    selector = fit(Gated.open(stored.path, gate, os.getpid()), workers, AtWork(deed))
    check(selector, stored, support)
    assert selector.run.n_nodes_lost == (victim == "node")


@pytest.mark.slow
def test_always_included_columns_are_selected_on_a_cluster(problem, workers):
    stored, support = problem
    others = np.setdiff1d(np.arange(N_FEATURES), support)[[5, 900]]
    selector = fit(stored, workers, always_include=[int(support[3]), *others.tolist()])
    assert set(selector.selected_[:3].tolist()) == {support[3], *others}
    assert len(np.intersect1d(selector.selected_, support)) >= N_SELECTED - 3


def test_an_error_of_the_data_ends_the_run_and_leaves_nobody_at_work(store, workers):
    stored, support = store
    X = stored.read(slice(None))
    matrix = ArrayMatrix(X, stored.read_target())
    matrix._X = X.copy()  # past the check of arrays, as a damaged store would be
    matrix._X[7, 1500] = np.nan
    with refused(DataError, "values", at="column 1500, row 7"):
        fit(matrix, workers)
    until(lambda: not any(workers.client.processing().values()))
    check(fit(stored, workers), stored, support)


@pytest.mark.slow
def test_a_run_that_was_interrupted_goes_on_from_its_checkpoint(problem, workers):
    stored, support = problem
    kept = {}

    class Kept:
        def save(self, name, arrays):
            kept[name] = arrays

        def load(self, name):
            return kept.get(name)

    def interrupt():
        raise KeyboardInterrupt

    told = {"n_workers": 2, "block_columns": 16, **loss_of(stored)}
    selector = AsyncOnlineSubstitution(N_SELECTED, **told)
    with pytest.raises(KeyboardInterrupt):
        selector.fit_matrix(stored, workers=workers, progress=AtWork(interrupt, 0.6), checkpoint=Kept())
    assert int(kept[STEP]["leases.is_done"].sum()) + int(kept[STEP]["leases.epoch"][0]) > 0
    bar = AtWork()
    selector = Observed(N_SELECTED, **told)
    check(selector.fit_matrix(stored, workers=workers, progress=bar, checkpoint=Kept()), stored, support)


@pytest.mark.nightly
def test_a_worker_that_retires_gives_its_columns_back(store):
    """As by walltime, or when an adaptive cluster shrinks: the process does not come back."""
    stored, support = store
    with open_cluster("local", n_workers=3, dashboard_address=None) as workers:

        def retire():
            _, others = homes(workers)
            busy = [address for address, keys in workers.client.processing().items() if address in others and keys]
            workers.client.retire_workers([busy[0]], close_workers=True)

        selector = fit(stored, workers, AtWork(retire))
        check(selector, stored, support)


@pytest.mark.nightly
def test_more_workers_than_threads_end_too(store, workers):
    stored, support = store
    check(fit(stored, workers, n_workers=5), stored, support)


@pytest.mark.nightly
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_classes_are_told_apart_on_a_cluster(store, workers, loss, tmp_path):
    stored, support = store
    y = stored.read_target()
    classes = ingest(stored.read(slice(None)), tmp_path / "c.zarr", y=(y > np.median(y)).astype(float), dtype="float64")
    selector = fit(classes, workers, loss=loss)
    assert len(np.intersect1d(selector.selected_, support)) >= N_SELECTED - 2
    assert selector.score(classes) > 0.9


class SlowNode:
    """Takes longer to answer than a task waits before it asks for the node."""

    def answer(self, number):
        time.sleep(1.5 * ASK_S)
        return number + 1


def ask_twice(address, number):
    return [address.answer(number).result() for _ in range(2)]


@pytest.mark.nightly
def test_a_slow_node_is_not_a_lost_one(workers):
    node = workers.actors.place(SlowNode)
    (result,) = workers.actors.keep_running(ask_twice, [41], name="ask", shared=(ActorAddress(node),)).finished(60.0)
    assert result == (0, [42, 42])
    workers.actors.release(node)


def without_an_answer(number):
    raise TimeoutError(f"{number} does not answer")


@pytest.mark.slow
def test_a_time_out_in_a_task_is_its_error_and_not_waited_for_again(workers):
    tasks = workers.actors.keep_running(without_an_answer, [41], name="time out")
    with pytest.raises(RunError) as ended:
        tasks.finished(60.0)
    assert str(ended.value.__cause__) == "41 does not answer"


class Echo:
    """A node that answers at once."""

    def answer(self, number):
        return number


def records_of_messages(address, n_messages):
    """Ask so often; return how many entries the longest list has that has grown with the messages."""
    for number in range(n_messages):
        address.answer(number).result()
    lists = [one for one in gc.get_objects() if type(one) is list and len(one) >= n_messages]
    return sum("serialize" in str(one[0]) for one in lists)


@pytest.mark.slow
def test_a_task_that_lasts_keeps_no_record_of_its_messages(workers):
    node = workers.actors.place(Echo)
    tasks = workers.actors.keep_running(records_of_messages, [300], name="echo", shared=(ActorAddress(node),))
    (result,) = tasks.finished(60.0)
    assert result == (0, 0)
    workers.actors.release(node)


class Nobody:
    """A node."""


@pytest.mark.slow
def test_a_node_has_a_process_to_itself_as_long_as_there_are_others_and_goes_when_it_is_released(workers):
    node = workers.actors.place(Nobody)
    assert workers.actors.holds(node)
    homes = [address for address, keys in workers.client.has_what().items() if node.key in keys]
    assert homes == workers.actors.addresses()[-1:]
    workers.actors.release(node)
    assert not workers.actors.holds(node)


def test_a_run_leaves_no_node_behind(store, workers):
    stored, _ = store
    AsyncOnlineSubstitution(N_SELECTED, n_workers=2).fit_matrix(stored, workers=workers)
    assert not workers.actors._futures


@pytest.mark.nightly
def test_tasks_that_last_need_a_cluster():
    with pytest.raises(RunError, match="need a cluster"):
        Here().actors.keep_running(print, [1], name="nothing")
