"""VCF Zarr, written here as its specification says: calls become dosages, names and samples are its own."""

import gc

import numpy as np
import pytest
import zarr

from daskfs.errors import DataError, SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.registry import as_source, kind_of
from daskfs.sources.vcf_zarr import Calls, VcfZarrSource
from tests.refusals import refused

N, P = 45, 23


def random_calls(missing_ratio=0.0, ploidy=2):
    rng = np.random.default_rng(0)
    calls = rng.integers(0, 3, (P, N, ploidy)).astype(np.int8)
    calls[rng.random(calls.shape) < missing_ratio] = -1
    return calls


def write(path, calls, ids=None, zarr_format=2):
    root = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    root.attrs["vcf_zarr_version"] = "0.4"
    root.create_array("call_genotype", data=calls, chunks=(7, 10, calls.shape[2]))
    arrays = {
        "sample_id": np.array([f"s{i}" for i in range(calls.shape[1])]),
        "variant_id": np.array(ids or [f"rs{j}" for j in range(P)]),
        "contig_id": np.array(["chr1", "chr2"]),
        "variant_contig": np.arange(P, dtype=np.int8) % 2,
        "variant_position": np.arange(P, dtype=np.int32) + 100,
        "variant_allele": np.array([["A", "C", "G"]] * (P - 1) + [["A", "T", ""]]),
    }
    for name, values in arrays.items():
        root.create_array(name, data=values)
    return path


def read(source, block_rows):
    return np.concatenate([block.X for block in source.row_blocks(block_rows, np.float32)])


@pytest.mark.parametrize("block_rows", [1, 6, 1000])
@pytest.mark.parametrize("ploidy", [1, 2])
def test_alleles_beside_the_reference_are_counted(tmp_path, block_rows, ploidy, monkeypatch):
    monkeypatch.setattr("daskfs.sources.genotype_matrix.WINDOW_NBYTES", 40)
    calls = random_calls(ploidy=ploidy)
    path = write(tmp_path / "calls.zarr", calls)
    dosages = (calls > 0).sum(axis=2).T
    X = read(VcfZarrSource(path, np.arange(N)), block_rows)
    assert X.dtype == np.int8
    np.testing.assert_array_equal(X, dosages)
    np.testing.assert_array_equal(read(VcfZarrSource(path, np.arange(N), allele="ref"), block_rows), ploidy - dosages)


def test_calls_that_lack_an_allele_are_missing_and_single_copies_are_not(tmp_path):
    calls = random_calls(0.02)
    calls[3, :10] = [1, -2]
    calls[4, 7] = [-2, -2]
    path, lacks = write(tmp_path / "calls.zarr", calls), (calls == -1).any(axis=2).T
    lacks[7, 4] = True
    expected = np.where(lacks, 5, (calls > 0).sum(axis=2).T)
    np.testing.assert_array_equal(read(VcfZarrSource(path, np.arange(N), missing=5), 8), expected)
    means = np.ma.masked_array(expected, lacks).mean(axis=0).filled()
    filled = read(VcfZarrSource(path, np.arange(N), missing="mean"), 8)
    np.testing.assert_allclose(filled, np.where(lacks, means, expected), rtol=1e-6)
    with pytest.raises(DataError, match=r"calls\.zarr, variant 'rs\d+': expected a dosage for each sample"):
        read(VcfZarrSource(path, np.arange(N)), 8)


def test_each_chunk_is_decoded_once(tmp_path, monkeypatch):
    calls, n_read = random_calls(), []
    source = VcfZarrSource(write(tmp_path / "calls.zarr", calls), np.arange(N))
    blocks = Calls._blocks
    monkeypatch.setattr(
        Calls, "_blocks", lambda *given: (n_read.append(part[2].shape) or part for part in blocks(*given))
    )
    np.testing.assert_array_equal(read(source, 2), (calls > 0).sum(axis=2).T)
    assert sum(n for n, _ in n_read) == P * len({*range(0, N, 20)})  # chunks of ten samples, two make whole bytes


