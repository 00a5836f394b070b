"""Several phenotypes of genotypes: a run for each, in passes that they share."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from daskfs.cli import app
from daskfs.errors import ConfigError, DataError, RunError
from daskfs.model_selection import auto
from daskfs.pipeline.config import build_pipeline
from daskfs.pipeline.folder import pipeline_of as pipeline_of_run
from daskfs.pipeline.run import run_each, run_pipeline
from tests.genotype_files import counted_passes, write_phenotypes, write_plink
from tests.refusals import refused
from tests.tolerances import FLOAT64, assert_close

N, P = 300, 240
TARGETS = ["LDL", "HDL", "T2D"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write genotypes with missing calls, and phenotypes with missing values of their own."""
    folder, rng = tmp_path_factory.mktemp("cohort"), np.random.default_rng(0)
    dosages = rng.binomial(2, rng.uniform(0.1, 0.5, P), (N, P)).astype(np.int8)
    ldl, hdl, liability = (dosages[:, k : k + 4].sum(axis=1) + rng.standard_normal(N) for k in (10, 80, 200))
    disease = 1.0 + (liability > np.median(liability))
    ldl[rng.random(N) < 0.1], disease[rng.random(N) < 0.05] = np.nan, np.nan
    dosages[rng.random(dosages.shape) < 0.005] = -1
    write_plink(folder / "c.bed", dosages)
    write_phenotypes(
        folder / "p.tsv",
        {"LDL": ldl, "HDL": hdl, "T2D": disease, "age": rng.uniform(40.0, 70.0, N), "flat": np.ones(N)},
    )
    return folder


def pipeline_of(files, target, output, method="message", cluster=None, **select):
    options = {"phenotypes": str(files / "p.tsv"), "covariate_names": ["age"], "missing": "mean", "target": target}
    document = {
        "version": 1,
        "name": "several",
        "source": {"kind": "plink", "path": str(files / "c.bed"), **options},
        "select": {"method": method, "random_state": 0, "always_include": ["age"], **select},
        "output": str(output),
        "cluster": cluster or {},
    }
    return build_pipeline(document, "here", files)


@pytest.fixture
def passes(monkeypatch):
    return counted_passes(monkeypatch)


