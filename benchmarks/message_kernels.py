"""MESSAGE's subset kernels against the Lasso paths of others: CPU time on one core, all measured in one run.

    python benchmarks/message_kernels.py [--tasks 400x1000 ...] [--repeats 5] [--patience 10] [--json FILE]
        [--peers-python ENV/bin/python]   an environment with adelie and python-glmnet (both want numpy < 2)

Two questions per task. "Our stop": the others are given exactly the λ at which descent along the grid stops by the
criterion, which they could not know. "Whole path": 100 λ, as their users would run them before choosing by a criterion.
Our time is the same in both: it includes standardisation, the criterion, the refit of every model and the Gram block
for MESSAGE's refit; theirs is the path alone, on float64 columns standardised in Fortran order before the clock starts,
with every solver's default tolerance. "daskfs float32" reads float32, as stores hold it, and sums in float64.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is imported

import numpy as np  # noqa: E402

SLOW_S = 2.0  # a function slower than this is measured once
NEEDS_WHOLE_PATH_SMALL = ("celer", "skglm")  # minutes on large blocks
QUESTIONS = ["our stop", "whole path"]
Clock = dict[str, Callable[[], object]]


def compound_design(n_samples: int, n_features: int, binary: bool = False, rho: float = 0.0) -> tuple:
    """The design of Wang, Peng and Dunson (2014), section 4.1: three features of thousands."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n_samples, n_features))
    X = math.sqrt(1 - rho) * X + math.sqrt(rho) * rng.standard_normal((n_samples, 1))
    n_true = 3 if n_features >= 100 else 12
    signs = (-1.0) ** (rng.random(n_true) < 0.4)
    coef = signs * (8 * math.log(n_samples) / math.sqrt(n_samples) + np.abs(rng.standard_normal(n_true)))
    eta = X[:, :n_true] @ coef
    if binary:
        return X, np.where(rng.random(n_samples) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)
    return X, eta + 2 * rng.standard_normal(n_samples)


def power_design(n_samples: int) -> tuple:
    """A household's power by the hour: 6 measurements and dummies of year, month, day and hour, 74 columns."""
    rng = np.random.default_rng(4)
    numbers = rng.standard_normal((n_samples, 6)) + 0.7 * rng.standard_normal((n_samples, 1))
    parts, effects = [], []
    for size, spread in ((5, 0.2), (12, 0.5), (31, 0.05), (24, 1.0)):
        code = rng.integers(0, size, n_samples)
        parts.append((code[:, None] == np.arange(1, size)).astype(float))
        effects.append(spread * np.sin(2 * np.pi * code / size))
    X = np.column_stack([numbers, *parts])
    return X, numbers @ [1.0, 0.5, -0.5, 0.3, 0.1, 0.0] + sum(effects) + rng.standard_normal(n_samples)


TASKS: dict[str, tuple[str, Callable[[], tuple]]] = {
    "400x1000": ("squared", lambda: compound_design(400, 1000)),
    "10000x1000": ("squared", lambda: compound_design(10_000, 1000)),
    "2000x10000": ("squared", lambda: compound_design(2000, 10_000)),
    "10000x74": ("squared", lambda: power_design(10_000)),
    "logistic 400x1000": ("logistic", lambda: compound_design(400, 1000, binary=True)),
    "logistic 10000x1000": ("logistic", lambda: compound_design(10_000, 1000, binary=True)),
    "logistic 10000x27": ("logistic", lambda: compound_design(10_000, 27, binary=True, rho=0.3)),
}


def our_functions(loss: str, X: np.ndarray, y: np.ndarray, patience: int) -> tuple[Clock, np.ndarray]:
    """Ours, and the λ at which our stop ends the grid."""
    from daskfs.kernels.lasso.criteria import feature_penalty

    weight = np.ones(len(y))
    options = {"penalty": feature_penalty("ebic", *X.shape), "patience": patience}
    single = X.astype(np.float32)
    if loss == "squared":
        from daskfs.kernels.lasso.path import lasso_path as path

        stopped = path(X, y, weight, solver="descent", **options).lambdas
    else:
        from daskfs.kernels.glm.path import glm_path as path

        options["loss"] = loss
        stopped = path(X, y, weight, **options).lambdas
    functions: Clock = {
        "daskfs": lambda: path(X, y, weight, **options),
        "daskfs float32": lambda: path(single, y, weight, **options),
    }
    if loss == "logistic" and X.shape[1] < 100 and importlib.util.find_spec("daskfs.kernels.glm.lsa"):
        lsa_path = importlib.import_module("daskfs.kernels.glm.lsa").lsa_path
        functions["daskfs approx=lsa"] = lambda: lsa_path(X, y, weight, **options)
    return functions, stopped


