"""scikit-learn's examination of the baselines of online substitution; all of them in a pipeline."""

from __future__ import annotations

import pytest

from daskfs.baselines.columns.alpha_investing import AlphaInvesting
from daskfs.baselines.columns.lasso_cut import LassoCut
from daskfs.baselines.columns.orthogonal_matching_pursuit import OrthogonalMatchingPursuit
from daskfs.baselines.columns.proj_gd import ProjGD
from daskfs.baselines.columns.streams import Grafting, OnlineL0, OnlineL1
from daskfs.pipeline.config import build_pipeline
from daskfs.pipeline.run import run_pipeline

CLASSES = [ProjGD, LassoCut, OrthogonalMatchingPursuit, Grafting, OnlineL1, OnlineL0, AlphaInvesting]
BASELINES = [made(5) for made in CLASSES]
NAMES = [baseline.method for baseline in BASELINES]


@pytest.mark.slow
def test_all_of_them_run_in_a_pipeline(tmp_path):
    source = {"kind": "synthetic", "design": "online_substitution", "n_features": 200, "n_informative": 8}
    document = {
        "version": 1,
        "name": "competitors",
        "source": source | {"n_samples": 400, "columns": "unit", "random_state": 1},
        "store": {"path": str(tmp_path / "s.zarr")},
        "split": {"test": 0.2, "by": "order"},
        "select": [{"method": name, "label": name, "n_features_to_select": 8} for name in NAMES],
        "evaluate": {"metrics": ["mse", "r2", "selection_recall"]},
        "cluster": {"kind": "none", "memory_limit": "2GiB"},
        "output": str(tmp_path / "run"),
    }
    outcome = run_pipeline(build_pipeline(document, "competitors.yaml", tmp_path))
    assert list(outcome.results) == NAMES
    recalls = {name: result.metrics["selection_recall"] for name, result in outcome.results.items()}
    assert min(value for name, value in recalls.items() if name != "alpha_investing") >= 0.5
    assert "largest product with the residual" in outcome.report.read_text(encoding="utf-8")
