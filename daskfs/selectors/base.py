"""What every selector offers: scikit-learn's face on all kinds of input, and the hooks of a pipeline."""

from __future__ import annotations

import math
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from daskfs import interrupts
from daskfs.cluster.open import parse_bytes, workers_of
from daskfs.cluster.workers import Workers
from daskfs.dashboard.shown import on_dashboard
from daskfs.errors import Caution, ConfigError, DataError, PlanError, SelectionWarning, warn
from daskfs.feature_maps.base import MadeFeatures, MadeMatrix
from daskfs.kernels.compiling import is_compiling
from daskfs.losses import AUTO, LOSSES, PLAIN_NUMBERS, Loss, TargetKind, find_loss
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Crowding
from daskfs.matrix.names import Names
from daskfs.matrix.target import are_texts, doubt, kind_of, kind_of_target
from daskfs.metrics import accuracy, r2
from daskfs.parameters import (
    CV,
    Client,
    LossOf,
    MemoryLimit,
    Parameters,
    RandomState,
    TableSchemaGiven,
    Verbose,
    parameters_of,
)
from daskfs.result import SelectionResult, coefficient_norm, selection_table
from daskfs.selectors.inputs import (
    check_width,
    codes_of,
    dense_columns,
    ingested,
    is_lazy,
    is_matrix,
    labels_of,
    lazy_columns,
    lazy_made,
    lazy_response,
    refuse_non_finite_target,
    seed_of,
)
from daskfs.selectors.predictor import LinearPredictor
from daskfs.selectors.scikit_learn import Estimator, available_if
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import (
    N_FOLDS,
    default_metric,
    default_sizes,
    fit_chosen_size,
    folds_of,
    plan_sizes,
)
from daskfs.selectors.shared.refit import ClassFits, MeanLoss, SelectedFit, fit_each_size, refit_selected
from daskfs.selectors.shared.remarks import remarks_on
from daskfs.selectors.shared.responses import Response, log_odds, mean_or_label, probabilities
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Checkpoint, Run
from daskfs.selectors.shared.samples import Recipe
from daskfs.selectors.shared.signal_beyond import SignalBeyond, signal_beyond
from daskfs.selectors.shared.stand_ins import bundles, find_stand_ins
from daskfs.selectors.shared.targets import checked_target, classes_of
from daskfs.selectors.tables import (
    as_asked,
    begun,
    encoded,
    has_more_than_numbers,
    ingested_table,
    is_table,
    lazily_encoded,
    raw_encoder,
)
from daskfs.watching.base import Progress
from daskfs.watching.terminal import shown

SIZE = "n_features_to_select"
if TYPE_CHECKING:
    import pandas as pd

SILENT: Any = None
"""In the place of the result of one of many fits."""
SEPARATED = (
    "there is no finite fit: the selected features separate the classes, or some rows of them (complete or "
    "quasi-complete separation); a weak ridge bounds the coefficients"
)
NORMS = "the table's coefficients are their norms over the classes; coef_ has those of each class"


def _possible(selector: BaseSelector) -> list[Loss]:
    """Return the loss of a selector; before a fit with "auto" those that it may become."""
    name = selector.loss if selector.loss != AUTO else getattr(selector, "loss_", AUTO)
    choice = selector.loss_choice
    names = choice.by_default if name == AUTO and choice is not None else (name,)
    return [LOSSES[one] for one in names if one in LOSSES]


def _may_classify(selector: BaseSelector) -> bool:
    return any(loss.is_classifier for loss in _possible(selector))


def _may_have_probabilities(selector: BaseSelector) -> bool:
    return any(loss.has_probabilities for loss in _possible(selector))


