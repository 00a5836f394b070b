"""The baselines of FGM: the same face, and what is known of each."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from daskfs.baselines import ActiveSet, GroupLasso, L1Liblinear, SgdSlr, UfoMkl
from daskfs.errors import ConfigError, PlanError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.fgm.selector import FGM
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run
from daskfs.sources.ingest import ingest
from tests.contract.lab import Interrupted, Kept
from tests.refusals import refused


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = 3.0 * rng.standard_normal((600, 40)) + 1.0
    y = X[:, [3, 7, 21]] @ [1.0, -1.0, 0.8] + rng.standard_normal(600) > 1.0
    return X, y.astype(float)


METHODS = [ActiveSet, L1Liblinear, SgdSlr, GroupLasso, UfoMkl]


@pytest.mark.parametrize("method", METHODS)
def test_the_true_features_are_found_in_arrays_and_stores(data, method, tmp_path):
    X, y = data
    selector = method(3).fit(X, y)
    assert sorted(selector.selected_) == [3, 7, 21]
    assert selector.score(X, y) > 0.8
    stored = method(3).fit(ingest(X, tmp_path / "s.zarr", y=y, dtype="float64"))
    np.testing.assert_array_equal(np.sort(stored.selected_), [3, 7, 21])


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_liblinears_selection_is_refitted_as_that_of_fgm(data, loss):
    X, y = data
    plain, refitted = (L1Liblinear(5, loss=loss, debias=debias).fit(X, y) for debias in (False, True))
    np.testing.assert_array_equal(plain.selected_, refitted.selected_)
    np.testing.assert_array_equal(plain.scores_, refitted.scores_)
    fgm = FGM(5, loss=loss).fit(X[:, plain.support_], y)
    mean_loss = MeanLoss(loss, 1.0, ridge=None if loss == "logistic" else 1.0 / (600 * fgm.C_))
    other = refit_selected(Run(ArrayMatrix(X, y), "refit"), np.flatnonzero(plain.support_), mean_loss)
    np.testing.assert_allclose(refitted.coef_[plain.support_], other.coef, rtol=1e-6)
    assert refitted.intercept_ == pytest.approx(other.intercept, rel=1e-6)
    if loss == "squared_hinge":  # the ridge is C's, out of however many columns these were selected
        np.testing.assert_allclose(fgm.coef_, other.coef, rtol=1e-6)
    assert np.abs(refitted.coef_ - plain.coef_).max() > 1e-3
    table, result = refitted.result_.table, refitted.result_
    np.testing.assert_array_equal(table["coef"], refitted.coef_[table["index"]])
    assert result.intercept == refitted.intercept_
    assert any("refit on the 5 columns alone" in note for note in result.notes)
    with refused(ConfigError, "parameters", at="debias", naming=["'yes'"]):
        L1Liblinear(5, debias="yes").fit(X, y)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wanted", [1, 10, 25])
def test_as_many_come_as_were_asked_for(data, method, wanted):
    assert len(method(wanted).fit(*data).selected_) == wanted


def test_sdca_is_scikit_learns_elastic_net(data):
    X, y = data
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    found = SgdSlr(C=0.05, ridge=0.01, tol=1e-9, n_epochs=3000, fit_intercept=False).fit(X, y)
    # λ/2 ‖w‖² + σ ‖w‖₁ of the mean loss, σ = 1 / (n C), in scikit-learn's parametrisation
    ridge, penalty = 0.01, 1.0 / (600 * 0.05)
    model = LogisticRegression(
        solver="saga", C=1.0 / (600 * (ridge + penalty)), l1_ratio=penalty / (ridge + penalty), fit_intercept=False,
        tol=1e-10, max_iter=20_000,
    ).fit(z, y)  # fmt: skip
    np.testing.assert_allclose(found.coef_ * X.std(axis=0), model.coef_[0], atol=1e-4)


def test_what_does_not_fit_in_memory_is_refused():
    with refused(PlanError, "memory-limit", at="memory_limit"):
        L1Liblinear().plan(10**6, 10**4, "float32", 2**30)
    with refused(ConfigError, "parameters", at="l1_liblinear", naming=["n_features_to_select"]):
        L1Liblinear(3, C=1.0).fit_matrix(ArrayMatrix(np.ones((3, 4)), np.arange(3)))
    with refused(ConfigError, "losses", at="loss", naming=["did you mean"]):
        L1Liblinear(loss="logistik").plan(10, 10, "float32", None)


@pytest.mark.parametrize("method", [L1Liblinear, SgdSlr, GroupLasso])
def test_penalties_that_were_solved_are_not_solved_again(data, method, monkeypatch):
    matrix, kept = ArrayMatrix(*data), Kept()
    first = method(5).fit_matrix(matrix, checkpoint=kept)
    assert kept.n_saved == first.n_fits_ > 3
    interrupted = Kept(killed_after=3)
    with pytest.raises(Interrupted):
        method(5).fit_matrix(matrix, checkpoint=interrupted)
    solved, solve = [], method._solve
    monkeypatch.setattr(method, "_solve", lambda self, C, *rows: solved.append(C) or solve(self, C, *rows))
    resumed = method(5).fit_matrix(matrix, checkpoint=interrupted)
    assert len(solved) == first.n_fits_ - 3
    np.testing.assert_array_equal(resumed.coef_, first.coef_)
    assert (resumed.C_, resumed.n_fits_, resumed.n_iter_) == (first.C_, first.n_fits_, first.n_iter_)
