"""VCF Zarr, written here as its specification says: calls become dosages, names and samples are its own."""

import numpy as np
import pytest
import zarr

from daskfs.errors import DataError, SourceError
from daskfs.sources.ingest import ingest
from daskfs.sources.registry import as_source, kind_of
from daskfs.sources.vcf_zarr import VcfZarrSource

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
    np.testing.assert_array_equal(read(VcfZarrSource(path, np.arange(N), allele="ref"), block_rows), 2 - dosages)


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
    with pytest.raises(SourceError, match="expected calls of one or two alleles"):
        VcfZarrSource(path, np.arange(N))
    with pytest.raises(SourceError, match="no such Zarr array"):
        VcfZarrSource(tmp_path, np.arange(N))
    path = write(tmp_path / "calls.zarr", random_calls())
    with pytest.raises(DataError, match="expected 45 rows as in X"):
        VcfZarrSource(path, np.arange(3))
