"""What every selector offers: scikit-learn's face on all kinds of input, and the hooks of a pipeline.

How a fit goes, and where it stands:

    opening.Opens        what the user gives becomes a matrix, its target settles the loss: `_opened`
    BaseSelector         `fit` opens it, `fit_run` takes the names and has the method select: `_fit`, of a subclass
    resulting.Results    the method's attributes become `result_`, a refit takes their coefficients' place
    predicting.Predicts  what was fitted, `fitted.Fitted`, selects the columns of rows and predicts
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
from daskfs.watching.terminal import shown

if TYPE_CHECKING:
    import pandas as pd

SIZE = "n_features_to_select"
SEPARATED = (
    "there is no finite fit: the selected features separate the classes, or some rows of them (complete or "
    "quasi-complete separation); a weak ridge bounds the coefficients"
)


class BaseSelector(Opens, Results, metaclass=ABCMeta, kw_only=True):
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

    ridge_of_path: ClassVar[float | None] = None
    """Of the fits of fewer features, see `fit_path`; None: chosen from the data."""
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

    @abstractmethod
    def _fit(self, run: Run) -> None:
        """Select on the matrix of a run."""

    @abstractmethod
    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return what fitting a matrix of this shape will read and hold."""

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
        ahead = Budget({"requests in flight": ahead_nbytes} if ahead_nbytes else {})
        return replace(found, task=found.task + ahead)

    def _planned(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        """Return the plan of a fit, of the size that is asked for or of the choice of one, and of a refit."""
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
                name = type(self).__name__
                progress = stack.enter_context(shown(name=name, is_compiling=is_compiling))
                n_samples, n_features = matrix.shape
                size = f"{name}: {n_samples:,} samples x {n_features:,} features, loss {self.loss_}"
                for line in (size, *self._table_notes, *filter(None, [self._loss_note])):
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
            self._take_refit(run)
        return self

    @property
    def is_nested(self) -> bool:
        """Whether one fit holds the selections of fewer features, see `fit_path`; with these parameters.

        By default where no number of features is asked for, and so one fit has all there are to choose from.
        """
        return SIZE not in self._parameter_owners

    def _path_order(self, run: Run) -> np.ndarray:
        """Return the columns of a fit on a run in the order in which fewer of them are selected, the first first."""
        return self.selected_

    def fit_path(self, run: Run, sizes: Sequence[int], tolerance: float = TOLERANCE) -> list[Self]:
        """Return this selector fitted for each of several numbers of features.

        Where one fit holds the answers (`is_nested`) the last is that fit, and the others have the first of its
        features in the order of the method, with the loss fitted on them by a ridge that the data choose, or by the
        refit that is asked for. Else there is a fit for each.

        Parameters
        ----------
        run : Run
        sizes : sequence of int
            Ascending.
        tolerance : float
            Of the fits of fewer features, see `MeanLoss.tolerance`.
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
        """Return a selector like this one that selects so many features, where a number can be asked for."""
        found = copy(self)
        if SIZE in self._parameter_owners:
            found.n_features_to_select = size  # type: ignore[attr-defined]
        return found

    def _with(self, columns: np.ndarray, fit: ClassFits) -> Self:
        """Return this fitted selector with some of its columns selected, and another fit of these."""
        found, scores = copy(self), self.scores_[columns]
        found._set_selection(columns, scores, fit.coef, fit.intercept)
        found.selected_, found.scores_, found.loss_ = columns, np.array(self.scores_), fit.loss
        return found

    @property
    def _chooses_size(self) -> bool:
        """Whether cross-validation is to say how many features."""
        asked = getattr(self, SIZE, None)
        return isinstance(asked, Mapping) or bool(asked == CV)

    def _refuse_second_look(self, where: str) -> None:
        """Refuse to choose the size, or to refit, where rows or columns come once."""
        if self._refits:
            problem = f"{self.refit!r} reads the selected columns of all rows again, {where} once"
            raise ConfigError(problem, "refit", "leave it out, or use fit")
        if self._chooses_size:
            raise ConfigError(f"'cv' reads all rows several times, {where} once", SIZE, "give a number, or use fit")

    def _fit_chosen_size(self, run: Run) -> None:
        """Select as many features as cross-validation says."""
        search, seed = SizeSearch.of(getattr(self, SIZE)), seed_of(self.random_state)
        rows = run.over(weighted_rows(run.matrix))
        largest = search.sizes_of(*rows.matrix.shape, self.n_included)[-1]
        recipe = Recipe.of(self, n_features_to_select=largest, random_state=seed)
        found = search.fit(rows, recipe, self.loss_, seed)
        kept = {*self._parameter_owners, "is_silent"}
        self.__dict__.update({name: value for name, value in vars(found.selector).items() if name not in kept})
        self.n_features_to_select_, self.cv_results_ = found.size, found.curve.results()
        chosen = {SIZE: found.size, "metric": found.curve.metric, **found.search.words()}
        told = found.told
        if self._refits:
            told["notes"].append(
                f"refit ({self.refit}): coef is of a fit to the selected features alone, in each fold too"
            )
        self.result_ = self._result_of(run, history_kind="cross-validation", chosen=chosen, **told)

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

        check_is_fitted(self)
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
                share = increase / dropped[k] if dropped[k] > 0.0 else np.nan
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
        check_is_fitted(self)
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
