"""The result of online substitution, and what its reader must know of how it went."""

from __future__ import annotations

from typing import Any

import numpy as np

from daskfs.matrix.base import Matrix
from daskfs.result import SelectionResult, selection_table
from daskfs.selectors.online_substitution.parameters import engine_of
from daskfs.selectors.online_substitution.stream import HISTORY


def notes_on(selector: Any, run: Any, matrix: Matrix) -> list[str]:
    """Return the notes of a result.

    Parameters
    ----------
    selector : OnlineSubstitution
    run : SubstitutionRun
        That has ended.
    matrix : Matrix
    """
    engine, members = run.engine, run.engine.members
    counters, notes = engine.counters, []
    asked, found = members.capacity, members.n_members
    if found < asked:
        notes.append(
            f"{found} features were selected, not {asked}: the other columns are constant, or combinations of these"
        )
    if members.n_fixed:
        notes.append(f"{members.n_fixed} of them were always included")
    why = "combinations of the members" if selector.rule == "exchange" else "which did not lower the loss enough"
    notes.append(
        f"{counters.n_presented:,} columns were presented in {run.n_epochs} epoch{'s' * (run.n_epochs > 1)}: "
        f"{counters.n_exchanged:,} took the place of a member, {counters.n_refused:,} were refused: {why}"
    )
    if counters.n_reverted:
        notes.append(f"{counters.n_reverted:,} blocks of columns were undone, because the loss rose with them")
    if engine.rule.ridge > 0.0:
        notes.append(f"a ridge of {engine.rule.ridge:g} on standardised weights while selecting, none in the refit")
    return notes


def result_of(
    selector: Any, run: Any, matrix: Matrix, promised: int, memory_limit: int | None, notes: list[str]
) -> SelectionResult:
    """Return the result of a selector whose attributes are set.

    Parameters
    ----------
    selector, run, matrix : as in `notes_on`
    promised : int
        Bytes that the plan stated; 0 where there was no plan.
    memory_limit : int or None
    notes : list of str
    """
    selected, names = selector.selected_, matrix.names.given
    table = selection_table(selected, selector.coef_[selected], selector.scores_[selected], names)
    parameters = {**selector.get_params(deep=False), "n_features_to_select": run.engine.members.capacity}
    parameters["engine"] = engine_of(selector)
    del parameters["client"]
    memory: dict[str, Any] = {"members_nbytes": run.engine.members.nbytes}
    memory |= {"promised_nbytes": {"client": promised}} if promised else {}
    memory |= {} if memory_limit is None else {"limit_nbytes": {"client": memory_limit}}
    history = np.array(run.history).reshape(-1, len(HISTORY))
    return SelectionResult(
        method=selector.method,
        score_kind=selector.score_kind,
        history_kind=selector.history_kind,
        table=table,
        intercept=selector.intercept_,
        parameters=parameters,
        n_samples=int(matrix.shape[0]),
        n_features=int(matrix.shape[1]),
        history=type(table)({name: history[:, q] for q, name in enumerate(HISTORY)}),
        scores=selector.scores_,
        feature_names=names,
        store_digest=matrix.identity,
        memory=memory,
        communication=run.communication,
        time=run.seconds,
        notes=notes,
    )
