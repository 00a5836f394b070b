"""What is found, and how well it predicts: Mission, the paper's, hard thresholding, scikit-learn, Vowpal Wabbit.

    python benchmarks/mission_quality.py [--small] [--json results.json]
    python benchmarks/mission_quality.py --bundles

The rows of benchmarks/mission_data.py; K = 2,000 of 710,000 features, 2,000 of which are relevant. Recall: the share of
the relevant ones among the 2,000 largest weights. "Cells" is the memory of the sketch, four bytes a cell. The dense
weights of scikit-learn and of Vowpal Wabbit (which is left out where it is not installed) take 4 MB, and are measured
whole and cut to the 2,000 largest. Memory against quality is the mean of three seeds of the hash.

With --bundles instead: dense columns in 60 bundles of five (correlation .9), ten of which matter by one column each;
how many of the ten have a column among ten that are selected, by weight and by choice, means of 20 data sets.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from mission_data import TextLike, text_like
from mission_speed import has_vw, vw_seconds, write_vw
from sklearn.linear_model import SGDClassifier

from daskfs.baselines import BatchIHT, StochasticIHT
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.metrics import auc
from daskfs.selectors.mission.selector import Mission
from daskfs.selectors.online_substitution.selector import OnlineSubstitution

VW_CONSTANT = 11_650_396  # where Vowpal Wabbit keeps the intercept
VW_RUNS = {
    "one pass": "-l 2",
    "five passes": "-l 2 --passes 5 --holdout_off --cache_file {cache}",
    "--sgd, one pass": "-l 2 --sgd --power_t 0",
    "--l1 1e-6, one pass": "-l 2 --l1 1e-6",
    "--ftrl --l1 0.5, one pass": "--ftrl --ftrl_alpha 0.2 --ftrl_beta 1 --l1 0.5",
}


QUARTER: dict[str, dict[str, Any]] = {
    "one row of 4/3 the cells": {"n_hashes": 1, "n_buckets": 1 << 18},
    "half-life of a quarter of a pass": {"tail_half_life": 0.25},
    "half-life of half a pass": {"tail_half_life": 0.5},
    "half-life of two passes": {"tail_half_life": 2.0},
    "no fading": {"tail_half_life": None},
    "half the rate": {"learning_rate": 2.0},
    "three quarters of the rate": {"learning_rate": 3.0},
    "half as much rate again": {"learning_rate": 6.0},
    "selection every 1,000 rows": {"block_rows": 1000},
    "every 16,384": {"block_rows": 16_384},
    "every 10,000, half-life of half a pass": {"block_rows": 10_000, "tail_half_life": 0.5},
}
"""What may make up for memory."""


def measures(data: TextLike, z: np.ndarray, ranking: np.ndarray) -> dict[str, float]:
    """Accuracy, AUC and log-loss of log-odds; recall of the whole ranking, precision of its first quarter."""
    is_relevant = np.isin(ranking, data.relevant)
    return {
        "accuracy": float(((z > 0) == (data.y_test > 0)).mean()),
        "auc": auc(data.y_test, z),
        "log_loss": float(np.logaddexp(0.0, -data.y_test * z).mean()),
        "recall": float(is_relevant.sum() / len(data.relevant)),
        "precision": float(is_relevant[: max(1, len(ranking) // 4)].mean()),
    }


def fitted(data: TextLike, selector: Any) -> dict[str, float]:
    """Fit in the order of the rows, which are independent, and measure."""
    selector.fit_matrix(ArrayMatrix(data.X, (data.y > 0).astype(float), shuffled=True))
    columns = np.flatnonzero(selector.support_)
    z = data.X_test[:, columns] @ selector.coef_[columns] + selector.intercept_
    return measures(data, z, selector.selected_)


def over_hashes(data: TextLike, parameters: dict[str, Any]) -> dict[str, float]:
    """Fit in one pass without a refit, with three hashes, and return the means."""
    given = {"loss": "logistic", "n_epochs": 1, "refit": None, **parameters}
    seeds = [fitted(data, Mission(len(data.relevant), random_state=seed, **given)) for seed in range(3)]
    return {key: float(np.mean([one[key] for one in seeds])) for key in seeds[0]}


def sgd(data: TextLike, n_selected: int, n_epochs: int, **parameters: Any) -> dict[str, dict[str, float]]:
    """scikit-learn's, with all weights, and cut to the largest."""
    model = SGDClassifier(loss="log_loss", learning_rate="constant", max_iter=n_epochs, tol=None, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.y)
    return whole_and_cut(data, model.coef_[0], float(model.intercept_[0]), n_selected)


