"""A plan says which steps decode tiles again and again; what it says ends that does."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.facts import facts_of
from daskfs.pipeline.plan import plan_pipeline
from daskfs.pipeline.rereading import ENOUGH, least_memory, other_tiles
from daskfs.pipeline.run import run_pipeline
from daskfs.store.tile_reader import TileReader


def pipeline_of(write, shape, select, limit="1GiB", output=None, **store):
    n_samples, n_features = shape
    document = {
        "version": 1,
        "name": "wide",
        "source": {"kind": "synthetic", "n_samples": n_samples, "n_features": n_features},
        "store": {"dtype": "float32", **store},
        "select": select,
        "cluster": {"kind": "none", "memory_limit": limit},
    }
    return load_pipeline(write(document if output is None else document | {"output": output}))


def planned(pipeline):
    return plan_pipeline(pipeline, facts_of(pipeline))


WIDE = (40_000, 400_000)
MISSION = {"method": "mission", "n_features_to_select": 20, "n_epochs": 1, "loss": "squared"}
SCREEN = {"method": "online_substitution", "n_features_to_select": 20, "n_epochs": 1, "schedule": "screen"}


def test_memory_that_a_plan_names_ends_the_reading_again(write):
    plan = planned(pipeline_of(write, WIDE, MISSION, "550MiB"))
    (again,) = plan.rereadings
    assert (again.step, again.times > 2.0 * again.least) == ("mission", True)
    assert "again    mission: each tile is decoded" in plan.to_text()
    (limit,) = re.findall(r"cluster\.memory_limit: (\d+MiB)", again.to_text())
    assert not planned(pipeline_of(write, WIDE, MISSION, limit)).rereadings


@pytest.mark.parametrize("select", [SCREEN, SCREEN | {"schedule": "turns"}], ids=["screen", "turns"])
def test_tiles_that_a_plan_names_end_the_reading_again(write, select):
    if select["schedule"] == "turns":
        select = {"method": "async_online_substitution", "n_features_to_select": 20, "n_epochs": 1}
    (again,) = planned(pipeline_of(write, WIDE, select)).rereadings
    (shape,) = re.findall(r"store\.tile_shape: \[(\d+), (\d+)\]", again.to_text())
    tiles = [int(length) for length in shape]
    assert not planned(pipeline_of(write, WIDE, select, tile_shape=tiles)).rereadings


@pytest.mark.nightly
def test_a_run_with_the_tiles_that_were_named_decodes_each_about_once(write, tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.pipeline.plan.REPORTED_NBYTES", 0)
    counted, strips = Counter(), TileReader._strips

    def counting(reader, i, j, tile):
        counted[reader.name] += 1
        return strips(reader, i, j, tile)

    monkeypatch.setattr(TileReader, "_strips", counting)
    shape = (600, 6000)
    select = SCREEN | {"block_columns": 16}
    times = []
    tiles = [60, 3000]
    for _ in range(2):
        name = f"run-{len(times)}"
        places = {"path": str(tmp_path / f"{name}.zarr"), "tile_shape": tiles}
        pipeline = pipeline_of(write, shape, select, output=str(tmp_path / name), **places)
        plan = planned(pipeline)
        counted.clear()
        run_pipeline(pipeline)
        times.append(counted["X"] / (-(-shape[0] // tiles[0]) * -(-shape[1] // tiles[1])))
        if plan.rereadings:
            (found,) = re.findall(r"store\.tile_shape: \[(\d+), (\d+)\]", plan.rereadings[0].to_text())
            tiles = [int(length) for length in found]
    assert not plan.rereadings
    assert times[0] > 4 * times[1]


def test_little_that_is_read_again_is_not_told(write):
    assert not planned(pipeline_of(write, (600, 6000), SCREEN)).rereadings


@pytest.mark.parametrize("least", [130, 700, 1599])
def test_least_memory_is_enough_and_little_more_than_that(least):
    found = least_memory(100, lambda n: n >= least)
    assert least <= found <= least + max(1, found // 8) + 1


def test_memory_that_nobody_has_is_no_remedy():
    assert least_memory(100, lambda n: n >= 1601) is None


def test_other_tiles_have_as_many_values_and_fit():
    for rows, columns in other_tiles((64, 4096), 5000, 100_000):
        assert rows * columns <= 64 * 4096
        assert rows <= 5000
        assert columns <= 100_000
    assert ENOUGH < 2.0
