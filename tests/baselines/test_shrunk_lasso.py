"""The Lasso of a given penalty is scikit-learn's, of sparse rows that of dense ones, and a path has all its models."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import Lasso, LogisticRegression

from daskfs.baselines.linear.shrunk_lasso import ShrunkLasso, follow, most_selected, shares
from daskfs.errors import DataError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from tests.baselines.designs import two_true as data
from tests.refusals import refused


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("seed", range(5))
def test_of_numbers_it_is_scikit_learns(share, seed):
    X, y = data(seed)
    Z = standardised(X)
    largest = np.abs(Z.T @ (y - y.mean())).max() / len(y)
    expected = Lasso(alpha=share * largest, tol=1e-10, max_iter=100_000).fit(Z, y)
    found = ShrunkLasso(share=share).fit(X, y)
    np.testing.assert_allclose(found.coef_ * X.std(axis=0), expected.coef_, atol=1e-4)
    np.testing.assert_allclose(found.predict(X), expected.predict(Z), atol=1e-3)
    np.testing.assert_array_equal(found.support_, found.coef_ != 0.0)


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("share", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_of_two_classes_it_is_scikit_learns(share, is_sparse):
    X, y = data(is_sparse=is_sparse)
    label = y > np.median(y) + 0.3
    Z = standardised(X)
    largest = np.abs(Z.T @ (label - label.mean())).max() / len(y)
    expected = LogisticRegression(
        l1_ratio=1.0, C=1.0 / (share * largest * len(y)), solver="saga", tol=1e-9, max_iter=100_000, random_state=0
    ).fit(Z, label)
    found = ShrunkLasso(share=share).fit(scipy.sparse.csr_array(X) if is_sparse else X, label)
    np.testing.assert_allclose(found.coef_ * X.std(axis=0), expected.coef_[0], atol=1e-3)
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(Z), atol=5e-3)


def test_several_classes_are_each_told_from_the_rest():
    X, y = data()
    label = np.digitize(y, [-1.0, 1.0])
    found = ShrunkLasso(share=0.1, loss="logistic").fit(X, label)
    for k in range(3):
        one = ShrunkLasso(share=0.1, loss="logistic").fit(X, label == k)
        np.testing.assert_allclose(found.decision_function(X)[:, k], one.decision_function(X), atol=1e-6)
    assert set(found.selected_) == set(np.flatnonzero(found.coef_.any(axis=0)))


@pytest.mark.slow
def test_weights_count_as_rows():
    X, y = data()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    found = ShrunkLasso().fit(X, y, weight)
    again = ShrunkLasso().fit(np.repeat(X, weight.astype(int), axis=0), np.repeat(y, weight.astype(int)))
    np.testing.assert_allclose(found.coef_, again.coef_, atol=1e-5)


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("is_logistic", [False, True])
def test_a_path_has_the_models_of_its_penalties(is_sparse, is_logistic):
    X, y = data(n=300, is_sparse=is_sparse)
    matrix = ArrayMatrix(scipy.sparse.csr_array(X) if is_sparse else X, y)
    target = np.where(y > 0.0, 1.0, -1.0) if is_logistic else y
    penalties = shares(*X.shape)
    models = follow(matrix, target[:, None], is_logistic, penalties)
    assert len(models.coef) == len(penalties) == 18
    predicted = models.predict(matrix)
    for k in (0, 5, 17):
        one = ShrunkLasso(share=penalties[k]).fit(X, target)
        given = one.decision_function(X) if is_logistic else one.predict(X)
        np.testing.assert_allclose(predicted[k, :, 0], given, atol=1e-3)
        assert abs(len(one.selected_) - models.n_selected[k]) <= 1


@pytest.mark.slow
def test_a_path_ends_where_it_has_many_columns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 400))
    y = X @ rng.standard_normal(400)
    assert most_selected(900, 400) == 150
    models = follow(ArrayMatrix(X, y), y[:, None], False, shares(900, 400))
    assert 0 < len(models.coef) < 18
    assert models.n_selected.max() <= 150
    assert len(ShrunkLasso(share=0.001).fit(X, y).selected_) == models.n_selected[-1]


@pytest.mark.slow
def test_columns_that_say_nothing_are_not_selected():
    X = np.tile([[1.0, 1.0], [1.0, -1.0]], (20, 1))
    y = np.repeat([1.5, 2.25], 20)
    with pytest.warns(SelectionWarning, match="no feature was selected"):
        found = ShrunkLasso(loss="squared").fit(X, y)
    assert len(found.selected_) == 0
    np.testing.assert_allclose(found.predict(X), 1.875)


def test_nan_is_named_by_column_and_row():
    X, y = data()
    X[17, 5] = np.nan
    with refused(DataError, "values", at="column 5, row 17"):
        ShrunkLasso().fit(X, y)
