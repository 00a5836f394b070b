"""The reads and the memory of MISSION: integers in, integers out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from daskfs.errors import ConfigError
from daskfs.losses import find_loss, loss_of_two
from daskfs.matrix.names import Names
from daskfs.matrix.spans import Spans
from daskfs.parameters import n_to_select
from daskfs.selectors.inputs import columns_of
from daskfs.selectors.mission.entries import MOST_IDS
from daskfs.selectors.mission.model import ModelShape
from daskfs.selectors.mission.reading import Cuts
from daskfs.selectors.mission.rounds import REPORTS, PassOrder
from daskfs.selectors.shared.budget import Budget, DataShape, SelectorPlan, most_within
from daskfs.selectors.shared.work import Work, added, of_refit

PIECE_NBYTES = 16 << 20  # rows as sparse entries at one time, if the memory allows
DECODED_NBYTES = 256 << 20  # rows decoded at one time, so that no tile is decoded twice: a row of tiles is not larger
N_PIECES = 3  # pieces in memory: one is used, one is read ahead, one is on its way
N_MODELS = 3  # models in memory of a task: its input, its own, its output
N_AVERAGED = 4  # in addition, of averaged models: two of the round before, two that the client requested
REFIT_VALUES = 1 << 20  # values of the selected columns per block of an exact refit, with their copies
EXACT_COST, EXACT_COST_OF_ONE_STEP = 2e8, 4e9  # multiplications of a Newton step up to which a refit is exact
REFIT_STEPS, MOST_REFIT_EPOCHS = 20_000, 100  # refit by descent: smallest number of rows, largest number of passes
FEW = 1e6  # multiplications below which stochastic descent has too few rows to converge
ROWS_PER_COLUMN = 10  # with two classes; with less, they are linearly separable by chance


SURVEY_ROWS = 4096
SURVEY_VALUES = 1 << 22  # values of a dense matrix that are surveyed before training
LEAST_SURVEYED = 256  # rows of it: standard deviations are accurate to 5 %

DEFAULT_N_SELECTED = 1000
ROWS_OF_A_DEFAULT, FEWEST_OF_A_DEFAULT = 2, 10  # rows per feature in the default number of features; its minimum
CANDIDATES, FEWEST_CANDIDATES, MOST_CANDIDATES = 4, 400, 1000  # candidates per requested feature; minimum; maximum
CHOICE_COST = 4e9  # largest number of multiplications for the second moments of all candidates
DEFAULT_BUCKETS = 1 << 18
FEWEST_BUCKETS = 1 << 10


def n_outputs_of(loss: str, n_classes: int) -> int:
    """Return the number of predictions per row: one, or for a classifier with more than two classes one for each."""
    return n_classes if n_classes > 2 and find_loss(loss).is_classifier else 1


def buckets_of(asked: int | None, n_features: int) -> int:
    """Return the number of cells per row of the sketch: 2¹⁸, or about twice the number of features if that is smaller.

    Examples
    --------
    >>> buckets_of(None, 10**6), buckets_of(None, 5000), buckets_of(64, 5000)
    (262144, 16384, 64)
    """
    if asked is not None:
        return int(asked)
    return min(DEFAULT_BUCKETS, max(FEWEST_BUCKETS, 1 << (2 * n_features - 1).bit_length()))


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a fit: the parameters of `daskfs.Mission` with the same names, or those of a baseline."""

    n_features_to_select: int | None
    loss: str
    variant: str
    """As in `ModelShape`."""
    n_buckets: int | None
    n_hashes: int
    """0: one cell for each feature."""
    n_epochs: int
    learning_rate: float | None
    intercept_rate: float
    tail_half_life: float | None
    block_rows: int
    n_replicas: int
    sync_every: int
    standardize: bool
    class_weight: Any
    refit: str | None
    seed: int
    n_candidates: int | str | None = None
    """If "auto", the number for which the rows' second moments are cheap."""
    n_gathered: int = 0
    """As in `ModelShape`."""
    always_include: Any = None
    """Columns by number or name, as in the parameter."""
    per_class: bool = False
    """Whether each of several classes has its own features."""
    is_stream: bool = False
    """Whether rows come only once and are not all known in advance."""
    total_weight: float | None = None
    """Total weight of the rows, if they have weights: a row of weight 2 counts as two."""

    def n_selected(self, data: DataShape) -> int:
        """Return the number of features to select.

        Raises
        ------
        ConfigError
            More features are requested than there are.
        """
        supported = DEFAULT_N_SELECTED
        if not self.is_stream and self.variant != "hashing":
            n_rows = data.n_samples if self.total_weight is None else self.total_weight
            supported = min(supported, max(FEWEST_OF_A_DEFAULT, int(n_rows / ROWS_OF_A_DEFAULT)))
        return n_to_select(self.n_features_to_select, data.n_features, supported)

    def n_learnt(self, data: DataShape, n_outputs: int) -> int:
        """Return the number of active features after a selection: candidates, if there is a choice among them."""
        n_selected, asked = self.n_selected(data), self.n_candidates
        if asked is None or self.is_stream or self.refit is None:
            return n_selected
        if asked == "auto":
            affordable = int(math.sqrt(CHOICE_COST / (data.n_samples * n_outputs)))
            asked = min(max(CANDIDATES * n_selected, FEWEST_CANDIDATES), MOST_CANDIDATES, affordable)
        return min(max(int(asked), n_selected), data.n_features)

    def order(self, n_samples: int) -> PassOrder:
        """Return the order of the rows in the passes."""
        return PassOrder(n_samples, self.block_rows, self.n_replicas, self.sync_every, self.seed)

    def half_life(self, n_samples: int) -> float:
        """Return the number of rows in which the tail halves; infinite for never."""
        return math.inf if self.tail_half_life is None else self.tail_half_life * n_samples

    def model(self, data: DataShape, n_outputs: int) -> ModelShape:
        """Return the shape of a model with `n_outputs` outputs.

        Raises
        ------
        ConfigError
            More features are requested than there are.
        """
        return ModelShape(
            n_selected=self.n_learnt(data, n_outputs),
            n_buckets=buckets_of(self.n_buckets, data.n_features) if self.n_hashes else data.n_features,
            n_hashes=self.n_hashes,
            seed=self.seed,
            n_outputs=n_outputs,
            loss=loss_of_two(self.loss) if n_outputs == 1 else self.loss,
            variant=self.variant,
            n_gathered=self.n_gathered,
            per_class=self.per_class and n_outputs > 1,
        )


