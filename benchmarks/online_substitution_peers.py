"""Online substitution beside the libraries that people use: recall, CPU time and memory beyond the data.

    python benchmarks/online_substitution_peers.py --sizes 6000 --repeats 3 --output peers
    python benchmarks/online_substitution_peers.py --sizes 100000 --repeats 1 --output peers     (needs 8 GB of memory)
    python benchmarks/online_substitution_peers.py --sizes 300 --n-informative 8 --repeats 1 --methods "os exchange"
    "sklearn omp"

Data: figure 1 of the paper, 100 true features, n = 1.2 s log2 p rows, columns of unit length, float64, one column
after the other in memory, as most peers want it. Every measurement is a process of its own on one thread: it imports
and compiles on a small data set first, draws the data, resets the peak of its resident memory, and fits. Memory is the
rise of that peak over the data; time is CPU time of the process. The data sets of one size go round all methods, so
that they meet the same machine. Needs ``pip install -e .[bench]``; a peer that is not installed is left out. Rows go
to results.csv; none that stands there is made again.

Ends with 1 where a peer is both as good as the default (recall within 0.005) and as fast, or where the default takes
more than a tenth of the memory of the most modest peer.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from online_substitution_cases import Table, draw

OURS = ("os exchange", "os exchange 2", "os", "daskfs omp")
PEERS = ("abess", "sklearn omp", "lars_path", "skglm lasso", "skglm mcp", "lassocv", "rfe")
LIBRARY = {"abess": "abess", "skglm lasso": "skglm", "skglm mcp": "skglm"}
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
AS_GOOD = 0.005


def _ours(X: np.ndarray, y: np.ndarray, s: int, **options: Any) -> np.ndarray:
    from daskfs import OnlineSubstitution
    from daskfs.matrix.arrays import ArrayMatrix

    return OnlineSubstitution(n_features_to_select=s, **options).fit_matrix(ArrayMatrix(X, y)).selected_


def _our_omp(X: np.ndarray, y: np.ndarray, s: int) -> np.ndarray:
    from daskfs.baselines import OrthogonalMatchingPursuit
    from daskfs.matrix.arrays import ArrayMatrix

    return OrthogonalMatchingPursuit(s).fit_matrix(ArrayMatrix(X, y)).selected_


def _abess(X: np.ndarray, y: np.ndarray, s: int) -> np.ndarray:
    from abess.linear import LinearRegression

    return np.flatnonzero(LinearRegression(support_size=s, thread=1).fit(X, y).coef_)


def _omp(X: np.ndarray, y: np.ndarray, s: int) -> np.ndarray:
    from sklearn.linear_model import OrthogonalMatchingPursuit

    return np.flatnonzero(OrthogonalMatchingPursuit(n_nonzero_coefs=s, precompute=False).fit(X, y).coef_)


def _lars(X: np.ndarray, y: np.ndarray, s: int) -> np.ndarray:
    from sklearn.linear_model import lars_path

    n_steps = s + s // 4 + 8
    while True:
        _, _, coefs = lars_path(X, y - y.mean(), method="lasso", max_iter=n_steps)
        enough = np.flatnonzero((coefs != 0).sum(axis=0) >= s)
        if len(enough):
            return np.argsort(-np.abs(coefs[:, enough[0]]))[:s]
        n_steps *= 2


def _skglm_path(X: np.ndarray, y: np.ndarray, s: int, make: Callable[[float], Any]) -> np.ndarray:
    penalty = np.abs(X.T @ (y - y.mean())).max() / len(y)
    for _ in range(200):
        penalty *= 0.85
        coef = make(penalty).fit(X, y).coef_
        if np.count_nonzero(coef) >= s:
            break
    return np.argsort(-np.abs(coef))[:s]


def _skglm_lasso(X: np.ndarray, y: np.ndarray, s: int) -> np.ndarray:
    from skglm import Lasso

    return _skglm_path(X, y, s, lambda penalty: Lasso(alpha=penalty, tol=1e-4))


def _skglm_mcp(X: np.ndarray, y: np.ndarray, s: int) -> np.ndarray:
    from skglm import MCPRegression

    return _skglm_path(X, y, s, lambda penalty: MCPRegression(alpha=penalty, gamma=3.0, tol=1e-4))


def _lassocv(X: np.ndarray, y: np.ndarray, s: int) -> np.ndarray:
    from sklearn.feature_selection import SelectFromModel
    from sklearn.linear_model import LassoCV

    model = SelectFromModel(LassoCV(cv=3), max_features=s, threshold=-np.inf)
    return np.flatnonzero(model.fit(X, y).get_support())


def _rfe(X: np.ndarray, y: np.ndarray, s: int) -> np.ndarray:
    from sklearn.feature_selection import RFE
    from sklearn.linear_model import Ridge

    return np.flatnonzero(RFE(Ridge(1.0), n_features_to_select=s, step=0.1).fit(X, y).get_support())


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, int], np.ndarray]] = {
    "os exchange": _ours,
    "os exchange 2": lambda X, y, s: _ours(X, y, s, n_epochs=2),
    "os": lambda X, y, s: _ours(X, y, s, rule="os"),
    "daskfs omp": _our_omp,
    "abess": _abess,
    "sklearn omp": _omp,
    "lars_path": _lars,
    "skglm lasso": _skglm_lasso,
    "skglm mcp": _skglm_mcp,
    "lassocv": _lassocv,
    "rfe": _rfe,
}


def resident(name: str) -> int:
    """Return a line of Linux's account of this process's memory, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(rf"{name}:\s*(\d+)", status)[1]) * 1024  # type: ignore[index]


