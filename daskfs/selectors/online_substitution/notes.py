"""What the reader of a result must know of how online substitution went."""

from __future__ import annotations

from typing import Any

from daskfs.matrix.base import Matrix


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
