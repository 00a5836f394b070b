"""Sparse stores with one column, and one row, that have more entries than all others: what plans promise is kept."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daskfs import FGM, Message, Mission, OnlineSubstitution
from daskfs.baselines import OrthogonalMatchingPursuit
from daskfs.matrix.blocks import Heaviest
from daskfs.selectors.shared.budget import DataShape
from daskfs.sources.ingest import ingest

N, P = 60_000, 20_000
BESIDE_NBYTES = 6 << 20
"""What planning itself, threads and logs take."""
METHODS = {
    "message": Message(n_subsets=4, max_features=5),
    "online_substitution": OnlineSubstitution(4, n_epochs=1),
    "fgm": FGM(n_features_to_select=4, n_features_per_pass=2, loss="squared"),
    "mission": Mission(4, n_epochs=1, loss="squared", n_buckets=4096),
    "omp": OrthogonalMatchingPursuit(2),
}


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 3))
def test_no_rows_have_more_entries_than_is_said(counts, n_pieces):
    heaviest, most = Heaviest.of_counts(np.array_split(np.array(counts, int), n_pieces)), sorted(counts)[::-1]
    for n in range(len(counts) + 2):
        assert heaviest.of(n) >= sum(most[:n])
        if n.bit_count() == 1 and n <= len(counts):
            assert heaviest.of(n) == sum(most[:n])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A full column, a full row, and three entries in each of the others."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.arange(N), np.full(P, 17), rng.integers(0, N, 3 * P)])
    columns = np.concatenate([np.zeros(N, int), np.arange(P), np.repeat(np.arange(P), 3)])
    X = sp.csr_array((rng.standard_normal(len(rows)).astype(np.float32), (rows, columns)), shape=(N, P))
    y = X[:, [0]].toarray().ravel() + 0.1 * rng.standard_normal(N)
    return ingest(X, tmp_path_factory.mktemp("crowded") / "s.zarr", y=y)


def test_a_store_says_how_unevenly_its_entries_lie(store):
    found = store.crowding()
    lengths = store.entry_counts()
    assert found.rows.of(1) == lengths.max() >= P
    assert found.columns.of(1) == N
    assert found.block >= P
    shape = DataShape.of(store)
    assert shape.columns_nbytes(1) >= 8 * N
    assert shape.columns_nbytes(100) < 2 * shape.columns_nbytes(1)


@pytest.mark.slow
@pytest.mark.slow_cases("omp", "message", "online_substitution")
@pytest.mark.parametrize("name", METHODS)
def test_a_fit_takes_no_more_than_was_promised(store, name):
    selector = METHODS[name]
    known = {"tile_shape": store.tile_shape, "n_entries": store.n_entries, "crowding": store.crowding()}
    plan = selector.plan(*store.shape, store.dtype, 512 << 20, **known)
    selector.set_params(memory_limit=max(plan.task_nbytes, plan.client_nbytes))
    selector.fit(store)  # kernels are compiled, modules loaded
    tracemalloc.start()
    try:
        selector.fit(store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 in selector.selected_
    assert peak <= plan.task_nbytes + plan.client_nbytes + BESIDE_NBYTES, (peak, plan.task.terms, plan.client.terms)


@pytest.mark.slow
def test_a_full_column_among_short_ones_is_read_within_what_is_planned_for_it(tmp_path):
    n, p = 700_000, 2000
    rows = np.concatenate([np.arange(n), np.arange(3 * p)])
    columns = np.concatenate([np.full(n, 7), np.repeat(np.arange(p), 3)])
    X = sp.coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(n, p)).tocsr()
    store = ingest(X, tmp_path / "s.zarr", memory_limit="128MiB")
    shape = DataShape.of(store)
    store.sparse_columns(slice(0, 2))
    tracemalloc.start()
    try:
        assert len(store.sparse_columns(slice(0, 20)).indices) > n
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert replace(shape, crowding=None).columns_nbytes(20) < peak / 4
    assert peak <= shape.columns_nbytes(20) + shape.tiles_nbytes
