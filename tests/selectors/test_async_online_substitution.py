"""Asynchronous online substitution in this process: selection, schedules, losses, contracts."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from daskfs.errors import ConfigError, DataError, PlanError, SelectionWarning
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.asy_os import run as asy_os_run
from daskfs.selectors.asy_os.leases import ColumnLeases
from daskfs.selectors.asy_os.node import Reply, Share
from daskfs.selectors.asy_os.plan import AsyncShape, capacity_of, choose_widths
from daskfs.selectors.asy_os.selector import AsyncOnlineSubstitution
from daskfs.selectors.asy_os.task import AsyncSettings, PlacedNode, _ReadAhead
from daskfs.selectors.asy_os.worker import SubstitutionWorker, WorkerSettings
from daskfs.selectors.online_substitution.columns import ColumnSettings, read_columns
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.online_substitution.engines.steps import StepsEngine
from daskfs.selectors.online_substitution.objective import Objective
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from daskfs.selectors.shared.elimination import eliminate
from daskfs.selectors.shared.refit import MeanLoss
from daskfs.selectors.shared.run import Run
from daskfs.sources.ingest import ingest
from tests.refusals import refused
from tests.tolerances import assert_same_answer

N_SAMPLES, N_FEATURES = 400, 160
TRUE = [3, 17, 40, 41, 77, 90, 120, 159]


def drawn(seed=0, loss="squared", correlation=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_SAMPLES, N_FEATURES))
    X = np.sqrt(1 - correlation) * X + np.sqrt(correlation) * rng.standard_normal((N_SAMPLES, 1))
    X *= 10.0 ** rng.uniform(-2, 2, N_FEATURES)
    scale = X.std(axis=0)[TRUE]
    z = (X[:, TRUE] / scale) @ np.array([2.0, -1.5, 1.0, 1.0, -2.0, 1.5, 1.2, -1.0])
    if loss in ("logistic", "squared_hinge"):
        return X, (z + 0.5 * rng.standard_normal(N_SAMPLES) > 0.7).astype(int)
    return X, z + 3.0 + 0.5 * rng.standard_normal(N_SAMPLES)


@pytest.fixture(scope="module")
def problem():
    return drawn()


def found(selector):
    return sorted(selector.selected_.tolist())


@pytest.mark.parametrize("schedule", ["asynchronous", "simulated", "synchronous"])
@pytest.mark.parametrize("n_workers", [1, 2, 5])
def test_workers_find_the_true_features(problem, schedule, n_workers):
    selector = AsyncOnlineSubstitution(8, n_workers=n_workers, schedule=schedule).fit(*problem)
    assert found(selector) == TRUE
    assert selector.n_workers_ == n_workers
    assert selector.score(*problem) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("n_at_work", [2, 3])
def test_workers_that_never_come_cost_no_feature(monkeypatch, n_at_work):
    """As where a cluster has fewer threads than workers were asked for: the places of the others were missing."""
    monkeypatch.setattr(asy_os_run, "range", lambda n_workers: range(min(n_workers, n_at_work)), raising=False)
    n_late = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((300, 400))
        true = rng.choice(400, 12, replace=False)
        y = X[:, true] @ rng.choice([-1.0, 1.0], 12) + 0.25 * rng.standard_normal(300)
        selector = AsyncOnlineSubstitution(12, n_workers=5, block_columns=16).fit(X, y)
        assert found(selector) == sorted(true)
        n_late += any(f"{n_at_work} of 5 workers took part" in note for note in selector.result_.notes)
    assert n_late, "no run of these needed that columns were presented once more"


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "epsilon_insensitive"])
@pytest.mark.parametrize("schedule", ["simulated", "synchronous"])
def test_other_losses_find_them_too(loss, schedule):
    X, y = drawn(1, loss)
    selector = AsyncOnlineSubstitution(8, n_workers=3, schedule=schedule, loss=loss).fit(X, y)
    assert len(set(found(selector)) & set(TRUE)) >= 7
    assert selector.score(X, y) > 0.85


@pytest.mark.parametrize("rule", ["os", "paper"])
def test_the_papers_box_finds_them_where_features_are_independent(problem, rule):
    plain = {"slots": 1.0, "other_worker": False, "check": False}
    selector = AsyncOnlineSubstitution(8, n_workers=2, schedule="simulated", rule=rule, **plain).fit(*problem)
    assert len(set(found(selector)) & set(TRUE)) >= 6


@pytest.mark.parametrize("block_columns", [1, 16])
def test_one_worker_decides_as_the_sequential_selector(problem, block_columns):
    told = {"n_epochs": 2, "ridge": 0.1}  # which by default falls in the sequential selector alone
    one = AsyncOnlineSubstitution(8, n_workers=1, schedule="simulated", block_columns=block_columns, **told).fit(
        *problem
    )
    alone = OnlineSubstitution(8, **told).fit(*problem)
    assert found(one) == found(alone)
    np.testing.assert_allclose(one.coef_, alone.coef_, rtol=1e-8, atol=1e-12)
    assert one.result_.history["objective"].iloc[-1] == pytest.approx(alone.result_.history["objective"].iloc[-1])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_worker_sees_the_prediction_of_q_minus_one_updates_ago(seed):
    """Exactly: as many versions old as pushes that changed something came in since the worker's last one."""
    history = AsyncOnlineSubstitution(8, n_workers=5, schedule="simulated").fit(*drawn(seed)).result_.history
    is_changed = history["version"].diff() == 1
    is_of_nothing = ~is_changed & (history["accepted"] == 1)
    seen = history.groupby(["worker", "epoch"])["version"].shift()  # between epochs all is rebuilt
    expected = (history["version"] - is_changed - seen).mask(is_of_nothing, 0.0)
    is_known = seen.notna()
    np.testing.assert_array_equal(history["staleness"][is_known], expected[is_known])
    assert history["staleness"].max() == 4
    assert (history["staleness"][is_changed] >= 3).mean() > 0.8  # most of the others follow a refusal


