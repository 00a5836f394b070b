"""Many fits of one selector, each on some rows of one matrix: folds, subsamples, bootstraps.

Rows are views, so nothing is copied from a store. A small fit is a single task on a worker; otherwise the fits are made
one after the other, and each maps its own tasks. Of a matrix with products (`Matrix.column_products`), the method may
first compute together what several fits need (`BaseSelector.ahead`). The results are the same either way but
for rounding, each is stored in the checkpoint under its sample's name, and none of the fits makes a result or warns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from daskfs.matrix.arrays import ArrayMatrix
from daskfs.matrix.base import Matrix
from daskfs.selectors.shared.ahead import Ahead, compute_ahead
from daskfs.selectors.shared.budget import Budget, DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.record import nbytes_of
from daskfs.selectors.shared.run import Run

FIT_NBYTES = 512 << 20
"""Largest memory of a whole fit that is one task, if there is no limit."""
GATHERED_NBYTES = 1 << 30
"""Largest rows of arrays in memory that are gathered into one array."""
SENT_NBYTES = 1 << 20
"""Largest argument that is sent with every task."""
IN_STEP = 16
"""Largest number of fits that share passes: more would save little."""


class Sample(Protocol):
    """Some rows of a matrix; small, since it is sent to workers."""

    @property
    def name(self) -> str:
        """Name of the sample in a checkpoint."""

    def of(self, matrix: Matrix) -> Matrix:
        """Return these rows, a view."""


@dataclass(frozen=True)
class Recipe:
    """How a selector is made in a task: its class, its parameters, and the loss chosen for the target."""

    kind: Any
    parameters: dict[str, Any]
    loss: str
    n_others: int = 1
    """Number of such fits, or groups of fits on samples, that share passes; see `BaseSelector.fits_in_step`."""
    nested: Recipe | None = None
    """That of the selector whose fits this one repeats, if it is of such a kind."""
    n_classes: int | None = None
    """Number of classes, where the selector keeps it for the fits that it repeats."""

    @classmethod
    def of(cls, selector: Any, **changed: Any) -> Self:
        """Return the recipe of a selector whose loss is settled, with some parameters changed."""
        parameters = {name: getattr(selector, name) for name in selector._parameter_owners}
        return cls(
            type(selector),
            {**parameters, "client": None, "verbose": False, **changed},
            selector.loss_,
            selector.fits_in_step,
            Recipe.of(selector.selector_) if hasattr(selector, "selector_") else None,
            getattr(selector, "_n_classes", None),
        )

    def make(self) -> Any:
        """Return an unfitted selector that makes no result and no warnings."""
        selector = self.kind(**self.parameters)
        selector.loss_, selector.is_silent = self.loss, True
        if self.nested is not None:
            selector.selector_ = self.nested.make()
        if self.n_classes is not None:
            selector._n_classes = self.n_classes
        return selector

    def ahead(self, runs: Sequence[Run]) -> list[Ahead]:
        """Return what the fits on several runs can compute together."""
        selector = self.make()
        selector.fits_in_step = self.n_others * len(runs)
        return [one for run in runs for one in selector.ahead(run)]


Answer = Callable[..., dict[str, np.ndarray]]
"""``answer(selector, run, sample, *shared)``: fits, and returns the arrays to keep. Importable by name."""


def on_samples(
    run: Run,
    step: str,
    answer: Answer,
    recipe: Recipe,
    samples: Sequence[Any],
    *shared: Any,
    shape: DataShape | None = None,
    also: Sequence[Run] = (),
) -> list[dict[str, np.ndarray]]:
    """Return a selector's answer on every sample, in order.

    Parameters
    ----------
    run : Run
        Over the matrix of the samples.
    step : str
    answer : callable
    recipe : Recipe
    samples : sequence of Sample
    *shared
        Further arguments of `answer`, which are sent; large ones once.
    shape : DataShape, optional
        Shape of what an answer fits, if it makes more columns.
    also : sequence of Run
        Fits that follow and are prepared together with these, such as the one on all rows.
    """
    shape = run.shape if shape is None else shape
    if run.workers.client is not None and is_a_task(recipe, shape, run.limits, run.matrix.is_resident):
        whole = run.over(run.matrix, by="columns")
        shared = tuple(whole.keep(one) if nbytes_of(one) > SENT_NBYTES else one for one in shared)
        return whole.map(step, _in_a_task, samples, answer, recipe, run.name, run.task_limit, *shared, record=dict)
    kept = {sample.name: run.load(f"{step}-{sample.name}", dict) for sample in samples}
    found = {name: one for name, one in kept.items() if one is not None}
    waiting = [sample for sample in samples if sample.name not in found]
    n_in_step = fits_in_step(shape, len(waiting) + len(also))
    with run.reported(step, len(samples), len(found)) as advance, run.timed(step):
        for start in range(0, len(waiting), n_in_step):
            some = waiting[start : start + n_in_step]
            runs = [run_on(run, step, sample) for sample in some]
            if n_in_step > 1:
                compute_ahead(run, recipe.ahead([*runs, *also]))
                also = []
            for sample, own in zip(some, runs, strict=True):
                found[sample.name] = answer(recipe.make(), own, sample, *shared)
                run.save(f"{step}-{sample.name}", found[sample.name])
                advance()
    return [found[sample.name] for sample in samples]


def run_on(run: Run, step: str, sample: Sample) -> Run:
    """Return the run of a fit on a sample of a run's matrix."""
    own = run.over(gathered(sample.of(run.matrix), run.task_limit)).within(f"{step}-{sample.name}")
    own.whole = run.matrix
    return own


