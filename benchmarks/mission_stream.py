"""From text into the sketch without a store: how fast `Mission.fit_source` learns, with and without names.

    python benchmarks/mission_stream.py [--rows 40000] [--rounds 3]

Vowpal Wabbit's text, rows of some 40 words with a long tail; 1,000 features are asked for. CPU seconds of the best
round, in turn, after one of each that compiles; reading alone beside them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from daskfs.selectors.mission.selector import Mission
from daskfs.sources.sparse.vw import VwSource


def write_rows(path: Path, n_rows: int) -> None:
    """Write rows of words whose frequencies fall as one over their rank, with labels that nothing explains."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for y in rng.choice([-1, 1], n_rows).tolist():
            words = np.unique((rng.pareto(1.0, 60) * 50.0).astype(int)).tolist()
            file.write(f"{y} |text " + " ".join(f"w{j}" for j in words) + "\n")


def count(source: VwSource) -> int:
    """Read all rows; return how many entries they have."""
    return sum(len(block.features) for block in source.sparse_blocks(4096, 1 << 20))


def cpu_seconds(function: Callable[[], object]) -> float:
    """Return what a call takes."""
    started = time.process_time()
    function()
    return time.process_time() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.vw"
        write_rows(path, given.rows)
        best: dict[str, float] = {}
        for number in range(given.rounds + 1):
            for is_named in (True, False):
                source = VwSource(path, tell_names=is_named)
                for what, work in (("learnt", lambda s: Mission(1000).fit_source(s)), ("read alone", count)):
                    seconds = cpu_seconds(lambda work=work, source=source: work(source))  # type: ignore[misc]
                    key = f"{what}, {'with' if is_named else 'without'} names"
                    if number:
                        best[key] = min(best.get(key, np.inf), seconds)
        nnz = count(VwSource(path))
    for key, seconds in best.items():
        print(f"{key:<28} {nnz / seconds / 1e6:6.1f} million entries per CPU-second")


if __name__ == "__main__":
    main()