def whole_and_cut(data: TextLike, coef: np.ndarray, intercept: float, n_selected: int) -> dict[str, dict[str, float]]:
    """Measure a model with all its weights, and with the largest."""
    ranking = np.argsort(-np.abs(coef), kind="stable")[:n_selected]
    cut = data.X_test[:, ranking] @ coef[ranking] + intercept
    all_weights = measures(data, data.X_test @ coef + intercept, ranking)
    return {"all weights": all_weights, f"largest {n_selected:,}": measures(data, cut, ranking)}


def vw(data: TextLike, text: Path, n_selected: int, arguments: str) -> dict[str, dict[str, float]]:
    """Vowpal Wabbit's: numbers are their own hash, so its weights are those of our ids."""
    n_bits = int(data.X.shape[1] - 1).bit_length()
    readable = text.with_suffix(".weights")
    vw_seconds(f"-d {text} -b {n_bits} --loss_function logistic --quiet --readable_model {readable} {arguments}")
    coef = np.zeros(data.X.shape[1])
    for line in readable.read_text().splitlines():
        place, _, weight = line.partition(":")
        if place.isdigit():
            coef[int(place)] = float(weight.split()[0])
    constant = VW_CONSTANT % len(coef)  # shares its cell with one id
    intercept, coef[constant] = float(coef[constant]), 0.0
    return whole_and_cut(data, coef, intercept, n_selected)


