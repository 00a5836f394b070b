"""The open data sets as matrices of numbers with folds to test on: what the job `gauntlet` judges every method by.

Tables become columns of numbers: missing values the median, categories of at least five rows dummies, time stamps
hour, weekday and month as dummies; texts become tf-idf of words in at least three texts, DNA windows their letter at
each position. Large sets are sampled: a set is there to tell methods apart, not to be finished.

Folds: five of sets of fewer than 1,000 rows, else three draws of at most 3,000 rows to train on and 3,000 to test on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from benchmarks.data import real_data

Task = Literal["regression", "binary", "classes"]
Matrix = np.ndarray | scipy.sparse.csr_array
N_TRAIN = N_TEST = 3000
N_FOLDS, N_DRAWS = 5, 3
FEW_ROWS = 1000
MIN_ROWS_OF_CATEGORY = 5


@dataclass(frozen=True)
class OpenSet:
    """A data set ready to be learnt from: numbers in float32, classes counted from 0."""

    name: str
    X: Matrix
    y: np.ndarray
    task: Task

    def folds(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows to train on and those to test on."""
        n = len(self.y)
        numbers = self.task == "regression"
        if n < FEW_ROWS:
            yield from (KFold if numbers else StratifiedKFold)(N_FOLDS, shuffle=True, random_state=0).split(
                self.X, self.y
            )
            return
        n_train = min(N_TRAIN, int(0.7 * n))
        sizes: dict[str, Any] = {"train_size": n_train, "test_size": min(N_TEST, n - n_train), "random_state": 0}
        draws = (ShuffleSplit if numbers else StratifiedShuffleSplit)(N_DRAWS, **sizes)
        yield from draws.split(self.X, self.y)


def open_set(name: str) -> OpenSet:
    """Load a data set by its name in `SETS`."""
    X, y, task = SETS[name]()
    if task == "regression":
        y = np.asarray(y, dtype=np.float64)
        known = np.isfinite(y)
    else:
        codes, counts = np.unique(y, return_inverse=True, return_counts=True)[1:]
        known = counts[codes] >= N_FOLDS  # a class that some fold would lack tells nothing
        y = np.unique(codes[known], return_inverse=True)[1]
    if not known.all():
        X = X[np.flatnonzero(known)]
        y = y[known] if task == "regression" else y
    if scipy.sparse.issparse(X):
        X = scipy.sparse.csr_array(X, dtype=np.float32)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # liblinear takes no others
        return OpenSet(name, X, y, task)
    return OpenSet(name, np.ascontiguousarray(X, dtype=np.float32), y, task)


def dummies(table: pd.DataFrame, categories: list[Any]) -> scipy.sparse.csr_array | np.ndarray:
    """Return the numbers of a table beside the dummies of its categories, sparse where the dummies are many."""
    numbers = table.drop(columns=categories).apply(pd.to_numeric, errors="coerce")
    parts: list[Any] = [numbers.fillna(numbers.median()).to_numpy(dtype=np.float32)]
    for name in categories:
        values = table[name].astype(str)
        kept = values.value_counts()
        codes = pd.Categorical(values, categories=sorted(kept[kept >= MIN_ROWS_OF_CATEGORY].index)).codes
        rows = np.flatnonzero(codes >= 0)
        shape = (len(table), int((kept >= MIN_ROWS_OF_CATEGORY).sum()))
        parts.append(scipy.sparse.coo_array((np.ones(len(rows), np.float32), (rows, codes[rows])), shape=shape))
    X = scipy.sparse.hstack([scipy.sparse.coo_array(part) for part in parts], format="csr")
    return X if X.shape[1] > 500 else X.toarray()


def _array(name: str, task: Task, *, rows: int | None = None) -> tuple[Matrix, np.ndarray, Task]:
    X, y, _ = real_data().load(name)
    kept = _sample(len(y), rows)
    X = X if scipy.sparse.issparse(X) else np.asarray(X)
    return X[kept], np.asarray(y)[kept], task


