"""PLINK's .bed, .bim and .fam: dosages as bed-reader reads them, missing ones by option, targets, names, faults."""

import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.cluster.open import open_cluster
from daskfs.errors import ConfigError, DaskfsError, DataError, SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.plink import PlinkSource
from daskfs.sources.registry import as_source, kind_of, make_source
from tests.genotype_files import bed_of
from tests.refusals import refused

MISSING = 9


def write_set(folder, dosages, name="set", phenotypes=None, ids=None):
    """Write dosages of a1 (samples x variants, 9: missing), and return the .bed file's path."""
    n_samples, n_variants = dosages.shape
    phenotypes = [3 + 0.5 * i for i in range(n_samples)] if phenotypes is None else phenotypes
    ids = [f"rs{j}" for j in range(n_variants)] if ids is None else ids
    (folder / f"{name}.bed").write_bytes(bed_of(dosages))
    (folder / f"{name}.bim").write_text("".join(f"1\t{ids[j]}\t0\t{100 + j}\tA\tG\n" for j in range(n_variants)))
    (folder / f"{name}.fam").write_text("".join(f"f{i} s{i} 0 0 1 {phenotypes[i]}\n" for i in range(n_samples)))
    return folder / f"{name}.bed"


def random_dosages(n_samples, n_variants, missing_ratio=0.0, seed=0):
    rng = np.random.default_rng(seed)
    dosages = rng.integers(0, 3, (n_samples, n_variants))
    dosages[rng.random(dosages.shape) < missing_ratio] = MISSING
    return dosages


def read(source, block_rows=10**6, dtype=np.float64):
    blocks = list(source.row_blocks(block_rows, dtype))
    stops = np.cumsum([len(block.X) for block in blocks])
    assert [block.start for block in blocks] == [0, *stops[:-1]]
    assert all(len(block.X) <= block_rows for block in blocks)
    return np.concatenate([block.X for block in blocks]), np.concatenate([block.y for block in blocks])


@pytest.mark.parametrize("shape", [(1, 1), (4, 3), (5, 70), (83, 130), (17_001, 2)])
@pytest.mark.parametrize("block_rows", [1, 3, 10**6])
def test_dosages_of_either_allele_come_back(tmp_path, shape, block_rows):
    if shape[0] > 1000 and block_rows < 10**6:
        block_rows *= 1000
    dosages = random_dosages(*shape)
    path = write_set(tmp_path, dosages)
    X, y = read(PlinkSource(path), block_rows)
    assert X.dtype == np.int8
    np.testing.assert_array_equal(X, dosages)
    np.testing.assert_array_equal(y, 3 + 0.5 * np.arange(shape[0]))
    np.testing.assert_array_equal(read(PlinkSource(path, allele="a2"), block_rows)[0], 2 - dosages)


@given(st.integers(1, 40), st.integers(1, 9), st.floats(0, 0.5), st.integers(1, 50), st.integers(0, 2**32))
def test_bed_reader_reads_the_same(tmp_path, n_samples, n_variants, missing_ratio, block_rows, seed):
    bed_reader = pytest.importorskip("bed_reader")
    path = write_set(tmp_path, random_dosages(n_samples, n_variants, missing_ratio, seed))
    for allele in ("a1", "a2"):
        with bed_reader.open_bed(path, count_A1=allele == "a1") as bed:
            expected = bed.read(dtype="int8")
        expected[expected == -127] = 7
        X, _ = read(PlinkSource(path, missing=7, allele=allele), block_rows)
        np.testing.assert_array_equal(X, expected)


def test_bed_reader_s_own_files_are_read(tmp_path):
    bed_reader = pytest.importorskip("bed_reader")
    dosages = random_dosages(21, 6, 0.2)
    values = np.where(dosages == MISSING, -127, dosages).astype(np.int8)
    properties = {"fid": [f"f{i}" for i in range(21)], "pheno": [str(i) for i in range(21)]}
    bed_reader.to_bed(tmp_path / "theirs.bed", values, properties=properties)
    X, y = read(PlinkSource(tmp_path / "theirs", missing=MISSING))
    np.testing.assert_array_equal(X, dosages)
    np.testing.assert_array_equal(y, np.arange(21))


