"""The Lasso path against scikit-learn's, the criterion against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import lasso_path as sklearn_lasso_path

from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.kernels.lasso.path import default_max_features, gram_capacity, lasso_path, path_nbytes


def make_block(n_samples, n_features, seed, correlated=False, odd=False, duplicated=False, collinear=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    if correlated:
        X += 0.8 * rng.standard_normal((n_samples, 1))
    y = 5 + X[:, :6] @ [2, -1.5, 1, 0.7, -0.5, 0.3] + rng.standard_normal(n_samples)
    if odd:
        X[:, 3] = 7.25
        X[:, 4] *= 1e-3
        X[:, 5] += 1e6
    if collinear:
        X[:, -2] = X[:, 1] + X[:, 2]
    if duplicated:
        X[:, -1] = X[:, 0]
    return X, y


def standardised(X, y, weight):
    """Rows times the root of their weight, so that an unweighted path of them is the weighted path."""
    centred = X - np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average(centred**2, axis=0, weights=weight))
    varies = scale > 1e-9
    root = np.sqrt(weight * len(y) / weight.sum())
    Z = np.where(varies, centred / np.where(varies, scale, 1.0), 0.0) * root[:, None]
    return Z, (y - np.average(y, weights=weight)) * root


def all_coefficients(path, n_features):
    coef = np.zeros((len(path.lambdas), n_features))
    coef[:, path.entered] = path.coef
    return coef


def whole_path(X, y, weight, **options):
    options = {"solver": "descent", **options}
    return lasso_path(X, y, weight, penalty=3.0, patience=None, max_features=X.shape[1], **options)


WEIGHTS = {
    "unweighted": lambda rng, n: np.ones(n),
    "weighted": lambda rng, n: rng.uniform(0.5, 2.0, n),
    "weights of zero": lambda rng, n: rng.integers(0, 4, n).astype(float),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("n_samples", "n_features"), [(200, 40), (60, 40), (30, 60)])
@pytest.mark.parametrize(
    "design", [{}, {"correlated": True}, {"odd": True}, {"collinear": True}, {"odd": True, "collinear": True}]
)
def test_the_path_is_that_of_scikit_learn(design, n_samples, n_features, weights):
    X, y = make_block(n_samples, n_features, seed=n_samples, **design)
    weight = WEIGHTS[weights](np.random.default_rng(1), n_samples)
    path = whole_path(X, y, weight)
    Z, target = standardised(X, y, weight)
    _, expected, _ = sklearn_lasso_path(np.asfortranarray(Z), target, alphas=path.lambdas, tol=1e-14, max_iter=100_000)
    assert len(path.lambdas) == 100
    np.testing.assert_allclose(all_coefficients(path, n_features), expected.T, atol=1e-7)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("design", [{"duplicated": True}, {"duplicated": True, "collinear": True, "correlated": True}])
def test_among_duplicates_the_path_is_optimal(design, weights):
    """Coefficients of duplicates are not unique; every λ still satisfies the conditions of optimality."""
    X, y = make_block(300, 40, seed=3, **design)
    weight = WEIGHTS[weights](np.random.default_rng(1), 300)
    path = whole_path(X, y, weight)
    Z, target = standardised(X, y, weight)
    coef = all_coefficients(path, 40)
    gradient = (target - coef @ Z.T) @ Z / 300
    active = np.where(coef != 0, np.abs(gradient - np.sign(coef) * path.lambdas[:, None]), 0.0)
    assert active.max() < 1e-9
    assert (np.abs(gradient) - path.lambdas[:, None]).max() < 1e-8


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_of_two_twins_the_first_stands_for_both(sign):
    X, y = make_block(300, 40, seed=3)
    alone = whole_path(X, y, np.ones(300))
    path = whole_path(np.column_stack([X, sign * X[:, [2, 0]]]), y, np.ones(300))
    np.testing.assert_allclose(all_coefficients(path, 42)[:, :40], all_coefficients(alone, 40), atol=1e-10)
    assert not all_coefficients(path, 42)[:, 40:].any()


@pytest.mark.slow
def test_float32_blocks_are_summed_in_float64():
    X, y = make_block(300, 50, seed=5, correlated=True)
    single = X.astype(np.float32)
    ones = np.ones(300)
    np.testing.assert_array_equal(whole_path(single, y, ones).coef, whole_path(single.astype(float), y, ones).coef)


def test_a_weight_of_two_is_the_row_twice():
    X, y = make_block(80, 20, seed=6)
    weight = np.random.default_rng(0).integers(0, 3, 80)
    twice = whole_path(np.repeat(X, weight, axis=0), np.repeat(y, weight), np.ones(weight.sum()))
    weighted = whole_path(X, y, weight.astype(float))
    np.testing.assert_allclose(all_coefficients(weighted, 20), all_coefficients(twice, 20), atol=1e-10)
    np.testing.assert_allclose(weighted.gic, twice.gic, rtol=1e-10)


def brute_force(X, y, path, penalty, gic_rss):
    """The criterion of every model of the path by numpy's least squares."""
    n_samples = len(y)
    values = []
    for step, coef in enumerate(all_coefficients(path, X.shape[1])):
        model = np.flatnonzero(coef)
        centred = X - X.mean(axis=0)
        if gic_rss == "refit":
            solution = np.linalg.lstsq(centred[:, model], y - y.mean(), rcond=None)[0]
            residual = y - y.mean() - centred[:, model] @ solution
        else:
            residual = y - y.mean() - centred @ path.coefficients(step)
        values.append(n_samples * np.log(np.mean(residual**2)) + penalty * len(model))
    return np.array(values)


