"""Files to stores, and stores to blocks, against the libraries that read and write the same."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Contender, Job, NotApplicable

ROW_NNZ, BLOCK_ROWS, BLOCK_NNZ = 60, 8192, 2**20


@dataclass
class File:
    """A file in some format, and what an answer must add up to."""

    path: Path
    kind: str
    shape: tuple[int, int]
    total: float


def out() -> Path:
    """Return a new place to write to."""
    return Path(tempfile.mkdtemp()) / "out.zarr"


def table(folder: Path, seed: int, kind: str, n_samples: int, n_features: int) -> File:
    """Write random numbers of nine letters as CSV, Parquet (row groups of 2^15 rows) or .npy."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features + 1)).round(5).astype(np.float32)
    frame = pd.DataFrame(X, columns=[*(f"x{j}" for j in range(n_features)), "y"])
    path = folder / f"table.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path, row_group_size=2**15)
    else:
        np.save(path, X)
    return File(path, kind, (n_samples, n_features), float(X[:, :-1].sum(dtype=float)))


def ingested(file: File, **options: Any) -> float:
    """Write a store: shuffled, with names, statistics and checksums; within 512 MiB beside the process."""
    import daskfs

    given: dict[str, Any] = {"target": "y"}
    source: Any = file.path
    if file.kind == "npy":
        source = np.load(file.path)
        source, given = np.ascontiguousarray(source[:, :-1]), {"y": source[:, -1].copy()}
    path = out()
    daskfs.ingest(source, path, memory_limit="512MiB", **given, **options)
    return float(daskfs.open_store(path).read(slice(None)).sum(dtype=float)) if file.shape[0] < 5000 else float("nan")


def by_dask(file: File) -> float:
    """dask.dataframe to Zarr."""
    import dask.dataframe as dd

    if file.kind != "csv":
        raise NotApplicable("measured on CSV")
    frame = dd.read_csv(str(file.path), blocksize="32MB").astype("float32")
    frame.to_dask_array(lengths=True).rechunk((16384, -1)).to_zarr(str(out()))
    return float("nan")


def by_pandas(file: File) -> float:
    """pandas in chunks, appended to Zarr."""
    import pandas as pd
    import zarr

    if file.kind != "csv":
        raise NotApplicable("measured on CSV")
    n_columns = file.shape[1] + 1
    array = zarr.create_array(str(out()), shape=(0, n_columns), chunks=(16384, n_columns), dtype="float32")
    total = 0.0
    for frame in pd.read_csv(file.path, chunksize=65536):
        block = frame.to_numpy(dtype="float32")
        array.append(block)
        total += float(block[:, :-1].sum(dtype=float))
    return total


def by_polars(file: File) -> float:
    """polars to Parquet."""
    import polars as pl

    if file.kind == "npy":
        raise NotApplicable("reads no .npy")
    frame = pl.read_csv(file.path) if file.kind == "csv" else pl.read_parquet(file.path)
    frame.cast(pl.Float32).write_parquet(out().with_suffix(".parquet"))
    return float("nan")


def by_arrow(file: File) -> float:
    """Read alone, in batches: the lower bound."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    if file.kind == "npy":
        raise NotApplicable("reads no .npy")
    if file.kind == "csv":
        for _ in pyarrow.csv.open_csv(file.path):
            pass
    else:
        for _ in pq.ParquetFile(file.path).iter_batches():
            pass
    return float("nan")


def judge_total(file: File, total: float) -> dict[str, float]:
    """Say how far the sum of all values is off, where the contender has taken it."""
    return {} if np.isnan(total) else {"sum off by": abs(total - file.total) / max(1.0, abs(file.total))}


def sparse_text(folder: Path, seed: int, kind: str, n_samples: int) -> File:
    """Write rows of 60 entries in the format of LIBSVM or Vowpal Wabbit, texts as JSON lines, or SciPy's .npz."""
    import scipy.sparse
    from sklearn.datasets import dump_svmlight_file

    rng = np.random.default_rng(seed)
    path = folder / f"rows.{kind}"
    if kind in ("vw", "jsonl"):
        letters = rng.integers(97, 123, (50_000, 12), dtype=np.uint8)
        words = np.array([bytes(row[: 3 + k % 9]).decode() for k, row in enumerate(letters)])
        shares = np.cumsum(1.0 / np.arange(1, len(words) + 1))
        nnz = 0
        with path.open("w") as file:
            for label in rng.choice([-1, 1], n_samples).tolist():
                row = words[np.searchsorted(shares, rng.random(ROW_NNZ) * shares[-1])].tolist()
                if kind == "vw":
                    row = sorted(set(row))
                    file.write(f"{label} |title {' '.join(row[:10])} |body {' '.join(row[10:])}\n")
                else:
                    file.write(json.dumps({"text": " ".join(row), "label": label}) + "\n")
                nnz += len(row)
        return File(path, kind, (n_samples, len(words)), float(nnz))
    columns = np.minimum(rng.zipf(1.3, (n_samples, ROW_NNZ)), 10**6) - 1 + rng.integers(0, 1000, (n_samples, ROW_NNZ))
    starts = np.arange(0, columns.size + 1, ROW_NNZ)
    X = scipy.sparse.csr_matrix((np.ones(columns.size), columns.ravel(), starts), (n_samples, 10**6 + 1000))
    X.sum_duplicates()
    X.data = np.round(rng.random(X.nnz), 4) + 0.0001
    if kind == "svm":
        dump_svmlight_file(X, rng.choice([-1, 1], n_samples), str(path), zero_based=False)
    else:
        scipy.sparse.save_npz(path, X.astype(np.float32), compressed=False)
    return File(path, kind, X.shape, float(X.nnz))


