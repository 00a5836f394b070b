"""What selected features are worth on all open sets: every selector beside its peers, with 10, 30, 100 or "cv".

    DASKFS_DATA=... python benchmarks/quality.py --keep rows.jsonl [--only criteo] [--methods fgm l1] [--sizes 10 cv]
    DASKFS_DATA=... python benchmarks/quality.py --keep rows.jsonl --before earlier.jsonl
    python benchmarks/quality.py --show --keep rows.jsonl --cells   # joins the rows' cells with those of quality.md
    python benchmarks/quality.py --page                             # and writes gauntlet.md from them: see gauntlet.py

Sets, samples and folds: `open_sets.py`. The selectors get the rows as they are and are made as a user makes them: the
number of features, "cv" among them (MESSAGE: at most so many; "cv" is `SelectionCV`), default values else, and the loss
where the default does not see classes. ``auto`` is ``Auto(goal="prediction")``, at its own number; ``prediction`` is
``Message(goal="prediction")``.

The peers get dense columns standardised, sparse ones divided by their greatest value:

l1        Lasso, or logistic regression with an l1 penalty (liblinear, one class against the rest), at the same number
LassoCV   scikit-learn's, 5 folds, classes as -1 and 1: at its own number
l1-cv     logistic regression with an l1 penalty, of ten the one of least cross-validated log loss, 5 folds
enet-cv   scikit-learn's ElasticNetCV, 5 folds, l1 shares .2, .5 and .9, classes as -1 and 1: at its own number
OMP       scikit-learn's orthogonal matching pursuit, classes as -1 and 1
f-test    the largest F statistics
trees     the largest importances of 100 extremely randomised trees, each split among √p columns
forest    the largest importances of a random forest of 200 trees, each split among √p columns
boosting  the largest importances of 100 boosted trees of depth 3, on halves of the rows, each split among √p columns

Every cell is judged twice on the rows held out: by the model's own predictions, and by one refit for all, on the
selected columns standardised: ridge regression, its penalty by leave-one-out, or logistic regression with a ridge, its
penalty by 3 folds. Measures: R², the area under the ROC curve (two classes), accuracy (several). Means over the folds
and their standard errors. Of each fit also the CPU seconds of the process; MiB, the greatest resident size of the
process while it ran beyond that before (Linux; what was freed earlier and is used again does not show); and which
columns were selected, from which the stability over the folds (Nogueira's index, 1: always the same).

With --keep what the file holds is not measured again. With --before the rows of another checkout stand beside.
"""

from __future__ import annotations

import argparse
import ctypes
import inspect
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gauntlet
import numpy as np
import scipy.sparse
from open_sets import SETS, OpenSet, open_set
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import f_classif, f_regression
from sklearn.linear_model import (
    ElasticNetCV,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    OrthogonalMatchingPursuit,
    RidgeCV,
    lars_path,
)
from sklearn.metrics import roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import daskfs
from daskfs.model_selection.stability_index import stability_index

SIZES = ("10", "30", "100", "cv")
SELECTORS = {
    "auto": "Auto",
    "message": "Message",
    "prediction": "Message",
    "online_substitution": "OnlineSubstitution",
    "fgm": "FGM",
    "mission": "Mission",
}
OUR_OWN_NUMBER = ("auto", "prediction")
PEERS = ("l1", "LassoCV", "l1-cv", "enet-cv", "OMP", "f-test", "trees", "forest", "boosting")
OWN_NUMBER = ("LassoCV", "l1-cv", "enet-cv")
"""Peers that find the number of features themselves."""
BY_IMPORTANCE: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "trees": (ExtraTreesRegressor, ExtraTreesClassifier, {"n_estimators": 100}),
    "forest": (RandomForestRegressor, RandomForestClassifier, {"n_estimators": 200}),
    "boosting": (GradientBoostingRegressor, GradientBoostingClassifier, {"n_estimators": 100, "subsample": 0.5}),
}
N_BISECTIONS = 12
MAX_DENSE_NBYTES = 700 << 20
Measured = tuple[np.ndarray, Any]
"""The selected columns, and the model's own score (None where it has none)."""


