"""Filters of genotypes: samples, variants, frequencies and missingness, as plink counts them; what is refused."""

import pickle
import shutil
import subprocess

import numpy as np
import pytest

from daskfs.errors import ConfigError, SourceError
from daskfs.sources.genotype_matrix import BRIDGED_NBYTES, Chosen
from daskfs.sources.ingest import ingest
from daskfs.sources.plink import PlinkSource
from daskfs.sources.vcf_zarr import VcfZarrSource
from tests.genotype_files import write_plink, write_vcf_zarr
from tests.refusals import refused

N, P, MISSING = 61, 40, -1


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Two chromosomes and a VCF Zarr of both, with rare variants and missing dosages."""
    folder, rng = tmp_path_factory.mktemp("cohort"), np.random.default_rng(0)
    dosages = rng.binomial(2, rng.uniform(0.0, 0.5, P), (N, P))
    dosages[rng.random((N, P)) < rng.choice([0, 0.02, 0.2], P)] = MISSING
    dosages[:, 5] = 0
    half = P // 2
    write_plink(folder / "chr1.bed", dosages[:, :half])
    write_plink(folder / "chr2.bed", dosages[:, half:], [f"rs{j}" for j in range(half, P)], "2")
    write_vcf_zarr(folder / "all.vcz", dosages, (7, 10))
    return folder, dosages


def opened(kind, folder, **options):
    y = np.arange(N, dtype=float)
    y[3] = np.nan
    if kind == "vcf_zarr":
        return VcfZarrSource(folder / "all.vcz", y, missing=0.5, **options)
    return PlinkSource(folder / "chr*.bed", y, missing=0.5, **options)


def listed(path, words):
    path.write_text("".join(f"{word}\n" for word in words))
    return path


def blocks(source, block_rows=9):
    found = [*source.row_blocks(block_rows)]
    return np.concatenate([block.X for block in found]), np.concatenate([block.y for block in found])


def expected(dosages, samples, variants):
    X = dosages[np.ix_(samples, variants)].astype(float)
    return np.where(X == MISSING, 0.5, X)


def by_hand(dosages, samples, min_frequency=0.0, max_missing=1.0):
    known = dosages[samples] != MISSING
    copies = np.where(known, dosages[samples], 0).sum(axis=0)
    frequency = copies / np.maximum(2 * known.sum(axis=0), 1)
    return np.flatnonzero(
        (np.minimum(frequency, 1 - frequency) >= min_frequency) & ((~known).mean(axis=0) <= max_missing)
    )


@pytest.mark.slow_cases("vcf_zarr")
@pytest.mark.parametrize("kind", ["plink", "vcf_zarr"])
def test_each_filter_leaves_what_a_subset_by_hand_leaves(cohort, tmp_path, kind):
    folder, dosages = cohort
    kept = np.array([i for i in range(N) if i % 3 and i != 3])
    everyone = np.array([i for i in range(N) if i != 3])
    keep = listed(tmp_path / "keep", [f"f s{i}" for i in range(N) if i % 3])
    remove = listed(tmp_path / "remove", [f"s{i}" for i in range(N) if i % 3 == 0])
    extract = listed(tmp_path / "extract", [f"rs{j}" for j in range(3, 30)])
    exclude = listed(tmp_path / "exclude", ["rs4 rs5", "rs22"])
    left = [j for j in range(3, 30) if j not in (4, 5, 22)]
    for options, samples, variants in (
        ({"keep": keep}, kept, np.arange(P)),
        ({"remove": remove}, kept, np.arange(P)),
        ({"extract": extract, "exclude": exclude}, everyone, left),
        ({"min_frequency": 0.1}, everyone, by_hand(dosages, everyone, 0.1)),
        ({"max_missing": 0.05}, everyone, by_hand(dosages, everyone, 0, 0.05)),
        (
            {"keep": keep, "extract": extract, "exclude": exclude, "min_frequency": 0.1, "max_missing": 0.05},
            kept,
            np.intersect1d(left, by_hand(dosages, kept, 0.1, 0.05)),
        ),
    ):
        source = opened(kind, folder, **options)
        X = expected(dosages, samples, variants)
        assert 0 < X.size < dosages.size
        read, y = blocks(source)
        np.testing.assert_array_equal(read, X)
        np.testing.assert_array_equal(y, samples)
        assert source.feature_names == [f"rs{j}" for j in variants]
        matrix = opened(kind, folder, **options).as_matrix()
        again = pickle.loads(pickle.dumps(matrix))
        assert [*again.names] == source.feature_names
        for one in (matrix, again):
            np.testing.assert_array_equal(one.read(slice(None)), X)
            np.testing.assert_array_equal(one.read(slice(5, 20), np.array([7, 2, 3])), X[5:20, [7, 2, 3]])
        known = np.where(dosages == MISSING, np.nan, dosages)[np.ix_(samples, variants)]
        annotations = matrix.annotations(np.arange(len(variants)))
        np.testing.assert_allclose(annotations["allele_frequency"], np.nanmean(known, axis=0) / 2, rtol=1e-14)
        np.testing.assert_array_equal(
            annotations["position"], [j % (P // 2) if kind == "plink" else j for j in variants]
        )


def test_means_are_those_of_the_samples_that_are_used(cohort, tmp_path):
    folder, dosages = cohort
    keep = listed(tmp_path / "keep", [f"f s{i}" for i in range(20)])
    source = PlinkSource(folder / "chr1.bed", np.arange(N), missing="mean", keep=keep)
    known = np.where(dosages == MISSING, np.nan, dosages)[:20, : P // 2]
    np.testing.assert_allclose(
        blocks(source)[0], np.where(np.isnan(known), np.nanmean(known, axis=0), known), rtol=1e-6
    )
    dropped = PlinkSource(folder / "chr1.bed", np.arange(N), missing="drop", max_missing=0.05, keep=keep)
    few = by_hand(dosages[:, : P // 2], np.arange(20), 0, 0.05)
    np.testing.assert_array_equal(blocks(dropped)[1], np.flatnonzero((dosages[:20][:, few] != MISSING).all(axis=1)))


def test_filters_are_part_of_a_store_s_identity_and_are_noted(cohort, tmp_path):
    folder, dosages = cohort
    keep = listed(tmp_path / "keep", ["#IID", *(f"s{i}" for i in range(30))])
    source = opened("plink", folder, keep=keep, min_frequency=0.1)
    assert source.filters[0] == "keep: 30 of 61 samples are left (keep)"
    assert "min_frequency 0.1" in source.filters[1]
    store = ingest(source, tmp_path / "s.zarr", shuffle=False)
    everyone = np.array([i for i in range(30) if i != 3])
    variants = by_hand(dosages, everyone, 0.1)
    np.testing.assert_array_equal(store.read(slice(None)), expected(dosages, everyone, variants))
    assert f"{len(variants)} of 40 variants pass min_frequency 0.1, counted over the 29 samples that are used" in [
        *store.notes
    ]
    assert opened("plink", folder, keep=keep, min_frequency=0.2).encoding != source.encoding
    assert "filters" not in opened("plink", folder).encoding


def test_ids_that_are_unknown_or_listed_again_are_noted_with_their_lines(cohort, tmp_path):
    folder, _ = cohort
    keep = listed(tmp_path / "keep", ["f s0", "f nobody", "f s1", "f s0", "f s2"])
    extract = listed(tmp_path / "extract", ["rs1", "rs2 rs99", "rs2"])
    notes = opened("plink", folder, keep=keep, extract=extract).notes
    said = "\n".join(map(str, notes))
    for words in ("'f s0' (line 4)", "'f nobody' (line 2)", "'rs99' (line 2)", "'rs2' (line 3)"):
        assert words in said, words
    assert str(keep) in said
    assert str(extract) in said


def test_variants_without_an_id_are_chosen_by_their_names(tmp_path):
    dosages = np.random.default_rng(0).integers(0, 3, (N, 4))
    write_plink(tmp_path / "set.bed", dosages, [".", "rs1", "rs1", "."])
    extract = listed(tmp_path / "extract", ["1:3:A:G", "rs1"])
    source = PlinkSource(tmp_path / "set.bed", np.arange(N), extract=extract)
    assert source.feature_names == ["rs1@1:1:A:G", "rs1@1:2:A:G", "1:3:A:G"]
    np.testing.assert_array_equal(blocks(source)[0], dosages[:, 1:])


@pytest.mark.parametrize("ids", ["#FID1 IID1 FID2 IID2", "ID1 ID2"])
def test_relatives_are_connected_through_others_and_stay_together(cohort, tmp_path, ids):
    pairs = [(0, 1, 0.25), (1, 2, 0.1), (3, 4, 0.05), (10, 11, 0.2), (12, 10, 0.3), (5, 99, 0.3)]
    table, family = [f"{ids} KINSHIP"], "f " if "FID" in ids else ""
    table += [f"{family}s{i} {family}s{j} {kinship}" for i, j, kinship in pairs]
    source = PlinkSource(cohort[0] / "chr1.bed", np.arange(N), missing=0, relatives=listed(tmp_path / "kin0", table))
    labels = source.samples["relatives"]
    assert [[*labels.index[labels == one]] for one in sorted({*labels} - {""})] == [[0, 1, 2], [10, 11, 12]]
    assert source.filters == ["relatives: 6 samples in 2 groups have a kinship above 0.0884 (kin0)"]
    train, test = source.as_matrix().split(0.3, groups="relatives")
    assert not {*train.labels("relatives")} & {*test.labels("relatives")} - {""}
    more = PlinkSource(cohort[0] / "chr1.bed", np.arange(N), relatives=tmp_path / "kin0", related_above=0.01)
    assert (more.samples["relatives"] != "").sum() == 8
    for text, at in (
        ("ID1 ID2\ns0 s1\n", "line 1"),
        ("ID1 ID2 KINSHIP\na b 1\n", "kin0"),
        ("ID1 ID2 KINSHIP\na b\n", "line 2"),
    ):
        (tmp_path / "kin0").write_text(text)
        with refused(SourceError, "genotypes", at=at):
            PlinkSource(cohort[0] / "chr1.bed", np.arange(N), relatives=tmp_path / "kin0")


FAULTS = {
    "keep nobody": ({"keep": "f stranger"}, SourceError, ["'f s0' is one"]),
    "remove all": ({"remove": "\n".join(f"s{i}" for i in range(N))}, SourceError, ["remove"]),
    "extract nothing": ({"extract": "rs999"}, SourceError, ["'rs0' is one"]),
    "exclude all": ({"exclude": " ".join(f"rs{j}" for j in range(P))}, SourceError, ["exclude"]),
    "empty": ({"keep": ""}, SourceError, []),
    "only blanks": ({"keep": " \n"}, SourceError, ["ids"]),
    "only a header": ({"keep": "#FID IID\n"}, SourceError, ["header"]),
    "short line": ({"keep": "f s0\ns1\n"}, SourceError, ["'s1'"]),
    "frequency": ({"min_frequency": 0.6}, ConfigError, ["0.6"]),
    "missing": ({"max_missing": -0.1}, ConfigError, ["-0.1"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_filters_that_leave_nothing_or_cannot_be_read_are_refused(cohort, tmp_path, fault):
    options, error, naming = FAULTS[fault]
    ((name, value),) = options.items()
    if isinstance(value, str):
        (tmp_path / "list").write_text(value)
        value = tmp_path / "list"
    with refused(error, "genotypes", at=f"source.{name}" if error is ConfigError else "list", naming=naming):
        blocks(opened("plink", cohort[0], **{name: value}))


def test_thresholds_that_no_variant_passes_are_refused(cohort):
    with refused(SourceError, "genotypes", naming=["min_frequency 0.5", "40"]):
        blocks(opened("plink", cohort[0], min_frequency=0.5))
    with pytest.raises(TypeError, match="min_freq"):
        opened("plink", cohort[0], min_freq=0.1)


def test_variants_that_are_left_out_are_not_read(tmp_path, monkeypatch):
    n = 8 * BRIDGED_NBYTES  # a variant fills two pages
    write_plink(tmp_path / "set.bed", np.random.default_rng(0).integers(0, 3, (n, 12)))
    source = PlinkSource(tmp_path / "set.bed", np.arange(n))
    (whole,) = source._sets
    asked = []
    monkeypatch.setattr(
        type(whole), "read", lambda *given: asked.append(given[1:3]) or np.empty((given[2] - given[1], 1))
    )
    Chosen(whole, np.array([0, 1, 2, 5, 9, 10])).read(1, 6, 0, whole.stride)
    assert asked == [(1, 3), (5, 6), (9, 11)]


@pytest.mark.skipif(shutil.which("plink2") is None, reason="plink2 is not installed")
@pytest.mark.parametrize(
    "options",
    [
        {"min_frequency": 0.1},
        {"max_missing": 0.05},
        {"min_frequency": 0.05, "max_missing": 0.1, "keep": True},
        {"extract": True},
    ],
)
def test_plink_leaves_the_same_variants_and_samples(cohort, tmp_path, options):
    _, dosages = cohort
    write_plink(tmp_path / "set.bed", dosages)
    files = {
        "keep": listed(tmp_path / "keep", ["f s5", *(f"f s{i}" for i in range(0, N, 2))]),
        "extract": listed(tmp_path / "extract", ["rs3 rs8", "rs17", "none"]),
    }
    options = {name: files[name] if value is True else value for name, value in options.items()}
    flags = {"keep": "--keep", "extract": "--extract", "min_frequency": "--maf", "max_missing": "--geno"}
    given = [word for name, value in options.items() for word in (flags[name], str(value))]
    command = ["plink2", "--bfile", "set", *given, "--make-bed", "--out", "theirs"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    theirs = PlinkSource(
        tmp_path / "theirs.bed", np.zeros(len((tmp_path / "theirs.fam").read_text().splitlines())), missing=7
    )
    ours = PlinkSource(tmp_path / "set.bed", np.zeros(N), missing=7, **options)
    X, other = blocks(ours)[0], blocks(theirs)[0]
    np.testing.assert_array_equal(X, other)
    assert ours.feature_names == theirs.feature_names
    assert X.size < dosages.size


def test_a_kinship_without_a_table_of_relatives_is_refused(cohort):
    with refused(ConfigError, "genotypes", at="source.related_above", naming=["relatives"]):
        PlinkSource(cohort, related_above=0.1)
