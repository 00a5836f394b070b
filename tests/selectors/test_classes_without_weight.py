"""A class whose rows all have weight 0 is as if it were not there."""

from __future__ import annotations

import numpy as np
import pytest

import daskfs
from daskfs import errors
from tests.refusals import refused

SELECTORS = {
    "message": daskfs.Message(),
    "online_substitution": daskfs.OnlineSubstitution(n_features_to_select=2),
    "async_online_substitution": daskfs.AsyncOnlineSubstitution(n_features_to_select=2, random_state=0),
    "fgm": daskfs.FGM(n_features_to_select=2),
    "mission": daskfs.Mission(n_features_to_select=2, random_state=0),
    "selection_cv": daskfs.SelectionCV(daskfs.OnlineSubstitution(n_features_to_select=2), cv=2),
}


def rows_of(classes: str) -> tuple[np.ndarray, np.ndarray]:
    """Return columns, and a class that depends on the first."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((600, 5))
    bounds = np.quantile(X[:, 0], np.linspace(0.0, 1.0, len(classes) + 1)[1:-1])
    return X, np.array(list(classes))[np.digitize(X[:, 0] + 0.1 * rng.standard_normal(600), bounds)]


@pytest.mark.parametrize("classes", ["abc", "abcd"])
@pytest.mark.parametrize("name", SELECTORS)
def test_it_is_left_out_and_the_others_keep_their_labels(name, classes):
    X, y = rows_of(classes)
    weight = np.where(y == "b", 0.0, 1.0)
    fitted = SELECTORS[name].fit(X, y, sample_weight=weight)
    assert fitted.classes_.tolist() == [label for label in classes if label != "b"]
    assert np.mean(fitted.predict(X)[weight > 0.0] == y[weight > 0.0]) > 0.85
    assert fitted.predict_proba(X[:3]).shape == (3, len(classes) - 1)


@pytest.mark.parametrize("name", [name for name in SELECTORS if name != "selection_cv"])
def test_of_two_classes_one_does_not_suffice(name):
    X, y = rows_of("ab")
    with refused(errors.DataError, "target", at="y", naming=["one class"]):
        SELECTORS[name].fit(X, y, sample_weight=np.where(y == "b", 0.0, 1.0))


def test_a_store_says_so_by_its_codes(tmp_path):
    X, y = rows_of("abcd")
    codes = np.searchsorted(list("abcd"), y).astype(float)
    store = daskfs.ingest(X, tmp_path / "x.zarr", y=codes, weight=np.where(y == "b", 0.0, 1.0))
    fitted = daskfs.OnlineSubstitution(n_features_to_select=2, loss="logistic").fit(store)
    assert fitted.classes_.tolist() == [0.0, 2.0, 3.0]
    assert fitted.coef_.shape == (3, 5)


def test_blocks_of_columns_and_of_rows_leave_it_out():
    X, y = rows_of("abcd")
    weight = np.where(y == "b", 0.0, 1.0)
    by_columns = daskfs.OnlineSubstitution(n_features_to_select=2)
    by_columns.partial_fit_features(X[:, :3], y=y, sample_weight=weight).partial_fit_features(X[:, 3:])
    by_rows = daskfs.Message().fit_blocks(
        [(X[i : i + 200], y[i : i + 200], weight[i : i + 200]) for i in (0, 200, 400)]
    )
    for fitted in (by_columns, by_rows):
        assert fitted.classes_.tolist() == ["a", "c", "d"]
        assert np.mean(fitted.predict(X)[weight > 0.0] == y[weight > 0.0]) > 0.85


def test_rows_without_weight_may_have_any_label_afterwards():
    X, y = rows_of("abcd")
    weight = np.where(y == "b", 0.0, 1.0)
    fitted = daskfs.FGM(n_features_to_select=2).fit(X, y, sample_weight=weight)
    assert len(fitted.stand_ins(X, y, weight))
    with refused(errors.DataError, "shapes", at="y, row", naming=["b"]):
        fitted.stand_ins(X, y)
