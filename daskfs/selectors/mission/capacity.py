"""Whether a count-sketch is large enough: before a run by the ghost law, after it by its noise against the threshold.

A ghost is a feature without weight whose estimate looks heavy because it shares cells with features that are. When k
features of weight 1 are in a sketch of R rows of w cells, the number of ghosts of at least ½ among d other ids is

    d C(R, m) 2 (k / 2w)^m,  m = (R + 1) / 2:    d k / w for R = 1,  1.5 d (k / w)² for R = 3,  2.5 d (k / w)³ for R = 5

since more than half of the rows must hold a heavy feature of the same sign. MISSION as published keeps all weights in
the sketch and has all of these ghosts; with exact weights of the active features nothing heavy stays there, and only
the noise of the tail is left: one row's has standard deviation ‖tail‖ / √w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GHOST_SHARE = 0.05
"""Of K: more expected ghosts than that, and a sketch counts as too small."""

RELIEF = 4
"""By so much smaller a sketch may be, where the weights of the active features are not in it (measured, not proven)."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a sketch can hold."""

    n_ghosts: float
    """Expected, were all K weights in the sketch."""
    is_enough: bool
    wanted_buckets: int
    """The smallest power of two that is enough."""
    text: str


def expected_ghosts(n_ids: int, n_heavy: int, n_buckets: int, n_hashes: int) -> float:
    """Return the ghosts of at least half of the weight of `n_heavy` equal features, among `n_ids` others.

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
    """Say whether a sketch is large enough, before anything is learnt.

    Parameters
    ----------
    n_features_to_select : int
        K.
    n_ids : int
        Different ids, at least those met in a sample.
    n_buckets, n_hashes : int
        Of the sketch.
    variant : {"active", "paper"}
        As of `daskfs.selectors.mission.selector.Mission`.
    nnz_per_row : float, optional
        Of the sample, for the text.

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
    held = "the active features' weights are exact, so most of them do not arise" if relief > 1 else "all of them arise"
    text = (
        f"sketch of {n_hashes} x {n_buckets:,} cells for {n_features_to_select:,} of at least {n_ids:,} features"
        f"{per_row}: {ghosts:,.0f} ghosts if all weights were in it; {held}"
    )
    if not is_enough:
        text += f"; TOO SMALL, set n_buckets={wanted}"
    return Capacity(ghosts, is_enough, wanted, text)


def check_noise(tail_norm: float, threshold: float, n_ids: int, n_buckets: int, n_hashes: int) -> Capacity:
    """Say after a run how many features without weight the tail's noise would lift over the threshold.

    The noise of a row is taken as normal with standard deviation ``tail_norm / sqrt(n_buckets)``; the median of R rows
    exceeds the threshold where at least (R + 1) / 2 rows do on the same side.

    Parameters
    ----------
    tail_norm : float
        Euclidean norm of what the sketch holds.
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
        f"after the run: the tail's noise is {noise:.3g} against a threshold of {threshold:.3g}; "
        f"{false:,.0f} of {n_ids:,} features would exceed it by chance"
    )
    is_enough = n_buckets >= wanted
    return Capacity(false, is_enough, wanted, text if is_enough else f"{text}; a sketch of {wanted:,} buckets would do")
