"""The count-sketch as an object (add, estimate, decay, merge, save, load), and names of features as 64-bit ids."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.errors import ConfigError, DataError, RunError
from daskfs.files import written_whole
from daskfs.kernels.linear.columns import squared_norm_between
from daskfs.kernels.sketch.count_sketch import MAX_BUCKETS, N_HASHES, add, estimate, rows_of, seed_word

FORMAT_VERSION = 2
HASH_NAME = "daskfs-mix64-1"
"""Name of the frozen hash of `daskfs.kernels.sketch.count_sketch`; another hash would get another name."""

SMALLEST_SCALE = 1e-3
"""Below this the cells themselves are scaled, so that float32 cells stay far from underflow."""

NORM_BUCKETS = 1 << 20
"""Buckets of a row that its norm is estimated from: accurate to 0.1 %, unless a few elements dominate."""

_LAST_ID = (1 << 64) - 2  # the next number marks a free slot of a table


class CountSketch:
    """A vector with up to 2⁶⁴ - 1 elements, stored as `n_hashes` rows of `n_buckets` cells.

    Parameters
    ----------
    n_buckets : int
        Cells per row: a power of two, at most 2³¹.
    n_hashes : int
        Rows: 1, 3 or 5; an estimate is the median over the rows. 0 for the identity, which has one cell per id.
    seed : int
        Seed of the hash.
    n_outputs : int
        Numbers per element: one for each class.
    cells : ndarray of shape (n_hashes * n_buckets, n_outputs), float32, optional
        Initial cells, used without a copy; by default zeros.
    scale : float
        Factor of all cells.

    Notes
    -----
    Takes ``4 n_hashes n_buckets n_outputs`` bytes. `decay` is lazy: it changes only the common factor.

    Examples
    --------
    >>> sketch = CountSketch(1024)
    >>> sketch.add(np.array([7, 2**40], np.uint64), np.array([2.5, -1.0]))
    >>> sketch.estimate(np.array([7, 2**40], np.uint64))
    array([ 2.5, -1. ], dtype=float32)
    """

    def __init__(
        self,
        n_buckets: int,
        n_hashes: int = 3,
        seed: int = 0,
        n_outputs: int = 1,
        cells: np.ndarray | None = None,
        scale: float = 1.0,
    ) -> None:
        if n_hashes not in (0, *N_HASHES):
            raise ConfigError(f"expected 1, 3 or 5 (or 0, the identity), found {n_hashes!r}", "n_hashes")
        if n_hashes and not (1 <= n_buckets <= MAX_BUCKETS and n_buckets & (n_buckets - 1) == 0):
            raise ConfigError(f"expected a power of two of at most 2**31, found {n_buckets!r}", "n_buckets")
        self.n_buckets, self.n_hashes, self.seed, self.n_outputs = int(n_buckets), n_hashes, int(seed), n_outputs
        shape = (max(n_hashes, 1) * self.n_buckets, n_outputs)
        self.cells = np.zeros(shape, dtype=np.float32) if cells is None else cells.reshape(shape)
        self.scale = scale

    @property
    def hashing(self) -> tuple[np.uint64, tuple[int, ...], np.uint64]:
        """The arguments of kernels: buckets, rows, seed."""
        return np.uint64(self.n_buckets), rows_of(self.n_hashes), seed_word(self.seed)

    def add(self, keys: np.ndarray, values: np.ndarray, outputs: np.ndarray | None = None) -> None:
        """Add values to the elements with these ids (uint64).

        Parameters
        ----------
        keys : ndarray of shape (n_keys,), uint64
        values : ndarray of shape (n_keys,) or (n_keys, n_outputs)
        outputs : ndarray of shape (n_keys,), optional
            The one output of each id to which its value is added. Values are then of shape (n_keys,) or (n_keys, 1).
        """
        table = np.asarray(values, dtype=np.float64).reshape(len(keys), self.n_outputs if outputs is None else 1)
        add(*self._cells_of(keys, outputs), np.ascontiguousarray(table / self.scale, dtype=np.float32))

    def estimate(self, keys: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        """Return the estimates of elements, float32 of shape (n_keys,), with several outputs (n_keys, n_outputs).

        With `outputs`, as in `add`, of shape (n_keys, 1).
        """
        estimates = np.empty((len(keys), self.n_outputs if outputs is None else 1), dtype=np.float32)
        estimate(*self._cells_of(keys, outputs), estimates)
        estimates *= np.float32(self.scale)
        return estimates[:, 0] if outputs is None and self.n_outputs == 1 else estimates

    def _cells_of(self, keys: np.ndarray, outputs: np.ndarray | None) -> tuple[Any, ...]:
        """Return the first arguments of the kernels."""
        first = np.zeros(len(keys), np.uint64) if outputs is None else np.asarray(outputs, np.uint64)
        return self.cells.reshape(-1), np.uint64(self.n_outputs), *self.hashing, np.asarray(keys, np.uint64), first

    def decay(self, factor: float) -> None:
        """Multiply every element by a positive factor; the cells themselves are scaled only occasionally."""
        self.scale *= factor
        if self.scale < SMALLEST_SCALE:
            self.settle()

    def settle(self) -> None:
        """Multiply the cells by the scale, and set it to 1."""
        if self.scale != 1.0:
            self.cells *= np.float32(self.scale)
            self.scale = 1.0

    def norm(self) -> float:
        """Return an estimate of the vector's Euclidean norm: the median of the rows' norms.

        If a row has more than 2²⁰ buckets, the norm is extrapolated from the first 2²⁰, since elements are spread
        evenly.
        """
        cells, n_rows = self.cells.reshape(-1), max(self.n_hashes, 1)
        length = len(cells) // n_rows
        looked_at = min(length, NORM_BUCKETS * self.n_outputs) if self.n_hashes else length
        squares = [squared_norm_between(cells, r * length, r * length + looked_at) for r in range(n_rows)]
        return float(np.sqrt(np.median(squares) * (length / looked_at)) * self.scale)

    def is_like(self, other: CountSketch) -> bool:
        """Return whether both have the same hash and shape, so that their cells have the same meaning."""
        mine = (self.n_buckets, self.n_hashes, self.seed, self.n_outputs)
        return mine == (other.n_buckets, other.n_hashes, other.seed, other.n_outputs)

    def merge(self, other: CountSketch, share: float = 1.0, own_share: float = 1.0) -> None:
        """Replace the sketch by ``own_share`` times itself plus ``share`` times the other: by default the sum.

        Raises
        ------
        ConfigError
            The other has a different seed or shape.
        """
        if not self.is_like(other):
            raise ConfigError(
                f"expected a sketch like {self!r}, found {other!r}", "merge", "create both with the same seed and shape"
            )
        self.cells *= np.float32(own_share * self.scale)
        self.cells += np.float32(share * other.scale) * other.cells
        self.scale = 1.0

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to an .npz file, under a temporary name first.

        Raises
        ------
        RunError
            The file cannot be written.
        """
        save_arrays(path, {**self.to_arrays(), "format_version": np.int64(FORMAT_VERSION), "hash": np.str_(HASH_NAME)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CountSketch:
        """Read a file written by `save`.

        Raises
        ------
        RunError
            The file does not exist, is damaged, or has a newer format or another hash.
        """
        return cls.from_arrays(load_arrays(path), str(path))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the complete state as arrays."""
        shape = np.array([self.n_buckets, self.n_hashes, self.seed, self.n_outputs], dtype=np.int64)
        return {"cells": self.cells, "sketch": shape, "scale": np.array(self.scale)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], where: str = "sketch") -> CountSketch:
        """Return the sketch from the arrays of `to_arrays`; the cells are copied."""
        try:
            n_buckets, n_hashes, seed, n_outputs = (int(number) for number in arrays["sketch"])
            cells, scale = np.array(arrays["cells"], dtype=np.float32), float(arrays["scale"])
            return cls(n_buckets, n_hashes, seed, n_outputs, cells, scale)
        except (KeyError, TypeError, ValueError, ConfigError) as fault:
            raise RunError(f"damaged sketch: {fault!r}", where, "create it again") from fault

    def __repr__(self) -> str:
        outputs = f" x {self.n_outputs} outputs" if self.n_outputs > 1 else ""
        return f"<CountSketch: {self.n_hashes} x {self.n_buckets:,} cells{outputs}, seed {self.seed}>"


def save_arrays(path: str | os.PathLike[str], arrays: dict[str, Any]) -> None:
    """Write arrays to an .npz file; a file of this name is always complete.

    Raises
    ------
    RunError
        The file cannot be written.
    """
    try:
        with written_whole(Path(path)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as fault:
        remedy = "free disk space, or fix the permissions"
        raise RunError(f"cannot be written: {fault.strerror}", str(path), remedy) from fault


def load_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read a file written by `save_arrays`; see `CountSketch.load` for the errors."""
    where = str(path)
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise RunError("no such file", where, "name a file written by save()") from None
    except (OSError, ValueError, EOFError) as fault:
        raise RunError(f"cannot be read: {fault}", where, "create it again") from fault
    except Exception as fault:  # zipfile and zlib raise errors of their own for a damaged archive
        raise RunError(f"damaged: {fault}", where, "create it again") from fault
    version = int(arrays.get("format_version", -1))
    if version < 0:
        raise RunError("not a sketch of daskfs", where, "name a file written by save()")
    if version > FORMAT_VERSION:
        raise RunError(f"format {version} is newer than this daskfs reads ({FORMAT_VERSION})", where, "upgrade daskfs")
    if str(arrays.get("hash")) != HASH_NAME:
        raise RunError(f"expected the hash {HASH_NAME}, found {arrays.get('hash')}", where, "create it again")
    return arrays


def ids_of_names(names: Iterable[str]) -> np.ndarray:
    """Return 64-bit ids of feature names: the first eight bytes of BLAKE2b of their UTF-8, little-endian.

    The ids are the same in every process, on every machine and with every Python version. The number that marks a free
    slot is not used. For callers that fill a `CountSketch` or sparse columns by name: no source of daskfs hashes names,
    and `Mission` uses column numbers.

    Returns
    -------
    ndarray of shape (n_names,), uint64

    Examples
    --------
    >>> [hex(i) for i in ids_of_names(["colour=red", "größe"])]
    ['0x293354e7ec716b1b', '0xe99a32c955e1f8f4']
    """
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.fromiter((min(int.from_bytes(d, "little"), _LAST_ID) for d in digests), dtype=np.uint64)


def names_of_ids(selected: np.ndarray, names: Sequence[str]) -> list[str]:
    """Return the name of each selected id, from a list of names.

    Two names with the same id share a weight. Among n names, n² / 2⁶⁵ such pairs are expected: 0.03 for a billion.

    Parameters
    ----------
    selected : ndarray of shape (n_selected,), uint64
    names : sequence of str
        May contain duplicates.

    Raises
    ------
    DataError
        Two different names have the same selected id, or no name has it.

    Examples
    --------
    >>> names_of_ids(ids_of_names(["b"]), ["a", "b", "b"])
    ['b']
    """
    wanted: dict[int, set[str]] = {int(i): set() for i in selected}
    for name, number in zip(names, ids_of_names(names), strict=True):
        if int(number) in wanted:
            wanted[int(number)].add(name)
    for number, found in wanted.items():
        if len(found) != 1:
            shown = ", ".join(repr(name) for name in sorted(found)) or "none"
            raise DataError(f"expected one name for the selected id {number:#x}, found {shown}", "names", "rename one")
    return [next(iter(wanted[int(i)])) for i in selected]
