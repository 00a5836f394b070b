"""A pipeline whose source is sparse: validated, planned and run from the file."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import daskfs
from daskfs.cli import app
from daskfs.documents import dump_yaml
from daskfs.pipeline import predicting
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.facts import facts_of
from daskfs.selectors.shared.run import Run


@pytest.fixture
def pipeline(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random_array((600, 5000), density=0.01, rng=rng, format="csr")
    X.data[:] = 1.0
    sp.save_npz(tmp_path / "X.npz", X)
    np.save(tmp_path / "y.npy", X[:, [7]].toarray()[:, 0] + 0.01 * rng.standard_normal(600))
    document = {
        "version": 1,
        "name": "sparse",
        "source": {"kind": "npz", "path": "X.npz", "y": "y.npy"},
        "store": {"path": "X.zarr"},
        "select": {"method": "online_substitution", "n_features_to_select": 1, "loss": "squared"},
        "cluster": {"kind": "none", "memory_limit": "1GiB"},
        "output": "run",
    }
    (tmp_path / "pipeline.yaml").write_text(dump_yaml(document))
    return tmp_path / "pipeline.yaml"


def test_it_is_planned_by_its_entries_and_run_to_the_end(pipeline):
    before = facts_of(load_pipeline(pipeline))
    for command in ("validate", "plan", "run"):
        done = CliRunner().invoke(app, [command, str(pipeline)], prog_name="daskfs")
        assert done.exit_code == 0, done.output
    assert daskfs.SelectionResult.load(pipeline.parent / "run").table["index"].tolist() == [7]
    store = daskfs.open_store(pipeline.parent / "X.zarr")
    assert store.is_sparse
    assert store.verify() == []
    after = facts_of(load_pipeline(pipeline))
    assert after.n_entries == before.n_entries == store.n_entries
    assert after.store_nbytes < store.shape[0] * store.shape[1]


@pytest.mark.parametrize("nbytes", [1, 1 << 12, 1 << 23])
def test_rows_for_testing_are_predicted_from_their_entries(tmp_path, monkeypatch, nbytes):
    """In blocks of any size, of any rows, a few selected columns: as the columns made dense say."""
    monkeypatch.setattr(predicting, "BLOCK_NBYTES", nbytes)
    rng = np.random.default_rng(1)
    X = sp.random_array((500, 300), density=0.05, rng=rng, format="csr", dtype=np.float32)
    y = X[:, [7]].toarray()[:, 0] - X[:, [3]].toarray()[:, 0]
    store = daskfs.ingest(X, tmp_path / "X.zarr", y=y)
    selector = daskfs.FGM(2, loss="squared").fit(store)
    some = store.take(np.sort(rng.permutation(500)[:120]))
    found = predicting.linear_predictor(selector.predictor(), Run(some, "evaluate"))
    dense = some.read(slice(None)).astype(np.float64)
    np.testing.assert_allclose(found, dense @ selector.coef_ + selector.intercept_, rtol=1e-12)
