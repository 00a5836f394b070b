"""Rows on their way from the source's order to the store's: in memory while they fit, in bucket files when not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

MAX_BUCKETS = 1024
_PIECE_NBYTES = 16 << 20


def stored_order(keys: np.ndarray) -> np.ndarray:
    """Return the order in which rows are stored: source rows by ascending key, ties in the source's order."""
    return np.argsort(keys, kind="stable")


def draw_seed(random_state: int | None) -> int:
    """Return the seed, or one drawn from the system where there is none."""
    return int(np.random.SeedSequence().generate_state(1)[0]) if random_state is None else int(random_state)


class Spool:
    """Rows that are put in another order.

    Parameters
    ----------
    folder : Path
        Where bucket files go; created when first needed.
    n_features : int
    dtype : dtype
    memory_nbytes : int
        Rows kept in memory before all go to files.
    n_buckets : int or None
        Files by range of the keys; None: rows keep their order, and each flush makes a file.

    Notes
    -----
    Keys are uniform on [0, 1), so a bucket (a range of keys) holds rows that stand together in the stored order,
    and buckets are about equally large. Within its file a bucket's rows stand in the source's order.
    """

    def __init__(
        self, folder: Path, n_features: int, dtype: np.dtype, memory_nbytes: int, n_buckets: int | None
    ) -> None:
        self.folder, self.n_features, self.dtype = folder, n_features, dtype
        self.memory_nbytes, self.n_buckets = memory_nbytes, n_buckets
        self.spilled_nbytes = 0
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []
        self._pending_nbytes = 0
        self._counts: list[int] = [0] * (n_buckets or 0)

    def append(self, block: np.ndarray, keys: np.ndarray) -> None:
        """Take rows (n_rows, n_features) with their keys (n_rows,); the arrays are kept, not copied."""
        self._pending.append((block, keys))
        self._pending_nbytes += block.nbytes
        if self._pending_nbytes > self.memory_nbytes:
            self._flush()

    def rows(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the rows in the given order, piece by piece, and forget them.

        Parameters
        ----------
        order : int64 array of shape (n_samples,)
            `stored_order` of all keys, or ``arange`` where rows keep their order.
        """
        if not self.spilled_nbytes:
            yield from self._rows_in_memory(order)
            return
        self._flush()
        start = 0
        for bucket, count in enumerate(self._counts):
            wanted = order[start : start + count]
            start += count
            if count:
                yield from self._rows_of_bucket(bucket, wanted)

    def _rows_in_memory(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Gather from the blocks as they came, so that the rows are never in memory twice."""
        blocks = [block for block, _ in self._pending]
        starts = np.cumsum([0, *map(len, blocks)])
        for piece in self._pieces(order):
            yield _gather(blocks, starts, piece, np.empty((len(piece), self.n_features), self.dtype))
        self._pending.clear()

    def _rows_of_bucket(self, bucket: int, wanted: np.ndarray) -> Iterator[np.ndarray]:
        path = self._path(bucket)
        shape = (len(wanted), self.n_features)
        if self.n_buckets is not None and len(wanted) * self._row_nbytes <= self.memory_nbytes:
            rows: np.ndarray = np.fromfile(path, self.dtype).reshape(shape)
        else:  # a bucket larger than the memory, as happens when nobody knew how many rows would come
            rows = np.asarray(np.memmap(path, self.dtype, mode="r", shape=shape))
        position = np.empty(len(wanted), np.int64)
        position[np.argsort(wanted, kind="stable")] = np.arange(len(wanted))
        for piece in self._pieces(position):
            yield rows[piece]
        del rows
        path.unlink()

    def _pieces(self, numbers: np.ndarray) -> Iterator[np.ndarray]:
        nbytes = min(_PIECE_NBYTES, self.memory_nbytes // 8)
        n_rows = max(1, nbytes // max(1, self._row_nbytes))
        for start in range(0, len(numbers), n_rows):
            yield numbers[start : start + n_rows]

    @property
    def _row_nbytes(self) -> int:
        return self.n_features * self.dtype.itemsize

    def _path(self, bucket: int) -> Path:
        return self.folder / f"{bucket}.rows"

    def _flush(self) -> None:
        if not self._pending:
            return
        self.folder.mkdir(exist_ok=True)
        if self.n_buckets is None:
            self._counts.append(0)
            with self._path(len(self._counts) - 1).open("wb") as file:
                for block, _ in self._pending:
                    self._counts[-1] += len(block)
                    file.write(block.data)
        else:
            self._flush_to_buckets(self.n_buckets)
        self.spilled_nbytes += self._pending_nbytes
        self._pending, self._pending_nbytes = [], 0

    def _flush_to_buckets(self, n_buckets: int) -> None:
        keys = np.concatenate([keys for _, keys in self._pending])
        buckets = np.minimum((keys * n_buckets).astype(np.int64), n_buckets - 1)
        blocks = [block for block, _ in self._pending]
        starts = np.cumsum([0, *map(len, blocks)])
        order = np.argsort(buckets, kind="stable")
        borders = np.searchsorted(buckets[order], np.arange(n_buckets + 1))
        for bucket in range(n_buckets):
            rows = order[borders[bucket] : borders[bucket + 1]]
            if not len(rows):
                continue
            gathered = _gather(blocks, starts, rows, np.empty((len(rows), self.n_features), self.dtype))
            with self._path(bucket).open("ab") as file:
                file.write(gathered.data)
            self._counts[bucket] += len(rows)


def _gather(blocks: list[np.ndarray], starts: np.ndarray, rows: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Fill `out` with the given rows of the blocks, of which block k starts at row starts[k]."""
    owners = np.searchsorted(starts, rows, side="right") - 1
    by_owner = np.argsort(owners, kind="stable")
    borders = np.searchsorted(owners[by_owner], np.arange(len(blocks) + 1))
    for owner in np.flatnonzero(np.diff(borders)).tolist():
        mine = by_owner[borders[owner] : borders[owner + 1]]
        out[mine] = blocks[owner][rows[mine] - starts[owner]]
    return out
