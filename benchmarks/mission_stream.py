"""From text into the sketch without a store: how fast `Mission.fit_source` learns, in what memory, and Vowpal Wabbit.

    python benchmarks/mission_stream.py [--nnz 2e7] [--rounds 3] [--caches] [--folder FOLDER]

Lines of a hundred words in Vowpal Wabbit's text, out of four million by Zipf's law, two letters to six, with labels by
500 of them; 1,000 features are asked for. Each way runs in a process of its own, in turn, after a small file on which
it loads and compiles: millions of non-zeros per second of wall and of CPU time, of the whole process's peak memory, and
the mean loss of rows before they were learnt from. Vowpal Wabbit learns from the same lines with its default (adaptive)
steps and with plain ones (--sgd), 2^18 weights, without names; with `--caches` from its binary cache, too, which a run
before has written. ``--nnz 1e9 --rounds 1`` is the whole file, 5.8 GB, which is deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa

from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.selectors.mission.selector import Mission
from daskfs.sources.sparse.base import SparseSource
from daskfs.sources.sparse.vw import VwSource

N_WORDS, ROW_NNZ, ROWS_AT_ONCE, WARM_NNZ = 4_000_000, 100, 20_000, 200_000
HEAD = 1000.0
"""Words of about the same frequency; later ones are rarer, as one over their rank."""
SCREEN = {"n_features_to_select": 1000, "loss": "logistic"}
VW = """
import json, sys, time
from vowpalwabbit import Workspace
from daskfs.cluster.memory import peak_memory_nbytes
wall, cpu = time.perf_counter(), time.process_time()
model = Workspace(sys.argv[1])
loss = model.get_sum_loss() / model.get_weighted_examples()
model.finish()
found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "loss": loss}
print(json.dumps(found | {"peak": peak_memory_nbytes()}))
"""


def vocabulary() -> pa.Array:
    """Return words with a blank before each, and two beginnings of lines."""
    rng = np.random.default_rng(1)
    rank = np.empty(N_WORDS, int)
    rank[np.argsort(rng.random(N_WORDS) * np.log(2 + np.arange(N_WORDS)) ** 2)] = np.arange(N_WORDS)
    words = []
    for number in (rank + 27).tolist():
        word = b""
        while number:
            number, letter = divmod(number - 1, 26)
            word = bytes([97 + letter]) + word
        words.append(b" " + word)
    return pa.array([*words, b"\n-1 |t", b"\n1 |t"], pa.large_binary())


def write_rows(path: Path, nnz: int, words: pa.Array) -> None:
    """Write lines with so many words."""
    rng, planted = np.random.default_rng(0), np.random.default_rng(5)
    weights = np.zeros(N_WORDS, np.float32)
    weights[planted.choice(20_000, 500, replace=False)] = planted.choice([-2.0, 2.0], 500)
    n_rows = nnz // ROW_NNZ
    with path.open("wb") as file:
        for first in range(0, n_rows, ROWS_AT_ONCE):
            u = rng.random((min(ROWS_AT_ONCE, n_rows - first), ROW_NNZ), dtype=np.float32)
            ids = (HEAD * np.exp(u * np.float32(np.log1p(N_WORDS / HEAD))) - HEAD).astype(np.int64).clip(0, N_WORDS - 1)
            y = rng.random(len(ids)) < 1.0 / (1.0 + np.exp(-weights[ids].sum(axis=1)))
            taken = words.take(pa.array(np.column_stack([N_WORDS + y, ids]).ravel()))
            _, offsets, text = taken.buffers()
            n_text = np.frombuffer(offsets, np.int64)[len(taken)]
            file.write(memoryview(text)[first == 0 : n_text])
        file.write(b"\n")


def count(source: SparseSource) -> float:
    """Read all rows as learning does; return nothing to tell of."""
    for _ in source.as_it_stands().sparse_blocks(4096, 1 << 20):
        pass
    return np.nan


def learn(source: SparseSource, *, is_shown: bool) -> float:
    """Learn from all rows; return the mean loss of rows before they were learnt from."""
    show = (lambda line: print(line, file=sys.stderr, flush=True)) if is_shown else None
    history = Mission(**SCREEN).fit_source(source, tell=show).result_.history
    return float(history["progressive_loss"].iloc[-1])


def run_here(way: str, path: Path, warm: Path) -> dict[str, float]:
    """Read or learn from a file, in this process."""
    found = {}
    for each in (warm, path):
        source = VwSource(each, tell_names="names" in way)
        wall, cpu = time.perf_counter(), time.process_time()
        loss = learn(source, is_shown=each == path) if "learnt" in way else count(source)
        found = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "loss": loss}
    return found | {"peak": peak_memory_nbytes()}


def run_apart(way: str, path: Path, warm: Path) -> dict[str, float]:
    """Run a way in a process of its own."""
    command = [sys.executable, __file__, "--way", way, "--folder", str(path.parent)]
    if "Wabbit" in way:
        cache = f"--cache_file {path}.cache" if "cache" in way else ""
        steps = "--sgd" if "--sgd" in way else ""
        arguments = f"-d {path} --loss_function logistic -b 18 --quiet {cache} {steps}"
        command = [sys.executable, "-c", VW, arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nnz", type=float, default=2e7)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--caches", action="store_true", help="Vowpal Wabbit from its cache, too")
    parser.add_argument("--folder", type=Path, help="where the file is made; by default a temporary one")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(run_here(given.way, given.folder / "rows.vw", given.folder / "warm.vw")))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path, warm = Path(folder) / "rows.vw", Path(folder) / "warm.vw"
        words = vocabulary()
        write_rows(path, int(given.nnz), words)
        write_rows(warm, WARM_NNZ, words)
        print(f"{given.nnz:,.0f} non-zeros, {path.stat().st_size / 1e9:.2f} GB")
        ways = ["learnt, names", "learnt", "read alone, names", "read alone"]
        if find_spec("vowpalwabbit"):
            ways += [f"Vowpal Wabbit{how}" for how in ("", " --sgd")]
            ways += [f"Vowpal Wabbit{how}, cache" for how in ("", " --sgd")] if given.caches else []
        best: dict[str, dict[str, float]] = {}
        for number in range(given.rounds + (given.caches > 0)):
            for way in ways:
                found = run_apart(way, path, warm)
                if number or not given.caches:  # the first run writes the cache
                    before = best.get(way, found)
                    best[way] = found | {what: min(found[what], before[what]) for what in ("wall", "cpu")}
    print(f"{'':<28} {'M/s wall':>9} {'M/s CPU':>9} {'MiB':>6} {'loss':>7}")
    for way, one in best.items():
        rates = [given.nnz / one[what] / 1e6 for what in ("wall", "cpu")]
        print(f"{way:<28} {rates[0]:>9.1f} {rates[1]:>9.1f} {one['peak'] / 2**20:>6.0f} {one['loss']:>7.4f}")


if __name__ == "__main__":
    main()
