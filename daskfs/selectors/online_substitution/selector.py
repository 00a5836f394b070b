r"""Online substitution: choose s features out of a stream of columns, holding s of them.

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
Algorithm and Its Asynchronous Parallel Variation", KDD 2016, in the later text's form: the check of line 12 is not in
the proceedings (``check=False``). ``rule="paper"`` is this box; ``standardise=False, fit_intercept=False`` makes it the
letter. Two more rules share the stream and the memory and have nothing to tune:

``rule="os"``        the box in standardised columns, with the step 1 / λmax(X_Sᵀ X_S / n) for members and Newton's for
                     the newcomer, the least standardised weight dropped, and accepted where f does not rise
``rule="exchange"``  the default: the newcomer is added exactly, the inverse of the members' products being updated; the
                     member whose removal then costs least gives way if it costs less than the newcomer gains

Differs from the paper
----------------------
* `exchange` and `os` see columns standardised, so that a column's unit does not decide; `paper` does so by default too.
* The intercept is fitted: columns and target are centred, or with another loss its part is profiled out.
* L_F is a bound of κ λmax over S ∪ {j}, κ the most that the loss curves: the paper asks for a constant.
* `exchange` refuses a newcomer that the members explain up to `tolerance` of its variance.
* With a loss other than the squared one `exchange` decides on a block of columns with the parabola of the loss at the
  point before the block, then takes Newton steps on the true loss, and undoes the block if the true loss rose.
  A small ridge keeps the gradient alive where the members tell the classes apart (`ridge`).
* The coefficients returned are the fit of the loss on the selected columns, without ridge.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from daskfs.errors import ConfigError, DataError
from daskfs.kernels.substitution.products import NO_WEIGHT
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.parameters import ColumnOrder, Columns, Count, NotNegative, Positive, Share
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.online_substitution.arrivals import Arrivals, ArrivedColumns, coded
from daskfs.selectors.online_substitution.columns import ColumnSettings
from daskfs.selectors.online_substitution.engines.base import Engine
from daskfs.selectors.online_substitution.engines.choose import make_engine
from daskfs.selectors.online_substitution.engines.point import loss_settings
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.notes import notes_on, result_of
from daskfs.selectors.online_substitution.parameters import (
    MAX_DEFAULT_FEATURES,
    SmoothLoss,
    chapter_of,
    columns_of,
    engine_of,
    n_to_select,
    rule_of,
)
from daskfs.selectors.online_substitution.plan import Reading, SubstitutionShape, choose_reading, plan_substitution
from daskfs.selectors.online_substitution.refit import refit_members
from daskfs.selectors.online_substitution.stream import ROUND_CHAPTERS, SubstitutionRun
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.responses import CLASSIFIERS, TWO_CLASS
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of


class OnlineSubstitution(BaseSelector):
    """Select features out of a stream of columns, holding no more columns than are asked for.

    Parameters
    ----------
    n_features_to_select : int, optional
        The paper's s; by default half of the features and at most 100. Exactly so many are selected, unless fewer
        columns are neither constant nor combinations of others.
    rule : {"exchange", "os", "paper"}
        What decides on a newcomer; see the module.
    loss : {"squared", "logistic", "squared_hinge", "epsilon_insensitive"}
        The last is ½ max(0, |z - y| - epsilon)², that of support vector regression made smooth.
    n_epochs : int
        How often all columns are presented, at most; an epoch in which nobody enters is the last.
    order : {"fixed", "shuffled"} or array of int
        In which order columns come: as they stand, in another random order in each epoch (groups of 1,024 neighbours,
        so that a tile is read once, and at random within a group), or the one given, which may leave columns out.
    check : bool
        Whether the rules "os" and "paper" refuse a newcomer with which the loss does not fall enough.
    engine : {"auto", "gram", "lazy", "naive"}
        How products are come by. "gram": of a block at once, the same decisions as "naive", which takes one column
        after the other; "lazy": of those columns alone whose gradient could pay.
    schedule : {"sequential", "screen"}
        "screen": tasks return the candidates of their columns against the prediction of before the round, and the
        exchanges happen in one place; the answer does not depend on the number of workers.
    standardise : bool
        Whether columns are divided by their standard deviation on the way.
    fit_intercept : bool
        Whether there is an intercept.
    ridge : float, optional
        λ₂, added to the curvature of every standardised weight; by default 0 with the squared loss and the paper's
        rule, else in parts of the most that the loss curves 0.03 with classes and 0.001 with numbers.
    epsilon : float, optional
        Of the epsilon-insensitive loss; by default a tenth of the target's standard deviation.
    eta : float, optional
        Step of the paper's rule; by default 0.5 / L_F.
    m : float
        By which the paper's rule divides the step of the selected features.
    c : float
        Constant of the paper's check.
    lipschitz : float, optional
        L_F of the paper's rule; by default bounded from the selected features' products.
    tolerance : float, optional
        Share of a newcomer's variance that the members must leave unexplained; 1e-3.
    always_include : array of int or str, optional
        Columns, by number or name, that are selected whatever else; they count among `n_features_to_select`.
    block_columns : int, optional
        Columns decided on with one set of products; by default 32 to 128, no more than members.
    random_state : int, RandomState or None
        Of the shuffled order.
    memory_limit : int or str, optional
        What the selection may take beside the process itself; blocks are read narrower where it is short.
    client : distributed.Client, optional
        Where screening tasks run; None: here.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, those always included and then the rest by what dropping them would cost.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,)
        On the scale of the data, 0 where not selected.
    intercept_ : float
    classes_ : ndarray of shape (2,)
        With a loss of classes.
    scores_ : ndarray of shape (n_features,)
        What the mean loss would rise by if the column were dropped (half its squared weight with other losses than the
        squared one); NaN where not selected.
    n_epochs_ : int
        Epochs begun.
    result_ : SelectionResult
        Its history has one line per block: the epoch, newcomers presented so far, members, exchanges, newcomers
        refused, blocks undone, and the objective.

    Notes
    -----
    Memory: the members, s columns of n values in the store's dtype (int8 stays int8 with engine "gram" and "lazy" of
    the squared loss; else it becomes float32), a block of columns and the next one, 3 s² and ten n numbers. Time per
    column: 2 n s multiplications of products, s² of decisions. One pass over the columns per epoch, none beside.

    `partial_fit` takes more columns, not more rows.

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
    score_kind = "loss increase"
    history_kind = "blocks of columns"

    n_features_to_select: Count | None = None
    rule: Literal["exchange", "os", "paper"] = "exchange"
    loss: SmoothLoss = "squared"
    n_epochs: Count = 3
    order: Literal["fixed", "shuffled"] | ColumnOrder = "fixed"
    check: bool = True
    engine: Literal["auto", "gram", "lazy", "naive"] = "auto"
    schedule: Literal["sequential", "screen"] = "sequential"
    standardise: bool = True
    fit_intercept: bool = True
    ridge: NotNegative | None = None
    epsilon: NotNegative | None = None
    eta: Positive | None = None
    m: Annotated[float, Ge(1)] = 1.0
    c: Share = 0.5
    lipschitz: Positive | None = None
    tolerance: Share | None = None
    always_include: Columns = None
    block_columns: Count | None = None

    def _check_combination(self) -> None:
        engine, loss, rule = self.engine, self.loss, self.rule
        if engine == "gram" and loss != "squared" and rule != "exchange":
            problem = f"the rule {rule!r} with the loss {loss!r} has no products that would stay valid"
            raise ConfigError(problem, "engine", "use 'auto'")
        if engine == "lazy" and rule == "paper":
            problem = "the paper's rule moves the members at every column: it cannot wait"
            raise ConfigError(problem, "engine", "use 'auto'")
        if self.schedule == "screen" and rule != "exchange":
            raise ConfigError(f"expected the rule 'exchange', found {rule!r}", "schedule", "leave it 'sequential'")

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        tile_columns = shape.tile_shape[1] if shape.tile_shape else 1
        sizes = self._shape(shape.n_samples, shape.n_features, shape.dtype, tile_columns)
        return plan_substitution(sizes, limits.task_nbytes)

    def _shape(self, n_samples: int, n_features: int, dtype: np.dtype, tile_columns: int) -> SubstitutionShape:
        n_selected = n_to_select(self.n_features_to_select, n_features)
        return SubstitutionShape(
            n_samples=n_samples,
            n_features=n_features,
            n_selected=n_selected,
            itemsize=self._settings().dtype_of(dtype).itemsize,
            stored_itemsize=dtype.itemsize,
            chapter=chapter_of(self.block_columns, n_selected),
            tile_columns=tile_columns,
            n_epochs=self.n_epochs,
            n_screened=chapter_of(self.block_columns, n_selected) * ROUND_CHAPTERS if self.schedule == "screen" else 0,
        )

    def _settings(self) -> ColumnSettings:
        keeps_int8 = self.loss == "squared" and self.standardise
        keeps_int8 &= self.rule == "exchange" or engine_of(self) == "gram"
        return ColumnSettings(self.fit_intercept, self.standardise, keeps_int8)

    def partial_fit(self, X: Any, names: Any = None, y: Any = None, sample_weight: Any = None) -> OnlineSubstitution:
        """Take more columns, not more rows: features that arrive over time, or are asked for block by block.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_columns)
            New columns of the same rows, in the same order.
        names : sequence of str, optional
            Of these columns; those of a DataFrame, else x0, x1, ... in the order of arrival.
        y : array-like of shape (n_samples,)
            The target; with the first block.
        sample_weight : array-like of shape (n_samples,), optional
            With the first block.

        Returns
        -------
        self

        Raises
        ------
        DataError
            No target with the first block, other rows, names that stand twice.

        Notes
        -----
        Columns are numbered as they arrive, and presented once; what is not among the members is gone. Columns that
        `always_include` names must be in the first block. Without `n_features_to_select`, 100 are held. The selector
        keeps the members and pickles with them.
        """
        if names is None and hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
            names = list(X.columns)
        always = np.empty(0, np.int64)
        if not hasattr(self, "_arrivals"):
            if y is None:
                raise DataError("expected the target with the first block, found none", "partial_fit", "pass y=")
            self.check_parameters()
            labels, y = coded(y) if self.loss in CLASSIFIERS else (None, y)
            first = ArrayMatrix(X, y, sample_weight, names)
            always = columns_of(self.always_include, first.shape[1], first.names.given, "always_include")
            self._arrivals = self._expect(first)
            self._labels = labels
        arrivals = self._arrivals
        arrivals.take(X, names, always)
        self._take_names(arrivals.matrix)
        self._conclude(arrivals.matrix, arrivals.y, arrivals.run, 0, None)
        if self._labels is not None:
            self.classes_ = self._labels
        return self

    def _expect(self, first: ArrayMatrix) -> Arrivals:
        """Return the state before the first column."""
        y, weight = self._target(first)
        n_samples, n_selected = first.shape[0], self.n_features_to_select or MAX_DEFAULT_FEATURES
        settings = replace(self._settings(), keeps_int8=False)
        members = Members(n_selected, n_samples, settings.dtype_of(first.dtype), weight)
        chapter = chapter_of(self.block_columns, n_selected)
        matrix = ArrivedColumns(n_samples, members.rows.dtype)
        run = SubstitutionRun(matrix, self._engine(members, y), settings, Reading(chapter, 0, 0), chapter, weight)
        return Arrivals(run, matrix, y)

    def _fit(self, run: Run) -> None:
        matrix, limit = run.matrix, run.task_limit
        self.__dict__.pop("_arrivals", None)
        y, weight = self._target(matrix)
        n_samples, n_features = matrix.shape
        tile_rows, tile_columns = matrix.tile_shape
        tile_columns = tile_columns if tile_rows > 1 else 1  # rows in memory are no tiles
        shape = self._shape(n_samples, n_features, np.dtype(matrix.dtype), tile_columns)
        reading = choose_reading(shape, limit)
        always = columns_of(self.always_include, n_features, matrix.names.given, "always_include")
        order = self.order if isinstance(self.order, str) else columns_of(self.order, n_features, None, "order")
        members = Members(shape.n_selected, n_samples, self._settings().dtype_of(matrix.dtype), weight)
        screeners = run.workers if self.schedule == "screen" else None
        engine, chapter = self._engine(members, y), shape.chapter
        stream = SubstitutionRun(
            matrix, engine, self._settings(), reading, chapter, weight, run.progress, run.checkpoint, screeners
        )
        done = stream.resume()
        if done == (0, 0):
            stream.always(always)
        stream.epochs(self.n_epochs, order, seed_of(self.random_state), done)
        self._conclude(matrix, y, stream, reading.nbytes, limit)

    def _engine(self, members: Members, y: np.ndarray) -> Engine:
        weight = members.weight if len(members.weight) else None
        self._loss = loss_settings(self.loss, y, weight, self.epsilon, self.fit_intercept)
        return make_engine(members, y, rule_of(self), engine_of(self), self._loss, self.block_columns)

    def _target(self, matrix: Matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return the target, classes as -1 and +1, centred with the squared loss; and the weights."""
        y = np.require(checked_target(matrix, self.loss), dtype=np.float64, requirements=["C", "W"])
        found = matrix.read_weight(slice(None))
        weight = NO_WEIGHT if found is None else np.require(found, dtype=np.float64, requirements=["C", "W"])
        if found is not None and not weight.any():
            raise DataError("expected a positive weight, found none", "sample_weight", "check the weights")
        self._location = 0.0
        if self.loss in TWO_CLASS:
            self.classes_ = classes_of(y, None)
            return np.where(y == self.classes_[1], 1.0, -1.0), weight
        if self.loss == "squared" and self.fit_intercept:
            self._location = float(np.average(y, weights=weight if len(weight) else None))
            y = y - self._location
        return y, weight

    def _conclude(self, matrix: Matrix, y: np.ndarray, run: SubstitutionRun, promised: int, limit: int | None) -> None:
        """Name the members, fit the loss on them, make the result."""
        engine, members = run.engine, run.engine.members
        finished = engine.finish()
        k, n_features = members.n_members, matrix.shape[1]
        order = np.lexsort((members.ids[:k], -finished.costs, np.arange(k) >= members.n_fixed))
        self.selected_ = members.ids[:k][order]
        self.support_ = np.zeros(n_features, bool)
        self.support_[self.selected_] = True
        self.scores_ = np.full(n_features, np.nan)
        self.scores_[members.ids[:k]] = finished.costs
        self.coef_ = np.zeros(n_features)
        notes = notes_on(self, run, matrix)
        raw, self.intercept_, is_separable = refit_members(
            members, finished, y, self._location, self._loss, self.fit_intercept, limit
        )
        self.coef_[members.ids[:k]] = raw
        if is_separable:
            notes.append("the selected features tell the classes apart without error: a weak ridge bounds the fit")
        self.n_epochs_ = run.n_epochs
        self.result_ = result_of(self, run, matrix, promised, limit, notes)