@pytest.mark.parametrize("gic_rss", ["refit", "lasso"])
@pytest.mark.parametrize("criterion", ["bic", "ric", "ebic"])
@pytest.mark.parametrize("seed", range(4))
def test_the_criterion_chooses_as_brute_force_does(criterion, gic_rss, seed):
    X, y = make_block(120, 60, seed, correlated=seed % 2 == 1)
    penalty = feature_penalty(criterion, 120, 60)
    path = lasso_path(
        X, y, np.ones(120), penalty=penalty, gic_rss=gic_rss, patience=None, max_features=60, solver="descent"
    )
    expected = brute_force(X, y, path, penalty, gic_rss)
    np.testing.assert_allclose(path.gic, expected, rtol=1e-8, atol=1e-6)
    assert path.best == np.argmin(np.round(expected, 6))


def test_an_early_stop_chooses_the_same_model():
    X, y = make_block(400, 300, seed=8)
    penalty = feature_penalty("ebic", 400, 300)
    whole = lasso_path(X, y, np.ones(400), penalty=penalty, patience=None)
    early = lasso_path(X, y, np.ones(400), penalty=penalty, patience=10)
    assert early.stop == "patience"
    assert len(early.lambdas) < len(whole.lambdas)
    np.testing.assert_array_equal(early.selected(), whole.selected())


def test_the_bound_on_the_model_holds_near_saturation():
    X, y = make_block(40, 500, seed=9)
    path = lasso_path(X, y, np.ones(40), penalty=0.0, patience=None)
    assert path.stop == "max_features"
    assert path.df.max() <= default_max_features(40, 500) == 3


def test_a_path_that_runs_out_of_gram_rows_says_so():
    X, y = make_block(200, 400, seed=10)
    path = lasso_path(X, y, np.ones(200), penalty=0.0, patience=None, max_features=150)
    assert gram_capacity(400, 150) == 364
    assert path.stop in ("memory", "max_features", "end of the path")
    assert np.isfinite(path.gic).all()


def test_more_features_than_rows_and_exact_fits_stay_finite():
    X, _ = make_block(20, 50, seed=11)
    path = lasso_path(X, X[:, 0] * 3.0, np.ones(20), penalty=3.0, patience=None, max_features=19)
    assert np.isfinite(path.gic).all()
    np.testing.assert_array_equal(path.selected(), [0])


def test_a_constant_target_has_no_path():
    X, _ = make_block(20, 5 + 5, seed=12)
    path = lasso_path(X, np.full(20, 3.0), np.ones(20), penalty=3.0)
    assert (len(path.lambdas), path.best, len(path.selected())) == (0, -1, 0)


def test_all_columns_constant_have_no_path():
    path = lasso_path(np.ones((20, 3)), np.arange(20.0), np.ones(20), penalty=3.0)
    assert len(path.selected()) == 0


def test_one_column_is_selected_when_it_explains():
    X, y = make_block(50, 6, seed=13)
    path = lasso_path(np.ascontiguousarray(X[:, :1]), y, np.ones(50), penalty=3.0)
    np.testing.assert_array_equal(path.selected(), [0])


def test_the_block_is_not_modified():
    X, y = make_block(50, 10, seed=14)
    before = X.copy()
    whole_path(X, y, np.ones(50))
    np.testing.assert_array_equal(X, before)


def test_the_memory_of_a_path_is_a_number_of_its_sizes():
    assert path_nbytes(400, 1000, 100, 28) < 3 << 20
    assert path_nbytes(20_000, 100_000, 100, default_max_features(20_000, 100_000)) < 512 << 20


def test_descent_that_does_not_finish_is_counted():
    """Thirty columns of rank five, but for a thousandth."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 5)) @ rng.standard_normal((5, 30))
    noise = rng.standard_normal((60, 30))
    X += 1e-3 * noise
    y = noise[:, :5].sum(axis=1) + X[:, 0]
    assert whole_path(X, y, np.ones(60)).n_unsolved > 0
    assert whole_path(noise, y, np.ones(60)).n_unsolved == 0
