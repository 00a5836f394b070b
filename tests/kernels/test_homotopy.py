"""The exact path against scikit-learn's, its choice against brute force, and what happens where it gives up."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import lars_path
from sklearn.linear_model import lasso_path as sklearn_lasso_path

from daskfs.kernels.lasso.criteria import feature_penalty
from daskfs.kernels.lasso.path import knot_capacity, lasso_path
from daskfs.kernels.linear.correlations import correlations
from daskfs.kernels.linear.gram_matrix import WHOLE_GRAM_COLUMNS
from daskfs.kernels.linear.moments import moments

SHAPES = [(60, 40), (200, 40), (120, 250), (400, 100)]
KINDS = ("plain", "correlated", "odd", "duplicated", "collinear")
DESIGNS = [(seed, KINDS[seed % 5], *SHAPES[seed // 5 % 4]) for seed in range(40)]
IS_UNIQUE = {"plain", "correlated", "odd"}


def make_block(seed, kind, n_samples, n_features):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    if kind == "correlated":
        X += rng.standard_normal((n_samples, 1))
    y = 5 + X[:, :6] @ [2, -1.5, 1, 0.7, -0.5, 0.3] + rng.standard_normal(n_samples)
    if kind == "odd":
        X[:, 7] = 7.25
        X[:, 4] *= 1e-3
        X[:, 5] += 1e6
    if kind == "duplicated":
        X[:, -1], X[:, -2] = X[:, 0], -X[:, 1]
    if kind == "collinear":
        X[:, -1] = X[:, 0] + X[:, 1]
        X[:, -2] = 1 - X[:, 2] + 2 * X[:, 3]
    return X, y


def standardised(X, y):
    centred = X - X.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2, axis=0))
    varies = scale > 1e-9
    return np.where(varies, centred / np.where(varies, scale, 1.0), 0.0), y - y.mean()


def all_coefficients(path, n_features):
    coef = np.zeros((len(path.lambdas), n_features))
    coef[:, path.entered] = path.coef
    return coef


def follow(X, y, **options):
    options = {"penalty": 3.0, "patience": None, "max_features": min(X.shape) // 2, **options}
    return lasso_path(X, y, np.ones(len(y)), **options)


def brute_force(X, y, path, penalty, gic_rss):
    """The criterion of every model of the path by numpy's least squares."""
    centred, target = X - X.mean(axis=0), y - y.mean()
    values = []
    for step, active in enumerate(path.is_active):
        model = path.entered[active]
        if gic_rss == "refit":
            residual = target - centred[:, model] @ np.linalg.lstsq(centred[:, model], target, rcond=None)[0]
        else:
            residual = target - centred @ path.coefficients(step)
        values.append(len(y) * np.log(np.mean(residual**2)) + penalty * len(model))
    return np.array(values)


@pytest.mark.parametrize("solver", ["homotopy", "descent"])
@pytest.mark.parametrize("design", [design for design in DESIGNS if design[1] in IS_UNIQUE][:12], ids=str)
def test_weights_of_columns_are_columns_of_that_length(design, solver):
    X, y = make_block(*design)
    weight = np.random.default_rng(design[0]).uniform(0.2, 1.0, X.shape[1])
    path = follow(X, y, column_weight=weight, solver=solver)
    assert (path.solver, path.given_up) == (solver, "")
    Z, target = standardised(X, y)
    short = np.asfortranarray(Z * weight)
    _, expected, _ = sklearn_lasso_path(short, target, alphas=path.lambdas, tol=1e-14, max_iter=200_000)
    np.testing.assert_allclose(all_coefficients(path, X.shape[1]), expected.T, atol=1e-8 * y.std())
    fitted = X @ path.coefficients(path.best) + path.intercept(path.best)
    np.testing.assert_allclose(fitted, short @ expected[:, path.best] + y.mean(), atol=1e-7 * y.std())
    cache = path.gram  # of which a refit is made: without the weights
    met = Z[:, cache.features]
    np.testing.assert_allclose(cache.gram, met.T @ met / len(y), atol=1e-12)
    np.testing.assert_allclose(cache.cross, met.T @ target / len(y), atol=1e-10)


