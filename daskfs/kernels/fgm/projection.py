"""The Moreau projection of group norms: what the step of the squared l1/l2 norm leaves of each group."""

from __future__ import annotations

from daskfs.kernels.jit import kernel


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
    heap, n = norms.copy(), norms.shape[0]  # the largest first; those that vanish need no order
    for place in range(n // 2 - 1, -1, -1):
        _sink(heap, n, place)
    total, threshold = 0.0, 0.0
    for t in range(n):
        largest = heap[0]
        total += largest
        candidate = shrinkage / (1.0 + (t + 1) * shrinkage) * total
        if largest <= candidate:
            break
        threshold = candidate
        heap[0] = heap[n - 1 - t]
        _sink(heap, n - 1 - t, 0)
    for t in range(norms.shape[0]):
        out[t] = max(norms[t] - threshold, 0.0)
    return threshold


@kernel
def _sink(heap, n, place):  # type: ignore[no-untyped-def]
    """Put the number at `place` where no child of it, among the first n, is larger."""
    value = heap[place]
    while 2 * place + 1 < n:
        child = 2 * place + 1
        if child + 1 < n and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value
