"""Columns that a pipeline always includes: selected of every source, and refused before a run where there are none."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from daskfs import FGM
from daskfs.cli import app
from daskfs.documents import dump_yaml, read_yaml
from daskfs.errors import DataError
from daskfs.pipeline.checks import check_pipeline
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from tests.genotype_files import write_phenotypes, write_plink
from tests.refusals import refused

COVARIATES = ["age", "PC1", "PC2"]
METHODS = ["fgm", "online_substitution"]


@pytest.fixture
def cohort(tmp_path, monkeypatch):
    """Dosages of 60 variants, of which ten repeat a component of ancestry that the phenotype depends on."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    of_samples = dict(zip(COVARIATES, rng.standard_normal((3, 300)), strict=True))
    of_samples["age"] = 50.0 + 10.0 * of_samples["age"]
    dosages = rng.integers(0, 3, (300, 60))
    dosages[:, 10:20] = rng.binomial(2, 1.0 / (1.0 + np.exp(-3.0 * of_samples["PC1"])), (10, 300)).T
    y = dosages[:, 3] - 0.8 * dosages[:, 7] + 2.0 * of_samples["PC1"] + 0.1 * of_samples["age"]
    y += rng.standard_normal(300)
    write_plink(tmp_path / "cohort.bed", dosages)
    write_phenotypes(tmp_path / "ph.txt", {"T": y})
    write_phenotypes(tmp_path / "cov.txt", of_samples)
    X = np.column_stack([*of_samples.values(), dosages])
    return tmp_path, X, y


def pipeline_of(folder, select, source=None, store="none"):
    document = {"version": 1, "name": "cohort", "output": "run", "store": store, "select": select}
    genotypes = {"kind": "plink", "path": "cohort.bed", "phenotypes": "ph.txt", "covariates": "cov.txt"}
    document["source"] = source or genotypes | {"missing": "mean"}
    document["split"] = None
    (folder / "p.yaml").write_text(dump_yaml(document))
    return folder / "p.yaml"


@pytest.mark.slow
@pytest.mark.parametrize("store", ["none", {"path": "cohort.zarr"}])
def test_covariates_of_genotypes_are_in_the_model_from_the_start(cohort, store):
    folder, X, y = cohort
    select = {"method": "fgm", "n_features_to_select": 5, "always_include": COVARIATES, "n_features_per_pass": 1}
    file = pipeline_of(folder, select, store=store)
    said = CliRunner().invoke(app, ["run", str(file)])
    assert said.exit_code == 0, said.output
    assert "<NA>" not in said.output, "a covariate has no position"
    table = pd.read_csv(folder / "run" / "selected.csv")
    assert set(table["name"][:3]) == set(COVARIATES)
    assert set(table["name"]) == {*COVARIATES, "rs3", "rs7"}
    expected = FGM(5, always_include=[0, 1, 2], n_features_per_pass=1).fit(X, y)
    coef = dict(zip(["age", "PC1", "PC2", *(f"rs{j}" for j in range(60))], expected.coef_, strict=True))
    np.testing.assert_allclose(table["coef"], [coef[name] for name in table["name"]], rtol=1e-4)
    said = CliRunner().invoke(app, ["apply", "run", "cohort.bed", "--covariates", "cov.txt", "-o", "scores.csv"])
    assert said.exit_code == 0, said.output
    scores = pd.read_csv(folder / "scores.csv")
    fitted = X @ expected.coef_ + expected.intercept_
    assert any(np.allclose(scores[name], fitted, rtol=1e-3) for name in scores.select_dtypes("number"))
    notes = json.loads((folder / "run" / "result.json").read_text())["notes"]
    assert any("always included" in note for note in notes)
    without = FGM(2, n_features_per_pass=1).fit(X[:, 3:], y)
    assert {*without.selected_} & {*range(10, 20)}, "ancestry is not taken for a variant's effect"


@pytest.mark.slow
def test_a_refit_and_stability_have_the_covariates_too(cohort):
    folder, *_ = cohort
    select = {"method": "fgm", "n_features_to_select": 5, "always_include": COVARIATES}
    file = pipeline_of(folder, select)
    document = read_yaml(file)
    file.write_text(
        dump_yaml(document | {"refit": {"by": "ridge"}, "stability": {"n_pairs": 5}, "split": {"test": 0.2}})
    )
    result = run_pipeline(load_pipeline(file)).results["fgm"]
    assert set(COVARIATES) <= set(result.table["name"])


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("store", ["none", {"path": "cohort.zarr"}])
def test_covariates_that_the_source_does_not_have_are_refused_before_the_run(cohort, command, method, store):
    folder, *_ = cohort
    select = {"method": method, "n_features_to_select": 5, "always_include": COVARIATES}
    genotypes = {"kind": "plink", "path": "cohort.bed", "phenotypes": "ph.txt", "missing": "mean"}
    said = CliRunner().invoke(app, [command, str(pipeline_of(folder, select, genotypes, store))])
    assert said.exit_code == 2
    assert "'age'" in said.output
    assert f"select.always_include ({method})" in said.output
    assert not (folder / "run").exists()
    assert CliRunner().invoke(app, ["validate", str(pipeline_of(folder, select, store=store))]).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_store_that_stands_says_which_columns_there_are(cohort, method):
    folder, *_ = cohort
    select = {"method": method, "n_features_to_select": 5, "always_include": ["age"]}
    file = pipeline_of(folder, select, store={"path": "cohort.zarr"})
    run_pipeline(load_pipeline(file))
    document = read_yaml(file)
    del document["source"]
    for always, named in (["agee"], "'agee'"), ([63], "63"):
        document["select"]["always_include"] = always
        file.write_text(dump_yaml(document))
        with refused(DataError, "shapes", at=f"select.always_include ({method})", naming=[named]):
            check_pipeline(load_pipeline(file))
    document["select"]["always_include"] = ["age", 62]
    file.write_text(dump_yaml(document))
    check_pipeline(load_pipeline(file))


def test_of_a_table_what_later_rows_may_bring_is_left_to_the_run(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((50, 3)), columns=["a", "b", "c"])
    frame["kind"], frame["y"] = rng.choice(["red", "blue"], 50), rng.standard_normal(50)
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = {"kind": "csv", "path": "t.csv", "target": "y"}
    for always, is_open in (["a"], True), (["kind=green"], True), ([70], True), (["d"], False), (["ab=red"], False):
        select = {"method": "fgm", "n_features_to_select": 3, "always_include": always}
        pipeline = load_pipeline(pipeline_of(tmp_path, select, source, {"path": "t.zarr"}))
        if is_open:
            check_pipeline(pipeline)
        else:
            with refused(DataError, "shapes", at="select.always_include (fgm)", naming=[repr(always[0])]):
                check_pipeline(pipeline)
