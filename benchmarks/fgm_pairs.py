"""Squares and products of columns with FGM: what they cost without being stored, and what they buy.

    DASKFS_DATA=... python benchmarks/fgm_pairs.py madelon mnist38 text tables clicks memory [--threads 2]

madelon: the share of the known columns among the first 20 distinct ones of what was selected; l1 on columns beside it.
mnist38: 307,720 squares and products of the pixels; test accuracy against FGM on the pixels and against l1 (liblinear)
on the explicit products of the 200 pixels that vary most; seconds and memory of each, in a process of its own.
text: words of reviews and of two tasks of 20 newsgroups and their pairs, against l1 on explicit uni- and bigrams.
tables: adult and flights, dummies of categories and their pairs, against linear MESSAGE and boosted trees.
clicks: 1,000,000 rows of 29 categories, 4.59 million dummies, in a sparse store; 40 terms are planted, 20 of them
pairs. 1.05e13 features; then once more with 14.2 million dummies, 1e14 features.
memory: peak of the process above its start, and what the plan promises, of dense, int8 and sparse stores.
hierarchy: CPU seconds on a sparse store where products follow one selected column, two, or none.
growth: seconds of a pass against rows and against entries of a row, with fitted exponents.

Seconds are CPU seconds of the process, and of the wall where two threads work.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

os.environ.setdefault("OMP_NUM_THREADS", "1")

KNOWN = {28, 48, 64, 105, 128, 153, 241, 281, 318, 336, 338, 378, 433, 442, 451, 453, 455, 472, 475, 493}
SLOTS = 29
COLUMNS = 4_590_000


def main() -> None:
    """Run what was asked for."""
    parts = {
        "madelon": madelon,
        "mnist38": mnist38,
        "mnist38-pixels": lambda threads: mnist38_fgm(None),
        "mnist38-pairs": lambda threads: mnist38_fgm("pairs"),
        "mnist38-l1": lambda threads: mnist38_l1(),
        "text": text,
        "tables": tables,
        "clicks": clicks,
        "growth": growth,
        "memory": memory,
        "hierarchy": hierarchy,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=["madelon", "mnist38", "text", "tables"])
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in asked.parts:
        print(f"\n{name}", flush=True)
        parts[name](asked.threads)


def peak() -> float:
    """Return the most memory that this process has held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def parents(selector: Any) -> list[tuple[int, ...]]:
    """Return the columns that each selected feature is made of, most important first."""
    from daskfs.kernels.fgm.pairs import parents_of

    return [
        tuple(j for j in pair if j >= 0) for pair in parents_of(selector.selected_, selector.n_features_in_).tolist()
    ]


def madelon(threads: int) -> None:
    """Print how many known columns are among the first 20 distinct ones."""
    from open_sets import open_set
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from daskfs import FGM

    data = open_set("madelon")
    for wanted in (30, 40, 60, 100):
        selector = FGM(wanted, feature_map="pairs").fit(data.X, data.y)
        distinct = list(dict.fromkeys(j for pair in parents(selector) for j in pair))
        first = distinct[:20]
        print(
            f"  pairs, {wanted:3} features: {len(KNOWN & {*first})} known of the first {len(first)} distinct columns; "
            f"{known_by_first_score(selector)} known by first_score"
        )
    for wanted in (20, 40):
        first = FGM(wanted).fit(data.X, data.y).selected_[:20]
        print(f"  columns, {wanted:3} features: {len(KNOWN & {*first.tolist()})} known of the first {len(first)}")
    Z = StandardScaler().fit_transform(data.X)
    size = np.abs(LogisticRegression(penalty="l1", C=0.02, solver="liblinear").fit(Z, data.y).coef_[0])
    print(f"  l1 on columns: {len(KNOWN & {*np.argsort(-size)[:20].tolist()})} known of the first 20")


