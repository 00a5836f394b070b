"""Models are applied to objects as they are to files, and to stores of objects."""

import io

import pandas as pd
import pytest

import daskfs
from daskfs.errors import SourceError
from tests.applied import test_formats as formats
from tests.applied.test_apply import run_of
from tests.refusals import refused
from tests.tolerances import assert_close

WRITTEN = [formats.csv, formats.parquet, formats.jsonl, formats.vw, formats.libsvm, formats.plink]
WRITTEN += [formats.cells, formats.h5ad, formats.fasta]


def put(server, folder, name):
    """Write all files of a name to the bucket, and return the address of the first."""
    for path in sorted(folder.glob(f"{name}.*")):
        for file in [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]:
            server.put(f"bucket/{file.relative_to(folder)}", file.read_bytes())
    return f"s3://bucket/{name}"


@pytest.mark.slow_cases("jsonl", "vw", "libsvm", "cells", "h5ad", "fasta")
@pytest.mark.parametrize("write", WRITTEN, ids=lambda write: write.__name__)
def test_objects_get_the_predictions_of_files(write, tmp_path, server):
    X, y = formats.data()
    source = write(tmp_path, "train", X, y)
    run_of(tmp_path, source, formats.SELECT)
    model = daskfs.load(tmp_path / "run")
    path = write(tmp_path, "new", X[:60], None).get("path", source["path"].replace("train", "new"))
    expected, _ = formats.applied(tmp_path, tmp_path / path)
    address = put(server, tmp_path, "new") + path.removeprefix("new")
    found, _ = formats.applied(tmp_path, address)
    pd.testing.assert_frame_equal(found, expected)
    assert_close(model.predict(address), expected["prediction"].to_numpy())


@pytest.mark.slow
def test_a_store_of_objects_gets_the_predictions_of_its_rows(tmp_path, server):
    X, y = formats.data()
    run_of(tmp_path, formats.csv(tmp_path, "train", X, y), formats.SELECT)
    table = pd.read_csv(io.StringIO((tmp_path / "train.csv").read_text()))
    daskfs.ingest(table, "s3://bucket/out/x.zarr", target="score")
    expected = daskfs.load(tmp_path / "run").predict(table)
    found, _ = formats.applied(tmp_path, "s3://bucket/out/x.zarr")
    assert_close(found.sort_values("row")["prediction"].to_numpy(), expected)


@pytest.mark.slow
def test_a_vcf_zarr_of_objects_is_refused_and_read_once_it_is_copied(tmp_path, server):
    X, y = formats.data()
    run_of(tmp_path, formats.vcf_zarr(tmp_path, "train", X, y), formats.SELECT)
    model = daskfs.load(tmp_path / "run")
    put(server, tmp_path, "train")
    with refused(SourceError, "genotypes", at="s3://bucket/train.vcz", naming=["folder", "copy"]):
        model.predict("s3://bucket/train.vcz")
    assert len(model.predict(tmp_path / "train.vcz")) == len(X)  # the remedy


@pytest.mark.slow
def test_an_object_that_is_not_there_is_named(tmp_path, server):
    X, y = formats.data()
    run_of(tmp_path, formats.csv(tmp_path, "train", X, y), formats.SELECT)
    with refused(SourceError, "formats", at="s3://bucket/none.csv"):
        daskfs.load(tmp_path / "run").predict("s3://bucket/none.csv")
