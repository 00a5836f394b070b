"""Genotypes as a matrix that is read where it lies: the values of the source's blocks, faults, selections, runs."""

import os
import pickle

import numpy as np
import pytest

from daskfs import FGM, OnlineSubstitution
from daskfs.cluster.open import open_cluster
from daskfs.errors import ConfigError, SourceError
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.column_weights import ColumnWeights
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.facts import facts_of
from daskfs.pipeline.plan import plan_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.selectors.online_substitution.columns import ColumnSettings
from daskfs.selectors.online_substitution.screen import BatchesToScreen, Screen, screen_batches
from daskfs.sources.genotype_matrix import GenotypeMatrix
from daskfs.sources.ingest import ingest
from daskfs.sources.plink import PlinkSource
from daskfs.sources.vcf_zarr import VcfZarrSource
from tests.contract.lab import assert_same_bits
from tests.genotype_files import write_phenotypes, write_plink, write_vcf_zarr
from tests.refusals import refused
from tests.tolerances import assert_same_answer, tolerance_of

N, P = 203, 150


def some(missing_ratio=0.0, n=N, seed=0):
    rng = np.random.default_rng(seed)
    dosages = rng.integers(0, 3, (n, P)).astype(np.int8)
    y = dosages[:, [7, 40, 130]] @ [1.0, -2.0, 1.5] + rng.standard_normal(n)
    dosages[rng.random(dosages.shape) < missing_ratio] = -1
    y[5] = np.nan
    return dosages, y


def sources(folder, genotypes, **options):
    dosages, y = genotypes
    table = write_phenotypes(folder / "set.pheno", {"height": y})
    options |= {"phenotypes": table, "target": "height"}
    bed, vcf = write_plink(folder / "set.bed", dosages), write_vcf_zarr(folder / "set.vcz", dosages, (40, 30))
    return PlinkSource(bed, **options), VcfZarrSource(vcf, **options)


@pytest.mark.parametrize("missing", ["error", "mean", "zero", "drop"])
def test_it_reads_what_the_blocks_of_the_source_hold(tmp_path, missing, monkeypatch):
    monkeypatch.setattr("daskfs.sources.genotype_matrix.PIECE_NBYTES", 400)
    for source in sources(tmp_path, some(0.0 if missing == "error" else 0.005), missing=missing):
        blocks = list(source.row_blocks(17, np.float32))
        X, y = (np.concatenate([getattr(block, name) for block in blocks]) for name in "Xy")
        matrix = source.as_matrix()
        for one in (matrix, pickle.loads(pickle.dumps(matrix))):
            np.testing.assert_array_equal(one.read(slice(None)), X)
            as_columns = np.empty(X.shape[::-1], X.dtype).T
            np.testing.assert_array_equal(one.read(slice(None), slice(None), as_columns), X)
            some_rows, some_columns = np.array([9, 2, 80]), np.array([149, 0, 1, 2, 77])
            out = np.empty((5, 3), X.dtype).T
            np.testing.assert_array_equal(one.read(some_rows, some_columns, out), X[some_rows][:, some_columns])
            np.testing.assert_array_equal(one.read_target(), y)
            assert list(one.names) == source.feature_names
        assert matrix.dtype == X.dtype
        assert matrix.labels("iid").tolist() == [f"s{i}" for i in matrix.source_rows]


