"""MISSION: stochastic gradient descent in a count-sketch, with the names of the top features.

    Input: rows (X, y), number of features k, learning rates λ_t
    1. Sketch S = 0, active features A = {}, β = 0.
    2. For each row i: predict z = β_0 + Σ_{j in A} β_j x_ij.
    3. Gradient of the loss in every non-zero feature j of the row: g_j = ℓ'(z, y_i) x_ij.
       Active: β_j -= λ_t g_j. Others: UPDATE(S, j, -λ_t g_j).
    4. If |QUERY(S, j)| >= τ: j becomes active with β_j = QUERY(S, j), and leaves the sketch.
    5. After each block of rows: the k largest |β_j| stay active, τ is the smallest of them; the others go back,
       UPDATE(S, j, β_j). What is in the sketch fades: S *= 2^(-rows / half-life).
    6. Second moments of the active features, which are more than k: forward selection of k on them.
    7. Refit on the selected features.
    Return A, β

After algorithm 1 of A. Aghazadeh, R. Spring, D. LeJeune, G. Dasarathy, A. Shrivastava and R. G. Baraniuk, "MISSION:
Ultra Large-Scale Feature Selection using Count-Sketches", Proceedings of the 35th International Conference on Machine
Learning (2018). ``variant="paper"`` is that algorithm, ``heap=True`` the authors' program for it, ``tail="identity"``
the paper's section 5.1, one cell for each feature:

    1. Sketch S = 0, β = 0; of several classes, S and β of each.
    2. For each row i: UPDATE(S, j, -λ g_j) for every non-zero feature j of the row.
    3. β = the k largest of QUERY(S, j) over the active features and those of the row.
    Return β

with the constant rate λ = 0.5 of its experiments (of the squared loss it says none, and the default below serves), in
one pass, without intercept, fading, standardising or refit unless they are asked for. One thing is not as algorithm 1
reads: the top k of a whole sketch cannot be listed without all ids, so that features that are not active are looked at
when a row has them. That is what a top-k heap beside a count-sketch does, which sections 1 and 7 speak of.

Differs from the paper
----------------------
With the default variant:

* Active features have exact weights (as in K. S. Tai, V. Sharan, P. Bailis and G. Valiant, "Sketching linear
  classifiers over data streams", SIGMOD 2018). In the paper's algorithm they share cells with others: features without
  weight look heavy, about 1.5 d (k / w)² of d in a sketch of three rows of w cells.
* The active features are selected again every `block_rows` rows, not after each: until then up to max(k, 1,024) more
  predict, all that reached the threshold.
* With several classes the k features are the same for all, by the norm of their weights; the paper has k of each, as
  `per_class` has.
* Features of ``always_include`` are active from the first row on, are never put back into the sketch, and are taken out
  of target and candidates in step 6.
* The tail fades (section 5.1 of the paper scales it by hand). Without that, a second pass makes the selection worse:
  features outside the active set are pushed by residuals that they never lower.
* The intercept starts at the model without features and learns at a hundredth of the rate; the paper has none.
* The rate follows from the rows: c / mean ‖x‖², falling as 1 / sqrt(1 + t / 0.2 n) when there are several passes.
* Step 6: weights say what a feature carries beside all others that are active, so that of a bundle of correlated
  features each has a part. Where k is small, k of some 400 are chosen on exact moments.
* Step 7: on its own, stochastic descent leaves weights that depend on how often a feature was met.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np

from daskfs.errors import Caution, ConfigError, DataError
from daskfs.losses import ROW_BY_ROW, Loss, find_loss
from daskfs.matrix.base import Matrix
from daskfs.parameters import ClassWeights, Columns, Count, CountOrCV, LossOf, Positive, PowerOfTwo, Share, n_to_select
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.mission.capacity import check_capacity, check_noise
from daskfs.selectors.mission.entries import MOST_IDS
from daskfs.selectors.mission.fit import (
    HISTORY,
    Line,
    MissionFit,
    Passes,
    Refit,
    begin,
    encode_target,
    on_scale_of_data,
    refuse_new_classes,
)
from daskfs.selectors.mission.from_streams import LARGEST_TARGET, LearnsFromStreams
from daskfs.selectors.mission.keeping import NO_REFIT
from daskfs.selectors.mission.model import norms
from daskfs.selectors.mission.plan import DEFAULT_N_SELECTED, MissionShape, Settings, plan_mission
from daskfs.selectors.mission.predicting import PredictsSources
from daskfs.selectors.mission.stream import Tell
from daskfs.selectors.mission.tasks import TargetEncoding
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.rows import in_random_order, weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target
from daskfs.sources.sparse.base import SparseSource

N_EPOCHS, INTERCEPT_RATE, HALF_LIFE = 5, 0.01, 1.0
"""By default, where the paper's algorithm has one pass, no intercept, and no fading tail."""


