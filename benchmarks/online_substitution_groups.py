"""Online substitution over groups of columns: planted groups, all subsets of small problems, tables, growth.

    python benchmarks/online_substitution_groups.py [--planted] [--small] [--growth] [--seeds 20]
    DASKFS_DATA=... python benchmarks/online_substitution_groups.py --tables

Planted: groups of ten of which ten matter, 600 rows, 200 groups; the signal has the variance of the noise, or with
``classes`` the logistic loss. Normal columns; normal columns that share half of their variance within a group; dummies
of ten categories, all ten; columns of a group scattered over the stream. Groups of online substitution, of FGM, and of
group matching pursuit (written here, the oracle of a greedy choice), beside online substitution of as many columns, of
which the ten groups count that most of its columns are from. Recall of the true groups, R² (accuracy) on other rows of
each method's own predictions.

Small: all subsets of groups are tried. Tables: adult and flights as they are ingested, ``feature_groups="schema"``
beside as many columns. Growth: CPU seconds of a fit of the squared loss, one thread, and the peak of memory in a
process of its own, beside columns alone; twice as many rows, columns, groups selected.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from daskfs import FGM, OnlineSubstitution

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
WIDTH, N_GROUPS, N_TRUE, N_SAMPLES, N_TEST = 10, 200, 10, 600, 2000
KINDS = ("normal", "correlated", "dummies", "scattered", "correlated classes")


def draw(kind: str, seed: int, n_groups: int = N_GROUPS, n_true: int = N_TRUE) -> tuple[Any, ...]:
    """Return X, y, X_test, y_test, the label of each column and the groups that matter."""
    rng = np.random.default_rng(seed)
    n, labels = N_SAMPLES + N_TEST, np.repeat(np.arange(n_groups), WIDTH)
    if kind == "dummies":
        codes = rng.integers(0, WIDTH, (n, n_groups))
        X = (codes[:, :, None] == np.arange(WIDTH)).reshape(n, -1).astype(np.float32)
    else:
        X = rng.standard_normal((n, n_groups, WIDTH), dtype=np.float32)
        if "correlated" in kind:
            X += rng.standard_normal((n, n_groups, 1), dtype=np.float32)
        X = X.reshape(n, -1)
    true = rng.choice(n_groups, n_true, replace=False)
    coef = np.zeros((n_groups, WIDTH))
    coef[true] = rng.standard_normal((n_true, WIDTH))
    signal = X @ coef.ravel()
    signal -= signal.mean()
    if "classes" in kind:
        y = (2.0 * signal / signal.std() + rng.logistic(size=n) > 0.0).astype(float)
    else:
        y = signal + signal.std() * rng.standard_normal(n)
    if kind == "scattered":
        order = rng.permutation(n_groups * WIDTH)
        X, labels = X[:, order], labels[order]
    return X[:N_SAMPLES], y[:N_SAMPLES], X[N_SAMPLES:], y[N_SAMPLES:], labels, true


def pursuit(X: np.ndarray, y: np.ndarray, labels: np.ndarray, n_wanted: int) -> list[int]:
    """Return the groups that matching pursuit takes: the one whose span has most of the residual, again and again."""
    X, y = X - X.mean(axis=0), y - y.mean()
    groups = [np.flatnonzero(labels == g) for g in range(labels.max() + 1)]
    bases = []
    for group in groups:
        left, sizes, _ = np.linalg.svd(X[:, group].astype(float), full_matrices=False)
        bases.append(left[:, sizes > 1e-6 * sizes[0]])
    chosen: list[int] = []
    residual = y
    while len(chosen) < n_wanted:
        gains = [((basis.T @ residual) ** 2).sum() for basis in bases]
        chosen.append(max((g for g in range(len(groups)) if g not in chosen), key=gains.__getitem__))
        columns = np.concatenate([groups[g] for g in chosen])
        residual = y - X[:, columns] @ np.linalg.lstsq(X[:, columns], y, rcond=None)[0]
    return chosen


def planted(n_seeds: int, kinds: Sequence[str]) -> None:
    """Print recall and the quality of predictions."""
    print(f"planted, {n_seeds} seeds: true groups of {N_TRUE}, R² or accuracy on other rows, CPU s")
    for kind in kinds:
        hits: dict[str, list[float]] = {}
        for seed in range(n_seeds):
            X, y, X_test, y_test, labels, true = draw(kind, seed)
            loss = "logistic" if "classes" in kind else "squared"
            n_columns = N_TRUE * WIDTH
            models = {
                "groups": OnlineSubstitution(N_TRUE, feature_groups=labels, loss=loss),
                "groups, os": OnlineSubstitution(N_TRUE, feature_groups=labels, loss=loss, rule="os"),
                "columns": OnlineSubstitution(n_columns, loss=loss),
                "FGM groups": FGM(N_TRUE, feature_groups=labels, loss=loss),
                "FGM groups, C=10": FGM(N_TRUE, feature_groups=labels, loss=loss, C=10.0),
            }
            for name, model in models.items():
                start = time.process_time()
                model.fit(X, y)
                seconds = time.process_time() - start
                if hasattr(model, "group_names_"):
                    found = model.group_names_.astype(int)
                else:
                    found = np.argsort(-np.bincount(labels[model.selected_], minlength=N_GROUPS), kind="stable")
                score = model.score(X_test, y_test)
                hits.setdefault(name, []).append((len({*true} & {*found[:N_TRUE]}), score, seconds))
            start = time.process_time()
            found = pursuit(X, y, labels, N_TRUE)
            hits.setdefault("matching pursuit", []).append(
                (len({*true} & {*found}), np.nan, time.process_time() - start)
            )
        for name, values in hits.items():
            recall, score, seconds = np.mean(values, axis=0)
            print(f"| {kind} | {name} | {recall:.2f} | {score:.3f} | {seconds:.2f} |", flush=True)


def small(n_seeds: int) -> None:
    """Print how often the best of all subsets of groups is selected."""
    for n_wanted, kind in itertools.product((2, 3, 4), ("normal", "correlated")):
        best, excess, greedy = 0, [], 0
        for seed in range(n_seeds):
            X, y, *_, labels, _ = draw(kind, seed, 12, 4)
            X, y = X[:100] - X[:100].mean(axis=0), y[:100] - y[:100].mean()

            def left(groups: Any, X: np.ndarray = X, y: np.ndarray = y, labels: np.ndarray = labels) -> float:
                columns = X[:, np.isin(labels, list(groups))]
                return float(((y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]) ** 2).sum())

            least = min(left(some) for some in itertools.combinations(range(12), n_wanted))
            found = left(OnlineSubstitution(n_wanted, feature_groups=labels, ridge=0.0).fit(X, y).groups_)
            best += found <= least * (1.0 + 1e-6)
            greedy += left(pursuit(X, y, labels, n_wanted)) <= least * (1.0 + 1e-6)
            excess.append(found / least - 1.0)
        print(
            f"small, {n_wanted} of 12 {kind} groups: best of all in {best} of {n_seeds}, matching pursuit {greedy}; "
            f"residual above the best {np.mean(excess):.4f} on average, {np.max(excess):.3f} at most",
            flush=True,
        )


def tables(n_splits: int) -> None:
    """Print the errors of categories selected whole, and of as many columns."""
    import daskfs

    with tempfile.TemporaryDirectory() as folder:
        for name, store in (("adult", adult(Path(folder))), ("flights", flights(Path(folder)))):
            for n_groups in (3, 5, 8, 12):
                if n_groups > len({*store.table_columns}):
                    continue
                lines: dict[str, list[Any]] = {}
                for seed in range(n_splits):
                    train, test = store.split(0.25, random_state=seed)
                    whole = timed(OnlineSubstitution(n_groups, feature_groups="schema", loss="logistic"), train, test)
                    n_columns = len(whole[0].selected_)
                    single = timed(OnlineSubstitution(n_columns, loss="logistic"), train, test)
                    fgm = timed(daskfs.FGM(n_groups, feature_groups="schema", loss="logistic"), train, test)
                    for label, found in (("groups", whole), ("as many columns", single), ("FGM groups", fgm)):
                        lines.setdefault(label, []).append(found)
                for label, all_found in lines.items():
                    error, seconds = np.mean([found[1:] for found in all_found], axis=0)
                    sources = {*store.table_columns[all_found[0][0].selected_]}
                    said = f"{len(all_found[0][0].selected_)} columns of {len(sources)} source columns"
                    named = f": {', '.join(all_found[0][0].group_names_)}" if "groups" in label else ""
                    print(
                        f"| {name} | {n_groups} | {label} | {error:.4f} | {said}{named} | {seconds:.1f} |", flush=True
                    )


def timed(model: Any, train: Any, test: Any) -> tuple[Any, float, float]:
    """Return a fitted model, its error on the test rows, and the CPU seconds of the fit."""
    start = time.process_time()
    model.fit(train)
    return model, 1.0 - model.score(test), time.process_time() - start


def adult(folder: Path) -> Any:
    """Return a store of adult, and of its target."""
    import pandas as pd

    import daskfs

    frame = pd.read_csv(Path(os.environ["DASKFS_DATA"]) / "adult" / "adult.txt.gz", skipinitialspace=True)
    frame.columns = [str(name).strip().replace(" ", "_") for name in frame.columns]
    target = frame.columns[-1]
    frame.to_csv(folder / "adult.csv", index=False)
    return daskfs.ingest(folder / "adult.csv", folder / "adult.zarr", target=target)


def flights(folder: Path) -> Any:
    """Return a store of flights out of Houston: whether one arrived 15 minutes late or more."""
    import pandas as pd

    import daskfs

    frame = pd.read_csv(Path(os.environ["DASKFS_DATA"]) / "flights_houston" / "flights_houston.csv.xz")
    frame = frame[frame["ArrDelay"].notna()].iloc[::4]
    known = ["Month", "DayofMonth", "DayOfWeek", "DepTime", "UniqueCarrier", "Origin", "Dest", "Distance", "TaxiOut"]
    columns = frame[known].copy()
    for name in ("Month", "DayofMonth", "DayOfWeek"):
        columns[name] = "v" + columns[name].astype(str)
    columns["late"] = (frame["ArrDelay"] >= 15).astype(int)
    columns.to_csv(folder / "flights.csv", index=False)
    return daskfs.ingest(folder / "flights.csv", folder / "flights.zarr", target="late")


SIZES = {
    "as it is": (2000, 10_000, 10), "rows x 2": (4000, 10_000, 10), "rows x 4": (8000, 10_000, 10),
    "columns x 2": (2000, 20_000, 10), "columns x 4": (2000, 40_000, 10),
    "selected x 2": (2000, 10_000, 20), "selected x 4": (2000, 10_000, 40),
}  # fmt: skip


def growth() -> None:
    """Print seconds and memory as the sizes grow."""
    for name, sizes in SIZES.items():
        for what in ("groups", "columns"):
            command = [sys.executable, __file__, "--child", what, *map(str, sizes)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
            print(
                f"| {name} | {sizes[0]:,} x {sizes[1]:,}, {sizes[2]} groups | {what} | {done.stdout.strip()} |",
                flush=True,
            )


def child(what: str, n_samples: int, n_features: int, n_wanted: int) -> None:
    """Print the CPU seconds and the peak of memory of one fit of a store; two epochs, squared loss."""
    import daskfs

    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        true, coef = rng.choice(n_features // WIDTH, n_wanted, replace=False), rng.standard_normal((n_wanted, WIDTH))
        X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
        signal = sum(X[:, g * WIDTH : (g + 1) * WIDTH] @ c for g, c in zip(true, coef, strict=True))
        y = signal + signal.std() * rng.standard_normal(n_samples)
        store = daskfs.ingest(X, Path(folder) / "X.zarr", y=y, dtype="float32")
        del X
        options: dict[str, Any] = {"loss": "squared", "n_epochs": 2}
        labels = np.arange(n_features) // WIDTH
        make = {
            "groups": lambda: OnlineSubstitution(n_wanted, feature_groups=labels, **options),
            "columns": lambda: OnlineSubstitution(n_wanted * WIDTH, **options),
        }[what]
        few, of_few = rng.standard_normal((200, 60), dtype=np.float32), rng.standard_normal(200)
        OnlineSubstitution(3, feature_groups=np.arange(60) // 3 if what == "groups" else None).fit(few, of_few)
        before = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
        start = time.process_time()
        model = make().fit(store)
        seconds, peak = time.process_time() - start, status("VmHWM") - before
        promised = make().plan(*store.shape, "float32", None, tile_shape=store.tile_shape).client_nbytes
        recall = len({*true} & {*(np.unique(model.selected_ // WIDTH) if what == "columns" else model.groups_)})
        print(f"{seconds:.2f} | {peak / 1e6:.0f} | {promised / 1e6:.0f} | {recall} of {n_wanted}")


def status(name: str) -> int:
    """Return bytes of this process's memory, by the kernel's name for them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("planted", "small", "growth", "tables"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS, help="of planted groups")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--splits", type=int, default=3, help="of the tables")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.child:
        child(options.child[0], *map(int, options.child[1:]))
        return
    if options.planted:
        planted(options.seeds, options.kinds)
    if options.small:
        small(options.seeds)
    if options.tables:
        tables(options.splits)
    if options.growth:
        growth()


if __name__ == "__main__":
    main()