def peer_functions(loss: str, Z: np.ndarray, y: np.ndarray, lambdas: np.ndarray, whole: bool) -> Clock:
    """Those of the others that this interpreter can import."""
    found: Clock = {}
    makers = {"sklearn.linear_model": _sklearn, "celer": _celer, "skglm": _skglm, "adelie": _adelie, "glmnet": _glmnet}
    for name, maker in makers.items():
        if whole and name in NEEDS_WHOLE_PATH_SMALL and Z.size > 1_000_000:
            continue
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        found.update(maker(module, loss, Z, y, lambdas))
    return found


def _sklearn(module, loss, Z, y, lambdas):
    if loss != "squared":
        return {}  # saga takes a thousand times longer
    target = y - y.mean()
    path = module.lasso_path
    found = {"sklearn": lambda: path(Z, target, alphas=lambdas, precompute=False, check_input=False)}
    if Z.shape[1] <= 1000:
        found["sklearn, Gram"] = lambda: path(Z, target, alphas=lambdas, precompute=True)
    return found


def _celer(module, loss, Z, y, lambdas):
    target = y - y.mean() if loss == "squared" else y
    problem, alphas = ("lasso", lambdas) if loss == "squared" else ("logreg", lambdas * len(y))
    return {"celer": lambda: module.celer_path(Z, target, problem, alphas=alphas)}


def _skglm(module, loss, Z, y, lambdas):
    if loss == "squared":
        target = y - y.mean()
        return {"skglm": lambda: module.Lasso(alpha=1.0, fit_intercept=False).path(Z, target, lambdas)}
    return {}  # no path of its logistic model


def _adelie(module, loss, Z, y, lambdas):
    glm = module.glm.gaussian(y=y) if loss == "squared" else module.glm.binomial(y=(y > 0).astype(float))
    return {
        "adelie": lambda: module.grpnet(
            Z, glm, lmda_path=lambdas, early_exit=False, progress_bar=False, n_threads=1, intercept=True
        )
    }


def _glmnet(module, loss, Z, y, lambdas):
    model = module.ElasticNet if loss == "squared" else module.LogitNet
    return {"glmnet": lambda: model(n_splits=0, standardize=False, lambda_path=lambdas).fit(Z, y)}


def measure(functions: Clock, repeats: int) -> dict[str, float]:
    """CPU seconds of each, the median of `repeats`, taking turns, after one call to warm up and one to see how long."""
    times: dict[str, list[float]] = {}
    n_calls: dict[str, int] = {}
    for name, function in functions.items():
        function()
        times[name] = [_seconds(function, 1)]
        n_calls[name] = 1 if times[name][0] > 0.02 else 10
    for _ in range(repeats):
        for name, function in functions.items():
            if times[name][0] < SLOW_S:
                times[name].append(_seconds(function, n_calls[name]))
    return {name: float(np.median(found[1:] or found)) for name, found in times.items()}


