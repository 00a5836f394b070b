"""What is chosen for which data, that the reason is the measured one, and that it does what the chosen one does."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import which_selector
from benchmarks.which_selector import KINDS, cells
from daskfs import FGM, Auto, Mission, OnlineSubstitution
from daskfs.cli import app
from daskfs.model_selection.auto import choose
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline


def data(n=300, p=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 3] - X[:, 7] + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize(
    ("shape", "n_classes", "is_sparse", "method"),
    [
        ((71, 4_088), 0, False, "mission"),
        ((2_000_000, 74), 0, False, "fgm"),
        ((72, 7_129), 2, False, "mission"),
        ((72, 7_129), 4, False, "mission"),
        ((100_000, 30), 2, False, "online_substitution"),
        ((100_000, 30), 5, False, "fgm"),
        ((100_000, 30), 1, False, "fgm"),
        ((20_000, 50_000), 2, True, "online_substitution"),
        ((20_000, 50_000), 3, True, "mission"),
        ((20_000, 2**40), 2, True, "mission"),
        ((20_000, 2**40), 0, True, "mission"),
    ],
)
def test_what_is_chosen(shape, n_classes, is_sparse, method):
    assert choose(*shape, n_classes, is_sparse).method == method


OF_KIND = {  # shape, classes and sparsity that stand for a kind of the table
    "few rows, thousands of columns; numbers to predict": (100, 5_000, 0),
    "few rows, thousands of columns; classes": (100, 5_000, 2),
    "many rows, some ten columns; numbers to predict": (100_000, 50, 0),
    "many rows of numbers; classes": (20_000, 500, 2),
    "categories as dummies": (50_000, 300, 2),
    "texts": (2_000, 5_000, 2, True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_chosen_is_within_005_of_the_best_of_ours_by_the_measurements_and_so_is_the_reason(kind):
    known = cells()
    methods = (*which_selector.METHODS, *which_selector.PEERS)
    sets = [one for one in KINDS[kind] if all((one, method, "30") in known for method in methods)]
    mean = {m: np.mean([known[one, m, "30"][1] for one in sets]) for m in which_selector.METHODS}
    found = choose(*OF_KIND[kind])
    assert mean[found.method] > max(mean.values()) - 0.005
    told = [float(number) for number in re.findall(r" (\.\d\d)", found.why)]
    assert any(abs(number - mean[found.method]) < 0.006 for number in told)
    assert str(len(sets)) in found.why


@pytest.mark.parametrize(
    ("made", "classes"), [(FGM, None), (OnlineSubstitution, 2), (FGM, 3)], ids=["numbers", "two", "three"]
)
@pytest.mark.filterwarnings("ignore:.*the target takes 3 whole values")
def test_it_does_what_the_chosen_one_does(made, classes):
    X, y = data()
    if classes is not None:
        y = np.digitize(y, [-1.0, 1.0][: classes - 1])
    found, expected = Auto(4).fit(X, y), made(4).fit(X, y)
    assert type(found.selector_) is made
    for name in ("selected_", "coef_", "scores_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    assert found.result_.method == "auto"
    assert found.result_.parameters["method"] == made.method
    assert found.result_.notes[0].startswith(f"{made.method} was chosen: ")


def test_few_rows_of_many_columns_are_missions():
    X, y = data(60, 1_200)
    selector = Auto(3).fit(X, y)
    assert isinstance(selector.selector_, Mission)
    assert len(selector.selected_) == 3


def test_without_a_number_thirty_are_selected_and_the_note_says_so():
    X, y = data(600, 45)
    assert len(Auto().fit(X, y).selected_) == 30
    assert "how many features predict best was not asked" in Auto().fit(*data()).result_.notes[0]


def test_cross_validation_says_how_many_where_it_is_asked():
    X, y = data()
    found, expected = Auto("cv").fit(X, y), FGM("cv").fit(X, y)
    np.testing.assert_array_equal(found.selected_, expected.selected_)
    assert {3, 7} <= set(found.selected_)
    assert found.result_.parameters["n_features_to_select"] == len(found.selected_)
    assert Auto("cv").plan(300, 20, "float64", None).n_passes > Auto(5).plan(300, 20, "float64", None).n_passes


def test_a_pipeline_and_the_command_line_choose_too(tmp_path):
    X, y = data()
    header = ",".join([*(f"f{j}" for j in range(20)), "y"])
    np.savetxt(tmp_path / "t.csv", np.column_stack([X, y]), delimiter=",", header=header, comments="")
    text = (
        "version: 1\nname: auto\nsource: {kind: csv, path: t.csv, target: y}\n"
        "select: {method: auto, n_features_to_select: 2}\noutput: run\n"
    )
    (tmp_path / "p.yaml").write_text(text)
    planned = CliRunner().invoke(app, ["plan", str(tmp_path / "p.yaml"), "--on", "2x2"], catch_exceptions=False)
    assert "auto: fgm, for more rows than columns" in planned.output
    result = run_pipeline(load_pipeline(tmp_path / "p.yaml")).results["auto"]
    assert set(result.table["name"]) == {"f3", "f7"}
    assert "fgm was chosen" in (tmp_path / "run" / "report.html").read_text()
    options = ["--target", "y", "--method", "auto", "--n-features", "2", "--output", str(tmp_path / "again")]
    told = CliRunner().invoke(app, ["select", str(tmp_path / "t.csv"), *options], catch_exceptions=False)
    assert told.exit_code == 0
    assert "2 of 20 features selected" in told.output
