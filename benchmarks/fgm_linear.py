"""FGM against its peers on the synthetic sets of its paper: features recovered, accuracy, CPU seconds, peak memory.

    python benchmarks/fgm_linear.py                                            (4096 x 4096 and 8192 x 32,768)
    python benchmarks/fgm_linear.py --sizes 256x200 --n-informative 20 --methods fgm gomp     (what the test suite runs)
    python benchmarks/fgm_linear.py --shift                                    (65/35 classes, with and without a shift)
    python benchmarks/fgm_linear.py --density                                  (0.1 % to 100 % non-zero values)
    python benchmarks/fgm_linear.py --simple-mkl                               (the paper's MKL-FGM beside PROX-FGM)
    python benchmarks/fgm_linear.py --store --sizes 8192x8192 32768x32768      (from a store; how often it is decoded)

Data: Tan, Tsang and Wang (2014), section 8.2: normal features, 300 of them with coefficients uniform in (0, 1), y their
sign; 4,096 rows to test on. All methods see the same float32 array and select 200 features or as near as their penalty
gets them (l1: the first of a falling list of penalties with at least 180). FGM and gOMP as in the paper C = 10. Each
method runs in a process of its own, one thread, kernels compiled before, `--repeat` times by turns; CPU seconds are
those of the fit alone, the least of the repeats. Peak memory is that of the process less what it had before the fit.

liblinear and celer copy X to float64; skglm is given a float64 copy in column order, made before the clock starts and
counted in its memory, as its users must. abess screens 1,000 columns first, else it takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
N_TEST = 4096
METHODS = ("fgm", "fgm-logistic", "fgm-b10", "gomp", "l1-svm", "l1-lr", "skglm", "celer", "abess")
L1_FACTORS = (1.3, 1.6, 2.0, 2.4, 2.8, 3.3, 4.0)
"""Multiples of the least C that selects anything, tried until a fit has 180 features."""
WANTED, NEAR = 200, 180
SHIFT_COUNTS = (200, 320)


def draw(n_samples: int, n_features: int, n_informative: int, seed: int, quantile: float = 0.0) -> tuple[Any, ...]:
    """Return X, y, test X, test y and the informative features."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    X_test = rng.standard_normal((N_TEST, n_features), dtype=np.float32)
    support = np.sort(rng.choice(n_features, n_informative, replace=False))
    coef = rng.random(n_informative)
    cut = 0.0
    if quantile:
        cut = float(np.quantile(X[:, support] @ coef, quantile))
    y, y_test = (np.where(part[:, support] @ coef > cut, 1.0, -1.0) for part in (X, X_test))
    return X, y, X_test, y_test, support