def known_by_first_score(selector: Any) -> int:
    """Return how many known columns are among the first 20 distinct ones, by the scores of the first pass."""
    order = np.argsort(-selector.result_.table["first_score"].to_numpy(), kind="stable")
    made_of = parents(selector)
    return len(KNOWN & {*list(dict.fromkeys(j for k in order.tolist() for j in made_of[k]))[:20]})


def mnist38(threads: int) -> None:
    """Run each of three in a process of its own, so that its memory is its own."""
    for name in ("mnist38-pixels", "mnist38-pairs", "mnist38-l1"):
        subprocess.run([sys.executable, __file__, name], check=True)


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the digits 3 and 8, training and test rows as the source has them."""
    z = np.load(Path(os.environ["DASKFS_DATA"]) / "img_mnist" / "mnist_3v8.npz")
    X, X_test = (z[name].astype(np.float32) / np.float32(255) for name in ("X_train", "X_test"))
    return X, z["y_train"], X_test, z["y_test"]


def mnist38_fgm(feature_map: str | None) -> None:
    """Print accuracies of FGM."""
    from daskfs import FGM

    X, y, X_test, y_test = digits()
    FGM(5, feature_map=feature_map).fit(X[::60], y[::60])  # compiles
    for wanted in (50, 100, 200, 400):
        started = time.process_time()
        selector = FGM(wanted, feature_map=feature_map).fit(X, y)
        seconds = time.process_time() - started
        n_products = sum(len(pair) > 1 for pair in parents(selector)) if feature_map else 0
        print(
            f"  FGM, {wanted} features, {n_products} products: accuracy "
            f"{selector.score(X_test, y_test):.4f}, {seconds:.1f} s in {selector.n_passes_} passes, "
            f"{peak():.2f} GB",
            flush=True,
        )


def mnist38_l1() -> None:
    """Print accuracies of liblinear's l1-logistic regression on explicit products."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    X, y, X_test, y_test = digits()
    few = np.argsort(-X.std(axis=0))[:200]
    explicit = PolynomialFeatures(2, include_bias=False).fit(X[:2, few])
    scaler = StandardScaler()
    Z = scaler.fit_transform(explicit.transform(X[:, few]).astype(np.float32))
    Z_test = scaler.transform(explicit.transform(X_test[:, few]).astype(np.float32))
    for C in (0.0005, 0.001, 0.002):
        started = time.process_time()
        model = LogisticRegression(penalty="l1", C=C, solver="liblinear", max_iter=20).fit(Z, y)
        seconds = time.process_time() - started
        n_selected = int((model.coef_ != 0).sum())
        accuracy = model.score(Z_test, y_test)
        print(
            f"  l1 on {Z.shape[1]:,} explicit: {n_selected} features, accuracy {accuracy:.4f}, {seconds:.1f} s, ",
            end="",
        )
        print(f"{peak():.2f} GB", flush=True)


