"""FGM: what it selects, when it stops, what it proves, and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import RidgeCV

from daskfs.errors import ConfigError, DataError, PlanError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.pipeline.checkpoint import Checkpoint
from daskfs.selectors.fgm.loss_weight import typical_variance
from daskfs.selectors.fgm.restricted_problem import RestrictedProblem
from daskfs.selectors.fgm.selector import FGM
from daskfs.sources.ingest import ingest
from tests.refusals import refused
from tests.tolerances import FLOAT32, assert_same_answer

TRUE = [3, 17, 40, 41, 59]
LOSSES = ["squared_hinge", "logistic", "squared"]


def make(loss="squared_hinge", n_samples=400, n_features=60, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)).astype(dtype)
    y = X[:, TRUE].astype(float) @ [1.5, -1.0, 1.0, -1.2, 0.9] + 0.3 + 0.3 * rng.standard_normal(n_samples)
    return X, y if loss == "squared" else np.where(y > 0.0, "yes", "no")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ["apg", "exact", "simple_mkl"])
def test_the_true_features_are_selected(loss, solver):
    X, y = make(loss)
    selector = FGM(5, loss=loss, n_features_per_pass=2, solver=solver).fit(X, y)
    assert sorted(selector.selected_) == TRUE
    assert selector.selected_[0] == 3
    assert selector.score(X, y) > 0.9
    np.testing.assert_array_equal(selector.scores_ > 0.0, selector.support_)


@pytest.mark.parametrize("wanted", [1, 7, 23, 60])
@pytest.mark.parametrize("C", [1e-4, 0.01, 10.0])
def test_exactly_as_many_features_come_as_were_asked_for(wanted, C):
    X, y = make()
    selector = FGM(wanted, n_features_per_pass=5, C=C).fit(X, y)
    assert len(selector.selected_) == wanted == selector.support_.sum()
    assert selector.result_.history["features"].iloc[-1] == wanted


def test_features_of_the_last_pass_are_fewer_where_fewer_are_left():
    X, y = make()
    history = FGM(7, n_features_per_pass=3, C=10.0).fit(X, y).result_.history
    assert history["new"].tolist() == [3, 3, 1]


def k_support_norm_squared(w, k):
    """Proposition 2.1 of Argyriou, Foygel and Srebro (2012)."""
    a = np.sort(np.abs(w))[::-1]
    for r in range(k):
        tail = a[k - r - 1 :].sum()
        upper = np.inf if k - r - 1 == 0 else a[k - r - 2]
        if upper > tail / (r + 1) >= a[k - r - 1]:
            return (a[: k - r - 1] ** 2).sum() + tail**2 / (r + 1)
    raise AssertionError("no r fits")


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [2, 5])
def test_run_to_the_end_it_is_the_optimum_of_the_k_support_norm(loss, k):
    X, y = make(loss, n_samples=120, n_features=60)
    selector = FGM(
        n_features_per_pass=k, loss=loss, C=0.05, solver="exact", tol=0.0, max_passes=60, certify=True,
        debias=False,
    ).fit(X, y)  # fmt: skip
    assert 0.0 <= selector.dual_gap_ < 1e-6
    scale = X.std(axis=0)
    z = X @ selector.coef_ + selector.intercept_
    signs = np.where(y == "yes", 1.0, -1.0) if loss != "squared" else y
    value = {
        "squared_hinge": 0.5 * np.maximum(0.0, 1.0 - signs * z) ** 2 if loss != "squared" else 0.0,
        "logistic": np.logaddexp(0.0, -signs * z),
        "squared": 0.5 * (z - signs) ** 2,
    }[loss].sum()
    objective = 0.5 * k_support_norm_squared(selector.coef_ * scale, k) + 0.05 * value
    assert objective == pytest.approx(selector.result_.history["objective"].iloc[-1], rel=1e-6)


@pytest.mark.slow
def test_the_gap_of_an_early_stop_is_wide_and_is_said():
    X, y = make()
    selector = FGM(5, C=10.0, certify=True).fit(X, y)
    assert selector.dual_gap_ > 0.1
    assert any("duality gap of the final model" in note for note in selector.result_.notes)
    history = selector.result_.history
    lower = history["objective"].to_numpy()[:-1] * (1.0 - history["gap"].to_numpy()[1:])
    assert (np.diff(lower) >= -1e-9 * lower[-1]).all()  # the best bound so far, before each pass
    end = FGM(5, n_features_per_pass=1, C=10.0, certify=True, solver="exact", tol=0.0, max_passes=80)
    end.n_features_to_select = None
    optimum = end.fit(X, y).result_.history["objective"].iloc[-1]
    assert lower[-1] <= optimum * (1.0 + 1e-9)


def test_the_objective_falls_with_every_pass():
    X, y = make()
    history = FGM(max_passes=8, tol=0.0, n_features_per_pass=3).fit(X, y).result_.history
    assert (np.diff(history["objective"]) <= 1e-9).all()
    assert len(history) == 8


def test_passes_end_where_the_objective_stops_falling():
    X, y = make()
    selector = FGM(n_features_per_pass=5, tol=0.05).fit(X, y)
    assert len(selector.result_.history) < 6
    assert "lowered the objective by less than 0.05" in selector.result_.notes[0]


def test_rows_held_out_end_the_passes():
    X, y = make(n_samples=300)
    selector = FGM(n_features_per_pass=2, C=100.0, validation=0.3, max_passes=20).fit(X, y)
    history = selector.result_.history
    best = int(history["held_out_loss"].argmin())
    assert best < len(history) - 1
    assert set(TRUE) <= set(selector.selected_) | {59}
    assert len(selector.selected_) <= 2 * (best + 1)
    assert any("held-out" in note for note in selector.result_.notes)


def test_rows_held_out_choose_the_weight_of_the_loss():
    X, y = make(n_samples=300)
    selector = FGM(5, C="validation").fit(X, y)
    assert selector.C_ in selector.C_losses_
    assert selector.C_losses_[selector.C_] == min(selector.C_losses_.values())


def test_the_shift_matters_where_classes_are_unbalanced():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3000, 200))
    z = X[:, :20] @ rng.random(20)
    y = z > np.quantile(z, 0.65)
    train, test = slice(0, 2000), slice(2000, None)
    accuracy = [
        FGM(20, C=10.0, fit_intercept=shift).fit(X[train], y[train]).score(X[test], y[test]) for shift in (True, False)
    ]
    assert accuracy[0] >= accuracy[1] + 0.10


def test_without_a_shift_there_is_none():
    X, y = make()
    selector = FGM(5, fit_intercept=False).fit(X + 1.0, y)
    assert selector.intercept_ == 0.0


def test_scale_and_origin_of_columns_do_not_matter_by_default():
    X, y = make()
    rng = np.random.default_rng(1)
    moved = X * rng.uniform(0.01, 100.0, 60) + rng.uniform(-5.0, 5.0, 60)
    one, other = FGM(5).fit(X, y), FGM(5).fit(moved, y)
    np.testing.assert_array_equal(one.selected_, other.selected_)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(moved), atol=1e-8)


def test_scores_of_columns_as_they_are_depend_on_their_scale():
    X, y = make()
    X[:, 20] *= 50.0
    assert 20 in FGM(5, center=False, normalize=False).fit(X, y).selected_
    assert 20 not in FGM(5).fit(X, y).selected_


def dummies(seed, n_samples=1000, n_rare=3000):
    """Twenty categories of some use, and many of 5 to 15 rows that say nothing."""
    rng = np.random.default_rng(seed)
    share = np.concatenate([rng.uniform(0.05, 0.3, 20), rng.uniform(5.0, 15.0, n_rare) / n_samples])
    X = (rng.random((n_samples, len(share))) < share).astype(float)
    z = X[:, :20] @ rng.choice([-0.7, 0.7], 20)
    return X, z - np.median(z) + rng.logistic(size=n_samples) > 0.0


@pytest.mark.slow
def test_categories_of_few_rows_are_not_selected_by_chance():
    found = []
    for seed in range(8):
        X, y = dummies(seed)
        found.append([(FGM(20, normalize=way).fit(X, y).selected_ < 20).sum() for way in ("auto", True)])
        assert (FGM(20).fit(X, y).selected_ < 20).sum() == found[-1][0]
    auto, divided = np.array(found).T
    assert auto.min() >= 16
    assert auto.mean() >= divided.mean() + 3.0


def test_dummies_beside_measured_columns_in_any_unit_are_found_as_before():
    X, y = make()
    rng = np.random.default_rng(1)
    D = (rng.random((400, 60)) < 0.4).astype(float)
    z = X[:, TRUE] @ [1.5, -1.0, 1.0, -1.2, 0.9] + 2.0 * D[:, 7] - 0.5
    both = np.hstack([D, X * rng.uniform(0.001, 1000.0, 60)])
    selector = FGM(6).fit(both, z > 0.0)
    assert sorted(selector.selected_) == [7, *(60 + j for j in TRUE)]
    assert any("60 of 120 columns have zeros and no negative values" in note for note in selector.result_.notes)
    assert any("none has dummies" in note for note in FGM(6).fit(X, y).result_.notes)


@pytest.mark.slow
def test_dummies_as_arrays_entries_and_stores_are_scaled_alike(tmp_path):
    X, y = dummies(0, 600, 200)
    X = X.astype(np.float32)
    X[:, 5] += 1.0  # no zeros, X[:, 6] below: neither is divided by more than its deviation
    X[:, 6] -= 1.0
    X[:, 7] *= 1000.0
    weight = np.random.default_rng(0).integers(0, 3, 600)
    X[weight == 0, 8] = -1.0  # rows without weight say nothing of a column
    for sample_weight in (None, weight):
        dense = FGM(20).fit(X, y, sample_weight=sample_weight)
        for kind in (scipy.sparse.csr_array, scipy.sparse.csc_array):
            assert_same_answer(FGM(20).fit(kind(X), y, sample_weight=sample_weight), dense, FLOAT32)
        used = X if sample_weight is None else X[weight > 0]
        n_mostly_zero = ((used.min(axis=0) == 0.0) & (used.max(axis=0) > 0.0)).sum()
        assert any(f"{n_mostly_zero} of 220 columns have zeros" in note for note in dense.result_.notes)
    plain, target = FGM(20).fit(X, y), y.astype(float)
    for k, tile_shape in enumerate([(600, 220), (64, 7)]):
        stored = ingest(X, tmp_path / f"{k}.zarr", y=target, tile_shape=tile_shape, shuffle=False)
        selector = FGM(20).fit(stored)
        assert_same_answer(selector, plain, FLOAT32)


@pytest.mark.parametrize("density", [0.001, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_sparse_input_gives_the_answer_of_dense_input(density, kind):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((1000, 80)) * (rng.random((1000, 80)) < density)
    X[:4, :10] += 1.0
    y = X[:, :10].sum(axis=1) + 0.1 * rng.standard_normal(1000) > 0.0
    for options in ({}, {"normalize": False, "center": False}):
        dense, sparse = FGM(10, **options).fit(X, y), FGM(10, **options).fit(kind(X), y)
        assert_same_answer(sparse, dense)
        np.testing.assert_array_equal(dense.predict(X), sparse.predict(kind(X)))


def test_rows_of_a_sparse_matrix_are_scored_as_rows_of_a_dense_one():
    X, y = make()
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    numbers = (y == "yes").astype(float)
    rows = np.random.default_rng(0).permutation(400)[:300]
    views = [ArrayMatrix(kind(X), numbers).take(rows) for kind in (np.asarray, scipy.sparse.csr_array)]
    dense, sparse = (FGM(5).fit(view) for view in views)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, rtol=1e-9)


@pytest.mark.slow
def test_a_weight_of_two_is_a_row_twice_and_one_of_zero_none():
    X, y = make()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    weighted = FGM(7, C=0.05, solver="exact").fit(X, y, sample_weight=weight)
    plain = FGM(7, C=0.05, solver="exact").fit(X[repeated], y[repeated])
    np.testing.assert_array_equal(weighted.selected_, plain.selected_)
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-5)


def test_the_refit_is_reported_beside_the_fit():
    X, y = make()
    plain, refitted = FGM(5, debias=False).fit(X, y), FGM(5).fit(X, y)
    np.testing.assert_array_equal(plain.selected_, refitted.selected_)
    assert np.abs(plain.coef_ - refitted.coef_).max() > 1e-4
    note = next(note for note in refitted.result_.notes if "after the refit" in note)
    assert f"{plain.score(X, y):.4f} as fitted, {refitted.score(X, y):.4f} after the refit" in note


def test_its_own_predictions_are_not_behind_a_ridge_regression_on_its_features():
    lost = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((600, 60)) + rng.standard_normal((600, 4)) @ rng.standard_normal((4, 60))
        y = X[:, :8] @ rng.uniform(0.2, 1.0, 8) * rng.choice([-1, 1]) + 2.0 * rng.standard_normal(600)
        selector = FGM(10, loss="squared").fit(X[:300], y[:300])
        columns = np.sort(selector.selected_)
        ridge = RidgeCV(np.logspace(-2, 4, 13)).fit(X[:300, columns], y[:300])
        lost.append(ridge.score(X[300:, columns], y[300:]) - selector.score(X[300:], y[300:]))
    assert np.mean(lost) < max(np.std(lost, ddof=1) / np.sqrt(10), 0.002)


def test_constant_columns_and_copies_do_no_harm():
    X, y = make()
    X[:, 0] = 3.0
    X = np.column_stack([X, X[:, 3]])
    selector = FGM(6, C=1.0).fit(X, y)
    assert not selector.support_[0]
    assert any("1 column(s) are constant" in note for note in selector.result_.notes)


def test_a_tie_goes_to_the_first_column():
    X, y = make()
    assert FGM(1).fit(np.column_stack([X[:, 3], X[:, :40]]), y).selected_.tolist() == [0]


def test_nothing_to_select_is_said():
    X = np.ones((20, 3))
    with (
        pytest.warns(SelectionWarning, match="all columns are constant: 'x0', 'x1', 'x2'"),
        pytest.warns(SelectionWarning, match="FGM: no feature was selected"),
    ):
        selector = FGM().fit(X, np.arange(20) % 2)
    with pytest.warns(UserWarning, match="No features were selected"):
        selected = selector.transform(X)
    assert selected.shape == (20, 0)
    assert len(selector.selected_) == 0
    assert "no column has a positive score" in selector.result_.notes[1]


@pytest.mark.parametrize("value", [1e155, 1e200, 1e300])
def test_a_value_whose_square_is_no_number_is_refused_with_its_column(value, tmp_path):
    X, y = make()
    X[7, 11] = value
    named = r"column '?x?11'?, row 7: .* is too large: its square is infinite"
    for given in (X, scipy.sparse.csr_array(X)):
        with pytest.raises(DataError, match=named):
            FGM(3).fit(given, y)
    with pytest.raises(DataError, match=named):
        ingest(X, tmp_path / "huge.zarr", y=(y == "yes").astype(float), dtype="float64")


def test_the_typical_variance_of_huge_columns_is_finite():
    assert typical_variance(np.array([1e200, 1e200, 0.0])) == pytest.approx(1e200)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_refused_with_its_place(value, tmp_path):
    X, y = make("squared", dtype=np.float32)
    stored = ingest(X, tmp_path / "good.zarr", y=y, shuffle=False)
    X[7, 11] = value
    with refused(DataError, "values", at="column 11, row 7"):
        FGM(3, loss="squared").fit(ArrayMatrixUnchecked(X, y))
    assert FGM(3, loss="squared").fit(stored).n_features_in_ == 60


class ArrayMatrixUnchecked(ArrayMatrix):
    """As a store whose statistics do not know of a value."""

    def __init__(self, X, y):
        super().__init__(np.nan_to_num(X, posinf=0.0), y)
        self._X = X


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"normalize": "always"}, "normalize"),
        ({"loss": "hinge"}, "loss"), ({"solver": "mkl"}, "solver"), ({"C": -1.0}, "C"), ({"C": "cv"}, "C"),
        ({"n_features_to_select": 0}, "n_features_to_select"), ({"tol": 1.5}, "tol"),
        ({"validation": 1.0}, "validation"), ({"center": 1}, "center"),
        ({"n_features_to_select": 61}, "n_features_to_select"), ({"max_passes": 0}, "max_passes"),
        ({"n_features_to_select": 20, "n_features_per_pass": 2, "max_passes": 3}, "n_features_per_pass"),
    ],
)  # fmt: skip
def test_senseless_parameters_are_refused(options, place):
    with pytest.raises(ConfigError) as caught:
        FGM(**options).fit(*make())
    assert caught.value.where == place


def test_a_plan_states_passes_and_memory_and_refuses_what_does_not_fit():
    plan = FGM(200).plan(8192, 65_536, "float32", 2**28, n_threads=2, tile_shape=(2048, 512))
    assert plan.n_passes == 11
    assert plan.task_nbytes <= 2**28
    assert plan.client_nbytes < 2**28
    with refused(PlanError, "memory-limit", at="memory_limit") as caught:
        FGM(200).plan(10_000_000, 300, "float32", 2**25)
    assert FGM(200).plan(10_000_000, 300, "float32", caught.value.needed_nbytes + 10_000).task_nbytes > 2**25


def test_it_clones_and_pickles_small():
    X, y = make()
    selector = FGM(5, C=0.5).fit(X, y)
    again = pickle.loads(pickle.dumps(selector))
    np.testing.assert_array_equal(again.predict(X), selector.predict(X))
    assert len(pickle.dumps(selector)) < 40_000
    assert clone(selector).get_params() == selector.get_params()


@pytest.mark.parametrize("after", [1, 3])
def test_an_interrupted_run_ends_with_the_same_result(tmp_path, monkeypatch, after):
    X, y = make()
    matrix = ArrayMatrix(X, (y == "yes").astype(float))
    options = {"n_features_to_select": 12, "n_features_per_pass": 2, "C": 0.02}
    expected = FGM(**options).fit_matrix(matrix)
    solve, calls = RestrictedProblem.solve, []

    def interrupted(self):
        if len(calls) == after:
            raise KeyboardInterrupt
        calls.append(1)
        return solve(self)

    monkeypatch.setattr(RestrictedProblem, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        FGM(**options).fit_matrix(matrix, checkpoint=Checkpoint(tmp_path))
    monkeypatch.setattr(RestrictedProblem, "solve", solve)
    resumed = FGM(**options).fit_matrix(matrix, checkpoint=Checkpoint(tmp_path))
    np.testing.assert_array_equal(resumed.coef_, expected.coef_)
    assert resumed.result_.history.equals(expected.result_.history)
    assert resumed.n_passes_ == expected.n_passes_ - after


def test_progress_is_shown_pass_by_pass():
    X, y = make()
    seen = []

    class Shown:
        def start(self, name, total):
            seen.append(name)

        def advance(self, k=1):
            seen.append(k)

        def finish(self):
            seen.append("done")

    FGM(6, n_features_per_pass=2).fit_matrix(ArrayMatrix(X, (y == "yes").astype(float)), progress=Shown())
    assert seen[-1] == "done"
    assert seen.count(1) >= 3
