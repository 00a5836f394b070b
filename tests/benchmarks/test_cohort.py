"""The simulated cohort has the frequencies and the linkage disequilibrium that it claims."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cohort import MIN_FREQUENCY, MISSING, Cohort, Founders, simulate, standardised
from daskfs.sources.plink import PlinkSource

N_SAMPLES, N_VARIANTS = 3001, 2200


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    return simulate(tmp_path_factory.mktemp("cohort"), 1, N_SAMPLES, N_VARIANTS, n_causal=40)


@pytest.fixture(scope="module")
def r2(cohort: Cohort) -> np.ndarray:
    Z = standardised(cohort.dosages(np.arange(N_VARIANTS)))
    return (Z.T @ Z / len(Z)) ** 2


def test_founder_frequencies_follow_the_neutral_spectrum() -> None:
    n, n_draws = 200, 6000
    founders = Founders(n, np.random.default_rng(0))
    counts = []
    for _ in range(n_draws):
        founders.shuffle(1.0)
        counts.append(founders.draw().sum())
    sizes = np.arange(int(MIN_FREQUENCY * n), n - int(MIN_FREQUENCY * n) + 1)
    expected = n_draws / sizes / (1.0 / sizes).sum()
    cuts = np.searchsorted(sizes, [2, 4, 10, 30, 100, 150])
    expected = np.add.reduceat(expected, [0, *cuts])
    found = np.add.reduceat(np.bincount(counts, minlength=n + 1)[sizes], [0, *cuts])
    assert ((found - expected) ** 2 / expected).sum() < 22.5  # 0.999 quantile of chi squared, 6 degrees of freedom


def test_the_cohort_is_as_rare_and_as_complete_as_asked(cohort: Cohort) -> None:
    dosages = cohort.dosages(np.arange(N_VARIANTS))
    frequency = np.nanmean(dosages, axis=0) / 2
    error = np.sqrt(MIN_FREQUENCY / (2 * N_SAMPLES))
    assert np.minimum(frequency, 1 - frequency).min() > MIN_FREQUENCY - 4 * error
    n_missing = np.isnan(dosages).sum()
    assert abs(n_missing - MISSING * dosages.size) < 4 * np.sqrt(MISSING * dosages.size)
    # two copies as often as random mating gives: the two haplotypes of a sample are independent
    expected = 2 * frequency * (1 - frequency)
    assert np.nanvar(dosages, axis=0).sum() == pytest.approx(expected.sum(), rel=0.01)


def test_disequilibrium_decays_with_distance(cohort: Cohort, r2: np.ndarray) -> None:
    frequency = np.nanmean(cohort.dosages(np.arange(N_VARIANTS)), axis=0) / 2
    is_common = np.minimum(frequency, 1 - frequency) > 0.05
    pairs = np.triu(is_common[:, None] & is_common, 1)
    is_same = cohort.chromosome[:, None] == cohort.chromosome
    distance = np.abs(cohort.position[:, None] - cohort.position)
    edges = np.array([0, 10e3, 50e3, 100e3, 200e3, 500e3])
    means = [r2[pairs & is_same & (distance >= a) & (distance < b)].mean() for a, b in pairwise(edges)]
    assert 0.2 < means[0] < 0.45
    assert (np.diff(means) < 0).all()
    assert means[-1] < 0.02
    assert r2[pairs & ~is_same].mean() == pytest.approx(1 / N_SAMPLES, rel=0.1)  # independent columns


def test_the_trait_has_the_heritability_and_the_table_hides_the_test_samples(cohort: Cohort) -> None:
    Z = standardised(cohort.dosages(cohort.causal))
    C = np.column_stack([np.ones(N_SAMPLES), standardised(cohort.covariates)])
    rest = cohort.trait - C @ np.linalg.lstsq(C, cohort.trait, rcond=None)[0]
    explained = Z @ np.linalg.lstsq(Z, rest, rcond=None)[0]
    assert explained.var() / rest.var() == pytest.approx(0.5, abs=0.05)
    source = PlinkSource(cohort.bed, phenotypes=cohort.table, target="trait", missing="mean")
    matrix = source.as_matrix()
    np.testing.assert_array_equal(matrix.source_rows, np.flatnonzero(~cohort.is_test))
    np.testing.assert_allclose(matrix.read_target(), cohort.trait[~cohort.is_test], atol=1e-6)


def test_a_seed_gives_the_same_files_with_any_number_of_threads(tmp_path: Path) -> None:
    import numba

    made = []
    for n_threads in (1, numba.get_num_threads()):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        numba.set_num_threads(n_threads)
        made.append(simulate(folder, 3, 20_000, 60, n_causal=3))
    assert made[0].bed.read_bytes() == made[1].bed.read_bytes()
    assert made[0].table.read_text() == made[1].table.read_text()
