"""Asynchronous online substitution (Asy-OS): workers select features among their own columns, with a central node.

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
* A worker processes a block of features per message; the longer a message takes compared with the work, the wider the
  block. With ``block_columns=1`` it is the algorithm above, literally.
* The rule ``exchange`` of `daskfs.OnlineSubstitution` decides on candidates. ``rule="paper"`` is lines 6 to 9, with
  steps of 0.99 of the limit that Theorem 2 sets for the allowed staleness; ``rule="os"`` is the same with steps that
  need no tuning. One bound, over the columns that are held, serves as L_F and L_f: a stream does not know all of X.
* The central node checks that the objective does not rise, inequality (15) with c = 0, which the paper omits "in
  practice". The node has u_C and y, so the check needs no message. A refused worker fits its features to the new u_C
  and pushes again; if it is refused twice, it restores its former state. Without the check the method diverges on
  correlated features (try ``check=False``).
* The central node enforces Assumption 2: u_C changes at most `tau_max` times while a worker uses it.
* Workers together hold `slots` times s features. In each epoch they see columns that another worker had in the previous
  one. At the end the features with the smallest removal costs are dropped, and the loss is fitted on the rest.
  ``slots=1, other_worker=False`` is as in the paper.
* u_C is recomputed as the sum of the contributions at the end of each epoch.
* Several classes are fitted one against the rest, each with its own u_C and with shared columns. Gains, removal costs
  and the objective that must not rise are summed over the classes.
* Workers, the node, or both may be lost: see `daskfs.selectors.asy_os.run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from daskfs.parameters import Columns, Count, NotNegative
from daskfs.selectors.asy_os.node import TRACE
from daskfs.selectors.asy_os.plan import AsyncShape, capacity_of, choose_widths, plan_async, rho_of
from daskfs.selectors.asy_os.run import AsyncRun
from daskfs.selectors.asy_os.task import AsyncSettings
from daskfs.selectors.base import SEPARATED
from daskfs.selectors.inputs import columns_of, refuse_too_many
from daskfs.selectors.online_substitution.base import SubstitutionSelector
from daskfs.selectors.online_substitution.columns import ColumnSettings
from daskfs.selectors.online_substitution.target import Target, read_target
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.elimination import Kept, eliminate
from daskfs.selectors.shared.refit import MeanLoss, refit_selected
from daskfs.selectors.shared.refit_of_classes import ClassFits
from daskfs.selectors.shared.ridge import Effort
from daskfs.selectors.shared.run import Run

RIDGE_SHARE = 0.1
"""Share of the ridge with which `OnlineSubstitution` begins.