def _sample(n: int, rows: int | None) -> np.ndarray:
    return np.sort(np.random.default_rng(0).permutation(n)[:rows])


def _table(name: str, task: Task, categories: list[Any], rows: int | None = None) -> tuple[Matrix, np.ndarray, Task]:
    table, y, _ = real_data().load(name)
    kept = _sample(len(y), rows)
    return dummies(table.iloc[kept].reset_index(drop=True), categories), np.asarray(y)[kept], task


def _kdd() -> tuple[Matrix, np.ndarray, Task]:
    table, y, _ = real_data().load("kddcup99")
    distinct = np.flatnonzero(~table.duplicated().to_numpy())  # 7 in 10 rows are copies: a random split would leak
    kept = distinct[_sample(len(distinct), 20_000)]
    return dummies(table.iloc[kept].reset_index(drop=True), [1, 2, 3]), np.asarray(y)[kept], "classes"


def _criteo() -> tuple[Matrix, np.ndarray, Task]:
    table, y, _ = real_data().load("ctr_criteo")
    counts = [name for name in table.columns if table[name].dtype.kind in "if" and table[name].notna().any()][:13]
    table = table.copy()
    table[counts] = np.log1p(table[counts].clip(lower=0))
    return dummies(table, [name for name in table.columns if name not in counts]), y, "binary"


