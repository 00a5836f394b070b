"""Online substitution on real data: what 10, 50 and 100 selected columns are worth, against the Lasso, OMP and abess.

    DASKFS_DATA=... python benchmarks/online_substitution_real.py --output real
    DASKFS_DATA=... python benchmarks/online_substitution_real.py --figure-4 --output real

Data: the folder named by DASKFS_DATA, through its loader. Every method selects on the training rows; what it selected
is judged by one model for all, on the rows held out: logistic regression with a ridge (C = 1) on standardised columns,
or ridge regression with its penalty by leave-one-out, so that it is the selection that is compared. Small sets: five
folds, twice; the others: 30 % held out, three times; text: the official split. Metrics: accuracy, or R².

--figure-4: figure 4 of Yang, Fujimaki, Kusumura and Liu (2016), on sets of the kind of theirs, which cannot be had: 1
% of the rows to train on, s from 50 to 200, squared hinge loss, error of the refit on the other rows, ten draws.

Rows go to results.csv and figure_4.csv; none that stands there is made again. abess is left out where it is not
installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from online_substitution_cases import EPOCHS, Penalty, Table, makers, online_substitution
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from daskfs.baselines import LassoCut, OrthogonalMatchingPursuit
from daskfs.matrix.arrays import ArrayMatrix

SMALL = ("gene_golub", "gene_alon", "gene_singh", "gene_gravier", "gene_arcene", "epsilon_sample", "gene_riboflavin")
NUMBERS = ("gene_riboflavin", "geno_mice_bglr", "geno_maize_gapit")
SETS = (*SMALL, "geno_maize_gapit", "geno_mice_bglr", "text_20news", "gisette_like", "mnist_4v9")
SIZES = (10, 50, 100)
METHODS = ("os exchange", "os", "l1 batch", "omp", "abess")
FIGURE_4_METHODS = ("os exchange", "os", "l1 batch", "proj-gd", "grafting", "l1 descent", "l0 descent", "omp")


def load(name: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return X, y (0 and 1, or numbers), and the training rows of an official split, or None."""
    folder = Path(os.environ["DASKFS_DATA"])
    spec = importlib.util.spec_from_file_location("load_all", folder / "load_all.py")
    loader = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(loader)  # type: ignore[union-attr]
    if name == "gisette_like":
        X, y, _ = loader.gisette_like(0)
        return X, y, None
    if name == "mnist_4v9":
        z = np.load(folder / "img_mnist" / "mnist_4v9.npz")
        X, y = np.vstack([z["X_train"], z["X_test"]]), np.r_[z["y_train"], z["y_test"]]
        return X.reshape(len(X), -1).astype(np.float32), (y == 9).astype(int), None
    if name == "text_20news":
        return _posts(loader)
    X, y, _ = loader.load(name)
    if name in NUMBERS:
        known = np.isfinite(y)
        return np.asarray(X, dtype=np.float32)[known], np.asarray(y, dtype=float)[known], None
    return np.asarray(X, dtype=np.float32), np.unique(y, return_inverse=True)[1], None


