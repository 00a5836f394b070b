"""What is known of columns beside their names: variants' places, alleles and frequencies, from files to reports."""

import numpy as np
import pandas as pd
import pytest

from daskfs import OnlineSubstitution
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.result import SelectionResult
from daskfs.sources.ingest import ingest
from daskfs.sources.vcf_zarr import VcfZarrSource
from tests.genotype_files import write_phenotypes, write_plink, write_vcf_zarr

KINDS = ["chromosome", "position", "effect_allele", "other_allele", "allele_frequency"]


@pytest.fixture
def cohort(tmp_path):
    """Dosages of 30 variants on each of two chromosomes, one dosage missing; a phenotype of two variants and age."""
    rng = np.random.default_rng(0)
    dosages, age = rng.integers(0, 3, (200, 60)), rng.integers(20, 90, 200).astype(float)
    y = 2.0 * dosages[:, 3] - 1.5 * dosages[:, 40] + 0.1 * age + 0.1 * rng.standard_normal(200)
    dosages[7, 40] = -1
    names = [f"rs{j}" for j in range(60)]
    write_plink(tmp_path / "chr7.bed", dosages[:, :30], names[:30], "07")
    write_plink(tmp_path / "chrX.bed", dosages[:, 30:], names[30:], "X")
    write_vcf_zarr(tmp_path / "calls.vcz", dosages)
    write_phenotypes(tmp_path / "set.pheno", {"height": y})
    write_phenotypes(tmp_path / "set.cov", {"age": age})
    return tmp_path, dosages


@pytest.mark.slow
@pytest.mark.parametrize("store", ["{path: set.zarr}", "none"])
def test_a_run_says_of_each_selected_variant_where_it_is_and_which_allele_is_counted(cohort, store):
    folder, dosages = cohort
    (folder / "set.yaml").write_text(
        "version: 1\nname: set\noutput: run\n"
        "source: {kind: plink, path: chr*.bed, phenotypes: set.pheno, covariates: set.cov, missing: mean}\n"
        f"store: {store}\nsplit: {{test: 0.2}}\nrefit: {{by: ridge}}\n"
        "select: {method: online_substitution, n_features_to_select: 3, always_include: [age]}\n"
    )
    result = run_pipeline(load_pipeline(folder / "set.yaml")).results["online_substitution"]
    known = result.table.set_index("name")[KINDS]
    assert known.loc["age"].isna().all()
    assert known.loc["rs3"].tolist()[:4] == ["07", 3, "A", "G"]
    assert known.loc["rs40"].tolist()[:4] == ["X", 10, "A", "G"]
    np.testing.assert_allclose(known.loc["rs3"].iloc[4], dosages[:, 3].mean() / 2)
    np.testing.assert_allclose(known.loc["rs40"].iloc[4], np.delete(dosages[:, 40], 7).mean() / 2)
    pd.testing.assert_frame_equal(SelectionResult.load(folder / "run").table, result.table)
    written = pd.read_csv(folder / "run" / "selected.csv", dtype=str, keep_default_na=False).set_index("name")
    assert written.loc["rs3", KINDS[:4]].tolist() == ["07", "3", "A", "G"]
    assert written.loc["age", KINDS].tolist() == [""] * 5
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert all(f">{name.replace('_', ' ')}</th>" in page for name in KINDS)
    assert ">07</td>" in page
    assert "NA&gt;" not in page


@pytest.mark.parametrize(("allele", "alleles"), [("alt", ["A", "G"]), ("ref", ["G", "A"])])
def test_of_vcf_zarr_the_counted_allele_is_the_effect_allele(cohort, allele, alleles):
    folder, dosages = cohort
    source = VcfZarrSource(folder / "calls.vcz", phenotypes=folder / "set.pheno", missing="mean", allele=allele)
    stored = ingest(source, folder / "calls.zarr")
    assert stored.verify() == []
    frequency = dosages[:, 3].mean() / 2
    for matrix in (stored, source.as_matrix()):
        result = OnlineSubstitution(3).fit(matrix.take(np.arange(190))).result_
        pd.testing.assert_frame_equal(
            SelectionResult.load(result.save(folder / "result", overwrite=True)).table, result.table
        )
        row = result.table.set_index("name").loc["rs3", KINDS].tolist()
        assert row[:4] == ["1", 3, *alleles]
        np.testing.assert_allclose(row[4], frequency if allele == "alt" else 1.0 - frequency)


def test_a_table_has_no_annotations(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((50, 4)), columns=list("abcd")).assign(y=rng.standard_normal(50))
    stored = ingest(frame, tmp_path / "table.zarr", target="y")
    assert stored.annotations(np.array([0])) == {}
    assert stored.header.annotations == {}