def test_the_objective_never_rises_and_versions_only_grow(problem):
    X, y = drawn(2, correlation=0.5)
    history = AsyncOnlineSubstitution(8, n_workers=5, schedule="synchronous", block_columns=8).fit(X, y).result_.history
    objective = history["objective"].to_numpy()
    assert (np.diff(objective) <= 1e-9 * objective[0]).all()
    assert (np.diff(history["version"]) >= 0).all()


def test_correlated_features_diverge_without_the_check_and_not_with_it():
    X, y = drawn(3, correlation=0.8)
    settings = {"n_workers": 8, "schedule": "synchronous", "rule": "os", "slots": 1.0, "block_columns": 10}
    with np.errstate(over="ignore", invalid="ignore"):
        loose = AsyncOnlineSubstitution(40, check=False, n_epochs=3, **settings).fit(X, y).result_.history
    held = AsyncOnlineSubstitution(40, n_epochs=3, **settings).fit(X, y).result_.history
    assert loose["objective"].max() > 10 * y.var()
    assert held["objective"].max() <= 0.5 * y.var() * (1 + 1e-9)


@pytest.mark.parametrize(("schedule", "tau_max"), [("simulated", None), ("synchronous", None), ("simulated", 9)])
def test_the_papers_step_obeys_theorem_2_with_the_staleness_that_the_node_allows(
    problem, schedule, tau_max, monkeypatch
):
    told = {"rule": "paper", "step_divisor": 2.0, "n_workers": 4, "slots": 1.0, "block_columns": 4}
    selector = AsyncOnlineSubstitution(8, schedule=schedule, tau_max=tau_max, lipschitz=3.0, **told)
    nodes, steps = [], []
    made, meet = PlacedNode.__init__, StepsEngine.meet
    monkeypatch.setattr(PlacedNode, "__init__", lambda node, *given: (made(node, *given), nodes.append(node))[0])
    monkeypatch.setattr(StepsEngine, "meet", lambda own, others: (meet(own, others), steps.append(own._eta))[0])
    selector.fit(*problem)
    tau = nodes[0]._tau_max
    assert tau == selector.result_.parameters["tau_max"] == (3 if tau_max is None else 9)
    assert selector.result_.history["staleness"].max() <= tau
    n_features = problem[0].shape[1]
    rho = (0.5 / (2.0**2 * 4) + 0.5 / (n_features - 8)) * tau**2 / 0.5  # L_f = L_F = 3, c = 0.5
    limit = 0.5 / (3.0 * (1.0 + rho))
    assert 0.9 * limit < max(steps) < limit


