"""MISSION against Vowpal Wabbit and scikit-learn: sparse rows of the law of text, one pass and several."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data as planted
from benchmarks.data import Planted
from benchmarks.harness import Contender, Job, NotApplicable
from benchmarks.peers import Answer

SKETCHES = {"768 KB": (1 << 16, 3), "3 MB": (1 << 18, 3), "192 MB": (1 << 24, 3)}
"""Cells in a row, and rows."""
ORIGINAL = "DASKFS_MISSION"
"""Names the folder of the authors' program: ``FOLDER/mission`` of environments.py."""
VW_CONSTANT = 11_650_396
"""Where Vowpal Wabbit keeps the intercept."""


def fitted(data: Planted, sketch: str = "3 MB", **options: Any) -> Answer:
    """Learn from the rows in their order, which is random."""
    from daskfs import Mission
    from daskfs.matrix.arrays import ArrayMatrix

    n_buckets, n_hashes = SKETCHES[sketch]
    given = {"n_epochs": 1, "refit": None, "loss": "logistic", **options}
    selector = Mission(data.n_wanted, n_buckets=n_buckets, n_hashes=n_hashes, **given)
    selector.fit_matrix(ArrayMatrix(data.X, (data.y > 0).astype(float), shuffled=True))
    return selector.selected_, selector.coef_[selector.selected_], float(selector.intercept_)


def largest(data: Planted, coef: np.ndarray, intercept: float) -> Answer:
    """Cut dense weights to the largest."""
    columns = np.argsort(-np.abs(coef), kind="stable")[: data.n_wanted]
    return columns, coef[columns], intercept


def sgd(data: Planted, penalty: str, alpha: float) -> Answer:
    """One pass of scikit-learn's."""
    from sklearn.linear_model import SGDClassifier

    options = {"learning_rate": "constant", "eta0": 2.0, "max_iter": 1, "tol": None, "random_state": 0}
    model = SGDClassifier(loss="log_loss", penalty=penalty, alpha=alpha, **options).fit(data.X, data.y)
    return largest(data, model.coef_[0], float(model.intercept_[0]))


def vw_files(data: Planted, is_cached: bool) -> Planted:
    """Write the rows as text, outside the clock, and with `is_cached` as Vowpal Wabbit's own cache."""
    from vowpalwabbit import Workspace

    folder = Path(tempfile.mkdtemp())
    text, indptr = folder / "train.vw", data.X.indptr
    with text.open("w") as file:
        for i, label in enumerate(data.y):
            here = slice(indptr[i], indptr[i + 1])
            pairs = zip(data.X.indices[here].tolist(), data.X.data[here].tolist(), strict=True)
            file.write(f"{int(label)} | " + " ".join(f"{j}:{x:.5g}" for j, x in pairs) + "\n")
    told = f"-d {text}"
    if is_cached:
        told += f" --cache_file {folder / 'train.cache'}"
        Workspace(f"{told} {vw_options(data)} -l 2").finish()
    return replace(data, told=told)


def vw_options(data: Planted) -> str:
    """Return as many weights as there are ids, which are their own hash."""
    return f"-b {int(data.X.shape[1] - 1).bit_length()} --loss_function logistic --quiet"


def vw(data: Planted, options: str) -> Callable[[], Answer]:
    """Learn from the file, in this process; return what writes the weights and reads them, outside the clock."""
    from vowpalwabbit import Workspace

    weights = Path(data.told.split()[1]).with_suffix(".weights")
    model = Workspace(f"{data.told} {vw_options(data)} --readable_model {weights} {options}")
    return partial(vw_weights, data, model, weights)


def vw_weights(data: Planted, model: Any, weights: Path) -> Answer:
    """Return the largest weights of a model."""
    model.finish()
    coef = np.zeros(data.X.shape[1])
    for line in weights.read_text().splitlines():
        place, _, weight = line.partition(":")
        if place.isdigit():
            coef[int(place)] = float(weight.split()[0])
    constant = VW_CONSTANT % len(coef)  # shares its cell with one id
    intercept, coef[constant] = float(coef[constant]), 0.0
    return largest(data, coef, intercept)


