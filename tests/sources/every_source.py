"""One small input of every kind of source that needs no program to be made, and how it is ingested."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import scipy.sparse as sp
import zarr

from tests.genotype_files import write_phenotypes, write_plink, write_vcf_zarr

N_ROWS = 3000
_COLUMNS: dict[str, Any] = {
    "x0": {},
    "x1": {"missing": "mean"},
    "x2": {"missing": "drop"},
    "x3": {"encoding": "standardised"},
    "c": {"dtype": "string", "min_count": 40},
    "d": {"dtype": "string", "categories": ["a", "b"], "unseen": "zero"},
    "n": {"dtype": "string", "encoding": "counts"},
    "day": {"dtype": "date", "encoding": {"date_parts": ["year", "month"], "as": "dummies"}},
    "w": {"role": "weight"},
    "name": {"role": "id"},
    "y": {"role": "target"},
}
_TABLE = {"schema": {"columns": _COLUMNS}, "tile_shape": (300, 4)}
_SPARSE = {**_COLUMNS, "c": {"dtype": "string", "min_count": 40, "drop_first": False}}
_CLICKS = ["click", *(f"n{j}" for j in range(13)), *(f"c{j}" for j in range(26))]
Made = tuple[Any, dict[str, Any]]


def frame() -> pd.DataFrame:
    """Return a table with all that must be learnt from it: means, deviations, levels, counts and years."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"x{j}": rng.normal(size=N_ROWS) for j in range(4)})
    table.loc[::7, "x1"], table.loc[5::99, "x2"] = np.nan, np.nan
    table["c"] = rng.choice(["a", "b", "c", "rare", "rarer"], N_ROWS, p=[0.5, 0.3, 0.19, 0.005, 0.005])
    table["d"], table["n"] = rng.choice(["a", "b", "other"], N_ROWS), rng.choice([f"n{k}" for k in range(50)], N_ROWS)
    table["day"] = rng.choice(["2001-02-03", "2002-12-31", "2020-02-29"], N_ROWS)
    table["w"], table["name"] = rng.integers(0, 3, N_ROWS), [f"row {k}" for k in range(N_ROWS)]
    return table.assign(y=rng.normal(size=N_ROWS))


def _numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(N_ROWS, 5)), rng.normal(size=N_ROWS)


def _entries() -> sp.csr_matrix:
    return sp.random(N_ROWS, 40, 0.1, random_state=2, format="csr", dtype=np.float32)


def _dosages() -> np.ndarray:
    return np.random.default_rng(3).integers(-1, 3, size=(300, 40)).astype(np.int8)


def _phenotypes(folder: Path) -> dict[str, Any]:
    values = {"height": np.random.default_rng(4).normal(size=300)}
    return {"phenotypes": write_phenotypes(folder / "p.txt", values), "target": "height", "missing": "mean"}


def _text(path: Path, line: Callable[[int], str]) -> Path:
    path.write_text("".join(map(line, range(N_ROWS))))
    return path


def _csv(folder: Path) -> Path:
    frame().to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def _parquet(folder: Path) -> Path:
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    pq.write_table(table, folder / "t.parquet", row_group_size=400)
    return folder / "t.parquet"


def _feather(folder: Path) -> Path:
    feather.write_feather(frame(), folder / "t.feather")
    return folder / "t.feather"


def _zarr(folder: Path) -> Made:
    X, y = _numbers()
    zarr.save_array(str(folder / "x.zarr"), X)
    return folder / "x.zarr", {"y": y}


def _npy(folder: Path) -> Made:
    X, y = _numbers()
    np.save(folder / "x.npy", X)
    return folder / "x.npy", {"y": y}


def _npz(folder: Path) -> Made:
    sp.save_npz(folder / "x.npz", _entries())
    return folder / "x.npz", {"y": _numbers()[1]}


def _libsvm(k: int) -> str:
    return f"{1 if k % 3 else -1} {k % 7 + 1}:{k % 11 + 0.5} {k % 13 + 8}:1\n"


def _vw(k: int) -> str:
    return f"{1 if k % 3 else -1} '{k} |words w{k % 17}:{k % 5 + 1} w{k % 29 + 20} |other o{k % 11} p:0.5\n"


