"""Checks whether a count-sketch is large enough: before a run by the ghost law, afterwards by its noise.

A ghost is a feature without weight whose estimate looks heavy because it shares cells with heavy features. If k
features of weight 1 are in a sketch of R rows of w cells, the number of ghosts of at least ½ among d other ids is

    d C(R, m) 2 (k / 2w)^m,  m = (R + 1) / 2:    d k / w for R = 1,  1.5 d (k / w)² for R = 3,  2.5 d (k / w)³ for R = 5

because more than half of the rows must hold a heavy feature of the same sign. MISSION as published keeps all weights in
the sketch and has all of these ghosts. With exact weights of the active features, nothing heavy stays in the sketch,
and only the noise of the tail remains: in one row it has standard deviation ‖tail‖ / √w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GHOST_SHARE = 0.05
"""Share of K: a sketch with more expected ghosts is too small."""

RELIEF = 4
"""How many times smaller a sketch may be if the weights of the active features are not in it (measured, not proven)."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Result of a check of a sketch."""

    n_ghosts: float
    """Expected number of ghosts if all K weights were in the sketch."""
    is_enough: bool
    wanted_buckets: int
    """The smallest sufficient power of two."""
    text: str


def expected_ghosts(n_ids: int, n_heavy: int, n_buckets: int, n_hashes: int) -> float:
    """Return the expected ghosts, of at least half the weight of `n_heavy` equal features, among `n_ids` others.

    Examples
    --------
    >>> round(expected_ghosts(10**6, 2000, 2**18, 3))
    87
    """
    m = (n_hashes + 1) // 2
    share = min(1.0, math.comb(n_hashes, m) * 2.0 * (n_heavy / (2.0 * n_buckets)) ** m)
    return n_ids * share


def check_capacity(
    n_features_to_select: int,
    n_ids: int,
    n_buckets: int,
    n_hashes: int = 3,
    variant: str = "active",
    nnz_per_row: float | None = None,
) -> Capacity:
    """Check before training whether a sketch is large enough.

    Parameters
    ----------
    n_features_to_select : int
        K.
    n_ids : int
        Number of different ids, or at least of those seen in a sample.
    n_buckets, n_hashes : int
        Of the sketch.
    variant : {"active", "paper"}
        As in `daskfs.selectors.mission.selector.Mission`.
    nnz_per_row : float, optional
        Entries per row of the sample, for the text.

    Examples
    --------
    >>> check_capacity(2000, 700_000, 2**18, variant="paper").is_enough
    True
    >>> check_capacity(2000, 700_000, 2**16, variant="paper").wanted_buckets
    262144
    """
    relief = RELIEF if variant == "active" else 1
    allowed = max(GHOST_SHARE * n_features_to_select, 1.0)
    wanted = 1
    while wanted < 1 << 31 and expected_ghosts(n_ids, n_features_to_select, relief * wanted, n_hashes) > allowed:
        wanted *= 2
    ghosts = expected_ghosts(n_ids, n_features_to_select, n_buckets, n_hashes)
    is_enough = n_buckets >= wanted
    per_row = "" if nnz_per_row is None else f" ({nnz_per_row:,.0f} entries a row)"
    held = "most of them are avoided by exact weights of the active features" if relief > 1 else "all of them occur"
    text = (
        f"sketch of {n_hashes} x {n_buckets:,} cells for {n_features_to_select:,} of at least {n_ids:,} features"
        f"{per_row}: {ghosts:,.0f} ghosts (false heavy features) if it held all weights; {held}"
    )
    if not is_enough:
        text += f"; TOO SMALL, set n_buckets={wanted}"
    return Capacity(ghosts, is_enough, wanted, text)


def check_noise(tail_norm: float, threshold: float, n_ids: int, n_buckets: int, n_hashes: int) -> Capacity:
    """Return after a run how many features without weight exceed the threshold because of the tail's noise.

    The noise of a row is modelled as normal with standard deviation ``tail_norm / sqrt(n_buckets)``. The median of R
    rows exceeds the threshold if at least (R + 1) / 2 rows do, on the same side.

    Parameters
    ----------
    tail_norm : float
        Euclidean norm of the vector in the sketch.
    threshold : float
        Weight from which a feature becomes active.
    n_ids, n_buckets, n_hashes : int

    Examples
    --------
    >>> check_noise(10.0, 0.1, 10**6, 2**18, 3).is_enough
    True
    """

    def false_ones(buckets: int) -> float:
        noise = tail_norm / math.sqrt(buckets)
        q = 0.5 * math.erfc(threshold / noise / math.sqrt(2.0)) if noise > 0.0 else 0.0
        m = (n_hashes + 1) // 2
        over = sum(math.comb(n_hashes, r) * q**r * (1.0 - q) ** (n_hashes - r) for r in range(m, n_hashes + 1))
        return n_ids * min(1.0, 2.0 * over)

    wanted = 1
    while wanted < 1 << 31 and false_ones(wanted) > 1.0:
        wanted *= 2
    noise, false = tail_norm / math.sqrt(n_buckets), false_ones(n_buckets)
    text = (
        f"after the run: the noise of the sketch is {noise:.3g}, the threshold {threshold:.3g}; "
        f"{false:,.0f} of {n_ids:,} features would exceed it by chance"
    )
    is_enough = n_buckets >= wanted
    return Capacity(false, is_enough, wanted, text if is_enough else f"{text}; {wanted:,} buckets would be enough")
