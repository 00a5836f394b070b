"""Online substitution with whole groups: columns alone are groups of one, and what depends on others breaks nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import daskfs
from daskfs.errors import ConfigError, DataError
from daskfs.kernels.substitution.group_exchange import drop, enlarge, group_costs, orthonormalise
from daskfs.selectors.online_substitution.columns import ColumnSettings, prepared
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.online_substitution.engines.choose import make_engine
from daskfs.selectors.online_substitution.groups import StreamedGroups
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from daskfs.selectors.online_substitution.target import loss_settings
from tests.refusals import refused
from tests.tolerances import assert_same_answer, tolerance_of

pytestmark = pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")


def columns_of(seed, n=120, p=60, kind="plain"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    if kind == "correlated":
        X += rng.standard_normal((n, 1))
    if kind == "copies":
        X[:, 1::5] = X[:, ::5] + 0.01 * rng.standard_normal((n, len(range(1, p, 5))))
    y = X[:, rng.choice(p, 8, replace=False)] @ rng.standard_normal(8) + 0.3 * rng.standard_normal(n)
    return X, y


def target_of(y, loss):
    return (y > np.median(y)).astype(float) if loss in ("logistic", "squared_hinge") else y


WAYS = [
    ("exchange", "squared", "auto", "sequential"),
    ("exchange", "squared", "lazy", "sequential"),
    ("exchange", "squared", "gram", "screen"),
    ("exchange", "logistic", "auto", "sequential"),
    ("exchange", "squared_hinge", "naive", "sequential"),
    ("exchange", "epsilon_insensitive", "auto", "screen"),
    ("os", "squared", "naive", "sequential"),
    ("os", "logistic", "naive", "sequential"),
    ("paper", "squared", "naive", "sequential"),
    ("paper", "logistic", "auto", "sequential"),
]


@pytest.mark.parametrize(("rule", "loss", "engine", "schedule"), WAYS)
@pytest.mark.parametrize("kind", ["plain", "correlated", "copies"])
@pytest.mark.parametrize("seed", range(2))
def test_groups_of_one_column_are_selected_as_columns_are(rule, loss, engine, schedule, kind, seed):
    X, y = columns_of(seed, kind=kind)
    X[:, 7] = 3.0  # constant
    options = {"rule": rule, "loss": loss, "engine": engine, "schedule": schedule, "ridge": (None, 0.01)[seed]}
    options |= {"order": ("fixed", "shuffled")[seed], "random_state": 3}
    plain = OnlineSubstitution(8, **options).fit(X, target_of(y, loss))
    grouped = OnlineSubstitution(8, feature_groups=np.arange(60), **options).fit(X, target_of(y, loss))
    assert sorted(grouped.selected_) == sorted(plain.selected_)
    np.testing.assert_allclose(grouped.coef_, plain.coef_, rtol=1e-6, atol=1e-9)
    assert grouped.result_.history["n_exchanged"].iloc[-1] == plain.result_.history["n_exchanged"].iloc[-1]


@pytest.mark.parametrize("seed", range(12))
def test_every_engine_takes_the_same_groups_whatever_the_blocks(seed):
    X, y = columns_of(seed, kind=("plain", "correlated", "copies")[seed % 3])
    labels = np.random.default_rng(seed).integers(0, 15, 60)
    naive = OnlineSubstitution(4, feature_groups=labels, engine="naive").fit(X, y)
    for options in ({}, {"block_columns": 1}, {"block_columns": 7}, {"block_columns": 60}):
        found = OnlineSubstitution(4, feature_groups=labels, **options).fit(X, y)
        np.testing.assert_array_equal(found.groups_, naive.groups_)
        np.testing.assert_allclose(found.group_scores_, naive.group_scores_, rtol=1e-8)


def test_groups_are_selected_whole_and_named():
    X, y = columns_of(1)
    labels = np.repeat([f"g{k}" for k in range(12)], 5)
    found = OnlineSubstitution(3, feature_groups=labels).fit(X, y)
    assert found.support_.sum() == 15
    assert {labels[j] for j in found.selected_} == {*found.group_names_}
    assert (np.diff(found.group_scores_) <= 0.0).all()
    assert found.result_.table["group"].tolist() == np.repeat(found.group_names_, 5).tolist()
    assert "groups were presented" in " ".join(found.result_.notes)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("rule", ["exchange", "os", "paper"])
@pytest.mark.parametrize("ridge", [0.0, None])
def test_dummies_copies_and_constants_break_nothing(loss, rule, ridge):
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 5, (300, 8))
    dummies = [(codes[:, [k]] == np.arange(5)).astype(float) for k in range(8)]  # each adds up to one
    numbers = rng.standard_normal((300, 4))
    X = np.hstack([*dummies, dummies[2], np.ones((300, 2)), numbers, numbers[:, [1, 1]]])
    labels = np.concatenate([np.repeat(np.arange(8), 5), [8] * 5, [9] * 2, [10, 10, 11, 12], [13] * 2])
    y = np.array([1.0, -1.0, 2.0, 0.0, -2.0])[codes[:, 2]] + numbers[:, 1] + 0.3 * rng.standard_normal(300)
    found = OnlineSubstitution(4, feature_groups=labels, loss=loss, rule=rule, ridge=ridge).fit(X, target_of(y, loss))
    assert np.isfinite(found.coef_).all()
    assert np.isfinite(found.intercept_)
    assert {2, 8} & {*found.groups_}
    assert {10, 13} & {*found.groups_}
    if rule == "exchange":
        assert len({2, 8} & {*found.groups_}) == 1, "a group that is a copy explains nothing more"
    assert found.score(X, target_of(y, loss)) > 0.8
    assert set(found.selected_) == set(np.flatnonzero(np.isin(labels, found.groups_)))


def test_a_column_that_another_group_shares_takes_over_when_that_group_goes():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 400))
    y = 0.5 * a + 2.0 * b + 2.0 * c
    X = np.column_stack([a, rng.standard_normal(400), a, b, c, rng.standard_normal(400)])
    found = OnlineSubstitution(2, feature_groups=[[0, 1], [2, 3], [4, 5]], ridge=0.0, loss="squared").fit(X, y)
    assert sorted(found.groups_) == [1, 2]
    np.testing.assert_allclose(found.coef_[[2, 3, 4]], [0.5, 2.0, 2.0], atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_model_after_an_exchange_is_that_of_the_members_solved_anew(seed):
    """Oracle: NumPy's inverse of the products."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((50, 9)) + rng.standard_normal((50, 1))
    M, c = Z.T @ Z / 50 + 0.05 * np.eye(9), rng.standard_normal(9)
    inverse, coef = np.linalg.inv(M[:6, :6]), np.linalg.solve(M[:6, :6], c[:6])
    z, factor, y, load = np.zeros((3, 6)), np.zeros((3, 3)), np.zeros(3), np.zeros(3)
    n_own = orthonormalise(M[6:, :6].copy(), c[6:], M[6:, 6:].copy(), inverse, coef, 6, 1e-3, 1e-3, z, factor, y, load)
    assert n_own == 3
    assert not load.any()
    value = lambda keep: -0.5 * c[keep] @ np.linalg.solve(M[np.ix_(keep, keep)], c[keep])  # noqa: E731
    assert 0.5 * (y**2).sum() == pytest.approx(value(np.arange(6)) - value(np.arange(9)))
    more, values = enlarge(inverse, coef, 6, z, factor, y)
    np.testing.assert_allclose(more, np.linalg.inv(M), atol=1e-10)
    costs = group_costs(more, values, np.array([0, 3, 1, 2, 4, 5, 6, 7, 8]), np.array([0, 2, 5, 9]))
    without = [[1, 2, 4, 5, 6, 7, 8], [0, 3, 5, 6, 7, 8], [0, 1, 2, 3, 4]]
    np.testing.assert_allclose(costs, [value(np.array(keep)) - value(np.arange(9)) for keep in without])
    drop(more, values, np.array([1, 4]))
    keep = np.array([0, 2, 3, 5, 6, 7, 8])
    np.testing.assert_allclose(more[np.ix_(keep, keep)], np.linalg.inv(M[np.ix_(keep, keep)]), atol=1e-10)
    np.testing.assert_allclose(values[keep], np.linalg.solve(M[np.ix_(keep, keep)], c[keep]), atol=1e-10)


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000), loss=st.sampled_from(["squared", "logistic"]), n_wanted=st.integers(1, 9),
    counts_columns=st.booleans(), ridge=st.sampled_from([0.0, 0.02]),
)  # fmt: skip
def test_the_objective_never_rises_and_the_members_are_whole_groups_within_the_limit(
    seed, loss, n_wanted, counts_columns, ridge
):
    rng = np.random.default_rng(seed)
    X, y = columns_of(seed, n=80, p=30)
    X[:, 3], X[:, 11], X[:, 12] = X[:, 4], X[:, 13] + X[:, 14], 1.0
    labels = rng.integers(0, 9, 30)
    groups = StreamedGroups(daskfs.feature_maps.groups.FeatureGroups.given(labels, 30), n_wanted, counts_columns)
    y = np.where(y > np.median(y), 1.0, -1.0) if loss == "logistic" else y - y.mean()
    members = Members(groups.capacity, 80, np.dtype(np.float64), groups=groups)
    engine = make_engine(members, y, Rule(ridge=ridge), "gram", loss_settings(loss, y, None, None, loss == "logistic"))
    is_full, value, layout = False, engine.value, members.layout()
    for _ in range(2):
        order = groups.in_order(groups.by_first_column)
        for piece in groups.pieces(order, 1):
            ids = order[piece]
            engine.take(prepared(ids, X[:, ids].T.copy(), ColumnSettings(True, True, False)))
            assert engine.value <= value + 1e-5 * abs(value), "but for the loads of columns that depend on others"
            value = engine.value
            layout = members.layout()
            assert groups.counted[layout.groups].sum() <= n_wanted
            held = members.ids[: members.n_members]
            for group in layout.groups:
                own = groups.groups[group]
                assert set(held) & set(own) == set(own) - {12}
            np.testing.assert_allclose(
                members.held, ((X[:, held] - X[:, held].mean(axis=0)) / X[:, held].std(axis=0)).T
            )
            is_full |= members.is_full
    left_out = np.setdiff1d(np.arange(groups.groups.n_groups), layout.groups)
    is_of_constants = [set(groups.groups[group]) == {12} for group in left_out]
    assert is_full or counts_columns or engine.counters.n_refused or all(is_of_constants)


