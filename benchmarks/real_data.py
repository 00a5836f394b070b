"""MESSAGE on real tables against scikit-learn's LassoCV: the same store, the same split, test error and time.

    DASKFS_DATA=... python benchmarks/real_data.py [--only adult] [--seeds 0 1 2] [--json results.json]

Runs the pipelines of pipelines/ as they stand. LassoCV sees the training rows in memory, once as they are and once
behind a StandardScaler (its penalty depends on the scale of the columns); the better of the two is the peer.
CPU seconds of all processes; ratios above 1.02 in the test error are marked.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from daskfs.pipeline.config import load_pipeline
from daskfs.pipeline.run import run_pipeline
from daskfs.store.feature_store import open_store

PIPELINES = Path(__file__).parents[1] / "pipelines"
NAMES = ["household_power", "household_power_minute", "adult", "flights_houston"]
ALLOWED = 1.02


def cpu_seconds() -> float:
    """CPU seconds of this process and of its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(name: str, seed: int, folder: Path) -> dict:
    """Run one pipeline and its peer on one split."""
    overrides = [f"store.path={folder / name}.zarr", f"output={folder / name}-{seed}"]
    overrides.append(f"split.random_state={seed}")
    pipeline = load_pipeline(PIPELINES / f"{name}.yaml", overrides)
    start = cpu_seconds()
    outcome = run_pipeline(pipeline)
    seconds = cpu_seconds() - start
    (result,) = outcome.results.values()
    split = pipeline.split
    store = open_store(pipeline.store_path)
    train, test = store.split(split.test, by=split.by, random_state=split.random_state)
    everything = slice(None)
    X, y = train.read(everything).astype(np.float64), train.read_target(everything)
    X_test, y_test = test.read(everything).astype(np.float64), test.read_target(everything)
    peers = {}
    for scaled in (False, True):
        lasso = LassoCV(cv=5, random_state=0)
        model = make_pipeline(StandardScaler(), lasso) if scaled else lasso
        start = cpu_seconds()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # convergence warnings of the unscaled fit
            model.fit(X, y)
        peers["scaled" if scaled else "as is"] = {
            "mse": float(np.mean((model.predict(X_test) - y_test) ** 2)),
            "n_selected": int(np.count_nonzero(lasso.coef_)),
            "seconds": cpu_seconds() - start,
        }
    best = min(peers, key=lambda kind: peers[kind]["mse"])
    return {
        "shape": [*train.shape],
        "n_subsets": result.parameters["n_subsets"],
        "daskfs": {"mse": result.metrics["mse"], "n_selected": len(result.table), "seconds": seconds},
        "peers": peers,
        "best_peer": best,
        "ratio": result.metrics["mse"] / peers[best]["mse"],
    }


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2], help="of the split")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if "DASKFS_DATA" not in os.environ:
        raise SystemExit("set DASKFS_DATA to the folder that holds the data sets")
    results = {}
    head = f"{'set, seed of the split':<27}{'train rows':>11}{'features':>9}{'subsets':>8} | "
    print(head + f"{'MSE':>11}{'kept':>5}{'CPU s':>7} | {'LassoCV MSE':>12}{'kept':>5}{'CPU s':>7} | ratio")
    with tempfile.TemporaryDirectory() as folder:
        for name, seed in itertools.product(options.only, options.seeds):
            r = results[f"{name}, split {seed}"] = measure(name, seed, Path(folder))
            ours, peer = r["daskfs"], r["peers"][r["best_peer"]]
            print(
                f"{name + ', ' + str(seed):<27}{r['shape'][0]:>11,}{r['shape'][1]:>9}{r['n_subsets']:>8} | "
                f"{ours['mse']:>11.6g}{ours['n_selected']:>5}{ours['seconds']:>7.1f} | "
                f"{peer['mse']:>12.6g}{peer['n_selected']:>5}"
                f"{peer['seconds']:>7.1f} | {r['ratio']:.4f}{'  TOO LARGE' if r['ratio'] > ALLOWED else ''}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    return int(any(r["ratio"] > ALLOWED for r in results.values()))


if __name__ == "__main__":
    started = time.perf_counter()
    code = main()
    print(f"{time.perf_counter() - started:.0f} s in all")
    sys.exit(code)
