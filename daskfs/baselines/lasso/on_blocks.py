"""What a Lasso over all rows does where the data is.

Moments and Gram rows of one row block add up; for the losses that they do not serve, all rows stay together. A
bootstrap sample is a weighting of the rows: how often each was drawn. Imported by workers, hence light.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.errors import DataError
from daskfs.kernels.linear.moments import CONSTANT_RATIO, Moments, gram_rows, moments
from daskfs.matrix.base import Matrix
from daskfs.matrix.blocks import Rows
from daskfs.selectors.message.subset import SelectionSettings, choose
from daskfs.selectors.shared.refit_on_block import read_rows

BLOCK_VALUES = 1 << 22  # 16 MiB of float32


@dataclass(frozen=True, slots=True)
class RowPart:
    """Row block k of a matrix: where its rows stand in the base matrix."""

    k: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class Weighting:
    """All rows as they are, or a bootstrap sample of them.

    A sample draws as many rows as there are, with replacement: first how many from each block (`n_drawn`), then which
    ones, from a seed per block, so that no block needs to know of the others.
    """

    seed: tuple[int, ...] | None = None
    n_drawn: np.ndarray | None = None

    @classmethod
    def bootstrap(cls, seed: tuple[int, ...], sizes: np.ndarray) -> Weighting:
        """Draw a sample from blocks of the given sizes."""
        total = int(sizes.sum())
        return cls(seed, np.random.default_rng(seed).multinomial(total, sizes / total))

    def of(self, part: RowPart, weight: np.ndarray) -> np.ndarray:
        """Return the weights of a block's rows, given those that the user gave them."""
        if self.seed is None or self.n_drawn is None:
            return weight
        rng = np.random.default_rng((*self.seed, part.k))
        drawn = np.bincount(rng.integers(0, len(weight), self.n_drawn[part.k]), minlength=len(weight))
        weighted: np.ndarray = weight * drawn
        return weighted


def block_rows(n_features: int) -> int:
    """Return how many rows a block has; of the width alone, so that sums have the same order everywhere.

    Examples
    --------
    >>> block_rows(1000), block_rows(74), block_rows(1_000_000)
    (4096, 56320, 4)
    """
    rows = max(1, BLOCK_VALUES // n_features)
    return rows - rows % 1024 if rows >= 1024 else rows


def moments_on_block(
    matrix: Matrix, columns: Rows, weightings: tuple[Weighting, ...], part: RowPart
) -> dict[str, np.ndarray]:
    """Return the sums of a block that moments are made of, one row per weighting; `add_moments` adds those of two.

    Raises
    ------
    DataError
        NaN or infinity, with the column's name.
    """
    X, y, weight = _read(matrix, part, columns)
    sums = [_sums(matrix, part, X, y, weighting.of(part, weight)) for weighting in weightings]
    return {name: np.array([one[name] for one in sums]) for name in sums[0]}


def _sums(matrix: Matrix, part: RowPart, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
    if not weight.any():  # no row of the block was drawn
        nothing = np.zeros(X.shape[1])
        return {"total": 0.0, "y_mean": 0.0, "y_square": 0.0, "mean": nothing, "square": nothing, "cross": nothing}
    m = moments(X, y, weight)
    if np.isnan(m.scale).any():
        raise _not_finite(matrix, part, X)
    return {
        "total": m.total,
        "y_mean": m.y_mean,
        "y_square": m.total * m.y_variance,
        "mean": m.mean,
        "square": m.total * m.scale**2,
        "cross": m.total * m.scale * m.cross,
    }


def add_moments(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add the sums of two parts of the rows (Chan, Golub and LeVeque 1979)."""
    total = a["total"] + b["total"]
    share = np.divide(b["total"], total, out=np.zeros_like(total), where=total > 0)
    between = a["total"] * share
    y_step, step = b["y_mean"] - a["y_mean"], b["mean"] - a["mean"]
    return {
        "total": total,
        "y_mean": a["y_mean"] + share * y_step,
        "y_square": a["y_square"] + b["y_square"] + between * y_step**2,
        "mean": a["mean"] + share[:, None] * step,
        "square": a["square"] + b["square"] + between[:, None] * step**2,
        "cross": a["cross"] + b["cross"] + between[:, None] * step * y_step[:, None],
    }


def finished_moments(sums: dict[str, np.ndarray]) -> list[Moments]:
    """Return the Moments of every weighting from the sums over all blocks."""
    found = []
    for k, total in enumerate(sums["total"]):
        mean, variance = sums["mean"][k], sums["square"][k] / total
        scale = np.where(variance > (CONSTANT_RATIO * mean) ** 2, np.sqrt(variance), 0.0)
        cross = np.divide(sums["cross"][k], total * scale, out=np.zeros_like(scale), where=scale > 0)
        found.append(
            Moments(float(total), float(sums["y_mean"][k]), float(sums["y_square"][k] / total), mean, scale, cross)
        )
    return found


@dataclass(frozen=True, slots=True)
class GramRequest:
    """Gram rows that the path of one weighting waits for."""

    weighting: Weighting
    moments: Moments
    features: np.ndarray


def gram_on_block(
    matrix: Matrix, columns: Rows, requests: tuple[GramRequest, ...], part: RowPart
) -> dict[str, np.ndarray]:
    """Return a block's share of all requested ``rows``, one below the other; the shares of all blocks add up."""
    X, _, weight = _read(matrix, part, columns)
    out = np.zeros((sum(len(request.features) for request in requests), X.shape[1]))
    first = 0
    for request in requests:
        last = first + len(request.features)
        gram_rows(X, request.weighting.of(part, weight), request.moments, request.features, out[first:last])
        first = last
    return {"rows": out}


def add_rows(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add the shares of two parts of the rows."""
    return {"rows": a["rows"] + b["rows"]}


def select_on_sample(
    matrix: Matrix, settings: SelectionSettings, rows: Rows, weighting: Weighting
) -> dict[str, np.ndarray]:
    """Select on a bootstrap sample; see `daskfs.selectors.message.subset.choose`."""
    part = RowPart(0, rows)
    X, y, weight = read_rows(matrix, slice(None), settings.positive, rows)
    chosen = choose(X, y, weighting.of(part, weight), settings, is_first=True)
    if chosen is None:
        raise _not_finite(matrix, part, X)
    return {name: chosen[name] for name in ("selected", "y_mean", "lambda", "df", "deviance", "gic", "best")}


def _read(matrix: Matrix, part: RowPart, columns: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = matrix.read(part.rows, columns)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float32)
    y = np.require(matrix.read_target(part.rows), dtype=np.float64, requirements=["C", "W"])
    weight = matrix.read_weight(part.rows)
    weight = np.ones(len(y)) if weight is None else np.require(weight, np.float64, ["C", "W"])
    return np.require(X, dtype=dtype, requirements=["C", "W"]), y, weight


def _not_finite(matrix: Matrix, part: RowPart, X: np.ndarray) -> DataError:
    row, column = (int(found[0]) for found in np.nonzero(~np.isfinite(X)))
    stored = part.rows.start + row if isinstance(part.rows, slice) else int(part.rows[row])
    return matrix.bad_value(stored, column, X[row, column])