@pytest.mark.parametrize("solver", ["homotopy", "descent"])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_one_change_no_bit(kind, solver):
    X, y = make_block(1, kind, 120, 60)
    path, same = (follow(X, y, solver=solver, column_weight=one) for one in (None, np.ones(60)))
    for found, expected in zip(same, path, strict=True):
        for part, other in zip(
            *((one if isinstance(one, tuple) else (one,)) for one in (found, expected)), strict=True
        ):
            np.testing.assert_array_equal(part, other)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_the_path_is_that_of_scikit_learn(design):
    """Where columns depend on each other the coefficients are not unique, the fitted values are."""
    X, y = make_block(*design)
    path = follow(X, y)
    Z, target = standardised(X, y)
    _, expected, _ = sklearn_lasso_path(np.asfortranarray(Z), target, alphas=path.lambdas, tol=1e-14, max_iter=200_000)
    found = all_coefficients(path, X.shape[1])
    assert len(path.lambdas) > 10
    np.testing.assert_allclose(found @ Z.T, expected.T @ Z.T, atol=1e-7)
    if design[1] in IS_UNIQUE:
        assert path.solver == "homotopy"
        np.testing.assert_allclose(found, expected.T, atol=1e-7)


@pytest.mark.parametrize("design", [design for design in DESIGNS if design[1] in IS_UNIQUE], ids=str)
def test_the_knots_are_those_of_lars(design):
    X, y = make_block(*design)
    path = follow(X, y, min_ratio=1e-3)
    lambdas, _, coef = lars_path(*standardised(X, y), method="lasso", max_iter=len(path.lambdas) + 1)
    n = len(path.lambdas) - 1  # the last one may be the end of the path instead of a knot
    np.testing.assert_allclose(path.lambdas[:n], lambdas[:n], atol=1e-10)
    np.testing.assert_allclose(all_coefficients(path, X.shape[1])[:n], coef.T[:n], atol=1e-9)


@pytest.mark.parametrize("gic_rss", ["refit", "lasso"])
@pytest.mark.parametrize("criterion", ["bic", "ric", "ebic"])
@pytest.mark.parametrize("design", DESIGNS[::2], ids=str)
def test_the_criterion_chooses_as_brute_force_does(design, criterion, gic_rss):
    X, y = make_block(*design)
    penalty = feature_penalty(criterion, *X.shape)
    path = follow(X, y, penalty=penalty, gic_rss=gic_rss)
    expected = brute_force(X, y, path, penalty, gic_rss)
    np.testing.assert_allclose(path.gic, expected, rtol=1e-8, atol=1e-6)
    assert path.best == np.argmin(np.round(expected, 6))
    np.testing.assert_array_equal(path.df, path.is_active.sum(axis=1))


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_a_grid_that_sees_the_model_chooses_it_too(design):
    """A grid may step over the interval of λ that belongs to the best model; the knots never do."""
    X, y = make_block(*design)
    penalty = feature_penalty("ebic", *X.shape)
    path = follow(X, y, penalty=penalty)
    grid = follow(X, y, penalty=penalty, solver="descent", n_lambdas=2000)
    assert path.gic[path.best] <= grid.gic[grid.best] + 1e-8
    above, below = path.lambdas[path.best - 1], path.lambdas[path.best]
    if ((grid.lambdas < above) & (grid.lambdas > below)).any():
        np.testing.assert_array_equal(path.selected(), grid.selected())


def test_the_criterion_with_a_known_variance_is_the_penalised_residual():
    X, y = make_block(0, "plain", 200, 40)
    for solver in ("homotopy", "descent"):
        path = follow(X, y, sigma2=1.5, solver=solver)
        np.testing.assert_allclose(path.gic, 200 * path.fit / 1.5 + 3.0 * path.df, rtol=1e-12)


@pytest.mark.slow_cases("float32")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_repeated_rows(dtype):
    X, y = make_block(1, "correlated", 120, 60)
    X = X.astype(dtype)
    weight = np.random.default_rng(0).integers(0, 3, 120)
    options = {"penalty": 3.0, "patience": None, "max_features": 20}
    twice = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    expected = lasso_path(*twice, np.ones(len(twice[1])), **options)
    path = lasso_path(X, y, weight.astype(float), **options)
    np.testing.assert_allclose(path.lambdas, expected.lambdas, atol=1e-10)
    np.testing.assert_allclose(all_coefficients(path, 60), all_coefficients(expected, 60), atol=1e-9)


