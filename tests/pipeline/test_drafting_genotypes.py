"""Genotypes and a table of phenotypes become a pipeline that runs."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from daskfs.cli import app
from daskfs.documents import read_yaml
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.facts import open_source
from daskfs.pipeline.run import run_pipeline
from tests.genotype_files import write_phenotypes, write_plink, write_vcf_zarr

COVARIATES = ["age", "PC1", "PC2", "PC3"]


@pytest.fixture
def cohort(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    dosages, of_samples = (
        rng.integers(0, 3, (200, 30)),
        dict(zip(COVARIATES, rng.standard_normal((4, 200)), strict=True)),
    )
    y = 2.0 * dosages[:, 3] - dosages[:, 7] + of_samples["PC2"] + 0.1 * rng.standard_normal(200)
    write_plink(tmp_path / "cohort.bed", dosages)
    write_vcf_zarr(tmp_path / "cohort.vcz", dosages)
    write_phenotypes(tmp_path / "ph.txt", {"T": y, "U": -y, **of_samples})
    write_phenotypes(tmp_path / "cov.txt", of_samples)
    return tmp_path


def init(*arguments, exit_code=0):
    said = CliRunner().invoke(app, ["init", *arguments])
    assert said.exit_code == exit_code, said.output
    return said.output


@pytest.mark.parametrize("covariates", ["age,PC1-PC3", "cov.txt", None])
@pytest.mark.parametrize("file", ["cohort.bed", "cohort.vcz", "coh*.bed"])
def test_init_writes_a_pipeline_of_genotypes(cohort, file, covariates):
    given = [] if covariates is None else ["--covariates", covariates]
    made = json.loads(
        init(file, "--phenotypes", "ph.txt", "--target", "T", *given, "--output", "made/my.yaml", "--json")
    )
    names = [] if covariates is None else COVARIATES
    assert (made["n_samples"], made["n_variants"], made["target"], made["covariates"]) == (200, 30, "T", names)
    assert CliRunner().invoke(app, ["validate", "made/my.yaml"]).exit_code == 0
    pipeline = load_pipeline(cohort / "made" / "my.yaml")
    assert open_source(pipeline).feature_names == [*names, *(f"rs{j}" for j in range(30))]
    selection = pipeline.selections["online_substitution"]
    assert selection.n_features_to_select == len(names) + 20
    assert (selection.always_include or []) == names


def renamed(cohort, families):
    """Write the ids of families into the .fam file, and into the table of phenotypes."""
    lines = [line.split(" ", 1)[1] for line in (cohort / "cohort.fam").read_text().splitlines()]
    (cohort / "cohort.fam").write_text("".join(f"{one} {line}\n" for one, line in zip(families, lines, strict=True)))
    head, *rows = (cohort / "ph.txt").read_text().splitlines()
    rows = [f"{one}\t{row.split(chr(9), 1)[1]}" for one, row in zip(families, rows, strict=True)]
    (cohort / "ph.txt").write_text("\n".join([head, *rows]) + "\n")


def test_families_that_repeat_are_kept_on_one_side_of_the_split(cohort):
    made = ["cohort.bed", "--phenotypes", "ph.txt", "--target", "T", "--force"]
    said = init(*made)  # all are of the family f
    assert "200 samples share one" in said
    assert load_pipeline(cohort / "cohort.yaml").split.groups is None
    renamed(cohort, [f"f{i}" for i in range(200)])
    assert "famil" not in init(*made)
    assert load_pipeline(cohort / "cohort.yaml").split.groups is None
    renamed(cohort, [f"f{i // 4}" if i < 80 else "0" for i in range(200)])
    assert "20 families of 80 samples, the largest of 4" in init(*made)
    assert load_pipeline(cohort / "cohort.yaml").split.groups == "fid"
    assert CliRunner().invoke(app, ["validate", "cohort.yaml"]).exit_code == 0
    train, test = open_source(load_pipeline(cohort / "cohort.yaml")).as_matrix().split(0.2, groups="fid")
    assert not {*train.labels("fid")[train.labels("fid") != "0"]} & {*test.labels("fid")}


@pytest.mark.slow
def test_the_pipeline_of_genotypes_runs(cohort):
    said = init("cohort.bed", "--phenotypes", "ph.txt", "--target", "T", "--covariates", "age,PC1-PC3")
    assert said.rstrip().endswith("wrote cohort.yaml")
    result = run_pipeline(load_pipeline(cohort / "cohort.yaml")).results["online_substitution"]
    assert {*COVARIATES, "rs3", "rs7"} <= {*result.table["name"]}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["cohort.bed", "--phenotypes", "ph.txt"], "expected the name of a phenotype"),
        (["cohort.bed", "--phenotypes", "ph.txt", "--target", "T", "--covariates", "PC1-PC9"], "'PC1-PC9'"),
        (["ph.txt", "--covariates", "age"], "--covariates"),
        (["ph.txt", "--phenotypes", "ph.txt"], "--phenotypes"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(cohort, arguments, named):
    assert named in init(*arguments, exit_code=2)
    assert not list(cohort.glob("*.yaml"))


def test_a_pipeline_that_stands_is_not_replaced_unless_asked(cohort):
    (cohort / "cohort.yaml").write_text("mine")
    arguments = ["cohort.bed", "--phenotypes", "ph.txt", "--target", "T"]
    assert "--force" in init(*arguments, exit_code=2)
    init(*arguments, "--force")
    assert read_yaml(cohort / "cohort.yaml")["name"] == "cohort"


def selected(*arguments, exit_code=0):
    given = ["select", *arguments, "--set", "n_features_to_select=5", "--quiet", "--json"]
    said = CliRunner().invoke(app, given)
    assert said.exit_code == exit_code, said.output
    return json.loads(said.stdout)


@pytest.mark.parametrize("file", ["cohort.bed", "cohort.vcz", "cohort{7..7}.bed"])
def test_select_runs_without_a_pipeline_file_and_includes_the_covariates(cohort, file):
    for ending in (".bed", ".bim", ".fam"):
        shutil.copy(cohort / f"cohort{ending}", cohort / f"cohort7{ending}")
    options = ["--phenotypes", "ph.txt", "--target", "T", "--covariates", "PC1-PC3", "--method", "online_substitution"]
    found = selected(file, *options, "--output", "run")
    assert {*COVARIATES[1:], "rs3", "rs7"} == {*pd.read_csv("run/selected.csv")["name"]}, found
    assert not [*cohort.glob("runs/*.zarr")]


def test_select_filters_samples_and_variants(cohort):
    (cohort / "variants").write_text("".join(f"rs{j}\n" for j in range(20)))
    (cohort / "few").write_text("rs3\n")
    (cohort / "samples").write_text("".join(f"{name}\n" for name in fids_and_iids(cohort)[:150]))
    given = ["--extract", "variants", "--exclude", "few", "--keep", "samples", "--min-frequency", "0.01"]
    given += ["--max-missing", "0.9", "--phenotypes", "ph.txt", "--target", "T", "--method", "online_substitution"]
    selected("cohort.bed", *given, "--output", "run", "--test", "0")
    source = read_yaml(cohort / "run" / "pipeline.yaml")["source"]
    assert (source["min_frequency"], source["max_missing"]) == (0.01, 0.9)
    names = {*pd.read_csv("run/selected.csv")["name"]}
    assert len(names) == 5
    assert names <= {f"rs{j}" for j in range(20) if j != 3}
    assert "keep: 150 of 200 samples are left" in (cohort / "run" / "report.html").read_text()


def fids_and_iids(cohort):
    return [" ".join(line.split()[:2]) for line in (cohort / "cohort.fam").read_text().splitlines()]


def test_options_of_genotypes_are_refused_for_tables_and_methods_that_cannot_include_covariates(cohort):
    (cohort / "t.csv").write_text("a,y\n1,2\n")
    for arguments, words in (
        (["t.csv", "--phenotypes", "ph.txt"], "--phenotypes"),
        (["t.csv", "--min-frequency", "0.1"], "--min-frequency"),
        (
            ["cohort.bed", "--phenotypes", "ph.txt", "--target", "T", "--covariates", "age", "--method", "bolasso"],
            "always",
        ),
        (["cohort.bed", "--phenotypes", "ph.txt", "--target", "T", "--dtype", "int8"], "--dtype"),
    ):
        said = CliRunner().invoke(app, ["select", *arguments])
        assert said.exit_code == 2
        assert words in said.output


def test_the_plan_the_notes_and_the_report_show_filters(cohort):
    init("cohort.bed", "--phenotypes", "ph.txt", "--target", "T")
    (cohort / "variants").write_text("".join(f"rs{j}\n" for j in range(20)))
    given = ["--set", "source.extract=variants", "--set", "source.min_frequency=0.2"]
    given += ["--set", "select.n_features_to_select=3", "--set", "output=run"]
    planned = CliRunner().invoke(app, ["plan", "cohort.yaml", *given]).output
    assert "extract: 20 of 30 variants are left (variants)" in planned
    assert "min_frequency 0.2" in planned
    said = CliRunner().invoke(app, ["run", "cohort.yaml", *given, "--quiet"])
    assert said.exit_code == 0, said.output
    report = (cohort / "run" / "report.html").read_text()
    assert "extract: 20 of 30 variants are left (variants)" in report
    assert "variants pass min_frequency 0.2, counted over the 200 samples that are used" in report


def test_families_stay_together_in_a_selection_without_a_pipeline_file(cohort):
    renamed(cohort, [f"f{i // 4}" if i < 80 else "0" for i in range(200)])
    selected(
        "cohort.bed", "--phenotypes", "ph.txt", "--target", "T", "--method", "online_substitution", "--output", "run"
    )
    assert read_yaml(cohort / "run" / "pipeline.yaml")["split"]["groups"] == "fid"
