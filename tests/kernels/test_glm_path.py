"""Lasso paths of losses: against scikit-learn, and by the conditions of optimality."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, xlogy
from sklearn.linear_model import LogisticRegression, lasso_path

from daskfs.baselines.lasso.tasks import RowPart, Weighting
from daskfs.kernels.glm.fit import glm_fit
from daskfs.kernels.glm.lsa import lsa_path
from daskfs.kernels.glm.path import default_max_features, entered_capacity, glm_path, glm_path_nbytes
from daskfs.sources.synthetic import SyntheticSource

LOSSES = ("squared", "logistic", "poisson", "huber")
DESIGNS = {
    "independent": {},
    "correlated": {"correlated": True},
    "constant, tiny and offset": {"odd": True},
    "collinear": {"collinear": True},
    "duplicated": {"duplicated": True},
    "all of it": {"correlated": True, "odd": True, "collinear": True, "duplicated": True},
}


def make_block(loss, n_samples, n_features, seed, correlated=False, odd=False, collinear=False, duplicated=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    if correlated:
        X += 0.8 * rng.standard_normal((n_samples, 1))
    z = 0.3 + X[:, :6] @ [1, -0.8, 0.6, 0.5, -0.4, 0.2] / (1 + correlated)
    if loss == "logistic":
        y = np.where(rng.random(n_samples) < expit(z), 1.0, -1.0)
    elif loss == "poisson":
        y = rng.poisson(np.exp(0.7 * z)).astype(float)
    else:
        y = 50 + 3 * (z + rng.standard_t(2, n_samples))
    if odd:
        X[:, 3] = 7.25
        X[:, 4] *= 1e-3
        X[:, 5] += 1e6
    if collinear:
        X[:, -2] = X[:, 1] + X[:, 2]
    if duplicated:
        X[:, -1] = -2 * X[:, 0]
    return X, y


def standardised(X, weight):
    centred = X - np.average(X, axis=0, weights=weight)
    scale = np.sqrt(np.average(centred**2, axis=0, weights=weight))
    varies = scale > 1e-9
    return np.where(varies, centred / np.where(varies, scale, 1.0), 0.0)


def residuals(path, z, y):
    """Minus the derivative of the loss, by numpy."""
    if path.loss == "logistic":
        return y * expit(-y * z)
    if path.loss == "poisson":
        return y - np.exp(z)
    return np.clip(y - z, -path.threshold, path.threshold) if path.loss == "huber" else y - z


def deviance(path, z, y, weight):
    if path.loss == "logistic":
        return -2 * weight @ log_expit(y * z)
    if path.loss == "poisson":
        return 2 * weight @ (np.exp(z) - y * z - y + xlogy(y, y))
    inner = np.minimum(abs(y - z), path.threshold if path.loss == "huber" else np.inf)
    return weight @ (inner * (2 * abs(y - z) - inner))


def all_coefficients(path, n_features):
    coef = np.zeros((len(path.lambdas), n_features))
    coef[:, path.entered] = path.coef
    return coef


def largest_violation(path, X, y, weight, column_weight=1.0):
    """Of the conditions of optimality, over all λ and columns, as a part of the largest λ."""
    Z = standardised(X, weight) * column_weight
    share = weight / weight.sum()
    worst = 0.0
    for coef, intercept, lam in zip(
        all_coefficients(path, X.shape[1]), path.centred_intercepts, path.lambdas, strict=True
    ):
        residual = share * residuals(path, Z @ coef + intercept, y)
        gradient = Z.T @ residual
        violation = np.where(coef != 0, abs(gradient - lam * np.sign(coef)), np.maximum(abs(gradient) - lam, 0))
        worst = max(worst, abs(residual.sum()), violation.max())
    return worst / path.lambdas[0]


def whole_path(loss, X, y, weight, **options):
    options = {
        "patience": None,
        "max_features": X.shape[1],
        "tol": 1e-9,
        "gic_rss": "lasso",
        "min_ratio": 1e-2,
    } | options
    return glm_path(X, y, weight, loss=loss, penalty=3.0, **options)


WEIGHTS = {
    "unweighted": lambda rng, n: np.ones(n),
    "weighted": lambda rng, n: rng.uniform(0.5, 2.0, n),
    "weights of zero": lambda rng, n: rng.integers(0, 4, n).astype(float),
}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_logistic_path_is_that_of_scikit_learn(design, seed):
    X, y = make_block("logistic", 200, 25, seed, **DESIGNS[design])
    rng = np.random.default_rng(seed)
    weight = np.ones(200) if seed == 0 else rng.uniform(0.5, 2.0, 200)
    path = whole_path("logistic", X, y, weight, n_lambdas=30)
    Z = standardised(X, weight)
    coef = all_coefficients(path, 25)
    for step in (8, 18, 26):
        peer = LogisticRegression(
            l1_ratio=1.0, C=1 / (weight.sum() * path.lambdas[step]), solver="saga", tol=1e-10, max_iter=100_000
        ).fit(Z, y, sample_weight=weight)
        expected = peer.coef_[0].copy()
        if DESIGNS[design].get("duplicated"):  # saga shares among twins, the path takes the first
            expected[0] -= expected[-1]
            expected[-1] = 0.0
        np.testing.assert_allclose(coef[step], expected, atol=1e-6)
        np.testing.assert_allclose(path.centred_intercepts[step], peer.intercept_[0], atol=1e-6)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("n_samples", "n_features"), [(300, 30), (80, 120)])
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_solution_of_a_path_is_optimal(loss, design, n_samples, n_features, weights):
    X, y = make_block(loss, n_samples, n_features, seed=3, **DESIGNS[design])
    weight = WEIGHTS[weights](np.random.default_rng(1), n_samples)
    path = whole_path(loss, X, y, weight, min_ratio=0.05)
    assert len(path.lambdas) == 100
    assert len(path.entered) > 8
    assert largest_violation(path, X, y, weight) < 1e-7


@pytest.mark.parametrize(("n_samples", "n_features"), [(300, 30), (80, 120)])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_column_of_less_weight_has_to_say_more(loss, n_samples, n_features):
    X, y = make_block(loss, n_samples, n_features, seed=3, correlated=True)
    weight, column_weight = np.ones(n_samples), np.random.default_rng(2).uniform(0.2, 1.0, n_features)
    path = whole_path(loss, X, y, weight, min_ratio=0.05, column_weight=column_weight)
    assert len(path.entered) > 8
    assert largest_violation(path, X, y, weight, column_weight) < 1e-7
    assert largest_violation(path, X, y, weight) > 0.1
    same, plain = (whole_path(loss, X, y, weight, column_weight=one) for one in (np.ones(n_features), None))
    np.testing.assert_array_equal(same.coef, plain.coef)
    np.testing.assert_array_equal(same.gic, plain.gic)


@pytest.mark.slow
def test_the_squared_loss_gives_the_lasso():
    X, y = make_block("squared", 200, 40, seed=2, correlated=True)
    path = whole_path("squared", X, y, np.ones(200))
    Z = standardised(X, np.ones(200))
    _, expected, _ = lasso_path(np.asfortranarray(Z), y - y.mean(), alphas=path.lambdas, tol=1e-14, max_iter=100_000)
    np.testing.assert_allclose(all_coefficients(path, 40), expected.T, atol=1e-7 * y.std())


def test_a_tolerance_of_the_default_is_good_to_its_size():
    X, y = make_block("logistic", 400, 200, seed=4)
    path = whole_path("logistic", X, y, np.ones(400), tol=1e-6, min_ratio=0.1)
    assert largest_violation(path, X, y, np.ones(400)) < 1e-5


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_of_two_twins_the_first_stands_for_both(sign):
    X, y = make_block("logistic", 300, 20, seed=3)
    alone = whole_path("logistic", X, y, np.ones(300))
    path = whole_path("logistic", np.column_stack([X, sign * X[:, [2, 0]]]), y, np.ones(300))
    np.testing.assert_allclose(all_coefficients(path, 22)[:, :20], all_coefficients(alone, 20), atol=1e-8)
    assert not all_coefficients(path, 22)[:, 20:].any()


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_of_two_is_the_row_twice(loss):
    X, y = make_block(loss, 80, 20, seed=6)
    weight = np.random.default_rng(0).integers(0, 3, 80)
    twice = whole_path(loss, np.repeat(X, weight, axis=0), np.repeat(y, weight), np.ones(weight.sum()), gic_rss="refit")
    weighted = whole_path(loss, X, y, weight.astype(float), gic_rss="refit")
    np.testing.assert_allclose(all_coefficients(weighted, 20), all_coefficients(twice, 20), atol=1e-7)
    np.testing.assert_allclose(weighted.gic, twice.gic, rtol=1e-6, atol=1e-4)


@pytest.mark.slow
def test_float32_blocks_are_summed_in_float64():
    X, y = make_block("logistic", 300, 50, seed=5, correlated=True)
    single, ones = X.astype(np.float32), np.ones(300)
    path, double = whole_path("logistic", single, y, ones), whole_path("logistic", single.astype(float), y, ones)
    np.testing.assert_allclose(path.coef, double.coef, atol=1e-8)
    assert largest_violation(path, single.astype(float), y, ones) < 1e-7


def fitted_deviance(path, Z, y, weight):
    """Of the unpenalised fit of the columns of Z, by scipy."""
    design = np.column_stack([np.ones(len(y)), Z])

    def value(b):
        z = design @ b
        return deviance(path, z, y, weight) / 2, -design.T @ (weight * residuals(path, z, y))

    start = np.zeros(design.shape[1])
    start[0] = path.centred_intercepts[0]
    return 2 * minimize(value, start, jac=True, method="BFGS", options={"gtol": 1e-7}).fun


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # scipy's line search tries large steps
@pytest.mark.parametrize("gic_rss", ["refit", "lasso"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_criterion_is_that_of_fits_by_scipy(loss, gic_rss):
    X, y = make_block(loss, 150, 40, seed=8)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 150)
    path = whole_path(loss, X, y, weight, gic_rss=gic_rss, n_lambdas=25, max_features=12)
    Z = standardised(X, weight)
    expected = []
    for coef, intercept in zip(all_coefficients(path, 40), path.centred_intercepts, strict=True):
        if gic_rss == "refit":
            expected.append(fitted_deviance(path, Z[:, coef != 0], y, weight))
        else:
            expected.append(deviance(path, Z @ coef + intercept, y, weight))
    np.testing.assert_allclose(path.fit, expected, rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(path.gic, path.fit / path.dispersion + 3.0 * path.df)
    assert path.best == np.argmin(path.gic)
    assert path.dispersion == 1.0 or loss in ("squared", "huber")


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_the_criterion_forgets_a_feature_that_has_left_the_path(loss):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 8))
    X[:, 2] = X[:, 0] + X[:, 1] + 0.4 * X[:, 2]  # enters first, and leaves when the two that it stands for have entered
    z = X[:, 0] + X[:, 1]
    y = np.where(rng.random(400) < expit(z), 1.0, -1.0) if loss == "logistic" else z + rng.standard_t(2, 400)
    path = whole_path(loss, X, y, np.ones(400), gic_rss="refit", n_lambdas=30)
    coefs = all_coefficients(path, 8)
    assert ((coefs[:-1] != 0) & (coefs[1:] == 0)).any()
    Z = standardised(X, np.ones(400))
    expected = [fitted_deviance(path, Z[:, coef != 0], y, np.ones(400)) for coef in coefs]
    np.testing.assert_allclose(path.fit, expected, rtol=1e-6, atol=1e-3)


@pytest.mark.slow
def test_the_dispersion_of_the_squared_loss_is_the_residual_variance_of_the_largest_model():
    X, y = make_block("squared", 200, 30, seed=1)
    path = whole_path("squared", X, y, np.ones(200), gic_rss="refit", max_features=10)
    model = path.entered[path.coef[-1] != 0]
    design = np.column_stack([np.ones(200), X[:, model]])
    rss = np.linalg.lstsq(design, y, rcond=None)[1][0]
    np.testing.assert_allclose(path.dispersion, rss / (200 - 1 - len(model)), rtol=1e-6)
    given = whole_path("squared", X, y, np.ones(200), gic_rss="refit", sigma2=7.0)
    np.testing.assert_allclose(given.gic, given.fit / 7.0 + 3.0 * given.df)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "huber"])  # squares do not see through noise of t(2)
def test_the_signals_are_found_and_the_early_stop_changes_nothing(loss):
    X, y = make_block(loss, 800, 300, seed=9)
    penalty = np.log(800) + np.log(300)
    early = glm_path(X, y, np.ones(800), loss=loss, penalty=penalty)
    whole = glm_path(X, y, np.ones(800), loss=loss, penalty=penalty, patience=None, sigma2=early.dispersion)
    assert early.stop == "patience"
    assert len(early.lambdas) < len(whole.lambdas)
    assert set(early.selected()) >= {0, 1, 2}
    assert set(early.selected()) <= set(range(6))
    np.testing.assert_array_equal(early.selected(), whole.selected())


@pytest.mark.slow
def test_huber_finds_signals_among_outliers_where_squares_do_not():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 100))
    y = X[:, :3] @ [1.0, -1.0, 1.0] + rng.standard_normal(500)
    y[rng.random(500) < 0.05] += 500.0
    penalty = np.log(500) + np.log(100)
    robust = glm_path(X, y, np.ones(500), loss="huber", penalty=penalty)
    squares = glm_path(X, y, np.ones(500), loss="squared", penalty=penalty)
    np.testing.assert_array_equal(robust.selected(), [0, 1, 2])
    assert set(squares.selected()) != {0, 1, 2}


@pytest.mark.parametrize("loss", LOSSES)
def test_coefficients_predict_on_the_scale_of_the_data(loss):
    X, y = make_block(loss, 100, 15, seed=2, odd=True)
    path = whole_path(loss, X, y, np.ones(100))
    step = len(path.lambdas) // 2
    z = X @ path.coefficients(step) + path.intercept(step)
    expected = standardised(X, np.ones(100)) @ all_coefficients(path, 15)[step] + path.centred_intercepts[step]
    np.testing.assert_allclose(z, expected, atol=1e-6)  # an offset of 1e6 costs digits


def test_perfectly_told_apart_classes_have_a_path_and_refits_are_counted():
    X, _ = make_block("logistic", 60, 30, seed=7)
    y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    path = glm_path(X, y, np.ones(60), loss="logistic", penalty=4.0, patience=None, max_features=30)
    assert np.isfinite(path.gic).all()
    assert np.isfinite(path.coef).all()
    assert path.n_separable > 0
    np.testing.assert_array_equal(path.selected(), [0, 1])
    np.testing.assert_allclose(path.fit[path.best], 0.0, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_constant_target_or_constant_columns_have_no_path(loss):
    X, y = make_block(loss, 20, 10, seed=1)
    for block, target in ((X, np.ones(20)), (np.ones((20, 10)), y)):
        path = glm_path(block, target, np.ones(20), loss=loss, penalty=3.0)
        assert (len(path.lambdas), path.best, len(path.selected())) == (0, -1, 0)


def test_columns_that_are_not_finite_never_enter_and_are_told_by_their_scale():
    X, y = make_block("logistic", 100, 10, seed=1)
    X[3, 0], X[4, 1] = np.nan, np.inf
    path = whole_path("logistic", X, y, np.ones(100))
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(path.moments.scale)), [0, 1])
    assert not {0, 1} & set(path.entered)
    assert np.isfinite(path.coef).all()


def test_rows_of_weight_zero_are_not_looked_at():
    X, y = make_block("logistic", 100, 10, seed=1)
    expected = whole_path("logistic", X[:-1], y[:-1], np.ones(99))
    X[-1] = np.nan
    path = whole_path("logistic", X, y, np.append(np.ones(99), 0.0))
    np.testing.assert_array_equal(path.coef, expected.coef)


@pytest.mark.slow
def test_counts_that_are_large_or_rare_converge():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 10))
    for scale in (1e-2, 1e6):
        y = rng.poisson(scale * np.exp(X[:, 0])).astype(float)
        path = whole_path("poisson", X, y, np.ones(200), n_lambdas=20)
        assert path.entered[0] == 0 or scale < 1
        assert largest_violation(path, X, y, np.ones(200)) < 1e-7


def test_same_twice_and_the_block_is_not_modified():
    X, y = make_block("logistic", 300, 100, seed=14)
    before = X.copy()
    first, second = (whole_path("logistic", X, y, np.ones(300), gic_rss="refit") for _ in range(2))
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(first.coef, second.coef)
    np.testing.assert_array_equal(first.gic, second.gic)


def test_the_bounds_on_the_model_and_on_memory_hold():
    X, y = make_block("logistic", 40, 500, seed=9)
    path = glm_path(X, y, np.ones(40), loss="logistic", penalty=0.0, patience=None)
    assert path.stop == "max_features"
    assert path.df.max() <= default_max_features(40, 500) == 3
    X, y = make_block("logistic", 300, 400, seed=10)
    path = glm_path(X, y, np.ones(300), loss="logistic", penalty=0.0, patience=None, max_features=60, min_ratio=1e-3)
    assert path.stop in ("max_features", "memory")
    assert len(path.entered) <= entered_capacity(400, 60)
    assert glm_path_nbytes(400, 1000, 100, 28) < 3 << 20
    many = default_max_features(1_000_000, 10_000)
    assert glm_path_nbytes(1_000_000, 10_000, 100, many) < 2 << 30


@pytest.mark.parametrize("seed", [2, 20, 31])
def test_a_feature_that_enters_long_after_the_others_is_fitted(seed):
    """Its row of the Hessian is of another point than the corrected rows of the others: the whole may be indefinite."""
    rng = np.random.default_rng(seed)
    X = np.sqrt(0.5) * rng.standard_normal((500, 5)) + np.sqrt(0.5) * rng.standard_normal((500, 1))
    y = np.where(rng.random(500) < expit(-X[:, :3] @ [-3.0, -2.5, 1.0]), 1.0, -1.0)
    path = glm_path(X, y, np.ones(500), loss="logistic", penalty=1.0, patience=None, max_features=5)
    assert path.n_unsolved == 0
    assert path.df[-1] == 5
    assert largest_violation(path, X, y, np.ones(500)) < 1e-5


@pytest.mark.slow_cases("glm_path")
@pytest.mark.parametrize("follow", [glm_path, lsa_path])
@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_a_target_without_noise_has_a_criterion(loss, follow):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    path = follow(X, 2.0 * X[:, 1], np.ones(60), loss=loss, penalty=3.0, patience=None, max_features=3)
    assert np.isfinite(path.gic).all()
    assert path.selected().tolist() == [1]


def test_a_corrected_hessian_that_leads_uphill_is_made_anew():
    """Bootstrap sample 28 of a design of the paper: the corrections had turned the first step after an entry uphill."""
    source = SyntheticSource(2000, 1000, correlation=0.5, noise="logistic", random_state=48)
    block = next(source.row_blocks(2000))
    y, X = np.where(block.y > 0, 1.0, -1.0), block.X.astype(float)
    weight = Weighting.bootstrap((48, 28), np.array([2000])).of(RowPart(0, slice(None)), np.ones(2000))
    path = glm_path(X, y, weight, loss="logistic", penalty=14.5)
    assert path.n_unsolved == 0
    assert path.df[-1] > 10
    Z = standardised(X[weight > 0], weight[weight > 0])
    share = weight[weight > 0] / weight.sum()
    for step, lam in enumerate(path.lambdas):
        coef = path.coef[step]
        z = path.centred_intercepts[step] + Z[:, path.entered] @ coef
        gradient = Z.T @ (share * y[weight > 0] * expit(-y[weight > 0] * z))
        assert np.abs(gradient).max() <= lam * (1 + 1e-4)
        np.testing.assert_allclose(gradient[path.entered[coef != 0]], lam * np.sign(coef[coef != 0]), atol=1e-5)


def nearly_separated(seed, distance):
    """Dummies that tell classes apart on some rows, and columns that nearly are copies of them."""
    rng = np.random.default_rng(seed)
    a, b = (rng.random(600) < 0.3).astype(float), (rng.random(600) < 0.2).astype(float)
    twin, part = a + distance * rng.standard_normal(600), b * (rng.random(600) < 0.98)
    flipped = np.where(rng.random(600) < 0.01, 1 - a, a)
    X = np.column_stack([a, twin, b, part, rng.standard_normal((600, 3)), a * b, flipped])
    return X, np.where(a + (rng.random(600) < 0.02) > 0, 1.0, -1.0)


@pytest.mark.parametrize("distance", [1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize("seed", [1, 3, 4, 5, 53])
def test_no_model_of_nearly_separated_classes_fits_worse_than_none(seed, distance):
    """Refits used to go 1e28 in one step and to come back without a digit; the models after them were never chosen."""
    X, y = nearly_separated(seed, distance)
    weight = np.ones(len(y))
    path = glm_path(X, y, weight, loss="logistic", penalty=1.0, patience=None, max_features=9)
    assert path.df.max() >= 4
    assert (path.fit <= path.fit[0] * (1 + 1e-9)).all()
    assert (path.fit >= 0).all()
    for columns in ([0, 1], [0, 1, 2, 3], [0, 1, 2, 3, 7, 8]):
        fit = glm_fit(np.ascontiguousarray(X[:, columns]), y, weight, loss="logistic")
        assert np.isfinite(fit.coef).all()
        assert fit.deviance <= path.fit[0]
