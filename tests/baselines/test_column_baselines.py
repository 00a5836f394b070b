"""The baselines of online substitution, held against scikit-learn and their definitions."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.linear_model import OrthogonalMatchingPursuit as ScikitLearnsOMP
from sklearn.svm import LinearSVC

from daskfs.baselines.columns.alpha_investing import AlphaInvesting
from daskfs.baselines.columns.base import ColumnBaseline
from daskfs.baselines.columns.lasso_cut import LassoCut
from daskfs.baselines.columns.orthogonal_matching_pursuit import OrthogonalMatchingPursuit
from daskfs.baselines.columns.proj_gd import ProjGD
from daskfs.baselines.columns.streams import Grafting, OnlineL0, OnlineL1, _Model
from daskfs.errors import ConfigError, DataError, PlanError, SelectionWarning
from daskfs.losses import find_loss
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.sources.ingest import ingest
from daskfs.store.tile_reader import TileReader
from tests.contract.lab import Kept
from tests.refusals import refused
from tests.tolerances import assert_same_answer, tolerance_of

TRUE_FEATURES = [3, 20, 47, 70, 111]
pytestmark = pytest.mark.slow_cases("grafting")  # whose kernels take ten seconds to compile
BASELINES = [
    ProjGD(5),
    LassoCut(5),
    OrthogonalMatchingPursuit(5),
    Grafting(5),
    OnlineL1(5),
    OnlineL0(5),
    AlphaInvesting(5, wealth=0.05, payout=0.05),
]
NAMES = [baseline.method for baseline in BASELINES]
STREAMING = [baseline for baseline in BASELINES if baseline.method != "lasso_cut"]


@pytest.fixture(scope="module")
def X():
    X = np.random.default_rng(0).standard_normal((400, 120))
    X *= 10.0 ** np.random.default_rng(1).uniform(-3, 3, 120)
    return X + 5.0


@pytest.fixture(scope="module")
def Z(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.fixture(scope="module")
def targets(Z):
    rng = np.random.default_rng(2)
    z = Z[:, TRUE_FEATURES] @ [1.5, -1.0, 1.0, -2.0, 1.2]
    return {
        "squared": 7.0 + z + 0.5 * rng.standard_normal(400),
        "logistic": np.where(z + rng.logistic(size=400) > 0, "yes", "no"),
        "squared_hinge": np.where(z + 0.2 * rng.standard_normal(400) > 0, 1, 0),
    }


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
@pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")  # ProjGD takes long with the squared hinge
def test_the_planted_features_are_found_whatever_their_units(baseline, loss, X, targets):
    selector = clone(baseline).set_params(loss=loss).fit(X, targets[loss])
    assert sorted(selector.selected_) == TRUE_FEATURES
    np.testing.assert_array_equal(np.sign(selector.coef_[TRUE_FEATURES]), [1, -1, 1, -1, 1])
    assert selector.score(X, targets[loss]) > 0.8
    assert np.flatnonzero(selector.scores_).tolist() == TRUE_FEATURES
    assert selector.result_.method == baseline.method
    assert selector.selected_[0] == 70  # the largest coefficient
    assert len(selector.result_.history) > 0


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
def test_the_refit_is_least_squares_on_the_selected_columns(baseline, X, Z, targets):
    selector = clone(baseline).fit(X, targets["squared"])
    A = np.column_stack([np.ones(400), X[:, TRUE_FEATURES]])
    expected = np.linalg.lstsq(A, targets["squared"], rcond=None)[0]
    np.testing.assert_allclose(selector.coef_[TRUE_FEATURES], expected[1:], rtol=1e-8)
    assert selector.intercept_ == pytest.approx(expected[0], rel=1e-8)


# orthogonal matching pursuit


@pytest.mark.parametrize("n_select", [1, 12])
def test_omp_is_scikit_learns(n_select):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((150, 80)) + rng.standard_normal((150, 1))
    y = X[:, :20] @ rng.standard_normal(20) + rng.standard_normal(150)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = ScikitLearnsOMP(n_nonzero_coefs=n_select).fit(Z, y)
    found = OrthogonalMatchingPursuit(n_select).fit(X, y)
    np.testing.assert_array_equal(np.flatnonzero(found.support_), np.flatnonzero(expected.coef_))
    np.testing.assert_allclose(found.coef_ * X.std(axis=0), expected.coef_, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("per_pass", [1, 3])
def test_omp_takes_in_each_pass_the_largest_products_with_the_residual(Z, targets, per_pass):
    y = targets["squared"]
    found = OrthogonalMatchingPursuit(7, n_features_per_pass=per_pass).fit(Z, y)
    chosen: list[int] = []
    residual = y - y.mean()
    while len(chosen) < 7:
        size = np.abs(Z.T @ residual)
        size[chosen] = 0
        chosen += np.argsort(-size)[: min(per_pass, 7 - len(chosen))].tolist()
        residual = y - y.mean() - Z[:, chosen] @ np.linalg.lstsq(Z[:, chosen], y - y.mean(), rcond=None)[0]
    history = found.result_.history
    np.testing.assert_array_equal(history["index"], chosen)
    np.testing.assert_array_equal(history["pass"], [k // per_pass + 1 for k in range(7)])
    assert history["objective"].iloc[-1] == pytest.approx(0.5 * np.mean(residual**2))
    assert history["objective"].is_monotonic_decreasing


def test_omp_of_classes_follows_the_gradient_of_the_likelihood(Z, targets):
    y = np.where(targets["logistic"] == "yes", 1.0, -1.0)
    found = OrthogonalMatchingPursuit(4, ridge=0.01, loss="logistic").fit(Z, targets["logistic"])
    chosen: list[int] = []
    margin = y * np.log((y > 0).mean() / (y < 0).mean())
    while len(chosen) < 4:
        size = np.abs(Z.T @ (y / (1 + np.exp(margin))))
        size[chosen] = 0
        chosen.append(int(np.argmax(size)))
        model = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-10).fit(Z[:, chosen], y)
        margin = y * model.decision_function(Z[:, chosen])
    np.testing.assert_array_equal(found.result_.history["index"], chosen)


def test_omp_passes_over_columns_that_others_combine_to(Z, targets):
    X = np.column_stack([Z[:, :112], Z[:, 3], Z[:, 20] + Z[:, 47], np.ones(400)])
    found = OrthogonalMatchingPursuit(20, n_features_per_pass=20).fit(X, targets["squared"])
    assert len(found.selected_) == 20
    assert (found.coef_[found.selected_] != 0).all()
    assert np.linalg.matrix_rank(X[:, found.selected_]) == 20
    with pytest.warns(SelectionWarning, match=r"of the 115 features asked for were selected"):
        everything = OrthogonalMatchingPursuit(115).fit(X, targets["squared"])
    assert len(everything.selected_) <= 112


# projected gradient descent


@pytest.mark.parametrize("step", ["restricted", "normalised", "half", "full"])
def test_proj_gd_ends_where_a_projected_step_changes_nothing(Z, targets, step):
    y = targets["squared"]
    found = ProjGD(8, step=step, tol=1e-9, max_iter=2000).fit(Z, y)
    columns = np.flatnonzero(found.support_)
    w = np.zeros(120)
    w[columns] = found.coef_[columns]
    eta = found.result_.history["step"].iloc[-1]
    moved = w + eta * Z.T @ (y - y.mean() - Z @ w) / len(y)
    np.testing.assert_array_equal(np.sort(np.argsort(-np.abs(moved))[:8]), columns)
    assert set(TRUE_FEATURES) <= set(columns)
    largest = np.linalg.eigvalsh(Z.T @ Z / len(y))[-1]
    if step in ("half", "full"):
        assert eta == pytest.approx(
            {"half": 0.5, "full": 1.0}[step] / largest, rel=0.05
        )  # 20 steps of the power method
    assert found.n_iter_ == len(found.result_.history)


@pytest.mark.parametrize("step", ["restricted", "normalised", "half"])
@pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")  # 60 steps
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_proj_gd_never_goes_up(X, targets, step, loss):
    objective = ProjGD(8, step=step, loss=loss, max_iter=60).fit(X, targets[loss]).result_.history["objective"]
    assert (np.diff(objective) <= 1e-12).all()


def test_proj_gd_warns_where_it_has_not_converged(X, targets):
    with pytest.warns(SelectionWarning, match="ProjGD: not converged after 2 steps"):
        ProjGD(8, max_iter=2).fit(X, targets["squared"])


# the L1 penalty


def test_the_lasso_is_scikit_learns_and_is_cut(Z, targets):
    y = targets["squared"]
    found = LassoCut(9).fit(Z, y)
    coef = Lasso(alpha=found.penalty_, tol=1e-10).fit(Z, y).coef_
    is_kept = np.abs(coef) > 1e-8  # at the very penalty where the next one enters
    np.testing.assert_array_equal(np.flatnonzero(is_kept), np.flatnonzero(found.support_))
    assert found.n_active_ == 9


def test_the_hinge_is_liblinears(Z, targets):
    y = targets["squared_hinge"]
    found = LassoCut(6, loss="squared_hinge").fit(Z, y)
    C = 1.0 / (2.0 * found.penalty_ * len(y))
    coef = LinearSVC(penalty="l1", dual=False, C=C, tol=1e-3, random_state=0).fit(Z, y).coef_[0]
    np.testing.assert_array_equal(np.sort(np.argsort(-np.abs(coef))[:6]), np.flatnonzero(found.support_))
    assert found.n_active_ == np.count_nonzero(coef)


def test_the_lasso_of_collinear_columns_still_finds_as_many_as_asked(Z, targets):
    X = np.column_stack([Z, Z[:, :60], Z[:, 60:] + 1e-9])
    assert len(LassoCut(30).fit(X, targets["squared"]).selected_) == 30


@pytest.mark.parametrize(
    "baseline", [Grafting(5, n_epochs=40), OnlineL1(5, n_epochs=200)], ids=["grafting", "online_l1"]
)
def test_enough_epochs_end_at_the_lasso(baseline, Z, targets):
    y = targets["squared"]
    lasso = Lasso(alpha=0.07, tol=1e-12).fit(Z, y)
    model = clone(baseline).set_params(penalty=0.07, n_features_to_select=120)
    found = model.fit(Z, y)
    np.testing.assert_array_equal(np.flatnonzero(found.support_), np.flatnonzero(lasso.coef_))
    objective = 0.5 * np.mean((y - lasso.predict(Z)) ** 2)
    assert found.result_.history["objective"].iloc[-1] == pytest.approx(objective, rel=1e-5)
    assert found.n_active_ == np.count_nonzero(lasso.coef_)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize(
    "baseline", [Grafting(5, n_epochs=40), OnlineL1(5, n_epochs=300)], ids=["grafting", "online_l1"]
)
def test_enough_epochs_end_where_no_gradient_exceeds_the_penalty(baseline, loss, Z, targets, monkeypatch):
    models = []
    made = _Model.__init__

    def watched(self, problem):
        made(self, problem)
        models.append(self)

    monkeypatch.setattr(_Model, "__init__", watched)
    clone(baseline).set_params(penalty=0.05, loss=loss).fit(Z, targets[loss])
    (model,) = models
    coef, gradient = model.coefficients(), Z.T @ model.at.residual
    active = coef != 0
    assert 4 < active.sum() < 60
    np.testing.assert_allclose(gradient[active], 0.05 * np.sign(coef[active]), atol=2e-4)
    assert np.abs(gradient).max() < 0.0502


@pytest.mark.slow
def test_grafting_holds_no_more_than_it_may(Z, targets):
    found = Grafting(5, penalty=0.005, max_active=8).fit(Z, targets["squared"])
    assert found.result_.history["most_active"].max() == 8
    assert any("because 8 were held" in note for note in found.result_.notes)


def test_a_penalty_is_looked_for_until_enough_columns_are_kept(Z, targets):
    history = OnlineL1(12).fit(Z, targets["squared"]).result_.history
    assert history["n_active"].iloc[-1] >= 12 > history["n_active"].iloc[-2]
    np.testing.assert_allclose(history["penalty"][2:] / history["penalty"][1:-1].to_numpy(), 0.8)


# coordinate steps and tests, against their definitions


def test_online_l0_is_its_definition(Z, targets):
    y, s = targets["squared"] - targets["squared"].mean(), 6
    w = np.zeros(120)
    for j in [*range(120)] * 2:
        w[j] += Z[:, j] @ (y - Z @ w) / len(y)
        if np.count_nonzero(w) > s:
            w[np.flatnonzero(w)[np.argmin(np.abs(w[w != 0]))]] = 0.0
    found = OnlineL0(s).fit(Z, y)
    np.testing.assert_array_equal(np.flatnonzero(found.support_), np.flatnonzero(w))
    objective = found.result_.history["objective"].iloc[-1]
    assert objective == pytest.approx(0.5 * np.mean((y - Z @ w) ** 2))


def test_online_l1_is_its_definition(Z, targets):
    y, lam = targets["squared"] - targets["squared"].mean(), 0.2
    w = np.zeros(120)
    for j in [*range(120)] * 2:
        target = w[j] + Z[:, j] @ (y - Z @ w) / len(y)
        w[j] = np.sign(target) * max(abs(target) - lam, 0.0)
    found = OnlineL1(120, penalty=lam).fit(Z, y)
    np.testing.assert_array_equal(np.flatnonzero(found.support_), np.flatnonzero(w))
    assert found.result_.history["objective"].iloc[-1] == pytest.approx(0.5 * np.mean((y - Z @ w) ** 2))


def test_alpha_investing_is_its_definition(Z, targets):
    y, wealth = targets["squared"], 0.5
    chosen: list[int] = []
    for j in range(120):
        price = wealth / (2 * (j + 1))
        A = np.column_stack([np.ones(400), Z[:, [*chosen, j]]])
        coef, rss = np.linalg.lstsq(A, y, rcond=None)[:2]
        degrees = len(y) - A.shape[1]
        deviation = np.sqrt(rss[0] / degrees * np.linalg.inv(A.T @ A)[-1, -1])
        if 2 * student.sf(abs(coef[-1]) / deviation, degrees) <= price:
            chosen.append(j)
            wealth += 0.5 - price
        else:
            wealth -= price
    found = AlphaInvesting(50).fit(Z, y)
    assert len(chosen) > 5
    np.testing.assert_array_equal(found.result_.history["index"], chosen)
    assert found.result_.history["wealth"].iloc[-1] > 0


@pytest.mark.slow
def test_alpha_investing_tests_classes_by_raos_score(Z, targets):
    from scipy.stats import chi2

    from daskfs.baselines.columns.alpha_investing import _Model
    from daskfs.kernels.baselines.score_tests import score_test
    from daskfs.kernels.glm.newton import Problem

    y = np.where(targets["logistic"] == "yes", 1.0, -1.0)
    model = _Model(Problem(find_loss("logistic").facts, 0.0, y, np.full(400, 1 / 400)), 3, 400.0, 0.0)
    for j in (3, 70):
        model._join(Z[:, j].copy())
    p = score_test(model.problem, Z[:, 20].copy(), model.tested, 2, 400.0)
    A = np.column_stack([np.ones(400), Z[:, [3, 70]]])
    fit = LogisticRegression(C=np.inf, tol=1e-10).fit(A[:, 1:], y)
    probability = fit.predict_proba(A[:, 1:])[:, 1]
    D = probability * (1 - probability)
    score = Z[:, 20] @ ((y > 0) - probability)
    cross = A.T @ (D * Z[:, 20])
    information = (D * Z[:, 20] ** 2).sum() - cross @ np.linalg.solve((A * D[:, None]).T @ A, cross)
    assert p == pytest.approx(chi2.sf(score**2 / information, 1), rel=1e-4)


# what holds for all of them


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
class TestEveryBaseline:
    def test_weight_zero_is_a_removed_row_and_weight_two_the_row_twice(self, baseline, X, targets):
        y = targets["squared"]
        weight = np.random.default_rng(4).integers(0, 3, len(y)).astype(float)
        weighted = clone(baseline).fit(X, y, weight)
        rows = np.repeat(np.arange(len(y)), weight.astype(int))
        repeated = clone(baseline).fit(X[rows], y[rows])
        np.testing.assert_array_equal(weighted.selected_, repeated.selected_)
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7, atol=1e-12)

    def test_constant_duplicated_and_collinear_columns_give_finite_answers(self, baseline, Z, targets):
        X = np.column_stack([np.full(400, 3.0), Z, Z[:, 3], Z[:, 20] + Z[:, 47], 1e6 + 1e-3 * Z[:, 0]])
        selector = clone(baseline).set_params(n_features_to_select=12).fit(X, targets["squared"])
        assert np.isfinite(selector.coef_).all()
        assert not selector.support_[0]
        assert selector.score(X, targets["squared"]) > 0.85

    def test_can_be_pickled(self, baseline, X, targets):
        selector = clone(baseline).fit(X, targets["squared"])
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(selector)).predict(X), selector.predict(X))

    def test_names_a_wrong_parameter(self, baseline, X, targets):
        for wrong in ({"n_features_to_select": 0}, {"n_features_to_select": 2.5}, {"loss": "cubic"}):
            with pytest.raises(ConfigError, match=next(iter(wrong))):
                clone(baseline).set_params(**wrong).fit(X, targets["squared"])

    def test_refuses_more_features_than_there_are(self, baseline, X, targets):
        with refused(ConfigError, "parameters", at="n_features_to_select", naming=["121", "120"]):
            clone(baseline).set_params(n_features_to_select=121).fit(X, targets["squared"])

    def test_refuses_a_limit_that_is_too_small_and_says_what_would_do(self, baseline, X, targets):
        with refused(PlanError, "memory-limit", at="memory_limit"):
            clone(baseline).set_params(memory_limit="1MiB").fit(X, targets["squared"])

    def test_refuses_a_constant_target_and_one_class(self, baseline, X):
        with refused(DataError, "target", at="target", naming=["constant"]):
            clone(baseline).fit(X, np.ones(400))
        with refused(DataError, "shapes", naming=["class"]):
            clone(baseline).set_params(loss="logistic").fit(X, np.ones(400))

    def test_names_the_column_and_the_row_of_a_value_that_is_not_finite(self, baseline, X, targets):
        class Stored(ArrayMatrix):
            source_rows = np.arange(400)[::-1].copy()

        matrix = Stored(X, targets["squared"], feature_names=[f"gene{j}" for j in range(120)])
        matrix._X = matrix._X.copy()
        matrix._X[100, 47] = np.nan
        with refused(DataError, "values", at="column 'gene47', row 299", naming=["NaN"]):
            clone(baseline).fit_matrix(matrix)

    def test_takes_no_more_memory_than_planned(self, baseline, X, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((3000, 800)).astype(np.float32)
        y = X[:, :5].sum(axis=1) + rng.standard_normal(3000)
        store = ingest(X, tmp_path / "s.zarr", y=y, dtype="float32")
        clone(baseline).fit(store)  # compiles
        selector = clone(baseline).set_params(memory_limit=None if baseline.method == "lasso_cut" else "64MiB")
        limit = None if selector.memory_limit is None else 64 << 20
        planned = selector.plan(3000, 800, "float32", limit)
        tracemalloc.start()
        try:
            selector.fit(store)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= planned.client_nbytes
        assert limit is None or planned.client_nbytes <= limit


@pytest.mark.parametrize(
    ("baseline", "names"),
    [(LassoCut(5), ["penalty_", "n_active_"]), (OnlineL1(5), ["penalty_", "n_active_"]), (ProjGD(5), ["n_iter_"])],
    ids=["lasso_cut", "online_l1", "proj_gd"],
)
def test_a_resumed_fit_knows_what_the_interrupted_one_knew(baseline, names, X, targets):
    matrix, kept = ArrayMatrix(X, targets["squared"]), Kept()
    first, resumed = (clone(baseline).fit_matrix(matrix, checkpoint=kept) for _ in range(2))
    assert [getattr(resumed, name) for name in names] == [getattr(first, name) for name in names]
    assert resumed.result_.notes == first.result_.notes
    assert resumed.result_.history.equals(first.result_.history)


@pytest.mark.parametrize("tile_shape", [(100, 50), (64, 7), (300, 120), (1, 120)])
@pytest.mark.parametrize("n_blocks", [None, 40, 9])
def test_a_pass_decodes_each_tile_once_where_its_columns_fit_and_the_plan_says_how_often(
    tmp_path, X, targets, monkeypatch, tile_shape, n_blocks
):
    width = 11  # the last block is narrower
    monkeypatch.setattr("daskfs.baselines.standard_columns.BLOCK_VALUES", 400 * width)
    store = ingest(X, tmp_path / "s.zarr", y=targets["squared"], tile_shape=tile_shape)
    n, p = store.shape
    more = {"tile_shape": tile_shape}
    least = OnlineL0(5).plan(n, p, "float32", None, **more).client
    held = least.nbytes - least.terms.get("columns of a tile", 0)
    limit = None if n_blocks is None else held + n_blocks * width * n * store.dtype.itemsize
    decoded, strips, refit = [], TileReader._strips, ColumnBaseline._refit
    passes = []
    monkeypatch.setattr(TileReader, "_strips", lambda *tile: decoded.append(tile[0].name) or strips(*tile))
    monkeypatch.setattr(ColumnBaseline, "_refit", lambda *run: passes.append(decoded.count("X")) or refit(*run))
    found = OnlineL0(5, memory_limit=limit).fit(store)
    plan = OnlineL0(5).plan(n, p, str(store.dtype), limit, **more)
    assert limit is None or plan.client_nbytes <= limit
    tile_nbytes = tile_shape[0] * tile_shape[1] * store.dtype.itemsize
    assert passes[0] * tile_nbytes == plan.read_nbytes
    if n_blocks != 9:
        assert passes[0] == 2 * np.prod(store.tiles.grid_shape), "two epochs"
    in_memory = OnlineL0(5).fit(ArrayMatrix(store.read(slice(None)), store.target))
    assert_same_answer(found, in_memory, tolerance_of("online_l0", store.dtype))


@pytest.mark.parametrize("baseline", STREAMING, ids=[baseline.method for baseline in STREAMING])
def test_columns_that_pass_in_blocks_give_the_answer_of_those_in_memory(baseline, X, targets, monkeypatch):
    expected = clone(baseline).fit(X, targets["squared"])
    monkeypatch.setattr("daskfs.baselines.columns.base.CACHE_NBYTES", 0)
    monkeypatch.setattr("daskfs.baselines.standard_columns.BLOCK_VALUES", 400 * 7)
    found = clone(baseline).fit(X, targets["squared"])
    assert_same_answer(found, expected, tolerance_of(baseline.method, X.dtype))


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        (ProjGD(step="newton"), "step"),
        (ProjGD(max_iter=0), "max_iter"),
        (ProjGD(tol=0.0), "tol"),
        (OrthogonalMatchingPursuit(n_features_per_pass=0), "n_features_per_pass"),
        (OrthogonalMatchingPursuit(ridge=-1.0), "ridge"),
        (Grafting(penalty=0.0), "penalty"),
        (Grafting(max_active=0), "max_active"),
        (OnlineL1(n_epochs=0), "n_epochs"),
        (OnlineL0(n_epochs=0), "n_epochs"),
        (AlphaInvesting(wealth=0.0), "wealth"),
        (AlphaInvesting(payout=2.0), "payout"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.method,
)
def test_a_wrong_parameter_is_named(selector, name, X, targets):
    with pytest.raises(ConfigError, match=name):
        selector.fit(X, targets["squared"])


def test_of_nothing_to_explain_nothing_is_made():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 40)), rng.standard_normal(300)
    with pytest.warns(SelectionWarning, match="AlphaInvesting: no feature was selected"):
        found = AlphaInvesting(10, wealth=1e-4, payout=1e-4).fit(X, y)
    assert len(found.selected_) == 0
    assert found.intercept_ == pytest.approx(y.mean())


def test_the_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        ColumnBaseline()
