"""Sparse stores: entries decoded per CPU-second by rows and by columns, size on disk, against SciPy's .npz.

    python benchmarks/sparse_store.py [--scale 1.0] [--folder DIR]

Counts of words (text, Zipf's columns), words' weights (a million columns as news20 has, and 47,000 as rcv1: float32),
genotypes (0, 1, 2 in a twentieth of the values), normal values, hashed clicks (ones, features by 64-bit id) and 12-mers
of short reads (ones, 64-bit ids). CPU seconds of one process; the best of three rounds; what the data take to make is
not counted. Beside the size on disk, that of the entries in fewest bits: the entropy of the bytes of values one by one,
and of each block's rows in a column as if they were drawn at random.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

import daskfs
from daskfs.sources.sparse.base import SparseBlock
from daskfs.store.sparse.writer import SparseStoreWriter


def text(scale: float, rng: np.random.Generator) -> sp.csr_array:
    """Return counts of words: 60,000 documents of some 280 words out of 10,000."""
    n_samples, n_features, n_words = int(60_000 * scale), 10_000, 280
    words = np.minimum(
        rng.zipf(1.2, (n_samples, n_words)) - 1 + rng.integers(0, 400, (n_samples, n_words)), n_features - 1
    )
    rows = np.repeat(np.arange(n_samples), n_words)
    X = sp.coo_array((np.ones(words.size, np.float32), (rows, words.ravel())), shape=(n_samples, n_features)).tocsr()
    X.sum_duplicates()
    return X


def genotypes(scale: float, rng: np.random.Generator) -> sp.csr_array:
    """Return minor alleles: 40,000 samples of 5,000 variants, a twentieth of them not zero."""
    X = sp.random_array((int(40_000 * scale), 5000), density=0.05, rng=rng, dtype=np.float32, format="csr")
    X.data[:] = rng.integers(1, 3, len(X.data))
    return X


def measured(scale: float, rng: np.random.Generator) -> sp.csr_array:
    """Return normal values in a hundredth of 100,000 x 10,000."""
    shape = (int(100_000 * scale), 10_000)
    X = sp.random_array(shape, density=0.01, rng=rng, dtype=np.float32, format="csr")
    X.data[:] = rng.standard_normal(len(X.data)).astype(np.float32)
    return X


def weights(scale: float, rng: np.random.Generator, n_features: int, n_words: int) -> sp.csr_array:
    """Return weights of words, rows of length one: term frequencies by the words' rarity."""
    n_samples = int(20_000 * scale)
    words = (
        np.minimum(
            rng.zipf(1.25, (n_samples, n_words)) + rng.integers(0, n_features // 20, (n_samples, n_words)), n_features
        )
        - 1
    )
    rows = np.repeat(np.arange(n_samples), n_words)
    X = sp.coo_array((np.ones(words.size), (rows, words.ravel())), shape=(n_samples, n_features)).tocsr()
    X.sum_duplicates()
    X.data *= np.log(n_samples / np.maximum(1, np.bincount(X.indices, minlength=n_features)))[X.indices] + 0.1
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    X.data /= np.repeat(norms, np.diff(X.indptr))
    return X.astype(np.float32)


def news20(scale: float, rng: np.random.Generator) -> sp.csr_array:
    """Return 20,000 texts of some 400 of 1.3 million words."""
    return weights(scale, rng, 1_300_000, 450)


def rcv1(scale: float, rng: np.random.Generator) -> sp.csr_array:
    """Return 60,000 texts of some 75 of 47,000 words."""
    return weights(3 * scale, rng, 47_000, 80)


def kmers(scale: float, rng: np.random.Generator) -> Iterator[SparseBlock]:
    """Yield 12-mers of 60,000 reads of 100 bases out of a genome of a million."""
    genome = rng.integers(0, 4, 1_000_100, dtype=np.uint64)
    codes = np.zeros(1_000_089, np.uint64)
    for k in range(12):
        codes = codes * np.uint64(4) + genome[k : k + len(codes)]
    for start in range(0, int(60_000 * scale), 10_000):
        ids = codes[rng.integers(0, 1_000_000, (10_000, 1)) + np.arange(89)]
        ids.sort(axis=1)
        is_new = np.concatenate([np.ones((10_000, 1), bool), ids[:, 1:] != ids[:, :-1]], axis=1)
        yield SparseBlock(start, np.concatenate([[0], np.cumsum(is_new.sum(axis=1))]), ids[is_new], None)


def clicks(scale: float, rng: np.random.Generator) -> Iterator[SparseBlock]:
    """Yield 400,000 rows of 39 hashed values, ones, of some 10^6 features."""
    salt = rng.integers(0, 2**64, 1 << 20, dtype=np.uint64)
    for start in range(0, int(400_000 * scale), 10_000):
        ids = salt[np.minimum(rng.zipf(1.3, (10_000, 39)) % (len(salt) // 39) * 39 + np.arange(39), len(salt) - 1)]
        ids.sort(axis=1)
        is_new = np.concatenate([np.ones((10_000, 1), bool), ids[:, 1:] != ids[:, :-1]], axis=1)
        yield SparseBlock(start, np.concatenate([[0], np.cumsum(is_new.sum(axis=1))]), ids[is_new], None)


def cpu(function: Callable[[], Any], n_rounds: int = 3) -> float:
    """Return the least CPU seconds of some rounds."""
    seconds = []
    for _ in range(n_rounds):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def by_rows(store: Any) -> None:
    """Read all entries, by as many rows as fit in 2^20 entries; anew, for a reader keeps its last block."""
    store = daskfs.open_store(store.path)
    n_rows = max(1, (1 << 20) * store.shape[0] // max(1, store.n_entries))
    for start in range(0, store.shape[0], n_rows):
        store.sparse_rows(slice(start, start + n_rows))


def by_columns(store: Any, n_parts: int = 20) -> None:
    """Read all entries, by a twentieth of the columns."""
    width = -(-store.shape[1] // n_parts)
    for start in range(0, store.shape[1], width):
        store.sparse_columns(slice(start, start + width))


def least_nbytes(store: Any) -> float:
    """Return the bytes of the entropy of values, byte by byte, and of the rows of each run, were they at random."""
    bits = 0.0
    for start in range(0, store.shape[0], 8192):
        rows = store.sparse_rows(slice(start, start + 8192))
        n_rows, counts = len(rows.indptr) - 1, np.bincount(rows.indices)
        counts = counts[counts > 0].astype(float)
        bits += float(np.sum(gammaln(n_rows + 1) - gammaln(counts + 1) - gammaln(n_rows - counts + 1)) / np.log(2))
        if store.header.values != "ones":
            planes = rows.data.astype(store.header.values).view(np.uint8).reshape(len(rows.data), -1)
            for plane in planes.T:
                shares = np.bincount(plane) / len(plane)
                bits -= len(plane) * float(np.sum(shares[shares > 0] * np.log2(shares[shares > 0])))
    return bits / 8


def report(name: str, store: Any, ingest_s: float, npz: Path) -> None:
    """Print a line of the table."""
    n_entries = store.n_entries / 1e6
    by_rows(store)
    rows_s, columns_s = cpu(lambda: by_rows(store)), cpu(lambda: by_columns(store))
    width = max(1, store.shape[1] // 20)
    few = store.sparse_columns(slice(0, width))
    few_s = cpu(lambda: store.sparse_columns(slice(0, width)))
    loaded_s = cpu(lambda: sp.load_npz(npz), 2)
    disk = store.info()["disk_nbytes"]
    print(
        f"| {name} | {store.shape[0]:,} x {store.shape[1]:,} | {n_entries:.1f} M | {store.header.values} "
        f"| {n_entries / ingest_s:.1f} | {n_entries / rows_s:.0f} | {n_entries / columns_s:.0f} "
        f"| {len(few.data) / 1e6 / few_s:.0f} | {n_entries / loaded_s:.0f} | {disk / npz.stat().st_size:.2f} "
        f"| {least_nbytes(store) / npz.stat().st_size:.2f} |",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--folder")
    options = parser.parse_args()
    read = "rows | columns | the first 20th | npz read"
    print(f"| data | shape | entries | stored as | written | {read} | disk / npz | least / npz |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        warm = sp.random_array((9000, 50), density=0.1, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
        for k, X in enumerate((warm, warm.astype(bool).astype(np.float32), (9 * warm).astype(np.int8))):
            by_columns(daskfs.ingest(X, folder / f"warm{k}.zarr"))
            by_rows(daskfs.open_store(folder / f"warm{k}.zarr"))
        for make in (text, news20, rcv1, genotypes, measured):
            X = make(options.scale, np.random.default_rng(0))
            sp.save_npz(folder / "X.npz", X, compressed=False)
            path = folder / f"{make.__name__}.zarr"
            seconds = cpu(lambda X=X, path=path: daskfs.ingest(X, path), 1)
            report(make.__name__, daskfs.open_store(path), seconds, folder / "X.npz")
        for made in (clicks, kmers):
            blocks, path = list(made(options.scale, np.random.default_rng(0))), folder / f"{made.__name__}.zarr"
            start = time.process_time()
            with SparseStoreWriter(path, has_ids=True, source={}) as writer:
                for block in blocks:
                    writer.write(block)
            seconds, store = time.process_time() - start, daskfs.open_store(path)
            del blocks
            found = store.sparse_rows(slice(None))
            sp.save_npz(folder / "X.npz", sp.csr_array((found.data, found.indices, found.indptr)), compressed=False)
            report(made.__name__, store, seconds, folder / "X.npz")


if __name__ == "__main__":
    main()