def test_missing_dosages_become_what_was_asked_for(tmp_path):
    dosages = random_dosages(41, 12, 0.05, seed=3)
    path, lacks = write_set(tmp_path, dosages), dosages == MISSING
    zero, _ = read(PlinkSource(path, missing="zero"))
    np.testing.assert_array_equal(zero, np.where(lacks, 0, dosages))
    assert zero.dtype == np.int8
    half, _ = read(PlinkSource(path, missing=0.5), dtype=np.float32)
    np.testing.assert_array_equal(half, np.where(lacks, 0.5, dosages))
    assert half.dtype == np.float32
    means = np.ma.masked_array(dosages, lacks).mean(axis=0).filled()
    source = PlinkSource(path, missing="mean")
    np.testing.assert_allclose(read(source, 7)[0], np.where(lacks, means, dosages), rtol=1e-15)
    assert f"{lacks.sum()} missing dosages" in source.notes[-1]
    dropped = PlinkSource(path, missing="drop")
    assert dropped.n_samples is None
    X, y = read(dropped, 3)
    kept = ~lacks.any(axis=1)
    assert 0 < kept.sum() < 41
    assert dropped.n_samples == kept.sum()
    np.testing.assert_array_equal(X, dosages[kept])
    np.testing.assert_array_equal(y, 3 + 0.5 * np.flatnonzero(kept))
    assert X.dtype == np.int8
    j = int(np.argmax(lacks.any(axis=0)))
    with refused(DataError, "genotypes", at=f"set.bed, variant 'rs{j}'", naming=["missing"]):
        read(PlinkSource(path))


def test_a_variant_without_any_dosage_has_no_mean(tmp_path):
    dosages = random_dosages(6, 3)
    dosages[:, 1] = MISSING
    path = write_set(tmp_path, dosages)
    with refused(DataError, "genotypes", at="variant 'rs1'", naming=["variant"]):
        read(PlinkSource(path, missing="mean"))
    with refused(DataError, "genotypes", naming=["6"]):
        read(PlinkSource(path, missing="drop"))


def test_samples_without_a_phenotype_are_left_out(tmp_path):
    dosages = random_dosages(6, 5)
    source = PlinkSource(write_set(tmp_path, dosages, phenotypes=["1.5", "-9", "0", "NA", "-9.0", "2"]))
    X, y = read(source, 2)
    np.testing.assert_array_equal(X, dosages[[0, 2, 5]])
    np.testing.assert_array_equal(y, [1.5, 0, 2])
    assert source.notes == ["3 samples without phenotype were dropped"]
    assert source.target_names == ["phenotype"]


def test_ones_and_twos_are_controls_and_cases(tmp_path):
    dosages = random_dosages(6, 5)
    source = PlinkSource(write_set(tmp_path, dosages, phenotypes=[1, 2, 0, -9, 2, 1]))
    X, y = read(source)
    np.testing.assert_array_equal(X, dosages[[0, 1, 4, 5]])
    np.testing.assert_array_equal(y, [0, 1, 1, 0])
    assert source.target_classes == ["control", "case"]
    assert source.estimate_target().n_classes == 2


@pytest.mark.parametrize("phenotype", [0, -9, "NA"])
def test_targets_may_come_from_elsewhere(tmp_path, phenotype):
    dosages = random_dosages(6, 5)
    path = write_set(tmp_path, dosages, phenotypes=[phenotype] * 6)
    with refused(SourceError, "genotypes", at="set.fam", naming=["phenotype"]):
        PlinkSource(path)
    y = np.array([3.0, np.nan, 1, 4, 1, 5])
    np.save(tmp_path / "y.npy", y)
    for given_y in (y, tmp_path / "y.npy"):
        source = as_source(path, y=given_y, target="height")
        X, told = read(source)
        np.testing.assert_array_equal(X, dosages[[0, 2, 3, 4, 5]])
        np.testing.assert_array_equal(told, y[[0, 2, 3, 4, 5]])
        assert source.target_names == ["height"]
    texts = PlinkSource(path, y=list("abbaab"))
    assert texts.target_classes == ["a", "b"]
    with refused(DataError, "values", naming=["6"]):
        PlinkSource(path, y=[1, 2])


def test_variants_are_called_as_bim_calls_them(tmp_path):
    source = PlinkSource(write_set(tmp_path, random_dosages(4, 5), ids=["rs1", ".", "rs2", "rs2", "."]))
    assert source.feature_names == ["rs1", "1:101:A:G", "rs2@1:102:A:G", "rs2@1:103:A:G", "1:104:A:G"]


def test_names_that_stand_twice_after_all_are_numbered(tmp_path):
    write_set(tmp_path, random_dosages(4, 2), "chr1", ids=["rs1", "rs2"])
    write_set(tmp_path, random_dosages(4, 3), "chr2", ids=["rs2", "rs3", "rs3"])
    bim = (tmp_path / "chr2.bim").read_text().replace("102", "101")
    (tmp_path / "chr2.bim").write_text(bim)
    source = PlinkSource([tmp_path / "chr1.bed", tmp_path / "chr2.bed"])
    assert source.feature_names == ["rs1", "rs2", "rs2#2", "rs3@1:101:A:G", "rs3@1:101:A:G#2"]
    assert list(pickle.loads(pickle.dumps(source.as_matrix())).names) == source.feature_names


