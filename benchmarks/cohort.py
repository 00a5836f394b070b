"""A simulated cohort in PLINK's files: linkage disequilibrium, 22 chromosomes, a trait with covariates.

Three steps, variant by variant, so that memory does not grow with the number of variants:

1. A genetic map. Four fifths of the recombination is in hotspots, which bound blocks of variants in disequilibrium.
2. Founder haplotypes. Within a block they are the leaves of a coalescent tree. Leaves in the order of a drawing of the
   tree, the tree is a random order of the cuts between them: the first k - 1 cuts bound the k lineages of its level k.
   A mutation is an interval between two neighbouring cuts, so that the frequency spectrum is the neutral one, 1/i.
   Recombination shuffles a share of the leaves and of the cuts. Variants rarer than `MIN_FREQUENCY` are drawn again.
3. Haplotypes of the cohort: mosaics of founders, as Li and Stephens (Genetics 165, 2003) copy them, with few mutations.

The trait is the sum of covariates, standardised causal variants with normal effects, and noise. There is no population
structure and there are no relatives: principal components are covariates like others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

N_CHROMOSOMES = 22
MIN_FREQUENCY = 0.005
SPACING = 5_000
"""Mean distance of neighbours in base pairs: 600,000 variants in a human genome."""
MORGAN_PER_BP, HOTSPOT_BP, IN_HOTSPOTS = 1e-8, 50_000, 0.8
FOUNDER_GENERATIONS = 1_000.0
"""Rate at which founders lose their place in the tree, per morgan."""
COPY_GENERATIONS = 100.0
"""Rate at which the cohort's haplotypes change their founder, per morgan: segments of a million base pairs."""
MUTATION, MISSING = 1e-4, 1e-3
COVARIATES = ("age", "sex", *(f"PC{k}" for k in range(1, 9)))
COVARIATE_VARIANCE = 0.25
TEST_SHARE = 0.2
CHUNK = 8192
"""Samples with one stream of random numbers."""
WINDOW_NBYTES = 2**24


