"""The configuration of a fit: the parameters without "auto", and all that follows from them, from the data's shape and,
after the survey, from the first rows. It is made once, and sent to the workers.

Workers import this file, so it is light.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from daskfs.errors import ConfigError
from daskfs.kernels.sketch.rows import StepRule
from daskfs.losses import find_loss, loss_of_two
from daskfs.parameters import n_to_select
from daskfs.selectors.mission.model import ModelShape
from daskfs.selectors.mission.reading import Cuts
from daskfs.selectors.mission.rounds import PassOrder
from daskfs.selectors.mission.survey import Survey, TargetEncoding
from daskfs.selectors.shared.budget import DataShape
from daskfs.selectors.shared.class_blocks import is_affordable

DEFAULT_N_SELECTED = 1000
ROWS_OF_A_DEFAULT, FEWEST_OF_A_DEFAULT = 2, 10  # rows per feature in the default number of features; its minimum
CANDIDATES, FEWEST_CANDIDATES, MOST_CANDIDATES = 4, 400, 1000  # candidates per requested feature; minimum; maximum
CHOICE_COST = 4e9  # largest number of multiplications for the second moments of all candidates
DEFAULT_BUCKETS = 1 << 18
FEWEST_BUCKETS = 1 << 10

EXACT_COST, EXACT_COST_OF_ONE_STEP = 2e8, 4e9  # multiplications of a Newton step up to which a refit is exact
REFIT_STEPS, MOST_REFIT_EPOCHS = 20_000, 100  # refit by descent: smallest number of rows, largest number of passes
FEW = 1e6  # multiplications below which stochastic descent has too few rows to converge
ROWS_PER_COLUMN = 10  # with two classes; with less, they are linearly separable by chance

PERIOD = 0.2
"""Period of the falling learning rate of several passes, in passes."""
ONE_PASS_PERIOD = 256
"""Period of the falling learning rate of one pass or a stream: how often a feature occurs in it, on average.

Measured on planted and public data, dense and sparse, with periods of 64 to 4,096 and a constant rate.
"""
PAPER_RATE = 0.5
"""Constant rate of the paper's experiments (section 6.2), for classification.

