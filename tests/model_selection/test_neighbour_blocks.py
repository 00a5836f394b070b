"""Blocks of correlated neighbours, and stability selection that counts them: the blocks, the promise, the pipeline."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from daskfs import FGM, Message, OnlineSubstitution
from daskfs.baselines import OrthogonalMatchingPursuit
from daskfs.errors import ConfigError
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.model_selection import StabilitySelection
from daskfs.model_selection.error_bounds import expected_false_selections
from daskfs.model_selection.neighbour_blocks import REACH, neighbour_blocks
from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.selectors.shared.run import Run
from daskfs.sources.plink import PlinkSource
from tests.genotype_files import write_phenotypes, write_plink
from tests.refusals import refused

NONE = np.empty(0, np.int64)
N_BLOCKS, WIDTH = 40, 6


def genotypes(seed, n=300, within=0.95, across=0.2):
    """Dosages whose two haplotypes are chains along the chromosome; the correlation falls between blocks."""
    rng = np.random.default_rng(seed)
    found, z = np.empty((2 * n, N_BLOCKS * WIDTH)), rng.standard_normal(2 * n)
    for j in range(found.shape[1]):
        r = within if j % WIDTH else across
        z = r * z + np.sqrt(1.0 - r * r) * rng.standard_normal(2 * n)
        found[:, j] = z
    alleles = found > np.repeat(rng.uniform(-0.3, 1.0, N_BLOCKS), WIDTH)
    return (alleles[:n].astype(np.int8) + alleles[n:]).astype(np.int8), rng


def trait(dosages, causal, rng, h2=0.5):
    Z = (dosages - dosages.mean(axis=0)) / dosages.std(axis=0)
    genetic = Z[:, causal].sum(axis=1) * np.sqrt(h2 / len(causal))
    return genetic + np.sqrt(1.0 - h2) * rng.standard_normal(len(dosages))


def blocks_of(X, min_r2=0.3, apart=NONE):
    return neighbour_blocks(Run(ArrayMatrix(X), "test"), min_r2, np.asarray(apart, dtype=np.int64))


def test_no_link_leaves_a_block_and_each_block_is_as_small_as_that_allows():
    X = genotypes(0)[0].astype(np.float64)
    X[:, 100] = X[:, 106]  # a link across blocks joins all between
    X[:, 200] = 1.0
    r2 = np.corrcoef(np.delete(X, 200, axis=1).T) ** 2
    places = np.delete(np.arange(X.shape[1]), 200)
    found = blocks_of(X)
    links = [
        (i, j) for a, i in enumerate(places) for b, j in enumerate(places) if i < j <= i + REACH and r2[a, b] >= 0.3
    ]
    is_cut = np.array([not any(i < k <= j for i, j in links) for k in range(1, X.shape[1])])
    np.testing.assert_array_equal(found, np.append(0, np.cumsum(is_cut)))
    assert len(set(found[100:107])) == 1
    assert 20 < found.max() < 80


def test_blocks_end_with_the_reach_the_chromosome_and_columns_that_are_apart(tmp_path):
    rng = np.random.default_rng(0)
    dosages = np.repeat(rng.integers(0, 3, (50, 1)), 300, axis=1).astype(np.int8)
    dosages[:, 10:-1] = rng.integers(0, 3, (50, 289))
    assert blocks_of(dosages, 0.9)[9] == 0  # copies next to each other
    assert blocks_of(dosages, 0.9)[-1] > 0  # a copy far away
    for k, chromosome in enumerate("12"):
        write_plink(tmp_path / f"{k}.bed", dosages[:, :5], [f"v{k}{j}" for j in range(5)], chromosome)
    matrix = PlinkSource(tmp_path / "*.bed", y=np.arange(50)).as_matrix()
    assert neighbour_blocks(Run(matrix, "test"), 0.9, NONE).tolist() == [0] * 5 + [1] * 5
    assert blocks_of(dosages[:, :6], 0.9, [0, 4]).tolist() == [-1, 0, 0, 0, -1, 1]


@pytest.mark.slow
def test_the_number_of_false_blocks_is_as_promised_and_blocks_are_found_that_columns_are_not():
    n_false, n_true, n_columns = [], [], []
    for seed in range(12):
        dosages, rng = genotypes(seed)
        causal = rng.choice(N_BLOCKS, 5, replace=False) * WIDTH + rng.integers(0, WIDTH, 5)
        y = trait(dosages, causal, rng)
        by_block = StabilitySelection(OrthogonalMatchingPursuit(8), n_pairs=15, pfer=1.0, block_r2=0.1).fit(dosages, y)
        assert by_block.pfer_bound_ <= 1.0
        q, p = by_block.n_selected_per_half_, by_block.blocks_.max() + 1
        assert by_block.pfer_bound_ == expected_false_selections(by_block.threshold_, q, p, 15)
        is_true = np.isin(by_block.blocks_[by_block.selected_], by_block.blocks_[causal])
        n_true.append(is_true.sum())
        n_false.append((~is_true).sum())
        by_column = StabilitySelection(OrthogonalMatchingPursuit(8), n_pairs=15, pfer=1.0).fit(dosages, y)
        n_columns.append(np.isin(by_column.selected_ // WIDTH, causal // WIDTH).sum())
    assert np.mean(n_false) <= 1.0
    assert np.mean(n_true) > np.mean(n_columns) + 1.0


def test_a_block_is_represented_by_its_most_frequent_column_and_described(tmp_path):
    dosages, rng = genotypes(1, 200)
    y, age = trait(dosages, np.array([9, 100]), rng), rng.standard_normal(200)
    table = write_phenotypes(tmp_path / "t.pheno", {"T": y, "age": age})
    bed = write_plink(tmp_path / "set.bed", dosages)
    matrix = PlinkSource(bed, phenotypes=table, target="T", covariate_names="age").as_matrix()
    selector = StabilitySelection(FGM(5, always_include=["age"]), 8, block_r2=0.1, threshold=0.6).fit(matrix)
    assert selector.blocks_[0] == -1
    assert selector.frequencies_[0] == 1.0
    assert selector.n_selected_per_half_ <= 4.0  # covariates are not counted
    found = selector.result_.table.set_index("name")
    assert found.loc["age", ["block_size", "block_first", "block_last"]].tolist() == [1, "age", "age"]
    blocks = [selector.blocks_[column] for column in (10, 101)]
    assert set(blocks) <= set(selector.blocks_[selector.selected_].tolist())
    for lead in selector.selected_[selector.selected_ > 0]:
        members = np.flatnonzero(selector.blocks_ == selector.blocks_[lead])
        line = found.loc[f"rs{lead - 1}"]
        assert (line["block_size"], line["block_first"]) == (len(members), f"rs{members[0] - 1}")
        assert (selector.frequencies_[members] == selector.frequencies_[lead]).all()
    assert len(set(selector.blocks_[selector.selected_].tolist())) == len(selector.selected_)


def test_the_plan_counts_the_task_that_finds_links():
    shape = 5_000, 2_000, "float32", None
    with_blocks = StabilitySelection(OnlineSubstitution(2), n_pairs=2, block_r2=0.2).plan(*shape)
    without = StabilitySelection(OnlineSubstitution(2), n_pairs=2).plan(*shape)
    rows, columns = 4_096, 320
    assert with_blocks.task.nbytes == max(without.task.nbytes, rows * columns * (4 + 24 + 4))


def test_blocks_are_refused_where_they_have_no_effect():
    with refused(ConfigError, "parameters", at="block_r2"):
        StabilitySelection(Message(n_subsets=25), subsamples="own", block_r2=0.2).fit(np.eye(9), np.arange(9.0))
    with refused(ConfigError, "parameters", at="block_r2", naming=["0"]):
        StabilitySelection(OnlineSubstitution(2), block_r2=0.0).fit(np.eye(9), np.arange(9.0))


@pytest.mark.slow
def test_a_pipeline_counts_blocks(tmp_path):
    dosages, rng = genotypes(2, 200)
    write_plink(tmp_path / "set.bed", dosages)
    write_phenotypes(tmp_path / "ph.txt", {"T": trait(dosages, np.array([50]), rng, 0.7)})
    (tmp_path / "p.yaml").write_text(
        "version: 1\nname: p\nsource: {kind: plink, path: set.bed, phenotypes: ph.txt, target: T}\nstore: none\n"
        "select: {method: fgm, n_features_to_select: 4}\nstability: {n_pairs: 6, block_r2: 0.2}\noutput: run\n"
    )
    run_pipeline(load_pipeline(tmp_path / "p.yaml"))
    found = pd.read_csv(tmp_path / "run" / "selected.csv")
    assert (found["block_size"] > 1).any()
    assert found["block_first"].str.startswith("rs").all()
