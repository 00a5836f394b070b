"""MISSION: stochastic gradient descent in a count-sketch, with the names of the top features.

    Input: rows (X, y), number of features k, learning rates λ_t
    1. Sketch S = 0, active features A = {}, β = 0.
    2. For each row i: predict z = β_0 + Σ_{j in A} β_j x_ij.
    3. Gradient of the loss in every non-zero feature j of the row: g_j = ℓ'(z, y_i) x_ij.
       Active: β_j -= λ_t g_j. Others: UPDATE(S, j, -λ_t g_j).
    4. If |QUERY(S, j)| >= τ: j becomes active with β_j = QUERY(S, j), and leaves the sketch.
    5. After each block of rows: the k largest |β_j| stay active, τ is the smallest of them; the others return,
       UPDATE(S, j, β_j). The content of the sketch decays: S *= 2^(-rows / half-life).
    6. Second moments of the active features, which are more than k: forward selection of k on them.
    7. Refit on the selected features.
    Return A, β

After algorithm 1 of A. Aghazadeh, R. Spring, D. LeJeune, G. Dasarathy, A. Shrivastava and R. G. Baraniuk, "MISSION:
Ultra Large-Scale Feature Selection using Count-Sketches", Proceedings of the 35th International Conference on Machine
Learning (2018). ``variant="paper"`` is that algorithm, ``heap=True`` is the authors' program for it, and
``tail="identity"`` is section 5.1 of the paper, with one cell for each feature:

    1. Sketch S = 0, β = 0; with several classes, S and β of each.
    2. For each row i: UPDATE(S, j, -λ g_j) for every non-zero feature j of the row.
    3. β = the k largest of QUERY(S, j) over the active features and those of the row.
    Return β

with the constant rate λ = 0.5 of its experiments (the paper gives none for the squared loss, so the default below is
used), in one pass, and without intercept, decay, standardisation or refit unless requested. One step differs from the
text of algorithm 1: the top k of a whole sketch cannot be listed without all ids, so inactive features are queried when
a row has them. This is what a top-k heap with a count-sketch does, as sections 1 and 7 of the paper describe.

Differs from the paper
----------------------
With the default variant:

* Active features have exact weights (as in K. S. Tai, V. Sharan, P. Bailis and G. Valiant, "Sketching linear
  classifiers over data streams", SIGMOD 2018). In the paper's algorithm they share cells with others, so features
  without weight look heavy: about 1.5 d (k / w)² of d features in a sketch of three rows of w cells.
* The active features are selected again every `block_rows` rows, not after each row. In between, up to max(k, 1,024)
  further features that reached the threshold take part in predictions.
* With several classes the k features are the same for all, chosen by the norm of their weights. The paper has k for
  each class, as with `per_class`.
* Features in ``always_include`` are active from the first row on and never return to the sketch. In step 6 the target
  and the candidates are regressed on them first.
* The tail decays (section 5.1 of the paper scales it by hand). Otherwise a second pass makes the selection worse:
  features outside the active set accumulate updates from residuals that they never reduce.
* The intercept starts at the model without features and learns at a hundredth of the rate; the paper has none.
* The rate is computed from the rows: c / mean ‖x‖². It falls as 1 / sqrt(1 + t / T): with several passes T is 0.2 n, in
  one pass or a stream the number of rows in which a feature occurs 256 times, on average.
* Step 6: a weight says what a feature carries in addition to all other active features, so that the features of a
  correlated bundle share it. If k is small, k of some 400 features are chosen by exact moments.
* Step 7: without a refit, the weights of stochastic descent depend on how often a feature occurred.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, Self, cast

import numpy as np

from daskfs import errors, interrupts
from daskfs.cluster.open import parse_bytes
from daskfs.cluster.workers import Here, Workers
from daskfs.losses import ROW_BY_ROW, Loss, find_loss
from daskfs.matrix.base import Matrix
from daskfs.matrix.incoming import Facts
from daskfs.matrix.passing import Passing
from daskfs.metrics import accuracy, r2
from daskfs.parameters import ClassWeights, Columns, Count, LossOf, Positive, PowerOfTwo, Share, n_to_select
from daskfs.selectors.from_blocks import TakesRowBlocks
from daskfs.selectors.included import IncludesColumns
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.mission.arriving import Arriving
from daskfs.selectors.mission.configuration import DEFAULT_N_SELECTED, Configuration, n_outputs_of
from daskfs.selectors.mission.entries import BLOCK_NNZ, BLOCK_ROWS, MOST_IDS, linear_predictor, rows_of
from daskfs.selectors.mission.feature_names import FeatureNames
from daskfs.selectors.mission.fit import MissionFit, begin, encode_target, refuse_new_classes
from daskfs.selectors.mission.passes import learn
from daskfs.selectors.mission.plan import n_surveyed, plan_mission, plan_of_source
from daskfs.selectors.mission.refit import Refit, choose, refit
from daskfs.selectors.mission.results import results_of
from daskfs.selectors.mission.saved import (
    Gone,
    arrays_of,
    data_of,
    load_arrays,
    notes_of,
    save_arrays,
    stream_of,
)
from daskfs.selectors.mission.stream import Learner, Passage, Stream, Tell, learn_parts
from daskfs.selectors.predictor import LinearPredictor
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.responses import Response
from daskfs.selectors.shared.rows import in_random_order, weighted_rows
from daskfs.selectors.shared.run import Checkpoint, Run
from daskfs.selectors.shared.targets import checked_target
from daskfs.selectors.sized import SelectsSize
from daskfs.sources.sparse.base import SparseBlock, SparseSource

ConfigError, DataError = errors.ConfigError, errors.DataError
StreamConfigError, StreamDataError = errors.ConfigError.about("streams"), errors.DataError.about("streams")
RunError = errors.RunError.about("streams")

N_EPOCHS, INTERCEPT_RATE, HALF_LIFE = 5, 0.01, 1.0
"""Default values; the paper's algorithm has one pass, no intercept, and no decay of the tail."""
LARGEST_TARGET = 1e25  # of regression targets: weights and the sketch have single precision
HEAD_ROWS = 128
"""Rows of a source from which a fit is planned."""
_STEP = "stream"


