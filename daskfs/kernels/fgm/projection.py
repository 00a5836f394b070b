"""The Moreau projection of group norms: the proximal step of the squared l1/l2 norm."""

from __future__ import annotations

from daskfs.kernels.jit import kernel


@kernel
def project_norms(norms, shrinkage, out):  # type: ignore[no-untyped-def]
    """Write argmin_o ½ ‖o - norms‖² + ½ shrinkage (Σ_t o_t)² over o >= 0. Return the threshold.

    Parameters
    ----------
    norms : ndarray of shape (n_groups,), float64
        Non-negative.
    shrinkage : float
        1 / τ, the length of the step.
    out : ndarray of shape (n_groups,), float64
        ``max(norms - threshold, 0)``.

    Notes
    -----
    Source: Tan, Tsang and Wang (2014), Algorithm 3. The test in its step 3 uses the norms in descending order, so the
    groups that remain are the first ones whose norm exceeds the threshold of the groups up to them. Sorting in one
    order and testing in the other would keep all groups, which is wrong whenever one of them must vanish.
    """
    heap, n = norms.copy(), norms.shape[0]  # largest first; those that vanish need not be sorted
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
    """Restore the heap property from `place` downwards, among the first n."""
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