def measure(method: str, p: int, s: int, seed: int) -> dict[str, float]:
    """Fit in this process."""
    warnings.simplefilter("ignore")
    small = draw(200, 0, n_informative=10)
    METHODS[method](np.asfortranarray(small.train.read(slice(None)), dtype=np.float64), small.train.target, 10)
    case = draw(p, seed, n_informative=s)
    y, support = case.train.target.copy(), case.support
    X = np.asfortranarray(case.train.read(slice(None)), dtype=np.float64)
    X *= np.sqrt(len(y))  # variance 1, and y by as much: thresholds of some peers are for numbers of this size
    y *= np.sqrt(len(y))
    del case
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    started, since = time.process_time(), time.perf_counter()
    selected = METHODS[method](X, y, s)
    seconds, wall = time.process_time() - started, time.perf_counter() - since
    recall = len(np.intersect1d(selected, support)) / len(support)
    extra = (resident("VmHWM") - before) / 2**20
    return {"recall": recall, "selected": len(selected), "seconds": seconds, "wall": wall, "extra_mib": extra}


def print_table(table: Table, p: int) -> list[str]:
    """Print the means; return where a promise is broken."""
    means = {}
    print(f"\np = {p:,}: {'recall':>8}{'CPU s':>9}{'extra MiB':>11}  data sets")
    for method in METHODS:
        place = {"method": method, "p": p}
        recall, count = table.mean("recall", **place)
        if count:
            seconds, extra = table.mean("seconds", **place)[0], table.mean("extra_mib", **place)[0]
            means[method] = (recall, seconds, extra)
            print(f"  {method:<15} {recall:>6.3f} {seconds:>9.2f} {extra:>9.1f}    {count}")
    if "os exchange" not in means or not set(means) & set(PEERS):
        return []
    recall, seconds, extra = means["os exchange"]
    broken = [
        f"p = {p:,}: {peer} is as good ({means[peer][0]:.3f}) and as fast ({means[peer][1]:.2f} s)"
        for peer in PEERS
        if peer in means and means[peer][0] >= recall - AS_GOOD and means[peer][1] <= seconds
    ]
    least = min(means[peer][2] for peer in PEERS if peer in means)
    if extra > 0.1 * least:
        broken.append(f"p = {p:,}: {extra:.1f} MiB is more than a tenth of {least:.1f} MiB, the least of the peers")
    return broken


def main(argv: list[str] | None = None) -> int:
    """Measure what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[6000])
    parser.add_argument("--n-informative", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds that one measurement may take")
    parser.add_argument("--output", type=Path, default=Path("online_substitution_peers"))
    parser.add_argument("--one", nargs=3, metavar=("METHOD", "P", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    s = arguments.n_informative
    if arguments.one:
        method, p, seed = arguments.one
        print(json.dumps(measure(method, int(p), s, int(seed))))
        return 0
    table = Table(arguments.output / "results.csv", ("p", "seed", "method"))
    for p in arguments.sizes:
        for seed in range(arguments.repeats):
            for method in arguments.methods:
                library = LIBRARY.get(method, "sklearn")
                if table.has(p=p, seed=seed, method=method) or importlib.util.find_spec(library) is None:
                    continue
                command = [sys.executable, __file__, "--one", method, str(p), str(seed), "--n-informative", str(s)]
                environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(sys.path)}
                try:
                    done = subprocess.run(
                        command, env=environment, capture_output=True, text=True, check=True, timeout=arguments.timeout
                    )
                except subprocess.TimeoutExpired:
                    print(f"{method}, p = {p:,}: not done after {arguments.timeout:.0f} s")
                    continue
                except subprocess.CalledProcessError as fault:
                    print(f"{method}, p = {p:,}: failed\n{fault.stderr[-600:]}")
                    continue
                table.add(p=p, seed=seed, method=method, **json.loads(done.stdout.splitlines()[-1]))
    broken = [line for p in arguments.sizes for line in print_table(table, p)]
    print("\n" + ("\n".join(broken) or "no peer is as good and as fast; memory is a tenth of theirs or less"))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
