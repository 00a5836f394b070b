"""Typed records: packed into arrays and back, whatever they hold."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.selectors.shared.record import Record, nbytes_of


@dataclass(frozen=True, slots=True)
class Leaf(Record):
    values: np.ndarray
    weight: float


@dataclass(frozen=True, slots=True)
class Tree(Record):
    leaves: tuple[Leaf, ...]
    best: Leaf | None
    n: int
    is_done: bool
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Wood(Record):
    trees: tuple[Tree, ...]
    heights: np.ndarray
    paths: list[np.ndarray]


arrays = st.lists(st.integers(-9, 9), max_size=3).map(lambda values: np.array(values, dtype=np.int64))
leaves = st.builds(Leaf, arrays, st.floats(allow_nan=False))
trees = st.builds(
    Tree,
    st.lists(leaves, max_size=3).map(tuple),
    st.none() | leaves,
    st.integers(-(2**40), 2**40),
    st.booleans(),
    st.none() | st.text("abc"),
)
woods = st.builds(Wood, st.lists(trees, max_size=4).map(tuple), st.just(np.arange(6.0).reshape(2, 3)), st.lists(arrays))


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, Record):
        for name in expected.__dataclass_fields__:
            assert_same(getattr(found, name), getattr(expected, name))
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected


@given(woods)
def test_a_record_is_what_it_was_after_packing_and_after_travelling(wood):
    packed = wood.pack()
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in packed.values())
    assert_same(Wood.unpack(packed), wood)
    assert_same(pickle.loads(pickle.dumps(wood)), wood)


def test_records_packed_together_are_as_many_arrays_as_one_has_fields():
    one, many = (
        Wood(tuple(Tree((Leaf(np.arange(k), 0.5),), None, k, True) for k in range(n)), np.ones(1), []) for n in (2, 99)
    )
    assert list(many.pack()) == list(one.pack())


@given(woods, woods)
def test_joined_records_have_the_arrays_of_both(first, second):
    both = Wood.joined([first, second])
    assert_same(both.trees, first.trees + second.trees)
    assert_same(both.paths, first.paths + second.paths)
    np.testing.assert_array_equal(both.heights, np.concatenate([first.heights, second.heights]))


def test_a_large_array_is_not_copied():
    leaf = Leaf(np.arange(1000.0), 1.0)
    assert leaf.pack()["values"] is leaf.values
    assert leaf.nbytes == 8 * 1000 + 8
    assert nbytes_of({"a": (leaf, np.ones(2)), "b": "text"}) == 8 * 1000 + 8 + 16


def test_a_checkpoint_that_lacks_a_field_is_not_taken_for_a_record():
    with pytest.raises(KeyError, match="weight"):
        Leaf.unpack({"values": np.ones(2)})