def entries_of(file: File) -> float:
    """Read all rows as blocks of entries, and keep none."""
    from daskfs.sources.sparse.libsvm import LibsvmSource
    from daskfs.sources.sparse.matrices import MatrixSource
    from daskfs.sources.sparse.text import TextSource
    from daskfs.sources.sparse.vw import VwSource

    sources: dict[str, Callable[[], Any]] = {
        "svm": lambda: LibsvmSource(file.path),
        "vw": lambda: VwSource(file.path),
        "jsonl": lambda: TextSource(file.path),
        "npz": lambda: MatrixSource(file.path),
    }
    return float(sum(len(block.features) for block in sources[file.kind]().sparse_blocks(BLOCK_ROWS, BLOCK_NNZ)))


def by_sklearn(file: File) -> float:
    """scikit-learn's reader or vectorizer, which has all rows in memory at the end."""
    from sklearn.datasets import load_svmlight_file
    from sklearn.feature_extraction.text import CountVectorizer

    if file.kind == "svm":
        return float(load_svmlight_file(str(file.path))[0].nnz)
    if file.kind == "jsonl":
        with file.path.open() as lines:
            return float(CountVectorizer().fit_transform([json.loads(line)["text"] for line in lines]).nnz)
    raise NotApplicable("no reader")


def by_vw(file: File) -> float:
    """Vowpal Wabbit, which learns from what it reads."""
    from vowpalwabbit import Workspace

    if file.kind != "vw":
        raise NotApplicable("reads its own format")
    Workspace(f"-d {file.path} --quiet -b 22").finish()
    return float("nan")


def by_scipy(file: File) -> float:
    """SciPy, into memory."""
    import scipy.sparse

    if file.kind != "npz":
        raise NotApplicable("reads its own format")
    return float(scipy.sparse.load_npz(file.path).nnz)


def judge_entries(file: File, n_entries: float) -> dict[str, float]:
    """Say how many entries were read, where the contender tells."""
    return {} if np.isnan(n_entries) else {"entries": n_entries}


@dataclass
class Array:
    """A store, the same values as raw bytes, and how blocks lie."""

    store: Path
    raw: Path
    shape: tuple[int, int]
    blocks: str
    total: float


def array(folder: Path, seed: int, blocks: str, codec: str, n_samples: int, n_features: int) -> Array:
    """Write values as a store does, and raw; with lz4 whole numbers, which compress."""
    from daskfs.matrix.blocks import RowBlock
    from daskfs.store.writer import StoreWriter

    X = np.random.default_rng(seed).standard_normal((n_samples, n_features), dtype=np.float32)
    X = np.round(X) if codec == "lz4" else X
    options: dict[str, Any] = {"shuffle": False, "n_samples": n_samples, "source": {}, "codec": codec}
    with StoreWriter(folder / "store.zarr", n_features, X.dtype, **options) as writer:
        writer.write(RowBlock(0, n_samples, X))
    X.tofile(folder / "raw")
    return Array(folder / "store.zarr", folder / "raw", X.shape, blocks, float(X.sum(dtype=float)))


