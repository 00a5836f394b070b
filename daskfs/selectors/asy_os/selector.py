"""Asynchronous online substitution (Asy-OS): workers choose features out of their own columns, round a central node.

    Input: target y, q workers, number of features s
    Central node                                  Worker t, with at most s / q features S(t)
     1. u_C = 0                                    1. S(t) = {}
     2. repeat                                     2. repeat
     3.   if Δu(t) is received from a worker t:    3.   receive a feature x_j from the pool
     4.     u_C = u_C + Δu(t)                      4.   read u_C from the central node
     6. until the workers stop pushing             5.   u(t) = X_S(t) w_S(t)
                                                   6.   w_S(t) = w_S(t) - (eta / m) X_S(t)ᵀ ∂L/∂u_C
                                                   7.   w_j = -eta x_jᵀ ∂L/∂u_C
                                                   8.   S(t) = S(t) ∪ {j}
                                                   9.   where |S(t)| > s / q: drop the smallest weight
                                                  13.   push Δu(t) = X_S(t) w_S(t) - u(t)
                                                  14. until convergence
    Return the union of all S(t)

Algorithms 2 and 3 of H. Yang, R. Fujimaki, Y. Kusumura and J. Liu, "Online Feature Selection: A Limited-Memory
Substitution Algorithm and Its Asynchronous Parallel Variation", KDD 2016, and of its later text.

Differs from the paper
----------------------
* A worker takes a block of features for each message, so wide that messages take less than a tenth of its time. With
  ``block_columns=1`` it is the box, letter by letter.
* Newcomers are decided on by the rule ``exchange`` of `daskfs.OnlineSubstitution`; ``rule="paper"`` is lines 6 to 9,
  with the step of Theorem 2, ``rule="os"`` the same with steps that need no tuning. L_F and L_f are bounds over the
  columns that are held: a stream does not know the whole X.
* The central node checks that the objective does not rise, inequality (15) with c = 0, which the paper omits "in
  practice": it has u_C and y, so that it costs no message. A refused worker fits its features to the new u_C and pushes
  again; refused twice, it goes back. Without the check correlated features diverge (``check=False`` to see it).
* Assumption 2, that u_C changes at most `tau_max` times while a worker uses it, is kept by the central node.
* Features are not spread evenly: workers hold `slots` times s features together, see in each epoch columns that another
  worker had in the one before, and the least valuable are dropped at the end, the loss being fitted on those that are
  left. ``slots=1, other_worker=False`` is the paper.
* u_C is rebuilt from the sum of the contributions at the end of each epoch.
* Workers, the node, or both may be lost: see `daskfs.selectors.asy_os.run`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from daskfs.matrix.base import Matrix
from daskfs.parameters import Count, NotNegative, Positive, Share
from daskfs.result import SelectionResult, selection_table
from daskfs.selectors.asy_os.node import TRACE
from daskfs.selectors.asy_os.notes import communication_of, notes_on, times_of
from daskfs.selectors.asy_os.parameters import capacity_of, shown_parameters, stretch_of
from daskfs.selectors.asy_os.plan import AsyncShape, choose_widths, plan_async
from daskfs.selectors.asy_os.run import AsyncRun
from daskfs.selectors.asy_os.task import AsyncSettings
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.online_substitution.columns import ColumnSettings
from daskfs.selectors.online_substitution.engines.point import loss_settings
from daskfs.selectors.online_substitution.parameters import SmoothLoss, n_to_select, rule_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.elimination import Kept, eliminate
from daskfs.selectors.shared.refit import MeanLoss, SelectedFit, refit_selected
from daskfs.selectors.shared.responses import TWO_CLASS
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of


class AsyncOnlineSubstitution(BaseSelector):
    """Select features with several workers that need not wait for each other.

    Parameters
    ----------
    n_features_to_select : int, optional
        The paper's s; by default half of the features and at most 100.
    n_workers : int, optional
        The paper's q; by default one for each thread of the cluster.
    schedule : {"asynchronous", "simulated", "synchronous"}
        "asynchronous": on the cluster, each worker at its own pace. "simulated": in this process, one after the other;
        each sees u_C as it was q - 1 updates ago, its own update included: deterministic, for any q. "synchronous": in
        this process, in rounds; all read u_C, work, and push. Without a cluster "asynchronous" is "simulated" with
        wider blocks.
    rule : {"exchange", "os", "paper"}
        What decides on a newcomer, as in `OnlineSubstitution`.
    loss : {"squared", "logistic", "squared_hinge", "epsilon_insensitive"}
        As in `OnlineSubstitution`.
    n_epochs : int
        How often all columns are presented, at most; an epoch that changes nobody is the last.
    slots : float
        Columns that all workers hold together, in parts of s. One worker holds s.
    other_worker : bool
        Whether a column is seen by another worker in each epoch, as far as there are others.
    check : bool
        Whether the central node refuses what raises the objective.
    tau_max : int, optional
        Versions of u_C that may pass while a worker uses one; 2 q by default.
    block_columns : int, optional
        Columns for each message. By default measured on a cluster, so that messages take less than a tenth of the time;
        1 with "simulated"; up to 64 in this process; never so many that a worker has fewer than 20 blocks in an epoch.
    standardise : bool
        Whether columns are divided by their standard deviation on the way.
    ridge : float, optional
        Added to the curvature of every standardised weight; as in `OnlineSubstitution`.
    epsilon : float, optional
        Of the epsilon-insensitive loss; by default a tenth of the target's standard deviation.
    eta : float, optional
        Step of the paper's rule; by default half of what Theorem 2 allows.
    m : float
        By which the paper's rule divides the step of the selected features.
    c : float
        Constant of the paper's check.
    lipschitz : float, optional
        L_F of the paper's rule; by default bounded from the selected features' products.
    tolerance : float, optional
        Share of a candidate's variance that the selected features must leave unexplained; 1e-3.
    timeout_s : float
        Seconds that a worker with nothing to do waits for one that does not answer before it takes its columns over.
    random_state : int, RandomState or None
        Of nothing but the order of rows in a temporary store.
    memory_limit : int or str, optional
        What one process may take beside itself.
    client : distributed.Client, optional
        Where the workers run; None: here.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, by what dropping them would cost.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,)
        On the scale of the data, 0 where not selected.
    intercept_ : float
    classes_ : ndarray of shape (2,)
        With a loss of classes.
    scores_ : ndarray of shape (n_features,)
        What the mean loss would rise by if the column were dropped; NaN where not selected.
    n_workers_ : int
    result_ : SelectionResult
        Its history is the central node's trace, one line for each push: seconds (0 in this process), version of u_C,
        worker, epoch, staleness, whether it was accepted, columns held, objective.

    Notes
    -----
    Each worker holds ``slots`` s / q columns, those of a block and of the next, and a dozen vectors of n numbers; the
    central node a dozen vectors. A message has n float64 numbers in each direction.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 200))
    >>> y = X[:, [7, 40, 150]] @ [2.0, -1.0, 1.5] + 0.1 * rng.standard_normal(300)
    >>> selector = AsyncOnlineSubstitution(n_features_to_select=3, n_workers=2, schedule="simulated").fit(X, y)
    >>> selector.selected_
    array([  7, 150,  40])
    """

    method = "async_online_substitution"
    score_kind = "loss increase"
    history_kind = "pushes"

    n_features_to_select: Count | None = None
    n_workers: Count | None = None
    schedule: Literal["asynchronous", "simulated", "synchronous"] = "asynchronous"
    rule: Literal["exchange", "os", "paper"] = "exchange"
    loss: SmoothLoss = "squared"
    n_epochs: Count = 3
    slots: Annotated[float, Ge(1)] = 1.5
    other_worker: bool = True
    check: bool = True
    tau_max: Annotated[int, Ge(0)] | None = None
    block_columns: Count | None = None
    standardise: bool = True
    ridge: NotNegative | None = None
    epsilon: NotNegative | None = None
    eta: Positive | None = None
    m: Annotated[float, Ge(1)] = 1.0
    c: Share = 0.5
    lipschitz: Positive | None = None
    tolerance: Share | None = None
    timeout_s: NotNegative = 30.0

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        in_turn = self.schedule != "asynchronous" or limits.n_threads == 1
        tile_columns = shape.tile_shape[1] if shape.tile_shape else 1
        sizes = (shape.n_samples, shape.n_features, shape.dtype, limits.n_threads, tile_columns, in_turn)
        return plan_async(self._shape(*sizes), limits.task_nbytes)

    def _shape(
        self, n_samples: int, n_features: int, dtype: Any, n_threads: int, tile_columns: int, in_turn: bool
    ) -> AsyncShape:
        n_selected = n_to_select(self.n_features_to_select, n_features)
        n_workers = n_threads if self.n_workers is None else int(self.n_workers)
        n_workers = min(n_workers, n_features)
        block = 1 if self.block_columns is None and self.schedule == "simulated" else self.block_columns
        return AsyncShape(
            n_samples=n_samples,
            n_features=n_features,
            n_selected=n_selected,
            n_workers=n_workers,
            capacity=capacity_of(n_selected, n_workers, self.slots),
            itemsize=self._columns().dtype_of(dtype).itemsize,
            n_epochs=self.n_epochs,
            tile_columns=tile_columns,
            block_columns=block,
            in_turn=in_turn,
            stored_itemsize=np.dtype(dtype).itemsize,
        )

    def _columns(self) -> ColumnSettings:
        return ColumnSettings(True, self.standardise, False)

    def _fit(self, run: Run) -> None:
        matrix, workers, limit = run.matrix, run.workers, run.task_limit
        in_turn = self.schedule != "asynchronous" or not workers.actors.are_apart
        n_threads = 1 if in_turn else workers.n_threads
        tile_columns = matrix.tile_shape[1]
        shape = self._shape(matrix.shape[0], matrix.shape[1], matrix.dtype, n_threads, tile_columns, in_turn)
        settings = self._settings(matrix, shape, limit)
        session = AsyncRun(run, settings)
        if in_turn:
            session.in_turn(self.schedule == "synchronous")
        else:
            session.on_cluster()
        columns = np.concatenate([share.columns for share in session.shares])
        mean_loss = MeanLoss(self.loss, settings.positive, settings.threshold)
        with_ridge = replace(mean_loss, ridge=settings.rule.ridge)
        kept = eliminate(run, columns, shape.n_selected, with_ridge)
        again = session.present_again(kept.columns, shape.n_selected)
        n_new = int((~np.isin(again, kept.columns)).sum())
        if n_new:
            kept = eliminate(run, again, shape.n_selected, with_ridge)
        fit = refit_selected(run, kept.columns, mean_loss)
        self._take_fit(kept, fit, matrix.shape[1])
        self.n_workers_ = shape.n_workers
        self._make_result(matrix, session, notes_on(self, session, shape, n_new, fit), limit, settings)

    def _settings(self, matrix: Matrix, shape: AsyncShape, limit: int | None) -> AsyncSettings:
        y = checked_target(matrix, self.loss)
        weight = matrix.read_weight(slice(None))
        positive, location = None, 0.0
        if self.loss in TWO_CLASS:
            self.classes_ = classes_of(y, None)
            positive = float(self.classes_[1])
        elif self.loss == "squared":
            location = float(np.average(y, weights=weight))
        loss = loss_settings(self.loss, y, weight, self.epsilon, fits_intercept=True)
        stretch = stretch_of(shape.n_workers, shape.n_features, shape.n_selected, self.m, self.c, shape.n_workers - 1)
        widths = choose_widths(shape, limit)
        tau_max = 2 * shape.n_workers if self.tau_max is None else int(self.tau_max)
        return AsyncSettings(
            loss=loss.loss.code,
            positive=positive,
            location=location,
            threshold=loss.threshold,
            fits_intercept=loss.fits_intercept,
            rule=replace(rule_of(self), stretch=stretch),  # type: ignore[arg-type]  # parameters by the same names
            columns=self._columns(),
            dtype=str(self._columns().dtype_of(matrix.dtype)),
            n_workers=shape.n_workers,
            capacity=shape.capacity,
            tau_max=tau_max,
            n_epochs=self.n_epochs,
            unit=widths.unit,
            narrowest=widths.narrowest,
            widest=widths.widest,
            exchanges=self.other_worker,
            timeout_s=float(self.timeout_s),
        )

    def _take_fit(self, kept: Kept, fit: SelectedFit, n_features: int) -> None:
        self.selected_ = kept.columns
        self.support_ = np.zeros(n_features, bool)
        self.support_[kept.columns] = True
        self.scores_ = np.full(n_features, np.nan)
        self.scores_[kept.columns] = kept.costs
        self.coef_ = np.zeros(n_features)
        self.coef_[kept.columns] = fit.coef
        self.intercept_ = float(fit.intercept)

    def _make_result(
        self, matrix: Matrix, run: AsyncRun, notes: list[str], limit: int | None, settings: AsyncSettings
    ) -> None:
        names = matrix.names.given
        table = selection_table(self.selected_, self.coef_[self.selected_], self.scores_[self.selected_], names)
        self.result_ = SelectionResult(
            method=self.method,
            score_kind=self.score_kind,
            history_kind=self.history_kind,
            table=table,
            intercept=self.intercept_,
            parameters=shown_parameters(
                self, n_workers=self.n_workers_, n_features_to_select=len(self.selected_), tau_max=settings.tau_max
            ),
            n_samples=int(matrix.shape[0]),
            n_features=int(matrix.shape[1]),
            history=type(table)({name: run.trace[:, q] for q, name in enumerate(TRACE)}),
            scores=self.scores_,
            feature_names=names,
            store_digest=matrix.identity,
            memory={} if limit is None else {"task_limit_nbytes": limit},
            communication=communication_of(run),
            time=times_of(run),
            notes=notes,
        )