def test_variants_of_one_copy_are_said(tmp_path):
    path = write_set(tmp_path, random_dosages(4, 5))
    bim = (tmp_path / "set.bim").read_text().splitlines()
    bim[1], bim[4] = "X" + bim[1][1:], "chr26" + bim[4][1:]
    (tmp_path / "set.bim").write_text("\n".join(bim))
    assert PlinkSource(path).notes == ["2 variants on X, Y or MT: one copy counts as two, as in PLINK"]


def test_patterns_list_chromosomes_in_natural_order(tmp_path):
    names = ["1", "2", "10", "X", "MT"]
    for k, name in enumerate(names):
        write_set(tmp_path, random_dosages(6, 2, seed=k), f"chr{name}", ids=[f"{name}a", f"{name}b"])
    expected = [f"{name}{letter}" for name in names for letter in "ab"]
    for pattern in ("chr*.bed", "chr{1..2,10,X,MT}.bed", "chr{1..2,10,X,MT}"):
        assert PlinkSource(str(tmp_path / pattern)).feature_names == expected
    with refused(SourceError, "formats", at="chr3.bed"):
        PlinkSource(str(tmp_path / "chr{1..3}.bed"))
    (tmp_path / "a{1,2}.bed").write_bytes((tmp_path / "chr1.bed").read_bytes())
    for ending in (".bim", ".fam"):
        (tmp_path / f"a{{1,2}}{ending}").write_bytes((tmp_path / f"chr1{ending}").read_bytes())
    assert PlinkSource(str(tmp_path / "a{1,2}.bed")).feature_names == ["1a", "1b"]


def test_chromosomes_stand_side_by_side(tmp_path):
    first, second = random_dosages(30, 5, seed=1), random_dosages(30, 70, seed=2)
    write_set(tmp_path, first, "chr1")
    write_set(tmp_path, second, "chr2", ids=[f"ss{j}" for j in range(70)])
    source = PlinkSource(str(tmp_path / "chr*.bed"))
    np.testing.assert_array_equal(read(source, 7)[0], np.hstack([first, second]))
    assert source.feature_names[4:6] == ["rs4", "ss0"]
    write_set(tmp_path, second[::-1][:29], "chr3")
    with refused(SourceError, "genotypes", at="chr3.fam", naming=["chr1.fam"]):
        PlinkSource(str(tmp_path / "chr*.bed"))


def test_labels_and_identity(tmp_path):
    path = write_set(tmp_path, random_dosages(6, 5), phenotypes=[1, 2, 1, "NA", 3, 4])
    source = PlinkSource(path)
    (block,) = source.row_blocks(10)
    assert block.labels["iid"].tolist() == ["s0", "s1", "s2", "s4", "s5"]
    assert block.labels["fid"].tolist() == ["f0", "f1", "f2", "f4", "f5"]
    assert source.is_unchanged(source.describe(), source.digest())
    assert PlinkSource(path, y=np.arange(6)).digest() != PlinkSource(path, y=np.arange(6)[::-1]).digest()
    assert PlinkSource(path, allele="a2").encoding != source.encoding


def test_parts_are_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.sources.genotypes.part_nbytes", lambda _: 100)
    dosages = random_dosages(103, 30, 0.01)
    source = PlinkSource(write_set(tmp_path, dosages), missing="drop")
    whole, _ = read(source, 9)
    parts = source.parts()
    assert len(parts) > 3
    blocks = [block for part in parts for block in source.part_blocks(part, 9, np.float32)]
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), whole)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_a_store_is_made_and_known_again(tmp_path, dtype):
    dosages = random_dosages(50, 9, 0.02)
    path = write_set(tmp_path, dosages)
    store = ingest(path, tmp_path / "store.zarr", missing="zero", dtype=dtype, shuffle=False)
    np.testing.assert_array_equal(store.read(slice(None), slice(None)), np.where(dosages == MISSING, 0, dosages))
    assert store.dtype == dtype
    again = ingest(path, tmp_path / "store.zarr", missing="zero", dtype=dtype, shuffle=False)
    assert again.identity == store.identity


@pytest.mark.parametrize("missing", ["mean", "drop"])
def test_workers_make_the_same_store(tmp_path, monkeypatch, missing):
    monkeypatch.setattr("daskfs.sources.genotypes.part_nbytes", lambda _: 100)
    path = write_set(tmp_path, random_dosages(103, 30, 0.02))
    alone = ingest(path, tmp_path / "alone", missing=missing)
    with open_cluster("threads", 1) as workers:
        together = ingest(path, tmp_path / "together", missing=missing, client=workers.client)
    assert together.identity == alone.identity
    assert together.notes == alone.notes