def bundles(seed: int, n_samples: int, share: float = 0.9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows of 300 columns in 60 bundles, a target, and the numbers of the ten bundles that matter."""
    rng = np.random.default_rng(seed)
    common, own = rng.standard_normal((n_samples, 60, 1)), rng.standard_normal((n_samples, 60, 5))
    X = (np.sqrt(share) * common + np.sqrt(1.0 - share) * own).reshape(n_samples, 300)
    true = rng.choice(60, 10, replace=False)
    y = X[:, 5 * true] @ (rng.choice([-1, 1], 10) * np.linspace(0.4, 1.5, 10))
    return X, y + 0.5 * rng.standard_normal(n_samples), true


def found_bundles(n_seeds: int = 20) -> None:
    """Print how many of ten bundles are found, by numbers of rows, loss and way to select."""
    ways = {
        "by weight": lambda: Mission(10, n_candidates=None),
        "Mission": lambda: Mission(10),
        "OnlineSubstitution": lambda: OnlineSubstitution(10),
    }
    print(f"{'rows':>8}{'target':>10}" + "".join(f"{name:>22}" for name in ways))
    for n_samples in (300, 600, 1500):
        for kind in ("numbers", "classes"):
            line = f"{n_samples:>8,}{kind:>10}"
            for make in ways.values():
                counts = []
                for seed in range(n_seeds):
                    X, y, true = bundles(seed, n_samples)
                    selector = make().fit(X, y if kind == "numbers" else np.where(y > 0, "high", "low"))
                    counts.append(len(set((selector.selected_ // 5).tolist()) & set(true.tolist())))
                line += f"{np.mean(counts):>22.2f}"
            print(line, flush=True)


def show(name: str, found: dict[str, float]) -> None:
    """Print a line."""
    shown = f"{found['accuracy']:>8.4f}{found['auc']:>8.4f}{found['log_loss']:>9.4f}{found['recall']:>8.3f}"
    print(f"{name:<58}{shown}{found['precision']:>8.3f}", flush=True)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="3,000 rows, for a test of this script")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--bundles", action="store_true", help="only how many bundles of correlated columns are found")
    options = parser.parse_args()
    if options.bundles:
        found_bundles()
        return 0
    small = {"n_train": 3000, "n_test": 500, "n_ids": 1 << 14, "n_relevant": 100}
    data = text_like(**small) if options.small else text_like()
    k = len(data.relevant)
    results = {"the true model": measures(data, data.z_test, data.relevant)}
    print(f"{'':<58}accuracy     AUC log-loss  recall  prec.")
    show("the true model", results["the true model"])

    def run(name: str, selector: Any) -> None:
        results[name] = fitted(data, selector)
        show(name, results[name])

    common = {"loss": "logistic", "n_buckets": 1 << (12 if options.small else 18)}
    run("Mission, 3 MB, one pass, no refit", Mission(k, n_epochs=1, refit=None, **common))
    run("Mission, 3 MB, one pass", Mission(k, n_epochs=1, **common))
    run("Mission, 3 MB, five passes, no refit", Mission(k, refit=None, **common))
    run("Mission, 3 MB, five passes", Mission(k, **common))
    quarter = {**common, "n_buckets": common["n_buckets"] // 4}
    run("Mission, 768 KB, one pass, no refit", Mission(k, n_epochs=1, refit=None, **quarter))
    run("Mission, 768 KB, five passes", Mission(k, **quarter))
    paper = {"variant": "paper", "learning_rate": 2.0, "refit": None}  # of .5, its default, .801 and .867 in one pass
    run("the paper's, 3 MB, one pass", Mission(k, n_epochs=1, **paper, **common))
    run("the paper's with heap, 3 MB, one pass", Mission(k, n_epochs=1, heap=True, **paper, **common))
    run("the paper's, 3 MB, five passes", Mission(k, n_epochs=5, **paper, **common))
    run("IHT by rows, five passes", StochasticIHT(k, loss="logistic"))
    run(
        "batch IHT, 786,432 features gathered, five passes",
        BatchIHT(k, n_gathered=3 * common["n_buckets"], loss="logistic"),
    )
    identity = {"loss": "logistic", "tail": "identity", "refit": None}
    run("no sketch, one cell for each of 2^20 ids, one pass", Mission(k, n_epochs=1, **identity))
    for penalty, parameters in (("l2", {"alpha": 1e-9, "eta0": 2.0}), ("l1", {"alpha": 1e-6, "eta0": 2.0})):
        for which, found in sgd(data, k, 1, penalty=penalty, **parameters).items():
            results[f"scikit-learn SGD {penalty}, one pass, {which}"] = found
            show(f"scikit-learn SGD {penalty}, one pass, {which}", found)
    if has_vw():
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "train.vw")
            write_vw(data, text)
            for name, arguments in VW_RUNS.items():
                cache = {"cache": text.with_suffix(f".{len(results)}.cache")}
                for which, found in vw(data, text, k, arguments.format(**cache)).items():
                    results[f"Vowpal Wabbit {name}, {which}"] = found
                    show(f"Vowpal Wabbit {name}, {which}", found)
    print("\nMemory against quality, one pass, no refit, mean of three hashes: recall / log-loss")
    print(f"{'cells':>10}{'KB':>8}{'paper':>16}{'R = 1 (2/3)':>16}{'R = 3':>16}")
    for b in (6, 8, 10) if options.small else (12, 14, 16, 18, 20):
        line = f"{3 << b:>10,}{12 << b >> 10:>8,}"
        for name, parameters in (
            ("paper", {"n_buckets": 1 << b, **paper}),
            ("R = 1", {"n_buckets": 2 << b, "n_hashes": 1}),
            ("R = 3", {"n_buckets": 1 << b}),
        ):
            found = over_hashes(data, parameters)
            results[f"{3 << b} cells, {name}"] = found
            line += f"{found['recall']:>9.3f} /{found['log_loss']:.3f}"
        print(line, flush=True)
    print("\nOne pass with a quarter of the memory, no refit, mean of three hashes: recall, accuracy, log-loss")
    for name, parameters in {"as it is": {}, **QUARTER}.items():
        found = over_hashes(data, {"n_buckets": common["n_buckets"] // 4, **parameters})
        results[f"quarter, {name}"] = found
        print(f"{name:<42}{found['recall']:>8.4f}{found['accuracy']:>8.4f}{found['log_loss']:>8.4f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