def test_each_run_is_that_of_its_target_alone(files, tmp_path, passes):
    outcomes = list(run_each(pipeline_of(files, TARGETS, tmp_path / "runs", n_subsets=1)))
    assert max(passes) == len(TARGETS)
    n_together = len(passes)
    passes.clear()
    assert [one.folder for one in outcomes] == [tmp_path / "runs" / target for target in TARGETS]
    for target, outcome in zip(TARGETS, outcomes, strict=True):
        alone = run_pipeline(pipeline_of(files, target, tmp_path / target, n_subsets=1))
        (found,), (expected,) = outcome.results.values(), alone.results.values()
        assert found.n_samples == expected.n_samples
        assert list(found.table["name"]) == list(expected.table["name"])
        assert len(found.table) > 2
        assert_close(np.array(found.table["coef"]), np.array(expected.table["coef"]), FLOAT64)
        assert found.metrics == pytest.approx(expected.metrics)
        written = (outcome.folder / "pipeline.yaml").read_text()
        assert f"target: {target}\n" in written
    assert max(passes) == 1
    assert n_together < 0.7 * len(passes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threads", "local"])
def test_workers_share_passes_too(files, tmp_path, kind):
    cluster = {"kind": kind, "n_workers": 2}
    outcomes = list(run_each(pipeline_of(files, TARGETS, tmp_path / "runs", n_subsets=1, cluster=cluster)))
    for target, outcome in zip(TARGETS, outcomes, strict=True):
        alone = run_pipeline(pipeline_of(files, target, tmp_path / target, n_subsets=1))
        (found,), (expected,) = outcome.results.values(), alone.results.values()
        assert list(found.table["name"]) == list(expected.table["name"])
        assert_close(np.array(found.table["coef"]), np.array(expected.table["coef"]), FLOAT64)


@pytest.mark.slow
def test_folds_of_several_targets_share_passes_too(files, tmp_path, passes, monkeypatch):
    monkeypatch.setattr(auto, "MOST_VALUES", 1)
    monkeypatch.setattr(auto, "n_repeats", lambda n_samples: 1)
    outcomes = list(run_each(pipeline_of(files, TARGETS[:2], tmp_path / "runs", "auto")))
    assert passes[0] == 12, "five folds and all rows of two targets"
    for target, outcome in zip(TARGETS, outcomes, strict=False):
        alone = run_pipeline(pipeline_of(files, target, tmp_path / target, "auto"))
        (found,), (expected,) = outcome.results.values(), alone.results.values()
        assert_close(np.array(found.history["mse"]), np.array(expected.history["mse"]), FLOAT64)
        assert list(found.table["name"]) == list(expected.table["name"])


def test_an_interrupted_run_continues_and_finished_ones_stay(files, tmp_path, monkeypatch):
    pipeline = pipeline_of(files, TARGETS, tmp_path / "runs", n_subsets=1)
    runs = run_each(pipeline)
    first = next(runs)
    before = (first.folder / "result.json").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("daskfs.pipeline.steps.report.run", interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(runs)
    with refused(RunError, "run-folders", at="LDL"):
        list(run_each(pipeline))
    with refused(RunError, "run-folders", at="runs", naming=["pipeline file"]):
        pipeline_of_run(tmp_path / "runs")
    assert pipeline_of_run(tmp_path / "runs" / "HDL").exists()
    rest = list(run_each(pipeline, resume=True))
    assert [one.folder.name for one in rest] == TARGETS[1:]
    assert (first.folder / "result.json").read_bytes() == before
    with refused(RunError, "run-folders", at="runs"):
        list(run_each(pipeline, resume=True))


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("targets", "topic", "place", "naming"),
    [
        (["LDL", "HLD"], "genotypes", "p.tsv", ["HLD", "LDL"]),
        (["LDL", "LDL"], "pipeline-files", "source.target", ["LDL"]),
        (["..", "a.b", "a_b"], "pipeline-files", "source.target", ["a_b"]),
        (["a b", "a/b"], "pipeline-files", "source.target", ["a_b"]),
    ],
)
def test_nothing_is_run_if_a_target_is_wrong(files, tmp_path, targets, topic, place, naming):
    with refused(ConfigError, topic, at=place, naming=naming):
        list(run_each(pipeline_of(files, targets, tmp_path / "runs")))
    assert not (tmp_path / "runs").exists()


def test_an_error_in_what_is_computed_for_another_target_names_it_and_leaves_no_run(files, tmp_path):
    with refused(DataError, "target", at="target", naming=["constant"]) as caught:
        list(run_each(pipeline_of(files, ["LDL", "flat"], tmp_path / "runs", loss="squared")))
    assert any("the run of flat" in note for note in caught.value.__notes__)
    assert not any((tmp_path / "runs").iterdir())


def test_a_loss_that_another_target_does_not_take_is_refused_before_any_run(files, tmp_path):
    with refused(ConfigError, "pipeline-files", at="select.loss", naming=["logistic"]) as caught:
        list(run_each(pipeline_of(files, ["T2D", "LDL"], tmp_path / "runs", loss="logistic")))
    assert any("the run of LDL" in note for note in caught.value.__notes__)
    assert not (tmp_path / "runs").exists()


def test_the_command_lists_targets_with_commas(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def said(*arguments):
        done = CliRunner().invoke(app, list(map(str, arguments)), prog_name="daskfs")
        assert done.exit_code == 0, done.output
        return done.stdout

    genotypes, table = files / "c.bed", files / "p.tsv"
    given = ["--phenotypes", table, "--covariates", "age", "--target", "LDL, HDL", "--n-subsets", "1", "--quiet"]
    runs = json.loads(said("select", genotypes, *given, "--output", "both", "--json"))["runs"]
    assert [one["run"] for one in runs] == [str(tmp_path / "both" / name) for name in ("LDL", "HDL")]
    assert (tmp_path / "both" / "HDL" / "report.html").exists()
    source = f"{{kind: plink, path: {genotypes}, phenotypes: {table}, target: [LDL, T2D], missing: mean}}"
    (tmp_path / "p.yaml").write_text(
        f"version: 1\nname: two\nsource: {source}\nselect: {{method: message, n_subsets: 1}}\n"
    )
    assert "valid" in said("validate", "p.yaml")
    text = said("plan", "p.yaml", "--on", "2x4")
    assert text.count("on 2 machines of 4 cores") == 2
    assert text.index("LDL:\n") < text.index("T2D:\n")
    text = said("init", genotypes, "--phenotypes", table, "--target", "LDL,T2D,", "--output", "drafted.yaml")
    assert "'LDL', 'T2D'" in text
    assert "target: [LDL, T2D]" in (tmp_path / "drafted.yaml").read_text()
    text = said("run", "p.yaml", "--quiet")
    assert text.index("LDL:\n") < text.index("T2D:\n")
    assert (tmp_path / "runs" / "two" / "T2D" / "report.html").exists()
