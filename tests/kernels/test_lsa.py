"""The least-squares approximation of a path: exact where the loss is a parabola, near the path elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from daskfs.kernels.glm.fit import glm_fit
from daskfs.kernels.glm.lsa import lsa_path, lsa_path_nbytes
from daskfs.kernels.glm.path import glm_path

LOSSES = ("squared", "logistic", "poisson", "huber")


def make_block(loss, n_samples, seed, n_features=20):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features)) + 0.4 * rng.standard_normal((n_samples, 1))
    X[:, 4] = X[:, 4] * 1e-3 + 5
    z = 0.5 + X[:, :4] @ [0.6, -0.5, 0.4, 0.3]
    if loss == "logistic":
        y = np.where(rng.random(n_samples) < expit(z), 1.0, -1.0)
    elif loss == "poisson":
        y = rng.poisson(np.exp(0.5 * z)).astype(float)
    else:
        y = z + (rng.standard_t(3, n_samples) if loss == "huber" else rng.standard_normal(n_samples))
    return X, y, rng.uniform(0.5, 2.0, n_samples)


def all_coefficients(path, n_features):
    coef = np.zeros((len(path.lambdas), n_features))
    coef[:, path.entered] = path.coef
    return coef


@pytest.mark.slow
@pytest.mark.parametrize("gic_rss", ["refit", "lasso"])
def test_for_the_squared_loss_it_is_the_path(gic_rss):
    X, y, weight = make_block("squared", 300, 0)
    noise = 1.3
    options = {"loss": "squared", "penalty": 5.0, "patience": None, "gic_rss": gic_rss, "sigma2": noise}
    exact = glm_path(X, y, weight, tol=1e-10, max_features=20, **options)
    path = lsa_path(X, y, weight, max_features=20, **options)
    np.testing.assert_allclose(path.lambdas, exact.lambdas)
    np.testing.assert_allclose(all_coefficients(path, 20), all_coefficients(exact, 20), atol=1e-7)
    np.testing.assert_allclose(path.centred_intercepts, exact.centred_intercepts)
    np.testing.assert_allclose(path.gic, exact.gic, rtol=1e-6)
    np.testing.assert_array_equal(path.selected(), exact.selected())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loss", LOSSES)
def test_of_many_rows_it_chooses_the_model_of_the_path(loss, seed):
    X, y, weight = make_block(loss, 5000, seed)
    penalty = np.log(5000) + np.log(20)
    path = lsa_path(X, y, weight, loss=loss, penalty=penalty)
    exact = glm_path(X, y, weight, loss=loss, penalty=penalty)
    np.testing.assert_array_equal(path.selected(), exact.selected())
    np.testing.assert_array_equal(path.selected(), [0, 1, 2, 3])
    np.testing.assert_allclose(path.gic[path.best], exact.gic[exact.best], rtol=0.01)


@pytest.mark.parametrize("loss", LOSSES)
def test_at_its_end_stands_the_fit_of_all_columns(loss):
    X, y, weight = make_block(loss, 400, 3)
    path = lsa_path(X, y, weight, loss=loss, penalty=0.0, patience=None, max_features=20, min_ratio=1e-8)
    fit = glm_fit(X, y, weight, loss=loss)
    np.testing.assert_allclose(path.coefficients(-1), fit.coef, rtol=1e-4, atol=1e-5 / path.moments.scale.min())
    np.testing.assert_allclose(path.fit[-1], fit.deviance, rtol=1e-9)
    np.testing.assert_allclose(X @ path.coefficients(-1) + path.intercept(-1), X @ fit.coef + fit.intercept, atol=1e-4)


def test_constant_and_dependent_columns_take_no_part():
    X, y, weight = make_block("logistic", 2000, 4)
    plain = lsa_path(X, y, weight, loss="logistic", penalty=12.0)
    more = np.column_stack([X, np.ones(2000), X[:, 0], X[:, 1] + X[:, 2]])
    path = lsa_path(more, y, weight, loss="logistic", penalty=12.0)
    np.testing.assert_array_equal(path.entered, range(20))
    np.testing.assert_allclose(path.coef[path.best], plain.coef[plain.best], atol=1e-6)
    np.testing.assert_array_equal(path.selected(), plain.selected())


def test_classes_that_can_be_told_apart_stay_finite_and_are_counted():
    X, _, weight = make_block("logistic", 100, 5)
    path = lsa_path(X, np.where(X[:, 0] > 0, 1.0, -1.0), weight, loss="logistic", penalty=5.0)
    assert path.n_separable == 1
    assert np.isfinite(path.coef).all()
    assert np.isfinite(path.gic).all()
    assert 0 in path.selected()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_constant_target_or_constant_columns_have_no_path(loss):
    X, y, weight = make_block(loss, 50, 6)
    for block, target in ((X, np.ones(50)), (np.ones((50, 3)), y)):
        path = lsa_path(block, target, weight, loss=loss, penalty=3.0)
        assert (len(path.lambdas), path.best, len(path.selected())) == (0, -1, 0)


def test_the_stops_are_those_of_the_path():
    X, y, weight = make_block("logistic", 1000, 7)
    assert lsa_path(X, y, weight, loss="logistic", penalty=0.0, max_features=3).stop == "max_features"
    assert lsa_path(X, y, weight, loss="logistic", penalty=20.0, patience=2).stop == "patience"
    assert lsa_path(X, y, weight, loss="logistic", penalty=20.0, patience=None).stop == "end of the path"


def test_its_memory_is_a_number_of_its_sizes():
    assert lsa_path_nbytes(10_000, 27, 100) < 5 << 20
