"""FGM of several classes: each against the rest, over columns that are shared."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from daskfs.losses import TargetKind
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.pipeline.checkpoint import Checkpoint
from daskfs.selectors.fgm.restricted_problem import RestrictedProblem
from daskfs.selectors.fgm.selector import FGM
from tests.contract.lab import assert_same_bits
from tests.selectors.test_fgm import k_support_norm_squared
from tests.tolerances import FLOAT32, assert_same_answer

TRUE = [3, 17, 40, 41, 59, 63]
LOSSES = ["squared_hinge", "logistic"]


def make(n_samples=600, n_features=90, seed=0):
    """Four classes, which six columns tell apart: each of the columns says something of some classes only."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    of_class = np.array([[2, 2, 0, 0, 0, 0], [-2, 0, 2, 0, 0, 1], [0, -2, 0, 2, 1, 0], [0, 0, -2, -2, -2, -2]])
    y = (X[:, TRUE] @ of_class.T + 0.3 * rng.gumbel(size=(n_samples, 4))).argmax(axis=1)
    return X, np.array(["ash", "birch", "cedar", "elm"])[y]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ["apg", "exact", "simple_mkl"])
def test_the_columns_that_tell_any_class_are_found(loss, solver):
    for seed in range(5):
        X, y = make(seed=seed)
        selector = FGM(6, loss=loss, n_features_per_pass=2, solver=solver, debias=False).fit(X, y)
        assert sorted(selector.selected_) == TRUE
    assert selector.classes_.tolist() == ["ash", "birch", "cedar", "elm"]
    assert selector.coef_.shape == (4, 90)
    assert selector.intercept_.shape == (4,)
    assert not selector.coef_[:, ~selector.support_].any()
    assert selector.score(X, y) > 0.8
    z = selector.decision_function(X)
    np.testing.assert_allclose(z, X @ selector.coef_.T + selector.intercept_)
    np.testing.assert_array_equal(selector.predict(X), selector.classes_[z.argmax(axis=1)])
    scale = X.std(axis=0)
    np.testing.assert_allclose(selector.scores_, np.sqrt(((selector.coef_ * scale) ** 2).sum(axis=0)), rtol=1e-9)


