"""FGM over groups of columns: against its peers on drawn groups, and on real data whose columns belong together.

    python benchmarks/fgm_groups.py [--peers-python FOLDER/numpy1/bin/python] [--seeds 0 1 2] [--methods fgm ...]
    python benchmarks/fgm_groups.py --size 400x2000 --n-true 8 --seeds 0 --methods fgm           (a small one)
    DASKFS_DATA=... python benchmarks/fgm_groups.py --real [tcga golub promoters]

Drawn: 4,096 rows, 40,000 normal columns in 4,000 groups of ten, of which 100 have normal coefficients; y is the sign.
All methods see the same float32 array (skglm, celer and adelie a float64 copy in column order that is made before the
clock starts) and are asked for 100 groups: FGM exactly, of a penalty's fits the first with at least as many, whose
groups with the largest coefficients are kept. Penalties are tried from the largest on, and only the last fit counts for
skglm, celer and our baselines (`GroupLasso` by its three solvers, `UfoMkl`), as if somebody had told them; our
baselines' seconds have standardising and a copy in them; adelie makes a path, which counts up to there. Accuracy is
that of a logistic refit on 2,000 other rows. Each method runs in a process of its own with one thread, kernels compiled
before; CPU seconds of the fit alone. celer has least squares alone, the others the logistic loss. adelie wants NumPy
before 2: see peers.py.

Real: accuracy by cross-validation of five folds, `--repeats` times drawn, of FGM with groups beside FGM with single
columns of the same number.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
WIDTH = 10  # columns of a group
N_TEST = 2000
METHODS = ("fgm", "fgm-b2", "fgm-b3", "active_set", "bcd", "fista", "ufo_mkl", "skglm", "celer", "adelie")
FACTORS = (2.0, 2.05, 2.1, 2.2, 2.4, 2.8)
"""The largest penalty that selects nothing is divided by these, until enough groups are selected."""


def draw(n_samples: int, n_groups: int, n_true: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return X, y, the groups that matter and their coefficients, of shape (n_true, WIDTH)."""
    rng = np.random.default_rng(seed)
    true = np.sort(rng.choice(n_groups, n_true, replace=False))
    coef = rng.standard_normal((n_true, WIDTH))
    X = rng.standard_normal((n_samples, n_groups * WIDTH), dtype=np.float32)
    return X, np.sign(X[:, columns_of(true)] @ coef.ravel()), true, coef


def columns_of(groups: np.ndarray) -> np.ndarray:
    """Return the columns of some groups."""
    return (groups[:, None] * WIDTH + np.arange(WIDTH)).ravel()


def refitted(groups: np.ndarray, X: np.ndarray, y: np.ndarray, true: np.ndarray, coef: np.ndarray) -> float:
    """Return the accuracy on other rows, of which only what matters is drawn, of a logistic fit to some groups."""
    from sklearn.linear_model import LogisticRegression

    among = np.union1d(groups, true)
    X_test = np.random.default_rng(1).standard_normal((N_TEST, len(among) * WIDTH), dtype=np.float32)
    y_test = np.sign(X_test[:, columns_of(np.searchsorted(among, true))] @ coef.ravel())
    model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-3).fit(X[:, columns_of(groups)], y)
    return model.score(X_test[:, columns_of(np.searchsorted(among, groups))], y_test)


def by_fgm(X: np.ndarray, y: np.ndarray, n_wanted: int, **options: Any) -> tuple[np.ndarray, float]:
    """Return the selected groups, and the CPU seconds."""
    from daskfs import FGM

    labels = np.arange(X.shape[1]) // WIDTH
    start = time.process_time()
    found = FGM(n_wanted, feature_groups=labels, debias=False, **options).fit(X, y)
    return found.groups_, time.process_time() - start


def largest(coef: np.ndarray, n_wanted: int) -> np.ndarray | None:
    """Return the groups with the largest coefficients, or None where there are not enough."""
    norms = np.linalg.norm(coef.reshape(-1, WIDTH), axis=1)
    return np.argsort(-norms)[:n_wanted] if (norms > 0.0).sum() >= n_wanted else None


