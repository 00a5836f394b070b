"""The sketch as an object: decay, merge, files; names as ids."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.errors import ConfigError, DataError, RunError
from daskfs.selectors.mission import count_sketch as mission_sketch
from daskfs.selectors.mission.count_sketch import CountSketch, ids_of_names, names_of_ids, save_arrays
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


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_saved_sketch_is_loaded_as_it_was(tmp_path, n_outputs):
    sketch = filled(seed=9, n_outputs=n_outputs)
    sketch.decay(0.25)
    sketch.save(tmp_path / "sketch.npz")
    loaded = CountSketch.load(tmp_path / "sketch.npz")
    assert loaded.is_like(sketch)
    np.testing.assert_array_equal(loaded.estimate(KEYS), sketch.estimate(KEYS))
    assert [path.name for path in tmp_path.iterdir()] == ["sketch.npz"]


def test_files_that_are_no_sketch_of_ours_are_refused(tmp_path):
    path = tmp_path / "sketch.npz"
    with refused(RunError, "sketches", naming=["file"]):
        CountSketch.load(path)
    path.write_bytes(b"PK something else")
    with pytest.raises(RunError):
        CountSketch.load(path)
    np.savez(path, cells=np.zeros(3))
    with refused(RunError, "sketches", naming=["sketch"]):
        CountSketch.load(path)
    whole = {**filled().to_arrays(), "format_version": np.int64(1), "hash": np.str_(mission_sketch.HASH_NAME)}
    save_arrays(path, {**whole, "format_version": np.int64(2)})
    with refused(RunError, "sketches", naming=["2"]):
        CountSketch.load(path)
    save_arrays(path, {**whole, "hash": np.str_("murmur")})
    with refused(RunError, "sketches", naming=["mix64", "1"]):
        CountSketch.load(path)
    save_arrays(path, {**whole, "cells": np.zeros((5, 1), np.float32)})
    with refused(RunError, "sketches", naming=["damaged"]):
        CountSketch.load(path)
    save_arrays(path, whole)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(RunError):
        CountSketch.load(path)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    with refused(RunError, "sketches", naming=["cannot"]):
        filled().save(tmp_path / "missing" / "sketch.npz")
    assert not list(tmp_path.iterdir())


def test_ids_of_names_are_frozen():
    expected = ["0xb4b2797457a0a6e4", "0x734852d20975e6be", "0xd8205061b72151bc"]
    assert [hex(number) for number in ids_of_names(["", "x0", "été"])] == expected


def test_the_number_of_a_free_slot_is_never_an_id(monkeypatch):
    class Digest:
        def digest(self):
            return b"\xff" * 8

    monkeypatch.setattr(mission_sketch.hashlib, "blake2b", lambda *_, **__: Digest())
    assert int(ids_of_names(["any"])[0]) == 2**64 - 2


def test_selected_ids_get_their_names_back():
    names = ["a", "b", "c", "b"]
    assert names_of_ids(ids_of_names(["c", "b"]), names) == ["c", "b"]
    with refused(DataError, "shapes", at="names", naming=["none"]):
        names_of_ids(ids_of_names(["d"]), names)


def test_two_names_of_one_selected_id_are_refused(monkeypatch):
    monkeypatch.setattr(mission_sketch, "ids_of_names", lambda names: np.array([len(n) for n in names], np.uint64))
    assert names_of_ids(np.array([1], np.uint64), ["a", "bb", "cc"]) == ["a"]
    with refused(DataError, "shapes", at="names", naming=["'bb'", "'cc'"]):
        names_of_ids(np.array([2], np.uint64), ["a", "bb", "cc"])
