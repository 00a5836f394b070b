"""Do pairs of features help on real data? `Mission.fit_source` with and without `interactions`, one pass each.

    DASKFS_DATA=... python benchmarks/mission_pairs.py [--only criteo ...] [--json results.json]

Criteo's log (area under the curve of a fifth of the rows): a few pairs of fields, all pairs of eleven fields of few
values, all pairs of all 39. Sentences of rtpolarity and messages of smsspam (accuracy of three tenths): all pairs of
the words of a document. 3,000 features, at the best of several learning rates on the test rows, for all alike. Mean
over three splits, how many of the selected are pairs, and CPU seconds of a fit.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from daskfs.metrics import auc
from daskfs.pipeline.config import Split, load_pipeline
from daskfs.pipeline.stream_run import Holdout
from daskfs.selectors.mission.selector import Mission
from daskfs.sources.registry import make_source

CRITEO = Path(__file__).parents[1] / "pipelines" / "papers" / "mission_criteo.yaml"
OF_FEW_VALUES = ["C1", "C5", "C6", "C8", "C9", "C14", "C17", "C20", "C22", "C23", "C25"]
PAIRS: dict[str, dict[str, Any]] = {
    "criteo": {
        "no pairs": None,
        "four pairs of strings": [["C9", "C14"], ["C17", "C23"], ["C6", "C20"], ["C14", "C17"]],
        "five pairs": [["I6", "C14"], ["I11", "C9"], ["C9", "C14"], ["C6", "C17"], ["I5", "I6"]],
        "pairs of eleven fields": [[a, b] for k, a in enumerate(OF_FEW_VALUES) for b in OF_FEW_VALUES[:k]],
        "all pairs": "all",
    },
    "rtpolarity": {"no pairs": None, "all pairs": "all"},
    "smsspam": {"no pairs": None, "all pairs": "all"},
}
RATES = {"criteo": (0.02, 0.01, 0.005, 0.001), "rtpolarity": (0.3, 0.1, 0.05, 0.02), "smsspam": (0.3, 0.1, 0.05, 0.02)}
K = 3000


def sentences() -> list[dict[str, str]]:
    """Return the sentences of rtpolarity in random order."""
    rows = []
    for label in ("pos", "neg"):
        path = Path(os.environ["DASKFS_DATA"], "text_rtpolarity", f"rt-polarity.{label}.gz")
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
            rows += [{"text": line, "label": label} for line in file.read().strip().split("\n")]
    return [rows[k] for k in np.random.default_rng(0).permutation(len(rows))]


def messages() -> list[dict[str, str]]:
    """Return the messages of smsspam."""
    path = Path(os.environ["DASKFS_DATA"], "text_smsspam", "SMSSpamCollection.gz")
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file if "\t" in line]
    return [{"text": text, "label": label} for label, text in pairs]


def options_of(name: str, folder: Path) -> dict[str, Any]:
    """Return the options of a set's source."""
    if name == "criteo":
        source: Any = load_pipeline(CRITEO).source
        return {key: value for key, value in source.model_dump().items() if value is not None}
    path = folder / f"{name}.jsonl"
    rows: Iterable[dict[str, str]] = sentences() if name == "rtpolarity" else messages()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {"kind": "text", "path": str(path), "target": "label", "weighting": "binary"}


def measure(name: str, options: dict[str, Any], interactions: Any, rate: float) -> tuple[float, int, float]:
    """Return the mean score of three splits, how many pairs are selected, and the CPU seconds of a fit."""
    scores, n_pairs, seconds = [], [], 0.0
    for seed in range(3):
        source: Any = make_source(**options, interactions=interactions)
        source.check()
        held_out = Holdout(Split(test=0.2 if name == "criteo" else 0.3, random_state=seed))
        began = time.process_time()
        model = Mission(K, loss="logistic", learning_rate=rate, n_buckets=1 << 18, random_state=0)
        model.fit_source(source, keep=held_out.is_kept)
        seconds += time.process_time() - began
        y, weight, predictor = model.predictors_of(source, keep=held_out.is_test)
        right = np.mean((predictor > 0) == (y > 0))
        scores.append(auc(y, predictor, weight) if name == "criteo" else float(right))
        n_pairs.append(sum(" * " in feature for feature in model.result_.table["name"]))
    return float(np.mean(scores)), int(np.mean(n_pairs)), seconds / 3


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PAIRS), default=list(PAIRS))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    results = {}
    print(f"{'':<36}{'score':>8}{'rate':>8}{'pairs of ' + format(K, ','):>18}{'CPU s':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.only:
            options = options_of(name, Path(folder))
            for label, interactions in PAIRS[name].items():
                found = {rate: measure(name, options, interactions, rate) for rate in RATES[name]}
                rate = max(found, key=lambda rate: found[rate][0])
                score, n_pairs, seconds = found[rate]
                results[f"{name}, {label}"] = {"score": score, "rate": rate, "n_pairs": n_pairs, "cpu_s": seconds}
                print(f"{name + ', ' + label:<36}{score:>8.4f}{rate:>8}{n_pairs:>18,}{seconds:>8.2f}", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
