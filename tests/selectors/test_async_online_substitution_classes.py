"""Asynchronous online substitution with more than two classes: as many predictions, by columns that they share."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from daskfs import AsyncOnlineSubstitution, OnlineSubstitution
from daskfs.errors import ConfigError
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.losses import TargetKind
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.asy_os import run as asy_os_run
from daskfs.selectors.asy_os.node import NO_COLUMNS, Reply, Share
from daskfs.selectors.asy_os.plan import AsyncShape
from daskfs.selectors.asy_os.worker import SubstitutionWorker, WorkerSettings, contribution_of
from daskfs.selectors.online_substitution.columns import ColumnSettings, read_columns
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.online_substitution.objective import Objective
from daskfs.selectors.shared.elimination import eliminate
from daskfs.selectors.shared.refit import MeanLoss
from daskfs.selectors.shared.run import Run
from tests.refusals import refused

LABELS = np.array(["ash", "elm", "fir", "oak", "yew"])
RIDGE = 0.02


def planted(seed, n_classes, n_samples=400, n_features=200, n_selected=8, strength=1.0):
    """Pairs of correlated columns, of which some tell the classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    X[:, 1::2] = 0.6 * X[:, ::2] + 0.8 * X[:, 1::2]
    selected = np.sort(rng.choice(n_features, n_selected, replace=False))
    signs = rng.permuted(np.tile(np.resize([-1.0, 1.0], n_classes)[:, None], n_selected), axis=0)
    coef = strength * signs * rng.uniform(0.6, 1.5, (n_classes, n_selected))
    utility = X[:, selected] @ coef.T + rng.gumbel(size=(n_samples, n_classes))
    return X, LABELS[utility.argmax(axis=1)], selected


def cost_of(X, labels, columns):
    """Return the sum over the classes of the mean loss on some columns."""
    Z = (X[:, columns] - X[:, columns].mean(axis=0)) / X[:, columns].std(axis=0)
    model = OnlineSubstitution(len(columns), loss="logistic", ridge=RIDGE).fit(Z, labels)
    total = 0.5 * RIDGE * (model.coef_**2).sum()
    for label, z in zip(model.classes_, model.decision_function(Z).T, strict=True):
        total += np.logaddexp(0.0, np.where(labels == label, -z, z)).mean()
    return total


