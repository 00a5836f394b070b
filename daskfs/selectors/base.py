"""The base class of all selectors: scikit-learn's interface for all kinds of input, and the hooks of a pipeline.

Four parts do the work. They know no selector, and take values:

    opening.Input              the user's data as a matrix, with labels as codes; `_opened` settles the loss in between
    shared.run.Run             the steps of one fit, which the method of a subclass takes: `fit` calls `_fit`
    resulting.result_of        the result, of the `Selection` that the fit has set as attributes: `_result_of`
    predicting.FittedColumns   the columns of the fit in other rows, for `transform` and `predict`
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.validation import check_is_fitted, validate_data

from daskfs import errors, interrupts
from daskfs.cluster.open import parse_bytes, workers_of
from daskfs.cluster.workers import Workers
from daskfs.dashboard.shown import on_dashboard
from daskfs.errors import Caution, ConfigError, PlanError, SelectionWarning, Suspicion, warn
from daskfs.feature_maps.base import MadeMatrix
from daskfs.feature_maps.groups import FeatureGroups
from daskfs.kernels.jit import announced, is_compiling
from daskfs.losses import AUTO, LOSSES, PLAIN_NUMBERS, Loss, TargetKind, find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Crowding
from daskfs.matrix.names import Names
from daskfs.matrix.target import doubt, kind_of_target
from daskfs.parameters import (
    Client,
    LossOf,
    MemoryLimit,
    Parameters,
    RandomState,
    RefitBy,
    TableSchemaGiven,
    Verbose,
    parameters_of,
)
from daskfs.result import SelectionResult
from daskfs.selectors.diagnostics.remarks import remarks_on
from daskfs.selectors.diagnostics.signal_beyond import SignalBeyond, signal_beyond
from daskfs.selectors.diagnostics.stand_ins import stand_ins
from daskfs.selectors.fitted import Fitted
from daskfs.selectors.inputs import checked_weights, is_lazy, seed_of
from daskfs.selectors.opening import Input, coded, kind_of_labels
from daskfs.selectors.predicting import lazily
from daskfs.selectors.resulting import (
    NORMS,
    PENALTIES,
    Selection,
    note_refit,
    refit_budget,
    result_of,
)
from daskfs.selectors.shared.ahead import Ahead
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.refit import TOLERANCE
from daskfs.selectors.shared.refit_of_classes import ClassFits, fit_each_class, fit_each_size
from daskfs.selectors.shared.run import Checkpoint, Run
from daskfs.watching.base import Progress
from daskfs.watching.terminal import say_compiling, shown

if TYPE_CHECKING:
    import pandas as pd

DataError = errors.DataError.about("shapes")

SILENT: Any = None
"""Stands in for the result when a fit is one of many."""
SEPARATED = (
    "there is no finite fit: the selected features separate the classes, or some of their rows (complete or "
    "quasi-complete separation); a weak ridge bounds the coefficients"
)


class BaseSelector(
    Parameters,
    Fitted,
    BaseEstimator,
    metaclass=ABCMeta,
    kw_only=True,
    auto_wrap_output_keys=(),  # the `transform` of `Fitted` is wrapped, the one below is not
):
    """Base of all selectors: scikit-learn's interface for arrays, stores and Dask collections.

    A subclass declares its parameters (see `daskfs.parameters`), ``loss`` among them, and defines `_fit` and `_plan`.
    Both read ``loss_``, never ``loss``, which may be "auto". `_fit` sets ``selected_``, ``support_``, ``coef_``,
    ``intercept_``, ``scores_`` and ``result_``, and for classification ``classes_``, with the target's values.

    Parameters
    ----------
    random_state : int, RandomState or None
        Has no effect: nothing is random.
    memory_limit : int or str, optional
        Memory limit of one task, for example "1GiB".
    client : distributed.Client, optional
        Cluster on which to run; None: this process.
    schema : path, mapping, TableSchema, "judge" or None
        Meaning of a table's columns, as in a pipeline file. With "judge" it is inferred from the data, as for files
        (`daskfs init`). None: a table with only numeric columns is used as it is; for others the schema is inferred.
    refit : {"none", "ols", "ridge", "elastic"}
        Coefficients of the selected features. none: the method's own. The others fit the loss to the selected features:
        ols without a penalty, ridge with a ridge chosen from the data, elastic with this ridge and an l1 penalty chosen
        by the held-out loss. The multinomial loss is fitted to all classes together; with elastic, other losses, or
        very many coefficients, each of several classes is fitted against the rest.
    verbose : bool
        Whether to show the progress: a bar in a terminal, an output in a notebook, otherwise a line per minute; with a
        client also on Dask's dashboard. Without it, a fit only says that it compiles kernels, which the first fits on
        a machine do for a minute or more: one line on standard error, once, in a terminal or a notebook.
    """

    random_state: RandomState = 0
    memory_limit: MemoryLimit = None
    client: Client = None
    schema: TableSchemaGiven = None
    refit: RefitBy = "none"
    verbose: Verbose = False

    ridge_of_path: ClassVar[float | None] = None
    """Ridge of the fits of fewer features, see `fit_path`; None: chosen from the data."""
    _weighs_columns: ClassVar[bool] = False
    """Whether the selection of columns depends on `daskfs.matrix.base.Matrix.column_weights`."""
    _takes_size: ClassVar[bool] = False
    """Whether the number of features is a parameter."""
    is_silent: ClassVar[bool] = False
    """Whether this fit is one of many, and so makes no result and no warnings."""

    @property
    def groups_are_cut_by(self) -> str:
        """`cuts_groups` for this selector with its parameters; a meta-selector returns that of its selector."""
        return self.cuts_groups

    @property
    def weighs_columns(self) -> bool:
        """Whether weights of columns have an effect on this selector."""
        return self._weighs_columns and self._units_by is None

    @property
    def _units_by(self) -> str | None:
        """The parameter because of which other units than single columns are selected; None: columns are."""
        return None

    @abstractmethod
    def _fit(self, run: Run) -> None:
        """Select on the matrix of a run."""

    @abstractmethod
    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return what fitting a matrix of this shape will read and hold in memory."""

    def _repr_mimebundle_(self, **asked: Any) -> dict[str, Any]:
        """Return scikit-learn's diagram for a notebook; for a fitted selector, with its result."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**asked)
        if "text/html" in bundle and hasattr(self, "result_"):
            bundle["text/html"] += self.result_._repr_html_()
        return bundle

    def check_parameters(self) -> None:
        """Refuse invalid values and combinations of parameters; see `Parameters.check_parameters`."""
        super().check_parameters()
        if self.loss in LOSSES:
            self._check_loss(LOSSES[self.loss])

    @property
    def loss_choice(self) -> LossOf | None:
        """The losses of the parameter; None if the method has only one loss."""
        parameter = parameters_of(type(self)).get("loss")
        if parameter is None:
            return None
        return parameter.kinds[0] if isinstance(parameter.kinds[0], LossOf) else LossOf()

    @property
    def possible_losses(self) -> list[Loss]:
        """The loss; before a fit with "auto", the losses that may be chosen."""
        name = self.loss if self.loss != AUTO else getattr(self, "loss_", AUTO)
        choice = self.loss_choice
        names = choice.by_default if name == AUTO and choice is not None else (name,)
        return [LOSSES[one] for one in names if one in LOSSES]

    @property
    def _loss(self) -> Loss:
        """The loss that is fitted, once it is settled."""
        return LOSSES[self.loss_]

    def _check_loss(self, loss: Loss) -> None:
        """Refuse parameters that cannot be combined with this loss; with ``loss="auto"`` when the target is known."""

    def _settle_loss(self, kind: TargetKind, is_plan: bool = False) -> None:
        """Set ``loss_`` to the given loss or the one for the target, with a note if that choice may be wrong."""
        self._loss_note, self.loss_, parameter = "", self.loss, self.loss_choice
        if parameter is None:
            return
        self.loss_ = parameter.of(type(self).__name__, self.loss, kind)
        if self.loss != AUTO:
            return
        self._check_loss(self._loss)
        is_classifier = self._loss.is_classifier
        others = [name for name in parameter.names if LOSSES[name].is_classifier != is_classifier]
        if kind.n_whole and others and is_classifier == (kind.n_classes > 0):
            self._loss_note = doubt(kind, self.loss_, others)
            if not is_plan:
                warn(f"{type(self).__name__}: {self._loss_note}", SelectionWarning)  # before the work, not after it
        elif is_classifier:
            self._loss_note = f"the target has {kind.n_classes} classes: the loss is {self.loss_}"

    def plan(
        self,
        n_samples: int,
        n_features: int,
        dtype: Any,
        memory_limit: int | str | None,
        n_threads: int = 1,
        tile_shape: tuple[int, int] | None = None,
        target: TargetKind = PLAIN_NUMBERS,
        n_stored: int | None = None,
        has_statistics: bool = False,
        n_entries: int | None = None,
        crowding: Crowding | None = None,
        names: Names | None = None,
        table_columns: np.ndarray | None = None,
        ahead_nbytes: int = 0,
        has_products: bool = False,
    ) -> SelectorPlan:
        """Return what fitting a matrix of this shape will read and hold in memory.

        Parameters
        ----------
        n_samples, n_features : int
        dtype : numpy dtype or its name
        memory_limit : int, str or None
            Memory limit of one task in bytes, or as a text such as "1GiB".
        n_threads : int
            Number of tasks that run at once.
        tile_shape : tuple of int, optional
            Rows and columns of a tile of the store.
        target : TargetKind
            Kind of the target, which decides on the loss if that is "auto"; numbers by default.
        n_stored : int, optional
            Rows of the store whose tiles contain these; by default only these.
        has_statistics : bool
            Whether the store has the columns' statistics over exactly these rows, with equal weights.
        n_entries : int, optional
            Number of entries of these rows in a sparse store.
        crowding : Crowding, optional
            How unevenly the entries are distributed, `store.crowding()`; by default evenly over rows and columns.
        names : Names, optional
            Names of the columns, in case groups of them are given by name.
        table_columns : ndarray of shape (n_features,), str, optional
            Columns of the table that the features were encoded from: see `Matrix.table_columns`.
        ahead_nbytes : int
            Bytes of requests in progress in a task that reads the store, `store.ahead_nbytes`.
        has_products : bool
            Whether the matrix has products of its columns that cost less than reading them, as genotype files have.

        Raises
        ------
        PlanError
            The limit is too small. The error names sizes that would fit.
        """
        self.check_parameters()
        planned = copy(self)  # `loss_` belongs to a fit, or to this plan
        planned._settle_loss(target, is_plan=True)
        sizes = int(n_samples), int(n_features), np.dtype(dtype)
        shape = DataShape(*sizes, tile_shape, target.n_classes, n_stored, has_statistics, n_entries, crowding)
        shape = replace(shape, names=names, table_columns=table_columns, has_products=has_products)
        limit = parse_bytes(memory_limit) if isinstance(memory_limit, str) else memory_limit
        left = None if limit is None else limit - ahead_nbytes
        try:
            found = planned._planned(shape, Limits(left, n_threads))
        except PlanError as fault:
            raise fault.beside(ahead_nbytes) from None
        ahead = Budget({"requests in flight": ahead_nbytes} if ahead_nbytes else {})
        return replace(found, task=found.task + ahead)

    def _planned(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return the plan of a fit, including a refit if requested."""
        return self._planned_refit(self._plan(shape, limits), self._n_asked or 0, shape, limits)

    def _planned_refit(self, plan: SelectorPlan, n_selected: int, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return a plan with the refit of so many features, if it is requested."""
        if not self._refits:
            return plan
        text = f"{plan.text}; then a refit ({self.refit}) on the selected features"
        return replace(plan, client=plan.client + refit_budget(n_selected, shape, limits), text=text)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BaseSelector:
        """Select features.

        Parameters
        ----------
        X : FeatureStore or other Matrix, ndarray, scipy.sparse matrix, DataFrame, dask Array or dask DataFrame
            A store is read block by block where the tasks run, and has its own target and weights. A Dask collection is
            first written to a temporary store. Tables (pandas, polars, Arrow, Dask) may have categories, texts, dates,
            booleans and missing values: see `schema`.
        y : array-like of shape (n_samples,)
            The target; None with a store.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts twice, one of weight 0 is ignored; None with a store.

        Returns
        -------
        self

        Raises
        ------
        DataError
            NaN or infinity (with the column and the row), a constant target, or no target.
        ConfigError
            The loss does not match the target or the other parameters.
        """
        self.check_parameters()
        with interrupts.guard(), self._opened(X, y, sample_weight) as (matrix, labels):
            encoder = matrix.encoder
            self._fit_opened(matrix)
            self._store_encoder = encoder if self.encoder_ is None else None
        self._label_classes(labels)
        if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        return self

    def _label_classes(self, labels: np.ndarray | None) -> None:
        """Replace the codes of the fitted classes by the user's labels. Classes without any weight are not fitted."""
        if labels is not None:
            self.classes_ = labels[self.classes_.astype(np.int64)]

    def fit_matrix(
        self,
        matrix: Matrix,
        *,
        workers: Workers | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> BaseSelector:
        """Select features of a matrix that has its target.

        Parameters
        ----------
        matrix : Matrix
        workers : Workers, optional
            Where tasks run; by default on ``client``.
        progress : Progress, optional
        checkpoint : Checkpoint, optional
            Stores finished tasks.

        Returns
        -------
        self
        """
        self.check_parameters()
        self._settle_loss(kind_of_target(matrix))
        with interrupts.guard():
            self._fit_opened(matrix, workers, progress, checkpoint)
        return self

    def _fit_opened(
        self,
        matrix: Matrix,
        workers: Workers | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Select features of a matrix, with the loss already settled for its target."""
        self._weight_note = checked_weights(matrix)
        with ExitStack() as stack:
            if progress is None and not self._setting("verbose"):
                stack.enter_context(announced(say_compiling))
            elif progress is None:
                workers = workers_of(self._setting("client")) if workers is None else workers
                name = type(self).__name__
                progress = stack.enter_context(shown(name=name, is_compiling=is_compiling))
                n_samples, n_features = matrix.shape
                size = f"{name}: {n_samples:,} samples x {n_features:,} features, loss {self.loss_}"
                for line in (size, *self._table_notes, *filter(None, [self._loss_note])):
                    progress.tell(line)
                stack.enter_context(on_dashboard(workers, progress))
            self.fit_run(stack.enter_context(self._run(matrix, workers, progress, checkpoint)))

    def fit_run(self, run: Run) -> Self:
        """Select on the matrix of a run, with the loss already settled for its target."""
        self._take_names(run.matrix)
        self._fit(run)
        if self._refits and len(self.selected_):
            self._take_refit(run)
        return self

    @contextmanager
    def _opened(
        self, X: Any, y: Any, sample_weight: Any, labels: np.ndarray | None = None, is_first: bool = True
    ) -> Iterator[tuple[Matrix, np.ndarray | None]]:
        """Yield the user's data as a matrix, and a classifier's labels, if not known before: see `Input`.

        The first data settle the loss, and have the number and names of the features; others are checked against them.
        """
        columns = None if is_first else self._fitted_columns
        check = partial(validate_data, self, reset=is_first)
        given = Input(X, y, sample_weight, self.loss, self._setting("schema"), columns, check)
        if is_first:
            self._settle_loss(given.kind(labels))
        names = getattr(self, "feature_names_in_", None)
        with given.opened(self._loss, labels, names, self.random_state, type(self).__name__) as opened:
            matrix, labels, self._table_notes = opened
            yield matrix, labels

    def _coded(self, y: Any, labels: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
        """Settle the loss by a target that is not in a matrix; return it with labels as codes, and the labels."""
        self._settle_loss(kind_of_labels(y, self.loss, labels))
        return coded(y, self._loss, labels)

    def _run(
        self,
        matrix: Matrix,
        workers: Workers | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Run:
        """Return the run of one fit, by default on ``client``."""
        limit = self._setting("memory_limit")
        limit = None if limit is None else parse_bytes(limit) - matrix.ahead_nbytes
        workers = workers_of(self._setting("client")) if workers is None else workers
        return Run(matrix, self.method, workers, progress, checkpoint, limit)

    def _setting(self, name: str) -> Any:
        """Return a setting for running a fit: `client`, `memory_limit`, `schema` or `verbose`."""
        return getattr(self, name)

    def _take_names(self, matrix: Matrix) -> None:
        self.n_features_in_ = self._n_columns = int(matrix.shape[1])
        self.encoder_, self._store_encoder = matrix.of_table, None
        if self.encoder_ is None:
            self._table_notes = ()
        if self.encoder_ is not None:
            target = self.encoder_.target
            names = [name for name in self.encoder_.names if name != target]
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        elif not matrix.names.are_default and matrix.names.given is not None:
            self.feature_names_in_ = np.asarray(matrix.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    fits_in_step = 1
    """Number of fits on the same files of which some steps are computed together, see `ahead`."""

    def prepared(
        self, matrix: Matrix, workers: Workers, checkpoint: Checkpoint, progress: Progress | None
    ) -> tuple[Run, list[Ahead]]:
        """Return the run of a fit, which is not made, and what can be computed for it; see `fit_matrix` and `ahead`."""
        self.check_parameters()
        self._settle_loss(kind_of_target(matrix))
        self._take_names(matrix)
        run = self._run(matrix, workers, progress, checkpoint)
        return run, self.ahead(run)

    def ahead(self, run: Run) -> list[Ahead]:
        """Return what can be computed before `fit_run`, together with what other fits need."""
        return []

    @property
    def is_nested(self) -> bool:
        """Whether one fit contains the selections of fewer features (see `fit_path`), with these parameters.

        By default it does if the method has no number of features, so that one fit has all that can be chosen.
        """
        return not self._takes_size

    @property
    def _n_asked(self) -> int | None:
        """Requested number of features; None if the method decides."""
        return None

    def _path_order(self, run: Run) -> np.ndarray:
        """Return the columns of a fit in the order in which smaller selections take them."""
        return self.selected_

    def fit_path(self, run: Run, sizes: Sequence[int], tolerance: float = TOLERANCE) -> list[Self]:
        """Return this selector fitted for each of several numbers of features.

        If one fit contains all of them (`is_nested`), the last is that fit. The others have its first features in the
        method's order, with the loss fitted on them, with a ridge chosen from the data or by the requested refit.
        Otherwise there is a fit for each number.

        Parameters
        ----------
        run : Run
        sizes : sequence of int
            Ascending.
        tolerance : float
            Tolerance of the fits of fewer features, see `MeanLoss.tolerance`.
        """
        if not self.is_nested:
            return [self._of_size(size).fit_run(run.within(f"size-{size}")) for size in sizes]
        largest = self._of_size(sizes[-1]).fit_run(run)
        order, is_open = largest._path_order(run), not self._takes_size
        smaller = sorted({min(size, len(order)) for size in sizes if size < len(order) or is_open} - {0})
        penalty = PENALTIES[self.refit] if self._refits else {"ridge": self.ridge_of_path}
        penalty = penalty | {"free": largest.included_columns(run.matrix)}
        fits, found = [], dict[int, Self]()
        if smaller:
            fits = fit_each_size(run, order[: max(smaller)], smaller, self.loss_, tolerance=tolerance, **penalty)
        for size, fit in zip(smaller, fits, strict=True):
            one, columns = copy(largest), order[:size]
            one._set_selection(columns, largest.scores_[columns], fit.coef, fit.intercept)
            one.selected_, one.scores_, one.loss_ = columns, largest.scores_.copy(), fit.loss
            found[size] = one
        return [found.get(min(size, len(order)), largest) for size in sizes]

    def _of_size(self, size: int) -> Self:
        """Return a selector like this one that selects so many features, if their number is a parameter."""
        return copy(self)

    def _refuse_second_look(self, where: str) -> None:
        """Refuse what reads rows or columns again, if they can be read only once."""
        if self._refits:
            problem = f"{self.refit!r} reads the selected columns of all rows again, but {where} only once"
            raise ConfigError(problem, "refit", "leave it out, or use fit")

    def _set_selection(
        self, columns: np.ndarray, scores: np.ndarray, coef: np.ndarray, intercept: Any, others: float = 0.0
    ) -> None:
        """Set the selected columns, by score, and their coefficients on the scale of the data.

        `others` is the score of columns that are not selected. With several classes, `coef` has a row and `intercept` a
        number for each.
        """
        self._selection = Selection.of(self._n_columns, columns, scores, coef, intercept, others)

    @property
    def _selection(self) -> Selection:
        """What the fit selected, as one value."""
        return Selection(*(getattr(self, name) for name in Selection._fields))

    @_selection.setter
    def _selection(self, found: Selection) -> None:
        for name, value in found._asdict().items():
            setattr(self, name, value)

    def _result_of(self, run: Run, *, notes: Sequence[str], **found: Any) -> SelectionResult:
        """Return the result of a fit whose attributes are set, and emit its warnings; see `resulting.result_of`.

        Notes are added, for example if too few features were selected. A `StoreError` is raised if the store was
        replaced by another one during the fit.
        """
        matrix = run.matrix
        matrix.verify_unchanged()
        if self.is_silent:
            return SILENT
        notes = [*self._shortfall(), *self._table_notes, *notes]
        if found.get("coef") is None and self.coef_.ndim > 1:
            notes.append(NORMS)
        if matrix.rows_together is not None and self.groups_are_cut_by:
            suspicion = Suspicion(f"{self.groups_are_cut_by} do not keep the split's groups of rows together")
            notes = [*(note for note in notes if note != suspicion), suspicion]
        if self.made_ is None and found.get("n_samples") in (None, matrix.shape[0]):
            notes += remarks_on(matrix, self.selected_)  # what is constant in some rows may vary in earlier ones
        notes += filter(None, [self._loss_note, self._weight_note])
        self._warn(notes)
        found = {"method": self.method, "score_kind": self.score_kind, "history_kind": self.history_kind, **found}
        return result_of(run, self._selection, self.resolved_parameters(), notes=notes, **found)

    def _warn(self, notes: Sequence[str]) -> None:
        for note in notes:
            if isinstance(note, Caution):
                warn(f"{type(self).__name__}: {note}", SelectionWarning)

    def resolved_parameters(self) -> dict[str, Any]:
        """Return the parameters for a result: with the loss of the fit, without settings for where it runs."""
        found = {name: getattr(self, name) for name in sorted(self._parameter_owners)}
        if "loss" in found:
            found["loss"] = self.loss_
        return {name: value for name, value in found.items() if name not in ("client", "verbose", "schema")}

    def _shortfall(self) -> list[str]:
        """Return a note if fewer features were selected than requested, or none."""
        return [] if len(self.selected_) else [Caution("no feature was selected")]

    @property
    def n_included(self) -> int:
        """Number of columns that are given as always included."""
        return 0

    def included_columns(self, matrix: Matrix) -> np.ndarray:
        """Return the columns that are always included, with their groups; no refit penalises them."""
        return np.empty(0, np.int64)

    def _groups_of(self, matrix: Matrix) -> FeatureGroups | None:
        """Return the groups of a matrix's columns; None without groups."""
        return None

    @property
    def _refits(self) -> bool:
        """Whether one of the refits that all selectors support was requested."""
        return self.refit in PENALTIES

    def with_refit(self, run: Run, by: str, ridge: float | None = None) -> tuple[Self, ClassFits]:
        """Return this fitted selector with a refit of its selected features, and that fit.

        Parameters
        ----------
        run : Run
            Over the rows of the fit.
        by : {"ols", "ridge", "elastic"}
        ridge : float, optional
            By default as `by` says.
        """
        fitted, columns, made = copy(self), self.selected_, self.made_
        if made is not None:
            run, columns = run.over(MadeMatrix(run.matrix, made)), np.argsort(np.argsort(columns))
        penalty = PENALTIES[by] if ridge is None else PENALTIES[by] | {"ridge": ridge}
        if made is None:
            penalty = penalty | {"free": self.included_columns(run.matrix)}
        found = fit_each_class(run, columns, self.loss_, classes=getattr(self, "classes_", None), **penalty)
        coef = found.coef
        if made is None:
            coef = np.zeros((*found.coef.shape[:-1], self._n_columns))
            coef[..., columns] = found.coef
        fitted.loss_, fitted.coef_, fitted.intercept_ = found.loss, coef, found.intercept
        return fitted, found

    def _take_refit(self, run: Run) -> None:
        """Replace the coefficients by those of the requested refit; the result keeps the method's own as well."""
        fitted, found = self.with_refit(run, self.refit)
        self.loss_, self.coef_, self.intercept_ = fitted.loss_, fitted.coef_, fitted.intercept_
        if not self.is_silent:
            self._warn(note_refit(self.result_, self.refit, found, run.seconds.get("refit", 0.0)))

    def transform(self, X: Any) -> Any:
        """Return the selected columns.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        array, sparse matrix, DataFrame or lazy Dask collection
            Same kind as the input (`set_output` applies to data in memory); a dense array for a store.
        """
        columns, made = self.get_support(indices=True), self.made_
        if is_lazy(X):
            chosen = self._fitted_columns.lazy(X, columns)
            if made is None:
                return chosen
            names, dtype = self.get_feature_names_out(), getattr(X, "dtype", np.dtype(np.float64))
            of_row = np.empty((1, len(names)), np.float64 if dtype == np.float64 else np.float32)
            return lazily(made.of, chosen, of_row, names)
        if isinstance(X, Matrix):
            return X.read(slice(None), columns) if made is None else MadeMatrix(X, made).read(slice(None))
        return super().transform(X)

    def stand_ins(self, X: Any, y: Any = None, sample_weight: Any = None, *, n_stand_ins: int = 3) -> pd.DataFrame:
        """Return the columns that could replace the selected ones, and how much the loss would rise.

        Of several columns with nearly the same information (a bundle), one is selected; with other rows it could be
        another. These others are its stand-ins. All columns are read once. With the squared loss the numbers are exact,
        with others they are from the quadratic approximation at the fit.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        n_stand_ins : int
            Number of stand-ins per selected column, those with the smallest rise of the loss.

        Returns
        -------
        DataFrame
            A line for each pair, in the order of `selected_`: ``feature``, ``stand_in`` and ``index``, its column
            number; their ``correlation``; ``loss_increase``, the rise of the mean loss when the stand-in replaces the
            feature; ``share_lost``, this rise as a share of what the feature contributes in addition to the others: 0
            if the stand-in is equally good, negative if it is better, 1 if dropping the feature would be no worse;
            ``bundle``, a number shared by features that are correlated (0.9 or more) or have such a stand-in in common.

        Raises
        ------
        ConfigError
            The features are made by a map.

        Examples
        --------
        >>> import numpy as np
        >>> from daskfs import FGM
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((1000, 5))
        >>> X[:, 4] = X[:, 1] + 0.1 * rng.standard_normal(1000)
        >>> y = X[:, 1] + rng.standard_normal(1000)
        >>> print(FGM(1).fit(X, y).stand_ins(X, y, n_stand_ins=1).round(2).to_string(index=False))
        feature stand_in  index  correlation  loss_increase  share_lost  bundle
             x4       x1      1          1.0            0.0         0.0       1
        """
        with self._looked_at(X, y, sample_weight, "stand_ins") as run:
            return stand_ins(run, self.selected_.astype(np.int64), self.loss_, n_stand_ins)

    def signal_beyond(self, X: Any, y: Any = None, sample_weight: Any = None) -> SignalBeyond:
        """Return how much all columns together explain beyond the selected ones, as many weak effects would.

        A ridge regression on all columns (by their Gram matrix, or with many columns by a random projection) is
        cross-validated on up to 2,000 rows. All columns of these rows are read once.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`

        Returns
        -------
        SignalBeyond
            ``selected`` and ``beyond``, as shares of the target's variance, with an interval; its text explains the
            result.

        Raises
        ------
        ConfigError
            The features are made by a map.
        """
        with self._looked_at(X, y, sample_weight, "signal_beyond") as run:
            columns, seed = np.sort(self.selected_).astype(np.int64), seed_of(self.random_state)
            return signal_beyond(run, columns, find_loss(self.loss_).is_classifier, seed)

    @contextmanager
    def _looked_at(self, X: Any, y: Any, sample_weight: Any, asked: str) -> Iterator[Run]:
        """Open rows like those of the fit, as a run; refuse features made by a map."""
        check_is_fitted(self)
        if self.made_ is not None:
            raise ConfigError("is not available for features made by a map", asked, "fit without the map")
        labels = getattr(self, "classes_", None)
        with self._opened(X, y, sample_weight, labels, is_first=False) as (matrix, _), self._run(matrix) as run:
            yield run

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "coef_" in state:
            state.setdefault("loss_", state.get("loss", type(self).loss))  # pickled before there was "auto"
            state.setdefault("_n_columns", state.get("n_features_in_"))  # or before there was an encoder
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        losses = self.possible_losses
        classifies = [loss.is_classifier for loss in losses]
        if any(classifies):
            several = self.loss_choice is not None and self.loss_choice.several
            tags.classifier_tags = ClassifierTags(
                multi_class=several or any(loss.target == "classes" for loss in losses)
            )
        if not all(classifies):
            tags.regressor_tags = RegressorTags()
        if len({*classifies}) == 1:  # otherwise the target decides
            tags.estimator_type = "classifier" if classifies[0] else "regressor"
        tags.target_tags.required = True
        tags.target_tags.positive_only = all(loss.target == "count" for loss in losses)
        tags.input_tags.sparse = True
        return tags