@pytest.mark.parametrize("n_workers", [2, 3, 7])
@pytest.mark.parametrize("n_selected", [1, 5, 8, 160])
def test_exactly_as_many_features_as_asked_for(problem, n_workers, n_selected):
    selector = AsyncOnlineSubstitution(n_selected, n_workers=n_workers).fit(*problem)
    assert len(selector.selected_) == n_selected == len(np.unique(selector.selected_))
    assert selector.support_.sum() == n_selected


def test_constant_columns_and_copies_are_not_selected(problem):
    X, y = problem
    X = np.hstack([X, np.full((N_SAMPLES, 1), 7.0), X[:, TRUE]])
    selector = AsyncOnlineSubstitution(8, n_workers=3).fit(X, y)
    assert sorted({j if j < N_FEATURES else TRUE[j - N_FEATURES - 1] for j in found(selector)}) == TRUE
    with pytest.warns(SelectionWarning, match="3 of the 5 features asked for"):
        few = AsyncOnlineSubstitution(5, n_workers=2).fit(np.hstack([X[:, :1]] * 5 + [X[:, 1:3]]), y)
    assert len(few.selected_) == 3
    assert any("3 features were selected, not 5" in note for note in few.result_.notes)


def test_a_weight_of_two_counts_as_the_row_twice(problem):
    X, y = problem
    weight = np.random.default_rng(0).integers(0, 3, N_SAMPLES)
    for loss in ("squared", "epsilon_insensitive"):
        told = {"n_workers": 2, "schedule": "simulated", "loss": loss, "epsilon": 0.2, "block_columns": 8}
        weighted = AsyncOnlineSubstitution(8, **told).fit(X, y, weight)
        repeated = AsyncOnlineSubstitution(8, **told).fit(X.repeat(weight, axis=0), y.repeat(weight))
        assert found(weighted) == found(repeated)
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)


def test_tiles_arrays_and_stores_give_the_same_answer(problem, tmp_path):
    X, y = problem
    base = AsyncOnlineSubstitution(8, n_workers=3, schedule="simulated").fit(ArrayMatrix(X, y, shuffled=True))
    for k, tile_shape in enumerate([(400, 160), (64, 7)]):
        stored = ingest(X, tmp_path / f"{k}.zarr", y=y, dtype="float64", tile_shape=tile_shape, shuffle=False)
        other = AsyncOnlineSubstitution(8, n_workers=3, schedule="simulated").fit(stored)
        assert_same_answer(other, base)


def test_float32_and_int8_columns_are_taken(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 60)).astype(np.int8)
    y = X[:, [4, 30, 55]] @ [1.0, -1.0, 0.7] + 0.3 * rng.standard_normal(300)
    stored = ingest(X, tmp_path / "int8.zarr", y=y, dtype="int8")
    for matrix in (ArrayMatrix(X.astype(np.float32), y), stored):
        assert found(AsyncOnlineSubstitution(3, n_workers=2).fit(matrix)) == [4, 30, 55]


class Kept:
    """A checkpoint in memory that can break off a run."""

    def __init__(self, breaks_at=0):
        self.arrays, self.breaks_at, self.n_saved = {}, breaks_at, 0

    def save(self, name, arrays):
        self.n_saved += 1
        self.arrays[name] = {key: array.copy() for key, array in arrays.items()}
        if self.n_saved == self.breaks_at:
            raise KeyboardInterrupt

    def load(self, name):
        return self.arrays.get(name)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("schedule", ["simulated", "synchronous"])
