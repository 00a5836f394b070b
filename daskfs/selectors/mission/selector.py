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
  a stream the number of rows in which a feature occurs 256 times, on average. It is constant in one pass over n rows.
* Step 6: a weight says what a feature carries in addition to all other active features, so that the features of a
  correlated bundle share it. If k is small, k of some 400 features are chosen by exact moments.
* Step 7: without a refit, the weights of stochastic descent depend on how often a feature occurred.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from daskfs.errors import ConfigError, DataError
from daskfs.losses import ROW_BY_ROW, Loss, find_loss
from daskfs.matrix.base import Matrix
from daskfs.parameters import ClassWeights, Columns, Count, CountOrCV, LossOf, Positive, PowerOfTwo, Share, n_to_select
from daskfs.selectors.mission.configuration import DEFAULT_N_SELECTED, n_outputs_of
from daskfs.selectors.mission.fit import MissionFit, refuse_new_classes
from daskfs.selectors.mission.from_streams import LARGEST_TARGET, LearnsFromStreams
from daskfs.selectors.mission.passes import learn
from daskfs.selectors.mission.plan import plan_mission
from daskfs.selectors.mission.refit import Refit, choose, refit
from daskfs.selectors.mission.stream import Tell
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.rows import in_random_order, weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target
from daskfs.sources.sparse.base import SparseSource


class Mission(LearnsFromStreams):
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
        Learning rate of the first row. Default: set from the mean squared norm of the rows, and falling with several
        passes and in a stream. In a stream, a given rate is constant. With the paper's variant it is constant, and 0.5
        by default unless the loss is squared or squared hinge.
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
        classes 2e8) and, for classes, there are ten rows per feature; otherwise sgd; no refit with the paper's variant.
        The others are as for every selector: "ols" without a penalty, "ridge", or "elastic" with an l1 penalty chosen
        by the held-out loss, each class separately.
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

    n_features_to_select: CountOrCV | None = None
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
        if self.refit == "exact" and not loss.has_formula_of_many_rows:
            raise ConfigError(f"there is no exact refit of the {loss.name} loss", "refit", 'use refit="sgd"')
        if self.class_weight is not None and not loss.is_classifier:
            problem = f"the {loss.name} loss has no classes"
            raise ConfigError(problem, "class_weight", "leave it out, or pass sample weights")

    @property
    def is_nested(self) -> bool:
        """Whether the ranking of one fit also gives smaller selections, with coefficients from the refit."""
        return self.variant != "paper" and (self._refits or self.refit in ("auto", "exact")) and not self.per_class

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        return plan_mission(self._configuration(shape, n_outputs_of(self.loss_, shape.n_classes)), limits.task_nbytes)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Mission:
        """Select features; see `BaseSelector.fit`."""
        is_named = isinstance(self.class_weight, Mapping) and y is not None
        self._labels = np.unique(np.asarray(y)) if is_named else None
        self._forget_stream()
        super().fit(X, y, sample_weight)
        return self

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
        if isinstance(X, SparseSource):
            self._learn_from_source(X, None if classes is None else np.unique(classes), tell=tell)
            return self
        before = self._stream
        if before is None:
            self._stream_labels = None if classes is None else np.unique(classes)
        with (
            self._opened(X, y, sample_weight, self._stream_labels, before is None) as (matrix, labels),
            self._run(matrix) as run,
        ):
            self._stream_labels = labels
            if before is None:
                self._take_names(matrix)
                self._labels = labels
                checked_target(matrix, self.loss_, LARGEST_TARGET)
                fit = self._begun(run, None if labels is None else len(labels), is_stream=True)
            else:
                fit = self._going_on(before, matrix.shape[0])
                run.seconds.update(before.seconds)
                run.nbytes.update(before.nbytes)
            refuse_new_classes(matrix, fit.config.target)
            self._stream = learn(run, fit, "train", 0, 1)
            self._take(run, self._stream)
        if labels is not None:
            self.classes_ = labels
        return self

    def _fit(self, run: Run) -> None:
        n_to_select(self.n_features_to_select, run.matrix.shape[1], DEFAULT_N_SELECTED)
        checked_target(run.matrix, self.loss_, LARGEST_TARGET)
        notes: list[str] = []
        rows = run.over(in_random_order(weighted_rows(run.matrix), self.random_state, notes))
        weight = rows.matrix.read_weight(slice(None))
        fit = self._begun(rows, total_weight=None if weight is None else float(np.sum(weight)))  # step 1
        fit = learn(rows, fit, "train", 0, fit.config.n_epochs)  # steps 2 to 5
        fit = choose(rows, fit)  # step 6
        found = refit(rows, fit)  # step 7
        if fit.config.has_always:
            _refuse_constant(fit, found, run.matrix)
        self._stream = None
        self._take(run, fit, found, notes)

    @property
    def response_losses(self) -> tuple[str, str]:
        """For a classifier each class has its own predictor (of two only the second), whatever the loss."""
        if not find_loss(self.loss_).is_classifier:
            return super().response_losses
        if len(self.classes_) == 2:
            return "logistic", "logistic"
        return "multinomial", "multinomial" if self._loss.has_classes else "logistic"


def _refuse_constant(fit: MissionFit, refit: Refit | None, matrix: Matrix) -> None:
    """Refuse an always included column that is constant, if all its rows were read."""
    keys, varies = fit.state.keys, np.ones(len(fit.state.keys), dtype=bool)
    if refit is not None:
        varies = refit.deviation > 0.0
    missing = np.setdiff1d(np.array(fit.config.model.always, dtype=np.int64), keys[varies].astype(np.int64))
    if len(missing):
        raise DataError("is constant", f"always_include, column {matrix.names[missing[0]]!r}", "drop it")
