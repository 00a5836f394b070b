"""What a store says of itself besides its rows and columns: decided once, by whoever makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class StoreSpec:
    """Facts of a store, dense or sparse; writers take them as keyword arguments.

    Parameters
    ----------
    dtype : dtype
        dtype of X.
    source : mapping
        JSON-compatible description of the source; its entry "digest" is its identity.
    target_names : sequence of str
        Empty if the store has no target.
    has_weight : bool
    label_names : sequence of str
        Text columns kept beside X (for splits or as identifiers).
    shuffle : bool
        Whether to put the rows in random order.
    random_state : int or None
        Seed of the random order; if None, one is drawn and kept in the header.
    encoding_digest : str
        Identity of the encoding of the source as numbers.
    notes : sequence of str
    """

    dtype: Any
    source: Mapping[str, Any]
    target_names: Sequence[str] = ()
    has_weight: bool = False
    label_names: Sequence[str] = ()
    shuffle: bool = True
    random_state: int | None = 0
    encoding_digest: str = ""
    notes: Sequence[str] = ()