def test_what_reads_the_temporary_file_reads_the_chunks_where_there_is_none(tmp_path):
    source = VcfZarrSource(write(tmp_path / "calls.zarr", random_calls(0.01)), np.arange(N), missing="zero")
    found, (calls,) = read(source, 8), source._sets
    path = calls._packed
    assert path.stat().st_size == P * -(-N // 4)
    path.unlink()
    np.testing.assert_array_equal(read(source, 8), found)
    np.testing.assert_array_equal(source.as_matrix().read(slice(3, 20), slice(2, 9)), found[3:20, 2:9])


@pytest.mark.slow
def test_the_temporary_file_goes_with_the_source(tmp_path):
    source = VcfZarrSource(write(tmp_path / "calls.zarr", random_calls()), np.arange(N))
    read(source, 8)
    path = source._sets[0]._packed
    assert path.exists()
    del source
    gc.collect()
    assert not path.exists()


def test_calls_that_are_not_two_of_two_are_counted_and_said(tmp_path):
    calls = np.zeros((P, N, 2), np.int8)
    calls[0, :4] = [1, -1]
    calls[1, :9] = [1, -2]
    calls[2, 0], calls[3, 0] = [2, 1], [0, 3]
    source = VcfZarrSource(write(tmp_path / "calls.zarr", calls), np.arange(N), missing="zero")
    read(source, 8)
    assert source.notes[:3] == [
        "4 calls with one known and one missing allele are treated as missing",
        "9 haploid calls (for example, on chromosome X) count as 0 or 1, where PLINK writes 0 or 2",
        "2 variants have several alternate alleles, which are counted together",
    ]
    calls[5, 33, 1] = -7
    with refused(SourceError, "genotypes", at="variant 5, sample 33", naming=["7"]):
        read(VcfZarrSource(write(tmp_path / "calls.zarr", calls), np.arange(N)), 8)


def test_a_chunk_that_cannot_be_decoded_is_named(tmp_path):
    path = write(tmp_path / "calls.zarr", random_calls())
    (path / "call_genotype" / "1.2.0").write_bytes(b"no zstd")
    with refused(SourceError, "genotypes", naming=["7", "13", "20", "39"]):
        read(VcfZarrSource(path, np.arange(N)), 8)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore:The data type:zarr.errors.UnstableSpecificationWarning")
def test_a_store_is_made_with_names_and_samples(tmp_path, zarr_format):
    ids = ["rs0", ".", "rs2", "rs2", *(f"rs{j}" for j in range(4, P - 1)), "."]
    calls = random_calls()
    path = write(tmp_path / "calls.zarr", calls, ids, zarr_format)
    assert kind_of(str(path)) == "vcf_zarr"
    y = np.where(np.arange(N) == 3, np.nan, np.arange(N))
    store = ingest(path, tmp_path / "store", y=y, target="height", dtype="int8", shuffle=False)
    np.testing.assert_array_equal(store.read(slice(None), slice(None)), np.delete((calls > 0).sum(axis=2).T, 3, axis=0))
    assert list(store.names[:4]) == ["rs0", "chr2:101:A:C:G", "rs2@chr1:102:A:C:G", "rs2@chr2:103:A:C:G"]
    assert store.names[P - 1] == "chr1:122:A:T"
    (block,) = as_source(path, y=y).row_blocks(1000)
    assert block.labels["iid"].tolist() == [f"s{i}" for i in range(N) if i != 3]


def test_calls_of_many_copies_are_refused(tmp_path):
    path = write(tmp_path / "calls.zarr", random_calls(ploidy=4))
    with refused(SourceError, "genotypes", naming=["alleles"]):
        VcfZarrSource(path, np.arange(N))
    with refused(SourceError, "arrays", naming=["Zarr"]):
        VcfZarrSource(tmp_path, np.arange(N))
    path = write(tmp_path / "calls.zarr", random_calls())
    with refused(DataError, "values", naming=["45"]):
        VcfZarrSource(path, np.arange(3))
