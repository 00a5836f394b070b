"""The step of each selection: the method selects on the training rows."""

from __future__ import annotations

from daskfs.cluster.workers import Workers
from daskfs.matrix.base import Matrix
from daskfs.pipeline.facts import DataFacts
from daskfs.pipeline.limits import PlannedStep, ProcessLimits
from daskfs.pipeline.steps.context import Context
from daskfs.selectors.base import BaseSelector
from daskfs.selectors.shared.budget import Budget, SelectorPlan


def cost(label: str, plan: SelectorPlan, data: DataFacts, limits: ProcessLimits, n_targets: int = 1) -> PlannedStep:
    """Return the planned step; `n_targets` runs share it."""
    client, worker = limits.base_of_client(data.n_samples, data.held_nbytes) + plan.client, Budget()
    if n_targets > 1:
        client.add("genotypes of other targets", data.held_nbytes + (n_targets - 1) * others_nbytes(data))
    if limits.worker is None:
        client.include(plan.task.times(limits.n_tasks_in_process))
    else:
        worker = limits.base_of_worker(data) + plan.task
    numbers = (plan.read_nbytes, plan.n_passes, plan.n_tasks)
    return PlannedStep(label, *numbers, 0, client, worker, plan.text, plan.in_client, plan.work)


def others_nbytes(data: DataFacts) -> int:
    """Return the memory of genotypes that share passes, without their names: values of codes, and vectors."""
    return 16 * data.n_features + 32 * data.n_samples


def run(context: Context, label: str, train: Matrix, workers: Workers, memory_limit: int) -> BaseSelector:
    """Return the fitted selector; `memory_limit` is that of a task, in bytes."""
    selector: BaseSelector = context.pipeline.make_selector(label, memory_limit)
    checkpoint = context.folder.checkpoint.part(label)
    if context.together is not None:
        settings = train, workers, context.watch, memory_limit
        context.together.compute(context.pipeline, label, checkpoint, *settings)
    selector.fit_matrix(train, workers=workers, progress=context.watch, checkpoint=checkpoint)
    return selector
