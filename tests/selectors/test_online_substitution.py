"""Online substitution: the same decisions by every engine, whatever the columns' units; the loss never rises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import RidgeCV

from daskfs.errors import ConfigError, DataError, SelectionWarning
from daskfs.losses import LOSSES as EVERY_LOSS
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.online_substitution.engines.squared import SquaredEngine
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from daskfs.selectors.shared.ridge import Effort
from tests.refusals import refused

RULES = ("exchange", "os", "paper")


def design(seed, n=120, p=90, s=8, kind="plain"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    if kind == "correlated":
        X += rng.standard_normal((n, 1))
    if kind == "copies":
        X[:, 1::5] = X[:, ::5] + 0.01 * rng.standard_normal((n, len(range(1, p, 5))))
    coef = np.zeros(p)
    coef[rng.choice(p, s, replace=False)] = rng.standard_normal(s)
    return X, X @ coef + 0.3 * rng.standard_normal(n), coef


KINDS = ("plain", "correlated", "copies")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(50))
def test_blocks_take_the_decisions_of_one_column_after_the_other(rule, seed):
    X, y, _ = design(seed, kind=KINDS[seed % 3])
    scale = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, X.shape[1])
    X = X * scale + (seed % 2) * scale
    naive = OnlineSubstitution(8, rule=rule, engine="naive").fit(X, y)
    for block_columns in ((1, 7, 32, 90), (None, 16, 64, 2))[seed % 2]:
        gram = OnlineSubstitution(8, rule=rule, engine="gram", block_columns=block_columns).fit(X, y)
        np.testing.assert_array_equal(gram.selected_, naive.selected_)
        assert gram.result_.notes == naive.result_.notes
        np.testing.assert_allclose(gram.coef_, naive.coef_, rtol=1e-9, atol=1e-12 / scale.min())
        last = gram.result_.history["objective"].iloc[-1]
        assert last == pytest.approx(naive.result_.history["objective"].iloc[-1], rel=1e-9)


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "logistic", "epsilon_insensitive"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(4))
def test_units_of_the_columns_do_not_matter(rule, loss, seed):
    X, y, _ = design(seed)
    if loss in ("squared_hinge", "logistic"):
        flips = np.where(np.random.default_rng(seed).random(len(y)) < 0.2, -1.0, 1.0)  # else many fits have no loss
        y = flips * np.sign(y - np.median(y))
    scale = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, X.shape[1])
    plain = OnlineSubstitution(8, rule=rule, loss=loss).fit(X, y)
    scaled = OnlineSubstitution(8, rule=rule, loss=loss).fit(X * scale, y)
    np.testing.assert_array_equal(scaled.selected_, plain.selected_)
    np.testing.assert_allclose(scaled.coef_ * scale, plain.coef_, rtol=1e-5, atol=1e-8)


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(["squared", "squared_hinge", "logistic", "epsilon_insensitive"]),
    rule=st.sampled_from(RULES),
    engine=st.sampled_from(["auto", "lazy", "naive"]),
    s=st.integers(1, 20),
    kind=st.sampled_from(KINDS),
    shift=st.sampled_from([0.0, 3.0]),
)
def test_the_objective_never_rises(seed, loss, rule, engine, s, kind, shift):
    if engine == "lazy" and rule == "paper":
        engine = "auto"
    X, y, _ = design(seed, n=60, p=40, kind=kind)
    if loss in ("squared_hinge", "logistic"):
        y = np.where(y > np.quantile(y, 0.3), 1.0, -1.0)
    selector = OnlineSubstitution(s, rule=rule, loss=loss, engine=engine, n_epochs=3, block_columns=4)
    objective = selector.fit(X + shift, y).result_.history["objective"].to_numpy()
    assert (np.diff(objective) <= 1e-9 * (objective[:-1] + 1e-9)).all()


@pytest.mark.parametrize("rule", RULES)
def test_the_objective_is_that_of_the_members_weights(rule):
    X, y, _ = design(3)
    selector = OnlineSubstitution(8, rule=rule, n_epochs=8, ridge=0.0).fit(X, y)
    least = 0.5 * np.mean((y - selector.predict(X)) ** 2)
    last = selector.result_.history["objective"].iloc[-1]
    assert last == pytest.approx(least, rel=1e-9) if rule == "exchange" else last >= least * (1 - 1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_true_features_are_found(rule):
    X, y, coef = design(1, n=300, p=100, s=6)
    coef[coef != 0] += np.sign(coef[coef != 0])
    y = X @ coef + 0.3 * np.random.default_rng(9).standard_normal(300) + 7.0
    selector = OnlineSubstitution(6, rule=rule).fit(X, y)
    assert set(selector.selected_) == set(np.flatnonzero(coef))
    np.testing.assert_allclose(selector.coef_, coef, atol=0.1)
    assert selector.intercept_ == pytest.approx(7.0, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("engine", ["gram", "naive"])
def test_with_the_check_every_step_keeps_inequality_11(checks, engine):
    """And Theorem 1 follows: the mean square of the steps is bounded by the fall of the loss."""
    excesses = []
    for seed in range(12):
        X, y, _ = design(seed, kind="correlated" if seed % 2 else "plain")
        X -= X.mean(axis=0)
        y -= y.mean()
        lipschitz = float(np.linalg.eigvalsh(X.T @ X / len(y))[-1])
        eta, c = 0.5 / lipschitz, 1.0
        rule = {
            "step_size": eta,
            "lipschitz": lipschitz,
            "sufficient_decrease": c,
            "step_divisor": 50.0,
            "check": checks,
        }  # m = 1 needs no check
        selector = OnlineSubstitution(
            8, rule="paper", engine=engine, standardize=False, fit_intercept=False, n_epochs=4, **rule
        )
        run = traced(selector, X, y)
        fall = 0.5 * np.mean(y**2) - run.engine.value
        excesses.append(run.excess / (0.5 * np.mean(y**2)))
        if checks:
            steps = run.n_steps
            bound = 2.0 * fall / (c * steps * (1.0 - eta * lipschitz) * eta)
            assert run.moved / (steps * eta**2) <= bound * (1.0 + 1e-9)
    assert (max(excesses) <= 1e-12) == checks


class traced:
    """One step after the other, what the engine says of itself held against the columns."""

    def __init__(self, selector, X, y):
        from daskfs.selectors.online_substitution.columns import prepared
        from daskfs.selectors.online_substitution.engines.choose import make_engine
        from daskfs.selectors.online_substitution.members import Members
        from daskfs.selectors.online_substitution.objective import LossSettings

        members, selector.loss_ = Members(8, len(y), np.dtype(float)), "squared"
        rule = selector._rule(Effort(float(len(y)), 8, X.shape[1]))
        self.engine = make_engine(members, y, rule, selector._mode(), LossSettings(EVERY_LOSS["squared"]))
        rule = self.engine.rule
        allowed = rule.c * (0.5 * rule.lipschitz - 0.5 / rule.eta)
        self.excess, self.moved, self.n_steps = -np.inf, 0.0, 0
        before = np.zeros(X.shape[1])
        for j in np.tile(np.arange(X.shape[1]), selector.n_epochs):
            self.engine.take(prepared(np.array([j]), X[:, [j]].T.copy(), selector._columns()))
            after = np.zeros(X.shape[1])
            after[members.ids[: members.n_members]] = self.engine.coef[: members.n_members]
            rise = 0.5 * np.mean((y - X @ after) ** 2) - 0.5 * np.mean((y - X @ before) ** 2)
            assert self.engine.value == pytest.approx(0.5 * np.mean((y - X @ after) ** 2), rel=1e-9)
            square = float(((after - before) ** 2).sum())
            self.excess = max(self.excess, rise - allowed * square)
            self.moved += square
            self.n_steps += 1
            before = after


@pytest.mark.parametrize("rule", RULES)
def test_weights_count_rows(rule):
    X, y, _ = design(5, n=200)
    weight = np.random.default_rng(0).integers(0, 4, 200)
    weighted = OnlineSubstitution(8, rule=rule).fit(X, y, sample_weight=weight)
    repeated = OnlineSubstitution(8, rule=rule).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(weighted.selected_, repeated.selected_)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_int8_stays_int8_and_decides_as_float64(fit_intercept):
    rng = np.random.default_rng(2)
    X = rng.binomial(2, 0.2, (400, 150)).astype(np.int8)
    y = X[:, [3, 40, 99]] @ [1.0, -2.0, 1.5] + 0.5 * rng.standard_normal(400)
    narrow = OnlineSubstitution(10, fit_intercept=fit_intercept)
    narrow.fit_matrix(ArrayMatrix(X, y))
    wide = OnlineSubstitution(10, fit_intercept=fit_intercept).fit(X.astype(float), y)
    np.testing.assert_array_equal(narrow.selected_, wide.selected_)
    np.testing.assert_allclose(narrow.coef_, wide.coef_, rtol=1e-6, atol=1e-9)
    assert narrow.result_.memory["held_nbytes"]["members"] == 10 * 400


def test_always_included_columns_stay_by_number_or_name():
    X, y, _ = design(0)
    selector = OnlineSubstitution(4, always_include=[17, 80]).fit(X, y)
    assert set(selector.selected_[:2]) == {17, 80}
    assert len(selector.selected_) == 4
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(90)])
    named = OnlineSubstitution(4, always_include=["g80", "g17"]).fit(frame, y)
    assert set(named.selected_) == set(selector.selected_)
    with refused(DataError, "shapes", at="always_include", naming=["'g91'", "did you mean"]):
        OnlineSubstitution(4, always_include=["g91"]).fit(frame, y)
    X[:, 5] = 1.0
    with refused(DataError, "shapes", at="always_include, column 'x5'", naming=["constant"]):
        OnlineSubstitution(4, always_include=[5]).fit(X, y)


@pytest.mark.parametrize("ridge", [0.0, None])
def test_fewer_usable_columns_than_asked_for_are_said(ridge):
    X, y, _ = design(0, p=10, s=3)
    X[:, 4] = 2.0
    X[:, 5] = X[:, 0] - 3 * X[:, 1] if ridge == 0.0 else 3 * X[:, 1]  # with a ridge, combinations share a coefficient
    with pytest.warns(SelectionWarning, match="8 of the 10 features asked for"):
        selector = OnlineSubstitution(10, ridge=ridge).fit(X, y)
    assert selector.support_.sum() == 8
    assert not selector.support_[4]
    assert "8 features were selected, not 10" in selector.result_.notes[1]


def test_an_epoch_without_a_change_is_the_last():
    X, y, _ = design(0)
    selector = OnlineSubstitution(8, n_epochs=50).fit(X, y)
    assert 2 <= selector.n_epochs_ < 10
    assert len(selector.result_.history) == selector.n_epochs_ * 3  # blocks of 32 of 90 columns
    epochs = np.repeat(np.arange(1, selector.n_epochs_ + 1), 3)
    np.testing.assert_array_equal(selector.result_.history["epoch"], epochs)


@pytest.mark.parametrize("most", [1, 3, 4, 89, 90])
@pytest.mark.parametrize("block_columns", [1, 7])
def test_a_long_history_is_thinned(monkeypatch, most, block_columns):
    X, y, _ = design(0)
    options = {"n_features_to_select": 8, "n_epochs": 2, "block_columns": block_columns}
    whole = OnlineSubstitution(**options).fit(X, y).result_.history
    for module in ("plan", "stream"):
        monkeypatch.setattr(f"daskfs.selectors.online_substitution.{module}.MOST_LINES", most)
    kept = OnlineSubstitution(**options).fit(X, y).result_.history
    assert set(kept.itertuples(index=False)) <= set(whole.itertuples(index=False))
    for epoch, lines in kept.groupby("epoch"):
        of_whole = whole[whole["epoch"] == epoch]
        assert min(most, len(of_whole)) // 2 <= len(lines) <= most
        assert lines.iloc[-1].equals(of_whole.iloc[-1])


@pytest.mark.parametrize("order", ["shuffled", np.arange(90)[::-1], np.arange(40)])
def test_the_order_is_the_users(order):
    X, y, _ = design(0)
    selector = OnlineSubstitution(8, order=order).fit(X, y)
    again = OnlineSubstitution(8, order=order).fit(X, y)
    np.testing.assert_array_equal(selector.selected_, again.selected_)
    if len(order) == 40:
        assert selector.selected_.max() < 40
    if not isinstance(order, str):
        permuted = OnlineSubstitution(8).fit(X[:, order], y)
        np.testing.assert_array_equal(order[permuted.selected_], selector.selected_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "exchage"}, "did you mean 'exchange'"),
        ({"loss": "huber"}, "OnlineSubstitution does not take .huber.; it takes squared, logistic"),
        ({"n_features_to_select": 0}, "n_features_to_select: expected a whole number"),
        ({"n_features_to_select": 91}, "requests 91 features, but there are 90"),
        ({"n_epochs": 0}, "n_epochs"),
        ({"rule": "paper", "engine": "lazy"}, "updates all coefficients at every column"),
        ({"rule": "paper", "sufficient_decrease": 2.0}, "sufficient_decrease: expected a number from 0 to 1"),
        ({"order": [1, 1]}, "duplicate column 1"),
        ({"always_include": [90]}, "numbers of columns from 0 to 89"),
        ({"n_features_to_select": 1, "always_include": [1, 2]}, "expected at most 1 columns"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    X, y, _ = design(0)
    with pytest.raises((ConfigError, DataError), match=message):
        OnlineSubstitution(**options).fit(X, y)


def test_nan_in_a_store_that_allows_it_is_refused_with_its_place():
    class WithHole(ArrayMatrix):
        def read(self, rows, columns=slice(None), out=None):
            block = super().read(rows, columns, out)
            numbers = np.arange(90)[columns] if isinstance(columns, slice) else columns
            if 33 in numbers:
                block[7, list(numbers).index(33)] = np.nan
            return block

    X, y, _ = design(0)
    with refused(DataError, "values", at="column 33, row 7", naming=["NaN"]):
        OnlineSubstitution(8).fit_matrix(WithHole(X, y))


def short(seed, n=60, p=1000):
    """Return few rows of columns with twenty common factors, as expressions of genes have, and as many to test on."""
    rng = np.random.default_rng(seed)
    factors, loadings = rng.standard_normal((2000, 20)), rng.standard_normal((20, p))
    X = factors @ loadings / np.sqrt(20) + 0.7 * rng.standard_normal((2000, p))
    y = factors[:, :5] @ np.ones(5) + rng.standard_normal(2000)
    return X[:n], y[:n], X[n:], y[n:]


@pytest.mark.slow
@pytest.mark.parametrize("s", [10, 30, 100])
def test_in_few_rows_the_ridge_that_the_data_choose_keeps_the_predictions(s):
    """The same columns with the ridge of least cross-validated error are not better; without a ridge all is lost."""
    scores = []
    for seed in range(8):
        X, y, X_test, y_test = short(seed)
        selector = OnlineSubstitution(s).fit(X, y)
        peer = RidgeCV(np.logspace(-3, 4, 30), cv=5).fit(X[:, selector.selected_], y)
        predicted = (selector.predict(X_test), peer.predict(X_test[:, selector.selected_]))
        scores.append([1.0 - np.mean((z - y_test) ** 2) / np.var(y_test) for z in predicted])
    own, peers = np.mean(scores, axis=0)
    assert own > 0.25
    assert own > peers - 0.02


def test_the_ridge_falls_where_the_selected_features_explain_the_target():
    X, y, coef = design(4, n=600, p=300, s=8)
    y = X @ np.sign(coef) + 0.1 * np.random.default_rng(0).standard_normal(600)
    objective = OnlineSubstitution(8).fit(X, y).result_.history["objective"].to_numpy()
    assert (np.diff(objective) <= 1e-12).all()
    assert objective[-1] == pytest.approx(0.005, rel=0.1)


def test_an_exchange_costs_a_tenth_of_what_the_best_useless_column_explains():
    n, s, p, sd = 2_000, 8, 300, 1.5
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, s))
    y = X.sum(axis=1) + sd * rng.standard_normal(n)
    coef, *_ = np.linalg.lstsq(X, y)
    hessian = np.eye(s + 1)
    hessian[1:, 1:] = X.T @ X / n
    gradient = np.append(0.0, X.T @ (X @ coef - y) / n)
    terms, effort = [(0.5 * np.mean((y - X @ coef) ** 2), gradient, hessian, np.append(0.0, coef))], Effort(n, s, p)
    price = effort.exchange_price(terms, 0.0, "squared")
    assert price == pytest.approx(0.1 * sd**2 * np.log(p) / n, rel=0.1)
    assert effort.exchange_price(terms, 3.0, "squared") > 2.0 * price, "the larger the ridge, the less is explained"
    assert effort.exchange_price(terms * 3, 0.0, "logistic") == pytest.approx(0.3 * np.log(p) / n)


@pytest.mark.parametrize("ridge", [None, 0.1])
def test_exchanges_have_a_price_after_the_first_epoch_unless_the_ridge_is_given(monkeypatch, ridge):
    X, y, _ = design(0)
    prices, take = [], SquaredEngine.take

    def noted(self, columns):
        prices.append(self.rule.price)
        take(self, columns)

    monkeypatch.setattr(SquaredEngine, "take", noted)
    assert OnlineSubstitution(8, ridge=ridge, n_epochs=2).fit(X, y).n_epochs_ == 2
    assert prices[0] == 0.0
    assert (prices[-1] > 0.0) == (ridge is None)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_copy_of_a_selected_column_is_not_selected_whatever_the_ridge(loss):
    X, y, _, _ = short(0)
    X[:, 500:] = X[:, :500] * 3.0 + 1.0
    selected = OnlineSubstitution(12, loss=loss).fit(X, y if loss == "squared" else (y > 0).astype(int)).selected_
    assert len(set(selected % 500)) == 12


def test_rows_that_ran_out_are_said_and_constant_columns_are_not_blamed():
    X, y, _, _ = short(1, n=30)
    with pytest.warns(SelectionWarning) as caught:
        selector = OnlineSubstitution(50, ridge=0.0).fit(X, y)
    assert any("too few rows: 29 features can fit any target of 30 rows" in str(one.message) for one in caught)
    assert not any("constant" in note for note in selector.result_.notes)
    notes = OnlineSubstitution(50).fit(X, y).result_.notes
    assert any("too few rows: 50 features" in note for note in notes)


def test_why_columns_were_refused_depends_on_the_rule():
    X, y, _ = design(0)
    explained, paper = (
        " ".join(OnlineSubstitution(8, rule=rule).fit(X, y).result_.notes) for rule in ("exchange", "os")
    )
    assert "explain them" in explained
    assert "explain them" not in paper


def test_constant_columns_are_blamed_where_they_are_the_cause():
    X, y, _ = design(0, p=20)
    X[:, 5:] = 1.0
    with pytest.warns(SelectionWarning, match="5 of the 10"):
        notes = OnlineSubstitution(10).fit(X, y).result_.notes
    assert any("the others presented are constant" in note for note in notes)


@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
@pytest.mark.parametrize("power", [-150, -3, 150])
def test_the_unit_of_the_target_does_not_matter(loss, power):
    X, y, _ = design(6)
    plain, scaled = (OnlineSubstitution(8, loss=loss).fit(X, np.ldexp(y, k)) for k in (0, power))
    np.testing.assert_array_equal(scaled.selected_, plain.selected_)
    np.testing.assert_array_equal(np.ldexp(scaled.coef_, -power), plain.coef_)


@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
@pytest.mark.parametrize("factor", [1e300, 1e-300])
def test_a_target_whose_squares_are_no_numbers_is_refused_with_what_to_do(loss, factor):
    X, y, _ = design(6)
    with pytest.raises(DataError, match=r"row 0: .* is too large|multiply the target"):
        OnlineSubstitution(8, loss=loss).fit(X, factor * y)
