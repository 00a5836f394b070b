"""MESSAGE: median selection subset aggregation, for linear models.

    Input: rows (X, y), number of subsets m
    1. Partition the rows at random into m subsets.
    2. On each subset i: follow the Lasso path; choose the model on it that minimises
       GIC(M) = n_i log(RSS_M / n_i) + λ |M|; γ_j(i) says whether feature j is in it.
    3. Keep the features that more than half of the subsets chose: γ_j = median_i γ_j(i).
    4. On each subset: least squares on the kept features gives β(i).
    5. Average: β = Σ_i β(i) / m.
    Return γ, β

Algorithm 1 of X. Wang, P. Peng and D. B. Dunson, "Median Selection Subset Aggregation for Parallel Inference",
Advances in Neural Information Processing Systems 27 (2014).

Differs from the paper
----------------------
* σ² of equation (1) is unknown in practice; it is profiled out, which gives the criterion above.
* RSS is that of the least-squares refit (``gic_rss="refit"``) and the default criterion lies between the paper's BIC
  and extended BIC (``gamma=0.5``): in the paper's own simulations the shrunk fit loses weak signals of correlated
  features. ``gic_rss="lasso", criterion="bic"`` is glmnet's fit with the paper's penalty.
* A path ends at models of ``n_i / (2 log p)`` features, since log RSS falls without end towards saturation, and after
  `patience` features without a better model.
* The paper is silent on m even and votes of exactly m / 2; they do not count as a majority (``tie="drop"``).
* A subset on which a column is constant does not vote on it: its vote counts over the others, which must be more than
  half. Such a coefficient is averaged over the others too.
* On a subset where the kept columns are linearly dependent, step 4 takes the shortest solution; the result counts them.
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np

from daskfs.blocks import Matrix, Progress
from daskfs.cluster import parse_bytes, workers_of
from daskfs.errors import ConfigError, DataError, did_you_mean
from daskfs.result import SelectionResult, selection_table
from daskfs.selectors.base import BaseSelector, Checkpoint, SelectorPlan
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.message_on_block import SelectionSettings
from daskfs.selectors.message_plan import Shape, choose_n_subsets, is_whole, plan_message
from daskfs.selectors.message_run import MessageRun
from daskfs.sources.arrays import ArrayMatrix
from daskfs.streams import RowView
from daskfs.workers import Workers


class Message(BaseSelector):
    """Select the features that a majority of random row subsets selects, average the subsets' least-squares fits.

    Parameters
    ----------
    n_subsets : int, optional
        The paper's m.
    subset_size : int, optional
        Rows of a subset, instead of `n_subsets`. With neither: five subsets, more where one would have over 2²³ values
        (32 MiB of float32), fewer where one would have less than ``max(400, n_features // 5)`` rows; an odd number.
        More rows per subset find weaker signals; more subsets withstand more outliers.
    criterion : {"ebic", "ric", "bic"}
        ebic: λ = log n_i + 2 gamma log p. ric: λ = 2 (log p + log log p). bic: λ = log n_i.
    gamma : float
        Of ebic; 1 is the paper's extended BIC.
    gic_rss : {"refit", "lasso"}
        Whether the criterion sees the residuals of the refit or of the shrunk Lasso fit.
    tie : {"drop", "keep"}
        What becomes of a feature that exactly half of the subsets chose.
    n_lambdas : int
        Length of the Lasso path's grid.
    patience : int or None
        A path stops at models with so many features more than the best so far; None: never. With "bic", whose criterion
        turns late, 30 is safer than the default.
    max_features : int, optional
        Largest model a subset may choose; by default n_i / (2 log p).
    loss : {"squared"}
        The linear model.
    random_state : int, RandomState or None
        Of the partition of rows that do not stand in random order.
    memory_limit : int or str, optional
        What one task may take, "1GiB" for example; by default tasks read about 128 MiB.
    client : distributed.Client, optional
        Where the work runs; None: here.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, most important first: by inclusion frequency, then by the size of the standardised coefficient.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,)
        On the scale of the data, 0 where not selected.
    intercept_ : float
    scores_ : ndarray of shape (n_features,)
        Inclusion frequency: the share of the subsets that chose a feature, among those where it is not constant; NaN
        where it is constant in all.
    n_subsets_ : int
    n_selected_per_subset_ : ndarray of shape (n_subsets_,)
    result_ : SelectionResult
        Its history is the path of the first subset: lambda, df, rss, gic, chosen.

    Notes
    -----
    Rows of a shuffled store are partitioned as they stand: subset i has rows ``[i n // m, (i + 1) n // m)``. Arrays in
    memory are permuted first, as ingest permutes the rows of a store. A store in the order of its source is partitioned
    as it stands as well, with a warning. One pass reads all columns, a second one those selected; a task holds
    its rows and up to 256 MiB beside them. The same data, parameters and seed give the same bits with any
    tiles, workers and order of completion.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> selector = Message(n_subsets=5).fit(X, y)
    >>> selector.selected_
    array([3, 7])
    """

    def __init__(
        self,
        n_subsets: int | None = None,
        subset_size: int | None = None,
        criterion: str = "ebic",
        gamma: float = 0.5,
        gic_rss: str = "refit",
        tie: str = "drop",
        n_lambdas: int = 100,
        patience: int | None = 10,
        max_features: int | None = None,
        loss: str = "squared",
        random_state: Any = 0,
        memory_limit: int | str | None = None,
        client: Any = None,
    ) -> None:
        self.n_subsets = n_subsets
        self.subset_size = subset_size
        self.criterion = criterion
        self.gamma = gamma
        self.gic_rss = gic_rss
        self.tie = tie
        self.n_lambdas = n_lambdas
        self.patience = patience
        self.max_features = max_features
        self.loss = loss
        self.random_state = random_state
        self.memory_limit = memory_limit
        self.client = client

    def plan(
        self,
        n_samples: int,
        n_features: int,
        dtype: Any,
        memory_limit: int | None,
        n_threads: int = 1,
        tile_shape: tuple[int, int] | None = None,
    ) -> SelectorPlan:
        """Return what fitting a matrix of this shape will read and hold; see `BaseSelector.plan`."""
        self._check_parameters()
        shape = self._shape(n_samples, n_features, np.dtype(dtype))
        return plan_message(shape, memory_limit, n_threads, tile_shape[0] if tile_shape else 1)

    def _fit(
        self, matrix: Matrix, workers: Workers | None, progress: Progress | None, checkpoint: Checkpoint | None
    ) -> None:
        self._check_parameters()
        y = _checked_target(matrix)
        notes: list[str] = []
        partitioned = self._in_random_order(matrix, notes)
        run = MessageRun(
            partitioned,
            self._shape(partitioned.shape[0], partitioned.shape[1], np.dtype(partitioned.dtype)),
            None if self.memory_limit is None else parse_bytes(self.memory_limit),
            workers_of(self.client) if workers is None else workers,
            progress,
            checkpoint,
        )
        chosen = run.select(self._settings())
        self._vote(chosen, run.shape)
        columns = np.flatnonzero(self.support_)
        fits = run.refit(columns) if len(columns) else {}
        importance = self._average(columns, fits, y, matrix)
        order = np.lexsort((columns, -importance, -self.scores_[columns]))
        self.selected_ = columns[order]
        self._add_notes(notes, fits, matrix.feature_names)
        self._make_result(matrix, run, notes)

    def _check_parameters(self) -> None:
        choices = {
            "criterion": ("bic", "ric", "ebic"),
            "gic_rss": ("refit", "lasso"),
            "tie": ("drop", "keep"),
            "loss": ("squared",),
        }
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in known:
                hint = did_you_mean(str(value), known)
                raise ConfigError(f"expected one of {', '.join(known)}, found {value!r}{hint}", name)
        if not isinstance(self.gamma, Real) or not 0.0 <= self.gamma <= 1.0:
            raise ConfigError(f"expected a number from 0 to 1, found {self.gamma!r}", "gamma")
        for name, least in (("n_lambdas", 2), ("patience", 1), ("max_features", 1)):
            value = getattr(self, name)
            if value is not None and not is_whole(value, least):
                raise ConfigError(f"expected a whole number of at least {least}, found {value!r}", name)

    def _shape(self, n_samples: int, n_features: int, dtype: np.dtype) -> Shape:
        n_subsets = choose_n_subsets(n_samples, n_features, self.n_subsets, self.subset_size)
        return Shape(n_samples, n_features, dtype.itemsize, n_subsets, self.n_lambdas, self.max_features)

    def _settings(self) -> SelectionSettings:
        return SelectionSettings(
            self.criterion, self.gamma, self.gic_rss == "refit", self.n_lambdas, self.patience, self.max_features
        )

    def _in_random_order(self, matrix: Any, notes: list[str]) -> Any:
        """Step 1: the rows in an order whose consecutive parts are random subsets, without those of weight 0."""
        weight = matrix.read_weight(slice(None))
        if weight is not None and not weight.all():
            matrix = RowView(matrix, np.flatnonzero(weight > 0))
            if matrix.shape[0] < 2:
                raise DataError("expected at least two rows of positive weight", "weight", "check the weights")
        base = getattr(matrix, "base", matrix)
        drawn_independently = getattr(base, "source", {}).get("exchangeable", False)
        if matrix.shuffled or drawn_independently:
            return matrix
        if isinstance(base, ArrayMatrix):
            return RowView(matrix, _permutation(matrix.shape[0], self.random_state))
        note = "the store's rows are in the order of their source: subsets of consecutive rows may not be random"
        warnings.warn(f"{note}; ingest with shuffle=True", UserWarning, stacklevel=5)
        notes.append(note)
        return matrix

    def _vote(self, chosen: dict[str, np.ndarray], shape: Shape) -> None:
        """Step 3: strictly more than half of the subsets where the column varies, which are more than half of all."""
        votes = np.bincount(chosen["selected"], minlength=shape.n_features)
        voters = shape.n_subsets - np.bincount(chosen["constant"], minlength=shape.n_features)
        majority = 2 * votes > voters if self.tie == "drop" else (2 * votes >= voters) & (votes > 0)
        self.support_ = majority & (2 * voters > shape.n_subsets)
        self.scores_ = np.divide(votes, voters, out=np.full(shape.n_features, np.nan), where=voters > 0)
        self.n_subsets_ = shape.n_subsets
        self.n_selected_per_subset_ = chosen["n_selected"]
        self._path_of_first = {name: chosen[name] for name in ("lambda", "df", "rss", "gic", "best")}

    def _average(self, columns: np.ndarray, fits: dict[str, np.ndarray], y: np.ndarray, matrix: Matrix) -> np.ndarray:
        """Step 5; return the sizes of the standardised coefficients of `columns`."""
        self.coef_ = np.zeros(len(self.support_))
        if not len(columns):
            self.intercept_ = float(np.average(y, weights=matrix.read_weight(slice(None))))
            return np.empty(0)
        self.coef_[columns] = np.nanmean(fits["coef"], axis=0)
        share = (fits["total"] / fits["total"].sum())[:, None]
        mean = (share * fits["mean"]).sum(axis=0)
        variance = (share * (fits["scale"] ** 2 + (fits["mean"] - mean) ** 2)).sum(axis=0)
        self.intercept_ = float((share[:, 0] * fits["y_mean"]).sum() - (mean * self.coef_[columns]).sum())
        importance: np.ndarray = np.abs(self.coef_[columns]) * np.sqrt(variance)
        return importance

    def _add_notes(self, notes: list[str], fits: dict[str, np.ndarray], names: np.ndarray | None) -> None:
        constant = np.flatnonzero(np.isnan(self.scores_))
        if len(constant):
            shown = ", ".join(f"x{j}" if names is None else str(names[j]) for j in constant[:5])
            more = ", ..." if len(constant) > 5 else ""
            notes.append(f"{len(constant)} column(s) are constant and cannot be selected: {shown}{more}")
        if not fits:
            notes.append("no feature was chosen by a majority of the subsets")
        elif fits["is_singular"].any():
            notes.append(
                f"in {int(fits['is_singular'].sum())} of {self.n_subsets_} subsets the selected columns are linearly "
                "dependent; their shortest least-squares solution was taken"
            )

    def _make_result(self, matrix: Any, run: MessageRun, notes: list[str]) -> None:
        names = matrix.feature_names
        table = selection_table(self.selected_, self.coef_[self.selected_], self.scores_[self.selected_], names)
        path = self.__dict__.pop("_path_of_first")
        path["chosen"] = np.arange(len(path["gic"])) == path.pop("best")[0]
        parameters = {**self.get_params(deep=False), "n_subsets": self.n_subsets_}
        del parameters["client"]
        self.result_ = SelectionResult(
            method="message",
            table=table,
            intercept=self.intercept_,
            parameters=parameters,
            n_samples=int(matrix.shape[0]),
            n_features=int(matrix.shape[1]),
            history=type(table).from_dict(path),
            scores=self.scores_,
            feature_names=names,
            store_digest=getattr(getattr(matrix, "base", matrix), "digest", None),
            memory={} if run.memory_limit is None else {"task_limit_nbytes": run.memory_limit},
            time=run.seconds,
            notes=notes,
        )


def _checked_target(matrix: Matrix) -> np.ndarray:
    if matrix.shape[0] < 2 or matrix.shape[1] < 1:
        raise DataError(f"expected at least 2 rows and 1 column, found shape {tuple(matrix.shape)}", "X")
    y = matrix.read_target(slice(None))
    if y is None:
        raise DataError("expected a target, found none", "y", "ingest with target=..., or pass y")
    if not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise DataError(f"expected finite numbers, found {y[row]}", f"target, row {row}", "drop the row")
    if y.min() == y.max():
        raise DataError(f"the target is constant ({y[0]:g}): there is nothing to explain", "target", "check it")
    return y


def _permutation(n_samples: int, random_state: Any) -> np.ndarray:
    """Return the order in which ingest would store the rows."""
    return np.argsort(np.random.default_rng(seed_of(random_state)).random(n_samples), kind="stable")
