"""The recipes of docs/extending.md: their code is run as it stands there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import daskfs
import daskfs.methods
from daskfs.errors import ConfigError
from daskfs.losses import LOSSES, Loss
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.pipeline.schemas import json_schema
from daskfs.pipeline.selections import section_of
from daskfs.selectors.message.selector import Message
from daskfs.sources import registry
from tests.refusals import refused

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(encoding="utf-8"), re.DOTALL)


def recipe(first_line):
    (found,) = [block for block in BLOCKS if block.startswith(f"# {first_line}")]
    return found


@pytest.fixture
def line(tmp_path, monkeypatch):
    """The recipe's file, and its one line: a name and where the class is."""
    (tmp_path / "correlation.py").write_text(recipe("correlation.py"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(daskfs.methods.METHODS, "correlation", "correlation:Correlation")
    yield
    section_of.cache_clear()
    sys.modules.pop("correlation", None)


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "version: 1\nname: toy\nsource: {kind: synthetic, n_samples: 200, n_features: 12, n_informative: 2}\n"
        "select: {method: correlation, n_features_to_select: 3}\n"
    )
    return path


@pytest.mark.slow
def test_a_new_method_is_a_file_and_a_line(line, document):
    """Its check, YAML section, schema, plan, run folder and report are there."""
    with refused(ConfigError, "yaml-files", naming=["select.threshold", "1", "3"]):
        load_pipeline(document, ["select.threshold=3"])
    with refused(ConfigError, "yaml-files", naming=["select.treshold", "did you mean", "'threshold'"]):
        load_pipeline(document, ["select.treshold=1"])
    schema = json_schema("pipeline")
    assert schema["$defs"]["CorrelationSelect"]["properties"]["threshold"]["description"].startswith("Smallest corr")
    pipeline = load_pipeline(document)
    jsonschema.validate(pipeline.to_document(), schema)
    outcome = run_pipeline(pipeline)
    (result,) = outcome.results.values()
    assert len(result.table) == 3
    assert "correlation" in (pipeline.output_path / "report.html").read_text()


def test_a_new_parameter_is_a_line_and_its_meaning(line, tmp_path):
    text = (tmp_path / "correlation.py").read_text()
    text = text.replace("    threshold: Share = 0.0\n", "    threshold: Share = 0.0\n    n_folds: Count = 5\n")
    text = text.replace('    """\n\n    method', '    n_folds : int\n        Parts of the rows.\n    """\n\n    method')
    (tmp_path / "folded.py").write_text(text)
    selector = daskfs.methods.load("folded:Correlation")
    assert selector(n_folds=3).get_params()["n_folds"] == 3
    with refused(ConfigError, "parameters", at="n_folds", naming=["1", "0"]):
        selector(n_folds=0).fit(np.eye(4), np.arange(4.0))


def test_a_new_loss_is_taken_by_every_method_whose_requirements_it_meets(monkeypatch):
    cauchy = Loss("cauchy", 8, "½ log(1 + (z - y)²)", "number", curvature_bound=1.0, is_likelihood=True)
    with refused(ConfigError, "losses", at="loss", naming=["squared", "'cauchy'"]):
        Message(loss="cauchy").check_parameters()
    monkeypatch.setitem(LOSSES, "cauchy", cauchy)
    Message(loss="cauchy").check_parameters()
    with refused(ConfigError, "losses", at="loss", naming=["'cauchy'"]):
        daskfs.Mission(loss="cauchy").check_parameters()


@pytest.mark.nightly
def test_the_recipe_of_a_loss_makes_one(tmp_path):
    """Applied to a copy of the package: MESSAGE selects with it, robustly."""
    shutil.copytree(ROOT / "daskfs", tmp_path / "daskfs", ignore=shutil.ignore_patterns("__pycache__"))
    parts = re.split(r"^# (daskfs/.*)\n", recipe("daskfs/losses.py"), flags=re.MULTILINE)
    code = dict(zip(parts[1::2], parts[2::2], strict=True))
    losses = tmp_path / "daskfs" / "losses.py"
    text = losses.read_text()
    text = text.replace(" = range(8)", ", LOG_COSH = range(9)", 1)
    text = text.replace("    )\n}", f"        {code['daskfs/losses.py, among LOSSES'].strip()}\n    )\n}}", 1)
    losses.write_text(text)
    kernels = tmp_path / "daskfs" / "kernels" / "losses.py"
    text = kernels.read_text().replace("import EPSILON_INSENSITIVE,", "import LOG_COSH, EPSILON_INSENSITIVE,", 1)
    for function in ("values", "derivatives"):
        place = text.index("        else:\n            ", text.index(f"def {function}("))
        text = text[:place] + code[f"daskfs/kernels/losses.py, in {function}"].rstrip() + "\n" + text[place:]
    kernels.write_text(text + "\n\n" + code["daskfs/kernels/losses.py"])
    script = """
import numpy as np, daskfs
rng = np.random.default_rng(0)
X = rng.standard_normal((1500, 20))
y = 2 * X[:, 3] - X[:, 7] + 0.3 * rng.standard_normal(1500)
y[::100] += 1e3
selector = daskfs.Message(n_subsets=3, loss="log_cosh").fit(X, y)
print(daskfs.__file__, sorted(selector.selected_.tolist()), np.round(selector.coef_[[3, 7]]).tolist())
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout
    assert "[3, 7] [2.0, -1.0]" in done.stdout


def test_a_new_source_is_a_file_and_a_line(tmp_path, monkeypatch, document):
    """Its options are checked in YAML and stand in the schema; relative paths are those of the pipeline file."""
    (tmp_path / "archive.py").write_text(recipe("archive.py"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry.SOURCES, "archive", "archive:ArchiveSource")
    monkeypatch.setitem(registry.ENDINGS, ".npz", "archive")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    np.savez(tmp_path / "data.npz", X=X, z=X[:, 2] + 0.1 * rng.standard_normal(300))
    over = ["select={method: message, n_subsets: 3}", "source={kind: archive, path: data.npz, target: z}"]
    try:
        assert load_pipeline(document, over).source.path == str(tmp_path / "data.npz")
        with refused(ConfigError, "yaml-files", naming=["source.targt", "did you mean", "'target'"]):
            load_pipeline(document, [*over, "source.targt=z"])
        assert "ArchiveSource" in json_schema("pipeline")["$defs"]
        (result,) = run_pipeline(load_pipeline(document, over)).results.values()
        assert result.table["index"].tolist() == [2]
        store = daskfs.ingest(tmp_path / "data.npz", tmp_path / "again.zarr", target="z")
        assert store.shape == (300, 8)
        with refused(daskfs.DaskfsError, "formats", naming=["'y'"]):
            daskfs.ingest(tmp_path / "data.npz", tmp_path / "none.zarr")
    finally:
        registry.section_of.cache_clear()
        sys.modules.pop("archive", None)