def group_omp(X, y, groups, n_wanted):
    """Oracle: the group whose span takes most of the residual, again and again."""
    X, chosen, residual = X - X.mean(axis=0), [], y - y.mean()
    bases = [np.linalg.qr(X[:, group])[0] for group in groups]
    while len(chosen) < n_wanted:
        gains = [((basis.T @ residual) ** 2).sum() if g not in chosen else -1.0 for g, basis in enumerate(bases)]
        chosen.append(int(np.argmax(gains)))
        columns = np.concatenate([groups[g] for g in chosen])
        residual = y - y.mean() - X[:, columns] @ np.linalg.lstsq(X[:, columns], y - y.mean(), rcond=None)[0]
    return chosen


def planted(seed, kind, n=300, n_groups=40, size=5, n_true=6):
    rng = np.random.default_rng(seed)
    if kind == "dummies":
        codes = rng.integers(0, size, (n, n_groups))
        X = np.hstack([(codes[:, [g]] == np.arange(size)).astype(float) for g in range(n_groups)])
    else:
        X = rng.standard_normal((n, n_groups * size))
        if kind == "correlated":
            X = (X.reshape(n, n_groups, size) + rng.standard_normal((n, n_groups, 1))).reshape(n, -1)
    true = rng.choice(n_groups, n_true, replace=False)
    coef = np.zeros((n_groups, size))
    coef[true] = rng.standard_normal((n_true, size))
    signal = X @ coef.ravel()
    return X, signal + signal.std() * rng.standard_normal(n), true


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "correlated", "dummies"])
def test_planted_groups_are_found_as_often_as_by_group_matching_pursuit_and_oftener_than_by_columns(kind):
    hits = np.zeros(3)
    for seed in range(10):
        X, y, true = planted(seed, kind)
        labels = np.repeat(np.arange(40), 5)
        own = OnlineSubstitution(6, feature_groups=labels).fit(X, y)
        pursuit = group_omp(X, y, np.arange(200).reshape(40, 5), 6)
        plain = OnlineSubstitution(30).fit(X, y)
        strongest = np.argsort(-np.bincount(plain.selected_ // 5, minlength=40), kind="stable")[:6]
        hits += [len({*true} & {*found}) for found in (own.groups_, pursuit, strongest)]
    assert hits[0] >= hits[1] - 2
    assert hits[0] >= hits[2]


def test_on_small_problems_the_groups_are_the_best_of_all_or_nearly():
    """Oracle: every pair and triple of groups."""
    n_best, worst = 0, 0.0
    for seed in range(20):
        X, y, _ = planted(seed, ("plain", "correlated")[seed % 2], n=80, n_groups=10, size=3, n_true=3)
        n_wanted, centred = 2 + seed % 2, y - y.mean()

        def left(groups, X=X, centred=centred):
            columns = X.reshape(80, 10, 3)[:, list(groups)].reshape(80, -1)
            columns = columns - columns.mean(axis=0)
            return ((centred - columns @ np.linalg.lstsq(columns, centred, rcond=None)[0]) ** 2).sum()

        best = min(left(some) for some in combinations(range(10), n_wanted))
        found = OnlineSubstitution(n_wanted, feature_groups=np.repeat(np.arange(10), 3), ridge=0.0).fit(X, y)
        n_best += left(found.groups_) <= best * (1.0 + 1e-9)
        worst = max(worst, left(found.groups_) / best)
    assert n_best >= 17
    assert worst < 1.05


def test_groups_scattered_over_a_store_are_those_of_the_sorted_columns(tmp_path):
    X, y = columns_of(3)
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(12), 5))
    store = daskfs.ingest(X, tmp_path / "X.zarr", y=y, dtype="float64", tile_shape=(64, 4), random_state=0)
    found = OnlineSubstitution(3, feature_groups=labels).fit(store)
    in_memory = OnlineSubstitution(3, feature_groups=labels).fit(store.read(slice(None)), store.read_target())
    np.testing.assert_array_equal(found.groups_, in_memory.groups_)
    sparse = OnlineSubstitution(3, feature_groups=labels).fit(scipy.sparse.csc_array(X), y)
    np.testing.assert_array_equal(sparse.groups_, OnlineSubstitution(3, feature_groups=labels).fit(X, y).groups_)