class Mission(LearnsFromStreams, PredictsSources):
    """Select the features of largest weight, learnt row by row in constant memory, whatever the number of features.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        The paper's k; by default 1,000, or half as many as there are rows (at least 10), or all where there are fewer.
        With the paper's variant and more than two classes so many of each class, as the paper has it: what is selected
        are those of any class.
        "cv": as many as cross-validation says; a mapping, as `daskfs.SelectionCV` has `cv`, `sizes`, `rule`, `metric`,
        `groups` and `order`, says how.
    loss : {"auto", "squared", "logistic", "multinomial", "squared_hinge", "hinge"}
        The model: of numbers, or of two classes (any labels). With more than two, "multinomial" is one model of all
        classes (cross-entropy), the others set one class against the rest; either way a feature is selected for all
        classes together, by the Euclidean norm of its weights. By default squared, logistic or multinomial, as the
        target calls for.
    variant : {"active", "paper"}
        Whether the active features' weights are exact, or the published algorithm to the letter.
    heap : bool
        With the paper's variant, whether the k largest stand in a heap that is corrected lazily, as in the authors'
        program: predictions use estimates from when a feature was last met.
    tail : {"sketch", "identity"}
        What holds the other features' weights: a count-sketch, or one cell for each feature.
    n_buckets : int, optional
        Cells in a row of the sketch, a power of two; 2¹⁸ by default, fewer where there are fewer features.
    n_hashes : {1, 3, 5}
        Rows of the sketch. 3 is best where the memory suffices, 1 where it is tight.
    n_epochs : int, optional
        Passes over the rows: 5 by default, with the paper's variant 1.
    learning_rate : float, optional
        Learning rate of the first row; by default set from the mean squared norm of the rows. With the paper's variant
        constant, and 0.5 by default unless the loss grows with the square.
    intercept_rate : float, optional
        Learning rate of the intercept, as a share of `learning_rate`; 0.01 by default. With the paper's variant 0 by
        default, which there means that there is no intercept.
    tail_half_life : float or "auto" or None
        Half-life, in passes, of the weights outside the active set; None: they never decay (then take one pass only).
        By default 1, with the paper's variant None. Choose it shorter where memory is tight.
    block_rows : int
        Rows between two selections of the k largest. Later passes take these blocks in random order.
    n_replicas : int
        Models that learn side by side, each from its own rows with so many times the rate, and are averaged. The result
        depends on this number, and not on the number of workers. Of a sparse source each learns from a part of the
        files, on the client's workers, and they are averaged when all have theirs.
    sync_every : int
        Rows of each replica between two averages. With a client, models go from worker to worker: an average takes
        about ten milliseconds and sends whole models, so that the rows between two must take more to learn from.
    standardize : bool, optional
        Whether dense columns are centred and scaled, by the first rows, before they are learnt from: by default, but
        not with the paper's variant. Sparse ones are taken as they are.
    class_weight : "balanced" or mapping of a class to its weight, optional
        Multiplies the sample weights.
    refit : {"auto", "exact", "sgd", "none", "ols", "ridge", "elastic"} or None
        The fit of the selected features alone: to the minimum of the loss, by further passes of stochastic descent, or
        not at all. By default the first where it is cheap (n k² up to 4e9, of classes 2e8), with a ridge that the data
        choose, and classes have ten rows for each feature; with the paper's variant none. Or as every selector has it:
        "ols" without a penalty, "ridge", or "elastic" with an l1 penalty by the loss on rows held out, each class by
        itself.
    n_candidates : int or "auto" or None
        Features that are learnt, out of which `n_features_to_select` are chosen by forward selection on their exact
        second moments, read in one more pass; None: those of largest weight are selected. By default four for each
        feature, at least 400 and at most 1,000, or fewer where the moments of n rows cost more than 4e9 multiplications
        (of 40,000 rows 316, of 1,000,000 63). There is no choice in a stream, with the paper's variant, or without a
        refit.
    per_class : bool
        With more than two classes, whether `n_features_to_select` are selected for each class, by the size of its
        weight, as the paper's variant does in any case; otherwise the features are the same for all. There is no choice
        by second moments then, and a refit is of the classes' features together.
    always_include : array of int or str, optional
        Columns, by number or name, that are selected whatever else: their weights are exact from the first row on, and
        never in the sketch, and the others are chosen by what they add. They count among `n_features_to_select`. The
        refit has no penalty on them. Not with the paper's variant or `per_class`, which rank all features, and not
        where features are 64-bit ids.
    random_state : int, RandomState or None
        Seed of the sketch's hash, of the order of rows in memory and of later passes.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, most important first: those always included, then by the size of the weight with which they were
        selected.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,), of more than two classes (n_classes, n_features)
        On the scale of the data, 0 where not selected.
    intercept_ : float, of more than two classes ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
        With a loss of classes.
    scores_ : ndarray of shape (n_features,)
        Size of the weight before the refit, beside all candidates, of standardised columns where they were; 0 where not
        selected.
    result_ : SelectionResult
        Its table has further columns: `weight` (before the refit, with its sign), `touches` (rows met while active),
        `deviation` (standard deviation of the column) and `weight_x_deviation`: by weight alone rare features rank too
        low, by this one they rank lower still, and common ones first. Its history has the mean loss of the rows before
        they were learnt from, the threshold and the norm of the tail.

    Notes
    -----
    Memory: 4 n_hashes n_buckets bytes of sketch (times the classes, where there are more than two), 20 bytes for each
    of about 4 k + 8,192 slots, and blocks of rows; besides, what is reported of every feature. Sparse input stays
    sparse. The same store, parameters and seed give the same bits on one machine with any number of workers. Tiles and
    memory change no more than rounding. The paper's variant asks the sketch for all k active features after every row
    that has others: its time grows with k.

    Not for a hundred features of dense columns that fit in memory: `FGM` and `OnlineSubstitution` look at all columns
    with exact statistics, where this selector sees those among the weights of largest size. Where thousands are asked
    for there is no choice by second moments, and of correlated columns several of a bundle are selected.

    Columns of very different scale learn at very different speeds, and an |x| a thousand times larger makes a weight a
    thousand times smaller: scale sparse columns first, by tf-idf or their largest value.

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
            problem = f"{what} ranks all features: none can be kept whatever it weighs"
            raise ConfigError(problem, "always_include", "leave one of them out")
        if self.heap and self.variant != "paper":
            raise ConfigError("only the paper's variant has a heap", "heap", 'variant="paper"')

    def _check_loss(self, loss: Loss) -> None:
        if self.refit == "exact" and not loss.has_formula_of_many_rows:
            raise ConfigError(f"there is no exact refit of the {loss.name} loss", "refit", 'refit="sgd"')
        if self.class_weight is not None and not loss.is_classifier:
            problem = f"the {loss.name} loss has no classes"
            raise ConfigError(problem, "class_weight", "leave it out, or pass sample weights")

    @property
    def is_nested(self) -> bool:
        """Whether the ranks of one fit are those of fewer features, whose coefficients are the refit's."""
        return self.variant != "paper" and (self._refits or self.refit in ("auto", "exact")) and not self.per_class

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        n_outputs = shape.n_classes if shape.n_classes > 2 and find_loss(self.loss_).is_classifier else 1
        return plan_mission(MissionShape.of(shape, self._settings(), n_outputs), limits.task_nbytes)

    def _settings(self) -> Settings:
        """Return what is asked of a fit, with the default values of its variant."""
        is_paper, intercept_rate, half_life = self.variant == "paper", self.intercept_rate, self.tail_half_life
        return Settings(
            n_features_to_select=self.n_features_to_select,
            loss=self.loss_,
            variant="heap" if self.heap else self.variant,
            n_buckets=self.n_buckets,
            n_hashes=0 if self.tail == "identity" else self.n_hashes,
            n_epochs=self.n_epochs or (1 if is_paper else N_EPOCHS),
            learning_rate=self.learning_rate,
            intercept_rate=(0.0 if is_paper else INTERCEPT_RATE) if intercept_rate is None else intercept_rate,
            tail_half_life=(None if is_paper else HALF_LIFE) if half_life == "auto" else half_life,
            block_rows=self.block_rows,
            n_replicas=self.n_replicas,
            sync_every=self.sync_every,
            standardize=not is_paper if self.standardize is None else self.standardize,
            class_weight=self.class_weight,
            refit=self._own_refit,
            seed=seed_of(self.random_state) or 0,
            n_candidates=None if is_paper or self.per_class else self.n_candidates,
            per_class=self.per_class and not is_paper,
            always_include=self.always_include,
        )

    @property
    def _own_refit(self) -> Literal["auto", "exact", "sgd"] | None:
        """The fit of the selected features that this method makes; a refit of every selector's kind comes after it."""
        if self.refit in (None, "none") or (self.variant == "paper" and self.refit not in ("exact", "sgd")):
            return None
        return self.refit if self.refit in ("exact", "sgd") else "auto"  # type: ignore[return-value]

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
        """Learn from more rows, once, in the order in which they stand; the features selected may change.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
            Or X is a sparse source, files of clicks or words, whose rows bring their targets and weights.
        classes : array-like of shape (n_classes,), optional
            All labels, where the first rows do not have them all.
        tell : callable, optional
            Of a source, as of `fit_source`.

        Returns
        -------
        self

        Notes
        -----
        Nothing is kept but the model: `coef_` are its weights, without a refit. The learning rate is constant, from the
        norms of the first rows; the tail's half-life is `tail_half_life` times the rows met so far. A pickled selector
        goes on where it stood.
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
            settings = self._settings_of_streams()
            self._stream_labels = labels
            if before is None:
                self._take_names(matrix)
                self._labels = labels
                checked_target(matrix, self.loss_, LARGEST_TARGET)
                target = self._encoded(settings, matrix, None if labels is None else len(labels))
                fit = begin(run, settings, *target, n_epochs=1)
            else:
                fit = before.going_on(settings, matrix.shape[0])
                run.seconds.update(before.seconds)
                run.nbytes.update(before.nbytes)
            refuse_new_classes(matrix, fit.sgd.target)
            passes = Passes(run, fit)
            passes.take("train", 0, 1)
            self._stream = passes.learnt()
            self._take(run, self._stream.selected(), None, passes.history, [*_notes_before(fit), NO_REFIT])
        if labels is not None:
            self.classes_ = labels
        return self

    def _fit(self, run: Run) -> None:
        n_to_select(self.n_features_to_select, run.matrix.shape[1], DEFAULT_N_SELECTED)
        checked_target(run.matrix, self.loss_, LARGEST_TARGET)
        notes: list[str] = []
        rows = run.over(in_random_order(weighted_rows(run.matrix), self.random_state, notes))
        weight = rows.matrix.read_weight(slice(None))
        settings = replace(self._settings(), total_weight=None if weight is None else float(np.sum(weight)))
        target = self._encoded(settings, rows.matrix, None)
        passes = Passes(rows, begin(rows, settings, *target, settings.n_epochs))  # step 1
        passes.take("train", 0, settings.n_epochs)  # steps 2 to 5
        passes.choose()  # step 6
        fit = passes.learnt().selected()
        notes += [*_notes_before(fit), *_notes_after(fit)]
        refit = passes.refit()  # step 7
        _check_always(fit, refit, run.matrix)
        self._stream = None
        self._take(run, fit, refit, passes.history, notes)

    def _notes_on_stream(self, fit: MissionFit) -> list[str]:
        return [*_notes_before(fit), *_notes_after(fit)]

    def _encoded(self, settings: Settings, matrix: Matrix, n_classes: int | None) -> tuple[TargetEncoding, np.ndarray]:
        """Return how the target is read, with the intercepts of the model without features; set `classes_`."""
        target, intercept = encode_target(settings, matrix, n_classes, getattr(self, "_labels", None))
        if target.classes is not None:
            self.classes_ = target.classes
        return target, intercept

    def _take(self, run: Run, fit: MissionFit, refit: Refit | None, history: list[Line], notes: list[str]) -> None:
        """Set what was selected, its coefficients on the scale of the data, and the result."""
        n_features, model = int(run.matrix.shape[1]), fit.state
        keys, sizes = model.keys, norms(model.weights).astype(np.float64)
        coef, intercept = on_scale_of_data(fit.sgd.scaling, model) if refit is None else (refit.coef, refit.intercept)
        order = fit.by_rank
        if n_features >= MOST_IDS:  # of what is selected alone, in this order
            self.selected_, columns, n_features = keys[order], np.argsort(order), len(keys)
        else:
            columns = keys.astype(np.int64)
            self.selected_ = columns[order]
        self.support_ = np.zeros(n_features, dtype=bool)
        self.support_[columns] = True
        self.scores_ = np.zeros(n_features)
        self.scores_[columns] = sizes
        if coef.shape[1] == 1:
            self.coef_ = np.zeros(n_features)
            self.coef_[columns] = coef[:, 0]
            self.intercept_ = float(intercept[0])
        else:
            self.coef_ = np.zeros((coef.shape[1], n_features))
            self.coef_[:, columns] = coef.T
            self.intercept_ = np.array(intercept, dtype=np.float64)

        lines = dict(zip(HISTORY, np.array(history, dtype=np.float64).reshape(-1, len(HISTORY)).T, strict=True))
        lines |= {name: lines[name].astype(np.int64) for name in ("pass", "rows_seen", "n_active")}
        if fit.progressive:
            so_far = [fit.progressive.get(n_rows, np.nan) for n_rows in lines["rows_seen"].tolist()]
            lines["progressive_loss"] = np.array(so_far)
        table_coef, more_columns = _table(fit, refit)
        self.result_ = self._result_of(
            run,
            notes=[*notes, *(refit.notes if refit else []), *_notes_on_selection(fit), *self._notes_on_names()],
            history=lines,
            chosen={
                "n_features_to_select": fit.shape.n_selected,
                "n_candidates": fit.shape.model.n_selected if fit.shape.has_choice else None,
                "n_buckets": fit.shape.model.n_buckets,
                "learning_rate": fit.sgd.rate,
                "refit": None if refit is None else fit.shape.refit,
            },
            coef=table_coef,
            columns=more_columns,
            scores=sizes[order],
            names=self._names_of_features,
            memory={"held_nbytes": {"model": fit.shape.model.nbytes}},
            n_samples=fit.n_samples,
        )

    @property
    def response_losses(self) -> tuple[str, str]:
        """Of a classifier each class has a predictor of its own, of two the second alone, whatever its loss is."""
        if not find_loss(self.loss_).is_classifier:
            return super().response_losses
        if len(self.classes_) == 2:
            return "logistic", "logistic"
        return "multinomial", "multinomial" if self._loss.has_classes else "logistic"


def _table(fit: MissionFit, refit: Refit | None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the coefficients of the selected features, most important first, and further columns of the table."""
    model = fit.state
    order = fit.by_rank
    weights = on_scale_of_data(fit.sgd.scaling, model)[0][order]
    leading = np.argmax(np.abs(weights), axis=1)  # the class with the largest weight
    place = (np.arange(len(order)), leading)
    deviation = np.full(len(order), np.nan) if refit is None else refit.deviation[order]
    columns = {
        "weight": weights[place],
        "touches": model.touches[order],
        "deviation": deviation,
        "weight_x_deviation": np.abs(weights[place]) * deviation,
    }
    if weights.shape[1] > 1:
        columns["class"] = leading
    return (weights if refit is None else refit.coef[order])[place], columns


