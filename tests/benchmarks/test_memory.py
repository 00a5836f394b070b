"""The benchmark that holds the memory of processes against what was promised, of few data."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from benchmarks import process_memory


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["threads", "local", "address"])
def test_processes_take_no_more_than_promised_where_there_are_few_data(kind, tmp_path):
    """The promise is that of processes alone, ours and those that others have started as Dask's documentation says."""
    limit = 2048 * process_memory.MIB
    running = process_memory.running_cluster(tmp_path, limit) if kind == "address" else nullcontext(("", []))
    with running as (address, others):
        options = process_memory.CLUSTERS[kind] | {"memory_limit": limit} | ({"address": address} if address else {})
        for method in ("screen", "message"):
            found = process_memory.peaks(tmp_path, "few", method, options, others, longest_s=300)
            assert "error" not in found, found
            for process, measured in found["measured_nbytes"].items():
                promised = found["promised_nbytes"]["client" if process == "client" else "worker"]
                assert measured <= promised, (method, process)
