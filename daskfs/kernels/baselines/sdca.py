"""Proximal stochastic dual coordinate ascent for a mean loss with λ/2 ‖w‖² + σ ‖w‖₁: the paper's SGD-SLR.

min over w of (1/n) Σ_i loss(z_i) + λ (½ ‖w‖² + (σ / λ) ‖w‖₁); dual variables α_i, u = Σ_i α_i x_i / (λ n) and w_j =
sign(u_j) max(|u_j| - σ / λ, 0). One dual variable at a time is moved so that the dual objective increases.

Source: Shalev-Shwartz and Zhang (2014), "Accelerated proximal stochastic dual coordinate ascent for regularized loss
minimization", Mathematical Programming 155, Figure 2 with Option IV (a step towards -loss'(z_i)).
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.kernels.jit import inner_loop, is_stopped, kernel


@inner_loop
def _predict(x, u, threshold):  # type: ignore[no-untyped-def]
    """Return Σ_j x_j soft(u_j)."""
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * (max(u[j] - threshold, 0.0) - max(-u[j] - threshold, 0.0))
    return total


@inner_loop
def _add(x, factor, u):  # type: ignore[no-untyped-def]
    for j in range(u.shape[0]):
        u[j] += factor * x[j]


@kernel
def sdca_epoch(X, y, share, squares, ridge, penalty, order, alpha, u, shift_free):  # type: ignore[no-untyped-def]
    """Process every row once.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-ordered
    y : ndarray of shape (n_samples,), float64
        -1 and +1.
    share : ndarray of shape (n_samples,), float64
        Weights that add up to 1.
    squares : ndarray of shape (n_samples,), float64
        ‖x_i‖², including the constant 1 of the intercept if there is one.
    ridge, penalty : float
        λ and σ.
    order : ndarray of shape (n_samples,), int64
    alpha, u : ndarray of shape (n_samples,) and (n_features + 1,), float64
        Updated. The last element of u belongs to the intercept, which has no l1 penalty.
    shift_free : bool
        Whether there is an intercept.
    """
    threshold = penalty / ridge
    n_features = X.shape[1]
    for k in range(order.shape[0]):
        if is_stopped():
            break
        i = order[k]
        if share[i] <= 0.0:
            continue
        z = _predict(X[i], u[:n_features], threshold)
        if shift_free:
            z += u[n_features]
        # the target -loss'(z), and a step towards it that is exact for a loss with curvature 1/4
        wanted = y[i] / (1.0 + math.exp(min(y[i] * z, 700.0)))
        p = alpha[i] * y[i]
        entropy = 0.0
        if 0.0 < p < 1.0:
            entropy = -p * math.log(p) - (1.0 - p) * math.log1p(-p)
        loss = max(-y[i] * z, 0.0) + math.log1p(math.exp(-abs(z)))
        difference = wanted - alpha[i]
        if difference == 0.0:
            continue
        gain = loss - entropy + z * alpha[i] + 2.0 * difference * difference
        step = min(1.0, gain / (difference * difference * (4.0 + squares[i] * share[i] / ridge)))
        if step <= 0.0:
            continue
        alpha[i] += step * difference
        factor = step * difference * share[i] / ridge
        _add(X[i], factor, u[:n_features])
        if shift_free:
            u[n_features] += factor


def sdca_gap(
    X: np.ndarray, y: np.ndarray, share: np.ndarray, ridge: float, penalty: float, alpha: np.ndarray, u: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the duality gap and the coefficients, intercept last."""
    threshold = penalty / ridge
    w = np.sign(u) * np.maximum(np.abs(u) - threshold, 0.0)
    w[-1] = u[-1]
    z = X @ w[:-1].astype(X.dtype) + w[-1]
    primal = share @ np.logaddexp(0.0, -y * z) + 0.5 * ridge * (w @ w) + penalty * np.abs(w[:-1]).sum()
    p = np.clip(alpha * y, 1e-300, 1.0 - 1e-16)
    dual = -(share @ (p * np.log(p) + (1.0 - p) * np.log1p(-p))) - 0.5 * ridge * (w @ w)
    return float(primal - dual), w