def text(threads: int) -> None:
    """Print accuracies on two tasks of 20 newsgroups and on short reviews, half of the rows to test on."""
    from open_sets import loader
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    from daskfs import FGM

    posts, groups, _ = loader().load("text_20news_bydate")
    reviews, opinions, _ = loader().load("text_rtpolarity")
    tasks = {"reviews": (reviews, opinions == 1)}
    for name, one, other in (
        ("pc or mac", "comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"),
        ("guns or politics", "talk.politics.guns", "talk.politics.misc"),
    ):
        kept = np.flatnonzero(np.isin(groups, [one, other]))
        tasks[name] = ([posts[i]["text"] for i in kept], groups[kept] == one)
    for name, (texts, y) in tasks.items():
        order = np.random.default_rng(0).permutation(len(y))
        train, test = order[: len(y) // 2], order[len(y) // 2 :]
        found = {}
        for up_to in (1, 2):
            words = TfidfVectorizer(min_df=3, ngram_range=(1, up_to), dtype=np.float32)
            found[up_to] = words.fit_transform([texts[i] for i in train]), words.transform([texts[i] for i in test])
        y, y_test = y[train], y[test]
        for wanted in (100, 300):
            line = [f"  {name}, {wanted} features:"]
            for label, up_to, feature_map in (
                ("words", 1, None),
                ("words and pairs", 1, "pairs"),
                ("bigrams", 2, None),
            ):
                X, X_test = found[up_to]
                started = time.process_time()
                selector = FGM(wanted, feature_map=feature_map).fit(X, y)
                seconds = time.process_time() - started
                line.append(f"{label} {selector.score(X_test, y_test):.4f} ({seconds:.1f} s),")
            X, X_test = found[2]
            started, low, high = time.process_time(), 1e-2, 1e4
            for _ in range(12):
                model = LogisticRegression(penalty="l1", C=(low * high) ** 0.5, solver="liblinear").fit(X, y)
                n_selected = int((model.coef_ != 0).sum())
                low, high = (model.C, high) if n_selected < wanted else (low, model.C)
            seconds = time.process_time() - started
            line.append(
                f"l1 on bigrams {model.score(X_test, y_test):.4f} with {n_selected} of {X.shape[1]:,} ({seconds:.1f} s)"
            )
            print(" ".join(line), flush=True)


def tables(threads: int) -> None:
    """Print test errors of MESSAGE, of FGM with pairs and of boosted trees on adult and flights."""
    from open_sets import open_set
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    from daskfs import FGM, Message

    for name in ("adult", "flights"):
        data = open_set(name)
        order = np.random.default_rng(0).permutation(len(data.y))
        train, test = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
        X, X_test, y, y_test = data.X[train], data.X[test], data.y[train], data.y[test]
        models = {
            "MESSAGE, columns": Message(loss="logistic"),
            "FGM, 40 columns": FGM(40),
            "FGM, 40 with pairs": FGM(40, feature_map="pairs"),
            "FGM, 100 columns": FGM(100),
            "FGM, 100 with pairs": FGM(100, feature_map="pairs"),
            "boosted trees, all columns": HistGradientBoostingClassifier(random_state=0),
        }
        for label, model in models.items():
            dense = scipy.sparse.issparse(X) and isinstance(model, HistGradientBoostingClassifier)
            started = time.process_time()
            model.fit(X.toarray() if dense else X, y)
            seconds = time.process_time() - started
            held = X_test.toarray() if dense else X_test
            area = roc_auc_score(y_test, model.predict_proba(held)[:, 1])
            n_selected = f", {len(model.selected_)} selected" if hasattr(model, "selected_") else ""
            print(
                f"  {name} {X.shape[0]:,} x {X.shape[1]:,}, {label}: error {1 - model.score(held, y_test):.4f}, "
                f"area {area:.4f}{n_selected}, {seconds:.1f} s",
                flush=True,
            )


def categories(n_samples: int, n_columns: int, rng: np.random.Generator) -> scipy.sparse.csr_array:
    """Return dummies of 29 categories each of which has from 4 to a quarter of all columns, with Zipf's shares."""
    sizes = np.geomspace(4, n_columns / 4.0, SLOTS)
    sizes = np.maximum((sizes / sizes.sum() * n_columns).astype(np.int64), 2)
    first = np.concatenate([[0], np.cumsum(sizes)])
    columns = np.empty((n_samples, SLOTS), np.int32)
    for k, size in enumerate(sizes.tolist()):
        drawn = rng.random(n_samples)
        ranks = (1.0 + drawn * ((size + 1.0) ** 0.1 - 1.0)) ** 10.0 - 1.0
        code = np.minimum(ranks.astype(np.int64), size - 1)
        anywhere = rng.random(n_samples) < 0.5  # most ids are met a few times
        columns[:, k] = first[k] + np.where(anywhere, (rng.random(n_samples) * size).astype(np.int64), code)
    indptr = np.arange(n_samples + 1, dtype=np.int64) * SLOTS
    ones = np.ones(columns.size, np.float32)
    return scipy.sparse.csr_array((ones, columns.ravel(), indptr), shape=(n_samples, int(first[-1])))


def planted(X: scipy.sparse.csr_array, rng: np.random.Generator) -> tuple[np.ndarray, set[tuple[int, ...]]]:
    """Return classes made of 20 columns and 20 pairs, with noise, and which these are."""
    n_samples = X.shape[0]
    by_columns = X.tocsc()
    popular = np.argsort(-np.diff(by_columns.indptr), kind="stable")[:300]
    terms: set[tuple[int, ...]] = set()
    z = np.zeros(n_samples)

    def values(*columns: int) -> np.ndarray:
        found = np.ones(n_samples)
        for j in columns:
            found *= by_columns[:, [j]].toarray()[:, 0]
        return found

    for k, j in enumerate(rng.choice(popular, 20, replace=False).tolist()):
        x = values(j)
        z += (-1.0) ** k * 0.3 * x / np.sqrt((x * x).mean())
        terms.add((j,))
    while len(terms) < 40:
        pair = tuple(sorted(rng.choice(popular[:120], 2, replace=False).tolist()))
        x = values(*pair)
        if pair not in terms and (x > 0).mean() > 0.01:
            z += (-1.0) ** len(terms) * 0.5 * x / np.sqrt((x * x).mean())
            terms.add(pair)
    z += 0.5 * z.std() * rng.standard_normal(n_samples)
    return (z > np.median(z)).astype(np.int64), terms


def clicks(threads: int) -> None:
    """Select from 1e13 and from 1e14 features of a sparse store, in a process that has nothing else in memory."""
    with tempfile.TemporaryDirectory() as folder:
        for n_columns in (COLUMNS, 14_200_000):
            program = f"import fgm_pairs as f; f.store_clicks({folder!r}, {n_columns})"
            subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parent)
            program = f"import fgm_pairs as f; f.select_clicks({folder!r}, {n_columns}, {threads})"
            subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, cwd=Path(__file__).parent)


