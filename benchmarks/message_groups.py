"""MESSAGE over groups of columns: what it finds, what it predicts on tables, and what a path of one subset takes.

    python benchmarks/message_groups.py planted [--seeds 10]
    DASKFS_DATA=... python benchmarks/message_groups.py schema [--only adult ...]
    python benchmarks/message_groups.py time [--peers-python FOLDER/numpy1/bin/python]

planted: precision and recall of groups. 3,000 rows in five subsets; ten of 200 groups matter. Normal columns in groups
of ten; groups whose columns correlate by .7, and by .3 with all others; dummies of categories of 3 to 20 levels. The
ten explain half of the variance, or a sixth. MESSAGE with groups, MESSAGE on columns (a group counts where one of its
columns is selected), and FGM asked for ten groups.
schema: tables by their schema, 20,000 rows to learn from and as many to test on, two draws: columns of the table and
dummies that are selected, and the test score (area under the ROC curve, of more than two classes accuracy).
time: CPU seconds of one subset's path, of 60 λ down to a twentieth of the largest or to models of a third of the rows,
where MESSAGE ends at the latest; one thread, kernels compiled before. All solve the same problem: peers get the
orthonormal columns, which we make ourselves within the clock, as we do the refits of all models.
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
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from open_sets import ADULT, KNOWN_BEFORE_A_FLIGHT, dummies, loader

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
N_GROUPS, N_TRUE, N_ROWS = 200, 10, 3000
LONGEST = 60  # seconds that a method gets
DESIGNS = ("normal", "correlated", "categories")


def drawn(design: str, share: float, loss: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and the group of every column; the first ten groups explain a share of the target's variance."""
    rng = np.random.default_rng(seed)
    if design == "categories":
        sizes = rng.integers(3, 21, N_GROUPS)
        codes = [rng.choice(k, N_ROWS, p=rng.dirichlet(np.full(k, 3.0))) for k in sizes]
        X = np.concatenate([np.eye(k, dtype=np.float32)[code] for k, code in zip(sizes, codes, strict=True)], axis=1)
    else:
        sizes = np.full(N_GROUPS, 10)
        X = rng.standard_normal((N_ROWS, 10 * N_GROUPS), dtype=np.float32)
        if design == "correlated":
            own = np.repeat(rng.standard_normal((N_ROWS, N_GROUPS), dtype=np.float32), 10, axis=1)
            X = 0.3**0.5 * X + 0.4**0.5 * own + 0.3**0.5 * rng.standard_normal((N_ROWS, 1), dtype=np.float32)
    labels = np.repeat(np.arange(N_GROUPS), sizes)
    z = np.zeros(N_ROWS)
    for g in range(N_TRUE):
        effect = X[:, labels == g] @ rng.standard_normal(sizes[g])
        z += (effect - effect.mean()) / effect.std()
    z *= (share / (1.0 - share)) ** 0.5 / z.std()
    if loss == "logistic":
        return X, (1.8 * z + rng.logistic(size=N_ROWS) > 0).astype(float), labels
    return X, z + rng.standard_normal(N_ROWS), labels


def planted(n_seeds: int) -> None:
    """Print precision and recall of each method on each design."""
    from daskfs import FGM, Message

    def groups_of(method: str, X: np.ndarray, y: np.ndarray, labels: np.ndarray, loss: str) -> np.ndarray:
        if method == "FGM groups":
            return FGM(N_TRUE, feature_groups=labels, loss=loss, debias=False).fit(X, y).groups_
        criterion = "bic" if method.endswith("bic") else "vote"
        how = {"feature_groups": labels} if method.startswith("groups") else {}
        found = Message(n_subsets=5, loss=loss, criterion=criterion, **how).fit(X, y)
        return np.unique(labels[found.selected_])

    for design in DESIGNS:
        for loss in ("squared", "logistic"):
            for share in (1 / 2, 1 / 6):
                cells = []
                for method in ("groups", "groups, bic", "columns", "FGM groups"):
                    scores, start = [], time.process_time()
                    for seed in range(n_seeds):
                        found = groups_of(method, *drawn(design, share, loss, seed), loss)
                        n_right = int((found < N_TRUE).sum())
                        scores.append((n_right / max(len(found), 1) if len(found) else 1.0, n_right / N_TRUE))
                    precision, recall = np.mean(scores, axis=0)
                    seconds = (time.process_time() - start) / n_seeds
                    cells.append(f"{method} {precision:.2f} / {recall:.2f} ({seconds:.1f} s)")
                print(f"{design}, {loss}, {share:.2f}: " + "; ".join(cells), flush=True)


