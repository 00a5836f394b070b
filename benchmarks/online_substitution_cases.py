"""Data and methods of the online substitution benchmarks, and a table from which an interrupted run goes on."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from daskfs.baselines import (
    AlphaInvesting,
    Grafting,
    LassoCut,
    OnlineL0,
    OnlineL1,
    OrthogonalMatchingPursuit,
    ProjGD,
)
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.sources.synthetic import SyntheticSource

EPOCHS = (1, 2, 3, 4, 5)
SCANS = 3
"""Of every online method, ours and the rivals alike: the default of ours."""


class Case(NamedTuple):
    """A drawn data set."""

    train: ArrayMatrix
    X_test: np.ndarray
    y_test: np.ndarray
    coef: np.ndarray
    support: np.ndarray


def draw(
    n_features: int,
    seed: int,
    *,
    loss: str = "squared",
    columns: str = "unit",
    structure: str = "independent",
    n_informative: int = 100,
    n_samples: int | None = None,
) -> Case:
    """Draw a data set of the paper; of classes, with as many test rows.

    With `structure` the noise is that of unit columns.
    """
    is_squared = loss == "squared"
    options: dict[str, Any] = {"n_informative": n_informative, "structure": structure, "random_state": seed}
    source = SyntheticSource(n_samples, n_features, design="online_substitution", **options)
    n_train = source.n_samples
    source = SyntheticSource(
        n_train if is_squared else 2 * n_train,
        n_features,
        design="online_substitution",
        noise="normal" if is_squared else "none",
        columns=columns if is_squared else "standard",
        **options,
    )
    block = next(source.row_blocks(source.n_samples))
    coef = np.zeros(n_features)
    coef[source.support] = source.coef
    train = ArrayMatrix(block.X[:n_train], block.y[:n_train])
    return Case(train, block.X[n_train:], block.y[n_train:], coef, source.support)


def recall_and_error(selector: Any, case: Case) -> tuple[float, float]:
    """Return the share of the true features found, and the error of the refit: relative, or on test rows of classes."""
    recall = len(np.intersect1d(selector.selected_, case.support)) / len(case.support)
    if not len(case.X_test):
        return recall, float(np.linalg.norm(selector.coef_ - case.coef) / np.linalg.norm(case.coef))
    columns = np.flatnonzero(selector.support_)
    z = case.X_test[:, columns] @ selector.coef_[columns] + selector.intercept_
    return recall, float(np.mean((z > 0) != (case.y_test > 0)))


class Table:
    """Rows of a CSV file, each written when it is known; those that stand there are not made again."""

    def __init__(self, path: Path, key: tuple[str, ...]) -> None:
        self.path, self.key = path, key
        self.rows: list[dict[str, str]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))
        self._known = {self._key_of(row) for row in self.rows}

    def _key_of(self, row: dict[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in self.key)

    def has(self, **key: Any) -> bool:
        """Whether a row stands there."""
        return self._key_of(key) in self._known

    def add(self, **row: Any) -> None:
        """Write a row."""
        is_new = not self.path.exists()
        text = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in row.items()}
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(row))
            if is_new:
                writer.writeheader()
            writer.writerow(text)
        self.rows.append(text)
        self._known.add(self._key_of(text))

    def mean(self, value: str, **wanted: Any) -> tuple[float, int]:
        """Return the mean of a column over the rows with these values, and their number."""
        found = [float(row[value]) for row in self.rows if all(row[name] == str(wish) for name, wish in wanted.items())]
        return (float(np.mean(found)) if found else float("nan")), len(found)


class Penalty:
    """The one with which the batch method of a data set kept enough features; fitted when first asked for."""

    def __init__(self, case: Case, options: dict[str, Any]) -> None:
        self.case, self.options, self.value = case, options, 0.0

    def get(self) -> float:
        """Return it."""
        if not self.value:
            self.value = LassoCut(**self.options).fit_matrix(self.case.train).penalty_
        return self.value


def online_substitution(**options: Any) -> Any:
    """Return the selector under test."""
    from daskfs import OnlineSubstitution

    return OnlineSubstitution(**options)


def makers(s: int, loss: str, penalty: Penalty | None) -> dict[str, Callable[[], Any]]:
    """Return the methods of the left panels, each with `SCANS` scans of the features where it is online."""
    options: dict[str, Any] = {"n_features_to_select": s, "loss": loss}
    online = options | {"n_epochs": SCANS}
    return {
        "os exchange": lambda: online_substitution(**online),
        "os": lambda: online_substitution(rule="os", **online),
        "os paper": lambda: online_substitution(rule="paper", **online),
        "omp": lambda: OrthogonalMatchingPursuit(**options),
        "proj-gd": lambda: ProjGD(**options),
        "proj-gd half": lambda: ProjGD(step="half", **options),
        "l1 batch": lambda: LassoCut(**options),
        "grafting": lambda: Grafting(penalty=penalty.get(), **online),
        "l1 descent": lambda: OnlineL1(penalty=penalty.get(), **online),
        "l0 descent": lambda: OnlineL0(**online),
        "alpha-investing": lambda: AlphaInvesting(**online),
    }
