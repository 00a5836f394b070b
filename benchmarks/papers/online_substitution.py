"""Online substitution and Asy-OS: figures 1 to 4 of Yang, Fujimaki, Kusumura and Liu (2016)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data import real_data
from benchmarks.papers.figures import Checks, Figure, Panel, Results, Row, cpu_seconds
from daskfs import AsyncOnlineSubstitution, OnlineSubstitution
from daskfs.baselines import Grafting, LassoCut, OnlineL0, OnlineL1, ProjGD
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.sources.synthetic import SyntheticSource

LETTER: dict[str, Any] = {"rule": "paper"}
"""Algorithm 1, with the check of line 12; columns are standardised, which changes little with the paper's columns."""
ASY_OS: dict[str, dict[str, Any]] = {
    "Asy-OS as in the paper": {
        "rule": "paper", "step_divisor": 5.0, "slots": 1.0, "other_worker": False, "check": False
    },
    "Asy-OS in daskfs": {},
}  # fmt: skip
OURS = ("OS as in the paper", "OS in daskfs")
L1 = ("L1 batch", "grafting", "L1 coordinate descent")
LOSSES = ("squared", "squared_hinge")
COUNTS, SCANNED = [5, 10, 20, 30], [1, 2, 3, 4, 5]
BY_IMAGES = (("s", "features"), ("scans", "scans"), ("workers", "workers"))
SCANS = 2
"""Of the features by every online method, as in the paper."""


class Case(NamedTuple):
    """Rows to learn from, rows to test on (classes), and the true coefficients (synthetic data)."""

    train: ArrayMatrix
    X_test: np.ndarray
    y_test: np.ndarray
    true: np.ndarray | None


def draw(p: int, s: int, loss: str, seed: int) -> Case:
    """Draw a data set of the paper: n = 1.2 s log2 p rows, and as many to test on if the target is a class."""
    options: dict[str, Any] = {"n_informative": s, "design": "online_substitution", "random_state": seed}
    is_squared = loss == "squared"
    n = SyntheticSource(None, p, **options).n_samples
    options |= {"noise": "normal", "columns": "unit"} if is_squared else {"noise": "none", "columns": "standard"}
    source = SyntheticSource(n if is_squared else 2 * n, p, **options)
    block, true = next(source.row_blocks(source.n_samples)), np.zeros(p)
    true[source.support] = source.coef
    return Case(ArrayMatrix(block.X[:n], block.y[:n]), block.X[n:], block.y[n:], true)


def judged(selector: Any, case: Case) -> Row:
    """Return recall, and the error: relative distance of the refit, or share of wrong classes on test rows."""
    recall = np.nan
    if case.true is not None:
        support = np.flatnonzero(case.true)
        recall = len(np.intersect1d(selector.selected_, support)) / len(support)
    if not len(case.X_test):
        return {"recall": recall, "error": np.linalg.norm(selector.coef_ - case.true) / np.linalg.norm(case.true)}
    chosen = selector.selected_
    z = case.X_test[:, chosen] @ selector.coef_[chosen] + selector.intercept_
    return {"recall": recall, "error": np.mean((z > 0) != (case.y_test > 0))}


def fitted(selector: Any, case: Case) -> Row:
    """Fit, and return recall and error; a fit that diverges finds nothing."""
    try:
        return judged(selector.fit_matrix(case.train), case)
    except (ValueError, FloatingPointError, np.linalg.LinAlgError):
        return {"recall": 0.0, "error": np.nan}


def compare(case: Case, s: int, loss: str, online: dict[str, Any]) -> list[Row]:
    """Return recall and error of all methods."""
    options: dict[str, Any] = {"n_features_to_select": s, "loss": loss}
    batch = LassoCut(**options)
    rows = [{"method": "L1 batch", **fitted(batch, case)}]
    penalty = batch.penalty_
    methods: dict[str, Callable[[], Any]] = {
        OURS[0]: lambda: OnlineSubstitution(**LETTER, **options, **online),
        OURS[1]: lambda: OnlineSubstitution(**options, **online),
        "Proj-GD": lambda: ProjGD(**options),
        "grafting": lambda: Grafting(penalty=penalty, **options, **online),
        "L1 coordinate descent": lambda: OnlineL1(penalty=penalty, **options, **online),
        "L0 coordinate descent": lambda: OnlineL0(**options, **online),
    }
    return rows + [{"method": name, **fitted(make(), case)} for name, make in methods.items()]