class _LazyTransform:
    """Lets Dask collections and stores pass by `set_output`, which would load them into memory.

    scikit-learn wraps the `transform` of every class below `SelectorMixin`, hence it stands before that, not below.
    """

    n_features_in_: int
    _n_columns: int
    made_: MadeFeatures | None
    encoder_: Any
    _store_encoder: Mapping[str, Any] | None

    def transform(self, X: Any) -> Any:
        """Return the selected columns.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        array, sparse matrix, DataFrame or lazy Dask collection
            Same kind as the input (`set_output` applies to what is in memory); a dense array for a store.
        """
        made = self.made_
        columns = self.get_support(indices=True)  # type: ignore[attr-defined]
        if is_lazy(X):
            chosen = self._lazy_columns(X, columns)
            return chosen if made is None else lazy_made(chosen, made, self.get_feature_names_out())
        if is_matrix(X):
            return X.read(slice(None), columns) if made is None else MadeMatrix(X, made).read(slice(None))
        if (encoder := self._encoder_for(X)) is not None:
            chosen = self._columns_of(X, columns, encoder)
            return as_asked(chosen if made is None else made.of(chosen), X, self)
        return super().transform(X)  # type: ignore[misc]

    def _encoder_for(self, X: Any) -> Any:
        """Return what encodes X, as the table of the fit was or that of the fit's store; None where X has features."""
        if self.encoder_ is not None or self._store_encoder is None or not is_table(X):
            return self.encoder_
        return raw_encoder(self._store_encoder, X)

    def _columns_of(self, X: Any, columns: np.ndarray, encoder: Any) -> np.ndarray:
        """Return columns of a table that is encoded as that of the fit was."""
        return encoded(encoder, X, columns, getattr(self, "feature_names_in_", None))

    def _lazy_columns(self, X: Any, columns: np.ndarray) -> Any:
        """Return columns of a Dask collection, as lazy as it came; encoded where that of the fit was."""
        if (encoder := self._encoder_for(X)) is not None:
            names = np.array(encoder.feature_names, dtype=object)[columns]
            return lazily_encoded(encoder, X, columns, names)
        return lazy_columns(X, columns, self.n_features_in_, getattr(self, "feature_names_in_", None))

    def _transform(self, X: Any) -> Any:
        """Return the selected features of what is in memory, checked."""
        return super()._transform(X) if self.made_ is None else self.made_.of(dense_columns(X, self.made_.parents))  # type: ignore[misc]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the selected features, in the order of the columns of `transform`.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X, where they were not known in the fit.

        Returns
        -------
        ndarray of shape (n_selected,), str
        """
        names: np.ndarray
        if self.encoder_ is None:
            names = super().get_feature_names_out(input_features)  # type: ignore[misc]
        else:
            from sklearn.utils.validation import _check_feature_names_in

            _check_feature_names_in(self, input_features)
            names = np.array(self.encoder_.feature_names, dtype=object)[self.get_support()]  # type: ignore[attr-defined]
        if self.made_ is None:
            return names
        made = np.empty(len(self.made_.columns), dtype=object)
        made[:] = self.made_.names([str(name) for name in names])
        return made


class Fitted:
    """What a selector has after `fit`."""

    method: ClassVar[str]
    """Its name in pipelines, reports and `daskfs.methods`."""
    score_kind: ClassVar[str] = "coefficient"
    """What `scores_` are, by which the report explains them: a key of `daskfs.report.html.SCORE_KINDS`."""
    history_kind: ClassVar[str] = ""
    """What the result's history is of: a key of `daskfs.report.plots.FIGURES`, or nothing that is drawn."""
    loss: Any
    """A parameter of most, of the others the one loss that they have."""
    loss_: str
    """The loss of the fit: with ``loss="auto"`` the one that the target called for."""
    classes_: np.ndarray
    selected_: np.ndarray
    support_: np.ndarray
    coef_: np.ndarray
    intercept_: Any
    scores_: np.ndarray
    result_: SelectionResult
    n_features_in_: int
    feature_names_in_: np.ndarray
    made_: MadeFeatures | None = None
    """The selected features, by number, where a map makes them; None where they are columns of X. Then ``selected_``
    are numbers of the map's columns, ``coef_`` and ``scores_`` of these alone, in this order, and ``support_`` says
    which columns of X they are made of."""
    encoder_: Any = None
    """What encodes the columns of tables, a `TableEncoder`; None where they are numbers. Then ``feature_names_in_`` are
    the table's columns, and ``coef_`` and all that has an entry for each feature has it for what they become."""
    _store_encoder: Mapping[str, Any] | None = None
    """Of a fit to a store of a table: what encoded its rows, as a document."""
    _n_columns: int
    """Columns of the matrix of the fit."""
    _table_notes: Sequence[str] = ()
    """What a table's columns were taken for."""


