"""The models that synthetic data are drawn from: coefficients, and features for one chunk of rows.

``message``
    Wang, Peng and Dunson 2014, section 4.1: pairwise correlation rho, ``x_ij = sqrt(rho) u_i + sqrt(1 - rho) v_ij``; s
    random features have coefficients ``(-1)^Ber(0.4) (8 log n / sqrt n + |N(0, 1)|)``.
``online_substitution``
    Yang, Fujimaki, Kusumura and Liu 2016, section 5: independent standard normal features, s random ones with standard
    normal coefficients, noise of standard deviation 0.1, ``n = 1.2 s log2 p``. Columns have unit length, which
    reproduces the paper's figures, or are standard normal, as the paper says. Further correlation structures, not in
    the paper: a common factor, an autoregression along the columns, many factors, near-duplicates.

``fgm``
    Tan, Tsang and Wang 2014, section 8.2: independent standard normal features, 300 random ones with coefficients
    uniform in (0, 1), classes by the sign of the linear predictor.

``mission``
    Aghazadeh et al. 2018, section 5: independent standard normal features, s random ones with coefficient 1, divided by
    the attenuation; no noise.

Unit columns are standard normal columns divided by sqrt(n): their length is 1 on average, within about 2 % at the
paper's sizes, and rows stay independent, so that any row can be drawn without the others.
"""

from __future__ import annotations

import math

import numpy as np

STRUCTURES = ("independent", "common_factor", "autoregressive", "factors", "near_duplicates")
N_FACTORS = 20
FACTOR_SHARE = 0.7
"""Proportion of a feature's variance that the 20 factors explain."""
COPY_SHARE = 0.2
"""Proportion of the features that are near-duplicates of others."""
COPY_NOISE = 1e-3
DEFAULT_CORRELATION = {"common_factor": 0.5, "autoregressive": 0.9}


def paper_n_samples(n_informative: int, n_features: int) -> int:
    """Return the number of rows in the online substitution paper, 1.2 s log2 p.

    Examples
    --------
    >>> paper_n_samples(100, 6000)
    1506
    """
    return round(1.2 * n_informative * math.log2(n_features))


def draw_coef(
    design: str, n_samples: int, n_features: int, n_informative: int, random_state: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the informative features, ascending, and their coefficients."""
    rng = np.random.default_rng(np.random.SeedSequence(random_state, spawn_key=(0,)))
    support = np.sort(rng.choice(n_features, size=n_informative, replace=False))
    if design == "online_substitution":
        return support, rng.standard_normal(n_informative)
    if design == "fgm":
        return support, rng.random(n_informative)
    if design == "mission":
        return support, np.ones(n_informative)
    sign = np.where(rng.random(n_informative) < 0.4, -1.0, 1.0)
    size = 8 * np.log(n_samples) / np.sqrt(n_samples) + np.abs(rng.standard_normal(n_informative))
    return support, sign * size


class Features:
    """Draws the features of a chunk of rows.

    Parameters
    ----------
    n_features : int
    structure : str
        One of `STRUCTURES`; the message design uses common_factor.
    correlation : float
        Variance of the common factor, or correlation of neighbouring columns.
    random_state : int
        Seed of what all rows have in common: loadings, copies.
    """

    def __init__(self, n_features: int, structure: str, correlation: float, random_state: int) -> None:
        self.n_features, self.structure, self.correlation = n_features, structure, correlation
        rng = np.random.default_rng(np.random.SeedSequence(random_state, spawn_key=(2,)))
        if structure == "factors":
            self.loadings = rng.standard_normal((N_FACTORS, n_features), dtype=np.float32)
            self.loadings *= np.float32(math.sqrt(FACTOR_SHARE / N_FACTORS))
        if structure == "near_duplicates":
            order = rng.permutation(n_features)
            n_copies = int(COPY_SHARE * n_features)
            self.copies = order[:n_copies]
            self.originals = rng.choice(order[n_copies:], n_copies)

    def draw(self, rng: np.random.Generator, n_rows: int) -> np.ndarray:
        """Return n_rows x n_features, float32; summed term by term, since BLAS differs between machines."""
        X = rng.standard_normal((n_rows, self.n_features), dtype=np.float32)
        if self.structure == "common_factor" and self.correlation:
            shared = rng.standard_normal((n_rows, 1), dtype=np.float32)
            X *= np.float32(np.sqrt(1 - self.correlation))
            X += np.float32(np.sqrt(self.correlation)) * shared
        elif self.structure == "autoregressive":
            rest = np.float32(math.sqrt(1 - self.correlation**2))
            columns = np.ascontiguousarray(X.T)
            for j in range(1, self.n_features):
                columns[j] *= rest
                columns[j] += np.float32(self.correlation) * columns[j - 1]
            X = np.ascontiguousarray(columns.T)
        elif self.structure == "factors":
            X *= np.float32(math.sqrt(1 - FACTOR_SHARE))
            factors = rng.standard_normal((n_rows, N_FACTORS), dtype=np.float32)
            for k in range(N_FACTORS):
                X += factors[:, k, None] * self.loadings[k]
        elif self.structure == "near_duplicates":
            apart = rng.standard_normal((n_rows, len(self.copies)), dtype=np.float32)
            X[:, self.copies] = X[:, self.originals] + np.float32(COPY_NOISE) * apart
        return X
