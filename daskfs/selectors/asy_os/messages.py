"""What the central node of asynchronous online substitution and its workers say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from daskfs.selectors.asy_os.leases import Lease

NO_COLUMNS, NO_COEF = np.zeros(0, np.int64), np.zeros(0)


@dataclass(frozen=True, slots=True)
class Share:
    """What one worker holds: columns, and their coefficients standardised as the workers see columns."""

    worker: int
    columns: np.ndarray
    coef: np.ndarray


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker is told."""

    verdict: str
    """"accepted", "refused" or "superseded"."""
    orders: str
    """"work" (on the first lease), "wait", "contribute", "register" or "finished"."""
    version: int
    prediction: np.ndarray | None
    """u_C of this version."""
    leases: tuple[Lease, ...] = ()
    held: np.ndarray = field(default_factory=lambda: NO_COLUMNS)
    """Columns of the leases that others hold."""
    share: Share | None = None
    """Whose contribution is asked for."""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Registration:
    """What a worker that begins, or begins again, is told."""

    sequence: int
    """Of its last step; the next one is one more."""
    share: Share
    capacity: int
    reply: Reply
