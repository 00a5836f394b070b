"""Models of MISSION that are averaged, what they take in memory, and sparse rows that stay sparse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.mission import passes
from daskfs.selectors.mission.model import Entries, ModelShape
from daskfs.selectors.mission.selector import Mission
from daskfs.selectors.mission.variants import merged, model_of, restored
from daskfs.sources.ingest import ingest
from tests.contract.lab import assert_same_bits
from tests.tolerances import assert_same_answer, tolerance_of


@pytest.fixture(scope="module")
def store(problem, tmp_path_factory):
    X, y = problem
    return ingest(X, tmp_path_factory.mktemp("mission") / "p.zarr", y=y, dtype="float64", tile_shape=(256, 8))


def selector(**more):
    return Mission(3, **{"n_buckets": 16, "block_rows": 200, "refit": "sgd", **more})


def test_sparse_rows_stay_sparse_and_give_the_answer_of_dense_ones(problem, monkeypatch):
    X, y = problem
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    expected = selector(standardize=False, n_candidates=None).fit(X, y)  # second moments take blocks of their columns
    monkeypatch.setattr(ArrayMatrix, "read", lambda *_, **__: pytest.fail("a dense block was made"))
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_matrix):
        found = selector(standardize=False, n_candidates=None).fit(kind(X), y)
        assert_same_answer(found, expected, tolerance_of("mission"))


@pytest.mark.slow
def test_ids_of_64_bits_are_ids(problem):
    X, y = problem
    wide = scipy.sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    narrow = scipy.sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    assert_same_bits(selector().fit_matrix(ArrayMatrix(wide, y)), selector().fit_matrix(ArrayMatrix(narrow, y)))


def entries(keys, weights, touches):
    """Features that are active for all outputs."""
    return Entries(np.array(keys, np.uint64), np.zeros(len(keys), np.int32), np.array(weights, np.float32), touches)


def test_the_mean_of_models_is_exact_where_all_are_active():
    shape = ModelShape(2, 64, 3, 0)
    keys = np.array([5, 9, 11], np.uint64)
    models = []
    for values in ([1.0, 2.0, 0.5], [3.0, 0.0, 0.5]):
        model = model_of(shape)
        model.intercept[:] = values[0]
        model.fill(entries(keys[:2], np.array(values[:2])[:, None], np.array([1, 1])))
        model.sketch.add(keys[2:], np.array(values[2:]))
        models.append(model.state())
    models[1] = models[1].with_entries(models[1].entries.at(np.arange(1)))  # 9 is not active there, weighs 0
    mean = merged(shape, *models)
    assert mean.keys.tolist() == [5, 9]
    np.testing.assert_allclose(mean.weights[:, 0], [2.0, 1.0], atol=1e-6)
    assert mean.touches.tolist() == [2, 1]
    assert mean.intercept.tolist() == [2.0]
    again = restored(shape, mean)
    np.testing.assert_allclose(again.sketch.estimate(keys), [0.0, 0.0, 0.5], atol=1e-6)


def test_a_mean_of_three_weighs_each_the_same():
    shape = ModelShape(1, 64, 1, 0)
    parts = []
    for value in (3.0, 6.0, 9.0):
        model = model_of(shape)
        model.fill(entries([4], [[value]], np.array([1])))
        parts.append(model.state())
    assert merged(shape, merged(shape, parts[0], parts[1]), parts[2]).weights[0, 0] == pytest.approx(6.0)


@pytest.mark.slow
def test_replicas_lose_little_and_are_told_of(store):
    alone, together = selector().fit(store), selector(n_replicas=4, sync_every=50).fit(store)
    np.testing.assert_array_equal(np.sort(together.selected_), np.sort(alone.selected_))
    np.testing.assert_allclose(together.coef_, alone.coef_, atol=0.05)
    assert "4 models were averaged every 50 rows" in together.result_.notes
    assert together.result_.history["rows_seen"].iloc[-1] == alone.result_.history["rows_seen"].iloc[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("n_replicas", "refit"), [(1, "sgd"), (2, "sgd"), (3, None), (5, None)])
def test_chains_of_any_length_on_any_workers_give_the_bits_of_rounds_one_by_one(
    store, processes, n_replicas, refit, monkeypatch
):
    options = {"n_replicas": n_replicas, "sync_every": 100, "refit": refit, "n_epochs": 2}
    monkeypatch.setattr(passes, "LEG_TASKS", 1)
    monkeypatch.setattr(passes, "CHAIN_TASKS", 1)  # the client has the model after every round
    expected = selector(**options).fit(store)
    for leg, chain, client in ((4, 12, processes.client), (64, 256, processes.client), (64, 256, None)):
        monkeypatch.setattr(passes, "LEG_TASKS", leg)
        monkeypatch.setattr(passes, "CHAIN_TASKS", chain)
        found = selector(**options, client=client).fit(store)
        assert_same_bits(found, expected)
        assert found.result_.history.equals(expected.result_.history)


@pytest.mark.nightly
def test_a_run_that_ends_in_the_middle_of_a_chain_goes_on_from_its_last_report(store, processes):
    options = {"n_replicas": 2, "sync_every": 50, "n_epochs": 2, "client": processes.client}
    expected = selector(**options).fit_matrix(store)
    for n_saves in (1, 6, 12):
        kept = Kept(n_saves)
        with pytest.raises(KeyboardInterrupt):
            selector(**options).fit_matrix(store, checkpoint=kept)
        kept.n_left = np.inf
        assert_same_bits(selector(**options).fit_matrix(store, checkpoint=kept), expected)


class Kept(dict):
    """A checkpoint in memory that is interrupted after so many entries."""

    def __init__(self, n_left):
        super().__init__()
        self.n_left = n_left

    def load(self, name):
        return self.get(name)

    def save(self, name, arrays):
        if not self.n_left:
            raise KeyboardInterrupt
        self.n_left -= 1
        self[name] = arrays


@pytest.mark.parametrize(("sync_every", "block_rows"), [(50, 200), (70, 250), (300, 100), (1000, 500), (1200, 4096)])
def test_a_plan_counts_the_tasks_that_learn(problem, sync_every, block_rows, monkeypatch):
    X, y = problem
    learn, tasks = passes.train_on_rows, []
    monkeypatch.setattr(passes, "train_on_rows", lambda *arguments: tasks.append(0) or learn(*arguments))
    model = Mission(3, n_replicas=2, sync_every=sync_every, block_rows=block_rows, n_epochs=2, refit=None).fit(X, y)
    assert len(tasks) == model.plan(*X.shape, "float64", None).n_tasks


@pytest.mark.parametrize("n_replicas", [1, 2, 3])
def test_chains_hold_every_round_once_and_end_where_they_are_told(n_replicas):
    units = [((0, 1),)] * n_replicas
    rounds = [passes.TrainingRound(0, units, k % 37 == 0, False, k > 190) for k in range(200)]
    chains = list(passes._chains(rounds))
    assert [one for legs in chains for leg in legs for one in leg] == rounds
    for legs in chains:
        assert sum(len(leg) for leg in legs) * n_replicas < passes.CHAIN_TASKS + passes.LEG_TASKS + n_replicas
        for leg in legs:
            assert len(leg) * n_replicas < passes.LEG_TASKS + n_replicas
            assert not any(one.is_report or one.with_sums for one in leg[:-1])


def test_a_model_takes_the_memory_it_says():
    several = {"n_outputs": 5, "loss": "multinomial"}
    shapes = ModelShape(100, 1 << 12, 3, 0), ModelShape(10, 1 << 10, 1, 0, **several)
    for shape in (*shapes, ModelShape(10, 1 << 10, 1, 0, **several, per_class=True)):
        model = model_of(shape)
        table = model.table
        held = sum(array.nbytes for array in (table.keys, table.classes, table.weights, table.touches))
        assert held + model.sketch.cells.nbytes == shape.nbytes


@pytest.mark.nightly
def test_four_times_the_rows_take_the_same_memory(tmp_path):
    """Measured in a process of its own: the peak is that of the plan, and does not grow with the rows."""
    import subprocess
    import sys

    code = """
import sys, numpy as np
from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.selectors.mission.selector import Mission
from daskfs.selectors.mission.variants import merged, model_of, restored
from daskfs.sources.ingest import ingest
from daskfs.sources.synthetic import SyntheticSource
n, folder = int(sys.argv[1]), sys.argv[2]
small = ingest(SyntheticSource(4000, 500), folder + "/small.zarr")
Mission(10, refit="sgd", n_epochs=1, memory_limit="48MiB").fit(small)
store = ingest(SyntheticSource(n, 500), folder + "/large.zarr", memory_limit=32 << 20)
before = peak_memory_nbytes()
Mission(10, refit="sgd", n_epochs=1, memory_limit="48MiB").fit(store)
print(peak_memory_nbytes() - before)
"""
    grown = []
    for n in (50_000, 200_000):
        folder = tmp_path / str(n)
        folder.mkdir()
        done = subprocess.run([sys.executable, "-c", code, str(n), str(folder)], capture_output=True, check=True)
        grown.append(int(done.stdout))
    assert max(grown) < 64 << 20  # the limit, and 8 and 24 bytes for each row of target and weight