def by_schema(table: pd.DataFrame, names: list[str]) -> tuple[Any, np.ndarray]:
    """Return the numbers of a table and the dummies of its categories, and the table's column of each."""
    parts = [dummies(table[[name]], [name] if name in names else []) for name in table.columns]
    dense = [part.toarray() if scipy.sparse.issparse(part) else part for part in parts]
    widths = [part.shape[1] for part in dense]
    X, labels = np.concatenate(dense, axis=1), np.repeat(np.arange(len(widths)), widths)
    return np.ascontiguousarray(X[:, X.std(axis=0) > 0], np.float32), labels[X.std(axis=0) > 0]


def table_of(name: str, rows: int = 12_000) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """Return a sample of a table, its target and which of its columns are categories."""
    table, y, _ = loader().load(name)
    y = np.asarray(y)
    rng = np.random.default_rng(0)
    if name == "flights_houston":
        kept = np.flatnonzero(np.isfinite(y))
        kept = np.sort(rng.permutation(kept)[:rows])
        chosen = table.iloc[kept].reset_index(drop=True)
        chosen = chosen[[*KNOWN_BEFORE_A_FLIGHT]].assign(hour=chosen["DepTime"] // 100)
        return chosen, (y[kept] > 15).astype(int), [column for column in chosen.columns if column != "Distance"]
    if name == "kddcup99":
        distinct = np.flatnonzero(~table.duplicated().to_numpy())
        kept = np.sort(rng.permutation(distinct)[:rows])
        table = table.iloc[kept].reset_index(drop=True)
        table.columns = [str(column) for column in table.columns]
        return table, (y[kept] == "normal.") if y.dtype.kind in "UO" else y[kept], ["1", "2", "3"]
    kept = np.sort(rng.permutation(len(y))[:rows])
    chosen = table.iloc[kept].reset_index(drop=True)
    if name == "adult":
        return chosen, y[kept], ADULT
    when = pd.to_datetime(
        chosen["datetime"] if "datetime" in chosen else chosen["Date"] + " " + chosen["Time"], dayfirst="Date" in chosen
    )
    chosen = chosen.drop(
        columns=["Global_active_power", "Global_intensity", "datetime", "Date", "Time"], errors="ignore"
    )
    chosen = chosen.assign(hour=when.dt.hour, weekday=when.dt.dayofweek, month=when.dt.month)
    return chosen, np.asarray(y[kept], float), ["hour", "weekday", "month"]


def schema(names: list[str]) -> None:
    """Print what is selected of tables, and how it predicts."""
    from sklearn.metrics import roc_auc_score

    from daskfs import Message

    for name in names:
        table, y, categorical = table_of(name, 40_000)
        X, labels = by_schema(table, categorical)
        if name == "kddcup99":  # classes of three rows cannot be learnt
            y = np.asarray(y).astype(str)
        print(f"{name}: {len(set(labels.tolist()))} columns of the table, {X.shape[1]} of the matrix", flush=True)
        for label, groups in (("groups", labels), ("columns", None)):
            scores, n_columns, n_sources, seconds = [], [], [], []
            for seed in range(2):
                order = np.random.default_rng(seed).permutation(len(y))
                train, test = order[: len(y) // 2], order[len(y) // 2 :]
                start = time.process_time()
                found = Message(feature_groups=groups).fit(X[train], y[train])
                seconds.append(time.process_time() - start)
                n_columns.append(len(found.selected_))
                n_sources.append(len(set(labels[found.selected_].tolist())))
                if len(found.classes_) == 2:
                    scores.append(roc_auc_score(y[test] == found.classes_[1], found.decision_function(X[test])))
                else:
                    scores.append(found.score(X[test], y[test]))
            print(
                f"  {label}: {np.mean(n_sources):.1f} columns of the table, {np.mean(n_columns):.1f} of the matrix, "
                f"test score {np.mean(scores):.4f} ({', '.join(f'{score:.4f}' for score in scores)}), "
                f"{np.mean(seconds):.1f} s",
                flush=True,
            )


def one_subset(n: int, p: int, loss: str) -> dict[str, Any]:
    """Return columns in groups of ten, orthonormal in each, a target, and a grid of λ."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    z = X[:, :50] @ (0.2 * rng.standard_normal(50))
    y = z + rng.standard_normal(n) if loss == "squared" else np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0)
    Q = X - X.mean(axis=0)
    for start in range(0, p, 10):
        Q[:, start : start + 10] = np.linalg.qr(Q[:, start : start + 10])[0] * n**0.5
    residual = y - y.mean() if loss == "squared" else (y > 0) - (y > 0).mean()
    most = np.linalg.norm((Q.T @ residual / n).reshape(-1, 10), axis=1).max() / 10**0.5
    return {"X": X, "Q": np.asfortranarray(Q), "y": y, "lambdas": most * 0.05 ** np.linspace(0.0, 1.0, 60)}


def by_us(data: dict[str, Any], loss: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Return CPU seconds, predictions at the smallest λ, and as many λ as were followed."""
    from daskfs.kernels.group_lasso.groups import ColumnGroups
    from daskfs.kernels.group_lasso.path import group_path

    X, y = data["X"], data["y"]

    def path(X: np.ndarray, y: np.ndarray, lambdas: np.ndarray | None) -> Any:
        groups = ColumnGroups(np.arange(X.shape[1]), np.arange(0, X.shape[1] + 1, 10))
        how = {"per_column": 2.0, "patience": None, "lambdas": lambdas}
        return group_path(X, y, np.ones(len(y)), groups, loss=loss, **how)

    for few in (X[:300, :20], X[:50, :200]):  # compiles both ways
        path(np.ascontiguousarray(few), y[: len(few)], None)
    start = time.process_time()
    found = path(X, y, data["lambdas"])
    seconds = time.process_time() - start
    step = len(found.lambdas) - 1
    print(
        f"ours: {len(found.lambdas)} λ, df {found.df[-1]}, {found.n_passes} passes, stop: {found.stop}",
        file=sys.stderr,
    )
    return seconds, X @ found.coefficients(step) + found.intercept(step), found.lambdas


def by_adelie(data: dict[str, Any], loss: str) -> tuple[float, np.ndarray]:
    """Return the same of adelie."""
    import adelie as ad

    y = data["y"]
    glm = ad.glm.gaussian(y) if loss == "squared" else ad.glm.binomial((y > 0).astype(float))
    groups = np.arange(0, data["Q"].shape[1], 10)
    start = time.process_time()
    how = {"lmda_path": data["lambdas"], "early_exit": False, "n_threads": 1, "progress_bar": False}
    state = ad.grpnet(data["Q"], glm, groups=groups, intercept=True, tol=1e-9 if loss == "squared" else 1e-7, **how)
    seconds = time.process_time() - start
    return seconds, data["Q"] @ np.asarray(state.betas[-1].todense()).ravel() + state.intercepts[-1]


def by_skglm(data: dict[str, Any], loss: str) -> tuple[float, np.ndarray]:
    """Return the same of skglm, λ after λ from where the last one ended; least squares of a centred target alone."""
    from skglm.datafits import LogisticGroup, QuadraticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupBCD, GroupProxNewton
    from skglm.utils.data import grp_converter
    from skglm.utils.jit_compilation import compiled_clone

    Q, y = data["Q"], data["y"] - (data["y"].mean() if loss == "squared" else 0.0)

    def path(Q: np.ndarray, y: np.ndarray, lambdas: np.ndarray) -> np.ndarray:
        indices, starts = grp_converter(10, Q.shape[1])
        datafit = compiled_clone((QuadraticGroup if loss == "squared" else LogisticGroup)(starts, indices))
        if loss == "squared":
            datafit.initialize(Q, y)
        is_squared = loss == "squared"
        solver = (
            GroupBCD(tol=1e-6, fit_intercept=False) if is_squared else GroupProxNewton(tol=1e-6, fit_intercept=True)
        )
        coef, fitted = np.zeros(Q.shape[1] + (not is_squared)), np.zeros(len(y))
        for lam in lambdas:
            penalty = compiled_clone(WeightedGroupL2(lam, np.full(Q.shape[1] // 10, 10**0.5), starts, indices))
            coef = solver.solve(Q, y, datafit, penalty, coef, fitted)[0]
            fitted = Q @ coef[: Q.shape[1]] + (coef[-1] if not is_squared else 0.0)
        return fitted

    path(np.asfortranarray(Q[:200, :100]), y[:200], data["lambdas"][:3])
    start = time.process_time()
    fitted = path(Q, y, data["lambdas"])
    return time.process_time() - start, fitted + (data["y"].mean() if loss == "squared" else 0.0)


PEERS = {"ours": by_us, "adelie": by_adelie, "skglm": by_skglm}


def measure_one(peer: str, file: str, loss: str) -> None:
    """Print the seconds of one method on the arrays of a file, and where its predictions go."""
    warnings.simplefilter("ignore")
    with np.load(file) as kept:
        data = {key: kept[key] for key in kept.files}
    seconds, fitted, *followed = PEERS[peer](data, loss)
    if followed:  # the others go as far
        np.savez(file, **(data | {"lambdas": followed[0]}))
    np.save(f"{file}.{peer}.npy", fitted)
    print(json.dumps({"seconds": seconds}))


def measure_time(peers_python: str | None) -> None:
    """Print CPU seconds of the path of one subset."""
    for n, p in ((20_000, 100), (2_000, 4_000), (600, 10_000)):
        for loss in ("squared", "logistic"):
            with tempfile.TemporaryDirectory() as folder:
                file, found, fitted = str(Path(folder) / "subset.npz"), {}, {}
                np.savez(file, **one_subset(n, p, loss))
                for peer in PEERS:
                    python = peers_python if peer == "adelie" and peers_python else sys.executable
                    command = [python, __file__, "one", peer, file, loss]
                    environment = os.environ | ONE_THREAD
                    if python != sys.executable:
                        environment.pop("PYTHONPATH", None)
                    how = {"env": environment, "capture_output": True, "text": True, "check": False}
                    try:
                        ended = subprocess.run(command, timeout=LONGEST, **how)
                    except subprocess.TimeoutExpired:
                        found[peer] = f"more than {LONGEST} s"
                        continue
                    if ended.returncode:
                        found[peer] = ended.stderr.strip().splitlines()[-1][:60]
                        continue
                    found[peer] = f"{json.loads(ended.stdout.splitlines()[-1])['seconds']:.2f} s"
                    fitted[peer] = np.load(f"{file}.{peer}.npy")
                    print(ended.stderr.strip(), file=sys.stderr)
                apart = [float(np.abs(one - fitted["ours"]).max()) for one in fitted.values()]
            cells = ", ".join(f"{peer} {seconds}" for peer, seconds in found.items())
            print(f"{n:,} x {p:,}, {loss}: {cells}; predictions are {max(apart):.1e} apart", flush=True)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("planted", "schema", "time", "one"))
    parser.add_argument("of_one", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="+", default=["adult", "flights_houston", "kddcup99"])
    parser.add_argument("--peers-python")
    asked = parser.parse_args()
    if asked.part == "one":
        return measure_one(*asked.of_one)
    warnings.simplefilter("ignore")
    if asked.part == "planted":
        return planted(asked.seeds)
    return schema(asked.only) if asked.part == "schema" else measure_time(asked.peers_python)


if __name__ == "__main__":
    main()
