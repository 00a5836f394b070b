"""Every engine of online substitution, examined through its contract alone; a toy engine passes it too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from daskfs.losses import LOSSES
from daskfs.selectors.online_substitution.columns import Columns, ColumnSettings, prepared
from daskfs.selectors.online_substitution.engines.base import BatchWidth, Engine, Finished, Rule
from daskfs.selectors.online_substitution.engines.choose import make_engine
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.objective import LossSettings
from daskfs.selectors.shared.record import Record

N_SAMPLES, N_FEATURES, CAPACITY = 200, 120, 6
rng = np.random.default_rng(0)
X = rng.standard_normal((N_SAMPLES, N_FEATURES))
X[:, 11] = 4.0
Z = X[:, [3, 40, 77, 110]] @ [2.0, -1.0, 1.5, -1.0] + 0.5 * rng.standard_normal(N_SAMPLES)
WEIGHT = rng.uniform(0.5, 2.0, N_SAMPLES)


@dataclass(slots=True)
class Marginal(Record):
    coef: np.ndarray


class LargestCorrelations(Engine):
    """A toy: the columns that correlate most with the target, each with the coefficient it would have alone."""

    def __init__(self, members, y):
        super().__init__(members, Rule(), "gram", BatchWidth())
        self.y, self._coef = y, np.zeros(members.capacity)

    @property
    def coef(self):
        return self._coef

    @property
    def value(self):
        residual = self.y - self.members.predict(self._coef, 0.0, np.empty(len(self.y)))
        weight = self.members.weight if len(self.members.weight) else np.ones(len(self.y))
        return float(0.5 * (weight * residual**2).sum() / self.members.total)

    def _take_batch(self, columns):
        members, n_before = self.members, self.counters.n_entered
        products, usable = members.against_target(columns, self.y), members.usable(columns)
        for b in np.flatnonzero(usable):
            slot, counters = members.n_members, self.counters
            counters.n_presented += 1
            if slot == members.capacity:
                sizes = np.abs(self._coef[members.n_fixed :])
                if not len(sizes) or sizes.min() >= abs(products[b]):
                    continue
                slot = members.n_fixed + int(np.argmin(sizes))
                counters.n_exchanged += 1
            counters.n_entered += 1
            members.describe(slot, columns, b)
            members.copy_in(columns, {slot: b})
            self._coef[slot] = products[b]
        return self.counters.n_entered - n_before

    def finish(self):
        return Finished(self._coef.copy(), 0.0, 0.5 * self._coef[: self.members.n_members] ** 2)

    def _state(self):
        return Marginal(self._coef)

    def _restore(self, arrays):
        self._coef = Marginal.unpack(arrays).coef


def target(loss):
    return np.where(Z > 0.2, 1.0, -1.0) if LOSSES[loss].is_classifier else Z - np.average(Z, weights=WEIGHT)


def made(loss, rule, mode, capacity=CAPACITY):
    members = Members(capacity, N_SAMPLES, np.dtype(float), WEIGHT)
    if rule == "toy":
        return LargestCorrelations(members, target(loss))
    told = Rule(rule, ridge=0.0 if loss == "squared" else 0.01)
    return make_engine(members, target(loss), told, mode, LossSettings(LOSSES[loss], 0.1, loss != "squared"))


CASES = [
    ("squared", "toy", "gram"),
    *((loss, "exchange", mode) for loss in ("squared", "logistic") for mode in ("gram", "lazy", "naive")),
    ("squared_hinge", "exchange", "gram"),
    ("epsilon_insensitive", "exchange", "gram"),
    *((loss, rule, "naive") for loss in ("squared", "logistic") for rule in ("os", "paper")),
    *((loss, "os", "lazy") for loss in ("squared", "logistic", "epsilon_insensitive")),
    *(("squared", rule, "gram") for rule in ("os", "paper")),
]
every_engine = pytest.mark.parametrize("case", CASES, ids="-".join)


def columns(*which):
    ids = np.array(which, np.int64)
    return prepared(ids, X[:, ids].T.copy(), ColumnSettings(True, True, False), WEIGHT)


def batch(start, stop):
    return columns(*range(start, stop))


def seen(engine):
    """All that the contract shows of an engine."""
    finished, k = engine.finish(), engine.members.n_members
    counts = engine.counters.pack()
    return [engine.members.ids[:k], engine.coef, engine.intercept, engine.value, *finished, *counts.values()]


def assert_same_bits(one, other):
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


@every_engine
def test_an_engine_holds_no_more_columns_than_it_has_room_for_and_none_twice(case):
    engine = made(*case)
    for start in range(0, N_FEATURES, 50):
        engine.take(batch(start, min(start + 50, N_FEATURES)))
        held = engine.members.ids[: engine.members.n_members]
        assert len(held) == len(set(held.tolist())) <= CAPACITY
        assert 11 not in held  # it is constant
    counters = engine.counters
    assert len(held) == CAPACITY == counters.n_entered - counters.n_exchanged
    assert N_FEATURES - 1 - CAPACITY <= counters.n_presented <= 2 * N_FEATURES
    assert {3, 77} <= set(held.tolist())


@every_engine
def test_the_value_is_the_objective_at_the_coefficients(case):
    loss = case[0]
    engine, y = made(*case), target(loss)
    for start in range(0, N_FEATURES, 40):
        engine.take(batch(start, start + 40))
        z = engine.members.predict(engine.coef, engine.intercept, np.empty(N_SAMPLES))
        losses = {
            "squared": lambda z: 0.5 * (z - y) ** 2,
            "logistic": lambda z: np.log1p(np.exp(-y * z)),
            "squared_hinge": lambda z: 0.5 * np.maximum(0.0, 1.0 - y * z) ** 2,
            "epsilon_insensitive": lambda z: 0.5 * np.maximum(0.0, np.abs(z - y) - 0.1) ** 2,
        }
        expected = np.average(losses[loss](z), weights=WEIGHT) + 0.5 * engine.rule.ridge * (engine.coef**2).sum()
        assert engine.value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "rule"), [("squared_hinge", Rule("exchange", ridge=0.01)), ("logistic", Rule("os", ridge=0.01))]
)
def test_what_is_undone_leaves_no_trace(loss, rule):
    members = Members(CAPACITY, N_SAMPLES, np.dtype(float), WEIGHT)
    mode = "gram" if rule.name == "exchange" else "naive"
    engine = make_engine(members, target(loss), rule, mode, LossSettings(LOSSES[loss], fits_intercept=True))
    engine.take(batch(0, N_FEATURES))
    for start in [*range(0, N_FEATURES, 8)] * 3:
        before = engine.value
        engine.take(batch(start, start + 8))
        assert engine.value <= before * (1.0 + 1e-9)
        held, k = columns(*members.columns.ids), members.n_members
        np.testing.assert_array_equal(members.held, held.rows)
        np.testing.assert_array_equal(members.mean[:k], held.mean)
        fresh = make_engine(
            Members(CAPACITY, N_SAMPLES, np.dtype(float), WEIGHT),
            target(loss),
            rule,
            mode,
            engine.points[0].objective.settings,
        )
        fresh.members.add(held)
        fresh.restore(engine.arrays())
        assert fresh.value == engine.value
    assert engine.counters.n_reverted + engine.counters.n_refused > 0


@every_engine
def test_what_is_presented_is_left_as_it_was(case):
    engine = made(*case)
    presented = batch(0, N_FEATURES)
    kept = columns(*range(N_FEATURES))
    engine.take(presented)
    engine.take(presented)
    for name in ("ids", "rows", "mean", "scale", "square"):
        np.testing.assert_array_equal(getattr(presented, name), getattr(kept, name))


@every_engine
@pytest.mark.parametrize("n_before", [0, 3, 70])
def test_a_restored_engine_goes_on_with_the_same_bits(case, n_before):
    whole, rest = made(*case), batch(n_before, N_FEATURES)
    whole.take(batch(0, n_before))
    saved = whole.arrays()
    whole.take(rest)
    resumed = made(*case)
    if len(saved["ids"]):
        resumed.members.add(columns(*saved["ids"]))
    resumed.restore(saved)
    resumed.take(rest)
    assert_same_bits(seen(resumed), seen(whole))
    again = made(*case)  # what was saved is nobody's to change
    if len(saved["ids"]):
        again.members.add(columns(*saved["ids"]))
    again.restore(saved)
    again.take(rest)
    assert_same_bits(seen(again), seen(whole))


@every_engine
def test_members_that_are_kept_stay(case):
    engine = made(*case)
    engine.take(columns(5, 60))
    engine.keep_members()
    for _ in range(2):
        engine.take(batch(0, N_FEATURES))
    assert engine.members.ids[:2].tolist() == [5, 60]
    assert engine.arrays()["n_fixed"] == 2


@every_engine
def test_finishing_changes_nothing(case):
    engine = made(*case)
    engine.take(batch(0, 80))
    arrays, value = engine.arrays(), engine.value
    finished = engine.finish()
    assert finished.costs.shape == (engine.members.n_members,)
    assert (finished.costs >= 0.0).all()
    assert finished.coef.shape == (CAPACITY,)
    assert engine.value == value
    assert_same_bits(arrays.values(), engine.arrays().values())


@every_engine
def test_a_screen_lets_the_strongest_pass_and_no_member(case):
    engine = made(*case)
    engine.take(batch(41, 105))
    try:
        screen = engine.screen(10)
    except TypeError:
        return
    found = screen.candidates(batch(0, N_FEATURES))
    assert len(found) <= 10
    assert {3, 40} <= set(found.tolist())
    assert not set(found.tolist()) & {*engine.members.ids.tolist(), 11}


# Engines whose prediction is shared with others, as workers drive them

every_shared = pytest.mark.parametrize(
    ("loss", "rule"),
    [(loss, rule) for loss in ("squared", "logistic", "epsilon_insensitive") for rule in ("exchange", "os", "paper")],
)


def begun(loss, rule, held=(3, 9, 60)):
    """Return an engine with members, and the prediction of others."""
    engine = made(loss, rule, "gram")
    if held:
        engine.members.add(columns(*held))
        engine.begin(np.array([1.0, -0.5, 0.2]))
    return engine, 0.5 * columns(77).rows[0] + (0.3 if loss != "squared" else 0.0)


@every_shared
def test_members_have_their_minimum_where_the_gradient_vanishes(loss, rule):
    engine, others = begun(loss, rule)
    engine.meet(others)
    for _ in range(20):
        engine.minimise()
        others = others + engine.intercept  # the intercept is that of all, so others have it
        engine.meet(others)
    z, step = engine.contribution() + others, 1e-4
    rows, y = engine.members.held, target(loss)
    value = lambda z, coef: _mean_loss(loss, z, y) + 0.5 * engine.rule.ridge * (coef**2).sum()  # noqa: E731
    for k in range(3):
        coef = engine.coef[:3].copy()
        least = value(z, coef)
        for sign in (-1.0, 1.0):
            moved = coef.copy()
            moved[k] += sign * step
            assert value(z + sign * step * rows[k], moved) >= least


def _mean_loss(loss, z, y):
    losses = {
        "squared": lambda: 0.5 * (z - y) ** 2,
        "logistic": lambda: np.log1p(np.exp(-y * z)),
        "epsilon_insensitive": lambda: 0.5 * np.maximum(0.0, np.abs(z - y) - 0.1) ** 2,
    }
    return np.average(losses[loss](), weights=WEIGHT)


@pytest.mark.parametrize("rule", ["exchange", "os", "paper"])
def test_what_others_explain_is_left_to_them(rule):
    """An engine that meets a prediction of others selects what it would with the rest as its target."""
    others, y = columns(77).rows[0] * 1.5, target("squared")
    shared = made("squared", rule, "gram")
    shared.meet(others)
    shared.take(batch(0, N_FEATURES))
    members = Members(CAPACITY, N_SAMPLES, np.dtype(float), WEIGHT)
    alone = make_engine(members, y - others, shared.rule, "gram", LossSettings(LOSSES["squared"]))
    alone.take(batch(0, N_FEATURES))
    assert shared.members.ids.tolist() == members.ids.tolist()
    np.testing.assert_allclose(shared.coef, alone.coef, rtol=1e-9)


@every_shared
def test_an_engine_that_reverts_decides_again_as_before(loss, rule):
    engine, others = begun(loss, rule)
    engine.meet(others)
    engine.take(batch(0, 70))
    engine.keep()
    rows, ids, coef = engine.members.rows.copy(), engine.members.ids.copy(), engine.coef.copy()
    found = []
    for _ in range(2):
        engine.meet(0.5 * others)
        engine.take(batch(70, N_FEATURES))
        found.append((engine.members.ids.copy(), engine.coef.copy()))
        engine.revert()
        np.testing.assert_array_equal(engine.members.ids, ids)
        np.testing.assert_array_equal(engine.members.rows[: len(ids)], rows)
        np.testing.assert_array_equal(engine.coef, coef)
    assert found[0][0].tolist() != ids.tolist()
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6, atol=1e-9)


def test_the_papers_step_is_shorter_where_a_prediction_is_shared():
    reached = []
    for rho in (0.0, 3.0):
        members = Members(CAPACITY, N_SAMPLES, np.dtype(float), WEIGHT)
        members.add(columns(3, 9, 60))
        engine = make_engine(
            members, target("squared"), Rule("paper", rho=rho), "gram", LossSettings(LOSSES["squared"])
        )
        engine.begin(np.array([1.0, -0.5, 0.2]))
        engine.meet(np.zeros(N_SAMPLES))
        before = engine.coef.copy()
        engine.take(columns(77))
        reached.append(np.abs(engine.coef - before)[:3].max())
    assert reached[1] == pytest.approx(reached[0] / 4.0)


def test_columns_that_are_kept_come_back_whatever_was_copied_over_them():
    members = Members(3, N_SAMPLES, np.dtype(float))
    members.add(columns(1, 2))
    members.keep()
    for place, name in enumerate((5, 6, 7, 8)):
        slot = place % 3
        members.describe(slot, columns(name), 0)
        members.copy_in(columns(name), {slot: 0})
    for _ in range(2):  # whoever is refused twice goes back twice
        members.revert()
        assert members.n_members == 2
        np.testing.assert_array_equal(members.columns.rows, columns(1, 2).rows)
        assert isinstance(members.columns, Columns)