def store_clicks(folder: str, n_columns: int) -> None:
    """Write the store and the terms that were planted."""
    import daskfs

    rng = np.random.default_rng(1)
    X = categories(1_000_000, n_columns, rng)
    y, terms = planted(X, rng)
    daskfs.ingest(X, Path(folder) / f"{n_columns}.zarr", y=y)
    (Path(folder) / f"{n_columns}.txt").write_text(repr(terms))


def select_clicks(folder: str, n_columns: int, threads: int) -> None:
    """Print what was found, in what time and memory."""
    import ast
    from contextlib import nullcontext

    import daskfs
    from daskfs import FGM

    rng = np.random.default_rng(0)
    few = categories(300, 400, rng)
    FGM(3, feature_map="pairs").fit(few, rng.integers(0, 2, 300))  # compiles
    terms = ast.literal_eval((Path(folder) / f"{n_columns}.txt").read_text())
    where: Any = nullcontext()
    if threads > 1:
        from distributed import Client

        where = Client(n_workers=1, threads_per_worker=threads, processes=False, dashboard_address=None)
    with where as client:
        for wanted in (60,):
            started, wall = time.process_time(), time.perf_counter()
            store = daskfs.open_store(Path(folder) / f"{n_columns}.zarr")
            selector = FGM(wanted, n_features_per_pass=10, feature_map="pairs", client=client).fit(store)
            seconds, wall = time.process_time() - started, time.perf_counter() - wall
            n_found = len(terms & set(parents(selector)))
            m = store.shape[1]
            print(
                f"  {m * (m + 3) / 2:.3g} features of {m:,} columns, {threads} threads: {n_found} of 40 planted terms "
                f"among {wanted} selected, {wall:.1f} s of the wall, {seconds:.1f} s CPU, {selector.n_passes_} passes, "
                f"{peak():.2f} GB; seconds of steps: { {k: round(v, 1) for k, v in selector.result_.time.items()} }",
                flush=True,
            )


