"""The elastic net with a quadratic loss, by coordinate descent on its curvature matrix."""

from __future__ import annotations

from daskfs.kernels.jit import inner_loop

MAX_SWEEPS = 2_000


@inner_loop
def elastic_net(curvature, linear, ridge, l1, tol, coef, gradient):  # type: ignore[no-untyped-def]
    """Minimise ``½ bᵀ C b - linearᵀ b + ½ ridge Σ b² + l1 Σ |b|``. Return the number of sweeps.

    Parameters
    ----------
    curvature : ndarray of shape (n_columns, n_columns), float64
        C, symmetric. Rows of columns that are left out are 0.
    linear : ndarray of shape (n_columns,), float64
    ridge, l1 : float
    tol : float
        Largest step of a coefficient in the last sweep, times its curvature.
    coef : ndarray of shape (n_columns,), float64
        The start, overwritten by the minimum.
    gradient : ndarray of shape (n_columns,), float64
        Work array.
    """
    n_columns = len(linear)
    # gradient of the smooth part without the ridge: C b - linear
    for j in range(n_columns):
        total = -linear[j]
        for k in range(n_columns):
            total += curvature[j, k] * coef[k]
        gradient[j] = total
    for sweep in range(MAX_SWEEPS):
        largest = 0.0
        for j in range(n_columns):
            size = curvature[j, j] + ridge
            if not curvature[j, j] > 0.0:
                continue
            pull = curvature[j, j] * coef[j] - gradient[j]
            moved = 0.0
            if pull > l1:
                moved = (pull - l1) / size
            elif pull < -l1:
                moved = (pull + l1) / size
            step = moved - coef[j]
            if step != 0.0:
                coef[j] = moved
                row = curvature[j]
                for k in range(n_columns):
                    gradient[k] += step * row[k]
                largest = max(largest, abs(step) * size)
        if largest <= tol:
            return sweep + 1
    return MAX_SWEEPS
