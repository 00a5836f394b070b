"""Online substitution against the libraries that people use, and over genotypes too wide for memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data as planted
from benchmarks.data import Planted
from benchmarks.harness import Contender, Job
from benchmarks.peers import Answer, some

N_FOUNDERS, SEGMENT, BAND = 64, 300, 1024


def selected(data: Planted, **options: Any) -> Answer:
    """Select with online substitution."""
    from daskfs import OnlineSubstitution
    from daskfs.matrix.arrays import ArrayMatrix

    found = OnlineSubstitution(n_features_to_select=data.n_wanted, **options).fit_matrix(ArrayMatrix(data.X, data.y))
    return found.selected_, None, 0.0


def our_omp(data: Planted) -> Answer:
    """Select with daskfs's orthogonal matching pursuit."""
    from daskfs.baselines import OrthogonalMatchingPursuit
    from daskfs.matrix.arrays import ArrayMatrix

    found = OrthogonalMatchingPursuit(data.n_wanted).fit_matrix(ArrayMatrix(data.X, data.y))
    return found.selected_, None, 0.0


def judge(data: Planted, answer: Answer) -> dict[str, float]:
    """Say which share of the true columns is selected."""
    return {"recall": planted.recall(data, answer[0]), "columns": len(answer[0])}


@dataclass
class Cohort:
    """A store of dosages and its causal columns."""

    path: Path
    causal: np.ndarray
    n_wanted: int


def cohort(folder: Path, seed: int, n_samples: int, n_features: int, n_causal: int) -> Cohort:
    """Write dosages band by band: mosaics of founder chromosomes, so that neighbours are in linkage disequilibrium."""
    from daskfs.matrix.blocks import RowBlock
    from daskfs.store.writer import StoreWriter

    rng = np.random.default_rng(seed)
    frequency = rng.beta(0.8, 2.0, n_features).clip(0.02, 0.98)
    phase = np.cumsum(rng.normal(0.0, 0.05, (N_FOUNDERS, n_features)), axis=1) + rng.random((N_FOUNDERS, 1))
    founders = (np.mod(phase, 1.0) < frequency).astype(np.int8)
    segment_of = np.arange(n_features) // SEGMENT
    causal = np.sort(rng.choice(n_features, n_causal, replace=False))
    effect = rng.standard_normal(n_causal) / np.maximum(founders[:, causal].std(axis=0), 0.1)
    options: dict[str, Any] = {"shuffle": False, "n_samples": n_samples, "tile_shape": (BAND, 512), "codec": "lz4"}
    source = {"digest": f"mosaic-{seed}"}
    path = folder / "cohort.zarr"
    with StoreWriter(path, n_features, "int8", target_names=["trait"], source=source, **options) as writer:
        for start in range(0, n_samples, BAND):
            count = min(BAND, n_samples - start)
            choices = rng.integers(0, N_FOUNDERS, (2, count, segment_of[-1] + 1))
            X = np.empty((count, n_features), np.int8)
            for i in range(count):
                first, second = (founders[choices[k, i, segment_of], np.arange(n_features)] for k in range(2))
                X[i] = first + second
            y = X[:, causal] @ effect + rng.standard_normal(count) * np.sqrt((effect**2).sum() * 0.25)
            writer.write(RowBlock(start, start + count, X, y[:, None]))
    return Cohort(path, causal, n_causal)


def over_cohort(data: Cohort) -> np.ndarray:
    """Make one pass over the store, within 480 MB beside the process."""
    import daskfs

    selector = daskfs.OnlineSubstitution(data.n_wanted, n_epochs=1, memory_limit="480MB")
    return np.asarray(selector.fit(daskfs.open_store(data.path)).selected_)


def one_by_one(data: Cohort) -> np.ndarray:
    """Rank all columns by their correlation with the trait, from blocks of columns: the usual scan."""
    import daskfs

    store = daskfs.open_store(data.path)
    y = np.ravel(store.read_target(slice(None)))
    y = (y - y.mean()) / y.std()
    scores = np.empty(store.shape[1])
    for start in range(0, store.shape[1], 512):
        block = store.read(slice(None), slice(start, min(start + 512, store.shape[1]))).astype(np.float32)
        scores[start : start + block.shape[1]] = np.abs(y @ (block - block.mean(axis=0))) / (block.std(axis=0) + 1e-9)
    return np.argsort(-scores, kind="stable")[: data.n_wanted]


def judge_cohort(data: Cohort, columns: np.ndarray) -> dict[str, float]:
    """Say how many causal columns are selected, and how many have a selected one within 30 columns."""
    near = sum(bool(np.abs(columns - j).min() <= SEGMENT // 10) for j in data.causal)
    return {"causal found": len(np.intersect1d(columns, data.causal)), "near causal": near}


JOBS = [
    Job(
        "online_substitution",
        "Online substitution against other libraries",
        planted.substitution,
        {
            "OnlineSubstitution": Contender(selected),
            "2 epochs": Contender(lambda data: selected(data, n_epochs=2)),
            "the paper's rule": Contender(lambda data: selected(data, rule="os")),
            "daskfs OMP": Contender(our_omp),
        },
        some(
            *(
                "abess",
                "sklearn OMP",
                "sklearn lars_path",
                "skglm Lasso",
                "skglm MCP",
                "sklearn LassoCV",
                "sklearn RFE",
            ),
        ),
        judge,
        {
            "smoke": [{"n_features": 200, "n_informative": 6}],
            "small": [{"n_features": 2000, "n_informative": 50}],
            "full": [{"n_features": 6000, "n_informative": 100}, {"n_features": 100_000, "n_informative": 100}],
        },
        about=(
            "Figure 1 of the paper: n = 1.2 s log₂ p rows, unit columns, float64 in memory. All are asked for as "
            "many columns as are true. On top of the data is what a method takes beside them."
        ),
        rival="abess",
        evidence=(
            "[`OnlineSubstitution`](docs/selectors/online_substitution.md) finds {ours.recall:.0%} of "
            "{case.n_informative} true among {case.n_features:,} columns with {ours.top_mib:.0f} MiB on top of "
            "the data; abess finds {rival.recall:.0%} with {rival.top_mib:.0f} MiB and {times:.1f} times the CPU "
            "time."
        ),
    ),
    Job(
        "wide_genotypes",
        "Online substitution over genotypes too wide for memory",
        cohort,
        {"OnlineSubstitution": Contender(over_cohort)},
        {"scan of single columns, NumPy": Contender(one_by_one)},
        judge_cohort,
        {
            "smoke": [{"n_samples": 400, "n_features": 1200, "n_causal": 5}],
            "small": [{"n_samples": 10_000, "n_features": 20_000, "n_causal": 50}],
            "full": [{"n_samples": 500_000, "n_features": 200_000, "n_causal": 100}],
        },
        about=(
            "Dosages (int8) in a store with lz4, mosaics of 64 founders. One pass. The scan is the memory's "
            "lower bound."
        ),
        evidence=(
            "[`OnlineSubstitution`](docs/selectors/online_substitution.md) makes one pass over {case.n_samples:,} × "
            "{case.n_features:,} dosages in a process of {ours.peak_mib:.0f} MiB."
        ),
        repeats=1,
        timeout_s=7200.0,
    ),
]
