"""Columns that MISSION always includes: exact weights from the first row on, in every selection."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskfs
from daskfs.errors import ConfigError, DataError
from daskfs.selectors.mission.selector import Mission
from daskfs.sources.sparse.libsvm import LibsvmSource
from daskfs.sources.sparse.vw import VwSource
from tests.refusals import refused

N, P, COVARIATES, TRUE = 1500, 80, [0, 1], [40, 50]


def confounded(seed, loss="squared", n_classes=2):
    """Draw covariates that drive the target and thirty features, which say nothing beside them; two others do."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P))
    X[:, 5:35] += 3.0 * X[:, rng.integers(0, 2, 30)]
    z = 3.0 * X[:, 0] - 3.0 * X[:, 1] + X[:, 40] - X[:, 50]
    if loss == "squared":
        return X, z + rng.standard_normal(N)
    noisy = z + rng.logistic(size=N)
    return X, np.digitize(noisy, [0.0] if n_classes == 2 else [-2.0, 2.0])


@pytest.mark.parametrize(("loss", "n_classes"), [("squared", 0), ("logistic", 2), ("multinomial", 3)])
def test_covariates_keep_out_what_only_stands_in_for_them(loss, n_classes):
    options: dict[str, object] = {"loss": loss}
    n_false_without, n_exact, n_seeds = 0, 0, 4
    for seed in range(n_seeds):
        X, y = confounded(seed, loss, n_classes)
        without = Mission(2, **options).fit(X[:, 2:], y)
        n_false_without += set(without.selected_ + 2) != set(TRUE)
        found = Mission(4, always_include=COVARIATES, **options).fit(X, y)
        assert set(found.selected_[:2]) == set(COVARIATES)
        assert "2 of them were always included" in found.result_.notes
        n_exact += set(found.selected_[2:]) == set(TRUE)
    assert n_false_without == n_seeds
    assert n_exact >= n_seeds - 1


@pytest.mark.parametrize("tail", ["sketch", "identity"])
@pytest.mark.parametrize("more", [{}, {"n_candidates": None}, {"refit": None}, {"refit": "sgd"}, {"n_replicas": 2}])
def test_they_stay_though_they_say_nothing(tail, more):
    X, y = confounded(1)
    options = {"tail": tail, "block_rows": 100, "sync_every": 100, "n_buckets": 64 if tail == "sketch" else None}
    found = Mission(6, always_include=[60, 79, 0], **options, **more).fit(X, y)
    assert set(found.selected_[:3]) == {0, 60, 79}
    assert len(found.selected_) == 6
    assert found.result_.table["touches"].min() > 0
    touches = found.result_.table.set_index("index")["touches"]
    assert touches[[0, 60, 79]].nunique() == 1  # met in every row, from the first one on
    assert (touches[[0, 60, 79]] == touches.max()).all()
    assert (found.coef_[[0, 60, 79]] != 0.0).all()
    np.testing.assert_allclose(found.predict(X), X @ found.coef_ + found.intercept_, rtol=1e-6, atol=1e-6)


def test_as_many_as_are_selected_leave_no_room():
    X, y = confounded(2)
    for more in ({}, {"n_candidates": None}):
        found = Mission(3, always_include=[60, 70, 79], block_rows=100, **more).fit(X, y)
        assert set(found.selected_) == {60, 70, 79}


def test_sparse_rows_give_what_dense_rows_give():
    rng = np.random.default_rng(3)
    X = sp.random_array((1500, 300), density=0.05, rng=rng, format="csr")
    y = 4 * X[:, [3]].toarray()[:, 0] - 4 * X[:, [7]].toarray()[:, 0] + 0.1 * rng.standard_normal(1500)
    options = {"always_include": [200, 100], "standardize": False, "block_rows": 200}
    found, expected = Mission(6, **options).fit(X, y), Mission(6, **options).fit(X.toarray(), y)
    assert set(found.selected_[:2]) == {100, 200}
    assert set(found.selected_) == set(expected.selected_) >= {3, 7, 100, 200}
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-8)