def original_rows(data: Planted) -> Planted:
    """Write the rows as mission_original.cpp reads them."""
    path = Path(tempfile.mkdtemp()) / "train.bin"
    with path.open("wb") as file:
        np.asarray((len(data.y), data.X.nnz), np.int64).tofile(file)
        for numbers, kind in ((data.X.indptr, np.int64), (data.X.indices, np.int32), (data.X.data, np.float32)):
            np.asarray(numbers, kind).tofile(file)
        np.asarray(data.y, np.int32).tofile(file)
    return replace(data, told=path)


def original(data: Planted) -> None:
    """Run the authors' program with 2,000 active features; it prints its time and keeps its model to itself."""
    if ORIGINAL not in os.environ:
        raise NotApplicable(f"{ORIGINAL} is not set: see benchmarks/environments.py")
    subprocess.run([Path(os.environ[ORIGINAL], "original_2000"), data.told], check=True, capture_output=True)


def judge(data: Planted, answer: Answer | Callable[[], Answer] | None) -> dict[str, float]:
    """Say what share of the relevant words is selected, and how the model predicts."""
    if answer is None:
        return {}
    columns, coef, intercept = answer() if callable(answer) else answer
    z = data.X_test[:, columns] @ coef + intercept
    return {
        "recall": planted.recall(data, columns),
        "accuracy": float(((z > 0) == (data.y_test > 0)).mean()),
        "log-loss": float(np.logaddexp(0.0, -data.y_test * z).mean()),
    }


def vw_contender(options: str, is_cached: bool = True) -> Contender:
    """Return Vowpal Wabbit with options."""
    return Contender(lambda data: vw(data, options), ("vowpalwabbit",), lambda data: vw_files(data, is_cached))


JOBS = [
    Job(
        "mission",
        "MISSION against Vowpal Wabbit and scikit-learn",
        planted.text_like,
        {
            "Mission, 3 MB": Contender(fitted),
            "Mission, 768 KB": Contender(lambda data: fitted(data, "768 KB")),
            "Mission, 192 MB": Contender(lambda data: fitted(data, "192 MB")),
            "Mission, 3 MB, five passes and refit": Contender(lambda data: fitted(data, n_epochs=5, refit="ridge")),
            "the paper's algorithm with heap, 3 MB": Contender(
                lambda data: fitted(data, variant="paper", heap=True, learning_rate=2.0)
            ),
        },
        {
            "Vowpal Wabbit, cache": vw_contender("-l 2"),
            "Vowpal Wabbit --sgd, cache": vw_contender("-l 2 --sgd --power_t 0"),
            "Vowpal Wabbit --ftrl --l1, cache": vw_contender("--ftrl --ftrl_alpha 0.2 --ftrl_beta 1 --l1 0.5"),
            "Vowpal Wabbit, text": vw_contender("-l 2", is_cached=False),
            "sklearn SGD, l2": Contender(lambda data: sgd(data, "l2", 1e-9)),
            "sklearn SGD, l1": Contender(lambda data: sgd(data, "l1", 1e-6)),
            "the authors' program": Contender(original, (), original_rows),
        },
        judge,
        {
            "smoke": [{"n_samples": 1200, "n_ids": 1 << 14, "n_relevant": 100}],
            "small": [{"n_samples": 20_000, "n_ids": 1 << 18, "n_relevant": 1000}],
            "full": [{"n_samples": 100_000, "n_ids": 1 << 20, "n_relevant": 2000}],
        },
        about=(
            "Sparse rows of some 89 entries with values of tf-idf; some words decide the class by a logistic model. "
            "One pass unless said. Dense weights of peers are cut to as many as we keep. Vowpal Wabbit's time includes "
            "reading its cache or text, and not writing its weights."
        ),
        rival="Vowpal Wabbit --sgd, cache",  # of its settings the one that finds most
        evidence=(
            "[`Mission`](docs/selectors/mission.md) finds {ours.recall:.0%} of {case.n_relevant:,} relevant "
            "among {case.n_ids:,} hashed features in one pass with a 3 MB sketch; Vowpal Wabbit with `--sgd` finds "
            "{rival.recall:.0%} with {times:.1f} times the CPU time."
        ),
    ),
]