@dataclass
class Cohort:
    """Files of a cohort, and what is true of it."""

    bed: Path
    table: Path
    """FID, IID, trait (NA for test samples) and covariates."""
    chromosome: np.ndarray
    position: np.ndarray
    causal: np.ndarray
    """Columns of the .bed file, ascending."""
    share: np.ndarray
    """Of each causal variant in the variance of the trait beyond covariates."""
    trait: np.ndarray
    covariates: np.ndarray
    is_test: np.ndarray
    n_wanted: int

    def calls(self, variants: np.ndarray) -> np.ndarray:
        """Return copies of the first allele, int8 of shape (n_variants, n_samples), -9 where missing."""
        n_samples = len(self.trait)
        packed = np.memmap(self.bed, np.uint8, "r", 3).reshape(-1, -(-n_samples // 4))[variants]
        of_byte = np.array([2, -9, 1, 0], np.int8)[(np.arange(256)[:, None] >> 2 * np.arange(4)) & 3]
        return of_byte[packed].reshape(len(packed), -1)[:, :n_samples]

    def dosages(self, variants: np.ndarray) -> np.ndarray:
        """Return copies of the first allele, float32 of shape (n_samples, n_variants), NaN where missing."""
        calls = self.calls(variants).T
        return np.where(calls < 0, np.float32(np.nan), calls.astype(np.float32))


def genetic_map(n_variants: int, spacing: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return chromosome, position, and morgans to the variant before: infinite at the start of a chromosome."""
    chromosome = 1 + np.arange(n_variants) * N_CHROMOSOMES // n_variants
    gap = 1 + rng.exponential(spacing, n_variants).astype(np.int64)
    hotspots = rng.standard_gamma(rng.poisson(gap / HOTSPOT_BP)) * HOTSPOT_BP
    morgans = MORGAN_PER_BP * ((1 - IN_HOTSPOTS) * gap + IN_HOTSPOTS * hotspots)
    starts = np.flatnonzero(np.diff(chromosome, prepend=0))
    morgans[starts] = np.inf
    position = np.cumsum(gap)
    return chromosome, position - np.repeat(position[starts] - gap[starts], np.diff([*starts, n_variants])), morgans


class Founders:
    """Haplotypes of founders, variant by variant."""

    def __init__(self, n_founders: int, rng: np.random.Generator) -> None:
        self.n, self.rng = n_founders, rng
        self.leaves = np.arange(n_founders)
        """The founder at each place of the drawing."""
        self.ranks = np.arange(n_founders - 1)
        """Of the cut after each place, from the root."""
        self.levels = np.cumsum(1.0 / np.arange(1, n_founders))
        """Of the expected lengths of all lineages together, at levels 2, 3, ..."""

    def shuffle(self, share: float) -> None:
        """Exchange a share of the leaves among each other, and of the cuts."""
        for array in (self.leaves, self.ranks):
            n_moved = self.rng.binomial(len(array), share)
            if n_moved > 1:
                moved = self.rng.choice(len(array), n_moved, replace=False)
                array[moved] = array[np.sort(moved)]

    def draw(self) -> np.ndarray:
        """Return the alleles of a new variant, uint8 of shape (n_founders,)."""
        while True:
            n_cuts = 1 + int(np.searchsorted(self.levels, self.rng.random() * self.levels[-1]))
            cuts, lineage = np.flatnonzero(self.ranks < n_cuts), int(self.rng.integers(n_cuts + 1))
            start = int(cuts[lineage - 1]) + 1 if lineage > 0 else 0
            stop = int(cuts[lineage]) + 1 if lineage < n_cuts else self.n
            carriers = self.leaves[start:stop]
            if MIN_FREQUENCY * self.n <= len(carriers) <= (1 - MIN_FREQUENCY) * self.n:
                alleles = np.zeros(self.n, np.uint8)
                alleles[carriers] = 1
                return alleles


@cache
def compiled():  # type: ignore[no-untyped-def]
    """Return the kernel that copies founders; numba is imported only where a cohort is made."""
    import numba

    @numba.njit(inline="always")
    def step(state):  # type: ignore[no-untyped-def]
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        return state ^ (state << np.uint64(17))

    @numba.njit(inline="always")
    def gap(state, rate):  # type: ignore[no-untyped-def]
        """Return how many trials of a small chance fail before one succeeds."""
        u = (np.float64(state >> np.uint64(11)) + 0.5) / 9007199254740992.0
        return np.int64(min(-np.log(u) / max(rate, 1e-12), 1e9))

    @numba.njit(parallel=True)
    def copy(founders, rates, mutation, missing, sources, states, out):  # type: ignore[no-untyped-def]
        """Fill a window of packed genotypes.

        Parameters
        ----------
        founders : ndarray of shape (n_variants, n_founders), uint8
        rates : ndarray of shape (n_variants,)
            Of changes of the founder before a variant, per haplotype: -log(1 - chance).
        mutation, missing : float
            Rates per haplotype and per sample.
        sources : ndarray of shape (n_chunks, 2 * CHUNK), uint16
            Founder that each haplotype copies; changed.
        states : ndarray of shape (n_chunks,), uint64
            Of the random numbers; changed.
        out : ndarray of shape (n_variants, ceil(n_samples / 4)), uint8
        """
        n_founders = np.uint64(founders.shape[1])
        chunk = sources.shape[1] // 8  # bytes
        for c in numba.prange(sources.shape[0]):
            source, state = sources[c], states[c]
            first, last = c * chunk, min((c + 1) * chunk, out.shape[1])
            n_haplotypes = 8 * (last - first)
            for j in range(founders.shape[0]):
                allele = founders[j]
                state = step(state)
                h = gap(state, rates[j])
                while h < n_haplotypes:
                    state = step(state)
                    source[h] = (state >> np.uint64(32)) % n_founders
                    state = step(state)
                    h += 1 + gap(state, rates[j])
                for b in range(last - first):
                    word = 0
                    for place in range(4):
                        dosage = allele[source[8 * b + 2 * place]] + allele[source[8 * b + 2 * place + 1]]
                        word |= (dosage + (dosage >> 1)) << 2 * place
                    out[j, first + b] = 255 - word  # codes 3, 2, 0 of dosages 0, 1, 2
                state = step(state)
                h = gap(state, mutation)
                while h < n_haplotypes:
                    mate = allele[source[h ^ 1]]
                    dosage = mate + 1 - allele[source[h]]
                    shift = h & 6
                    code = 3 - (dosage + (dosage >> 1))
                    out[j, first + (h >> 3)] = (out[j, first + (h >> 3)] & ~(3 << shift)) | (code << shift)
                    state = step(state)
                    h += 1 + gap(state, mutation)
                state = step(state)
                i = gap(state, missing)
                while 2 * i < n_haplotypes:
                    shift = 2 * (i & 3)
                    out[j, first + (i >> 2)] = (out[j, first + (i >> 2)] & ~(3 << shift)) | (1 << shift)
                    state = step(state)
                    i += 1 + gap(state, missing)
            states[c] = state

    return copy


def simulate(
    folder: Path,
    seed: int,
    n_samples: int,
    n_variants: int,
    n_causal: int,
    n_wanted: int | None = None,
    h2: float = 0.5,
    n_founders: int = 1000,
    spacing: float = SPACING,
    prevalence: float | None = None,
) -> Cohort:
    """Write cohort.bed, .bim, .fam and .tsv to a folder.

    Parameters
    ----------
    h2 : float
        Share of causal variants in the variance of the trait beyond covariates.
    n_wanted : int, optional
        How many variants contenders are asked for; by default as many as are causal.
    prevalence : float, optional
        Share of cases: those with the largest traits. The trait is then 1 for cases and 0 for controls, in the table
        2 and 1. By default it is the number.
    """
    copy, rng = compiled(), np.random.default_rng([seed, 36])
    chromosome, position, morgans = genetic_map(n_variants, spacing, rng)
    founders, bed, stride = Founders(n_founders, rng), folder / "cohort.bed", -(-n_samples // 4)
    n_chunks, step = -(-n_samples // CHUNK), max(1, WINDOW_NBYTES // stride)
    sources = np.zeros((n_chunks, 2 * CHUNK), np.uint16)
    states = rng.integers(1, 2**63, n_chunks, np.uint64)
    causal = np.sort(rng.choice(n_variants, n_causal, replace=False))
    effects, genetic = rng.standard_normal(n_causal), np.zeros(n_samples)
    made = Cohort(bed, bed.with_suffix(".tsv"), chromosome, position, causal, effects, genetic, genetic, genetic, 0)
    with bed.open("wb") as file:
        file.write(b"\x6c\x1b\x01")
        window = np.empty((step, stride), np.uint8)
        for start in range(0, n_variants, step):
            stop = min(start + step, n_variants)
            alleles = np.empty((stop - start, n_founders), np.uint8)
            for j in range(start, stop):
                founders.shuffle(-np.expm1(-FOUNDER_GENERATIONS * morgans[j]))
                alleles[j - start] = founders.draw()
            rates = np.minimum(COPY_GENERATIONS * morgans[start:stop], 50.0)
            copy(alleles, rates, MUTATION, MISSING, sources, states, window)
            window[: stop - start].tofile(file)
    for k, j in enumerate(causal):
        genetic += effects[k] * standardised(made.dosages(np.array([j])))[:, 0]
    scale = np.sqrt(h2) / genetic.std()
    covariates = rng.standard_normal((n_samples, len(COVARIATES)))
    covariates[:, 0] = rng.uniform(40, 70, n_samples).round()
    covariates[:, 1] = rng.integers(0, 2, n_samples)
    of_covariates = standardised(covariates) @ rng.standard_normal(len(COVARIATES))
    noise = rng.standard_normal(n_samples) * np.sqrt(1 - h2)
    trait = np.sqrt(COVARIATE_VARIANCE) / of_covariates.std() * of_covariates + scale * genetic + noise
    if prevalence is not None:
        trait = (trait > np.quantile(trait, 1.0 - prevalence)).astype(np.float64)
    codes = [f"{value:.6f}" if prevalence is None else f"{1 + value:.0f}" for value in trait]
    is_test = rng.random(n_samples) < TEST_SHARE
    with bed.with_suffix(".bim").open("w") as text:
        places = zip(chromosome.tolist(), position.tolist(), strict=True)
        text.writelines(f"{one}\trs{j}\t0\t{place}\tA\tG\n" for j, (one, place) in enumerate(places))
    with bed.with_suffix(".fam").open("w") as text:
        text.writelines(f"{i} {i} 0 0 {2 - sex} -9\n" for i, sex in enumerate(covariates[:, 1].astype(int).tolist(), 1))
    with made.table.open("w") as text:
        text.write("\t".join(["FID", "IID", "trait", *COVARIATES]) + "\n")
        for i in range(n_samples):
            numbers = ["NA" if is_test[i] else codes[i], *(f"{value:.6g}" for value in covariates[i])]
            text.write("\t".join([str(i + 1), str(i + 1), *numbers]) + "\n")
    share = (effects * scale) ** 2
    n_wanted = n_causal if n_wanted is None else n_wanted
    return Cohort(bed, made.table, chromosome, position, causal, share, trait, covariates, is_test, n_wanted)


def standardised(X: np.ndarray) -> np.ndarray:
    """Return columns with mean 0 and variance 1, the mean for what is missing, and 0 for constants."""
    centred = X - np.nanmean(X, axis=0, dtype=np.float64)
    centred = np.where(np.isnan(centred), 0.0, centred)
    deviation = centred.std(axis=0)
    return centred / np.where(deviation > 0, deviation, 1.0)
