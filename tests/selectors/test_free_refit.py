"""Refits put no penalty on columns that are always included: the normal equations with zeros there."""

import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from daskfs import FGM, Knockoffs, Mission, OnlineSubstitution, SelectionCV, SplitInference, StabilitySelection
from daskfs.cli import app
from daskfs.documents import dump_yaml
from daskfs.errors import ConfigError, SelectionWarning
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run
from tests.refusals import refused
from tests.tolerances import assert_close

ALWAYS = [2, 5]


def data(seed=0, n=80, p=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p)))
    return X, 5.0 * X[:, 2] - 4.0 * X[:, 5] + 0.5 * X[:, 0] + rng.normal(size=n)


def ridge_fit(X, y, ridge, free):
    """Coefficients of the mean squared loss, halved, with a ridge on those standardised columns that are not free."""
    scale = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / scale
    penalty = np.diag(np.where(free, 0.0, ridge))
    coef = np.linalg.solve(Z.T @ Z / len(y) + penalty, Z.T @ (y - y.mean()) / len(y)) / scale
    return coef, y.mean() - X.mean(axis=0) @ coef


@pytest.mark.parametrize("refit", ["ridge", "elastic"])
def test_a_refit_leaves_columns_that_are_always_included_free(refit):
    X, y = data()
    found = FGM(n_features_to_select=6, always_include=ALWAYS, refit=refit).fit(X, y)
    columns = np.sort(found.selected_)
    free = np.isin(columns, ALWAYS)
    (note,) = [note for note in found.result_.notes if note.startswith("refit")]
    ridge = float(note.split("ridge of ")[1].split(" ")[0].rstrip(","))
    expected, intercept = ridge_fit(X[:, columns], y, ridge, free)
    if refit == "elastic":  # whatever else there is, the gradient is 0 at columns without a penalty
        left = y - X @ found.coef_ - found.intercept_
        assert np.abs(X[:, ALWAYS].T @ (left - left.mean())).max() < 1e-6 * np.abs(X[:, ALWAYS].T @ y).max()
        return
    assert ridge > 0.0
    assert_close(found.coef_[columns], expected, rtol=5e-3)  # the note has three digits of the ridge
    assert_close(found.intercept_, intercept, rtol=0.05)
    penalised, _ = ridge_fit(X[:, columns], y, ridge, np.zeros(len(columns), bool))
    assert np.abs(found.coef_[columns] - expected).max() < 0.1 * np.abs(penalised - expected).max()


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_fits_with_a_given_ridge_solve_their_equations(loss):
    X, y = data()
    y = np.where(y + 3 * np.random.default_rng(1).normal(size=len(y)) > 0, 1.0, -1.0) if loss == "logistic" else y
    free = np.isin(np.arange(6), ALWAYS)
    mean_loss = MeanLoss(loss, 1.0 if loss == "logistic" else None, 5.0 if loss == "huber" else None, ridge=0.3)
    with Run(ArrayMatrix(X, y), "fgm") as run:
        fit = refit_selected(run, np.arange(6), mean_loss, free=free)
    z = X[:, :6] @ fit.coef + fit.intercept
    pull = {"squared": z - y, "logistic": -y / (1.0 + np.exp(y * z)), "huber": np.clip(z - y, -5.0, 5.0)}[loss]
    Z = (X[:, :6] - X[:, :6].mean(axis=0)) / fit.scale
    expected = -np.where(free, 0.0, 0.3) * fit.coef * fit.scale
    np.testing.assert_allclose(Z.T @ pull / len(y), expected, atol=1e-6)


def test_the_given_ridge_of_online_substitution_leaves_them_free():
    X, y = data()
    found = OnlineSubstitution(6, always_include=ALWAYS, ridge=0.5).fit(X, y)
    columns = np.sort(found.selected_)
    expected, intercept = ridge_fit(X[:, columns], y, 0.5, np.isin(columns, ALWAYS))
    assert_close(found.coef_[columns], expected)
    assert_close(found.intercept_, intercept)


def test_the_exact_refit_of_mission_leaves_them_free():
    X, y = data(n=400)
    found = Mission(6, always_include=ALWAYS, refit="exact", random_state=0).fit(X, y)
    columns = np.sort(found.selected_)
    gradient = X[:, columns].T @ (y - X @ found.coef_ - found.intercept_)
    scale = np.abs(X[:, columns].T @ (y - y.mean())).max()
    is_free = np.isin(columns, ALWAYS)
    assert np.abs(gradient[is_free]).max() < 1e-9 * scale
    assert np.abs(gradient[~is_free]).max() > 1e-7 * scale  # the ridge of the others


def test_classes_that_a_free_column_separates_have_bounded_coefficients():
    X, _ = data()
    y = np.where(X[:, 2] > 0, 1, 0)
    with pytest.warns(UserWarning, match="separable"):
        found = FGM(n_features_to_select=4, always_include=[2], refit="ridge").fit(X, y)
    assert np.isfinite(found.coef_).all()
    assert found.score(X, y) == 1.0


def test_knockoffs_of_a_selector_that_always_includes_columns_are_refused_with_a_way_out():
    X, y = data(n=300)
    inside = OnlineSubstitution(8, always_include=ALWAYS)
    with refused(ConfigError, "parameters", at="selector.always_include", naming=["StabilitySelection"]):
        Knockoffs(inside).fit(X, y)
    with refused(ConfigError, "parameters", at="selector.always_include"):
        Knockoffs(inside, statistic="lasso").fit(X, y)
    warnings.simplefilter("ignore", SelectionWarning)
    for remedy in (StabilitySelection(inside, n_pairs=3, threshold=0.6), SplitInference(inside, random_state=0)):
        assert {*ALWAYS} <= {*remedy.fit(X, y).selected_.tolist()}


@pytest.mark.parametrize(
    "make",
    [
        lambda sizes: FGM(n_features_to_select={"sizes": sizes}, always_include=ALWAYS),
        lambda sizes: SelectionCV(FGM(always_include=ALWAYS), sizes=sizes),
    ],
)
def test_sizes_below_the_columns_that_are_always_included_are_refused_in_the_plan(make):
    X, y = data()
    for refuse in (lambda one: one.plan(*X.shape, "float64", None), lambda one: one.fit(X, y)):
        with refused(ConfigError, "parameters", at="sizes", naming=["2", "1", "always_include"]):
            refuse(make([1, 4]))
    assert make([2, 4]).fit(X, y).n_features_to_select_ >= 2  # the remedy


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (
            {"select": {"method": "fgm", "n_features_to_select": {"sizes": [1, 4]}, "always_include": ["a", "b"]}},
            "sizes",
        ),
        ({"knockoffs": {}}, "StabilitySelection"),
    ],
)
def test_validate_and_plan_refuse_what_the_fit_would(more, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b,c,y\n" + "".join(f"{i},{i % 3},{i % 5},{i}\n" for i in range(30)))
    document = {
        "version": 1,
        "name": "t",
        "source": {"kind": "csv", "path": "t.csv", "target": "y"},
        "select": {"method": "fgm", "n_features_to_select": 3, "always_include": ["a", "b"]},
    }
    (tmp_path / "t.yaml").write_text(dump_yaml(document | more))
    for command in ("validate", "plan"):
        said = CliRunner().invoke(app, [command, "t.yaml"])
        assert said.exit_code == 2
        assert named in said.output
