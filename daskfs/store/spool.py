"""Reorders rows from the source's order to the stored order: in memory if they fit, otherwise in bucket files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

MAX_BUCKETS = 1024
PIECE_NBYTES = 1 << 20
"""Rows are reordered in pieces of this size, which stay in the cache until they are copied to their band."""


def stored_order(keys: np.ndarray) -> np.ndarray:
    """Return the stored order of rows: source rows by ascending key, ties in the source's order."""
    order = np.argsort(keys)  # several times as fast as a stable sort, and random keys are rarely equal
    in_order = keys[order]
    tied = np.flatnonzero(in_order[1:] == in_order[:-1])
    if (np.diff(tied) == 1).any():
        return np.argsort(keys, kind="stable")
    pairs = order[[tied, tied + 1]]
    order[tied], order[tied + 1] = pairs.min(axis=0), pairs.max(axis=0)
    return order


def draw_seed(random_state: int | None) -> int:
    """Return the seed, or a random one if it is None."""
    return int(np.random.SeedSequence().generate_state(1)[0]) if random_state is None else int(random_state)


def taken(rows: np.ndarray, numbers: np.ndarray, nbytes: int = PIECE_NBYTES) -> Iterator[np.ndarray]:
    """Yield rows by their numbers, in pieces of `nbytes` bytes; each piece reuses the buffer of the last."""
    n_rows = max(1, nbytes // max(1, rows.shape[1] * rows.itemsize))
    piece = np.empty((n_rows, rows.shape[1]), rows.dtype)
    for start in range(0, len(numbers), n_rows):
        wanted = numbers[start : start + n_rows]
        yield np.take(rows, wanted, axis=0, out=piece[: len(wanted)], mode="clip")


class Spool:
    """Reorders rows.

    Parameters
    ----------
    folder : Path
        Folder for bucket files; created when first needed.
    n_features : int
    dtype : dtype
    memory_nbytes : int
        Maximum size of the rows in memory; beyond it, all rows go to files.
    n_buckets : int or None
        Number of bucket files, each for a range of keys; None: rows keep their order, and each flush creates a file.
    block_rows : int
        Maximum number of rows appended at a time.
    n_samples : int, optional
        Total number of rows, if known.

    Notes
    -----
    Keys are uniform on [0, 1), so that a bucket (a range of keys) has consecutive rows of the stored order, and buckets
    are about equally large. Within a bucket's file, rows are in the source's order.
    """

    def __init__(
        self,
        folder: Path,
        n_features: int,
        dtype: np.dtype,
        memory_nbytes: int,
        n_buckets: int | None,
        block_rows: int,
        n_samples: int | None = None,
    ) -> None:
        self.folder, self.n_features, self.dtype = folder, n_features, dtype
        self.memory_nbytes, self.n_buckets = memory_nbytes, n_buckets
        self.spilled_nbytes = 0
        n_most = max(block_rows, memory_nbytes // max(1, self._row_nbytes))
        self._holds_all = n_samples is not None and n_samples <= n_most
        self._rows = np.empty((n_samples if n_samples is not None and self._holds_all else n_most, n_features), dtype)
        self._block_rows, self._n_rows = block_rows, 0
        self._keys: list[np.ndarray] = []
        self._counts: list[int] = [0] * (n_buckets or 0)

    def room(self) -> np.ndarray:
        """Return the buffer for the next rows, of shape (block_rows, n_features), or fewer rows at the end."""
        if self._n_rows + self._block_rows > len(self._rows) and not self._holds_all:
            self._flush()
        return self._rows[self._n_rows : self._n_rows + self._block_rows]

    def append(self, n_rows: int, keys: np.ndarray) -> None:
        """Append the first `n_rows` rows of the buffer returned by `room`, with their keys (n_rows,)."""
        self._n_rows += n_rows
        self._keys.append(keys)

    def rows(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the rows in the given order, piece by piece; they can be read only once.

        Parameters
        ----------
        order : int64 array of shape (n_samples,)
            `stored_order` of all keys, or ``arange`` to keep the order.

        Yields
        ------
        ndarray of shape (n_rows, n_features)
            Valid until the next one.
        """
        if not self.spilled_nbytes:
            yield from taken(self._rows, order, self._piece_nbytes)
            return
        self._flush()
        start = 0
        for bucket, count in enumerate(self._counts):
            wanted = order[start : start + count]
            start += count
            if count:
                yield from self._rows_of_bucket(bucket, wanted)

    def _rows_of_bucket(self, bucket: int, wanted: np.ndarray) -> Iterator[np.ndarray]:
        path = self._path(bucket)
        shape = (len(wanted), self.n_features)
        if self.n_buckets is not None and len(wanted) <= len(self._rows):
            rows = self._rows[: len(wanted)]
            with path.open("rb") as file:
                file.readinto(rows.data)  # type: ignore[attr-defined]
        else:  # a bucket that exceeds the memory, possible if the number of rows was unknown
            rows = np.asarray(np.memmap(path, self.dtype, mode="r", shape=shape))
        position = np.empty(len(wanted), np.int64)
        position[np.argsort(wanted)] = np.arange(len(wanted))
        yield from taken(rows, position, self._piece_nbytes)
        del rows
        path.unlink()

    @property
    def _piece_nbytes(self) -> int:
        return min(PIECE_NBYTES, self.memory_nbytes // 8)

    @property
    def _row_nbytes(self) -> int:
        return self.n_features * self.dtype.itemsize

    def _path(self, bucket: int) -> Path:
        return self.folder / f"{bucket}.rows"

    def _flush(self) -> None:
        if not self._n_rows:
            return
        self.folder.mkdir(exist_ok=True)
        rows = self._rows[: self._n_rows]
        if self.n_buckets is None:
            self._counts.append(len(rows))
            with self._path(len(self._counts) - 1).open("wb") as file:
                file.write(rows.data)
        else:
            self._flush_to_buckets(rows, self.n_buckets)
        self.spilled_nbytes += rows.nbytes
        self._n_rows, self._keys = 0, []

    def _flush_to_buckets(self, rows: np.ndarray, n_buckets: int) -> None:
        buckets = np.minimum((np.concatenate(self._keys) * n_buckets).astype(np.uint16), n_buckets - 1)
        order = np.argsort(buckets, kind="stable")
        start = 0
        for bucket, count in enumerate(np.bincount(buckets, minlength=n_buckets).tolist()):
            with self._path(bucket).open("ab") as file:
                for piece in taken(rows, order[start : start + count], self._piece_nbytes):
                    file.write(piece.data)
            self._counts[bucket] += count
            start += count