@pytest.mark.slow_cases("5", "synchronous", "simulated")
@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("schedule", ["asynchronous", "simulated", "synchronous"])
def test_workers_in_turn_find_what_one_stream_finds(schedule, n_classes):
    """With the same budget; strong columns for certain, weak ones as far as these can be told from noise."""
    behind = []
    for seed in range(4):
        X, labels, selected = planted(seed, n_classes)
        alone = OnlineSubstitution(8, loss="logistic").fit(X, labels)
        several = AsyncOnlineSubstitution(8, n_workers=3, schedule=schedule, loss="logistic").fit(X, labels)
        np.testing.assert_array_equal(np.sort(several.selected_), selected)
        np.testing.assert_array_equal(np.sort(alone.selected_), selected)
        np.testing.assert_allclose(several.coef_, alone.coef_, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(several.intercept_, alone.intercept_, rtol=1e-5)
        weak, labels, _ = planted(seed, n_classes, strength=0.3)
        alone = OnlineSubstitution(8, loss="logistic").fit(weak, labels)
        several = AsyncOnlineSubstitution(8, n_workers=3, schedule=schedule, loss="logistic").fit(weak, labels)
        behind.append(cost_of(weak, labels, several.selected_) / cost_of(weak, labels, alone.selected_) - 1.0)
    assert np.mean(behind) < 0.002
    assert max(behind) < 0.01


def test_each_class_has_its_coefficients_and_is_predicted():
    X, labels, selected = planted(0, 5)
    selector = AsyncOnlineSubstitution(8, n_workers=2, block_columns=16).fit(X, labels)
    assert selector.loss_ == "logistic"
    assert selector.coef_.shape == (5, 200)
    assert selector.intercept_.shape == (5,)
    assert (selector.coef_[:, selected] != 0.0).all()
    np.testing.assert_array_equal(selector.classes_, LABELS)
    assert selector.decision_function(X).shape == (400, 5)
    np.testing.assert_allclose(selector.predict_proba(X).sum(axis=1), 1.0)
    assert selector.score(X, labels) > 0.7
    norms = np.linalg.norm(selector.coef_[:, selector.selected_], axis=0)
    np.testing.assert_allclose(selector.result_.table["coef"], norms)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_of_all_classes_never_rises(seed, loss):
    X, labels, _ = planted(seed, 3, strength=0.5)
    told = {"n_workers": 5, "schedule": "synchronous", "block_columns": 8, "loss": loss}
    history = AsyncOnlineSubstitution(12, **told).fit(X, labels).result_.history
    objective = history["objective"].to_numpy()
    assert (np.diff(objective) <= 1e-9 * objective[0]).all()
    assert objective[-1] < 0.9 * objective[0]


def test_scores_are_what_dropping_a_column_would_cost():
    X, labels, _ = planted(3, 3, n_features=20)
    selector = AsyncOnlineSubstitution(5, n_workers=2, ridge=RIDGE, loss="logistic").fit(X, labels)
    whole = cost_of(X, labels, selector.selected_)
    for j in selector.selected_.tolist():
        without = [column for column in selector.selected_.tolist() if column != j]
        cost = cost_of(X, labels, without) - whole
        assert selector.scores_[j] == pytest.approx(cost, rel=0.35)  # of the quadratic approximation


def test_a_weight_of_two_counts_as_the_row_twice():
    X, labels, _ = planted(1, 3)
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    told = {"n_workers": 2, "loss": "logistic", "block_columns": 8}
    weighted = AsyncOnlineSubstitution(8, **told).fit(X, labels, weight)
    repeated = AsyncOnlineSubstitution(8, **told).fit(X.repeat(weight, axis=0), labels.repeat(weight))
    np.testing.assert_array_equal(weighted.selected_, repeated.selected_)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)


def test_a_rare_class_has_its_own_column():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((2000, 30))
        labels = np.where(X[:, 3] > 1.8, "rare", np.where(X[:, 8] + 0.5 * rng.standard_normal(2000) > 0.0, "a", "b"))
        selector = AsyncOnlineSubstitution(2, n_workers=2).fit(X, labels)
        assert set(selector.selected_.tolist()) == {3, 8}


def test_copies_are_not_selected():
    X, labels, selected = planted(2, 3)
    X = np.hstack([X, X[:, selected]])
    selector = AsyncOnlineSubstitution(8, n_workers=3).fit(X, labels)
    found = [j if j < 200 else selected[j - 200] for j in selector.selected_.tolist()]
    np.testing.assert_array_equal(np.sort(found), selected)


class Kept:
    """A checkpoint in memory that breaks off a run."""

    def __init__(self, breaks_at):
        self.arrays, self.breaks_at, self.n_saved = {}, breaks_at, 0

    def save(self, name, arrays):
        self.n_saved += 1
        self.arrays[name] = {key: array.copy() for key, array in arrays.items()}
        if self.n_saved == self.breaks_at:
            raise KeyboardInterrupt

    def load(self, name):
        return self.arrays.get(name)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("schedule", ["simulated", "synchronous"])
def test_an_interrupted_run_ends_with_the_same_bits(loss, schedule):
    X, labels, _ = planted(1, 3, n_features=60, n_selected=6)
    matrix = ArrayMatrix(X, np.searchsorted(LABELS, labels).astype(float))
    told = {"n_workers": 3, "schedule": schedule, "loss": loss, "block_columns": 4}
    whole = AsyncOnlineSubstitution(6, **told).fit(matrix)
    kept = Kept(breaks_at=1)
    with pytest.raises(KeyboardInterrupt):
        AsyncOnlineSubstitution(6, **told).fit_matrix(matrix, checkpoint=kept)
    assert kept.arrays["async_online_substitution-select"]["intercept"].shape == (3, 1)
    resumed = AsyncOnlineSubstitution(6, **told).fit_matrix(matrix, checkpoint=kept)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    np.testing.assert_array_equal(resumed.scores_, whole.scores_)
    pd.testing.assert_frame_equal(resumed.result_.history, whole.result_.history, check_exact=True)