def _check_always(fit: MissionFit, refit: Refit | None, matrix: Matrix) -> None:
    """Refuse a column that is always included and does not vary, as far as somebody has looked at all its rows."""
    keys, varies = fit.state.keys, np.ones(len(fit.state.keys), dtype=bool)
    if refit is not None:
        varies = refit.deviation > 0.0
    missing = np.setdiff1d(np.array(fit.shape.model.always, dtype=np.int64), keys[varies].astype(np.int64))
    if len(missing):
        raise DataError("is constant", f"always_include, column {matrix.names[missing[0]]!r}", "drop it")


def _notes_before(fit: MissionFit) -> list[str]:
    """Return in words what was known before the first row was learnt from."""
    model, survey, settings, notes = fit.shape.model, fit.survey, fit.shape.settings, []
    if model.n_hashes and not model.forgets and model.variant != "hashing":
        sizes = (model.n_selected, survey.n_ids, model.n_buckets, model.n_hashes)
        notes.append(check_capacity(*sizes, model.variant, survey.nnz_per_row).text)
    if settings.learning_rate is None and model.is_in_sketch and math.isinf(fit.sgd.step_limit):
        notes.append(f"learning rate {fit.sgd.rate:.4g} throughout, the paper's")
    elif settings.learning_rate is None:
        notes.append(f"learning rate {fit.sgd.rate:.4g}, from a mean ‖x‖² of {survey.squared_norm:.4g}")
    n_selected, data = fit.shape.n_selected, fit.shape.data
    if n_selected == data.n_features:
        notes.append("as many features are asked for as there are: nothing is left out")
    elif settings.n_features_to_select is None and not settings.is_stream and n_selected < DEFAULT_N_SELECTED:
        notes.append(f"{n_selected:,} features: half as many as there are rows, where no number is asked for")
    elif n_selected >= data.n_samples and not settings.is_stream:
        notes.append(
            Caution(f"{n_selected:,} features of {data.n_samples:,} rows: any of them fit the target by chance")
        )
    if settings.tail_half_life is None and settings.n_epochs > 1:
        notes.append("several passes without tail_half_life: features that were not selected gather weight")
    return notes


