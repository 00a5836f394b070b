"""The base class of all selectors: scikit-learn's interface for all kinds of input, and the hooks of a pipeline.

The steps of a fit, and where they are:

    opening.Opens        makes a matrix of the user's data and settles the loss by the target: `_opened`
    BaseSelector         `fit` opens the data, `fit_run` takes the names and calls the method of a subclass: `_fit`
    resulting.Results    makes `result_` from the method's attributes; a refit replaces the coefficients
    predicting.Predicts  selects columns of rows, and predicts, from what was fitted: `fitted.Fitted`
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.validation import check_is_fitted

from daskfs import interrupts
from daskfs.cluster.open import parse_bytes, workers_of
from daskfs.cluster.workers import Workers
from daskfs.dashboard.shown import on_dashboard
from daskfs.errors import ConfigError, PlanError
from daskfs.kernels.jit import announced, is_compiling
from daskfs.losses import LOSSES, PLAIN_NUMBERS, TargetKind, find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Crowding
from daskfs.matrix.names import Names
from daskfs.matrix.target import kind_of_target
from daskfs.parameters import CV, Client, MemoryLimit, RandomState, RefitBy, TableSchemaGiven, Verbose
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.opening import Opens
from daskfs.selectors.resulting import PENALTIES, Results, refit_budget
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.cross_validation import SizeSearch
from daskfs.selectors.shared.refit import (
    TOLERANCE,
    ClassFits,
    MeanLoss,
    SelectedFit,
    fit_each_size,
    refit_selected,
)
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Checkpoint, Run
from daskfs.selectors.shared.samples import Recipe
from daskfs.selectors.shared.signal_beyond import SignalBeyond, signal_beyond
from daskfs.selectors.shared.stand_ins import bundles, find_stand_ins
from daskfs.selectors.shared.targets import checked_target, classes_of
from daskfs.watching.base import Progress
from daskfs.watching.terminal import say_compiling, shown

if TYPE_CHECKING:
    import pandas as pd

SIZE = "n_features_to_select"
SEPARATED = (
    "there is no finite fit: the selected features separate the classes, or some of their rows (complete or "
    "quasi-complete separation); a weak ridge bounds the coefficients"
)


class BaseSelector(Opens, Results, metaclass=ABCMeta, kw_only=True):
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
        by the held-out loss. Several classes are then fitted one against the rest.
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
        if self._chooses_size:
            SizeSearch.of(getattr(self, SIZE)).check(self.n_included)
        if self.loss in LOSSES:
            self._check_loss(LOSSES[self.loss])
        if self._chooses_size and self._units_by is not None:
            remedy = "use SelectionCV(selector, sizes=[...])"
            raise ConfigError(f"'cv' counts columns, and cannot be used with {self._units_by}", SIZE, remedy)

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
        """Return the plan of a fit, including the choice of the size and a refit if requested."""
        if self._chooses_size:
            search = SizeSearch.of(getattr(self, SIZE))
            largest = search.sizes_of(shape.n_samples, shape.n_features, self.n_included)[-1]
            found = search.plan(Recipe.of(self, n_features_to_select=largest), shape, limits)
        else:
            found, largest = self._plan(shape, limits), self._n_asked or 0
        if not self._refits:
            return found
        text = f"{found.text}; then a refit ({self.refit}) on the selected features"
        return replace(found, client=found.client + refit_budget(largest, shape, limits), text=text)

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
        if self._chooses_size:
            self._fit_chosen_size(run)
        else:
            self._fit(run)
            self._take_refit(run)
        return self

    @property
    def is_nested(self) -> bool:
        """Whether one fit contains the selections of fewer features (see `fit_path`), with these parameters.

        By default this is so if the method has no number of features, so that one fit has all that can be chosen.
        """
        return SIZE not in self._parameter_owners

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
        order, is_asked = largest._path_order(run), SIZE in self._parameter_owners
        smaller = sorted({min(size, len(order)) for size in sizes if size < len(order) or not is_asked} - {0})
        penalty = PENALTIES[self.refit] if self._refits else {"ridge": self.ridge_of_path}
        penalty = penalty | {"free": largest.included_columns(run.matrix)}
        fits = []
        if smaller:
            fits = fit_each_size(run, order[: max(smaller)], smaller, self.loss_, tolerance=tolerance, **penalty)
        found = {size: largest._with(order[:size], fit) for size, fit in zip(smaller, fits, strict=True)}
        return [found.get(min(size, len(order)), largest) for size in sizes]

    def _of_size(self, size: int) -> Self:
        """Return a selector like this one that selects so many features, if it has such a parameter."""
        found = copy(self)
        if SIZE in self._parameter_owners:
            found.n_features_to_select = size  # type: ignore[attr-defined]
        return found

    def _with(self, columns: np.ndarray, fit: ClassFits) -> Self:
        """Return this fitted selector with only some of its columns, and with another fit of these."""
        found, scores = copy(self), self.scores_[columns]
        found._set_selection(columns, scores, fit.coef, fit.intercept)
        found.selected_, found.scores_, found.loss_ = columns, np.array(self.scores_), fit.loss
        return found

    @property
    def _chooses_size(self) -> bool:
        """Whether cross-validation chooses the number of features."""
        asked = getattr(self, SIZE, None)
        return isinstance(asked, Mapping) or bool(asked == CV)

    def _refuse_second_look(self, where: str) -> None:
        """Refuse the choice of the size, or a refit, when rows or columns can be read only once."""
        if self._refits:
            problem = f"{self.refit!r} reads the selected columns of all rows again, but {where} only once"
            raise ConfigError(problem, "refit", "leave it out, or use fit")
        if self._chooses_size:
            problem = f"'cv' reads all rows several times, but {where} only once"
            raise ConfigError(problem, SIZE, "set a number, or use fit")

    def _fit_chosen_size(self, run: Run) -> None:
        """Select as many features as cross-validation chooses."""
        search, seed = SizeSearch.of(getattr(self, SIZE)), seed_of(self.random_state)
        rows = run.over(weighted_rows(run.matrix))
        largest = search.sizes_of(*rows.matrix.shape, self.n_included)[-1]
        recipe = Recipe.of(self, n_features_to_select=largest, random_state=seed)
        found = search.fit(rows, recipe, self.loss_, seed)
        kept = {*self._parameter_owners, "is_silent"}
        self.__dict__.update({name: value for name, value in vars(found.selector).items() if name not in kept})
        self.n_features_to_select_, self.cv_results_ = found.size, found.curve.results()
        chosen = {SIZE: found.size, "metric": found.curve.metric, **found.search.words()}
        arguments = found.result_arguments
        if self._refits:
            arguments["notes"].append(
                f"refit ({self.refit}): coef comes from a fit to the selected features only, in each fold too"
            )
        self.result_ = self._result_of(run, history_kind="cross-validation", chosen=chosen, **arguments)

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
        from pandas import DataFrame

        check_is_fitted(self)
        if self.made_ is not None:
            raise ConfigError("features made by a map have no stand-ins", "stand_ins", "fit without the map")
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
                share = increase / dropped[k] if dropped[k] > 0.0 else np.nan
                lines.append((names[k], stand_in, int(j), correlation, increase, share, int(bundle[k])))
        heads = ("feature", "stand_in", "index", "correlation", "loss_increase", "share_lost", "bundle")
        table = DataFrame(lines, columns=list(heads))
        return table[table["index"] >= 0].reset_index(drop=True)

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
        check_is_fitted(self)
        if self.made_ is not None:
            raise ConfigError("is not available for features made by a map", "signal_beyond", "fit without the map")
        with self._looked_at(X, y, sample_weight) as run:
            columns, seed = np.sort(self.selected_).astype(np.int64), seed_of(self.random_state)
            return signal_beyond(run, columns, find_loss(self.loss_).is_classifier, seed)

    @contextmanager
    def _looked_at(self, X: Any, y: Any, sample_weight: Any) -> Iterator[Run]:
        """Open rows like those of the fit, as a run."""
        loss, labels = self.loss_, getattr(self, "classes_", None)
        with self._opened(X, y, sample_weight, labels, is_first=False) as (matrix, _), self._run(matrix) as run:
            self.loss_ = loss
            yield run

    def _target_and_weight(self, matrix: Matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the target and weights of all rows; two classes are learnt here and coded as -1 and +1."""
        y, given = checked_target(matrix, self.loss_), matrix.read_weight(slice(None))
        weight = np.ones(len(y)) if given is None else np.array(given, dtype=np.float64)
        if find_loss(self.loss_).is_classifier:
            self.classes_ = classes_of(y[weight > 0.0], None)
            y = np.where(y == self.classes_[1], 1.0, -1.0)
        return np.array(y, dtype=np.float64), weight

    def _refitted(self, run: Run, columns: np.ndarray, ridge: float | None = 0.0) -> SelectedFit:
        """Return the fit of the loss, with at most two classes, on some columns only."""
        positive = float(self.classes_[1]) if find_loss(self.loss_).is_classifier else None
        return refit_selected(run, columns, MeanLoss(self.loss_, positive, ridge=ridge))

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
