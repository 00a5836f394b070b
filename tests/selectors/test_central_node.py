"""The central node of Asy-OS: whatever order messages come in, are repeated, lost or late, its invariants hold."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.matrix.spans import Spans
from daskfs.selectors.asy_os.leases import UNIT_NBYTES, ColumnLeases, Lease
from daskfs.selectors.asy_os.node import (
    FINAL_STATE_COPIES,
    NO_COLUMNS,
    CentralNode,
    Contribution,
    NodeState,
    Proposal,
    Share,
)
from daskfs.selectors.asy_os.run import with_outcomes
from daskfs.selectors.asy_os.session import Spent
from daskfs.selectors.asy_os.task import Outcome
from daskfs.selectors.online_substitution.objective import Objective

N_SAMPLES, N_FEATURES, N_WORKERS, CAPACITY, TAU_MAX, N_EPOCHS, UNIT = 12, 24, 3, 4, 2, 2, 3
X = np.random.default_rng(0).standard_normal((N_SAMPLES, N_FEATURES))
Y = X[:, [1, 5, 9, 20]] @ [2.0, -1.0, 1.0, 1.5] + 0.1 * np.random.default_rng(1).standard_normal(N_SAMPLES)
OF_CLASSES = np.array([Y, X[:, 1] - X[:, 7], -Y])
"""Three classes' numbers, the largest of which is the class."""


def contribution(columns, coef):
    return (X[:, np.asarray(columns, dtype=int)] @ np.asarray(coef, dtype=float)).T


def fitted(columns, others, target=Y):
    """Coefficients that lower the squared loss, and most often the logistic one."""
    chosen = X[:, np.asarray(columns, dtype=int)]
    if not len(columns):
        return np.zeros((0, *target.shape[:-1]))
    return 0.3 * np.linalg.lstsq(chosen, (target - others).T, rcond=None)[0]


def make_node(loss="squared", checks=True, n_ahead=1, n_epochs=N_EPOCHS, n_classes=1):
    y = Y if loss == "squared" else np.where(Y > 0, 1.0, -1.0)
    if n_classes > 1:
        y = np.where(OF_CLASSES.max(axis=0) == OF_CLASSES, 1.0, -1.0)
    objective = Objective(loss, y, NO_WEIGHT, ridge=0.01, fits_intercept=True)
    leases = ColumnLeases(N_FEATURES, UNIT, n_epochs)
    return CentralNode(objective, leases, N_WORKERS, CAPACITY, TAU_MAX, checks, n_ahead, timeout_s=1.0)


def proposed(worker, columns, coef, delta, version):
    return Proposal(Share(worker, np.asarray(columns, np.int64), np.asarray(coef, float)), delta, version)


class Talker:
    """What a worker believes."""

    def __init__(self, told):
        self.sequence, self.share, self.reply = told.sequence, told.share, told.reply
        self.waits_for = None  # the sequence number of its last push, while no answer came


