"""The reads and the memory of MISSION: integers in, integers out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from daskfs.losses import find_loss
from daskfs.matrix.spans import Spans
from daskfs.selectors.mission.configuration import Configuration, n_refit_epochs
from daskfs.selectors.mission.entries import BLOCK_NNZ, BLOCK_ROWS
from daskfs.selectors.mission.reading import Cuts
from daskfs.selectors.mission.rounds import REPORTS
from daskfs.selectors.shared.budget import Budget, SelectorPlan, most_within
from daskfs.selectors.shared.class_blocks import order_of_hessian
from daskfs.selectors.shared.work import Work, added, of_refit

PIECE_NBYTES = 16 << 20  # rows as sparse entries at one time, if the memory allows
DECODED_NBYTES = 256 << 20  # rows decoded at one time, so that no tile is decoded twice: a row of tiles is not larger
N_PIECES = 3  # pieces in memory: one is used, one is read ahead, one is on its way
N_MODELS = 3  # models in memory of a task: its input, its own, its output
N_AVERAGED = 4  # in addition, of averaged models: two of the round before, two that the client requested
REFIT_VALUES = 1 << 20  # values of the selected columns per block of an exact refit, with their copies

SURVEY_ROWS = 4096
SURVEY_VALUES = 1 << 22  # values of a dense matrix that are surveyed before training
LEAST_SURVEYED = 256  # rows of it: standard deviations are accurate to 5 %


def tile_rows_of(config: Configuration) -> int:
    """Return the rows of a tile, if rows are dense and come from tiles; else 0."""
    data = config.data
    rows = 1 if data.tile_shape is None else data.tile_shape[0]
    return 0 if config.is_sparse or rows == 1 else min(rows, data.n_stored or data.n_samples)


def rows_nbytes(config: Configuration, n_rows: int) -> int:
    """Return the bytes of this many rows as entries (an id and a value each) and, if needed, as dense rows.

    Sparse rows include a copy. If a store knows them, the rows with the most entries are assumed; otherwise rows of
    twice the mean length.
    """
    data = config.data
    if not config.is_sparse:
        is_float = data.dtype in (np.float32, np.float64)
        dense = data.itemsize if not tile_rows_of(config) else 0 if is_float else 4
        return n_rows * (data.n_features * (dense + 8) + 64)
    if data.crowding is not None:
        return data.crowding.rows.of(n_rows) * (data.itemsize + 8 + 12) + 64 * n_rows
    mean = config.nnz_per_row
    if mean is None:
        mean = (data.n_entries or 0) / max(1, data.n_samples)
    return n_rows * (int(2 * mean * (data.itemsize + 8 + 12)) + 64)


def cuts_within(config: Configuration, memory_limit: int | None) -> Cuts:
    """Return how many rows are decoded at once (whole tiles if possible), and how many are entries at once."""
    data, room, decoded, spans, tile_rows = config.data, PIECE_NBYTES, 0, None, tile_rows_of(config)
    left = None if memory_limit is None else memory_limit - _training(config, Cuts(0)).nbytes
    if tile_rows:
        row_nbytes = data.n_features * data.itemsize
        decoded = DECODED_NBYTES if left is None else min(DECODED_NBYTES, left - N_PIECES * rows_nbytes(config, 1))
        most = max(1, min(decoded // row_nbytes, max(tile_rows, PIECE_NBYTES // row_nbytes)))
        spans = Spans.within(tile_rows, most)
        decoded = spans.part * row_nbytes
    if left is not None:
        room = min(room, (left - decoded) // N_PIECES)
    most = config.block_rows if spans is None else min(config.block_rows, spans.part)
    return Cuts(most_within(lambda n_rows: rows_nbytes(config, n_rows), room, most), spans)


def task_of(config: Configuration, cuts: Cuts | None = None) -> Budget:
    """Return the peak memory of one task, which learns from rows or takes part in the refit; by default row by row."""
    if cuts is None:
        tile_rows = tile_rows_of(config)
        cuts = Cuts(1, Spans.within(tile_rows, 1) if tile_rows else None)
    return max(_training(config, cuts), exact_refit_of(config), key=lambda budget: budget.nbytes)


def _training(config: Configuration, cuts: Cuts) -> Budget:
    """Return the memory of a task that learns from rows cut in this way."""
    data, model_nbytes, n_replicas = config.data, config.model.nbytes, config.n_replicas
    scaling = 0 if config.is_sparse else 48 * data.n_features
    budget = Budget().add("models", N_MODELS * model_nbytes).add("means and scales of columns", scaling)
    budget.add("blocks of a sparse store", N_PIECES * data.block_nbytes)
    budget.add("models that are averaged", (n_replicas + N_AVERAGED) * model_nbytes if n_replicas > 1 else 0)
    if cuts.spans is not None:
        decoded = min(cuts.spans.part, data.n_samples) * data.n_features * data.itemsize
        budget.add("rows decoded at once", decoded)
    return budget.add("pieces of rows", N_PIECES * rows_nbytes(config, cuts.piece_rows))


def exact_refit_of(config: Configuration) -> Budget:
    """Return the memory of a task that computes second moments, of candidates or for an exact refit."""
    k = max(config.n_selected * (config.refit == "exact"), config.model.n_selected * config.has_choice)
    n_values = config.data.n_samples * k
    if not k:
        return Budget()
    budget = Budget().add("selected columns", min(n_values * max(config.data.itemsize, 4), PIECE_NBYTES))
    budget.add("copies of a block of them", 3 * 8 * min(REFIT_VALUES, n_values))
    of_classes = order_of_hessian(config.n_selected, config.model.n_outputs) if config.refit == "exact" else 0
    order = max(k + 1, of_classes if find_loss(config.model.loss).has_classes else 0)
    return budget.add("matrices of K x K", (6 if config.has_always else 4) * 8 * order**2)


# blocks of a source in memory: one is used, one is surveyed with it, one is read ahead, one is on its way
BLOCKS_ALIVE = 4
NAME_NBYTES, LINE_NBYTES = 400, 64  # a name with its entries in dicts; the usual maximum of a feature's line
READER_NBYTES = 8 << 20  # text not yet parsed, decompressors, arrays that are only half full


def with_blocks_of_source(budget: Budget, config: Configuration, block_rows: int, block_nnz: int) -> Budget:
    """Return a budget that adds parsed blocks of a source and the names of active features.

    An entry takes an id, a value, the position of its name, its line and, during training, a copy.
    """
    nnz = min(int(block_rows * 2 * (config.nnz_per_row or 1)), block_nnz)
    blocks = BLOCKS_ALIVE * (nnz * (8 + 4 + 8 + LINE_NBYTES // 4) + block_rows * 40)
    budget.add("parsed blocks of the source", 2 * blocks + READER_NBYTES)
    return budget.add("names of active features", (3 * config.model.full + 1024) * NAME_NBYTES)


def plan_mission(config: Configuration, memory_limit: int | None) -> SelectorPlan:
    """Return what a fit will read and hold in memory.

    Raises
    ------
    PlanError
        The models and one row do not fit in the limit. The error names sizes that would.
    """
    data, model = config.data, config.model
    what = f"a sketch of {model.sketch_nbytes:,} bytes, three times, and one row of {data.n_features:,} columns take"
    least = task_of(config)
    if memory_limit is not None and least.nbytes > memory_limit:
        least.refuse_over(memory_limit, what, _fitting_buckets(config, memory_limit))
    n_passes = config.n_epochs + (config.refit == "sgd") * n_refit_epochs(config.n_epochs, data.n_samples)
    client = Budget().add("models", (1 + N_MODELS) * model.nbytes)
    client.add("scores and coefficients", data.n_features * (64 + 16 * model.n_outputs))
    refit = {"exact": ", then the selected columns again", "sgd": ", refit passes among them", None: ""}[config.refit]
    return SelectorPlan(
        n_tasks=_n_tasks_of_pass(config, data.n_samples) * n_passes,
        n_passes=n_passes,
        read_nbytes=data.held_nbytes * n_passes,
        task=task_of(config, cuts_within(config, memory_limit)),
        client=client,
        text=(
            f"mission: {config.n_selected:,} features, a sketch of {max(model.n_hashes, 1)} x {model.n_buckets:,} "
            f"cells; {n_passes} passes over all columns{refit}"
        ),
        work=_work(config, n_passes, memory_limit),
    )


def plan_of_source(config: Configuration, memory_limit: int | None) -> SelectorPlan:
    """Return what one pass over a sparse source will hold in memory.

    Raises
    ------
    PlanError
    """
    k, model = config.n_selected, config.model
    text = f"mission: {k:,} features, a sketch of {max(model.n_hashes, 1)} x {model.n_buckets:,} cells; one pass"
    task = with_blocks_of_source(Budget(), config, BLOCK_ROWS, BLOCK_NNZ)
    if memory_limit is not None:
        task.refuse_over(memory_limit, "blocks of the source take")
        memory_limit -= task.nbytes
    plan = plan_mission(config, memory_limit)
    client = Budget().add("the result", 1000 * k).add("models", 2 * model.nbytes)
    return replace(plan, text=text, task=plan.task + task, client=client)


def _work(config: Configuration, n_passes: int, memory_limit: int | None) -> Work:
    """Return the work: one model learns row by row, and the candidates are chosen once.

    Blocks of rows end within tiles; so do pieces if a row of tiles is larger than what is decoded at once. The survey
    reads its rows for means and again for norms, unless they are decoded together.
    """
    data, model = config.data, config.model
    grid, n, cuts = data.grid, data.n_samples, cuts_within(config, memory_limit)
    looked_at = min(n_surveyed(data.n_features, config.is_sparse), n)
    if cuts.spans is None:
        n_tiles = n_passes * grid.rows(n, cuts.piece_rows, config.block_rows)
        n_surveyed_tiles, are_kept = grid.rows(looked_at, cuts.piece_rows), looked_at <= cuts.piece_rows
    else:
        order = config.order(n)
        n_tiles = sum(grid.spans(cuts.spans, *order.bounds(number)) for number in range(n_passes))
        n_surveyed_tiles = grid.spans(cuts.spans, np.array([0]), np.array([looked_at]))
        are_kept = cuts.spans.of(0)[1] >= looked_at
    n_surveys = 2 if config.standardize and not config.is_sparse and not are_kept else 1
    n_tiles += n_surveyed_tiles * (n_surveys + (config.refit == "sgd"))
    density = (config.nnz_per_row or (data.n_entries or 0) / max(1, n)) if config.is_sparse else data.n_features
    learnt = "entries" if config.is_sparse else "values"
    room = exact_refit_of(config).nbytes
    room = room if memory_limit is None else min(room, memory_limit)
    by_tasks = grid.of_tiles(n_tiles * grid.n_across)
    by_tasks[learnt] = n_passes * n * density * model.n_outputs
    by_tasks["rows"] = n_passes * n * model.n_outputs
    in_client: dict[str, float] = {"fits": 1.0}
    exact = {"candidates": model.n_selected * config.has_choice, "refit": config.n_selected * (config.refit == "exact")}
    for what, n_columns in exact.items():
        loss = "squared" if what == "candidates" else model.loss
        tasks, client = of_refit(grid, n_columns, max(data.itemsize, 4), loss, room, model.n_outputs)
        by_tasks, in_client = added(by_tasks, tasks), added(in_client, client)
    return Work(by_tasks, in_client, n_at_once=config.n_replicas, method="mission")


def n_surveyed(n_features: int, is_sparse: bool) -> int:
    """Return the number of rows that are surveyed before training."""
    return SURVEY_ROWS if is_sparse else min(SURVEY_ROWS, max(LEAST_SURVEYED, SURVEY_VALUES // n_features))


def _n_tasks_of_pass(config: Configuration, n_samples: int) -> int:
    """Return the largest number of training tasks of a pass: with several models, one per part between averages."""
    if config.n_replicas == 1:
        return REPORTS
    block, every = config.block_rows, config.sync_every
    if every > block:
        return -(-n_samples // (block * -(-every // block)))
    n_blocks, rest = divmod(n_samples, block)
    return n_blocks * -(-block // every) + -(-rest // every)


def _fitting_buckets(config: Configuration, memory_limit: int) -> str:
    n_buckets = config.model.n_buckets
    while n_buckets > 1 and config.model.n_hashes:
        n_buckets //= 2
        smaller = replace(config, model=replace(config.model, n_buckets=n_buckets))
        if task_of(smaller).nbytes <= memory_limit:
            return f"set n_buckets={n_buckets}"
    return ""
