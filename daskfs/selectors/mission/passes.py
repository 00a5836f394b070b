"""The passes over the rows of a store: the order of the rows, the tasks, and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

import numpy as np

from daskfs.cluster.workers import Round
from daskfs.matrix.blocks import packed
from daskfs.selectors.mission.fit import Line, MissionFit
from daskfs.selectors.mission.model import ModelState
from daskfs.selectors.mission.rounds import Unit
from daskfs.selectors.mission.training import RowRange, train_on_rows
from daskfs.selectors.mission.variants import merged, settled
from daskfs.selectors.shared.record import Record
from daskfs.selectors.shared.run import Run

LEG_TASKS, CHAIN_TASKS = 64, 256
"""Largest number of tasks before the client receives a model, and before it waits for one."""


@dataclass(frozen=True, slots=True)
class TrainingRound:
    """The training between two averages of the models."""

    number: int
    """Number of the pass."""
    units: list[Unit]
    """One unit for each model."""
    is_report: bool
    """Whether a line of the history and a checkpoint follow."""
    frozen: bool
    with_sums: bool
    """`frozen` and `with_sums` are as in `RowRange`."""

    @property
    def n_rows(self) -> int:
        """Number of rows for all models."""
        return sum(stop - start for blocks in self.units for start, stop in blocks)


@dataclass(frozen=True, slots=True)
class KeptPasses(Record):
    """The state of the passes in a checkpoint."""

    state: ModelState
    history: np.ndarray
    """Shape (n_lines, len(HISTORY))."""
    n_done: int


def learn(run: Run, fit: MissionFit, step: str, first: int, n_passes: int, *, frozen: bool = False) -> MissionFit:
    """Return the fit after `n_passes` passes over all rows.

    Parameters
    ----------
    run : Run
        Over the rows in the order of the first pass.
    fit : MissionFit
        The model to start from; its cells may be changed.
    step : str
    first : int
        Number of the first pass; pass 0 is in the order of the rows.
    n_passes : int
    frozen : bool
        Whether the set of active features stays the same; the first such pass returns sums over their columns.
    """
    config, model, state, history = fit.config, fit.config.model, fit.state, fit.history
    order, n_done, is_stream = config.order(run.shape.n_samples), 0, bool(fit.history.progressive)
    rounds = [
        TrainingRound(number, units, is_report, frozen, with_sums=frozen and number == first)
        for number in range(first, first + n_passes)
        for units, is_report in order.rounds(number)
    ]
    kept = run.load(step, KeptPasses)
    if kept is not None:  # an interrupted run goes on
        state, n_done = kept.state, min(kept.n_done, len(rounds))
        history = replace(history, lines=[Line(*line) for line in kept.history.tolist()])
        history = replace(history, counted=(state.loss_sum, state.weight_sum))
    # each model learns from its rows, and the models are averaged after every round
    chain = Round(train_on_rows, partial(merged, model), partial(settled, model))
    with run.reported(step, len(rounds), n_done) as advance, run.timed(step):
        for legs in _chains(rounds[n_done:]):
            seen = state.rows_seen
            begins = iter(accumulate((one.n_rows for leg in legs for one in leg), initial=seen))
            parts = [[_parts(run, one, next(begins)) for one in leg] for leg in legs]
            states = run.chain(step, chain, parts, replace(state, sums=None), run.keep(config))
            for leg, found in zip(legs, states, strict=True):
                seen += sum(one.n_rows for one in leg)
                sums = [one.sums for one in (state, found) if one.sums is not None]
                state = replace(found, rows_seen=seen, sums=sum(sums[1:], sums[0]) if sums else None)
                n_done += len(leg)
                if leg[-1].is_report:
                    number = leg[-1].number + 1
                    history = history.after(number, seen, state.standing(model), is_stream)
                    n_seen = state.rows_seen / max(1, run.shape.n_samples)
                    run.learn("pass", n_seen, history.lines[-1].mean_loss, partial(_largest, state))
                    run.save_so_far(step, partial(KeptPasses, state, np.array(history.lines), n_done))
                advance(len(leg))
    return replace(fit, state=state, history=history, seconds=run.seconds, nbytes=run.nbytes)


def _parts(run: Run, one: TrainingRound, rows_seen: float) -> list[RowRange]:
    """Return the rows of each model in a round."""
    n_models = len(one.units)
    in_place = n_models == 1 and run.workers.client is None
    return [
        RowRange(
            tuple(packed(run.rows(*block)) for block in blocks),
            rows_seen,
            n_models,
            i,
            one.frozen,
            in_place,
            one.with_sums,
        )
        for i, blocks in enumerate(one.units)
    ]


def _largest(state: ModelState) -> np.ndarray:
    """Return the active features, largest weights first; there are none with feature hashing."""
    entries = state.by_feature().entries
    return entries.keys[np.argsort(-np.abs(entries.weights).max(axis=1, initial=0.0), kind="stable")]


def _chains(rounds: Sequence[TrainingRound]) -> Iterator[list[list[TrainingRound]]]:
    """Yield rounds as chains of legs, in order: the client receives the state after a leg, and waits after a chain.

    A leg ends with a report, or when sums must be added. Legs and chains have limited length, because the scheduler
    keeps the tasks of a chain until it is done, and a lost worker loses all of them.
    """
    legs: list[list[TrainingRound]] = [[]]
    for one in rounds:
        legs[-1].append(one)
        if one.is_report or one.with_sums or _n_tasks(legs[-1:]) >= LEG_TASKS:
            if _n_tasks(legs) >= CHAIN_TASKS:
                yield legs
                legs = []
            legs.append([])
    if legs[0]:
        yield [leg for leg in legs if leg]


def _n_tasks(legs: list[list[TrainingRound]]) -> int:
    return sum(len(one.units) for leg in legs for one in leg)
