"""The active-set method: FGM that takes one column in each pass.

    1. The column whose product with the dual variables is largest joins the model.
    2. The model is fitted anew, ½ (Σ_j |w_j|)² + C Σ_i loss(z_i, y_i); the dual variables follow.
    3. Until as many columns as asked for have joined.

F. Bach, "High-dimensional non-linear variable selection through hierarchical kernel learning", arXiv 0909.0844 (2009);
V. Roth and B. Fischer, "The group-Lasso for generalized linear models", ICML (2008): in the form in which Tan, Tsang
and Wang (2014), section 7, compare it with FGM. With B = 1 the norm of FGM is the l1 norm, squared.
"""

from __future__ import annotations

from daskfs.selectors.fgm.selector import FGM


class ActiveSet(
    FGM,
    fixed={
        "n_features_per_pass": 1, "center": True, "normalize": "auto", "validation": None, "patience": 3,
        "solver": "apg", "certify": False, "debias": True,
    },
):  # fmt: skip
    """Select one column in each pass.

    Parameters
    ----------
    n_features_to_select : int or "cv" or mapping, optional
        Exactly so many; by default until `tol` or `max_passes` ends it.
        "cv": as many as cross-validation says; a mapping, as `daskfs.SelectionCV` has `cv`, `sizes`, `rule`, `metric`,
        `groups` and `order`, says how.
    random_state : int, RandomState or None
        Of the rows held out with ``C="validation"``.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, classes_, scores_, C_, dual_gap_, n_passes_, result_
        As of `FGM`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> np.sort(ActiveSet(2).fit(X, X[:, 3] > X[:, 7]).selected_)
    array([3, 7])
    """

    method = "active_set"
