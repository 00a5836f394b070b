"""What MISSION will read and hold: integers in, integers out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from daskfs.selectors.mission.model import ModelShape
from daskfs.selectors.shared.budget import Budget, SelectorPlan

PIECE_NBYTES = 16 << 20  # of rows read at once, where the memory allows
N_PIECES = 3  # alive: one learnt from, one read ahead, one on its way
N_MODELS = 3  # alive in a task: the one it was given, its own, the one it returns
REFIT_VALUES = 1 << 20  # of the selected columns, in the blocks of an exact refit, with their copies
EXACT_COST = {"squared": 4e9, "other": 2e8}  # multiplications of one Newton step, up to which a refit is exact
FEW = 1e6  # of them, below which stochastic descent has too few rows to arrive anywhere
ROWS_PER_COLUMN = 10  # of two classes: with less, maximum likelihood tells them apart by chance


DEFAULT_N_SELECTED = 1000
DEFAULT_BUCKETS = 1 << 18
FEWEST_BUCKETS = 1 << 10


def buckets_of(asked: int | None, n_features: int) -> int:
    """Return the cells of a row of the sketch: 2¹⁸, or as many as twice the features where there are fewer.

    Examples
    --------
    >>> buckets_of(None, 10**6), buckets_of(None, 5000), buckets_of(64, 5000)
    (262144, 16384, 64)
    """
    if asked is not None:
        return int(asked)
    return min(DEFAULT_BUCKETS, max(FEWEST_BUCKETS, 1 << (2 * n_features - 1).bit_length()))


@dataclass(frozen=True, slots=True)
class MissionShape:
    """A matrix and what is asked of it."""

    n_samples: int
    n_features: int
    itemsize: int
    model: ModelShape
    n_epochs: int
    n_replicas: int
    block_rows: int
    refit: str | None
    """"exact", "sgd" or None."""
    nnz_per_row: float | None = None
    """Of sparse rows; None where they are dense."""

    @property
    def row_nbytes(self) -> int:
        """Of one row: dense with its entries, an id and a value each; or sparse, with a copy, twice the mean length."""
        if self.nnz_per_row is not None:
            return int(2 * self.nnz_per_row * (self.itemsize + 8 + 12)) + 64
        return self.n_features * (self.itemsize + 8) + 64

    def piece_rows(self, memory_limit: int | None) -> int:
        """Return how many rows are read at once."""
        room = PIECE_NBYTES
        if memory_limit is not None:
            room = min(room, (memory_limit - self.fixed_nbytes) // N_PIECES)
        return max(1, min(self.block_rows, room // self.row_nbytes))

    @property
    def fixed_nbytes(self) -> int:
        """Of a task, whatever it reads."""
        return N_MODELS * self.model.nbytes + self.scaling_nbytes

    @property
    def scaling_nbytes(self) -> int:
        """Of means and scales of dense columns."""
        return 0 if self.nnz_per_row is not None else 48 * self.n_features

    def task(self, piece_rows: int) -> Budget:
        """Return the peak of one task: it learns, or takes part in the refit."""
        learning = Budget().add("models", N_MODELS * self.model.nbytes).add("scaling", self.scaling_nbytes)
        learning.add("pieces of rows", N_PIECES * piece_rows * self.row_nbytes)
        refit = Budget().add("refit", self.refit_nbytes)
        return max(learning, refit, key=lambda budget: budget.nbytes)

    @property
    def refit_nbytes(self) -> int:
        """Of an exact refit: the selected columns of a block and their copies, a few K x K matrices."""
        if self.refit != "exact":
            return 0
        k = self.model.n_selected
        kept = min(self.n_samples * k * max(self.itemsize, 4), PIECE_NBYTES)
        return kept + 3 * 8 * min(REFIT_VALUES, self.n_samples * k) + 4 * 8 * (k + 1) ** 2


def plan_mission(shape: MissionShape, memory_limit: int | None) -> SelectorPlan:
    """Return what a fit will read and hold.

    Raises
    ------
    PlanError
        The models and one row do not fit in the limit; with the sizes that would.
    """
    least = shape.task(1)
    if memory_limit is not None and least.nbytes > memory_limit:
        sketch = max(shape.model.n_hashes, 1) * shape.model.n_buckets * shape.model.n_outputs * 4
        what = f"a sketch of {sketch:,} bytes, three times, and one row of {shape.n_features:,} columns take"
        least.refuse_over(memory_limit, what, _fitting_buckets(shape, memory_limit))
    piece_rows = shape.piece_rows(memory_limit)
    n_passes = shape.n_epochs + (shape.refit == "sgd") * n_refit_epochs(shape.n_epochs)
    once = shape.n_samples * shape.n_features * shape.itemsize
    outputs = shape.model.n_outputs
    client = Budget().add("models", (1 + N_MODELS) * shape.model.nbytes)
    client.add("scores and coefficients", shape.n_features * (64 + 16 * outputs))
    refit = {"exact": ", then the selected columns again", "sgd": ", refit passes among them", None: ""}[shape.refit]
    return SelectorPlan(
        n_tasks=max(8, shape.n_replicas) * n_passes,
        n_passes=n_passes,
        read_nbytes=once * n_passes,
        task=shape.task(piece_rows),
        client=client,
        text=(
            f"mission: {shape.model.n_selected:,} features, a sketch of {max(shape.model.n_hashes, 1)} x "
            f"{shape.model.n_buckets:,} cells; {n_passes} passes over all columns{refit}"
        ),
    )


def n_refit_epochs(n_epochs: int) -> int:
    """Return the passes of a refit by stochastic gradient descent."""
    return 1 if n_epochs == 1 else 2


def chosen_refit(wanted: str | None, loss: str, n_outputs: int, n_samples: int, n_selected: int) -> str | None:
    """Return "exact", "sgd" or None: by default exact where Newton steps are cheap and there are rows enough."""
    if wanted != "auto":
        return wanted
    has_newton = loss in ("squared", "logistic", "squared_hinge") or (loss == "multinomial" and n_outputs == 1)
    cost = n_outputs * n_samples * n_selected * n_selected
    is_fit = loss == "squared" or n_samples >= ROWS_PER_COLUMN * n_selected
    is_cheap = cost <= EXACT_COST["squared" if loss == "squared" else "other"]
    return "exact" if has_newton and (cost <= FEW or (is_cheap and is_fit)) else "sgd"


def _fitting_buckets(shape: MissionShape, memory_limit: int) -> str:
    n_buckets = shape.model.n_buckets
    while n_buckets > 1 and shape.model.n_hashes:
        n_buckets //= 2
        smaller = replace(shape, model=replace(shape.model, n_buckets=n_buckets))
        if smaller.task(1).nbytes <= memory_limit:
            return f"set n_buckets={n_buckets}"
    return ""
