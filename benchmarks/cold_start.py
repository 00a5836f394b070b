"""What starting costs: imports and commands, each selector's first fit on a machine, and its first in a later process.

Imports and commands by their CPU seconds, the best of five. Then each of the five selectors, with the loss of numbers
and the logistic one, on a tall and a wide matrix of dense float32 in memory, with a cache of its own:

    python benchmarks/cold_start.py [method ...] [--before CHECKOUT] [--imports | --fits | --cold]

The columns are the functions compiled (for Python, and for other kernels), CPU seconds and seconds of the first fits in
a process that compiles them, of those in one that loads them (both without importing daskfs), and the seconds that
compiling ahead takes with two processes side by side, importing and all. `--cold` stops after the first fits' CPU
and adds, where there is `perf`, the billions of instructions of the whole process, which other work does not change.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import resource
import shutil
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
options = {name: size for name, size in SIZES.items() if name in names} | {"loss": sys.argv[2]}
rng = np.random.default_rng(0)
started, cpu = time.perf_counter(), time.process_time()
for n_samples, n_features in (TALL, WIDE):
    X = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    y = X[:, 0] + rng.standard_normal(n_samples)
    y = np.where(y > 0, 1.0, -1.0) if sys.argv[2] == "logistic" else y
    method(**options).fit(X, y.astype(np.float64))
print(json.dumps([time.perf_counter() - started, time.process_time() - cpu]))
"""
AHEAD = """
import sys
from daskfs.pipeline.compile_ahead import compile_ahead
compile_ahead([{"method": sys.argv[1], "loss": sys.argv[2]}], "float32")
"""
METHODS = ["message", "online_substitution", "async_online_substitution", "fgm", "mission"]


PIPELINES = ("message", "quickstart")
STARTS = {
    "import daskfs; daskfs.Message": ["-c", "import daskfs; daskfs.Message"],
    "daskfs --help": ["-m", "daskfs", "--help"],
    **{
        f"daskfs {command} {name}.yaml": ["-m", "daskfs", command, str(ROOT / "pipelines" / f"{name}.yaml")]
        for command in ("validate", "plan")
        for name in PIPELINES
    },
}


def cpu_of(arguments: list[str], checkout: Path) -> float:
    """Return the CPU seconds that a process takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    subprocess.run([sys.executable, *arguments], env=environment, cwd=checkout, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def run(
    code: str, method: str, loss: str, cache: Path, checkout: Path = ROOT, counted_by: tuple[str, ...] = ()
) -> tuple[list[float], float]:
    """Return what a process prints, and the seconds it takes."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(checkout)}
    started = time.perf_counter()
    command = [*counted_by, sys.executable, "-c", code, method, loss]
    done = subprocess.run(command, env=environment, cwd=checkout, check=True, capture_output=True, text=True)
    return json.loads(done.stdout or "[]"), time.perf_counter() - started


def main(methods: list[str], before: Path | None, imports: bool, fits: bool, cold_alone: bool) -> None:
    """Print a line for each start, then for each method."""
    checkouts = [ROOT] if before is None else [before.resolve(), ROOT]
    for name, arguments in STARTS.items() if not (fits or cold_alone) else ():
        rounds = [[cpu_of(arguments, one) for one in checkouts] for _ in range(5)]
        best = [min(times) for times in zip(*rounds, strict=True)]
        print(f"{name:40}" + "".join(f"{seconds:8.2f}" for seconds in best), flush=True)
    if imports:
        return
    print(f"{'method':38}{'functions':>10}{'cold CPU s':>12}{'cold s':>8}{'warm s':>8}{'ahead s':>9}")
    for method, loss, checkout in itertools.product(methods, ("squared", "logistic"), checkouts):
        with tempfile.TemporaryDirectory() as folder:
            counts = Path(folder) / "counts"
            counter = ("perf", "stat", "-x,", "-e", "instructions:u", "-o", str(counts))
            counted_by = counter if cold_alone and shutil.which("perf") else ()
            (cold, cpu), _ = run(FIT, method, loss, Path(folder) / "fit", checkout, counted_by)
            n_compiled = len([*Path(folder).rglob("*.nbc")])
            if cold_alone:
                counted = counts.read_text().split("\n\n")[-1].split(",")[0] if counted_by else ""
                billions = int(counted) / 1e9 if counted.isdigit() else math.nan  # some machines count nothing
                print(f"{method:28}{loss:10}{n_compiled:10}{cpu:12.1f}{billions:8.1f}", flush=True)
                continue
            (warm, _), _ = run(FIT, method, loss, Path(folder) / "fit", checkout)
            _, ahead = run(AHEAD, method, loss, Path(folder) / "ahead", checkout)
        print(f"{method:28}{loss:10}{n_compiled:10}{cpu:12.1f}{cold:8.1f}{warm:8.2f}{ahead:9.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--before", type=Path, help="another checkout, whose line stands above ours")
    parser.add_argument("--imports", action="store_true", help="imports and commands only")
    parser.add_argument("--fits", action="store_true", help="fits only")
    parser.add_argument("--cold", action="store_true", help="the CPU seconds of first fits only")
    given = parser.parse_args()
    main(given.methods, given.before, given.imports, given.fits, given.cold)
