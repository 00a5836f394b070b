"""PLINK 2's .pgen, .pvar and .psam, as plink2 writes them: calls, dosages, alleles, phenotypes, sex, faults."""

import pickle
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import daskfs
from daskfs.cli import app
from daskfs.errors import ConfigError, SourceError
from daskfs.sources.pgen import PgenSource, has_dosages
from daskfs.sources.plink import PlinkSource
from daskfs.sources.registry import kind_of
from tests import tolerances
from tests.genotype_files import write_phenotypes, write_plink
from tests.refusals import refused

pytest.importorskip("pgenlib", reason="pgenlib is not installed: pip install daskfs[genetics]")
pytestmark = pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not installed")

N, P, MISSING = 203, 50, -1


def plink2(folder, *arguments):
    subprocess.run(["plink2", *arguments], cwd=folder, check=True, capture_output=True)


def random_dosages(missing_ratio=0.03):
    rng = np.random.default_rng(0)
    dosages = rng.binomial(2, rng.uniform(0.02, 0.5, P), (N, P))
    dosages[rng.random(dosages.shape) < missing_ratio] = MISSING
    return dosages


def write_vcf(path, dosages, alternate="A"):
    """Write a VCF with phased calls and dosages of samples s0, s1, ..."""
    head = [
        "##fileformat=VCFv4.2",
        "##contig=<ID=1>",
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="">',
        '##FORMAT=<ID=DS,Number=1,Type=Float,Description="">',
        "\t".join(
            ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT"]
            + [f"s{i}" for i in range(len(dosages))]
        ),
    ]
    for j, column in enumerate(dosages.T):
        calls = [f"{('0|0', '0|1', '1|1')[round(d)]}:{d:.4f}" for d in column]
        head.append("\t".join(["1", str(j + 1), f"rs{j}", "G", alternate, ".", ".", ".", "GT:DS", *calls]))
    path.write_text("\n".join(head) + "\n")


def blocks(source, block_rows=17):
    return np.concatenate([block.X for block in source.row_blocks(block_rows)])


@pytest.mark.parametrize("compressed", [False, True])
def test_calls_are_those_of_the_bed_file(tmp_path, compressed):
    dosages = random_dosages()
    write_plink(tmp_path / "set.bed", dosages)
    plink2(tmp_path, "--bfile", "set", "--make-pgen", *(["vzs"] if compressed else []), "--out", "set")
    assert kind_of(tmp_path / "set.pgen") == "pgen"
    assert not has_dosages(tmp_path / "set.pgen")
    y = np.arange(N)
    for options, theirs in (({}, {}), ({"allele": "ref"}, {"allele": "a2"}), ({"min_frequency": 0.1},) * 2):
        bed = PlinkSource(tmp_path / "set.bed", y, missing=7, **theirs)
        source = PgenSource(tmp_path / "set.pgen", y, missing=7, **options)
        X = blocks(bed)
        assert X.dtype == np.int8
        np.testing.assert_array_equal(blocks(source), X)
        matrix = pickle.loads(pickle.dumps(source.as_matrix()))
        np.testing.assert_array_equal(matrix.read(slice(3, 90), slice(2, 9)), X[3:90, 2:9])
        assert source.feature_names == bed.feature_names
        for name, values in bed.annotations.items():
            np.testing.assert_array_equal(source.annotations[name], values)


def test_the_same_variants_are_selected_as_from_the_bed_file(tmp_path):
    dosages = random_dosages()
    write_plink(tmp_path / "set.bed", dosages)
    plink2(tmp_path, "--bfile", "set", "--make-pgen", "--out", "set")
    y = dosages[:, 3] - dosages[:, 20] + 0.3 * np.random.default_rng(1).standard_normal(N)
    table = write_phenotypes(tmp_path / "ph.txt", {"T": y})
    fits = [
        daskfs.OnlineSubstitution(4).fit(kind(path, phenotypes=table, missing="mean").as_matrix())
        for kind, path in ((PlinkSource, tmp_path / "set.bed"), (PgenSource, tmp_path / "set.pgen"))
    ]
    np.testing.assert_array_equal(fits[0].selected_, fits[1].selected_)
    tolerances.assert_close(fits[0].coef_, fits[1].coef_)


@pytest.mark.slow
def test_a_run_is_applied_to_the_same_samples_in_other_formats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dosages = random_dosages()
    write_plink(tmp_path / "set.bed", dosages)
    plink2(tmp_path, "--bfile", "set", "--make-pgen", "--out", "set")
    plink2(tmp_path, "--bfile", "set", "--export", "bgen-1.2", "bits=8", "--out", "set")
    write_phenotypes(tmp_path / "ph.txt", {"T": dosages[:, 3] - dosages[:, 20] + 0.01 * np.arange(N)})
    given = ["--phenotypes", "ph.txt", "--target", "T", "--method", "online_substitution", "--n-features", "3"]
    commands = [["select", "set.bed", *given, "--output", "run", "--quiet"]]
    kinds = ("bed", "pgen", "bgen")
    commands += [["apply", "run", f"set.{kind}", "--output", f"{kind}.csv"] for kind in kinds]
    for command in commands:
        said = CliRunner().invoke(app, command)
        assert said.exit_code == 0, said.output
    frames = [pd.read_csv(f"{kind}.csv") for kind in kinds]
    for frame in frames[1:]:
        np.testing.assert_array_equal(frame["iid"], frames[0]["iid"])
        tolerances.assert_close(
            frame["prediction"].to_numpy(), frames[0]["prediction"].to_numpy(), 1e-6
        )  # means are float32