def test_no_more_is_held_than_bands(tmp_path, monkeypatch):
    path = write_set(tmp_path, random_dosages(400, 8))
    source, widths = PlinkSource(path), []
    monkeypatch.setattr(
        "daskfs.sources.plink_files.Fileset.read",
        lambda self, first, last, start, stop, read=source._sets[0].read: (
            ((first, last) == (0, 8) and stop - start < self.stride and widths.append(stop - start))
            or read(first, last, start, stop)
        ),
    )
    read(source, 5, np.float32)
    assert max(widths) <= 5 * np.dtype(np.float32).itemsize + 1
    assert len(widths) == 5  # of 80 blocks: a band serves sixteen


FAULTS = {
    "sample-major": (".bed", lambda data: data[:2] + b"\0" + data[3:], "found sample-major order; write it"),
    "intervals": (".bed", lambda data: b"chr1\t10\t20\n", r"begins with 6c 1b 01, found 63 68 72"),
    "cut": (".bed", lambda data: data[:-1], r"expected 13 bytes for 6 samples x 5 variants, found 12"),
    "longer": (".bed", lambda data: data + b"\0", r"expected 13 bytes for 6 samples x 5 variants, found 14"),
    "one line less": (".fam", lambda data: data[: data.rindex(b"f5")] + b"", None),
    "few words": (".bim", lambda data: data.replace(b"rs3\t", b""), r"set\.bim, line 4: expected 6 words.*found 5"),
    "many words": (".fam", lambda data: data.replace(b"s3", b"s 3"), r"Expected 6 fields in line 4, saw 7"),
    "csv": (".fam", lambda data: data.replace(b" ", b","), r"set\.fam, line 1: expected 6 words in a line, found 1"),
    "no text": (".bim", lambda data: b"\xff\xfe" + data, r"expected text in UTF-8"),
    "word as phenotype": (
        ".fam",
        lambda data: data.replace(b" 3.5\n", b" tall\n"),
        "expected numbers as phenotype, found 'tall'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_files_that_are_not_what_they_should_be_are_refused(tmp_path, fault):
    path = write_set(tmp_path, random_dosages(6, 5))
    ending, damage, words = FAULTS[fault]
    file = path.with_suffix(ending)
    file.write_bytes(damage(file.read_bytes()))
    if words is None:  # five samples need as many bytes as six
        assert PlinkSource(path).n_samples == 5
        return
    with pytest.raises(SourceError, match=words):
        PlinkSource(path)


def test_a_file_of_the_three_that_is_missing_is_named(tmp_path):
    path = write_set(tmp_path, random_dosages(6, 5))
    path.with_suffix(".bim").unlink()
    with refused(SourceError, "genotypes", at="set.bim", naming=["file"]):
        PlinkSource(path)


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path):
    path = write_set(tmp_path, random_dosages(60, 5))
    source = PlinkSource(path)
    blocks = source.row_blocks(1, np.float32)
    next(blocks)
    os.truncate(path, 40)
    with refused(SourceError, "formats", naming=["changed"]):
        list(blocks)


def test_options_are_checked(tmp_path):
    path = write_set(tmp_path, random_dosages(6, 5))
    assert kind_of(str(path)) == "plink"
    assert isinstance(make_source("plink", path=tmp_path / "set", missing="mean"), PlinkSource)
    for options in ({"missing": "median"}, {"missing": np.nan}, {"allele": "A"}):
        with refused(ConfigError, "genotypes"):
            PlinkSource(path, **options)
    with refused(ConfigError, "formats", at="ingest", naming=["arrays"]):
        as_source(path, names=list("abcde"))


@given(st.sampled_from([".bed", ".bim", ".fam"]), st.binary(max_size=60), st.integers(0, 60))
def test_damaged_files_are_read_or_refused(tmp_path, ending, junk, place):
    path = write_set(tmp_path, random_dosages(6, 5))
    file = path.with_suffix(ending)
    data = file.read_bytes()
    file.write_bytes(data[:place] + junk + data[place + len(junk) :])
    try:
        X, _ = read(PlinkSource(path, missing="zero"))
    except DaskfsError:
        return
    assert set(np.unique(X).tolist()) <= {0, 1, 2}


DATA = os.environ.get("DASKFS_DATA")


@pytest.mark.skipif(DATA is None, reason="DASKFS_DATA names the folder of the real data sets")
def test_genotypes_of_mice_pass_through_bed(tmp_path):
    with np.load(io.BytesIO((Path(DATA) / "geno_mice_bglr" / "geno_mice_bglr.npz").read_bytes())) as arrays:
        X = arrays["X"][:, :300].astype(int)
    path = write_set(tmp_path, X)
    np.testing.assert_array_equal(read(PlinkSource(path), 100)[0], X)
