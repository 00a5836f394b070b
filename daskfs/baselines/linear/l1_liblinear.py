"""l1-SVM and l1-LR: an l1 penalty on all columns, by LIBLINEAR through scikit-learn.

    min over w, b of ‖(w, b)‖₁ + C Σ_i loss(x_iᵀ w + b, y_i)

R.-E. Fan, K.-W. Chang, C.-J. Hsieh, X.-R. Wang and C.-J. Lin, "LIBLINEAR: A library for large linear classification",
Journal of Machine Learning Research 9 (2008); baselines of Tan, Tsang and Wang (2014), section 8.

Differs from the paper
----------------------
* The number of features may be given: C is bisected. Our squared hinge is half of LIBLINEAR's, so our C is twice its.
* Dense columns are standardised first. Sparse columns are not, so that they stay sparse.
* LIBLINEAR penalises the intercept, as the paper's experiments with an intercept do.
"""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from daskfs import interrupts
from daskfs.baselines.liblinear import LIBLINEAR, l1_model
from daskfs.baselines.linear.base import LinearBaseline, PenalisedFit
from daskfs.losses import TWO_CLASSES
from daskfs.parameters import Count, LossOf, Positive


class L1Liblinear(LinearBaseline):
    """Select by an l1 penalty on all columns, in memory.

    Parameters
    ----------
    loss : {"auto", "logistic", "squared_hinge"}
        "logistic" is l1-LR, "squared_hinge" is l1-SVM (the default).
    fit_intercept : bool
        Whether there is an intercept.
    tol : float
        Tolerance of LIBLINEAR's stopping criterion.
    max_iter : int
        Maximum number of LIBLINEAR's iterations.
    debias : bool
        Whether `coef_` is from a refit on the selected features alone, as in `FGM`.
    random_state : int, RandomState or None
        Seed of the order of LIBLINEAR's coordinates.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, by `scores_`.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,)
        Coefficients on the scale of the data. They are shrunk by the penalty unless `debias`.
    intercept_ : float
    classes_ : ndarray of shape (2,)
    scores_ : ndarray of shape (n_features,)
        Absolute value of the coefficient; for a dense matrix, of the standardised one.
    C_ : float
    n_fits_ : int
    n_iter_ : int
        Number of iterations of the last fit.
    result_ : SelectionResult

    Notes
    -----
    The fit holds all values three times: in double precision and in LIBLINEAR's own sparse format.

    The columns of a sparse matrix are not standardised, so the penalty depends on their units, and the selection may
    differ from that of the same numbers in a dense matrix. Scale the columns beforehand if their scales differ.

    A checkpoint stores the fit of each C, and an interrupted search resumes after the last one.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> np.sort(L1Liblinear(2).fit(X, X[:, 3] > X[:, 7]).selected_)
    array([3, 7])
    """

    method = "l1_liblinear"
    _weighs_columns = True
    copies = 24

    loss: Annotated[str, LossOf(TWO_CLASSES, among=("logistic", "squared_hinge"), prefers="squared_hinge")] = "auto"
    fit_intercept: bool = True
    tol: Positive = 1e-3
    max_iter: Count = 1000
    debias: bool = False

    def _least(self, X: Any, y: np.ndarray, weight: np.ndarray) -> float:
        largest = float(np.abs(X.T @ (weight * y)).max())
        if self.fit_intercept:
            largest = max(largest, abs(float(weight @ y)))
        return 1.0 / (LIBLINEAR[self.loss_].derivative * largest) if largest > 0.0 else 1.0

    def _solve(self, C: float, X: Any, y: np.ndarray, weight: np.ndarray, start: PenalisedFit | None) -> PenalisedFit:
        options = {"fit_intercept": self.fit_intercept, "tol": self.tol, "max_iter": self.max_iter}
        C = C / LIBLINEAR[self.loss_].factor
        model = l1_model(self.loss_, C, random_state=self.random_state, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            interrupts.call_aside(model.fit, X, y, sample_weight=weight)
        coef = np.ravel(model.coef_).astype(np.float64)
        return PenalisedFit(coef, float(np.ravel(model.intercept_)[0]), int(np.max(model.n_iter_)))