def by_skglm(X: np.ndarray, y: np.ndarray, n_wanted: int) -> tuple[np.ndarray, float]:
    """Fit the group lasso of the logistic loss, penalty after penalty."""
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import LogisticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupProxNewton
    from skglm.utils.data import grp_converter

    def fit(X: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
        indices, starts = grp_converter(WIDTH, X.shape[1])
        penalty = WeightedGroupL2(alpha, np.ones(X.shape[1] // WIDTH), starts, indices)
        solver = GroupProxNewton(fit_intercept=False, tol=1e-4)
        model = GeneralizedLinearEstimator(LogisticGroup(starts, indices), penalty, solver)
        return model.fit(X, y).coef_.ravel()

    X = np.asfortranarray(X.astype(np.float64))
    most = np.linalg.norm((X.T @ y).reshape(-1, WIDTH), axis=1).max() / (2 * len(y))
    few = np.asfortranarray(X[:300, :400])
    fit(few, y[:300], np.linalg.norm((few.T @ y[:300]).reshape(-1, WIDTH), axis=1).max() / (2 * 300) / 2.0)  # compiles
    return penalty_after_penalty(lambda factor: fit(X, y, most / factor), n_wanted)


def by_celer(X: np.ndarray, y: np.ndarray, n_wanted: int) -> tuple[np.ndarray, float]:
    """Fit the group lasso of least squares, penalty after penalty."""
    import celer

    X = np.asfortranarray(X.astype(np.float64))
    most = np.linalg.norm((X.T @ y).reshape(-1, WIDTH), axis=1).max() / len(y)

    def fit(factor: float) -> np.ndarray:
        return celer.GroupLasso(groups=WIDTH, alpha=most / factor, fit_intercept=False, tol=1e-3).fit(X, y).coef_

    return penalty_after_penalty(fit, n_wanted)


def penalty_after_penalty(fit: Any, n_wanted: int) -> tuple[np.ndarray, float]:
    """Return the groups of the first fit with enough of them, and the CPU seconds of that fit alone."""
    for factor in FACTORS:
        start = time.process_time()
        coef = fit(factor)
        seconds = time.process_time() - start
        groups = largest(coef, n_wanted)
        if groups is not None:
            return groups, seconds
    raise RuntimeError("no penalty keeps so many groups")


def by_baseline(X: np.ndarray, y: np.ndarray, n_wanted: int, **options: Any) -> tuple[np.ndarray, float]:
    """Fit our group lasso, or UFO-MKL, penalty after penalty."""
    from daskfs.baselines import GroupLasso, UfoMkl

    least = 2.0 * WIDTH**0.5 / np.linalg.norm((X.T @ y.astype(np.float32)).reshape(-1, WIDTH), axis=1).max()
    labels = np.arange(X.shape[1]) // WIDTH
    kind = GroupLasso if options else UfoMkl

    def fit(factor: float) -> np.ndarray:
        coef = np.zeros(X.shape[1])
        found = kind(C=factor * least, feature_groups=labels, **options).fit(X, y)
        coef[found.selected_] = found.scores_[found.selected_]
        return coef

    return penalty_after_penalty(fit, n_wanted)


def by_adelie(X: np.ndarray, y: np.ndarray, n_wanted: int) -> tuple[np.ndarray, float]:
    """Make a path of the group lasso of the logistic loss, up to so many groups."""
    import adelie

    X = np.asfortranarray(X.astype(np.float64))
    start = time.process_time()
    path = adelie.grpnet(
        X, adelie.glm.binomial((y + 1) / 2), groups=np.arange(0, X.shape[1], WIDTH), lmda_path_size=60, min_ratio=0.2,
        early_exit=False, intercept=False, n_threads=1, progress_bar=False, tol=1e-4,
        exit_cond=lambda state: np.diff(state.betas.indptr).max(initial=0) >= WIDTH * n_wanted,
    )  # fmt: skip
    seconds = time.process_time() - start
    for coef in path.betas:
        groups = largest(np.asarray(coef.todense()).ravel(), n_wanted)
        if groups is not None:
            return groups, seconds
    raise RuntimeError("the path ends before so many groups")


FITS: dict[str, Any] = {
    "fgm": (by_fgm, {}),
    "fgm-b2": (by_fgm, {"C": 10.0, "n_features_per_pass": 2}),
    "fgm-b3": (by_fgm, {"C": 3.0, "n_features_per_pass": 3}),
    "active_set": (by_baseline, {"solver": "active_set"}),
    "bcd": (by_baseline, {"solver": "bcd"}),
    "fista": (by_baseline, {"solver": "fista"}),
    "ufo_mkl": (by_baseline, {}),
    "skglm": (by_skglm, {}),
    "celer": (by_celer, {}),
    "adelie": (by_adelie, {}),
}


def measure(method: str, size: tuple[int, int], n_true: int, seed: int) -> None:
    """Fit one method and print what it found: in a process of its own."""
    warnings.simplefilter("ignore")
    fit, options = FITS[method]
    if fit in (by_fgm, by_baseline):
        small = draw(300, 40, 4, 0)
        fit(small[0], small[1], 4, **options)
    X, y, true, coef = draw(*size, n_true, seed)
    groups, seconds = fit(X, y, n_true, **options)
    n_right, accuracy = int(np.isin(groups, true).sum()), refitted(groups, X, y, true, coef)
    print(json.dumps({"true": n_right, "cpu_s": seconds, "accuracy": accuracy}))


def compare(methods: list[str], size: tuple[int, int], n_true: int, seeds: list[int], peers_python: str | None) -> None:
    """Print a line for each method: true groups and CPU seconds of each seed."""
    print(f"{size[0]:,} rows, {size[1]:,} groups of {WIDTH}, {n_true} of them true; {n_true} selected")
    print("| method | true groups | accuracy of a refit | CPU s |\n|---|---|---|---|")
    for method in methods:
        python = peers_python if method == "adelie" else sys.executable
        if python is None:
            print(f"| {method} | needs --peers-python | | |")
            continue
        found = []
        for seed in seeds:
            command = [python, __file__, "--child", json.dumps([method, size, n_true, seed])]
            path = {} if method == "adelie" else {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | ONE_THREAD | path
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                print(f"| {method} | failed: {done.stderr.strip().splitlines()[-1]} | | |")
                break
            found.append(json.loads(done.stdout.splitlines()[-1]))
        else:
            true = ", ".join(str(one["true"]) for one in found)
            accuracy = np.mean([one["accuracy"] for one in found])
            seconds = ", ".join(f"{one['cpu_s']:.1f}" for one in found)
            print(f"| {method} | {true} | {accuracy:.3f} | {seconds} |", flush=True)


def real(names: list[str], n_repeats: int) -> None:
    """Print accuracies with groups and without on real data."""
    sys.path.insert(0, os.environ["DASKFS_DATA"])
    from load_all import load

    told = partial(tell, n_repeats)
    warnings.simplefilter("ignore")
    if "tcga" in names:
        X, y, info = load("gene_breast_tcga")
        blocks = np.repeat(["mRNA", "microRNA", "protein"], info["groups"])
        print("TCGA breast cancer, three classes, 150 rows; blocks of", info["groups"])
        for k in (1, 2):
            told(f"{k} of 3 blocks", X, y, {"n_features_to_select": k, "feature_groups": blocks})
        for k in (20, 40):
            told(f"{k} single columns", X, y, {"n_features_to_select": k})
        sub = [f"{block} {j // 8}" for j, block in enumerate(blocks)]
        told("5 pieces of a block, 8 columns each", X, y, {"n_features_to_select": 5, "feature_groups": sub})
    if "golub" in names:
        X, y, _ = load("gene_golub")
        X = np.log10(np.clip(X, 100, 16000)).astype(np.float32)
        X = X[:, X.std(axis=0) > 0.2]
        print(f"golub, {X.shape[0]} rows, {X.shape[1]:,} genes; clusters of each gene's correlated ones, which overlap")
        for n_genes in (10, 30):
            told(f"{n_genes} single genes", X, y, {"n_features_to_select": n_genes})
            wanted = {"n_features_to_select": n_genes, "counts": "features", "feature_groups": clusters}
            told(f"{n_genes} genes in clusters of up to 5", X, y, wanted)
            told(f"{n_genes} genes in clusters of up to 5, by their means", X, y, wanted | {"group_score": "mean"})
            told(f"{n_genes} clusters of up to 5", X, y, {"n_features_to_select": n_genes, "feature_groups": clusters})
    if "promoters" in names:
        X, y, _ = load("dna_promoters")
        chosen = np.char.startswith(y.astype(str), "Ecoli")
        letters = np.array([list(one.upper()) for one, is_in in zip(X, chosen, strict=True) if is_in])
        labels = y[chosen]
        for k in (1, 2):
            columns, groups = at_positions(letters, k)
            print(
                f"promoters of E. coli, {len(labels):,} windows of 81 bases, {columns.shape[1]:,} {k}-mers at positions"
            )
            for n_positions in (5, 10):
                wanted = {"n_features_to_select": n_positions, "feature_groups": groups}
                told(f"{n_positions} positions whole", columns, labels, wanted)
                told(
                    f"{n_positions * 4**k} single {k}-mers",
                    columns,
                    labels,
                    {"n_features_to_select": n_positions * 4**k},
                )


def clusters(X: np.ndarray) -> list[list[int]]:
    """Return for each gene itself and up to four with a correlation above .7 in size, of the rows trained on."""
    correlation = np.corrcoef(X, rowvar=False)
    found = {}
    for j, row in enumerate(np.abs(correlation)):
        near = [k for k in np.argsort(-row)[:5].tolist() if row[k] > 0.7 or k == j]
        found[tuple(sorted({j, *near}))] = None
    return [list(group) for group in found]


def at_positions(letters: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dummies of the k-mer at each position, and the position of each dummy."""
    codes = np.zeros((len(letters), letters.shape[1] - k + 1), np.int64)
    numbers = np.searchsorted(np.array(list("ACGT")), letters)
    for shift in range(k):
        codes = 4 * codes + numbers[:, shift : letters.shape[1] - k + 1 + shift]
    dummies = (codes[:, :, None] == np.arange(4**k)).astype(np.float32)
    positions = np.repeat(np.arange(codes.shape[1]), 4**k)
    return dummies.reshape(len(letters), -1), positions


def tell(n_repeats: int, what: str, X: np.ndarray, y: np.ndarray, options: dict[str, Any]) -> None:
    """Print accuracy and how alike the selections of the folds are."""
    from sklearn.model_selection import RepeatedStratifiedKFold

    from daskfs import FGM

    scores, selections, names = [], [], []
    for train, test in RepeatedStratifiedKFold(n_splits=5, n_repeats=n_repeats, random_state=0).split(X, y):
        now = {name: value(X[train]) if callable(value) else value for name, value in options.items()}
        selector = FGM(**now).fit(X[train], y[train])
        scores.append(selector.score(X[test], y[test]))
        selections.append(set(selector.selected_.tolist()))
        names += getattr(selector, "group_names_", np.array([])).tolist()
    alike = [len(a & b) / len(a | b) for k, a in enumerate(selections) for b in selections[:k]]
    often = [] if "clusters" in what else sorted({*names}, key=names.count, reverse=True)[:8]
    first = (
        f"; most often: {', '.join(f'{name} ({names.count(name)}/{len(scores)})' for name in often)}" if often else ""
    )
    print(f"  {what}: accuracy {np.mean(scores):.3f}, overlap of selections {np.mean(alike):.2f}{first}", flush=True)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--size", default="4096x4000", help="rows x groups")
    parser.add_argument("--n-true", type=int, default=100)
    parser.add_argument("--peers-python", help="of an environment with adelie")
    parser.add_argument("--real", nargs="*", choices=("tcga", "golub", "promoters"))
    parser.add_argument("--repeats", type=int, default=2, help="of the cross-validation")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        method, size, n_true, seed = json.loads(options.child)
        measure(method, tuple(size), n_true, seed)
    elif options.real is not None:
        real(options.real or ["tcga", "golub", "promoters"], options.repeats)
    else:
        n_samples, n_groups = map(int, options.size.split("x"))
        compare(options.methods, (n_samples, n_groups), options.n_true, options.seeds, options.peers_python)


if __name__ == "__main__":
    main()