class BaseSelector(Fitted, Parameters, _LazyTransform, Estimator, kw_only=True):
    """Base of all selectors: scikit-learn's interface over arrays, stores and Dask collections.

    A subclass declares its parameters (see `daskfs.parameters`), ``loss`` among them, and defines `_fit` and `plan`.
    Both read ``loss_``, never ``loss``, which may be "auto". `_fit` sets ``selected_``, ``support_``, ``coef_``,
    ``intercept_``, ``scores_`` and ``result_``, and where the loss is one of classes, ``classes_`` as the target has
    them.

    Parameters
    ----------
    random_state : int, RandomState or None
        Has no effect: nothing is drawn at random.
    memory_limit : int or str, optional
        What one task may take, "1GiB" for example.
    client : distributed.Client, optional
        Where the work runs; None: here.
    schema : path, mapping, TableSchema, "judge" or None
        What the columns of a table mean, as in a pipeline file. Where none is given, a table whose columns are all
        numbers is taken as it is; else, and with "judge" always, columns are judged as those of files (`daskfs init`).
    verbose : bool
        Show how a fit goes on: a bar in a terminal, an output in a notebook, elsewhere a line a minute; with a client
        on Dask's dashboard too.
    """

    random_state: RandomState = 0
    memory_limit: MemoryLimit = None
    client: Client = None
    schema: TableSchemaGiven = None
    verbose: Verbose = False

    ridge_of_path: ClassVar[float | None] = None
    """Of the fits of fewer features, see `fit_path`; None: chosen from the data."""
    is_silent: ClassVar[bool] = False
    """Whether this is one of many fits, which make no result and warn of nothing."""
    _loss_note = ""  # what is to be said of the choice of the loss

    def _repr_mimebundle_(self, **asked: Any) -> dict[str, Any]:
        """Return what a notebook shows: scikit-learn's diagram, of a fitted selector with its result."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**asked)
        if "text/html" in bundle and hasattr(self, "result_"):
            bundle["text/html"] += self.result_._repr_html_()
        return bundle

    def check_parameters(self) -> None:
        """Refuse what a parameter, or several together, cannot be; see `Parameters.check_parameters`."""
        super().check_parameters()
        if self.loss in LOSSES:
            self._check_loss(LOSSES[self.loss])
        for name in ("feature_groups", "feature_map"):
            if self._chooses_size and getattr(self, name, None) is not None:
                remedy = "give sizes: SelectionCV(selector, sizes=[...])"
                raise ConfigError(f"'cv' tries numbers of columns, not what {name} makes of them", SIZE, remedy)

    def _refuse_cv(self, where: str) -> None:
        """Refuse to choose the size where rows or columns come once."""
        if self._chooses_size:
            raise ConfigError(f"'cv' reads all rows several times, {where} once", SIZE, "give a number, or use fit")

    @property
    def loss_choice(self) -> LossOf | None:
        """The losses that can be asked for; None where the method has one."""
        parameter = parameters_of(type(self)).get("loss")
        if parameter is None:
            return None
        return parameter.kinds[0] if isinstance(parameter.kinds[0], LossOf) else LossOf()

    def _setting(self, name: str) -> Any:
        """Return where or how a fit runs: `client`, `memory_limit`, `schema` or `verbose`."""
        return getattr(self, name)

    def _check_loss(self, loss: Loss) -> None:
        """Refuse other parameters with this loss; of ``loss="auto"`` asked once the target is known."""

    def _settle_loss(self, kind: TargetKind, is_plan: bool = False) -> None:
        """Set ``loss_``: the loss that is named, or the one that the target calls for, with a word where it may err."""
        self._loss_note, self.loss_, parameter = "", self.loss, self.loss_choice
        if parameter is None:
            return
        self.loss_ = parameter.of(type(self).__name__, self.loss, kind)
        if self.loss != AUTO:
            return
        self._check_loss(LOSSES[self.loss_])
        is_classifier = LOSSES[self.loss_].is_classifier
        others = [name for name in parameter.names if LOSSES[name].is_classifier != is_classifier]
        if kind.n_whole and others and is_classifier == (kind.n_classes > 0):
            self._loss_note = doubt(kind, self.loss_, others)
            if not is_plan:
                warn(f"{type(self).__name__}: {self._loss_note}", SelectionWarning)  # before the work, not after it
        elif is_classifier:
            self._loss_note = f"the target has {kind.n_classes} classes: the loss is {self.loss_}"

    @property
    def is_nested(self) -> bool:
        """Whether one fit holds the selections of fewer features, see `fit_path`; with these parameters.

        By default where no number of features is asked for, and so one fit has all there are to choose from.
        """
        return "n_features_to_select" not in self._parameter_owners

    def _path_order(self, run: Run) -> np.ndarray:
        """Return the columns of a fit on a run in the order in which fewer of them are selected, the first first."""
        return self.selected_

    def fit_path(self, run: Run, sizes: Sequence[int]) -> list[Self]:
        """Return this selector fitted for each of several numbers of features.

        Where one fit holds the answers (`is_nested`) the last is that fit, and the others have the first of its
        features in the order of the method, with the loss fitted on them by a ridge that the data choose. Else there is
        a fit for each.

        Parameters
        ----------
        run : Run
        sizes : sequence of int
            Ascending.
        """
        if not self.is_nested:
            return [self._of_size(size).fit_run(run.within(f"size-{size}")) for size in sizes]
        largest = self._of_size(sizes[-1]).fit_run(run)
        order, is_asked = largest._path_order(run), "n_features_to_select" in self._parameter_owners
        smaller = sorted({min(size, len(order)) for size in sizes if size < len(order) or not is_asked} - {0})
        fits = fit_each_size(run, order[: max(smaller)], smaller, self.loss_, self.ridge_of_path) if smaller else []
        found = {size: largest._with(order[:size], fit) for size, fit in zip(smaller, fits, strict=True)}
        return [found.get(min(size, len(order)), largest) for size in sizes]

    def _of_size(self, size: int) -> Self:
        """Return a selector like this one that selects so many features, where a number can be asked for."""
        found = copy(self)
        if "n_features_to_select" in self._parameter_owners:
            found.n_features_to_select = size  # type: ignore[attr-defined]
        return found

    def _with(self, columns: np.ndarray, fit: ClassFits) -> Self:
        """Return this fitted selector with some of its columns selected, and another fit of these."""
        found, scores = copy(self), self.scores_[columns]
        found._set_selection(columns, scores, fit.coef, fit.intercept)
        found.selected_, found.scores_, found.loss_ = columns, np.array(self.scores_), fit.loss
        return found

    @abstractmethod
    def _fit(self, run: Run) -> None:
        """Select on the matrix of a run."""

    @abstractmethod
    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return what fitting a matrix of this shape will read and hold."""

    def plan(
        self,
        n_samples: int,
        n_features: int,
        dtype: Any,
        memory_limit: int | None,
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
    ) -> SelectorPlan:
        """Return what fitting a matrix of this shape will read and hold.

        Parameters
        ----------
        n_samples, n_features : int
        dtype : numpy dtype or its name
        memory_limit : int or None
            Bytes that one task may take.
        n_threads : int
            Tasks that run at once.
        tile_shape : tuple of int, optional
            Rows and columns of a tile of the store.
        target : TargetKind
            What the target is, which a loss that is not named depends on; by default numbers.
        n_stored : int, optional
            Rows of the store in whose tiles these lie; by default no more than these.
        has_statistics : bool
            Whether the store knows the columns' statistics over exactly these rows, and they weigh the same.
        n_entries : int, optional
            Entries of these rows in a sparse store.
        crowding : Crowding, optional
            How unevenly they lie, `store.crowding()`; by default rows, and columns, have as many each.
        names : Names, optional
            Of the columns, by which groups of them may be given.
        table_columns : ndarray of shape (n_features,), str, optional
            Columns of the table that the features were encoded from: see `Matrix.table_columns`.
        ahead_nbytes : int
            What a task that reads the store holds of requests on their way, `store.ahead_nbytes`.

        Raises
        ------
        PlanError
            The limit is too small; with the sizes that would fit.
        """
        self.check_parameters()
        planned = self.to_plan_with()  # `loss_` is of a fit, or of this plan
        planned.__dict__.update(self.__dict__)
        planned._settle_loss(target, is_plan=True)
        sizes = int(n_samples), int(n_features), np.dtype(dtype)
        shape = DataShape(*sizes, tile_shape, target.n_classes, n_stored, has_statistics, n_entries, crowding)
        shape = replace(shape, names=names, table_columns=table_columns)
        left = None if memory_limit is None else memory_limit - ahead_nbytes
        try:
            found = planned._planned(shape, Limits(left, n_threads))
        except PlanError as fault:
            raise fault.beside(ahead_nbytes) from None
        ahead = Budget({"requests on their way": ahead_nbytes} if ahead_nbytes else {})
        return replace(found, task=found.task + ahead)

    def _planned(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        if not self._chooses_size:
            return self._plan(shape, limits)
        sizes = default_sizes(shape.n_samples, shape.n_features)
        return plan_sizes(Recipe.of(self, n_features_to_select=sizes[-1]), shape, limits, sizes, N_FOLDS)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BaseSelector:
        """Select features.

        Parameters
        ----------
        X : FeatureStore or other Matrix, ndarray, scipy.sparse matrix, DataFrame, dask Array or dask DataFrame
            A store is read block by block where the work runs, and brings its own target and weights. A Dask collection
            is written to a temporary store first. Tables (pandas, polars, Arrow, Dask) may have categories, texts,
            dates, truth and missing values: see `schema`.
        y : array-like of shape (n_samples,)
            The target; None with a store.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 counts as the row twice, 0 as no row; None with a store.

        Returns
        -------
        self

        Raises
        ------
        DataError
            NaN or infinity (with the column and the row), a constant target, no target.
        ConfigError
            A loss that the target or the other parameters do not go with.
        """
        self.check_parameters()
        with interrupts.guard(), self._opened(X, y, sample_weight) as (matrix, labels):
            encoder = matrix.encoder
            self._fit_opened(matrix)
            self._store_encoder = encoder if self.encoder_ is None else None
        if labels is not None:
            self.classes_ = labels
        if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        return self

    def fit_matrix(
        self,
        matrix: Matrix,
        *,
        workers: Workers | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> BaseSelector:
        """Select features of a matrix that carries its target.

        Parameters
        ----------
        matrix : Matrix
        workers : Workers, optional
            Where the work runs; by default on ``client``.
        progress : Progress, optional
        checkpoint : Checkpoint, optional
            Where finished tasks are kept.

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
        """Select features of a matrix for whose target the loss is settled."""
        with ExitStack() as stack:
            if self._setting("verbose") and progress is None:
                workers = workers_of(self._setting("client")) if workers is None else workers
                progress = stack.enter_context(shown(name=type(self).__name__, is_compiling=is_compiling))
                for line in self._taken_for(matrix):
                    progress.tell(line)
                stack.enter_context(on_dashboard(workers, progress))
            self.fit_run(stack.enter_context(self._run(matrix, workers, progress, checkpoint)))

    def fit_run(self, run: Run) -> Self:
        """Select on the matrix of a run, for whose target the loss is settled."""
        self._take_names(run.matrix)
        if self._chooses_size:
            self._fit_chosen_size(run)
        else:
            self._fit(run)
        return self

    @property
    def _chooses_size(self) -> bool:
        """Whether cross-validation is to say how many features."""
        return bool(getattr(self, SIZE, None) == CV)

    def _fit_chosen_size(self, run: Run) -> None:
        """Select as many features as cross-validation says."""
        rows = run.over(weighted_rows(run.matrix))
        sizes, metric = default_sizes(*rows.matrix.shape), default_metric(self.loss_)
        is_classifier, seed = find_loss(self.loss_).is_classifier, seed_of(self.random_state)
        folds = folds_of(rows.matrix, is_classifier, N_FOLDS, None, "random", seed)
        recipe = Recipe.of(self, n_features_to_select=sizes[-1], random_state=seed)
        fitted, curve, place = fit_chosen_size(rows, recipe, sizes, folds, metric, "best")
        kept = {*self._parameter_owners, "is_silent"}
        self.__dict__.update({name: value for name, value in vars(fitted).items() if name not in kept})
        self.n_features_to_select_, self.cv_results_ = int(curve.sizes[place]), curve.results()
        self.result_ = self._result_of(
            run,
            notes=[curve.note(place, "best")],
            history=curve.columns(place),
            history_kind="cross-validation",
            chosen={"n_features_to_select": self.n_features_to_select_},
        )

    def _taken_for(self, matrix: Matrix) -> list[str]:
        """Return what the data of a fit were taken for, in lines."""
        n_samples, n_features = matrix.shape
        size = f"{type(self).__name__}: {n_samples:,} samples x {n_features:,} features, loss {self.loss_}"
        return [size, *self._table_notes, *filter(None, [self._loss_note])]

    def _run(
        self,
        matrix: Matrix,
        workers: Workers | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Run:
        """Return the run of one fit, by default where ``client`` says."""
        limit = self._setting("memory_limit")
        limit = None if limit is None else parse_bytes(limit) - matrix.ahead_nbytes
        workers = workers_of(self._setting("client")) if workers is None else workers
        return Run(matrix, self.method, workers, progress, checkpoint, limit)

    @contextmanager
    def _opened(
        self, X: Any, y: Any, sample_weight: Any, labels: np.ndarray | None = None, is_first: bool = True
    ) -> Iterator[tuple[Matrix, np.ndarray | None]]:
        """Give the user's data as a matrix, for as long as it is needed.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        labels : ndarray of shape (n_classes,), optional
            Labels of a classifier, where known already; else those of `y`.
        is_first : bool
            Take the number and names of the features from X; if False, check them against the fitted ones.

        Yields
        ------
        matrix : Matrix
            A classifier's labels in memory are replaced by their numbers 0, 1, ...
        labels : ndarray of shape (n_classes,), or None
            Which these numbers stand for, ascending.

        Raises
        ------
        DataError
            Values that are not finite, or a target given twice or not at all.
        """
        if is_matrix(X):
            if y is not None or sample_weight is not None:
                raise DataError("a store brings its own target and weights", "fit", "fit(store), without y or weights")
            if is_first:
                self._settle_loss(kind_of_target(X))
            else:
                check_width(X.shape[1], self._n_columns)
            yield X, None
        elif is_lazy(X):
            given = y
            y, labels = self._coded(y, labels, is_first)
            with tempfile.TemporaryDirectory(prefix="daskfs-") as folder:
                into = Path(folder) / "fit.zarr", seed_of(self.random_state)
                if self._is_encoded(X, is_first):
                    matrix, self._table_notes = ingested_table(
                        X, y, sample_weight, self._setting("schema"), given, type(self).__name__, *into
                    )
                    yield matrix, labels
                else:
                    yield ingested(X, y, sample_weight, *into), labels
        elif self._is_encoded(X, is_first):
            yield self._of_table(X, y, sample_weight, labels, is_first)
        else:
            yield self._in_memory(X, y, sample_weight, labels, is_first)

    def _is_encoded(self, X: Any, is_first: bool) -> bool:
        """Whether X is a table that is encoded: as a later one if that of the fit was."""
        self._table_notes = ()
        if not is_first:
            return self.encoder_ is not None
        return is_table(X) and (self._setting("schema") is not None or has_more_than_numbers(X))

    def _of_table(
        self, X: Any, y: Any, sample_weight: Any, labels: np.ndarray | None, is_first: bool
    ) -> tuple[ArrayMatrix, np.ndarray | None]:
        """Return a table in memory as a matrix, see `_in_memory`."""
        from sklearn.utils.validation import _check_sample_weight, column_or_1d

        refuse_non_finite_target(y)
        if y is None:
            raise DataError("requires y to be passed, but the target y is None", "fit", "fit(X, y)")
        given = column_or_1d(y, warn=True)
        coded, labels = self._coded(given, labels, is_first, are_texts(y))
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, np.empty((len(given), 1)), ensure_non_negative=True)
        if not is_first:
            columns = np.arange(self._n_columns)
            values = self._columns_of(X, columns, self.encoder_)
            return ArrayMatrix(values, coded, weight, self.encoder_.feature_names), labels
        matrix, self._table_notes = begun(X, y, weight, self._setting("schema"), coded, type(self).__name__)
        return matrix, labels

    def _in_memory(
        self, X: Any, y: Any, sample_weight: Any, labels: np.ndarray | None, is_first: bool
    ) -> tuple[ArrayMatrix, np.ndarray | None]:
        from sklearn.utils.validation import _check_sample_weight, validate_data

        refuse_non_finite_target(y)
        has_texts = are_texts(y)
        X, y_ = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,  # ArrayMatrix names the column and the row
            ensure_min_samples=2,
            y_numeric=not has_texts and self.loss not in (name for name in LOSSES if LOSSES[name].is_classifier),
            reset=is_first,
        )
        y, labels = self._coded(y_, labels, is_first, has_texts)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return ArrayMatrix(X, y, weight, getattr(self, "feature_names_in_", None)), labels

    def _coded(
        self, y: Any, labels: np.ndarray | None, is_first: bool, has_texts: bool | None = None
    ) -> tuple[Any, np.ndarray | None]:
        """Settle the loss for a target, and return it with labels replaced by their numbers 0, 1, ..., and the labels.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Perhaps lazy: a classifier's is computed.
        labels : ndarray of shape (n_classes,), optional
            Where they are known already.
        is_first : bool
            If False, the loss is that of the fit so far.
        has_texts : bool, optional
            Whether it was given as texts or categories.
        """
        from pandas import unique

        if y is None:
            return None, labels
        if is_first:
            if labels is not None:
                kind = TargetKind(len(labels), is_declared=True)
            elif are_texts(y) if has_texts is None else has_texts:
                kind = TargetKind(len(unique(np.asarray(y).ravel())), is_declared=True)
            else:
                kind = kind_of(np.asarray(y).ravel()) if self.loss == AUTO else PLAIN_NUMBERS
            self._settle_loss(kind)
        elif self.loss != AUTO:
            self.loss_ = self.loss
        if not find_loss(self.loss_).is_classifier:
            return y, None
        from sklearn.utils.multiclass import check_classification_targets

        y = np.asarray(y)
        check_classification_targets(y)
        labels = labels_of(y) if labels is None else labels
        return codes_of(y, labels), labels

    def _result_of(
        self,
        run: Run,
        *,
        notes: Sequence[str],
        history: Mapping[str, np.ndarray] | None = None,
        chosen: Mapping[str, Any] | None = None,
        coef: np.ndarray | None = None,
        columns: Mapping[str, Any] | None = None,
        memory: Mapping[str, Mapping[str, int]] | None = None,
        n_samples: int | None = None,
        scores: np.ndarray | None = None,
        names: Any = None,
        history_kind: str = "",
    ) -> SelectionResult:
        """Return the result of a fit whose attributes are set, and warn of what its user must see.

        Parameters
        ----------
        run : Run
            With the matrix that was selected on, and what it took.
        notes : sequence of str
            Those that are a `Caution` become warnings; that too little was selected is added here.
        history : mapping of str to ndarray, optional
            Its columns.
        chosen : mapping, optional
            Parameters that the method chose.
        coef : ndarray of shape (n_selected,), optional
            Coefficients in the table; by default `coef_`, for several classes the norms.
        columns : mapping of str to ndarray or Series of shape (n_selected,), optional
            Further columns of the table.
        memory : mapping, optional
            ``promised_nbytes`` and ``held_nbytes``, see `SelectionResult`.
        n_samples : int, optional
            Where there were more rows than those of the matrix.
        scores : ndarray of shape (n_selected,), optional
            Scores in the table; by default those of `scores_`.
        names : object, optional
            Whose item j is the name of feature j, where they are not the matrix's.
        history_kind : str
            Where it is another than the method's.

        Raises
        ------
        StoreError
            Another store has taken the place of the one that was read.
        """
        run.matrix.verify_unchanged()
        if self.is_silent:
            return SILENT
        from pandas import DataFrame

        given, intercept = run.matrix.names.given, self.intercept_
        if coef is None:
            coef = self.coef_ if self.made_ is not None else self.coef_[..., self.selected_]
            if coef.ndim > 1:
                coef = coefficient_norm(coef)
                notes = [*notes, NORMS]
        notes = [
            *self._shortfall(),
            *self._table_notes,
            *notes,
            *(remarks_on(run.matrix, self.selected_) if self.made_ is None else ()),
            *filter(None, [self._loss_note]),
        ]
        for note in notes:
            if isinstance(note, Caution):
                warn(f"{type(self).__name__}: {note}", SelectionWarning)
        if scores is None:
            scores = self.scores_ if self.made_ is not None else self.scores_[self.selected_]
        table = selection_table(self.selected_, coef, scores, run.matrix.names if names is None else names)
        for name, column in (columns or {}).items():
            table[name] = column
        parameters = {**self.resolved_parameters(), **(chosen or {})}
        limit = {} if run.task_limit is None else {"limit_nbytes": {"task": run.task_limit}}
        return SelectionResult(
            method=self.method,
            score_kind=self.score_kind,
            history_kind=history_kind or self.history_kind,
            table=table,
            intercept=intercept if np.ndim(intercept) == 0 else math.nan,
            parameters=parameters,
            n_samples=int(run.matrix.shape[0]) if n_samples is None else n_samples,
            n_features=int(run.matrix.shape[1]),
            history=DataFrame(history or {}),
            scores=self.scores_ if self.made_ is None and len(self.scores_) == run.matrix.shape[1] else None,
            feature_names=given,
            store_digest=run.matrix.identity,
            memory={**limit, **(memory or {})},
            communication=run.nbytes,
            time=run.seconds,
            notes=list(notes),
        )

    def resolved_parameters(self) -> dict[str, Any]:
        """Return the parameters as a result has them: with the loss of the fit, without where it runs."""
        found = {name: getattr(self, name) for name in sorted(self._parameter_owners)}
        if "loss" in found:
            found["loss"] = self.loss_
        return {name: value for name, value in found.items() if name not in ("client", "verbose", "schema")}

    @property
    def _n_asked(self) -> int | None:
        """How many features were asked for; None where the method decides."""
        asked = getattr(self, "n_features_to_select", None)
        return asked if isinstance(asked, int) else None

    def _shortfall(self) -> list[str]:
        n_selected, asked = len(self.selected_), self._n_asked
        if not n_selected:
            return [Caution("no feature was selected")]
        if isinstance(asked, int) and n_selected < asked:
            return [Caution(f"{n_selected:,} of the {asked:,} features asked for were selected")]
        return []

    def _target_and_weight(self, matrix: Matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return target and weight of all rows as arrays of their own; of two classes, which it learns, -1 and +1."""
        y, given = checked_target(matrix, self.loss_), matrix.read_weight(slice(None))
        weight = np.ones(len(y)) if given is None else np.array(given, dtype=np.float64)
        if find_loss(self.loss_).is_classifier:
            self.classes_ = classes_of(y[weight > 0.0], None)
            y = np.where(y == self.classes_[1], 1.0, -1.0)
        return np.array(y, dtype=np.float64), weight

    def _refitted(self, run: Run, columns: np.ndarray, ridge: float | None = 0.0) -> SelectedFit:
        """Return the fit of the loss, of two classes at most, on some columns alone."""
        positive = float(self.classes_[1]) if find_loss(self.loss_).is_classifier else None
        return refit_selected(run, columns, MeanLoss(self.loss_, positive, ridge=ridge))

    def _set_selection(
        self, columns: np.ndarray, scores: np.ndarray, coef: np.ndarray, intercept: Any, others: float = 0.0
    ) -> None:
        """Set which columns are selected, by their scores, and their coefficients on the scale of the data.

        `others` is the score of the columns that are not selected. Of several classes `coef` has a row for each, and
        `intercept` a number.
        """
        self.made_ = None
        self.support_ = np.zeros(self._n_columns, dtype=bool)
        self.support_[columns] = True
        self.scores_ = np.full(self._n_columns, others)
        self.coef_ = np.zeros((*coef.shape[:-1], self._n_columns))
        self.scores_[columns], self.coef_[..., columns] = scores, coef
        self.intercept_ = intercept if np.ndim(intercept) else float(intercept)
        self.selected_ = columns[np.lexsort((columns, -scores))]

    def _set_made(self, made: MadeFeatures, scores: np.ndarray, coef: np.ndarray, intercept: Any) -> None:
        """Set which of a map's columns are selected, ascending in `made`, by their scores: see `_set_selection`."""
        order = np.lexsort((made.columns, -scores))
        self.made_, self.selected_ = made, made.columns[order]
        self.scores_, self.coef_ = scores[order], coef[..., order]
        self.support_ = np.zeros(self._n_columns, dtype=bool)
        self.support_[made.parents] = True
        self.intercept_ = intercept if np.ndim(intercept) else float(intercept)

    def _take_names(self, matrix: Matrix) -> None:
        self.n_features_in_ = self._n_columns = int(matrix.shape[1])
        self.encoder_, self._store_encoder = matrix.of_table, None
        if self.encoder_ is None:
            self._table_notes = ()
        if self.encoder_ is not None:
            names = [name for name in self.encoder_.names if name != self.encoder_.target]
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        elif not matrix.names.are_default and matrix.names.given is not None:
            self.feature_names_in_ = np.asarray(matrix.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def predict(self, X: Any) -> Any:
        """Predict the target from the selected features: its mean, or the likeliest label.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        ndarray of shape (n_samples,), or a lazy Dask array or Series
        """
        self._check_is_fitted()
        return self._respond(X, self.response)

    @property
    def response(self) -> Response:
        """What `predict` makes of the linear predictor ``X @ coef_ + intercept_``."""
        return mean_or_label(self.response_losses[0], getattr(self, "classes_", None))

    @property
    def response_losses(self) -> tuple[str, str]:
        """The losses by which the linear predictor becomes a mean or a label, and probabilities."""
        return self.loss_, self.loss_

    @available_if(_may_classify)
    def decision_function(self, X: Any) -> Any:
        """Return the linear predictor: with the logistic loss the logarithm of the odds of the second class.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        ndarray of shape (n_samples,), with more than two classes (n_samples, n_classes), or a lazy Dask collection
        """
        self._check_is_fitted()
        is_pair = np.ndim(self.intercept_) > 0 and len(self.classes_) == 2
        return self._respond(X, log_odds if is_pair else np.asarray)

    @available_if(_may_have_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : as in `fit`

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or a lazy Dask array
        """
        self._check_is_fitted()
        return self._respond(X, self._probabilities)

    @property
    def _probabilities(self) -> Response:
        """What `predict_proba` makes of the linear predictor."""
        return probabilities(self.response_losses[1], len(self.classes_))

    def predictor(self) -> LinearPredictor:
        """Return what makes the linear predictor ``X @ coef_ + intercept_`` of blocks of the columns that it names."""
        columns = np.flatnonzero(self.support_)
        if self.made_ is None:
            return LinearPredictor(columns, self.coef_[..., columns].T, self.intercept_)
        coef = self.coef_[..., np.argsort(self.selected_)].T
        return LinearPredictor(columns, coef, self.intercept_, self.made_)

    def _respond(self, X: Any, response: Response) -> Any:
        """Return a response to the linear predictor of every row; lazily where X is lazy."""
        predictor = self.predictor()
        columns = predictor.columns
        if is_lazy(X):
            return lazy_response(self._lazy_columns(X, columns), predictor, response)
        if is_matrix(X):
            check_width(X.shape[1], self._n_columns)
            return np.concatenate([response(predictor(block.X)) for block in X.row_blocks(columns=columns)])
        if (encoder := self._encoder_for(X)) is not None:
            return response(np.asarray(predictor(self._columns_of(X, columns, encoder))))
        from sklearn.utils.validation import validate_data

        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return response(np.asarray(predictor(X[:, columns])))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of the target's variance explained, R²; of a classifier, the share of labels that are right.

        Parameters
        ----------
        X : as in `fit`
        y : array-like of shape (n_samples,)
            None with a store that carries its target.
        sample_weight : array-like of shape (n_samples,), optional
        """
        if y is None and is_matrix(X):
            y, sample_weight = X.read_target(slice(None)), X.read_weight(slice(None))
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        prediction = np.asarray(self.predict(X))
        if find_loss(self.loss_).is_classifier:
            return accuracy(np.asarray(y), prediction, weight)
        return r2(np.asarray(y, dtype=float), prediction, weight)

    def stand_ins(self, X: Any, y: Any = None, sample_weight: Any = None, *, n_stand_ins: int = 3) -> pd.DataFrame:
        """Return which columns could take the selected ones' places, and what the loss would lose by it.

        Of bundles of columns that say nearly the same, one is selected, and with other rows it could be another: these
        are its stand-ins. All columns are read once. With the squared loss the numbers are exact, with others those of
        the parabola at the fit.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        n_stand_ins : int
            Of each selected column, those that lose least.

        Returns
        -------
        DataFrame
            A line for each pair, in the order of `selected_`: ``feature``, ``stand_in`` and ``index``, its column
            number; their ``correlation``; ``loss_increase``, of the mean loss of a fit with the stand-in in the
            feature's place; ``share_lost``, of what the feature contributes beside the others: 0 where the stand-in is
            as good, below where it is better, 1 where leaving the feature out is no worse; ``bundle``, a number that
            features share which are alike (correlation .9) or have a stand-in in common to which they are.

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
        from pandas import DataFrame

        self._check_is_fitted()
        if self.made_ is not None:
            raise ConfigError("no stand-ins of features that a map makes", "stand_ins", "fit without the map")
        columns = np.sort(self.selected_).astype(np.int64)
        with self._looked_at(X, y, sample_weight) as run:
            found = find_stand_ins(run, columns, self.loss_, n_stand_ins)
            names = [str(name) for name in run.matrix.names[columns]]
            swaps, dropped = found.swaps, found.dropped
            others = [[str(run.matrix.names[int(j)]) if j >= 0 else "" for j in line] for line in swaps.candidate]
        bundle, lines = bundles(columns, found), []
        for k in np.searchsorted(columns, self.selected_):
            of_each = zip(others[k], swaps.candidate[k], swaps.correlation[k], swaps.increase[k], strict=True)
            for stand_in, j, correlation, increase in of_each:
                share = increase / dropped[k] if dropped[k] > 0.0 else math.nan
                lines.append((names[k], stand_in, int(j), correlation, increase, share, int(bundle[k])))
        heads = ("feature", "stand_in", "index", "correlation", "loss_increase", "share_lost", "bundle")
        table = DataFrame(lines, columns=list(heads))
        return table[table["index"] >= 0].reset_index(drop=True)

    def signal_beyond(self, X: Any, y: Any = None, sample_weight: Any = None) -> SignalBeyond:
        """Return how much all columns together explain beyond the selected ones: whether many weak ones carry signal.

        By a ridge on all columns (their Gram matrix, of many columns a random projection of them), cross-validated on
        up to 2,000 rows; all columns of these are read once.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`

        Returns
        -------
        SignalBeyond
            ``selected`` and ``beyond``, shares of the target's variance, with an interval; printed, it says what it
            means.

        Raises
        ------
        ConfigError
            The features are made by a map.
        """
        self._check_is_fitted()
        if self.made_ is not None:
            raise ConfigError("not known of features that a map makes", "signal_beyond", "fit without the map")
        with self._looked_at(X, y, sample_weight) as run:
            columns, seed = np.sort(self.selected_).astype(np.int64), seed_of(self.random_state)
            return signal_beyond(run, columns, find_loss(self.loss_).is_classifier, seed)

    @contextmanager
    def _looked_at(self, X: Any, y: Any, sample_weight: Any) -> Iterator[Run]:
        """Give rows like those of the fit as a run."""
        loss, labels = self.loss_, getattr(self, "classes_", None)
        with self._opened(X, y, sample_weight, labels, is_first=False) as (matrix, _), self._run(matrix) as run:
            self.loss_ = loss
            yield run

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "coef_" in state:
            state.setdefault("loss_", state.get("loss", type(self).loss))  # pickled when there was no "auto"
            state.setdefault("_n_columns", state.get("n_features_in_"))  # nor an encoder
        super().__setstate__(state)

    def _check_is_fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)

    def _get_support_mask(self) -> np.ndarray:
        self._check_is_fitted()
        return self.support_

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        losses = _possible(self)
        classifies = [loss.is_classifier for loss in losses]
        if any(classifies):
            several = self.loss_choice is not None and self.loss_choice.several
            tags.classifier_tags = ClassifierTags(
                multi_class=several or any(loss.target == "classes" for loss in losses)
            )
        if not all(classifies):
            tags.regressor_tags = RegressorTags()
        if len({*classifies}) == 1:  # else the target says it
            tags.estimator_type = "classifier" if classifies[0] else "regressor"
        tags.target_tags.required = True
        tags.target_tags.positive_only = all(loss.target == "count" for loss in losses)
        tags.input_tags.sparse = True
        return tags
