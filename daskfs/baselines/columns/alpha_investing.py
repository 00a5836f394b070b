"""Alpha-investing: columns arrive in a stream and are tested one at a time; discoveries earn budget for further tests.

    Input: columns x_1, x_2, ... in a stream, wealth W, payout Δ
    1. For the i-th column: α_i = W / (2 i); p = p-value of the column given the model;
    2. if p <= α_i: the column joins the model, W = W + Δ - α_i; else W = W - α_i.

Figure 1 of J. Zhou, D. Foster, R. Stine and L. Ungar, "Streaming Feature Selection using Alpha-investing", Proceedings
of the 11th ACM SIGKDD Conference (2005), and of "Streamwise Feature Selection", Journal of Machine Learning Research 7
(2006). Section 2.2 of H. Yang, R. Fujimaki, Y. Kusumura and J. Liu, "Online Feature Selection: A Limited-Memory
Substitution Algorithm and Its Asynchronous Parallel Variation" (KDD 2016) discusses it as related work.

Differs from the papers
-----------------------
* The stream ends when n_features_to_select columns have joined. Often fewer join. A column never leaves.
* The p-value is that of the partial t-test (squared loss; a normal approximation, accurate to a few parts in 1,000) or
  of Rao's score test, so a column that does not join is never fitted. With other losses, refits have a small ridge.
  Without it, classes that the model's columns separate linearly would end the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from daskfs.baselines.columns.base import MOST_BY_DEFAULT, TOLERANCE, Chosen, ColumnBaseline
from daskfs.baselines.null_model import null_model
from daskfs.baselines.standard_columns import StandardColumns
from daskfs.kernels.baselines.online_descent import predict, refresh
from daskfs.kernels.baselines.score_tests import Tested, invest, refresh_hessian
from daskfs.kernels.glm.newton import Problem, newton
from daskfs.kernels.linear.linalg import factorise
from daskfs.parameters import Count, PositiveShare


class AlphaInvesting(ColumnBaseline):
    """Select columns from a stream by tests whose significance level depends on the discoveries so far.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        The stream ends when this many columns have joined. The default is 100. "cv" chooses the number by
        cross-validation. A mapping does so with the options `cv`, `sizes`, `rule`, `metric`, `groups` and `order` of
        `daskfs.SelectionCV`.
    wealth : float
        Initial wealth, W_0.
    payout : float
        Wealth earned by a discovery, Δ.
    n_epochs : int
        Number of times that the stream of columns is repeated.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_ : see `daskfs.baselines.columns.base.ColumnBaseline`
    result_ : SelectionResult
        The history has one row for each column that joined: index, test (number of the test), price (its level), wealth
        (after the test).

    Notes
    -----
    The fit holds the columns of the model, 8 n s bytes, and one block.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> AlphaInvesting(2, wealth=0.05).fit(X, 2 * X[:, 3] - X[:, 7]).selected_  # testing column 0 costs half the wealth
    array([3, 7])
    """

    method = "alpha_investing"
    joins_for_good = True
    history_columns: ClassVar = {"index": int, "test": int, "price": float, "wealth": float}

    wealth: PositiveShare = 0.5
    payout: PositiveShare = 0.5
    n_epochs: Count = 1

    @property
    def _n_asked(self) -> None:
        """None: `n_features_to_select` is an upper bound, and the stream may end with fewer columns."""

    def _n_select(self, n_features: int) -> int:
        if self.n_features_to_select is None:
            return min(MOST_BY_DEFAULT, n_features)
        return self.n_features_to_select

    def _held_nbytes(self, n_samples: int, n_features: int, n_select: int) -> int:
        return 8 * n_samples * (n_select + 10) + 16 * (n_select + 1) * (n_select + 3) + 8 * n_features

    def _planned_passes(self, n_select: int) -> tuple[int, str]:
        return self.n_epochs, "a pass over the columns for each epoch, until enough have joined"

    def _select(self, columns: StandardColumns, problem: Problem, n_select: int) -> Chosen:
        model = _Model(problem, n_select, columns.total_weight, self._loss.ridge * self._loss.curvature_bound)
        is_member = np.zeros(columns.n_features, dtype=bool)
        purse = np.array([float(self.wealth), 0.0, 0.0])  # wealth, number of tests so far, price of the last test
        lines: list[tuple[float, ...]] = []
        for _ in range(self.n_epochs):
            if len(lines) == n_select:
                break
            for first, block in columns.blocks():
                for f in model.discoveries(block, first, is_member, purse):
                    is_member[first + f] = True
                    purse[0] += float(self.payout) - purse[2]
                    lines.append((first + f, purse[1], purse[2], purse[0]))
        features = np.array([line[0] for line in lines], dtype=np.int64)
        return features, lines, ["each passed its test when it arrived"]


class _Model:
    """The model that candidates are tested against. It grows as candidates join."""

    def __init__(self, problem: Problem, capacity: int, total: float, ridge: float) -> None:
        self.problem, self.capacity, self.total, self.ridge, self.n = problem, capacity, total, ridge, 0
        n_samples = len(problem.y)
        self.members = np.arange(capacity)
        self.coef = np.zeros(capacity + 1)
        self.coef[0], at = null_model(problem)
        self.hessian, factor = np.zeros((2, capacity + 1, capacity + 1))
        weight, work = np.empty((2, n_samples))
        columns, cross = np.empty((capacity, n_samples)), np.empty((2, capacity + 1))
        self.tested = Tested(columns, at, weight, factor, work, cross)
        self._factorise()

    def discoveries(self, block: np.ndarray, first: int, is_member: np.ndarray, purse: np.ndarray) -> Iterator[int]:
        """Yield the positions in the block of the columns that pass. Each joins before the next is tested."""
        start = 0
        while start < len(block) and self.n < self.capacity:
            place = invest(self.problem, block, first, start, self.tested, self.n, self.total, is_member, purse)
            if place == len(block):
                return
            self._join(block[place])
            yield place
            start = place + 1

    def _join(self, column: np.ndarray) -> None:
        model = self.tested
        model.columns[self.n] = column
        self.n += 1
        newton(
            self.problem, model.columns, self.members, self.n, self.ridge, TOLERANCE, 1e-3, self.coef, model.at,
            self.hessian, model.factor,
        )  # fmt: skip
        predict(model.columns, self.n, self.coef[1:], self.coef[0], model.at.z)
        refresh(self.problem, model.at)
        self._factorise()

    def _factorise(self) -> None:
        refresh_hessian(self.problem, self.tested, self.members, self.n, self.hessian)
        factorise(self.hessian, self.n + 1, self.ridge, self.tested.factor)
