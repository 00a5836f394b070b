"""MESSAGE's second look: weak features that most subsets miss and all rows show, and what must not come in by it."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.errors import ConfigError
from daskfs.kernels.glm.fit import glm_fit, newton_terms
from daskfs.kernels.glm.softmax import softmax_fit, softmax_terms
from daskfs.kernels.linear.moments import moments
from daskfs.selectors.message.selector import Message
from daskfs.selectors.message.subset import SelectionSettings, refit
from daskfs.selectors.message.votes import common_z, is_beyond, least_votes, z_of_least_squares, z_of_likelihood

WEAK = 7
N, M = 10_000, 25  # rows, subsets


def weak_feature(loss: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw two strong features and a weak one, which a subset of 400 rows sees less often than not."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 200))
    z = X[:, 2] - X[:, 5]
    if loss in ("squared", "huber"):
        return X, z + 0.1 * X[:, WEAK] + rng.standard_normal(N)
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.5 * z + 0.1 * X[:, WEAK])).astype(float)
    if loss == "logistic":
        return X, rng.random(N) < 1 / (1 + np.exp(-z - 0.28 * X[:, WEAK]))
    return X, np.argmax(np.outer(z, [1, 0, -1]) + np.outer(X[:, WEAK], [0, 0.3, 0]) + rng.gumbel(size=(N, 3)), axis=1)


@pytest.mark.parametrize("loss", ["squared", "huber", "poisson", "logistic", "multinomial"])
def test_a_weak_feature_is_kept_for_what_all_subsets_show(loss):
    X, y = weak_feature(loss)
    voted = Message(n_subsets=M, loss=loss, second_look=False).fit(X, y)
    assert set(voted.selected_) == {2, 5}
    assert 0.1 < voted.scores_[WEAK] <= 0.5
    looked = Message(n_subsets=M, loss=loss).fit(X, y)
    assert set(looked.selected_) == {2, 5, WEAK}
    np.testing.assert_array_equal(looked.scores_, voted.scores_)
    assert any("1 kept for what all subsets show together" in note for note in looked.result_.notes)
    alone = Message(n_subsets=M, loss=loss, gic_penalty=0.1, max_features=3).fit(X[:, [2, 5, WEAK]], y)
    np.testing.assert_allclose(looked.coef_[..., [2, 5, WEAK]], alone.coef_, rtol=1e-9)


def test_subsets_with_outliers_bring_nothing_in_as_long_as_they_are_few():
    """In 10 of 25 subsets the target follows a column of noise: enough votes for a second look, not for its median."""
    X, y = weak_feature("squared")
    y[: 10 * N // M] += 5 * X[: 10 * N // M, 11]
    selector = Message(n_subsets=M).fit_matrix(_in_order(X, y))
    assert selector.scores_[11] == 0.4
    assert 11 not in selector.selected_
    assert any(": 0 kept" in note or ": 1 kept" in note for note in selector.result_.notes)


class Memory:
    """A checkpoint that keeps what it is given."""

    def __init__(self):
        self.saved = {}

    def load(self, name):
        return self.saved.get(name)

    def save(self, name, arrays):
        assert name not in self.saved
        self.saved[name] = arrays


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_fits_of_the_second_look_are_not_taken_for_those_of_the_model(loss):
    """A contender that is turned away, so that columns are fitted twice; with a checkpoint, and once more from it."""
    X, y = weak_feature("squared")
    y[: 10 * N // M] += 5 * X[: 10 * N // M, 11]
    y = y if loss == "squared" else y > 0
    matrix = _in_order(X, np.asarray(y, float))
    plain, kept, resumed = (Message(n_subsets=M, loss=loss) for _ in range(3))
    plain.fit_matrix(matrix)
    assert any("more than chance gives" in note for note in plain.result_.notes)
    memory = Memory()
    for selector in (kept, resumed):
        selector.fit_matrix(matrix, checkpoint=memory)
        memory.save = None  # nothing is left to do
        np.testing.assert_array_equal(selector.coef_, plain.coef_)


def _in_order(X: np.ndarray, y: np.ndarray):
    from daskfs.matrix.arrays import ArrayMatrix

    return ArrayMatrix(X, y, shuffled=True)


@pytest.mark.parametrize("n_subsets", [5, 10, 20])
def test_the_second_look_lets_no_noise_in(n_subsets):
    rng = np.random.default_rng(3)
    for _ in range(20):
        X = rng.standard_normal((400 * n_subsets, 100))
        y = X[:, 0] + rng.standard_normal(len(X))
        voted = Message(n_subsets=n_subsets, second_look=False).fit(X, y)
        assert set(Message(n_subsets=n_subsets).fit(X, y).selected_) == set(voted.selected_)


def test_rows_that_come_later_vote_in_the_second_look_too():
    X, y = weak_feature("squared")
    selector = Message(n_subsets=5)
    for rows in np.split(np.arange(N), 5):
        selector.partial_fit(X[rows], y[rows])
    assert set(selector.selected_) == {2, 5, WEAK}


def test_z_is_the_coefficient_over_its_standard_error_of_least_squares():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((300, 4)) * [1, 5, 0.1, 1] + 3, rng.standard_normal(300)
    y += X[:, 0]
    m = moments(X, y, np.ones(300))
    equations = refit(X, y, np.ones(300), SelectionSettings())
    design = np.column_stack([np.ones(300), X])
    coef, rss = np.linalg.lstsq(design, y, rcond=None)[:2]
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * rss[0] / (300 - 5))
    found = z_of_least_squares(equations, coef[None, 1:])
    np.testing.assert_allclose(found[0], (coef / errors)[1:], rtol=1e-9)
    assert m.y_variance == equations.y_variance[0]


def test_z_is_the_coefficient_over_its_standard_error_of_maximum_likelihood():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((500, 3)) * [1, 4, 0.2]
    y = np.where(rng.random(500) < 1 / (1 + np.exp(-X[:, 0])), 1.0, -1.0)
    fit, weight, scale = glm_fit(X, y, np.ones(500), loss="logistic"), np.ones(500), X.std(axis=0)
    terms = newton_terms(
        X, y, weight, loss="logistic", coef=fit.coef * scale, intercept=fit.intercept, centre=np.zeros(3), scale=scale
    )
    found = z_of_likelihood(fit.coef[None], np.array([fit.dispersion]), terms.hessian[None], scale, 0)
    design = np.column_stack([np.ones(500), X])
    p = 1 / (1 + np.exp(-design @ np.concatenate([[fit.intercept], fit.coef])))
    errors = np.sqrt(np.diag(np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design)))
    np.testing.assert_allclose(found[0], fit.coef / errors[1:], rtol=1e-7)


def test_two_classes_have_the_z_of_the_logistic_model():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((500, 3))
    y = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
    weight, centre, scale = np.ones(500), np.zeros(3), np.ones(3)
    two = glm_fit(X, 2 * y - 1, weight, loss="logistic")
    terms = newton_terms(
        X, 2 * y - 1, weight, loss="logistic", coef=two.coef, intercept=two.intercept, centre=centre, scale=scale
    )
    expected = z_of_likelihood(two.coef[None], np.ones(1), terms.hessian[None], scale, 0)
    many = softmax_fit(X, y, weight, 2)
    intercepts = many.centred_intercepts - (many.coef * many.moments.mean).sum(axis=1)
    at = np.column_stack([intercepts, many.coef])
    softmax = softmax_terms(X, y, weight, at[:-1] - at[-1], centre, scale)
    found = z_of_likelihood(many.coef[None], np.ones(1), softmax.hessian[None], scale, 2)
    np.testing.assert_allclose(found[0, 1], expected[0], rtol=1e-6)
    np.testing.assert_allclose(found[0, 0], -expected[0], rtol=1e-6)


def test_the_median_of_z_has_the_scale_of_all_rows():
    rng = np.random.default_rng(5)
    common = np.array([common_z(rng.standard_normal((25, 1)))[0] for _ in range(4000)])
    assert 0.9 < np.sqrt((common**2).mean()) < 1.1
    known = np.array([[3.0, np.nan], [3.0, np.nan]])
    np.testing.assert_allclose(common_z(known), [np.sqrt(4 / np.pi) * 3, 0.0])
    assert is_beyond(np.array([3.9, 4.1]), 10_000, 1000, 0.5).tolist() == [False, True]


def test_more_votes_elsewhere_ask_for_more_votes():
    asked = [least_votes(votes, 25_000, 25, 1000) for votes in (0, 100, 500, 2500)]
    assert asked == sorted(asked)
    assert asked[0] == 1
    assert asked[-1] > 6


def test_a_second_look_is_true_or_false():
    with pytest.raises(ConfigError, match="second_look"):
        Message(second_look="yes").fit(np.eye(50), np.arange(50.0))
