"""A selector about a selector takes all kinds of input, runs anywhere, resumes, and is scikit-learn's."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from daskfs import FGM, Auto, Message, Mission, OnlineSubstitution, SplitInference
from daskfs.errors import ConfigError, PlanError, SelectionWarning
from daskfs.model_selection import Knockoffs, SelectionCV, StabilitySelection
from tests.contract import checks
from tests.contract.cases import Case
from tests.model_selection.toys import Halves, Same
from tests.refusals import refused

FEW = {"n_features_to_select": 6, "loss": "squared"}


class Toy(Case):
    """A case whose class is not public."""

    def make(self, **more):
        return {"same": Same, "halves": Halves}[self.method](**(self.options | more))


TOYS = [
    Toy("same", "Same", {"selector": OnlineSubstitution(**FEW)}),
    Toy("same-classes", "Same", {"selector": FGM(6, loss="logistic")}, "three classes"),
    Toy("halves", "Halves", {"selector": OnlineSubstitution(**FEW)}),
    Toy("halves-classes", "Halves", {"selector": FGM(6, loss="logistic")}, "three classes"),
]
QUICK = [
    "a_memory_limit_is_planned_as_it_is_kept_and_keeps_the_answer",
    "rows_of_a_split_are_those_rows_as_arrays",
    "the_result_names_the_store_and_its_features",
    "what_comes_out_is_what_came_in_and_lazy_stays_lazy",
    "progress_reaches_its_total",
    "a_fitted_selector_is_small_and_lets_go_of_the_rows",
    "same_bits_in_threads",
    "arrays_in_memory_are_sent_once",
    "dask_collections_give_the_answer_of_their_store",
]
RESUMED = [(toy, "a_fit_resumed_after_any_save_ends_with_the_same_bits") for toy in TOYS[2:]]
EXAMINED = [(toy, name) for toy in TOYS for name in QUICK] + RESUMED


@pytest.mark.slow
@pytest.mark.every_case
@pytest.mark.parametrize(("toy", "name"), EXAMINED, ids=[f"{toy.name}-{name}" for toy, name in EXAMINED])
def test_it_passes_the_examination_of_every_method(toy, name, lab):
    getattr(checks, name)(toy, lab)


def differs(estimator):
    if not isinstance(estimator, Halves):
        return {}
    weights = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    found = dict.fromkeys(weights, "a row of weight 2 is in one half, two rows may be in both")
    return {**found, "check_estimators_dtypes": "there the target of every second row is constant"}


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([Same(FGM()), Halves(FGM(loss="squared"))], expected_failed_checks=differs)
def test_scikit_learns_examination(estimator, check):
    check(estimator)


def data(n=200, p=20):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, p))
    return X, 2.0 * X[:, 3] - X[:, 7] + 0.1 * rng.standard_normal(n)


def test_its_loss_is_that_of_the_selector_inside():
    X, y = data()
    labels = np.where(y > 0.0, "high", "low")
    selector = Halves(FGM(2)).fit(X, labels)
    assert (selector.loss, selector.loss_) == ("auto", "logistic")
    assert set(selector.predict(X)) == {"high", "low"}
    assert selector.predict_proba(X).shape == (200, 2)
    assert not hasattr(Same(FGM(2, loss="squared")), "predict_proba")
    with refused(ConfigError, "losses", at="loss", naming=["squared"]):
        Same(FGM(2, loss="squared")).fit(X, labels)


def test_what_a_fit_may_take_is_said_outside_or_inside():
    X, y = data()
    for selector in (Same(FGM(2), memory_limit=5000), Same(FGM(2, memory_limit=5000))):
        with refused(PlanError, "memory-limit", at="memory_limit"):
            selector.fit(X, y)
    assert len(Same(FGM(2, memory_limit=5000), memory_limit="1GiB").fit(X, y).selected_) == 2


def test_the_selector_inside_is_copied_and_its_parameters_are_in_the_result():
    X, y = data()
    inside = FGM(2)
    selector = Same(inside).fit(X, y)
    assert not hasattr(inside, "coef_")
    record = selector.result_.to_record()
    assert (record.method, record.parameters["selector"]["method"]) == ("same", "fgm")
    assert json.loads(json.dumps(record.parameters))["selector"]["n_features_to_select"] == 2
    again = pickle.loads(pickle.dumps(selector))
    np.testing.assert_array_equal(again.predict(X), selector.predict(X))
    assert clone(selector).get_params()["selector__n_features_to_select"] == 2


def test_a_grid_searches_inside():
    X, y = data()
    search = GridSearchCV(Same(FGM(1)), {"selector__n_features_to_select": [1, 2, 3]}, cv=3).fit(X, y)
    assert search.best_params_["selector__n_features_to_select"] >= 2


def test_what_is_no_selector_is_refused():
    with refused(ConfigError, "parameters", at="selector", naming=["selector"]):
        Same().fit(*data())
    with refused(ConfigError, "parameters", at="n_subsets", naming=["whole"]):
        Same(Message(n_subsets=0)).fit(*data())


def test_weights_of_classes_are_of_the_labels_as_they_are_given():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 12))
    y = np.where(X[:, 3] + 0.5 * rng.standard_normal(300) > 0.0, "yes", "no")
    inside = Mission(3, n_epochs=1, class_weight={"yes": 3.0})
    for about in (
        Same(inside),
        Same(Same(inside)),
        SelectionCV(inside, sizes=[1, 3], cv=2),
        StabilitySelection(inside, n_pairs=2),
        Knockoffs(inside, statistic="score", fdr=0.9),
        SplitInference(inside),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            about.fit(X, y)
        assert set(about.classes_) == {"yes", "no"}
    alone, same = inside.fit(X, y), Same(Same(inside)).fit(X, y)
    np.testing.assert_array_equal(same.coef_, alone.coef_)
    assert (same.coef_ != Same(Mission(3, n_epochs=1)).fit(X, y).coef_).any()
    assert Same(inside).fit(X, y).result_.parameters["selector"]["class_weight"] == {"yes": 3.0}
    with refused(ConfigError, "parameters", at="selector.class_weight", naming=["'maybe'", "'no'", "'yes'"]):
        Same(Mission(3, class_weight={"maybe": 2.0})).fit(X, y)


@pytest.mark.parametrize(
    "selector",
    [
        StabilitySelection(FGM("cv"), n_pairs=3),
        StabilitySelection(SelectionCV(OnlineSubstitution(), cv=2), n_pairs=3),
        StabilitySelection(Auto(1), n_pairs=2),
        SelectionCV(StabilitySelection(FGM(1), n_pairs=3), cv=2),
        SplitInference(StabilitySelection(OnlineSubstitution({"cv": 2}), n_pairs=3)),
        Knockoffs(Mission("cv", random_state=0), fdr=0.5),
    ],
    ids=lambda selector: f"{type(selector).__name__} of {type(selector.selector).__name__}",
)
@pytest.mark.parametrize("has_classes", [False, True])
def test_fits_that_are_repeated_may_choose_their_size_or_repeat_fits_themselves(selector, has_classes):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((150, 6))
    y = X[:, 0] - X[:, 4] + 0.3 * rng.standard_normal(150)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)  # three pairs of halves say little
        fitted = selector.fit(X, np.digitize(y, [-0.5, 0.5]) if has_classes else y)
    if not isinstance(selector, Knockoffs):
        assert fitted.support_[[0, 4]].any()
    assert selector.plan(150, 6, "float64", "1GiB").task.nbytes > 0
