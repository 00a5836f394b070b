"""Models that learn side by side and are averaged: what 2 and 4 of them lose against one.

    python benchmarks/mission_merge.py [--small] [--json results.json]

The rows of benchmarks/mission_data.py, one pass, K = 2,000, no refit; each of W models learns from its own rows with W
times the rate. Means over seeds of the hash, and of recall the standard deviation over them: what differs by less is
no difference. All in this process: the result depends on W and on the rows between two averages, not on where the
models are.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from mission_data import text_like
from mission_quality import fitted

from daskfs.selectors.mission.selector import Mission


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="3,000 rows, for a test of this script")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    small = {"n_train": 3000, "n_test": 500, "n_ids": 1 << 14, "n_relevant": 100}
    data = text_like(**small) if options.small else text_like()
    results = {}
    print(f"{'cells':>9}{'models':>8}{'average every':>15}{'accuracy':>10}{'log-loss':>10}{'recall':>8}{'+-':>8}")
    for buckets in (1 << 10, 1 << 12) if options.small else (1 << 18, 1 << 15):
        for n_replicas, sync_every in ((1, 1000), (2, 250), (2, 1000), (2, 5000), (4, 250), (4, 1000), (4, 5000)):
            if options.small and sync_every != 1000:
                continue
            shape = {"n_buckets": buckets, "n_replicas": n_replicas, "sync_every": sync_every}
            given = {"loss": "logistic", "n_epochs": 1, "refit": None, **shape}
            seeds = [fitted(data, Mission(len(data.relevant), random_state=s, **given)) for s in range(options.seeds)]
            found = {key: float(np.mean([one[key] for one in seeds])) for key in seeds[0]}
            found["recall_deviation"] = float(np.std([one["recall"] for one in seeds], ddof=min(1, len(seeds) - 1)))
            results[f"{3 * buckets} cells, {n_replicas} models, every {sync_every}"] = found
            every = "-" if n_replicas == 1 else f"{sync_every:,} rows"
            numbers = f"{found['accuracy']:>10.4f}{found['log_loss']:>10.4f}{found['recall']:>8.4f}"
            print(f"{3 * buckets:>9,}{n_replicas:>8}{every:>15}{numbers}{found['recall_deviation']:>8.4f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