def test_an_interrupted_run_ends_with_the_same_bits(loss, schedule):
    X, y = drawn(4, loss)
    matrix = ArrayMatrix(X, y)
    told = {"n_workers": 3, "schedule": schedule, "n_epochs": 3, "loss": loss}
    whole = AsyncOnlineSubstitution(8, **told).fit(matrix)
    kept = Kept(breaks_at=1)
    with pytest.raises(KeyboardInterrupt):
        AsyncOnlineSubstitution(8, **told).fit_matrix(matrix, checkpoint=kept)
    resumed = AsyncOnlineSubstitution(8, **told).fit_matrix(matrix, checkpoint=kept)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.scores_, whole.scores_)
    pd.testing.assert_frame_equal(resumed.result_.history, whole.result_.history, check_exact=True)


ALWAYS = [11, 90, 50]
"""Two that say nothing, and between them one that is true."""


def targets(seed):
    """Columns, and a target of numbers, of two and of three classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 120))
    X[:, 1::2] = 0.6 * X[:, ::2] + 0.8 * X[:, 1::2]
    z = X[:, [3, 17, 40, 41, 77, 90]] @ [2.0, -1.5, 1.0, 1.0, -2.0, 1.5] + 0.5 * rng.standard_normal(400)
    return X, {"numbers": z, "two classes": z > 0.3, "three classes": np.array(list("abc"))[np.digitize(z, [-2, 2])]}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["numbers", "two classes", "three classes"])
@pytest.mark.parametrize("schedule", ["asynchronous", "simulated"])
def test_always_included_columns_stay_beside_those_that_one_stream_finds(target, schedule):
    for seed in range(3):
        X, y = targets(seed)[0], targets(seed)[1][target]
        alone = OnlineSubstitution(8, always_include=ALWAYS).fit(X, y)
        for n_workers in (1, 3, 8):
            told = {"n_workers": n_workers, "schedule": schedule, "always_include": ALWAYS}
            selector = AsyncOnlineSubstitution(8, **told).fit(X, y)
            assert set(selector.selected_[:3].tolist()) == set(ALWAYS)
            assert found(selector) == found(alone) == sorted({*ALWAYS, 3, 17, 40, 41, 77})
            np.testing.assert_allclose(selector.coef_, alone.coef_, rtol=1e-5, atol=1e-9)
            assert "3 of them were always included" in selector.result_.notes


@pytest.mark.parametrize("rule", ["exchange", "os", "paper"])
@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_always_included_columns_are_never_dropped(problem, rule, n_workers, loss):
    """Nor where nothing else is selected, nor where one of them is a copy of what else would be."""
    X, y = problem
    X = np.hstack([X, X[:, TRUE[:1]]])
    y = y if loss == "squared" else y > np.median(y)
    for n_selected in (3, 5):
        told = {"n_workers": n_workers, "rule": rule, "loss": loss, "schedule": "synchronous"}
        selector = AsyncOnlineSubstitution(n_selected, always_include=[0, N_FEATURES, 2], **told).fit(X, y)
        assert {0, N_FEATURES, 2} <= set(found(selector))
        assert TRUE[0] not in selector.selected_
        assert len(selector.selected_) == n_selected


def test_always_included_columns_go_by_name_and_are_refused_where_they_cannot_be_held(problem):
    X, y = problem[0].copy(), problem[1]
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(N_FEATURES)])
    named = AsyncOnlineSubstitution(4, n_workers=2, always_include=["g80", "g17"]).fit(frame, y)
    numbered = AsyncOnlineSubstitution(4, n_workers=2, always_include=[80, 17]).fit(X, y)
    np.testing.assert_array_equal(named.selected_, numbered.selected_)
    assert set(named.selected_[:2].tolist()) == {17, 80}
    with refused(DataError, "shapes", at="always_include", naming=["'g999'"]):
        AsyncOnlineSubstitution(4, always_include=["g999"]).fit(frame, y)
    with refused(DataError, "shapes", at="always_include", naming=["at most 1"]):
        AsyncOnlineSubstitution(1, always_include=[1, 2]).fit(X, y)
    X[:, 5] = 3.0
    with refused(DataError, "shapes", at="always_include, column 'x5'", naming=["constant"]):
        AsyncOnlineSubstitution(4, always_include=[5]).fit(X, y)
    with refused(DataError, "shapes", at="always_include, column 'x160'", naming=["combination"]):
        AsyncOnlineSubstitution(4, always_include=[7, N_FEATURES]).fit(np.hstack([X, X[:, [7]]]), y)


def test_a_run_with_columns_always_included_resumes_with_the_same_bits():
    X, y = targets(0)[0], targets(0)[1]["numbers"]
    told = {"n_workers": 3, "schedule": "simulated", "always_include": ALWAYS}
    whole, kept = AsyncOnlineSubstitution(8, **told).fit(ArrayMatrix(X, y)), Kept(breaks_at=1)
    with pytest.raises(KeyboardInterrupt):
        AsyncOnlineSubstitution(8, **told).fit_matrix(ArrayMatrix(X, y), checkpoint=kept)
    resumed = AsyncOnlineSubstitution(8, **told).fit_matrix(ArrayMatrix(X, y), checkpoint=kept)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    pd.testing.assert_frame_equal(resumed.result_.history, whole.result_.history, check_exact=True)


def test_always_included_columns_stay_where_workers_never_come(monkeypatch):
    """Those that the missing workers would have held are among them."""
    monkeypatch.setattr(asy_os_run, "range", lambda n_workers: range(min(n_workers, 2)), raising=False)
    n_late, told = 0, {"n_workers": 8, "slots": 1.0, "block_columns": 16, "always_include": ALWAYS}
    for seed in range(4):
        X, y = targets(seed)[0], targets(seed)[1]["numbers"]
        selector = AsyncOnlineSubstitution(8, **told).fit(X, y)
        assert found(selector) == sorted({*ALWAYS, 3, 17, 40, 41, 77})
        n_late += any("presented again at the end" in note for note in selector.result_.notes)
    assert n_late, "no run of these needed that columns were presented once more"


def test_progress_is_shown_to_the_end(problem):
    class Bar:
        total = done = 0

        def start(self, name, total):
            self.total, self.done = total, 0

        def advance(self, k=1):
            self.done += k

        def finish(self):
            self.finished = True

    bar = Bar()
    AsyncOnlineSubstitution(8, n_workers=2, block_columns=10, n_epochs=2).fit_matrix(
        ArrayMatrix(*problem), progress=bar
    )
    assert (bar.total, bar.done, bar.finished) == (32, 32, True)


def test_nan_is_refused_with_its_column_and_row(problem):
    X, y = problem[0].copy(), problem[1]
    X[11, 5] = np.nan
    with refused(DataError, "values", at="column 5, row 11"):
        AsyncOnlineSubstitution(8).fit(X, y)


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("schedule", "simulate", "did you mean 'simulated'"),
        ("rule", "exchang", "did you mean 'exchange'"),
        ("loss", "squarred", "did you mean 'squared'"),
        ("n_workers", 0, "n_workers: expected a whole number of at least 1"),
        ("slots", 0.5, "slots: expected a number of at least 1"),
        ("tau_max", -1, "tau_max"),
        ("n_features_to_select", 161, "requests 161 features, but there are 160"),
    ],
)
def test_a_parameter_out_of_its_range_is_named(problem, parameter, value, words):
    with pytest.raises(ConfigError, match=words):
        AsyncOnlineSubstitution(**{parameter: value}).fit(*problem)


def test_a_plan_over_the_limit_says_what_would_fit(problem):
    selector = AsyncOnlineSubstitution(100, n_workers=4, n_epochs=2)
    plan = selector.plan(1_000_000, 50_000, "float32", None, n_threads=4, tile_shape=(16384, 64))
    assert plan.n_tasks == 5
    assert plan.read_nbytes == 2 * 4 * 10**6 * 50_000
    with pytest.raises(PlanError, match=r"allow at least [\d,]+ bytes, or select fewer features, or raise n_workers"):
        selector.plan(1_000_000, 50_000, "float32", 100 * 2**20, n_threads=4)
    assert selector.plan(1_000_000, 50_000, "float32", plan.task_nbytes, 4, (16384, 64)).task_nbytes <= plan.task_nbytes
    with pytest.raises(PlanError):
        AsyncOnlineSubstitution(8, memory_limit="100kB").fit(*problem)


def test_a_plan_has_what_the_first_fit_of_columns_always_included_takes():
    told = {"n_workers": 20, "slots": 1.0}
    plans = [
        AsyncOnlineSubstitution(100, always_include=always, **told).plan(100_000, 3_000, "float32", None, n_threads=20)
        for always in (None, list(range(90)))
    ]
    assert plans[1].task.terms["selected columns"] == 2 * plans[0].task.terms["selected columns"]  # 10 places, not 5
    first = AsyncShape(100_000, 3_000, 90, 1, 90, 4, 3, 1, None, in_turn=True).task(90)
    assert plans[1].client.nbytes >= first.nbytes
    assert first.terms["selected columns"] == 90 * 4 * 100_000


def test_places_are_shared():
    assert capacity_of(10, 1, 1.5) == 10
    assert [capacity_of(100, q, 1.5) for q in (2, 5, 20)] == [75, 30, 8]
    assert capacity_of(3, 10, 1.5) == 1
    assert [capacity_of(10, q, 1.5, n_always=4) for q in (1, 2, 5, 10)] == [10, 10, 4, 3]


def test_it_is_cloned_and_pickled(problem):
    selector = AsyncOnlineSubstitution(8, n_workers=2, rule="os")
    assert clone(selector).get_params() == selector.get_params()
    fitted = pickle.loads(pickle.dumps(selector.fit(*problem)))
    np.testing.assert_array_equal(fitted.predict(problem[0]), selector.predict(problem[0]))


def test_backward_elimination_drops_what_costs_least(problem):
    X, y = problem
    matrix = ArrayMatrix(X, y)
    columns = np.array([*TRUE, 0, 1, 2])
    kept = eliminate(Run(matrix, "test"), columns, 8, [MeanLoss(ridge=0.0)])
    assert sorted(kept.columns.tolist()) == TRUE
    full = np.column_stack([np.ones(N_SAMPLES), X[:, kept.columns]])
    value = np.linalg.lstsq(full, y, rcond=None)[1][0]
    for place, cost in enumerate(kept.costs):
        fewer = np.delete(full, place + 1, axis=1)
        rise = (np.linalg.lstsq(fewer, y, rcond=None)[1][0] - value) / (2 * N_SAMPLES)
        assert cost == pytest.approx(rise, rel=1e-6)
    labels = drawn(1, "logistic")[1]
    left = eliminate(Run(ArrayMatrix(X, labels), "test"), columns, 6, [MeanLoss("logistic", 1.0, ridge=0.01)])
    assert len(left.columns) == 6
    assert (np.diff(left.costs) <= 0).all()


def test_a_column_that_depends_on_others_is_dropped_first(problem):
    X, y = problem
    X = np.hstack([X, X[:, [3]] + X[:, [17]]])
    kept = eliminate(Run(ArrayMatrix(X, y), "test"), np.array([3, 17, 40, N_FEATURES]), 3, [MeanLoss(ridge=0.0)])
    assert len(set(kept.columns.tolist()) & {3, 17, N_FEATURES}) == 2


@pytest.mark.parametrize(("tile", "unit"), [(64, 64), (100, 100), (128, 64), (1024, 64), (16, 16)])
def test_leases_are_whole_tiles_unless_these_are_much_wider_than_a_block_should_be(tile, unit):
    shape = AsyncShape(100_000, 2048, 64, 2, 48, 4, 3, tile, None, in_turn=False)
    assert shape.widest == 51
    assert choose_widths(shape, None).unit == unit


def test_leases_of_very_many_columns_are_planned_and_not_one_by_one():
    shape = AsyncShape(48_000, 10_000_000, 5, 2, 4, 8, 3, 1_638_400, None, in_turn=False)
    least = min(shape.task(2**k).nbytes for k in range(20))
    widths = choose_widths(shape, 2 * least)
    assert widths.process.nbytes <= 2 * least < shape.task(1).terms["leases of columns"]
    with pytest.raises(PlanError) as fault:
        choose_widths(shape, 1)
    assert choose_widths(shape, fault.value.needed_nbytes).unit > 1


@pytest.mark.parametrize("tile", [16, 100, 1009, 4096])
@pytest.mark.parametrize("spare", [0, 1 << 20, 1 << 24, None])
@pytest.mark.parametrize("in_turn", [False, True])
def test_as_much_of_a_tile_is_read_at_once_as_the_memory_holds(tile, spare, in_turn):
    shape = AsyncShape(10_000, 20_000, 64, 2, 48, 4, 3, tile, None, in_turn=in_turn)
    least = 1 if not in_turn else choose_widths(shape, None).widest
    limit = None if spare is None else shape.process(least).nbytes + spare
    widths = choose_widths(shape, limit)
    assert widths.part % widths.unit == 0 == widths.tile % widths.unit
    assert widths.unit <= widths.part <= widths.tile <= max(tile, widths.unit)
    assert limit is None or widths.process.nbytes <= limit
    if spare is None and tile <= 3200:  # 128 MiB
        assert widths.part == widths.tile
    smaller = None if spare is None else choose_widths(shape, limit + (1 << 22))
    assert smaller is None or smaller.part >= widths.part


def test_what_is_read_at_once_is_read_once_and_leases_of_it_are_the_same_columns():
    spans = []

    class Counted(ArrayMatrix):
        def read(self, rows, columns, out=None):
            spans.append((columns.start, columns.stop))
            return super().read(rows, columns, out)

    X = np.random.default_rng(0).standard_normal((50, 40)).astype(np.float32)
    matrix, how = Counted(X, X[:, 0].astype(float)), ColumnSettings(True, True, False)
    numbers = {"n_workers": 1, "capacity": 4, "tau_max": 2, "n_epochs": 1, "unit": 2, "narrowest": 2, "widest": 4}
    settings = AsyncSettings(
        0, None, 0.0, 0.0, True, None, how, "float32", tile=12, part=6, in_turn=False, exchanges=True, **numbers
    )
    leases = ColumnLeases(40, 2, 1, spans=settings.spans)
    order = list(iter(lambda: leases.take(0, 4), None))
    with ThreadPoolExecutor(1) as pool:
        ahead = _ReadAhead(matrix, settings, NO_WEIGHT, pool)
        for lease, following in zip(order, [*order[1:], None], strict=True):
            columns = ahead.get(lease, (following,) if following else ())
            alone = read_columns(ArrayMatrix(X, X[:, 0]), np.arange(lease.start, lease.stop), how)
            np.testing.assert_array_equal(columns.ids, alone.ids)
            np.testing.assert_array_equal(columns.rows, alone.rows)
            del columns
    assert spans == [(0, 6), (6, 12), (12, 18), (18, 24), (24, 30), (30, 36), (36, 40)]


@pytest.mark.parametrize("seed", range(5))
def test_products_computed_before_the_answer_came_change_nothing(seed):
    rng, told = np.random.default_rng(seed), []
    X = rng.standard_normal((120, 90))
    y = X[:, ::11] @ rng.standard_normal(9) + 0.5 * rng.standard_normal(120)
    matrix = ArrayMatrix(X, y)
    objective = Objective("squared", y - y.mean(), NO_WEIGHT)
    settings = WorkerSettings(objective, Rule(), ColumnSettings(True, True, False), np.dtype(np.float64))
    blocks = [
        read_columns(matrix, np.arange(j, min(j + 20, X.shape[1])), settings.columns) for j in range(0, X.shape[1], 20)
    ]
    for foresees in (False, True):
        worker = SubstitutionWorker(settings, 6)
        worker.take_back(matrix, Share(0, np.zeros(0, np.int64), np.zeros(0)))
        prediction, shares = np.zeros(len(y)), []
        for turn in range(2 * len(blocks)):
            proposal = worker.present(blocks[turn % len(blocks)], Reply("accepted", "work", turn, prediction))
            if foresees:
                worker.foresee(blocks[(turn + 1) % len(blocks)])
            is_accepted = proposal.delta is not None and turn % 3 != 1  # refused: back to the members of before
            worker.settle(is_accepted)
            prediction = prediction + proposal.delta if is_accepted else prediction
            shares.append((worker.holds().columns.tobytes(), worker.holds().coef.tobytes()))
        told.append(shares)
    assert told[0] == told[1]
    assert len(set(told[0])) > 3