def fits_in_step(shape: DataShape, n_fits: int) -> int:
    """Return how many fits on samples of a matrix are prepared together."""
    return max(1, min(n_fits, IN_STEP)) if shape.has_products else 1


def gathered(rows: Matrix, task_limit: int | None) -> Matrix:
    """Return rows of dense arrays in memory as one contiguous array if there is no memory limit; others unchanged.

    A selector reads them several times, and in a view of scattered rows no column is contiguous.
    """
    first, n_samples = slice(0, 1), rows.shape[0]
    is_scattered = rows.column_view(first) is None and rows.base.column_view(first) is not None
    if task_limit is not None or not is_scattered or n_samples * rows.shape[1] * rows.dtype.itemsize > GATHERED_NBYTES:
        return rows
    random, table = rows.rows_are_random, rows.table_columns
    names = rows.names.given if rows.names.are_given else None
    found: Any = ArrayMatrix(rows.read(slice(None)), rows.read_target(), rows.read_weight(), names, random, table)
    if (groups := rows.declared_groups) is not None:  # rows of the copy, not of the source
        found = found.weighted(rows.read_weight())
        found.keep_together(groups)
    return found if rows.column_weights is None else found.with_column_weights(rows.column_weights)


def is_a_task(recipe: Recipe, shape: DataShape, limits: Limits, is_resident: bool = False) -> bool:
    """Return whether a whole fit on rows of this shape is small enough to be one task."""
    most = FIT_NBYTES if limits.task_nbytes is None else limits.task_nbytes
    if limits.task_nbytes is None and is_resident:
        return True
    plan = recipe.make()._planned(shape, limits)
    return bool((plan.task + plan.client).nbytes <= most)


def plan_samples(recipe: Recipe, shape: DataShape, limits: Limits, n_fits: int, what: str) -> SelectorPlan:
    """Return what `n_fits` fits, each on at most these rows, will read and hold in memory.

    Raises
    ------
    PlanError
        One fit exceeds the limit.
    """
    made = recipe.make()
    made.fits_in_step = fits_in_step(shape, n_fits) * recipe.n_others
    one = made._planned(shape, limits)
    whole = one.task + one.client
    is_task = limits.task_nbytes is None or whole.nbytes <= limits.task_nbytes
    return SelectorPlan(
        n_tasks=n_fits * one.n_tasks,
        n_passes=n_fits * one.n_passes,
        read_nbytes=n_fits * one.read_nbytes,
        task=whole if is_task else one.task,
        client=Budget().include(one.client),
        text=f"{what}, each: {one.text}",
        in_client=one.in_client,
    )


def _in_a_task(
    matrix: Matrix, answer: Answer, recipe: Recipe, name: str, task_limit: int | None, *more: Any
) -> dict[str, np.ndarray]:
    """Run a whole fit in one task, where the rows are."""
    *shared, sample = more
    with Run(gathered(sample.of(matrix), task_limit), name, task_limit=task_limit) as run:
        run.whole = matrix
        return answer(recipe.make(), run, sample, *shared)