def vary(case: Case, s: int, loss: str, scans: list[int], workers: list[int]) -> list[Row]:
    """Return recall and error by the number of scans, and by that of simulated workers."""
    options: dict[str, Any] = {"n_features_to_select": s, "loss": loss}
    rows: list[Row] = []
    for n_epochs in scans:
        for name, rule in zip(OURS, (LETTER, {}), strict=True):
            found = fitted(OnlineSubstitution(**rule, **options, n_epochs=n_epochs), case)
            rows.append({"panel": "scans", "scans": n_epochs, "method": name, **found})
    for q in workers:
        for name, more in ASY_OS.items():
            told = {"n_workers": q, "schedule": "simulated", "n_epochs": SCANS}
            found = fitted(AsyncOnlineSubstitution(**options, **told, **more), case)
            rows.append({"panel": "workers", "workers": q, "method": name, **found})
    return rows


def synthetic(seed: int, *, loss: str, sizes: list[int], s: int, scans: list[int], workers: list[int]) -> list[Row]:
    """Return the three columns of figure 1 or 2; the middle and the right one at the middle size."""
    rows: list[Row] = []
    for p in sizes:
        case = draw(p, s, loss, seed)
        rows += [{"panel": "features", "features": p, **row} for row in compare(case, s, loss, {"n_epochs": SCANS})]
        if p == sizes[len(sizes) // 2]:
            rows += vary(case, s, loss, scans, workers)
    return rows


def shared_agrees(results: Results, value: str, sign: float) -> Checks:
    """Check the statements about scans and workers on recall (sign 1) or error (sign -1)."""
    checks = Checks()
    for name in OURS:
        curve = sign * results.curve(value, "scans", panel="scans", method=name)
        gain = curve[curve.index > 3].max() - curve[3]
        said = f"{value} " + ", ".join(f"{abs(one):.3f} after {k:g}" for k, one in curve.items())
        checks.true(f"{name}: no more than 0.02 is gained after 3 scans", gain <= 0.02, said)
    for name in ASY_OS:
        curve = sign * results.curve(value, "workers", panel="workers", method=name)
        falls = np.corrcoef(np.arange(len(curve)), curve.rank())[0, 1] if curve.nunique() > 1 else 0.0
        said = f"{value} " + ", ".join(f"{abs(one):.3f} with {q:g}" for q, one in curve.items())
        statement = f"{name}: it gets worse almost monotonically with more workers (rank correlation of -0.7 or less)"
        checks.true(statement, falls <= -0.7, said)
    return checks


def synthetic_agrees(results: Results) -> Checks:
    """Check section 5 on figures 1 and 2."""
    curve = results.by("features", panel="features")
    checks = Checks()
    for name in (*OURS, "Proj-GD"):
        for other in L1:
            statement = f"{name} has at least the recall of {other} (within 0.02)"
            checks.below(statement, curve(other, "recall"), curve(name, "recall"), plus=0.02)
    for name in OURS:
        gap = (curve(name, "recall") - curve("Proj-GD", "recall")).abs()
        statement = f"{name} has almost the recall of Proj-GD (within 0.05)"
        checks.true(statement, gap.max() <= 0.05, f"they differ by at most {gap.max():.3f}")
    statement = (
        "L1 batch has a low error too, although its recall is not the highest (at most 1.1 times that of Proj-GD)"
    )
    checks.below(statement, curve("L1 batch", "error"), curve("Proj-GD", "error"), 1.1)
    checks += shared_agrees(results, "recall", 1.0)
    return checks


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return 7,000 images of the digits 4 and 9 with 5,000 features, half of them probes."""
    X, y, _ = real_data().gisette_like(0)
    return X, np.where(y > 0, 1.0, -1.0)


def images(seed: int, *, n_columns: int, counts: list[int], scans: list[int], workers: list[int]) -> list[Row]:
    """Return test errors on images, one row in a hundred to learn from, by the number of features."""
    X, target = digits()
    order = np.random.default_rng(seed).permutation(len(target))
    train, test = order[: len(order) // 100], order[len(order) // 100 :]
    X = X[:, np.flatnonzero(X[train].std(axis=0) > 0)[:n_columns]]
    case = Case(ArrayMatrix(np.ascontiguousarray(X[train]), target[train]), X[test], target[test], None)
    rows: list[Row] = []
    for s in counts:
        found = compare(case, s, "squared_hinge", {"n_epochs": SCANS})
        rows += [{"panel": "features", "s": s, **row} for row in found]
    return rows + vary(case, counts[len(counts) // 2], "squared_hinge", scans, workers)


def images_agree(results: Results) -> Checks:
    """Check section 5 on figure 4."""
    curves = {
        name: results.curve("error", "s", panel="features", method=name) for name in (*OURS, "Proj-GD", "L1 batch")
    }
    rise = {name: curve.iloc[0] - curve.min() for name, curve in curves.items()}
    said = ", ".join(f"{name} {curve.iloc[0]:.3f} (least {curve.min():.3f})" for name, curve in curves.items())
    worst = rise["L1 batch"] >= max(rise.values()) and rise["L1 batch"] > 0.01
    checks = Checks()
    statement = "L1 batch has a higher error if s is small, and other methods are influenced less"
    checks.true(statement, worst, said)
    checks += shared_agrees(results, "error", -1.0)
    return checks


def time_to_error(seed: int, *, p: int, s: int, n: int, workers: list[int]) -> list[Row]:
    """Return the rounds that q simulated workers need for nine tenths of the fall of the objective of one worker."""
    rows: list[Row] = []
    for loss in LOSSES:
        options = {"n_informative": s, "design": "online_substitution", "random_state": seed}
        noise = {"noise": "normal", "columns": "unit"} if loss == "squared" else {"noise": "none"}
        block = next(SyntheticSource(n, p, **options, **noise).row_blocks(n))
        matrix = ArrayMatrix(block.X, block.y)
        for name, more in ASY_OS.items():
            target = None
            for q in workers:
                told = {"n_workers": q, "schedule": "simulated", "n_epochs": SCANS, "loss": loss}
                selector, seconds = cpu_seconds(AsyncOnlineSubstitution(s, **told, **more).fit_matrix, matrix)
                history = selector.result_.history
                objective = np.minimum.accumulate(history["objective"].to_numpy())
                version = np.linspace(0, SCANS * p, len(objective) + 1)[1:]
                if target is None:
                    target = objective[0] - 0.9 * (objective[0] - objective[-1])
                reached = np.flatnonzero(objective <= target)
                rounds = version[reached[0]] / q if len(reached) else np.nan
                rows.append({"loss": loss, "workers": q, "method": name, "rounds": rounds, "objective": objective[-1],
                             "cpu_s": seconds})  # fmt: skip
                first = next(row["rounds"] for row in rows if (row["loss"], row["method"]) == (loss, name))
                rows[-1]["speedup"] = first / rounds
    return rows


def time_agrees(results: Results) -> Checks:
    """Check section 5.3 on figure 3."""
    checks = Checks()
    for loss in results.rows["loss"].unique():
        for name in ASY_OS:
            workers = sorted(results.of(loss=loss)["workers"].unique())
            speedup = results.curve("speedup", "workers", loss=loss, method=name).reindex(workers)
            said = "speed-up " + ", ".join(
                f"{one:.2f} with {q}" if one == one else f"never there with {q}" for q, one in speedup.items()
            )
            rises = bool((speedup.diff()[1:] > 0).all())
            checks.true(f"{name}, {loss} loss: the error falls faster with more workers", rises, said)
            up_to_8 = speedup[[q for q in speedup.index if 1 < q <= 8]]
            more = bool((up_to_8 >= up_to_8.index).all())
            statement = f"{name}, {loss} loss: the speed-up is at least linear up to 8 workers"
            checks.true(statement, more, said)
    return checks


def check_matters(seed: int, *, p: int, s: int, workers: int, width: int) -> list[Row]:
    """Return recall and the highest objective, in parts of that without features, with and without the check."""
    rows: list[Row] = []
    for structure in ("independent", "common_factor", "autoregressive"):
        options: dict[str, Any] = {"n_informative": s, "structure": structure, "random_state": seed}
        source = SyntheticSource(None, p, design="online_substitution", noise="normal", columns="unit", **options)
        block, true = next(source.row_blocks(source.n_samples)), np.zeros(p)
        true[source.support] = source.coef
        case = Case(ArrayMatrix(block.X, block.y), block.X[:0], block.y[:0], true)
        told = {"n_workers": workers, "schedule": "synchronous", "block_columns": width, "n_epochs": 4}
        for name, check in (("with the check", True), ("without", False)):
            selector = AsyncOnlineSubstitution(s, **told, check=check)
            found = fitted(selector, case)
            worst = float(np.nanmax(selector.result_.history["objective"])) if hasattr(selector, "result_") else np.inf
            rows.append(
                {
                    "data": structure,
                    "method": name,
                    "recall": found["recall"],
                    "worst": min(worst / (0.5 * block.y.var()), 1e300),
                }
            )
        rows.append({"data": structure, "method": "sequential", **fitted(OnlineSubstitution(s, n_epochs=4), case)})
    return rows


def check_agrees(results: Results) -> Checks:
    """Check that Asy-OS needs no check of the objective."""
    checks = Checks()
    for name in results.rows["data"].unique():
        worst = {one: results.mean("worst", data=name, method=one) for one in ("with the check", "without")}
        recall = {one: results.mean("recall", data=name, method=one) for one in (*worst, "sequential")}
        said = ", ".join(f"{one} {value:.3f}" for one, value in recall.items())
        said = f"highest objective {worst['without']:.3g} of that without features; recall {said}"
        checks.true(
            f"{name}: the objective never rises above its start without the check", worst["without"] <= 1.0, said
        )
    return checks


def columns_of(number: int, loss: str, sizes: dict[str, list[int]], error: str, here: str) -> Figure:
    """Return figure 1 or 2."""
    workers = [1, 2, 5, 10, 20]
    by = {"loss": loss, "s": 100, "scans": SCANNED}
    return Figure(
        f"os-{number}",
        "OS",
        f"Figure {number}",
        {1: "linear regression", 2: "squared hinge loss"}[number],
        f"Recall of the true features and {error}, by the number of features (left), of scans (middle) and of "
        f"simulated "
        "workers (right); 100 true features, means of 30 data sets. The L0 methods (OS, Proj-GD) have the highest "
        "recall, and "
        "OS almost that of the batch method Proj-GD. Two or three scans are enough. Recall falls with more workers.",
        here
        + " All online methods scan the features twice (left). Grafting and L1 coordinate descent get the penalty with "
        "which L1 batch keeps enough features. Scans and workers vary at the middle number of features.",
        {
            "smoke": {"seeds": 2, **by, "sizes": sizes["smoke"], "s": 25, "workers": [1, 2, 5, 10]},
            "small": {"seeds": 3, **by, "sizes": sizes["small"], "workers": workers},
            "paper": {"seeds": 30, **by, "sizes": sizes["paper"], "workers": workers},
        },
        synthetic,
        tuple(
            Panel(f"{value}, by {x}", x, value, {"panel": x})
            for value in ("recall", "error")
            for x in ("features", "scans", "workers")
        ),
        synthetic_agrees,
    )


# fmt: off
FIGURES = [
    columns_of(
        1, "squared",
        {
            "smoke": [500, 750, 1000],
            "small": [2000, 4000, 6000],
            "paper": list(range(2000, 6001, 500)),
        },
        "relative error of the refit",
        "the paper's design with n = 1.2 s log2 p rows, and columns of unit length: with columns of unit variance, "
        "as the paper's text has it, the noise of 0.1 is too small to make any recall but one.",
    ),
    columns_of(
        2, "squared_hinge",
        {
            "smoke": [250, 500, 750],
            "small": [1000, 3000, 5000],
            "paper": list(range(1000, 5001, 500)),
        },
        "share of wrong classes",
        "the paper's design with n = 1.2 s log2 p rows, and as many test rows.",
    ),
    Figure(
        "os-3", "OS", "Figure 3", "running time of Asy-OS",
        "Training error against time on six machines (two workers on each), and the speed-up over the sequential "
        "method, for n = 1,000, p = 8,192, s = 64 (regression) and 32 (classes). More workers are faster, more than "
        "linearly, up to eight.",
        "no six machines. Workers are simulated, and time is counted in rounds: in a round each worker receives one "
        "feature. A round is what the paper's workers do at the same time if messages cost nothing, and so a "
        "speed-up here is the most that can be had. The error to reach is the one after nine tenths of the fall "
        "that a single worker achieves. The effect of messages cannot be seen here, so the paper's limit of eight "
        "workers is not tested.",
        {
            "smoke": {"seeds": 1, "p": 1024, "s": 16, "n": 300, "workers": [1, 2, 4, 8]},
            "small": {"seeds": 3, "p": 4096, "s": 32, "n": 1000, "workers": [1, 2, 4, 8, 12]},
            "paper": {"seeds": 10, "p": 8192, "s": 64, "n": 1000, "workers": [1, 2, 4, 8, 12]},
        },
        time_to_error,
        tuple(Panel(f"speed-up, {loss} loss", "workers", "speedup", {"loss": loss}) for loss in LOSSES),
        time_agrees,
    ),
    Figure(
        "os-4", "OS", "Figure 4",
        "classification of images, one row in a hundred to learn from",
        "Test error on 6,914 images with 7,488 features (private or public photographs), by the number of features "
        "s, of scans and of workers. L1 batch has a higher error if s is small. Two or three scans are enough. The "
        "error grows with more workers.",
        "the photographs are not public. Images of digits, 4 against 9, were used: 7,000 images with 5,000 features "
        "(pixels, products of pixels, and permuted columns), made by the recipe of gisette; at scale smoke the first "
        "1,000 of these.",
        {
            "smoke": {"seeds": 1, "n_columns": 1000, "counts": COUNTS, "scans": SCANNED, "workers": [1, 2, 5]},
            "small": {"seeds": 5, "n_columns": 5000, "counts": COUNTS, "scans": SCANNED, "workers": [1, 2, 5, 10]},
            "paper": {"seeds": 30, "n_columns": 5000, "counts": COUNTS, "scans": SCANNED, "workers": [1, 2, 5, 10]},
        },
        images,
        tuple(Panel(f"test error, by {x}", x, "error", {"panel": p}) for x, p in BY_IMAGES),
        images_agree, needs_data=True,
    ),
    Figure(
        "os-check", "OS", "Section 3.2", "Asy-OS without the check of the objective",
        "No figure. The paper omits the check that the objective falls in practice, and Theorem 2 assumes small "
        "steps.",
        "the design of Figure 1, with independent columns, columns with a common factor (correlation 0.5) and an "
        "autoregression (0.9); the default rule, workers in synchronous rounds, wide blocks, four scans.",
        {
            "smoke": {"seeds": 2, "p": 600, "s": 25, "workers": 10, "width": 15},
            "small": {"seeds": 3, "p": 3000, "s": 100, "workers": 10, "width": 15},
            "paper": {"seeds": 30, "p": 3000, "s": 100, "workers": 10, "width": 15},
        },
        check_matters, (Panel("recall", "data", "recall"),), check_agrees,
    ),
]
# fmt: on
