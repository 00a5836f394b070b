"""Damage of a sparse store: every byte of every kind of file."""

from __future__ import annotations

import re

import numpy as np
import pytest

from daskfs.errors import CorruptStoreError
from daskfs.store.feature_store import open_store
from tests.refusals import refused
from tests.store.sparse.lab import blocks_of, named_ids, random_matrix, small_cuts, written


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A small store that has every array, in several chunks."""
    with pytest.MonkeyPatch.context() as patch:
        small_cuts(patch)
        X, ids = random_matrix(90, 20, 0.1), np.arange(20, dtype=np.uint64) * 12345 + 1
        X = X.tolil()
        X[0, :] = 1.0
        named = named_ids(ids[:9], [f"name{j}" for j in range(9)])
        path = tmp_path_factory.mktemp("damage") / "s.zarr"
        yield written(path, blocks_of(X.tocsr(), ids, np.arange(90.0), named=named), has_ids=True, target_names=["y"])


ARRAYS = (
    "X/offsets", "X/values", "X/columns", "X/counts", "X/blocks", "X/lengths", "X/marks", "ids", "names/text",
    "names/ends", "names/columns", "statistics/mean", "statistics/std", "statistics/minimum", "statistics/maximum",
    "target", "source_rows",
)  # fmt: skip


def test_these_are_all_arrays(store):
    assert {path.parent.relative_to(store.path).as_posix() for path in store.path.rglob("zarr.json")} == {
        *ARRAYS, "X", "names", "statistics", ".",
    }  # fmt: skip


@pytest.mark.slow_cases("every_byte")
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("most", [16, 1 << 30], ids=["some_bytes", "every_byte"])
def test_a_byte_that_is_flipped_and_an_end_that_is_missing_are_found_and_its_chunk_named(store, name, most):
    for path in sorted((store.path / name / "c").rglob("*")):
        if not path.is_file():
            continue
        good = path.read_bytes()
        try:
            for k in range(0, len(good), max(1, len(good) // most)):
                path.write_bytes(good[:k] + bytes([good[k] ^ 0x10]) + good[k + 1 :])
                assert re.search(rf"{name} chunk \(\d", _found(store, name)), k
            for k in range(0, len(good), max(7, len(good) // most)):
                path.write_bytes(good[:k])
                assert re.search(rf"{name} chunk \(\d", _found(store, name)), k
            path.unlink()
            (line, *_) = store.verify()
            assert re.search(rf"{name} chunk \(\d.* is missing", line)
            path.write_bytes(good + b"x")
            assert len(store.verify()) >= 1
        finally:
            path.write_bytes(good)
    assert store.verify() == []


def _found(store, name):
    """Return what reading all chunks of an array says."""
    reader = store._arrays[name].open()
    for tile in np.ndindex(*reader.grid_shape):
        try:
            reader.check_tile(*tile)
        except CorruptStoreError as fault:
            return str(fault)
    return ""


@pytest.mark.parametrize("name", ["X/offsets", "X/values", "X/columns", "X/counts"])
def test_reading_stops_at_damage_by_rows_and_by_columns(store, name):
    path = store.path / name / "c" / "0"
    good = path.read_bytes()
    try:
        path.write_bytes(bytes([good[0] ^ 1]) + good[1:])
        for read in ("sparse_rows", "sparse_columns", "read"):
            with refused(CorruptStoreError, "damaged-stores", naming=[name, "0", "daskfs verify"]):
                getattr(open_store(store.path), read)(slice(None))
        (line,) = store.verify()
        assert f"{name} chunk (0)" in line
    finally:
        path.write_bytes(good)
