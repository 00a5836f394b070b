"""How FGM over groups depends on C and B, and what groups of a table's columns buy beside single dummies.

    DASKFS_DATA=... python benchmarks/fgm_group_sensitivity.py C [--only SET ...]      (what the default of C rests on)
    DASKFS_DATA=... python benchmarks/fgm_group_sensitivity.py schema [--only SET ...]

C: multiples of the default for single columns, and B, on planted groups of normal columns without and with noise, on
planted categories, on blocks of the TCGA, correlated genes of golub, positions of promoters, and tables by schema.
Score: accuracy (or R²) on rows held out, of planted sets also the share of the true groups that is selected.
schema: test score of so many groups (source columns of the table), of as many single columns of the matrix as these
groups have, and of single columns until they are of as many source columns.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse
from fgm_groups import at_positions, clusters
from open_sets import ADULT, KNOWN_BEFORE_A_FLIGHT, dummies, loader, open_set
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from daskfs import FGM

FACTORS = (1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
"""Multiples of the default for single columns."""


class Fold(NamedTuple):
    """Rows to learn from and to test on, their groups, how many are asked for, and which are true where known."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    groups: Any
    n_wanted: int
    true: np.ndarray | None = None


def planted(
    n: int, n_groups: int, width: int, n_true: int, noise: float, seeds: range, loss: str = ""
) -> Iterator[Fold]:
    """Yield groups of normal columns, `noise` of the standard deviation of what they say."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        true = np.sort(rng.choice(n_groups, n_true, replace=False))
        columns = (true[:, None] * width + np.arange(width)).ravel()
        X = rng.standard_normal((n + 2000, n_groups * width), dtype=np.float32)
        z = X[:, columns] @ rng.standard_normal(len(columns))
        z += noise * z.std() * rng.standard_normal(len(z))
        y = z if loss == "squared" else z > 0
        yield Fold(X[:n], y[:n], X[n:], y[n:], np.arange(n_groups * width) // width, n_true, true)


def categories(n: int, n_groups: int, n_true: int, noise: float, seeds: range) -> Iterator[Fold]:
    """Yield dummies of categories of 2 to 40 levels of unequal shares."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(2, 41, n_groups)
        true = np.sort(rng.choice(n_groups, n_true, replace=False))
        z, parts = np.zeros(n + 2000), []
        for g, size in enumerate(sizes.tolist()):
            levels = rng.choice(size, n + 2000, p=rng.dirichlet(np.full(size, 2.0)))
            parts.append((levels[:, None] == np.arange(size)).astype(np.float32))
            if g in true:
                effect = rng.standard_normal(size)[levels]
                z += (effect - effect.mean()) / effect.std()
        z += noise * z.std() * rng.standard_normal(len(z))
        X, y = np.concatenate(parts, axis=1), z > np.median(z)
        yield Fold(X[:n], y[:n], X[n:], y[n:], np.repeat(np.arange(n_groups), sizes), n_true, true)


def crossed(X: Any, y: np.ndarray, groups: Any, n_wanted: int) -> Iterator[Fold]:
    """Yield five folds."""
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        of_fold = groups(X[train]) if callable(groups) else groups
        yield Fold(X[train], y[train], X[test], y[test], of_fold, n_wanted)


def tcga(n_wanted: int = 5) -> Iterator[Fold]:
    """Yield pieces of eight columns of three blocks."""
    X, y, info = loader().load("gene_breast_tcga")
    blocks = np.repeat(["mRNA", "microRNA", "protein"], info["groups"])
    return crossed(np.asarray(X, np.float32), y, [f"{block} {j // 8}" for j, block in enumerate(blocks)], n_wanted)


def golub(n_wanted: int = 10) -> Iterator[Fold]:
    """Yield overlapping clusters of correlated genes."""
    X, y, _ = loader().load("gene_golub")
    X = np.log10(np.clip(X, 100, 16000)).astype(np.float32)
    return crossed(X[:, X.std(axis=0) > 0.2][:, :2000], y, clusters, n_wanted)


def digits() -> Iterator[Fold]:
    """Yield patches of four by four pixels of the digits 3 and 8."""
    data = open_set("mnist 3v8")
    at = np.arange(784)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(data.y))
        train, test = order[:2000], order[2000:5000]
        yield Fold(data.X[train], data.y[train], data.X[test], data.y[test], at // 28 // 4 * 7 + at % 28 // 4, 20)


def promoters(k: int, n_wanted: int) -> Iterator[Fold]:
    """Yield k-mers at positions."""
    X, y, _ = loader().load("dna_promoters")
    chosen = np.char.startswith(y.astype(str), "Ecoli")
    letters = np.array([list(one.upper()) for one, is_in in zip(X, chosen, strict=True) if is_in])
    columns, positions = at_positions(letters, k)
    return crossed(columns, y[chosen], positions, n_wanted)


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


def tables(name: str, n_wanted: int, seeds: range = range(3)) -> Iterator[Fold]:
    """Yield draws of 3,000 rows to learn from and 3,000 to test on of a table by its schema."""
    table, y, names = table_of(name)
    X, labels = by_schema(table, names)
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:3000], order[3000:6000]
        yield Fold(X[train], y[train], X[test], y[test], labels, n_wanted)


