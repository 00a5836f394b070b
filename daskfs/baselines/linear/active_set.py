"""The active-set method: FGM with one column per pass.

    1. The column with the largest product with the dual variables joins the model.
    2. The model is refitted, ½ (Σ_j |w_j|)² + C Σ_i loss(z_i, y_i), and the dual variables are updated.
    3. Repeat until the wanted number of columns have joined.

F. Bach, "High-dimensional non-linear variable selection through hierarchical kernel learning", arXiv 0909.0844 (2009);
V. Roth and B. Fischer, "The group-Lasso for generalized linear models", ICML (2008), in the form that Tan, Tsang and
Wang (2014), section 7, compare with FGM. With B = 1, FGM's norm is the squared l1 norm.
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
        Exact number of features; by default passes continue until `tol` or `max_passes` ends them. "cv" chooses the
        number by cross-validation. A mapping does so with the options `cv`, `sizes`, `rule`, `metric`, `groups` and
        `order` of `daskfs.SelectionCV`.
    random_state : int, RandomState or None
        Seed of the rows held out with ``C="validation"``.

    Attributes
    ----------
    selected_, support_, coef_, intercept_, classes_, scores_, C_, dual_gap_, n_passes_, result_
        See `FGM`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 30))
    >>> np.sort(ActiveSet(2).fit(X, X[:, 3] > X[:, 7]).selected_)
    array([3, 7])
    """

    method = "active_set"