def fgm(n_wanted: int, **options: Any) -> Callable[..., Any]:
    """Return a fit by FGM."""
    from daskfs.matrix.arrays import ArrayMatrix
    from daskfs.selectors.fgm.selector import FGM

    def fit(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        found = FGM(n_wanted, **{"C": 10.0, "debias": False} | options).fit_matrix(ArrayMatrix(X, y))
        return found.selected_, found.coef_[found.selected_], found.intercept_

    return fit


def gomp(n_wanted: int) -> Callable[..., Any]:
    """Return a fit by generalised OMP: the same scores, plain refits."""
    from daskfs.baselines import OrthogonalMatchingPursuit
    from daskfs.matrix.arrays import ArrayMatrix

    def fit(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        per_pass = max(1, n_wanted // 20)
        found = OrthogonalMatchingPursuit(n_wanted, n_features_per_pass=per_pass, loss="squared_hinge")
        found.fit_matrix(ArrayMatrix(X, y))
        return found.selected_, found.coef_[found.selected_], found.intercept_

    return fit


def least_penalty(X: np.ndarray, y: np.ndarray) -> float:
    """Return max_j |x_jᵀ y|."""
    return float(np.abs(y.astype(np.float32) @ X).max())


def l1(kind: str, factor: float) -> Callable[..., Any]:
    """Return an l1 fit by a peer, at one penalty."""

    def fit(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        top = least_penalty(X, y)
        if kind == "l1-svm":
            from sklearn.svm import LinearSVC

            # At 0 the slope of C Σ max(0, 1 - y z)² is 2 C Xᵀ y.
            options = {"penalty": "l1", "dual": False, "C": factor / (2.0 * top), "fit_intercept": False}
            model = LinearSVC(**options, tol=1e-2, max_iter=1000).fit(X, y)
        elif kind == "l1-lr":
            from sklearn.linear_model import LogisticRegression

            options = {"l1_ratio": 1.0, "solver": "liblinear", "C": 2.0 * factor / top, "fit_intercept": False}
            model = LogisticRegression(**options, tol=1e-2).fit(X, y)
        elif kind == "skglm":
            from skglm import SparseLogisticRegression

            alpha = top / (2.0 * len(y) * factor)
            model = SparseLogisticRegression(alpha=alpha, fit_intercept=False, tol=1e-3).fit(X, y)
        else:
            from celer import LogisticRegression as Celer

            model = Celer(C=2.0 * factor / top, fit_intercept=False, tol=1e-3).fit(X, y)
        coef = np.ravel(model.coef_)
        chosen = np.flatnonzero(coef)
        return chosen, coef[chosen], 0.0

    return fit


def abess(n_wanted: int) -> Callable[..., Any]:
    """Return a fit by abess with a screen of 1,000 columns."""
    from abess import LogisticRegression

    def fit(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        model = LogisticRegression(support_size=n_wanted, screening_size=min(1000, X.shape[1]), thread=1).fit(X, y)
        coef = np.ravel(model.coef_)
        chosen = np.flatnonzero(coef)
        return chosen, coef[chosen], float(np.ravel(model.intercept_)[0])

    return fit


def fits_of(method: str, n_wanted: int) -> list[Callable[..., Any]]:
    """Return the fits of a method, the first that selects enough being the one that counts."""
    if method.startswith("fgm"):
        n_per_pass = max(1, n_wanted // (20 if method == "fgm-b10" else 10))
        loss = "logistic" if method == "fgm-logistic" else "squared_hinge"
        return [fgm(n_wanted, loss=loss, n_features_per_pass=n_per_pass)]
    if method == "gomp":
        return [gomp(n_wanted)]
    if method == "abess":
        return [abess(n_wanted)]
    return [l1(method, factor) for factor in L1_FACTORS]


def peak_nbytes() -> int:
    """Return the peak resident bytes of this process."""
    from daskfs.cluster.memory import peak_memory_nbytes

    return peak_memory_nbytes()


def measure(method: str, size: tuple[int, int], n_informative: int, seed: int) -> dict[str, Any]:
    """Run one method in this process."""
    n_wanted = min(WANTED, 2 * n_informative // 3)
    warnings.simplefilter("ignore")
    X, y, X_test, y_test, support = draw(*size, n_informative, seed)
    small = np.ascontiguousarray(X[:200, : min(60, size[1])])
    for fit in fits_of(method, min(20, small.shape[1]))[-1:]:
        fit(np.asfortranarray(small, dtype=np.float64) if method in ("skglm", "celer") else small, y[:200])  # compiles
    before = peak_nbytes()
    given = np.asfortranarray(X, dtype=np.float64) if method in ("skglm", "celer") else X
    if method in ("l1-svm", "l1-lr", "abess"):
        given = X.astype(np.float64)
    for fit in fits_of(method, n_wanted):
        started = time.process_time()
        chosen, coef, shift = fit(given, y)
        seconds = time.process_time() - started
        if len(chosen) >= NEAR * n_wanted // WANTED:
            break
    accuracy = float(np.mean(np.where(X_test[:, chosen] @ coef + shift > 0.0, 1.0, -1.0) == y_test))
    return {
        "method": method, "size": f"{size[0]} x {size[1]}", "selected": len(chosen),
        "recovered": int(np.isin(chosen, support).sum()), "accuracy": accuracy, "cpu_s": seconds,
        "memory_mib": (peak_nbytes() - before) / 2**20,
    }  # fmt: skip


def in_own_process(method: str, size: tuple[int, int], n_informative: int, seed: int) -> dict[str, Any] | None:
    """Run one method in a process of its own; None where it is not installed or fails."""
    request = json.dumps([method, size, n_informative, seed])
    command, environment = [sys.executable, __file__, "--one", request], {**os.environ, **ONE_THREAD}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        print(f"{method}: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}", flush=True)
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print a Markdown table."""
    print("\n| size | method | recovered/selected | accuracy | CPU s | memory MiB |\n|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['size']} | {row['method']} | {row['recovered']}/{row['selected']} | {row['accuracy']:.3f} | "
            f"{row['cpu_s']:.2f} | {row['memory_mib']:,.0f} |",
            flush=True,
        )


def compare_shift(n_informative: int, seed: int, n_seeds: int = 5) -> None:
    """Print accuracies with and without a shift where 65 % of the rows are of one class: mean and spread of data sets.

    The refit of both has a shift: it tells what the features alone are worth.
    """
    print(f"\nmean ± standard deviation of {n_seeds} data sets; difference of the accuracies as fitted")
    print("\n| features | shift | accuracy | recovered | accuracy after a refit | difference | its least |")
    print("|---|---|---|---|---|---|---|")
    found: dict[tuple[int, bool], list[tuple[float, int, float]]] = {}
    for k in range(seed, seed + n_seeds):
        X, y, X_test, y_test, support = draw(4096, 4096, n_informative, k, quantile=0.65)
        for n_wanted in SHIFT_COUNTS:
            for shift in (True, False):
                options = {"fit_intercept": shift, "n_features_per_pass": n_wanted // 20}
                accuracies = []
                for debias in (False, True):
                    chosen, coef, intercept = fgm(n_wanted, **options, debias=debias)(X, y)
                    predicted = np.where(X_test[:, chosen] @ coef + intercept > 0.0, 1.0, -1.0)
                    accuracies.append(float(np.mean(predicted == y_test)))
                row = (accuracies[0], int(np.isin(chosen, support).sum()), accuracies[1])
                found.setdefault((n_wanted, shift), []).append(row)
    for n_wanted in SHIFT_COUNTS:
        difference = np.subtract(*(np.array(found[n_wanted, shift])[:, 0] for shift in (True, False)))
        for shift in (True, False):
            mean, spread = np.mean(found[n_wanted, shift], axis=0), np.std(found[n_wanted, shift], axis=0)
            last = f"{difference.mean():.3f} ± {difference.std():.3f} | {difference.min():.3f}" if shift else " | "
            print(
                f"| {n_wanted} | {'with' if shift else 'without'} | {mean[0]:.3f} ± {spread[0]:.3f} | "
                f"{mean[1]:.0f} ± {spread[1]:.0f} | {mean[2]:.3f} ± {spread[2]:.3f} | {last} |",
                flush=True,
            )


def compare_densities(n_informative: int, seed: int) -> None:
    """Print FGM on sparse and dense copies of data of several densities, and liblinear's l1-LR on the sparse one."""
    import scipy.sparse
    from sklearn.linear_model import LogisticRegression

    from daskfs.selectors.fgm.selector import FGM

    X, _, X_test, _, support = draw(4096, 4096, n_informative, seed)
    coef = np.random.default_rng(seed + 1).random(n_informative)
    for kind in (scipy.sparse.csr_array, np.asarray):  # compiles
        FGM(4, loss="logistic").fit(kind(X[:100, :20]), X[:100, 0] > 0.0)
    print("\n| density | FGM sparse = dense | accuracy | CPU s sparse | dense | l1-LR accuracy | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for density in (0.001, 0.01, 0.1, 0.5, 1.0):
        rng = np.random.default_rng(seed + 2)
        parts = [np.where(rng.random(part.shape, dtype=np.float32) < density, part, 0.0) for part in (X, X_test)]
        labels = [np.where(part[:, support] @ coef > 0.0, 1.0, -1.0) for part in parts]
        cells, fits = [], []
        for kind in (scipy.sparse.csr_array, np.asarray):
            given = kind(parts[0].astype(np.float32))
            started = time.process_time()
            fits.append(FGM(200, C=10.0, loss="logistic", n_features_per_pass=10, debias=False).fit(given, labels[0]))
            cells.append(time.process_time() - started)
        same = bool(np.array_equal(fits[0].support_, fits[1].support_))
        sparse, best = scipy.sparse.csr_array(parts[0].astype(np.float64)), (0.0, 0.0)
        top = float(np.abs(sparse.T @ labels[0]).max())
        for factor in L1_FACTORS:
            started = time.process_time()
            options = {"l1_ratio": 1.0, "solver": "liblinear", "C": 2.0 * factor / top, "tol": 1e-2}
            model = LogisticRegression(**options).fit(sparse, labels[0])
            best = max(best, (model.score(parts[1], labels[1]), time.process_time() - started))
        accuracy = fits[0].score(parts[1], labels[1])
        print(
            f"| {density:.1%} | {same} | {accuracy:.3f} | {cells[0]:.2f} | {cells[1]:.2f} | {best[0]:.3f} "
            f"| {best[1]:.2f} |"
        )


def compare_mkl(n_informative: int, seed: int) -> None:
    """Print the CPU time of the paper's MKL-FGM beside PROX-FGM."""
    from daskfs.selectors.fgm.selector import FGM

    X, y, X_test, y_test, _ = draw(4096, 4096, n_informative, seed)
    FGM(4, loss="squared_hinge", solver="simple_mkl").fit(X[:100, :20], y[:100])
    FGM(4, loss="squared_hinge").fit(X[:100, :20], y[:100])
    for solver in ("apg", "simple_mkl"):
        started = time.process_time()
        found = FGM(100, loss="squared_hinge", n_features_per_pass=10, C=10.0, solver=solver, debias=False).fit(X, y)
        seconds = time.process_time() - started
        objective = found.result_.history["objective"].iloc[-1]
        print(f"{solver}: {seconds:.2f} s CPU, objective {objective:.6g}, accuracy {found.score(X_test, y_test):.3f}")


def make_store(folder: Path, size: tuple[int, int], n_informative: int, seed: int) -> tuple[Any, np.ndarray]:
    """Write a store of such a set strip by strip; return it and the informative features."""
    from daskfs.matrix.blocks import RowBlock
    from daskfs.store.feature_store import open_store
    from daskfs.store.writer import StoreWriter

    (n_samples, n_features), rng = size, np.random.default_rng(seed)
    support = np.sort(rng.choice(n_features, n_informative, replace=False))
    coef = rng.random(n_informative)
    options = {"shuffle": False, "n_samples": n_samples, "source": {}, "target_names": ("y",)}
    with StoreWriter(folder / f"{n_samples}x{n_features}.zarr", n_features, "float32", **options) as writer:
        for start in range(0, n_samples, 2048):
            X = rng.standard_normal((min(2048, n_samples - start), n_features), dtype=np.float32)
            y = np.where(X[:, support] @ coef > 0.0, 1.0, -1.0)
            writer.write(RowBlock(start, start + len(X), X, y[:, None]))
    return open_store(writer.path), support


def compare_store(sizes: list[tuple[int, int]], n_informative: int, seed: int, repeat: int) -> None:
    """Print FGM from a store and, below a gibibyte, from memory: CPU and wall seconds, and what is decoded."""
    from daskfs.matrix.arrays import ArrayMatrix
    from daskfs.selectors.fgm.selector import FGM
    from daskfs.store.tile_reader import TileReader

    tiles, locate = [0], TileReader._locate

    def counted(self: Any, *tile: int) -> Any:
        tiles[0] += self.name == "X"
        return locate(self, *tile)

    TileReader._locate = counted  # type: ignore[method-assign]
    print("\n| size | loss | from | right | passes | decoded | CPU s | wall s | GB decoded per CPU s |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            store, support = make_store(Path(folder), size, n_informative, seed)
            n_wanted = min(WANTED, 2 * n_informative // 3)
            matrices: dict[str, Any] = {"store": store}
            if size[0] * size[1] < 1 << 28:
                matrices["memory"] = ArrayMatrix(store.read(slice(None)), store.target)
            for loss in ("squared_hinge", "logistic"):
                best: dict[str, tuple[Any, ...]] = {}
                for _ in range(repeat + 1):  # the first compiles, and has the files in the page cache
                    for name, matrix in matrices.items():
                        tiles[0] = 0
                        started, at = time.process_time(), time.perf_counter()
                        found = FGM(n_wanted, C=10.0, loss=loss, debias=False).fit_matrix(matrix)
                        took = time.process_time() - started
                        line = (took, time.perf_counter() - at, tiles[0] / np.prod(store.tiles.grid_shape), found)
                        best[name] = min(best.get(name, (np.inf,)), line, key=lambda one: one[0])
                for name, (took, wall, decoded, found) in best.items():
                    right, speed = int(np.isin(found.selected_, support).sum()), decoded * size[0] * size[1] * 4e-9
                    print(
                        f"| {size[0]:,} x {size[1]:,} | {loss} | {name} | {right}/{n_wanted} | {found.n_passes_} "
                        f"| {decoded:.2f} times | {took:.2f} | {wall:.2f} | {speed / took:.1f} |",
                        flush=True,
                    )


def size_of(text: str) -> tuple[int, int]:
    """Return rows and columns of "8192x8192"."""
    n_samples, n_features = text.split("x")
    return int(n_samples), int(n_features)


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["4096x4096", "8192x32768"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--n-informative", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--shift", action="store_true")
    parser.add_argument("--density", action="store_true")
    parser.add_argument("--simple-mkl", action="store_true")
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        method, size, n_informative, seed = json.loads(options.one)
        print(json.dumps(measure(method, tuple(size), n_informative, seed)))
        return 0
    if options.store:
        compare_store([size_of(size) for size in options.sizes], options.n_informative, options.seed, options.repeat)
        return 0
    special = {"shift": compare_shift, "density": compare_densities, "simple_mkl": compare_mkl}
    chosen = [compare for name, compare in special.items() if getattr(options, name)]
    for compare in chosen:
        compare(options.n_informative, options.seed)
    if chosen:
        return 0
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for size in options.sizes:
        for _ in range(options.repeat):
            for method in options.methods:
                row = in_own_process(method, size_of(size), options.n_informative, options.seed)
                key = (size, method)
                if row is not None and (key not in rows or row["cpu_s"] < rows[key]["cpu_s"]):
                    rows[key] = row
    print_rows(list(rows.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
