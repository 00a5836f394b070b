"""FGM and l1 on real data: accuracy against the number of features, with and without a refit.

    DASKFS_DATA=... python benchmarks/fgm_real.py [--only gene_golub gisette_0] [--counts 50 100] [--keep rows.jsonl]

With --keep each set and method is measured once: what the file holds already is shown, not measured again.

Data: two tasks of 20 newsgroups (official split; PC against Mac with uni- and bigrams, computers and science against
the rest with unigrams), 25,000 reviews of aclImdb with 1.5 million uni- and bigrams (half of them to test on),
all as tf-idf; expression data (golub, singh), arcene and the sample of epsilon (five folds); five data sets made after
gisette's recipe, half of whose columns are probes (tested on the last 1,000 rows); w8a (tested on a fifth). Dense
columns are standardised with the training rows; sparse ones stay as they are for l1, and for FGM both ways (`normalize`
True and False; the default lies between, docs/decisions/0059).

l1: scikit-learn's liblinear to its own tolerance of 0.01, squared hinge (l1-SVM) and logistic (l1-LR); C is bisected to
the wanted number of features, as nearly as a dozen fits get it. Refit of all methods: a ridge fit of the selected,
½ ‖w‖² + C Σ loss of standardised columns at FGM's default C. One standard error is sqrt(a (1 - a) / n), a the accuracy
of the better l1 over all n tested rows, each counted once (it tells what other rows might give; with --divisions, other
folds of the same rows, accuracies are means). Ends with 1 where the best FGM, its C by default, is below the best l1 by
more than one standard error, both without a refit.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.svm import LinearSVC, l1_min_c

from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.fgm.selector import FGM
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.run import Run

COUNTS = (50, 100, 200)
N_FITS = 12
SETS = [
    "20news_pc_mac", "20news_comp_sci", "aclimdb", "gene_golub", "gene_singh", "gene_arcene",
    *(f"gisette_{seed}" for seed in range(5)), "epsilon_sample", "libsvm_w8a",
]  # fmt: skip
Fold = tuple[Any, np.ndarray, Any, np.ndarray]


def loaders() -> Any:
    """Return the module that reads the data sets of DASKFS_DATA."""
    path = Path(os.environ["DASKFS_DATA"]) / "load_all.py"
    spec = importlib.util.spec_from_file_location("load_all", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def folds(name: str, n_divisions: int = 1) -> tuple[list[Fold], np.ndarray | None]:
    """Return the training and test parts of a data set, and which columns are probes where that is known.

    The small sets are divided into five folds, `n_divisions` times.
    """
    data = loaders()
    if name.startswith("20news"):
        return [_news(data, name)], None
    if name == "aclimdb":
        texts, labels, _ = data.load("text_aclimdb")
        X = TfidfVectorizer(ngram_range=(1, 2), dtype=np.float32).fit_transform([d["text"] for d in texts])
        y = np.where(labels == labels[0], 1.0, -1.0)
        train, test = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0, stratify=y)
        return [(X[train], y[train], X[test], y[test])], None
    if name.startswith("gisette"):
        X, y, is_probe = data.gisette_like(int(name[-1]))
        y = np.where(y > 0, 1.0, -1.0)
        return [_standardised(X[:6000], y[:6000], X[6000:], y[6000:])], is_probe
    X, y, _ = data.load(name)
    y = np.where(y == np.unique(y)[-1], 1.0, -1.0)
    if name == "libsvm_w8a":
        train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=0, stratify=y)
        X = X.astype(np.float32).tocsr()
        return [(X[train], y[train], X[test], y[test])], None
    X = np.asarray(X, dtype=np.float32)
    parts = []
    for division in range(n_divisions):
        splits = StratifiedKFold(5, shuffle=True, random_state=division).split(X, y)
        parts += [_standardised(X[train], y[train], X[test], y[test]) for train, test in splits]
    return parts, None


def _news(data: Any, name: str) -> Fold:
    posts, _, _ = data.load("text_20news_bydate")
    group = np.array([post["label"] for post in posts])
    if name == "20news_pc_mac":
        kept = np.isin(group, ["comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"])
        y = np.where(group == "comp.sys.mac.hardware", 1.0, -1.0)
    else:
        kept = np.ones(len(group), dtype=bool)
        y = np.where([g.startswith(("comp.", "sci.")) for g in group], 1.0, -1.0)
    posts = [post for post, keep in zip(posts, kept, strict=True) if keep]
    y = y[kept]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2 if name == "20news_pc_mac" else 1), dtype=np.float32)
    X = vectorizer.fit_transform([post["text"] for post in posts])
    is_test = np.array([post["split"] == "test" for post in posts])
    return X[~is_test], y[~is_test], X[is_test], y[is_test]


def _standardised(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Fold:
    mean, std = X.mean(axis=0), X.std(axis=0)
    std[std == 0.0] = 1.0
    scaled = [np.ascontiguousarray((part - mean) / std, dtype=np.float32) for part in (X, X_test)]
    return scaled[0], y, scaled[1], y_test


class Path1:
    """Fits of l1 along falling penalties, each made once; asked for by the number of features."""

    def __init__(self, kind: str, X: Any, y: np.ndarray) -> None:
        self.kind, self.X, self.y = kind, X, y
        self.least = l1_min_c(X, y, loss="squared_hinge" if kind == "l1-SVM" else "log")
        self.fits: dict[float, tuple[np.ndarray, np.ndarray, float]] = {}

    def fit(self, factor: float) -> int:
        """Fit with so many times the least C; return the number of features."""
        if factor not in self.fits:
            C = self.least * factor
            if self.kind == "l1-SVM":
                model = LinearSVC(penalty="l1", dual=False, C=C, tol=1e-2, max_iter=200, random_state=0)
            else:
                model = LogisticRegression(
                    l1_ratio=1.0, solver="liblinear", C=C, tol=1e-2, max_iter=200, random_state=0
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # at the tolerance that the paper takes
                model.fit(self.X, self.y)
            coef = np.ravel(model.coef_)
            chosen = np.flatnonzero(coef)
            self.fits[factor] = (chosen, coef[chosen], float(np.ravel(model.intercept_)[0]))
        return len(self.fits[factor][0])

    def nearest(self, wanted: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the fit whose number of features is nearest to the wanted one."""
        low, high = 1.0, 1.0
        while self.fit(high) < wanted and high < 3e3:
            low, high = high, high * 1.7
        for _ in range(N_FITS // 2):
            middle = float(np.sqrt(low * high))
            n = self.fit(middle)
            if n == wanted:
                break
            low, high = (middle, high) if n < wanted else (low, middle)
        best = min(self.fits, key=lambda factor: (abs(len(self.fits[factor][0]) - wanted), factor))
        return self.fits[best]


def fgm_of(loss: str, normalize: bool) -> Callable[[Any, np.ndarray, int], tuple[np.ndarray, np.ndarray, float]]:
    """Return a fit by FGM."""

    def fit(X: Any, y: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray, float]:
        found = FGM(min(wanted, X.shape[1]), loss=loss, normalize=normalize, debias=False).fit_matrix(ArrayMatrix(X, y))
        chosen = np.sort(found.selected_)
        return chosen, found.coef_[chosen], found.intercept_

    return fit


L1 = ("l1-SVM", "l1-LR")
FGM_VARIANTS = {
    "FGM hinge": fgm_of("squared_hinge", True),
    "FGM logistic": fgm_of("logistic", True),
    "FGM hinge, as is": fgm_of("squared_hinge", False),
    "FGM logistic, as is": fgm_of("logistic", False),
}


def n_right(X: Any, y: np.ndarray, chosen: np.ndarray, coef: np.ndarray, intercept: float) -> int:
    """Return how many rows a linear model labels rightly."""
    return int((np.where(X[:, chosen] @ coef + intercept > 0.0, 1.0, -1.0) == y).sum())


def refitted(X: Any, y: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Refit chosen columns, the same way for every method."""
    if not len(chosen):
        return chosen, np.zeros(0), float(np.sign(y.sum()))
    ridge = 1.0 / (max(0.01, 10.0 / len(y)) * len(y))
    columns = X[:, chosen]
    columns = np.asarray(columns.toarray() if hasattr(columns, "toarray") else columns, dtype=np.float64)
    fit = refit_selected(
        Run(ArrayMatrix(columns, y), "refit"), np.arange(len(chosen)), MeanLoss("squared_hinge", 1.0, ridge=ridge)
    )
    return chosen, fit.coef, fit.intercept


def measure(
    name: str, parts: list[Fold], is_probe: np.ndarray | None, method: str, counts: list[int], n_divisions: int
) -> list[dict[str, Any]]:
    """Return one row for each count."""
    counts = [count for count in counts if count < parts[0][0].shape[1]]
    n_test = sum(len(part[3]) for part in parts)
    sums = {count: {"right": 0, "refitted": 0, "selected": 0, "probes": 0} for count in counts}
    started = time.process_time()
    for X, y, X_test, y_test in parts:
        path = Path1(method, X, y) if method in L1 else None
        for count in counts:
            fit = path.nearest(count) if path else FGM_VARIANTS[method](X, y, count)
            sums[count]["right"] += n_right(X_test, y_test, *fit)
            sums[count]["refitted"] += n_right(X_test, y_test, *refitted(X, y, fit[0]))
            sums[count]["selected"] += len(fit[0])
            sums[count]["probes"] += int(is_probe[fit[0]].sum()) if is_probe is not None else 0
    shape = f"{parts[0][0].shape[0]:,} x {parts[0][0].shape[1]:,}"
    return [
        {
            "set": name, "shape": shape, "method": method, "count": count,
            "n_test": n_test // n_divisions if len(parts) > 1 else n_test, "divisions": n_divisions,
            "accuracy": found["right"] / n_test, "refitted": found["refitted"] / n_test,
            "selected": found["selected"] / len(parts), "probes": found["probes"] if is_probe is not None else None,
            "cpu_s": time.process_time() - started,
        }
        for count, found in sums.items()
    ]  # fmt: skip


def measured(
    name: str, methods: list[str], counts: list[int], n_divisions: int, keep: Path | None
) -> list[dict[str, Any]]:
    """Return the rows of a set, those that a file holds already from there; the others are added to it."""
    kept = [json.loads(line) for line in keep.read_text().splitlines()] if keep and keep.exists() else []
    rows = [row for row in kept if row["set"] == name and row["method"] in methods and row["count"] in counts]
    rows = [row for row in rows if row["divisions"] == n_divisions]
    is_sparse = name.startswith(("20news", "aclimdb", "libsvm"))
    loaded = None
    for method in methods:
        if method.endswith("as is") and not is_sparse:
            continue  # the columns are standardised already
        if any(row["method"] == method for row in rows):
            continue
        loaded = loaded or folds(name, n_divisions)
        found = measure(name, *loaded, method, counts, n_divisions)
        rows += found
        if keep:
            with keep.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in found)
    return rows


def standard_error(row: dict[str, Any]) -> float:
    """Return that of an accuracy."""
    return float(np.sqrt(row["accuracy"] * (1.0 - row["accuracy"]) / row["n_test"]))


def shown(rows: list[dict[str, Any]]) -> None:
    """Print one line for each set and method: accuracy ± standard error (after the refit) at each count."""
    counts = sorted({row["count"] for row in rows})
    print(f"\n| set | method | {' | '.join(map(str, counts))} | CPU s |\n|---|---|{'---|' * len(counts)}---|")
    for method in dict.fromkeys(row["method"] for row in rows):
        lines = {row["count"]: row for row in rows if row["method"] == method}
        cells = [
            f"{lines[c]['accuracy']:.3f} ± {standard_error(lines[c]):.3f} ({lines[c]['refitted']:.3f})"
            + ("" if lines[c]["probes"] is None else f" {lines[c]['probes']} p")
            + ("" if round(lines[c]["selected"]) == c else f" @{lines[c]['selected']:.0f}")
            for c in sorted(lines)
        ]
        cpu = next(row["cpu_s"] for row in lines.values())
        print(f"| {rows[0]['set']} | {method} | {' | '.join(cells)} | {cpu:.1f} |", flush=True)


def verdicts(rows: list[dict[str, Any]]) -> Iterator[tuple[str, int, float, float, bool]]:
    """Yield set, count, FGM's and l1's accuracy, and whether FGM's is no less than l1's minus one standard error."""
    for name in dict.fromkeys(row["set"] for row in rows):
        for count in sorted({row["count"] for row in rows if row["set"] == name}):
            here = [row for row in rows if row["set"] == name and row["count"] == count]
            of_l1 = [row for row in here if row["method"] in L1]
            of_fgm = [row["accuracy"] for row in here if row["method"] in FGM_VARIANTS]
            if of_l1 and of_fgm:
                l1 = max(of_l1, key=lambda row: row["accuracy"])
                yield name, count, max(of_fgm), l1["accuracy"], max(of_fgm) >= l1["accuracy"] - standard_error(l1)


def main() -> int:
    """Measure every set; return 1 where FGM falls short."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--counts", nargs="+", type=int, default=list(COUNTS))
    parser.add_argument("--methods", nargs="+", choices=[*L1, *FGM_VARIANTS], default=[*L1, *FGM_VARIANTS])
    parser.add_argument("--keep", type=Path, help="a file of rows, read first and added to")
    parser.add_argument("--divisions", type=int, default=1, help="of the small sets into five folds")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.only:
        found = measured(name, options.methods, options.counts, options.divisions, options.keep)
        shown(found)
        rows += found
    failed = False
    for name, count, fgm, l1, is_enough in verdicts(rows):
        failed |= not is_enough
        verdict = "better" if fgm > l1 else "within one standard error" if is_enough else "BELOW"
        print(f"{name} at {count}: FGM {fgm:.4f}, l1 {l1:.4f}: {verdict}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