def test_a_feature_that_leaves_is_of_the_model_above():
    X, y = make_block(30, "plain", 120, 250)
    path = follow(X, y)
    leaves = np.flatnonzero(np.diff(path.df) < 0)
    assert len(leaves) == 3
    for step in leaves:
        gone = path.is_active[step] & ~path.is_active[step + 1]
        assert gone.sum() == 1
        np.testing.assert_allclose(path.coef[step, gone], 0.0, atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_of_two_twins_the_first_stands_for_both(sign):
    X, y = make_block(3, "plain", 300, 40)
    alone = follow(X, y)
    for order in (np.r_[:40, 2, 0], np.r_[2, 0, :40]):
        twice = np.take(X, order, axis=1) * np.where(np.arange(42) % 3, 1.0, sign)
        path = follow(twice, y, max_features=20)
        first = {int(feature): place for place, feature in reversed(list(enumerate(order)))}
        assert path.solver == "homotopy"
        expected = sorted(first[int(feature)] for feature in alone.entered[alone.is_active[10]])
        np.testing.assert_array_equal(np.sort(path.entered[path.is_active[10]]), expected)


def test_a_column_too_near_to_others_is_left_to_descent_and_it_is_said():
    """The part of the last column that the others do not explain is a millionth of it, and all of y's remainder."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((100, 6))
    remainder = rng.standard_normal(100)
    X[:, 5] = X[:, 0] + X[:, 1] + 1e-6 * remainder
    options = {"max_features": 6, "min_ratio": 1e-8}
    path = follow(X, X[:, 0] + X[:, 1] + remainder, **options)
    expected = follow(X, X[:, 0] + X[:, 1] + remainder, solver="descent", **options)
    assert (path.solver, path.given_up) == ("descent", "collinear columns")
    np.testing.assert_array_equal(path.lambdas, expected.lambdas)
    np.testing.assert_allclose(path.gic, expected.gic, rtol=1e-9)
    np.testing.assert_array_equal(path.selected(), expected.selected())


def test_all_dummies_of_a_category_need_no_descent():
    rng = np.random.default_rng(6)
    category = rng.integers(0, 5, 300)
    X = np.column_stack([category[:, None] == np.arange(5), rng.standard_normal((300, 3))]).astype(float)
    y = np.array([0.0, 1.0, 2.0, 4.0, 8.0])[category] + 0.1 * rng.standard_normal(300)
    path = follow(X, y, max_features=8, min_ratio=1e-4)
    Z, target = standardised(X, y)
    gradient = (target - all_coefficients(path, 8) @ Z.T) @ Z / 300
    assert path.solver == "homotopy"
    assert (np.abs(gradient) - path.lambdas[:, None]).max() < 1e-9


def test_ties_of_orthogonal_columns_are_followed_or_given_up_but_never_wrong():
    """Columns of a Hadamard matrix with equal effects enter at one λ."""
    H = np.array([[1.0]])
    for _ in range(5):
        H = np.block([[H, H], [H, -H]])
    X = np.ascontiguousarray(H[:, 1:])
    y = X[:, :4].sum(axis=1) + 0.5 * X[:, 4:6].sum(axis=1)
    path = follow(X, y, max_features=31, min_ratio=1e-2)
    np.testing.assert_array_equal(np.sort(path.entered[path.coef[-1] != 0]), np.arange(6))
    expected = np.sign(X.T @ y / 32) * np.maximum(np.abs(X.T @ y / 32) - path.lambdas[:, None], 0.0)
    np.testing.assert_allclose(all_coefficients(path, 31), expected, atol=1e-9)


def test_a_path_longer_than_its_room_descends(monkeypatch):
    X, y = make_block(0, "plain", 200, 40)
    monkeypatch.setattr("daskfs.kernels.lasso.path.knot_capacity", lambda max_features: 5)
    path = follow(X, y)
    assert (path.solver, path.given_up) == ("descent", "too many knots")


def test_an_early_stop_chooses_the_same_model():
    X, y = make_block(8, "plain", 400, 300)
    penalty = feature_penalty("ebic", 400, 300)
    whole, early = follow(X, y, penalty=penalty), follow(X, y, penalty=penalty, patience=5)
    assert early.stop == "patience"
    assert len(early.lambdas) < len(whole.lambdas) <= knot_capacity(200)
    assert early.n_passes <= 3
    np.testing.assert_array_equal(early.selected(), whole.selected())


def test_the_bounds_on_the_model_and_on_the_gram_rows_hold():
    X, y = make_block(9, "plain", 40, 500)
    path = lasso_path(X, y, np.ones(40), penalty=0.0, patience=None)
    assert (path.stop, path.df.max()) == ("max_features", 3)


def test_exact_fits_stay_finite():
    X, _ = make_block(11, "plain", 20, 50)
    path = follow(X, X[:, 0] * 3.0, max_features=19)
    assert np.isfinite(path.gic).all()
    np.testing.assert_array_equal(path.selected(), [0])


def test_the_intercept_belongs_to_the_coefficients():
    X, y = make_block(12, "odd", 200, 40)
    path = follow(X, y)
    fitted = X @ path.coefficients(10) + path.intercept(10)
    np.testing.assert_allclose(fitted.mean(), y.mean(), rtol=1e-9)


def of_columns(cache, columns):
    """Correlations, products with the target, means and scales of some columns of a cache."""
    places = [cache.features.tolist().index(column) for column in columns]
    return cache.gram[np.ix_(places, places)], cache.cross[places], cache.mean[places], cache.scale[places]


@pytest.mark.parametrize("solver", ["homotopy", "descent"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_has_the_normal_equations_of_the_rows(kind, solver):
    X, y = make_block(13, kind, 200, 100)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, 200)
    path = lasso_path(X, y, weight, penalty=8.0, solver=solver)
    columns = np.sort(path.gram.features[:7])
    some = np.ascontiguousarray(X[:, columns])
    m = moments(some, y, weight)
    gram, cross, mean, scale = of_columns(path.gram, columns)
    assert set(path.entered) <= set(path.gram.features)
    np.testing.assert_allclose(gram, correlations(some, weight, m), atol=1e-10)
    np.testing.assert_allclose(cross, m.cross, rtol=1e-8, atol=1e-10 * m.y_variance**0.5)
    np.testing.assert_allclose(mean, m.mean, rtol=1e-12)
    np.testing.assert_allclose(scale, m.scale, rtol=1e-10)
    assert (path.gram.total, path.gram.y_mean) == (m.total, m.y_mean)


def test_the_cache_has_no_more_features_than_asked_for():
    X, y = make_block(14, "odd", 200, 40)
    path = follow(X, y, max_cached=3)
    assert path.gram.gram.shape == (3, 3)
    assert path.gram.features.tolist() == path.entered[:3].tolist()


@pytest.mark.parametrize("solver", ["homotopy", "descent"])
def test_correlations_that_are_all_known_are_all_kept(solver):
    X, y = make_block(14, "odd", 200, WHOLE_GRAM_COLUMNS)
    varies = np.flatnonzero(X.min(axis=0) < X.max(axis=0))
    assert len(varies) < WHOLE_GRAM_COLUMNS
    path = lasso_path(X, y, np.ones(200), penalty=8.0, patience=3, solver=solver)
    assert len(path.entered) < len(varies)
    np.testing.assert_array_equal(np.sort(path.gram.features), varies)


@pytest.mark.slow
def test_another_process_computes_the_same_bits():
    code = (
        "import numpy as np\nfrom daskfs.kernels.lasso.path import lasso_path\n"
        "X = np.random.default_rng(0).standard_normal((203, 1037)).astype(np.float32)\n"
        "y = X[:, :3].sum(axis=1).astype(float) + np.random.default_rng(1).standard_normal(203)\n"
        "path = lasso_path(X, y, np.ones(203), penalty=9.0)\n"
        "print(path.coef.tobytes().hex(), path.gic.tobytes().hex())"
    )
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(runs) == 1
    assert len(runs.pop()) > 100


DISCRETE = {
    "zeros and ones": lambda rng, n, p: rng.integers(0, 2, (n, p)).astype(float),
    "three values": lambda rng, n, p: rng.integers(-1, 2, (n, p)).astype(float),
    "one category": lambda rng, n, p: np.eye(p)[rng.integers(0, p, n)],
    "no ties": lambda rng, n, p: rng.standard_normal((n, p)),
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", DISCRETE)
def test_small_designs_full_of_ties_are_optimal_to_the_end_of_the_path(kind, seed):
    rng = np.random.default_rng(seed)
    n_samples, n_features = (int(size) for size in rng.integers(6, 50, 2))
    X = DISCRETE[kind](rng, n_samples, n_features)
    y = (
        rng.integers(0, 3, n_samples).astype(float)
        if seed % 2
        else X[:, :3].sum(axis=1) + rng.integers(0, 2, n_samples)
    )
    path = follow(X, y, max_features=n_features)
    Z, target = standardised(X, y)
    coef = all_coefficients(path, n_features)
    gradient = (target - coef @ Z.T) @ Z / n_samples
    bound = path.lambdas[:, None] + 1e-10 * path.lambdas[0]
    assert (np.abs(gradient) <= bound).all()
    assert (np.where(np.abs(coef) > 1e-9, np.sign(coef) * gradient, np.inf) >= 2 * path.lambdas[:, None] - bound).all()
    grid = follow(X, y, max_features=n_features, solver="descent")
    assert path.gic[path.best] <= grid.gic[grid.best] + 1e-6
    assert path.n_unsolved == 0
