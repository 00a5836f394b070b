"""Record the golden results anew: ``python -m tests.golden.record [METHOD ...]``.

Only where a result is meant to change; the commit says which and why. Two fits of each must agree before one is kept.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.golden.cases import CASES, Data, fitted, results_of
from tests.golden.records import FOLDER, write_records


def record(methods: list[str]) -> None:
    """Write the files of some methods."""
    data = Data()
    with tempfile.TemporaryDirectory() as folder:
        for method in methods:
            records = {}
            for case in (case for case in CASES if case.method == method):
                for given in case.inputs:
                    found, again = (results_of(fitted(case, given, data, Path(folder))) for _ in range(2))
                    for name, value in found.items():
                        np.testing.assert_array_equal(again[name], value, f"{case.name}, {given}: {name}")
                    records[f"{case.name}/{given}"] = found
            write_records(method, records)
            print(f"{method}: {len(records)} results, {(FOLDER / f'{method}.npz').stat().st_size:,} bytes")


if __name__ == "__main__":
    record(sys.argv[1:] or sorted({case.method for case in CASES}))
