"""Names of active features, selected from all names of a block."""

from __future__ import annotations

import numpy as np

from daskfs.kernels.jit import kernel
from daskfs.kernels.sketch.rows import EMPTY, slot_of

_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_ONE = np.uint64(1)


@kernel
def enter(ids, digests, keys, digest_of):  # type: ignore[no-untyped-def]
    """Insert ids with the digests of their names, 0 if a name is unknown, into an empty table."""
    for j in range(ids.shape[0]):
        slot = slot_of(keys, ids[j])
        keys[slot], digest_of[slot] = ids[j], digests[j]


@kernel
def pick_out(ids, text, offsets, keys, digest_of, found, digests):  # type: ignore[no-untyped-def]
    """Find the names of ids in the table that differ from the known names.

    Parameters
    ----------
    ids, text, offsets : see `daskfs.sources.sparse.base.NamedIds`
    keys, digest_of : ndarray of shape (n_slots,), uint64
        The table.
    found : ndarray of shape (n_names,), int64
        Output: positions of the names.
    digests : ndarray of shape (n_names,), uint64
        Output: their digests, FNV-1a, never 0.

    Returns
    -------
    n_found : int
    """
    n_found = 0
    for k in range(ids.shape[0]):
        slot = slot_of(keys, ids[k])
        if keys[slot] == EMPTY:
            continue
        digest = _FNV_OFFSET
        for i in range(offsets[k], offsets[k + 1]):
            digest = (digest ^ np.uint64(text[i])) * _FNV_PRIME
        digest = max(digest, _ONE)
        if digest_of[slot] != digest:
            found[n_found], digests[n_found] = k, digest
            n_found += 1
    return n_found
