"""Tables of phenotypes and covariates: by FID and IID in any order, what is missing, what is refused."""

import numpy as np
import pandas as pd
import pytest

from daskfs.errors import ConfigError, SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.phenotypes import SampleTable
from daskfs.sources.plink import PlinkSource
from daskfs.sources.vcf_zarr import VcfZarrSource
from tests.genotype_files import write_plink, write_vcf_zarr
from tests.refusals import refused

N = 6
DOSAGES = np.random.default_rng(0).integers(0, 3, (N, 4)).astype(np.int8)


@pytest.fixture
def bed(tmp_path):
    write_vcf_zarr(tmp_path / "set.vcz", DOSAGES)
    return write_plink(tmp_path / "set.bed", DOSAGES)


def read(source):
    (block,) = source.row_blocks(100)
    return block.X, block.y


def test_phenotypes_are_found_by_family_and_individual_in_any_order(bed, tmp_path):
    table = tmp_path / "t.txt"
    table.write_text("FID IID height weight\nf s3 1.5 7\nf s0 2.5 -9\ng s1 9 9\nf s5 -9 1\nf s4 NA 1\nf s1 3.5 1\n")
    source = PlinkSource(bed, phenotypes=table, target="height")
    X, y = read(source)
    np.testing.assert_array_equal(y, [2.5, 3.5, 1.5])
    np.testing.assert_array_equal(X, DOSAGES[[0, 1, 3]])
    assert source.notes == ["1 samples of t.txt have no genotypes", "3 samples without height were dropped"]
    both = PlinkSource(bed, phenotypes=table, target=["height", "weight"])
    np.testing.assert_array_equal(read(both)[1], [[3.5, 1], [1.5, 7]])
    with refused(ConfigError, "genotypes", at="source.target", naming=["phenotype"]):
        PlinkSource(bed, phenotypes=table)
    with refused(ConfigError, "genotypes", naming=["'heigth'", "did you mean", "'height'"]):
        PlinkSource(bed, phenotypes=table, target="heigth")


@pytest.mark.parametrize(
    "text",
    [
        "#FID\tIID\tbmi\nf\ts0\t1\nf\ts1\t2\nf\ts2\t4\n",
        "#IID bmi\ns0 1\ns1 2\ns2 4\n",
        "FID IID bmi\n0 s0 1\n0 s1 2\n0 s2 4\n",
    ],
)
def test_tables_of_plink_1_and_2_are_read(bed, tmp_path, text):
    (tmp_path / "t").write_text(text)
    for source in (
        PlinkSource(bed, phenotypes=tmp_path / "t"),
        VcfZarrSource(tmp_path / "set.vcz", phenotypes=tmp_path / "t"),
    ):
        X, y = read(source)
        np.testing.assert_array_equal(y, [1, 2, 4])
        np.testing.assert_array_equal(X, DOSAGES[:3])
        assert source.target_names == ["bmi"]


def test_one_and_two_are_controls_and_cases_and_nought_is_missing(bed, tmp_path):
    (tmp_path / "t.csv").write_text("IID,ill\n" + "".join(f"s{i},{ill}\n" for i, ill in enumerate([1, 2, 0, -9, 2, 1])))
    source = PlinkSource(bed, phenotypes=tmp_path / "t.csv")
    np.testing.assert_array_equal(read(source)[1], [0, 1, 1, 0])
    assert source.target_classes == ["control", "case"]


def test_covariates_are_the_first_features(bed, tmp_path):
    (tmp_path / "p").write_text("IID y\n" + "".join(f"s{i} {i}.5\n" for i in range(N)))
    lines = ["s5 50 b", "s0 20 a", "s1 30.5 c", "s2 NA a", "s4 45 a"]
    (tmp_path / "c").write_text("IID age site\n" + "\n".join(lines) + "\n")
    source = PlinkSource(bed, phenotypes=tmp_path / "p", covariates=tmp_path / "c")
    assert source.feature_names == ["age", "site=b", "site=c", "rs0", "rs1", "rs2", "rs3"]
    X, y = read(source)
    np.testing.assert_array_equal(X[:, :3], [[20, 0, 0], [30.5, 0, 1], [45, 0, 0], [50, 1, 0]])
    np.testing.assert_array_equal(X[:, 3:], DOSAGES[[0, 1, 4, 5]])
    np.testing.assert_array_equal(y, [0.5, 1.5, 4.5, 5.5])
    assert source.notes == ["2 samples without y and covariates were dropped"]
    matrix = source.as_matrix()
    np.testing.assert_array_equal(matrix.read(slice(None)), X)
    np.testing.assert_array_equal(matrix.read(slice(1, 3), slice(1, 5)), X[1:3, 1:5])
    np.testing.assert_array_equal(ingest(source, tmp_path / "s", shuffle=False).read(slice(None)), X)
    assert source.encoding != PlinkSource(bed, phenotypes=tmp_path / "p").encoding


