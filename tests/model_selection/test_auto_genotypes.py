"""`Auto` on genotypes that are read without decoding them: MESSAGE's path is compared, and suffices for large data."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs import Auto, Message
from daskfs.errors import PlanError
from daskfs.model_selection import auto
from tests.genotype_files import CAUSAL, N, P, cohort
from tests.selectors.test_message_screened import in_memory

COVARIATES = [0, 1]
BIOBANK = {
    "n_samples": 80_000,
    "n_features": 200_010,
    "dtype": "float32",
    "tile_shape": (80_000, 64),
    "has_products": True,
}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    return cohort(tmp_path_factory.mktemp("cohort"))


def test_many_values_are_left_to_messages_path(matrix, monkeypatch):
    monkeypatch.setattr(auto, "MOST_VALUES", N * P)
    few = Auto(always_include=COVARIATES, random_state=0).fit_matrix(matrix)
    best = Auto(goal="prediction", always_include=COVARIATES, random_state=0).fit_matrix(matrix)
    assert set(few.cv_results_["method"]) == {"message"}
    assert few.result_.parameters["method"] == "message"
    assert max(few.cv_results_["n_features_to_select"]) == 150, "at most half of the rows"
    assert set(COVARIATES) <= set(few.selected_.tolist())
    assert few.n_features_to_select_ <= best.n_features_to_select_
    chosen = np.setdiff1d(few.selected_, COVARIATES) - len(COVARIATES)
    assert len(np.intersect1d(chosen, CAUSAL)) >= 4
    assert len(chosen) <= 8
    decoded = Auto(always_include=COVARIATES, random_state=0).fit_matrix(in_memory(matrix))
    assert "message" not in set(decoded.cv_results_["method"])


def test_a_path_that_ends_before_the_chosen_number_is_noted(matrix, monkeypatch):
    monkeypatch.setattr(auto, "MOST_VALUES", N * P)
    monkeypatch.setattr(auto, "default_sizes", lambda n_samples, n_features: [100])
    found = Auto(always_include=COVARIATES, random_state=0).fit_matrix(matrix)
    n_selected = len(found.selected_)
    assert n_selected < found.n_features_to_select_
    assert any(f"only {n_selected} of {found.n_features_to_select_} features" in note for note in found.result_.notes)


def test_fewer_values_are_compared_with_the_other_methods(matrix, monkeypatch):
    monkeypatch.setattr(auto, "default_sizes", lambda n_samples, n_features: [5])
    found = Auto(always_include=COVARIATES, random_state=0).fit_matrix(matrix)
    assert set(found.cv_results_["method"]) == {"message", "fgm", "online_substitution"}


@pytest.mark.parametrize(("n_classes", "is_compared"), [(2, True), (3, False)])
def test_two_classes_are_messages_too(tmp_path, monkeypatch, n_classes, is_compared):
    monkeypatch.setattr(auto, "default_sizes", lambda n_samples, n_features: [5])
    classes = cohort(tmp_path, n_classes=n_classes)
    found = Auto(always_include=COVARIATES, loss="logistic", random_state=0).fit_matrix(classes)
    assert ("message" in set(found.cv_results_["method"])) == is_compared


def test_a_plan_says_so_and_a_limit_too_small_for_it_leaves_another_method():
    with pytest.raises(PlanError) as refusal:
        Message(goal="prediction").plan(**BIOBANK, memory_limit=1_000)
    needed = refusal.value.needed_nbytes
    assert Auto().plan(**BIOBANK, memory_limit=needed).text.startswith("auto: message compared")
    decoded = BIOBANK | {"has_products": False}
    assert Auto().plan(**decoded, memory_limit=None).text.startswith("auto: online_substitution")
    assert Auto(50).plan(**BIOBANK, memory_limit=None).text.startswith("auto: online_substitution")
    assert Auto().plan(**BIOBANK, memory_limit=needed - 1).text.startswith("auto: online_substitution")
