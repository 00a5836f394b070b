"""CPU time of every method in two checkouts, by turns: is anything slower than it was?

    git worktree add ../before COMMIT
    OPENBLAS_NUM_THREADS=1 python benchmarks/before_and_after.py --before ../before [--rounds 15] [--jobs fgm mission]

Two processes, one for each checkout, make the same data and take turns with every job; the first run of each, which
compiles, does not count. Short jobs are repeated until they take a fifth of a second. Shown are the medians, the ratio
before ÷ after of the means of the faster half (above 1: faster than before), and whether both selected the same columns
with the same coefficients. Only the public interface is used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LEAST_SECONDS = 0.2
HERE = Path(__file__).resolve().parents[1]


def planted(
    n_samples: int, n_features: int, loss: str = "squared", dtype: str = "float32", density: float = 1.0
) -> Any:
    """Return X and y, of which the first ten columns tell."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    z = X[:, :10] @ np.linspace(1.0, 0.3, 10)
    if loss == "squared":
        y = z + rng.standard_normal(n_samples)
    elif loss == "multinomial":
        y = np.digitize(z + rng.logistic(size=n_samples), [-1.0, 1.0])
    else:
        y = (z + rng.logistic(size=n_samples) > 0).astype(int)
    return X, y


def entries(n_samples: int, n_features: int, n_per_row: int) -> Any:
    """Return a CSR matrix of words and labels."""
    import scipy.sparse

    rng = np.random.default_rng(0)
    indices = (n_features * rng.random((n_samples, n_per_row)) ** 3).astype(np.int32)
    indptr = np.arange(0, indices.size + 1, n_per_row)
    X = scipy.sparse.csr_matrix((np.ones(indices.size, np.float32), indices.ravel(), indptr), (n_samples, n_features))
    X.sum_duplicates()
    y = np.asarray(X[:, :50].sum(axis=1)).ravel() + rng.standard_normal(n_samples) > X[:, :50].sum() / n_samples
    return X, y.astype(int)


