"""Hard thresholding with gradients over all rows: IHT, ITI, PHT, and MISSION with an identity sketch.

    Input: dense rows (X, y), number of features k, step η
    1. r = y - X β.
    2. `daskfs.kernels.baselines.hard_thresholding` gives the k columns that the method keeps, and their coefficients.
    3. Repeat; then least squares on the k columns.
    Return them

The baselines of sections 3.1 and 5 of A. Aghazadeh et al., "MISSION: Ultra Large-Scale Feature Selection using
Count-Sketches", ICML 2018: T. Blumensath and M. E. Davies, "Iterative hard thresholding for compressed sensing" (2009);
A. Maleki, "Coherence analysis of iterative thresholding algorithms" (2009); P. Jain, A. Tewari and I. S. Dhillon,
"Partial hard thresholding" (2017).

Differs from the paper
----------------------
* The paper states neither step sizes nor the length of the runs nor their starting points. Here all start at β = 0 (PHT
  with the first k columns), and the step is a share of 1 / n for columns of variance 1.
* `IdentityMission` is its "identity sketch" with full gradients, as its appendix analyses it. The factor of the
  features outside the k largest decreases linearly.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

import numpy as np

from daskfs.baselines.base import SizedBaseline
from daskfs.kernels.baselines.hard_thresholding import IHT as IHT_CODE
from daskfs.kernels.baselines.hard_thresholding import ITI as ITI_CODE
from daskfs.kernels.baselines.hard_thresholding import PHT as PHT_CODE
from daskfs.kernels.baselines.hard_thresholding import accumulate, threshold
from daskfs.kernels.sketch.count_sketch import rows_of, seed_word
from daskfs.losses import NUMBERS
from daskfs.matrix.base import Matrix
from daskfs.parameters import Count, LossOf, Positive, PositiveShare, PowerOfTwo, n_to_select
from daskfs.selectors.inputs import seed_of
from daskfs.selectors.mission.configuration import DEFAULT_N_SELECTED
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.rows import weighted_rows
from daskfs.selectors.shared.run import Run
from daskfs.selectors.shared.targets import checked_target

GROWN = 100.0
"""Times the sum of squares of the target: larger residuals mean that the steps diverge, even before an overflow."""


class FullGradient(SizedBaseline):
    """Base class of the methods that hold all rows in memory and take full gradient steps.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Number of features, k. The default is 1,000, or all if there are fewer. "cv" chooses the number by
        cross-validation. A mapping does so with the options `cv`, `sizes`, `rule`, `metric`, `groups` and `order` of
        `daskfs.SelectionCV`.
    loss : {"auto", "squared"}
        Both mean least squares.
    step_size : float
        The step size η times n. 1 is right for uncorrelated columns of variance 1; the paper's own IHT behaves like
        0.1. It is halved, with a note, until the steps do not diverge.
    n_steps : int
        Number of steps.
    client : distributed.Client, optional
        Has no effect: the method runs in this process.
    """

    score_kind = "weight"

    loss: Annotated[str, LossOf(NUMBERS, among=("squared",))] = "auto"
    step_size: Positive = 1.0
    n_steps: Count = 300

    @abstractmethod
    def _select(self, X: np.ndarray, y: np.ndarray, k: int, step: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the k columns of centred rows, and coefficients that rank them: not finite if the steps diverged."""

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        n_samples, n_features = shape.n_samples, shape.n_features
        task = Budget().add("all values as they are stored", shape.nbytes).add("as float64", 8 * n_samples * n_features)
        what = f"{self.method} holds all {n_samples:,} rows x {n_features:,} columns:"
        task.add("vectors over the columns", 64 * n_features).refuse_over(limits.task_nbytes, what)
        client = Budget().add("vectors over the columns", 64 * n_features)
        return SelectorPlan(1, 1, shape.nbytes, task, client, f"{self.method}: all rows in memory, read once")

    def _fit(self, run: Run) -> None:
        k = n_to_select(self.n_features_to_select, run.shape.n_features, DEFAULT_N_SELECTED)
        checked_target(run.matrix, self.loss_)
        run = run.over(weighted_rows(run.matrix))
        self._plan(run.shape, run.limits)
        with run.reported("descent", 1) as advance, run.timed("descent"):
            chosen, sizes, step = self._descend(*_centred(run.matrix), k)
            advance()
        halved = f"steps of {self.step_size:g} / n diverged: {step:g} / n was used"
        order = np.argsort(chosen)
        refit = self._refitted(run, chosen[order])
        self._set_selection(chosen[order], np.abs(sizes[order]), refit.coef, refit.intercept)
        notes = [] if step == self.step_size else [halved]
        self.result_ = self._result_of(run, notes=notes, chosen={"n_features_to_select": len(chosen)})

    def _descend(self, X: np.ndarray, y: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Return columns, coefficients and the step size, halved until the steps do not diverge."""
        step, has_grown = 2.0 * float(self.step_size), True
        while step > 0.0 and has_grown:
            step *= 0.5
            chosen, sizes = self._select(X, y, k, step)
            with np.errstate(over="ignore", invalid="ignore"):
                residual = y - X[:, chosen] @ sizes
                has_grown = not residual @ residual <= GROWN * max(y @ y, 1e-300)
        return chosen, sizes, step


def _centred(rows: Matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return X and y, centred and multiplied by the roots of the weights."""
    X = np.asarray(rows.read(slice(None)), dtype=np.float64)
    y, weight = np.asarray(rows.read_target()), rows.read_weight()
    if not np.isfinite(X).all():
        row, column = (int(part[0]) for part in np.nonzero(~np.isfinite(X)))
        raise rows.bad_value(row, column, X[row, column])
    weight = np.ones(len(y)) if weight is None else weight / np.mean(weight)
    root = np.sqrt(weight)
    X = (X - np.average(X, axis=0, weights=weight)) * root[:, None]
    return np.ascontiguousarray(X), (y - np.average(y, weights=weight)) * root


class _Thresholding(FullGradient):
    _code: ClassVar[int]
    _n_swaps = 1

    def _select(self, X: np.ndarray, y: np.ndarray, k: int, step: float) -> tuple[np.ndarray, np.ndarray]:
        n_swaps = min(self._n_swaps, max(1, X.shape[1] - k))
        return threshold(X, y, k, self._code, step / len(y), self.n_steps, n_swaps)


class IHT(_Thresholding):
    """Iterative hard thresholding: after each gradient step, the k largest coefficients are kept.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_, result_ : see `Mission`; `coef_` is a least-squares refit

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> IHT(2).fit(X, 2 * X[:, 3] - X[:, 7]).selected_
    array([3, 7])
    """

    method = "iht"
    _code = IHT_CODE


class ITI(_Thresholding):
    """Iterative thresholding with inversion: after each gradient step, least squares on the k largest; see `IHT`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> ITI(2).fit(X, 2 * X[:, 3] - X[:, 7]).selected_
    array([3, 7])
    """

    method = "iti"
    _code = ITI_CODE


class PHT(_Thresholding):
    """Partial hard thresholding: in each step at most one column joins, then least squares; see `IHT`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> PHT(2).fit(X, 2 * X[:, 3] - X[:, 7]).selected_
    array([3, 7])
    """

    method = "pht"
    _code = PHT_CODE


class IdentityMission(FullGradient):
    """MISSION with one cell per feature and full gradients: sums of gradients, thresholded but never forgotten.

    Parameters
    ----------
    last_factor : float
        Factor of the features outside the k largest after the last step. It decreases from 1; 1 leaves them unchanged.
    n_buckets : int, optional
        Number of buckets of a count-sketch of three rows, instead of the identity.
    random_state : int, RandomState or None
        Seed of the sketch's hash.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, scores_, result_ : see `Mission`; `coef_` is a least-squares refit

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> IdentityMission(2).fit(X, 2 * X[:, 3] - X[:, 7]).selected_
    array([3, 7])
    """

    method = "identity_mission"

    step_size: Positive = 0.1
    n_steps: Count = 1000
    last_factor: PositiveShare = 0.98
    n_buckets: PowerOfTwo | None = None

    def _select(self, X: np.ndarray, y: np.ndarray, k: int, step: float) -> tuple[np.ndarray, np.ndarray]:
        rows = rows_of(0 if self.n_buckets is None else 3)
        hashing = (np.uint64(self.n_buckets or X.shape[1]), rows, seed_word(seed_of(self.random_state) or 0))
        return accumulate(X, y, k, step / len(y), self.n_steps, float(self.last_factor), *hashing)
