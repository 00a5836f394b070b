"""The sketch as an object: decay, merge; files of models."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.errors import ConfigError, RunError
from daskfs.selectors.mission import count_sketch as mission_sketch
from daskfs.selectors.mission.count_sketch import CountSketch
from daskfs.selectors.mission.saved import FORMAT_VERSION, HASH_NAME, load_arrays, save_arrays
from tests.refusals import refused

KEYS = np.array([3, 2**40, 2**63 + 5], np.uint64)


def filled(seed=0, n_outputs=1, **shape):
    sketch = CountSketch(**{"n_buckets": 256, "seed": seed, "n_outputs": n_outputs, **shape})
    values = np.array([1.0, -2.0, 4.0])
    sketch.add(KEYS, values if n_outputs == 1 else values[:, None] * np.arange(1, n_outputs + 1))
    return sketch


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_few_elements_are_estimated_exactly(n_outputs):
    expected = np.array([1.0, -2.0, 4.0])
    found = filled(n_outputs=n_outputs).estimate(KEYS)
    np.testing.assert_array_equal(found, expected if n_outputs == 1 else expected[:, None] * [1, 2, 3])


def test_decay_is_that_of_every_element():
    sketch = filled()
    for _ in range(30):
        sketch.decay(0.7)
    np.testing.assert_allclose(sketch.estimate(KEYS), 0.7**30 * np.array([1.0, -2.0, 4.0]), rtol=1e-5)
    sketch.add(KEYS[:1], np.array([1.0]))
    assert sketch.estimate(KEYS[:1])[0] == pytest.approx(1.0 + 0.7**30, rel=1e-5)
    assert sketch.scale >= mission_sketch.SMALLEST_SCALE


def test_merging_adds_what_both_hold():
    first, second = filled(), filled()
    second.decay(0.5)
    first.merge(second)
    np.testing.assert_allclose(first.estimate(KEYS), [1.5, -3.0, 6.0])
    first.merge(second, share=1.0, own_share=0.0)
    np.testing.assert_allclose(first.estimate(KEYS), [0.5, -1.0, 2.0])


@pytest.mark.parametrize("other", [{"seed": 1}, {"n_buckets": 128}, {"n_hashes": 1}, {"n_outputs": 2}])
def test_sketches_of_another_seed_or_shape_are_not_merged(other):
    with refused(ConfigError, "sketches", at="merge", naming=["sketch"]):
        filled().merge(filled(**other))


@pytest.mark.parametrize("wrong", [{"n_buckets": 100}, {"n_buckets": 0}, {"n_hashes": 2}, {"n_buckets": 2**32}])
def test_shapes_that_cannot_be_are_refused(wrong):
    with pytest.raises(ConfigError):
        CountSketch(**{"n_buckets": 256, **wrong})


def test_the_norm_is_that_of_the_elements():
    rng = np.random.default_rng(0)
    sketch, values = CountSketch(1 << 14), rng.standard_normal(1000)
    sketch.add(np.arange(1000, dtype=np.uint64), values)
    assert sketch.norm() == pytest.approx(np.linalg.norm(values), rel=0.05)


def test_files_that_are_no_model_of_ours_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    with refused(RunError, "sketches", naming=["file"]):
        load_arrays(path)
    path.write_bytes(b"PK something else")
    with pytest.raises(RunError):
        load_arrays(path)
    np.savez(path, cells=np.zeros(3))
    with refused(RunError, "sketches", naming=["model"]):
        load_arrays(path)
    whole = {"cells": np.zeros(100), "format_version": np.int64(1), "hash": np.str_(HASH_NAME)}
    save_arrays(path, {**whole, "format_version": np.int64(FORMAT_VERSION + 1)})
    with refused(RunError, "sketches", naming=[str(FORMAT_VERSION + 1)]):
        load_arrays(path)
    save_arrays(path, {**whole, "hash": np.str_("murmur")})
    with refused(RunError, "sketches", naming=["mix64", "1"]):
        load_arrays(path)
    save_arrays(path, whole)
    assert load_arrays(path)["cells"].shape == (100,)
    assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(RunError):
        load_arrays(path)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    with refused(RunError, "sketches", naming=["cannot"]):
        save_arrays(tmp_path / "missing" / "model.npz", {"cells": np.zeros(3)})
    assert not list(tmp_path.iterdir())
