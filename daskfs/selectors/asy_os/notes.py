"""What a reader of the result must know of how asynchronous online substitution went."""

from __future__ import annotations

from typing import Any


def notes_on(selector: Any, run: Any, shape: Any, n_new: int, fit: Any) -> list[str]:
    """Return the notes of a result.

    Parameters
    ----------
    selector : AsyncOnlineSubstitution
    run : AsyncRun
        That has ended.
    shape : AsyncShape
    n_new : int
        Columns that were selected after the workers had ended.
    fit : SelectedFit
    """
    counts, notes = run.counts, []
    if shape.in_turn and selector.schedule == "asynchronous":
        notes.append("there is no cluster: the workers took turns in this process, which is deterministic")
    held, n_selected = sum(len(share.columns) for share in run.shares), len(selector.selected_)
    n_dropped = held + n_new - n_selected
    together = f"held {held} columns together" if shape.n_workers > 1 else f"held {held} columns"
    dropped = f"; the {n_dropped} whose removal cost least were dropped at the end" if n_dropped > 0 else ""
    notes.append(f"{shape.n_workers} worker{'s' * (shape.n_workers > 1)} {together}{dropped}")
    if n_new:
        why = "many had met one worker only" if run.is_lopsided else "workers had places left"
        notes.append(f"{n_new} features came in when columns were presented once more at the end, for {why}")
    if n_selected < shape.n_selected:
        notes.append(
            f"{n_selected} features were selected, not {shape.n_selected}: the other columns are constant, or "
            "combinations of these"
        )
    refused = counts["rising"] + counts["stale"] + counts["improper"]
    notes.append(
        f"{counts['accepted']:,.0f} pushes were accepted and {refused:,.0f} refused: {counts['rising']:,.0f} with "
        f"which the objective would have risen, {counts['stale']:,.0f} of a prediction that was too old; "
        f"the oldest accepted was {counts['worst_staleness']:,.0f} versions old"
    )
    if run.n_nodes_lost:
        notes.append(f"the central node was lost and made anew {run.n_nodes_lost} times")
    if fit.is_separable:
        notes.append("the selected features tell the classes apart without error: a weak ridge bounds the fit")
    return notes


def communication_of(run: Any) -> dict[str, int]:
    """Return calls of the central node and bytes that were pushed."""
    return {
        "n_calls": sum(spent.n_calls for spent in run.spent),
        "pushed": sum(spent.sent_nbytes for spent in run.spent),
    }


def times_of(run: Any) -> dict[str, float]:
    """Return seconds: of the selection, and of all workers together what they spent on what."""
    parts = {name: sum(getattr(spent, name) for spent in run.spent) for name in ("calls_s", "computing_s", "reading_s")}
    return {"select": run.run.seconds["select"], **{f"workers-{name[:-2]}": seconds for name, seconds in parts.items()}}
