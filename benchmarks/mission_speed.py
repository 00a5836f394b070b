"""Millions of non-zeros per CPU-second: Mission, the paper's algorithm with its heap, Vowpal Wabbit, scikit-learn.

    OPENBLAS_NUM_THREADS=1 python benchmarks/mission_speed.py [--rounds 3] [--small] [--json results.json]
        [--original FOLDER/mission]    the authors' program, which benchmarks/peers.py compiles

One pass over 100,000 rows x 2^20 ids, 89 entries a row, logistic loss; all take turns in every round, the medians of
the rounds are shown. CPU seconds of one process, with one thread. Each reads its own store: Mission and scikit-learn a
CSR matrix in memory, Vowpal Wabbit its cache file and its text; what Mission's time includes is the whole of `fit`
without the refit: the survey, the selections, the result. The authors' program has its rows in memory and its clock
begins after that. Vowpal Wabbit is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mission_data import TextLike, text_like
from sklearn.linear_model import SGDClassifier

from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.mission.selector import Mission

MEGABYTES = {"1 MB": (1 << 18, 1), "3 MB": (1 << 18, 3), "12 MB": (1 << 20, 3), "192 MB": (1 << 24, 3)}
"""Sketches: cells in a row, rows."""

VW = """
import sys, time
from vowpalwabbit import Workspace
start = time.process_time()
model = Workspace(sys.argv[1])
model.finish()
print(time.process_time() - start)
"""


def mission_seconds(data: TextLike, n_selected: int, sketch: str, variant: str = "active", heap: bool = False) -> float:
    """CPU seconds of a fit: one pass, no refit."""
    n_buckets, n_hashes = MEGABYTES[sketch]
    matrix = ArrayMatrix(data.X, (data.y > 0).astype(float), shuffled=True)
    selector = Mission(n_selected, "logistic", variant, heap, n_buckets=n_buckets, n_hashes=n_hashes, n_epochs=1)
    selector.set_params(refit=None, block_rows=10_000)
    start = time.process_time()
    selector.fit_matrix(matrix)
    return time.process_time() - start


def of_classes_seconds(data: TextLike, sketch: str) -> float:
    """CPU seconds of a fit of four classes in one sketch of as many bytes: one pass, no refit."""
    n_buckets, n_hashes = MEGABYTES[sketch]
    y = 2.0 * (data.y > 0) + np.arange(len(data.y)) % 2
    matrix = ArrayMatrix(data.X, y, shuffled=True)
    selector = Mission(2000, "multinomial", n_buckets=n_buckets // 4, n_hashes=n_hashes, n_epochs=1)
    selector.set_params(refit=None, block_rows=10_000)
    start = time.process_time()
    selector.fit_matrix(matrix)
    return time.process_time() - start


def sgd_seconds(data: TextLike, penalty: str) -> float:
    """CPU seconds of scikit-learn's one pass."""
    model = SGDClassifier(
        loss="log_loss", penalty=penalty, alpha=1e-7, learning_rate="constant", eta0=2.0, max_iter=1, tol=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(data.X, data.y)
        return time.process_time() - start


def write_vw(data: TextLike, path: Path) -> None:
    """Write the rows as Vowpal Wabbit's text."""
    indptr, indices, values = data.X.indptr, data.X.indices, data.X.data
    with path.open("w") as file:
        for i, label in enumerate(data.y):
            here = slice(indptr[i], indptr[i + 1])
            pairs = zip(indices[here].tolist(), values[here].tolist(), strict=True)
            file.write(f"{int(label)} | " + " ".join(f"{j}:{x:.5g}" for j, x in pairs) + "\n")


def has_vw() -> bool:
    """Whether Vowpal Wabbit is installed."""
    return importlib.util.find_spec("vowpalwabbit") is not None


def vw_seconds(arguments: str) -> float:
    """CPU seconds of Vowpal Wabbit, reading included, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", VW, arguments], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def write_original(data: TextLike, path: Path) -> None:
    """Write the rows as benchmarks/mission_original.cpp reads them."""
    with path.open("wb") as file:
        for numbers, kind in (
            ((len(data.y), data.X.nnz), np.int64),
            (data.X.indptr, np.int64),
            (data.X.indices, np.int32),
            (data.X.data, np.float32),
            (data.y, np.int32),
        ):
            np.asarray(numbers, kind).tofile(file)


def original_seconds(program: Path, rows: Path) -> float:
    """CPU seconds of the authors' program, once its rows are read."""
    done = subprocess.run([str(program), str(rows)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def contestants(data: TextLike, folder: Path, original: Path | None) -> dict[str, Callable[[], float]]:
    """Everybody by name."""
    everybody: dict[str, Callable[[], float]] = {}
    for n_selected in (2000, 16_000):
        k = min(n_selected, data.X.shape[1] // 4)
        for sketch in MEGABYTES:
            everybody[f"Mission, K = {n_selected:,}, {sketch}"] = lambda k=k, s=sketch: mission_seconds(data, k, s)
        for name, heap in (("the paper's", False), ("the paper's, with heap", True)):
            everybody[f"{name}, K = {n_selected:,}, 3 MB"] = lambda k=k, h=heap: mission_seconds(
                data, k, "3 MB", "paper", h
            )
    for sketch in ("3 MB", "192 MB"):
        everybody[f"Mission, K = 2,000, four classes, {sketch}"] = lambda s=sketch: of_classes_seconds(data, s)
    everybody["scikit-learn SGD, l2"] = lambda: sgd_seconds(data, "l2")
    everybody["scikit-learn SGD, l1"] = lambda: sgd_seconds(data, "l1")
    if original is not None:
        rows = folder / "train.bin"
        write_original(data, rows)
        for program in sorted(original.glob("original_*")):
            k = int(program.name.removeprefix("original_"))
            everybody[f"the authors' program, K = {k:,}"] = lambda program=program: original_seconds(program, rows)
    if not has_vw():
        return everybody
    text = folder / "train.vw"
    write_vw(data, text)
    common = f"-d {text} -b 20 --loss_function logistic -l 2 --quiet"
    vw_seconds(f"{common} --cache_file {folder / 'train.cache'}")  # writes the cache
    everybody["Vowpal Wabbit, cache"] = lambda: vw_seconds(f"{common} --cache_file {folder / 'train.cache'}")
    everybody["Vowpal Wabbit --sgd, cache"] = lambda: vw_seconds(
        f"{common} --sgd --power_t 0 --cache_file {folder / 'train.cache'}"
    )
    everybody["Vowpal Wabbit, text"] = lambda: vw_seconds(common)
    return everybody


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the names of those to run")
    parser.add_argument("--small", action="store_true", help="2,000 rows, for a test of this script")
    parser.add_argument("--original", type=Path, help="a folder that benchmarks/peers.py made")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    data = text_like(n_train=2000, n_test=100, n_ids=1 << 16) if options.small else text_like()
    nnz = data.X.nnz
    with tempfile.TemporaryDirectory() as folder:
        everybody = contestants(data, Path(folder), options.original)
        everybody = {name: run for name, run in everybody.items() if any(part in name for part in options.only)}
        for run in everybody.values():
            run()  # compiled, cached
        seconds = {name: [] for name in everybody}
        for _ in range(options.rounds):
            for name, run in everybody.items():
                seconds[name].append(run())
    speed = {name: nnz / float(np.median(found)) / 1e6 for name, found in seconds.items()}
    print(f"{data.X.shape[0]:,} rows, {nnz:,} non-zeros; median of {options.rounds} rounds")
    for name, found in speed.items():
        spread = " ".join(f"{nnz / one / 1e6:.1f}" for one in seconds[name])
        print(f"{name:<42}{found:>8.1f} M non-zeros / CPU-s   ({spread})")
    ours = "Mission, K = 2,000, 3 MB"
    for name in ("the paper's, with heap, K = 2,000, 3 MB", "Vowpal Wabbit, cache"):
        if ours in speed and name in speed:
            print(f"{ours}, is {speed[ours] / speed[name]:.2f} times as fast as {name}")
    if options.json:
        options.json.write_text(json.dumps({"nnz": nnz, "seconds": seconds, "speed": speed}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