def test_workers_that_never_come_cost_no_class_a_feature(monkeypatch):
    """One worker takes over what is held, with the intercepts of all classes, and is shown the columns once more."""
    monkeypatch.setattr(asy_os_run, "range", lambda n_workers: range(min(n_workers, 2)), raising=False)
    for seed in range(4):
        X, labels, selected = planted(seed, 3)
        selector = AsyncOnlineSubstitution(8, n_workers=5, block_columns=16).fit(X, labels)
        assert any("presented again at the end" in note for note in selector.result_.notes)
        np.testing.assert_array_equal(np.sort(selector.selected_), selected)


def made_worker(n_classes, n_samples=300, n_features=60, capacity=6, seed=0):
    """Return a worker, the columns as a matrix, and what it is told first."""
    X, labels, _ = planted(seed, n_classes, n_samples=n_samples, n_features=n_features)
    matrix, how = ArrayMatrix(X, np.zeros(n_samples)), ColumnSettings(True, True, False)
    y = np.where(labels == LABELS[:n_classes, None], 1.0, -1.0)
    objective = Objective("logistic", y, NO_WEIGHT, ridge=RIDGE, fits_intercept=True)
    settings = WorkerSettings(objective, Rule(ridge=RIDGE), how, np.dtype(np.float64))
    worker = SubstitutionWorker(settings, capacity)
    worker.take_back(matrix, Share(0, NO_COLUMNS, objective.no_coef))
    return worker, matrix, objective.without_features()[0]


@pytest.mark.parametrize("seed", range(4))
def test_the_models_of_the_classes_stay_those_of_the_members(seed):
    """Whatever was exchanged: products, inverses and minima are what they are when computed anew."""
    worker, matrix, prediction = made_worker(3, seed=seed)
    objective = worker.settings.objective
    how, n_examined = worker.settings.columns, 0
    for turn, start in enumerate([*range(0, 60, 12), *range(0, 60, 12)]):
        block = read_columns(matrix, np.arange(start, start + 12), how)
        before = objective.value(prediction, objective.penalty(worker.holds().coef))
        proposal = worker.present(block, Reply("accepted", "work", turn, prediction))
        k, rows = worker.members.n_members, worker.members.held
        approximations = worker.engine._approximations or ()  # none: computed anew at the next look
        n_examined += len(approximations) > 0
        for one in approximations:
            mean = rows @ one.curvature / one.total
            products = (rows - mean[:, None]) * one.curvature @ (rows - mean[:, None]).T / rows.shape[1]
            np.testing.assert_allclose(one.squares[:k], np.diagonal(products), atol=1e-10)
            np.testing.assert_allclose(one.inverse[:k, :k] @ (products + RIDGE * np.eye(k)), np.eye(k), atol=1e-8)
        if proposal.delta is not None:
            penalty = objective.penalty(proposal.share.coef)
            after = objective.with_best_intercept(prediction + proposal.delta, penalty)[0]
            assert after <= before + 1e-12
            prediction = prediction + proposal.delta
        worker.settle(proposal.delta is not None)
        total = contribution_of(matrix, worker.settings, worker.holds())
        np.testing.assert_allclose(worker.contribution(), total, atol=1e-10)
    assert worker.holds().coef.shape == (6, 3)
    assert n_examined >= 4


@pytest.mark.parametrize("seed", range(4))
def test_a_refused_block_leaves_everything_as_it_was(seed):
    worker, matrix, prediction = made_worker(3, seed=seed)
    first = read_columns(matrix, np.arange(30), worker.settings.columns)
    proposal = worker.present(first, Reply("accepted", "work", 0, prediction))
    worker.settle(True)
    held, prediction = worker.holds(), prediction + proposal.delta
    second = read_columns(matrix, np.arange(30, 60), worker.settings.columns)
    changed = worker.present(second, Reply("accepted", "work", 1, prediction))
    assert changed.delta is not None
    worker.settle(False)
    np.testing.assert_array_equal(worker.holds().columns, held.columns)
    np.testing.assert_array_equal(worker.holds().coef, held.coef)
    np.testing.assert_allclose(worker.contribution(), contribution_of(matrix, worker.settings, held), atol=1e-12)