class MessagesAtRandom(RuleBasedStateMachine):
    """Workers that push what they like, over lines that repeat, lose and delay."""

    @initialize(
        loss=st.sampled_from([("squared", 1), ("logistic", 1), ("logistic", 3)]),
        checks=st.booleans(),
        n_ahead=st.integers(1, 2),
        is_later=st.booleans(),
    )
    def begin(self, loss, checks, n_ahead, is_later):
        loss, n_classes = loss
        self.made = (loss, checks, n_ahead, N_EPOCHS, n_classes)
        self.target = Y if n_classes == 1 else OF_CLASSES
        self.node = make_node(*self.made)
        if is_later:
            self._present_every_column_once()
        self.talkers = {}
        self.wire = []  # every push that was ever sent; any may arrive, again and again
        self.verdicts = {}
        self.accepted = 0
        self.seen = {}  # version -> u_C
        self.n_done = 0.0
        self.value, self.version = self.node.state()[1], self.node.state()[0]
        self.is_rebuilt = False

    def _present_every_column_once(self):
        """The second epoch is where one worker is shown what another one holds."""
        for worker in range(N_WORKERS):
            talker = Talker(self.node.register(worker, 9))
            while talker.reply.orders == "work":
                lease = talker.reply.leases[0]
                talker.sequence += 1
                columns = np.array([lease.start] if talker.sequence % 4 else [], np.int64)
                coef = fitted(columns, np.zeros(N_SAMPLES), self.target) * 0.5
                delta = contribution(columns, coef) - contribution(talker.share.columns, talker.share.coef)
                wanted = 9 if worker < N_WORKERS - 1 else N_FEATURES
                push = proposed(worker, columns, coef, delta, self.node.state().version)
                reply = self.node.step(talker.sequence, push, wanted)
                if reply.verdict == "accepted":
                    talker.share = Share(worker, columns, coef)
                else:
                    talker.sequence += 1
                    reply = self.node.step(talker.sequence, Proposal(talker.share, None, 0), wanted)
                talker.reply = reply
                if len(self.node.shares()[worker].columns) and worker < N_WORKERS - 1:
                    break

    @rule(worker=st.integers(0, N_WORKERS - 1), wanted=st.integers(1, 9))
    def register(self, worker, wanted):
        self.talkers[worker] = Talker(self.node.register(worker, wanted))
        share = self.talkers[worker].share
        np.testing.assert_array_equal(share.columns, self.node.shares()[worker].columns)

    @precondition(lambda self: any(t.reply.leases and t.waits_for is None for t in self.talkers.values()))
    @rule(data=st.data(), is_improper=st.booleans(), wanted=st.integers(1, 9))
    def push(self, data, is_improper, wanted):
        ready = sorted(t for t, talker in self.talkers.items() if talker.reply.leases and talker.waits_for is None)
        worker = data.draw(st.sampled_from(ready))
        talker = self.talkers[worker]
        lease = talker.reply.leases[0]
        pool = sorted({*talker.share.columns.tolist(), *range(lease.start, lease.stop)})
        pool = [j for j in pool if j not in talker.reply.held] if not is_improper else list(range(N_FEATURES))
        most = CAPACITY + 2 if is_improper else CAPACITY
        columns = data.draw(st.lists(st.sampled_from(pool), max_size=most, unique=True)) if pool else []
        if data.draw(st.booleans()):  # mostly accepted
            others = talker.reply.prediction - contribution(talker.share.columns, talker.share.coef)
            coef = fitted(columns, others, self.target)
        else:
            coef = np.array([data.draw(st.floats(-2, 2)) for _ in columns])
            coef = coef if self.target.ndim == 1 else np.outer(coef, [1.0, -1.0, 0.5])
        delta = contribution(columns, coef) - contribution(talker.share.columns, talker.share.coef)
        talker.sequence += 1
        talker.waits_for = talker.sequence
        is_unchanged = data.draw(st.booleans())
        version = talker.reply.version
        is_told = (
            Proposal(talker.share, None, version) if is_unchanged else proposed(worker, columns, coef, delta, version)
        )
        self.wire.append((talker.sequence, is_told, wanted))

    @precondition(lambda self: self.wire)
    @rule(data=st.data(), answer_arrives=st.booleans())
    def deliver(self, data, answer_arrives):
        sequence, push, wanted = data.draw(st.sampled_from(self.wire))
        worker = push.share.worker
        reply = self.node.step(sequence, push, wanted)
        if reply.verdict != "superseded":
            before = self.verdicts.setdefault((worker, sequence), reply.verdict)
            assert reply.verdict == before, "a repeated step has the verdict of the first"
        talker = self.talkers.get(worker)
        if not answer_arrives or talker is None or talker.waits_for != sequence:
            return
        talker.waits_for = None
        if reply.verdict == "superseded":
            del self.talkers[worker]
            return
        if reply.verdict == "accepted" and push.delta is not None:
            talker.share = push.share
        talker.reply = reply.after(talker.reply)
        assert talker.reply.orders != "work" or talker.reply.prediction is not None

    @precondition(lambda self: self.talkers)
    @rule(data=st.data(), waited_s=st.sampled_from([0.0, 2.0]))
    def ask(self, data, waited_s):
        worker = data.draw(st.sampled_from(sorted(self.talkers)))
        talker = self.talkers[worker]
        if talker.waits_for is None:
            self._take(worker, self.node.wait(worker, talker.sequence, waited_s))

    @precondition(lambda self: any(t.reply.orders == "contribute" for t in self.talkers.values()))
    @rule(data=st.data(), is_late=st.booleans())
    def contribute(self, data, is_late):
        ready = sorted(t for t, talker in self.talkers.items() if talker.reply.orders == "contribute")
        worker = data.draw(st.sampled_from(ready))
        talker = self.talkers[worker]
        share, epoch = talker.reply.share, talker.reply.epoch - is_late
        self.is_rebuilt = True
        told = contribution(share.columns, share.coef) * (2.0 if is_late else 1.0)  # of an epoch that is over
        self._take(worker, self.node.contribute(worker, talker.sequence, Contribution(share.worker, epoch, told)))

    def _take(self, worker, reply):
        if reply.verdict == "superseded":
            del self.talkers[worker]
        else:
            self.talkers[worker].reply = reply

    @rule()
    def lose_the_node(self):
        state = NodeState.unpack(self.node.checkpoint().pack())
        total = sum((contribution(s.columns, s.coef) for s in state.shares), np.zeros(N_SAMPLES))
        held = [(share.columns.tolist(), share.coef.tolist()) for share in self.node.shares()]
        self.node = make_node(*self.made)
        self.node.restore(state, total)
        assert [(share.columns.tolist(), share.coef.tolist()) for share in self.node.shares()] == held
        self.is_rebuilt = True

    @invariant()
    def the_prediction_is_the_sum_of_the_contributions(self):
        _, value, intercept, prediction = self.node.state()
        shares = self.node.shares()
        total = intercept + sum((contribution(s.columns, s.coef) for s in shares), np.zeros(N_SAMPLES))
        np.testing.assert_allclose(prediction, total, atol=1e-10)
        objective = self.node._objective
        penalty = sum(objective.penalty(share.coef) for share in shares)
        assert value == pytest.approx(objective.value(total, penalty), rel=1e-9, abs=1e-12)

    @invariant()
    def a_column_is_held_once_and_nobody_holds_too_many(self):
        shares = self.node.shares()
        held = np.concatenate([share.columns for share in shares])
        assert len(np.unique(held)) == len(held)
        assert max(len(share.columns) for share in shares) <= CAPACITY
        assert sorted(self.node._owner) == sorted(held.tolist())

    @invariant()
    def a_version_is_one_prediction_for_ever(self):
        version, value, _, prediction = self.node.state()
        known = self.seen.setdefault(version, (prediction, prediction.copy()))
        np.testing.assert_array_equal(known[0], known[1])  # nothing that was sent is changed afterwards
        np.testing.assert_array_equal(known[1], prediction)
        assert version >= self.version
        if self.made[1] and not self.is_rebuilt:
            assert value <= self.value + 1e-9, "the objective does not rise"
        self.value, self.version, self.is_rebuilt = value, version, False

    @invariant()
    def staleness_is_bounded_and_what_is_done_stays_done(self):
        progress = self.node.progress()
        assert progress["worst_staleness"] <= TAU_MAX
        assert progress["n_done"] >= self.n_done
        self.n_done = progress["n_done"]
        leases = self.node._leases
        leased = [(t, lease) for t, held in self.node._held_leases.items() for lease in held]
        for worker, lease in leased:
            units = slice(lease.start // UNIT, -(-lease.stop // UNIT))
            assert (leases.holder[units] == worker).all()
            assert not leases.is_done[units].any()
        assert (leases.holder >= 0).sum() == sum(-(-(lease.stop - lease.start) // UNIT) for _, lease in leased)

    def teardown(self):
        """Whatever happened, one patient worker brings the run to its end."""
        if not hasattr(self, "node"):
            return
        talker = Talker(self.node.register(0))
        for _ in range(40 * N_EPOCHS * N_FEATURES):
            reply = talker.reply
            if reply.orders == "finished":
                break
            if reply.orders == "work":
                talker.sequence += 1
                talker.reply = self.node.step(talker.sequence, Proposal(self.node.shares()[0], None, reply.version))
            elif reply.orders == "contribute":
                told = contribution(reply.share.columns, reply.share.coef)
                told = Contribution(reply.share.worker, reply.epoch, told)
                talker.reply = self.node.contribute(0, talker.sequence, told)
            else:
                talker.reply = self.node.wait(0, talker.sequence, waited_s=2.0)
        assert self.node.progress()["is_finished"]
        self.the_prediction_is_the_sum_of_the_contributions()


MessagesAtRandom.TestCase.settings = settings(
    max_examples=settings.default.max_examples // 4, suppress_health_check=list(HealthCheck)
)
TestMessagesAtRandom = MessagesAtRandom.TestCase


def at_work(node, worker, columns=(), coef=()):
    """Register, and push some columns of the first lease."""
    told = node.register(worker, N_FEATURES)
    push = proposed(worker, columns, coef, contribution(columns, coef), told.reply.version)
    return told, (told.sequence + 1, push)


@pytest.mark.parametrize("spans", [None, Spans(1000, 500)])
def test_leases_take_what_is_planned_of_a_unit(spans):
    n_units = 500_000
    tracemalloc.start()
    try:
        leases = ColumnLeases(n_units, 1, 2, spans=spans)
        for _ in range(2):
            for worker in (0, 1):
                lease = leases.take(worker, 100)
                leases.finish(worker, lease)
                leases.take(worker, 100)
            state = leases.state()
            leases.next_epoch()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(state.owner) == n_units
    assert 21 * n_units <= peak <= UNIT_NBYTES * n_units


def test_a_push_of_what_lowers_the_objective_is_taken():
    node = make_node()
    _, message = at_work(node, 0, [1, 5], [2.0, -1.0])
    reply = node.step(*message)
    assert reply.verdict == "accepted"
    assert reply.version == 1
    np.testing.assert_allclose(node.state()[3], contribution([1, 5], [2.0, -1.0]))


def test_a_push_that_raises_the_objective_is_refused_and_the_lease_stays():
    node = make_node()
    told, message = at_work(node, 0, [1], [-50.0])
    reply = node.step(*message)
    assert (reply.verdict, reply.orders, reply.leases) == ("refused", "work", told.reply.leases)
    assert node.progress()["rising"] == 1
    unchecked = make_node(checks=False)
    _, message = at_work(unchecked, 0, [1], [-50.0])
    assert unchecked.step(*message).verdict == "accepted"


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ([1, 1], "a column twice"),
        ([0, 1, 2, 3, 4], "more than there is room for"),
        ([20], "one that is not in the lease"),
    ],
)
def test_improper_shares_are_refused(columns, fault):
    node = make_node()
    told = node.register(0, 6)
    assert told.reply.leases == (Lease(0, 0, 6),)
    zeros = np.zeros(len(columns))
    reply = node.step(told.sequence + 1, proposed(0, columns, zeros, np.zeros(N_SAMPLES), 0))
    assert reply.verdict == "refused", fault
    assert node.progress()["improper"] == 1


def test_who_holds_a_column_that_is_always_included_cannot_give_it_up():
    objective = Objective("squared", Y, NO_WEIGHT, ridge=0.01)
    leases = ColumnLeases(N_FEATURES, UNIT, N_EPOCHS)
    node = CentralNode(objective, leases, N_WORKERS, CAPACITY, TAU_MAX, always=(20,))
    shares = (Share(0, np.array([20]), np.array([0.5])), *(Share(t, NO_COLUMNS, np.zeros(0)) for t in (1, 2)))
    node.restore(replace(node.checkpoint(), shares=shares), contribution([20], [0.5]))
    told = node.register(0, N_FEATURES)
    held = contribution([20], [0.5])
    away = proposed(0, [1], [1.0], contribution([1], [1.0]) - held, told.reply.version)
    assert node.step(told.sequence + 1, away).verdict == "refused"
    assert node.progress()["improper"] == 1
    beside = proposed(0, [20, 1], [0.5, 1.0], contribution([1], [1.0]), told.reply.version)
    assert node.step(told.sequence + 2, beside).verdict == "accepted"


@pytest.mark.parametrize("shape", [(1,), (1, 2), (2, 3)])
def test_coefficients_of_another_number_of_classes_are_refused(shape):
    node = make_node("logistic", n_classes=3)
    told = node.register(0, N_FEATURES)
    push = proposed(0, [1], np.zeros(shape), np.ones((3, N_SAMPLES)), told.reply.version)
    assert node.step(told.sequence + 1, push).verdict == "refused"
    assert node.progress()["improper"] == 1


def test_the_objective_of_several_classes_is_the_sum_of_theirs():
    node, prediction = make_node("logistic", n_classes=3), np.random.default_rng(2).standard_normal((3, N_SAMPLES))
    several, coef = node._objective, np.random.default_rng(3).standard_normal((4, 3))
    alone = [Objective("logistic", y, NO_WEIGHT, ridge=0.01, fits_intercept=True) for y in several.y]
    penalties = [one.penalty(own) for one, own in zip(alone, coef.T, strict=True)]
    values = [one.value(*own) for one, own in zip(alone, zip(prediction, penalties, strict=True), strict=True)]
    assert several.value(prediction, several.penalty(coef)) == pytest.approx(sum(values), rel=1e-12)
    least = sum(one.without_features()[1] for one in alone)
    assert several.without_features()[1] == pytest.approx(least, rel=1e-10)
    assert several.intercept.shape == (3, 1)
    for found, expected in zip(
        several.derivatives(prediction),
        zip(*[one.derivatives(own) for one, own in zip(alone, prediction, strict=True)], strict=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_what_is_not_finite_is_refused():
    node = make_node(checks=False)
    _, message = at_work(node, 0, [1], [np.nan])
    assert node.step(*message).verdict == "refused"


def test_what_was_computed_from_an_old_prediction_is_refused():
    node = make_node(checks=False)
    slow, quick = node.register(0, 3), node.register(1, 3)
    sequence = quick.sequence
    for k in range(TAU_MAX + 1):
        lease = node._held_leases[1][0]
        coef = np.full(1, 0.1 * k)
        before = node.shares()[1]
        delta = contribution([lease.start], coef) - contribution(before.columns, before.coef)
        sequence += 1
        assert node.step(sequence, proposed(1, [lease.start], coef, delta, k), 3).verdict == "accepted"
    late = node.step(slow.sequence + 1, proposed(0, [0], [0.1], contribution([0], [0.1]), 0))
    assert late.verdict == "refused"
    again = node.step(slow.sequence + 2, proposed(0, [0], [0.1], contribution([0], [0.1]), late.version))
    assert again.verdict == "accepted"
    assert node.progress()["stale"] == 1


def test_a_repeated_step_counts_once():
    node = make_node()
    _, message = at_work(node, 0, [1], [1.0])
    first = node.step(*message)
    second = node.step(*message)
    assert (first.verdict, first.version, first.leases) == (second.verdict, second.version, second.leases)
    assert node.progress()["accepted"] == 1


def test_who_was_replaced_is_told_to_register():
    node = make_node()
    _, message = at_work(node, 0, [1], [1.0])
    again = node.register(0)
    reply = node.step(*message)
    assert (reply.verdict, reply.orders) == ("superseded", "register")
    assert node.state()[0] == 0
    assert again.sequence > message[0]


def test_a_lost_workers_columns_go_to_whoever_waits():
    node = make_node(n_epochs=1)
    gone, there = node.register(0, N_FEATURES // 2), node.register(1, N_FEATURES)
    reply = node.step(there.sequence + 1, Proposal(Share(1, NO_COLUMNS, np.zeros(0)), None, 0))
    assert reply.orders == "wait"
    assert node.wait(1, there.sequence + 1, waited_s=0.5).orders == "wait"
    taken = node.wait(1, there.sequence + 1, waited_s=2.0, wanted=N_FEATURES)
    assert taken.leases == gone.reply.leases


def test_a_contribution_of_who_is_gone_is_computed_by_another():
    node = make_node(n_epochs=1)
    _, message = at_work(node, 0, [1], [1.0])
    node.step(*message)  # the epoch is over, and worker 0 never heard of again
    other = node.register(1)
    assert other.reply.orders == "wait"
    reply = node.wait(1, other.sequence, waited_s=2.0)
    assert (reply.orders, reply.share.worker) == ("contribute", 0)
    done = node.contribute(1, other.sequence, Contribution(0, reply.epoch, contribution([1], [1.0])))
    assert done.orders == "finished"


def test_an_epoch_that_changes_nobody_is_the_last():
    node = make_node(n_epochs=5)
    told = node.register(0, N_FEATURES)
    reply = node.step(told.sequence + 1, Proposal(Share(0, NO_COLUMNS, np.zeros(0)), None, 0))
    assert reply.orders == "finished"


def test_the_next_epoch_gives_columns_to_another_worker():
    leases = ColumnLeases(12, 3, 2)
    for worker, n_columns in ((0, 6), (1, 6)):
        leases.finish(worker, leases.take(worker, n_columns))
    assert leases.epoch_is_over
    leases.next_epoch()
    assert leases.take(0, 6) == Lease(1, 6, 12)
    assert leases.take(1, 6) == Lease(1, 0, 6)
    same = ColumnLeases(12, 3, 2, exchanges=False)
    for worker, n_columns in ((0, 6), (1, 6)):
        same.finish(worker, same.take(worker, n_columns))
    same.next_epoch()
    assert same.take(1, 6) == Lease(1, 6, 12)


def test_what_workers_return_is_newer_than_the_checkpoint_and_columns_stay_single():
    shares = (Share(0, np.array([3, 4]), np.array([0.3, 0.4])), Share(1, np.array([7]), np.array([0.7])))
    state = replace(make_node().checkpoint(), shares=shares, sequence=np.array([5, 9]))
    heard = Outcome(False, 12, Share(1, np.array([4, 8]), np.array([1.4, 1.8])), Spent())
    old = Outcome(False, 3, Share(0, np.array([1]), np.array([0.1])), Spent())
    joined = with_outcomes(state, [heard, old])
    assert [share.columns.tolist() for share in joined.shares] == [[3], [4, 8]]  # 4 stays with whom was heard of last
    assert joined.sequence.tolist() == [5, 12]


def test_a_long_trace_is_thinned_out():
    node = make_node(n_epochs=1)
    for k in range(3 * 8192):
        node._remember(0, k, 1.0)
    assert 4096 <= len(node.trace()) <= 8192


def test_a_worker_gets_what_it_has_read_and_then_what_nobody_else_is_in():
    leases = ColumnLeases(30, 3, 1, spans=Spans(tile=12, part=6))
    taken = [(worker, leases.take(worker, 6)) for worker in (0, 1, 0, 1)]
    assert [(lease.start, lease.stop) for _, lease in taken] == [(0, 6), (6, 12), (12, 18), (18, 24)]
    leases.give_back(1)
    assert leases.take(1, 3) == Lease(0, 18, 21)  # where it was last
    assert leases.take(0, 3) == Lease(0, 6, 9)
    assert leases.take(1, 6) == Lease(0, 21, 24)
    assert leases.take(1, 6) == Lease(0, 24, 30)
    assert leases.take(1, 6) == Lease(0, 9, 12)  # of one that another is in, as nothing else is left
    assert leases.take(1, 6) is None


@pytest.mark.parametrize("seed", range(10))
def test_all_columns_are_leased_once_whatever_is_read_at_once(seed):
    rng = np.random.default_rng(seed)
    unit, n_features = int(rng.integers(1, 5)), int(rng.integers(1, 90))
    n_units = int(rng.integers(1, 8))
    part = unit * int(rng.integers(1, n_units + 1))
    leases = ColumnLeases(n_features, unit, 1, spans=Spans(n_units * unit, part))
    seen = np.zeros(n_features, int)
    while not leases.epoch_is_over:
        worker = int(rng.integers(3))
        lease = leases.take(worker, int(rng.integers(1, 12)))
        seen[lease.start : lease.stop] += 1
        leases.finish(worker, lease)
    assert (seen == 1).all()


def test_the_result_is_told_to_the_first_that_asks_and_to_a_few_in_any_case():
    node = make_node(n_epochs=1)
    assert node.final_state_for(0) is None  # nothing is done yet
    told = node.register(0, N_FEATURES)
    node.step(told.sequence + 1, Proposal(Share(0, NO_COLUMNS, np.zeros(0)), None, 0))
    first = node.final_state_for(FINAL_STATE_COPIES)
    assert first.counts == node.progress()
    np.testing.assert_array_equal(first.standing.prediction, node.state().prediction)
    assert node.final_state_for(FINAL_STATE_COPIES) is None
    assert [node.final_state_for(worker) is None for worker in range(FINAL_STATE_COPIES)] == [
        False
    ] * FINAL_STATE_COPIES
