"""Accuracy against K on real sparse data: Mission, hard thresholding by rows and in batches, feature hashing, l1.

    DASKFS_DATA=... python benchmarks/mission_real.py [--only rcv1_small ...] [--held-out] [--json results.json]

Text and tables are made CSR by scikit-learn (tf-idf or one-hot). Five passes each, the same learning rates, the default
refit; the sketch has three rows of 2^16 cells (or of twice the features, where there are fewer), feature hashing two
thirds as many cells in one row, batch IHT gathers as many features as the sketch has cells. l1 is scikit-learn's
logistic regression (liblinear) at three penalties, with the features it keeps. The last line of a set is the paper's
Figure 5: accuracy at one K by the sketch's size. With --held-out instead: what other passes, half-lives and refits make
of thirds of the training rows that are held out; the test rows are not looked at.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import json
import lzma
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, normalize

from daskfs.baselines import BatchIHT, FeatureHashing, StochasticIHT
from daskfs.selectors.mission.selector import Mission

Split = tuple[Any, Any, np.ndarray, np.ndarray]


def documents(pattern: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON lines of a set's files."""
    for path in sorted(Path(os.environ["DASKFS_DATA"]).glob(pattern)):
        opener = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}[path.suffix]
        with opener(path, "rt", encoding="utf8") as file:
            yield from (json.loads(line) for line in file)


def halves(X: Any, y: np.ndarray, test_size: float = 0.5) -> Split:
    """Split at random, the same for everybody."""
    return tuple(train_test_split(X, y, test_size=test_size, random_state=0, stratify=y))


def vectorised(train: list[str], test: list[str], **options: Any) -> tuple[Any, Any]:
    """Return tf-idf of both, weighted by the first."""
    vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **options)
    return vectorizer.fit_transform(train), vectorizer.transform(test)


def rcv1_small() -> Split:
    """Two topics of Reuters, tf-idf as it comes."""
    parts = []
    for name in ("rcv1_small.dat.gz", "rcv1_small_test.data.gz"):
        rows, columns, values, y = [], [], [], []
        with gzip.open(Path(os.environ["DASKFS_DATA"], "rcv1_small", name), "rt") as file:
            for i, line in enumerate(file):
                label, entries = line.split("|f", 1)
                y.append(float(label.split()[0]))
                for entry in entries.split():
                    column, _, value = entry.partition(":")
                    rows.append(i)
                    columns.append(int(column))
                    values.append(float(value or 1))
        parts.append((scipy.sparse.csr_matrix((values, (rows, columns)), shape=(len(y), 47_237)), np.array(y)))
    return parts[0][0], parts[1][0], parts[0][1], parts[1][1]


def news_20() -> Split:
    """PC against Mac hardware, words and pairs of words, the official split."""
    wanted = {"comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"}
    found = [d for d in documents("text_20news_bydate/*.jsonl.xz") if d["label"] in wanted]
    parts = [[d for d in found if d["split"] == split] for split in ("train", "test")]
    X, X_test = vectorised(*[[d["text"] for d in part] for part in parts], ngram_range=(1, 2))
    return X, X_test, *[np.array([d["label"] for d in part]) for part in parts]


def aclimdb() -> Split:
    """Reviews of films, words and pairs of words, half of them for testing."""
    found = list(documents("text_aclimdb/*.jsonl.xz"))
    train, test, y, y_test = halves([d["text"] for d in found], np.array([d["label"] for d in found]))
    return *vectorised(train, test, ngram_range=(1, 2)), y, y_test


def smsspam() -> Split:
    """Short messages, sequences of three characters."""
    with gzip.open(
        Path(os.environ["DASKFS_DATA"], "text_smsspam/SMSSpamCollection.gz"), "rt", errors="replace"
    ) as file:
        pairs = [re.split("\t", line.rstrip("\n"), maxsplit=1) for line in file if "\t" in line]
    train, test, y, y_test = halves([text for _, text in pairs], np.array([label for label, _ in pairs]), 0.3)
    return *vectorised(train, test, analyzer="char", ngram_range=(3, 3)), y, y_test


def w8a() -> Split:
    """Web pages by 300 key words."""
    X, y = load_svmlight_file(str(Path(os.environ["DASKFS_DATA"], "libsvm_w8a/w8a.gz")), n_features=300)
    return halves(normalize(X), y, 0.3)


