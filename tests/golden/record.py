"""Record the golden results anew: ``python -m tests.golden.record [METHOD ...]``.

Only where a result is meant to change; the commit says which and why. Two fits of each must give the same bits before
one is kept.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.golden.cases import CASES, Data, fitted
from tests.golden.records import FOLDER, REASONS, write_records
from tests.tolerances import answer_of


def record(methods: list[str]) -> None:
    """Write the files of some methods."""
    data = Data()
    reasons = json.loads(REASONS.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        for method in methods:
            records = {}
            for case in (case for case in CASES if case.method == method):
                for given in case.inputs:
                    found, again = (answer_of(fitted(case, given, data, Path(folder))) for _ in range(2))
                    for name, value in found.items():
                        np.testing.assert_array_equal(again[name], value, f"{case.name}, {given}: {name}")
                    reasons[case.name] = found.pop("stopped")
                    del found["classes"]  # the target's, not the fit's
                    records[f"{case.name}/{given}"] = found
            write_records(method, records)
            print(f"{method}: {len(records)} results, {(FOLDER / f'{method}.npz').stat().st_size:,} bytes")
    reasons = {name: reason for name, reason in reasons.items() if reason is not None}
    REASONS.write_text(json.dumps(reasons, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    record(sys.argv[1:] or sorted({case.method for case in CASES}))