def test_dosages_are_read_if_there_are_any(tmp_path):
    rng = np.random.default_rng(0)
    dosages = np.clip(rng.binomial(2, 0.3, (40, 9)) + rng.normal(0, 0.2, (40, 9)), 0, 2)
    write_vcf(tmp_path / "set.vcf", dosages)
    plink2(tmp_path, "--vcf", "set.vcf", "dosage=DS", "--make-pgen", "--out", "set")
    plink2(tmp_path, "--vcf", "set.vcf", "--make-pgen", "--out", "phased")
    assert has_dosages(tmp_path / "set.pgen")
    assert not has_dosages(tmp_path / "phased.pgen")
    y = np.arange(40)
    source = PgenSource(tmp_path / "set.pgen", y)
    within = 1e-4  # of the file: four decimals, and steps of 1/16384
    np.testing.assert_allclose(blocks(source), dosages, atol=within)
    np.testing.assert_allclose(blocks(PgenSource(tmp_path / "set.pgen", y, allele="ref")), 2 - dosages, atol=within)
    np.testing.assert_allclose(source.annotations["allele_frequency"], dosages.mean(axis=0) / 2, atol=within)
    matrix = source.as_matrix()
    assert matrix.dtype == np.float32
    np.testing.assert_allclose(matrix.read(slice(5, 30), np.array([7, 2])), dosages[5:30, [7, 2]], atol=within)
    X, v = matrix.read(slice(None)).astype(np.float64), rng.standard_normal((2, 40))
    np.testing.assert_allclose(matrix.column_products(slice(2, 8), v), v @ X[:, 2:8], atol=1e-10)
    np.testing.assert_allclose(matrix.column_moments(slice(2, 8), np.ones(40)).std, X[:, 2:8].std(axis=0), atol=1e-10)
    np.testing.assert_array_equal(blocks(PgenSource(tmp_path / "phased.pgen", y)), np.rint(dosages))


def test_alternate_alleles_are_counted_together(tmp_path):
    dosages = np.random.default_rng(0).integers(0, 3, (20, 3))
    write_vcf(tmp_path / "set.vcf", dosages, "A,C")
    text = (tmp_path / "set.vcf").read_text().replace("1|1:", "1|2:")
    (tmp_path / "set.vcf").write_text(text)
    plink2(tmp_path, "--vcf", "set.vcf", "--make-pgen", "--out", "set")
    np.testing.assert_array_equal(blocks(PgenSource(tmp_path / "set.pgen", np.arange(20))), dosages)


def test_phenotype_and_sex_are_those_of_psam(tmp_path):
    dosages = random_dosages(0)
    write_plink(tmp_path / "set.bed", dosages)
    lines = [f"f s{i} 0 0 {i % 3} {i % 2 + 1 if i else -9}\n" for i in range(N)]
    (tmp_path / "set.fam").write_text("".join(lines))
    plink2(tmp_path, "--bfile", "set", "--make-pgen", "--out", "set")
    for kind, path in ((PgenSource, "set.pgen"), (PlinkSource, "set.bed")):
        source = kind(tmp_path / path, covariate_names=["sex"])
        (block,) = source.row_blocks(1000)
        used = [i for i in range(1, N) if i % 3]
        assert source.feature_names[0] == "sex"
        np.testing.assert_array_equal(block.X[:, 0], [i % 3 for i in used])
        np.testing.assert_array_equal(block.y, [i % 2 for i in used])
        assert source.target_classes == ["control", "case"]
    with refused(SourceError, "genotypes", at="set.psam", naming=["PHENO1"]):
        PgenSource(tmp_path / "set.pgen", target="PHENO2")


@pytest.mark.parametrize("fault", ["no pvar", "other pvar", "no header", "damaged", "no pgen"])
def test_files_that_do_not_belong_together_are_refused(tmp_path, fault):
    write_plink(tmp_path / "set.bed", random_dosages())
    plink2(tmp_path, "--bfile", "set", "--make-pgen", "--out", "set")
    pgen, pvar = tmp_path / "set.pgen", tmp_path / "set.pvar"
    if fault == "no pvar":
        pvar.unlink()
    elif fault == "other pvar":
        pvar.write_text("".join(pvar.read_text().splitlines(keepends=True)[:-1]))
    elif fault == "no header":
        pvar.write_text("".join(pvar.read_text().splitlines(keepends=True)[1:]))
    elif fault == "damaged":
        pgen.write_bytes(pgen.read_bytes()[:60])
    else:
        pgen.write_bytes(b"abc")
    with refused(SourceError, "genotypes", at="set.p"):
        blocks(PgenSource(pgen, np.arange(N), missing="mean"))
    with refused(ConfigError, "genotypes", at="source.allele", naming=["a1"]):
        PgenSource(pgen, np.arange(N), allele="a1")