def _seconds(function: Callable[[], object], n_calls: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(n_calls):
        function()
    return (time.process_time() - start) / n_calls


def measure_elsewhere(python: str, files: Path, arguments: list[str]) -> dict[str, float]:
    command = [python, __file__, "--peer", str(files), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tempfile.gettempdir())
    return json.loads(done.stdout)


def run_task(
    name: str, repeats: int, patience: int, peers_python: str | None, questions: list[str]
) -> dict[str, dict[str, float]]:
    loss, make = TASKS[name]
    X, y = make()
    ours, stopped = our_functions(loss, X, y, patience)
    Z = np.asfortranarray((X - X.mean(axis=0)) / X.std(axis=0))
    ratio = 1e-2 if X.shape[0] < X.shape[1] else 1e-4
    grids = {"our stop": stopped, "whole path": stopped[0] * ratio ** np.linspace(0.0, 1.0, 100)}
    results = {}
    for question in questions:
        lambdas = grids[question]
        whole = question == "whole path"
        times = measure({**ours, **peer_functions(loss, Z, y, lambdas, whole)}, repeats)
        if peers_python:
            with tempfile.TemporaryDirectory() as folder:
                files = Path(folder, "task.npz")
                np.savez(files, Z=Z, y=y, lambdas=lambdas)
                times |= measure_elsewhere(peers_python, files, [loss, str(repeats), str(int(whole))])
        results[f"{question} ({len(lambdas)} λ)"] = times
    return results


def message_total(repeats: int, patience: int) -> dict[str, float]:
    """All of MESSAGE on 10,000 x 1000 in 25 subsets: selection, vote, refit from the Gram blocks, average."""
    from daskfs.kernels.lasso.criteria import feature_penalty
    from daskfs.kernels.lasso.least_squares import least_squares_from_cache
    from daskfs.kernels.lasso.path import lasso_path

    X, y = compound_design(10_000, 1000)
    weight = np.ones(400)
    penalty = feature_penalty("ebic", 400, 1000)

    def message(X: np.ndarray) -> np.ndarray:
        parts = [slice(i, i + 400) for i in range(0, len(X), 400)]
        paths = [lasso_path(X[part], y[part], weight, penalty=penalty, patience=patience) for part in parts]
        votes = np.bincount(np.concatenate([path.selected() for path in paths]), minlength=1000)
        columns = np.flatnonzero(2 * votes > len(paths))
        fits = [least_squares_from_cache(path.gram, columns) for path in paths]
        if None in fits:
            raise RuntimeError("a subset lacks the Gram rows of its refit")
        return np.mean([fit.coef for fit in fits], axis=0)

    single = X.astype(np.float32)
    functions: Clock = {"daskfs": lambda: message(X), "daskfs float32": lambda: message(single)}
    return measure({**functions, "X'y, one pass of BLAS": lambda: X.T @ y}, repeats)


def table(times: dict[str, float]) -> str:
    ours = times["daskfs"]
    others = {name: seconds for name, seconds in times.items() if not name.startswith("daskfs")}
    lines = [f"  {name:24s} {1e3 * seconds:10.2f} ms {seconds / ours:8.1f}" for name, seconds in times.items()]
    if others:
        best = min(others, key=others.__getitem__)
        ratios = [f"{others[best] / times[name]:.1f} ({name})" for name in times if name.startswith("daskfs")]
        lines.append(f"  the best other, {best}, takes so many times as long: {', '.join(ratios)}")
    return "\n".join(lines)


def run(
    tasks: list[str],
    repeats: int,
    patience: int,
    peers_python: str | None,
    questions: list[str] = QUESTIONS,
) -> dict:
    """Measure and print; returns {task: {question: {solver: CPU seconds}}}."""
    results: dict = {}
    for name in tasks:
        results[name] = run_task(name, repeats, patience, peers_python, questions)
        for question, times in results[name].items():
            print(f"{name}, {question}\n{table(times)}", flush=True)
    results["MESSAGE 25 x 400x1000"] = {"": message_total(repeats, patience)}
    print(f"MESSAGE, 25 subsets of 400x1000\n{table(results['MESSAGE 25 x 400x1000'][''])}")
    return results


def peer_main(files: str, loss: str, repeats: str, whole: str) -> None:
    data = np.load(files)
    functions = peer_functions(loss, np.asfortranarray(data["Z"]), data["y"], data["lambdas"], whole == "1")
    print(json.dumps(measure(functions, int(repeats))))


def main() -> None:
    warnings.simplefilter("ignore")  # the others' warnings of convergence at their default tolerances
    if sys.argv[1:2] == ["--peer"]:
        peer_main(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=int, default=10, help="of our stop, in features; 10 is MESSAGE's default")
    parser.add_argument("--peers-python", help="of an environment with adelie and python-glmnet")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    from daskfs.interrupts import guard  # peers have no daskfs

    with guard():  # once, as a fit does: not for every call of a kernel
        results = run(options.tasks, options.repeats, options.patience, options.peers_python, options.questions)
    if options.json:
        options.json.write_text(json.dumps({"python": sys.version, **results}, indent=1))


if __name__ == "__main__":
    main()
