"""The active-set method: FGM that takes one column in each pass.

    1. The column whose product with the dual variables is largest joins the model.
    2. The model is fitted anew, ½ (Σ_j |w_j|)² + C Σ_i loss(z_i, y_i); the dual variables follow.
    3. Until as many columns as asked for have joined.

F. Bach, "High-dimensional non-linear variable selection through hierarchical kernel learning", arXiv 0909.0844 (2009);
V. Roth and B. Fischer, "The group-Lasso for generalized linear models", ICML (2008): in the form in which Tan, Tsang
and Wang (2014), section 7, compare it with FGM. With B = 1 the norm of FGM is the l1 norm, squared.
"""

from __future__ import annotations

from typing import Any, ClassVar

from daskfs.selectors.fgm.selector import FGM


class ActiveSet(FGM):
    """Select one column in each pass.

    Parameters
    ----------
    n_features_to_select : int, optional
        Exactly so many; by default until `tol` or `max_passes` ends it.
    loss : {"squared_hinge", "logistic", "squared"}
    C : float or "validation", optional
        Weight of the loss, as of `FGM`.
    fit_intercept : bool
    tol, max_passes, inner_tol, max_inner : as of `FGM`
    random_state : int, RandomState or None
    memory_limit : int or str, optional
        What one task may take, "1GiB" for example.
    client : distributed.Client, optional
        Where the work runs; None: here.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, classes_, scores_, C_, dual_gap_, n_passes_, result_
        As of `FGM`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 30))
    >>> y = X[:, 3] - X[:, 7] > 0
    >>> np.sort(ActiveSet(2).fit(X, y).selected_)
    array([3, 7])
    """

    method = "active_set"
    n_features_per_pass: ClassVar[int] = 1  # type: ignore[misc]
    center: ClassVar[bool] = True  # type: ignore[misc]
    normalize: ClassVar[bool] = True  # type: ignore[misc]
    validation: ClassVar[None] = None  # type: ignore[misc]
    patience: ClassVar[int] = 3  # type: ignore[misc]
    solver: ClassVar[str] = "apg"  # type: ignore[misc]
    certify: ClassVar[bool] = False  # type: ignore[misc]
    debias: ClassVar[bool] = False  # type: ignore[misc]

    def __init__(
        self,
        n_features_to_select: int | None = None,
        loss: str = "squared_hinge",
        C: float | str | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_passes: int | None = None,
        inner_tol: float = 1e-3,
        max_inner: int = 50,
        random_state: Any = 0,
        memory_limit: int | str | None = None,
        client: Any = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.loss = loss
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_passes = max_passes
        self.inner_tol = inner_tol
        self.max_inner = max_inner
        self.random_state = random_state
        self.memory_limit = memory_limit
        self.client = client