def _posts(loader: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """PC against Mac hardware: words of at least five training posts, square roots of counts."""
    mac, pc = "comp.sys.mac.hardware", "comp.sys.ibm.pc.hardware"
    posts = [post for post in loader.load("text_20news_bydate")[0] if post["label"] in (mac, pc)]
    is_train = np.array([post["split"] == "train" for post in posts])
    texts = [post["text"] for post in posts]
    words = CountVectorizer(min_df=5).fit([text for text, train in zip(texts, is_train, strict=True) if train])
    X = np.sqrt(words.transform(texts).toarray()).astype(np.float32)
    return X, np.array([post["label"] == mac for post in posts]).astype(int), np.flatnonzero(is_train)


def splits(
    name: str, X: np.ndarray, y: np.ndarray, official: Any, n_splits: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows to train on and those to judge on."""
    if official is not None:
        yield official, np.setdiff1d(np.arange(len(X)), official)
        return
    is_number = name in NUMBERS
    if name in SMALL or len(X) < 400:
        for seed in range(2):
            folds = (KFold if is_number else StratifiedKFold)(5, shuffle=True, random_state=seed)
            yield from folds.split(X, y)
        return
    yield from (ShuffleSplit if is_number else StratifiedShuffleSplit)(n_splits, test_size=0.3, random_state=0).split(
        X, y
    )


def selected_by(method: str, X: np.ndarray, y: np.ndarray, s: int, is_number: bool) -> np.ndarray:
    """Return the columns that a method selects."""
    loss = "squared" if is_number else "logistic"
    if method == "abess":
        from abess.linear import LinearRegression
        from abess.linear import LogisticRegression as AbessLogistic

        made = LinearRegression if is_number else AbessLogistic
        target = 10.0 * (y - y.mean()) / y.std() if is_number else y  # its threshold for a swap is an absolute number
        model = made(support_size=s, thread=1).fit(StandardScaler().fit_transform(X.astype(float)), target)
        return np.flatnonzero(model.coef_)
    options: dict[str, Any] = {"n_features_to_select": s, "loss": loss}
    made: dict[str, Callable[[], Any]] = {
        "os exchange": lambda: online_substitution(**options),
        "os": lambda: online_substitution(rule="os", **options),
        "l1 batch": lambda: LassoCut(**options),
        "omp": lambda: OrthogonalMatchingPursuit(**options),
    }
    return made[method]().fit_matrix(ArrayMatrix(X, y.astype(float))).selected_


def judge(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, is_number: bool) -> float:
    """Return accuracy or R² on the rows held out of one model for all."""
    if not X.shape[1]:
        return 0.0 if is_number else float(max(y[test].mean(), 1 - y[test].mean()))
    model = RidgeCV(np.logspace(-2, 4, 13)) if is_number else LogisticRegression(max_iter=2000)
    return float(make_pipeline(StandardScaler(), model).fit(X[train], y[train]).score(X[test], y[test]))


def compare(table: Table, name: str, methods: list[str], sizes: list[int], n_splits: int) -> None:
    """Select and judge on one set."""
    X, y, official = load(name)
    is_number = name in NUMBERS
    for k, (train, test) in enumerate(splits(name, X, y, official, n_splits)):
        varies = np.flatnonzero(X[train].std(axis=0) > 0)
        part = np.ascontiguousarray(X[np.ix_(train, varies)])
        for s in sizes:
            for method in methods:
                place = {"set": name, "s": s, "method": method, "split": k}
                if table.has(**place):
                    continue
                started = time.process_time()
                chosen = varies[selected_by(method, part, y[train], min(s, len(varies)), is_number)]
                seconds = time.process_time() - started
                metric = judge(X[:, chosen], y, train, test, is_number)
                table.add(**place, metric=metric, selected=len(chosen), seconds=seconds)


def print_comparison(table: Table) -> None:
    """Print the means and the deviation between splits."""
    for name in dict.fromkeys(row["set"] for row in table.rows):
        print(f"\n{name}: {'R²' if name in NUMBERS else 'accuracy'} on rows held out (CPU s)")
        print(f"{'s':<14}" + "".join(f"{s:>24}" for s in SIZES))
        for method in METHODS:
            line = f"{method:<14}"
            for s in SIZES:
                wanted = {"set": name, "s": s, "method": method}
                mean, count = table.mean("metric", **wanted)
                rows = [row for row in table.rows if all(row[key] == str(value) for key, value in wanted.items())]
                spread = np.std([float(row["metric"]) for row in rows]) if rows else 0.0
                line += f"{mean:>9.3f} ± {spread:.3f} ({table.mean('seconds', **wanted)[0]:.2f})" if count else " " * 24
            print(line)


def figure_4(table: Table, name: str, repeats: int) -> None:
    """Train on 1 % of the rows with the squared hinge; the error is that of the refit on the others."""
    X, y, _ = load(name)
    cut = StratifiedShuffleSplit(repeats, train_size=0.01, random_state=0)
    for k, (train, test) in enumerate(cut.split(X, y)):
        varies = np.flatnonzero(X[train].std(axis=0) > 0)
        matrix = ArrayMatrix(np.ascontiguousarray(X[np.ix_(train, varies)]), y[train].astype(float))
        for s in (50, 100, 150, 200):
            options = {"n_features_to_select": s, "loss": "squared_hinge"}
            case: Any = type("Train", (), {"train": matrix})
            made = makers(s, "squared_hinge", Penalty(case, options))
            for n_epochs in EPOCHS:
                made[f"os exchange {n_epochs}"] = lambda n=n_epochs, o=options: online_substitution(n_epochs=n, **o)
            for method in (*FIGURE_4_METHODS, *(f"os exchange {n_epochs}" for n_epochs in EPOCHS)):
                place = {"set": name, "s": s, "method": method, "split": k}
                if table.has(**place):
                    continue
                selector = made[method]().fit_matrix(matrix)
                error = float(np.mean(selector.predict(X[test][:, varies].astype(float)) != y[test]))
                table.add(**place, error=error, selected=len(selector.selected_))


def print_figure_4(table: Table) -> None:
    """Print the errors by number of features."""
    for name in dict.fromkeys(row["set"] for row in table.rows):
        print(f"\nfigure 4 on {name}: test error (columns selected)")
        print(f"{'s':<16}" + "".join(f"{s:>16}" for s in (50, 100, 150, 200)))
        for method in dict.fromkeys(row["method"] for row in table.rows if row["set"] == name):
            line = f"{method:<16}"
            for s in (50, 100, 150, 200):
                wanted = {"set": name, "s": s, "method": method}
                line += f"{table.mean('error', **wanted)[0]:>10.3f} ({table.mean('selected', **wanted)[0]:3.0f})"
            print(line)


def main(argv: list[str] | None = None) -> int:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--splits", type=int, default=3, help="of the sets that are not small")
    parser.add_argument("--figure-4", action="store_true")
    parser.add_argument("--repeats", type=int, default=10, help="draws of figure 4")
    parser.add_argument("--output", type=Path, default=Path("online_substitution_real"))
    arguments = parser.parse_args(argv)
    if "DASKFS_DATA" not in os.environ:
        print("DASKFS_DATA names no folder of real data: nothing to do")
        return 0
    warnings.simplefilter("ignore")
    methods = [name for name in arguments.methods if name != "abess" or importlib.util.find_spec("abess")]
    if arguments.figure_4:
        table = Table(arguments.output / "figure_4.csv", ("set", "s", "method", "split"))
        for name in ("gisette_like", "mnist_4v9"):
            figure_4(table, name, arguments.repeats)
        print_figure_4(table)
        return 0
    table = Table(arguments.output / "results.csv", ("set", "s", "method", "split"))
    for name in arguments.sets:
        compare(table, name, methods, arguments.sizes, arguments.splits)
    print_comparison(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
