"""What every selector offers: scikit-learn's face on all kinds of input, and the hooks of a pipeline."""

from __future__ import annotations

from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags

from daskfs import interrupts
from daskfs.cluster.open import workers_of
from daskfs.cluster.workers import Workers
from daskfs.dashboard.shown import on_dashboard
from daskfs.errors import ConfigError, PlanError
from daskfs.kernels.jit import is_compiling
from daskfs.losses import LOSSES, PLAIN_NUMBERS, TargetKind, find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Crowding
from daskfs.matrix.names import Names
from daskfs.matrix.target import kind_of_target
from daskfs.parameters import Client, MemoryLimit, RandomState, RefitBy, TableSchemaGiven, Verbose
from daskfs.selectors.asking import Asked
from daskfs.selectors.predicting import Predicts
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import SizeSearch
from daskfs.selectors.shared.refit import MeanLoss, SelectedFit, refit_selected
from daskfs.selectors.shared.run import Checkpoint, Run
from daskfs.selectors.shared.targets import checked_target, classes_of
from daskfs.selectors.sizes import SIZE, FitsSizes
from daskfs.selectors.transforming import TransformsInMemory
from daskfs.watching.base import Progress
from daskfs.watching.terminal import shown

SEPARATED = (
    "there is no finite fit: the selected features separate the classes, or some rows of them (complete or "
    "quasi-complete separation); a weak ridge bounds the coefficients"
)


class BaseSelector(Asked, Predicts, FitsSizes, TransformsInMemory, BaseEstimator, kw_only=True):
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
    refit : {"none", "ols", "ridge", "elastic"}
        Coefficients of the selected features: the method's own, or those of a fit of the loss to these features alone,
        without a penalty, with a ridge that the data choose, or with that ridge and an l1 penalty by the loss on rows
        held out. Classes are then told from the rest, each by itself.
    verbose : bool
        Show how a fit goes on: a bar in a terminal, an output in a notebook, elsewhere a line a minute; with a client
        on Dask's dashboard too.
    """

    random_state: RandomState = 0
    memory_limit: MemoryLimit = None
    client: Client = None
    schema: TableSchemaGiven = None
    refit: RefitBy = "none"
    verbose: Verbose = False

    _weighs_columns: ClassVar[bool] = False
    """Whether what is selected depends on `daskfs.matrix.base.Matrix.column_weights`, of columns as they are."""

    @property
    def weighs_columns(self) -> bool:
        """Whether weights of columns mean something to this selector."""
        return self._weighs_columns and self._units_by is None

    @property
    def _units_by(self) -> str | None:
        """The parameter, given, by which other things than single columns are selected; None: columns are."""
        return None

    def _repr_mimebundle_(self, **asked: Any) -> dict[str, Any]:
        """Return what a notebook shows: scikit-learn's diagram, of a fitted selector with its result."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**asked)
        if "text/html" in bundle and hasattr(self, "result_"):
            bundle["text/html"] += self.result_._repr_html_()
        return bundle

    def check_parameters(self) -> None:
        """Refuse what a parameter, or several together, cannot be; see `Parameters.check_parameters`."""
        super().check_parameters()
        if self._chooses_size:
            SizeSearch.of(getattr(self, SIZE)).check(self.n_included)
        if self.loss in LOSSES:
            self._check_loss(LOSSES[self.loss])
        if self._chooses_size and self._units_by is not None:
            remedy = "give sizes: SelectionCV(selector, sizes=[...])"
            raise ConfigError(f"'cv' tries numbers of columns, not what {self._units_by} makes of them", SIZE, remedy)

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
        planned = copy(self)  # `loss_` is of a fit, or of this plan
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

    def _taken_for(self, matrix: Matrix) -> list[str]:
        """Return what the data of a fit were taken for, in lines."""
        n_samples, n_features = matrix.shape
        size = f"{type(self).__name__}: {n_samples:,} samples x {n_features:,} features, loss {self.loss_}"
        return [size, *self._table_notes, *filter(None, [self._loss_note])]

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

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "coef_" in state:
            state.setdefault("loss_", state.get("loss", type(self).loss))  # pickled when there was no "auto"
            state.setdefault("_n_columns", state.get("n_features_in_"))  # nor an encoder
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
        if len({*classifies}) == 1:  # else the target says it
            tags.estimator_type = "classifier" if classifies[0] else "regressor"
        tags.target_tags.required = True
        tags.target_tags.positive_only = all(loss.target == "count" for loss in losses)
        tags.input_tags.sparse = True
        return tags
