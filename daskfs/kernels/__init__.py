"""Numerics: arrays in, arrays out; the only room where numba lives."""


def warmup() -> None:
    """Compile every kernel for float32 and float64 blocks, unless its machine code is on disk already.

    The first time takes about half a minute; afterwards every process loads the machine code in a fraction of a second.
    """
    import numpy as np

    from daskfs.kernels.lasso import lasso_path
    from daskfs.kernels.least_squares import least_squares

    X = np.array([[1.0, 2.0, 2.0], [2.0, 0.0, 0.0], [0.0, 1.0, 1.0], [4.0, 5.0, 5.0]])
    y, weight = np.array([1.0, 0.0, 3.0, 2.0]), np.ones(4)
    for dtype in (np.float32, np.float64):
        for solver in ("homotopy", "descent"):
            lasso_path(X.astype(dtype), y, weight, penalty=1.0, solver=solver)
        least_squares(X.astype(dtype), y, weight)