def make_jobs(folder: Path) -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Return for each job what makes its data, and what is timed."""
    import daskfs
    from daskfs import baselines

    def in_memory(make: Callable[..., Any], *args: Any, **options: Any) -> Callable[[], Any]:
        return lambda: make(*args, **options)

    def stored(*args: Any, **options: Any) -> Callable[[], Any]:
        def make() -> Any:
            X, y = planted(*args, **options)
            path = folder / f"{hashlib.sha256(repr((args, options)).encode()).hexdigest()[:8]}.zarr"
            return (daskfs.open_store(path) if path.exists() else daskfs.ingest(X, path, y=y),)

        return make

    def fit(selector: Any) -> Callable[[Any], Any]:
        return lambda data: selector.fit(*data)

    def csv() -> Any:
        X, y = planted(40_000, 40)
        path = folder / "table.csv"
        np.savetxt(
            path, np.column_stack([X, y]), delimiter=",", header=",".join(map("c{}".format, range(41))), comments=""
        )
        return path

    def ingest(path: Any) -> None:
        with tempfile.TemporaryDirectory() as target:
            daskfs.ingest(path, Path(target) / "t.zarr", target="c40")

    wide, tall = in_memory(planted, 2000, 20_000), in_memory(planted, 20_000, 500)
    classes = in_memory(planted, 8000, 1000, "logistic")
    words = in_memory(entries, 20_000, 2**18, 80)
    return {
        "message": (tall, fit(daskfs.Message(n_subsets=10))),
        "message, small blocks": (in_memory(planted, 40_000, 100), fit(daskfs.Message(n_subsets=100))),
        "message, logistic": (classes, fit(daskfs.Message(n_subsets=4, loss="logistic"))),
        "message, multinomial": (
            in_memory(planted, 4000, 100, "multinomial"), fit(daskfs.Message(n_subsets=3, loss="multinomial"))
        ),
        "message, store": (stored(20_000, 500), fit(daskfs.Message(n_subsets=10))),
        "message, sparse": (in_memory(entries, 8000, 4000, 40), fit(daskfs.Message(n_subsets=3, loss="logistic"))),
        "online substitution": (wide, fit(daskfs.OnlineSubstitution(20))),
        "online substitution, logistic": (
            in_memory(planted, 1000, 4000, "logistic"), fit(daskfs.OnlineSubstitution(10, loss="logistic"))
        ),
        "online substitution, store": (stored(4000, 4000), fit(daskfs.OnlineSubstitution(20))),
        "asynchronous, simulated": (
            in_memory(planted, 1000, 4000), fit(daskfs.AsyncOnlineSubstitution(20, schedule="simulated"))
        ),
        "fgm": (in_memory(planted, 8192, 4096, "logistic"), fit(daskfs.FGM(20, n_features_per_pass=2))),
        "fgm, store": (stored(8192, 2048, loss="logistic"), fit(daskfs.FGM(20, n_features_per_pass=2))),
        "fgm, sparse": (words, fit(daskfs.FGM(40, n_features_per_pass=10))),
        "mission": (words, fit(daskfs.Mission(500, "logistic", n_epochs=2, refit=None))),
        "mission, dense": (in_memory(planted, 10_000, 500), fit(daskfs.Mission(20))),
        "mission, paper": (words, fit(daskfs.Mission(500, "logistic", variant="paper", n_epochs=1, refit=None))),
        "full data": (in_memory(planted, 8000, 500), fit(baselines.FullData())),
        "bolasso": (in_memory(planted, 4000, 300), fit(baselines.Bolasso())),
        "OMP": (in_memory(planted, 4000, 4000), fit(baselines.OrthogonalMatchingPursuit(20))),
        "grafting": (in_memory(planted, 1000, 3000), fit(baselines.Grafting())),
        "l1 liblinear": (in_memory(planted, 3000, 500, "logistic"), fit(baselines.L1Liblinear(20))),
        "IHT": (in_memory(planted, 4000, 1000), fit(baselines.IHT(20))),
        "stochastic IHT": (in_memory(entries, 5000, 2**16, 80), fit(baselines.StochasticIHT(100, "logistic"))),
        "read a store": (stored(20_000, 2000), lambda data: [block.stop for block in data[0].row_blocks()]),
        "ingest a table": (csv, ingest),
    }  # fmt: skip


def serve(folder: str) -> None:
    """Run the jobs named on standard input, one line each; answer with seconds and what was found."""
    jobs, data = make_jobs(Path(folder)), {}
    for line in sys.stdin:
        name = json.loads(line)
        make, run = jobs[name]
        if name not in data:
            data.clear()  # one job's data at a time
            data[name] = make()
        start, n_runs = time.process_time(), 0
        while n_runs == 0 or time.process_time() - start < LEAST_SECONDS:
            found = run(data[name])
            n_runs += 1
        seconds = (time.process_time() - start) / n_runs
        answer = {"seconds": seconds, "found": ""}
        if hasattr(found, "coef_"):
            bits = np.asarray(found.selected_).astype(np.int64).tobytes() + np.ascontiguousarray(found.coef_).tobytes()
            answer["found"] = hashlib.sha256(bits).hexdigest()[:8]
        sys.stdout.write(f"\nanswer {json.dumps(answer)}\n")
        sys.stdout.flush()


class Checkout:
    """The process of one checkout."""

    def __init__(self, path: Path, folder: Path) -> None:
        folder.mkdir()
        environment = os.environ | {"PYTHONPATH": str(path), "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--serve", str(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
        )

    def run(self, job: str) -> dict[str, Any]:
        """Return the seconds of one run of a job."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("answer "):
                answer: dict[str, Any] = json.loads(line.removeprefix("answer "))
                return answer
        raise RuntimeError(f"the process of {self.process.args!r} ended in {job!r}")

    def end(self) -> None:
        """Let it go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def faster_half(seconds: list[float]) -> float:
    """Return the mean of the faster half: what other work on the machine adds stands in the slower one."""
    return float(np.mean(sorted(seconds)[: (len(seconds) + 1) // 2]))


def compare(before: Path, after: Path, jobs: list[str], rounds: int) -> list[dict[str, Any]]:
    """Return a row for each job."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        sides = [Checkout(before, Path(folder) / "before"), Checkout(after, Path(folder) / "after")]
        print(f"{'job':32}{'before s':>10}{'after s':>10}{'ratio':>8}  same", flush=True)
        for job in jobs:
            seconds: tuple[list[float], list[float]] = ([], [])
            found = [side.run(job)["found"] for side in sides]
            for k in range(rounds):
                for which in (0, 1) if k % 2 else (1, 0):
                    seconds[which].append(sides[which].run(job)["seconds"])
            medians = [float(np.median(times)) for times in seconds]
            ratio = faster_half(seconds[0]) / faster_half(seconds[1])
            is_same = found[0] == found[1]
            rows.append({"job": job, "before_s": medians[0], "after_s": medians[1], "ratio": ratio, "same": is_same})
            print(f"{job:32}{medians[0]:10.3f}{medians[1]:10.3f}{ratio:8.2f}  {'yes' if is_same else 'NO'}", flush=True)
        for side in sides:
            side.end()
    return rows


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="checkout of the earlier commit")
    parser.add_argument("--after", type=Path, default=HERE, help="by default this one")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", nargs="*", default=[], help="words that a job's name begins with; all by default")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    names = list(make_jobs(Path()))
    chosen = [name for name in names if not options.jobs or name.startswith(tuple(options.jobs))]
    rows = compare(options.before.resolve(), options.after.resolve(), chosen, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