SETS: dict[str, Any] = {
    "normal": lambda: planted(1024, 1000, 10, 25, 0.0, range(5)),
    "normal, noise 0.5": lambda: planted(1024, 1000, 10, 25, 0.5, range(5)),
    "normal, noise 1": lambda: planted(1024, 1000, 10, 25, 1.0, range(5)),
    "normal, 2,048 rows, noise 1": lambda: planted(2048, 500, 5, 30, 1.0, range(5)),
    "normal, 2,048 rows, noise 2": lambda: planted(2048, 500, 5, 10, 2.0, range(5)),
    "normal, numbers": lambda: planted(1024, 1000, 10, 25, 0.0, range(5), "squared"),
    "normal, numbers, noise 1": lambda: planted(1024, 1000, 10, 25, 1.0, range(5), "squared"),
    "normal, 300 rows, noise 0.5": lambda: planted(300, 300, 5, 5, 0.5, range(5)),
    "categories": lambda: categories(2000, 60, 10, 0.0, range(3)),
    "categories, noise 1": lambda: categories(2000, 60, 10, 1.0, range(3)),
    "30 categories": lambda: categories(2000, 100, 30, 0.5, range(3)),
    "digits, patches": digits,
    "TCGA, pieces of blocks": tcga,
    "TCGA, 20 pieces": lambda: tcga(20),
    "golub, clusters": golub,
    "golub, 30 clusters": lambda: golub(30),
    "promoters, bases": lambda: promoters(1, 30),
    "promoters, pairs": lambda: promoters(2, 20),
    "adult": lambda: tables("adult", 4),
    "flights": lambda: tables("flights_houston", 4),
    "power hourly": lambda: tables("power_hourly", 4),
}


def quality(fold: Fold, **options: Any) -> tuple[float, float]:
    """Return the score on rows held out, and the share of true groups that is found (NaN: unknown)."""
    selector = FGM(fold.n_wanted, feature_groups=fold.groups, **options).fit(fold.X, fold.y)
    found = np.nan if fold.true is None else float(np.isin(selector.groups_, fold.true).mean())
    return held_out(selector, fold.X_test, fold.y_test), found


def held_out(selector: FGM, X: Any, y: np.ndarray) -> float:
    """Return the area under the ROC curve of two classes, else accuracy or R²."""
    if getattr(selector, "classes_", None) is not None and len(selector.classes_) == 2:
        return float(roc_auc_score(y == selector.classes_[1], selector.decision_function(X)))
    return float(selector.score(X, y))


def vary_C(names: list[str]) -> None:
    """Print score and share of true groups for multiples of the default of single columns; B by default and half."""
    print(
        f"| set, groups asked for | B | {' | '.join(f'{factor:g}' for factor in FACTORS)} | by default | validation |"
    )
    print("|---|" + (len(FACTORS) + 3) * "---|")
    for name in names:
        folds = list(SETS[name]())
        base = FGM(1).fit(folds[0].X, folds[0].y).C_
        by_default = -(-folds[0].n_wanted // 10)
        for per_pass in sorted({by_default, -(-by_default // 2)}, reverse=True):
            wanted = [{"C": factor * base, "n_features_per_pass": per_pass} for factor in FACTORS]
            wanted += [{}, {"C": "validation"}] if per_pass == by_default else []
            cells = []
            for options in wanted:
                score, found = np.mean([quality(fold, **options) for fold in folds], axis=0)
                cells.append(f"{score:.3f}" + ("" if np.isnan(found) else f" ({100 * found:.0f} %)"))
            print(f"| {name}, {folds[0].n_wanted} | {per_pass} | {' | '.join(cells)} |", flush=True)


def schema(names: list[str]) -> None:
    """Print scores of groups by each of their scores, and of single columns, over three draws of rows."""
    for name in names:
        table, y, categorical = table_of(name)
        X, labels = by_schema(table, categorical)
        n_groups = len(set(labels.tolist()))
        print(f"{name}: {n_groups} source columns, {X.shape[1]:,} columns", flush=True)
        for wanted in (2, 4, 8):
            if wanted > n_groups:
                continue
            found: dict[str, list[tuple[float, int]]] = {}
            for seed in range(3):
                order = np.random.default_rng(seed).permutation(len(y))
                train, test = order[:3000], order[3000:6000]
                data, held = (X[train], y[train]), (X[test], y[test])
                for score in ("excess", "sum", "mean"):
                    groups = FGM(wanted, feature_groups=labels, group_score=score).fit(*data)
                    found.setdefault(f"groups, {score}", []).append((held_out(groups, *held), len(groups.selected_)))
                    if score == "excess":
                        n_columns = min(len(groups.selected_), 300)
                same = FGM(n_columns).fit(*data)
                found.setdefault("as many columns", []).append((held_out(same, *held), n_columns))
                k, single = wanted, FGM(wanted).fit(*data)
                while len(set(labels[single.selected_].tolist())) < wanted and k < X.shape[1]:
                    k = min(k + max(1, k // 4), X.shape[1])
                    single = FGM(k).fit(*data)
                found.setdefault("as many source columns", []).append((held_out(single, *held), k))
            for label, scores in found.items():
                each, columns = np.array(scores).T
                error = each.std() / len(each) ** 0.5
                print(
                    f"  {wanted} groups | {label}: {each.mean():.3f} ± {error:.3f} ({columns.mean():.0f} columns)",
                    flush=True,
                )


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("C", "schema"))
    parser.add_argument("--only", nargs="+")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.part == "C":
        vary_C(asked.only or [*SETS])
    else:
        schema(asked.only or ["flights_houston", "adult", "kddcup99", "power_hourly", "power_minute"])


if __name__ == "__main__":
    sys.exit(main())
