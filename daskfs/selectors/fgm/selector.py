"""FGM, the feature generating machine: the B columns that violate the optimum most, pass after pass.

    Input: store of n rows x p columns, classes (or a target), C, B = n_features_per_pass
    1. v = minus the slope of C Σ_i loss(shift, y_i); no group of columns yet
    2. on every block of columns, where it lies, and then joined in a tree:          (worst-case analysis)
         s_j = (x̃_jᵀ v)² for its columns x̃_j = (x_j - mean_j) / scale_j; its B largest, ties by number
    3. the B columns with the largest s_j become group t, and are kept in memory
    4. ω_1 ... ω_t, shift = argmin ½ (Σ_t ‖ω_t‖)² + C Σ_i loss(Σ_t X̃_t ω_t + shift, y_i)          (subproblem)
    5. v = minus the slope of the loss at that point; back to 2, until
         as many features as asked for, or the objective has stopped falling, or the loss of rows held out has

Reference: Mingkui Tan, Ivor W. Tsang and Li Wang (2014), "Towards Ultrahigh Dimensional Feature Selection for Big
Data", Journal of Machine Learning Research 15, 1371-1429: Algorithms 1 to 5, Theorem 3, section 5.

Differs from the paper:

- The constants are those of its (7): C/2 Σ ξ² for the squared hinge, C Σ log(1 + exp(-y z)) for the logistic loss. Its
  released code has C Σ ξ². The squared loss is ours.
- The shift is added (z = Xω + shift), and moved by Newton's method with Armijo's rule, which ends in one or two steps
  where steepest descent takes many; the dual variables therefore add up to 0, as (11) asks.
- Scores depend on the scale of the columns. They are standardised on the fly with the store's statistics, unless
  `center` or `normalize` is False: then as in the paper.
- An iteration of the descent that raises the objective is taken back and repeated without momentum (the step length
  may grow, so the paper's proof does not exclude it).
- FGM run to the end is the loss with half the squared k-support norm (Argyriou, Foygel and Srebro 2012), k = B, whose
  dual needs the B largest scores alone. So each pass gives a lower bound of the optimum over all columns, which the
  paper does not have; the gap is in the history.
- Where a number of features is asked for, the last B is smaller, and a pass takes new features alone when the passes
  left would not suffice otherwise. Groups whose coefficients have vanished count: they were selected.
- A feature that is picked again is kept in memory once.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from annotated_types import Gt, Lt

from daskfs.kernels.fgm.shift import new_rows
from daskfs.kernels.losses import loss_code
from daskfs.losses import AT_ONCE, BOUNDED_CURVATURE, ONE_PREDICTION
from daskfs.matrix.base import Matrix
from daskfs.parameters import Count, LossOf, Positive, Tolerance, n_to_select
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.fgm.parameters import (
    C_FACTORS,
    VALIDATION_SHARE,
    default_C,
    sizes,
    typical_variance,
)
from daskfs.selectors.fgm.passes import FgmPasses, Stopping
from daskfs.selectors.fgm.plan import FgmShape, cut_columns, plan_fgm
from daskfs.selectors.fgm.restricted_problem import RestrictedModel, SolverSettings
from daskfs.selectors.fgm.result import finish
from daskfs.selectors.fgm.run import ColumnPasses
from daskfs.selectors.fgm.tasks import scored_in_place
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.responses import CLASSIFIERS
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target, classes_of


class FGM(BaseSelector):
    """Select the features that violate the optimum most, pass after pass over blocks of columns.

    Parameters
    ----------
    n_features_to_select : int, optional
        Exactly so many; by default until `tol`, `max_passes` or `validation` ends it.
    n_features_per_pass : int, optional
        The paper's B: columns of a pass. By default 10, or a tenth of `n_features_to_select`. Few find more of the
        true features, many take fewer passes over the data.
    loss : {"squared", "logistic", "squared_hinge"}
        The paper's PROX-FGM and PROX-SLR, for two classes with any labels; or least squares.
    C : float or "validation", optional
        Weight of the loss against half the squared norm. By default 0.01, with fewer than 1,000 rows 10 / n, divided by
        the columns' typical variance where they are not normalised, and four times as much for the logistic loss.
        "validation": the best of multiples of that, 1/10 to 100, by the loss of rows held out. See Notes.
    fit_intercept : bool
        Whether there is an intercept. Without, columns are not centred.
    center : bool
        Whether columns are taken about their means; nothing is written, and sparse columns stay sparse.
    normalize : bool
        Whether columns are divided by their standard deviations (not centred: by their root mean squares).
    tol : float
        Without `n_features_to_select`: ends where a pass lowers the objective by no more than this share of what it
        was without features, the paper's (38).
    max_passes : int, optional
        By default 20; with `n_features_to_select` up to twice as many as that many new features take.
    validation : float, optional
        Share of the rows held out: passes end where their loss has not fallen for `patience` passes, and the groups up
        to the best one are fitted on all rows.
    patience : int
        Of `validation`.
    solver : {"apg", "exact", "simple_mkl"}
        Of the subproblem: accelerated gradient to `inner_tol`; the same, then polished by alternating ridge fits and
        weights of the groups to a duality gap of 1e-9; or SimpleMKL, the paper's MKL-FGM.
    inner_tol : float
        Ends the subproblem where an iteration lowers the objective by no more than this share, the paper's (41).
    max_inner : int
        Iterations of a subproblem; of simple_mkl ridge fits.
    certify : bool
        Whether one more pass computes the duality gap of the final model.
    debias : bool
        Whether `coef_` are those of a refit on the selected features alone, ½ ‖w‖² + C Σ loss with a shift. Both fits'
        accuracies are reported.
    random_state : int, RandomState or None
        Of the rows held out.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, by `scores_`.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,)
        On the scale of the data.
    intercept_ : float
    classes_ : ndarray of shape (2,)
        With a loss of classes.
    scores_ : ndarray of shape (n_features,)
        Size of the standardised coefficient; 0 where not selected.
    C_ : float
    C_losses_ : dict of float
        With ``C="validation"``: mean loss of the rows held out for each C tried.
    dual_gap_ : float
        Share of the objective by which it may lie above the optimum over all columns, as far as passes have shown.
    n_passes_ : int
        Worst-case analyses.
    result_ : SelectionResult
        Its history has a row for each pass: features, objective, gap before the pass and more.

    Notes
    -----
    The optimum itself is not sparse: with a large C the gap may stand at .9 when the features are as good as they get.
    The number of features, or rows held out, should end the passes; the gap says how far the optimum is, not how good
    the selection is. A large C goes on fitting once the loss is near 0, and picks columns for the noise.

    Memory: two pieces of a block of columns in a task; in the leading process the selected columns as they are stored,
    up to 512 MiB of their inner products, and vectors over the rows. The same data and parameters give the same bits
    with any tiles, workers and order of completion.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 200))
    >>> y = np.where(X[:, 3] - X[:, 7] + X[:, 11] > 0.5, "yes", "no")
    >>> selector = FGM(n_features_to_select=3).fit(X, y)
    >>> np.sort(selector.selected_)
    array([ 3,  7, 11])
    """

    method = "fgm"
    score_kind = "standardised coefficient"
    history_kind = "passes"

    n_features_to_select: Count | None = None
    n_features_per_pass: Count | None = None
    loss: Annotated[
        str, LossOf(BOUNDED_CURVATURE, ONE_PREDICTION, AT_ONCE, among=("squared", "logistic", "squared_hinge"))
    ] = "squared_hinge"
    C: Positive | Literal["validation"] | None = None
    fit_intercept: bool = True
    center: bool = True
    normalize: bool = True
    tol: Tolerance = 1e-3
    max_passes: Count | None = None
    validation: Annotated[float, Gt(0), Lt(1)] | None = None
    patience: Count = 3
    solver: Literal["apg", "exact", "simple_mkl"] = "apg"
    inner_tol: Tolerance = 1e-3
    max_inner: Count = 50
    certify: bool = False
    debias: bool = False

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        sizes = self._shape(shape.n_samples, shape.n_features, shape.itemsize)
        return plan_fgm(sizes, limits.task_nbytes, limits.n_threads, shape.tile_shape, with_statistics=True)

    def _fit(self, run: Run) -> None:
        matrix = run.matrix
        y, weight = self._target(matrix)
        columns = self._column_passes(run.over(matrix, by="columns"))
        mean, std = columns.statistics(weight, matrix.read_weight(slice(None)) is not None)
        self._centre, self._inverse = self._standardising(mean, std)
        self.C_ = self._resolved_C(columns, y, weight, std)
        passes = self._passes(columns, y, weight, self.C_, self._held_out(weight), "")
        passes.run(certify=self.certify, share_of_all=self.C_ * weight)
        finish(self, matrix, passes, y, weight)
        del self._centre, self._inverse

    def _passes(
        self,
        columns: ColumnPasses,
        y: np.ndarray,
        weight: np.ndarray,
        C: float,
        held_out: np.ndarray,
        name: str,
    ) -> FgmPasses:
        """Return the passes for one C, nothing read yet; rows held out weigh nothing, the others as much as all."""
        n_samples, n_features = (int(length) for length in columns.matrix.shape)
        per_pass, n_most, n_passes = self._sizes(n_features)
        training = np.where(held_out, 0.0, weight)
        share = C * training * (weight.sum() / training.sum())
        is_wide = np.dtype(columns.matrix.dtype) == np.float64
        dtype = np.dtype(np.float64 if is_wide else np.float32)
        model = RestrictedModel(new_rows(loss_code(self.loss), y, share), n_most, dtype)
        stopping = Stopping(
            n_wanted=self.n_features_to_select, n_per_pass=per_pass, n_passes=n_passes, tol=self.tol,
            held_out=np.where(held_out, weight, 0.0) if held_out.any() else None, patience=self.patience,
        )  # fmt: skip
        n_kept = FgmShape(n_samples, 1, model.dtype.itemsize, 1, 1, 1).n_kept
        settings = SolverSettings(self.solver, float(self.inner_tol), int(self.max_inner), self.fit_intercept, n_kept)
        return FgmPasses(columns, model, stopping, settings, self._centre, self._inverse, name)

    def _resolved_C(self, columns: ColumnPasses, y: np.ndarray, weight: np.ndarray, std: np.ndarray) -> float:
        """Return C: as given, from the rows and columns, or by the loss of rows held out."""
        if self.C is not None and self.C != "validation":
            return float(self.C)
        start = default_C(float(weight.sum()), self.loss, typical_variance((std * self._inverse) ** 2))
        if self.C is None:
            return start
        held_out = self._held_out(weight, VALIDATION_SHARE)
        self.C_losses_ = {}
        for factor in C_FACTORS:
            passes = self._passes(columns, y, weight, factor * start, held_out, f"C-{factor:g}")
            passes.run(certify=False, share_of_all=None)
            self.C_losses_[factor * start] = passes.lowest_held_out
            losses = list(self.C_losses_.values())
            if len(losses) - 1 - int(np.argmin(losses)) >= 2:
                break
        return min(self.C_losses_, key=self.C_losses_.__getitem__)

    def _column_passes(self, run: Run) -> ColumnPasses:
        matrix, limit, n_threads = run.matrix, run.task_limit, run.workers.n_threads
        shape = self._shape(int(matrix.shape[0]), int(matrix.shape[1]), np.dtype(matrix.dtype).itemsize)
        in_memory = scored_in_place(matrix, slice(0, 1)) is not None or matrix.sparse_columns(slice(0, 1)) is not None
        cut = cut_columns(shape, limit, n_threads, matrix.tile_shape, in_memory)
        return ColumnPasses(run, cut)

    def _target(self, matrix: Matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return the target (classes as -1 and +1) and the weights of all rows."""
        y = checked_target(matrix, self.loss)
        found = matrix.read_weight(slice(None))
        weight = np.ones(len(y)) if found is None else np.array(found, dtype=np.float64)
        if self.loss in CLASSIFIERS:
            self.classes_ = classes_of(y[weight > 0.0], None)
            y = np.where(y == self.classes_[1], 1.0, -1.0)
        return np.array(y, dtype=np.float64), weight

    def _standardising(self, mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the centres and inverse scales of all columns; 0 for a column that says nothing."""
        is_centred = self.center and self.fit_intercept
        spread = std if is_centred else np.sqrt(std * std + mean * mean)
        inverse = np.divide(1.0, spread, out=np.zeros(len(spread)), where=spread > 0.0)
        if not self.normalize:
            inverse = (spread > 0.0).astype(np.float64)
        return mean.copy() if is_centred else np.zeros(len(mean)), inverse

    def _held_out(self, weight: np.ndarray, default: float | None = None) -> np.ndarray:
        """Return a mask of the rows held out."""
        held_out = np.zeros(len(weight), dtype=bool)
        share = self.validation or default
        if share is not None:
            n_held = max(1, int(np.ceil(share * len(weight))))
            order = np.random.default_rng(seed_of(self.random_state)).permutation(len(weight))
            held_out[order[:n_held]] = True
            held_out &= weight > 0.0
        return held_out

    def _sizes(self, n_features: int) -> tuple[int, int, int]:
        n_to_select(self.n_features_to_select, n_features, n_features)
        return sizes(self.n_features_to_select, self.n_features_per_pass, self.max_passes, n_features)

    def _shape(self, n_samples: int, n_features: int, itemsize: int) -> FgmShape:
        per_pass, n_most, n_passes = self._sizes(n_features)
        n_planned = n_passes if self.n_features_to_select is None else -(-n_most // per_pass)
        return FgmShape(n_samples, n_features, itemsize, per_pass, n_most, n_planned + self.certify, self.solver)
