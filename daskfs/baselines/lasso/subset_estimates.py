"""What averaging and the coordinate-wise median share: the Lasso estimates of random subsets of the rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge

from daskfs.baselines.lasso.base import Estimate, LassoBaseline
from daskfs.cluster.open import parse_bytes
from daskfs.cluster.workers import Workers
from daskfs.matrix.base import Progress
from daskfs.parameters import Count
from daskfs.selectors.message.aggregate import vote
from daskfs.selectors.message.notes import notes_on_paths
from daskfs.selectors.message.partition import in_random_order
from daskfs.selectors.message.passes import MessageRun
from daskfs.selectors.message.plan import Shape, choose_n_subsets, plan_message
from daskfs.selectors.message.subset import SelectionSettings
from daskfs.selectors.shared.budget import DataShape, Limits, SelectorPlan
from daskfs.selectors.shared.run import Checkpoint
from daskfs.selectors.shared.targets import null_intercept


class SubsetEstimates(LassoBaseline):
    """Base of the baselines that partition the rows as MESSAGE does, and combine the subsets' shrunk estimates.

    Parameters
    ----------
    n_subsets : int, optional
        The paper's m.
    subset_size : int, optional
        Rows of a subset, instead of `n_subsets`. With neither, as `daskfs.selectors.message.selector.Message` chooses.
    random_state : int, RandomState or None
        Of the partition of rows that do not stand in random order.
    """

    n_subsets_: int
    n_selected_per_subset_: np.ndarray

    n_subsets: Count | None = None
    subset_size: Annotated[int, Ge(2)] | None = None

    @abstractmethod
    def _combine(self, estimates: np.ndarray) -> np.ndarray:
        """Return one estimate for every column of an (n_subsets, n_columns) array, without its NaN."""

    def _plan(self, shape: DataShape, limits: Limits) -> SelectorPlan:
        tile_rows = shape.tile_shape[0] if shape.tile_shape else 1
        return plan_message(self._shape(shape), limits.task_nbytes, limits.n_threads, tile_rows)

    def _shape(self, shape: DataShape) -> Shape:
        n_subsets = choose_n_subsets(shape.n_samples, shape.n_features, self.n_subsets, self.subset_size)
        return replace(self._shape_of_all(shape), n_subsets=n_subsets)

    def _estimate(
        self,
        rows: Any,
        settings: SelectionSettings,
        workers: Workers,
        progress: Progress | None,
        checkpoint: Checkpoint | None,
    ) -> Estimate:
        notes: list[str] = []
        rows = in_random_order(rows, self.random_state, notes)
        shape = self._shape(DataShape.of(rows))
        limit = None if self.memory_limit is None else parse_bytes(self.memory_limit)
        run = MessageRun(rows, shape, limit, workers, progress, checkpoint)
        chosen = run.select(settings)
        coef = self._combined(chosen, shape)
        intercept = float(self._combine(_intercepts(chosen, settings.loss)[:, None])[0])
        return Estimate(
            coef,
            coef != 0.0,
            vote(chosen, shape.n_features, "drop").frequency,
            intercept,
            chosen,
            run.seconds,
            notes + notes_on_paths(chosen),
            {"n_subsets_": shape.n_subsets, "n_selected_per_subset_": chosen["n_selected"]},
        )

    def _combined(self, chosen: dict[str, np.ndarray], shape: Shape) -> np.ndarray:
        """Combine the subsets' estimates of every column."""
        m = shape.n_subsets
        union, place = np.unique(chosen["selected"], return_inverse=True)
        estimates = np.zeros((m, len(union)))
        estimates[np.repeat(np.arange(m), chosen["n_selected"]), place] = chosen["coef"]
        subset_of_constant = np.repeat(np.arange(m), chosen["n_constant"])
        in_union = np.isin(chosen["constant"], union)
        where = np.searchsorted(union, chosen["constant"][in_union])
        estimates[subset_of_constant[in_union], where] = np.nan  # such a subset says nothing of the column
        estimates[chosen["abstains"]] = np.nan
        coef = np.zeros(shape.n_features)
        coef[union] = self._combine(estimates)
        return coef


def _intercepts(chosen: dict[str, np.ndarray], loss: str) -> np.ndarray:
    """Return the subsets' intercepts, also of those that chose nothing."""
    alone = [null_intercept(loss, float(location)) for location in chosen["y_mean"]]
    intercepts = np.where(chosen["n_selected"] > 0, chosen["intercept"], alone)
    return np.where(chosen["abstains"], np.nan, intercepts)