FAULTS = {
    "no IID": ("id y\ns0 1\n", "expected a column IID and others, without duplicates, found id, y"),
    "nothing but ids": ("FID IID\nf s0\n", "expected a column IID and others"),
    "twice": ("IID y\ns0 1\ns0 2\n", "line 3: sample 's0' occurs twice"),
    "others": ("IID y\ns9 1\n", "expected the samples of the genotypes.*'s9' is one"),
    "word": ("IID y\ns0 tall\ns1 2\n", "sample 1: expected numbers as y, found 'tall'"),
    "infinite": ("IID y\ns0 inf\ns1 2\n", "expected numbers as y, found 'inf'"),
    "more words than names": ("IID y\ns0 1 2\n", "expected as many names as values"),
    "empty": ("", "expected a text table"),
    "same name": ("IID IID y\ns0 s0 1\n", "IID"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_tables_that_are_not_what_they_should_be_are_refused(bed, tmp_path, fault):
    text, words = FAULTS[fault]
    (tmp_path / "t").write_text(text)
    with pytest.raises((SourceError, ConfigError), match=words):
        PlinkSource(bed, phenotypes=tmp_path / "t")


def test_a_table_that_is_not_there_and_targets_twice_are_refused(bed, tmp_path):
    with refused(SourceError, "genotypes", naming=["file"]):
        SampleTable(tmp_path / "t")
    (tmp_path / "t").write_text("IID y\ns0 1\n")
    with refused(ConfigError, "genotypes", at="source.y", naming=["both"]):
        PlinkSource(bed, y=np.arange(N), phenotypes=tmp_path / "t")
    with refused(ConfigError, "genotypes", at="source", naming=["targets"]):
        VcfZarrSource(tmp_path / "set.vcz")


def test_individuals_of_two_families_need_these(tmp_path):
    (tmp_path / "t").write_text("FID IID y\na s0 1\nb s0 2\n")
    of = SampleTable(tmp_path / "t").of
    assert of(pd.DataFrame({"fid": ["b"], "iid": ["s0"]}))[0]["y"].tolist() == ["2"]
    with refused(SourceError, "genotypes", naming=["families"]):
        of(pd.DataFrame({"iid": ["s0"]}))


@pytest.mark.parametrize("is_own_table", [False, True])
def test_covariates_are_columns_that_are_named_and_ranges_of_them(bed, tmp_path, is_own_table):
    names = "IID height PC1 PC2 PC3 x-y age PC3-x y"
    lines = [names, *(f"s{i} {i} 1{i} 2{i} 3{i} {i % 2} {50 + i} 0 0" for i in range(N))]
    table = tmp_path / "t.txt"
    table.write_text("\n".join(lines) + "\n")
    place = {"covariates": table} if is_own_table else {}
    for genotypes in (PlinkSource, VcfZarrSource):
        path = bed if genotypes is PlinkSource else tmp_path / "set.vcz"
        options = {"phenotypes": table, "target": "height", **place}
        source = genotypes(path, **options, covariate_names=["age", "PC2-PC3", "x-y"])
        assert source.feature_names == ["age", "PC2", "PC3", "x-y", "rs0", "rs1", "rs2", "rs3"]
        np.testing.assert_array_equal(read(source)[0][1, :5], [51, 21, 31, 1, DOSAGES[1, 0]])
        assert genotypes(path, **options, covariate_names="age").feature_names[:2] == ["age", "rs0"]
        of_two_ranges = genotypes(path, **options, covariate_names="PC3-x-y")
        assert of_two_ranges.feature_names[:3] == ["PC3", "x-y", "rs0"], "the range with the shortest first name"
        for wrong in ("PC3-PC1", "PC1-PC9", "agee"):
            with refused(ConfigError, "genotypes", at="t.txt", naming=[repr(wrong)]):
                genotypes(path, **options, covariate_names=[wrong])
        with refused(ConfigError, "genotypes", at="source.covariate_names", naming=["height"]):
            genotypes(path, **options, covariate_names=["height-PC2"])
    with refused(ConfigError, "genotypes", at="source.covariate_names", naming=["phenotypes"]):
        PlinkSource(bed, y=np.arange(N), covariate_names=["age"])


def test_a_sex_of_nought_is_missing_where_others_are_one_and_two(bed, tmp_path):
    for sexes, used in (("1 2 0 -9 2 1", [0, 1, 4, 5]), ("1 0 0 1 0 1", [0, 1, 2, 3, 4, 5])):
        lines = [f"s{i} {i} {sex}" for i, sex in enumerate(sexes.split())]
        (tmp_path / "p").write_text("IID y sex\n" + "\n".join(lines) + "\n")
        X, y = read(PlinkSource(bed, phenotypes=tmp_path / "p", target="y", covariate_names="sex"))
        np.testing.assert_array_equal(y, used)
        np.testing.assert_array_equal(X[:, 0], [int(sexes.split()[i]) for i in used])
