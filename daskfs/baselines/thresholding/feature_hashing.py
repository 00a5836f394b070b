"""Feature hashing: stochastic gradient descent on features that share weights by their hash. Nothing is selected.

    Input: rows (X, y), number of cells, learning rates λ_t
    1. w = 0, one weight for each cell.
    2. For each row i: z = β_0 + Σ_j s(j) w[h(j)] x_ij; w[h(j)] -= λ_t ℓ'(z, y_i) s(j) x_ij for every feature j.
    Return w

K. Weinberger, A. Dasgupta, J. Langford, A. Smola and J. Attenberg, "Feature hashing for large scale multitask
learning", ICML 2009. It is the "FH" of section 6 of Aghazadeh et al., "MISSION", ICML 2018, with which MISSION's
predictions are compared.

Differs from the paper
----------------------
* Intercept, learning rates and passes are those of `daskfs.selectors.mission.selector.Mission`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.kernels.sketch.hashed_rows import predict_hashed_rows
from daskfs.selectors.mission.configuration import Configuration
from daskfs.selectors.mission.selector import Mission
from daskfs.selectors.shared.budget import DataShape
from daskfs.sources.sparse.base import SparseBlock


class FeatureHashing(
    Mission,
    fixed={
        "n_features_to_select": None, "variant": "active", "heap": False, "tail": "sketch", "n_hashes": 1,
        "tail_half_life": None, "intercept_rate": 0.01, "block_rows": 4096, "n_replicas": 1, "sync_every": 1000,
        "refit": None, "n_candidates": None, "per_class": False, "always_include": None,
    },
):  # fmt: skip
    """Predict with hashed features. The class has the interface of a selector, but selects every feature.

    Parameters
    ----------
    n_buckets : int, optional
        Number of cells, a power of two; by default 2¹⁸, or twice the number of features if that is smaller.
    random_state : int, RandomState or None
        Seed of the hash and the order of the rows.

    Attributes
    ----------
    selected_, support_ : all features; none if features are the 64-bit ids of a stream, which cannot be listed
    coef_ : ndarray of shape (n_features,), of more than two classes (n_classes, n_features)
        The weight of each feature's cell, with its sign.
    intercept_, classes_, scores_, result_ : see `Mission`

    Notes
    -----
    Rows of a stream of ids are predicted from the cells of their features: `predict` takes a sparse source.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> round(FeatureHashing().fit(X, y).score(X, y), 1)
    0.8
    """

    method = "feature_hashing"

    def _configuration(self, data: DataShape, n_outputs: int, **more: Any) -> Configuration:
        return super()._configuration(data, n_outputs, **more, variant="hashing")

    def _shortfall(self) -> list[str]:
        return []

    def _predictor(self, block: SparseBlock) -> np.ndarray:
        """Return the linear predictor of a block's rows; with ids, from their cells."""
        if self._stream is None or not self._stream.fit.are_ids:
            return super()._predictor(block)
        model, state = self._stream.fit.config.model, self._stream.fit.state
        sketch = model.sketch(state.cells, state.scale)
        z = np.tile(state.intercept, (block.n_rows, 1))
        data = np.ones(len(block.features), np.float32) if block.data is None else block.data
        n_buckets, _, seed = sketch.hashing
        predict_hashed_rows(block.indptr, block.features, data, sketch.cells, n_buckets, seed, z)
        return z[:, 0] if model.n_outputs == 1 else z
