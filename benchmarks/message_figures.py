"""Figures 1 to 6 of Wang, Peng and Dunson (2014): error, chance of the true model and time of five methods.

    python benchmarks/message_figures.py --replicates 20                        (all six figures)
    python benchmarks/message_figures.py --cases 1 --correlations 0 --sizes 2000 --n-features 100 --replicates 2
                                                                                (what the test suite runs)
    python benchmarks/message_figures.py --n-features 10000 --subset-size 2000 --sizes 20000 30000 40000 50000
                                                                                (the paper's supplement; 2 GB of memory)

Data: the designs of section 4.1 (`daskfs.sources.synthetic`): case 1 normal noise, case 2 Student's t(3), case 3 the
logistic model; three true features; features of pairwise correlation 0 or 0.5. MESSAGE, averaging and the median see
subsets of 400 rows; full data and Bolasso (32 bootstrap samples, of which the paper does not say the number) see all
rows. The oracle is told the true features and fits them on all rows. The error is ‖β̂ - β‖², the time CPU time of this
process on one thread, kernels compiled before; with a machine for every subset, as the paper counts, the subset methods
take the m-th part of it.

The baselines have two rows each, by the criteria BIC and EBIC (γ = ½): MESSAGE itself takes BIC where many subsets
vote, EBIC where one does. MESSAGE has three: the library's default; the vote alone, without its second vote; and the
paper's recipe to the letter (BIC on glmnet's shrunk fit, a strict majority, a plain average).

Writes figures.csv, row
by row, and figure_<k>.png, as the paper draws them;
prints the tables. Run again with the same output folder, it goes on after the data sets that figures.csv has: twenty of
each size in all figures first, then the next twenty. Ends with 1 where MESSAGE finds the true model in less than 95 %
(case 3: 90 %) of the data sets of some size, or errs by more than 1.1 times the oracle's error.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from daskfs.baselines.lasso.bolasso import Bolasso
from daskfs.baselines.lasso.full_data import FullData
from daskfs.baselines.lasso.subset_estimates import Averaging, Median
from daskfs.matrix.arrays import ArrayMatrix
from daskfs.selectors.message.selector import Message
from daskfs.sources.synthetic import SyntheticSource

NOISE = {1: "normal", 2: "t3", 3: "logistic"}
FIGURE = {(1, 0.0): 1, (1, 0.5): 2, (2, 0.0): 3, (2, 0.5): 4, (3, 0.0): 5, (3, 0.5): 6}
RECIPES: dict[str, dict[str, Any]] = {
    "message": {},
    "message, vote alone": {"second_look": False},
    "message, literal": {
        "criterion": "bic", "gic_rss": "lasso", "patience": 30, "second_look": False, "average": "mean",
    },
}  # fmt: skip
BASELINES = ("full data", "averaging", "median", "bolasso")
CRITERIA = ("bic", "ebic")
KEY = ["case", "correlation", "n", "seed", "method"]
ROUND = 20
METHODS = (*RECIPES, *(f"{name}, {criterion}" for name in BASELINES for criterion in CRITERIA), "oracle")
LINES = {
    "median": ("#7a5195", ":"),
    "full data": ("#b03a2e", "--"),
    "averaging": ("#e08e0b", "-."),
    "message": ("#1f5f8b", "-"),
    "bolasso": ("#2e7d32", (0, (5, 1, 1, 1, 1, 1))),
    "oracle": ("#555555", (0, (1, 3))),
}


def draw(
    case: int, correlation: float, n_samples: int, n_features: int, seed: int
) -> tuple[ArrayMatrix, SyntheticSource]:
    """Return a data set whose rows are independent, hence as good as shuffled."""
    source = SyntheticSource(n_samples, n_features, correlation=correlation, noise=NOISE[case], random_state=seed)
    block = next(source.row_blocks(n_samples))
    return ArrayMatrix(block.X, block.y, shuffled=True), source


def selectors(case: int, subset_size: int, n_bootstraps: int, seed: int) -> dict[str, Any]:
    """Return the methods, none fitted."""
    of_loss: dict[str, Any] = {"loss": "logistic" if case == 3 else "squared"}
    found: dict[str, Any] = {
        name: Message(subset_size=subset_size, **recipe, **of_loss) for name, recipe in RECIPES.items()
    }
    for criterion in CRITERIA:
        options = {"criterion": criterion, **of_loss}
        found |= {
            f"full data, {criterion}": FullData(**options),
            f"averaging, {criterion}": Averaging(subset_size=subset_size, **options),
            f"median, {criterion}": Median(subset_size=subset_size, **options),
            f"bolasso, {criterion}": Bolasso(n_bootstraps=n_bootstraps, random_state=seed, **options),
        }
    return found


def oracle(matrix: ArrayMatrix, support: np.ndarray, is_logistic: bool) -> np.ndarray:
    """Return the fit of the true features on all rows: least squares, or maximum likelihood by Newton's method."""
    X = matrix.read(slice(None), support).astype(np.float64)
    X = np.column_stack([np.ones(len(X)), X])
    y = matrix.read_target(slice(None))
    if not is_logistic:
        return np.linalg.lstsq(X, y, rcond=None)[0][1:]
    coef = np.zeros(X.shape[1])
    for _ in range(50):
        probability = 1 / (1 + np.exp(-np.clip(X @ coef, -500, 500)))
        hessian = (X * (probability * (1 - probability))[:, None]).T @ X
        step = np.linalg.solve(hessian, X.T @ (y - probability))
        coef += step
        if np.abs(step).max() < 1e-10:
            break
    return coef[1:]


