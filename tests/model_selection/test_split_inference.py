"""Intervals by splitting the rows: textbook numbers on the other half, any input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from daskfs import FGM, Message, Mission, OnlineSubstitution, SplitInference
from daskfs.errors import ConfigError, SelectionWarning
from tests.contract import checks
from tests.contract.cases import Case

FEW = {"n_features_to_select": 4, "loss": "squared"}
QUICK = [
    "a_memory_limit_is_planned_as_it_is_kept_and_keeps_the_answer",
    "rows_of_a_split_are_those_rows_as_arrays",
    "the_result_names_the_store_and_its_features",
    "what_comes_out_is_what_came_in_and_lazy_stays_lazy",
    "progress_reaches_its_total",
    "a_fitted_selector_is_small_and_lets_go_of_the_rows",
    "same_bits_in_threads",
    "arrays_in_memory_are_sent_once",
    "dask_collections_give_the_answer_of_their_store",
    "a_fit_resumed_after_any_save_ends_with_the_same_bits",
]
CASES = [
    Case("split_inference", "SplitInference", {"selector": OnlineSubstitution(**FEW)}),
    Case("split_inference-classes", "SplitInference", {"selector": Mission(4, n_epochs=1)}, "three classes"),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("name", QUICK)
def test_it_passes_the_examination_of_every_method(case, name, lab):
    getattr(checks, name)(case, lab)


def differs(estimator):
    weights = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return dict.fromkeys(weights, "a row of weight 2 is in one part, two rows may be in both")


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([SplitInference(FGM(loss="squared"))], expected_failed_checks=differs)
def test_scikit_learns_examination(estimator, check):
    check(estimator)


def data(n=900, p=15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, 2.0 * X[:, 3] - X[:, 7] + rng.standard_normal(n) * (0.5 + np.abs(X[:, 3]))


def test_coefficients_and_errors_are_those_of_the_rows_that_did_not_select():
    X, y = data()
    selector = SplitInference(FGM(2), share=0.6, random_state=5).fit(X, y)
    rows = np.sort(np.random.default_rng(5).permutation(len(y))[540:])
    kept = np.flatnonzero(selector.support_)
    expected = LinearRegression().fit(X[rows][:, kept], y[rows])
    np.testing.assert_allclose(selector.coef_[kept], expected.coef_, rtol=1e-9)
    A = np.column_stack([np.ones(len(rows)), X[rows][:, kept]])
    residual = y[rows] - A @ np.append(expected.intercept_, expected.coef_)
    bread = np.linalg.inv(A.T @ A)
    white = np.sqrt(np.diag(bread @ (A * residual[:, None] ** 2).T @ A @ bread) * len(rows) / (len(rows) - 3))
    np.testing.assert_allclose(selector.std_errors_[kept], white[1:], rtol=1e-9)
    assert selector.result_.notes[0].startswith("selection on 540 rows, estimation on the other 360: the 95% intervals")
    np.testing.assert_array_equal(selector.selected_, selector.selector_.selected_)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber", "squared_hinge", "classes"])
def test_every_loss_has_intervals(loss):
    X, eta = data()
    rng = np.random.default_rng(1)
    y = {"poisson": rng.poisson(np.exp(0.3 * eta)).astype(float), "huber": eta}.get(loss, (eta > 0).astype(float))
    if loss == "classes":
        y, loss = np.digitize(eta, [-1.5, 1.5]), "logistic"
    inside = {"huber": Message(n_subsets=1, loss=loss), "poisson": Message(n_subsets=1, loss=loss)}
    selector = SplitInference(inside.get(loss) or FGM(2, loss=loss)).fit(X, y)
    table = selector.result_.table
    assert {3, 7} <= set(table["index"])
    assert ((table["lower"] < table["coef"]) & (table["coef"] < table["upper"])).all()
    assert np.isfinite(selector.std_errors_[..., selector.selected_]).all()


def test_a_map_is_refused():
    with pytest.raises(ConfigError, match="split inference does not support feature maps"):
        SplitInference(FGM(2, feature_map="pairs")).fit(*data())


def test_a_column_that_depends_on_others_has_no_standard_error():
    X, y = data()
    X[:, 8] = X[:, 7]
    with pytest.warns(SelectionWarning, match=r"1 coefficient\(s\) have no standard error"):
        selector = SplitInference(FGM(3)).fit(X, y)
    assert {7, 8} <= set(selector.selected_)
    assert np.isnan(selector.std_errors_[[7, 8]]).sum() == 1


def test_a_level_of_one_is_refused():
    with pytest.raises(ConfigError, match="level"):
        SplitInference(FGM(2), level=1.0).fit(*data())
