"""Online substitution on genotypes too wide for memory: peak memory, columns per second, the paper's size predicted.

The paper's example is n = 500,000 samples, p = 2,000,000 features and s = 100 within 1 GB on one machine. This makes a
store of int8 dosages (mosaics of founder chromosomes, so that neighbours are in linkage disequilibrium), selects in a
process of its own, and predicts p = 2,000,000 by the measured rate. The store is deleted at the end.

    python benchmarks/online_substitution_wide.py --n-features 200000 --folder /scratch
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numba
import numpy as np

from daskfs.matrix.blocks import RowBlock
from daskfs.selectors.online_substitution.selector import OnlineSubstitution
from daskfs.store.feature_store import open_store
from daskfs.store.writer import StoreWriter

N_FOUNDERS, SEGMENT, N_CAUSAL = 64, 300, 100
BAND = 1024


@numba.njit
def mosaic(founders, starts, choices, out):
    """Write the sum of two chromosomes, each pieced together from founders, into every row."""
    for i in range(out.shape[0]):
        for piece in range(starts.shape[0] - 1):
            start, stop = starts[piece], starts[piece + 1]
            first = founders[choices[i, 0, piece], start:stop]
            second = founders[choices[i, 1, piece], start:stop]
            row = out[i, start:stop]
            for j in range(stop - start):
                row[j] = first[j] + second[j]


def founder_chromosomes(rng: np.random.Generator, n_features: int) -> np.ndarray:
    """Neighbouring sites of a founder are drawn from a slowly turning phase: disequilibrium among founders too."""
    frequency = rng.beta(0.8, 2.0, n_features).clip(0.02, 0.98)
    turn = np.cumsum(rng.normal(0.0, 0.05, (N_FOUNDERS, n_features)), axis=1) + rng.random((N_FOUNDERS, 1))
    return (np.mod(turn, 1.0) < frequency).astype(np.int8)


def make_store(path: Path, n_samples: int, n_features: int, seed: int) -> None:
    """Write the store, band by band."""
    rng = np.random.default_rng(seed)
    founders = founder_chromosomes(rng, n_features)
    starts = np.unique(np.r_[np.arange(0, n_features, SEGMENT), n_features])
    causal = np.sort(rng.choice(n_features, N_CAUSAL, replace=False))
    effect = rng.standard_normal(N_CAUSAL) / np.maximum(founders[:, causal].std(axis=0), 0.1)
    source = {"digest": f"mosaic-{seed}", "support": causal.tolist()}
    options = {"shuffle": False, "n_samples": n_samples, "tile_shape": (BAND, 512), "codec": "lz4"}
    with StoreWriter(path, n_features, "int8", target_names=["trait"], source=source, **options) as writer:
        for start in range(0, n_samples, BAND):
            stop = min(start + BAND, n_samples)
            X = np.empty((stop - start, n_features), np.int8)
            mosaic(founders, starts, rng.integers(0, N_FOUNDERS, (len(X), 2, len(starts) - 1)), X)
            trait = X[:, causal] @ effect
            y = trait + rng.standard_normal(len(X)) * np.sqrt((effect**2).sum() * 0.25)
            writer.write(RowBlock(start, stop, X, y))


def select(path: Path, s: int, n_epochs: int, memory_limit: str) -> dict[str, float]:
    """Select, in this process, and say what it took."""
    from daskfs.cluster.memory import peak_memory_nbytes

    store = open_store(path)
    started, cpu = time.perf_counter(), time.process_time()
    selector = OnlineSubstitution(s, n_epochs=n_epochs, memory_limit=memory_limit).fit(store)
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    presented = int(selector.result_.history["n_presented"].iloc[-1])
    found = np.intersect1d(selector.selected_, store.source["support"])
    near = sum(np.abs(np.asarray(store.source["support"]) - j).min() <= SEGMENT // 10 for j in selector.selected_)
    return {
        "elapsed_s": elapsed,
        "cpu_s": cpu,
        "n_presented": presented,
        "n_epochs": selector.n_epochs_,
        "promised_nbytes": selector.result_.memory["promised_nbytes"]["client"],
        "peak_nbytes": peak_memory_nbytes(),
        "r2": selector.score(store.take(np.arange(0, store.shape[0], 50))),
        "n_causal_found": len(found),
        "n_near_causal": int(near),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n-samples", type=int, default=500_000)
    parser.add_argument("--n-features", type=int, default=200_000)
    parser.add_argument("--n-selected", type=int, default=100)
    parser.add_argument("--n-epochs", type=int, default=2)
    parser.add_argument("--memory-limit", default="500MB")
    parser.add_argument("--folder", type=Path, default=Path("runs"))
    parser.add_argument("--keep", action="store_true", help="leave the store where it is")
    parser.add_argument("--select", action="store_true", help="select from a store that stands")
    options = parser.parse_args()
    path = options.folder / f"mosaic-{options.n_samples}-{options.n_features}.zarr"
    if options.select:
        print(json.dumps(select(path, options.n_selected, options.n_epochs, options.memory_limit)))
        return
    if not path.exists():
        started = time.perf_counter()
        path.parent.mkdir(parents=True, exist_ok=True)
        make_store(path, options.n_samples, options.n_features, seed=0)
        disk = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        print(f"store of {options.n_samples * options.n_features / 1e9:.1f} GB, {disk / 1e9:.1f} GB on disk, ", end="")
        print(f"written in {time.perf_counter() - started:,.0f} s", flush=True)
    try:
        arguments = [sys.executable, __file__, *sys.argv[1:], "--select"]
        took = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    finally:
        if not options.keep:
            shutil.rmtree(path)
    print(report(took))


def report(took: dict[str, float]) -> str:
    """Say it in words."""
    epochs, rate = took["n_epochs"], took["n_presented"] / took["elapsed_s"]
    seconds = f"{took['elapsed_s']:,.0f} s (CPU {took['cpu_s']:,.0f} s)"
    peak, planned = took["peak_nbytes"] / 1e6, took["promised_nbytes"] / 1e6
    near = f"{took['n_near_causal']} within {SEGMENT // 10} columns of one"
    return "\n".join(
        [
            f"{took['n_presented']:,} columns in {epochs} epochs: {seconds}, {rate:,.0f} columns/s",
            f"peak memory of the process {peak:,.0f} MB, planned beside the process itself {planned:,.0f} MB",
            f"R² {took['r2']:.3f}; {took['n_causal_found']} of {N_CAUSAL} causal columns, {near}",
            f"p = 2,000,000: {2e6 * epochs / rate / 3600:.1f} h for {epochs} epochs "
            f"({2e6 * epochs * took['cpu_s'] / took['n_presented'] / 3600:.1f} h of CPU)",
        ]
    )


if __name__ == "__main__":
    main()