def measure_of(task: str, y: np.ndarray, prediction: np.ndarray) -> float:
    """Return R², the area under the ROC curve, or accuracy."""
    if task == "regression":
        return float(1.0 - np.mean((y - prediction) ** 2) / np.var(y))
    if task == "binary":
        return float(roc_auc_score(y, prediction)) if np.isfinite(prediction).all() else 0.5
    return float(np.mean(prediction == y))


def scores_with(model: Any, X: Any, task: str) -> np.ndarray:
    """Return what `measure_of` judges: a number, or a class where there are several."""
    if task == "binary":
        return np.asarray(model.decision_function(X)).ravel()
    return np.asarray(model.predict(X)).ravel()


def refit(data: OpenSet, columns: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Return what the columns are worth to one model for all."""
    y, y_test = data.y[train], data.y[test]
    if not len(columns):
        most = np.bincount(y.astype(int)).argmax() if data.task == "classes" else 0
        return {"regression": 0.0, "binary": 0.5, "classes": float(np.mean(y_test == most))}[data.task]
    picked = data.X[:, columns]
    picked = picked.toarray() if scipy.sparse.issparse(picked) else picked
    model: Any
    if data.task == "regression":
        model = RidgeCV(np.logspace(-2, 4, 13))
    else:
        model = LogisticRegressionCV(
            Cs=[1e-3, 1e-2, 1e-1, 1.0, 10.0], cv=3, scoring="neg_log_loss", use_legacy_attributes=False
        )
    pipeline = make_pipeline(StandardScaler(), model).fit(picked[train].astype(float), y)
    return measure_of(data.task, y_test, scores_with(pipeline, picked[test].astype(float), data.task))


def selector(method: str, size: int | str, task: str) -> Any:
    """Return one of daskfs's selectors as a user makes it."""
    made = getattr(daskfs, SELECTORS[method])
    options: dict[str, Any] = {"goal": "prediction"} if method in OUR_OWN_NUMBER else {}
    if method == "message" and size != "cv":
        options["max_features"] = size
    elif method not in ("message", *OUR_OWN_NUMBER):
        options["n_features_to_select"] = size
    default = inspect.signature(made).parameters["loss"].default
    if default != "auto":
        options["loss"] = {"regression": "squared", "binary": "logistic", "classes": "multinomial"}[task]
    if method != "fgm":
        options["random_state"] = 0
    found = made(**options)
    return daskfs.SelectionCV(found, random_state=0) if (method, size) == ("message", "cv") else found


def of_selector(method: str, size: int | str, data: OpenSet, train: np.ndarray, test: np.ndarray) -> Measured:
    """Select and predict with one of daskfs's selectors."""
    model = selector(method, size, data.task).fit(data.X[train], data.y[train])
    prediction = scores_with(model, data.X[test], data.task)
    return np.flatnonzero(model.support_), measure_of(data.task, data.y[test], prediction)


def of_peer(method: str, size: int, data: OpenSet, train: np.ndarray, test: np.ndarray) -> Measured | None:
    """Select and predict with a peer; None where it cannot."""
    scaler = (MaxAbsScaler() if scipy.sparse.issparse(data.X) else StandardScaler()).fit(data.X[train])
    X, X_test, y = scaler.transform(data.X[train]), scaler.transform(data.X[test]), data.y[train]
    if method == "f-test":
        statistic = (f_regression if data.task == "regression" else f_classif)(X, y)[0]
        return np.argsort(-np.nan_to_num(statistic), kind="stable")[:size], None
    if method == "l1":
        return l1(size, data.task, X, y, X_test, data.y[test])
    if method == "l1-cv":
        return None if data.task == "regression" else l1_by_folds(data.task, X, y, X_test, data.y[test])
    if data.task == "classes" or X.shape[0] * X.shape[1] * 8 > MAX_DENSE_NBYTES:
        return None
    dense, dense_test = (part.toarray() if scipy.sparse.issparse(part) else part for part in (X, X_test))
    numbers = y if data.task == "regression" else 2.0 * y - 1.0
    model: Any = {
        "LassoCV": lambda: LassoCV(cv=5),
        "enet-cv": lambda: ElasticNetCV(l1_ratio=[0.2, 0.5, 0.9], cv=5),
        "OMP": lambda: OrthogonalMatchingPursuit(n_nonzero_coefs=min(size, len(y) - 1)),
    }[method]()
    model.fit(dense.astype(float), numbers)
    return np.flatnonzero(model.coef_), measure_of(data.task, data.y[test], model.predict(dense_test.astype(float)))


def by_importance(method: str, data: OpenSet, fold: int, train: np.ndarray) -> np.ndarray:
    """Return the columns in the order of their importance, grown once for all numbers of features."""
    place = method, data.name, fold
    if place not in _GROWN:
        regressor, classifier, options = BY_IMPORTANCE[method]
        made = (regressor if data.task == "regression" else classifier)(max_features="sqrt", random_state=0, **options)
        _GROWN.clear()
        importances = made.fit(data.X[train], data.y[train]).feature_importances_
        _GROWN[place] = np.argsort(-importances, kind="stable")
    return _GROWN[place]


_GROWN: dict[tuple[str, str, int], np.ndarray] = {}


def l1(size: int, task: str, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Measured:
    """Return the l1 model with the most features that are not more than asked for."""
    if task == "regression":
        mean = y.mean()
        with np.errstate(all="ignore"):
            _, _, coefs = lars_path(np.asarray(X, dtype=float), y - mean, method="lasso", max_iter=4 * size)
        counts = np.count_nonzero(coefs, axis=0)
        best = int(np.flatnonzero(counts <= size).max())
        return np.flatnonzero(coefs[:, best]), measure_of(task, y_test, X_test @ coefs[:, best] + mean)
    low, high, best_model, best_columns = 1e-4, 1e2, None, np.zeros(0, dtype=int)
    for _ in range(N_BISECTIONS):
        C = float(np.sqrt(low * high))
        one = LogisticRegression(l1_ratio=1.0, solver="liblinear", C=C, random_state=0, max_iter=100)
        model = (OneVsRestClassifier(one) if task == "classes" else one).fit(X, y)
        coef = np.vstack([m.coef_ for m in model.estimators_]) if task == "classes" else model.coef_
        columns = np.flatnonzero(np.any(coef != 0.0, axis=0))
        if len(columns) <= size:
            low = C
            if best_model is None or len(columns) >= len(best_columns):
                best_model, best_columns = model, columns
            if len(columns) == size:
                break
        else:
            high = C
    if best_model is None:
        return best_columns, None
    return best_columns, measure_of(task, y_test, scores_with(best_model, X_test, task))


def l1_by_folds(task: str, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Measured:
    """Return the l1 model whose penalty cross-validation chooses, each class from the rest."""
    one = LogisticRegressionCV(
        Cs=10,
        cv=5,
        l1_ratios=[1.0],
        solver="liblinear",
        scoring="neg_log_loss",
        random_state=0,
        use_legacy_attributes=False,
    )
    model = (OneVsRestClassifier(one) if task == "classes" else one).fit(X, y)
    coef = np.vstack([part.coef_ for part in model.estimators_]) if task == "classes" else model.coef_
    return np.flatnonzero(np.any(coef != 0.0, axis=0)), measure_of(task, y_test, scores_with(model, X_test, task))


def measure(data: OpenSet, method: str, size: int | str, fold: int, train: np.ndarray, test: np.ndarray) -> dict:
    """Return one cell of one fold."""
    before, started = resident_nbytes(), time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found: Measured | None
            if method in SELECTORS:
                found = of_selector(method, size, data, train, test)
            elif method in BY_IMPORTANCE:
                found = by_importance(method, data, fold, train)[: int(size)], None
            else:
                found = of_peer(method, int(size), data, train, test)
        except Exception as error:  # a refusal is a result of this comparison: it is told
            return {"refused": f"{type(error).__name__}: {error}"[:300]}
    seconds, peak = time.process_time() - started, resident_nbytes(peak=True)
    if found is None:
        return {"refused": "not for this set"}
    columns, own = found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judged = refit(data, columns, train, test)
    told = sorted({type(one.message).__name__ for one in said})
    row = {"own": own, "refit": judged, "n_selected": len(columns), "cpu_s": round(seconds, 3), "warned": told}
    row["memory_nbytes"] = None if before is None or peak is None else max(0, peak - before)
    n_features = data.X.shape[1]
    row["columns"] = "all" if len(columns) == n_features else np.asarray(columns).tolist()
    return row | {"n_features": n_features}


def resident_nbytes(peak: bool = False) -> int | None:
    """Return what this process holds, or the most since that was asked for; None where the system cannot say."""
    with suppress(OSError, AttributeError):
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        if peak:
            return int(status["VmHWM"].split()[0]) << 10
        ctypes.CDLL(None).malloc_trim(0)  # freed memory that is used again would not show
        Path("/proc/self/clear_refs").write_text("5")
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status["VmRSS"].split()[0]) << 10
    return None


def sizes_of(data: OpenSet, method: str, sizes: Sequence[str]) -> Iterator[int | str]:
    """Yield the numbers of features to ask for: fewer than there are, and one for a method that finds its own."""
    numbers = [int(size) for size in sizes if size.isdigit()]
    if method in OUR_OWN_NUMBER:
        yield "own"
        return
    for size in numbers[:1] if method in OWN_NUMBER else numbers:
        if size < data.X.shape[1] or size == min(numbers):
            yield min(size, data.X.shape[1])
    if "cv" in sizes and method in SELECTORS:
        yield "cv"


def summary(rows: list[dict]) -> dict[tuple[str, str, int | str], dict]:
    """Return mean and standard error over the folds of each cell."""
    cells: dict[tuple[str, str, int | str], dict] = {}
    for key in dict.fromkeys((row["set"], row["method"], row["size"]) for row in rows):
        of_key = [row for row in rows if (row["set"], row["method"], row["size"]) == key and "refit" in row]
        if not of_key:
            continue
        cell: dict[str, Any] = {"n_selected": float(np.mean([row["n_selected"] for row in of_key]))}
        cell["cpu_s"] = float(np.mean([row["cpu_s"] for row in of_key]))
        for judged in ("own", "refit"):
            values = np.array([row[judged] for row in of_key if row[judged] is not None], dtype=float)
            if len(values):
                spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
                cell[judged] = (float(values.mean()), float(spread))
        if "own" in cell:
            lost = np.array([row["refit"] - row["own"] for row in of_key if row["own"] is not None])
            cell["lost"] = (float(lost.mean()), float(lost.std(ddof=1) / np.sqrt(len(lost))) if len(lost) > 1 else 0.0)
        if all(row.get("memory_nbytes") is not None for row in of_key):
            cell["mib"] = float(np.mean([row["memory_nbytes"] for row in of_key])) / (1 << 20)
        if len(of_key) > 1 and all(row.get("columns") is not None for row in of_key):
            d = of_key[0]["n_features"]
            selections = [range(d) if row["columns"] == "all" else row["columns"] for row in of_key]
            cell["stability"] = float(stability_index(selections, d).value)
        cells[key] = cell
    return cells


def print_sets(cells: dict, before: dict) -> None:
    """Print a table: a row per set, method and number of features."""
    print(
        "\n| set | method | asked | selected | own | refit | CPU s |"
        + (" own before | refit before |" if before else "")
    )
    print("|---|---|---|---|---|---|---|" + ("---|---|" if before else ""))
    for key, cell in cells.items():
        line = f"| {key[0]} | {key[1]} | {key[2]} | {cell['n_selected']:.0f} | {_shown(cell, 'own')} | "
        line += f"{_shown(cell, 'refit')} | {cell['cpu_s']:.2f} |"
        if before:
            line += f" {_shown(before.get(key, {}), 'own')} | {_shown(before.get(key, {}), 'refit')} |"
        print(line)


def _shown(cell: dict, judged: str) -> str:
    if judged not in cell:
        return "-"
    mean, error = cell[judged]
    return f"{mean:.3f} ± {error:.3f}" if abs(mean) < 100 else f"{mean:.3g} ± {error:.2g}"


def print_summary(cells: dict, sizes: Sequence[str]) -> None:
    """Print what each method is worth beside l1 over all sets, and where own predictions fall behind the refit."""
    print("\n| method | asked | sets | mean refit | l1 there | not below l1 - 1 SE | own below refit by over 1 SE |")
    print("|---|---|---|---|---|---|---|")
    for method in (*SELECTORS, *PEERS):
        for size in [int(size) for size in sizes if size.isdigit()]:
            pairs = [
                (cells[key], cells[key[0], "l1", size])
                for key in cells
                if key[1:] == (method, size) and (key[0], "l1", size) in cells
            ]
            if not pairs:
                continue
            ours = np.array([cell["refit"][0] for cell, _ in pairs])
            theirs = np.array([peer["refit"] for _, peer in pairs])
            level = int(np.sum(ours >= theirs[:, 0] - theirs[:, 1]))
            owned = [cell for cell, _ in pairs if "lost" in cell]
            behind = sum(cell["lost"][0] > max(cell["lost"][1], cell["refit"][1]) for cell in owned)
            print(
                f"| {method} | {size} | {len(pairs)} | {ours.mean():.3f} | {theirs[:, 0].mean():.3f} | "
                f"{level} of {len(pairs)} | {f'{behind} of {len(owned)}' if owned else '-'} |"
            )


def read_rows(path: Path | None) -> list[dict]:
    """Return the rows of a file that `--keep` wrote."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> int:
    """Measure what is not in the file yet and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(SETS), choices=list(SETS), metavar="SET")
    parser.add_argument("--methods", nargs="*", default=[*SELECTORS, *PEERS], choices=[*SELECTORS, *PEERS])
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--keep", type=Path, help="a file of rows, added to as they are measured")
    parser.add_argument("--before", type=Path, help="the rows of another checkout")
    parser.add_argument("--show", action="store_true", help="measure nothing, print the tables of --keep")
    parser.add_argument("--cells", action="store_true", help="put the cells of --keep into quality.md")
    parser.add_argument("--page", action="store_true", help="write gauntlet.md from the cells of quality.md")
    options = parser.parse_args()
    if options.page:
        gauntlet.write_page()
        return 0
    rows = read_rows(options.keep)
    there = {(row["set"], row["method"], row["size"], row["fold"]) for row in rows}
    for name in [] if options.show else options.only:
        data = open_set(name)
        for fold, (train, test) in enumerate(data.folds()):
            for method in options.methods:
                for size in sizes_of(data, method, options.sizes):
                    place = {"set": name, "method": method, "size": size, "fold": fold}
                    if tuple(place.values()) in there:
                        continue
                    row = place | {"task": data.task} | measure(data, method, size, fold, train, test)
                    rows.append(row)
                    if options.keep:
                        with options.keep.open("a") as file:
                            file.write(json.dumps(row) + "\n")
        print(
            f"{name}: {data.X.shape[0]:,} x {data.X.shape[1]:,}, {time.process_time():.0f} s",
            file=sys.stderr,
            flush=True,
        )
    wanted = [row for row in rows if row["set"] in options.only and row["method"] in options.methods]
    if options.cells:
        gauntlet.put_cells(summary(wanted))
        return 0
    print_sets(summary(wanted), summary(read_rows(options.before)))
    print_summary(summary(wanted), options.sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