def criteo() -> Split:
    """Clicks: 26 categories and 13 counts in ten bins, one-hot."""
    folder = Path(os.environ["DASKFS_DATA"], "ctr_criteo")
    frames = [
        pd.read_csv(path, sep="\t", header=None) for path in sorted(folder.glob("*.csv*")) if "tiny" not in path.name
    ]
    frame = pd.concat(frames, ignore_index=True)
    counts = KBinsDiscretizer(10, encode="onehot", strategy="quantile", quantile_method="averaged_inverted_cdf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = counts.fit_transform(np.log1p(frame.iloc[:, 1:14].fillna(-0.5).clip(lower=-0.5)))
    words = OneHotEncoder(handle_unknown="ignore").fit_transform(frame.iloc[:, 14:].astype(str))
    return halves(normalize(scipy.sparse.hstack([numbers, words]).tocsr()), frame[0].to_numpy(), 0.3)


def news20_multi() -> Split:
    """Twenty groups of posts, counts of words."""
    X, y = load_svmlight_file(str(Path(os.environ["DASKFS_DATA"], "news20_multi_t/news20.t.dat.gz")))
    X.data = np.log1p(X.data)
    return halves(normalize(X), y, 0.3)


SETS: dict[str, Callable[[], Split]] = {
    "rcv1_small": rcv1_small,
    "20news": news_20,
    "aclimdb": aclimdb,
    "smsspam": smsspam,
    "w8a": w8a,
    "criteo": criteo,
    "news20_multi": news20_multi,
}


def l1(X: Any, X_test: Any, y: np.ndarray, y_test: np.ndarray, penalty: float) -> tuple[int, float]:
    """Features that an l1-penalised logistic regression keeps, and its accuracy."""
    model = LogisticRegression(l1_ratio=1.0, C=penalty, solver="liblinear", max_iter=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops early
        fitted = (OneVsRestClassifier(model) if len(np.unique(y)) > 2 else model).fit(X, y)
    coef = fitted.coef_ if len(np.unique(y)) == 2 else np.vstack([one.coef_ for one in fitted.estimators_])
    return int((np.abs(coef).max(axis=0) > 0).sum()), float(fitted.score(X_test, y_test))


def measure(name: str, split: Split) -> dict[str, Any]:
    """All methods on one set."""
    X, X_test, y, y_test = split
    X, X_test = scipy.sparse.csr_matrix(X, dtype=np.float32), scipy.sparse.csr_matrix(X_test, dtype=np.float32)
    loss = "multinomial" if len(np.unique(y)) > 2 else "logistic"
    n_features = X.shape[1]
    n_buckets = min(1 << 16, 1 << (2 * n_features - 1).bit_length())
    most = max(np.bincount(np.unique(y_test, return_inverse=True)[1])) / len(y_test)
    print(f"\n{name}: {X.shape[0]:,} x {n_features:,}, {len(np.unique(y))} classes, largest class {most:.3f}")
    hashing = FeatureHashing(2 * n_buckets, loss).fit(X, y)
    found: dict[str, Any] = {"shape": X.shape, "largest_class": most, "FH": hashing.score(X_test, y_test), "K": {}}
    print(f"    feature hashing, {hashing.n_buckets:,} cells: {found['FH']:.4f}")
    for penalty in (0.3, 1.0, 10.0):
        kept, score = l1(X, X_test, y, y_test, penalty)
        found[f"l1, C = {penalty}"] = (kept, score)
        print(f"    l1-logistic, C = {penalty}: {kept:,} features, {score:.4f}", flush=True)
    sizes = [k for k in (30, 100, 300, 1000, 3000, 10_000) if k <= n_features]
    print(f"    {'K':>7}{'Mission':>9}{'IHT':>9}{'batch IHT':>11}")
    for k in sizes:
        models: dict[str, Any] = {
            "Mission": Mission(k, loss, n_buckets=n_buckets),
            "IHT": StochasticIHT(k, loss),
            "batch IHT": BatchIHT(k, 3 * n_buckets if loss == "logistic" else n_buckets, loss),
        }
        scores = {key: float(model.fit(X, y).score(X_test, y_test)) for key, model in models.items()}
        found["K"][str(k)] = scores
        mission, iht, batch = scores.values()
        print(f"    {k:>7,}{mission:>9.4f}{iht:>9.4f}{batch:>11.4f}", flush=True)
    k = 1000 if n_features > 3000 else 100
    found["memory"] = {}
    line = f"    K = {k:,}, accuracy by cells in a row: "
    for buckets in (1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16):
        score = float(Mission(k, loss, n_buckets=buckets).fit(X, y).score(X_test, y_test))
        found["memory"][str(buckets)] = score
        line += f" {buckets:,}: {score:.4f}"
    print(line, flush=True)
    return found


OTHERS: tuple[dict[str, Any], ...] = (
    {},
    {"refit": None},
    {"refit": "exact"},
    {"n_epochs": 3},
    {"n_epochs": 10},
    {"n_epochs": 20},
    {"tail_half_life": 0.5},
    {"tail_half_life": 2.0},
)


def held_out(name: str, split: Split) -> dict[str, Any]:
    """Mission with other settings, on held-out thirds of the training rows."""
    X, _, y, _ = split
    X = scipy.sparse.csr_matrix(X, dtype=np.float32)
    loss = "multinomial" if len(np.unique(y)) > 2 else "logistic"
    n_buckets = min(1 << 16, 1 << (2 * X.shape[1] - 1).bit_length())
    print(f"\n{name}: accuracy on held-out thirds of {X.shape[0]:,} training rows")
    found: dict[str, Any] = {}
    for k in [k for k in (300, 1000) if k < X.shape[1]]:
        for setting in OTHERS:
            if loss == "multinomial" and setting.get("refit") == "exact":
                continue
            thirds = StratifiedKFold(3, shuffle=True, random_state=0).split(X, y)
            selectors = [(Mission(k, loss, n_buckets=n_buckets, **setting).fit(X[a], y[a]), b) for a, b in thirds]
            score = float(np.mean([selector.score(X[b], y[b]) for selector, b in selectors]))
            found[f"{k}, {setting}"] = score
            print(f"    K = {k:<6,}{setting!s:<28}{score:.4f}", flush=True)
    return found


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(SETS))
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if "DASKFS_DATA" not in os.environ:
        raise SystemExit("set DASKFS_DATA to the folder that holds the data sets")
    results = {}
    for name in options.only:
        results[name] = (held_out if options.held_out else measure)(name, SETS[name]())
        if options.json:
            options.json.write_text(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
