"""Rows that a split keeps together stay together in what is held out of them, or it is said that they do not."""

import html

import numpy as np
import pandas as pd
import pytest

import daskfs
from daskfs import FGM, Auto, Message, OnlineSubstitution, SelectionCV, SplitInference, StabilitySelection
from daskfs.baselines import Bolasso
from daskfs.errors import ConfigError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.split import folds_of_groups
from daskfs.pipeline.config import build_pipeline
from daskfs.pipeline.facts import facts_of
from daskfs.pipeline.plan import plan_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.selectors.diagnostics.signal_beyond import signal_beyond
from daskfs.selectors.shared.cross_validation import folds_of
from daskfs.selectors.shared.run import Run
from tests.refusals import refused

N_FAMILIES, SIZE, P = 60, 5, 40
CUT = "do not keep the split's groups of rows together"


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    """A store of families of alike rows, whose target is noise that a family shares, and one weak column."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(N_FAMILIES, P)), SIZE, axis=0)
    y = np.repeat(rng.normal(size=N_FAMILIES), SIZE) + 0.3 * X[:, 3]
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(P)]).assign(y=y)
    frame["family"] = np.repeat([f"f{k}" for k in range(N_FAMILIES)], SIZE)
    folder = tmp_path_factory.mktemp("families")
    columns = {f"c{j}": {} for j in range(P)} | {"family": {"role": "id", "dtype": "string"}, "y": {"role": "target"}}
    daskfs.ingest(frame, folder / "x.zarr", schema={"version": 1, "columns": columns})
    return folder


def in_whole_families(folder):
    """Rows to train on."""
    return daskfs.open_store(folder / "x.zarr").split(0.2, groups="family")[0]


def alone(matrix):
    """The same rows, of which nobody says that any belong together."""
    return daskfs.open_store(matrix.base.path).take(matrix.rows)


def test_families_stay_whole_in_views_folds_and_repeated_folds(families):
    train = in_whole_families(families)
    names = train.labels("family")
    assert train.rows_together == "family"
    assert train.take(np.arange(50)).weighted(np.ones(50)).rows_together == "family"
    assert alone(train).rows_together is None
    for fold in folds_of(train, False, 5, train.declared_groups, "random", 0, 3):
        assert not {*names[fold.train]} & {*names[fold.test]}
    numbers = folds_of_groups(train.declared_groups, 5)
    assert set(numbers.tolist()) == {1, 2, 3, 4, 5}
    for k in range(1, 6):
        assert not {*names[numbers == k]} & {*names[numbers != k]}


@pytest.mark.slow
@pytest.mark.slow_cases("auto")
@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda: FGM(n_features_to_select=20, C="validation", random_state=0), lambda one: one.C_),
        (lambda: FGM(n_features_to_select="cv"), lambda one: one.n_features_to_select_),
        (lambda: SelectionCV(OnlineSubstitution(), sizes=[1, 10, 30]), lambda one: one.n_features_to_select_),
        (lambda: FGM(n_features_to_select=20, refit="elastic"), lambda one: np.count_nonzero(one.coef_)),
        (lambda: Auto(curves=False, random_state=0), lambda one: len(one.selected_)),
    ],
    ids=["C", "cv", "selection_cv", "elastic", "auto"],
)
def test_rows_of_a_family_do_not_judge_each_other(families, make, size):
    train = in_whole_families(families)
    assert size(make().fit(train)) < size(make().fit(alone(train)))


def test_a_result_says_that_its_folds_are_of_whole_groups(families):
    train = in_whole_families(families)
    found = FGM(n_features_to_select="cv").fit(train).result_
    assert found.parameters["groups"] == "family"
    assert any("of whole groups" in note for note in found.notes)
    notes = SplitInference(FGM(n_features_to_select=2), random_state=0).fit(train).result_.notes
    assert not any(CUT in note for note in notes)


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (Message(n_subsets=4), "subsets of the rows"),
        (Bolasso(n_bootstraps=4), "bootstrap samples"),
        (StabilitySelection(Bolasso(n_bootstraps=2), n_pairs=2), "bootstrap samples"),
    ],
    ids=["message", "bolasso", "inside"],
)
@pytest.mark.filterwarnings("ignore")
def test_methods_that_cut_families_say_so(families, selector, words):
    train = in_whole_families(families)
    assert f"{words} {CUT}" in selector.fit(train).result_.notes
    assert not any(CUT in note for note in selector.fit(alone(train)).result_.notes)


def test_one_family_alone_cannot_be_held_out(families):
    train = in_whole_families(families)
    one = ArrayMatrix(train.read(slice(None)), train.read_target()).take(np.arange(len(train.labels("family"))))
    one.keep_together(np.zeros(one.shape[0], np.int64))
    with refused(ConfigError, "parameters", at="validation", naming=["groups"]):
        FGM(n_features_to_select=2, C="validation").fit(one)
    FGM(n_features_to_select=2, C=1.0).fit(one)  # the remedy


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_plan_says_what_cuts_families_and_hands_groups_on(families):
    document = {
        "version": 1,
        "name": "families",
        "store": {"path": "x.zarr"},
        "split": {"test": 0.2, "groups": "family"},
        "select": {"method": "message", "n_subsets": 4},
        "output": "run",
    }
    pipeline = build_pipeline(document, "test", families)
    plan = plan_pipeline(pipeline, facts_of(pipeline))
    words = "message: subsets of the rows do not keep groups of 'family' together"
    assert f"groups   {words}" in plan.to_text()
    assert plan.to_document()["groups_cut"] == [words]
    about = {
        "stability": {"subsamples": "halves", "n_pairs": 2},
        "select": {"method": "fgm", "n_features_to_select": 2},
    }
    pipeline = build_pipeline(document | about, "test", families)
    plan = plan_pipeline(pipeline, facts_of(pipeline))
    assert "in whole groups" in plan.to_text()
    assert plan.groups_cut == ()
    page = (run_pipeline(build_pipeline(document, "test", families)).folder / "report.html").read_text()
    assert CUT in html.unescape(page)


def test_what_other_columns_explain_beyond_is_judged_by_other_families(families):
    train = in_whole_families(families)
    columns = np.array([3])
    found = [signal_beyond(Run(rows, "beyond"), columns, False, 0) for rows in (train, alone(train))]
    assert found[0].beyond < 0.2 < found[1].beyond, "of relatives all columns say who they are"