def test_names_and_later_rows(tmp_path):
    X, y = confounded(4)
    frame = pd.DataFrame(X, columns=[f"a{j}" for j in range(P)])
    named = Mission(4, always_include=["a1", "a0"]).fit(frame, y)
    numbered = Mission(4, always_include=COVARIATES).fit(X, y)
    np.testing.assert_array_equal(named.coef_, numbered.coef_)
    parts = Mission(6, always_include=["a0", "a79"], block_rows=100)
    parts.partial_fit(frame[:700], y[:700])
    parts.save(tmp_path / "model.npz")
    later = Mission.load(tmp_path / "model.npz")
    assert set(later.selected_[:2]) == {0, 79}
    for one in (parts, later):
        one.partial_fit(frame[700:], y[700:])
        assert set(one.selected_[:2]) == {0, 79}
    np.testing.assert_array_equal(parts.coef_, later.coef_)
    blocks = Mission(6, always_include=[0, 79]).fit_blocks((X[k : k + 300], y[k : k + 300]) for k in range(0, N, 300))
    assert set(blocks.selected_[:2]) == {0, 79}


def test_a_store_and_nested_sizes(tmp_path):
    X, y = confounded(5)
    store = daskfs.ingest(pd.DataFrame(X, columns=[f"a{j}" for j in range(P)]), tmp_path / "X.zarr", y=y)
    found = Mission(4, always_include=["a0", "a1"]).fit(store)
    assert set(found.selected_) == {*COVARIATES, *TRUE}
    nested = daskfs.SelectionCV(Mission(always_include=["a79"]), sizes=[1, 3, 5], cv=3).fit(store)
    assert nested.selected_[0] == 79


def test_a_source_whose_columns_are_ids_knows_none_before_they_come(tmp_path):
    (tmp_path / "rows.vw").write_text("1 |a x:1 y:2\n-1 |a x:0.5 z:1\n" * 20)
    with refused(ConfigError, "parameters", at="always_include", naming=["64-bit"]):
        Mission(2, loss="logistic", always_include=["a^x"]).fit_source(VwSource(tmp_path / "rows.vw"))
    (tmp_path / "rows.svm").write_text("1 1:1 3:2\n-1 1:0.5 2:1 3:0.1\n" * 20)
    with refused(ConfigError, "parameters", at="always_include", naming=["64-bit"]):
        Mission(2, loss="logistic", always_include=[1]).fit_source(
            LibsvmSource(tmp_path / "rows.svm", feature_ids=True)
        )
    numbered = Mission(2, loss="logistic", always_include=[1]).fit_source(LibsvmSource(tmp_path / "rows.svm"))
    assert numbered.selected_[0] == 1


@pytest.mark.parametrize(
    ("options", "error", "topic", "at", "naming"),
    [
        ({"always_include": [80]}, DataError, "shapes", "always_include", ["0", "79", "80"]),
        ({"always_include": ["age"]}, DataError, "shapes", "always_include", ["'age'"]),
        ({"always_include": [3]}, DataError, "values", "always_include, column 'x3'", ["constant"]),
        ({"always_include": [3], "n_candidates": None}, DataError, "values", "always_include, column 'x3'", []),
        (
            {"always_include": [0, 1, 2]},
            ConfigError,
            "parameters",
            "always_include",
            ["2", "3", "n_features_to_select"],
        ),
        ({"always_include": [0], "variant": "paper"}, ConfigError, "parameters", "always_include", []),
        ({"always_include": [0], "per_class": True}, ConfigError, "parameters", "always_include", ["per_class"]),
    ],
)
def test_what_cannot_be_included_is_refused(options, error, topic, at, naming):
    X, y = confounded(0)
    X[:, 3] = 1.0
    with refused(error, topic, at=at, naming=naming):
        Mission(2, **options).fit(X, y)


def test_a_plan_counts_the_moments_without_them():
    plain, always = (Mission(100, always_include=asked).plan(50_000, 300, np.float32, None) for asked in (None, ["a"]))
    assert always.task.nbytes >= plain.task.nbytes