def small_store(kind: str, folder: str) -> Any:
    """Return a store: dense 12,000 x 784, int8 genotypes 8,000 x 2,000, or sparse 200,000 x 1,000,000."""
    import daskfs

    path, rng = Path(folder) / f"{kind}.zarr", np.random.default_rng(0)
    if path.exists():
        return daskfs.open_store(path)
    if kind == "dense":
        X = rng.random((12_000, 784), dtype=np.float32) * (rng.random((12_000, 784)) < 0.3)
        y = X[:, 3] * X[:, 40] + X[:, 7] - X[:, 9] * X[:, 100] > 0.02
        return daskfs.ingest(X, path, y=y.astype(int))
    if kind == "int8":
        share = rng.uniform(0.1, 0.5, 2_000)
        X = sum((rng.random((8_000, 2_000)) < share).astype(np.int8) for _ in range(2))
        y = X[:, 3].astype(int) * X[:, 40] + X[:, 7] - X[:, 9].astype(int) * X[:, 100] > 1
        return daskfs.ingest(X, path, y=y.astype(int), dtype="int8")
    n, k, m = 200_000, 30, 1_000_000
    columns = np.minimum((rng.pareto(0.7, (n, k)) * 20).astype(np.int64), m - 1)
    columns[:, :3] = rng.integers(0, m, (n, 3))
    S = scipy.sparse.csr_array((np.ones(n * k, np.float32), columns.ravel(), np.arange(n + 1) * k), shape=(n, m))
    S.sum_duplicates()
    S.data[:] = 1.0
    few = S[:, :60].toarray()
    z = few[:, 3] * few[:, 4] + few[:, 10] - few[:, 5] * few[:, 8] + rng.standard_normal(n) * 0.3
    return daskfs.ingest(S, path, y=(z > 0).astype(int))


def memory(threads: int) -> None:
    """Print the peaks of processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, limits in (("dense", (None, 40)), ("int8", (None, 40)), ("sparse", (None, 260))):
            small_store(kind, folder)
            for limit in limits:
                program = f"import fgm_pairs as f; f.peak_within({kind!r}, {folder!r}, {limit})"
                subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, cwd=Path(__file__).parent)


def peak_within(kind: str, folder: str, limit_mib: int | None) -> None:
    """Print the peak of a fit above what the process held before it, and what was promised."""
    import hashlib

    from daskfs import FGM

    store = small_store(kind, folder)
    rng = np.random.default_rng(0)
    few = categories(300, 400, rng) if kind == "sparse" else store.take(np.arange(300)).read(slice(None))
    FGM(3, feature_map="pairs").fit(few, rng.integers(0, 2, 300))  # compiles
    limit = None if limit_mib is None else limit_mib << 20
    selector = FGM(20, feature_map="pairs", memory_limit=limit)
    more = {"n_entries": store.n_entries} if kind == "sparse" else {}
    plan = selector.plan(*store.shape, str(store.dtype), limit, tile_shape=store.tile_shape, **more)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before, started = resident("VmRSS"), time.process_time()
    selector.fit(store)
    digest = hashlib.sha1(selector.selected_.tobytes() + selector.coef_.tobytes()).hexdigest()[:8]
    print(
        f"  {kind}, limit {limit_mib} MiB: {(resident('VmHWM') - before) / 1024:.0f} MiB above the start, promised "
        f"{(plan.task_nbytes + plan.client_nbytes) / 2**20:.0f}; {time.process_time() - started:.1f} s, {digest}",
        flush=True,
    )


def resident(what: str) -> int:
    """Return a line of this process's status, in KiB: VmRSS, what it holds, or VmHWM, the most so far."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[what].split()[0])


