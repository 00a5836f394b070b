"""Iterative hard thresholding by stochastic gradient descent: after every row only the k largest weights are kept.

    Input: rows (X, y), number of features k, learning rates λ_t
    1. β = 0.
    2. For each row i: β = H_k(β - λ_t ∇ℓ(x_i β, y_i)), where H_k keeps the k largest and sets the others to zero.
    3. Refit on the features of β.
    Return β

Equation (3) of A. Aghazadeh et al., "MISSION: Ultra Large-Scale Feature Selection using Count-Sketches", ICML 2018,
after P. Jain, A. Tewari and P. Kar, "On iterative hard thresholding methods for high-dimensional M-estimation", NIPS
2014. `BatchIHT` is the variant of section 6.1: features accumulate up to a limit, then all but the k largest are
dropped.

Differs from the paper
----------------------
* Intercept, learning rates, passes and refit are those of `daskfs.Mission`, so the two differ only in what happens to
  the features that are not among the k largest.
"""

from __future__ import annotations

from typing import Any

from daskfs.parameters import Count
from daskfs.selectors.mission.configuration import Configuration
from daskfs.selectors.mission.selector import Mission
from daskfs.selectors.shared.budget import DataShape


class _Forgetful(
    Mission,
    fixed={
        "variant": "active", "heap": False, "tail": "sketch", "n_buckets": 1, "n_hashes": 1, "tail_half_life": None,
        "intercept_rate": 0.01, "block_rows": 4096, "n_replicas": 1, "sync_every": 1000, "n_candidates": None,
        "per_class": False, "always_include": None,
    },
):  # fmt: skip
    """Mission without a sketch.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Number of features, k. The default is 1,000, or all if there are fewer. "cv" chooses the number by
        cross-validation. A mapping does so with the options `cv`, `sizes`, `rule`, `metric`, `groups` and `order` of
        `daskfs.SelectionCV`.
    random_state : int, RandomState or None
        Seed of the order of the rows.
    """


class StochasticIHT(_Forgetful):
    """Keep the k largest weights after every row. A dropped feature restarts from zero when it occurs again.

    With more than two classes, the k largest of each class are kept, as in the paper.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, classes_, scores_, result_ : see `Mission`

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> StochasticIHT(n_features_to_select=2).fit(X, y).selected_[0]
    np.int64(3)
    """

    method = "iht_sgd"

    def _configuration(self, data: DataShape, n_outputs: int, **more: Any) -> Configuration:
        return super()._configuration(data, n_outputs, **more, variant="iht")


class BatchIHT(_Forgetful):
    """Let features accumulate up to a limit, then keep the k largest weights; see `StochasticIHT`.

    Parameters
    ----------
    n_gathered : int
        Number of features beyond k between two cuts. For a comparison, as many as the sketch has numbers. Each takes at
        least 40 bytes, a cell of a sketch 4.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, classes_, scores_, result_ : see `Mission`

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> BatchIHT(n_features_to_select=2).fit(X, y).selected_
    array([3, 7])
    """

    method = "batch_iht"

    n_gathered: Count = 1 << 16

    def _configuration(self, data: DataShape, n_outputs: int, **more: Any) -> Configuration:
        return super()._configuration(data, n_outputs, **more, variant="batch_iht", n_gathered=self.n_gathered)