def _flights() -> tuple[Matrix, np.ndarray, Task]:
    table, delay, _ = real_data().load("flights_houston")
    kept = np.flatnonzero(np.isfinite(delay))[_sample(int(np.isfinite(delay).sum()), 20_000)]
    table = table.iloc[kept].reset_index(drop=True)
    known_before = [
        "Month",
        "DayofMonth",
        "DayOfWeek",
        "UniqueCarrier",
        "FlightNum",
        "TailNum",
        "Origin",
        "Dest",
        "Distance",
    ]
    table = table[known_before].assign(hour=table["DepTime"] // 100)
    categories = [name for name in table.columns if name != "Distance"]
    return dummies(table, categories), (delay[kept] > 15).astype(int), "binary"


def _power(name: str) -> tuple[Matrix, np.ndarray, Task]:
    table, y, _ = real_data().load(name)
    kept = _sample(len(y), 20_000)
    table, y = table.iloc[kept].reset_index(drop=True), np.asarray(y, dtype=float)[kept]
    when = pd.to_datetime(
        table["datetime"] if "datetime" in table else table["Date"] + " " + table["Time"], dayfirst="Date" in table
    )
    table = table.drop(columns=["Global_active_power", "Global_intensity", "datetime", "Date", "Time"], errors="ignore")
    table = table.assign(hour=when.dt.hour, weekday=when.dt.dayofweek, month=when.dt.month)
    return dummies(table, ["hour", "weekday", "month"]), y, "regression"


def _text(name: str, rows: int | None = None) -> tuple[Matrix, np.ndarray, Task]:
    texts, y, _ = real_data().load(name)
    kept = _sample(len(y), rows)
    words = [texts[i]["text"] if isinstance(texts[i], dict) else texts[i] for i in kept]
    return TfidfVectorizer(min_df=3, dtype=np.float32).fit_transform(words), np.asarray(y)[kept], "binary"


def _news_pc_mac() -> tuple[Matrix, np.ndarray, Task]:
    posts, group, _ = real_data().load("text_20news_bydate")
    kept = np.flatnonzero(np.isin(group, ["comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"]))
    X = TfidfVectorizer(min_df=3, dtype=np.float32).fit_transform([posts[i]["text"] for i in kept])
    return X, group[kept], "binary"


def _windows(name: str, rows: int, classes: Callable[[np.ndarray], np.ndarray]) -> tuple[Matrix, np.ndarray, Task]:
    """Return the letter at each position of DNA windows of one length, as dummies."""
    windows, y, _ = real_data().load(name)
    y = classes(np.asarray(y))
    length = len(windows[int(np.flatnonzero(y >= 0)[0])])
    usable = np.array([i for i in range(len(y)) if y[i] >= 0 and len(windows[i]) == length])
    usable = usable[_sample(len(usable), rows)]
    letters = np.array([list(windows[i].upper()) for i in usable])
    columns = [letters == letter for letter in "ACGT"]
    return scipy.sparse.csr_array(np.concatenate(columns, axis=1).astype(np.float32)), y[usable], "binary"


def _tata(y: np.ndarray) -> np.ndarray:
    return np.select([y == "Arabidopsis_tata", y == "Arabidopsis_non_prom"], [1, 0], -1)


def _digits(file: str) -> tuple[Matrix, np.ndarray, Task]:
    z = np.load(Path(os.environ["DASKFS_DATA"]) / "img_mnist" / file)
    X, y = np.vstack([z["X_train"], z["X_test"]]), np.r_[z["y_train"], z["y_test"]]
    return X.reshape(len(X), -1) / np.float32(255), y, "binary"


def _gisette() -> tuple[Matrix, np.ndarray, Task]:
    X, y, _ = real_data().gisette_like(0)
    return X, y, "binary"


ADULT = ["workclass", "education", "marital-status", "occupation", "relationship", "ethnicity", "sex", "native-country"]

SETS: dict[str, Callable[[], tuple[Matrix, np.ndarray, Task]]] = {
    # numbers to predict
    "riboflavin": lambda: _array("gene_riboflavin", "regression"),
    "mice": lambda: _array("geno_mice_bglr", "regression"),
    "maize": lambda: _array("geno_maize_gapit", "regression"),
    "power hourly": lambda: _power("power_hourly"),
    "power minute": lambda: _power("power_minute"),
    # two classes, dense
    "golub": lambda: _array("gene_golub", "binary"),
    "alon": lambda: _array("gene_alon", "binary"),
    "singh": lambda: _array("gene_singh", "binary"),
    "gravier": lambda: _array("gene_gravier", "binary"),
    "arcene": lambda: _array("gene_arcene", "binary"),
    "epsilon": lambda: _array("epsilon_sample", "binary"),
    "madelon": lambda: _array("madelon", "binary"),
    "gisette-like": _gisette,
    "mnist 3v8": lambda: _digits("mnist_3v8.npz"),
    "mnist 4v9": lambda: _digits("mnist_4v9.npz"),
    "higgs": lambda: _array("higgs_lightgbm", "binary"),
    "higgs h2o": lambda: _array("higgs_h2o", "binary"),
    "magic": lambda: _table("magic04", "binary", []),
    "skin": lambda: _table("skin_nonskin", "binary", [], 20_000),
    # two classes, dummies
    "adult": lambda: _table("adult", "binary", ADULT, 20_000),
    "a9a": lambda: _array("libsvm_a9a", "binary", rows=20_000),
    "w8a": lambda: _array("libsvm_w8a", "binary", rows=20_000),
    "flights": _flights,
    "criteo": _criteo,
    "splice": lambda: _windows("dna_celegans_splice_first", 20_000, lambda y: (y > 0).astype(int)),
    "promoters": lambda: _windows("dna_promoters", 20_000, _tata),
    # two classes, text
    "basehock": lambda: _array("text_basehock", "binary"),
    "pcmac": lambda: _array("text_pcmac", "binary"),
    "relathe": lambda: _array("text_relathe", "binary"),
    "rcv1": lambda: _array("rcv1_small", "binary"),
    "20news pc v mac": _news_pc_mac,
    "aclimdb": lambda: _text("text_aclimdb", 8000),
    "rtpolarity": lambda: _text("text_rtpolarity"),
    "smsspam": lambda: _text("text_smsspam"),
    # several classes
    "khan": lambda: _array("gene_khan", "classes"),
    "breast tcga": lambda: _array("gene_breast_tcga", "classes"),
    "kddcup99": _kdd,
    "news20": lambda: _array("news20_multi_t", "classes"),
}
