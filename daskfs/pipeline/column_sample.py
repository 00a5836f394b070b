"""Describe selected features from a sample: the first rows of the first selected columns, at most 4 MiB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from daskfs.evidence import FeatureRecord, NearMiss
from daskfs.matrix.base import Matrix
from daskfs.metrics import PREDICTION_METRICS
from daskfs.pipeline.prediction_quality import MOST_CLASSES, Predicted, finite
from daskfs.result import SelectionResult
from daskfs.selected_table import greatest_scores, parents_in
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.diagnostics.remarks import MOST_FEATURES
from daskfs.store.feature_store import FeatureStore

MOST_DESCRIBED = 10_000
"""Maximum number of selected features that are described individually."""
SAMPLE_ROWS, SAMPLE_COLUMNS = 2_000, 256
MOST_NEAR_MISSES, NEAR_FEATURES = 20, 256
"""Maximum number of near misses (one per column), and number of features examined for them."""
N_STEPS = 12
ALIKE, STANDS_IN, IS_TARGET = 0.99, 0.7, 0.999
"""Minimum correlations of near duplicates, of a replacement for a feature, and of a copy of the target."""
IN_A_BUNDLE = 0.9


class ColumnSample:
    """A sample of rows of the selected columns and of near misses."""

    def __init__(self, store: Matrix, matrix: Matrix, selector: BaseSelector, result: SelectionResult) -> None:
        self.store, self.matrix, self.selector, self.result = store, matrix, selector, result
        self.is_made = selector.made_ is not None
        self.columns = np.empty(0, np.int64) if self.is_made else selector.selected_[:SAMPLE_COLUMNS].astype(np.int64)
        self.names = [str(name) for name in result.table["name"].head(len(self.columns))]
        self._near, self._near_of, self._n_near = self._nearest()
        self.X = self._read(self.columns)
        self.near_X = self._read(self._near)
        self.y = matrix.read_target(slice(0, len(self.X)))

    def _nearest(self) -> tuple[np.ndarray, list[str], Counter[str]]:
        """Return the unselected features with the highest scores, the best of each column of the table.

        Also return their columns, and the number of features with high scores by column.
        """
        scores = self.result.scores
        if scores is None or self.is_made or len(scores) != self.matrix.shape[1]:
            return np.empty(0, np.int64), [], Counter()
        best = greatest_scores(scores, NEAR_FEATURES, self.selector.selected_)
        of = columns_of(self.store, best, [str(self.matrix.names[int(j)]) for j in best])
        first = [k for k, name in enumerate(of) if name not in of[:k]][:MOST_NEAR_MISSES]
        return best[first], [of[k] for k in first], Counter(of)

    def _read(self, columns: np.ndarray) -> np.ndarray:
        """Return the sampled rows of some columns, in the given order."""
        n_rows = min(SAMPLE_ROWS, self.matrix.shape[0])
        if not len(columns):
            return np.empty((n_rows, 0))
        in_order = np.argsort(columns)
        X = np.empty((n_rows, len(columns)))
        X[:, in_order] = self.matrix.read(slice(0, n_rows), columns[in_order])
        return X

    def features(self) -> list[FeatureRecord]:
        """Return the record of each selected feature."""
        table, store = self.result.table.head(MOST_DESCRIBED), self.store
        of_classes = coefficients_by_class(self.selector, len(table))
        if self.is_made:
            of = [" × ".join(of.name for of in parents_in(row)) for row in table.to_dict("records")]
            return [FeatureRecord(name, None, None, None, one) for name, one in zip(of, of_classes, strict=True)]
        index = table["index"].to_numpy()
        known = store.column_statistics() if store.shape[1] <= MOST_FEATURES else None
        numbers = np.full((3, len(index)), np.nan)
        if known is not None:
            numbers[:] = known.std[index], known.minimum[index], known.maximum[index]
        elif len(self.columns):
            found = self.X.std(axis=0), self.X.min(axis=0), self.X.max(axis=0)
            numbers[:, : len(self.columns)] = found
        names = columns_of(store, index, [str(name) for name in table["name"]])
        return [
            FeatureRecord(name, finite(deviation), finite(minimum), finite(maximum), by_class)
            for name, (deviation, minimum, maximum), by_class in zip(names, numbers.T.tolist(), of_classes, strict=True)
        ]

    def near_misses(self) -> list[NearMiss]:
        """Return the near misses, each with the selected feature that can replace it."""
        found, scores, correlation = [], self.result.scores, _correlations(self.near_X, self.X)
        for k, j in enumerate(self._near):
            assert scores is not None
            best = int(np.argmax(correlation[k])) if correlation.shape[1] else -1
            is_like = best >= 0 and correlation[k, best] >= STANDS_IN
            like, alike = (self.names[best], round(float(correlation[k, best]), 4)) if is_like else (None, None)
            name, of = str(self.matrix.names[int(j)]), self._near_of[k]
            found.append(NearMiss(name, float(scores[j]), like, alike, of, self._n_near[of]))
        return found

    def bundles(self) -> list[list[str]]:
        """Return groups of highly correlated selected features and near misses, the most important group first."""
        X = np.column_stack([self.X, self.near_X])
        names = [*self.names, *(str(self.matrix.names[int(j)]) for j in self._near)]
        alike, taken, found = _correlations(X, X) >= IN_A_BUNDLE, set[int](), []
        for k in range(len(self.names)):
            own = [j for j in np.flatnonzero(alike[k]).tolist() if j not in taken]
            if k in own and len(own) > 1:
                taken.update(own)
                found.append([names[j] for j in sorted(own, key=lambda j: (j != k, j))])
        return found

    def warnings(self, target: str, are_classes: bool) -> Iterable[str]:
        """Yield warnings about the selected columns: possible copies of the target, and near duplicates."""
        from daskfs.sources.schema_inference import named_like, share_by_order

        for name in self.names if target else ():
            if named_like(name, target):
                yield (
                    f"possible leak: the name {name!r} resembles the target's ({target!r}): is this column known when "
                    "predictions are made?"
                )
        if len(self.X) < 20:
            return
        if self.y is not None and self.y.ndim == 1 and len(np.unique(self.y)) > 1:
            codes = np.unique(self.y, return_inverse=True)[1]
            is_skewed = np.bincount(codes).max() / len(codes) >= 0.99
            strength = _correlations(self.X, self.y[:, None])[:, 0] if not are_classes else np.zeros(self.X.shape[1])
            for k, name in enumerate(self.names):
                if are_classes and not is_skewed:
                    strength[k] = share_by_order(self.X[:, k], codes)
                if strength[k] >= IS_TARGET:
                    how = (
                        "predicts the class of nearly every row"
                        if are_classes
                        else f"has correlation {strength[k]:.4f}"
                    )
                    yield (f"possible leak: {name!r} alone {how}: is it a copy of the target, or only known after it?")
        correlation = np.triu(_correlations(self.X, self.X), 1)
        pairs = np.argwhere(correlation >= ALIKE)[:5]
        if len(pairs):
            listed = ", ".join(f"{self.names[i]!r} and {self.names[j]!r}" for i, j in pairs)
            yield f"selected features that are nearly identical (correlation above {ALIKE}): {listed}"

    def by_size(self, tested: Predicted) -> tuple[str, list[int], list[float]]:
        """Return a metric by number of first features of the model, with the others fixed at their means."""
        n_rows, n_columns = self.X.shape
        coef = self.selector.coef_
        metric = tested.loss.default_metrics[0] if tested.loss.is_classifier else "r2"
        if self.is_made or n_columns != len(self.selector.selected_) or coef.ndim > 1 or n_rows < 2 or n_columns < 2:
            return "", [], []
        if metric == "accuracy" and len(np.unique(tested.y[:n_rows])) < 2:
            return "", [], []
        shares = (self.X - self.X.mean(axis=0)) * coef[self.columns]
        rest = float(self.selector.intercept_) + float(self.X.mean(axis=0) @ coef[self.columns])
        sums = np.cumsum(shares, axis=1) + rest
        sizes = np.unique(np.round(np.geomspace(1, n_columns, N_STEPS)).astype(int))
        weight = None if tested.weight is None else tested.weight[:n_rows]
        values = []
        for size in sizes:
            predicted = self.selector.response(sums[:, size - 1])
            values.append(PREDICTION_METRICS[metric](tested.y[:n_rows], predicted, weight))
        if not np.isfinite(values).all():
            return "", [], []
        return metric, sizes.tolist(), values


def coefficients_by_class(selector: BaseSelector, n_features: int) -> list[list[float | None] | None]:
    """Return the coefficients of the first selected features by class; None for each without several classes.

    With more than 30 classes the result is None too, since the table would be too wide.
    """
    coef = selector.coef_.T
    if coef.ndim == 1 or coef.shape[1] > MOST_CLASSES:
        return [None] * n_features
    if selector.made_ is None:
        predictor = selector.predictor()
        coef = predictor.coef[np.searchsorted(predictor.columns, selector.selected_)]
    return [[finite(value) for value in of_feature] for of_feature in coef[:n_features].tolist()]


def columns_of(store: Matrix, index: np.ndarray, names: list[str]) -> list[str]:
    """Return the columns of the table from which features were encoded; the features' own names without a table."""
    if not isinstance(store, FeatureStore):
        of = store.table_columns
        return names if of is None else [str(of[int(j)]) for j in index]
    several = store.source.get("table_columns")
    if not several:
        return names
    spans = sorted((first, stop, name) for name, (first, stop) in several.items())
    at = np.searchsorted([first for first, _, _ in spans], index, side="right") - 1
    return [spans[k][2] if k >= 0 and j < spans[k][1] else name for k, j, name in zip(at, index, names, strict=True)]


def _correlations(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the absolute correlations of the columns of X with those of Z; 0 for constant columns."""

    def unit(A: np.ndarray) -> np.ndarray:
        A = A - A.mean(axis=0)
        norm = np.sqrt((A**2).sum(axis=0))
        return np.divide(A, norm, out=np.zeros_like(A), where=norm > 1e-12 * max(1.0, float(norm.max(initial=0.0))))

    return np.abs(unit(X).T @ unit(Z))
