"""l1-penalised models of LIBLINEAR, through scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple


class LiblinearLoss(NamedTuple):
    """LIBLINEAR's version of a loss."""

    name: str
    """Name of the loss in `sklearn.svm.l1_min_c`."""
    is_svm: bool
    """Whether `sklearn.svm.LinearSVC` minimises it, rather than `LogisticRegression`."""
    factor: float
    """Ratio of LIBLINEAR's loss to ours."""
    derivative: float
    """Absolute derivative of our loss at 0."""


LIBLINEAR = {
    "logistic": LiblinearLoss("log", is_svm=False, factor=1.0, derivative=0.5),
    "squared_hinge": LiblinearLoss("squared_hinge", is_svm=True, factor=2.0, derivative=1.0),
}


def l1_model(loss: str, C: float, **options: Any) -> Any:
    """Return an unfitted model that minimises ‖(w, b)‖₁ + C Σ_i loss(z_i, y_i).

    Parameters
    ----------
    loss : {"logistic", "squared_hinge"}
        The squared hinge has LIBLINEAR's factor 1, not ½.
    C : float
    **options
        Further parameters of scikit-learn's model.
    """
    # imported on use: 30 MiB, which no other baseline needs
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if LIBLINEAR[loss].is_svm:
        return LinearSVC(penalty="l1", dual=False, C=C, **options)
    if inspect.signature(LogisticRegression).parameters["penalty"].default != "deprecated":  # before 1.8
        return LogisticRegression(penalty="l1", solver="liblinear", C=C, **options)
    return LogisticRegression(l1_ratio=1.0, solver="liblinear", C=C, **options)
