"""What the parameters of asynchronous online substitution may be, and what stands for those that were not given."""

from __future__ import annotations

import math


def capacity_of(n_selected: int, n_workers: int, slots: float) -> int:
    """Return how many columns each worker may hold: s of one worker, a share of `slots` times s of several.

    Examples
    --------
    >>> capacity_of(100, 1, 1.5), capacity_of(100, 20, 1.5), capacity_of(100, 20, 1.0)
    (100, 8, 5)
    """
    if n_workers == 1:
        return n_selected
    return min(n_selected, math.ceil(slots * n_selected / n_workers))


def stretch_of(n_workers: int, n_features: int, n_selected: int, m: float, c: float, tau_max: int) -> float:
    """Return ρ of Theorem 2, where L_f is that of the columns held: the step is 0.5 / L_F (1 + ρ).

    The theorem asks for eta < 1 / 2 (L_F + (1/2m²q + 1/2(p - s)) L_f² τ² / c L_F).

    Examples
    --------
    >>> stretch_of(20, 6000, 100, 5.0, 0.5, 20)
    0.8677966101694915
    """
    rest = max(1, n_features - n_selected)
    return (0.5 / (m * m * n_workers) + 0.5 / rest) * tau_max**2 / max(c, 1e-3)