@pytest.mark.slow_cases("0.0", "0.2")
@pytest.mark.parametrize("missing_ratio", [0.0, 0.001, 0.2])
@pytest.mark.parametrize("which", [0, 1])
def test_products_and_moments_are_those_of_the_values(tmp_path, which, missing_ratio):
    """Of spans of 2,080 samples: the last is shorter."""
    rng, (dosages, y) = np.random.default_rng(0), some(missing_ratio, n=4_401)
    for kind, source in zip((PlinkSource, VcfZarrSource), sources(tmp_path, (dosages, y)), strict=True):
        options = {"phenotypes": tmp_path / "set.pheno", "target": "height", "missing": "mean"}
        matrix = kind(source.place, allele=kind.allele_choices[which], **options).as_matrix()
        X = matrix.read(slice(None)).astype(np.float64)
        for n_vectors in (1, 2, 4, 5):
            vectors = rng.standard_normal((n_vectors, len(X)))
            for columns in (slice(None), slice(3, 97), slice(7, 7)):
                found = matrix.column_products(columns, vectors)
                np.testing.assert_allclose(found, vectors @ X[:, columns], atol=1e-10)
        weights = rng.integers(0, 3, (3, len(X))).astype(np.float64)
        found = matrix.column_moments(slice(3, 97), weights)
        for k, weight in enumerate(weights):
            alone, share = matrix.column_moments(slice(3, 97), weight), weight / weight.sum()
            for several, one in zip(found, alone, strict=True):
                np.testing.assert_array_equal(several[k], one)
            np.testing.assert_allclose(alone.mean, share @ X[:, 3:97], rtol=1e-12)
            np.testing.assert_allclose(alone.std, np.sqrt(share @ (X[:, 3:97] - alone.mean) ** 2), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("missing_ratio", [0.0, 0.01])
def test_a_selection_without_a_store_is_that_of_a_store(tmp_path, missing_ratio):
    genotypes = some(missing_ratio)
    for source in sources(tmp_path, genotypes, missing="mean"):
        store = ingest(source, tmp_path / f"{source.kind}.zarr", dtype=source.as_matrix().dtype, shuffle=False)
        stored = OnlineSubstitution(n_features_to_select=5).fit(store)
        read = OnlineSubstitution(n_features_to_select=5).fit(source.as_matrix())
        assert {7, 40, 130} <= {*read.selected_.tolist()}
        assert_same_answer(read, stored, tolerance_of("online_substitution", store.dtype))
        blocks = source.as_matrix().column_blocks(delayed=True)
        found = OnlineSubstitution(n_features_to_select=5).fit_blocks(blocks)
        assert_same_answer(found, stored, tolerance_of("online_substitution", store.dtype))


@pytest.mark.parametrize("classes", [False, True])
def test_fgm_reads_only_the_columns_that_it_selects(tmp_path, monkeypatch, classes):
    dosages, y = some(0.02)
    table = write_phenotypes(tmp_path / "t.pheno", {"T": np.digitize(y, [-1.0, 1.0]) if classes else y, "age": y**2})
    options = {"phenotypes": table, "target": "T", "covariate_names": "age", "missing": "mean"}
    matrix = PlinkSource(write_plink(tmp_path / "set.bed", dosages), **options).as_matrix()
    rows = np.random.default_rng(1).permutation(matrix.shape[0])[:150]
    matrix, asked, read = matrix.take(rows), [], GenotypeMatrix.read

    def counted(self, rows, columns=slice(None), out=None):
        asked.append(np.arange(self.shape[1])[columns])
        return read(self, rows, columns, out)

    monkeypatch.setattr(GenotypeMatrix, "read", counted)
    options = {"n_features_to_select": 6, "n_features_per_pass": 2, "always_include": ["age"]}
    found = FGM(**options).fit(matrix)
    assert set(np.concatenate(asked).tolist()) == set(found.selected_.tolist())
    expected = FGM(**options).fit(ArrayMatrix(read(matrix.base, rows), matrix.target, feature_names=list(matrix.names)))
    assert_same_answer(found, expected, tolerance_of("fgm", matrix.dtype))


def test_workers_read_it_too(tmp_path):
    (bed, vcf), options = sources(tmp_path, some()), {"n_features_to_select": 5, "schedule": "screen"}
    expected = OnlineSubstitution(**options).fit(bed.as_matrix())
    with open_cluster("threads", 1) as workers:
        for source in (bed, vcf):
            assert_same_bits(OnlineSubstitution(**options, client=workers.client).fit(source.as_matrix()), expected)


def test_a_file_that_changes_is_told(tmp_path):
    bed, _ = sources(tmp_path, some())
    matrix = bed.as_matrix()
    os.utime(tmp_path / "set.bed", (0, 0))
    with refused(SourceError, "formats", naming=["changed"]):
        OnlineSubstitution(n_features_to_select=5).fit(matrix)
    os.truncate(tmp_path / "set.bed", 1000)
    with refused(SourceError, "formats", at="set.bed", naming=["changed"]):
        matrix.read(slice(None))
    assert matrix.exists()
    (tmp_path / "set.bed").unlink()
    assert not matrix.exists()


def test_variants_are_screened_by_their_codes_and_only_candidates_are_read(tmp_path, monkeypatch):
    source, _ = sources(tmp_path, some(0.01), missing="mean")
    matrix, n_read = source.as_matrix(), []
    X = np.ascontiguousarray(matrix.read(slice(None)))
    in_memory, options = (
        ArrayMatrix(X, matrix.read_target()),
        {"schedule": "screen", "block_columns": 8},
    )
    read = GenotypeMatrix.read

    def counted(self, rows, columns=slice(None), out=None):
        n_read.append(len(np.arange(P)[columns]))
        return read(self, rows, columns, out)

    def selected(one):
        selector = OnlineSubstitution(n_features_to_select=5, n_epochs=2, random_state=0, **options)
        return selector.fit_matrix(one)

    expected = selected(in_memory)
    monkeypatch.setattr(GenotypeMatrix, "read", counted)
    found = selected(matrix)
    assert {7, 40, 130} <= {*found.selected_.tolist()}
    assert_same_answer(found, expected, tolerance_of("online_substitution", matrix.dtype))
    assert sum(n_read[1:]) < P  # after the block that fills the selection, of two passes over all columns


@pytest.mark.parametrize("weights", [None, ColumnWeights((3, 1), 0.2)], ids=["plain", "weighed"])
def test_screening_by_codes_finds_the_candidates_of_decoded_columns(tmp_path, weights):
    source, _ = sources(tmp_path, some(0.01), missing="mean")
    matrix = source.as_matrix()
    both = matrix, ArrayMatrix(np.ascontiguousarray(matrix.read(slice(None))), matrix.read_target())
    y, n = np.ravel(matrix.read_target()), matrix.shape[0]
    part = BatchesToScreen(np.array_split(np.arange(P), 4), 1)
    for least in (0.001, 0.01, 0.1):
        screen = Screen(y - y.mean(), NO_WEIGHT, float(n), least, 0.5, np.array([3]), P, NO_WEIGHT, 0.0)
        views = (one if weights is None else one.with_column_weights(weights) for one in both)
        given = ColumnSettings(centres=True, scales=True, keeps_int8=False), NO_WEIGHT, screen, part
        found, expected = (screen_batches(one, *given) for one in views)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.columns.ids, other.columns.ids)
            assert (one.n_usable, one.n_found) == (other.n_usable, other.n_found)


