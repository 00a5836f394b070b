"""Sparse matrices, as the blocks of a source, written as stores."""

from __future__ import annotations

import hashlib

import numpy as np
import scipy.sparse as sp

from daskfs.sources.sparse.base import NamedIds, SparseBlock
from daskfs.store import names
from daskfs.store.feature_store import open_store
from daskfs.store.sparse import finishing, layout, reader, vectors
from daskfs.store.sparse import names as sparse_names
from daskfs.store.sparse.writer import SparseStoreWriter


def random_matrix(n_samples=300, n_features=40, density=0.1, seed=0, kind="normal"):
    rng = np.random.default_rng(seed)
    X = sp.random_array(
        (n_samples, n_features), density=density, rng=rng, format="csr", data_sampler=rng.standard_normal
    )
    if kind == "ones":
        X.data[:] = 1.0
    elif kind == "int8":
        X.data[:] = rng.integers(1, 128, len(X.data)) * rng.choice([-1, 1], len(X.data))
    return X.astype(np.float32)


def blocks_of(X, ids=None, y=None, at_once=97, named=None):
    """Return a matrix as the blocks of a source; columns as they are, or by their ids."""
    for start in range(0, X.shape[0], at_once):
        part = X[start : start + at_once]
        features = part.indices.astype(np.uint64) if ids is None else ids[part.indices]
        block_y = None if y is None else y[start : start + at_once]
        yield SparseBlock(start, part.indptr.astype(np.int64), features, part.data, block_y, names=named)


def written(path, blocks, *args, **options):
    with SparseStoreWriter(path, *args, source={"digest": "1"}, **options) as out:
        for block in blocks:
            out.write(block)
    return open_store(path)


def files_of(store):
    """Return the digest of every chunk file."""
    return {
        path.relative_to(store.path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.path.rglob("*"))
        if path.is_file() and path.suffix != ".json"
    }


def named_ids(ids, texts):
    encoded = [text.encode() for text in texts]
    text = np.frombuffer(b"".join(encoded), np.uint8)
    return NamedIds(np.asarray(ids, np.uint64), text, np.cumsum([0, *map(len, encoded)]))


def small_cuts(monkeypatch, entries=64):
    """Make chunks and pieces so small that little data has many."""
    for module in (layout, vectors, finishing):
        monkeypatch.setattr(module, "CHUNKS_PER_FILE", 4)
    for module in (vectors, finishing):
        monkeypatch.setattr(module, "chunk_length", lambda name: 16 if name in ("X/columns", "X/counts") else entries)
    for module in (layout, reader):
        monkeypatch.setattr(module, "RUN_CHUNK", 16)
    for module in (names, sparse_names):
        monkeypatch.setattr(module, "AT_ONCE", 5)