class Mission(SelectsSize, IncludesColumns, TakesRowBlocks):
    """Select the features with the largest weights, learnt row by row in constant memory for any number of features.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Number of features to select, k in the paper. Default: 1,000, but at most half the number of rows (at least 10)
        and at most all features. With the paper's variant and more than two classes this number is for each class, and
        the selection is the union. "cv" chooses the number by cross-validation; a mapping with the parameters `cv`,
        `sizes`, `rule`, `metric`, `groups` and `order` of `daskfs.SelectionCV` sets the details.
    loss : {"auto", "squared", "logistic", "multinomial", "squared_hinge", "hinge"}
        Loss function, for regression or for classes with any labels. With more than two classes, "multinomial" is one
        model of all classes (cross-entropy); the others fit each class against the rest. In both cases features are
        selected for all classes together, by the Euclidean norm of their weights. auto: squared, logistic or
        multinomial, depending on the target.
    variant : {"active", "paper"}
        Variant of the algorithm. active: the weights of the active features are exact. paper: the published algorithm,
        literally.
    heap : bool
        Whether to keep the k largest features in a heap that is updated lazily (only with the paper's variant), as in
        the authors' program. Predictions then use the estimate from a feature's last occurrence.
    tail : {"sketch", "identity"}
        Storage of the other features' weights: a count-sketch, or one cell for each feature.
    n_buckets : int, optional
        Number of cells in a row of the sketch, a power of two. Default: 2¹⁸, or fewer with fewer features.
    n_hashes : {1, 3, 5}
        Number of rows of the sketch. 3 is best if there is enough memory, 1 if memory is short.
    n_epochs : int, optional
        Number of passes over the rows. Default: 5; 1 with the paper's variant.
    learning_rate : float, optional
        Learning rate of the first row. Default: set from the mean squared norm of the rows, and falling. A given rate
        falls in several passes, and is constant in one pass and in a stream. With the paper's variant it is constant,
        and 0.5 by default unless the loss is squared or squared hinge.
    intercept_rate : float, optional
        Learning rate of the intercept, as a share of `learning_rate`. Default: 0.01; with the paper's variant 0, which
        there means no intercept.
    tail_half_life : float or "auto" or None
        Half-life, in passes, of the weights outside the active set; None: they never decay (use only one pass then).
        "auto": 1; with the paper's variant None. Use a shorter one if memory is short.
    block_rows : int
        Number of rows between two selections of the k largest features. Later passes take these blocks in random order.
    n_replicas : int
        Number of models that learn in parallel, each from its own rows with a rate `n_replicas` times as large, and are
        averaged. The result depends on this number, but not on the number of workers. With a sparse source, each model
        learns from a part of the files, on the client's workers, and they are averaged after each round of parts.
    sync_every : int
        Number of rows of each replica between two averages. With a client, models are sent between workers: an average
        takes about ten milliseconds and transfers whole models, so training on the rows in between should take longer.
    standardize : bool, optional
        Whether to centre and scale dense columns, with statistics of the first rows, before training. Default: yes,
        except with the paper's variant. Sparse columns are never scaled.
    class_weight : "balanced" or mapping of a class to its weight, optional
        Factors for the sample weights.
    refit : {"auto", "exact", "sgd", "none", "ols", "ridge", "elastic"} or None
        How to refit on the selected features. exact: the minimum of the loss, with a ridge chosen from the data. sgd:
        further passes of stochastic descent. none or None: no refit. auto: exact if it is cheap (n k² up to 4e9, for
        classes 2e8, for C classes together ½ n k² (C - 1)²) and, for classes, there are ten rows per feature; otherwise
        sgd; no refit with the paper's variant. The others are as for every selector: "ols" without a penalty, "ridge",
        or "elastic" with an l1 penalty chosen by the held-out loss.
    n_candidates : int or "auto" or None
        Number of features to learn, from which `n_features_to_select` are chosen by forward selection on their exact
        second moments, computed in one more pass. None: select the features with the largest weights. "auto": four per
        feature, at least 400 and at most 1,000, but fewer if the moments of n rows cost more than 4e9 multiplications
        (316 for 40,000 rows, 63 for 1,000,000). There is no such choice in a stream, with the paper's variant, or
        without a refit.
    per_class : bool
        With more than two classes: whether to select `n_features_to_select` for each class, by absolute weight, as the
        paper's variant always does. Otherwise all classes have the same features. There is then no choice by second
        moments, and the refit uses the features of all classes together.
    always_include : array of int or str, optional
        Numbers or names of columns that are always selected. Their weights are exact from the first row on, and the
        other features are chosen by what they add. They count in `n_features_to_select`. The refit does not penalise
        them. Cannot be combined with the paper's variant or `per_class`, which rank all features, or with features that
        are 64-bit ids.
    random_state : int, RandomState or None
        Seed of the sketch's hash, of the order of rows in memory, and of later passes.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Selected columns, most important first: those always included, then by the absolute value of the weight at
        selection.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,), of more than two classes (n_classes, n_features)
        Coefficients on the scale of the data, 0 for columns not selected.
    intercept_ : float, of more than two classes ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        Class labels, for classification.
    scores_ : ndarray of shape (n_features,)
        Absolute value of the weight before the refit, learnt together with all candidates (for standardised columns, if
        they were standardised); 0 for columns not selected.
    result_ : SelectionResult
        Its table has further columns: `weight` (before the refit, with its sign), `touches` (number of rows with the
        feature while it was active), `deviation` (standard deviation of the column) and `weight_x_deviation`. Rare
        features rank too low by weight alone, and still lower by this product, which puts common features first. Its
        history has the mean loss of the rows, each before the update with it, the threshold and the norm of the tail.

    Notes
    -----
    Memory: 4 n_hashes n_buckets bytes for the sketch (times the number of classes if more than two), 20 bytes for each
    of about 4 k + 8,192 slots, blocks of rows, and the results for every feature. Sparse input stays sparse. On one
    machine the same store, parameters and seed give bit-identical results with any number of workers. Tiles and memory
    change results only by rounding. The paper's variant queries the sketch for all k active features after every row
    that contains other features, so its time grows with k.

    Do not use it to select a hundred features from dense columns that fit in memory: `FGM` and `OnlineSubstitution`
    test all columns with exact statistics, while this selector considers only those with the largest weights. If
    thousands are requested, there is no choice by second moments, and several columns of a correlated bundle may be
    selected.

    Columns of very different scale learn at very different speeds, and if |x| is a thousand times larger, the weight is
    a thousand times smaller. Scale sparse columns first, by tf-idf or their largest value.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 30))
    >>> y = 2 * X[:, 3] - X[:, 7] + rng.standard_normal(2000)
    >>> Mission(n_features_to_select=2).fit(X, y).selected_
    array([3, 7])
    >>> Mission(2, loss="logistic").fit(X, np.where(y > 0, "high", "low")).predict(X[:3])
    array(['low', 'high', 'low'], dtype='<U4')
    """

    method = "mission"
    score_kind = "weight"
    history_kind = "rows"
    _passes_once = True
    _stream = cast("Stream | None", None)
    """The model that further rows continue, after a fit to rows that come once."""
    _labels = cast("np.ndarray | None", None)
    """Labels of the classes in `class_weight`, until a fit to arrays or blocks has read them."""

    loss: Annotated[str, LossOf(ROW_BY_ROW, several=True)] = "auto"
    variant: Literal["active", "paper"] = "active"
    heap: bool = False
    tail: Literal["sketch", "identity"] = "sketch"
    n_buckets: PowerOfTwo | None = None
    n_hashes: Literal[1, 3, 5] = 3
    n_epochs: Count | None = None
    learning_rate: Positive | None = None
    intercept_rate: Share | None = None
    tail_half_life: Positive | Literal["auto"] | None = "auto"
    block_rows: Count = 4096
    n_replicas: Count = 1
    sync_every: Count = 1000
    standardize: bool | None = None
    class_weight: Literal["balanced"] | ClassWeights | None = None
    refit: Literal["auto", "exact", "sgd", "none", "ols", "ridge", "elastic"] | None = "auto"  # type: ignore[assignment]
    n_candidates: Count | Literal["auto"] | None = "auto"
    per_class: bool = False
    always_include: Columns = None

    def _check_combination(self) -> None:
        if self.always_include is not None and (self.variant == "paper" or self.per_class):
            what = "the paper's variant" if self.variant == "paper" else "per_class"
            problem = f"cannot be combined with {what}, which ranks all features"
            raise ConfigError(problem, "always_include", "leave one of them out")
        if self.heap and self.variant != "paper":
            raise ConfigError("only the paper's variant has a heap", "heap", 'set variant="paper"')

    def _check_loss(self, loss: Loss) -> None:
        if self.refit == "exact" and not (loss.has_formula_of_many_rows or loss.has_classes):
            raise ConfigError(f"there is no exact refit of the {loss.name} loss", "refit", 'use refit="sgd"')
        if self.class_weight is not None and not loss.is_classifier:
            problem = f"the {loss.name} loss has no classes"
            raise ConfigError(problem, "class_weight", "leave it out, or pass sample weights")

    @property
    def is_nested(self) -> bool:
        """Whether the ranking of one fit also gives smaller selections, with coefficients from the refit."""
        return self.variant != "paper" and (self._refits or self.refit in ("auto", "exact")) and not self.per_class

    def _configuration(
        self, data: DataShape, n_outputs: int, *, variant: str | None = None, **more: Any
    ) -> Configuration:
        """Return the configuration of a fit, with the default values of its variant.

        Parameters
        ----------
        data, n_outputs, variant, **more
            As for `Configuration.of`; by default the parameters of the selector.
        """
        is_paper, half_life = self.variant == "paper", self.tail_half_life
        usual_rate = 0.0 if is_paper else INTERCEPT_RATE
        own_refit: str | None = "auto"  # "ols", "ridge" and "elastic" come after this method's own refit
        if self.refit in (None, "none") or (is_paper and self.refit not in ("exact", "sgd")):
            own_refit = None
        elif self.refit in ("exact", "sgd"):
            own_refit = self.refit
        return Configuration.of(
            data,
            n_outputs,
            n_features_to_select=self.n_features_to_select,  # type: ignore[arg-type]
            loss=self.loss_,
            variant=variant or ("heap" if self.heap else self.variant),
            n_buckets=self.n_buckets,
            n_hashes=0 if self.tail == "identity" else self.n_hashes,
            n_epochs=self.n_epochs or (1 if is_paper else N_EPOCHS),
            learning_rate=self.learning_rate,
            intercept_rate=float(usual_rate if self.intercept_rate is None else self.intercept_rate),
            tail_half_life=(None if is_paper else HALF_LIFE) if half_life == "auto" else half_life,
            block_rows=self.block_rows,
            n_replicas=self.n_replicas,
            sync_every=self.sync_every,
            standardize=not is_paper if self.standardize is None else self.standardize,
            refit=own_refit,
            seed=seed_of(self.random_state) or 0,
            n_candidates=None if is_paper or self.per_class else self.n_candidates,
            per_class=self.per_class and not is_paper,
            has_always=self.always_include is not None,
            **more,
        )

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        return plan_mission(self._configuration(shape, n_outputs_of(self.loss_, shape.n_classes)), limits.task_nbytes)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Mission:
        """Select features; see `BaseSelector.fit`."""
        is_named = isinstance(self.class_weight, Mapping) and y is not None
        self._labels, self._stream = np.unique(np.asarray(y)) if is_named else None, None
        super().fit(X, y, sample_weight)
        return self

    def _target_of(
        self, facts: list[Facts], matrix: Matrix | None, labels: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        target, weight, labels = super()._target_of(facts, matrix, labels)
        self._labels = labels if isinstance(self.class_weight, Mapping) else None
        return target, weight, labels

    def _fit(self, run: Run) -> None:
        labels, self._labels = self._labels, None  # the next fit may be to a store
        n_to_select(self.n_features_to_select, run.matrix.shape[1], DEFAULT_N_SELECTED)  # type: ignore[arg-type]
        checked_target(run.matrix, self.loss_, LARGEST_TARGET)
        notes: list[str] = []
        rows = run.over(in_random_order(weighted_rows(run.matrix), self.random_state, notes))
        weight = rows.matrix.read_weight(slice(None))
        total_weight = None if weight is None else float(np.sum(weight))
        fit = self._begun(rows, labels, total_weight=total_weight)  # step 1
        fit = learn(rows, fit, "train", 0, fit.config.n_epochs)  # steps 2 to 5
        fit = choose(rows, fit)  # step 6
        found = refit(rows, fit)  # step 7
        if fit.config.has_always:
            _refuse_constant(fit, found, run.matrix)
        self._stream = None
        self._take(run, fit, found, notes=notes)

    def _begun(self, run: Run, labels: np.ndarray | None, *, is_stream: bool = False, **more: Any) -> MissionFit:
        """Survey the first rows, and return an empty model that is ready to train; set `classes_`.

        Parameters
        ----------
        run : Run
            Over the rows in the order of the first pass.
        labels : ndarray of shape (n_classes,), optional
            The user's class labels. In a stream, some may be missing in the first rows.
        is_stream, **more
            As for `Configuration.of`.
        """
        n_classes = len(labels) if is_stream and labels is not None else None
        target, intercept = encode_target(self.loss_, self.class_weight, run.matrix, n_classes, labels)
        if target.classes is not None:
            self.classes_ = target.classes
        config = self._configuration(run.shape, len(intercept), is_stream=is_stream, **more)
        return begin(run, config, target, intercept, self.always_include)

    def _take(
        self,
        run: Run,
        fit: MissionFit,
        refit: Refit | None = None,
        names: FeatureNames | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        """Set the selection, its coefficients on the scale of the data, and the result."""
        self._selection, found = results_of(fit, refit, names, notes)
        self.result_ = self._result_of(run, **found)

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None, tell: Tell | None = None
    ) -> Mission:
        """Learn once from more rows, in the given order. The selected features may change.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
            X may also be a sparse source, such as files of clicks or words, which has its own targets and weights.
        classes : array-like of shape (n_classes,), optional
            All class labels, if some do not occur in the first rows.
        tell : callable, optional
            For a source, as in `fit_source`.

        Returns
        -------
        self

        Notes
        -----
        Only the model is kept: `coef_` has its weights, without a refit. The learning rate is set from the norms of the
        first rows, and falls with the number of rows so far; set `learning_rate` for a constant one, if what is to be
        learnt changes. The tail's half-life is `tail_half_life` times the number of rows so far. A pickled selector
        continues where it stopped.
        """
        self.check_parameters()
        self._refuse_second_look("rows come")
        labels = None if classes is None else np.unique(classes)
        if isinstance(X, SparseSource):
            self._learn_from_source(X, labels, Passage(tell=tell))
            return self
        before = self._stream
        known = labels if before is None else before.labels
        with self._opened(X, y, sample_weight, known, before is None) as (matrix, labels), self._run(matrix) as run:
            if before is None:
                self._take_names(matrix)
                checked_target(matrix, self.loss_, LARGEST_TARGET)
                fit = self._begun(run, labels, is_stream=True)
            else:
                fit = before.going_on(self._configuration_of(before), matrix.shape[0])
            refuse_new_classes(matrix, fit.config.target)
            run.seconds.update(fit.seconds)
            run.nbytes.update(fit.nbytes)
            fit = learn(run, fit, "train", 0, 1)
            self._take_stream(run, Stream(fit, labels, None if before is None else before.names))
        return self

    def fit_blocks(self, blocks: Any, **more: Any) -> Any:
        """Select features from row blocks, given one after the other, each with its target.

        See `daskfs.selectors.from_blocks.TakesRowBlocks.fit_blocks`. It also accepts a sparse source, whose features
        may be 64-bit ids, and which needs no store.
        """
        self._stream = None
        if isinstance(blocks, SparseSource):
            return self.fit_source(blocks, **more)
        return super().fit_blocks(blocks, **more)

    def _fit_rows_passing(
        self,
        passing: Iterator[Any],
        names: Sequence[str] | None,
        labels: np.ndarray | None,
        n_samples: int | None,
        prefetch: int,
    ) -> None:
        if self.n_replicas > 1:
            problem = "blocks that can be read only once train one model"
            remedy = "leave it 1, or pass blocks that can be read again"
            raise StreamConfigError(problem, "n_replicas", remedy)
        self._learn_rows(Arriving.from_blocks(passing, names, prefetch), labels, Passage(n_samples))

    def fit_source(
        self,
        source: SparseSource,
        *,
        classes: Any = None,
        n_samples: int | None = None,
        keep: Callable[[SparseBlock], np.ndarray] | None = None,
        tell: Tell | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Any:
        """Learn from the rows of a sparse source while they are read, in one pass, without a store.

        Parameters
        ----------
        source : SparseSource
            Files of clicks, words, or k-mers; features are 64-bit ids or column numbers.
        classes : array-like of shape (n_classes,), optional
            All class labels, if some may be missing in the first rows.
        n_samples : int, optional
            Number of rows, if known: the tail's half-life is then `tail_half_life` times this number. Otherwise it
            grows with the number of rows so far.
        keep : callable, optional
            Returns the rows of a block to learn from, bool of shape (n_rows,); the others are left for testing.
        tell : callable, optional
            Called with a line of text with the mean loss so far, after 1, 2, 4, 8, ... rows. The loss of each row is
            computed before the update with it.
        checkpoint : Checkpoint, optional
            Stores the model every 30 seconds and at an interrupt, with the number of rows (or parts of the source)
            done. Called again with it, the fit skips those and continues, with the same result. This does not work with
            ``heap=True``, whose order is not stored: that fit starts again.

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            The selector then has the model so far: `save` stores it, `partial_fit` continues.

        Notes
        -----
        If features are ids, there are no arrays over all features: ``selected_`` has the ids, most important first, and
        ``coef_``, ``scores_`` and ``support_`` cover only these, in this order. The result has the features' names if
        the source has them. `partial_fit` with another source continues the training.
        """
        self.check_parameters()
        self._refuse_second_look("a source is read")
        self._stream, passage = None, Passage(n_samples, tell)
        if checkpoint is not None and not self.heap:  # whose order is not stored
            n_done = self._resumed(checkpoint)
            passage = Passage(n_samples, tell, partial(self._save_so_far, checkpoint), n_done)
        self._learn_from_source(source, None if classes is None else np.unique(classes), passage, keep)
        return self

    def plan_source(self, source: SparseSource) -> SelectorPlan:
        """Return the memory for learning from a sparse source, estimated from its first rows.

        Raises
        ------
        PlanError
            The memory limit is too small. The error names sizes that would fit.
        """
        self._settle_loss(source.estimate_target(), is_plan=True)
        head = next(source.sparse_blocks(HEAD_ROWS, BLOCK_NNZ))
        n_rows, n_features = source.estimate_shape()[0] or head.n_rows, source.n_features
        data = DataShape(n_rows, MOST_IDS if source.features_are_ids else n_features or MOST_IDS, np.dtype(np.float32))
        n_outputs = n_outputs_of(self.loss_, source.estimate_target().n_classes)
        nnz_per_row = len(head.features) / head.n_rows
        config = self._configuration(data, n_outputs, is_stream=True, nnz_per_row=nnz_per_row)
        return plan_of_source(config, None if self.memory_limit is None else parse_bytes(self.memory_limit))

    def _learn_from_source(
        self,
        source: SparseSource,
        labels: np.ndarray | None,
        passage: Passage,
        keep: Callable[[SparseBlock], np.ndarray] | None = None,
    ) -> None:
        """Learn from the rows of a source, with several models from its parts."""
        source = source.as_it_stands()
        names = FeatureNames(are_ids=source.features_are_ids or source.n_features is None)
        try:
            with interrupts.guard():
                if self.n_replicas == 1:
                    self._learn_rows(Arriving.from_source(source, keep, passage.n_done), labels, passage, names)
                    return
                if keep is not None or passage.n_expected is not None:
                    problem = "several models learn from all rows of a source: no rows can be held out, or their "
                    remedy = "leave it 1, or pass neither keep nor n_samples"
                    raise StreamConfigError(f"{problem}number set", "n_replicas", remedy)
                self._learn_parts(source, labels, passage, names)
        except BaseException:
            source.leave_off()
            raise

    def _learn_rows(
        self, arriving: Arriving, labels: np.ndarray | None, passage: Passage, names: FeatureNames | None = None
    ) -> None:
        """Learn from rows as they arrive."""
        with self._continued(arriving, labels, passage, names, Here()) as (run, rows, stream):
            learner = Learner(stream, passage)
            try:
                with run.timed("train"):
                    stream = learner.learn(rows)
            except KeyboardInterrupt:
                if learner.n_seen:
                    with interrupts.held():
                        self._stream = learner.so_far()
                        if passage.save is not None:
                            passage.save(self._stream, learner.n_seen)
                raise
            self._take_stream(run, stream, rows)

    def _learn_parts(
        self, source: SparseSource, labels: np.ndarray | None, passage: Passage, names: FeatureNames
    ) -> None:
        """Train several models on parts of a source, in tasks, and average them after each round."""
        if not (parts := source.parts()):
            raise StreamConfigError(f"a {source.kind} source has no parts", "n_replicas", "leave it 1")
        with self._continued(Arriving.at_start(source), labels, passage, names) as (run, rows, stream):
            with run.timed("train"):
                for so_far, n_done in learn_parts(run, stream, source, parts, self.n_replicas, passage):
                    with interrupts.held():
                        self._stream = stream = so_far
                        if passage.save is not None:
                            passage.save(stream, n_done)
            self._take_stream(run, stream, rows)

    @contextmanager
    def _continued(
        self,
        arriving: Arriving,
        labels: np.ndarray | None,
        passage: Passage,
        names: FeatureNames | None,
        workers: Workers | None = None,
    ) -> Iterator[tuple[Run, Passing, Stream]]:
        """Yield a run, its rows and the stream that learns from them: a survey of the first rows begins a new one."""
        before = self._stream
        if before is None:
            _, labels = self._coded(arriving.first_target(), labels)
        else:
            labels, names = before.labels, before.names or names
        with closing(arriving.rows(self._loss, labels)) as rows:
            if before is None:
                fit = self._surveyed(rows, labels)
                if passage.n_expected is not None:
                    fit = replace(
                        fit, config=replace(fit.config, half_life=fit.config.half_life_of(passage.n_expected))
                    )
            else:
                rows.reach(passage.n_done + 1)
                before.refuse_width(rows.shape[1])
                fit = before.fit if passage.n_done else before.going_on(self._configuration_of(before))
            with self._run(rows, workers) as run:
                run.seconds.update(fit.seconds)
                yield run, rows, Stream(fit, labels, names)

    def _surveyed(self, rows: Passing, labels: np.ndarray | None) -> MissionFit:
        """Survey the first rows, which stay for a second look, and return an empty model that is ready to train."""
        rows.holds = True
        is_sparse = rows.sparse_rows(slice(0, 0)) is not None
        rows.reach(1)
        first = rows.take(np.arange(rows.reach(n_surveyed(rows.shape[1], is_sparse))))
        checked_target(first, self.loss_, LARGEST_TARGET)
        if rows.shape[1] >= MOST_IDS and self.tail == "identity":
            problem = "cannot be 'identity' with 64-bit ids as features: there are too many for a cell each"
            raise StreamConfigError(problem, "tail", 'use tail="sketch", or create a store from the source')
        with self._run(first, Here()) as run:
            fit = self._begun(run, labels, is_stream=True)
        rows.holds = False
        return replace(fit, n_samples=0)

    def _configuration_of(self, stream: Stream) -> Configuration:
        """Return the configuration of a stream with the present parameters, before its survey."""
        config = stream.fit.config
        return self._configuration(config.data, config.model.n_outputs, is_stream=True)

    def _take_stream(self, run: Run, stream: Stream, rows: Passing | None = None) -> None:
        """Set the selection and the result of a stream so far, which further rows continue; `rows` have all arrived."""
        if rows is not None:
            run = run.over(rows)
            self._take_names(rows)
            if stream.names is not None:
                stream.names.note_all(rows, stream.fit.state.keys)
        self._stream = replace(stream, fit=replace(stream.fit, seconds=run.seconds, nbytes=run.nbytes))
        self._take(run, self._stream.fit, names=stream.names)
        if stream.labels is not None:
            self.classes_ = stream.labels

    @property
    def can_go_on(self) -> bool:
        """Whether there is a model from a stream, which `save` can store."""
        return self._stream is not None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model learnt from streams to a file; `load` continues from it.

        Raises
        ------
        RunError
            The file cannot be written, or there is no such model: a `fit` to known rows cannot be continued.
        """
        if self._stream is None:
            remedy = "use fit_source, partial_fit, or fit_blocks with an iterator"
            raise RunError("only a model that learns from a stream can be saved to continue", str(path), remedy)
        save_arrays(path, self._arrays_of(self._stream))

    def _arrays_of(self, stream: Stream, **more: Any) -> dict[str, Any]:
        """Return the complete state for continuing."""
        here = ("client", "verbose", "schema")
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in here}
        parameters["random_state"] = stream.fit.config.model.seed
        if isinstance(self.class_weight, Mapping):
            parameters["class_weight"] = list(self.class_weight.items())
        names = [str(name) for name in self.feature_names_in_] if hasattr(self, "feature_names_in_") else None
        return arrays_of(stream, parameters=parameters, loss=self.loss_, feature_names=names, **more)

    def _save_so_far(self, checkpoint: Checkpoint, stream: Stream, n_done: int) -> None:
        checkpoint.save(_STEP, self._arrays_of(stream, done=[n_done, *stream.fit.history.counted]))

    def _resumed(self, checkpoint: Checkpoint) -> int:
        """Restore the stream from before an interruption; return how many of its rows (or parts) were used."""
        arrays = checkpoint.load(_STEP)
        if arrays is None:
            return 0
        notes = notes_of(arrays, "checkpoint")
        n_done, *counted = notes["done"]
        stream = self._restored(arrays, notes)
        history = replace(stream.fit.history, counted=(counted[0], counted[1]))
        self._stream = replace(stream, fit=replace(stream.fit, history=history))
        return int(n_done)

    def _restored(self, arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any]) -> Stream:
        """Return the stream that `_arrays_of` wrote; set its loss and classes."""
        self.loss_ = notes["loss"]
        given = {"is_stream": True, "nnz_per_row": notes["nnz_per_row"]}
        stream = stream_of(arrays, notes, self._configuration(data_of(notes), notes["n_outputs"], **given))
        if stream.fit.config.target.classes is not None:
            self.classes_ = stream.fit.config.target.classes
        return stream

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return a saved selector; it can predict, and `partial_fit` continues the training.

        Raises
        ------
        RunError
            The file does not exist, is damaged, or has a newer format.
        """
        arrays = load_arrays(path)
        notes = notes_of(arrays, str(path))
        parameters = notes["parameters"]
        if isinstance(parameters.get("class_weight"), list):
            parameters["class_weight"] = dict(parameters["class_weight"])
        selector = cls(**parameters)
        stream = selector._restored(arrays, notes)
        rows = Gone(stream.fit.config.data, notes["feature_names"])
        selector._take_names(rows)
        with selector._run(rows, Here()) as run:
            selector._take(run, stream.fit, names=stream.names)
        selector._stream = stream
        if stream.labels is not None:
            selector.classes_ = stream.labels
        return selector

    @property
    def response_losses(self) -> tuple[str, str]:
        """For a classifier each class has its own predictor (of two only the second), whatever the loss."""
        if not find_loss(self.loss_).is_classifier:
            return super().response_losses
        if len(self.classes_) == 2:
            return "logistic", "logistic"
        return "multinomial", "multinomial" if self._loss.has_classes else "logistic"

    @property
    def _has_ids(self) -> bool:
        """Whether features are ids, so that `coef_` covers only the selected ones."""
        return vars(self).get("n_features_in_", 0) >= MOST_IDS - 1

    def _respond(self, X: Any, response: Response) -> Any:
        if isinstance(X, SparseSource):
            parts = [response(self._predictor(block)) for block in X.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ)]
            return np.concatenate(parts)
        if self._has_ids:
            raise StreamDataError("expected a sparse source, as in the fit: features are ids", "X", "pass a source")
        return super()._respond(X, response)

    def predictor(self) -> LinearPredictor:
        """Return the object that computes the linear predictor; after a stream of ids its columns are ids."""
        if not self._has_ids:
            return super().predictor()
        order = np.argsort(self.selected_)
        return LinearPredictor(self.selected_[order], self.coef_[..., order].T, self.intercept_)

    def _predictor(self, block: SparseBlock) -> np.ndarray:
        """Return the linear predictor of a block's rows."""
        coef = self.coef_ if self._has_ids else self.coef_[..., self.selected_]
        return linear_predictor(block, self.selected_.astype(np.uint64), coef, self.intercept_)

    def predictors_of(
        self, source: SparseSource, keep: Callable[[SparseBlock], np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return targets, weights and linear predictors of the rows of a source, or of those that `keep` selects."""
        found = []
        for block in source.sparse_blocks(BLOCK_ROWS, BLOCK_NNZ):
            some = block if keep is None else rows_of(block, keep(block))
            of_rows = np.ones(some.n_rows) if some.weight is None else some.weight
            found.append((some.y, of_rows, self._predictor(some)))
        y, weight, predictor = (np.concatenate(part) for part in zip(*found, strict=True))
        return y, weight, predictor

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R², or the accuracy of a classifier; see `BaseSelector.score`.

        For a sparse source, the rows' own targets and weights are used.
        """
        if not isinstance(X, SparseSource):
            return super().score(X, y, sample_weight)
        y, weight, predictor = self.predictors_of(X)
        prediction = self.response(predictor)
        return (accuracy if find_loss(self.loss_).is_classifier else r2)(y, prediction, weight)


def _refuse_constant(fit: MissionFit, refit: Refit | None, matrix: Matrix) -> None:
    """Refuse an always included column that is constant, if all its rows were read."""
    keys, varies = fit.state.keys, np.ones(len(fit.state.keys), dtype=bool)
    if refit is not None:
        varies = refit.deviation > 0.0
    missing = np.setdiff1d(np.array(fit.config.model.always, dtype=np.int64), keys[varies].astype(np.int64))
    if len(missing):
        raise DataError("is constant", f"always_include, column {matrix.names[missing[0]]!r}", "drop it")
