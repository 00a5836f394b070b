"""MESSAGE on sparse rows in memory: what dense rows give, in the memory of the entries."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Lasso

from daskfs.errors import PlanError
from daskfs.kernels.linear.gram_matrix import WHOLE_GRAM_COLUMNS
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.plan import choose_n_subsets, is_sparse
from daskfs.selectors.message.selector import Message
from tests.tolerances import assert_same_answer

N, P = 1500, 200


def text(loss: str, n_features: int = P) -> tuple[sp.csr_matrix, np.ndarray]:
    """Draw counts of words, two of which matter, and one that is in every row."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.poisson(0.04, (N, n_features)).astype(float))
    X = sp.hstack([X, rng.standard_normal((N, 1)) + 50.0], format="csr")
    z = 4 * X[:, [2]].toarray().ravel() - 4 * X[:, [9]].toarray().ravel()
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.3 * z)).astype(float)
    if loss == "logistic":
        return X, rng.random(N) < 1 / (1 + np.exp(-z))
    if loss == "multinomial":
        return X, np.argmax(np.outer(z, [1, 0, -1]) + rng.gumbel(size=(N, 3)), axis=1)
    return X, z + rng.standard_normal(N)


@pytest.mark.slow_cases("huber", "logistic", "poisson", "multinomial")
@pytest.mark.parametrize("loss", ["squared", "huber", "logistic", "poisson", "multinomial"])
def test_entries_give_what_dense_rows_give(loss):
    X, y = text(loss)
    assert is_sparse(N // 3, P + 1, X.nnz // 3)
    found, expected = Message(n_subsets=3, loss=loss).fit(X, y), Message(n_subsets=3, loss=loss).fit(X.toarray(), y)
    assert set(found.selected_) == {2, 9}
    assert_same_answer(found, expected)


@pytest.mark.filterwarnings("ignore::daskfs.errors.SelectionWarning")
@pytest.mark.parametrize("options", [{"estimator": Lasso(0.05)}, {"approx": "lsa", "loss": "logistic"}])
def test_other_ways_to_choose_take_sparse_rows_too(options):
    X, y = text(options.get("loss", "squared"))
    found, expected = Message(n_subsets=3, **options).fit(X, y), Message(n_subsets=3, **options).fit(X.toarray(), y)
    assert_same_answer(found, expected)


def test_weights_and_later_rows():
    X, y = text("squared")
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    found = Message(n_subsets=3).fit(X, y, weight)
    expected = Message(n_subsets=3).fit(X.toarray(), y, weight)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
    parts = Message(n_subsets=2)
    for rows in (slice(0, 800), slice(800, N)):
        parts.partial_fit(X[rows], y[rows])
    assert set(parts.selected_) == {2, 9}


@pytest.mark.slow
def test_the_same_bits_in_threads_and_the_same_answer_within_a_limit(threads):
    X, y = text("logistic")
    here = Message(n_subsets=5, loss="logistic").fit(X, y)
    small = Message(n_subsets=5, loss="logistic", memory_limit="32MiB").fit(X, y)
    there = Message(n_subsets=5, loss="logistic", client=threads.client).fit(X, y)
    assert_same_answer(small, here)
    np.testing.assert_array_equal(there.coef_, here.coef_)


@pytest.mark.slow
def test_many_columns_take_the_memory_of_their_entries():
    """100,000 columns: as dense rows a subset of 400 would take 320 MB."""
    X, y = text("squared", n_features=1000)
    X = sp.hstack([X, sp.csr_matrix((N, 99_000))], format="csr")
    options = {"n_subsets": 3, "max_features": 10, "memory_limit": "250MiB"}
    assert set(Message(**options).fit(X, y).selected_) == {2, 9}
    with pytest.raises(PlanError, match="500 rows x 100,001 columns"):
        Message(**options).fit_matrix(ArrayMatrix(X.astype(np.float32).toarray()[:, : X.shape[1]], y))


def test_narrow_or_full_rows_are_taken_as_dense():
    assert not is_sparse(1000, WHOLE_GRAM_COLUMNS, 10)
    assert not is_sparse(1000, 1000, 200_000)
    assert is_sparse(1000, 1000, 20_000)


def test_entries_are_counted_for_the_number_of_subsets():
    n, p = 2_000_000, 20_000
    assert choose_n_subsets(n, p, None, None) == 499
    assert choose_n_subsets(n, p, None, None, n_values=100 * n) == 25