def _notes_after(fit: MissionFit) -> list[str]:
    """Return in words whether the sketch was large enough for what it came to hold."""
    model, threshold = fit.shape.model, fit.state.threshold
    if not (threshold > 0.0 and model.n_hashes and model.variant == "active"):
        return []
    tail_norm = fit.history[-1].tail_norm
    return [check_noise(tail_norm, threshold, fit.survey.n_ids, model.n_buckets, model.n_hashes).text]


def _notes_on_selection(fit: MissionFit) -> list[str]:
    """Return in words by what features were selected."""
    settings, n_outputs = fit.shape.settings, fit.shape.model.n_outputs
    if fit.shape.model.variant == "hashing" and not len(fit.state.keys):
        return ["features are 64-bit ids, of which none is listed: rows are predicted by the cells that they share"]
    chosen = "weight" if n_outputs == 1 else "norm of the weights over the classes"
    n_selected = len(fit.state.keys)
    if n_outputs > 1 and fit.shape.model.is_by_class:
        chosen = f"weight for a class, up to {fit.shape.model.n_selected:,} for each,"
    notes = [f"selected: the {n_selected:,} features of largest {chosen} after {settings.n_epochs} pass(es)"]
    if fit.shape.has_choice and fit.shape.model.n_selected > fit.shape.n_selected:
        how = "by forward selection on their second moments"
        notes = [
            f"selected: {n_selected:,} features {how}, out of {fit.shape.model.n_selected:,} of largest {chosen} after "
            f"{settings.n_epochs} pass(es)"
        ]
    if fit.shape.model.always:
        notes.append(f"{len(fit.shape.model.always)} of them were always included")
    if n_outputs > 1:
        notes.append("coef of a feature is that of the class with its largest weight (column 'class' of selected.csv)")
    if settings.n_replicas > 1:
        when = "after each part of the source" if fit.progressive else f"every {settings.sync_every:,} rows"
        notes.append(f"{settings.n_replicas} models were averaged {when}")
    return notes
