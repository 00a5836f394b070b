"""What online substitution reads, also where it is resumed, and what it holds."""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from daskfs.errors import PlanError
from daskfs.pipeline.checkpoint import Checkpoint
from daskfs.selectors.online_substitution.plan import REFIT_NBYTES
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from daskfs.selectors.shared.budget import TILES_NBYTES, DataShape
from daskfs.sources.ingest import ingest
from tests.contract.lab import assert_same_bits
from tests.refusals import refused

KINDS = [
    {"rule": "exchange"},
    {"rule": "os"},
    {"rule": "paper", "engine": "naive"},
    {"rule": "exchange", "loss": "logistic"},
    {"rule": "os", "loss": "squared_hinge"},
    {"rule": "exchange", "engine": "lazy", "order": "shuffled"},
    {"rule": "exchange", "feature_groups": np.arange(300) // 4, "ridge": 0.0},
    {"rule": "exchange", "loss": "logistic", "feature_groups": np.arange(300) % 90, "counts": "features"},
    {"rule": "os", "loss": "squared_hinge", "feature_groups": np.arange(300) // 2, "block_columns": 16},
]


def kind_name(kind):
    return "-".join(value if isinstance(value, str) else name for name, value in kind.items())


def make_arrays(dtype=np.float32):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((240, 300)).astype(dtype)
    y = X[:, [3, 80, 200, 299]].astype(float) @ [2.0, -1.0, 1.0, 0.5] + rng.standard_normal(240)
    return X, y


def target_for(kind, y):
    return np.sign(y) if kind.get("loss") in ("logistic", "squared_hinge") else y


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    X, y = make_arrays()
    folder = tmp_path_factory.mktemp("substitution")
    found = {}
    for name, target in (("numbers", y), ("classes", np.sign(y))):
        options = {"y": target, "dtype": "float32", "random_state": 0}
        found[name] = ingest(X, folder / f"{name}.zarr", tile_shape=(64, 40), **options)
        found[f"{name}, other tiles"] = ingest(X, folder / f"{name}-2.zarr", tile_shape=(240, 7), **options)
    return found


def store_for(kind, stores, more=""):
    name = "classes" if kind.get("loss") in ("logistic", "squared_hinge") else "numbers"
    return stores[name + more]


def selector_of(kind, **options):
    return OnlineSubstitution(10, **kind, **options)


class Killed(Exception):
    pass


class Interrupting:
    """Advances until it is told to stop."""

    def __init__(self, after):
        self.left = after

    def start(self, name, total):
        pass

    def advance(self, k=1):
        self.left -= k
        if self.left < 0:
            raise Killed

    def finish(self):
        pass


@pytest.mark.slow_cases("paper", "squared_hinge")
@pytest.mark.parametrize("kind", KINDS, ids=kind_name)
@pytest.mark.parametrize("after", [2, 9, 12])
def test_an_interrupted_selection_ends_with_the_same_bits(stores, tmp_path, kind, after):
    store = store_for(kind, stores)
    options = {"always_include": [5], "n_epochs": 3}
    expected = selector_of(kind, **options).fit(store)
    checkpoint = Checkpoint(tmp_path)
    with pytest.raises(Killed):
        selector_of(kind, **options).fit_matrix(store, checkpoint=checkpoint, progress=Interrupting(after))
    read = CountingMatrix(store)
    resumed = selector_of(kind, **options).fit_matrix(read, checkpoint=checkpoint)
    assert_same_bits(resumed, expected)
    assert read.n_columns < 300 * expected.n_epochs_


class CountingMatrix:
    """Counts the columns that are read, or what else they count."""

    def __init__(self, matrix, counted=None):
        self._matrix, self._counted, self.n_columns = matrix, counted, 0

    def __getattr__(self, name):
        return getattr(self._matrix, name)

    def read(self, rows, columns=slice(None), out=None):
        block = self._matrix.read(rows, columns, out)
        self.n_columns += block.shape[1] if self._counted is None else self._counted(columns)
        return block


def test_an_epoch_reads_every_column_once(stores):
    read = CountingMatrix(stores["numbers"])
    selector = OnlineSubstitution(10, n_epochs=2).fit_matrix(read)
    assert read.n_columns == 300 * selector.n_epochs_


@pytest.mark.slow
def test_groups_that_are_neighbours_are_read_about_once(tmp_path):
    """Counted in tiles: a group that two tiles share is read with both. Scattered ones take as wide blocks as fit."""
    X = np.random.default_rng(0).standard_normal((6000, 1200)).astype(np.float32)
    store = ingest(X, tmp_path / "s.zarr", y=X[:, 0], tile_shape=(2048, 40))
    n_tiles, tiles_of = 30, lambda columns: len(np.unique(np.arange(1200)[columns] // 40))
    for labels, most in ((np.arange(1200) // 7, 1.3), (np.arange(1200) % 100, 1.0)):
        read = CountingMatrix(store, tiles_of)
        OnlineSubstitution(2, feature_groups=labels, n_epochs=1).fit_matrix(read)
        assert read.n_columns == n_tiles if most == 1.0 else n_tiles <= read.n_columns <= most * n_tiles


def test_a_limit_that_is_too_small_is_refused_with_what_would_fit():
    plan = OnlineSubstitution(100).plan(100_000, 5000, "float32", None)
    assert plan.n_passes == 3
    with pytest.raises(PlanError, match=r"allow at least .* select at most \d+ features") as fault:
        OnlineSubstitution(100).plan(100_000, 5000, "float32", 70 << 20)
    fits = int(str(fault.value).rpartition("at most ")[2].split()[0])
    assert 0 < fits < 100
    OnlineSubstitution(fits, block_columns=64).plan(100_000, 5000, "float32", 70 << 20)


@pytest.mark.parametrize(("options", "may_come_back"), [({"loss": "logistic"}, True), ({}, False)], ids=str)
def test_columns_that_a_batch_replaces_are_kept_where_it_may_be_undone(options, may_come_back):
    plan = OnlineSubstitution(100, block_columns=64, **options).plan(2_000_000, 1_000, "float32", None)
    kept = plan.client.terms.get("columns that may come back")
    assert kept == (64 * 2_000_000 * 4 if may_come_back else None)


def test_the_block_never_dominates():
    selector = OnlineSubstitution(100)
    selector.loss_ = "squared"
    shape = selector._shape(DataShape(500_000, 10**6, np.dtype(np.int8), (16_384, 128)))
    assert shape.batch <= 100
    assert OnlineSubstitution(100).plan(500_000, 2_000_000, "int8", 700_000_000).client_nbytes < 700_000_000


@pytest.mark.slow
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("float32", {"loss": "squared"}),
        ("int8", {"loss": "squared"}),
        ("float32", {"loss": "logistic"}),
        ("int8", {"loss": "squared_hinge", "rule": "os"}),
        ("int8", {"loss": "squared", "engine": "lazy"}),
        ("int8", {"loss": "squared", "schedule": "screen"}),
    ],
)
def test_buffers_are_those_of_the_plan(tmp_path, dtype, options, limited):
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (40_000, 512)).astype(np.int8)
    y = np.sign(X[:, :10].sum(axis=1) + rng.standard_normal(40_000))
    store = ingest(X, tmp_path / "s.zarr", y=y, dtype=dtype, tile_shape=(2048, 256))
    plan = OnlineSubstitution(8, **options).plan(40_000, 512, dtype, None, tile_shape=(2048, 256))
    limit = int(max(plan.task_nbytes, plan.client_nbytes) * 0.8) if limited else None
    selector = OnlineSubstitution(8, memory_limit=limit, **options)
    OnlineSubstitution(8, n_epochs=1, **options).fit(store.take(np.arange(50)))  # loads and compiles
    tracemalloc.start()
    try:
        selector.fit(store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    promised = selector.result_.memory["promised_nbytes"]["client"]
    assert peak <= promised <= (limit or promised)
    assert peak > 128 * 40_000 * selector._columns().dtype_of(dtype).itemsize


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("options", [{}, {"schedule": "screen"}, {"feature_groups": np.arange(6) // 2}], ids=str)
def test_tall_data_are_planned_with_the_columns_that_they_have(tmp_path, loss, options):
    """Batches have 32 columns and screens 256: of six, six are held."""
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (200_000, 6)).astype(np.int8)
    y = np.sign(X[:, :2].sum(axis=1) + rng.standard_normal(len(X)))
    store = ingest(X, tmp_path / "s.zarr", y=y, dtype="int8")
    options = {"n_features_to_select": 2, "loss": loss} | options
    OnlineSubstitution(**options).fit(store.take(np.arange(500)))  # loads and compiles
    tracemalloc.start()
    try:
        selector = OnlineSubstitution(**options).fit(store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    promised = selector.result_.memory["promised_nbytes"]["client"]
    assert peak <= promised
    assert promised - REFIT_NBYTES - TILES_NBYTES <= 2 * peak


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*although constant")
@pytest.mark.parametrize(
    ("dtype", "is_scattered", "options"),
    [
        pytest.param("float32", False, {"loss": "squared"}, marks=pytest.mark.nightly),
        ("int8", True, {"loss": "logistic", "counts": "features", "n_features_to_select": 100}),
        pytest.param("float32", False, {"loss": "squared_hinge", "rule": "os"}, marks=pytest.mark.nightly),
        ("int8", True, {"loss": "squared", "schedule": "screen"}),
    ],
)
def test_buffers_of_groups_are_those_of_the_plan(tmp_path, dtype, is_scattered, options):
    """Of 90 columns and of one, at the least limit; some columns are constant."""
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (6000, 512)).astype(np.int8)
    X[:, ::50] = 1
    y = np.sign(X[:, :10].sum(axis=1) + rng.standard_normal(6000))
    labels = np.concatenate([np.repeat(np.arange(4), 90), np.arange(4, 156)])
    labels = rng.permutation(labels) if is_scattered else labels
    options = {"n_features_to_select": 4, "n_epochs": 2, "feature_groups": labels} | options
    store = ingest(X, tmp_path / "s.zarr", y=y, dtype=dtype, tile_shape=(2048, 64))
    with refused(PlanError, "memory-limit", at="memory_limit") as fault:
        OnlineSubstitution(**options).plan(6000, 512, dtype, 1, tile_shape=(2048, 64))
    limit = int(re.search(r"allow at least ([\d,]+) bytes", str(fault.value))[1].replace(",", ""))
    OnlineSubstitution(**options).fit(store.take(np.arange(600)))  # loads and compiles
    tracemalloc.start()
    try:
        selector = OnlineSubstitution(memory_limit=limit, **options).fit(store)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    promised = selector.result_.memory["promised_nbytes"]["client"]
    assert peak <= promised <= limit


MEASURED = """
import sys, numpy as np
from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from daskfs.store.feature_store import open_store
store = open_store(sys.argv[1])
small = OnlineSubstitution(4, rule=sys.argv[2], loss=sys.argv[3]).fit_matrix(store.take(np.arange(100)))
before = peak_memory_nbytes()
selector = OnlineSubstitution(24, rule=sys.argv[2], loss=sys.argv[3], memory_limit=int(sys.argv[4])).fit(store)
print(peak_memory_nbytes() - before, selector.result_.memory["promised_nbytes"]["client"])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "loss"),
    [
        ("exchange", "squared"),
        pytest.param("exchange", "logistic", marks=pytest.mark.nightly),
        pytest.param("os", "squared_hinge", marks=pytest.mark.nightly),
    ],
)
def test_the_memory_promised_is_held(tmp_path, rule, loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, 192)).astype(np.float32)
    y = np.sign(X[:, :30].sum(axis=1) + rng.standard_normal(60_000))
    ingest(X, tmp_path / "s.zarr", y=y, dtype="float32", tile_shape=(4096, 32))
    limit = OnlineSubstitution(24, rule=rule, loss=loss).plan(60_000, 192, "float32", None).client_nbytes
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "s.zarr"), rule, loss, str(limit)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rise, promised = map(int, done.stdout.split())
    assert rise <= promised <= limit
    assert rise > 24 * 60_000 * 4  # the members at least