@pytest.mark.parametrize("n_wanted", [1, 4, 11, 25])
def test_a_number_of_columns_is_never_passed(n_wanted):
    X, y = columns_of(2)
    labels = np.repeat(np.arange(16), [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 2, 1])
    for rule in ("exchange", "os", "paper"):
        found = OnlineSubstitution(n_wanted, feature_groups=labels, counts="features", rule=rule).fit(X, y)
        assert 0 < len(found.selected_) <= n_wanted
        assert set(found.selected_) == set(np.flatnonzero(np.isin(labels, found.groups_)))


def test_always_included_columns_bring_their_groups():
    X, y = columns_of(5)
    labels = np.repeat(np.arange(12), 5)
    found = OnlineSubstitution(3, feature_groups=labels, always_include=[31, 33]).fit(X, y)
    assert 6 in found.groups_
    assert len(found.groups_) == 3
    with refused(DataError, "columns-that-arrive", at="always_include", naming=["1", "2", "n_features_to_select"]):
        OnlineSubstitution(1, feature_groups=labels, always_include=[0, 31]).fit(X, y)
    X[:, 30:35] = 2.0
    with refused(DataError, "columns-that-arrive", at="always_include, group '6'"):
        OnlineSubstitution(3, feature_groups=labels, always_include=[31]).fit(X, y)


