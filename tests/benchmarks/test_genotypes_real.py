"""Mice and maize by every road: as a table, as PLINK's files, as VCF Zarr, stored or not, to one selection."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from tests.tolerances import assert_same_answer, tolerance_of

PIPELINES = Path(__file__).parents[2] / "pipelines"
DATA = os.environ.get("DASKFS_DATA")
SETS = ["mice", "maize"]


@pytest.fixture
def genotypes_real(load):
    module = load("genotypes_real")
    assert [*module.SETS] == SETS
    return module


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="DASKFS_DATA names the folder of the real data sets")
@pytest.mark.parametrize("name", SETS)
def test_every_road_leads_to_one_store_and_one_selection(genotypes_real, tmp_path, name):
    read, target = genotypes_real.SETS[name]
    genotypes = read(Path(DATA))
    roads = genotypes_real.matrices(tmp_path, genotypes, target)
    table, *others = roads.values()
    for store in others[:2]:
        np.testing.assert_array_equal(store.read(slice(None)), table.read(slice(None)))
        np.testing.assert_array_equal(store.read_target(), table.read_target())
    for selector in genotypes_real.METHODS.values():
        expected = clone(selector).fit(table)
        for store in others[:2]:
            assert_same_answer(clone(selector).fit(store), expected, tolerance_of(selector.method, store.dtype))
    in_place, selector = others[2], genotypes_real.METHODS["online_substitution"]
    selector = clone(selector).set_params(schedule="screen")  # by default files are screened, and stores are not
    rows = table.source_rows  # of those that have a phenotype, in the order of the store
    np.testing.assert_array_equal(in_place.read(rows), table.read(slice(None)))
    found, expected = clone(selector).fit(in_place.take(rows)), clone(selector).fit(table)
    assert_same_answer(found, expected, tolerance_of(selector.method, table.dtype))


@pytest.mark.nightly
@pytest.mark.skipif(DATA is None, reason="DASKFS_DATA names the folder of the real data sets")
@pytest.mark.parametrize("name", ["genotypes_plink", "genotypes_vcf_zarr"])
def test_the_pipelines_of_genotypes_run_as_they_stand(genotypes_real, tmp_path, name, monkeypatch):
    monkeypatch.setattr("sys.argv", ["genotypes_real.py", "--write", str(tmp_path)])
    genotypes_real.main()
    monkeypatch.setenv("DASKFS_DATA", str(tmp_path))
    overrides = [f"output={tmp_path / 'run'}"]
    overrides += [f"store.path={tmp_path / 'store.zarr'}"] if name == "genotypes_vcf_zarr" else []
    outcome = run_pipeline(load_pipeline(PIPELINES / f"{name}.yaml", overrides))
    assert all(result.metrics["r2"] > 0.1 for result in outcome.results.values())
