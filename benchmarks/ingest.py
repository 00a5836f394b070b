"""From a CSV file to Zarr on disk: daskfs against dask.dataframe and against pandas in chunks, time and peak memory.

    python benchmarks/ingest.py [--size 500MB] [--n-features 50] [--memory-limit 512MiB] [--json results.json]

Each way runs in a process of its own and writes all columns as float32. Only daskfs permutes the rows, keeps names,
statistics and checksums, and promises a memory limit. CPU seconds of the process and its threads; peak is VmHWM.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.cluster.open import parse_bytes

WAYS = ("daskfs", "daskfs, rows as they come", "dask.dataframe", "pandas in chunks")


def make_csv(path: Path, nbytes: int, n_features: int) -> int:
    """Write random numbers of 9 letters; return the number of rows."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(n_features)]
    n_rows = nbytes // (9 * n_features + 8)
    with path.open("w") as file:
        file.write(",".join([*names, "y"]) + "\n")
        for start in range(0, n_rows, 20_000):
            block = rng.standard_normal((min(20_000, n_rows - start), n_features + 1))
            np.savetxt(file, block, fmt="%.5f", delimiter=",")
    return n_rows


def convert(way: str, source: Path, target: Path, memory_limit: str) -> None:
    """Do it one way."""
    if way.startswith("daskfs"):
        from daskfs.sources.ingest import ingest

        ingest(source, target, target="y", shuffle=way == "daskfs", memory_limit=memory_limit)
    elif way == "dask.dataframe":
        import dask.dataframe as dd

        frame = dd.read_csv(str(source), blocksize="32MB")
        frame.astype("float32").to_dask_array(lengths=True).rechunk((16384, -1)).to_zarr(str(target))
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


def measure(way: str, source: Path, folder: Path, memory_limit: str) -> dict:
    """Run one way in a fresh process."""
    command = [sys.executable, __file__, "--one", way, str(source), str(folder / "out.zarr"), memory_limit]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run it."""
    if sys.argv[1:2] == ["--one"]:
        way, source, target, limit = sys.argv[2:]
        start, cpu = time.perf_counter(), time.process_time()
        convert(way, Path(source), Path(target), limit)
        figures = {"seconds": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
        print(json.dumps({**figures, "peak_nbytes": peak_memory_nbytes()}))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="500MB", help="of the CSV file")
    parser.add_argument("--n-features", type=int, default=50)
    parser.add_argument("--memory-limit", default="512MiB", help="of daskfs, beside the process itself")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "table.csv")
        n_rows = make_csv(source, parse_bytes(options.size), options.n_features)
        size = source.stat().st_size
        print(f"{size / 1e6:.0f} MB, {n_rows:,} rows x {options.n_features} columns; {options.memory_limit} for daskfs")
        print(f"{'way':<28}{'s':>7}{'CPU s':>7}{'MB per CPU s':>14}{'peak MiB':>10}")
        for way in WAYS:
            with tempfile.TemporaryDirectory(dir=folder) as out:
                figures = results[way] = measure(way, source, Path(out), options.memory_limit)
            rate = size / 1e6 / figures["cpu_s"]
            peak = figures["peak_nbytes"] / 2**20
            print(f"{way:<28}{figures['seconds']:>7.1f}{figures['cpu_s']:>7.1f}{rate:>14.0f}{peak:>10.0f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