def hierarchy(threads: int) -> None:
    """Print CPU seconds of a fit."""
    from daskfs import FGM

    with tempfile.TemporaryDirectory() as folder:
        store = small_store("sparse", folder)
        for follows in ("weak", "strong", None):
            feature_map = {"map": "pairs", "hierarchy": follows}
            FGM(3, feature_map=feature_map).fit(store.take(np.arange(3_000)))  # compiles
            started = time.process_time()
            FGM(20, feature_map=feature_map).fit(store)
            print(f"  hierarchy {follows}: {time.process_time() - started:.1f} s CPU", flush=True)


def growth(threads: int) -> None:
    """Print CPU seconds of a pass against rows and against entries of a row."""
    from daskfs.feature_maps.base import Given
    from daskfs.feature_maps.polynomial import Polynomial
    from daskfs.matrix.arrays import ArrayMatrix

    def seconds_of_pass(X: Any, share: np.ndarray) -> tuple[float, float]:
        """Return seconds of the second pass, with bounds and without: the first one sorts the entries."""
        n = X.shape[0]
        known = Given(share, np.sqrt(share * (1 - share)), np.zeros(len(share)), np.ones(len(share)), np.ones(n))
        products = Polynomial().over(ArrayMatrix(X), known)
        v = np.where(
            np.asarray(X[:, [0]].todense() if scipy.sparse.issparse(X) else X[:, :1])[:, 0] > share[0], 1.0, -1.0
        )
        v = v + np.random.default_rng(0).standard_normal(n)
        found = []
        for n_wanted in (50, 10**6):  # as many as are never found: no bound is of use
            for _ in range(2):
                started, floor = time.process_time(), 0.0
                for parts in products.rounds(1, np.empty(0, np.int64)):
                    for part in parts:
                        scores = products.score_columns((v - v.mean())[None], n_wanted, floor, part)[1]
                        floor = max(floor, scores[n_wanted - 1] if len(scores) >= n_wanted else 0.0)
                seconds = time.process_time() - started
            found.append(seconds)
        return found[0], found[1]

    rng = np.random.default_rng(0)
    for label, sizes in (
        ("rows", [(n, 30) for n in (12_500, 25_000, 50_000, 100_000)]),
        ("entries of a row", [(25_000, k) for k in (15, 30, 60, 120)]),
    ):
        lines = []
        for n, k in sizes:
            columns = np.minimum((rng.pareto(0.7, (n, k)) * 20).astype(np.int64), 199_999)
            X = scipy.sparse.csr_array(
                (np.ones(n * k, np.float32), columns.ravel(), np.arange(n + 1) * k), (n, 200_000)
            )
            X.sum_duplicates()
            X.data[:] = 1.0
            share = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
            lines.append((n if label == "rows" else X.nnz / n, *seconds_of_pass(X, share)))
        table = np.log(np.array(lines))
        slopes = [np.polyfit(table[:, 0], table[:, c], 1)[0] for c in (1, 2)]
        for size, bounded, unbounded in lines:
            print(f"  sparse, {size:,.0f} {label}: {bounded:.2f} s a pass with bounds, {unbounded:.2f} s without")
        print(f"  exponents in {label}: {slopes[0]:.2f} with bounds, {slopes[1]:.2f} without", flush=True)
    for label, sizes in (
        ("rows", [(n, 500) for n in (5_000, 10_000, 20_000)]),
        ("columns", [(5_000, m) for m in (500, 1_000, 2_000)]),
    ):
        lines = []
        for n, m in sizes:
            X = (rng.random((n, m)) < 0.5).astype(np.float32)
            lines.append((n if label == "rows" else m, *seconds_of_pass(X, X.mean(axis=0, dtype=np.float64))))
        slope = np.polyfit(*np.log(np.array(lines))[:, :2].T, 1)[0]
        print(
            f"  dense, {label}: "
            + ", ".join(f"{size:,} {one:.2f} s" for size, one, _ in lines)
            + f"; exponent {slope:.2f}"
        )


if __name__ == "__main__":
    main()
