"""Numerics: arrays in, arrays out; the only room where numba lives."""


def warmup(*, generalised: bool = True, substitution: bool = True) -> None:
    """Compile every kernel for float32 and float64 blocks, unless its machine code is on disk already.

    The first time takes about a minute; afterwards every process loads the machine code in a fraction of a second.

    Parameters
    ----------
    generalised : bool
        Those of the losses other than squared too, which take most of the time.
    substitution : bool
        Those of online substitution too.
    """
    import numpy as np

    from daskfs.kernels.fgm_warmup import warm_up_fgm
    from daskfs.kernels.glm.fit import glm_fit, newton_terms
    from daskfs.kernels.glm.lsa import lsa_path
    from daskfs.kernels.glm.path import glm_path
    from daskfs.kernels.glm.softmax import softmax_fit, softmax_terms
    from daskfs.kernels.lasso.least_squares import least_squares
    from daskfs.kernels.lasso.path import lasso_path
    from daskfs.kernels.mission_warmup import warm_up_mission

    if substitution:
        from daskfs.kernels.substitution_warmup import compile_substitution

        compile_substitution(generalised)
    X = np.array([[1.0, 2.0, 2.0], [2.0, 0.0, 0.0], [0.0, 1.0, 1.0], [4.0, 5.0, 5.0]])
    y, weight = np.array([1.0, 0.0, 3.0, 2.0]), np.ones(4)
    for dtype in (np.float32, np.float64):
        for solver in ("homotopy", "descent"):
            lasso_path(X.astype(dtype), y, weight, penalty=1.0, solver=solver)
        least_squares(X.astype(dtype), y, weight)
        warm_up_mission(dtype)
        if not generalised:
            continue
        warm_up_fgm(dtype)
        glm_path(X.astype(dtype), y, weight, loss="poisson", penalty=1.0)
        lsa_path(X.astype(dtype), y, weight, loss="poisson", penalty=1.0)
        glm_fit(X.astype(dtype), y, weight, loss="poisson")
        zeros, ones = np.zeros(3), np.ones(3)
        softmax_fit(X.astype(dtype), np.array([0.0, 1.0, 2.0, 1.0]), weight, 3)
        softmax_terms(X.astype(dtype), np.array([0.0, 1.0, 2.0, 1.0]), weight, np.zeros((2, 4)), zeros, ones)
        newton_terms(X.astype(dtype), y, weight, loss="poisson", intercept=0.0, coef=zeros, centre=zeros, scale=ones)