No worker sees all members, whose fit would say when to lower the ridge. This share does no harm in simulations with
known effects, and gives most of the benefit with few rows.
"""


class AsyncOnlineSubstitution(SubstitutionSelector):
    """Select features with several workers that do not wait for each other.

    Parameters
    ----------
    n_workers : int, optional
        Number of workers, q in the paper. Default: the number of threads of the cluster.
    schedule : {"asynchronous", "simulated", "synchronous"}
        How workers run. asynchronous: on the cluster, each worker at its own pace. simulated: in this process, one
        worker after the other; each sees u_C as it was q - 1 updates ago, its own update included. This is
        deterministic, for any q. synchronous: in this process, in rounds; all workers read u_C, work, and push. Without
        a cluster "asynchronous" is "simulated" with wider blocks.
    slots : float
        Number of columns that all workers hold together, as a multiple of s. A single worker holds s.
    other_worker : bool
        Whether a column goes to a different worker in each epoch, if there are several.
    check : bool
        Whether the central node refuses pushes that raise the objective.
    tau_max : int, optional
        Largest number of versions by which u_C may change while a worker uses it. Default: 2 q with "asynchronous", and
        otherwise q - 1, the largest possible. The step of ``rule="paper"`` shrinks with its square.
    block_columns : int, optional
        Columns per message. Default: on a cluster, measured so that messages take less than a tenth of the time, but
        never so many that a worker has fewer than 20 blocks per epoch; this limit dominates with few or short columns
        (see Notes). 1 with "simulated"; up to 64 in this process.
    always_include : array of int or str, optional
        Numbers or names of columns that are always selected. They count in `n_features_to_select`. They are fitted
        first, and spread over the workers.
    timeout_s : float
        Seconds that an idle worker waits for one that does not answer before it takes over its columns.
    random_state : int, RandomState or None
        Seed for the order of rows in a temporary store; has no effect on the selection.
    memory_limit : int or str, optional
        Memory limit of one process, in addition to its baseline.
    client : distributed.Client, optional
        Cluster on which the workers run; None: this process.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Selected columns: those always included first, then by removal cost, largest first.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,), with more than two classes (n_classes, n_features)
        Coefficients on the scale of the data, 0 for columns not selected.
    intercept_ : float, with more than two classes ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        Class labels, for classification.
    scores_ : ndarray of shape (n_features,)
        Removal cost: how much the mean loss would rise if the column were dropped; NaN for columns not selected.
    n_workers_ : int
    result_ : SelectionResult
        Its history is the central node's trace, one line per push: seconds (0 in this process), version of u_C, worker,
        epoch, staleness, whether it was accepted, columns held, objective.

    Notes
    -----
    Each worker holds ``slots`` s / q columns, those of a block and of the next, and a dozen vectors of n numbers; the
    central node holds a dozen vectors. With more than two classes these vectors are needed for each class. A message
    has n float64 numbers in each direction (with more than two classes n for each), or none if nothing has changed.

    A call takes a millisecond or more, so calls dominate if there are few rows. On one machine
    `daskfs.OnlineSubstitution` is faster. On correlated columns, several workers know less about each
    other's features than a single worker does: recall is then some hundredths lower than with the sequential selector
    with the same number of epochs (``python -m benchmarks.papers --only os-check``).

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
    history_kind = "pushes"

    n_workers: Count | None = None
    schedule: Literal["asynchronous", "simulated", "synchronous"] = "asynchronous"
    slots: Annotated[float, Ge(1)] = 1.5
    other_worker: bool = True
    tau_max: Annotated[int, Ge(0)] | None = None
    block_columns: Count | None = None
    timeout_s: NotNegative = 30.0
    always_include: Columns = None

    def _fit(self, run: Run) -> None:
        in_turn = self.schedule != "asynchronous" or not run.workers.actors.are_apart
        n_threads = 1 if in_turn else run.workers.n_threads
        target = read_target(run.matrix, self.loss_, self.epsilon, fits_intercept=True, takes_several=True)
        shape = self._shape(replace(DataShape.of(run.matrix), n_classes=target.n_classes), n_threads, in_turn)
        always = columns_of(self.always_include, shape.n_features, run.matrix.names, "always_include")
        refuse_too_many(always, shape.n_selected)
        settings = self._settings(shape, target, np.dtype(run.matrix.dtype), run.task_limit)
        settings = replace(settings, always=tuple(always.tolist()))
        workers = AsyncRun(run, settings)
        if in_turn:
            workers.in_turn(self.schedule == "synchronous")
        else:
            workers.on_cluster()
        if target.classes is not None:
            self.classes_ = target.classes
        losses = [MeanLoss(self.loss_, positive, settings.threshold, self.ridge) for positive in self._positives()]
        while_selecting = [replace(one, ridge=settings.rule.ridge) for one in losses]
        kept, n_new, why = self._union(run, workers, shape.n_selected, while_selecting)
        free = np.isin(kept.columns, always)
        fits = [refit_selected(run, kept.columns, one, free=free) for one in losses]
        fit = ClassFits(self.loss_, fits, target.classes)
        self._set_selection(kept.columns, kept.costs, fit.coef, fit.intercept, others=np.nan)
        self.selected_ = kept.columns
        self.n_workers_ = shape.n_workers
        self.result_ = self._result_of(
            run,
            notes=self._notes(workers, shape, (n_new, why), fit),
            history={name: workers.trace[:, q] for q, name in enumerate(TRACE)},
            chosen={
                "n_workers": shape.n_workers,
                "n_features_to_select": len(self.selected_),
                "tau_max": settings.tau_max,
            },
        )

    def _union(self, run: Run, workers: AsyncRun, n_selected: int, losses: Sequence[MeanLoss]) -> tuple[Kept, int, str]:
        """Return the union of all S(t) without the features of least removal cost, how many came in late, and why."""
        held, always = np.concatenate([share.columns for share in workers.shares]), workers.settings.always
        kept = eliminate(run, held, n_selected, losses, always)
        again, why = workers.present_again(kept.columns, n_selected)
        n_new = int((~np.isin(again, kept.columns)).sum())
        return (eliminate(run, again, n_selected, losses, always) if n_new else kept), n_new, why

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        in_turn = self.schedule != "asynchronous" or limits.n_threads == 1
        return plan_async(self._shape(shape, limits.n_threads, in_turn), limits.task_nbytes)

    def _shape(self, shape: DataShape, n_threads: int, in_turn: bool) -> AsyncShape:
        n_selected = self._n_selected(shape.n_features)
        n_always = 0 if self.always_include is None else int(np.size(self.always_include))
        n_workers = min(n_threads if self.n_workers is None else int(self.n_workers), shape.n_features)
        return AsyncShape(
            n_samples=shape.n_samples,
            n_features=shape.n_features,
            n_selected=n_selected,
            n_workers=n_workers,
            capacity=capacity_of(n_selected, n_workers, self.slots, n_always),
            itemsize=self._columns().dtype_of(shape.dtype).itemsize,
            n_epochs=self.n_epochs,
            tile_columns=shape.tile_shape[1] if shape.tile_shape else 1,
            block_columns=1 if self.block_columns is None and self.schedule == "simulated" else self.block_columns,
            in_turn=in_turn,
            stored_itemsize=shape.itemsize,
            tiles_nbytes=shape.tiles_nbytes,
            data=shape,
            loss=self.loss_,
            n_problems=self._n_problems(shape.n_classes),
            n_always=n_always,
        )

    def _columns(self) -> ColumnSettings:
        return ColumnSettings(True, self.standardize, False)

    def _settings(self, shape: AsyncShape, target: Target, dtype: np.dtype, limit: int | None) -> AsyncSettings:
        n_workers, loss, widths = shape.n_workers, target.loss, choose_widths(shape, limit)
        tau_max = self._tau_max(n_workers)
        rho = rho_of(
            n_workers, shape.n_features, shape.n_selected, self.step_divisor, self.sufficient_decrease, tau_max
        )
        total = float(target.weight.sum()) if len(target.weight) else float(target.n_samples)
        rule = self._rule(Effort(total, shape.n_selected, shape.n_features), rho=rho)
        if rule.least is not None:
            rule = replace(rule, ridge=max(rule.least, RIDGE_SHARE * rule.ridge), least=None)
        return AsyncSettings(
            loss=loss.loss.name,
            classes=None if target.classes is None else tuple(target.classes.tolist()),
            location=target.location,
            threshold=loss.threshold,
            fits_intercept=loss.fits_intercept,
            rule=rule,
            columns=self._columns(),
            dtype=str(self._columns().dtype_of(dtype)),
            n_workers=n_workers,
            capacity=shape.capacity,
            tau_max=tau_max,
            n_epochs=self.n_epochs,
            unit=widths.unit,
            narrowest=widths.narrowest,
            widest=widths.widest,
            tile=widths.tile,
            part=widths.part,
            in_turn=shape.in_turn,
            exchanges=self.other_worker,
            timeout_s=float(self.timeout_s),
        )  # fmt: skip

    def _tau_max(self, n_workers: int) -> int:
        """Return the staleness that the central node allows; if workers take turns, that which occurs anyway."""
        if self.tau_max is not None:
            return int(self.tau_max)
        return 2 * n_workers if self.schedule == "asynchronous" else n_workers - 1

    def _notes(self, workers: AsyncRun, shape: AsyncShape, late: tuple[int, str], fit: ClassFits) -> list[str]:
        """Return the notes on the course of the selection."""
        n_new, why = late
        counts, notes = workers.counts, []
        if shape.in_turn and self.schedule == "asynchronous":
            notes.append("without a cluster, the workers took turns in this process, which is deterministic")
        held, n_selected = sum(len(share.columns) for share in workers.shares), len(self.selected_)
        n_dropped = held + n_new - n_selected
        together = f"held {held} columns together" if shape.n_workers > 1 else f"held {held} columns"
        dropped = f"; the {n_dropped} with the least removal cost were dropped at the end" if n_dropped > 0 else ""
        notes.append(f"{shape.n_workers} worker{'s' * (shape.n_workers > 1)} {together}{dropped}")
        if workers.settings.always:
            notes.append(f"{len(workers.settings.always)} of them were always included")
        if n_new:
            notes.append(f"{n_new} features were selected when columns were presented again at the end, because {why}")
        if n_selected < shape.n_selected:
            notes.append(
                f"{n_selected} features were selected, not {shape.n_selected}: the other columns are constant, or "
                "linear combinations of these"
            )
        refused = counts["rising"] + counts["stale"] + counts["improper"]
        notes.append(
            f"{counts['accepted']:,.0f} pushes were accepted and {refused:,.0f} refused: {counts['rising']:,.0f} would "
            f"have raised the objective, {counts['stale']:,.0f} were computed from a prediction that was too old; "
            f"the oldest accepted was {counts['worst_staleness']:,.0f} versions old"
        )
        if workers.n_nodes_lost:
            notes.append(f"the central node was lost and replaced {workers.n_nodes_lost} times")
        if fit.is_separable:
            notes.append(SEPARATED)
        return notes
