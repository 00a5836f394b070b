"""What compiling costs: each selector's first fit on a machine, and its first fit in a later process.

Each of the five, on a tall and a wide matrix of dense float32 in memory, with a cache of its own:

    python benchmarks/cold_start.py [method ...]

The columns are the functions compiled (for Python, and for other kernels), CPU seconds and seconds of the first fits in
a process that compiles them, of those in one that loads them (both without importing daskfs), and the seconds that
compiling ahead takes with two processes side by side, importing and all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIT = """
import json, sys, time
import numpy as np
from daskfs.methods import find_method
from daskfs.pipeline.compile_ahead import SIZES, TALL, WIDE

method = find_method(sys.argv[1])
names = method().get_params()
options = {name: size for name, size in SIZES.items() if name in names}
rng = np.random.default_rng(0)
started, cpu = time.perf_counter(), time.process_time()
for n_samples, n_features in (TALL, WIDE):
    X = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    y = np.where(X[:, 0] > 0, 1.0, -1.0) if sys.argv[1] == "fgm" else X[:, 0] + rng.standard_normal(n_samples)
    method(**options).fit(X, y.astype(np.float64))
print(json.dumps([time.perf_counter() - started, time.process_time() - cpu]))
"""
AHEAD = """
import sys
from daskfs.pipeline.compile_ahead import compile_ahead
compile_ahead([{"method": sys.argv[1]}], "float32")
"""
METHODS = ["message", "online_substitution", "async_online_substitution", "fgm", "mission"]


def run(code: str, method: str, cache: Path) -> tuple[list[float], float]:
    """Return what a process prints, and the seconds it takes."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    command = [sys.executable, "-c", code, method]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout or "[]"), time.perf_counter() - started


def main(methods: list[str]) -> None:
    """Print a line for each method."""
    print(f"{'method':28}{'functions':>10}{'cold CPU s':>12}{'cold s':>8}{'warm s':>8}{'ahead s':>9}")
    for method in methods:
        with tempfile.TemporaryDirectory() as folder:
            (cold, cpu), _ = run(FIT, method, Path(folder) / "fit")
            n_compiled = len([*Path(folder).rglob("*.nbc")])
            (warm, _), _ = run(FIT, method, Path(folder) / "fit")
            _, ahead = run(AHEAD, method, Path(folder) / "ahead")
        print(f"{method:28}{n_compiled:10}{cpu:12.1f}{cold:8.1f}{warm:8.2f}{ahead:9.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or METHODS)
