"""From a file to Zarr on disk: daskfs against dask.dataframe, pandas in chunks and Arrow, time and peak memory.

    python benchmarks/ingest.py [--size 500MB] [--n-features 50] [--memory-limit 512MiB] [--rounds 2] [--json out.json]

Each way runs in a process of its own, in turn, and writes all columns as float32. Only daskfs permutes the rows, keeps
names, statistics and checksums, and promises a memory limit. "once more" is a second time in a process that has loaded
and compiled what it needs, as in a session of work; "2,000 columns" an array of as many bytes. `--before CHECKOUT` runs
another version's "daskfs" in turn. CPU seconds of the process and its threads, of the best
round, without those of starting it (imports are in); peak is VmHWM. "Arrow, read only" writes nothing. Of workers the
CPU seconds are those that cannot be shared: of the process that asks, and of the worker that has most; what workers
have taken before they were asked is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyarrow import csv as arrow_csv

from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.cluster.open import parse_bytes

WORKERS = ("daskfs, 1 worker", "daskfs, 2 workers", "daskfs, 1 worker, once more", "daskfs, 2 workers, once more")
BEFORE = "daskfs before"
CSV = ("daskfs", "daskfs, rows as they come", "daskfs, once more", "dask.dataframe", "pandas in chunks", *WORKERS)
PARQUET = ("daskfs", "daskfs, rows as they come", "daskfs, once more", "Arrow, read only", *WORKERS)
ARRAY = (
    "daskfs",
    "daskfs, rows as they come",
    "daskfs, once more",
    "daskfs, 2,000 columns",
    "daskfs, 2,000 columns, once more",
)


def make_csv(path: Path, nbytes: int, n_features: int) -> None:
    """Write random numbers of 9 letters."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(n_features)]
    n_rows = nbytes // (9 * n_features + 8)
    with path.open("w") as file:
        file.write(",".join([*names, "y"]) + "\n")
        for start in range(0, n_rows, 20_000):
            block = rng.standard_normal((min(20_000, n_rows - start), n_features + 1))
            np.savetxt(file, block, fmt="%.5f", delimiter=",")


def make_parquet(path: Path, source: Path) -> None:
    """Write the same table as Parquet, row groups of 2^15 rows."""
    pq.write_table(arrow_csv.read_csv(source), path, row_group_size=2**15)


def make_array(path: Path, nbytes: int, n_features: int) -> None:
    """Write an array in single precision, with the targets as the last column."""
    rng = np.random.default_rng(0)
    np.save(path, rng.standard_normal((nbytes // (4 * n_features), n_features + 1), dtype=np.float32))


def convert(way: str, source: Path, target: Path, memory_limit: str) -> dict[str, float]:
    """Do it one way; return what it took."""
    workers_cpu_s = 0.0
    if way.startswith("daskfs"):
        from daskfs.cluster.open import open_cluster
        from daskfs.sources.ingest import ingest

        data, y = source, {"target": "y"}
        if source.suffix == ".npy":
            data = np.load(source)
            data, y = np.ascontiguousarray(data[:, :-1]), {"y": data[:, -1].copy()}
            if "2,000 columns" in way:
                data = data.reshape(-1)[: data.size // 2000 * 2000].reshape(-1, 2000)
                y = {"y": y["y"][: len(data)]}
        n_workers = int(way.split()[1]) if "worker" in way else 0
        with open_cluster("local" if n_workers else "none", n_workers) as cluster:
            shuffle = "as they come" not in way
            if "once more" in way:
                ingest(data, target.with_name("first"), **y, memory_limit=memory_limit, client=cluster.client)
            before = {} if cluster.client is None else cluster.client.run(time.process_time)
            start, cpu = time.perf_counter(), time.process_time()
            ingest(data, target, **y, shuffle=shuffle, memory_limit=memory_limit, client=cluster.client)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            if cluster.client is not None:
                after = cluster.client.run(time.process_time)
                workers_cpu_s = max(after[worker] - before[worker] for worker in after)
        return {"seconds": seconds, "cpu_s": cpu + workers_cpu_s}
    start, cpu = time.perf_counter(), time.process_time()
    if way == "dask.dataframe":
        import dask.dataframe as dd

        frame = dd.read_csv(str(source), blocksize="32MB")
        frame.astype("float32").to_dask_array(lengths=True).rechunk((16384, -1)).to_zarr(str(target))
    elif way == "Arrow, read only":
        with pq.ParquetFile(source) as table:
            for _ in table.iter_batches():
                pass
    else:
        import pandas as pd
        import zarr

        array = None
        for frame in pd.read_csv(source, chunksize=65536):
            block = frame.to_numpy(dtype="float32")
            if array is None:
                array = zarr.create_array(
                    str(target), shape=(0, block.shape[1]), chunks=(16384, block.shape[1]), dtype="float32"
                )
            array.append(block)
    return {"seconds": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}


def measure(way: str, source: Path, folder: Path, memory_limit: str, before: Path | None) -> dict:
    """Run one way in a fresh process."""
    command = [sys.executable, __file__, "--one", way, str(source), str(folder / "out.zarr"), memory_limit]
    paths = {"PYTHONPATH": str(before)} if way == BEFORE else {}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **paths})
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run it."""
    if sys.argv[1:2] == ["--one"]:
        way, source, target, limit = sys.argv[2:]
        figures = convert(way, Path(source), Path(target), limit)
        print(json.dumps({**figures, "peak_nbytes": peak_memory_nbytes()}))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="500MB", help="of the CSV file, and of the array")
    parser.add_argument("--n-features", type=int, default=50)
    parser.add_argument("--memory-limit", default="512MiB", help="of daskfs, beside the process itself")
    parser.add_argument("--rounds", type=int, default=2, help="of which the best counts")
    parser.add_argument("--files", type=Path, help="a folder in which the files are kept, and used again")
    parser.add_argument("--before", type=Path, help="a checkout of another version")
    parser.add_argument("--ways", default="", help="only those whose names match")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        files = options.files or Path(folder)
        csv, parquet, array = (files / name for name in ("table.csv", "table.parquet", "array.npy"))
        if not array.exists():
            files.mkdir(exist_ok=True)
            make_csv(csv, parse_bytes(options.size), options.n_features)
            make_parquet(parquet, csv)
            make_array(array, parse_bytes(options.size), options.n_features)
        print(f"{'from':<9}{'way':<34}{'s':>7}{'CPU s':>7}{'MB per CPU s':>14}{'peak MiB':>10}")
        for source, ways in ((csv, CSV), (parquet, PARQUET), (array, ARRAY)):
            rounds, ways = [], [way for way in ways if re.search(options.ways, way)]
            if options.before is not None:
                ways = [BEFORE, *ways]
            for _ in range(options.rounds):
                for way in ways:
                    with tempfile.TemporaryDirectory(dir=folder) as out:
                        rounds.append((way, measure(way, source, Path(out), options.memory_limit, options.before)))
            for way in ways:
                figures = min((one for name, one in rounds if name == way), key=lambda one: one["cpu_s"])
                results[f"{source.suffix[1:]}, {way}"] = figures
                rate, peak = source.stat().st_size / 1e6 / figures["cpu_s"], figures["peak_nbytes"] / 2**20
                print(
                    f"{source.suffix[1:]:<9}{way:<34}{figures['seconds']:>7.1f}{figures['cpu_s']:>7.2f}"
                    f"{rate:>14.0f}{peak:>10.0f}"
                )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
