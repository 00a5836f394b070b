"""The competitors of online substitution: scikit-learn's examination; the same bits anywhere; resumed; in pipelines."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from daskfs.baselines.columns.alpha_investing import AlphaInvesting
from daskfs.baselines.columns.grafting import Grafting
from daskfs.baselines.columns.lasso_cut import LassoCut
from daskfs.baselines.columns.online_l0 import OnlineL0
from daskfs.baselines.columns.online_l1 import OnlineL1
from daskfs.baselines.columns.orthogonal_matching_pursuit import OrthogonalMatchingPursuit
from daskfs.baselines.columns.proj_gd import ProjGD
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.pipeline.config import build_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.sources.ingest import ingest

CLASSES = [ProjGD, LassoCut, OrthogonalMatchingPursuit, Grafting, OnlineL1, OnlineL0, AlphaInvesting]
BASELINES = [made(5) for made in CLASSES]
NAMES = [baseline.method for baseline in BASELINES]


@pytest.fixture(scope="module")
def store(problem, tmp_path_factory):
    X, y = problem
    return ingest(X, tmp_path_factory.mktemp("columns") / "p.zarr", y=y, dtype="float64", tile_shape=(256, 8))


def assert_same_bits(found, expected):
    np.testing.assert_array_equal(found.selected_, expected.selected_)
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    np.testing.assert_array_equal(found.scores_, expected.scores_)
    assert found.intercept_ == expected.intercept_
    pd.testing.assert_frame_equal(found.result_.history, expected.result_.history, check_exact=True)


class Kept(dict):
    """A checkpoint in memory."""

    def load(self, name):
        return self.get(name)

    def save(self, name, arrays):
        self[name] = {key: np.array(value) for key, value in arrays.items()}


class Heard(list):
    """Progress that is written down."""

    def start(self, name, total):
        self.append([name, total, 0])

    def advance(self, k=1):
        self[-1][2] += k

    def finish(self):
        pass


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
class TestEveryBaseline:
    def test_threads_and_processes_give_the_bits_of_this_thread(self, baseline, store, workers):
        expected = clone(baseline).fit(store)
        assert_same_bits(clone(baseline).fit_matrix(store, workers=workers), expected)
        view = store.take(np.arange(0, 1200, 2))
        assert_same_bits(clone(baseline).fit_matrix(view, workers=workers), clone(baseline).fit(view))

    def test_tiles_of_any_shape_give_the_same_bits(self, baseline, problem, store, tmp_path):
        X, y = problem
        expected = clone(baseline).fit(store)
        for tile_shape in [(64, 20), (1200, 3)]:
            path = tmp_path / f"{tile_shape[0]}.zarr"
            other = ingest(X, path, y=y, dtype="float64", tile_shape=tile_shape)
            assert_same_bits(clone(baseline).fit(other), expected)

    def test_a_resumed_fit_ends_with_the_same_answer_without_selecting_again(self, baseline, problem, monkeypatch):
        matrix, checkpoint = ArrayMatrix(*problem), Kept()
        whole = clone(baseline).fit_matrix(matrix, checkpoint=checkpoint)
        assert len(checkpoint) == 1
        monkeypatch.setattr(type(baseline), "_select", None)
        again = clone(baseline).fit_matrix(matrix, checkpoint=checkpoint)
        assert_same_bits(again, whole)
        assert again.result_.notes == whole.result_.notes

    def test_int8_stores_are_taken(self, baseline, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.integers(-100, 100, (600, 12)).astype(np.int8)
        y = X[:, [1, 4]] @ [0.02, -0.01] + 0.3 * rng.standard_normal(600)
        stored = ingest(X, tmp_path / "int8.zarr", y=y, dtype="int8")
        assert {1, 4} <= set(clone(baseline).fit(stored).selected_)

    def test_progress_is_heard_to_the_end(self, baseline, store):
        heard = Heard()
        clone(baseline).fit_matrix(store, progress=heard)
        assert heard
        assert all(done <= total for _, total, done in heard)
        assert heard[-1][1] == heard[-1][2]


def test_all_of_them_run_in_a_pipeline(tmp_path):
    source = {"kind": "synthetic", "design": "online_substitution", "n_features": 200, "n_informative": 8}
    document = {
        "version": 1,
        "name": "competitors",
        "source": source | {"n_samples": 400, "columns": "unit", "random_state": 1},
        "store": {"path": str(tmp_path / "s.zarr")},
        "split": {"test": 0.2, "by": "order"},
        "select": [{"method": name, "label": name, "n_features_to_select": 8} for name in NAMES],
        "evaluate": {"metrics": ["mse", "r2", "recall"]},
        "cluster": {"kind": "none", "memory_limit": "2GiB"},
        "output": str(tmp_path / "run"),
    }
    outcome = run_pipeline(build_pipeline(document, "competitors.yaml", tmp_path))
    assert list(outcome.results) == NAMES
    recalls = {name: result.metrics["recall"] for name, result in outcome.results.items()}
    assert min(value for name, value in recalls.items() if name != "alpha_investing") >= 0.5
    assert "largest product with the residual" in outcome.report.read_text(encoding="utf-8")