def _clicks(k: int) -> str:
    numbers = "\t".join(str(k % (j + 2)) if k % 5 else "" for j in range(13))
    return f"{k % 4 == 0:d}\t{numbers}\t" + "\t".join(f"{k % (j + 3):x}" for j in range(26)) + "\n"


def _fasta(folder: Path) -> Made:
    rng = np.random.default_rng(5)
    reads = ["".join(rng.choice(list("ACGT"), 40)) for _ in range(200)]
    path = folder / "s.fa"
    path.write_text("".join(f">s{k}\n{read}\n" for k, read in enumerate(reads)))
    labels = folder / "labels.csv"
    pd.DataFrame({"id": [f"s{k}" for k in range(200)], "y": rng.normal(size=200)}).to_csv(labels, index=False)
    return path, {"label_table": labels, "label_from": "table", "target": "y", "k": 3}


SOURCES: dict[str, Callable[[Path], Made]] = {
    "csv": lambda folder: (_csv(folder), _TABLE),
    "csv_in_order": lambda folder: (_csv(folder), {**_TABLE, "shuffle": False, "dtype": "float64"}),
    "csv_small_memory": lambda folder: (_csv(folder), {**_TABLE, "memory_limit": "64KiB"}),
    "csv_classes": lambda folder: (
        _csv(folder),
        {"schema": {"columns": _COLUMNS | {"y": {}, "d": {"dtype": "string", "role": "target"}}}},
    ),
    "csv_sparse": lambda folder: (
        _csv(folder),
        {"schema": {"columns": _SPARSE}, "one_hot": "sparse", "interactions": [["c", "d"]]},
    ),
    "parquet": lambda folder: (_parquet(folder), _TABLE),
    "parquet_sparse": lambda folder: (_parquet(folder), {"schema": {"columns": _SPARSE}, "one_hot": "sparse"}),
    "feather": lambda folder: (_feather(folder), _TABLE),
    "pandas": lambda folder: (frame(), _TABLE),
    "dask_frame": lambda folder: (dd.from_pandas(frame(), npartitions=5), _TABLE),
    "arrow": lambda folder: (pa.Table.from_pandas(frame(), preserve_index=False), _TABLE),
    "array": lambda folder: (_numbers()[0], {"y": _numbers()[1]}),
    "dask_array": lambda folder: (da.from_array(_numbers()[0], chunks=(500, 5)), {"y": _numbers()[1]}),
    "npy": _npy,
    "zarr": _zarr,
    "npz": _npz,
    "matrix": lambda folder: (_entries(), {"y": _numbers()[1]}),
    "sklearn": lambda folder: ("sklearn:diabetes", {}),
    "plink": lambda folder: (write_plink(folder / "g.bed", _dosages()), _phenotypes(folder)),
    "vcf_zarr": lambda folder: (write_vcf_zarr(folder / "g.vcz", _dosages()), _phenotypes(folder)),
    "libsvm": lambda folder: (_text(folder / "t.svm", _libsvm), {}),
    "vw": lambda folder: (_text(folder / "t.vw", _vw), {}),
    "vw_bag": lambda folder: (db.from_sequence(map(_vw, range(N_ROWS)), npartitions=4), {"kind": "vw"}),
    "clicks": lambda folder: (
        _text(folder / "t.clicks", _clicks),
        {"kind": "clicks", "target": "click", "columns": _CLICKS, "counts": _CLICKS[1:14]},
    ),
    "text": lambda folder: (
        _text(folder / "t.jsonl", lambda k: f'{{"text": "word{k % 19} and w{k % 7} é", "y": {k % 2}}}\n'),
        {"target": "y", "text": "text"},
    ),
    "fasta": _fasta,
}
"""Name -> a function of a folder, which returns the source and the options of `daskfs.ingest`."""


def contents(store: Path) -> dict[str, bytes]:
    """Return the files of a store."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def settle(folder: Path) -> None:
    """Give all files the same time, so that stores of the same files are the same whenever they were written."""
    for path in sorted(folder.rglob("*")):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def digest_of(store: Path) -> str:
    """Return a digest of the files of a store."""
    found = hashlib.sha256()
    for name, content in contents(store).items():
        found.update(f"{name} {len(content)} ".encode() + content)
    return found.hexdigest()[:16]
