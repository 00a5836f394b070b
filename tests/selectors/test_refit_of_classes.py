"""The refit of several classes together: the minimum of the multinomial loss, with a ridge on centred coefficients."""

import numpy as np
import pytest
import scipy.sparse
from scipy.special import logsumexp
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from daskfs import Message, Mission, SelectionCV
from daskfs.errors import ConfigError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.shared.class_blocks import contrasts
from daskfs.selectors.shared.refit_of_classes import fit_each_class, fit_each_size
from daskfs.selectors.shared.run import Run
from tests.baselines.designs import levels_and_classes
from tests.refusals import refused


def data(seed, n=200, p=6, n_classes=3, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.uniform(0.5, 3.0, p) + rng.normal(size=p)
    return X, (X @ rng.normal(size=(p, n_classes)) + noise * rng.gumbel(size=(n, n_classes))).argmax(axis=1) + 5.0


def refit(X, y, weight=None, **options):
    columns = options.pop("columns", np.arange(X.shape[1]))
    with Run(ArrayMatrix(X, y, weight), "mission") as run:
        return fit_each_class(run, columns, "multinomial", **options)


def probabilities(X, fit):
    z = X @ fit.coef.T + fit.intercept
    odds = np.exp(z - z.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_the_minimum_is_that_of_scikit_learn(seed, ridge):
    X, y = data(seed, n_classes=3 + seed, noise=3.0)
    weight = np.random.default_rng(seed).integers(0, 3, len(y)).astype(float)
    fit = refit(X, y, weight, ridge=ridge)
    mean, scale = np.average(X, axis=0, weights=weight), fit.fits[0].scale
    inverse = np.inf if ridge == 0.0 else 1.0 / (ridge * weight.sum())
    peer = LogisticRegression(C=inverse, tol=1e-10, max_iter=10_000).fit((X - mean) / scale, y, weight)
    np.testing.assert_allclose(fit.coef * scale, peer.coef_ - peer.coef_.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(probabilities(X, fit), peer.predict_proba((X - mean) / scale), atol=1e-5)


@pytest.mark.parametrize("ridge", [None, 0.02])
def test_classes_are_treated_alike(ridge):
    X, y = data(3)
    fit, turned = refit(X, y, ridge=ridge), refit(X, (y - 5.0 + 1.0) % 3, ridge=ridge)
    assert fit.loss == "multinomial"
    assert fit.fits[0].ridge == pytest.approx(turned.fits[0].ridge)
    np.testing.assert_allclose(turned.coef, np.roll(fit.coef, 1, axis=0), atol=1e-6)


def test_columns_that_are_always_included_have_no_ridge():
    X, y = data(4, noise=2.0)
    fit = refit(X, y, ridge=0.5, free=np.array([1, 4]))
    pull = (probabilities(X, fit) - np.eye(3)[(y - 5.0).astype(int)]).T @ (X - X.mean(axis=0)) / len(y)
    penalty = np.where(np.isin(np.arange(6), [1, 4]), 0.0, 0.5) * X.var(axis=0)
    np.testing.assert_allclose(pull, -penalty * fit.coef, atol=1e-6)


def test_a_weak_ridge_bounds_separable_classes_and_dependent_columns_are_counted():
    X, y = load_iris(return_X_y=True)
    fit = refit(np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(y))]), y, ridge=0.0)
    assert fit.is_separable
    assert np.isfinite(fit.coef).all()
    assert [one.n_dependent for one in fit.fits] == [1, 1, 1]
    assert (fit.coef[:, -1] == 0.0).all()  # constant


@pytest.mark.parametrize("n_samples", [600, 2000])
@pytest.mark.parametrize("seed", range(3))
def test_a_fit_without_a_minimum_ends_at_that_with_the_weak_ridge(seed, n_samples):
    X, y = levels_and_classes(seed, n_samples, 8, 40)
    fit = refit(X, y.astype(float), ridge=0.0)
    assert fit.is_separable
    (ridge,) = {one.ridge for one in fit.fits}
    scale = X.std(axis=0)
    peer = LogisticRegression(C=1.0 / (ridge * n_samples), tol=1e-8, max_iter=10_000).fit(X / scale, y)

    def objective(z, coef):
        return (logsumexp(z, axis=1) - z[np.arange(len(y)), y]).mean() + 0.5 * ridge * (coef**2).sum()

    mine = objective(X @ fit.coef.T + fit.intercept, fit.coef * scale)
    assert mine <= 1.0001 * objective(peer.decision_function(X / scale), peer.coef_)


def test_blocks_of_a_run_give_what_all_rows_give(monkeypatch):
    X, y = data(5, n=500)
    whole = refit(X, y)
    monkeypatch.setattr("daskfs.selectors.shared.selected_blocks.BLOCK_VALUES", 64 * X.shape[1])
    np.testing.assert_allclose(refit(X, y).coef, whole.coef, rtol=1e-6)


def test_columns_that_are_mostly_zero_are_refitted_as_dense_ones():
    rng = np.random.default_rng(9)
    X = scipy.sparse.random_array((600, 70), density=0.03, rng=rng, format="csr")  # kept as entries
    y = (X @ rng.normal(size=(70, 3)) + 0.1 * rng.gumbel(size=(600, 3))).argmax(axis=1) + 0.0
    np.testing.assert_allclose(refit(X, y, ridge=0.1).coef, refit(X.toarray(), y, ridge=0.1).coef, rtol=1e-6, atol=1e-9)


def test_smaller_sizes_are_fits_of_the_first_columns():
    X, y = data(6)
    with Run(ArrayMatrix(X, y), "mission") as run:
        order = np.array([4, 0, 2, 1])
        found = fit_each_size(run, order, [2, 4], "multinomial", ridge=0.1)
    np.testing.assert_allclose(found[0].coef, refit(X, y, ridge=0.1, columns=order[:2]).coef, atol=1e-10)
    assert found[1].coef.shape == (3, 4)


def test_many_classes_and_an_l1_penalty_have_a_fit_for_each_class_against_the_rest():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(400, 30)), np.arange(400) % 20 + 0.0
    assert refit(X, y).loss == "logistic"
    assert refit(*data(7), has_l1=True).loss == "logistic"


def test_contrasts_are_orthonormal_and_sum_to_zero():
    for n in (2, 3, 7):
        made = contrasts(n)
        np.testing.assert_allclose(made.T @ made, np.eye(n - 1), atol=1e-12)
        np.testing.assert_allclose(made.sum(axis=0), 0.0, atol=1e-12)


def ordered(seed, n=160):
    """Three classes, by the size of a sum: a model of each against the rest, or rough steps, confuse the middle one."""
    X = np.random.default_rng(seed).normal(size=(n + 1000, 20))
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, :3].sum(axis=1), [-0.8, 0.8])]
    return (X[:n], y[:n]), (X[n:], y[n:])


@pytest.mark.parametrize("make", [lambda: Mission(3), lambda: SelectionCV(Mission(3)), lambda: Message(refit="ridge")])
def test_ordered_classes_are_told_apart(make):
    for seed in range(3):
        train, test = ordered(seed)
        assert make().fit(*train).score(*test) > 0.93


def test_an_exact_refit_of_too_many_coefficients_is_refused():
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(300, 60)), np.array([f"class {k}" for k in np.arange(300) % 20])
    with refused(ConfigError, "parameters", at="refit", naming=["20 classes", "sgd"]):
        Mission(50, refit="exact").fit(X, y)
    Mission(50, refit="sgd").fit(X, y)
