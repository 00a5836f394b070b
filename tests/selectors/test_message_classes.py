"""MESSAGE with more than two classes, and with subsets that lack some."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import Lasso, LogisticRegression

from daskfs.errors import DataError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.selector import Message
from daskfs.sources.ingest import ingest
from tests.contract.lab import assert_same_bits
from tests.refusals import refused
from tests.tolerances import assert_same_answer

TRUE_FEATURES = [3, 7, 11]
LABELS = np.array(["ash", "birch", "cedar", "date"])


@pytest.fixture(scope="module")
def trees():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 15))
    z = X[:, TRUE_FEATURES] @ (1.5 * rng.standard_normal((3, 4))) + [0.5, 0.0, 0.0, -0.5]
    cumulated = np.cumsum(np.exp(z), axis=1)
    return X, (rng.random((3000, 1)) * cumulated[:, -1:] > cumulated).sum(axis=1)


def test_the_true_features_and_nearly_the_fit_of_all_rows(trees):
    X, y = trees
    message = Message(loss="multinomial", n_subsets=5).fit(X, LABELS[y])
    np.testing.assert_array_equal(np.flatnonzero(message.support_), TRUE_FEATURES)
    peer = LogisticRegression(C=1e12, tol=1e-10, solver="newton-cg", max_iter=500).fit(X[:, TRUE_FEATURES], y)
    mean = Message(loss="multinomial", n_subsets=5, average="mean").fit(X, LABELS[y])
    error, error_of_mean = (abs(one.coef_[:, TRUE_FEATURES] - peer.coef_).max() for one in (message, mean))
    assert error < 0.2 * error_of_mean
    assert error < 5e-3
    np.testing.assert_allclose(message.intercept_, peer.intercept_, atol=5e-3)
    np.testing.assert_allclose(message.coef_.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_array_equal(message.classes_, LABELS)
    np.testing.assert_allclose(message.predict_proba(X), peer.predict_proba(X[:, TRUE_FEATURES]), atol=5e-3)
    assert message.score(X, LABELS[y]) > 0.9 * peer.score(X[:, TRUE_FEATURES], y)
    assert message.decision_function(X[:3]).shape == (3, 4)
    norms = np.sqrt((message.coef_[:, message.selected_] ** 2).sum(axis=0))
    np.testing.assert_allclose(message.result_.table["coef"], norms)


def test_the_same_bits_in_threads_and_the_same_answer_with_other_tiles(trees, threads, tmp_path):
    X, y = trees
    store = ingest(X, tmp_path / "t.zarr", y=y, dtype="float64", tile_shape=(256, 4))
    other = ingest(X, tmp_path / "u.zarr", y=y, dtype="float64", tile_shape=(700, 15))
    expected = Message(loss="multinomial", n_subsets=4).fit(store)
    assert_same_bits(Message(loss="multinomial", n_subsets=4).fit_matrix(store, workers=threads), expected)
    assert_same_answer(Message(loss="multinomial", n_subsets=4).fit_matrix(other, workers=threads), expected)
    np.testing.assert_array_equal(np.flatnonzero(expected.support_), TRUE_FEATURES)


def test_classes_without_a_feature_leave_their_shares(trees):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((1000, 6)), rng.choice(3, 1000, p=[0.5, 0.3, 0.2])
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        message = Message(loss="multinomial", n_subsets=3, gic_penalty=50.0).fit(X, y)
    assert not len(message.selected_)
    np.testing.assert_allclose(message.predict_proba(X[:1])[0], np.bincount(y) / 1000, atol=1e-12)


def test_an_estimator_may_select_for_the_classes(trees):
    X, y = trees
    lasso = Message(loss="multinomial", n_subsets=3, estimator=LogisticRegression(C=0.01, l1_ratio=1, solver="saga"))
    assert set(TRUE_FEATURES) <= set(lasso.fit(X, y).selected_)


def test_a_subset_of_one_class_has_no_vote():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2000, 5))
    y = np.where(X[:, 2] + 0.5 * rng.standard_normal(2000) > 0, "yes", "no")
    first = np.flatnonzero(y == "no")[:800]  # two of five subsets
    order = np.concatenate([first, rng.permutation(np.setdiff1d(np.arange(2000), first))])
    as_they_stand = ArrayMatrix(X[order], (y[order] == "yes").astype(float), shuffled=True)
    message = Message(loss="logistic", subset_size=400).fit_matrix(as_they_stand)
    np.testing.assert_array_equal(np.flatnonzero(message.support_), [2])
    assert message.scores_[2] == 1.0
    assert "the target is constant on 2 of 5 subsets: they have no vote" in message.result_.notes


def test_one_class_is_named_by_its_label():
    with refused(DataError, "shapes", naming=["'oak'"]):
        Message(loss="logistic").fit(np.random.default_rng(0).standard_normal((20, 3)), ["oak"] * 20)


def test_a_lasso_for_numbers_knows_no_classes(trees):
    X, y = trees
    votes = Message(loss="multinomial", n_subsets=3, estimator=Lasso(alpha=0.01)).fit(X, y)
    assert votes.coef_.shape == (4, 15)


@pytest.mark.nightly
def test_many_classes_are_fitted_without_the_hessian_of_all_coefficients():
    """30 classes and 40 features or so: 1,200 unknowns, and words that most classes lack."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 30, 3000)
    X = (rng.random((3000, 100)) < 0.02).astype(float)
    X[np.arange(3000), y] += rng.random(3000) < 0.8
    X[np.arange(3000), (y + 30) % 60] += rng.random(3000) < 0.6
    sparse = Message(loss="multinomial", n_subsets=3).fit(csr_matrix(X), y)
    dense = Message(loss="multinomial", n_subsets=3).fit(X, y)
    assert {*range(30)} <= set(sparse.selected_)
    assert any("too many coefficients" in note for note in sparse.result_.notes)
    assert sparse.score(X, y) > 0.8  # 1 in 30 by chance
    np.testing.assert_array_equal(sparse.selected_, dense.selected_)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-6, atol=1e-9)