def test_probabilities_are_of_every_class_and_add_up_to_one():
    X, y = make()
    selector = FGM(6, loss="logistic", C=1.0).fit(X, y)
    probabilities = selector.predict_proba(X)
    assert probabilities.shape == (600, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(selector.classes_[probabilities.argmax(axis=1)], selector.predict(X))
    assert not hasattr(FGM(6, loss="squared_hinge"), "predict_proba")


def test_the_first_pass_takes_the_columns_of_the_largest_sums_over_the_classes():
    X, y = make()
    selector = FGM(5, n_features_per_pass=5, loss="squared_hinge").fit(X, y)
    standardised = (X - X.mean(axis=0)) / X.std(axis=0)
    signs = np.where(y[:, None] == selector.classes_, 1.0, -1.0)
    shift = signs.mean(axis=0)  # where all rows lie within the hinge, the mean is the best of it
    slopes = signs * np.maximum(0.0, 1.0 - signs * shift)
    scores = ((standardised.T @ slopes) ** 2).sum(axis=1)
    assert sorted(selector.selected_) == sorted(np.argsort(-scores)[:5])


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_run_to_the_end_it_is_the_optimum_of_the_k_support_norm_of_the_columns_norms(loss):
    X, y = make(n_samples=150, n_features=70)
    selector = FGM(
        n_features_per_pass=3, loss=loss, C=0.05, solver="exact", tol=0.0, max_passes=80, certify=True, debias=False
    )
    selector.fit(X, y)
    assert 0.0 <= selector.dual_gap_ < 1e-6
    margins = np.where(y[:, None] == selector.classes_, 1.0, -1.0) * selector.decision_function(X)
    value = (
        0.5 * np.maximum(0.0, 1.0 - margins) ** 2 if loss == "squared_hinge" else np.logaddexp(0.0, -margins)
    ).sum()
    objective = 0.5 * k_support_norm_squared(selector.scores_, 3) + 0.05 * value
    assert objective == pytest.approx(selector.result_.history["objective"].iloc[-1], rel=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_three_classes_of_which_two_stand_against_each_other_alone_are_two_problems_of_two_classes(loss):
    """A class that nothing can tell, one row, adds nearly nothing: selection and coefficients are those without it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((800, 40))
    y = (X[:, 4] - X[:, 9] + 0.3 * rng.standard_normal(800) > 0.0).astype(float)
    two = FGM(2, loss=loss, solver="exact", debias=False).fit(X, y)
    y[0] = 2.0
    three = FGM(2, loss=loss, solver="exact", debias=False).fit(X, y)
    assert set(two.selected_) == set(three.selected_) == {4, 9}
    np.testing.assert_allclose(three.coef_[1], two.coef_, atol=0.02)
    np.testing.assert_allclose(three.coef_[0], -two.coef_, atol=0.02)


@pytest.mark.parametrize("density", [0.01, 0.3])
def test_sparse_columns_give_the_answer_of_dense_ones(density):
    rng = np.random.default_rng(1)
    X = (5.0 * rng.standard_normal((700, 120)) * (rng.random((700, 120)) < density)).astype(np.float32)
    y = np.digitize(X[:, :20] @ rng.standard_normal(20), [-1.0, 1.0]).astype(float)
    weight = rng.random(700) * (rng.random(700) < 0.9)
    for sample_weight in (None, weight):
        dense = FGM(15, loss="logistic").fit(X, y, sample_weight=sample_weight)
        sparse = FGM(15, loss="logistic").fit(scipy.sparse.csr_array(X), y, sample_weight=sample_weight)
        assert_same_answer(sparse, dense, FLOAT32)
    rows = np.flatnonzero(rng.random(700) < 0.7)
    views = [ArrayMatrix(kind(X), y).take(rows) for kind in (np.asarray, scipy.sparse.csr_array)]
    assert_same_answer(*(FGM(15, loss="squared_hinge").fit(view) for view in views), FLOAT32)


@pytest.mark.slow
def test_a_weight_of_two_is_a_row_twice_and_one_of_zero_none():
    X, y = make()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    weighted = FGM(7, C=0.05, solver="exact", loss="logistic").fit(X, y, sample_weight=weight)
    plain = FGM(7, C=0.05, solver="exact", loss="logistic").fit(X[repeated], y[repeated])
    np.testing.assert_array_equal(weighted.selected_, plain.selected_)
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-5, atol=1e-9)


def test_rows_held_out_choose_passes_and_weight():
    X, y = make()
    selector = FGM(n_features_per_pass=2, loss="logistic", C="validation", validation=0.3).fit(X, y)
    assert set(TRUE) <= set(selector.selected_)
    assert selector.C_losses_[selector.C_] == min(selector.C_losses_.values())


def test_the_refit_is_of_each_class_and_reported_beside_the_fit():
    X, y = make()
    plain, refitted = (FGM(6, loss="logistic", debias=choice).fit(X, y) for choice in (False, True))
    np.testing.assert_array_equal(plain.selected_, refitted.selected_)
    assert refitted.coef_.shape == (4, 90)
    note = next(note for note in refitted.result_.notes if "after the refit" in note)
    assert f"{plain.score(X, y):.4f} as fitted, {refitted.score(X, y):.4f} after the refit" in note


def test_an_interrupted_run_ends_with_the_same_result(tmp_path, monkeypatch):
    X, y = make()
    matrix = ArrayMatrix(X, np.unique(y, return_inverse=True)[1].astype(float))
    options = {"n_features_to_select": 12, "n_features_per_pass": 2, "C": 0.02, "loss": "squared_hinge"}
    expected = FGM(**options).fit_matrix(matrix)
    solve, calls = RestrictedProblem.solve, []

    def interrupted(self):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(1)
        return solve(self)

    monkeypatch.setattr(RestrictedProblem, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        FGM(**options).fit_matrix(matrix, checkpoint=Checkpoint(tmp_path))
    monkeypatch.setattr(RestrictedProblem, "solve", solve)
    resumed = FGM(**options).fit_matrix(matrix, checkpoint=Checkpoint(tmp_path))
    assert_same_bits(resumed, expected)


def test_a_plan_counts_the_vectors_of_every_class():
    plans = [FGM(50).plan(100_000, 500, "float32", None, target=TargetKind(n)) for n in (2, 20)]
    assert plans[1].task_nbytes - plans[0].task_nbytes >= 19 * 100_000 * 16
    assert plans[1].client_nbytes - plans[0].client_nbytes >= 19 * 100_000 * 160
