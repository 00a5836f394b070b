"""The Moreau projection of group norms: what the step of the squared l1/l2 norm leaves of each group."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.numba_cache import kernel


@kernel
def project_norms(norms, shrinkage, out):  # type: ignore[no-untyped-def]
    """Write argmin_o ½ ‖o - norms‖² + ½ shrinkage (Σ_t o_t)² over o >= 0; return the threshold.

    Parameters
    ----------
    norms : ndarray of shape (n_groups,), float64
        Not negative.
    shrinkage : float
        1 / τ, of a step of length 1 / τ.
    out : ndarray of shape (n_groups,), float64
        ``max(norms - threshold, 0)``.

    Notes
    -----
    Source: Tan, Tsang and Wang (2014), Algorithm 3. The test in its step 3 takes the norms in descending order, so the
    groups that stay are the first ones whose norm exceeds the threshold of the groups up to them. Sorting one way and
    testing the other keeps all groups, which is wrong wherever one of them must vanish.
    """
    ordered = np.sort(norms)[::-1]
    total, threshold = 0.0, 0.0
    for t in range(ordered.shape[0]):
        total += ordered[t]
        candidate = shrinkage / (1.0 + (t + 1) * shrinkage) * total
        if ordered[t] <= candidate:
            break
        threshold = candidate
    for t in range(norms.shape[0]):
        out[t] = max(norms[t] - threshold, 0.0)
    return threshold