def replicate(
    case: int, correlation: float, n_samples: int, seed: int, methods: Sequence[str], arguments: argparse.Namespace
) -> list[dict]:
    """Return one row for each method on one data set."""
    matrix, source = draw(case, correlation, n_samples, arguments.n_features, seed)
    beta = np.zeros(arguments.n_features)
    beta[source.support] = source.coef
    rows = []

    def record(method: str, coef: np.ndarray, seconds: float) -> None:
        found = np.array_equal(np.flatnonzero(coef), source.support)
        error, n_selected = float(((coef - beta) ** 2).sum()), int(np.count_nonzero(coef))
        rows.append(
            {
                "case": case, "correlation": correlation, "n": n_samples, "seed": seed, "method": method,
                "mse": error, "found": found, "n_selected": n_selected, "seconds": seconds,
            }
        )  # fmt: skip

    unfitted = selectors(case, arguments.subset_size, arguments.n_bootstraps, seed)
    for method in methods:
        started = time.process_time()
        if method == "oracle":
            coef = np.zeros(arguments.n_features)
            coef[source.support] = oracle(matrix, source.support, case == 3)
        else:
            coef = unfitted[method].fit_matrix(matrix).coef_
        record(method, coef, time.process_time() - started)
    return rows


def warm_up(arguments: argparse.Namespace) -> None:
    """Compile every kernel before anything is timed."""
    for case in arguments.cases:
        matrix, _ = draw(case, 0.0, 800, 50, 0)
        for selector in selectors(case, 400, 2, 0).values():
            selector.fit_matrix(matrix)


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Return error, chance and time of each method at each size."""
    grouped = results.groupby(["case", "correlation", "method", "n"])
    return grouped.agg(
        mse=("mse", "mean"), p=("found", "mean"), k=("n_selected", "mean"), seconds=("seconds", "median")
    )


def print_table(table: pd.DataFrame, case: int, correlation: float, n_replicates: int) -> None:
    """Print one figure as a table, n from left to right."""
    sizes = sorted(table.loc[(case, correlation)].index.get_level_values("n").unique())
    figure = FIGURE.get((case, correlation), "-")
    print(f"\ncase {case}, correlation {correlation:g}: figure {figure}, {n_replicates} data sets")
    print(f"{'n':<22}" + "".join(f"{n:>11,}" for n in sizes))
    for name, form in (("mse", "11.4f"), ("p", "11.2f"), ("k", "11.1f"), ("seconds", "11.4f")):
        label = {"mse": "MSE", "p": "P(true model)", "k": "features", "seconds": "CPU s"}[name]
        print(f"  {label}")
        for method in METHODS:
            if (case, correlation, method) in table.index.droplevel("n"):
                values = table.loc[(case, correlation, method), name].reindex(sizes)
                print(f"{method:<22}" + "".join(f"{value:{form}}" for value in values))


def draw_figure(table: pd.DataFrame, case: int, correlation: float, subset_size: int, path: Path) -> None:
    """Draw three panels, as the paper does: error, chance of the true model, time."""
    figure = Figure(figsize=(12, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    panels = [("Mean square error", "value", "mse"), ("Probability to select the true model", "prob", "p"),
              ("Computational time", "seconds", "seconds")]  # fmt: skip
    for name, (colour, dash) in LINES.items():
        method = f"{name}, bic" if name in BASELINES else name
        if (case, correlation, method) not in table.index.droplevel("n"):
            continue
        curve = table.loc[(case, correlation, method)].sort_index()
        for panel, (_, _, column) in zip(axes, panels, strict=True):
            values = curve[column]
            if column == "seconds" and name in ("message", "averaging", "median"):
                values = values / np.maximum(1, curve.index // subset_size)  # a machine for every subset
            if not (column == "seconds" and method == "oracle"):
                panel.plot(curve.index, values, color=colour, linestyle=dash, label=method)
    for panel, (title, label, name) in zip(axes, panels, strict=True):
        panel.set(title=title, xlabel="Sample size n", ylabel=label)
        if name == "p":
            panel.set_ylim(-0.05, 1.05)
        if name == "seconds":
            panel.set_yscale("log")
        panel.legend(frameon=False, fontsize=8)
    figure.suptitle(f"Case {case} with ρ = {correlation:g}")
    figure.savefig(path, dpi=120)


def broken_promises(table: pd.DataFrame) -> list[str]:
    """Return where MESSAGE finds the true model too seldom, or errs too much beside the oracle."""
    broken = []
    for (case, correlation, method, n), row in table.iterrows():
        if method != "message":
            continue
        where = f"case {case}, correlation {correlation:g}, n = {n:,}"
        least = 0.90 if case == 3 else 0.95
        if row["p"] < least - 1e-9:
            broken.append(f"{where}: P = {row['p']:.3f} < {least}")
        best = table["mse"].get((case, correlation, "oracle", n), np.inf)
        if row["mse"] > 1.1 * best:
            broken.append(f"{where}: error {row['mse']:.4g} > 1.1 * {best:.4g} of the oracle")
    return broken


def rounds(arguments: argparse.Namespace) -> Iterator[list[tuple[int, float, int, int]]]:
    """Yield data sets (case, correlation, n, seed), twenty seeds of all figures at a time."""
    for start in range(0, arguments.replicates, ROUND):
        seeds = range(start, min(start + ROUND, arguments.replicates))
        yield list(itertools.product(arguments.cases, arguments.correlations, arguments.sizes, seeds))


def run_round(data_sets: list[tuple[int, float, int, int]], path: Path, arguments: argparse.Namespace) -> pd.DataFrame:
    """Measure what `path` does not have yet, write it there at once, return all that is there."""
    done = pd.read_csv(path).set_index(KEY).index if path.exists() else pd.MultiIndex.from_tuples([], names=KEY)
    for data_set in data_sets:
        methods = [method for method in arguments.methods if (*data_set, method) not in done]
        if methods:
            rows = pd.DataFrame(replicate(*data_set, methods, arguments))
            rows.to_csv(path, mode="a", header=not path.exists(), index=False)
    return pd.read_csv(path)


def show(results: pd.DataFrame, arguments: argparse.Namespace) -> pd.DataFrame:
    """Print the tables, draw the figures; return the summary."""
    table = summary(results)
    for case, correlation in itertools.product(arguments.cases, arguments.correlations):
        figure = results[(results["case"] == case) & (results["correlation"] == correlation)]
        print_table(table, case, correlation, figure["seed"].nunique())
        number = FIGURE.get((case, correlation), f"case_{case}_rho_{correlation:g}")
        draw_figure(table, case, correlation, arguments.subset_size, arguments.output / f"figure_{number}.png")
    return table


def main(argv: list[str] | None = None) -> int:
    """Run the figures that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, nargs="+", default=[1, 2, 3], choices=[1, 2, 3])
    parser.add_argument("--correlations", type=float, nargs="+", default=[0.0, 0.5])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 4000, 6000, 8000, 10_000])
    parser.add_argument("--n-features", type=int, default=1000)
    parser.add_argument("--subset-size", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--n-bootstraps", type=int, default=32)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/message_figures"))
    arguments = parser.parse_args(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    warm_up(arguments)
    for data_sets in rounds(arguments):
        results = run_round(data_sets, arguments.output / "figures.csv", arguments)
        table = show(results, arguments)
    broken = broken_promises(table)
    print("\n" + ("\n".join(broken) or "MESSAGE finds the true model as often as promised, at the oracle's error"))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
