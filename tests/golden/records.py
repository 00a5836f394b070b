"""Golden results on disk: one compressed file of numbers for each method, and the stopping reason of each case."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "results"
REASONS = FOLDER / "stopping_reasons.json"
"""By case, whatever the input; of the methods that give one."""
Record = dict[str, np.ndarray]


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
    about = json.dumps({"layout": layout})
    np.savez_compressed(
        FOLDER / f"{method}.npz",
        about=np.frombuffer(about.encode(), np.uint8),
        numbers=np.array(numbers, np.float64),
        whole=np.array(whole, np.int64),
    )


@cache
def read_records(method: str) -> dict[str, Record]:
    """Return the records of a method by ``case/input``."""
    with np.load(FOLDER / f"{method}.npz") as file:
        layout = json.loads(bytes(file["about"]))["layout"]
        kept = {"f": file["numbers"], "i": file["whole"], "b": file["whole"], "u": file["whole"]}
    records: dict[str, Record] = {}
    for key, fields in layout.items():
        if isinstance(fields, str):
            records[key] = records[fields]
            continue
        records[key] = record = {}
        for name, dtype, shape, start in fields:
            values = kept[np.dtype(dtype).kind][start : start + int(np.prod(shape))]
            record[name] = values.astype(dtype).reshape(shape)
    return records
