"""The baselines of MESSAGE: scikit-learn's examination; blocks of rows that are smaller than the data."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import daskfs.baselines.lasso.base
import daskfs.selectors.message
from daskfs.baselines.lasso.bolasso import Bolasso
from daskfs.baselines.lasso.full_data import FullData
from daskfs.baselines.lasso.subset_estimates import Averaging, Median
from daskfs.sources.ingest import ingest
from tests.contract.lab import assert_same_bits

BASELINES = [FullData(), Averaging(n_subsets=5), Median(n_subsets=5), Bolasso(n_bootstraps=3)]
NAMES = ["full_data", "averaging", "median", "bolasso"]


@pytest.fixture(scope="module")
def store(problem, tmp_path_factory):
    X, y = problem
    return ingest(X, tmp_path_factory.mktemp("baselines") / "p.zarr", y=y, dtype="float64", tile_shape=(256, 8))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("daskfs.baselines.lasso.paths.block_rows", lambda n_features: 150)


@pytest.mark.parametrize("baseline", BASELINES, ids=NAMES)
class TestEveryBaseline:
    def test_threads_and_processes_give_the_bits_of_this_thread(self, baseline, store, problem, workers, small_blocks):
        expected = clone(baseline).fit(store)
        assert_same_bits(clone(baseline).fit_matrix(store, workers=workers), expected)
        view = store.take(np.arange(0, 1200, 2))
        assert_same_bits(clone(baseline).fit_matrix(view, workers=workers), clone(baseline).fit(view))


def test_the_baselines_use_what_the_package_of_message_offers():
    """Its docstring lists them, ``module.name``."""
    folder = Path(daskfs.baselines.lasso.base.__file__).parent
    imports = re.compile(r"^from daskfs\.selectors\.message\.(\w+) import (\(.*?\)|[^\n]*)", re.MULTILINE | re.DOTALL)
    found = {
        f"{module}.{name}"
        for path in folder.glob("*.py")
        for module, names in imports.findall(path.read_text())
        for name in re.findall(r"\w+", names)
    }
    assert "choices.SelectionSettings" in found
    assert not {name for name in found if f"`{name}`" not in daskfs.selectors.message.__doc__}
