"""Mice and maize by every road: as a table, as PLINK's files, as VCF Zarr, stored or not, to one selection."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from benchmarks import genotypes_real
from daskfs import FGM, Message, OnlineSubstitution, ingest
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.sources.plink import PlinkSource
from tests.tolerances import assert_same_answer, tolerance_of

PIPELINES = Path(__file__).parents[2] / "pipelines"
DATA = os.environ.get("DASKFS_DATA")
METHODS = [Message(), OnlineSubstitution(n_features_to_select=40), FGM(n_features_to_select=40)]


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="DASKFS_DATA names the folder of the real data sets")
@pytest.mark.parametrize("name", genotypes_real.SETS)
def test_every_road_leads_to_one_store_and_one_selection(tmp_path, name):
    read, target = genotypes_real.SETS[name]
    genotypes = read(Path(DATA))
    bed = genotypes_real.write_plink(tmp_path / "set.bed", genotypes)
    vcf = genotypes_real.write_vcf_zarr(tmp_path / "set.vcz", genotypes)
    phenotypes = genotypes_real.write_phenotypes(tmp_path / "set.pheno", genotypes)
    y, names = genotypes.phenotypes[target], [variant for variant, _, _ in genotypes.variants]
    has_y, asked = ~np.isnan(y), {"target": target, "phenotypes": phenotypes, "dtype": "int8"}
    made = {"names": names, "target": target, "dtype": "int8"}
    table = ingest(genotypes.dosages[has_y], tmp_path / "table.zarr", y=y[has_y], **made)
    stores = [ingest(bed, tmp_path / "bed.zarr", **asked), ingest(vcf, tmp_path / "vcf.zarr", **asked)]
    for store in stores:
        np.testing.assert_array_equal(store.read(slice(None)), table.read(slice(None)))
        np.testing.assert_array_equal(store.read_target(), table.read_target())
    for selector in METHODS:
        expected = clone(selector).fit(table)
        for store in stores:
            assert_same_answer(clone(selector).fit(store), expected, tolerance_of(selector.method, store.dtype))
    in_place = PlinkSource(bed, phenotypes=phenotypes, target=target).as_matrix()
    selector = clone(METHODS[1]).set_params(schedule="screen")  # by default files are screened, and stores are not
    rows = table.source_rows  # of those that have a phenotype, in the order of the store
    np.testing.assert_array_equal(in_place.read(rows), table.read(slice(None)))
    found, expected = clone(selector).fit(in_place.take(rows)), clone(selector).fit(table)
    assert_same_answer(found, expected, tolerance_of(selector.method, table.dtype))


@pytest.mark.nightly
@pytest.mark.skipif(DATA is None, reason="DASKFS_DATA names the folder of the real data sets")
@pytest.mark.parametrize("name", ["genotypes_plink", "genotypes_vcf_zarr"])
def test_the_pipelines_of_genotypes_run_as_they_stand(tmp_path, name, monkeypatch):
    genotypes_real.main(tmp_path / "genotypes")
    monkeypatch.setenv("DASKFS_DATA", str(tmp_path))
    overrides = [f"output={tmp_path / 'run'}"]
    overrides += [f"store.path={tmp_path / 'store.zarr'}"] if name == "genotypes_vcf_zarr" else []
    outcome = run_pipeline(load_pipeline(PIPELINES / f"{name}.yaml", overrides))
    assert all(result.metrics["r2"] > 0.1 for result in outcome.results.values())