def test_a_plan_counts_decoded_columns_where_those_to_screen_are_not_neighbours():
    def task_nbytes(has_products, **options):
        selector = OnlineSubstitution(5, schedule="screen", **options)
        return selector.plan(10_000, 5_000, "int8", None, has_products=has_products).task_nbytes

    assert task_nbytes(True) < task_nbytes(False)
    for order in ("shuffled", np.arange(0, 5_000, 2)):
        assert task_nbytes(True, order=order) == task_nbytes(False, order=order)


@pytest.fixture
def pipeline(tmp_path):
    sources(tmp_path, some(0.01))
    path = tmp_path / "genes.yaml"
    path.write_text(
        "version: 1\nname: genes\n"
        "source: {kind: plink, path: set.bed, phenotypes: set.pheno, target: height, missing: mean}\n"
        "store: none\nselect: {method: online_substitution, n_features_to_select: 5}\noutput: run\n"
    )
    return path


@pytest.mark.slow
def test_a_pipeline_without_a_store_reads_the_files(pipeline, tmp_path):
    planned = plan_pipeline(load_pipeline(pipeline), facts_of(load_pipeline(pipeline)))
    assert "read directly from the source's files" in planned.to_text()
    assert [step.name for step in planned.steps] == ["online_substitution", "evaluate"]
    outcome = run_pipeline(load_pipeline(pipeline))
    assert not list(tmp_path.glob("**/*.zarr"))
    result = outcome.results["online_substitution"]
    assert {"rs7", "rs40", "rs130"} <= {*result.table["name"]}
    assert result.metrics["r2"] > 0.5
    assert any("were replaced by the mean of their variant" in note for note in result.notes)
    stored = load_pipeline(pipeline, ["store={shuffle: false, path: store.zarr}", "output=stored"])
    again = run_pipeline(stored).results["online_substitution"]
    assert again.table.equals(result.table)
    assert again.metrics == result.metrics


@pytest.mark.slow
def test_vcf_zarr_runs_without_a_store_on_workers(pipeline, tmp_path):
    asked = ["source.kind=vcf_zarr", "source.path=set.vcz", "cluster={kind: threads, n_workers: 2}"]
    result = run_pipeline(load_pipeline(pipeline, asked)).results["online_substitution"]
    assert {"rs7", "rs40", "rs130"} <= {*result.table["name"]}


def test_other_sources_without_a_store_are_told_what_to_do(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    path = tmp_path / "a.yaml"
    path.write_text(
        "version: 1\nname: a\nsource: {kind: csv, path: a.csv, target: y}\nstore: none\nselect: {method: mission}\n"
    )
    with refused(ConfigError, "streams", at="store", naming=["needs a store"]):
        run_pipeline(load_pipeline(path))
