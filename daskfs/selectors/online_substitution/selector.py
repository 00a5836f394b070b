r"""Online substitution: select s features from a stream of columns while holding only s of them.

    Input: target y, columns x_j one after the other, number of features s
     1. S = {}
     2. repeat
     3.   receive a feature x_j that is not in S
     4.   u = X_S w_S
     5.   w_prev = w
     6.   w_S = w_S - (eta / m) X_Sᵀ ∂L/∂u
     7.   w_j = -eta x_jᵀ ∂L/∂u
     8.   S = S ∪ {j}
     9.   if |S| > s:
    10.     w_next = w without its smallest entry k*
    12.     if f(w_next) - f(w_prev) <= c (L_F/2 - 1/(2 eta)) |w_next - w_prev|²:  w = w_next, S = S \ {k*}
    15.     else:  w_j = 0, S = S \ {j}
    18. until all columns were received n_epochs times, or an epoch changes nothing
    Return S

Algorithm 1 of H. Yang, R. Fujimaki, Y. Kusumura and J. Liu, "Online Feature Selection: A Limited-Memory Substitution
Algorithm and Its Asynchronous Parallel Variation", KDD 2016, in the form of the later text: the check of line 12 is not
in the proceedings (``check=False``). ``rule="paper"`` runs this algorithm; ``standardize=False, fit_intercept=False``
makes it literal. Two more rules use the same stream and memory and have no tuning parameters:

``rule="os"``        the same in standardised columns, with the step 1 / λmax(X_Sᵀ X_S / n) for the selected features
and
                     a Newton step for the candidate; the smallest standardised coefficient is dropped if f does not
                     rise
``rule="exchange"``  the default: the candidate is added exactly, by an update of the inverse of the selected features'
                     products; it replaces the feature with the smallest removal cost if that cost is below its gain

Differs from the paper
----------------------
* `exchange` and `os` standardise columns, so that units do not matter; `paper` does so by default too.
* An intercept is fitted: columns and target are centred, or with other losses the intercept is profiled out.
* L_F is a bound of κ λmax over S ∪ {j}, where κ is the loss's largest curvature. The paper asks for a constant.
* `exchange` refuses a candidate if the selected features (with a ridge, a single one of them) explain all of its
  variance but a share below `collinearity_tol`.
* With a loss other than the squared one, `exchange` decides on a batch of columns with the quadratic approximation of
  the loss at the point before the batch. It then takes Newton steps on the true loss, and undoes the batch if the true
  loss rose.
* `exchange` and `os` begin with a ridge, which falls after each epoch to the value suited to the selected features.
  From the second epoch on, `exchange` replaces a feature only if the loss falls by more than a price.
  With few rows, the candidate that explains most would otherwise explain noise. The ridge also keeps the gradient from
  vanishing when classes are linearly separable. With a ridge, `exchange` refuses copies of single features. ``ridge=0``
  turns it off.
* The final coefficients are a fit of the loss on the selected columns, with a small ridge of its own.
* Several classes are fitted one against the rest, with separate coefficients and shared columns: gains and removal
  costs are summed over the classes.
* With ``feature_groups=``, j is a group of columns that enters and leaves as a whole
  (`daskfs.kernels.substitution.group_exchange`). `exchange` adds it exactly; the other rules use a vector w_j and its
  norm instead of |w_j|.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NoReturn

import numpy as np

from daskfs import errors
from daskfs.errors import Caution, ConfigError
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.losses import Loss
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.passing import PassingBlocks
from daskfs.parameters import ColumnOrder, Columns, Count
from daskfs.selectors.base import SEPARATED
from daskfs.selectors.grouped import SelectsGroups
from daskfs.selectors.inputs import columns_of, seed_of
from daskfs.selectors.online_substitution.base import MAX_DEFAULT_FEATURES, SubstitutionSelector
from daskfs.selectors.online_substitution.columns import ColumnSettings
from daskfs.selectors.online_substitution.engines.base import Engine, Finished
from daskfs.selectors.online_substitution.engines.choose import make_engine
from daskfs.selectors.online_substitution.groups import StreamedGroups
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.plan import (
    HISTORY,
    ROUND_BATCHES,
    ReadPlan,
    SubstitutionShape,
    batch_of,
    choose_read_plan,
    plan_substitution,
)
from daskfs.selectors.online_substitution.stream import (
    Arrivals,
    ArrivedColumns,
    SubstitutionStream,
)
from daskfs.selectors.online_substitution.target import Target, read_target
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import MeanLoss, SelectedFit, refit_selected
from daskfs.selectors.shared.ridge import Effort
from daskfs.selectors.shared.run import Run

DataError = errors.DataError.about("columns-that-arrive")

TILES_OF_GROUPS = 4
"""Width of a read in tiles if the columns of groups are neighbours, since groups do not end where tiles end."""


class OnlineSubstitution(SelectsGroups, SubstitutionSelector):
    """Select features from a stream of columns while holding only as many columns as are to be selected.

    Parameters
    ----------
    order : {"fixed", "shuffled"} or array of int
        Order of the columns. fixed: as they are stored. shuffled: a new random order in each epoch; groups of 1,024
        neighbours are shuffled, and the columns within each group, so that each tile is read once. An array gives the
        order, and may leave columns out. With `feature_groups`, groups come in the order of their first columns.
    check : bool
        Whether the rules "os" and "paper" refuse a candidate if the loss does not decrease enough.
    engine : {"auto", "gram", "lazy", "naive"}
        How products are computed. gram: for a whole batch at once. naive: one column at a time, with the same
        decisions. lazy: only for columns whose gradient is large enough. The rules "os" and "paper" always process one
        column at a time; with "lazy" the selected features take steps only after a candidate was accepted.
    schedule : {"auto", "sequential", "screen"}
        How columns are processed. sequential: one after the other in one process. screen: parallel tasks return the
        candidates among their columns, compared with the prediction before the round, and one process makes the
        exchanges. The result does not depend on the number of workers. auto: screen genotype files if the loss is
        squared, because that needs no decoding; sequential for everything else. The two may select different columns of
        correlated ones.
    fit_intercept : bool
        Whether to fit an intercept.
    always_include : array of int or str, optional
        Numbers or names of columns that are always selected, together with their groups. They count in
        `n_features_to_select`.
    block_columns : int, optional
        Columns per batch, decided on with one set of products. Default: 32 to 128, at most as many as are selected.
    counts : {"groups", "features"}
        With `feature_groups`: whether `n_features_to_select` counts groups or columns. A group with too many columns is
        skipped.
    random_state : int, RandomState or None
        Seed of the shuffled order.
    memory_limit : int or str, optional
        Memory limit, in addition to the process's baseline. Fewer columns are read at once if memory is short.
    client : distributed.Client, optional
        Cluster for the screening tasks; None: this process.

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
        Removal cost: how much the mean loss would rise if the column were dropped (half its squared coefficient with
        other losses than the squared one); NaN for columns not selected.
    n_epochs_ : int
        Number of epochs begun.
    groups_, group_names_, group_scores_ : ndarray of shape (n_groups,)
        With `feature_groups`: the selected groups by removal cost, their names, and their costs. Constant columns of a
        group are selected with it, with a coefficient of 0.
    result_ : SelectionResult
        Its history has one line per batch, or with very many batches about 100,000 lines per epoch: the epoch,
        candidates presented so far, features selected, exchanges, candidates refused, batches undone, and the
        objective.

    Notes
    -----
    Memory: the selected features (s columns of n values in the store's dtype; int8 stays int8 with the engines "gram"
    and "lazy" of the squared loss, else it becomes float32), a batch of columns and the next one, 3 s² and ten n
    numbers. Time per column: 2 n s multiplications for products, s² for decisions. Each epoch is one pass over the
    columns; nothing else is read. With `feature_groups`, s is the number of columns of the largest groups, as many as
    are selected, and the widest group is held in addition. If the columns of groups are not neighbours, each block is
    gathered from different places.

    `partial_fit_features` adds more columns, not more rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 200))
    >>> y = X[:, [7, 40, 150]] @ [2.0, -1.0, 1.5] + 0.1 * rng.standard_normal(300)
    >>> selector = OnlineSubstitution(n_features_to_select=3).fit(X, y)
    >>> selector.selected_
    array([  7, 150,  40])
    """

    method = "online_substitution"
    history_kind = "blocks of columns"
    order: Literal["fixed", "shuffled"] | ColumnOrder = "fixed"
    engine: Literal["auto", "gram", "lazy", "naive"] = "auto"
    schedule: Literal["auto", "sequential", "screen"] = "auto"
    fit_intercept: bool = True
    always_include: Columns = None
    block_columns: Count | None = None
    counts: Literal["groups", "features"] = "groups"

    @property
    def _passes_once(self) -> bool:
        """Whether one pass is enough. Groups are presented whole, so their columns are first kept in files."""
        return self.feature_groups is None

    def _check_combination(self) -> None:
        if self.feature_groups is None and self.counts != "groups":
            raise ConfigError("has no effect without feature_groups", "counts", "leave it out")
        if self.feature_groups is not None and self.engine == "gram" and self.rule != "exchange":
            problem = f"the rule {self.rule!r} processes groups one at a time"
            raise ConfigError(problem, "engine", "use 'auto'")
        if self.engine == "lazy" and self.rule == "paper":
            problem = "cannot be 'lazy' with rule='paper', which updates all coefficients at every column"
            raise ConfigError(problem, "engine", "use 'auto'")
        if self.schedule == "screen" and self.rule != "exchange":
            raise ConfigError(f"expected the rule 'exchange', found {self.rule!r}", "schedule", "leave it 'auto'")

    @property
    def _takes_neighbours(self) -> bool:
        """Whether columns come in the order in which they are stored."""
        return isinstance(self.order, str) and self.order == "fixed"

    def _screens(self, data: DataShape) -> bool:
        """Return whether tasks screen columns."""
        if self.schedule != "auto":
            return self.schedule == "screen"
        is_possible = self.rule == "exchange" and self.feature_groups is None and self._loss.is_quadratic
        return is_possible and data.has_products and self._takes_neighbours

    def _check_loss(self, loss: Loss) -> None:
        if self.engine == "gram" and not loss.is_quadratic and self.rule != "exchange":
            problem = f"cannot be 'gram' with rule={self.rule!r} and loss={loss.name!r}: products change at every step"
            raise ConfigError(problem, "engine", "use 'auto'")

    def _fit(self, run: Run) -> None:
        self.__dict__.pop("_arrivals", None)
        matrix, target = run.matrix, self._target(run.matrix)
        always = columns_of(self.always_include, matrix.shape[1], matrix.names, "always_include")
        order = self.order
        if not isinstance(order, str):
            order = columns_of(order, matrix.shape[1], None, "order")
        groups = self._streamed(self._groups_of(matrix))
        data = replace(DataShape.of(matrix), n_classes=target.n_classes)
        shape = self._shape(data, groups=groups, n_threads=run.limits.n_threads)
        plan = choose_read_plan(shape, run.task_limit)
        n_candidates = matrix.shape[1] if isinstance(order, str) else len(order)
        engine = self._engine(
            target, shape.n_selected, n_candidates, matrix.dtype, self._columns(), groups, self.n_epochs
        )
        stream = SubstitutionStream(run, engine, self._columns(), plan, target.weight, self._screens(data))
        start = stream.resume()
        if not stream.n_epochs:
            stream.include(always)
        stream.epochs(self.n_epochs, order, seed_of(self.random_state), start)
        self._conclude(run, stream, target, groups)

    def _fit_passing(self, blocks: PassingBlocks, n_expected: int | None) -> None:
        for parameter, value, is_fine in (
            ("order", "fixed", self._takes_neighbours),
            ("schedule", "auto", self.schedule != "screen"),
        ):
            if not is_fine:
                problem = "columns that can be read only once are processed in their own order, in this process"
                raise ConfigError(problem, parameter, f"leave it {value!r}, or pass blocks that can be read again")
        self.__dict__.pop("_arrivals", None)
        n_features = blocks.shape[1] if n_expected is None else n_expected
        n_selected = self.n_features_to_select or MAX_DEFAULT_FEATURES
        if n_expected is not None:
            n_selected = self._n_selected(n_expected)
        target = self._target(blocks)
        data = replace(DataShape.of(blocks), n_features=n_features, n_classes=target.n_classes)
        always = columns_of(self.always_include, blocks.shape[1], blocks.names, "always_include")
        with self._run(blocks) as run:
            plan = choose_read_plan(replace(self._shape(data, n_selected), n_epochs=1), run.task_limit)
            engine = self._engine(target, n_selected, n_features, blocks.dtype, self._columns())
            stream = SubstitutionStream(run, engine, self._columns(), plan, target.weight)
            blocks.holds = True
            stream.include(always)
            blocks.holds = False
            stream.passing(blocks.reach, n_features)
            self._take_names(blocks)
            self._conclude(run, stream, target)

    @property
    def partial_fit(self) -> NoReturn:
        """The former name of `partial_fit_features`: in scikit-learn a `partial_fit` adds rows, not columns."""
        raise AttributeError("partial_fit is now called partial_fit_features: it takes more columns, not more rows")

    def partial_fit_features(
        self, X: Any, names: Any = None, y: Any = None, sample_weight: Any = None
    ) -> OnlineSubstitution:
        """Add more columns, not more rows: features that arrive over time, or block by block.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_columns)
            New columns of the same rows, in the same order.
        names : sequence of str, optional
            Names of these columns. Default: those of a DataFrame, else x0, x1, ... in the order of arrival.
        y : array-like of shape (n_samples,)
            The target; only with the first block.
        sample_weight : array-like of shape (n_samples,), optional
            Only with the first block.

        Returns
        -------
        self

        Raises
        ------
        DataError
            No target with the first block, a different number of rows, or duplicate names.

        Notes
        -----
        Columns are numbered as they arrive, and presented once; those that are not selected are not kept. Columns in
        `always_include` must be in the first block. The number of columns of the first block is the p in the ridge.
        Without `n_features_to_select`, 100 columns are held. The selector holds the selected columns, and they are
        pickled with it.
        """
        if self.feature_groups is not None:
            problem = "has no effect with partial_fit_features, where columns arrive one block at a time"
            raise ConfigError(problem, "feature_groups", "use fit or fit_blocks, or leave it out")
        if names is None and hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
            names = list(X.columns)
        always = np.empty(0, np.int64)
        if not hasattr(self, "_arrivals"):
            if y is None:
                problem = "expected the target with the first block, found none"
                raise DataError(problem, "partial_fit_features", "pass y=")
            self.check_parameters()
            self._refuse_second_look("columns come")
            y, labels = self._coded(y, None)
            first = ArrayMatrix(X, y, sample_weight, names)
            always = columns_of(self.always_include, first.shape[1], first.names, "always_include")
            self._arrivals = self._expect(first, labels)
        arrivals = self._arrivals
        arrivals.take(X, names, always)
        self._take_names(arrivals.matrix)
        with self._run(arrivals.matrix) as run:
            self._conclude(run, arrivals.stream, arrivals.target)
        return self

    def _expect(self, first: ArrayMatrix, labels: np.ndarray | None) -> Arrivals:
        """Return the state before the first column."""
        target, n_selected = self._target(first), self.n_features_to_select or MAX_DEFAULT_FEATURES
        columns, batch = replace(self._columns(), keeps_int8=False), batch_of(self.block_columns, n_selected)
        engine = self._engine(target, n_selected, first.shape[1], first.dtype, columns)
        matrix = ArrivedColumns(first.shape[0], engine.members.rows.dtype)
        plan = ReadPlan(batch, batch, 0, Budget())
        stream = SubstitutionStream(Run(matrix, self.method), engine, columns, plan, target.weight)
        classes = None if target.classes is None or labels is None else labels[target.classes.astype(np.int64)]
        return Arrivals(stream, matrix, replace(target, classes=classes))

    def _target(self, matrix: Matrix) -> Target:
        target = read_target(matrix, self.loss_, self.epsilon, self.fit_intercept, takes_several=True)
        if target.y.ndim == 2:
            self._check_classes(len(target.y))
        return target

    def _check_classes(self, n_classes: int) -> None:
        """Raise if the parameters do not support this number of classes."""
        super()._check_classes(n_classes)
        if n_classes > 2 and self.feature_groups is not None:
            problem = f"expected a numeric target or two classes with groups of columns, found {n_classes} classes"
            raise ConfigError(problem, "feature_groups", "leave it out, or use fgm or message, which support both")

    def _streamed(self, groups: FeatureGroups | None) -> StreamedGroups | None:
        """Return the groups to exchange, and the number to select."""
        if groups is None:
            return None
        counts_columns = self.counts == "features"
        n_units = len(groups.members) if counts_columns else groups.n_groups
        return StreamedGroups(groups, self._n_selected(n_units), counts_columns)

    def _engine(
        self,
        target: Target,
        n_selected: int,
        n_features: int,
        dtype: np.dtype,
        columns: ColumnSettings,
        groups: StreamedGroups | None = None,
        n_epochs: int = 1,
    ) -> Engine:
        capacity = n_selected if groups is None else groups.capacity
        members = Members(capacity, target.n_samples, columns.dtype_of(dtype), target.weight, groups)
        rule = self._rule(Effort(members.total, n_selected, n_features), n_epochs)
        return make_engine(members, target.y, rule, self._mode(target.y.ndim == 2), target.loss, self.block_columns)

    def _mode(self, has_classes: bool = False) -> str:
        """Return the engine that "auto" stands for; several classes need products for each class."""
        if self.engine != "auto":
            return self.engine
        if has_classes:
            return "lazy"
        if self.rule == "exchange":
            return "gram"
        return "lazy" if self.rule == "os" and not self._loss.is_quadratic else "naive"

    def _columns(self) -> ColumnSettings:
        keeps_int8 = self._loss.is_quadratic and self.standardize and self.rule == "exchange"
        return ColumnSettings(self.fit_intercept, self.standardize, keeps_int8)

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        groups = self._streamed(self._planned_groups(shape))
        return plan_substitution(self._shape(shape, groups=groups, n_threads=limits.n_threads), limits.task_nbytes)

    def _shape(
        self,
        shape: DataShape,
        n_selected: int | None = None,
        groups: StreamedGroups | None = None,
        n_threads: int = 1,
    ) -> SubstitutionShape:
        n_selected = n_selected or (self._n_selected(shape.n_features) if groups is None else groups.capacity)
        batch, widest = batch_of(self.block_columns, n_selected), 1 if groups is None else groups.widest
        n_problems = self._n_problems(shape.n_classes)
        tile_rows, tile_columns = shape.tile_shape or (1, 1)
        if groups is not None and widest > 1:  # the wider a block, the fewer tiles are read again for the next block
            tile_columns = TILES_OF_GROUPS * tile_columns if groups.are_adjacent else shape.n_features
        return SubstitutionShape(
            n_samples=shape.n_samples,
            n_features=shape.n_features,
            n_selected=n_selected,
            itemsize=self._columns().dtype_of(shape.dtype).itemsize,
            stored_itemsize=shape.itemsize,
            batch=batch,
            tile_columns=tile_columns if tile_rows > 1 else 1,  # arrays in memory have no tiles
            n_epochs=self.n_epochs,
            tiles_nbytes=shape.tiles_nbytes,
            n_screened=max(batch, 2 * widest) * ROUND_BATCHES if self._screens(shape) else 0,
            undoes=not self._loss.is_quadratic and (self.rule == "exchange" or groups is not None),
            widest=widest,
            n_groups=0 if groups is None else min(groups.limit, groups.groups.n_groups),
            entries_nbytes=shape.columns_nbytes,
            data=shape if self._takes_neighbours else replace(shape, has_products=False),
            loss=self.loss_,
            n_threads=n_threads,
            n_problems=n_problems,
        )

    def _conclude(
        self, run: Run, stream: SubstitutionStream, target: Target, groups: StreamedGroups | None = None
    ) -> None:
        """Set the attributes from the members, refit the loss on them, make the result."""
        members, finished = stream.engine.members, stream.engine.finish()
        ids, is_free = members.columns.ids, np.arange(members.n_members) >= members.n_fixed
        coef, intercept, fits = self._refit(members, finished, target, run)
        self._set_selection(ids, finished.costs, coef, intercept, others=np.nan)
        self.selected_ = ids[np.lexsort((ids, -finished.costs, is_free))]
        columns = {} if groups is None else self._set_whole(groups.groups, finished)
        if target.classes is not None:
            self.classes_ = target.classes
        self.n_epochs_ = stream.n_epochs
        history = stream.history
        promise = {"promised_nbytes": {"client": stream.plan.memory.nbytes}} if stream.plan.memory.terms else {}
        self.result_ = self._result_of(
            run,
            notes=self._notes(stream, target, fits, groups),
            history={name: history[:, q] for q, name in enumerate(HISTORY)},
            chosen={
                "n_features_to_select": members.capacity if groups is None else groups.limit,
                "engine": stream.engine.mode,
            },
            columns=columns,
            memory={**promise, "held_nbytes": {"members": members.nbytes}},
        )

    def _set_whole(self, groups: FeatureGroups, finished: Finished) -> dict[str, np.ndarray]:
        """Select all columns of the members' groups, by removal cost; return the result's columns for groups."""
        order = np.lexsort((finished.groups, -finished.group_costs))
        selected, costs = finished.groups[order], finished.group_costs[order]
        columns, _ = groups.columns_of(selected)
        self.scores_[columns] = np.where(np.isnan(self.scores_[columns]), 0.0, self.scores_[columns])
        self.support_[columns] = True
        rank = np.repeat(np.arange(len(selected)), groups.sizes[selected])
        self.selected_ = columns[np.lexsort((columns, -self.scores_[columns], rank))]
        return self._set_groups(groups, selected, costs)

    def _of_groups(self, groups: StreamedGroups) -> list[str]:
        """Return notes on how many groups were selected."""
        n_selected, all_groups = len(self.groups_), groups.groups
        notes = [f"{n_selected} groups with {len(self.selected_)} columns were selected, out of {all_groups.text}"]
        n_wide = int((all_groups.sizes > groups.capacity).sum())
        if n_wide:
            notes.append(f"{n_wide} groups have more columns than may be selected, and were skipped")
        if n_selected < groups.limit and not groups.counts_columns:
            why = "the columns of the others are linear combinations of those selected"
            notes.append(f"{groups.limit} groups were requested: {why}")
        return notes

    @property
    def _n_asked(self) -> int | None:
        """Number of features to select; None with groups, which have several features each."""
        return self.n_features_to_select if self.feature_groups is None else None

    def _refit(
        self, members: Members, finished: Finished, target: Target, run: Run
    ) -> tuple[np.ndarray, Any, list[SelectedFit]]:
        """Return coefficients and intercept on the scale of the data, and the fits on the members they come from.

        With several classes each has a row, an intercept and a fit. Without an intercept, or without members, the
        engine's coefficients are returned, and no fits.
        """
        k, fits = members.n_members, list[SelectedFit]()
        coef, offset = members.coefficients(finished.coef)
        if not self.fit_intercept:
            return coef, 0.0 if target.y.ndim == 1 else np.zeros(len(target.y)), fits
        if not k:
            return coef, target.location + offset + finished.intercept, fits
        loss, weight = target.loss.loss, target.weight if len(target.weight) else None
        mean_loss = MeanLoss(loss.name, 1.0 if loss.is_two_class else None, target.loss.threshold, self.ridge)
        free = np.arange(k) < members.n_fixed
        for y in np.atleast_2d(target.y):
            here = Run(ArrayMatrix(members.held.T, y, weight), self.method, task_limit=run.task_limit)
            fits.append(refit_selected(here, np.arange(k), mean_loss, run.matrix.shape[1], free=free))
        coef, intercept = np.array([fit.coef for fit in fits]), np.array([fit.intercept for fit in fits])
        if not members.columns.is_int8:
            coef /= members.scale[:k]
            intercept -= coef @ members.mean[:k]
        intercept += target.location
        return (coef, intercept, fits) if target.y.ndim == 2 else (coef[0], float(intercept[0]), fits)

    def _notes(
        self, stream: SubstitutionStream, target: Target, fits: list[SelectedFit], groups: StreamedGroups | None
    ) -> list[str]:
        """Return the notes on the course of the selection."""
        engine, members, counters, notes = stream.engine, stream.engine.members, stream.engine.counters, []
        k, n_rows = members.n_members, int((target.weight > 0.0).sum()) if len(target.weight) else target.n_samples
        if k >= n_rows - self.fit_intercept:
            why = f"too few rows: {k} features can fit any target of {n_rows} rows exactly"
            if engine.rule.ridge > 0.0:
                notes.append(f"{why}; only the ridge limits the fit")
            else:
                remedy = "select fewer, or do not set ridge=0"
                notes.append(Caution(f"{why}, and such a fit says nothing about other rows ({remedy})"))
        elif groups is not None:
            notes += self._of_groups(groups)
        elif k < members.capacity:
            like = "copies" if engine.rule.ridge > 0.0 else "linear combinations"
            combined = f", or {like} of these" if self.rule == "exchange" else ""
            notes.append(
                f"{k} features were selected, not {members.capacity}: the others presented are constant{combined}"
            )
        if members.n_fixed:
            notes.append(f"{members.n_fixed} {'of them' if groups is None else 'columns'} were always included")
        unit = "column" if groups is None else "group"
        why = "the selected features explain them" if self.rule == "exchange" else "the loss did not fall enough"
        notes.append(
            f"{counters.n_presented:,} {unit}s were presented in {stream.n_epochs} epoch{'s' * (stream.n_epochs > 1)}: "
            f"{counters.n_exchanged:,} replaced a selected {'feature' if groups is None else 'group'}, "
            f"{counters.n_refused:,} were refused: {why}"
        )
        if counters.n_reverted:
            notes.append(f"{counters.n_reverted:,} batches of columns were undone, because they raised the loss")
        in_refit = max((fit.ridge for fit in fits), default=0.0)
        ridges = {"at the end of the selection": engine.rule.ridge, "in the refit": in_refit}
        used = [f"{ridge:.3g} {when}" for when, ridge in ridges.items() if ridge > 0.0]
        if used:
            notes.append(f"ridge on standardised coefficients: {', '.join(used)}")
        if any(fit.is_separable for fit in fits):
            notes.append(SEPARATED)
        return notes
