"""What choosing the number of features costs, in fits: cross-validation of a nested path over ten sizes and five folds.

    python benchmarks/model_selection.py cost [--repeats 3]
    DASKFS_DATA=... python benchmarks/model_selection.py sizes [--sets riboflavin alon gravier]
    DASKFS_DATA=... python benchmarks/model_selection.py goals [--sets riboflavin alon gravier] [--folds 1]

CPU seconds of `SelectionCV` over those of one fit of the largest size, interleaved, the best of several rounds; of each
fold four fifths of the rows are fitted, so that five folds and the fit of all rows are five fits, and the rest is what
the coefficients of ten sizes and the folds' predictions cost.

`sizes`: mean R² or accuracy on open sets, with its standard error over five outer folds, of fixed numbers of features
and of those that cross-validation chooses in each outer fold's training rows.

`goals`: how many features `Auto` keeps for each goal, and what its own predictions are worth on rows held out: R², the
area under the ROC curve, or accuracy of several classes. Means over the first folds of `open_sets.py`, and CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from daskfs import FGM, Auto, Message, Mission, OnlineSubstitution, SelectionCV
from daskfs.baselines import OrthogonalMatchingPursuit

SIZES = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
SHAPES = {"tall": (20_000, 500), "square": (4_000, 4_000), "wide": (500, 20_000)}
SELECTORS: dict[str, Callable[..., Any]] = {
    "fgm": FGM,
    "online_substitution": OnlineSubstitution,
    "mission": Mission,
    "message": Message,
    "orthogonal_matching_pursuit": OrthogonalMatchingPursuit,
}
BOUND = 8.0


def planted(n: int, p: int, loss: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with 50 columns that matter, correlated by common factors, and their target."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32)
    X += 0.5 * rng.standard_normal((n, 10), dtype=np.float32) @ rng.standard_normal((10, p), dtype=np.float32) / 3.0
    z = X[:, rng.choice(p, 50, replace=False)] @ rng.choice([-1.0, 1.0], 50) / 7.0
    noisy = z + rng.standard_normal(n)
    return X, noisy if loss == "squared" else (noisy > 0.0).astype(float)


def seconds(fit: Callable[[], Any]) -> float:
    """Return what a fit takes of CPU time."""
    started = time.process_time()
    fit()
    return time.process_time() - started


def cost(names: list[str], repeats: int) -> None:
    """Print the cost of cross-validation in fits of the largest size."""
    print("| selector | loss | data | one fit, s | 10 sizes x 5 folds, s | in fits |\n|---|---|---|---|---|---|")
    for shape, size in SHAPES.items():
        for loss in ("squared", "logistic"):
            X, y = planted(*size, loss)
            for name in names:
                make, asked = SELECTORS[name], {} if name == "message" else {"n_features_to_select": SIZES[-1]}
                one, all_of_it = np.inf, np.inf
                for _ in range(repeats):
                    one = min(one, seconds(lambda: make(loss=loss, **asked).fit(X, y)))  # noqa: B023
                    chosen = SelectionCV(make(loss=loss), sizes=SIZES, cv=5)
                    all_of_it = min(all_of_it, seconds(lambda: chosen.fit(X, y)))  # noqa: B023
                ratio = all_of_it / one
                print(f"| {name} | {loss} | {shape} | {one:.2f} | {all_of_it:.2f} | {ratio:.1f} |", flush=True)


def sizes(names: list[str], sets: list[str]) -> None:
    """Print what fixed sizes and chosen ones are worth on rows of outer folds."""
    from open_sets import open_set
    from sklearn.model_selection import KFold

    print("| set | selector | features asked for | R² or accuracy | selected |\n|---|---|---|---|---|")
    for one in sets:
        data = open_set(one)
        order = np.random.default_rng(0).permutation(len(data.y))
        for name in names:
            for asked in (10, 30, 100, "cv", "1se"):
                made, scores, selected = SELECTORS[name], [], []
                for train, test in KFold(5).split(order):
                    chooser = SelectionCV(made(), rule="1se") if asked == "1se" else made(asked)
                    fitted = chooser.fit(data.X[order[train]], data.y[order[train]])
                    scores.append(fitted.score(data.X[order[test]], data.y[order[test]]))
                    selected.append(len(fitted.selected_))
                error = np.std(scores, ddof=1) / 5**0.5
                line = f"| {one} | {name} | {asked} | {np.mean(scores):.3f} ± {error:.3f} | {np.mean(selected):.0f} |"
                print(line, flush=True)


def goals(sets: list[str], n_folds: int) -> None:
    """Print what `Auto` selects for each goal, and what that is worth on rows of outer folds."""
    from open_sets import open_set
    from quality import measure_of, scores_with

    print("| set | rows | columns | goal | selected | R², AUC or accuracy | CPU s |\n|---|---|---|---|---|---|---|")
    for one in sets:
        data = open_set(one)
        for goal in ("selection", "prediction"):
            selected, scores, cpu_s = [], [], []
            for train, test in islice(data.folds(), n_folds):
                started = time.process_time()
                fitted = Auto(goal=goal, random_state=0).fit(data.X[train], data.y[train])
                cpu_s.append(time.process_time() - started)
                scores.append(measure_of(data.task, data.y[test], scores_with(fitted, data.X[test], data.task)))
                selected.append(int(fitted.support_.sum()))
            found = f"{np.mean(selected):.0f} | {np.mean(scores):.3f} | {np.mean(cpu_s):.1f} |"
            print(f"| {one} | {len(train):,} | {data.X.shape[1]:,} | {goal} | {found}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cost", "sizes", "goals"])
    parser.add_argument("--selectors", nargs="+", choices=SELECTORS, default=["fgm", "online_substitution", "mission"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=["riboflavin", "alon", "gravier"])
    parser.add_argument("--folds", type=int, default=1)
    given = parser.parse_args()
    if given.what == "cost":
        cost(given.selectors, given.repeats)
    elif given.what == "goals":
        goals(given.sets, given.folds)
    else:
        sizes(given.selectors, given.sets)
