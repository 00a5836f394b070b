"""BGEN files, as plink2 writes them: dosages of 8 and 16 bits, alleles, samples, sex, faults."""

import pickle
import shutil

import numpy as np
import pytest

from daskfs.errors import SourceError
from daskfs.sources.bgen import BgenSource
from daskfs.sources.registry import kind_of
from tests.genotype_files import write_phenotypes, write_plink
from tests.refusals import refused
from tests.sources.test_pgen import MISSING, N, blocks, plink2, random_dosages, write_vcf

pytest.importorskip("bgen", reason="bgen is not installed: pip install daskfs[genetics]")
pytestmark = pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not installed")


@pytest.mark.parametrize("bits", [8, 16])
def test_dosages_are_those_that_plink_wrote(tmp_path, bits):
    rng = np.random.default_rng(0)
    dosages = np.clip(rng.binomial(2, 0.3, (40, 9)) + rng.normal(0, 0.2, (40, 9)), 0, 2)
    write_vcf(tmp_path / "set.vcf", dosages)
    export = ["--export", "bgen-1.2", f"bits={bits}", "ref-first", "--out", "set"]
    plink2(tmp_path, "--vcf", "set.vcf", "dosage=DS", *export)
    assert kind_of(tmp_path / "set.bgen") == "bgen"
    y, within = np.arange(40), 1.5 / (2**bits - 1) + 1e-4  # two probabilities are rounded, and four decimals
    source = BgenSource(tmp_path / "set.bgen", y)
    np.testing.assert_allclose(blocks(source), dosages, atol=within)
    np.testing.assert_allclose(blocks(BgenSource(tmp_path / "set.bgen", y, allele="ref")), 2 - dosages, atol=within)
    matrix = pickle.loads(pickle.dumps(source.as_matrix()))
    np.testing.assert_allclose(matrix.read(slice(5, 30), np.array([7, 2])), dosages[5:30, [7, 2]], atol=within)
    assert [*matrix.names] == [f"rs{j}" for j in range(9)]


def test_missing_dosages_filters_phenotypes_and_sex(tmp_path):
    dosages = random_dosages()
    write_plink(tmp_path / "set.bed", dosages)
    fam = "".join(f"f s{i} 0 0 {i % 2 + 1} -9\n" for i in range(N))
    (tmp_path / "set.fam").write_text(fam)
    plink2(tmp_path, "--bfile", "set", "--export", "bgen-1.2", "bits=8", "ref-first", "--out", "set")
    table = write_phenotypes(tmp_path / "ph.txt", {"T": np.arange(N, dtype=float)})
    (tmp_path / "keep").write_text("".join(f"f s{i}\n" for i in range(0, N, 2)))
    options = {"phenotypes": table, "missing": 0.5, "min_frequency": 0.1, "covariate_names": ["sex"]}
    source = BgenSource(tmp_path / "set.bgen", keep=tmp_path / "keep", **options)
    kept = np.where(dosages == MISSING, np.nan, dosages)[::2]
    frequency = np.nanmean(kept, axis=0) / 2
    variants = np.flatnonzero(np.minimum(frequency, 1 - frequency) >= 0.1)
    X = blocks(source)
    np.testing.assert_array_equal(X[:, 1:], np.nan_to_num(kept, nan=0.5)[:, variants])
    np.testing.assert_array_equal(X[:, 0], 1)
    assert source.feature_names == ["sex", *(f"rs{j}" for j in variants)]
    assert source.annotations["effect_allele"].tolist() == ["", *["A"] * len(variants)]


@pytest.mark.parametrize("fault", ["not bgen", "cut", "no header", "fewer samples", "short line"])
def test_files_that_are_not_what_they_should_be_are_refused(tmp_path, fault):
    write_plink(tmp_path / "set.bed", random_dosages())
    plink2(tmp_path, "--bfile", "set", "--export", "bgen-1.2", "bits=8", "--out", "set")
    sample = tmp_path / "set.sample"
    lines = sample.read_text().splitlines(keepends=True)
    if fault == "not bgen":
        (tmp_path / "set.bgen").write_bytes(b"no bgen file " * 20)
    elif fault == "cut":
        (tmp_path / "set.bgen").write_bytes((tmp_path / "set.bgen").read_bytes()[:-40])
    elif fault == "no header":
        sample.write_text("".join(lines[2:]))
    elif fault == "fewer samples":
        sample.write_text("".join(lines[:-1]))
    else:
        sample.write_text("".join(lines[:-1]) + "f\n")
    with refused(SourceError, "genotypes", at="set."):
        blocks(BgenSource(tmp_path / "set.bgen", np.arange(N), missing="mean"))
