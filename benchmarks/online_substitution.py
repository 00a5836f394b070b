"""What a column costs online substitution: engines against the naive one, side by side in one run on one core.

Microseconds of CPU per column over a whole epoch after one that has filled the members (the naive engine over as many
columns as its turn allows, the others over the same ones), for n samples and s members, in float64 and float32 blocks.
Columns are standard normal, the target is a sum of s of them with noise.

    OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/online_substitution.py --n 1000 10000 100000
    OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/online_substitution.py --products
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from daskfs.kernels.substitution.products import cross_products
from daskfs.losses import LOSSES
from daskfs.selectors.online_substitution.columns import Columns, ColumnSettings, prepared
from daskfs.selectors.online_substitution.engines.base import Rule
from daskfs.selectors.online_substitution.engines.choose import make_engine
from daskfs.selectors.online_substitution.engines.point import LossSettings
from daskfs.selectors.online_substitution.engines.squared import SquaredEngine
from daskfs.selectors.online_substitution.members import Members
from daskfs.selectors.online_substitution.plan import batch_of

SQUARED = LossSettings(LOSSES["squared"])
NAIVE_S = 4.0  # of CPU for the naive engine's turn


def make_columns(n: int, p: int, s: int, dtype: np.dtype, seed: int) -> tuple[Columns, np.ndarray]:
    """Return standardised columns and a centred target."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((p, n), dtype=np.float32).astype(dtype, copy=False)
    true = rng.choice(p, s, replace=False)
    y = rng.standard_normal(s) @ rows[true].astype(np.float64) + 0.1 * np.sqrt(s) * rng.standard_normal(n)
    return prepared(np.arange(p), rows, ColumnSettings(True, True, True)), y - y.mean()


def warmed(columns: Columns, y: np.ndarray, s: int, rule: str) -> Any:
    """Return an engine that has seen all columns once."""
    members = Members(s, len(y), columns.rows.dtype)
    made = make_engine(members, y, Rule(rule), "gram", SQUARED)
    take(made, columns, 0, len(columns), s)
    return made


def fresh(columns: Columns, y: np.ndarray, s: int, rule: str, engine: str, warm: Any) -> Any:
    """Return an engine of another kind that stands where the warm one does."""
    members = Members(s, len(y), columns.rows.dtype)
    made = make_engine(members, y, Rule(rule), engine, SQUARED)
    for slot, j in enumerate(warm.members.ids[: warm.members.n_members]):
        members.describe(slot, columns, j)
    members.rows[:] = warm.members.rows
    if isinstance(made, SquaredEngine):
        made.restore(warm.arrays())
    else:
        made.point.coef[:] = warm.coef
        made.point.predict()
        made._estimate()
    return made


def take(engine: Any, columns: Columns, start: int, stop: int, s: int) -> None:
    """Present columns in batches."""
    batch = batch_of(None, s)
    for first in range(start, stop, batch):
        engine.take(columns.take(slice(first, min(first + batch, stop))))


def microseconds(engine: Any, columns: Columns, n_columns: int, s: int) -> float:
    """CPU time per column."""
    started = time.process_time()
    take(engine, columns, 0, n_columns, s)
    return (time.process_time() - started) / n_columns * 1e6


def naive_columns(engine: Any, columns: Columns, s: int) -> tuple[int, float]:
    """Return how many columns the naive engine took in its turn, and microseconds for each."""
    batch, started, n_taken = batch_of(None, s), time.process_time(), 0
    while n_taken < len(columns) and time.process_time() - started < NAIVE_S:
        take(engine, columns, n_taken, min(n_taken + batch, len(columns)), s)
        n_taken = min(n_taken + batch, len(columns))
    return n_taken, (time.process_time() - started) / n_taken * 1e6


def products() -> None:
    """Gflop/s of the products of 64 columns with 100, against NumPy's BLAS on one thread."""
    print("| n | dtype | daskfs | numpy |")
    print("|---|---|---|---|")
    rng = np.random.default_rng(0)
    for n in (1000, 10_000, 100_000):
        for dtype in (np.float64, np.float32, np.int8):
            left, right = (rng.integers(-3, 4, (k, n)).astype(dtype) for k in (64, 100))
            found = [gigaflops(cross_products, left, right)]
            found.append(gigaflops(lambda a, b: a @ b.T, left, right) if dtype != np.int8 else np.nan)
            print(f"| {n:,} | {np.dtype(dtype)} | {found[0]:.0f} | {found[1]:.0f} |", flush=True)


def gigaflops(function: Callable[..., np.ndarray], left: np.ndarray, right: np.ndarray) -> float:
    """Best of five repeats of at least 50 ms of CPU."""
    function(left, right)
    best = np.inf
    for _ in range(5):
        started, n_calls = time.process_time(), 0
        while time.process_time() - started < 0.05:
            function(left, right)
            n_calls += 1
        best = min(best, (time.process_time() - started) / n_calls)
    return 2.0 * left.shape[1] * len(left) * len(right) / best / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--products", action="store_true", help="only the kernel that this rests on")
    parser.add_argument("--n", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--s", type=int, nargs="+", default=[64, 100, 500])
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"])
    parser.add_argument("--megabytes", type=int, default=800, help="of columns at most")
    options = parser.parse_args()
    if options.products:
        products()
        return
    warm, y = make_columns(300, 200, 8, np.dtype(np.float32), 0)
    for rule in ("exchange", "os"):
        for engine in ("naive", "gram", "lazy"):
            for columns in (warm, prepared(warm.ids, warm.rows.astype(np.float64), ColumnSettings(True, True, True))):
                take(fresh(columns, y, 8, rule, engine, warmed(columns, y, 8, rule)), columns, 0, 200, 8)
    print("| n | s | dtype | columns | rule | naive | gram | lazy | gram is faster | lazy is faster |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for n in options.n:
        for s in options.s:
            for dtype in map(np.dtype, options.dtypes):
                p = int(min(8192, options.megabytes * 1e6 / n / dtype.itemsize))
                p = max(p, s * 3 // 2)
                columns, y = make_columns(n, p, s, dtype, seed=1)
                for rule in ("exchange", "os"):
                    line(columns, y, n, s, rule)


def line(columns: Columns, y: np.ndarray, n: int, s: int, rule: str) -> None:
    """Measure one line of the table: every engine over the columns that the naive one managed."""
    warm = warmed(columns, y, s, rule)
    n_columns, naive = naive_columns(fresh(columns, y, s, rule, "naive", warm), columns, s)
    found = []
    for engine in ("gram", "lazy"):
        found.append(microseconds(fresh(columns, y, s, rule, engine, warm), columns, n_columns, s))
    cells = [f"{n:,}", str(s), str(columns.rows.dtype), f"{n_columns:,}", rule, f"{naive:,.0f}"]
    cells += [f"{value:,.1f}" for value in found] + [f"{naive / value:.1f}" for value in found]
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
