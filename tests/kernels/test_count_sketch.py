"""The count-sketch as a random object: what the literature promises of it, and the frozen hash."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.kernels.sketch.count_sketch import N_HASHES, add, estimate, mixed, positions, rows_of, seed_word

BUCKETS = 64


def places(keys, n_buckets, n_hashes, seed):
    buckets, signs = np.zeros((len(keys), n_hashes), np.int64), np.zeros((len(keys), n_hashes), np.int64)
    positions(np.asarray(keys, np.uint64), np.uint64(n_buckets), rows_of(n_hashes), seed_word(seed), buckets, signs)
    return buckets, signs


def sketch_of(keys, values, n_hashes, seed, n_buckets=BUCKETS):
    cells = np.zeros(n_hashes * n_buckets, np.float32)
    hashing = (np.uint64(n_buckets), rows_of(n_hashes), seed_word(seed))
    add(cells, *of_one_output(keys, hashing), np.asarray(values, np.float32)[:, None])
    return cells, hashing


def of_one_output(keys, hashing):
    return np.uint64(1), *hashing, np.asarray(keys, np.uint64), np.zeros(len(keys), np.uint64)


def estimates_of(cells, hashing, keys):
    estimates = np.empty((len(keys), 1), np.float32)
    estimate(cells, *of_one_output(keys, hashing), estimates)
    return estimates[:, 0]


GOLDEN_KEYS = [0, 1, 2, 12345, 2**31, 2**63 - 1, 2**64 - 2]
GOLDEN = {  # bucket times sign, of 2**20 buckets; written down once, never to change
    0: [
        [0, 0, 0, 0, 0],
        [338288, -973884, 435284, 859092, 962360],
        [997464, 578240, 339858, -674402, -5433],
        [-1022787, 408469, 492310, -733795, -549215],
        [996791, 1045133, -1024195, -820758, 404833],
        [276663, 320434, -100985, 616148, -579922],
        [28489, -455818, 454197, -444270, -416704],
    ],
    7: [
        [-110098, 981576, -958637, -222087, -346371],
        [-446835, -341757, -215784, 317165, -786349],
        [-826738, 214501, -349440, -569758, -127687],
        [941305, 332369, -765390, -20385, 874593],
        [-466481, -1019757, 142839, -1028860, -471703],
        [752584, -593163, 991406, 1021038, 250566],
        [741207, -1002318, -351863, 691954, -227314],
    ],
}


@pytest.mark.parametrize("seed", GOLDEN)
def test_buckets_and_signs_are_frozen(seed):
    buckets, signs = places(GOLDEN_KEYS, 2**20, 5, seed)
    np.testing.assert_array_equal(buckets * signs, GOLDEN[seed])


def test_the_first_hash_word_is_frozen():
    assert hex(mixed(np.uint64(12345), seed_word(0))) == "0x73763b95ec5f9b43"
    assert hex(seed_word(2**40)) == "0xab4daf7c2673f8"


@pytest.mark.parametrize("n_hashes", N_HASHES)
def test_add_and_estimate_do_what_the_positions_say(n_hashes):
    rng = np.random.default_rng(0)
    keys, values = rng.integers(0, 2**63, 500), rng.standard_normal(500)
    buckets, signs = places(keys, BUCKETS, n_hashes, seed=3)
    table = np.zeros((n_hashes, BUCKETS))
    for r in range(n_hashes):
        np.add.at(table[r], buckets[:, r], signs[:, r] * values)
    cells, hashing = sketch_of(keys, values, n_hashes, seed=3)
    np.testing.assert_allclose(cells.reshape(n_hashes, BUCKETS), table, atol=1e-5)  # float32 sums of about 8 numbers
    expected = np.median([signs[:, r] * table[r, buckets[:, r]] for r in range(n_hashes)], axis=0)
    np.testing.assert_allclose(estimates_of(cells, hashing, keys), expected, atol=1e-5)


@pytest.mark.parametrize("n_hashes", N_HASHES)
def test_an_estimate_is_unbiased_over_seeds(n_hashes):
    keys, values = np.arange(300), np.ones(300)
    values[0] = 5.0
    found = np.array([estimates_of(*sketch_of(keys, values, n_hashes, seed), keys[:1])[0] for seed in range(2000)])
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - 5.0) < 4 * error  # a sketch without signs is off by 300 / 64
    assert error < 0.06


def test_the_variance_of_one_row_is_at_most_the_energy_of_the_others_over_the_buckets():
    keys = np.arange(400)
    values = np.random.default_rng(1).standard_normal(400)
    found = np.array([estimates_of(*sketch_of(keys, values, 1, seed), keys[:1])[0] for seed in range(3000)])
    bound = np.square(values[1:]).sum() / BUCKETS
    assert np.square(found - values[0]).mean() < 1.1 * bound  # 4 standard deviations of the mean of 3,000 squares
    assert np.square(found - values[0]).mean() > 0.85 * bound


def test_more_rows_estimate_better():
    keys, values = np.arange(400), np.ones(400)
    errors = [
        np.mean([np.square(estimates_of(*sketch_of(keys, values, r, seed), keys) - 1.0).mean() for seed in range(20)])
        for r in N_HASHES
    ]
    assert errors[0] > 1.5 * errors[1] > 1.5 * errors[2]


def test_signs_say_nothing_of_buckets_and_rows_nothing_of_each_other():
    n = 64_000
    buckets, signs = places(np.arange(n), BUCKETS, 5, seed=0)
    for r in range(5):
        per_bucket = np.bincount(buckets[:, r], weights=signs[:, r], minlength=BUCKETS)
        counts = np.bincount(buckets[:, r], minlength=BUCKETS)
        assert np.square(per_bucket / np.sqrt(counts)).sum() < BUCKETS + 6 * np.sqrt(2 * BUCKETS)  # chi-squared
        assert np.square((counts - n / BUCKETS) / np.sqrt(n / BUCKETS)).sum() < BUCKETS + 6 * np.sqrt(2 * BUCKETS)
        for other in range(r):
            pairs = np.bincount(buckets[:, r] * BUCKETS + buckets[:, other], minlength=BUCKETS**2)
            expected = n / BUCKETS**2
            chi = (np.square(pairs - expected) / expected).sum()
            assert abs(chi - BUCKETS**2) < 6 * np.sqrt(2 * BUCKETS**2)
            assert abs((signs[:, r] * signs[:, other]).sum()) < 5 * np.sqrt(n)


@pytest.mark.parametrize("step", [1, 2**20, 2**32, 2**44])
def test_ids_in_steps_of_a_power_of_two_spread_as_well_as_any(step):
    keys = np.arange(16_000, dtype=np.uint64) * np.uint64(step)
    buckets, signs = places(keys, BUCKETS, 5, seed=0)
    for r in range(5):
        counts = np.bincount(buckets[:, r], minlength=BUCKETS)
        assert np.square((counts - 250) / np.sqrt(250)).sum() < BUCKETS + 6 * np.sqrt(2 * BUCKETS)
        assert abs(signs[:, r].sum()) < 5 * np.sqrt(16_000)


@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 2), st.integers(-100, 100)), min_size=1, max_size=40),
    st.sampled_from([0, 1, 2, 3]),
    st.sampled_from(N_HASHES),
)
def test_the_sketch_of_a_sum_is_the_sum_of_the_sketches(entries, cut, n_hashes):
    keys, values = zip(*entries, strict=True)
    k = cut * len(keys) // 3
    whole, _ = sketch_of(keys, values, n_hashes, seed=1)
    parts = [sketch_of(keys[part], values[part], n_hashes, seed=1)[0] for part in (slice(0, k), slice(k, None))]
    np.testing.assert_array_equal(whole, parts[0] + parts[1])  # whole numbers: exact in float32


def test_the_identity_holds_every_element():
    cells = np.zeros(10, np.float32)
    hashing = (np.uint64(10), rows_of(0), seed_word(0))
    add(cells, *of_one_output([3, 9, 3], hashing), np.array([[1.0], [2.0], [0.5]], np.float32))
    np.testing.assert_array_equal(cells, [0, 0, 0, 1.5, 0, 0, 0, 0, 0, 2])
    np.testing.assert_array_equal(estimates_of(cells, hashing, [9, 0]), [2.0, 0.0])


@pytest.mark.parametrize("n_hashes", [1, 3, 5])
def test_ghosts_come_as_the_law_says(n_hashes):
    from daskfs.selectors.mission.capacity import expected_ghosts

    n_heavy, n_ids, n_buckets = 200, 100_000, 4096
    rng = np.random.default_rng(0)
    keys = rng.permutation(n_ids + n_heavy)
    values = rng.choice([-1.0, 1.0], n_heavy)
    cells, hashing = sketch_of(keys[:n_heavy], values, n_hashes, seed=0, n_buckets=n_buckets)
    ghosts = int((np.abs(estimates_of(cells, hashing, keys[n_heavy:])) >= 0.5).sum())
    law = expected_ghosts(n_ids, n_heavy, n_buckets, n_hashes)
    assert abs(ghosts - law) < 5 * np.sqrt(law) + 0.1 * law  # the law leaves out second collisions