def in_blocks(data: Array, read: Callable[[tuple[slice, slice]], Any]) -> float:
    """Read all of an array by blocks of 64 MiB and return the sum of a value of each block."""
    axis = 0 if data.blocks == "rows" else 1
    step = max(512, (64 << 20) // (4 * data.shape[1 - axis]) // 512 * 512)
    total = 0.0
    for start in range(0, data.shape[axis], step):
        part = slice(start, min(start + step, data.shape[axis]))
        total += float(read((part, slice(None)) if axis == 0 else (slice(None), part))[0, 0])
    return total


def by_daskfs(data: Array) -> float:
    """Read by daskfs's reader, which checks each tile, into one buffer."""
    import daskfs

    tiles = daskfs.open_store(data.store).tiles
    buffers: dict[tuple[int, ...], np.ndarray] = {}

    def read(part: tuple[slice, slice]) -> np.ndarray:
        shape = tuple(len(range(*one.indices(n))) for one, n in zip(part, data.shape, strict=True))
        return tiles.read(*part, buffers.setdefault(shape, np.empty(shape, np.float32)))

    return in_blocks(data, read)


def by_zarr(data: Array, pipeline: str | None = None) -> float:
    """Read by zarr-python, with its own codecs or zarrs'."""
    import zarr

    import daskfs

    folder = daskfs.open_store(data.store).tiles.folder
    with zarr.config.set({} if pipeline is None else {"codec_pipeline.path": pipeline}):
        opened = zarr.open_array(folder, mode="r")
        return in_blocks(data, lambda part: opened[part])


def by_zarrs(data: Array) -> float:
    """Read by zarrs, in Rust."""
    import zarrs  # noqa: F401

    return by_zarr(data, "zarrs.ZarrsCodecPipeline")


def by_dask_array(data: Array) -> float:
    """Read by dask.array."""
    import dask
    import dask.array

    import daskfs

    lazy = dask.array.from_zarr(daskfs.open_store(data.store).tiles.folder)
    with dask.config.set(scheduler="synchronous"):
        return in_blocks(data, lambda part: lazy[part].compute())


def by_memmap(data: Array) -> float:
    """Copy from a memory map of the raw values, which nothing checks: the lower bound."""
    mapped = np.memmap(data.raw, np.float32, mode="r", shape=data.shape)
    return in_blocks(data, lambda part: np.array(mapped[part]))


def judge_blocks(data: Array, total: float) -> dict[str, float]:
    """Say whether the first values of all blocks are right."""
    mapped = np.memmap(data.raw, np.float32, mode="r", shape=data.shape)
    return {"right": float(np.isclose(total, in_blocks(data, lambda part: mapped[part])))}


def array_cases(n_samples: int, n_features: int) -> list[dict[str, Any]]:
    """Return blocks of rows and of columns, raw and compressed."""
    common = {"n_samples": n_samples, "n_features": n_features}
    return [{"blocks": blocks, "codec": codec, **common} for codec in ("raw", "lz4") for blocks in ("rows", "columns")]


def table_cases(n_samples: int) -> list[dict[str, Any]]:
    """Return the formats of tables."""
    return [{"kind": kind, "n_samples": n_samples, "n_features": 50} for kind in ("npy", "parquet", "csv")]


JOBS = [
    Job(
        "ingest",
        "From a table to a store",
        table,
        {"daskfs": Contender(ingested), "daskfs, rows in order": Contender(lambda file: ingested(file, shuffle=False))},
        {
            "dask.dataframe to Zarr": Contender(by_dask),
            "pandas to Zarr, in chunks": Contender(by_pandas),
            "polars to Parquet": Contender(by_polars, ("polars",)),
            "Arrow, read alone": Contender(by_arrow),
        },
        judge_total,
        {"smoke": table_cases(600)[2:], "small": table_cases(100_000), "full": table_cases(1_000_000)},
        about=(
            "50 columns of numbers. Only daskfs shuffles the rows, keeps names, statistics and checksums, and "
            "promises a memory limit (512 MiB beside the process)."
        ),
        rival="pandas to Zarr, in chunks",
        evidence=(
            "`daskfs.ingest` writes {case.n_samples:,} × {case.n_features} numbers from {case.kind} to a "
            "shuffled store in {ours.cpu_s:.1f} s of CPU; pandas in chunks takes {times:.1f} times as long."
        ),
    ),
    Job(
        "ingest_sparse",
        "From text to blocks of entries",
        sparse_text,
        {"daskfs": Contender(entries_of)},
        {
            "scikit-learn": Contender(by_sklearn),
            "Vowpal Wabbit": Contender(by_vw, ("vowpalwabbit",)),
            "SciPy": Contender(by_scipy),
        },
        judge_entries,
        {
            "smoke": [{"kind": "svm", "n_samples": 100}],
            "small": [{"kind": kind, "n_samples": 20_000} for kind in ("svm", "vw", "jsonl", "npz")],
            "full": [{"kind": kind, "n_samples": 200_000} for kind in ("svm", "vw", "jsonl", "npz")],
        },
        about=(
            "Rows of 60 entries or words. daskfs reads blocks and keeps none; others have all rows in memory at "
            "the end."
        ),
    ),
    Job(
        "store_read",
        "From a store to blocks",
        array,
        {"daskfs": Contender(by_daskfs)},
        {
            "zarr-python": Contender(by_zarr),
            "zarrs": Contender(by_zarrs, ("zarrs",)),
            "dask.array": Contender(by_dask_array),
            "np.memmap of raw bytes, unchecked": Contender(by_memmap),
        },
        judge_blocks,
        {"smoke": array_cases(1024, 512)[:1], "small": array_cases(8192, 4096), "full": array_cases(65_536, 4096)},
        about=(
            "float32 in tiles of a store, files in the page cache, blocks of 64 MiB. daskfs and zarr check each "
            "tile's CRC."
        ),
        rival="zarr-python",
        repeats=5,
        evidence=(
            "daskfs reads {case.codec} tiles as blocks of {case.blocks} and verifies their checksums; zarr-python "
            "takes {times:.1f} times the CPU time."
        ),
    ),
]