@dataclass(frozen=True, slots=True)
class MissionShape:
    """A matrix, the settings of a fit, and what follows from both."""

    data: DataShape
    settings: Settings
    model: ModelShape
    """Shape of the model; its active features are candidates if there is a choice."""
    n_selected: int
    """Largest number of features that are selected in the end."""
    refit: str | None
    """One of "exact", "sgd" and None."""
    nnz_per_row: float | None = None
    """Entries per row; None if rows are dense."""

    @classmethod
    def of(cls, data: DataShape, settings: Settings, n_outputs: int = 1, nnz_per_row: float | None = None) -> Self:
        """Return the shape of a fit."""
        model = settings.model(data, n_outputs)
        n_selected = settings.n_selected(data) if not model.is_by_class else min(model.most_selected, data.n_features)
        refit = chosen_refit(settings.refit, model.loss, n_outputs, data.n_samples, n_selected)
        return cls(data, settings, model, n_selected, refit, nnz_per_row)

    def with_always(self, names: Names) -> Self:
        """Return the shape with the numbers of the columns that are always included.

        Raises
        ------
        ConfigError, DataError
            Features are ids without names, a column does not exist, or there are more columns than are selected.
        """
        asked, n_features = self.settings.always_include, self.data.n_features
        if asked is None:
            return self
        if n_features >= MOST_IDS:
            problem = "has no effect with 64-bit ids as features, which are not known in advance"
            raise ConfigError(problem, "always_include", "leave it out, or create a store from the source")
        always = np.sort(columns_of(asked, n_features, names, "always_include"))
        if len(always) > self.n_selected:
            problem = f"expected at most {self.n_selected} columns, found {len(always)}"
            raise ConfigError(problem, "always_include", "raise n_features_to_select")
        return replace(self, model=replace(self.model, always=tuple(always.tolist())))

    @property
    def has_choice(self) -> bool:
        """Whether the selection uses exact statistics, if only to leave out constant columns."""
        cost = self.model.n_outputs * self.data.n_samples * self.model.n_selected**2
        return (
            self.refit is not None
            and self.settings.n_candidates is not None
            and (self.model.n_selected > self.n_selected or cost <= CHOICE_COST)
        )

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse entries."""
        return self.nnz_per_row is not None or self.data.n_entries is not None

    @property
    def tile_rows(self) -> int:
        """Rows of a tile, if rows are dense and come from tiles; else 0."""
        rows = 1 if self.data.tile_shape is None else self.data.tile_shape[0]
        return 0 if self.is_sparse or rows == 1 else min(rows, self.data.n_stored or self.data.n_samples)

    def rows_nbytes(self, n_rows: int) -> int:
        """Return the bytes of this many rows as entries (an id and a value each) and, if needed, as dense rows.
        Sparse rows include a copy. If a store knows them, the rows with the most entries are assumed; otherwise rows of
        twice the mean length.
        """
        if not self.is_sparse:
            is_float = self.data.dtype in (np.float32, np.float64)
            dense = self.data.itemsize if not self.tile_rows else 0 if is_float else 4
            return n_rows * (self.data.n_features * (dense + 8) + 64)
        if self.data.crowding is not None:
            return self.data.crowding.rows.of(n_rows) * (self.data.itemsize + 8 + 12) + 64 * n_rows
        mean = self.nnz_per_row
        if mean is None:
            mean = (self.data.n_entries or 0) / max(1, self.data.n_samples)
        return n_rows * (int(2 * mean * (self.data.itemsize + 8 + 12)) + 64)

    def cuts(self, memory_limit: int | None) -> Cuts:
        """Return how many rows are decoded at once (whole tiles if possible), and how many are entries at once."""
        room, decoded, spans = PIECE_NBYTES, 0, None
        left = None if memory_limit is None else memory_limit - self._training(Cuts(0)).nbytes
        if self.tile_rows:
            row_nbytes = self.data.n_features * self.data.itemsize
            decoded = DECODED_NBYTES if left is None else min(DECODED_NBYTES, left - N_PIECES * self.rows_nbytes(1))
            most = max(1, min(decoded // row_nbytes, max(self.tile_rows, PIECE_NBYTES // row_nbytes)))
            spans = Spans.within(self.tile_rows, most)
            decoded = spans.part * row_nbytes
        if left is not None:
            room = min(room, (left - decoded) // N_PIECES)
        most = self.settings.block_rows if spans is None else min(self.settings.block_rows, spans.part)
        return Cuts(most_within(self.rows_nbytes, room, most), spans)

    def task(self, cuts: Cuts) -> Budget:
        """Return the peak memory of one task, which learns from rows or takes part in the refit."""
        return max(self._training(cuts), self.exact_refit(), key=lambda budget: budget.nbytes)

    @property
    def least(self) -> Budget:
        """Peak memory of a task that reads row by row."""
        return self.task(Cuts(1, Spans.within(self.tile_rows, 1) if self.tile_rows else None))

    def _training(self, cuts: Cuts) -> Budget:
        """Return the memory of a task that learns from rows cut in this way."""
        scaling = 0 if self.is_sparse else 48 * self.data.n_features
        n_replicas = self.settings.n_replicas
        budget = Budget().add("models", N_MODELS * self.model.nbytes).add("means and scales of columns", scaling)
        budget.add("blocks of a sparse store", N_PIECES * self.data.block_nbytes)
        budget.add("models that are averaged", (n_replicas + N_AVERAGED) * self.model.nbytes if n_replicas > 1 else 0)
        if cuts.spans is not None:
            decoded = min(cuts.spans.part, self.data.n_samples) * self.data.n_features * self.data.itemsize
            budget.add("rows decoded at once", decoded)
        return budget.add("pieces of rows", N_PIECES * self.rows_nbytes(cuts.piece_rows))

    def exact_refit(self) -> Budget:
        """Return the memory of a task that computes second moments, of candidates or for an exact refit."""
        k = max(self.n_selected * (self.refit == "exact"), self.model.n_selected * self.has_choice)
        n_values = self.data.n_samples * k
        if not k:
            return Budget()
        budget = Budget().add("selected columns", min(n_values * max(self.data.itemsize, 4), PIECE_NBYTES))
        budget.add("copies of a block of them", 3 * 8 * min(REFIT_VALUES, n_values))
        n_matrices = 4 if self.settings.always_include is None else 6
        return budget.add("matrices of K x K", n_matrices * 8 * (k + 1) ** 2)


# blocks of a source in memory: one is used, one is surveyed with it, one is read ahead, one is on its way
BLOCKS_ALIVE = 4
NAME_NBYTES, LINE_NBYTES = 400, 64  # a name with its entries in dicts; the usual maximum of a feature's line
READER_NBYTES = 8 << 20  # text not yet parsed, decompressors, arrays that are only half full


def with_blocks_of_source(budget: Budget, shape: MissionShape, block_rows: int, block_nnz: int) -> Budget:
    """Return a budget that adds parsed blocks of a source and the names of active features.

    An entry takes an id, a value, the position of its name, its line and, during training, a copy.
    """
    nnz = min(int(block_rows * 2 * (shape.nnz_per_row or 1)), block_nnz)
    blocks = BLOCKS_ALIVE * (nnz * (8 + 4 + 8 + LINE_NBYTES // 4) + block_rows * 40)
    budget.add("parsed blocks of the source", 2 * blocks + READER_NBYTES)
    return budget.add("names of active features", (3 * shape.model.full + 1024) * NAME_NBYTES)


def plan_mission(shape: MissionShape, memory_limit: int | None) -> SelectorPlan:
    """Return what a fit will read and hold in memory.

    Raises
    ------
    PlanError
        The models and one row do not fit in the limit. The error names sizes that would.
    """
    data, model, settings = shape.data, shape.model, shape.settings
    what = f"a sketch of {model.sketch_nbytes:,} bytes, three times, and one row of {data.n_features:,} columns take"
    least = shape.least
    if memory_limit is not None and least.nbytes > memory_limit:
        least.refuse_over(memory_limit, what, _fitting_buckets(shape, memory_limit))
    n_passes = settings.n_epochs + (shape.refit == "sgd") * n_refit_epochs(settings.n_epochs, data.n_samples)
    client = Budget().add("models", (1 + N_MODELS) * model.nbytes)
    client.add("scores and coefficients", data.n_features * (64 + 16 * model.n_outputs))
    refit = {"exact": ", then the selected columns again", "sgd": ", refit passes among them", None: ""}[shape.refit]
    return SelectorPlan(
        n_tasks=_n_tasks_of_pass(settings, data.n_samples) * n_passes,
        n_passes=n_passes,
        read_nbytes=data.held_nbytes * n_passes,
        task=shape.task(shape.cuts(memory_limit)),
        client=client,
        text=(
            f"mission: {shape.n_selected:,} features, a sketch of {max(model.n_hashes, 1)} x {model.n_buckets:,} "
            f"cells; {n_passes} passes over all columns{refit}"
        ),
        work=_work(shape, n_passes, memory_limit),
    )


def _work(shape: MissionShape, n_passes: int, memory_limit: int | None) -> Work:
    """Return the work: one model learns row by row, and the candidates are chosen once.

    Blocks of rows end within tiles; so do pieces if a row of tiles is larger than what is decoded at once. The survey
    reads its rows for means and again for norms, unless they are decoded together.
    """
    data, model, settings = shape.data, shape.model, shape.settings
    grid, n, cuts = data.grid, data.n_samples, shape.cuts(memory_limit)
    looked_at = min(n_surveyed(data.n_features, shape.is_sparse), n)
    if cuts.spans is None:
        n_tiles = n_passes * grid.rows(n, cuts.piece_rows, settings.block_rows)
        n_surveyed_tiles, are_kept = grid.rows(looked_at, cuts.piece_rows), looked_at <= cuts.piece_rows
    else:
        order = settings.order(n)
        n_tiles = sum(grid.spans(cuts.spans, *order.bounds(number)) for number in range(n_passes))
        n_surveyed_tiles = grid.spans(cuts.spans, np.array([0]), np.array([looked_at]))
        are_kept = cuts.spans.of(0)[1] >= looked_at
    n_surveys = 2 if settings.standardize and not shape.is_sparse and not are_kept else 1
    n_tiles += n_surveyed_tiles * (n_surveys + (shape.refit == "sgd"))
    density = (shape.nnz_per_row or (data.n_entries or 0) / max(1, n)) if shape.is_sparse else data.n_features
    learnt = "entries" if shape.is_sparse else "values"
    room = shape.exact_refit().nbytes
    room = room if memory_limit is None else min(room, memory_limit)
    by_tasks = grid.of_tiles(n_tiles * grid.n_across)
    by_tasks[learnt] = n_passes * n * density * model.n_outputs
    by_tasks["rows"] = n_passes * n * model.n_outputs
    in_client: dict[str, float] = {"fits": 1.0}
    exact = {"candidates": model.n_selected * shape.has_choice, "refit": shape.n_selected * (shape.refit == "exact")}
    for what, n_columns in exact.items():
        loss = "squared" if what == "candidates" else model.loss
        tasks, client = of_refit(grid, n_columns, max(data.itemsize, 4), loss, room, model.n_outputs)
        by_tasks, in_client = added(by_tasks, tasks), added(in_client, client)
    return Work(by_tasks, in_client, n_at_once=settings.n_replicas, method="mission")


def n_surveyed(n_features: int, is_sparse: bool) -> int:
    """Return the number of rows that are surveyed before training."""
    return SURVEY_ROWS if is_sparse else min(SURVEY_ROWS, max(LEAST_SURVEYED, SURVEY_VALUES // n_features))


def _n_tasks_of_pass(settings: Settings, n_samples: int) -> int:
    """Return the largest number of training tasks of a pass: with several models, one per part between averages."""
    if settings.n_replicas == 1:
        return REPORTS
    block, every = settings.block_rows, settings.sync_every
    if every > block:
        return -(-n_samples // (block * -(-every // block)))
    n_blocks, rest = divmod(n_samples, block)
    return n_blocks * -(-block // every) + -(-rest // every)


def n_refit_epochs(n_epochs: int, n_samples: int) -> int:
    """Return the number of passes of a refit by stochastic gradient descent: more if a pass has few rows.

    Examples
    --------
    >>> n_refit_epochs(5, 100_000), n_refit_epochs(5, 1000), n_refit_epochs(1, 1000)
    (2, 20, 20)
    """
    return max(1 if n_epochs == 1 else 2, min(MOST_REFIT_EPOCHS, -(-REFIT_STEPS // n_samples)))


def chosen_refit(wanted: str | None, loss: str, n_outputs: int, n_samples: int, n_selected: int) -> str | None:
    """Return "exact", "sgd" or None: by default exact if Newton steps are cheap and there are enough rows."""
    if wanted != "auto":
        return wanted
    record = find_loss(loss)
    cost = n_outputs * n_samples * n_selected * n_selected
    is_fit = record.is_quadratic or n_samples >= ROWS_PER_COLUMN * n_selected
    is_cheap = cost <= (EXACT_COST_OF_ONE_STEP if record.is_quadratic else EXACT_COST)
    return "exact" if record.has_formula_of_many_rows and (cost <= FEW or (is_cheap and is_fit)) else "sgd"


def _fitting_buckets(shape: MissionShape, memory_limit: int) -> str:
    n_buckets = shape.model.n_buckets
    while n_buckets > 1 and shape.model.n_hashes:
        n_buckets //= 2
        smaller = replace(shape, model=replace(shape.model, n_buckets=n_buckets))
        if smaller.least.nbytes <= memory_limit:
            return f"set n_buckets={n_buckets}"
    return ""
