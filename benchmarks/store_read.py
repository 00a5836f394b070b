"""Reading blocks of a store: our reader against zarr-python, zarrs, dask.array and np.memmap, in one run.

    python benchmarks/store_read.py [--size 192MiB] [--json results.json]
    python benchmarks/store_read.py --tall       (a baseline that takes blocks of few columns, from 51,200 x 1,024)
    python benchmarks/store_read.py --parts      (what the reader does with a tile in memory)
    python benchmarks/store_read.py --shuffles   (lz4 tiles of many kinds, by what Blosc shuffles)

Prints decoded GB per CPU-second (process time of all threads, best of several interleaved repeats, files in the
page cache) for blocks of rows and of columns, and each as a ratio to zarr-python and to np.memmap. Absolute figures
depend on the machine; the ratios are what to look at. "As tiles pass by" gives strips of tiles where the reader has
them, and no block. "Scores" are the products of all columns with a vector, as FGM takes them in a pass: of tiles as
they pass by, of blocks that the reader or the memory map filled, of the map as it lies.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import zarr

from daskfs.cluster.open import parse_bytes
from daskfs.interrupts import guard
from daskfs.kernels.fgm.scores import scores_of
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import RowBlock, Rows, Strip
from daskfs.selectors.fgm.tasks import ColumnRange, best_of_block
from daskfs.store.feature_store import open_store
from daskfs.store.tile_reader import TileReader, open_array
from daskfs.store.writer import StoreWriter

N_FEATURES = 4096
BLOCK_NBYTES = 64 << 20
TILE = (2048, 512)
BARE = "bare tiles"
NOTHING = np.empty(0, np.int64)
CODECS = {BARE: "raw, no checksum", "raw": "raw + crc32c (a store)", "lz4": "lz4 + crc32c (a store)"}


def make_array(path: Path, X: np.ndarray, codec: str) -> TileReader:
    """Write X as a store does, or as bare tiles without a checksum, which stores never have."""
    if codec == BARE:
        array = zarr.create_array(path, shape=X.shape, chunks=TILE, dtype=X.dtype, compressors=None, filters=None)
        array[...] = X
        return open_array(path, "X")
    with StoreWriter(path, X.shape[1], X.dtype, shuffle=False, n_samples=len(X), source={}, codec=codec) as writer:
        writer.write(RowBlock(0, len(X), X))
    return open_store(path).tiles


def blocks(length: int, block: int) -> Iterator[slice]:
    return (slice(start, min(start + block, length)) for start in range(0, length, block))


def block_lengths(store: TileReader) -> tuple[int, int]:
    """Rows and columns of a block: about 64 MiB (the smallest task), in whole tiles."""
    lengths = []
    for axis in (0, 1):
        line_nbytes = store.shape[1 - axis] * store.dtype.itemsize
        tile = store.tile_shape[axis]
        lengths.append(min(store.shape[axis], max(1, BLOCK_NBYTES // line_nbytes // tile) * tile))
    return lengths[0], lengths[1]


class _Store(Matrix):
    """The reader as a matrix, also of bare tiles."""

    def __init__(self, tiles: TileReader) -> None:
        self.tiles, self.shape, self.dtype = tiles, (tiles.shape[0], tiles.shape[1]), tiles.dtype

    def read(self, rows: Rows, columns: Rows = slice(None), out: np.ndarray | None = None) -> np.ndarray:
        """Return a block."""
        return self.tiles.read(rows, columns, out)

    def strips(self, rows: Rows, columns: slice) -> Iterator[Strip] | None:
        """Return the tiles as they pass by."""
        return self.tiles.strips(rows, columns)


def readers(store: TileReader, raw: Path) -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
    """Name of the reader -> (read everything by row blocks, read everything by column blocks)."""
    n_samples, n_features = store.shape
    n_rows, n_columns = block_lengths(store)
    row_buffer = np.empty((n_rows, n_features), store.dtype)
    column_buffer = np.empty((n_samples, n_columns), store.dtype)
    down, across = store.grid_shape
    high, wide = n_rows // store.tile_shape[0], n_columns // store.tile_shape[1]
    row_tiles = np.empty((high, across, *store.tile_shape), store.dtype)
    column_tiles = np.empty((down, wide, *store.tile_shape), store.dtype)
    folder = store.folder
    plain = zarr.open_array(folder, mode="r")
    matrix = _Store(store)
    lazy = dask.array.from_zarr(folder)
    mapped_before = np.memmap(raw, store.dtype, mode="r", shape=store.shape)

    def ours(axis: int) -> None:
        for part in blocks(store.shape[axis], (n_rows, n_columns)[axis]):
            count = part.stop - part.start
            if axis == 0:
                store.read(part, slice(None), row_buffer[:count])
            else:
                buffer = column_buffer.reshape(-1)[: n_samples * count].reshape(n_samples, count)
                store.read(slice(None), part, buffer)

    def ours_by_tiles(axis: int) -> None:
        for part in blocks((down, across)[axis], (high, wide)[axis]):
            numbers = range(part.start, part.stop)
            if axis == 0:
                store.read_tiles(numbers, range(across), row_tiles[: len(numbers)])
            else:
                shape = (down, len(numbers), *store.tile_shape)
                column = column_tiles.reshape(-1)[: math.prod(shape)].reshape(shape)
                store.read_tiles(range(down), numbers, column)

    def indexed(array: object, axis: int) -> None:
        for part in blocks(store.shape[axis], (n_rows, n_columns)[axis]):
            array[part if axis == 0 else (slice(None), part)]  # type: ignore[index]

    def with_dask(axis: int) -> None:
        for part in blocks(store.shape[axis], (n_rows, n_columns)[axis]):
            lazy[part if axis == 0 else (slice(None), part)].compute(scheduler="threads", num_workers=2)

    def copied(axis: int, memory_map: np.ndarray | None = None) -> None:
        if memory_map is None:  # as the others do, which open their files when they read
            memory_map = np.memmap(raw, store.dtype, mode="r", shape=store.shape)
        for part in blocks(store.shape[axis], (n_rows, n_columns)[axis]):
            count = part.stop - part.start
            if axis == 0:
                row_buffer[:count] = memory_map[part]
            else:
                buffer = column_buffer.reshape(-1)[: n_samples * count].reshape(n_samples, count)
                buffer[...] = memory_map[:, part]

    def passing(axis: int) -> None:
        for part in blocks(store.shape[axis], (n_rows, n_columns)[axis]):
            for _ in store.strips(*((part, slice(None)) if axis == 0 else (slice(None), part))):
                pass

    vector = np.random.default_rng(1).standard_normal(n_samples)

    def scores(read: Callable[[tuple[slice, slice], np.ndarray], np.ndarray]) -> Callable[[int], None]:
        def scored(axis: int) -> None:
            sums = np.zeros(n_features)
            for part in blocks(store.shape[axis], (n_rows, n_columns)[axis]):
                if axis == 0:
                    scores_of(read((part, slice(None)), row_buffer[: part.stop - part.start]), vector[part], sums)
                else:
                    shape = n_samples, part.stop - part.start
                    block = column_buffer.reshape(-1)[: math.prod(shape)].reshape(shape)
                    scores_of(read((slice(None), part), block), vector, sums[part])

        return scored

    def scored_passing(axis: int) -> None:
        for part in blocks(n_features, n_columns):
            best_of_block(matrix, vector[None], 10, NOTHING, ColumnRange(part.start, part.stop, n_samples))

    def copied_to(part: tuple[slice, slice], out: np.ndarray) -> np.ndarray:
        out[...] = mapped_before[part]
        return out

    found: dict[str, Callable[[int], None]] = {
        "daskfs, dense block": ours,
        "daskfs, tile by tile": ours_by_tiles,
        "daskfs, as tiles pass by": passing,
        "scores, as tiles pass by": scored_passing,
        "scores, daskfs, dense": scores(lambda part, out: store.read(*part, out)),
        "scores, memmap, copied": scores(copied_to),
        "scores, memmap in place": scores(lambda part, out: mapped_before[part]),
        "zarr-python": lambda axis: indexed(plain, axis),
        "dask.array.from_zarr": with_dask,
        "np.memmap, copied out": copied,
        "np.memmap, mapped before": lambda axis: copied(axis, mapped_before),
    }
    rust = open_with_zarrs(folder)
    if rust is not None:
        found["zarrs"] = lambda axis: indexed(rust, axis)
    return {name: (lambda f=f: f(0), lambda f=f: f(1)) for name, f in found.items()}  # type: ignore[misc]


def open_with_zarrs(folder: str) -> object | None:
    try:
        import zarrs  # noqa: F401
    except ImportError:
        return None
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        return zarr.open_array(folder, mode="r")


def measure(functions: dict[str, tuple[Callable[[], None], Callable[[], None]]], nbytes: int, repeats: int) -> dict:
    """GB per CPU-second, best of `repeats`, the readers taking turns."""
    best = {name: [np.inf, np.inf] for name in functions}
    for repeat in range(repeats + 1):
        for name, pair in functions.items():
            for axis, function in enumerate(pair):
                gc.collect()
                start = time.process_time()
                function()
                if repeat:  # the first warms up
                    best[name][axis] = min(best[name][axis], time.process_time() - start)
    return {
        name: {"rows": nbytes / rows / 1e9, "columns": nbytes / columns / 1e9} for name, (rows, columns) in best.items()
    }


def table(speeds: dict, codec: str) -> str:
    lines = [f"{codec:25s} {'rows':>7s} {'/zarr':>6s} {'/memmap':>7s}   {'columns':>7s} {'/zarr':>6s} {'/memmap':>7s}"]
    for name, speed in speeds.items():
        line = f"{name:25s}"
        for way in ("rows", "columns"):
            base, memory_map = speeds["zarr-python"][way], speeds["np.memmap, copied out"][way]
            line += f" {speed[way]:7.2f} {speed[way] / base:6.2f} {speed[way] / memory_map:7.2f}  "
        lines.append(line.rstrip())
    return "\n".join(lines)


def run(size_nbytes: int, repeats: int = 5) -> dict:
    """Measure both codecs; returns {codec: {reader: {"rows": GB per CPU-second, "columns": ...}}}."""
    n_samples = max(2048, size_nbytes // (N_FEATURES * 4) // 2048 * 2048)
    rng = np.random.default_rng(0)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for codec in CODECS:
            X = rng.standard_normal((n_samples, N_FEATURES), dtype=np.float32)
            if codec == "lz4":
                np.round(X, out=X)  # something to compress
            store = make_array(Path(folder, f"{codec}.zarr"), X, codec)
            raw = Path(folder, f"{codec}.raw")
            X.tofile(raw)
            nbytes = X.nbytes
            del X
            results[codec] = measure(readers(store, raw), nbytes, repeats)
    return results


def tall(repeats: int) -> None:
    """Print what two epochs of `OnlineL0` cost from a tall store, whose blocks are of fewer columns than its tiles."""
    from daskfs.baselines.columns.streams import OnlineL0

    n_tiles, locate = [0], TileReader._locate

    def counted(self: TileReader, *tile: int) -> Any:
        n_tiles[0] += self.name == "X"
        return locate(self, *tile)

    TileReader._locate = counted  # type: ignore[method-assign]
    rng, best = np.random.default_rng(0), np.inf
    with tempfile.TemporaryDirectory() as folder:
        options = {"shuffle": False, "n_samples": 51_200, "source": {}, "target_names": ("y",)}
        with StoreWriter(Path(folder, "tall.zarr"), 1024, "float32", **options) as writer:
            for start in range(0, 51_200, 2048):
                X = rng.standard_normal((2048, 1024), dtype=np.float32)
                writer.write(RowBlock(start, start + 2048, X, X[:, :10].sum(axis=1, keepdims=True, dtype=float)))
        store = open_store(writer.path)
        for _ in range(repeats):
            n_tiles[0], started = 0, time.process_time()
            OnlineL0(10, loss="squared").fit(store)
            best = min(best, time.process_time() - started)
        print(f"decoded {n_tiles[0] / math.prod(store.tiles.grid_shape):.2f} times, {best:.2f} s of CPU")


def speed_of(nbytes: int, function: Callable[[], object], repeats: int) -> float:
    """GB per CPU-second of a function, best of `repeats`."""
    best = np.inf
    for _ in range(repeats + 1):
        started = time.process_time()
        for _ in range(5):
            function()
        best = min(best, (time.process_time() - started) / 5)
    return nbytes / best / 1e9


def parts(repeats: int) -> None:
    """Print GB per CPU-second of what the reader does with a tile in memory."""
    from crc32c import crc32c

    from daskfs.kernels.blocks.laid_down import lay_down

    for nbytes in (64 << 10, 384 << 10, 4 << 20):
        data = np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8)
        print(f"crc32c of {nbytes >> 10} KiB: {speed_of(nbytes, partial(crc32c, data.data), repeats):.1f}")
    for dtype, shape in (("int8", (1024, 512)), ("float32", (2048, 512)), ("float64", (1024, 512))):
        tile = np.random.default_rng(0).binomial(2, 0.2, shape).astype(dtype)
        columns, numbers = np.empty((shape[1], 50 * shape[0]), dtype), np.arange(shape[1])
        places = itertools.cycle(range(0, columns.shape[1], shape[0]))

        def kernel(tile=tile, numbers=numbers, columns=columns, places=places) -> None:  # type: ignore
            lay_down(tile, numbers, columns, numbers, next(places))

        def copy(tile=tile, columns=columns, places=places) -> None:  # type: ignore
            start = next(places)
            columns[:, start : start + len(tile)] = tile.T

        ours, theirs = (speed_of(tile.nbytes, function, repeats) for function in (kernel, copy))
        print(f"columns of {dtype} laid down: {ours:.1f}, numpy {theirs:.1f}")


def kinds_of_tiles() -> dict[str, np.ndarray]:
    """Return tiles of 4 MiB of what people store."""
    rng = np.random.default_rng(0)
    n, whole, quarter = 2048, (2048, 2048), (2048, 512)
    frequency, rare = rng.uniform(0.01, 0.5, n), np.exp(rng.uniform(np.log(1e-3), np.log(0.05), n))
    founders = rng.random((40, n)) < rng.beta(0.6, 1.5, n)
    linked = np.zeros(whole, np.int8)
    for _ in range(2):  # chromosomes, mosaics of 40 founders'
        starts = np.maximum.accumulate(np.where(rng.random(whole) < 0.01, np.arange(n), 0), axis=1)
        linked += founders[np.take_along_axis(rng.integers(0, 40, whole), starts, axis=1), np.arange(n)]

    def dummies(n_columns: int, n_levels: int) -> np.ndarray:
        found = np.zeros((n, n_columns), np.int8)
        for start in range(0, n_columns, n_levels):
            share = 1 / np.arange(1, min(n_levels, n_columns - start) + 1)
            found[np.arange(n), start + rng.choice(len(share), n, p=share / share.sum())] = 1
        return found

    normal = rng.standard_normal(quarter, dtype=np.float32)
    dosages = rng.binomial(2, frequency[:512], quarter).astype(np.float32)
    genes = rng.gamma(0.3, 1, n)
    counts = rng.negative_binomial(0.5, 0.5 / (0.5 + rng.gamma(1, 50, 512)), quarter)
    return {
        "int8 genotypes": rng.binomial(2, frequency, whole).astype(np.int8),
        "int8 genotypes, linked": linked,
        "int8 genotypes, rare": rng.binomial(2, rare, whole).astype(np.int8),
        "int8 dummies of 5": dummies(n, 5),
        "int8 dummies of 50": dummies(n, 50),
        "int8 fingerprints": (rng.random(whole) < rng.beta(0.5, 5, n)).astype(np.int8),
        "int8 counts of 0.3": rng.poisson(genes, whole).clip(0, 127).astype(np.int8),
        "int8 counts of 5": rng.poisson(rng.gamma(2, 2.5, n), whole).clip(0, 127).astype(np.int8),
        "int8 rounded normal": np.round(20 * rng.standard_normal(whole)).clip(-128, 127).astype(np.int8),
        "int16 counts of 50": counts.astype(np.int16),
        "int32 counts of 50": counts.astype(np.int32),
        "float32 normal": normal,
        "float32 whole numbers": np.round(normal),
        "float32 log1p of counts": np.log1p(rng.poisson(genes[:512], quarter)).astype(np.float32),
        "float32 standardised": (dosages - dosages.mean(axis=0)) / dosages.std(axis=0),
        "float32 dummies of 20": dummies(512, 20).astype(np.float32),
    }


def shuffles(repeats: int) -> None:
    """Print how Blosc's lz4 decodes tiles of many kinds, whose bytes or bits it shuffles or leaves."""
    from numcodecs import blosc

    blosc.use_threads = False
    ways = {"none": blosc.NOSHUFFLE, "bytes": blosc.SHUFFLE, "bits (a store)": blosc.BITSHUFFLE}
    print("decoded GB per CPU-second, and how many times smaller the tile is")
    print(f"{'shuffled':25s}" + "".join(f"{way:>18s}" for way in ways))
    for name, tile in kinds_of_tiles().items():
        line, found = f"{name:25s}", np.empty_like(tile)
        for way, shuffle in ways.items():
            if tile.itemsize == 1 and way == "bytes":
                line += f"{'as none':>18s}"
                continue
            encoded = blosc.compress(tile, b"lz4", 5, shuffle)
            speed = speed_of(tile.nbytes, partial(blosc.decompress, encoded, found), repeats)
            assert np.array_equal(found, tile)
            line += f"{speed:9.2f} {tile.nbytes / len(encoded):7.2f}x"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="192MiB", help="of the matrix, float32")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--tall", action="store_true")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--shuffles", action="store_true")
    options = parser.parse_args()
    if options.tall:
        tall(options.repeats)
        return
    with guard():  # as every fit does, and not every kernel
        if options.parts:
            parts(options.repeats)
            return
        if options.shuffles:
            shuffles(options.repeats)
            return
        results = run(parse_bytes(options.size), options.repeats)
    print("decoded GB per CPU-second")
    for codec, speeds in results.items():
        print(table(speeds, CODECS[codec]), end="\n\n")
    if options.json:
        options.json.write_text(json.dumps({"python": sys.version, "size": options.size, **results}, indent=1))


if __name__ == "__main__":
    main()