The paper gives none for the squared loss; there, steps with this rate diverge if rows are longer than 2.
"""

NO_SURVEY, AS_IT_IS, ROW_BY_ROW = Survey(0.0, 0, 0, 0), TargetEncoding(), Cuts(1)


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
class Configuration:
    """All that a fit knows before it learns: parameters of `daskfs.Mission` with the same names, and what follows."""

    data: DataShape
    model: ModelShape
    """Shape of the model; its active features are candidates if there is a choice."""
    n_features_to_select: int | None
    n_epochs: int
    learning_rate: float | None
    intercept_rate: float
    tail_half_life: float | None
    block_rows: int
    n_replicas: int
    sync_every: int
    standardize: bool
    is_stream: bool
    """Whether rows come only once and are not all known in advance."""
    n_selected: int
    """Largest number of features that are selected in the end."""
    refit: str | None
    """One of "exact", "sgd" and None."""
    has_choice: bool
    """Whether the selection uses exact statistics, if only to leave out constant columns."""
    has_always: bool
    """Whether columns are always included; their numbers are in `model` as soon as names of columns are known."""
    nnz_per_row: float | None = None
    """Entries per row; None if rows are dense."""
    # from here on, known after the survey
    survey: Survey = NO_SURVEY
    target: TargetEncoding = AS_IT_IS
    rate: float = math.nan
    """Learning rate of the first row."""
    period: float = math.inf
    """Row t has learning rate ``rate / sqrt(1 + t / period)``; infinite for a constant rate."""
    step_limit: float = math.inf
    half_life: float = math.inf
    """Number of rows in which the tail halves; infinite for never."""
    is_growing: bool = False
    """Whether the half-life is in passes over the rows so far, since it is not known how many will come."""
    cuts: Cuts = ROW_BY_ROW
    """How rows are cut for reading; does not affect the result."""

    @classmethod
    def of(
        cls,
        data: DataShape,
        n_outputs: int,
        *,
        n_features_to_select: int | None,
        loss: str,
        variant: str,
        n_buckets: int | None,
        n_hashes: int,
        n_epochs: int,
        learning_rate: float | None,
        intercept_rate: float,
        tail_half_life: float | None,
        block_rows: int,
        n_replicas: int,
        sync_every: int,
        standardize: bool,
        refit: str | None,
        seed: int,
        n_candidates: int | str | None,
        per_class: bool,
        has_always: bool,
        n_gathered: int = 0,
        is_stream: bool = False,
        total_weight: float | None = None,
        nnz_per_row: float | None = None,
    ) -> Self:
        """Return the configuration before the survey.

        Parameters
        ----------
        data : DataShape
        n_outputs : int
            From `n_outputs_of`.
        n_features_to_select ... n_candidates
            As in `daskfs.Mission`, with the default values of its variant.
        variant, n_gathered
            As in `ModelShape`.
        n_hashes : int
            0: one cell for each feature.
        total_weight : float, optional
            Total weight of the rows, if they have weights: a row of weight 2 counts as two.

        Raises
        ------
        ConfigError
            More features are requested than there are.
        """
        if is_stream:
            refit, n_epochs = None, 1
        per_class, supported = per_class and n_outputs > 1, DEFAULT_N_SELECTED
        if not is_stream and variant != "hashing":
            n_rows = data.n_samples if total_weight is None else total_weight
            supported = min(supported, max(FEWEST_OF_A_DEFAULT, int(n_rows / ROWS_OF_A_DEFAULT)))
        n_selected = n_active = n_to_select(n_features_to_select, data.n_features, supported)
        if n_candidates is not None and refit is not None:
            if n_candidates == "auto":
                affordable = int(math.sqrt(CHOICE_COST / (data.n_samples * n_outputs)))
                n_candidates = min(max(CANDIDATES * n_selected, FEWEST_CANDIDATES), MOST_CANDIDATES, affordable)
            n_active = min(max(int(n_candidates), n_selected), data.n_features)
        model = ModelShape(
            n_active,
            buckets_of(n_buckets, data.n_features) if n_hashes else data.n_features,
            n_hashes,
            seed,
            n_outputs,
            loss_of_two(loss) if n_outputs == 1 else loss,
            variant,
            n_gathered,
            per_class,
        )
        if model.is_by_class:
            n_selected = min(model.most_selected, data.n_features)
        refit = chosen_refit(refit, model.loss, n_outputs, data.n_samples, n_selected)
        is_cheap = n_outputs * data.n_samples * n_active**2 <= CHOICE_COST
        return cls(
            data,
            model,
            n_features_to_select,
            n_epochs,
            learning_rate,
            intercept_rate,
            tail_half_life,
            block_rows,
            n_replicas,
            sync_every,
            standardize,
            is_stream,
            n_selected,
            refit,
            has_choice=refit is not None and n_candidates is not None and (n_active > n_selected or is_cheap),
            has_always=has_always,
            nnz_per_row=nnz_per_row,
        )

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse entries."""
        return self.nnz_per_row is not None or self.data.n_entries is not None

    @property
    def always(self) -> np.ndarray:
        """Columns that are always included, ascending, uint64."""
        return np.array(self.model.always, dtype=np.uint64)

    def order(self, n_samples: int) -> PassOrder:
        """Return the order of the rows in the passes."""
        return PassOrder(n_samples, self.block_rows, self.n_replicas, self.sync_every, self.model.seed)

    def half_life_of(self, n_samples: int) -> float:
        """Return the number of rows in which the tail halves, for a pass of so many rows; infinite for never."""
        return math.inf if self.tail_half_life is None else self.tail_half_life * n_samples

    def rate_of(self, squared_norm: float, is_constant: bool) -> tuple[float, float]:
        """Return the learning rate of the first row, and the longest step allowed, for rows of this mean ‖x‖²."""
        loss = find_loss(self.model.loss)
        if self.learning_rate is not None:
            return float(self.learning_rate), math.inf
        if self.model.is_in_sketch and loss.has_bounded_derivative:
            return PAPER_RATE, math.inf
        return loss.learning_rate * (1.0 if is_constant else 2.0) / (squared_norm or 1.0), loss.longest_step

    def rule(self, n_replicas: int) -> StepRule:
        """Return the step sizes for the kernels, for one of `n_replicas` models that are averaged afterwards.

        If the derivative of the loss is bounded, steps may be `n_replicas` times as long. Otherwise they may not, or
        each model would diverge before the average.
        """
        loss = find_loss(self.model.loss)
        return StepRule(
            loss.code,
            rate=self.rate * n_replicas,
            inverse_period=1.0 / self.period,
            step_limit=self.step_limit * (n_replicas if loss.has_bounded_derivative else 1),
            intercept_ratio=self.intercept_rate,
            row_count=float(n_replicas),
        )


def n_refit_epochs(n_epochs: int, n_samples: int) -> int:
    """Return the number of passes of a refit by stochastic gradient descent: more if a pass has few rows.

    Examples
    --------
    >>> n_refit_epochs(5, 100_000), n_refit_epochs(5, 1000), n_refit_epochs(1, 1000)
    (2, 20, 20)
    """
    return max(1 if n_epochs == 1 else 2, min(MOST_REFIT_EPOCHS, -(-REFIT_STEPS // n_samples)))


def chosen_refit(wanted: str | None, loss: str, n_outputs: int, n_samples: int, n_selected: int) -> str | None:
    """Return "exact", "sgd" or None: by default exact if Newton steps are cheap and there are enough rows.

    Raises
    ------
    ConfigError
        An exact refit is requested, and the classes and features are too many for one.
    """
    record = find_loss(loss)
    is_possible = record.has_formula_of_many_rows or (
        record.has_classes and is_affordable(n_samples, n_selected, n_outputs)
    )
    if wanted == "exact" and not is_possible:
        problem = (
            f"{n_outputs} classes and {n_selected:,} features are too many for an exact refit of {n_samples:,} rows"
        )
        raise ConfigError(problem, "refit", 'use refit="sgd"')
    if wanted != "auto":
        return wanted
    cost = n_samples * n_selected**2 * (0.5 * (n_outputs - 1) ** 2 if record.has_classes else n_outputs)
    is_few = cost <= FEW and not record.has_classes
    is_fit = record.is_quadratic or n_samples >= ROWS_PER_COLUMN * n_selected
    is_cheap = cost <= (EXACT_COST_OF_ONE_STEP if record.is_quadratic else EXACT_COST)
    return "exact" if is_possible and (is_few or (is_cheap and is_fit)) else "sgd"
