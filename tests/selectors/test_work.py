"""What plans count is what fits do: tiles that are decoded, each time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from daskfs import FGM, AsyncOnlineSubstitution, Message, Mission, OnlineSubstitution, ingest
from daskfs.errors import PlanError
from daskfs.matrix.spans import Spans
from daskfs.pipeline.cost import MEASURED, SHARED
from daskfs.selectors.mission.reading import Cuts, pieces_of
from daskfs.selectors.mission.rounds import PassOrder
from daskfs.selectors.shared.work import Grid, added, n_tiles_touched, of_newton, of_refit
from daskfs.store.tile_reader import TileReader
from tests.tolerances import assert_same_answer, tolerance_of

N, P = 3000, 150


@pytest.fixture
def decoded(monkeypatch):
    """Count the tiles that readers decode, by array."""
    counted = Counter()
    strips = TileReader._strips

    def counting(reader, i, j, tile):
        counted[reader.name] += 1
        return strips(reader, i, j, tile)

    monkeypatch.setattr(TileReader, "_strips", counting)
    return counted


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Stores of the same values in tiles of several shapes; informative columns in every tile."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("work")
    X = rng.standard_normal((N, P), dtype=np.float32)
    y = X[:, ::15].sum(axis=1) + rng.standard_normal(N)
    shapes = (256, 150), (700, 64), (1024, 40)
    return [ingest(X, folder / f"{k}.zarr", y=y, tile_shape=shape) for k, shape in enumerate(shapes)]


METHODS = [
    Message(subset_size=500, loss="squared"),
    Message(n_subsets=7, loss="squared"),
    OnlineSubstitution(10, n_epochs=1),
    OnlineSubstitution(10, n_epochs=1, block_columns=13),
    OnlineSubstitution(40, n_epochs=1, schedule="screen"),
    OnlineSubstitution(10, n_epochs=1, schedule="screen", block_columns=20),
    OnlineSubstitution(4, n_epochs=2, schedule="screen", block_columns=4),
    AsyncOnlineSubstitution(10, schedule="synchronous", n_epochs=1),
    Mission(10, n_epochs=1, n_candidates=60),
    Mission(30, n_epochs=3, block_rows=500),
    Mission(10, n_epochs=2, standardize=False),
    Mission(10, n_epochs=2, block_rows=300, refit="sgd", n_candidates=None),
    Mission(10, n_epochs=2, block_rows=300, n_replicas=3, sync_every=130),
    Mission(10, n_epochs=2, block_rows=70, n_replicas=3, sync_every=200),
]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("selector", METHODS, ids=repr)
def test_a_plan_counts_the_tiles_that_a_fit_decodes(selector, number, stores, decoded, monkeypatch):
    store = stores[number]
    decoded.clear()
    selector.fit(store)
    # A plan does not know in how many tiles beside each other the columns of the refit lie: all else is exact.
    n_met_by_selected = len(np.unique(selector.selected_ // store.tile_shape[1]))
    monkeypatch.setattr(Grid, "tiles_touched_by", lambda grid, k: n_met_by_selected if k < 60 else grid.n_across)
    work = selector.plan(N, P, "float32", None, tile_shape=store.tile_shape, has_statistics=True).work
    counted = added(work.by_tasks, work.in_client)["values read"]
    assert counted == decoded["X"] * np.prod(store.tile_shape)


@pytest.mark.parametrize("number", range(3))
def test_a_plan_of_fgm_counts_the_tiles_of_passes_and_of_groups_at_most(number, stores, decoded):
    store, selector = stores[number], FGM(20, n_features_per_pass=5, loss="squared")
    work = selector.plan(N, P, "float32", None, tile_shape=store.tile_shape, has_statistics=True).work
    decoded.clear()
    selector.fit(store)
    tile, passes, n_across = np.prod(store.tile_shape), selector.n_passes_, -(-P // store.tile_shape[1])
    scored = work.by_tasks["values read"] / tile
    assert scored == 4 * -(-N // store.tile_shape[0]) * n_across  # four passes of five columns
    assert 0 <= decoded["X"] - scored * passes / 4 <= passes * work.by_tasks["values read for groups"] / tile


@pytest.mark.parametrize("seed", range(40))
def test_tiles_that_blocks_meet_are_those_that_are_found_one_by_one(seed):
    rng = np.random.default_rng(seed)
    length, width, tile, block = (int(one) for one in rng.integers(1, (400, 50, 60, 90)))
    for within in (None, block):
        cuts = range(0, length, within or length)
        pieces = [(a, min(a + width, start + (within or length), length)) for start in cuts
                  for a in range(start, min(start + (within or length), length), width)]  # fmt: skip
        met = sum((stop - 1) // tile - start // tile + 1 for start, stop in pieces)
        assert n_tiles_touched(length, width, tile, within) == met


def test_more_pieces_than_can_be_looked_at_are_counted_all_the_same():
    assert n_tiles_touched(10**9, 1, 2048, 4096) == pytest.approx(10**9, rel=1e-3)


def test_columns_that_may_be_any_lie_in_as_many_tiles_as_drawn_ones():
    grid = Grid(100, 1000, 10, 50)
    rng = np.random.default_rng(0)
    found = [len(np.unique(rng.choice(1000, 12) // 50)) for _ in range(4000)]
    assert grid.tiles_touched_by(12) == pytest.approx(np.mean(found), rel=0.01)
    assert Grid(100, 30, 10, 50).tiles_touched_by(3) == 1.0


def test_a_refit_of_columns_that_no_client_keeps_is_the_workers():
    small, large = (of_refit(Grid(n, 100, 1000, 100), 20, 4, "squared") for n in (10**5, 10**8))
    assert not small[0]
    assert not large[1]
    assert large[0]["products refitted"] == 10**8 * 20**2
    assert large[0]["values read"] == pytest.approx(2 * 10**8 * 100, rel=0.03)  # once for means, once for products


def test_losses_without_a_closed_form_have_work_of_their_own():
    assert not of_newton(10, 3, "squared").keys() & of_newton(10, 3, "logistic").keys()
    assert of_newton(10, 3, "squared").keys() | of_newton(10, 3, "logistic").keys() < SHARED


@pytest.mark.parametrize("n_entries", [None, 600_000])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("method", [FGM, Message, Mission, OnlineSubstitution, AsyncOnlineSubstitution])
def test_no_core_is_asked_for_what_nobody_has_measured(method, loss, n_entries):
    told = {"tile_shape": (2048, 512), "n_entries": n_entries}
    work = method(loss=loss).plan(20_000, 3000, "float32", None, **told).work
    if n_entries and not issubclass(method, FGM | Mission):
        assert work is None  # nobody has measured it
    else:
        assert MEASURED.seconds(method.method, added(work.by_tasks, work.in_client)) > 0.0


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("n_rows", [1, 100, 300, 2000])
def test_mission_decodes_as_often_as_its_limit_says_and_finds_the_same(number, n_rows, stores, decoded, monkeypatch):
    store, told = stores[number], {"tile_shape": stores[number].tile_shape, "has_statistics": True}
    settings = {"n_epochs": 2, "block_rows": 500, "refit": "sgd", "n_candidates": None, "n_buckets": 64}
    free = Mission(5, **settings).fit(store)
    with pytest.raises(PlanError) as refusal:
        Mission(5, **settings).plan(N, P, "float32", 1, **told)
    limit = refusal.value.needed_nbytes + n_rows * P * 4
    plan = Mission(5, **settings).plan(N, P, "float32", limit, **told)
    decoded.clear()
    kept = Mission(5, memory_limit=limit, **settings).fit(store)
    assert_same_answer(kept, free, tolerance_of("mission"))
    assert plan.work.by_tasks["values read"] == decoded["X"] * np.prod(store.tile_shape)
    assert plan.task_nbytes <= limit


def test_mission_decodes_each_tile_once_a_pass_of_a_store_as_wide_as_a_block_of_rows(stores, decoded):
    store, settings = stores[0], {"n_epochs": 3, "block_rows": 1024, "n_candidates": None, "refit": None}
    decoded.clear()
    Mission(5, standardize=False, **settings).fit(store)
    n_tiles = -(-N // store.tile_shape[0])
    assert decoded["X"] == 3 * n_tiles + n_tiles  # and once for the survey, which looks at all of these rows


@pytest.mark.parametrize("seed", range(30))
def test_pieces_are_the_rows_of_blocks_in_their_order(seed):
    rng = np.random.default_rng(seed)
    order, tile, most = PassOrder(900, 70, 1, 1, seed), int(rng.integers(1, 200)), int(rng.integers(1, 400))
    spans = Spans.within(tile, most)
    blocks = [slice(a, b) for units, _ in order.rounds(1) for a, b in units[0]]
    if seed % 3 == 1:
        blocks = [np.sort(rng.choice(900, 50, replace=False)) for _ in range(5)]
    if seed % 3 == 2:
        blocks = [rng.permutation(900)[:50] for _ in range(5)]
    pieces = [*pieces_of(blocks, Cuts(int(rng.integers(1, 90)), spans))]
    numbers = [np.arange(900)[piece.rows] for piece in pieces]
    np.testing.assert_array_equal(np.concatenate(numbers), np.concatenate([np.arange(900)[one] for one in blocks]))
    ends = np.cumsum([len(one) for one in numbers])[[piece.ends_block for piece in pieces]]
    np.testing.assert_array_equal(ends, np.cumsum([len(np.arange(900)[one]) for one in blocks]))
    for piece, found in zip(pieces, numbers, strict=True):
        span = np.arange(900)[piece.span]
        assert len(span) <= spans.part
        np.testing.assert_array_equal(span[piece.within], found)
        if seed % 3 < 2:
            assert len({spans.of(int(row)) for row in span}) == 1


@pytest.mark.parametrize("n_replicas", [1, 4])
@pytest.mark.parametrize("sync_every", [33, 70, 200])
def test_bounds_of_a_pass_are_those_of_its_rounds(n_replicas, sync_every):
    order = PassOrder(1000, 70, n_replicas, sync_every, 5)
    for number in range(3):
        units = [unit for units, _ in order.rounds(number) for unit in units]
        found = []
        for unit in units:
            starts = [k for k, (a, _) in enumerate(unit) if not k or a != unit[k - 1][1]]
            found += [(unit[k][0], unit[stop - 1][1]) for k, stop in zip(starts, [*starts[1:], len(unit)], strict=True)]
        assert sorted(zip(*(one.tolist() for one in order.bounds(number)), strict=True)) == sorted(found)
