"""How often FGM decodes the tiles of a store: counted in the reader, and held against the plan."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.pipeline.checks import check_pipeline
from daskfs.pipeline.config import Pipeline
from daskfs.pipeline.facts import facts_of
from daskfs.pipeline.plan import plan_pipeline
from daskfs.selectors.fgm.selector import FGM
from daskfs.selectors.shared.budget import TILES_NBYTES
from daskfs.sources.ingest import ingest
from daskfs.store.feature_store import FeatureStore, open_store
from tests.tolerances import FLOAT32, assert_same_answer

N, P = 1100, 60
OPTIONS = {"n_features_to_select": 6, "n_features_per_pass": 1, "loss": "squared_hinge", "C": 0.05, "debias": False}
TILES = [(300, 7), (256, 60), (1100, 5), (64, 64), (1, 60)]


def make(dtype=np.float32):
    rng = np.random.default_rng(0)
    X = (10.0 * rng.standard_normal((N, P))).astype(dtype)
    return X, np.where(X[:, :12].astype(float) @ rng.random(12) > 0.0, 1.0, -1.0)


@pytest.fixture
def asked(monkeypatch):
    """The columns that each task reads for the client: of the first group, and of others that were not foreseen."""
    columns_of_tasks, read = [], FeatureStore.read

    def counted(self, rows, columns=slice(None), out=None):
        if isinstance(columns, np.ndarray):
            columns_of_tasks.append(columns.tolist())
        return read(self, rows, columns, out)

    monkeypatch.setattr(FeatureStore, "read", counted)
    return columns_of_tasks


def nbytes_of(store, tiles):
    return len(tiles) * store.tile_shape[0] * store.tile_shape[1] * store.dtype.itemsize


def assert_as_planned(plan, store, decoded, asked, n_stored=N):
    """Groups are of one column: the first is read, and those that were not foreseen, which the plan does not know."""
    assert 1 <= len(asked) <= 6
    column_nbytes = -(-n_stored // store.tile_shape[0]) * np.prod(store.tile_shape) * store.dtype.itemsize
    assert nbytes_of(store, decoded) == plan.read_nbytes + (len(asked) - 1) * column_nbytes


def fit_of(store, **more):
    found = FGM(**(OPTIONS | more)).fit(store)
    assert found.n_passes_ == 6
    return found


@pytest.mark.slow
@pytest.mark.parametrize("tile_shape", TILES)
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_the_plan_tells_what_is_decoded(tmp_path, decoded, asked, tile_shape, dtype):
    X, y = make(dtype)
    store = ingest(X, tmp_path / "m.zarr", y=y, tile_shape=tile_shape)
    decoded.clear()
    fit_of(store)
    plan = FGM(**OPTIONS).plan(N, P, store.dtype, None, tile_shape=store.tile_shape, n_stored=N, has_statistics=True)
    assert plan.n_passes == 6
    assert_as_planned(plan, store, decoded, asked)
    assert len(asked) <= 2
    grid = store.tiles.grid_shape
    assert len(decoded) == (6 * grid[1] + len(asked)) * grid[0], "once in a pass, and where those columns lie"


@pytest.mark.parametrize("rows", ["split", "ascending", "falling"])
def test_rows_of_a_store_cost_what_their_tiles_do(tmp_path, decoded, asked, rows):
    X, y = make()
    store = ingest(X, tmp_path / "m.zarr", y=y, tile_shape=(100, 7))
    numbers = np.flatnonzero(np.random.default_rng(1).random(N) < 0.5)
    numbers = numbers[numbers < 700] if rows == "ascending" else numbers
    part = store.split(0.3)[0] if rows == "split" else store.take(numbers[::-1] if rows == "falling" else numbers)
    decoded.clear()
    fit_of(part)
    n_stored = {"split": N, "ascending": 700, "falling": N}[rows]
    plan = FGM(**OPTIONS).plan(part.shape[0], P, "float32", None, tile_shape=(100, 7), n_stored=n_stored)
    assert plan.n_passes == 7, "one for the statistics of these rows"
    assert_as_planned(plan, store, decoded, asked, n_stored)
    assert (len(asked) == 6) == (rows == "falling"), "such rows are read in pieces, here in one, and nothing is kept"


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_limit_that_has_tiles_decoded_twice_is_said_and_counted(tmp_path, decoded, asked, n_threads):
    X, y = make()
    store = ingest(X, tmp_path / "m.zarr", y=y, tile_shape=(300, 60))
    size = (N, P, "float32")
    more = {"n_threads": n_threads, "tile_shape": (300, 60), "n_stored": N, "has_statistics": True}
    roomy = FGM(**OPTIONS).plan(*size, None, **more)
    assert "decode tiles" not in roomy.text
    limit = TILES_NBYTES + 24 * N + 64 * 7 + 2 * 4 * N + 48 * 20  # the sums of 20 columns
    tight = FGM(**OPTIONS).plan(*size, limit, **more)
    assert tight.task_nbytes <= limit
    assert "over blocks of 20 columns, which decode tiles 3 times because of the memory limit" in tight.text
    decoded.clear()
    fitted = fit_of(store, memory_limit=limit)
    assert_as_planned(tight, store, decoded, asked)
    assert tight.read_nbytes > roomy.read_nbytes
    assert_same_answer(fitted, fit_of(store), FLOAT32)


@pytest.mark.parametrize("by", [None, "random", "order"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_plan_of_a_pipeline_tells_it_too(tmp_path, decoded, asked, by, shuffle):
    X, y = make()
    ingest(X, tmp_path / "m.zarr", y=y, tile_shape=(100, 7), shuffle=shuffle)
    data = {"store": {"path": str(tmp_path / "m.zarr")}, "split": None if by is None else {"test": 0.4, "by": by}}
    document = {"version": 1, "name": "n", "output": str(tmp_path), **data}
    pipeline = Pipeline.model_validate(document | {"select": {"method": "fgm", **OPTIONS}})
    check_pipeline(pipeline)
    step = next(step for step in plan_pipeline(pipeline, facts_of(pipeline)).steps if step.name == "fgm")
    store = open_store(tmp_path / "m.zarr")
    decoded.clear()
    fit_of(store if by is None else store.split(0.4, by)[0])
    assert step.n_passes == 6 + (by is not None)
    assert_as_planned(step, store, decoded, asked, 660 if by == "order" and not shuffle else N)
