"""l1-SVM and l1-LR: the l1 penalty over all columns, by liblinear through scikit-learn.

    min over w, b of ‖(w, b)‖₁ + C Σ_i loss(x_iᵀ w + b, y_i)

R.-E. Fan, K.-W. Chang, C.-J. Hsieh, X.-R. Wang and C.-J. Lin, "LIBLINEAR: A library for large linear classification",
Journal of Machine Learning Research 9 (2008); the competitors of Tan, Tsang and Wang (2014), section 8.

Differs from the paper
----------------------
* The number of features may be asked for: C is bisected. The squared hinge is half of liblinear's, so C is twice its.
* Dense columns are standardised first.
* liblinear counts the intercept in the penalty, as the paper's experiments with a shift do.
"""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from daskfs.baselines.linear.base import LinearBaseline
from daskfs.losses import TWO_CLASSES
from daskfs.parameters import Count, LossOf, Positive


class L1Liblinear(LinearBaseline):
    """Select by an l1 penalty on all columns, in memory.

    Parameters
    ----------
    loss : {"logistic", "squared_hinge"}
        l1-LR, l1-SVM.
    fit_intercept : bool
        Whether there is an intercept.
    tol : float
        liblinear's.
    max_iter : int
        liblinear's.
    debias : bool
        Whether `coef_` are those of a refit on the selected features alone, as `FGM` with its default C makes it.
    random_state : int, RandomState or None
        Of liblinear's order of coordinates.

    Attributes
    ----------
    selected_ : ndarray of shape (n_selected,)
        Columns, by `scores_`.
    support_ : ndarray of shape (n_features,), bool
    coef_ : ndarray of shape (n_features,)
        On the scale of the data, shrunk as the penalty does unless `debias`.
    intercept_ : float
    classes_ : ndarray of shape (2,)
    scores_ : ndarray of shape (n_features,)
        Size of the (standardised) coefficient.
    C_ : float
    n_fits_ : int
    n_iter_ : int
        Of the last fit.
    result_ : SelectionResult

    Notes
    -----
    Holds all values three times: in double precision, and in liblinear's own sparse form.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> y = X[:, 3] - X[:, 7] > 0
    >>> np.sort(L1Liblinear(2).fit(X, y).selected_)
    array([3, 7])
    """

    method = "l1_liblinear"
    copies = 24

    loss: Annotated[str, LossOf(TWO_CLASSES, among=("logistic", "squared_hinge"))] = "squared_hinge"
    fit_intercept: bool = True
    tol: Positive = 1e-3
    max_iter: Count = 1000
    debias: bool = False

    def _least(self, X: Any, y: np.ndarray, weight: np.ndarray) -> float:
        slope = 0.5 if self.loss == "logistic" else 1.0
        largest = float(np.abs(X.T @ (weight * y)).max())
        if self.fit_intercept:
            largest = max(largest, abs(float(weight @ y)))
        return 1.0 / (slope * largest) if largest > 0.0 else 1.0

    def _fit_at(self, C: float, X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float]:
        shared = {"fit_intercept": self.fit_intercept, "tol": self.tol, "max_iter": self.max_iter}
        if self.loss == "logistic":
            model = LogisticRegression(l1_ratio=1.0, solver="liblinear", C=C, random_state=self.random_state, **shared)
        else:
            model = LinearSVC(penalty="l1", dual=False, C=0.5 * C, random_state=self.random_state, **shared)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y, sample_weight=weight)
        self.n_iter_ = int(np.max(model.n_iter_))
        return np.ravel(model.coef_).astype(np.float64), float(np.ravel(model.intercept_)[0])
