"""Predictions of MISSION for the rows of a sparse source, and their score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from daskfs import errors
from daskfs.losses import find_loss
from daskfs.metrics import accuracy, r2
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.mission.entries import BLOCK_NNZ, BLOCK_ROWS, MOST_IDS, linear_predictor, rows_of
from daskfs.selectors.predictor import LinearPredictor
from daskfs.selectors.shared.responses import Response
from daskfs.sources.sparse.base import SparseBlock, SparseSource

DataError = errors.DataError.about("streams")


class PredictsSources(BaseSelector):
    """The part of `daskfs.Mission` that accepts sparse sources in place of matrices."""

    def _respond(self, X: Any, response: Response) -> Any:
        if isinstance(X, SparseSource):
            parts = [response(self._predictor(block)) for block in X.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ)]
            return np.concatenate(parts)
        if vars(self).get("n_features_in_", 0) >= MOST_IDS - 1:
            raise DataError("expected a sparse source, as in the fit: features are ids", "X", "pass a source")
        return super()._respond(X, response)

    def predictor(self) -> LinearPredictor:
        """Return the object that computes the linear predictor; after a stream of ids its columns are ids."""
        if vars(self).get("n_features_in_", 0) < MOST_IDS - 1:
            return super().predictor()
        order = np.argsort(self.selected_)
        return LinearPredictor(self.selected_[order], self.coef_[..., order].T, self.intercept_)

    def _predictor(self, block: SparseBlock) -> np.ndarray:
        """Return the linear predictor of a block's rows."""
        are_ids = vars(self).get("n_features_in_", 0) >= MOST_IDS - 1  # only the selected ids have a coefficient
        coef = self.coef_ if are_ids else self.coef_[..., self.selected_]
        return linear_predictor(block, self.selected_.astype(np.uint64), coef, self.intercept_)

    def predictors_of(
        self, source: SparseSource, keep: Callable[[SparseBlock], np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return targets, weights and linear predictors of the rows of a source, or of those that `keep` selects."""
        found = []
        for block in source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ):
            some = block if keep is None else rows_of(block, keep(block))
            of_rows = np.ones(some.n_rows) if some.weight is None else some.weight
            found.append((some.y, of_rows, self._predictor(some)))
        y, weight, predictor = (np.concatenate(part) for part in zip(*found, strict=True))
        return y, weight, predictor

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R², or the accuracy of a classifier; see `BaseSelector.score`.

        For a sparse source, the rows' own targets and weights are used.
        """
        if not isinstance(X, SparseSource):
            return super().score(X, y, sample_weight)
        y, weight, predictor = self.predictors_of(X)
        prediction = self.response(predictor)
        return (accuracy if find_loss(self.loss_).is_classifier else r2)(y, prediction, weight)
