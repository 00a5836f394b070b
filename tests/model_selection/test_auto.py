"""What is chosen for which data, and that it does what the chosen one does."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from typer.testing import CliRunner

import daskfs
from daskfs import FGM, Auto, Mission, OnlineSubstitution
from daskfs.baselines.linear.ridge_elimination import RidgeElimination
from daskfs.cli import app
from daskfs.errors import ConfigError, PlanError, SelectionWarning
from daskfs.methods import find_method
from daskfs.model_selection import auto
from daskfs.model_selection.auto import METHODS, choose
from daskfs.model_selection.comparing import Compared, ranked
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.selectors.shared.cross_validation import SizeCurve
from daskfs.selectors.shared.samples import Recipe
from daskfs.sources.ingest import ingest
from daskfs.store.feature_store import open_store
from tests.refusals import refused
from tests.tolerances import assert_close, assert_same_answer


def data(n=300, p=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 3] - X[:, 7] + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize(
    ("shape", "n_classes", "is_sparse", "method"),
    [
        ((71, 4_088), 0, False, "online_substitution"),
        ((2_000_000, 74), 0, False, "fgm"),
        ((1_000, 20_000), 0, False, "online_substitution"),
        ((1_000, 20_000), 0, True, "mission"),
        ((8_000, 20_000), 0, False, "online_substitution"),
        ((8_000, 20_000), 2, False, "online_substitution"),
        ((8_000, 20_000), 3, False, "fgm"),
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


def test_classes_of_few_rows_of_many_columns_are_missions():
    X, y = data(60, 1_200)
    selector = Auto(3).fit(X, y > 0)
    assert isinstance(selector.selector_, Mission)
    assert len(selector.selected_) == 3


@pytest.mark.slow
def test_without_a_number_methods_and_numbers_are_compared_and_the_note_says_how():
    X, y = data()
    selector = Auto(goal="prediction").fit(X, y)
    assert {3, 7} <= set(selector.selected_)
    assert len(selector.selected_) < 10
    results, note = selector.cv_results_, selector.result_.notes[0]
    assert set(results["method"]) == {"fgm", "mission", "online_substitution", "lasso", "ridge_elimination"}
    means = results["mean_test_score"]
    best = int(np.argmin(means))
    assert selector.selector_.method == results["method"][best]
    assert selector.n_features_to_select_ == results["n_features_to_select"][best]
    assert note.startswith(f"{selector.selector_.method} was chosen, with {selector.n_features_to_select_} features")
    for method in {*results["method"]} - {selector.selector_.method}:
        least = min(means[results["method"] == method])
        assert f"{method} {least:.4g} (" in note
    chosen = selector.result_.history.query("chosen")
    assert chosen["features"].tolist() == [selector.n_features_to_select_]
    assert chosen["best"].all()
    assert selector.result_.parameters["method"] == selector.selector_.method


def planted(seed, is_classes, n=300, p=20, n_planted=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    z = X[:, :n_planted] @ np.resize([1.0, -1.0], n_planted)
    return X, np.where(z + rng.logistic(size=n) > 0.0, "yes", "no") if is_classes else z + rng.standard_normal(n)


@pytest.mark.slow
@pytest.mark.parametrize("is_classes", [False, True], ids=["numbers", "classes"])
def test_the_features_that_were_planted_are_selected_and_hardly_another(is_classes):
    n_more = []
    for seed in range(6):
        selector = Auto().fit(*planted(seed, is_classes))
        assert set(range(4)) <= set(selector.selected_)
        n_more.append(len(selector.selected_) - 4)
    assert max(n_more) <= 4
    assert np.mean(n_more) <= 1.0


def weaker_and_weaker(seed, n=400, p=40):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X @ 0.85 ** np.arange(p) + rng.standard_normal(n)


@pytest.mark.slow
def test_the_fewest_are_level_with_the_best_and_the_curve_has_both():
    for seed in (1, 2):
        X, y = weaker_and_weaker(seed)
        few, best = Auto().fit(X, y), Auto(goal="prediction").fit(X, y)
        assert few.n_features_to_select_ < best.n_features_to_select_
        for name in ("mean_test_score", "n_features_to_select", "method"):
            np.testing.assert_array_equal(few.cv_results_[name], best.cv_results_[name])
        curve = few.result_.history
        by_fold = curve.filter(like="fold_").to_numpy()
        worse = by_fold - by_fold[curve["best"]]
        level = worse.mean(axis=1) <= worse.std(axis=1, ddof=1) / np.sqrt(worse.shape[1])
        assert few.n_features_to_select_ == curve["features"][level].min()
        assert best.n_features_to_select_ == curve["features"][curve["best"]].item()
        assert best.result_.history["best"].tolist() == best.result_.history["chosen"].tolist()
        np.testing.assert_allclose(curve["worse_by"], worse.mean(axis=1), atol=1e-12)
        for result in (few.result_, best.result_):
            assert f"{few.n_features_to_select_:,} features" in " ".join(result.notes)
        assert f"with {best.n_features_to_select_:,} (mse" in " ".join(few.result_.notes)


@pytest.mark.slow
@pytest.mark.parametrize("is_classes", [False, True], ids=["numbers", "classes"])
def test_all_columns_are_kept_for_prediction_alone_and_what_fewer_cost_is_said(is_classes):
    X, y = planted(0, is_classes, n=2_000, p=6, n_planted=6)
    assert len(Auto(goal="prediction", curves=False).fit(X, y).selected_) == 6
    with pytest.warns(SelectionWarning, match="no smaller selection predicts as well as all 6"):
        selector = Auto(curves=False).fit(X, y)
    assert 0 < len(selector.selected_) < 6
    assert len(Auto().fit(X[:, :1], y).selected_) == 1, "there is no smaller one"


@pytest.mark.slow
def test_more_than_can_be_compared_has_a_goal_too(monkeypatch):
    monkeypatch.setattr(auto, "MOST_VALUES", 1_000)
    X, y = weaker_and_weaker(1)
    few, best = Auto().fit(X, y), Auto(goal="prediction").fit(X, y)
    assert few.n_features_to_select_ < best.n_features_to_select_
    assert set(few.cv_results_["method"]) == {"fgm"}
    alone = FGM("cv").fit(X, y)
    np.testing.assert_array_equal(best.selected_, alone.selected_)
    np.testing.assert_array_equal(best.coef_, alone.coef_)


def test_a_goal_has_no_effect_with_a_number():
    with refused(ConfigError, "parameters", at="goal"):
        Auto(3, goal="prediction").fit(*data())


@pytest.mark.slow
def test_cv_says_the_same():
    X, y = data()
    np.testing.assert_array_equal(Auto("cv").fit(X, y).coef_, Auto().fit(X, y).coef_)
    assert Auto("cv").plan(300, 20, "float64", None).n_passes > Auto(5).plan(300, 20, "float64", None).n_passes


def polygenic(seed, n=400, p=300):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2 * n, p))
    mean = X @ rng.standard_normal(p) / np.sqrt(p)
    return X[:n], mean[:n] + rng.standard_normal(n), X[n:], mean[n:]


@pytest.mark.nightly
def test_where_many_weak_features_count_many_are_kept_and_predict_better_than_thirty():
    gains, sizes = [], []
    for seed in range(5):
        X, y, X_new, mean = polygenic(seed)
        best, thirty = Auto(goal="prediction").fit(X, y), Auto(30).fit(X, y)
        gains.append(best.score(X_new, mean) - thirty.score(X_new, mean))
        sizes.append(len(best.selected_))
    assert np.median(sizes) >= 100
    assert np.mean(gains) > 0.1


@pytest.mark.slow
def test_the_classes_of_sparse_rows_are_compared_on_two_scales():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((400, 1_200), density=0.02, rng=rng, format="csr")
    z = np.asarray(X[:, :60].sum(axis=1)).ravel()
    selector = Auto().fit(X, np.where(z > np.median(z), "high", "low"))
    scalings = {settings.get("scaling") for settings in selector.cv_results_["settings"]}
    assert scalings == {None, "unit", "none"}
    chances = selector.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.mean(selector.predict(X) == np.where(z > np.median(z), "high", "low")) > 0.8


def means_but_mission(selector):
    """Return what was compared, but for the method that visits rows in the order in which they stand."""
    found = selector.cv_results_
    return found["mean_test_score"][found["method"] != "mission"]


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_how_columns_are_kept_does_not_decide_on_which_scales_they_are_compared(share):
    X, y = data(300, 90)
    X = np.where(np.random.default_rng(1).random(X.shape) < share, 0.0, X)
    dense, sparse = Auto().fit(X, y), Auto().fit(scipy.sparse.csr_array(X), y)
    assert dense.cv_results_["settings"] == sparse.cv_results_["settings"]
    np.testing.assert_allclose(means_but_mission(dense), means_but_mission(sparse), rtol=1e-3)
    scalings = {settings.get("scaling") for settings in dense.cv_results_["settings"]}
    assert scalings == ({None, "unit", "none"} if share > 0.5 else {None, "unit"})


@pytest.mark.slow
def test_folds_are_those_of_the_same_rows_in_memory(tmp_path):
    X, y = data(200, 60)
    ingest(X, tmp_path / "X.zarr", y=y, random_state=0)
    stored, given = Auto(random_state=0).fit(open_store(tmp_path / "X.zarr")), Auto(random_state=0).fit(X, y)
    np.testing.assert_allclose(means_but_mission(stored), means_but_mission(given), rtol=1e-3)


@pytest.mark.slow
def test_several_classes_are_compared_without_online_substitution():
    X, y = data(450, 12)
    label = np.digitize(y, [-1.0, 1.0]).astype(str)
    selector = Auto().fit(X, label)
    assert set(selector.cv_results_["method"]) == {"fgm", "mission", "lasso", "ridge_elimination"}
    assert selector.score(X, label) > 0.7


@pytest.mark.parametrize(
    ("n_samples", "loss", "expected"),
    [(90, "auto", "multinomial"), (90, "logistic", "logistic"), (450, "auto", "logistic")],
    ids=["mission", "mission, as given", "fgm, which fits each class against the rest"],
)
def test_several_classes_have_one_model_if_the_method_has_one(n_samples, loss, expected):
    X, y = data(n_samples, 1200 if n_samples == 90 else 12)
    selector = Auto(5, loss=loss).fit(X, np.digitize(y, [-1.0, 1.0]).astype(str))
    assert selector.loss_ == selector.selector_.loss_ == expected
    np.testing.assert_allclose(selector.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.slow_cases("auto")
@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("made", [Auto(), FGM("cv")], ids=["auto", "cv"])
def test_a_class_of_a_single_row_that_a_fold_lacks_says_nothing_there(made):
    X, y = data(450, 12)
    label = np.digitize(y, [-1.0, 1.0])
    label[17] = 3
    label = label.astype(str)
    selector = made.fit(X, label)
    assert np.isfinite(selector.cv_results_["mean_test_score"]).all()
    assert selector.score(X, label) > 0.6


@pytest.mark.slow
def test_what_does_not_keep_the_memory_limit_takes_no_part_and_is_named():
    X, y = data(600, 1_500)
    shape = (600, 1_500, "float64")
    ridge = RidgeElimination(loss="squared").plan(*shape, None).task_nbytes
    assert FGM("cv").plan(*shape, None).task_nbytes < ridge
    plan = Auto().plan(*shape, ridge - 1)
    assert re.search(r"[123] more would exceed the memory limit", plan.text)
    assert plan.task_nbytes < ridge
    selector = Auto(memory_limit=ridge - 1).fit(X, y)
    assert "fgm" in selector.cv_results_["method"]
    assert "ridge_elimination" not in selector.cv_results_["method"]
    (note,) = [
        one for one in selector.result_.notes if one.startswith("left out because the memory limit is too small: ")
    ]
    assert "ridge_elimination" in note
    with pytest.raises(PlanError, match="allow at least") as fault:
        Auto().plan(*shape, 1_000)
    assert Auto().plan(*shape, fault.value.needed_nbytes)


@pytest.mark.nightly
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_limit_that_all_keep_gives_the_same_answer(is_sparse):
    X, y = data(300, 120)
    X = scipy.sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0)) if is_sparse else X
    free = Auto().fit(X, y)
    for limit in ("64MiB", "1GiB"):
        held = Auto(memory_limit=limit).fit(X, y)
        assert not [note for note in held.result_.notes if "left out" in note]
        assert_close(held.cv_results_["mean_test_score"], free.cv_results_["mean_test_score"])
        assert_same_answer(held, free)


def test_a_recommended_method_that_does_not_keep_the_limit_gives_way_unless_it_was_asked_for_a_number():
    shape = (1_000, 100_000, "float64")
    (first, *_) = choose(1_000, 100_000, 0)
    with pytest.raises(PlanError) as fault:
        find_method(first)("cv").plan(*shape, 1_000)
    limit = fault.value.needed_nbytes - 1
    taken = [method for method in METHODS if _keeps(method, shape, limit)]
    assert taken
    assert Auto().plan(*shape, limit).text.startswith(f"auto: {taken[0]}, for {first}, which is recommended")
    with pytest.raises(PlanError) as fault:
        find_method(first)(5).plan(*shape, 1_000)
    with pytest.raises(PlanError):
        Auto(5).plan(*shape, fault.value.needed_nbytes - 1)
    assert Auto(5).plan(*shape, fault.value.needed_nbytes)


def _keeps(method, shape, limit):
    try:
        find_method(method)("cv").plan(*shape, limit)
    except PlanError:
        return False
    return True


def test_more_than_can_be_compared_is_the_recommended_methods_alone():
    plan = Auto().plan(2_000_000, 74, "float32", None)
    assert plan.text.startswith("auto: fgm, for many rows")
    assert plan.n_passes == FGM("cv").plan(2_000_000, 74, "float32", None).n_passes


@pytest.mark.slow
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
    assert "auto: fgm, for many rows" in planned.output
    result = run_pipeline(load_pipeline(tmp_path / "p.yaml")).results["auto"]
    assert set(result.table["name"]) == {"f3", "f7"}
    assert "fgm was chosen" in (tmp_path / "run" / "report.html").read_text()
    options = ["--target", "y", "--method", "auto", "--n-features", "2", "--output", str(tmp_path / "again")]
    told = CliRunner().invoke(app, ["select", str(tmp_path / "t.csv"), *options], catch_exceptions=False)
    assert told.exit_code == 0
    assert "2 of 20 features selected" in told.output


@pytest.mark.slow
def test_a_pipeline_says_the_goal_and_the_report_shows_both_numbers(tmp_path):
    X, y = weaker_and_weaker(2)
    pd.DataFrame(X).add_prefix("f").assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    for goal in ("selection", "prediction"):
        (tmp_path / "p.yaml").write_text(
            "version: 1\nname: auto\nsource: {kind: csv, path: t.csv, target: y}\n"
            f"select: {{method: auto, goal: {goal}}}\noutput: {goal}\n"
        )
        result = run_pipeline(load_pipeline(tmp_path / "p.yaml")).results["auto"]
        assert result.parameters["goal"] == goal
        assert result.history["best"].equals(result.history["chosen"]) == (goal == "prediction")
        best = result.history["features"][result.history["best"]].item()
        page = (tmp_path / goal / "report.html").read_text()
        assert (f"Best: {best} features" in page) == (goal == "selection")


def bent(n=1_200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    return X, 2.0 * np.abs(X[:, 1]) + np.sin(2.0 * X[:, 3]) + 0.5 * X[:, 5] + 0.5 * rng.standard_normal(n)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["numbers", "two classes", "three classes"])
def test_effects_that_are_no_straight_line_are_curves(target):
    X, y = bent(2_000)
    if target != "numbers":
        y = np.digitize(y, np.quantile(y, [0.5] if target == "two classes" else [0.3, 0.6])).astype(str)
    selector = Auto().fit(X[:1_200], y[:1_200])
    plain = Auto(curves=False).fit(X[:1_200], y[:1_200])
    assert {1, 3, 5} <= set(np.flatnonzero(selector.support_))
    assert selector.score(X[1_200:], y[1_200:]) > plain.score(X[1_200:], y[1_200:]) + 0.1
    assert plain.made_ is None
    assert selector.transform(X).shape == (2_000, len(selector.selected_))
    assert selector.get_feature_names_out()[0].endswith(")")
    note, _, more = selector.result_.notes[:3]
    assert note.startswith(f"fgm was chosen, with splines of {selector.n_features_to_select_} columns")
    assert "fgm " in note.partition("the best of the others")[2], "columns as they are stand beside"
    assert "curves=False" in more
    assert selector.result_.parameters["feature_map"] == "splines"
    assert "fgm over curves" not in plain.result_.notes[0]
    assert pickle.loads(pickle.dumps(selector)).predict(X[:5]).tolist() == selector.predict(X[:5]).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_straight_lines_stay_columns(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1_000, 8))
    y = X[:, 1] - 0.5 * X[:, 3] + rng.standard_normal(1_000)
    selector = Auto(random_state=seed).fit(X, y)
    assert selector.made_ is None
    assert "fgm over curves" in selector.result_.notes[0]


@pytest.mark.slow
def test_few_rows_and_sparse_ones_have_no_curves():
    X, y = bent(1_000)
    sparse = scipy.sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    assert "with splines of" in Auto().fit(X, y).result_.notes[0]
    assert "splines" not in Auto().fit(X[:999], y[:999]).result_.notes[0]
    assert "splines" not in Auto().fit(sparse, y).result_.notes[0]


@pytest.mark.parametrize(("metric", "sign"), [("mse", -1.0), ("r2", 1.0)])
def test_curves_are_taken_where_they_are_clearly_better(metric, sign):
    def compared(by_fold, feature_map=None):
        selector = FGM(loss="squared", feature_map=feature_map)
        selector.loss_ = "squared"
        curve = SizeCurve(np.array([1, 2]), metric, np.array(by_fold), np.ones(4))
        return Compared(Recipe.of(selector), curve)

    plain = compared([[0.0, 0.50 * sign], [0.0, 0.60 * sign], [0.0, 0.55 * sign], [0.0, 0.40 * sign]])
    clear = plain.curve.by_fold[:, 1] + sign * np.array([0.010, 0.012, 0.009, 0.011])
    unclear = plain.curve.by_fold[:, 1] + sign * np.array([0.10, -0.09, 0.08, -0.06])
    for values, is_taken in ((clear, True), (unclear, False), (2.0 * plain.curve.by_fold[:, 1] - clear, False)):
        curves = compared(np.c_[values - sign, values], "splines")
        best, *_ = ranked([plain, curves])
        assert (best.of is curves, best.k) == (is_taken, 1)
    assert ranked([curves])[0].of is curves


@pytest.mark.nightly
def test_a_run_with_curves_is_applied_to_other_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = bent(2_000)
    table = pd.DataFrame(X, columns=[f"x{k}" for k in range(8)]).assign(y=y)
    table.to_csv(tmp_path / "t.csv", index=False)
    result = CliRunner().invoke(
        app, ["select", str(tmp_path / "t.csv"), "--target", "y", "--method", "auto", "--output", str(tmp_path / "run")]
    )
    assert result.exit_code == 0, result.output
    selected = pd.read_csv(tmp_path / "run" / "selected.csv")
    assert {name.partition(" ")[0] for name in selected["name"]} >= {"x1", "x3"}
    applied = daskfs.load(tmp_path / "run").predict(table)
    assert np.corrcoef(applied, y)[0, 1] > 0.8
