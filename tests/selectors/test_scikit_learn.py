"""The face that scikit-learn's users know."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from daskfs.errors import DataError
from daskfs.selectors.message.selector import Message
from tests.tolerances import assert_close, assert_same_answer


@pytest.fixture(scope="module")
def frame(problem):
    return pd.DataFrame(problem[0], columns=[f"gene{j}" for j in range(20)])


def test_the_selected_columns_come_out(problem, frame):
    X, y = problem
    selector = Message(n_subsets=3).fit(frame, y)
    np.testing.assert_array_equal(selector.transform(frame), X[:, [2, 5, 11]])
    assert list(selector.get_feature_names_out()) == ["gene2", "gene5", "gene11"]
    np.testing.assert_array_equal(selector.get_support(indices=True), [2, 5, 11])


def test_set_output_gives_frames(problem, frame):
    selector = Message(n_subsets=3).set_output(transform="pandas").fit(frame, problem[1])
    pd.testing.assert_frame_equal(selector.transform(frame), frame[["gene2", "gene5", "gene11"]])


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_sparse_input_gives_the_answer_of_dense_input(problem, kind):
    X, y = problem
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    dense, sparse = Message(n_subsets=3).fit(X, y), Message(n_subsets=3).fit(kind(X), y)
    assert_same_answer(sparse, dense)
    assert_close(sparse.predict(kind(X)), dense.predict(X))


def test_float32_input_gives_the_features_of_float64_input(problem):
    X, y = problem
    single = Message(n_subsets=3).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.coef_, Message(n_subsets=3).fit(X, y).coef_, atol=1e-6)


def test_it_stands_in_a_pipeline(problem):
    X, y = problem
    model = make_pipeline(Message(n_subsets=3), LinearRegression())
    assert cross_val_score(model, X, y, cv=3).min() > 0.7


def test_score_is_the_share_of_variance_explained(problem):
    X, y = problem
    selector = Message(n_subsets=3).fit(X, y)
    expected = 1 - np.mean((y - selector.predict(X)) ** 2) / y.var()
    assert selector.score(X, y) == pytest.approx(expected)


def test_names_are_forgotten_when_the_next_fit_has_none(problem, frame):
    X, y = problem
    selector = Message(n_subsets=3).fit(frame, y).fit(X, y)
    assert not hasattr(selector, "feature_names_in_")


def test_no_target_is_refused(problem):
    with pytest.raises(ValueError, match="requires y to be passed"):
        Message().fit(problem[0])


def test_text_in_an_array_is_refused(problem, frame):
    with pytest.raises((DataError, ValueError), match="could not convert"):
        Message().fit(frame.assign(gene0="a").to_numpy(), problem[1])
