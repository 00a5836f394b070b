"""Species of DNA fragments by their 12-mers: MISSION, hard thresholding and feature hashing, as in figures 4 to 6.

    python benchmarks/mission_dna.py [--coverage 1] [--epochs 1] [--k 340000 ...] [--bits 19 ...] [--iht 1000 ...]
                                     [--small]

Aghazadeh et al. 2018, section 6: fragments of 200 letters are drawn from 15 genomes (dna_species_open, found through
`DASKFS_DATA`) until each letter is covered so often, and a quarter as many for testing; `--epochs` repeats that with
new fragments. First accuracy by the number of k-mers of each class, with 2^BITS cells in each of three rows for each
class (the last of `--bits`), and feature hashing with twice as many; then by the cells, with the last of `--k`. Hard
thresholding after every row (`--iht`) has a heap of that many for each class: thousands take minutes. Each fit has a
process of its own: millions of k-mers learnt from per second of CPU time, reading and drawing included, without what is
compiled; the peak of the process, and what the plan holds for a model. ``--small`` draws from five made-up genomes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from daskfs.cluster.memory import peak_memory_nbytes
from daskfs.methods import find_method
from daskfs.pipeline.config import Split
from daskfs.pipeline.stream_run import Holdout
from daskfs.sources.sparse.fragments import FragmentsSource

LENGTH, TEST_SHARE = 200, 0.2
"""Letters of a fragment; fragments for testing."""


def measured(task: dict) -> dict:
    """Return what one fit reaches; the first half-thousandth of the fragments compiles."""
    drawn = {"path": task["genomes"], "target": "species", "length": LENGTH, "k": 12, "random_state": 0}
    settings = {"loss": "multinomial", "random_state": 0, **task["settings"]}
    few = FragmentsSource(**drawn, coverage=task["coverage"] / 2000)
    find_method(task["method"])(**settings).fit_source(few, classes=np.arange(len(few.target_classes)))
    source = FragmentsSource(**drawn, coverage=task["coverage"] / (1 - TEST_SHARE), n_epochs=task["epochs"])
    source.check()
    holdout = Holdout(Split(test=TEST_SHARE, by="random", random_state=0))
    selector, started = find_method(task["method"])(**settings), time.process_time()
    selector.fit_source(source, keep=holdout.is_kept)
    seconds = time.process_time() - started
    y, _, predictor = selector.predictors_of(source, keep=holdout.is_test)
    n_kmers = sum(
        len(block.features) for block in FragmentsSource(**drawn, coverage=task["coverage"]).sparse_blocks(4096, 2**20)
    )
    return {
        "accuracy": float(np.mean(selector.response(predictor) == y)),
        "rate": n_kmers * task["epochs"] / seconds / 1e6,
        "peak": peak_memory_nbytes(),
        "held": selector.result_.memory["held_nbytes"]["model"],
        "selected": len(selector.selected_),
    }


def in_a_process(task: dict) -> dict:
    """Return what `measured` finds, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--task", json.dumps(task)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def write_genomes(folder: Path, n_genomes: int, n_letters: int) -> None:
    """Write genomes whose letters follow one another with frequencies of their own."""
    rng = np.random.default_rng(0)
    for number in range(n_genomes):
        following = rng.dirichlet(np.full(4, 2.0), size=256).cumsum(axis=1)
        state, letters = 0, []
        for draw in rng.random(n_letters):
            letter = min(int(np.searchsorted(following[state], draw)), 3)
            letters.append("ACGT"[letter])
            state = (4 * state + letter) % 256
        (folder / f"species_{number}.fna").write_text(f">{number}\n{''.join(letters)}\n")


def show(what: str, found: dict) -> None:
    """Print a row of a table."""
    memory = f"{found['peak'] / 2**20:,.0f} | {found['held'] / 2**20:,.0f}"
    print(f"| {what} | {found['accuracy']:.3f} | {found['selected']:,} | {found['rate']:.1f} | {memory} |", flush=True)


HEAD = "| {} | accuracy | k-mers in all | million k-mers / s | peak, MiB | model, MiB |\n|---|---|---|---|---|---|"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coverage", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--k", type=int, nargs="+", default=[10_000, 100_000, 340_000])
    parser.add_argument("--bits", type=int, nargs="+", default=[17, 19])
    parser.add_argument("--iht", type=int, nargs="*", default=[1000])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.task:
        print(json.dumps(measured(json.loads(asked.task))))
        return
    with tempfile.TemporaryDirectory() as folder:
        genomes, k, bits, iht = (
            Path(os.environ.get("DASKFS_DATA", ".")) / "dna_species_open",
            asked.k,
            asked.bits,
            asked.iht,
        )
        if asked.small:
            genomes, k, bits, iht = Path(folder), [50, 2000], [10, 14], [50]
            write_genomes(genomes, 5, 20_000)
        shared = {"genomes": str(genomes), "coverage": asked.coverage, "epochs": asked.epochs}

        def mission(n_selected: int, n_bits: int) -> dict:
            settings = {"n_features_to_select": n_selected, "n_buckets": 1 << n_bits, "per_class": True}
            return in_a_process({**shared, "method": "mission", "settings": {**settings, "block_rows": 16384}})

        print(f"Coverage {asked.coverage:g}, {asked.epochs} epoch(s). By the number of k-mers (figures 4 and 6):\n")
        print(HEAD.format("k of each class"))
        hashing = {"method": "feature_hashing", "settings": {"n_buckets": 2 << bits[-1]}}
        show(f"feature hashing, 2^{bits[-1] + 1} cells", in_a_process({**shared, **hashing}))
        for n_selected in iht:
            settings = {"n_features_to_select": n_selected}
            show(f"IHT, {n_selected:,}", in_a_process({**shared, "method": "iht_sgd", "settings": settings}))
        for n_selected in k:
            show(f"MISSION, {n_selected:,}", mission(n_selected, bits[-1]))
        print(f"\nBy the size of the sketch, {k[-1]:,} k-mers of each class (figure 5):\n")
        print(HEAD.format("cells in a row"))
        for n_bits in bits:
            show(f"3 x 2^{n_bits}", mission(k[-1], n_bits))


if __name__ == "__main__":
    main()
