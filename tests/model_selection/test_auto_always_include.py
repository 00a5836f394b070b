"""Columns that `Auto` always includes: handed on to every method that it compares."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from daskfs import Auto


def confounded(seed):
    """Draw a covariate that drives the target and ten features, which say nothing beside it; one other does."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 30))
    X[:, 5:15] += 2.0 * X[:, :1]
    return X, 3.0 * X[:, 0] + X[:, 20] + rng.standard_normal(400)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["numbers", "classes", "three classes"])
@pytest.mark.parametrize("n_features", [3, None])
def test_they_are_in_whatever_is_chosen(n_features, target):
    X, y = confounded(0)
    y = {
        "numbers": y,
        "classes": y > 0.0,
        "three classes": np.array(["low", "middle", "high"])[np.digitize(y, [-2.0, 2.0])],
    }[target]
    frame = pd.DataFrame(X, columns=[f"a{j}" for j in range(30)])
    found = Auto(n_features_to_select=n_features, always_include=["a29", "a0"]).fit(frame, y)
    assert set(found.selected_[:2]) == {0, 29}
    assert found.selector_.always_include == ["a29", "a0"]
    assert 20 in found.selected_
    if n_features is None:
        assert found.cv_results_["n_features_to_select"].min() == 2
        assert set(found.cv_results_["method"]) <= {"fgm", "mission", "online_substitution"}
        assert any("do not support always_include" in note and "the Lassos" in note for note in found.result_.notes)
    else:
        assert len(found.selected_) == n_features


def test_a_plan_is_of_those_that_can_keep_columns():
    plan = Auto(always_include=[0, 1]).plan(1000, 50, np.float32, None)
    assert "compared by cross-validation" in plan.text
    assert "shrunk_lasso" not in plan.text
