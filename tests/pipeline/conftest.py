import numpy as np
import pytest

from daskfs.documents import dump_yaml


@pytest.fixture
def table(tmp_path):
    """A CSV file of 600 rows whose target depends on two of eight columns."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 8))
    y = 3 * X[:, 1] - 2 * X[:, 6] + rng.normal(size=600)
    header = ",".join([f"f{j}" for j in range(8)] + ["part", "y"])
    part = np.where(np.arange(600) % 5 == 0, "late", "early")
    lines = [",".join([*(repr(float(v)) for v in row), part[i], repr(float(y[i]))]) for i, row in enumerate(X)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.fixture
def document(table):
    """The pipeline over that table, as a mapping."""
    schema = {
        "version": 1,
        "name": "table",
        "columns": {"y": {"role": "target"}, "part": {"role": "split", "dtype": "string"}},
        "other_columns": "feature",
    }
    (table.parent / "schema.yaml").write_text(dump_yaml(schema))
    return {
        "version": 1,
        "name": "table",
        "source": {"kind": "csv", "path": "table.csv", "schema": "schema.yaml"},
        "store": {"path": "runs/table.zarr"},
        "select": {"method": "message", "n_subsets": 3},
        "output": "runs/table",
    }


@pytest.fixture
def write(tmp_path):
    """Write a pipeline file beside the table; return its path."""

    def write(document, name="pipeline.yaml"):
        path = tmp_path / name
        path.write_text(dump_yaml(document) if isinstance(document, dict) else document)
        return path

    return write