def test_elimination_drops_what_costs_all_classes_least():
    X, labels, selected = planted(1, 3, n_features=24, n_selected=6)
    matrix = ArrayMatrix(X, np.searchsorted(LABELS, labels).astype(float))
    losses = [MeanLoss("logistic", float(k), ridge=RIDGE) for k in range(3)]
    others = np.setdiff1d(np.arange(24), selected)[:4]
    kept = eliminate(Run(matrix, "test"), np.concatenate([others, selected]), 6, losses)
    np.testing.assert_array_equal(np.sort(kept.columns), selected)
    copied = ArrayMatrix(np.hstack([X, X[:, selected[:1]]]), matrix.read_target())
    kept = eliminate(Run(copied, "test"), np.array([*selected, 24]), 7, losses)
    np.testing.assert_array_equal(np.sort(kept.columns), selected)


@pytest.mark.parametrize("rule", ["os", "paper"])
def test_other_rules_are_refused_with_more_than_two_classes(rule):
    X, labels, _ = planted(0, 3, n_samples=100)
    with refused(ConfigError, "parameters", at="rule", naming=[rule, "3"]):
        AsyncOnlineSubstitution(3, rule=rule).fit(X, labels)
    with refused(ConfigError, "parameters", at="rule", naming=[rule, "3"]):
        AsyncOnlineSubstitution(3, rule=rule).plan(100, 200, "float64", None, target=TargetKind(3))


@pytest.mark.slow
@pytest.mark.slow_cases("5")
@pytest.mark.parametrize("n_classes", [3, 5])
def test_a_worker_takes_no_more_than_is_planned_of_it(n_classes):
    n_samples, n_features, capacity = 20_000, 256, 8
    worker, matrix, prediction = made_worker(n_classes, n_samples, n_features, capacity=1)
    numbers = {"n_features": n_features, "n_selected": capacity, "n_workers": 1, "capacity": capacity, "itemsize": 8}
    more = {"n_epochs": 1, "tile_columns": 64, "block_columns": 128, "in_turn": False}
    planned = AsyncShape(n_samples, **numbers, **more, n_problems=n_classes).worker(128).nbytes
    blocks = [read_columns(matrix, np.arange(j, j + 128), worker.settings.columns) for j in (0, 128)]
    settings = worker.settings
    tracemalloc.start()
    try:
        worker = SubstitutionWorker(settings, capacity)
        worker.take_back(matrix, Share(0, NO_COLUMNS, settings.objective.no_coef))
        for turn, block in enumerate(blocks):
            proposal = worker.present(block, Reply("accepted", "work", turn, prediction))
            worker.settle(True)
            prediction = prediction + proposal.delta
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert worker.members.is_full
    assert 0.4 * planned < peak <= planned


def test_a_plan_has_the_vectors_of_each_class():
    selector = AsyncOnlineSubstitution(100, n_workers=4, loss="logistic")
    plans = {n: selector.plan(100_000, 5_000, "float32", None, n_threads=4, target=TargetKind(n)) for n in (2, 7)}
    for part in ("vectors over the rows", "their products", "the central node"):
        assert plans[7].task.terms[part] == 7 * plans[2].task.terms[part]
    for part in ("selected columns", "blocks of columns"):
        assert plans[7].task.terms[part] == plans[2].task.terms[part]
    alone = AsyncOnlineSubstitution(100, n_workers=1, loss="logistic")
    plan = alone.plan(1_000, 1_000_000, "float32", None, n_threads=2, target=TargetKind(7))
    assert plan.client.terms["coefficients of further classes"] == 6 * 8 * 1_000_000