def test_an_order_has_whole_groups():
    X, y = columns_of(6)
    labels = np.repeat(np.arange(12), 5)
    found = OnlineSubstitution(2, feature_groups=labels, order=np.arange(35, 50)).fit(X, y)
    assert {*found.groups_} <= {7, 8, 9}
    with refused(DataError, "columns-that-arrive", at="order", naming=["37", "'7'"]):
        OnlineSubstitution(2, feature_groups=labels, order=[35, 36, 40, 41, 42, 43, 44]).fit(X, y)


def test_blocks_that_cut_groups_give_the_answer_of_fit():
    X, y = columns_of(7)
    labels = np.repeat(np.arange(12), 5)
    expected = OnlineSubstitution(3, feature_groups=labels).fit(X, y)
    blocks = [X[:, start : start + 7] for start in range(0, 60, 7)]
    for given_blocks in (blocks, iter(blocks)):
        found = OnlineSubstitution(3, feature_groups=labels).fit_blocks(given_blocks, y)
        assert_same_answer(found, expected, tolerance_of("online_substitution", X.dtype))
        np.testing.assert_array_equal(found.groups_, expected.groups_)


def test_what_groups_cannot_be_is_refused_by_name():
    X, y = columns_of(8)
    labels = np.repeat(np.arange(12), 5)
    for groups in ([[0, 1], [1, 2]], {"all": {"a": [0, 1], "b": [2]}}):
        with refused(ConfigError, "groups", at="feature_groups", naming=["overlap"]):
            OnlineSubstitution(2, feature_groups=groups).fit(X, y)
    with refused(ConfigError, "parameters", at="counts", naming=["feature_groups"]):
        OnlineSubstitution(2, counts="features").fit(X, y)
    with refused(ConfigError, "parameters", at="engine", naming=["'os'"]):
        OnlineSubstitution(2, feature_groups=labels, rule="os", engine="gram").fit(X, y)
    with refused(ConfigError, "parameters", at="feature_groups", naming=["arrive"]):
        OnlineSubstitution(2, feature_groups=labels).partial_fit_features(X, y=y)
    with refused(ConfigError, "parameters", at="n_features_to_select", naming=["13", "12"]):
        OnlineSubstitution(13, feature_groups=labels).fit(X, y)


def test_where_no_group_fits_nothing_is_selected():
    X, y = columns_of(9)
    for loss in ("squared", "logistic"):
        options = {"feature_groups": np.arange(60) // 5, "counts": "features", "loss": loss}
        found = OnlineSubstitution(3, **options).fit(X, target_of(y, loss))
        assert not len(found.selected_)
        assert not len(found.groups_)
        assert "12 groups have more columns than may be selected" in " ".join(found.result_.notes)
