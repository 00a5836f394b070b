from __future__ import annotations

import gc

import pytest

pytestmark = pytest.mark.nightly


def test_the_benchmark_of_reading_runs(load, monkeypatch):
    monkeypatch.setattr(gc, "collect", int)  # half a second each in a process that holds thousands of tests
    benchmark = load("store_read")
    results = benchmark.run(1, repeats=1)
    for codec in ("raw", "lz4"):
        assert {"daskfs, dense block", "zarr-python"} <= set(results[codec])
        assert all(speed > 0 for speeds in results[codec].values() for speed in speeds.values())
        assert "/memmap" in benchmark.table(results[codec], codec)
