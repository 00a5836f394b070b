"""FGM and l1 on real data: accuracy against the number of features, with and without a refit.

    DASKFS_DATA=... python benchmarks/fgm_real.py [--only gene_golub gisette_0] [--counts 50 100 200] [--json out.json]

Data: two tasks of 20 newsgroups (official split; PC against Mac with uni- and bigrams, computers and science against
the rest with unigrams) and the 25,000 reviews of aclImdb with 1.5 million uni- and bigrams (a random half each), all as
tf-idf; expression data (golub, singh), arcene and the sample of epsilon (five folds); five data sets made after
gisette's recipe, half of whose columns are probes (tested on the last 1,000 rows); w8a (tested on a random fifth). Dense
columns are standardised with the training rows; sparse ones stay as they are for l1, as its users have them.

l1: scikit-learn's liblinear, squared hinge (l1-SVM) and logistic (l1-LR); C is bisected until the number of features is
the wanted one, as nearly as twelve fits get it. Refit: a ridge fit of the selected columns, the same for all methods,
½ ‖w‖² + C Σ loss of standardised columns at FGM's default C. One standard error is sqrt(a (1 - a) / n), a the accuracy
of the better l1 (without refit) over all n tested rows. Ends with 1 where the better FGM (without refit) is below that
l1 by more than one standard error, or selects a probe among 70 features.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import StratifiedKFold, train_test_split

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


def folds(name: str) -> tuple[list[Fold], np.ndarray | None]:
    """Return the training and test parts of a data set, and which columns are probes where that is known."""
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
    splits = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    return [_standardised(X[train], y[train], X[test], y[test]) for train, test in splits], None


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
