"""Golden results on disk: one compressed file for each method, numbers bit for bit, and where they were recorded."""

from __future__ import annotations

import json
import platform
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np
import scipy.linalg  # noqa: F401  # its BLAS is another
from llvmlite import binding
from threadpoolctl import threadpool_info

FOLDER = Path(__file__).parent / "results"
Record = dict[str, np.ndarray]


@cache
def machine_code() -> str:
    """Return a digest of what decides the last bit: the processor that numba compiles for, and who compiles."""
    features = sorted(name for name, is_there in binding.get_host_cpu_features().items() if is_there)
    versions = [f"{name} {version(name)}" for name in ("numba", "llvmlite", "numpy", "scipy", "scikit-learn")]
    processor = numba.config.CPU_NAME or binding.get_host_cpu_name()
    parts = [platform.machine(), processor, *features, *versions]
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def blas() -> list[str]:
    """Return the libraries of linear algebra, and the processor each computes for, which decide the last bit too."""
    libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
    return sorted(f"{one['internal_api']} {one['version']} {one.get('architecture')}" for one in libraries)


def write_records(method: str, records: dict[str, Record]) -> None:
    """Write the records of a method by ``case/input``.

    All numbers lie in two arrays, one behind the other, for an entry of a zip file takes more than a result does; equal
    records are kept once.
    """
    numbers: list[float] = []
    whole: list[int] = []
    layout: dict[str, list[tuple[str, str, list[int], int]] | str] = {}
    known: dict[str, str] = {}
    for key, record in records.items():
        digest = sha256(b"".join(repr((n, a.dtype, a.shape)).encode() + a.tobytes() for n, a in record.items()))
        first = known.setdefault(digest.hexdigest(), key)
        if first != key:
            layout[key] = first
            continue
        layout[key] = fields = []
        for name, array in record.items():
            kept: list[float] | list[int] = numbers if array.dtype.kind == "f" else whole
            fields.append((name, array.dtype.str, list(array.shape), len(kept)))
            kept.extend(array.ravel().tolist())
    FOLDER.mkdir(exist_ok=True)
    about = json.dumps({"machine_code": machine_code(), "blas": blas(), "layout": layout})
    np.savez_compressed(
        FOLDER / f"{method}.npz",
        about=np.frombuffer(about.encode(), np.uint8),
        numbers=np.array(numbers, np.float64),
        whole=np.array(whole, np.int64),
    )


@cache
def read_records(method: str) -> tuple[str, dict[str, Record]]:
    """Return where the records of a method were made (`machine_code`), and the records by ``case/input``."""
    with np.load(FOLDER / f"{method}.npz") as file:
        about = json.loads(bytes(file["about"]))
        kept = {"f": file["numbers"], "i": file["whole"], "b": file["whole"], "u": file["whole"]}
    records: dict[str, Record] = {}
    for key, fields in about["layout"].items():
        if isinstance(fields, str):
            records[key] = records[fields]
            continue
        records[key] = record = {}
        for name, dtype, shape, start in fields:
            values = kept[np.dtype(dtype).kind][start : start + int(np.prod(shape))]
            record[name] = values.astype(dtype).reshape(shape)
    is_same = about.get("blas", blas()) == blas()  # the first records did not say it
    return about["machine_code"] if is_same else "another BLAS", records
