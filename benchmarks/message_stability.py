"""How stable is MESSAGE's selection on real data, against Lasso by cross-validation and stability selection?

    DASKFS_DATA=... python benchmarks/message_stability.py adult img_mnist kddcup99 geno_mice_bglr text_20news_bydate \
        text_aclimdb gisette_like [--partitions 20] [--output FOLDER]

A fifth of the rows is the test set, the same for all. Each method selects `--partitions` times on the others, and what
is random in it changes: MESSAGE's subsets, the folds of LassoCV, the half samples of stability selection (Meinshausen
and Bühlmann 2010: 20 halves, features among the first q of the Lasso path in 60 % of them, q as many as allow one
false feature to be expected). LassoCV and stability selection see labels of -1 and 1 as numbers; all see standardised
columns;
stability selection is refitted without a penalty by the model that MESSAGE fits. Stability is the mean Jaccard index of
all pairs of selections. Duplicate rows of kddcup99 are left out.
Writes stability.csv, row by row, and prints the table.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LassoCV, LinearRegression, LogisticRegression, lars_path, lars_path_gram
from sklearn.model_selection import KFold, train_test_split

from daskfs.metrics import stability
from daskfs.selectors.message.selector import Message

METHODS = ("message", "lasso cv", "stability selection")
N_HALVES, THRESHOLD = 20, 0.6


def _loader() -> object:
    path = Path(os.environ["DASKFS_DATA"], "load_all.py")
    spec = importlib.util.spec_from_file_location("load_all", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _dummies(frame: pd.DataFrame) -> np.ndarray:
    return pd.get_dummies(frame, drop_first=True).to_numpy(np.float32)


def _texts(texts: list[str], n_columns: int = 4000) -> np.ndarray:
    return TfidfVectorizer(max_features=n_columns, sublinear_tf=True, dtype=np.float32).fit_transform(texts).toarray()


def load(name: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return columns, target, and whether it is one of two classes (0 and 1)."""
    data = _loader()
    if name == "gisette_like":
        X, y, *_ = data.gisette_like(0)
        return np.asarray(X, np.float32), (y == np.max(y)).astype(float), True
    X, y, _ = data.load(name)
    y = np.asarray(y)
    if name == "geno_mice_bglr":
        y = np.asarray(y, float)
        known = np.isfinite(y)
        return np.asarray(X, np.float32)[known], y[known], False
    if name == "img_mnist":
        return np.asarray(X, np.float32).reshape(len(y), -1), (y == np.max(y)).astype(float), True
    if name == "adult":
        return _dummies(X), (y.astype(str) == np.unique(y.astype(str))[-1]).astype(float), True
    if name == "kddcup99":
        whole = X.assign(y=y).drop_duplicates()
        return _dummies(whole.drop(columns="y")), (whole["y"] != "normal.").to_numpy(float), True
    texts = [row["text"] if "text" in row else row.get("body", "") for row in X]
    if name == "text_20news_bydate":
        first = np.array([str(label).split(".")[0] for label in y])
        return _texts(texts), np.isin(first, ["comp", "sci"]).astype(float), True
    return _texts(texts), (y == np.unique(y)[-1]).astype(float), True


def by_message(X: np.ndarray, y: np.ndarray, is_class: bool, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    model = Message(loss="logistic" if is_class else "squared", random_state=seed).fit(X, y)
    coef = np.asarray(model.coef_, float)
    return np.flatnonzero(model.support_), coef, float(model.intercept_)


def by_lasso_cv(X: np.ndarray, y: np.ndarray, is_class: bool, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    target = 2 * y - 1 if is_class else y
    model = LassoCV(cv=KFold(5, shuffle=True, random_state=seed), alphas=50).fit(X, target)
    return np.flatnonzero(model.coef_), model.coef_, float(model.intercept_)


def by_stability_selection(
    X: np.ndarray, y: np.ndarray, is_class: bool, seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    rng = np.random.default_rng(seed)
    target, p = (2 * y - 1 if is_class else y), X.shape[1]
    q = max(1, int(np.sqrt((2 * THRESHOLD - 1) * p)))
    counts = np.zeros(p)
    for _ in range(N_HALVES):
        rows = rng.permutation(len(y))[: len(y) // 2]
        part = X[rows] - X[rows].mean(axis=0)
        cross = part.T @ (target[rows] - target[rows].mean())
        if p <= 2000:
            gram = (part.T @ part).astype(float)
            _, active, _ = lars_path_gram(cross.astype(float), gram, n_samples=len(rows), method="lasso", max_iter=q)
        else:
            _, active, _ = lars_path(part, target[rows] - target[rows].mean(), method="lasso", max_iter=q)
        counts[np.asarray(active, int)] += 1
    chosen = np.flatnonzero(counts >= THRESHOLD * N_HALVES)
    coef = np.zeros(p)
    if not len(chosen):
        return chosen, coef, float(target.mean())
    model = LogisticRegression(C=1e6, max_iter=500) if is_class else LinearRegression()
    model.fit(X[:, chosen], y)
    coef[chosen] = np.ravel(model.coef_)
    return chosen, coef, float(np.ravel(model.intercept_)[0])


RUN = {"message": by_message, "lasso cv": by_lasso_cv, "stability selection": by_stability_selection}


def measure(name: str, methods: list[str], n_partitions: int, output: Path) -> None:
    """Write one row for each method and partition, as it is measured."""
    X, y, is_class = load(name)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y if is_class else None)
    centre, scale = X.mean(axis=0), X.std(axis=0)
    varies = scale > 0
    X, X_test = ((part[:, varies] - centre[varies]) / scale[varies] for part in (X, X_test))
    print(f"{name}: {X.shape[0]:,} x {X.shape[1]:,} to learn from, {len(y_test):,} to test", flush=True)
    rows: dict[str, list] = {}
    for method in methods:
        for seed in range(n_partitions):
            started = time.process_time()
            chosen, coef, intercept = RUN[method](X, y, is_class, seed)
            seconds = time.process_time() - started
            z = X_test[:, chosen] @ coef[chosen] + intercept
            good = np.mean((z > 0) == (y_test > 0)) if is_class else 1 - np.mean((y_test - z) ** 2) / y_test.var()
            rows.setdefault(method, []).append((chosen, good, seconds))
            row = {"data": name, "method": method, "seed": seed, "score": good, "k": len(chosen), "seconds": seconds}
            path = output / "stability.csv"
            pd.DataFrame([row]).to_csv(path, mode="a", header=not path.exists(), index=False)
        chosen, good, seconds = zip(*rows[method], strict=True)
        agreement = stability([set(map(int, one)) for one in chosen]) if X.shape[1] else np.nan
        print(
            f"  {method:20s} {'accuracy' if is_class else 'R²'} {np.mean(good):.3f} (sd {np.std(good):.3f})   features "
            f"{np.mean([len(one) for one in chosen]):7.1f}   stability {agreement:.3f}   "
            f"{np.median(seconds):7.2f} CPU s",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/message_stability"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")  # the others' warnings of convergence
    for name in arguments.names:
        measure(name, arguments.methods, arguments.partitions, arguments.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
