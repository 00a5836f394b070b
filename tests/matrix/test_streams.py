"""Streams: blocks cover the matrix, no buffer is overwritten under a reader's hands, splits depend on the data only."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.errors import ConfigError, PlanError
from daskfs.matrix.base import Matrix, RowView
from daskfs.matrix.blocks import as_slice
from daskfs.matrix.buffers import BufferPool, block_length
from daskfs.matrix.names import Names
from daskfs.matrix.streaming import prefetched
from tests.refusals import refused


class Table(Matrix):
    """A matrix in memory that records what is read."""

    def __init__(self, n_samples=100, n_features=7, order=None, tile_shape=(8, 3)):
        self.X = np.arange(n_samples * n_features, dtype=np.float32).reshape(n_samples, n_features)
        self.shape, self.dtype = self.X.shape, self.X.dtype
        self.order, self._tile_shape, self.given = order, tile_shape, None
        self.reads = []

    tile_shape = property(lambda self: self._tile_shape)
    names = property(lambda self: Names(self.shape[1], self.given))
    source_rows = property(lambda self: self.order)

    def read(self, rows, columns=slice(None), out=None):
        self.reads.append((rows, columns))
        block = self.X[rows][:, columns]
        if out is None:
            return block.copy()
        out[...] = block
        return out

    def read_target(self, rows=slice(None)):
        return self.X[rows, 0].astype(np.float64)

    def labels(self, name):
        if name != "fold":
            return super().labels(name)
        return np.where(np.arange(self.shape[0]) % 4 == 0, "test", "train")


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 3))
def test_row_blocks_cover_the_matrix_whatever_their_size(n_samples, block_rows, prefetch):
    table = Table(n_samples)
    blocks = list(table.row_blocks(block_rows=block_rows, prefetch=prefetch))
    assert np.array_equal(np.vstack([block.X for block in blocks]), table.X)
    assert np.array_equal(np.concatenate([block.y for block in blocks]), table.X[:, 0])
    assert [block.start for block in blocks] == list(range(0, n_samples, block_rows))


@given(st.integers(1, 20), st.integers(1, 30))
def test_column_blocks_cover_the_matrix_whatever_their_size(n_features, block_columns):
    table = Table(11, n_features)
    blocks = list(table.column_blocks(block_columns=block_columns))
    assert np.array_equal(np.hstack([block.X for block in blocks]), table.X)


def test_row_blocks_of_some_columns():
    table = Table()
    columns = np.array([5, 0, 2])
    blocks = list(table.row_blocks(columns=columns, block_rows=30))
    assert np.array_equal(np.vstack([block.X for block in blocks]), table.X[:, columns])


def test_a_block_that_is_kept_is_never_overwritten():
    table = Table(64)
    kept = [block.X for block in table.row_blocks(block_rows=8)]
    assert np.array_equal(np.vstack(kept), table.X)


def test_a_block_that_is_let_go_is_read_into_again():
    pool = BufferPool()
    addresses = set()
    for _ in range(10):
        block = pool.take((16, 4), np.dtype("f8"))
        addresses.add(block.ctypes.data)
        del block
    assert len(addresses) == 1


def test_a_view_of_a_block_keeps_its_buffer():
    pool = BufferPool()
    view = pool.take((16, 4), np.dtype("f8"))[3:4, 1:]
    view[...] = 7
    pool.take((16, 4), np.dtype("f8"))[...] = 0
    assert (view == 7).all()


def test_blocks_are_sized_from_the_memory_limit_in_whole_tiles():
    table = Table(n_samples=1000, n_features=7, tile_shape=(8, 3))
    limit = 2 * 7 * 4 * 30  # two buffers of 30 rows
    sizes = [block.X.shape[0] for block in table.row_blocks(memory_limit=limit)]
    assert set(sizes[:-1]) == {24}
    assert max(block.X.nbytes for block in table.row_blocks(memory_limit=limit)) * 2 <= limit


@given(st.integers(1, 10**7), st.integers(1, 10**6), st.integers(1, 4096), st.integers(1, 2**34), st.integers(1, 3))
def test_every_block_length_keeps_its_memory_promise(length, item_nbytes, tile_length, limit, n_buffers):
    try:
        n_items = block_length(length, item_nbytes, tile_length, limit, n_buffers, "row")
    except PlanError:
        assert n_buffers * item_nbytes > limit
    else:
        assert 1 <= n_items <= length
        assert n_items * item_nbytes * n_buffers <= limit


def test_a_limit_below_one_row_names_the_size_that_would_do():
    with refused(PlanError, "memory-limit", at="memory_limit", naming=["56"]):
        next(Table(n_features=7).row_blocks(memory_limit=50))


def test_the_next_block_is_read_while_the_present_one_is_used():
    second_is_read = threading.Event()

    def read(k):
        if k == 1:
            second_is_read.set()
        return k

    results = prefetched(read, range(5), depth=1)
    assert next(results) == 0
    assert second_is_read.wait()
    assert list(results) == [1, 2, 3, 4]


def test_an_error_while_reading_ahead_reaches_the_reader():
    def read(k):
        if k == 2:
            raise OSError("disk gone")
        return k

    results = prefetched(read, range(5), depth=2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(OSError, match="disk gone"):
        next(results)


def test_a_reader_that_stops_early_ends_the_reading():
    table = Table(1000)
    blocks = table.row_blocks(block_rows=1)
    next(blocks)
    blocks.close()
    assert len(table.reads) < 10


def test_delayed_blocks_read_where_they_run():
    import dask

    table = Table()
    blocks = list(table.row_blocks(block_rows=30, delayed=True))
    assert table.reads == []
    assert blocks[1].key.startswith("row-block-0001")
    computed = dask.compute(*blocks, scheduler="threads")
    assert np.array_equal(np.vstack([block.X for block in computed]), table.X)
    columns = dask.compute(*table.column_blocks(block_columns=2, delayed=True), scheduler="synchronous")
    assert np.array_equal(np.hstack([block.X for block in columns]), table.X)


def test_to_dask_array_is_lazy_and_slices_like_numpy():
    table = Table()
    lazy = table.to_dask_array(block_rows=16)
    assert table.reads == []
    assert lazy.chunks == ((16,) * 6 + (4,), (7,))
    assert np.array_equal(lazy.compute(scheduler="synchronous"), table.X)
    assert np.array_equal(lazy[5, :].compute(scheduler="synchronous"), table.X[5])
    assert np.array_equal(lazy[10:90:7, [3, 1]].compute(scheduler="synchronous"), table.X[10:90:7, [3, 1]])
    assert float(lazy.sum().compute(scheduler="synchronous")) == table.X.sum()


def test_a_view_shows_the_rows_asked_for():
    table = Table()
    view = table.take(np.array([9, 3, 3, 50]))
    assert view.shape == (4, 7)
    assert np.array_equal(view.read(slice(1, 4), slice(2, 4)), table.X[[3, 3, 50], 2:4])
    assert np.array_equal(view.read_target(), table.X[[9, 3, 3, 50], 0])
    again = view.take(np.array([False, True, False, True]))
    assert isinstance(again, RowView)
    assert again.base is table
    assert np.array_equal(again.rows, [3, 50])


def test_every_matrix_has_names_and_a_target():
    table = Table()
    assert list(table.names) == [f"x{j}" for j in range(7)]
    table.given = np.array(list("abcdefg"), dtype=object)
    view = table.take(np.array([4, 2]))
    assert list(view.names) == list("abcdefg")
    assert np.array_equal(view.target, table.X[[4, 2], 0])


def test_consecutive_rows_of_a_view_are_read_as_a_slice():
    view = Table().take(np.arange(20, 60))
    assert view.at(5, 10) == slice(25, 30)
    assert np.array_equal(Table().take(np.array([5, 4, 3])).at(0, 3), [5, 4, 3])


@pytest.mark.parametrize("rows", [[3, 5, 4], [3, 3, 4], [5, 4, 3], [0, 2, 2]])
def test_rows_out_of_order_are_no_slice(rows):
    assert isinstance(as_slice(np.array(rows)), np.ndarray)


def test_a_random_split_does_not_depend_on_the_order_of_the_store():
    order = np.random.default_rng(3).permutation(100)
    plain, permuted = Table(), Table(order=order)
    _, test = plain.split(0.25, by="random", random_state=5)
    train_permuted, test_permuted = permuted.split(0.25, by="random", random_state=5)
    expected = np.random.default_rng(5).permutation(100)[:25]
    assert set(test.rows) == set(expected)
    assert set(test_permuted.source_rows) == set(expected)
    assert set(train_permuted.rows) | set(test_permuted.rows) == set(range(100))
    assert len(train_permuted.rows) == 75


def test_a_split_by_order_tests_on_the_last_rows_of_the_source():
    order = np.random.default_rng(3).permutation(100)
    _, test = Table(order=order).split(0.1, by="order")
    assert set(test.source_rows) == set(range(90, 100))


def test_a_split_by_a_column_tests_on_the_rows_it_marks():
    train, test = Table().split("test", by="fold")
    assert set(test.rows) == set(range(0, 100, 4))
    assert train.shape[0] == 75
    _, both = Table(8).split(["test"], by="fold")
    assert len(both.rows) == 2


@pytest.mark.parametrize(
    ("test", "by", "match"),
    [
        (1.5, "random", "proportion between 0 and 1, found 1.5"),
        (0, "order", "proportion between 0 and 1"),
        (True, "random", "proportion between 0 and 1"),
        ("test", "group", "no column 'group'"),
        ("nothing", "fold", "0 for testing"),
    ],
)
def test_a_split_that_cannot_be_made_says_why(test, by, match):
    with pytest.raises(ConfigError, match=match):
        Table().split(test, by=by)


def test_a_split_of_one_row_leaves_a_side_empty():
    with refused(ConfigError, "parameters", at="split", naming=["0", "1"]):
        Table(1).split(0.2)
